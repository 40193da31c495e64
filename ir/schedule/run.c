#include "ir/schedule/run.h"
#include <string.h>

typedef struct {
  uint32_t *first, *list;
} Lists;

// Of each of `to` values the ones of `from` that name it.
static Lists inverse(const uint32_t *first, const uint32_t *list, uint32_t from, uint32_t to, RtArena *mem) {
  Lists l = {rt_alloc(mem, (to + 2) * sizeof *l.first), rt_alloc(mem, (first[from] + 1) * sizeof *l.list)};
  uint32_t *next = l.first + 1;
  for (uint32_t i = 0; i < first[from]; i++) next[list[i] + 1]++;
  for (uint32_t k = 0; k < to; k++) next[k + 1] += next[k];
  for (uint32_t k = 0; k < from; k++)
    for (uint32_t i = first[k]; i < first[k + 1]; i++) l.list[next[list[i]]++] = k;
  return l;
}

static uint64_t mixed(uint64_t x) {  // splitmix64
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

// Of each item of `read` the item of p->user
static uint32_t *find_uses(const SchedProblem *p, const uint32_t *first_read, RtArena *mem) {
  uint32_t n = p->first_user[p->n_buffers], *use = rt_alloc(mem, (n + 1) * sizeof *use);
  uint32_t *next = rt_alloc(mem, (p->n + 1) * sizeof *next);
  memcpy(next, first_read, p->n * sizeof *next);
  for (uint32_t i = 0; i < n; i++) use[next[p->user[i]]++] = i;
  return use;
}

// The last user of buffer b, which alone still keeps it.
static void count_freed(Run *r, uint32_t b, int64_t bytes) {
  uint32_t i = r->rest[b], k = r->p->user[i];
  r->freed[k] += bytes;
  if (!r->p->is_slot || r->p->is_slot[i]) r->slots[k] += bytes;
}

static void make_ready(Run *r, uint32_t k) { r->at[k] = r->n_ready, r->ready[r->n_ready++] = k; }

Run ir_sched_run(const SchedProblem *p, RtArena *mem) {
  Lists read = inverse(p->first_user, p->user, p->n_buffers, p->n, mem),
        succ = inverse(p->first_dep, p->dep, p->n, p->n, mem);
  int64_t *made = rt_alloc(mem, (p->n + 1) * sizeof *made), *dead = rt_alloc(mem, (p->n + 1) * sizeof *dead);
  uint64_t *key = rt_alloc(mem, (p->n + 1) * sizeof *key);
  Run r = {.p = p,
           .first_read = read.first,
           .read = read.list,
           .use = find_uses(p, read.first, mem),
           .first_succ = succ.first,
           .succ = succ.list,
           .set = mixed(p->n)};
  r.made = made, r.dead = dead, r.key = key;
  r.n_users = rt_alloc(mem, (p->n_buffers + 1) * sizeof *r.n_users),
  r.rest = rt_alloc(mem, (p->n_buffers + 1) * sizeof *r.rest);
  r.n_waits = rt_alloc(mem, (p->n + 1) * sizeof *r.n_waits), r.freed = rt_alloc(mem, (p->n + 1) * sizeof *r.freed);
  r.slots = rt_alloc(mem, (p->n + 1) * sizeof *r.slots);
  r.ready = rt_alloc(mem, (p->n + 1) * sizeof *r.ready), r.at = rt_alloc(mem, (p->n + 1) * sizeof *r.at);
  r.done = rt_alloc(mem, (p->n + 1) * sizeof *r.done);
  for (uint32_t b = 0; b < p->n_buffers; b++) {
    made[p->maker[b]] += p->size[b];
    r.n_users[b] = p->first_user[b + 1] - p->first_user[b];
    if (!r.n_users[b]) dead[p->maker[b]] += p->size[b];
    for (uint32_t i = p->first_user[b]; i < p->first_user[b + 1]; i++) r.rest[b] ^= i;
    if (r.n_users[b] == 1) count_freed(&r, b, p->size[b]);
  }
  for (uint32_t k = 0; k < p->n; k++) {
    key[k] = mixed(k), r.n_waits[k] = p->first_dep[k + 1] - p->first_dep[k];
    if (!r.n_waits[k]) make_ready(&r, k);
  }
  return r;
}

void ir_sched_do(Run *r, uint32_t k) {
  const SchedProblem *p = r->p;
  if (r->held + sched_need(r, k) > r->largest) r->largest = r->held + sched_need(r, k);
  r->held += sched_net(r, k), r->set ^= r->key[k];
  for (uint32_t i = r->first_read[k]; i < r->first_read[k + 1]; i++) {
    uint32_t b = r->read[i];
    r->rest[b] ^= r->use[i];
    if (--r->n_users[b] == 1) count_freed(r, b, p->size[b]);
  }
  uint32_t last = r->ready[--r->n_ready];
  r->ready[r->at[k]] = last, r->at[last] = r->at[k];
  for (uint32_t i = r->first_succ[k]; i < r->first_succ[k + 1]; i++)
    if (--r->n_waits[r->succ[i]] == 0) make_ready(r, r->succ[i]);
  r->done[r->n_done++] = k;
}

void ir_sched_undo(Run *r) {
  const SchedProblem *p = r->p;
  uint32_t k = r->done[--r->n_done];
  for (uint32_t i = r->first_succ[k + 1]; i-- > r->first_succ[k];)
    if (r->n_waits[r->succ[i]]++ == 0) r->n_ready--;
  uint32_t last = r->ready[r->at[k]];
  if (r->at[k] < r->n_ready) r->at[last] = r->n_ready, r->ready[r->n_ready] = last;
  r->ready[r->at[k]] = k, r->n_ready++;
  for (uint32_t i = r->first_read[k]; i < r->first_read[k + 1]; i++) {
    uint32_t b = r->read[i];
    if (r->n_users[b]++ == 1) count_freed(r, b, -p->size[b]);
    r->rest[b] ^= r->use[i];
  }
  r->held -= sched_net(r, k), r->set ^= r->key[k];
}
