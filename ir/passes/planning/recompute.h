// Inside of the room: a function as a problem of the room schedule, and the function of a sequence.
#ifndef TN_IR_PASSES_PLANNING_RECOMPUTE_H
#define TN_IR_PASSES_PLANNING_RECOMPUTE_H

#include "ir/passes/planning/problem.h"
#include "ir/schedule/recompute.h"

typedef struct {
  const Fn *f;  // with kernels and buffers
  RtArena *mem;
  PlanProblem plan;
  const Val *makers;   // by size: the layout that sets it
  SchedLists writers;  // by buffer: kernels that write it behind its maker
  Val *value;          // by buffer of the problem
  bool *is_needed;     // by value, of the kernel that is looked at
  MakeAgain *make;     // by buffer of the problem
  uint32_t *until;
  bool *has_effect;  // by kernel
  uint32_t *n_made;  // by kernel: its buffers of the problem
  uint32_t *source, n_sources, cap_sources;
} Again;

RecomputeProblem ir_recompute_problem(Again *a, const Fn *f);  // f: with buffers, and as it is as long as *a is used
void ir_recompute_emit(Fn *f, const Again *a, const Recompute *r);  // f: a copy of that of *a

#endif
