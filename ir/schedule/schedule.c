#include "ir/schedule/schedule.h"
#include "ir/schedule/bound.h"
#include <string.h>

static int64_t peak_of(Run *r, const uint32_t *order) {
  while (r->n_done) ir_sched_undo(r);
  r->largest = 0;
  for (uint32_t k = 0; k < r->p->n; k++) ir_sched_do(r, order[k]);
  return r->largest;
}

int64_t ir_schedule_peak(const SchedProblem *p, const uint32_t *order, RtArena *mem) {
  Run r = ir_sched_run(p, mem);
  return peak_of(&r, order);
}

int64_t *ir_schedule_live(const SchedProblem *p, RtArena *mem) {
  Run r = ir_sched_run(p, mem);
  int64_t *live = rt_alloc(mem, (p->n + 1) * sizeof *live);
  for (uint32_t k = 0; k < p->n; k++) {
    live[k] = r.held + sched_need(&r, k);
    ir_sched_do(&r, k);
  }
  return live;
}

SchedLists ir_schedule_lists(const SchedPair *pairs, uint32_t n_pairs, uint32_t n, RtArena *mem) {
  SchedLists l = {rt_alloc(mem, (n + 2) * sizeof *l.first), rt_alloc(mem, (n_pairs + 1) * sizeof *l.list)};
  for (uint32_t i = 0; i < n_pairs; i++) l.first[pairs[i].of + 2]++;
  for (uint32_t k = 0; k < n; k++) l.first[k + 1] += l.first[k];
  for (uint32_t i = 0; i < n_pairs; i++) l.list[l.first[pairs[i].of + 1]++] = pairs[i].by;
  return l;
}

static void keep(const Run *r, Schedule *s, int64_t peak, uint32_t *order) {
  s->peak = peak;
  memcpy(order, r->done, r->p->n * sizeof *order);
}

// By halving between the bound and the peak, first at the bound; a cap for which no order exists is a bound.
static void search(Run *r, Schedule *s, uint32_t *order, RtArena *mem) {
  enum { UNITS_OF_ALL = 100000 };
  SchedSearch *of = ir_sched_search(r, mem);
  int64_t low = s->bound;  // lower ones are not tried
  for (bool is_first = true; low < s->peak && s->spent < UNITS_OF_ALL; is_first = false) {
    int64_t cap = is_first ? low : low + (s->peak - low) / 2;
    SchedAnswer answer = ir_sched_decide(of, cap, &s->spent);
    if (answer == SCHED_FOUND) {
      memcpy(order, r->done, r->p->n * sizeof *order);
      s->peak = peak_of(r, order);
    } else {
      low = cap + 1;
      if (answer == SCHED_NONE && s->bound < low) s->bound = low;
    }
  }
}

Schedule ir_schedule(const SchedProblem *p, uint32_t *order, RtArena *mem) {
  Run r = ir_sched_run(p, mem);
  for (uint32_t k = 0; k < p->n; k++) order[k] = k;
  Schedule s = {.peak = peak_of(&r, order), .bound = ir_sched_bound_alone(&r).bytes};
  if (s.peak > s.bound && p->n <= SCHED_MOST_KERNELS) {
    s.bound = ir_sched_bound(&r, s.peak, mem).bytes;
    for (uint32_t rule = 0; rule < SCHED_RULES && s.peak > s.bound; rule++) {
      int64_t peak = ir_sched_greedy(&r, rule);
      if (peak < s.peak) keep(&r, &s, peak, order);
    }
    search(&r, &s, order, mem);
  }
  s.is_least = s.peak <= s.bound;
  return s;
}

// One kernel after another goes elsewhere, as long as no more lives at once.
static void improve(Run *r, Schedule *s, uint32_t *order, uint64_t n, RtArena *mem) {
  uint32_t *place = rt_alloc(mem, (r->p->n + 1) * sizeof *place);
  uint64_t state = n;
  for (uint32_t k = 0; k < r->p->n; k++) place[order[k]] = k;
  for (; n && s->peak > s->bound; n--) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint32_t k = (uint32_t)(state >> 33) % r->p->n, to = (uint32_t)(state >> 13) % r->p->n;
    int64_t peak = ir_sched_moved(r, place, k, to);
    if (peak > s->peak) continue;
    keep(r, s, peak, order);
    for (uint32_t i = 0; i < r->p->n; i++) place[order[i]] = i;
  }
}

bool ir_schedule_draw(const SchedProblem *p, uint32_t *order, RtArena *mem) {
  enum { KERNELS = 500000 };  // in all orders
  Run r = ir_sched_run(p, mem);
  Schedule s = {.peak = peak_of(&r, order), .bound = ir_sched_bound_alone(&r).bytes};
  int64_t first = s.peak;
  uint64_t n = p->n ? KERNELS / 2 / p->n : 0;
  for (uint64_t draw = 0; draw < n && s.peak > s.bound; draw++) {
    int64_t peak = ir_sched_drawn(&r, draw);
    if (peak < s.peak) keep(&r, &s, peak, order);
  }
  improve(&r, &s, order, n, mem);
  return s.peak < first;
}

SchedBound ir_schedule_bound(const SchedProblem *p, int64_t peak, RtArena *mem) {
  Run r = ir_sched_run(p, mem);
  SchedBound bound = ir_sched_bound_alone(&r);
  return bound.bytes < peak && p->n <= SCHED_MOST_KERNELS ? ir_sched_bound(&r, peak, mem) : bound;
}
