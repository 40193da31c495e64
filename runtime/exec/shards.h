// Runs of distributed functions: shard by shard, sums over shards, the update (RtShards in plan_types.h).
//
// The sum over shards is a binary tree that their number alone fixes: the left half of n shards has the largest power of two
// below n of them. Shards without rows are no part of it.
//
//   5 shards:   ((0 + 1) + (2 + 3)) + 4
#ifndef TN_RUNTIME_EXEC_SHARDS_H
#define TN_RUNTIME_EXEC_SHARDS_H

#include "runtime/exec/instance.h"
#include "runtime/exec/shape_cache.h"
#include "runtime/exec/thread_team.h"

// Memory of sums, taken when the first run wants it and kept.
typedef struct {
  float *list[16];  // as deep as the tree of 4096 shards, and what is sent
  bool is_used[16];
  int64_t bytes;  // of one
} RtSums;
void rt_sums_free(RtSums *s);

typedef struct {
  RtInstance *instance;
  const RtFunction *function;
  const RtShapeCache *sizes;
  RtTeam *team;
  RtSums *sums;
  void **in, **out;                 // pointer tables of the frame
  int64_t *slots;                   // room for all
  const RtArray *inputs, *outputs;  // the caller's
  uint64_t counter;
  char *error;
  size_t error_size;
} RtShardRun;
RtStatus rt_shards_run(RtShardRun *r);

#endif
