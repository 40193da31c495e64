// Split-K: products of few units of work with a long k, as weight gradients of heads and reductions that are written as
// products; and products on AMX with a long k, for which every worker would pack all of A. k is cut into slices, each a unit for every macro tile, so that the team has enough of them.
//
//   scratch:  slice 0 [m][n] | slice 1 [m][n] | ..
//
// Then a barrier, and each element is the bias, plus slice 0, plus slice 1, .. in this order.
// Slices are numbered as matrices of a batch are. Their length is a constant of the program and their number follows
// from k alone, so that sums do not depend on the number of workers. A k of run-time size that is one slice goes the
// direct way.
#include "codegen/gemm/gemm.h"
#include "codegen/tuning.h"

enum { TUNED_SPLIT_K(TUNE) };
enum {
  K_STEP = 64  // slices are a multiple of all vectors
};

static bool packs_a_again(const GemmPlan *p) {
  return p->parts && !(p->parts & PARTS_A_SHARED) && cg_ceil_div(p->m_max, p->mc) < PARTS_BLOCKS &&
         p->m_max * p->n_max <= PARTS_ELEMENTS;
}

int64_t cg_gemm_split_k(const GemmPlan *p) {
  int64_t k = p->k_max;
  if (k <= 2 * LEAST_K) return 0;
  if (packs_a_again(p)) return cg_round_up(cg_ceil_div(k, PARTS_SLICES), p->kc);
  if (p->units >= FEW_UNITS || p->m_max * p->n_max > MOST_ELEMENTS) return 0;
  return cg_round_up(cg_larger(LEAST_K, cg_ceil_div(k, MOST_SLICES)), K_STEP);
}

void cg_gemm_k_range(Gemm *g, V slice, V *lo, V *hi) {
  Cg *c = g->c;
  *lo = cg_i64(c, 0), *hi = g->k;
  if (!g->slices) return;
  V length = cg_i64(c, g->p->k_slice);
  *lo = cg_mul(c, slice, length);
  *hi = cg_min(c, g->k, cg_add(c, *lo, length));
}

// Columns n0 .. of one row: `at` is its first element in the result and in every slice.
static void add_vector(Gemm *g, V slices, V at, V n0) {
  Cg *c = g->c;
  V mask = cg_mask(c, cg_sub(c, g->n, n0)), matrix = cg_mul(c, g->m, g->n);
  V sum = cg_zeros(c), here = cg_add(c, at, n0);
  if (g->bias) sum = cg_get_masked(c, c->vf, g->bias, n0, mask);
  for (Loop l = cg_carry(c, cg_i64(c, 0), slices, cg_i64(c, 1), &sum, 1); cg_next(&l);) {
    V part = cg_cell(c, g->partial, l.i, matrix, here);
    sum = cg_fadd(c, sum, cg_load_masked(c, c->vf, part, mask));
  }
  cg_put_masked(c, sum, g->sums, here, mask);
}

// By rows, shared by the team. The sums of a row overwrite the first slice if only the epilogue reads them.
static void add_slices(Gemm *g, V slices) {
  Cg *c = g->c;
  for (Loop row = cg_each_shared(c, g->m, 1); cg_next(&row);) {
    V at = cg_mul(c, row.i, g->n), zero = cg_i64(c, 0);
    for (Loop column = cg_each_by(c, zero, g->n, cg_vl(c)); cg_next(&column);) add_vector(g, slices, at, column.i);
    if (g->epilogue) cg_gemm_epilogue(g, row.i, cg_i64(c, 1), zero, g->n, cg_at(c, c->f32, g->sums, at), g->n);
  }
}

void cg_gemm_emit_split_k(Gemm *g, void (*units)(Gemm *g)) {
  Cg *c = g->c;
  V slices = cg_ceil_div_value(c, g->k, g->p->k_slice);
  int64_t known;
  bool may_be_short = !cg_const_value(g->k, &known);  // a constant k was long enough when it was planned
  for (If several = cg_branch(c, cg_gt(c, slices, cg_i64(c, 1)), may_be_short); cg_then(&several);) {
    Gemm s = *g;
    if (several.is_true) s.slices = s.batch = slices, s.sums = g->partial, s.bias = NULL, s.epilogue = NULL;
    units(&s);
    if (!several.is_true) continue;
    cg_wait_for_team(c);
    add_slices(g, slices);
  }
}
