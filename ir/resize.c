// Weights of what resizes images (resize.h).
#include "ir/resize.h"
#include "ir/fn.h"
#include "ir/intern.h"

#include <math.h>
#include <string.h>

enum { NEIGHBOURS = 4 };  // at most, of a filter that does not widen

typedef struct {
  int64_t in, out;
  double scale;  // 0: out / in
  bool align;
} Axis;

// Element j of the result: `n` elements of the source from *first on, which may lie outside, and their weights.
typedef uint32_t Filter(const Axis *a, int64_t j, int64_t *first, double *weight);

// In single precision, as PyTorch computes it.
static float float_step(const Axis *a) { return a->scale > 0 ? (float)(1 / a->scale) : (float)a->in / (float)a->out; }

static uint32_t nearest(const Axis *a, int64_t j, int64_t *first, double *weight) {
  bool is_same = a->out == a->in, is_twice = a->out == 2 * a->in;
  *first = is_same ? j : is_twice ? j / 2 : (int64_t)floorf((float)j * float_step(a));
  weight[0] = 1;
  return 1;
}

static uint32_t nearest_exact(const Axis *a, int64_t j, int64_t *first, double *weight) {
  *first = (int64_t)floorf((float)(((double)j + 0.5) * (double)float_step(a)));
  weight[0] = 1;
  return 1;
}

static double place(const Axis *a, int64_t j) {
  if (a->align) return a->out == 1 ? 0 : (double)j * ((double)(a->in - 1) / (double)(a->out - 1));
  return ((double)j + 0.5) * (a->scale > 0 ? 1 / a->scale : (double)a->in / (double)a->out) - 0.5;
}

// With an unchanged number of elements it copies, whatever the scale.
static uint32_t linear(const Axis *a, int64_t j, int64_t *first, double *weight) {
  double at = a->in == a->out ? (double)j : fmax(place(a, j), 0);
  *first = (int64_t)at;
  weight[1] = at - (double)*first, weight[0] = 1 - weight[1];
  return weight[1] > 0 ? 2 : 1;
}

// Keys' cubic convolution with -3/4.
static double near_part(double x) { return ((2 - 0.75) * x - (3 - 0.75)) * x * x + 1; }
static double far_part(double x) { return ((-0.75 * x + 5 * 0.75) * x - 8 * 0.75) * x + 4 * 0.75; }

static uint32_t cubic(const Axis *a, int64_t j, int64_t *first, double *weight) {
  double at = place(a, j), t = at - floor(at);
  *first = (int64_t)floor(at) - 1;
  weight[0] = far_part(t + 1), weight[1] = near_part(t), weight[2] = near_part(1 - t), weight[3] = far_part(2 - t);
  return NEIGHBOURS;
}

// ---- filters as wide as what an element of the result covers, as Pillow has them
static double step_of(const Axis *a) {
  if (a->align) return a->out > 1 ? (double)(a->in - 1) / (double)(a->out - 1) : 0;
  return a->scale > 0 ? 1 / a->scale : (double)a->in / (double)a->out;
}

static double widening(const Axis *a) { return fmax(step_of(a), 1); }

typedef double Curve(double t);  // of a filter, at a distance t >= 0
static double tent(double t) { return t < 1 ? 1 - t : 0; }
static double keys(double t) {  // with -1/2
  if (t < 1) return ((1.5 * t - 2.5) * t * t) + 1;
  return t < 2 ? (((t - 5) * t + 8) * t - 4) * -0.5 : 0;
}

static uint32_t widened(const Axis *a, Curve *shape, double reach, int64_t j, int64_t *first, double *weight) {
  double wide = widening(a), support = reach * wide, sum = 0, centre = step_of(a) * ((double)j + 0.5);
  *first = j, weight[0] = 1;
  if (a->in == a->out) return 1;
  int64_t lo = (int64_t)(centre - support + 0.5), hi = (int64_t)(centre + support + 0.5);
  if (lo < 0) lo = 0;
  if (hi > a->in) hi = a->in;
  for (int64_t k = lo; k < hi; k++) sum += weight[k - lo] = shape(fabs(((double)k - centre + 0.5) / wide));
  for (int64_t k = lo; k < hi; k++) weight[k - lo] = sum != 0 ? weight[k - lo] / sum : 0;
  *first = lo;
  return (uint32_t)(hi - lo);
}

static uint32_t wide_linear(const Axis *a, int64_t j, int64_t *first, double *weight) {
  return widened(a, tent, 1, j, first, weight);
}
static uint32_t wide_cubic(const Axis *a, int64_t j, int64_t *first, double *weight) {
  return widened(a, keys, 2, j, first, weight);
}

// Its share of the axis, all elements of which it has any part: sums, as adaptive averages divide.
static uint32_t box(const Axis *a, int64_t j, int64_t *first, double *weight) {
  int64_t end = ((j + 1) * a->in + a->out - 1) / a->out;
  *first = j * a->in / a->out;
  for (int64_t k = *first; k < end; k++) weight[k - *first] = 1;
  return (uint32_t)(end - *first);
}

// ---- by name
typedef struct {
  const char *name;
  Filter *filter;
  double reach;  // of one that widens, on each side; else 0
  bool of_bytes;
} NamedFilter;

static const NamedFilter *filter_of(const char *name) {
  static const NamedFilter filters[] = {{"nearest", nearest, 0, false},
                                        {"nearest_exact", nearest_exact, 0, false},
                                        {"linear", linear, 0, false},
                                        {"cubic", cubic, 0, false},
                                        {"wide_linear", wide_linear, 1, false},
                                        {"wide_cubic", wide_cubic, 2, false},
                                        {"box", box, 0.5, false},
                                        {"byte_linear", linear, 0, true},
                                        {"byte_cubic", cubic, 0, true},
                                        {"byte_wide_linear", wide_linear, 1, true},
                                        {"byte_wide_cubic", wide_cubic, 2, true}};
  for (size_t k = 0; k < sizeof filters / sizeof *filters; k++)
    if (!strcmp(filters[k].name, name)) return &filters[k];
  return NULL;
}

static int64_t most_taps(const NamedFilter *f, const Axis *a) {
  return f->reach > 0 ? (int64_t)ceil(2 * f->reach * widening(a)) + 1 : NEIGHBOURS;
}

bool ir_filter_known(const char *filter) { return filter_of(filter) != NULL; }

// ---- tables
static AxisTaps new_taps(RtArena *mem, int64_t n, int64_t width) {
  AxisTaps t = {.n = n, .width = width};
  t.lo = rt_alloc(mem, sizeof *t.lo * (size_t)n), t.hi = rt_alloc(mem, sizeof *t.hi * (size_t)n);
  t.weight = rt_alloc(mem, sizeof *t.weight * (size_t)(n * width));
  for (int64_t k = 0; k < n * width; k++) t.weight[k] = 0;
  return t;
}

static int64_t inside(const Axis *a, int64_t k) { return k < 0 ? 0 : k >= a->in ? a->in - 1 : k; }

// As many bits behind the point as keep the largest weight below 2^15: sums of bytes are exact in f32.
static void quantise(double *w, int64_t n) {
  double most = 0;
  int bits = 0;
  for (int64_t k = 0; k < n; k++) most = fmax(most, w[k]);
  while (bits < 22 && floor(0.5 + ldexp(most, bits + 1)) < 1 << 15) bits++;
  for (int64_t k = 0; k < n; k++) w[k] = ldexp(trunc(ldexp(w[k], bits) + (w[k] < 0 ? -0.5 : 0.5)), -bits);
}

// Places outside are clamped to the edge.
static AxisTaps forward(RtArena *mem, const NamedFilter *f, const Axis *a) {
  AxisTaps t = new_taps(mem, a->out, most_taps(f, a));
  int64_t all = t.n * t.width;
  double *weight = rt_alloc(mem, sizeof *weight * (size_t)t.width), *sum = rt_alloc(mem, sizeof *sum * (size_t)all);
  for (int64_t k = 0; k < all; k++) sum[k] = 0;
  for (int64_t j = 0; j < a->out; j++) {
    int64_t first;
    uint32_t n = f->filter(a, j, &first, weight);
    int64_t lo = inside(a, first);
    t.lo[j] = (int32_t)lo, t.hi[j] = (int32_t)inside(a, first + n - 1) + 1;
    for (uint32_t k = 0; k < n; k++)
      sum[j * t.width + inside(a, first + k) - lo] += f->of_bytes ? weight[k] : (double)(float)weight[k];
  }
  if (f->of_bytes) quantise(sum, all);
  for (int64_t k = 0; k < all; k++) t.weight[k] = (float)sum[k];
  return t;
}

// Elements of the result that use element k of the source: neighbours, since first and last ones only grow.
static AxisTaps transposed(RtArena *mem, const AxisTaps *t, int64_t n) {
  int64_t width = 1, from = 0, to = 0;
  for (int64_t k = 0; k < n; k++) {
    while (from < t->n && t->hi[from] <= k) from++;
    while (to < t->n && t->lo[to] <= k) to++;
    if (to - from > width) width = to - from;
  }
  AxisTaps back = new_taps(mem, n, width);
  from = to = 0;
  for (int64_t k = 0; k < n; k++) {
    while (from < t->n && t->hi[from] <= k) from++;
    while (to < t->n && t->lo[to] <= k) to++;
    back.lo[k] = (int32_t)from, back.hi[k] = (int32_t)(to > from ? to : from);
    for (int64_t j = from; j < to; j++) back.weight[k * width + j - from] = t->weight[j * t->width + k - t->lo[j]];
  }
  return back;
}

AxisTaps ir_axis_taps(const Fn *f, Val v, uint32_t axis, RtArena *mem) {
  bool is_grad = ir_ins(f, v)->op == OP_resize_grad;
  Shape from = ir_ins(f, ir_arg(f, v, 0))->shape, to = ir_ins(f, v)->shape;
  Axis a = {.in = ir_dim_bound(f->prog, ir_dim_at(f->prog, is_grad ? to : from, axis + 1)),
            .out = ir_dim_bound(f->prog, ir_dim_at(f->prog, is_grad ? from : to, axis + 1)),
            .scale = ir_attr_num(f, v, (Key)(KEY_scale0 + axis), 0),
            .align = ir_attr(f, v, KEY_align) != NULL};
  const NamedFilter *of = filter_of(ir_text(f->prog, ir_attr(f, v, KEY_filter)->u.s));
  if (of->filter == box) a.scale = 0, a.align = false;  // shares are by sizes alone
  AxisTaps t = forward(mem, of, &a);
  return is_grad ? transposed(mem, &t, a.in) : t;
}
