// Options of optimizers and groups that are out of range: the report names the option, its value and the line.
#include "frontend/tenure.h"
#include "tests/check.h"
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
  tn_module *m = tn_linear(tn_root(p), "fc", 3, 2, NULL);
  bool of_group = t->group.lr != 0 || t->group.weight_decay != 0;
  bool of_sgd = t->sgd.lr != 0 || t->sgd.momentum != 0;
  int line = __LINE__ + 1;
  if (of_group) tn_group(m, 1, "*", &t->group);
  tn_function *f = tn_function_begin(p, "step");
  tn_backward(tn_sum(tn_call1(m, tn_input(f, "x", TN_F32, TN_SHAPE(tn_size(4), tn_size(3))))));
  if (!of_group) line = __LINE__ + 1;
  of_sgd ? tn_sgd(f, m, &t->sgd) : tn_adam(f, m, &t->adam);
  tn_function_end(f);
  char place[48];
  snprintf(place, sizeof place, "test_option_errors.c:%d: error[E003]", line);
  CHECK(tn_n_errors(p) == 1);
  CHECK_HAS(report_of(p), t->expected);
  CHECK_HAS(report_of(p), place);
  tn_program_free(p);
}

int main(void) {
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) test_case(&cases[k]);
  return check_report();
}
