// Updates take a clip factor as an operand (ir/passes/rewrites/fold_grad_scale.c): the same bits as with scaled gradients that are made because
// they are handed out, no kernel for the scaling, for every optimizer; rank 0 to 2, sizes with and without tails.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/optimizers.h"

#include <stdio.h>
#include <string.h>

enum { N_PARAMS = 4, STEPS = 3 };

static void declare(tn_module *m, uint32_t k, const char *name) {
  tn_init init = {TN_INIT_UNIFORM, -1, 1};
  switch (k) {
  case 0: tn_parameter(m, name, TN_SHAPE(70, 33), init); break;
  case 1: tn_parameter(m, name, TN_SHAPE(1, 5000), init); break;
  case 2: tn_parameter(m, name, TN_SHAPE(3), init); break;
  default: tn_parameter(m, name, TN_SCALAR, init);
  }
}

// A step for every optimizer; with `made`, it hands out its scaled gradients.
static tn_model *compile(bool made, tn_program **program, uint32_t workers) {
  tn_program *p = *program = tn_program_create("scaled");
  tn_function *f[N_WAYS];
  for (uint32_t way = 0; way < N_WAYS; way++) {
    char name[16];
    snprintf(name, sizeof name, "f%u", way);
    tn_module *m = tn_module_at_path(tn_root(p), name);
    f[way] = tn_function_begin(p, name);
    tn_tensor loss = tn_scalar(f[way], 0);
    for (uint32_t k = 0; k < N_PARAMS; k++) {
      snprintf(name, sizeof name, "p%u", k);
      declare(m, k, name);
      tn_tensor x = tn_param_value(f[way], m, name);
      loss = tn_add(loss, tn_sum(tn_mul(tn_mul(x, x), x)));
    }
    tn_backward(loss);
    tn_clip_grad_norm(f[way], m, 0.5);
    for (uint32_t k = 0; made && k < N_PARAMS; k++) {
      snprintf(name, sizeof name, "p%u", k);
      tn_output(f[way], name, tn_param_grad(f[way], m, name));
    }
    update(f[way], m, way);
    tn_output(f[way], "loss", loss);
    tn_function_end(f[way]);
  }
  return model_of(p, .n_workers = workers, .seed = 5);
}

static void train(tn_model *m, bool made) {
  static float grad[N_PARAMS][5000];
  float loss;
  for (uint32_t k = 0; k < N_WAYS * STEPS; k++) {
    char name[8];
    snprintf(name, sizeof name, "f%u", k % N_WAYS);
    tn_array with[] = {tn_f32(grad[0], 70, 33), tn_f32(grad[1], 1, 5000), tn_f32(grad[2], 3), tn_f32_scalar(grad[3]),
                       tn_f32_scalar(&loss)};
    int ok = made ? tn_run(m, name, NULL, 0, with, 5) : tn_run(m, name, NULL, 0, with + 4, 1);
    if (!CHECK(ok == TN_OK)) printf("  %s\n", tn_error_text(m));
  }
}

static void compare(tn_model *a, tn_model *b, uint32_t workers) {
  for (uint32_t k = 0;; k++) {
    tn_array x = tn_param_at(a, k), y = tn_param_at(b, k);
    if (!x.data) break;
    size_t n = sizeof(float);
    for (uint32_t i = 0; i < x.rank; i++) n *= (size_t)x.dims[i];
    if (!CHECK(!memcmp(x.data, y.data, n))) printf("  parameter %u, %u workers\n", k, workers);
  }
}

static uint32_t n_kernels(tn_model *m, uint32_t way) {
  char name[8];
  tn_plan plan = {0};
  snprintf(name, sizeof name, "f%u", way);
  CHECK(tn_plan_of(m, name, &plan) == TN_OK);
  return plan.n_kernels;
}

int main(void) {
  tn_program *p, *q;
  tn_model *made = compile(true, &p, 1);
  if (!made) return check_report();
  train(made, true);
  for (uint32_t workers = 1; workers <= 3; workers++) {
    tn_model *m = compile(false, &q, workers);
    if (!m) break;
    train(m, false);
    compare(made, m, workers);
    for (uint32_t way = 0; way < N_WAYS; way++) CHECK(n_kernels(m, way) < n_kernels(made, way));
    tn_model_free(m);
    tn_program_free(q);
  }
  tn_model_free(made);
  tn_program_free(p);
  return check_report();
}
