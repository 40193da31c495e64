// Convolution modules: numbers that do not fit are refused where the module is made, values where it is called; the bias
// may go; tn_summary counts parameters and multiply-adds.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/report.h"

#include <stdlib.h>
#include <string.h>

static tn_program *quiet(void) { return tn_program_create("conv_modules"); }

#define REFUSED(text, made)                    \
  do {                                         \
    tn_program *p = quiet();                   \
    tn_module *net = tn_root(p);               \
    CHECK((made) != NULL);                     \
    CHECK(strstr(report_of(p), text) != NULL); \
    tn_program_free(p);                        \
  } while (0)

static void check_refused(void) {
  REFUSED("3 groups of 4 channels that become 6", tn_conv2d_module(net, "c", 4, 6, 3, .groups = 3));
  REFUSED("'c' has the sizes 0 and 6", tn_conv2d_module(net, "c", 0, 6, 3));
  REFUSED("the kernel has between 1 and 32768 elements", tn_conv2d_module(net, "c", 4, 6, 0));
  REFUSED("the kernel has between 1 and 32768 elements", tn_conv2d_module(net, "c", 4, 6, 3, .kernels = {3, -1}));
  REFUSED("padding `same` is possible with stride 1 only",
          tn_conv2d_module(net, "c", 4, 6, 3, .same = true, .strides = {1, 2}));
  REFUSED("zeros of a given number", tn_conv_transpose1d_module(net, "c", 4, 6, 3, .padding_mode = TN_PAD_CIRCULAR));
  REFUSED("zeros of a given number", tn_conv_transpose1d_module(net, "c", 4, 6, 3, .same = true));
  REFUSED("output padding is of transposed", tn_conv1d_module(net, "c", 4, 6, 3, .output_padding = 1));
  REFUSED("no such padding mode", tn_conv1d_module(net, "c", 4, 6, 3, .padding_mode = (tn_pad_mode)7));
}

static void check_values(void) {
  tn_program *p = quiet();
  tn_module *net = tn_root(p), *c = tn_conv2d_module(net, "c", 3, 4, 3);
  tn_function *f = tn_function_begin(p, "run");
  CHECK(tn_call(c, tn_input(f, "x", TN_F32, TN_SHAPE(2, 4, 5, 5))).v == 0);
  CHECK(tn_call(c, tn_input(f, "y", TN_F32, TN_SHAPE(2, 3, 5))).v == 0);
  CHECK(strstr(report_of(p), "module 'c' takes [N,3,H,W], not f32[2,4,5,5]") != NULL);
  CHECK(strstr(report_of(p), "module 'c' takes [N,3,H,W], not f32[2,3,5]") != NULL);
  tn_program_free(p);
}

static void check_summary(void) {
  tn_program *p = quiet();
  tn_module *net = tn_root(p), *c = tn_conv2d_module(net, "c", 3, 4, 3, .padding = 1);
  tn_function *f = tn_function_begin(p, "run");
  tn_output(f, "y", tn_call(c, tn_input(f, "x", TN_F32, TN_SHAPE(2, 3, 5, 5))));
  tn_function_end(f);
  char *text = NULL;
  size_t n = 0;
  FILE *out = open_memstream(&text, &n);
  tn_summary(f, net, out);
  fclose(out);
  if (!CHECK(strstr(text, "c (Conv2d)") && strstr(text, "112") && strstr(text, "5,400"))) printf("%s\n", text);
  free(text);
  tn_program_free(p);
}

int main(void) {
  check_refused();
  check_values();
  check_summary();
  return check_report();
}
