// Tenure, convolutions. Names, shapes and meanings are PyTorch's: x f32 [N, C, spatial..], or one [C, spatial..], whose result
// has no N either; weights f32.
#ifndef TN_CONV_H
#define TN_CONV_H

#include "core.h"
#include "shape.h"

#ifdef __cplusplus
extern "C" {
#endif

// How a convolution and its gradients are computed: what is estimated to be faster; by sums of products; by Winograd's
// algorithm F(4x4, 3x3), which is for conv2d with windows of 3 x 3, stride 1, one group, on images of constant
// sizes, of which other convolutions are E003. It rounds more, and spreads what is not finite (docs/gemm.md). The option
// `exact_convolution` of tn_compile comes first.
typedef enum { TN_CONV_AUTO, TN_CONV_EXACT, TN_CONV_WINOGRAD } tn_conv_algorithm;

// One number for all spatial axes, or a number for each: where an array has a number that is not 0, it counts instead.
//
//   y = tn_conv2d(x, w, b, .padding = 1);                           // 3x3 that keeps the size
//   y = tn_conv2d(x, w, TN_NONE, .strides = {2, 1}, .groups = 4);
typedef struct {
  int64_t stride;    // 1 when 0
  int64_t padding;   // zeros on both sides of each axis
  int64_t dilation;  // 1 when 0
  int64_t groups;    // 1 when 0
  int64_t strides[3], paddings[3], dilations[3];
  bool same;  // padding such that the size stays; of stride 1. One more zero behind where they are odd
  int64_t
      output_padding;  // of transposed convolutions: so many more elements behind each axis; below its stride or dilation
  int64_t output_paddings[3];
  tn_conv_algorithm algorithm;
  tn_site at;
} tn_conv_options;

// x [N, C, spatial..], weight [O, C / groups, kernel..], bias [O] or TN_NONE -> [N, O, positions..], where along each axis
// positions = (size + 2 padding - dilation (kernel - 1) - 1) / stride + 1, rounded down. Channels have constant sizes, N and spatial
// axes may have those of the run, which is refused where it has less than 0 positions. The product of the strides is at most
// 2^20. Another rank, channels that do not fit or a window longer than the padded axis are E004, options that are no such
// numbers E003.
TN_API tn_tensor tn_conv1d(tn_tensor x, tn_tensor weight, tn_tensor bias, tn_conv_options o);
TN_API tn_tensor tn_conv2d(tn_tensor x, tn_tensor weight, tn_tensor bias, tn_conv_options o);
TN_API tn_tensor tn_conv3d(tn_tensor x, tn_tensor weight, tn_tensor bias, tn_conv_options o);
// The gradient of such a convolution's x, as a layer: x [N, C, spatial..], weight [C, O / groups, kernel..] -> [N, O, ..],
// along each axis (size - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1 long.
TN_API tn_tensor tn_conv_transpose1d(tn_tensor x, tn_tensor weight, tn_tensor bias, tn_conv_options o);
TN_API tn_tensor tn_conv_transpose2d(tn_tensor x, tn_tensor weight, tn_tensor bias, tn_conv_options o);
TN_API tn_tensor tn_conv_transpose3d(tn_tensor x, tn_tensor weight, tn_tensor bias, tn_conv_options o);

// Modules of them, PyTorch's nn.Conv1d to nn.ConvTranspose3d: x f32 [N, in, spatial..] -> [N, out, positions..], parameters
// "weight" and "bias" of the shapes above, which begin as PyTorch's do: uniform values below 1 / sqrt of the elements of one
// filter. Numbers that do not fit are E003, values of other channels E004.
//
//   tn_module *c = tn_conv2d_module(net, "c", 3, 16, 3, .padding = 1, .padding_mode = TN_PAD_REFLECT);
//   y = tn_call(c, x);
typedef struct {
  int64_t stride, padding, dilation, groups;  // this and what follows as in tn_conv_options
  int64_t strides[3], paddings[3], dilations[3];
  bool same;
  int64_t output_padding, output_paddings[3];  // of transposed ones
  int64_t kernels[3];                          // of each axis, in place of `kernel` for all
  // What `padding` and `same` add: zeros (TN_PAD_CONSTANT), or as tn_pad has it. Of transposed ones zeros only
  tn_pad_mode padding_mode;
  bool no_bias;
  tn_conv_algorithm algorithm;
  tn_site at;
} tn_conv_module_options;
TN_API tn_module *tn_conv1d_module(tn_module *parent, const char *name, int64_t in, int64_t out, int64_t kernel,
                                   tn_conv_module_options o);
TN_API tn_module *tn_conv2d_module(tn_module *parent, const char *name, int64_t in, int64_t out, int64_t kernel,
                                   tn_conv_module_options o);
TN_API tn_module *tn_conv3d_module(tn_module *parent, const char *name, int64_t in, int64_t out, int64_t kernel,
                                   tn_conv_module_options o);
TN_API tn_module *tn_conv_transpose1d_module(tn_module *parent, const char *name, int64_t in, int64_t out,
                                             int64_t kernel, tn_conv_module_options o);
TN_API tn_module *tn_conv_transpose2d_module(tn_module *parent, const char *name, int64_t in, int64_t out,
                                             int64_t kernel, tn_conv_module_options o);
TN_API tn_module *tn_conv_transpose3d_module(tn_module *parent, const char *name, int64_t in, int64_t out,
                                             int64_t kernel, tn_conv_module_options o);

#ifdef __cplusplus
}
#endif

#endif
