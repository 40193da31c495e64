// Rules of gather and scatter along an axis.
//
//   %j = expand %i {shape=[n,m]} : i64[n,m]      %i : i64[n,1]
//   %y = scatter_amax %t, %j, %x {axis=0}
//     ->  %y = scatter_amax %t, (reshape %i : i64[n]), %x {axis=0, by_slices}
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/rewrites/rules.h"
#include "ir/slice.h"

// The index along the axis, where it is the same along all others; none: it is not.
static Val index_of_places(const Rules *r, Val index, uint32_t axis) {
  const Fn *f = r->f;
  if (ir_ins(f, index)->op != OP_expand) return (Val){0};
  Val of = ir_arg(f, index, 0);
  Shape from = ir_ins(f, of)->shape, to = ir_ins(f, index)->shape;
  uint32_t rank = ir_rank(r->p, from), missing = ir_rank(r->p, to) - rank;
  if (axis < missing || ir_dim_at(r->p, from, axis - missing).i != ir_dim_at(r->p, to, axis).i) return (Val){0};
  for (uint32_t k = 0; k < rank; k++)
    if (k + missing != axis && !ir_dim_is_one(r->p, ir_dim_at(r->p, from, k))) return (Val){0};
  return of;
}

// The index goes over whole slices of operand 0.
static bool covers_slices(const Rules *r, Val v, Val index, uint32_t axis) {
  Shape whole = ir_ins(r->f, ir_arg(r->f, v, 0))->shape, own = ir_ins(r->f, index)->shape;
  for (uint32_t k = 0; k < ir_rank(r->p, whole); k++)
    if (k != axis && ir_dim_at(r->p, whole, k).i != ir_dim_at(r->p, own, k).i) return false;
  return ir_rank(r->p, whole) > 1;
}

static Op of_slices(Op op) {
  switch (op) {
  case OP_gather: return OP_index_select;
  case OP_scatter: return OP_index_copy;
  case OP_scatter_add: return OP_index_add;
  default: return op;
  }
}

// The places of v along the axis, [n], where it is the same along all other axes; none: it is not known to be.
static Val places_of(Rules *r, Val v, uint32_t axis) {
  Fn *f = r->f;
  const Ins ins = *ir_ins(f, v);
  Dim n = ir_dim_at(r->p, ins.shape, axis);
  Attr at[3] = {ir_a_list(KEY_shape, ir_shape(r->p, &n, 1))};
  if (ins.op == OP_full) {
    at[1] = ir_a_num(KEY_value, ir_attr_num(f, v, KEY_value, 0)), at[2] = ir_a_int(KEY_dtype, ins.dtype);
    return ir_emit(f, OP_full, NULL, 0, at, ins.dtype == DT_F32 ? 2 : 3, ins.loc);
  }
  Val of = index_of_places(r, v, axis);
  return ir_none(of) ? of : ir_emit(f, OP_reshape, &of, 1, at, 1, ins.loc);
}

Val rule_index_of_numbers(Rules *r, Val v) {
  Fn *f = r->f;
  const Ins ins = *ir_ins(f, v);
  uint32_t axis = (uint32_t)ir_attr_int(f, v, KEY_axis, 0), rank = ir_rank(r->p, ins.shape), n = 1;
  if (ins.n_args < 3 || !ir_names_slices(f, v) || rank < 2) return (Val){0};
  if (ir_rank(r->p, ir_ins(f, ir_arg(f, v, 2))->shape)) return (Val){0};
  Val in[] = {places_of(r, ir_arg(f, v, 0), axis), ir_arg(f, v, 1), ir_arg(f, v, 2)};
  if (ir_none(in[0])) return in[0];
  Attr attr[3] = {ir_a_int(KEY_axis, 0)}, shape = ir_a_list(KEY_shape, ins.shape);
  static const Key others[] = {KEY_padded, KEY_by_slices};
  for (uint32_t k = 0; k < 2; k++)
    if (ir_attr(f, v, others[k])) attr[n++] = *ir_attr(f, v, others[k]);
  Val y = ir_emit(f, (Op)ins.op, in, 3, attr, n, ins.loc);
  ir_copy_metadata(ir_ins(f, y), &ins);
  Dim kept[MAX_RANK];
  for (uint32_t k = 0; k < rank; k++) kept[k] = k == axis ? ir_dim_at(r->p, ins.shape, k) : ir_dim(r->p, 1);
  Attr of_axis = ir_a_list(KEY_shape, ir_shape(r->p, kept, rank));
  y = ir_emit(f, OP_reshape, &y, 1, &of_axis, 1, ins.loc);
  return ir_emit(f, OP_expand, &y, 1, &shape, 1, ins.loc);
}

Val rule_index_of_slices(Rules *r, Val v) {
  Fn *f = r->f;
  const Ins ins = *ir_ins(f, v);
  if (ir_attr(f, v, KEY_by_slices)) return (Val){0};
  uint32_t axis = (uint32_t)ir_attr_int(f, v, KEY_axis, 0), n = 1;
  Val index = ir_arg(f, v, 1), of = index_of_places(r, index, axis);
  if (ir_none(of) || !covers_slices(r, v, index, axis)) return (Val){0};
  Dim places = ir_dim_at(r->p, ir_ins(f, index)->shape, axis);
  Attr shape = ir_a_list(KEY_shape, ir_shape(r->p, &places, 1)), attr[3] = {ir_a_int(KEY_axis, axis)};
  const Attr *padded = ir_attr(f, v, KEY_padded);
  if (padded) attr[n++] = *padded;
  if (of_slices((Op)ins.op) == ins.op) attr[n++] = ir_a_int(KEY_by_slices, 1);
  Val in[] = {ir_arg(f, v, 0), ir_emit(f, OP_reshape, &of, 1, &shape, 1, ins.loc), (Val){0}};
  if (ins.n_args > 2) in[2] = ir_arg(f, v, 2);
  Val y = ir_emit(f, of_slices((Op)ins.op), in, ins.n_args, attr, n, ins.loc);
  ir_copy_metadata(ir_ins(f, y), &ins);
  Val narrow = rule_index_of_numbers(r, y);
  return ir_none(narrow) ? y : narrow;
}
