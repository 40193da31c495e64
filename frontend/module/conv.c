// Convolutions as modules: nn.Conv1d to nn.ConvTranspose3d, on the calls of graph/conv.c.
//
//   tn_conv2d_module(net, "c", 3, 16, 3, .padding = 1)     parameters c.weight [16, 3, 3, 3], c.bias [16]
#include "frontend/graph/image.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/report.h"
#include "frontend/graph/shape.h"
#include "frontend/module/layers.h"
#include "frontend/module/tree.h"
#include "frontend/packed/packed.h"

#include <math.h>

struct FeConv {
  uint32_t n_spatial;
  bool is_transposed;
  int64_t in, kernel[3];
  tn_conv_module_options o;
};

static int64_t at_axis(int64_t all, const int64_t *each, uint32_t k) {
  return each[0] || each[1] || each[2] ? each[k] : all;
}

// ---- making
static bool refuse(tn_module *m, const char *text, tn_site at) {
  fe_error(m->p, E_ARGUMENT, at, "module '%s': %s", m->path, text);
  m->poisoned = true;
  return false;
}

static bool check_groups(tn_module *m, int64_t in, int64_t out, const tn_conv_module_options *o) {
  int64_t groups = o->groups ? o->groups : 1;
  if (groups >= 1 && in % groups == 0 && out % groups == 0) return true;
  fe_error(m->p, E_ARGUMENT, o->at,
           "module '%s' has %lld groups of %lld channels that become %lld: a number that divides both", m->path,
           (long long)groups, (long long)in, (long long)out);
  m->poisoned = true;
  return false;
}

static bool check_padding(tn_module *m, const FeConv *c) {
  if ((uint32_t)c->o.padding_mode > TN_PAD_CIRCULAR) return refuse(m, "no such padding mode", c->o.at);
  if (c->is_transposed && (c->o.same || c->o.padding_mode))
    return refuse(m, "a transposed convolution takes zeros of a given number as padding only", c->o.at);
  for (uint32_t k = 0; k < c->n_spatial && !c->is_transposed; k++)
    if (at_axis(c->o.output_padding, c->o.output_paddings, k))
      return refuse(m, "output padding is of transposed convolutions", c->o.at);
  for (uint32_t k = 0; k < c->n_spatial && c->o.same; k++)
    if (at_axis(c->o.stride, c->o.strides, k) > 1)
      return refuse(m, "padding `same` is possible with stride 1 only", c->o.at);
  return true;
}

static bool fill_kernel(tn_module *m, FeConv *c, int64_t kernel) {
  const int64_t most = 1 << 15;
  for (uint32_t k = 0; k < c->n_spatial; k++) {
    c->kernel[k] = at_axis(kernel, c->o.kernels, k);
    if (c->kernel[k] < 1 || c->kernel[k] > most)
      return refuse(m, "the kernel has between 1 and 32768 elements along each axis", c->o.at);
  }
  return true;
}

// Kaiming's uniform values with a slope of sqrt 5, as PyTorch draws them: below 1 / sqrt of the elements of one filter.
static void add_entries(tn_module *m, const FeConv *c, int64_t in, int64_t out) {
  int64_t groups = c->o.groups ? c->o.groups : 1, first = c->is_transposed ? in : out;
  int64_t d[5] = {first, (c->is_transposed ? out : in) / groups};
  double fan_in = (double)d[1];
  for (uint32_t k = 0; k < c->n_spatial; k++) d[2 + k] = c->kernel[k], fan_in *= (double)c->kernel[k];
  double most = 1 / sqrt(fan_in);
  tn_init init = {TN_INIT_UNIFORM, -most, most};
  fe_module_param(m, "weight", d, 2 + c->n_spatial, init, c->o.at);
  if (!c->o.no_bias) fe_module_param(m, "bias", &out, 1, init, c->o.at);
}

// ---- calls
static bool check_value(const tn_module *m, const FeConv *c, tn_tensor x, tn_site at) {
  static const char *const axes[] = {"", "L", "H,W", "D,H,W"};
  bool is_one = fe_rank(x) == c->n_spatial + 1;
  if ((is_one || fe_rank(x) == c->n_spatial + 2) && ir_list_at(m->p->ir, fe_shape_of(x), !is_one) == c->in) return true;
  fe_error(m->p, E_SHAPE, at, "module '%s' takes [N,%lld,%s], or one without N, not %s", m->path, (long long)c->in,
           axes[c->n_spatial], fe_type_text(x));
  fe_note_value(x, "the value");
  return false;
}

// Rows of packed sequences
static bool check_rows(const tn_module *m, const FeConv *c, tn_tensor x, tn_site at) {
  if (c->o.padding_mode) {
    fe_error(m->p, E_ARGUMENT, at, "module '%s' pads with more than zeros, which packed sequences do not have",
             m->path);
    return false;
  }
  if (ir_list_at(m->p->ir, fe_shape_of(x), 1) == c->in) return true;
  fe_error(m->p, E_SHAPE, at, "module '%s' takes packed rows of %lld channels, not %s", m->path, (long long)c->in,
           fe_type_text(x));
  fe_note_value(x, "the value");
  return false;
}

// x with its padding, where that is not of zeros: two numbers for each axis, those of the last axis first.
static tn_tensor padded(const FeConv *c, tn_tensor x, tn_conv_options *o) {
  int64_t pads[6];
  for (uint32_t k = 0; k < c->n_spatial; k++) {
    int64_t dilation = at_axis(o->dilation, o->dilations, k), before = at_axis(o->padding, o->paddings, k);
    int64_t total = o->same ? (dilation ? dilation : 1) * (c->kernel[k] - 1) : 2 * before;
    int64_t *out = pads + (size_t)2 * (c->n_spatial - 1 - k);
    out[0] = total / 2, out[1] = total - total / 2;
  }
  o->same = false, o->padding = 0;
  for (uint32_t k = 0; k < 3; k++) o->paddings[k] = 0;
  return fe_pad(x, pads, 2 * c->n_spatial, c->o.padding_mode, 0, o->at);
}

static tn_conv_options options_of(const FeConv *c, tn_site at) {
  const tn_conv_module_options *m = &c->o;
  tn_conv_options o = {.stride = m->stride,
                       .padding = m->padding,
                       .dilation = m->dilation,
                       .groups = m->groups,
                       .same = m->same,
                       .output_padding = m->output_padding,
                       .algorithm = m->algorithm,
                       .at = at};
  for (uint32_t k = 0; k < 3; k++) {
    o.strides[k] = m->strides[k], o.paddings[k] = m->paddings[k];
    o.dilations[k] = m->dilations[k], o.output_paddings[k] = m->output_paddings[k];
  }
  return o;
}

static tn_tensor convolve(tn_module *m, tn_tensor x, tn_site at) {
  const FeConv *c = m->config.conv;
  tn_conv_options o = options_of(c, at);
  const FeEntry *weight = fe_entry(m, "weight"), *bias = fe_entry(m, "bias");
  bool by_rows = c->n_spatial == 1 && !c->is_transposed && fe_rank(x) == 2 && fe_rows_of(x);
  if (!weight || !(by_rows ? check_rows(m, c, x, at) : check_value(m, c, x, at))) return fe_poison(x.fn);
  if (c->o.padding_mode && !by_rows) x = padded(c, x, &o);
  tn_tensor w = fe_read(x.fn, weight->param, at), b = bias ? fe_read(x.fn, bias->param, at) : (tn_tensor){0};
  if (by_rows) return fe_convolve_rows(x, w, b, o);
  return fe_ok(x) ? fe_convolve(c->n_spatial, c->is_transposed, x, w, b, o) : x;
}

static tn_module *make(tn_module *parent, const char *name, FeConv given, int64_t out, int64_t kernel) {
  static const char *const kinds[2][4] = {{"", "Conv1d", "Conv2d", "Conv3d"},
                                          {"", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"}};
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_built_in(parent, name, kinds[given.is_transposed][given.n_spatial], convolve, given.o.at);
  FeConv *c = rt_alloc(parent->p->mem, sizeof *c);
  *c = given;
  m->config.conv = c;
  bool good = fe_check_sizes(m, c->in, out, c->o.at) && check_groups(m, c->in, out, &c->o) && check_padding(m, c);
  if (good && fill_kernel(m, c, kernel)) add_entries(m, c, c->in, out);
  return m;
}

#define CONV(name, n_spatial, is_transposed)                                                      \
  tn_module *name(tn_module *parent, const char *called, int64_t in, int64_t out, int64_t kernel, \
                  tn_conv_module_options o) {                                                     \
    return make(parent, called, (FeConv){n_spatial, is_transposed, in, {0}, o}, out, kernel);     \
  }
CONV(tn_conv1d_module, 1, false)
CONV(tn_conv2d_module, 2, false)
CONV(tn_conv3d_module, 3, false)
CONV(tn_conv_transpose1d_module, 1, true)
CONV(tn_conv_transpose2d_module, 2, true)
CONV(tn_conv_transpose3d_module, 3, true)
