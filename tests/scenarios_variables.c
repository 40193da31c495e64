// Writes by copy_, the store of variables, optimizers. Numbers are those of the systems that the rows come
// from.
#include "runtime/base.h"
#include "tests/models.h"
#include "tests/scenario.h"
#include <math.h>
#include <unistd.h>

static const tn_init zeros = {TN_INIT_ZEROS, 0, 0}, ones = {TN_INIT_CONSTANT, 1, 0};
static tn_shape vector_shape(tn_dim *d, int64_t n) {
  *d = tn_dim_const(n);
  return tn_shape_of(d, 1);
}
#define VECTOR(n) vector_shape(&(tn_dim){0}, n)

// Compiles a program that need not run anything.
static tn_model *store_of(tn_program *p) {
  tn_function *f = tn_function_begin(p, "nothing");
  tn_output(f, "zero", tn_scalar(f, 0));
  tn_function_end(f);
  return model_of(p);
}

static void finish(tn_program *p, tn_model *m) {
  tn_model_free(m);
  tn_program_free(p);
}

static bool is_near(double x, double want, double tolerance) {
  if (fabs(x - want) <= tolerance) return true;
  printf("  found %.9g, expected %.9g\n", x, want);
  return false;
}

static bool all_are(const tn_model *m, const char *path, size_t n, float want) {
  float v[16];
  bool good = tn_get(m, path, v, n) == TN_OK;
  for (size_t k = 0; good && k < n; k++) good = v[k] == want;
  return good;
}

static const char *file_name(void) {
  static char name[64];
  snprintf(name, sizeof name, "scenarios_variables.%ld.safetensors", (long)getpid());
  return name;
}

SCENARIO(G01) {
  tn_program *p = tn_program_create("g01");
  tn_parameter(tn_root(p), "x", TN_SCALAR, ((tn_init){TN_INIT_CONSTANT, 2, 0}));
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_param_value(f, tn_root(p), "x");
  tn_backward(tn_add(tn_add(tn_mul(x, x), x), tn_scalar(f, 36)));
  tn_output(f, "grad", tn_param_grad(f, tn_root(p), "x"));
  tn_function_end(f);
  tn_model *m = model_of(p);
  float grad = 0;
  CHECK(tn_run(m, "run", TN_NO_IN, TN_OUT(tn_f32_scalar(&grad))) == TN_OK && grad == 5);
  finish(p, m);
}

SCENARIO(G04) {
  tn_program *p = tn_program_create("g04");
  tn_parameter(tn_root(p), "t", VECTOR(1), ((tn_init){TN_INIT_CONSTANT, 0.1, 0}));
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor t = tn_param_value(f, tn_root(p), "t"), u = tn_zeros(f, VECTOR(1));
  tn_copy_(u, tn_add(t, tn_scalar(f, 1)));
  tn_backward(tn_sum(u));
  tn_output(f, "u", u);
  tn_output(f, "grad", tn_param_grad(f, tn_root(p), "t"));
  tn_function_end(f);
  tn_model *m = model_of(p);
  float y = 0, grad = 0;
  CHECK(tn_run(m, "run", TN_NO_IN, TN_OUT(tn_f32(&y, 1), tn_f32(&grad, 1))) == TN_OK);
  CHECK(is_near(y, 1.1, 1e-7) && grad == 1);
  finish(p, m);
}

static tn_program *copy_into_leaf(bool no_grad) {
  tn_program *p = tn_program_create("g06");
  tn_parameter(tn_root(p), "w", VECTOR(2), zeros);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor w = tn_param_value(f, tn_root(p), "w"), s = tn_input(f, "s", TN_F32, VECTOR(2));
  if (no_grad) tn_no_grad_begin(f);
  tn_copy_(w, s);
  if (no_grad) tn_no_grad_end(f);
  tn_output(f, "w", w);
  tn_function_end(f);
  return p;
}

SCENARIO(G06) {
  tn_program *p = copy_into_leaf(false);
  CHECK(!tn_compile(p));
  CHECK(tn_n_errors(p) == 1);
  CHECK_HAS(report_of(p), "error[E113]");
  tn_program_free(p);
  p = copy_into_leaf(true);
  tn_model *m = model_of(p);
  float s[2] = {3, 4}, w[2] = {0};
  CHECK(tn_run(m, "run", TN_IN(tn_f32(s, 2)), TN_OUT(tn_f32(w, 2))) == TN_OK && w[0] == 3 && w[1] == 4);
  CHECK(tn_get(m, "w", w, 2) == TN_OK && w[0] == 3 && w[1] == 4);
  finish(p, m);
}

SCENARIO(G07) {
  tn_program *p = tn_program_create("g07");
  tn_module *root = tn_root(p);
  int first = __LINE__ + 1;
  tn_param_at_path(root, "key", TN_SHAPE(3, 1, 4), zeros);
  tn_param_at_path(root, "key", TN_SHAPE(3, 1, 4),
                   ones);  // the same one: nothing new
  CHECK(tn_n_errors(p) == 0 && tn_variables(root, NULL, NULL, 0) == 1);
  int second = __LINE__ + 1;
  tn_param_at_path(root, "key", TN_SHAPE(1, 5, 9), zeros);
  char want[400];
  snprintf(want, sizeof want,
           "@:%d: error[E111]: entry 'key' is asked for with shape [1,5,9] and has shape [3,1,4]\n"
           "@:%d: note: 'key' was made here\n"
           "hint: another shape needs another path\n",
           second, first);
  CHECK_REPORT(p, want);
  tn_program_free(p);
}

static void add_store_entries(tn_program *p) {
  tn_param_at_path(tn_root(p), "a/b/t2", VECTOR(3), ones);
  tn_param_at_path(tn_root(p), "t1", VECTOR(4), zeros);
  tn_parameter(tn_module_at_path(tn_root(p), "a/b/ccc"), "t123", VECTOR(3), ones);
}

SCENARIO(G08) {
  tn_program *twice = tn_program_create("g08");
  add_store_entries(twice);
  tn_parameter(tn_module_at_path(tn_root(twice), "a/b/ccc"), "t123", VECTOR(3), ones);
  CHECK(tn_n_errors(twice) == 1);
  CHECK_HAS(report_of(twice), "error[E110]: parameter 't123' exists already");
  CHECK_HAS(report_of(twice), "note: the first 't123' was made here");
  tn_program_free(twice);

  tn_program *p = tn_program_create("one"), *q = tn_program_create("two");
  add_store_entries(p);
  add_store_entries(q);
  tn_function *f = tn_function_begin(p, "change");
  tn_no_grad_begin(f);
  tn_add_(tn_param_value(f, tn_root(p), "t1"), tn_scalar(f, 42));
  tn_mul_(tn_param_value(f, tn_module_at_path(tn_root(p), "a.b"), "t2"), tn_scalar(f, 2));
  tn_no_grad_end(f);
  tn_function_end(f);
  tn_variable v[8];
  CHECK(tn_variables(tn_root(p), NULL, v, 8) == 3);
  CHECK(!strcmp(v[0].path, "t1") && !strcmp(v[1].path, "a.b.t2") && !strcmp(v[2].path, "a.b.ccc.t123"));
  tn_model *m = model_of(p), *n = store_of(q);
  CHECK(tn_run(m, "change", TN_NO_IN, TN_NO_OUT) == TN_OK);
  CHECK(tn_save(m, file_name(), false) == TN_OK && tn_load(n, file_name(), false) == TN_OK);
  CHECK(all_are(n, "t1", 4, 42) && all_are(n, "a.b.t2", 3, 2) && all_are(n, "a.b.ccc.t123", 3, 1));
  remove(file_name());
  finish(p, m);
  finish(q, n);
}

SCENARIO(G10) {
  tn_program *p = tn_program_create("one"), *q = tn_program_create("two");
  tn_param_at_path(tn_root(p), "t1", VECTOR(4), ((tn_init){TN_INIT_CONSTANT, 42, 0}));
  tn_param_at_path(tn_root(q), "a/b/t2", VECTOR(3), ones);
  tn_param_at_path(tn_root(q), "t1", VECTOR(4), zeros);
  tn_model *m = store_of(p), *n = store_of(q);
  for (int half = 0; half < 2; half++) {
    tn_initialize(n, 0);
    CHECK(tn_save_as(m, file_name(), &(tn_save_options){.dtype = half ? TN_FILE_F16 : TN_FILE_F32}) == TN_OK);
    CHECK(tn_load(n, file_name(), false) == TN_ERR_FILE);
    CHECK_HAS(tn_error_text(n), ": 'a.b.t2' is missing");
    CHECK(all_are(n, "t1", 4, 0) && all_are(n, "a.b.t2", 3, 1));
    tn_load_report r;
    CHECK(tn_load_partial(n, file_name(), false, &r) == TN_OK && r.n_loaded == 1 && r.n_extra == 0);
    CHECK(r.n_missing == 1 && !strcmp(r.missing[0], "a.b.t2"));
    CHECK(all_are(n, "t1", 4, 42) && all_are(n, "a.b.t2", 3, 1));
  }
  remove(file_name());
  finish(p, m);
  finish(q, n);
}

SCENARIO(G11) {
  tn_program *p = tn_program_create("full"), *q = tn_program_create("empty");
  add_store_entries(p);
  tn_model *m = store_of(p), *n = store_of(q);
  CHECK(tn_save(m, file_name(), false) == TN_OK && !strcmp(tn_warning_text(m), ""));
  CHECK(tn_load(n, file_name(), false) == TN_OK && tn_param_count(n) == 0);
  CHECK_HAS(tn_warning_text(n), ": the file has 3 entries and the program has no parameters: nothing was loaded");
  remove(file_name());
  finish(p, m);
  finish(q, n);
}

SCENARIO(G12) {
  tn_program *p = tn_program_create("one"), *q = tn_program_create("two");
  add_store_entries(p);
  tn_param_at_path(tn_root(q), "t1", VECTOR(4), ones);
  tn_model *m = store_of(p), *n = store_of(q);
  CHECK(all_are(n, "t1", 4, 1));
  CHECK(tn_copy_params(n, m, false) == TN_OK && all_are(n, "t1", 4, 0));
  CHECK(tn_copy_params(m, n, false) == TN_ERR_ARGUMENT);  // all names must be there: nothing was written
  CHECK(!strcmp(tn_error_text(m), "copy: 'a.b.t2' is missing; 'a.b.ccc.t123' is missing"));
  finish(p, m);
  finish(q, n);
}

// ---- optimizers
static bool both_are(const tn_model *m, double foo, double bar) {
  float v[2];
  return tn_get(m, "foo", &v[0], 1) == TN_OK && tn_get(m, "bar", &v[1], 1) == TN_OK && is_near(v[0], foo, 0.005) &&
         is_near(v[1], bar, 0.005);
}

static void steps(tn_model *m, float c, int n) {
  for (int k = 0; k < n; k++) CHECK(tn_run(m, "step", TN_IN(tn_f32_scalar(&c)), TN_NO_OUT) == TN_OK);
}

SCENARIO(G14) {
  tn_program *p = tn_program_create("g14");
  tn_module *root = tn_root(p);
  tn_parameter(root, "foo", TN_SCALAR, zeros);
  tn_parameter(root, "bar", TN_SCALAR, zeros);
  tn_group(root, 7, "bar");
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor c = tn_input(f, "c", TN_F32, TN_SCALAR);
  tn_backward(tn_square(tn_sub(tn_add(tn_param_value(f, root, "foo"), tn_param_value(f, root, "bar")), c)));
  tn_sgd(f, root, .lr = 1);
  tn_function_end(f);
  tn_model *m = model_of(p);
  CHECK(tn_set_lr_all(m, 0.1) == TN_OK && tn_set_lr(m, 0, 0) == TN_OK);
  steps(m, 0.42f, 99);
  CHECK(both_are(m, 0, 0.42));
  CHECK(tn_set_lr(m, 0, 0.1) == TN_OK);
  steps(m, 0, 99);
  CHECK(both_are(m, -0.21, 0.21));
  CHECK(tn_set_lr(m, 7, 0) == TN_OK);
  steps(m, 0.22f, 99);
  CHECK(both_are(m, 0.01, 0.21));
  CHECK(tn_set_lr_all(m, 0) == TN_OK);
  steps(m, 0.42f, 99);
  CHECK(both_are(m, 0.01, 0.21));
  CHECK(tn_set_lr_all(m, 0.1) == TN_OK);
  steps(m, 0.42f, 99);
  CHECK(both_are(m, 0.11, 0.31));
  CHECK(tn_set_lr(m, 5, 0.1) == TN_ERR_ARGUMENT);
  CHECK(!strcmp(tn_error_text(m), "no optimizer has a group 5 with a lr: groups with one are 0, 7"));
  CHECK(tn_set_momentum(m, 0, 0.9) == TN_ERR_ARGUMENT);
  CHECK(!strcmp(tn_error_text(m), "no optimizer of this program has a momentum"));
  finish(p, m);
}

SCENARIO(G16) {
  enum { N = 14 };
  tn_program *p = tn_program_create("g16");
  tn_module *root = tn_root(p), *fc = tn_linear(root, "fc", 1, 1);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(N, 1));
  tn_tensor y = tn_input(f, "y", TN_F32, TN_SHAPE(N, 1));
  tn_tensor loss = tn_mse(tn_call(fc, x), y);
  tn_backward(loss);
  tn_sgd(f, root, .lr = 0.01);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  tn_model *m = model_of(p);
  float xs[N], ys[N], loss_now = 0, w = 0, b = 0;
  for (int k = 0; k < N; k++) xs[k] = (float)(k + 1), ys[k] = xs[k] * 0.42f + 1.337f;
  tn_array in[] = {tn_f32(xs, N, 1), tn_f32(ys, N, 1)}, out[] = {tn_f32_scalar(&loss_now)};
  CHECK(tn_set(m, "fc.weight", &w, 1) == TN_OK && tn_set(m, "fc.bias", &b, 1) == TN_OK);
  for (int k = 0; k < 49; k++) {
    CHECK(tn_run(m, "step", in, 2, out, 1) == TN_OK);
    if (k == 0) CHECK(is_near(loss_now, 22.999669, 1e-5));
  }
  CHECK(tn_get(m, "fc.weight", &w, 1) == TN_OK && is_near(w, 0.526795, 1e-5));
  CHECK(tn_get(m, "fc.bias", &b, 1) == TN_OK && is_near(b, 0.307809, 1e-5));
  CHECK(tn_run(m, "step", in, 2, out, 1) == TN_OK && is_near(loss_now, 0.237422, 1e-5));
  w = b = 0;
  CHECK(tn_set(m, "fc.weight", &w, 1) == TN_OK && tn_set(m, "fc.bias", &b, 1) == TN_OK);
  CHECK(tn_run(m, "step", in, 2, out, 1) == TN_OK && is_near(loss_now, 22.999669, 1e-5));
  finish(p, m);
}

// loss = sum of squares of [v1, 2 v2, 2 v3]
static void clipped(tn_program *p, const char *name, double value, double norm) {
  tn_module *root = tn_root(p);
  tn_function *f = tn_function_begin(p, name);
  tn_tensor two = tn_scalar(f, 2), v1 = tn_param_value(f, root, "v1");
  tn_tensor v2 = tn_mul(two, tn_param_value(f, root, "v2")), v3 = tn_mul(two, tn_param_value(f, root, "v3"));
  tn_backward(tn_sum(tn_square(tn_concat(0, TN_TENSORS(v1, v2, v3)))));
  if (value > 0) tn_clip_grad_value(f, root, value);
  if (norm > 0) tn_clip_grad_norm(f, root, norm);
  tn_output(f, "g1", tn_param_grad(f, root, "v1"));
  tn_output(f, "g2", tn_param_grad(f, root, "v2"));
  tn_output(f, "g3", tn_param_grad(f, root, "v3"));
  tn_function_end(f);
}

static bool gradients_are(tn_model *m, const char *function, double g1, double g2, double g3) {
  float g[5] = {0};
  tn_array out[] = {tn_f32(g, 2), tn_f32(g + 2, 1), tn_f32(g + 3, 2)};
  return CHECK(tn_run(m, function, TN_NO_IN, out, 3) == TN_OK) && is_near(g[0], g1, 1e-4) && is_near(g[1], g1, 1e-4) &&
         is_near(g[2], g2, 1e-4) && is_near(g[3], g3, 1e-4) && is_near(g[4], g3, 1e-4);
}

SCENARIO(G17) {
  tn_program *p = tn_program_create("g17");
  tn_parameter(tn_root(p), "v1", VECTOR(2), ones);
  tn_parameter(tn_root(p), "v2", VECTOR(1), ones);
  tn_parameter(tn_root(p), "v3", VECTOR(2), ((tn_init){TN_INIT_CONSTANT, -1, 0}));
  clipped(p, "plain", 0, 0);
  clipped(p, "by_value", 4, 0);
  clipped(p, "by_norm", 0, 1);
  tn_model *m = model_of(p);
  CHECK(gradients_are(m, "plain", 2, 8, -8));
  CHECK(gradients_are(m, "by_value", 2, 4, -4));
  CHECK(gradients_are(m, "by_norm", 0.1414, 0.5657, -0.5657));
  finish(p, m);
}

// Entries of a file that are stored as F16.
static bool is_half(const char *name) {
  static char text[4096];
  FILE *f = fopen(file_name(), "rb");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f) fclose(f);
  for (size_t k = 0; k < 8 && k < n; k++) text[k] = ' ';
  text[n] = 0;
  char want[100];
  snprintf(want, sizeof want, "\"%s\":{\"dtype\":\"F16\"", name);
  return strstr(text, want) != NULL;
}

SCENARIO(G19) {
  tn_program *p = tn_program_create("g19");
  tn_param_at_path(tn_root(p), "enc/w", VECTOR(2), ones);
  tn_param_at_path(tn_root(p), "enc2/w", VECTOR(2), ones);
  tn_freeze_path(tn_root(p), "enc", true);
  tn_variable v[2];
  CHECK(tn_variables(tn_root(p), &(tn_variable_options){.pattern = "enc"}, v, 2) == 1 && !strcmp(v[0].path, "enc.w"));
  CHECK(tn_variables(tn_root(p), &(tn_variable_options){.which = TN_TRAINABLE}, v, 2) == 1);
  CHECK(!strcmp(v[0].path, "enc2.w"));
  tn_model *m = store_of(p);
  CHECK(tn_save_as(m, file_name(), &(tn_save_options){.dtype = TN_FILE_F16, .pattern = "enc"}) == TN_OK);
  CHECK(is_half("enc.w") && !is_half("enc2.w"));
  remove(file_name());
  finish(p, m);
}

SCENARIO(G21) {
  tn_program *p = tn_program_create("g21");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor xs = tn_input(f, "xs", TN_F32, VECTOR(3));
  tn_tensor ys = tn_relu_(xs);  // a handle names storage: this is the same one
  tn_output(f, "xs", xs);
  tn_output(f, "ys", ys);
  tn_function_end(f);
  CHECK_HAS(report_of(p), "warning[W124]");
  tn_model *m = model_of(p);
  float v[3] = {1, -1, 2}, x[3] = {0}, y[3] = {0};
  CHECK(tn_run(m, "run", TN_IN(tn_f32(v, 3)), TN_OUT(tn_f32(x, 3), tn_f32(y, 3))) == TN_OK);
  for (int k = 0; k < 3; k++) CHECK(x[k] == fmaxf(v[k], 0) && y[k] == x[k]);
  CHECK(v[1] == -1);  // the caller's memory
  finish(p, m);
}

SCENARIO(G22) {
  tn_program *p = tn_program_create("g22");
  int first = __LINE__ + 1;
  tn_linear(tn_root(p), "fc", 2, 2);
  tn_linear(tn_root(p), "fc", 2, 2);
  char want[300];
  snprintf(want, sizeof want,
           "@:%d: error[E110]: module 'fc' exists already\n"
           "@:%d: note: the first 'fc' was made here\n"
           "hint: another name is free; tn_share and tn_share_module give one thing two\n",
           first + 1, first);
  CHECK_REPORT(p, want);
  CHECK(tn_variables(tn_root(p), NULL, NULL, 0) == 2);
  tn_program_free(p);
}

SCENARIO(G24) {
  tn_program *p = tn_program_create("g24");
  tn_module *root = tn_root(p), *fc = tn_linear(root, "fc", 2, 1);
  tn_function *f = tn_function_begin(p, "step");
  tn_backward(tn_sum(tn_call(fc, tn_input(f, "x", TN_F32, TN_SHAPE(4, 2)))));
  int built = __LINE__ + 1;
  tn_sgd(f, root);
  tn_linear(root, "late", 2, 1);
  char want[400];
  snprintf(want, sizeof want,
           "@:%d: error[E009]: parameter 'late.weight' is added after the optimizer of the root module was built\n"
           "@:%d: note: the optimizer was built here: it would never train the parameter\n"
           "hint: declare all parameters before the optimizer\n",
           built + 1, built);
  CHECK_REPORT(p, want);
  tn_program_free(p);
}

SCENARIO(G25) {
  tn_program *p = tn_program_create("g25");
  tn_module *root = tn_root(p);
  tn_linear(root, "fc", 2, 1);
  int first = __LINE__ + 1;
  tn_group(root, 1, "fc");
  tn_group(root, 2, "**/bias");
  char want[400];
  snprintf(want, sizeof want,
           "@:%d: error[E121]: parameter 'fc.bias' is put in group 2 and is in group 1 already\n"
           "@:%d: note: it was put in group 1 here\n"
           "hint: a parameter has one group: name each once\n",
           first + 1, first);
  CHECK_REPORT(p, want);
  tn_program_free(p);

  p = tn_program_create("g25_twice");
  tn_linear(tn_root(p), "fc", 2, 1);
  first = __LINE__ + 1;
  tn_group(tn_root(p), 1, "fc/weight");
  tn_group(tn_root(p), 1, "fc");
  snprintf(want, sizeof want,
           "@:%d: error[E121]: parameter 'fc.weight' is put in group 1 twice\n"
           "@:%d: note: it was put in group 1 here\n"
           "hint: a parameter has one group: name each once\n",
           first + 1, first);
  CHECK_REPORT(p, want);
  tn_program_free(p);
}
