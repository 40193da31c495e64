// Tangent and the inverses of sine, cosine and tangent: with fused multiply-adds in floats, whose last roundings are made good, so
// that they stay about a unit from the result; else, and atan2, in doubles and rounded once, below 0.51 units.
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

// tan(r + lost) by a polynomial: t + rest. Its inverse by one Newton step, which takes `rest` up.
static V tan_single(Cg *c, V x) {
  V n, lost, r = cg_reduce_trig_exactly(c, x, &n, &lost), z = cg_fmul(c, r, r);
  V p = POLY(c, z, 0.333333283662796, 0.13333560526371002, 0.053933028131723404, 0.02213094010949135,
             0.007805357687175274, 0.00602665776386857, -0.001644306001253426, 0.002470198553055525);
  lost = cg_fma(c, cg_fmul(c, lost, z), k(c, z, 1.62), lost);  // times the derivative, roughly
  V more = cg_fma(c, cg_fmul(c, r, z), p, lost), t = cg_fadd(c, r, more);
  V rest = cg_fadd(c, cg_fsub(c, r, t), more), inverse = cg_fdiv(c, k(c, t, -1), t);
  V off = cg_fma(c, inverse, t, k(c, t, 1));
  off = cg_fma(c, inverse, rest, off);
  V odd = cg_trunc(c, n, lanes_like(LLVMTypeOf(n), c->i1));
  return cg_select(c, odd, cg_fma(c, inverse, off, inverse), t);
}

static V tan_double(Cg *c, V x) {
  V n, r = cg_reduce_trig(c, x, &n), y = cg_tan_quadrant(c, r, n);
  return cg_select(c, cg_fcmp(c, LLVMRealOEQ, fabs_of(c, x), k(c, x, INFINITY)), k(c, x, NAN), y);
}

V cg_tan(Cg *c, V x) {
  V y = cg_trig_large(c, x, has_fma(c) ? tan_single(c, x) : tan_double(c, x), TRIG_TAN);
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

// ---- the inverses in floats, with fused multiply-adds. pi/2 and pi are two floats each
#define HALF_PI_LOW -4.3711388286737929e-08

// hi + lo - (a + b), rounded once; |a| <= hi
static V less(Cg *c, double hi, double lo, V a, V b) {
  V y = cg_fsub(c, k(c, a, hi), a), lost = cg_fsub(c, cg_fsub(c, k(c, a, hi), y), a);
  return cg_fadd(c, y, cg_fsub(c, cg_fadd(c, lost, k(c, a, lo)), b));
}

// t = |x|, or 1/|x| from 1 on, where 1/|x| is t + (1 - t |x|) t
static V atan_single(Cg *c, V x) {
  V a = at_most(c, fabs_of(c, x), 0x1p60), is_far = cg_fcmp(c, LLVMRealOGT, a, k(c, a, 1));
  V t = cg_select(c, is_far, cg_fdiv(c, k(c, a, 1), a), a), z = cg_fmul(c, t, t), tz = cg_fmul(c, t, z);
  V p = POLY(c, z, -0.33333298563957214, 0.1999852955341339, -0.1426401436328888, 0.10950861126184464,
             -0.08399207890033722, 0.05787887051701546, -0.0310935340821743, 0.010866271331906319,
             -0.0017821441870182753);
  V off = cg_fma(c, cg_fneg(c, t), a, k(c, a, 1));
  V rest = cg_fma(c, tz, p, cg_fmul(c, off, cg_fmul(c, t, k(c, t, 0.55))));  // 0.55: the derivative, roughly
  V near_0 = cg_fma(c, tz, p, t), far = less(c, (float)HALF_PI, HALF_PI_LOW, t, rest);
  return with_sign(c, cg_select(c, is_far, far, near_0), x);
}

V cg_atan(Cg *c, V x) {
  if (has_fma(c)) return atan_single(c, x);
  V y = cg_widen(c, x);
  return cg_narrow(c, angle(c, y, k(c, y, 1)), x);
}

// sqrt(1 - x^2): NaN beyond 1
static V other_leg(Cg *c, V x) {
  V one = k(c, x, 1), below = cg_fsub(c, one, x);
  return sqrt_of(c, cg_fmul(c, below, cg_fadd(c, one, x)));
}

// 1 / sqrt |x|, off by 0.2 % of it, of a normal number; of 0 some number. No denormal comes out where x is below 0.
static V rough_rsqrt(Cg *c, V x) {
  V b = cast(c, fabs_of(c, x), c->i32), half = cg_ashr(c, b, bits(c, LLVMTypeOf(b), 1));
  V y = cast(c, cg_isub(c, bits(c, LLVMTypeOf(b), 0x5f375a86), half), c->f32);
  V z = cg_fmul(c, cg_fmul(c, x, k(c, x, -0.5)), y);
  return cg_fmul(c, y, cg_fma(c, z, y, k(c, x, 1.5)));
}

// Up to 1/2: asin |x| = s + s z p with s = |x|, z = s^2. Beyond: pi/2 less twice that of s = sqrt z, z = (1 - |x|) / 2, which is
// exact; `lost` is twice what s is below that root. s is NaN beyond 1.
typedef struct {
  V is_far, s, sz, p, lost;
} Arc;

static Arc arc(Cg *c, V x) {
  V a = fabs_of(c, x), is_far = cg_fcmp(c, LLVMRealOGT, a, k(c, a, 0.5));
  V far = cg_fma(c, a, k(c, a, -0.5), k(c, a, 0.5)), z = cg_select(c, is_far, far, cg_fmul(c, a, a));
  V s = cg_select(c, is_far, sqrt_of(c, far), a), off = cg_fma(c, cg_fneg(c, s), s, far);
  V p = POLY(c, z, 0.16666659712791443, 0.07500521838665009, 0.04451335221529007, 0.0318395234644413,
             0.01431217323988676, 0.03770212084054947);
  V sz = cg_fmul(c, s, z), lost = cg_fmul(c, off, rough_rsqrt(c, far));
  return (Arc){is_far, s, sz, p, lost};
}

static V asin_single(Cg *c, V x) {
  Arc r = arc(c, x);
  V two = k(c, x, 2), rest = cg_fma(c, cg_fmul(c, r.sz, r.p), two, r.lost);
  V far = less(c, (float)HALF_PI, HALF_PI_LOW, cg_fmul(c, r.s, two), rest);
  return with_sign(c, cg_select(c, r.is_far, far, cg_fma(c, r.sz, r.p, r.s)), x);
}

// pi/2 less asin x; beyond 1/2 twice the smaller angle, or pi less that.
static V acos_single(Cg *c, V x) {
  Arc r = arc(c, x);
  V two = k(c, x, 2), rest = cg_fmul(c, r.sz, r.p), twice = cg_fmul(c, r.s, two), more = cg_fma(c, rest, two, r.lost);
  V near_pi = less(c, (float)(2 * HALF_PI), 2 * HALF_PI_LOW, twice, more), near_0 = cg_fadd(c, twice, more);
  V far = cg_select(c, cg_fcmp(c, LLVMRealOLT, x, k(c, x, 0)), near_pi, near_0);
  V middle = less(c, (float)HALF_PI, HALF_PI_LOW, x, with_sign(c, rest, x));
  return cg_select(c, r.is_far, far, middle);
}

V cg_asin(Cg *c, V x) {
  if (has_fma(c)) return asin_single(c, x);
  V y = cg_widen(c, x), leg = other_leg(c, y), p = cg_narrow(c, angle(c, y, leg), x);
  return cg_select(c, cg_fcmp(c, LLVMRealUNO, leg, leg), k(c, x, NAN), p);
}

V cg_acos(Cg *c, V x) {
  if (has_fma(c)) return acos_single(c, x);
  V y = cg_widen(c, x), leg = other_leg(c, y), p = cg_narrow(c, angle(c, leg, y), x);
  return cg_select(c, cg_fcmp(c, LLVMRealUNO, leg, leg), k(c, x, NAN), p);
}
