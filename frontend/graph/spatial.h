// Shared by convolutions, pools and resizing: a number per spatial axis, the place of channels, one image
// without a batch.
#ifndef TN_FRONTEND_GRAPH_SPATIAL_H
#define TN_FRONTEND_GRAPH_SPATIAL_H

#include "frontend/tenure/conv.h"
#include "frontend/tenure/image.h"
#include "ir/tables.h"

enum { SPATIAL_AXES = 3 };

// out[k]: each[k] where one of `each` is given, else `all`; 0 becomes otherwise[k] (NULL: stays).
void fe_fill_axes(int64_t *out, uint32_t n, int64_t all, const int64_t *each, const int64_t *otherwise);

// [N, C, spatial..] -> [N, spatial.., C], and back; poison stays poison
tn_tensor fe_channels_last(tn_tensor x, tn_site at);
tn_tensor fe_channels_first(tn_tensor x, tn_site at);

// [C, spatial..] as a batch of one, other ranks unchanged; and the result as one image again if `x` was one
tn_tensor fe_batch_of(tn_tensor x, uint32_t n_spatial, tn_site at);
tn_tensor fe_like_batch_of(tn_tensor y, tn_tensor x, uint32_t n_spatial, tn_site at);

// How x [N, C, spatial..] is resized: each axis to a size; results are 1 / scale apart, or if that is 0 the
// quotient of the sizes
typedef struct {
  Dim sizes[SPATIAL_AXES];
  double scales[SPATIAL_AXES];
  tn_interpolation mode;
  bool align, antialias, of_bytes;  // of_bytes: numbers are rounded to bytes, and stay f32
  tn_site at;
} FeResize;
tn_tensor fe_resize_by_index(tn_tensor x, const FeResize *r);  // sizes of the run, and not by area

// Windows along one axis, as the options of a convolution with weight [O, C / groups, taps] say; false: reported
typedef struct {
  int64_t taps, stride, dilation, before, behind, groups;
} FeWindow;
bool fe_conv_window(tn_tensor weight, tn_conv_options o, FeWindow *out);

// a op b; poison where one of them is
tn_tensor fe_binary(Op op, tn_tensor a, tn_tensor b, tn_site at);
tn_tensor fe_with_number(Op op, tn_tensor a, double b, tn_site at);

#endif
