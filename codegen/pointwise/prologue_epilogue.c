// Prologue and epilogue of products, on strips of rows (prologue_epilogue.h).
#include "codegen/pointwise/prologue_epilogue.h"
#include "codegen/math/primitives.h"
#include "codegen/pointwise/pointwise.h"
#include "codegen/span.h"
#include "ir/passes/plan.h"

struct RowStrip {
  Pointwise p;
  V begin;  // first element of the current row
};

static uint32_t product_of(const Cg *c) { return ir_anchor(c->f, c->k).i - c->k->first; }

static RowStrip *new_rows(const Pointwise *p) {
  RowStrip *r = rt_alloc(p->c->mem, sizeof *r);
  r->p = *p;
  if (!cg_pointwise_collect(&r->p)) return NULL;
  cg_pointwise_merge(&r->p);
  return r;
}

bool cg_epilogue_works(const RowStrip *r) { return cg_pointwise_stores(&r->p) || !ir_none(r->p.back); }

static void enter(RowStrip *r, V row) {
  Pointwise *p = &r->p;
  V index[MAX_RANK] = {NULL};
  r->begin = cg_mul(p->c, row, p->size[p->n_loop - 1]);
  if (p->n_loop > 1) cg_pointwise_split(p, row, index);
  p->at_row = row;
  cg_pointwise_enter(p, index);
}

// ---- epilogue
RowStrip *cg_epilogue_new(Cg *c, Val back) {
  Pointwise p = {.c = c,
                 .from = product_of(c),
                 .to = ir_end_of_elements(c->f, c->k) - c->k->first,
                 .by_rows = true,
                 .is_epilogue = true,
                 .lanes = c->t->vl};
  if (!ir_none(back) && back.i != ir_anchor(c->f, c->k).i) p.back = back;
  return new_rows(&p);
}

RowStrip *cg_epilogue_flat(Cg *c) {
  RowStrip *r = new_rows(&(Pointwise){.c = c,
                                      .from = product_of(c),
                                      .to = c->k->n,
                                      .by_rows = true,
                                      .is_flat = true,
                                      .is_epilogue = true,
                                      .lanes = c->t->vl});
  return r && r->p.n_loop == 1 ? r : NULL;
}

void cg_epilogue_row(RowStrip *r, V row, V from, V lo, V hi) {
  enter(r, row);
  r->p.product = from, r->p.from_column = lo;
  for (Span s = cg_span_guarded(r->p.c, lo, hi, r->p.lanes); cg_next_vector(&s);)
    cg_pointwise_vector(&r->p, r->begin, s.i, s.mask);
}

// ---- prologue
RowStrip *cg_prologue_new(Cg *c) {
  return new_rows(&(Pointwise){.c = c, .to = product_of(c), .by_rows = true, .lanes = c->t->vl});
}

RowStrip *cg_prologue_flat(Cg *c) {
  RowStrip *r =
      new_rows(&(Pointwise){.c = c, .to = product_of(c), .by_rows = true, .is_flat = true, .lanes = c->t->vl});
  if (!r || r->p.n_loop > 1) return NULL;
  enter(r, cg_i64(c, 0));
  return r;
}

V cg_prologue_row_size(const RowStrip *r) { return r->p.size[r->p.n_loop - 1]; }

void cg_prologue_enter(RowStrip *r, V row) { enter(r, row); }

V cg_prologue_vector(RowStrip *r, V column, V mask) {
  Cg *c = r->p.c;
  cg_pointwise_compute(&r->p, r->begin, column, mask);
  V v = r->p.val[r->p.to - 1];
  return mask ? cg_select(c, mask, v, LLVMConstNull(LLVMTypeOf(v))) : v;
}

V cg_prologue_element(RowStrip *r, V element, V mask) {
  return cg_prologue_vector(r, cg_sub(r->p.c, element, r->begin), mask);
}

void cg_prologue_row(RowStrip *r, V row, V lo, V hi, V to) {
  Cg *c = r->p.c;
  enter(r, row);
  View out = cg_view(cg_at(c, c->f32, to, cg_sub(c, cg_i64(c, 0), lo)), DT_F32);
  for (Span s = cg_span_guarded(c, lo, hi, r->p.lanes); cg_next_vector(&s);)
    cg_span_put(&s, out, cg_prologue_vector(r, s.i, s.mask));
}

int64_t cg_prologue_cost(const Fn *f, Val product) {
  int64_t cost = 0;
  for (uint32_t i = f->kernels[f->kernel_of[product.i]].first; i < product.i; i++)
    cost += f->ins[i].n_args + cg_primitive_cost((Op)f->ins[i].op);
  return cost;
}
