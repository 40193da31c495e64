// The model of examples/resnet: a training step of ResNet-20 against PyTorch, loss, gradients and running statistics; and
// the names and shapes of state_dicts.
#include "examples/resnet/model.h"
#include "tests/check.h"
#include "tests/golden_file.h"
#include "tests/models.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { BATCH = 4, SIDE = 16, CLASSES = 10, N_SHOWN = 4, N_PARAMETERS = 65, N_BUFFERS = 42 };
// The loss; of each parameter's gradient the norm, the product with the numbers of seed 1000, and N_SHOWN elements; of each
// buffer that product; of state_dicts their classes, entries and elements, and a hash of names and shapes.
static GoldenArrays goldens;
static const char *path_of(uint32_t k) { return goldens.at[k + 1].name; }

static double number(uint32_t k, uint32_t seed) {  // in [0, 1); as tests/make_resnet_goldens.py
  uint32_t h = k * 2654435761u + seed * 40503u;
  h ^= h >> 15, h *= 2246822519u, h ^= h >> 13;
  return (h >> 8) * 0x1p-24;
}

// ---- a step
static tn_model *compiled_step(void) {
  tn_program *p = tn_program_create("resnet");
  const Resnet *r = resnet_of_depth(20);
  resnet_make(p, r, CLASSES);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(BATCH, 3, SIDE, SIDE)), y = tn_input(f, "y", TN_I64, TN_SHAPE(BATCH));
  tn_tensor loss = tn_cross_entropy(resnet_logits(p, r, x), y);
  tn_output(f, "loss", loss);
  tn_backward(loss);
  for (uint32_t k = 0; k < N_PARAMETERS; k++) {
    char name[16];
    snprintf(name, sizeof name, "g%u", k);
    tn_output(f, name, tn_param_grad(f, tn_root(p), path_of(k)));
  }
  tn_function_end(f);
  return model_alone(p, .n_workers = 2);
}

static size_t numel(tn_array a) {
  size_t n = 1;
  for (uint32_t axis = 0; axis < a.rank; axis++) n *= (size_t)a.dims[axis];
  return n;
}

static uint32_t find(tn_model *m, const char *path) {
  for (uint32_t i = 0; i < tn_param_count(m); i++)
    if (!strcmp(tn_param_path(m, i), path)) return i;
  CHECK(!path);
  return 0;
}

static size_t set_weight(tn_model *m, uint32_t k, tn_array *out) {
  const char *path = path_of(k);
  bool is_norm = strstr(path, "bn") || strstr(path, "downsample.1");
  uint32_t i = find(m, path);
  tn_array a = tn_param_at(m, i);
  double center = is_norm && !strcmp(strrchr(path, '.'), ".weight");
  for (size_t j = 0; j < numel(a); j++) ((float *)a.data)[j] = (float)((number((uint32_t)j, k) - 0.5) * 0.125 + center);
  tn_param_end_write(m, i);
  *out = a, out->data = calloc(numel(a), sizeof(float));
  return numel(a);
}

static double product(const float *v, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += v[i] * number((uint32_t)i, 1000);
  return sum;
}

static void check_gradient(uint32_t k, const float *g, size_t n) {
  const double *want = golden_array(&goldens, path_of(k), 2 + N_SHOWN);
  double sum = 0, most = 0, norm = want[0];
  for (size_t i = 0; i < n; i++) sum += (double)g[i] * g[i], most = fmax(most, fabs(g[i]));
  bool ok = CHECK(fabs(sqrt(sum) - norm) <= 1e-4 * norm);
  ok &= CHECK(fabs(product(g, n) - want[1]) <= 1e-4 * norm);
  for (size_t i = 0; i < N_SHOWN; i++) ok &= CHECK(fabs(g[7919003 * i % n] - want[2 + i]) <= 1e-4 * most);
  if (!ok) printf("%s: norm %.9g, expected %.9g\n", path_of(k), sqrt(sum), norm);
}

static void check_buffer(tn_model *m, const char *path) {
  tn_array a = tn_param_at(m, find(m, path));
  double found = product(a.data, numel(a)), expected = *golden_array(&goldens, path, 1);
  if (!CHECK(fabs(found - expected) <= 1e-4 * fmax(1, fabs(expected))))
    printf("%s: %.9g, expected %.9g\n", path, found, expected);
}

static void test_step(void) {
  tn_model *m = compiled_step();
  static float x[BATCH * 3 * SIDE * SIDE];
  int64_t y[BATCH];
  for (uint32_t k = 0; k < BATCH * 3 * SIDE * SIDE; k++) x[k] = (float)(4 * number(k, 98) - 2);
  for (uint32_t k = 0; k < BATCH; k++) y[k] = (int64_t)(CLASSES * number(k, 99));
  float loss = 0;
  tn_array out[N_PARAMETERS + 1] = {tn_f32_scalar(&loss)};
  size_t n[N_PARAMETERS] = {0};
  for (uint32_t k = 0; m && k < N_PARAMETERS; k++) n[k] = set_weight(m, k, &out[k + 1]);
  const tn_array in[] = {tn_f32(x, BATCH, 3, SIDE, SIDE), tn_i64(y, BATCH)};
  if (m && !CHECK(tn_run(m, "step", in, 2, out, N_PARAMETERS + 1) == TN_OK)) printf("%s\n", tn_error_text(m));
  const double want = *golden_array(&goldens, "loss", 1);
  CHECK(fabs(loss - want) <= 1e-4 * want);
  for (uint32_t k = 0; m && k < N_PARAMETERS; k++) check_gradient(k, out[k + 1].data, n[k]), free(out[k + 1].data);
  for (uint32_t k = 0; m && k < N_BUFFERS; k++) check_buffer(m, path_of(N_PARAMETERS + k));
  tn_model_free(m);
}

// ---- names and shapes
enum { MOST_ENTRIES = 400, LINE = 128 };
static char lines[MOST_ENTRIES][LINE];

static int compare(const void *a, const void *b) { return strcmp(a, b); }

static long long write_line(const tn_variable *v, char *line) {
  int at = snprintf(line, LINE, "%s", v->path);
  long long n = 1;
  for (uint32_t axis = 0; axis < v->rank; axis++) {
    at += snprintf(line + at, LINE - (size_t)at, " %" PRId64, v->dims[axis]);
    n *= v->dims[axis];
  }
  snprintf(line + at, LINE - (size_t)at, "\n");
  return n;
}

static void test_state(int depth) {
  static tn_variable v[MOST_ENTRIES];
  tn_program *p = tn_program_create("resnet");
  char name[16];
  snprintf(name, sizeof name, "state_%d", depth);
  const double *want = golden_array(&goldens, name, 4);
  resnet_make(p, resnet_of_depth(depth), (int64_t)want[0]);
  uint32_t n = tn_variables(tn_root(p), NULL, v, MOST_ENTRIES);
  long long n_elements = 0;
  uint64_t hash = UINT64_C(14695981039346656037);
  if (CHECK(n == want[1])) {
    for (uint32_t i = 0; i < n; i++) n_elements += write_line(&v[i], lines[i]);
    qsort(lines, n, LINE, compare);
    for (uint32_t i = 0; i < n; i++)
      for (const char *c = lines[i]; *c; c++) hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
  }
  CHECK((double)n_elements == want[2]);
  if (!CHECK((double)(hash % (UINT64_C(1) << 53)) == want[3])) printf("names or shapes of depth %d differ\n", depth);
  tn_program_free(p);
}

// ---- plans of evaluation
// Every convolution takes its norm, relu and residual as its epilogue. Beside them and the last product: the image with
// channels last, a pool, a mean in two kernels, and the scales of channels, in kernels of one size and as many arrays as one takes;
// a constant is none.
static void test_evaluation(int depth, uint32_t n_products, uint32_t n_scales, uint32_t n_pools) {
  tn_program *p = tn_program_create("resnet");
  const Resnet *r = resnet_of_depth(depth);
  resnet_make(p, r, CLASSES);
  tn_function *f = tn_function_begin(p, "predict");
  tn_eval(f, true);
  tn_output(f, "logits", resnet_logits(p, r, tn_input(f, "x", TN_F32, TN_SHAPE(BATCH, 3, 64, 64))));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .no_init = true);
  tn_plan plan = {0};
  if (!CHECK(m && tn_plan_of(m, "predict", &plan) == TN_OK)) tn_report(p, stdout);
  if (!CHECK(plan.n_kernels == n_products + n_scales + n_pools + 3)) printf("%u kernels\n", plan.n_kernels);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- the plan of training: 64 images of 32 x 32. Of a block without a new width three arrays wait for the backward: what its
// two norms centered, and its result; what relu made inside is made again. Nothing lies beside what lives at the peak.
static void test_training_plan(bool exact, int64_t most_bytes) {
  tn_program *p = tn_program_create("resnet");
  const Resnet *r = resnet_of_depth(20);
  resnet_make(p, r, CLASSES);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor loss = tn_cross_entropy(resnet_logits(p, r, tn_input(f, "x", TN_F32, TN_SHAPE(64, 3, 32, 32))),
                                    tn_input(f, "y", TN_I64, TN_SHAPE(64)));
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_sgd(f, tn_root(p), .lr = 0.01, .momentum = 0.9);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .no_init = true, .exact_convolution = exact);
  tn_plan plan = {0};
  if (!CHECK(m && tn_plan_of(m, "step", &plan) == TN_OK)) tn_report(p, stdout);
  bool is_guarded = getenv("TN_CHECK") != NULL;  // guards stand around values
  CHECK(plan.peak_bytes == plan.lower_bound || is_guarded);
  if (!CHECK(plan.peak_bytes <= most_bytes || is_guarded)) printf("arena of %lld bytes\n", (long long)plan.peak_bytes);
  tn_model_free(m);
  tn_program_free(p);
}

int main(void) {
  RtArena *mem = rt_arena_new();
  goldens = golden_arrays(mem, "tests/resnet_goldens");
  CHECK(!resnet_of_depth(21));
  test_training_plan(true, 78350000);
  test_training_plan(false, 80050000);
  test_evaluation(20, 22, 3, 0);
  test_evaluation(50, 54, 7, 1);
  test_state(20), test_state(18), test_state(50);
  test_step();
  rt_arena_free(mem);
  return check_report();
}
