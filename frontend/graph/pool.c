// Pooling, composed of strided slices: along one axis after the other, element j of every window is one slice, and what is
// pointwise of slices is one kernel. Channels come last, as in convolutions (graph/conv.c), so that vectors are of channels.
//
//   max pool 2x2 of [N, H, W, C]:   max (x[.., 0::2, :]) (x[.., 1::2, :]),   and the same along H
//
// The last axis comes first: of equal maxima the first in the order of memory has the gradient, as in PyTorch.
#include "frontend/fe.h"

#include <math.h>

enum { AXES = 3, MOST_KERNEL = 256 };

typedef struct {
  tn_function *f;
  uint32_t spatial;
  bool is_max, ceil;
  int64_t in[AXES], out[AXES], kernel[AXES], stride[AXES], padding[AXES], dilation[AXES];
  tn_site at;
} Pool;

static tn_tensor op2(const Pool *p, Op op, tn_tensor a, tn_tensor b) {
  return fe_ok(a) && fe_ok(b) ? fe_emit2(op, a, b, p->at) : fe_poison(p->f);
}
static tn_tensor number(const Pool *p, double v) { return fe_const(p->f, v, p->at); }
static Dim dim(const Pool *p, int64_t n) { return ir_dim(p->f->p->ir, n); }

// ---- what is asked for
static void fill(int64_t *out, uint32_t n, int64_t all, const int64_t *each, const int64_t *otherwise) {
  bool has_each = each[0] || each[1] || each[2];
  for (uint32_t k = 0; k < n; k++) {
    out[k] = has_each ? each[k] : all;
    if (!out[k] && otherwise) out[k] = otherwise[k];
  }
}

static bool refuse(const Pool *p, const char *text) {
  fe_error(p->f->p, E_ARGUMENT, p->at, "%s", text);
  return false;
}

static bool read_sizes(Pool *p, tn_tensor x) {
  bool good = fe_rank(x) == p->spatial + 2 && fe_ins(x)->dtype == DT_F32;
  for (uint32_t k = 1; good && k < p->spatial + 2; k++) good = ir_dim_is_const(p->f->p->ir, fe_axis_dim(x, k));
  for (uint32_t k = 0; good && k < p->spatial; k++) p->in[k] = ir_dim_bound(p->f->p->ir, fe_axis_dim(x, k + 2));
  if (good) return true;
  fe_error(
      p->f->p, E_SHAPE, p->at,
      "pooling over %u spatial axes takes f32 with images, channels and those, all but the first of constant sizes, "
      "not %s",
      p->spatial, fe_type_text(x));
  fe_note_value(x, "the value");
  return false;
}

static bool find_positions(Pool *p, uint32_t k) {
  int64_t reach = p->dilation[k] * (p->kernel[k] - 1) + 1, room = p->in[k] + 2 * p->padding[k] - reach;
  if (room < 0) {
    fe_error(p->f->p, E_SHAPE, p->at,
             "a window of %lld elements is longer than spatial axis %u of %lld, with its padding", (long long)reach, k,
             (long long)p->in[k]);
    return false;
  }
  p->out[k] = (room + (p->ceil ? p->stride[k] - 1 : 0)) / p->stride[k] + 1;
  if (p->ceil && (p->out[k] - 1) * p->stride[k] >= p->in[k] + p->padding[k]) p->out[k]--;
  return true;
}

static bool read_options(Pool *p, int64_t kernel, const tn_pool_options *o) {
  const int64_t one[AXES] = {1, 1, 1}, most = 1 << 20;
  fill(p->kernel, p->spatial, kernel, o->kernels, NULL);
  fill(p->stride, p->spatial, o->stride, o->strides, p->kernel);
  fill(p->padding, p->spatial, o->padding, o->paddings, NULL);
  fill(p->dilation, p->spatial, o->dilation, o->dilations, one);
  p->ceil = o->ceil;
  for (uint32_t k = 0; k < p->spatial; k++) {
    if (p->kernel[k] < 1 || p->kernel[k] > MOST_KERNEL)
      return refuse(p, "a window of pooling has between 1 and 256 elements along each axis");
    if (p->stride[k] < 1 || p->stride[k] > most || p->dilation[k] < 1 || p->dilation[k] > most)
      return refuse(p, "stride and dilation of pooling lie between 1 and 2^20");
    if (!p->is_max && p->dilation[k] != 1) return refuse(p, "only maxima are pooled with a dilation");
    if (p->padding[k] < 0 || p->padding[k] > p->kernel[k] / 2)
      return refuse(p, "the padding of pooling lies between 0 and half of the kernel");
    if (!find_positions(p, k)) return false;
  }
  if (o->divisor < 0 || (p->is_max && (o->divisor || o->exclude_padding)))
    return refuse(p, "a divisor, which is above 0, and padding that does not count are of averages");
  return true;
}

// ---- channels last
static tn_tensor permuted(const Pool *p, tn_tensor x, bool channels_last) {
  uint32_t order[MAX_RANK] = {0}, last = p->spatial + 1;
  for (uint32_t k = 1; k <= last; k++) order[k] = channels_last ? (k == last ? 1 : k + 1) : (k == 1 ? last : k - 1);
  return fe_ok(x) ? fe_permute(x, order, p->at) : x;
}

static tn_tensor padded(const Pool *p, tn_tensor x) {
  int64_t pads[2 * (AXES + 1)] = {0};
  for (uint32_t k = 0; k < p->spatial; k++) {
    int64_t end = (p->out[k] - 1) * p->stride[k] + p->dilation[k] * (p->kernel[k] - 1) + 1;
    int64_t missing = end - p->padding[k] - p->in[k], *of_axis = pads + (size_t)2 * (p->spatial - k);
    of_axis[0] = p->padding[k];
    of_axis[1] = missing > 0 ? missing : 0;
  }
  return fe_pad(x, pads, 2 * (p->spatial + 1), TN_PAD_CONSTANT, p->is_max ? -INFINITY : 0, p->at);
}

// ---- windows along one axis
static tn_tensor combined(const Pool *p, tn_tensor a, tn_tensor b) { return op2(p, p->is_max ? OP_max : OP_add, a, b); }

static tn_tensor whole_axis(const Pool *p, tn_tensor x, uint32_t k) {
  int axis = (int)k + 1;
  return fe_sum(x, &axis, 1, true, p->at);
}

static tn_tensor windows(const Pool *p, tn_tensor x, uint32_t k) {
  if (!fe_ok(x) || (p->kernel[k] == 1 && p->stride[k] == 1)) return x;
  bool is_whole = p->out[k] == 1 && ir_dim_bound(p->f->p->ir, fe_axis_dim(x, k + 1)) == p->kernel[k];
  if (is_whole && !p->is_max) return whole_axis(p, x, k);
  tn_tensor y = {0};
  for (int64_t j = 0; j < p->kernel[k]; j++) {
    Dim from = dim(p, j * p->dilation[k]);
    tn_tensor part = fe_strided(x, k + 1, from, dim(p, p->out[k]), p->stride[k], false, p->at);
    y = j ? combined(p, y, part) : part;
  }
  return y;
}

static tn_tensor all_windows(const Pool *p, tn_tensor x) {
  for (uint32_t k = p->spatial; k-- > 0;) x = windows(p, x, k);
  return x;
}

// ---- averages
// Elements of each window along axis k, [positions, 1, ..]: those of the padding too, or without them; behind the padding
// there is none.
static tn_tensor counts(const Pool *p, uint32_t k, bool exclude_padding) {
  int64_t before = exclude_padding ? 0 : p->padding[k], end = p->in[k] + before;
  tn_tensor at = fe_positions(p->f, dim(p, p->out[k]), p->at);
  tn_tensor first =
      op2(p, OP_sub, op2(p, OP_mul, at, number(p, (double)p->stride[k])), number(p, (double)p->padding[k]));
  tn_tensor last = op2(p, OP_min, op2(p, OP_add, first, number(p, (double)p->kernel[k])), number(p, (double)end));
  tn_tensor n = op2(p, OP_sub, last, op2(p, OP_max, first, number(p, -(double)before)));
  Dim d[AXES + 1] = {dim(p, p->out[k]), dim(p, 1), dim(p, 1), dim(p, 1)};
  return fe_ok(n) ? fe_reshape(n, d, p->spatial - k + 1, p->at) : n;
}

static bool is_even(const Pool *p, uint32_t k, bool exclude_padding) {
  int64_t end = (p->out[k] - 1) * p->stride[k] + p->kernel[k];
  return end <= p->in[k] + p->padding[k] + (exclude_padding ? 0 : p->padding[k]) &&
         (!exclude_padding || !p->padding[k]);
}

static tn_tensor divided(const Pool *p, tn_tensor sum, bool exclude_padding, int64_t divisor) {
  double n = 1;
  tn_tensor several = {0};
  for (uint32_t k = 0; k < p->spatial && !divisor; k++) {
    if (is_even(p, k, exclude_padding)) {
      n *= (double)p->kernel[k];
      continue;
    }
    tn_tensor c = counts(p, k, exclude_padding);
    several = several.fn ? op2(p, OP_mul, several, c) : c;
  }
  if (divisor) n = (double)divisor;
  if (several.fn) sum = op2(p, OP_div, sum, n == 1 ? several : op2(p, OP_mul, several, number(p, n)));
  else if (n != 1) sum = op2(p, OP_div, sum, number(p, n));
  return sum;
}

static tn_tensor pooled(Pool *p, tn_tensor x, const tn_pool_options *o) {
  tn_tensor y = all_windows(p, padded(p, permuted(p, x, true)));
  if (!p->is_max) y = divided(p, y, o->exclude_padding, o->divisor);
  return permuted(p, y, false);
}

static tn_tensor pool(const char *call, uint32_t spatial, bool is_max, tn_tensor x, int64_t kernel, tn_pool_options o) {
  Pool p = {.spatial = spatial, .is_max = is_max, .at = o.at};
  if (!fe_join_for(call, &x, 1, &p.f, o.at)) return fe_poison(p.f);
  FE_GUARD_AS(p.f->p, fe_poison(p.f), call);
  if (!read_sizes(&p, x) || !read_options(&p, kernel, &o)) return fe_poison(p.f);
  tn_tensor y = pooled(&p, x, &o);
  return fe_made_by(call, fe_ok(y) && y.v == x.v ? fe_same(x, o.at) : y, o.at);
}

#define POOL(name, spatial, is_max)                                \
  tn_tensor name(tn_tensor x, int64_t kernel, tn_pool_options o) { \
    return pool(__func__, spatial, is_max, x, kernel, o);          \
  }
POOL(tn_max_pool1d, 1, true)
POOL(tn_max_pool2d, 2, true)
POOL(tn_max_pool3d, 3, true)
POOL(tn_avg_pool1d, 1, false)
POOL(tn_avg_pool2d, 2, false)
POOL(tn_avg_pool3d, 3, false)

// ---- norms: (mean x^p, times the kernel's elements)^(1/p), so that windows that are cut count as PyTorch's do
static tn_tensor norms(const char *call, uint32_t spatial, tn_tensor x, double power, int64_t kernel,
                       tn_pool_options o) {
  Pool p = {.spatial = spatial, .at = o.at};
  if (!fe_join_for(call, &x, 1, &p.f, o.at)) return fe_poison(p.f);
  FE_GUARD_AS(p.f->p, fe_poison(p.f), call);
  if (!read_sizes(&p, x) || !read_options(&p, kernel, &o)) return fe_poison(p.f);
  bool is_padded = o.padding || o.paddings[0] || o.paddings[1] || o.paddings[2];
  if (!(power > 0) || is_padded || o.divisor || o.exclude_padding)
    return refuse(&p, "norms of windows take an order above 0, and no padding or divisor"), fe_poison(p.f);
  double n = 1;
  for (uint32_t k = 0; k < spatial; k++) n *= (double)p.kernel[k];
  tn_tensor y = pooled(&p, op2(&p, OP_pow, x, number(&p, power)), &o);
  y = op2(&p, OP_mul, y, number(&p, n));
  return fe_made_by(call, op2(&p, OP_pow, y, number(&p, 1 / power)), o.at);
}

#define NORM(name, spatial)                                                      \
  tn_tensor name(tn_tensor x, double power, int64_t kernel, tn_pool_options o) { \
    return norms(__func__, spatial, x, power, kernel, o);                        \
  }
NORM(tn_lp_pool1d, 1)
NORM(tn_lp_pool2d, 2)
NORM(tn_lp_pool3d, 3)

// ---- to a given size
static tn_tensor one_window(const Pool *p, tn_tensor x, uint32_t k, int64_t position) {
  int64_t from = position * p->in[k] / p->out[k], end = ((position + 1) * p->in[k] + p->out[k] - 1) / p->out[k];
  tn_tensor y = {0};
  if (!p->is_max) {
    int axis = (int)k + 1;
    return fe_mean(fe_slice(x, k + 1, from, end - from, p->at), &axis, 1, true, p->at);
  }
  for (int64_t j = from; j < end; j++) {
    tn_tensor part = fe_slice(x, k + 1, j, 1, p->at);
    y = y.fn ? combined(p, y, part) : part;
  }
  return y;
}

static tn_tensor uneven(const Pool *p, tn_tensor x, uint32_t k) {
  tn_tensor part[MOST_KERNEL];
  for (int64_t j = 0; j < p->out[k]; j++) {
    part[j] = one_window(p, x, k, j);
    if (!fe_ok(part[j])) return part[j];
  }
  return fe_concat(part, (uint32_t)p->out[k], k + 1, p->at);
}

static tn_tensor to_size(Pool *p, tn_tensor x) {
  tn_tensor y = permuted(p, x, true);
  for (uint32_t k = p->spatial; k-- > 0 && fe_ok(y);) {
    p->kernel[k] = p->stride[k] = p->in[k] / p->out[k], p->dilation[k] = 1;
    bool divides = p->in[k] % p->out[k] == 0;
    y = divides ? windows(p, y, k) : uneven(p, y, k);
    if (divides && !p->is_max && p->kernel[k] != 1) y = op2(p, OP_div, y, number(p, (double)p->kernel[k]));
  }
  return permuted(p, y, false);
}

static bool check_positions(const Pool *p) {
  for (uint32_t k = 0; k < p->spatial; k++) {
    bool is_long = p->in[k] / (p->out[k] > 0 ? p->out[k] : 1) > MOST_KERNEL && (p->is_max || p->out[k] != 1);
    if (p->out[k] < 1 || p->out[k] > MOST_KERNEL || p->in[k] < 1 || is_long)
      return refuse(
          p,
          "pooling to a size takes axes of 1 element or more to between 1 and 256 positions, of 256 elements at most");
  }
  return true;
}

static tn_tensor adaptive(const char *call, bool is_max, tn_tensor x, const int64_t *out, uint32_t spatial,
                          tn_site at) {
  Pool p = {.spatial = spatial, .is_max = is_max, .at = at};
  if (!fe_join_for(call, &x, 1, &p.f, at)) return fe_poison(p.f);
  FE_GUARD_AS(p.f->p, fe_poison(p.f), call);
  for (uint32_t k = 0; k < spatial; k++) p.out[k] = out[k];
  if (!read_sizes(&p, x) || !check_positions(&p)) return fe_poison(p.f);
  return fe_made_by(call, to_size(&p, x), at);
}

#define ADAPTIVE(kind, is_max)                                                                                   \
  tn_tensor tn_adaptive_##kind##_pool1d(tn_tensor x, int64_t width, tn_site at) {                                \
    return adaptive(__func__, is_max, x, &width, 1, at);                                                         \
  }                                                                                                              \
  tn_tensor tn_adaptive_##kind##_pool2d(tn_tensor x, int64_t height, int64_t width, tn_site at) {                \
    return adaptive(__func__, is_max, x, (const int64_t[]){height, width}, 2, at);                               \
  }                                                                                                              \
  tn_tensor tn_adaptive_##kind##_pool3d(tn_tensor x, int64_t depth, int64_t height, int64_t width, tn_site at) { \
    return adaptive(__func__, is_max, x, (const int64_t[]){depth, height, width}, 3, at);                        \
  }
ADAPTIVE(avg, false)
ADAPTIVE(max, true)
