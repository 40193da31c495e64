// Losses that are made element by element, or of distances between rows, and reduced: PyTorch's formulas, defaults and
// gradients. Cross-entropy: loss.c.
//
//   tn_huber(a, b, 1)      %d = abs(a - b)      %l = select(%d <= 1, %d %d / 2, %d - 1/2)      mean %l
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/reduce.h"
#include "frontend/graph/report.h"
#include "frontend/graph/shape.h"

#include <math.h>
#include <string.h>

typedef struct {
  tn_function *f;
  tn_site at;
} Maker;

// ---- parts of the formulas
static tn_tensor number(const Maker *m, double x) { return fe_const(m->f, x, m->at); }
static tn_tensor op1(const Maker *m, Op op, tn_tensor a) { return fe_emit1(op, a, m->at); }
static tn_tensor op2(const Maker *m, Op op, tn_tensor a, tn_tensor b) { return fe_emit2(op, a, b, m->at); }
static tn_tensor add(const Maker *m, tn_tensor a, tn_tensor b) { return op2(m, OP_add, a, b); }
static tn_tensor sub(const Maker *m, tn_tensor a, tn_tensor b) { return op2(m, OP_sub, a, b); }
static tn_tensor mul(const Maker *m, tn_tensor a, tn_tensor b) { return op2(m, OP_mul, a, b); }
static tn_tensor div_by(const Maker *m, tn_tensor a, tn_tensor b) { return op2(m, OP_div, a, b); }
static tn_tensor at_least(const Maker *m, tn_tensor a, double lo) { return op2(m, OP_clamp_min, a, number(m, lo)); }
static tn_tensor scaled(const Maker *m, tn_tensor a, double by) { return mul(m, a, number(m, by)); }
static tn_tensor plus(const Maker *m, tn_tensor a, double x) { return add(m, a, number(m, x)); }
static tn_tensor pick(const Maker *m, tn_tensor cond, tn_tensor a, tn_tensor b) {
  return fe_emit(OP_select, (const tn_tensor[]){cond, a, b}, 3, NULL, 0, m->at);
}

static tn_tensor sum_last(const Maker *m, tn_tensor a) { return fe_sum(a, (const int[]){-1}, 1, false, m->at); }

// ---- the calls
static tn_tensor reduced(const Maker *m, tn_tensor loss, tn_reduction how) {
  if (!fe_ok(loss)) return loss;
  switch (how) {
  case TN_REDUCE_NONE: return fe_made(loss, m->at);
  case TN_REDUCE_SUM: return fe_made(fe_sum(loss, NULL, 0, false, m->at), m->at);
  case TN_REDUCE_MEAN: return fe_made(fe_mean(loss, NULL, 0, false, m->at), m->at);
  case TN_REDUCE_SEQUENCES: return fe_made(fe_means_of_sequences(loss, TN_NONE, m->at), m->at);
  case TN_REDUCE_BATCHMEAN:
    if (fe_rank(loss) == 0) return fe_made(loss, m->at);  // without a batch, as in PyTorch
    return fe_made(div_by(m, fe_sum(loss, NULL, 0, false, m->at), fe_size(m->f, fe_axis_dim(loss, 0), m->at)), m->at);
  }
  fe_error(m->f->p, E_ARGUMENT, m->at, "%d is no reduction of this loss", (int)how);
  return fe_poison(m->f);
}

// Opens a public call on n operands; `open` is false where it was refused.
#define LOSS(m, site, ...)                                                                       \
  const tn_tensor operands[] = {__VA_ARGS__};                                                    \
  Maker m = {.at = (site)};                                                                      \
  if (!fe_join(operands, sizeof operands / sizeof *operands, &m.f, m.at)) return fe_poison(m.f); \
  FE_GUARD(m.f->p, fe_poison(m.f));                                                              \
  if (!fe_same_rows(__func__ + strlen("tn_"), operands[0], operands[1], m.at)) return fe_poison(m.f)

// [n,1] and [n] make [n,n]: each prediction beside each target, which is seldom meant.
static void warn_broadcast(const Maker *m, tn_tensor a, tn_tensor b) {
  uint32_t ra = fe_rank(a), rb = fe_rank(b), rank = ra > rb ? ra : rb;
  bool widens_a = false, widens_b = false;
  if (!fe_ok(a) || !fe_ok(b)) return;
  Dim one = ir_dim(m->f->p->ir, 1);
  for (uint32_t k = 1; k <= rank; k++) {
    Dim x = k <= ra ? fe_axis_dim(a, ra - k) : one, y = k <= rb ? fe_axis_dim(b, rb - k) : one;
    widens_a |= x.i == one.i && y.i != one.i;
    widens_b |= y.i == one.i && x.i != one.i;
  }
  if (!widens_a || !widens_b) return;
  fe_diag(m->f->p, RT_WARNING, E_LOSS_BROADCASTS, fe_loc(m->f->p, m->at),
          "%s of %s and %s compares each element of one with several of the other", fe_outermost_call(m->f->p),
          fe_type_text(a), fe_type_text(b));
  fe_note_value(a, "one");
  fe_note_value(b, "the other");
  fe_hint(m->f->p, "tn_reshape or tn_squeeze gives both one shape");
}

// Of elements beside elements
#define PAIR_LOSS(m, site, ...) \
  LOSS(m, site, __VA_ARGS__);   \
  warn_broadcast(&m, operands[0], operands[1])

static bool refuse(const Maker *m, bool bad, const char *what, double x) {
  if (bad) fe_error(m->f->p, E_ARGUMENT, m->at, "%s, not %g", what, x);
  return bad;
}

// ---- distances of numbers
tn_tensor tn_mse(tn_tensor a, tn_tensor b, tn_reduce_options o) {
  PAIR_LOSS(m, o.at, a, b);
  return reduced(&m, op1(&m, OP_square, sub(&m, a, b)), o.reduction);
}

tn_tensor tn_l1_loss(tn_tensor a, tn_tensor b, tn_reduce_options o) {
  PAIR_LOSS(m, o.at, a, b);
  return reduced(&m, op1(&m, OP_abs, sub(&m, a, b)), o.reduction);
}

tn_tensor tn_huber(tn_tensor a, tn_tensor b, double delta, tn_reduce_options o) {
  PAIR_LOSS(m, o.at, a, b);
  if (refuse(&m, !(delta > 0), "huber takes a delta above 0", delta)) return fe_poison(m.f);
  tn_tensor near = scaled(&m, op1(&m, OP_square, sub(&m, a, b)), 0.5), d = op1(&m, OP_abs, sub(&m, a, b));
  tn_tensor far = scaled(&m, plus(&m, d, -0.5 * delta), delta);
  return reduced(&m, pick(&m, op2(&m, OP_lt, d, number(&m, delta)), near, far), o.reduction);
}

tn_tensor tn_smooth_l1(tn_tensor a, tn_tensor b, double beta, tn_reduce_options o) {
  PAIR_LOSS(m, o.at, a, b);
  if (refuse(&m, !(beta >= 0), "smooth_l1 takes a beta of 0 or more", beta)) return fe_poison(m.f);
  tn_tensor d = op1(&m, OP_abs, sub(&m, a, b));
  if (beta == 0) return reduced(&m, d, o.reduction);
  tn_tensor near = scaled(&m, op1(&m, OP_square, sub(&m, a, b)), 0.5 / beta), far = plus(&m, d, -0.5 * beta);
  return reduced(&m, pick(&m, op2(&m, OP_lt, d, number(&m, beta)), near, far), o.reduction);
}

// ---- of two classes, and of distributions
tn_tensor tn_bce(tn_tensor p, tn_tensor target, tn_bce_options o) {
  PAIR_LOSS(m, o.at, p, target, o.weight.fn ? o.weight : p, o.pos_weight.fn ? o.pos_weight : p);
  if (o.pos_weight.fn) {
    fe_error(m.f->p, E_ARGUMENT, m.at, "bce takes no pos_weight: that is an option of bce_with_logits");
    return fe_poison(m.f);
  }
  tn_tensor loss = op2(&m, OP_bce, p, target);
  return reduced(&m, o.weight.fn ? mul(&m, loss, o.weight) : loss, o.reduction);
}

tn_tensor tn_bce_with_logits(tn_tensor x, tn_tensor target, tn_bce_options o) {
  PAIR_LOSS(m, o.at, x, target, o.weight.fn ? o.weight : x, o.pos_weight.fn ? o.pos_weight : x);
  tn_tensor loss = op2(&m, OP_bce_with_logits, x, target);
  if (o.pos_weight.fn) {  // (1 - t) x + (1 + (pos_weight - 1) t) softplus(-x)
    tn_tensor share = plus(&m, mul(&m, plus(&m, o.pos_weight, -1), target), 1);
    tn_tensor tail = mul(&m, share, op1(&m, OP_softplus, op1(&m, OP_neg, x)));
    loss = add(&m, mul(&m, sub(&m, number(&m, 1), target), x), tail);
  }
  return reduced(&m, o.weight.fn ? mul(&m, loss, o.weight) : loss, o.reduction);
}

tn_tensor tn_kl_div(tn_tensor log_p, tn_tensor target, bool log_target, tn_reduce_options o) {
  PAIR_LOSS(m, o.at, log_p, target);
  if (log_target) return reduced(&m, mul(&m, op1(&m, OP_exp, target), sub(&m, target, log_p)), o.reduction);
  tn_tensor is_zero = op2(&m, OP_eq, target, number(&m, 0)), safe = pick(&m, is_zero, number(&m, 1), target);
  tn_tensor entropy = pick(&m, is_zero, number(&m, 0), mul(&m, safe, op1(&m, OP_log, safe)));
  return reduced(&m, sub(&m, entropy, mul(&m, target, log_p)), o.reduction);
}

// ---- of rates, and of means with a variance
tn_tensor tn_poisson_nll(tn_tensor x, tn_tensor target, bool log_input, tn_nll_options o) {
  PAIR_LOSS(m, o.at, x, target);
  double eps = o.eps > 0 ? o.eps : 1e-8;
  tn_tensor loss = log_input ? sub(&m, op1(&m, OP_exp, x), mul(&m, target, x))
                             : sub(&m, x, mul(&m, target, op1(&m, OP_log, plus(&m, x, eps))));
  if (o.full) {  // Stirling's formula for ln target!, above 1
    tn_tensor is_large = op2(&m, OP_gt, target, number(&m, 1)), t = pick(&m, is_large, target, number(&m, 1));
    tn_tensor term = sub(&m, mul(&m, t, op1(&m, OP_log, t)), t);
    term = add(&m, term, scaled(&m, op1(&m, OP_log, scaled(&m, t, 6.283185307179586)), 0.5));
    loss = add(&m, loss, pick(&m, is_large, term, number(&m, 0)));
  }
  return reduced(&m, loss, o.reduction);
}

// One variance for each row of x is one for all elements of that row.
static tn_tensor of_each_row(tn_tensor var, tn_tensor x, tn_site at) {
  uint32_t rank = fe_rank(x);
  Dim d[MAX_RANK];
  if (rank == 0 || fe_rank(var) != rank - 1) return var;
  for (uint32_t k = 0; k + 1 < rank; k++) {
    d[k] = fe_axis_dim(var, k);
    if (d[k].i != fe_axis_dim(x, k).i) return var;
  }
  d[rank - 1] = ir_dim(x.fn->p->ir, 1);
  return fe_reshape(var, d, rank, at);
}

tn_tensor tn_gaussian_nll(tn_tensor x, tn_tensor target, tn_tensor var, tn_nll_options o) {
  PAIR_LOSS(m, o.at, x, target, var);
  var = of_each_row(var, x, o.at);
  double eps = o.eps > 0 ? o.eps : 1e-6;
  // A variance below eps counts as eps, and has its gradient all the same.
  tn_tensor fixed = op1(&m, OP_stop_grad, op2(&m, OP_max, sub(&m, number(&m, eps), var), number(&m, 0)));
  tn_tensor safe = add(&m, var, fixed);
  tn_tensor loss = add(&m, op1(&m, OP_log, safe), div_by(&m, op1(&m, OP_square, sub(&m, x, target)), safe));
  loss = scaled(&m, loss, 0.5);
  return reduced(&m, o.full ? plus(&m, loss, 0.91893853320467274) : loss, o.reduction);
}

// ---- margins: y is 1 or -1
static tn_tensor as_f32(const Maker *m, tn_tensor y) {
  return COUNTABLE >> fe_ins(y)->dtype & 1 ? fe_cast(y, DT_F32, m->at) : y;
}

tn_tensor tn_hinge_embedding(tn_tensor x, tn_tensor y, double margin, tn_reduce_options o) {
  PAIR_LOSS(m, o.at, x, y);
  y = as_f32(&m, y);
  tn_tensor beyond = at_least(&m, sub(&m, number(&m, margin), x), 0), zero = number(&m, 0);
  tn_tensor apart = pick(&m, op2(&m, OP_ne, y, number(&m, 1)), beyond, zero);
  if (!fe_ok(apart)) return apart;  // one mistake, one report
  return reduced(&m, add(&m, apart, pick(&m, op2(&m, OP_ne, y, number(&m, -1)), x, zero)), o.reduction);
}

tn_tensor tn_soft_margin(tn_tensor x, tn_tensor y, tn_reduce_options o) {
  PAIR_LOSS(m, o.at, x, y);
  return reduced(&m, op1(&m, OP_softplus, op1(&m, OP_neg, mul(&m, as_f32(&m, y), x))), o.reduction);
}

tn_tensor tn_margin_ranking(tn_tensor a, tn_tensor b, tn_tensor y, double margin, tn_reduce_options o) {
  LOSS(m, o.at, a, b, y);
  tn_tensor order = mul(&m, op1(&m, OP_neg, as_f32(&m, y)), sub(&m, a, b));
  return reduced(&m, at_least(&m, plus(&m, order, margin), 0), o.reduction);
}

// ---- margins of classes
// One sample, x [C], becomes a batch of one; its labels have an axis less, too.
static tn_tensor as_batch(const Maker *m, tn_tensor a) {
  Dim d[MAX_RANK] = {ir_dim(m->f->p->ir, 1)};
  for (uint32_t k = 0; k < fe_rank(a); k++) d[k + 1] = fe_axis_dim(a, k);
  return fe_reshape(a, d, fe_rank(a) + 1, m->at);
}

static bool open_classes(const Maker *m, const char *call, tn_tensor *x, tn_tensor *labels, uint32_t rank) {
  bool is_one = fe_rank(*x) == 1 && fe_rank(*labels) + 1 == rank;
  if (fe_ins(*labels)->dtype == DT_I64 && (is_one || (fe_rank(*x) == 2 && fe_rank(*labels) == rank))) {
    if (is_one) *x = as_batch(m, *x), *labels = as_batch(m, *labels);
    return true;
  }
  fe_error(m->f->p, E_SHAPE, m->at, "%s takes x f32 [N, C] and labels i64 %s, or one sample of both", call,
           rank == 1 ? "[N]" : "[N, C]");
  fe_note_value(*x, "x");
  fe_note_value(*labels, "the labels");
  return false;
}

// Losses [N] of samples; of one that came without a batch [].
static tn_tensor like_samples(const Maker *m, tn_tensor loss, tn_tensor x) {
  return fe_rank(x) == 1 && fe_ok(loss) ? fe_reshape(loss, NULL, 0, m->at) : loss;
}

static tn_tensor gathered(const Maker *m, tn_tensor a, int64_t axis, tn_tensor index) {
  return fe_emit(OP_gather, (const tn_tensor[]){a, index}, 2, (const Attr[]){ir_a_int(KEY_axis, axis)}, 1, m->at);
}

// a [N, C] as [N, C, 1], or as [N, 1, C]
static tn_tensor with_axis(const Maker *m, tn_tensor a, bool is_last) {
  Dim one = ir_dim(m->f->p->ir, 1), n = fe_axis_dim(a, 0), c = fe_axis_dim(a, 1);
  return fe_reshape(a, is_last ? (const Dim[]){n, c, one} : (const Dim[]){n, one, c}, 3, m->at);
}

// Divided by the number of classes
static tn_tensor per_class(const Maker *m, tn_tensor sum, tn_tensor x) {
  return div_by(m, sum, fe_size(m->f, fe_axis_dim(x, 1), m->at));
}

tn_tensor tn_multi_margin(tn_tensor given, tn_tensor labels, tn_multi_margin_options o) {
  LOSS(m, o.at, given, labels, o.weight.fn ? o.weight : given);
  tn_tensor x = given;
  if (!open_classes(&m, "multi_margin", &x, &labels, 1)) return fe_poison(m.f);
  Dim column[] = {fe_axis_dim(labels, 0), ir_dim(m.f->p->ir, 1)};
  tn_tensor index = fe_reshape(labels, column, 2, m.at), own = gathered(&m, x, 1, index);
  tn_tensor beyond = op1(&m, OP_relu, plus(&m, sub(&m, x, own), o.has_margin ? o.margin : 1));
  if (o.squared) beyond = op1(&m, OP_square, beyond);
  tn_tensor position = fe_positions(m.f, fe_axis_dim(x, 1), m.at);
  tn_tensor others = op2(&m, OP_ne, position, fe_cast(index, DT_F32, m.at));
  tn_tensor loss = per_class(&m, sum_last(&m, pick(&m, others, beyond, number(&m, 0))), x);
  if (o.weight.fn) loss = mul(&m, loss, gathered(&m, o.weight, 0, labels));
  return reduced(&m, like_samples(&m, loss, given), o.reduction);
}

tn_tensor tn_multilabel_margin(tn_tensor given, tn_tensor labels, tn_reduce_options o) {
  LOSS(m, o.at, given, labels);
  tn_tensor x = given;
  if (!open_classes(&m, "multilabel_margin", &x, &labels, 2)) return fe_poison(m.f);
  Attr axis = ir_a_int(KEY_axis, 1);
  tn_tensor label = fe_cast(labels, DT_F32, m.at), zero = number(&m, 0);
  tn_tensor ends = op2(&m, OP_lt, label, zero), n_ends = fe_emit(OP_cumsum, &ends, 1, &axis, 1, m.at);
  tn_tensor counts = op2(&m, OP_eq, n_ends, zero), index = pick(&m, counts, label, zero);
  tn_tensor own = gathered(&m, x, 1, fe_cast(index, DT_I64, m.at));
  tn_tensor position = fe_positions(m.f, fe_axis_dim(x, 1), m.at);  // [N, label, class] from here on
  tn_tensor names = op2(&m, OP_eq, with_axis(&m, label, true), position);
  tn_tensor is_label = fe_sum(mul(&m, names, with_axis(&m, counts, true)), (const int[]){1}, 1, true, m.at);
  tn_tensor beyond = op1(&m, OP_relu, plus(&m, sub(&m, with_axis(&m, x, false), with_axis(&m, own, true)), 1));
  beyond = pick(&m, with_axis(&m, counts, true), beyond, zero);
  beyond = pick(&m, op2(&m, OP_eq, is_label, zero), beyond, zero);
  tn_tensor loss = per_class(&m, fe_sum(beyond, (const int[]){1, 2}, 2, false, m.at), x);
  return reduced(&m, like_samples(&m, loss, given), o.reduction);
}

tn_tensor tn_multilabel_soft_margin(tn_tensor x, tn_tensor target, tn_multilabel_options o) {
  LOSS(m, o.at, x, target, o.weight.fn ? o.weight : x);
  if (fe_rank(x) == 0) {
    fe_error(m.f->p, E_SHAPE, m.at, "multilabel_soft_margin takes classes along the last axis, not %s",
             fe_type_text(x));
    fe_note_value(x, "the scores");
    return fe_poison(m.f);
  }
  tn_tensor loss = op2(&m, OP_bce_with_logits, x, as_f32(&m, target));
  if (o.weight.fn) loss = mul(&m, loss, o.weight);
  return reduced(&m, fe_ok(loss) ? fe_mean(loss, (const int[]){-1}, 1, false, m.at) : loss, o.reduction);
}

// ---- distances of rows, along the last axis
static tn_tensor distance(const Maker *m, tn_tensor a, tn_tensor b, double p, double eps) {
  return fe_vector_norm(plus(m, sub(m, a, b), eps), p, -1, m->at);
}

static bool has_rows(const Maker *m, tn_tensor a) {
  if (fe_rank(a) > 0) return true;
  fe_error(m->f->p, E_SHAPE, m->at, "the operands need an axis along which distances are taken, their last one");
  fe_note_value(a, "the operand");
  return false;
}

tn_tensor tn_pairwise_distance(tn_tensor a, tn_tensor b, double p, double eps, tn_site at) {
  LOSS(m, at, a, b);
  if (!has_rows(&m, a) || refuse(&m, !(p > 0 && isfinite(p)), "pairwise_distance takes a p above 0", p))
    return fe_poison(m.f);
  return fe_made(distance(&m, a, b, p, eps), at);
}

tn_tensor tn_triplet_margin(tn_tensor anchor, tn_tensor positive, tn_tensor negative, tn_triplet_options o) {
  LOSS(m, o.at, anchor, positive, negative);
  double p = o.p > 0 ? o.p : 2, eps = o.eps > 0 ? o.eps : 1e-6, margin = o.has_margin ? o.margin : 1;
  if (!has_rows(&m, anchor) || refuse(&m, !isfinite(p), "triplet_margin takes a finite p", p) ||
      refuse(&m, !(margin > 0), "triplet_margin takes a margin above 0", margin))
    return fe_poison(m.f);
  tn_tensor near = distance(&m, anchor, positive, p, eps), far = distance(&m, anchor, negative, p, eps);
  if (o.swap) far = op2(&m, OP_min, far, distance(&m, positive, negative, p, eps));
  return reduced(&m, at_least(&m, plus(&m, sub(&m, near, far), margin), 0), o.reduction);
}

// a b / (max(|a|, eps) max(|b|, eps))
tn_tensor tn_cosine_similarity(tn_tensor a, tn_tensor b, int axis, double eps, tn_site at) {
  LOSS(m, at, a, b);
  tn_tensor product = mul(&m, a, b), row = product;
  uint32_t k;
  if (!fe_ok(product) || !fe_row_axis(&row, axis, &k, at)) return fe_poison(m.f);
  Attr shape = ir_a_list(KEY_shape, fe_shape_of(product));
  tn_tensor length[2] = {a, b};
  for (int j = 0; j < 2; j++) {
    tn_tensor whole = fe_emit(OP_expand, &length[j], 1, &shape, 1, at);
    length[j] = at_least(&m, fe_vector_norm(whole, 2, axis, at), eps);
  }
  tn_tensor dot = fe_sum(product, &axis, 1, false, at);
  return fe_made(div_by(&m, dot, mul(&m, length[0], length[1])), at);
}

tn_tensor tn_cosine_embedding(tn_tensor a, tn_tensor b, tn_tensor y, double margin, tn_reduce_options o) {
  LOSS(m, o.at, a, b, y);
  if (!has_rows(&m, a)) return fe_poison(m.f);
  y = as_f32(&m, y);
  tn_tensor dot = sum_last(&m, mul(&m, a, b)), aa = sum_last(&m, op1(&m, OP_square, a));
  tn_tensor bb = sum_last(&m, op1(&m, OP_square, b)), zero = number(&m, 0);
  tn_tensor size = op1(&m, OP_sqrt, mul(&m, plus(&m, aa, 1e-12), plus(&m, bb, 1e-12))), cosine = div_by(&m, dot, size);
  tn_tensor alike = pick(&m, op2(&m, OP_eq, y, number(&m, 1)), sub(&m, number(&m, 1), cosine), zero);
  if (!fe_ok(alike)) return alike;
  tn_tensor apart = at_least(&m, plus(&m, cosine, -margin), 0);
  return reduced(&m, add(&m, alike, pick(&m, op2(&m, OP_eq, y, number(&m, -1)), apart, zero)), o.reduction);
}
