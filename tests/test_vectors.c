// Eigenvectors and singular vectors of matrices that are hard for their rotations: equal values, rank 1, zeros on the diagonal and
// beside it, values that grow or shrink along the diagonal, huge and small elements. What they are multiplied back to is the matrix,
// and they are orthonormal, to roundings; for every CPU's row that runs here, the same bits with 1 to 4 workers.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/systems.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 3, MAX_WORKERS = 4 };

// ---- matrices: element (i, j) of rows x n
typedef double Element(int i, int j, int rows, int n);

static double random_element(int i, int j, int rows, int n) { return (void)rows, noise((uint64_t)(i * n + j)); }
static double nothing(int i, int j, int rows, int n) { return (void)i, (void)j, (void)rows, (void)n, 0.0; }
static double identity(int i, int j, int rows, int n) { return (void)rows, (void)n, i == j; }
static double ones(int i, int j, int rows, int n) { return (void)i, (void)j, (void)rows, (void)n, 1.0; }
static double turned(int i, int j, int rows, int n) { return (void)n, i + j == rows - 1; }
static double beside(int i, int j, int rows, int n) { return (void)rows, (void)n, abs(i - j) == 1; }
static double shifted(int i, int j, int rows, int n) { return (void)rows, (void)n, j == i + 1; }
static double wilkinson(int i, int j, int rows, int n) {
  return (void)n, i == j ? fabs(i - (rows - 1) / 2.0) : abs(i - j) == 1;
}
static double rank_two(int i, int j, int rows, int n) {
  return (void)rows, (void)n, sin(i + 1) * sin(j + 1) + (i % 3) * (j % 3);
}
static double grows(int i, int j, int rows, int n) {
  return pow(2, (i < j ? i : j) - rows) * noise((uint64_t)((i < j ? i : j) * n + (i < j ? j : i)));
}
static double shrinks(int i, int j, int rows, int n) {
  return (void)rows, pow(2, -(i < j ? j : i)) * noise((uint64_t)((i < j ? i : j) * n + (i < j ? j : i)));
}
static double almost_equal(int i, int j, int rows, int n) {
  return (void)rows, (i == j) + 1e-7 * noise((uint64_t)((i < j ? i : j) * n + (i < j ? j : i)));
}
static double in_blocks(int i, int j, int rows, int n) {
  return (void)rows, i / 2 == j / 2 ? noise((uint64_t)((i < j ? i : j) % 2 * n + (i < j ? j : i) % 2)) : 0;
}
static double row_of_zeros(int i, int j, int rows, int n) {
  return i == rows / 2 || j == rows / 2 ? 0 : noise((uint64_t)((i < j ? i : j) * n + (i < j ? j : i)));
}
static double hilbert(int i, int j, int rows, int n) { return (void)rows, (void)n, 1.0 / (i + j + 1); }
static double huge_element(int i, int j, int rows, int n) { return 1e36 * random_element(i, j, rows, n); }
static double small_element(int i, int j, int rows, int n) { return 1e-38 * random_element(i, j, rows, n); }

static const struct {
  const char *name;
  Element *element;
} kinds[] = {{"random", random_element}, {"zeros", nothing},
             {"identity", identity},     {"ones", ones},
             {"turned", turned},         {"beside", beside},
             {"shifted", shifted},       {"wilkinson", wilkinson},
             {"rank two", rank_two},     {"grows", grows},
             {"shrinks", shrinks},       {"almost equal", almost_equal},
             {"in blocks", in_blocks},   {"row of zeros", row_of_zeros},
             {"hilbert", hilbert},       {"huge", huge_element},
             {"small", small_element}};

// ---- running
typedef struct {
  float *w, *v, *u, *s, *vt;  // eigh: w, v; svd: u, s, vt
} Out;

static Out room(int rows, int n) {
  size_t r = (size_t)rows * BATCH, each = sizeof(float);
  return (Out){calloc(r, each), calloc(r * (size_t)rows, each), calloc(r * (size_t)rows, each), calloc(r, each),
               calloc(r * (size_t)n, each)};
}

static void release(Out o) { free(o.w), free(o.v), free(o.u), free(o.s), free(o.vt); }

static tn_model *model(int rows, int n, uint32_t workers) {
  tn_program *p = tn_program_create("vectors");
  tn_function *f = tn_function_begin(p, "run");
  tn_dim r = tn_dim_const(rows), columns = tn_dim_const(n), b = tn_dim_const(BATCH);
  tn_tensor a = tn_input(f, "a", TN_F32, TN_SHAPE(b, r, columns)), s = tn_input(f, "s", TN_F32, TN_SHAPE(b, r, r));
  tn_eigh_value e = tn_eigh(s);
  tn_svd_value d = tn_svd(a);
  tn_output(f, "w", e.values);
  tn_output(f, "v", e.vectors);
  tn_output(f, "u", d.u);
  tn_output(f, "d", d.s);
  tn_output(f, "vt", d.vh);
  tn_function_end(f);
  return model_alone(p, .n_workers = workers);
}

static void call(tn_model *m, int rows, int n, const float *a, const float *s, Out o) {
  tn_array in[] = {tn_f32((float *)a, BATCH, rows, n), tn_f32((float *)s, BATCH, rows, rows)};
  tn_array out[] = {tn_f32(o.w, BATCH, rows), tn_f32(o.v, BATCH, rows, rows), tn_f32(o.u, BATCH, rows, rows),
                    tn_f32(o.s, BATCH, rows), tn_f32(o.vt, BATCH, rows, n)};
  CHECK(tn_run(m, "run", in, 2, out, 5) == TN_OK);
}

// ---- checking
typedef struct {
  const float *at;
  int row, column;
} Matrix;

static double at(Matrix m, int i, int j) { return (double)m.at[i * m.row + j * m.column]; }

// The largest element of x x^T - 1, x of rows x n
static double off_identity(Matrix x, int rows, int n) {
  double most = 0;
  for (int i = 0; i < rows; i++)
    for (int j = 0; j <= i; j++) {
      double sum = i == j ? -1 : 0;
      for (int k = 0; k < n; k++) sum += at(x, i, k) * at(x, j, k);
      most = fmax(most, fabs(sum));
    }
  return most;
}

// The largest element of left diag(d) right - a, by the largest element of d
static double off_product(Matrix a, Matrix left, const float *d, Matrix right, int rows, int n) {
  double most = 0, norm = 0;
  for (int k = 0; k < rows; k++) norm = fmax(norm, fabs((double)d[k]));
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < n; j++) {
      double sum = -at(a, i, j);
      for (int k = 0; k < rows; k++) sum += at(left, i, k) * (double)d[k] * at(right, k, j);
      most = fmax(most, fabs(sum));
    }
  return norm > 0 ? most / norm : most;
}

static double worst;

static void within(const char *kind, const char *what, double off, int rows) {
  double bar = 0x1p-23 * (4 + 1.5 * sqrt(rows)), share = off / bar;
  if (!CHECK(off <= bar)) printf("%s, %d rows: %s is off by %.2g, not %.2g\n", kind, rows, what, off, bar);
  worst = fmax(worst, share);
}

static void check(const char *kind, int rows, int n, const float *a, const float *s, Out o) {
  Matrix v = {o.v, rows, 1}, vectors = {o.v, 1, rows}, u = {o.u, rows, 1}, columns = {o.u, 1, rows}, vt = {o.vt, n, 1};
  within(kind, "V^T V", off_identity(vectors, rows, rows), rows);
  within(kind, "V W V^T", off_product((Matrix){s, rows, 1}, v, o.w, vectors, rows, rows), rows);
  within(kind, "U^T U", off_identity(columns, rows, rows), rows);
  within(kind, "V^T V of svd", off_identity(vt, rows, n), rows);
  within(kind, "U S V^T", off_product((Matrix){a, n, 1}, u, o.s, vt, rows, n), rows);
  for (int k = 1; k < rows; k++) CHECK(o.w[k] >= o.w[k - 1] && o.s[k] <= o.s[k - 1] && o.s[k] >= 0);
}

// Matrix 1 of the batch is a kind, 0 is random, 2 has NaN in it: everything of it is NaN, and nothing of the others.
static void run_kind(size_t kind, int rows, int n, tn_model *const *m, int n_models) {
  size_t of_a = (size_t)rows * (size_t)n, of_s = (size_t)rows * (size_t)rows;
  float *a = calloc(BATCH * of_a, 4), *s = calloc(BATCH * of_s, 4);
  for (int b = 0; b < BATCH; b++) {
    Element *element = b == 1 ? kinds[kind].element : random_element;
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < n; j++) a[(size_t)b * of_a + (size_t)(i * n + j)] = (float)element(i, j, rows, n);
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < rows; j++)
        s[(size_t)b * of_s + (size_t)(i * rows + j)] = (float)element(i > j ? i : j, i > j ? j : i, rows, rows);
  }
  a[2 * of_a] = s[2 * of_s] = NAN;
  Out first = room(rows, n);
  for (int k = 0; k < n_models; k++) {
    Out o = k ? room(rows, n) : first;
    call(m[k], rows, n, a, s, o);
    size_t r = (size_t)rows;
    if (k) CHECK(!memcmp(o.w, first.w, 8 * r) && !memcmp(o.v, first.v, 8 * r * r) && !memcmp(o.s, first.s, 8 * r));
    if (k) CHECK(!memcmp(o.u, first.u, 8 * r * r) && !memcmp(o.vt, first.vt, 8 * of_a));
    if (k) release(o);
  }
  size_t r = (size_t)rows;
  check(kinds[kind].name, rows, n, a + of_a, s + of_s,
        (Out){first.w + r, first.v + of_s, first.u + of_s, first.s + r, first.vt + of_a});
  check("random", rows, n, a, s, first);
  for (size_t k = 0; k < of_s; k++) CHECK(isnan(first.v[2 * of_s + k]) && isnan(first.u[2 * of_s + k]));
  for (size_t k = 0; k < r; k++) CHECK(isnan(first.w[2 * r + k]) && isnan(first.s[2 * r + k]));
  for (size_t k = 0; k < of_a; k++) CHECK(isnan(first.vt[2 * of_a + k]));
  release(first);
  free(a), free(s);
}

static void run(int rows, int n, uint32_t max_workers) {
  tn_model *m[MAX_WORKERS] = {NULL};
  for (uint32_t w = 0; w < max_workers; w++) m[w] = model(rows, n, w + 1);
  for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) run_kind(kind, rows, n, m, (int)max_workers);
  for (uint32_t w = 0; w < max_workers; w++) tn_model_free(m[w]);
}

static void some(void) {
  run(5, 7, 1);
  run(18, 18, 1);
}

int main(void) {
  static const int sizes[][2] = {{1, 1},  {2, 2},   {2, 9},   {3, 3},   {5, 5},
                                 {8, 30}, {16, 16}, {17, 20}, {33, 33}, {64, 64}};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) run(sizes[k][0], sizes[k][1], k % 3 ? 1 : MAX_WORKERS);
  run(120, 130, 1);
  on_each_target(some);
  printf("worst share of the bar: %.2f\n", worst);
  return check_report();
}
