// Total orders of items: by up to three keys, the largest first, then by item.
#include "ir/placement/problem.h"
#include <stdlib.h>

typedef struct PlaceKey {
  int64_t key[3];
  uint32_t item;
} PlaceKey;

static int by_keys(const void *a, const void *b) {
  const PlaceKey *x = a, *y = b;
  for (uint32_t k = 0; k < 3; k++)
    if (x->key[k] != y->key[k]) return x->key[k] > y->key[k] ? -1 : 1;
  return x->item < y->item ? -1 : x->item > y->item;
}

enum { BLOCK = 64 };  // sections, of which the most loaded is known

PlaceSorter ir_place_sorter(const Problem *p) {
  uint32_t n_sections = p->n_sections + 2;
  PlaceSorter s = {.p = p, .keys = rt_alloc(p->mem, (p->n + 1) * sizeof *s.keys)};
  int64_t sum = 0;
  s.load = rt_alloc(p->mem, n_sections * sizeof *s.load);
  s.block_load = rt_alloc(p->mem, (n_sections / BLOCK + 1) * sizeof *s.block_load);
  s.starts = rt_alloc(p->mem, n_sections * sizeof *s.starts);
  s.ends = rt_alloc(p->mem, n_sections * sizeof *s.ends);
  for (uint32_t i = 0; i < p->n; i++) s.starts[p->hull[i].from + 1]++, s.ends[p->hull[i].to]++, sum += p->size[i];
  for (uint32_t k = 1; k < n_sections; k++) s.starts[k] += s.starts[k - 1], s.ends[k] += s.ends[k - 1];
  while (sum >> s.shift >= INT64_C(1) << 40) s.shift++;
  return s;
}

static int64_t root(int64_t n) {  // rounded down
  int64_t r = 0;
  for (int64_t bit = INT64_C(1) << 30; bit; bit >>= 1)
    if ((r + bit) * (r + bit) <= n) r += bit;
  return r;
}

static int64_t most_of(const int64_t *load, uint32_t from, uint32_t to, int64_t most) {
  for (; from < to; from++)
    if (load[from] > most) most = load[from];
  return most;
}

static int64_t most_load(const PlaceSorter *s, uint32_t i) {
  const Problem *p = s->p;
  int64_t most = 0;
  for (uint32_t k = p->first_range[i]; k < p->first_range[i + 1]; k++) {
    uint32_t from = p->ranges[k].from, to = p->ranges[k].to, first = (from + BLOCK - 1) / BLOCK, last = to / BLOCK;
    if (first >= last) {
      most = most_of(s->load, from, to, most);
      continue;
    }
    most = most_of(s->load, from, first * BLOCK, most);
    most = most_of(s->block_load, first, last, most);
    most = most_of(s->load, last * BLOCK, to, most);
  }
  return most;
}

static void find_load(PlaceSorter *s, const uint32_t *items, uint32_t n) {
  const Problem *p = s->p;
  uint32_t from = UINT32_MAX, to = 0;
  for (uint32_t k = 0; k < n; k++) {
    SectionRange h = p->hull[items[k]];
    from = h.from < from ? h.from : from, to = h.to > to ? h.to : to;
  }
  if (!n) return;
  for (uint32_t t = from; t <= to; t++) s->load[t] = 0;
  for (uint32_t k = 0; k < n; k++) {
    uint32_t i = items[k];
    for (uint32_t r = p->first_range[i]; r < p->first_range[i + 1]; r++)
      s->load[p->ranges[r].from] += p->size[i], s->load[p->ranges[r].to] -= p->size[i];
  }
  for (uint32_t t = from + 1; t <= to; t++) s->load[t] += s->load[t - 1];
  for (uint32_t k = (from + BLOCK - 1) / BLOCK; k < to / BLOCK; k++)
    s->block_load[k] = most_of(s->load, k * BLOCK, (k + 1) * BLOCK, 0);
}

static PlaceKey key_of(const PlaceSorter *s, uint32_t i, PlaceOrder order) {
  const Problem *p = s->p;
  int64_t life = p->life[i], size = p->size[i] >> s->shift, area = size * life;
  int64_t sections = p->hull[i].to - p->hull[i].from;
  switch (order) {
  case BY_LIFE: return (PlaceKey){{life}, i};
  case BY_AREA: return (PlaceKey){{area}, i};
  case BY_SIZE: return (PlaceKey){{p->size[i]}, i};
  case BY_START: return (PlaceKey){{-(int64_t)p->hull[i].from, -p->start[i]}, i};
  case BY_END: return (PlaceKey){{p->end[i]}, i};
  case BY_LOAD_LIFE: return (PlaceKey){{most_load(s, i), life, area}, i};
  case BY_LOAD_AREA: return (PlaceKey){{most_load(s, i), area, life}, i};
  case BY_LIFE_AREA: return (PlaceKey){{life, area, most_load(s, i)}, i};
  case BY_SIZE_ROOT: return (PlaceKey){{size * root(sections << 16), sections}, i};
  case BY_DEGREE: return (PlaceKey){{size * (s->starts[p->hull[i].to] - s->ends[p->hull[i].from]), life}, i};
  case BY_PRESSURE: return (PlaceKey){{(size >> 10) * (most_load(s, i) >> s->shift >> 10), life, area}, i};
  case BY_HASH: return (PlaceKey){{(int64_t)(rt_hash(&i, sizeof i, 23) >> 1)}, i};
  }
  return (PlaceKey){{0}, i};
}

static int64_t jittered(int64_t key, uint32_t jitter, uint32_t item) {
  uint32_t seed[2] = {jitter, item};
  int64_t factor = 768 + (int64_t)(rt_hash(seed, sizeof seed, 40) % 513);
  return (key >> 10) * factor + ((key & 1023) * factor >> 10);
}

void ir_place_sort(PlaceSorter *s, uint32_t *items, uint32_t n, PlaceOrder order, uint32_t jitter) {
  find_load(s, items, n);
  for (uint32_t k = 0; k < n; k++) {
    s->keys[k] = key_of(s, items[k], order);
    for (uint32_t m = 0; m < 3 && jitter; m++) s->keys[k].key[m] = jittered(s->keys[k].key[m], jitter, items[k]);
  }
  qsort(s->keys, n, sizeof *s->keys, by_keys);
  for (uint32_t k = 0; k < n; k++) items[k] = s->keys[k].item;
}
