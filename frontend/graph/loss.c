// Cross-entropy, and its half behind the logarithm, with classes that weigh, labels that are ignored, and smoothing;
// PyTorch's formulas. By row:
//
//   %nll, %lse = cross_entropy_rows %logits, %labels {ignore=-100}        0 where the label is ignored
//   %m = ne(label, -100)      %w = weight[label] m              how much the row counts; without weights %m
//   %row = (1 - s) w nll + s / C m (lse sum(weight) - sum(weight logits))
//   %loss = sum(row) / sum(w)
//
// Of probabilities of the classes, t, in place of a label:
//
//   %row = -sum(weight ((1 - s) t + s / C) log_softmax(logits))      %loss = sum(row) / rows
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/reduce.h"
#include "frontend/graph/report.h"

#include <string.h>

typedef struct {
  tn_tensor logits, labels, weight;  // weight fn NULL: none
  tn_tensor counts;                  // by row, 0 where it is ignored; fn NULL: 1 everywhere
  tn_loss_options o;
  tn_site at;
} Loss;

static tn_tensor number(const Loss *l, double x) { return fe_const(l->logits.fn, x, l->at); }
static tn_tensor mul(const Loss *l, tn_tensor a, tn_tensor b) { return fe_emit2(OP_mul, a, b, l->at); }
static Dim classes(const Loss *l) { return fe_axis_dim(l->logits, fe_rank(l->logits) - 1); }

static tn_tensor sum_last(const Loss *l, tn_tensor a) { return fe_sum(a, (const int[]){-1}, 1, false, l->at); }

static bool check_options(const Loss *l) {
  tn_program *p = l->logits.fn->p;
  const int64_t most = INT64_C(1) << 24;  // labels are compared and looked up as f32
  int64_t n = ir_dim_bound(p->ir, classes(l)), k = l->o.ignore_index;
  bool is_one = (unsigned)l->o.reduction <= TN_REDUCE_NONE || l->o.reduction == TN_REDUCE_SEQUENCES;
  if (!is_one) fe_error(p, E_ARGUMENT, l->at, "%d is no reduction of a loss", (int)l->o.reduction);
  else if (!(l->o.label_smoothing >= 0 && l->o.label_smoothing <= 1))
    fe_error(p, E_ARGUMENT, l->at, "label smoothing takes a number in [0, 1], not %g", l->o.label_smoothing);
  else if (l->o.has_ignore && (k >= most || k <= -most))
    fe_error(p, E_ARGUMENT, l->at, "the ignored label %lld is not between -2^24 and 2^24", (long long)k);
  else if (l->weight.fn && (fe_ins(l->weight)->dtype != DT_F32 || fe_rank(l->weight) != 1 ||
                            fe_axis_dim(l->weight, 0).i != classes(l).i)) {
    fe_error(p, E_SHAPE, l->at, "class weights must be f32 [%lld], one for each class", (long long)n);
    fe_note(p, fe_ins(l->weight)->loc, "the weights were made here");
  } else if (l->weight.fn && n > most)
    fe_error(p, E_ARGUMENT, l->at, "class weights are possible for at most 2^24 classes, not %lld", (long long)n);
  else return true;
  return false;
}

// 1 for a row that counts, 0 for one that is ignored; fn NULL: all count
static tn_tensor mask_of(const Loss *l) {
  if (!l->o.has_ignore) return TN_NONE;
  return fe_emit2(OP_ne, fe_cast(l->labels, DT_F32, l->at), number(l, (double)l->o.ignore_index), l->at);
}

// Ignored labels look at class 0.
static tn_tensor index_of(const Loss *l, tn_tensor mask) {
  return mask.fn ? fe_cast(mul(l, fe_cast(l->labels, DT_F32, l->at), mask), DT_I64, l->at) : l->labels;
}

// Weight[label] by row; ignored labels count nothing.
static tn_tensor weights_of(const Loss *l, tn_tensor mask) {
  tn_tensor index = index_of(l, mask);
  tn_tensor table = fe_reshape(l->weight, (const Dim[]){classes(l), ir_dim(l->logits.fn->p->ir, 1)}, 2, l->at);
  tn_tensor w = sum_last(l, fe_emit2(OP_embedding, table, index, l->at));  // [.., 1] -> [..]
  return mask.fn ? mul(l, w, mask) : w;
}

// Sum over classes of -weight ln p, for each row
static tn_tensor smooth_rows(const Loss *l, tn_tensor lse, tn_tensor mask) {
  bool weighs = l->weight.fn;
  tn_tensor total = weighs ? sum_last(l, l->weight) : fe_size(l->logits.fn, classes(l), l->at);
  tn_tensor of_logits = sum_last(l, weighs ? mul(l, l->logits, l->weight) : l->logits);
  tn_tensor rows = fe_emit2(OP_sub, mul(l, lse, total), of_logits, l->at);
  return mask.fn ? fe_emit(OP_select, (const tn_tensor[]){mask, rows, number(l, 0)}, 3, NULL, 0, l->at) : rows;
}

// Each row's labels are probabilities of the classes.
static tn_tensor probable_rows(const Loss *l) {
  tn_program *p = l->logits.fn->p;
  if (fe_shape_of(l->labels).i != fe_shape_of(l->logits).i || l->o.has_ignore) {
    if (l->o.has_ignore) fe_error(p, E_ARGUMENT, l->at, "probabilities of classes are no labels to ignore");
    else fe_error(p, E_SHAPE, l->at, "probabilities of classes must have the shape of the logits");
    fe_note_value(l->logits, "logits");
    fe_note_value(l->labels, "labels");
    return fe_poison(l->logits.fn);
  }
  tn_tensor target = l->labels;
  double s = l->o.label_smoothing;
  if (s > 0) {
    tn_tensor share = fe_emit2(OP_div, number(l, s), fe_size(l->logits.fn, classes(l), l->at), l->at);
    target = fe_emit2(OP_add, mul(l, target, number(l, 1 - s)), share, l->at);
  }
  if (l->weight.fn) target = mul(l, target, l->weight);
  return fe_emit1(OP_neg, sum_last(l, mul(l, target, fe_emit1(OP_log_softmax, l->logits, l->at))), l->at);
}

static tn_tensor loss_rows(Loss *l) {
  if (fe_ins(l->labels)->dtype == DT_F32 && fe_rank(l->labels) == fe_rank(l->logits)) return probable_rows(l);
  Attr ignore = ir_a_int(KEY_ignore, l->o.ignore_index);
  tn_tensor nll =
      fe_emit(OP_cross_entropy_rows, (const tn_tensor[]){l->logits, l->labels}, 2, &ignore, l->o.has_ignore, l->at);
  if (!fe_ok(nll)) return nll;
  tn_tensor mask = mask_of(l), lse = {nll.fn, nll.v + 1};
  double s = l->o.label_smoothing;
  l->counts = l->weight.fn ? weights_of(l, mask) : mask;
  if (l->weight.fn) nll = mul(l, nll, l->counts);
  if (s == 0) return nll;
  tn_tensor share = fe_emit2(OP_div, number(l, s), fe_size(l->logits.fn, classes(l), l->at), l->at);
  return fe_emit2(OP_add, mul(l, nll, number(l, 1 - s)), mul(l, smooth_rows(l, lse, mask), share), l->at);
}

static tn_tensor reduced(const Loss *l, tn_tensor rows) {
  if (!fe_ok(rows) || l->o.reduction == TN_REDUCE_NONE) return rows;
  if (l->o.reduction == TN_REDUCE_SEQUENCES) return fe_means_of_sequences(rows, l->counts, l->at);
  if (l->o.reduction == TN_REDUCE_MEAN && !l->counts.fn) return fe_mean(rows, NULL, 0, false, l->at);
  tn_tensor total = fe_sum(rows, NULL, 0, false, l->at);
  return l->o.reduction == TN_REDUCE_SUM ? total
                                         : fe_emit2(OP_div, total, fe_sum(l->counts, NULL, 0, false, l->at), l->at);
}

// -log_p[label] by row
static tn_tensor nll_rows(Loss *l) {
  tn_tensor mask = mask_of(l), index = index_of(l, mask);
  Dim dims[MAX_RANK];
  uint32_t rank = fe_rank(l->logits);
  for (uint32_t k = 0; k + 1 < rank; k++) dims[k] = fe_axis_dim(l->logits, k);
  dims[rank - 1] = ir_dim(l->logits.fn->p->ir, 1);
  if (!fe_ok(index)) return index;
  Attr axis = ir_a_int(KEY_axis, rank - 1);
  index = fe_reshape(index, dims, rank, l->at);
  tn_tensor rows = fe_emit(OP_gather, (const tn_tensor[]){l->logits, index}, 2, &axis, 1, l->at);
  if (!fe_ok(rows)) return rows;
  rows = fe_emit1(OP_neg, fe_reshape(rows, dims, rank - 1, l->at), l->at);
  l->counts = l->weight.fn ? weights_of(l, mask) : mask;
  if (mask.fn) rows = fe_emit(OP_select, (const tn_tensor[]){mask, rows, number(l, 0)}, 3, NULL, 0, l->at);
  return l->weight.fn ? mul(l, rows, l->counts) : rows;
}

// A loss of logits or logarithms of probabilities, with a label for each row.
static tn_tensor by_label(const char *call, tn_tensor logits, tn_tensor labels, const tn_loss_options *o,
                          tn_tensor (*rows)(Loss *l)) {
  tn_function *f;
  if (!fe_join_for(call, (const tn_tensor[]){logits, labels, o->weight}, o->weight.fn ? 3 : 2, &f, o->at))
    return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  Loss l = {.logits = logits, .labels = labels, .o = *o, .at = o->at};
  if (fe_rank(logits) < 1) {
    fe_error(f->p, E_SHAPE, o->at, "logits need an axis of classes, their last one");
    fe_note_value(logits, "logits");
    return fe_poison(f);
  }
  if (!fe_same_rows(call + strlen("tn_"), logits, labels, o->at)) return fe_poison(f);
  if (o->weight.fn) l.weight = o->weight;
  if (!check_options(&l)) return fe_poison(f);
  if (l.weight.fn) l.weight = fe_emit1(OP_stop_grad, l.weight, o->at);
  return reduced(&l, rows(&l));
}

tn_tensor tn_cross_entropy(tn_tensor logits, tn_tensor labels, tn_loss_options o) {
  return fe_made(by_label(__func__, logits, labels, &o, loss_rows), o.at);
}

// Rows [..] whose labels have another shape are gather's to refuse; smoothing belongs to cross-entropy.
tn_tensor tn_nll(tn_tensor log_p, tn_tensor labels, tn_loss_options o) {
  if (o.label_smoothing != 0 && fe_ok(log_p)) {
    fe_error(log_p.fn->p, E_ARGUMENT, o.at, "nll smoothes no labels: label_smoothing is an option of cross_entropy");
    return fe_poison(log_p.fn);
  }
  return fe_made(by_label(__func__, log_p, labels, &o, nll_rows), o.at);
}
