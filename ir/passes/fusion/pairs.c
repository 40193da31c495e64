// Part of pass fuse: a row op goes to a later reader of its rows, so that they are loaded once.
//
//   %loss, %lse = cross_entropy_rows %x, %y         depth 1    ->   depth 3, in the kernel of
//   %scale = div 1, %n                              depth 2
//   %d = cross_entropy_rows_grad %x, %y, %lse, %e   depth 3
#include "ir/passes/fusion/fuse.h"
#include "ir/passes/plan.h"

enum { MAX_SPLIT = 16 };  // members that leave a group together

static bool reads_elements(const Fn *f, uint32_t r, Val a) {
  RowSpace rows;
  if (!ir_row_space(f, (Val){r}, &rows) || ir_ins(f, a)->shape.i != rows.shape.i) return false;
  for (uint32_t k = 0; k < f->ins[r].n_args; k++)
    if (ir_arg(f, (Val){r}, k).i == a.i && ir_row_element(f, (Val){r}, k)) return true;
  return false;
}

static bool shares_elements(const Fn *f, Val v, uint32_t r) {
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++)
    if (reads_elements(f, v.i, ir_arg(f, v, k)) && reads_elements(f, r, ir_arg(f, v, k))) return true;
  return false;
}

// What others than v's group and `to` read of v is small beside the rows of row op `by`: row scalars, not elements.
static bool leaves_small_results(const Fuse *s, Val v, Val by, uint32_t to) {
  const Groups *g = &s->g;
  for (uint32_t n = 0; n < ir_ins(s->f, v)->n_res; n++) {
    Val a = {v.i + n};
    if (ir_is_small_beside(s->f, a, ir_arg(s->f, by, 0))) continue;
    for (uint32_t k = g->uses.first[a.i]; k < g->uses.first[a.i + 1]; k++) {
      uint32_t r = g->of[g->uses.user[k]];
      if (r != to && r != g->of[v.i]) return false;
    }
  }
  return true;
}

// The last group whose reader of v could load their rows with it; 0: none.
static uint32_t partner_of(const Fuse *s, Val v) {
  const Groups *g = &s->g;
  uint32_t to = 0;
  for (uint32_t n = 0; n < ir_ins(s->f, v)->n_res; n++)
    for (uint32_t k = g->uses.first[v.i + n]; k < g->uses.first[v.i + n + 1]; k++) {
      uint32_t r = g->uses.user[k], of = g->of[r];
      if (of && of != g->of[v.i] && (!to || ir_group_is_before(g, to, of)) && shares_elements(s->f, v, r) &&
          leaves_small_results(s, v, v, of) && !ir_may_join(g, of, v))
        to = of;
    }
  return to;
}

static bool waits_for(const Groups *g, uint32_t i, uint32_t on) {
  for (uint32_t k = g->first_dep[i]; k < g->first_dep[i + 1]; k++)
    if (g->dep[k] == on) return true;
  return false;
}

// Members of group r that wait for v, in order; 0: all of them do, or they are more than MAX_SPLIT.
static uint32_t members_waiting(const Groups *g, uint32_t r, Val v, uint32_t *list) {
  uint32_t n = 0;
  bool all = true;
  for (uint32_t i = g->list[r].first; i; i = g->next[i]) {
    bool waits = waits_for(g, i, v.i);
    for (uint32_t k = 0; k < n && !waits; k++) waits = waits_for(g, i, list[k]);
    all &= waits;
    if (waits && (n == MAX_SPLIT || i >= g->f->n_ins)) return 0;
    if (waits) list[n++] = i;
  }
  return all ? 0 : n;
}

static void move_all(Groups *g, const uint32_t *list, uint32_t n, uint32_t to) {
  for (uint32_t k = 0; k < n; k++) ir_move(g, (Val){list[k]}, to);
}

// What waits for v comes behind group `to`: its group r, or those members of r that do.
//
//   %s = sum %loss        r    ->   a new one     %loss is v's, and the partner of v reads %scale
//   %n = sum %mask        r
//   %m = div %s, %n       r    ->   the new one
//   %scale = div 1, %n    r
static bool raise_waiting(Fuse *s, uint32_t r, Val v, uint32_t to) {
  Groups *g = &s->g;
  uint32_t list[MAX_SPLIT], n = 0, depth = g->list[to].depth + 1;
  if (ir_raise(g, r, depth, to)) return true;
  if (g->list[r].rank == RANK_PLAIN) n = members_waiting(g, r, v, list);
  if (!n) return false;
  ir_leave(g, (Val){list[0]});
  uint32_t part = ir_new_group(g, (Val){list[0]}, depth, RANK_PLAIN), k = 1;
  for (; k < n && !ir_may_join(g, part, (Val){list[k]}); k++) ir_move(g, (Val){list[k]}, part);
  bool good = k == n && ir_is_one_kernel(s, r, 0) && ir_is_one_kernel(s, part, 0) && ir_raise(g, part, depth, to);
  if (!good) move_all(g, list, k, r);
  return good;
}

// What waits for member v of group `from`, but in group `to`, comes behind `to`.
static bool raise_behind(Fuse *s, Val v, uint32_t from, uint32_t to) {
  for (GroupWalk w = ir_groups_of_readers(&s->g, v, from); ir_next_group(&w);)
    if (w.at != to && !ir_group_is_before(&s->g, to, w.at) && !raise_waiting(s, w.at, v, to)) return false;
  return true;
}

// Members wait for v: the group goes to v's partner as a whole if what others read of it, and what it reads alone, is small.
static void pair_group(Fuse *s, Val v, uint32_t to) {
  Groups *g = &s->g;
  uint32_t from = g->of[v.i];
  double kept = 0;
  for (uint32_t i = g->list[from].first; i; i = g->next[i]) {
    if (!leaves_small_results(s, (Val){i}, v, to)) return;
    kept += ir_bytes_kept(s, i, to);
  }
  if (kept > ir_bytes_at(s->f, ir_arg(s->f, v, 0)) / TINY_RATIO) return;
  for (uint32_t i = g->list[from].first; i; i = g->next[i])
    if (!raise_behind(s, (Val){i}, from, to)) return;
  ir_merge(g, to, from);
}

// A row op goes to its partner.
void ir_pair(Fuse *s, Val v) {
  Groups *g = &s->g;
  RowSpace rows;
  uint32_t to = ir_row_space(s->f, v, &rows) ? partner_of(s, v) : 0, from = g->of[v.i];
  if (!to || g->list[to].rank != RANK_PLAIN || g->list[from].rank != RANK_PLAIN) return;
  bool is_awaited = false;
  for (uint32_t k = g->first_succ[v.i]; k < g->first_succ[v.i + 1]; k++) is_awaited |= g->of[g->succ[k]] == from;
  if (is_awaited) pair_group(s, v, to);
  else if (ir_can_leave(s, v) && raise_behind(s, v, from, to)) ir_move(g, v, to);
}
