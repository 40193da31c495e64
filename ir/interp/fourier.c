// Fourier transforms of rows, as the sums that they are.
#include "ir/fn.h"
#include "ir/interp/interp.h"

#include <math.h>

typedef struct {
  int64_t n, bins, rows;
  bool is_weighted;
  const double *wave;  // cosines of 2 pi j / n, then sines
} Transform;

static Transform open_transform(Run *r, Val v, Tensor points, int64_t n) {
  double *wave = rt_alloc(r->env->mem, (size_t)(2 * n) * sizeof *wave);
  for (int64_t j = 0; j < n; j++) {
    double angle = 2 * 3.14159265358979323846 * (double)j / (double)n;
    wave[j] = cos(angle), wave[n + j] = sin(angle);
  }
  return (Transform){n, n / 2 + 1, points.n / n, ir_attr(r->f, v, KEY_weighted) != NULL, wave};
}

static double weight(const Transform *t, int64_t bin) {
  if (!t->is_weighted) return 1;
  return (bin == 0 || 2 * bin == t->n ? 1 : 2) / (double)t->n;
}

bool eval_rfft(Run *r, Val v) {
  Tensor x = run_arg(r, v, 0), y = run_result(r, v, 0);
  Sizes s = run_arg_sizes(r, v, 0);
  Transform t = open_transform(r, v, x, s.dim[s.rank - 1]);
  for (int64_t i = 0; i < t.rows * t.bins; i++) {
    const double *row = x.v + i / t.bins * t.n;
    double re = 0, im = 0;
    for (int64_t j = 0; j < t.n; j++) {
      int64_t at = i % t.bins * j % t.n;
      re += row[j] * t.wave[at], im -= row[j] * t.wave[t.n + at];
    }
    y.v[2 * i] = re * weight(&t, i % t.bins), y.v[2 * i + 1] = im * weight(&t, i % t.bins);
  }
  return true;
}

bool eval_rfft_grad(Run *r, Val v) {
  Tensor g = run_arg(r, v, 0), y = run_result(r, v, 0);
  Transform t = open_transform(r, v, y, ir_attr_int(r->f, v, KEY_size, 1));
  for (int64_t i = 0; i < t.rows * t.n; i++) {
    const double *row = g.v + i / t.n * 2 * t.bins;
    y.v[i] = 0;
    for (int64_t k = 0; k < t.bins; k++) {
      int64_t at = i % t.n * k % t.n;
      y.v[i] += weight(&t, k) * (row[2 * k] * t.wave[at] - row[2 * k + 1] * t.wave[t.n + at]);
    }
  }
  return true;
}
