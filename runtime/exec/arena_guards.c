#include "runtime/exec/arena_guards.h"

// Byte `at` of an arena full of this word, whose ends may lie inside a word
static unsigned char byte_of(uint32_t word, int64_t at) { return ((const unsigned char *)&word)[at % 4]; }

static void fill(unsigned char *arena, int64_t lo, int64_t hi, uint32_t word) {
  for (; lo < hi && lo % 4; lo++) arena[lo] = byte_of(word, lo);
  for (; lo + 4 <= hi; lo += 4) *(uint32_t *)(void *)(arena + lo) = word;
  for (; lo < hi; lo++) arena[lo] = byte_of(word, lo);
}

static bool holds(const unsigned char *arena, int64_t lo, int64_t hi, int64_t *at) {
  for (*at = lo; *at < hi; *at += 1)
    if (arena[*at] != byte_of(RT_GUARD, *at)) return false;
  return true;
}

static void look_at_guards(RtGuardedRun *r, const unsigned char *arena, int32_t done) {
  for (uint32_t k = 0; k < r->plan->n_zones && !r->is_damaged; k++) {
    const RtZone *z = &r->plan->zones[k];
    if (z->first > done || z->last < done) continue;
    int64_t at;
    if (holds(arena, z->guard_lo, z->lo, &at) && holds(arena, z->hi, z->guard_hi, &at)) continue;
    r->is_damaged = true, r->kernel = done, r->zone = k, r->at = at;
  }
}

// ---- NaN
static bool is_nan(uint32_t word) { return (word & 0x7fffffff) > 0x7f800000 && word != RT_POISON && word != RT_GUARD; }

static const unsigned char *watched_bytes(const TnFrame *f, const RtWatched *w) {
  if (w->segment == SEG_OUT) return f->out[w->offset];
  return (const unsigned char *)f->seg[w->segment] + w->offset;
}

static void look_for_nan(RtGuardedRun *r, const TnFrame *f, int32_t done) {
  for (uint32_t k = 0; k < r->plan->n_watched && !r->nan; k++) {
    const RtWatched *w = &r->plan->watched[k];
    if (w->kernel != done) continue;
    const uint32_t *word = (const uint32_t *)(const void *)watched_bytes(f, w);
    for (int64_t i = 0; i < w->bytes / 4 && !r->nan; i++)
      if (is_nan(word[i])) r->nan = w, r->element = i;
  }
}

bool rt_nan_report(const RtGuardedRun *r, char *error, size_t error_size) {
  if (!r->nan) return true;
  return rt_fail(error, error_size,
                 "the first NaN of the run is in %s, element %lld: kernel %d, %s, stored it; nothing was updated",
                 r->nan->what, (long long)r->element, (int)r->nan->kernel, r->plan->kernels[r->nan->kernel]);
}

// ---- a step
// The arena but for what is kept; zones are disjoint, guards included.
static void poison_all(const RtGuardedArena *plan, unsigned char *arena) {
  const RtZone *next = NULL;
  for (int64_t at = 0; at < plan->arena_bytes; at = next ? next->hi : plan->arena_bytes) {
    next = NULL;
    for (uint32_t k = 0; k < plan->n_zones; k++) {
      const RtZone *z = &plan->zones[k];
      if (z->is_kept && z->hi > at && (!next || z->lo < next->lo)) next = z;
    }
    fill(arena, at, next ? next->lo : plan->arena_bytes, RT_POISON);
  }
}

void rt_guarded_arena_step(TnFrame *f, int32_t done, int32_t next) {
  RtGuardedRun *r = f->guarded_arena;
  unsigned char *arena = f->seg[SEG_ARENA];
  if (done >= 0) look_for_nan(r, f, done);
  if (done < 0) poison_all(r->plan, arena);
  else look_at_guards(r, arena, done);
  for (uint32_t k = 0; k < r->plan->n_zones; k++) {
    const RtZone *z = &r->plan->zones[k];
    if (z->is_kept) continue;
    if (z->first <= done && z->last >= done && z->last < next) fill(arena, z->guard_lo, z->guard_hi, RT_POISON);
  }
  for (uint32_t k = 0; k < r->plan->n_zones; k++) {
    const RtZone *z = &r->plan->zones[k];
    if (z->first <= done || z->first > next || z->last < next) continue;  // a kernel without code: never live
    fill(arena, z->guard_lo, z->lo, RT_GUARD), fill(arena, z->hi, z->guard_hi, RT_GUARD);
    if (!z->is_kept) fill(arena, z->lo, z->hi, RT_POISON);
  }
}

bool rt_guarded_arena_report(const RtGuardedRun *r, char *error, size_t error_size) {
  if (!r->is_damaged) return true;
  const RtZone *z = &r->plan->zones[r->zone];
  bool before = r->at < z->lo;
  return rt_fail(error, error_size, "kernel %d, %s, wrote %lld bytes %s %s", (int)r->kernel,
                 r->plan->kernels[r->kernel], (long long)(before ? z->lo - r->at : r->at - z->hi),
                 before ? "before" : "behind the end of", z->what);
}
