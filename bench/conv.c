// conv: layers of convolution, without a bias, and both of their gradients. A case is WORK N C O SIZE KERNEL STRIDE
// GROUPS, padded by (KERNEL - 1) / 2 zeros: `forward`, `data` (the gradient of x, which is a transposed convolution) and
// `weight` (that of the weight). Channels come last, as PyTorch's channels_last has them; weights are as PyTorch saves
// them. First layers have no `data`: nothing asks for it.
#include "bench/bench.h"
#include <stdlib.h>
#include <string.h>

// clang-format off
#define FIRST(layer) "forward " layer, "weight " layer
#define LAYER(layer) "forward " layer, "data " layer, "weight " layer
static const char *const cases[] = {
    // residual networks on small and large images
    FIRST("64 3 16 32x32 3x3 1 1"), LAYER("64 16 16 32x32 3x3 1 1"), LAYER("64 32 32 16x16 3x3 1 1"),
    LAYER("64 64 64 8x8 3x3 1 1"), LAYER("64 16 32 32x32 3x3 2 1"), LAYER("64 32 64 16x16 3x3 2 1"),
    LAYER("64 16 32 32x32 1x1 2 1"), FIRST("4 3 64 224x224 7x7 2 1"), LAYER("4 64 64 56x56 3x3 1 1"),
    LAYER("4 128 128 28x28 3x3 1 1"), LAYER("4 512 512 7x7 3x3 1 1"), LAYER("4 128 128 56x56 3x3 2 1"),
    LAYER("4 64 256 56x56 1x1 1 1"), LAYER("4 256 64 56x56 1x1 1 1"), LAYER("4 512 128 28x28 1x1 1 1"),
    LAYER("4 1024 256 14x14 1x1 1 1"), LAYER("4 256 512 56x56 1x1 2 1"),
    // groups, depthwise
    LAYER("4 128 128 56x56 3x3 1 32"), LAYER("4 32 32 112x112 3x3 1 32"), LAYER("4 144 144 56x56 3x3 1 144"),
    LAYER("4 144 144 56x56 3x3 2 144"), LAYER("4 512 512 14x14 3x3 1 512"), LAYER("4 240 240 14x14 5x5 1 240"),
    // 5 x 5; upsampling reads its `data`; along time
    LAYER("64 6 16 28x28 5x5 1 1"), LAYER("4 32 64 28x28 5x5 1 1"), LAYER("4 64 128 56x56 4x4 2 1"),
    LAYER("32 64 64 1000 3 1 1"), FIRST("32 1 32 4000 7 2 1"), NULL};
// clang-format on

typedef enum { FORWARD, DATA, WEIGHT } Work;
typedef struct {
  Work work;
  int64_t n, c, o, size[2], kernel[2], out[2], stride, groups;
  uint32_t spatial;
} Layer;

typedef struct {
  Layer layer;
  tn_model *model;
  tn_array in[3], result;
  uint32_t n_in;
} Conv;

static tn_model *model(void *w) { return ((Conv *)w)->model; }

static void close_conv(void *w) {
  Conv *v = w;
  tn_model_free(v->model);
  for (uint32_t k = 0; k < v->n_in; k++) free(v->in[k].data);
  free(v->result.data);
  free(v);
}

// ---- a case
static uint32_t parse_axes(const char *text, int64_t out[2]) {
  long a, b;
  int n = sscanf(text, "%ldx%ld", &a, &b);
  if (n >= 1) out[0] = a;
  if (n == 2) out[1] = b;
  return n > 0 ? (uint32_t)n : 0;
}

static bool parse_work(const char *text, Work *work) {
  static const char *const names[] = {"forward", "data", "weight"};
  for (uint32_t k = 0; k < 3; k++)
    if (!strcmp(text, names[k])) return *work = (Work)k, true;
  return false;
}

static bool parse_case(const char *variant, Layer *l) {
  char work[16], size[32], kernel[32];
  long n, c, o, stride, groups;
  *l = (Layer){0};
  if (sscanf(variant, "%15s %ld %ld %ld %31s %31s %ld %ld", work, &n, &c, &o, size, kernel, &stride, &groups) != 8)
    return false;
  l->n = n, l->c = c, l->o = o, l->stride = stride, l->groups = groups;
  l->spatial = parse_axes(size, l->size);
  if (!l->spatial || parse_axes(kernel, l->kernel) != l->spatial || !parse_work(work, &l->work)) return false;
  for (uint32_t k = 0; k < l->spatial; k++) {
    int64_t padding = (l->kernel[k] - 1) / 2;
    l->out[k] = (l->size[k] + 2 * padding - l->kernel[k]) / stride + 1;
  }
  return true;
}

static int64_t product(const int64_t *v, uint32_t n) {
  int64_t all = 1;
  for (uint32_t k = 0; k < n; k++) all *= v[k];
  return all;
}

static int64_t numel(tn_array a) { return product(a.dims, a.rank); }

// ---- arrays: zeros, of images whose channels come last and of a weight
static tn_array zeros(const int64_t *dims, uint32_t rank) {
  return tn_array_of(bench_block(sizeof(float) * (size_t)product(dims, rank)), TN_F32, dims, rank);
}

static tn_array images(const Layer *l, const int64_t *size, int64_t channels) {
  int64_t dims[4] = {l->n, size[0], channels, channels};
  if (l->spatial == 2) dims[2] = size[1];
  return zeros(dims, l->spatial + 2);
}

static tn_array kernels(const Layer *l) {
  return zeros((int64_t[]){l->o, l->c / l->groups, l->kernel[0], l->kernel[1]}, l->spatial + 2);
}

static tn_tensor input(tn_function *f, Conv *v, const char *name, tn_array a, double most, uint32_t seed) {
  tn_dim dim[4];
  for (uint32_t k = 0; k < a.rank; k++) dim[k] = tn_dim_const(a.dims[k]);
  if (a.data) bench_floats(a.data, (size_t)numel(a), -most, most, seed);
  v->in[v->n_in++] = a;
  return tn_input(f, name, TN_F32, tn_shape_of(dim, a.rank));
}

// ---- the program
static tn_tensor channels_first(const Layer *l, tn_tensor x) {
  return l->spatial == 1 ? tn_permute(x, TN_INTS(0, 2, 1)) : tn_permute(x, TN_INTS(0, 3, 1, 2));
}

static tn_tensor channels_last(const Layer *l, tn_tensor x) {
  return l->spatial == 1 ? tn_permute(x, TN_INTS(0, 2, 1)) : tn_permute(x, TN_INTS(0, 2, 3, 1));
}

static tn_tensor convolve(const Layer *l, tn_tensor x, tn_tensor w) {
  tn_conv_options o = {.stride = l->stride, .groups = l->groups};
  for (uint32_t k = 0; k < l->spatial; k++) o.paddings[k] = (l->kernel[k] - 1) / 2;
  x = channels_first(l, x);
  return channels_last(l, (l->spatial == 1 ? tn_conv1d : tn_conv2d)(x, w, TN_NONE, o));
}

static void build(tn_function *f, Conv *v) {
  const Layer *l = &v->layer;
  tn_tensor x = input(f, v, "x", images(l, l->size, l->c), 1, 1);
  tn_tensor w = input(f, v, "w", kernels(l), 0.05, 2), y = convolve(l, x, w);
  v->result = l->work == FORWARD ? images(l, l->out, l->o) : l->work == DATA ? images(l, l->size, l->c) : kernels(l);
  if (l->work != FORWARD) {
    tn_tensor loss = tn_sum(tn_mul(y, input(f, v, "g", images(l, l->out, l->o), 1, 3)));
    y = tn_grad(loss, l->work == DATA ? x : w);
  }
  tn_output(f, "y", y);
}

static void *open_conv(Opening *o) {
  Conv *v = calloc(1, sizeof *v);
  o->weights = NULL;
  if (!v || !parse_case(o->variant, &v->layer)) return free(v), NULL;
  tn_program *p = tn_program_create("conv");
  tn_function *f = tn_function_begin(p, "run");
  build(f, v);
  tn_function_end(f);
  v->model = bench_compile(p, o);
  bool ok = v->model && v->result.data;
  for (uint32_t k = 0; k < v->n_in; k++) ok &= v->in[k].data != NULL;
  if (ok) return v;
  close_conv(v);
  return NULL;
}

// ---- a call
static bool step(void *w) {
  Conv *v = w;
  return tn_run(v->model, "run", v->in, v->n_in, &v->result, 1) == TN_OK;
}

static bool check(void *w, double *loss) {
  Conv *v = w;
  bool ok = step(w);
  *loss = bench_checksum(v->result.data, (size_t)numel(v->result));
  return ok;
}

// Each of the three is as many multiply-adds, padding counted as work, and reads two of x, weight and y and writes the third.
static void limits(const char *variant, double *flops, double *bytes) {
  Layer l;
  if (!parse_case(variant, &l)) return;
  double taps = (double)product(l.kernel, l.spatial), pixels = (double)(l.n * product(l.out, l.spatial));
  double weights = (double)(l.o * (l.c / l.groups)) * taps;
  *flops = 2 * pixels * weights;
  *bytes = 4 * ((double)(l.n * l.c * product(l.size, l.spatial)) + pixels * (double)l.o + weights);
}

static bool is_large(const char *variant) {
  Layer l;
  return parse_case(variant, &l) && l.groups == 1;
}

const Workload bench_conv = {.name = "conv",
                             .what = "convolutions: forward, data, weight of N C O SIZE KERNEL STRIDE GROUPS",
                             .peer = "bench/peers/%s_conv.py",
                             .forms = PEER_LAYOUTS,
                             .cases = cases,
                             .by_sizes = true,
                             .open = open_conv,
                             .check = check,
                             .step = step,
                             .model = model,
                             .close = close_conv,
                             .limits = limits,
                             .large = "one group",
                             .is_large = is_large};
