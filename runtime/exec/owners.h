// Which process owns which part of the parameters that distributed functions update in parts: of all of them, one behind the
// other, each has a run of whole blocks, as many elements as the others but for a block. Numbers of blocks begin anew in each
// parameter, so that the parts of a norm, sums over blocks, have one owner.
#ifndef TN_RUNTIME_EXEC_OWNERS_H
#define TN_RUNTIME_EXEC_OWNERS_H

#include "runtime/exec/plan.h"

enum { RT_OWNED_BLOCK = 4096 };  // elements: the chunk of a norm (codegen/memory/optimizer.c)

typedef struct {
  int64_t lo, hi;  // elements [lo, hi)
} RtRange;

typedef struct {
  uint32_t n_ranks;
  uint32_t *place;  // by parameter, or its state: 1 + its place; 0: every process has and updates all of it
  int64_t *first;   // by place: elements before it; one more
  uint32_t n;
  int64_t *cut;  // by rank: elements of owners before it; one more
} RtOwners;

bool rt_owners_new(RtOwners *o, const RtPlan *p, uint32_t n_ranks);  // false: no memory
void rt_owners_free(RtOwners *o);
bool rt_is_owned(const RtOwners *o, uint32_t param);  // in parts
RtRange rt_owned_of(const RtOwners *o, uint32_t param, uint32_t rank);
// Where the part of a rank begins in the array of sums of a function: of sums that are wanted whole, and of the others.
int64_t rt_shared_cut(const RtShards *s, uint32_t rank, uint32_t n_ranks);
int64_t rt_owned_cut(const RtOwners *o, const RtShards *s, uint32_t rank);

#endif
