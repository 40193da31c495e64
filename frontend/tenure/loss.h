// Tenure, losses: PyTorch's formulas, defaults and gradients. Operands are f32 and broadcast; gradients flow to all of
// them.
#ifndef TN_LOSS_H
#define TN_LOSS_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

// BATCHMEAN: the sum divided by the size of the first axis. No reduction of cross-entropy. SEQUENCES, of packed rows: the mean of each
// sequence, as MEAN of that one alone, [B] in user order; NaN of an empty one.
typedef enum { TN_REDUCE_MEAN, TN_REDUCE_SUM, TN_REDUCE_NONE, TN_REDUCE_BATCHMEAN, TN_REDUCE_SEQUENCES } tn_reduction;

// Mean over rows of -log softmax(logits)[label]; logits [.., C] f32, labels [..] i64 in [0, C).
// By PyTorch's rules for the options. MEAN divides by the weights of the labels that count: NaN when there
// are none. NONE gives a loss for each row, [..]. A label that is neither in [0, C) nor the ignored one is an error.
// Labels f32 [.., C] are probabilities of the classes, with a gradient of their own: a row's loss is -sum(labels ln softmax),
// MEAN divides by the number of rows, and none is ignored (E003).
//
//   loss = tn_cross_entropy(logits, y, .has_ignore = true, .ignore_index = -100);
typedef struct {
  tn_reduction reduction;
  bool has_ignore;         // rows whose label is ignore_index, between -2^24 and 2^24, count nothing
  int64_t ignore_index;    // not read without has_ignore: unlike in PyTorch, -100 is no default
  tn_tensor weight;        // of the classes, f32 [C] (else E004), without a gradient; empty: 1 each
  double label_smoothing;  // share of the target that is spread over all classes, in [0, 1] (else E003)
  tn_site at;
} tn_loss_options;
TN_API tn_tensor tn_cross_entropy(tn_tensor logits, tn_tensor labels, tn_loss_options o);
// The same of logarithms of probabilities: -log_p[label]. Smoothing is E003.
TN_API tn_tensor tn_nll(tn_tensor log_p, tn_tensor labels, tn_loss_options o);

// ---- distances of numbers: tn_mse(a, b), tn_l1_loss(a, b, .reduction = TN_REDUCE_SUM)
typedef struct {
  tn_reduction reduction;
  tn_site at;
} tn_reduce_options;
TN_API tn_tensor tn_mse(tn_tensor a, tn_tensor b, tn_reduce_options o);      // (a - b)^2
TN_API tn_tensor tn_l1_loss(tn_tensor a, tn_tensor b, tn_reduce_options o);  // |a - b|
// d^2 / 2 of d = |a - b| up to delta > 0 (else E003), from there on delta (d - delta / 2); PyTorch's default is 1
TN_API tn_tensor tn_huber(tn_tensor a, tn_tensor b, double delta, tn_reduce_options o);
// The same divided by beta >= 0 (else E003); 0: l1
TN_API tn_tensor tn_smooth_l1(tn_tensor a, tn_tensor b, double beta, tn_reduce_options o);

// ---- of two classes, and of distributions
typedef struct {
  tn_reduction reduction;
  tn_tensor weight;      // of each loss, broadcast; empty: 1. MEAN does not divide by it
  tn_tensor pos_weight;  // of the positive class, broadcast; of bce_with_logits alone (else E003)
  tn_site at;
} tn_bce_options;
// -(t ln p + (1 - t) ln(1 - p)); logarithms end at -100
TN_API tn_tensor tn_bce(tn_tensor p, tn_tensor target, tn_bce_options o);
// The same with p = sigmoid(x), exact for x of any size
TN_API tn_tensor tn_bce_with_logits(tn_tensor x, tn_tensor target, tn_bce_options o);
// target (ln target - log_p); with log_target the target is a logarithm, too. PyTorch calls BATCHMEAN the right mean.
TN_API tn_tensor tn_kl_div(tn_tensor log_p, tn_tensor target, bool log_target, tn_reduce_options o);

// ---- of rates, and of means with a variance
typedef struct {
  tn_reduction reduction;
  bool full;   // with the terms that depend on the target alone (Stirling's formula), or on nothing
  double eps;  // 0: 1e-8 of poisson, 1e-6 of gaussian
  tn_site at;
} tn_nll_options;
// e^x - target x; without log_input x - target ln(x + eps)
TN_API tn_tensor tn_poisson_nll(tn_tensor x, tn_tensor target, bool log_input, tn_nll_options o);
// (ln var + (x - target)^2 / var) / 2, where var counts as eps at least
TN_API tn_tensor tn_gaussian_nll(tn_tensor x, tn_tensor target, tn_tensor var, tn_nll_options o);

// ---- margins; y is 1 or -1, a whole number or f32
// x where y is 1, max(margin - x, 0) where it is -1
TN_API tn_tensor tn_hinge_embedding(tn_tensor x, tn_tensor y, double margin, tn_reduce_options o);
TN_API tn_tensor tn_soft_margin(tn_tensor x, tn_tensor y, tn_reduce_options o);  // ln(1 + e^(-y x))
// max(margin - y (a - b), 0)
TN_API tn_tensor tn_margin_ranking(tn_tensor a, tn_tensor b, tn_tensor y, double margin, tn_reduce_options o);

// ---- margins of classes: x [N, C], or one sample of it, [C], whose labels have an axis less, too
typedef struct {
  tn_reduction reduction;
  double margin;  // read with has_margin; else 1
  bool has_margin;
  bool squared;      // max(..)^2
  tn_tensor weight;  // of each class, [C]; empty: 1
  tn_site at;
} tn_multi_margin_options;
// Sum over the other classes of max(margin - x[label] + x, 0), divided by C; labels i64 [N] in [0, C), as of
// tn_cross_entropy
TN_API tn_tensor tn_multi_margin(tn_tensor x, tn_tensor labels, tn_multi_margin_options o);
// Labels i64 [N, C]: those of a row stand before its first negative one. Sum over them, and over the classes that are
// none, of max(1 - x[label] + x, 0), divided by C
TN_API tn_tensor tn_multilabel_margin(tn_tensor x, tn_tensor labels, tn_reduce_options o);

// Of every class whether it is one, target [.., C], f32 or a whole number: the mean over classes of tn_bce_with_logits
typedef struct {
  tn_reduction reduction;
  tn_tensor weight;  // of each class, [C]; empty: 1
  tn_site at;
} tn_multilabel_options;
TN_API tn_tensor tn_multilabel_soft_margin(tn_tensor x, tn_tensor target, tn_multilabel_options o);

// ---- sequences of labels without a place for each: connectionist temporal classification
typedef struct {
  tn_reduction reduction;  // MEAN: of the losses divided by their numbers of targets, at least 1; no BATCHMEAN
  int64_t blank;           // the class that is no label
  bool zero_infinity;      // a loss that is infinite, as there are too few steps, counts 0, as does its gradient
  int64_t most_targets;    // of targets on one axis: no sequence has more; 0: as many as there are in all
  tn_site at;
} tn_ctc_options;
// -ln of the probability of the targets: log_p [steps, batch, classes] is the log_softmax of each step, targets i64
// [batch, S], of which each sequence has n_targets, and n_steps, i64 [batch] both; or i64 [n], the targets of one sequence behind those of the
// other. S and n are constant. Lengths and labels out
// of range are errors of the run. Not inside of a scan (E009). The gradient is PyTorch's; that of an infinite loss is 0.
TN_API tn_tensor tn_ctc(tn_tensor log_p, tn_tensor targets, tn_tensor n_steps, tn_tensor n_targets, tn_ctc_options o);

// ---- distances of rows, along the last axis: operands [.., C] that are no scalars (else E004)
// The p-norm of a - b + eps; p > 0 and finite (else E003)
TN_API tn_tensor tn_pairwise_distance(tn_tensor a, tn_tensor b, double p, double eps, tn_site at);
typedef struct {
  tn_reduction reduction;
  double margin;  // above 0 (else E003), read with has_margin; else 1
  bool has_margin;
  double p, eps;  // 0: 2 and 1e-6
  bool swap;      // the negative is as far as it is from the positive, where that is nearer
  tn_site at;
} tn_triplet_options;
// max(|anchor - positive| - |anchor - negative| + margin, 0)
TN_API tn_tensor tn_triplet_margin(tn_tensor anchor, tn_tensor positive, tn_tensor negative, tn_triplet_options o);
// Along an axis; each length counts as eps at least, 1e-8 in PyTorch
TN_API tn_tensor tn_cosine_similarity(tn_tensor a, tn_tensor b, int axis, double eps, tn_site at);
// 1 - cosine where y is 1, max(cosine - margin, 0) where it is -1; y [..]
TN_API tn_tensor tn_cosine_embedding(tn_tensor a, tn_tensor b, tn_tensor y, double margin, tn_reduce_options o);

#ifdef __cplusplus
}
#endif

#endif
