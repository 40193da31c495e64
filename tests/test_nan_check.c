// TN_CHECK=nan: a run in which a kernel makes a NaN fails, and says which kernel, of which line, made the first one.
#include "frontend/tenure.h"
#include "tests/check.h"
#include <math.h>
#include <stdlib.h>

static tn_site at(int line) { return (tn_site){"user.c", line}; }

enum { COLS = 3, MOST = 64 };

// h = x w; l = ln h; y = mean over l, and its gradient as an update
static tn_model *model(tn_program *p) {
  tn_dim rows = tn_dim_bounded(p, "rows", MOST);
  tn_module *fc = tn_linear(tn_root(p), "fc", COLS, 4, .no_bias = true);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = (tn_input)(f, "x", TN_F32, TN_SHAPE(rows, COLS), at(1));
  tn_tensor h = (tn_square)((tn_call)(fc, x, at(2)), at(3));
  tn_tensor l = (tn_log)((tn_add_scalar)(h, -1e-3, at(4)), at(5));
  tn_tensor loss = (tn_mean)((tn_softmax)(l, -1, at(6)), at(7));
  tn_backward(loss);
  tn_sgd(f, fc, .lr = 0.1);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  return tn_compile(p, .seed = 2);
}

int main(void) {
  float x[MOST * COLS], loss = 0;
  setenv("TN_CHECK", "nan", 1);
  tn_program *p = tn_program_create("nan");
  tn_model *m = model(p);
  if (!CHECK(m)) return check_report();
  for (int k = 0; k < MOST * COLS; k++) x[k] = (float)(1 + k % 7);
  for (int rows = 5; rows <= MOST; rows += 59)  // what a run does not use is no NaN
    CHECK(tn_run(m, "step", TN_IN(tn_f32(x, rows, COLS)), TN_OUT(tn_f32_scalar(&loss))) == TN_OK && isfinite(loss));
  for (int k = 0; k < COLS; k++) x[2 * COLS + k] = 0;  // ln -0.001
  CHECK(tn_run(m, "step", TN_IN(tn_f32(x, 5, COLS)), TN_OUT(tn_f32_scalar(&loss))) == TN_ERR_VALUE);
  const char *said = tn_error_text(m);
  if (!CHECK(strstr(said, "the first NaN of the run is in ") && strstr(said, "user.c:"))) printf("  %s\n", said);
  CHECK(!strstr(said, "user.c:2)"));  // the product has none
  printf("%s\n", said);
  tn_model_free(m);
  tn_program_free(p);

  unsetenv("TN_CHECK");  // without it the run goes on
  p = tn_program_create("nan");
  m = model(p);
  CHECK(m && tn_run(m, "step", TN_IN(tn_f32(x, 5, COLS)), TN_OUT(tn_f32_scalar(&loss))) == TN_OK && isnan(loss));
  tn_model_free(m);
  tn_program_free(p);
  return check_report();
}
