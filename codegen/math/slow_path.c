// A path for rare arguments, in a function of its own: vectors without such lanes pay a test and a branch,
// and the surrounding code keeps its registers.
#include "codegen/math/math.h"

static V any(Cg *c, V lanes) {
  LLVMTypeRef t = LLVMTypeOf(lanes);
  if (!is_vector(t)) return lanes;
  V mask = cg_bitcast(c, lanes, LLVMIntTypeInContext(c->ctx, LLVMGetVectorSize(t)));
  return cg_ne(c, mask, LLVMConstNull(LLVMTypeOf(mask)));
}

// Tells LLVM to lay out code and allocate registers for the branch not taken.
static void mark_unlikely(Cg *c, V branch) {
  LLVMMetadataRef part[] = {LLVMMDStringInContext2(c->ctx, "branch_weights", 14), LLVMValueAsMetadata(cg_i32(c, 1)),
                            LLVMValueAsMetadata(cg_i32(c, 2000))};
  V weights = LLVMMetadataAsValue(c->ctx, LLVMMDNodeInContext2(c->ctx, part, 3));
  LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(c->ctx, "prof", 4), weights);
}

V cg_slow_path(Cg *c, const char *name, V lanes, V x, V y, V otherwise, void (*make)(Cg *c, V fn, void *ctx),
               void *ctx) {
  bool is_scalar = !is_vector(LLVMTypeOf(x));
  V none = LLVMConstInt(c->i32, 0, false), some = any(c, lanes);
  LLVMTypeRef t = is_scalar ? LLVMVectorType(c->f32, 1) : LLVMTypeOf(x);
  LLVMTypeRef type = LLVMFunctionType(t, (LLVMTypeRef[]){t, t}, 2, false);
  V fn = cg_helper(c, rt_printf(c->mem, "%s.%u", name, LLVMGetVectorSize(t)), type, make, ctx);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(c->b);
  for (If s = cg_when_carry(c, some, &otherwise, 1); cg_then(&s);) {
    mark_unlikely(c, LLVMGetBasicBlockTerminator(before));
    V arg[] = {x, y};
    for (int k = 0; is_scalar && k < 2; k++) arg[k] = LLVMBuildInsertElement(c->b, LLVMGetUndef(t), arg[k], none, "");
    V z = LLVMBuildCall2(c->b, type, fn, arg, 2, "");
    otherwise = is_scalar ? LLVMBuildExtractElement(c->b, z, none, "") : z;
  }
  return otherwise;
}
