// Support code of bundles as LLVM bitcode.
#ifndef TN_CODEGEN_BUNDLE_SUPPORT_CODE_H
#define TN_CODEGEN_BUNDLE_SUPPORT_CODE_H

#include "runtime/base.h"

// For the architecture with which the triple begins; false: why.
bool cg_support_code(const char *triple, const void **bytes, size_t *n, RtText *why);

#endif
