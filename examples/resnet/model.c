#include "examples/resnet/model.h"
#include <math.h>

static const Resnet table[] = {
    {20, true, false, 16, {3, 3, 3}},      {56, true, false, 16, {9, 9, 9}},    {18, false, false, 64, {2, 2, 2, 2}},
    {34, false, false, 64, {3, 4, 6, 3}},  {50, false, true, 64, {3, 4, 6, 3}}, {101, false, true, 64, {3, 4, 23, 3}},
    {152, false, true, 64, {3, 8, 36, 3}},
};

const Resnet *resnet_of_depth(int depth) {
  for (size_t k = 0; k < sizeof table / sizeof *table; k++)
    if (table[k].depth == depth) return &table[k];
  return NULL;
}

// ---- parameters
static void conv(tn_program *p, tn_module *m, const char *name, int64_t in, int64_t out, int64_t kernel,
                 int64_t stride) {
  tn_function *init = tn_init_function(p);
  tn_module *c = tn_conv2d_module(m, name, in, out, kernel, .stride = stride, .padding = kernel / 2, .no_bias = true);
  double std = sqrt(2 / (double)(out * kernel * kernel));
  tn_parameter_adopt(c, "weight", tn_mul_scalar(tn_randn(init, TN_SHAPE(out, in, kernel, kernel)), std));
}

static void make_block(tn_program *p, const Resnet *r, tn_module *layer, int64_t in, int64_t width, int64_t stride) {
  tn_module *b = tn_module_new(layer, NULL);
  int64_t out = r->has_neck ? 4 * width : width;
  if (r->has_neck) {
    conv(p, b, "conv1", in, width, 1, 1), tn_batch_norm(b, "bn1", width);
    conv(p, b, "conv2", width, width, 3, stride), tn_batch_norm(b, "bn2", width);
    conv(p, b, "conv3", width, out, 1, 1), tn_batch_norm(b, "bn3", out);
  } else {
    conv(p, b, "conv1", in, width, 3, stride), tn_batch_norm(b, "bn1", width);
    conv(p, b, "conv2", width, width, 3, 1), tn_batch_norm(b, "bn2", width);
  }
  if (stride == 1 && in == out) return;
  tn_module *d = tn_sequential(b, "downsample");
  conv(p, d, "0", in, out, 1, stride), tn_batch_norm(d, "1", out);
}

static const char *const layers[] = {"layer1", "layer2", "layer3", "layer4"};

void resnet_make(tn_program *p, const Resnet *r, int64_t classes) {
  tn_module *net = tn_root(p);
  int64_t width = r->width, in = width;
  conv(p, net, "conv1", 3, width, r->is_small ? 3 : 7, r->is_small ? 1 : 2), tn_batch_norm(net, "bn1", width);
  for (int k = 0; k < 4 && r->blocks[k]; k++, width *= 2) {
    tn_module *layer = tn_module_list(net, layers[k]);
    for (int64_t i = 0; i < r->blocks[k]; i++) {
      make_block(p, r, layer, in, width, k && !i ? 2 : 1);
      in = r->has_neck ? 4 * width : width;
    }
  }
  tn_linear(net, "fc", in, classes);
}

// ---- the graph
static tn_tensor conv_and_norm(tn_module *m, const char *conv_name, const char *norm_name, tn_tensor x) {
  return tn_call(tn_child(m, norm_name), tn_call(tn_child(m, conv_name), x));
}

static tn_tensor block(tn_module *b, tn_tensor x) {
  tn_module *downsample = tn_child(b, "downsample");
  bool has_neck = tn_child(b, "conv3") != NULL;
  tn_tensor y = tn_relu(conv_and_norm(b, "conv1", "bn1", x));
  y = conv_and_norm(b, "conv2", "bn2", y);
  if (has_neck) y = conv_and_norm(b, "conv3", "bn3", tn_relu(y));
  return tn_relu(tn_add(y, downsample ? tn_call(downsample, x) : x));
}

tn_tensor resnet_logits(tn_program *p, const Resnet *r, tn_tensor x) {
  tn_module *net = tn_root(p);
  x = tn_relu(conv_and_norm(net, "conv1", "bn1", x));
  if (!r->is_small) x = tn_max_pool2d(x, 3, .stride = 2, .padding = 1);
  for (int k = 0; k < 4 && r->blocks[k]; k++)
    for (int i = 0; i < (int)r->blocks[k]; i++) x = block(tn_child_at(tn_child(net, layers[k]), i), x);
  return tn_call(tn_child(net, "fc"), tn_mean_axes(x, false, TN_INTS(2, 3)));
}
