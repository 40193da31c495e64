// A pointwise op in the dtype of its operands: floats, integers and bool; a choice between values of any dtype by a
// condition of any other; constants.
#include "codegen/math/math.h"
#include "codegen/math/primitives.h"
#include "codegen/pointwise/pointwise.h"

V cg_constant_like(Cg *c, Val v, LLVMTypeRef lanes) {
  DType t = (DType)ir_ins(c->f, v)->dtype;
  double x = ir_attr_num(c->f, v, KEY_value, 0);
  return cg_number(c, t, lanes_like(lanes, cg_elem_type(c, t)), x);
}

// A byte other than 0 and 1 counts as 1.
static V as_truth(Cg *c, V x) { return cg_zext(c, cg_is_set(c, DT_BOOL, x), LLVMTypeOf(x)); }

V cg_pointwise_of_any(Cg *c, Val v, V *arg, V element) {
  const Ins *in = ir_ins(c->f, v);
  DType t = (DType)(in->n_args ? ir_ins(c->f, ir_arg(c->f, v, 0)) : in)->dtype;
  V x[POINTWISE_OPERANDS] = {NULL};
  if (in->op == OP_select) return cg_select(c, cg_is_set(c, t, arg[0]), arg[1], arg[2]);
  if (!in->n_args && t != DT_F32) return cg_constant_like(c, v, LLVMTypeOf(element));
  for (uint32_t k = 0; k < in->n_args; k++) x[k] = t == DT_BOOL ? as_truth(c, arg[k]) : arg[k];
  V y = cg_pointwise_op(c, v, x, element);
  if (t == DT_F32 || !(ir_ops[in->op].flags & MASK)) return y;
  LLVMTypeRef f32 = lanes_like(LLVMTypeOf(y), c->f32);
  return cg_select(c, cg_is_set(c, t, y), num(c, f32, 1), num(c, f32, 0));
}
