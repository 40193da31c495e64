// Row kernels: how many kernels a program of rows has, what they store, and that widths of every kind come out right.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float *numbers(size_t n, uint32_t seed) {
  float *x = malloc((n + 1) * sizeof *x);
  if (!x) abort();
  for (size_t k = 0; k < n; k++) {
    seed = seed * 1664525u + 1013904223u;
    x[k] = (float)(seed >> 8) * 0x1p-22f - 2;
  }
  return x;
}

static uint32_t kernels_of(const tn_model *m) {
  tn_plan plan = {0};
  CHECK(tn_plan_of(m, "run", &plan) == TN_OK);
  return plan.n_kernels;
}

// ---- values: z = layer_norm by hand of gelu(1.1 x + 0.3) + x, s = softmax of z, t = its row sums
static tn_program *chain_program(int64_t rows, int64_t width) {
  tn_program *p = tn_program_create("rows");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(tn_dim_bounded(p, "rows", rows + 3), width));
  tn_tensor w = tn_input(f, "w", TN_F32, TN_SHAPE(width));
  tn_tensor h = tn_add(tn_gelu(tn_add(tn_mul(x, tn_scalar(f, 1.1)), tn_scalar(f, 0.3))), x);
  tn_tensor d = tn_sub(h, tn_mean_axis(h, -1, true));
  tn_tensor scale = tn_rsqrt(tn_add(tn_mean_axis(tn_square(d), -1, true), tn_scalar(f, 1e-5)));
  tn_tensor z = tn_mul(tn_mul(d, scale), w);
  tn_output(f, "z", z);
  tn_output(f, "s", tn_softmax(z, -1));
  tn_output(f, "t", tn_sum_axis(z, -1, false));
  tn_function_end(f);
  return p;
}

static double gelu(double x) { return 0.5 * x * (1 + erf(x * 0.7071067811865476)); }

static void expect_row(const float *x, const float *w, int64_t n, double *z, double *s) {
  double mean = 0, square = 0, top = -INFINITY, sum = 0;
  for (int64_t k = 0; k < n; k++) z[k] = gelu(1.1 * x[k] + 0.3) + x[k], mean += z[k] / (double)n;
  for (int64_t k = 0; k < n; k++) square += (z[k] - mean) * (z[k] - mean) / (double)n;
  for (int64_t k = 0; k < n; k++) z[k] = (z[k] - mean) / sqrt(square + 1e-5) * w[k], top = fmax(top, z[k]);
  for (int64_t k = 0; k < n; k++) s[k] = exp(z[k] - top), sum += s[k];
  for (int64_t k = 0; k < n; k++) s[k] /= sum;
}

static void check_chain(int64_t rows, int64_t width, uint32_t n_kernels) {
  size_t n = (size_t)(rows * width);
  float *x = numbers(n, 1), *w = numbers((size_t)width, 2);
  float *out[2][3];
  double *z = malloc(((size_t)width + 1) * sizeof *z), *s = malloc(((size_t)width + 1) * sizeof *s), worst = 0;
  for (uint32_t run = 0; run < 2; run++) {
    tn_program *p = chain_program(rows, width);
    tn_model *m = model_of(p, .n_workers = run ? 3 : 1);
    for (int k = 0; k < 3; k++) out[run][k] = numbers(n + (size_t)rows, 3);
    CHECK(kernels_of(m) == n_kernels);
    CHECK(tn_run(m, "run", TN_IN(tn_f32(x, rows, width), tn_f32(w, width)),
                 TN_OUT(tn_f32(out[run][0], rows, width), tn_f32(out[run][1], rows, width),
                        tn_f32(out[run][2], rows))) == TN_OK);
    tn_model_free(m);
    tn_program_free(p);
  }
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0;
    expect_row(x + i * width, w, width, z, s);
    for (int64_t k = 0; k < width; k++) {
      sum += z[k];
      worst = fmax(worst, fabs(out[0][0][i * width + k] - z[k]));
      worst = fmax(worst, fabs(out[0][1][i * width + k] - s[k]));
    }
    worst = fmax(worst, fabs(out[0][2][i] - sum) / sqrt((double)width));
  }
  if (!CHECK(worst < 2e-5)) printf("  %lld x %lld: off by %g\n", (long long)rows, (long long)width, worst);
  for (int k = 0; k < 3; k++) {
    CHECK(!memcmp(out[0][k], out[1][k], (k < 2 ? n : (size_t)rows) * sizeof(float)));
    free(out[0][k]);
    free(out[1][k]);
  }
  free(x), free(w), free(z), free(s);
}

// ---- numbers of many short rows, which some targets walk as several streams of memory: sums, and sums of squares
static void check_numbers(int64_t rows, int64_t width) {
  size_t n = (size_t)(rows * width), n_rows = (size_t)rows;
  float *x = numbers(n, 1), *sum[2], *square[2];
  for (uint32_t run = 0; run < 2; run++) {
    tn_program *p = tn_program_create("numbers");
    tn_function *f = tn_function_begin(p, "run");
    tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(tn_dim_bounded(p, "rows", rows + 3), width));
    tn_output(f, "sum", tn_sum_axis(in, -1, false));
    tn_output(f, "square", tn_sqrt(tn_sum_axis(tn_square(in), -1, false)));
    tn_function_end(f);
    tn_model *m = model_of(p, .n_workers = run ? 3 : 1);
    sum[run] = numbers(n_rows, 3), square[run] = numbers(n_rows, 4);
    CHECK(tn_run(m, "run", TN_IN(tn_f32(x, rows, width)), TN_OUT(tn_f32(sum[run], rows), tn_f32(square[run], rows))) ==
          TN_OK);
    tn_model_free(m);
    tn_program_free(p);
  }
  double worst = 0;
  for (int64_t i = 0; i < rows; i++) {
    double all = 0, squares = 0;
    for (int64_t k = 0; k < width; k++) all += x[i * width + k], squares += (double)x[i * width + k] * x[i * width + k];
    worst = fmax(worst, fmax(fabs(sum[0][i] - all), fabs(square[0][i] - sqrt(squares))) / sqrt((double)width));
  }
  if (!CHECK(worst < 2e-5)) printf("  %lld x %lld: off by %g\n", (long long)rows, (long long)width, worst);
  CHECK(!memcmp(sum[0], sum[1], n_rows * sizeof(float)) && !memcmp(square[0], square[1], n_rows * sizeof(float)));
  for (int run = 0; run < 2; run++) free(sum[run]), free(square[run]);
  free(x);
}

// ---- softmax of rows that no buffer holds, in the memory of its operand: y = softmax(a b) c
static void check_vocabulary(int64_t rows, int64_t width) {
  float *a = numbers((size_t)(rows * 2), 1), *b = numbers((size_t)(2 * width), 2), *c = numbers((size_t)width, 3);
  float *out[2] = {numbers((size_t)rows, 4), numbers((size_t)rows, 5)};
  double worst = 0;
  for (uint32_t run = 0; run < 2; run++) {
    tn_program *p = tn_program_create("vocabulary");
    tn_function *f = tn_function_begin(p, "run");
    tn_tensor x = tn_input(f, "a", TN_F32, TN_SHAPE(tn_dim_bounded(p, "rows", rows + 1), 2));
    tn_tensor logits = tn_matmul(x, tn_input(f, "b", TN_F32, TN_SHAPE(2, width)));
    tn_tensor s = tn_softmax(logits, -1);
    tn_output(f, "y", tn_matmul(s, tn_input(f, "c", TN_F32, TN_SHAPE(width, 1))));
    tn_function_end(f);
    tn_model *m = model_of(p, .n_workers = run ? 3 : 1);
    tn_plan plan = {0};
    CHECK(tn_plan_of(m, "run", &plan) == TN_OK && plan.peak_bytes < 2 * (rows + 1) * width * 4);
    CHECK(tn_run(m, "run", TN_IN(tn_f32(a, rows, 2), tn_f32(b, 2, width), tn_f32(c, width, 1)),
                 TN_OUT(tn_f32(out[run], rows, 1))) == TN_OK);
    tn_model_free(m);
    tn_program_free(p);
  }
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0, y = 0;
    for (int64_t k = 0; k < width; k++) {
      double e = exp((double)a[2 * i] * b[k] + (double)a[2 * i + 1] * b[width + k]);
      sum += e, y += e * c[k];
    }
    worst = fmax(worst, fabs(out[0][i] - y / sum));
  }
  if (!CHECK(worst < 2e-5)) printf("  %lld x %lld: off by %g\n", (long long)rows, (long long)width, worst);
  CHECK(!memcmp(out[0], out[1], (size_t)rows * sizeof(float)));
  free(a), free(b), free(c), free(out[0]), free(out[1]);
}

// ---- rows that no buffer holds, whose result lies where x does and whose last sweep reads x: y = softmax(x) x, x = a b
static void check_weighted(int64_t rows, int64_t width) {
  float *a = numbers((size_t)(rows * 2), 1), *b = numbers((size_t)(2 * width), 2);
  float *out = numbers((size_t)(rows * width), 3);
  double worst = 0;
  tn_program *p = tn_program_create("weighted");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor left = tn_input(f, "a", TN_F32, TN_SHAPE(rows, 2));
  tn_tensor x = tn_matmul(left, tn_input(f, "b", TN_F32, TN_SHAPE(2, width)));
  tn_output(f, "z", tn_cumsum(tn_mul(tn_softmax(x, -1), x), 0));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2);
  tn_plan plan = {0};
  CHECK(tn_plan_of(m, "run", &plan) == TN_OK && plan.peak_bytes < 3 * rows * width * 4);  // x and y in one place
  CHECK(tn_run(m, "run", TN_IN(tn_f32(a, rows, 2), tn_f32(b, 2, width)), TN_OUT(tn_f32(out, rows, width))) == TN_OK);
  tn_model_free(m);
  tn_program_free(p);
  double *z = calloc((size_t)width, sizeof *z);
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0;
    for (int64_t k = 0; k < width; k++) sum += exp((double)a[2 * i] * b[k] + (double)a[2 * i + 1] * b[width + k]);
    for (int64_t k = 0; k < width; k++) {
      double v = (double)a[2 * i] * b[k] + (double)a[2 * i + 1] * b[width + k];
      z[k] += exp(v) / sum * v, worst = fmax(worst, fabs(out[i * width + k] - z[k]));
    }
  }
  if (!CHECK(worst < 1e-6)) printf("  %lld x %lld: off by %g\n", (long long)rows, (long long)width, worst);
  free(a), free(b), free(out), free(z);
}

// ---- rows along the axis in the middle: h = gelu(1.1 x + 0.3) w + x, w one number for each row, s = softmax of h,
// t = the rows' sums of s x; h is computed in the memory that s gets
typedef struct {
  int64_t before, height, side;
} Upright;

static tn_program *upright_program(const Upright *u) {
  tn_program *p = tn_program_create("upright");
  tn_function *f = tn_function_begin(p, "run");
  tn_dim before = tn_dim_const(u->before), height = tn_dim_bounded(p, "height", u->height + 2),
         side = tn_dim_const(u->side);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(before, height, side));
  tn_tensor w = tn_input(f, "w", TN_F32, TN_SHAPE(before, 1, side));
  tn_tensor h = tn_add(tn_mul(tn_gelu(tn_add(tn_mul(x, tn_scalar(f, 1.1)), tn_scalar(f, 0.3))), w), x);
  tn_tensor s = tn_softmax(h, 1);
  tn_output(f, "s", s);
  tn_output(f, "t", tn_sum_axis(tn_mul(s, x), 1, false));
  tn_function_end(f);
  return p;
}

static double expect_upright(const Upright *u, const float *x, const float *w, const float *s, const float *t) {
  double *h = malloc(((size_t)u->height + 1) * sizeof *h), worst = 0;
  for (int64_t r = 0; r < u->before * u->side; r++) {
    int64_t first = r / u->side * u->height * u->side + r % u->side;
    double sum = 0, of = 0;
    for (int64_t k = 0; k < u->height; k++) {
      double a = x[first + k * u->side];
      h[k] = exp(gelu(1.1 * a + 0.3) * w[r] + a), sum += h[k];
    }
    for (int64_t k = 0; k < u->height; k++) {
      of += h[k] / sum * x[first + k * u->side];
      worst = fmax(worst, fabs(s[first + k * u->side] - h[k] / sum));
    }
    worst = fmax(worst, fabs(t[r] - of));
  }
  free(h);
  return worst;
}

static void check_upright(Upright u, uint32_t n_kernels) {
  size_t rows = (size_t)(u.before * u.side), n = rows * (size_t)u.height;
  float *x = numbers(n, 1), *w = numbers(rows, 2), *s[2], *t[2];
  for (uint32_t run = 0; run < 2; run++) {
    tn_program *p = upright_program(&u);
    tn_model *m = model_of(p, .n_workers = run ? 3 : 1);
    s[run] = numbers(n, 3), t[run] = numbers(rows, 4);
    uint32_t have = kernels_of(m);
    if (!CHECK(have == n_kernels))
      printf("  [%lld,%lld,%lld]: %u kernels, not %u\n", (long long)u.before, (long long)u.height, (long long)u.side,
             have, n_kernels);
    CHECK(tn_run(m, "run", TN_IN(tn_f32(x, u.before, u.height, u.side), tn_f32(w, u.before, 1, u.side)),
                 TN_OUT(tn_f32(s[run], u.before, u.height, u.side), tn_f32(t[run], u.before, u.side))) == TN_OK);
    tn_model_free(m);
    tn_program_free(p);
  }
  double worst = expect_upright(&u, x, w, s[0], t[0]);
  CHECK(memcmp(s[0], s[1], n * 4) == 0 && memcmp(t[0], t[1], rows * 4) == 0);
  if (!CHECK(worst < 5e-6))
    printf("  [%lld,%lld,%lld]: %g\n", (long long)u.before, (long long)u.height, (long long)u.side, worst);
  for (uint32_t run = 0; run < 2; run++) free(s[run]), free(t[run]);
  free(x), free(w);
}

static void check_all_upright(void) {
  static const Upright shapes[] = {{1, 3, 1000},  {5, 7, 30},    {3, 2, 8},     {7, 63, 17},
                                   {2, 300, 100}, {9, 1100, 16}, {3, 20, 1024}, {2, 13, 512}};
  for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) check_upright(shapes[k], 1);
  check_upright((Upright){3, 1, 33}, 1);
  check_upright((Upright){2, 130, 1024}, 1);   // a page apart
  check_upright((Upright){1, 1030, 1024}, 5);  // too tall for a buffer: turned, in rows, turned back, and a sum
  check_upright((Upright){40, 9, 5}, 5);       // too few side by side
}

// ---- plans
static tn_function *begin(tn_program **p, tn_tensor *x, int64_t rows, int64_t width) {
  *p = tn_program_create("plan");
  tn_function *f = tn_function_begin(*p, "run");
  *x = tn_input(f, "x", TN_F32, TN_SHAPE(rows, width));
  return f;
}

static void expect(tn_program *p, tn_function *f, uint32_t n_kernels, int64_t bytes) {
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 1);
  uint32_t n = kernels_of(m);
  int64_t written = tn_plan_bytes_written(m, "run", NULL);
  if (!CHECK(n == n_kernels && written == bytes))
    printf("  %u kernels that write %lld bytes, expected %u and %lld\n", n, (long long)written, n_kernels,
           (long long)bytes);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- elements under another shape: the softmax of groups of channels between a scale by channel and one by sample and channel
typedef struct {
  int64_t n, groups, channels, plane;  // channels of a group
} Grouped;

static tn_program *grouped_program(Grouped d) {
  int64_t channels = d.groups * d.channels;
  tn_program *p = tn_program_create("grouped");
  tn_function *f = tn_function_begin(p, "run");
  tn_dim n = tn_dim_bounded(p, "n", d.n + 2);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(n, channels, d.plane));
  tn_tensor w = tn_input(f, "w", TN_F32, TN_SHAPE(channels, 1));
  tn_tensor v = tn_input(f, "v", TN_F32, TN_SHAPE(n, channels, 1));
  tn_tensor rows = tn_reshape(tn_mul(x, w), TN_SHAPE(n, d.groups, d.channels * d.plane));
  tn_tensor y = tn_reshape(tn_softmax(rows, -1), TN_SHAPE(n, channels, d.plane));
  tn_output(f, "y", tn_add(tn_mul(y, v), w));
  tn_function_end(f);
  return p;
}

// Of channels [first, last) of sample i; the largest error
static double grouped_error(Grouped d, int64_t i, int64_t first, int64_t last, const float *x, const float *w,
                            const float *v, const float *y) {
  double sum = 0, worst = 0;
  int64_t channels = d.groups * d.channels;
  for (int64_t c = first; c < last; c++)
    for (int64_t k = 0; k < d.plane; k++) sum += exp((double)x[(i * channels + c) * d.plane + k] * w[c]);
  for (int64_t c = first; c < last; c++)
    for (int64_t k = 0; k < d.plane; k++) {
      int64_t at = (i * channels + c) * d.plane + k;
      worst = fmax(worst, fabs(y[at] - (exp((double)x[at] * w[c]) / sum * v[i * channels + c] + w[c])));
    }
  return worst;
}

static void check_grouped(Grouped d, uint32_t n_kernels) {
  int64_t channels = d.groups * d.channels, n = d.n * channels * d.plane;
  float *x = numbers((size_t)n, 1), *w = numbers((size_t)channels, 2), *v = numbers((size_t)(d.n * channels), 3);
  float *y[2] = {numbers((size_t)n, 4), numbers((size_t)n, 5)};
  double worst = 0;
  for (uint32_t run = 0; run < 2; run++) {
    tn_program *p = grouped_program(d);
    tn_model *m = model_of(p, .n_workers = run ? 3 : 1);
    CHECK(kernels_of(m) == n_kernels);
    CHECK(tn_run(m, "run",
                 TN_IN(tn_f32(x, d.n, channels, d.plane), tn_f32(w, channels, 1), tn_f32(v, d.n, channels, 1)),
                 TN_OUT(tn_f32(y[run], d.n, channels, d.plane))) == TN_OK);
    tn_model_free(m);
    tn_program_free(p);
  }
  for (int64_t i = 0; i < d.n; i++)
    for (int64_t g = 0; g < d.groups; g++)
      worst = fmax(worst, grouped_error(d, i, g * d.channels, (g + 1) * d.channels, x, w, v, y[0]));
  CHECK(!memcmp(y[0], y[1], (size_t)n * sizeof(float)));
  if (!CHECK(worst < 2e-5))
    printf("  %lld channels of %lld: off by %g\n", (long long)d.channels, (long long)d.plane, worst);
  free(x), free(w), free(v), free(y[0]), free(y[1]);
}

// Runs of one element, of some and of whole vectors, with ends within a vector, and of whole rows; short rows are
// processed row per lane where nothing has runs.
static void check_all_grouped(void) {
  static const int64_t planes[] = {1, 16, 17, 31, 49, 64, 100, 1024, 5000};
  for (size_t k = 0; k < sizeof planes / sizeof *planes; k++)
    for (int64_t channels = 1; channels <= 4; channels++)
      if (channels * planes[k] > 1) check_grouped((Grouped){3, 5, channels, planes[k]}, 1);
  check_grouped((Grouped){40, 1, 6, 33}, 1);
  check_grouped((Grouped){3, 5, 4, 3}, 3);  // runs shorter than a vector: scale, softmax, scale
}

enum { ROWS = 64, WIDTH = 96, BYTES = ROWS * WIDTH * 4 };

static void check_plans(void) {
  tn_program *p;
  tn_tensor x;
  tn_function *f = begin(&p, &x, ROWS, WIDTH);
  tn_output(f, "y", tn_softmax(x, -1));  // straight into the caller's memory
  expect(p, f, 1, BYTES);

  f = begin(&p, &x, ROWS, WIDTH);  // residual, dropout, norm; the sum goes on beside the norm
  tn_tensor r = tn_input(f, "r", TN_F32, TN_SHAPE(ROWS, WIDTH));
  tn_tensor h = tn_add(x, tn_dropout(r, 0.1));
  tn_output(f, "h", h);
  tn_output(f, "y", tn_layer_norm_of(h, 1, TN_NONE, TN_NONE, 1e-5));
  expect(p, f, 1, 2 * BYTES);

  f = begin(&p, &x, ROWS, WIDTH);  // loss and gradient of the logits in one pass; then the mean over rows
  tn_tensor label = tn_input(f, "label", TN_I64, TN_SHAPE(ROWS));
  tn_set_requires_grad(x, true);
  tn_tensor loss = tn_cross_entropy(x, label);
  tn_output(f, "loss", loss);
  tn_output(f, "d", tn_grad(loss, x));
  expect(p, f, 2, BYTES + ROWS * 4 + 4);

  f = begin(&p, &x, ROWS, WIDTH);  // norm and its gradient: one kernel
  tn_set_requires_grad(x, true);
  tn_tensor g = tn_input(f, "g", TN_F32, TN_SHAPE(ROWS, WIDTH));
  tn_tensor y = tn_rms_norm_of(tn_tanh(x), 1, TN_NONE, 1e-5);
  tn_output(f, "d", tn_grad(tn_sum(tn_mul(y, g)), x));
  expect(p, f, 1, BYTES);

  f = begin(&p, &x, ROWS, WIDTH);  // softmax along the first axis and its gradient: nothing is turned
  tn_set_requires_grad(x, true);
  g = tn_input(f, "g", TN_F32, TN_SHAPE(ROWS, WIDTH));
  y = tn_log_softmax(x, 0);
  tn_output(f, "y", y);
  tn_output(f, "d", tn_grad(tn_sum(tn_mul(y, g)), x));
  expect(p, f, 1, 2 * BYTES);

  f = begin(&p, &x, 2, 1 << 20);  // two long rows: shared by all workers, not a row each
  tn_output(f, "y", tn_sum_axis(tn_square(x), -1, false));
  expect(p, f, 2, (2ll << 22) + 8);  // the sums lie in the caller's memory: no kernel copies them
}

// What is pointwise rounds each operation in the kernel of a row as in its own: y a + b twice.
static void check_rounding(void) {
  enum { N = 64, WIDE = 40 };
  static float x[3][N * WIDE], y[N * WIDE], z[N * WIDE];
  tn_program *p = tn_program_create("rounding");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor in[3];
  for (uint32_t k = 0; k < 3; k++) in[k] = tn_input(f, (const char *[]){"x", "a", "b"}[k], TN_F32, TN_SHAPE(N, WIDE));
  tn_tensor soft = tn_softmax(in[0], 1);
  tn_output(f, "y", soft);
  tn_output(f, "z", tn_add(tn_mul(soft, in[1]), in[2]));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 1);
  for (uint32_t k = 0; k < 3 * N * WIDE; k++) x[k % 3][k / 3] = (float)(k * 2654435761u % 10007) / 3333 - 1;
  tn_array from[] = {tn_f32(x[0], N, WIDE), tn_f32(x[1], N, WIDE), tn_f32(x[2], N, WIDE)};
  CHECK(m && tn_run(m, "f", from, 3, TN_OUT(tn_f32(y, N, WIDE), tn_f32(z, N, WIDE))) == TN_OK);
  uint32_t n_other = 0;
  for (uint32_t k = 0; k < N * WIDE; k++) {
    volatile float product = y[k] * x[1][k];
    n_other += z[k] != product + x[2][k];
  }
  CHECK(n_other == 0);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- a sum over short rows and an axis of one element is a sum of columns, too
static void check_rows_beside_one(int64_t channels, int64_t steps) {
  tn_program *p = tn_program_create("beside_one");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(1, channels, steps));
  tn_output(f, "y", tn_sum_axes(x, false, TN_INTS(0, 2)));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2);
  float *in = numbers((size_t)(channels * steps), 7), *out = numbers((size_t)channels, 8);
  bool ran = m && tn_run(m, "run", TN_IN(tn_f32(in, 1, channels, steps)), TN_OUT(tn_f32(out, channels))) == TN_OK;
  for (int64_t k = 0; k < channels && ran; k++) {
    double sum = 0;
    for (int64_t t = 0; t < steps; t++) sum += (double)in[k * steps + t];
    ran = fabs(sum - (double)out[k]) < 1e-4;
  }
  if (!CHECK(ran)) printf("  [1,%d,%d]\n", (int)channels, (int)steps);
  tn_model_free(m);
  tn_program_free(p);
  free(in), free(out);
}

int main(void) {
  for (int64_t steps = 7; steps < 40; steps += 4) check_rows_beside_one(32, steps);
  static const int64_t widths[] = {2, 3, 15, 16, 17, 31, 64, 100, 255, 1024, 1040, 5000, 16384, 20011};
  for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) check_chain(9, widths[k], 1);
  check_chain(1, 64, 1);
  check_chain(300, 7, 1);
  check_numbers(4099, 96);
  check_numbers(903, 511);
  check_vocabulary(7, 20011);
  check_vocabulary(3, 65536);
  check_weighted(19, 20011);
  check_all_upright();
  check_all_grouped();
  check_plans();
  check_rounding();
  return check_report();
}
