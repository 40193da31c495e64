// Recomputation: kernels that run again, right before what reads their buffers, so that these need not live in between. The
// order of the kernels that there are is kept.
//
//   0 makes a   1 reads a   ..   8 reads a      ->      0 makes a   1 reads a   ..   0 makes a   8 reads a
//
// Same answer with every compiler, optimisation level and run: limits are counts, orders are total.
#ifndef TN_IR_SCHEDULE_RECOMPUTE_H
#define TN_IR_SCHEDULE_RECOMPUTE_H

#include "ir/schedule/schedule.h"

// How a buffer is made again: by its kernel, or by the part of it that follows other buffers of the kernel. The part is taken
// where these are there.
typedef enum { MAKE_KERNEL, MAKE_PART, N_MAKES } Make;
typedef struct {
  int64_t ns;         // below 0: it cannot be made so
  uint32_t first, n;  // what is read: RecomputeProblem.source[first ..]
} MakeAgain;

// What reads the buffer behind kernel `at` reads it as it was made again, right before the first of these.
typedef struct {
  uint32_t buffer, at;
} Split;

typedef struct {
  SchedProblem p;           // in the order of its numbers; `dep` is not asked
  const MakeAgain *make;    // by buffer: N_MAKES ways
  const uint32_t *source;   // buffers
  const uint32_t *until;    // by buffer: it cannot be made again before this kernel or a later one
  const int64_t *constant;  // by kernel: bytes that live beside buffers and scratch
  const int64_t *ns;        // by kernel
  const bool *has_effect;   // by kernel: it runs once, whoever reads its buffers
  const Split *asked;       // every sequence has them, but for those that cannot be made again so late
  uint32_t n_asked;
  int64_t most_ns;     // a sequence in which far more time runs again is given up; 0: any
  int64_t most_units;  // of the search; 0: as many as there are for a limit
} RecomputeProblem;

typedef struct {
  uint32_t kernel;
  bool again;
  uint8_t make;
  uint32_t first_made, n_made;  // Recompute.made[first_made ..]: buffers that are read
} RecomputeStep;

typedef struct {
  bool is_met;
  RecomputeStep *steps;
  uint32_t n, *made;
  int64_t peak;      // INT64_MAX: there is no sequence
  int64_t ns;        // of what runs again
  uint32_t n_asked;  // of the splits that were asked for: those that it has
} Recompute;

// A sequence of kernels whose live bytes are at most `budget`, of which little time runs again beside what was asked for;
// where none was found, the one with the fewest that was seen. *spent: units of the search, of all calls that share a
// limit; begins with 0.
Recompute ir_recompute(const RecomputeProblem *p, int64_t budget, int64_t *spent, RtArena *mem);

// On the way down: sequences of the same problem, each with fewer live bytes than the one before it. The first is what was asked
// for. Which ones there are depends on the problem alone.
typedef struct RecomputeDescent RecomputeDescent;
RecomputeDescent *ir_recompute_descent(const RecomputeProblem *p, RtArena *mem);
bool ir_recompute_descend(RecomputeDescent *d, Recompute *r);  // false: there is no other
// For a budget that the last of them keeps: the sequence of least time that is found from there, from the one before it, and anew.
Recompute ir_recompute_between(RecomputeDescent *d, int64_t budget);

#endif
