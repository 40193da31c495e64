// AdamW alone: 64 M parameters in four tensors, gradients given by the caller.
#include "bench/bench.h"
#include <stdlib.h>

enum { TENSORS = 4, SIZE = 16 << 20, CHECKED = 1 << 16 };

typedef struct {
  tn_model *model;
  float *g;  // one gradient for all tensors
} Adamw;

static tn_model *model(void *w) { return ((Adamw *)w)->model; }

static void close_adamw(void *w) {
  tn_model_free(model(w));
  free(((Adamw *)w)->g);
  free(w);
}

// d sum(p g) / d p = g
static tn_program *build(void) {
  static const char *const names[TENSORS] = {"p0", "p1", "p2", "p3"};
  tn_program *p = tn_program_create("adamw");
  tn_shape shape = TN_SHAPE(SIZE);
  for (int k = 0; k < TENSORS; k++) tn_parameter(tn_root(p), names[k], shape, ((tn_init){TN_INIT_CONSTANT, 0.5, 0}));
  tn_function *f = tn_function_begin(p, "update");
  tn_tensor g[TENSORS];
  for (int k = 0; k < TENSORS; k++) g[k] = tn_input(f, names[k], TN_F32, shape);
  for (int k = 0; k < TENSORS; k++) tn_backward(tn_sum(tn_mul(tn_param_value(f, tn_root(p), names[k]), g[k])));
  tn_adamw(f, tn_root(p), .lr = 1e-3, .weight_decay = 1e-2);
  tn_function_end(f);
  return p;
}

static void *open_adamw(Opening *o) {
  Adamw *a = calloc(1, sizeof *a);
  if (!a) return NULL;
  o->weights = NULL;  // constants
  a->model = bench_compile(build(), o);
  a->g = malloc(sizeof(float) * TENSORS * SIZE);
  if (a->model && a->g) return bench_floats(a->g, (size_t)TENSORS * SIZE, -1, 1, 1), a;
  close_adamw(a);
  return NULL;
}

static bool step(void *w) {
  Adamw *a = w;
  const float *g = a->g;
  return tn_run(a->model, "update",
                TN_IN(tn_f32(g, SIZE), tn_f32(g + SIZE, SIZE), tn_f32(g + 2 * SIZE, SIZE), tn_f32(g + 3 * SIZE, SIZE)),
                TN_NO_OUT) == TN_OK;
}

static bool check(void *w, double *loss) {
  if (!step(w) || !step(w) || !step(w)) return false;
  *loss = bench_checksum(tn_param_at(((Adamw *)w)->model, 3).data, CHECKED);
  return true;
}

const Workload bench_adamw = {
    .name = "adamw",
    .what = "AdamW, 64 M parameters in 4 tensors",
    .peer = "bench/peers/%s_adamw.py",
    .open = open_adamw,
    .check = check,
    .step = step,
    .model = model,
    .close = close_adamw,
    .bandwidth = &bench_updating,
    .bytes = 4.0 * 7 * TENSORS * SIZE,  // reads 4 streams, writes 3
};
