// An LLVM module as one file of C99, for compilers that are not LLVM's. It needs <stdint.h>, <string.h> and <math.h>.
#ifndef TN_CODEGEN_C99_H
#define TN_CODEGEN_C99_H

#include "runtime/base.h"
#include <llvm-c/Core.h>

// External functions and variables keep their names; all else is static, and its names have no underscore. Names of the
// module's values are lost. false: `why` has what cannot be said in C.
bool cg_c99_text(RtArena *mem, LLVMModuleRef mod, RtText *out, RtText *why);

#endif
