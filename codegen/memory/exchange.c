// Exchanges between processes (TnServices.exchange): all workers tell the runtime that sums over the shards
// of this process are ready, or that sums over all shards are needed; of a bucket, or -1: those that are
// wanted whole. The kernel reads its operands and writes the memory that they lie in, so barriers stand
// around it.
#include "codegen/cg.h"
#include "codegen/emitters.h"

#include <stddef.h>

bool cg_emit_exchange(Cg *c) {
  Val v = {c->k->first};
  V bucket = cg_i32(c, (int32_t)ir_attr_int(c->f, v, KEY_bucket, -1));
  V ends = cg_i32(c, ir_ins(c->f, v)->op == OP_exchange_end);
  V worker = cg_trunc(c, c->worker, c->i32), n_workers = cg_trunc(c, c->n_workers, c->i32);
  cg_call_service(c, offsetof(TnServices, exchange), (V[]){c->frame, bucket, ends, worker, n_workers}, 5);
  return true;
}
