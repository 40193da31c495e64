// Sigmoid and tanh of gates: up to a third of a recurrence's time. Half the instructions of the primitives in
// math/primitives.c, at a maximum error of 2.5 and 3.0 ulp instead of 2 (2.6 and 4.1 without FMA; tests/test_rnn_gates.c).
//
// Both come from e^v = 2^n e^r, |r| <= ln 2 / 2, as a quotient that needs one division and no exponential:
//
//   tanh(r / 2) = O / E      e^r = (E + O) / (E - O)      E = 1 + c r^2,  O = r (1/2 + b r^2)
//   sigmoid(x)  = (E + O) / ((E + O) + s (E - O))         e^-x = s e^-r, s = 2^n
//   tanh(x)     = (E (1 - s) + O (1 + s)) / (E (1 + s) + O (1 - s))     of 2 x
//
// tanh keeps its relative accuracy near 0, where s = 1. Sigmoid underflows at 1.6e-38. NaN propagates.
#include "codegen/rnn/rnn.h"

static V num(Cg *c, double v) { return cg_splat(c, cg_f32(c, v)); }

// Clamps to |x| <= most; NaN propagates.
static V within(Cg *c, V x, double most) {
  V lo = num(c, -most), hi = num(c, most);
  x = cg_select(c, cg_fcmp(c, LLVMRealOLT, x, lo), lo, x);
  return cg_select(c, cg_fcmp(c, LLVMRealOGT, x, hi), hi, x);
}

// x scaled by -1 / ln 2 and by `times`, to the nearest integer n: as a float, and s = 2^n. Needs |n| <= 126.
static V nearest(Cg *c, V x, double times, V *s) {
  const double magic = 12582912;  // 1.5 * 2^23: adding it leaves the integer in the low bits
  V t = cg_fma(c, x, num(c, -1.4426950408889634 * times), num(c, magic));
  V bits = cg_shl(c, cg_bitcast(c, t, c->vi32), cg_splat(c, cg_i32(c, 23)));
  bits = cg_iadd(c, bits, cg_splat(c, cg_i32(c, 0x3f800000)));
  *s = cg_bitcast(c, bits, c->vf);
  return cg_fsub(c, t, num(c, magic));
}

// E and O / r of r = `unit` times what e is raised to.
static void halves(Cg *c, V r, double unit, V *even, V *odd) {
  V z = cg_fmul(c, r, r);
  *even = cg_fma(c, z, num(c, 0.0999784544 / (unit * unit)), num(c, 1));
  *odd = cg_fma(c, z, num(c, 0.00832260214 / (unit * unit * unit)), num(c, 0.5 / unit));
}

V cg_gate_sigmoid(Cg *c, V x) {
  V s, even, odd;
  x = within(c, x, 87);
  V n = nearest(c, x, 1, &s), r = cg_fma(c, n, num(c, 0.693359375), x);
  r = cg_fma(c, n, num(c, -2.12194440054690583e-4), r);
  halves(c, r, 1, &even, &odd);
  odd = cg_fmul(c, odd, r);
  V up = cg_fadd(c, even, odd), down = cg_fsub(c, even, odd);
  return cg_fdiv(c, up, cg_fma(c, s, down, up));
}

V cg_gate_tanh(Cg *c, V x) {
  V s, even, odd;
  x = within(c, x, 9.1);
  V n = nearest(c, x, 2, &s), r = cg_fma(c, n, num(c, 0.69314718055994531 / 2), x);
  halves(c, r, 0.5, &even, &odd);
  odd = cg_fmul(c, odd, r);
  V more = cg_fadd(c, num(c, 1), s), less = cg_fsub(c, num(c, 1), s);
  V top = cg_fma(c, even, less, cg_fmul(c, odd, more));
  return cg_fdiv(c, top, cg_fma(c, even, more, cg_fmul(c, odd, less)));
}
