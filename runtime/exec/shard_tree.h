// The binary tree in which sums over shards are added, and the memory that it takes of a rank.
//
//   5 shards:   ((0 + 1) + (2 + 3)) + 4      the left half has the largest power of two below n of them
//
// Ranks have ranges of shards. A rank adds the nodes of the tree that lie in its range. Shards that are right operands, and its last
// one, write into the sums themselves; every other one, and what is added to it, takes a level: an array as large beside them.
#ifndef TN_RUNTIME_EXEC_SHARD_TREE_H
#define TN_RUNTIME_EXEC_SHARD_TREE_H

#include "runtime/api.h"

#include <stdbool.h>
#include <stdint.h>

enum { RT_OWNED_BLOCK = 4096 };  // elements: the chunk of a norm (codegen/memory/optimizer.c)
// Levels of 4096 shards in one range: one for each node on both ways from the root, and those of the last one
enum { RT_MOST_LEVELS = 2 * 12 + 12 };

// Shards of rank k: those from rt_first_shard(n, k, ..) on, before that of rank k + 1. Rows likewise.
static inline uint32_t rt_first_shard(uint32_t n, uint32_t rank, uint32_t n_ranks) {
  return (uint32_t)((uint64_t)n * rank / n_ranks);
}
static inline int64_t rt_first_row(int64_t rows, uint32_t n, uint32_t shard) { return (int64_t)shard * rows / n; }

uint32_t rt_left_half(uint32_t n);  // of n > 1 shards
uint32_t rt_rank_of_shard(uint32_t shard, uint32_t n, uint32_t n_ranks);
// Nodes of n shards that are other ranks'
uint32_t rt_nodes_of_others(uint32_t n, uint32_t rank, uint32_t n_ranks);
// Levels that a rank takes
uint32_t rt_levels(uint32_t n, uint32_t rank, uint32_t n_ranks);

// What stands beside sums: levels, and what is received of others of the part that a rank adds, of at[k] when there are k + 1 ranks. By
// number of levels: the most nodes that are received by a rank that takes as many; -1: none does.
typedef struct {
  int32_t nodes[RT_MOST_LEVELS + 1];
} RtTreeCost;
RT_API void rt_tree_costs(uint32_t n, RtTreeCost *at);
// The most elements that any rank of 1 to n needs beside n_elements of sums. n_sums: they lie one behind the other, each in lines of its
// own. is_even: ranks add as much as each other but for two blocks; else one may add all
RT_API int64_t rt_room_of(const RtTreeCost *at, uint32_t n, int64_t n_elements, uint32_t n_sums, bool is_even);

#endif
