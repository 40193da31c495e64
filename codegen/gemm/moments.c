// Moments of what a product makes, in its kernel (gemm.h): by the strategy, pixel by pixel while they are in L1, where it has
// slots for them; else in a pass over what it has stored.
#include "codegen/gemm/gemm.h"
#include "codegen/tuning.h"
#include "ir/passes/plan.h"

enum { TUNED_MOMENTS(TUNE) };

int64_t cg_gemm_moment_slots(const Fn *f, const GemmPlan *p, int64_t slots) {
  Val v = ir_moments_of(f, &f->kernels[f->kernel_of[p->product.i]]);
  bool of_product = !ir_none(v) && !p->epilogue && ir_arg(f, v, 0).i == p->product.i;
  return of_product && slots * SLOT_ROWS <= p->m_max ? slots : 0;
}

void cg_gemm_open_moments(Gemm *g, int64_t at) {
  Cg *c = g->c;
  Val v = ir_moments_of(c->f, c->k);
  if (ir_none(v)) return;
  g->moments = rt_alloc(c->mem, sizeof *g->moments);
  cg_moments_open(g->moments, c, v, cg_at(c, c->i8, c->scratch, cg_i64(c, at)));
  g->moment_slots = g->p->moment_slots ? cg_i64(c, 0) : NULL;
}

void cg_gemm_add_moments(Gemm *g, const MomentPixels *p) {
  if (g->moment_slots) cg_moments_add(g->moments, p);
}

void cg_gemm_finish_moments(Gemm *g) {
  Cg *c = g->c;
  Moments *m = g->moments;
  if (!m) return;
  if (!g->moment_slots) {
    Val x = ir_arg(c->f, m->v, 0);
    cg_wait_for_team(c);
    if (cg_stored(c, x)) cg_moments_add_chunks(m, cg_ptr(c, x));
    g->moment_slots = cg_moments_chunks_there(m);
  }
  cg_moments_finish(m, g->moment_slots);
}
