// Fourier transforms of real numbers: ops rfft and rfft_grad, whose kernels have rows side by side. Of one row or a few,
// whose points have factors, two stages of products with constant matrices, as Cooley and Tukey have them: n = slow fast,
// element fast i1 + i2, bin k1 + slow k2. Real and imaginary parts are arrays of their own between the first and the
// last step. 400 points, slow 16, fast 25:
//
//   x [rows, i1, i2]      re, im = x^T tables [16,16]                           [rows, i2, k1]
//                         turned by the angle of i2 k1                          [rows, i2, k1]
//                         y = table [26,25] re + table [26,25] im               [rows, (k2, part), k1], k2 to fast / 2
//                         permute, reshape, slice                               [rows, bins, part]
//
// The transform back is the same with the steps transposed and in reverse order. That of windows is one of rows:
//   tn_stft(x: f32[5,99], 8, .hop = 4)     windows [5,107] {size=8, step=4}     rfft {bins_first}
#include "frontend/graph/ledger.h"
#include "frontend/graph/linalg.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/shape.h"
#include "frontend/tenure/linalg.h"
#include "ir/build.h"

#include <math.h>

enum { MOST_POINTS = 2048 };

typedef struct {
  tn_function *f;
  int64_t n, bins;     // bins: n / 2 + 1
  int64_t slow, fast;  // of two stages; 0: an op does it
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

// Bins but the first, and the last of an even number of points, stand for two: themselves and their conjugates.
static double weight(const Fourier *t, int64_t bin) { return (bin == 0 || 2 * bin == t->n ? 1 : 2) / (double)t->n; }
static float weight_of_bin(const Fourier *t, int64_t bin, int64_t column) { return (float)weight(t, bin + column); }

// ---- two stages
static int64_t last_rows(const Fourier *t) { return t->fast / 2 + 1; }  // k2 of bins

// In multiply-adds. Columns fill vectors, and between products all elements are stored; an op takes as long for one row
// as for the lanes of a vector. Measured: docs/experiments/121-fourier-transforms-of-rows.md, 123
static int64_t cost_of_stages(int64_t slow, int64_t fast) {
  int64_t columns = (slow + 15) / 16 * 16;
  return (2 * slow + 4 * (fast / 2 + 1)) * fast * columns * 17 / 10 + 86 * slow * fast;
}

static void choose_stages(Fourier *t, Dim rows) {
  enum { OP_PER_POINT = 700 };
  if (!ir_dim_is_const(ir_of(t), rows) || !ir_dim_bound(ir_of(t), rows)) return;
  int64_t least = OP_PER_POINT * t->n / ir_dim_bound(ir_of(t), rows);
  for (int64_t slow = 2; slow < t->n; slow++) {
    if (t->n % slow || cost_of_stages(slow, t->n / slow) >= least) continue;
    t->slow = slow, t->fast = t->n / slow, least = cost_of_stages(slow, t->fast);
  }
}

static float slow_cosine(const Fourier *t, int64_t i1, int64_t k1) { return (float)wave(t, i1 * t->fast, k1, false); }
static float slow_sine(const Fourier *t, int64_t i1, int64_t k1) { return (float)wave(t, i1 * t->fast, k1, true); }
static float turn_cosine(const Fourier *t, int64_t i2, int64_t k1) { return (float)wave(t, i2, k1, false); }
static float turn_sine(const Fourier *t, int64_t i2, int64_t k1) { return (float)wave(t, i2, k1, true); }

// Row 2 k2 makes real parts, the next one imaginary parts.
static float of_real(const Fourier *t, int64_t row, int64_t i2) {
  return (float)wave(t, i2 * t->slow, row / 2, row % 2);
}
static float of_imaginary(const Fourier *t, int64_t row, int64_t i2) {
  return (float)((row % 2 ? 1 : -1) * wave(t, i2 * t->slow, row / 2, row % 2 == 0));
}

typedef struct {
  tn_tensor re, im;
} Complex;

// fast: [(k2, part), i2], slow: [i1, k1], turn: [i2, k1]
typedef struct {
  Complex fast, slow, turn;
} Tables;

static Tables tables_of(const Fourier *t) {
  int64_t rows = 2 * last_rows(t);
  return (Tables){{table(t, rows, t->fast, of_real), table(t, rows, t->fast, of_imaginary)},
                  {table(t, t->slow, t->slow, slow_cosine), table(t, t->slow, t->slow, slow_sine)},
                  {table(t, t->fast, t->slow, turn_cosine), table(t, t->fast, t->slow, turn_sine)}};
}

// a b + c d, or a b - c d
static tn_tensor sum_of_two(Op op, tn_tensor a, tn_tensor b, tn_tensor c, tn_tensor d, tn_site at) {
  return fe_emit2(op, fe_emit2(OP_mul, a, b, at), fe_emit2(OP_mul, c, d, at), at);
}

static tn_tensor with_parts(const Fourier *t, tn_tensor y, Dim rows, int64_t before, int64_t after) {
  static const uint32_t order[] = {0, 1, 3, 2};
  Prog *p = ir_of(t);
  const Dim d[] = {rows, ir_dim(p, last_rows(t)), ir_dim(p, before), ir_dim(p, after)};
  y = fe_reshape(y, d, 4, t->at);
  return fe_ok(y) ? fe_permute(y, order, t->at) : y;
}

// [rows, n] -> [rows, bins, 2]
static tn_tensor forward_stages(const Fourier *t, tn_tensor x, Dim rows) {
  Prog *p = ir_of(t);
  const Dim grid[] = {rows, ir_dim(p, t->slow), ir_dim(p, t->fast)};
  const Dim flat[] = {rows, ir_dim(p, last_rows(t) * t->slow), ir_dim(p, 2)};
  Tables k = tables_of(t);
  x = fe_reshape(x, grid, 3, t->at);
  Complex y = {fe_matmul(x, k.slow.re, true, false, t->at), fe_matmul(x, k.slow.im, true, false, t->at)};
  tn_tensor re = sum_of_two(OP_sub, y.re, k.turn.re, y.im, k.turn.im, t->at);
  tn_tensor im = sum_of_two(OP_add, y.re, k.turn.im, y.im, k.turn.re, t->at);
  tn_tensor z = fe_emit2(OP_add, fe_matmul(k.fast.re, re, false, false, t->at),
                         fe_matmul(k.fast.im, im, false, false, t->at), t->at);
  z = fe_reshape(with_parts(t, z, rows, 2, t->slow), flat, 3, t->at);
  return fe_ok(z) ? fe_slice(z, 1, 0, t->bins, t->at) : z;
}

// [rows, bins, 2] -> [rows, n]
static tn_tensor backward_stages(const Fourier *t, tn_tensor x, Dim rows) {
  Prog *p = ir_of(t);
  const int64_t ends[] = {0, 0, 0, last_rows(t) * t->slow - t->bins};
  const Dim halves[] = {rows, ir_dim(p, 2 * last_rows(t)), ir_dim(p, t->slow)}, flat[] = {rows, ir_dim(p, t->n)};
  Tables k = tables_of(t);
  x = fe_emit2(OP_mul, x, table(t, t->bins, 1, weight_of_bin), t->at);
  x = fe_ok(x) ? fe_pad(x, ends, 4, TN_PAD_CONSTANT, 0, t->at) : x;
  x = fe_reshape(with_parts(t, x, rows, t->slow, 2), halves, 3, t->at);
  Complex z = {fe_matmul(k.fast.re, x, true, false, t->at), fe_matmul(k.fast.im, x, true, false, t->at)};
  tn_tensor re = sum_of_two(OP_add, z.re, k.turn.re, z.im, k.turn.im, t->at);
  tn_tensor im = sum_of_two(OP_sub, z.im, k.turn.re, z.re, k.turn.im, t->at);
  tn_tensor y = fe_emit2(OP_add, fe_matmul(k.slow.re, re, false, true, t->at),
                         fe_matmul(k.slow.im, im, false, true, t->at), t->at);
  return fe_reshape(y, flat, 2, t->at);
}

// ---- along the last axis
// The first n axes are the rows.
static Dim rows_of(const Fourier *t, tn_tensor x, uint32_t n) {
  Dim rows = ir_dim(ir_of(t), 1);
  for (uint32_t k = 0; k < n; k++) rows = ir_dim_mul(ir_of(t), rows, fe_axis_dim(x, k));
  return rows;
}

// `width` elements behind them: as [rows, width] or, of parts, [rows, width / 2, 2]
static tn_tensor as_rows(const Fourier *t, tn_tensor x, Dim rows, int64_t width, bool has_parts) {
  Prog *p = ir_of(t);
  const Dim d[] = {rows, ir_dim(p, has_parts ? width / 2 : width), ir_dim(p, 2)};
  return fe_reshape(x, d, has_parts ? 3 : 2, t->at);
}

// y in the shape of x's first n axes and then those that are given
static tn_tensor like_rows_of(const Fourier *t, tn_tensor y, tn_tensor x, uint32_t n, const int64_t *last,
                              uint32_t n_last) {
  Dim d[MAX_RANK];
  for (uint32_t k = 0; k < n; k++) d[k] = fe_axis_dim(x, k);
  for (uint32_t k = 0; k < n_last; k++) d[n + k] = ir_dim(ir_of(t), last[k]);
  return fe_reshape(y, d, n + n_last, t->at);
}

static tn_tensor to_bins(Fourier *t, tn_tensor x, uint32_t n) {
  const int64_t last[] = {t->bins, 2};
  Dim rows = rows_of(t, x, n);
  choose_stages(t, rows);
  tn_tensor y = as_rows(t, x, rows, t->n, false);
  y = t->slow ? forward_stages(t, y, rows) : fe_emit(OP_rfft, &y, 1, NULL, 0, t->at);
  return like_rows_of(t, y, x, n, last, 2);
}

static tn_tensor from_bins(Fourier *t, tn_tensor x, uint32_t n) {
  const Attr how[] = {ir_a_int(KEY_size, t->n), ir_a_int(KEY_weighted, 1)};
  Dim rows = rows_of(t, x, n);
  choose_stages(t, rows);
  tn_tensor y = as_rows(t, x, rows, 2 * t->bins, t->slow != 0);
  y = t->slow ? backward_stages(t, y, rows) : fe_emit(OP_rfft_grad, &y, 1, how, 2, t->at);
  return like_rows_of(t, y, x, n, &t->n, 1);
}

static bool check_points(Fourier *t, tn_tensor x, int64_t n) {
  t->n = n, t->bins = n / 2 + 1;
  if (fe_ins(x)->dtype != DT_F32) return fe_refuse(x, E_DTYPE, t->at, "a Fourier transform is of f32"), false;
  if (n >= 1 && n <= MOST_POINTS) return true;
  return fe_refuse(x, E_ARGUMENT, t->at, "a Fourier transform has 1 to 2048 points"), false;
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
  return fe_made(to_bins(&t, x, rank - 1), at);
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
  return fe_made(from_bins(&t, x, rank - 2), at);
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

// Windows of x [B, T] as [B, positions, n]
static tn_tensor windows_of(const Fourier *t, tn_tensor x, const tn_stft_options *o) {
  const int64_t ends[] = {t->n / 2, t->n / 2}, hop = o->hop ? o->hop : t->n < 4 ? 1 : t->n / 4;
  if (!o->not_centered) x = fe_pad(x, ends, 2, TN_PAD_REFLECT, 0, t->at);
  if (!fe_ok(x)) return x;
  Dim all = fe_axis_dim(x, 1);
  if (ir_dim_is_const(ir_of(t), all) && ir_dim_bound(ir_of(t), all) < t->n)
    return fe_refuse(x, E_SHAPE, t->at, "the transform has more points than the axis has elements");
  x = fe_unfold(x, 1, t->n, hop, t->at);
  return o->window.fn ? fe_emit2(OP_mul, x, o->window, t->at) : x;
}

tn_tensor tn_stft(tn_tensor x, int64_t n, tn_stft_options o) {
  const Attr bins_first = ir_a_int(KEY_bins_first, 1);
  Fourier t = {.at = o.at};
  if (!fe_join((const tn_tensor[]){x, o.window}, o.window.fn ? 2 : 1, &t.f, o.at)) return fe_poison(t.f);
  FE_GUARD(t.f->p, fe_poison(t.f));
  if (!check_points(&t, x, n) || !check_windows(&t, x, &o)) return fe_poison(t.f);
  bool is_one = fe_rank(x) == 1;
  tn_tensor y = windows_of(&t, is_one ? fe_with_axis(x, 0, o.at) : x, &o);
  y = fe_ok(y) ? fe_emit(OP_rfft, &y, 1, &bins_first, 1, o.at) : y;
  return fe_made(is_one && fe_ok(y) ? fe_without_axis(y, 0, o.at) : y, o.at);
}
