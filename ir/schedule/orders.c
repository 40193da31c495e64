// Orders by a rule: of the kernels that may run the one with the least key.
#include "ir/schedule/run.h"

typedef struct {
  int64_t first, second;
} Key;

static Key key_of(const Run *r, uint32_t rule, uint32_t k) {
  int64_t net = sched_net(r, k), need = sched_need(r, k);
  switch (rule) {
  case 0: return (Key){net, need};
  case 1: return (Key){need, net};
  case 2: return (Key){net > 0, need};
  default: return (Key){net > 0, -(int64_t)r->at[k]};  // else the one that stands last
  }
}

static bool is_less(Key a, uint32_t k, Key b, uint32_t j) {
  if (a.first != b.first) return a.first < b.first;
  return a.second != b.second ? a.second < b.second : k < j;
}

int64_t ir_sched_greedy(Run *r, uint32_t rule) {
  while (r->n_done) ir_sched_undo(r);
  r->largest = 0;
  while (r->n_ready) {
    uint32_t best = r->ready[0];
    Key least = key_of(r, rule, best);
    for (uint32_t i = 1; i < r->n_ready; i++) {
      Key key = key_of(r, rule, r->ready[i]);
      if (is_less(key, r->ready[i], least, best)) least = key, best = r->ready[i];
    }
    ir_sched_do(r, best);
  }
  return r->largest;
}

// Depth first for the most part: one of the two that were ready last, seldom any of them.
int64_t ir_sched_drawn(Run *r, uint64_t draw) {
  while (r->n_done) ir_sched_undo(r);
  r->largest = 0;
  for (uint64_t state = draw; r->n_ready;) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint32_t any = (uint32_t)(state >> 33), near = any % 8 && r->n_ready > 2 ? 2 : r->n_ready;
    ir_sched_do(r, r->ready[r->n_ready - 1 - any / 8 % near]);
  }
  return r->largest;
}

// The order with kernel `k` at place `to`, and others earlier or later where it waits for them or they for it
int64_t ir_sched_moved(Run *r, const uint32_t *place, uint32_t k, uint32_t to) {
  while (r->n_done) ir_sched_undo(r);
  r->largest = 0;
  while (r->n_ready) {
    uint32_t best = r->ready[0];
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < r->n_ready; i++) {
      uint32_t j = r->ready[i];
      uint64_t key = j == k ? 2 * (uint64_t)to + (to > place[k]) : 2 * (uint64_t)place[j] + (to <= place[k]);
      if (key < least) least = key, best = j;
    }
    ir_sched_do(r, best);
  }
  return r->largest;
}
