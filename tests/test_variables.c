// Stores of parameters: paths and patterns, order of variables, freezing, groups, copies, merged and partial files.
#include "frontend/tenure.h"
#include "runtime/base.h"
#include "runtime/store/checkpoint.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/report.h"
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static const tn_init zeros = {TN_INIT_ZEROS, 0, 0}, ones = {TN_INIT_CONSTANT, 1, 0};
static char file[64];

static tn_model *store_of(tn_program *p) {
  tn_function *f = tn_function_begin(p, "nothing");
  tn_output(f, "zero", tn_scalar(f, 0));
  tn_function_end(f);
  return model_of(p);
}

static void entry(tn_program *p, const char *path, int64_t n, double v) {
  tn_param_at_path(tn_root(p), path, TN_SHAPE(n), ((tn_init){TN_INIT_CONSTANT, v, 0}));
}

static float first_of(const tn_model *m, const char *path, size_t n) {
  float v[64] = {NAN};
  return tn_get(m, path, v, n) == TN_OK ? v[0] : NAN;
}

// ---- patterns
static void patterns(void) {
  static const struct {
    const char *pattern, *path;
    bool matches;
  } cases[] = {{NULL, "a.b", true},        {"", "a", true},
               {"a", "a", true},           {"a", "a.b.c", true},
               {"a", "ab.c", false},       {"a/b", "a.b.c", true},
               {"a.b", "a.bc", false},     {"a.b", "a", false},
               {"*", "x.y", true},         {"*.w", "x.w", true},
               {"*.w", "x.y.w", false},    {"**.w", "x.y.w", true},
               {"**/w", "w", true},        {"**.w", "x.w.z", true},
               {"enc*", "enc2.w", true},   {"e*c", "enc.w", true},
               {"e*c", "enc2.w", false},   {"*a*b", "xaybaab", true},
               {"*a*b", "xaybaa", false},  {"**", "a.b.c", true},
               {"a.**.c", "a.c", true},    {"a.**.c", "a.b.d", false},
               {"a.**.c", "a.b.d.c", true}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
    if (!CHECK(rt_path_matches(cases[k].pattern, cases[k].path) == cases[k].matches))
      printf("  pattern '%s', path '%s'\n", cases[k].pattern, cases[k].path);
}

// Every F16 and BF16 number comes back; halfway cases go to even.
static void narrow_numbers(void) {
  unsigned char b[2];
  static const RtStDType types[] = {RT_ST_F16, RT_ST_BF16};
  for (int t = 0; t < 2; t++)
    for (uint32_t k = 0; k < 65536; k++) {
      unsigned char in[2] = {(unsigned char)k, (unsigned char)(k >> 8)};
      float v;
      rt_st_read_f32(&(RtStTensor){.dtype = (uint8_t)types[t], .n_elements = 1, .data = in, .size = 2}, &v);
      rt_st_put_f32(types[t], &v, 1, b);
      if (!isnan(v) && memcmp(b, in, 2)) CHECK(false);
      float back;
      rt_st_read_f32(&(RtStTensor){.dtype = (uint8_t)types[t], .n_elements = 1, .data = b, .size = 2}, &back);
      if (isnan(v) != isnan(back)) CHECK(false);
    }
  static const struct {
    float v;
    uint16_t f16;
  } rounded[] = {{65519.996f, 0x7bff}, {65520, 0x7c00}, {1 + 0x1p-11f, 0x3c00}, {1 + 0x3p-11f, 0x3c02},
                 {0x1p-25f, 0},        {0x1.8p-25f, 1}, {-0x3p-25f, 0x8002},    {0x1.ffcp-15f, 0x400}};
  for (size_t k = 0; k < sizeof rounded / sizeof *rounded; k++) {
    rt_st_put_f32(RT_ST_F16, &rounded[k].v, 1, b);
    if (!CHECK((b[0] | b[1] << 8) == rounded[k].f16)) printf("  %a: %04x\n", (double)rounded[k].v, b[0] | b[1] << 8);
  }
}

// ---- the list of variables
static void variables(void) {
  tn_program *p = tn_program_create("list");
  tn_module *root = tn_root(p), *late = tn_module_new(root, "late"), *early = tn_module_new(root, "early");
  tn_linear(early, "fc", 2, 3);
  tn_parameter(late, "own", TN_SHAPE(4), zeros);
  tn_share(late, "tied", tn_child(early, "fc"), "weight");
  tn_buffer(root, "mean", TN_SHAPE(1), zeros);
  tn_transient_buffer(root, "scratch", TN_SHAPE(1), zeros);
  tn_variable v[8];
  static const char *const all[] = {"mean", "scratch", "late.own", "late.tied", "early.fc.bias"};
  CHECK(tn_variables(root, NULL, v, 8) == 5);
  for (int k = 0; k < 5; k++) CHECK(!strcmp(v[k].path, all[k]));
  CHECK(v[0].is_buffer && !v[2].is_buffer && v[3].rank == 2 && v[3].dims[0] == 3 && v[3].dims[1] == 2);
  CHECK(tn_variables(root, &(tn_variable_options){.which = TN_PARAMETERS, .aliases = true}, v, 8) == 4);
  CHECK(!strcmp(v[1].path, "late.tied") && !v[1].is_alias && !strcmp(v[2].path, "early.fc.weight") && v[2].is_alias);
  // a pattern finds a shared entry by any of its paths
  tn_variable_options o = {.which = TN_TRAINABLE, .pattern = "early/**/weight"};
  CHECK(tn_variables(root, &o, v, 8) == 1 && !strcmp(v[0].path, "early.fc.weight") && v[0].is_alias);
  tn_freeze_path(root, "early.fc.weight", true);
  CHECK(tn_variables(root, &o, v, 8) == 0);
  tn_freeze_path(root, "early.fc.weight", false);
  CHECK(tn_variables(early, &(tn_variable_options){.pattern = "**/weight"}, v, 8) == 1);
  CHECK(!strcmp(v[0].path, "fc.weight") && v[0].module == tn_child(early, "fc"));
  CHECK(tn_variables(root, &(tn_variable_options){.which = TN_NON_PARAMETERS}, NULL, 0) == 2);
  CHECK(tn_module_at_path(root, "early/fc") == tn_child(early, "fc") && tn_n_errors(p) == 0);
  tn_module_at_path(root, "late.own");
  CHECK_HAS(report_of(p), "error[E110]: module 'own' exists already");
  tn_module_at_path(root, "a//b");
  CHECK(tn_n_errors(p) == 2);
  tn_freeze_path(root, "none.*", true);
  CHECK_HAS(report_of(p), "error[E003]: no parameter below the root module matches 'none.*'");
  tn_program_free(p);
}

// ---- penalties: loss = |w|_1 + 3 |v|_2^2, over weights chosen by pattern
static void penalties(void) {
  tn_program *p = tn_program_create("penalty");
  tn_module *root = tn_root(p);
  entry(p, "a/w", 2, -0.5);
  entry(p, "b/w", 3, 2);
  entry(p, "b/bias", 1, 7);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor loss = tn_add(tn_l1(f, root, "a"), tn_mul(tn_scalar(f, 3), tn_l2(f, root, "**.w")));
  tn_backward(loss);
  tn_output(f, "loss", loss);
  tn_output(f, "ga", tn_param_grad(f, tn_child(root, "a"), "w"));
  tn_output(f, "gb", tn_param_grad(f, tn_child(root, "b"), "w"));
  tn_function_end(f);
  tn_model *m = model_of(p);
  float l = 0, ga[2] = {0}, gb[3] = {0};
  CHECK(tn_run(m, "run", TN_NO_IN, TN_OUT(tn_f32_scalar(&l), tn_f32(ga, 2), tn_f32(gb, 3))) == TN_OK);
  CHECK(l == 1 + 3 * (0.5f + 12) && ga[1] == -1 - 3 && gb[2] == 12);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- freezing: the backward of what is frozen is not there
typedef struct {
  uint32_t n_lines, n_kernels, n_params;
} Size;

static Size size_of(bool frozen) {
  tn_program *p = tn_program_create("frozen");
  tn_module *root = tn_root(p), *net = tn_sequential(root, "net");
  tn_linear(net, "first", 8, 16);
  tn_activation(net, "act", "tanh");
  tn_linear(net, "last", 16, 4);
  tn_freeze_path(root, "net/first", true);
  if (!frozen) tn_freeze_path(root, "net.*", false);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor loss = tn_sum(tn_square(tn_call(net, tn_input(f, "x", TN_F32, TN_SHAPE(5, 8)))));
  tn_backward(loss);
  tn_adamw(f, root);
  tn_function_end(f);
  tn_model *m = model_of(p);
  char *text;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  tn_dump_function(p, "step", out, TN_DUMP_LIFETIMES);
  fclose(out);
  tn_plan plan;
  tn_plan_of(m, "step", &plan);
  Size s = {0, plan.n_kernels, tn_param_count(m)};
  for (const char *c = text; *c; c++) s.n_lines += *c == '\n';
  CHECK((strstr(text, "exp_avg.net.first") != NULL) == !frozen);
  free(text);
  tn_model_free(m);
  tn_program_free(p);
  return s;
}

static void freezing(void) {
  Size all = size_of(false), part = size_of(true);
  CHECK(part.n_lines < all.n_lines && part.n_kernels < all.n_kernels && part.n_params == all.n_params - 4);
}

// ---- groups
static void build_groups(tn_program *p, const tn_group_options *o, const tn_sgd_options *sgd,
                         const tn_adamw_options *adam) {
  tn_module *root = tn_root(p);
  entry(p, "a", 5, 1);
  entry(p, "b", 5, 2);
  if (o) (tn_group)(root, 3, "b", *o);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(5));
  tn_backward(tn_sum(tn_mul(x, tn_mul(tn_param_value(f, root, "a"), tn_param_value(f, root, "b")))));
  if (sgd) (tn_sgd)(f, root, *sgd);
  else (tn_adamw)(f, root, adam ? *adam : (tn_adamw_options){.at = TN_SITE});
  tn_function_end(f);
}

static void run_steps(tn_model *m, int n) {
  float x[5] = {0.5f, -1, 2, 0.25f, 1};
  for (int k = 0; k < n; k++) CHECK(tn_run(m, "step", TN_IN(tn_f32(x, 5)), TN_NO_OUT) == TN_OK);
}

static void check_same(const tn_model *m, const tn_model *n) {
  float x[5], y[5];
  for (int k = 0; k < 2; k++) {
    CHECK(tn_get(m, k ? "b" : "a", x, 5) == TN_OK && tn_get(n, k ? "b" : "a", y, 5) == TN_OK);
    CHECK(!memcmp(x, y, sizeof x));
  }
}

// Numbers set between runs give the very bits of numbers that were built in.
static void set_between_runs(void) {
  tn_program *p = tn_program_create("built"), *q = tn_program_create("set");
  build_groups(p, &(tn_group_options){.lr = 0.5, .weight_decay = 0.125}, NULL,
               &(tn_adamw_options){.lr = 0.25, .weight_decay = 0.0625});
  build_groups(q, &(tn_group_options){.no_weight_decay = true}, NULL, &(tn_adamw_options){.lr = 1});
  tn_model *m = model_of(p), *n = model_of(q);
  float v;
  CHECK(tn_get(n, "optimizer.weight_decay.3", &v, 1) == TN_OK && v == 0);
  CHECK(tn_get(m, "optimizer.lr.3", &v, 1) == TN_OK && v == 0.5f);
  CHECK(tn_set_lr_all(n, 0.25) == TN_OK && tn_set_lr(n, 3, 0.5) == TN_OK);
  CHECK(tn_set_weight_decay_all(n, 0.125) == TN_OK && tn_set_weight_decay(n, 0, 0.0625) == TN_OK);
  run_steps(m, 4), run_steps(n, 4);
  check_same(m, n);
  CHECK(tn_set_lr(n, 1, 1) == TN_ERR_ARGUMENT && tn_set_lr(n, 3, -1) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(n), "lr cannot be -1: it is a number of 0 or more");
  tn_model_free(m), tn_model_free(n);
  tn_program_free(p), tn_program_free(q);

  p = tn_program_create("built"), q = tn_program_create("set");
  build_groups(p, &(tn_group_options){.momentum = 0.5}, &(tn_sgd_options){.lr = 0.125}, NULL);
  build_groups(q, &(tn_group_options){.lr = 0.125}, &(tn_sgd_options){.lr = 0.125, .momentum = 0.9}, NULL);
  m = model_of(p), n = model_of(q);
  CHECK(tn_set_momentum(m, 0, 0.5) == TN_ERR_ARGUMENT);
  CHECK(!strcmp(tn_error_text(m), "no optimizer has a group 0 with a momentum: groups with one are 3"));
  CHECK(tn_set_momentum_all(n, 0) == TN_OK && tn_set_momentum(n, 3, 0.5) == TN_OK);
  run_steps(m, 3), run_steps(n, 3);
  check_same(m, n);
  tn_model_free(m), tn_model_free(n);
  tn_program_free(p), tn_program_free(q);
}

static void group_mistakes(void) {
  tn_program *p = tn_program_create("groups");
  tn_module *root = tn_root(p);
  entry(p, "a", 2, 1);
  entry(p, "b", 2, 1);
  tn_group(root, 1, "a", .lr = 1);
  tn_group(root, 1, "b", .lr = 2);
  CHECK_HAS(report_of(p), "error[E003]: group 1 has other options already");
  tn_group(root, 2, "c");
  CHECK_HAS(report_of(p), "error[E003]: no parameter below the root module matches 'c'");
  tn_group(root, 2, "b", .lr = -2);
  CHECK(tn_n_errors(p) == 3);
  tn_function *f = tn_function_begin(p, "step");
  tn_backward(tn_sum(tn_param_value(f, root, "b")));
  tn_clip_grad_value(f, root, 0);
  CHECK_HAS(report_of(p), "error[E003]: gradients are clipped to values above 0, not 0");
  tn_sgd(f, root);
  tn_group(root, 2, "b");
  CHECK_HAS(report_of(p), "error[E009]: parameter 'b' is put in group 2 after its optimizer was built");
  CHECK(tn_n_errors(p) == 5);
  entry(p, "c", 1, 0);
  entry(p, "d", 1, 0);
  CHECK(tn_n_errors(p) == 6);
  tn_program_free(p);
}

// ---- files
static void ties(void) {
  tn_program *p = tn_program_create("tied");
  tn_module *root = tn_root(p), *a = tn_linear(root, "a", 3, 3), *b = tn_linear(root, "b", 3, 3);
  tn_share(b, "weight", a, "weight");
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(2, 3));
  tn_backward(tn_sum(tn_square(tn_call(b, tn_call(a, x)))));
  tn_adamw(f, root);
  tn_function_end(f);
  tn_model *m = model_of(p), *n = tn_instance(m, 9);
  float xs[6] = {1, 2, 3, 4, 5, 6}, v[9], w[9];
  CHECK(tn_run(m, "step", TN_IN(tn_f32(xs, 2, 3)), TN_NO_OUT) == TN_OK);
  CHECK(tn_get(m, "a.weight", v, 9) == TN_OK && tn_get(m, "b.weight", w, 9) == TN_OK && !memcmp(v, w, sizeof v));
  CHECK(tn_get(m, "optimizer.exp_avg.a.weight", v, 9) == TN_OK);
  CHECK(tn_get(m, "optimizer.exp_avg.b.weight", v, 9) == TN_ERR_ARGUMENT);
  CHECK(tn_save(m, file, true) == TN_OK && tn_load(n, file, true) == TN_OK);
  for (int k = 0; k < 2; k++) {  // both go on alike
    CHECK(tn_run(k ? n : m, "step", TN_IN(tn_f32(xs, 2, 3)), TN_NO_OUT) == TN_OK);
    CHECK(tn_get(k ? n : m, "b.weight", k ? v : w, 9) == TN_OK);
  }
  CHECK(!memcmp(v, w, sizeof v));
  tn_model_free(m), tn_model_free(n);
  tn_program_free(p);
}

// A deep copy of optimizer state: the source may go, and later steps of one do not touch the other.
static void copies(void) {
  tn_program *p = tn_program_create("copy");
  build_groups(p, NULL, NULL, &(tn_adamw_options){.lr = 0.1});
  tn_model *m = model_of(p), *n = tn_instance(m, 5), *k = tn_instance(m, 6);
  run_steps(m, 3);
  CHECK(tn_copy_params(n, m, true) == TN_OK && tn_copy_params(k, m, false) == TN_OK);
  check_same(m, n);
  CHECK(first_of(n, "optimizer.exp_avg.a", 5) == first_of(m, "optimizer.exp_avg.a", 5));
  CHECK(first_of(k, "optimizer.exp_avg.a", 5) == 0 && first_of(k, "a", 5) == first_of(m, "a", 5));
  float before = first_of(n, "optimizer.exp_avg.a", 5);
  run_steps(m, 2);
  CHECK(first_of(n, "optimizer.exp_avg.a", 5) == before);
  run_steps(n, 2);
  check_same(m, n);
  tn_model_free(m);
  run_steps(n, 1);
  CHECK(tn_copy_params(n, n, true) == TN_OK && tn_copy_params(n, NULL, true) == TN_ERR_ARGUMENT);
  tn_model_free(n), tn_model_free(k);
  tn_program_free(p);

  tn_program *big = tn_program_create("big"), *other = tn_program_create("other");
  entry(big, "a", 5, 1), entry(big, "b", 2, 1), entry(big, "c", 2, 1);
  entry(other, "a", 4, 9), entry(other, "b", 2, 9), entry(other, "x", 1, 9);
  m = store_of(big), n = store_of(other);
  CHECK(tn_copy_params(m, n, false) == TN_ERR_ARGUMENT);
  CHECK(!strcmp(tn_error_text(m), "copy: 'a' has shape [4], expected [5]; 'c' is missing"));
  CHECK(first_of(m, "b", 2) == 1);
  tn_model_free(m), tn_model_free(n);
  tn_program_free(big), tn_program_free(other);
}

static void merged(void) {
  tn_program *p = tn_program_create("enc"), *q = tn_program_create("dec");
  entry(p, "w", 2, 1), entry(p, "b.w", 2, 2);
  entry(q, "w", 2, 3);
  tn_transient_buffer(tn_root(q), "scratch", TN_SHAPE(2), ones);
  tn_model *m = store_of(p), *n = store_of(q);
  tn_part parts[] = {{m, "enc."}, {n, NULL}};
  CHECK(tn_save_merged(parts, 2, file, false) == TN_OK);
  float two[2] = {8, 8};
  tn_set(m, "w", two, 2), tn_set(m, "b.w", two, 2), tn_set(n, "w", two, 2), tn_set(n, "scratch", two, 2);
  CHECK(tn_load_merged(parts, 2, file, false) == TN_OK);
  CHECK(first_of(m, "w", 2) == 1 && first_of(m, "b.w", 2) == 2 && first_of(n, "w", 2) == 3);
  CHECK(first_of(n, "scratch", 2) == 8);  // was not saved
  tn_set(m, "w", two, 2);
  CHECK(tn_load(n, file, false) == TN_ERR_FILE);
  CHECK_HAS(tn_error_text(n), "'enc.b.w' is no parameter of this program; 'enc.w' is no parameter of this program");
  tn_load_report r;
  CHECK(tn_load_partial(n, file, false, &r) == TN_OK && r.n_loaded == 1 && r.n_extra == 2 && r.n_missing == 0);
  CHECK(!strcmp(r.extra[0], "enc.b.w") && !strcmp(r.extra[1], "enc.w"));
  parts[1].prefix = "dec.";
  CHECK(tn_load_merged(parts, 2, file, false) == TN_ERR_FILE);
  CHECK_HAS(tn_error_text(m), ": 'dec.w' is missing; 'w' is no parameter of this program");
  CHECK(first_of(m, "w", 2) == 8);
  parts[0].prefix = "", parts[1].prefix = "b.";
  CHECK(tn_save_merged(parts, 2, "clash", false) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "clash: the name 'b.w' is given twice: by 'b.w' of store 1 with prefix '' and by 'w' "
                              "of store 2 with prefix 'b.'; they were made at ");
  const char *places = strstr(tn_error_text(m), "they were made at ");
  CHECK_HAS(places, "test_variables.c:");
  CHECK_HAS(strstr(places, " and "), "test_variables.c:");
  CHECK(access("clash", F_OK) != 0);
  parts[1].model = m;
  CHECK(tn_load_merged(parts, 2, file, false) == TN_ERR_ARGUMENT);
  tn_model_free(m), tn_model_free(n);
  tn_program_free(p), tn_program_free(q);
}

static void merged_state(void) {
  tn_program *p = tn_program_create("one");
  build_groups(p, NULL, &(tn_sgd_options){.momentum = 0.5}, NULL);
  tn_model *m = model_of(p), *n = tn_instance(m, 3), *k = tn_instance(m, 4), *l = tn_instance(m, 5);
  run_steps(m, 3), run_steps(n, 1);
  CHECK(tn_save_merged((tn_part[]){{m, "m."}, {n, "n."}}, 2, file, true) == TN_OK);
  CHECK(tn_load_merged((tn_part[]){{k, "m."}, {l, "n."}}, 2, file, true) == TN_OK);
  run_steps(m, 1), run_steps(n, 1), run_steps(k, 1), run_steps(l, 1);
  check_same(m, k);
  check_same(n, l);
  CHECK(tn_load_merged((tn_part[]){{k, "m."}}, 1, file, true) == TN_ERR_FILE);
  tn_model_free(m), tn_model_free(n), tn_model_free(k), tn_model_free(l);
  tn_program_free(p);
}

// Loading is refused whole at a wrong shape, partially or not; narrow files come back within their precision.
static void partial(void) {
  tn_program *p = tn_program_create("one"), *q = tn_program_create("two");
  entry(p, "a", 3, 1.2345678), entry(p, "b", 2, 1);
  entry(q, "a", 3, 7), entry(q, "b", 4, 7), entry(q, "c", 1, 7);
  tn_model *m = store_of(p), *n = store_of(q);
  tn_load_report r;
  CHECK(tn_save_as(m, file, &(tn_save_options){.dtype = TN_FILE_BF16, .pattern = "a"}) == TN_OK);
  CHECK(tn_load(n, file, false) == TN_ERR_FILE);
  CHECK_HAS(tn_error_text(n), "'b' has shape [2], expected [4]");
  CHECK(first_of(n, "a", 3) == 7);
  CHECK(tn_load_partial(n, file, false, &r) == TN_OK && r.n_loaded == 1 && first_of(n, "a", 3) == 1.234375f);
  CHECK(r.n_mismatched == 1 && !strcmp(r.mismatched[0], "b") && r.n_missing == 1 && !strcmp(r.missing[0], "c"));
  CHECK(tn_load(m, file, false) == TN_OK && first_of(m, "a", 3) == 1.234375f && first_of(m, "b", 2) == 1);
  tn_initialize(m, 0);
  for (int t = 0; t <= TN_FILE_F64; t++) {
    CHECK(tn_save_as(m, file, &(tn_save_options){.dtype = (tn_file_dtype)t}) == TN_OK);
    CHECK(tn_load(m, file, false) == TN_OK && first_of(m, "a", 3) == 1.2345678f);
  }
  CHECK(tn_save_as(m, file, &(tn_save_options){.dtype = (tn_file_dtype)9}) == TN_ERR_ARGUMENT);
  CHECK(tn_load_partial(n, "no/such/file", false, &r) == TN_ERR_FILE && tn_load_partial(n, NULL, false, &r) != TN_OK);
  for (uint64_t k = 1; k < 12; k++) {
    rt_malloc_fail_at(k);
    tn_status s = tn_load_partial(m, file, false, &r), t = tn_copy_params(m, n, false), u = tn_save_as(m, file, NULL);
    rt_malloc_fail_at(0);
    CHECK((s == TN_OK || s == TN_ERR_MEMORY) && (t == TN_ERR_ARGUMENT || t == TN_ERR_MEMORY) &&
          (u == TN_OK || u == TN_ERR_MEMORY));
  }
  tn_model_free(m), tn_model_free(n);
  tn_program_free(p), tn_program_free(q);
}

// A program without parameters takes nothing from a file, and lacks nothing that the file has.
static void partial_without_parameters(void) {
  tn_program *p = tn_program_create("full"), *q = tn_program_create("empty");
  entry(p, "a", 3, 1), entry(p, "b", 2, 1);
  tn_model *m = store_of(p), *n = store_of(q);
  tn_load_report r;
  CHECK(tn_save(m, file, false) == TN_OK && tn_load_partial(n, file, false, &r) == TN_OK);
  CHECK(r.n_loaded == 0 && r.n_missing == 0 && r.n_mismatched == 0 && r.n_extra == 2);
  CHECK(r.n_extra == 2 && !strcmp(r.extra[0], "a") && !strcmp(r.extra[1], "b"));
  CHECK_HAS(tn_warning_text(n), "the file has 2 entries and the program has no parameters");
  tn_model_free(m), tn_model_free(n);
  tn_program_free(p), tn_program_free(q);
}

// Both have entries, and none in common: a prefix is forgotten.
static void partial_of_nothing(void) {
  tn_program *p = tn_program_create("prefixed"), *q = tn_program_create("plain");
  entry(p, "model.a", 3, 1), entry(q, "a", 3, 1), entry(q, "b", 2, 1);
  tn_model *m = store_of(p), *n = store_of(q);
  tn_load_report r;
  CHECK(tn_save(m, file, false) == TN_OK && tn_load_partial(n, file, false, &r) == TN_OK && r.n_loaded == 0);
  CHECK_HAS(tn_warning_text(n), "W134: ");
  CHECK_HAS(tn_warning_text(n), "the file has 'model.a', the program 'a'");
  CHECK(tn_save(n, file, false) == TN_OK && tn_load_partial(n, file, false, &r) == TN_OK && r.n_loaded == 2);
  CHECK(!*tn_warning_text(n));
  tn_model_free(m), tn_model_free(n);
  tn_program_free(p), tn_program_free(q);
}

// Names that both have are of another shape.
static void partial_of_other_shapes(void) {
  tn_program *p = tn_program_create("three"), *q = tn_program_create("five");
  entry(p, "a", 3, 1), entry(q, "a", 5, 1);
  tn_model *m = store_of(p), *n = store_of(q);
  tn_load_report r;
  CHECK(tn_save(m, file, false) == TN_OK && tn_load_partial(n, file, false, &r) == TN_OK && r.n_mismatched == 1);
  CHECK_HAS(tn_warning_text(n), "W134: ");
  CHECK_HAS(tn_warning_text(n), "nothing was loaded: 'a' of the file has another shape or dtype");
  tn_model_free(m), tn_model_free(n);
  tn_program_free(p), tn_program_free(q);
}

// Optimizers' entries have the same names in both; no weight has.
static tn_model *trained(const char *name) {
  tn_program *p = tn_program_create("trained");
  tn_parameter(tn_root(p), name, TN_SHAPE(2), (tn_init){TN_INIT_CONSTANT, 1, 0});
  tn_function *f = tn_function_begin(p, "step");
  tn_backward(tn_sum(tn_param_value(f, tn_root(p), name)));
  tn_adamw(f, tn_root(p), .lr = 0.1);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .cache_dir = "");
  tn_program_free(p);
  return m;
}
static void partial_of_state_alone(void) {
  tn_model *m = trained("a"), *n = trained("b");
  tn_load_report r;
  CHECK(m && n && tn_save(m, file, true) == TN_OK && tn_load_partial(n, file, true, &r) == TN_OK && r.n_loaded > 0);
  CHECK_HAS(tn_warning_text(n), "W134: ");
  tn_model_free(m), tn_model_free(n);
}

// Names that mean something else in a file are refused where they are made, or else before anything is written.
static void kept_names(void) {
  static const char *const kept[] = {"__metadata__", "tenure", "optimizer"};
  for (size_t k = 0; k < 3; k++) {
    tn_program *p = tn_program_create("kept");
    tn_parameter(tn_root(p), kept[k], TN_SHAPE(2), ones);
    CHECK(tn_n_errors(p) == 1);
    CHECK_HAS(report_of(p), "is kept for");
    tn_program_free(p);
  }
  tn_program *p = tn_program_create("below");
  entry(p, "sub.__metadata__", 2, 3), entry(p, "w__", 2, 5);
  tn_model *m = store_of(p);
  CHECK(tn_save(m, file, true) == TN_OK && tn_load(m, file, true) == TN_OK && first_of(m, "sub.__metadata__", 2) == 3);
  static const char *const prefixes[] = {"__metadata", "\xff", "a\xc3"};
  static const char *const why[] = {"the entry '__metadata__' is kept for the format's own use",
                                    "' is not UTF-8: no file can have it", "is not UTF-8"};
  tn_program *q = tn_program_create("one");
  entry(q, "__", 2, 7);
  tn_model *n = store_of(q);
  for (size_t k = 0; k < 3; k++) {
    CHECK(tn_save_merged(&(tn_part){k ? m : n, prefixes[k]}, 1, file, false) == TN_ERR_ARGUMENT);
    CHECK_HAS(tn_error_text(k ? m : n), why[k]);
  }
  CHECK(tn_save_merged(&(tn_part){n, "\n\x01\"\\ \u00e9."}, 1, file, false) == TN_OK);  // escaped
  tn_initialize(n, 0);
  CHECK(tn_load_merged(&(tn_part){n, "\n\x01\"\\ \u00e9."}, 1, file, false) == TN_OK && first_of(n, "__", 2) == 7);
  CHECK(tn_save_with(m, file, false, &(tn_extra){"\x80", NULL, 0}, 1) == TN_ERR_ARGUMENT);
  tn_model_free(m), tn_model_free(n);
  tn_program_free(p), tn_program_free(q);
}

// The metadata tells other readers what a second path names; its own keys are no such path.
static void second_names(void) {
  tn_program *p = tn_program_create("second");
  entry(p, "w", 2, 3);
  tn_share(tn_root(p), "format", tn_root(p), "w");
  CHECK(tn_n_errors(p) == 1);
  CHECK_HAS(report_of(p), "a second path 'format' is kept for the metadata");
  tn_program_free(p);
  p = tn_program_create("second");
  entry(p, "w", 2, 3);
  tn_share(tn_root(p), "mat", tn_root(p), "w");
  tn_share(tn_module_new(tn_root(p), "sub"), "format", tn_root(p), "w");
  tn_model *m = store_of(p);
  CHECK(tn_save(m, file, true) == TN_OK && tn_load(m, file, true) == TN_OK);
  CHECK(tn_save_merged(&(tn_part){m, "for"}, 1, file, false) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "the second name 'format' is kept for the format's own use");
  tn_model_free(m);
  tn_program_free(p);
}

// Any allocation may fail: a status, nothing leaked, and what was there before works on.
static tn_model *build_all(uint64_t fail_at, tn_model *from) {
  rt_malloc_fail_at(fail_at);
  tn_program *p = tn_program_create("memory");
  tn_module *root = p ? tn_root(p) : NULL;
  tn_variable v[4];
  if (p) build_groups(p, &(tn_group_options){.momentum = 0.5}, &(tn_sgd_options){.lr = 0.125}, NULL);
  tn_transient_buffer(root, "t", TN_SHAPE(2), zeros);
  tn_freeze_path(root, "b", false);
  tn_module_at_path(root, "x/y");
  tn_variables(root, NULL, v, 4);
  tn_model *m = p && tn_n_errors(p) == 0 ? tn_compile(p) : NULL;
  if (m) tn_copy_params(m, from, true), tn_load_partial(m, file, true, NULL);
  rt_malloc_fail_at(0);
  CHECK(!p || m || tn_n_errors(p) > 0);
  tn_program_free(p);
  return m;
}

static void out_of_memory(void) {
  tn_program *p = tn_program_create("memory");
  build_groups(p, NULL, &(tn_sgd_options){.lr = 0.125, .momentum = 0.5}, NULL);
  tn_model *m = model_of(p);
  run_steps(m, 2);
  CHECK(tn_save(m, file, true) == TN_OK);
  float before = first_of(m, "a", 5);
  for (uint64_t n = 1; n < 40; n++) tn_model_free(build_all(n, m));
  CHECK(first_of(m, "a", 5) == before);
  run_steps(m, 1);
  tn_model_free(m);
  tn_program_free(p);
}

int main(void) {
  snprintf(file, sizeof file, "test_variables.%ld.safetensors", (long)getpid());
  patterns();
  narrow_numbers();
  variables();
  penalties();
  freezing();
  set_between_runs();
  group_mistakes();
  ties();
  copies();
  merged();
  merged_state();
  partial();
  partial_without_parameters();
  partial_of_nothing();
  partial_of_other_shapes();
  partial_of_state_alone();
  kept_names();
  second_names();
  out_of_memory();
  remove(file);
  return check_report();
}
