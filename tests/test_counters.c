// Step counters of optimizers: several functions train several parameters, each counts how often it was stepped itself.
//
// After every step all parameters are PyTorch's (counter_goldens.txt). Parameters that always step together have one
// counter in the compiled program; files load into programs that divide them otherwise, or are refused as a whole.
#include "tests/check.h"
#include "tests/golden_file.h"
#include "tests/models.h"
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { N_STEPS = 10, N_VALUES = 16 };
#define D(n) tn_dim_const(n)
static const char *const steps[N_STEPS] = {"ab", "ab", "bc", "a", "table", "bc", "late", "ab", "table", "late"};
static const struct {
  const char *path;
  size_t n;
} parameters[] = {{"a", 2}, {"b", 2}, {"c", 2}, {"late", 2}, {"table.weight", 8}};
enum { N_PARAMETERS = sizeof parameters / sizeof *parameters };

typedef enum { ADAM, ADAMW, DAMPENED, MIXED, PLAIN } Kind;

static void train(tn_program *p, tn_function *f, Kind kind, const char *name) {
  double dampening = kind == DAMPENED || (kind == MIXED && !strcmp(name, "ab")) ? 0.5 : 0;
  tn_adamw_options adam = {.lr = 0.1, .weight_decay = 0.01};
  if (kind == ADAM) (tn_adam)(f, tn_root(p), adam);
  else if (kind == ADAMW) (tn_adamw)(f, tn_root(p), adam);
  else tn_sgd(f, tn_root(p), .lr = 0.05, .momentum = 0.9, .dampening = dampening, .weight_decay = 0.01);
}

static tn_tensor sum_of_product(tn_tensor a, tn_tensor b) { return tn_sum(tn_mul(a, b)); }

// The losses of make_counter_goldens.py
static tn_tensor loss_of(tn_program *p, tn_function *f, const char *name, tn_tensor x) {
  tn_module *root = tn_root(p);
  tn_tensor a = tn_param_value(f, root, "a"), c = tn_param_value(f, root, "c"), late = tn_param_value(f, root, "late");
  if (!strcmp(name, "ab")) {
    tn_tensor b = tn_param_value(f, root, "b"), loss = tn_add(sum_of_product(tn_mul(a, a), x), sum_of_product(b, x));
    return tn_add(loss, sum_of_product(late, a));
  }
  if (!strcmp(name, "bc")) return tn_add(sum_of_product(tn_param_value(f, root, "b"), c), sum_of_product(c, x));
  if (!strcmp(name, "a")) return sum_of_product(tn_sin(a), x);
  if (!strcmp(name, "late")) return sum_of_product(tn_mul(late, late), c);
  tn_tensor rows = tn_constant_i64(f, ((int64_t[]){2, 0}), TN_SHAPE(2));
  return sum_of_product(tn_call(tn_child(root, "table"), rows), a);
}

static void declare(tn_program *p) {
  for (int k = 0; k < N_PARAMETERS - 1; k++)
    tn_parameter(tn_root(p), parameters[k].path, TN_SHAPE(2), (tn_init){.kind = TN_INIT_ZEROS});
  tn_embedding(tn_root(p), "table", 4, 2);
}

static void add_function(tn_program *p, const char *name, Kind kind) {
  tn_function *f = tn_function_begin(p, name);
  tn_freeze_path(tn_root(p), "late", strcmp(name, "late") != 0);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(2));
  tn_backward(loss_of(p, f, name, x));
  train(p, f, kind, name);
  tn_function_end(f);
}

static tn_model *compiled(tn_program *p) {
  static const float start[N_VALUES] = {0.5f,  -1,    0.25f, 2, -0.75f, 1.5f, 1,    -0.5f,
                                        -0.3f, -0.2f, -0.1f, 0, 0.1f,   0.2f, 0.3f, 0.4f};
  tn_model *m = model_of(p, .n_workers = 1);
  const float *at = start;
  for (int k = 0; m && k < N_PARAMETERS; at += parameters[k++].n)
    CHECK(tn_set(m, parameters[k].path, at, parameters[k].n) == TN_OK);
  return m;
}

// The functions of the goldens, each training some of the parameters.
static tn_model *separate(tn_program *p, Kind kind) {
  static const char *const names[] = {"ab", "bc", "a", "table", "late"};
  declare(p);
  for (int k = 0; k < 5; k++) add_function(p, names[k], kind);
  return compiled(p);
}

// One function, which trains all.
static tn_model *joint(tn_program *p, Kind kind) {
  declare(p);
  tn_function *f = tn_function_begin(p, "all");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(2)), loss = loss_of(p, f, "ab", x);
  loss = tn_add(tn_add(loss, loss_of(p, f, "bc", x)), loss_of(p, f, "table", x));
  tn_backward(loss);
  train(p, f, kind, "all");
  tn_function_end(f);
  return compiled(p);
}

static void run(tn_model *m, const char *name, int k) {
  float x[2] = {1 + 0.5f * (float)k, 0.25f * (float)k - 1};
  if (!CHECK(tn_run(m, name, TN_IN(tn_f32(x, 2)), NULL, 0) == TN_OK)) printf("  %s\n", tn_error_text(m));
}

static void get_all(tn_model *m, float *v) {
  for (int k = 0; k < N_PARAMETERS; v += parameters[k++].n)
    CHECK(tn_get(m, parameters[k].path, v, parameters[k].n) == TN_OK);
}

static bool has(tn_model *m, const char *path) {
  float v;
  return tn_get(m, path, &v, 1) == TN_OK;
}

static bool counts(tn_model *m, const char *path, float want) {
  float v = -1;
  return tn_get(m, path, &v, 1) == TN_OK && v == want;
}

// ---- PyTorch's values
static void check_values(Kind kind, const double *golden) {
  tn_program *p = tn_program_create("values");
  tn_model *m = separate(p, kind);
  float v[N_VALUES];
  for (int k = 0; k < N_STEPS; k++) {
    run(m, steps[k], k);
    get_all(m, v);
    for (int i = 0; i < N_VALUES; i++, golden++)
      if (!CHECK(fabs((double)v[i] - *golden) < 2e-6 * (1 + fabs(*golden))))
        printf("  optimizer %d, step %d (%s), value %d: %.9g, PyTorch %.9g\n", kind, k, steps[k], i, (double)v[i],
               *golden);
  }
  tn_model_free(m);
  tn_program_free(p);
}

// ---- which entries there are
static void check_entries(void) {
  tn_program *p = tn_program_create("entries"), *q = tn_program_create("one");
  tn_model *m = separate(p, ADAM), *one = joint(q, ADAM);
  for (int k = 0; k < N_STEPS; k++) run(m, steps[k], k);
  CHECK(counts(m, "optimizer.step.a", 6) && counts(m, "optimizer.step.b", 5) && counts(m, "optimizer.step.c", 4) &&
        counts(m, "optimizer.step.late", 2) && counts(m, "optimizer.step.table.weight", 2));
  run(one, "all", 0);
  uint32_t n = 0;
  for (uint32_t k = 0; k < tn_param_count(one); k++) n += !strncmp(tn_param_path(one, k), "optimizer.step", 14);
  CHECK(n == 1);  // for all that step together
  for (int k = 0; k < N_PARAMETERS; k++) {
    char path[64];
    snprintf(path, sizeof path, "optimizer.step.%s", parameters[k].path);
    CHECK(counts(one, path, 1));
  }
  tn_model_free(m), tn_model_free(one);
  tn_program_free(p), tn_program_free(q);
  p = tn_program_create("dampened"), m = separate(p, DAMPENED);
  CHECK(has(m, "optimizer.momentum_step.a") && !has(m, "optimizer.step.a"));
  tn_model_free(m), tn_program_free(p);
  p = tn_program_create("mixed"), m = separate(p, MIXED);  // of what ab trains
  CHECK(has(m, "optimizer.momentum_step.a") && has(m, "optimizer.momentum_step.b") &&
        !has(m, "optimizer.momentum_step.c"));
  tn_model_free(m), tn_program_free(p);
  p = tn_program_create("plain"), m = separate(p, PLAIN);
  float buffer[2];
  CHECK(tn_get(m, "optimizer.momentum_buffer.a", buffer, 2) == TN_OK && !has(m, "optimizer.momentum_step.a"));
  tn_model_free(m), tn_program_free(p);
}

// ---- two optimizers, groups and scopes in one function: what steps together has one counter all the same
static void check_scopes(void) {
  tn_program *p = tn_program_create("scopes");
  tn_module *enc = tn_module_new(tn_root(p), "enc"), *dec = tn_module_new(tn_root(p), "dec");
  tn_module *both[2] = {enc, dec};
  for (int k = 0; k < 2; k++) tn_parameter(both[k], "w", TN_SHAPE(2), (tn_init){.kind = TN_INIT_ZEROS});
  tn_parameter(dec, "v", TN_SHAPE(2), (tn_init){.kind = TN_INIT_ZEROS});
  tn_group(dec, 3, "v", .lr = 0.5);
  for (int n = 0; n < 2; n++) {  // the second function trains in the other order
    tn_function *f = tn_function_begin(p, n ? "second" : "first");
    tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(2));
    tn_tensor loss =
        tn_add(sum_of_product(tn_param_value(f, enc, "w"), x), sum_of_product(tn_param_value(f, dec, "w"), x));
    tn_backward(tn_add(loss, sum_of_product(tn_param_value(f, dec, "v"), x)));
    for (int k = 0; k < 2; k++) {
      tn_scope *s = tn_scope_begin(f, "update");
      tn_adam(f, both[k ^ n], .lr = 0.25);
      tn_scope_end(s);
    }
    tn_function_end(f);
  }
  tn_model *m = model_of(p, .n_workers = 1);
  static const char *const paths[] = {"optimizer.step.enc.w", "optimizer.step.dec.w", "optimizer.step.dec.v"};
  run(m, "first", 0), run(m, "second", 0), run(m, "second", 0);
  for (int k = 0; k < 3; k++) CHECK(counts(m, paths[k], 3));
  float w[2], v[2];
  CHECK(!tn_get(m, "enc.w", w, 2) && !tn_get(m, "dec.v", v, 2));
  CHECK(fabsf(w[0] + 0.75f) < 1e-5f && fabsf(v[0] + 1.5f) < 1e-5f);  // equal gradients: lr each time
  tn_model_free(m);
  tn_program_free(p);
}

// ---- files: between programs that divide the parameters among functions in other ways
static void check_files(void) {
  char path[] = "/tmp/tn_test_counters_XXXXXX";
  int fd = mkstemp(path);
  CHECK(fd >= 0 && !close(fd));
  tn_program *p = tn_program_create("some"), *q = tn_program_create("all");
  tn_model *m = separate(p, ADAM), *other = tn_instance(m, 1);
  float a[N_VALUES], b[N_VALUES];
  for (int k = 0; k < 5; k++) run(m, steps[k], k);
  CHECK(tn_save(m, path, true) == TN_OK && tn_load(other, path, true) == TN_OK);
  for (int k = 5; k < N_STEPS; k++) run(m, steps[k], k), run(other, steps[k], k);
  get_all(m, a), get_all(other, b);
  CHECK(!memcmp(a, b, sizeof a));
  // one counter for all is taken by each of several
  tn_model *one = joint(q, ADAM);
  for (int k = 0; k < 3; k++) run(one, "all", k);
  CHECK(tn_save(one, path, true) == TN_OK);
  if (!CHECK(tn_load(m, path, true) == TN_OK)) printf("  %s\n", tn_error_text(m));
  get_all(one, a), get_all(m, b);
  CHECK(!memcmp(a, b, sizeof a) && counts(m, "optimizer.step.a", 3) && counts(m, "optimizer.step.late", 3));
  // several that differ are none that one stands for: refused, and nothing changes
  run(m, "a", 0);
  CHECK(tn_save(m, path, true) == TN_OK && tn_load(one, path, true) == TN_ERR_FILE);
  CHECK_HAS(tn_error_text(one),
            "'optimizer.step.a' and 'optimizer.step.b' are one parameter here and differ in the file");
  get_all(one, b);
  CHECK(!memcmp(a, b, sizeof a) && counts(one, "optimizer.step.a", 3));
  CHECK(tn_load(one, path, false) == TN_OK);
  tn_model_free(m), tn_model_free(other), tn_model_free(one);
  tn_program_free(p), tn_program_free(q);
  unlink(path);
}

int main(void) {
  RtArena *mem = rt_arena_new();
  const GoldenArrays goldens = golden_arrays(mem, "tests/counter_goldens");
  static const char *const names[] = {[ADAM] = "adam", [ADAMW] = "adamw", [DAMPENED] = "dampened", [MIXED] = "mixed"};
  for (Kind k = ADAM; k <= MIXED; k++) check_values(k, golden_array(&goldens, names[k], N_STEPS * N_VALUES));
  check_entries();
  check_scopes();
  check_files();
  rt_arena_free(mem);
  return check_report();
}
