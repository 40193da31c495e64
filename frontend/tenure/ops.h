// Tenure, operations: making values, computing with them, writes in place. Reductions, linear algebra and losses have
// headers of their own.
#ifndef TN_OPS_H
#define TN_OPS_H

#include "core.h"
#include "linalg.h"
#include "loss.h"
#include "reduce.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "tenure_ops.h"  // pointwise calls, made from the rows of ir/ops.def

// ---- making values: constants [n], or drawn anew in each run
TN_API tn_tensor tn_scalar(tn_function *f, double v, tn_site at);
TN_API tn_tensor tn_dim_number(tn_function *f, tn_dim d, tn_site at);  // i64 []: its size in the run, below 2^24
TN_API tn_tensor tn_full(tn_function *f, double v, tn_shape s, tn_site at);
TN_API tn_tensor tn_zeros(tn_function *f, tn_shape s, tn_site at);
TN_API tn_tensor tn_ones(tn_function *f, tn_shape s, tn_site at);
TN_API tn_tensor tn_rand(tn_function *f, tn_shape s, tn_site at);   // uniform in [0, 1)
TN_API tn_tensor tn_randn(tn_function *f, tn_shape s, tn_site at);  // normal, mean 0, standard deviation 1
// Of probabilities (f32, else E005), by the function's random numbers; no gradient. bernoulli: f32, 1 with probability p, else 0.
// p is not checked: 1 and more is always 1, below 0 and NaN always 0
TN_API tn_tensor tn_bernoulli(tn_tensor p, tn_site at);
// i64 [.., n]: n numbers in [0, size of the last axis) of p [.., size], each with probability p by the sum of its row. p need not
// add up to 1; below 0, and NaN, counts as 0. Without replacement the numbers of a row differ, in the order in which they are
// drawn, those of probability 0 last: n is at most the size, which is constant (else E004). n >= 1 (else E003)
//
//   tn_tensor next = tn_multinomial(tn_softmax(tn_mul_scalar(logits, 1 / 0.8), -1), 1, false);
TN_API tn_tensor tn_multinomial(tn_tensor p, int64_t n, bool replacement, tn_site at);
// The numbers become part of the program, in row-major order, copied: at most 2^26 of them, of constant shape, else E003.
// Equal ones are stored once, read only, in a bundle among its constants.
TN_API tn_tensor tn_constant(tn_function *f, const float *v, tn_shape s, tn_site at);
TN_API tn_tensor tn_constant_i64(tn_function *f, const int64_t *v, tn_shape s, tn_site at);
// The same of every dtype: an array of the C type that docs/dtypes.md names.
TN_API tn_tensor tn_constant_of(tn_function *f, tn_dtype t, const void *v, tn_shape s, tn_site at);

// ---- operations. Shapes broadcast as in NumPy; f32 unless said; axes may be negative. Sums, products, quotients, signs, bounds
// and tn_where take whole numbers too, in one common dtype (docs/dtypes.md); comparisons give bool.
// Each pointwise row of ir/ops.def is one call, tn_relu(x), tn_add(a, b), .., declared in tenure_ops.h.
// tn_add and tn_mul with a number
TN_API tn_tensor tn_add_scalar(tn_tensor a, double number, tn_site at);
TN_API tn_tensor tn_mul_scalar(tn_tensor a, double number, tn_site at);
// tn_round at so many places behind the point, or before it where decimals < 0: a 10^decimals is rounded; f32. In [-38, 38], else
// E003
TN_API tn_tensor tn_round_decimals(tn_tensor a, int decimals, tn_site at);
// The n-th derivative of tn_digamma, n in [0, 32], else E003; f32
TN_API tn_tensor tn_polygamma(int n, tn_tensor a, tn_site at);
// Whole numbers and bool, bit by bit; of two dtypes in the common one. Of f32 they are E005.
TN_API tn_tensor tn_bitwise_and(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_bitwise_or(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_bitwise_xor(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_bitwise_not(tn_tensor a, tn_site at);  // of bool: not a
// Whole numbers: a 2^b modulo 2^bits, floor(a / 2^b). Where b is not in [0, bits) the results are 0, and 0 or -1 by a's sign.
TN_API tn_tensor tn_bitwise_left_shift(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_bitwise_right_shift(tn_tensor a, tn_tensor b, tn_site at);
// Of any numbers, by whether they are not 0 (NaN is not) -> bool
TN_API tn_tensor tn_logical_and(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_logical_or(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_logical_xor(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_logical_not(tn_tensor a, tn_site at);
// Zeroes with probability p in [0, 1], scales the rest by 1/(1-p)
TN_API tn_tensor tn_dropout(tn_tensor a, double p, tn_site at);
// Alpha dropout, for networks of tn_selu, f32: with probability p an element becomes -1.7581, selu's limit, and all are scaled and shifted so
// that mean 0 and variance 1 stay; of feature_alpha_dropout [N, C, ..] all of a channel. x itself where tn_eval marks the function
TN_API tn_tensor tn_alpha_dropout(tn_tensor x, double p, tn_site at);
TN_API tn_tensor tn_feature_alpha_dropout(tn_tensor x, double p, tn_site at);
// a where a > 0, else a times the weight: one [] or [1], or one for each channel [C], axis 1 of a (axis 0 of a vector).
// Another shape is E004.
TN_API tn_tensor tn_prelu(tn_tensor a, tn_tensor weight, tn_site at);
// The same with a slope drawn from [lo, hi) for each element; in evaluation (lo + hi) / 2
TN_API tn_tensor tn_rrelu(tn_tensor a, double lo, double hi, tn_site at);
// The first half of an axis times the sigmoid (gelu, relu) of the second; swiglu: silu of the first half times the second.
// The axis has an even constant size, else E004.
TN_API tn_tensor tn_glu(tn_tensor a, int axis, tn_site at);
TN_API tn_tensor tn_geglu(tn_tensor a, int axis, tn_site at);
TN_API tn_tensor tn_reglu(tn_tensor a, int axis, tn_site at);
TN_API tn_tensor tn_swiglu(tn_tensor a, int axis, tn_site at);
TN_API tn_tensor tn_cast(tn_tensor a, tn_dtype t, tn_site at);
TN_API tn_tensor tn_stop_grad(tn_tensor a, tn_site at);
TN_API tn_tensor tn_reshape(tn_tensor a, tn_shape s, tn_site at);  // same number of elements; one size may be -1
TN_API tn_tensor tn_expand(tn_tensor a, tn_shape s, tn_site at);   // a size of -1 stays what it is
// tn_permute(x, TN_INTS(0, 2, 1))
TN_API tn_tensor tn_permute(tn_tensor a, const int *perm, uint32_t n, tn_site at);
TN_API tn_tensor tn_transpose(tn_tensor a, int axis_a, int axis_b, tn_site at);
// Elements [start, start + size) of an axis, a view. Where the run sizes the axis, a run in which they do not all exist is
// refused before anything is written.
TN_API tn_tensor tn_slice(tn_tensor a, int axis, int64_t start, int64_t size, tn_site at);
// `count` elements along an axis from `start` on, an i64 scalar of the run, e.g. an input: cache[:, pos : pos + n] is
// tn_slice_at(cache, 1, pos, n). A view, as tn_slice. A start for which not all elements exist is an error of the run, with
// the line of this call: of an input before anything is computed, else before any parameter changes.
TN_API tn_tensor tn_slice_at(tn_tensor a, int axis, tn_tensor start, tn_dim count, tn_site at);
TN_API tn_tensor tn_concat(int axis, const tn_tensor *a, uint32_t n, tn_site at);  // tn_concat(1, TN_TENSORS(a, b))
TN_API tn_tensor tn_softmax(tn_tensor a, int axis, tn_site at);
TN_API tn_tensor tn_log_softmax(tn_tensor a, int axis, tn_site at);
// Over the last n_axes axes of x (f32): (x - mean) / sqrt(variance + eps) weight + bias, the variance without Bessel's
// correction. Weight and bias have the shape of those axes; TN_NONE is no weight or no bias. RMS norm: x / sqrt(mean of
// x^2 + eps) weight. Another shape is E004, fewer axes than n_axes or an eps below 0 E003.
TN_API tn_tensor tn_layer_norm_of(tn_tensor x, uint32_t n_axes, tn_tensor weight, tn_tensor bias, double eps,
                                  tn_site at);
TN_API tn_tensor tn_rms_norm_of(tn_tensor x, uint32_t n_axes, tn_tensor weight, double eps, tn_site at);

// ---- writes in place. A handle names storage: a write changes what it shows from then on, and with it every view of
// the storage (tn_reshape, tn_permute, tn_transpose, tn_slice, tn_detach). All return t itself. Nothing is copied
// unless something reads the old content later: tn_plan_copies lists those reads.
//
//   tn_tensor c = tn_clone(t);                        // the same content, storage of its own: no copy so far
//   tn_add_(c, u);                                    // t is read later: one copy; else in place
//   tn_copy_(tn_slice(c, 0, 2, 1), row);              // writes one row of c; broadcast and cast as c wants it
//   tn_no_grad_begin(f);
//   tn_sub_(w, tn_mul(tn_param_grad(f, fc, "w"), lr)); // a trainable parameter; outside of the region this is E113
//   tn_no_grad_end(f);
//
// Gradients flow to what was written, none to what was overwritten: nor through a write that stands in a no-grad region
// or goes through tn_detach, after which PyTorch goes on as if nothing had been written. A write that destroys what a
// backward needs is E112, with both places; with the option copy_saved the old content is kept, and E112 is a warning.
// Writes to buffers and parameters last over runs. After an optimizer a parameter's handles show what it became, and may be
// written again, as weight clipping does. An input shows what was written to it; the caller's memory is never
// changed (W124).
// Pointwise calls in place are in tenure_ops.h.
TN_API tn_tensor tn_clone(tn_tensor t, tn_site at);   // same content, written apart; differentiable
TN_API tn_tensor tn_detach(tn_tensor t, tn_site at);  // same storage, no gradient: a write through it is seen in t
// src broadcast to dst's shape and cast to its dtype
TN_API tn_tensor tn_copy_(tn_tensor dst, tn_tensor src, tn_site at);
TN_API tn_tensor tn_fill_(tn_tensor t, double v, tn_site at);
// t[.., start : start + n, ..] = src along `axis`, where n is src's size there; other axes of src broadcast
TN_API tn_tensor tn_slice_assign_(tn_tensor t, int axis, int64_t start, tn_tensor src, tn_site at);
// t[.., start : start + n, ..] = src where the run knows `start`, an i64 scalar, as in tn_slice_at
TN_API tn_tensor tn_slice_assign_at_(tn_tensor t, int axis, tn_tensor start, tn_tensor src, tn_site at);
// Row index[k] of t [V, ..] = row k of src [n, ..], for index i64 [n]; the last of equal indices wins
TN_API tn_tensor tn_index_put_(tn_tensor t, tn_tensor index, tn_tensor src, tn_site at);
// What is made in between carries no gradient; trainable parameters may be written. Regions nest.
TN_API void tn_no_grad_begin(tn_function *f, tn_site at);
TN_API void tn_no_grad_end(tn_function *f, tn_site at);
// Does it depend on a trainable parameter, or an input marked below, by a path that gradients take?
TN_API bool tn_requires_grad(tn_tensor t);
// Of an input (false at first: it alone makes no gradient wanted; tn_grad takes any input) or of a parameter, as used in this function.
// E120 for a computed value: it has what its operands have.
TN_API void tn_set_requires_grad(tn_tensor t, bool on, tn_site at);

#ifdef __cplusplus
}
#endif

#endif
