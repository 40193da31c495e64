// Convolutions: PyTorch's calls with channels first, on ops whose channels come last (ir/conv.h). The permutations between
// are the compiler's to remove.
#include "ir/conv.h"
#include "frontend/graph/image.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/report.h"
#include "frontend/graph/shape.h"
#include "frontend/graph/spatial.h"

_Static_assert((int)TN_CONV_WINOGRAD == (int)CONV_WINOGRAD && TN_CONV_WINOGRAD + 1 == N_CONV_ALGORITHMS,
               "the public names stand in the order of ConvAlgorithm");

typedef struct {
  tn_function *f;
  uint32_t spatial;
  int64_t stride[CONV_AXES], padding[2 * CONV_AXES], dilation[CONV_AXES], extra[CONV_AXES];  // padding as {pad} has it
  int64_t groups;
  ConvAlgorithm algorithm;
  tn_site at;
} ConvCall;

// ---- options
static bool check_option(const ConvCall *c, const char *name, const int64_t *v, int64_t least) {
  const int64_t most = 1 << 20;
  for (uint32_t k = 0; k < c->spatial; k++) {
    if (v[k] >= least && v[k] <= most) continue;
    fe_error(c->f->p, E_ARGUMENT, c->at, "%s must be in [%lld, %lld], not %lld", name, (long long)least,
             (long long)most, (long long)v[k]);
    return false;
  }
  return true;
}

static bool pad_same(ConvCall *c, tn_tensor weight) {
  for (uint32_t k = 0; k < c->spatial; k++) {
    int64_t total = c->dilation[k] * (ir_dim_bound(c->f->p->ir, fe_axis_dim(weight, 2 + k)) - 1);
    if (c->stride[k] != 1) {
      fe_error(c->f->p, E_ARGUMENT, c->at, "padding `same` is possible with stride 1 only, not %lld",
               (long long)c->stride[k]);
      return false;
    }
    c->padding[k] = total / 2, c->padding[c->spatial + k] = total - total / 2;
  }
  return true;
}

static bool check_algorithm(const ConvCall *c, tn_conv_algorithm a) {
  if ((uint32_t)a <= TN_CONV_WINOGRAD) return true;
  fe_error(c->f->p, E_ARGUMENT, c->at,
           "the algorithm of a convolution is TN_CONV_AUTO, TN_CONV_EXACT or TN_CONV_WINOGRAD");
  return false;
}

// What only one of both directions has
static bool check_direction(const ConvCall *c, bool is_transposed, const tn_conv_options *o) {
  const char *what = NULL;
  if (is_transposed && o->same) what = "padding `same` is not for transposed convolutions";
  for (uint32_t k = 0; k < c->spatial && !is_transposed; k++)
    if (c->extra[k]) what = "output padding is for transposed convolutions";
  if (what) fe_error(c->f->p, E_ARGUMENT, c->at, "%s", what);
  return !what;
}

static bool read_options(ConvCall *c, tn_conv_options o, tn_tensor weight) {
  int64_t one[CONV_AXES] = {o.groups ? o.groups : 1, 1, 1};
  fe_fill_axes(c->stride, c->spatial, o.stride ? o.stride : 1, o.strides, NULL);
  fe_fill_axes(c->dilation, c->spatial, o.dilation ? o.dilation : 1, o.dilations, NULL);
  fe_fill_axes(c->padding, c->spatial, o.padding, o.paddings, NULL);
  fe_fill_axes(c->padding + c->spatial, c->spatial, o.padding, o.paddings, NULL);
  fe_fill_axes(c->extra, c->spatial, o.output_padding, o.output_paddings, NULL);
  c->groups = one[0], c->algorithm = (ConvAlgorithm)o.algorithm;
  return check_option(c, "the stride", c->stride, 1) && check_option(c, "the dilation", c->dilation, 1) &&
         check_option(c, "the padding", c->padding, 0) && check_option(c, "the output padding", c->extra, 0) &&
         check_option(c, "the number of groups", one, 1) && check_algorithm(c, o.algorithm) &&
         (!o.same || pad_same(c, weight));
}

// ---- shapes
static bool check_ranks(const ConvCall *c, tn_tensor x, tn_tensor weight, tn_tensor bias) {
  uint32_t want = c->spatial + 2;
  const char *what = fe_rank(x) != want ? "x" : fe_rank(weight) != want ? "the weight" : NULL;
  if (what) {
    fe_error(c->f->p, E_SHAPE, c->at, "%s of a convolution over %u spatial axes must have %u axes, not %u", what,
             c->spatial, want, fe_rank(what[0] == 'x' ? x : weight));
    return false;
  }
  if (bias.fn && fe_rank(bias) != 1) {
    fe_error(c->f->p, E_SHAPE, c->at, "the bias of a convolution must have 1 axis, not %u", fe_rank(bias));
    return false;
  }
  return true;
}

static int64_t size_of(tn_tensor t, uint32_t axis) {
  Prog *p = t.fn->p->ir;
  Dim d = fe_axis_dim(t, axis);
  return ir_dim_is_const(p, d) ? ir_dim_bound(p, d) : -1;
}

static void note_operands(tn_tensor x, tn_tensor weight, tn_tensor bias) {
  fe_note_value(x, "x");
  fe_note_value(weight, "the weight");
  if (bias.fn) fe_note_value(bias, "the bias");
}

// By the shapes that the caller knows; the op has channels last. weight: [O, C / groups, ..], transposed [C, O / groups, ..]
static bool check_sizes(const ConvCall *c, bool is_transposed, tn_tensor x, tn_tensor weight, tn_tensor bias) {
  int64_t channels = size_of(x, 1), first = size_of(weight, 0), second = size_of(weight, 1), g = c->groups;
  int64_t in = is_transposed ? first : second * g, out = is_transposed ? second * g : first;
  if (channels < 0 || first < 0 || second < 0) return true;  // the op refuses sizes of the run
  bool is_biased = !bias.fn || size_of(bias, 0) == out, is_divided = first % g == 0;
  bool fits = channels == in && is_divided && is_biased;
  if (!fits) {
    fe_error(c->f->p, E_SHAPE, c->at, "x has %lld channels, a weight %s of %lld group%s takes %lld and gives %lld%s",
             (long long)channels, fe_type_text(weight), (long long)g, g == 1 ? "" : "s", (long long)in, (long long)out,
             !is_divided ? ", which wants its first axis divided by the groups"
             : is_biased ? ""
                         : ", as many as the bias must have");
    note_operands(x, weight, bias);
    fe_hint(c->f->p, is_transposed ? "x is [N, C, ..], the weight [C, O / groups, ..], the bias [O]"
                                   : "x is [N, C, ..], the weight [O, C / groups, ..], the bias [O]");
  }
  for (uint32_t k = 0; fits && !is_transposed && k < c->spatial; k++) {
    int64_t n = size_of(x, 2 + k) + c->padding[k] + c->padding[c->spatial + k], kernel = size_of(weight, 2 + k);
    if (size_of(x, 2 + k) < 0 || kernel < 1 || c->dilation[k] * (kernel - 1) < n) continue;
    fe_error(c->f->p, E_SHAPE, c->at,
             "a window of %lld elements is longer than spatial axis %u, which has %lld with its padding",
             (long long)(c->dilation[k] * (kernel - 1) + 1), k, (long long)n);
    note_operands(x, weight, (tn_tensor){0});
    fits = false;
  }
  return fits;
}

static uint32_t attributes(const ConvCall *c, Attr *attr) {
  Prog *p = c->f->p->ir;
  attr[0] = ir_a_list(KEY_stride, ir_shape_ints(p, c->stride, c->spatial));
  attr[1] = ir_a_list(KEY_pad, ir_shape_ints(p, c->padding, 2 * c->spatial));
  attr[2] = ir_a_list(KEY_dilation, ir_shape_ints(p, c->dilation, c->spatial));
  attr[3] = ir_a_int(KEY_groups, c->groups);
  const char *algorithm = ir_conv_algorithm_name(c->algorithm);
  if (algorithm) attr[4] = ir_a_str(KEY_algorithm, ir_str(p, algorithm));
  return algorithm ? 5 : 4;
}

// A window of one element that moves by one: a product of pixels with a matrix.
static bool is_pointwise(const ConvCall *c, tn_tensor weight) {
  if (c->groups != 1 || c->algorithm == CONV_WINOGRAD) return false;
  for (uint32_t k = 0; k < c->spatial; k++) {
    bool one = ir_dim_is_one(c->f->p->ir, fe_axis_dim(weight, 2 + k));
    if (!one || c->stride[k] != 1 || c->padding[k] || c->padding[c->spatial + k]) return false;
  }
  return true;
}

static tn_tensor forward(const ConvCall *c, tn_tensor x, tn_tensor weight) {
  Attr attr[5];
  uint32_t n = attributes(c, attr);
  if (!is_pointwise(c, weight)) return fe_emit(OP_conv, (tn_tensor[]){x, weight}, 2, attr, n, c->at);
  Dim d[2] = {fe_axis_dim(weight, 0), fe_axis_dim(weight, 1)};
  return fe_emit2(OP_linear, x, fe_reshape(weight, d, 2, c->at), c->at);
}

// The op is the gradient of a convolution that has as many positions as x has elements: of an output padding below the stride
// whatever it is, of a larger one, where windows reach across more, if the padding behind is so much less.
static bool place_extra(ConvCall *c, uint32_t k, int64_t *behind) {
  int64_t stride = c->stride[k], extra = c->extra[k], *back = &c->padding[c->spatial + k];
  if (extra && extra >= stride && extra >= c->dilation[k]) {
    fe_error(c->f->p, E_ARGUMENT, c->at,
             "an output padding of %lld along spatial axis %u must be below the stride, %lld, or the dilation, %lld",
             (long long)extra, k, (long long)stride, (long long)c->dilation[k]);
    return false;
  }
  *behind = 0;
  if (extra < stride) return true;
  *behind = extra > *back ? extra - *back : 0;
  *back -= extra - *behind;
  c->extra[k] = 0;
  return true;
}

static bool find_transposed_size(const ConvCall *c, uint32_t k, tn_tensor x, tn_tensor weight, Dim *size) {
  Prog *p = c->f->p->ir;
  Dim in = fe_axis_dim(x, 1 + k);
  int64_t reach = c->dilation[k] * (ir_dim_bound(p, fe_axis_dim(weight, 2 + k)) - 1) + 1;
  int64_t more = reach - c->stride[k] - c->padding[k] - c->padding[c->spatial + k] + c->extra[k];
  *size = ir_dim_add(p, ir_dim_mul(p, in, ir_dim(p, c->stride[k])), ir_dim(p, more));
  ir_dim_computed_at(p, *size, fe_loc(c->f->p, c->at));
  if (ir_dim_most(p, *size) >= 0) return true;
  fe_error(c->f->p, E_ARGUMENT, c->at,
           "a transposed convolution of %lld elements along spatial axis %u would give %lld, with a padding of %lld",
           (long long)ir_dim_bound(p, in), k, (long long)ir_dim_most(p, *size), (long long)c->padding[k]);
  return false;
}

static tn_tensor transposed(ConvCall *c, tn_tensor x, tn_tensor weight) {
  Prog *p = c->f->p->ir;
  Attr attr[6];
  Dim size[CONV_AXES] = {{0}};
  int64_t behind[CONV_AXES] = {0}, pads[2 * CONV_AXES + 2] = {0};
  bool is_padded = false;
  for (uint32_t k = 0; k < c->spatial && fe_ok(x); k++) {
    if (!place_extra(c, k, &behind[k]) || !find_transposed_size(c, k, x, weight, &size[k])) return fe_poison(c->f);
    pads[2 * (c->spatial - k) + 1] = behind[k];  // of the last axis, the channels, first: none
    is_padded |= behind[k] > 0;
  }
  uint32_t n = attributes(c, attr);
  attr[n++] = ir_a_list(KEY_shape, ir_shape(p, size, c->spatial));
  tn_tensor y = fe_emit(OP_conv_transpose, (tn_tensor[]){x, weight}, 2, attr, n, c->at);
  return is_padded && fe_ok(y) ? fe_pad(y, pads, 2 * c->spatial + 2, TN_PAD_CONSTANT, 0, c->at) : y;
}

tn_tensor fe_convolve(uint32_t spatial, bool is_transposed, tn_tensor x, tn_tensor weight, tn_tensor bias,
                      tn_conv_options o) {
  ConvCall c = {.f = x.fn, .spatial = spatial, .at = o.at};
  tn_tensor batch = fe_batch_of(x, spatial, o.at);
  if (!check_ranks(&c, batch, weight, bias) || !read_options(&c, o, weight) || !check_direction(&c, is_transposed, &o))
    return fe_poison(c.f);
  if (!check_sizes(&c, is_transposed, batch, weight, bias)) return fe_poison(c.f);
  tn_tensor last = fe_channels_last(batch, o.at);
  tn_tensor y = is_transposed ? transposed(&c, last, weight) : forward(&c, last, weight);
  if (bias.fn) y = fe_binary(OP_add, y, bias, o.at);
  return fe_like_batch_of(fe_channels_first(y, o.at), x, spatial, o.at);
}

bool fe_conv_window(tn_tensor weight, tn_conv_options o, FeWindow *out) {
  ConvCall c = {.f = weight.fn, .spatial = 1, .at = o.at};
  if (!read_options(&c, o, weight)) return false;
  if (o.algorithm == TN_CONV_WINOGRAD) {
    fe_error(c.f->p, E_ARGUMENT, o.at, "Winograd's algorithm is for windows of 3 x 3, not along packed sequences");
    return false;
  }
  int64_t taps = ir_dim_bound(c.f->p->ir, fe_axis_dim(weight, 2));
  *out = (FeWindow){taps, c.stride[0], c.dilation[0], c.padding[0], c.padding[1], c.groups};
  return true;
}

static tn_tensor convolve(const char *call, uint32_t spatial, bool is_transposed, tn_tensor x, tn_tensor weight,
                          tn_tensor bias, tn_conv_options o) {
  tn_function *f;
  tn_tensor of[3] = {x, weight, bias};
  if (!fe_join_for(call, of, bias.fn ? 3 : 2, &f, o.at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  return fe_made_by(call, fe_convolve(spatial, is_transposed, x, weight, bias, o), o.at);
}

#define CONV(name, spatial, is_transposed)                                           \
  tn_tensor name(tn_tensor x, tn_tensor weight, tn_tensor bias, tn_conv_options o) { \
    return convolve(__func__, spatial, is_transposed, x, weight, bias, o);           \
  }
CONV(tn_conv1d, 1, false)
CONV(tn_conv2d, 2, false)
CONV(tn_conv3d, 3, false)
CONV(tn_conv_transpose1d, 1, true)
CONV(tn_conv_transpose2d, 2, true)
CONV(tn_conv_transpose3d, 3, true)
