// Mutation testing of the checkers: deliberate faults, each of which a named checker must catch. The list is
// faults.def.
#ifndef TN_TESTS_FAULTS_H
#define TN_TESTS_FAULTS_H

#include "ir/fn.h"
#include "ir/ir.h"

// What a fault is done to; what comes behind it runs again before the checker looks.
typedef enum {
  AT_IR,        // the instructions of a planned function; then the verifier
  AT_ORDER,     // its instructions; then fuse, assign_buffers, plan_memory, verify_plan
  AT_KERNELS,   // what fuse made; then assign_buffers, plan_memory, verify_plan
  AT_LIVENESS,  // what assign_buffers made; then plan_memory, verify_plan
  AT_MEMORY,    // what plan_memory made; then verify_plan
  AT_PROGRAM,   // what ir_plan_program_memory made; then its check
  AT_RUN,       // a compiled program, run with TN_CHECK=arena
  N_STAGES
} FaultStage;

typedef enum { BY_VERIFY, BY_LIVENESS, BY_PLAN_CHECK, BY_SEGMENTS, BY_ARENA, N_CHECKERS } FaultChecker;

// Does the fault at one place of f, counted from 0; false: f has no such place. Of AT_PROGRAM f is any function of it.
typedef bool FaultEdit(Fn *f, uint32_t site);
#define FAULT(stage, name, checker, says, doc) FaultEdit fault_##name;
#include "tests/faults.def"
#undef FAULT

typedef struct {
  FaultStage stage;
  const char *name;
  FaultChecker checker;
  const char *says, *doc;  // says: a part of the checker's sentence; `|` stands between several
  FaultEdit *edit;
} Fault;

// At the place that was asked for?  if (at(&site)) { .. return true; }
static inline bool at(uint32_t *site) { return (*site)-- == 0; }

// What the edits ask of instructions, kernels and buffers.
static inline Op op_at(const Fn *f, uint32_t i) { return (Op)f->ins[i].op; }
static inline OpClass class_at(const Fn *f, uint32_t i) { return (OpClass)ir_ops[f->ins[i].op].cls; }
static inline bool writes(const Fn *f, uint32_t i) { return ir_ops[op_at(f, ir_head(f, (Val){i}).i)].flags & WRITES; }
static inline uint32_t n_operands(const Fn *f, uint32_t i) { return op_at(f, i) == OP_result ? 0 : f->ins[i].n_args; }
static inline uint32_t arg(const Fn *f, uint32_t i, uint32_t k) { return ir_arg(f, (Val){i}, k).i; }
static inline uint32_t end_of(const Kernel *k) { return k->first + k->n; }

// A buffer that something is stored in, and that is no scratch.
static inline bool is_used(const Fn *f, uint32_t b) {
  return f->bufs[b].last >= 0 && !f->bufs[b].scratch && f->bufs[b].bytes > 0;
}
static inline bool in_arena(const Fn *f, uint32_t b) { return is_used(f, b) && f->bufs[b].seg == SEG_ARENA; }
static inline bool is_reused(const Fn *f, uint32_t buf) {
  for (uint32_t b = 1; b < f->n_bufs; b++)
    if (f->bufs[b].reuses == buf) return true;
  return false;
}
static inline bool kernel_writes(const Fn *f, const Kernel *k, uint32_t buf) {
  for (uint32_t i = k->first; i < end_of(k); i++)
    if (f->buf_of[i] == buf) return true;
  return false;
}
static inline uint32_t next_in(const Fn *f, Segment seg, uint32_t after) {
  for (uint32_t b = after + 1; b < f->n_bufs; b++)
    if (is_used(f, b) && f->bufs[b].seg == seg) return b;
  return 0;
}

bool faults_in_arena(const Fault *fault, RtText *said);  // faults_arena.c: compiles, runs; true: it was caught

#endif
