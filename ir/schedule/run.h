// Inside of the room: kernels that are done one after another, and may be taken back.
#ifndef TN_IR_SCHEDULE_RUN_H
#define TN_IR_SCHEDULE_RUN_H

#include "ir/schedule/schedule.h"

enum { SCHED_MOST_KERNELS = 4096 };  // more: orders are not searched, and the bound is of single kernels

typedef struct {
  const SchedProblem *p;
  const uint32_t *first_read, *read;  // by kernel: buffers that it uses and does not make
  const uint32_t *use;                // by item of `read`: that of p->user
  const uint32_t *first_succ, *succ;  // by kernel: what waits for it
  const int64_t *made, *dead;         // by kernel: bytes of its buffers; of those that no other uses
  const uint64_t *key;                // by kernel: a number for sets
  uint32_t *n_users, *rest;           // by buffer: users that are not done; the exclusive or of their items of p->user
  uint32_t *n_waits;                  // by kernel: what it waits for that is not done
  int64_t *freed, *slots;             // by kernel: bytes that it alone still keeps; of them, where its results may lie
  uint32_t *ready, n_ready, *at;      // kernels that may run; by kernel: its index there
  uint32_t *done, n_done;
  int64_t held, largest;  // bytes between kernels; while one ran
  uint64_t set;           // of what is done
} Run;

Run ir_sched_run(const SchedProblem *p, RtArena *mem);
void ir_sched_do(Run *r, uint32_t k);
void ir_sched_undo(Run *r);  // the last one; `largest` is not taken back
static inline int64_t sched_net(const Run *r, uint32_t k) { return r->made[k] - r->dead[k] - r->freed[k]; }
static inline int64_t sched_need(const Run *r, uint32_t k) {  // bytes above what is held, while it runs
  int64_t shared = r->p->in_place[k] < r->slots[k] ? r->p->in_place[k] : r->slots[k];
  return r->made[k] + r->p->scratch[k] - shared;
}

// orders.c: done kernel by kernel by a rule; the peak
enum { SCHED_RULES = 4 };
int64_t ir_sched_greedy(Run *r, uint32_t rule);
int64_t ir_sched_drawn(Run *r, uint64_t draw);  // number `draw` of many orders that are drawn
int64_t ir_sched_moved(Run *r, const uint32_t *place, uint32_t k, uint32_t to);  // an order with one kernel elsewhere

// search.c: an order within the cap, which is left in r->done
typedef enum { SCHED_FOUND, SCHED_NONE, SCHED_GAVE_UP } SchedAnswer;
typedef struct SchedSearch SchedSearch;
SchedSearch *ir_sched_search(Run *r, RtArena *mem);
SchedAnswer ir_sched_decide(SchedSearch *s, int64_t cap, int64_t *spent);

#endif
