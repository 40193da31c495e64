// Pass check_starts: where several writes into parameters begin at numbers of the run, all of these are checked before the first write.
//
//   %w = slice_assign_at %cache, %k, %i {axis=1, into_param}          %z = full : i64[m]       m: how many starts there are
//   %v = slice_assign_at %other, %l, %j {axis=1, into_param}    ->    %c = slice_at %z, %i {axis=0, count=1}
//                                                                     %s = add %i, (reshape %c)
//                                                                     %w = slice_assign_at %cache, %k, %s ..
//                                                                     and %v likewise
//
// %c is 0, and a run in which there is no such start fails there: nothing was written yet (pass schedule). One write alone
// checks its start itself (codegen/pointwise/slice_start.c), as does one whose start depends on what another changed.
#include "ir/rewrite.h"
#include "ir/slice_at.h"

typedef struct {
  Fn *f;
  Rewrite e;
  Dim *last;  // by old value, the last start that there is; none: it is left as it is
} CheckStarts;

// Writes whose starts depend on no change of a parameter; gives their number.
static uint32_t find_writes(const Fn *f, Dim *last) {
  bool *changed = rt_alloc(f->prog->mem, f->n_ins);
  uint32_t n = 0;
  for (Val v = {1}; v.i < f->n_ins; v.i++) {
    if (ir_ins(f, v)->op == OP_result) {
      changed[v.i] = changed[ir_head(f, v).i];
      continue;
    }
    bool writes = ir_writes_param(f, v);
    if (writes && ir_ins(f, v)->op == OP_slice_assign_at && ir_may_fault(f, v)) {
      SliceAt s;
      ir_slice_at(f, v, &s);
      if (!changed[s.at.i]) last[v.i] = s.last_start, n++;
    }
    for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) changed[v.i] |= changed[ir_arg(f, v, k).i];
    changed[v.i] |= writes;
  }
  return n;
}

static Val emit_check(CheckStarts *c, Val start, Dim last, Loc loc) {
  Fn *f = c->f;
  Prog *p = f->prog;
  Dim one = ir_dim(p, 1), n = ir_dim_add(p, last, one);
  const Attr full[] = {ir_a_num(KEY_value, 0), ir_a_list(KEY_shape, ir_shape(p, &n, 1)), ir_a_int(KEY_dtype, DT_I64)};
  const Attr part[] = {ir_a_int(KEY_axis, 0), ir_a_dim(KEY_count, one)};
  const Attr scalar = ir_a_list(KEY_shape, (Shape){0});
  Val zeros = ir_emit(f, OP_full, NULL, 0, full, 3, loc);
  Val zero = ir_emit(f, OP_slice_at, (Val[]){zeros, start}, 2, part, 2, loc);
  zero = ir_emit(f, OP_reshape, &zero, 1, &scalar, 1, loc);
  return ir_emit(f, OP_add, (Val[]){start, zero}, 2, NULL, 0, loc);
}

bool ir_pass_check_starts(Fn *f) {
  CheckStarts c = {.f = f, .last = rt_alloc(f->prog->mem, f->n_ins * sizeof *c.last)};
  if (find_writes(f, c.last) < 2) return true;
  ir_rewrite_begin(&c.e, f);
  for (Val v = {1}; v.i < c.e.n_old; v.i++) {
    const Ins *old = ir_rewrite_old(&c.e, v);
    if (old->op == OP_result) continue;
    if (!c.last[v.i].i) {
      ir_rewrite_copy(&c.e, v);
      continue;
    }
    Val at = ir_rewrite_old_arg(&c.e, v, 2), start = c.e.map[at.i];
    c.e.map[at.i] = emit_check(&c, start, c.last[v.i], old->loc);
    ir_rewrite_copy(&c.e, v);
    c.e.map[at.i] = start;
  }
  ir_rewrite_end(&c.e);
  return true;
}

// Is it what emit_check made for such a write?
bool ir_is_checked_start(const Fn *f, Val start, Dim last) {
  if (ir_ins(f, start)->op != OP_add) return false;
  Val part = ir_view_base(f, ir_arg(f, start, 1));
  if (ir_ins(f, part)->op != OP_slice_at || ir_ins(f, ir_arg(f, part, 0))->op != OP_full) return false;
  SliceAt s;
  ir_slice_at(f, part, &s);
  return s.at.i == ir_arg(f, start, 0).i && s.last_start.i == last.i;
}
