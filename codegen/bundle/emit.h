// A bundle's object: kernels and entries of a program for one or several targets, support code, tables and the functions
// of the bundle's header, in one LLVM module.
#ifndef TN_CODEGEN_BUNDLE_EMIT_H
#define TN_CODEGEN_BUNDLE_EMIT_H

#include "codegen/bundle/facts.h"
#include "codegen/module/compile.h"
#include "ir/ir.h"

typedef enum { CG_OBJECT_FILE, CG_ASSEMBLY, CG_LLVM_TEXT, CG_BITCODE, CG_C_TEXT, CG_N_FORMS } CgForm;

typedef struct {
  const TnBundle *facts;
  Prog *const *progs;   // by target: placed; functions in the order of the plan's, then their variants
  const char *section;  // for constants and embedded weights; NULL: .rodata
  bool has_workers;     // one more entry per function, for the caller's threads
  bool small;           // code for size
  const Target *const *targets;
  bool wants[CG_N_FORMS];
  // Out, by function of facts->about and then of NAME_init: bytes of stack that a call takes, at most; 0: not known, as where no
  // code was wanted or vectors have the size that the CPU gives them.
  size_t *stack_bytes;
} CgBundle;

// In a process of its own. Sets the arenas of b's facts. files: of the forms that are wanted, all inside of *block, which is
// from rt_malloc.
bool cg_bundle(RtArena *mem, const CgBundle *b, CgObject files[CG_N_FORMS], void **block, CgInfo *info, RtText *why);

#endif
