// a - b trunc(a / b), exactly. In doubles, quotient and product are exact for quotients below 2^27. Larger
// ones are reduced 27 bits at a time by multiples of b: a slow path for few operands.
//
//   fmod(1e30, 3):  1e30 - 3 2^81 q2 - 3 2^54 q1 - 3 2^27 q0 - 3 q
#include "codegen/math/math.h"

#include <math.h>

enum { BITS = 27, STEPS = 11 };  // the largest quotient of two floats is below 2^277

// a - b trunc(a / b) for doubles that stem from floats, |a / b| < 2^27.
static V reduce(Cg *c, V a, V b) {
  LLVMTypeRef t = LLVMTypeOf(a), it = lanes_like(t, c->i32);
  V q = cg_fdiv(c, a, b), is_good = cg_fcmp(c, LLVMRealOLT, fabs_of(c, q), k(c, q, 0x1p30));
  q = LLVMBuildFPToSI(c->b, cg_select(c, is_good, q, k(c, q, 0)), it, "");
  q = cg_sitofp(c, q, t);
  return cg_fma(c, cg_fneg(c, q), b, a);
}

// <n x f32> long_fmod(<n x f32> a, <n x f32> b)
static void make_long(Cg *c, V fn, void *ctx) {
  (void)ctx;
  V b = cg_widen(c, LLVMGetParam(fn, 1)), step = LLVMConstReal(c->f64, ldexp(1, BITS * (STEPS - 1)));
  V at[] = {cg_widen(c, LLVMGetParam(fn, 0)), step};
  for (Loop l = cg_carry(c, cg_i64(c, 0), cg_i64(c, STEPS), cg_i64(c, 1), at, 2); cg_next(&l);) {
    at[0] = reduce(c, at[0], cg_fmul(c, b, spread(c, LLVMTypeOf(b), at[1])));
    at[1] = cg_fmul(c, at[1], k(c, at[1], ldexp(1, -BITS)));
  }
  LLVMBuildRet(c->b, cg_narrow(c, at[0], LLVMGetParam(fn, 0)));
}

V cg_fmod(Cg *c, V a, V b) {
  V y = cg_narrow(c, reduce(c, cg_widen(c, a), cg_widen(c, b)), a), size = fabs_of(c, b), inf = k(c, a, INFINITY);
  V is_long = cg_fcmp(c, LLVMRealOGE, fabs_of(c, a), cg_fmul(c, size, k(c, b, 0x1p27)));
  y = cg_slow_path(c, "long_fmod", is_long, a, b, y, make_long, NULL);
  y = with_sign(c, y, a);
  y = cg_select(c, cg_fcmp(c, LLVMRealOEQ, size, inf), a, y);
  V has_none = cg_or(c, cg_fcmp(c, LLVMRealUEQ, b, k(c, b, 0)), cg_fcmp(c, LLVMRealUEQ, fabs_of(c, a), inf));
  return cg_select(c, has_none, k(c, a, NAN), y);
}
