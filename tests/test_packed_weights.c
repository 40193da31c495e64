// Packed copies of weights: made once per change, whatever the change, and never out of date. A model with them and one
// without go through the same random history, with results equal in every bit; the counters say how often copies were
// made.
#include "frontend/tenure.h"
#include "tests/check.h"

#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 20, IN = 48, HIDDEN = 96, OUT = 40, STEPS = 60 };

// ---- a model: two layers, the second one's weight tied to a third; a table that only some functions read
typedef struct {
  tn_program *p;
  tn_model *m;
  tn_dim B;
} Net;

static tn_tensor input(Net *n, tn_function *f) { return tn_input(f, "x", TN_F32, TN_SHAPE(n->B, IN)); }

static void build_predict(Net *n, const char *name, bool again) {
  tn_function *f = tn_function_begin(n->p, name);
  tn_tensor h = tn_relu(tn_call(tn_child(tn_root(n->p), "fc"), input(n, f)));
  tn_tensor y = tn_call(tn_child(tn_root(n->p), "head"), h);
  if (again) y = tn_add(y, tn_call(tn_child(tn_root(n->p), "tied"), tn_mul(h, h)));
  tn_output(f, "y", y);
  tn_function_end(f);
}

// Reads the weight of fc as [K, N]: a copy of its own.
static void build_back(Net *n) {
  tn_function *f = tn_function_begin(n->p, "back");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(n->B, IN));
  tn_tensor h = tn_call(tn_child(tn_root(n->p), "fc"), x);
  tn_output(f, "y", tn_matmul(h, tn_param_value(f, tn_child(tn_root(n->p), "fc"), "weight")));
  tn_function_end(f);
}

static void build_step(Net *n, const char *name, bool only_head) {
  tn_function *f = tn_function_begin(n->p, name);
  tn_module *head = tn_child(tn_root(n->p), "head");
  tn_tensor h = tn_relu(tn_call(tn_child(tn_root(n->p), "fc"), input(n, f)));
  tn_tensor loss = tn_mean(tn_square(tn_call(head, h)));
  tn_output(f, "loss", loss);
  tn_backward(loss);
  if (only_head) tn_sgd(f, head, .lr = 0.1);
  else tn_adamw(f, tn_root(n->p), .lr = 0.01);
  tn_function_end(f);
}

static void build_scale(Net *n) {
  tn_function *f = tn_function_begin(n->p, "scale");
  tn_no_grad_begin(f);
  tn_mul_(tn_param_value(f, tn_child(tn_root(n->p), "fc"), "weight"), tn_scalar(f, 0.75));
  tn_no_grad_end(f);
  tn_output(f, "one", tn_scalar(f, 1));
  tn_function_end(f);
}

static Net build(bool packs, uint32_t n_workers) {
  Net n = {.p = tn_program_create("packed")};
  tn_module *root = tn_root(n.p);
  n.B = tn_dim_bounded(n.p, "batch", ROWS);
  tn_linear(root, "fc", IN, HIDDEN);
  tn_module *head = tn_linear(root, "head", HIDDEN, OUT, .no_bias = true);
  tn_share_module(root, "tied", head);
  build_predict(&n, "predict", false);
  build_predict(&n, "both", true);
  build_back(&n);
  build_step(&n, "train", false);
  build_step(&n, "head_step", true);
  build_scale(&n);
  tn_bucket small[] = {{n.B, 17}};
  tn_compile_options o = {.seed = 5, .no_packed_weights = !packs, .n_workers = n_workers, .buckets = small};
  o.n_buckets = 1;
  n.m = (tn_compile)(n.p, o);
  if (!CHECK(n.m)) tn_report(n.p, stdout), exit(1);
  return n;
}

static void drop(Net *n) {
  tn_model_free(n->m);
  tn_program_free(n->p);
}

// ---- runs
static uint32_t state = 1;
static uint32_t below(uint32_t n) {
  state = state * 1664525 + 1013904223;
  return (state >> 16) % n;
}

static float x_of(uint32_t k) { return (float)((k * 2654435761u >> 9) % 1000) / 500 - 1; }

typedef struct {
  float y[ROWS * IN];
  int64_t n;
} Result;

static void run(tn_model *m, const char *name, int64_t rows, Result *out) {
  static float x[ROWS * IN];
  for (uint32_t k = 0; k < ROWS * IN; k++) x[k] = x_of(k + (uint32_t)rows);
  tn_array in = tn_f32(x, rows, IN), to = tn_f32_scalar(out->y);
  bool wide = !strcmp(name, "back"), many = wide || !strcmp(name, "predict") || !strcmp(name, "both");
  if (many) to = tn_f32(out->y, rows, wide ? IN : OUT);
  out->n = many ? rows * to.dims[1] : 1;
  if (!CHECK(!tn_run(m, name, &in, strcmp(name, "scale") != 0, &to, 1))) printf("%s: %s\n", name, tn_error_text(m));
}

static void predict(tn_model *m, uint64_t want) {
  Result r;
  run(m, "predict", ROWS, &r);
  if (!CHECK(tn_n_weight_packs(m) == want))
    printf("  %llu, not %llu\n", (unsigned long long)tn_n_weight_packs(m), (unsigned long long)want);
}

static void new_values(float *w, size_t n, uint32_t seed) {
  for (size_t k = 0; k < n; k++) w[k] = x_of((uint32_t)k + 77 * seed) / 8;
}

// ---- counters
static void test_counts(void) {
  Net n = build(true, 2), off = build(false, 2);
  tn_plan plan, none;
  CHECK(!tn_plan_of(n.m, "predict", &plan) && !tn_plan_of(off.m, "predict", &none));
  // fc as [N, K] and as [K, N], and head, which "both" reads under two names
  int64_t bytes = 4 * (2 * HIDDEN * IN + HIDDEN * OUT);
  CHECK(plan.packed_bytes >= bytes && plan.packed_bytes < bytes * 3 / 2);  // columns fill panels
  CHECK(none.packed_bytes == 0);
  float w[IN * HIDDEN];
  Result r;
  CHECK(tn_n_weight_packs(n.m) == 0);
  for (int k = 0; k < 100; k++) predict(n.m, 2);
  run(n.m, "predict", 3, &r), run(n.m, "predict", 17, &r), run(n.m, "both", ROWS, &r);
  CHECK(tn_n_weight_packs(n.m) == 2);
  new_values(w, IN * HIDDEN, 1);
  CHECK(!tn_set(n.m, "fc.weight", w, IN * HIDDEN));
  predict(n.m, 3), predict(n.m, 3);
  CHECK(!tn_set(n.m, "fc.bias", w, HIDDEN) && !tn_set_lr_all(n.m, 0.02));
  predict(n.m, 3);
  run(n.m, "train", ROWS, &r), run(n.m, "train", ROWS, &r);
  CHECK(tn_n_weight_packs(n.m) == 3);  // it reads none
  predict(n.m, 5);
  run(n.m, "head_step", ROWS, &r);
  CHECK(tn_n_weight_packs(n.m) == 5);  // fc is not trained here: its copy is read, and right
  predict(n.m, 6);
  run(n.m, "scale", ROWS, &r);
  run(n.m, "back", ROWS, &r);
  CHECK(tn_n_weight_packs(n.m) == 8);
  CHECK(tn_set(n.m, "fc.weight", w, 1) == TN_ERR_ARGUMENT);  // refused: nothing changed
  predict(n.m, 8);
  run(off.m, "predict", ROWS, &r);
  CHECK(tn_n_weight_packs(off.m) == 0);
  drop(&n), drop(&off);
}

// ---- views
static void test_views(void) {
  Net n = build(true, 1);
  uint32_t fc = 0;
  Result before, after;
  while (strcmp(tn_param_path(n.m, fc), "fc.weight") != 0) fc++;
  predict(n.m, 2);
  tn_array view = tn_param_at(n.m, fc);
  predict(n.m, 3), predict(n.m, 4);
  run(n.m, "predict", ROWS, &before);
  for (int k = 0; k < IN * HIDDEN; k++) ((float *)view.data)[k] *= 2;
  run(n.m, "predict", ROWS, &after);
  CHECK(memcmp(before.y, after.y, sizeof(float) * (size_t)after.n) != 0 && tn_n_weight_packs(n.m) == 6);
  tn_param_end_write(n.m, fc), tn_param_end_write(n.m, 12345);
  predict(n.m, 7), predict(n.m, 7);
  CHECK(tn_n_weight_packs(NULL) == 0);
  drop(&n);
}

// ---- the same history with and without copies
typedef struct {
  tn_model *with, *without;
} Pair;
static const char *const functions[] = {"predict", "both", "back", "train", "head_step", "scale"};

static void change(Pair *a, const Pair *b, const char *path) {
  static float w[IN * HIDDEN];
  uint32_t seed = below(1000);
  char other[256];
  snprintf(other, sizeof other, "%s.2", path);
  switch (below(9)) {
  case 0:
    new_values(w, OUT * HIDDEN, seed);
    CHECK(!tn_set(a->with, "head.weight", w, OUT * HIDDEN) && !tn_set(a->without, "tied.weight", w, OUT * HIDDEN));
    break;
  case 1:
    new_values(w, IN * HIDDEN, seed);
    CHECK(!tn_set(a->with, "fc.weight", w, IN * HIDDEN) && !tn_set(a->without, "fc.weight", w, IN * HIDDEN));
    break;
  case 2: CHECK(!tn_initialize(a->with, seed) && !tn_initialize(a->without, seed)); break;
  case 3: CHECK(!tn_copy_params(a->with, b->with, true) && !tn_copy_params(a->without, b->without, true)); break;
  case 4:
    CHECK(!tn_save(b->with, path, true) && !tn_load(a->with, path, true) && !tn_load(a->without, path, true));
    break;
  case 5:
    CHECK(!tn_save_as(b->with, path, (&(tn_save_options){.dtype = TN_FILE_BF16, .pattern = "fc"})));
    CHECK(!tn_load_partial(a->with, path, false, NULL) && !tn_load_partial(a->without, path, false, NULL));
    break;
  case 6: {
    tn_part from[] = {{b->with, "p."}, {a->with, "q."}}, to[] = {{a->with, "p."}, {b->with, "q."}};
    tn_part same[] = {{a->without, "p."}, {b->without, "q."}};
    CHECK(!tn_save_merged(from, 2, other, true) && !tn_load_merged(to, 2, other, true));
    CHECK(!tn_load_merged(same, 2, other, true));
    break;
  }
  case 7: CHECK(!tn_set_lr_all(a->with, 0.02) && !tn_set_lr_all(a->without, 0.02)); break;
  default: CHECK(tn_load(a->with, "/nowhere", true) != TN_OK); break;
  }
}

static void compare(Pair *a) {
  Result x, y;
  const char *name = functions[below(sizeof functions / sizeof *functions)];
  int64_t rows = below(3) ? ROWS : 1 + below(ROWS);
  run(a->with, name, rows, &x), run(a->without, name, rows, &y);
  if (!CHECK(!memcmp(x.y, y.y, sizeof(float) * (size_t)x.n))) printf("  %s differs\n", name);
}

static void test_history(uint32_t n_workers) {
  char path[] = "/tmp/test_packed_weights.XXXXXX";
  int file = mkstemp(path);
  char other[sizeof path + 2];
  Net with = build(true, n_workers), without = build(false, 1);
  Pair pair[2] = {{with.m, without.m}, {tn_instance(with.m, 9), tn_instance(without.m, 9)}};
  CHECK(file >= 0 && pair[1].with && pair[1].without);
  for (int k = 0; k < STEPS; k++) {
    uint32_t which = below(2);
    change(&pair[which], &pair[!which], path);
    for (uint32_t j = below(4); j < 4; j++) compare(&pair[below(2)]);
  }
  CHECK(tn_n_weight_packs(pair[0].with) > 0 && tn_n_weight_packs(pair[1].with) > 0 &&
        tn_n_weight_packs(pair[1].without) == 0);
  snprintf(other, sizeof other, "%s.2", path);
  close(file), unlink(path), unlink(other);
  tn_model_free(pair[1].with), tn_model_free(pair[1].without);
  drop(&with), drop(&without);
}

int main(void) {
  test_counts();
  test_views();
  for (uint32_t n = 1; n <= 3; n++) test_history(n);
  return check_report();
}
