// Systems by row operations beyond one vector: residuals over odd sizes, batches and sizes of the run, for every CPU's row that
// runs here, with 1 to 4 workers, which must agree in every bit; matrices that need their rows in another order, and singular
// ones; results that nobody reads.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/systems.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORKERS = 4 };

typedef struct {
  int64_t batch, n, lanes;
  bool by_bound;  // sizes are named dims whose bounds are larger
} System;

static tn_model *model(const System *s, uint32_t workers) {
  tn_program *p = tn_program_create("lu");
  tn_dim b = sized(p, "b", s->batch, s->by_bound), n = sized(p, "n", s->n, s->by_bound),
         k = sized(p, "k", s->lanes, s->by_bound);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor a = tn_input(f, "a", TN_F32, TN_SHAPE(b, n, n)), r = tn_input(f, "r", TN_F32, TN_SHAPE(b, n, k));
  tn_output(f, "x", tn_solve(a, r));
  tn_output(f, "xt", tn_solve(tn_transpose(a, 1, 2), r));
  tn_slogdet_value d = tn_slogdet(a);
  tn_output(f, "sign", d.sign);
  tn_output(f, "logarithm", d.logabsdet);
  tn_function_end(f);
  return model_alone(p, .n_workers = workers);
}

// Large elements stand below the diagonal: every step moves rows.
static void make(const System *s, float *a, float *r) {
  int64_t n = s->n;
  for (int64_t k = 0; k < s->batch * n * n; k++) {
    int64_t i = k / n % n, j = k % n;
    double x = i == (j + 1) % n ? 2 + 0.5 * noise((uint64_t)k) : noise((uint64_t)k) / (double)n;
    a[k] = (float)x;
  }
  for (int64_t k = 0; k < s->batch * n * s->lanes; k++) r[k] = (float)noise((uint64_t)k + 77);
}

static double residual(const System *s, const float *a, const float *r, const float *x, bool transposed) {
  int64_t n = s->n, lanes = s->lanes;
  double most = 0;
  for (int64_t m = 0; m < s->batch; m++)
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < lanes; j++) {
        double sum = -(double)r[(m * n + i) * lanes + j];
        for (int64_t k = 0; k < n; k++)
          sum += (double)a[m * n * n + (transposed ? k * n + i : i * n + k)] * (double)x[(m * n + k) * lanes + j];
        most = fmax(most, fabs(sum));
      }
  return most;
}

static void run(const System *s) {
  int64_t n_a = s->batch * s->n * s->n, n_r = s->batch * s->n * s->lanes;
  float *a = calloc((size_t)n_a + 1, 4), *r = calloc((size_t)n_r + 1, 4);
  float *x[MAX_WORKERS], *xt[MAX_WORKERS], sign[64], logarithm[64];
  make(s, a, r);
  for (uint32_t w = 0; w < MAX_WORKERS; w++) {
    x[w] = calloc((size_t)n_r + 1, 4), xt[w] = calloc((size_t)n_r + 1, 4);
    tn_model *m = model(s, w + 1);
    if (!m) continue;
    tn_array in[] = {tn_f32(a, s->batch, s->n, s->n), tn_f32(r, s->batch, s->n, s->lanes)};
    tn_array out[] = {tn_f32(x[w], s->batch, s->n, s->lanes), tn_f32(xt[w], s->batch, s->n, s->lanes),
                      tn_f32(sign, s->batch), tn_f32(logarithm, s->batch)};
    CHECK(tn_run(m, "run", in, 2, out, 4) == TN_OK);
    CHECK(!memcmp(x[w], x[0], (size_t)n_r * 4) && !memcmp(xt[w], xt[0], (size_t)n_r * 4));
    tn_model_free(m);
  }
  CHECK(residual(s, a, r, x[0], false) < 2e-6 * (double)s->n + 1e-6);
  CHECK(residual(s, a, r, xt[0], true) < 2e-6 * (double)s->n + 1e-6);
  for (int64_t m = 0; m < s->batch; m++) CHECK(fabsf(sign[m]) == 1 && isfinite(logarithm[m]));
  for (uint32_t w = 0; w < MAX_WORKERS; w++) free(x[w]), free(xt[w]);
  free(a), free(r);
}

static const System shapes[] = {{1, 1, 1, false},  {3, 5, 7, false},  {2, 17, 33, false}, {1, 64, 1, true},
                                {5, 31, 16, true}, {7, 4, 4, true},   {20, 3, 2, false},  {9, 8, 5, true},
                                {33, 1, 1, false}, {16, 2, 3, false}, {19, 17, 1, false}, {9, 31, 2, true},
                                {2, 75, 70, true}, {1, 200, 5, false}};

static void some(void) { run(&shapes[2]), run(&shapes[6]), run(&shapes[7]), run(&shapes[10]), run(&shapes[12]); }

static void systems(void) {
  for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) run(&shapes[k]);
  on_each_target(some);
}

// Where every element has the same size, the first row wins that is left.
static void make_ties(float *a, int64_t n_a) {
  for (int64_t k = 0; k < n_a; k++) a[k] = noise((uint64_t)k) < 0 ? -1 : 1;
}

// A system has the same bits whether few are beside it or many, which have a lane each.
static void alone_and_among(int64_t n, int64_t lanes, bool has_ties) {
  enum { FEW = 7, MANY = 21, MOST = MANY * 33 * 33 };
  static float a[MOST], r[MOST], x[2][MOST], xt[2][MOST];
  float sign[2][MANY], logarithm[MANY];
  make(&(System){MANY, n, lanes, false}, a, r);
  if (has_ties) make_ties(a, MANY * n * n);
  for (int k = 0; k < 2; k++) {
    System s = {k ? MANY : FEW, n, lanes, false};
    tn_model *m = model(&s, 1);
    if (!CHECK(m)) return;
    tn_array in[] = {tn_f32(a, s.batch, n, n), tn_f32(r, s.batch, n, lanes)};
    tn_array out[] = {tn_f32(x[k], s.batch, n, lanes), tn_f32(xt[k], s.batch, n, lanes), tn_f32(sign[k], s.batch),
                      tn_f32(logarithm, s.batch)};
    CHECK(tn_run(m, "run", in, 2, out, 4) == TN_OK);
    tn_model_free(m);
  }
  size_t bytes = (size_t)(FEW * n * lanes) * sizeof(float);
  CHECK(!memcmp(x[0], x[1], bytes) && !memcmp(xt[0], xt[1], bytes));
  CHECK(!memcmp(sign[0], sign[1], FEW * sizeof(float)));
}

// The determinant of a singular matrix is 0; with one pivot of 0 its gradient are the cofactors, with several it is 0.
// times: as often all of them, since many small matrices go another way
static void singular(int times) {
  static const struct {
    float a[9], gradient[9];
  } all[] = {
      {{0, 1, 2, 0, 3, 5, 0, 4, 7}, {1, 0, 0, 1, 0, 0, -1, 0, 0}},       // the first
      {{1, 2, 3, 2, 4, 7, 3, 6, 1}, {-38, 19, 0, 16, -8, 0, 2, -1, 0}},  // the second
      {{1, 2, 3, 0, 1, 1, 1, 3, 4}, {1, 1, -1, 1, 1, -1, -1, -1, 1}},    // the last
      {{1, 2, 3, 2, 4, 6, 3, 6, 9}, {0}},                                // two, rank 1
      {{0, 0, 0, 0, 0, 0, 0, 0, 1}, {0}},                                // two, rank 1
      {{0}, {0}},
  };
  enum { COUNT = sizeof all / sizeof *all };
  tn_program *p = tn_program_create("singular");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor a = tn_input(f, "a", TN_F32, TN_SHAPE(times * COUNT, 3, 3)), det = tn_det(a);
  tn_output(f, "det", det);
  tn_output(f, "grad", tn_grad(tn_sum(det), a));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 1);
  if (!m) return;
  float in[3 * COUNT][9], out[3 * COUNT], slope[3 * COUNT][9];
  for (int k = 0; k < times * COUNT; k++) memcpy(in[k], all[k % COUNT].a, sizeof in[k]);
  CHECK(!tn_run(m, "run", TN_IN(tn_f32(&in[0][0], times * COUNT, 3, 3)),
                TN_OUT(tn_f32(out, times * COUNT), tn_f32(&slope[0][0], times * COUNT, 3, 3))));
  for (int k = 0; k < times * COUNT; k++) {
    const float *want = all[k % COUNT].gradient;
    CHECK(fabsf(out[k]) < 1e-5f);
    for (int j = 0; j < 9; j++)
      if (!CHECK(fabsf(slope[k][j] - want[j]) < 1e-4f))
        printf("matrix %d, element %d: %g, not %g\n", k, j, (double)slope[k][j], (double)want[j]);
  }
  tn_model_free(m);
}

// Matrices with NaN or an infinity have NaN, in all results.
static void not_finite(void) {
  static const float all[3][9] = {
      {1, INFINITY, 0, 0, 2, 0, 0, 0, 3}, {NAN, 1, 0, 0, 2, 0, 0, 5, 3}, {1, 0, 0, NAN, 2, 0, 0, 0, 3}};
  for (int lower = 0; lower < 2; lower++) {
    tn_program *p = tn_program_create("wild");
    tn_function *f = tn_function_begin(p, "run");
    tn_tensor a = tn_input(f, "a", TN_F32, TN_SHAPE(3, 3, 3)), b = lower ? tn_transpose(a, 1, 2) : a;
    tn_eigh_value e = tn_eigh(tn_add(a, tn_transpose(a, 1, 2)));
    tn_svd_value s = tn_svd(b);
    tn_output(f, "w", e.values), tn_output(f, "v", e.vectors);
    tn_output(f, "u", s.u), tn_output(f, "s", s.s), tn_output(f, "vh", s.vh);
    tn_function_end(f);
    tn_model *m = model_alone(p, .n_workers = 1);
    if (!m) return;
    float w[9], v[27], u[27], sv[9], vh[27];
    CHECK(!tn_run(
        m, "run", TN_IN(tn_f32((float *)all[0], 3, 3, 3)),
        TN_OUT(tn_f32(w, 3, 3), tn_f32(v, 3, 3, 3), tn_f32(u, 3, 3, 3), tn_f32(sv, 3, 3), tn_f32(vh, 3, 3, 3))));
    for (int k = 0; k < 9; k++) CHECK(isnan(w[k]) && isnan(sv[k]));
    for (int k = 0; k < 27; k++) CHECK(isnan(v[k]) && isnan(u[k]) && isnan(vh[k]));
    tn_model_free(m);
  }
}

int main(void) {
  systems();
  static const int64_t sizes[][2] = {{3, 2}, {8, 8}, {5, 3}, {1, 2}, {16, 1}, {17, 2}, {29, 1}, {32, 1}, {33, 2}};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) alone_and_among(sizes[k][0], sizes[k][1], false);
  alone_and_among(16, 1, true), alone_and_among(23, 2, true);
  not_finite();
  singular(1);
  singular(3);
  return check_report();
}
