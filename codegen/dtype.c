// Dtypes in compiled code: the type of an element in memory, and its conversion to and from a float that is computed
// with. Every conversion that is not between integers goes through such a float. There is a row for each number of
// ir/dtypes.def; kernels that only move elements ask for the type and need no more.
#include "codegen/cg.h"
#include "codegen/math/primitives.h"

#include <string.h>

typedef struct {  // of scalars and vectors
  LLVMTypeRef (*elem)(Cg *c);
  V (*to_float)(Cg *c, V x, LLVMTypeRef real);  // to elements of `real`, or to shorter floats that hold them exactly
  V (*from_float)(Cg *c, V x);
} Storage;

// ---- floats that are computed with
static V as_float(Cg *c, V x, LLVMTypeRef elem) {
  LLVMTypeRef from = LLVMTypeOf(x), to = cg_lanes_of(x, elem);
  if (from == to) return x;
  return elem == c->f64 ? cg_fpext(c, x, to) : cg_fptrunc(c, x, to);
}

static LLVMTypeRef elem_f32(Cg *c) { return c->f32; }
static V f32_of_float(Cg *c, V x) { return as_float(c, x, c->f32); }

// ---- i64: cut toward zero, saturated, 0 for NaN
static LLVMTypeRef elem_i64(Cg *c) { return c->i64; }
static V float_of_signed(Cg *c, V x, LLVMTypeRef real) { return cg_sitofp(c, x, cg_lanes_of(x, real)); }
static V i64_of_float(Cg *c, V x) {
  LLVMTypeRef over[] = {cg_lanes_of(x, c->i64), LLVMTypeOf(x)};
  if (LLVMGetTypeKind(over[1]) == LLVMVectorTypeKind && cg_has_avx512(c, over[1])) return cg_truncate(c, x);
  return cg_call_intrinsic(c, "llvm.fptosi.sat", over, 2, &x, 1);
}

// ---- i32 and u8, likewise
static LLVMTypeRef elem_i32(Cg *c) { return c->i32; }
static V saturated(Cg *c, const char *intrinsic, V x, LLVMTypeRef elem) {
  LLVMTypeRef over[] = {cg_lanes_of(x, elem), LLVMTypeOf(x)};
  return cg_call_intrinsic(c, intrinsic, over, 2, &x, 1);
}
static V i32_of_float(Cg *c, V x) { return saturated(c, "llvm.fptosi.sat", x, c->i32); }

static LLVMTypeRef elem_byte(Cg *c) { return c->i8; }
static V float_of_u8(Cg *c, V x, LLVMTypeRef real) { return LLVMBuildUIToFP(c->b, x, cg_lanes_of(x, real), ""); }
static V u8_of_float(Cg *c, V x) {  // by i32: LLVM takes vectors to saturated bytes lane by lane
  V least = LLVMConstNull(LLVMTypeOf(x)), most = cg_number(c, DT_F32, LLVMTypeOf(x), 255);
  x = cg_select(c, cg_fcmp(c, LLVMRealOGT, x, least), x, least);  // NaN: 0
  x = cg_select(c, cg_fcmp(c, LLVMRealOLT, x, most), x, most);
  return cg_trunc(c, LLVMBuildFPToSI(c->b, x, cg_lanes_of(x, c->i32), ""), cg_lanes_of(x, elem_byte(c)));
}

// ---- bool: a byte. Of floats by their bits, which a flush of denormals does not see: a denormal and NaN are true.
static V has_bits(Cg *c, V x) { return cg_ne(c, x, LLVMConstNull(LLVMTypeOf(x))); }
static V bool_of(Cg *c, V set) { return cg_zext(c, set, cg_lanes_of(set, elem_byte(c))); }
static V float_of_bool(Cg *c, V x, LLVMTypeRef real) { return float_of_u8(c, has_bits(c, x), real); }
static V bool_of_float(Cg *c, V x) {
  bool is_double = cg_lanes_of(x, c->f64) == LLVMTypeOf(x);
  V magnitude = LLVMConstInt(is_double ? c->i64 : c->i32, UINT64_MAX >> (is_double ? 1 : 33), false);
  V w = cg_bitcast(c, x, cg_lanes_of(x, LLVMTypeOf(magnitude)));
  return bool_of(c, has_bits(c, cg_and(c, w, cg_splat_like(c, x, magnitude))));
}

// ---- f16 and bf16: their bits
static LLVMTypeRef elem_half(Cg *c) { return LLVMInt16TypeInContext(c->ctx); }
static V words_of(Cg *c, V x) { return cg_bitcast(c, x, cg_lanes_of(x, c->i32)); }
static V floats_of(Cg *c, V x) { return cg_bitcast(c, x, cg_lanes_of(x, c->f32)); }
static V word(V like, uint32_t bits) {
  LLVMTypeRef t = LLVMTypeOf(like);
  if (LLVMGetTypeKind(t) != LLVMVectorTypeKind) return LLVMConstInt(t, bits, false);
  V lane[64], one = LLVMConstInt(LLVMGetElementType(t), bits, false);
  for (uint32_t k = 0; k < LLVMGetVectorSize(t); k++) lane[k] = one;
  return LLVMConstVector(lane, LLVMGetVectorSize(t));
}
static V shr(Cg *c, V x, uint32_t n) { return cg_lshr(c, x, word(x, n)); }
static V shl(Cg *c, V x, uint32_t n) { return cg_shl(c, x, word(x, n)); }
static V masked(Cg *c, V x, uint32_t bits) { return cg_and(c, x, word(x, bits)); }
static V plus(Cg *c, V x, uint32_t n) { return cg_iadd(c, x, word(x, n)); }
static V is_at_least(Cg *c, V x, uint32_t n) { return cg_icmp(c, LLVMIntUGE, x, word(x, n)); }
static V pick(Cg *c, V cond, V a, V b) { return cg_select(c, cond, a, b); }
static V narrowed(Cg *c, V x) { return cg_trunc(c, x, cg_lanes_of(x, elem_half(c))); }
static V widened(Cg *c, V x) { return cg_zext(c, x, cg_lanes_of(x, c->i32)); }

// x with its n low bits rounded away: to nearest, of two the even one.
static V rounded_off(Cg *c, V x, uint32_t n) {
  V odd = masked(c, shr(c, x, n), 1), half = plus(c, x, (UINT32_C(1) << (n - 1)) - 1);
  return shr(c, cg_iadd(c, half, odd), n);
}

static V float_of_bf16(Cg *c, V x, LLVMTypeRef real) { return (void)real, floats_of(c, shl(c, widened(c, x), 16)); }
static V bf16_of_float(Cg *c, V x) {
  V w = words_of(c, f32_of_float(c, x)), nan = cg_or(c, shr(c, w, 16), word(w, 0x40));
  return narrowed(c, pick(c, is_at_least(c, masked(c, w, 0x7fffffff), 0x7f800001), nan, rounded_off(c, w, 16)));
}

// An instruction converts; where there is none LLVM would call a function, for each lane.
static bool has_f16(const Cg *c) {
  return strstr(c->t->features, "+f16c") || (c->t->triple && !strncmp(c->t->triple, "aarch64", 7));
}
static LLVMTypeRef halves_like(Cg *c, V x) { return cg_lanes_of(x, LLVMHalfTypeInContext(c->ctx)); }

// What is computed of x in floats stays so: else LLVM makes extremes in halves where it can, of which x86 has none, by calls of fminf.
static V kept_wide(Cg *c, V x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  return cg_call_intrinsic(c, "llvm.arithmetic.fence", &type, 1, &x, 1);
}

// Denormal halves: their fraction stands behind a 1 that is taken off as a number.
static V float_of_f16(Cg *c, V x, LLVMTypeRef real) {
  (void)real;
  if (has_f16(c)) {
    V h = cg_bitcast(c, x, halves_like(c, x));
    return kept_wide(c, cg_fpext(c, h, cg_lanes_of(x, c->f32)));
  }
  V w = widened(c, x), a = masked(c, w, 0x7fff), sign = shl(c, masked(c, w, 0x8000), 16);
  V up = plus(c, shl(c, a, 13), UINT32_C(112) << 23);
  V one = word(w, UINT32_C(113) << 23);
  V small = cg_fsub(c, floats_of(c, plus(c, up, UINT32_C(1) << 23)), floats_of(c, one));
  V y = pick(c, is_at_least(c, a, 0x7c00), plus(c, up, UINT32_C(112) << 23), up);
  y = pick(c, is_at_least(c, a, 0x400), y, words_of(c, small));
  return floats_of(c, cg_or(c, y, sign));
}

// What becomes a denormal is rounded by the sum with a number whose last bit is worth 2^-24.
static V f16_of_float(Cg *c, V real) {
  V x = f32_of_float(c, real);
  if (has_f16(c)) {
    V h = cg_fptrunc(c, x, halves_like(c, x));
    return cg_bitcast(c, h, cg_lanes_of(x, elem_half(c)));
  }
  V w = words_of(c, x), a = masked(c, w, 0x7fffffff), sign = shr(c, masked(c, w, 0x80000000), 16);
  V half = word(w, UINT32_C(126) << 23), sum = cg_fadd(c, floats_of(c, a), floats_of(c, half));
  V small = cg_isub(c, words_of(c, sum), half);
  V y = pick(c, is_at_least(c, a, 0x38800000), rounded_off(c, plus(c, a, 0xc8000000), 13), small);
  y = pick(c, is_at_least(c, a, 0x47800000), word(w, 0x7c00), y);
  y = pick(c, is_at_least(c, a, 0x7f800001), word(w, 0x7e00), y);
  return narrowed(c, cg_or(c, y, sign));
}

_Static_assert(N_DTYPES == 9, "a new dtype needs a row here, whose conversions are instructions and call no function");
static const Storage storage[N_DTYPES] = {
    [DT_F32] = {elem_f32, as_float, f32_of_float},         [DT_I64] = {elem_i64, float_of_signed, i64_of_float},
    [DT_I32] = {elem_i32, float_of_signed, i32_of_float},  [DT_U8] = {elem_byte, float_of_u8, u8_of_float},
    [DT_BOOL] = {elem_byte, float_of_bool, bool_of_float}, [DT_F16] = {elem_half, float_of_f16, f16_of_float},
    [DT_BF16] = {elem_half, float_of_bf16, bf16_of_float},
};

LLVMTypeRef cg_elem_type(Cg *c, DType t) { return storage[t].elem(c); }

LLVMTypeRef cg_vector_type(Cg *c, DType t, uint32_t lanes) {
  return lanes == 1 ? cg_elem_type(c, t) : LLVMVectorType(cg_elem_type(c, t), lanes);
}

// Whole numbers keep their low bits.
static V convert_whole(Cg *c, DType from, DType to, V x) {
  if (ir_dtype_kind[to] == DTYPE_BOOL) return bool_of(c, has_bits(c, x));
  if (ir_dtype_kind[from] == DTYPE_BOOL) x = bool_of(c, has_bits(c, x));
  LLVMTypeRef t = cg_lanes_of(x, cg_elem_type(c, to));
  if (ir_dtype_bytes[to] <= ir_dtype_bytes[from]) return LLVMBuildTruncOrBitCast(c->b, x, t, "");
  return SIGNED >> from & 1 ? cg_sext(c, x, t) : cg_zext(c, x, t);
}

// The wider one of those that are computed with, or f32.
static LLVMTypeRef real_between(Cg *c, DType a, DType b) {
  DType t = REAL >> a & 1 ? a : DT_F32;
  return cg_elem_type(c, REAL >> b & 1 && ir_dtype_bytes[b] > ir_dtype_bytes[t] ? b : t);
}

V cg_convert(Cg *c, DType from, DType to, V x) {
  bool is_whole = ir_dtype_kind[from] != DTYPE_FLOAT && ir_dtype_kind[to] != DTYPE_FLOAT;
  if (from == to) return x;
  if (is_whole) return convert_whole(c, from, to, x);
  return storage[to].from_float(c, storage[from].to_float(c, x, real_between(c, from, to)));
}

V cg_is_set(Cg *c, DType t, V x) {
  if (ir_dtype_kind[t] != DTYPE_FLOAT) return has_bits(c, x);
  V number = REAL >> t & 1 ? x : cg_convert(c, t, DT_F32, x);
  return cg_fcmp(c, LLVMRealUNE, number, LLVMConstNull(LLVMTypeOf(number)));
}
