// Primitives in doubles, rounded once at the end: powers, and what floats would not bring below 2 units in the last place.
//
//   pow       everywhere, but for a few constant exponents: the logarithm needs 8 bits more than a float has
//   gelu      where there is no table in registers (gelu_table.c)
//   silu, softplus    without fused multiply-adds: the residuals that correct them need the exact product
//   erfc, erfinv, log2, log10, exp2, hypot    everywhere
//
// What the polynomials here miss is below 0.15 units of a float.
#include "codegen/math/math.h"
#include "codegen/math/primitives.h"

#include <math.h>

static V two_to(Cg *c, V shifted) {  // 2^n, n in the low bits of `shifted` = n + 1.5 * 2^52
  V b = cast(c, shifted, c->i64);
  LLVMTypeRef it = LLVMTypeOf(b);
  V e = LLVMBuildShl(c->b, LLVMBuildAdd(c->b, b, bits(c, it, 1023), ""), bits(c, it, 52), "");
  return cast(c, e, c->f64);
}

// ---- powers
V cg_log2_double(Cg *c, V d) {
  V b = cast(c, d, c->i64);
  LLVMTypeRef dt = LLVMTypeOf(d), it = LLVMTypeOf(b);
  const uint64_t root = 0x3fe6a09e667f3bcdu;  // sqrt 1/2
  V off = LLVMBuildSub(c->b, b, bits(c, it, root), "");
  V e = LLVMBuildAShr(c->b, off, bits(c, it, 52), "");
  e = LLVMBuildSIToFP(c->b, LLVMBuildTrunc(c->b, e, lanes_like(it, c->i32), ""), dt, "");
  V m = LLVMBuildAdd(c->b, LLVMBuildAnd(c->b, off, bits(c, it, 0xfffffffffffffu), ""), bits(c, it, root), "");
  m = cast(c, m, c->f64);
  V below = sub(c, m, k(c, m, 1)), above = add(c, m, k(c, m, 1)), s = divide(c, below, above), z = mul(c, s, s);
  V y = c->t->fast_math ? POLY(c, z, 2.8853900797881438, 0.96179884828761109, 0.57671431059460099, 0.4317378771399204)
                        : POLY(c, z, 2.8853900817900842, 0.96179667334283381, 0.57708358480099764, 0.41167272790715076,
                               0.34072995546190632);
  y = add(c, e, mul(c, s, y));
  y = pick(c, cmp(c, LLVMRealOEQ, d, k(c, d, 0)), k(c, d, -INFINITY), y);
  y = pick(c, cmp(c, LLVMRealOGE, d, k(c, d, 0)), y, k(c, d, NAN));
  return pick(c, cmp(c, LLVMRealULT, d, k(c, d, INFINITY)), y, d);
}

V cg_exp2_double(Cg *c, V t) {
  const double magic = 6755399441055744.0, l = 0.69314718055994531;
  V u = add(c, t, k(c, t, magic)), r = mul(c, sub(c, t, sub(c, u, k(c, t, magic))), k(c, t, l));
  V y = c->t->fast_math
            ? POLY(c, r, 1, 0.9999997065283236, 0.49999148276948785, 0.16667637670726299, 0.041898099351229116,
                   0.0082902794772468074)
            : POLY(c, r, 1, 1.0000000002092104, 0.5000000077315353, 0.16666665160477792, 0.041666271976044535,
                   0.0083335692464568227, 0.0013945939387109772, 0.00019767616286664976);
  return mul(c, y, two_to(c, u));
}

bool cg_is_number(V b, double *value) {
  if (!LLVMIsConstant(b) || LLVMIsUndef(b)) return false;
  uint32_t n = is_vector(LLVMTypeOf(b)) ? LLVMGetVectorSize(LLVMTypeOf(b)) : 1;
  V first = is_vector(LLVMTypeOf(b)) ? LLVMGetAggregateElement(b, 0) : b;
  for (uint32_t j = 1; j < n; j++)
    if (LLVMGetAggregateElement(b, j) != first) return false;
  if (!first || !LLVMIsAConstantFP(first)) return false;
  LLVMBool loses;
  *value = LLVMConstRealGetDouble(first, &loses);
  return true;
}

// a^b for the exponents that models are written with, by at most two roundings that do not add up to 2 units in the
// last place; no product in between is rounded to a denormal, or to infinity, where the result is none. NULL: others.
static V by_products(Cg *c, V a, double b) {
  if (b == 0) return k(c, a, 1);
  if (b == 1) return a;
  V square = mul(c, a, a), inverse = divide(c, k(c, a, 1), a);
  if (b == 2) return square;
  if (b == 3) return mul(c, square, a);
  if (b == 4) return mul(c, square, square);
  if (b == -1) return inverse;
  if (b == -2) return mul(c, inverse, inverse);
  if (b != 0.5 && b != -0.5 && b != 1.5) return NULL;
  V root = cg_primitive(c, OP_sqrt, &a), low = cmp(c, LLVMRealOEQ, a, k(c, a, -INFINITY));
  root = pick(c, low, k(c, a, INFINITY), add(c, root, k(c, a, 0)));  // of -0: 0
  if (b == 0.5) return root;
  if (b == -0.5) return divide(c, k(c, a, 1), root);
  return mul(c, fabs_of(c, a), root);
}

// The rules of C's pow: a^0 = 1^b = 1, even for NaN; a negative base wants an integer exponent.
V cg_pow(Cg *c, V a, V b) {
  double number;
  V known = cg_is_number(b, &number) ? by_products(c, a, number) : NULL;
  if (known) return known;
  V size = fabs_of(c, a), l = cg_log2_double(c, cg_widen(c, size)), bd = LLVMBuildFPExt(c->b, b, LLVMTypeOf(l), "");
  V t = at_least(c, at_most(c, mul(c, l, bd), 300), -300), zero = k(c, a, 0), one = k(c, a, 1);
  V y = LLVMBuildFPTrunc(c->b, cg_exp2_double(c, t), LLVMTypeOf(a), "");
  V half = mul(c, b, k(c, b, 0.5));  // from 2^24 on every float is even

  V is_int = cmp(c, LLVMRealOEQ, cg_floor(c, b), b), is_odd = cmp(c, LLVMRealONE, cg_floor(c, half), half);
  is_odd = LLVMBuildAnd(c->b, is_int, is_odd, "");
  V no_root = cmp(c, LLVMRealOLT, a, zero);
  no_root = LLVMBuildAnd(c->b, no_root, LLVMBuildNot(c->b, is_int, ""), "");
  no_root = LLVMBuildAnd(c->b, no_root, cmp(c, LLVMRealOGT, a, k(c, a, -INFINITY)), "");
  y = pick(c, no_root, k(c, a, NAN), pick(c, is_odd, with_sign(c, y, a), y));
  V b_inf = cmp(c, LLVMRealOEQ, fabs_of(c, b), k(c, b, INFINITY)), unit = cmp(c, LLVMRealOEQ, size, one);
  V is_one = cmp(c, LLVMRealOEQ, b, zero);
  is_one = LLVMBuildOr(c->b, is_one, cmp(c, LLVMRealOEQ, a, one), "");
  is_one = LLVMBuildOr(c->b, is_one, LLVMBuildAnd(c->b, b_inf, unit, ""), "");
  return pick(c, is_one, one, y);
}

// ---- exponentials
V cg_exp_double(Cg *c, V x) {
  const double magic = 6755399441055744.0;  // 1.5 * 2^52
  V t = cg_fma(c, x, k(c, x, 1.4426950408889634), k(c, x, magic)), n = sub(c, t, k(c, x, magic));
  V r = cg_fma(c, n, k(c, x, -0.69314718055994531), x);
  V y = POLY(c, r, 1, 1.0000000322346039, 0.49999994196071867, 0.16666430921138731, 0.041668004039173305,
             0.0083741849985335508, 0.0013843618030603335);
  return mul(c, y, two_to(c, t));
}

// The tail of the normal distribution beyond u >= 0 (Q of `top` and `bottom`), given e^(-u^2/2), off by 6e-9 of it.
static V normal_tail(Cg *c, V u, V e) {
  V top =
      POLY(c, u, 0.5000000031284346, 0.4392866845604986, 0.1839706989935726, 0.04088139727556868, 0.004153193476973245);
  V bottom =
      POLY(c, u, 1, 1.676458373798188, 1.20555660996689, 0.4714125791331618, 0.1024805790195196, 0.01041040062860353);
  return divide(c, mul(c, e, top), bottom);
}

// max(a, 0) - u P(u), u = |a|, P the tail.
V cg_gelu_via_double(Cg *c, V a) {
  V u = cg_widen(c, at_most(c, fabs_of(c, a), 15)), z = mul(c, mul(c, u, u), k(c, u, -0.5));
  V tail = mul(c, u, normal_tail(c, u, cg_exp_double(c, z)));
  // NaN and -0 stay; -infinity times 0 is NaN
  V above = pick(c, cmp(c, LLVMRealOLT, a, k(c, a, 0)), mul(c, a, k(c, a, 0)), a);
  return cg_narrow(c, sub(c, cg_widen(c, above), tail), a);
}

// erfc |a| = 2 P(sqrt 2 |a|), and 2 less that for negative a.
V cg_erfc(Cg *c, V a) {
  V x = cg_widen(c, at_most(c, fabs_of(c, a), 10.6)), e = cg_exp_double(c, neg(c, mul(c, x, x)));
  V two = k(c, x, 2), tail = mul(c, normal_tail(c, mul(c, x, k(c, x, 1.4142135623730951)), e), two);
  return cg_narrow(c, pick(c, cmp(c, LLVMRealOLT, a, k(c, a, 0)), sub(c, two, tail), tail), a);
}

V cg_silu_via_double(Cg *c, V a) {
  V x = cg_widen(c, at_least(c, a, -200)), t = cg_exp_double(c, neg(c, at_most(c, x, 200)));
  V y = cg_narrow(c, divide(c, x, add(c, t, k(c, t, 1))), a);
  return pick(c, cmp(c, LLVMRealOEQ, a, k(c, a, -INFINITY)), k(c, a, NAN), y);  // infinity times 0
}

V cg_softplus_via_double(Cg *c, V a) {
  V x = cg_widen(c, a), size = fabs_of(c, x), t = cg_exp_double(c, neg(c, at_most(c, size, 200)));
  V y = cg_log1p(c, t);
  return cg_narrow(c, add(c, y, pick(c, cmp(c, LLVMRealOGT, x, k(c, x, 0)), x, k(c, x, 0))), a);
}

// ---- logarithms and powers of constant bases
V cg_log_double(Cg *c, V d) { return mul(c, cg_log2_double(c, d), k(c, d, 0.69314718055994531)); }

// 1 + u rounds where u is small: there, a series.
V cg_log1p_double(Cg *c, V u) {
  V series = mul(c, u, POLY(c, u, 1, -0.5, 0.33333333333333333, -0.25)), y = cg_log_double(c, add(c, u, k(c, u, 1)));
  return pick(c, cmp(c, LLVMRealOLT, fabs_of(c, u), k(c, u, 0x1p-10)), series, y);
}

// log2 a times `scale`
V cg_log_scaled(Cg *c, V a, double scale) {
  V y = cg_log2_double(c, cg_widen(c, a));
  return cg_narrow(c, scale == 1 ? y : mul(c, y, k(c, y, scale)), a);
}

V cg_exp2(Cg *c, V a) { return cg_narrow(c, cg_exp2_double(c, cg_widen(c, at_least(c, at_most(c, a, 200), -200))), a); }

// As in C: infinite where one operand is, even if the other is NaN.
V cg_hypot(Cg *c, V a, V b) {
  V x = cg_widen(c, a), z = cg_widen(c, b), square = mul(c, x, x), inf = k(c, a, INFINITY);
  square = cg_fma(c, z, z, square);
  LLVMTypeRef t = LLVMTypeOf(square);
  V y = cg_narrow(c, cg_call_intrinsic(c, "llvm.sqrt", &t, 1, &square, 1), a);
  y = pick(c, cmp(c, LLVMRealOEQ, fabs_of(c, a), inf), inf, y);
  return pick(c, cmp(c, LLVMRealOEQ, fabs_of(c, b), inf), inf, y);
}

// x times a polynomial in w = -ln(1 - x^2), from w = 5 on in sqrt w: no float but +-1 has a w above 17.
V cg_erfinv(Cg *c, V a) {
  V x = cg_widen(c, a), one = k(c, x, 1), below = sub(c, one, x), w = mul(c, below, add(c, one, x));
  w = neg(c, cg_log_double(c, w));
  V t = sub(c, w, k(c, w, 2.5));
  V middle = POLY(c, t, 1.5014093511463842, 0.2466402767403145, -0.0041773182378038193, -0.0012527079277645629,
                  0.00021825147499564526, -4.9960297852061797e-06, -3.4176944223983369e-06, 4.7870168131956354e-07,
                  1.3874280738139898e-08, -1.0863841706634822e-08, 8.0621081633176478e-10, 1.2359544671870271e-10,
                  -1.9768142768011553e-11);
  LLVMTypeRef dt = LLVMTypeOf(w);
  V s = sub(c, cg_call_intrinsic(c, "llvm.sqrt", &dt, 1, &w, 1), k(c, w, 3.2));
  V tail = POLY(c, s, 3.0336365695316054, 1.0046924431376696, 0.0059735069489070518, -0.0042941601575158406,
                0.0029470411640253264, -0.0019929120112874687, 0.0010939120357984021, -0.00035963025769733493,
                -4.0641474132799759e-05, 0.0001005523950743356, -3.0254996710138416e-05);
  V y = cg_narrow(c, mul(c, x, pick(c, cmp(c, LLVMRealOLT, w, k(c, w, 5)), middle, tail)), a);
  V size = fabs_of(c, a), unit = k(c, a, 1);
  y = pick(c, cmp(c, LLVMRealOEQ, size, unit), with_sign(c, k(c, a, INFINITY), a), y);
  return pick(c, cmp(c, LLVMRealOGT, size, unit), k(c, a, NAN), y);
}
