// Private blocks of a kernel: on the worker's stack, up to the target row's bound. If the stack is bounded,
// larger blocks go to TnFrame.blocks, which all kernels of a function share: one worker runs them in turn.
// Rows with worker_bytes have a part of TnFrame.blocks per worker: for data that stays in L2 but is too large
// for the stack of a foreign thread.
//
//   stack_bytes:  frames of calls (FRAMES) | blocks, first come, first served
#include "codegen/cg.h"

#include <stddef.h>

enum {
  FRAMES = 3 << 10
};  // entry, kernel, helpers, with the registers that LLVM puts there (docs/targets.md has sizes)

void cg_begin_blocks(Cg *c) { c->stack_used = FRAMES, c->frame_used = c->worker_used = 0; }

static int64_t bytes_of(const Cg *c, LLVMTypeRef elem, int64_t n) {
  int64_t size = elem == c->ptr ? c->t->pointer_bits / 8 : elem == c->i64 || elem == c->f64 ? 8 : 4;
  return cg_round_up(cg_larger(n, 1) * size, TN_ALIGN);
}

// The whole of its bytes is the block for LLVM, too: a masked load may read beyond the n elements (masked.c).
V cg_stack_block(Cg *c, LLVMTypeRef elem, int64_t n) {
  int64_t bytes = bytes_of(c, elem, n);
  c->stack_used += bytes;
  V p = LLVMBuildAlloca(c->b, LLVMArrayType2(c->i8, (uint64_t)bytes), "block");
  LLVMSetAlignment(p, TN_ALIGN);
  return p;
}

static V in_frame(Cg *c, int64_t bytes) {
  int64_t at = c->frame_used;
  c->frame_used += bytes;
  return cg_at(c, c->i8, cg_frame_ptr(c, offsetof(TnFrame, blocks)), cg_i64(c, at));
}

V cg_block(Cg *c, LLVMTypeRef elem, int64_t n) {
  int64_t bytes = bytes_of(c, elem, n);
  bool fits = c->stack_used + bytes + TN_ALIGN <= c->t->stack_bytes;
  return fits || !c->t->bounded_stack ? cg_stack_block(c, elem, n) : in_frame(c, bytes);
}

V cg_worker_block(Cg *c, int64_t n) {
  int64_t at = c->worker_used, bytes = bytes_of(c, c->f32, n);
  if (at + bytes > c->t->worker_bytes) return cg_block(c, c->f32, n);
  c->worker_used += bytes;
  V own = cg_mul(c, c->worker, cg_i64(c, c->t->worker_bytes));
  return cg_at(c, c->i8, cg_frame_ptr(c, offsetof(TnFrame, blocks)), cg_add(c, own, cg_i64(c, at)));
}
