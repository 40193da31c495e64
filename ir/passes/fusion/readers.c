// Part of pass fuse: the second walk, from the last instruction to the first. An instruction goes to the group of its readers
// where that saves a store, and no more bytes are held for longer.
//
//   %u = sub %x, %mean          depth 1, stored until the backward reads it    ->   depth 9, in %g's kernel, which
//   %y = matmul %x, %w          depths 1 ..                                         reads %x anyway
//   %g = mul %d, %u             depth 9
//
// So do sources of a product's epilogue: what is made of inputs, and masks of values that are kept anyway.
//
//   %m = gt %h, 0                        depth 2, stored until depth 9    ->   depth 9, in the kernel of %p
//   %p = linear %g, %w                   depth 9
//   %d = select %m, %p, 0                depth 9, where another kernel reads %h at that depth, or behind it
//
// Decisions depend on bounds of dims alone, so that plans for smaller bounds have the same kernels.
#include "ir/passes/fusion/fuse.h"
#include "ir/passes/plan.h"
#include "ir/storage.h"

enum { MAX_SOURCES = 6 };  // of a product

// ---- bytes
static bool can_move(const Fuse *s, uint32_t i) {
  const OpInfo *op = &ir_ops[s->f->ins[i].op];
  RowSpace rows;
  if (s->f->ins[i].op == OP_result || s->g.fused_into[i] || !s->g.of[i] || (op->flags & (EFFECT | WRITES)))
    return false;
  return ir_class_has(s->f->ins[i].op, BY_ELEMENT) || ir_row_space(s->f, (Val){i}, &rows);
}

// Is a read by another instruction than i at the depth of this group, or behind it? The order within a depth is open.
static bool is_read_from(const Fuse *s, Val a, uint32_t group, uint32_t i) {
  const Groups *g = &s->g;
  for (uint32_t k = g->uses.first[a.i]; k < g->uses.first[a.i + 1]; k++) {
    uint32_t r = g->uses.user[k], of = g->of[r];
    if (r != i && (of ? g->list[of].depth >= g->list[group].depth : is_read_from(s, (Val){r}, group, i))) return true;
  }
  return false;
}

double ir_bytes_kept(const Fuse *s, uint32_t i, uint32_t to) {
  double sum = 0;
  for (uint32_t k = 0; k < s->f->ins[i].n_args; k++) {
    Val base = ir_view_base(s->f, ir_arg(s->f, (Val){i}, k));
    bool inside = s->g.of[ir_head(s->f, base).i] == s->g.of[i];
    if (!inside && !ir_is_free(s->f, base) && !is_read_from(s, base, to, i)) sum += ir_bytes_at(s->f, base);
  }
  return sum;
}

// Instruction i alone holds b back: b can go there with it.
static bool can_go_along(const Fuse *s, Val b, uint32_t group, uint32_t i) {
  const Groups *g = &s->g;
  if (ir_ins(s->f, b)->n_res != 1 || !can_move(s, b.i)) return false;
  for (uint32_t k = g->uses.first[b.i]; k < g->uses.first[b.i + 1]; k++) {
    uint32_t r = g->uses.user[k];
    if (r != i && (!g->of[r] || ir_group_is_before(g, g->of[r], group))) return false;
  }
  return true;
}

// Bytes that are held up to this group only because instruction i goes there.
static double bytes_added(const Fuse *s, uint32_t i, uint32_t group, uint32_t depth) {
  double sum = 0;
  for (uint32_t k = 0; k < s->f->ins[i].n_args; k++) {
    Val a = ir_arg(s->f, (Val){i}, k), base = ir_view_base(s->f, a);
    if (ir_is_free(s->f, base) || is_read_from(s, base, group, i)) continue;
    bool along = base.i == a.i && depth < MAX_CHAIN && can_go_along(s, base, group, i);
    sum += along ? bytes_added(s, base.i, group, depth + 1) : ir_bytes_at(s->f, base);
  }
  return sum;
}

// Where it is, instruction i loads its operands from memory: it shares a kernel with none of what makes them.
static bool reads_memory(const Fuse *s, uint32_t i) {
  for (uint32_t k = 0; k < s->f->ins[i].n_args; k++) {
    Val a = ir_arg(s->f, (Val){i}, k);
    bool is_large = ir_bytes_at(s->f, a) >= ir_bytes_at(s->f, (Val){i}) && !ir_is_free(s->f, ir_view_base(s->f, a));
    if (is_large && s->g.of[a.i] == s->g.of[i]) return false;
  }
  return true;
}

// ---- readers
uint32_t ir_first_reader(const Groups *g, Val v) {
  uint32_t first = 0;
  for (GroupWalk w = ir_groups_of_readers(g, v, 0); ir_next_group(&w);)
    if (!first || ir_group_is_before(g, w.at, first)) first = w.at;
  return first;
}

// Everything else that waits for v comes behind the group.
static bool others_are_behind(const Groups *g, Val v, uint32_t group) {
  for (GroupWalk w = ir_groups_of_readers(g, v, group); ir_next_group(&w);)
    if (!ir_group_is_before(g, group, w.at)) return false;
  return true;
}

static bool is_read_in(const Fuse *s, Val v, uint32_t group) {
  const Groups *g = &s->g;
  for (uint32_t r = 0; r < ir_ins(s->f, v)->n_res; r++)
    for (uint32_t k = g->uses.first[v.i + r]; k < g->uses.first[v.i + r + 1]; k++) {
      uint32_t u = g->uses.user[k];
      if (g->of[u] == group || (ir_class_at(s->f, u) == CLASS_VIEW && is_read_in(s, (Val){u}, group))) return true;
    }
  return false;
}

// Of its group v reads only what is stored in any case.
static bool reads_what_is_stored(const Fuse *s, Val v) {
  const Groups *g = &s->g;
  for (uint32_t k = 0; k < ir_ins(s->f, v)->n_args; k++) {
    Val a = ir_arg(s->f, v, k);
    bool stored = g->of[a.i] != g->of[v.i];
    for (uint32_t j = g->uses.first[a.i]; j < g->uses.first[a.i + 1] && !stored; j++)
      stored = g->uses.user[j] != v.i && g->of[g->uses.user[j]] != g->of[a.i];
    if (!stored) return false;
  }
  return true;
}

// A row kernel has a row op, or members of one shape.
bool ir_is_one_kernel(const Fuse *s, uint32_t group, uint32_t without) {
  bool one_shape = true;
  RowSpace rows;
  for (uint32_t i = s->g.list[group].first, shape = 0; i; i = s->g.next[i]) {
    if (i == without) continue;
    if (ir_row_space(s->f, (Val){i}, &rows)) return true;
    one_shape &= !shape || shape == s->f->ins[i].shape.i + 1;
    shape = s->f->ins[i].shape.i + 1;
  }
  return one_shape;
}

// Its group without v is still one.
bool ir_can_leave(const Fuse *s, Val v) {
  const Groups *g = &s->g;
  const Group *from = &g->list[g->of[v.i]];
  RowSpace rows;
  if (ir_is_nest(g, from)) return false;
  if (from->rank != RANK_PLAIN && (from->lead == v.i || !reads_what_is_stored(s, v))) return false;
  return from->cls != CLASS_ROW || !ir_row_space(s->f, v, &rows) || ir_is_one_kernel(s, g->of[v.i], v.i);
}

// ---- sources of epilogues
static uint32_t n_sources(const Fuse *s, uint32_t group) {
  uint32_t n = 0, lead = s->g.list[group].lead;
  for (uint32_t i = s->g.list[group].first; i; i = s->g.next[i]) n += i < lead && !s->g.fused_into[i];
  return n;
}

// What v is made of is there when the group runs, whatever becomes of v: it is small, kept anyway, made of inputs, or made
// cheaply of what is kept, for v alone. *n_left: how many more sources there may be.
static bool is_kept_for(const Fuse *s, Val v, uint32_t group, uint32_t *n_left) {
  const Groups *g = &s->g;
  if ((*n_left)-- == 0) return false;
  for (uint32_t k = 0; k < ir_ins(s->f, v)->n_args; k++) {
    Val a = ir_arg(s->f, v, k), base = ir_view_base(s->f, a);
    bool is_there = ir_is_small_beside(s->f, a, v) || ir_is_free(s->f, base) || s->is_copy[base.i];
    if (is_there || g->of[base.i] == group) continue;
    if (is_read_from(s, base, group, v.i)) continue;
    bool alone = base.i == a.i && ir_is_own_value(s->f, a.i) && g->uses.first[a.i + 1] - g->uses.first[a.i] == 1;
    bool is_made = ir_is_cheap_op((Op)ir_ins(s->f, a)->op) || s->is_ready[a.i];
    if (!alone || !is_made || ir_ins(s->f, a)->shape.i != ir_ins(s->f, v)->shape.i || !is_kept_for(s, a, group, n_left))
      return false;
  }
  return true;
}

// The epilogue of the product, and nothing else, reads v.
static bool is_source(const Fuse *s, Val v, uint32_t group) {
  const Groups *g = &s->g;
  uint32_t n = n_sources(s, group), n_left = n < MAX_SOURCES ? MAX_SOURCES - n : 0;
  if (!ir_is_own_value(s->f, v.i)) return false;
  for (uint32_t k = g->uses.first[v.i]; k < g->uses.first[v.i + 1]; k++)
    if (g->of[g->uses.user[k]] != group || g->uses.user[k] == g->list[group].lead) return false;
  return is_kept_for(s, v, group, &n_left);
}

// ---- the walk
static bool saves_bytes(const Fuse *s, Val v, uint32_t group) {
  double gain = 0, added = bytes_added(s, v.i, group, 0);
  for (uint32_t r = 0; r < ir_ins(s->f, v)->n_res; r++) gain += ir_bytes_at(s->f, (Val){v.i + r});
  bool saves_store = s->g.list[s->g.of[v.i]].rank != RANK_PLAIN || reads_memory(s, v.i);  // which is worth a few bytes
  return saves_store ? added <= gain + gain / TINY_RATIO : added < gain;
}

void ir_move(Groups *g, Val v, uint32_t to) {
  ir_leave(g, v);
  ir_join(g, to, v);
}

static bool go_to_first_reader(Fuse *s, Val v) {
  Groups *g = &s->g;
  uint32_t to = ir_first_reader(g, v);
  if (!to || to == g->of[v.i] || !is_read_in(s, v, to) || !others_are_behind(g, v, to)) return false;
  if (ir_may_join(g, to, v) || !ir_can_leave(s, v)) return false;
  if (g->list[to].rank != RANK_PLAIN ? !is_source(s, v, to) : !saves_bytes(s, v, to)) return false;
  ir_move(g, v, to);
  if (g->list[to].rank != RANK_PLAIN) ir_follow(s, v.i);
  return true;
}

void ir_go_to_readers(Fuse *s, bool generators) {
  for (uint32_t i = s->f->n_ins - 1; i > 0; i--)
    if (ir_is_generator(s->f, i) == generators && can_move(s, i) && !go_to_first_reader(s, (Val){i}))
      ir_pair(s, (Val){i});
}

// ---- a product waits for the pointwise group that reads it, which then is its epilogue
static uint32_t reader_of_group(const Fuse *s, uint32_t group) {
  const Groups *g = &s->g;
  uint32_t reader = 0;
  for (GroupWalk w = ir_groups_behind(g, group); ir_next_group(&w);)
    if (!reader || ir_group_is_before(g, w.at, reader)) reader = w.at;
  bool is_point = reader && g->list[reader].cls == CLASS_POINTWISE && g->list[reader].lead < s->f->n_ins;
  return is_point ? reader : 0;
}

static bool all_others_are_behind(const Groups *g, uint32_t group, uint32_t reader) {
  for (GroupWalk w = ir_groups_behind(g, group); ir_next_group(&w);)
    if (w.at != reader && !ir_group_is_before(g, reader, w.at)) return false;
  return true;
}

static void take_reader(Fuse *s, uint32_t group) {
  Groups *g = &s->g;
  uint32_t lead = g->list[group].lead;
  if (!g->list[group].first || lead >= s->f->n_ins || !ir_is_product(s->f, (Val){lead})) return;
  uint32_t reader = reader_of_group(s, group);
  if (!reader || !all_others_are_behind(g, group, reader)) return;
  double gain = 0, added = 0;
  for (uint32_t i = g->list[group].first; i; i = g->next[i]) {
    if (is_read_in(s, (Val){i}, reader)) gain += ir_bytes_at(s->f, (Val){i});
    added += ir_bytes_kept(s, i, reader);
  }
  uint32_t depth = g->list[reader].depth;
  if (added <= gain && gain > 0 && ir_merge(g, group, reader)) ir_raise(g, group, depth, 0);
}

void ir_take_readers(Fuse *s) {
  for (uint32_t k = s->g.n - 1; k > 0; k--) take_reader(s, k);
}
