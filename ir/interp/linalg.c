// Triangular systems, Cholesky factors, systems by row operations, and factors of small matrices.
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

// ---- systems by row operations
static void swap_rows(const Matrix *m, int64_t i, int64_t k, int64_t n) {
  for (int64_t j = 0; j < n; j++) {
    double x = *element(m, i, j);
    *element(m, i, j) = *element(m, k, j), *element(m, k, j) = x;
  }
}

// NaN is greater than every number.
static int64_t pivot_row(const Matrix *m, int64_t k, int64_t n) {
  int64_t best = k;
  for (int64_t i = k + 1; i < n; i++) {
    double x = fabs(*element(m, i, k)), most = fabs(*element(m, best, k));
    if (x > most || (isnan(x) && !isnan(most))) best = i;
  }
  return best;
}

// m becomes L and U; the sign of the order of its rows.
static double eliminate(const Matrix *m, double *perm, int64_t n) {
  double sign = 1;
  for (int64_t k = 0; k < n; k++) perm[k] = (double)k;
  for (int64_t k = 0; k < n; k++) {
    int64_t from = pivot_row(m, k, n);
    double row = perm[k], pivot = *element(m, from, k);
    swap_rows(m, k, from, n);
    perm[k] = perm[from], perm[from] = row;
    if (from != k) sign = -sign;
    for (int64_t i = k + 1; i < n; i++) {
      double l = pivot == 0 ? 0 : *element(m, i, k) / pivot;
      *element(m, i, k) = l;
      for (int64_t j = k + 1; j < n; j++) *element(m, i, j) -= l * *element(m, k, j);
    }
  }
  return sign;
}

bool eval_lu(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), perm = run_result(r, v, 1), sign = run_result(r, v, 2), a = run_arg(r, v, 0);
  Sizes s = run_sizes(r, v);
  int64_t n = s.dim[s.rank - 1];
  for (int64_t i = 0; i < out.n; i++) out.v[i] = a.v[i];
  for (int64_t m = 0; m < sign.n; m++) sign.v[m] = eliminate(&(Matrix){out.v + m * n * n, n, 1}, perm.v + m * n, n);
  return true;
}

bool eval_lu_solve(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), lu = run_arg(r, v, 1), perm = run_arg(r, v, 2), b = run_arg(r, v, 3);
  Sizes s = run_sizes(r, v);
  int64_t n = s.dim[s.rank - 2], lanes = s.dim[s.rank - 1];
  bool ta = ir_attr(r->f, v, KEY_ta) != NULL;
  double *y = rt_alloc(r->env->mem, (size_t)(n * lanes + 1) * sizeof *y);
  for (int64_t m = 0; out.n > 0 && m < out.n / (n * lanes); m++) {
    Matrix t = {lu.v + m * n * n, n, 1}, x = {y, lanes, 1};
    const double *order = perm.v + m * n;
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < lanes; j++) *element(&x, i, j) = b.v[(m * n + (ta ? i : (int64_t)order[i])) * lanes + j];
    if (ta) t = transposed(t);
    for (int64_t j = 0; j < lanes; j++) substitute(&t, false, !ta, n, &x, j), substitute(&t, true, ta, n, &x, j);
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < lanes; j++)
        out.v[(m * n + (ta ? (int64_t)order[i] : i)) * lanes + j] = *element(&x, i, j);
  }
  return true;
}

// ---- factors by reflections: H = 1 - tau v v^T, v 1 in row j and 0 above it
static void reflect(const Matrix *w, const double *v, double tau, int64_t j, int64_t m, int64_t from, int64_t n) {
  for (int64_t k = from; k < n; k++) {
    double sum = 0;
    for (int64_t i = j; i < m; i++) sum += v[i] * *element(w, i, k);
    for (int64_t i = j; i < m; i++) *element(w, i, k) -= tau * sum * v[i];
  }
}

// v[j ..] of the reflection that makes column j 0 below row j; its tau
static double reflection(const Matrix *w, double *v, int64_t j, int64_t m) {
  double alpha = *element(w, j, j), largest = 0, sum = 0, beta;
  v[j] = 1;
  for (int64_t i = j + 1; i < m; i++) v[i] = *element(w, i, j);
  for (int64_t i = j + 1; i < m; i++)
    if (!(fabs(v[i]) <= largest)) largest = fabs(v[i]);
  if (largest == 0) return 0;
  for (int64_t i = j; i < m; i++) sum += *element(w, i, j) * *element(w, i, j);
  beta = -copysign(sqrt(sum), alpha);
  for (int64_t i = j + 1; i < m; i++) v[i] /= alpha - beta;
  return (beta - alpha) / beta;
}

bool eval_qr(Run *r, Val v) {
  Tensor q = run_result(r, v, 0), upper = run_result(r, v, 1), a = run_arg(r, v, 0);
  Sizes s = run_sizes(r, v);
  int64_t m = s.dim[s.rank - 2], n = s.dim[s.rank - 1];
  double *work = rt_alloc(r->env->mem, (size_t)(2 * m * n + n + 1) * sizeof *work), *h = work + m * n, *tau = h + m * n;
  for (int64_t b = 0; q.n > 0 && b < q.n / (m * n); b++) {
    Matrix w = {work, n, 1}, to = {q.v + b * m * n, n, 1};
    for (int64_t i = 0; i < m * n; i++) work[i] = a.v[b * m * n + i], to.at[i] = i / n == i % n;
    for (int64_t j = 0; j < n; j++)
      tau[j] = reflection(&w, h + j * m, j, m), reflect(&w, h + j * m, tau[j], j, m, j, n);
    for (int64_t j = n; j-- > 0;) reflect(&to, h + j * m, tau[j], j, m, j, n);
    for (int64_t i = 0; i < n * n; i++) upper.v[b * n * n + i] = i % n >= i / n ? work[i] : 0;
  }
  return true;
}
