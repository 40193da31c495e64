// Gradient norm and optimizers, as PyTorch's torch.optim states them. The interpreter's loop stores what these return
// into the parameters that the operands are versions of.
#include "ir/fn.h"
#include "ir/interp/interp.h"
#include "ir/optimizers.h"

#include <math.h>

bool eval_global_norm(Run *r, Val v) {
  double sum = 0;
  uint32_t step = ir_attr(r->f, v, KEY_exchange) ? 2 : 1;  // one process: ranges are whole tensors
  for (uint32_t k = 0; k < ir_ins(r->f, v)->n_args; k += step) {
    Tensor a = run_arg(r, v, k);
    for (int64_t i = 0; i < a.n; i++) sum += a.v[i] * a.v[i];
  }
  run_result(r, v, 0).v[0] = sqrt(sum);
  return true;
}

// One process has nothing to exchange: nobody reads this memory
bool eval_exchange_begin(Run *r, Val v) {
  for (uint32_t k = 0; k < 2; k++) {
    Tensor t = run_result(r, v, k);
    for (int64_t i = 0; i < t.n; i++) t.v[i] = 0;
  }
  return true;
}

// ---- the rows of optimizers.def
typedef struct {
  Run *r;
  Val v;
  double reg[IR_N_REGISTERS];
} Update;

// base^n for the whole number in [0, 2^24] that n is, cut toward zero; 0 for NaN.
static double power(double base, double n) { return pow(base, n > 0 ? floor(fmin(n, 0x1p24)) : 0); }

static double eval_node(const Update *u, const ExNode *n, const double *x) {
  switch (n->kind) {
  case EX_NUM: return n->num;
  case EX_OP: return ir_primitive((Op)n->op, x[0], x[1], x[2]);
  case UP_REGISTER: return u->reg[n->arg];
  case UP_OPTION: return ir_attr_num(u->r->f, u->v, (Key)n->arg, n->num);
  case UP_FLAG: return ir_attr(u->r->f, u->v, (Key)n->arg) != NULL;
  case UP_FMA: return x[0] * x[1] + x[2];
  case UP_LERP: return x[0] + x[2] * (x[1] - x[0]);
  case UP_POWER: return power(x[0], x[1]);
  default: return 0;
  }
}

static void run_lets(Update *u, const IrLet *lets, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    double stack[32] = {0};
    uint32_t top = 0;
    for (uint32_t i = 0; i < lets[k].value.n; i++) {
      const ExNode *node = &lets[k].value.nodes[i];
      top -= ir_operands_taken(node->kind, node->op);
      stack[top] = eval_node(u, node, &stack[top]);
      top++;
    }
    u->reg[lets[k].reg] = stack[0];
  }
}

bool run_is_owned(const Run *r, Val v, int64_t i) {
  if (!ir_has_operand(r->f, v, ARG_owned)) return true;
  const double *owned = run_operand(r, v, ARG_owned).v;
  return (double)i >= owned[0] && (double)i < owned[1];
}

// Does the update leave element i as it is?
static bool is_off(const Run *r, Val v, int64_t i, const bool *named) {
  if (named && !named[i / run_arg_sizes(r, v, 0).dim[1]]) return true;
  if (ir_has_operand(r->f, v, ARG_when) && run_operand(r, v, ARG_when).v[0] == 0) return true;
  return !run_is_owned(r, v, i);
}

// The gradient g of param, from any combination of operands. named: of the rows that change; NULL: all do
static bool update(Run *r, Val v, Tensor g, const bool *named) {
  Op op = (Op)ir_ins(r->f, v)->op;
  const IrUpdate *row = ir_update_at(r->f, v);
  uint32_t n_kept = row->n_tensors - 1;
  const OperandInfo *operand = ir_ops[op].operands;
  Update u = {.r = r, .v = v};
  for (uint32_t k = n_kept; k < ir_ops[op].n_operands; k++) {
    Tensor x = run_operand(r, v, (ArgName)operand[k].name);
    if (x.n == 1 && x.v) u.reg[operand[k].name] = x.v[0];
  }
  double factor = ir_has_operand(r->f, v, ARG_grad_scale) ? u.reg[ARG_grad_scale] : 1;
  run_lets(&u, row->scalars, row->n_scalars);
  for (int64_t i = 0; i < g.n; i++) {
    for (uint32_t k = 0; k < n_kept; k++) u.reg[operand[k].name] = run_arg(r, v, k).v[i];
    u.reg[ARG_grad] = g.v[i] * factor;
    if (!is_off(r, v, i, named)) run_lets(&u, row->elements, row->n_elements);
    for (uint32_t k = 0; k < n_kept; k++) r->val[v.i + k].v[i] = u.reg[operand[k].name];
  }
  return true;
}

static void make_results(Run *r, Val v) {
  for (uint32_t k = 0; k < ir_ops[ir_ins(r->f, v)->op].n_res; k++) run_result(r, v, k);
}

static bool eval_update(Run *r, Val v) {
  Tensor g = run_operand(r, v, ARG_grad);
  bool *named = NULL;
  make_results(r, v);
  return (!ir_has_operand(r->f, v, ARG_index) || run_rows_of_update(r, v, &g, &named)) && update(r, v, g, named);
}

#define UPDATE(n, ...) \
  bool eval_##n(Run *r, Val v) { return eval_update(r, v); }
#include "ir/optimizers.def"

bool eval_adamw_sparse(Run *r, Val v) {
  Tensor table = run_arg(r, v, 0), index = run_operand(r, v, ARG_index), rows = run_operand(r, v, ARG_g);
  Sizes size = run_arg_sizes(r, v, 0);
  int64_t width = size.dim[1];
  Tensor g = {.v = rt_alloc(r->env->mem, (size_t)table.n * sizeof(double)), .n = table.n};
  make_results(r, v);
  for (int64_t i = 0; i < index.n; i++) {
    double row = index.v[i];
    if (row < 0 || row >= (double)size.dim[0])
      return run_fail(r, v, "index %lld at element %lld is not in [0, %lld)", (long long)row, (long long)i,
                      (long long)size.dim[0]);
    for (int64_t k = 0; k < width; k++) g.v[(int64_t)row * width + k] += rows.v[i * width + k];
  }
  return update(r, v, g, NULL);
}
