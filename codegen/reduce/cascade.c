// Long sums by blocks (cascade.h).
#include "codegen/reduce/cascade.h"
#include "codegen/math/math.h"

enum { MAX_SUMS = 4 * MAX_CARRY };

uint32_t cg_cascade_levels(int64_t terms) {
  uint32_t levels = 0;
  for (int64_t most = CASCADE_TERMS; levels < CASCADE_LEVELS && terms > most; most *= CASCADE_TERMS) levels++;
  return levels;
}

void cg_cascade(const Cascade *s, uint32_t levels, V lo, V hi, V *acc) {
  Cg *c = s->c;
  V part[MAX_SUMS];
  if (!levels) {
    s->add(s->ctx, lo, hi, acc);
    return;
  }
  int64_t size = s->block;
  for (uint32_t k = 1; k < levels; k++) size *= CASCADE_TERMS;
  V block = cg_i64(c, size);
  for (Loop l = cg_carry(c, lo, hi, block, acc, s->n); cg_next(&l);) {
    s->start(s->ctx, part);
    cg_cascade(s, levels - 1, l.i, cg_min(c, cg_add(c, l.i, block), hi), part);
    for (uint32_t k = 0; k < s->n; k++) acc[k] = s->join(s->ctx, k, acc[k], part[k]);
  }
}

V cg_pivots(Cg *c, const V x[N_PIVOTS]) {
  V least = x[0];
  for (uint32_t k = 1; k < N_PIVOTS; k++) {
    V is_less = cg_fcmp(c, LLVMRealOLT, fabs_of(c, x[k]), fabs_of(c, least));
    least = cg_select(c, is_less, x[k], least);
  }
  return cg_usable_pivots(c, least);
}

V cg_pivot_place(Cg *c, uint32_t k, V n) {
  if (k == 0) return cg_i64(c, 0);
  return k == 1 ? cg_div(c, n, cg_i64(c, 2)) : cg_max(c, cg_sub(c, n, cg_i64(c, 1)), cg_i64(c, 0));
}

V cg_usable_pivots(Cg *c, V x) {
  V is_usable = cg_fcmp(c, LLVMRealOLT, fabs_of(c, x), k(c, x, 0x1p102));
  return cg_select(c, is_usable, x, LLVMConstNull(LLVMTypeOf(x)));
}
