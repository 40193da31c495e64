// Square roots, rounded as the instruction rounds them. The unit that divides takes 9 cycles for a root of 16 floats and
// multiply-adds go on beside it: on AVX-512 one half of a vector is made by each (docs/experiments/167-roots-by-two-units.md).
#include "codegen/math/math.h"
#include "codegen/math/primitives.h"

enum { LANES = 16, HALF = LANES / 2 };

static V half_of(Cg *c, V x, uint32_t first) { return cg_some_lanes(c, x, first, HALF); }

static void make_rare(Cg *c, V fn, void *ctx) {
  (void)ctx;
  LLVMBuildRet(c->b, sqrt_of(c, LLVMGetParam(fn, 0)));
}

// The steps are for 0, which moments of what was never updated are, and for x from LEAST on, whose residual x - s^2 is exact. Bits of
// others, infinity and NaN are further from those of LEAST.
#define LEAST 0x1p-100
static V is_rare(Cg *c, V x) {
  const uint32_t least = 0x0d800000, above = 0x7f800000;
  V b = cast(c, x, c->i32);
  LLVMTypeRef t = LLVMTypeOf(b);
  V is_far = LLVMBuildICmp(c->b, LLVMIntUGE, cg_isub(c, b, bits(c, t, least)), bits(c, t, above - least), "");
  return cg_and(c, is_far, cg_fcmp(c, LLVMRealUNE, x, k(c, x, 0)));
}

// s goes to sqrt x and h to half its inverse, from 14 bits. The last step adds the residual: of two binades, for which all
// estimates within 2^-14 were tried, every root comes out rounded.
static V by_steps(Cg *c, V x) {
  V r = cg_approx_rsqrt_half(c, at_least(c, x, LEAST)), s = cg_fmul(c, x, r), h = cg_fmul(c, r, k(c, x, 0.5));
  V off = cg_fma(c, cg_fneg(c, s), h, k(c, x, 0.5));
  s = cg_fma(c, s, off, s);
  h = cg_fma(c, h, off, h);
  return cg_fma(c, cg_fma(c, cg_fneg(c, s), s, x), h, s);
}

V cg_sqrt(Cg *c, V x) {
  if (!is_vector(LLVMTypeOf(x)) || !cg_has_avx512(c, LLVMTypeOf(x))) return sqrt_of(c, x);
  V low = half_of(c, x, 0), high = sqrt_of(c, half_of(c, x, HALF)), y = by_steps(c, low);
  y = cg_slow_path(c, "rare_sqrt", is_rare(c, low), low, low, y, make_rare, NULL);
  uint32_t from[LANES];
  for (uint32_t i = 0; i < LANES; i++) from[i] = i;
  return cg_shuffle(c, y, high, from, LANES);
}
