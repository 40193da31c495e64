// The tables of a bundle as constants of an LLVM module. Layouts are those of a C compiler for the module's target.
#ifndef TN_CODEGEN_BUNDLE_CONSTANTS_H
#define TN_CODEGEN_BUNDLE_CONSTANTS_H

#include "codegen/bundle/facts.h"
#include <llvm-c/Core.h>

typedef struct {
  LLVMModuleRef mod;
  LLVMContextRef ctx;
  LLVMTypeRef i8, i32, i64, size, ptr;  // size: size_t
  RtArena *mem;
} CgConstants;

void cg_constants_open(CgConstants *k, LLVMModuleRef mod, RtArena *mem);
LLVMValueRef cg_constant_string(CgConstants *k, const char *s);  // NULL: a null pointer
LLVMValueRef cg_constant_bytes(CgConstants *k, const void *bytes, size_t n, uint32_t align);
// An internal constant of that value, by its address
LLVMValueRef cg_constant_global(CgConstants *k, LLVMValueRef value, const char *name);

// Entries of a plan, by name in the module: that of a function, and that of its variants
typedef LLVMValueRef CgEntryFinder(void *ctx, uint32_t function, uint32_t variant);
LLVMValueRef cg_constant_plan(CgConstants *k, const RtPlan *p, LLVMValueRef consts, CgEntryFinder *find, void *ctx);

// What about points to besides data
typedef struct {
  LLVMValueRef cpu, init, load, save, error, plans;
  LLVMValueRef *calls;  // by function of about
} CgBundleCode;
LLVMValueRef cg_constant_about(CgConstants *k, const TnBundleAbout *a, const CgBundleCode *code);  // a struct
LLVMValueRef cg_constant_bundle(CgConstants *k, const TnBundle *b, LLVMValueRef about, LLVMValueRef weights);

#endif
