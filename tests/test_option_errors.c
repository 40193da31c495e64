// Options of optimizers and groups that are out of range: the report names the option, its value and the line.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/report.h"

#include <math.h>

typedef struct {
  tn_adamw_options adam;
  tn_sgd_options sgd;
  tn_group_options group;
  const char *expected;
} Case;

static const Case cases[] = {
    {.adam = {.lr = -1}, .expected = "lr of the optimizer is -1, expected a number above 0"},
    {.adam = {.lr = INFINITY}, .expected = "lr of the optimizer is inf, expected a number above 0"},
    {.adam = {.lr = 1e300}, .expected = "lr of the optimizer is 1e+300, expected a number above 0 that f32 holds"},
    {.adam = {.lr = 1e-300}, .expected = "lr of the optimizer is 1e-300, expected a number above 0 that f32 holds"},
    {.adam = {.eps = 1e39}, .expected = "eps of the optimizer is 1e+39, expected"},
    {.adam = {.beta2 = 1 - 1e-12},
     .expected = "beta2 of the optimizer is 1, expected a number above 0 and below 1, as f32"},
    {.adam = {.weight_decay = 1e300}, .expected = "weight_decay of the optimizer is 1e+300, expected"},
    {.sgd = {.momentum = 1e300}, .expected = "momentum of the optimizer is 1e+300, expected"},
    {.group = {.lr = 1e300}, .expected = "lr of the group is 1e+300, expected a number of 0 or more that f32 holds"},
    {.adam = {.beta1 = 1}, .expected = "beta1 of the optimizer is 1, expected a number above 0 and below 1"},
    {.adam = {.beta2 = -0.5}, .expected = "beta2 of the optimizer is -0.5, expected"},
    {.adam = {.eps = NAN}, .expected = "eps of the optimizer is nan, expected"},
    {.adam = {.weight_decay = -2}, .expected = "weight_decay of the optimizer is -2, expected a number of 0 or more"},
    {.sgd = {.momentum = -0.9}, .expected = "momentum of the optimizer is -0.9, expected"},
    {.sgd = {.lr = 1, .dampening = 2}, .expected = "dampening of the optimizer is 2, expected a number from 0 to 1"},
    {.sgd = {.lr = 1, .nesterov = true}, .expected = "momentum of the optimizer is 0, expected a number above 0 with"},
    {.sgd = {.momentum = 0.9, .dampening = 0.5, .nesterov = true},
     .expected = "dampening of the optimizer is 0.5, expected a number of 0 with nesterov"},
    {.group = {.lr = -3}, .expected = "lr of the group is -3, expected a number of 0 or more"},
    {.group = {.weight_decay = 0.1, .no_weight_decay = true}, .expected = "weight_decay of the group is 0.1, and no_"},
};

static void test_case(const Case *t) {
  tn_program *p = tn_program_create("options");
  tn_module *m = tn_linear(tn_root(p), "fc", 3, 2);
  bool of_group = t->group.lr != 0 || t->group.weight_decay != 0;
  bool of_sgd = t->sgd.lr != 0 || t->sgd.momentum != 0;
  int line = __LINE__ + 2;
  tn_group_options group = t->group;
  group.at = TN_SITE;
  if (of_group) (tn_group)(m, 1, "*", group);
  tn_function *f = tn_function_begin(p, "step");
  tn_backward(tn_sum(tn_call(m, tn_input(f, "x", TN_F32, TN_SHAPE(4, 3)))));
  tn_sgd_options sgd = t->sgd;
  tn_adamw_options adam = t->adam;
  if (!of_group) line = __LINE__ + 1;
  sgd.at = adam.at = TN_SITE;
  of_sgd ? (tn_sgd)(f, m, sgd) : (tn_adam)(f, m, adam);
  tn_function_end(f);
  char place[48];
  snprintf(place, sizeof place, "test_option_errors.c:%d: error[E003]", line);
  CHECK(tn_n_errors(p) == 1);
  CHECK_HAS(report_of(p), t->expected);
  CHECK_HAS(report_of(p), place);
  tn_program_free(p);
}

// ---- other options that become f32
static void check_modules(void) {
  tn_program *p = tn_program_create("modules");
  tn_module *root = tn_root(p);
  tn_parameter(root, "u", TN_SHAPE(2), (tn_init){TN_INIT_UNIFORM, -1e300, 1});
  CHECK_HAS(report_of(p), "'u' begins with -1e+300 and 1, which f32 does not hold");
  tn_buffer(root, "c", TN_SHAPE(2), (tn_init){TN_INIT_CONSTANT, 1e39, 0});
  CHECK_HAS(report_of(p), "'c' begins with 1e+39, which f32 does not hold");
  tn_buffer(root, "least", TN_SHAPE(2), (tn_init){TN_INIT_CONSTANT, INFINITY, 0});  // meant
  tn_layer_norm(root, "n", TN_SHAPE(2), .eps = 1e300);
  CHECK_HAS(report_of(p), "n takes a finite eps of 0 or more, not 1e+300");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor q = tn_input(f, "q", TN_F32, TN_SHAPE(4, 4));
  tn_scaled_dot_product_attention(q, q, q, .scale = 1e300);
  CHECK_HAS(report_of(p), "the scale of attention is 1e+300");
  CHECK(tn_n_errors(p) == 4);
  tn_program_free(p);
}

// ---- between runs: what is refused changes nothing
static void check_setters(void) {
  tn_program *p = tn_program_create("setters");
  tn_module *m = tn_linear(tn_root(p), "fc", 3, 2);
  tn_function *f = tn_function_begin(p, "step");
  tn_backward(tn_sum(tn_call(m, tn_input(f, "x", TN_F32, TN_SHAPE(4, 3)))));
  tn_sgd(f, tn_root(p), .lr = 0.5, .momentum = 0.25, .weight_decay = 0.125);
  tn_function_end(f);
  tn_model *model = model_of(p, .n_workers = 1);
  static const double wrong[] = {1e300, 4e38, -1, NAN, INFINITY};
  for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
    CHECK(tn_set_lr(model, 0, wrong[k]) == TN_ERR_ARGUMENT && tn_set_lr_all(model, wrong[k]) == TN_ERR_ARGUMENT);
    CHECK(tn_set_weight_decay(model, 0, wrong[k]) == TN_ERR_ARGUMENT);
    CHECK(tn_set_momentum_all(model, wrong[k]) == TN_ERR_ARGUMENT);
    CHECK_HAS(tn_error_text(model), "momentum cannot be ");
  }
  float lr, decay, momentum;
  CHECK(!tn_get(model, "optimizer.lr", &lr, 1) && !tn_get(model, "optimizer.weight_decay", &decay, 1) &&
        !tn_get(model, "optimizer.momentum", &momentum, 1) && lr == 0.5f && decay == 0.125f && momentum == 0.25f);
  CHECK(tn_set_lr(model, 0, 3e38) == TN_OK && !tn_get(model, "optimizer.lr", &lr, 1) && lr == 3e38f);
  tn_model_free(model);
  tn_program_free(p);
}

int main(void) {
  check_modules();
  check_setters();
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) test_case(&cases[k]);
  return check_report();
}
