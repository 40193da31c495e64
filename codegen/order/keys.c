// The order of elements as that of unsigned numbers.
//
//   floats     -inf .. -1 .. -0 = 0 .. 1 .. inf .. NaN: negative numbers with all bits flipped, others with the sign
//              flipped; -0 becomes 0 first, and every NaN the largest key
//   integers   with the sign flipped; shorter ones than a key in its high bits, which selection looks at
//
// In a descending order all bits are flipped: NaN comes first, and equal elements stay in their order.
#include "codegen/math/math.h"
#include "codegen/order/order.h"

uint32_t cg_key_bits(DType t) { return ir_dtype_bytes[t] > 4 ? 64 : 32; }

CgKeys cg_keys_of(Cg *c, DType t, bool descending) {
  uint32_t bits = cg_key_bits(t);
  return (CgKeys){c, t, descending, bits, LLVMIntTypeInContext(c->ctx, bits), LLVMIntTypeInContext(c->ctx, 2 * bits)};
}

static V sign_of(const CgKeys *k, LLVMTypeRef t) { return bits(k->c, t, 1ull << (k->bits - 1)); }

static V key_of_float(const CgKeys *k, V x, LLVMTypeRef t) {
  Cg *c = k->c;
  V y = cg_bitcast(c, cg_fadd(c, x, LLVMConstNull(LLVMTypeOf(x))), t);  // -0 + 0 = 0
  V flip = cg_or(c, cg_ashr(c, y, bits(c, t, k->bits - 1)), sign_of(k, t));
  V is_nan = cg_fcmp(c, LLVMRealUNO, x, x);
  return cg_select(c, is_nan, LLVMConstAllOnes(t), cg_xor(c, y, flip));
}

static V key_of_integer(const CgKeys *k, V x, LLVMTypeRef t) {
  Cg *c = k->c;
  uint32_t unused = k->bits - 8u * ir_dtype_bytes[k->type];
  if (unused) x = cg_shl(c, cg_zext(c, x, t), bits(c, t, unused));
  return SIGNED >> k->type & 1 ? cg_xor(c, x, sign_of(k, t)) : x;
}

V cg_key(const CgKeys *k, V x) {
  Cg *c = k->c;
  LLVMTypeRef t = cg_lanes_of(x, k->key);
  V key = REAL >> k->type & 1 ? key_of_float(k, x, t) : key_of_integer(k, x, t);
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
