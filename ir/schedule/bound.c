// Bounds of the peak of all orders.
//
//   1. A kernel with what it makes needs so much, whatever else lives.
//   2. When kernel k runs, all that it waits for is done, and nothing that waits for it: what is made there and used here lives.
//   3. Of the others the best choice is a minimum cut: between sets of kernels that may be done, the bytes that live. It is found
//      for the kernels whose second bound is largest.
#include "ir/schedule/bound.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  const Run *r;
  uint32_t words;
  uint64_t *before, *behind;  // by kernel: sets
} Closure;

static bool has(const uint64_t *set, uint32_t k) { return set[k / 64] >> (k % 64) & 1; }

// The set of k: those that it names, and the sets of these.
static void add_sets(const Closure *c, uint64_t *sets, uint32_t k, const uint32_t *named, uint32_t n) {
  uint64_t *to = sets + (size_t)k * c->words;
  for (uint32_t i = 0; i < n; i++) {
    const uint64_t *from = sets + (size_t)named[i] * c->words;
    for (uint32_t w = 0; w < c->words; w++) to[w] |= from[w];
    to[named[i] / 64] |= UINT64_C(1) << (named[i] % 64);
  }
}

static Closure closure_of(const Run *r, RtArena *mem) {
  const SchedProblem *p = r->p;
  Closure c = {.r = r, .words = p->n / 64 + 1};
  c.before = rt_alloc(mem, (size_t)p->n * c.words * sizeof *c.before);
  c.behind = rt_alloc(mem, (size_t)p->n * c.words * sizeof *c.behind);
  for (uint32_t k = 0; k < p->n; k++)
    add_sets(&c, c.before, k, p->dep + p->first_dep[k], p->first_dep[k + 1] - p->first_dep[k]);
  for (uint32_t k = p->n; k-- > 0;)
    add_sets(&c, c.behind, k, r->succ + r->first_succ[k], r->first_succ[k + 1] - r->first_succ[k]);
  return c;
}

// While it runs: what it reads and makes, less what may lie at one place.
static int64_t bytes_of(const Run *r, uint32_t k, int64_t *read) {
  *read = 0;
  for (uint32_t i = r->first_read[k]; i < r->first_read[k + 1]; i++) *read += r->p->size[r->read[i]];
  int64_t shared = r->p->in_place[k] < *read ? r->p->in_place[k] : *read;
  return r->made[k] + r->p->scratch[k] - shared;
}

static int64_t live_at(const Closure *c, uint32_t k) {
  const SchedProblem *p = c->r->p;
  const uint64_t *before = c->before + (size_t)k * c->words, *behind = c->behind + (size_t)k * c->words;
  int64_t read, sum = bytes_of(c->r, k, &read);
  for (uint32_t b = 0; b < p->n_buffers; b++) {
    bool lives = false;
    if (!has(before, p->maker[b])) continue;
    for (uint32_t i = p->first_user[b]; i < p->first_user[b + 1] && !lives; i++)
      lives = p->user[i] == k || has(behind, p->user[i]);
    if (lives) sum += p->size[b];
  }
  return sum;
}

// ---- minimum cut: Dinic's
typedef struct {
  uint32_t to, next;
  int64_t room;
} Arc;

typedef struct {
  Arc *arcs;
  uint32_t *first, *at, *level, *queue, n, n_arcs, cap;
  RtArena *mem;
} Net;

static void add_arc(Net *t, uint32_t from, uint32_t to, int64_t room) {
  *RT_PUSH(t->mem, t->arcs, t->n_arcs, t->cap) = (Arc){to, t->first[from], room};
  t->first[from] = t->n_arcs;
  *RT_PUSH(t->mem, t->arcs, t->n_arcs, t->cap) = (Arc){from, t->first[to], 0};
  t->first[to] = t->n_arcs;
}

static bool find_levels(Net *t, uint32_t from, uint32_t to) {
  uint32_t n = 0;
  memset(t->level, 0, t->n * sizeof *t->level);
  t->level[from] = 1, t->queue[n++] = from;
  for (uint32_t k = 0; k < n && !t->level[to]; k++)
    for (uint32_t a = t->first[t->queue[k]]; a; a = t->arcs[a - 1].next) {
      const Arc *arc = &t->arcs[a - 1];
      if (arc->room > 0 && !t->level[arc->to]) t->level[arc->to] = t->level[t->queue[k]] + 1, t->queue[n++] = arc->to;
    }
  return t->level[to];
}

// One path of the levels; 0: there is none. Its arcs are kept in `queue`.
static int64_t push(Net *t, uint32_t from, uint32_t to) {
  uint32_t n = 0, at = from;
  int64_t least = INT64_MAX;
  while (at != to) {
    uint32_t a = t->at[at];
    while (a && (t->arcs[a - 1].room <= 0 || t->level[t->arcs[a - 1].to] != t->level[at] + 1)) a = t->arcs[a - 1].next;
    t->at[at] = a;
    if (a) {
      t->queue[n++] = a - 1, at = t->arcs[a - 1].to;
    } else {
      if (!n) return 0;
      t->level[at] = 0, at = t->arcs[t->queue[--n] ^ 1].to;
    }
  }
  for (uint32_t i = 0; i < n; i++)
    if (t->arcs[t->queue[i]].room < least) least = t->arcs[t->queue[i]].room;
  for (uint32_t i = 0; i < n; i++) t->arcs[t->queue[i]].room -= least, t->arcs[t->queue[i] ^ 1].room += least;
  return least;
}

enum { SOURCE, SINK, OTHERS };

static int64_t flow(Net *t) {
  int64_t sum = 0, more;
  while (find_levels(t, SOURCE, SINK)) {
    memcpy(t->at, t->first, t->n * sizeof *t->at);
    while ((more = push(t, SOURCE, SINK)) > 0) sum += more;
  }
  return sum;
}

static uint32_t node_of(const Closure *c, uint32_t of, uint32_t k) {
  if (has(c->before + (size_t)of * c->words, k)) return SOURCE;
  return k == of || has(c->behind + (size_t)of * c->words, k) ? SINK : OTHERS + k;
}

// Least bytes that live between kernels when k runs, of sets that hold what it waits for and nothing that waits for it.
static int64_t cut_at(const Closure *c, uint32_t k, Net *t) {
  static const int64_t NEVER = INT64_C(1) << 60;
  const SchedProblem *p = c->r->p;
  int64_t sum = 0;
  t->n_arcs = 0, t->n = OTHERS + p->n + p->n_buffers;
  memset(t->first, 0, t->n * sizeof *t->first);
  for (uint32_t b = 0; b < p->n_buffers; b++) {
    uint32_t from = node_of(c, k, p->maker[b]), by = OTHERS + p->n + b;
    bool lives = false;
    if (from == SINK || p->first_user[b] == p->first_user[b + 1]) continue;
    for (uint32_t i = p->first_user[b]; i < p->first_user[b + 1] && from == SOURCE && !lives; i++)
      lives = node_of(c, k, p->user[i]) == SINK;
    if (lives) sum += p->size[b];
    if (lives) continue;
    add_arc(t, from, by, p->size[b]);
    for (uint32_t i = p->first_user[b]; i < p->first_user[b + 1]; i++)
      if (node_of(c, k, p->user[i]) != SOURCE) add_arc(t, by, node_of(c, k, p->user[i]), NEVER);
  }
  for (uint32_t j = 0; j < p->n; j++)
    for (uint32_t i = p->first_dep[j]; i < p->first_dep[j + 1] && node_of(c, k, j) >= OTHERS; i++)
      if (node_of(c, k, p->dep[i]) >= OTHERS) add_arc(t, OTHERS + j, OTHERS + p->dep[i], NEVER);
  return sum + flow(t);
}

// ---- all three
static int by_bytes(const void *a, const void *b) {
  const SchedBound *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return x->kernel < y->kernel ? -1 : x->kernel > y->kernel;
}

SchedBound ir_sched_bound_alone(const Run *r) {
  SchedBound most = {0};
  for (uint32_t k = 0; k < r->p->n; k++) {
    int64_t read, bytes = bytes_of(r, k, &read) + read;
    if (bytes > most.bytes) most = (SchedBound){bytes, k};
  }
  return most;
}

SchedBound ir_sched_bound(const Run *r, int64_t enough, RtArena *mem) {
  enum { CUTS = 32 };
  const SchedProblem *p = r->p;
  Closure c = closure_of(r, mem);
  SchedBound *list = rt_alloc(mem, (p->n + 1) * sizeof *list);
  for (uint32_t k = 0; k < p->n; k++) list[k] = (SchedBound){live_at(&c, k), k};
  qsort(list, p->n, sizeof *list, by_bytes);
  SchedBound most = list[0];
  uint32_t nodes = OTHERS + p->n + p->n_buffers;
  Net t = {.mem = mem, .first = rt_alloc(mem, nodes * sizeof *t.first), .at = rt_alloc(mem, nodes * sizeof *t.at)};
  t.level = rt_alloc(mem, nodes * sizeof *t.level), t.queue = rt_alloc(mem, nodes * sizeof *t.queue);
  for (uint32_t i = 0; i < p->n && i < CUTS && most.bytes < enough; i++) {
    uint32_t k = list[i].kernel;
    int64_t read, bytes = bytes_of(r, k, &read) + cut_at(&c, k, &t);
    if (bytes > most.bytes) most = (SchedBound){bytes, k};
  }
  return most;
}
