// Exchanges between processes: the runtime is told, by all workers, that sums over the shards of this process are there, or that sums over
// all shards are wanted (TnServices.exchange); of a bucket, or -1: those that are wanted whole. Operands are in memory by then: that the
// kernel reads them, and writes the memory that they lie in, puts barriers around it.
#include "codegen/cg.h"
#include "codegen/emitters.h"

#include <stddef.h>

bool cg_emit_exchange(Cg *c) {
  Val v = {c->k->first};
  LLVMTypeRef args[] = {c->ptr, c->i32, c->i32, c->i32, c->i32};
  LLVMTypeRef t = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), args, 5, false);
  LLVMValueRef bucket = cg_i32(c, (int32_t)ir_attr_int(c->f, v, KEY_bucket, -1));
  LLVMValueRef ends = cg_i32(c, ir_ins(c->f, v)->op == OP_exchange_end);
  LLVMValueRef worker = LLVMBuildTrunc(c->b, c->worker, c->i32, ""),
               n_workers = LLVMBuildTrunc(c->b, c->n_workers, c->i32, "");
  LLVMValueRef fn = cg_service(c, offsetof(TnServices, exchange));
  LLVMBuildCall2(c->b, t, fn, (LLVMValueRef[]){c->frame, bucket, ends, worker, n_workers}, 5, "");
  return true;
}
