// Groups of instructions: what becomes a kernel. Pass fuse forms and orders them.
//
// Groups stay without a circle because each has a place, and what an instruction waits for is in its own group or in one
// whose place is before: its depth, then its rank, then its first instruction.
#ifndef TN_IR_PASSES_FUSION_GROUPS_H
#define TN_IR_PASSES_FUSION_GROUPS_H

#include "ir/ir.h"
#include "ir/rewrite.h"

// Of one depth: exchanges begin, kernels that any other may read, products in order, products with the update of a parameter
// behind all that reads it, what the next depth wants, and ends of what may be refused.
typedef enum { RANK_EXCHANGE, RANK_PLAIN, RANK_PRODUCT, RANK_UPDATE, RANK_LATE, RANK_END } Rank;

typedef struct {
  uint32_t first;  // member; the others by Groups.next, in order. 0: it is empty
  uint32_t n;      // values that members make
  uint32_t lead;   // the instruction that opened it: of a product with a prologue the product
  uint32_t depth;
  uint32_t split_off;  // the group that it was a part of until less memory was wanted (order_memory.c); 0: none
  uint8_t cls, rank;
  Val wanted;  // elements that its pointwise instructions compute; none: all
} Group;

typedef struct {
  uint32_t group, depth;
} Raised;

typedef struct {
  Fn *f;
  UseLists uses;
  const uint32_t *fused_into;  // by value: the product in whose prologue it is made; 0: none
  const Val *wanted;           // NULL: of every value all elements are
  // CSR by instruction: what it waits for, and what waits for it. Behind the last instruction stand two that are none: the
  // ends of what a run may still refuse.
  uint32_t *first_dep, *dep, *first_succ, *succ;
  bool *is_copied;  // by value: a fill that is in no group, but made in each that reads it
  uint32_t n_all;   // instructions and these two
  uint32_t *of;     // by value: its group; 0: none
  uint32_t *next;   // by instruction: the next member of its group
  Group *list;
  uint32_t n, cap;
  Raised *raised;  // of ir_raise: where groups were
  uint32_t cap_raised;
} Groups;

Groups ir_groups(Fn *f);
bool ir_makes_code(const Fn *f, uint32_t i);
uint32_t ir_new_group(Groups *g, Val v, uint32_t depth, Rank rank);
bool ir_group_is_before(const Groups *g, uint32_t a, uint32_t b);
void ir_join(Groups *g, uint32_t to, Val v);
void ir_leave(Groups *g, Val v);
bool ir_merge(Groups *g, uint32_t to, uint32_t from);  // all members, or none
bool ir_raise(Groups *g, uint32_t group, uint32_t depth, uint32_t not_to);

// ---- the groups that a group waits for, and those that wait for it: w.at, as often as their members do
//
//   for (GroupWalk w = ir_groups_before(g, group); ir_next_group(&w);)
typedef struct {
  const Groups *g;
  const uint32_t *first, *list;  // Groups.first_dep and dep, or first_succ and succ
  uint32_t i, k;                 // member, place in `list`
  uint32_t but;                  // the group that is left out
  bool is_one;                   // this member alone
  uint32_t at;
} GroupWalk;

static inline GroupWalk ir_groups_before(const Groups *g, uint32_t group) {
  uint32_t i = g->list[group].first;
  return (GroupWalk){g, g->first_dep, g->dep, i, g->first_dep[i], group, false, 0};
}
static inline GroupWalk ir_groups_behind(const Groups *g, uint32_t group) {
  uint32_t i = g->list[group].first;
  return (GroupWalk){g, g->first_succ, g->succ, i, g->first_succ[i], group, false, 0};
}
// Those that wait for instruction v
static inline GroupWalk ir_groups_of_readers(const Groups *g, Val v, uint32_t but) {
  return (GroupWalk){g, g->first_succ, g->succ, v.i, g->first_succ[v.i], but, true, 0};
}

static inline bool ir_next_group(GroupWalk *w) {
  while (w->i) {
    while (w->k < w->first[w->i + 1]) {
      w->at = w->g->of[w->list[w->k++]];
      if (w->at && w->at != w->but) return true;
    }
    w->i = w->is_one ? 0 : w->g->next[w->i], w->k = w->first[w->i];
  }
  return false;
}

enum { MAX_VALUES = 96 };  // of a group
// ---- may_join.c: the one place that says what a kernel may hold. NULL: v may join the group; else why not, a sentence about v.
const char *ir_may_join(const Groups *g, uint32_t to, Val v);
OpClass ir_kernel_class(const Fn *f, uint32_t i);
const char *ir_update_bar(const Groups *g, uint32_t to, Val v);  // fuse_update.c: v, an update, and a product's kernel
bool ir_update_overwrites(const Fn *f, Val update, uint32_t i);  // a buffer that instruction i reads or writes
bool ir_is_large_update(const Fn *f, Val grad);                  // it may run in the kernel of a product
bool ir_concat_pair_fits(const Fn *f, Val a, Val b);             // fuse_concat.c: both may be in one kernel
Shape ir_shape_of_elements(const Groups *g, const Group *k);     // of what a pointwise kernel computes
bool ir_is_nest(const Groups *g, const Group *k);                // a concat and concats that it alone reads
bool ir_joins_nest(const Groups *g, const Group *k, Val v);      // it is one with v as well

// ---- order.c. list: groups, at first in the order of their places
void ir_order_groups(const Groups *g, uint32_t *list, uint32_t n);
// ---- memory.c
// Bytes in the arena at the full bounds: plans for smaller ones have one order, and neighbours in it are merged.
int64_t ir_arena_bound(const Groups *g, uint32_t v);
// ---- emit.c
void ir_emit_groups(Groups *g, const uint32_t *list, uint32_t n);  // the function in this order, and its kernels

#endif
