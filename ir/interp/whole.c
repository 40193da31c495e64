// Pointwise ops on whole numbers and bool, in 64 bits: each primitive gives its result modulo 2^bits of the dtype.
//
// Division by zero: the quotient is 0, and the remainder the dividend. Elements of i64 are exact: what a double cannot
// hold of one stands in a second plane (Tensor.low).
#include "ir/expr.h"
#include "ir/fn.h"
#include "ir/interp/interp.h"

enum { MAX_STACK = 32 };

static int64_t trunc_quotient(int64_t a, int64_t b) {
  if (b == -1) return (int64_t)(0 - (uint64_t)a);
  return b ? a / b : 0;
}
static int64_t trunc_rest(int64_t a, int64_t b) { return b == -1 ? 0 : b ? a % b : a; }
static int64_t floor_quotient(int64_t a, int64_t b) {
  bool is_below = b != 0 && trunc_rest(a, b) != 0 && (a < 0) != (b < 0);
  return trunc_quotient(a, b) - is_below;
}

static int64_t shifted(DType t, Op op, int64_t a, int64_t b) {
  bool fits = b >= 0 && b < 8 * ir_dtype_bytes[t];
  if (op == OP_bitwise_left_shift) return fits ? (int64_t)((uint64_t)a << b) : 0;
  return fits ? a >> b : a < 0 ? -1 : 0;
}

static int64_t power(int64_t a, int64_t b) {
  uint64_t y = 1, square = (uint64_t)a;
  if (b < 0) return a == 1 || (a == -1 && b % 2 == 0) ? 1 : a == -1 ? -1 : 0;
  for (; b; b >>= 1, square *= square)
    if (b & 1) y *= square;
  return (int64_t)y;
}

int64_t run_whole_primitive(Op op, DType t, int64_t a, int64_t b, int64_t c) {
  uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
  switch (op) {
  case OP_neg: return (int64_t)(0 - ua);
  case OP_abs: return a < 0 ? (int64_t)(0 - ua) : a;
  case OP_add: return t == DT_BOOL ? a | b : (int64_t)(ua + ub);
  case OP_sub: return (int64_t)(ua - ub);
  case OP_mul: return (int64_t)(ua * ub);
  case OP_max: return a > b ? a : b;
  case OP_min: return a < b ? a : b;
  case OP_fmod: return trunc_rest(a, b);
  case OP_pow: return power(a, b);
  case OP_trunc_divide: return trunc_quotient(a, b);
  case OP_floor_divide: return floor_quotient(a, b);
  case OP_gt: return a > b;
  case OP_ge: return a >= b;
  case OP_lt: return a < b;
  case OP_le: return a <= b;
  case OP_eq: return a == b;
  case OP_ne: return a != b;
  case OP_select: return a ? b : c;  // inside a row
  case OP_bitwise_and: return a & b;
  case OP_bitwise_or: return a | b;
  case OP_bitwise_xor: return a ^ b;
  case OP_bitwise_not: return t == DT_BOOL ? !a : ~a;
  case OP_bitwise_left_shift:
  case OP_bitwise_right_shift: return shifted(t, op, a, b);
  default: return 0;  // no op of whole numbers
  }
}

// By the row's expression, but for quotients, whose rows are of f32.
static bool is_by_hand(Op op) { return op == OP_trunc_divide || op == OP_floor_divide; }

typedef struct {
  Run *r;
  Val v;
  DType t;
} At;

static int64_t eval_op(const At *at, Op op, const int64_t *x) {
  Expr e = ir_forward(op);
  int64_t stack[MAX_STACK];
  uint32_t top = 0, n = ir_ops[op].n_min;
  if (!e.nodes || is_by_hand(op))
    return ir_modulo(at->t, run_whole_primitive(op, at->t, x[0], n > 1 ? x[1] : 0, n > 2 ? x[2] : 0));
  for (uint32_t i = 0; i < e.n; i++) {
    const ExNode *node = &e.nodes[i];
    if (node->kind == EX_ARG) stack[top++] = x[node->arg];
    else if (node->kind == EX_NUM) stack[top++] = ir_to_whole(at->t, node->num);
    else if (node->kind == EX_ATTR) stack[top++] = ir_to_whole(at->t, ir_attr_num(at->r->f, at->v, (Key)node->arg, 0));
    else {
      top -= ir_ops[node->op].n_min;
      stack[top] = eval_op(at, (Op)node->op, &stack[top]);
      top++;
    }
  }
  return stack[0];
}

bool run_pointwise_whole(Run *r, Val v, DType t) {
  const Ins *in = ir_ins(r->f, v);
  Tensor out = run_result(r, v, 0);
  RunOperands from = run_operands(r, v);
  for (int64_t i = 0; i < out.n; i++) {
    int64_t x[3] = {0, 0, 0};
    for (uint32_t k = 0; k < in->n_args; k++)
      x[k] = ir_modulo(t, run_whole(&from.arg[k], run_offset(&from.to, from.stride[k], i)));
    run_set_whole(r, &out, i, eval_op(&(At){r, v, t}, (Op)in->op, x));
  }
  r->val[v.i] = out;
  return true;
}

// ---- moving
// The second plane of an op that only moves elements: the op applied to the second planes of its operands.
static bool only_moves(Op op) {
  OpClass cls = (OpClass)ir_ops[op].cls;
  bool by_element = op == OP_assign || op == OP_scatter || op == OP_index_copy;
  return by_element || cls == CLASS_VIEW || cls == CLASS_INDEX || cls == CLASS_AXIS_GATHER || cls == CLASS_SLICE_UPDATE;
}

static bool is_moved(const Run *r, Val v, uint32_t k) {
  uint32_t slot = ir_operand_slot(r->f, v, k);
  const OpInfo *op = &ir_ops[ir_ins(r->f, v)->op];
  ArgName name = (ArgName)op->operands[slot < op->n_operands ? slot : op->n_operands - 1u].name;
  return name != ARG_index && name != ARG_at;
}

bool run_low_plane(Run *r, Val v) {
  const Ins *in = ir_ins(r->f, v);
  bool any = false;
  for (uint32_t k = 0; k < in->n_args; k++) any |= run_arg(r, v, k).low != NULL && is_moved(r, v, k);
  if (!any || !only_moves((Op)in->op)) return true;
  Tensor *all = r->val, first = all[v.i];
  r->val = rt_alloc(r->env->mem, r->f->n_ins * sizeof(Tensor));
  for (uint32_t k = 0; k < in->n_args; k++) {
    Val a = ir_arg(r->f, v, k);
    Tensor t = all[a.i];
    double *low = t.low ? t.low : rt_alloc(r->env->mem, (size_t)t.n * sizeof(double));
    r->val[a.i] = is_moved(r, v, k) ? (Tensor){.v = low, .n = t.n} : t;
  }
  bool good = ir_eval_of[in->op](r, v);
  first.low = r->val[v.i].v;
  r->val = all;
  r->val[v.i] = first;
  return good;
}
