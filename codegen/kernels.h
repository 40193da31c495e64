// What a target makes of the kernels of a plan (kernels.c; the emitters: emitters.h).
#ifndef TN_CODEGEN_KERNELS_H
#define TN_CODEGEN_KERNELS_H

#include "codegen/target.h"
#include "ir/ir.h"

uint32_t cg_kernel_compile_cost(const Kernel *k);
// Bytes of private scratch that the kernel of the instruction at v wants (shared by all workers), by bounds of dims.
// 0 for most. Pass assign_buffers calls it through p->scratch.
int64_t cg_scratch_bytes(const Fn *f, Val v, const Target *t);
// Passes plan p for this target from now on: its facts, and the scratch of its kernels. t lives as long as p is planned.
void cg_plan_for(Prog *p, const Target *t);

#endif
