// Long sums by blocks (cascade.h).
#include "codegen/reduce/cascade.h"

#include <string.h>

enum { MAX_SUMS = 4 * MAX_CARRY, MOST_LEVELS = 3 };

uint32_t cg_cascade_levels(int64_t terms) {
  uint32_t levels = 0;
  for (int64_t most = CASCADE_TERMS; levels < MOST_LEVELS && terms > most; most *= CASCADE_TERMS) levels++;
  return levels;
}

void cg_cascade(const Cascade *s, uint32_t levels, LLVMValueRef lo, LLVMValueRef hi, LLVMValueRef *acc) {
  Cg *c = s->c;
  LLVMValueRef part[MAX_SUMS];
  if (!levels) {
    s->add(s->ctx, lo, hi, acc);
    return;
  }
  int64_t size = s->block;
  for (uint32_t k = 1; k < levels; k++) size *= CASCADE_TERMS;
  LLVMValueRef block = cg_i64(c, size);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, block, acc, s->n);
  memcpy(acc, l.carry, s->n * sizeof *acc);
  s->start(s->ctx, part);
  cg_cascade(s, levels - 1, l.i, cg_min(c, cg_add(c, l.i, block), hi), part);
  for (uint32_t k = 0; k < s->n; k++) acc[k] = s->join(s->ctx, k, acc[k], part[k]);
  cg_loop_end(c, &l, acc);
  memcpy(acc, l.out, s->n * sizeof *acc);
}

static LLVMValueRef sizes_of(Cg *c, LLVMValueRef x) { return cg_call_intrinsic(c, "llvm.fabs", &c->vf, 1, &x, 1); }

LLVMValueRef cg_pivots(Cg *c, const LLVMValueRef x[N_PIVOTS]) {
  LLVMValueRef least = x[0];
  for (uint32_t k = 1; k < N_PIVOTS; k++) {
    LLVMValueRef is_less = LLVMBuildFCmp(c->b, LLVMRealOLT, sizes_of(c, x[k]), sizes_of(c, least), "");
    least = LLVMBuildSelect(c->b, is_less, x[k], least, "");
  }
  return cg_usable_pivots(c, least);
}

LLVMValueRef cg_pivot_place(Cg *c, uint32_t k, LLVMValueRef n) {
  if (k == 0) return cg_i64(c, 0);
  return k == 1 ? cg_div(c, n, cg_i64(c, 2)) : cg_max(c, cg_sub(c, n, cg_i64(c, 1)), cg_i64(c, 0));
}

LLVMValueRef cg_usable_pivots(Cg *c, LLVMValueRef x) {
  LLVMValueRef is_usable = LLVMBuildFCmp(c->b, LLVMRealOLT, sizes_of(c, x), cg_splat(c, cg_f32(c, 0x1p102)), "");
  return LLVMBuildSelect(c->b, is_usable, x, LLVMConstNull(c->vf), "");
}
