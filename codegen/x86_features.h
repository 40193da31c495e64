// Features of x86 CPUs, by LLVM's names: where cpuid reports each, and what the system must save for it.
#ifndef TN_CODEGEN_X86_FEATURES_H
#define TN_CODEGEN_X86_FEATURES_H

#include "codegen/cg.h"
#include "runtime/bundle/bundle.h"

typedef struct {
  const char *name;
  uint32_t leaf;
  enum { CPUID_EBX = 1, CPUID_ECX, CPUID_EDX } reg;
  uint32_t bit;
  uint64_t xcr0;  // register state
} CgX86Feature;
const CgX86Feature *cg_x86_feature(const char *name, size_t n);  // NULL: unknown

// What a target wants of a CPU, as cpuid reports it; of a target that is not x86, nothing that a program can ask for.
void cg_target_cpu(const Target *t, TnBundleCpu *out);

#endif
