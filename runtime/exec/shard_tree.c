#include "runtime/exec/shard_tree.h"

enum { LINE = 16 };  // elements of TN_ALIGN bytes

uint32_t rt_left_half(uint32_t n) {
  uint32_t half = 1;
  while (half * 2 < n) half *= 2;
  return half;
}

uint32_t rt_rank_of_shard(uint32_t shard, uint32_t n, uint32_t n_ranks) {
  uint32_t rank = (uint32_t)((uint64_t)shard * n_ranks / n);  // or the next one
  while (rt_first_shard(n, rank + 1, n_ranks) <= shard) rank++;
  return rank;
}

static uint32_t count_nodes(uint32_t all, uint32_t lo, uint32_t n, uint32_t but, uint32_t n_ranks) {
  uint32_t rank = rt_rank_of_shard(lo, all, n_ranks), half = n > 1 ? rt_left_half(n) : 0;
  if (lo + n <= rt_first_shard(all, rank + 1, n_ranks)) return rank != but;
  return count_nodes(all, lo, half, but, n_ranks) + count_nodes(all, lo + half, n - half, but, n_ranks);
}

uint32_t rt_nodes_of_others(uint32_t n, uint32_t rank, uint32_t n_ranks) { return count_nodes(n, 0, n, rank, n_ranks); }

static uint32_t higher(uint32_t a, uint32_t b) { return a > b ? a : b; }

// A right operand is added at once; a left one is kept until then.
static uint32_t levels_of_node(uint32_t n, bool is_right) {
  if (n == 1) return !is_right;
  return higher(levels_of_node(rt_left_half(n), 0), 1 + levels_of_node(n - rt_left_half(n), 1));
}

typedef struct {
  uint32_t first, end, n_nodes, most;  // shards of the rank; nodes before this one
} Levels;

static void add_levels(Levels *l, uint32_t lo, uint32_t n) {
  if (lo + n <= l->first || lo >= l->end) return;
  if (lo >= l->first && lo + n <= l->end) {
    l->most = higher(l->most, l->n_nodes++ + levels_of_node(n, lo + n == l->end));
    return;
  }
  add_levels(l, lo, rt_left_half(n));
  add_levels(l, lo + rt_left_half(n), n - rt_left_half(n));
}

static Levels levels_of(uint32_t n, uint32_t rank, uint32_t n_ranks) {
  Levels l = {.first = rt_first_shard(n, rank, n_ranks), .end = rt_first_shard(n, rank + 1, n_ranks)};
  add_levels(&l, 0, n);
  return l;
}

uint32_t rt_levels(uint32_t n, uint32_t rank, uint32_t n_ranks) { return levels_of(n, rank, n_ranks).most; }

void rt_tree_costs(uint32_t n, RtTreeCost *at) {
  for (uint32_t n_ranks = 1; n_ranks <= n; n_ranks++) {
    uint32_t all = rt_nodes_of_others(n, n_ranks, n_ranks);
    RtTreeCost *c = &at[n_ranks - 1];
    for (uint32_t k = 0; k <= RT_MOST_LEVELS; k++) c->nodes[k] = -1;
    for (uint32_t rank = 0; rank < n_ranks; rank++) {
      Levels l = levels_of(n, rank, n_ranks);
      int32_t others = (int32_t)(all - l.n_nodes);
      if (others > c->nodes[l.most]) c->nodes[l.most] = others;
    }
  }
}

static int64_t part_of(int64_t n_elements, uint32_t n_sums, uint32_t n_ranks) {
  int64_t part = n_elements / n_ranks + 2 * RT_OWNED_BLOCK + (int64_t)LINE * n_sums;
  return part < n_elements ? part : n_elements;
}

int64_t rt_room_of(const RtTreeCost *at, uint32_t n, int64_t n_elements, uint32_t n_sums, bool is_even) {
  int64_t most = 0;
  for (uint32_t n_ranks = 1; n_ranks <= n; n_ranks++) {
    int64_t part = is_even ? part_of(n_elements, n_sums, n_ranks) : n_elements;
    for (uint32_t levels = 0; levels <= RT_MOST_LEVELS; levels++) {
      int32_t nodes = at[n_ranks - 1].nodes[levels];
      int64_t room = nodes < 0 ? 0 : levels * n_elements + nodes * part;
      if (room > most) most = room;
    }
  }
  return most;
}
