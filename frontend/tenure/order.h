// Tenure, operations along an axis: scans, order, search.
//
// Axes may be negative. The order is PyTorch's: NaN is greater than every number, -0 equals 0, equal elements stay in their
// order. Gradients go to the elements that results came from.
#ifndef TN_ORDER_H
#define TN_ORDER_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

// Elements, and where along the axis they stood (i64).
typedef struct {
  tn_tensor values, indices;
} tn_ordered;

// ---- scans: a has f32, or i64 where it says so; the result has a's shape. An axis out of range is E003.
TN_API tn_tensor tn_cumsum(tn_tensor a, int axis, tn_site at);        // f32 or i64; f32 is summed in doubles
TN_API tn_tensor tn_cumprod(tn_tensor a, int axis, tn_site at);       // f32 or i64; zeros have exact gradients
TN_API tn_tensor tn_logcumsumexp(tn_tensor a, int axis, tn_site at);  // ln of the sums of e^a
// Each element less the one before it, `times` times over: the axis is one shorter each time, and at last empty; numbers.
// times < 0 is E003
//
//   y = tn_diff(x, 1, 0, .prepend = tn_zeros(f, TN_SHAPE(1)));
typedef struct {
  tn_tensor prepend,
      append;  // what stands before and behind a along the axis, of its other sizes, else E004; empty: nothing
  tn_site at;
} tn_diff_options;
TN_API tn_tensor tn_diff(tn_tensor a, int64_t times, int axis, tn_diff_options o);
// The largest (smallest) so far, f32 or i64, and the index of the last of equal ones; a NaN stays from where it stands
TN_API tn_ordered tn_cummax(tn_tensor a, int axis, tn_site at);
TN_API tn_ordered tn_cummin(tn_tensor a, int axis, tn_site at);
// y_k = a_k y_(k-1) + b_k along the axis, which is b's: state-space layers, linear attention, moving averages. a: of b's
// shape, or one that broadcasts to it; without the axis, or of size 1 along it, it is the same at every step and is not
// copied. An a with one axis more than b, [.., k, k] where b is [.., k], is a matrix for each state of k numbers, a constant
// k from 1 to 8, and the axis is not b's last; one that is the same at every step has size 1 along the axis. Gradients are
// one pass, the other way round. f32, else E005; E003, E004.
//
//   y = tn_linear_scan(w, x, 1).out;                         // w [C], x [B, T, C]: the same factors at every step
//   h = tn_linear_scan(a, b, 0, .initial = h0).last;         // goes on from h0, a state that ended another scan, say
typedef struct {
  tn_tensor initial;  // y_(-1), of b's shape without the axis; empty: y_0 is b_0
  bool reverse;       // from the last element to the first
  tn_site at;
} tn_linear_scan_options;
typedef struct {
  tn_tensor out;   // all y, of b's shape
  tn_tensor last;  // the last of them; of no steps the initial one, or 0
} tn_scanned;
TN_API tn_scanned tn_linear_scan(tn_tensor a, tn_tensor b, int axis, tn_linear_scan_options o);

// ---- order, of f32 or i64
// Always stable; NaN is last, in descending order first
TN_API tn_ordered tn_sort(tn_tensor a, int axis, bool descending, tn_site at);
TN_API tn_tensor tn_argsort(tn_tensor a, int axis, bool descending, tn_site at);  // its indices
// The k largest (smallest) elements along an axis of constant size, in order; of equal ones the first. E004 where k exceeds
// the size, or the size comes at run time
TN_API tn_ordered tn_topk(tn_tensor a, int64_t k, int axis, bool largest, tn_site at);
// The k-th smallest, k from 1; the axis goes, or has size 1 with keepdim
TN_API tn_ordered tn_kthvalue(tn_tensor a, int64_t k, int axis, bool keepdim, tn_site at);
// The lower of the middle elements, without a mean; NaN where there is one. Of no elements NaN, or 0 of whole numbers; its
// index is -1
TN_API tn_tensor tn_median(tn_tensor a, tn_site at);  // of all elements; those that equal it share the gradient
TN_API tn_ordered tn_median_axis(tn_tensor a, int axis, bool keepdim, tn_site at);
// What a part q in [0, 1] (else E003) of the elements does not exceed, as torch.quantile has it: element q (n - 1) in order,
// from a line between its neighbours, whose gradients it shares; f32, NaN where there is one. The axis has a constant size
// above 0 (else E004)
TN_API tn_tensor tn_quantile(tn_tensor a, double q, tn_site at);  // of all elements
TN_API tn_tensor tn_quantile_axis(tn_tensor a, double q, int axis, bool keepdim, tn_site at);
// n of them, of elements that are sorted once: [n, the other axes]; n >= 1 (else E003). Between two elements as
// torch.quantile's interpolation has it; the nearest of two that are as near is the even one.
//
//   y = tn_quantiles(x, 1, false, TN_QUANTILE_NEAREST, TN_DOUBLES(0.25, 0.5, 0.75));
typedef enum {
  TN_QUANTILE_LINEAR,
  TN_QUANTILE_LOWER,
  TN_QUANTILE_HIGHER,
  TN_QUANTILE_MIDPOINT,
  TN_QUANTILE_NEAREST
} tn_quantile_interpolation;
TN_API tn_tensor tn_quantiles(tn_tensor a, int axis, bool keepdim, tn_quantile_interpolation how, const double *q,
                              uint32_t n, tn_site at);
// How often each of 0, 1, .. bins - 1 is among whole numbers [n], i64 [bins]. One that is not in 0..bins - 1 is an error of the
// run, as an index of tn_gather. With weights the sum of those of each, f32
//
//   y = tn_bincount(words, 100, .weights = w);
typedef struct {
  tn_tensor weights;  // a number for each of a, of its shape, else E004; empty: 1 each
  tn_site at;
} tn_bincount_options;
TN_API tn_tensor tn_bincount(tn_tensor a, int64_t bins, tn_bincount_options o);
// How many elements of an f32 lie in each of so many parts of [lo, hi] of one size, f32 [bins], the end hi in the last one.
// What lies outside, and NaN, counts nowhere. lo < hi (else E003)
TN_API tn_tensor tn_histc(tn_tensor a, int64_t bins, double lo, double hi, tn_site at);
// How many different numbers f32 or whole numbers have, i64 []; each NaN counts. Exact up to 2^24 of them
TN_API tn_tensor tn_unique_count(tn_tensor a, tn_site at);
// Which numbers they are, in order. How many there are is known in the run alone: values has `most` places [most], of which the
// first `count` (i64 []) are taken and the others are 0. More of them are an error of the run. most >= 1 (else E003)
typedef struct {
  tn_tensor values, count;
  tn_tensor inverse;  // i64 of a's shape: which of the values each element is
  tn_tensor counts;   // i64 [most]: how often each value is there
} tn_uniques;
TN_API tn_uniques tn_unique(tn_tensor a, int64_t most, tn_site at);
// bool of a's shape: is the element one of `among`, of any shape? In the common dtype of both, f32 or whole numbers; NaN is
// none of any.
//
//   tn_tensor is_end = tn_isin(words, tn_constant_i64(f, (int64_t[]){0, 2}, TN_SHAPE(2)));
typedef struct {
  bool invert;  // is it none of them?
  tn_site at;
} tn_isin_options;
TN_API tn_tensor tn_isin(tn_tensor a, tn_tensor among, tn_isin_options o);

// ---- search: i64 places in a sorted row at which values may be put, the first ones, or with `right` the last. sorted is
// [n] or [.., n], values [..] or [.., m], both f32 or both whole numbers
//
//   y = tn_searchsorted(x, v, .sorter = tn_argsort(x, -1, false));  // places in what sorting x gives
typedef struct {
  bool right;
  tn_tensor
      sorter;  // i64 of sorted's shape (else E004): its elements in order are those at these indices; empty: as they are
  tn_site at;
} tn_search_options;
TN_API tn_tensor tn_searchsorted(tn_tensor sorted, tn_tensor values, tn_search_options o);
TN_API tn_tensor tn_bucketize(tn_tensor values, tn_tensor boundaries, bool right, tn_site at);  // boundaries [n]

#ifdef __cplusplus
}
#endif

#endif
