// mobilenet, efficientnet, convnext: a training step of MobileNet V2 and EfficientNet B0 on 8 images, and of ConvNeXt T on 2, of
// 224 x 224, with SGD and momentum. Sandler et al. 2018, table 2; Tan and Le 2019, table 1; Liu et al. 2022, figure 4. Nothing
// is drawn at random: no dropout, no stochastic depth.
#include "bench/bench.h"
#include <stdlib.h>

enum { MOST_BATCH = 8, SIDE = 224, CLASSES = 1000, SHARE_SQUEEZED = 4 };
#define RATE 1e-4        // with 0.01 PyTorch's third losses in f32 and f64 differ by 0.5 %
#define LAYER_SCALE 0.1  // so that a first step tells something; theirs is 1e-6

typedef struct {
  tn_program *p;
  tn_function *f;
} Net;

static tn_tensor conv(tn_module *m, const char *name, tn_tensor x) { return tn_call(tn_child(m, name), x); }

// ---- blocks that are wide in the middle
typedef struct {
  int64_t expand, kernel, stride, out, blocks;
} Stage;

typedef struct {
  const char *name;
  Stage stages[7];
  bool squeezes;  // SiLU, and a gate for each channel; else ReLU6
} Mobile;

enum { STEM = 32, HEAD = 1280 };
static const Mobile mobile_net = {.name = "mobilenet",
                                  .stages = {{1, 3, 1, 16, 1},
                                             {6, 3, 2, 24, 2},
                                             {6, 3, 2, 32, 3},
                                             {6, 3, 2, 64, 4},
                                             {6, 3, 1, 96, 3},
                                             {6, 3, 2, 160, 3},
                                             {6, 3, 1, 320, 1}}},
                    efficient_net = {.name = "efficientnet",
                                     .stages = {{1, 3, 1, 16, 1},
                                                {6, 3, 2, 24, 2},
                                                {6, 5, 2, 40, 2},
                                                {6, 3, 2, 80, 3},
                                                {6, 5, 1, 112, 3},
                                                {6, 5, 2, 192, 4},
                                                {6, 3, 1, 320, 1}},
                                     .squeezes = true};

static tn_tensor activation(const Mobile *n, tn_tensor x) { return n->squeezes ? tn_silu(x) : tn_relu6(x); }

static tn_tensor make_layer(tn_module *m, const char *name, tn_tensor x, int64_t in, int64_t out, int64_t kernel,
                            int64_t stride, int64_t groups) {
  tn_module *layer = tn_sequential(m, name);
  tn_conv2d_module(layer, "0", in, out, kernel, .stride = stride, .padding = kernel / 2, .groups = groups,
                   .no_bias = true);
  tn_batch_norm(layer, "1", out);
  return tn_call(layer, x);
}

// x times a gate of its channels: means over the image, squeezed and widened again
static tn_tensor gated(tn_module *m, tn_tensor x, int64_t wide, int64_t squeezed) {
  tn_conv2d_module(m, "squeeze", wide, squeezed, 1), tn_conv2d_module(m, "excite", squeezed, wide, 1);
  tn_tensor gate = tn_silu(conv(m, "squeeze", tn_mean_axes(x, true, TN_INTS(2, 3))));
  return tn_mul(x, tn_sigmoid(conv(m, "excite", gate)));
}

static tn_tensor make_block(const Mobile *n, tn_module *m, tn_tensor x, int64_t in, const Stage *s, int64_t stride) {
  int64_t wide = in * s->expand;
  tn_tensor y = x;
  if (s->expand > 1) y = activation(n, make_layer(m, "expand", y, in, wide, 1, 1, 1));
  y = activation(n, make_layer(m, "depthwise", y, wide, wide, s->kernel, stride, wide));
  if (n->squeezes) y = gated(m, y, wide, in / SHARE_SQUEEZED);
  y = make_layer(m, "project", y, wide, s->out, 1, 1, 1);
  return stride == 1 && in == s->out ? tn_add(x, y) : y;
}

static tn_tensor mobile_logits(const Mobile *n, const Net *of, tn_tensor x) {
  tn_module *net = tn_root(of->p), *blocks = tn_module_list(net, "blocks");
  int64_t in = STEM;
  x = activation(n, make_layer(net, "stem", x, 3, STEM, 3, 2, 1));
  for (size_t k = 0; k < sizeof n->stages / sizeof *n->stages; k++) {
    const Stage *s = &n->stages[k];
    for (int64_t i = 0; i < s->blocks; i++, in = s->out)
      x = make_block(n, tn_module_new(blocks, NULL), x, in, s, i ? 1 : s->stride);
  }
  x = activation(n, make_layer(net, "head", x, in, HEAD, 1, 1, 1));
  return tn_call(tn_linear(net, "fc", HEAD, CLASSES), tn_mean_axes(x, false, TN_INTS(2, 3)));
}

static tn_tensor mobilenet_logits(const Net *of, tn_tensor x) { return mobile_logits(&mobile_net, of, x); }
static tn_tensor efficientnet_logits(const Net *of, tn_tensor x) { return mobile_logits(&efficient_net, of, x); }

// ---- ConvNeXt
static tn_tensor rows_of(tn_tensor image) { return tn_permute(image, TN_INTS(0, 2, 3, 1)); }
static tn_tensor image_of(tn_tensor rows) { return tn_permute(rows, TN_INTS(0, 3, 1, 2)); }

static tn_tensor norm(tn_module *m, const char *name, int64_t channels, tn_tensor rows) {
  return tn_call(tn_layer_norm(m, name, TN_SHAPE(channels), .eps = 1e-6), rows);
}

static tn_tensor make_next_block(const Net *n, tn_module *m, int64_t channels, tn_tensor x) {
  tn_conv2d_module(m, "depthwise", channels, channels, 7, .padding = 3, .groups = channels);
  tn_linear(m, "wide", channels, 4 * channels), tn_linear(m, "narrow", 4 * channels, channels);
  tn_parameter_adopt(m, "scale", tn_full(tn_init_function(n->p), LAYER_SCALE, TN_SHAPE(channels)));
  tn_tensor y = norm(m, "norm", channels, rows_of(conv(m, "depthwise", x)));
  y = tn_call(tn_child(m, "narrow"), tn_gelu(tn_call(tn_child(m, "wide"), y)));
  return tn_add(x, image_of(tn_mul(y, tn_param_value(n->f, m, "scale"))));
}

static tn_tensor convnext_logits(const Net *n, tn_tensor x) {
  static const int64_t depths[] = {3, 3, 9, 3}, channels[] = {96, 192, 384, 768};
  tn_module *net = tn_root(n->p), *downs = tn_module_list(net, "downs"), *blocks = tn_module_list(net, "blocks");
  tn_conv2d_module(net, "stem", 3, channels[0], 4, .stride = 4);
  x = image_of(norm(net, "stem_norm", channels[0], rows_of(conv(net, "stem", x))));
  for (int k = 0; k < 4; k++) {
    if (k) {
      tn_module *down = tn_module_new(downs, NULL);
      tn_conv2d_module(down, "conv", channels[k - 1], channels[k], 2, .stride = 2);
      x = conv(down, "conv", image_of(norm(down, "norm", channels[k - 1], rows_of(x))));
    }
    for (int64_t i = 0; i < depths[k]; i++) x = make_next_block(n, tn_module_new(blocks, NULL), channels[k], x);
  }
  x = norm(net, "norm", channels[3], tn_mean_axes(x, false, TN_INTS(2, 3)));
  return tn_call(tn_linear(net, "fc", channels[3], CLASSES), x);
}

// ---- a training step
typedef struct {
  tn_model *model;
  int64_t batch;
  float *image, loss;
  int64_t label[MOST_BATCH];
} Run;

static void close_run(void *w) {
  Run *r = w;
  tn_model_free(r->model);
  free(r->image), free(r);
}

static void *opened(Opening *o, const char *name, tn_tensor (*logits)(const Net *, tn_tensor), int64_t batch) {
  tn_program *p = tn_program_create(name);
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(batch, 3, SIDE, SIDE)), y = tn_input(f, "y", TN_I64, TN_SHAPE(batch));
  tn_tensor loss = tn_cross_entropy(logits(&(Net){p, f}, x), y);
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_sgd(f, tn_root(p), .lr = RATE, .momentum = 0.9, .weight_decay = 1e-4);
  tn_function_end(f);
  Run *r = calloc(1, sizeof *r);
  size_t n_image = (size_t)(batch * 3 * SIDE * SIDE);
  r->batch = batch, r->image = malloc(n_image * sizeof *r->image);
  bench_floats(r->image, n_image, -1, 1, 1);
  bench_integers(r->label, (size_t)batch, CLASSES, 2);
  r->model = bench_compile(p, o);
  if (r->model) return r;
  close_run(r);
  return NULL;
}

static void *open_mobilenet(Opening *o) { return opened(o, "mobilenet", mobilenet_logits, 8); }
static void *open_efficientnet(Opening *o) { return opened(o, "efficientnet", efficientnet_logits, 8); }
static void *open_convnext(Opening *o) { return opened(o, "convnext", convnext_logits, 2); }

static tn_model *model(void *w) { return ((Run *)w)->model; }

static bool train(void *w) {
  Run *r = w;
  return tn_run(r->model, "train_step", TN_IN(tn_f32(r->image, r->batch, 3, SIDE, SIDE), tn_i64(r->label, r->batch)),
                TN_OUT(tn_f32_scalar(&r->loss))) == TN_OK;
}

// The third loss: it knows two updates.
static bool check_training(void *w, double *loss) {
  bool ok = train(w) && train(w) && train(w);
  *loss = ((Run *)w)->loss;
  return ok;
}

#define TRAINING(id, text)                               \
  {                                                      \
      .name = #id,                                       \
      .what = text ": forward, backward, SGD, momentum", \
      .peer = "bench/peers/%s_image_nets.py",            \
      .forms = PEER_LAYOUTS,                             \
      .tolerance = 1e-4,                                 \
      .open = open_##id,                                 \
      .check = check_training,                           \
      .step = train,                                     \
      .model = model,                                    \
      .close = close_run,                                \
      .function = "train_step",                          \
  }
const Workload bench_mobilenet = TRAINING(mobilenet, "MobileNet V2, 8 images of 224 x 224"),
               bench_efficientnet = TRAINING(efficientnet, "EfficientNet B0, 8 images of 224 x 224"),
               bench_convnext = TRAINING(convnext, "ConvNeXt T, 2 images of 224 x 224");
