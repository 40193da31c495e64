// Pass check_starts: where several writes into parameters begin at numbers of the run, or take places that the run computes, all of
// these are checked before the first write.
//
//   %w = slice_assign %cache, %k, %i {axis=1, into_param}          %z = full : i64[m]       m: how many starts there are
//   %v = index_assign %table, %j, %l {into_param}              ->     %c = slice %z, %i {axis=0, count=1}
//                                                                     %s = add %i, (reshape %c)
//                                                                     %t = full : i64[n]       n: how many rows there are
//                                                                     %d = index_select %t, %j {axis=0}
//                                                                     %u = add %j, %d
//                                                                     %w = slice_assign %cache, %k, %s ..
//                                                                     %v = index_assign %table, %u, %l ..
//
// A start that several writes of as many places take is checked once. %c and %d are 0, and a run in which there is no such start or row fails there: nothing was written yet (pass fuse). What
// comes later takes %s and %u as well, so that reading what was written needs no check either. One write alone checks its start
// itself (codegen/pointwise/slice_start.c), as does one whose start depends on what another changed.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/rewrite.h"
#include "ir/slice.h"
#include "ir/storage.h"

typedef struct {
  Fn *f;
  Rewrite e;
  Val *start;   // by old value, the start or the index that is checked; none: it is left as it is
  Dim *places;  // how many starts or rows there are
} CheckStarts;

// The starts of a write that depend on numbers of the run; else none
static Val start_of(const Fn *f, Val v) {
  if (!ir_writes_param(f, v) || !ir_may_fault(f, v)) return (Val){0};
  if (ir_ins(f, v)->op == OP_index_assign) return ir_operand(f, v, ARG_index);
  return ir_ins(f, v)->op == OP_slice_assign ? ir_operand(f, v, ARG_at) : (Val){0};
}

static Dim places_of(const Fn *f, Val v) {
  Prog *p = f->prog;
  if (ir_ins(f, v)->op == OP_index_assign) return ir_dim_at(p, ir_ins(f, v)->shape, 0);
  Slice s;
  ir_slice(f, v, &s);
  return ir_dim_add(p, s.last_start, ir_dim(p, 1));
}

// Writes whose starts depend on no change of a parameter; gives their number.
static uint32_t find_writes(CheckStarts *c) {
  const Fn *f = c->f;
  bool *changed = rt_alloc(f->prog->mem, f->n_ins);
  uint32_t n = 0;
  for (Val v = {1}; v.i < f->n_ins; v.i++) {
    if (ir_ins(f, v)->op == OP_result) {
      changed[v.i] = changed[ir_head(f, v).i];
      continue;
    }
    Val start = start_of(f, v);
    if (!ir_none(start) && !changed[start.i]) c->start[v.i] = start, c->places[v.i] = places_of(f, v), n++;
    for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) changed[v.i] |= changed[ir_arg(f, v, k).i];
    changed[v.i] |= ir_writes_param(f, v);
  }
  return n;
}

// The start, or the index [n], plus zeros that lie in places 0 to n - 1.
static Val emit_check(CheckStarts *c, Val start, Dim n, Loc loc) {
  Fn *f = c->f;
  Prog *p = f->prog;
  const Attr full[] = {ir_a_num(KEY_value, 0), ir_a_list(KEY_shape, ir_shape(p, &n, 1)), ir_a_int(KEY_dtype, DT_I64)};
  const Attr part[] = {ir_a_int(KEY_axis, 0), ir_a_dim(KEY_count, ir_dim(p, 1))};
  const Attr scalar = ir_a_list(KEY_shape, (Shape){0});
  bool is_scalar = !ir_rank(p, ir_ins(f, start)->shape);
  Val zeros = ir_emit(f, OP_full, NULL, 0, full, 3, loc);
  Val zero = ir_emit(f, is_scalar ? OP_slice : OP_index_select, (Val[]){zeros, start}, 2, part, is_scalar ? 2 : 1, loc);
  if (is_scalar) zero = ir_emit(f, OP_reshape, &zero, 1, &scalar, 1, loc);
  return ir_emit(f, OP_add, (Val[]){start, zero}, 2, NULL, 0, loc);
}

bool ir_pass_check_starts(Fn *f) {
  CheckStarts c = {.f = f};
  c.start = rt_alloc(f->prog->mem, f->n_ins * sizeof *c.start);
  c.places = rt_alloc(f->prog->mem, f->n_ins * sizeof *c.places);
  if (find_writes(&c) < 2) return true;
  ir_rewrite_begin(&c.e, f);
  for (Val v = {1}; v.i < c.e.n_old; v.i++) {
    const Ins *old = ir_rewrite_old(&c.e, v);
    if (old->op == OP_result) continue;
    if (!ir_none(c.start[v.i])) {
      Val *start = &c.e.map[c.start[v.i].i];
      if (!ir_is_checked_start(f, *start, c.places[v.i])) *start = emit_check(&c, *start, c.places[v.i], old->loc);
    }
    ir_rewrite_copy(&c.e, v);
  }
  ir_rewrite_end(&c.e);
  return true;
}

// Recognises the zeros that emit_check adds to a start; gives the number of places; none: it is something
// else.
static Dim zeros_at(const Fn *f, Val v, Val start) {
  Op op = (Op)ir_ins(f, v)->op;
  if ((op != OP_slice && op != OP_index_select) || ir_attr(f, v, KEY_padded)) return (Dim){0};
  if (ir_ins(f, v)->n_args < 2 || ir_arg(f, v, 1).i != start.i) return (Dim){0};
  Val zeros = ir_arg(f, v, 0);
  bool is_list = ir_rank(f->prog, ir_ins(f, zeros)->shape) == 1;
  if (!is_list || ir_ins(f, zeros)->op != OP_full || ir_attr_num(f, zeros, KEY_value, 1) != 0) return (Dim){0};
  return ir_dim_at(f->prog, ir_ins(f, zeros)->shape, 0);
}

bool ir_is_checked_start(const Fn *f, Val start, Dim n) {
  for (start = ir_view_base(f, start); ir_ins(f, start)->op == OP_add; start = ir_arg(f, start, 0)) {
    Dim found = zeros_at(f, ir_view_base(f, ir_arg(f, start, 1)), ir_arg(f, start, 0));
    if (!found.i || found.i == n.i) return found.i == n.i;
  }
  return false;
}
