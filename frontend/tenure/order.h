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
// The largest (smallest) so far, f32 or i64, and the index of the last of equal ones; a NaN stays from where it stands
TN_API tn_ordered tn_cummax(tn_tensor a, int axis, tn_site at);
TN_API tn_ordered tn_cummin(tn_tensor a, int axis, tn_site at);
// y_k = a_k y_(k-1) + b_k along the axis, from 0: a and b are f32 of one shape (else E004)
TN_API tn_tensor tn_linear_scan(tn_tensor a, tn_tensor b, int axis, tn_site at);

#ifdef __cplusplus
}
#endif

#endif
