// The kernel of a product (product.h): what it reads and writes; packed operands; then its strategy's code, by slices of k
// or by worker 0 alone where the plan says so.
#include "codegen/emitters.h"
#include "codegen/product/product.h"
#include "ir/passes/plan.h"

// ---- values of a kernel
// A matrix without elements has no storage and is not read.

// Rows of A that the worker computes or copies.
static int64_t rows_on_stack(const GemmPlan *p) {
  return p->prologue == PROLOGUE_A_PRIVATE ? p->m_max : cg_gemm_has_own_mc_block(p) ? p->mc : 0;
}

static void find_operands(Gemm *g) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  g->a = cg_ptr_or_zero(c, p->a), g->b = cg_ptr_or_zero(c, p->b), g->out = cg_ptr_or_zero(c, p->out);
  g->bias = ir_none(p->bias) ? NULL : cg_ptr_or_zero(c, p->bias);
  V scratch = c->scratch ? c->scratch : LLVMConstNull(c->ptr);  // there is none where nothing is packed
  int64_t b = cg_gemm_packed_b(p, c->t), a = cg_gemm_packed_a(p, c->t), rows = rows_on_stack(p);
  g->packed_b = p->pack_b == B_PREPACKED ? c->weight : scratch, g->own = scratch;
  g->packed_a = cg_at(c, c->f32, scratch, cg_i64(c, b));
  if (rows) g->packed_a = cg_gemm_on_stack(c, rows * (p->k_max + GEMM_STRIDE_PAD));
  g->partial = cg_at(c, c->f32, scratch, cg_i64(c, a + b));  // they share the place of the sums: the first slice's
  g->sums = p->epilogue && !p->stores_product && cg_gemm_sums(p) ? g->partial : g->out;
  if (cg_gemm_fuses_a(p)) g->a = g->packed_a;
  if (p->prologue == PROLOGUE_B) g->b = scratch;
}

static Gemm make_values(Cg *c, const GemmPlan *p) {
  Gemm g = {.c = c, .p = p};
  p->strategy->stack(&g);  // in the entry block
  g.m = cg_dims_product(c, &p->m), g.n = cg_dim(c, p->n), g.k = cg_dim(c, p->k),
  g.batch = cg_dims_product(c, &p->batch);
  g.panels = cg_ceil_div_value(c, g.n, p->width);
  g.k_pad = cg_mul(c, cg_ceil_div_value(c, g.k, c->t->vl), cg_vl(c));
  g.a_pad = p->window_rows ? cg_i64(c, p->window_k) : g.k_pad;
  find_operands(&g);
  const Laid *a = &p->laid[LAID_A], *b = &p->laid[LAID_B], *out = &p->laid[LAID_RESULT];
  g.a_ld = a->moves ? cg_laid_stride(c, a, a->rank - 2, 0) : p->ta ? g.m : g.k;
  g.b_ld = b->moves ? cg_laid_stride(c, b, b->rank - 2, 0) : p->tb ? g.k : g.n;
  g.a_row = p->ta ? cg_i64(c, 1) : g.a_ld;
  g.a_k = p->ta ? g.a_ld : cg_i64(c, 1);
  g.row_step = out->moves ? cg_laid_stride(c, out, out->rank - 2, 1) : cg_i64(c, 1);
  return g;
}

// ---- the kernel
static void emit_strategy(Gemm *g) {
  Cg *c = g->c;
  if (cg_gemm_pack_shared(g)) cg_wait_for_team(c);
  g->p->strategy->emit(g);
}

static void emit_single_threaded(Gemm *g) {
  Cg *c = g->c;
  V worker = c->worker, n_workers = c->n_workers;
  for (If first = cg_when(c, cg_eq(c, worker, cg_i64(c, 0))); cg_then(&first);) {
    c->worker = cg_i64(c, 0), c->n_workers = cg_i64(c, 1);
    emit_strategy(g);
    cg_gemm_finish_moments(g);
    c->worker = worker, c->n_workers = n_workers;
  }
}

bool cg_emit_gemm(Cg *c) {
  GemmPlan p = cg_gemm_plan(c->f, ir_anchor(c->f, c->k), c->t);
  Gemm g = make_values(c, &p);
  if (p.prologue && !(g.prologue = cg_prologue_new(c))) return false;
  if (!cg_gemm_begin_epilogue(&g)) return false;
  cg_gemm_open_moments(&g, cg_gemm_plan_bytes(&p, c->t));
  if (p.single_threaded) {
    emit_single_threaded(&g);
    return true;
  }
  if (p.k_slice) cg_gemm_emit_split_k(&g, emit_strategy);
  else emit_strategy(&g);
  cg_gemm_finish_moments(&g);
  return true;
}
