// Parameters and modules. Tuples are T(co, do, ci, di, at, de | live) of the function that makes initial
// values.
#include "tests/ledger.h"

static tn_program *p;
static tn_function *init;

static void start(void) {
  p = tn_program_create("b");
  init = tn_init_function(p);
}

static tn_tensor filled(double v, int64_t rows, int64_t cols) {
  return cols ? tn_full(init, v, TN_SHAPE(rows, cols)) : tn_full(init, v, TN_SHAPE(rows));
}

// "weight,bias" as tn_named_parameters gives them.
static const char *names(tn_module *m, tn_names which) {
  static char text[256];
  const char *list[16];
  uint32_t n = tn_named_parameters(m, which, list, 16);
  text[0] = 0;
  for (uint32_t k = 0; k < n; k++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", k ? "," : "", list[k]);
  return text;
}

static bool holds(const tn_model *m, const char *path, float v, size_t n) {
  float have[64] = {0};
  bool good = n <= 64 && tn_get(m, path, have, n) == TN_OK;
  for (size_t k = 0; k < n && good; k++) good = have[k] == v;
  if (!good) printf("  %s: %s, first %g\n", path, tn_error_text(m), (double)have[0]);
  return good;
}

SCENARIO(B01) {
  start();
  tn_scope *s = tn_scope_begin(init, "s");
  tn_tensor t = (tn_full)(init, 3, TN_SCALAR, at(10));
  TENSORS(init, 0, 0, 1, 0, 0, 0, 1);
  tn_tensor q = (tn_as_parameter)(t, at(11));
  TENSORS(init, 0, 0, 1, 0, 0, 0, 1);
  CHECK(!tn_is_alive(t) && tn_is_alive(q));
  tn_dispose(t);
  TENSORS(init, 0, 0, 1, 0, 0, 0, 1);
  (tn_relu)(t, at(12));
  CHECK_REPORT(p, "user.c:12: error[E102]: the result of tn_full (f32[]) is used after a parameter took it over\n"
                  "user.c:10: note: it was made here, in scope 's'\n"
                  "user.c:11: note: a parameter took it over here\n"
                  "hint: tn_as_parameter gives the handle to go on with\n");
  tn_scope_end(s);
  TENSORS(init, 0, 0, 1, 1, 0, 0, 0);
  CHECK(!tn_is_alive(q));
  tn_program_free(p);

  start();  // and the parameter reads 3
  tn_parameter_adopt(tn_root(p), "p", tn_full(init, 3, TN_SCALAR));
  tn_model *m = tn_compile(p);
  CHECK(m && holds(m, "p", 3, 1));
  tn_model_free(m);
  tn_program_free(p);
}

SCENARIO(B02) {
  start();
  tn_tensor q = tn_as_parameter(tn_full(init, 3, TN_SCALAR));
  TENSORS(init, 1, 0, 0, 0, 0, 0, 1);
  tn_dispose(q);
  TENSORS(init, 1, 1, 0, 0, 0, 0, 0);
  CHECK_REPORT(p, "");
  tn_program_free(p);
}

SCENARIO(B04) {
  start();
  tn_module *m = tn_module_new(tn_root(p), "m");
  tn_scope *s = tn_scope_begin(init, "s");
  tn_tensor q = tn_detach_from_scope(tn_as_parameter(tn_full(init, 3, TN_SCALAR)));
  tn_register(m, "w", q);
  TENSORS(init, 0, 0, 1, 0, 0, 1, 1);
  tn_scope_end(s);
  TENSORS(init, 0, 0, 1, 0, 0, 1, 1);
  CHECK(!strcmp(names(m, TN_NAMES_UNIQUE), "w"));
  tn_module_dispose(m);
  TENSORS(init, 0, 1, 1, 0, 0, 1, 0);
  CHECK_REPORT(p, "");
  tn_program_free(p);

  start();  // the same in one call, and the value is there
  s = tn_scope_begin(init, "s");
  tn_parameter_adopt(tn_root(p), "w", tn_add(filled(1, 4, 0), filled(2, 4, 0)));
  tn_scope_end(s);
  TENSORS(init, 0, 0, 3, 2, 0, 1, 1);
  tn_model *model = tn_compile(p);
  CHECK(model && holds(model, "w", 3, 4));
  CHECK_REPORT(p, "");
  tn_model_free(model);
  tn_program_free(p);
}

SCENARIO(B06) {
  start();
  tn_module *fc = (tn_linear)(tn_root(p), "fc", 1000, 1000, (tn_linear_options){.at = at(10)});
  (tn_parameter_adopt)(fc, "bias", filled(1, 100, 0), at(11));
  CHECK_REPORT(p, "user.c:11: error[E111]: parameter 'fc.bias' of shape [1000] is replaced by one of shape [100]\n"
                  "user.c:10: note: it was made here\n"
                  "hint: tn_reshapable(module) allows it\n");
  tn_program_free(p);

  start();
  fc = tn_linear(tn_root(p), "fc", 10, 10);
  tn_reshapable(fc);
  tn_parameter_adopt(fc, "bias", filled(2, 4, 0));
  tn_parameter_adopt(fc, "weight", filled(3, 4, 10));
  CHECK(!strcmp(names(fc, TN_NAMES_UNIQUE), "weight,bias"));
  TENSORS(init, 4, 2, 0, 0, 0, 0, 2);  // two of the layer, disposed as they were replaced, and two given
  tn_function *f = tn_function_begin(p, "run");
  tn_output(f, "y", tn_call(fc, tn_input(f, "x", TN_F32, TN_SHAPE(1, 10))));
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  float x[10] = {1, 1}, y[4] = {0};
  CHECK(m && tn_param_count(m) == 2 && !strcmp(tn_param_path(m, 0), "fc.weight"));
  CHECK(m && holds(m, "fc.weight", 3, 40) && holds(m, "fc.bias", 2, 4));
  CHECK(m && tn_run(m, "run", TN_IN(tn_f32(x, 1, 10)), TN_OUT(tn_f32(y, 1, 4))) == TN_OK && y[3] == 8);
  CHECK_REPORT(p, "");
  tn_model_free(m);
  tn_program_free(p);
}

SCENARIO(B07) {
  start();
  tn_module *fc = tn_linear(tn_root(p), "fc", 3, 2);
  tn_parameter_adopt(fc, "bias", tn_param_value(init, fc, "bias"));
  tn_parameter_adopt(fc, "weight", tn_param_value(init, fc, "weight"));
  TENSORS(init, 2, 0, 0, 0, 0, 0, 2);
  CHECK(!strcmp(names(fc, TN_NAMES_UNIQUE), "weight,bias"));
  CHECK(tn_is_alive(tn_param_value(init, fc, "bias")) && tn_is_alive(tn_param_value(init, fc, "weight")));
  tn_model *m = tn_compile(p);
  float w[6] = {0};
  CHECK(m && tn_param_count(m) == 2 && tn_get(m, "fc.weight", w, 6) == TN_OK && w[0] != 0 && w[5] != w[0]);
  CHECK_REPORT(p, "");
  tn_model_free(m);
  tn_program_free(p);
}

// The same when functions use the parameters already, and a scope was open as their first values were made.
static tn_module *used(void) {
  start();
  tn_module *fc = (tn_linear)(tn_root(p), "fc", 3, 2, (tn_linear_options){.at = at(9)});
  tn_function *f = tn_function_begin(p, "run");
  tn_scope *s = tn_scope_begin(init, "s");
  tn_output(f, "w", tn_param_value(f, fc, "weight"));
  tn_scope_end(s);
  tn_function_end(f);
  return fc;
}

SCENARIO(B_again) {
  tn_module *fc = used();
  tn_parameter_adopt(fc, "bias", tn_param_value(init, fc, "bias"));
  tn_parameter_adopt(tn_root(p), "negated", tn_neg(tn_param_value(init, fc, "weight")));
  tn_model *m = tn_compile(p);
  float w[6] = {0}, negated[6] = {0};
  CHECK(m && tn_get(m, "fc.weight", w, 6) == TN_OK && tn_get(m, "negated", negated, 6) == TN_OK);
  for (int k = 0; k < 6; k++) CHECK(w[k] != 0 && negated[k] == -w[k]);
  CHECK_REPORT(p, "");
  tn_model_free(m);
  tn_program_free(p);

  fc = used();
  (tn_parameter_adopt)(fc, "bias", filled(1, 2, 0), at(10));
  CHECK_REPORT(p, "user.c:10: error[E009]: parameter 'fc.bias' is replaced after a function used parameters\n"
                  "user.c:9: note: it was made here\n"
                  "hint: replace parameters before the first function uses any\n");
  tn_program_free(p);
}

SCENARIO(B10) {
  const tn_init zeros = {TN_INIT_ZEROS, 0, 0};
  start();
  tn_module *relu = (tn_activation)(tn_root(p), "relu", "relu", (tn_activation_options){.at = at(10)});
  (tn_parameter)(relu, "w", TN_SHAPE(3), zeros, at(11));
  (tn_buffer)(relu, "b", TN_SHAPE(3), zeros, at(12));
  (tn_linear)(relu, "fc", 3, 3, (tn_linear_options){.at = at(13)});
  CHECK_REPORT(p, "user.c:11: error[E003]: 'relu.w' is below module 'relu', which takes no parameters\n"
                  "user.c:10: note: 'relu' was made here\n"
                  "hint: a module made by tn_module_new or tn_sequential takes them\n"
                  "user.c:12: error[E003]: 'relu.b' is below module 'relu', which takes no parameters\n"
                  "user.c:10: note: 'relu' was made here\n"
                  "hint: a module made by tn_module_new or tn_sequential takes them\n"
                  "user.c:13: error[E003]: 'relu.fc' is below module 'relu', which takes no parameters\n"
                  "user.c:10: note: 'relu' was made here\n"
                  "hint: a module made by tn_module_new or tn_sequential takes them\n");
  tn_dropout_module(relu, "drop", 0.5);  // a child without parameters is fine
  CHECK(tn_n_errors(p) == 3);
  tn_program_free(p);
}

SCENARIO(B11) {
  start();
  tn_module *a = tn_module_new(tn_root(p), "a"), *b = tn_module_new(tn_root(p), "b");
  tn_tensor q = tn_as_parameter(filled(1, 2, 0));
  tn_register(a, "param1", q);
  tn_register(a, "param2", q);
  CHECK(!strcmp(names(a, TN_NAMES_UNIQUE), "param1"));
  CHECK(!strcmp(names(a, TN_NAMES_ALIASES), "param1,param2"));
  tn_module *mod1 = tn_linear(b, "mod1", 3, 4, .no_bias = true);
  tn_module *mod2 = tn_share_module(b, "mod2", mod1);
  CHECK(!strcmp(names(b, TN_NAMES_UNIQUE), "mod1.weight"));
  CHECK(!strcmp(names(b, TN_NAMES_ALIASES), "mod1.weight,mod2.weight"));
  CHECK(!strcmp(names(b, TN_NAMES_STATE_DICT), "mod1.weight,mod2.weight"));
  TENSORS(init, 2, 0, 0, 0, 0, 0, 2);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(1, 3));
  tn_output(f, "y", tn_sub(tn_call(mod1, x), tn_call(mod2, x)));
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  float xs[3] = {1, 2, 3}, y[4] = {1, 1, 1, 1};
  CHECK(m && tn_param_count(m) == 2 && holds(m, "a.param2", 1, 2));
  CHECK(m && tn_run(m, "run", TN_IN(tn_f32(xs, 1, 3)), TN_OUT(tn_f32(y, 1, 4))) == TN_OK && y[0] == 0 && y[3] == 0);
  CHECK_REPORT(p, "");
  tn_model_free(m);
  tn_program_free(p);
}

static tn_status step(tn_model *m, float *loss) {
  float x[20], y[20];
  for (int k = 0; k < 20; k++) x[k] = (float)k / 20, y[k] = (float)(k % 3);
  return tn_run(m, "step", TN_IN(tn_f32(x, 2, 10), tn_f32(y, 2, 10)), TN_OUT(tn_f32_scalar(loss)));
}

static tn_model *trained(void) {
  start();
  tn_module *fc = tn_linear(tn_root(p), "fc", 10, 10);
  tn_function *f = tn_function_begin(p, "step");
  tn_shape s = TN_SHAPE(2, 10);
  tn_tensor x = tn_input(f, "x", TN_F32, s), y = tn_input(f, "y", TN_F32, s);
  tn_tensor loss = tn_mse(tn_call(fc, x), y);
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_stats before = tn_stats_tensors(f);
  tn_adam(f, fc);
  tn_stats after = tn_stats_tensors(f);
  CHECK(after.created_outside - before.created_outside == 4);  // two moments of each of two parameters
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  tn_program_free(p);
  return m;
}

SCENARIO(B13) {
  tn_model *one = trained(), *two = one ? tn_instance(one, 7) : NULL;
  float loss = 0, want = 0;
  for (int k = 0; k < 3 && one; k++) CHECK(step(one, &loss) == TN_OK);
  float buffer[100];
  for (uint32_t k = 0; two && k < tn_param_count(one); k++) {
    const char *path = tn_param_path(one, k);
    tn_array a = tn_param_at(one, k);
    size_t n = 1;
    for (uint32_t j = 0; j < a.rank; j++) n *= (size_t)a.dims[j];
    CHECK(n <= 100 && tn_get(one, path, buffer, n) == TN_OK && tn_set(two, path, buffer, n) == TN_OK);
  }
  CHECK(one && step(one, &want) == TN_OK && step(one, &want) == TN_OK);
  tn_model_free(one);
  CHECK(two && step(two, &loss) == TN_OK && step(two, &loss) == TN_OK && loss == want);
  tn_model_free(two);
}

// A program with parameters of these names and sizes, all of one value.
static tn_model *store(const char *const *name, const int64_t *size, int n, double value) {
  start();
  for (int k = 0; k < n; k++)
    tn_parameter(tn_root(p), name[k], TN_SHAPE(size[k]), ((tn_init){TN_INIT_CONSTANT, value, 0}));
  tn_model *m = tn_compile(p);
  tn_program_free(p);
  return m;
}

SCENARIO(B14) {
  const char *file = "scenario_b14.safetensors";
  tn_model *from = store((const char *const[]){"same", "wide", "extra"}, (const int64_t[]){2, 5, 3}, 3, 7);
  tn_model *to = store((const char *const[]){"same", "wide", "missing"}, (const int64_t[]){2, 4, 3}, 3, 1);
  CHECK(from && to && tn_save(from, file, false) == TN_OK);
  CHECK(to && tn_load(to, file, false) == TN_ERR_FILE);
  CHECK_HAS(tn_error_text(to), "'missing' is missing");
  CHECK_HAS(tn_error_text(to), "'extra'");
  CHECK_HAS(tn_error_text(to), "'wide'");
  CHECK(to && holds(to, "same", 1, 2) && holds(to, "wide", 1, 4) && holds(to, "missing", 1, 3));  // nothing was written
  tn_model *close = store((const char *const[]){"same", "missing"}, (const int64_t[]){2, 3}, 2, 1);
  tn_load_report r;
  CHECK(close && tn_load_partial(close, file, false, &r) == TN_OK && r.n_loaded == 1);
  CHECK(r.n_missing == 1 && !strcmp(r.missing[0], "missing") && r.n_extra == 2);
  CHECK(close && holds(close, "same", 7, 2) && holds(close, "missing", 1, 3));
  CHECK(to && tn_load_partial(to, file, false, &r) == TN_OK && r.n_loaded == 1);  // skips, and lists all three kinds
  CHECK(r.n_missing == 1 && !strcmp(r.missing[0], "missing") && r.n_extra == 1 && !strcmp(r.extra[0], "extra"));
  CHECK(r.n_mismatched == 1 && !strcmp(r.mismatched[0], "wide"));
  CHECK(to && holds(to, "same", 7, 2) && holds(to, "wide", 1, 4) && holds(to, "missing", 1, 3));
  tn_model_free(from);
  tn_model_free(to);
  tn_model_free(close);
  remove(file);
}

SCENARIO(B15) {
  start();
  tn_module *m = tn_module_new(tn_root(p), "m");
  tn_scope *s = (tn_scope_begin)(init, "s", at(10));
  tn_tensor q = tn_as_parameter((tn_full)(init, 1, TN_SHAPE(3), at(11)));
  (tn_register)(m, "w", q, at(12));
  tn_module *rnn = tn_lstm(m, "rnn", 3, 4);  // what modules make themselves is theirs from the start
  tn_scope_end(s);
  CHECK(!strcmp(names(rnn, TN_NAMES_UNIQUE), "weight_ih_l0,weight_hh_l0,bias_ih_l0,bias_hh_l0"));
  CHECK_REPORT(p, "user.c:12: error[E109]: parameter 'm.w' is owned by scope 's', which ends before its module\n"
                  "user.c:11: note: it was made here, in scope 's'\n"
                  "user.c:10: note: scope 's' was opened here\n"
                  "hint: tn_detach_from_scope before, or tn_parameter_adopt, gives it to the module alone\n");
  tn_program_free(p);
}

// Not in the table: a bias that comes and goes, buffers that are not saved, a module that ended.
SCENARIO(B_null) {
  start();
  tn_module *fc = tn_linear(tn_root(p), "fc", 3, 2);
  tn_parameter_adopt(fc, "bias", TN_NONE);
  tn_parameter_adopt(fc, "bias", TN_NONE);
  TENSORS(init, 2, 1, 0, 0, 0, 0, 1);
  CHECK(!strcmp(names(fc, TN_NAMES_ALIASES), "weight"));
  tn_buffer_adopt(fc, "kept", filled(1, 2, 0), true);
  tn_buffer_adopt(fc, "lost", filled(2, 2, 0), false);
  CHECK(!strcmp(names(fc, TN_NAMES_STATE_DICT), "weight,kept"));
  CHECK(!strcmp(names(fc, TN_NAMES_BUFFERS), "kept,lost"));
  tn_function *f = tn_function_begin(p, "run");
  tn_output(f, "y", tn_call(fc, tn_input(f, "x", TN_F32, TN_SHAPE(1, 3))));
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  CHECK(m && tn_param_count(m) == 3 && holds(m, "fc.lost", 2, 2));
  CHECK_REPORT(p, "");
  tn_model_free(m);
  tn_program_free(p);
}

SCENARIO(B_disposed) {
  start();
  tn_module *fc = (tn_linear)(tn_root(p), "fc", 3, 2, (tn_linear_options){.at = at(10)});
  (tn_module_dispose)(fc, at(11));
  tn_module_dispose(fc);
  TENSORS(init, 2, 2, 0, 0, 0, 0, 0);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(1, 3));
  tn_output(f, "y", (tn_call)(fc, x, at(12)));
  tn_call(fc, x);
  CHECK_REPORT(p, "user.c:12: error[E101]: parameter 'fc.weight' is used after it was disposed\n"
                  "user.c:10: note: it was made here\n"
                  "user.c:11: note: it was disposed here\n"
                  "hint: dispose it after its last use: doing so earlier saves no memory\n");
  tn_program_free(p);
}
