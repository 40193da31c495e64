// A pointwise op in the dtype of its operands: f32, whole numbers and bool (math/whole.c); a choice between values of any
// dtype by a condition of any other; constants.
#include "codegen/math/math.h"
#include "codegen/math/primitives.h"
#include "codegen/pointwise/pointwise.h"
#include "ir/interp/interpret.h"

static V is_set(Cg *c, DType t, V x) {
  if (ir_dtype_kind[t] != DTYPE_FLOAT) return cg_ne(c, x, LLVMConstNull(LLVMTypeOf(x)));
  V number = cg_convert(c, t, DT_F32, x);
  return cg_fcmp(c, LLVMRealUNE, number, k(c, number, 0));
}

V cg_constant_like(Cg *c, Val v, LLVMTypeRef lanes) {
  DType t = (DType)ir_ins(c->f, v)->dtype;
  double x = ir_attr_num(c->f, v, KEY_value, 0);
  LLVMTypeRef type = lanes_like(lanes, cg_elem_type(c, t));
  return t == DT_F32 ? num(c, type, x) : bits(c, type, (uint64_t)ir_to_whole(t, x));
}

V cg_pointwise_of_any(Cg *c, Val v, V *arg, V element) {
  const Ins *in = ir_ins(c->f, v);
  DType t = (DType)(in->n_args ? ir_ins(c->f, ir_arg(c->f, v, 0)) : in)->dtype;
  bool is_plain = t == DT_F32 && in->dtype == DT_F32;
  if (is_plain) return cg_pointwise_op(c, v, arg, element);
  if (in->op == OP_select) return cg_select(c, is_set(c, t, arg[0]), arg[1], arg[2]);
  return in->n_args ? cg_whole_op(c, v, t, arg) : cg_constant_like(c, v, LLVMTypeOf(element));
}
