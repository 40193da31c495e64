// Taking apart, moving and padding axes.
#ifndef TN_FRONTEND_GRAPH_SHAPE_H
#define TN_FRONTEND_GRAPH_SHAPE_H

#include "frontend/graph/function.h"
#include "frontend/tenure/shape.h"

tn_tensor fe_diagonal(tn_tensor x, int offset, uint32_t a, uint32_t b, tn_site at);
// As tn_pad; x itself where nothing is added
tn_tensor fe_pad(tn_tensor x, const int64_t *pads, uint32_t n, tn_pad_mode mode, double value, tn_site at);
tn_tensor fe_unflatten(tn_tensor x, int axis, tn_shape s, tn_site at);
// `count` windows of `size` elements along an axis, `step` apart; their elements, `dilation` apart, are a new axis `to`
tn_tensor fe_windows(tn_tensor x, uint32_t axis, uint32_t to, Dim count, int64_t size, int64_t step, int64_t dilation,
                     tn_site at);
// Windows of `size` elements along the axis, `step` apart, as many as lie in it; their elements along a new last axis
tn_tensor fe_unfold(tn_tensor x, uint32_t axis, int64_t size, int64_t step, tn_site at);
tn_tensor fe_with_axis(tn_tensor a, uint32_t axis, tn_site at);  // with a new axis of size 1

// ---- index_made.c
tn_tensor fe_positions(tn_function *f, Dim n, tn_site at);  // f32 [n]: 0, 1, 2, ..

#endif
