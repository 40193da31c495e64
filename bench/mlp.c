// mlp: one training step of 784-1024-1024-10, batch 128, AdamW. tiny: 16-32-4 with tanh, batch 1, forward.
#include "bench/bench.h"
#include <stdlib.h>

enum { BATCH = 128, PIXELS = 784, WIDTH = 1024, CLASSES = 10, TINY_CALLS = 1000 };

typedef struct {
  tn_model *model;
  float x[BATCH * PIXELS], out[4];
  int64_t y[BATCH];
} Mlp;

static tn_model *model(void *w) { return ((Mlp *)w)->model; }

static void close_mlp(void *w) {
  tn_model_free(model(w));
  free(w);
}

static void *open_program(Opening *o, tn_program *p) {
  Mlp *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  bench_floats(m->x, BATCH * PIXELS, 0, 1, 1);
  bench_integers(m->y, BATCH, CLASSES, 2);
  m->model = bench_compile(p, o);
  if (m->model) return m;
  free(m);
  return NULL;
}

// ---- mlp
static void *open_mlp(Opening *o) {
  tn_program *p = tn_program_create("mlp");
  tn_module *net = tn_root(p);
  tn_module *a = tn_linear(net, "0", PIXELS, WIDTH), *b = tn_linear(net, "2", WIDTH, WIDTH);
  tn_module *c = tn_linear(net, "4", WIDTH, CLASSES);
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(BATCH, PIXELS));
  tn_tensor y = tn_input(f, "label", TN_I64, TN_SHAPE(BATCH));
  x = tn_relu(tn_call(a, x));
  x = tn_relu(tn_call(b, x));
  tn_tensor loss = tn_cross_entropy(tn_call(c, x), y);
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_adamw(f, net, .lr = 1e-3, .weight_decay = 1e-2);
  tn_function_end(f);
  return open_program(o, p);
}

static bool step_mlp(void *w) {
  Mlp *m = w;
  return tn_run(m->model, "train_step", TN_IN(tn_f32(m->x, BATCH, PIXELS), tn_i64(m->y, BATCH)),
                TN_OUT(tn_f32_scalar(m->out))) == TN_OK;
}

static bool check_mlp(void *w, double *loss) {
  bool ok = step_mlp(w) && step_mlp(w) && step_mlp(w);
  *loss = ((Mlp *)w)->out[0];
  return ok;
}

#define MLP_WEIGHTS ((double)PIXELS * WIDTH + (double)WIDTH * WIDTH + (double)WIDTH * CLASSES)
const Workload bench_mlp = {
    .name = "mlp",
    .what = "MLP 784-1024-1024-10, batch 128: forward, backward, AdamW",
    .peer = "bench/peers/%s_mlp.py",
    .tolerance = 1e-4,
    .open = open_mlp,
    .check = check_mlp,
    .step = step_mlp,
    .model = model,
    .close = close_mlp,
    .flops = 2.0 * BATCH * (3 * MLP_WEIGHTS - (double)PIXELS * WIDTH),  // the input wants no gradient
    .bytes = 4 * 7 * MLP_WEIGHTS,  // AdamW: reads 4 (a gradient in cache is not counted), writes 3
};

// ---- tiny
static void *open_tiny(Opening *o) {
  tn_program *p = tn_program_create("tiny");
  tn_module *net = tn_root(p), *a = tn_linear(net, "0", 16, 32), *b = tn_linear(net, "2", 32, 4);
  tn_function *f = tn_function_begin(p, "predict");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(1, 16));
  tn_output(f, "y", tn_call(b, tn_tanh(tn_call(a, x))));
  tn_function_end(f);
  return open_program(o, p);
}

static bool predict(Mlp *m) {
  return tn_run(m->model, "predict", TN_IN(tn_f32(m->x, 1, 16)), TN_OUT(tn_f32(m->out, 1, 4))) == TN_OK;
}

static bool step_tiny(void *w) {
  bool ok = true;
  for (int k = 0; k < TINY_CALLS; k++) ok &= predict(w);
  return ok;
}

static bool check_tiny(void *w, double *loss) {
  Mlp *m = w;
  bool ok = predict(m);
  *loss = bench_checksum(m->out, 4);
  return ok;
}

const Workload bench_tiny = {
    .name = "tiny",
    .what = "MLP 16-32-4 with tanh, batch 1, forward",
    .peer = "bench/peers/%s_mlp.py",
    .calls = TINY_CALLS,
    .function = "predict",
    .open = open_tiny,
    .check = check_tiny,
    .step = step_tiny,
    .model = model,
    .close = close_mlp,
};
