// Padding is no number: taps that lie outside of an image are left out, so that weights, pixels and gradients that are
// infinite or NaN show in those sums alone that they are part of. Convolutions with exact sums, forward and both gradients,
// against sums of the same products in f64. All finite data are small whole numbers: sums are exact in any order.
#include "codegen/target.h"
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BIASED = 1, RUN_SIZED = 2, PROLOGUE = 4 };
enum { AXES = 3, MOST_WORKERS = 2, FEW = 4 };

typedef struct {
  uint32_t rank;
  int64_t n, c, o, groups;
  int64_t in[AXES], kernel[AXES], stride[AXES], pad[AXES], dilation[AXES];  // the last `rank` axes
  uint32_t options;
} Layer;

// clang-format off
static const Layer layers[] = {
    // direct: rows and columns outside, all of a small image, channels in blocks, groups
    {2, 3, 3, 16, 1, {1, 5, 6}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, BIASED},
    {2, 2, 17, 35, 1, {1, 9, 14}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 0},
    {2, 1, 2, 5, 1, {1, 6, 5}, {1, 7, 5}, {1, 1, 1}, {0, 3, 2}, {1, 1, 1}, BIASED},
    {2, 2, 4, 6, 2, {1, 11, 9}, {1, 5, 4}, {1, 2, 3}, {0, 2, 3}, {1, 1, 1}, 0},
    {2, 2, 3, 4, 1, {1, 9, 8}, {1, 3, 3}, {1, 3, 2}, {0, 3, 3}, {1, 2, 3}, BIASED},
    {2, 2, 3, 4, 1, {1, 4, 5}, {1, 1, 1}, {1, 2, 1}, {0, 2, 1}, {1, 1, 1}, BIASED},
    {2, 1, 520, 3, 1, {1, 3, 40}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, BIASED},
    {1, 2, 3, 20, 1, {1, 1, 23}, {1, 1, 5}, {1, 1, 2}, {0, 0, 2}, {1, 1, 2}, 0},
    {3, 1, 2, 3, 1, {3, 4, 5}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, BIASED},
    {3, 1, 2, 3, 1, {4, 3, 5}, {2, 3, 2}, {2, 1, 1}, {2, 2, 1}, {1, 2, 2}, 0},
    // what the convolution and its weight's gradient read is made as it is copied: zeros of the padding stay zeros
    {2, 3, 3, 16, 1, {1, 5, 6}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, PROLOGUE | BIASED},
    {2, 2, 20, 9, 1, {1, 9, 14}, {1, 5, 3}, {1, 2, 1}, {0, 2, 1}, {1, 1, 1}, PROLOGUE},
    {2, 2, 3, 4, 1, {1, 9, 8}, {1, 3, 3}, {1, 3, 2}, {0, 3, 3}, {1, 2, 3}, PROLOGUE | BIASED},
    {1, 2, 3, 20, 1, {1, 1, 23}, {1, 1, 5}, {1, 1, 2}, {0, 0, 2}, {1, 1, 2}, PROLOGUE},
    {3, 1, 2, 3, 1, {3, 4, 5}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, PROLOGUE},
    {2, 2, 5, 18, 1, {1, 7, 9}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, PROLOGUE | RUN_SIZED},
    {2, 2, 3, 4, 1, {1, 4, 5}, {1, 1, 1}, {1, 2, 1}, {0, 2, 1}, {1, 1, 1}, PROLOGUE},
    {2, 2, 3, 16, 1, {1, 7, 9}, {1, 1, 3}, {1, 2, 1}, {0, 1, 1}, {1, 1, 1}, PROLOGUE},
    {2, 19, 20, 34, 1, {1, 6, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, PROLOGUE | BIASED},
    {2, 1, 130, 20, 1, {1, 5, 60}, {1, 5, 3}, {1, 1, 1}, {0, 2, 1}, {1, 1, 1}, PROLOGUE},
    // of many pixels, channels first: vectors of pixels, strides, parts of rows, channels in blocks, planes
    {2, 2, 3, 16, 1, {1, 13, 15}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, BIASED},
    {2, 1, 5, 35, 1, {1, 27, 29}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, 0},
    {2, 2, 2, 4, 1, {1, 40, 37}, {1, 5, 3}, {1, 3, 2}, {0, 4, 3}, {1, 1, 2}, BIASED},
    {2, 1, 3, 9, 1, {1, 45, 50}, {1, 4, 4}, {1, 4, 4}, {0, 1, 3}, {1, 1, 1}, BIASED},
    {1, 1, 3, 20, 1, {1, 1, 700}, {1, 1, 7}, {1, 1, 2}, {0, 0, 3}, {1, 1, 1}, BIASED},
    {2, 1, 3, 5, 1, {1, 3, 300}, {1, 3, 4}, {1, 1, 1}, {0, 1, 2}, {1, 1, 1}, 0},
    {2, 1, 40, 17, 1, {1, 26, 28}, {1, 5, 5}, {1, 2, 2}, {0, 2, 2}, {1, 1, 1}, BIASED},
    {2, 1, 300, 17, 1, {1, 25, 27}, {1, 1, 1}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, BIASED},
    {3, 1, 3, 5, 1, {5, 8, 11}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, BIASED},
    {3, 1, 30, 5, 1, {7, 9, 11}, {2, 3, 3}, {2, 1, 1}, {1, 1, 1}, {1, 1, 2}, 0},
    // whole planes of windows outside, all of them too
    {3, 2, 3, 5, 1, {2, 9, 10}, {1, 1, 1}, {1, 1, 1}, {3, 0, 0}, {1, 1, 1}, BIASED},
    {3, 1, 300, 17, 1, {3, 9, 10}, {1, 1, 1}, {2, 1, 1}, {2, 1, 1}, {1, 1, 1}, 0},
    {3, 1, 3, 20, 1, {2, 17, 19}, {2, 3, 3}, {2, 1, 2}, {4, 1, 1}, {3, 1, 1}, BIASED},
    {3, 2, 6, 4, 2, {1, 16, 15}, {5, 3, 3}, {1, 1, 1}, {6, 1, 1}, {2, 1, 1}, 0},
    // windows further apart, side by side or not, rows too; none left over
    {2, 2, 3, 17, 1, {1, 48, 52}, {1, 4, 4}, {1, 4, 4}, {0, 0, 0}, {1, 1, 1}, BIASED},
    {2, 5, 34, 19, 1, {1, 26, 27}, {1, 1, 1}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, BIASED},
    {2, 2, 3, 20, 1, {1, 96, 170}, {1, 8, 10}, {1, 8, 10}, {0, 0, 0}, {1, 1, 1}, BIASED},
    {2, 1, 2, 5, 1, {1, 40, 130}, {1, 3, 7}, {1, 2, 8}, {0, 1, 3}, {1, 1, 2}, 0},
    {2, 1, 2, 4, 1, {1, 90, 31}, {1, 7, 2}, {1, 6, 2}, {0, 3, 1}, {1, 1, 1}, BIASED},
    {2, 1, 18, 4, 1, {1, 40, 290}, {1, 2, 20}, {1, 4, 16}, {0, 1, 9}, {1, 1, 1}, BIASED},
    {1, 2, 3, 20, 1, {1, 1, 1600}, {1, 1, 5}, {1, 1, 5}, {0, 0, 0}, {1, 1, 1}, BIASED},
    {3, 1, 2, 3, 1, {6, 16, 20}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {1, 1, 1}, 0},
    // of the sizes of the run
    {2, 2, 5, 18, 1, {1, 7, 9}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, RUN_SIZED | BIASED},
    {2, 2, 4, 6, 1, {1, 9, 8}, {1, 3, 4}, {1, 3, 2}, {0, 3, 3}, {1, 2, 3}, RUN_SIZED},
    {2, 2, 40, 40, 40, {1, 6, 11}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, RUN_SIZED | BIASED},
    {2, 2, 8, 8, 8, {1, 9, 12}, {1, 4, 5}, {1, 2, 2}, {0, 2, 3}, {1, 1, 2}, RUN_SIZED},
    {1, 2, 9, 9, 9, {1, 1, 13}, {1, 1, 11}, {1, 1, 1}, {0, 0, 5}, {1, 1, 1}, RUN_SIZED},
    // of many phases, which share code: windows that are no whole cells, apart from each other, with holes; groups, planes, parts
    {2, 2, 3, 20, 1, {1, 40, 43}, {1, 11, 9}, {1, 5, 4}, {0, 3, 6}, {1, 1, 1}, BIASED},
    {2, 2, 17, 5, 1, {1, 40, 43}, {1, 5, 4}, {1, 6, 4}, {0, 4, 3}, {1, 2, 3}, RUN_SIZED | BIASED},
    {2, 1, 18, 4, 1, {1, 29, 31}, {1, 2, 3}, {1, 5, 7}, {0, 1, 0}, {1, 1, 1}, RUN_SIZED},
    {2, 1, 5, 520, 1, {1, 14, 60}, {1, 7, 11}, {1, 4, 6}, {0, 2, 3}, {1, 1, 1}, 0},
    {2, 2, 6, 4, 2, {1, 26, 23}, {1, 5, 10}, {1, 5, 5}, {0, 2, 7}, {1, 1, 1}, RUN_SIZED},
    {1, 2, 3, 20, 1, {1, 1, 200}, {1, 1, 50}, {1, 1, 20}, {0, 0, 17}, {1, 1, 1}, RUN_SIZED | BIASED},
    {1, 1, 3, 2, 1, {1, 1, 400}, {1, 1, 6}, {1, 1, 18}, {0, 0, 40}, {1, 1, 12}, 0},
    {3, 1, 4, 6, 1, {7, 9, 16}, {5, 2, 4}, {3, 2, 4}, {2, 1, 1}, {1, 1, 1}, RUN_SIZED},
    {2, 1, 8, 8, 8, {1, 41, 37}, {1, 7, 9}, {1, 6, 5}, {0, 3, 4}, {1, 1, 2}, RUN_SIZED | BIASED},
    {2, 1, 40, 40, 40, {1, 33, 37}, {1, 7, 3}, {1, 6, 5}, {0, 3, 4}, {1, 1, 1}, 0},
    {2, 1, 8, 8, 8, {1, 90, 13}, {1, 23, 5}, {1, 9, 2}, {0, 8, 2}, {1, 1, 1}, 0},
    // depthwise: in place, from strips, many columns outside, parts of a vector
    {2, 2, 19, 19, 19, {1, 6, 11}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, BIASED},
    {2, 1, 512, 512, 512, {1, 6, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, BIASED},
    {2, 1, 512, 512, 512, {1, 5, 7}, {1, 5, 3}, {1, 2, 2}, {0, 2, 1}, {1, 1, 1}, 0},
    {2, 1, 512, 512, 512, {1, 5, 4}, {1, 1, 1}, {1, 1, 2}, {0, 1, 2}, {1, 1, 1}, BIASED},
    {1, 1, 6, 6, 6, {1, 1, 50}, {1, 1, 45}, {1, 1, 1}, {0, 0, 22}, {1, 1, 1}, 0},
    {2, 2, 16, 16, 4, {1, 7, 9}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, BIASED},
    {2, 1, 512, 512, 128, {1, 4, 5}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 0},
    {3, 1, 8, 8, 8, {3, 4, 5}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, BIASED},
    {3, 1, 512, 512, 512, {3, 4, 5}, {3, 3, 3}, {1, 2, 1}, {1, 1, 1}, {1, 1, 1}, 0},
};
// clang-format on
enum { N_LAYERS = sizeof layers / sizeof *layers };

static int64_t out_of(const Layer *l, uint32_t k) {
  return (l->in[k] + 2 * l->pad[k] - l->dilation[k] * (l->kernel[k] - 1) - 1) / l->stride[k] + 1;
}

// ---- arrays, [image][channel][spatial..] as PyTorch has them
typedef enum { X, WEIGHT, SCALE, BIAS, SHIFT, N_INPUTS } Input;  // SHIFT: by channel, of the prologue
typedef enum { Y, DX, DW, N_RESULTS } Result;
static const char *const input_name[N_INPUTS] = {"x", "the weight", "the gradient"};
static const char *const result_name[N_RESULTS] = {"y", "dx", "dw"};

typedef struct {
  float *v;
  uint32_t rank;
  int64_t dim[5], size;
} Array;

static Array array_of(const Layer *l, int64_t rows, int64_t channels, const int64_t *spatial) {
  Array a = {.rank = 2 + l->rank, .dim = {rows, channels}, .size = rows * channels};
  for (uint32_t k = 0; k < l->rank; k++) a.dim[2 + k] = spatial[AXES - l->rank + k], a.size *= a.dim[2 + k];
  a.v = calloc((size_t)a.size + 1, sizeof *a.v);
  return a;
}

static Array image(const Layer *l, bool out) {
  const int64_t spatial[AXES] = {out_of(l, 0), out_of(l, 1), out_of(l, 2)};
  return array_of(l, l->n, out ? l->o : l->c, out ? spatial : l->in);
}

static Array weight(const Layer *l) { return array_of(l, l->o, l->c / l->groups, l->kernel); }

static uint32_t next(uint32_t *state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }

// Whole numbers from -2 to 2; where `wild`, a few are not finite.
static void draw(Array *a, uint32_t seed, bool wild) {
  static const float no_number[] = {INFINITY, -INFINITY, NAN};
  uint32_t one_of = (uint32_t)(a->size / FEW + 1);
  for (int64_t k = 0; k < a->size; k++) {
    a->v[k] = (float)(next(&seed) % 5) - 2;
    if (wild && next(&seed) % one_of == 0) a->v[k] = no_number[next(&seed) % 3];
  }
}

static tn_array view(const Array *a) { return tn_array_of(a->v, TN_F32, a->dim, a->rank); }

// ---- the sums
typedef struct {
  const Layer *l;
  Array in[N_INPUTS], out[N_RESULTS];
  double *want[N_RESULTS];
} Data;

// Element x of the image that is convolved.
static double source_of(const Data *d, int64_t x) {
  const Layer *l = d->l;
  double a = (double)d->in[X].v[x];
  if (!(l->options & PROLOGUE)) return a;
  a += (double)d->in[SHIFT].v[x / (l->in[0] * l->in[1] * l->in[2]) % l->c];
  return a > 0 || isnan(a) ? a : 0;
}

static void add_products(Data *d, int64_t n, int64_t p, int64_t at, int64_t tap) {
  const Layer *l = d->l;
  int64_t in = l->in[0] * l->in[1] * l->in[2], out = out_of(l, 0) * out_of(l, 1) * out_of(l, 2);
  int64_t taps = l->kernel[0] * l->kernel[1] * l->kernel[2], in_group = l->c / l->groups, out_group = l->o / l->groups;
  for (int64_t o = 0; o < l->o; o++)
    for (int64_t i = 0; i < in_group; i++) {
      int64_t x = (n * l->c + o / out_group * in_group + i) * in + at, y = (n * l->o + o) * out + p;
      int64_t w = (o * in_group + i) * taps + tap;
      double a = source_of(d, x), b = (double)d->in[WEIGHT].v[w], g = (double)d->in[SCALE].v[y];
      d->want[Y][y] += a * b, d->want[DX][x] += g * b, d->want[DW][w] += a * g;
    }
}

// The place in the image that the tap of the window at p meets; -1: none.
static int64_t place_of(const Layer *l, const int64_t *p, const int64_t *tap) {
  int64_t place = 0;
  for (uint32_t k = 0; k < AXES; k++) {
    int64_t at = p[k] * l->stride[k] + tap[k] * l->dilation[k] - l->pad[k];
    if (at < 0 || at >= l->in[k]) return -1;
    place = place * l->in[k] + at;
  }
  return place;
}

static void sum_up(Data *d) {
  const Layer *l = d->l;
  int64_t h = out_of(l, 1), w = out_of(l, 2), out = out_of(l, 0) * h * w;
  int64_t kh = l->kernel[1], kw = l->kernel[2], taps = l->kernel[0] * kh * kw;
  for (int64_t pixel = 0; pixel < l->n * out; pixel++)
    for (int64_t tap = 0; tap < taps; tap++) {
      int64_t p = pixel % out, at = place_of(l, (int64_t[]){p / w / h, p / w % h, p % w},
                                             (int64_t[]){tap / kw / kh, tap / kw % kh, tap % kw});
      if (at >= 0) add_products(d, pixel / out, p, at, tap);
    }
  for (int64_t k = 0; (l->options & BIASED) && k < d->out[Y].size; k++)
    d->want[Y][k] += (double)d->in[BIAS].v[k / out % l->o];
  for (int64_t k = 0; (l->options & PROLOGUE) && k < d->out[DX].size; k++)
    if (source_of(d, k) <= 0) d->want[DX][k] = 0;  // NaN passes it on
}

static Data data_of(const Layer *l, Input wild, uint32_t seed) {
  Data d = {.l = l, .in = {image(l, false), weight(l), image(l, true)}};
  d.in[BIAS] = (Array){calloc((size_t)l->o, sizeof(float)), 1, {l->o}, l->o};
  d.in[SHIFT] = (Array){calloc((size_t)l->c, sizeof(float)), 1, {l->c}, l->c};
  for (Input k = 0; k < N_INPUTS; k++) draw(&d.in[k], seed + k, k == wild);
  d.out[Y] = image(l, true), d.out[DX] = image(l, false), d.out[DW] = weight(l);
  for (Result k = 0; k < N_RESULTS; k++) d.want[k] = calloc((size_t)d.out[k].size + 1, sizeof(double));
  sum_up(&d);
  return d;
}

static void free_data(Data *d) {
  for (Input k = 0; k < N_INPUTS; k++) free(d->in[k].v);
  for (Result k = 0; k < N_RESULTS; k++) free(d->out[k].v), free(d->want[k]);
}

// ---- the program
static tn_tensor input(tn_function *f, const char *name, const Array *a, const tn_dim *spatial) {
  tn_shape shape = {.rank = a->rank};
  for (uint32_t k = 0; k < a->rank; k++) shape.dims[k] = spatial && k >= 2 ? spatial[k - 2] : tn_dim_const(a->dim[k]);
  tn_tensor x = tn_input(f, name, TN_F32, shape);
  tn_set_requires_grad(x, true);
  return x;
}

static tn_tensor convolve(const Layer *l, tn_tensor x, tn_tensor w, tn_tensor b) {
  tn_conv_options o = {.groups = l->groups};
  for (uint32_t k = 0; k < l->rank; k++) {
    uint32_t axis = AXES - l->rank + k;
    o.strides[k] = l->stride[axis], o.paddings[k] = l->pad[axis], o.dilations[k] = l->dilation[axis];
  }
  return l->rank == 1 ? (tn_conv1d)(x, w, b, o) : l->rank == 2 ? (tn_conv2d)(x, w, b, o) : (tn_conv3d)(x, w, b, o);
}

static tn_tensor made_of(tn_function *f, tn_tensor x, const Array *shift) {
  tn_shape by_channel = {.rank = tn_rank(x) - 1, .dims = {tn_dim_const(shift->size)}};
  for (uint32_t k = 1; k < by_channel.rank; k++) by_channel.dims[k] = tn_dim_const(1);
  return tn_relu(tn_add(x, tn_reshape(input(f, "shift", shift, NULL), by_channel)));
}

static tn_model *compiled(const Data *d, uint32_t workers) {
  const Layer *l = d->l;
  tn_program *p = tn_program_create("padding");
  tn_function *f = tn_function_begin(p, "run");
  tn_dim spatial[AXES];
  for (uint32_t k = 0; k < l->rank; k++) {
    static const char *const name[AXES] = {"depth", "height", "width"};
    spatial[k] = tn_dim_bounded(p, name[AXES - l->rank + k], d->in[X].dim[2 + k] + 3);
  }
  tn_tensor x = input(f, "x", &d->in[X], l->options & RUN_SIZED ? spatial : NULL),
            w = input(f, "w", &d->in[WEIGHT], NULL);
  tn_tensor b = input(f, "b", &d->in[BIAS], NULL), read = l->options & PROLOGUE ? made_of(f, x, &d->in[SHIFT]) : x;
  tn_tensor y = convolve(l, read, w, (l->options & BIASED) ? b : TN_NONE);
  tn_output(f, "y", y);
  for (uint32_t k = 0; k < l->rank; k++) spatial[k] = tn_dim_of(y, (int)k + 2);
  tn_tensor loss = tn_sum(tn_mul(y, input(f, "scale", &d->in[SCALE], spatial)));
  tn_output(f, "dx", tn_grad(loss, x)), tn_output(f, "dw", tn_grad(loss, w));
  tn_function_end(f);
  return model_alone(p, .n_workers = workers, .exact_convolution = true);
}

static bool run(const Data *d, tn_model *m) {
  tn_array in[N_INPUTS] = {view(&d->in[X]), view(&d->in[WEIGHT]), view(&d->in[BIAS])};
  uint32_t n = 3;
  if (d->l->options & PROLOGUE) in[n++] = view(&d->in[SHIFT]);
  in[n++] = view(&d->in[SCALE]);
  tn_array out[] = {view(&d->out[Y]), view(&d->out[DX]), view(&d->out[DW])};
  return CHECK(tn_run(m, "run", in, n, out, N_RESULTS) == TN_OK);
}

static void compare(const Data *d, Input wild, Result r, const char *target) {
  int64_t wrong = 0, no_numbers = 0;
  for (int64_t k = 0; k < d->out[r].size; k++) {
    double got = (double)d->out[r].v[k], want = d->want[r][k];
    no_numbers += isnan(want);
    wrong += isnan(got) && isnan(want) ? 0 : got != want;
  }
  bool good = CHECK(no_numbers < d->out[r].size);
  if (CHECK(wrong == 0) && good) return;
  printf("  layer %d, %s, %s not finite: %lld of %lld elements of %s are wrong, %lld should be NaN\n",
         (int)(d->l - layers), target, input_name[wild], (long long)wrong, (long long)d->out[r].size, result_name[r],
         (long long)no_numbers);
}

static void check_layer(const Layer *l, uint32_t workers, const char *target) {
  tn_model *m = NULL;
  for (Input wild = X; wild <= SCALE; wild++) {
    Data d = data_of(l, wild, (uint32_t)(l - layers) * 7 + wild);
    if (!m) m = compiled(&d, workers);
    if (m && run(&d, m))
      for (Result r = 0; r < N_RESULTS; r++) compare(&d, wild, r, target);
    free_data(&d);
  }
  tn_model_free(m);
}

static void check_target(const char *name) {
  char lack[TARGET_LACK];
  const Target *t = cg_target_find(name);
  if (!CHECK(t != NULL) || !cg_target_runs_here(t, lack)) return;
  setenv("TN_TARGET", name, 1);
  for (uint32_t k = 0; k < N_LAYERS; k += 3) check_layer(&layers[k], 1, name);
  unsetenv("TN_TARGET");
}

int main(void) {
  for (uint32_t k = 0; k < N_LAYERS; k++)
    if (is_sampled(k, 2)) check_layer(&layers[k], 1 + k % MOST_WORKERS, "here");
  check_target("generic"), check_target("avx2");
  return check_report();
}
