// Runs of distributed functions: shard by shard, sums over shards, the update (RtShards in plan_types.h).
//
// The sum over shards is a binary tree that their number alone fixes: the left half of n shards has the largest power of two
// below n of them. Shards without rows are no part of it.
//
//   5 shards:   ((0 + 1) + (2 + 3)) + 4
//
// Ranks have ranges of shards. Each sums the nodes of the tree that lie in its range, and sends every other rank that one's part of
// them; the owner of a part adds the rest of the tree. Sums of which each rank wants its part alone are sent in buckets: while a rank
// computes its last shard, the code says when those of a bucket are there; they are added up to its nodes at once, and sent. Sums that the update wants whole are then handed to all; with its part
// of the others each rank updates the part of the parameters that it owns, and these parts are handed to all.
#ifndef TN_RUNTIME_EXEC_SHARDS_H
#define TN_RUNTIME_EXEC_SHARDS_H

#include "runtime/exec/instance.h"
#include "runtime/exec/owners.h"
#include "runtime/exec/ranks.h"
#include "runtime/exec/shape_cache.h"

// Shards of rank k: those from rt_first_shard(n, k, ..) on, before that of rank k + 1. Rows likewise.
static inline uint32_t rt_first_shard(uint32_t n, uint32_t rank, uint32_t n_ranks) {
  return (uint32_t)((uint64_t)n * rank / n_ranks);
}
static inline int64_t rt_first_row(int64_t rows, uint32_t n, uint32_t shard) { return (int64_t)shard * rows / n; }

// Nodes of the tree of 4096 shards in one range, and those on the way to one of them
enum { RT_MOST_SUMS = 2 * 12 + 12 };

// Memory of sums, taken when the first run wants it and kept.
typedef struct {
  float *list[RT_MOST_SUMS];
  bool is_used[RT_MOST_SUMS];
  int64_t bytes;  // of one
} RtSums;
void rt_sums_free(RtSums *s);

// A node of the tree that lies in the range of one rank, the node above it does not.
typedef struct {
  uint32_t lo, n, rank;
  uint32_t n_others;  // nodes of other ranks before it
  float *sum;         // of this rank's own; NULL: not computed
} RtNode;

typedef struct {
  RtInstance *instance;
  const RtFunction *function;
  const RtShapeCache *sizes;
  RtSums *sums;
  void **in, **out;                 // pointer tables of the frame
  int64_t *slots;                   // room for all
  const RtArray *inputs, *outputs;  // the caller's
  uint64_t counter, seed;
  RtRanks *ranks;           // NULL: alone
  const RtOwners *owners;   // of one rank: alone
  RtRange *ranges;          // by sum: room for all, and for all elements
  int64_t rows, first_row;  // of the whole batch; number of the first one that the caller gave
  RtNode *nodes;            // in the order of shards: room for one of each
  uint32_t n_nodes, next;
  // While the last shard of the rank is computed: sums that it is added to, from the outermost on, and its own
  float *left[RT_MOST_SUMS], *last;
  uint32_t n_left, last_shard, n_begun;  // n_begun: buckets
  char *error;
  size_t error_size;
} RtShardRun;
RtStatus rt_shards_run(RtShardRun *r);
// The arguments of a run were refused here: all ranks hear it
RtStatus rt_shards_refuse(RtShardRun *r, RtStatus status);
// Fills in the sums over blocks that other ranks have of exchange `number`, f32 each (TnServices.gather).
RtStatus rt_shards_gather(RtShardRun *r, uint32_t number, float *blocks);
// The sums of a bucket are there, if this is the last shard of the rank (true: an exchange is to begin): each worker adds its
// part to the sums of the shards before. Then, by one worker, the exchange begins.
bool rt_shards_fold(const RtShardRun *r, uint32_t bucket, uint32_t worker, uint32_t n_workers);
RtStatus rt_shards_begin(RtShardRun *r, uint32_t bucket);
// Elements of the sums that the rank adds for all, and how many nodes of n shards are other ranks'
int64_t rt_part_of(const RtOwners *o, const RtShards *s, uint32_t rank);
uint32_t rt_nodes_of_others(uint32_t n, uint32_t rank, uint32_t n_ranks);

#endif
