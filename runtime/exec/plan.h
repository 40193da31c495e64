// Questions to the runtime image of a compiled program (plan_types.h), and its memory.
#ifndef TN_RUNTIME_EXEC_PLAN_H
#define TN_RUNTIME_EXEC_PLAN_H

#include "runtime/base.h"
#include "runtime/exec/arena_guards.h"
#include "runtime/exec/plan_types.h"

uint32_t rt_plan_function(const RtPlan *p, const char *name);  // RT_NO_FUNCTION: none
uint32_t rt_plan_param(const RtPlan *p, const char *path);     // by path or alias; UINT32_MAX: none
// out[k] = value of row k; false: a size does not fit 62 bits.
RT_API bool rt_plan_dims(const RtPlan *p, const int64_t *slots, int64_t *out);

// Zeroed memory aligned to TN_ALIGN. Large blocks are fresh pages, huge if the system has them, and not touched here: they
// are committed on first use, local to the NUMA node of the worker that touches them first.
RT_API void *rt_block_new(int64_t bytes);               // NULL: out of memory
RT_API void rt_block_free(void *block, int64_t bytes);  // as it was made; NULL: nothing
// Part of a block whose content is not wanted any more: the memory of whole pages in it is given back.
void rt_block_drop(void *part, int64_t bytes);

#endif
