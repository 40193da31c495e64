// Strategy gemv_registers: a row with a small matrix that is stored [N, K], all sizes constant. vl rows of B are read
// side by side, and sums stay in registers until they are results: no call, and no memory in between
// (docs/experiments/003).
#include "codegen/gemm/gemm.h"

enum { UNROLL = 4, MAX_LANES = 64 };  // UNROLL: vectors of k without a loop

bool cg_gemm_gemv_registers_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  bool constant = ir_dim_is_const(f->prog, p->n) && ir_dim_is_const(f->prog, p->k) && cg_gemm_is_one_row(f, p);
  bool few_terms = p->k_max <= CG_GEMM_LANE_TERMS * (int64_t)t->vl;  // longer ones have KC blocks (dot.c)
  return constant && few_terms && p->single_threaded && !p->batch.n && cg_gemm_is_skinny(p, t);
}

void cg_gemm_gemv_registers_plan(const Fn *f, GemmPlan *p, const Target *t) {
  (void)f;
  cg_gemm_plan_dot(p, t);
}

void cg_gemm_gemv_registers_stack(Gemm *g) { g->strip = cg_gemm_on_stack(g->c, g->p->width); }

// acc[j] += elements k .. of the row times those of b[j].
static void step(Gemm *g, uint32_t nr, V *b, V k, V mask, V *acc) {
  Cg *c = g->c;
  V y[MAX_LANES + 1];
  for (uint32_t j = 0; j <= nr; j++) {  // the row last
    V at = cg_at(c, c->f32, j < nr ? b[j] : g->a, k);
    y[j] = cg_load_masked(c, c->vf, at, mask);
  }
  for (uint32_t j = 0; j < nr; j++) acc[j] = cg_fma(c, y[nr], y[j], acc[j]);
}

// Lane j: the dot product of the row with row n0 + j of B; nr of them.
static V row_sums(Gemm *g, V n0, uint32_t nr) {
  Cg *c = g->c;
  int64_t k = g->p->k_max, vl = c->t->vl, whole = k / vl * vl;
  V acc[MAX_LANES], b[MAX_LANES];
  for (uint32_t j = 0; j < nr; j++) {
    acc[j] = cg_zeros(c);
    b[j] = cg_row(c, g->b, cg_add(c, n0, cg_i64(c, j)), cg_i64(c, k));
  }
  if (whole / vl <= UNROLL) {
    for (int64_t i = 0; i < whole; i += vl) step(g, nr, b, cg_i64(c, i), NULL, acc);
  } else {
    for (Loop l = cg_carry(c, cg_i64(c, 0), cg_i64(c, whole), cg_i64(c, vl), acc, nr); cg_next(&l);)
      step(g, nr, b, l.i, NULL, acc);
  }
  if (whole < k) step(g, nr, b, cg_i64(c, whole), cg_mask(c, cg_i64(c, k - whole)), acc);
  return cg_dot_sums(c, acc, nr);
}

static void row_unit(Gemm *g, V n0, uint32_t nr) {
  Cg *c = g->c;
  V n = cg_i64(c, nr), mask = nr < c->t->vl ? cg_mask(c, n) : NULL;
  cg_gemm_store_row(g, n0, n, mask, row_sums(g, n0, nr));
}

void cg_gemm_gemv_registers_emit(Gemm *g) {
  Cg *c = g->c;
  int64_t vl = c->t->vl, whole = g->p->n_max / vl * vl;
  for (Loop l = cg_count_by(c, cg_i64(c, whole), cg_i64(c, vl)); cg_next(&l);) row_unit(g, l.i, (uint32_t)vl);
  if (whole < g->p->n_max) row_unit(g, cg_i64(c, whole), (uint32_t)(g->p->n_max - whole));
}
