// Fourier transforms of rows, as the sums that they are.
#include "ir/fn.h"
#include "ir/interp/interp.h"

#include <math.h>

typedef struct {
  int64_t n, bins, rows;
  int64_t side;  // rows that lie behind each bin with {bins_first}; 0: bins lie behind a row
  bool is_weighted;
  const double *wave;  // cosines of 2 pi j / n, then sines
} Transform;

// s: sizes of the points
static Transform open_transform(Run *r, Val v, Tensor points, const Sizes *s) {
  int64_t n = s->dim[s->rank - 1];
  double *wave = rt_alloc(r->env->mem, (size_t)(2 * n) * sizeof *wave);
  for (int64_t j = 0; j < n; j++) {
    double angle = 2 * 3.14159265358979323846 * (double)j / (double)n;
    wave[j] = cos(angle), wave[n + j] = sin(angle);
  }
  int64_t side = ir_attr(r->f, v, KEY_bins_first) ? s->dim[s->rank - 2] : 0;
  return (Transform){n, n / 2 + 1, points.n / n, side, ir_attr(r->f, v, KEY_weighted) != NULL, wave};
}

// It has no imaginary part, whatever the points are, and where one is given it is not read.
static bool is_real(const Transform *t, int64_t bin) { return bin == 0 || 2 * bin == t->n; }

static double weight(const Transform *t, int64_t bin) {
  if (!t->is_weighted) return 1;
  return (is_real(t, bin) ? 1 : 2) / (double)t->n;
}

// The real part of a bin; the imaginary one is behind it.
static int64_t place(const Transform *t, int64_t row, int64_t bin) {
  if (!t->side) return 2 * (row * t->bins + bin);
  return 2 * ((row / t->side * t->bins + bin) * t->side + row % t->side);
}

bool eval_rfft(Run *r, Val v) {
  Tensor x = run_arg(r, v, 0), y = run_result(r, v, 0);
  Sizes s = run_arg_sizes(r, v, 0);
  Transform t = open_transform(r, v, x, &s);
  for (int64_t i = 0; i < t.rows * t.bins; i++) {
    const double *row = x.v + i / t.bins * t.n;
    double re = 0, im = 0;
    for (int64_t j = 0; j < t.n; j++) {
      int64_t at = i % t.bins * j % t.n;
      re += row[j] * t.wave[at], im -= row[j] * t.wave[t.n + at];
    }
    if (is_real(&t, i % t.bins)) im = 0;
    double *to = y.v + place(&t, i / t.bins, i % t.bins);
    to[0] = re * weight(&t, i % t.bins), to[1] = im * weight(&t, i % t.bins);
  }
  return true;
}

bool eval_rfft_grad(Run *r, Val v) {
  Tensor g = run_arg(r, v, 0), y = run_result(r, v, 0);
  Sizes s = run_sizes(r, v);
  Transform t = open_transform(r, v, y, &s);
  for (int64_t i = 0; i < t.rows * t.n; i++) {
    y.v[i] = 0;
    for (int64_t k = 0; k < t.bins; k++) {
      int64_t at = i % t.n * k % t.n;
      const double *bin = g.v + place(&t, i / t.n, k);
      double imaginary = is_real(&t, k) ? 0 : bin[1] * t.wave[t.n + at];
      y.v[i] += weight(&t, k) * (bin[0] * t.wave[at] - imaginary);
    }
  }
  return true;
}
