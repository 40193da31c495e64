// One emitter per class of kernels: cg_emit_<emit> of each row of ir/kernels.def. The builder stands in the entry block of
// c->fn; false: c->why.
#ifndef TN_CODEGEN_EMITTERS_H
#define TN_CODEGEN_EMITTERS_H

#include "codegen/cg.h"

typedef bool EmitFn(Cg *c);
#define CLASS(id, name, kernel, flags, emit, ...) EmitFn cg_emit_##emit;
#include "ir/kernels.def"
EmitFn *cg_kernel_emitter(OpClass cls);  // kernels.c; NULL: none

#endif
