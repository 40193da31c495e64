// Numbers of a program and of its optimizers keep their sign of zero, their infinities and their NaN through the calls
// that make them, and what adds or multiplies nothing changes nothing else.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <math.h>
#include <string.h>

static bool same(const float *got, const float *want, int n) {
  bool all = true;
  for (int k = 0; k < n; k++) {
    bool one = CHECK(isnan(want[k]) ? isnan(got[k]) : !memcmp(&got[k], &want[k], sizeof *got));
    if (!one) printf("  element %d: found %g, expected %g\n", k, (double)got[k], (double)want[k]);
    all &= one;
  }
  return all;
}

// Numbers that are equal as values are one constant only where their bits are.
static void check_given(void) {
  static const float zeros[] = {0, -0.0f, 0}, nans[] = {NAN, NAN, NAN}, minus[] = {-0.0f, -0.0f, -0.0f};
  tn_program *p = tn_program_create("given");
  tn_function *f = tn_function_begin(p, "run");
  const tn_dim n = tn_dim_const(3);
  tn_tensor z = tn_constant(f, zeros, TN_SHAPE(n)), one = tn_scalar(f, 1);
  tn_output(f, "z", tn_clone(z));
  tn_output(f, "inverse", tn_div(one, z));
  tn_output(f, "nans", tn_constant(f, nans, TN_SHAPE(n)));
  tn_output(f, "minus", tn_div(one, tn_constant(f, minus, TN_SHAPE(n))));
  tn_output(f, "full", tn_div(one, tn_full(f, -0.0, TN_SHAPE(n))));
  tn_output(f, "scalar", tn_div(one, tn_scalar(f, -0.0)));
  tn_tensor parts[] = {tn_zeros(f, TN_SHAPE(1)), tn_full(f, -0.0, TN_SHAPE(1))};
  tn_output(f, "both", tn_div(one, tn_concat(0, TN_TENSORS(parts[0], parts[1]))));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 1);
  if (!m) return;
  float y[4][3], full[3], scalar, both[2];
  CHECK(tn_run(m, "run", NULL, 0,
               TN_OUT(tn_f32(y[0], 3), tn_f32(y[1], 3), tn_f32(y[2], 3), tn_f32(y[3], 3), tn_f32(full, 3),
                      tn_f32_scalar(&scalar), tn_f32(both, 2))) == TN_OK);
  static const float inverse[] = {INFINITY, -INFINITY, INFINITY}, down[] = {-INFINITY, -INFINITY, -INFINITY};
  same(y[0], zeros, 3);
  same(y[1], inverse, 3);
  same(y[2], nans, 3);
  same(y[3], down, 3);
  same(full, down, 3);
  same(&scalar, down, 1);
  same(both, inverse, 2);
  tn_model_free(m);
}

// x + 0, x * 1, 0 - x and x - 0 of awkward x; 1e30 * 1e30 is infinite before it is multiplied by 1e-30.
static void check_neutral(void) {
  enum { N = 6 };
  static const float x[N] = {-0.0f, 0, NAN, INFINITY, -1e30f, -1.5f};
  tn_program *p = tn_program_create("neutral");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(N)), zero = tn_scalar(f, 0), huge = tn_scalar(f, 1e30);
  tn_output(f, "sum", tn_add(in, zero));
  tn_output(f, "sum_of_minus", tn_add(tn_scalar(f, -0.0), in));
  tn_output(f, "product", tn_mul(in, tn_scalar(f, 1)));
  tn_output(f, "negative", tn_sub(zero, in));
  tn_output(f, "difference", tn_sub(in, zero));
  tn_output(f, "folded", tn_mul(tn_mul(huge, huge), tn_scalar(f, 1e-30)));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 1);
  if (!m) return;
  float y[5][N], folded = 0;
  tn_array in_array = tn_f32(x, N);
  CHECK(tn_run(m, "run", &in_array, 1,
               TN_OUT(tn_f32(y[0], N), tn_f32(y[1], N), tn_f32(y[2], N), tn_f32(y[3], N), tn_f32(y[4], N),
                      tn_f32_scalar(&folded))) == TN_OK);
  static const float sum[N] = {0, 0, NAN, INFINITY, -1e30f, -1.5f}, negative[N] = {0, 0, NAN, -INFINITY, 1e30f, 1.5f};
  same(y[0], sum, N);
  for (int k = 1; k < 5; k++) same(y[k], k == 3 ? negative : x, N);
  CHECK(isinf(folded));
  tn_model_free(m);
}

// A decay of 0 is none: an infinite parameter stays what it is, as in PyTorch: torch.optim.SGD([w], lr=.5), the same
// with momentum=.5, Adam([w], lr=.5), three steps each of the loss w.sum().
enum { SGD, MOMENTUM, ADAM, N_OPTIMIZERS };
static void optimize(tn_function *f, tn_module *root, int kind) {
  if (kind == SGD) tn_sgd(f, root, .lr = 0.5);
  else if (kind == MOMENTUM) tn_sgd(f, root, .lr = 0.5, .momentum = 0.5);
  else tn_adam(f, root, .lr = 0.5);
}

static void check_decay(int kind) {
  tn_program *p = tn_program_create("decay");
  tn_parameter(tn_root(p), "w", TN_SHAPE(4), (tn_init){.kind = TN_INIT_ZEROS});
  tn_function *f = tn_function_begin(p, "step");
  tn_backward(tn_sum(tn_param_value(f, tn_root(p), "w")));
  optimize(f, tn_root(p), kind);
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 1);
  if (!m) return;
  tn_initialize(m, 1);
  static const float w[] = {INFINITY, -INFINITY, 1, NAN};
  static const float want[N_OPTIMIZERS] = {-0.5f, -1.125f, -0.5f};
  float got[4];
  CHECK(tn_set(m, "w", w, 4) == TN_OK);
  for (int k = 0; k < 3; k++) CHECK(tn_run(m, "step", NULL, 0, NULL, 0) == TN_OK);
  CHECK(tn_get(m, "w", got, 4) == TN_OK);
  CHECK(got[0] == INFINITY && got[1] == -INFINITY && isnan(got[3]));
  if (!CHECK(fabsf(got[2] - want[kind]) < 1e-5f)) printf("  optimizer %d: %g\n", kind, (double)got[2]);
  tn_model_free(m);
}

// A probability of 1 drops everything, one of 0 nothing, in the gradient too.
static void check_dropout(double p_drop, float kept) {
  tn_program *p = tn_program_create("dropout");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(3)), y = tn_dropout(in, p_drop);
  tn_output(f, "y", y);
  tn_output(f, "g", tn_grad(tn_sum(tn_mul(y, in)), in));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 1);
  if (!m) return;
  float given[3] = {3, -1, 2}, out[3], g[3], want_g[3];
  for (int k = 0; k < 3; k++) want_g[k] = 2 * kept * given[k];
  CHECK(tn_run(m, "run", TN_IN(tn_f32(given, 3)), TN_OUT(tn_f32(out, 3), tn_f32(g, 3))) == TN_OK);
  for (int k = 0; k < 3; k++) CHECK(out[k] == kept * given[k] && g[k] == want_g[k]);
  tn_model_free(m);
}

// More numbers than instructions hold: read by two functions, written in place, in a scan, as indices and in the text.
enum { MANY = 9001 };
static float many_f32(int k) { return k == 5 ? -0.0f : (float)((k * 37) % 1001) / 7; }
static int64_t many_i64(int k) { return k == 1 ? INT64_C(1) << 40 : MANY - 1 - k; }

static void given_table(tn_program *p, const char *name, const float *v, const int64_t *order) {
  tn_function *f = tn_function_begin(p, name);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(MANY));
  tn_tensor c = tn_constant(f, v, TN_SHAPE(MANY)), i = tn_constant_i64(f, order, TN_SHAPE(MANY));
  tn_tensor written = tn_clone(c);
  tn_add_(written, x);
  tn_output(f, "itself", c);
  tn_output(f, "rows", tn_sum_axis(tn_mul(tn_reshape(c, TN_SHAPE(1, MANY)), x), 1, false));
  tn_output(f, "written", written);
  tn_output(f, "grad", tn_grad(tn_sum(tn_mul(c, x)), x));
  tn_output(f, "whole", i);
  tn_function_end(f);
}

static void check_many(void) {
  static float v[MANY], x[MANY], itself[MANY], written[MANY], grad[MANY];
  static int64_t order[MANY], whole[MANY];
  for (int k = 0; k < MANY; k++) v[k] = many_f32(k), x[k] = (float)(k % 3), order[k] = many_i64(k);
  tn_program *p = tn_program_create("many");
  given_table(p, "one", v, order);
  given_table(p, "other", v, order);
  tn_model *m = tn_compile(p, .n_workers = 2);
  if (!CHECK(m != NULL)) {
    tn_report(p, stdout);
    return;
  }
  // both tables once, and not once for each function
  tn_plan plan;
  CHECK(tn_plan_of(m, "one", &plan) == TN_OK);
  int64_t bytes = plan.const_bytes;
  if (!CHECK(bytes >= MANY * 12 && bytes < MANY * 12 + 256)) printf("  %lld bytes\n", (long long)bytes);
  tn_program_free(p);
  for (int k = 0; k < 2; k++) {
    float rows;
    CHECK(tn_run(m, k ? "other" : "one", TN_IN(tn_f32(x, MANY)),
                 TN_OUT(tn_f32(itself, MANY), tn_f32(&rows, 1), tn_f32(written, MANY), tn_f32(grad, MANY),
                        tn_i64(whole, MANY))) == TN_OK);
    same(itself, v, MANY);
    same(grad, v, MANY);
    double sum = 0;
    for (int i = 0; i < MANY; i++) {
      sum += (double)v[i] * (double)x[i];
      if (!CHECK(written[i] == v[i] + x[i] && whole[i] == order[i])) break;
    }
    CHECK(fabs((double)rows - sum) <= 1e-5 * sum);
  }
  tn_model_free(m);
}

// The same digits as f32 and as i64 are other bytes; a table of no elements lies beside others.
static void check_same_digits(void) {
  enum { N = 128 };
  float v[2 * N], x[2 * N];
  int64_t whole[N], got[N];
  for (int k = 0; k < N; k++) {
    uint32_t half[2] = {0x3f800000u + (uint32_t)k, 0x40000000u};
    memcpy(&v[2 * k], half, sizeof half);
    whole[k] = (int64_t)((uint64_t)half[0] << 32 | half[1]);
  }
  tn_program *p = tn_program_create("digits");
  tn_function *f = tn_function_begin(p, "run");
  tn_output(f, "empty", tn_constant(f, NULL, TN_SHAPE(0, 3)));
  tn_output(f, "x", tn_constant(f, v, TN_SHAPE(N, 2)));
  tn_output(f, "whole", tn_constant_i64(f, whole, TN_SHAPE(N)));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 1);
  if (!m) return;
  tn_array out[] = {tn_f32(x, 0, 3), tn_f32(x, N, 2), tn_i64(got, N)};
  CHECK(tn_run(m, "run", NULL, 0, out, 3) == TN_OK);
  CHECK(!memcmp(x, v, sizeof v) && !memcmp(got, whole, sizeof whole));
  tn_model_free(m);
}

static void check_many_misused(void) {
  static const float v[3];
  tn_program *p = tn_program_create("misused");
  tn_function *f = tn_function_begin(p, "run");
  tn_constant(f, v, TN_SHAPE(tn_dim_bounded(p, "batch", 4)));
  tn_constant(f, NULL, TN_SHAPE(1 << 20));
  tn_constant_i64(f, NULL, TN_SHAPE((1 << 26) + 1));
  tn_function_end(f);
  CHECK(tn_n_errors(p) == 3);
  tn_program_free(p);
}

int main(void) {
  check_many();
  check_same_digits();
  check_many_misused();
  check_given();
  check_dropout(1, 0);
  check_dropout(0, 1);
  check_neutral();
  for (int k = 0; k < N_OPTIMIZERS; k++) check_decay(k);
  return check_report();
}
