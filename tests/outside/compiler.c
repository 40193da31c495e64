// A program outside of the tree that builds and compiles a model (tests/test_install.sh, tests/test_packages.sh).
#include <stdio.h>
#include <tenure.h>

int main(void) {
  tn_program *p = tn_program_create("outside");
  tn_module *fc = tn_linear(tn_root(p), "fc", 8, 3);
  tn_function *f = tn_function_begin(p, "predict");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(tn_dim_bounded(p, "batch", 4), 8));
  tn_output(f, "y", tn_call(fc, x));
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  if (!m) tn_report(p, stderr);
  float xs[2 * 8] = {1}, ys[2 * 3];
  tn_status s = m ? tn_run(m, "predict", TN_IN(tn_f32(xs, 2, 8)), TN_OUT(tn_f32(ys, 2, 3))) : TN_ERR_BUILD;
  printf("%s\n", tn_status_text(s));
  tn_model_free(m);
  tn_program_free(p);
  return s != TN_OK;
}
