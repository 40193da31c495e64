// Views of parameters as inputs and outputs of runs: where a run updates the parameter, they are refused by name and
// nothing changes; where it does not, they are memory like any other.
#include "tests/check.h"
#include "tests/models.h"

enum { N = 6 };
static const tn_init ones = {TN_INIT_CONSTANT, 1, 0};

static tn_array view_of(tn_model *m, const char *path) {
  for (uint32_t k = 0; k < tn_param_count(m); k++)
    if (!strcmp(tn_param_path(m, k), path)) return tn_param_at(m, k);
  return (tn_array){0};
}

static tn_function *with_input(tn_program *p, const char *name, tn_tensor *x) {
  tn_function *f = tn_function_begin(p, name);
  *x = tn_input(f, "x", TN_F32, TN_SHAPE(N));
  return f;
}

static tn_model *build(tn_program *p) {
  tn_tensor x;
  tn_parameter(tn_root(p), "w", TN_SHAPE(N), ones);
  tn_parameter(tn_root(p), "other", TN_SHAPE(N), ones);
  tn_buffer(tn_root(p), "mean", TN_SHAPE(N), ones);
  tn_function *f = with_input(p, "train", &x);
  tn_backward(tn_sum(tn_mul(tn_param_value(f, tn_root(p), "w"), x)));
  tn_adamw(f, tn_root(p), .lr = 0.5);
  tn_function_end(f);
  f = with_input(p, "track", &x);
  tn_add_(tn_param_value(f, tn_root(p), "mean"), x);
  tn_function_end(f);
  f = with_input(p, "predict", &x);
  tn_output(f, "y", tn_mul(tn_param_value(f, tn_root(p), "w"), x));
  tn_function_end(f);
  return model_of(p, .n_workers = 1);
}

static void check_refused(tn_model *m, const char *function, const tn_array *in, const tn_array *out, size_t n_out,
                          const char *why) {
  static const char *const paths[] = {"w", "other", "mean", "optimizer.exp_avg.w"};
  float before[4][N], after[4][N];
  for (int k = 0; k < 4; k++) CHECK(tn_get(m, paths[k], before[k], N) == TN_OK);
  CHECK(tn_run(m, function, in, 1, out, n_out) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), why);
  for (int k = 0; k < 4; k++) CHECK(tn_get(m, paths[k], after[k], N) == TN_OK);
  CHECK(!memcmp(before, after, sizeof before));
}

int main(void) {
  tn_program *p = tn_program_create("views");
  tn_model *m = build(p), *second = tn_instance(m, 1);
  float x[N] = {1, 2, 3, 4, 5, 6}, y[N];
  tn_array plain = tn_f32(x, N), result = tn_f32(y, N);
  CHECK(tn_run(m, "train", &plain, 1, NULL, 0) == TN_OK);  // the sizes are known from here on
  tn_array w = view_of(m, "w"), mean = view_of(m, "mean"), other = view_of(m, "other"),
           avg = view_of(m, "optimizer.exp_avg.w");
  check_refused(m, "train", &w, NULL, 0,
                "train: input 'x' is memory of parameter 'w', which the run updates: pass a copy");
  check_refused(m, "train", &avg, NULL, 0,
                "input 'x' is memory of parameter 'optimizer.exp_avg.w', which the run updates");
  check_refused(m, "track", &mean, NULL, 0, "input 'x' is memory of parameter 'mean', which the run updates");
  check_refused(m, "predict", &plain, &w, 1, "predict: output 'y' is memory of parameter 'w', which the run reads");
  tn_array w_second = view_of(second, "w");
  CHECK(tn_run(m, "train", &other, 1, NULL, 0) == TN_OK);     // not touched by the run
  CHECK(tn_run(m, "track", &w, 1, NULL, 0) == TN_OK);         // updated by another function
  CHECK(tn_run(m, "train", &w_second, 1, NULL, 0) == TN_OK);  // of another instance
  CHECK(tn_run(m, "predict", &w, 1, &result, 1) == TN_OK);    // read twice
  const float *wv = w.data;
  for (int k = 0; k < N; k++) CHECK(y[k] == wv[k] * wv[k]);
  CHECK(tn_run(m, "predict", &plain, 1, &other, 1) == TN_OK);
  for (int k = 0; k < N; k++) CHECK(((float *)other.data)[k] == wv[k] * x[k]);
  tn_model_free(second);
  tn_model_free(m);
  tn_program_free(p);
  return check_report();
}
