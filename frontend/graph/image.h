// Convolutions, pools and images, as modules call them.
#ifndef TN_FRONTEND_GRAPH_IMAGE_H
#define TN_FRONTEND_GRAPH_IMAGE_H

#include "frontend/graph/function.h"
#include "frontend/tenure/conv.h"
#include "frontend/tenure/image.h"

// ---- conv.c: over `spatial` axes; bias {0}: none
tn_tensor fe_convolve(uint32_t spatial, bool is_transposed, tn_tensor x, tn_tensor weight, tn_tensor bias,
                      tn_conv_options o);

// ---- pool.c: one image or several; x belongs to the function already
tn_tensor fe_pool(uint32_t n_spatial, bool is_max, tn_tensor x, int64_t kernel, tn_pool_options o);
tn_tensor fe_norm_pool(uint32_t n_spatial, tn_tensor x, double power, int64_t kernel, tn_pool_options o);
tn_tensor fe_adaptive_pool(uint32_t n_spatial, bool is_max, tn_tensor x, const int64_t *out, tn_site at);

// ---- image.c
tn_tensor fe_interpolate(tn_tensor x, const int64_t *sizes, tn_interpolation mode, tn_interpolate_options o);
tn_tensor fe_pixel_shuffle(tn_tensor x, int64_t r, tn_site at);
tn_tensor fe_pixel_unshuffle(tn_tensor x, int64_t r, tn_site at);
tn_tensor fe_channel_shuffle(tn_tensor x, int64_t groups, tn_site at);
tn_tensor fe_channel_dropout(tn_tensor x, double p, tn_site at);
// ---- local_response_norm.c
tn_tensor fe_local_response_norm(tn_tensor x, int64_t size, tn_local_response_norm_options o);

// ---- unfold.c
tn_tensor fe_unfold2d(tn_tensor x, int64_t kernel, tn_unfold_options o);
tn_tensor fe_fold2d(tn_tensor x, tn_shape sizes, int64_t kernel, tn_unfold_options o);

#endif
