// sweep: small workloads over the tables of ops and modules, those that no other bench looks at among them. A case is a row of
// bench/sweep.def, forward or backward: `softmax F(4096, 1000) backward`. Backward is the forward with the gradients of
// sum(y g) with respect to all f32 inputs and all parameters.
#include "bench/bench.h"
#include "frontend/fe.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_INPUTS = 4, MAX_PARAMS = 32, MAX_OUT = 1 + MAX_INPUTS + MAX_PARAMS };

// ---- the table
typedef tn_module *MakeModule(tn_module *net);
typedef tn_tensor Call(tn_function *f, tn_module *m, tn_tensor a, tn_tensor b, tn_tensor c, tn_tensor d);
typedef struct {
  const char *name;
  MakeModule *make;  // NULL: no module
  Call *call;
} SweepOp;
typedef enum { NORMAL, POSITIVE, UNIT, INTEGER, BYTE, MARK } Kind;
typedef struct {
  Kind kind;
  int64_t limit;  // of INTEGER
  uint32_t rank;
  int64_t dims[TN_MAX_RANK];
} Input;
typedef struct {
  const char *text;
  const SweepOp *op;
  bool backward;
  uint32_t n_inputs;
  Input inputs[MAX_INPUTS];
} Row;

#define UNUSED __attribute__((unused))
#define CALL_OF(name, expression)                                                                                  \
  static tn_tensor call_##name(UNUSED tn_function *f, UNUSED tn_module *m, UNUSED tn_tensor a, UNUSED tn_tensor b, \
                               UNUSED tn_tensor c, UNUSED tn_tensor d) {                                           \
    return expression;                                                                                             \
  }
#define OP(name, torch, call) CALL_OF(name, call) static const SweepOp op_##name = {#name, NULL, call_##name};
#define MODULE(name, torch, torch_call, make, call)              \
  static tn_module *make_##name(tn_module *net) { return make; } \
  CALL_OF(name, call)                                            \
  static const SweepOp op_##name = {#name, make_##name, call_##name};
#define BOTH(...)
#define FORWARD(...)
#include "bench/sweep.def"
#undef OP
#undef MODULE
#undef BOTH
#undef FORWARD

#define DIMS_OF(...) \
  sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), { __VA_ARGS__ }
#define F(...) {NORMAL, 0, DIMS_OF(__VA_ARGS__)}
#define N(...) F(__VA_ARGS__)
#define P(...) {POSITIVE, 0, DIMS_OF(__VA_ARGS__)}
#define U(...) {UNIT, 0, DIMS_OF(__VA_ARGS__)}
#define I(limit, ...) {INTEGER, limit, DIMS_OF(__VA_ARGS__)}
#define U8(...) {BYTE, 256, DIMS_OF(__VA_ARGS__)}
#define B(...) {MARK, 2, DIMS_OF(__VA_ARGS__)}
#define OP(...)
#define MODULE(...)
#define ROW(name, text, backward, ...) \
  {text, &op_##name, backward, sizeof((const Input[]){__VA_ARGS__}) / sizeof(Input), {__VA_ARGS__}},
#define FORWARD(name, ...) ROW(name, #name " " #__VA_ARGS__ " forward", false, __VA_ARGS__)
#define BOTH(name, ...)                                            \
  ROW(name, #name " " #__VA_ARGS__ " forward", false, __VA_ARGS__) \
  ROW(name, #name " " #__VA_ARGS__ " backward", true, __VA_ARGS__)
static const Row rows[] = {
#include "bench/sweep.def"
};
enum { N_ROWS = sizeof rows / sizeof *rows };
#undef FORWARD
#undef BOTH
#define FORWARD(name, ...) #name " " #__VA_ARGS__ " forward",
#define BOTH(name, ...) #name " " #__VA_ARGS__ " forward", #name " " #__VA_ARGS__ " backward",
static const char *const cases[] = {
#include "bench/sweep.def"
    NULL};

static const Row *find_row(const char *text) {
  for (size_t k = 0; k < N_ROWS; k++)
    if (!strcmp(rows[k].text, text)) return &rows[k];
  return NULL;
}

// ---- one case
typedef struct {
  tn_model *model;
  const Row *row;
  tn_array in[MAX_INPUTS + 1], out[MAX_OUT];  // the last input: the gradient of y
  uint32_t n_in, n_out;
} Sweep;

static tn_model *model(void *w) { return ((Sweep *)w)->model; }

static void close_case(void *w) {
  Sweep *s = w;
  tn_model_free(s->model);
  for (uint32_t k = 0; k < s->n_in; k++) free(s->in[k].data);
  for (uint32_t k = 0; k < s->n_out; k++) free(s->out[k].data);
  free(s);
}

static size_t count_of(const tn_array *a) {
  size_t n = 1;
  for (uint32_t d = 0; d < a->rank; d++) n *= (size_t)a->dims[d];
  return n;
}

static size_t bytes_of(tn_dtype t) { return t == TN_I64 ? 8 : t == TN_F32 || t == TN_I32 ? 4 : 1; }

static tn_array block(tn_dtype t, uint32_t rank, const int64_t *dims) {
  tn_array a = tn_array_of(NULL, t, dims, rank);
  a.data = bench_block(count_of(&a) * bytes_of(t) + 1);
  return a;
}

// Numbers of seed 1 + k, as bench/peers/torch_sweep.py makes them.
static void fill(tn_array *a, const Input *in, uint32_t seed) {
  static const double lo[] = {[NORMAL] = -2, [POSITIVE] = 0.25, [UNIT] = 0},
                      hi[] = {[NORMAL] = 2, [POSITIVE] = 2.25, [UNIT] = 1};
  size_t n = count_of(a);
  if (in->kind < INTEGER) bench_floats(a->data, n, lo[in->kind], hi[in->kind], seed);
  else if (in->kind == INTEGER) bench_integers(a->data, n, in->limit, seed);
  else
    for (size_t k = 0; k < n; k++) ((uint8_t *)a->data)[k] = (uint8_t)((double)in->limit * bench_number(k, seed));
}

static tn_tensor make_input(Sweep *s, tn_function *f, uint32_t k) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F32, TN_F32, TN_I64, TN_U8, TN_BOOL};
  static const char *const names[] = {"a", "b", "c", "d"};
  const Input *in = &s->row->inputs[k];
  tn_dim dims[TN_MAX_RANK];
  for (uint32_t d = 0; d < in->rank; d++) dims[d] = tn_dim_const(in->dims[d]);
  s->in[s->n_in] = block(dtypes[in->kind], in->rank, in->dims);
  fill(&s->in[s->n_in++], in, 1 + k);
  return tn_input(f, names[k], dtypes[in->kind], tn_shape_of(dims, in->rank));
}

static void put(Sweep *s, tn_function *f, const char *name, tn_tensor y) {
  int64_t dims[TN_MAX_RANK];
  for (uint32_t d = 0; d < tn_rank(y); d++) dims[d] = ir_dim_bound(f->p->ir, fe_axis_dim(y, d));
  s->out[s->n_out++] = block(tn_dtype_of(y), tn_rank(y), dims);
  tn_output(f, name, y);
}

static void put_gradients(Sweep *s, tn_function *f, tn_module *net, tn_tensor y, const tn_tensor *in) {
  static const Input normal = {.kind = NORMAL};
  tn_dim dims[TN_MAX_RANK];
  for (uint32_t d = 0; d < tn_rank(y); d++) dims[d] = tn_dim_of(y, (int)d);
  tn_tensor g = tn_input(f, "g", TN_F32, tn_shape_of(dims, tn_rank(y)));
  s->in[s->n_in] = block(TN_F32, s->out[0].rank, s->out[0].dims);
  fill(&s->in[s->n_in++], &normal, 9);
  tn_tensor loss = tn_sum(tn_mul(y, g));
  const char *paths[MAX_PARAMS];
  char name[16];
  uint32_t n = tn_named_parameters(net, TN_NAMES_UNIQUE, paths, MAX_PARAMS);
  for (uint32_t k = 0; k < s->row->n_inputs; k++) {
    snprintf(name, sizeof name, "d%u", k);
    if (s->row->inputs[k].kind < INTEGER) put(s, f, name, tn_grad(loss, in[k]));
  }
  if (n) tn_backward(loss);
  for (uint32_t k = 0; k < n; k++) {
    snprintf(name, sizeof name, "p%u", k);
    put(s, f, name, tn_param_grad(f, net, paths[k]));
  }
}

static void build(Sweep *s, tn_program *p) {
  tn_module *net = tn_root(p), *m = s->row->op->make ? s->row->op->make(net) : NULL;
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor in[MAX_INPUTS] = {{0}};
  tn_eval(f, !s->row->backward);
  for (uint32_t k = 0; k < s->row->n_inputs; k++) {
    in[k] = make_input(s, f, k);
    if (s->row->backward && s->row->inputs[k].kind < INTEGER) tn_set_requires_grad(in[k], true);
  }
  tn_tensor y = s->row->op->call(f, m, in[0], in[1], in[2], in[3]);
  put(s, f, "y", y);
  if (s->row->backward) put_gradients(s, f, net, y, in);
  tn_function_end(f);
}

static void *open_case(Opening *how) {
  Sweep *s = calloc(1, sizeof *s);
  if (!s || !(s->row = find_row(how->variant))) return free(s), NULL;
  tn_program *p = tn_program_create("sweep");
  build(s, p);
  if (!s->row->op->make) how->weights = NULL;
  s->model = bench_compile(p, how);
  if (s->model) return s;
  close_case(s);
  return NULL;
}

static bool step(void *w) {
  Sweep *s = w;
  return tn_run(s->model, "run", s->in, s->n_in, s->out, s->n_out) == TN_OK;
}

static double number_at(const tn_array *a, size_t k) {
  switch (a->dtype) {
  case TN_I64: return (double)((const int64_t *)a->data)[k];
  case TN_U8:
  case TN_BOOL: return ((const uint8_t *)a->data)[k];
  default: return (double)((const float *)a->data)[k];
  }
}

static bool check(void *w, double *loss) {
  Sweep *s = w;
  *loss = 0;
  if (!step(w)) return false;
  for (uint32_t k = 0; k < s->n_out; k++) {
    size_t n = count_of(&s->out[k]);
    float *v = bench_block(n * sizeof *v + 1);
    for (size_t i = 0; i < n; i++) v[i] = (float)number_at(&s->out[k], i);
    *loss += bench_checksum(v, n);
    free(v);
  }
  return true;
}

const Workload bench_sweep = {.name = "sweep",
                              .what = "ops and modules, forward and backward, in usual, odd and large sizes",
                              .peer = "bench/peers/%s_sweep.py",
                              .has_layouts = true,
                              .cases = cases,
                              .tolerance = 2e-4,
                              .open = open_case,
                              .check = check,
                              .step = step,
                              .model = model,
                              .close = close_case,
                              .function = "run"};
