// The tree of sums over shards, and the memory that it takes: for any number of shards and ranks, and whichever shards have rows, a rank
// has as many levels as rt_levels says or fewer, and all nodes of the tree are some rank's; rt_room_of holds what each rank needs.
#include "runtime/exec/shard_tree.h"
#include "tests/check.h"

#include <stdbool.h>
#include <stdlib.h>

// The runtime's walk (runtime/exec/shards.c), that counts levels: 0 is the sums themselves.
typedef struct {
  const bool *has_rows;
  uint32_t last, n_taken, most;
} Walk;

static bool any(const Walk *w, uint32_t lo, uint32_t n) {
  for (uint32_t k = lo; k < lo + n; k++)
    if (w->has_rows[k]) return true;
  return false;
}

// True: the result lies on a level.
static bool walk(Walk *w, uint32_t lo, uint32_t n, bool is_right) {
  if (n == 1) {
    bool takes = !is_right && lo != w->last;
    w->n_taken += takes;
    if (w->n_taken > w->most) w->most = w->n_taken;
    return takes;
  }
  uint32_t half = rt_left_half(n);
  if (!any(w, lo, half)) return walk(w, lo + half, n - half, is_right);
  bool is_pair = any(w, lo + half, n - half), left = walk(w, lo, half, is_right && !is_pair);
  if (!is_pair) return left;
  bool right = walk(w, lo + half, n - half, true), is_last = w->last >= lo && w->last < lo + n;
  CHECK(left &&
        !(is_last && right));  // one of two shards that wait for each other has a level; the last one is where sums are
  w->n_taken -= is_last ? left : right;
  return !is_last;
}

static void walk_nodes(Walk *w, uint32_t lo, uint32_t n, uint32_t first, uint32_t end) {
  if (lo + n <= first || lo >= end || !any(w, lo, n)) return;
  if (lo >= first && lo + n <= end) {
    walk(w, lo, n, false);
    return;
  }
  walk_nodes(w, lo, rt_left_half(n), first, end);
  walk_nodes(w, lo + rt_left_half(n), n - rt_left_half(n), first, end);
}

static uint32_t levels_taken(const bool *has_rows, uint32_t n, uint32_t rank, uint32_t n_ranks) {
  Walk w = {.has_rows = has_rows};
  uint32_t first = rt_first_shard(n, rank, n_ranks), end = rt_first_shard(n, rank + 1, n_ranks);
  for (uint32_t k = first; k < end; k++)
    if (has_rows[k]) w.last = k;
  walk_nodes(&w, 0, n, first, end);
  return w.most;
}

static void check_ranks(const bool *has_rows, uint32_t n, bool is_full) {
  RtTreeCost costs[64];
  rt_tree_costs(n, costs);
  for (uint32_t n_ranks = 1; n_ranks <= n; n_ranks++) {
    uint32_t all = rt_nodes_of_others(n, n_ranks, n_ranks), owned = 0;
    for (uint32_t rank = 0; rank < n_ranks; rank++) {
      uint32_t taken = levels_taken(has_rows, n, rank, n_ranks), levels = rt_levels(n, rank, n_ranks);
      CHECK(is_full ? taken == levels : taken <= levels);
      CHECK(levels <= RT_MOST_LEVELS);
      CHECK((int32_t)rt_nodes_of_others(n, rank, n_ranks) <= costs[n_ranks - 1].nodes[levels]);
      owned += all - rt_nodes_of_others(n, rank, n_ranks);
      for (uint32_t k = rt_first_shard(n, rank, n_ranks); k < rt_first_shard(n, rank + 1, n_ranks); k++)
        CHECK(rt_rank_of_shard(k, n, n_ranks) == rank);
    }
    CHECK(owned == all);
  }
}

static void test_levels(void) {
  for (uint32_t n = 1; n <= 40; n++) {
    bool has_rows[64];
    for (uint32_t k = 0; k < n; k++) has_rows[k] = true;
    check_ranks(has_rows, n, true);
    for (uint32_t rows = 1; rows < n; rows++) {  // fewer rows than shards
      for (uint32_t k = 0; k < n; k++) has_rows[k] = rt_first_row(rows, n, k + 1) > rt_first_row(rows, n, k);
      check_ranks(has_rows, n, false);
    }
  }
  CHECK(rt_levels(8, 0, 1) == 3 && rt_levels(8, 0, 2) == 2 && rt_levels(8, 7, 8) == 0 && rt_levels(8, 1, 3) == 1);
}

// One process has one sum beside log2 n levels; one shard for each rank wants what it receives.
static void test_room(void) {
  enum { MANY = 1 << 24 };
  RtTreeCost costs[8];
  rt_tree_costs(8, costs);
  int64_t room = rt_room_of(costs, 8, MANY, 1, true);
  CHECK(room >= 3 * (int64_t)MANY && room < 3 * (int64_t)MANY + 4 * (2 * RT_OWNED_BLOCK + 32));
  CHECK(rt_room_of(costs, 8, MANY, 1, false) == 7 * (int64_t)MANY);  // of eight ranks one adds all
  CHECK(rt_room_of(costs, 8, 16, 1, true) == 7 * 16);                // so it is where all is a block or less
  rt_tree_costs(1, costs);
  CHECK(rt_room_of(costs, 1, MANY, 1, true) == 0);
}

int main(void) {
  test_levels();
  test_room();
  return check_report();
}
