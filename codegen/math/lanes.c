// Reductions over the lanes of a vector, in a fixed order: halves, then halves of halves.
#include "codegen/cg.h"
#include "codegen/math/primitives.h"

// Lanes from .. from + n - 1 of v.
static LLVMValueRef part(Cg *c, LLVMValueRef v, uint32_t from, uint32_t n) {
  LLVMValueRef lane[64];
  for (uint32_t k = 0; k < n; k++) lane[k] = cg_i32(c, (int32_t)(from + k));
  return LLVMBuildShuffleVector(c->b, v, LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(lane, n), "");
}

LLVMValueRef cg_reduce_add(Cg *c, LLVMValueRef v) {
  for (uint32_t n = LLVMGetVectorSize(LLVMTypeOf(v)) / 2; n >= 1; n /= 2) {
    LLVMValueRef lo = part(c, v, 0, n), hi = part(c, v, n, n);
    v = LLVMBuildFAdd(c->b, lo, hi, "");
  }
  return LLVMBuildExtractElement(c->b, v, cg_i32(c, 0), "sum");
}

LLVMValueRef cg_reduce_lanes(Cg *c, Op join, LLVMValueRef v) {
  for (uint32_t n = LLVMGetVectorSize(LLVMTypeOf(v)) / 2; n >= 1; n /= 2) {
    LLVMValueRef lo = part(c, v, 0, n), hi = part(c, v, n, n);
    v = cg_primitive(c, join, (LLVMValueRef[]){lo, hi});
  }
  return LLVMBuildExtractElement(c->b, v, cg_i32(c, 0), ir_ops[join].name);
}

LLVMValueRef cg_reduce_max(Cg *c, LLVMValueRef v) { return cg_reduce_lanes(c, OP_max, v); }

LLVMValueRef cg_any_lane(Cg *c, LLVMValueRef mask) {
  LLVMTypeRef bits = LLVMIntTypeInContext(c->ctx, LLVMGetVectorSize(LLVMTypeOf(mask)));
  return LLVMBuildICmp(c->b, LLVMIntNE, LLVMBuildBitCast(c->b, mask, bits, ""), LLVMConstNull(bits), "");
}

LLVMValueRef cg_nan_lanes(Cg *c, LLVMValueRef v) { return LLVMBuildFCmp(c->b, LLVMRealUNO, v, v, ""); }

// Targets that round a b + d twice have other bits anyway: theirs is the order that takes least time.
uint32_t cg_sum_lanes(const Target *t) {
  enum { LANES = 16 };
  return t->has_fma && t->vl < LANES ? LANES : t->vl;
}

bool cg_lanes_left(Cg *c, LLVMValueRef left, int64_t first, LLVMValueRef *mask) {
  int64_t vl = c->t->vl, n = LLVMIsAConstantInt(left) ? LLVMConstIntGetSExtValue(left) - first : -1;
  *mask = NULL;
  if (!LLVMIsAConstantInt(left) || (n > 0 && n < vl)) *mask = cg_mask(c, cg_sub(c, left, cg_i64(c, first)));
  return *mask || n > 0;
}
