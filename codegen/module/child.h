// Work in a child process: a crash, an abort, a lack of memory or an endless loop in it is a result here.
//
// The child is a fork: it reads everything that its parent has, and what it writes is its own. It answers in bytes.
#ifndef TN_CODEGEN_MODULE_CHILD_H
#define TN_CODEGEN_MODULE_CHILD_H

#include "codegen/module/compile.h"

typedef struct {
  CgFailure failure;  // CG_NO_FAILURE: data is what the child gave
  size_t size;
  void *data;  // from rt_malloc, size bytes; of a failure: NULL
} ChildAnswer;

enum { CG_CHILD_LANES = 8 };  // threads of a child
// In the child: what this thread is doing now, for the report of a crash. Does nothing in another process.
void cg_child_doing(const char *fmt, ...) RT_PRINTF(1, 2);
void cg_child_done(void);  // it does nothing now
void cg_child_lane(void);  // the first call of a further thread
bool cg_child_may_have_threads(void);
// In the child: ends it with this answer. text: why it failed.
_Noreturn void cg_child_answer(const CgObject *data);
_Noreturn void cg_child_answer_pieces(const CgObject *piece, uint32_t n);  // one behind the other
_Noreturn void cg_child_fail(CgFailure failure, const char *text);

// Runs work(ctx) in a child; it ends in cg_child_answer or cg_child_fail. A failure is told in `why`, in memory of its
// arena that is taken after the child has ended.
ChildAnswer cg_run_child(const CgLimits *limits, void (*work)(void *ctx), void *ctx, RtText *why);

#endif
