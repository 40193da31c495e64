// Moves that lower the bytes above the budget are added: those that take the least time for each byte that they remove, summed over
// all kernels.
#include "ir/schedule/recompute_walk.h"
#include <stdlib.h>

enum { MOST_GOOD = 16 };

static Tried try_move(Walk *w, const Moves *m, const Move *move) {
  Tried t = ir_recompute_try(w->trial, m->splits + move->first, move->n);
  w->spent += t.units;
  return t;
}

static void apply(Walk *w, const Moves *m, const Move *move) {
  for (uint32_t i = 0; i < move->n; i++)
    *RT_PUSH(w->mem, w->splits, w->n_splits, w->cap_splits) = m->splits[move->first + i];
  ir_recompute_walk(w);
  ir_recompute_set_base(w->trial);
}

void ir_recompute_note_peak(Walk *w) {
  if (w->is_late || w->peak >= w->lowest) return;
  w->lowest = w->peak, w->n_lowest = 0;
  for (uint32_t i = 0; i < w->n_splits; i++)
    *RT_PUSH(w->mem, w->lowest_splits, w->n_lowest, w->cap_lowest) = w->splits[i];
}

static double cost_of(const Walk *w, Tried t) { return (double)(t.ns - w->ns) / (double)(w->above - t.above); }

// The best of the moves at an item that are tried, and further ones that are nearly as good. False: none helps.
static bool improve_at(Walk *w, Moves *m, uint32_t at) {
  const double NEARLY = 1.3;
  uint32_t n_good = 0;
  Move good[MOST_GOOD];
  ir_recompute_moves(w, m, at);
  ir_recompute_set_base(w->trial);
  for (uint32_t i = 0; i < m->n && n_good < MOST_GOOD; i++) {
    Tried t = try_move(w, m, &m->list[i]);
    if (t.is_late || t.above >= w->above) continue;
    good[n_good] = m->list[i];
    good[n_good++].cost = cost_of(w, t);
  }
  qsort(good, n_good, sizeof *good, ir_recompute_by_cost);
  for (uint32_t i = 0; i < n_good && w->above > 0; i++) {
    Tried t = try_move(w, m, &good[i]);
    if (!t.is_late && t.above < w->above && (i == 0 || cost_of(w, t) <= NEARLY * good[0].cost)) apply(w, m, &good[i]);
  }
  return n_good > 0;
}

// At the peak, else at other items that are higher than their neighbours, highest first.
bool ir_recompute_improve(Walk *w, Moves *m) {
  enum { MOST_ITEMS = 12 };
  int64_t below = INT64_MAX;
  for (uint32_t n = 0, at = w->peak_item; n < MOST_ITEMS; n++) {
    if (improve_at(w, m, at)) return true;
    below = w->items[at].live;
    int64_t most = w->budget;
    bool is_found = false;
    for (uint32_t i = 0; i < w->n_items; i++) {
      const Item *item = &w->items[i];
      if (!item->runs || item->live <= most || item->live >= below) continue;
      most = item->live, at = i, is_found = true;
    }
    if (!is_found) return false;
  }
  return false;
}
