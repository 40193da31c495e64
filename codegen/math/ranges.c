// Range reductions, the polynomials behind them that several primitives share, and rounding to integers.
#include "codegen/math/math.h"

// x = n ln 2 + r with |r| <= ln 2 / 2 (a little more after rounding); gives e^r - 1. Needs |x| < 2^20.
V cg_reduce_exp(Cg *c, V x, V *n, V *whole_out) {
  const double magic = 12582912;  // 1.5 * 2^23, whose bits are EXP_BIAS
  V t = cg_fma(c, x, k(c, x, 1.4426950408889634), k(c, x, magic)), whole = cg_fsub(c, t, k(c, x, magic));
  *n = cast(c, t, c->i32);
  *whole_out = whole;
  V r = cg_fma(c, whole, k(c, x, -0.693359375), x);  // 9 bits: the product is exact
  r = cg_fma(c, whole, k(c, x, 2.12194440054690583e-4), r);
  V q = POLY(c, r, 0.49999994, 0.166665196, 0.0416682661, 0.00836886652, 0.00138211856);
  return cg_fma(c, cg_fmul(c, r, r), q, r);
}

// Of r in [-pi/4, pi/4] and a quadrant (i32): sin(r + quadrant pi/2).
V cg_sin_quadrant(Cg *c, V r, V quadrant) {
  V z = cg_fmul(c, r, r);
  V s = POLY(c, z, -0.166666672, 0.00833338033, -0.000198534937, 2.83715826e-06);
  s = cg_fma(c, cg_fmul(c, r, z), s, r);
  V q = POLY(c, z, 0.0416666679, -0.00138889824, 2.48229644e-05, -2.89734572e-07);
  V co = cg_fma(c, z, k(c, r, -0.5), k(c, r, 1));
  co = cg_fma(c, cg_fmul(c, z, z), q, co);
  LLVMTypeRef it = LLVMTypeOf(quadrant);
  V odd = cg_trunc(c, quadrant, lanes_like(it, c->i1));
  V flip = cg_shl(c, cg_and(c, quadrant, bits(c, it, 2)), bits(c, it, 30));
  return cast(c, cg_xor(c, cast(c, cg_select(c, odd, co, s), c->i32), flip), c->f32);
}

// pi/2 in 33 + 53 bits: exact products while the quotient has at most 20 bits.
V cg_reduce_trig(Cg *c, V x, V *n) {
  const double magic = 6755399441055744.0;  // 1.5 * 2^52
  LLVMTypeRef it = lanes_like(LLVMTypeOf(x), c->i32);
  V d = cg_widen(c, x), t = cg_fadd(c, cg_fmul(c, d, k(c, d, 0.63661977236758134308)), k(c, d, magic));
  V whole = cg_fsub(c, t, k(c, d, magic)), r = cg_fsub(c, d, cg_fmul(c, whole, k(c, d, 0x1.921fb544p+0)));
  *n = cg_trunc(c, cast(c, t, c->i64), it);
  return cg_fsub(c, r, cg_fmul(c, whole, k(c, d, 0x1.0b4611a626331p-34)));
}

// x 2/pi, rounded; its two low bits are those of *n
static V half_pis(Cg *c, V x, V *n) {
  V magic = k(c, x, 12582912), t = cg_fma(c, x, k(c, x, 0.63661977236758134308), magic);
  *n = cast(c, t, c->i32);
  return cg_fsub(c, t, magic);
}

// pi/2 in three floats. The first product leaves an exact difference, so that what is near a multiple of pi/2 keeps its bits; lost:
// what the second and third leave of r's.
V cg_reduce_trig_single(Cg *c, V x, V *n) {
  V whole = half_pis(c, x, n);
  V r = cg_fma(c, whole, k(c, x, -0x1.921fb6p+0), x);
  r = cg_fma(c, whole, k(c, x, 0x1.777a5cp-25), r);
  return cg_fma(c, whole, k(c, x, 0x1.ee59dap-50), r);
}

V cg_reduce_trig_exactly(Cg *c, V x, V *n, V *lost) {
  V whole = half_pis(c, x, n);
  V first = cg_fma(c, whole, k(c, x, -0x1.921fb6p+0), x);
  V second = cg_fmul(c, whole, k(c, x, -0x1.777a5cp-25)), r = cg_fsub(c, first, second);
  V rest = cg_fma(c, whole, k(c, x, -0x1.777a5cp-25), cg_fneg(c, second));
  rest = cg_fma(c, whole, k(c, x, -0x1.ee59dap-50), rest);
  *lost = cg_fsub(c, cg_fsub(c, cg_fsub(c, first, r), second), rest);
  return r;
}

V cg_floor(Cg *c, V x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  if (c->t->has_rounding) return cg_call_intrinsic(c, "llvm.floor", &t, 1, &x, 1);
  // Without a rounding instruction LLVM would call libm: through integers, where |x| < 2^23.
  V small = cg_fcmp(c, LLVMRealOLT, fabs_of(c, x), k(c, x, 0x1p23)), safe = cg_select(c, small, x, k(c, x, 0));
  V cut = cg_sitofp(c, LLVMBuildFPToSI(c->b, safe, lanes_like(t, c->i32), ""), t);
  V less = cg_fsub(c, cut, k(c, x, 1)), y = cg_select(c, cg_fcmp(c, LLVMRealOGT, cut, x), less, cut);
  return cg_select(c, small, with_sign(c, y, x), x);
}

V cg_round(Cg *c, V x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  if (c->t->has_rounding) return cg_call_intrinsic(c, "llvm.roundeven", &t, 1, &x, 1);
  V size = fabs_of(c, x), magic = k(c, x, 0x1p23), small = cg_fcmp(c, LLVMRealOLT, size, magic);
  V y = cg_fsub(c, cg_fadd(c, size, magic), magic);
  return cg_select(c, small, with_sign(c, y, x), x);
}

// ln(1 + t) for t in [0, 1].
V cg_log1p(Cg *c, V t) {
  V y = POLY(c, t, -0.499999315, 0.333304763, -0.249582469, 0.196937457, -0.153508499, 0.10673169, -0.0575940870,
             0.0201682653, -0.00331062800);
  return cg_fma(c, cg_fmul(c, t, t), y, t);
}
