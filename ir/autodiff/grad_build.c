// What gradient rules are built of.
#include "ir/autodiff/grad.h"
#include "ir/fn.h"
#include "ir/intern.h"

Val ir_grad_sum_axes(Grad *g, Val a, const int64_t *axes, uint32_t n) {
  return n ? with_attr(g, OP_sum, a, ir_a_list(KEY_axes, ir_shape_ints(g->p, axes, n))) : a;
}

Val ir_grad_matmul(Grad *g, Val a, Val b, bool ta, bool tb) {
  Attr attr[2];
  uint32_t n = 0;
  if (ta) attr[n++] = ir_a_int(KEY_ta, 1);
  if (tb) attr[n++] = ir_a_int(KEY_tb, 1);
  return ir_emit(g->f, OP_matmul, (Val[]){a, b}, 2, attr, n, g->loc);
}

Val ir_grad_part(Grad *g, Val x, int64_t axis, Dim start, Dim count) {
  Attr attr[3] = {ir_a_int(KEY_axis, axis), ir_a_dim(KEY_start, start), ir_a_dim(KEY_count, count)};
  return ir_emit(g->f, OP_slice, &x, 1, attr, 3, g->loc);
}

Val ir_grad_count(Grad *g, Shape s, int64_t axis) {
  Attr full[2] = {ir_a_num(KEY_value, 1), ir_a_list(KEY_shape, s)}, along = ir_a_int(KEY_axis, axis);
  Val ones = ir_emit(g->f, OP_full, NULL, 0, full, 2, g->loc);
  return ir_emit(g->f, OP_cumsum, &ones, 1, &along, 1, g->loc);
}

// Sums a over the axes along which `to` was broadcast.
static Val sum_to(Grad *g, Val a, Shape to) {
  Shape from = shape_of(g, a);
  if (from.i == to.i) return a;
  uint32_t rf = ir_rank(g->p, from), rt = ir_rank(g->p, to), n = 0;
  int64_t axes[MAX_RANK];
  for (uint32_t k = 0; k < rf; k++)
    if (k + rt < rf || ir_dim_at(g->p, from, k).i != ir_dim_at(g->p, to, k + rt - rf).i) axes[n++] = k;
  return reshape(g, ir_grad_sum_axes(g, a, axes, n), to);
}

// Adds d (shaped like v or broader) to the gradient of v.
void ir_grad_give(Grad *g, Val v, Val d) {
  if (!g->dep[v.i] || ir_none(d)) return;
  d = sum_to(g, d, shape_of(g, v));
  g->adj[v.i] = ir_none(g->adj[v.i]) ? d : op2(g, OP_add, g->adj[v.i], d);
}

Val ir_grad_other_factors(Grad *g, Val without, Val n_zeros, Val zeros) {
  Val zero = number(g, 0), by_zero = op2(g, OP_mul, without, zeros);
  by_zero = ir_op3(g->f, OP_select, op2(g, OP_eq, n_zeros, number(g, 1)), by_zero, zero, g->loc);
  return ir_op3(g->f, OP_select, op2(g, OP_eq, n_zeros, zero), without, by_zero, g->loc);
}
