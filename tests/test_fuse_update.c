// Updates that run in the kernel of the product which makes their gradient (ir/passes/fusion/fuse_update.c): the same bits as updates
// that stand apart because a norm waits for all gradients first; for every optimizer, for gradients that are packed,
// turned, wider than what waits on the stack, summed of two products or handed out as well; any number of rows and
// workers, own code and the library. Plan counters: kernels, and bytes that a run stores.
#include "codegen/target.h"
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/optimizers.h"
#include "tests/small_stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_LAYERS = 4, MOST_ROWS = 600 };
static const int64_t width[N_LAYERS + 1] = {100, 401, 333, 1300, 333};

typedef struct {
  bool apart, handed, twice;  // updates apart; a gradient is an output; a weight is used twice
  uint32_t from;              // the first optimizer
} Kind;

// A maximal norm that nothing exceeds: every gradient is multiplied by 1, once all are there.
static void step(tn_program *p, uint32_t way, Kind kind) {
  char name[8];
  snprintf(name, sizeof name, "f%u", way);
  tn_module *m = tn_module_at_path(tn_root(p), name), *layer[N_LAYERS];
  for (uint32_t k = 0; k < N_LAYERS; k++) {
    char fc[8];
    snprintf(fc, sizeof fc, "fc%u", k);
    layer[k] = tn_linear(m, fc, width[k], width[k + 1]);
  }
  tn_function *f = tn_function_begin(p, name);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(tn_dim_bounded(p, "rows", MOST_ROWS), width[0]));
  for (uint32_t k = 0; k < N_LAYERS; k++) {
    x = tn_tanh(tn_call(layer[k], x));
    if (kind.twice && k == 3) x = tn_tanh(tn_call(layer[3], tn_tanh(tn_call(layer[2], x))));
  }
  tn_tensor loss = tn_sum(tn_mul(x, x));
  tn_backward(loss);
  if (kind.handed) tn_output(f, "grad", tn_param_grad(f, layer[1], "weight"));
  if (kind.apart) tn_clip_grad_norm(f, m, 1e30);
  update(f, m, way);
  tn_output(f, "loss", loss);
  tn_function_end(f);
}

static tn_model *compile(Kind kind, uint32_t workers) {
  tn_program *p = tn_program_create("led");
  for (uint32_t way = kind.from; way < N_WAYS; way++) step(p, way, kind);
  return model_alone(p, .n_workers = workers, .seed = 5);
}

static void train(tn_model *m, Kind kind, int64_t rows) {
  static float x[MOST_ROWS * 100], grad[333 * 401];
  float loss = 0;
  for (uint32_t k = 0; k < MOST_ROWS * 100; k++) x[k] = (float)(k % 17) / 17 - 0.4f;
  tn_array out[] = {tn_f32(grad, 333, 401), tn_f32_scalar(&loss)};
  for (uint32_t way = kind.from; way < N_WAYS; way++) {
    char name[8];
    snprintf(name, sizeof name, "f%u", way);
    int ok = tn_run(m, name, TN_IN(tn_f32(x, rows, width[0])), out + !kind.handed, 1u + kind.handed);
    if (!CHECK(ok == TN_OK)) printf("  %s\n", tn_error_text(m));
  }
}

// By a thread with the stack that a run may need at most (tenure.h); workers have the system's.
typedef struct {
  tn_model *m;
  Kind kind;
  int64_t rows;
} Job;

static void *work(void *arg) {
  const Job *job = arg;
  train(job->m, job->kind, job->rows);
  return NULL;
}

static void train_on_small_stack(tn_model *m, Kind kind, int64_t rows) {
  Job job = {m, kind, rows};
  on_small_stack(work, &job);
}

static void compare(tn_model *a, tn_model *b, const char *what) {
  for (uint32_t k = 0;; k++) {
    tn_array x = tn_param_at(a, k), y = tn_param_at(b, k);
    if (!x.data) break;
    size_t n = sizeof(float);
    for (uint32_t i = 0; i < x.rank; i++) n *= (size_t)x.dims[i];
    if (!CHECK(!memcmp(x.data, y.data, n))) printf("  parameter %u, %s\n", k, what);
  }
}

static void try_all(Kind kind, uint32_t max_workers, uint32_t n, const int64_t *rows) {
  Kind apart = kind;
  char what[64];
  apart.apart = true;
  tn_model *a = compile(apart, 1);
  for (uint32_t i = 0; a && i < n; i++) train(a, kind, rows[i]);
  for (uint32_t workers = kind.handed || kind.twice ? max_workers : 1; a && workers <= max_workers; workers++) {
    tn_model *b = compile(kind, workers);
    for (uint32_t i = 0; b && i < n; i++) train_on_small_stack(b, kind, rows[i]);
    snprintf(what, sizeof what, "%u workers%s%s", workers, kind.handed ? " handed" : "", kind.twice ? " twice" : "");
    if (b) compare(a, b, what);
    tn_model_free(b);
  }
  tn_model_free(a);
}

// Each of the four weights' gradients has no memory, and no kernel of updates is left but that of the biases.
static void count(void) {
  uint32_t from = 2;
  tn_model *a = compile((Kind){.apart = true, .from = from}, 1), *b = compile((Kind){.from = from}, 1);
  tn_model *c = compile((Kind){.handed = true, .from = from}, 1);
  if (!a || !b || !c) return;
  int64_t weights = 0;
  for (uint32_t k = 0; k < N_LAYERS; k++) weights += 4 * width[k] * width[k + 1];
  for (uint32_t way = from; way < N_WAYS; way++) {
    char name[8];
    snprintf(name, sizeof name, "f%u", way);
    int64_t apart = tn_plan_bytes_written(a, name, NULL), led = tn_plan_bytes_written(b, name, NULL);
    int64_t handed = tn_plan_bytes_written(c, name, NULL);
    CHECK(apart - led >= weights && apart - led < weights + 1024);
    CHECK(handed - led == 4 * width[1] * width[2]);
    tn_plan with = {0}, without = {0};
    CHECK(tn_plan_of(a, name, &without) == TN_OK && tn_plan_of(b, name, &with) == TN_OK);
    // The library sums in memory; guards are counted too.
    CHECK(getenv("TN_CHECK") || with.peak_bytes <= without.peak_bytes);
  }
  tn_model_free(a), tn_model_free(b), tn_model_free(c);
}

// The best target here that has updates in epilogues.
static void choose_target(void) {
  char lack[TARGET_LACK];
  uint32_t n;
  const Target *t = cg_targets(&n);
  for (uint32_t k = 0; k < n; k++) {
    if (t[k].facts.update_bytes == INT64_MAX || !cg_target_runs_here(&t[k], lack)) continue;
    setenv("TN_TARGET", t[k].name, 1);
    return;
  }
}

int main(void) {
  choose_target();
  static const int64_t rows[] = {0, 1, 37, 300, MOST_ROWS};
  count();
  try_all((Kind){0}, 3, 5, rows);
  try_all((Kind){.twice = true, .from = 1}, 2, 1, rows + 2);
  try_all((Kind){.handed = true, .from = 3}, 3, 1, rows + 3);
  setenv("TN_GEMM", "blas", 1);
  try_all((Kind){.from = 3}, 1, 1, rows + 3);
  return check_report();
}
