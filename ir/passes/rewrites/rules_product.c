// Rules of products: how their operands are stored.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/passes/rewrites/rules.h"
#include "ir/storage.h"

// ---- transposed operands: {ta} and {tb} read them as they are stored
static bool swaps_last_two(const Fn *f, Val a) {
  const Attr *perm = ir_ins(f, a)->op == OP_permute ? ir_attr(f, a, KEY_perm) : NULL;
  uint32_t r = ir_rank(f->prog, ir_ins(f, a)->shape);
  if (!perm || r < 2) return false;
  for (uint32_t k = 0; k + 2 < r; k++)
    if (ir_list_at(f->prog, perm->u.list, k) != k) return false;
  return ir_list_at(f->prog, perm->u.list, r - 2) == r - 1;
}

Val rule_fold_transposes(Rules *r, Val v) {
  static const Key key[2] = {KEY_ta, KEY_tb};
  Fn *f = r->f;
  if (!ir_is_product(f, v)) return (Val){0};
  bool flag[2] = {ir_attr(f, v, KEY_ta) != NULL, ir_attr(f, v, KEY_tb) != NULL}, any = false;
  for (uint32_t k = 0; k < 2; k++)
    for (Val a; swaps_last_two(f, a = ir_arg(f, v, k)); flag[k] = !flag[k], any = true)
      ir_set_arg(f, v, k, ir_arg(f, a, 0));
  for (uint32_t k = 0; any && k < 2; k++) ir_unset_attr(f, v, key[k]);
  for (uint32_t k = 0; any && k < 2; k++)
    if (flag[k]) ir_set_attr(f, v, ir_a_int(key[k], 1));
  return any ? v : (Val){0};
}

// ---- products with one column: a row times the other operand, so that lanes are not kept for columns that do not
// exist
//   %y = matmul %a, %b : f32[m,1]     ->     %r = reshape %b : f32[1,k]
//                                            %p = matmul %r, %a {tb=1} : f32[1,m]     %y = reshape %p : f32[m,1]
enum {
  COLUMN_ELEMENTS = 16384,  // least elements of a for which an extra kernel behind the product costs less
  COLUMN_K = 13             // least k, if lanes run along k; a shorter one is for strategy lanes of products (172)
};

static Val reshaped(Rules *r, Val a, const Dim *dims, uint32_t n, Loc loc) {
  return ir_reshaped(r->f, a, ir_shape(r->p, dims, n), loc);
}

static uint32_t dims_of(const Rules *r, Val v, Dim *dims) {
  Shape shape = ir_ins(r->f, v)->shape;
  uint32_t n = ir_rank(r->p, shape);
  for (uint32_t k = 0; k < n; k++) dims[k] = ir_dim_at(r->p, shape, k);
  return n;
}

// All rows of a value as one axis: [.., K] -> [rows, K].
static Val as_rows(Rules *r, Val a, Loc loc) {
  Dim d[MAX_RANK], two[2] = {{0}, {0}};
  uint32_t n = dims_of(r, a, d);
  two[0] = d[0], two[1] = d[n - 1];
  for (uint32_t k = 1; k + 1 < n; k++) two[0] = ir_dim_mul(r->p, two[0], d[k]);
  return reshaped(r, a, two, 2, loc);
}

// Is it a permutation whose rows are adjacent elements of what it permutes? A product reads it where it lies, along rows.
static bool leads_rows_last(const Fn *f, Val a) {
  const Attr *perm = ir_ins(f, a)->op == OP_permute ? ir_attr(f, a, KEY_perm) : NULL;
  uint32_t n = ir_rank(f->prog, ir_ins(f, a)->shape);
  return perm && n > 2 && ir_list_at(f->prog, perm->u.list, n - 2) == n - 1;
}

// The same permutation with rows and columns swapped.
static Val swapped(Rules *r, Val a) {
  const Ins ins = *ir_ins(r->f, a);
  Shape perm = ir_attr(r->f, a, KEY_perm)->u.list;
  uint32_t n = ir_rank(r->p, ins.shape);
  int64_t order[MAX_RANK];
  for (uint32_t k = 0; k < n; k++) order[k] = ir_list_at(r->p, perm, k + 2 < n ? k : 2 * n - 3 - k);
  return ir_permuted(r->f, ir_arg(r->f, a, 0), ir_shape_ints(r->p, order, n), ins.loc);
}

static bool wants_row(const Rules *r, Val v, bool ta, bool stored_as_row) {
  Dim d[MAX_RANK], e[MAX_RANK];
  uint32_t n = dims_of(r, v, d), n_a = dims_of(r, ir_arg(r->f, v, 0), e);
  if (n < 2 || !ir_dim_is_one(r->p, d[n - 1]) || (ir_dim_is_one(r->p, d[n - 2]) && stored_as_row)) return false;
  Shape a = ir_ins(r->f, ir_arg(r->f, v, 0))->shape;
  bool lanes = ta || ir_dim_bound(r->p, e[n_a - 1]) >= COLUMN_K;
  return lanes && ir_shape_bound(r->p, a) >= COLUMN_ELEMENTS;
}

Val rule_column_as_row(Rules *r, Val v) {
  Fn *f = r->f;
  const Ins ins = *ir_ins(f, v);
  bool ta = ir_attr(f, v, KEY_ta) != NULL, stored_as_row = ins.op == OP_linear || ir_attr(f, v, KEY_tb) != NULL;
  bool is_led = ir_is_product(f, v) && !ta && leads_rows_last(f, ir_arg(f, v, 0));
  if (!ir_is_product(f, v) || !wants_row(r, v, ta || is_led, stored_as_row)) return (Val){0};
  Val a = ir_arg(f, v, 0), b = ir_arg(f, v, 1), bias = ir_operand(f, v, ARG_bias);
  Dim d[MAX_RANK], out[MAX_RANK];
  uint32_t n = dims_of(r, b, d), n_out = dims_of(r, v, out), n_a = ir_rank(r->p, ir_ins(f, a)->shape);
  if (!stored_as_row) d[n - 1] = d[n - 2], d[n - 2] = out[n_out - 1];
  Val row = reshaped(r, b, d, n, ins.loc);
  if (is_led) a = swapped(r, a), ta = true;
  if (n == 2 && n_a > 2 && !ta) a = as_rows(r, a, ins.loc);
  if (ta && ir_dim_is_one(r->p, out[n_out - 2])) {  // a number: both as rows
    n = dims_of(r, a, d);
    d[n - 1] = d[n - 2], d[n - 2] = out[n_out - 1];
    a = reshaped(r, a, d, n, ins.loc);
    ta = false;
  }
  Attr tb = ir_a_int(KEY_tb, 1);
  Val product = ir_emit(f, OP_matmul, (Val[]){row, a}, 2, &tb, ta ? 0 : 1, ins.loc);
  Val y = reshaped(r, product, out, n_out, ins.loc);
  if (!ir_none(bias)) y = ir_op2(f, OP_add, y, bias, ins.loc);
  ir_copy_metadata(ir_ins(f, y), &ins);
  return y;
}
