// Reductions that round nothing, and what reductions and the sums of a row kernel need of scratch.
#ifndef TN_CODEGEN_REDUCE_REDUCE_H
#define TN_CODEGEN_REDUCE_REDUCE_H

#include "codegen/cg.h"
#include "ir/ir.h"

int64_t cg_reduce_scratch_bytes(const Fn *f, Val v, const Target *t);
int64_t cg_exact_scratch_bytes(const Fn *f, Val v, const Target *t);
bool cg_emit_exact_reduce(Cg *c);

#endif
