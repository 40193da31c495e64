// linalg: triangular systems and Cholesky factors. A case is OP BATCH N LANES: `solve 1 256 256` solves with the lower triangle,
// `solve_upper` with the upper one, `solve_right` X L = B; of `cholesky`, whose triangle is the lower one, LANES counts nothing.
#include "bench/bench.h"
#include <stdlib.h>
#include <string.h>

// clang-format off
static const char *const cases[] = {
    "cholesky 1 16 0", "cholesky 1 64 0", "cholesky 1 256 0", "cholesky 1 512 0", "cholesky 1 1024 0",
    "cholesky 512 16 0", "cholesky 64 64 0", "cholesky 8 256 0",
    "solve 1 16 16", "solve 1 64 64", "solve 1 256 256", "solve 1 512 512", "solve 1 1024 1024",
    "solve 1 512 1", "solve 512 16 16", "solve 64 64 64", "solve 64 64 1", "solve 512 16 1", "solve 1 2048 1",
    "solve_upper 1 512 1", "solve_upper 64 64 1", "solve_right 1 512 1", "solve_right 64 64 1",
    "solve_upper 1 256 256", "solve_right 1 256 256", "solve_right 1 512 512", NULL};
// clang-format on

typedef struct {
  tn_model *model;
  char op[32];
  int64_t batch, n, lanes;
  tn_array in[2], out;
} OneOp;

static tn_model *model(void *w) { return ((OneOp *)w)->model; }
static bool solves(const OneOp *o) { return !strncmp(o->op, "solve", 5); }
static bool is_right(const OneOp *o) { return !strcmp(o->op, "solve_right"); }

static void close_op(void *w) {
  OneOp *o = w;
  tn_model_free(o->model);
  for (uint32_t k = 0; k < 2; k++) free(o->in[k].data);
  free(o->out.data);
  free(o);
}

static bool parse_case(OneOp *o, const char *variant) {
  long batch, n, lanes;
  if (sscanf(variant, "%31s %ld %ld %ld", o->op, &batch, &n, &lanes) != 4) return false;
  o->batch = batch, o->n = n, o->lanes = lanes;
  return true;
}

static tn_array block(int64_t batch, int64_t rows, int64_t columns, uint32_t seed) {
  size_t n = (size_t)(batch * rows * columns);
  float *x = bench_block(4 * n);
  bench_floats(x, n, -1, 1, seed);
  return tn_f32(x, batch, rows, columns);
}

// Symmetric, 2 on the diagonal, at most 1 / n beside it.
static tn_array matrices(int64_t batch, int64_t n) {
  tn_array a = block(batch, n, n, 1);
  for (int64_t k = 0; k < batch * n * n; k++) {
    int64_t i = k / n % n, j = k % n;
    float *x = a.data;
    x[k] = i == j ? 2 : i < j ? x[k] / (float)n : x[k - i * n - j + j * n + i];
  }
  return a;
}

static tn_tensor input(tn_function *f, const char *name, tn_array a) {
  return tn_input(f, name, TN_F32, TN_SHAPE(a.dims[0], a.dims[1], a.dims[2]));
}

static tn_tensor build(tn_function *f, OneOp *o) {
  o->in[0] = matrices(o->batch, o->n);
  tn_tensor a = input(f, "a", o->in[0]);
  int64_t rows = is_right(o) ? o->lanes : o->n, columns = solves(o) && !is_right(o) ? o->lanes : o->n;
  o->out = block(o->batch, rows ? rows : o->n, columns, 2);
  if (!solves(o)) return tn_cholesky(a, false);
  o->in[1] = block(o->batch, rows, columns, 2);
  return tn_solve_triangular(a, input(f, "b", o->in[1]), .upper = !strcmp(o->op, "solve_upper"), .right = is_right(o));
}

static void *open_op(Opening *how) {
  OneOp *o = calloc(1, sizeof *o);
  how->weights = NULL;
  if (!o || !parse_case(o, how->variant)) return free(o), NULL;
  tn_program *p = tn_program_create("linalg");
  tn_function *f = tn_function_begin(p, "run");
  tn_output(f, "y", build(f, o));
  tn_function_end(f);
  o->model = bench_compile(p, how);
  if (o->model) return o;
  close_op(o);
  return NULL;
}

static bool step(void *w) {
  OneOp *o = w;
  return tn_run(o->model, "run", o->in, solves(o) ? 2 : 1, &o->out, 1) == TN_OK;
}

static bool check(void *w, double *loss) {
  OneOp *o = w;
  bool ok = step(w);
  *loss = bench_checksum(o->out.data, (size_t)(o->out.dims[0] * o->out.dims[1] * o->out.dims[2]));
  return ok;
}

static void limits(const char *variant, double *flops, double *bytes) {
  OneOp o = {0};
  *flops = *bytes = 0;
  if (!parse_case(&o, variant)) return;
  double n = (double)o.n, square = (double)o.batch * n * n;
  *flops = solves(&o) ? square * (double)o.lanes : square * n / 3;
  *bytes = 4 * (solves(&o) ? square / 2 + 2 * (double)o.batch * n * (double)o.lanes : 1.5 * square);
}

const Workload bench_linalg = {.name = "linalg",
                               .what = "triangular systems and Cholesky factors: OP BATCH N LANES",
                               .peer = "bench/peers/%s_linalg.py",
                               .cases = cases,
                               .open = open_op,
                               .check = check,
                               .step = step,
                               .model = model,
                               .close = close_op,
                               .limits = limits};
