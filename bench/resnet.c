// resnet20: one training step of ResNet-20 on 64 images of 32 x 32, with SGD and momentum. resnet50: ResNet-50 on 4 images of
// 224 x 224, forward, in evaluation. The models are those of examples/resnet.
#include "bench/bench.h"
#include "examples/resnet/model.h"
#include <stdlib.h>

enum { BATCH = 64, SIDE = 32, CLASSES = 10, LARGE_BATCH = 4, LARGE_SIDE = 224, LARGE_CLASSES = 1000 };

typedef struct {
  tn_model *model;
  float *image, loss, logits[LARGE_BATCH * LARGE_CLASSES];
  int64_t label[BATCH];
} Run;

static void close_run(void *w) {
  Run *r = w;
  tn_model_free(r->model);
  free(r->image), free(r);
}

static void *opened(tn_program *p, Opening *o, size_t n_image) {
  Run *r = calloc(1, sizeof *r);
  r->image = malloc(n_image * sizeof *r->image);
  bench_floats(r->image, n_image, -1, 1, 1);
  bench_integers(r->label, BATCH, CLASSES, 2);
  r->model = bench_compile(p, o);
  if (r->model) return r;
  close_run(r);
  return NULL;
}

static tn_model *model(void *w) { return ((Run *)w)->model; }

// ---- training
static void *open_training(Opening *o) {
  tn_program *p = tn_program_create("resnet20");
  const Resnet *r = resnet_of_depth(20);
  resnet_make(p, r, CLASSES);
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(BATCH, 3, SIDE, SIDE)), y = tn_input(f, "y", TN_I64, TN_SHAPE(BATCH));
  tn_tensor loss = tn_cross_entropy(resnet_logits(p, r, x), y);
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_sgd(f, tn_root(p), .lr = 0.01, .momentum = 0.9, .weight_decay = 1e-4);
  tn_function_end(f);
  return opened(p, o, BATCH * 3 * SIDE * SIDE);
}

static bool train(void *w) {
  Run *r = w;
  return tn_run(r->model, "train_step", TN_IN(tn_f32(r->image, BATCH, 3, SIDE, SIDE), tn_i64(r->label, BATCH)),
                TN_OUT(tn_f32_scalar(&r->loss))) == TN_OK;
}

// The third loss: it knows two updates. With a rate of 0.1 it would differ by 1e-4 between f32 and f64 already.
static bool check_training(void *w, double *loss) {
  bool ok = train(w) && train(w) && train(w);
  *loss = ((Run *)w)->loss;
  return ok;
}

const Workload bench_resnet20 = {
    .name = "resnet20",
    .what = "ResNet-20, 64 images of 32 x 32: forward, backward, SGD with momentum",
    .peer = "bench/peers/%s_resnet.py",
    .forms = PEER_LAYOUTS,
    .tolerance = 1e-4,
    .open = open_training,
    .check = check_training,
    .step = train,
    .model = model,
    .close = close_run,
    .function = "train_step",
};

// ---- prediction
static void *open_prediction(Opening *o) {
  tn_program *p = tn_program_create("resnet50");
  const Resnet *r = resnet_of_depth(50);
  resnet_make(p, r, LARGE_CLASSES);
  tn_function *f = tn_function_begin(p, "predict");
  tn_eval(f, true);
  tn_output(f, "logits",
            resnet_logits(p, r, tn_input(f, "x", TN_F32, TN_SHAPE(LARGE_BATCH, 3, LARGE_SIDE, LARGE_SIDE))));
  tn_function_end(f);
  return opened(p, o, (size_t)LARGE_BATCH * 3 * LARGE_SIDE * LARGE_SIDE);
}

static bool predict(void *w) {
  Run *r = w;
  return tn_run(r->model, "predict", TN_IN(tn_f32(r->image, LARGE_BATCH, 3, LARGE_SIDE, LARGE_SIDE)),
                TN_OUT(tn_f32(r->logits, LARGE_BATCH, LARGE_CLASSES))) == TN_OK;
}

static bool check_prediction(void *w, double *sum) {
  bool ok = predict(w);
  *sum = bench_checksum(((Run *)w)->logits, LARGE_BATCH * LARGE_CLASSES);
  return ok;
}

const Workload bench_resnet50 = {
    .name = "resnet50",
    .what = "ResNet-50, 4 images of 224 x 224: forward",
    .peer = "bench/peers/%s_resnet.py",
    .forms = PEER_LAYOUTS,
    .tolerance = 1e-4,
    .open = open_prediction,
    .check = check_prediction,
    .step = predict,
    .model = model,
    .close = close_run,
    .function = "predict",
};
