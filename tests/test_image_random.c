// Random programs of images whose heights and widths the run gives: convolutions of all kinds, pools, images of other sizes, one
// behind the other, and the gradients of x and all weights. One compiled function, run with images of several sizes, gives what
// functions that were compiled for each of these sizes give (tests/op_cases holds those to PyTorch's numbers), with 1 and 3
// workers the same bits.
//   test_image_random [programs] [first seed]
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/near.h"
#include "tests/rng.h"
#include "tests/weighted_sum.h"

#include <math.h>
#include <string.h>

enum { MAX_STEPS = 3, N_SIZES = 3, BOUND = 19, IMAGES = 2, MOST_SIDE = 48, MOST_X = 1 << 16, MOST_W = 1 << 14 };
typedef enum { CONV, TRANSPOSED, DEPTHWISE, MAX_POOL, AVG_POOL, RESIZE, N_KINDS } Kind;
static const char *const kind_name[N_KINDS] = {"conv", "transposed", "depthwise", "max pool", "average pool", "resize"};
typedef struct {
  Kind kind;
  int64_t kernel[2], stride[2], pad[2], dilation[2], extra[2], size[2], groups, in, out;
  bool ceil, exclude_padding, align, is_relu;
  tn_interpolation mode;
} Step;
typedef struct {
  Step step[MAX_STEPS];
  int n;
  int64_t bound, at[N_SIZES][2];
} Trial;

// ---- drawing
static Rng rng;
static int64_t from_to(int64_t lo, int64_t hi) { return lo + rng_below(&rng, (uint32_t)(hi - lo + 1)); }
static bool one_in(uint32_t n) { return rng_below(&rng, n) == 0; }

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// The elements of axis k behind the step; less than 1: it does not fit.
static int64_t size_after(const Step *s, int k, int64_t n) {
  int64_t reach = s->dilation[k] * (s->kernel[k] - 1) + 1, room = n + 2 * s->pad[k] - reach;
  if (s->kind == RESIZE) return s->size[k];
  if (s->kind == TRANSPOSED) return (n - 1) * s->stride[k] - 2 * s->pad[k] + reach + s->extra[k];
  if (s->ceil) room = room + s->stride[k] < n + s->pad[k] ? room + s->stride[k] - 1 : n + s->pad[k] - 1;
  return floor_div(room, s->stride[k]) + 1;
}

static Step draw_step(int64_t channels) {
  Step s = {
      .kind = (Kind)rng_below(&rng, N_KINDS), .groups = 1, .in = channels, .out = from_to(1, 9), .is_relu = one_in(3)};
  if (channels == 0 && s.kind == DEPTHWISE) s.kind = CONV;  // there are no 0 groups
  if (one_in(12)) s.out = 0;
  bool is_pool = s.kind == MAX_POOL || s.kind == AVG_POOL;
  if (is_pool || s.kind == RESIZE) s.out = channels;
  if (s.kind == DEPTHWISE) s.groups = channels, s.out = channels * from_to(1, 2);
  else if (!is_pool && s.kind != RESIZE && channels % 2 == 0 && one_in(3)) s.groups = 2, s.out = 2 * from_to(1, 9);
  s.ceil = is_pool && one_in(2), s.exclude_padding = s.kind == AVG_POOL && one_in(2);
  s.mode = (tn_interpolation)rng_below(&rng, TN_AREA + 1);
  s.align = (s.mode == TN_LINEAR || s.mode == TN_CUBIC) && one_in(2);
  for (int k = 0; k < 2; k++) {
    s.kernel[k] = from_to(1, 5), s.stride[k] = one_in(2) ? 1 : from_to(1, 3);
    s.dilation[k] = s.kind != AVG_POOL && one_in(3) ? 2 : 1;
    s.pad[k] = from_to(0, is_pool ? s.kernel[k] / 2 : 3);
    s.extra[k] = s.kind == TRANSPOSED ? from_to(0, (s.stride[k] > s.dilation[k] ? s.stride[k] : s.dilation[k]) - 1) : 0;
    s.size[k] = from_to(1, 2 * BOUND);
  }
  return s;
}

static bool fits(const Step *s, int64_t n[N_SIZES][2]) {
  bool good = true;
  for (int i = 0; i < N_SIZES; i++)
    for (int k = 0; k < 2; k++) {
      n[i][k] = size_after(s, k, n[i][k]);
      good &= n[i][k] >= 1 && n[i][k] <= MOST_SIDE;
    }
  return good && size_after(s, 0, BOUND) <= MOST_SIDE && size_after(s, 1, BOUND) <= MOST_SIDE;
}

static Trial draw_trial(void) {
  Trial t = {.n = (int)from_to(1, MAX_STEPS)};
  int64_t now[N_SIZES][2], channels = one_in(12) ? 0 : from_to(1, 8);
  t.bound = one_in(3) ? from_to(1, 4) : BOUND;
  for (int i = 0; i < N_SIZES; i++)
    for (int k = 0; k < 2; k++) now[i][k] = t.at[i][k] = i ? from_to(1, t.bound) : t.bound;
  for (int k = 0; k < t.n; channels = t.step[k++].out) {
    int64_t next[N_SIZES][2];
    do {
      memcpy(next, now, sizeof now);
      t.step[k] = draw_step(channels);
    } while (!fits(&t.step[k], next));
    memcpy(now, next, sizeof now);
  }
  return t;
}

// ---- building
static bool has_weight(const Step *s) { return s->kind <= DEPTHWISE; }

static void weight_dims(const Step *s, int64_t d[4]) {
  bool back = s->kind == TRANSPOSED;
  d[0] = back ? s->in : s->out, d[1] = (back ? s->out : s->in) / s->groups, d[2] = s->kernel[0], d[3] = s->kernel[1];
}

static tn_tensor window_step(const Step *s, tn_tensor x, tn_tensor w) {
  const tn_conv_options conv = {.strides = {s->stride[0], s->stride[1]},
                                .paddings = {s->pad[0], s->pad[1]},
                                .dilations = {s->dilation[0], s->dilation[1]},
                                .output_paddings = {s->extra[0], s->extra[1]},
                                .groups = s->groups};
  const tn_pool_options pool = {.kernels = {s->kernel[0], s->kernel[1]},
                                .strides = {s->stride[0], s->stride[1]},
                                .paddings = {s->pad[0], s->pad[1]},
                                .dilations = {s->dilation[0], s->dilation[1]},
                                .ceil = s->ceil,
                                .exclude_padding = s->exclude_padding};
  switch (s->kind) {
  case MAX_POOL: return (tn_max_pool2d)(x, 0, pool);
  case AVG_POOL: return (tn_avg_pool2d)(x, 0, pool);
  case TRANSPOSED: return (tn_conv_transpose2d)(x, w, TN_NONE, conv);
  default: return (tn_conv2d)(x, w, TN_NONE, conv);
  }
}

static tn_tensor apply(const Step *s, tn_tensor x, tn_tensor w) {
  tn_tensor y =
      s->kind == RESIZE ? tn_interpolate(x, s->size, s->mode, .align_corners = s->align) : window_step(s, x, w);
  return s->is_relu ? tn_relu(y) : y;
}

static const char *const weight_names[MAX_STEPS] = {"w0", "w1", "w2"}, *const grad_names[MAX_STEPS] = {"d0", "d1",
                                                                                                       "d2"};

// at: constant sizes; NULL: those of the run
static tn_model *compile(const Trial *t, const int64_t *at, uint32_t workers) {
  tn_program *p = tn_program_create("images");
  tn_function *f = tn_function_begin(p, "run");
  tn_dim h = at ? tn_dim_const(at[0]) : tn_dim_bounded(p, "h", t->bound);
  tn_dim w = at ? tn_dim_const(at[1]) : tn_dim_bounded(p, "w", t->bound);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(IMAGES, t->step[0].in, h, w)), y = x, weight[MAX_STEPS] = {{0}};
  tn_set_requires_grad(x, true);
  for (int k = 0; k < t->n; k++) {
    int64_t d[4];
    weight_dims(&t->step[k], d);
    if (has_weight(&t->step[k])) {
      weight[k] = tn_input(f, weight_names[k], TN_F32, TN_SHAPE(d[0], d[1], d[2], d[3]));
      tn_set_requires_grad(weight[k], true);
    }
    y = apply(&t->step[k], y, weight[k]);
  }
  tn_tensor loss = weighted_sum(p, f, y);
  tn_output(f, "loss", loss), tn_output(f, "dx", tn_grad(loss, x));
  for (int k = 0; k < t->n; k++)
    if (has_weight(&t->step[k])) tn_output(f, grad_names[k], tn_grad(loss, weight[k]));
  tn_function_end(f);
  return model_alone(p, .n_workers = workers, .exact_convolution = true);
}

// ---- runs
typedef struct {
  float loss, dx[MOST_X], dw[MAX_STEPS][MOST_W];
  size_t n_x, n_w[MAX_STEPS];
} Result;
static float x_in[MOST_X], w_in[MAX_STEPS][MOST_W];

static bool run(const Trial *t, const int64_t *at, tn_model *m, Result *r) {
  tn_array in[1 + MAX_STEPS], out[2 + MAX_STEPS];
  uint32_t n = 1;
  int64_t channels = t->step[0].in;
  in[0] = tn_f32(x_in, IMAGES, channels, at[0], at[1]);
  out[0] = tn_f32_scalar(&r->loss), out[1] = tn_f32(r->dx, IMAGES, channels, at[0], at[1]);
  r->n_x = (size_t)(IMAGES * channels * at[0] * at[1]);
  for (int k = 0; k < t->n; k++) {
    int64_t d[4];
    weight_dims(&t->step[k], d);
    r->n_w[k] = has_weight(&t->step[k]) ? (size_t)(d[0] * d[1] * d[2] * d[3]) : 0;
    if (!has_weight(&t->step[k])) continue;
    in[n] = tn_f32(w_in[k], d[0], d[1], d[2], d[3]);
    out[1 + n++] = tn_f32(r->dw[k], d[0], d[1], d[2], d[3]);
  }
  tn_status status = tn_run(m, "run", in, n, out, n + 1);
  if (!CHECK(status == TN_OK)) printf("  %s\n", tn_error_text(m));
  return status == TN_OK;
}

static bool results_near(const Result *a, const Result *b) {
  bool near =
      all_near_largest("loss", &a->loss, &b->loss, 1, 2e-5, 1) && all_near_largest("dx", a->dx, b->dx, b->n_x, 2e-5, 1);
  for (int k = 0; k < MAX_STEPS; k++) near &= all_near_largest("dw", a->dw[k], b->dw[k], b->n_w[k], 2e-5, 1);
  return near;
}

static bool results_equal(const Result *a, const Result *b) {
  bool equal = a->loss == b->loss && !memcmp(a->dx, b->dx, b->n_x * sizeof(float));
  for (int k = 0; k < MAX_STEPS; k++) equal &= !memcmp(a->dw[k], b->dw[k], b->n_w[k] * sizeof(float));
  return equal;
}

static void print_trial(const Trial *t, uint64_t seed, const int64_t *at) {
  printf("  seed %llu, bound %lld, %lld x %lld:", (unsigned long long)seed, (long long)t->bound, (long long)at[0],
         (long long)at[1]);
  for (int k = 0; k < t->n; k++) {
    const Step *s = &t->step[k];
    printf(" %s (%lld -> %lld, groups %lld, kernel %lld %lld, stride %lld %lld, pad %lld %lld, dilation %lld %lld, "
           "extra %lld "
           "%lld, size %lld %lld, mode %d%s%s%s)",
           kind_name[s->kind], (long long)s->in, (long long)s->out, (long long)s->groups, (long long)s->kernel[0],
           (long long)s->kernel[1], (long long)s->stride[0], (long long)s->stride[1], (long long)s->pad[0],
           (long long)s->pad[1], (long long)s->dilation[0], (long long)s->dilation[1], (long long)s->extra[0],
           (long long)s->extra[1], (long long)s->size[0], (long long)s->size[1], (int)s->mode,
           s->align ? ", align" : "", s->ceil ? ", ceil" : "", s->exclude_padding ? ", inside" : "");
  }
  printf("\n");
}

static void check_trial(const Trial *t, uint64_t seed) {
  static Result one, three, want;
  tn_model *alone = compile(t, NULL, 1), *team = compile(t, NULL, 3);
  for (int i = 0; alone && team && i < N_SIZES; i++) {
    tn_model *known = compile(t, t->at[i], 1);
    bool ran =
        known && run(t, t->at[i], alone, &one) && run(t, t->at[i], team, &three) && run(t, t->at[i], known, &want);
    bool near = CHECK(ran && results_near(&one, &want)), equal = CHECK(ran && results_equal(&one, &three));
    if (!near || !equal) print_trial(t, seed, t->at[i]);
    tn_model_free(known);
  }
  tn_model_free(alone), tn_model_free(team);
}

int main(int argc, char **argv) {
  uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 12, first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  for (size_t k = 0; k < MOST_X; k++) x_in[k] = (float)((k * 2654435761u >> 16) % 2001) / 1000 - 1;
  for (size_t i = 0; i < MAX_STEPS; i++)
    for (size_t k = 0; k < MOST_W; k++) w_in[i][k] = (float)(((k + 77 * i) * 40503u >> 4) % 1001) / 1000 - 0.5f;
  for (uint64_t seed = first; seed < first + n; seed++) {
    rng = (Rng){seed};
    Trial t = draw_trial();
    check_trial(&t, seed);
  }
  return check_report();
}
