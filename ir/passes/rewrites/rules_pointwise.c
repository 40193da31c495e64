// Rules of pointwise ops: algebra, constants, copies.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/interp/interpret.h"
#include "ir/passes/rewrites/rules.h"
#include "ir/storage.h"
#include <string.h>

bool ir_is_scalar_number(const Fn *f, Val v, float *x) {
  double wide;
  if (!ir_is_const(f, v, &wide) || ir_ins(f, v)->dtype != DT_F32) return false;
  *x = (float)wide;
  return true;
}

bool ir_is_number(const Fn *f, Val v, double *x) {
  if (ir_ins(f, v)->dtype != DT_F32) return false;
  if (ir_ins(f, v)->op != OP_full) return ir_is_const(f, v, x);
  *x = ir_attr_num(f, v, KEY_value, 0);
  return true;
}

// ---- operands of pointwise rows need no materialised broadcast
static bool broadcasts_same(Fn *f, Val v, uint32_t k, Shape narrow) {
  Ins *ins = ir_ins(f, v);
  Prog *p = f->prog;
  uint32_t r = ir_rank(p, ins->shape), covered = 0;
  if (ir_rank(p, narrow) > r) return false;  // a reshape that dropped axes of size 1
  for (uint32_t j = 0; j <= ins->n_args; j++) {
    if (j == k) continue;
    Shape s = j == ins->n_args ? narrow : ir_ins(f, ir_arg(f, v, j))->shape;
    uint32_t rs = ir_rank(p, s);
    for (uint32_t a = 0; a < rs; a++)
      if (ir_dim_at(p, s, a).i == ir_dim_at(p, ins->shape, a + r - rs).i) covered |= 1u << (a + r - rs);
  }
  for (uint32_t a = 0; a < r; a++) {
    Dim d = ir_dim_at(p, ins->shape, a);
    bool one = ir_dim_is_one(p, d);
    if (one) {  // size 1: an operand must have the axis, so that the rank stays
      continue;
    }
    if (!(covered >> a & 1)) return false;
  }
  uint32_t most = ir_rank(p, narrow);
  for (uint32_t j = 0; j < ins->n_args; j++)
    if (j != k && ir_rank(p, ir_ins(f, ir_arg(f, v, j))->shape) > most)
      most = ir_rank(p, ir_ins(f, ir_arg(f, v, j))->shape);
  return most == r;
}

static bool is_single(const Fn *f, Val v) {
  return ir_shape_is_const(f->prog, ir_ins(f, v)->shape) && ir_shape_bound(f->prog, ir_ins(f, v)->shape) == 1;
}

Val rule_strip_broadcasts(Rules *r, Val v) {
  Fn *f = r->f;
  bool any = false;
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) {
    for (;; any = true) {
      Val a = ir_arg(f, v, k);
      Ins *from = ir_ins(f, a);
      bool skip = from->op == OP_expand || (from->op == OP_reshape && is_single(f, a));
      if (!skip || !broadcasts_same(f, v, k, ir_ins(f, ir_arg(f, a, 0))->shape)) break;
      ir_set_arg(f, v, k, ir_arg(f, a, 0));
    }
  }
  return any ? v : (Val){0};
}

// ---- algebra
Val rule_fold_constants(Rules *r, Val v) {
  Fn *f = r->f;
  Ins *ins = ir_ins(f, v);
  float x[3] = {0};
  if (!(ir_ops[ins->op].flags & (NOT_ROUNDED | ROUNDED_ONCE)) || ir_rank(r->p, ins->shape) != 0) return (Val){0};
  for (uint32_t k = 0; k < ins->n_args; k++)
    if (!ir_is_scalar_number(f, ir_arg(f, v, k), &x[k])) return (Val){0};
  return ir_const(f, (double)(float)ir_primitive((Op)ins->op, (double)x[0], (double)x[1], (double)x[2]), ins->loc);
}

// x op unit (operand k) is x, for every x. Not 0 for add: -0 + 0 is 0.
static const struct {
  Op op;
  uint32_t k;
  float unit;
} identities[] = {
    {OP_add, 0, -0.0f}, {OP_add, 1, -0.0f}, {OP_sub, 1, 0}, {OP_mul, 0, 1}, {OP_mul, 1, 1}, {OP_div, 1, 1},
};

Val rule_identity_element(Rules *r, Val v) {
  const Fn *f = r->f;
  const Ins *ins = ir_ins(f, v);
  double wide;
  for (uint32_t i = 0; i < sizeof identities / sizeof *identities; i++) {
    uint32_t k = identities[i].k;
    if (identities[i].op != (Op)ins->op || !ir_is_number(f, ir_arg(f, v, k), &wide)) continue;
    float x = (float)wide;
    Val other = ir_arg(f, v, 1 - k);
    if (!memcmp(&x, &identities[i].unit, sizeof x) && ir_ins(f, other)->shape.i == ins->shape.i) return other;
  }
  return (Val){0};
}

Val rule_fold_select(Rules *r, Val v) {
  const Ins *ins = ir_ins(r->f, v);
  float x;
  if (!ir_is_scalar_number(r->f, ir_arg(r->f, v, 0), &x)) return (Val){0};
  Val taken = ir_arg(r->f, v, x != 0 ? 1 : 2);
  return ir_ins(r->f, taken)->shape.i == ins->shape.i ? taken : (Val){0};
}

// ---- constants and copies
static bool is_constant(const Fn *f, Val v) { return ir_ins(f, v)->op == OP_full || ir_ins(f, v)->op == OP_const; }

// f32 is the default dtype of a constant
static Val constant(Fn *f, Op op, double x, DType t, Shape shape, Loc loc) {
  Attr at[3] = {ir_a_num(KEY_value, x)};
  uint32_t n = 1;
  if (op == OP_full) at[n++] = ir_a_list(KEY_shape, shape);
  if (t != DT_F32) at[n++] = ir_a_int(KEY_dtype, t);
  return ir_emit(f, op, NULL, 0, at, n, loc);
}

Val rule_fold_full(Rules *r, Val v) {
  Fn *f = r->f;
  Ins *ins = ir_ins(f, v);
  Val a = ir_arg(f, v, 0);
  if (!is_constant(f, a) || ins->n_args > 1) return (Val){0};  // a start of the run is checked
  return constant(f, OP_full, ir_attr_num(f, a, KEY_value, 0), (DType)ins->dtype, ins->shape, ins->loc);
}

// The result of a cast of a number, as run_cast gives it; there are no f16 or bf16 constants.
Val rule_fold_cast(Rules *r, Val v) {
  Fn *f = r->f;
  Ins *ins = ir_ins(f, v), *a = ir_ins(f, ir_arg(f, v, 0));
  DType from = (DType)a->dtype, to = (DType)ins->dtype;
  uint32_t known = F32 | COUNTABLE;
  if (!is_constant(f, ir_arg(f, v, 0)) || !(known >> from & known >> to & 1)) return (Val){0};
  double x = ir_attr_num(f, ir_arg(f, v, 0), KEY_value, 0);
  if (from == DT_F32) x = to == DT_F32 ? x : (double)ir_to_whole(to, (double)(float)x);
  else x = to == DT_F32 ? (double)(float)ir_to_whole(from, x) : (double)ir_modulo(to, ir_to_whole(from, x));
  return constant(f, (Op)a->op, x, to, ins->shape, ins->loc);
}

// The f32 mask that a bool was made of; none.
static Val mask_under(const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  if (ins->op != OP_cast || ins->dtype != DT_BOOL) return (Val){0};
  Val mask = ir_arg(f, v, 0);
  return ir_ops[ir_ins(f, mask)->op].flags & MASK ? mask : (Val){0};
}

Val rule_mask_of_bool(Rules *r, Val v) {
  return ir_ins(r->f, v)->dtype == DT_F32 ? mask_under(r->f, ir_arg(r->f, v, 0)) : (Val){0};
}

Val rule_select_by_mask(Rules *r, Val v) {
  Val mask = mask_under(r->f, ir_arg(r->f, v, 0));
  if (ir_none(mask)) return mask;
  ir_set_arg(r->f, v, 0, mask);
  return v;
}

Val rule_fold_copy(Rules *r, Val v) {
  Fn *f = r->f;
  if (ir_attr(f, v, KEY_reader)) return (Val){0};
  Val a = ir_arg(f, v, 0);
  return ir_ins(f, ir_view_base(f, a))->op == OP_dim_size ? (Val){0} : a;  // the stored form of a size
}
