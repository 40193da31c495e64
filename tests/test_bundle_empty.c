// A bundle whose batch is empty in a run: predictions write nothing, a training step leaves every parameter as it was, and
// what is trained before and after it is, bit for bit, what tn_run trains.
#include "tests/bundle_so.h"

#include <math.h>

enum { MOST = 6, WIDTH = 7, HIDDEN = 5, CLASSES = 3, SEED = 5 };
enum { PREDICT, STEP, N_FUNCTIONS };

// As the bundle's header declares them
typedef struct {
  int64_t batch;
  const float *x;
} PredictIn;
typedef struct {
  int64_t batch;
  const float *x;
  const int64_t *label;
} StepIn;
typedef struct {
  float *y, *total;
} PredictOut;
typedef struct {
  float *loss;
} StepOut;

// ---- the program: products, a norm over the batch, sums over it
static void add_predict(tn_program *p, tn_module *net, tn_dim B) {
  tn_function *f = tn_function_begin(p, "predict");
  tn_eval(f, true);
  tn_tensor y = tn_call(net, tn_input(f, "x", TN_F32, TN_SHAPE(B, WIDTH)));
  tn_output(f, "y", y), tn_output(f, "total", tn_sum(y));
  tn_function_end(f);
}

static void add_step(tn_program *p, tn_module *net, tn_dim B) {
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, WIDTH)), label = tn_input(f, "label", TN_I64, TN_SHAPE(B));
  tn_tensor loss = tn_cross_entropy(tn_call(net, x), label);
  tn_backward(loss);
  tn_sgd(f, net, .lr = 0.1, .momentum = 0.9);
  tn_output(f, "loss", loss);
  tn_function_end(f);
}

static tn_program *make_program(void) {
  tn_program *p = tn_program_create("empty");
  tn_dim B = tn_dim_bounded(p, "batch", MOST);
  tn_module *net = tn_sequential(tn_root(p), "net");
  tn_linear(net, "0", WIDTH, HIDDEN), tn_batch_norm(net, "1", HIDDEN), tn_linear(net, "2", HIDDEN, CLASSES);
  add_predict(p, net, B), add_step(p, net, B);
  return p;
}

// ---- both, run by run
typedef struct {
  float x[MOST * WIDTH];
  int64_t label[MOST];
} Batch;

static Batch batch_of(int64_t n, uint32_t draw) {
  Batch b;
  for (int k = 0; k < MOST * WIDTH; k++)
    b.x[k] = k < n * WIDTH ? (float)(((uint32_t)k * 37 + draw * 11) % 23) / 16 - 0.7f : NAN;
  for (uint32_t k = 0; k < MOST; k++) b.label[k] = k < n ? (int64_t)(k + draw) % CLASSES : -1;
  return b;
}

static bool same(float a, float b) { return !memcmp(&a, &b, sizeof a) || (isnan(a) && isnan(b)); }

static void predict(const BundleSo *c, int64_t n) {
  Batch b = batch_of(n, 3);
  float y[2][MOST * CLASSES], total[2] = {-7, -7};
  for (int k = 0; k < MOST * CLASSES; k++) y[0][k] = y[1][k] = 77;
  CHECK(!tn_run(c->model, "predict", TN_IN(tn_f32(b.x, n, WIDTH)),
                TN_OUT(tn_f32(y[0], n, CLASSES), tn_f32_scalar(&total[0]))));
  CHECK(bundle_so_call(c, PREDICT, &(PredictIn){n, n ? b.x : NULL}, &(PredictOut){n ? y[1] : NULL, &total[1]}) == 0);
  CHECK(!memcmp(y[0], y[1], sizeof *y) && same(total[0], total[1]) && (n || total[1] == 0));
  CHECK(bundle_so_call(c, PREDICT, &(PredictIn){n, b.x}, &(PredictOut){y[1], &total[1]}) == 0);
  CHECK(!memcmp(y[0], y[1], sizeof *y) && same(total[0], total[1]));
  for (int64_t k = n * CLASSES; k < MOST * CLASSES; k++) CHECK(y[1][k] == 77);
}

static void step(const BundleSo *c, int64_t n, uint32_t draw) {
  Batch b = batch_of(n, draw);
  float loss[2] = {-7, -7};
  CHECK(!tn_run(c->model, "step", TN_IN(tn_f32(b.x, n, WIDTH), tn_i64(b.label, n)), TN_OUT(tn_f32_scalar(&loss[0]))));
  CHECK(bundle_so_call(c, STEP, &(StepIn){n, b.x, b.label}, &(StepOut){&loss[1]}) == 0);
  CHECK(same(loss[0], loss[1]) && isnan(loss[1]) == !n);  // a mean of nothing
  CHECK(bundle_so_same_state(c));
}

static bool all_finite(const BundleSo *c) {
  for (uint32_t k = 0; k < c->about->n_tensors; k++) {
    const TnBundleTensor *t = &c->about->tensors[k];
    const float *v = (const void *)(c->state + t->offset);
    for (size_t i = 0; t->dtype == RT_F32 && i < t->bytes / sizeof *v; i++)
      if (!isfinite(v[i])) return false;
  }
  return true;
}

// Before anything has moved, an empty batch moves nothing.
static void first_step(const BundleSo *c) {
  float weight[2][CLASSES * HIDDEN], mean[2][HIDDEN];
  CHECK(!tn_get(c->model, "net.2.weight", weight[0], CLASSES * HIDDEN) &&
        !tn_get(c->model, "net.1.running_mean", mean[0], HIDDEN));
  step(c, 0, 1);
  CHECK(!tn_get(c->model, "net.2.weight", weight[1], CLASSES * HIDDEN) &&
        !tn_get(c->model, "net.1.running_mean", mean[1], HIDDEN));
  CHECK(!memcmp(weight[0], weight[1], sizeof *weight) && !memcmp(mean[0], mean[1], sizeof *mean));
}

static void run_all(const BundleSo *c) {
  static const int64_t sizes[] = {4, 0, MOST, 0, 0, 2};
  CHECK(bundle_so_same_state(c));
  predict(c, 0);
  first_step(c);
  for (uint32_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    step(c, sizes[k], k);
    predict(c, sizes[k]);
  }
  CHECK(all_finite(c));
}

int main(void) {
  BundleSo b = bundle_so_open(make_program, SEED);
  if (b.about && CHECK(b.about->n_functions == N_FUNCTIONS)) run_all(&b);
  bundle_so_close(&b);
  return check_report();
}
