// The logarithm of the gamma function and its derivatives, in doubles, rounded once.
//
//   lgamma      from 1/2 on; of others ln(pi / |sin pi x|) less that of 1 - x
//   digamma     from 1/2 on; of others that of 1 - x less pi cot pi x
//   polygamma   (-1)^(n+1) n! zeta(n + 1, x), the sum of all (x + k)^-(n+1)
//
// Below 0 there is a root between any two poles; near it large terms cancel: the result is off by about 2^-52
// of the terms.
#include "codegen/math/math.h"

#include <math.h>

// Of positive normal doubles.
static V ln_of(Cg *c, V d) {
  V e, s = cg_log_parts(c, d, &e), z = cg_fmul(c, s, s);
  V y = POLY(c, z, 2, 2. / 3, 2. / 5, 2. / 7, 2. / 9, 2. / 11, 2. / 13, 2. / 15, 2. / 17, 2. / 19);
  return cg_fma(c, e, k(c, e, 0.69314718055994531), cg_fmul(c, s, y));
}

// Distance of a float from the nearest integer, in [-1/2, 1/2], as a double.
static V fraction_of(Cg *c, V a) { return cg_widen(c, cg_fsub(c, a, cg_round(c, a))); }

static V is_odd(Cg *c, V a) {
  V half = cg_fmul(c, a, k(c, a, 0.5));
  return cg_fcmp(c, LLVMRealONE, half, cg_round(c, half));
}

static V sin_pi(Cg *c, V r) {
  V z = cg_fsub(c, cg_fmul(c, r, r), k(c, r, 0.125));
  return cg_fmul(c, r,
                 POLY(c, z, 2.53432426266159827, -4.55762944246107243, 2.33299875821398067, -0.559325186810457719,
                      0.0776471723724202574, -0.00702780854295250031, 0.000447471036106565995,
                      -0.0000211329309862045342, 7.69784727556447994e-7, -2.22837121606969689e-8));
}

// ln gamma from 1/2 on: near its roots, 1 and 2, (t - 2) times a polynomial, t = y or y + 1; else Stirling's series, of y or
// y + 6, less the logarithm of what lies between.
static V lgamma_above(Cg *c, V y) {
  V one = k(c, y, 1), is_near = cg_fcmp(c, LLVMRealOLT, y, k(c, y, 2.5)),
    is_low = cg_fcmp(c, LLVMRealOLT, y, k(c, y, 1.5));
  V is_mid = cg_fcmp(c, LLVMRealOLT, y, k(c, y, 8)), between = y;
  for (int j = 1; j < 6; j++) between = cg_fmul(c, between, cg_fadd(c, y, k(c, y, j)));
  V from_2 = cg_fsub(c, cg_select(c, is_low, cg_fadd(c, y, one), y), k(c, y, 2));
  V near =
      cg_fmul(c, from_2,
              POLY(c, from_2, 0.422784335098467139, 0.322467033424113236, -0.0673523010531981034, 0.0205808084277803801,
                   -0.0073855510286719984, 0.00289051033103426686, -0.00119275391184281569, 0.000509669515411545835,
                   -0.000223154754005205077, 0.0000994576735581949821, -0.0000449263133791556975,
                   0.0000205055907558334531, -9.43871509921153266e-6, 4.38470440459836033e-6, -2.04390481070299067e-6,
                   9.20052789496810049e-7, -4.32523934456048164e-7, 2.78740805211358998e-7, -1.32199456661178745e-7));
  V z = cg_select(c, is_mid, cg_fadd(c, y, k(c, y, 6)), y), w = cg_fdiv(c, one, z), l = ln_of(c, z);
  V rest = POLY(c, cg_fmul(c, w, w), 1. / 12, -1. / 360, 1. / 1260, -1. / 1680, 1. / 1188, -691. / 360360, 1. / 156,
                -3617. / 122400);
  V far = cg_fma(c, cg_fsub(c, z, k(c, z, 0.5)), l, cg_fsub(c, k(c, z, 0.918938533204672742), z));
  far = cg_fma(c, rest, w, far);
  V less = ln_of(c, cg_select(c, is_near, y, between)), nothing = k(c, y, 0);
  less = cg_select(c, cg_select(c, is_near, is_low, is_mid), less, nothing);
  return cg_fsub(c, cg_select(c, is_near, near, far), less);
}

V cg_lgamma(Cg *c, V a) {
  V x = cg_widen(c, a), is_below = cg_fcmp(c, LLVMRealOLT, x, k(c, x, 0.5));
  V above = lgamma_above(c, cg_select(c, is_below, cg_fsub(c, k(c, x, 1), x), x));
  V s = fabs_of(c, sin_pi(c, fraction_of(c, a))), inf = k(c, x, INFINITY);
  V below = cg_fsub(c, ln_of(c, cg_fdiv(c, k(c, x, 3.14159265358979324), s)), above);
  below = cg_select(c, cg_fcmp(c, LLVMRealOEQ, s, k(c, s, 0)), inf, below);
  V y = cg_select(c, is_below, below, above);
  return cg_narrow(c, cg_select(c, cg_fcmp(c, LLVMRealOEQ, fabs_of(c, x), inf), inf, y), a);
}

// From 1/2 on: the asymptotic series of y or y + 8, less the sum of 1 / (y + k), which is one quotient.
static V digamma_above(Cg *c, V y) {
  V is_low = cg_fcmp(c, LLVMRealOLT, y, k(c, y, 8)), t = cg_select(c, is_low, y, k(c, y, 1));
  V top = POLY(c, t, 5040, 26136, 39396, 27076, 9800, 1932, 196, 8);
  V bottom = cg_fmul(c, t, POLY(c, t, 5040, 13068, 13132, 6769, 1960, 322, 28, 1));
  V less = cg_select(c, is_low, cg_fdiv(c, top, bottom), k(c, y, 0));
  V z = cg_select(c, is_low, cg_fadd(c, y, k(c, y, 8)), y), w = cg_fdiv(c, k(c, z, 1), z), w2 = cg_fmul(c, w, w);
  V rest = cg_fmul(
      c, w2, POLY(c, w2, 1. / 12, -1. / 120, 1. / 252, -1. / 240, 1. / 132, -691. / 32760, 1. / 12, -3617. / 8160));
  V series = cg_fsub(c, ln_of(c, z), cg_fma(c, w, k(c, w, 0.5), rest));
  return cg_fsub(c, series, less);
}

// pi r cot pi r
static V r_cot_pi(Cg *c, V r) {
  V z = cg_fsub(c, cg_fmul(c, r, r), k(c, r, 0.125));
  return POLY(c, z, 0.550409796645895819, -3.94496679093620158, -3.16388174361030509, -3.45100631537897211,
              -3.90884987252112991, -4.45877653737474705, -5.09361349375289346, -5.82072859466276977,
              -6.65211829226894324, -7.60238491821942044, -8.68887163189910957, -9.93013661419328924,
              -11.31537097312654, -12.9318523813410842, -16.0929718065359012, -18.3919677682403427);
}

V cg_digamma(Cg *c, V a) {
  V x = cg_widen(c, a), is_below = cg_fcmp(c, LLVMRealOLT, x, k(c, x, 0.5)), zero = k(c, x, 0), inf = k(c, x, INFINITY);
  V above = digamma_above(c, cg_select(c, is_below, cg_fsub(c, k(c, x, 1), x), x)), r = fraction_of(c, a);
  V y = cg_select(c, is_below, cg_fsub(c, above, cg_fdiv(c, r_cot_pi(c, r), r)), above);
  V is_pole = cg_and(c, is_below, cg_fcmp(c, LLVMRealOEQ, r, zero));
  V at_pole = cg_select(c, cg_fcmp(c, LLVMRealOEQ, x, zero), with_sign(c, inf, cg_fneg(c, x)), k(c, x, NAN));
  y = cg_select(c, is_pole, at_pole, y);
  return cg_narrow(c, cg_select(c, cg_fcmp(c, LLVMRealOEQ, x, inf), inf, y), a);
}

// ---- polygamma
typedef struct {
  V n, s;  // the order, and one more: doubles
  V n_is_odd;
  int known_s;  // 0: the run knows it
} Order;

// v^-s, of s whole
static V power(Cg *c, const Order *o, V v) {
  if (o->known_s) {
    V factor = cg_fdiv(c, k(c, v, 1), v), y = NULL;
    for (int left = o->known_s; left; left >>= 1) {
      if (left & 1) y = y ? cg_fmul(c, y, factor) : factor;
      if (left > 1) factor = cg_fmul(c, factor, factor);
    }
    return y;
  }
  V t = cg_fmul(c, cg_fneg(c, o->s), cg_log2_double(c, fabs_of(c, v)));
  V size = cg_exp2_double(c, at_least(c, at_most(c, t, 300), -300));
  return cg_select(c, o->n_is_odd, size, with_sign(c, size, v));
}

// The sum of all (y + k)^-s, y >= 1/2: of k < 8, and the rest by Euler and Maclaurin.
static V zeta_above(Cg *c, const Order *o, V y) {
  static const double bernoulli[] = {1. / 12,       -1. / 720,     1. / 30240,
                                     -1. / 1209600, 1. / 47900160, -691. / 1307674368000};
  V sum = k(c, y, 0), z = cg_fadd(c, y, k(c, y, 8)), w = cg_fdiv(c, k(c, y, 1), z), w2 = cg_fmul(c, w, w), rest = NULL;
  for (int j = 0; j < 8; j++) sum = cg_fadd(c, sum, power(c, o, j ? cg_fadd(c, y, k(c, y, j)) : y));
  for (int j = 5; j >= 0; j--) {
    V b = k(c, y, bernoulli[j]);
    rest = rest ? cg_fma(c, rest, w2, b) : b;
    if (j) rest = cg_fmul(c, rest, cg_fmul(c, cg_fadd(c, o->s, k(c, y, 2 * j - 1)), cg_fadd(c, o->s, k(c, y, 2 * j))));
  }
  V tail = cg_fma(c, rest, cg_fmul(c, o->s, w), cg_fadd(c, cg_fdiv(c, z, o->n), k(c, y, 0.5)));
  return cg_fma(c, power(c, o, z), tail, sum);
}

// Below 1/2 the terms on either side of the one next to 0, r = x + M: those of k < M are (-1)^s (j - r)^-s, j = 1 .. M.
// For odd s half-way between two poles all but those beyond M cancel.
static V zeta(Cg *c, const Order *o, V x, V r) {
  V one = k(c, x, 1), is_below = cg_fcmp(c, LLVMRealOLT, x, k(c, x, 0.5));
  V above = zeta_above(c, o, cg_select(c, is_below, cg_fadd(c, one, r), x));
  V beyond = zeta_above(c, o, cg_fsub(c, one, cg_select(c, is_below, x, r)));
  V before = cg_fsub(c, zeta_above(c, o, cg_fsub(c, one, r)), beyond);
  V below = cg_fadd(c, cg_fadd(c, above, cg_select(c, o->n_is_odd, before, cg_fneg(c, before))), power(c, o, r));
  V is_half = cg_fcmp(c, LLVMRealOEQ, fabs_of(c, r), k(c, r, 0.5));
  V cancels = cg_and(c, is_half, cg_not(c, o->n_is_odd));
  return cg_select(c, is_below, cg_select(c, cancels, beyond, below), above);
}

// (-1)^(n+1) n!
static V factor_of(Cg *c, const Order *o) {
  V f = cg_fmul(c, lgamma_above(c, o->s), k(c, o->s, 1.4426950408889634));
  f = cg_exp2_double(c, f);
  if (o->known_s) f = k(c, o->s, round(tgamma(o->known_s)));
  return cg_select(c, o->n_is_odd, f, cg_fneg(c, f));
}

V cg_polygamma(Cg *c, V order, V a) {
  enum { MOST_ORDER = 32 };
  double number;
  V x = cg_widen(c, a), one = k(c, x, 1), least = k(c, order, 1);
  V is_order =
      cg_and(c, cg_fcmp(c, LLVMRealOGE, order, least), cg_fcmp(c, LLVMRealOLE, order, k(c, order, MOST_ORDER)));
  is_order = cg_and(c, is_order, cg_fcmp(c, LLVMRealOEQ, order, cg_round(c, order)));
  V whole = cg_select(c, is_order, order, least), n = cg_widen(c, whole);
  Order o = {n, cg_fadd(c, n, one), is_odd(c, whole), 0};
  if (cg_is_number(order, &number) && number >= 1 && number <= MOST_ORDER && number == floor(number))
    o.known_s = (int)number + 1;
  V y = cg_fmul(c, factor_of(c, &o), zeta(c, &o, x, fraction_of(c, a)));
  V at_infinity = cg_select(c, o.n_is_odd, k(c, x, 0), k(c, x, -0.0));
  y = cg_select(c, cg_fcmp(c, LLVMRealOEQ, x, k(c, x, INFINITY)), at_infinity, y);
  return cg_narrow(c, cg_select(c, is_order, y, k(c, y, NAN)), a);
}
