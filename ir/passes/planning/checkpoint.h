// Calls of modules whose forward values are computed again for the backward. A header of this room.
#ifndef TN_IR_PASSES_PLANNING_CHECKPOINT_H
#define TN_IR_PASSES_PLANNING_CHECKPOINT_H

#include "ir/ir.h"
#include "ir/passes/planning/problem.h"
#include "ir/schedule/recompute.h"

typedef struct {
  Split *list;
  uint32_t n, cap;
} Splits;

// value: by buffer of the problem
Splits ir_checkpoint_splits(const Fn *f, const PlanProblem *q, const Val *value, RtArena *mem);
// f: before kernels ran again. is_lower: the arena is smaller by it
void ir_checkpoints_done(const Fn *f, const Val *value, const Recompute *r, bool is_lower);

#endif
