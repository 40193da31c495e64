// Values of a tridiagonal matrix T, or singular values of a bidiagonal one, by halving: a lane each, all from the same bounds.
//
//   x is above as many eigenvalues of T as these are negative:   t_1 = d_1 - x,  t_i = d_i - x - b_i^2 / t_(i-1)
//   and above as many singular values as these are:              t_i = d_i^2 + s_i,  s_1 = -x^2,
//                                                                s_(i+1) = s_i b_i^2 / t_i - x^2
//
// Both counts are those of a matrix whose elements differ by some roundings. A t of 0 counts as negative, as does one next to 0 where a
// product with its quotient would overflow: x counts as above a value that it is equal to, and nothing becomes NaN.
// Bounds are floats in their order, as integers: a value is found to the last bit of that matrix.
//
// A lane's steps depend on its matrix and the number of its value only: results are in order, and neighbours change no bit.
#include "codegen/linalg/values.h"
#include "codegen/math/primitives.h"

#include <stdio.h>

#define LEAST_SQUARE 0x1p-120
#define LEAST_FLOAT 0x1p-126

typedef struct {
  bool is_singular, by_lanes;
  uint32_t nv;
} Spec;

typedef struct {
  Spec spec;
  V diagonal, beside, n;
} Values;

// ---- floats in their order: negative ones have their lower bits reversed
static V lanes_of(Cg *c, int32_t x) { return cg_splat(c, cg_i32(c, x)); }

static V float_of(Cg *c, V key) {
  V flip = cg_lshr(c, cg_ashr(c, key, lanes_of(c, 31)), lanes_of(c, 1));
  return cg_bitcast(c, cg_xor(c, key, flip), c->vf);
}

static int32_t bits_of(float x) {
  union {
    float f;
    int32_t i;
  } u = {x};
  return u.i;
}

// ---- counting
static V away_from_zero(Cg *c, const Values *s, V t) {
  V least = cg_splat(c, cg_f32(c, s->spec.is_singular ? LEAST_SQUARE : LEAST_FLOAT)),
    size = cg_primitive(c, OP_abs, &t);
  V is_near = s->spec.is_singular ? cg_fcmp(c, LLVMRealOLT, size, least) : cg_fcmp(c, LLVMRealOEQ, t, cg_zeros(c));
  return cg_select(c, is_near, cg_fneg(c, least), t);
}

static V sign_of(Cg *c, V t) { return cg_lshr(c, cg_bitcast(c, t, c->vi32), lanes_of(c, 31)); }

static V entry(Cg *c, const Values *s, V of, V i) {
  return s->spec.by_lanes ? cg_load(c, c->vf, f32_at(c, of, cg_mul(c, i, cg_vl(c))))
                          : cg_splat(c, cg_get(c, c->f32, of, i));
}

// Of nv vectors x each: how many values are not above it
static void count(Cg *c, const Values *s, const V *x, V *counts) {
  uint32_t nv = s->spec.nv;
  bool is_singular = s->spec.is_singular;
  V carried[2 * MOST_VECTORS], minus[MOST_VECTORS];
  for (uint32_t k = 0; k < nv; k++) {
    minus[k] = cg_fneg(c, is_singular ? cg_fmul(c, x[k], x[k]) : x[k]);
    carried[k] = is_singular ? minus[k] : cg_zeros(c), carried[nv + k] = lanes_of(c, 0);
  }
  for (Loop l = cg_carry(c, cg_i64(c, 0), s->n, cg_i64(c, 1), carried, 2 * nv); cg_next(&l);) {
    V d = entry(c, s, s->diagonal, l.i), b = entry(c, s, s->beside, l.i);
    for (uint32_t k = 0; k < nv; k++) {
      V sum = cg_fadd(c, d, is_singular ? carried[k] : cg_fadd(c, minus[k], carried[k]));
      V t = away_from_zero(c, s, sum), quotient = cg_fdiv(c, b, t);
      carried[nv + k] = cg_iadd(c, carried[nv + k], sign_of(c, t));
      carried[k] = is_singular ? cg_fma(c, carried[k], quotient, minus[k]) : cg_fneg(c, quotient);
    }
  }
  for (uint32_t k = 0; k < nv; k++) counts[k] = carried[nv + k];
}

// Vector k: how many values are not above the one that is looked for
static V wanted_of(Cg *c, const Values *s, V first, uint32_t k) {
  V at = cg_add(c, first, cg_i64(c, s->spec.by_lanes ? k : (int64_t)k * c->t->vl)),
    number = cg_splat(c, cg_trunc(c, at, c->i32));
  if (!s->spec.by_lanes) number = cg_iadd(c, number, cg_lane_numbers_of(c->i32, c->t->vl));
  if (!s->spec.is_singular) return cg_iadd(c, number, lanes_of(c, 1));
  return cg_isub(c, cg_splat(c, cg_trunc(c, s->n, c->i32)), number);
}

// void(ptr diagonal, ptr beside, ptr out, i64 n, i64 first): nv vectors of values, from value `first` on
static void make_halving(Cg *c, V fn, void *ctx) {
  Values s = {*(const Spec *)ctx, LLVMGetParam(fn, 0), LLVMGetParam(fn, 1), LLVMGetParam(fn, 3)};
  uint32_t nv = s.spec.nv;
  V first = LLVMGetParam(fn, 4), one = lanes_of(c, 1), bounds[2 * MOST_VECTORS], wanted[MOST_VECTORS];
  for (uint32_t k = 0; k < nv; k++) {
    wanted[k] = wanted_of(c, &s, first, k);
    bounds[k] = lanes_of(c, s.spec.is_singular ? -1 : bits_of(-1) ^ 0x7fffffff),
    bounds[nv + k] = lanes_of(c, bits_of(1));
  }
  for (Loop l = cg_carry(c, cg_i64(c, 0), cg_i64(c, 32), cg_i64(c, 1), bounds, 2 * nv); cg_next(&l);) {
    V middle[MOST_VECTORS], x[MOST_VECTORS], counts[MOST_VECTORS];
    for (uint32_t k = 0; k < nv; k++) {
      V width = cg_isub(c, bounds[nv + k], bounds[k]);
      middle[k] = cg_iadd(c, bounds[k], cg_lshr(c, cg_iadd(c, width, one), one)), x[k] = float_of(c, middle[k]);
    }
    count(c, &s, x, counts);
    for (uint32_t k = 0; k < nv; k++) {
      V is_above = cg_icmp(c, LLVMIntSGE, counts[k], wanted[k]);
      bounds[nv + k] = cg_select(c, is_above, middle[k], bounds[nv + k]);
      bounds[k] = cg_select(c, is_above, bounds[k], middle[k]);
    }
  }
  V unit = s.spec.by_lanes ? cg_vl(c) : cg_i64(c, 1), to = f32_at(c, LLVMGetParam(fn, 2), cg_mul(c, first, unit));
  for (uint32_t k = 0; k < nv; k++) {
    V x = cg_fadd(c, float_of(c, bounds[nv + k]), cg_zeros(c));  // 0 for -0
    cg_store(c, x, f32_at(c, to, cg_i64(c, (int64_t)k * c->t->vl)));
  }
  LLVMBuildRetVoid(c->b);
}

static void halve(Cg *c, const CgBisect *b, V first, uint32_t nv) {
  Spec spec = {b->is_singular, b->by_lanes, nv};
  char name[48];
  snprintf(name, sizeof name, "%s_values%s.%u", b->is_singular ? "singular" : "eigen", b->by_lanes ? ".by_lanes" : "",
           nv);
  V arg[] = {b->diagonal, b->beside, b->out, b->n, first};
  cg_call_helper(c, name, arg, 5, make_halving, &spec);
}

void cg_bisect(Cg *c, const CgBisect *b) {
  int64_t unit = b->by_lanes ? 1 : c->t->vl, left_in;
  V whole;
  for (Loop l = cg_each_whole(c, cg_i64(c, 0), b->n, MOST_VECTORS * unit, &whole); cg_next(&l);)
    halve(c, b, l.i, MOST_VECTORS);
  V left = cg_ceil_div_value(c, cg_sub(c, b->n, whole), unit);
  bool is_known = cg_const_value(left, &left_in);
  for (uint32_t nv = 1; nv <= MOST_VECTORS; nv++) {
    if (is_known && left_in != nv) continue;
    for (If some = cg_when(c, cg_eq(c, left, cg_i64(c, nv))); cg_then(&some);) halve(c, b, whole, nv);
  }
}
