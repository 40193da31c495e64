// Primitives of at most 16 ulp, for the compile option fast_math: shorter polynomials, one constant for ln 2, floats where
// primitives.c and via_double.c take doubles; on AVX-512 also tables in registers and estimates of the CPU with one Newton step.
// NULL: the ordinary primitive is as short. Special values are as there.
#include "codegen/math/math.h"
#include "codegen/math/primitives.h"

#include <math.h>

enum { LANES = 16, N_INTERVALS = 32, N_TANH = 6 };

static V minus_size(Cg *c, V x) { return cg_fneg(c, fabs_of(c, x)); }

// y 2^n, rounded once; n whole, in [-252, 254].
static V scale(Cg *c, V y, V n) {
  if (cg_has_avx512(c, LLVMTypeOf(y))) return cg_scalef(c, y, n);
  V b = cast(c, cg_fadd(c, n, k(c, n, 12582912)), c->i32);  // n in the low bits: only 9 of them stay after the shifts
  LLVMTypeRef it = LLVMTypeOf(b);
  V one = bits(c, it, 127u << 23), by = bits(c, it, 23), half = cg_lshr(c, b, bits(c, it, 1));
  V first = cg_iadd(c, cg_shl(c, half, by), one);
  V rest = cg_isub(c, b, half), second = cg_iadd(c, cg_shl(c, rest, by), one);
  return cg_fmul(c, cg_fmul(c, y, cast(c, first, c->f32)), cast(c, second, c->f32));
}

// x - n ln 2
static V rest_of_exp(Cg *c, V x, V n) {
  if (has_fma(c)) return cg_fma(c, n, k(c, x, -0.69314718055994531), x);
  V r = cg_fma(c, n, k(c, x, -0.693359375), x);  // 9 bits: the product is exact
  return cg_fma(c, n, k(c, x, 2.12194440054690583e-4), r);
}

static V near_exp(Cg *c, V r) {  // |r| <= ln 2 / 2
  return POLY(c, r, 1, 0.999999702, 0.499991477, 0.166676491, 0.0418981761, 0.00828963332);
}

// e^x is the result times 2^n.
static V split_exp(Cg *c, V x, V *n) {
  V magic = k(c, x, 12582912);  // 1.5 * 2^23
  *n = cg_fsub(c, cg_fma(c, x, k(c, x, 1.4426950408889634), magic), magic);
  return near_exp(c, rest_of_exp(c, x, *n));
}

static V exp_of(Cg *c, V x) {
  V n, y = split_exp(c, at_least(c, at_most(c, x, 89), -104), &n);
  return scale(c, y, n);
}

// x = 2^e (1 + f) with 1 + f in [3/4, 3/2)
static V split_log(Cg *c, V x, V *e) {
  if (cg_has_avx512(c, LLVMTypeOf(x))) {
    V m = cg_significand(c, x);
    *e = cg_fsub(c, cg_exponent(c, x), cg_exponent(c, m));
    return cg_fsub(c, m, k(c, x, 1));
  }
  V tiny = cg_fcmp(c, LLVMRealOLT, x, k(c, x, 0x1p-126)),
    b = cast(c, cg_select(c, tiny, cg_fmul(c, x, k(c, x, 0x1p23)), x), c->i32);
  LLVMTypeRef it = LLVMTypeOf(b);
  V least = bits(c, it, 0x3f400000), off = cg_isub(c, b, least);  // 3/4
  V whole = cg_sitofp(c, cg_ashr(c, off, bits(c, it, 23)), LLVMTypeOf(x));
  *e = cg_fsub(c, whole, cg_select(c, tiny, k(c, x, 23), k(c, x, 0)));
  V m = cg_iadd(c, cg_and(c, off, bits(c, it, 0x7fffff)), least);
  return cg_fsub(c, cast(c, m, c->f32), k(c, x, 1));
}

static V log_of(Cg *c, V x) {
  V e, f = split_log(c, x, &e);
  V y = POLY(c, f, -0.500001669, 0.333307058, -0.249792784, 0.200953841, -0.173371002, 0.141532987, -0.0672002807);
  y = cg_fma(c, e, k(c, x, 0.69314718055994531), cg_fma(c, cg_fmul(c, f, f), y, f));
  if (cg_has_avx512(c, LLVMTypeOf(x))) return y;
  V zero = k(c, x, 0), below = cg_select(c, cg_fcmp(c, LLVMRealOEQ, x, zero), k(c, x, -INFINITY), k(c, x, NAN));
  y = cg_select(c, cg_fcmp(c, LLVMRealOLT, x, k(c, x, INFINITY)), y, x);
  return cg_select(c, cg_fcmp(c, LLVMRealUGT, x, zero), y, below);
}

static V inverse(Cg *c, V x) {  // of numbers in [1, 2]
  if (!cg_has_avx512(c, LLVMTypeOf(x))) return cg_fdiv(c, k(c, x, 1), x);
  V y = cg_approx_reciprocal(c, x), off = cg_fma(c, cg_fneg(c, x), y, k(c, x, 1));
  return cg_fma(c, y, off, y);
}

static V sigmoid_of(Cg *c, V x) {
  V t = exp_of(c, minus_size(c, x)), y = inverse(c, cg_fadd(c, t, k(c, x, 1)));
  return cg_select(c, cg_fcmp(c, LLVMRealOLT, x, k(c, x, 0)), cg_fmul(c, t, y), y);
}

static V silu_of(Cg *c, V x) {
  V n, p = split_exp(c, at_least(c, minus_size(c, x), -112), &n), t = scale(c, p, n);
  V y = inverse(c, cg_fadd(c, t, k(c, x, 1))), low = cg_fmul(c, at_least(c, x, -112), y);
  V below = cg_fadd(c, scale(c, cg_fmul(c, low, p), n), cg_fmul(c, x, k(c, x, 0)));  // -infinity times 0 is NaN
  return cg_select(c, cg_fcmp(c, LLVMRealOLT, x, k(c, x, 0)), below, cg_fmul(c, x, y));
}

static V softplus_of(Cg *c, V x) {
  V t = exp_of(c, minus_size(c, x));
  V y = POLY(c, t, -0.499981791, 0.332840443, -0.245367572, 0.178469166, -0.109018862, 0.0449838266, -0.00877817906);
  y = cg_fma(c, cg_fmul(c, t, t), y, t);
  return cg_fadd(c, y, cg_select(c, cg_fcmp(c, LLVMRealOGT, x, k(c, x, 0)), x, k(c, x, 0)));
}

static V rsqrt_of(Cg *c, V x) {
  V y = cg_approx_rsqrt(c, x), off = cg_fma(c, cg_fmul(c, x, y), cg_fneg(c, y), k(c, x, 1));
  V z = cg_fma(c, cg_fmul(c, y, k(c, x, 0.5)), off, y);
  return cg_select(c, cg_fcmp(c, LLVMRealUNO, z, z), y, z);  // 0 and infinity need no Newton step, NaN has none
}

// tanh |x| as erf_table.c makes erf: 32 intervals, the nearest multiple of 1/4 and a polynomial of degree 5; 1 from 7.75 on.
static const float tanh_coef[N_TANH][N_INTERVALS] = {
    {0,           0.244918659, 0.462117165, 0.635148942, 0.761594176, 0.848283648, 0.905148268, 0.941375554,
     0.964027584, 0.978026092, 0.986614287, 0.991859734, 0.995054781, 0.996997654, 0.998177886, 0.998894453,
     0.999329329, 0.999593139, 0.999753237, 0.999850333, 0.999909222, 0.999944925, 0.999966621, 0.999979734,
     0.999987721, 0.999992549, 0.99999547,  0.999997258, 0.999998331, 0.999998987, 0.999999404, 1},
    {-1.09021381e-09, 0.940015018,    0.786447823,    0.59658581,
     0.419974357,     0.280414879,    0.180706635,    0.113812096,
     0.0706508234,    0.0434649177,   0.0265922267,   0.0162142869,
     0.00986603741,   0.00599571504,  0.00364088477,  0.00220989226,
     0.00134095072,   0.0008135424,   0.000493517437, 0.000299362524,
     0.000181583237,  0.000110139728, 6.68045759e-05, 4.05195533e-05,
     2.45765477e-05,  1.49065017e-05, 9.04127683e-06, 5.4838215e-06,
     3.32610944e-06,  2.01738862e-06, 1.22360859e-06, 0},
    {4.18750261e-07,  -0.2302192,      -0.363427699,    -0.378918171,
     -0.31985721,     -0.237875149,    -0.163570672,    -0.107144006,
     -0.0681102276,   -0.0425039418,   -0.0262333136,   -0.0160846692,
     -0.00982431136,  -0.00598253915,  -0.0036312642,   -0.00221008155,
     -0.00134741724,  -0.000811326201, -0.000500029477, -0.000305765425,
     -0.000186138917, -0.000109285902, -7.30081301e-05, -3.90856403e-05,
     -2.70829787e-05, -1.5597001e-05,  -6.65926473e-06, -5.50957338e-06,
     -1.82234442e-06, -8.43835949e-07, -5.25765154e-06, 0},
    {-0.333358467,   -0.256994516,   -0.0942286775,  0.041807007,
     0.103600293,    0.108308576,    0.0878172591,   0.0629214272,
     0.0421093628,   0.0270877741,   0.0170210209,   0.0105465651,
     0.00647993013,  0.0039611333,   0.00241399021,  0.00146837777,
     0.000892154756, 0.00054169551,  0.000328758237, 0.000199479677,
     0.000121020734, 7.34148853e-05, 4.45307669e-05, 2.70113851e-05,
     1.63836303e-05, 9.93738377e-06, 6.02741557e-06, 3.65580354e-06,
     2.21737309e-06, 1.34491756e-06, 8.15721535e-07, 0},
    {0.000500963011,  0.138139054,     0.163682804,     0.0995953977,
     0.0283896346,    -0.0121439369,   -0.0246239342,   -0.0232777279,
     -0.0178484265,   -0.0126355281,   -0.00821096357,  -0.00498754811,
     -0.0028199919,   -0.00171363296,  -0.00135359971,  -0.000597715902,
     -6.87113352e-05, -0.000367516681, 0.000175075373,  0.000230223581,
     0.000173473833,  -8.01848291e-05, 0.000295424659,  -8.69084979e-05,
     0.000120135344,  3.03798224e-05,  -0.000124977189, -5.12628731e-07,
     -7.81035997e-05, -6.07597212e-05, 0.000206134282,  0},
    {0.129891515,    0.0743289143,   -0.025344694,   -0.0635791942,
     -0.0460545272,  -0.0191745739,  -0.00277128979, 0.00367170246,
     0.00475433609,  0.00396719668,  0.00285711698,  0.0019081569,
     0.00122550467,  0.000767914986, 0.000473310967, 0.000290309545,
     0.000178043774, 0.000108163709, 6.61521335e-05, 4.01737561e-05,
     2.43091545e-05, 1.46724169e-05, 8.97497557e-06, 5.40974452e-06,
     3.28839064e-06, 1.99358374e-06, 1.20814241e-06, 7.34532023e-07,
     4.45167757e-07, 2.69593045e-07, 1.64204124e-07, 0},
};

static V tanh_16(Cg *c, V x) {
  V u = at_most(c, fabs_of(c, x), 7.75), magic = k(c, x, 0x1.8p21), s = cg_fadd(c, u, magic);
  V d = cg_fsub(c, u, cg_fsub(c, s, magic)), index = cast(c, s, c->i32);
  V y = cg_look_up(c, tanh_coef[N_TANH - 1], index);
  for (int j = N_TANH - 2; j > 0; j--) y = cg_fma(c, y, d, cg_look_up(c, tanh_coef[j], index));
  V base = cg_look_up(c, tanh_coef[0], index);
  base = cg_select(c, cg_fcmp(c, LLVMRealOGT, base, d), base, d);
  return with_sign(c, cg_fma(c, y, d, base), x);
}

// x times a quotient of polynomials in x^2.
static V tanh_by_quotient(Cg *c, V x) {
  V a = at_least(c, at_most(c, x, 9), -9), z = cg_fmul(c, a, a);
  V top = POLY(c, z, 0.999999619, 0.128354099, 0.00285517369, 1.04246651e-05);
  V bottom = POLY(c, z, 1, 0.461684574, 0.0234203249, 0.000225296916, 2.14581919e-07);
  return at_least(c, at_most(c, cg_fdiv(c, cg_fmul(c, a, top), bottom), 1), -1);
}

static V tanh_of(Cg *c, V x) {
  if (!cg_has_avx512(c, LLVMTypeOf(x))) return tanh_by_quotient(c, x);
  if (is_vector(LLVMTypeOf(x))) return tanh_16(c, x);
  return LLVMBuildExtractElement(c->b, tanh_16(c, cg_splat_n(c, x, LANES)), cg_i32(c, 0), "");
}

static V erf_of(Cg *c, V x) {
  V a = at_least(c, at_most(c, x, 3.93), -3.93), z = cg_fmul(c, a, a);
  V top = POLY(c, z, 1.12837975, 0.109176786, 0.0382132308, -0.000214264915, 4.55415228e-05, -1.56559639e-06,
               2.16245823e-08);
  V bottom = POLY(c, z, 1, 0.430101591, 0.0771799568, 0.00642183886);
  return at_least(c, at_most(c, cg_fdiv(c, cg_fmul(c, a, top), bottom), 1), -1);
}

// e^(-u^2/2) = e * 2^n. The square's rounding error would cost u^2/4 units: it is added to the exponent.
static V exp_of_square(Cg *c, V u, V *n) {
  V high = cg_fmul(c, u, u), low = cg_fma(c, u, u, cg_fneg(c, high)), magic = k(c, u, 12582912);
  if (!has_fma(c)) {  // the square of 12 bits is exact
    V b = cast(c, u, c->i32);
    V head = cast(c, cg_and(c, b, bits(c, LLVMTypeOf(b), 0xfffff000u)), c->f32);
    high = cg_fmul(c, head, head);
    low = cg_fmul(c, cg_fsub(c, u, head), cg_fadd(c, u, head));
  }
  *n = cg_fsub(c, cg_fma(c, high, k(c, u, -0.72134752044448170), magic), magic);
  V r = rest_of_exp(c, cg_fmul(c, high, k(c, u, -0.5)), *n);
  return near_exp(c, cg_fma(c, low, k(c, u, -0.5), r));
}

// As cg_gelu_via_double, in floats.
static V gelu_of(Cg *c, V a) {
  V u = at_most(c, fabs_of(c, a), 15), n, e = exp_of_square(c, u, &n);
  V top = POLY(c, u, 0.5, 0.43761307, 0.182698563, 0.0404430851, 0.00408527115);
  V bottom = POLY(c, u, 1, 1.67311096, 1.20034277, 0.468045563, 0.101382338, 0.0102401348);
  V tail = scale(c, cg_fdiv(c, cg_fmul(c, cg_fmul(c, u, e), top), bottom), n);
  // NaN and -0 stay; -infinity times 0 is NaN
  V above = cg_select(c, cg_fcmp(c, LLVMRealOLT, a, k(c, a, 0)), cg_fmul(c, a, k(c, a, 0)), a);
  return cg_fsub(c, above, tail);
}

V cg_fast_primitive(Cg *c, Op op, V x) {
  bool is_avx512 = cg_has_avx512(c, LLVMTypeOf(x));
  switch (op) {
  case OP_exp: return exp_of(c, x);
  case OP_log: return log_of(c, x);
  case OP_sigmoid: return sigmoid_of(c, x);
  case OP_silu: return silu_of(c, x);
  case OP_softplus: return softplus_of(c, x);
  case OP_tanh: return tanh_of(c, x);
  case OP_rsqrt: return is_avx512 ? rsqrt_of(c, x) : NULL;
  case OP_erf: return is_avx512 ? NULL : erf_of(c, x);    // erf_table.c
  case OP_gelu: return is_avx512 ? NULL : gelu_of(c, x);  // gelu_table.c has a shorter table
  default: return NULL;
  }
}
