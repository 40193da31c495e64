// Products of few rows with a matrix that is stored [N, K], as dot products: B is read once, in place, nothing is
// packed.
//
//   tile: `mr` rows of A x `nr` rows of B, one accumulator each; lane j of it sums the k with k % vl == j. At the end
//   the lanes of vl accumulators are added at once, by halves, into one vector of vl results.
//
// A unit is vl columns of the result; its sums lie in `piece` as [m][vl] until bias and epilogue are done.
#include "codegen/gemm.h"

#include <stdio.h>

enum { MOST_COLUMNS = 8, MAX_ACC = 16 };

static uint32_t accumulators(const Target *t) { return t->vl >= 16 ? 16 : 8; }
uint32_t cg_dot_rows(const Target *t) { return accumulators(t) / 2; }

static uint32_t columns_of(const Target *t, uint32_t mr) {
  uint32_t nr = 1;
  while (nr * 2 * mr <= accumulators(t) && nr < MOST_COLUMNS && nr < t->vl) nr *= 2;
  return nr;
}

// ---- sums over the lanes of several vectors at once
// x and y hold `groups` groups of partial sums each; the result has the groups of x, then those of y, half as wide.
static LLVMValueRef halve(Cg *c, LLVMValueRef x, LLVMValueRef y, uint32_t groups) {
  uint32_t vl = c->t->vl, wide = vl / groups, n = 0;
  LLVMValueRef lo[64], hi[64];
  for (uint32_t v = 0; v < 2; v++)
    for (uint32_t g = 0; g < groups; g++)
      for (uint32_t l = 0; l < wide / 2; l++, n++) {
        lo[n] = cg_i32(c, (int32_t)(v * vl + g * wide + l));
        hi[n] = cg_i32(c, (int32_t)(v * vl + g * wide + wide / 2 + l));
      }
  LLVMValueRef a = LLVMBuildShuffleVector(c->b, x, y, LLVMConstVector(lo, vl), "");
  LLVMValueRef b = LLVMBuildShuffleVector(c->b, x, y, LLVMConstVector(hi, vl), "");
  return LLVMBuildFAdd(c->b, a, b, "");
}

// Lane i: the sum of v[i]. n <= vl; v is overwritten.
static LLVMValueRef sums_of(Cg *c, LLVMValueRef *v, uint32_t n) {
  for (uint32_t groups = 1; groups < c->t->vl; groups *= 2, n = (n + 1) / 2)
    for (uint32_t i = 0; i < n; i += 2) v[i / 2] = halve(c, v[i], i + 1 < n ? v[i + 1] : v[i], groups);
  return v[0];
}

// ---- the tile
typedef struct {
  uint32_t mr, nr;
} DotSpec;
enum { D_A, D_B, D_TO, D_K, D_THERE, D_PARAMS };  // there: rows of B that exist, at least 1; the last one stands in

static void step(Cg *c, const DotSpec *s, LLVMValueRef *a, LLVMValueRef *b, LLVMValueRef k, LLVMValueRef mask,
                 LLVMValueRef *acc) {
  LLVMValueRef x[MAX_ACC], y[MAX_ACC];
  for (uint32_t j = 0; j < s->nr; j++) {
    LLVMValueRef at = cg_at(c, c->f32, b[j], k);
    y[j] = mask ? cg_load_masked(c, c->vf, at, mask) : cg_load(c, c->vf, at);
  }
  for (uint32_t m = 0; m < s->mr; m++) {
    LLVMValueRef at = cg_at(c, c->f32, a[m], k);
    x[m] = mask ? cg_load_masked(c, c->vf, at, mask) : cg_load(c, c->vf, at);
    for (uint32_t j = 0; j < s->nr; j++) acc[m * s->nr + j] = cg_fma(c, x[m], y[j], acc[m * s->nr + j]);
  }
}

static void store_sums(Cg *c, const DotSpec *s, LLVMValueRef *acc, LLVMValueRef to) {
  uint32_t vl = c->t->vl, n = s->mr * s->nr;
  for (uint32_t e = 0; e < n; e += vl) {
    uint32_t here = n - e < vl ? n - e : vl;
    LLVMValueRef sums = sums_of(c, acc + e, here);
    for (uint32_t i = 0; i < here; i += s->nr) {
      LLVMValueRef lane[MAX_ACC], row = sums;
      for (uint32_t j = 0; j < s->nr; j++) lane[j] = cg_i32(c, (int32_t)(i + j));
      if (s->nr < vl) row = LLVMBuildShuffleVector(c->b, sums, LLVMGetPoison(c->vf), LLVMConstVector(lane, s->nr), "");
      cg_store(c, row, cg_at(c, c->f32, to, cg_i64(c, (int64_t)((e + i) / s->nr) * vl)));
    }
  }
}

static void make_dot(Cg *c, LLVMValueRef fn, void *ctx) {
  const DotSpec *s = ctx;
  LLVMValueRef arg[D_PARAMS], a[MAX_ACC], b[MAX_ACC], acc[MAX_ACC];
  for (uint32_t i = 0; i < D_PARAMS; i++) arg[i] = LLVMGetParam(fn, i);
  LLVMValueRef last = cg_sub(c, arg[D_THERE], cg_i64(c, 1)), vl = cg_i64(c, c->t->vl);
  for (uint32_t m = 0; m < s->mr; m++) a[m] = cg_at(c, c->f32, arg[D_A], cg_mul(c, cg_i64(c, m), arg[D_K]));
  for (uint32_t j = 0; j < s->nr; j++)
    b[j] = cg_at(c, c->f32, arg[D_B], cg_mul(c, cg_min(c, cg_i64(c, j), last), arg[D_K]));
  for (uint32_t e = 0; e < s->mr * s->nr; e++) acc[e] = cg_splat(c, cg_f32(c, 0));
  LLVMValueRef rest = cg_gemm_rem(c, arg[D_K], vl), whole = cg_sub(c, arg[D_K], rest);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), whole, vl, acc, s->mr * s->nr);
  for (uint32_t e = 0; e < s->mr * s->nr; e++) acc[e] = l.carry[e];
  step(c, s, a, b, l.i, NULL, acc);
  cg_loop_end(c, &l, acc);
  for (uint32_t e = 0; e < s->mr * s->nr; e++) acc[e] = l.out[e];
  cg_loop_begin(c, &l, whole, arg[D_K], vl, acc, s->mr * s->nr);  // once or not at all
  for (uint32_t e = 0; e < s->mr * s->nr; e++) acc[e] = l.carry[e];
  step(c, s, a, b, whole, cg_mask(c, rest), acc);
  cg_loop_end(c, &l, acc);
  for (uint32_t e = 0; e < s->mr * s->nr; e++) acc[e] = l.out[e];
  store_sums(c, s, acc, arg[D_TO]);
  LLVMBuildRetVoid(c->b);
}

static void call_dot(Cg *c, DotSpec s, LLVMValueRef *arg) {
  LLVMTypeRef types[D_PARAMS] = {c->ptr, c->ptr, c->ptr, c->i64, c->i64};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), types, D_PARAMS, false);
  char name[32];
  snprintf(name, sizeof name, "dot%ux%u", s.mr, s.nr);
  LLVMBuildCall2(c->b, type, cg_helper(c, name, type, make_dot, &s), arg, D_PARAMS, "");
}

// ---- a unit
// `count` tiles of mr rows from row m0 on, against nr rows of B.
static void tile_rows(Gemm *g, DotSpec s, LLVMValueRef m0, LLVMValueRef count, LLVMValueRef b, LLVMValueRef column,
                      LLVMValueRef there) {
  Cg *c = g->c;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), count, cg_i64(c, 1), NULL, 0);
  LLVMValueRef m = cg_add(c, m0, cg_mul(c, l.i, cg_i64(c, s.mr)));
  LLVMValueRef to = cg_add(c, cg_mul(c, m, cg_i64(c, g->p->width)), column);
  LLVMValueRef arg[D_PARAMS] = {cg_at(c, c->f32, g->a, cg_mul(c, m, g->k)), b, cg_at(c, c->f32, g->piece, to), g->k,
                                there};
  call_dot(c, s, arg);
  cg_loop_end(c, &l, NULL);
}

static void unit_sums(Gemm *g, LLVMValueRef n0, LLVMValueRef n) {
  Cg *c = g->c;
  uint32_t mr = g->p->mr, nr = columns_of(c->t, mr);
  LLVMValueRef full = cg_div(c, g->m, cg_i64(c, mr)), done = cg_mul(c, full, cg_i64(c, mr)),
               left = cg_sub(c, g->m, done);
  int64_t known;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), n, cg_i64(c, nr), NULL, 0);
  LLVMValueRef b = cg_at(c, c->f32, g->b, cg_mul(c, cg_add(c, n0, l.i), g->k)), there = cg_sub(c, n, l.i);
  tile_rows(g, (DotSpec){mr, nr}, cg_i64(c, 0), full, b, l.i, there);
  if (!cg_const_value(left, &known)) tile_rows(g, (DotSpec){1, nr}, done, left, b, l.i, there);
  else if (known) tile_rows(g, (DotSpec){(uint32_t)known, nr}, done, cg_i64(c, 1), b, l.i, there);
  cg_loop_end(c, &l, NULL);
}

// Bias onto the sums, and without an epilogue the way out.
static void unit_rows(Gemm *g, LLVMValueRef n0, LLVMValueRef n) {
  Cg *c = g->c;
  if (g->epilogue && !g->bias) return;
  LLVMValueRef mask = cg_mask(c, n), bias = NULL;
  if (g->bias) bias = cg_load_masked(c, c->vf, cg_at(c, c->f32, g->bias, n0), mask);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), g->m, cg_i64(c, 1), NULL, 0);
  LLVMValueRef at = cg_at(c, c->f32, g->piece, cg_mul(c, l.i, cg_i64(c, g->p->width))), sums = cg_load(c, c->vf, at);
  if (bias) sums = LLVMBuildFAdd(c->b, sums, bias, "");
  if (g->epilogue) cg_store(c, sums, at);
  else cg_store_masked(c, sums, cg_at(c, c->f32, g->out, cg_add(c, cg_mul(c, l.i, g->n), n0)), mask);
  cg_loop_end(c, &l, NULL);
}

void cg_gemm_emit_dot(Gemm *g) {
  Cg *c = g->c;
  LLVMValueRef width = cg_i64(c, g->p->width), lo, hi;
  cg_share(c, g->panels, 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef n0 = cg_mul(c, l.i, width), n = cg_min(c, width, cg_sub(c, g->n, n0));
  unit_sums(g, n0, n);
  unit_rows(g, n0, n);
  if (g->epilogue) cg_gemm_finish(g, cg_i64(c, 0), g->m, n0, n, g->piece, width);
  cg_loop_end(c, &l, NULL);
}
