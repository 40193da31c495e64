// Tenure, reductions: over all axes, one, or several.
//
//   tn_sum(x)   tn_sum_axis(x, 1, true)   tn_sum_axes(x, true, TN_INTS(0, 2))      over none given: all
//
// Operands are f32; sums, products, extremes and what follows from 0 or not are of whole numbers and bool, too. Axes may be negative; with keepdim those that are reduced stay, of size 1. An axis that is none of the
// value's, or is named twice, is E003.
#ifndef TN_REDUCE_H
#define TN_REDUCE_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

// The sum; of whole numbers and bool i64, modulo 2^64, as the product
TN_API tn_tensor tn_sum(tn_tensor a, tn_site at);
TN_API tn_tensor tn_sum_axis(tn_tensor a, int axis, bool keepdim, tn_site at);
TN_API tn_tensor tn_sum_axes(tn_tensor a, bool keepdim, const int *axes, uint32_t n, tn_site at);
// The sum by the number of elements: of none NaN. f32 alone: of whole numbers E005
TN_API tn_tensor tn_mean(tn_tensor a, tn_site at);
TN_API tn_tensor tn_mean_axis(tn_tensor a, int axis, bool keepdim, tn_site at);
TN_API tn_tensor tn_mean_axes(tn_tensor a, bool keepdim, const int *axes, uint32_t n, tn_site at);
// The sum of the elements that are not NaN, 0 of none; the same by how many they are: of none NaN. NaN has gradient 0. Sums are
// of whole numbers too, as tn_sum; means are of f32 alone
TN_API tn_tensor tn_nansum(tn_tensor a, tn_site at);
TN_API tn_tensor tn_nansum_axis(tn_tensor a, int axis, bool keepdim, tn_site at);
TN_API tn_tensor tn_nansum_axes(tn_tensor a, bool keepdim, const int *axes, uint32_t n, tn_site at);
TN_API tn_tensor tn_nanmean(tn_tensor a, tn_site at);
TN_API tn_tensor tn_nanmean_axis(tn_tensor a, int axis, bool keepdim, tn_site at);
TN_API tn_tensor tn_nanmean_axes(tn_tensor a, bool keepdim, const int *axes, uint32_t n, tn_site at);
// The product; its gradient is that of the other elements' product, where some are 0 too
TN_API tn_tensor tn_prod(tn_tensor a, tn_site at);
TN_API tn_tensor tn_prod_axis(tn_tensor a, int axis, bool keepdim, tn_site at);
TN_API tn_tensor tn_prod_axes(tn_tensor a, bool keepdim, const int *axes, uint32_t n, tn_site at);
// The maximum; NaN wins; elements that attain it share the gradient; of none -infinity. Of whole numbers
// one of theirs, and of none the least of the dtype
TN_API tn_tensor tn_amax(tn_tensor a, tn_site at);
TN_API tn_tensor tn_amax_axis(tn_tensor a, int axis, bool keepdim, tn_site at);
TN_API tn_tensor tn_amax_axes(tn_tensor a, bool keepdim, const int *axes, uint32_t n, tn_site at);
// The minimum, likewise
TN_API tn_tensor tn_amin(tn_tensor a, tn_site at);
TN_API tn_tensor tn_amin_axis(tn_tensor a, int axis, bool keepdim, tn_site at);
TN_API tn_tensor tn_amin_axes(tn_tensor a, bool keepdim, const int *axes, uint32_t n, tn_site at);
// ln sum e^a, without overflow; of elements that are all -infinity -infinity, and no gradient. Of whole numbers f32
TN_API tn_tensor tn_logsumexp(tn_tensor a, tn_site at);
TN_API tn_tensor tn_logsumexp_axis(tn_tensor a, int axis, bool keepdim, tn_site at);
TN_API tn_tensor tn_logsumexp_axes(tn_tensor a, bool keepdim, const int *axes, uint32_t n, tn_site at);
// i64: how many are not 0. NaN is not; no gradient
TN_API tn_tensor tn_count_nonzero(tn_tensor a, tn_site at);
TN_API tn_tensor tn_count_nonzero_axis(tn_tensor a, int axis, bool keepdim, tn_site at);
TN_API tn_tensor tn_count_nonzero_axes(tn_tensor a, bool keepdim, const int *axes, uint32_t n, tn_site at);
// bool: is one not 0? NaN is not. Of any number
TN_API tn_tensor tn_any(tn_tensor a, tn_site at);
TN_API tn_tensor tn_any_axis(tn_tensor a, int axis, bool keepdim, tn_site at);
TN_API tn_tensor tn_any_axes(tn_tensor a, bool keepdim, const int *axes, uint32_t n, tn_site at);
// bool: is none 0?
TN_API tn_tensor tn_all(tn_tensor a, tn_site at);
TN_API tn_tensor tn_all_axis(tn_tensor a, int axis, bool keepdim, tn_site at);
TN_API tn_tensor tn_all_axes(tn_tensor a, bool keepdim, const int *axes, uint32_t n, tn_site at);
// The sum of squared distances from the mean, which is taken first, by max(n - correction, 0): 1 in PyTorch. Squares are f32:
// of distances above 1.8e19 infinite, below 1e-19 coarse, then 0
TN_API tn_tensor tn_var(tn_tensor a, double correction, tn_site at);
TN_API tn_tensor tn_var_axis(tn_tensor a, double correction, int axis, bool keepdim, tn_site at);
TN_API tn_tensor tn_var_axes(tn_tensor a, double correction, bool keepdim, const int *axes, uint32_t n, tn_site at);
// Its root, infinite and 0 with it, where PyTorch's, which sums in f64, is still a number; the gradient where it is 0 is 0
TN_API tn_tensor tn_std(tn_tensor a, double correction, tn_site at);
TN_API tn_tensor tn_std_axis(tn_tensor a, double correction, int axis, bool keepdim, tn_site at);
TN_API tn_tensor tn_std_axes(tn_tensor a, double correction, bool keepdim, const int *axes, uint32_t n, tn_site at);
// The p-norm, (sum |a|^p)^(1/p): p 0 counts what is not 0, infinity and -infinity are the largest and the smallest |a|.
// The gradient where the norm is 0 is 0
TN_API tn_tensor tn_norm(tn_tensor a, double p, tn_site at);
TN_API tn_tensor tn_norm_axis(tn_tensor a, double p, int axis, bool keepdim, tn_site at);
TN_API tn_tensor tn_norm_axes(tn_tensor a, double p, bool keepdim, const int *axes, uint32_t n, tn_site at);
// i64: where the first maximum (minimum) stands along an axis, or among all elements in row-major order; the first NaN
// counts as one. Of no elements, or along an empty axis: E004
TN_API tn_tensor tn_argmax(tn_tensor a, tn_site at);
TN_API tn_tensor tn_argmax_axis(tn_tensor a, int axis, bool keepdim, tn_site at);
TN_API tn_tensor tn_argmin(tn_tensor a, tn_site at);
TN_API tn_tensor tn_argmin_axis(tn_tensor a, int axis, bool keepdim, tn_site at);

#ifdef __cplusplus
}
#endif

#endif
