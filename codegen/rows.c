// Pieces of rows of a pointwise group in a product's kernel (rows.h).
#include "codegen/rows.h"
#include "codegen/point.h"

struct Rows {
  Point p;
};

Rows *cg_epilogue_new(Cg *c, Val back) {
  Rows *r = rt_alloc(c->mem, sizeof *r);
  uint32_t product = ir_lead(c->f, c->k).i - c->k->first;
  r->p = (Point){.c = c, .from = product, .to = c->k->n, .by_rows = true, .behind = true, .lanes = c->t->vl};
  if (!ir_none(back) && back.i != ir_lead(c->f, c->k).i && !cg_stored(c, back)) r->p.back = back;
  if (!cg_point_collect(&r->p)) return NULL;
  cg_point_merge(&r->p);
  return r;
}

bool cg_epilogue_works(const Rows *r) { return cg_point_stores(&r->p) || !ir_none(r->p.back); }

static void enter(Point *p, LLVMValueRef row) {
  LLVMValueRef index[MAX_RANK] = {NULL};
  if (p->n_loop > 1) cg_point_split(p, row, index);
  cg_point_enter(p, index);
}

void cg_epilogue_row(Rows *r, LLVMValueRef row, LLVMValueRef from, LLVMValueRef lo, LLVMValueRef hi) {
  Point *p = &r->p;
  Cg *c = p->c;
  enter(p, row);
  p->product = from, p->from_column = lo;
  LLVMValueRef n = cg_sub(c, hi, lo), whole = LLVMBuildAnd(c->b, n, cg_i64(c, -(int64_t)p->lanes), "");
  LLVMValueRef at = cg_mul(c, row, p->size[p->n_loop - 1]), end = cg_add(c, lo, whole), rest = cg_sub(c, n, whole);
  Loop l;
  cg_loop_begin(c, &l, lo, end, cg_i64(c, p->lanes), NULL, 0);
  cg_point_vector(p, at, l.i, NULL);
  cg_loop_end(c, &l, NULL);
  If s;
  cg_if(c, &s, LLVMBuildICmp(c->b, LLVMIntSGT, rest, cg_i64(c, 0), ""));
  cg_point_vector(p, at, end, cg_mask(c, rest));
  cg_endif(c, &s);
}
