// Runs of distributed functions: shard by shard, sums over shards, the update (RtShards in plan_types.h).
//
// The sum over shards is a binary tree that their number alone fixes (shard_tree.h). Shards without rows are no part of it. All memory is
// the arena's: of each bucket of sums the sums themselves, SUMS, and levels beside them for those of earlier shards. A shard that is
// added to another one at once, and the last of a rank, writes to SUMS; the last one's levels are added to it there.
//
// Ranks have ranges of shards. Each sums the nodes of the tree that lie in its range, and sends every other rank that one's part of
// them; the owner of a part adds the rest of the tree. Sums of which each rank wants its part alone are sent in buckets: while a rank
// computes its last shard, the code says when those of a bucket are there; they are added up to its nodes at once, and sent. In the update the
// code says when it wants the sums over all shards: each rank adds its part of them, and hands what the update wants whole to all. With
// its part of the others each rank updates the part of the parameters that it owns, and these parts are handed to all.
#ifndef TN_RUNTIME_EXEC_SHARDS_H
#define TN_RUNTIME_EXEC_SHARDS_H

#include "runtime/exec/instance.h"
#include "runtime/exec/owners.h"
#include "runtime/exec/ranks.h"
#include "runtime/exec/shape_cache.h"
#include "runtime/exec/shard_tree.h"

enum { RT_NO_ARRAY = -1, RT_SUMS = 0 };  // arrays of a bucket: the sums, then levels from 1 on

// A node of the tree that lies in the range of one rank, the node above it does not.
typedef struct {
  uint32_t lo, n, rank;
  uint32_t n_others;  // nodes of other ranks before it
  int32_t array;      // where the sums of this rank's own are; RT_NO_ARRAY: not computed
} RtNode;

typedef struct {
  RtInstance *instance;
  const RtFunction *function;
  const RtShapeCache *sizes;
  void **in, **out;                 // pointer tables of the frame
  int64_t *slots;                   // room for all
  const RtArray *inputs, *outputs;  // the caller's
  uint64_t counter, seed;
  RtRanks *ranks;           // NULL: alone
  const RtOwners *owners;   // of one rank: alone
  RtRange *ranges;          // by sum: room for all, and for all elements
  int64_t rows, first_row;  // of the whole batch; number of the first one that the caller gave
  RtNode *nodes;            // in the order of shards: room for one of each
  uint32_t n_nodes;
  uint32_t n_levels;  // of the rank
  bool is_used[RT_MOST_LEVELS + 1];
  // Sums that the shard which is computed is added to, from the outermost on. folds: it is the rank's last, and added in the arena as soon as
  // sums are there
  int32_t left[RT_MOST_LEVELS];
  uint32_t n_left, last_shard, n_begun;  // n_begun: buckets
  bool folds, has_last, is_ended;        // has_last: it is computed; is_ended: sums over all shards are there
  char *error;
  size_t error_size;
} RtShardRun;
RtStatus rt_shards_run(RtShardRun *r);
// The arguments of a run were refused here: all ranks hear it
RtStatus rt_shards_refuse(RtShardRun *r, RtStatus status);
// Fills in the sums over blocks that other ranks have of exchange `number`, f32 each (TnServices.gather).
RtStatus rt_shards_gather(RtShardRun *r, uint32_t number, float *blocks);
// The sums of a bucket, or those that are wanted whole, are there, if this is the last shard of the rank: each worker adds its part of the
// sums of the shards before. True: then, by one worker, the exchange begins.
bool rt_shards_fold(RtShardRun *r, uint32_t bucket, uint32_t worker, uint32_t n_workers);
RtStatus rt_shards_begin(RtShardRun *r, uint32_t bucket);
// Each worker adds its part of what this rank adds for all. True: then, by one worker, sums are handed to all.
bool rt_shards_end(RtShardRun *r, uint32_t bucket, uint32_t worker, uint32_t n_workers);
RtStatus rt_shards_share(RtShardRun *r);
// The plan has room for what the rank needs.
bool rt_shards_fit(const RtOwners *o, const RtShards *s, uint32_t rank);

#endif
