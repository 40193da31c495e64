// linear_scan: y_t = a_t y_(t-1) + b_t over T steps of C channels. A case is WORK T C: `forward`, or `training`, which is forward
// and the gradients of a and b for a gradient of y that is given.
#include "bench/bench.h"
#include <stdlib.h>
#include <string.h>

// clang-format off
#define BOTH(sizes) "forward " sizes, "training " sizes
static const char *const cases[] = {BOTH("1024 64"), BOTH("1024 256"), BOTH("1024 1024"),
                                    BOTH("16384 64"), BOTH("16384 256"), BOTH("16384 1024"), NULL};
// clang-format on

typedef struct {
  int64_t steps, channels;
  bool trains;
  tn_model *model;
  tn_array in[3], out[3];  // a, b, the gradient of y; y, the gradients of a and b
  uint32_t n;
} Scan;

static tn_model *model(void *w) { return ((Scan *)w)->model; }

static void close_scan(void *w) {
  Scan *v = w;
  tn_model_free(v->model);
  for (uint32_t k = 0; k < 3; k++) free(v->in[k].data), free(v->out[k].data);
  free(v);
}

static bool parse_case(const char *variant, Scan *v) {
  char work[16];
  long steps, channels;
  *v = (Scan){0};
  if (sscanf(variant, "%15s %ld %ld", work, &steps, &channels) != 3 || steps < 1 || channels < 1) return false;
  v->steps = steps, v->channels = channels, v->trains = !strcmp(work, "training");
  v->n = v->trains ? 3 : 1;
  return true;
}

static tn_array block(const Scan *v) {
  int64_t dims[] = {v->steps, v->channels};
  return tn_array_of(bench_block((size_t)(v->steps * v->channels) * sizeof(float)), TN_F32, dims, 2);
}

static tn_tensor input(tn_function *f, Scan *v, const char *name, uint32_t k, double lo) {
  v->in[k] = block(v);
  if (v->in[k].data) bench_floats(v->in[k].data, (size_t)(v->steps * v->channels), lo, 1, 1 + k);
  return tn_input(f, name, TN_F32, TN_SHAPE(v->steps, v->channels));
}

static void build(tn_function *f, Scan *v) {
  tn_tensor a = input(f, v, "a", 0, 0), b = input(f, v, "b", 1, -1), y = tn_linear_scan(a, b, 0).out;
  for (uint32_t k = 0; k < v->n; k++) v->out[k] = block(v);
  tn_output(f, "y", y);
  if (!v->trains) return;
  tn_tensor loss = tn_sum(tn_mul(y, input(f, v, "g", 2, -1)));
  tn_output(f, "da", tn_grad(loss, a));
  tn_output(f, "db", tn_grad(loss, b));
}

static void *open_scan(Opening *o) {
  Scan *v = calloc(1, sizeof *v);
  o->weights = NULL;
  if (!v || !parse_case(o->variant, v)) return free(v), NULL;
  tn_program *p = tn_program_create("linear_scan");
  tn_function *f = tn_function_begin(p, "run");
  build(f, v);
  tn_function_end(f);
  v->model = bench_compile(p, o);
  bool ok = v->model && v->in[0].data && v->in[1].data && (!v->trains || v->in[2].data);
  for (uint32_t k = 0; k < v->n; k++) ok &= v->out[k].data != NULL;
  if (ok) return v;
  close_scan(v);
  return NULL;
}

static bool step(void *w) {
  Scan *v = w;
  return tn_run(v->model, "run", v->in, v->trains ? 3 : 2, v->out, v->n) == TN_OK;
}

static bool check(void *w, double *loss) {
  Scan *v = w;
  bool ok = step(w);
  *loss = 0;
  for (uint32_t k = 0; k < v->n; k++) *loss += bench_checksum(v->out[k].data, (size_t)(v->steps * v->channels));
  return ok;
}

// Forward reads a and b and writes y; training reads a, y and the gradient of y, and writes two gradients, in addition.
static void limits(const char *variant, double *flops, double *bytes) {
  Scan v;
  *flops = 0;
  if (parse_case(variant, &v)) *bytes = 4 * (double)(v.steps * v.channels) * (v.trains ? 8 : 3);
}

const Workload bench_linear_scan = {.name = "linear_scan",
                                    .what = "linear recurrences: forward, training of T steps of C channels",
                                    .peer = "bench/peers/%s_linear_scan.py",
                                    .cases = cases,
                                    .by_sizes = true,
                                    .open = open_scan,
                                    .check = check,
                                    .step = step,
                                    .model = model,
                                    .close = close_scan,
                                    .limits = limits};
