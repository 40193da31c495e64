// Private blocks of a kernel: on the worker's stack, up to the row's bound for it. A kernel of a row with static_blocks puts
// what is too large into static memory, which all kernels of the program share: they run one after the other, by one
// worker.
//
//   stack_bytes:  frames of calls (FRAMES) | blocks, first come, first served
#include "codegen/cg.h"

enum {
  FRAMES = 3 << 10
};  // entry, kernel, helpers, with the registers that LLVM puts there (docs/targets.md has sizes)

void cg_begin_blocks(Cg *c) { c->stack_used = FRAMES, c->static_used = 0; }

static int64_t bytes_of(const Cg *c, LLVMTypeRef elem, int64_t n) {
  int64_t size = elem == c->ptr ? c->t->pointer_bits / 8 : elem == c->i64 ? 8 : 4;
  return cg_round_up(cg_larger(n, 1) * size, TN_ALIGN);
}

LLVMValueRef cg_stack_block(Cg *c, LLVMTypeRef elem, int64_t n) {
  c->stack_used += bytes_of(c, elem, n);
  LLVMValueRef p = LLVMBuildAlloca(c->b, LLVMArrayType2(elem, (uint64_t)n), "block");
  LLVMSetAlignment(p, TN_ALIGN);
  return p;
}

// The size is known when all kernels are built: until then a name stands for the memory.
static LLVMValueRef in_static(Cg *c, int64_t bytes) {
  if (!c->statics) c->statics = LLVMAddGlobal(c->mod, c->i8, "");
  int64_t at = c->static_used;
  c->static_used += bytes;
  c->static_most = cg_larger(c->static_most, c->static_used);
  return cg_at(c, c->i8, c->statics, cg_i64(c, at));
}

LLVMValueRef cg_block(Cg *c, LLVMTypeRef elem, int64_t n) {
  int64_t bytes = bytes_of(c, elem, n);
  bool fits = c->stack_used + bytes + TN_ALIGN <= c->t->stack_bytes;
  return fits || !c->t->static_blocks ? cg_stack_block(c, elem, n) : in_static(c, bytes);
}

void cg_end_blocks(Cg *c) {
  if (!c->statics) return;
  LLVMTypeRef type = LLVMArrayType2(c->i8, (uint64_t)c->static_most);
  LLVMValueRef memory = LLVMAddGlobal(c->mod, type, "blocks");
  LLVMSetInitializer(memory, LLVMConstNull(type));
  LLVMSetLinkage(memory, LLVMInternalLinkage);
  LLVMSetAlignment(memory, TN_ALIGN);
  LLVMReplaceAllUsesWith(c->statics, memory);
  LLVMDeleteGlobal(c->statics);
  c->statics = NULL;
}
