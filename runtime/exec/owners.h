// Which process owns which part of the parameters that distributed functions update in parts. Parameters whose gradients are exchanged
// together, in one bucket, lie one behind the other, and each process has a run of whole blocks of them, as many elements as the
// others but for a block; the runs of the next bucket begin with the next process. Numbers of blocks begin anew in each
// parameter, so that the parts of a norm, sums over blocks, have one owner.
#ifndef TN_RUNTIME_EXEC_OWNERS_H
#define TN_RUNTIME_EXEC_OWNERS_H

#include "runtime/exec/plan.h"
#include "runtime/exec/shard_tree.h"

typedef struct {
  int64_t lo, hi;  // elements [lo, hi)
} RtRange;

typedef struct {
  uint32_t n_ranks;
  uint32_t *place;   // by parameter, or state: 1 + its place; 0: it is not cut
  bool *is_part;     // likewise: each process has its part alone
  int64_t *first;    // by place: elements before it; one more
  uint32_t *bucket;  // by place: number of its bucket, among those of all functions
  uint32_t n, n_buckets;
  int64_t *cut;  // by bucket, of n_ranks + 1 runs: elements before each
} RtOwners;

bool rt_owners_new(RtOwners *o, const RtPlan *p, uint32_t n_ranks);  // false: no memory
void rt_owners_free(RtOwners *o);
bool rt_is_owned(const RtOwners *o, uint32_t param);  // each process has its part alone
RtRange rt_owned_of(const RtOwners *o, uint32_t param, uint32_t rank);
// Where the part of a rank begins among the sums of a function that are wanted whole.
int64_t rt_shared_cut(const RtShards *s, uint32_t rank, uint32_t n_ranks);

#endif
