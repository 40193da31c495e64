// Groups as a problem of the room schedule. A header of this room.
#ifndef TN_IR_PASSES_FUSION_MEMORY_H
#define TN_IR_PASSES_FUSION_MEMORY_H

#include "ir/passes/fusion/groups.h"
#include "ir/schedule/schedule.h"

// By group, of those up to n_groups: bytes that its kernel needs while it runs.
typedef struct {
  int64_t *bytes;
  uint32_t n_groups;
} Scratch;

typedef struct {
  SchedProblem p;          // its kernels are the groups of a list, in order
  const uint32_t *buffer;  // by value: its buffer, + 1; 0: none, or nobody outside of its group reads it
  bool *is_live;           // by buffer: room for who asks
} Problem;

Problem ir_memory_problem(const Groups *g, const uint32_t *list, uint32_t n, Scratch scratch);
// The function is emitted in this order to ask for it, and is then what it was.
Scratch ir_memory_scratch(Groups *g, const uint32_t *list, uint32_t n);

#endif
