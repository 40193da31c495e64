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
  CHECK(strstr(report_of(p), "module 'c' takes [N,3,H,W], or one without N, not f32[2,4,5,5]") != NULL);
  CHECK(strstr(report_of(p), "module 'c' takes [N,3,H,W], or one without N, not f32[2,3,5]") != NULL);
  tn_program_free(p);
}

static void check_algorithm(void) {
  tn_program *p = quiet();
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(2, 3, 5, 5)), w = tn_input(f, "w", TN_F32, TN_SHAPE(4, 3, 3, 3));
  tn_tensor one = tn_input(f, "one", TN_F32, TN_SHAPE(4, 3, 1, 1));
  CHECK(tn_conv2d(x, w, TN_NONE, .algorithm = (tn_conv_algorithm)3).v == 0);
  CHECK(tn_conv2d(x, w, TN_NONE, .stride = 2, .algorithm = TN_CONV_WINOGRAD).v == 0);
  CHECK(tn_conv2d(x, one, TN_NONE, .algorithm = TN_CONV_WINOGRAD).v == 0);
  CHECK(tn_conv2d(x, one, TN_NONE, .algorithm = TN_CONV_EXACT).v != 0);
  CHECK(strstr(report_of(p), "the algorithm of a convolution is TN_CONV_AUTO, TN_CONV_EXACT or TN_CONV_WINOGRAD"));
  CHECK(strstr(report_of(p), "{algorithm} winograd is for windows of 3 x 3, stride 1, one group"));
  tn_module *c = tn_conv2d_module(tn_root(p), "c", 3, 4, 3, .algorithm = TN_CONV_WINOGRAD);
  char *text = NULL;
  size_t n = 0;
  FILE *out = open_memstream(&text, &n);
  tn_output(f, "y", tn_call(c, x));
  tn_function_end(f);
  tn_dump_function(p, "run", out, TN_DUMP_IR);
  fclose(out);
  CHECK(strstr(text, "algorithm=\"winograd\"") != NULL);
  free(text), tn_program_free(p);
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

// The parts of a list that is not called itself are told apart by its name.
static void check_names_in_summary(void) {
  tn_program *p = quiet();
  tn_module *net = tn_module_new(tn_root(p), "net"), *first = tn_module_list(net, "a"),
            *second = tn_module_list(net, "b");
  tn_module *enc = tn_transformer_encoder(net, "enc", 4, 2, 1, .feedforward = 8);
  tn_module *x = tn_linear(first, NULL, 4, 4), *y = tn_linear(second, NULL, 4, 4);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(2, 3, 4));
  tn_output(f, "y", tn_call(y, tn_call(x, tn_call(enc, in))));
  tn_function_end(f);
  char *text = NULL;
  size_t n = 0;
  FILE *out = open_memstream(&text, &n);
  tn_summary(f, net, out);
  fclose(out);
  static const char *const rows[] = {"\na.0 (Linear)",
                                     "\nb.0 (Linear)",
                                     "\nenc (TransformerEncoder)",
                                     "\n  layers.0 (TransformerEncoderLayer)",
                                     "\n    self_attn (MultiheadAttention)",
                                     "\n      out_proj (Linear)"};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
    if (!CHECK(strstr(text, rows[k]) != NULL)) printf("%s\n", text);
  free(text);
  tn_program_free(p);
}

// Pools and paddings stand in a sequence as any module does, and are called by PyTorch's names.
static void check_sequence(void) {
  tn_program *p = quiet();
  tn_module *net = tn_sequential(tn_root(p), "net");
  tn_pad_module(net, "0", TN_SIZES(1, 1, 1, 1), TN_PAD_REPLICATE, 0);
  tn_conv2d_module(net, "1", 3, 8, 3);
  tn_activation(net, "2", "relu");
  tn_max_pool_module(net, "3", 2, 2);
  tn_channel_dropout_module(net, "4", 0.25);
  tn_upsample_module(net, "5", 2, TN_CUBIC, .align_corners = true);
  tn_adaptive_avg_pool_module(net, "6", TN_SIZES(1, 1));
  tn_flatten_module(net, "7", 1, -1);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor y = tn_call(net, tn_input(f, "x", TN_F32, TN_SHAPE(2, 3, 6, 8)));
  tn_output(f, "y", y);
  tn_function_end(f);
  CHECK(tn_rank(y) == 2);
  char *text = NULL;
  size_t n = 0;
  FILE *out = open_memstream(&text, &n);
  tn_summary(f, tn_root(p), out);
  fclose(out);
  static const char *const kinds[] = {"ReplicationPad", "MaxPool2d", "Dropout2d", "Upsample", "AdaptiveAvgPool2d"};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    if (!CHECK(strstr(text, kinds[k]) != NULL)) printf("%s\n", text);
  free(text);
  tn_program_free(p);
}

static void check_images(void) {
  REFUSED("images of 1 to 3 spatial axes", tn_max_pool_module(net, "c", 4, 2));
  REFUSED("images of 1 to 3 spatial axes", tn_adaptive_avg_pool_module(net, "c", NULL, 2));
  REFUSED("1 to 3 axes are padded", tn_pad_module(net, "c", TN_SIZES(1), TN_PAD_REFLECT, 0));
  REFUSED("sizes are multiplied by numbers up to 1024", tn_upsample_module(net, "c", 0, TN_LINEAR));
  REFUSED("a probability in [0, 1]", tn_channel_dropout_module(net, "c", 1.5));
}

int main(void) {
  check_sequence();
  check_images();
  check_refused();
  check_values();
  check_algorithm();
  check_summary();
  check_names_in_summary();
  return check_report();
}
