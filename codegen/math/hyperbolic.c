// Hyperbolic functions and their inverses, e^x - 1 and, without fused multiply-adds, ln(1 + x), in doubles and rounded once: below 0.6 units of a float.
// Where exponentials or logarithms would cancel, series.
#include "codegen/math/math.h"

#include <math.h>

static V small(Cg *c, V d, double below) { return cg_fcmp(c, LLVMRealOLT, fabs_of(c, d), k(c, d, below)); }

V cg_expm1(Cg *c, V x) {
  V d = cg_widen(c, at_least(c, at_most(c, x, 104), -104)), e = cg_exp_double(c, d);
  V series = POLY(c, d, 1, 1. / 2, 1. / 6, 1. / 24, 1. / 120, 1. / 720, 1. / 5040, 1. / 40320, 1. / 362880);
  return cg_narrow(c, cg_select(c, small(c, d, 0.5), cg_fmul(c, series, d), cg_fsub(c, e, k(c, e, 1))), x);
}

V cg_ln1p_via_double(Cg *c, V x) { return cg_narrow(c, cg_log1p_double(c, cg_widen(c, x)), x); }

V cg_sinh(Cg *c, V x) {
  V d = cg_widen(c, at_least(c, at_most(c, x, 104), -104)), e = cg_exp_double(c, d), z = cg_fmul(c, d, d);
  V series = POLY(c, z, 1, 1. / 6, 1. / 120, 1. / 5040, 1. / 362880, 1. / 39916800);
  V y = cg_fmul(c, cg_fsub(c, e, cg_fdiv(c, k(c, e, 1), e)), k(c, e, 0.5));
  return cg_narrow(c, cg_select(c, small(c, d, 1), cg_fmul(c, series, d), y), x);
}

V cg_cosh(Cg *c, V x) {
  V d = cg_widen(c, at_most(c, fabs_of(c, x), 104)), e = cg_exp_double(c, d);
  return cg_narrow(c, cg_fmul(c, cg_fadd(c, e, cg_fdiv(c, k(c, e, 1), e)), k(c, e, 0.5)), x);
}

// ln(u + sqrt(u^2 + 1)) = ln(1 + (u + u^2 / (1 + sqrt(u^2 + 1)))); infinite u stays
V cg_asinh(Cg *c, V x) {
  V u = cg_widen(c, fabs_of(c, x)), z = cg_fmul(c, u, u), one = k(c, u, 1);
  V bottom = cg_fadd(c, one, sqrt_of(c, cg_fadd(c, z, one)));
  V y = cg_log1p_double(c, cg_fadd(c, u, cg_fdiv(c, z, bottom)));
  y = cg_select(c, cg_fcmp(c, LLVMRealOEQ, u, k(c, u, INFINITY)), u, y);
  return with_sign(c, cg_narrow(c, y, x), x);
}

// ln(x + sqrt(x^2 - 1)) = ln(1 + (t + sqrt(2 t + t^2))), t = x - 1
V cg_acosh(Cg *c, V x) {
  V d = cg_widen(c, x), t = cg_fsub(c, d, k(c, d, 1)), leg = sqrt_of(c, cg_fmul(c, t, cg_fadd(c, t, k(c, t, 2))));
  V y = cg_narrow(c, cg_log1p_double(c, cg_fadd(c, t, leg)), x);
  return cg_select(c, cg_fcmp(c, LLVMRealOLT, x, k(c, x, 1)), k(c, x, NAN), y);
}

// ln((1 + x) / (1 - x)) / 2 = ln(1 + 2 u / (1 - u)) / 2 of u = |x|
V cg_atanh(Cg *c, V x) {
  V u = cg_widen(c, fabs_of(c, x)), t = cg_fdiv(c, cg_fadd(c, u, u), cg_fsub(c, k(c, u, 1), u));
  V y = cg_fmul(c, cg_log1p_double(c, t), k(c, u, 0.5));
  y = cg_select(c, cg_fcmp(c, LLVMRealOGT, u, k(c, u, 1)), k(c, u, NAN), y);
  return with_sign(c, cg_narrow(c, y, x), x);
}
