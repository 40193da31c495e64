// Who owns a parameter? The story of a weight, told by the ledger.
//
// In an eager framework with dispose scopes a tensor is made in a scope, wrapped as a parameter, registered in a
// module, and the scope ends. Whether the module still has its weight afterwards depends on which constructor was used,
// and the counters say something else again. Here the same steps are taken while a graph is built. Each has one answer,
// and the answer is there before anything runs.
#define TN_STORY
#include "tests/ledger.h"
#include <math.h>

static tn_program *p;
static tn_function *init;

// 1. A tensor becomes a parameter. It is the same value under a new owner: nothing is counted twice, and the old handle
// is dead at once, not when somebody happens to read it in the tenth epoch.
static void a_tensor_becomes_a_parameter(tn_module *fc) {
  tn_scope *s = tn_scope_begin(init, "draw");
  tn_tensor noise = tn_randn(init, TN_SHAPE(4, 8));
  tn_tensor w = tn_mul(noise, tn_scalar(init, 0.1));
  TENSORS(init, 2, 0, 3, 0, 0, 0, 5);  // the layer brought two parameters of its own; noise, 0.1 and w are new

  tn_parameter_adopt(fc, "weight", w);
  TENSORS(init, 2, 1, 3, 0, 0, 1, 4);  // the layer's first weight ended; w left the scope; no value was made
  CHECK(!tn_is_alive(w) && !owns(s, w) && tn_scope_count(s) == 2);

  tn_scope_end(s);  // noise and 0.1 end; the weight has an owner that lives on
  TENSORS(init, 2, 1, 3, 2, 0, 1, 2);
}

// 2. Giving a module the parameter that it has already changes nothing. (Elsewhere this destroys a bias.)
static void itself_again(tn_module *fc) {
  tn_parameter_adopt(fc, "weight", tn_param_value(init, fc, "weight"));
  tn_parameter_adopt(fc, "bias", tn_param_value(init, fc, "bias"));
  TENSORS(init, 2, 1, 3, 2, 0, 1, 2);
}

// 3. Two paths to one parameter: one value, one gradient, one slot in the optimizer. The first path is its name.
static void tied(tn_module *fc) {
  tn_module *again = tn_share_module(tn_root(p), "fc_again", fc);
  const char *name[4];
  CHECK(again && tn_named_parameters(tn_root(p), TN_NAMES_UNIQUE, name, 4) == 2);
  CHECK(!strcmp(name[0], "fc.weight") && !strcmp(name[1], "fc.bias"));
  CHECK(tn_named_parameters(tn_root(p), TN_NAMES_ALIASES, name, 4) == 4 && !strcmp(name[2], "fc_again.weight"));
}

static void build_step(tn_module *fc) {
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3, 8));
  tn_scope *s = tn_scope_begin(f, "forward");
  tn_tensor loss = tn_mean(tn_square(tn_add(tn_call(fc, x), tn_call(tn_child(tn_root(p), "fc_again"), x))));
  TENSORS(f, 0, 0, 5, 0, 0, 0, 5);  // two calls, a sum, its square and the mean: one value for each call of the user
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_sgd(f, tn_root(p), .lr = 0.05);
  tn_scope_end(s);
  TENSORS(f, 0, 0, 5, 5, 0, 0, 0);
  tn_function_end(f);
}

// 4. What was counted while building is a plan when it runs: no step allocates, and training works.
static void train(void) {
  tn_model *m = tn_compile(p);
  CHECK_REPORT(p, "");
  float x[24], weight[32], first = 0, loss = 0;
  for (int k = 0; k < 24; k++) x[k] = sinf((float)k);
  CHECK(m && tn_get(m, "fc_again.weight", weight, 32) == TN_OK && fabsf(weight[0]) < 1);
  for (int k = 0; k < 50 && m; k++) {
    CHECK(tn_run(m, "step", TN_IN(tn_f32(x, 3, 8)), TN_OUT(tn_f32_scalar(&loss))) == TN_OK);
    if (k == 0) first = loss;
  }
  CHECK(loss < first / 4);
  tn_model_free(m);
}

// 5. And the mistakes: each is told once, with both lines, before anything runs.
static void mistakes(void) {
  p = tn_program_create("mistakes");
  init = tn_init_function(p);
  tn_module *m = tn_module_new(tn_root(p), "m");
  tn_scope *s = (tn_scope_begin)(init, "draw", at(20));
  tn_tensor w = (tn_randn)(init, TN_SHAPE(4), at(21));
  tn_tensor q = (tn_as_parameter)(w, at(22));
  (tn_exp)(w, at(23));               // the handle that was taken over
  (tn_register)(m, "w", q, at(24));  // a scope would end it under the module
  tn_scope_end(s);
  CHECK_REPORT(p, "user.c:23: error[E102]: the result of tn_normal (f32[4]) is used after a parameter took it over\n"
                  "user.c:21: note: it was made here, in scope 'draw'\n"
                  "user.c:22: note: a parameter took it over here\n"
                  "hint: tn_as_parameter gives the handle to go on with\n"
                  "user.c:24: error[E109]: parameter 'm.w' is owned by scope 'draw', which ends before its module\n"
                  "user.c:21: note: it was made here, in scope 'draw'\n"
                  "user.c:20: note: scope 'draw' was opened here\n"
                  "hint: tn_detach_from_scope before, or tn_parameter_adopt, gives it to the module alone\n");
  CHECK(!tn_compile(p));
  tn_program_free(p);
}

int main(void) {
  p = tn_program_create("parameters");
  init = tn_init_function(p);
  tn_module *fc = tn_linear(tn_root(p), "fc", 8, 4);
  a_tensor_becomes_a_parameter(fc);
  itself_again(fc);
  tied(fc);
  build_step(fc);
  train();
  tn_program_free(p);
  mistakes();
  return check_report();
}
