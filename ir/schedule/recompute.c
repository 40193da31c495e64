// A plan is a list of splits. Each plan is judged by the whole sequence that follows from it. As long as too much lives anywhere, splits are added for what
// lives at the peak (recompute_improve.c). At a budget: splits that are not needed are taken back. On the way down: each target begins with the plan of
// the last.
#include "ir/schedule/recompute_walk.h"

enum { MOST_SPENT = 12000000 };

// ---- sequences of a plan
static Recompute result_of(const Walk *w) {
  Recompute r = {.is_met = w->above == 0, .peak = w->peak, .ns = w->ns, .n_asked = w->n_asked};
  r.steps = rt_alloc(w->mem, (w->n_items + 1) * sizeof *r.steps);
  r.made = rt_alloc(w->mem, (w->n_versions + 1) * sizeof *r.made);
  uint32_t n_made = 0;
  for (uint32_t i = 0; i < w->n_items; i++) {
    const Item *item = &w->items[i];
    if (!item->runs) continue;
    RecomputeStep *s = &r.steps[r.n++];
    *s = (RecomputeStep){item->kernel, item->again, item->make, n_made, 0};
    for (uint32_t v = item->first_made; v < item->first_made + item->n_made; v++)
      if (w->versions[v].is_read) r.made[n_made++] = w->versions[v].buffer, s->n_made++;
  }
  return r;
}

static void take_splits(Walk *w, const Split *list, uint32_t n) {
  w->n_splits = 0;
  for (uint32_t i = 0; i < n; i++) *RT_PUSH(w->mem, w->splits, w->n_splits, w->cap_splits) = list[i];
  ir_recompute_walk(w);
}

// The sequence of the lowest peak that was seen
static Recompute lowest_of(Walk *w) {
  if (w->lowest == INT64_MAX) return (Recompute){.peak = INT64_MAX, .n_asked = w->n_asked};
  take_splits(w, w->lowest_splits, w->n_lowest);
  return result_of(w);
}

// The plan of what was asked for, without buffers that cannot be made again so late.
static void keep_possible(Walk *w) {
  const RecomputeProblem *p = w->p;
  for (uint32_t i = 0; i < p->n_asked; i++)
    if (walk_least_ns(w, p->asked[i].buffer) >= 0)
      *RT_PUSH(w->mem, w->splits, w->n_splits, w->cap_splits) = p->asked[i];
  for (ir_recompute_walk(w); w->is_late; ir_recompute_walk(w)) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n_splits; i++)
      if (!w->late[w->splits[i].buffer]) w->splits[n++] = w->splits[i];
    w->n_splits = n;
  }
  w->n_asked = w->n_splits;
}

// ---- at a budget
// Splits without which the budget is met in no more time are taken back, last first.
static void prune(Walk *w) {
  for (uint32_t i = w->n_splits; i-- > w->n_asked && w->spent < w->most;) {
    Split last = w->splits[w->n_splits - 1], tried = w->splits[i];
    int64_t ns = w->ns;
    w->splits[i] = last, w->n_splits--;
    ir_recompute_walk(w);
    if (!w->is_late && w->above == 0 && w->ns <= ns) continue;
    w->splits[i] = tried, w->splits[w->n_splits++] = last, w->ns = ns;
  }
  ir_recompute_walk(w);
}

// What is pruned later takes time until then.
static bool may_go_on(const Walk *w) {
  enum { SLACK = 2 };
  return w->spent < w->most && (!w->p->most_ns || w->ns <= SLACK * w->p->most_ns);
}

Recompute ir_recompute(const RecomputeProblem *p, int64_t budget, int64_t *spent, RtArena *mem) {
  enum { ROUNDS = 6, PERCENT = 93 };
  Walk w = ir_recompute_begin(p, mem);
  w.spent = *spent, w.most = p->most_units ? p->most_units : MOST_SPENT;
  Moves m = {0};
  Recompute best = {0};
  keep_possible(&w);
  w.trial = ir_recompute_trial(&w);
  int64_t ns = w.ns, target = budget;
  for (uint32_t k = 0; k < ROUNDS && w.spent < w.most; k++, target = target / 100 * PERCENT) {
    w.n_splits = w.n_asked, w.budget = target;
    ir_recompute_walk(&w);
    for (ir_recompute_note_peak(&w); w.above > 0 && may_go_on(&w) && ir_recompute_improve(&w, &m);)
      ir_recompute_note_peak(&w);
    bool is_reached = w.above == 0;
    w.budget = budget;
    ir_recompute_walk(&w);
    if (w.above == 0) prune(&w);
    bool is_met = w.above == 0;
    if (is_met && (!best.is_met || w.ns < best.ns)) best = result_of(&w);
    if ((is_met && w.ns == ns) || (!is_met && p->most_ns)) break;
    if (best.is_met && !is_reached) break;  // a lower target takes more time for less
  }
  *spent = w.spent;
  return best.is_met ? best : lowest_of(&w);
}

// ---- on the way down
struct RecomputeDescent {
  Walk w;
  Moves moves;
  int64_t target, last;  // last: bytes of the last sequence
  Split *above;          // the plan of the one before it
  uint32_t n_above, cap_above;
  int64_t spent;  // of ir_recompute_between, all calls
};

RecomputeDescent *ir_recompute_descent(const RecomputeProblem *p, RtArena *mem) {
  RecomputeDescent *d = rt_alloc(mem, sizeof *d);
  d->w = ir_recompute_begin(p, mem);
  d->w.budget = d->last = INT64_MAX, d->w.most = MOST_SPENT;
  keep_possible(&d->w);
  d->w.trial = ir_recompute_trial(&d->w);
  ir_recompute_note_peak(&d->w);
  return d;
}

static void keep_above(RecomputeDescent *d) {
  d->n_above = 0;
  for (uint32_t i = 0; i < d->w.n_splits; i++) *RT_PUSH(d->w.mem, d->above, d->n_above, d->cap_above) = d->w.splits[i];
}

static bool go_below(Walk *w, Moves *m, int64_t budget) {
  w->budget = budget;
  ir_recompute_walk(w);
  while (w->above > 0 && w->spent < w->most && ir_recompute_improve(w, m)) ir_recompute_note_peak(w);
  return w->above == 0;
}

// The lowest that was seen, where it is lower than the last
static bool end_descent(RecomputeDescent *d, Recompute *r) {
  Walk *w = &d->w;
  if (w->lowest >= d->last) return false;
  d->last = w->lowest;
  *r = lowest_of(w);
  return true;
}

bool ir_recompute_descend(RecomputeDescent *d, Recompute *r) {
  enum { PERCENT = 88, MOST_STUCK = 6 };
  Walk *w = &d->w;
  if (d->last == INT64_MAX) {
    d->last = d->target = w->peak;
    *r = result_of(w);
    return true;
  }
  keep_above(d);
  for (uint32_t n = 0; n < MOST_STUCK && w->spent < w->most; n++) {
    while (d->target > 0 && d->target >= w->peak) d->target = d->target / 100 * PERCENT;
    if (d->target == 0) break;
    bool is_reached = go_below(w, &d->moves, d->target);
    d->target = d->target / 100 * PERCENT;
    if (!is_reached) continue;
    d->last = w->peak;
    *r = result_of(w);
    return true;
  }
  return end_descent(d, r);
}

// The plan without what it does not need for the budget, where that takes less time than what there is.
static void take_pruned(Walk *w, int64_t budget, Recompute *best) {
  w->budget = budget;
  ir_recompute_walk(w);
  if (w->above > 0) return;
  prune(w);
  if (!best->is_met || w->ns < best->ns) *best = result_of(w);
}

Recompute ir_recompute_between(RecomputeDescent *d, int64_t budget) {
  enum { UNITS = 4000000, UNITS_ANEW = 1000000 };
  Walk *w = &d->w;
  RecomputeProblem p = *w->p;
  int64_t spent = 0;
  Split *below = NULL;
  uint32_t n_below = 0, cap = 0;
  Recompute best = {0};
  for (uint32_t i = 0; i < w->n_splits; i++) *RT_PUSH(w->mem, below, n_below, cap) = w->splits[i];
  w->spent = d->spent, w->most = UNITS;
  take_splits(w, d->above, d->n_above);
  if (go_below(w, &d->moves, budget)) take_pruned(w, budget, &best);
  take_splits(w, below, n_below);
  d->spent = w->spent;
  if (p.most_ns && best.is_met && best.ns <= p.most_ns) return best;
  if (!p.most_ns) take_pruned(w, budget, &best);
  p.most_units = UNITS_ANEW;
  Recompute anew = ir_recompute(&p, budget, &spent, w->mem);
  d->spent = w->spent + spent;
  return anew.is_met && (!best.is_met || anew.ns < best.ns) ? anew : best;
}
