// Pools whose spatial sizes only the run knows: the numbers and gradients of the same pools of constant sizes, but for
// rounding, since an average is divided by a number or by the product of several.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/near.h"
#include "tests/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 2, CHANNELS = 19, MOST_H = 9, MOST_W = 11, MOST = IMAGES * CHANNELS * (MOST_H + 2) * (MOST_W + 2) };

typedef tn_tensor Make(tn_tensor x);
static tn_tensor largest(tn_tensor x) { return tn_max_pool2d(x, 3, .stride = 2, .padding = 1); }
static tn_tensor spread(tn_tensor x) { return tn_max_pool2d(x, 2, .stride = 3, .padding = 1, .dilation = 2); }
static tn_tensor average(tn_tensor x) { return tn_avg_pool2d(x, 2); }
static tn_tensor inside(tn_tensor x) { return tn_avg_pool2d(x, 3, .stride = 2, .padding = 1, .exclude_padding = true); }
static tn_tensor cut_off(tn_tensor x) { return tn_avg_pool2d(x, 3, .stride = 2, .padding = 1, .ceil = true); }
static tn_tensor shared(tn_tensor x) { return tn_adaptive_avg_pool2d(x, 3, 4); }
static tn_tensor shared_largest(tn_tensor x) { return tn_adaptive_max_pool2d(x, 4, 3); }
static tn_tensor whole(tn_tensor x) { return tn_adaptive_avg_pool2d(x, 1, 1); }

static const struct {
  const char *name;
  Make *make;
} pools[] = {{"largest", largest},
             {"spread", spread},
             {"average", average},
             {"inside", inside},
             {"cut off", cut_off},
             {"shared", shared},
             {"shared largest", shared_largest},
             {"whole", whole}};
enum { N_POOLS = sizeof pools / sizeof *pools };

static tn_model *pool_model(Make *make, tn_dim h, tn_dim w, tn_program *p) {
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(IMAGES, CHANNELS, h, w)), y = make(x);
  tn_output(f, "y", y);
  tn_output(f, "dx", tn_grad(tn_sum(tn_mul(y, y)), x));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 2);
  return m;
}

typedef struct {
  float y[MOST], dx[MOST];
  int64_t n;
} Result;

static int64_t positions(const char *name, int64_t size, bool is_h) {
  if (!strcmp(name, "whole")) return 1;
  if (!strcmp(name, "shared")) return is_h ? 3 : 4;
  if (!strcmp(name, "shared largest")) return is_h ? 4 : 3;
  if (!strcmp(name, "average")) return size / 2;
  if (!strcmp(name, "spread")) return (size - 1) / 3 + 1;
  return strcmp(name, "cut off") ? (size - 1) / 2 + 1 : size / 2 + 1;
}

static bool run(tn_model *m, const char *name, int64_t h, int64_t w, const float *x, Result *r) {
  int64_t oh = positions(name, h, true), ow = positions(name, w, false);
  memset(r, 0, sizeof *r);
  r->n = IMAGES * CHANNELS * oh * ow;
  bool ok = tn_run(m, "run", TN_IN(tn_f32((float *)(uintptr_t)x, IMAGES, CHANNELS, h, w)),
                   TN_OUT(tn_f32(r->y, IMAGES, CHANNELS, oh, ow), tn_f32(r->dx, IMAGES, CHANNELS, h, w))) == TN_OK;
  if (!CHECK(ok)) printf("%s of %lld x %lld: %s\n", name, (long long)h, (long long)w, tn_error_text(m));
  return ok;
}

static void compare(const char *name, Make *make, tn_model *bounded, int64_t h, int64_t w, const float *x) {
  Result *a = malloc(sizeof *a), *b = malloc(sizeof *b);
  tn_model *m = pool_model(make, tn_dim_const(h), tn_dim_const(w), tn_program_create("constant"));
  if (m && run(bounded, name, h, w, x, a) && run(m, name, h, w, x, b)) {
    if (!CHECK(all_near(name, a->y, b->y, MOST, 1e-6) && all_near(name, a->dx, b->dx, MOST, 1e-6)))
      printf("%s of %lld x %lld differs\n", name, (long long)h, (long long)w);
  }
  tn_model_free(m);
  free(a), free(b);
}

static void check_pool(const char *name, Make *make, const float *x) {
  static const int64_t sizes[][2] = {{MOST_H, MOST_W}, {1, 1}, {2, 5}, {6, 2}, {7, 8}};
  tn_program *p = tn_program_create("bounded");
  tn_dim h = tn_dim_bounded(p, "h", MOST_H), w = tn_dim_bounded(p, "w", MOST_W);
  tn_model *m = pool_model(make, h, w, p);
  for (size_t k = 0; m && k < sizeof sizes / sizeof *sizes; k++)
    if (positions(name, sizes[k][0], true) > 0) compare(name, make, m, sizes[k][0], sizes[k][1], x);
  tn_model_free(m);
}

// No window of three elements lies in one of two: no positions; in one of one element there would be -1.
static void check_short(void) {
  tn_program *p = tn_program_create("short");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(1, 2, tn_dim_bounded(p, "time", 9)));
  tn_output(f, "y", tn_max_pool1d(x, 3, .stride = 1));
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  float in[6] = {1, 2, 3, 6, 5, 4}, y[2] = {0};
  if (!CHECK(m != NULL)) printf("%s\n", report_of(p));
  tn_program_free(p);
  if (!m) return;
  CHECK(tn_run(m, "run", TN_IN(tn_f32(in, 1, 2, 3)), TN_OUT(tn_f32(y, 1, 2, 1))) == TN_OK && y[0] == 3 && y[1] == 6);
  CHECK(tn_run(m, "run", TN_IN(tn_f32(in, 1, 2, 2)), TN_OUT(tn_f32(y, 1, 2, 0))) == TN_OK);
  CHECK(tn_run(m, "run", TN_IN(tn_f32(in, 1, 2, 1)), TN_OUT(tn_f32(y, 1, 2, 0))) != TN_OK);
  if (!CHECK(strstr(tn_error_text(m), "the size time-2") != NULL)) printf("%s\n", tn_error_text(m));
  tn_model_free(m);
}

int main(void) {
  check_short();
  float *x = malloc(MOST * sizeof *x);
  for (int k = 0; k < MOST; k++) x[k] = (float)((k * 7919) % 613) / 100 - 3;
  for (int k = 0; k < N_POOLS; k++) check_pool(pools[k].name, pools[k].make, x);
  free(x);
  return check_report();
}
