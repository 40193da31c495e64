// Tangent and the inverses of sine, cosine and tangent, in doubles and rounded once: below 0.51 units of a float.
#include "codegen/math/math.h"

#include <math.h>

#define HALF_PI 1.5707963267948966

// ---- tangent: sine by cosine, and minus the inverse of that in odd quadrants
V cg_tan_quadrant(Cg *c, V r, V quadrant) {
  V z = cg_fmul(c, r, r);
  V s = POLY(c, z, 1, -1. / 6, 1. / 120, -1. / 5040, 1. / 362880, -1. / 39916800);
  V co = POLY(c, z, 1, -1. / 2, 1. / 24, -1. / 720, 1. / 40320, -1. / 3628800);
  s = cg_fmul(c, s, r);
  V odd = cg_trunc(c, quadrant, lanes_like(LLVMTypeOf(quadrant), c->i1));
  V y = cg_fdiv(c, cg_select(c, odd, cg_fneg(c, co), s), cg_select(c, odd, s, co));
  return cg_fptrunc(c, y, lanes_like(LLVMTypeOf(r), c->f32));
}

V cg_tan(Cg *c, V x) {
  V n, r = cg_reduce_trig(c, x, &n), y = cg_tan_quadrant(c, r, n);
  y = cg_trig_large(c, x, y, 1e6, TRIG_TAN);
  y = cg_select(c, cg_fcmp(c, LLVMRealOEQ, fabs_of(c, x), k(c, x, INFINITY)), k(c, x, NAN), y);
  return cg_select(c, cg_fcmp(c, LLVMRealOEQ, x, k(c, x, 0)), x, y);  // tan -0 = -0
}

// ---- the angle of the point (x, y), in doubles that are not both 0: t = min/max is in [0, 1]
static V angle(Cg *c, V y, V x) {
  V a = fabs_of(c, y), b = fabs_of(c, x), is_steep = cg_fcmp(c, LLVMRealOGT, a, b);
  V top = cg_select(c, is_steep, b, a), bottom = cg_select(c, is_steep, a, b), t = cg_fdiv(c, top, bottom);
  t = cg_select(c, cg_fcmp(c, LLVMRealOEQ, top, bottom), k(c, t, 1), t);  // of two infinities too
  t = cg_select(c, cg_fcmp(c, LLVMRealOEQ, top, k(c, t, 0)), top, t);     // and of two zeros
  V z = cg_fmul(c, t, t);
  V p = POLY(c, z, 0.99999999994123046, -0.33333331571109537, 0.19999912047513668, -0.14283980701227933,
             0.110932408116777, -0.08980237059322746, 0.072457124376269819, -0.05427899787055153, 0.034209476138616107,
             -0.016111581190195755, 0.0048508913588048803, -0.00068478467822473226);
  p = cg_fmul(c, p, t);
  p = cg_select(c, is_steep, cg_fsub(c, k(c, p, HALF_PI), p), p);
  V is_left = cg_lt(c, cast(c, x, c->i64), LLVMConstNull(LLVMTypeOf(cast(c, x, c->i64))));
  p = cg_select(c, is_left, cg_fsub(c, k(c, p, 2 * HALF_PI), p), p);  // of x = -0 too
  return with_sign(c, p, y);
}

V cg_atan2(Cg *c, V y, V x) {
  V p = cg_narrow(c, angle(c, cg_widen(c, y), cg_widen(c, x)), y);
  return cg_select(c, cg_fcmp(c, LLVMRealUNO, x, y), k(c, y, NAN), p);
}

V cg_atan(Cg *c, V x) {
  V y = cg_widen(c, x);
  return cg_narrow(c, angle(c, y, k(c, y, 1)), x);
}

// sqrt(1 - x^2): NaN beyond 1
static V other_leg(Cg *c, V x) {
  V one = k(c, x, 1), below = cg_fsub(c, one, x);
  return sqrt_of(c, cg_fmul(c, below, cg_fadd(c, one, x)));
}

V cg_asin(Cg *c, V x) {
  V y = cg_widen(c, x), leg = other_leg(c, y), p = cg_narrow(c, angle(c, y, leg), x);
  return cg_select(c, cg_fcmp(c, LLVMRealUNO, leg, leg), k(c, x, NAN), p);
}

V cg_acos(Cg *c, V x) {
  V y = cg_widen(c, x), leg = other_leg(c, y), p = cg_narrow(c, angle(c, leg, y), x);
  return cg_select(c, cg_fcmp(c, LLVMRealUNO, leg, leg), k(c, x, NAN), p);
}
