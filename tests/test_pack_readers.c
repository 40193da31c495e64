// Pointwise readers of rows that are packed run in the kernel that packs them: kernels, and the same bits for any number
// of workers.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/report.h"

#include <stdlib.h>

enum { B = 37, T = 13, WIDE = 83, MOST = B * T };

// reads: packed rows are read by pointwise ops; else what is read was never packed.
static tn_program *build(bool reads) {
  tn_program *p = tn_program_create("readers");
  tn_function *f = tn_function_begin(p, "f");
  tn_dim batch = tn_dim_bounded(p, "batch", B);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(batch, T, WIDE)), n = tn_input(f, "n", TN_I64, TN_SHAPE(batch));
  tn_packed s = tn_pack_padded(x, n);
  if (reads) s = tn_packed_with_data(s, tn_mul(tn_tanh(tn_add(s.data, tn_scalar(f, 0.5))), s.data));
  tn_output(f, "y", tn_packed_sum(s));
  tn_function_end(f);
  return p;
}

static uint32_t run(bool reads, uint32_t n_workers, float *y) {
  static float x[B * T * WIDE];
  int64_t n[B];
  for (int k = 0; k < B * T * WIDE; k++) x[k] = (float)(k * 7919 % 1000) / 500 - 1;
  for (int k = 0; k < B; k++) n[k] = 1 + k * 5 % T;
  tn_program *p = build(reads);
  tn_model *m = tn_compile(p, .n_workers = n_workers);
  if (!CHECK(m != NULL)) printf("%s\n", report_of(p)), exit(1);
  CHECK(tn_run(m, "f", TN_IN(tn_f32(x, B, T, WIDE), tn_i64(n, B)), TN_OUT(tn_f32(y, B, WIDE))) == TN_OK);
  tn_plan plan = {0};
  CHECK(tn_plan_of(m, "f", &plan) == TN_OK);
  tn_model_free(m);
  tn_program_free(p);
  return plan.n_kernels;
}

int main(void) {
  static float one[B * WIDE], many[B * WIDE];
  CHECK(run(true, 1, one) == run(false, 1, many));
  for (uint32_t n = 2; n <= 3; n++) {
    run(true, n, many);
    CHECK(!memcmp(one, many, sizeof one));
  }
  return check_report();
}
