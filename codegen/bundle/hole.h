// Large constants of an object: LLVM makes code with zeros in their place, and whoever has the bytes puts them into the object, so
// that they are never copied through LLVM.
#ifndef TN_CODEGEN_BUNDLE_HOLE_H
#define TN_CODEGEN_BUNDLE_HOLE_H

#include "runtime/base.h"

#include <llvm-c/Core.h>

// The place of global `name` of n bytes in an object, as an offset; SIZE_MAX: it is not there, or no bytes lie there.
size_t cg_hole_offset(LLVMContextRef ctx, LLVMMemoryBufferRef object, const char *name, size_t n);

#endif
