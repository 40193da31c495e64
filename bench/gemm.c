// Products x W^T with a weight that is a parameter: x [m, k], W [n, k]. gemm is gelu(x W^T + b), gemm_plain the product
// alone. One case for each shape.
#include "bench/bench.h"
#include <stdlib.h>

// clang-format off
#define SIZES(m, n) #m " " #n " 256", #m " " #n " 768", #m " " #n " 1024", #m " " #n " 3072"
#define COLUMNS(m) SIZES(m, 256), SIZES(m, 768), SIZES(m, 1024), SIZES(m, 3072)
static const char *const cases[] = {COLUMNS(1), COLUMNS(8), COLUMNS(32), COLUMNS(256), COLUMNS(1024), NULL};
// clang-format on

typedef struct {
  tn_model *model;
  float *x, *y;
  int64_t m, n, k;
} Product;

static tn_model *model(void *w) { return ((Product *)w)->model; }

static void close_product(void *w) {
  Product *g = w;
  tn_model_free(g->model);
  free(g->x);
  free(g->y);
  free(g);
}

static tn_program *build(const Product *g, bool gelu) {
  tn_program *p = tn_program_create("gemm");
  tn_module *fc = tn_linear(tn_root(p), "fc", g->k, g->n, .no_bias = !gelu);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor y = tn_call(fc, tn_input(f, "x", TN_F32, TN_SHAPE(g->m, g->k)));
  tn_output(f, "y", gelu ? tn_gelu(y) : y);
  tn_function_end(f);
  return p;
}

// Weights by formula, so that a peer needs no file for every shape.
static bool set_weights(Product *g, bool gelu) {
  size_t n = (size_t)(g->n * g->k);
  float *w = malloc(sizeof *w * n);
  if (!w) return false;
  bench_floats(w, n, -0.05, 0.05, 2);
  bool ok = tn_set(g->model, "fc.weight", w, n) == TN_OK;
  bench_floats(w, (size_t)g->n, -1, 1, 3);
  if (gelu) ok &= tn_set(g->model, "fc.bias", w, (size_t)g->n) == TN_OK;
  free(w);
  return ok;
}

static void *open_product(Opening *o, bool gelu) {
  Product *g = calloc(1, sizeof *g);
  long m, n, k;
  if (!g || sscanf(o->variant, "%ld %ld %ld", &m, &n, &k) != 3) return free(g), NULL;
  g->m = m, g->n = n, g->k = k;
  o->weights = NULL;
  g->x = bench_block(sizeof(float) * (size_t)(m * k));
  g->y = bench_block(sizeof(float) * (size_t)(m * n));
  g->model = bench_compile(build(g, gelu), o);
  if (g->x && g->y && g->model && set_weights(g, gelu)) return bench_floats(g->x, (size_t)(m * k), -1, 1, 1), g;
  close_product(g);
  return NULL;
}

static void *open_gemm(Opening *o) { return open_product(o, true); }
static void *open_gemm_plain(Opening *o) { return open_product(o, false); }

static bool step(void *w) {
  Product *g = w;
  return tn_run(g->model, "run", TN_IN(tn_f32(g->x, g->m, g->k)), TN_OUT(tn_f32(g->y, g->m, g->n))) == TN_OK;
}

static bool check(void *w, double *loss) {
  Product *g = w;
  bool ok = step(w);
  *loss = bench_checksum(g->y, (size_t)(g->m * g->n));
  return ok;
}

static void limits(const char *variant, double *flops, double *bytes) {
  double m = 0, n = 0, k = 0;
  if (sscanf(variant, "%lf %lf %lf", &m, &n, &k) != 3) return;
  *flops = 2 * m * n * k;
  *bytes = 4 * (m * k + n * k + m * n);
}

static bool is_large(const char *variant) { return strtol(variant, NULL, 10) >= 256; }

#define ROW(id, text)                                            \
  const Workload bench_##id = {.name = #id,                      \
                               .what = text,                     \
                               .peer = "bench/peers/%s_gemm.py", \
                               .cases = cases,                   \
                               .by_sizes = true,                 \
                               .open = open_##id,                \
                               .check = check,                   \
                               .step = step,                     \
                               .model = model,                   \
                               .close = close_product,           \
                               .limits = limits,                 \
                               .large = "m >= 256",              \
                               .is_large = is_large,             \
                               .has_openblas = true};
ROW(gemm, "gelu(x W^T + b) for m in 1 8 32 256 1024, n and k in 256 768 1024 3072")
ROW(gemm_plain, "x W^T for m in 1 8 32 256 1024, n and k in 256 768 1024 3072")
