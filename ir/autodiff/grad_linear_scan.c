// Gradient rules of linear recurrences. The gradient of y_k = a_k y_(k-1) + b_k is the same recurrence in the other direction,
//
//   d_k = g_k + a_(k+1) d_(k+1)      of a_k: d_k y_(k-1)   of b_k: d_k   of h0: a_0 d_0
//
// which linear_scan_grad computes in one pass. Matrices: a_(k+1) is transposed, and the gradient of a_k is the outer product.
#include "ir/autodiff/grad.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"

// Emits `op` along the axis and the rows of v.
static Val along(Grad *g, Op op, Val v, const Val *in, uint32_t n, bool reverse) {
  Attr attr[2] = {ir_a_int(KEY_axis, ir_attr_int(g->f, v, KEY_axis, 0)), ir_a_int(KEY_reverse, 1)};
  return ir_emit(g->f, op, in, n, attr, reverse ? 2 : 1, g->loc);
}

static bool is_reverse(const Grad *g, Val v) { return ir_attr(g->f, v, KEY_reverse) != NULL; }
static Val layout_of(const Grad *g, Val v) { return ir_operand(g->f, v, ARG_layout); }

static Val backward(Grad *g, Val v, Val a, Val adj, Val y, Val h0, Val g_hn, bool reverse) {
  return along(g, OP_linear_scan_grad, v, (Val[]){a, adj, y, h0, g_hn, layout_of(g, v)}, 6, reverse);
}

void ir_grad_rule_linear_scan(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0), h0 = ir_operand(g->f, v, ARG_h0), none = {0};
  bool reads_y = g->dep[a.i] || ir_none(adj);
  Val d = backward(g, v, a, adj, reads_y ? v : none, reads_y ? h0 : none, g->adj[v.i + 1], is_reverse(g, v));
  ir_grad_give(g, a, d);
  ir_grad_give(g, arg(g, v, 1), ir_result(d, 1));
  if (!ir_none(h0)) ir_grad_give(g, h0, ir_result(d, 2));
}

// ---- second gradients
static Val filled(Grad *g, double x, Shape s) { return expand(g, number(g, x), s); }

// x_(k-1), at first h0 or 0
static Val before(Grad *g, Val v, Val x, Val h0, bool reverse) {
  Shape s = shape_of(g, x);
  return backward(g, v, filled(g, 0, s), filled(g, 1, s), x, h0, (Val){0}, reverse);
}

// x of the first step; of no steps 0
static Val first(Grad *g, Val v, Val x) {
  Val in[] = {filled(g, 0, shape_of(g, x)), x, {0}, layout_of(g, v)};
  return ir_result(along(g, OP_linear_scan, v, in, 4, !is_reverse(g, v)), 1);
}

// A x of each step, or A^T x: products of numbers, or of matrices [.., k, k] with [.., k]
static Val factors_times(Grad *g, Val a, Val x, bool transposed) {
  Shape s = shape_of(g, x);
  uint32_t rank = ir_rank(g->p, s);
  if (ir_rank(g->p, shape_of(g, a)) == rank) return mul(g, a, x);
  Dim d[MAX_RANK];
  for (uint32_t k = 0; k < rank; k++) d[k] = ir_dim_at(g->p, s, k);
  d[rank] = d[rank - 1];
  d[transposed ? rank : rank - 1] = ir_dim(g->p, 1);
  int64_t summed = transposed ? rank - 1 : rank;
  return ir_grad_sum_axes(g, mul(g, a, reshape(g, x, ir_shape(g->p, d, rank + 1))), &summed, 1);
}

static Val sum(Grad *g, Val a, Val b) { return ir_none(a) ? b : ir_none(b) ? a : op2(g, OP_add, a, b); }

// of_da, e, of_dh0: the gradients of the results. The gradient of g is u_k = a_k u_(k-1) + e_k + A_k y_(k-1), from of_dh0, with A
// for of_da; the state before the step meets d in the gradient of a.
void ir_grad_rule_linear_scan_grad(Grad *g, Val v, Val of_da) {
  Val a = arg(g, v, 0), y = ir_operand(g->f, v, ARG_y), h0 = ir_operand(g->f, v, ARG_h0), d = ir_result(v, 1);
  Val of_g = ir_operand(g->f, v, ARG_g), of_hn = ir_operand(g->f, v, ARG_g_hn), of_dh0 = g->adj[v.i + 2];
  Val e = g->adj[v.i + 1];
  bool reverse = is_reverse(g, v), meets_y = !ir_none(of_da) && !ir_none(y);
  if (meets_y) e = sum(g, e, factors_times(g, of_da, before(g, v, y, h0, reverse), false));
  if (ir_none(e)) e = filled(g, 0, shape_of(g, d));
  Val u = along(g, OP_linear_scan, v, (Val[]){a, e, of_dh0, layout_of(g, v)}, 4, reverse);
  if (!ir_none(of_g)) ir_grad_give(g, of_g, u);
  if (!ir_none(of_hn)) ir_grad_give(g, of_hn, ir_result(u, 1));
  if (g->dep[a.i]) ir_grad_give(g, a, backward(g, v, a, of_g, u, of_dh0, of_hn, reverse));
  if (!meets_y) return;
  Val of_before = factors_times(g, of_da, d, true);
  if (g->dep[y.i]) ir_grad_give(g, y, before(g, v, of_before, (Val){0}, !reverse));
  if (!ir_none(h0) && g->dep[h0.i]) ir_grad_give(g, h0, first(g, v, of_before));
}
