// Fourier transforms of real numbers, as products with constant matrices: cosines and sines beside each other, so that one
// product makes both parts. That of windows is a convolution whose kernels are the matrix's columns.
//
//   tn_rfft(x: f32[5,4])     table [4,6]      matmul [5,4] x [4,6]     reshape {shape=[5,3,2]}
//   tn_stft(x: f32[5,99], 8, .hop = 4)     table [10,1,8]     conv [5,107,1] {stride=[4]}     reshape, permute
#include "frontend/graph/ledger.h"
#include "frontend/graph/linalg.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/shape.h"
#include "frontend/tenure/linalg.h"
#include "ir/build.h"

#include <math.h>

enum { MOST_POINTS = 1024 };

typedef struct {
  tn_function *f;
  int64_t n, bins;  // bins: n / 2 + 1
  tn_site at;
} Fourier;

static Prog *ir_of(const Fourier *t) { return t->f->p->ir; }

// cos or -sin of 2 pi j k / n
static double wave(const Fourier *t, int64_t j, int64_t k, bool is_sine) {
  double angle = 2 * 3.14159265358979323846 * (double)(j * k % t->n) / (double)t->n;
  return is_sine ? -sin(angle) : cos(angle);
}

typedef float ElementFn(const Fourier *t, int64_t row, int64_t column);

static tn_tensor table(const Fourier *t, int64_t rows, int64_t columns, ElementFn *element) {
  float *v = rt_alloc(t->f->p->mem, (size_t)(rows * columns) * sizeof *v);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) v[i * columns + j] = element(t, i, j);
  Shape s = ir_shape_ints(ir_of(t), (int64_t[]){rows, columns}, 2);
  return (tn_tensor){t->f, ir_table(t->f->ir, DT_F32, s, v, fe_loc(t->f->p, t->at)).i};
}

// Column 2 k is the real part of bin k, the next one its imaginary part.
static float forward(const Fourier *t, int64_t j, int64_t column) { return (float)wave(t, j, column / 2, column % 2); }
static float kernel(const Fourier *t, int64_t column, int64_t j) { return forward(t, j, column); }

// Bins but the first, and the last of an even number of points, stand for two: themselves and their conjugates.
static float backward(const Fourier *t, int64_t row, int64_t j) {
  int64_t k = row / 2;
  bool is_single = k == 0 || 2 * k == t->n;
  return (float)((is_single ? 1 : 2) * wave(t, j, k, row % 2) / (double)t->n);
}

// ---- along the last axis
// The product of rows x [.., width] and a matrix, in the shape of x's first n axes and then those that are given.
static tn_tensor product(const Fourier *t, tn_tensor x, uint32_t n, int64_t width, tn_tensor matrix,
                         const int64_t *last, uint32_t n_last) {
  Dim d[MAX_RANK], two[2] = {ir_dim(ir_of(t), 1), ir_dim(ir_of(t), width)};
  for (uint32_t k = 0; k < n; k++) d[k] = fe_axis_dim(x, k), two[0] = ir_dim_mul(ir_of(t), two[0], d[k]);
  for (uint32_t k = 0; k < n_last; k++) d[n + k] = ir_dim(ir_of(t), last[k]);
  tn_tensor rows = fe_reshape(x, two, 2, t->at);
  return fe_reshape(fe_matmul(rows, matrix, false, false, t->at), d, n + n_last, t->at);
}

static bool check_points(Fourier *t, tn_tensor x, int64_t n) {
  t->n = n, t->bins = n / 2 + 1;
  if (fe_ins(x)->dtype != DT_F32) return fe_refuse(x, E_DTYPE, t->at, "a Fourier transform is of f32"), false;
  if (n >= 1 && n <= MOST_POINTS) return true;
  return fe_refuse(x, E_ARGUMENT, t->at, "a Fourier transform has 1 to 1024 points"), false;
}

tn_tensor tn_rfft(tn_tensor x, tn_site at) {
  Fourier t = {.at = at};
  if (!fe_join(&x, 1, &t.f, at)) return fe_poison(t.f);
  FE_GUARD(t.f->p, fe_poison(t.f));
  uint32_t rank = fe_rank(x);
  if (!rank || rank == MAX_RANK) return fe_refuse(x, E_SHAPE, at, "a transform is of values with 1 to 7 axes");
  Dim n = fe_axis_dim(x, rank - 1);
  if (!ir_dim_is_const(ir_of(&t), n)) return fe_refuse(x, E_SHAPE, at, "the last axis has a constant size");
  if (!check_points(&t, x, ir_dim_bound(ir_of(&t), n))) return fe_poison(t.f);
  const int64_t last[] = {t.bins, 2};
  return fe_made(product(&t, x, rank - 1, t.n, table(&t, t.n, 2 * t.bins, forward), last, 2), at);
}

tn_tensor tn_irfft(tn_tensor x, int64_t n, tn_site at) {
  Fourier t = {.at = at};
  if (!fe_join(&x, 1, &t.f, at)) return fe_poison(t.f);
  FE_GUARD(t.f->p, fe_poison(t.f));
  if (!check_points(&t, x, n)) return fe_poison(t.f);
  uint32_t rank = fe_rank(x);
  Prog *p = ir_of(&t);
  if (rank < 2 || fe_axis_dim(x, rank - 1).i != ir_dim(p, 2).i || fe_axis_dim(x, rank - 2).i != ir_dim(p, t.bins).i)
    return fe_refuse(x, E_SHAPE, at, "n points come of n / 2 + 1 bins: [.., n / 2 + 1, 2]");
  return fe_made(product(&t, x, rank - 2, 2 * t.bins, table(&t, 2 * t.bins, n, backward), &n, 1), at);
}

// ---- of windows
static bool check_windows(Fourier *t, tn_tensor x, const tn_stft_options *o) {
  uint32_t rank = fe_rank(x);
  if (rank != 1 && rank != 2) return fe_refuse(x, E_SHAPE, t->at, "windows are of [T] or [B, T]"), false;
  if (o->hop < 0) return fe_refuse(x, E_ARGUMENT, t->at, "windows lie 1 or more apart"), false;
  if (!o->window.fn) return true;
  Shape s = ir_shape_ints(ir_of(t), &t->n, 1);
  if (fe_ins(o->window)->dtype == DT_F32 && fe_shape_of(o->window).i == s.i) return true;
  return fe_refuse(o->window, E_SHAPE, t->at, "a window is f32 and has as many elements as the transform has points"),
         false;
}

// [B, positions, 2 bins]: as [B, bins, positions, 2]
static tn_tensor by_bins(const Fourier *t, tn_tensor y, bool is_one) {
  static const uint32_t order[] = {0, 2, 1, 3};
  if (!fe_ok(y)) return y;
  Dim d[] = {fe_axis_dim(y, 0), fe_axis_dim(y, 1), ir_dim(ir_of(t), t->bins), ir_dim(ir_of(t), 2)};
  y = fe_permute(fe_reshape(y, d, 4, t->at), order, t->at);
  return is_one ? fe_without_axis(y, 0, t->at) : y;
}

tn_tensor tn_stft(tn_tensor x, int64_t n, tn_stft_options o) {
  Fourier t = {.at = o.at};
  if (!fe_join((const tn_tensor[]){x, o.window}, o.window.fn ? 2 : 1, &t.f, o.at)) return fe_poison(t.f);
  FE_GUARD(t.f->p, fe_poison(t.f));
  if (!check_points(&t, x, n) || !check_windows(&t, x, &o)) return fe_poison(t.f);
  Prog *p = ir_of(&t);
  int64_t hop = o.hop ? o.hop : n < 4 ? 1 : n / 4;
  bool is_one = fe_rank(x) == 1;
  const int64_t ends[] = {n / 2, n / 2};
  tn_tensor y = is_one ? fe_with_axis(x, 0, o.at) : x, weight = table(&t, 2 * t.bins, n, kernel);
  if (!o.not_centered) y = fe_pad(y, ends, 2, TN_PAD_REFLECT, 0, o.at);
  if (o.window.fn) weight = fe_emit2(OP_mul, weight, o.window, o.at);
  const Dim w[] = {ir_dim(p, 2 * t.bins), ir_dim(p, 1), ir_dim(p, n)};
  const tn_tensor in[] = {fe_ok(y) ? fe_with_axis(y, 2, o.at) : y, fe_reshape(weight, w, 3, o.at)};
  Attr stride = ir_a_list(KEY_stride, ir_shape_ints(p, &hop, 1));
  return fe_made(by_bins(&t, fe_emit(OP_conv, in, 2, &stride, 1, o.at), is_one), o.at);
}
