// Moves: splits of what lives while an item runs, each alone and those of one kernel together, with what they are made of.
#include "ir/schedule/recompute_walk.h"

enum { DEPTHS = 4, MOST_TOGETHER = 64 };

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

int ir_recompute_by_cost(const void *a, const void *b) {
  const Move *x = a, *y = b;
  if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
  return x->first < y->first ? -1 : x->first > y->first;
}

// Among the MOST_MOVES that cost least.
static void insert(Moves *m, Move move) {
  uint32_t at = m->n < MOST_MOVES ? m->n++ : m->n - 1;
  for (; at > 0 && m->list[at - 1].cost > move.cost; at--) m->list[at] = m->list[at - 1];
  m->list[at] = move;
}

// A move for each depth that adds splits.
static void add_moves(Walk *w, Moves *m, uint32_t t, const uint32_t *versions, uint32_t n) {
  uint32_t before = 0;
  int64_t bytes = 0, ns = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t b = w->versions[versions[i]].buffer;
    bytes += w->p->p.size[b], ns += walk_least_ns(w, b);
  }
  double cost = (double)ns / (double)bytes;
  for (uint32_t depth = 0; depth < DEPTHS; depth++) {
    if (m->n == MOST_MOVES && m->list[m->n - 1].cost <= cost) return;
    uint32_t first = m->n_splits;
    for (uint32_t i = 0; i < n; i++) {
      const Version *v = &w->versions[versions[i]];
      uint32_t next = next_user(w->p, v->buffer, t), last = w->items[v->last].at;
      add_split(w, m, first, (Split){v->buffer, t}, next < last ? next : last, depth);
    }
    if (m->n_splits - first <= before) m->n_splits = first;
    if (m->n_splits == first) return;
    before = m->n_splits - first;
    insert(m, (Move){first, before, cost});
  }
}

static void set_seen(Walk *w, const Item *item, uint32_t seen) {
  for (uint32_t r = item->first_read; r < item->first_read + item->n_read; r++) w->versions[w->reads[r]].seen = seen;
}

// Each buffer alone, and those that one kernel makes together.
void ir_recompute_moves(Walk *w, Moves *m, uint32_t at) {
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
}
