// Eigenvalues and singular values of which no vectors are read: the same as those with vectors, which are found in another way,
// over sizes, batches and sizes of the run, for every CPU's row that runs here, with 1 to 4 workers, which must agree in every bit.
// A matrix has the same bits among others, also where these have NaN. Those of diagonal matrices are exact, down to small ones.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/systems.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORKERS = 4 };

typedef struct {
  int64_t batch, rows, n;
  bool by_bound;   // sizes are named dims whose bounds are larger
  double scale;    // of all elements
  bool has_a_sum;  // the last row is the sum of the others: a singular value is 0
} Case;

typedef struct {
  float *eigen, *singular;
} Out;

// a [batch, rows, n]; its first columns are the symmetric matrices, of which one triangle is read
static tn_model *model(const Case *k, uint32_t workers, bool with_vectors) {
  tn_program *p = tn_program_create("values");
  tn_dim b = sized(p, "b", k->batch, k->by_bound), n = sized(p, "n", k->n, k->by_bound);
  tn_dim rows = k->rows == k->n ? n : tn_dim_const(k->rows);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor a = tn_input(f, "a", TN_F32, TN_SHAPE(b, rows, n)), s = tn_input(f, "s", TN_F32, TN_SHAPE(b, rows, rows));
  tn_eigh_value e = tn_eigh(s);
  tn_svd_value v = tn_svd(a);
  tn_output(f, "w", e.values);
  tn_output(f, "sv", v.s);
  if (with_vectors) {
    tn_output(f, "v", tn_sum(e.vectors));
    tn_output(f, "u", tn_sum(v.u));
  }
  tn_function_end(f);
  return model_alone(p, .n_workers = workers);
}

static Out result(const Case *k, const float *a, const float *s, uint32_t workers, bool with_vectors) {
  Out o = {calloc((size_t)(k->batch * k->rows) + 1, 4), calloc((size_t)(k->batch * k->rows) + 1, 4)};
  tn_model *m = model(k, workers, with_vectors);
  if (!CHECK(m != NULL)) return o;
  float sums[2];
  tn_array in[] = {tn_f32((float *)a, k->batch, k->rows, k->n), tn_f32((float *)s, k->batch, k->rows, k->rows)};
  tn_array out[] = {tn_f32(o.eigen, k->batch, k->rows), tn_f32(o.singular, k->batch, k->rows), tn_f32_scalar(&sums[0]),
                    tn_f32_scalar(&sums[1])};
  CHECK(tn_run(m, "run", in, 2, out, with_vectors ? 4 : 2) == TN_OK);
  tn_model_free(m);
  return o;
}

static void release(Out o) { free(o.eigen), free(o.singular); }

static void make(const Case *k, float *a, float *s) {
  for (int64_t m = 0; m < k->batch; m++) {
    float *of = a + m * k->rows * k->n, *square = s + m * k->rows * k->rows;
    for (int64_t i = 0; i < k->rows * k->n; i++) of[i] = (float)(k->scale * noise((uint64_t)(m * 7919 + i)));
    for (int64_t j = 0; k->has_a_sum && j < k->n; j++) {
      float *last = of + (k->rows - 1) * k->n + j;
      *last = 0;
      for (int64_t i = 0; i + 1 < k->rows; i++) *last += of[i * k->n + j];
    }
    for (int64_t i = 0; i < k->rows; i++)
      for (int64_t j = 0; j < k->rows; j++) square[i * k->rows + j] = of[(i > j ? i : j) * k->n + (i > j ? j : i)];
  }
}

static double norm_of(const float *values, int64_t n) {
  double most = 0;
  for (int64_t i = 0; i < n; i++) most = fmax(most, fabs((double)values[i]));
  return most;
}

static void compare(const char *what, const float *got, const float *want, int64_t rows, bool rises) {
  double norm = norm_of(want, rows), bar = norm * 0x1p-23 * (8 + 0.5 * sqrt((double)rows));
  for (int64_t i = 0; i < rows; i++) {
    if (!CHECK(fabs((double)got[i] - (double)want[i]) <= bar))
      printf("%s %d of %d: %.9g, not %.9g (norm %g)\n", what, (int)i, (int)rows, (double)got[i], (double)want[i], norm);
    if (i) CHECK(rises ? got[i] >= got[i - 1] : got[i] <= got[i - 1]);
  }
}

static void run(const Case *k) {
  int64_t n_a = k->batch * k->rows * k->n, n_s = k->batch * k->rows * k->rows, n = k->batch * k->rows;
  float *a = calloc((size_t)n_a + 1, 4), *s = calloc((size_t)n_s + 1, 4);
  make(k, a, s);
  Out want = result(k, a, s, 1, true), first = result(k, a, s, 1, false);
  for (int64_t m = 0; m < k->batch; m++) {
    compare("eigenvalue", first.eigen + m * k->rows, want.eigen + m * k->rows, k->rows, true);
    compare("singular value", first.singular + m * k->rows, want.singular + m * k->rows, k->rows, false);
  }
  for (uint32_t w = 2; w <= MAX_WORKERS; w++) {
    Out more = result(k, a, s, w, false);
    CHECK(!memcmp(more.eigen, first.eigen, (size_t)n * 4) && !memcmp(more.singular, first.singular, (size_t)n * 4));
    release(more);
  }
  release(want), release(first);
  free(a), free(s);
}

static const Case cases[] = {
    {1, 1, 1, false, 1, false},    {3, 2, 2, false, 1, false},      {5, 3, 3, false, 1, false},
    {2, 5, 5, true, 1, false},     {2, 3, 40, false, 1, false},     {1, 15, 17, false, 1, false},
    {2, 16, 16, false, 1, false},  {1, 17, 33, false, 1, true},     {2, 33, 33, true, 1, false},
    {1, 48, 64, false, 1, false},  {1, 65, 65, false, 1, true},     {1, 130, 131, false, 1, false},
    {2, 9, 20, false, 1e30, true}, {2, 20, 20, false, 1e-30, true}, {1, 6, 6, false, 1e-37, false},
    {20, 3, 3, false, 1, false},   {9, 7, 11, false, 1, true},      {17, 4, 4, true, 1e20, false},
    {33, 1, 1, false, 1, false},   {11, 16, 16, false, 1, true},    {8, 2, 100, false, 1e-36, false},
    {1, 4, 4, false, 0, false},    {1, 100, 100, false, 3, true},
};

static void some(void) {
  for (int j = 2; j < 20; j += 3) run(&cases[j]);
}

static void sizes(void) {
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) run(&cases[k]);
  on_each_target(some);
}

// ---- each matrix by itself: the same bits where the others are 0
static void neighbours(int batch, int rows) {
  Case k = {batch, rows, rows, false, 1, false};
  size_t each = (size_t)rows * (size_t)rows, bytes = each * 4;
  float *a = calloc((size_t)batch, bytes), *s = calloc((size_t)batch, bytes);
  float *a0 = calloc((size_t)batch, bytes), *s0 = calloc((size_t)batch, bytes);
  make(&k, a, s);
  memcpy(a0 + each, a + each, bytes), memcpy(s0 + each, s + each, bytes);
  Out alone = result(&k, a0, s0, 1, false);
  for (int wild = 0; wild < 3; wild++) {
    if (wild) a[2 * each + 1] = s[2 * each + (size_t)rows] = wild == 1 ? NAN : -INFINITY;
    Out o = result(&k, a, s, 1, false);
    CHECK(!memcmp(alone.eigen + rows, o.eigen + rows, (size_t)rows * 4));
    CHECK(!memcmp(alone.singular + rows, o.singular + rows, (size_t)rows * 4));
    for (int i = 0; i < batch * rows; i++) {
      bool is_wild = wild && i / rows == 2;
      CHECK(isnan(o.eigen[i]) == is_wild && isnan(o.singular[i]) == is_wild);
    }
    release(o);
  }
  release(alone);
  free(a), free(s), free(a0), free(s0);
}

// Element i of the diagonal is 10^-i, signs in turn; the other matrices are 0.
static void graded(int batch) {
  enum { N = 12 };
  Case k = {batch, N, N, false, 1, false};
  static float a[9 * N * N], s[9 * N * N];
  for (int i = 0; i < N; i++) {
    a[i * N + i] = powf(10, (float)-i);
    s[i * N + i] = (i % 2 ? -1.f : 1.f) * powf(10, (float)-i);
  }
  Out o = result(&k, a, s, 1, false);
  for (int i = N; i < batch * N; i++) CHECK(o.singular[i] == 0 && o.eigen[i] == 0);
  for (int i = 0; i < N; i++) CHECK(o.singular[i] == a[i * N + i]);
  for (int i = 0; i < N; i++)
    CHECK(o.eigen[i] == (i < N / 2 ? s[(2 * i + 1) * (N + 1)] : s[(2 * (N - 1 - i)) * (N + 1)]));
  release(o);
}

int main(void) {
  sizes();
  neighbours(5, 19);
  neighbours(21, 5);
  graded(1);
  graded(9);
  return check_report();
}
