// TN_CHECK=nan: a run in which a kernel makes a NaN fails, says which op of which line made the first one, and leaves all state bit for
// bit as it was, wherever the NaN comes from: forward, backward, update, a shard, a scan.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/report.h"
#include <math.h>
#include <stdlib.h>

enum { COLS = 3, MOST = 64 };

// h = x w; l = ln h; y = mean over l, and its gradient as an update
static tn_model *model(tn_program *p) {
  tn_dim rows = tn_dim_bounded(p, "rows", MOST);
  tn_module *fc = tn_linear(tn_root(p), "fc", COLS, 4, .no_bias = true);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = (tn_input)(f, "x", TN_F32, TN_SHAPE(rows, COLS), at(1));
  tn_tensor h = (tn_square)((tn_call)(fc, x, at(2)), at(3));
  tn_tensor l = (tn_log)((tn_add_scalar)(h, -1e-3, at(4)), at(5));
  tn_tensor loss = (tn_mean)((tn_softmax)(l, -1, at(6)), at(7));
  tn_backward(loss);
  tn_sgd(f, fc, .lr = 0.1);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  return tn_compile(p, .seed = 2);
}

// ---- state stays
enum { HIDDEN = 8, BATCH = 6, TIME = 3, MOST_BYTES = 1 << 16 };
typedef struct {
  uint32_t optimizer, shards;
  bool recurs, accumulates, averages, normalizes, clips, roots;
} Program;

static void optimize(tn_function *f, tn_module *net, uint32_t kind) {
  if (kind == 0) tn_adamw(f, net, .lr = 0.01, .amsgrad = true);
  else if (kind == 1) tn_sgd(f, net, .lr = 0.1);  // in the epilogues of the products of its gradients
  else if (kind == 2) tn_sgd(f, net, .lr = 0.1, .momentum = 0.9);
  else if (kind == 3) tn_rmsprop(f, net, .lr = 0.01, .momentum = 0.5, .centered = true);
  else tn_lamb(f, net, .lr = 0.01);
}

// sqrt at 0 has an infinite derivative, times the 0 of `where`: NaN in the backward alone
static tn_tensor hidden(tn_module *net, tn_function *f, tn_tensor x, const Program *o) {
  if (o->recurs) return tn_rnn_call_dense(tn_gru(net, "rnn", COLS, HIDDEN), x).hidden;
  tn_tensor h = (tn_call)(tn_linear(net, "in", COLS, HIDDEN), x, at(1));
  if (o->normalizes) h = tn_call(tn_batch_norm(net, "norm", HIDDEN), h);
  if (!o->roots) return tn_tanh(h);
  tn_tensor root = (tn_sqrt)(h, at(2));
  return (tn_where)((tn_gt)(h, tn_scalar(f, 0), at(3)), root, tn_scalar(f, 0), at(4));
}

static tn_model *build(const Program *o) {
  tn_program *p = tn_program_create("state");
  tn_dim B = tn_dim_bounded(p, "batch", BATCH);
  tn_module *net = tn_root(p);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, o->recurs ? TN_SHAPE(B, TIME, COLS) : TN_SHAPE(B, COLS));
  if (o->shards) tn_distributed(f, .n = o->shards, .batch = B);
  tn_tensor loss = tn_mean(tn_square(tn_call(tn_linear(net, "out", HIDDEN, 2), hidden(net, f, x, o))));
  tn_backward(loss);
  if (o->accumulates) tn_accumulate(f, net, 2);
  if (o->clips) tn_clip_grad_norm(f, net, 0.5);
  optimize(f, net, o->optimizer);
  if (o->averages) tn_ema(f, net, .decay = 0.5);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 2, .seed = 4);
  tn_program_free(p);
  return m;
}

static size_t take_state(tn_model *m, unsigned char *to) {
  size_t at = 0;
  for (uint32_t k = 0; k < tn_param_count(m); k++) {
    tn_array a = tn_param_at(m, k);
    size_t n = a.dtype == TN_I64 ? 8 : 4;
    for (uint32_t d = 0; d < a.rank; d++) n *= (size_t)a.dims[d];
    if (!CHECK(at + n <= MOST_BYTES)) return at;
    memcpy(to + at, a.data, n), at += n;
  }
  return at;
}

static tn_status run(tn_model *m, const Program *o, float *x) {
  float loss = 0;
  tn_array in = o->recurs ? tn_f32(x, BATCH, TIME, COLS) : tn_f32(x, BATCH, COLS);
  return tn_run(m, "step", &in, 1, TN_OUT(tn_f32_scalar(&loss)));
}

// Refused, and nothing has changed
static bool check_refused(tn_model *m, const Program *o, float *x, const char *where) {
  static unsigned char before[MOST_BYTES], after[MOST_BYTES];
  size_t n = take_state(m, before);
  bool good = CHECK(run(m, o, x) == TN_ERR_VALUE) && CHECK(take_state(m, after) == n && !memcmp(before, after, n));
  if (!good) printf("  optimizer %u, %u shards, NaN in %s: %s\n", o->optimizer, o->shards, where, tn_error_text(m));
  return good;
}

static void test_state(Program o) {
  float x[BATCH * TIME * COLS];
  tn_model *m = build(&o);
  if (!CHECK(m)) return;
  for (int k = 0; k < BATCH * TIME * COLS; k++) x[k] = (float)((k * 37) % 11) / 4 - 1;
  if (!CHECK(run(m, &o, x) == TN_OK && run(m, &o, x) == TN_OK)) printf("  %s\n", tn_error_text(m));
  float kept = x[1];
  x[1] = NAN, check_refused(m, &o, x, "the input"), x[1] = kept;
  for (uint32_t k = 0; k < tn_param_count(m); k++) {  // in each entry in turn
    tn_array a = tn_param_at(m, k);
    bool is_read = !o.accumulates || strncmp(tn_param_path(m, k), "optimizer.", 10) != 0;  // in every other run
    if (a.dtype != TN_F32 || !is_read) continue;
    float *value = a.data, old = *value;
    *value = NAN, check_refused(m, &o, x, tn_param_path(m, k)), *value = old;
  }
  CHECK(run(m, &o, x) == TN_OK);
  tn_model_free(m);
}

static void test_states(void) {
  test_state((Program){.optimizer = 0, .normalizes = true, .averages = true});
  test_state((Program){.optimizer = 1});
  test_state((Program){.optimizer = 2, .recurs = true, .accumulates = true});
  test_state((Program){.optimizer = 3, .shards = 3, .clips = true});
  test_state((Program){.optimizer = 4, .shards = 2, .averages = true});
}

// All of h is 0: the derivative of sqrt is infinite, that of `where` 0.
static void test_backward(void) {
  Program o = {.optimizer = 1, .roots = true};
  float x[BATCH * COLS] = {0}, zero[HIDDEN] = {0};
  tn_model *m = build(&o);
  if (!CHECK(m)) return;
  CHECK(!tn_set(m, "in.bias", zero, HIDDEN));
  check_refused(m, &o, x, "the backward of sqrt");
  CHECK_HAS(tn_error_text(m), "in the backward of sqrt, user.c:2");
  CHECK_HAS(tn_error_text(m), "nothing was updated");
  tn_model_free(m);
}

int main(void) {
  float x[MOST * COLS], loss = 0;
  setenv("TN_CHECK", "nan", 1);
  tn_program *p = tn_program_create("nan");
  tn_model *m = model(p);
  if (!CHECK(m)) return check_report();
  for (int k = 0; k < MOST * COLS; k++) x[k] = (float)(1 + k % 7);
  for (int rows = 5; rows <= MOST; rows += 59)  // what a run does not use is no NaN
    CHECK(tn_run(m, "step", TN_IN(tn_f32(x, rows, COLS)), TN_OUT(tn_f32_scalar(&loss))) == TN_OK && isfinite(loss));
  for (int k = 0; k < COLS; k++) x[2 * COLS + k] = 0;  // ln -0.001
  CHECK(tn_run(m, "step", TN_IN(tn_f32(x, 5, COLS)), TN_OUT(tn_f32_scalar(&loss))) == TN_ERR_VALUE);
  const char *said = tn_error_text(m);
  if (!CHECK(strstr(said, "the first NaN of the run is in ") && strstr(said, "user.c:"))) printf("  %s\n", said);
  CHECK(!strstr(said, "user.c:2)"));  // the product has none
  printf("%s\n", said);
  tn_model_free(m);
  tn_program_free(p);

  test_states();
  test_backward();
  unsetenv("TN_CHECK");  // without it the run goes on
  p = tn_program_create("nan");
  m = model(p);
  CHECK(m && tn_run(m, "step", TN_IN(tn_f32(x, 5, COLS)), TN_OUT(tn_f32_scalar(&loss))) == TN_OK && isnan(loss));
  tn_model_free(m);
  tn_program_free(p);
  return check_report();
}
