// Inside of the room: the sequence of kernels that follows from a list of splits, and what one more move would change.
#ifndef TN_IR_SCHEDULE_RECOMPUTE_WALK_H
#define TN_IR_SCHEDULE_RECOMPUTE_WALK_H

#include "ir/schedule/recompute.h"

typedef struct {
  uint32_t kernel, at;                              // at: the kernel of the given order that it is, or runs before
  int64_t held, live, ns;                           // bytes before it, while it runs; of one that runs again
  uint32_t first_read, n_read, first_made, n_made;  // versions
  uint8_t make;
  bool again, runs;
} Item;

typedef struct {
  uint32_t buffer, maker, last;  // items
  uint32_t seen;                 // the last item that was looked at, + 1
  bool is_read;
} Version;

// What is being made again, before what reads it: buffers of one kernel, Walk.making[first .. behind)
typedef struct {
  uint32_t buffer, first, behind, next, n_seen;  // n_seen: sources of making[next] that were looked at
  uint8_t make;
} Making;

typedef struct Trial Trial;

typedef struct {
  const RecomputeProblem *p;
  RtArena *mem;
  Trial *trial;
  int64_t budget;
  SchedLists reads_of, makes_of;  // by kernel: buffers
  Split *splits;                  // the plan; the first n_asked were asked for
  uint32_t n_asked, n_splits, cap_splits;
  Split *lowest_splits;  // of the lowest peak that was seen
  uint32_t n_lowest, cap_lowest;
  int64_t lowest;
  // the sequence of the plan
  uint32_t *first_split, *split_at, cap_split_at;  // by buffer, rising
  uint32_t *n_passed;                              // by buffer: splits that have been passed
  uint32_t *n_made;                                // by buffer: those after which it was made again
  uint32_t *version;                               // by buffer: the newest
  Item *items;
  Version *versions;
  uint32_t *reads, *making;  // versions by item; buffers that are being made
  Making *open;
  uint32_t n_open, cap_open, n_items, cap_items, n_versions, cap_versions, n_reads, cap_reads, n_making, cap_making;
  // what came of it
  bool is_late;  // something is made again where that is not possible any more
  bool *late;    // by buffer: since keep_possible began
  uint32_t peak_item;
  int64_t peak, above, ns;
  int64_t spent, most;  // units of the search, and when it ends
} Walk;

static inline const MakeAgain *walk_way(const Walk *w, uint32_t b, uint32_t make) {
  return &w->p->make[b * N_MAKES + make];
}

static inline int64_t walk_least_ns(const Walk *w, uint32_t b) {  // below 0: it cannot be made again
  int64_t kernel = walk_way(w, b, MAKE_KERNEL)->ns, part = walk_way(w, b, MAKE_PART)->ns;
  return kernel < 0 || (part >= 0 && part < kernel) ? part : kernel;
}

static inline uint32_t walk_last_user(const RecomputeProblem *p, uint32_t b) {
  return p->p.first_user[b] < p->p.first_user[b + 1] ? p->p.user[p->p.first_user[b + 1] - 1] : p->p.maker[b];
}

Walk ir_recompute_begin(const RecomputeProblem *p, RtArena *mem);
void ir_recompute_walk(Walk *w);  // the sequence of w->splits, its bytes and time

// ---- recompute_moves.c
typedef struct {      // splits that belong together
  uint32_t first, n;  // Moves.splits
  double cost;        // ns for a byte
} Move;

enum { MOST_MOVES = 96 };
typedef struct {
  Move list[MOST_MOVES];
  Split *splits;
  uint32_t n, n_splits, cap_splits;
} Moves;
// Those of least cost that would lower what lives while the item runs, in the order of their cost
void ir_recompute_moves(Walk *w, Moves *m, uint32_t at);
int ir_recompute_by_cost(const void *a, const void *b);

// ---- recompute_improve.c
bool ir_recompute_improve(Walk *w, Moves *m);  // fewer bytes above the budget; false: no move helps
void ir_recompute_note_peak(Walk *w);          // where it is the lowest that was seen

// ---- recompute_try.c
typedef struct {
  bool is_late;
  int64_t above, ns;  // as in Walk, if it is not late
  int64_t units;      // what that took
} Tried;
Trial *ir_recompute_trial(Walk *w);
void ir_recompute_set_base(Trial *t);  // the plan was walked anew
// The plan with splits that it does not have
Tried ir_recompute_try(Trial *t, const Split *splits, uint32_t n);

#endif
