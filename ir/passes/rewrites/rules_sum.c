// Rules of sums: which rows are added up, and where.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/plan.h"
#include "ir/passes/rewrites/rules.h"

// ---- sums over all rows: those of the value itself, not of a view with other rows
//   %r = reshape %a {shape=[n*t,c]} : f32[n*t,c]     %s = sum %r {axes=[0]}     ->     %s = sum %a {axes=[0,1]}
Val rule_sum_of_reshaped(Rules *r, Val v) {
  Fn *f = r->f;
  const Ins ins = *ir_ins(f, v);
  Shape rows;
  if (!ir_column_sum(f, v, &rows) || ir_ins(f, ir_arg(f, v, 0))->op != OP_reshape) return (Val){0};
  Val a = ir_arg(f, ir_arg(f, v, 0), 0);
  Shape of = ir_ins(f, a)->shape;
  uint32_t n = ir_rank(r->p, of);
  OpClass cls = ir_ops[ir_ins(f, a)->op].cls;
  bool same = n >= 2 && ir_dim_at(r->p, of, n - 1).i == ir_dim_at(r->p, rows, ir_rank(r->p, rows) - 1).i;
  if (!same || (cls != CLASS_POINTWISE && cls != CLASS_ROW)) return (Val){0};
  int64_t list[MAX_RANK];
  for (uint32_t k = 0; k + 1 < n; k++) list[k] = k;
  Attr axes = ir_a_list(KEY_axes, ir_shape_ints(r->p, list, n - 1));
  Val sum = ir_emit(f, OP_sum, &a, 1, &axes, 1, ins.loc);
  ir_copy_metadata(ir_ins(f, sum), &ins);
  return sum;
}

// ---- sums over rows and their elements: first the rows, which are summed where their elements are made
enum { SPLIT_WIDTH = 32 };  // least row length for which the extra store is worth it

//   %s = sum %a {axes=[0,1]}     ->     %r = sum %a {axes=[1]}     %s = sum %r {axes=[0]}
Val rule_split_sum(Rules *r, Val v) {
  Fn *f = r->f;
  const Ins ins = *ir_ins(f, v);
  if (ins.dtype != DT_F32 || ir_attr(f, v, KEY_keepdim)) return (Val){0};
  Val a = ir_arg(f, v, 0);
  Shape axes = ir_attr(f, v, KEY_axes)->u.list, of = ir_ins(f, a)->shape;
  uint32_t n = ir_rank(r->p, axes);
  int64_t list[MAX_RANK], last = (int64_t)ir_rank(r->p, of) - 1;
  bool any = false;
  for (uint32_t k = 0; k < n; k++) any |= (list[k] = ir_list_at(r->p, axes, k)) == last;
  any = any && ir_dim_bound(r->p, ir_dim_at(r->p, of, (uint32_t)last)) >= SPLIT_WIDTH;
  if (n < 2 || !any || !ir_ops[ir_ins(f, a)->op].is_pointwise || !ir_row_fits(r->p, (RowSpace){of, (uint32_t)last}))
    return (Val){0};
  uint32_t m = 0;
  for (uint32_t k = 0; k < n; k++)
    if (list[k] != last) list[m++] = list[k];
  Attr inner = ir_a_list(KEY_axes, ir_shape_ints(r->p, &last, 1)),
       outer = ir_a_list(KEY_axes, ir_shape_ints(r->p, list, m));
  Val rows = ir_emit(f, OP_sum, &a, 1, &inner, 1, ins.loc);
  Val sum = ir_emit(f, OP_sum, &rows, 1, &outer, 1, ins.loc);
  ir_copy_metadata(ir_ins(f, sum), &ins);
  return sum;
}
