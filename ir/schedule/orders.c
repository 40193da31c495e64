// Orders by a rule: of the kernels that may run the one with the least key.
#include "ir/schedule/run.h"

typedef struct {
  int64_t first, second;
} Key;

typedef Key KeyOf(const Run *r, const void *ctx, uint32_t k);

static bool is_less(Key a, uint32_t k, Key b, uint32_t j) {
  if (a.first != b.first) return a.first < b.first;
  return a.second != b.second ? a.second < b.second : k < j;
}

static int64_t by_least_key(Run *r, KeyOf *key_of, const void *ctx) {
  while (r->n_done) ir_sched_undo(r);
  r->largest = 0;
  while (r->n_ready) {
    uint32_t best = r->ready[0];
    Key least = key_of(r, ctx, best);
    for (uint32_t i = 1; i < r->n_ready; i++) {
      Key key = key_of(r, ctx, r->ready[i]);
      if (is_less(key, r->ready[i], least, best)) least = key, best = r->ready[i];
    }
    ir_sched_do(r, best);
  }
  return r->largest;
}

static Key key_of_rule(const Run *r, const void *ctx, uint32_t k) {
  int64_t net = sched_net(r, k), need = sched_need(r, k);
  switch (*(const uint32_t *)ctx) {
  case 0: return (Key){net, need};
  case 1: return (Key){need, net};
  case 2: return (Key){net > 0, need};
  default: return (Key){net > 0, -(int64_t)r->at[k]};  // else the one that stands last
  }
}

int64_t ir_sched_greedy(Run *r, uint32_t rule) { return by_least_key(r, key_of_rule, &rule); }

// ---- an order with kernel `k` at place `to`, and others earlier or later where it waits for them or they for it
typedef struct {
  const uint32_t *place;
  uint32_t k, to;
} Moved;

// What stands at `to` makes room: towards the place that the kernel leaves.
static Key key_of_place(const Run *r, const void *ctx, uint32_t j) {
  (void)r;
  const Moved *m = ctx;
  bool is_later = m->to > m->place[m->k];
  return j == m->k ? (Key){m->to, is_later} : (Key){m->place[j], !is_later};
}

int64_t ir_sched_moved(Run *r, const uint32_t *place, uint32_t k, uint32_t to) {
  return by_least_key(r, key_of_place, &(Moved){place, k, to});
}

// ---- drawn
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
