// What trials ask of the walked plan: where its slots begin, versions of a buffer, who reads each, and which slots may ask for it.
#include "ir/schedule/recompute_trial.h"
#include <string.h>

static void add_check(Trial *t, uint32_t b, uint32_t slot) {
  *RT_PUSH(t->w->mem, t->checks, t->n_checks, t->cap_checks) = (SchedPair){b, slot};
}

// All that may be asked for where the kernel runs again.
static void add_checks(Trial *t, uint32_t kernel, uint32_t slot) {
  const Walk *w = t->w;
  for (uint32_t i = w->makes_of.first[kernel]; i < w->makes_of.first[kernel + 1]; i++) {
    uint32_t b = w->makes_of.list[i];
    add_check(t, b, slot);
    for (uint32_t m = 0; m < N_MAKES; m++) {
      const MakeAgain *of = walk_way(w, b, m);
      for (uint32_t s = of->first; of->ns >= 0 && s < of->first + of->n; s++) add_check(t, w->p->source[s], slot);
    }
  }
}

static void find_checks(Trial *t) {
  uint32_t n = t->w->p->p.n_buffers, *first = t->first_check;
  if (t->cap_check < t->n_checks) {
    t->cap_check = 2 * t->n_checks;
    t->check = rt_alloc(t->w->mem, t->cap_check * sizeof *t->check);
  }
  memset(first, 0, (n + 2) * sizeof *first);
  for (uint32_t c = 0; c < t->n_checks; c++) first[t->checks[c].of + 2]++;
  for (uint32_t b = 0; b < n; b++) first[b + 2] += first[b + 1];
  for (uint32_t c = 0; c < t->n_checks; c++) t->check[first[t->checks[c].of + 1]++] = t->checks[c].by;
}

static void find_readers(Trial *t) {
  const Walk *w = t->w;
  uint32_t *first = t->first_reader;
  if (t->cap_reader < w->n_reads) {
    t->cap_reader = 2 * w->n_reads;
    t->reader = rt_alloc(w->mem, t->cap_reader * sizeof *t->reader);
  }
  memset(first, 0, (w->n_versions + 2) * sizeof *first);
  for (uint32_t r = 0; r < w->n_reads; r++) first[w->reads[r] + 2]++;
  for (uint32_t v = 0; v < w->n_versions; v++) first[v + 2] += first[v + 1];
  for (uint32_t i = 0; i < w->n_items; i++)
    for (uint32_t r = w->items[i].first_read; r < w->items[i].first_read + w->items[i].n_read; r++)
      t->reader[first[w->reads[r] + 1]++] = i;
}

static void make_room(Trial *t) {
  const Walk *w = t->w;
  uint32_t n = w->n_items > w->n_versions ? w->n_items : w->n_versions;
  if (n < t->cap) return;
  t->cap = 2 * n + 2;
  t->older = rt_alloc(w->mem, t->cap * sizeof *t->older);
  t->first_reader = rt_alloc(w->mem, (t->cap + 2) * sizeof *t->first_reader);
  t->live = rt_alloc(w->mem, t->cap * sizeof *t->live);
  t->changed = rt_alloc(w->mem, (t->cap / 64 + 1) * sizeof *t->changed);
  t->runs_mark = rt_alloc(w->mem, t->cap * sizeof *t->runs_mark), t->runs = rt_alloc(w->mem, t->cap);
}

void ir_recompute_set_base(Trial *t) {
  const Walk *w = t->w;
  make_room(t);
  t->n_checks = 0;
  memset(t->newest, 0xff, w->p->p.n_buffers * sizeof *t->newest);
  for (uint32_t i = 0; i < w->n_items; i++) {
    const Item *item = &w->items[i];
    if (i == 0 || w->items[i - 1].at != item->at) t->first_of_slot[item->at] = i;
    t->live[i] = item->runs ? item->live : TRIAL_IDLE;
    for (uint32_t v = item->first_made; v < item->first_made + item->n_made; v++)
      t->older[v] = t->newest[w->versions[v].buffer], t->newest[w->versions[v].buffer] = v;
    if (item->again) add_checks(t, item->kernel, item->at);
  }
  t->first_of_slot[w->p->p.n] = w->n_items;
  find_checks(t);
  find_readers(t);
}

Trial *ir_recompute_trial(Walk *w) {
  uint32_t n = w->p->p.n, n_buffers = w->p->p.n_buffers;
  Trial *t = rt_alloc(w->mem, sizeof *t);
  *t = (Trial){.w = w, .first_of_slot = rt_alloc(w->mem, (n + 1) * sizeof *t->first_of_slot)};
  t->newest = rt_alloc(w->mem, (n_buffers + 1) * sizeof *t->newest);
  t->first_check = rt_alloc(w->mem, (n_buffers + 2) * sizeof *t->first_check);
  t->slots = rt_alloc(w->mem, (n + 1) * sizeof *t->slots);
  t->states = rt_alloc(w->mem, (n_buffers + 1) * sizeof *t->states);
  t->pending = rt_alloc(w->mem, (n / 64 + 1) * sizeof *t->pending);
  t->look = rt_alloc(w->mem, (n / 64 + 1) * sizeof *t->look);
  return t;
}
