// Gradient rules of ops that work on rows, their own gradients included, so that gradients can be taken of gradients:
// softmax, cross entropy, norms. What a row is multiplied by and summed to are plain values; the code generator fuses
// them. Below u, q: the incoming gradient; S: a sum over the row, M: a mean over it, both kept as a column.
#include "ir/autodiff/grad.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"

static void give_along(Grad *g, Val v, Op op, Val adj) {
  const Attr *axis = ir_attr(g->f, v, KEY_axis);
  ir_grad_give(g, arg(g, v, 0), ir_emit(g->f, op, (Val[]){v, adj}, 2, axis, axis ? 1 : 0, g->loc));
}
void ir_grad_rule_softmax(Grad *g, Val v, Val adj) { give_along(g, v, OP_softmax_grad, adj); }
void ir_grad_rule_log_softmax(Grad *g, Val v, Val adj) { give_along(g, v, OP_log_softmax_grad, adj); }

// Two linear ops, each the transpose of the other.
static void give_transform(Grad *g, Val v, Op op, Val adj) {
  static const Key same[] = {KEY_weighted, KEY_bins_first};
  Attr attr[3];
  uint32_t n = 0;
  for (uint32_t k = 0; k < 2; k++)
    if (ir_attr(g->f, v, same[k])) attr[n++] = *ir_attr(g->f, v, same[k]);
  if (op == OP_rfft_grad) {
    Shape x = shape_of(g, arg(g, v, 0));
    attr[n++] = ir_a_int(KEY_size, ir_dim_bound(g->p, ir_dim_at(g->p, x, ir_rank(g->p, x) - 1)));
  }
  ir_grad_give(g, arg(g, v, 0), ir_emit(g->f, op, &adj, 1, attr, n, g->loc));
}
void ir_grad_rule_rfft(Grad *g, Val v, Val adj) { give_transform(g, v, OP_rfft_grad, adj); }
void ir_grad_rule_rfft_grad(Grad *g, Val v, Val adj) { give_transform(g, v, OP_rfft, adj); }

// Rows of x that v reads run along its {axis}, or along the last.
static uint32_t axis_of(const Grad *g, Val v, Val x) {
  return (uint32_t)ir_attr_int(g->f, v, KEY_axis, (int64_t)ir_rank(g->p, shape_of(g, x)) - 1);
}

// Per-row numbers, which lack the axis of the rows of v, with it, of size 1, beside x.
static Val column_of(Grad *g, Val v, Val rows, Val x) {
  Shape s = shape_of(g, x);
  Dim d[MAX_RANK];
  uint32_t r = ir_rank(g->p, s), axis = axis_of(g, v, x);
  for (uint32_t k = 0; k < r; k++) d[k] = k != axis ? ir_dim_at(g->p, s, k) : ir_dim(g->p, 1);
  return reshape(g, rows, ir_shape(g->p, d, r));
}

// d lse / d logits = softmax(logits), a row at a time.
static Val lse_grad(Grad *g, Val v, Val logits, Val adj) {
  Val column = column_of(g, v, adj, logits);
  return op2(g, OP_mul, ir_op1(g->f, OP_softmax, logits, g->loc), column);
}

void ir_grad_rule_cross_entropy(Grad *g, Val v, Val adj) {
  Val a[4] = {arg(g, v, 0), arg(g, v, 1), ir_result(v, 1), adj}, of_lse = g->adj[v.i + 1];
  const Attr *ignore = ir_attr(g->f, v, KEY_ignore), own = ignore ? *ignore : (Attr){0};
  if (!ir_none(adj))
    ir_grad_give(g, a[0], ir_emit(g->f, OP_cross_entropy_rows_grad, a, 4, &own, ignore != NULL, g->loc));
  if (!ir_none(of_lse)) ir_grad_give(g, a[0], lse_grad(g, v, a[0], of_lse));
}

// A sum over the C elements of a row of x, which v reads, divided by C.
static Val by_width(Grad *g, Val v, Val a, Val x) {
  Dim width = ir_dim_at(g->p, shape_of(g, x), axis_of(g, v, x));
  Attr dim = ir_a_dim(KEY_dim, width);
  bool known = ir_dim_is_const(g->p, width);
  Val n = known ? number(g, (double)ir_dim_bound(g->p, width)) : ir_emit(g->f, OP_dim_size, NULL, 0, &dim, 1, g->loc);
  return op2(g, OP_div, a, n);
}

// Of rstd = (v + eps)^-1/2, v the mean of the squares of d: d rstd / d x = -rstd^3 d / C.
static void grad_rstd(Grad *g, Val v, Val x, Val d, Val rstd, Val adj) {
  if (ir_none(adj)) return;
  Val cube = op2(g, OP_mul, op2(g, OP_mul, rstd, rstd), rstd), scale = op2(g, OP_mul, cube, adj);
  Val each = op2(g, OP_mul, column_of(g, v, by_width(g, v, scale, x), x), d);
  ir_grad_give(g, x, ir_op1(g->f, OP_neg, each, g->loc));
}

// y has n_rows per-row results behind it; weight and bias get column sums.
static void grad_norm(Grad *g, Val v, Val adj, Op op, Val centred, uint32_t n_rows) {
  Val x = ir_operand(g->f, v, ARG_x), in[5] = {x};
  Val weight = ir_operand(g->f, v, ARG_weight), bias = ir_operand(g->f, v, ARG_bias);
  uint32_t at = 1;
  for (uint32_t k = 1; k <= n_rows; k++) in[at++] = ir_result(v, k);
  in[at++] = adj, in[at++] = weight;
  const Attr *axis = ir_attr(g->f, v, KEY_axis), own = axis ? *axis : (Attr){0};
  if (g->dep[x.i]) ir_grad_give(g, x, ir_emit(g->f, op, in, at, &own, axis != NULL, g->loc));
  if (g->dep[weight.i]) {
    Val unit = op2(g, OP_mul, centred, column_of(g, v, ir_result(v, n_rows), x));
    ir_grad_give(g, weight, op2(g, OP_mul, adj, unit));
  }
  ir_grad_give(g, bias, adj);
}

void ir_grad_rule_layer_norm(Grad *g, Val v, Val adj) {
  Val x = arg(g, v, 0), of_mean = g->adj[v.i + 1], of_rstd = g->adj[v.i + 2];
  Val d = op2(g, OP_sub, x, column_of(g, v, ir_result(v, 1), x));
  if (!ir_none(adj)) grad_norm(g, v, adj, OP_layer_norm_grad, d, 2);
  if (!ir_none(of_mean)) ir_grad_give(g, x, expand(g, column_of(g, v, by_width(g, v, of_mean, x), x), shape_of(g, x)));
  grad_rstd(g, v, x, d, ir_result(v, 2), of_rstd);
}

void ir_grad_rule_rms_norm(Grad *g, Val v, Val adj) {
  Val x = arg(g, v, 0);
  if (!ir_none(adj)) grad_norm(g, v, adj, OP_rms_norm_grad, x, 1);
  grad_rstd(g, v, x, x, ir_result(v, 1), g->adj[v.i + 1]);
}

// ---- gradients of gradients
// Sum over the rows of v, along its {axis} or the last, kept as an axis of size 1.
static Val row_sum(Grad *g, Val v, Val a) {
  int64_t axis = ir_attr_int(g->f, v, KEY_axis, (int64_t)ir_rank(g->p, shape_of(g, a)) - 1);
  Attr attr[2] = {ir_a_list(KEY_axes, ir_shape_ints(g->p, &axis, 1)), ir_a_int(KEY_keepdim, 1)};
  return ir_emit(g->f, OP_sum, &a, 1, attr, 2, g->loc);
}

static Val row_mean(Grad *g, Val v, Val a) { return by_width(g, v, row_sum(g, v, a), a); }

// The op of v with other operands.
static Val same_op(Grad *g, Val v, const Val *in, uint32_t n) {
  Attr attr[2];
  uint32_t n_attrs = 0;
  static const Key keys[] = {KEY_axis, KEY_ignore};
  for (uint32_t k = 0; k < sizeof keys / sizeof *keys; k++) {
    const Attr *a = ir_attr(g->f, v, keys[k]);
    if (a) attr[n_attrs++] = *a;
  }
  return ir_emit(g->f, ir_ins(g->f, v)->op, in, n, attr, n_attrs, g->loc);
}

// y (d - S(d y)):   of y: u (d - S(d y)) - d S(u y)   of d: y (u - S(u y))
void ir_grad_rule_softmax_grad(Grad *g, Val v, Val u) {
  Val y = arg(g, v, 0), d = arg(g, v, 1);
  if (wants(g, v, 1)) ir_grad_give(g, d, same_op(g, v, (Val[]){y, u}, 2));
  if (!wants(g, v, 0)) return;
  Val centred = op2(g, OP_sub, d, row_sum(g, v, mul(g, d, y)));
  Val of_sum = mul(g, d, row_sum(g, v, mul(g, u, y)));
  ir_grad_give(g, y, op2(g, OP_sub, mul(g, u, centred), of_sum));
}

// d - e^y S(d):   of y: -u e^y S(d)   of d: u - S(u e^y)
void ir_grad_rule_log_softmax_grad(Grad *g, Val v, Val u) {
  Val y = arg(g, v, 0), d = arg(g, v, 1), weighed = mul(g, u, ir_op1(g->f, OP_exp, y, g->loc));
  if (wants(g, v, 1)) ir_grad_give(g, d, op2(g, OP_sub, u, row_sum(g, v, weighed)));
  if (wants(g, v, 0)) ir_grad_give(g, y, ir_op1(g->f, OP_neg, mul(g, weighed, row_sum(g, v, d)), g->loc));
}

enum { MOST_F32_INTEGER = 1 << 24 };

// a where the row's label counts, else 0. Labels below 2^24 are exact as f32, and no other number rounds to one.
static Val where_counted(Grad *g, Val v, Val a) {
  const Attr *ignore = ir_attr(g->f, v, KEY_ignore);
  if (!ignore) return a;
  double label = (double)ignore->u.i;
  Val x = arg(g, v, 0), labels = with_attr(g, OP_cast, arg(g, v, 1), ir_a_int(KEY_dtype, DT_F32));
  Val counts = op2(g, OP_ne, column_of(g, v, labels, x), number(g, label));
  return ir_op3(g->f, OP_select, counts, a, number(g, 0), g->loc);
}

static bool has_large_labels(const Grad *g, Val v) {
  Shape s = shape_of(g, v);
  return ir_attr(g->f, v, KEY_ignore) &&
         ir_dim_bound(g->p, ir_dim_at(g->p, s, ir_rank(g->p, s) - 1)) > MOST_F32_INTEGER;
}

// p = e^(x - lse) of rows that count:
// (p - onehot) d:   of x: u p d   of lse: -S(u p d)   of d: S((p - onehot) u)
void ir_grad_rule_cross_entropy_rows_grad(Grad *g, Val v, Val u) {
  Val x = arg(g, v, 0), labels = arg(g, v, 1), lse = arg(g, v, 2), d = arg(g, v, 3);
  if (has_large_labels(g, v)) {
    ir_grad_missing(g, v, "has no gradient rule for more than 2^24 classes of which one is ignored");
    return;
  }
  bool one = ir_rank(g->p, shape_of(g, d)) == 0;
  Shape rows = shape_of(g, lse);
  if (wants(g, v, 3)) {
    Val unit = same_op(g, v, (Val[]){x, labels, lse, expand(g, number(g, 1), rows)}, 4);
    ir_grad_give(g, d, reshape(g, row_sum(g, v, mul(g, unit, u)), rows));
  }
  if (!wants(g, v, 0) && !wants(g, v, 2)) return;
  Val p = ir_op1(g->f, OP_exp, op2(g, OP_sub, x, column_of(g, v, lse, x)), g->loc);
  Val each = where_counted(g, v, mul(g, mul(g, u, p), one ? d : column_of(g, v, d, x)));
  ir_grad_give(g, x, each);
  ir_grad_give(g, lse, ir_op1(g->f, OP_neg, reshape(g, row_sum(g, v, each), rows), g->loc));
}

// Operands of a norm's gradient: x, per-row numbers, the incoming gradient, the weight.
typedef struct {
  Val v, x, mean, rstd, d, weight;  // mean, weight: may be none
  uint32_t at_d;
} NormGrad;

static NormGrad norm_grad_at(const Grad *g, Val v) {
  const Fn *f = g->f;
  return (NormGrad){.v = v,
                    .x = ir_operand(f, v, ARG_x),
                    .mean = ir_operand(f, v, ARG_mean),
                    .rstd = ir_operand(f, v, ARG_rstd),
                    .d = ir_operand(f, v, ARG_g),
                    .weight = ir_operand(f, v, ARG_weight),
                    .at_d = ir_operand_at(f, v, ARG_g)};
}

// With respect to the incoming gradient and the weight: the op is linear in both.
static void of_incoming(Grad *g, const NormGrad *n, Val q) {
  bool weighs = !ir_none(n->weight);
  if (!g->dep[n->d.i] && !g->dep[n->weight.i]) return;
  Val in[4];
  for (uint32_t k = 0; k < n->at_d; k++) in[k] = arg(g, n->v, k);
  in[n->at_d] = q;
  Val h = same_op(g, n->v, in, n->at_d + 1);
  ir_grad_give(g, n->d, weighs ? mul(g, h, n->weight) : h);
  if (weighs) ir_grad_give(g, n->weight, mul(g, h, n->d));
}

// With z = (x - mean) rstd and h = d weight, the op is rstd (h - M(h) - z M(h z)); rms_norm: without mean and M(h).
//   of z: -rstd (q M(h z) + h M(q z)), which x gets rstd times and mean -S(..) of
//   of rstd, z included: S(q h) - S(q) M(h) - 3 S(q z) M(h z)
static void of_row(Grad *g, const NormGrad *n, Val q) {
  Val v = n->v, rstd = column_of(g, v, n->rstd, n->x);
  Val centred = ir_none(n->mean) ? n->x : op2(g, OP_sub, n->x, column_of(g, v, n->mean, n->x)),
      z = mul(g, centred, rstd);
  Val h = ir_none(n->weight) ? n->d : mul(g, n->d, n->weight);
  Val hz = row_mean(g, v, mul(g, h, z)), qz = row_mean(g, v, mul(g, q, z));
  Val of_hz = mul(g, h, qz), of_z = op2(g, OP_add, mul(g, q, hz), of_hz);
  Val of_x = ir_op1(g->f, OP_neg, mul(g, of_z, mul(g, rstd, rstd)), g->loc);
  ir_grad_give(g, n->x, of_x);
  Shape rows = shape_of(g, n->rstd);
  if (!ir_none(n->mean)) ir_grad_give(g, n->mean, reshape(g, ir_op1(g->f, OP_neg, row_sum(g, v, of_x), g->loc), rows));
  Val three = mul(g, row_sum(g, v, mul(g, q, z)), hz);
  three = mul(g, number(g, 3), three);
  Val of_rstd = op2(g, OP_sub, row_sum(g, v, mul(g, q, h)), three);
  if (!ir_none(n->mean)) {
    Val mean = row_mean(g, v, h);
    of_rstd = op2(g, OP_sub, of_rstd, mul(g, row_sum(g, v, q), mean));
  }
  ir_grad_give(g, n->rstd, reshape(g, of_rstd, rows));
}

static void norm_grad(Grad *g, Val v, Val q) {
  NormGrad n = norm_grad_at(g, v);
  of_incoming(g, &n, q);
  bool any = wants(g, v, 0);
  for (uint32_t k = 1; k < n.at_d; k++) any |= wants(g, v, k);
  if (any) of_row(g, &n, q);
}

void ir_grad_rule_layer_norm_grad(Grad *g, Val v, Val q) { norm_grad(g, v, q); }
void ir_grad_rule_rms_norm_grad(Grad *g, Val v, Val q) { norm_grad(g, v, q); }

// y = sqrt of the sum of squares: x / y, and 0 where y is 0, as PyTorch has it.
void ir_grad_rule_global_norm(Grad *g, Val v, Val adj) {
  Val some = ir_op3(g->f, OP_select, v, v, number(g, 1), g->loc);
  Val scale = op2(g, OP_div, ir_op3(g->f, OP_select, v, adj, number(g, 0), g->loc), some);
  for (uint32_t k = 0; k < ir_ins(g->f, v)->n_args; k++)
    if (wants(g, v, k)) ir_grad_give(g, arg(g, v, k), mul(g, arg(g, v, k), scale));
}
