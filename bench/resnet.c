// resnet20: one training step of ResNet-20 on 64 images of 32 x 32, with SGD and momentum; resnet50_training: of ResNet-50 on 4 images
// of 224 x 224. resnet50: the same forward, in evaluation. The models are those of examples/resnet.
#include "bench/bench.h"
#include "examples/resnet/model.h"
#include <stdlib.h>

enum { BATCH = 64, SIDE = 32, CLASSES = 10, LARGE_BATCH = 4, LARGE_SIDE = 224, LARGE_CLASSES = 1000 };

typedef struct {
  tn_model *model;
  int64_t batch, side;
  float *image, loss, logits[LARGE_BATCH * LARGE_CLASSES];
  int64_t label[BATCH];
} Run;

static void close_run(void *w) {
  Run *r = w;
  tn_model_free(r->model);
  free(r->image), free(r);
}

static void *opened(tn_program *p, Opening *o, int64_t batch, int64_t side, int64_t classes) {
  Run *r = calloc(1, sizeof *r);
  size_t n_image = (size_t)(batch * 3 * side * side);
  r->batch = batch, r->side = side;
  r->image = malloc(n_image * sizeof *r->image);
  bench_floats(r->image, n_image, -1, 1, 1);
  bench_integers(r->label, (size_t)batch, classes, 2);
  r->model = bench_compile(p, o);
  if (r->model) return r;
  close_run(r);
  return NULL;
}

static tn_model *model(void *w) { return ((Run *)w)->model; }

// ---- training
typedef struct {
  const char *name;
  int depth;
  int64_t batch, side, classes;
} Sizes;

static void *open_sizes(Opening *o, const Sizes *z) {
  tn_program *p = tn_program_create(z->name);
  const Resnet *r = resnet_of_depth(z->depth);
  resnet_make(p, r, z->classes);
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(z->batch, 3, z->side, z->side)),
            y = tn_input(f, "y", TN_I64, TN_SHAPE(z->batch));
  tn_tensor loss = tn_cross_entropy(resnet_logits(p, r, x), y);
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_sgd(f, tn_root(p), .lr = 0.01, .momentum = 0.9, .weight_decay = 1e-4);
  tn_function_end(f);
  return opened(p, o, z->batch, z->side, z->classes);
}

static void *open_training(Opening *o) { return open_sizes(o, &(Sizes){"resnet20", 20, BATCH, SIDE, CLASSES}); }

static void *open_large_training(Opening *o) {
  return open_sizes(o, &(Sizes){"resnet50", 50, LARGE_BATCH, LARGE_SIDE, LARGE_CLASSES});
}

static bool train(void *w) {
  Run *r = w;
  return tn_run(r->model, "train_step",
                TN_IN(tn_f32(r->image, r->batch, 3, r->side, r->side), tn_i64(r->label, r->batch)),
                TN_OUT(tn_f32_scalar(&r->loss))) == TN_OK;
}

// The third loss: it knows two updates. With a rate of 0.1 it would differ by 1e-4 between f32 and f64 already.
static bool check_training(void *w, double *loss) {
  bool ok = train(w) && train(w) && train(w);
  *loss = ((Run *)w)->loss;
  return ok;
}

#define TRAINING(id, opening, text)                          \
  {                                                          \
      .name = id,                                            \
      .what = text ": forward, backward, SGD with momentum", \
      .peer = "bench/peers/%s_resnet.py",                    \
      .forms = PEER_LAYOUTS,                                 \
      .tolerance = 1e-4,                                     \
      .open = opening,                                       \
      .check = check_training,                               \
      .step = train,                                         \
      .model = model,                                        \
      .close = close_run,                                    \
      .function = "train_step",                              \
  }
const Workload bench_resnet20 = TRAINING("resnet20", open_training, "ResNet-20, 64 images of 32 x 32"),
               bench_resnet50_training =
                   TRAINING("resnet50_training", open_large_training, "ResNet-50, 4 images of 224 x 224");

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
  return opened(p, o, LARGE_BATCH, LARGE_SIDE, LARGE_CLASSES);
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
