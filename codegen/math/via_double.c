// Primitives in doubles, rounded once at the end: powers, and those that floats would not bring below 2 ulp.
//
//   pow       everywhere, but for a few constant exponents: the logarithm needs 8 bits more than a float has
//   gelu      where there is no table in registers (gelu_table.c)
//   silu, softplus    without fused multiply-adds: the residuals that correct them need the exact product
//   erfc, hypot    everywhere; log2, log10, erfinv without fused multiply-adds
//
// What the polynomials here miss is below 0.15 units of a float.
#include "codegen/math/math.h"
#include "codegen/math/primitives.h"

#include <math.h>

static V two_to(Cg *c, V shifted) {  // 2^n, n in the low bits of `shifted` = n + 1.5 * 2^52
  V b = cast(c, shifted, c->i64);
  LLVMTypeRef it = LLVMTypeOf(b);
  V e = cg_shl(c, cg_iadd(c, b, bits(c, it, 1023)), bits(c, it, 52));
  return cast(c, e, c->f64);
}

// ---- powers
V cg_log_parts(Cg *c, V d, V *e) {
  V b = cast(c, d, c->i64);
  LLVMTypeRef dt = LLVMTypeOf(d), it = LLVMTypeOf(b);
  const uint64_t root = 0x3fe6a09e667f3bcdu;  // sqrt 1/2
  V off = cg_isub(c, b, bits(c, it, root));
  *e = cg_ashr(c, off, bits(c, it, 52));
  *e = cg_sitofp(c, cg_trunc(c, *e, lanes_like(it, c->i32)), dt);
  V m = cg_iadd(c, cg_and(c, off, bits(c, it, 0xfffffffffffffu)), bits(c, it, root));
  m = cast(c, m, c->f64);
  V below = cg_fsub(c, m, k(c, m, 1)), above = cg_fadd(c, m, k(c, m, 1));
  return cg_fdiv(c, below, above);
}

V cg_log2_double(Cg *c, V d) {
  V e, s = cg_log_parts(c, d, &e), z = cg_fmul(c, s, s);
  V y = c->t->fast_math ? POLY(c, z, 2.8853900797881438, 0.96179884828761109, 0.57671431059460099, 0.4317378771399204)
                        : POLY(c, z, 2.8853900817900842, 0.96179667334283381, 0.57708358480099764, 0.41167272790715076,
                               0.34072995546190632);
  y = cg_fadd(c, e, cg_fmul(c, s, y));
  y = cg_select(c, cg_fcmp(c, LLVMRealOEQ, d, k(c, d, 0)), k(c, d, -INFINITY), y);
  y = cg_select(c, cg_fcmp(c, LLVMRealOGE, d, k(c, d, 0)), y, k(c, d, NAN));
  return cg_select(c, cg_fcmp(c, LLVMRealULT, d, k(c, d, INFINITY)), y, d);
}

V cg_exp2_double(Cg *c, V t) {
  const double magic = 6755399441055744.0, l = 0.69314718055994531;
  V u = cg_fadd(c, t, k(c, t, magic)), r = cg_fmul(c, cg_fsub(c, t, cg_fsub(c, u, k(c, t, magic))), k(c, t, l));
  V y = c->t->fast_math
            ? POLY(c, r, 1, 0.9999997065283236, 0.49999148276948785, 0.16667637670726299, 0.041898099351229116,
                   0.0082902794772468074)
            : POLY(c, r, 1, 1.0000000002092104, 0.5000000077315353, 0.16666665160477792, 0.041666271976044535,
                   0.0083335692464568227, 0.0013945939387109772, 0.00019767616286664976);
  return cg_fmul(c, y, two_to(c, u));
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
  V square = cg_fmul(c, a, a), inverse = cg_fdiv(c, k(c, a, 1), a);
  if (b == 2) return square;
  if (b == 3) return cg_fmul(c, square, a);
  if (b == 4) return cg_fmul(c, square, square);
  if (b == -1) return inverse;
  if (b == -2) return cg_fmul(c, inverse, inverse);
  if (b != 0.5 && b != -0.5 && b != 1.5) return NULL;
  V root = sqrt_of(c, a), low = cg_fcmp(c, LLVMRealOEQ, a, k(c, a, -INFINITY));
  root = cg_select(c, low, k(c, a, INFINITY), cg_fadd(c, root, k(c, a, 0)));  // of -0: 0
  if (b == 0.5) return root;
  if (b == -0.5) return cg_fdiv(c, k(c, a, 1), root);
  return cg_fmul(c, fabs_of(c, a), root);
}

// The rules of C's pow: a^0 = 1^b = 1, even for NaN; a negative base wants an integer exponent.
V cg_pow(Cg *c, V a, V b) {
  double number;
  V known = cg_is_number(b, &number) ? by_products(c, a, number) : NULL;
  if (known) return known;
  V size = fabs_of(c, a), l = cg_log2_double(c, cg_widen(c, size)), bd = cg_fpext(c, b, LLVMTypeOf(l));
  V t = at_least(c, at_most(c, cg_fmul(c, l, bd), 300), -300), zero = k(c, a, 0), one = k(c, a, 1);
  V y = cg_fptrunc(c, cg_exp2_double(c, t), LLVMTypeOf(a));
  V half = cg_fmul(c, b, k(c, b, 0.5));  // from 2^24 on every float is even

  V is_int = cg_fcmp(c, LLVMRealOEQ, cg_floor(c, b), b), is_odd = cg_fcmp(c, LLVMRealONE, cg_floor(c, half), half);
  is_odd = cg_and(c, is_int, is_odd);
  V no_root = cg_fcmp(c, LLVMRealOLT, a, zero);
  no_root = cg_and(c, no_root, cg_not(c, is_int));
  no_root = cg_and(c, no_root, cg_fcmp(c, LLVMRealOGT, a, k(c, a, -INFINITY)));
  y = cg_select(c, no_root, k(c, a, NAN), cg_select(c, is_odd, with_sign(c, y, a), y));
  V b_inf = cg_fcmp(c, LLVMRealOEQ, fabs_of(c, b), k(c, b, INFINITY)), unit = cg_fcmp(c, LLVMRealOEQ, size, one);
  V is_one = cg_fcmp(c, LLVMRealOEQ, b, zero);
  is_one = cg_or(c, is_one, cg_fcmp(c, LLVMRealOEQ, a, one));
  is_one = cg_or(c, is_one, cg_and(c, b_inf, unit));
  return cg_select(c, is_one, one, y);
}

// ---- exponentials
V cg_exp_double(Cg *c, V x) {
  const double magic = 6755399441055744.0;  // 1.5 * 2^52
  V t = cg_fma(c, x, k(c, x, 1.4426950408889634), k(c, x, magic)), n = cg_fsub(c, t, k(c, x, magic));
  V r = cg_fma(c, n, k(c, x, -0.69314718055994531), x);
  V y = POLY(c, r, 1, 1.0000000322346039, 0.49999994196071867, 0.16666430921138731, 0.041668004039173305,
             0.0083741849985335508, 0.0013843618030603335);
  return cg_fmul(c, y, two_to(c, t));
}

// The tail of the normal distribution beyond u >= 0 (Q of `top` and `bottom`), given e^(-u^2/2), off by 6e-9 of it.
static V normal_tail(Cg *c, V u, V e) {
  V top =
      POLY(c, u, 0.5000000031284346, 0.4392866845604986, 0.1839706989935726, 0.04088139727556868, 0.004153193476973245);
  V bottom =
      POLY(c, u, 1, 1.676458373798188, 1.20555660996689, 0.4714125791331618, 0.1024805790195196, 0.01041040062860353);
  return cg_fdiv(c, cg_fmul(c, e, top), bottom);
}

// max(a, 0) - u P(u), u = |a|, P the tail.
V cg_gelu_via_double(Cg *c, V a) {
  V u = cg_widen(c, at_most(c, fabs_of(c, a), 15)), z = cg_fmul(c, cg_fmul(c, u, u), k(c, u, -0.5));
  V tail = cg_fmul(c, u, normal_tail(c, u, cg_exp_double(c, z)));
  // NaN and -0 stay; -infinity times 0 is NaN
  V above = cg_select(c, cg_fcmp(c, LLVMRealOLT, a, k(c, a, 0)), cg_fmul(c, a, k(c, a, 0)), a);
  return cg_narrow(c, cg_fsub(c, cg_widen(c, above), tail), a);
}

// erfc |a| = 2 P(sqrt 2 |a|), and 2 less that for negative a.
V cg_erfc(Cg *c, V a) {
  V x = cg_widen(c, at_most(c, fabs_of(c, a), 10.6)), e = cg_exp_double(c, cg_fneg(c, cg_fmul(c, x, x)));
  V two = k(c, x, 2), tail = cg_fmul(c, normal_tail(c, cg_fmul(c, x, k(c, x, 1.4142135623730951)), e), two);
  return cg_narrow(c, cg_select(c, cg_fcmp(c, LLVMRealOLT, a, k(c, a, 0)), cg_fsub(c, two, tail), tail), a);
}

V cg_silu_via_double(Cg *c, V a) {
  V x = cg_widen(c, at_least(c, a, -200)), t = cg_exp_double(c, cg_fneg(c, at_most(c, x, 200)));
  V y = cg_narrow(c, cg_fdiv(c, x, cg_fadd(c, t, k(c, t, 1))), a);
  return cg_select(c, cg_fcmp(c, LLVMRealOEQ, a, k(c, a, -INFINITY)), k(c, a, NAN), y);  // infinity times 0
}

V cg_softplus_via_double(Cg *c, V a) {
  V x = cg_widen(c, a), size = fabs_of(c, x), t = cg_exp_double(c, cg_fneg(c, at_most(c, size, 200)));
  V y = cg_log1p(c, t);
  return cg_narrow(c, cg_fadd(c, y, cg_select(c, cg_fcmp(c, LLVMRealOGT, x, k(c, x, 0)), x, k(c, x, 0))), a);
}

// ---- logarithms and powers of constant bases
V cg_log_double(Cg *c, V d) { return cg_fmul(c, cg_log2_double(c, d), k(c, d, 0.69314718055994531)); }

// 1 + u rounds where u is small: there, a series.
V cg_log1p_double(Cg *c, V u) {
  V series = cg_fmul(c, u, POLY(c, u, 1, -0.5, 0.33333333333333333, -0.25)),
    y = cg_log_double(c, cg_fadd(c, u, k(c, u, 1)));
  return cg_select(c, cg_fcmp(c, LLVMRealOLT, fabs_of(c, u), k(c, u, 0x1p-10)), series, y);
}

// log2 a times `scale`
V cg_log_scaled(Cg *c, V a, double scale) {
  V y = cg_log2_double(c, cg_widen(c, a));
  return cg_narrow(c, scale == 1 ? y : cg_fmul(c, y, k(c, y, scale)), a);
}

// As in C: infinite where one operand is, even if the other is NaN.
V cg_hypot(Cg *c, V a, V b) {
  V x = cg_widen(c, a), z = cg_widen(c, b), square = cg_fmul(c, x, x), inf = k(c, a, INFINITY);
  square = cg_fma(c, z, z, square);
  V y = cg_narrow(c, sqrt_of(c, square), a);
  y = cg_select(c, cg_fcmp(c, LLVMRealOEQ, fabs_of(c, a), inf), inf, y);
  return cg_select(c, cg_fcmp(c, LLVMRealOEQ, fabs_of(c, b), inf), inf, y);
}

// x times a polynomial in w = -ln(1 - x^2), from w = 5 on in sqrt w: no float but +-1 has a w above 17.
enum { TAIL_FROM = 5 };

// x (coef[0] + z q); what the sum of these loses is added.
static V erfinv_single_of(Cg *c, V x, V z, double first, V q) {
  V sum = cg_fma(c, z, q, k(c, x, first)), lost = cg_fma(c, z, q, cg_fsub(c, k(c, x, first), sum));
  return cg_fma(c, x, sum, cg_fmul(c, x, lost));
}

static V erfinv_w(Cg *c, V x) {
  V below = cg_fma(c, cg_fneg(c, x), x, k(c, x, 1));
  return cg_fneg(c, cg_primitive(c, OP_log, &below));
}

static void make_erfinv_tail(Cg *c, V fn, void *ctx) {
  (void)ctx;
  V x = LLVMGetParam(fn, 0), w = erfinv_w(c, x), s = cg_fsub(c, sqrt_of(c, w), k(c, w, 3.2));
  V q = POLY(c, s, 1.004692554473877, 0.005975009873509407, -0.0042955707758665085, 0.0029308199882507324,
             -0.001987866358831525, 0.0011472769547253847, -0.00036637100856751204, -0.00010923957597697154,
             0.00010355466656619683);
  V y = erfinv_single_of(c, x, s, 3.0336365699768066, q), is_end = cg_fcmp(c, LLVMRealOEQ, w, k(c, w, INFINITY));
  y = cg_select(c, is_end, with_sign(c, w, x), y);
  LLVMBuildRet(c->b, cg_select(c, cg_fcmp(c, LLVMRealOLT, w, k(c, w, TAIL_FROM)), LLVMGetParam(fn, 1), y));
}

static V erfinv_single(Cg *c, V x) {
  V w = erfinv_w(c, x);
  V q = POLY(c, w, 0.23201483488082886, 0.01154270488768816, -0.0023211201187223196, -0.0001419144100509584,
             5.3358035074779764e-05, 8.612322517365101e-07, -1.334493617832777e-06, 1.502131539155016e-07,
             -5.5499160822591875e-09);
  V y = erfinv_single_of(c, x, w, 0.8862268924713135, q), is_far = cg_fcmp(c, LLVMRealOGE, w, k(c, w, TAIL_FROM));
  return cg_slow_path(c, "erfinv_tail", is_far, x, y, y, make_erfinv_tail, NULL);
}

V cg_erfinv(Cg *c, V a) {
  if (has_fma(c)) return erfinv_single(c, a);
  V x = cg_widen(c, a), one = k(c, x, 1), below = cg_fsub(c, one, x), w = cg_fmul(c, below, cg_fadd(c, one, x));
  w = cg_fneg(c, cg_log_double(c, w));
  V t = cg_fsub(c, w, k(c, w, 2.5));
  V middle = POLY(c, t, 1.5014093511463842, 0.2466402767403145, -0.0041773182378038193, -0.0012527079277645629,
                  0.00021825147499564526, -4.9960297852061797e-06, -3.4176944223983369e-06, 4.7870168131956354e-07,
                  1.3874280738139898e-08, -1.0863841706634822e-08, 8.0621081633176478e-10, 1.2359544671870271e-10,
                  -1.9768142768011553e-11);
  V s = cg_fsub(c, sqrt_of(c, w), k(c, w, 3.2));
  V tail = POLY(c, s, 3.0336365695316054, 1.0046924431376696, 0.0059735069489070518, -0.0042941601575158406,
                0.0029470411640253264, -0.0019929120112874687, 0.0010939120357984021, -0.00035963025769733493,
                -4.0641474132799759e-05, 0.0001005523950743356, -3.0254996710138416e-05);
  V y = cg_narrow(c, cg_fmul(c, x, cg_select(c, cg_fcmp(c, LLVMRealOLT, w, k(c, w, 5)), middle, tail)), a);
  V size = fabs_of(c, a), unit = k(c, a, 1);
  y = cg_select(c, cg_fcmp(c, LLVMRealOEQ, size, unit), with_sign(c, k(c, a, INFINITY), a), y);
  return cg_select(c, cg_fcmp(c, LLVMRealOGT, size, unit), k(c, a, NAN), y);
}
