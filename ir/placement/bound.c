// What prunes the search. An item before the cursor can no longer lie at its release: one that it meets must be placed
// first, with a top above the release and an offset below release + size. The least such top lifts the release.
// Then each section is one machine: its items are jobs that take their size and start at their release at the earliest.
// The makespan of release dates alone is the most, over items, of release + the sum of sizes that are released no earlier.
#include "ir/placement/search.h"
#include <string.h>

static bool is_passed(const Search *s, uint32_t i, PlaceCursor c) {
  return s->release[i] != c.at ? s->release[i] < c.at : s->rank[i] < c.rank;
}

// -1: nothing can lift it
static int64_t lift(Search *s, const uint32_t *list, uint32_t n, uint32_t i, PlaceCursor c) {
  const Problem *p = s->p;
  int64_t below = s->release[i] + p->size[i], least = INT64_MAX;
  uint32_t k = 0;
  if (below <= c.at) return -1;
  for (; k < n && s->release[list[k]] < below; k++) {
    uint32_t j = list[k];
    int64_t at = s->release[j] > c.at ? s->release[j] : c.at;
    if (at + p->size[j] < least && j != i && place_meet(p, i, j)) least = at + p->size[j];
  }
  s->steps += k;
  return least == INT64_MAX ? -1 : place_free_at(p, i, least);
}

static bool add_job(Search *s, uint32_t i, int64_t release) {
  const Problem *p = s->p;
  int64_t size = p->size[i], most = s->cap - release, over = 0;
  for (uint32_t r = p->first_range[i]; r < p->first_range[i + 1]; r++) {
    int64_t *load = s->load + p->ranges[r].from, *end = s->load + p->ranges[r].to;
    s->steps += end - load;
    for (; load < end; load++) {
      *load += size;
      over |= most - *load;
    }
  }
  return over >= 0;
}

// The passed ones are sorted by their lifted releases, those behind them by theirs.
static bool add_jobs(Search *s, const uint32_t *list, uint32_t n, uint32_t n_passed) {
  uint32_t k = n_passed;
  while (n > n_passed || k) {
    bool is_lifted = k && (n == n_passed || s->lifted[s->passed[k - 1]] > s->release[list[n - 1]]);
    uint32_t i = is_lifted ? s->passed[--k] : list[--n];
    if (!add_job(s, i, is_lifted ? s->lifted[i] : s->release[i])) return false;
  }
  return true;
}

bool ir_place_bound(Search *s, const uint32_t *list, uint32_t n, PlaceCursor cursor, SectionRange hull) {
  uint32_t n_passed = 0;
  for (; n_passed < n && is_passed(s, list[n_passed], cursor); n_passed++) {
    uint32_t i = list[n_passed], k = n_passed;
    s->lifted[i] = lift(s, list, n, i, cursor);
    if (s->lifted[i] < 0) return false;
    for (; k && s->lifted[s->passed[k - 1]] > s->lifted[i]; k--) s->passed[k] = s->passed[k - 1];
    s->passed[k] = i;
  }
  memset(s->load + hull.from, 0, (hull.to - hull.from) * sizeof *s->load);
  return add_jobs(s, list, n, n_passed);
}
