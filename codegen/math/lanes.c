// Reductions over the lanes of a vector, in a fixed order: halves, then halves of halves.
#include "codegen/cg.h"
#include "codegen/math/primitives.h"

#include <math.h>

V cg_reduce_lanes(Cg *c, Op join, V v) {
  for (uint32_t n = LLVMGetVectorSize(LLVMTypeOf(v)) / 2; n >= 1; n /= 2) {
    V lo = cg_some_lanes(c, v, 0, n), hi = cg_some_lanes(c, v, n, n);
    v = cg_primitive(c, join, (V[]){lo, hi});
  }
  return LLVMBuildExtractElement(c->b, v, cg_i32(c, 0), ir_ops[join].name);
}

V cg_reduce_add(Cg *c, V v) { return cg_reduce_lanes(c, OP_add, v); }
V cg_nan_lanes(Cg *c, V v) { return cg_fcmp(c, LLVMRealUNO, v, v); }

// A maximum of two is three instructions where NaN wins, and one where it does not: there NaN is looked for once.
V cg_reduce_max(Cg *c, V v) {
  if (!c->t->has_avx512) return cg_reduce_lanes(c, OP_max, v);
  V none = cg_any_lane(c, cg_nan_lanes(c, v));
  for (uint32_t n = LLVMGetVectorSize(LLVMTypeOf(v)) / 2; n >= 1; n /= 2) {
    V lo = cg_some_lanes(c, v, 0, n), hi = cg_some_lanes(c, v, n, n);
    v = cg_select(c, cg_fcmp(c, LLVMRealOGT, lo, hi), lo, hi);
  }
  return cg_select(c, none, cg_f32(c, NAN), LLVMBuildExtractElement(c->b, v, cg_i32(c, 0), "max"));
}

// Targets without FMA have other bits anyway: they use the fastest order.
uint32_t cg_sum_lanes(const Target *t) {
  enum { LANES = 16 };
  return t->has_fma && t->vl < LANES ? LANES : t->vl;
}

bool cg_lanes_left(Cg *c, V left, int64_t first, V *mask) {
  int64_t vl = c->t->vl, n = LLVMIsAConstantInt(left) ? LLVMConstIntGetSExtValue(left) - first : -1;
  *mask = NULL;
  if (!LLVMIsAConstantInt(left) || (n > 0 && n < vl)) *mask = cg_mask(c, cg_sub(c, left, cg_i64(c, first)));
  return *mask || n > 0;
}
