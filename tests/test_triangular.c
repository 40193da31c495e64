// Triangular systems and Cholesky factors beyond one strip and one worker: against sums in doubles, over odd sizes, batches and
// every CPU's row that runs here, with 1 to 4 workers, which must agree in every bit; what is not read may be NaN; matrices that
// are not positive definite; calls that are refused.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/report.h"
#include "tests/systems.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_WORKERS = 4 };

typedef struct {
  int64_t batch, n, lanes;
  tn_solve_options o;
  bool shares_a, by_bound;  // one matrix for the batch; sizes are named dims whose bounds are larger
} System;

// ---- systems
static tn_model *system_model(const System *s, uint32_t workers) {
  tn_program *p = tn_program_create("solve");
  tn_dim b = sized(p, "b", s->batch, s->by_bound), n = sized(p, "n", s->n, s->by_bound),
         k = sized(p, "k", s->lanes, s->by_bound);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor a = s->shares_a ? tn_input(f, "a", TN_F32, TN_SHAPE(n, n)) : tn_input(f, "a", TN_F32, TN_SHAPE(b, n, n));
  tn_tensor r = s->o.right ? tn_input(f, "r", TN_F32, TN_SHAPE(b, k, n)) : tn_input(f, "r", TN_F32, TN_SHAPE(b, n, k));
  tn_output(f, "x",
            tn_solve_triangular(a, r, .upper = s->o.upper, .right = s->o.right, .unitriangular = s->o.unitriangular,
                                .transposed = s->o.transposed));
  tn_function_end(f);
  return model_alone(p, .n_workers = workers);
}

// Is element (i, j) of a matrix as stored read?
static bool is_read(const System *s, int64_t i, int64_t j) {
  return i == j ? !s->o.unitriangular : (j > i) == s->o.upper;
}

static void make_system(const System *s, float *a, float *r) {
  int64_t n = s->n, n_a = s->shares_a ? 1 : s->batch;
  for (int64_t k = 0; k < n_a * n * n; k++) {
    int64_t i = k / n % n, j = k % n;
    double x = i == j ? 1.5 + 0.5 * noise((uint64_t)k) : noise((uint64_t)k) / (double)n;
    a[k] = is_read(s, i, j) ? (float)x : NAN;
  }
  for (int64_t k = 0; k < s->batch * n * s->lanes; k++) r[k] = (float)noise((uint64_t)k + 77);
}

// The largest error of op(A) X = B, or X op(A) = B, an element of whose sums are about 1.
static double residual(const System *s, const float *a, const float *r, const float *x) {
  int64_t n = s->n, lanes = s->lanes;
  double most = 0;
  for (int64_t b = 0; b < s->batch; b++, r += n * lanes, x += n * lanes)
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < lanes; j++) {
        const float *t = a + (s->shares_a ? 0 : b * n * n);
        double sum = 0;
        for (int64_t k = 0; k < n; k++) {
          bool swaps = s->o.transposed != s->o.right;
          int64_t row = swaps ? k : i, col = swaps ? i : k;
          double value = is_read(s, row, col) ? t[row * n + col] : row == col ? 1 : 0;
          sum += value * x[s->o.right ? j * n + k : k * lanes + j];
        }
        most = fmax(most, fabs(sum - r[s->o.right ? j * n + i : i * lanes + j]));
      }
  return most;
}

static void check_system(System s) {
  int64_t n_a = (s.shares_a ? 1 : s.batch) * s.n * s.n, n_r = s.batch * s.n * s.lanes;
  float *a = malloc((size_t)(n_a + 1) * 4), *r = malloc((size_t)(n_r + 1) * 4), *x[2];
  for (int k = 0; k < 2; k++) x[k] = malloc((size_t)(n_r + 1) * 4);
  make_system(&s, a, r);
  for (uint32_t w = 1; w <= MAX_WORKERS; w += 2) {
    tn_model *m = system_model(&s, w);
    if (!m) break;
    tn_array in = s.shares_a ? tn_f32(a, s.n, s.n) : tn_f32(a, s.batch, s.n, s.n),
             out = tn_f32(x[w > 1], s.batch, s.n, s.lanes);
    tn_array rhs = tn_f32(r, s.batch, s.n, s.lanes);
    if (s.o.right) rhs.dims[1] = out.dims[1] = s.lanes, rhs.dims[2] = out.dims[2] = s.n;
    CHECK(!tn_run(m, "run", TN_IN(in, rhs), TN_OUT(out)));
    if (w == 1 && !CHECK(residual(&s, a, r, x[0]) < 3e-6))
      printf("  n %d lanes %d: %g\n", (int)s.n, (int)s.lanes, residual(&s, a, r, x[0]));
    if (w > 1) CHECK(!memcmp(x[0], x[1], (size_t)n_r * 4));
    tn_model_free(m);
  }
  free(a), free(r), free(x[0]), free(x[1]);
}

static void check_systems(void) {
  static const int64_t sizes[][3] = {{1, 1, 1}, {2, 7, 5}, {3, 33, 1}, {1, 64, 64}, {2, 45, 70}, {1, 131, 19}};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    for (unsigned flags = k % 2; flags < 16; flags += 3)
      check_system(
          (System){.batch = sizes[k][0],
                   .n = sizes[k][1],
                   .lanes = sizes[k][2],
                   .o = {.upper = flags & 1, .right = flags & 2, .transposed = flags & 4, .unitriangular = flags & 8},
                   .shares_a = k % 3 == 1,
                   .by_bound = k % 2});
  static const int64_t small[][3] = {{20, 3, 5}, {11, 8, 2}, {9, 2, 3}, {16, 1, 4}};  // many: a lane each
  for (size_t k = 0; k < sizeof small / sizeof *small; k++)
    for (unsigned flags = 0; flags < 16; flags++)
      check_system(
          (System){.batch = small[k][0],
                   .n = small[k][1],
                   .lanes = small[k][2],
                   .o = {.upper = flags & 1, .right = flags & 2, .transposed = flags & 4, .unitriangular = flags & 8},
                   .by_bound = k == 2});
  check_system((System){.batch = 1, .n = 600, .lanes = 40, .o = {.upper = true}});  // panels that are not on the stack
  check_system((System){.batch = 2, .n = 1100, .lanes = 3, .o = {.right = true}, .by_bound = true});
}

// ---- factors
static tn_model *factor_model(int64_t batch, int64_t n, bool upper, bool by_bound, uint32_t workers) {
  tn_program *p = tn_program_create("factor");
  tn_dim b = sized(p, "b", batch, by_bound), d = sized(p, "n", n, by_bound);
  tn_function *f = tn_function_begin(p, "run");
  tn_output(f, "l", tn_cholesky(tn_input(f, "a", TN_F32, TN_SHAPE(b, d, d)), upper));
  tn_function_end(f);
  return model_alone(p, .n_workers = workers);
}

// Symmetric, its diagonal larger than the sum of what is beside it; the triangle that is not read is NaN.
static void make_matrices(int64_t batch, int64_t n, bool upper, float *a) {
  for (int64_t k = 0; k < batch * n * n; k++) {
    int64_t i = k / n % n, j = k % n, low = i < j ? i : j, high = i < j ? j : i;
    double x = noise((uint64_t)(high * 1009 + low + k / (n * n)));
    a[k] = i == j ? (float)(2 + x) : (j > i) == upper ? (float)(x / (double)n) : NAN;
  }
}

// The largest error of L L^T, or U^T U, and of the zeros.
static double factor_error(int64_t batch, int64_t n, bool upper, const float *a, const float *l) {
  double most = 0;
  for (int64_t b = 0; b < batch; b++, a += n * n, l += n * n)
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < n; j++) {
        bool read = i == j || (j > i) == upper;
        double sum = 0;
        for (int64_t k = 0; read && k < n; k++)
          sum += (double)(upper ? l[k * n + i] : l[i * n + k]) * (upper ? l[k * n + j] : l[j * n + k]);
        double error = read ? fabs(sum - a[i * n + j]) : fabs(l[i * n + j]);
        most = isnan(error) || error > most ? error : most;
      }
  return most;
}

static void check_factor(int64_t batch, int64_t n, bool upper, bool by_bound) {
  size_t bytes = (size_t)(batch * n * n) * 4;
  float *a = malloc(bytes + 4), *l[2] = {malloc(bytes + 4), malloc(bytes + 4)};
  make_matrices(batch, n, upper, a);
  for (uint32_t w = 1; w <= MAX_WORKERS; w++) {
    if (w > 1 && batch > 1 && w != 3) continue;
    tn_model *m = factor_model(batch, n, upper, by_bound, w);
    if (!m) break;
    CHECK(!tn_run(m, "run", TN_IN(tn_f32(a, batch, n, n)), TN_OUT(tn_f32(l[w > 1], batch, n, n))));
    if (w == 1 && !CHECK(factor_error(batch, n, upper, a, l[0]) < 5e-6))
      printf("  n %d: %g\n", (int)n, factor_error(batch, n, upper, a, l[0]));
    if (w > 1) CHECK(!memcmp(l[0], l[1], bytes));
    tn_model_free(m);
  }
  free(a), free(l[0]), free(l[1]);
}

static void check_factors(void) {
  static const int64_t sizes[][2] = {{1, 1}, {5, 2}, {7, 17}, {3, 32}, {2, 33}, {1, 128}, {2, 129}, {1, 300}};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    check_factor(sizes[k][0], sizes[k][1], k % 2, k % 3 == 1);
    check_factor(sizes[k][0], sizes[k][1], !(k % 2), k % 3 == 2);
  }
}

// Columns of L from the first that finds the matrix not positive definite are NaN, in rows from there on; the rest is right.
static void check_not_positive(float pivot, int64_t n, int64_t bad) {
  float *a = calloc((size_t)(n * n), 4), *l = malloc((size_t)(n * n) * 4);
  for (int64_t i = 0; i < n; i++) a[i * n + i] = i == bad ? pivot : 4;
  tn_model *m = factor_model(1, n, false, false, 2);
  CHECK(m && !tn_run(m, "run", TN_IN(tn_f32(a, 1, n, n)), TN_OUT(tn_f32(l, 1, n, n))));
  for (int64_t i = 0; m && i < n; i++)
    for (int64_t j = 0; j < n; j++) {
      float x = l[i * n + j];
      CHECK(j >= bad && i >= j ? isnan(x) : x == (i == j ? 2 : 0));
    }
  tn_model_free(m);
  free(a), free(l);
}

// ---- refused calls
#define REFUSED(text, call)                                                                                    \
  do {                                                                                                         \
    tn_program *p = tn_program_create("refused");                                                              \
    tn_function *f = tn_function_begin(p, "run");                                                              \
    tn_tensor a = tn_input(f, "a", TN_F32, TN_SHAPE(3, 3)), b = tn_input(f, "b", TN_F32, TN_SHAPE(2, 4, 3));   \
    tn_tensor v = tn_input(f, "v", TN_F32, TN_SHAPE(3)), whole = tn_input(f, "whole", TN_I64, TN_SHAPE(3, 3)); \
    tn_tensor as = tn_input(f, "as", TN_F32, TN_SHAPE(5, 3, 3));                                               \
    tn_tensor none = {f, 0};                                                                                   \
    (void)a, (void)b, (void)v, (void)whole, (void)as, (void)none;                                              \
    CHECK((call).v == 0);                                                                                      \
    if (!CHECK(strstr(report_of(p), text) != NULL)) printf("  %s\n", report_of(p));                            \
    tn_program_free(p);                                                                                        \
  } while (0)

static void check_refused(void) {
  REFUSED("the system and its right-hand sides differ in size", tn_solve_triangular(a, b));
  REFUSED("the matrix is not square", tn_solve_triangular(b, a));
  REFUSED("batch sizes differ", tn_solve_triangular(as, b, .right = true));
  REFUSED("rank", tn_solve_triangular(a, v));
  REFUSED("rank", tn_solve_triangular(v, a));
  REFUSED("i64", tn_solve_triangular(whole, a));
  REFUSED("i64", tn_solve_triangular(a, whole));
  REFUSED("the matrix is not square", tn_cholesky(b, false));
  REFUSED("rank", tn_cholesky(v, false));
  REFUSED("i64", tn_cholesky(whole, true));
  REFUSED("", tn_cholesky(none, true));
  REFUSED("", tn_solve_triangular(a, none));
}

int main(void) {
  static const char *const targets[] = {"", "avx2", "generic"};
  for (size_t k = 0; k < sizeof targets / sizeof *targets; k++) {
    if (*targets[k]) setenv("TN_TARGET", targets[k], 1);
    check_systems();
    check_factors();
  }
  check_not_positive(-1, 40, 35);
  check_not_positive(0, 200, 3);
  check_not_positive(NAN, 1, 0);
  check_refused();
  return check_report();
}
