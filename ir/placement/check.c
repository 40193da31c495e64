// The independent check of a placement: a sweep over time, whose only shared code is the problem's own types.
#include "ir/placement/placement.h"
#include "runtime/format.h"
#include <stdlib.h>

typedef struct {
  int64_t time, low, top;
  uint32_t buffer;
  bool is_start;
} Edge;

static int by_time(const void *a, const void *b) {
  const Edge *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  if (x->is_start != y->is_start) return x->is_start ? 1 : -1;
  return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

static bool say(PlaceFault *fault, uint32_t buffer, uint32_t other, const char *what) {
  fault->buffer = buffer, fault->other = other;
  rt_format(fault->text, sizeof fault->text, "%s", what);
  return false;
}

// live[0 .. n): by offset; the place of what starts at `low`.
static uint32_t place_of(const Edge *live, uint32_t n, int64_t low) {
  uint32_t from = 0, to = n;
  while (from < to) {
    uint32_t middle = (from + to) / 2;
    if (live[middle].low < low) from = middle + 1;
    else to = middle;
  }
  return from;
}

// Ends come before starts, so that each start is held to what lives then.
static bool sweep(const Edge *edges, uint32_t n, Edge *live, PlaceFault *fault) {
  uint32_t n_live = 0;
  for (uint32_t k = 0; k < n; k++) {
    Edge e = edges[k];
    uint32_t at = place_of(live, n_live, e.low);
    if (!e.is_start) {
      n_live--;
      for (; at < n_live; at++) live[at] = live[at + 1];
      continue;
    }
    if (at < n_live && live[at].low < e.top) return say(fault, e.buffer, live[at].buffer, "overlaps another one");
    if (at && live[at - 1].top > e.low) return say(fault, e.buffer, live[at - 1].buffer, "overlaps another one");
    for (uint32_t m = n_live++; m > at; m--) live[m] = live[m - 1];
    live[at] = e;
  }
  return true;
}

static uint32_t add_edges(const PlaceBuffer *b, uint32_t k, int64_t offset, int64_t top, Edge *edges) {
  for (uint32_t h = 0; h <= b->n_holes; h++) {
    *edges++ = (Edge){h ? b->holes[h - 1].upper : b->lower, offset, top, k, true};
    *edges++ = (Edge){h < b->n_holes ? b->holes[h].lower : b->upper, offset, top, k, false};
  }
  return 2 * (b->n_holes + 1);
}

bool ir_place_check(const PlaceProblem *p, const int64_t *offsets, int64_t peak, RtArena *mem, PlaceFault *fault) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < p->n; k++) n += 2 * (p->buffers[k].n_holes + 1);
  Edge *edges = rt_alloc(mem, (n + 1) * sizeof *edges), *live = rt_alloc(mem, (p->n + 1) * sizeof *live);
  int64_t align = p->align > 1 ? p->align : 1;
  n = 0;
  for (uint32_t k = 0; k < p->n; k++) {
    const PlaceBuffer *b = &p->buffers[k];
    int64_t size = (b->size + align - 1) / align * align;
    if (b->fixed >= 0 && offsets[k] != b->fixed) return say(fault, k, k, "is not at the offset that is given");
    if (offsets[k] < 0 || offsets[k] % align || (b->align > 1 && offsets[k] % b->align))
      return say(fault, k, k, "has an offset that is not aligned");
    if (!size) continue;
    if (offsets[k] > peak - size) return say(fault, k, k, "lies above the peak");
    n += add_edges(b, k, offsets[k], offsets[k] + size, edges + n);
  }
  qsort(edges, n, sizeof *edges, by_time);
  return sweep(edges, n, live, fault);
}
