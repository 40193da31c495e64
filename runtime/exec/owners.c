#include "runtime/exec/owners.h"

#include "runtime/base.h"

#include <string.h>

static int64_t elements_of(const RtPlan *p, uint32_t param) { return p->params[param].bytes / (int64_t)sizeof(float); }

// Marks the parameters, then numbers them in their order; state has the place of its parameter.
static void find_places(RtOwners *o, const RtPlan *p) {
  for (uint32_t f = 0; f < p->n_functions; f++) {
    const RtShards *s = p->functions[f].shards;
    for (uint32_t k = 0; s && k < s->n_owned; k++) o->place[s->owned[k].param] = 1;
  }
  for (uint32_t k = 0; k < p->n_params; k++) {
    if (!o->place[k]) continue;
    o->place[k] = ++o->n;
    o->first[o->n] = o->first[o->n - 1] + elements_of(p, k);
  }
  for (uint32_t f = 0; f < p->n_functions; f++) {
    const RtShards *s = p->functions[f].shards;
    for (uint32_t k = 0; s && k < s->n_owned; k++)
      for (uint32_t j = 0; j < s->owned[k].n_state; j++) o->place[s->owned[k].state[j]] = o->place[s->owned[k].param];
  }
}

// The last place at which so many elements or fewer come before it.
static uint32_t place_at(const RtOwners *o, int64_t element) {
  uint32_t lo = 0, hi = o->n;
  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (o->first[mid] <= element) lo = mid;
    else hi = mid;
  }
  return lo;
}

static void find_cuts(RtOwners *o) {
  int64_t all = o->first[o->n];
  for (uint32_t k = 0; k <= o->n_ranks; k++) {
    int64_t at = all / o->n_ranks * k + all % o->n_ranks * k / o->n_ranks, first = o->first[place_at(o, at)];
    o->cut[k] = k < o->n_ranks ? first + (at - first) / RT_OWNED_BLOCK * RT_OWNED_BLOCK : all;
  }
}

bool rt_owners_new(RtOwners *o, const RtPlan *p, uint32_t n_ranks) {
  *o = (RtOwners){.n_ranks = n_ranks};
  o->place = rt_malloc((p->n_params + 1) * sizeof *o->place);
  o->first = rt_malloc((p->n_params + 1) * sizeof *o->first);
  o->cut = rt_malloc((n_ranks + 1) * sizeof *o->cut);
  if (!o->place || !o->first || !o->cut) return rt_owners_free(o), false;
  memset(o->place, 0, (p->n_params + 1) * sizeof *o->place);
  o->first[0] = 0;
  find_places(o, p);
  find_cuts(o);
  return true;
}

void rt_owners_free(RtOwners *o) {
  rt_free(o->place), rt_free(o->first), rt_free(o->cut);
  *o = (RtOwners){0};
}

bool rt_is_owned(const RtOwners *o, uint32_t param) { return o->n_ranks > 1 && o->place[param]; }

static int64_t inside(int64_t x, int64_t n) { return x < 0 ? 0 : x < n ? x : n; }

RtRange rt_owned_of(const RtOwners *o, uint32_t param, uint32_t rank) {
  int64_t first = o->first[o->place[param] - 1], n = o->first[o->place[param]] - first;
  return (RtRange){inside(o->cut[rank] - first, n), inside(o->cut[rank + 1] - first, n)};
}

int64_t rt_shared_cut(const RtShards *s, uint32_t rank, uint32_t n_ranks) {
  int64_t blocks = (s->n_shared + RT_OWNED_BLOCK - 1) / RT_OWNED_BLOCK, at = blocks * rank / n_ranks * RT_OWNED_BLOCK;
  return at < s->n_shared ? at : s->n_shared;
}

int64_t rt_owned_cut(const RtOwners *o, const RtShards *s, uint32_t rank) {
  for (uint32_t k = 0; k < s->n_owned; k++) {
    uint32_t place = o->place[s->owned[k].param];
    int64_t first = o->first[place - 1];
    if (o->first[place] > o->cut[rank]) return s->sum_at[s->owned[k].sum] + inside(o->cut[rank] - first, INT64_MAX);
  }
  return s->n_elements;
}
