// Random problems of the room schedule (ir/schedule).
#ifndef TN_TESTS_SCHEDULE_CASES_H
#define TN_TESTS_SCHEDULE_CASES_H

#include "ir/schedule/schedule.h"
#include "tests/rng.h"

enum { SCHEDULE_CASE_MOST = 8000 };  // kernels

typedef struct {
  SchedProblem p;
  uint32_t *first_dep, *dep, *maker, *first_user, *user;
  int64_t *size, *scratch, *in_place;
  bool *is_slot;  // of p where it is set there
} Case;

static bool waits_for(const Case *c, uint32_t k, uint32_t d) {
  for (uint32_t i = c->first_dep[k]; i < c->first_dep[k + 1]; i++)
    if (c->dep[i] == d) return true;
  return false;
}

static Case new_case(uint32_t n, uint32_t n_buffers, uint32_t n_users, uint32_t n_deps, RtArena *mem) {
  Case c = {.first_dep = rt_alloc(mem, (n + 1) * sizeof *c.first_dep),
            .dep = rt_alloc(mem, (n_deps + 1) * sizeof *c.dep)};
  c.maker = rt_alloc(mem, (n_buffers + 1) * sizeof *c.maker), c.size = rt_alloc(mem, (n_buffers + 1) * sizeof *c.size);
  c.first_user = rt_alloc(mem, (n_buffers + 1) * sizeof *c.first_user),
  c.user = rt_alloc(mem, (n_users + 1) * sizeof *c.user);
  c.scratch = rt_alloc(mem, (n + 1) * sizeof *c.scratch), c.in_place = rt_alloc(mem, (n + 1) * sizeof *c.in_place);
  c.is_slot = rt_alloc(mem, n_users + 1);
  c.p = (SchedProblem){n, 0, c.first_dep, c.dep, c.size, c.maker, c.first_user, c.user, c.scratch, c.in_place, NULL};
  return c;
}

// Each kernel makes up to two buffers, and reads up to three of those before it; some wait for others without reading them.
static Case random_case(Rng *rng, uint32_t n, RtArena *mem) {
  enum { PER_KERNEL = 6 };
  Case c = new_case(n, 2 * n, PER_KERNEL * n, PER_KERNEL * n, mem);
  uint32_t reads[SCHEDULE_CASE_MOST][3], n_reads[SCHEDULE_CASE_MOST] = {0}, window = 1 + rng_below(rng, n);
  uint32_t n_deps = 0, n_b = 0;
  for (uint32_t k = 0; k < n; k++) {
    c.first_dep[k] = n_deps;
    for (uint32_t i = 0; k && n_b && i < 3; i++) {
      uint32_t b = n_b - 1 - rng_below(rng, window < n_b ? window : n_b), is_new = 1;
      for (uint32_t j = 0; j < n_reads[k]; j++) is_new &= reads[k][j] != b;
      if (!is_new || rng_below(rng, 3) == 0) continue;
      reads[k][n_reads[k]++] = b;
      c.first_dep[k + 1] = n_deps;
      if (!waits_for(&c, k, c.maker[b])) c.dep[n_deps++] = c.maker[b];
      c.first_dep[k + 1] = n_deps;
    }
    c.first_dep[k + 1] = n_deps;
    uint32_t other = k ? rng_below(rng, k) : 0;
    if (k && rng_below(rng, 4) == 0 && !waits_for(&c, k, other)) c.dep[n_deps++] = other;
    c.first_dep[k + 1] = n_deps;
    for (uint32_t i = rng_below(rng, 4) == 0 ? 2 : 1; i-- > 0; n_b++)
      c.maker[n_b] = k, c.size[n_b] = 64 * (1 + (int64_t)rng_below(rng, rng_below(rng, 5) ? 16 : 200));
    c.scratch[k] = rng_below(rng, 5) ? 0 : 64 * (int64_t)rng_below(rng, 60);
    c.in_place[k] = rng_below(rng, 3) ? 0 : c.size[n_b - 1];
  }
  c.p.n_buffers = n_b;
  for (uint32_t b = 0, at = 0; b < n_b; b++) {
    for (uint32_t k = 0; k < n; k++)
      for (uint32_t i = 0; i < n_reads[k]; i++)
        if (reads[k][i] == b) c.user[at++] = k;
    c.first_user[b + 1] = at;
  }
  return c;
}

#endif
