// Pooling: PyTorch's calls with channels first, on ops whose channels come last (ir/pool.h). An average is a sum of windows
// over their number of elements: a number where all windows have as many, else a value of [positions.., 1].
#include "ir/pool.h"
#include "frontend/graph/image.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/reduce.h"
#include "frontend/graph/report.h"
#include "frontend/graph/shape.h"
#include "frontend/graph/spatial.h"
#include "ir/resize.h"

#include <math.h>

enum { MOST_KERNEL = 1 << 15, MOST_POSITIONS = 1 << 24 };

typedef struct {
  tn_function *f;
  uint32_t n_spatial;
  bool is_max, ceil, shares;  // shares: positions share each axis out, and kernel, stride, .. mean nothing
  Dim in[SPATIAL_AXES], out[SPATIAL_AXES];
  int64_t kernel[SPATIAL_AXES], stride[SPATIAL_AXES], padding[SPATIAL_AXES], dilation[SPATIAL_AXES];
  tn_site at;
} PoolCall;

static bool refuse(const PoolCall *p, const char *text) {
  fe_error(p->f->p, E_ARGUMENT, p->at, "%s", text);
  return false;
}

static Prog *ir_of(const PoolCall *p) { return p->f->p->ir; }
static Dim dim(const PoolCall *p, int64_t n) { return ir_dim(ir_of(p), n); }
static Dim plus(const PoolCall *p, Dim a, int64_t n) { return ir_dim_add(ir_of(p), a, dim(p, n)); }
static int64_t const_in(const PoolCall *p, uint32_t k) {
  return ir_dim_is_const(ir_of(p), p->in[k]) ? ir_dim_bound(ir_of(p), p->in[k]) : -1;
}

// ---- what is asked for
static bool read_sizes(PoolCall *p, tn_tensor x) {
  bool good = fe_rank(x) == p->n_spatial + 2 && fe_ins(x)->dtype == DT_F32;
  for (uint32_t k = 0; good && k < p->n_spatial; k++) {
    p->in[k] = fe_axis_dim(x, k + 2);
    good = const_in(p, k) != 0;
  }
  if (good) return true;
  fe_error(p->f->p, E_SHAPE, p->at,
           "pooling over %u spatial axes takes f32 with images, channels and those, of at least one element, not %s",
           p->n_spatial, fe_type_text(x));
  fe_note_value(x, "the value");
  return false;
}

// (in + room) / stride + 1, rounded down, where the last window of all elements lies `room` behind the last element. One that
// is cut off may be up to stride - 1 behind that, but begins before the padding behind.
static bool find_positions(PoolCall *p, uint32_t k) {
  int64_t reach = p->dilation[k] * (p->kernel[k] - 1) + 1, stride = p->stride[k], in = const_in(p, k);
  int64_t room = 2 * p->padding[k] - reach;
  if (p->ceil) room = room + stride < p->padding[k] ? room + stride - 1 : p->padding[k] - 1;
  p->out[k] = ir_dim_div(ir_of(p), plus(p, p->in[k], room + stride), dim(p, stride));
  if (ir_dim_most(ir_of(p), p->out[k]) >= (in < 0 ? 0 : 1)) return true;
  if (in < 0)
    fe_error(p->f->p, E_SHAPE, p->at,
             "a window of %lld elements is longer than spatial axis %u, by its bound and with its padding",
             (long long)reach, k);
  else
    fe_error(p->f->p, E_SHAPE, p->at,
             "a window of %lld elements is longer than spatial axis %u of %lld, with its padding", (long long)reach, k,
             (long long)in);
  return false;
}

static bool read_options(PoolCall *p, int64_t kernel, const tn_pool_options *o) {
  const int64_t one[SPATIAL_AXES] = {1, 1, 1}, most = 1 << 20;
  fe_fill_axes(p->kernel, p->n_spatial, kernel, o->kernels, NULL);
  fe_fill_axes(p->stride, p->n_spatial, o->stride, o->strides, p->kernel);
  fe_fill_axes(p->padding, p->n_spatial, o->padding, o->paddings, NULL);
  fe_fill_axes(p->dilation, p->n_spatial, o->dilation, o->dilations, one);
  p->ceil = o->ceil;
  for (uint32_t k = 0; k < p->n_spatial; k++) {
    if (p->kernel[k] < 1 || p->kernel[k] > MOST_KERNEL)
      return refuse(p, "a window of pooling has between 1 and 32768 elements along each axis");
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

// ---- the op: of x with its channels last
// Do sums share the image out, an element to one position or at most two along an axis? Where windows touch and lie near each other
// they are those of a pool.
static bool are_boxes(const PoolCall *p) {
  bool all = !p->is_max, far = p->shares;
  for (uint32_t k = 0; k < p->n_spatial; k++) {
    int64_t in = const_in(p, k), out = ir_dim_is_const(ir_of(p), p->out[k]) ? ir_dim_bound(ir_of(p), p->out[k]) : 0;
    all &= in > 0 && out > 0 && in <= RESIZE_MOST && out <= RESIZE_MOST;
    if (!p->shares) all &= p->kernel[k] == p->stride[k] && !p->padding[k] && in == out * p->kernel[k];
    far |= k + 1 == p->n_spatial && p->stride[k] > POOL_MOST_STRIDE;
  }
  return all && far;
}

static tn_tensor boxes(const PoolCall *p, tn_tensor x, double divisor) {
  Attr attr[] = {ir_a_list(KEY_shape, ir_shape(ir_of(p), p->out, p->n_spatial)),
                 ir_a_str(KEY_filter, ir_str(ir_of(p), "box"))};
  tn_tensor y = fe_emit(OP_resize, &x, 1, attr, 2, p->at);
  return divisor == 1 ? y : fe_with_number(OP_div, y, divisor, p->at);
}

static tn_tensor pooled(const PoolCall *p, tn_tensor x, double divisor) {
  if (!fe_ok(x)) return x;
  if (are_boxes(p)) return boxes(p, x, divisor);
  Prog *prog = ir_of(p);
  Attr attr[6] = {ir_a_list(KEY_shape, ir_shape(prog, p->out, p->n_spatial))};
  uint32_t n = 1;
  if (divisor != 1) attr[n++] = ir_a_num(KEY_divisor, divisor);
  if (!p->shares) {
    attr[n++] = ir_a_list(KEY_kernel, ir_shape_ints(prog, p->kernel, p->n_spatial));
    attr[n++] = ir_a_list(KEY_stride, ir_shape_ints(prog, p->stride, p->n_spatial));
    attr[n++] = ir_a_list(KEY_pad, ir_shape_ints(prog, p->padding, p->n_spatial));
    if (p->is_max) attr[n++] = ir_a_list(KEY_dilation, ir_shape_ints(prog, p->dilation, p->n_spatial));
  }
  return fe_emit(p->is_max ? OP_max_pool : OP_sum_pool, &x, 1, attr, n, p->at);
}

// ---- numbers of elements
static tn_tensor size_of(const PoolCall *p, Dim d) { return fe_size(p->f, d, p->at); }

// Of each window along axis k, [positions]: elements of the padding too, or without them; behind the padding there is none.
static tn_tensor windows_along(const PoolCall *p, uint32_t k, bool exclude_padding) {
  double before = exclude_padding ? 0 : (double)p->padding[k];
  tn_tensor first = fe_with_number(OP_mul, fe_positions(p->f, p->out[k], p->at), (double)p->stride[k], p->at);
  first = fe_with_number(OP_sub, first, (double)p->padding[k], p->at);
  tn_tensor end = fe_with_number(OP_add, size_of(p, p->in[k]), before, p->at);
  tn_tensor last = fe_binary(OP_min, fe_with_number(OP_add, first, (double)p->kernel[k], p->at), end, p->at);
  return fe_binary(OP_sub, last, fe_with_number(OP_max, first, -before, p->at), p->at);
}

// Of what position j has where positions share the axis out: ceil((j + 1) in / out) - floor(j in / out)
static tn_tensor shares_along(const PoolCall *p, uint32_t k) {
  tn_tensor j = fe_positions(p->f, p->out[k], p->at), in = size_of(p, p->in[k]), out = size_of(p, p->out[k]);
  tn_tensor first = fe_binary(OP_div, fe_binary(OP_mul, j, in, p->at), out, p->at);
  tn_tensor end = fe_binary(OP_mul, fe_with_number(OP_add, j, 1, p->at), in, p->at);
  end = fe_binary(OP_div, end, out, p->at);
  if (!fe_ok(end) || !fe_ok(first)) return fe_poison(p->f);
  return fe_binary(OP_sub, fe_emit1(OP_ceil, end, p->at), fe_emit1(OP_floor, first, p->at), p->at);
}

static tn_tensor elements_along(const PoolCall *p, uint32_t k, bool exclude_padding) {
  tn_tensor n = p->shares ? shares_along(p, k) : windows_along(p, k, exclude_padding);
  Dim d[SPATIAL_AXES + 1] = {p->out[k], dim(p, 1), dim(p, 1), dim(p, 1)};
  return fe_ok(n) ? fe_reshape(n, d, p->n_spatial - k + 1, p->at) : n;
}

// Have all windows along axis k `kernel` elements?
static bool is_even(const PoolCall *p, uint32_t k, bool exclude_padding) {
  if (p->shares || (exclude_padding && p->padding[k])) return false;
  if (const_in(p, k) < 0) return !p->ceil;
  int64_t end = (ir_dim_bound(ir_of(p), p->out[k]) - 1) * p->stride[k] + p->kernel[k];
  return end <= const_in(p, k) + 2 * p->padding[k];
}

static tn_tensor averaged(const PoolCall *p, tn_tensor x, bool exclude_padding, int64_t divisor) {
  double n = 1;
  tn_tensor several = {0};
  for (uint32_t k = 0; k < p->n_spatial && !divisor; k++) {
    if (is_even(p, k, exclude_padding)) {
      n *= (double)p->kernel[k];
      continue;
    }
    tn_tensor c = elements_along(p, k, exclude_padding);
    several = several.fn ? fe_binary(OP_mul, several, c, p->at) : c;
  }
  tn_tensor y = pooled(p, x, divisor ? (double)divisor : n);
  return several.fn ? fe_binary(OP_div, y, several, p->at) : y;
}

// ---- windows of a given size
static bool open_windows(PoolCall *p, tn_tensor *x, int64_t kernel, const tn_pool_options *o) {
  *x = fe_batch_of(*x, p->n_spatial, p->at);
  return fe_ok(*x) && read_sizes(p, *x) && read_options(p, kernel, o);
}

// Is there one window, of all elements?
static bool has_all(const PoolCall *p) {
  bool all = true;
  for (uint32_t k = 0; k < p->n_spatial; k++)
    all &= ir_dim_is_one(ir_of(p), p->out[k]) && (p->shares || (!p->padding[k] && p->kernel[k] == const_in(p, k)));
  return all;
}

static tn_tensor average_or_maximum(const PoolCall *p, tn_tensor x, const tn_pool_options *o) {
  static const int axes[SPATIAL_AXES] = {2, 3, 4};
  if (has_all(p) && !p->is_max && !o->divisor) return fe_mean(x, axes, p->n_spatial, true, p->at);
  tn_tensor last = fe_channels_last(x, p->at);
  return fe_channels_first(p->is_max ? pooled(p, last, 1) : averaged(p, last, o->exclude_padding, o->divisor), p->at);
}

tn_tensor fe_pool(uint32_t n_spatial, bool is_max, tn_tensor x, int64_t kernel, tn_pool_options o) {
  PoolCall p = {.f = x.fn, .n_spatial = n_spatial, .is_max = is_max, .at = o.at};
  tn_tensor batch = x;
  if (!open_windows(&p, &batch, kernel, &o)) return fe_poison(p.f);
  return fe_like_batch_of(average_or_maximum(&p, batch, &o), x, n_spatial, o.at);
}

static tn_tensor pool(const char *call, uint32_t n_spatial, bool is_max, tn_tensor x, int64_t kernel,
                      tn_pool_options o) {
  tn_function *f;
  if (!fe_join_for(call, &x, 1, &f, o.at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  return fe_made_by(call, fe_pool(n_spatial, is_max, x, kernel, o), o.at);
}

#define POOL(name, n_spatial, is_max)                              \
  tn_tensor name(tn_tensor x, int64_t kernel, tn_pool_options o) { \
    return pool(__func__, n_spatial, is_max, x, kernel, o);        \
  }
POOL(tn_max_pool1d, 1, true)
POOL(tn_max_pool2d, 2, true)
POOL(tn_max_pool3d, 3, true)
POOL(tn_avg_pool1d, 1, false)
POOL(tn_avg_pool2d, 2, false)
POOL(tn_avg_pool3d, 3, false)

// ---- maxima and their places
static tn_ordered with_places(const PoolCall *p, tn_tensor x, tn_tensor last) {
  tn_tensor y = pooled(p, last, 1);
  if (!fe_ok(y)) return (tn_ordered){y, y};
  tn_tensor places = fe_cast((tn_tensor){y.fn, y.v + 1}, DT_I64, p->at);
  return (tn_ordered){fe_like_batch_of(fe_channels_first(y, p->at), x, p->n_spatial, p->at),
                      fe_like_batch_of(fe_channels_first(places, p->at), x, p->n_spatial, p->at)};
}

static tn_ordered made_both(const char *call, tn_ordered o, tn_site at) {
  return (tn_ordered){fe_made_by(call, o.values, at), fe_made_by(call, o.indices, at)};
}

static tn_ordered pool_with_indices(const char *call, uint32_t n_spatial, tn_tensor x, int64_t kernel,
                                    tn_pool_options o) {
  PoolCall p = {.n_spatial = n_spatial, .is_max = true, .at = o.at};
  tn_ordered none = {fe_poison(x.fn), fe_poison(x.fn)};
  if (!fe_join_for(call, &x, 1, &p.f, o.at)) return none;
  FE_GUARD_AS(p.f->p, none, call);
  tn_tensor batch = x;
  if (!open_windows(&p, &batch, kernel, &o)) return none;
  return made_both(call, with_places(&p, x, fe_channels_last(batch, o.at)), o.at);
}

#define POOL_WITH_INDICES(name, n_spatial)                          \
  tn_ordered name(tn_tensor x, int64_t kernel, tn_pool_options o) { \
    return pool_with_indices(__func__, n_spatial, x, kernel, o);    \
  }
POOL_WITH_INDICES(tn_max_pool1d_with_indices, 1)
POOL_WITH_INDICES(tn_max_pool2d_with_indices, 2)
POOL_WITH_INDICES(tn_max_pool3d_with_indices, 3)

// ---- norms: (mean x^p, times the kernel's elements)^(1/p), so that windows that are cut count as PyTorch's do
tn_tensor fe_norm_pool(uint32_t n_spatial, tn_tensor x, double power, int64_t kernel, tn_pool_options o) {
  PoolCall p = {.f = x.fn, .n_spatial = n_spatial, .at = o.at};
  tn_tensor batch = x;
  if (!open_windows(&p, &batch, kernel, &o)) return fe_poison(p.f);
  bool is_padded = o.padding || o.paddings[0] || o.paddings[1] || o.paddings[2];
  if (!(power > 0) || is_padded || o.divisor || o.exclude_padding)
    return refuse(&p, "norms of windows take an order above 0, and no padding or divisor"), fe_poison(p.f);
  double n = 1;
  for (uint32_t k = 0; k < n_spatial; k++) n *= (double)p.kernel[k];
  tn_tensor y = average_or_maximum(&p, fe_with_number(OP_pow, batch, power, o.at), &o);
  y = fe_with_number(OP_pow, fe_with_number(OP_mul, y, n, o.at), 1 / power, o.at);
  return fe_like_batch_of(y, x, n_spatial, o.at);
}

static tn_tensor norms(const char *call, uint32_t n_spatial, tn_tensor x, double power, int64_t kernel,
                       tn_pool_options o) {
  tn_function *f;
  if (!fe_join_for(call, &x, 1, &f, o.at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  return fe_made_by(call, fe_norm_pool(n_spatial, x, power, kernel, o), o.at);
}

#define NORM(name, n_spatial)                                                    \
  tn_tensor name(tn_tensor x, double power, int64_t kernel, tn_pool_options o) { \
    return norms(__func__, n_spatial, x, power, kernel, o);                      \
  }
NORM(tn_lp_pool1d, 1)
NORM(tn_lp_pool2d, 2)
NORM(tn_lp_pool3d, 3)

// ---- to a given size
static bool check_positions(PoolCall *p, const int64_t *out) {
  for (uint32_t k = 0; k < p->n_spatial; k++) {
    int64_t in = ir_dim_bound(ir_of(p), p->in[k]);
    if (out[k] < 1 || in > MOST_POSITIONS || out[k] > MOST_POSITIONS / in)
      return refuse(p, "pooling to a size takes 1 position or more along each axis, at most 2^24 by its elements");
    p->out[k] = dim(p, out[k]);
  }
  return true;
}

// Where each size divides its axis, positions are windows that touch.
static void find_windows(PoolCall *p, const int64_t *out) {
  for (uint32_t k = 0; k < p->n_spatial; k++) {
    p->shares |= const_in(p, k) < 0 || const_in(p, k) % out[k];
    p->kernel[k] = p->stride[k] = const_in(p, k) / out[k], p->dilation[k] = 1;
  }
}

static bool open_sizes(PoolCall *p, tn_tensor *x, const int64_t *out) {
  *x = fe_batch_of(*x, p->n_spatial, p->at);
  if (!fe_ok(*x) || !read_sizes(p, *x) || !check_positions(p, out)) return false;
  find_windows(p, out);
  return true;
}

tn_tensor fe_adaptive_pool(uint32_t n_spatial, bool is_max, tn_tensor x, const int64_t *out, tn_site at) {
  PoolCall p = {.f = x.fn, .n_spatial = n_spatial, .is_max = is_max, .at = at};
  tn_tensor batch = x;
  if (!open_sizes(&p, &batch, out)) return fe_poison(p.f);
  return fe_like_batch_of(average_or_maximum(&p, batch, &(tn_pool_options){0}), x, n_spatial, at);
}

static tn_tensor adaptive(const char *call, bool is_max, tn_tensor x, const int64_t *out, uint32_t n_spatial,
                          tn_site at) {
  tn_function *f;
  if (!fe_join_for(call, &x, 1, &f, at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  return fe_made_by(call, fe_adaptive_pool(n_spatial, is_max, x, out, at), at);
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

static tn_ordered adaptive_with_indices(const char *call, tn_tensor x, const int64_t *out, uint32_t n_spatial,
                                        tn_site at) {
  PoolCall p = {.n_spatial = n_spatial, .is_max = true, .at = at};
  tn_ordered none = {fe_poison(x.fn), fe_poison(x.fn)};
  if (!fe_join_for(call, &x, 1, &p.f, at)) return none;
  FE_GUARD_AS(p.f->p, none, call);
  tn_tensor batch = x;
  if (!open_sizes(&p, &batch, out)) return none;
  return made_both(call, with_places(&p, x, fe_channels_last(batch, at)), at);
}

tn_ordered tn_adaptive_max_pool1d_with_indices(tn_tensor x, int64_t width, tn_site at) {
  return adaptive_with_indices(__func__, x, &width, 1, at);
}
tn_ordered tn_adaptive_max_pool2d_with_indices(tn_tensor x, int64_t height, int64_t width, tn_site at) {
  return adaptive_with_indices(__func__, x, (const int64_t[]){height, width}, 2, at);
}
tn_ordered tn_adaptive_max_pool3d_with_indices(tn_tensor x, int64_t depth, int64_t height, int64_t width, tn_site at) {
  return adaptive_with_indices(__func__, x, (const int64_t[]){depth, height, width}, 3, at);
}

// ---- back from places: the axes of a plane as one, where each value goes to its place among zeros
static bool unpooled_sizes(PoolCall *p, int64_t kernel, const tn_unpool_options *o) {
  fe_fill_axes(p->kernel, p->n_spatial, kernel, o->kernels, NULL);
  fe_fill_axes(p->stride, p->n_spatial, o->stride, o->strides, p->kernel);
  fe_fill_axes(p->padding, p->n_spatial, o->padding, o->paddings, NULL);
  bool is_given = o->sizes[0] || o->sizes[1] || o->sizes[2];
  for (uint32_t k = 0; k < p->n_spatial; k++) {
    int64_t kern = p->kernel[k], stride = p->stride[k], pad = p->padding[k], most = 1 << 20;
    if (kern < 1 || kern > MOST_KERNEL || stride < 1 || stride > most || pad < 0 || pad > kern / 2)
      return refuse(
          p, "maxima go back to windows of 1 to 32768 elements with a stride, and at most half of them as padding");
    p->out[k] = plus(p, ir_dim_mul(ir_of(p), p->in[k], dim(p, stride)), kern - stride - 2 * pad);
    if (is_given && (o->sizes[k] < 1 || o->sizes[k] > 1 << 24)) return refuse(p, "sizes lie between 1 and 2^24");
    if (is_given) p->out[k] = dim(p, o->sizes[k]);
    if (ir_dim_most(ir_of(p), p->out[k]) < 0) return refuse(p, "such windows leave an axis of less than 0 elements");
  }
  return true;
}

// [N, C, spatial..] as [N, C, places]
static tn_tensor as_plane(tn_tensor x, tn_site at) {
  Prog *prog = x.fn->p->ir;
  Dim places = ir_dim(prog, 1);
  for (uint32_t k = 2; k < fe_rank(x); k++) places = ir_dim_mul(prog, places, fe_axis_dim(x, k));
  return fe_reshape(x, (Dim[]){fe_axis_dim(x, 0), fe_axis_dim(x, 1), places}, 3, at);
}

static tn_tensor put_back(const PoolCall *p, tn_tensor x, tn_tensor indices) {
  Prog *prog = ir_of(p);
  Dim d[2 + SPATIAL_AXES] = {fe_axis_dim(x, 0), fe_axis_dim(x, 1)}, places = dim(p, 1);
  for (uint32_t k = 0; k < p->n_spatial; k++) d[2 + k] = p->out[k], places = ir_dim_mul(prog, places, p->out[k]);
  Shape plane = ir_shape(prog, (Dim[]){d[0], d[1], places}, 3);
  Attr zero[] = {ir_a_num(KEY_value, 0), ir_a_list(KEY_shape, plane)}, axis = ir_a_int(KEY_axis, 2);
  tn_tensor of[3] = {fe_emit_in(p->f, OP_full, zero, 2, p->at), as_plane(indices, p->at), as_plane(x, p->at)};
  for (uint32_t k = 0; k < 3; k++)
    if (!fe_ok(of[k])) return fe_poison(p->f);
  of[0] = fe_emit(OP_scatter, (tn_tensor[]){of[0], of[1], of[2]}, 3, &axis, 1, p->at);
  return fe_ok(of[0]) ? fe_reshape(of[0], d, 2 + p->n_spatial, p->at) : of[0];
}

static tn_tensor unpool(const char *call, uint32_t n_spatial, tn_tensor x, tn_tensor indices, int64_t kernel,
                        tn_unpool_options o) {
  PoolCall p = {.n_spatial = n_spatial, .at = o.at};
  tn_tensor both[2] = {x, indices};
  if (!fe_join_for(call, both, 2, &p.f, o.at)) return fe_poison(p.f);
  FE_GUARD_AS(p.f->p, fe_poison(p.f), call);
  for (uint32_t k = 0; k < 2; k++) both[k] = fe_batch_of(both[k], n_spatial, o.at);
  if (!fe_ok(both[0]) || !fe_ok(both[1]) || !read_sizes(&p, both[0])) return fe_poison(p.f);
  if (fe_ins(indices)->dtype != DT_I64 || fe_shape_of(indices).i != fe_shape_of(x).i)
    return fe_refuse(indices, E_SHAPE, o.at, "maxima go back by indices, i64 of the same shape");
  if (!unpooled_sizes(&p, kernel, &o)) return fe_poison(p.f);
  return fe_made_by(call, fe_like_batch_of(put_back(&p, both[0], both[1]), x, n_spatial, o.at), o.at);
}

#define UNPOOL(name, n_spatial)                                                         \
  tn_tensor name(tn_tensor x, tn_tensor indices, int64_t kernel, tn_unpool_options o) { \
    return unpool(__func__, n_spatial, x, indices, kernel, o);                          \
  }
UNPOOL(tn_max_unpool1d, 1)
UNPOOL(tn_max_unpool2d, 2)
UNPOOL(tn_max_unpool3d, 3)
