#include "bench/op_rows.h"
#include "bench/bench.h"
#include "frontend/graph/function.h"
#include "frontend/tenure.h"
#include <stdlib.h>

enum { SEEDS = 16, GRADIENT_SEED = 9 };  // of a draw: inputs have 1, 2, ..

size_t op_array_count(const tn_array *a) {
  size_t n = 1;
  for (uint32_t d = 0; d < a->rank; d++) n *= (size_t)a->dims[d];
  return n;
}

double op_array_at(const tn_array *a, size_t k) {
  switch (a->dtype) {
  case TN_I64: return (double)((const int64_t *)a->data)[k];
  case TN_U8:
  case TN_BOOL: return ((const uint8_t *)a->data)[k];
  default: return (double)((const float *)a->data)[k];
  }
}

static size_t bytes_of(tn_dtype t) { return t == TN_I64 ? 8 : t == TN_F32 || t == TN_I32 ? 4 : 1; }

static tn_array block(tn_dtype t, uint32_t rank, const int64_t *dims) {
  tn_array a = tn_array_of(NULL, t, dims, rank);
  a.data = bench_block(op_array_count(&a) * bytes_of(t) + 1);
  return a;
}

// Each run of `width` elements is one number.
static void fill_runs(float *out, size_t n, size_t width, double lo, double hi, uint32_t seed) {
  for (size_t k = 0; k < n; k++) out[k] = (float)(lo + (hi - lo) * bench_number(k / width, seed));
}

static void fill(tn_array *a, const Input *in, uint32_t seed) {
  static const double
      lo[] = {[NORMAL] = -2, [POSITIVE] = 0.25, [FAR] = 998, [NEAR_ONE] = 0.99, [EQUAL] = 0.05, [UNIT] = 0},
      hi[] = {[NORMAL] = 2, [POSITIVE] = 2.25, [FAR] = 1002, [NEAR_ONE] = 1.01, [EQUAL] = 2, [UNIT] = 1};
  size_t n = op_array_count(a);
  if (in->kind < EQUAL) bench_floats(a->data, n, lo[in->kind], hi[in->kind], seed);
  else if (in->kind == EQUAL) fill_runs(a->data, n, n, lo[EQUAL], hi[EQUAL], seed);
  else if (in->kind == CONSTANT) fill_runs(a->data, n, (size_t)a->dims[a->rank - 1], -12345, 12345, seed);
  else if (in->kind == INTEGER) bench_integers(a->data, n, in->limit, seed);
  else
    for (size_t k = 0; k < n; k++) ((uint8_t *)a->data)[k] = (uint8_t)((double)in->limit * bench_number(k, seed));
}

void op_run_fill(OpRun *r, uint32_t draw) {
  static const Input normal = {.kind = NORMAL};
  for (uint32_t k = 0; k < r->n_in; k++) {
    bool is_gradient = k == r->row->n_inputs;
    fill(&r->in[k], is_gradient ? &normal : &r->row->inputs[k], SEEDS * draw + (is_gradient ? GRADIENT_SEED : 1 + k));
  }
}

void op_run_free(OpRun *r) {
  for (uint32_t k = 0; k < r->n_in; k++) free(r->in[k].data);
  for (uint32_t k = 0; k < r->n_out; k++) free(r->out[k].data);
}

// ---- building
static tn_tensor make_input(OpRun *r, tn_function *f, uint32_t k) {
  static const char *const names[] = {"a", "b", "c", "d"};
  const Input *in = &r->row->inputs[k];
  tn_dtype t = in->kind < INTEGER ? TN_F32 : in->kind == INTEGER ? TN_I64 : in->kind == BYTE ? TN_U8 : TN_BOOL;
  tn_dim dims[TN_MAX_RANK];
  for (uint32_t d = 0; d < in->rank; d++) dims[d] = tn_dim_const(in->dims[d]);
  r->in[r->n_in++] = block(t, in->rank, in->dims);
  return tn_input(f, names[k], t, tn_shape_of(dims, in->rank));
}

static void put(OpRun *r, tn_function *f, tn_tensor y, char what, uint32_t k) {
  int64_t dims[TN_MAX_RANK];
  for (uint32_t d = 0; d < tn_rank(y); d++) dims[d] = ir_dim_bound(f->p->ir, fe_axis_dim(y, d));
  char *name = r->name[r->n_out];
  if (what == 'y') snprintf(name, sizeof *r->name, "y");
  else snprintf(name, sizeof *r->name, "%c%u", what, k);
  r->out[r->n_out++] = block(tn_dtype_of(y), tn_rank(y), dims);
  tn_output(f, name, y);
}

static void put_gradients(OpRun *r, tn_function *f, tn_module *net, tn_tensor y, const tn_tensor *in) {
  tn_dim dims[TN_MAX_RANK];
  for (uint32_t d = 0; d < tn_rank(y); d++) dims[d] = tn_dim_of(y, (int)d);
  tn_tensor g = tn_input(f, "g", TN_F32, tn_shape_of(dims, tn_rank(y)));
  r->in[r->n_in++] = block(TN_F32, r->out[0].rank, r->out[0].dims);
  tn_tensor loss = tn_sum(tn_mul(y, g));
  const char *paths[MAX_PARAMS];
  uint32_t n = tn_named_parameters(net, TN_NAMES_UNIQUE, paths, MAX_PARAMS);
  for (uint32_t k = 0; k < r->row->n_inputs; k++)
    if (r->row->inputs[k].kind < INTEGER) put(r, f, tn_grad(loss, in[k]), 'd', k);
  if (n) tn_backward(loss);
  for (uint32_t k = 0; k < n; k++) put(r, f, tn_param_grad(f, net, paths[k]), 'p', k);
}

void op_run_build(OpRun *r, const OpRow *row, tn_program *p) {
  tn_module *net = tn_root(p), *m = row->op->make ? row->op->make(net) : NULL;
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor in[MAX_INPUTS] = {{0}};
  *r = (OpRun){.row = row};
  tn_eval(f, !row->backward);
  for (uint32_t k = 0; k < row->n_inputs; k++) {
    in[k] = make_input(r, f, k);
    if (row->backward && row->inputs[k].kind < INTEGER) tn_set_requires_grad(in[k], true);
  }
  tn_tensor y = row->op->call(f, m, in[0], in[1], in[2], in[3]);
  put(r, f, y, 'y', 0);
  if (row->backward) put_gradients(r, f, net, y, in);
  tn_function_end(f);
}
