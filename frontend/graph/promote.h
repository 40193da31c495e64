// Dtypes of pointwise calls.
#ifndef TN_FRONTEND_GRAPH_PROMOTE_H
#define TN_FRONTEND_GRAPH_PROMOTE_H

#include "frontend/graph/function.h"

// A pointwise op of a public call: operands in their common dtype; a comparison gives bool
tn_tensor fe_pointwise(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, tn_site at);
tn_tensor fe_promoted(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, tn_site at);
bool fe_is_rounded(Op op, tn_tensor a);  // op rounds, and the elements of a are integers: a is the result
DType fe_common_dtype(const tn_tensor *a, uint32_t n);
const tn_tensor *fe_in_one_dtype(const tn_tensor *a, uint32_t n, tn_site at);  // all in their common dtype
// *x as an element of t; false: t does not hold it, which is reported
bool fe_fits_number(tn_function *f, double *x, DType t, tn_site at);
tn_tensor fe_number(tn_function *f, double x, DType t, tn_site at);  // a scalar constant of t
tn_tensor fe_full(tn_function *f, double x, Shape s, DType t, tn_site at);
tn_tensor fe_as_dtype(tn_tensor a, DType t, tn_site at);  // cast; a constant is one of t
// If op takes no smaller integers and bools, they are computed in i64: a as op takes it, and y in a's dtype
// again
tn_tensor fe_widened(Op op, tn_tensor a, tn_site at);
tn_tensor fe_narrowed(tn_tensor y, tn_tensor like, tn_site at);
bool fe_fits_into(DType from, DType to);  // a result of dtype `from` may be written to a value of dtype `to`

#endif
