// AVX-512 instructions for which LLVM has no operation. Scalars go through a vector, so that both give the
// same bits.
#include "codegen/cg.h"
#include "codegen/math/primitives.h"

enum { LANES = 16 };

static bool is_vector(LLVMTypeRef t) { return LLVMGetTypeKind(t) == LLVMVectorTypeKind; }

bool cg_has_avx512(const Cg *c, LLVMTypeRef t) {
  return c->t->has_avx512 && (t == c->f32 || t == LLVMVectorType(c->f32, LANES));
}

static V widen(Cg *c, V x) { return is_vector(LLVMTypeOf(x)) ? x : cg_splat_n(c, x, LANES); }

static V narrow(Cg *c, V y, V like) {
  return is_vector(LLVMTypeOf(like)) ? y : LLVMBuildExtractElement(c->b, y, cg_i32(c, 0), "");
}

static V all_lanes(Cg *c) { return LLVMConstInt(LLVMInt16TypeInContext(c->ctx), 0xffff, false); }
static V current_rounding(Cg *c) { return cg_i32(c, 4); }

V cg_scalef(Cg *c, V x, V exponent) {
  V wide = widen(c, x), none = LLVMConstNull(LLVMTypeOf(wide));
  V arg[] = {wide, widen(c, exponent), none, all_lanes(c), current_rounding(c)};
  return narrow(c, cg_call_intrinsic(c, "llvm.x86.avx512.mask.scalef.ps.512", NULL, 0, arg, 5), x);
}

V cg_clamp_magnitude(Cg *c, V x, double most) {
  V wide = widen(c, x), none = LLVMConstNull(LLVMTypeOf(wide)), hi = cg_splat_n(c, cg_f32(c, most), LANES);
  V how = cg_i32(c, 2 | 2 << 2);  // the smaller size; sign bit 0
  V arg[] = {wide, hi, how, none, all_lanes(c), current_rounding(c)};
  return narrow(c, cg_call_intrinsic(c, "llvm.x86.avx512.mask.range.ps.512", NULL, 0, arg, 6), x);
}

V cg_exponent(Cg *c, V x) {
  V wide = widen(c, x), none = LLVMConstNull(LLVMTypeOf(wide));
  V arg[] = {wide, none, all_lanes(c), current_rounding(c)};
  return narrow(c, cg_call_intrinsic(c, "llvm.x86.avx512.mask.getexp.ps.512", NULL, 0, arg, 4), x);
}

static V significand_of(Cg *c, V x, uint32_t interval) {
  V wide = widen(c, x), none = LLVMConstNull(LLVMTypeOf(wide));
  V how = cg_i32(c, interval | 2 << 2);  // NaN for negative numbers
  V arg[] = {wide, how, none, all_lanes(c), current_rounding(c)};
  return narrow(c, cg_call_intrinsic(c, "llvm.x86.avx512.mask.getmant.ps.512", NULL, 0, arg, 5), x);
}

V cg_significand(Cg *c, V x) { return significand_of(c, x, 3); }
V cg_significand_from_1(Cg *c, V x) { return significand_of(c, x, 0); }

static V estimate(Cg *c, const char *name, V x) {
  V wide = widen(c, x), arg[] = {wide, LLVMConstNull(LLVMTypeOf(wide)), all_lanes(c)};
  return narrow(c, cg_call_intrinsic(c, name, NULL, 0, arg, 3), x);
}

V cg_approx_reciprocal(Cg *c, V x) { return estimate(c, "llvm.x86.avx512.rcp14.ps.512", x); }
V cg_approx_rsqrt(Cg *c, V x) { return estimate(c, "llvm.x86.avx512.rsqrt14.ps.512", x); }

V cg_approx_rsqrt_half(Cg *c, V x) {
  V arg[] = {x, LLVMConstNull(LLVMTypeOf(x)), LLVMConstInt(c->i8, 0xff, false)};
  return cg_call_intrinsic(c, "llvm.x86.avx512.rsqrt14.ps.256", NULL, 0, arg, 3);
}

// The instruction gives the least i64 for everything out of range, and for NaN.
V cg_truncate(Cg *c, V x) {
  V half[2], zero = LLVMConstNull(c->vi64), top = cg_splat(c, LLVMConstInt(c->i64, INT64_MAX, false));
  for (uint32_t h = 0; h < 2; h++) {
    V part = cg_some_lanes(c, x, h * LANES / 2, LANES / 2), none = LLVMConstNull(LLVMVectorType(c->i64, LANES / 2));
    V arg[] = {part, none, LLVMConstInt(c->i8, 0xff, false), current_rounding(c)};
    half[h] = cg_call_intrinsic(c, "llvm.x86.avx512.mask.cvttps2qq.512", NULL, 0, arg, 4);
  }
  uint32_t from[LANES];
  for (uint32_t k = 0; k < LANES; k++) from[k] = k;
  V y = cg_shuffle(c, half[0], half[1], from, LANES);
  V above = cg_fcmp(c, LLVMRealOGE, x, cg_splat(c, cg_f32(c, 0x1p63)));
  V none = cg_fcmp(c, LLVMRealUNO, x, x);
  y = cg_select(c, above, top, y);
  return cg_select(c, none, zero, y);
}
