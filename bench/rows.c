// chain: layer_norm(gelu(1.1 x + 0.3) + x), its layer norm written out in plain operations; softmax. Both on 4096 x
// 1024.
#include "bench/bench.h"
#include <stdlib.h>

enum { ROWS = 4096, WIDTH = 1024 };

typedef struct {
  tn_model *model;
  float *x, *y;
} Rows;

static tn_model *model(void *w) { return ((Rows *)w)->model; }

static void close_rows(void *w) {
  Rows *r = w;
  tn_model_free(r->model);
  free(r->x);
  free(r->y);
  free(r);
}

static void *open_rows(Opening *o, const char *name,
                       tn_tensor (*compute)(tn_function *f, tn_module *net, tn_tensor x)) {
  tn_program *p = tn_program_create(name);
  tn_dim rows = tn_dim_const(ROWS), width = tn_dim_const(WIDTH);
  tn_module *norm = tn_module_new(tn_root(p), "norm");
  tn_parameter(norm, "weight", TN_SHAPE(width), ((tn_init){TN_INIT_UNIFORM, 0.5, 1.5}));
  tn_parameter(norm, "bias", TN_SHAPE(width), ((tn_init){TN_INIT_UNIFORM, -1, 1}));
  tn_function *f = tn_function_begin(p, "run");
  tn_output(f, "y", compute(f, norm, tn_input(f, "x", TN_F32, TN_SHAPE(rows, width))));
  tn_function_end(f);
  Rows *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->x = malloc(sizeof(float) * ROWS * WIDTH);
  r->y = malloc(sizeof(float) * ROWS * WIDTH);
  r->model = bench_compile(p, o);
  if (r->x && r->y && r->model) return bench_floats(r->x, ROWS * WIDTH, -3, 3, 1), r;
  close_rows(r);
  return NULL;
}

static bool step(void *w) {
  Rows *r = w;
  return tn_run(r->model, "run", TN_IN(tn_f32(r->x, ROWS, WIDTH)), TN_OUT(tn_f32(r->y, ROWS, WIDTH))) == TN_OK;
}

static bool check(void *w, double *loss) {
  bool ok = step(w);
  *loss = bench_checksum(((Rows *)w)->y, ROWS * WIDTH);
  return ok;
}

// ---- chain
static tn_tensor layer_norm(tn_function *f, tn_module *m, tn_tensor x) {
  tn_tensor d = tn_sub(x, tn_mean_axis(x, -1, true));
  tn_tensor scale = tn_rsqrt(tn_add(tn_mean_axis(tn_square(d), -1, true), tn_scalar(f, 1e-5)));
  return tn_add(tn_mul(tn_mul(d, scale), tn_param_value(f, m, "weight")), tn_param_value(f, m, "bias"));
}

static tn_tensor chain(tn_function *f, tn_module *norm, tn_tensor x) {
  tn_tensor y = tn_gelu(tn_add(tn_mul(x, tn_scalar(f, 1.1)), tn_scalar(f, 0.3)));
  return layer_norm(f, norm, tn_add(y, x));
}

static tn_tensor softmax(tn_function *f, tn_module *norm, tn_tensor x) {
  (void)f, (void)norm;
  return tn_softmax(x, -1);
}

static void *open_chain(Opening *o) { return open_rows(o, "chain", chain); }
static void *open_softmax(Opening *o) { return open_rows(o, "softmax", softmax); }

#define ROW(id, text)                                            \
  const Workload bench_##id = {.name = #id,                      \
                               .what = text,                     \
                               .peer = "bench/peers/%s_rows.py", \
                               .open = open_##id,                \
                               .check = check,                   \
                               .step = step,                     \
                               .model = model,                   \
                               .close = close_rows,              \
                               .bytes = 4.0 * 2 * ROWS * WIDTH};
ROW(chain, "layer_norm(gelu(1.1 x + 0.3) + x) on 4096x1024, gelu in its exact form")
ROW(softmax, "softmax over the rows of 4096x1024")
