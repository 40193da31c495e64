// Logarithms to the bases e, 2 and 10, and ln(1 + x), in floats.
//
// The natural logarithm is one polynomial in m - 1, where x = 2^e m, whose bits are the same on all targets with fused
// multiply-adds. log2 and log10 are made in doubles, and on AVX-512 by a table that lies in registers, of 16 intervals by the upper
// bits of m, m in [1, 2), c near 1 / m:
//
//   log x = (e two + high[c]) + (r unit + r^2 q(r) + e two_lost + low[c]),   r = m c - 1, high + low = -log c
//
// `two` is the logarithm of 2 to few bits, and the first sum is exact, so that one rounding counts. Near 1 c is 1 or 1/2: there
// r is exact and the first sum 0.
#include "codegen/math/math.h"
#include "codegen/math/primitives.h"

#include <math.h>

enum { LANES = 16, N_INTERVALS = 16, N_COEFS = 4 };

typedef struct {
  double unit, unit_lost, two, two_lost;  // logarithms of e and 2 to the base, each as a sum
  double q[N_COEFS];
  float high[N_INTERVALS], low[N_INTERVALS];
} Base;

static const float near_inverse[N_INTERVALS] = {
    1.0,        0.9140625,   0.865234375, 0.8203125,  0.78125,     0.744140625, 0.7109375,   0.681640625,
    0.65234375, 0.626953125, 0.603515625, 0.58203125, 0.560546875, 0.54296875,  0.525390625, 0.5};
static const Base base_2 = {1.44269502162933,
                            1.92596303e-08,
                            1,
                            0,
                            {-0.721347511, 0.480914414, -0.360769987, 0.272023469},
                            {0, 0.129638672, 0.208831787, 0.285766602, 0.356140137, 0.426361084, 0.492218018,
                             0.55291748, 0.61630249, 0.673583984, 0.728546143, 0.780822754, 0.835083008, 0.881072998,
                             0.928527832, 1},
                            {0, -3.39145845e-06, 5.32433569e-06, -1.21192288e-05, 3.67350663e-06, -8.27147778e-06,
                             -1.2657777e-05, -7.06678406e-07, -6.78270862e-06, -1.34714974e-05, -9.17048237e-06,
                             8.72563123e-06, 1.00655116e-05, -1.40707707e-05, 9.80541245e-06, 0}};
static const Base base_10 = {0.434294492006302,
                             -1.0103050e-08,
                             0.301025390625,
                             4.60503907e-06,
                             {-0.217147246, 0.144769669, -0.108602591, 0.0818872228},
                             {0, 0.0390319824, 0.0628662109, 0.0860290527, 0.107208252, 0.128356934, 0.148162842,
                              0.166442871, 0.185516357, 0.202758789, 0.219299316, 0.235046387, 0.251373291, 0.265228271,
                              0.279510498, 0.301025391},
                             {0, -7.87451972e-06, 2.38152609e-08, -8.38215601e-06, 1.71769477e-06, -1.19482938e-05,
                              5.73553007e-06, 1.66292295e-06, 7.13674217e-06, 6.13950851e-06, 1.21651447e-05,
                              7.31018099e-06, 1.47732262e-05, -3.10642668e-06, 7.18292677e-06, 4.60503907e-06}};

// ---- by a table
static V pick(Cg *c, const float *row, V index) {
  V lane[LANES];
  for (uint32_t j = 0; j < LANES; j++) lane[j] = cg_f32(c, row[j]);
  return cg_call_intrinsic(c, "llvm.x86.avx512.permvar.sf.512", NULL, 0, (V[]){LLVMConstVector(lane, LANES), index}, 2);
}

// Zeros, infinities, NaN and negative numbers take their way through the two instructions: e is infinite, or r is NaN.
static V log_16(Cg *c, const Base *b, V x) {
  V m = cg_significand_from_1(c, x), e = cg_exponent(c, x), bits_of_m = cast(c, m, c->i32);
  V index = cg_lshr(c, bits_of_m, bits(c, LLVMTypeOf(bits_of_m), 19));
  V r = cg_fma(c, m, pick(c, near_inverse, index), k(c, m, -1)), low = pick(c, b->low, index);
  V high = cg_fma(c, e, k(c, e, b->two), pick(c, b->high, index));
  if (b->two_lost) low = cg_fma(c, e, k(c, e, b->two_lost), low);
  V y = poly(c, r, b->q, N_COEFS);
  y = cg_fma(c, r, cg_fma(c, r, y, k(c, r, b->unit_lost)), low);
  return cg_fadd(c, high, cg_fma(c, r, k(c, r, b->unit), y));
}

static V log_by_table(Cg *c, const Base *b, V x) {
  if (is_vector(LLVMTypeOf(x))) return log_16(c, b, x);
  return LLVMBuildExtractElement(c->b, log_16(c, b, cg_splat_n(c, x, LANES)), cg_i32(c, 0), "");
}

// ---- by parts
// Of 2^e (1 + f) with 1 + f in [3/4, 3/2). ln 2 is cut such that both parts of e ln 2 have e's sign.
static V log_of_parts(Cg *c, V e, V f) {
  V y = POLY(c, f, -0.5, 0.33333451, -0.250001043, 0.199908197, -0.166469768, 0.144782558, -0.131641641, 0.104701572,
             -0.0451243483);
  y = cg_fma(c, cg_fmul(c, f, f), y, cg_fmul(c, e, k(c, e, 3.194618499e-05)));
  return cg_fma(c, e, k(c, e, 0.693115234375), cg_fadd(c, f, y));
}

// Zeros, infinities, NaN and negative numbers take their way through the two instructions: e is infinite, or f is NaN.
static V log_x86(Cg *c, V x) {
  V m = cg_significand(c, x), e = cg_fsub(c, cg_exponent(c, x), cg_exponent(c, m));
  return log_of_parts(c, e, cg_fsub(c, m, k(c, x, 1)));
}

// Where a b + d is rounded twice: of 2^e (1 + f) with 1 + f in [sqrt 1/2, sqrt 2).
static V log_of_narrow_parts(Cg *c, V e, V f) {
  V z = cg_fmul(c, f, f);
  V y = POLY(c, f, 0.333333135, -0.250000089, 0.20002073, -0.166679963, 0.142203182, -0.12405999, 0.118836559,
             -0.116719164, 0.0675140992);
  y = cg_fmul(c, cg_fmul(c, f, z), y);
  y = cg_fma(c, e, k(c, e, -2.12194440054690583e-4), y);
  y = cg_fma(c, z, k(c, e, -0.5), y);
  return cg_fma(c, e, k(c, e, 0.693359375), cg_fadd(c, f, y));
}

// ln x of what is a normal number above 0; bits: x, or x 2^shift, as an i32. Of others what comes out is not used.
static V log_of_normal(Cg *c, V x, V bits_of_x, V shift) {
  LLVMTypeRef it = LLVMTypeOf(bits_of_x);
  V least = bits(c, it, c->t->has_fma ? 0x3f400000 : 0x3f3504f3);  // 3/4, sqrt 1/2
  V off = cg_isub(c, bits_of_x, least), e = cg_sitofp(c, cg_ashr(c, off, bits(c, it, 23)), LLVMTypeOf(x));
  if (shift) e = cg_fsub(c, e, shift);
  V m = cg_iadd(c, cg_and(c, off, bits(c, it, 0x7fffff)), least), f = cg_fsub(c, cast(c, m, c->f32), k(c, x, 1));
  return (c->t->has_fma ? log_of_parts : log_of_narrow_parts)(c, e, f);
}

static V log_of_any(Cg *c, V x) {
  V tiny = cg_fcmp(c, LLVMRealOLT, x, k(c, x, 0x1p-126));
  V b = cast(c, cg_select(c, tiny, cg_fmul(c, x, k(c, x, 0x1p23)), x), c->i32);
  V y = log_of_normal(c, x, b, cg_select(c, tiny, k(c, x, 23), k(c, x, 0)));
  V zero = k(c, x, 0), inf = k(c, x, INFINITY);
  y = cg_select(c, cg_fcmp(c, LLVMRealOEQ, x, inf), inf, y);
  y = cg_select(c, cg_fcmp(c, LLVMRealOEQ, x, zero), k(c, x, -INFINITY), y);
  y = cg_select(c, cg_fcmp(c, LLVMRealUNO, x, x), x, y);
  return cg_select(c, cg_fcmp(c, LLVMRealUGE, x, zero), y, k(c, x, NAN));
}

static void make_log_rare(Cg *c, V fn, void *ctx) {
  (void)ctx;
  LLVMBuildRet(c->b, log_of_any(c, LLVMGetParam(fn, 0)));
}

// Zeros, denormals, infinity, NaN and negative numbers, the bits of which lie outside those of normal numbers, are rare.
V cg_log(Cg *c, V x) {
  if (cg_has_avx512(c, LLVMTypeOf(x))) return log_x86(c, x);
  if (!has_fma(c)) return log_of_any(c, x);
  V b = cast(c, x, c->i32), y = log_of_normal(c, x, b, NULL);
  LLVMTypeRef it = LLVMTypeOf(b);
  V from_least = cg_iadd(c, b, bits(c, it, 0x7f800000));  // the least normal number becomes the least i32
  V is_rare = cg_icmp(c, LLVMIntSGE, from_least, bits(c, it, 0xff000000));
  return cg_slow_path(c, "log_rare", is_rare, x, y, y, make_log_rare, NULL);
}

V cg_log2(Cg *c, V x) { return cg_has_avx512(c, LLVMTypeOf(x)) ? log_by_table(c, &base_2, x) : cg_log_scaled(c, x, 1); }

V cg_log10(Cg *c, V x) {
  return cg_has_avx512(c, LLVMTypeOf(x)) ? log_by_table(c, &base_10, x) : cg_log_scaled(c, x, 0.30102999566398120);
}

// ln(1 + x) by u = 1 + x, rounded, and what that loses: u + lost = 2^e (1 + f), where e = 0 gives f = x exactly.
// Its sign is that of x, also for -0.
static V log1p_x86(Cg *c, V x) {
  V u = cg_fadd(c, x, k(c, x, 1)), lost = cg_fsub(c, x, cg_fsub(c, u, k(c, x, 1)));
  V m = cg_significand(c, u), e = cg_fsub(c, cg_exponent(c, u), cg_exponent(c, m));
  V rest = cg_scalef(c, lost, cg_fneg(c, e));  // NaN of infinite ones
  rest = cg_select(c, cg_fcmp(c, LLVMRealORD, rest, rest), rest, k(c, x, 0));
  return with_sign(c, log_of_parts(c, e, cg_fadd(c, cg_fsub(c, m, k(c, x, 1)), rest)), x);
}

static void make_log1p_rare(Cg *c, V fn, void *ctx) {
  (void)ctx;
  V x = LLVMGetParam(fn, 0), end = k(c, x, -1), y = log_of_any(c, x);
  y = cg_select(c, cg_fcmp(c, LLVMRealOEQ, x, end), k(c, x, -INFINITY), y);
  y = cg_select(c, cg_fcmp(c, LLVMRealOLT, x, end), k(c, x, NAN), y);
  V is_rare = cg_not(c, cg_both(c, cg_fcmp(c, LLVMRealOGT, x, end), cg_fcmp(c, LLVMRealOLT, x, k(c, x, 0x1p126))));
  LLVMBuildRet(c->b, cg_select(c, is_rare, y, LLVMGetParam(fn, 1)));
}

// Numbers from 2^126 on, whose 2^-e would be none, infinity, NaN, and what is not above -1 are rare.
V cg_ln1p(Cg *c, V x) {
  if (!has_fma(c)) return cg_ln1p_via_double(c, x);
  if (cg_has_avx512(c, LLVMTypeOf(x))) return log1p_x86(c, x);
  V u = cg_fadd(c, x, k(c, x, 1)), lost = cg_fsub(c, x, cg_fsub(c, u, k(c, x, 1)));
  V b = cast(c, u, c->i32);
  LLVMTypeRef it = LLVMTypeOf(b);
  V least = bits(c, it, 0x3f400000), off = cg_isub(c, b, least), power = cg_and(c, off, bits(c, it, 0xff800000));
  V e = cg_sitofp(c, cg_ashr(c, off, bits(c, it, 23)), LLVMTypeOf(x));
  V m = cast(c, cg_isub(c, b, power), c->f32), scale = cast(c, cg_isub(c, bits(c, it, 0x3f800000), power), c->f32);
  V y = with_sign(c, log_of_parts(c, e, cg_fma(c, lost, scale, cg_fsub(c, m, k(c, x, 1)))), x);
  V fits = cg_both(c, cg_fcmp(c, LLVMRealOGT, x, k(c, x, -1)), cg_fcmp(c, LLVMRealOLT, x, k(c, x, 0x1p126)));
  return cg_slow_path(c, "log1p_rare", cg_not(c, fits), x, y, y, make_log1p_rare, NULL);
}
