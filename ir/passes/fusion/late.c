// Part of pass fuse: what waits for nothing that a kernel makes is made right before it is wanted, not first of all.
//
//   %p1 = linear %x1, %w                  depth 1
//   %p2 = linear %x2, %w                  depth 1   ->   depth 2: beside %h1, in the bytes that %p1 leaves
//   %h1 = tanh (linear %h0, %u) + %p1     depth 2
//   %h2 = tanh (linear %h1, %u) + %p2     depth 3
//
// So n steps of a loop that the user unrolled need no more memory than few, and no operand is kept for longer: generators
// (fills, random numbers), copies of parts of inputs, and products of these.
#include "ir/passes/fusion/fuse.h"

// ---- products
static bool is_read_sooner(const Fuse *s, Val v, uint32_t group, uint32_t depth) {
  for (GroupWalk w = ir_groups_of_readers(&s->g, v, group); ir_next_group(&w);)
    if (s->g.list[w.at].depth < depth) return true;
  return false;
}

// Nothing that the group reads is kept for longer if it comes at this depth.
static bool keeps_nothing(const Fuse *s, uint32_t group, uint32_t depth) {
  const Groups *g = &s->g;
  for (uint32_t i = g->list[group].first; i; i = g->next[i])
    for (uint32_t k = g->first_dep[i]; k < g->first_dep[i + 1]; k++) {
      uint32_t d = g->dep[k];
      if (g->of[d] == group || ir_is_generator(s->f, d)) continue;
      if (d >= s->f->n_ins || !s->is_copy[d] || is_read_sooner(s, (Val){d}, group, depth)) return false;
    }
  return true;
}

static uint32_t first_depth_behind(const Groups *g, uint32_t group) {
  uint32_t depth = UINT32_MAX;
  for (GroupWalk w = ir_groups_behind(g, group); ir_next_group(&w);)
    if (g->list[w.at].depth < depth) depth = g->list[w.at].depth;
  return depth;
}

void ir_follow(Fuse *s, uint32_t i) {
  for (uint32_t k = 0; k < s->f->ins[i].n_args; k++) {
    Val base = ir_view_base(s->f, ir_arg(s->f, (Val){i}, k));
    s->follows[base.i] |= s->is_copy[base.i];
  }
}

void ir_delay_products(Fuse *s) {
  Groups *g = &s->g;
  uint32_t n, *list = ir_in_place(g, &n);
  while (n) {
    uint32_t group = list[--n], behind = first_depth_behind(g, group);
    if (g->list[group].rank != RANK_PRODUCT || behind == UINT32_MAX || behind <= g->list[group].depth + 1) continue;
    if (!keeps_nothing(s, group, behind - 1)) continue;
    g->list[group].depth = behind - 1;
    for (uint32_t i = g->list[group].first; i; i = g->next[i]) ir_follow(s, i);
  }
}

// ---- fills
// All kernels that read fill v may make it.
static bool is_made_by_readers(const Fuse *s, Val v) {
  const Groups *g = &s->g;
  for (uint32_t k = g->uses.first[v.i]; k < g->uses.first[v.i + 1]; k++) {
    uint32_t r = g->uses.user[k], of = g->of[r];
    if (!of || g->fused_into[r] || !ir_is_made_there(g, r, v)) return false;
    if (of != g->of[v.i] && ir_may_join(g, of, v)) return false;
  }
  return true;
}

static bool is_read_elsewhere(const Groups *g, uint32_t i) {
  for (uint32_t k = g->uses.first[i]; k < g->uses.first[i + 1]; k++)
    if (g->of[g->uses.user[k]] != g->of[i]) return true;
  return false;
}

// A fill that several kernels read is made in each of them: that is as fast as a load, and it need not be stored.
void ir_copy_fills(Fuse *s) {
  Groups *g = &s->g;
  for (uint32_t i = 1; i < s->f->n_ins; i++) {
    bool is_fill = s->f->ins[i].op == OP_full && g->of[i] && !g->fused_into[i];
    if (!is_fill || !is_read_elsewhere(g, i) || !is_made_by_readers(s, (Val){i})) continue;
    ir_leave(g, (Val){i});
    g->is_copied[i] = true;
  }
}

// ---- what is stored of generators and copies
void ir_place_late(Fuse *s) {
  Groups *g = &s->g;
  s->late_wait = false;
  for (uint32_t i = s->f->n_ins - 1; i > 0; i--) {
    uint32_t of = ir_is_late(s, i) ? g->of[i] : 0, first = of ? ir_first_reader(g, (Val){i}) : 0;
    if (!of || g->list[of].n != 1 || !first || !g->list[first].depth) continue;
    g->list[of].depth = g->list[first].depth - 1;
    g->list[of].rank = RANK_LATE;
  }
}
