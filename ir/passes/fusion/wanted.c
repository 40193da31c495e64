// Which elements of a value are wanted: all, or those of a range that the run gives. A process keeps its part of a parameter
// (split_shards.c); what is computed element by element for that part alone is computed for those elements.
//
//   %1 = mul %g, %c                         of the elements of %owned
//   %2 = add %e, %1                         likewise
//   %3 = assign %e, %2, owned=%owned
#include "ir/fn.h"
#include "ir/ir.h"
#include "ir/ops.h"
#include "ir/passes/plan.h"

#define ALL ((Val){UINT32_MAX})

static bool has_range(const Fn *f, Val v) {
  return ir_has_operand(f, v, ARG_owned) || ir_attr(f, v, KEY_exchange) != NULL;
}

static void want(Val *range, Val v, Val which) {
  if (ir_none(range[v.i])) range[v.i] = which;
  else if (range[v.i].i != which.i) range[v.i] = ALL;
}

// What v wants of operand k: of a norm by parts, the range behind the operand
static Val wanted_of(const Fn *f, Val v, uint32_t k, const Val *range) {
  Val a = ir_arg(f, v, k);
  if (ir_attr(f, v, KEY_exchange)) return k % 2 ? ALL : ir_arg(f, v, k + 1);
  if (ir_ins(f, a)->shape.i != ir_ins(f, v)->shape.i) return ALL;
  if (ir_has_operand(f, v, ARG_owned)) return ir_operand(f, v, ARG_owned);
  return ir_ops[ir_ins(f, v)->op].cls == CLASS_POINTWISE && !ir_none(range[v.i]) ? range[v.i] : ALL;
}

const Val *ir_find_wanted(const Fn *f) {
  bool any = false;
  for (Val v = {1}; v.i < f->n_ins; v.i++) any |= has_range(f, v);
  if (!any) return NULL;
  Val *range = rt_alloc(f->prog->mem, f->n_ins * sizeof *range);
  for (Val v = {f->n_ins - 1}; v.i > 0; v.i--) {
    if (ir_has_operand(f, v, ARG_owned)) range[v.i] = ir_operand(f, v, ARG_owned);
    for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) want(range, ir_arg(f, v, k), wanted_of(f, v, k, range));
  }
  for (Val v = {1}; v.i < f->n_ins; v.i++)
    if (range[v.i].i == UINT32_MAX || ir_ops[ir_ins(f, v)->op].cls != CLASS_POINTWISE) range[v.i] = (Val){0};
  return range;
}
