// Pointwise ops: the rows' own expressions, evaluated element by element.
#include "ir/expr.h"
#include "ir/fn.h"
#include "ir/interp/interp.h"

#include <math.h>
#include <string.h>

enum { MAX_STACK = 32 };

typedef struct {
  Run *r;
  Val v;
  uint64_t element;  // flat index in the result
} At;

static double eval_random(const At *at, Op op) {
  const InterpEnv *env = at->r->env;
  uint32_t id = (uint32_t)(ir_attr_int(at->r->f, at->v, KEY_id, 0) + env->step);
  if (op == OP_rand) return (double)ir_philox_uniform(env->seed, env->counter, id, at->element);
  double y = ir_philox_normal(env->seed, env->counter, id, at->element);
  return env->noise > 0 ? run_rounded(at->r, y, 1 + fabs(y)) : y;  // a few roundings of numbers near 1
}

static double eval_op(const At *at, Op op, const double *x);

static double eval_row(const At *at, Expr e, const double *x) {
  double stack[MAX_STACK];
  uint32_t top = 0;
  for (uint32_t i = 0; i < e.n; i++) {
    const ExNode *n = &e.nodes[i];
    switch (n->kind) {
    case EX_ARG: stack[top++] = x[n->arg]; break;
    case EX_NUM: stack[top++] = run_single(at->r, n->num); break;
    case EX_ATTR: stack[top++] = (float)ir_attr_num(at->r->f, at->v, (Key)n->arg, 0); break;  // f32, as kernels have it
    case EX_OP:
      top -= ir_ops[n->op].n_min;
      stack[top] = eval_op(at, (Op)n->op, &stack[top]);
      top++;
      break;
    }
  }
  return stack[0];
}

// Numbers that single precision may not tell apart are equal in some of the noisy runs, as rounding makes them.
static bool may_be_equal(const At *at, Op op, const double *x) {
  double noise = at->r->env->noise;
  return noise > 0 && (op == OP_eq || op == OP_ne) && fabs(x[0] - x[1]) <= noise * (fabs(x[0]) + fabs(x[1])) &&
         run_rounded(at->r, 0, 1) > 0;
}

// The sign of a computed NaN is unspecified, and so is which of two zeros is larger.
static bool has_open_sign(Op op, const double *x, double y) {
  if (op == OP_select) return false;
  return isnan(y) || ((op == OP_max || op == OP_min) && x[0] == 0 && x[1] == 0 && signbit(x[0]) != signbit(x[1]));
}

// What cancels but for roundings is 0 in some of the noisy runs.
static bool may_cancel(const At *at, Op op, const double *x, double y) {
  double noise = at->r->env->noise;
  return noise > 0 && (op == OP_add || op == OP_sub) && fabs(y) <= noise * (fabs(x[0]) + fabs(x[1])) &&
         run_rounded(at->r, 0, 1) > 0;
}

// If the exact result is a single-precision number there is nothing to round: a 0 or 1 that is meant, as of a
// product of masks, stays exact, and decides as it would without noise.
static double eval_primitive(const At *at, Op op, const double *x) {
  uint32_t n = ir_ops[op].n_min;
  if (may_be_equal(at, op, x)) return op == OP_eq;
  double y = ir_primitive(op, n > 0 ? x[0] : 0, n > 1 ? x[1] : 0, n > 2 ? x[2] : 0);
  y = run_single(at->r, y);
  if (may_cancel(at, op, x, y)) return 0;
  if (at->r->env->noise > 0 && has_open_sign(op, x, y)) return run_any_sign(at->r, y);
  bool is_exact = (ir_ops[op].flags & NOT_ROUNDED) || ((ir_ops[op].flags & ROUNDED_ONCE) && y == (double)(float)y);
  return at->r->env->noise > 0 && !is_exact ? run_rounded(at->r, y, fabs(y)) : y;
}

static double eval_op(const At *at, Op op, const double *x) {
  if (op == OP_rand || op == OP_randn) return eval_random(at, op);
  Expr e = ir_forward(op);
  if (e.nodes) return eval_row(at, e, x);
  return eval_primitive(at, op, x);
}

// The dtype that v is computed in: its operands'.
static DType dtype_of(const Run *r, Val v) {
  const Ins *in = ir_ins(r->f, v);
  return (DType)(in->n_args ? ir_ins(r->f, ir_arg(r->f, v, 0)) : in)->dtype;
}

// Of any dtype: elements are moved as they are.
static bool eval_choice(Run *r, Val v) {
  Tensor out = run_result(r, v, 0);
  RunOperands in = run_operands(r, v);
  bool is_wide = in.arg[1].low || in.arg[2].low;
  if (is_wide) out.low = rt_alloc(r->env->mem, (size_t)out.n * sizeof(double));
  for (int64_t i = 0; i < out.n; i++) {
    uint32_t k = in.arg[0].v[run_offset(&in.to, in.stride[0], i)] != 0 ? 1 : 2;
    int64_t at = run_offset(&in.to, in.stride[k], i);
    out.v[i] = in.arg[k].v[at];
    if (in.arg[k].low) out.low[i] = in.arg[k].low[at];
  }
  r->val[v.i] = out;
  return true;
}

bool eval_pointwise(Run *r, Val v) {
  DType t = dtype_of(r, v);
  const Ins *in = ir_ins(r->f, v);
  if (in->op == OP_select) return eval_choice(r, v);
  if (ir_dtype_kind[t] != DTYPE_FLOAT) return run_pointwise_whole(r, v, t);
  Tensor out = run_result(r, v, 0);
  RunOperands from = run_operands(r, v);
  for (int64_t i = 0; i < out.n; i++) {
    double x[3] = {0, 0, 0};
    for (uint32_t k = 0; k < in->n_args; k++) x[k] = from.arg[k].v[run_offset(&from.to, from.stride[k], i)];
    out.v[i] = eval_op(&(At){r, v, (uint64_t)i}, (Op)in->op, x);
  }
  return true;
}

// Rounded once, as compiled code does.
static double single_of(const Run *r, int64_t x) { return r->env->single ? (double)(float)x : (double)x; }

bool eval_cast(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), a = run_arg(r, v, 0);
  DType from = (DType)ir_ins(r->f, ir_arg(r->f, v, 0))->dtype, to = (DType)ir_ins(r->f, v)->dtype;
  bool is_whole = ir_dtype_kind[from] != DTYPE_FLOAT && ir_dtype_kind[to] != DTYPE_FLOAT;
  for (int64_t i = 0; i < out.n; i++) {
    if (is_whole) run_set_whole(r, &out, i, ir_modulo(to, ir_modulo(from, run_whole(&a, i))));
    else out.v[i] = run_cast(from, to, a.low ? single_of(r, run_whole(&a, i)) : a.v[i]);
  }
  r->val[v.i] = out;
  return true;
}

bool eval_stop_grad(Run *r, Val v) {
  Tensor out = run_result(r, v, 0);
  if (out.n) memcpy(out.v, run_arg(r, v, 0).v, (size_t)out.n * sizeof(double));
  return true;
}

bool eval_assign(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), src = run_arg(r, v, 1);
  Sizes to = run_sizes(r, v), from = run_arg_sizes(r, v, 1);
  int64_t stride[MAX_RANK];
  run_broadcast(&from, &to, stride);
  Tensor old = run_arg(r, v, 0);
  for (int64_t i = 0; i < out.n; i++) out.v[i] = run_is_owned(r, v, i) ? src.v[run_offset(&to, stride, i)] : old.v[i];
  return true;
}
