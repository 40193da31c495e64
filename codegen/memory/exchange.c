// Exchanges between processes: the runtime is told, by all workers, that the sums of a bucket are there (TnServices.exchange). The
// operands are in memory by then: that the kernel reads them puts a barrier before it.
#include "codegen/cg.h"

#include <stddef.h>

bool cg_emit_exchange(Cg *c) {
  Val v = {c->k->first};
  LLVMTypeRef t =
      LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), (LLVMTypeRef[]){c->ptr, c->i32, c->i32, c->i32}, 4, false);
  LLVMValueRef bucket = cg_i32(c, (int32_t)ir_attr_int(c->f, v, KEY_bucket, 0));
  LLVMValueRef worker = LLVMBuildTrunc(c->b, c->worker, c->i32, ""),
               n_workers = LLVMBuildTrunc(c->b, c->n_workers, c->i32, "");
  LLVMValueRef fn = cg_service(c, offsetof(TnServices, exchange));
  LLVMBuildCall2(c->b, t, fn, (LLVMValueRef[]){c->frame, bucket, worker, n_workers}, 4, "");
  return true;
}
