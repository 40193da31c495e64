// Which operands a gradient flows to.
#include "ir/autodiff/autodiff.h"
#include "ir/expr.h"
#include "ir/fn.h"
#include "ir/ops.h"

// Three words of the gradient column of ops.def name no rule.
#define FLOW_zero , GRAD_NONE
#define FLOW_missing , GRAD_MISSING
#define FLOW_expanded , GRAD_MISSING
#define SECOND(a, b, ...) b
#define FLOW(...) SECOND(__VA_ARGS__, GRAD_RULE, 0)
#define OP(n, operands, res, shape, grad, ...) [OP_##n] = FLOW(FLOW_##grad),
static const GradFlow flows[N_OPS] = {
#include "ir/ops.def"
};

GradFlow ir_grad_kind(Op op) { return flows[op]; }

static bool is_float(const Fn *f, Val v) { return ir_dtype_kind[ir_ins(f, v)->dtype] == DTYPE_FLOAT; }

static GradFlow pointwise_kind(Op op, uint32_t k) {
  Expr e = ir_gradient(op, k);
  if (!e.n) return GRAD_NONE;
  return e.n == 1 && e.nodes[0].kind == EX_NUM && e.nodes[0].num == 0 ? GRAD_ZERO : GRAD_RULE;
}

GradFlow ir_grad_flow(const Fn *f, Val v, uint32_t k) {
  const Ins *ins = ir_ins(f, v);
  if (ir_attr(f, v, KEY_no_grad)) return GRAD_NONE;
  if (ir_ops[ins->op].is_pointwise) return pointwise_kind(ins->op, k);
  uint32_t operand = ir_operand_flags(f, v, k);
  bool is_integer = ins->op != OP_result && !is_float(f, ir_arg(f, v, k));
  if ((operand & (SHAPE_ONLY | REPLACED)) || is_integer || (ins->n_res <= 1 && !is_float(f, v))) return GRAD_NONE;
  return ir_grad_kind((Op)ins->op);
}
