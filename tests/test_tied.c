// Second names of parameters: a file has them as metadata or, by option, as entries of their own, and every name that
// tn_named_parameters gives is accepted where a parameter is named.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/report.h"
#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/tn_tied_XXXXXX";

// The header of the file, as text.
static const char *header(void) {
  static char text[4096];
  unsigned char length[8] = {0};
  FILE *in = fopen(path, "rb");
  size_t n = in ? fread(length, 1, 8, in) : 0;
  n = n == 8 ? fread(text, 1, (size_t)length[0] + 256u * length[1], in) : 0;
  text[n < sizeof text ? n : 0] = 0;
  if (in) fclose(in);
  return text;
}

static tn_module *tied(tn_program *p) {
  tn_module *root = tn_root(p);
  tn_embedding(root, "emb", 3, 2);
  tn_linear(tn_module_new(root, "net"), "head", 2, 3);
  tn_share(root, "net.head.weight", root, "emb.weight");  // in place of its own
  return root;
}

static tn_model *compile(tn_program *p) {
  tn_model *m = tn_compile(p, .n_workers = 1, .seed = 3);
  if (!CHECK(m != NULL)) printf("%s\n", report_of(p)), exit(1);
  return m;
}

static const float literal[6] = {1, -2, 0.5f, 4, -0.25f, 8};

static void build(tn_program *p) {
  tn_module *root = tied(p);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor y = tn_mul(tn_param_value(f, root, "net.head.weight"), tn_param_value(f, root, "net/head/weight"));
  tn_tensor loss = tn_sum(y);
  tn_backward(loss);
  tn_output(f, "grad", tn_param_grad(f, root, "net.head.weight"));
  tn_sgd(f, root, .lr = 0);
  tn_function_end(f);
}

static void test_files(void) {
  tn_program *p = tn_program_create("tied");
  build(p);
  tn_model *m = compile(p), *other = tn_instance(m, 5);
  float bias[3] = {1, 2, 3}, got[6];
  CHECK(tn_set(m, "net.head.weight", literal, 6) == TN_OK && tn_set(m, "net.head.bias", bias, 3) == TN_OK);
  CHECK(tn_get(m, "emb.weight", got, 6) == TN_OK && !memcmp(got, literal, sizeof got));

  CHECK(tn_save(m, path, false) == TN_OK);
  CHECK_HAS(header(), "{\"__metadata__\":{\"format\":\"pt\",\"net.head.weight\":\"emb.weight\"},"
                      "\"emb.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},"
                      "\"net.head.bias\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[24,36]}}");
  tn_save_options o = {.aliases_as_data = true};
  CHECK(tn_save_as(m, path, &o) == TN_OK);
  CHECK_HAS(header(), "{\"__metadata__\":{\"format\":\"pt\"},"
                      "\"emb.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},"
                      "\"net.head.bias\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[24,36]},"
                      "\"net.head.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[36,60]}}");
  CHECK(tn_load(other, path, false) == TN_OK && tn_get(other, "emb.weight", got, 6) == TN_OK);
  CHECK(!memcmp(got, literal, sizeof got));

  o.dtype = TN_FILE_BF16, o.with_state = true;
  CHECK(tn_save_as(m, path, &o) == TN_OK);
  CHECK_HAS(header(), "\"net.head.weight\":{\"dtype\":\"BF16\",\"shape\":[3,2]");
  CHECK(tn_load(other, path, true) == TN_OK && tn_get(other, "net.head.weight", got, 6) == TN_OK);
  CHECK(!memcmp(got, literal, sizeof got));  // bf16 holds these
  float grad[6];
  CHECK(tn_run(other, "f", TN_NO_IN, TN_OUT(tn_f32(grad, 3, 2))) == TN_OK && grad[0] == 2 && grad[5] == 16);
  tn_model_free(other), tn_model_free(m);
  tn_program_free(p);
}

// ---- names
static void test_names(void) {
  tn_program *p = tn_program_create("names");
  tn_module *root = tied(p), *net = tn_child(root, "net");
  const char *names[8], *below[8];
  uint32_t n = tn_named_parameters(root, TN_NAMES_ALIASES, names, 8);
  CHECK(n == 3 && !strcmp(names[0], "emb.weight") && !strcmp(names[1], "net.head.weight") &&
        !strcmp(names[2], "net.head.bias"));
  CHECK(tn_named_parameters(net, TN_NAMES_ALIASES, below, 8) == 2 && !strcmp(below[1], "head.bias"));
  tn_tensor fresh = tn_ones(tn_init_function(p), TN_SHAPE(3));
  tn_parameter_adopt(root, "net.head.bias", fresh);
  tn_share(root, "again", net, below[1]);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor sum = tn_scalar(f, 0);
  for (uint32_t k = 0; k < n; k++) sum = tn_add(sum, tn_sum(tn_param_value(f, root, names[k])));
  for (uint32_t k = 0; k < 2; k++) sum = tn_add(sum, tn_sum(tn_param_value(f, net, below[k])));
  tn_backward(sum);
  for (uint32_t k = 0; k < n; k++) CHECK(tn_param_grad(f, root, names[k]).v);
  tn_group(root, 1, names[2], .lr = 0.5);
  tn_freeze_path(root, names[1], true);
  tn_output(f, "sum", sum);
  tn_function_end(f);
  tn_model *m = compile(p);
  float v[6], total = 0;
  for (uint32_t k = 0; k < n; k++) {
    size_t count = k == 2 ? 3 : 6;
    CHECK(tn_get(m, names[k], v, count) == TN_OK && tn_set(m, names[k], literal, count) == TN_OK);
  }
  CHECK(tn_get(m, "again", v, 3) == TN_OK && v[1] == literal[1]);
  CHECK(tn_run(m, "f", TN_NO_IN, TN_OUT(tn_f32_scalar(&total))) == TN_OK && total == 3 * 11.25f + 2 * -0.5f);
  tn_model_free(m);
  tn_program_free(p);
}

static void test_missing_names(void) {
  tn_program *p = tn_program_create("missing");
  tn_module *root = tied(p);
  tn_function *f = tn_function_begin(p, "f");
  tn_param_value(f, root, "net.tail.weight");
  CHECK_HAS(report_of(p), "the root module has no parameter 'net.tail.weight'");
  tn_program_free(p);
}

int main(void) {
  int fd = mkstemp(path);
  if (fd < 0) return 2;
  close(fd);
  test_files();
  test_names();
  test_missing_names();
  unlink(path);
  return check_report();
}
