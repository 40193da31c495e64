#include "bench/blocks.h"

// ---- layers
static tn_tensor through(tn_module *net, const char *name, tn_tensor x) { return tn_call(tn_child(net, name), x); }

typedef struct {
  int64_t kernel, stride, groups;  // 0: 1
} Window;

// A convolution and a batch norm
static void add_layer(tn_module *net, const char *name, int64_t in, int64_t out, Window w) {
  tn_module *layer = tn_sequential(net, name);
  int64_t kernel = w.kernel ? w.kernel : 1;
  tn_conv2d_module(layer, "0", in, out, kernel, .stride = w.stride ? w.stride : 1, .padding = kernel / 2,
                   .groups = w.groups ? w.groups : 1, .no_bias = true);
  tn_batch_norm(layer, "1", out);
}

static tn_tensor relu_of(tn_module *net, const char *name, tn_tensor x) { return tn_relu(through(net, name, x)); }

// ---- MobileNet V3: wide in the middle, a gate for each channel
static tn_module *make_inverted(tn_module *net) {
  add_layer(net, "expand", 24, 144, (Window){0}),
      add_layer(net, "depthwise", 144, 144, (Window){.kernel = 5, .groups = 144});
  tn_conv2d_module(net, "squeeze", 144, 36, 1), tn_conv2d_module(net, "excite", 36, 144, 1);
  return add_layer(net, "project", 144, 24, (Window){0}), net;
}

static tn_tensor call_inverted(tn_module *net, tn_tensor x, tn_tensor other) {
  tn_tensor y = tn_hardswish(through(net, "depthwise", tn_hardswish(through(net, "expand", x))));
  tn_tensor gate = tn_relu(through(net, "squeeze", tn_mean_axes(y, true, TN_INTS(2, 3))));
  y = tn_mul(y, tn_hardsigmoid(through(net, "excite", gate)));
  return (void)other, tn_add(x, through(net, "project", y));
}
const Block block_inverted = {make_inverted, call_inverted};

// ---- DenseNet: every layer reads all before it
enum { DENSE_LAYERS = 3, DENSE_IN = 64, GROWTH = 32 };
static const char *const digits[] = {"0", "1", "2"};

static tn_module *make_dense(tn_module *net) {
  for (int k = 0; k < DENSE_LAYERS; k++) {
    tn_module *layer = tn_module_new(net, digits[k]);
    int64_t in = DENSE_IN + k * GROWTH;
    tn_batch_norm(layer, "norm1", in), tn_conv2d_module(layer, "conv1", in, 4 * GROWTH, 1, .no_bias = true);
    tn_batch_norm(layer, "norm2", 4 * GROWTH);
    tn_conv2d_module(layer, "conv2", 4 * GROWTH, GROWTH, 3, .padding = 1, .no_bias = true);
  }
  return net;
}

static tn_tensor call_dense(tn_module *net, tn_tensor x, tn_tensor other) {
  for (int k = 0; k < DENSE_LAYERS; k++) {
    tn_module *layer = tn_child(net, digits[k]);
    tn_tensor y = through(layer, "conv1", relu_of(layer, "norm1", x));
    x = tn_concat(1, TN_TENSORS(x, through(layer, "conv2", relu_of(layer, "norm2", y))));
  }
  return (void)other, x;
}
const Block block_dense = {make_dense, call_dense};

// ---- ShuffleNet V2: half of the channels, which then change places with the other half's
enum { HALF = 58 };

static tn_module *make_shuffle(tn_module *net) {
  add_layer(net, "first", HALF, HALF, (Window){0});
  add_layer(net, "depthwise", HALF, HALF, (Window){.kernel = 3, .groups = HALF});
  return add_layer(net, "last", HALF, HALF, (Window){0}), net;
}

static tn_tensor call_shuffle(tn_module *net, tn_tensor x, tn_tensor other) {
  tn_tensor y = relu_of(net, "first", tn_slice(x, 1, HALF, HALF));
  y = relu_of(net, "last", through(net, "depthwise", y));
  y = tn_stack(2, TN_TENSORS(tn_slice(x, 1, 0, HALF), y));
  return (void)other, tn_flatten(y, 1, 2);
}
const Block block_shuffle = {make_shuffle, call_shuffle};

// ---- U-Net: up, beside what came down
static tn_module *make_unet(tn_module *net) {
  tn_conv_transpose2d_module(net, "up", 128, 64, 2, .stride = 2);
  add_layer(net, "first", 128, 64, (Window){.kernel = 3});
  return add_layer(net, "last", 64, 64, (Window){.kernel = 3}), net;
}

static tn_tensor call_unet(tn_module *net, tn_tensor x, tn_tensor other) {
  return relu_of(net, "last", relu_of(net, "first", tn_concat(1, TN_TENSORS(other, through(net, "up", x)))));
}
const Block block_unet = {make_unet, call_unet};

// ---- GoogLeNet: four ways side by side
static tn_module *make_inception(tn_module *net) {
  add_layer(net, "one", 192, 64, (Window){0}), add_layer(net, "three0", 192, 96, (Window){0});
  add_layer(net, "three1", 96, 128, (Window){.kernel = 3}), add_layer(net, "five0", 192, 16, (Window){0});
  add_layer(net, "five1", 16, 32, (Window){.kernel = 5});
  return add_layer(net, "pool", 192, 32, (Window){0}), net;
}

static tn_tensor call_inception(tn_module *net, tn_tensor x, tn_tensor other) {
  tn_tensor three = relu_of(net, "three1", relu_of(net, "three0", x)),
            five = relu_of(net, "five1", relu_of(net, "five0", x)),
            pool = relu_of(net, "pool", tn_max_pool2d(x, 3, .stride = 1, .padding = 1));
  return (void)other, tn_concat(1, TN_TENSORS(relu_of(net, "one", x), three, five, pool));
}
const Block block_inception = {make_inception, call_inception};

// ---- ResNeXt: 32 groups
static tn_module *make_grouped(tn_module *net) {
  add_layer(net, "first", 256, 128, (Window){0}),
      add_layer(net, "middle", 128, 128, (Window){.kernel = 3, .groups = 32});
  return add_layer(net, "last", 128, 256, (Window){0}), net;
}

static tn_tensor call_grouped(tn_module *net, tn_tensor x, tn_tensor other) {
  return (void)other, tn_relu(tn_add(x, through(net, "last", relu_of(net, "middle", relu_of(net, "first", x)))));
}
const Block block_grouped = {make_grouped, call_grouped};

// ---- ConvNeXt: channels last for its norm and its linear layers
static tn_module *make_next(tn_module *net) {
  tn_conv2d_module(net, "depthwise", 96, 96, 7, .padding = 3, .groups = 96), tn_layer_norm(net, "norm", TN_SHAPE(96));
  return tn_linear(net, "wide", 96, 384), tn_linear(net, "narrow", 384, 96), net;
}

static tn_tensor call_next(tn_module *net, tn_tensor x, tn_tensor other) {
  tn_tensor y = through(net, "norm", tn_permute(through(net, "depthwise", x), TN_INTS(0, 2, 3, 1)));
  y = through(net, "narrow", tn_gelu(through(net, "wide", y)));
  return (void)other, tn_add(x, tn_permute(y, TN_INTS(0, 3, 1, 2)));
}
const Block block_next = {make_next, call_next};

// ---- MLP-Mixer: along the patches, then along the channels
static tn_module *make_mixer(tn_module *net) {
  tn_layer_norm(net, "norm1", TN_SHAPE(256)), tn_layer_norm(net, "norm2", TN_SHAPE(256));
  tn_linear(net, "patches1", 196, 128), tn_linear(net, "patches2", 128, 196);
  return tn_linear(net, "channels1", 256, 1024), tn_linear(net, "channels2", 1024, 256), net;
}

static tn_tensor call_mixer(tn_module *net, tn_tensor x, tn_tensor other) {
  tn_tensor y = tn_gelu(through(net, "patches1", tn_transpose(through(net, "norm1", x), 1, 2)));
  x = tn_add(x, tn_transpose(through(net, "patches2", y), 1, 2));
  y = tn_gelu(through(net, "channels1", through(net, "norm2", x)));
  return (void)other, tn_add(x, through(net, "channels2", y));
}
const Block block_mixer = {make_mixer, call_mixer};

// ---- Swin: attention inside windows of 7 x 7 that are moved by 3
enum { SWIN_SIDE = 28, SWIN_WIDE = 96, SWIN_HEADS = 3, WINDOW = 7, WINDOWS = SWIN_SIDE / WINDOW };

static tn_module *make_windows(tn_module *net) {
  tn_layer_norm(net, "norm", TN_SHAPE(SWIN_WIDE));
  return tn_linear(net, "qkv", SWIN_WIDE, 3 * SWIN_WIDE), tn_linear(net, "out", SWIN_WIDE, SWIN_WIDE), net;
}

// [N, SIDE, SIDE, WIDE] -> [N * windows, pixels of one, WIDE]
static tn_tensor windows_of(tn_tensor x, int64_t n) {
  x = tn_reshape(x, TN_SHAPE(n, WINDOWS, WINDOW, WINDOWS, WINDOW, SWIN_WIDE));
  return tn_reshape(tn_permute(x, TN_INTS(0, 1, 3, 2, 4, 5)),
                    TN_SHAPE(n * WINDOWS * WINDOWS, WINDOW * WINDOW, SWIN_WIDE));
}

static tn_tensor call_windows(tn_module *net, tn_tensor x, tn_tensor other) {
  enum { N = 4, ALL = N * WINDOWS * WINDOWS, PIXELS = WINDOW * WINDOW, SIZE = SWIN_WIDE / SWIN_HEADS };
  tn_tensor y = tn_reshape(through(net, "norm", x), TN_SHAPE(N, SWIN_SIDE, SWIN_SIDE, SWIN_WIDE));
  y = tn_roll(y, (int64_t[]){-3, -3}, TN_INTS(1, 2));
  y = tn_reshape(through(net, "qkv", windows_of(y, N)), TN_SHAPE(ALL, PIXELS, 3, SWIN_HEADS, SIZE));
  y = tn_permute(y, TN_INTS(2, 0, 3, 1, 4));
  tn_tensor q = tn_select_index(y, 0, 0), k = tn_select_index(y, 0, 1), v = tn_select_index(y, 0, 2);
  y = tn_reshape(tn_transpose(tn_scaled_dot_product_attention(q, k, v), 1, 2), TN_SHAPE(ALL, PIXELS, SWIN_WIDE));
  y = tn_reshape(through(net, "out", y), TN_SHAPE(N, WINDOWS, WINDOWS, WINDOW, WINDOW, SWIN_WIDE));
  y = tn_reshape(tn_permute(y, TN_INTS(0, 1, 3, 2, 4, 5)), TN_SHAPE(N, SWIN_SIDE, SWIN_SIDE, SWIN_WIDE));
  y = tn_roll(y, (int64_t[]){3, 3}, TN_INTS(1, 2));
  return (void)other, tn_add(x, tn_reshape(y, TN_SHAPE(N, SWIN_SIDE * SWIN_SIDE, SWIN_WIDE)));
}
const Block block_windows = {make_windows, call_windows};

// ---- diffusion: group norms before convolutions, the step's features in between
static tn_module *make_diffusion(tn_module *net) {
  tn_group_norm(net, "norm1", 16, 64), tn_group_norm(net, "norm2", 16, 64), tn_linear(net, "step", 128, 64);
  tn_conv2d_module(net, "conv1", 64, 64, 3, .padding = 1), tn_conv2d_module(net, "conv2", 64, 64, 3, .padding = 1);
  return net;
}

static tn_tensor call_diffusion(tn_module *net, tn_tensor x, tn_tensor other) {
  tn_tensor y = through(net, "conv1", tn_silu(through(net, "norm1", x)));
  y = tn_add(y, tn_unsqueeze(tn_unsqueeze(through(net, "step", tn_silu(other)), -1), -1));
  return tn_add(x, through(net, "conv2", tn_silu(through(net, "norm2", y))));
}
const Block block_diffusion = {make_diffusion, call_diffusion};

// ---- attention over the pixels of an image
static tn_module *make_pixels(tn_module *net) {
  tn_group_norm(net, "norm", 16, 64), tn_conv2d_module(net, "qkv", 64, 192, 1), tn_conv2d_module(net, "out", 64, 64, 1);
  return net;
}

static tn_tensor call_pixels(tn_module *net, tn_tensor x, tn_tensor other) {
  tn_tensor y = tn_flatten(through(net, "qkv", through(net, "norm", x)), 2, 3), part[3];
  tn_chunk(y, 3, 1, part, 3);
  for (int k = 0; k < 3; k++) part[k] = tn_transpose(part[k], 1, 2);
  y = tn_transpose(tn_scaled_dot_product_attention(part[0], part[1], part[2]), 1, 2);
  return (void)other, tn_add(x, through(net, "out", tn_reshape(y, TN_SHAPE(2, 64, 16, 16))));
}
const Block block_pixels = {make_pixels, call_pixels};

// ---- ResNet's first layers
static tn_module *make_stem(tn_module *net) {
  return add_layer(net, "first", 3, 64, (Window){.kernel = 7, .stride = 2}), net;
}
static tn_tensor call_stem(tn_module *net, tn_tensor x, tn_tensor other) {
  return (void)other, tn_max_pool2d(relu_of(net, "first", x), 3, .stride = 2, .padding = 1);
}
const Block block_stem = {make_stem, call_stem};

// ---- WaveNet: steps far apart, gates
static tn_module *make_wave(tn_module *net) {
  tn_conv1d_module(net, "gate", 64, 128, 2, .dilation = 8, .padding = 4), tn_conv1d_module(net, "out", 64, 64, 1);
  return net;
}

static tn_tensor call_wave(tn_module *net, tn_tensor x, tn_tensor other) {
  tn_tensor half[2];
  tn_chunk(through(net, "gate", x), 2, 1, half, 2);
  return (void)other, tn_add(x, through(net, "out", tn_mul(tn_tanh(half[0]), tn_sigmoid(half[1]))));
}
const Block block_wave = {make_wave, call_wave};

// ---- Conformer: its convolution
static tn_module *make_conformer(tn_module *net) {
  tn_layer_norm(net, "norm", TN_SHAPE(144)), tn_conv1d_module(net, "wide", 144, 288, 1);
  tn_conv1d_module(net, "depthwise", 144, 144, 31, .padding = 15, .groups = 144), tn_batch_norm(net, "middle", 144);
  return tn_conv1d_module(net, "out", 144, 144, 1), net;
}

static tn_tensor call_conformer(tn_module *net, tn_tensor x, tn_tensor other) {
  tn_tensor y = tn_glu(through(net, "wide", tn_transpose(through(net, "norm", x), 1, 2)), 1);
  y = tn_silu(through(net, "middle", through(net, "depthwise", y)));
  return (void)other, tn_add(x, tn_transpose(through(net, "out", y), 1, 2));
}
const Block block_conformer = {make_conformer, call_conformer};
