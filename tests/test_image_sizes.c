// Images of sizes that the run gives: one compiled function, run with images of many sizes, gives what functions that were
// compiled for each of these sizes give, with 1 and with 3 workers the same bits. Those are held to PyTorch's numbers by
// tests/op_cases.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/near.h"
#include "tests/sample.h"
#include "tests/weighted_sum.h"

#include <math.h>
#include <string.h>

enum { BOUND_N = 3, BOUND_H = 21, BOUND_W = 70, MOST = BOUND_N * 96 * BOUND_H * BOUND_W, MOST_WEIGHTS = 96 * 16 * 9 };

typedef struct {
  const char *name;
  int64_t channels, weight[4];  // weight: of an input w; none: [1, 1, 1, 1]
  tn_tensor (*call)(tn_tensor x, tn_tensor w);
} Spec;

#define CALL(name, expression)                      \
  static tn_tensor name(tn_tensor x, tn_tensor w) { \
    (void)w;                                        \
    return expression;                              \
  }
CALL(same, tn_conv2d(x, w, TN_NONE, .padding = 1))
CALL(strided, tn_conv2d(x, w, TN_NONE, .stride = 2, .padding = 1))
CALL(dilated, tn_relu(tn_conv2d(x, w, TN_NONE, .dilations = {2, 3}, .paddings = {3, 4}, .strides = {3, 1})))
CALL(one, tn_conv2d(x, w, TN_NONE, .stride = 2))
CALL(grouped, tn_conv2d(x, w, TN_NONE, .groups = 3, .paddings = {2, 0}))
CALL(depthwise, tn_relu(tn_conv2d(x, w, TN_NONE, .groups = 96, .padding = 1)))
CALL(depthwise_strided, tn_conv2d(x, w, TN_NONE, .groups = 40, .padding = 1, .stride = 2))
CALL(transposed, tn_conv_transpose2d(x, w, TN_NONE, .stride = 2, .padding = 1, .output_padding = 1))
CALL(transposed_steps, tn_relu(tn_conv_transpose2d(x, w, TN_NONE, .strides = {3, 2}, .dilations = {1, 2})))
CALL(pooled, tn_max_pool2d(tn_relu(x), 3, .stride = 2, .padding = 1))
CALL(averaged, tn_avg_pool2d(x, 2, .ceil = true))
CALL(columns, tn_unfold2d(x, 3, .padding = 1, .stride = 2))
CALL(resized, tn_interpolate(x, ((int64_t[]){9, 33}), TN_CUBIC))
CALL(resized_aligned, tn_interpolate(x, ((int64_t[]){30, 5}), TN_LINEAR, .align_corners = true))
CALL(resized_nearest, tn_interpolate(x, ((int64_t[]){11, 90}), TN_NEAREST))
static tn_program *building;
CALL(doubled, tn_call(tn_upsample_module(tn_root(building), "up", 2, TN_LINEAR), x))
static const Spec specs[] = {
    {"same", 17, {35, 17, 3, 3}, same},
    {"strided", 3, {20, 3, 3, 3}, strided},
    {"dilated", 4, {5, 4, 3, 3}, dilated},
    {"one", 7, {9, 7, 1, 1}, one},
    {"grouped", 6, {12, 2, 4, 1}, grouped},
    {"depthwise", 96, {96, 1, 3, 3}, depthwise},
    {"depthwise_strided", 40, {40, 1, 3, 3}, depthwise_strided},
    {"transposed", 5, {5, 6, 3, 3}, transposed},
    {"transposed_steps", 4, {4, 19, 2, 3}, transposed_steps},
    {"pooled", 5, {1, 1, 1, 1}, pooled},
    {"averaged", 5, {1, 1, 1, 1}, averaged},
    {"columns", 3, {1, 1, 1, 1}, columns},
    {"doubled", 3, {1, 1, 1, 1}, doubled},
    {"resized", 3, {1, 1, 1, 1}, resized},
    {"resized_aligned", 3, {1, 1, 1, 1}, resized_aligned},
    {"resized_nearest", 3, {1, 1, 1, 1}, resized_nearest},
};

typedef struct {
  int64_t n, h, w;
} Sizes;
static const Sizes sizes[] = {{BOUND_N, BOUND_H, BOUND_W}, {1, 2, 2}, {2, 13, 17}, {1, 8, 64}, {0, 5, 5}, {2, 21, 3}};

// ---- programs
typedef struct {
  tn_program *p;
  tn_model *m;
} Compiled;

// at: constant sizes; NULL: those of the run
static Compiled compile(const Spec *s, const Sizes *at, uint32_t workers) {
  tn_program *p = tn_program_create("images");
  tn_function *f = tn_function_begin(building = p, "run");
  tn_dim n = tn_dim_bounded(p, "n", BOUND_N), h = tn_dim_bounded(p, "h", BOUND_H), w = tn_dim_bounded(p, "w", BOUND_W);
  if (at) n = tn_dim_const(at->n), h = tn_dim_const(at->h), w = tn_dim_const(at->w);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(n, s->channels, h, w));
  tn_tensor weight = tn_input(f, "w", TN_F32, TN_SHAPE(s->weight[0], s->weight[1], s->weight[2], s->weight[3]));
  tn_set_requires_grad(x, true), tn_set_requires_grad(weight, true);
  tn_tensor loss = tn_add(weighted_sum(p, f, s->call(x, weight)), tn_sum(weight));
  tn_output(f, "loss", loss), tn_output(f, "dx", tn_grad(loss, x)), tn_output(f, "dw", tn_grad(loss, weight));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = workers, .exact_convolution = true);
  if (!m) printf("  %s\n", s->name);
  return (Compiled){p, m};
}

static void free_compiled(Compiled c) { tn_model_free(c.m), tn_program_free(c.p); }

// ---- runs
typedef struct {
  float loss, dx[MOST], dw[MOST_WEIGHTS];
  size_t n_x, n_w;
} Result;
static float x_in[MOST], w_in[MOST_WEIGHTS];

static bool run(const Spec *s, const Sizes *at, tn_model *m, Result *r) {
  const int64_t *w = s->weight;
  r->n_x = (size_t)(at->n * s->channels * at->h * at->w), r->n_w = (size_t)(w[0] * w[1] * w[2] * w[3]);
  if (!CHECK(r->n_x <= MOST && r->n_w <= MOST_WEIGHTS)) return false;
  tn_status status =
      tn_run(m, "run", TN_IN(tn_f32(x_in, at->n, s->channels, at->h, at->w), tn_f32(w_in, w[0], w[1], w[2], w[3])),
             TN_OUT(tn_f32_scalar(&r->loss), tn_f32(r->dx, at->n, s->channels, at->h, at->w),
                    tn_f32(r->dw, w[0], w[1], w[2], w[3])));
  if (!CHECK(status == TN_OK)) printf("  %s: %s\n", s->name, tn_error_text(m));
  return status == TN_OK;
}

static void check_sizes(const Spec *s, const Sizes *at, tn_model *one, tn_model *three) {
  static Result r, other, want;
  Compiled known = compile(s, at, 1);
  bool ran = known.m && run(s, at, one, &r) && run(s, at, three, &other) && run(s, at, known.m, &want);
  bool near = ran && all_near_largest(s->name, &r.loss, &want.loss, 1, 1e-5, 1) &&
              all_near_largest(s->name, r.dx, want.dx, want.n_x, 1e-5, 1) &&
              all_near_largest(s->name, r.dw, want.dw, want.n_w, 1e-5, 1);
  bool equal = ran && r.loss == other.loss && !memcmp(r.dx, other.dx, r.n_x * sizeof *r.dx) &&
               !memcmp(r.dw, other.dw, r.n_w * sizeof *r.dw);
  bool both = CHECK(near);
  if (!CHECK(equal) || !both)
    printf("  %s of %d x %d x %d: loss %.9g, of constant sizes %.9g\n", s->name, (int)at->n, (int)at->h, (int)at->w,
           (double)r.loss, (double)want.loss);
  free_compiled(known);
}

static void check_spec(const Spec *s, size_t at) {
  Compiled one = compile(s, NULL, 1), three = compile(s, NULL, 3);
  for (size_t k = 0; one.m && three.m && k < sizeof sizes / sizeof *sizes; k++)
    if (is_sampled(at * (sizeof sizes / sizeof *sizes) + k, 2)) check_sizes(s, &sizes[k], one.m, three.m);
  free_compiled(one), free_compiled(three);
}

// A run whose windows are longer than the padded image is refused before anything is computed.
static void check_refused(void) {
  static const Spec wide = {"wide", 3, {2, 3, 5, 5}, one};
  static Result r;
  Compiled c = compile(&wide, NULL, 1);
  tn_array in[] = {tn_f32(x_in, 1, 3, 1, 9), tn_f32(w_in, 2, 3, 5, 5)};
  tn_array out[] = {tn_f32_scalar(&r.loss), tn_f32(r.dx, 1, 3, 1, 9), tn_f32(r.dw, 2, 3, 5, 5)};
  CHECK(c.m && tn_run(c.m, "run", in, 2, out, 3) != TN_OK);
  CHECK(c.m && strstr(tn_error_text(c.m), "the size"));
  free_compiled(c);
}

int main(void) {
  for (size_t k = 0; k < MOST; k++) x_in[k] = (float)((k * 2654435761u >> 16) % 2001) / 1000 - 1;
  for (size_t k = 0; k < MOST_WEIGHTS; k++) w_in[k] = (float)((k * 40503u >> 4) % 1001) / 1000 - 0.5f;
  for (size_t k = 0; k < sizeof specs / sizeof *specs; k++) check_spec(&specs[k], k);
  check_refused();
  return check_report();
}
