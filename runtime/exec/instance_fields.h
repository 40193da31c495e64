// What an instance has: for the files that run it (instance.c), hand out its parameters (instance_params.c) and share it
// between processes (instance_ranks.c).
#ifndef TN_RUNTIME_EXEC_INSTANCE_FIELDS_H
#define TN_RUNTIME_EXEC_INSTANCE_FIELDS_H

#include "runtime/exec/instance.h"
#include "runtime/exec/owners.h"
#include "runtime/exec/packed_weights.h"
#include "runtime/exec/ranks.h"
#include "runtime/exec/shape_cache.h"
#include "runtime/exec/shards.h"
#include "runtime/exec/thread_team.h"

#include <stdatomic.h>

struct RtInstance {
  const RtPlan *plan;
  const RtCacheWrite *cache_writes;
  uint32_t n_cache_writes;
  RtTeam *team;
  unsigned char *params, *arena, *blocks;
  unsigned char *kept;  // TN_CHECK=nan: room for the parameters as they were before a run; NULL: no function needs it
  RtPackedWeights packed;
  int64_t arena_bytes, block_bytes;
  bool params_written;    // since they were allocated: they are zero until then
  RtShapeCache *sizes;    // by function: of the last call that was accepted
  int64_t *slots;         // values of named dims in this run: compiled code sets some
  bool *is_known;         // by slot: an input of this function names it
  void **in, **out;       // pointer tables for the frame
  int64_t *part_slots;    // the same in one part of a run of a distributed function
  RtNode *nodes;          // of distributed functions: room for each shard
  int64_t *worker_slots;  // by worker, for rt_instance_add
  RtRange *ranges;        // likewise: room for each sum, and all elements
  RtRanks *ranks;         // NULL: alone
  RtOwners owners;        // of parameters that distributed functions update
  RtShardRun *shard_run;  // while one runs
  RtArray *by_port;       // lists that were given by name, in order: room for all inputs and outputs
  TnServices services;    // what compiled code may call
  TnFrame frame;          // its fields that are common to all runs are set once
  TnKernelStatus status;
  atomic_uint_fast64_t **n_runs;  // by function and variant, the function itself last; one block; read at any time
  uint64_t seed, counter;
  bool poison;
  bool no_draws;  // while it is initialised: TnFrame.no_draws
  char error[RT_ERROR_SIZE], warning[RT_WARNING_SIZE];
};

#endif
