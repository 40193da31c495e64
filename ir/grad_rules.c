// Gradient rules of ops: words of the gradient column of ops.def. Pointwise rows carry theirs as expressions.
#include "ir/grad.h"
#include <string.h>

// ---- which operands a gradient flows to
bool ir_grad_flows(const Fn *f, Val v, uint32_t k) {
  Op op = ir_ins(f, v)->op;
  if (ir_attr(f, v, KEY_no_grad)) return false;
  if (ir_ops[op].is_word_row) return ir_gradient(op, k).n > 0;
  switch (op) {
  case OP_assign: return k == 1;
  case OP_slice_assign: return true;
  case OP_index_assign: return k != 1;
  case OP_reshape:
  case OP_clone:
  case OP_expand:
  case OP_permute:
  case OP_slice:
  case OP_pad_axis:
  case OP_concat:
  case OP_sum:
  case OP_amax:
  case OP_softmax:
  case OP_log_softmax:
  case OP_layer_norm:
  case OP_rms_norm:
  case OP_matmul:
  case OP_linear:
  case OP_result: return true;
  case OP_nll_rows:
  case OP_embedding:
  case OP_pack:
  case OP_pad:
  case OP_seq_sum:
  case OP_seq_max:
  case OP_seq_min:
  case OP_seq_pick:
  case OP_seq_spread:
  case OP_seq_softmax:
  case OP_seq_reverse:
  case OP_seq_from_list:
  case OP_seq_to_list: return k == 0;
  case OP_rnn_seq: return k != 1;
  case OP_scan_input:
  case OP_scan_carry:
  case OP_scan_output:
  case OP_scan_final: return true;
  case OP_scan: return ir_ins(f, ir_arg(f, v, k))->dtype == DT_F32;
  case OP_sdpa: return ir_ins(f, ir_arg(f, v, k))->dtype == DT_F32;
  case OP_cast: return ir_ins(f, v)->dtype == DT_F32 && ir_ins(f, ir_arg(f, v, 0))->dtype == DT_F32;
  default: return false;
  }
}

// ---- building blocks
static Shape shape_of(const Grad *g, Val v) { return ir_ins(g->f, v)->shape; }
static Val op2(Grad *g, Op op, Val a, Val b) { return ir_op2(g->f, op, a, b, g->loc); }
static Val number(Grad *g, double x) { return ir_const(g->f, x, g->loc); }

static Val with_attr(Grad *g, Op op, Val a, Attr attr) { return ir_emit(g->f, op, &a, 1, &attr, 1, g->loc); }
static Val reshape(Grad *g, Val a, Shape s) {
  return shape_of(g, a).i == s.i ? a : with_attr(g, OP_reshape, a, ir_a_list(KEY_shape, s));
}
static Val expand(Grad *g, Val a, Shape s) {
  return shape_of(g, a).i == s.i ? a : with_attr(g, OP_expand, a, ir_a_list(KEY_shape, s));
}
static Val sum_axes(Grad *g, Val a, const int64_t *axes, uint32_t n) {
  return n ? with_attr(g, OP_sum, a, ir_a_list(KEY_axes, ir_shape_ints(g->p, axes, n))) : a;
}

static Val matmul(Grad *g, Val a, Val b, bool ta, bool tb) {
  Attr attr[2];
  uint32_t n = 0;
  if (ta) attr[n++] = ir_a_int(KEY_ta, 1);
  if (tb) attr[n++] = ir_a_int(KEY_tb, 1);
  return ir_emit(g->f, OP_matmul, (Val[]){a, b}, 2, attr, n, g->loc);
}

// Sums a over the axes along which `to` was broadcast.
static Val sum_to(Grad *g, Val a, Shape to) {
  Shape from = shape_of(g, a);
  if (from.i == to.i) return a;
  uint32_t rf = ir_rank(g->p, from), rt = ir_rank(g->p, to), n = 0;
  int64_t axes[MAX_RANK];
  for (uint32_t k = 0; k < rf; k++)
    if (k + rt < rf || ir_dim_at(g->p, from, k).i != ir_dim_at(g->p, to, k + rt - rf).i) axes[n++] = k;
  return reshape(g, sum_axes(g, a, axes, n), to);
}

// Adds d (shaped like v or broader) to the gradient of v.
void ir_grad_give(Grad *g, Val v, Val d) {
  if (!g->dep[v.i] || ir_none(d)) return;
  d = sum_to(g, d, shape_of(g, v));
  g->adj[v.i] = ir_none(g->adj[v.i]) ? d : op2(g, OP_add, g->adj[v.i], d);
}

static bool wants(const Grad *g, Val v, uint32_t k) { return g->dep[ir_arg(g->f, v, k).i]; }
static Val arg(const Grad *g, Val v, uint32_t k) { return ir_arg(g->f, v, k); }

// ---- pointwise rows: walk the gradient expression
static Val run_expr(Grad *g, Val v, Expr e, Val adj) {
  Val stack[64];
  uint32_t n = 0;
  for (uint32_t k = 0; k < e.n; k++) {
    const ExNode *x = &e.nodes[k];
    switch ((ExKind)x->kind) {
    case EX_ARG: stack[n++] = arg(g, v, x->arg); break;
    case EX_Y: stack[n++] = v; break;
    case EX_G: stack[n++] = adj; break;
    case EX_NUM: stack[n++] = number(g, x->num); break;
    case EX_ATTR: stack[n++] = number(g, ir_attr_num(g->f, v, x->arg, 0)); break;
    case EX_OP:
      n -= ir_ops[x->op].n_max;
      stack[n] = ir_emit(g->f, x->op, &stack[n], ir_ops[x->op].n_max, NULL, 0, g->loc);
      n++;
      break;
    case EX_SAME: {
      const Ins *ins = ir_ins(g->f, v);
      Attr attrs[8];
      memcpy(attrs, g->f->attrs + ins->attrs, ins->n_attrs * sizeof *attrs);
      stack[n - 1] = ir_emit(g->f, ins->op, &stack[n - 1], 1, attrs, ins->n_attrs, g->loc);
    }
    }
  }
  return stack[0];
}

static void pointwise(Grad *g, Val v, Val adj) {
  for (uint32_t k = 0; k < ir_ins(g->f, v)->n_args; k++) {
    Expr e = ir_gradient(ir_ins(g->f, v)->op, k);
    if (e.n && wants(g, v, k)) ir_grad_give(g, arg(g, v, k), run_expr(g, v, e, adj));
  }
}

// ---- rules, named by the gradient column of ops.def. adj: the gradient of result 0 (may be none for several results).
typedef void Rule(Grad *g, Val v, Val adj);

static void grad_none(Grad *g, Val v, Val adj) { (void)g, (void)v, (void)adj; }
static void grad_assign(Grad *g, Val v, Val adj) { ir_grad_give(g, arg(g, v, 1), adj); }
static void grad_cast(Grad *g, Val v, Val adj) {
  if (ir_grad_flows(g->f, v, 0)) ir_grad_give(g, arg(g, v, 0), adj);
}
static void grad_reshape(Grad *g, Val v, Val adj) {
  ir_grad_give(g, arg(g, v, 0), reshape(g, adj, shape_of(g, arg(g, v, 0))));
}
static void grad_expand(Grad *g, Val v, Val adj) { ir_grad_give(g, arg(g, v, 0), adj); }

static void grad_permute(Grad *g, Val v, Val adj) {
  Shape perm = ir_attr(g->f, v, KEY_perm)->u.list;
  int64_t inverse[MAX_RANK];
  uint32_t r = ir_rank(g->p, perm);
  for (uint32_t k = 0; k < r; k++) inverse[ir_list_at(g->p, perm, k)] = k;
  ir_grad_give(g, arg(g, v, 0), with_attr(g, OP_permute, adj, ir_a_list(KEY_perm, ir_shape_ints(g->p, inverse, r))));
}

static Val along(Grad *g, Op op, Val a, int64_t axis, int64_t start, int64_t size) {
  Attr attr[3] = {ir_a_int(KEY_axis, axis), ir_a_int(KEY_start, start), ir_a_int(KEY_size, size)};
  return ir_emit(g->f, op, &a, 1, attr, 3, g->loc);
}

static int64_t size_along(Grad *g, Val v, int64_t axis) {
  return ir_dim_bound(g->p, ir_dim_at(g->p, shape_of(g, v), (uint32_t)axis));
}

static void grad_slice(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0);
  int64_t axis = ir_attr_int(g->f, v, KEY_axis, 0), start = ir_attr_int(g->f, v, KEY_start, 0);
  ir_grad_give(g, a, along(g, OP_pad_axis, adj, axis, start, size_along(g, a, axis)));
}

static void grad_pad_axis(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0);
  int64_t axis = ir_attr_int(g->f, v, KEY_axis, 0), start = ir_attr_int(g->f, v, KEY_start, 0);
  ir_grad_give(g, a, along(g, OP_slice, adj, axis, start, size_along(g, a, axis)));
}

static bool has_constant_parts(Grad *g, Val v, int64_t axis) {
  for (uint32_t k = 0; k < ir_ins(g->f, v)->n_args; k++)
    if (!ir_dim_is_const(g->p, ir_dim_at(g->p, shape_of(g, arg(g, v, k)), (uint32_t)axis))) return false;
  return true;
}

static void grad_concat(Grad *g, Val v, Val adj) {
  int64_t axis = ir_attr_int(g->f, v, KEY_axis, 0), start = 0;
  if (!has_constant_parts(g, v, axis)) {
    rt_diag(&g->p->diags, RT_ERROR, E_SHAPE, ir_loc_file(g->p, g->loc), ir_loc_line(g->p, g->loc),
            "concat along an axis whose parts have run-time sizes has no gradient");
    return;
  }
  for (uint32_t k = 0; k < ir_ins(g->f, v)->n_args; k++) {
    Val a = arg(g, v, k);
    int64_t size = size_along(g, a, axis);
    if (wants(g, v, k)) ir_grad_give(g, a, along(g, OP_slice, adj, axis, start, size));
    start += size;
  }
}

static Val zeros(Grad *g, Shape s) {
  Attr a[2] = {ir_a_num(KEY_value, 0), ir_a_list(KEY_shape, s)};
  return ir_emit(g->f, OP_full, NULL, 0, a, 2, g->loc);
}

// The overwritten elements get none, the new ones all of it.
static void grad_slice_assign(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0), b = arg(g, v, 1);
  int64_t axis = ir_attr_int(g->f, v, KEY_axis, 0), start = ir_attr_int(g->f, v, KEY_start, 0);
  Attr attr[2] = {ir_a_int(KEY_axis, axis), ir_a_int(KEY_start, start)};
  if (g->dep[b.i]) ir_grad_give(g, b, along(g, OP_slice, adj, axis, start, size_along(g, b, axis)));
  if (g->dep[a.i])
    ir_grad_give(g, a, ir_emit(g->f, OP_slice_assign, (Val[]){adj, zeros(g, shape_of(g, b))}, 2, attr, 2, g->loc));
}

// All axes but the first as one.
static Val as_table(Grad *g, Val a) {
  Shape s = shape_of(g, a);
  Dim wide = ir_dim(g->p, 1);
  for (uint32_t k = 1; k < ir_rank(g->p, s); k++) wide = ir_dim_mul(g->p, wide, ir_dim_at(g->p, s, k));
  return reshape(g, a, ir_shape(g->p, (Dim[]){ir_dim_at(g->p, s, 0), wide}, 2));
}

// Rows that a later equal index overwrote get the gradient of the one that stayed, as PyTorch's index_put does.
static void grad_index_assign(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0), at = arg(g, v, 1), b = arg(g, v, 2);
  if (g->dep[b.i]) ir_grad_give(g, b, reshape(g, op2(g, OP_embedding, as_table(g, adj), at), shape_of(g, b)));
  if (g->dep[a.i]) ir_grad_give(g, a, ir_op3(g->f, OP_index_assign, adj, at, zeros(g, shape_of(g, b)), g->loc));
}

// The shape of a reduction's operand with the reduced axes of size 1.
static Shape kept_shape(Grad *g, Val v) {
  Shape s = shape_of(g, arg(g, v, 0)), axes = ir_attr(g->f, v, KEY_axes)->u.list;
  Dim d[MAX_RANK];
  uint32_t r = ir_rank(g->p, s);
  for (uint32_t k = 0; k < r; k++) d[k] = ir_dim_at(g->p, s, k);
  for (uint32_t k = 0; k < ir_rank(g->p, axes); k++) d[ir_list_at(g->p, axes, k)] = ir_dim(g->p, 1);
  return ir_shape(g->p, d, r);
}

static void grad_sum(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0);
  ir_grad_give(g, a, expand(g, reshape(g, adj, kept_shape(g, v)), shape_of(g, a)));
}

// Shared equally among all elements that attain the maximum.
static void grad_amax(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0);
  Shape kept = kept_shape(g, v);
  Val mask = op2(g, OP_eq, a, reshape(g, v, kept));
  const Attr *axes = ir_attr(g->f, v, KEY_axes);
  Val count = ir_emit(g->f, OP_sum, &mask, 1, axes, 1, g->loc);
  Val share = op2(g, OP_div, reshape(g, adj, kept), reshape(g, count, kept));
  ir_grad_give(g, a, op2(g, OP_mul, mask, share));
}

static void give_along(Grad *g, Val v, Op op, Val adj) {
  const Attr *axis = ir_attr(g->f, v, KEY_axis);
  ir_grad_give(g, arg(g, v, 0), ir_emit(g->f, op, (Val[]){v, adj}, 2, axis, axis ? 1 : 0, g->loc));
}
static void grad_softmax(Grad *g, Val v, Val adj) { give_along(g, v, OP_softmax_grad, adj); }
static void grad_log_softmax(Grad *g, Val v, Val adj) { give_along(g, v, OP_log_softmax_grad, adj); }

// d lse / d logits = softmax(logits), a row at a time.
static Val lse_grad(Grad *g, Val logits, Val adj) {
  Shape s = shape_of(g, logits);
  Dim d[MAX_RANK];
  uint32_t r = ir_rank(g->p, s);
  for (uint32_t k = 0; k < r; k++) d[k] = k + 1 < r ? ir_dim_at(g->p, s, k) : ir_dim(g->p, 1);
  Val column = reshape(g, adj, ir_shape(g->p, d, r));
  return op2(g, OP_mul, ir_op1(g->f, OP_softmax, logits, g->loc), column);
}

static void grad_nll(Grad *g, Val v, Val adj) {
  Val a[4] = {arg(g, v, 0), arg(g, v, 1), ir_result(v, 1), adj}, of_lse = g->adj[v.i + 1];
  const Attr *ignore = ir_attr(g->f, v, KEY_ignore), own = ignore ? *ignore : (Attr){0};
  if (!ir_none(adj)) ir_grad_give(g, a[0], ir_emit(g->f, OP_nll_rows_grad, a, 4, &own, ignore != NULL, g->loc));
  if (!ir_none(of_lse)) ir_grad_give(g, a[0], lse_grad(g, a[0], of_lse));
}

// Numbers of each row, [..], as a column [.., 1] beside x.
static Val column_of(Grad *g, Val rows, Val x) {
  Shape s = shape_of(g, x);
  Dim d[MAX_RANK];
  uint32_t r = ir_rank(g->p, s);
  for (uint32_t k = 0; k < r; k++) d[k] = k + 1 < r ? ir_dim_at(g->p, s, k) : ir_dim(g->p, 1);
  return reshape(g, rows, ir_shape(g->p, d, r));
}

// A sum over C elements, C the last axis of x, divided by C.
static Val by_width(Grad *g, Val a, Val x) {
  Dim width = ir_dim_at(g->p, shape_of(g, x), ir_rank(g->p, shape_of(g, x)) - 1);
  Attr dim = ir_a_dim(KEY_dim, width);
  bool known = ir_dim_is_const(g->p, width);
  Val n = known ? number(g, (double)ir_dim_bound(g->p, width)) : ir_emit(g->f, OP_dim_size, NULL, 0, &dim, 1, g->loc);
  return op2(g, OP_div, a, n);
}

// Of rstd = (v + eps)^-1/2, v the mean of the squares of d: d rstd / d x = -rstd^3 d / C.
static void grad_rstd(Grad *g, Val x, Val d, Val rstd, Val adj) {
  if (ir_none(adj)) return;
  Val cube = op2(g, OP_mul, op2(g, OP_mul, rstd, rstd), rstd), scale = op2(g, OP_mul, cube, adj);
  Val each = op2(g, OP_mul, column_of(g, by_width(g, scale, x), x), d);
  ir_grad_give(g, x, ir_op1(g->f, OP_neg, each, g->loc));
}

// n_rows numbers of each row follow y; weight and bias get column sums.
static void grad_norm(Grad *g, Val v, Val adj, Op op, Val centred, uint32_t n_rows) {
  Val x = arg(g, v, 0), in[5] = {x};
  uint32_t n = ir_ins(g->f, v)->n_args, at = 1;
  for (uint32_t k = 1; k <= n_rows; k++) in[at++] = ir_result(v, k);
  in[at++] = adj;
  if (n > 1) in[at++] = arg(g, v, 1);
  if (g->dep[x.i]) ir_grad_give(g, x, ir_emit(g->f, op, in, at, NULL, 0, g->loc));
  if (n > 1 && wants(g, v, 1)) {
    Val unit = op2(g, OP_mul, centred, column_of(g, ir_result(v, n_rows), x));
    ir_grad_give(g, arg(g, v, 1), op2(g, OP_mul, adj, unit));
  }
  if (n > 2) ir_grad_give(g, arg(g, v, 2), adj);
}

static void grad_layer_norm(Grad *g, Val v, Val adj) {
  Val x = arg(g, v, 0), of_mean = g->adj[v.i + 1], of_rstd = g->adj[v.i + 2];
  Val d = op2(g, OP_sub, x, column_of(g, ir_result(v, 1), x));
  if (!ir_none(adj)) grad_norm(g, v, adj, OP_layer_norm_grad, d, 2);
  if (!ir_none(of_mean)) ir_grad_give(g, x, expand(g, column_of(g, by_width(g, of_mean, x), x), shape_of(g, x)));
  grad_rstd(g, x, d, ir_result(v, 2), of_rstd);
}

static void grad_rms_norm(Grad *g, Val v, Val adj) {
  Val x = arg(g, v, 0);
  if (!ir_none(adj)) grad_norm(g, v, adj, OP_rms_norm_grad, x, 1);
  grad_rstd(g, x, x, ir_result(v, 1), g->adj[v.i + 1]);
}

// All axes but the last as one.
static Val as_rows(Grad *g, Val a) {
  Shape s = shape_of(g, a);
  uint32_t r = ir_rank(g->p, s);
  Dim rows = ir_dim(g->p, 1);
  for (uint32_t k = 0; k + 1 < r; k++) rows = ir_dim_mul(g->p, rows, ir_dim_at(g->p, s, k));
  return reshape(g, a, ir_shape(g->p, (Dim[]){rows, ir_dim_at(g->p, s, r - 1)}, 2));
}

// The gradient of one matrix for a whole batch is one product over all rows, not a sum of products over the batch.
static void grad_matmul(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0), b = arg(g, v, 1);
  bool ta = ir_attr(g->f, v, KEY_ta) != NULL, tb = ir_attr(g->f, v, KEY_tb) != NULL;
  if (g->dep[a.i]) ir_grad_give(g, a, ta ? matmul(g, b, adj, tb, true) : matmul(g, adj, b, false, !tb));
  bool shared = !ta && ir_rank(g->p, shape_of(g, b)) == 2 && ir_rank(g->p, shape_of(g, a)) > 2;
  if (g->dep[b.i] && shared) a = as_rows(g, a), adj = as_rows(g, adj);
  if (g->dep[b.i]) ir_grad_give(g, b, tb ? matmul(g, adj, a, true, ta) : matmul(g, a, adj, !ta, false));
}

static void grad_linear(Grad *g, Val v, Val adj) {
  Val x = arg(g, v, 0), w = arg(g, v, 1), d = as_rows(g, adj);
  if (g->dep[x.i]) ir_grad_give(g, x, reshape(g, matmul(g, d, w, false, false), shape_of(g, x)));
  if (g->dep[w.i]) ir_grad_give(g, w, matmul(g, d, as_rows(g, x), true, false));
  if (ir_ins(g->f, v)->n_args == 3 && wants(g, v, 2)) ir_grad_give(g, arg(g, v, 2), sum_axes(g, d, (int64_t[]){0}, 1));
}

static void grad_embedding(Grad *g, Val v, Val adj) {
  Val w = arg(g, v, 0);
  ir_grad_give(g, w, ir_op3(g->f, OP_embedding_grad, w, arg(g, v, 1), adj, g->loc));
}

static uint32_t time_flags(Grad *g, Val v, Attr *attr) {
  const Attr *tm = ir_attr(g->f, v, KEY_time_major);
  if (tm) attr[0] = *tm;
  return tm ? 1 : 0;
}

// Back to the padded shape, whose time axis may be longer than the layout's.
static void grad_pack(Grad *g, Val v, Val adj) {
  Val x = arg(g, v, 0), layout = arg(g, v, 1);
  Attr attr[2];
  uint32_t n = time_flags(g, v, attr);
  Dim time = ir_dim_at(g->p, shape_of(g, x), n ? 0 : 1);
  if (time.i != ir_dim_at(g->p, shape_of(g, layout), 1).i) attr[n++] = ir_a_int(KEY_size, ir_dim_bound(g->p, time));
  ir_grad_give(g, x, ir_emit(g->f, OP_pad, (Val[]){adj, layout}, 2, attr, n, g->loc));
}

static void grad_pad(Grad *g, Val v, Val adj) {
  Attr attr[1];
  uint32_t n = time_flags(g, v, attr);
  ir_grad_give(g, arg(g, v, 0), ir_emit(g->f, OP_pack, (Val[]){adj, arg(g, v, 1)}, 2, attr, n, g->loc));
}

// ---- ops over packed rows and their layout, operand 1
static Val with_layout(Grad *g, Op op, Val v, Val adj) { return op2(g, op, adj, arg(g, v, 1)); }
static void grad_seq_sum(Grad *g, Val v, Val adj) {
  ir_grad_give(g, arg(g, v, 0), with_layout(g, OP_seq_spread, v, adj));
}
static void grad_seq_spread(Grad *g, Val v, Val adj) {
  ir_grad_give(g, arg(g, v, 0), with_layout(g, OP_seq_sum, v, adj));
}
static void grad_seq_reverse(Grad *g, Val v, Val adj) {
  ir_grad_give(g, arg(g, v, 0), with_layout(g, OP_seq_reverse, v, adj));
}
static void grad_seq_from_list(Grad *g, Val v, Val adj) {
  ir_grad_give(g, arg(g, v, 0), with_layout(g, OP_seq_to_list, v, adj));
}
static void grad_seq_to_list(Grad *g, Val v, Val adj) {
  ir_grad_give(g, arg(g, v, 0), with_layout(g, OP_seq_from_list, v, adj));
}

static void grad_seq_best(Grad *g, Val v, Val adj) {
  if (!ir_none(adj))
    ir_grad_give(g, arg(g, v, 0), ir_op3(g->f, OP_seq_put, adj, arg(g, v, 1), ir_result(v, 1), g->loc));
}

static void grad_seq_pick(Grad *g, Val v, Val adj) {
  Attr first = ir_a_int(KEY_first, 1);
  Val in[2] = {adj, arg(g, v, 1)};
  ir_grad_give(g, arg(g, v, 0), ir_emit(g->f, OP_seq_put, in, 2, &first, ir_attr(g->f, v, KEY_first) ? 1 : 0, g->loc));
}

static void grad_seq_softmax(Grad *g, Val v, Val adj) {
  ir_grad_give(g, arg(g, v, 0), ir_op3(g->f, OP_seq_softmax_grad, v, arg(g, v, 1), adj, g->loc));
}

static Val or_zero(Grad *g, Val v) { return ir_none(v) ? number(g, 0) : v; }

static Val block_of_row(Grad *g, Val v, int64_t k, int64_t hidden) {
  Attr attr[3] = {ir_a_int(KEY_axis, 1), ir_a_int(KEY_start, k * hidden), ir_a_int(KEY_size, hidden)};
  return ir_emit(g->f, OP_slice, &v, 1, attr, 3, g->loc);
}

// o tanh c of every row of a projected lstm, from what the recurrence kept.
static Val state_before_projection(Grad *g, Val v) {
  Val cells = ir_result(v, 4);
  int64_t hidden = ir_dim_bound(g->p, ir_dim_at(g->p, shape_of(g, cells), 1)) / 2;
  return op2(g, OP_mul, block_of_row(g, ir_result(v, 5), 3, hidden), block_of_row(g, cells, 1, hidden));
}

static void grad_rnn_seq(Grad *g, Val v, Val adj) {
  bool has_p = ir_attr(g->f, v, KEY_has_p);
  Val w_hr = arg(g, v, ir_ins(g->f, v)->n_args - 1);  // with has_p
  Val in[10] = {or_zero(g, adj),
                or_zero(g, g->adj[v.i + 1]),
                or_zero(g, g->adj[v.i + 2]),
                arg(g, v, 1),
                arg(g, v, 2),
                v,
                ir_result(v, 3),
                ir_result(v, 4),
                ir_result(v, 5),
                w_hr};
  Attr attr[3] = {*ir_attr(g->f, v, KEY_cell)};
  uint32_t n = 1;
  if (ir_attr(g->f, v, KEY_reverse)) attr[n++] = ir_a_int(KEY_reverse, 1);
  if (has_p) attr[n++] = ir_a_int(KEY_has_p, 1);
  Val d = ir_emit(g->f, OP_rnn_seq_grad, in, has_p ? 10 : 9, attr, n, g->loc);
  bool gru = !has_p && ir_rank(g->p, shape_of(g, ir_result(d, 1))) == 2;
  Val gates = gru ? ir_result(d, 1) : d;
  bool has_x = ir_attr(g->f, v, KEY_has_x);
  if (!has_x) ir_grad_give(g, arg(g, v, 0), d);
  if (wants(g, v, 2)) ir_grad_give(g, arg(g, v, 2), matmul(g, gates, ir_result(v, 3), true, false));
  uint32_t k = 3;
  if (ir_attr(g->f, v, KEY_has_b)) {
    if (wants(g, v, k)) ir_grad_give(g, arg(g, v, k), sum_axes(g, gates, (int64_t[]){0}, 1));
    k++;
  }
  if (ir_attr(g->f, v, KEY_has_h)) ir_grad_give(g, arg(g, v, k++), ir_result(d, 2));
  if (ir_attr(g->f, v, KEY_has_c)) ir_grad_give(g, arg(g, v, k++), ir_result(d, 3));
  if (has_x) {
    if (wants(g, v, 0)) ir_grad_give(g, arg(g, v, 0), matmul(g, d, arg(g, v, k), false, false));
    if (wants(g, v, k)) ir_grad_give(g, arg(g, v, k), matmul(g, d, arg(g, v, 0), true, false));
    k++;
  }
  if (has_p && wants(g, v, k))
    ir_grad_give(g, w_hr, matmul(g, ir_result(d, 1), state_before_projection(g, v), true, false));
}

static void grad_scan(Grad *g, Val v, Val adj) {
  (void)adj;  // of the first of its results
  uint32_t n = ir_ins(g->f, v)->n_args, n_res = ir_ins(g->f, v)->n_res;
  bool *want = rt_alloc(g->p->mem, n + 1);
  Val *out = rt_alloc(g->p->mem, (n + 1) * sizeof *out), of_result[MAX_RESULTS];
  for (uint32_t k = 0; k < n_res; k++) of_result[k] = g->adj[v.i + k];
  for (uint32_t k = 0; k < n; k++) want[k] = wants(g, v, k) && ir_grad_flows(g->f, v, k);
  ir_scan_grad(g->f, v, of_result, want, out, g->loc);
  for (uint32_t k = 0; k < n; k++) ir_grad_give(g, arg(g, v, k), out[k]);
}

// The gradient op takes the same operands and attributes, then both results and the incoming gradient.
static void grad_sdpa(Grad *g, Val v, Val adj) {
  Val in[7];
  Attr attr[8];
  const Ins ins = *ir_ins(g->f, v);
  uint32_t n = ins.n_args;
  if (!ir_none(g->adj[v.i + 1])) {
    g->failed = true;
    rt_diag(&g->p->diags, RT_ERROR, E_SHAPE, ir_loc_file(g->p, g->loc), ir_loc_line(g->p, g->loc),
            "the row sums of sdpa have no gradient");
    return;
  }
  for (uint32_t k = 0; k < n; k++) in[k] = arg(g, v, k);
  in[n] = v, in[n + 1] = ir_result(v, 1), in[n + 2] = adj;
  memcpy(attr, g->f->attrs + ins.attrs, ins.n_attrs * sizeof *attr);
  Val d = ir_emit(g->f, OP_sdpa_grad, in, n + 3, attr, ins.n_attrs, g->loc);
  for (uint32_t k = 0; k < n; k++)
    if (ir_grad_flows(g->f, v, k) && wants(g, v, k)) ir_grad_give(g, in[k], ir_result(d, k));
}

#define OP(n, lo, hi, res, shape, grad, ...) [OP_##n] = grad_##grad,
static Rule *const rules[N_OPS] = {
#include "ir/ops.def"
};

void ir_grad_through(Grad *g, Val v, Val adj) {
  Op op = ir_ins(g->f, v)->op;
  if (ir_ops[op].is_word_row) pointwise(g, v, adj);
  else if (rules[op]) rules[op](g, v, adj);
}
