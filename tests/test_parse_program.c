// Programs read from .tir text compile and train with the bits of the program that the text was written from.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include <stdlib.h>
#include <string.h>

static tn_program *mlp(void) {
  tn_program *p = tn_program_create("mlp");
  tn_dim batch = tn_dim_bounded(p, "batch", 8);
  tn_module *net = tn_root(p);
  tn_module *fc1 = tn_linear(net, "fc1", 4, 16), *fc2 = tn_linear(net, "fc2", 16, 3);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(batch, tn_dim_const(4)));
  tn_tensor label = tn_input(f, "label", TN_I64, TN_SHAPE(batch));
  tn_tensor loss = tn_cross_entropy(tn_call(fc2, tn_relu(tn_call(fc1, x))), label);
  tn_backward(loss);
  tn_adamw(f, net, .lr = 0.01);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  return p;
}

static char *text_of(const tn_program *p) {
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  CHECK(tn_dump(p, out, TN_DUMP_IR) == TN_OK);
  fclose(out);
  return text;
}

static void train(tn_model *m, float loss[5]) {
  float x[7 * 4];
  int64_t label[7];
  for (int k = 0; k < 28; k++) x[k] = (float)(k % 5) - 2;
  for (int k = 0; k < 7; k++) label[k] = k % 3;
  for (int k = 0; k < 5; k++)
    CHECK(tn_run(m, "step", TN_IN(tn_f32(x, 7, 4), tn_i64(label, 7)), TN_OUT(tn_f32_scalar(&loss[k]))) == TN_OK);
}

static void same_bits(void) {
  tn_program *p = mlp();
  tn_model *a = tn_compile(p, .seed = 3, .n_workers = 1);
  char *text = text_of(p);
  tn_program *q = tn_program_parse(text, strlen(text), "mlp.tir");
  tn_model *b = tn_compile(q, .seed = 3, .n_workers = 1);
  CHECK(a && b);
  float of_a[5], of_b[5];
  train(a, of_a);
  train(b, of_b);
  CHECK(!memcmp(of_a, of_b, sizeof of_a));
  CHECK(tn_param_count(a) == tn_param_count(b));
  for (uint32_t k = 0; k < tn_param_count(a); k++) {
    tn_array x = tn_param_at(a, k), y = tn_param_at(b, k);
    size_t n = 4;
    for (uint32_t d = 0; d < x.rank; d++) n *= (size_t)x.dims[d];
    CHECK(!strcmp(tn_param_path(a, k), tn_param_path(b, k)) && !memcmp(x.data, y.data, n));
  }
  char *again = text_of(q);
  CHECK(strlen(again) > 0);
  tn_model_free(a), tn_model_free(b), tn_program_free(p), tn_program_free(q);
  free(text), free(again);
}

static void expect_error(tn_program *p, const char *wanted) {
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  CHECK(tn_report(p, out) == TN_ERR_BUILD);
  fclose(out);
  if (!strstr(text, wanted)) printf("%s\n", text);
  CHECK(strstr(text, wanted) != NULL);
  free(text);
  tn_program_free(p);
}

static void mistakes(void) {
  static const char bad[] = "program @p\nfunc @f(%x: f32[4]) {\n  %y = nosuch %x\n}\n";
  tn_program *p = tn_program_parse(bad, sizeof bad - 1, "bad.tir");
  CHECK(!tn_compile(p));
  expect_error(p, "bad.tir:3");
  expect_error(tn_program_parse(NULL, 0, NULL), "there is no text");
  static const char good[] = "program @p\nfunc @f(%x: f32[4]) {\n  %y = exp %x\n  output %y {name=\"y\", index=0}\n}\n";
  p = tn_program_parse(good, sizeof good - 1, NULL);
  CHECK(!tn_function_begin(p, "g") || tn_n_errors(p) == 1);
  expect_error(p, "nothing can be added");
}

static void no_init(void) {
  static const char text[] =
      "program @p\nfunc @f(%x: f32[4]) {\n  %y = mul %x, %x\n  output %y {name=\"y\", index=0}\n}\n";
  tn_program *p = tn_program_parse(text, sizeof text - 1, NULL);
  tn_model *m = tn_compile(p);
  if (!m) tn_report(p, stdout);
  CHECK(m != NULL);
  float x[4] = {1, 2, 3, 4}, y[4];
  CHECK(tn_run(m, "f", TN_IN(tn_f32(x, 4)), TN_OUT(tn_f32(y, 4))) == TN_OK && y[3] == 16);
  tn_model_free(m), tn_program_free(p);
}

// Text may name functions as C does not, and each name has its own code.
static void any_names(void) {
  static const char *const names[] = {"a_b", "a b", "a.b", "a-b", "größe", "grüße", "a$20b", "", "0", "_0"};
  enum { N = sizeof names / sizeof *names };
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  fprintf(out, "program @p\n");
  for (int k = 0; k < N; k++)
    fprintf(out,
            "func @\"%s\"(%%x: f32[2]) {\n  %%c = const {value=%d}\n  %%y = add %%x, %%c\n  output %%y {index=0, "
            "name=\"y\"}\n}\n",
            names[k], k);
  fclose(out);
  tn_program *p = tn_program_parse(text, n, NULL);
  tn_model *m = model_of(p);
  for (int k = 0; k < N; k++) {
    float x[2] = {1, 2}, y[2];
    CHECK(tn_run(m, names[k], TN_IN(tn_f32(x, 2)), TN_OUT(tn_f32(y, 2))) == TN_OK);
    if (!CHECK(y[1] == (float)(2 + k))) printf("  '%s' gives %g\n", names[k], (double)y[1]);
  }
  tn_model_free(m), tn_program_free(p);
  free(text);
}

int main(void) {
  same_bits();
  any_names();
  mistakes();
  no_init();
  return check_report();
}
