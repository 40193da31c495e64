// The buffers and kernels of a function as a problem of the room schedule. A header of this room.
#ifndef TN_IR_PASSES_PLANNING_PROBLEM_H
#define TN_IR_PASSES_PLANNING_PROBLEM_H

#include "ir/ir.h"
#include "ir/schedule/schedule.h"

typedef struct {
  SchedProblem p;     // kernels in their order
  uint32_t *index;    // by buffer of the function: that of the problem, + 1; 0: none
  int64_t always;     // bytes of buffers that live all the time, and are no part of the problem
  int64_t *constant;  // by kernel: bytes of others that are none
} PlanProblem;

// After pass assign_buffers. What waits for what is by buffers alone.
PlanProblem ir_plan_problem(const Fn *f, RtArena *mem);

#endif
