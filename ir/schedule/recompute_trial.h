// Inside of the room: what a trial (recompute_try.c) knows of the walked plan, and what it replaces.
#ifndef TN_IR_SCHEDULE_RECOMPUTE_TRIAL_H
#define TN_IR_SCHEDULE_RECOMPUTE_TRIAL_H

#include "ir/schedule/recompute_walk.h"

enum { NONE = UINT32_MAX };

typedef struct {
  uint32_t mark, first_item, n_items, first_read,
      n_read;  // replaced; what is made before the kernel, what the kernel reads
} Slot;

typedef struct {
  uint32_t touched, found;  // marks: readers changed; `last` is that of the trial
  uint32_t last;            // item; NONE: nobody reads it
  uint32_t late;            // the last item that reads it of those that are looked at anew: where `has_late` is a mark
  uint32_t has_late;
  uint32_t is_gone, same;  // mark; of a version that is not made any more: what is made in its place, or NONE
  uint32_t seen;
} Life;

typedef struct {
  uint32_t mark, slot, version;  // where it is made last in the trial
  uint32_t split;                // mark: the move splits it
} State;

typedef struct {
  uint32_t buffer, maker;
  uint32_t same;  // the plan's version that the plan makes in the same slot; NONE
} Own;

struct Trial {
  Walk *w;
  uint32_t number, n_looked;
  // the walked plan
  uint32_t cap, cap_reader, cap_check;
  uint32_t *first_of_slot;          // by kernel, one more: items
  uint32_t *newest, *older;         // by buffer, by version: versions
  uint32_t *first_reader, *reader;  // by version: items, rising
  uint32_t *first_check, *check;    // by buffer: slots that make something again and may ask for it
  SchedPair *checks;
  uint32_t n_checks, cap_checks;
  int64_t *live;  // by item; TRIAL_IDLE: it does not run
  // the trial
  const Split *splits;
  uint32_t n_splits;
  Slot *slots;
  State *states;                       // by buffer
  uint64_t *pending, *look, *changed;  // sets: slots to replace, slots to look at from behind, items whose bytes change
  uint32_t first_changed, last_look;
  Life *lives;          // by version, the plan's and then the trial's
  uint32_t *runs_mark;  // by item of the plan
  bool *runs;
  Item *items;
  Own *own;
  uint32_t *reads, *making;
  Making *open;
  uint32_t n_items, cap_items, n_own, cap_own, n_reads, cap_reads, n_making, cap_making, n_open, cap_open;
  uint32_t cap_lives;
  Tried out;
};

#define TRIAL_IDLE (INT64_MIN / 4)  // Trial.live of an item that does not run

static inline void set_put(uint64_t *set, uint32_t k) { set[k / 64] |= UINT64_C(1) << (k % 64); }
static inline void set_take(uint64_t *set, uint32_t k) { set[k / 64] &= ~(UINT64_C(1) << (k % 64)); }

// The first one from k on; n: none.
static inline uint32_t set_next(const uint64_t *set, uint32_t k, uint32_t n) {
  while (k < n) {
    uint64_t word = set[k / 64] >> (k % 64);
    if (word) return k + (uint32_t)__builtin_ctzll(word) < n ? k + (uint32_t)__builtin_ctzll(word) : n;
    k = (k / 64 + 1) * 64;
  }
  return n;
}

static inline bool trial_replaces(const Trial *t, uint32_t slot) { return t->slots[slot].mark == t->number; }

// ---- recompute_slots.c
void ir_recompute_replace_slots(Trial *t);

#endif
