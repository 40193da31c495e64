// One-pass decoders: from an order of items to offsets.
//
//   lowest      takes the item whose lowest offset above all placed ones that it meets is smallest (ties by order)
//   first fit   takes items in order, each at the lowest gap between the placed ones that it meets
//   best fit    likewise, at the smallest gap
#include "ir/placement/problem.h"
#include <stdlib.h>
#include <string.h>

struct PlaceNode {
  int64_t least;
  uint32_t best, last;  // best: a leaf
};

PlaceDecoder ir_place_decoder(const Problem *p) {
  size_t n = p->n + 1;
  PlaceDecoder d = {.p = p, .width = 1};
  while (d.width < p->n_loose) d.width *= 2;
  d.at = rt_alloc(p->mem, n * sizeof *d.at), d.list = rt_alloc(p->mem, n * sizeof *d.list);
  d.by_offset = rt_alloc(p->mem, n * sizeof *d.by_offset);
  d.rank = rt_alloc(p->mem, d.width * sizeof *d.rank), d.leaf_of = rt_alloc(p->mem, n * sizeof *d.leaf_of);
  d.leaves = rt_alloc(p->mem, n * sizeof *d.leaves), d.nodes = rt_alloc(p->mem, 2 * d.width * sizeof *d.nodes);
  for (uint32_t k = 0; k < p->n_fixed; k++) d.at[p->fixed[k]] = p->fixed_at[p->fixed[k]];
  for (uint32_t k = 0; k < p->n_loose; k++) d.by_offset[k] = (PlaceAt){p->hull[p->loose[k]].from, p->loose[k]};
  qsort(d.by_offset, p->n_loose, sizeof *d.by_offset, ir_place_by_offset);
  for (uint32_t k = 0; k < p->n_loose; k++) d.leaves[k] = d.by_offset[k].item, d.leaf_of[d.leaves[k]] = k;
  return d;
}

static int64_t top_of_fixed(const Problem *p) {
  int64_t top = 0;
  for (uint32_t k = 0; k < p->n_fixed; k++) {
    uint32_t i = p->fixed[k];
    if (p->fixed_at[i] + p->size[i] > top) top = p->fixed_at[i] + p->size[i];
  }
  return top;
}

// ---- lowest: a tree over the items by first section. Of what is below a node: the lowest of `least`, the lowest offset
// above all placed ones that an item meets, ties by order; and the last section. INT64_MAX: placed.
static void join(PlaceDecoder *d, uint32_t node) {
  const struct PlaceNode *a = &d->nodes[2 * node], *b = &d->nodes[2 * node + 1];
  bool is_right = a->least != b->least ? b->least < a->least : d->rank[b->best] < d->rank[a->best];
  d->nodes[node] = is_right ? *b : *a;
  d->nodes[node].last = a->last > b->last ? a->last : b->last;
}

static void plant(PlaceDecoder *d, const uint32_t *order) {
  const Problem *p = d->p;
  for (uint32_t k = 0; k < p->n_loose; k++) d->rank[d->leaf_of[order[k]]] = k;
  for (uint32_t k = 0; k < d->width; k++) {
    bool is_item = k < p->n_loose;
    uint32_t i = is_item ? d->leaves[k] : 0;
    d->nodes[d->width + k] =
        (struct PlaceNode){is_item ? place_free_at(p, i, 0) : INT64_MAX, k, is_item ? p->hull[i].to : 0};
  }
  for (uint32_t node = d->width - 1; node; node--) join(d, node);
}

// Raises what meets item i, from section h.from to h.to, to its top.
static void raise(PlaceDecoder *d, uint32_t node, uint32_t first, uint32_t width, uint32_t i, int64_t top) {
  const Problem *p = d->p;
  SectionRange h = p->hull[i];
  struct PlaceNode *at = &d->nodes[node];
  d->visits++;
  if (at->least >= top || at->last <= h.from || p->hull[d->leaves[first]].from >= h.to) return;
  if (width == 1) {
    if (place_meet(p, i, d->leaves[first])) at->least = place_free_at(p, d->leaves[first], top);
    return;
  }
  raise(d, 2 * node, first, width / 2, i, top);
  if (first + width / 2 < p->n_loose) raise(d, 2 * node + 1, first + width / 2, width / 2, i, top);
  join(d, node);
}

int64_t ir_place_lowest(PlaceDecoder *d, const uint32_t *order) {
  const Problem *p = d->p;
  int64_t peak = top_of_fixed(p);
  plant(d, order);
  for (uint32_t k = 0; k < p->n_loose; k++) {
    struct PlaceNode best = d->nodes[1];
    uint32_t i = d->leaves[best.best], node = d->width + best.best;
    int64_t top = best.least + p->size[i];
    d->at[i] = best.least;
    if (top > peak) peak = top;
    d->nodes[node].least = INT64_MAX;
    while (node /= 2) join(d, node);
    raise(d, 1, 0, d->width, i, top);
  }
  return peak;
}

static int64_t first_gap(const PlaceDecoder *d, uint32_t n, uint32_t i) {
  const Problem *p = d->p;
  int64_t at = 0;
  for (uint32_t k = 0; k < n; k++) {
    uint32_t j = d->list[k];
    if (d->at[j] >= at + p->size[i]) break;
    if (d->at[j] + p->size[j] <= at || !place_meet(p, i, j)) continue;
    at = d->at[j] + p->size[j];
    at = (at + p->align[i] - 1) / p->align[i] * p->align[i];
  }
  return at;
}

static int64_t best_gap(const PlaceDecoder *d, uint32_t n, uint32_t i) {
  const Problem *p = d->p;
  int64_t at = 0, best = -1, least = INT64_MAX;
  for (uint32_t k = 0; k < n; k++) {
    uint32_t j = d->list[k];
    if (d->at[j] + p->size[j] <= at || !place_meet(p, i, j)) continue;
    int64_t gap = d->at[j] - at;
    if (gap >= p->size[i] && gap < least) least = gap, best = at;
    at = d->at[j] + p->size[j];
    at = (at + p->align[i] - 1) / p->align[i] * p->align[i];
  }
  return best < 0 ? at : best;
}

// The first n of the list are placed, by offset.
static void insert(PlaceDecoder *d, uint32_t n, uint32_t i) {
  uint32_t k = n;
  for (; k && d->at[d->list[k - 1]] > d->at[i]; k--) d->list[k] = d->list[k - 1];
  d->list[k] = i;
}

static uint32_t drop_ended(PlaceDecoder *d, uint32_t n, uint32_t section) {
  uint32_t left = 0;
  for (uint32_t k = 0; k < n; k++)
    if (d->p->hull[d->list[k]].to > section) d->list[left++] = d->list[k];
  return left;
}

static int64_t fit(PlaceDecoder *d, const uint32_t *order, bool by_start, bool is_best) {
  const Problem *p = d->p;
  int64_t peak = top_of_fixed(p);
  uint32_t n = p->n_fixed;
  memcpy(d->list, p->fixed, n * sizeof *p->fixed);
  for (uint32_t k = 0; k < p->n_loose; k++) {
    uint32_t i = order[k];
    if (by_start) n = drop_ended(d, n, p->hull[i].from);
    d->at[i] = is_best ? best_gap(d, n, i) : first_gap(d, n, i);
    insert(d, n++, i);
    if (d->at[i] + p->size[i] > peak) peak = d->at[i] + p->size[i];
  }
  return peak;
}

int64_t ir_place_first_fit(PlaceDecoder *d, const uint32_t *order, bool by_start) {
  return fit(d, order, by_start, false);
}
int64_t ir_place_best_fit(PlaceDecoder *d, const uint32_t *order) { return fit(d, order, false, true); }
