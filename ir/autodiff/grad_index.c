// Gradient rules of scans along an axis, of gather and scatter along an axis, and of what is ordered.
#include "ir/autodiff/grad.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"

static Val zeros(Grad *g, Shape s) {
  Attr a[2] = {ir_a_num(KEY_value, 0), ir_a_list(KEY_shape, s)};
  return ir_emit(g->f, OP_full, NULL, 0, a, 2, g->loc);
}

// ---- scans: {axis} of v and its layout, {reverse} where `reverse`, and one flag more where `flag` is no KEY_none
static Val along(Grad *g, Op op, Val v, const Val *given, uint32_t n_in, bool reverse, const Key *flag) {
  Attr attr[3] = {ir_a_int(KEY_axis, ir_attr_int(g->f, v, KEY_axis, 0))};
  Val in[MAX_OPERANDS];
  for (uint32_t k = 0; k < n_in; k++) in[k] = given[k];
  uint32_t last = ir_op_operand(op, ARG_layout);
  if (last != UINT32_MAX) {
    for (; n_in <= last; n_in++) in[n_in] = (Val){0};
    in[last] = ir_operand(g->f, v, ARG_layout);
  }
  uint32_t n = 1;
  if (reverse) attr[n++] = ir_a_int(KEY_reverse, 1);
  if (flag) attr[n++] = ir_a_int(*flag, 1);
  return ir_emit(g->f, op, in, n_in, attr, n, g->loc);
}

static bool is_reverse(Grad *g, Val v) { return ir_attr(g->f, v, KEY_reverse) != NULL; }

static Val shift(Grad *g, Val v, Val x, bool reverse) { return along(g, OP_shift, v, &x, 1, reverse, NULL); }

// s_k = g_k + x_(k+1) s_(k+1); reverse: of a v that runs from the last element on
static Val sums_of_products(Grad *g, Val v, Val x, Val adj) {
  return ir_result(along(g, OP_linear_scan_grad, v, (Val[]){x, adj}, 2, is_reverse(g, v), NULL), 1);
}

void ir_grad_rule_cumsum(Grad *g, Val v, Val adj) {
  ir_grad_give(g, arg(g, v, 0), along(g, OP_cumsum, v, &adj, 1, !is_reverse(g, v), NULL));
}

// The derivative of y_i by x_k is the product of the other factors: the product of x before k, times s_k = g_k + x_(k+1)
// s_(k+1). No division: zeros are no special case. For an exclusive product g is that of the next element.
void ir_grad_rule_cumprod(Grad *g, Val v, Val adj) {
  Val x = arg(g, v, 0), before = v;
  bool reverse = is_reverse(g, v), exclusive = ir_attr(g->f, v, KEY_exclusive) != NULL;
  Key key = KEY_exclusive;
  if (exclusive) adj = shift(g, v, adj, !reverse);
  else before = along(g, OP_cumprod, v, &x, 1, reverse, &key);
  ir_grad_give(g, x, mul(g, before, sums_of_products(g, v, x, adj)));
}

// c_k = sum over j >= k of `less` - ln(factor), which is e^less rounded: over many steps close to 1 these add up. e^(c_k - c_i),
// nearly 1 + c_k - c_i, is by what the product of the factors from k to i is too small. In exact numbers c is 0: no gradient.
static Val lost_by_rounding(Grad *g, Val v, Val less, Val factor, bool back) {
  Val zero = ir_const(g->f, 0, g->loc), is_close = op2(g, OP_gt, less, ir_const(g->f, -1, g->loc));
  Val lost = op2(g, OP_sub, less, ir_op1(g->f, OP_log, factor, g->loc));
  lost = ir_op3(g->f, OP_select, is_close, lost, zero, g->loc);
  return ir_op1(g->f, OP_stop_grad, along(g, OP_cumsum, v, &lost, 1, back, NULL), g->loc);
}

// h_k = sum over i >= k of g_i e^(y_k - y_i), whose factors are at most 1; x gets e^(x_k - y_k) of it. Of two infinite sums
// the factor is 1, so that what comes before an infinite element has its gradient; so is that of an element and an equal infinite
// sum, of -infinities before all others as well. The last element has no next one: its
// factor is not read, but must be finite, since a second gradient multiplies it by 0.
void ir_grad_rule_logcumsumexp(Grad *g, Val v, Val adj) {
  Val x = arg(g, v, 0), zero = ir_const(g->f, 0, g->loc), one = ir_const(g->f, 1, g->loc);
  bool back = !is_reverse(g, v);
  Val next = shift(g, v, v, back), is_inf = ir_op1(g->f, OP_isinf, v, g->loc);
  Val stays = mul(g, op2(g, OP_eq, v, next), is_inf);
  Val less = op2(g, OP_sub, v, next);
  less = ir_op3(g->f, OP_select, op2(g, OP_max, stays, op2(g, OP_gt, less, one)), zero, less, g->loc);
  Val factor = ir_op1(g->f, OP_exp, less, g->loc), lost = lost_by_rounding(g, v, less, factor, back);
  is_inf = ir_op1(g->f, OP_isinf, v, g->loc);
  Val is_all = mul(g, op2(g, OP_eq, x, v), is_inf);
  Val own = ir_op1(g->f, OP_exp, ir_op3(g->f, OP_select, is_all, zero, op2(g, OP_sub, x, v), g->loc), g->loc);
  Val in[] = {factor, mul(g, adj, op2(g, OP_sub, one, lost))};
  Val h = along(g, OP_linear_scan, v, in, 2, back, NULL);
  ir_grad_give(g, x, mul(g, own, mul(g, h, op2(g, OP_add, one, lost))));
}

void ir_grad_rule_shift(Grad *g, Val v, Val adj) { ir_grad_give(g, arg(g, v, 0), shift(g, v, adj, !is_reverse(g, v))); }

// ---- gather and scatter: {padded} where v is, and of rows of a layout (seq_row)
static Val by_slices(Grad *g, Op op, Val v, const Val *in, uint32_t n_in) {
  Key key = KEY_by_slices;
  Op of_slices = op == OP_gather ? OP_index_select : op == OP_scatter_add ? OP_index_add : op;
  return along(g, of_slices, v, in, n_in, false, of_slices == op ? &key : NULL);
}

static Val by_index(Grad *g, Op op, Val v, const Val *in, uint32_t n_in) {
  Key key = KEY_padded;
  if (ir_attr(g->f, v, KEY_by_slices)) return by_slices(g, op, v, in, n_in);
  bool is_padded = ir_attr(g->f, v, key) || ir_has_operand(g->f, v, ARG_layout);
  return along(g, op, v, in, n_in, false, is_padded ? &key : NULL);
}

static Val take(Grad *g, Op op, Val v, Val x, Val index) { return by_index(g, op, v, (Val[]){x, index}, 2); }
static Val put(Grad *g, Op op, Val v, Val target, Val index, Val source) {
  return by_index(g, op, v, (Val[]){target, index, source}, 3);
}

// The rows of steps of each sequence, where v runs along those of a layout.
static Val rows_of_steps(Grad *g, Val v, Val step) {
  Val layout = ir_operand(g->f, v, ARG_layout);
  if (ir_none(layout)) return step;
  Attr part = ir_a_str(KEY_part, ir_str(g->p, "sequences"));
  Val of = ir_emit(g->f, OP_seq_part, &layout, 1, &part, 1, g->loc);
  return ir_emit(g->f, OP_seq_row, (Val[]){step, layout, of}, 3, NULL, 0, g->loc);
}

// The gradient of an element goes to the first of the equal elements that it may have come from.
static void give_by_index(Grad *g, Val v, Val index, Val adj) {
  Val x = arg(g, v, 0);
  if (!ir_none(adj)) ir_grad_give(g, x, put(g, OP_scatter_add, v, zeros(g, shape_of(g, x)), index, adj));
}

void ir_grad_rule_cumulative_best(Grad *g, Val v, Val adj) {
  if (!ir_none(adj)) give_by_index(g, v, rows_of_steps(g, v, ir_result(v, 1)), adj);
}
void ir_grad_rule_gather(Grad *g, Val v, Val adj) { give_by_index(g, v, arg(g, v, 1), adj); }

void ir_grad_rule_index_select(Grad *g, Val v, Val adj) {
  Val x = arg(g, v, 0);
  ir_grad_give(g, x, put(g, OP_index_add, v, zeros(g, shape_of(g, x)), arg(g, v, 1), adj));
}

// 1 where an element of the source was kept, 0 where a later one with an equal index replaced it. Found by
// scattering the elements' numbers and gathering them again.
static Val elements_stayed(Grad *g, Val v) {
  Val index = arg(g, v, 1), numbers = ir_grad_count(g, shape_of(g, index), ir_attr_int(g->f, v, KEY_axis, 0));
  Val all = put(g, OP_scatter, v, zeros(g, shape_of(g, arg(g, v, 0))), index, numbers);
  return op2(g, OP_eq, take(g, OP_gather, v, all, index), numbers);
}

// The same of an index [n] of slices along an axis of v, as [n, 1, ..].
static Val slices_stayed(Grad *g, Val v, int64_t axis) {
  Val index = arg(g, v, 1), numbers = ir_grad_count(g, shape_of(g, index), 0);
  const Attr along_row[] = {ir_a_int(KEY_axis, 0), ir_a_int(KEY_padded, 1)};
  uint32_t n_attrs = ir_attr(g->f, v, KEY_padded) ? 2 : 1;
  Shape target = shape_of(g, arg(g, v, 0));
  Shape row = ir_shape(g->p, (Dim[]){ir_dim_at(g->p, target, (uint32_t)axis)}, 1);
  Dim d[MAX_RANK];
  uint32_t rank = ir_rank(g->p, target);
  for (uint32_t k = 0; k < rank; k++) d[k] = ir_dim(g->p, 1);
  d[axis] = ir_dim_at(g->p, shape_of(g, index), 0);
  Val all = ir_emit(g->f, OP_index_copy, (Val[]){zeros(g, row), index, numbers}, 3, along_row, n_attrs, g->loc);
  Val again = ir_emit(g->f, OP_index_select, (Val[]){all, index}, 2, along_row, n_attrs, g->loc);
  return reshape(g, op2(g, OP_eq, again, numbers), ir_shape(g->p, d, rank));
}

static Val where(Grad *g, Val is_in, Val x) { return ir_op3(g->f, OP_select, is_in, x, number(g, 0), g->loc); }

// Overwritten elements get no gradient: those of the target, and all but the last of several sources with one
// index.
void ir_grad_rule_scatter(Grad *g, Val v, Val adj) {
  Val target = arg(g, v, 0), index = arg(g, v, 1), source = arg(g, v, 2);
  if (g->dep[target.i]) ir_grad_give(g, target, put(g, OP_scatter, v, adj, index, number(g, 0)));
  if (!g->dep[source.i]) return;
  Val is_in = elements_stayed(g, v);
  ir_grad_give(g, source, where(g, is_in, take(g, OP_gather, v, adj, index)));
}

void ir_grad_rule_index_copy(Grad *g, Val v, Val adj) {
  Val target = arg(g, v, 0), index = arg(g, v, 1), source = arg(g, v, 2);
  if (g->dep[target.i]) ir_grad_give(g, target, put(g, OP_index_copy, v, adj, index, number(g, 0)));
  if (!g->dep[source.i]) return;
  Val is_in = slices_stayed(g, v, ir_attr_int(g->f, v, KEY_axis, 0));
  ir_grad_give(g, source, where(g, is_in, take(g, OP_index_select, v, adj, index)));
}

void ir_grad_rule_index_assign(Grad *g, Val v, Val adj) {
  Val target = arg(g, v, 0), index = arg(g, v, 1), source = arg(g, v, 2);
  if (g->dep[target.i])
    ir_grad_give(g, target, ir_op3(g->f, OP_index_assign, adj, index, zeros(g, shape_of(g, source)), g->loc));
  if (!g->dep[source.i]) return;
  Attr rows = ir_a_int(KEY_axis, 0);
  Val taken = ir_emit(g->f, OP_index_select, (Val[]){adj, index}, 2, &rows, 1, g->loc);
  ir_grad_give(g, source, where(g, slices_stayed(g, v, 0), taken));
}

static void added(Grad *g, Val v, Val adj, Op take_op) {
  Val source = arg(g, v, 2);
  ir_grad_give(g, arg(g, v, 0), adj);
  if (g->dep[source.i]) ir_grad_give(g, source, take(g, take_op, v, adj, arg(g, v, 1)));
}

void ir_grad_rule_scatter_add(Grad *g, Val v, Val adj) { added(g, v, adj, OP_gather); }
void ir_grad_rule_index_add(Grad *g, Val v, Val adj) { added(g, v, adj, OP_index_select); }

// By element of x: the sum of the other elements that v scatters to the same place.
static Val sum_of_others(Grad *g, Val v, Val x) {
  Val index = arg(g, v, 1), none = zeros(g, shape_of(g, arg(g, v, 0)));
  return op2(g, OP_sub, take(g, OP_gather, v, put(g, OP_scatter_add, v, none, index, x), index), x);
}

// The target gets the product of the elements scattered to its place; each element gets the product of the
// others.
void ir_grad_rule_scatter_prod(Grad *g, Val v, Val adj) {
  Val target = arg(g, v, 0), index = arg(g, v, 1), source = arg(g, v, 2), one = number(g, 1);
  Attr ones[] = {ir_a_num(KEY_value, 1), ir_a_list(KEY_shape, shape_of(g, target))};
  if (g->dep[target.i]) {
    Val factors = put(g, OP_scatter_prod, v, ir_emit(g->f, OP_full, NULL, 0, ones, 2, g->loc), index, source);
    ir_grad_give(g, target, mul(g, adj, factors));
  }
  if (!g->dep[source.i]) return;
  Val is_zero = op2(g, OP_eq, source, number(g, 0)), safe = ir_op3(g->f, OP_select, is_zero, one, source, g->loc);
  Val product = put(g, OP_scatter_prod, v, target, index, safe);
  Val others = op2(g, OP_div, take(g, OP_gather, v, mul(g, adj, product), index), safe);
  Val n_zeros = sum_of_others(g, v, is_zero), zeros_sum = sum_of_others(g, v, where(g, is_zero, source));
  ir_grad_give(g, source, ir_grad_other_factors(g, others, n_zeros, zeros_sum));
}

// All elements equal to the extreme share the gradient equally.
void ir_grad_rule_scatter_best(Grad *g, Val v, Val adj) {
  Val target = arg(g, v, 0), index = arg(g, v, 1), source = arg(g, v, 2);
  Val is_target = op2(g, OP_eq, target, v), is_source = op2(g, OP_eq, source, take(g, OP_gather, v, v, index));
  Val share = op2(g, OP_div, adj, put(g, OP_scatter_add, v, is_target, index, is_source));
  if (g->dep[target.i]) ir_grad_give(g, target, mul(g, is_target, share));
  if (g->dep[source.i]) ir_grad_give(g, source, mul(g, is_source, take(g, OP_gather, v, share, index)));
}

// Each element of the result comes from one element; the median of no elements comes from none.
void ir_grad_rule_by_index(Grad *g, Val v, Val adj) {
  Val x = arg(g, v, 0);
  if (ir_none(adj)) return;
  Dim n = ir_dim_at(g->p, shape_of(g, x), (uint32_t)ir_attr_int(g->f, v, KEY_axis, 0));
  Key key = KEY_padded;
  bool may_be_none = ir_ins(g->f, v)->op == OP_median && !ir_dim_is_const(g->p, n);
  const Val in[] = {zeros(g, shape_of(g, x)), ir_result(v, 1), adj};
  ir_grad_give(g, x, along(g, OP_scatter, v, in, 3, false, may_be_none ? &key : NULL));
}

// ---- bags
static Val bag_op(Grad *g, Op op, Val v, Val weight, Val rows, Val factor) {
  const Attr *padding = ir_attr(g->f, v, KEY_padding);
  Val index = ir_operand(g->f, v, ARG_index), offsets = ir_operand(g->f, v, ARG_offsets);
  Val bags[] = {weight, index, offsets, factor}, grads[] = {weight, index, rows, offsets, factor};
  bool is_bag = op == OP_embedding_bag;
  uint32_t n = is_bag ? 4 : op == OP_embedding_bag_grad ? 5 : 4;
  return ir_emit(g->f, op, is_bag ? bags : grads, n, padding, padding != NULL, g->loc);
}

// For a maximum, each element goes to the row that has it; an empty bag has none.
static void give_maximum(Grad *g, Val v, Val adj) {
  Val w = arg(g, v, 0), any = op2(g, OP_gt, ir_result(v, 1), number(g, 0));
  Shape s = shape_of(g, adj);
  Shape column = ir_shape(g->p, (Dim[]){ir_dim_at(g->p, s, 0), ir_dim(g->p, 1)}, 2);
  Attr axis = ir_a_int(KEY_axis, 0);
  Val in[] = {zeros(g, shape_of(g, w)), ir_result(v, 2), mul(g, adj, reshape(g, any, column))};
  ir_grad_give(g, w, ir_emit(g->f, OP_scatter_add, in, 3, &axis, 1, g->loc));
}

void ir_grad_rule_bag(Grad *g, Val v, Val adj) {
  Val w = arg(g, v, 0), factor = ir_operand(g->f, v, ARG_factor);
  if (ir_none(adj)) return;  // how many rows count depends on no number
  if (ir_attr(g->f, v, KEY_max)) {
    give_maximum(g, v, adj);
    return;
  }
  if (g->dep[w.i]) ir_grad_give(g, w, bag_op(g, OP_embedding_bag_grad, v, w, adj, factor));
  if (g->dep[factor.i]) ir_grad_give(g, factor, bag_op(g, OP_embedding_bag_factor, v, w, adj, (Val){0}));
}

// The gradient of the table is linear in g and in the factors.
void ir_grad_rule_bag_grad(Grad *g, Val v, Val adj) {
  Val rows = ir_operand(g->f, v, ARG_g), factor = ir_operand(g->f, v, ARG_factor);
  if (g->dep[rows.i]) ir_grad_give(g, rows, bag_op(g, OP_embedding_bag, v, adj, (Val){0}, factor));
  if (g->dep[factor.i]) ir_grad_give(g, factor, bag_op(g, OP_embedding_bag_factor, v, adj, rows, (Val){0}));
}

void ir_grad_rule_bag_factor(Grad *g, Val v, Val adj) {
  Val w = arg(g, v, 0), rows = ir_operand(g->f, v, ARG_g);
  if (g->dep[w.i]) ir_grad_give(g, w, bag_op(g, OP_embedding_bag_grad, v, w, rows, adj));
  if (g->dep[rows.i]) ir_grad_give(g, rows, bag_op(g, OP_embedding_bag, v, w, (Val){0}, adj));
}
