// Constants of any size, of five dtypes: their value, the gradient through them, the bytes that they take, once for all
// functions that read them, and the way through the text form.
//
//   test_constant_sizes              checks
//   test_constant_sizes WRITE DIR    writes DIR/DTYPE_SIZE.tir, for tests/test_bundle_constants.sh
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/cpu_time.h"
#include "tests/report.h"

#include <stdlib.h>
#include <sys/resource.h>

static const struct {
  tn_dtype t;
  const char *name;
  size_t width;
} kinds[] = {{TN_F32, "f32", 4}, {TN_BF16, "bf16", 2}, {TN_I64, "i64", 8}, {TN_U8, "u8", 1}, {TN_BOOL, "bool", 1}};
static const int64_t sizes[] = {4095, 4096, 4097, 1000000};
enum { N_KINDS = sizeof kinds / sizeof *kinds, N_SIZES = sizeof sizes / sizeof *sizes };

// Small whole numbers, which every dtype but bool has: sums of products are exact
static int small(int64_t k) { return (int)((k * 37 + k / 4096) % 101); }

static void put(tn_dtype t, void *at, int64_t k) {
  float x = (float)small(k);
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  switch (t) {
  case TN_F32: ((float *)at)[k] = k % 7 ? x : -x; break;  // -0 among them
  case TN_BF16: ((uint16_t *)at)[k] = (uint16_t)(bits >> 16); break;
  case TN_I64: ((int64_t *)at)[k] = k % 7 ? small(k) : INT64_MAX - k; break;
  case TN_BOOL: ((uint8_t *)at)[k] = small(k) & 1; break;
  default: ((uint8_t *)at)[k] = (uint8_t)(small(k) + 150); break;
  }
}

static void *numbers(int kind, int64_t n) {
  void *v = malloc((size_t)n * kinds[kind].width);
  if (!CHECK(v != NULL)) exit(1);
  for (int64_t k = 0; k < n; k++) put(kinds[kind].t, v, k);
  return v;
}

static void add_function(tn_program *p, const char *name, int kind, int64_t n, const void *v) {
  tn_function *f = tn_function_begin(p, name);
  tn_tensor c = tn_constant_of(f, kinds[kind].t, v, TN_SHAPE(n)), x = tn_input(f, "x", TN_F32, TN_SHAPE(n));
  tn_output(f, "value", c);
  tn_output(f, "grad", tn_grad(tn_sum(tn_mul(tn_cast(c, TN_F32), x)), x));
  tn_function_end(f);
}

static tn_program *build(int kind, int64_t n, const void *v) {
  tn_program *p = tn_program_create("constants");
  add_function(p, "one", kind, n, v);
  add_function(p, "other", kind, n, v);
  return p;
}

static float as_f32(int kind, const void *v, int64_t k) {
  switch (kinds[kind].t) {
  case TN_F32: return ((const float *)v)[k];
  case TN_BF16: {
    uint32_t bits = (uint32_t)((const uint16_t *)v)[k] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
  }
  case TN_I64: return (float)((const int64_t *)v)[k];
  default: return ((const uint8_t *)v)[k];
  }
}

static void run(tn_model *m, const char *name, int kind, int64_t n, const void *v) {
  size_t bytes = (size_t)n * kinds[kind].width;
  float *x = calloc((size_t)n, sizeof *x), *grad = calloc((size_t)n, sizeof *grad);
  void *value = calloc(1, bytes);
  if (!CHECK(x && grad && value)) exit(1);
  int64_t dims[] = {n}, n_wrong = 0;
  tn_array out[] = {tn_array_of(value, kinds[kind].t, dims, 1), tn_array_of(grad, TN_F32, dims, 1)};
  if (!CHECK(tn_run(m, name, TN_IN(tn_array_of(x, TN_F32, dims, 1)), out, 2) == TN_OK)) puts(tn_error_text(m));
  CHECK(!memcmp(value, v, bytes));
  for (int64_t k = 0; k < n; k++) n_wrong += grad[k] != as_f32(kind, v, k);
  CHECK(n_wrong == 0);
  free(x), free(grad), free(value);
}

// Of the CPU, sanitizers included: what grows with the square of a size would take hours.
enum { MOST_MS = 60000 };

static void check_model(tn_program *p, int kind, int64_t n, const void *v) {
  double before = cpu_ms();
  tn_model *m = tn_compile(p, .n_workers = 2, .cache_dir = "");
  CHECK(cpu_ms() - before < MOST_MS);
  if (!CHECK(m != NULL)) tn_report(p, stdout), exit(1);
  tn_plan plan;
  int64_t bytes = n * (int64_t)kinds[kind].width;
  CHECK(tn_plan_of(m, "one", &plan) == TN_OK);
  if (!CHECK(plan.const_bytes >= bytes && plan.const_bytes < bytes + 256))
    printf("  %s[%lld]: %lld bytes\n", kinds[kind].name, (long long)n, (long long)plan.const_bytes);
  run(m, "one", kind, n, v), run(m, "other", kind, n, v);
  tn_model_free(m);
}

static char *text_of(tn_program *p) {
  char *text;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  tn_dump(p, out, TN_DUMP_IR);
  fclose(out);
  return text;
}

static void check_size(int kind, int64_t n) {
  void *v = numbers(kind, n);
  tn_program *p = build(kind, n, v);
  char *text = text_of(p);
  check_model(p, kind, n, v);
  char *built = text_of(p);  // kept with the numbers beside it
  CHECK(!strcmp(text, built));
  tn_program_free(p);
  p = tn_program_parse(text, strlen(text), "constants.tir");
  char *again = text_of(p);
  CHECK(!strcmp(text, again));
  check_model(p, kind, n, v);
  tn_program_free(p);
  free(v), free(text), free(again), free(built);
}

static void write_text(const char *folder, int kind, int64_t n) {
  char path[512];
  void *v = numbers(kind, n);
  tn_program *p = build(kind, n, v);
  snprintf(path, sizeof path, "%s/%s_%lld.tir", folder, kinds[kind].name, (long long)n);
  FILE *out = fopen(path, "w");
  if (!CHECK(out != NULL)) exit(1);
  tn_dump(p, out, TN_DUMP_IR);
  CHECK(!fclose(out));
  tn_program_free(p);
  free(v);
}

// ---- memory: of 16 MiB, with what else compiling takes
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { COUNTS_MEMORY = 0 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { COUNTS_MEMORY = 0 };
#else
enum { COUNTS_MEMORY = 1 };
#endif
#else
enum { COUNTS_MEMORY = 1 };
#endif

static long status_kib(const char *key) {
  char line[200];
  long kib = 0;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f))
    if (!strncmp(line, key, strlen(key))) sscanf(line + strlen(key), "%ld", &kib);
  if (f) fclose(f);
  return kib;
}

static tn_program *program_of(const float *v, int64_t n) {
  tn_program *p = tn_program_create("memory");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(1, n / 1024));
  tn_output(f, "y", tn_matmul(x, tn_constant(f, v, TN_SHAPE(n / 1024, 1024))));
  tn_function_end(f);
  return p;
}

// The program has the numbers once, as bytes, and a model once more. A bundle has its object in the place of the program's copy
// that was compiled for this machine; its compiler, a fork, holds LLVM's copies.
static void check_memory(void) {
  enum { N = 4 << 20, KIB = N / 256, OTHER = 48 << 10 };
  float *v = malloc(N * sizeof *v);
  if (!COUNTS_MEMORY || !v) return free(v);
  for (int k = 0; k < N; k++) v[k] = (float)k;
  long before = status_kib("VmRSS:");
  tn_program *p = program_of(v, N);
  tn_model *m = tn_compile(p, .n_workers = 1, .cache_dir = "", .no_init = true);
  long grown = status_kib("VmHWM:") - before;
  if (!CHECK(m && grown < 2 * KIB + OTHER)) printf("  compiling 16 MiB took %ld KiB\n", grown);
  tn_model_free(m), tn_program_free(p);
  before = status_kib("VmRSS:");
  p = program_of(v, N);
  CHECK(tn_bundle(p, "constant_memory", .targets = "x86-64-v3") == TN_OK);
  grown = status_kib("VmHWM:") - before;
  if (!CHECK(grown < 3 * KIB + OTHER)) printf("  a bundle of 16 MiB took %ld KiB\n", grown);
  struct rusage r;
  CHECK(getrusage(RUSAGE_CHILDREN, &r) == 0);
  if (!CHECK(r.ru_maxrss - before < 7 * KIB + OTHER)) printf("  its compiler took %ld KiB\n", r.ru_maxrss - before);
  tn_program_free(p);
  free(v);
  static const char *const files[] = {"constant_memory.o", "constant_memory.h", "constant_memory.json",
                                      "constant_memory.safetensors", "constant_memory_selftest.c"};
  for (size_t k = 0; k < sizeof files / sizeof *files; k++) remove(files[k]);
}

int main(int argc, char **argv) {
  bool writes = argc == 3 && !strcmp(argv[1], "WRITE");
  if (!writes) check_memory();
  for (int kind = 0; kind < N_KINDS; kind++)
    for (int k = 0; k < N_SIZES; k++)
      if (writes) write_text(argv[2], kind, sizes[k]);
      else check_size(kind, sizes[k]);
  return check_report();
}
