// Mean and variance by channel of what a product makes, which its kernel sums (pass fuse_moments): of every strategy, for any
// number of workers the same bits, and as exact as sums in f64 of the numbers that were stored.
#include "codegen/target.h"
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BIASED = 1, RELU = 2, TRANSPOSED = 4, EXACT = 8, LINEAR = 16, KEPT = 32 };
enum { AXES = 3, MOST_WORKERS = 5 };

typedef struct {
  uint32_t rank;
  int64_t n, c, o, groups;
  int64_t in[AXES], kernel[AXES];  // the first `rank` axes
  int64_t stride, pad;
  uint32_t options;
} Layer;

// clang-format off
static const Layer layers[] = {
    // exact: whole tiles and others, rows in bands, several columns of units, phases, channels in blocks
    {2, 3, 3, 16, 1, {5, 6}, {3, 3}, 1, 1, EXACT},
    {2, 5, 16, 32, 1, {32, 32}, {3, 3}, 1, 1, EXACT},
    {2, 2, 17, 35, 1, {9, 14}, {3, 3}, 1, 1, EXACT | KEPT},
    {2, 2, 4, 6, 2, {11, 9}, {5, 4}, 2, 2, EXACT},
    {2, 1, 4, 6, 2, {32, 32}, {3, 3}, 1, 1, EXACT},
    {2, 4, 51, 51, 3, {20, 20}, {3, 3}, 1, 1, EXACT},
    {2, 2, 40, 72, 1, {9, 8}, {1, 1}, 1, 0, EXACT},
    {2, 4, 24, 40, 1, {9, 8}, {1, 1}, 2, 0, EXACT},
    {2, 1, 520, 19, 1, {6, 40}, {3, 3}, 1, 1, EXACT},
    {2, 1, 3, 20, 1, {40, 700}, {3, 3}, 1, 1, EXACT},
    {2, 3, 8, 130, 1, {7, 7}, {3, 3}, 1, 1, EXACT},
    {1, 2, 3, 20, 1, {230}, {5}, 2, 2, EXACT},
    {3, 2, 2, 3, 1, {5, 6, 7}, {3, 3, 3}, 1, 1, EXACT},
    {2, 2, 6, 10, 1, {7, 9}, {4, 3}, 2, 1, EXACT | TRANSPOSED},
    {2, 3, 20, 18, 1, {6, 11}, {3, 3}, 3, 0, EXACT | TRANSPOSED},
    // after what follows in the kernel
    {2, 3, 3, 16, 1, {15, 16}, {3, 3}, 1, 1, EXACT | BIASED},
    {2, 3, 16, 33, 1, {12, 16}, {3, 3}, 1, 1, BIASED | RELU},
    // Winograd's algorithm: tiles that the image cuts, blocks of tiles, many channels
    {2, 4, 32, 32, 1, {32, 32}, {3, 3}, 1, 1, 0},
    {2, 3, 64, 48, 1, {13, 15}, {3, 3}, 1, 1, 0},
    {2, 2, 512, 520, 1, {14, 14}, {3, 3}, 1, 1, 0},
    {2, 3, 64, 64, 1, {10, 21}, {3, 3}, 1, 1, TRANSPOSED},
    // depthwise
    {2, 2, 19, 19, 19, {6, 11}, {3, 3}, 1, 1, 0},
    {2, 5, 40, 40, 40, {33, 35}, {3, 3}, 2, 1, 0},
    {2, 1, 512, 512, 512, {16, 17}, {3, 3}, 1, 1, KEPT},
    {1, 1, 6, 6, 6, {500}, {45}, 1, 22, 0},
    // products: tiled, one row, few rows, a long k in slices, a single worker
    {0, 500, 70, 130, 1, {0}, {0}, 1, 0, LINEAR},
    {0, 64, 4000, 16, 1, {0}, {0}, 1, 0, LINEAR},
    {0, 1, 300, 40, 1, {0}, {0}, 1, 0, LINEAR},
    {0, 9, 30, 200, 1, {0}, {0}, 1, 0, LINEAR | BIASED | RELU},
    {0, 7, 3, 5, 1, {0}, {0}, 1, 0, LINEAR},
};
// clang-format on
enum { N_LAYERS = sizeof layers / sizeof *layers };

static int64_t out_of(const Layer *l, uint32_t k) {
  if (l->options & TRANSPOSED) return (l->in[k] - 1) * l->stride - 2 * l->pad + l->kernel[k];
  return (l->in[k] + 2 * l->pad - l->kernel[k]) / l->stride + 1;
}

// ---- arrays
typedef struct {
  float *v;
  uint32_t rank;
  int64_t dim[2 + AXES];
} Array;

static int64_t size_of(const Array *a) {
  int64_t n = 1;
  for (uint32_t k = 0; k < a->rank; k++) n *= a->dim[k];
  return n;
}

static Array array_of(uint32_t rank, int64_t a, int64_t b, const int64_t *spatial) {
  Array x = {.rank = rank, .dim = {a, b}};
  for (uint32_t k = 2; k < rank; k++) x.dim[k] = spatial[k - 2];
  x.v = calloc((size_t)size_of(&x) + 1, sizeof *x.v);
  return x;
}

static float next(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) * 0x1p-24f;
}

static tn_array view(const Array *a) { return tn_array_of(a->v, TN_F32, a->dim, a->rank); }

typedef struct {
  const Layer *l;
  Array x, weight, bias, y, mean, variance;
} Data;

typedef enum {
  NEAR,      // means near 0
  FAR,       // x is a large number and little more
  HALF,      // of the batch
  EMPTY,     // no batch
  INFINITE,  // the first x
  LARGE,     // squares overflow
  OPPOSITE,  // of a product, the first row and the last, further apart than f32 reaches, others 0
  N_KINDS
} Kind;

static void fill_x(Array *x, Kind kind, uint32_t *seed) {
  int64_t n = size_of(x);
  for (int64_t k = 0; k < n; k++)
    x->v[k] = (next(seed) - 0.5f + (kind == FAR ? 1000 : 0)) * (kind == LARGE ? 1e25f : 1);
  if (kind == INFINITE && n) x->v[0] = INFINITY;
  if (kind != OPPOSITE) return;
  for (int64_t k = 0; k < n; k++) x->v[k] = 0;
  x->v[0] = -3e38f, x->v[n - x->dim[1]] = 3e38f;
}

static Data data_of(const Layer *l, int64_t n, Kind kind) {
  bool transposed = l->options & TRANSPOSED;
  int64_t spatial[AXES], in_group = l->c / l->groups;
  for (uint32_t k = 0; k < l->rank; k++) spatial[k] = out_of(l, k);
  Data d = {.l = l, .x = array_of(2 + l->rank, n, l->c, l->in), .y = array_of(2 + l->rank, n, l->o, spatial)};
  d.weight = transposed ? array_of(2 + l->rank, l->c, l->o / l->groups, l->kernel)
                        : array_of(2 + l->rank, l->o, in_group, l->kernel);
  d.bias = (Array){calloc((size_t)l->o, sizeof(float)), 1, {l->o}};
  d.mean = (Array){calloc((size_t)l->o, sizeof(float)), 1, {l->o}};
  d.variance = (Array){calloc((size_t)l->o, sizeof(float)), 1, {l->o}};
  uint32_t seed = (uint32_t)(l - layers) + 1;
  fill_x(&d.x, kind, &seed);
  for (int64_t k = 0; k < size_of(&d.weight); k++) d.weight.v[k] = next(&seed) - 0.25f;
  for (int64_t k = 0; k < l->o; k++) d.bias.v[k] = next(&seed);
  return d;
}

static void free_data(Data *d) {
  free(d->x.v), free(d->weight.v), free(d->bias.v), free(d->y.v), free(d->mean.v), free(d->variance.v);
}

// ---- the program
static tn_tensor input(tn_function *f, const char *name, const Array *a, tn_dim first) {
  tn_shape s = {.rank = a->rank, .dims = {first}};
  for (uint32_t k = 1; k < a->rank; k++) s.dims[k] = tn_dim_const(a->dim[k]);
  return tn_input(f, name, TN_F32, s);
}

static tn_tensor product(const Layer *l, tn_tensor x, tn_tensor w, tn_tensor b) {
  if (l->options & LINEAR) {
    tn_tensor y = tn_matmul(x, tn_permute(w, TN_INTS(1, 0)));
    return l->options & BIASED ? tn_add(y, b) : y;
  }
  if (l->options & TRANSPOSED) {
    tn_conv_options o = {.stride = l->stride, .padding = l->pad, .groups = l->groups};
    return (tn_conv_transpose2d)(x, w, b, o);
  }
  tn_conv_options o = {.stride = l->stride, .padding = l->pad, .groups = l->groups};
  return l->rank == 1 ? (tn_conv1d)(x, w, b, o) : l->rank == 2 ? (tn_conv2d)(x, w, b, o) : (tn_conv3d)(x, w, b, o);
}

static bool has_moments(tn_program *p) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  tn_dump(p, out, TN_DUMP_LIFETIMES);
  fclose(out);
  bool has = strstr(text, " moments") != NULL;
  free(text);
  return has;
}

static tn_model *compiled(const Data *d, uint32_t workers) {
  const Layer *l = d->l;
  tn_program *p = tn_program_create("layer");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = input(f, "x", &d->x, tn_dim_bounded(p, "batch", l->n)),
            w = input(f, "w", &d->weight, tn_dim_const(d->weight.dim[0])),
            b = input(f, "b", &d->bias, tn_dim_const(l->o));
  tn_tensor y = product(l, x, w, (l->options & BIASED) ? b : TN_NONE);
  if (l->options & RELU) y = tn_relu(y);
  int axes[1 + AXES] = {0};
  for (uint32_t k = 0; k < l->rank; k++) axes[1 + k] = (int)k + 2;
  bool keeps = l->options & KEPT;
  tn_tensor mean = (tn_mean_axes)(y, keeps, axes, 1 + l->rank, TN_SITE),
            variance = (tn_var_axes)(y, 0, keeps, axes, 1 + l->rank, TN_SITE);
  tn_output(f, "y", y), tn_output(f, "mean", tn_flatten(mean, 0, -1)), tn_output(f, "var", tn_flatten(variance, 0, -1));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = workers, .exact_convolution = l->options & EXACT);
  if (m && !CHECK(has_moments(p))) printf("  layer %d has no moments\n", (int)(l - layers));
  tn_program_free(p);
  return m;
}

// ---- what should come out: of the numbers that were stored
static void check_channel(const Data *d, int64_t channel, const char *target) {
  const Array *y = &d->y;
  int64_t pixels = 1, n = y->dim[0];
  double sum = 0, squares = 0;
  for (uint32_t k = 2; k < y->rank; k++) pixels *= y->dim[k];
  for (int64_t i = 0; i < n * pixels; i++)
    sum += (double)y->v[(i / pixels * y->dim[1] + channel) * pixels + i % pixels];
  double mean = sum / (double)(n * pixels);
  for (int64_t i = 0; i < n * pixels; i++) {
    double x = (double)y->v[(i / pixels * y->dim[1] + channel) * pixels + i % pixels] - mean;
    squares += x * x;
  }
  double variance = squares / (double)(n * pixels),
         got[] = {(double)d->mean.v[channel], (double)d->variance.v[channel]};
  bool no_number = n == 0 || isnan(mean), is_finite = n > 0 && isfinite(mean);
  bool overflows = (double)(float)variance > (double)FLT_MAX;
  bool ok = no_number    ? isnan(got[0]) && isnan(got[1])
            : !is_finite ? got[0] == mean && isnan(got[1])
                         : fabs(got[0] - mean) <= 1e-6 * (fabs(mean) + sqrt(variance)) &&
                               (overflows ? got[1] == (double)INFINITY
                                          : fabs(got[1] - variance) <= 2e-5 * variance + 1e-12 * mean * mean);
  if (!CHECK(ok))
    printf("  layer %d, %s, batch %d, channel %d: mean %.9g, should be %.9g; variance %.9g, should be %.9g\n",
           (int)(d->l - layers), target, (int)n, (int)channel, got[0], mean, got[1], variance);
}

static bool run(const Data *d, tn_model *m) {
  tn_array in[] = {view(&d->x), view(&d->weight), view(&d->bias)};
  tn_array out[] = {view(&d->y), view(&d->mean), view(&d->variance)};
  return CHECK(tn_run(m, "run", in, 3, out, 3) == TN_OK);
}

static bool same_bits(const Array *a, const Array *b) {
  return memcmp(a->v, b->v, (size_t)size_of(a) * sizeof(float)) == 0;
}

static void check_layer(const Layer *l, const char *target) {
  tn_model *m[MOST_WORKERS];
  Data whole = data_of(l, l->n, NEAR);
  for (uint32_t k = 0; k < MOST_WORKERS; k++) m[k] = k == 3 ? NULL : compiled(&whole, k + 1);
  free_data(&whole);
  for (Kind kind = NEAR; kind < N_KINDS && m[0]; kind++) {
    int64_t n = kind == HALF ? (l->n + 1) / 2 : kind == EMPTY ? 0 : l->n;
    if (kind == OPPOSITE && (!(l->options & LINEAR) || n < 2)) continue;
    Data d = data_of(l, n, kind);
    if (run(&d, m[0]))
      for (int64_t k = 0; k < l->o; k++) check_channel(&d, k, target);
    for (uint32_t k = 1; k < MOST_WORKERS; k++) {
      Data other = data_of(l, n, kind);
      if (m[k] && run(&other, m[k])) CHECK(same_bits(&d.mean, &other.mean) && same_bits(&d.variance, &other.variance));
      free_data(&other);
    }
    free_data(&d);
  }
  for (uint32_t k = 0; k < MOST_WORKERS; k++) tn_model_free(m[k]);
}

static void check_target(const char *name) {
  char lack[TARGET_LACK];
  const Target *t = cg_target_find(name);
  if (!CHECK(t != NULL) || !cg_target_runs_here(t, lack)) return;
  setenv("TN_TARGET", name, 1);
  for (uint32_t k = 0; k < N_LAYERS; k += 2) check_layer(&layers[k], name);
  unsetenv("TN_TARGET");
}

int main(void) {
  for (uint32_t k = 0; k < N_LAYERS; k++) check_layer(&layers[k], "here");
  check_target("generic"), check_target("avx2");
  return check_report();
}
