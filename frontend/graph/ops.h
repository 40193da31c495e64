// Operations made of more than one pointwise row, as the library itself calls them.
#ifndef TN_FRONTEND_GRAPH_OPS_H
#define TN_FRONTEND_GRAPH_OPS_H

#include "frontend/graph/function.h"
#include "frontend/tenure/order.h"

tn_tensor fe_same(tn_tensor a, tn_site at);
tn_tensor fe_cast(tn_tensor a, DType t, tn_site at);  // a itself where it has that dtype
// A public call of an op over n operands with {axis}, of the first one
tn_tensor fe_over_axis(const char *call, Op op, const tn_tensor *a, uint32_t n, int axis, tn_site at);
// linear_scan.c: of packed rows with their layout. Results are those of the op: y, and behind it the last state.
tn_tensor fe_linear_scan(tn_tensor a, tn_tensor b, tn_tensor layout, uint32_t axis, const tn_linear_scan_options *o);
tn_tensor fe_dropout(tn_tensor a, double p, tn_site at);
tn_tensor fe_refuse(tn_tensor x, int id, tn_site at, const char *text);  // reports a fault of x; returns poison
bool fe_axis(tn_tensor a, int axis, uint32_t *out, tn_site at);
// The same for calls that take a number as a row of one element, as in PyTorch: axis 0 or -1 then means *a,
// which becomes the row. fe_like_row makes the result, y of one element, a number again if a was one
bool fe_row_axis(tn_tensor *a, int axis, uint32_t *out, tn_site at);
tn_tensor fe_as_row(tn_tensor a, tn_site at);  // a itself if its rank is not 0
tn_tensor fe_like_row(tn_tensor y, tn_tensor a, tn_site at);
// n different axes, which are at most MAX_RANK
bool fe_axes(tn_tensor a, const int *axes, uint32_t n, uint32_t *out, tn_site at);
bool fe_check_list(tn_function *f, const void *list, uint32_t n, const char *what, tn_site at);  // false: missing
tn_tensor fe_permute(tn_tensor a, const uint32_t *perm, tn_site at);
// Axis from[k] becomes axis to[k]; the other axes keep their order. No axis stands twice in either list.
tn_tensor fe_move_axes(tn_tensor x, const uint32_t *from, const uint32_t *to, uint32_t n, tn_site at);
tn_tensor fe_along(Op op, tn_tensor a, int axis, tn_site at);  // a row op
tn_tensor fe_reshape(tn_tensor a, const Dim *dims, uint32_t n, tn_site at);
tn_tensor fe_without_axis(tn_tensor a, uint32_t axis, tn_site at);  // which has size 1
tn_tensor fe_flattened(tn_tensor a, tn_site at);                    // [n], all elements in row-major order
// Elements [start, start + size). Along an axis that the run sizes, the run checks that they exist
tn_tensor fe_strided(tn_tensor x, uint32_t axis, Dim from, Dim count, int64_t step, bool reverse, tn_site at);
tn_tensor fe_slice(tn_tensor a, uint32_t axis, int64_t start, int64_t size, tn_site at);
tn_tensor fe_part(tn_tensor a, uint32_t axis, Dim from, Dim count, tn_site at);  // the same for sizes of the run
tn_tensor fe_slice_at(tn_tensor a, uint32_t axis, tn_tensor start, Dim count, tn_site at);
tn_tensor fe_concat(const tn_tensor *a, uint32_t n, uint32_t axis, tn_site at);

#endif
