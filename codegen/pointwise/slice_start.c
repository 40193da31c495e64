// Where a slice whose start is a value of the run begins.
#include "codegen/cg.h"
#include "codegen/pointwise/pointwise.h"
#include "ir/slice_at.h"

LLVMValueRef cg_slice_start(Cg *c, Val v, LLVMValueRef *in_range) {
  SliceAt s;
  ir_slice_at(c->f, v, &s);
  *in_range = NULL;
  if (ir_none(s.at)) return cg_dim(c, s.from);
  LLVMValueRef at = cg_load(c, c->i64, cg_ptr(c, s.at)), zero = cg_i64(c, 0);
  if (ir_may_fault(c->f, v)) {
    LLVMValueRef last = cg_dim(c, s.last_start);
    *in_range = LLVMBuildAnd(c->b, LLVMBuildICmp(c->b, LLVMIntSGE, at, zero, ""),
                             LLVMBuildICmp(c->b, LLVMIntSLE, at, last, ""), "");
    If bad;
    cg_if(c, &bad, LLVMBuildNot(c->b, *in_range, ""));
    cg_report(c, TN_KERR_SLICE_RANGE, LLVMBuildSExt(c->b, cg_id(c, v), c->i64, ""), at);
    cg_endif(c, &bad);
  }
  return cg_add(c, cg_dim(c, s.from), at);
}
