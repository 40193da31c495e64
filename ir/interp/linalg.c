// Triangular systems, Cholesky factors, systems by row operations, and factors of small matrices.
#include "ir/fn.h"
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

// m becomes L and U; returns the sign of the row permutation.
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

// ---- eigenvalues and singular values by rotations of rows: two at a time are turned until they are orthogonal
static double dot(const Matrix *m, int64_t i, int64_t j, int64_t n) {
  double sum = 0;
  for (int64_t k = 0; k < n; k++) sum += *element(m, i, k) * *element(m, j, k);
  return sum;
}

static void turn(const Matrix *m, int64_t i, int64_t j, int64_t n, double cosine, double sine) {
  for (int64_t k = 0; k < n; k++) {
    double a = *element(m, i, k), b = *element(m, j, k);
    *element(m, i, k) = cosine * a - sine * b, *element(m, j, k) = cosine * b + sine * a;
  }
}

static bool turn_pair(const Matrix *x, const Matrix *own, int64_t i, int64_t j, int64_t rows, int64_t n) {
  double aa = dot(x, i, i, n), bb = dot(x, j, j, n), ab = dot(x, i, j, n), zeta = (bb - aa) / (2 * ab);
  if (!(fabs(ab) > 1e-15 * sqrt((double)n + 1) * sqrt(aa) * sqrt(bb))) return false;
  double tangent = copysign(1 / (fabs(zeta) + sqrt(1 + zeta * zeta)), zeta), cosine = 1 / sqrt(1 + tangent * tangent);
  turn(x, i, j, n, cosine, cosine * tangent);
  turn(own, i, j, rows, cosine, cosine * tangent);
  return true;
}

// Makes the rows of x orthogonal; `own`, which begins as the identity, collects the rotations.
static void make_orthogonal(const Matrix *x, const Matrix *own, int64_t rows, int64_t n) {
  enum { MOST_CYCLES = 60 };
  bool turned = true;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < rows; j++) *element(own, i, j) = (i == j) + 0 * *x->at;  // of an x that is NaN: NaN
  for (int cycle = 0; turned && cycle < MOST_CYCLES; cycle++) {
    turned = false;
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = i + 1; j < rows; j++) turned |= turn_pair(x, own, i, j, rows, n);
  }
}

static double largest_of(const double *x, int64_t n) {
  double most = 0;
  for (int64_t k = 0; k < n; k++)
    if (!isnan(most) && !(fabs(x[k]) <= most)) most = fabs(x[k]);
  return most == 0 ? 1 : isinf(most) ? (double)NAN : most;  // dividing by NaN makes everything NaN
}

static void sort_rows(double *key, int64_t rows, double sign, const Matrix *a, int64_t na, const Matrix *b,
                      int64_t nb) {
  for (int64_t k = 0; k < rows; k++) {
    int64_t best = k;
    for (int64_t i = k + 1; i < rows; i++)
      if (sign * key[i] > sign * key[best]) best = i;
    double x = key[k];
    key[k] = key[best], key[best] = x;
    swap_rows(a, k, best, na);
    if (b) swap_rows(b, k, best, nb);
  }
}

// Replaces row k, which counts as 0, by a unit vector orthogonal to the rows before.
static void fill_row(const Matrix *x, int64_t k, int64_t n) {
  double least = 2, sum;
  int64_t axis = 0;
  for (int64_t j = 0; j < n; j++) {
    sum = 0;
    for (int64_t i = 0; i < k; i++) sum += *element(x, i, j) * *element(x, i, j);
    if (sum < least) least = sum, axis = j;
  }
  *element(x, k, axis) = 1;
  for (int pass = 0; pass < 2; pass++)
    for (int64_t i = 0; i < k; i++) {
      sum = dot(x, k, i, n);
      for (int64_t j = 0; j < n; j++) *element(x, k, j) -= sum * *element(x, i, j);
    }
  sum = sqrt(dot(x, k, k, n));
  for (int64_t j = 0; j < n; j++) *element(x, k, j) /= sum;
}

static void transpose(const Matrix *m, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = i + 1; j < n; j++) {
      double x = *element(m, i, j);
      *element(m, i, j) = *element(m, j, i), *element(m, j, i) = x;
    }
}

static void decompose(const Matrix *x, const Matrix *u, double *s, double scale, int64_t m, int64_t n) {
  make_orthogonal(x, u, m, n);
  for (int64_t k = 0; k < m; k++) s[k] = sqrt(dot(x, k, k, n));
  sort_rows(s, m, 1, x, n, u, m);
  for (int64_t k = 0; k < m; k++) {
    bool is_zero = s[k] < 0x1p-60;
    for (int64_t j = 0; j < n; j++) *element(x, k, j) = is_zero ? 0 : *element(x, k, j) / s[k];
    if (is_zero) fill_row(x, k, n);
    s[k] = is_zero ? 0 : s[k] * scale;
  }
  transpose(u, m);
}

bool eval_svd(Run *r, Val v) {
  Tensor u = run_result(r, v, 0), s = run_result(r, v, 1), x = run_result(r, v, 2), a = run_arg(r, v, 0);
  Sizes sizes = run_arg_sizes(r, v, 0);
  int64_t m = sizes.dim[sizes.rank - 2], n = sizes.dim[sizes.rank - 1];
  for (int64_t b = 0; s.n > 0 && b < s.n / m; b++) {
    Matrix of_x = {x.v + b * m * n, n, 1}, of_u = {u.v + b * m * m, m, 1};
    double scale = largest_of(a.v + b * m * n, m * n);
    for (int64_t k = 0; k < m * n; k++) of_x.at[k] = a.v[b * m * n + k] / scale;
    decompose(&of_x, &of_u, s.v + b * m, scale, m, n);
  }
  return true;
}

bool eval_eigh(Run *r, Val v) {
  Tensor w = run_result(r, v, 0), q = run_result(r, v, 1), a = run_arg(r, v, 0);
  Sizes sizes = run_arg_sizes(r, v, 0);
  int64_t n = sizes.dim[sizes.rank - 1];
  double *work = rt_alloc(r->env->mem, (size_t)(2 * n * n + 1) * sizeof *work), *whole = work + n * n;
  for (int64_t b = 0; w.n > 0 && b < w.n / n; b++) {
    Matrix x = {work, n, 1}, full = {whole, n, 1}, of_q = {q.v + b * n * n, n, 1}, given = {a.v + b * n * n, n, 1};
    double most = 0, scale;
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < n; j++) *element(&full, i, j) = *element(&given, i > j ? i : j, i > j ? j : i);
    scale = largest_of(whole, n * n);
    for (int64_t i = 0; i < n; i++) {
      double sum = 0;
      for (int64_t j = 0; j < n; j++) sum += fabs(*element(&x, i, j) = *element(&full, i, j) / scale);
      if (sum > most) most = sum;
    }
    for (int64_t i = 0; i < n; i++) *element(&x, i, i) += most;
    make_orthogonal(&x, &of_q, n, n);
    for (int64_t k = 0; k < n; k++) {
      double sum = 0;
      for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) sum += *element(&of_q, k, i) * *element(&full, i, j) * *element(&of_q, k, j);
      w.v[b * n + k] = sum;
    }
    sort_rows(w.v + b * n, n, -1, &of_q, n, NULL, 0);
    transpose(&of_q, n);
  }
  return true;
}
