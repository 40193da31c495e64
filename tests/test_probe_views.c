// Probes that show the value: every dtype, sizes known only in the run, what is written to a value later, gradients and
// modules, switches between runs, a guarded arena, a team of workers, and calls that a viewer may not make.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/report.h"
#include <math.h>
#include <stdlib.h>

enum { MOST = 16, BYTES = 4096 };

typedef struct {
  int n;
  tn_probe_view view[MOST];
  unsigned char bytes[MOST][BYTES];
} Seen;

static size_t bytes_of(const tn_probe_view *v) {
  static const size_t width[] = {
      [TN_F32] = 4, [TN_I64] = 8, [TN_I32] = 4, [TN_U8] = 1, [TN_BOOL] = 1, [TN_F16] = 2, [TN_BF16] = 2};
  size_t n = width[v->dtype];
  for (uint32_t d = 0; d < v->rank; d++) n *= (size_t)v->dims[d];
  return n;
}

static void look(const tn_probe_view *v, void *ctx) {
  Seen *s = ctx;
  size_t n = bytes_of(v);
  if (!CHECK(s->n < MOST && n <= BYTES)) return;
  s->view[s->n] = *v;
  if (n) memcpy(s->bytes[s->n], v->data, n);
  s->n++;
}

static int find(const Seen *s, const char *name) {
  for (int k = 0; k < s->n; k++)
    if (!strcmp(s->view[k].name, name)) return k;
  CHECK(!name);
  return 0;
}

static bool has_shape(const tn_probe_view *v, uint32_t rank, int64_t a, int64_t b) {
  return v->rank == rank && (rank < 1 || v->dims[0] == a) && (rank < 2 || v->dims[1] == b);
}

static tn_model *compile(tn_program *p, uint32_t n_workers) {
  tn_model *m = tn_compile(p, .n_workers = n_workers, .seed = 3);
  if (!CHECK(m)) tn_report(p, stdout), exit(1);
  return m;
}

// ---- every dtype, against outputs of the same program; the batch is any
static const tn_dtype dtypes[] = {TN_F32, TN_I64, TN_I32, TN_U8, TN_BOOL, TN_F16, TN_BF16};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes, COLS = 5, ROWS = 12 };

static tn_program *of_dtypes(void) {
  static const char *const names[] = {"f32", "i64", "i32", "u8", "bool", "f16", "bf16"};
  tn_program *p = tn_program_create("dtypes");
  tn_dim rows = tn_dim_bounded(p, "rows", ROWS);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(rows, COLS));
  for (int k = 0; k < N_DTYPES; k++) {
    tn_tensor y = tn_cast(tn_mul_scalar(x, 3), dtypes[k]);
    tn_probe(y, names[k], .view = true);
    tn_output(f, names[k], y);
  }
  tn_tensor turned = tn_transpose(x, 0, 1);
  tn_probe(turned, "turned", .view = true);
  tn_probe(tn_sum(x), "sum", .view = true);
  tn_probe(x, "x", .view = true);
  tn_output(f, "total", tn_sum(turned));
  tn_function_end(f);
  return p;
}

static void run_dtypes(tn_model *m, const float *x, int64_t rows, Seen *seen) {
  static unsigned char out[N_DTYPES][ROWS * COLS * 8];
  float total;
  tn_array to[N_DTYPES + 1];
  for (int k = 0; k < N_DTYPES; k++) to[k] = tn_array_of(out[k], dtypes[k], (int64_t[]){rows, COLS}, 2);
  to[N_DTYPES] = tn_f32_scalar(&total);
  seen->n = 0;
  if (!CHECK(tn_run(m, "run", TN_IN(tn_f32(x, rows, COLS)), to, N_DTYPES + 1) == TN_OK)) puts(tn_error_text(m));
  if (!seen->n) return;
  CHECK(seen->n == N_DTYPES + 3);
  for (int k = 0; k < N_DTYPES; k++) {
    const tn_probe_view *v = &seen->view[k];
    CHECK(v->dtype == dtypes[k] && has_shape(v, 2, rows, COLS) && !memcmp(seen->bytes[k], out[k], bytes_of(v)));
  }
  const float *turned = (const float *)(const void *)seen->bytes[find(seen, "turned")];
  CHECK(has_shape(&seen->view[find(seen, "turned")], 2, COLS, rows) &&
        has_shape(&seen->view[find(seen, "sum")], 0, 0, 0));
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < COLS; c++) CHECK(turned[c * rows + r] == x[r * COLS + c]);
  CHECK(!memcmp(seen->bytes[find(seen, "x")], x, (size_t)rows * COLS * 4));
  CHECK(!memcmp(seen->bytes[find(seen, "sum")], &total, sizeof total));
}

static void test_dtypes(uint32_t n_workers) {
  float x[ROWS * COLS];
  for (int k = 0; k < ROWS * COLS; k++) x[k] = (float)(k % 11) * 0.7f;
  tn_program *p = of_dtypes();
  tn_model *m = compile(p, n_workers);
  Seen *seen = calloc(1, sizeof *seen);
  if (!CHECK(seen != NULL)) exit(1);
  CHECK(tn_model_probe_views(m, look, seen) == TN_OK);
  run_dtypes(m, x, 3, seen);
  CHECK(seen->n == 0 && tn_model_probe(m, "**", true) == TN_OK);
  const int64_t rows[] = {1, ROWS, 7, 0, 7};
  for (uint64_t k = 0; k < 5; k++) {
    run_dtypes(m, x, rows[k], seen);
    CHECK(seen->n && seen->view[0].run == k + 1 && !strcmp(seen->view[0].function, "run") && seen->view[0].line > 0);
  }
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, ROWS + 1, COLS)), TN_NO_OUT) == TN_ERR_ARGUMENT);
  CHECK(tn_model_probe_views(m, NULL, NULL) == TN_OK);
  run_dtypes(m, x, 2, seen);
  CHECK(seen->n == 0 && tn_model_probe_views(m, look, seen) == TN_OK && tn_model_probe(m, "**", false) == TN_OK);
  run_dtypes(m, x, 2, seen);
  CHECK(seen->n == 0);
  free(seen);
  tn_model_free(m), tn_program_free(p);
}

// ---- packed: rows come out of lengths, in the run
enum { BATCH = 4, STEPS = 6, WIDE = 3 };

static void test_packed(void) {
  tn_program *p = tn_program_create("packed");
  tn_dim batch = tn_dim_bounded(p, "batch", BATCH), time = tn_dim_bounded(p, "time", STEPS);
  tn_module *rnn = tn_lstm(tn_root(p), "rnn", WIDE, 2);
  tn_probe_modules(tn_root(p), "**", .view = true);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(batch, time, WIDE)), n = tn_input(f, "n", TN_I64, TN_SHAPE(batch));
  tn_packed s = tn_pack_padded(x, n);
  tn_probe(s.data, "rows", .view = true);
  tn_probe(tn_mul_scalar(tn_transpose(s.data, 0, 1), 2), "columns", .view = true);
  tn_rnn_output out = tn_rnn_call(rnn, s);
  tn_output(f, "last", tn_last_hidden(out));
  tn_function_end(f);
  tn_model *m = compile(p, 2);
  static Seen seen;
  seen.n = 0;
  float xs[BATCH * STEPS * WIDE], last[BATCH * 2];
  for (int k = 0; k < BATCH * STEPS * WIDE; k++) xs[k] = (float)k;
  CHECK(tn_model_probe_views(m, look, &seen) == TN_OK && tn_model_probe(m, NULL, true) == TN_OK);
  const int64_t lengths[] = {2, 5, 1};
  CHECK(tn_run(m, "run", TN_IN(tn_f32(xs, 3, 5, WIDE), tn_i64(lengths, 3)), TN_OUT(tn_f32(last, 3, 2))) == TN_OK);
  const int order[8][2] = {{1, 0}, {0, 0}, {2, 0}, {1, 1}, {0, 1}, {1, 2}, {1, 3}, {1, 4}};  // sequence, step
  const float *rows = (const float *)(const void *)seen.bytes[find(&seen, "rows")];
  const float *columns = (const float *)(const void *)seen.bytes[find(&seen, "columns")];
  CHECK(has_shape(&seen.view[find(&seen, "rows")], 2, 8, WIDE) &&
        has_shape(&seen.view[find(&seen, "columns")], 2, WIDE, 8));
  for (int r = 0; r < 8; r++)
    for (int c = 0; c < WIDE; c++) {
      float want = xs[(order[r][0] * 5 + order[r][1]) * WIDE + c];
      CHECK(rows[r * WIDE + c] == want && columns[c * 8 + r] == 2 * want);
    }
  CHECK(has_shape(&seen.view[find(&seen, "rnn.output")], 2, 8, 2));
  CHECK(seen.view[find(&seen, "rnn.hidden")].rank == 3 && seen.view[find(&seen, "rnn.cell")].dims[1] == 3);
  CHECK(!memcmp(seen.bytes[find(&seen, "rnn.hidden")], last, 6 * sizeof(float)));
  tn_model_free(m), tn_program_free(p);
}

// ---- a training step: what is written later, gradients, the same step on and off
typedef struct {
  tn_program *p;
  tn_model *m;
} Step;

static Step training(bool with_probes, uint32_t n_workers) {
  tn_program *p = tn_program_create("t");
  tn_module *net = tn_sequential(tn_root(p), "net");
  tn_linear(net, "a", 4, 8);
  tn_activation(net, "act", "relu");
  tn_dropout_module(net, "drop", 0.5);
  tn_linear(net, "b", 8, 1);
  if (with_probes) tn_probe_modules(tn_root(p), "**", .gradients = true, .view = true);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(6, 4)), y = tn_call(net, x), loss = tn_mean(tn_square(y));
  tn_tensor z = tn_mul_scalar(x, 2);
  if (with_probes) tn_probe(z, "before", .view = true), tn_probe(z, "statistics");
  tn_add_(z, x);
  if (with_probes) tn_probe(z, "after", .view = true);
  tn_backward(loss);
  if (with_probes) tn_probe(tn_param_value(f, net, "a.weight"), "old_weight", .view = true);
  tn_adamw(f, net, .lr = 0.1);
  tn_output(f, "loss", loss);
  tn_output(f, "y", y);
  tn_output(f, "z", z);
  tn_function_end(f);
  return (Step){p, compile(p, n_workers)};
}

static void run_step(Step s, const float *x, float out[1 + 6 + 24], float *w) {
  CHECK(tn_run(s.m, "step", TN_IN(tn_f32(x, 6, 4)),
               TN_OUT(tn_f32_scalar(out), tn_f32(out + 1, 6, 1), tn_f32(out + 7, 6, 4))) == TN_OK);
  CHECK(tn_get(s.m, "net.a.weight", w, 32) == TN_OK);
}

static const float *floats(const Seen *s, const char *name) {
  return (const float *)(const void *)s->bytes[find(s, name)];
}

static void count_lines(const tn_probe_value *v, void *ctx) {
  CHECK(!strcmp(v->name, "statistics") && v->count == 24);
  ++*(int *)ctx;
}

static void test_training(uint32_t n_workers) {
  float x[24], old[32], out[2][31], w[2][32];
  for (int k = 0; k < 24; k++) x[k] = (float)(k % 5) - 1.5f;
  Step plain = training(false, n_workers), probed = training(true, n_workers);
  static Seen seen;
  int n_lines = 0;
  CHECK(tn_model_probe_views(probed.m, look, &seen) == TN_OK);
  CHECK(tn_model_probe_sink(probed.m, count_lines, &n_lines) == TN_OK);
  for (int run = 0; run < 6; run++) {
    bool on = run % 3 != 1;
    CHECK(tn_model_probe(probed.m, NULL, on) == TN_OK && tn_get(probed.m, "net.a.weight", old, 32) == TN_OK);
    seen.n = 0;
    run_step(plain, x, out[0], w[0]), run_step(probed, x, out[1], w[1]);
    CHECK(!memcmp(out[0], out[1], sizeof out[0]) && !memcmp(w[0], w[1], sizeof w[0]) && (seen.n > 0) == on);
    if (!on) continue;
    CHECK(!memcmp(floats(&seen, "old_weight"), old, sizeof old));
    CHECK(!memcmp(floats(&seen, "net.b"), out[0] + 1, 6 * sizeof(float)));
    const float *before = floats(&seen, "before"), *after = floats(&seen, "after"), *grad = floats(&seen, "net.b.grad");
    for (int k = 0; k < 24; k++) CHECK(before[k] == 2 * x[k] && after[k] == out[0][7 + k] && after[k] == 3 * x[k]);
    for (int k = 0; k < 6; k++) CHECK(fabsf(grad[k] - out[0][1 + k] / 3) <= 1e-6f * fabsf(grad[k]) + 1e-9f);
    CHECK(has_shape(&seen.view[find(&seen, "net.drop.grad")], 2, 6, 8));
  }
  CHECK(n_lines == 4);
  tn_model_free(plain.m), tn_program_free(plain.p);
  tn_model_free(probed.m), tn_program_free(probed.p);
}

// ---- what a viewer may not do
typedef struct {
  tn_model *m;
  int n_refused;
} Meddler;

static void expect_refusal(Meddler *d, tn_status s, const char *sentence) {
  CHECK(s == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(d->m), sentence);
  d->n_refused++;
}

static void meddle(const tn_probe_view *v, void *ctx) {
  Meddler *d = ctx;
  float y[3];
  const char *rest = "tn_run of 'run' is running in this very thread on this model; call it after that has returned";
  CHECK(v->rank == 1);
  expect_refusal(d, tn_run(d->m, "run", TN_IN(tn_f32(v->data, 3)), TN_OUT(tn_f32(y, 3))), rest);
  expect_refusal(d, tn_model_probe(d->m, NULL, false), rest);
  expect_refusal(d, tn_model_probe_views(d->m, NULL, NULL), rest);
  expect_refusal(d, tn_initialize(d->m, 1), rest);
}

static tn_model *doubling(tn_program *p) {
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3));
  tn_probe(x, "x", .view = true);
  tn_output(f, "y", tn_mul_scalar(x, 2));
  tn_function_end(f);
  return compile(p, 1);
}

static void test_forbidden_calls(void) {
  tn_program *p = tn_program_create("p");
  Meddler d = {.m = doubling(p)};
  float x[3] = {1, 2, 3}, y[3];
  CHECK(tn_model_probe_views(d.m, meddle, &d) == TN_OK && tn_model_probe(d.m, "x", true) == TN_OK);
  for (int k = 1; k < 3; k++) {
    CHECK(tn_run(d.m, "run", TN_IN(tn_f32(x, 3)), TN_OUT(tn_f32(y, 3))) == TN_OK && y[2] == 6);
    CHECK(d.n_refused == 4 * k && !tn_error_text(d.m)[0]);
  }
  // another instance is nobody's concern
  tn_model *other = tn_instance(d.m, 0);
  CHECK(tn_run(other, "run", TN_IN(tn_f32(x, 3)), TN_OUT(tn_f32(y, 3))) == TN_OK && d.n_refused == 8);
  CHECK(tn_run(d.m, "run", TN_IN(tn_f32(x, 2)), TN_OUT(tn_f32(y, 3))) == TN_ERR_ARGUMENT && d.n_refused == 8);
  CHECK_HAS(tn_error_text(d.m), "run: input 'x' has size 2 on axis 0, expected 3");
  tn_model_free(other), tn_model_free(d.m), tn_program_free(p);
}

static void test_mistakes(void) {
  tn_program *p = tn_program_create("p");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = (tn_input)(f, "x", TN_F32, TN_SHAPE(3, 2), at(1));
  (tn_probe)(x, "h", (tn_probe_options){.view = true, .bins = 3, .hi = 1, .at = at(2)});
  tn_scan *s = tn_scan_begin(f, .steps = tn_dim_const(3));
  (tn_probe)(tn_scan_input(s, x), "step", (tn_probe_options){.view = true, .at = at(3)});
  const char *text = report_of(p);
  CHECK_HAS(text, "user.c:2: error[E003]: probe 'h' has 3 bins and hands out the value");
  CHECK_HAS(text, "user.c:3: error");
  tn_program_free(p);
}

int main(void) {
  test_dtypes(1), test_dtypes(3);
  test_packed();
  test_training(1), test_training(3);
  setenv("TN_CHECK", "arena", 1);
  test_dtypes(2), test_training(2), test_packed();
  unsetenv("TN_CHECK");
  test_forbidden_calls();
  test_mistakes();
  return check_report();
}
