// A plan is a list of splits. Each plan is judged by the whole sequence that follows from it. As long as too much lives anywhere, splits are added for what
// lives at the peak: those that take the least time for each byte above the budget that they remove, summed over all kernels.
// Then splits that are not needed are taken back.
#include "ir/schedule/recompute_walk.h"
#include <stdlib.h>
#include <string.h>

// ---- moves: splits that belong together
typedef struct {
  uint32_t first, n;  // Moves.splits
  double cost;        // ns for a byte
} Move;

typedef struct {
  Move *list;
  Split *splits;
  uint32_t n, cap, n_splits, cap_splits;
} Moves;

enum { MOST_TRIES = 96, MOST_GOOD = 16, DEPTHS = 4, MOST_TOGETHER = 64, MOST_SPENT = 12000000 };

static bool is_planned(const Walk *w, const Moves *m, uint32_t first, Split s) {
  for (uint32_t i = first; i < m->n_splits; i++)
    if (m->splits[i].buffer == s.buffer && m->splits[i].at == s.at) return true;
  for (uint32_t i = w->first_split[s.buffer]; i < w->first_split[s.buffer + 1]; i++)
    if (w->split_at[i] == s.at) return true;
  return false;
}

// And what it is made of that nobody else reads so late, and what that is made of.
static void add_split(Walk *w, Moves *m, uint32_t first, Split s, uint32_t until, uint32_t depth) {
  const RecomputeProblem *p = w->p;
  if (!is_planned(w, m, first, s)) *RT_PUSH(w->mem, m->splits, m->n_splits, m->cap_splits) = s;
  const MakeAgain *of = walk_way(w, s.buffer, walk_way(w, s.buffer, MAKE_KERNEL)->ns < 0 ? MAKE_PART : MAKE_KERNEL);
  for (uint32_t i = of->first; depth > 0 && i < of->first + of->n && m->n_splits - first < MOST_TOGETHER; i++) {
    uint32_t b = p->source[i], last = walk_last_user(p, b);
    if (last >= until || walk_least_ns(w, b) < 0 || p->until[b] <= until) continue;
    add_split(w, m, first, (Split){b, last > s.at ? last : s.at}, until, depth - 1);
  }
}

static uint32_t next_user(const RecomputeProblem *p, uint32_t b, uint32_t t) {
  for (uint32_t i = p->p.first_user[b]; i < p->p.first_user[b + 1]; i++)
    if (p->p.user[i] > t) return p->p.user[i];
  return UINT32_MAX;
}

// Lives while the item runs, which does not use it.
static bool may_split(const Walk *w, uint32_t item, uint32_t version) {
  const Version *v = &w->versions[version];
  const RecomputeProblem *p = w->p;
  uint32_t b = v->buffer, t = w->items[item].at, last = w->items[v->last].at;
  if (!v->is_read || v->seen == UINT32_MAX || p->p.maker[b] >= t || last <= t) return false;
  return walk_least_ns(w, b) >= 0 && p->p.size[b] > 0 && p->until[b] > last;
}

// A move for each depth that adds splits.
static void add_moves(Walk *w, Moves *m, uint32_t t, const uint32_t *versions, uint32_t n) {
  uint32_t before = 0;
  int64_t bytes = 0, ns = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t b = w->versions[versions[i]].buffer;
    bytes += w->p->p.size[b], ns += walk_least_ns(w, b);
  }
  for (uint32_t depth = 0; depth < DEPTHS; depth++) {
    uint32_t first = m->n_splits;
    for (uint32_t i = 0; i < n; i++) {
      const Version *v = &w->versions[versions[i]];
      uint32_t next = next_user(w->p, v->buffer, t), last = w->items[v->last].at;
      add_split(w, m, first, (Split){v->buffer, t}, next < last ? next : last, depth);
    }
    if (m->n_splits - first <= before) m->n_splits = first;
    if (m->n_splits == first) return;
    before = m->n_splits - first;
    *RT_PUSH(w->mem, m->list, m->n, m->cap) = (Move){first, before, (double)ns / (double)bytes};
  }
}

static int by_cost(const void *a, const void *b) {
  const Move *x = a, *y = b;
  if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
  return x->first < y->first ? -1 : x->first > y->first;
}

static void set_seen(Walk *w, const Item *item, uint32_t seen) {
  for (uint32_t r = item->first_read; r < item->first_read + item->n_read; r++) w->versions[w->reads[r]].seen = seen;
}

// Each buffer alone, and those that one kernel makes together.
static void find_moves(Walk *w, Moves *m, uint32_t at) {
  enum { MOST_OF_KERNEL = 8 };
  const Item *peak = &w->items[at];
  m->n = m->n_splits = 0;
  set_seen(w, peak, UINT32_MAX);
  for (uint32_t i = 0; i < at; i++) {
    uint32_t group[MOST_OF_KERNEL], n = 0;
    const Item *item = &w->items[i];
    for (uint32_t v = item->first_made; v < item->first_made + item->n_made && n < MOST_OF_KERNEL; v++)
      if (may_split(w, at, v)) group[n++] = v;
    for (uint32_t g = 0; g < n; g++) add_moves(w, m, peak->at, &group[g], 1);
    if (n > 1) add_moves(w, m, peak->at, group, n);
  }
  set_seen(w, peak, 0);
  w->spent += m->n_splits + at;
  if (m->n) qsort(m->list, m->n, sizeof *m->list, by_cost);
}

// ---- search
static Tried try_move(Walk *w, const Moves *m, const Move *move) {
  Tried t = ir_recompute_try(w->trial, m->splits + move->first, move->n);
  w->spent += t.units;
  return t;
}

static void apply(Walk *w, const Moves *m, const Move *move) {
  for (uint32_t i = 0; i < move->n; i++)
    *RT_PUSH(w->mem, w->splits, w->n_splits, w->cap_splits) = m->splits[move->first + i];
  ir_recompute_walk(w);
  ir_recompute_set_base(w->trial);
}

static void note_peak(Walk *w) {
  if (w->is_late || w->peak >= w->lowest) return;
  w->lowest = w->peak, w->n_lowest = 0;
  for (uint32_t i = 0; i < w->n_splits; i++)
    *RT_PUSH(w->mem, w->lowest_splits, w->n_lowest, w->cap_lowest) = w->splits[i];
}

static double cost_of(const Walk *w, Tried t) { return (double)(t.ns - w->ns) / (double)(w->above - t.above); }

// The best of the moves at an item that are tried, and further ones that are nearly as good. False: none helps.
static bool improve_at(Walk *w, Moves *m, uint32_t at) {
  const double NEARLY = 1.3;
  uint32_t n_good = 0;
  Move good[MOST_GOOD];
  find_moves(w, m, at);
  ir_recompute_set_base(w->trial);
  for (uint32_t i = 0; i < m->n && i < MOST_TRIES && n_good < MOST_GOOD; i++) {
    Tried t = try_move(w, m, &m->list[i]);
    if (t.is_late || t.above >= w->above) continue;
    good[n_good] = m->list[i];
    good[n_good++].cost = cost_of(w, t);
  }
  qsort(good, n_good, sizeof *good, by_cost);
  for (uint32_t i = 0; i < n_good && w->above > 0; i++) {
    Tried t = try_move(w, m, &good[i]);
    if (!t.is_late && t.above < w->above && (i == 0 || cost_of(w, t) <= NEARLY * good[0].cost)) apply(w, m, &good[i]);
  }
  return n_good > 0;
}

// At the peak, else at other items that are higher than their neighbours, highest first.
static bool improve(Walk *w, Moves *m) {
  enum { MOST_ITEMS = 12 };
  int64_t below = INT64_MAX;
  for (uint32_t n = 0, at = w->peak_item; n < MOST_ITEMS; n++) {
    if (improve_at(w, m, at)) return true;
    below = w->items[at].live;
    int64_t most = w->budget;
    bool is_found = false;
    for (uint32_t i = 0; i < w->n_items; i++) {
      const Item *item = &w->items[i];
      if (!item->runs || item->live <= most || item->live >= below) continue;
      most = item->live, at = i, is_found = true;
    }
    if (!is_found) return false;
  }
  return false;
}

// Splits without which the budget is met in no more time are taken back, last first.
static void prune(Walk *w) {
  for (uint32_t i = w->n_splits; i-- > w->n_asked && w->spent < MOST_SPENT;) {
    Split last = w->splits[w->n_splits - 1], tried = w->splits[i];
    int64_t ns = w->ns;
    w->splits[i] = last, w->n_splits--;
    ir_recompute_walk(w);
    if (!w->is_late && w->above == 0 && w->ns <= ns) continue;
    w->splits[i] = tried, w->splits[w->n_splits++] = last, w->ns = ns;
  }
  ir_recompute_walk(w);
}

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

// The sequence of the lowest peak that was seen
static Recompute lowest_of(Walk *w) {
  if (w->lowest == INT64_MAX) return (Recompute){.peak = INT64_MAX, .n_asked = w->n_asked};
  w->n_splits = 0;
  for (uint32_t i = 0; i < w->n_lowest; i++)
    *RT_PUSH(w->mem, w->splits, w->n_splits, w->cap_splits) = w->lowest_splits[i];
  ir_recompute_walk(w);
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

// What is pruned later takes time until then.
static bool may_go_on(const Walk *w) {
  enum { SLACK = 2 };
  return w->spent < MOST_SPENT && (!w->p->most_ns || w->ns <= SLACK * w->p->most_ns);
}

Recompute ir_recompute(const RecomputeProblem *p, int64_t budget, int64_t *spent, RtArena *mem) {
  enum { ROUNDS = 6, PERCENT = 93 };
  Walk w = ir_recompute_begin(p, mem);
  w.spent = *spent;
  Moves m = {0};
  Recompute best = {0};
  keep_possible(&w);
  w.trial = ir_recompute_trial(&w);
  int64_t ns = w.ns, target = budget;
  for (uint32_t k = 0; k < ROUNDS && w.spent < MOST_SPENT; k++, target = target / 100 * PERCENT) {
    w.n_splits = w.n_asked, w.budget = target;
    ir_recompute_walk(&w);
    for (note_peak(&w); w.above > 0 && may_go_on(&w) && improve(&w, &m);) note_peak(&w);
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
