// Shapes that invite a slow way: values against plain loops, bits with one and with three workers, and CPU time of one
// worker against that of an ordinary case of as many elements, with a wide margin: the slow ways were far beyond it.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/cpu_time.h"
#include "tests/models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_INPUTS = 3 };

typedef struct {
  const char *name;
  int64_t dims[MAX_INPUTS][4], out[4];  // up to the first 0
  tn_tensor (*build)(tn_tensor *x);
  void (*expect)(float *const *x, double *y);
  double times;  // what `plain` takes at most; 0: nothing is measured
} Case;

static uint32_t rank_of(const int64_t *d) {
  uint32_t r = 0;
  while (r < 4 && d[r]) r++;
  return r;
}

static int64_t count(const int64_t *d) {
  int64_t n = 1;
  for (uint32_t k = 0; k < rank_of(d); k++) n *= d[k];
  return n;
}

static tn_shape shape_of(const int64_t *d, tn_dim *dim) {
  for (uint32_t k = 0; k < rank_of(d); k++) dim[k] = tn_dim_const(d[k]);
  return tn_shape_of(dim, rank_of(d));
}

static float *numbers(int64_t n, uint32_t seed) {
  float *x = malloc(((size_t)n + 1) * sizeof *x);
  if (!x) abort();
  for (int64_t k = 0; k < n; k++) {
    seed = seed * 1664525u + 1013904223u;
    x[k] = (float)(seed >> 8) * 0x1p-22f - 2;
  }
  return x;
}

static tn_model *compile(const Case *t, uint32_t workers) {
  tn_program *p = tn_program_create("shapes");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x[MAX_INPUTS];
  static const char *const name[] = {"a", "b", "c"};
  tn_dim dim[4];
  for (int k = 0; k < MAX_INPUTS && t->dims[k][0]; k++) x[k] = tn_input(f, name[k], TN_F32, shape_of(t->dims[k], dim));
  tn_output(f, "y", t->build(x));
  tn_function_end(f);
  return model_alone(p, .n_workers = workers);
}

// Least CPU time of a run, in seconds, and its result.
static double run(const Case *t, uint32_t workers, float *const *x, float *y, int times) {
  tn_model *m = compile(t, workers);
  tn_array in[MAX_INPUTS], out = tn_array_of(y, TN_F32, t->out, rank_of(t->out));
  size_t n = 0;
  double least = INFINITY;
  for (; n < MAX_INPUTS && t->dims[n][0]; n++) in[n] = tn_array_of(x[n], TN_F32, t->dims[n], rank_of(t->dims[n]));
  for (int k = 0; CHECK(m != NULL) && k < times; k++) {
    double begin = thread_cpu_s();
    CHECK(tn_run(m, "run", in, n, &out, 1) == TN_OK);
    least = fmin(least, thread_cpu_s() - begin);
  }
  tn_model_free(m);
  return least;
}

// ---- an ordinary case: a + b
static tn_tensor add_both(tn_tensor *x) { return tn_add(x[0], x[1]); }

static double plain(int64_t n) {
  Case t = {.dims = {{n}, {n}}, .out = {n}, .build = add_both};
  float *x[] = {numbers(n, 1), numbers(n, 2)}, *y = numbers(n, 3);
  double least = run(&t, 1, x, y, 9);
  free(x[0]), free(x[1]), free(y);
  return least;
}

// ---- joining and padding along the first axis, where most vectors lie outside of an operand
static tn_tensor join_first(tn_tensor *x) { return tn_concat(0, TN_TENSORS(x[0], x[1])); }
static void expect_joined(float *const *x, double *y) {
  for (int k = 0; k < 300 * 1000; k++) y[k] = x[0][k];
  for (int k = 0; k < 500 * 1000; k++) y[300 * 1000 + k] = x[1][k];
}

static tn_tensor pad_first(tn_tensor *x) { return tn_grad(tn_sum(tn_square(tn_slice(x[0], 0, 2, 3))), x[0]); }
static void expect_padded(float *const *x, double *y) {
  for (int k = 0; k < 7 * 100003; k++) y[k] = k / 100003 >= 2 && k / 100003 < 5 ? 2 * (double)x[0][k] : 0;
}

static tn_tensor join_odd(tn_tensor *x) { return tn_concat(1, TN_TENSORS(x[0], tn_relu(x[1]), x[2])); }
static void expect_joined_odd(float *const *x, double *y) {
  for (int i = 0; i < 37; i++)
    for (int j = 0; j < 54; j++)
      *y++ = j < 17 ? x[0][i * 17 + j] : j < 50 ? fmax(0, x[1][i * 33 + j - 17]) : x[2][i * 4 + j - 50];
}

// ---- rows of few elements
enum { ROWS3 = 100003, ROWS17 = 30001 };

static void softmax_of(const float *x, int64_t rows, int64_t n, int64_t from_row, int64_t step, double *y) {
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += exp(x[i * from_row + j * step]);
    for (int64_t j = 0; j < n; j++) y[i * from_row + j * step] = exp(x[i * from_row + j * step]) / sum;
  }
}

static tn_tensor softmax(tn_tensor *x) { return tn_softmax(x[0], -1); }
static void expect_softmax_3(float *const *x, double *y) { softmax_of(x[0], ROWS3, 3, 3, 1, y); }
static void expect_softmax_1(float *const *x, double *y) { softmax_of(x[0], 1001, 1, 1, 1, y); }
static void expect_softmax_47(float *const *x, double *y) { softmax_of(x[0], 37 * 3, 47, 47, 1, y); }
static tn_tensor softmax_first(tn_tensor *x) { return tn_softmax(x[0], 0); }
static void expect_softmax_first(float *const *x, double *y) { softmax_of(x[0], ROWS3, 3, 1, ROWS3, y); }

static tn_tensor log_softmax(tn_tensor *x) { return tn_log_softmax(x[0], -1); }
static void expect_log_softmax(float *const *x, double *y) {
  softmax_of(x[0], ROWS17, 17, 17, 1, y);
  for (int64_t k = 0; k < ROWS17 * 17; k++) y[k] = log(y[k]);
}

// A weight that all rows share, a factor of each row, and one that moves with an outer axis, which goes row by row.
static tn_tensor norm(tn_tensor *x) { return tn_mul(tn_layer_norm_of(tn_gelu(x[0]), 1, x[1], TN_NONE, 1e-5), x[2]); }
static double gelu(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }
static void expect_norm(float *const *x, double *y, int n, int inner) {
  for (int i = 0; i < 63; i++, y += n) {
    double sum = 0, squares = 0;
    for (int j = 0; j < n; j++) sum += gelu(x[0][i * n + j]);
    for (int j = 0; j < n; j++) squares += pow(gelu(x[0][i * n + j]) - sum / n, 2);
    for (int j = 0; j < n; j++)
      y[j] = (gelu(x[0][i * n + j]) - sum / n) / sqrt(squares / n + 1e-5) * x[1][j] * x[2][inner ? i / inner : i];
  }
}
static void expect_norm_rows(float *const *x, double *y) { expect_norm(x, y, 11, 0); }
static void expect_norm_outer(float *const *x, double *y) { expect_norm(x, y, 5, 21); }

// Sums and maxima of the rows themselves, alone in a kernel.
static tn_tensor sum_last(tn_tensor *x) { return tn_sum_axis(x[0], -1, false); }
// The axis of size 1 beside the last is no axis of the rows.
static tn_tensor sum_both(tn_tensor *x) { return tn_sum_axes(x[0], false, TN_INTS(1, 2)); }
static tn_tensor max_both(tn_tensor *x) { return tn_amax_axes(x[0], true, TN_INTS(0, 2)); }
static tn_tensor max_last(tn_tensor *x) { return tn_amax_axis(x[0], -1, true); }
static void expect_sums(float *const *x, double *y) {
  for (int i = 0; i < ROWS3; i++) y[i] = (double)x[0][i * 3] + x[0][i * 3 + 1] + x[0][i * 3 + 2];
}
static void expect_sums_of_few(float *const *x, double *y) {
  for (int i = 0; i < 21; i++) y[i] = (double)x[0][i * 2] + x[0][i * 2 + 1];
}
static void expect_maxima_of_few(float *const *x, double *y) {
  for (int i = 0; i < 29; i++) y[i] = fmax(fmax(x[0][i * 3], x[0][i * 3 + 1]), x[0][i * 3 + 2]);
}
static void expect_maxima(float *const *x, double *y) {
  for (int i = 0; i < 41 * 5; i++) {
    y[i] = -INFINITY;
    for (int j = 0; j < 13; j++) y[i] = fmax(y[i], x[0][i * 13 + j]);
  }
}

static tn_tensor label_of(tn_tensor x) { return tn_cast(tn_floor(tn_mul(tn_abs(x), tn_scalar(x.fn, 2))), TN_I64); }
static int label_at(float x) { return (int)(fabsf(x) * 2); }  // below 5, for |x| at most 2
static tn_tensor loss_gradient(tn_tensor *x) {
  return tn_grad(tn_cross_entropy(x[0], label_of(x[1]), .has_ignore = true, .ignore_index = 2), x[0]);
}
static void expect_loss_gradient(float *const *x, double *y) {
  int n = 0;
  for (int i = 0; i < 77; i++) n += label_at(x[1][i]) != 2;
  softmax_of(x[0], 77, 5, 5, 1, y);
  for (int i = 0; i < 77 * 5; i++) {
    int label = label_at(x[1][i / 5]);
    y[i] = label == 2 ? 0 : (y[i] - (label == i % 5)) / n;
  }
}

// ---- products with one column, and matrices of a batch that are a row or a few
static tn_tensor product(tn_tensor *x) { return tn_relu(tn_matmul(x[0], x[1])); }
static tn_tensor product_of_rows(tn_tensor *x) { return tn_relu(tn_matmul(x[0], tn_transpose(x[1], -1, -2))); }
static tn_tensor product_of_columns(tn_tensor *x) { return tn_relu(tn_matmul(tn_transpose(x[0], -1, -2), x[1])); }

// batch of a [m, k] (steps am, ak) and b [k, n] (bk, bn); zero steps from matrix to matrix: one for all
typedef struct {
  int64_t batch, m, n, k, ab, am, ak, bb, bk, bn;
} Product;
static void expect_product(float *const *x, double *y, Product p) {
  for (int64_t b = 0; b < p.batch; b++)
    for (int64_t i = 0; i < p.m; i++)
      for (int64_t j = 0; j < p.n; j++) {
        double sum = 0;
        for (int64_t q = 0; q < p.k; q++)
          sum += (double)x[0][b * p.ab + i * p.am + q * p.ak] * x[1][b * p.bb + q * p.bk + j * p.bn];
        *y++ = fmax(sum, 0);
      }
}
static void expect_3_20011_1(float *const *x, double *y) {
  expect_product(x, y, (Product){1, 3, 1, 20011, 0, 20011, 1, 0, 1, 1});
}
static void expect_301_101_1(float *const *x, double *y) {
  expect_product(x, y, (Product){1, 301, 1, 101, 0, 101, 1, 0, 1, 1});
}
static void expect_heads(float *const *x, double *y) {  // all matrices by one column
  expect_product(x, y, (Product){7, 43, 1, 101, 43 * 101, 101, 1, 0, 1, 1});
}
static void expect_numbers(float *const *x, double *y) {
  expect_product(x, y, (Product){5, 1, 1, 20011, 20011, 1, 1, 20011, 1, 1});
}
static void expect_turned_column(float *const *x, double *y) {
  expect_product(x, y, (Product){1, 20011, 1, 3, 0, 1, 20011, 0, 1, 1});
}
static void expect_few_rows(float *const *x, double *y) {
  expect_product(x, y, (Product){6, 3, 37, 50, 150, 50, 1, 37 * 50, 1, 50});
}

static const Case cases[] = {
    {"join along the first axis", {{300, 1000}, {500, 1000}}, {800, 1000}, join_first, expect_joined, 30},
    {"pad along the first axis", {{7, 100003}}, {7, 100003}, pad_first, expect_padded, 30},
    {"join odd widths", {{37, 17}, {37, 33}, {37, 4}}, {37, 54}, join_odd, expect_joined_odd, 0},
    {"softmax of 3", {{ROWS3, 3}}, {ROWS3, 3}, softmax, expect_softmax_3, 60},
    {"softmax of 1", {{1001, 1}}, {1001, 1}, softmax, expect_softmax_1, 0},
    {"softmax of 47", {{37, 3, 47}}, {37, 3, 47}, softmax, expect_softmax_47, 0},
    {"softmax along the first axis", {{3, ROWS3}}, {3, ROWS3}, softmax_first, expect_softmax_first, 150},
    {"log_softmax of 17", {{ROWS17, 17}}, {ROWS17, 17}, log_softmax, expect_log_softmax, 32},
    {"norm of 11, a factor of each row", {{9, 7, 11}, {11}, {9, 7, 1}}, {9, 7, 11}, norm, expect_norm_rows, 0},
    {"norm of 5, a factor of 21 rows", {{3, 21, 5}, {5}, {3, 1, 1}}, {3, 21, 5}, norm, expect_norm_outer, 0},
    {"sums of 3", {{ROWS3, 3}}, {ROWS3}, sum_last, expect_sums, 40},
    {"sums of 1 x 2", {{21, 1, 2}}, {21}, sum_both, expect_sums_of_few, 0},
    {"maxima of 1 x 3", {{1, 29, 3}}, {1, 29, 1}, max_both, expect_maxima_of_few, 0},
    {"maxima of 13", {{41, 5, 13}}, {41, 5, 1}, max_last, expect_maxima, 0},
    {"loss of 5 classes, backward", {{7, 11, 5}, {7, 11}}, {7, 11, 5}, loss_gradient, expect_loss_gradient, 0},
    {"3 x 20011 x 1", {{3, 20011}, {20011, 1}}, {3, 1}, product, expect_3_20011_1, 0},
    {"301 x 101 x 1", {{301, 101}, {101, 1}}, {301, 1}, product, expect_301_101_1, 0},
    {"batch by one column", {{7, 43, 101}, {101, 1}}, {7, 43, 1}, product, expect_heads, 0},
    {"numbers", {{5, 1, 20011}, {5, 20011, 1}}, {5, 1, 1}, product, expect_numbers, 0},
    {"numbers of rows", {{5, 1, 20011}, {5, 1, 20011}}, {5, 1, 1}, product_of_rows, expect_numbers, 0},
    {"numbers of columns", {{5, 20011, 1}, {5, 20011, 1}}, {5, 1, 1}, product_of_columns, expect_numbers, 0},
    {"a column of 20011", {{3, 20011}, {3, 1}}, {20011, 1}, product_of_columns, expect_turned_column, 0},
    {"batch of few rows", {{2, 3, 3, 50}, {2, 3, 37, 50}}, {2, 3, 3, 37}, product_of_rows, expect_few_rows, 0},
};

static void check(const Case *t) {
  float *x[MAX_INPUTS] = {NULL};
  int64_t n = count(t->out);
  double *want = malloc((size_t)n * sizeof *want), worst = 0, most = 0;
  float *y = numbers(n, 8), *z = numbers(n, 9);
  for (uint32_t k = 0; k < MAX_INPUTS && t->dims[k][0]; k++) x[k] = numbers(count(t->dims[k]), k + 1);
  if (!want) abort();
  t->expect(x, want);
  double took = run(t, 1, x, y, t->times > 0 ? 9 : 1);
  run(t, 3, x, z, 1);
  for (int64_t k = 0; k < n; k++) worst = fmax(worst, fabs(y[k] - want[k])), most = fmax(most, fabs(want[k]));
  if (!CHECK(worst <= 4e-6 * most)) printf("  %s: %g of %g\n", t->name, worst, most);
  if (!CHECK(!memcmp(y, z, (size_t)n * sizeof *y))) printf("  %s: other bits with three workers\n", t->name);
  double limit = t->times > 0 ? t->times * plain(n) : INFINITY;
  if (!CHECK(took <= limit)) printf("  %s: %.1f us, limit %.1f\n", t->name, 1e6 * took, 1e6 * limit);
  for (uint32_t k = 0; k < MAX_INPUTS; k++) free(x[k]);
  free(want), free(y), free(z);
}

// A label that the run computes and that is no class: the row is named.
static void check_bad_label(void) {
  tn_program *p = tn_program_create("bad");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(50, 5));
  tn_tensor y = tn_input(f, "y", TN_F32, TN_SHAPE(50));
  tn_output(f, "loss", tn_cross_entropy(x, tn_cast(y, TN_I64)));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1);
  tn_program_free(p);
  float *logits = numbers(250, 1), labels[50] = {[37] = 5}, loss;
  if (CHECK(m != NULL)) {
    CHECK(tn_run(m, "run", TN_IN(tn_f32(logits, 50, 5), tn_f32(labels, 50)), TN_OUT(tn_f32_scalar(&loss))) ==
          TN_ERR_VALUE);
    if (!CHECK(strstr(tn_error_text(m), "37") != NULL)) printf("  %s\n", tn_error_text(m));
    labels[37] = 4;
    CHECK(tn_run(m, "run", TN_IN(tn_f32(logits, 50, 5), tn_f32(labels, 50)), TN_OUT(tn_f32_scalar(&loss))) == TN_OK);
  }
  free(logits);
  tn_model_free(m);
}

// Random numbers belong to elements, wherever these are computed: of a pointwise kernel and of rows side by side.
static void draw(bool rows, float *y) {
  tn_program *p = tn_program_create("draw");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor d = tn_dropout(tn_full(f, 1, TN_SHAPE(50, 7)), 0.5);
  tn_output(f, "y", rows ? tn_mul(d, tn_sum_axis(d, -1, true)) : d);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1, .seed = 3);
  tn_program_free(p);
  if (CHECK(m != NULL)) CHECK(tn_run(m, "run", TN_NO_IN, TN_OUT(tn_f32(y, 50, 7))) == TN_OK);
  tn_model_free(m);
}

static void check_random(void) {
  float x[50 * 7], y[50 * 7];
  draw(false, x), draw(true, y);
  for (int i = 0; i < 50; i++) {
    float sum = 0;
    for (int j = 0; j < 7; j++) sum += x[i * 7 + j];
    for (int j = 0; j < 7; j++) CHECK(y[i * 7 + j] == x[i * 7 + j] * sum);
  }
}

// A head of one unit over a batch of run-time size: product, bias, and what follows.
static void check_head(void) {
  enum { MOST = 400, IN = 100 };
  tn_program *p = tn_program_create("head");
  tn_dim rows = tn_dim_bounded(p, "rows", MOST), steps = tn_dim_const(3);
  tn_module *fc = tn_linear(tn_root(p), "fc", IN, 1);
  tn_function *f = tn_function_begin(p, "run");
  tn_output(f, "y", tn_tanh(tn_call(fc, tn_input(f, "x", TN_F32, TN_SHAPE(rows, steps, IN)))));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 2);
  tn_program_free(p);
  float *x = numbers(MOST * 3 * IN, 1), y[MOST * 3], w[IN], b;
  if (CHECK(m != NULL) && CHECK(tn_get(m, "fc.weight", w, IN) == TN_OK && tn_get(m, "fc.bias", &b, 1) == TN_OK))
    for (int64_t n = 1; n <= MOST; n += 133) {
      CHECK(tn_run(m, "run", TN_IN(tn_f32(x, n, 3, IN)), TN_OUT(tn_f32(y, n, 3, 1))) == TN_OK);
      for (int64_t i = 0; i < n * 3; i++) {
        double sum = b;
        for (int k = 0; k < IN; k++) sum += (double)w[k] * x[i * IN + k];
        CHECK(fabs(y[i] - tanh(sum)) < 1e-5);
      }
    }
  free(x);
  tn_model_free(m);
}

int main(void) {
  check_head();
  check_random();
  check_bad_label();
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) check(&cases[k]);
  return check_report();
}
