// The order of elements as that of unsigned numbers.
//
//   f32   -inf .. -1 .. -0 = 0 .. 1 .. inf .. NaN: negative numbers with all bits flipped, others with the sign flipped;
//         -0 becomes 0 first, and every NaN the largest key
//   i64   with the sign flipped
//
// In a descending order all bits are flipped: NaN comes first, and equal elements stay in their order.
#include "codegen/order/order.h"

CgKeys cg_keys_of(Cg *c, DType t, bool descending) {
  uint32_t bits = t == DT_F32 ? 32 : 64;
  return (CgKeys){c, t, descending, bits, LLVMIntTypeInContext(c->ctx, bits), LLVMIntTypeInContext(c->ctx, 2 * bits)};
}

static V filled(V like, LLVMTypeRef elem, V one) {
  LLVMTypeRef t = cg_lanes_of(like, elem);
  if (LLVMGetTypeKind(t) != LLVMVectorTypeKind) return one;
  V lane[64];
  uint32_t n = LLVMGetVectorSize(t);
  for (uint32_t k = 0; k < n; k++) lane[k] = one;
  return LLVMConstVector(lane, n);
}

static V key_of_f32(const CgKeys *k, V x) {
  Cg *c = k->c;
  LLVMTypeRef t = cg_lanes_of(x, c->i32);
  V none = LLVMConstNull(LLVMTypeOf(x)), sign = filled(x, c->i32, cg_i32(c, INT32_MIN));
  V y = cg_bitcast(c, cg_fadd(c, x, none), t);  // -0 + 0 = 0
  V flip = cg_or(c, cg_ashr(c, y, filled(x, c->i32, cg_i32(c, 31))), sign);
  V is_nan = cg_fcmp(c, LLVMRealUNO, x, x);
  return cg_select(c, is_nan, LLVMConstAllOnes(t), cg_xor(c, y, flip));
}

V cg_key(const CgKeys *k, V x) {
  Cg *c = k->c;
  V key = k->type == DT_F32 ? key_of_f32(k, x) : cg_xor(c, x, filled(x, c->i64, cg_i64(c, INT64_MIN)));
  return k->descending ? cg_not(c, key) : key;
}

static V shift_of(const CgKeys *k) { return LLVMConstInt(k->record, k->bits, false); }

V cg_record(const CgKeys *k, V key, V place) {
  Cg *c = k->c;
  V high = cg_shl(c, cg_zext(c, key, k->record), shift_of(k));
  return cg_or(c, high, k->bits == 32 ? place : cg_zext(c, place, k->record));
}

V cg_record_key(const CgKeys *k, V record) { return cg_trunc(k->c, cg_lshr(k->c, record, shift_of(k)), k->key); }

V cg_record_place(const CgKeys *k, V record) {
  Cg *c = k->c;
  return cg_zext(c, cg_trunc(c, record, c->i32), c->i64);
}

static V record_at(const CgKeys *k, V base, V i) { return cg_at(k->c, k->record, base, i); }

// At 8 bytes, whatever their size.
V cg_load_record(const CgKeys *k, V base, V i) {
  V x = LLVMBuildLoad2(k->c->b, k->record, record_at(k, base, i), "");
  LLVMSetAlignment(x, 8);
  return x;
}
void cg_store_record(const CgKeys *k, V record, V base, V i) {
  LLVMSetAlignment(LLVMBuildStore(k->c->b, record, record_at(k, base, i)), 8);
}

V cg_digit(const CgKeys *k, V key, V shift) {
  Cg *c = k->c;
  V by = k->bits == 32 ? cg_trunc(c, shift, c->i32) : shift;
  V digit = cg_and(c, cg_lshr(c, key, by), LLVMConstInt(k->key, CG_DIGITS - 1, false));
  return k->bits == 32 ? cg_zext(c, digit, c->i64) : digit;
}
