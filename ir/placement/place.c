// The driver: the portfolio; then, where its peak is above what is wanted, the search at the bound, and between bound and peak by
// halving what lies between them.
#include "ir/placement/problem.h"
#include <string.h>

typedef struct {
  Problem *p;
  PlaceSearch *search;
  int64_t *at, *try;                   // by item: the best offsets, and those of the search
  int64_t peak, refused, spent, left;  // refused: the highest cap that is proven too low; left: of the budget
} Driver;

static int64_t peak_of(const Problem *p, const int64_t *at) {
  int64_t peak = 0;
  for (uint32_t i = 0; i < p->n; i++)
    if (at[i] + p->size[i] > peak) peak = at[i] + p->size[i];
  return peak;
}

static PlaceAnswer ask(Driver *d, int64_t cap, int64_t budget) {
  int64_t spent = 0;
  if (budget > d->left) budget = d->left;
  PlaceAnswer answer = ir_place_search(d->search, cap, budget, &spent, d->try);
  d->spent += spent, d->left -= spent;
  if (answer == PLACE_IMPOSSIBLE && cap > d->refused) d->refused = cap;
  if (answer != PLACE_FOUND) return answer;
  memcpy(d->at, d->try, d->p->n * sizeof *d->at);
  d->peak = peak_of(d->p, d->at);
  return answer;
}

static bool is_far(const Driver *d, int64_t low) { return d->peak - low > (low >> 10 > 1 ? low >> 10 : 1); }

// Halves what lies between the bound and the peak. A target that ran out of its share of the budget ends its half as a
// refused one does, but is no proof: what is left of the budget goes to another round, of larger shares.
static void search_between(Driver *d) {
  int64_t bound = d->p->bound, share = d->left / 8 + 1;
  if (ask(d, bound, d->left / 2) == PLACE_FOUND) return;
  for (; d->left > 0 && d->peak - d->refused > 1 && is_far(d, bound); share *= 2)
    for (int64_t low = bound; d->left > 0 && is_far(d, low);) {
      int64_t middle = low + (d->peak - low) / 2;
      if (ask(d, middle, share) != PLACE_FOUND) low = middle;
    }
}

static void search(Driver *d, int64_t enough, bool is_enough) {
  if (d->peak <= enough || d->left <= 0) return;
  d->search = ir_place_search_new(d->p, d->left);
  if (is_enough) ask(d, enough, d->left);
  else search_between(d);
}

bool ir_place(const PlaceProblem *given, RtArena *mem, Placement *out, PlaceFault *fault) {
  Problem p;
  PlaceProblem of = *given;
  if (of.align < 1) of.align = 1;
  if (!ir_place_problem(&of, mem, &p, fault)) return false;
  Driver d = {.p = &p, .left = of.budget, .refused = p.bound - 1};
  d.at = rt_alloc(mem, (p.n + 1) * sizeof *d.at), d.try = rt_alloc(mem, (p.n + 1) * sizeof *d.try);
  int64_t enough = of.capacity / p.unit > p.bound ? of.capacity / p.unit : p.bound;
  d.peak = of.is_shuffled ? ir_place_shuffled(&p, d.at) : ir_place_portfolio(&p, enough, d.at);
  search(&d, enough, enough == of.capacity / p.unit);
  *out = (Placement){.offsets = rt_alloc(mem, (of.n + 1) * sizeof *out->offsets),
                     .peak = d.peak * p.unit,
                     .lower_bound = p.bound * p.unit,
                     .spent = d.spent,
                     .is_optimal = d.peak == d.refused + 1};
  out->is_refused = of.capacity && (d.refused + 1) * p.unit > of.capacity;
  for (uint32_t k = 0; k < of.n; k++)
    if (of.buffers[k].fixed > 0) out->offsets[k] = of.buffers[k].fixed;
  for (uint32_t i = 0; i < p.n; i++) out->offsets[p.buffer[i]] = d.at[i] * p.unit;
  return true;
}
