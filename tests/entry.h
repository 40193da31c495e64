// Compiled functions without a model, for tests of the compiler's rooms: code by a target's row, memory with guards behind it, runs
// by a team.
//
//   CgJit *jit = entry_jit(p, &target, why);  // all functions of p have gone through the passes
//   run_entry(entry_find(jit, cg_symbol(mem, p, f)), &frame);
#ifndef TN_TESTS_ENTRY_H
#define TN_TESTS_ENTRY_H

#include "codegen/gemm/sgemm.h"
#include "codegen/kernels.h"
#include "codegen/module/compile.h"
#include "ir/ir.h"
#include "runtime/exec/plan.h"
#include "runtime/exec/thread_team.h"

#include <stdlib.h>
#include <string.h>

// ---- memory
enum { BLOCK_GUARD = 128 /* bytes behind each block */, BLOCK_FILL = 0xA5 };
typedef struct {
  unsigned char *at;  // aligned as compiled code wants it
  size_t bytes;
} Block;

static inline Block new_block(RtArena *mem, int64_t bytes) {  // full of NaN
  unsigned char *raw = rt_alloc(mem, (size_t)bytes + BLOCK_GUARD + TN_ALIGN);
  Block b = {raw + (TN_ALIGN - (uintptr_t)raw % TN_ALIGN), (size_t)bytes};
  memset(b.at, 0xFF, b.bytes);
  memset(b.at + b.bytes, BLOCK_FILL, BLOCK_GUARD);
  return b;
}

// TnFrame.blocks of a run, full of NaN, until the next one: megabytes, whose pages would take longer than a small program.
static inline unsigned char *worker_blocks(int64_t worker_bytes, uint32_t n_workers) {
  static unsigned char *blocks;
  static size_t size;
  size_t bytes = (size_t)worker_bytes * n_workers;
  if (bytes > size) {
    free(blocks);
    blocks = aligned_alloc(TN_ALIGN, size = bytes);
    if (!blocks) perror("blocks of workers"), exit(2);
  }
  if (bytes) memset(blocks, 0xFF, bytes);
  return blocks;
}

static inline bool guard_holds(Block b) {
  for (uint32_t i = 0; i < BLOCK_GUARD; i++)
    if (b.at[b.bytes + i] != BLOCK_FILL) return false;
  return true;
}

// ---- code
static inline CgJit *entry_jit(Prog *p, const Target *t, RtText *why) {
  CgObject object = {0};
  CgJit *jit = cg_compile(p, t, NULL, &object, NULL, why) ? cg_jit_load(&object, NULL, why) : NULL;
  rt_free(object.bytes);
  return jit;
}

static inline TnEntry entry_find(CgJit *jit, const char *symbol) {
  TnEntry entry;
  void *at = cg_jit_find(jit, symbol);
  memcpy((void *)&entry, &at, sizeof entry);
  return entry;
}

// ---- a run by frame->team
static inline void entry_barrier(TnFrame *f, int32_t which, int32_t count) { rt_team_barrier(f->team, which, count); }
static const TnServices entry_services = {
    .barrier = entry_barrier, .sgemm = cg_sgemm, .guarded_arena = rt_guarded_arena_step};

typedef struct {
  TnEntry entry;
  TnFrame *frame;
} EntryRun;
static inline void entry_worker(void *ctx, int32_t worker, int32_t n_workers) {
  const EntryRun *r = ctx;
  r->entry(r->frame, worker, n_workers);
}
static inline void run_entry(TnEntry entry, TnFrame *frame) {
  frame->svc = &entry_services;
  rt_team_run(frame->team, entry_worker, &(EntryRun){entry, frame}, 0);
}

#endif
