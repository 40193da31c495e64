// One-pass decoders: from an order of items to offsets.
//
//   lowest      takes the item whose lowest offset above all placed ones that it meets is smallest (ties by order)
//   first fit   takes items in order, each at the lowest gap between the placed ones that it meets
//   best fit    likewise, at the smallest gap
#include "ir/placement/problem.h"
#include <stdlib.h>
#include <string.h>

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

// ---- lowest: a tree over the items by first section. Of what waits below a node: the least and the most of the lowest
// offsets above all placed ones that an item meets; which has the least, and which comes first in the order; the
// range of their last sections. What meets all of them and lies no lower than any raises them by the node alone (`raised`).
enum { NO_LEAF = UINT32_MAX };

static bool comes_first(const PlaceDecoder *d, uint32_t a, uint32_t b) {  // leaves
  return b == NO_LEAF || (a != NO_LEAF && d->rank[a] < d->rank[b]);
}

static void join(PlaceDecoder *d, uint32_t node) {
  const PlaceNode *a = &d->nodes[2 * node], *b = &d->nodes[2 * node + 1];
  bool is_left = a->least != b->least ? a->least < b->least : comes_first(d, a->best, b->best);
  d->nodes[node] = (PlaceNode){.least = is_left ? a->least : b->least,
                               .most = a->most > b->most ? a->most : b->most,
                               .best = is_left ? a->best : b->best,
                               .first = comes_first(d, a->first, b->first) ? a->first : b->first,
                               .soonest = a->soonest < b->soonest ? a->soonest : b->soonest,
                               .last = a->last > b->last ? a->last : b->last};
}

static void set_leaf(PlaceDecoder *d, uint32_t leaf, int64_t at, uint32_t last) {
  d->nodes[d->width + leaf] = (PlaceNode){at, at, leaf, leaf, last, last, 0};
}

static void empty_leaf(PlaceDecoder *d, uint32_t leaf) {
  d->nodes[d->width + leaf] = (PlaceNode){INT64_MAX, -1, NO_LEAF, NO_LEAF, UINT32_MAX, 0, 0};
}

static void plant(PlaceDecoder *d, const uint32_t *order) {
  const Problem *p = d->p;
  for (uint32_t k = 0; k < p->n_loose; k++) d->rank[d->leaf_of[order[k]]] = k;
  for (uint32_t k = 0; k < d->width; k++) {
    if (k < p->n_loose) set_leaf(d, k, place_free_at(p, d->leaves[k], 0), p->hull[d->leaves[k]].to);
    else empty_leaf(d, k);
  }
  for (uint32_t node = d->width - 1; node; node--) join(d, node);
}

static void raise_all(PlaceNode *node, int64_t top) {
  if (node->first == NO_LEAF) return;
  node->least = node->most = node->raised = top;
  node->best = node->first;
}

static void hand_down(PlaceDecoder *d, uint32_t node) {
  int64_t top = d->nodes[node].raised;
  if (!top) return;
  raise_all(&d->nodes[2 * node], top), raise_all(&d->nodes[2 * node + 1], top);
  d->nodes[node].raised = 0;
}

// Raises what meets item i to its top.
static void raise(PlaceDecoder *d, uint32_t node, uint32_t first, uint32_t width, uint32_t i, int64_t top) {
  const Problem *p = d->p;
  SectionRange h = p->hull[i];
  PlaceNode *at = &d->nodes[node];
  d->visits++;
  if (at->least >= top || at->last <= h.from || p->hull[d->leaves[first]].from >= h.to) return;
  if (width == 1) {
    if (place_meet(p, i, d->leaves[first])) at->least = at->most = place_free_at(p, d->leaves[first], top);
    return;
  }
  uint32_t end = first + width < p->n_loose ? first + width : p->n_loose, middle = first + width / 2;
  bool meets_all = at->soonest > h.from && p->hull[d->leaves[end - 1]].from < h.to;
  if (meets_all && at->most <= top && p->is_plain && !p->has_holes) {
    raise_all(at, top);
    return;
  }
  hand_down(d, node);
  raise(d, 2 * node, first, width / 2, i, top);
  if (middle < p->n_loose) raise(d, 2 * node + 1, middle, width / 2, i, top);
  join(d, node);
}

static void take_out(PlaceDecoder *d, uint32_t leaf) {
  for (uint32_t width = d->width; width > 1; width /= 2) hand_down(d, (d->width + leaf) / width);
  empty_leaf(d, leaf);
  for (uint32_t node = (d->width + leaf) / 2; node; node /= 2) join(d, node);
}

int64_t ir_place_lowest(PlaceDecoder *d, const uint32_t *order) {
  const Problem *p = d->p;
  int64_t peak = top_of_fixed(p);
  plant(d, order);
  for (uint32_t k = 0; k < p->n_loose; k++) {
    PlaceNode best = d->nodes[1];
    uint32_t i = d->leaves[best.best];
    int64_t top = best.least + p->size[i];
    d->at[i] = best.least;
    if (top > peak) peak = top;
    take_out(d, best.best);
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
