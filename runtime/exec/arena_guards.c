#include "runtime/exec/arena_guards.h"

static void fill(unsigned char *arena, int64_t lo, int64_t hi, uint32_t word) {
  for (int64_t at = lo; at + 4 <= hi; at += 4) *(uint32_t *)(void *)(arena + at) = word;
}

static bool holds(const unsigned char *arena, int64_t lo, int64_t hi, int64_t *at) {
  for (*at = lo; *at + 4 <= hi; *at += 4)
    if (*(const uint32_t *)(const void *)(arena + *at) != RT_GUARD) return false;
  return true;
}

static void look_at_guards(RtGuardedRun *r, const unsigned char *arena, int32_t done) {
  for (uint32_t k = 0; k < r->plan->n_zones && !r->is_damaged; k++) {
    const RtZone *z = &r->plan->zones[k];
    if (z->first > done || z->last < done) continue;
    int64_t at;
    if (holds(arena, z->guard_lo, z->lo, &at) && holds(arena, z->hi, z->guard_hi, &at)) continue;
    *r = (RtGuardedRun){r->plan, true, done, k, at};
  }
}

void rt_guarded_arena_step(TnFrame *f, int32_t done, int32_t next) {
  RtGuardedRun *r = f->guarded_arena;
  unsigned char *arena = f->seg[SEG_ARENA];
  if (done < 0) fill(arena, 0, r->plan->arena_bytes, RT_POISON);
  else look_at_guards(r, arena, done);
  for (uint32_t k = 0; k < r->plan->n_zones; k++) {
    const RtZone *z = &r->plan->zones[k];
    if (z->first <= done && z->last >= done && z->last < next) fill(arena, z->guard_lo, z->guard_hi, RT_POISON);
  }
  for (uint32_t k = 0; k < r->plan->n_zones; k++) {
    const RtZone *z = &r->plan->zones[k];
    if (z->first <= done || z->first > next || z->last < next) continue;  // a kernel without code: never live
    fill(arena, z->guard_lo, z->guard_hi, RT_GUARD);
    fill(arena, z->lo, z->hi, RT_POISON);
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
