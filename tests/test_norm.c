// Norms through the public API: modules with PyTorch's names and first values, several axes,
// mistakes.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <math.h>
#include <string.h>

static const float x[2][2][3] = {{{0.5f, -1, 2}, {3, 0.25f, -0.75f}}, {{1, 1, 1.5f}, {-2, 4, 0}}};

static float plain(const float *row, int n, int k, double eps, bool rms) {
  double mean = 0, square = 0;
  for (int i = 0; i < n && !rms; i++) mean += row[i] / n;
  for (int i = 0; i < n; i++) square += (row[i] - mean) * (row[i] - mean) / n;
  return (float)((row[k] - mean) / sqrt(square + eps));
}

static void check_modules(void) {
  tn_program *p = tn_program_create("norms");
  tn_module *net = tn_root(p);
  tn_module *one = tn_layer_norm(net, "one", TN_SHAPE(3));
  tn_module *two = tn_layer_norm(net, "two", TN_SHAPE(2, 3), .eps = 0.5);
  tn_module *bare = tn_layer_norm(net, "bare", TN_SHAPE(3), .no_weight = true);
  tn_module *rms = tn_rms_norm(net, "rms", TN_SHAPE(3));
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(tn_dim_bounded(p, "batch", 4), 2, 3));
  tn_output(f, "one", tn_call(one, in));
  tn_output(f, "two", tn_call(two, in));
  tn_output(f, "bare", tn_call(bare, in));
  tn_output(f, "rms", tn_call(rms, in));
  tn_function_end(f);
  tn_model *m = model_of(p);
  if (!m) return;
  float y[4][2][2][3];
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, 2, 2, 3)),
               TN_OUT(tn_f32(y[0], 2, 2, 3), tn_f32(y[1], 2, 2, 3), tn_f32(y[2], 2, 2, 3), tn_f32(y[3], 2, 2, 3))) ==
        TN_OK);
  for (int b = 0; b < 2; b++)
    for (int t = 0; t < 2; t++)
      for (int k = 0; k < 3; k++) {
        CHECK(fabsf(y[0][b][t][k] - plain(x[b][t], 3, k, 1e-5, false)) < 1e-5f);
        CHECK(fabsf(y[1][b][t][k] - plain(x[b][0], 6, 3 * t + k, 0.5, false)) < 1e-5f);
        CHECK(y[2][b][t][k] == y[0][b][t][k]);
        CHECK(fabsf(y[3][b][t][k] - plain(x[b][t], 3, k, 0x1p-23, true)) < 1e-5f);
      }
  tn_model_free(m);
  tn_program_free(p);
}

// Weight 2, bias 1 behind TN_NONE and in front of it; a bias alone; gradients of all.
static void check_operation(void) {
  tn_program *p = tn_program_create("norm");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(4, 3));
  tn_tensor w = tn_full(f, 2, TN_SHAPE(3)), b = tn_full(f, 1, TN_SHAPE(3));
  tn_output(f, "both", tn_layer_norm_of(in, 1, w, b, 1e-5));
  tn_output(f, "bias", tn_layer_norm_of(in, 1, TN_NONE, b, 1e-5));
  tn_output(f, "rms", tn_rms_norm_of(in, 1, w, 1e-5));
  tn_function_end(f);
  tn_model *m = model_of(p);
  if (!m) return;
  float y[3][4][3];
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, 4, 3)), TN_OUT(tn_f32(y[0], 4, 3), tn_f32(y[1], 4, 3), tn_f32(y[2], 4, 3))) ==
        TN_OK);
  const float(*rows)[3] = x[0];
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 3; k++) {
      float unit = plain(rows[i], 3, k, 1e-5, false);
      CHECK(fabsf(y[0][i][k] - (2 * unit + 1)) < 1e-5f);
      CHECK(fabsf(y[1][i][k] - (unit + 1)) < 1e-5f);
      CHECK(fabsf(y[2][i][k] - 2 * plain(rows[i], 3, k, 1e-5, true)) < 1e-5f);
    }
  tn_model_free(m);
  tn_program_free(p);
}

// The rows of a packed batch are what a batch norm is over: padding counts nothing.
static void check_packed(void) {
  tn_program *p = tn_program_create("packed");
  tn_module *net = tn_root(p), *batch = tn_batch_norm(net, "batch", 3), *group = tn_group_norm(net, "group", 1, 3);
  tn_function *f = tn_function_begin(p, "run");
  tn_dim B = tn_dim_bounded(p, "batch", 4), T = tn_dim_bounded(p, "time", 4);
  tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, 3)), lengths = tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
  tn_packed s = tn_pack_padded(in, lengths);
  tn_output(f, "batch", tn_pad_packed(tn_packed_call(batch, s), 0, true));
  tn_output(f, "group", tn_pad_packed(tn_packed_call(group, s), 0, true));
  tn_function_end(f);
  tn_model *m = model_of(p);
  if (!m) return;
  float y[2][2][2][3], mean[3], column[3];
  const int64_t steps[2] = {1, 2};
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, 2, 2, 3), tn_i64(steps, 2)),
               TN_OUT(tn_f32(y[0], 2, 2, 3), tn_f32(y[1], 2, 2, 3))) == TN_OK);
  CHECK(tn_get(m, "batch.running_mean", mean, 3) == TN_OK);
  for (int k = 0; k < 3; k++) {
    column[0] = x[0][0][k], column[1] = x[1][0][k], column[2] = x[1][1][k];
    CHECK(fabsf(y[0][0][0][k] - plain(column, 3, 0, 1e-5, false)) < 1e-5f);
    CHECK(fabsf(y[0][1][0][k] - plain(column, 3, 1, 1e-5, false)) < 1e-5f);
    CHECK(fabsf(y[0][1][1][k] - plain(column, 3, 2, 1e-5, false)) < 1e-5f);
    CHECK(fabsf(mean[k] - 0.1f * (column[0] + column[1] + column[2]) / 3) < 1e-6f);
    CHECK(fabsf(y[1][1][0][k] - plain(x[1][0], 3, k, 1e-5, false)) < 1e-5f && y[1][0][1][k] == 0);
  }
  tn_model_free(m);
  tn_program_free(p);
}

// A mean that is 14,000 times the standard deviation. What rounding left of it is measured and taken away, so that values are
// as exact as those of centered data, and so are the gradients.
enum { FAR_N = 32, FAR_C = 16, FAR_S = 12, FAR_ROWS = FAR_N * FAR_S * FAR_S, FAR_SIZE = FAR_ROWS * FAR_C };

static int far_channel(int k) { return k / (FAR_S * FAR_S) % FAR_C; }
static double far_weight(int k) { return (double)((unsigned)k * 40503u >> 3 & 63) / 64; }  // of y in the loss

// y, and the gradient of x
static tn_model *with_gradient(tn_program *p, tn_function *f, tn_tensor in, tn_tensor y, tn_tensor loss) {
  tn_output(f, "y", y);
  tn_output(f, "dx", tn_grad(loss, in));
  tn_function_end(f);
  tn_model *m = model_of(p);
  tn_program_free(p);
  return m;
}

static tn_model *far_model(void) {
  tn_program *p = tn_program_create("far");
  tn_module *batch = tn_batch_norm(tn_root(p), "batch", FAR_C, .momentum = 1);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(FAR_N, FAR_C, FAR_S, FAR_S));
  tn_set_requires_grad(in, true);
  tn_tensor by = tn_input(f, "by", TN_F32, TN_SHAPE(FAR_N, FAR_C, FAR_S, FAR_S));
  tn_tensor y = tn_call(batch, in), loss = tn_sum(tn_mul(y, by));
  return with_gradient(p, f, in, y, loss);
}

static void check_far_values(const float *in, const float *y, const float *dx, const float *variance) {
  double mean[FAR_C] = {0}, square[FAR_C] = {0}, g[FAR_C] = {0}, gy[FAR_C] = {0}, worst[3] = {0};
  for (int k = 0; k < FAR_SIZE; k++) mean[far_channel(k)] += (double)in[k] / FAR_ROWS;
  for (int k = 0; k < FAR_SIZE; k++) {
    int c = far_channel(k);
    double apart = (double)in[k] - mean[c];
    square[c] += apart * apart / FAR_ROWS, g[c] += far_weight(k) / FAR_ROWS, gy[c] += far_weight(k) * apart / FAR_ROWS;
  }
  for (int k = 0; k < FAR_SIZE; k++) {
    int c = far_channel(k);
    double apart = (double)in[k] - mean[c], var = square[c] + 1e-5;
    worst[0] = fmax(worst[0], fabs((double)y[k] - apart / sqrt(var)));
    worst[1] = fmax(worst[1], fabs((double)dx[k] - (far_weight(k) - g[c] - apart * gy[c] / var) / sqrt(var)));
  }
  for (int c = 0; c < FAR_C; c++)
    worst[2] = fmax(worst[2], fabs((double)variance[c] - square[c] * FAR_ROWS / (FAR_ROWS - 1.0)));
  if (!CHECK(worst[0] < 2e-6 && worst[1] < 4e-6 && worst[2] < 1e-6))
    printf("off by %g, %g, %g\n", worst[0], worst[1], worst[2]);
}

static void check_far_mean(void) {
  static float in[FAR_SIZE], by[FAR_SIZE], y[FAR_SIZE], dx[FAR_SIZE];
  float variance[FAR_C];
  for (int k = 0; k < FAR_SIZE; k++) {
    in[k] = 4096 + (float)((unsigned)k * 2654435761u >> 22) / 1024;  // exact: 2^-10 steps of [0, 1)
    by[k] = (float)far_weight(k);
  }
  tn_model *m = far_model();
  if (!m) return;
  CHECK(tn_run(m, "run", TN_IN(tn_f32(in, FAR_N, FAR_C, FAR_S, FAR_S), tn_f32(by, FAR_N, FAR_C, FAR_S, FAR_S)),
               TN_OUT(tn_f32(y, FAR_N, FAR_C, FAR_S, FAR_S), tn_f32(dx, FAR_N, FAR_C, FAR_S, FAR_S))) == TN_OK);
  CHECK(tn_get(m, "batch.running_var", variance, FAR_C) == TN_OK);
  check_far_values(in, y, dx, variance);
  tn_model_free(m);
}

// ---- a variance that f32 does not hold: all values are the bias, and no gradient reaches x, as in PyTorch
enum { LARGE_N = 37, LARGE_C = 3 };

static tn_model *large_model(bool of_product) {
  tn_program *p = tn_program_create("large");
  tn_module *batch = tn_batch_norm(tn_root(p), "batch", LARGE_C, .momentum = 1);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(LARGE_N, LARGE_C));
  tn_tensor w = tn_input(f, "w", TN_F32, TN_SHAPE(LARGE_C, LARGE_C));
  tn_set_requires_grad(in, true);
  tn_tensor y = tn_call(batch, of_product ? tn_matmul(in, w) : in), loss = tn_sum(tn_mul(y, tn_cos(y)));
  return with_gradient(p, f, in, y, loss);
}

static void check_large_variance(bool of_product, float scale) {
  float in[LARGE_N * LARGE_C], y[LARGE_N * LARGE_C], dx[LARGE_N * LARGE_C], variance[LARGE_C];
  float w[LARGE_C * LARGE_C] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  for (int k = 0; k < LARGE_N * LARGE_C; k++) in[k] = scale * (float)((k * 29 + 5) % 64);
  tn_model *m = large_model(of_product);
  if (!m) return;
  CHECK(tn_run(m, "run", TN_IN(tn_f32(in, LARGE_N, LARGE_C), tn_f32(w, LARGE_C, LARGE_C)),
               TN_OUT(tn_f32(y, LARGE_N, LARGE_C), tn_f32(dx, LARGE_N, LARGE_C))) == TN_OK);
  CHECK(tn_get(m, "batch.running_var", variance, LARGE_C) == TN_OK);
  bool ok = true;
  for (int k = 0; k < LARGE_N * LARGE_C; k++) ok &= y[k] == 0 && dx[k] == 0;
  for (int k = 0; k < LARGE_C; k++) ok &= variance[k] == INFINITY;
  if (!CHECK(ok))
    printf("%s %g: y %g, dx %g, variance %g\n", of_product ? "product" : "x", scale, y[1], dx[1], variance[0]);
  tn_model_free(m);
}

// ---- evaluation: a norm, what follows it and the product before it are one kernel
enum { N = 3, CHANNELS = 16, SIDE = 9, IMAGE = CHANNELS * SIDE * SIDE };
static const char *const statistics[] = {"weight", "bias", "running_mean", "running_var"};

// ---- equal elements are normalized to 0, and their variance is 0: the mean is that element, bit for bit
enum { EQUAL_ROWS = 20 };

static tn_tensor largest(tn_tensor y, uint32_t n) {
  tn_tensor size = tn_abs(tn_reshape(y, TN_SHAPE(EQUAL_ROWS, n)));
  return tn_amax_axis(size, 1, false);
}

static void check_equal(int n, bool is_bounded) {
  static const float number[] = {0.1f, 0.7f, 3.3f, 100.7f, 1000.1f, 12345.678f, 1e5f + 0.3f, 1.2345e6f, 1e-3f};
  static float in[EQUAL_ROWS * 20000], out[9][EQUAL_ROWS], total;
  for (int i = 0; i < EQUAL_ROWS * n; i++) in[i] = number[i / n % 9];
  tn_program *p = tn_program_create("equal");
  tn_module *net = tn_root(p);
  tn_module *instance = tn_instance_norm(net, "in", EQUAL_ROWS),
            *group = tn_group_norm(net, "gn", EQUAL_ROWS, EQUAL_ROWS);
  tn_module *batch = tn_batch_norm(net, "bn", EQUAL_ROWS, .no_affine = true);
  tn_function *f = tn_function_begin(p, "run");
  tn_dim rows = is_bounded ? tn_dim_bounded(p, "rows", EQUAL_ROWS) : (tn_dim){0};
  tn_tensor t =
      is_bounded ? tn_input(f, "x", TN_F32, TN_SHAPE(rows, n)) : tn_input(f, "x", TN_F32, TN_SHAPE(EQUAL_ROWS, n));
  uint32_t n_out = 0;
  const char *names[] = {"ln", "of", "var", "std", "column", "instance", "group", "batch", "middle"};
  tn_tensor y[9] = {tn_amax_axis(tn_abs(tn_layer_norm_of(t, 1, TN_NONE, TN_NONE, 1e-5)), 1, false),
                    tn_amax_axis(tn_abs(tn_layer_norm_of(tn_mul_scalar(t, 0.3), 1, TN_NONE, TN_NONE, 1e-5)), 1, false),
                    tn_var_axis(t, 0, 1, false), tn_std_axis(t, 1, 1, false)};
  n_out = 4;
  if (!is_bounded) {
    tn_tensor columns = tn_transpose(t, 0, 1), image = tn_reshape(t, TN_SHAPE(1, EQUAL_ROWS, n));
    y[4] = tn_std_axis(columns, 1, 0, false);
    y[5] = largest(tn_call(instance, image), (uint32_t)n), y[6] = largest(tn_call(group, image), (uint32_t)n);
    y[7] = tn_amax_axis(tn_abs(tn_call(batch, columns)), 0, false);
    y[8] = tn_std_axis(tn_reshape(columns, TN_SHAPE(1, n, EQUAL_ROWS)), 0, 1, false);
    n_out = 9;
  }
  for (uint32_t k = 0; k < n_out; k++) tn_output(f, names[k], y[k]);
  tn_output(f, "all", tn_std(tn_slice(t, 0, 5, 1), 0));
  tn_function_end(f);
  tn_model *m = model_of(p);
  if (!m) return;
  tn_array to[10];
  for (uint32_t k = 0; k < n_out; k++) to[k] = k == 8 ? tn_f32(out[k], 1, EQUAL_ROWS) : tn_f32(out[k], EQUAL_ROWS);
  to[n_out] = tn_f32_scalar(&total);
  CHECK(tn_run(m, "run", TN_IN(tn_f32(in, EQUAL_ROWS, n)), to, n_out + 1) == TN_OK);
  for (uint32_t k = 0; k < n_out; k++)
    for (int r = 0; r < EQUAL_ROWS; r++)
      if (!CHECK(out[k][r] == 0))
        printf("  %s of %d times %g: %g\n", names[k], n, (double)number[r % 9], (double)out[k][r]);
  CHECK(total == 0);
  tn_model_free(m);
  tn_program_free(p);
}

// A row of a quarter of a million elements: no sum of so many terms, one after the other.
static void check_long_rows(void) {
  enum { LONG = 1 << 18 };
  static float in[LONG], y[LONG];
  double mean = 0, square = 0, most = 0;
  uint32_t state = 1;
  for (int i = 0; i < LONG; i++) {
    state = state * 1664525 + 1013904223;
    in[i] = 2 + 4 * (float)(state >> 8) / (1 << 24), mean += in[i] / (double)LONG;
  }
  for (int i = 0; i < LONG; i++) square += (in[i] - mean) * (in[i] - mean) / LONG;
  tn_program *p = tn_program_create("long");
  tn_function *f = tn_function_begin(p, "run");
  tn_output(f, "y", tn_layer_norm_of(tn_input(f, "x", TN_F32, TN_SHAPE(1, LONG)), 1, TN_NONE, TN_NONE, 1e-5));
  tn_function_end(f);
  tn_model *m = model_of(p);
  if (!m) return;
  CHECK(tn_run(m, "run", TN_IN(tn_f32(in, 1, LONG)), TN_OUT(tn_f32(y, 1, LONG))) == TN_OK);
  for (int i = 0; i < LONG; i++) most = fmax(most, fabs(y[i] - (in[i] - mean) / sqrt(square + 1e-5)));
  CHECK(most < 5e-7);
  tn_model_free(m);
  tn_program_free(p);
}

static void set_statistics(tn_model *m, const char *norm, float to[4][CHANNELS]) {
  for (int k = 0; k < 4; k++) {
    char path[32];
    snprintf(path, sizeof path, "%s.%s", norm, statistics[k]);
    for (int c = 0; c < CHANNELS; c++) to[k][c] = (float)((c * 7 + k * 5) % 11) / 8 + (k == 3 ? 0.25f : -0.5f);
    CHECK(tn_set(m, path, to[k], CHANNELS) == TN_OK);
  }
}

static float normal(float of[4][CHANNELS], int c, double v) {
  return (float)((v - (double)of[2][c]) * (double)of[0][c] / sqrt((double)of[3][c] + 1e-5) + (double)of[1][c]);
}

// y: relu(norm(product(x)) + x), raw: product(x)
static void check_eval_output(const float *y, const float *raw, const float *in, float of[4][CHANNELS], int n,
                              int inner) {
  double worst = 0;
  for (int k = 0; k < n; k++) {
    float expected = normal(of, k / inner % CHANNELS, (double)raw[k]) + in[k];
    worst = fmax(worst, fabs((double)y[k] - fmax(0, (double)expected)));
  }
  if (!CHECK(worst <= 4e-6)) printf("evaluation is off by %g\n", worst);
}

// A model of one function; raw: the product is an output, too.
static tn_model *eval_model(bool is_image, bool raw, bool exact, uint32_t *n_kernels) {
  tn_program *p = tn_program_create("eval");
  tn_module *net = tn_root(p);
  tn_module *product = is_image ? tn_conv2d_module(net, "p", CHANNELS, CHANNELS, 3, .padding = 1, .no_bias = true)
                                : tn_linear(net, "p", CHANNELS, CHANNELS, .no_bias = true);
  tn_module *norm = tn_batch_norm(net, "norm", CHANNELS);
  tn_function *f = tn_function_begin(p, "run");
  tn_eval(f, true);
  tn_tensor in = is_image ? tn_input(f, "x", TN_F32, TN_SHAPE(N, CHANNELS, SIDE, SIDE))
                          : tn_input(f, "x", TN_F32, TN_SHAPE(N * SIDE, CHANNELS));
  tn_tensor y = tn_call(product, in);
  if (raw) tn_output(f, "raw", y);
  tn_output(f, "y", tn_relu(tn_add(tn_call(norm, y), in)));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .exact_convolution = exact, .seed = 5);
  tn_plan plan = {0};
  if (!CHECK(m && tn_plan_of(m, "run", &plan) == TN_OK)) tn_report(p, stdout);
  *n_kernels = plan.n_kernels;
  tn_program_free(p);
  return m;
}

static void check_eval(bool is_image, bool exact, uint32_t n_kernels) {
  static float in[N * IMAGE], y[2][N * IMAGE], raw[N * IMAGE];
  float of[4][CHANNELS];
  uint32_t n[2];
  const int size = is_image ? N * IMAGE : N * SIDE * CHANNELS;
  tn_array a = is_image ? tn_f32(in, N, CHANNELS, SIDE, SIDE) : tn_f32(in, N * SIDE, CHANNELS), b = a, c = a, d = a;
  b.data = y[0], c.data = y[1], d.data = raw;
  for (int k = 0; k < size; k++) in[k] = (float)((unsigned)k * 2654435761u >> 20) / 2048 - 1;
  tn_model *alone = eval_model(is_image, false, exact, &n[0]), *both = eval_model(is_image, true, exact, &n[1]);
  if (!alone || !both) return;
  if (!CHECK(n[0] == n_kernels)) printf("%u kernels\n", n[0]);
  set_statistics(alone, "norm", of), set_statistics(both, "norm", of);
  CHECK(tn_run(alone, "run", TN_IN(a), TN_OUT(b)) == TN_OK && tn_run(both, "run", TN_IN(a), TN_OUT(d, c)) == TN_OK);
  CHECK(!memcmp(y[0], y[1], (size_t)size * sizeof **y));
  check_eval_output(y[0], raw, in, of, size, is_image ? SIDE * SIDE : 1);
  tn_model_free(alone), tn_model_free(both);
}

static void check_channel_mistakes(void) {
  tn_program *p = tn_program_create("wrong");
  tn_module *net = tn_root(p), *batch = tn_batch_norm(net, "batch", 3);
  CHECK(tn_group_norm(net, "a", 2, 3) != NULL);
  CHECK(tn_batch_norm(net, "b", 0) != NULL);
  CHECK(tn_batch_norm(net, "c", 3, .momentum = 2) != NULL);
  CHECK(tn_batch_norm(net, "d", 3, .eps = -1) != NULL);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(4, 2)), one = tn_input(f, "one", TN_F32, TN_SHAPE(1, 3));
  CHECK(tn_call(batch, in).v == 0);
  CHECK(tn_call(batch, one).v == 0);
  CHECK(tn_call(tn_instance_norm(net, "e", 3), tn_reshape(one, TN_SHAPE(1, 3, 1))).v == 0);
  tn_eval(f, true);
  tn_output(f, "y", tn_call(batch, one));
  tn_function_end(f);
  CHECK(tn_compile(p) == NULL);
  CHECK(tn_n_errors(p) == 7);
  tn_program_free(p);
}

// The gradients of sum(y): of its weight, sums of what has mean 0, and of its bias, how many values there are
static void add_slopes(tn_function *f, tn_module *batch, tn_tensor in, tn_tensor y) {
  tn_tensor loss = tn_sum(tn_call(batch, in));
  tn_output(f, "y", y);
  tn_output(f, "dw", tn_grad(loss, tn_param_value(f, batch, "weight")));
  tn_output(f, "db", tn_grad(loss, tn_param_value(f, batch, "bias")));
}

// A batch without values has no mean: running statistics stay, as PyTorch's, where its size comes with the run and where it is a
// constant, and gradients of parameters are 0.
static void check_empty_batches(void) {
  tn_program *p = tn_program_create("empty");
  tn_module *net = tn_root(p), *batch = tn_batch_norm(net, "batch", 2), *samples;
  tn_module *all = tn_batch_norm(net, "all", 2, .cumulative = true);
  samples = tn_instance_norm(net, "samples", 2, .running_stats = true);
  tn_function *f = tn_function_begin(p, "run"), *none;
  tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(tn_dim_bounded(p, "n", 4), 2, 3));
  add_slopes(f, tn_batch_norm(net, "b", 2), in,
             tn_add(tn_call(batch, in), tn_add(tn_call(all, in), tn_call(samples, in))));
  tn_function_end(f);
  none = tn_function_begin(p, "none");
  in = tn_input(none, "x", TN_F32, TN_SHAPE(0, 2, 3));
  add_slopes(none, tn_child(net, "b"), in, tn_call(batch, in));
  tn_function_end(none);
  tn_model *m = model_of(p);
  if (!m) return;
  static const char *const paths[] = {"batch.running_mean", "batch.running_var",    "all.running_mean",
                                      "all.running_var",    "samples.running_mean", "samples.running_var"};
  static const float xs[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3};
  static const float want[6][2] = {{0.5f, 0.35f}, {2.06f, 1.25f}, {5, 3.5f}, {11.6f, 3.5f}, {0.5f, 0.35f}, {1, 1}};
  float y[12], dw[2], db[2], got[2];
  int64_t n_batches;
  for (int n = 2; n >= 0; n -= 2) {
#define SLOPES_OF(name) \
  tn_run(m, name, TN_IN(tn_f32(xs, n, 2, 3)), TN_OUT(tn_f32(y, n, 2, 3), tn_f32(dw, 2), tn_f32(db, 2)))
    for (int is_const = 0; is_const <= (n == 0); is_const++) {
      CHECK((is_const ? SLOPES_OF("none") : SLOPES_OF("run")) == TN_OK);
      for (int k = 0; k < 2; k++) CHECK(fabsf(dw[k]) < 1e-5f && db[k] == (float)(3 * n));
    }
    for (int k = 0; k < 6; k++) {
      CHECK(tn_get(m, paths[k], got, 2) == TN_OK);
      CHECK(fabsf(got[0] - want[k][0]) < 1e-5f && fabsf(got[1] - want[k][1]) < 1e-5f);
    }
  }
  CHECK(tn_get_array(m, "batch.num_batches_tracked", tn_i64(&n_batches)) == TN_OK && n_batches == 3);
  tn_model_free(m);
  tn_program_free(p);
}

static void check_mistakes(void) {
  tn_program *p = tn_program_create("wrong");
  tn_dim B = tn_dim_bounded(p, "batch", 4);
  CHECK(tn_layer_norm(tn_root(p), "a", TN_SHAPE(B)) != NULL);
  CHECK(tn_rms_norm(tn_root(p), "b", TN_SHAPE(3), .eps = -1) != NULL);
  CHECK(tn_layer_norm(tn_root(p), "c", TN_SCALAR) != NULL);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(B, 3));
  CHECK(tn_layer_norm_of(in, 3, TN_NONE, TN_NONE, 1e-5).v == 0);
  CHECK(tn_layer_norm_of(in, 1, tn_full(f, 1, TN_SHAPE(4)), TN_NONE, 1e-5).v == 0);
  CHECK(tn_rms_norm_of(in, 1, TN_NONE, -1).v == 0);
  tn_output(f, "x", in);
  tn_function_end(f);
  CHECK(tn_compile(p) == NULL);
  CHECK(tn_n_errors(p) == 6);
  tn_program_free(p);
}

// ---- one far number, at the first, the middle or the last place of a row or a column
enum { OUT_ROWS = 3, OUT_TERMS = 20011 };
static const char *const outlier_outputs[] = {"rows", "columns", "all", "row_variance", "column_variance"};
enum { N_OUTLIER_OUTPUTS = sizeof outlier_outputs / sizeof *outlier_outputs };

static tn_model *outlier_model(void) {
  tn_program *p = tn_program_create("outliers");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor row = tn_input(f, "row", TN_F32, TN_SHAPE(OUT_ROWS, OUT_TERMS));
  tn_tensor column = tn_input(f, "column", TN_F32, TN_SHAPE(OUT_TERMS, OUT_ROWS));
  tn_output(f, outlier_outputs[0], tn_mean_axis(row, 1, false));
  tn_output(f, outlier_outputs[1], tn_mean_axis(column, 0, false));
  tn_output(f, outlier_outputs[2], tn_mean(row));
  tn_output(f, outlier_outputs[3], tn_var_axis(row, 1, 1, false));
  tn_output(f, outlier_outputs[4], tn_var_axis(column, 1, 0, false));
  tn_function_end(f);
  tn_model *m = model_of(p);
  tn_program_free(p);
  return m;
}

static void check_outlier(tn_model *m, int place) {
  static float row[OUT_ROWS][OUT_TERMS], column[OUT_TERMS][OUT_ROWS], out[N_OUTLIER_OUTPUTS][OUT_ROWS];
  double mean = 0, variance = 0;
  for (int k = 0; k < OUT_TERMS; k++)
    for (int j = 0; j < OUT_ROWS; j++) row[j][k] = column[k][j] = k == place ? 1e6f : 1.01f + 0.001f * (float)(k % 7);
  for (int k = 0; k < OUT_TERMS; k++) mean += (double)row[0][k] / OUT_TERMS;
  for (int k = 0; k < OUT_TERMS; k++) variance += (row[0][k] - mean) * (row[0][k] - mean) / (OUT_TERMS - 1);
  CHECK(tn_run(m, "run", TN_IN(tn_f32(row, OUT_ROWS, OUT_TERMS), tn_f32(column, OUT_TERMS, OUT_ROWS)),
               TN_OUT(tn_f32(out[0], OUT_ROWS), tn_f32(out[1], OUT_ROWS), tn_f32(out[2]), tn_f32(out[3], OUT_ROWS),
                      tn_f32(out[4], OUT_ROWS))) == TN_OK);
  for (int k = 0; k < N_OUTLIER_OUTPUTS; k++) {
    double error = fabs(out[k][0] / (k < 3 ? mean : variance) - 1);
    if (!(error <= 1e-6)) printf("%s, far number at %d: off by %g\n", outlier_outputs[k], place, error);
    CHECK(error <= 1e-6);
  }
}

static void check_outliers(void) {
  tn_model *m = outlier_model();
  check_outlier(m, 0), check_outlier(m, OUT_TERMS / 2), check_outlier(m, OUT_TERMS - 1);
  tn_model_free(m);
}

int main(void) {
  check_equal(3, false), check_equal(130, false), check_equal(768, true), check_equal(4097, false),
      check_equal(20000, false);
  check_long_rows();
  check_outliers();
  check_modules();
  check_operation();
  check_packed();
  check_far_mean();
  for (int k = 0; k < 4; k++) check_large_variance(k & 1, k & 2 ? 1e29f : 1e19f);
  check_eval(true, true, 4);   // the scales; the image, channels last; the product; its result, channels first
  check_eval(true, false, 4);  // by Winograd's transforms
  check_eval(false, true, 2);
  check_empty_batches();
  check_channel_mistakes();
  check_mistakes();
  return check_report();
}
