// Shape rules of what reads or writes places that an index names, and of what finds them: tables, sorting, gathers, bags.
#include "ir/shape/infer.h"

uint16_t ir_rule_index_assign(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  TRY(ir_infer_rank(c, 1, 1, 1));
  if (rank_of(c, 2) != rank_of(c, 0) || ir_infer_with_dim(c, shape_of(c, 0), 0, dim_of(c, 1, 0)).i != shape_of(c, 2).i)
    return bad_shape(c, "the rows do not have the shape of the target's");
  if (dtype_of(c, 2) != dtype_of(c, 0)) return ir_infer_differ(c, "target and source must have one dtype");
  set(c, 0, dtype_of(c, 0), shape_of(c, 0));
  return 0;
}

// Operand 0 is a table [V, E], operand `at` names rows of it: [..] -> [.., E]
static uint16_t look_up(const Infer *c, uint32_t at, Shape *out) {
  TRY(ir_infer_rank(c, 0, 2, 2));
  TRY(ir_infer_rank(c, at, 0, MAX_RANK - 1));
  Dim d[MAX_RANK];
  uint32_t r = rank_of(c, at);
  for (uint32_t k = 0; k < r; k++) d[k] = dim_of(c, at, k);
  d[r] = dim_of(c, 0, 1);
  *out = ir_shape(c->p, d, r + 1);
  return 0;
}

// Operand `rows` has the same shape: looked-up rows, or their gradient.
static uint16_t check_table_rows(const Infer *c, uint32_t at, uint32_t rows) {
  Shape want;
  TRY(look_up(c, at, &want));
  return shape_of(c, rows).i == want.i ? 0 : bad_shape(c, "there must be a row of the table for each index");
}

uint16_t ir_rule_embedding(const Infer *c) {
  Shape s;
  TRY(look_up(c, 1, &s));
  set(c, 0, dtype_of(c, 0), s);
  return 0;
}

uint16_t ir_rule_embedding_grad(const Infer *c) {
  TRY(check_table_rows(c, 1, 2));
  if (ir_has_operand(c->f, c->v, ARG_addend) && shape_of(c, 3).i != shape_of(c, 0).i)
    return bad_shape(c, "the addend must have the table's shape");
  set(c, 0, DT_F32, shape_of(c, 0));
  return 0;
}

// Values and indices: the whole axis, {size} elements of it, or one.
uint16_t ir_rule_sort(const Infer *c) {
  uint32_t axis;
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  TRY(ir_infer_axis(c, &axis));
  Op op = (Op)ir_ins(c->f, c->v)->op;
  Dim n = dim_of(c, 0, axis);
  int64_t size = ir_attr_int(c->f, c->v, KEY_size, 1), least = op == OP_topk ? 0 : 1;
  bool counts = op == OP_topk || op == OP_kth_value;
  if (counts && !ir_dim_is_const(c->p, n))
    return bad_shape(c, "takes so many elements only of an axis of constant size");
  if (counts && (size < least || size > ir_dim_bound(c->p, n))) {
    rt_text_add(c->why, "{size} %lld does not lie in the axis", (long long)size);
    return bad_shape(c, "");
  }
  if (op == OP_median && ir_dim_is_const(c->p, n) && ir_dim_bound(c->p, n) == 0)
    return bad_shape(c, "the axis is empty: it has no median");
  if (ir_dim_bound(c->p, n) > INT32_MAX) return bad_shape(c, "the axis is too long");
  Dim to = op == OP_sort ? n : ir_dim(c->p, op == OP_topk ? size : 1);
  Shape s = ir_infer_with_dim(c, shape_of(c, 0), axis, to);
  set(c, 0, dtype_of(c, 0), s);
  set(c, 1, DT_I64, s);
  return 0;
}

uint16_t ir_rule_searchsorted(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  if (dtype_of(c, 0) != dtype_of(c, 1)) return ir_infer_differ(c, "both operands must have one dtype");
  uint32_t r = rank_of(c, 0);
  bool fits = r == 1 || r == rank_of(c, 1);
  for (uint32_t k = 0; fits && k + 1 < r; k++) fits = dim_of(c, 0, k).i == dim_of(c, 1, k).i;
  if (!fits) return bad_shape(c, "there must be one sorted row, or one for each row of x");
  set(c, 0, DT_I64, shape_of(c, 1));
  return 0;
}

uint16_t ir_rule_nonzero(const Infer *c) {
  int64_t size = ir_attr_int(c->f, c->v, KEY_size, 0);
  if (size < 1 || size > INT32_MAX) return ir_infer_fault(c, E_ARGUMENT, "{size} must be 1 or more");
  Shape s = ir_shape_ints(c->p, &size, 1);
  set(c, 0, DT_I64, s);
  set(c, 1, DT_I64, (Shape){0});
  return 0;
}

uint16_t ir_rule_repeat_index(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 1, 1));
  return ir_rule_nonzero(c);
}

// ---- along {axis}
// Does the index have the shape of operand 0, except along its axis?
static uint16_t check_inside(const Infer *c, uint32_t axis) {
  if (rank_of(c, 1) != rank_of(c, 0)) return bad_shape(c, "the index has another rank");
  for (uint32_t k = 0; k < rank_of(c, 0); k++) {
    Dim own = dim_of(c, 1, k), of = dim_of(c, 0, k);
    bool fits = own.i == of.i || (ir_dim_is_const(c->p, own) && ir_dim_is_const(c->p, of) &&
                                  ir_dim_bound(c->p, own) <= ir_dim_bound(c->p, of));
    if (k == axis || fits) continue;
    rt_text_add(c->why, "the index is larger than what it goes to along axis %u", k);
    return bad_shape(c, "");
  }
  return 0;
}

uint16_t ir_rule_gather(const Infer *c) {
  uint32_t axis;
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  TRY(ir_infer_axis(c, &axis));
  TRY(check_inside(c, axis));
  set(c, 0, dtype_of(c, 0), shape_of(c, 1));
  return 0;
}

uint16_t ir_rule_index_select(const Infer *c) {
  uint32_t axis;
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  TRY(ir_infer_rank(c, 1, 1, 1));
  TRY(ir_infer_axis(c, &axis));
  set(c, 0, dtype_of(c, 0), ir_infer_with_dim(c, shape_of(c, 0), axis, dim_of(c, 1, 0)));
  return 0;
}

// The source has the shape of the index, or is one number.
static uint16_t check_scattered(const Infer *c, Shape want) {
  if (dtype_of(c, 2) != dtype_of(c, 0)) return ir_infer_differ(c, "target and source must have one dtype");
  if (shape_of(c, 2).i == want.i || rank_of(c, 2) == 0) return 0;
  ir_infer_would_fit(c, "source", want);
  return bad_shape(c, "the source has another shape than what is written");
}

uint16_t ir_rule_scatter(const Infer *c) {
  uint32_t axis;
  if (ir_attr(c->f, c->v, KEY_by_slices)) return ir_rule_index_scatter(c);
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  TRY(ir_infer_axis(c, &axis));
  TRY(check_inside(c, axis));
  TRY(check_scattered(c, shape_of(c, 1)));
  return ir_rule_same(c);
}

uint16_t ir_rule_index_scatter(const Infer *c) {
  uint32_t axis;
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  TRY(ir_infer_rank(c, 1, 1, 1));
  TRY(ir_infer_axis(c, &axis));
  TRY(check_scattered(c, ir_infer_with_dim(c, shape_of(c, 0), axis, dim_of(c, 1, 0))));
  return ir_rule_same(c);
}

// ---- bags
// How many there are.
static uint16_t check_bags(const Infer *c, Dim *n) {
  uint32_t index = ir_operand_at(c->f, c->v, ARG_index);
  bool has_offsets = ir_has_operand(c->f, c->v, ARG_offsets);
  TRY(ir_infer_rank(c, 0, 2, 2));
  TRY(ir_infer_rank(c, index, has_offsets ? 1 : 2, has_offsets ? 1 : 2));
  if (has_offsets) TRY(ir_infer_rank(c, ir_operand_at(c->f, c->v, ARG_offsets), 1, 1));
  if (ir_has_operand(c->f, c->v, ARG_factor) && shape_named(c, ARG_factor).i != shape_of(c, index).i)
    return bad_shape(c, "the factors must have the shape of the index");
  *n = has_offsets ? dim_named(c, ARG_offsets, 0) : dim_of(c, index, 0);
  return 0;
}

uint16_t ir_rule_bag(const Infer *c) {
  Dim n, none = ir_dim(c->p, 0);
  TRY(check_bags(c, &n));
  bool max = ir_attr(c->f, c->v, KEY_max) != NULL;
  if (max && ir_has_operand(c->f, c->v, ARG_factor)) return ir_infer_fault(c, E_ARGUMENT, "a maximum takes no factors");
  Shape s = ir_shape(c->p, (Dim[]){n, dim_of(c, 0, 1)}, 2);
  set(c, 0, DT_F32, s);
  set(c, 1, DT_F32, ir_shape(c->p, &n, 1));
  set(c, 2, DT_I64, max ? s : ir_shape(c->p, &none, 1));
  return 0;
}

uint16_t ir_rule_bag_grad(const Infer *c) {
  Dim n;
  TRY(check_bags(c, &n));
  Shape want = ir_shape(c->p, (Dim[]){n, dim_of(c, 0, 1)}, 2);
  if (shape_named(c, ARG_g).i != want.i) return bad_shape(c, "the gradient must have a row for each bag");
  bool of_table = ir_ins(c->f, c->v)->op == OP_embedding_bag_grad;
  set(c, 0, DT_F32, of_table ? shape_of(c, 0) : shape_of(c, 1));
  return 0;
}

// An update by rows (ir/optimizers.def): what the index, the bags and the gradient must be.
uint16_t ir_infer_rows_of_update(const Infer *c) {
  bool by_rows = ir_has_operand(c->f, c->v, ARG_index), has_best = ir_has_operand(c->f, c->v, ARG_best);
  bool has_factor = ir_has_operand(c->f, c->v, ARG_factor), has_offsets = ir_has_operand(c->f, c->v, ARG_offsets);
  if (!by_rows && !has_best && !has_factor && !has_offsets && !ir_attr(c->f, c->v, KEY_padding)) return 0;
  if (!by_rows) return bad_shape(c, "bags, factors, a largest element and {padding} belong to an index");
  if (ir_has_operand(c->f, c->v, ARG_owned)) return bad_shape(c, "an update by rows is not shared by processes");
  uint32_t index = ir_operand_at(c->f, c->v, ARG_index), grad = ir_operand_at(c->f, c->v, ARG_grad);
  uint32_t rank = ir_rank(c->p, shape_of(c, index));
  bool has_bags = has_offsets || (rank == 2 && ir_rank(c->p, shape_of(c, grad)) == 2);
  if (!has_bags && (has_best || has_factor)) return bad_shape(c, "factors and a largest element belong to bags");
  if (!has_bags) return check_table_rows(c, index, grad);
  Dim n;
  TRY(check_bags(c, &n));
  Shape want = ir_shape(c->p, (Dim[]){n, dim_of(c, 0, 1)}, 2);
  if (shape_of(c, grad).i != want.i) return bad_shape(c, "the gradient must have a row for each bag");
  if (has_best && (has_factor || shape_named(c, ARG_best).i != want.i))
    return bad_shape(c, "a largest element has the gradient's shape, and takes no factors");
  return 0;
}

uint16_t ir_rule_writes_rows(const Infer *c) {
  uint32_t index = ir_operand_at(c->f, c->v, ARG_index), rows = ir_operand_at(c->f, c->v, ARG_g);
  TRY(check_table_rows(c, index, rows));
  for (uint32_t k = 0; k < n_args(c); k++)
    if (k != index && k != rows && shape_of(c, k).i != (k < index ? shape_of(c, 0) : (Shape){0}).i)
      return bad_shape(c, "state must have the parameter's shape, what steers the update be scalars");
  for (uint32_t k = 0; k < index; k++) set(c, k, DT_F32, shape_of(c, 0));
  return 0;
}
