// Strategy gemv: a row with a matrix that is stored [N, K]. B is read as one stream, from end to end.
//
//   sums of lanes of row j of B with x, four side by side;  vl rows of B;  their lanes added at once into vl results
//
// The hardware prefetcher follows one stream better than the several that neighbouring rows are, unless B comes from
// memory. x is copied to the stack first: half of all loads are of it, and those that cross a cache line count twice.
#include "codegen/gemm/gemm.h"

#include <string.h>

// docs/experiments/018 found these values.
enum {
  N_ACC = 4,      // accumulators: as many as an addition takes cycles
  AHEAD = 256,    // elements of B that are prefetched where it is not in L2
  LONG_K = 2048,  // rows of B that are a stream each, wherever B comes from
  MOST_K = 8192,  // of x on the stack
  MAX_LANES = 64
};

bool cg_gemm_gemv_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  bool one_stream = p->k_max >= LONG_K || p->n_max * p->k_max <= ir_f32_in(t->facts.llc_bytes / 2);
  return one_stream && p->k_max <= MOST_K && !cg_gemm_b_exceeds_llc(p, t) && !p->single_threaded && !p->batch.n &&
         cg_gemm_is_one_row(f, p) && cg_gemm_is_skinny(p, t);
}

void cg_gemm_gemv_plan(const Fn *f, GemmPlan *p, const Target *t) {
  (void)f;
  cg_gemm_plan_dot(p, t);
  if (p->prologue) p->prologue = PROLOGUE_A_ON_LOAD;
}

void cg_gemm_gemv_stack(Gemm *g) {
  Cg *c = g->c;
  int64_t vl = c->t->vl;
  g->strip = cg_gemm_on_stack(c, g->p->width);
  g->a_block = cg_gemm_on_stack(c, cg_round_up(g->p->k_max, vl));
  g->b_block = cg_gemm_on_stack(c, vl * vl);
}

static void copy_row(Gemm *g) {
  Cg *c = g->c;
  if (g->prologue) cg_prologue_enter(g->prologue, cg_i64(c, 0));
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), g->k, cg_i64(c, c->t->vl), NULL, 0);
  LLVMValueRef mask = cg_mask(c, cg_sub(c, g->k, l.i));
  LLVMValueRef x = g->prologue ? cg_prologue_vector(g->prologue, l.i, mask)
                               : cg_load_masked(c, c->vf, cg_at(c, c->f32, g->a, l.i), mask);
  cg_store(c, x, cg_at(c, c->f32, g->a_block, l.i));
  cg_loop_end(c, &l, NULL);
}

// Adds the products of elements [from, to) of x and a row of B to acc, `wide` vectors a turn.
static void add_part(Gemm *g, LLVMValueRef b, LLVMValueRef from, LLVMValueRef to, uint32_t wide, LLVMValueRef mask,
                     LLVMValueRef *acc) {
  Cg *c = g->c;
  int64_t vl = c->t->vl;
  bool prefetch_lines = wide > 1 && g->p->n_max * g->p->k_max > ir_f32_in(c->t->facts.l2_bytes);
  LLVMValueRef next[N_ACC];
  Loop l;
  cg_loop_begin(c, &l, from, to, cg_i64(c, wide * vl), acc, wide);
  for (uint32_t i = 0; i < wide; i++) {
    LLVMValueRef k = cg_add(c, l.i, cg_i64(c, (int64_t)i * vl)), at = cg_at(c, c->f32, b, k);
    if (prefetch_lines) cg_prefetch_l1(c, cg_at(c, c->f32, at, cg_i64(c, AHEAD)));
    LLVMValueRef x = cg_load(c, c->vf, cg_at(c, c->f32, g->a_block, k));
    next[i] = cg_fma(c, x, mask ? cg_load_masked(c, c->vf, at, mask) : cg_load(c, c->vf, at), l.carry[i]);
  }
  cg_loop_end(c, &l, next);
  memcpy(acc, l.out, wide * sizeof *acc);
}

static LLVMValueRef line(Gemm *g, LLVMValueRef b) {
  Cg *c = g->c;
  LLVMValueRef acc[N_ACC], vl = cg_i64(c, c->t->vl), turn = cg_i64(c, (int64_t)N_ACC * c->t->vl);
  LLVMValueRef rest = cg_gemm_rem(c, g->k, vl), whole = cg_sub(c, g->k, rest);
  LLVMValueRef turns = cg_mul(c, cg_div(c, g->k, turn), turn);
  for (uint32_t i = 0; i < N_ACC; i++) acc[i] = LLVMConstNull(c->vf);
  add_part(g, b, cg_i64(c, 0), turns, N_ACC, NULL, acc);
  add_part(g, b, turns, whole, 1, NULL, acc);
  add_part(g, b, whole, g->k, 1, cg_mask(c, rest), acc);  // once or not at all
  for (uint32_t n = N_ACC; n > 1; n /= 2)
    for (uint32_t i = 0; i < n / 2; i++) acc[i] = LLVMBuildFAdd(c->b, acc[i], acc[i + n / 2], "");
  return acc[0];
}

// Columns [n0, n0 + vl) of the result; `wait` holds the sums of lanes of rows that are done.
static void unit(Gemm *g, LLVMValueRef n0, LLVMValueRef wait) {
  Cg *c = g->c;
  uint32_t vl = c->t->vl;
  LLVMValueRef n = cg_min(c, cg_i64(c, vl), cg_sub(c, g->n, n0)), sums[MAX_LANES];
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), n, cg_i64(c, 1), NULL, 0);
  LLVMValueRef b = cg_at(c, c->f32, g->b, cg_mul(c, cg_add(c, n0, l.i), g->k));
  cg_store(c, line(g, b), cg_at(c, c->vf, wait, l.i));
  cg_loop_end(c, &l, NULL);
  for (uint32_t i = 0; i < vl; i++) sums[i] = cg_load(c, c->vf, cg_at(c, c->vf, wait, cg_i64(c, i)));
  cg_gemm_store_row(g, n0, n, cg_mask(c, n), cg_dot_sums(c, sums, vl));
}

void cg_gemm_gemv_emit(Gemm *g) {
  Cg *c = g->c;
  LLVMValueRef lo, hi, wait = g->b_block;
  for (uint32_t i = 0; i < c->t->vl; i++) cg_store(c, LLVMConstNull(c->vf), cg_at(c, c->vf, wait, cg_i64(c, i)));
  copy_row(g);
  cg_share(c, g->panels, 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  unit(g, cg_mul(c, l.i, cg_i64(c, g->p->width)), wait);
  cg_loop_end(c, &l, NULL);
}
