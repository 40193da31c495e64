// The order of elements as that of unsigned numbers.
//
//   f32   -inf .. -1 .. -0 = 0 .. 1 .. inf .. NaN: negative numbers with all bits flipped, others with the sign flipped;
//         -0 becomes 0 first, and every NaN the largest key
//   i64   with the sign flipped
//
// In a descending order all bits are flipped: NaN comes first, and equal elements stay in their order.
#include "codegen/order/order.h"

typedef LLVMValueRef V;

CgKeys cg_keys_of(Cg *c, DType t, bool descending) {
  uint32_t bits = t == DT_F32 ? 32 : 64;
  return (CgKeys){c, t, descending, bits, LLVMIntTypeInContext(c->ctx, bits), LLVMIntTypeInContext(c->ctx, 2 * bits)};
}

static LLVMTypeRef lanes_like(V x, LLVMTypeRef elem) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMVectorType(elem, LLVMGetVectorSize(t)) : elem;
}

static V filled(V like, LLVMTypeRef elem, V one) {
  LLVMTypeRef t = lanes_like(like, elem);
  if (LLVMGetTypeKind(t) != LLVMVectorTypeKind) return one;
  V lane[64];
  uint32_t n = LLVMGetVectorSize(t);
  for (uint32_t k = 0; k < n; k++) lane[k] = one;
  return LLVMConstVector(lane, n);
}

static V key_of_f32(const CgKeys *k, V x) {
  Cg *c = k->c;
  LLVMTypeRef t = lanes_like(x, c->i32);
  V none = LLVMConstNull(LLVMTypeOf(x)), sign = filled(x, c->i32, cg_i32(c, INT32_MIN));
  V y = LLVMBuildBitCast(c->b, LLVMBuildFAdd(c->b, x, none, ""), t, "");  // -0 + 0 = 0
  V flip = LLVMBuildOr(c->b, LLVMBuildAShr(c->b, y, filled(x, c->i32, cg_i32(c, 31)), ""), sign, "");
  V is_nan = LLVMBuildFCmp(c->b, LLVMRealUNO, x, x, "");
  return LLVMBuildSelect(c->b, is_nan, LLVMConstAllOnes(t), LLVMBuildXor(c->b, y, flip, ""), "");
}

V cg_key(const CgKeys *k, V x) {
  Cg *c = k->c;
  V key = k->type == DT_F32 ? key_of_f32(k, x) : LLVMBuildXor(c->b, x, filled(x, c->i64, cg_i64(c, INT64_MIN)), "");
  return k->descending ? LLVMBuildNot(c->b, key, "") : key;
}

static V shift_of(const CgKeys *k) { return LLVMConstInt(k->record, k->bits, false); }

V cg_record(const CgKeys *k, V key, V place) {
  Cg *c = k->c;
  V high = LLVMBuildShl(c->b, LLVMBuildZExt(c->b, key, k->record, ""), shift_of(k), "");
  return LLVMBuildOr(c->b, high, k->bits == 32 ? place : LLVMBuildZExt(c->b, place, k->record, ""), "");
}

V cg_record_key(const CgKeys *k, V record) {
  return LLVMBuildTrunc(k->c->b, LLVMBuildLShr(k->c->b, record, shift_of(k), ""), k->key, "");
}

V cg_record_place(const CgKeys *k, V record) {
  Cg *c = k->c;
  return LLVMBuildZExt(c->b, LLVMBuildTrunc(c->b, record, c->i32, ""), c->i64, "");
}

V cg_digit(const CgKeys *k, V key, V shift) {
  Cg *c = k->c;
  V by = k->bits == 32 ? LLVMBuildTrunc(c->b, shift, c->i32, "") : shift;
  V digit = LLVMBuildAnd(c->b, LLVMBuildLShr(c->b, key, by, ""), LLVMConstInt(k->key, CG_DIGITS - 1, false), "");
  return k->bits == 32 ? LLVMBuildZExt(c->b, digit, c->i64, "") : digit;
}
