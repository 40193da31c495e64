// Initial values: those of the distribution in the interpreter's stream, whatever the number and sizes of parameters; the
// same bits for any team; and none where they are not wanted.
#include "frontend/tenure.h"
#include "ir/interp/interpret.h"
#include "tests/check.h"

#include <math.h>

enum { N = 40 };
static const uint64_t seed = 77;

static const char *name_of(char *to, uint32_t k) {
  snprintf(to, 32, "w%u", k);
  return to;
}

static tn_init init_of(uint32_t k) {
  static const tn_init all[] = {
      {TN_INIT_UNIFORM, -0.5, 2}, {TN_INIT_NORMAL, 0.25, 3}, {TN_INIT_CONSTANT, 1.5, 0}, {TN_INIT_ZEROS, 0, 0}};
  return all[k % 4];
}

// Sizes of less than a vector, of one element, and of several workers' shares.
static int64_t size_of(uint32_t k) { return k % 7 == 6 ? 5000 : 1 + (int64_t)k % 21; }

static tn_model *make(tn_program **p, tn_compile_options o) {
  char name[32];
  *p = tn_program_create("init");
  for (uint32_t k = 0; k < N; k++) tn_parameter(tn_root(*p), name_of(name, k), TN_SHAPE(size_of(k)), init_of(k));
  tn_module *fc = tn_linear(tn_root(*p), "fc", 4, 2);
  tn_function *f = tn_function_begin(*p, "step");
  tn_tensor loss = tn_mean(tn_square(tn_call(fc, tn_input(f, "x", TN_F32, TN_SHAPE(3, 4)))));
  tn_backward(loss);
  tn_adamw(f, fc, .lr = 0.125);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  o.cache_dir = "", o.seed = seed;
  tn_model *m = (tn_compile)(*p, o);
  if (!CHECK(m != NULL)) tn_report(*p, stdout);
  return m;
}

static const float *values(tn_model *m, uint32_t k) { return tn_param_at(m, k).data; }

static float expected(uint32_t k, uint32_t stream, uint64_t element) {
  tn_init i = init_of(k);
  if (i.kind == TN_INIT_UNIFORM) {
    float width = (float)i.b - (float)i.a, part = ir_philox_uniform(seed, 0, stream, element) * width;
    return (float)i.a + part;
  }
  if (i.kind == TN_INIT_NORMAL) return (float)(i.a + i.b * ir_philox_normal(seed, 0, stream, element));
  return i.kind == TN_INIT_CONSTANT ? (float)i.a : 0;
}

// Streams are handed out in the order of those that draw.
static uint32_t stream_of(uint32_t k) {
  uint32_t before = 0;
  for (uint32_t j = 0; j < k; j++) before += init_of(j).kind == TN_INIT_UNIFORM || init_of(j).kind == TN_INIT_NORMAL;
  return 1 + before;
}

static void check_values(tn_model *m) {
  for (uint32_t k = 0; k < N; k++) {
    const float *x = values(m, k);
    bool exact = init_of(k).kind != TN_INIT_NORMAL;
    for (int64_t i = 0; i < size_of(k); i++) {
      float want = expected(k, stream_of(k), (uint64_t)i);
      bool good = exact ? x[i] == want : fabsf(x[i] - want) <= 1e-5f * (1 + fabsf(want));
      if (!good) printf("%s[%lld] is %g, not %g\n", tn_param_path(m, k), (long long)i, (double)x[i], (double)want);
      if (!CHECK(good)) return;
    }
  }
}

static bool same_bits(tn_model *a, tn_model *b) {
  bool same = true;
  for (uint32_t k = 0; k < N; k++) same &= !memcmp(values(a, k), values(b, k), (size_t)size_of(k) * sizeof(float));
  return same;
}

static void check_without_draws(void) {
  tn_program *p;
  tn_model *m = make(&p, (tn_compile_options){.n_workers = 1, .no_init = true});
  if (!m) return;
  float lr = 0, weight[8] = {9};
  for (uint32_t k = 0; k < N; k++)
    for (int64_t i = 0; i < size_of(k); i++)
      if (!CHECK(values(m, k)[i] == (init_of(k).kind == TN_INIT_CONSTANT ? 1.5f : 0))) return;
  CHECK(tn_get(m, "fc.weight", weight, 8) == TN_OK && weight[0] == 0 && weight[7] == 0);
  CHECK(tn_get(m, "optimizer.lr.fc", &lr, 1) == TN_OK && lr == 0.125f);
  tn_model *other = tn_instance(m, seed);
  CHECK(tn_initialize(m, seed) == TN_OK && same_bits(m, other));
  check_values(m);
  tn_model_free(other);
  tn_model_free(m);
  tn_program_free(p);
}

int main(void) {
  tn_program *p, *q;
  tn_model *one = make(&p, (tn_compile_options){.n_workers = 1}),
           *team = make(&q, (tn_compile_options){.n_workers = 3});
  if (one && team) {
    check_values(one);
    CHECK(same_bits(one, team));
    CHECK(tn_compile_info_of(one).init_ms > 0);
  }
  tn_model_free(one), tn_model_free(team);
  tn_program_free(p), tn_program_free(q);
  check_without_draws();
  return check_report();
}
