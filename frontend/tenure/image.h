// Tenure, images: pooling, resizing, windows. Names and meanings are PyTorch's: x f32 [N, C, spatial..], or one image
// [C, spatial..], whose result has no N either.
#ifndef TN_IMAGE_H
#define TN_IMAGE_H

#include "core.h"
#include "order.h"
#include "shape.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- pooling: [N, C, spatial..] -> [N, C, positions..], where along each axis positions =
// (size + 2 padding - dilation (kernel - 1) - 1) / stride + 1, rounded down. Sizes may be those of the run, which
// is refused where it has less than 0 positions. Another rank or a window longer than the padded axis is E004, options that are no such
// numbers E003. A kernel has at most 2^15 elements along an axis, a spatial plane 2^31.
//
//   y = tn_max_pool2d(x, 2);                                        // halves both sizes
//   y = tn_avg_pool2d(x, 3, .stride = 2, .padding = 1, .exclude_padding = true);
typedef struct {
  int64_t stride;    // the kernel's size when 0
  int64_t padding;   // on both sides, at most half of the kernel: -inf for maxima, else 0
  int64_t dilation;  // 1 when 0; of maxima
  // A number for each axis: where an array has a number that is not 0, it counts instead of the one for all
  int64_t kernels[3], strides[3], paddings[3], dilations[3];
  bool ceil;             // a last window that is cut off at the end counts, unless it begins in the padding behind
  bool exclude_padding;  // of averages: PyTorch's count_include_pad=False
  int64_t divisor;       // of averages, in place of the number of elements; 0: none
  tn_site at;
} tn_pool_options;
// The gradient goes to the first of equal maxima. NaN wins, the last one.
TN_API tn_tensor tn_max_pool1d(tn_tensor x, int64_t kernel, tn_pool_options o);
TN_API tn_tensor tn_max_pool2d(tn_tensor x, int64_t kernel, tn_pool_options o);
TN_API tn_tensor tn_max_pool3d(tn_tensor x, int64_t kernel, tn_pool_options o);
TN_API tn_tensor tn_avg_pool1d(tn_tensor x, int64_t kernel, tn_pool_options o);
TN_API tn_tensor tn_avg_pool2d(tn_tensor x, int64_t kernel, tn_pool_options o);
TN_API tn_tensor tn_avg_pool3d(tn_tensor x, int64_t kernel, tn_pool_options o);
// The p-norm of each window, p > 0: (sum x^p)^(1/p), without padding
TN_API tn_tensor tn_lp_pool1d(tn_tensor x, double p, int64_t kernel, tn_pool_options o);
TN_API tn_tensor tn_lp_pool2d(tn_tensor x, double p, int64_t kernel, tn_pool_options o);
TN_API tn_tensor tn_lp_pool3d(tn_tensor x, double p, int64_t kernel, tn_pool_options o);
// The maxima, and the i64 index of each among the spatial elements of its image and channel, in row-major order
TN_API tn_ordered tn_max_pool1d_with_indices(tn_tensor x, int64_t kernel, tn_pool_options o);
TN_API tn_ordered tn_max_pool2d_with_indices(tn_tensor x, int64_t kernel, tn_pool_options o);
TN_API tn_ordered tn_max_pool3d_with_indices(tn_tensor x, int64_t kernel, tn_pool_options o);
// Back from them: each value of x at its index, zeros elsewhere; of equal indices the last value stays. Sizes are (size - 1)
// stride - 2 padding + kernel, or those given. Indices that the result does not have are refused by the run.
typedef struct {
  int64_t stride, padding;  // as in tn_pool_options
  int64_t kernels[3], strides[3], paddings[3];
  int64_t sizes[3];  // of the result's spatial axes; all 0: from the windows
  tn_site at;
} tn_unpool_options;
TN_API tn_tensor tn_max_unpool1d(tn_tensor x, tn_tensor indices, int64_t kernel, tn_unpool_options o);
TN_API tn_tensor tn_max_unpool2d(tn_tensor x, tn_tensor indices, int64_t kernel, tn_unpool_options o);
TN_API tn_tensor tn_max_unpool3d(tn_tensor x, tn_tensor indices, int64_t kernel, tn_unpool_options o);
// To a given size: position k is of the elements [floor(k size / positions), ceil((k + 1) size / positions)), where
// (size x positions) is at most 2^24 along an axis.
TN_API tn_tensor tn_adaptive_avg_pool1d(tn_tensor x, int64_t width, tn_site at);
TN_API tn_tensor tn_adaptive_avg_pool2d(tn_tensor x, int64_t height, int64_t width, tn_site at);
TN_API tn_tensor tn_adaptive_avg_pool3d(tn_tensor x, int64_t depth, int64_t height, int64_t width, tn_site at);
TN_API tn_tensor tn_adaptive_max_pool1d(tn_tensor x, int64_t width, tn_site at);
TN_API tn_tensor tn_adaptive_max_pool2d(tn_tensor x, int64_t height, int64_t width, tn_site at);
TN_API tn_tensor tn_adaptive_max_pool3d(tn_tensor x, int64_t depth, int64_t height, int64_t width, tn_site at);
TN_API tn_ordered tn_adaptive_max_pool1d_with_indices(tn_tensor x, int64_t width, tn_site at);
TN_API tn_ordered tn_adaptive_max_pool2d_with_indices(tn_tensor x, int64_t height, int64_t width, tn_site at);
TN_API tn_ordered tn_adaptive_max_pool3d_with_indices(tn_tensor x, int64_t depth, int64_t height, int64_t width,
                                                      tn_site at);

// ---- resizing: [N, C, spatial..] -> [N, C, size..] of as many spatial axes, 1 to 3, whose sizes before may be
// those of the run, of AREA too. NEAREST repeats elements;
// LINEAR goes in a straight line along each axis, bilinear of two; CUBIC along a curve through four elements, bicubic of two; AREA
// is the average of what an element covers, tn_adaptive_avg_pool. NEAREST_EXACT takes the element that the middle lies in.
// `align_corners`: the outermost elements keep their places. Without sizes (NULL) each is multiplied by its factor and rounded down.
//
//   y = tn_interpolate(x, ((int64_t[]){64, 48}), TN_LINEAR, .align_corners = true);
//   y = tn_interpolate(x, NULL, TN_CUBIC, .scale_factor = 1.5);
//   y = tn_interpolate(x, ((int64_t[]){224, 224}), TN_LINEAR, .antialias = true);
//
// x may be u8: NEAREST and NEAREST_EXACT move bytes; LINEAR and CUBIC of [N, C, H, W] of constant sizes round to a byte behind each
// axis, the last one first, with weights of 15 bits, to the bit as PyTorch.
typedef enum { TN_NEAREST, TN_LINEAR, TN_CUBIC, TN_AREA, TN_NEAREST_EXACT } tn_interpolation;
typedef struct {
  bool align_corners;  // of LINEAR and CUBIC
  // In (0, 1024]; one for all axes, or where the array has a number that is not 0, that one. Of an axis that the run sizes a
  // multiple of 1/1024, and not with AREA, which is to constant sizes
  double scale_factor, scale_factors[3];
  // By the sizes before and behind, as where those are given; else elements lie 1 / factor apart, without AREA and
  // align_corners, which differs where a size was rounded
  bool recompute_scale_factor;
  // Of LINEAR and CUBIC, [N, C, H, W] of constant sizes: made smaller, an element is a mean of all that it covers, as Pillow has it
  bool antialias;
  tn_site at;
} tn_interpolate_options;
TN_API tn_tensor tn_interpolate(tn_tensor x, const int64_t *sizes, tn_interpolation mode, tn_interpolate_options o);

// ---- images read at places that the program computes: x f32 [N, C, H, W], grid f32 [N, h, w, 2] -> [N, C, h, w]; or [N, C, D, H, W] and
// [N, d, h, w, 3]. A place is (x, y) or (x, y, z), the first along the last axis, in [-1, 1] from one end of the image to the other: from edge
// to edge, or with align_corners from middle to middle of its outermost elements. Between elements in a straight line along
// each axis. Other shapes are E004, other dtypes E005. Gradients flow to x and to the grid; with `nearest` to x alone.
//
//   y = tn_grid_sample(x, g, .padding = TN_GRID_BORDER);
typedef enum {
  TN_GRID_ZEROS,      // outside of the image is 0; NaN is outside
  TN_GRID_BORDER,     // what is nearest in the image
  TN_GRID_REFLECTION  // the image again and again, every second time turned around
} tn_grid_padding;
typedef struct {
  bool nearest;  // the nearest element, of two the one with the even place
  tn_grid_padding padding;
  bool align_corners;
  tn_site at;
} tn_grid_sample_options;
TN_API tn_tensor tn_grid_sample(tn_tensor x, tn_tensor grid, tn_grid_sample_options o);

// ---- windows as columns, PyTorch's nn.functional.unfold and fold (tn_unfold is Tensor.unfold): x f32 [N, C, H, W], or one image ->
// [N, C kernel kernel, positions], where along each axis positions = (size + 2 padding - dilation (kernel - 1) - 1) / stride +
// 1, rounded down, and both axes' are one. Back, tn_fold2d adds what the windows have to an image of `sizes`, TN_SHAPE(H, W).
// Sizes may be those of the run, which is refused where it has less than 0 positions. Windows longer than the padded axis and
// other shapes are E004, numbers of other ranges E003: a kernel in [1, 2^10], the others up to 2^20.
//
//   y = tn_unfold2d(x, 3, .padding = 1);
//   x = tn_fold2d(y, TN_SHAPE(H, W), 3, .padding = 1);               // each element times the number of its windows
typedef struct {
  int64_t dilation, padding, stride;  // 1, 0, 1 when 0
  int64_t kernels[2], dilations[2], paddings[2],
      strides[2];  // of each axis: where one is not 0, in place of the one for all
  tn_site at;
} tn_unfold_options;
TN_API tn_tensor tn_unfold2d(tn_tensor x, int64_t kernel, tn_unfold_options o);
TN_API tn_tensor tn_fold2d(tn_tensor x, tn_shape sizes, int64_t kernel, tn_unfold_options o);

// ---- channels and places
// Any axes before C, or none. C is a constant; H and W of pixel_unshuffle too, those of pixel_shuffle may be run-time sizes.
TN_API tn_tensor tn_pixel_shuffle(tn_tensor x, int64_t r, tn_site at);    // [.., C r r, H, W] -> [.., C, H r, W r]
TN_API tn_tensor tn_pixel_unshuffle(tn_tensor x, int64_t r, tn_site at);  // [.., C, H r, W r] -> [.., C r r, H, W]
// [N, C, ..]: channel k of group j becomes channel j of group k; a number of groups that does not divide C is E004
TN_API tn_tensor tn_channel_shuffle(tn_tensor x, int64_t groups, tn_site at);
// [N, C, spatial..]: all of a channel is 0 with probability p, else divided by 1 - p; x itself where tn_eval marks the function
TN_API tn_tensor tn_channel_dropout(tn_tensor x, double p, tn_site at);

// x / (k + alpha m)^beta, m: the mean of the squares of `size` channels, from c - size / 2 on for channel c, zeros outside; x [N, C, ..]
// of three axes or more, C constant (else E004), size in [1, 256] (else E003)
typedef struct {
  double alpha, beta, k;  // 0: 1e-4, 0.75, 1
  tn_site at;
} tn_local_response_norm_options;
TN_API tn_tensor tn_local_response_norm(tn_tensor x, int64_t size, tn_local_response_norm_options o);

// ---- modules: PyTorch's MaxPool1d to MaxPool3d and so on, whose values have `n_spatial` spatial axes. What the call refuses is
// refused when the module is called; other numbers of axes are E003.
//
//   tn_module *net = tn_sequential(root, "net");
//   tn_conv2d_module(net, "0", 3, 16, 3);
//   tn_max_pool_module(net, "1", 2, 3, .stride = 2, .padding = 1);
//   tn_adaptive_avg_pool_module(net, "2", TN_SIZES(1, 1));
#define TN_SIZES(...) \
  (const int64_t[]){__VA_ARGS__}, (uint32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
TN_API tn_module *tn_max_pool_module(tn_module *parent, const char *name, uint32_t n_spatial, int64_t kernel,
                                     tn_pool_options o);
TN_API tn_module *tn_avg_pool_module(tn_module *parent, const char *name, uint32_t n_spatial, int64_t kernel,
                                     tn_pool_options o);
TN_API tn_module *tn_lp_pool_module(tn_module *parent, const char *name, uint32_t n_spatial, double power,
                                    int64_t kernel, tn_pool_options o);
// To n sizes, one for each spatial axis
TN_API tn_module *tn_adaptive_avg_pool_module(tn_module *parent, const char *name, const int64_t *sizes, uint32_t n,
                                              tn_site at);
TN_API tn_module *tn_adaptive_max_pool_module(tn_module *parent, const char *name, const int64_t *sizes, uint32_t n,
                                              tn_site at);
// Sizes times `scale`, or the scales of the axes, as tn_interpolate's factors; where those are 0 the sizes given
typedef struct {
  int64_t sizes[3];
  double scales[3];
  bool align_corners, recompute_scale_factor;
  tn_site at;
} tn_upsample_options;
TN_API tn_module *tn_upsample_module(tn_module *parent, const char *name, double scale, tn_interpolation mode,
                                     tn_upsample_options o);
// n numbers as tn_pad has them; `value` is for TN_PAD_CONSTANT
TN_API tn_module *tn_pad_module(tn_module *parent, const char *name, const int64_t *pads, uint32_t n, tn_pad_mode mode,
                                double value, tn_site at);
TN_API tn_module *tn_unfold_module(tn_module *parent, const char *name, int64_t kernel, tn_unfold_options o);
TN_API tn_module *tn_fold_module(tn_module *parent, const char *name, tn_shape sizes, int64_t kernel,
                                 tn_unfold_options o);
TN_API tn_module *tn_pixel_shuffle_module(tn_module *parent, const char *name, int64_t r, tn_site at);
TN_API tn_module *tn_pixel_unshuffle_module(tn_module *parent, const char *name, int64_t r, tn_site at);
TN_API tn_module *tn_channel_shuffle_module(tn_module *parent, const char *name, int64_t groups, tn_site at);
TN_API tn_module *tn_local_response_norm_module(tn_module *parent, const char *name, int64_t size,
                                                tn_local_response_norm_options o);
TN_API tn_module *tn_channel_dropout_module(tn_module *parent, const char *name, double p, tn_site at);  // Dropout1d-3d

#ifdef __cplusplus
}
#endif

#endif
