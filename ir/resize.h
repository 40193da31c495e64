// Weights with which elements of an axis make one of another size, as PyTorch's interpolate has them.
//
//   %y  = resize %x {filter="linear", shape=[OH,OW]}            [N, H, W, C] -> [N, OH, OW, C]: along one axis after the other
//   %dx = resize_grad %dy {filter="linear", shape=[H,W]}
//
// An element of the result is made of neighbours: nearest of one, linear of two, cubic of four, where the axis has so many.
// Elements of the result lie in / out apart in x, or 1 / {scale0}, .. where the axis has one: out = floor(in scale).
#ifndef TN_IR_RESIZE_H
#define TN_IR_RESIZE_H

#include "ir/ir.h"

enum { RESIZE_MOST = 1 << 20 };  // elements of an axis

// For each of n elements of the result those of the source that it has, [lo, hi), and their weights from `width` times its
// number on.
typedef struct {
  int64_t n, width;
  int32_t *lo, *hi;
  float *weight;
} AxisTaps;

bool ir_filter_known(const char *filter);
// Of spatial axis `axis` of the resize or resize_grad at v. In mem.
AxisTaps ir_axis_taps(const Fn *f, Val v, uint32_t axis, RtArena *mem);

#endif
