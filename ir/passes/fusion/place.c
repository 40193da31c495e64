// Part of pass fuse: the first walk. Each instruction joins the last of the groups that it waits for, or opens one behind them.
//
//   %p = linear %x, %w : f32[n,64]            depth 1
//   %s = rsqrt %variance : f32[64]            depth 1
//   %y = mul %p, %s : f32[n,64]               depth 1, the epilogue of %p
//
// A product comes behind the other groups of its depth. So it waits for small values that its epilogue reads, and for what
// the epilogue reads of inputs alone. A product with the update of a parameter comes last: other groups read the old value.
#include "ir/packed_dims.h"
#include "ir/passes/fusion/fuse.h"
#include "ir/passes/plan.h"
#include "ir/storage.h"

typedef struct {
  Fuse *s;
  Groups *g;
  Fn *f;
  bool *has_row_reader;    // by value: a row op reads its rows
  bool *has_other_reader;  // by value: something else reads it
  bool *has_update;        // by product: an update may join it
} Placing;

// ---- what is known of values
static bool is_ready(const Placing *p, const bool *written, uint32_t i) {
  const Fn *f = p->f;
  if (ir_is_stored_leaf(f, (Val){i})) return !written[i];
  if (ir_is_immediate(f, (Val){i})) return true;
  OpClass cls = ir_class_at(f, i);
  if (cls != CLASS_VIEW && cls != CLASS_INDEX && !ir_is_own_value(f, i)) return false;
  for (uint32_t k = 0; k < f->ins[i].n_args; k++)
    if (!p->s->is_ready[ir_arg(f, (Val){i}, k).i]) return false;
  return true;
}

// Instruction i reads nothing that a kernel makes.
static bool copies_free(const Fuse *s, uint32_t i) {
  for (uint32_t k = 0; k < s->f->ins[i].n_args; k++) {
    Val a = ir_arg(s->f, (Val){i}, k);
    if (!s->is_ready[a.i] || !ir_is_free(s->f, ir_view_base(s->f, a))) return false;
  }
  return s->f->ins[i].n_res == 1 && !s->g.fused_into[i];
}

static void find_ready(Placing *p) {
  const Fn *f = p->f;
  bool *written = rt_alloc(f->prog->mem, f->n_ins);
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t k = 0; (ir_ops[f->ins[i].op].flags & WRITES) && k < ir_ops[f->ins[i].op].n_res; k++)
      written[ir_storage_root(f, ir_arg(f, (Val){i}, k)).i] = true;
  for (uint32_t i = 1; i < f->n_ins; i++) p->s->is_ready[i] = f->ins[i].op != OP_result && is_ready(p, written, i);
  for (uint32_t i = 1; i < f->n_ins; i++) p->s->is_copy[i] = ir_class_at(f, i) == CLASS_INDEX && copies_free(p->s, i);
}

static void find_row_readers(Placing *p) {
  const Fn *f = p->f;
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t k = p->g->uses.first[i]; k < p->g->uses.first[i + 1]; k++) {
      RowSpace rows;
      bool by_rows = ir_row_space(f, (Val){p->g->uses.user[k]}, &rows) && rows.shape.i == f->ins[i].shape.i &&
                     ir_row_fits(f->prog, rows);
      *(by_rows ? &p->has_row_reader[i] : &p->has_other_reader[i]) = true;
    }
}

// All uses of v are row ops, and an operand of v is read by row ops as well, so that it is stored anyway: v is fused into
// them rather than into a product's epilogue.
static bool is_for_rows(const Placing *p, Val v) {
  if (p->has_other_reader[v.i]) return false;
  for (uint32_t j = 0; j < ir_ins(p->f, v)->n_args; j++) {
    Val a = ir_arg(p->f, v, j);
    if (p->has_row_reader[a.i] && ir_ins(p->f, a)->shape.i == ir_ins(p->f, v)->shape.i) return true;
  }
  return false;
}

// The products from which a gradient is computed element by element: its update may join one of them.
static void mark_products(Placing *p, Val grad, uint32_t depth) {
  const Fn *f = p->f;
  if (ir_is_product(f, grad)) p->has_update[grad.i] = true;
  if (ir_class_at(f, grad.i) != CLASS_POINTWISE || depth == MAX_CHAIN) return;
  for (uint32_t k = 0; k < ir_ins(f, grad)->n_args; k++)
    if (ir_ins(f, ir_arg(f, grad, k))->shape.i == ir_ins(f, grad)->shape.i)
      mark_products(p, ir_arg(f, grad, k), depth + 1);
}

static void find_updates(Placing *p) {
  for (uint32_t i = 1; i < p->f->n_ins; i++) {
    Val grad = p->f->ins[i].op == OP_result ? (Val){0} : ir_gradient_of(p->f, (Val){i});
    if (!ir_none(grad) && ir_is_large_update(p->f, grad)) mark_products(p, grad, 0);
  }
}

// ---- what an instruction waits for
bool ir_is_made_there(const Groups *g, uint32_t i, Val a) {
  const Fn *f = g->f;
  RowSpace rows;
  if (i >= f->n_ins || !ir_is_generator(f, a.i) || !ir_waits_for_nothing(g, a.i)) return false;
  for (uint32_t k = 0; k < f->ins[i].n_args; k++) {
    if (ir_view_base(f, ir_arg(f, (Val){i}, k)).i != a.i) continue;
    bool by_element = ir_class_at(f, i) == CLASS_POINTWISE && f->ins[i].shape.i == ir_ins(f, a)->shape.i;
    bool by_row = ir_row_space(f, (Val){i}, &rows) && ir_row_member(f, a, rows) && ir_row_reads(f, (Val){i}, k, rows);
    if (ir_arg(f, (Val){i}, k).i != a.i || (!by_element && !by_row)) return false;
  }
  return true;
}

// The group of dependence k of instruction i; 0: it is made where it is read.
static uint32_t group_waited_for(const Placing *p, uint32_t i, uint32_t k) {
  uint32_t d = p->g->dep[k];
  return ir_is_made_there(p->g, i, (Val){d}) ? 0 : p->g->of[d];
}

// The last of the groups that instruction i waits for, and `top`.
static uint32_t last_waited_for(const Placing *p, uint32_t i, uint32_t top) {
  for (uint32_t k = p->g->first_dep[i]; k < p->g->first_dep[i + 1]; k++) {
    uint32_t d = group_waited_for(p, i, k);
    if (d && (!top || ir_group_is_before(p->g, top, d))) top = d;
  }
  return top;
}

static uint32_t last_of_prologue(const Placing *p, uint32_t product, Val v, uint32_t top) {
  top = last_waited_for(p, v.i, top);
  for (uint32_t k = 0; k < ir_ins(p->f, v)->n_args; k++) {
    Val a = ir_arg(p->f, v, k);
    if (p->g->fused_into[a.i] == product) top = last_of_prologue(p, product, a, top);
  }
  return top;
}

// ---- groups
static Rank rank_of(const Placing *p, uint32_t i) {
  if (ir_class_at(p->f, i) == CLASS_EXCHANGE) return RANK_EXCHANGE;  // others do something while it goes on
  if (p->has_update[i]) return RANK_UPDATE;
  return ir_is_product(p->f, (Val){i}) || ir_takes_packed_readers(p->f, (Val){i}) ? RANK_PRODUCT : RANK_PLAIN;
}

// Group `top` comes behind group d, of which v reads dependence i, and may wait for it without storing more.
static bool may_wait_for(const Placing *p, uint32_t top, uint32_t d, uint32_t i, Val v) {
  if (!ir_group_is_before(p->g, d, top)) return false;
  return p->g->list[d].rank != RANK_PLAIN || p->s->is_ready[i] || ir_is_small_beside(p->f, (Val){i}, v);
}

// A generator alone, which several instructions read: those that can make it do not wait for it. So nothing joins it here, which
// they would have to wait for.
static bool is_shared_generator(const Groups *g, uint32_t group) {
  uint32_t i = g->list[group].first;
  bool is_late = g->list[group].n == 1 && ir_is_generator(g->f, i) && ir_waits_for_nothing(g, i);
  return is_late && g->uses.first[i + 1] - g->uses.first[i] > 1;
}

// v joins group `top` if that is behind all that v waits for: others of its depth are merged with it, or it waits for them.
static bool join_last(Placing *p, uint32_t top, Val v) {
  Groups *g = p->g;
  bool is_plain = g->list[top].rank == RANK_PLAIN;
  if (is_shared_generator(g, top) || ir_may_join(g, top, v) || (!is_plain && is_for_rows(p, v))) return false;
  for (uint32_t k = g->first_dep[v.i]; k < g->first_dep[v.i + 1]; k++) {
    uint32_t d = group_waited_for(p, v.i, k);
    if (!d || d == top || g->list[d].depth < g->list[top].depth) continue;
    if (!is_plain && !may_wait_for(p, top, d, g->dep[k], v)) return false;
    if (is_plain && (is_shared_generator(g, d) || ir_may_join(g, d, v) || !ir_merge(g, top, d))) return false;
  }
  if (ir_may_join(g, top, v)) return false;
  ir_join(g, top, v);
  return true;
}

static void join_prologue(Placing *p, uint32_t group, Val v) {
  for (uint32_t k = 0; k < ir_ins(p->f, v)->n_args; k++) {
    Val a = ir_arg(p->f, v, k);
    if (p->g->fused_into[a.i] != p->g->list[group].lead || p->g->of[a.i]) continue;
    ir_join(p->g, group, a);
    join_prologue(p, group, a);
  }
}

static bool has_prologue(const Placing *p, uint32_t i) {
  for (uint32_t k = 0; k < p->f->ins[i].n_args; k++)
    if (p->g->fused_into[ir_arg(p->f, (Val){i}, k).i] == i) return true;
  return false;
}

static void place(Placing *p, uint32_t i) {
  if (p->g->fused_into[i]) return;
  Val v = {i};
  bool with_prologue = has_prologue(p, i);
  uint32_t top = with_prologue ? last_of_prologue(p, i, v, 0) : last_waited_for(p, i, 0);
  if (top && !with_prologue && join_last(p, top, v)) return;
  uint32_t group = ir_new_group(p->g, v, top ? p->g->list[top].depth + 1 : 1, rank_of(p, i));
  if (with_prologue) join_prologue(p, group, v);
}

// The end of what may be refused.
static void place_end(Placing *p, uint32_t end) {
  if (p->g->first_dep[end] == p->g->first_dep[end + 1]) return;
  uint32_t top = last_waited_for(p, end, 0);
  ir_new_group(p->g, (Val){end}, top ? p->g->list[top].depth : 0, RANK_END);
}

// What changes parameters, and what depends on that, comes after what may be refused: by stage.
static void place_all(Placing *p) {
  const Groups *g = p->g;
  uint32_t n = p->f->n_ins;
  uint8_t *stage = rt_alloc(p->f->prog->mem, g->n_all);
  for (uint32_t i = 1; i < n; i++)
    for (uint32_t k = g->first_dep[i]; k < g->first_dep[i + 1]; k++) {
      uint8_t least = g->dep[k] < n ? stage[g->dep[k]] : (uint8_t)(g->dep[k] - n + 1);
      if (least > stage[i]) stage[i] = least;
    }
  for (uint32_t at = 0; at < 3; at++) {
    if (at) place_end(p, n + at - 1);
    for (uint32_t i = 1; i < n; i++)
      if (p->f->ins[i].op != OP_result && stage[i] == at && ir_makes_code(p->f, i)) place(p, i);
  }
}

void ir_place_groups(Fuse *s) {
  RtArena *mem = s->f->prog->mem;
  uint32_t n = s->f->n_ins;
  s->is_ready = rt_alloc(mem, n), s->is_copy = rt_alloc(mem, n), s->follows = rt_alloc(mem, n);
  Placing p = {.s = s, .g = &s->g, .f = s->f, .has_update = rt_alloc(mem, n)};
  p.has_row_reader = rt_alloc(mem, n), p.has_other_reader = rt_alloc(mem, n);
  find_ready(&p);
  find_row_readers(&p);
  find_updates(&p);
  place_all(&p);
}
