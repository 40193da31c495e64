// Dot products of rows of A with rows of B stored [N, K] (gemm.h): what strategies skinny, gemv and gemv_registers
// share.
#include "codegen/gemm/gemm.h"
#include "codegen/tuning.h"

enum { TUNED_DOT(TUNE) };

bool cg_gemm_is_skinny(const GemmPlan *p, const Target *t) {
  if (p->pack_b == B_PREPACKED || (p->batch.n && p->prologue))
    return false;  // a product with a prologue has a single matrix
  return p->tb && !p->ta && p->m_max <= MOST_ROWS && p->k_max >= t->vl;
}

// KC: a tile's rows of A stay in L1, and a lane sums few terms.
void cg_gemm_plan_dot(GemmPlan *p, const Target *t) {
  p->nv = 1, p->width = t->vl;
  p->mr = cg_tile_height(p->m_max, t->dot_accumulators / 2);
  int64_t in_l1 = ir_f32_in(t->facts.l1_bytes / 2) / (int64_t)p->mr, of_lane = CG_GEMM_LANE_TERMS * (int64_t)t->vl;
  p->kc = cg_gemm_even_kc(p->k_slice ? p->k_slice : p->k_max, cg_smaller(in_l1, of_lane), t->vl);
  p->units = cg_ceil_div(p->n_max, p->width);
}

// ---- sums over the lanes of several vectors at once
// x and y hold `groups` groups of partial sums each; the result has the groups of x, then those of y, half as wide.
static V halve(Cg *c, V x, V y, uint32_t groups) {
  uint32_t vl = c->t->vl, wide = vl / groups, n = 0;
  uint32_t lo[64], hi[64];
  for (uint32_t v = 0; v < 2; v++)
    for (uint32_t g = 0; g < groups; g++)
      for (uint32_t l = 0; l < wide / 2; l++, n++) {
        lo[n] = v * vl + g * wide + l;
        hi[n] = lo[n] + wide / 2;
      }
  V a = cg_shuffle(c, x, y, lo, vl), b = cg_shuffle(c, x, y, hi, vl);
  return cg_fadd(c, a, b);
}

V cg_dot_sums(Cg *c, V *v, uint32_t n) {
  for (uint32_t groups = 1; groups < c->t->vl; groups *= 2, n = (n + 1) / 2)
    for (uint32_t i = 0; i < n; i += 2) v[i / 2] = halve(c, v[i], i + 1 < n ? v[i + 1] : v[i], groups);
  return v[0];
}

// ---- a row's results
void cg_gemm_store_row(Gemm *g, V n0, V n, V mask, V sums) {
  Cg *c = g->c;
  if (g->bias) {
    V at = cg_at(c, c->f32, g->bias, n0);
    sums = cg_fadd(c, cg_load_masked(c, c->vf, at, mask), sums);
  }
  if (g->epilogue) {
    cg_store(c, sums, g->strip);
    cg_gemm_epilogue(g, cg_i64(c, 0), cg_i64(c, 1), n0, n, g->strip, cg_i64(c, g->p->width));
    return;
  }
  V to = cg_at(c, c->f32, g->out, n0);
  if (mask) cg_store_masked(c, sums, to, mask);
  else cg_store(c, sums, to);
}

void cg_gemm_store_rows(Gemm *g, V n0, V n) {
  Cg *c = g->c;
  V width = cg_i64(c, g->p->width), mask = cg_mask(c, n);
  V bias = g->bias ? cg_get_masked(c, c->vf, g->bias, n0, mask) : NULL;
  for (Loop l = cg_count(c, g->m); cg_next(&l);) {
    V at = cg_row(c, g->strip, l.i, width), sums = cg_load(c, c->vf, at);
    if (bias) sums = cg_fadd(c, bias, sums);
    if (g->epilogue) cg_store(c, sums, at);
    else cg_put_masked(c, sums, g->out, cg_index(c, l.i, g->n, n0), mask);
  }
  if (g->epilogue) cg_gemm_epilogue(g, cg_i64(c, 0), g->m, n0, n, g->strip, width);
}
