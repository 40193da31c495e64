// Schedule: an order of kernels with a low peak of the buffers that live between them, and a bound of the peak of all
// orders. Knows nothing of tensors and functions.
//
//   SchedProblem p = {.n = 3, .first_dep = (uint32_t[]){0, 0, 1, 2}, .dep = (uint32_t[]){0, 0}, ..};   // 1 and 2 wait for 0
//   uint32_t order[3];
//   Schedule s = ir_schedule(&p, order, mem);    // order: the best that was found; s.peak >= s.bound
//
// Same order with every compiler, optimisation level and run: limits are counts, keys are integers, orders are total.
#ifndef TN_IR_SCHEDULE_SCHEDULE_H
#define TN_IR_SCHEDULE_SCHEDULE_H

#include "runtime/base.h"

// Kernels are numbered in an order in which they may run: each waits for lower ones alone. A buffer lives from its maker to the
// last of its users. One without users lives while its maker runs.
typedef struct {
  uint32_t n, n_buffers;
  const uint32_t *first_dep, *dep;    // by kernel: what it waits for, users behind makers among them; n + 1 starts
  const int64_t *size;                // by buffer, bytes
  const uint32_t *maker;              // by buffer
  const uint32_t *first_user, *user;  // by buffer: kernels that read or write it, each once, its maker not
  const int64_t *scratch;             // by kernel: bytes while it runs
  const int64_t *in_place;            // by kernel: bytes of its results that may lie where what it reads last lay
  const bool *is_slot;                // by item of `user`: they may lie where this buffer lay; NULL: where any did
} SchedProblem;

typedef struct {
  int64_t peak, bound;  // of the order; of all orders
  bool is_least;        // no order has a lower peak: the bound, or a search to its end, shows it
  int64_t spent;        // units of the search
} Schedule;

// order: the one with the lowest peak that was found; that of the numbers where none is lower.
Schedule ir_schedule(const SchedProblem *p, uint32_t *order, RtArena *mem);
// *order, or one that was drawn, of a few hundred, whose peak is lower; false: there is none.
bool ir_schedule_draw(const SchedProblem *p, uint32_t *order, RtArena *mem);
int64_t ir_schedule_peak(const SchedProblem *p, const uint32_t *order, RtArena *mem);
// A team waits before a kernel that waits for one behind the last time it waited. Kernels further on that need not are moved
// before it, where the peak stays within the cap. How often the team waits.
uint32_t ir_schedule_waits(const SchedProblem *p, uint32_t *order, int64_t cap, RtArena *mem);
// Kernels that free at least so much more than they make run as soon as they may, where the peak stays within the cap.
void ir_schedule_free_early(const SchedProblem *p, uint32_t *order, int64_t cap, int64_t least, RtArena *mem);

// ---- in the order of the numbers
typedef struct {
  int64_t bytes;
  uint32_t kernel;  // while it runs
} SchedBound;
SchedBound ir_schedule_bound(const SchedProblem *p, int64_t peak, RtArena *mem);  // of all orders; peak: of this one
int64_t *ir_schedule_live(const SchedProblem *p, RtArena *mem);                   // by kernel: bytes while it runs

// ---- lists of a problem
typedef struct {
  uint32_t of, by;
} SchedPair;
typedef struct {
  uint32_t *first, *list;  // of k: list[first[k]] up to before list[first[k + 1]]
} SchedLists;
// What pairs have by each of n, in the order of the pairs.
SchedLists ir_schedule_lists(const SchedPair *pairs, uint32_t n_pairs, uint32_t n, RtArena *mem);

#endif
