// Shape rules of what works along an axis: rows, scans, reductions, losses and norms of rows.
#include "ir/shape/infer.h"

// Softmax and its kin: rows of one shape, along {axis} or the last.
uint16_t ir_rule_row(const Infer *c) {
  uint32_t axis;
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  for (uint32_t k = 1; k < n_args(c); k++)
    if (shape_of(c, k).i != shape_of(c, 0).i) return bad_shape(c, "shapes differ");
  if (ir_attr(c->f, c->v, KEY_axis)) TRY(ir_infer_axis(c, &axis));
  return ir_rule_same(c);
}

// Scans along {axis}: operands of one type, which is the result's; a second result has indices. A layout has rows for axis 0.
uint16_t ir_rule_along(const Infer *c) {
  uint32_t axis, layout = ir_operand_at(c->f, c->v, ARG_layout);
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  TRY(ir_infer_axis(c, &axis));
  if (layout != UINT32_MAX && axis) return ir_infer_fault(c, E_ARGUMENT, "sequences of a layout run along axis 0");
  if (layout != UINT32_MAX && dim_of(c, 0, 0).i != dim_of(c, layout, 2).i)
    return bad_shape(c, "rows differ from the layout's");
  for (uint32_t k = 1; k < n_args(c) && k != layout; k++)
    if (shape_of(c, k).i != shape_of(c, 0).i) return bad_shape(c, "shapes differ");
  if (ir_ops[ir_ins(c->f, c->v)->op].n_res > 1) set(c, 1, DT_I64, shape_of(c, 0));
  return ir_rule_same(c);
}

// ---- linear recurrences
// What forward and backward share: `steps` is the shape of b, y and their gradients.
typedef struct {
  Shape steps, state;  // state: of one step of all sequences
  Shape all_factors;   // a of every step
} Recurrence;

static bool has_shape(const Infer *c, ArgName name, Shape s) {
  return !ir_has_operand(c->f, c->v, name) || shape_named(c, name).i == s.i;
}

static Shape without_axis(const Infer *c, Shape s, uint32_t axis) {
  Dim d[MAX_RANK];
  uint32_t rank = ir_rank(c->p, s);
  for (uint32_t k = 0; k + 1 < rank; k++) d[k] = ir_dim_at(c->p, s, k + (k >= axis));
  return ir_shape(c->p, d, rank - 1);
}

// A matrix for each step has one axis more than the steps; its size is that of their last axis.
static uint16_t check_matrices(const Infer *c, Shape steps, uint32_t axis, Dim *side) {
  uint32_t rank = ir_rank(c->p, steps);
  *side = ir_dim_at(c->p, steps, rank - 1);
  if (axis + 1 >= rank) return bad_shape(c, "matrices need an axis behind {axis}");
  if (!ir_dim_is_const(c->p, *side) || ir_dim_bound(c->p, *side) < 1 || ir_dim_bound(c->p, *side) > MAX_SCAN_SIDE)
    return bad_shape(c, "the matrices of a linear scan have a constant number of rows, 1 to 8");
  return 0;
}

static uint16_t recurrence_of(const Infer *c, Shape steps, Recurrence *r) {
  uint32_t rank = ir_rank(c->p, steps);
  int64_t axis = ir_attr_int(c->f, c->v, KEY_axis, -1);
  Val layout = ir_operand(c->f, c->v, ARG_layout);
  if (axis < 0 || axis >= rank) return ir_infer_fault(c, E_ARGUMENT, "{axis} is out of range");
  if (!ir_none(layout) && axis) return ir_infer_fault(c, E_ARGUMENT, "packed rows are along axis 0");
  if (!ir_none(layout) && ir_dim_at(c->p, steps, 0).i != dim_named(c, ARG_layout, 2).i)
    return bad_shape(c, "rows differ from the layout's");
  r->steps = steps, r->state = without_axis(c, steps, (uint32_t)axis);
  if (!ir_none(layout)) r->state = ir_infer_with_dim(c, steps, 0, dim_named(c, ARG_layout, 0));
  bool has_matrices = rank_of(c, 0) == rank + 1;
  Dim d[MAX_RANK + 1];
  for (uint32_t k = 0; k < rank; k++) d[k] = ir_dim_at(c->p, steps, k);
  if (has_matrices) TRY(check_matrices(c, steps, (uint32_t)axis, &d[rank]));
  r->all_factors = ir_shape(c->p, d, rank + has_matrices);
  Shape constant = ir_infer_with_dim(c, r->all_factors, (uint32_t)axis, ir_dim(c->p, 1));
  bool is_constant = ir_none(layout) && shape_of(c, 0).i == constant.i;
  if (shape_of(c, 0).i != r->all_factors.i && !is_constant) return bad_shape(c, "the factors have another shape");
  return has_shape(c, ARG_h0, r->state) ? 0 : bad_shape(c, "the initial state has another shape");
}

uint16_t ir_rule_linear_scan(const Infer *c) {
  Recurrence r;
  TRY(ir_infer_rank(c, 1, 1, MAX_RANK));
  TRY(recurrence_of(c, shape_of(c, 1), &r));
  set(c, 0, DT_F32, r.steps);
  set(c, 1, DT_F32, r.state);
  return 0;
}

uint16_t ir_rule_linear_scan_grad(const Infer *c) {
  Recurrence r;
  ArgName first = ir_has_operand(c->f, c->v, ARG_g) ? ARG_g : ARG_y;
  if (!ir_has_operand(c->f, c->v, first)) return ir_infer_fault(c, E_ARGUMENT, "needs g or y");
  TRY(ir_infer_rank(c, ir_operand_at(c->f, c->v, first), 1, MAX_RANK));
  TRY(recurrence_of(c, shape_named(c, first), &r));
  if (!has_shape(c, ARG_y, r.steps)) return bad_shape(c, "the gradient and y have different shapes");
  if (!has_shape(c, ARG_g_hn, r.state)) return bad_shape(c, "the gradient of the last state has another shape");
  set(c, 0, DT_F32, r.all_factors);
  set(c, 1, DT_F32, r.steps);
  set(c, 2, DT_F32, r.state);
  return 0;
}

// ---- Fourier transforms: n points of the last axis, or the parts of their bins
static uint16_t check_points(const Infer *c, int64_t n) {
  enum { MOST_POINTS = 2048 };
  return n < 1 || n > MOST_POINTS ? bad_shape(c, "a transform has 1 to 2048 points") : 0;
}

static int64_t parts_of_bins(int64_t n) { return 2 * (n / 2 + 1); }

static bool has_bins_first(const Infer *c) { return ir_attr(c->f, c->v, KEY_bins_first) != NULL; }

static uint16_t set_last(const Infer *c, int64_t n) {
  set(c, 0, DT_F32, ir_infer_with_dim(c, shape_of(c, 0), rank_of(c, 0) - 1, ir_dim(c->p, n)));
  return 0;
}

uint16_t ir_rule_rfft(const Infer *c) {
  bool bins_first = has_bins_first(c);
  TRY(ir_infer_rank(c, 0, 1 + bins_first, MAX_RANK - bins_first));
  uint32_t last = rank_of(c, 0) - 1;
  Dim n = dim_of(c, 0, last), d[MAX_RANK];
  if (!ir_dim_is_const(c->p, n)) return bad_shape(c, "the last axis has a constant size");
  TRY(check_points(c, ir_dim_bound(c->p, n)));
  int64_t parts = parts_of_bins(ir_dim_bound(c->p, n));
  if (!bins_first) return set_last(c, parts);
  for (uint32_t k = 0; k + 1 < last; k++) d[k] = dim_of(c, 0, k);
  d[last - 1] = ir_dim(c->p, parts / 2), d[last] = dim_of(c, 0, last - 1), d[last + 1] = ir_dim(c->p, 2);
  set(c, 0, DT_F32, ir_shape(c->p, d, last + 2));
  return 0;
}

uint16_t ir_rule_rfft_grad(const Infer *c) {
  int64_t n = ir_attr_int(c->f, c->v, KEY_size, 0);
  bool bins_first = has_bins_first(c);
  TRY(ir_infer_rank(c, 0, bins_first ? 3 : 1, MAX_RANK));
  TRY(check_points(c, n));
  uint32_t rank = rank_of(c, 0);
  Dim last = dim_of(c, 0, rank - 1), d[MAX_RANK];
  if (!bins_first && last.i == ir_dim(c->p, parts_of_bins(n)).i) return set_last(c, n);
  if (!bins_first || last.i != ir_dim(c->p, 2).i || dim_of(c, 0, rank - 3).i != ir_dim(c->p, parts_of_bins(n) / 2).i)
    return bad_shape(c, "there are both parts of {size} / 2 + 1 bins");
  for (uint32_t k = 0; k + 3 < rank; k++) d[k] = dim_of(c, 0, k);
  d[rank - 3] = dim_of(c, 0, rank - 2), d[rank - 2] = ir_dim(c->p, n);
  set(c, 0, DT_F32, ir_shape(c->p, d, rank - 1));
  return 0;
}

// ---- reductions: the result has the axes that are not in {axes}, or those with size 1.
static bool is_rounded(const Infer *c) { return REAL >> dtype_of(c, 0) & 1 && !ir_attr(c->f, c->v, KEY_nonzero); }

static uint16_t check_axes(const Infer *c) {
  const Attr *a = ir_attr(c->f, c->v, KEY_axes);
  if (!a) return ir_infer_fault(c, E_ARGUMENT, "needs {axes}");
  uint32_t seen = 0;
  for (uint32_t k = 0; k < ir_rank(c->p, a->u.list); k++) {
    int64_t axis = ir_list_at(c->p, a->u.list, k);
    if (axis < 0 || axis >= rank_of(c, 0) || (seen >> axis & 1))
      return ir_infer_fault(c, E_ARGUMENT, "{axes} has an axis out of range or twice");
    seen |= 1u << axis;
  }
  return 0;
}

static uint16_t reduced_to(const Infer *c, DType t) {
  TRY(check_axes(c));
  uint32_t axes = ir_reduced_axes(c->f, c->v), n = 0;
  bool keep = ir_attr(c->f, c->v, KEY_keepdim) != NULL;
  Dim d[MAX_RANK];
  for (uint32_t k = 0; k < rank_of(c, 0); k++) {
    if (!(axes >> k & 1)) d[n++] = dim_of(c, 0, k);
    else if (keep) d[n++] = ir_dim(c->p, 1);
  }
  set(c, 0, t, ir_shape(c->p, d, n));
  return 0;
}

// Sums and products.
uint16_t ir_rule_sum(const Infer *c) { return reduced_to(c, is_rounded(c) ? dtype_of(c, 0) : DT_I64); }

uint16_t ir_rule_amax(const Infer *c) {
  if (is_rounded(c) && ir_attr(c->f, c->v, KEY_least))
    return ir_infer_fault(c, E_ARGUMENT, "{least} is of integers: the minimum of f32 is the negative maximum of -x");
  return reduced_to(c, ir_attr(c->f, c->v, KEY_nonzero) ? DT_BOOL : dtype_of(c, 0));
}

uint16_t ir_rule_reduce(const Infer *c) { return reduced_to(c, dtype_of(c, 0)); }

uint16_t ir_rule_argmax(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  uint32_t axis = rank_of(c, 0) - 1, n = 0;
  if (ir_attr(c->f, c->v, KEY_axis)) TRY(ir_infer_axis(c, &axis));
  Dim size = dim_of(c, 0, axis), d[MAX_RANK];
  if (ir_dim_is_const(c->p, size) && ir_dim_bound(c->p, size) == 0)
    return bad_shape(c, "the axis is empty: there is no largest element");
  for (uint32_t k = 0; k < rank_of(c, 0); k++)
    if (k != axis) d[n++] = dim_of(c, 0, k);
  set(c, 0, DT_I64, ir_shape(c->p, d, n));
  return 0;
}

static Shape without_last(const Infer *c, Shape s) {
  Dim d[MAX_RANK];
  uint32_t r = ir_rank(c->p, s);
  for (uint32_t k = 0; k + 1 < r; k++) d[k] = ir_dim_at(c->p, s, k);
  return ir_shape(c->p, d, r ? r - 1 : 0);
}

uint16_t ir_rule_moments(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 2, MAX_RANK));
  Dim channels = dim_of(c, 0, rank_of(c, 0) - 1);
  for (uint32_t k = 0; k < 3; k++) set(c, k, DT_F32, ir_shape(c->p, &channels, 1));
  return 0;
}

// Logits [.., C], labels [..] -> [..]
static uint16_t check_labels(const Infer *c, Shape *rows) {
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  *rows = without_last(c, shape_of(c, 0));
  if (shape_of(c, 1).i != rows->i) ir_infer_would_fit(c, "labels", *rows);
  if (shape_of(c, 1).i != rows->i)
    return bad_shape(c, "labels must have the shape of the logits without the last axis");
  int64_t ignore = ir_attr_int(c->f, c->v, KEY_ignore, 0);
  bool fits = ignore <= INT64_C(1) << 53 && ignore >= -(INT64_C(1) << 53);
  return fits ? 0 : ir_infer_fault(c, E_ARGUMENT, "{ignore} is too large");
}

uint16_t ir_rule_cross_entropy(const Infer *c) {
  Shape rows;
  TRY(check_labels(c, &rows));
  set(c, 0, DT_F32, rows);
  set(c, 1, DT_F32, rows);
  return 0;
}

uint16_t ir_rule_cross_entropy_grad(const Infer *c) {
  Shape rows;
  TRY(check_labels(c, &rows));
  for (uint32_t k = 2; k < n_args(c); k++)
    if (shape_of(c, k).i != rows.i) return bad_shape(c, "the numbers and gradients of rows have another shape");
  set(c, 0, DT_F32, shape_of(c, 0));
  return 0;
}

// Rows run along {axis}, of numbers without weights, or along the last.
static uint16_t row_axis(const Infer *c, bool weighs, uint32_t *axis) {
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  *axis = rank_of(c, 0) - 1;
  if (!ir_attr(c->f, c->v, KEY_axis)) return 0;
  if (weighs) return ir_infer_fault(c, E_ARGUMENT, "a weight is along the last axis: none with {axis}");
  return ir_infer_axis(c, axis);
}

// x [.., C], weight and bias [C] -> y, then numbers of each row.
uint16_t ir_rule_norm(const Infer *c) {
  uint32_t axis;
  TRY(row_axis(c, n_args(c) > 1, &axis));
  Shape s = shape_of(c, 0);
  Dim width = dim_of(c, 0, rank_of(c, 0) - 1);
  for (uint32_t k = 1; k < n_args(c); k++)
    if (shape_of(c, k).i != ir_shape(c->p, &width, 1).i) {
      ir_infer_would_fit(c, "x", ir_infer_with_dim(c, s, rank_of(c, 0) - 1, dim_of(c, k, 0)));
      return bad_shape(c, "weight and bias must have the size of the last axis");
    }
  if (!(ir_attr_num(c->f, c->v, KEY_eps, -1) >= 0)) return ir_infer_fault(c, E_ARGUMENT, "needs {eps}, 0 or more");
  set(c, 0, DT_F32, s);
  for (uint32_t k = 1; k < ir_ops[ir_ins(c->f, c->v)->op].n_res; k++) set(c, k, DT_F32, without_axis(c, s, axis));
  return 0;
}

uint16_t ir_rule_norm_grad(const Infer *c) {
  uint32_t axis;
  TRY(row_axis(c, ir_has_operand(c->f, c->v, ARG_weight), &axis));
  Shape s = shape_of(c, 0), numbers = without_axis(c, s, axis);
  Dim width = dim_of(c, 0, axis);
  for (uint32_t k = 1; k < n_args(c); k++) {
    uint32_t flags = ir_operand_flags(c->f, c->v, k);
    Shape want = flags & ROW_SCALAR ? numbers : flags & ELEMENT ? s : ir_shape(c->p, &width, 1);
    if (shape_of(c, k).i != want.i)
      return bad_shape(c, "operands must be x, numbers of its rows, a gradient like x and a weight like its last axis");
  }
  set(c, 0, DT_F32, s);
  return 0;
}
