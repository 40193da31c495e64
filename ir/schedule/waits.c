// Kernels move forward, so that a team waits less often.
#include "ir/schedule/run.h"
#include <string.h>

typedef struct {
  Run r;
  uint32_t *order, *step, now;  // step: by kernel
} Waits;

static bool must_wait(const Waits *w, uint32_t k) {
  const SchedProblem *p = w->r.p;
  for (uint32_t i = p->first_dep[k]; i < p->first_dep[k + 1]; i++)
    if (w->step[p->dep[i]] == w->now) return true;
  return false;
}

// Kernel order[from] may run before order[at .. from).
static bool fits(Waits *w, uint32_t at, uint32_t from, int64_t cap) {
  Run *r = &w->r;
  uint32_t n_done = r->n_done;
  int64_t largest = r->largest;
  r->largest = 0;
  ir_sched_do(r, w->order[from]);
  for (uint32_t t = at; t < from && r->largest <= cap; t++) ir_sched_do(r, w->order[t]);
  bool good = r->largest <= cap;
  while (r->n_done > n_done) ir_sched_undo(r);
  r->largest = largest;
  return good;
}

uint32_t ir_schedule_waits(const SchedProblem *p, uint32_t *order, int64_t cap, RtArena *mem) {
  enum { WINDOW = 32 };
  Waits w = {.r = ir_sched_run(p, mem), .order = order, .step = rt_alloc(mem, (p->n + 1) * sizeof *w.step)};
  for (uint32_t at = 0; at < p->n; at++) {
    bool waits = must_wait(&w, order[at]);
    for (uint32_t from = at + 1; waits && from < p->n && from <= at + WINDOW; from++) {
      uint32_t k = order[from];
      if (w.r.n_waits[k] || must_wait(&w, k) || !fits(&w, at, from, cap)) continue;
      memmove(order + at + 1, order + at, (from - at) * sizeof *order);
      order[at] = k, waits = false;
    }
    w.now += waits;
    w.step[order[at]] = w.now;
    ir_sched_do(&w.r, order[at]);
  }
  return w.now;
}

static bool is_before(const uint32_t *place, uint32_t a, uint32_t b) { return b == UINT32_MAX || place[a] < place[b]; }

void ir_schedule_free_early(const SchedProblem *p, uint32_t *order, int64_t cap, int64_t least, RtArena *mem) {
  if (p->n > SCHED_MOST_KERNELS) return;
  Run r = ir_sched_run(p, mem);
  uint32_t *place = rt_alloc(mem, (p->n + 1) * sizeof *place), at = 0;
  bool *is_done = rt_alloc(mem, p->n + 1);
  for (uint32_t k = 0; k < p->n; k++) place[order[k]] = k;
  while (r.n_done < p->n) {
    uint32_t next = UINT32_MAX;
    for (uint32_t i = 0; i < r.n_ready; i++) {
      uint32_t k = r.ready[i];
      if (sched_net(&r, k) <= -least && r.held + sched_need(&r, k) <= cap && is_before(place, k, next)) next = k;
    }
    while (next == UINT32_MAX && is_done[order[at]]) at++;
    if (next == UINT32_MAX) next = order[at];
    is_done[next] = true;
    ir_sched_do(&r, next);
  }
  memcpy(order, r.done, p->n * sizeof *order);
}
