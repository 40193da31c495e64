// Bytes of stack that a function of a bundle takes, at most: LLVM tells the frame of each function when it makes code, and the
// calls of the module tell which frames lie on each other.
//
//   LLVMModuleRef copy = ..; cg_stack_ask(copy);           before code is made of it
//   cg_stack_note(&s, text);                               each of LLVM's remarks meanwhile
//   size_t n = cg_stack_bytes(&s, fn, entries, n_entries);
#ifndef TN_CODEGEN_BUNDLE_STACK_H
#define TN_CODEGEN_BUNDLE_STACK_H

#include "codegen/module/llvm_module.h"

typedef struct CgStackNode CgStackNode;
typedef struct {
  RtArena *mem;
  const Target *const *targets;
  uint32_t n_targets;
  CgStackNode *nodes;
  uint32_t n, cap;
  LLVMValueRef barrier;  // what entries call by its address
  bool is_known;         // a frame was told: code was made
} CgStack;

void cg_stack_ask(LLVMModuleRef mod);
// The functions of the module that are defined, without frames yet. is_runtime: code generation calls those of such names.
void cg_stack_open(CgStack *s, LLVMModuleRef mod, bool (*is_runtime)(const char *name));
void cg_stack_note(CgStack *s, const char *remark);
// Calls of unknown functions are those of entries, where support code calls, and the barrier's, where an entry does; what the
// caller's own barrier takes is not counted. 0: not known.
size_t cg_stack_bytes(CgStack *s, LLVMValueRef fn, const LLVMValueRef *entries, uint32_t n_entries);

#endif
