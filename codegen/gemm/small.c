// Strategy small of products (gemm.h): batches of matrices that each fit a vector, such as turns and covariances in space. A
// product is as many multiply-adds as K has elements, of all elements of the result at once:
//
//   2 x 2:   c00 c01 c10 c11  =  a00 a00 a10 a10 * b00 b01 b00 b01  +  a01 a01 a11 a11 * b10 b11 b10 b11
#include "codegen/gemm/gemm.h"

enum { MOST = 16, LEAST_MATRICES = 4, GRAIN = 16 };  // elements; matrices that a worker takes at least

static bool is_constant(const Fn *f, const GemmPlan *p) {
  bool is = ir_dim_is_const(f->prog, p->n) && ir_dim_is_const(f->prog, p->k);
  for (uint32_t i = 0; i < p->m.n; i++) is &= ir_dim_is_const(f->prog, p->m.dim[i]);
  return is;
}

// Sums have the order of strategy tiled's, which takes such products with an epilogue.
bool cg_gemm_small_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  bool is_plain =
      cg_gemm_is_dense(p) && !p->is_conv && !p->apart && !p->epilogue && !p->prologue && p->batch.n && p->b_has_batch;
  if (!is_plain || !is_constant(f, p) || p->batch_max < LEAST_MATRICES || cg_gemm_is_skinny(p, t)) return false;
  bool any = p->m_max > 0 && p->n_max > 0 && p->k_max > 0;
  return any && p->m_max * p->k_max <= MOST && p->k_max * p->n_max <= MOST && p->m_max * p->n_max <= MOST;
}

void cg_gemm_small_plan(const Fn *f, GemmPlan *p, const Target *t) {
  (void)f, (void)t;
  p->mr = 1, p->nv = 1, p->width = MOST;
  p->units = cg_ceil_div(p->batch_max, GRAIN);
}

void cg_gemm_small_stack(Gemm *g) { (void)g; }

// For each element of the result the element k of its row of A, or of its column of B.
static V spread(Gemm *g, V matrix, bool is_b, int64_t k) {
  const GemmPlan *p = g->p;
  uint32_t from[MOST], n = (uint32_t)(p->m_max * p->n_max);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = is_b ? i % p->n_max : i / p->n_max, of = is_b ? p->n_max : p->m_max;
    bool k_is_last = is_b ? p->tb : !p->ta;
    from[i] = (uint32_t)(k_is_last ? at * p->k_max + k : k * of + at);
  }
  return cg_shuffle(g->c, matrix, matrix, from, n);
}

void cg_gemm_small_emit(Gemm *g) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  int64_t of_a = p->m_max * p->k_max, of_b = p->k_max * p->n_max, of_c = p->m_max * p->n_max;
  for (Loop l = cg_each_shared(c, g->batch, GRAIN); cg_next(&l);) {
    V a = cg_get(c, LLVMVectorType(c->f32, (uint32_t)of_a), g->a, cg_gemm_batch(g, LAID_A, l.i));
    V b = cg_get(c, LLVMVectorType(c->f32, (uint32_t)of_b), g->b, cg_gemm_batch(g, LAID_B, l.i));
    V sum = LLVMConstNull(LLVMVectorType(c->f32, (uint32_t)of_c));
    for (int64_t k = 0; k < p->k_max; k++) sum = cg_fma(c, spread(g, a, false, k), spread(g, b, true, k), sum);
    cg_store(c, sum, cg_row(c, g->out, l.i, cg_i64(c, of_c)));
  }
}
