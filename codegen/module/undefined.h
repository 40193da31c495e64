// Undefined symbols of an object.
#ifndef TN_CODEGEN_MODULE_UNDEFINED_H
#define TN_CODEGEN_MODULE_UNDEFINED_H

#include <llvm-c/Types.h>

// The first symbol that the object uses, does not define and no linker brings; NULL: there is none.
const char *cg_first_undefined(LLVMContextRef ctx, LLVMMemoryBufferRef object);

#endif
