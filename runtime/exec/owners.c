#include "runtime/exec/owners.h"

#include "runtime/base.h"

#include <string.h>

static int64_t elements_of(const RtPlan *p, uint32_t param) { return p->params[param].bytes / (int64_t)sizeof(float); }

// Parameters in the order of functions, buckets and lists of them; state has the place of its parameter.
static void find_places(RtOwners *o, const RtPlan *p) {
  for (uint32_t f = 0; f < p->n_functions; f++) {
    const RtShards *s = p->functions[f].shards;
    uint32_t last = UINT32_MAX;  // bucket of this function
    for (uint32_t k = 0; s && k < s->n_owned; k++) {
      const RtOwnedUpdate *u = &s->owned[k];
      if (!o->place[u->param]) {
        o->n_buckets += u->bucket != last, last = u->bucket;
        o->bucket[o->n] = o->n_buckets - 1;
        o->place[u->param] = ++o->n;
        o->first[o->n] = o->first[o->n - 1] + elements_of(p, u->param);
      }
      for (uint32_t j = 0; j < u->n_state; j++)
        o->place[u->state[j]] = o->place[u->param], o->is_part[u->state[j]] = true;
    }
  }
}

// The last place of [lo, hi) at which so many elements or fewer come before it.
static uint32_t place_at(const RtOwners *o, uint32_t lo, uint32_t hi, int64_t element) {
  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (o->first[mid] <= element) lo = mid;
    else hi = mid;
  }
  return lo;
}

// The bucket at places [lo, hi)
static void find_cuts(const RtOwners *o, uint32_t lo, uint32_t hi, int64_t *cut) {
  int64_t all = o->first[hi] - o->first[lo];
  for (uint32_t k = 0; k <= o->n_ranks; k++) {
    int64_t at = o->first[lo] + all / o->n_ranks * k + all % o->n_ranks * k / o->n_ranks;
    int64_t first = o->first[place_at(o, lo, hi, at)];
    cut[k] = k < o->n_ranks ? first + (at - first) / RT_OWNED_BLOCK * RT_OWNED_BLOCK : o->first[hi];
  }
}

static bool find_all_cuts(RtOwners *o) {
  o->cut = rt_malloc(((size_t)o->n_buckets * (o->n_ranks + 1) + 1) * sizeof *o->cut);
  for (uint32_t lo = 0, hi; o->cut && lo < o->n; lo = hi) {
    for (hi = lo; hi < o->n && o->bucket[hi] == o->bucket[lo];) hi++;
    find_cuts(o, lo, hi, o->cut + (size_t)o->bucket[lo] * (o->n_ranks + 1));
  }
  return o->cut != NULL;
}

bool rt_owners_new(RtOwners *o, const RtPlan *p, uint32_t n_ranks) {
  *o = (RtOwners){.n_ranks = n_ranks};
  o->place = rt_malloc((p->n_params + 1) * sizeof *o->place);
  o->first = rt_malloc((p->n_params + 1) * sizeof *o->first);
  o->bucket = rt_malloc((p->n_params + 1) * sizeof *o->bucket);
  o->is_part = rt_malloc(p->n_params + 1);
  if (!o->place || !o->first || !o->bucket || !o->is_part) return rt_owners_free(o), false;
  memset(o->is_part, 0, p->n_params + 1);
  memset(o->place, 0, (p->n_params + 1) * sizeof *o->place);
  o->first[0] = 0;
  find_places(o, p);
  if (find_all_cuts(o)) return true;
  rt_owners_free(o);
  return false;
}

void rt_owners_free(RtOwners *o) {
  rt_free(o->place), rt_free(o->first), rt_free(o->bucket), rt_free(o->is_part), rt_free(o->cut);
  *o = (RtOwners){0};
}

bool rt_is_owned(const RtOwners *o, uint32_t param) { return o->n_ranks > 1 && o->is_part[param]; }

static int64_t inside(int64_t x, int64_t n) { return x < 0 ? 0 : x < n ? x : n; }

RtRange rt_owned_of(const RtOwners *o, uint32_t param, uint32_t rank) {
  uint32_t place = o->place[param] - 1, bucket = o->bucket[place], run = (rank + bucket) % o->n_ranks;
  const int64_t *cut = o->cut + (size_t)bucket * (o->n_ranks + 1) + run;
  int64_t first = o->first[place], n = o->first[place + 1] - first;
  return (RtRange){inside(cut[0] - first, n), inside(cut[1] - first, n)};
}

int64_t rt_shared_cut(const RtShards *s, uint32_t rank, uint32_t n_ranks) {
  int64_t all = s->buckets[s->n_buckets].n, blocks = (all + RT_OWNED_BLOCK - 1) / RT_OWNED_BLOCK;
  int64_t at = blocks * rank / n_ranks * RT_OWNED_BLOCK;
  return at < all ? at : all;
}
