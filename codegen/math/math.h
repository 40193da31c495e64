// Builders for the primitives of pointwise ops, on scalars and on vectors of any number of lanes: the type comes from an
// operand. Operands that emit code are built one statement at a time, because C leaves the order of arguments open.
#ifndef TN_CODEGEN_MATH_MATH_H
#define TN_CODEGEN_MATH_MATH_H

#include "codegen/cg.h"

static inline bool is_vector(LLVMTypeRef t) { return LLVMGetTypeKind(t) == LLVMVectorTypeKind; }

// `scalar` with as many lanes as t.
static inline LLVMTypeRef lanes_like(LLVMTypeRef t, LLVMTypeRef scalar) {
  return is_vector(t) ? LLVMVectorType(scalar, LLVMGetVectorSize(t)) : scalar;
}

static inline V spread(Cg *c, LLVMTypeRef t, V scalar) {
  return is_vector(t) ? cg_splat_n(c, scalar, LLVMGetVectorSize(t)) : scalar;
}

static inline V num(Cg *c, LLVMTypeRef t, double v) {
  LLVMTypeRef e = is_vector(t) ? LLVMGetElementType(t) : t;
  return spread(c, t, e == c->f32 ? cg_f32(c, v) : LLVMConstReal(e, v));
}

static inline V bits(Cg *c, LLVMTypeRef t, uint64_t v) {
  LLVMTypeRef e = is_vector(t) ? LLVMGetElementType(t) : t;
  return spread(c, t, LLVMConstInt(e, v, false));
}

static inline V k(Cg *c, V like, double v) { return num(c, LLVMTypeOf(like), v); }
static inline V cast(Cg *c, V a, LLVMTypeRef scalar) {
  return LLVMBuildBitCast(c->b, a, lanes_like(LLVMTypeOf(a), scalar), "");
}
static inline V fabs_of(Cg *c, V a) {
  LLVMTypeRef t = LLVMTypeOf(a);
  return cg_call_intrinsic(c, "llvm.fabs", &t, 1, &a, 1);
}
static inline V sqrt_of(Cg *c, V a) {
  LLVMTypeRef t = LLVMTypeOf(a);
  return cg_call_intrinsic(c, "llvm.sqrt", &t, 1, &a, 1);
}

static inline V with_sign(Cg *c, V magnitude, V sign) {
  LLVMTypeRef t = LLVMTypeOf(magnitude);
  return cg_call_intrinsic(c, "llvm.copysign", &t, 1, (V[]){magnitude, sign}, 2);
}

// Without FMA, cg_fma rounds twice.
static inline bool has_fma(const Cg *c) { return c->t->has_fma; }

// Bounds that let NaN through.
static inline V at_most(Cg *c, V a, double hi) {
  return cg_select(c, cg_fcmp(c, LLVMRealOGT, a, k(c, a, hi)), k(c, a, hi), a);
}
static inline V at_least(Cg *c, V a, double lo) {
  return cg_select(c, cg_fcmp(c, LLVMRealOLT, a, k(c, a, lo)), k(c, a, lo), a);
}

// Of positive normal doubles d = m 2^e with m in [sqrt 1/2, sqrt 2): e, and (m - 1) / (m + 1), of whose odd powers ln m is made.
V cg_log_parts(Cg *c, V d, V *e);

// coef[0] + coef[1] x + ..
static inline V poly(Cg *c, V x, const double *coef, uint32_t n) {
  V y = k(c, x, coef[n - 1]);
  for (uint32_t i = n - 1; i-- > 0;) y = cg_fma(c, y, x, k(c, x, coef[i]));
  return y;
}
#define POLY(c, x, ...) \
  poly((c), (x), (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

// ---- primitives.c
// x = n ln 2 + r, |r| <= ln 2 / 2: what the primitives share. *n is n + EXP_BIAS as i32, whose low bits are those of n;
// whole is n as a float.
enum { EXP_BIAS = 0x4B400000 };
V cg_reduce_exp(Cg *c, V x, V *n, V *whole);
V cg_sin_quadrant(Cg *c, V r, V quadrant);  // sin(r + quadrant pi/2) for |r| <= pi/4; quadrant i32

V cg_exp2(Cg *c, V x);
V cg_log(Cg *c, V x);
V cg_log2(Cg *c, V x);
V cg_log10(Cg *c, V x);
V cg_log1p(Cg *c, V t);  // ln(1 + t), t in [0, 1]
V cg_floor(Cg *c, V x);
V cg_round(Cg *c, V x);  // to the nearest integer, of two the even one
// x = n pi/2 + r for |x| <= 10^6, |r| <= pi/4: r in doubles, n as i32.
V cg_reduce_trig(Cg *c, V x, V *n);
// Likewise in floats, with fused multiply-adds; the two low bits of n are the quadrant. r is off by a unit; or it is r + lost.
V cg_reduce_trig_single(Cg *c, V x, V *n);
V cg_reduce_trig_exactly(Cg *c, V x, V *n, V *lost);

// ---- via_double.c: primitives that work in doubles
static inline V cg_widen(Cg *c, V x) { return LLVMBuildFPExt(c->b, x, lanes_like(LLVMTypeOf(x), c->f64), ""); }
static inline V cg_narrow(Cg *c, V x, V like) { return LLVMBuildFPTrunc(c->b, x, LLVMTypeOf(like), ""); }
// Of doubles that are no denormals. Logarithms are off by about 2^-37 of the result (fast: 2^-30); 0, negative numbers,
// infinity and NaN give C's results.
V cg_log2_double(Cg *c, V d);
V cg_log_double(Cg *c, V d);
V cg_log1p_double(Cg *c, V d);
V cg_exp2_double(Cg *c, V t);  // |t| <= 300, or NaN; off by 2e-10
V cg_exp_double(Cg *c, V x);   // |x| <= 700, or NaN; off by 2e-9
V cg_pow(Cg *c, V a, V b);
bool cg_is_number(V b, double *value);      // the constant of all lanes of b, if it is known
V cg_log_scaled(Cg *c, V a, double scale);  // log2 a times `scale`
V cg_hypot(Cg *c, V a, V b);
V cg_erfc(Cg *c, V a);
V cg_erfinv(Cg *c, V a);
V cg_gelu_via_double(Cg *c, V a);
V cg_silu_via_double(Cg *c, V a);
V cg_softplus_via_double(Cg *c, V a);

// ---- integers.c: ops on operands of t, an integer or bool: primitives, and quotients, whose rows are of floats
static inline bool cg_is_quotient(Op op) { return op == OP_trunc_divide || op == OP_floor_divide; }
V cg_integer_op(Cg *c, DType t, Op op, V *arg);

// ---- sqrt.c
V cg_sqrt(Cg *c, V x);

// ---- gelu_table.c
V cg_gelu(Cg *c, V a);

// ---- fast_math.c: a shorter primitive of at most 16 ulp where the target and the options have one, else NULL
V cg_fast_primitive(Cg *c, Op op, V x);

// ---- slow_path.c: a path for rare arguments
V cg_slow_path(Cg *c, const char *name, V lanes, V x, V y, V otherwise, void (*make)(Cg *c, V fn, void *ctx),
               void *ctx);

// ---- trig_large.c: sine (0), cosine (1) and tangent (2) of arguments of any size; y is the result for |x| <= 10^6
enum { TRIG_SIN, TRIG_COS, TRIG_TAN };
V cg_trig_large(Cg *c, V x, V y, uint32_t what);

// ---- trig_inverse.c, and the tangent
V cg_tan_quadrant(Cg *c, V r, V quadrant);  // tan(r + quadrant pi/2) for |r| <= pi/4, r doubles; quadrant i32
V cg_tan(Cg *c, V x);
V cg_atan(Cg *c, V x);
V cg_atan2(Cg *c, V y, V x);
V cg_asin(Cg *c, V x);
V cg_acos(Cg *c, V x);

// ---- hyperbolic.c
V cg_expm1(Cg *c, V x);
V cg_ln1p(Cg *c, V x);
V cg_ln1p_via_double(Cg *c, V x);
V cg_sinh(Cg *c, V x);
V cg_cosh(Cg *c, V x);
V cg_asinh(Cg *c, V x);
V cg_acosh(Cg *c, V x);
V cg_atanh(Cg *c, V x);

// ---- gamma.c
V cg_lgamma(Cg *c, V a);
V cg_digamma(Cg *c, V a);
V cg_polygamma(Cg *c, V order, V a);

// ---- remainder.c
V cg_fmod(Cg *c, V a, V b);

#endif
