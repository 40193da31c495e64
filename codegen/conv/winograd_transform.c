// The transforms of Winograd's convolution (winograd.h), of vectors: along columns, then along rows.
#include "codegen/conv/winograd.h"

#include <stdio.h>

// The interpolation points are 0, +-NEAR, +-FAR and infinity.
#define NEAR 0.75
#define FAR 1.5
#define SQUARE(x) ((x) * (x))
#define CUBE(x) ((x) * (x) * (x))

static V scale(Cg *c, double k, V a) { return cg_fmul(c, cg_splat(c, cg_f32(c, k)), a); }
static V plus(Cg *c, V a, double k, V b) { return cg_fma(c, cg_splat(c, cg_f32(c, k)), b, a); }  // a + k b

// ---- along one axis. A pair of points of both signs shares what is even and what is odd in the point.
// B^T: rows are the coefficients of the product of x - point over all other points.
static void source(Cg *c, const V *d, V *out) {
  static const double points[2] = {NEAR, FAR};
  double both = SQUARE(NEAR) * SQUARE(FAR), sum = SQUARE(NEAR) + SQUARE(FAR);
  out[0] = plus(c, plus(c, d[4], -sum, d[2]), both, d[0]);
  for (uint32_t k = 0; k < 2; k++) {
    double other = SQUARE(points[1 - k]);
    V even = plus(c, d[4], -other, d[2]), odd = plus(c, d[3], -other, d[1]);
    out[1 + 2 * k] = plus(c, even, points[k], odd);
    out[2 + 2 * k] = plus(c, even, -points[k], odd);
  }
  out[5] = plus(c, plus(c, d[5], -sum, d[3]), both, d[1]);
}

// What the weight is divided by at a point: the product of its distances from the others.
static double divisor(double point, double other) { return 2 * SQUARE(point) * (SQUARE(point) - SQUARE(other)); }

// G
static void weight(Cg *c, const V *g, V *out) {
  static const double points[2] = {NEAR, FAR};
  out[0] = scale(c, 1 / (SQUARE(NEAR) * SQUARE(FAR)), g[0]);
  for (uint32_t k = 0; k < 2; k++) {
    double by = divisor(points[k], points[1 - k]);
    V even = plus(c, scale(c, 1 / by, g[0]), SQUARE(points[k]) / by, g[2]), odd = scale(c, points[k] / by, g[1]);
    out[1 + 2 * k] = cg_fadd(c, even, odd);
    out[2 + 2 * k] = cg_fsub(c, even, odd);
  }
  out[5] = g[2];
}

// A^T: powers of the points.
static void result(Cg *c, const V *m, V *out) {
  V s = cg_fadd(c, m[1], m[2]), d = cg_fsub(c, m[1], m[2]), far_s = cg_fadd(c, m[3], m[4]),
    far_d = cg_fsub(c, m[3], m[4]);
  out[0] = cg_fadd(c, cg_fadd(c, m[0], s), far_s);
  out[1] = plus(c, scale(c, NEAR, d), FAR, far_d);
  out[2] = plus(c, scale(c, SQUARE(NEAR), s), SQUARE(FAR), far_s);
  out[3] = plus(c, plus(c, m[5], CUBE(NEAR), d), CUBE(FAR), far_d);
}

// A
static void gradient(Cg *c, const V *y, V *out) {
  static const double points[2] = {NEAR, FAR};
  out[0] = y[0];
  for (uint32_t k = 0; k < 2; k++) {
    V even = plus(c, y[0], SQUARE(points[k]), y[2]), odd = plus(c, y[1], SQUARE(points[k]), y[3]);
    out[1 + 2 * k] = plus(c, even, points[k], odd);
    out[2 + 2 * k] = plus(c, even, -points[k], odd);
  }
  out[5] = y[3];
}

// G^T
static void weight_gradient(Cg *c, const V *u, V *out) {
  double near = divisor(NEAR, FAR), far = divisor(FAR, NEAR);
  V s = cg_fadd(c, u[1], u[2]), d = cg_fsub(c, u[1], u[2]), far_s = cg_fadd(c, u[3], u[4]),
    far_d = cg_fsub(c, u[3], u[4]);
  out[0] = plus(c, plus(c, scale(c, 1 / (SQUARE(NEAR) * SQUARE(FAR)), u[0]), 1 / near, s), 1 / far, far_s);
  out[1] = plus(c, scale(c, NEAR / near, d), FAR / far, far_d);
  out[2] = plus(c, plus(c, u[5], SQUARE(NEAR) / near, s), SQUARE(FAR) / far, far_s);
}

// ---- along both
typedef struct {
  const char *name;
  void (*along)(Cg *c, const V *in, V *out);
  uint32_t n_in, n_out;
} Transform;
static const Transform transforms[] = {
    [TRANSFORM_SOURCE] = {"source", source, WINOGRAD_SOURCE, WINOGRAD_SOURCE},
    [TRANSFORM_WEIGHT] = {"weight", weight, WINOGRAD_TAPS, WINOGRAD_SOURCE},
    [TRANSFORM_RESULT] = {"result", result, WINOGRAD_SOURCE, WINOGRAD_TILE},
    [TRANSFORM_GRADIENT] = {"gradient", gradient, WINOGRAD_TILE, WINOGRAD_SOURCE},
    [TRANSFORM_WEIGHT_GRADIENT] = {"weight_gradient", weight_gradient, WINOGRAD_SOURCE, WINOGRAD_TAPS},
};

typedef struct {
  const Transform *t;
  int64_t from, to;  // strides; 0: tables
  bool masked;       // the last vector is
} Spec;

static V place(Cg *c, V side, int64_t stride, uint32_t n, uint32_t row, uint32_t column, V channel) {
  int64_t k = (int64_t)row * n + column, in_table = (int64_t)row * WINOGRAD_TABLE_ROW + column;
  if (stride) return cg_at(c, c->f32, side, cg_add(c, cg_i64(c, k * stride), channel));
  return cg_at(c, c->f32, cg_load(c, c->ptr, cg_at(c, c->ptr, side, cg_i64(c, in_table))), channel);
}

// One vector of channels. mask NULL: all of it.
static void vector(Cg *c, const Spec *s, V from, V to, V channel, V mask) {
  const Transform *t = s->t;
  V half[WINOGRAD_SOURCE][WINOGRAD_SOURCE];  // [row of the result][column of the source]
  for (uint32_t j = 0; j < t->n_in; j++) {
    V x[WINOGRAD_SOURCE], y[WINOGRAD_SOURCE];
    for (uint32_t i = 0; i < t->n_in; i++) {
      V at = place(c, from, s->from, t->n_in, i, j, channel);
      x[i] = mask && !s->from ? cg_load_masked(c, c->vf, at, mask) : cg_load(c, c->vf, at);
    }
    t->along(c, x, y);
    for (uint32_t i = 0; i < t->n_out; i++) half[i][j] = y[i];
  }
  for (uint32_t i = 0; i < t->n_out; i++) {
    V y[WINOGRAD_SOURCE];
    t->along(c, half[i], y);
    for (uint32_t j = 0; j < t->n_out; j++) {
      V at = place(c, to, s->to, t->n_out, i, j, channel);
      if (mask && !s->to) cg_store_masked(c, y[j], at, mask);
      else cg_store(c, y[j], at);
    }
  }
}

// Parameters: from, to, channels.
static void make_transform(Cg *c, V fn, void *ctx) {
  const Spec *s = ctx;
  V from = LLVMGetParam(fn, 0), to = LLVMGetParam(fn, 1), n = LLVMGetParam(fn, 2), vl = cg_i64(c, c->t->vl);
  V whole = s->masked ? cg_mul(c, cg_div(c, n, vl), vl) : n;
  for (Loop l = cg_each_by(c, cg_i64(c, 0), whole, vl); cg_next(&l);) vector(c, s, from, to, l.i, NULL);
  if (s->masked) {
    V left = cg_sub(c, n, whole);
    for (If some = cg_when(c, cg_ne(c, left, cg_i64(c, 0))); cg_then(&some);)
      vector(c, s, from, to, whole, cg_mask(c, left));
  }
  LLVMBuildRetVoid(c->b);
}

void cg_winograd_transform(Cg *c, WinogradTransform kind, WinogradSide from, WinogradSide to, V channels, bool ragged) {
  Spec s = {.t = &transforms[kind], .from = from.stride, .to = to.stride, .masked = ragged};
  char name[96];
  snprintf(name, sizeof name, "winograd.%s.%lld.%lld%s", s.t->name, (long long)s.from, (long long)s.to,
           s.masked ? ".m" : "");
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), (LLVMTypeRef[]){c->ptr, c->ptr, c->i64}, 3, false);
  V arg[] = {from.at, to.at, channels};
  LLVMBuildCall2(c->b, type, cg_helper(c, name, type, make_transform, &s), arg, 3, "");
}
