// Interpolation weights along an axis, as in PyTorch's interpolate.
//
//   %y  = resize %x {filter="linear", shape=[OH,OW]}            [N, H, W, C] -> [N, OH, OW, C]: along one axis after the other
//   %dx = resize_grad %dy {filter="linear", shape=[H,W]}
//
// An element of the result is made of neighbours: nearest of one, linear of two, cubic of four, if the axis
// has that many; wide_linear and wide_cubic, where there are fewer results than elements, of all that a result covers; box sums all of which a result has any
// part, whatever {scale0} and {align} say. byte_linear and so on, of all but nearest ones and box: weights of 15 bits by a power of 2, so that sums of bytes, and their rounding, are exact in f32. Results are in / out apart in x, or 1 / {scale0}, .. if that axis has one: out = floor(in
// scale).
#ifndef TN_IR_RESIZE_H
#define TN_IR_RESIZE_H

#include "ir/ir.h"

enum { RESIZE_MOST = 1 << 20 };  // elements of an axis

// For each of n results: the source elements [lo, hi) that it uses, and their weights at `width` times its
// number.
typedef struct {
  int64_t n, width;
  int32_t *lo, *hi;
  float *weight;
} AxisTaps;

bool ir_filter_known(const char *filter);
// Of spatial axis `axis` of the resize or resize_grad at v. In mem.
AxisTaps ir_axis_taps(const Fn *f, Val v, uint32_t axis, RtArena *mem);

#endif
