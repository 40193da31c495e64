// Strategy blas: products by the library, serial, inside a worker.
#include "codegen/gemm/gemm.h"
#include "codegen/span.h"
#include "codegen/tuning.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { TUNED_BLAS(TUNE) };
enum {
  BLAS_ROWS = 64  // rows of a unit; fixed, so that bits do not depend on the team
};

GemmBy cg_gemm_choose(int64_t m, int64_t n, int64_t k, const Target *t) {
  const char *by = getenv("TN_GEMM");
  if (t->without_blas) return GEMM_OWN;
  if (by && !strcmp(by, "own")) return GEMM_OWN;
  if (by && !strcmp(by, "blas")) return GEMM_BLAS;
  return t->prefers_blas && (double)m * (double)n * (double)k >= BLAS_FMAS ? GEMM_BLAS : GEMM_OWN;
}

bool cg_gemm_blas_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  (void)f;
  return cg_gemm_choose(p->m_max, p->n_max, p->k_max, t) == GEMM_BLAS;
}

void cg_gemm_blas_plan(const Fn *f, GemmPlan *p, const Target *t) {
  (void)f;
  p->width = t->vl;  // no panels: columns of a vector of the bias
}

void cg_gemm_blas_stack(Gemm *g) { (void)g; }

// C starts as the bias or as zeros.
static void prefill(Gemm *g, V first, V rows) {
  Cg *c = g->c;
  for (Loop row = cg_count(c, rows); cg_next(&row);)
    for (Span s = cg_span_masked(c, cg_i64(c, 0), g->n); cg_next_vector(&s);) {
      V value = g->bias ? cg_get_masked(c, c->vf, g->bias, s.i, s.mask) : cg_zeros(c);
      cg_put_masked(c, value, g->sums, cg_index(c, cg_add(c, first, cg_gemm_rows(g, row.i)), g->n, s.i), s.mask);
    }
}

static void call_sgemm(Gemm *g, V rows, V a, V b, V out) {
  Cg *c = g->c;
  LLVMTypeRef i = c->i32, w = c->i64, p = c->ptr;
  LLVMTypeRef types[] = {i, i, w, w, w, p, w, p, w, c->f32, p, w};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), types, 12, false);
  V fn = cg_service(c, offsetof(TnServices, sgemm));
  V ldc = cg_gemm_rows(g, g->n);
  V arg[] = {
      cg_i32(c, g->p->ta), cg_i32(c, g->p->tb), rows, g->n, g->k, a, g->a_ld, b, g->b_ld, cg_f32(c, 1), out, ldc};
  LLVMBuildCall2(c->b, type, fn, arg, 12, "");
}

// Units: blocks of BLAS_ROWS rows of every matrix of the batch.
void cg_gemm_blas_emit(Gemm *g) {
  Cg *c = g->c;
  V blocks = cg_ceil_div_value(c, g->m, BLAS_ROWS);
  for (Loop l = cg_each_shared(c, cg_mul(c, g->batch, blocks), 1); cg_next(&l);) {
    V batch = cg_div(c, l.i, blocks), m0 = cg_mul(c, cg_rem(c, l.i, blocks), cg_i64(c, BLAS_ROWS));
    V rows = cg_min(c, cg_i64(c, BLAS_ROWS), cg_sub(c, g->m, m0)),
      row = cg_add(c, cg_gemm_first_row(g, batch), cg_gemm_rows(g, m0));
    prefill(g, row, rows);
    V a_off = cg_gemm_batch(g, LAID_A, batch);
    V b_off = cg_gemm_batch(g, LAID_B, batch);
    V a = cg_at(c, c->f32, g->a, cg_add(c, a_off, cg_mul(c, m0, g->a_row)));
    V work = cg_mul(c, g->n, g->k), out = cg_row(c, g->sums, row, g->n);
    for (If some = cg_when(c, cg_gt(c, work, cg_i64(c, 0))); cg_then(&some);)
      call_sgemm(g, rows, a, cg_at(c, c->f32, g->b, b_off), out);
    if (g->epilogue) cg_gemm_epilogue(g, row, rows, cg_i64(c, 0), g->n, out, cg_gemm_rows(g, g->n));
  }
}
