// The story of clone and detach. In Burn a clone shares its tensor's buffer until somebody writes, counted at run time;
// in PyTorch a clone copies at once. Here a clone is a name: the compiler sees all later reads and writes, and copies
// where both versions are wanted. What it did is in the plan, so that the story can be checked.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include <stdlib.h>

#define D(n) tn_dim_const(n)

static tn_plan plan_of(const tn_model *m) {
  tn_plan plan = {0};
  CHECK(tn_plan_of(m, "run", &plan) == TN_OK);
  return plan;
}

// 1. Cloning costs nothing, and a chain of writes to a clone whose original is not needed any more costs no copy.
static void clone_of_a_dead_value(void) {
  tn_program *p = tn_program_create("dead");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(100, 3)), row = tn_input(f, "row", TN_F32, TN_SHAPE(1, 3));
  tn_tensor t = tn_exp(x), c = tn_clone(t);
  for (int k = 0; k < 10; k++) tn_slice_assign_(c, 0, 10 * k, row);
  tn_output(f, "c", tn_sum_axis(c, 0, false));
  tn_function_end(f);
  tn_model *m = model_of(p);
  float zeros[300] = {0}, hundred[3] = {100, 200, 300}, sum[3];
  CHECK(tn_run(m, "run", TN_IN(tn_f32(zeros, 100, 3), tn_f32(hundred, 1, 3)), TN_OUT(tn_f32(sum, 3))) == TN_OK);
  CHECK(sum[0] == 90 + 1000 && sum[1] == 90 + 2000 && sum[2] == 90 + 3000);
  CHECK(plan_of(m).n_copies == 0 && plan_of(m).n_inplace >= 10);
  tn_model_free(m);
  tn_program_free(p);
}

// 2. The original is still wanted: one copy, made before the first write, and the plan names the reader.
static void clone_of_a_living_value(void) {
  tn_program *p = tn_program_create("living");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(100, 3)), row = tn_input(f, "row", TN_F32, TN_SHAPE(1, 3));
  tn_tensor t = tn_exp(x), c = tn_clone(t);
  for (int k = 0; k < 10; k++) tn_slice_assign_(c, 0, 10 * k, row);
  tn_output(f, "c", tn_sum_axis(c, 0, false));
  tn_tensor total = tn_sum(t);
  int reader = __LINE__ - 1;
  tn_output(f, "t", total);
  tn_function_end(f);
  tn_model *m = model_of(p);
  float zeros[300] = {0}, hundred[3] = {100, 200, 300}, sum[3], all = 0;
  CHECK(tn_run(m, "run", TN_IN(tn_f32(zeros, 100, 3), tn_f32(hundred, 1, 3)),
               TN_OUT(tn_f32(sum, 3), tn_f32_scalar(&all))) == TN_OK);
  CHECK(sum[0] == 90 + 1000 && all == 300);
  tn_plan_copy copy = {0};
  CHECK(tn_plan_copies(m, "run", &copy, 1) == 1 && plan_of(m).copy_bytes == 1200);
  CHECK(!strcmp(copy.reader, "sum") && copy.reader_line == reader);
  tn_model_free(m);
  tn_program_free(p);
}

// 3. detach gives the same storage without its gradient: a write through it is seen in the original, gradients are not.
static void detach_shares(void) {
  tn_program *p = tn_program_create("detach");
  tn_parameter(tn_root(p), "w", TN_SHAPE(2), ((tn_init){TN_INIT_CONSTANT, 3, 0}));
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor w = tn_param_value(f, tn_root(p), "w"), y = tn_mul(w, w), constant = tn_detach(y);
  CHECK(tn_requires_grad(y) && !tn_requires_grad(constant));
  tn_backward(tn_sum(tn_mul(w, constant)));  // d/dw of w c is c = w^2
  tn_fill_(tn_slice(constant, 0, 0, 1), -1);
  tn_output(f, "y", y);
  tn_output(f, "g", tn_param_grad(f, tn_root(p), "w"));
  tn_function_end(f);
  tn_model *m = model_of(p);
  float v[2], g[2];
  CHECK(tn_run(m, "run", TN_NO_IN, TN_OUT(tn_f32(v, 2), tn_f32(g, 2))) == TN_OK);
  CHECK(v[0] == -1 && v[1] == 9 && g[0] == 9 && g[1] == 9);
  tn_model_free(m);
  tn_program_free(p);
}

// 4. A clone is differentiable, and keeps what it was cloned from while the original goes on.
static void clone_keeps(void) {
  tn_program *p = tn_program_create("keeps");
  tn_parameter(tn_root(p), "w", TN_SHAPE(2), ((tn_init){TN_INIT_CONSTANT, 3, 0}));
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor w = tn_param_value(f, tn_root(p), "w"), y = tn_mul(w, w), before = tn_clone(y);
  tn_mul_(y, tn_scalar(f, 10));
  tn_backward(tn_sum(tn_add(y, before)));  // 10 w^2 + w^2
  tn_output(f, "before", before);
  tn_output(f, "y", y);
  tn_output(f, "g", tn_param_grad(f, tn_root(p), "w"));
  tn_function_end(f);
  tn_model *m = model_of(p);
  float a[2], b[2], g[2];
  CHECK(tn_run(m, "run", TN_NO_IN, TN_OUT(tn_f32(a, 2), tn_f32(b, 2), tn_f32(g, 2))) == TN_OK);
  CHECK(a[0] == 9 && b[0] == 90 && g[0] == 66 && a[1] == 9 && b[1] == 90 && g[1] == 66);
  CHECK(plan_of(m).n_copies == 0);  // the product is a value of its own
  tn_model_free(m);
  tn_program_free(p);
}

// 5. Two losses over one subgraph, backward one after the other. At run time the first pass would have eaten the graph.
static void two_passes(void) {
  tn_program *p = tn_program_create("passes");
  tn_parameter(tn_root(p), "w", TN_SCALAR, ((tn_init){TN_INIT_CONSTANT, 2, 0}));
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor w = tn_param_value(f, tn_root(p), "w"), shared = tn_exp(w);
  tn_backward(tn_mul(shared, w));
  tn_output(f, "first", tn_param_grad(f, tn_root(p), "w"));
  tn_backward(tn_mul(shared, shared));  // adds to it
  tn_output(f, "both", tn_param_grad(f, tn_root(p), "w"));
  tn_function_end(f);
  tn_model *m = model_of(p);
  float first = 0, both = 0;
  CHECK(tn_run(m, "run", TN_NO_IN, TN_OUT(tn_f32_scalar(&first), tn_f32_scalar(&both))) == TN_OK);
  CHECK(first > 22.1671f && first < 22.1673f);  // e^2 (1 + 2)
  CHECK(both > 131.362f && both < 131.365f);    // + 2 e^4
  tn_model_free(m);
  tn_program_free(p);
}

int main(void) {
  clone_of_a_dead_value();
  clone_of_a_living_value();
  detach_shares();
  clone_keeps();
  two_passes();
  return check_report();
}
