// pool: pooling and resizing. A case is WORK KIND N C SIZE KERNEL STRIDE PADDING: `forward`, or `training`, which is forward and
// the gradient of x for one that is given. KIND is max, avg, global (averages over all of SIZE), bilinear or nearest (KERNEL
// times as large). Channels come last, as PyTorch's channels_last has them.
#include "bench/bench.h"
#include <stdlib.h>
#include <string.h>

// clang-format off
#define BOTH(layer) "forward " layer, "training " layer
static const char *const cases[] = {
    BOTH("max 4 64 112x112 3 2 1"), BOTH("max 64 16 32x32 2 2 0"), BOTH("max 4 192 28x28 3 1 1"), BOTH("max 4 128 56x56 2 2 0"),
    BOTH("avg 4 256 56x56 2 2 0"), BOTH("avg 4 192 28x28 3 1 1"), BOTH("avg 64 20 24x24 2 2 0"),
    BOTH("global 64 64 8x8 1 1 0"), BOTH("global 4 2048 7x7 1 1 0"),
    BOTH("bilinear 4 64 56x56 2 1 0"), BOTH("nearest 4 64 56x56 2 1 0"), NULL};
// clang-format on

typedef struct {
  char kind[16];
  bool trains;
  int64_t n, c, size[2], out[2], kernel, stride, padding;
} Layer;

typedef struct {
  Layer layer;
  tn_model *model;
  tn_array in[2], out[2];  // x and the gradient of y; y and the gradient of x
  uint32_t n;
} Pool;

static tn_model *model(void *w) { return ((Pool *)w)->model; }

static void close_pool(void *w) {
  Pool *v = w;
  tn_model_free(v->model);
  for (uint32_t k = 0; k < 2; k++) free(v->in[k].data), free(v->out[k].data);
  free(v);
}

static bool is(const Layer *l, const char *kind) { return !strcmp(l->kind, kind); }
static bool resizes(const Layer *l) { return is(l, "bilinear") || is(l, "nearest"); }

static bool parse_case(const char *variant, Layer *l) {
  char work[16];
  long n, c, size[2], kernel, stride, padding;
  *l = (Layer){0};
  if (sscanf(variant, "%15s %15s %ld %ld %ldx%ld %ld %ld %ld", work, l->kind, &n, &c, &size[0], &size[1], &kernel,
             &stride, &padding) != 9)
    return false;
  l->n = n, l->c = c, l->kernel = kernel, l->stride = stride, l->padding = padding;
  l->trains = !strcmp(work, "training");
  for (uint32_t k = 0; k < 2; k++) {
    l->size[k] = size[k];
    l->out[k] = resizes(l) ? size[k] * kernel : is(l, "global") ? 1 : (size[k] + 2 * padding - kernel) / stride + 1;
  }
  return true;
}

static int64_t numel(tn_array a) { return a.dims[0] * a.dims[1] * a.dims[2] * a.dims[3]; }

static tn_array images(const Layer *l, const int64_t *size) {
  int64_t dims[4] = {l->n, size[0], size[1], l->c};
  return tn_array_of(calloc((size_t)(l->n * size[0] * size[1] * l->c), sizeof(float)), TN_F32, dims, 4);
}

static tn_tensor input(tn_function *f, Pool *v, const char *name, uint32_t k, const int64_t *size) {
  tn_array a = v->in[k] = images(&v->layer, size);
  if (a.data) bench_floats(a.data, (size_t)numel(a), -1, 1, 1 + k);
  return tn_input(f, name, TN_F32, TN_SHAPE(a.dims[0], a.dims[1], a.dims[2], a.dims[3]));
}

static tn_tensor pooled(const Layer *l, tn_tensor x) {
  x = tn_permute(x, TN_INTS(0, 3, 1, 2));
  tn_tensor y = resizes(l)        ? tn_interpolate(x, l->out, is(l, "nearest") ? TN_NEAREST : TN_LINEAR)
                : is(l, "global") ? tn_adaptive_avg_pool2d(x, 1, 1)
                : is(l, "max")    ? tn_max_pool2d(x, l->kernel, .stride = l->stride, .padding = l->padding)
                                  : tn_avg_pool2d(x, l->kernel, .stride = l->stride, .padding = l->padding);
  return tn_permute(y, TN_INTS(0, 2, 3, 1));
}

static void build(tn_function *f, Pool *v) {
  const Layer *l = &v->layer;
  tn_tensor x = input(f, v, "x", 0, l->size), y = pooled(l, x);
  v->out[0] = images(l, l->out), v->n = 1;
  tn_output(f, "y", y);
  if (!l->trains) return;
  tn_tensor loss = tn_sum(tn_mul(y, input(f, v, "g", 1, l->out)));
  v->out[1] = images(l, l->size), v->n = 2;
  tn_output(f, "dx", tn_grad(loss, x));
}

static void *open_pool(Opening *o) {
  Pool *v = calloc(1, sizeof *v);
  o->weights = NULL;
  if (!v || !parse_case(o->variant, &v->layer)) return free(v), NULL;
  tn_program *p = tn_program_create("pool");
  tn_function *f = tn_function_begin(p, "run");
  build(f, v);
  tn_function_end(f);
  v->model = bench_compile(p, o);
  bool ok = v->model != NULL;
  for (uint32_t k = 0; k < v->n; k++) ok &= v->in[k].data && v->out[k].data;
  if (ok) return v;
  close_pool(v);
  return NULL;
}

static bool step(void *w) {
  Pool *v = w;
  return tn_run(v->model, "run", v->in, v->n, v->out, v->n) == TN_OK;
}

static bool check(void *w, double *loss) {
  Pool *v = w;
  bool ok = step(w);
  *loss = 0;
  for (uint32_t k = 0; k < v->n; k++) *loss += bench_checksum(v->out[k].data, (size_t)numel(v->out[k]));
  return ok;
}

// x is read and y written; training reads the gradient of y and writes that of x in addition.
static void limits(const char *variant, double *flops, double *bytes) {
  Layer l;
  *flops = 0;
  if (!parse_case(variant, &l)) return;
  double places = (double)(l.size[0] * l.size[1] + l.out[0] * l.out[1]);
  *bytes = 4 * (double)(l.n * l.c) * places * (l.trains ? 2 : 1);
}

const Workload bench_pool = {.name = "pool",
                             .what = "pooling and resizing: forward, training of KIND N C SIZE KERNEL STRIDE PADDING",
                             .peer = "bench/peers/%s_pool.py",
                             .forms = PEER_LAYOUTS,
                             .cases = cases,
                             .open = open_pool,
                             .check = check,
                             .step = step,
                             .model = model,
                             .close = close_pool,
                             .limits = limits};
