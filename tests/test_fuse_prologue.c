// Prologue fusion through the public API: a fused producer has no memory, no store and no kernel of its own, for any
// readers; sizes of a run and indices that a run refuses.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <math.h>
#include <string.h>

enum { COUNT = 50, WIDTH = 20, OUT = 12, MOST = 40 };

static int64_t kernels_of(const tn_model *m, const char *f) {
  tn_plan plan = {0};
  return CHECK(tn_plan_of(m, f, &plan) == TN_OK) ? (int64_t)plan.n_kernels : -1;
}

static int64_t peak_of(const tn_model *m, const char *f) {
  tn_plan plan = {0};
  return CHECK(tn_plan_of(m, f, &plan) == TN_OK) ? plan.lower_bound : -1;
}

// ---- looked up by rows
static tn_tensor looked_up(tn_function *f, tn_program *p) {
  tn_tensor i = tn_input(f, "i", TN_I64, TN_SHAPE(tn_dim_bounded(p, "rows", MOST)));
  return tn_call(tn_child(tn_root(p), "embed"), i);
}

static tn_model *lookup(uint32_t n_workers) {
  tn_program *p = tn_program_create("lookup");
  tn_embedding(tn_root(p), "embed", COUNT, WIDTH);
  tn_linear(tn_root(p), "fc", WIDTH, OUT);
  tn_function *f = tn_function_begin(p, "made");
  tn_output(f, "y", tn_relu(tn_call(tn_child(tn_root(p), "fc"), looked_up(f, p))));
  tn_function_end(f);
  f = tn_function_begin(p, "stored");
  tn_tensor e = looked_up(f, p);
  tn_output(f, "y", tn_relu(tn_call(tn_child(tn_root(p), "fc"), e)));
  tn_output(f, "e", e);
  tn_function_end(f);
  f = tn_function_begin(p, "computed");  // the run itself finds the indices, and may refuse them
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(tn_dim_bounded(p, "rows", MOST)));
  tn_output(f, "y",
            tn_relu(tn_call(tn_child(tn_root(p), "fc"), tn_call(tn_child(tn_root(p), "embed"), tn_cast(x, TN_I64)))));
  tn_function_end(f);
  return model_alone(p, .n_workers = n_workers);
}

static void check_lookup(uint32_t n_workers) {
  tn_model *m = lookup(n_workers);
  if (!m) return;
  CHECK(kernels_of(m, "made") == 1 && kernels_of(m, "stored") == 2 && kernels_of(m, "computed") == 3);
  CHECK(tn_plan_bytes_written(m, "made", NULL) == 4 * MOST * OUT && peak_of(m, "made") == 0);
  int64_t i[MOST];
  float x[MOST], y[MOST * OUT], z[MOST * OUT], e[MOST * WIDTH];
  for (int64_t k = 0; k < MOST; k++) i[k] = k * 17 % COUNT, x[k] = (float)i[k];
  static const int64_t rows[] = {0, 1, 3, 4, 15, 16, 17, 33, MOST};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    int64_t n = rows[k];
    CHECK(tn_run(m, "made", TN_IN(tn_i64(i, n)), TN_OUT(tn_f32(y, n, OUT))) == TN_OK);
    CHECK(tn_run(m, "stored", TN_IN(tn_i64(i, n)), TN_OUT(tn_f32(z, n, OUT), tn_f32(e, n, WIDTH))) == TN_OK);
    CHECK(!memcmp(y, z, (size_t)(n * OUT) * sizeof *y));
    CHECK(tn_run(m, "computed", TN_IN(tn_f32(x, n)), TN_OUT(tn_f32(z, n, OUT))) == TN_OK);
    CHECK(!memcmp(y, z, (size_t)(n * OUT) * sizeof *y));
  }
  static const int64_t bad[] = {-1, COUNT, INT64_MAX, INT64_MIN};
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
    i[5] = bad[k], x[5] = (float)bad[k];
    CHECK(tn_run(m, "made", TN_IN(tn_i64(i, MOST)), TN_OUT(tn_f32(y, MOST, OUT))) == TN_ERR_VALUE);
    CHECK(tn_run(m, "computed", TN_IN(tn_f32(x, MOST)), TN_OUT(tn_f32(y, MOST, OUT))) == TN_ERR_VALUE);
  }
  tn_model_free(m);
}

// ---- a step of training: the forward and the gradient of the weight each make the layer's input
static void step(tn_program *p, const char *name, bool is_stored) {
  tn_function *f = tn_function_begin(p, name);
  tn_dim B = tn_dim_bounded(p, "rows", MOST);
  tn_tensor pixels = tn_input(f, "pixels", TN_F32, TN_SHAPE(B, WIDTH));
  tn_tensor x = tn_mul(pixels, tn_scalar(f, 1.0 / 255));
  tn_tensor loss = tn_cross_entropy(tn_call(tn_child(tn_root(p), "fc"), x), tn_input(f, "labels", TN_I64, TN_SHAPE(B)));
  tn_output(f, "loss", loss);
  if (is_stored) tn_output(f, "x", x);
  tn_backward(loss);
  tn_adamw(f, tn_root(p), .lr = 1e-2);
  tn_function_end(f);
}

static void check_training(uint32_t n_workers) {
  tn_program *p = tn_program_create("training");
  tn_linear(tn_root(p), "fc", WIDTH, OUT);
  step(p, "made", false);
  step(p, "stored", true);
  tn_model *m = model_alone(p, .n_workers = n_workers), *other = m ? tn_instance(m, 0) : NULL;
  if (!CHECK(other != NULL)) return;
  int64_t more = tn_plan_bytes_written(m, "stored", NULL) - tn_plan_bytes_written(m, "made", NULL);
  CHECK(more == 2 * 4 * MOST * WIDTH);  // x, and the output that it is copied to
  CHECK(kernels_of(m, "made") + 1 == kernels_of(m, "stored"));
  CHECK(tn_initialize(m, 3) == TN_OK && tn_initialize(other, 3) == TN_OK);
  float pixels[MOST * WIDTH], x[MOST * WIDTH], a = 0, b = 0, w[OUT * WIDTH], v[OUT * WIDTH];
  int64_t labels[MOST];
  for (int64_t k = 0; k < MOST * WIDTH; k++) pixels[k] = (float)(k * 37 % 256);
  for (int64_t k = 0; k < MOST; k++) labels[k] = k * 5 % OUT;
  for (int64_t n = 1; n <= MOST; n += 13) {
    CHECK(tn_run(m, "made", TN_IN(tn_f32(pixels, n, WIDTH), tn_i64(labels, n)), TN_OUT(tn_f32_scalar(&a))) == TN_OK);
    CHECK(tn_run(other, "stored", TN_IN(tn_f32(pixels, n, WIDTH), tn_i64(labels, n)),
                 TN_OUT(tn_f32_scalar(&b), tn_f32(x, n, WIDTH))) == TN_OK);
    CHECK(a == b && isfinite(a));
  }
  CHECK(tn_get(m, "fc.weight", w, OUT * WIDTH) == TN_OK && tn_get(other, "fc.weight", v, OUT * WIDTH) == TN_OK);
  CHECK(!memcmp(w, v, sizeof w));
  tn_model_free(other), tn_model_free(m);
}

// ---- what becomes a single number
enum { LONG = 40007, N_SUMS = 3 };

static void add_sums(tn_function *f, tn_tensor a, tn_tensor b, bool is_stored) {
  tn_tensor made[N_SUMS] = {tn_mul(a, b), tn_sub(tn_exp(a), b), tn_abs(tn_sub(a, b))};
  tn_output(f, "dot", tn_sum(made[0]));
  tn_output(f, "sum", tn_sum(made[1]));
  tn_output(f, "farthest", tn_amax(made[2]));
  for (int k = 0; is_stored && k < N_SUMS; k++) tn_output(f, (const char *[]){"p", "q", "r"}[k], made[k]);
}

static tn_model *sums(uint32_t n_workers) {
  tn_program *p = tn_program_create("sums");
  for (int k = 0; k < 4; k++) {
    tn_function *f = tn_function_begin(p, (const char *[]){"made", "stored", "made_sized", "stored_sized"}[k]);
    tn_dim n = k < 2 ? tn_dim_const(LONG) : tn_dim_bounded(p, "n", LONG);
    tn_tensor a = tn_input(f, "a", TN_F32, TN_SHAPE(n)), b = tn_input(f, "b", TN_F32, TN_SHAPE(n));
    add_sums(f, a, b, k % 2);
    tn_function_end(f);
  }
  return model_alone(p, .n_workers = n_workers);
}

static void check_sums_of(tn_model *m, const char *made, const char *stored, int64_t n, float *out) {
  static float a[LONG], b[LONG], p[N_SUMS][LONG];
  float y[N_SUMS], z[N_SUMS];
  for (int64_t k = 0; k < n; k++) a[k] = (float)(k * 37 % 101 - 50) / 64, b[k] = (float)(k * 53 % 211) / 128;
  CHECK(tn_run(m, made, TN_IN(tn_f32(a, n), tn_f32(b, n)),
               TN_OUT(tn_f32_scalar(y), tn_f32_scalar(y + 1), tn_f32_scalar(y + 2))) == TN_OK);
  CHECK(tn_run(m, stored, TN_IN(tn_f32(a, n), tn_f32(b, n)),
               TN_OUT(tn_f32_scalar(z), tn_f32_scalar(z + 1), tn_f32_scalar(z + 2), tn_f32(p[0], n), tn_f32(p[1], n),
                      tn_f32(p[2], n))) == TN_OK);
  CHECK(!memcmp(y, z, sizeof y));
  memcpy(out, y, sizeof y);
}

// Same bits as of stored operands, for any number of workers.
static void check_sums(void) {
  static const int64_t sizes[] = {0, 1, 15, 63, 64, 8191, 8192, 16385, LONG};
  enum { N_SIZES = sizeof sizes / sizeof *sizes };
  float first[N_SIZES + 1][N_SUMS];
  for (uint32_t w = 1; w <= 3; w++) {
    tn_model *m = sums(w);
    if (!m) return;
    CHECK(kernels_of(m, "made") == 3 && kernels_of(m, "made_sized") == 3 && peak_of(m, "made") < LONG);
    for (int k = 0; k <= N_SIZES; k++) {
      float y[N_SUMS];
      bool is_fixed = k == N_SIZES;
      check_sums_of(m, is_fixed ? "made" : "made_sized", is_fixed ? "stored" : "stored_sized",
                    is_fixed ? LONG : sizes[k], y);
      if (w == 1) memcpy(first[k], y, sizeof y);
      CHECK(!memcmp(first[k], y, sizeof y));
    }
    tn_model_free(m);
  }
}

int main(void) {
  for (uint32_t n = 1; n <= 3; n++) check_lookup(n), check_training(n);
  check_sums();
  return check_report();
}
