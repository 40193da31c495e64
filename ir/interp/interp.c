// The reference interpreter: the oracle that compiled code is compared with.
//
// Instructions run in order. Every value is an array of doubles: f32 is not rounded, a packed layout holds its words (runtime/abi.h). What
// doubles cannot hold of i64 stands in a second plane, which pointwise ops and what moves elements know (whole.c); other
// ops are exact up to 2^53. Written to be read, not to be fast.
//
// With env.single f32 is rounded: pointwise ops then give the bits of compiled code wherever these are rounded once
// (NOT_ROUNDED and ROUNDED_ONCE in ir/ops.def), so that what a pass makes of a program can be held against the program itself.
#include "ir/interp/interp.h"
#include "ir/build.h"
#include "ir/conv.h"
#include "ir/fn.h"
#include "ir/intern.h"

#include <math.h>
#include <string.h>

// ---- leaves
static bool bind(Run *r, Val v, const Tensor *src, const char *what, int64_t index) {
  Tensor t = run_result(r, v, 0);
  if (src->n != t.n)
    return run_fail(r, v, "%s %lld has %lld elements, its shape takes %lld", what, (long long)index, (long long)src->n,
                    (long long)t.n);
  if (t.n) memcpy(t.v, src->v, (size_t)t.n * sizeof(double));
  r->val[v.i].low = src->low;
  return true;
}

bool eval_input(Run *r, Val v) {
  int64_t k = ir_attr_int(r->f, v, KEY_index, 0);
  if (ir_ins(r->f, v)->dtype != DT_LAYOUT) return bind(r, v, &r->env->in[k], "input", k);
  r->val[v.i] = r->env->in[k];  // that a body captures
  return true;
}

bool eval_param(Run *r, Val v) {
  int64_t k = ir_attr_int(r->f, v, KEY_param, 0);
  return bind(r, v, &r->env->params[k], "parameter", k);
}

bool eval_const(Run *r, Val v) {
  DType t = (DType)ir_ins(r->f, v)->dtype;
  double value = ir_attr_num(r->f, v, KEY_value, 0);
  Tensor out = run_result(r, v, 0);
  if (ir_dtype_kind[t] == DTYPE_FLOAT) out.v[0] = value;
  else run_set_whole(r, &out, 0, ir_to_whole(t, value));
  r->val[v.i] = out;
  return true;
}

bool eval_table(Run *r, Val v) {
  Tensor t = run_result(r, v, 0);
  bool f32 = ir_ins(r->f, v)->dtype == DT_F32;
  int64_t *whole = rt_alloc(r->env->mem, (size_t)(t.n + 1) * sizeof *whole);
  float *single = (float *)(void *)whole;
  ir_fill_table(r->f, v, whole);
  for (int64_t i = 0; i < t.n; i++) {
    if (f32) t.v[i] = (double)single[i];
    else run_set_whole(r, &t, i, whole[i]);
  }
  r->val[v.i] = t;
  return true;
}

bool eval_dim_size(Run *r, Val v) {
  const Attr *dim = ir_attr(r->f, v, KEY_dim);
  if (!dim) return run_fail(r, v, "no {dim}");
  run_result(r, v, 0).v[0] = (double)ir_dim_eval(r->f->prog, dim->u.dim, r->env->slots);
  return true;
}

bool eval_output(Run *r, Val v) {
  Tensor src = run_arg(r, v, 0);
  Tensor *out = &r->env->out[ir_attr_int(r->f, v, KEY_index, 0)];
  *out = (Tensor){.v = rt_alloc(r->env->mem, (size_t)src.n * sizeof(double)), .n = src.n, .low = src.low};
  if (src.n) memcpy(out->v, src.v, (size_t)src.n * sizeof(double));
  return true;
}

bool eval_nothing(Run *r, Val v) {
  (void)r, (void)v;
  return true;
}

bool eval_grad_of(Run *r, Val v) { return run_fail(r, v, "pass grad has not run"); }
bool eval_write(Run *r, Val v) { return run_fail(r, v, "pass functionalize has not run"); }

bool eval_scan_mark(Run *r, Val v) { return run_fail(r, v, "pass outline_scans has not run"); }

// Op NAME is evaluated by eval_NAME (interp.h), pointwise ones by their rows.
#define NULLARY(n, ...) [OP_##n] = eval_pointwise,
#define UNARY(n, ...) [OP_##n] = eval_pointwise,
#define BINARY(n, ...) [OP_##n] = eval_pointwise,
#define TERNARY(n, ...) [OP_##n] = eval_pointwise,
#define OP(n, ...) [OP_##n] = eval_##n,
EvalOp *const ir_eval_of[N_OPS] = {
#include "ir/ops.def"
};

// ---- writes reach the parameter that they are a version of
// The parameter whose content v is, through views and earlier writes; -1: none. A partial write without {into_param}
// goes to a copy of the parameter.
static int64_t param_under(const Fn *f, Val v) {
  for (;;) {
    Val head = ir_head(f, v);
    const Ins *in = ir_ins(f, head);
    if (in->op == OP_param) return ir_attr_int(f, head, KEY_param, -1);
    const OpInfo *op = &ir_ops[in->op];
    if (!(op->flags & WRITES) && op->cls != CLASS_VIEW) return -1;
    if (op->cls == CLASS_SLICE_UPDATE && !ir_attr(f, head, KEY_into_param)) return -1;
    v = ir_arg(f, head, v.i - head.i);
  }
}

static void store_writes(Run *r, Val v) {
  for (uint32_t k = 0; k < ir_ins(r->f, v)->n_res; k++) {
    int64_t param = param_under(r->f, ir_result(v, k));
    Tensor t = r->val[v.i + k];
    if (param >= 0 && t.n) memcpy(r->env->params[param].v, t.v, (size_t)t.n * sizeof(double));
  }
}

// ---- error bars
static double largest(Tensor t) {
  double most = 0;
  for (int64_t i = 0; i < t.n; i++)
    if (isfinite(t.v[i]) && fabs(t.v[i]) > most) most = fabs(t.v[i]);
  return most;
}

// Products that an element of the result sums.
static double conv_terms(const Run *r, Val v) {
  Conv c;
  ir_conv(r->f, v, &c);
  double pixels = (double)ir_dim_eval(r->f->prog, c.n, r->env->slots) * (double)(c.out[0] * c.out[1] * c.out[2]);
  if (ir_ins(r->f, v)->op == OP_conv_weight_grad) return pixels;
  return (double)ir_conv_taps(&c) * (double)(ir_ins(r->f, v)->op == OP_conv ? c.c : c.o) / (double)c.groups;
}

// Terms that may be added to one element in the order of indices.
static int64_t added_in_order(const Run *r, Val v) {
  switch (ir_ins(r->f, v)->op) {
  case OP_embedding_grad:
  case OP_embedding_bag_grad:
  case OP_scatter_add:
  case OP_index_add: return run_operand(r, v, ARG_index).n;
  default: return 0;
  }
}

static double size_of_terms(const Run *r, Val v) {
  double most = 0;
  const Ins *in = ir_ins(r->f, v);
  if (ir_is_conv((Op)in->op)) {
    most = largest(run_arg(r, v, 0)) * largest(run_arg(r, v, 1)) * (1 + conv_terms(r, v) / 8);
  } else if (ir_ops[in->op].cls == CLASS_GEMM) {
    Sizes a = run_arg_sizes(r, v, 0), b = run_arg_sizes(r, v, 1);
    int64_t terms = a.dim[a.rank - 1] > b.dim[b.rank - 1] ? a.dim[a.rank - 1] : b.dim[b.rank - 1];
    most = largest(run_arg(r, v, 0)) * largest(run_arg(r, v, 1)) * (1 + (double)terms / 8);
  } else if (ir_ops[in->op].cls == CLASS_FOURIER) {
    most = largest(run_arg(r, v, 0)) * (1 + (double)run_arg_sizes(r, v, 0).dim[run_arg_sizes(r, v, 0).rank - 1] / 8);
  }
  for (uint32_t k = 0; k < in->n_args; k++) {
    DType t = (DType)ir_ins(r->f, ir_arg(r->f, v, k))->dtype;
    if (t == DT_F32) most = fmax(most, largest(run_arg(r, v, k)));
  }
  return most * (1 + (double)added_in_order(r, v) / 32);
}

static void disturb(Run *r, Val v) {
  const Ins *in = ir_ins(r->f, v);
  bool exact =
      (ir_ops[in->op].flags & NOT_ROUNDED) || !ir_class_has(in->op, ROUNDS) || ir_dtype_kind[in->dtype] != DTYPE_FLOAT;
  double scale = exact ? 0 : size_of_terms(r, v);
  for (uint32_t k = 0; k < in->n_res && !exact; k++) {
    Tensor t = r->val[v.i + k];
    for (int64_t i = 0; i < t.n; i++) t.v[i] = run_rounded(r, t.v[i], fabs(t.v[i]) + scale);
  }
}

static void round_results(Run *r, Val v) {
  for (uint32_t k = 0; k < ir_ins(r->f, v)->n_res; k++) {
    Tensor t = r->val[v.i + k];
    if (ir_ins(r->f, ir_result(v, k))->dtype != DT_F32) continue;
    for (int64_t i = 0; i < t.n; i++) t.v[i] = run_single(r, t.v[i]);
  }
}

static bool run_one(Run *r, Val v) {
  const OpInfo *op = &ir_ops[ir_ins(r->f, v)->op];
  if (!ir_eval_of[ir_ins(r->f, v)->op](r, v) || !run_low_plane(r, v)) return false;
  if (r->env->single) round_results(r, v);
  if (r->env->noise > 0) disturb(r, v);
  if (op->flags & WRITES) store_writes(r, v);
  return true;
}

static bool has_sizes(Run *r, Val v) {
  Prog *p = r->f->prog;
  Shape s = ir_ins(r->f, v)->shape;
  for (uint32_t k = 0; k < ir_rank(p, s); k++) {
    Dim d = ir_dim_at(p, s, k);
    if (ir_dim_least(p, d) >= 0) continue;  // sizes that a layout finds are not known yet
    int64_t size = ir_dim_eval(p, d, r->env->slots);
    if (size < 0) return run_fail(r, v, "axis %u has the size %lld", k, (long long)size);
  }
  return true;
}

bool ir_interpret(const Fn *f, InterpEnv *env, RtText *why) {
  Run r = {f, env, rt_alloc(env->mem, f->n_ins * sizeof(Tensor)), why};
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (!has_sizes(&r, (Val){i})) return false;
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (!run_one(&r, (Val){i})) return false;
  return true;
}
