// Rules of sums: which rows are added up, and where.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/passes/plan.h"
#include "ir/passes/rewrites/rules.h"

// ---- sums over all rows: those of the value itself, not of a view with other rows
//   %r = reshape %a {shape=[n*t,c]} : f32[n*t,c]     %s = sum %r {axes=[0]}     ->     %s = sum %a {axes=[0,1]}
Val rule_sum_of_reshaped(Rules *r, Val v) {
  Fn *f = r->f;
  const Ins ins = *ir_ins(f, v);
  RowSpace rows;
  if (!ir_column_sum(f, v, &rows) || ir_ins(f, ir_arg(f, v, 0))->op != OP_reshape) return (Val){0};
  uint32_t last = ir_rank(r->p, rows.shape) - 1;
  if (rows.axis != last) return (Val){0};
  Val a = ir_arg(f, ir_arg(f, v, 0), 0);
  Shape of = ir_ins(f, a)->shape;
  uint32_t n = ir_rank(r->p, of);
  OpClass cls = ir_ops[ir_ins(f, a)->op].cls;
  bool same = n >= 2 && ir_dim_at(r->p, of, n - 1).i == ir_dim_at(r->p, rows.shape, last).i;
  if (!same || (cls != CLASS_POINTWISE && cls != CLASS_ROW)) return (Val){0};
  int64_t list[MAX_RANK];
  for (uint32_t k = 0; k + 1 < n; k++) list[k] = k;
  Attr axes = ir_a_list(KEY_axes, ir_shape_ints(r->p, list, n - 1));
  Val sum = ir_emit(f, OP_sum, &a, 1, &axes, 1, ins.loc);
  ir_copy_metadata(ir_ins(f, sum), &ins);
  return sum;
}

// ---- sums over rows and their elements: first the rows, which are summed where their elements are made
enum {
  SPLIT_WIDTH = 32,        // least row length for which the extra store is worth it
  MERGED_WIDTH = 1 << 16,  // elements of rows over several axes, at most
  MAX_CHAIN = 4            // pointwise operations, one behind the other, that are looked at
};

static Val below_views(const Fn *f, Val v) {
  while (ir_ins(f, v)->op == OP_reshape) v = ir_arg(f, v, 0);
  return v;
}

// What v is made of, element by element, can be rows of its kernel.
static bool is_made_in_rows(const Fn *f, Val v, RowSpace rows, uint32_t most) {
  v = below_views(f, v);
  if (!ir_ops[ir_ins(f, v)->op].is_pointwise) return true;
  if (!most || !ir_row_member(f, v, rows)) return false;
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) {
    Val a = ir_arg(f, v, k);
    if (ir_row_elements(f, ir_ins(f, a)->shape, rows) && !is_made_in_rows(f, a, rows, most - 1)) return false;
  }
  return true;
}

// Rows of a over its last axes from `first` on
static RowSpace rows_from(Rules *r, Val a, uint32_t first) {
  Shape of = ir_ins(r->f, a)->shape;
  Dim dim[MAX_RANK];
  for (uint32_t k = 0; k < ir_rank(r->p, of); k++) {
    Dim d = ir_dim_at(r->p, of, k);
    dim[k < first ? k : first] = k > first ? ir_dim_mul(r->p, dim[first], d) : d;
  }
  return (RowSpace){ir_shape(r->p, dim, first + 1), first};
}

// The most of the last axes, all of them summed, that are rows of one kernel with what makes a
static RowSpace rows_of_sum(Rules *r, Val a, const bool *is_summed) {
  uint32_t last = ir_rank(r->p, ir_ins(r->f, a)->shape) - 1;
  RowSpace best = rows_from(r, a, last);
  for (uint32_t first = last; first-- > 1 && is_summed[first];) {
    RowSpace rows = rows_from(r, a, first);
    int64_t width = ir_dim_bound(r->p, ir_dim_at(r->p, rows.shape, first));
    if (width > MERGED_WIDTH || !ir_row_fits(r->p, rows) || !is_made_in_rows(r->f, a, rows, MAX_CHAIN)) break;
    best = rows;
  }
  return best;
}

// ---- .. and rows of a norm that lie otherwise: from what the norm reads, since its kernel need not store them then
//   %y, %m, %r = layer_norm %x : f32[n,g,k]     mul %a, (reshape %y : f32[n,c,h,w])
//   ->  mul %a, (reshape (mul (sub %x, (reshape %m : f32[n,g,1])), (reshape %r : f32[n,g,1])) : f32[n,c,h,w])
static Val recomputed_norm(Rules *r, Val y, RowSpace rows) {
  Fn *f = r->f;
  const Ins norm = *ir_ins(f, below_views(f, y));
  Val head = below_views(f, y), x = head;
  bool is_layer = norm.op == OP_layer_norm;
  if ((!is_layer && norm.op != OP_rms_norm) || ir_has_operand(f, head, ARG_weight)) return (Val){0};
  if (ir_attr(f, head, KEY_axis)) return (Val){0};
  uint32_t last = ir_rank(r->p, norm.shape) - 1;
  if (norm.shape.i == rows.shape.i || norm.dtype != DT_F32) return (Val){0};
  Dim dim[MAX_RANK];
  for (uint32_t k = 0; k < last; k++) dim[k] = ir_dim_at(r->p, norm.shape, k);
  dim[last] = ir_dim(r->p, 1);
  Shape kept = ir_shape(r->p, dim, last + 1);
  x = ir_arg(f, head, 0);
  if (is_layer) x = ir_op2(f, OP_sub, x, ir_reshaped(f, ir_result(head, 1), kept, norm.loc), norm.loc);
  x = ir_op2(f, OP_mul, x, ir_reshaped(f, ir_result(head, is_layer ? 2 : 1), kept, norm.loc), norm.loc);
  return ir_reshaped(f, x, ir_ins(f, y)->shape, norm.loc);
}

static Val without_norm(Rules *r, Val a, RowSpace rows) {
  const Ins ins = *ir_ins(r->f, a);
  if (ins.op != OP_mul) return a;
  for (uint32_t k = 0; k < 2; k++) {
    Val other = ir_arg(r->f, a, 1 - k), norm = recomputed_norm(r, ir_arg(r->f, a, k), rows);
    if (!ir_none(norm)) return ir_op2(r->f, OP_mul, k ? other : norm, k ? norm : other, ins.loc);
  }
  return a;
}

//   %s = sum %a {axes=[0,2,3]}     ->     %b = reshape %a {shape=[n,c,h*w]}     %r = sum %b {axes=[2]}     %s = sum %r {axes=[0]}
Val rule_split_sum(Rules *r, Val v) {
  Fn *f = r->f;
  const Ins ins = *ir_ins(f, v);
  if (ins.dtype != DT_F32 || ir_attr(f, v, KEY_keepdim)) return (Val){0};
  Val a = ir_arg(f, v, 0);
  Shape axes = ir_attr(f, v, KEY_axes)->u.list, of = ir_ins(f, a)->shape;
  uint32_t n = ir_rank(r->p, axes), last = ir_rank(r->p, of) - 1, m = 0;
  bool is_summed[MAX_RANK] = {false};
  for (uint32_t k = 0; k < n; k++) is_summed[ir_list_at(r->p, axes, k)] = true;
  bool any = n >= 2 && is_summed[last] && ir_dim_bound(r->p, ir_dim_at(r->p, of, last)) >= SPLIT_WIDTH;
  if (!any || !ir_ops[ir_ins(f, a)->op].is_pointwise || !ir_row_fits(r->p, (RowSpace){of, last})) return (Val){0};
  RowSpace rows = rows_of_sum(r, a, is_summed);
  int64_t list[MAX_RANK], along = rows.axis;
  for (uint32_t k = 0; k < rows.axis; k++)
    if (is_summed[k]) list[m++] = k;
  a = ir_reshaped(f, without_norm(r, a, rows), rows.shape, ins.loc);
  Attr inner = ir_a_list(KEY_axes, ir_shape_ints(r->p, &along, 1)),
       outer = ir_a_list(KEY_axes, ir_shape_ints(r->p, list, m));
  Val sum = ir_emit(f, OP_sum, &a, 1, &inner, 1, ins.loc);
  if (m) sum = ir_emit(f, OP_sum, &sum, 1, &outer, 1, ins.loc);
  ir_copy_metadata(ir_ins(f, sum), &ins);
  return sum;
}
