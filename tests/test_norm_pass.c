// Norms with what stands around them: residual and dropout before, sums of their weights' gradients behind, each as one
// kernel that reads every operand once; and the values of these sums, for widths and numbers of rows of every kind, in
// the steps of a scan too.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 1024, WIDTH = 64, BYTES = ROWS * WIDTH * 4, SMALL = BYTES / 2, LAYER = 0, RMS = 1 };

static tn_tensor input(tn_function *f, const char *name) { return tn_input(f, name, TN_F32, TN_SHAPE(ROWS, WIDTH)); }

static tn_tensor norm(tn_function *f, tn_module *m, int kind, tn_tensor x) {
  if (kind == RMS) return tn_rms_norm_of(x, 1, tn_param_value(f, m, "weight"), 1e-5);
  return tn_layer_norm_of(x, 1, tn_param_value(f, m, "weight"), tn_param_value(f, m, "bias"), 1e-5);
}

static tn_module *norm_params(tn_program *p, int64_t width) {
  tn_module *m = tn_module_new(tn_root(p), "norm");
  tn_parameter(m, "weight", TN_SHAPE(width), ((tn_init){TN_INIT_UNIFORM, 0.5, 1.5}));
  tn_parameter(m, "bias", TN_SHAPE(width), ((tn_init){TN_INIT_UNIFORM, -1, 1}));
  return m;
}

static void expect(const char *what, tn_model *m, uint32_t kernels, int64_t read, int64_t written) {
  tn_plan plan = {0};
  CHECK(tn_plan_of(m, "run", &plan) == TN_OK);
  int64_t in = tn_plan_bytes_read(m, "run", NULL), out = tn_plan_bytes_written(m, "run", NULL);
  bool good = plan.n_kernels == kernels && in >= read && in < read + SMALL && out >= written && out < written + SMALL;
  if (!CHECK(good))
    printf("  %s: %u kernels that read %.2f and write %.2f operands, expected %u, %.2f and %.2f\n", what,
           plan.n_kernels, (double)in / BYTES, (double)out / BYTES, kernels, (double)read / BYTES,
           (double)written / BYTES);
  tn_model_free(m);
}

// h = x + dropout(r), y = norm(h), of which a product is taken. Forward: x and r in, h and y out. Backward, behind the
// product's: its result, h and what else comes to h in, the gradients of x and r out, those of the weights beside them.
static void around(int kind, bool backward) {
  tn_program *p = tn_program_create("norm");
  tn_module *m = norm_params(p, WIDTH);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = input(f, "x"), r = input(f, "r"), gh = input(f, "gh"), gz = input(f, "gz");
  tn_tensor w = tn_input(f, "w", TN_F32, TN_SHAPE(WIDTH, WIDTH));
  if (backward) tn_set_requires_grad(x, true), tn_set_requires_grad(r, true);
  tn_tensor h = tn_add(x, tn_dropout(r, 0.25)), y = norm(f, m, kind, h);
  tn_output(f, "y", y);
  if (!backward) {
    tn_output(f, "h", h);
    tn_function_end(f);
    expect("forward", model_alone(p, .n_workers = 1), 1, 2 * BYTES, 2 * BYTES);
    return;
  }
  tn_tensor loss = tn_add(tn_sum(tn_mul(h, gh)), tn_sum(tn_mul(tn_matmul(y, w), gz)));
  tn_output(f, "dx", tn_grad(loss, x));
  tn_output(f, "dr", tn_grad(loss, r));
  tn_output(f, "dw", tn_grad(loss, tn_param_value(f, m, "weight")));
  if (kind == LAYER) tn_output(f, "db", tn_grad(loss, tn_param_value(f, m, "bias")));
  tn_function_end(f);
  expect(kind == RMS ? "rms" : "layer", model_alone(p, .n_workers = 1), 3, (2 + 1 + 3) * BYTES, (2 + 1 + 2) * BYTES);
}

// ---- values
static double draw(uint32_t *seed) { return (double)((*seed = *seed * 1664525u + 1013904223u) >> 8) / (1 << 22) - 2; }

static bool near(const float *got, const double *want, int64_t n, double scale) {
  double worst = 0;
  for (int64_t k = 0; k < n; k++) worst = fmax(worst, fabs(got[k] - want[k]));
  if (worst < 1e-5 * scale) return true;
  return printf("  off by %g\n", worst), false;
}

// Sums over rows of g, and of g (x - mean) rstd, beside the gradient of x.
static void sums(int kind, int64_t rows, int64_t width, uint32_t workers) {
  size_t n = (size_t)(rows * width);
  uint32_t seed = 5;
  float *x = malloc(n * 4 + 4), *g = malloc(n * 4 + 4), *w = malloc((size_t)width * 4), *out[2][3];
  double *dw = calloc((size_t)width, 8), *db = calloc((size_t)width, 8), *dx = malloc(n * 8 + 8);
  for (size_t k = 0; k < n; k++) x[k] = (float)draw(&seed), g[k] = (float)draw(&seed);
  for (int64_t k = 0; k < width; k++) w[k] = (float)draw(&seed);
  for (int64_t i = 0; i < rows; i++) {
    const float *a = x + i * width, *d = g + i * width;
    double mean = 0, var = 0, h = 0, t = 0;
    for (int64_t k = 0; k < width && kind == LAYER; k++) mean += a[k] / (double)width;
    for (int64_t k = 0; k < width; k++) var += (a[k] - mean) * (a[k] - mean) / (double)width;
    double rstd = 1 / sqrt(var + 1e-5);
    for (int64_t k = 0; k < width; k++) {
      double unit = (a[k] - mean) * rstd;
      dw[k] += d[k] * unit, db[k] += d[k];
      h += (double)d[k] * w[k] / (double)width, t += (double)d[k] * w[k] * unit / (double)width;
    }
    for (int64_t k = 0; k < width; k++)
      dx[i * width + k] = rstd * ((double)d[k] * w[k] - (kind == LAYER ? h : 0) - (a[k] - mean) * rstd * t);
  }
  for (uint32_t run = 0; run < 2; run++) {
    tn_program *p = tn_program_create("sums");
    tn_function *f = tn_function_begin(p, "run");
    tn_dim r = tn_dim_bounded(p, "rows", rows + 5), c = tn_dim_const(width);
    tn_tensor xi = tn_input(f, "x", TN_F32, TN_SHAPE(r, c)), gi = tn_input(f, "g", TN_F32, TN_SHAPE(r, c));
    tn_tensor wi = tn_input(f, "w", TN_F32, TN_SHAPE(c)), bi = tn_input(f, "b", TN_F32, TN_SHAPE(c));
    tn_set_requires_grad(xi, true), tn_set_requires_grad(wi, true), tn_set_requires_grad(bi, true);
    tn_tensor y = kind == RMS ? tn_rms_norm_of(xi, 1, wi, 1e-5) : tn_layer_norm_of(xi, 1, wi, bi, 1e-5);
    tn_tensor loss = tn_sum(tn_mul(y, gi));
    tn_output(f, "dx", tn_grad(loss, xi));
    tn_output(f, "dw", tn_grad(loss, wi));
    tn_output(f, "db", kind == RMS ? tn_sum_axis(gi, 0, false) : tn_grad(loss, bi));
    tn_function_end(f);
    tn_model *m = model_alone(p, .n_workers = run ? workers : 1);
    for (int k = 0; k < 3; k++) out[run][k] = calloc(n + (size_t)width, 4);
    CHECK(tn_run(m, "run", TN_IN(tn_f32(x, rows, width), tn_f32(g, rows, width), tn_f32(w, width), tn_f32(w, width)),
                 TN_OUT(tn_f32(out[run][0], rows, width), tn_f32(out[run][1], width), tn_f32(out[run][2], width))) ==
          TN_OK);
    tn_model_free(m);
  }
  double scale = sqrt((double)rows) + 1;
  bool good =
      near(out[0][0], dx, rows * width, 4) && near(out[0][1], dw, width, scale) && near(out[0][2], db, width, scale);
  for (int k = 0; k < 3; k++) good &= !memcmp(out[0][k], out[1][k], (k ? (size_t)width : n) * 4);
  if (!CHECK(good)) printf("  %d: %lld x %lld\n", kind, (long long)rows, (long long)width);
  for (int k = 0; k < 3; k++) free(out[0][k]), free(out[1][k]);
  free(x), free(g), free(w), free(dw), free(db), free(dx);
}

// ---- a scan whose step needs a sum over its rows: c' = c / 2 + sum over rows of tanh x, y = x c'
static void in_a_scan(int64_t steps, int64_t rows, int64_t width) {
  int64_t n = steps * rows * width;
  float *x = malloc((size_t)n * 4), *y[2], *c = calloc((size_t)width, 4);
  double *carry = calloc((size_t)width, 8), worst = 0;
  uint32_t seed = 11;
  for (int64_t k = 0; k < n; k++) x[k] = (float)draw(&seed);
  for (uint32_t run = 0; run < 2; run++) {
    tn_program *p = tn_program_create("scan");
    tn_function *f = tn_function_begin(p, "run");
    tn_dim t = tn_dim_const(steps), r = tn_dim_const(rows), w = tn_dim_const(width);
    tn_tensor xs = tn_input(f, "x", TN_F32, TN_SHAPE(t, r, w)), c0 = tn_input(f, "c", TN_F32, TN_SHAPE(w));
    tn_scan *s = tn_scan_begin(f, .steps = t);
    tn_tensor step = tn_scan_input(s, xs), old = tn_scan_carry(s, c0), h = tn_tanh(step);
    tn_tensor next = tn_add(tn_mul(old, tn_scalar(f, 0.5)), tn_sum_axis(h, 0, false));
    tn_scan_next(s, old, next);
    tn_tensor out = tn_scan_output(s, tn_mul(h, next));
    tn_scan_end(s);
    tn_output(f, "y", out);
    tn_function_end(f);
    tn_model *m = model_alone(p, .n_workers = run ? 3 : 1);
    y[run] = malloc((size_t)n * 4);
    CHECK(tn_run(m, "run", TN_IN(tn_f32(x, steps, rows, width), tn_f32(c, width)),
                 TN_OUT(tn_f32(y[run], steps, rows, width))) == TN_OK);
    tn_model_free(m);
  }
  for (int64_t t = 0; t < steps; t++) {
    const float *at = x + t * rows * width;
    for (int64_t k = 0; k < width; k++) carry[k] /= 2;
    for (int64_t k = 0; k < rows * width; k++) carry[k % width] += tanh(at[k]);
    for (int64_t k = 0; k < rows * width; k++)
      worst = fmax(worst, fabs(y[0][t * rows * width + k] - tanh(at[k]) * carry[k % width]));
  }
  if (!CHECK(worst < 1e-4 && !memcmp(y[0], y[1], (size_t)n * 4))) printf("  a scan: off by %g\n", worst);
  free(x), free(y[0]), free(y[1]), free(c), free(carry);
}

int main(void) {
  static const int64_t sizes[][2] = {{0, 96},   {1, 64},    {7, 100},  {8, 65},   {37, 129},  {64, 64},
                                     {513, 80}, {70, 1027}, {9, 4096}, {9, 4097}, {20000, 64}};
  for (int kind = LAYER; kind <= RMS; kind++) {
    around(kind, false);
    around(kind, true);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) sums(kind, sizes[k][0], sizes[k][1], 2 + k % 2);
  }
  in_a_scan(4, 70, 100);
  in_a_scan(3, 5, 64);
  return check_report();
}
