// Gradient rules of triangular systems, Cholesky factors, systems by row operations, and factors of small matrices.
#include "ir/autodiff/grad.h"
#include "ir/fn.h"
#include "ir/intern.h"

typedef struct {
  bool upper, ta, unit, right;
} System;

static Val solve(Grad *g, Val a, Val b, System s) {
  const struct {
    bool set;
    Key key;
  } flags[] = {{s.upper, KEY_upper}, {s.ta, KEY_ta}, {s.unit, KEY_unit}, {s.right, KEY_right}};
  Attr attr[4];
  uint32_t n = 0;
  for (uint32_t k = 0; k < 4; k++)
    if (flags[k].set) attr[n++] = ir_a_int(flags[k].key, 1);
  return ir_emit(g->f, OP_solve_triangular, (Val[]){a, b}, 2, attr, n, g->loc);
}

// 1, 2, .. along one axis of a square matrix, whose other axis has size 1.
static Val places(Grad *g, Dim n, int64_t axis) {
  Dim d[2] = {ir_dim(g->p, 1), ir_dim(g->p, 1)};
  d[axis] = n;
  Attr full[2] = {ir_a_num(KEY_value, 1), ir_a_list(KEY_shape, ir_shape(g->p, d, 2))}, along = ir_a_int(KEY_axis, axis);
  Val ones = ir_emit(g->f, OP_full, NULL, 0, full, 2, g->loc);
  return ir_emit(g->f, OP_cumsum, &ones, 1, &along, 1, g->loc);
}

// The elements of x (last two axes n x n) whose row number and column number compare so; elsewhere y.
static Val where(Grad *g, Op order, Dim n, Val x, Val y) {
  Val is_in = op2(g, order, places(g, n, 0), places(g, n, 1));
  return ir_op3(g->f, OP_select, is_in, x, y, g->loc);
}

static Dim size_of(Grad *g, Val a) {
  Shape s = shape_of(g, a);
  return ir_dim_at(g->p, s, ir_rank(g->p, s) - 1);
}

static Val turned(Grad *g, Val a) {
  uint32_t rank = ir_rank(g->p, shape_of(g, a));
  int64_t perm[MAX_RANK];
  for (uint32_t k = 0; k < rank; k++) perm[k] = k;
  perm[rank - 1] = rank - 2, perm[rank - 2] = rank - 1;
  return with_attr(g, OP_permute, a, ir_a_list(KEY_perm, ir_shape_ints(g->p, perm, rank)));
}

// op(T) X = B: b gets D, the solution of the transposed system for the gradient of X, and op(T) gets -D X^T; {right}: -X^T D.
void ir_grad_rule_solve_triangular(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0), b = arg(g, v, 1);
  System s = {.upper = ir_attr(g->f, v, KEY_upper),
              .ta = ir_attr(g->f, v, KEY_ta),
              .unit = ir_attr(g->f, v, KEY_unit),
              .right = ir_attr(g->f, v, KEY_right)};
  System back = s;
  back.ta = !s.ta;
  Val d = solve(g, a, adj, back);
  if (g->dep[b.i]) ir_grad_give(g, b, d);
  if (!g->dep[a.i]) return;
  bool d_first = s.ta == s.right;
  Val of_a = d_first ? ir_grad_matmul(g, d, v, s.right, !s.right) : ir_grad_matmul(g, v, d, s.right, !s.right);
  Op order = s.upper ? (s.unit ? OP_lt : OP_le) : (s.unit ? OP_gt : OP_ge);
  of_a = ir_op1(g->f, OP_neg, of_a, g->loc);
  ir_grad_give(g, a, where(g, order, size_of(g, a), of_a, number(g, 0)));
}

// A = L L^T: let P be the lower triangle of L^T G with its diagonal halved; A gets L^-T P L^-1, made
// symmetric. A = U^T U: the same with U^T for L.
void ir_grad_rule_cholesky(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0);
  bool upper = ir_attr(g->f, v, KEY_upper);
  Dim n = size_of(g, a);
  Val all = upper ? ir_grad_matmul(g, v, adj, false, true) : ir_grad_matmul(g, v, adj, true, false),
      half = number(g, 0.5);
  Val p = where(g, OP_gt, n, all, where(g, OP_eq, n, mul(g, half, all), number(g, 0)));
  Val half_way = solve(g, v, p, (System){.upper = upper, .ta = !upper});
  Val d = solve(g, v, half_way, (System){.upper = upper, .ta = upper, .right = true});
  ir_grad_give(g, a, mul(g, half, op2(g, OP_add, d, turned(g, d))));
}

// ---- systems by row operations
static Val with_rows(Grad *g, Op op, Val v, Val perm, Val x) {
  Shape s = shape_of(g, x);
  uint32_t rank = ir_rank(g->p, s);
  Dim d[MAX_RANK];
  for (uint32_t k = 0; k < rank; k++) d[k] = ir_dim_at(g->p, s, k);
  d[rank - 1] = ir_dim(g->p, 1);
  Val index = expand(g, reshape(g, perm, ir_shape(g->p, d, rank)), s);
  Attr axis = ir_a_int(KEY_axis, rank - 2), zeros[] = {ir_a_num(KEY_value, 0), ir_a_list(KEY_shape, shape_of(g, v))};
  Val target = ir_emit(g->f, OP_full, NULL, 0, zeros, 2, g->loc);
  return ir_emit(g->f, op, (Val[]){target, index, x}, 3, &axis, 1, g->loc);
}

// With G for the gradient of L, below the diagonal, and of U: a's rows in order get L^-T P U^-T, where P is L^T G below the diagonal
// and G U^T above it. A 0 on U's diagonal counts as 1: of what the determinant makes of U nothing depends on that number.
void ir_grad_rule_lu(Grad *g, Val v, Val adj) {
  if (ir_none(adj)) return;
  Val zero = number(g, 0), one = number(g, 1);
  Dim n = size_of(g, v);
  Val safe = where(g, OP_eq, n, ir_op3(g->f, OP_select, op2(g, OP_eq, v, zero), one, v, g->loc), v);
  Val l = where(g, OP_gt, n, v, where(g, OP_eq, n, one, zero)), u = where(g, OP_le, n, safe, zero);
  Val below = ir_grad_matmul(g, l, where(g, OP_gt, n, adj, zero), true, false);
  Val above = ir_grad_matmul(g, where(g, OP_le, n, adj, zero), u, false, true);
  Val all = where(g, OP_gt, n, below, above);
  // Below a pivot of 0 the factors are 0 whatever the rows are: what its element of P gives the rows below comes by U
  Val is_lost = op2(g, OP_eq, v, zero);
  Val lost = where(g, OP_eq, n, ir_op3(g->f, OP_select, is_lost, all, zero, g->loc), zero);
  Val spread = solve(g, safe, lost, (System){.upper = true, .ta = true});
  Val p = op2(g, OP_add, op2(g, OP_sub, all, lost), spread);
  Val half_way = solve(g, safe, p, (System){.unit = true, .ta = true});
  Val d = solve(g, safe, half_way, (System){.upper = true, .ta = true, .right = true});
  ir_grad_give(g, arg(g, v, 0), with_rows(g, OP_scatter_add, v, ir_result(v, 1), d));
}

// a X = b: b gets D, the solution of the transposed system for the gradient of X, and a gets -D X^T; {ta}: -X D^T.
void ir_grad_rule_lu_solve(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0), b = arg(g, v, 3);
  bool ta = ir_attr(g->f, v, KEY_ta) != NULL;
  Attr flag = ir_a_int(KEY_ta, 1);
  Val d = ir_emit(g->f, OP_lu_solve, (Val[]){a, arg(g, v, 1), arg(g, v, 2), adj}, 4, &flag, !ta, g->loc);
  if (g->dep[b.i]) ir_grad_give(g, b, d);
  if (!g->dep[a.i]) return;
  Val of_a = ta ? ir_grad_matmul(g, v, d, false, true) : ir_grad_matmul(g, d, v, false, true);
  ir_grad_give(g, a, ir_op1(g->f, OP_neg, of_a, g->loc));
}

// ---- factors. a = Q R: with G for the gradients, a gets (Gq + Q P) R^-T, P the triangle of Gr R^T - Q^T Gq above its diagonal, made
// symmetric.
static Val sum_of(Grad *g, Val a, Val b) { return ir_none(a) ? b : ir_none(b) ? a : op2(g, OP_add, a, b); }

void ir_grad_rule_qr(Grad *g, Val v, Val adj) {
  Val r = ir_result(v, 1), of_r = g->adj[r.i], all = {0};
  Dim n = size_of(g, v);
  if (!ir_none(of_r)) all = ir_grad_matmul(g, of_r, r, false, true);
  if (!ir_none(adj)) all = sum_of(g, all, ir_op1(g->f, OP_neg, ir_grad_matmul(g, v, adj, true, false), g->loc));
  Val p = where(g, OP_le, n, all, turned(g, all));
  Val d = sum_of(g, adj, ir_grad_matmul(g, v, p, false, false));
  ir_grad_give(g, arg(g, v, 0), solve(g, r, d, (System){.upper = true, .ta = true, .right = true}));
}

// Numbers of a vector for rows, or columns, of a matrix
static Val as_column(Grad *g, Val s, bool is_row) {
  Shape from = shape_of(g, s);
  uint32_t rank = ir_rank(g->p, from);
  Dim d[MAX_RANK + 1];
  for (uint32_t k = 0; k < rank; k++) d[k] = ir_dim_at(g->p, from, k);
  d[rank] = d[rank - 1], d[rank - (is_row ? 1 : 0)] = ir_dim(g->p, 1);
  return reshape(g, s, ir_shape(g->p, d, rank + 1));
}

// x, divided by what f(column) - f(row) is, and on the diagonal what the vector `of_values` has, or 0
static Val by_distances(Grad *g, Val x, Val f, Val of_values, Dim n) {
  Val column = as_column(g, f, false), apart = op2(g, OP_sub, as_column(g, f, true), column), zero = number(g, 0);
  Val off = ir_none(x) ? zero : op2(g, OP_div, x, where(g, OP_eq, n, number(g, 1), apart));
  return where(g, OP_eq, n, ir_none(of_values) ? zero : as_column(g, of_values, false), off);
}

static Val skew(Grad *g, Val x) { return op2(g, OP_sub, x, turned(g, x)); }

// a = V diag(w) V^T: with G for the gradients, a gets V P V^T, P on its diagonal Gw and elsewhere
// skew(V^T Gv)_ij / 2 (w_j - w_i): symmetric, as a is.
void ir_grad_rule_eigh(Grad *g, Val v, Val adj) {
  Val q = ir_result(v, 1), of_q = g->adj[q.i], x = {0};
  if (!ir_none(of_q)) {
    x = skew(g, ir_grad_matmul(g, q, of_q, true, false));
    x = mul(g, number(g, 0.5), x);
  }
  Val p = by_distances(g, x, v, adj, size_of(g, q));
  Val d = ir_grad_matmul(g, ir_grad_matmul(g, q, p, false, false), q, false, true);
  ir_grad_give(g, arg(g, v, 0), d);
}

// a = U diag(s) W, W with orthonormal rows: a gets U (P W + (Gw - Gw W^T W) / s), P on its diagonal Gs and elsewhere
// (skew(U^T Gu)_ij s_j + s_i skew(W Gw^T)_ij) / (s_j^2 - s_i^2).
void ir_grad_rule_svd(Grad *g, Val v, Val adj) {
  Val s = ir_result(v, 1), w = ir_result(v, 2), of_s = g->adj[s.i], of_w = g->adj[w.i], x = {0};
  Dim m = size_of(g, v), n = size_of(g, w);
  if (!ir_none(adj)) {
    Val row = as_column(g, s, true);
    x = mul(g, skew(g, ir_grad_matmul(g, v, adj, true, false)), row);
  }
  if (!ir_none(of_w)) {
    Val column = as_column(g, s, false);
    x = sum_of(g, x, mul(g, skew(g, ir_grad_matmul(g, w, of_w, false, true)), column));
  }
  Val p = ir_grad_matmul(g, by_distances(g, x, mul(g, s, s), of_s, m), w, false, false);
  if (!ir_none(of_w) && m.i != n.i) {
    Val inside = ir_grad_matmul(g, ir_grad_matmul(g, of_w, w, false, true), w, false, false);
    Val column = as_column(g, s, false);
    p = op2(g, OP_add, p, op2(g, OP_div, op2(g, OP_sub, of_w, inside), column));
  }
  ir_grad_give(g, arg(g, v, 0), ir_grad_matmul(g, v, p, false, false));
}
