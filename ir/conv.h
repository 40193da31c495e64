// What shape rules, interpreter and code generator read from a convolution: `conv`, and the two gradients of it.
//
//   %y  = conv %x, %w {stride=[2,2], pad=[1,1,1,1], dilation=[1,1]}         x [N, H, W, C], w [O, C / groups, kh, kw]
//   %dx = conv_transpose %dy, %w {.., shape=[H,W]}                          [N, OH, OW, O] -> [N, H, W, C]
//   %dw = conv_weight_grad %x, %dy {.., shape=[kh,kw]}                      [O, C / groups, kh, kw]
//
// All three relate the same elements: y at p has the sum over taps t and channels of w at t times x at
// p * stride + t * dilation - pad, where that lies inside. Channels of activations come last, those of weights as in
// PyTorch. One to three spatial axes, of constant sizes or of those of the run.
#ifndef TN_IR_CONV_H
#define TN_IR_CONV_H

#include "ir/ir.h"

enum { CONV_AXES = 3 };

// {algorithm}: the code generator's choice; sums of products; Winograd's (codegen/gemm/winograd.h).
typedef enum { CONV_AUTO, CONV_EXACT, CONV_WINOGRAD, N_CONV_ALGORITHMS } ConvAlgorithm;
// Its name in text; NULL: there is no attribute.
const char *ir_conv_algorithm_name(ConvAlgorithm a);

typedef struct {
  uint32_t rank;                          // spatial axes; those of size 1 in front make them three
  Val x, y, weight;                       // those that the instruction reads or makes
  Dim n;                                  // images
  int64_t c, o, groups;                   // channels of x and of y
  int64_t in[CONV_AXES], out[CONV_AXES];  // spatial sizes of x and of y, bounds of those that the run gives
  Dim in_dim[CONV_AXES], out_dim[CONV_AXES];
  bool run_sized;  // the run gives some
  int64_t kernel[CONV_AXES], stride[CONV_AXES], dilation[CONV_AXES];
  int64_t before[CONV_AXES], behind[CONV_AXES];  // zeros that pad x
  ConvAlgorithm algorithm;
} Conv;

// Reads the instruction at v, whose operands fit (ir_infer has run).
void ir_conv(const Fn *f, Val v, Conv *c);
static inline int64_t ir_conv_taps(const Conv *c) { return c->kernel[0] * c->kernel[1] * c->kernel[2]; }
// Positions of a window along an axis of `in` elements; none: the window is longer, whatever the run gives.
Dim ir_conv_positions(Prog *p, Dim in, int64_t padding, int64_t kernel, int64_t stride, int64_t dilation);

#endif
