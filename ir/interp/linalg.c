// Triangular systems and Cholesky factors.
#include "ir/interp/interp.h"

#include <math.h>

// A matrix in memory: element (i, j) is at[i row + j col].
typedef struct {
  double *at;
  int64_t row, col;
} Matrix;

static double *element(const Matrix *m, int64_t i, int64_t j) { return &m->at[i * m->row + j * m->col]; }
static Matrix transposed(Matrix m) { return (Matrix){m.at, m.col, m.row}; }

// T x = b for one column, from the first row or, of an upper triangle, from the last; x begins as b.
static void substitute(const Matrix *t, bool upper, bool unit, int64_t n, const Matrix *x, int64_t j) {
  for (int64_t step = 0; step < n; step++) {
    int64_t i = upper ? n - 1 - step : step;
    double sum = *element(x, i, j);
    for (int64_t k = upper ? i + 1 : 0; k < (upper ? n : i); k++) sum -= *element(t, i, k) * *element(x, k, j);
    *element(x, i, j) = unit ? sum : sum / *element(t, i, i);
  }
}

bool eval_solve_triangular(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), a = run_arg(r, v, 0), b = run_arg(r, v, 1);
  Sizes s = run_sizes(r, v), sa = run_arg_sizes(r, v, 0);
  bool right = ir_attr(r->f, v, KEY_right), ta = ir_attr(r->f, v, KEY_ta), upper = ir_attr(r->f, v, KEY_upper);
  int64_t rows = s.dim[s.rank - 2], cols = s.dim[s.rank - 1], n = right ? cols : rows, lanes = right ? rows : cols;
  for (int64_t i = 0; i < out.n; i++) out.v[i] = b.v[i];
  for (int64_t m = 0; out.n > 0 && m < out.n / (rows * cols); m++) {
    Matrix t = {a.v + (sa.rank == 2 ? 0 : m * n * n), n, 1}, x = {out.v + m * rows * cols, cols, 1};
    if (right) x = transposed(x);
    if (ta != right) t = transposed(t);
    for (int64_t j = 0; j < lanes; j++) substitute(&t, upper != (ta != right), ir_attr(r->f, v, KEY_unit), n, &x, j);
  }
  return true;
}

static void factor(const Matrix *a, const Matrix *l, int64_t n) {
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = j; i < n; i++) {
      double sum = *element(a, i, j);
      for (int64_t k = 0; k < j; k++) sum -= *element(l, i, k) * *element(l, j, k);
      if (i == j) *element(l, i, j) = sum > 0 ? sqrt(sum) : (double)NAN;
      else *element(l, i, j) = sum / *element(l, j, j);
    }
}

bool eval_cholesky(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), a = run_arg(r, v, 0);
  Sizes s = run_sizes(r, v);
  int64_t n = s.dim[s.rank - 1];
  bool upper = ir_attr(r->f, v, KEY_upper);
  for (int64_t m = 0; out.n > 0 && m < out.n / (n * n); m++) {
    Matrix from = {a.v + m * n * n, n, 1}, to = {out.v + m * n * n, n, 1};
    if (upper) from = transposed(from), to = transposed(to);
    factor(&from, &to, n);
  }
  return true;
}
