// Part of a trial: slots are replaced in order (recompute_try.c, 1).
#include "ir/schedule/recompute_trial.h"

static void set_pending(Trial *t, uint32_t slot, uint32_t from, uint32_t to) {
  if (slot > from && slot <= to) set_put(t->pending, slot);
}

// In which slot behind this one the plan makes it again; NONE: in none.
static uint32_t next_made(const Trial *t, uint32_t b, uint32_t slot) {
  uint32_t next = NONE;
  for (uint32_t v = t->newest[b]; v != NONE; v = t->older[v]) {
    const Item *item = &t->w->items[t->w->versions[v].maker];
    if (!item->again || item->at <= slot) break;
    next = item->at;
  }
  return next;
}

// What asks for the buffer behind the slot, as far as the slot in which the plan makes it next.
static void ask_behind(Trial *t, uint32_t b, uint32_t slot) {
  const SchedProblem *p = &t->w->p->p;
  uint32_t to = next_made(t, b, slot);
  for (uint32_t i = p->first_user[b]; i < p->first_user[b + 1]; i++) set_pending(t, p->user[i], slot, to);
  for (uint32_t i = t->first_check[b]; i < t->first_check[b + 1]; i++) set_pending(t, t->check[i], slot, to);
}

// The version that is there before the slot, and where it is made; 0: by its own kernel.
static uint32_t version_before(const Trial *t, uint32_t b, uint32_t slot, uint32_t *made) {
  const Walk *w = t->w;
  const State *s = &t->states[b];
  uint32_t v = t->newest[b];
  *made = 0;
  for (; v != NONE; v = t->older[v]) {
    const Item *item = &w->items[w->versions[v].maker];
    *made = item->again ? item->at : 0;
    if (!item->again || (item->at < slot && !trial_replaces(t, item->at))) break;
  }
  if (s->mark != t->number || s->slot < *made) return v;
  *made = s->slot;
  return s->version;
}

static bool is_there(const Trial *t, uint32_t b, uint32_t slot) {
  const Walk *w = t->w;
  uint32_t made;
  (void)version_before(t, b, slot, &made);
  for (uint32_t i = w->first_split[b]; i < w->first_split[b + 1]; i++)
    if (w->split_at[i] >= made && w->split_at[i] < slot) return false;
  for (uint32_t i = 0; t->states[b].split == t->number && i < t->n_splits; i++)
    if (t->splits[i].buffer == b && t->splits[i].at >= made && t->splits[i].at < slot) return false;
  return true;
}

static uint32_t pick_way(const Trial *t, uint32_t b, uint32_t slot) {
  const Walk *w = t->w;
  const MakeAgain *part = walk_way(w, b, MAKE_PART);
  if (walk_way(w, b, MAKE_KERNEL)->ns < 0) return MAKE_PART;
  for (uint32_t i = part->first; part->ns >= 0 && i < part->first + part->n; i++)
    if (!is_there(t, w->p->source[i], slot)) return MAKE_KERNEL;
  return part->ns < 0 ? MAKE_KERNEL : MAKE_PART;
}

static void choose_made(Trial *t, uint32_t b, uint32_t slot, uint32_t make) {
  const Walk *w = t->w;
  uint32_t k = w->p->p.maker[b];
  for (uint32_t i = w->makes_of.first[k]; i < w->makes_of.first[k + 1]; i++) {
    uint32_t o = w->makes_of.list[i], made;
    bool may = walk_way(w, o, make)->ns >= 0 && w->p->until[o] > slot;
    if (o != b && !(make == MAKE_KERNEL && may && walk_last_user(w->p, o) >= slot && !is_there(t, o, slot))) continue;
    uint32_t version = version_before(t, o, slot, &made);
    State *s = &t->states[o];
    *s = (State){t->number, slot, version, s->split};
    *RT_PUSH(w->mem, t->making, t->n_making, t->cap_making) = o;
  }
}

static void open_making(Trial *t, uint32_t b, uint32_t slot) {
  const Walk *w = t->w;
  if (is_there(t, b, slot)) return;
  Making k = {.buffer = b, .make = (uint8_t)pick_way(t, b, slot), .first = t->n_making, .next = t->n_making};
  if (walk_way(w, b, k.make)->ns < 0 || w->p->until[b] <= slot) t->out.is_late = true;
  choose_made(t, b, slot, k.make);
  k.behind = t->n_making;
  *RT_PUSH(w->mem, t->open, t->n_open, t->cap_open) = k;
}

static bool next_source(const Trial *t, Making *k, uint32_t *b) {
  for (; k->next < k->behind; k->next++, k->n_seen = 0) {
    const MakeAgain *of = walk_way(t->w, t->making[k->next], k->make);
    if (k->n_seen < of->n) return *b = t->w->p->source[of->first + k->n_seen++], true;
  }
  return false;
}

static void add_read(Trial *t, uint32_t b, uint32_t slot) {
  uint32_t made;
  *RT_PUSH(t->w->mem, t->reads, t->n_reads, t->cap_reads) = version_before(t, b, slot, &made);
}

static void make(Trial *t, const Making *k, uint32_t slot) {
  const Walk *w = t->w;
  Item item = {.kernel = w->p->p.maker[k->buffer], .at = slot, .make = k->make, .again = true};
  item.first_read = t->n_reads, item.first_made = w->n_versions + t->n_own;
  for (uint32_t m = k->first; m < k->behind; m++) {
    const MakeAgain *of = walk_way(w, t->making[m], k->make);
    for (uint32_t i = of->first; i < of->first + of->n; i++) add_read(t, w->p->source[i], slot);
  }
  item.n_read = t->n_reads - item.first_read, item.n_made = k->behind - k->first;
  for (uint32_t m = k->first; m < k->behind; m++) {
    uint32_t b = t->making[m];
    t->states[b].version = w->n_versions + t->n_own;
    *RT_PUSH(w->mem, t->own, t->n_own, t->cap_own) = (Own){b, w->n_items + t->n_items, NONE};
  }
  *RT_PUSH(w->mem, t->items, t->n_items, t->cap_items) = item;
  t->n_making = k->first;
}

static void make_there(Trial *t, uint32_t b, uint32_t slot) {
  open_making(t, b, slot);
  while (t->n_open > 0) {
    uint32_t source;
    if (next_source(t, &t->open[t->n_open - 1], &source)) open_making(t, source, slot);
    else {
      Making k = t->open[--t->n_open];
      make(t, &k, slot);
    }
  }
}

// Versions of the plan that the replaced slot made are gone, or there is one in its place.
static void match_versions(Trial *t, uint32_t slot, uint32_t first_own) {
  const Walk *w = t->w;
  uint32_t end = t->first_of_slot[slot + 1] - 1;
  for (uint32_t i = t->first_of_slot[slot]; i < end; i++)
    for (uint32_t v = w->items[i].first_made; v < w->items[i].first_made + w->items[i].n_made; v++) {
      Life *life = &t->lives[v];
      life->is_gone = t->number, life->same = NONE;
      for (uint32_t o = first_own; o < t->n_own; o++)
        if (t->own[o].buffer == w->versions[v].buffer) life->same = w->n_versions + o, t->own[o].same = v;
      if (life->same == NONE) ask_behind(t, w->versions[v].buffer, slot);
    }
  for (uint32_t o = first_own; o < t->n_own; o++)
    if (t->own[o].same == NONE) ask_behind(t, t->own[o].buffer, slot);
}

static void replace_slot(Trial *t, uint32_t slot) {
  const Walk *w = t->w;
  const SchedLists *reads = &w->reads_of;
  uint32_t first_own = t->n_own;
  t->slots[slot] = (Slot){.mark = t->number, .first_item = t->n_items};
  for (uint32_t i = reads->first[slot]; i < reads->first[slot + 1]; i++) make_there(t, reads->list[i], slot);
  t->slots[slot].n_items = t->n_items - t->slots[slot].first_item;
  t->slots[slot].first_read = t->n_reads, t->slots[slot].n_read = reads->first[slot + 1] - reads->first[slot];
  for (uint32_t i = reads->first[slot]; i < reads->first[slot + 1]; i++) add_read(t, reads->list[i], slot);
  match_versions(t, slot, first_own);
}

void ir_recompute_replace_slots(Trial *t) {
  uint32_t n = t->w->p->p.n, first = NONE;
  for (uint32_t i = 0; i < t->n_splits; i++) {
    if (t->splits[i].at < first) first = t->splits[i].at;
    ask_behind(t, t->splits[i].buffer, t->splits[i].at);
  }
  for (uint32_t k = set_next(t->pending, first, n); k < n; k = set_next(t->pending, k, n)) {
    set_take(t->pending, k), set_put(t->look, k);
    replace_slot(t, k);
    set_put(t->changed, t->first_of_slot[k]);
    if (t->first_of_slot[k] < t->first_changed) t->first_changed = t->first_of_slot[k];
    if (k > t->last_look) t->last_look = k;
  }
}
