// Building through the public API: every mistake is one report at the caller's line, and the library goes on.
#include "frontend/tenure.h"
#include "runtime/base.h"
#include "tests/check.h"
#include "tests/report.h"
#include <stdlib.h>

// The program has n errors; the report names `id` and `part`. Frees the program.
static void check_errors(tn_program *p, uint32_t n, const char *id, const char *part, int line) {
  const char *text = report_of(p);
  bool good = tn_n_errors(p) == n && strstr(text, id) && strstr(text, part);
  if (!check_that(good, __FILE__, line, id)) printf("  expected %u with '%s' in:\n%s", n, part, text);
  CHECK(tn_report(p, NULL) == TN_ERR_BUILD);
  CHECK(!tn_compile(p));
  tn_program_free(p);
}
#define ERRORS(p, n, id, part) check_errors(p, n, id, part, __LINE__)

static tn_program *start(tn_function **f) {
  tn_program *p = tn_program_create("test");
  *f = tn_function_begin(p, "run");
  return p;
}

static tn_tensor vector(tn_function *f, const char *name, int64_t n) { return tn_input(f, name, TN_F32, TN_SHAPE(n)); }

// ---- handles
static void one_mistake_one_report(void) {
  tn_function *f;
  tn_program *p = start(&f);
  tn_tensor bad = tn_add(vector(f, "a", 3), vector(f, "b", 4));
  CHECK(bad.v == 0 && bad.fn == f);
  bad = tn_softmax(tn_mean_axis(tn_reshape(tn_relu(bad), TN_SHAPE(9)), 5, true), 7);
  tn_packed s = tn_pack_padded(bad, bad);
  bad = tn_last_hidden(tn_rnn_call(NULL, s));
  bad = tn_move_to_outer(tn_cross_entropy(tn_call(NULL, bad), bad));
  tn_backward(bad);
  tn_output(f, "y", bad);
  tn_function_end(f);
  ERRORS(p, 1, "E004", "[3]");
}

static void foreign_handles(void) {
  tn_function *f, *g;
  tn_program *p = start(&f), *q = start(&g);
  tn_function *h = tn_function_begin(p, "other");
  tn_tensor a = vector(f, "a", 3);
  tn_add(a, vector(h, "a", 3));
  tn_output(h, "y", a);
  tn_call(tn_linear(tn_root(q), "fc", 3, 3), a);
  tn_move_to(a, tn_scope_begin(h, "s"));
  tn_input(f, "z", TN_F32, TN_SHAPE(tn_dim_bounded(q, "n", 3)));
  tn_add(a, (tn_tensor){0});
  tn_add(a, ((tn_tensor){f, 99999}));
  CHECK(tn_n_errors(q) == 0);
  tn_program_free(q);
  ERRORS(p, 7, "E008", "function 'other'");
}

static void bad_slices(void) {
  tn_function *f;
  tn_program *p = start(&f);
  tn_tensor a = vector(f, "a", 4);
  tn_slice(a, 0, -1, 2);
  tn_slice(a, -1, 3, 2);
  tn_input(f, "none", TN_F32, tn_shape_of(NULL, 3));
  CHECK_HAS(report_of(p), "an empty tn_dim stands for no size");
  CHECK_HAS(report_of(p), "2 elements from index -1 on do not lie in axis 0; the operand is f32[4]");
  ERRORS(p, 3, "E004", "2 elements from index 3 on do not lie in axis 0");
}

// ---- names, dims
static void names(void) {
  tn_function *f;
  tn_program *p = start(&f);
  tn_module *root = tn_root(p);
  tn_linear(root, "fc", 2, 2);
  CHECK(tn_linear(root, "fc", 2, 2) != NULL);
  CHECK_HAS(report_of(p), "the first 'fc' was made here");
  tn_module_new(root, "");
  tn_module_new(root, "a.b");
  tn_module_new(root, "optimizer");
  tn_parameter(tn_child(root, "fc"), "weight", TN_SHAPE(2), ((tn_init){TN_INIT_ZEROS, 0, 0}));
  vector(f, "x", 1);
  vector(f, "x", 1);
  vector(f, "9x", 1);
  vector(f, NULL, 1);
  tn_function_begin(p, "run");
  tn_function_begin(p, "init");
  CHECK(tn_child(root, "fc") && !tn_child(root, "none"));
  ERRORS(p, 10, "E110", "function 'run' exists already");
  p = tn_program_create("no name");
  ERRORS(p, 1, "E003", "program's name");
}

static void dims(void) {
  tn_function *f;
  tn_program *p = start(&f);
  tn_dim n = tn_dim_bounded(p, "n", 5);
  CHECK(tn_dim_bounded(p, "n", 5).d == n.d);
  CHECK(tn_n_errors(p) == 0);
  tn_input(f, "a", TN_F32, TN_SHAPE(tn_dim_bounded(p, "n", 6)));
  tn_input(f, "b", TN_F32, TN_SHAPE(tn_dim_bounded(p, "m", 0)));
  tn_input(f, "c", TN_F32, TN_SHAPE(-1));
  tn_input(f, "d", TN_F32, TN_SHAPE((tn_dim){0}));
  tn_input(f, "e", TN_F32, tn_shape_of((tn_dim[]){n, n, n, n, n, n, n, n, n}, 9));
  tn_input(f, "f", TN_F32, TN_SHAPE(1 << 29, 1 << 29));
  tn_input(f, "g", (tn_dtype)99, TN_SHAPE(n));
  tn_tensor x = tn_input(f, "h", TN_F32, TN_SHAPE(n, 3));
  CHECK(tn_rank(x) == 2 && tn_dim_of(x, 0).d == n.d && tn_dim_of(x, -1).d == tn_dim_const(3).d &&
        tn_dim_of(x, 2).d == 0);
  ERRORS(p, 7, "E003", "has the bound 5 already, not 6");
}

// ---- order of calls
static void wrong_time(void) {
  tn_function *f;
  tn_program *p = start(&f);
  tn_tensor x = vector(f, "x", 3);
  tn_output(f, "y", tn_relu(x));
  tn_function_end(f);
  tn_relu(x);
  tn_exp(x);
  ERRORS(p, 1, "E009", "was ended");
  p = start(&f);
  CHECK(!tn_compile(p));
  ERRORS(p, 1, "E009", "was not ended");
  p = start(&f);
  x = vector(f, "x", 3);
  tn_output(f, "y", tn_relu(x));
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  CHECK(m != NULL && tn_report(p, NULL) == TN_OK);
  CHECK(tn_rank(x) == 0);
  tn_function_begin(p, "late");
  tn_linear(tn_root(p), "late", 1, 1);
  CHECK(tn_n_errors(p) == 1);
  tn_model_free(m);
  ERRORS(p, 1, "E009", "nothing can be added");
}

// ---- scopes
static void scopes_at_once(void) {
  tn_function *f;
  tn_program *p = start(&f);
  tn_scope *a = tn_scope_begin(f, "a"), *b = tn_scope_begin(f, "b");
  tn_tensor x = tn_relu(vector(f, "x", 3));
  tn_scope_end(a);
  tn_scope_end(a);
  tn_scope_end(b);  // the report about a has closed it
  tn_relu(x);
  tn_tensor y = tn_relu(vector(f, "y", 3));
  tn_move_to(y, a);
  tn_move_to(y, NULL);
  tn_scope_begin(f, "open");
  tn_function_end(f);
  ERRORS(p, 5, "E104", "scope 'a' is closed while scope 'b' inside it is open");
}

static tn_program *scoped(int what) {
  tn_function *f;
  tn_program *p = start(&f);
  tn_tensor x = vector(f, "x", 3);
  tn_scope *outer = tn_scope_begin(f, "outer"), *inner = tn_scope_begin(f, "inner");
  tn_tensor y = tn_relu(x);
  if (what == 1) tn_move_to_outer(tn_move_to_outer(y));
  if (what == 2) tn_move_to(y, outer);
  if (what == 3) tn_dispose(y);
  if (what == 4) tn_detach_from_scope(y);
  tn_scope_end(inner);
  if (what == 2) y = tn_move_to_outer(y);
  tn_scope_end(outer);
  tn_output(f, "y", tn_exp(y));
  tn_function_end(f);
  return p;
}

static void scope_lifetimes(void) {
  for (int what = 1; what <= 4; what++) {
    if (what == 3) continue;
    tn_program *p = scoped(what);
    tn_model *m = tn_compile(p);
    if (!CHECK(m != NULL)) printf("  case %d:\n%s", what, report_of(p));
    tn_model_free(m);
    tn_program_free(p);
  }
  tn_program *p = scoped(0);
  CHECK(!tn_compile(p));
  CHECK_HAS(report_of(p), "in scope 'inner'");
  CHECK_HAS(report_of(p), "closed here");
  ERRORS(p, 1, "E103", "tn_move_to_outer");
  p = scoped(3);
  CHECK(!tn_compile(p));
  ERRORS(p, 1, "E101", "was disposed here");
}

// ---- packed sequences and recurrent modules
static void packed(void) {
  tn_function *f;
  tn_program *p = start(&f);
  tn_pack_options sorted = {.enforce_sorted = true};
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3, 5, 2));
  (tn_pack_constant)(x, ((int64_t[]){3, 4, 1}), 3, sorted);
  tn_pack_constant(x, ((int64_t[]){3, 6, 1}), 3);
  tn_pack_constant(x, ((int64_t[]){3, 0, 1}), 3);
  tn_pack_constant(x, ((int64_t[]){3, 4}), 2);
  tn_pack_padded(x, tn_input(f, "len", TN_I64, TN_SHAPE(4)));
  tn_pack_padded(x, vector(f, "flen", 3));
  CHECK_HAS(report_of(p), "E114");
  CHECK_HAS(report_of(p), "E116");
  tn_tensor y = tn_input(f, "y", TN_F32, TN_SHAPE(3, tn_dim_bounded(p, "time", 5), 2));
  tn_pack_constant(y, ((int64_t[]){3, 4, 1}), 3);
  tn_tensor len = tn_input(f, "good", TN_I64, TN_SHAPE(3));
  tn_packed s = tn_pack_padded(x, len);
  tn_input(f, "w", TN_F32, TN_SHAPE(tn_dim_of(s.data, 0), 2));
  CHECK_HAS(report_of(p), "rows of a packed layout");
  ERRORS(p, 8, "E115", "length 6 at index 1 is not in [1, 5]");
}

static void recurrent(void) {
  tn_function *f;
  tn_program *p = start(&f);
  tn_module *gru = tn_gru(tn_root(p), "gru", 2, 4), *bad = tn_lstm(tn_root(p), "bad", 0, 4);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3, 5, 2));
  tn_packed s = tn_pack_constant(x, ((int64_t[]){3, 5, 1}), 3);
  tn_tensor c0 = tn_input(f, "c0", TN_F32, TN_SHAPE(1, 3, 4));
  CHECK(tn_last_hidden(tn_rnn_call(bad, s)).v == 0);
  tn_rnn_call(gru, s, .c0 = c0);
  tn_rnn_call(gru, s, .h0 = vector(f, "h0", 4));
  tn_call(gru, x);
  tn_rnn_call(tn_linear(tn_root(p), "fc", 2, 2), s);
  tn_rnn_output r = tn_rnn_call(gru, s);
  CHECK(r.hidden.v && r.out.data.v && !r.cell.fn);
  tn_relu(r.cell);
  tn_rnn_call(tn_lstm(tn_root(p), "wide", 7, 4), s);
  ERRORS(p, 6, "E003", "only an LSTM has one");
}

// ---- training
static void training(void) {
  tn_function *f;
  tn_program *p = start(&f);
  tn_module *fc = tn_linear(tn_root(p), "fc", 3, 1);
  tn_tensor x = vector(f, "x", 3), loss = tn_sum(tn_square(tn_call(fc, x)));
  tn_clip_grad_norm(f, fc, 1);
  tn_adamw(f, fc);
  tn_backward(x);
  tn_backward(tn_sum(x));
  CHECK(tn_n_errors(p) == 3);
  tn_backward(loss);
  CHECK(tn_n_errors(p) == 3);
  tn_param_grad(f, fc, "none");
  tn_grad(loss, tn_exp(x));
  tn_clip_grad_norm(f, fc, 0);
  tn_adamw(f, fc, .beta1 = 2);
  tn_adamw(f, fc, .lr = 1);
  CHECK(tn_n_errors(p) == 7);
  tn_adamw(f, fc);
  CHECK(tn_n_errors(p) == 8);
  CHECK_HAS(report_of(p), "E121");
  tn_function *g = tn_function_begin(p, "other");
  tn_backward(tn_sum(tn_call(fc, vector(g, "x", 3))));
  tn_adamw(g, fc);
  CHECK_HAS(report_of(p), "lr of group 0 of module 'fc' is 1 already, not 0.001");
  CHECK_HAS(report_of(p), "E122");
  CHECK_HAS(report_of(p), "E120");
  ERRORS(p, 9, "E121", "'fc.weight' is updated twice");
}

static void sharing(void) {
  tn_function *f;
  tn_program *p = start(&f);
  tn_module *e = tn_embedding(tn_root(p), "e", 5, 4), *h = tn_linear(tn_root(p), "h", 4, 5);
  tn_module *w = tn_linear(tn_root(p), "w", 3, 3);
  tn_share(h, "weight", e, "weight");
  tn_share(h, "weight", e, "weight");
  CHECK(tn_n_errors(p) == 0);
  tn_share(w, "weight", e, "weight");
  tn_share(h, "bias", e, "none");
  CHECK(tn_param_value(f, h, "weight").v == tn_param_value(f, e, "weight").v);
  tn_share(w, "bias", h, "bias");
  tn_share(w, "more", NULL, "bias");
  ERRORS(p, 4, "E111", "another shape");
}

static void null_arguments(void) {
  tn_program_free(NULL);
  tn_model_free(NULL);
  tn_series_free(NULL);
  CHECK(tn_report(NULL, stderr) != TN_OK);
  CHECK(!tn_root(NULL) && !tn_function_begin(NULL, "f") && !tn_compile(NULL) && !tn_instance(NULL, 0));
  CHECK(!tn_linear(NULL, "fc", 1, 1) && !tn_lstm(NULL, "l", 1, 1) && !tn_scope_begin(NULL, "s"));
  CHECK(tn_input(NULL, "x", TN_F32, TN_SCALAR).v == 0 && tn_relu((tn_tensor){0}).v == 0);
  CHECK(tn_run(NULL, "f", TN_NO_IN, TN_NO_OUT) == TN_ERR_ARGUMENT && tn_save(NULL, "x", false) == TN_ERR_ARGUMENT);
  CHECK(tn_dump(NULL, stdout, TN_DUMP_IR) == TN_ERR_ARGUMENT && tn_param_count(NULL) == 0);
  tn_function_end(NULL);
  tn_scope_end(NULL);
  tn_freeze(NULL, true);
  tn_progress_step(NULL, 1, "x");
  tn_progress_end(NULL);
  tn_adamw(NULL, NULL);
  tn_program *p = tn_program_create(NULL);
  tn_function *f = tn_function_begin(p, NULL);
  tn_output(f, NULL, tn_relu(tn_input(f, NULL, TN_F32, TN_SCALAR)));
  CHECK(tn_n_errors(p) == 2);
  tn_program_free(p);
  CHECK(!strcmp(tn_status_text(TN_OK), "no error") && strlen(tn_status_text(TN_ERR_CODEGEN)) > 0);
}

// ---- memory runs out at every allocation in turn: nothing is lost, and the report says so
static bool build_with_failing_malloc(uint64_t k) {
  rt_malloc_fail_at(k);
  tn_program *p = tn_program_create("oom");
  if (!p) return false;
  tn_function *f = tn_function_begin(p, "step");
  tn_module *rnn = tn_lstm(tn_root(p), "rnn", 3, 8, .bidirectional = true, .n_layers = 2);
  tn_dim B = tn_dim_bounded(p, "batch", 4), T = tn_dim_bounded(p, "time", 6);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, 3)), len = tn_input(f, "len", TN_I64, TN_SHAPE(B));
  tn_tensor loss = tn_mean(tn_last_hidden(tn_rnn_call(rnn, tn_pack_padded(x, len))));
  tn_backward(loss);
  tn_adamw(f, tn_root(p));
  tn_output(f, "loss", loss);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1);
  bool done = m != NULL;
  rt_malloc_fail_at(0);
  CHECK(done || tn_n_errors(p) > 0);
  CHECK((tn_report(p, NULL) == TN_OK) == done);
  tn_model_free(m);
  tn_program_free(p);
  return done;
}

static void out_of_memory(void) {
  uint64_t k = 1;
  CHECK(build_with_failing_malloc(0));  // nothing fails: from here on the code comes from the cache
  while (k < 500 && !build_with_failing_malloc(k)) k++;
  rt_malloc_fail_at(0);
  CHECK(k > 5 && k < 500);
}

static tn_model *doubler(const char *cache_dir) {
  tn_program *p = tn_program_create("twice");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3));
  tn_output(f, "y", tn_add(x, x));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1, .cache_dir = cache_dir);
  tn_program_free(p);
  return m;
}

// Code is generated anew each time: every allocation on the way fails once, nothing leaks (the sanitizer build looks),
// and a model that exists goes on working.
static void out_of_memory_in_codegen(void) {
  tn_model *standing = doubler("");
  CHECK(standing != NULL);
  uint64_t k = 1;
  for (bool done = false; !done && k < 500; k++) {
    rt_malloc_fail_at(k);
    tn_model *m = doubler("");
    rt_malloc_fail_at(0);
    done = m != NULL;
    tn_model_free(m);
    float x[3] = {1, 2, (float)k}, y[3] = {0};
    CHECK(tn_run(standing, "run", TN_IN(tn_f32(x, 3)), TN_OUT(tn_f32(y, 3))) == TN_OK);
    CHECK(y[0] == 2 && y[1] == 4 && y[2] == 2 * (float)k);
  }
  CHECK(k > 5 && k < 500);
  tn_model_free(standing);
}

int main(void) {
  one_mistake_one_report();
  foreign_handles();
  bad_slices();
  names();
  dims();
  wrong_time();
  scopes_at_once();
  scope_lifetimes();
  packed();
  recurrent();
  training();
  sharing();
  null_arguments();
  out_of_memory();
  out_of_memory_in_codegen();
  report_of(NULL);
  return check_report();
}
