// The code of one kernel, to be read: LLVM's IR after its passes, or assembly; and what the kernel computes.
#ifndef TN_CODEGEN_MODULE_KERNEL_TEXT_H
#define TN_CODEGEN_MODULE_KERNEL_TEXT_H

#include "codegen/target.h"
#include "ir/ir.h"

typedef enum { CG_TEXT_LLVM, CG_TEXT_ASSEMBLY } CgTextKind;
// Of kernel `kernel` of f, a function of the planned program p; emitted in a process of its own. An entry that has no
// code (an output that was computed in place) gives "". false: why.
bool cg_kernel_text(Prog *p, const Target *t, const Fn *f, uint32_t kernel, CgTextKind kind, RtText *out, RtText *why);

// How kernel k of a function that is planned is computed, and why, on one line; "": there is one way.
const char *cg_kernel_reason(const Fn *f, const Kernel *k, RtArena *mem);

#endif
