// Pooling, resizing and shuffling of pixels: options and values that do not fit are refused, with a sentence that says what
// was found. What draws random numbers draws those that it says.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/report.h"

#include <math.h>
#include <string.h>

typedef struct {
  tn_tensor x, channels, wide, whole;  // [2,3,6,7], [2,8,3,3], [n,3,m,7], i64
} Values;

static Values values_of(tn_program *p, tn_function *f) {
  tn_dim n = tn_dim_bounded(p, "n", 4), m = tn_dim_bounded(p, "m", 9);
  return (Values){tn_input(f, "x", TN_F32, TN_SHAPE(2, 3, 6, 7)), tn_input(f, "channels", TN_F32, TN_SHAPE(2, 8, 3, 3)),
                  tn_input(f, "wide", TN_F32, TN_SHAPE(n, 3, m, 7)),
                  tn_input(f, "whole", TN_I64, TN_SHAPE(2, 3, 6, 7))};
}

#define REFUSED(text, call)                                                         \
  do {                                                                              \
    tn_program *p = tn_program_create("images");                                    \
    tn_function *f = tn_function_begin(p, "run");                                   \
    Values v = values_of(p, f);                                                     \
    (void)v;                                                                        \
    CHECK((call).v == 0);                                                           \
    if (!CHECK(strstr(report_of(p), text) != NULL)) printf("  %s\n", report_of(p)); \
    tn_program_free(p);                                                             \
  } while (0)

static void check_pooling(void) {
  REFUSED("pooling over 1 spatial axes takes f32", tn_max_pool1d(v.x, 2));
  REFUSED("not i64[2,3,6,7]", tn_max_pool2d(v.whole, 2));
  REFUSED("a window of 12 elements is longer than spatial axis 0, by its bound",
          tn_avg_pool2d(v.wide, 12, .stride = 1));
  REFUSED("between 1 and 32768 elements", tn_max_pool2d(v.x, 0));
  REFUSED("a window of 8 elements is longer than spatial axis 0 of 6", tn_max_pool2d(v.x, 8));
  REFUSED("half of the kernel", tn_max_pool2d(v.x, 3, .padding = 2));
  REFUSED("stride and dilation", tn_max_pool2d(v.x, 3, .stride = -1));
  REFUSED("only maxima are pooled with a dilation", tn_avg_pool2d(v.x, 3, .dilation = 2));
  REFUSED("are of averages", tn_max_pool2d(v.x, 3, .divisor = 2));
  REFUSED("an order above 0", tn_lp_pool2d(v.x, 0, 2));
  REFUSED("an order above 0", tn_lp_pool2d(v.x, 2, 2, .padding = 1));
  REFUSED("pooling to a size", tn_adaptive_avg_pool2d(v.x, 0, 1));
  REFUSED("pooling to a size", tn_adaptive_max_pool2d(v.x, 3, 1 << 23));
  REFUSED("by indices, i64 of the same shape", tn_max_unpool2d(tn_max_pool2d(v.x, 2), v.whole, 2));
  REFUSED("sizes lie between 1 and 2^24", tn_max_unpool2d(v.x, v.whole, 2, .sizes = {-1, 3}));
  REFUSED("at most half of them as padding", tn_max_unpool2d(v.x, v.whole, 2, .padding = 2));
}

static void check_images(void) {
  REFUSED("a size in [1, 2^20]", tn_interpolate(v.x, ((int64_t[]){0, 3}), TN_NEAREST));
  REFUSED("tn_interpolate takes sizes, or a scale_factor in (0, 1024]", tn_interpolate(v.x, NULL, TN_LINEAR));
  REFUSED("tn_interpolate takes f32 or u8 [N, C, spatial..] with 1 to 3 spatial axes",
          tn_interpolate(v.whole, ((int64_t[]){4, 3}), TN_NEAREST));
  REFUSED("pixels are shuffled", tn_pixel_shuffle(v.x, 2));
  REFUSED("pixels are shuffled", tn_pixel_shuffle(v.channels, 0));
  REFUSED("pixels are shuffled", tn_pixel_unshuffle(v.channels, 2));
}

static void check_columns(void) {
  REFUSED("windows are taken of [N, C, H, W]", tn_unfold2d(tn_flatten(v.x, 1, -1), 2));
  REFUSED("windows have 1 to 1024 elements", tn_unfold2d(v.x, 0));
  REFUSED("windows have 1 to 1024 elements", tn_unfold2d(v.x, 2, .stride = -1));
  REFUSED("a window of 9 elements is longer than spatial axis 0, with its padding", tn_unfold2d(v.x, 5, .dilation = 2));
  REFUSED("a window of 10 elements is longer than spatial axis 0, with its padding", tn_unfold2d(v.wide, 10));
  REFUSED("images of a height and a width", tn_fold2d(v.x, TN_SHAPE(4), 2));
  REFUSED("windows of 2 x 2 elements are added of f32 [N, C x 4, positions]", tn_fold2d(v.x, TN_SHAPE(6, 7), 2));
  REFUSED("windows of 3 x 3 elements are added of f32 [N, C x 9, positions]",
          tn_fold2d(tn_unfold2d(v.x, 3), TN_SHAPE(6, 6), 3));
}

// ---- dropout that keeps mean and variance
// Elements are dropped by `unit` at once: those to the same value, the others scaled and shifted by the same numbers.
static void check_alpha_dropout(bool by_channel) {
  enum { N = 40, C = 50, L = 10, ALL = N * C * L };
  const double p = 0.3, low = 1.7580993408473766, scale = 1 / sqrt((low * low * p + 1) * (1 - p));
  static float in[ALL], out[ALL];
  int64_t dropped = 0, unit = by_channel ? L : 1;
  tn_program *prog = tn_program_create("dropout");
  tn_function *f = tn_function_begin(prog, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(N, C, L));
  tn_output(f, "y", by_channel ? tn_feature_alpha_dropout(x, p) : tn_alpha_dropout(x, p));
  tn_function_end(f);
  tn_model *m = model_of(prog);
  for (int64_t k = 0; k < ALL; k++) in[k] = (float)(k % 7) - 2;
  CHECK(m && tn_run(m, "run", TN_IN(tn_f32(in, N, C, L)), TN_OUT(tn_f32(out, N, C, L))) == TN_OK);
  bool good = true;
  for (int64_t k = 0; k < ALL; k++) {
    double gone = low * scale * (p - 1), stays = scale * (double)in[k] + low * scale * p;
    bool is_gone = fabs((double)out[k] - gone) < 1e-5;
    good &= is_gone || fabs((double)out[k] - stays) < 1e-5;
    good &= k % unit == 0 || is_gone == (fabs((double)out[k - 1] - gone) < 1e-5);
    dropped += is_gone;
  }
  CHECK(good);
  CHECK(fabs((double)dropped / ALL - p) < (by_channel ? 0.04 : 0.015));
  tn_model_free(m), tn_program_free(prog);
}

static void check_dropout(void) {
  check_alpha_dropout(false), check_alpha_dropout(true);
  REFUSED("dropout takes a probability in [0, 1], not 2", tn_alpha_dropout(v.x, 2));
  REFUSED("alpha dropout takes f32", tn_alpha_dropout(v.whole, 0.5));
  REFUSED("channels are dropped of f32 [N, C, ..]", tn_feature_alpha_dropout(tn_flatten(v.x, 0, -1), 0.5));
}

// ---- sizes that the run gives
typedef struct {
  int64_t n, h, w;
} Sizes;

// Element (k, c, y, x) of the result is that of channel 4 c + 2 (y % 2) + x % 2 at (y / 2, x / 2).
static void check_shuffled(tn_model *m, Sizes s) {
  enum { MOST = 3 * 8 * 5 * 7 };
  float in[MOST], out[MOST], grad[MOST];
  int64_t count = s.n * 8 * s.h * s.w;
  for (int64_t k = 0; k < count; k++) in[k] = (float)k;
  CHECK(tn_run(m, "run", TN_IN(tn_f32(in, s.n, 8, s.h, s.w)),
               TN_OUT(tn_f32(out, s.n, 2, 2 * s.h, 2 * s.w), tn_f32(grad, s.n, 8, s.h, s.w))) == TN_OK);
  bool same = true;
  for (int64_t k = 0; k < count; k++) {
    int64_t x = k % (2 * s.w), y = k / (2 * s.w) % (2 * s.h), plane = k / (4 * s.h * s.w);
    int64_t from = ((plane * 4 + y % 2 * 2 + x % 2) * s.h + y / 2) * s.w + x / 2;
    same &= out[k] == in[from] && grad[from] == 2 * in[from];
  }
  CHECK(same);
}

static void check_run_sizes(void) {
  tn_program *p = tn_program_create("images");
  tn_function *f = tn_function_begin(p, "run");
  tn_dim n = tn_dim_bounded(p, "n", 3), h = tn_dim_bounded(p, "h", 5), w = tn_dim_bounded(p, "w", 7);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(n, 8, h, w));
  tn_set_requires_grad(x, true);
  tn_tensor y = tn_pixel_shuffle(x, 2);
  tn_output(f, "y", y), tn_output(f, "dx", tn_grad(tn_sum(tn_square(y)), x));
  tn_function_end(f);
  tn_model *m = model_of(p);
  static const Sizes sizes[] = {{3, 5, 7}, {1, 1, 1}, {2, 3, 4}, {0, 2, 2}, {3, 5, 1}};
  for (size_t k = 0; CHECK(m) && k < sizeof sizes / sizeof *sizes; k++) check_shuffled(m, sizes[k]);
  tn_model_free(m), tn_program_free(p);
}

int main(void) {
  check_run_sizes();
  check_pooling();
  check_images();
  check_columns();
  check_dropout();
  return check_report();
}
