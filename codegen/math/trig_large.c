// Sine, cosine and tangent of large arguments. The quotient by pi/2 of a float far from 0 has more bits than doubles keep: it is
// taken from the product of the significand with those 96 bits of 2/pi that decide it.
//
//   x = m 2^e, m < 2^24      x 2/pi mod 4 = m V 2^-94 mod 4,  V = 96 bits of 2/pi from the weight 2^(1 - e) down
//
// No float comes closer to a multiple of pi/2 than 2^-30: what is cut off, below 2^-70, does not matter. Few programs
// ever get here, so lanes go one by one, in a function of their own.
#include "codegen/math/math.h"

#include <math.h>

enum { FRACTION = 200, WINDOW = 96 };  // bits of 2/pi that are stored, that are used
enum { NEAR = 1000000 };               // up to here ranges.c reduces arguments

static V wide(Cg *c, V v, uint32_t bits_) { return cg_zext(c, v, LLVMIntTypeInContext(c->ctx, bits_)); }

// Of one float x = +-m 2^e with -100 <= e.
static V large_lane(Cg *c, V x, uint32_t what) {
  static const uint64_t two_over_pi[] = {0x6295993c439041feu, 0x2757d1f534ddc0dbu, 0xf9836e4e441529fcu, 0xa2u};
  LLVMTypeRef i128 = LLVMIntTypeInContext(c->ctx, 128), i256 = LLVMIntTypeInContext(c->ctx, 256);
  V b = cast(c, x, c->i32), exponent = cg_lshr(c, b, cg_i32(c, 23));
  exponent = cg_and(c, exponent, cg_i32(c, 0xff));
  V m = cg_or(c, cg_and(c, b, cg_i32(c, 0x7fffff)), cg_i32(c, 0x800000));
  V shift = cg_isub(c, cg_i32(c, FRACTION - (WINDOW - 2) + 150), exponent);  // at least 1
  V all = LLVMConstIntOfArbitraryPrecision(i256, 4, two_over_pi);
  V window = cg_trunc(c, cg_lshr(c, all, wide(c, shift, 256)), i128);
  V turns = cg_imul(c, window, wide(c, m, 128));
  turns = cg_shl(c, turns, LLVMConstInt(i128, 128 - WINDOW, false));  // quarters in the two upper bits
  V half = cg_shl(c, LLVMConstInt(i128, 1, false), LLVMConstInt(i128, 125, false));
  V quarters = cg_lshr(c, cg_iadd(c, turns, half), LLVMConstInt(i128, 126, false));
  V rest = cg_isub(c, turns, cg_shl(c, quarters, LLVMConstInt(i128, 126, false)));
  rest = cg_trunc(c, cg_ashr(c, rest, LLVMConstInt(i128, 62, false)), c->i64);
  V r = cg_sitofp(c, rest, c->f64);
  r = cg_fmul(c, r, k(c, r, 0x1p-64 * 1.5707963267948966));
  V q = cg_trunc(c, quarters, c->i32), is_negative = cg_lt(c, b, cg_i32(c, 0));
  q = cg_select(c, is_negative, LLVMBuildNeg(c->b, q, ""), q);
  r = cg_select(c, is_negative, cg_fneg(c, r), r);
  if (what == TRIG_TAN) return cg_tan_quadrant(c, r, q);
  r = cg_fptrunc(c, r, c->f32);
  return cg_sin_quadrant(c, r, cg_iadd(c, q, cg_i32(c, (int32_t)what)));
}

static V is_large(Cg *c, V x) {
  V size = fabs_of(c, x), finite = cg_fcmp(c, LLVMRealOLT, size, k(c, x, INFINITY));
  return cg_and(c, cg_fcmp(c, LLVMRealOGT, size, k(c, x, NEAR)), finite);
}

// <n x f32> far(<n x f32> x, <n x f32> y): y, but the exact result in lanes where x is large.
static void make_large(Cg *c, V fn, void *ctx) {
  uint32_t what = *(const uint32_t *)ctx;
  V x = LLVMGetParam(fn, 0), y = LLVMGetParam(fn, 1);
  uint32_t n = LLVMGetVectorSize(LLVMTypeOf(x));
  for (Loop l = cg_carry(c, cg_i64(c, 0), cg_i64(c, n), cg_i64(c, 1), &y, 1); cg_next(&l);) {
    V lane = LLVMBuildExtractElement(c->b, x, l.i, ""), old = LLVMBuildExtractElement(c->b, y, l.i, "");
    V z = cg_select(c, is_large(c, lane), large_lane(c, lane, what), old);
    y = LLVMBuildInsertElement(c->b, y, z, l.i, "");
  }
  LLVMBuildRet(c->b, y);
}

V cg_trig_large(Cg *c, V x, V y, uint32_t what) {
  const char *name = rt_printf(c->mem, "far_sine.%u", what);
  V beyond = cg_fcmp(c, LLVMRealOGT, fabs_of(c, x), k(c, x, NEAR));  // infinities, too: one test is shorter
  return cg_slow_path(c, name, beyond, x, y, y, make_large, &what);
}
