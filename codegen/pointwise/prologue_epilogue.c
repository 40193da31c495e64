// Prologue and epilogue of products, on strips of rows (prologue_epilogue.h).
#include "codegen/pointwise/prologue_epilogue.h"
#include "codegen/math/primitives.h"
#include "codegen/pointwise/pointwise.h"

struct RowStrip {
  Pointwise p;
  LLVMValueRef begin;  // first element of the current row
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

static void enter(RowStrip *r, LLVMValueRef row) {
  Pointwise *p = &r->p;
  LLVMValueRef index[MAX_RANK] = {NULL};
  r->begin = cg_mul(p->c, row, p->size[p->n_loop - 1]);
  if (p->n_loop > 1) cg_pointwise_split(p, row, index);
  p->at_row = row;
  cg_pointwise_enter(p, index);
}

// Loop over the vectors of columns [lo, hi), with a masked tail.
static void each_vector(RowStrip *r, LLVMValueRef lo, LLVMValueRef hi,
                        void (*body)(RowStrip *r, LLVMValueRef i, LLVMValueRef mask, void *ctx), void *ctx) {
  Cg *c = r->p.c;
  int64_t vl = c->t->vl;
  LLVMValueRef n = cg_sub(c, hi, lo), whole = LLVMBuildAnd(c->b, n, cg_i64(c, -vl), "");
  LLVMValueRef end = cg_add(c, lo, whole), rest = cg_sub(c, n, whole);
  Loop l;
  cg_loop_begin(c, &l, lo, end, cg_i64(c, vl), NULL, 0);
  body(r, l.i, NULL, ctx);
  cg_loop_end(c, &l, NULL);
  if (cg_is_int(rest, 0)) return;
  If s;
  cg_if(c, &s, LLVMBuildICmp(c->b, LLVMIntSGT, rest, cg_i64(c, 0), ""));
  body(r, end, cg_mask(c, rest), ctx);
  cg_endif(c, &s);
}

// ---- epilogue
RowStrip *cg_epilogue_new(Cg *c, Val back) {
  Pointwise p = {.c = c,
                 .from = product_of(c),
                 .to = ir_end_of_elements(c->f, c->k) - c->k->first,
                 .by_rows = true,
                 .is_epilogue = true,
                 .lanes = c->t->vl};
  if (!ir_none(back) && back.i != ir_anchor(c->f, c->k).i && !cg_stored(c, back)) p.back = back;
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

static void store_vector(RowStrip *r, LLVMValueRef i, LLVMValueRef mask, void *ctx) {
  (void)ctx;
  cg_pointwise_vector(&r->p, r->begin, i, mask);
}

void cg_epilogue_row(RowStrip *r, LLVMValueRef row, LLVMValueRef from, LLVMValueRef lo, LLVMValueRef hi) {
  enter(r, row);
  r->p.product = from, r->p.from_column = lo;
  each_vector(r, lo, hi, store_vector, NULL);
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

LLVMValueRef cg_prologue_row_size(const RowStrip *r) { return r->p.size[r->p.n_loop - 1]; }

void cg_prologue_enter(RowStrip *r, LLVMValueRef row) { enter(r, row); }

LLVMValueRef cg_prologue_vector(RowStrip *r, LLVMValueRef column, LLVMValueRef mask) {
  Cg *c = r->p.c;
  cg_pointwise_compute(&r->p, r->begin, column, mask);
  LLVMValueRef v = r->p.val[r->p.to - 1];
  return mask ? LLVMBuildSelect(c->b, mask, v, LLVMConstNull(LLVMTypeOf(v)), "") : v;
}

LLVMValueRef cg_prologue_element(RowStrip *r, LLVMValueRef element, LLVMValueRef mask) {
  return cg_prologue_vector(r, cg_sub(r->p.c, element, r->begin), mask);
}

static void put_vector(RowStrip *r, LLVMValueRef i, LLVMValueRef mask, void *ctx) {
  Cg *c = r->p.c;
  LLVMValueRef v = cg_prologue_vector(r, i, mask), at = cg_at(c, c->f32, *(LLVMValueRef *)ctx, i);
  mask ? cg_store_masked(c, v, at, mask) : cg_store(c, v, at);
}

void cg_prologue_row(RowStrip *r, LLVMValueRef row, LLVMValueRef lo, LLVMValueRef hi, LLVMValueRef to) {
  Cg *c = r->p.c;
  enter(r, row);
  to = cg_at(c, c->f32, to, cg_sub(c, cg_i64(c, 0), lo));
  each_vector(r, lo, hi, put_vector, &to);
}

int64_t cg_prologue_cost(const Fn *f, Val product) {
  int64_t cost = 0;
  for (uint32_t i = f->kernels[f->kernel_of[product.i]].first; i < product.i; i++)
    cost += f->ins[i].n_args + cg_primitive_cost((Op)f->ins[i].op);
  return cost;
}
