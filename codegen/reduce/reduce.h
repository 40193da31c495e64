// What reductions and the sums of a row kernel need of scratch.
#ifndef TN_CODEGEN_REDUCE_REDUCE_H
#define TN_CODEGEN_REDUCE_REDUCE_H

#include "codegen/target.h"
#include "ir/ir.h"

int64_t cg_reduce_scratch_bytes(const Fn *f, Val v, const Target *t);
int64_t cg_whole_reduce_scratch_bytes(const Fn *f, Val v, const Target *t);

#endif
