// Probes: statistics against numbers counted here, gradients, modules by pattern, switches between runs, lines of files; and
// that a function with probes that are off is the function without them.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/near.h"
#include "tests/report.h"
#include <math.h>
#include <stdlib.h>

enum { ROWS = 5, COLS = 7, N = ROWS * COLS, BINS = 4 };

typedef struct {
  int n;
  tn_probe_value last[8];
  float bins[8][BINS];
} Seen;

static void see(const tn_probe_value *v, void *ctx) {
  Seen *s = ctx;
  if (!CHECK(s->n < 8)) return;
  s->last[s->n] = *v;
  if (v->n_bins == BINS) memcpy(s->bins[s->n], v->bins, sizeof s->bins[0]);
  s->n++;
}

static void check_value(const tn_probe_value *v, const float *x, int n) {
  double finite = 0, sum = 0, squares = 0, spread = 0, min = NAN, max = NAN, zero = 0, nan = 0, inf = 0;
  for (int k = 0; k < n; k++) {
    nan += isnan(x[k]), inf += isinf(x[k]) != 0, zero += x[k] == 0;
    if (!isfinite(x[k])) continue;
    finite++, sum += x[k], squares += (double)x[k] * x[k];
    min = fmin(min, x[k]), max = fmax(max, x[k]);
  }
  for (int k = 0; k < n; k++)
    if (isfinite(x[k])) spread += (x[k] - sum / finite) * (x[k] - sum / finite);
  CHECK(v->count == n && v->n_nan == nan && v->n_inf == inf && v->n_zero == zero);
  CHECK(is_near(v->mean, sum / finite, 1e-5) && is_near(v->std, finite ? sqrt(spread / finite) : NAN, 1e-5));
  CHECK(is_near(v->min, min, 1e-5) && is_near(v->max, max, 1e-5) &&
        is_near(v->norm, finite ? sqrt(squares) : NAN, 1e-5));
}

static void check_bins(const float *bins, const float *x, int n) {
  float want[BINS] = {0};
  for (int k = 0; k < n; k++)
    for (int b = 0; b < BINS; b++) want[b] += x[k] >= (float)b - 2 && (b < BINS - 1 ? x[k] < (float)b - 1 : x[k] <= 2);
  for (int b = 0; b < BINS; b++) CHECK(bins[b] == want[b]);
}

static void test_statistics(void) {
  tn_program *p = tn_program_create("p");
  tn_dim rows = tn_dim_bounded(p, "rows", 16);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(rows, COLS));
  tn_probe(x, "in", .bins = BINS, .lo = -2, .hi = 2);
  tn_scope *s = tn_scope_begin(f, "s");
  tn_tensor y = tn_relu(x);
  tn_probe(y, "layer.relu");
  tn_tensor z = tn_move_to_outer(tn_mul_scalar(y, 2));
  tn_scope_end(s);
  tn_output(f, "z", z);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1);
  if (!CHECK(m)) exit(1);
  float in[N], out[N], relu[N], nothing[COLS];
  for (int k = 0; k < N; k++) in[k] = (float)((k * 37) % 23) / 5 - 2.1f, relu[k] = in[k] > 0 ? in[k] : 0;
  in[3] = NAN, in[9] = INFINITY, in[11] = -INFINITY, in[13] = -2, in[15] = 2;  // the ends of the histogram
  relu[9] = INFINITY, relu[11] = 0;
  Seen seen = {0};
  CHECK(tn_run(m, "run", TN_IN(tn_f32(in, ROWS, COLS)), TN_OUT(tn_f32(out, ROWS, COLS))) == TN_OK);
  for (int k = 0; k < N; k++) relu[k] = out[k] / 2;
  CHECK(tn_model_probe_sink(m, see, &seen) == TN_OK && tn_model_probe(m, "**", true) == TN_OK && seen.n == 0);
  CHECK(tn_run(m, "run", TN_IN(tn_f32(in, ROWS, COLS)), TN_OUT(tn_f32(out, ROWS, COLS))) == TN_OK);
  if (CHECK(seen.n == 2)) {
    CHECK(!strcmp(seen.last[0].name, "in") && !strcmp(seen.last[1].name, "layer.relu") && seen.last[1].run == 1);
    check_value(&seen.last[0], in, N);
    check_bins(seen.bins[0], in, N);
    check_value(&seen.last[1], relu, N);
  }
  for (int k = 0; k < N; k++) CHECK(out[k] == 2 * relu[k] || (isnan(out[k]) && isnan(relu[k])));
  seen.n = 0;
  CHECK(tn_model_probe(m, "in", false) == TN_OK);  // one of two; by name, in any order
  for (int k = 0; k < COLS; k++) nothing[k] = NAN;
  CHECK(tn_run(m, "run", TN_IN(TN_NAMED("x", tn_f32(nothing, 1, COLS))), TN_OUT(TN_NAMED("z", tn_f32(out, 1, COLS)))) ==
        TN_OK);
  if (CHECK(seen.n == 1)) CHECK(seen.last[0].run == 2 && seen.last[0].count == COLS);
  CHECK(tn_model_probe(m, "layer", false) == TN_OK);
  seen.n = 0;
  CHECK(tn_run(m, "run", TN_IN(tn_f32(in, ROWS, COLS)), TN_OUT(tn_f32(out, ROWS, COLS))) == TN_OK && seen.n == 0);
  CHECK(tn_model_probe(m, "nobody", true) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "no probe has a name that matches 'nobody'");
  tn_model_free(m);
  tn_program_free(p);
}

// Squares of these are infinite or 0 in f32, and so is the sum of the largest.
static void test_magnitudes(void) {
  static const float size[] = {1e30f, 3e38f, 1e-30f, 1e-44f, 1};
  enum { N_LARGE = 300 };
  tn_program *p = tn_program_create("p");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(N_LARGE));
  tn_probe(x, "in");
  tn_output(f, "y", tn_neg(x));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1);
  if (!CHECK(m)) exit(1);
  Seen seen = {0};
  CHECK(tn_model_probe_sink(m, see, &seen) == TN_OK && tn_model_probe(m, "in", true) == TN_OK);
  for (uint32_t k = 0; k < sizeof size / sizeof *size; k++, seen.n = 0) {
    float in[N_LARGE], out[N_LARGE];
    double sum = 0, squares = 0, spread = 0;
    for (int i = 0; i < N_LARGE; i++) in[i] = i % 3 ? size[k] : -size[k] / 2;
    for (int i = 0; i < N_LARGE; i++) sum += (double)in[i], squares += (double)in[i] * (double)in[i];
    for (int i = 0; i < N_LARGE; i++) spread += pow((double)in[i] - sum / N_LARGE, 2);
    CHECK(tn_run(m, "run", TN_IN(tn_f32(in, N_LARGE)), TN_OUT(tn_f32(out, N_LARGE))) == TN_OK);
    const tn_probe_value *v = &seen.last[0];
    double unit = (double)in[1];
    CHECK(seen.n == 1 && is_near(v->mean / unit, sum / N_LARGE / unit, 1e-5) &&
          is_near(v->norm / unit, sqrt(squares) / unit, 1e-5) &&
          is_near(v->std / unit, sqrt(spread / N_LARGE) / unit, 1e-5));
  }
  tn_model_free(m);
  tn_program_free(p);
}

// ---- layers and gradients of a training step, as lines
static tn_program *training(bool with_probes) {
  tn_program *p = tn_program_create("t");
  tn_module *net = tn_sequential(tn_root(p), "net");
  (tn_linear)(net, "a", 4, 8, (tn_linear_options){.at = at(1)});
  (tn_activation)(net, "act", "relu", (tn_activation_options){.at = at(2)});
  (tn_linear)(net, "b", 8, 1, (tn_linear_options){.at = at(3)});
  if (with_probes) tn_probe_modules(tn_root(p), "**", .gradients = true);
  tn_function *f = (tn_function_begin)(p, "step", at(4));
  tn_tensor x = (tn_input)(f, "x", TN_F32, TN_SHAPE(6, 4), at(5));
  tn_tensor loss = (tn_mean)((tn_square)((tn_call)(net, x, at(6)), at(7)), at(8));
  (tn_backward)(loss, at(9));
  (tn_sgd)(f, net, (tn_sgd_options){.lr = 0.1, .at = at(10)});
  (tn_output)(f, "loss", loss, at(11));
  (tn_function_end)(f, at(12));
  return p;
}

static void test_lines(tn_probe_format format, const char *first, uint32_t n_lines) {
  tn_program *p = training(true);
  tn_model *m = tn_compile(p, .n_workers = 1, .seed = 3);
  if (!CHECK(m)) exit(1);
  char *text;
  size_t size;
  float x[24], loss;
  for (int k = 0; k < 24; k++) x[k] = (float)(k % 5) - 2;
  FILE *out = open_memstream(&text, &size);
  CHECK(tn_model_probe_file(m, out, format) == TN_OK && tn_model_probe(m, NULL, true) == TN_OK);
  for (int k = 0; k < 2; k++) CHECK(tn_run(m, "step", TN_IN(tn_f32(x, 6, 4)), TN_OUT(tn_f32_scalar(&loss))) == TN_OK);
  CHECK(tn_model_probe_file(m, NULL, format) == TN_OK);
  fclose(out);
  uint32_t n = 0;
  for (const char *c = text; *c; c++) n += *c == '\n';
  CHECK(n == n_lines && !strncmp(text, first, strlen(first)));
  CHECK_HAS(text, "net.act");
  CHECK_HAS(text, "net.b.grad");
  free(text);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- off: the function is the one without probes
static char *plan_text(bool with_probes, float *w, double *flops, uint32_t *n_kernels) {
  tn_program *p = training(with_probes);
  tn_model *m = tn_compile(p, .n_workers = 1, .seed = 3);
  if (!CHECK(m)) exit(1);
  char *text;
  size_t size;
  float x[24], loss;
  tn_plan plan;
  for (int k = 0; k < 24; k++) x[k] = (float)(k % 5) - 2;
  CHECK(tn_run(m, "step", TN_IN(tn_f32(x, 6, 4)), TN_OUT(tn_f32_scalar(&loss))) == TN_OK);
  CHECK(tn_get(m, "net.a.weight", w, 32) == TN_OK && tn_plan_of(m, "step", &plan) == TN_OK);
  *flops = plan.flops, *n_kernels = plan.n_kernels;
  FILE *out = open_memstream(&text, &size);
  tn_dump_function(p, "step", out, TN_DUMP_LIFETIMES);
  fclose(out);
  tn_model_free(m);
  tn_program_free(p);
  return text;
}

static void test_off(void) {
  float w[2][32];
  double flops[2];
  uint32_t n_kernels[2];
  char *text[2];
  for (int with = 0; with < 2; with++) text[with] = plan_text(with, w[with], &flops[with], &n_kernels[with]);
  CHECK(!strcmp(text[0], text[1]) && !memcmp(w[0], w[1], sizeof w[0]));
  CHECK(flops[0] == flops[1] && n_kernels[0] == n_kernels[1]);
  free(text[0]), free(text[1]);
}

// ---- hooks that were removed leave nothing: the same plan, and the object of the program that never had them
static tn_tensor doubled(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)m, (void)in, (void)ctx;
  return tn_mul_scalar(out, 2);
}

static tn_tensor halved(tn_tensor g, void *ctx) {
  (void)ctx;
  return tn_mul_scalar(g, 0.5);
}

static char *unhooked_plan(bool had_hooks, const char *folder, bool *from_cache) {
  tn_program *p = tn_program_create("h");
  tn_module *net = tn_sequential(tn_root(p), "net"), *a = tn_linear(net, "a", 4, 8);
  tn_linear(net, "b", 8, 1);
  if (had_hooks) tn_hook_remove(tn_hook_post(a, doubled, NULL));
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(6, 4)), y = tn_call(net, x);
  if (had_hooks) tn_hook_remove(tn_on_grad(y, halved, NULL));
  tn_tensor loss = tn_mean(tn_square(y));
  tn_backward(loss);
  tn_sgd(f, net, .lr = 0.1);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1, .seed = 3, .cache_dir = folder);
  if (!CHECK(m)) exit(1);
  *from_cache = tn_compile_info_of(m).from_cache;
  char *text;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  tn_dump_function(p, "step", out, TN_DUMP_LIFETIMES);
  fclose(out);
  tn_model_free(m);
  tn_program_free(p);
  return text;
}

static void test_hooks_removed(void) {
  char folder[] = "probes_XXXXXX", *text[2];
  bool from_cache[2];
  if (!CHECK(mkdtemp(folder))) return;
  for (int had = 0; had < 2; had++) text[had] = unhooked_plan(had, folder, &from_cache[had]);
  CHECK(!strcmp(text[0], text[1]) && !from_cache[0] && from_cache[1]);
  free(text[0]), free(text[1]);
}

// ---- beside an update: counters that are merged, or that nobody reads, move what stands behind them
static tn_program *updated(bool with_adamw, bool with_probes) {
  tn_program *p = tn_program_create("u");
  tn_module *net = tn_sequential(tn_root(p), "net");
  tn_linear(net, "a", 4, 8);
  tn_linear(net, "b", 8, 1);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(6, 4)), y = tn_call(net, x), loss = tn_mean(tn_square(y));
  if (with_probes) tn_probe(x, "before");
  tn_backward(loss);
  if (with_adamw) tn_adamw(f, net, .lr = 0.01, .weight_decay = 0.1);
  else tn_sgd(f, net, .lr = 0.1, .momentum = 0.9, .weight_decay = 0.1);
  if (with_probes) tn_probe(y, "after", .bins = BINS, .lo = -2, .hi = 2);
  tn_output(f, "loss", loss);
  if (with_probes) tn_probe(tn_mul_scalar(x, 2), "last");
  tn_function_end(f);
  return p;
}

// The program, whose names the probes say.
static tn_program *run_updated(bool with_adamw, bool with_probes, float *x, float w[32], Seen *seen) {
  tn_program *p = updated(with_adamw, with_probes);
  tn_model *m = tn_compile(p, .n_workers = 1, .seed = 3);
  if (!CHECK(m)) exit(1);
  float loss;
  tn_model_probe_sink(m, see, seen);
  if (with_probes) CHECK(tn_model_probe(m, "**", true) == TN_OK);
  for (int k = 0; k < 2; k++, seen->n %= 6)
    CHECK(tn_run(m, "step", TN_IN(tn_f32(x, 6, 4)), TN_OUT(tn_f32_scalar(&loss))) == TN_OK);
  CHECK(tn_get(m, "net.a.weight", w, 32) == TN_OK);
  tn_model_free(m);
  return p;
}

static void test_beside_update(bool with_adamw) {
  float x[24], twice[24], w[2][32];
  Seen seen = {0};
  for (int k = 0; k < 24; k++) x[k] = (float)(k % 5) - 2, twice[k] = 2 * x[k];
  tn_program *p[2];
  for (int with = 0; with < 2; with++) p[with] = run_updated(with_adamw, with, x, w[with], &seen);
  CHECK(!memcmp(w[0], w[1], sizeof w[0]));
  if (!CHECK(seen.n == 0 && !strcmp(seen.last[5].name, "last"))) exit(1);
  check_value(&seen.last[3], x, 24);
  CHECK(!strcmp(seen.last[4].name, "after") && seen.last[4].count == 6 && seen.last[4].n_bins == BINS);
  check_value(&seen.last[5], twice, 24);
  tn_program_free(p[0]), tn_program_free(p[1]);
}

static void test_mistakes(void) {
  tn_program *p = tn_program_create("p");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = (tn_input)(f, "x", TN_F32, TN_SHAPE(3), at(1)), n = (tn_input)(f, "n", TN_I64, TN_SHAPE(3), at(2));
  (tn_probe)(x, "a", (tn_probe_options){.at = at(3)});
  (tn_probe)(x, "a", (tn_probe_options){.at = at(4)});
  (tn_probe)(x, "a b", (tn_probe_options){.at = at(5)});
  (tn_probe)(n, "n", (tn_probe_options){.at = at(6)});
  (tn_probe)(x, "h", (tn_probe_options){.bins = 3, .at = at(7)});
  const char *text = report_of(p);
  CHECK_HAS(text, "user.c:4: error[E110]: probe 'a' exists already");
  CHECK_HAS(text, "user.c:5: error[E003]: a probe is named 'a b'");
  CHECK_HAS(text, "user.c:6: error[E005]: statistics of a probe are of f32 values");
  CHECK_HAS(text, "user.c:7: error[E003]: probe 'h' has 3 bins in [0, 0]");
  tn_program_free(p);

  p = tn_program_create("none");
  f = tn_function_begin(p, "run");
  tn_output(f, "y", tn_input(f, "x", TN_F32, TN_SHAPE(3)));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1);
  CHECK(m && tn_model_probe(m, "**", true) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "the program has no probes");
  tn_model_free(m);
  tn_program_free(p);
}

// What a watched run cannot do is said as of one that nobody watches.
static void test_reports(void) {
  tn_program *p = tn_program_create("p");
  tn_module *cache = tn_kv_cache(tn_root(p), "cache", 1, 1, 2, 4);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(1, 1, 1, 4));
  tn_tensor y = (tn_kv_cache_attend)(cache, x, x, x, (tn_attention_options){.at = at(7)});
  tn_probe(y, "y");
  tn_output(f, "y", y);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .cache_dir = "");
  float in[4] = {1, 2, 3, 4}, out[4];
  char text[2][400];
  if (!CHECK(m)) return tn_program_free(p);
  for (int run = 0; run < 4; run++) {
    bool is_full = run >= 2, is_on = run == 3;
    CHECK(tn_model_probe(m, "y", is_on) == TN_OK);
    CHECK(tn_run(m, "run", TN_IN(tn_f32(in, 1, 1, 1, 4)), TN_OUT(tn_f32(out, 1, 1, 1, 4))) ==
          (is_full ? TN_ERR_VALUE : TN_OK));
    if (is_full) snprintf(text[is_on], sizeof text[0], "%s", tn_error_text(m));
  }
  CHECK_HAS(text[0], "run: the cache of tn_kv_cache_attend at user.c:7 is full: it holds 2 of at most 2 steps");
  CHECK(!strcmp(text[0], text[1]));
  tn_model_free(m);
  tn_program_free(p);
}

int main(void) {
  test_statistics();
  test_reports();
  test_magnitudes();
  test_lines(TN_PROBE_CSV, "run,function,probe,count,mean,std,min,max,norm,zero,nan,inf,histogram\n1,step,net.a,48,",
             17);
  test_lines(TN_PROBE_JSON, "{\"run\": 1, \"function\": \"step\", \"probe\": \"net.a\", \"count\": 48, ", 16);
  test_off();
  test_hooks_removed();
  test_beside_update(false), test_beside_update(true);
  test_mistakes();
  return check_report();
}
