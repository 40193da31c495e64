// What a program can ask of its CPU, by LLVM's names of features: x86 by cpuid and the registers that the system saves, AArch64 and
// RISC-V of 64 bits by what Linux tells.
#ifndef TN_CODEGEN_CPU_FEATURES_H
#define TN_CODEGEN_CPU_FEATURES_H

#include "codegen/target.h"
#include "runtime/bundle/bundle.h"

#define CG_CANNOT_ASK TN_CPU_WORDS  // for a word
typedef struct {
  const char *name;
  TnCpuWord word;  // or CG_CANNOT_ASK
  uint32_t bit;    // of the word
  uint64_t state;  // TnBundleCpu.state
} CgCpuFeature;

// The features that not every CPU of the triple has; NULL: a program is linked for its CPU there, as without a system and on 32-bit
// Arm, and asks for nothing.
const CgCpuFeature *cg_cpu_features(const char *triple, uint32_t *n);
bool cg_can_ask(const char *triple, const CgCpuFeature *f);
// Is it one of these, or one that needs no question? False of features that LLVM has and these tables do not.
bool cg_knows_feature(const char *triple, const char *name, size_t n);
const CgCpuFeature *cg_x86_feature(const char *name, size_t n);  // NULL: unknown

// What a target wants of a CPU; of one that cannot be asked, nothing.
void cg_target_cpu(const Target *t, TnBundleCpu *out);

// The plainest CPU for the triple, which every machine that runs such programs is at least; NULL: programs are linked for their
// CPU.
typedef struct {
  const char *cpu, *features;
} CgPlainCpu;
const CgPlainCpu *cg_plain_cpu(const char *triple);
// Its features, less those that `features` switches off.
const char *cg_plain_features(RtArena *mem, const CgPlainCpu *plain, const char *features);

#endif
