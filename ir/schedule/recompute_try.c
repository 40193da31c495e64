// What a move would change: bytes above the budget, and time, with a few splits more than the walked plan has, without walking
// the whole sequence again.
//
//   walked:  0  1  2  3     4  5  6          items of the plan
//   tried:   0  1  2  3  +a 4  5  6          slot 4 is replaced: `a` is made again there, and lives less long behind its maker
//
//   1. Slots, which are kernels with what is made again before them, are replaced in order: those that ask for a buffer whose
//      splits or versions changed, as far as the next slot in which both make it.
//   2. From behind: versions whose readers changed live until another item, or are not read; an item that makes nothing that is
//      read does not run, and reads nothing.
//   3. Bytes from the first change to the last.
//
// Numbers of items and versions from those of the plan on are the trial's own. A mark is the number of the trial that set it.
#include "ir/schedule/recompute_trial.h"
#include <string.h>

// ---- 2: lives
static const Item *item_at(const Trial *t, uint32_t i) {
  return i < t->w->n_items ? &t->w->items[i] : &t->items[i - t->w->n_items];
}

static bool is_kernel(const Trial *t, uint32_t i) { return !item_at(t, i)->again; }

static bool is_removed(const Trial *t, uint32_t i) {
  return i < t->w->n_items && t->w->items[i].again && trial_replaces(t, t->w->items[i].at);
}

static bool is_later(const Trial *t, uint32_t i, uint32_t j) {
  uint32_t a = item_at(t, i)->at, b = item_at(t, j)->at;
  if (a != b) return a > b;
  return is_kernel(t, j) ? false : is_kernel(t, i) || i > j;
}

static bool runs(const Trial *t, uint32_t i) {
  if (i >= t->w->n_items) return t->items[i - t->w->n_items].runs;
  return t->runs_mark[i] == t->number ? t->runs[i] : t->w->items[i].runs;
}

static const uint32_t *reads_of(const Trial *t, uint32_t i, uint32_t *n) {
  const Item *item = item_at(t, i);
  bool is_new = !item->again && trial_replaces(t, item->at);
  *n = is_new ? t->slots[item->at].n_read : item->n_read;
  if (is_new) return t->reads + t->slots[item->at].first_read;
  return (i < t->w->n_items ? t->w->reads : t->reads) + item->first_read;
}

// What stands where the plan's version was.
static uint32_t version_now(const Trial *t, uint32_t v) {
  return v < t->w->n_versions && t->lives[v].is_gone == t->number ? t->lives[v].same : v;
}

static uint32_t maker_of(const Trial *t, uint32_t v) {
  return v < t->w->n_versions ? t->w->versions[v].maker : t->own[v - t->w->n_versions].maker;
}

static uint32_t buffer_of(const Trial *t, uint32_t v) {
  return v < t->w->n_versions ? t->w->versions[v].buffer : t->own[v - t->w->n_versions].buffer;
}

static uint32_t last_now(const Trial *t, uint32_t v) {
  if (t->lives[v].found == t->number) return t->lives[v].last;
  return t->w->versions[v].is_read ? t->w->versions[v].last : NONE;
}

static void touch(Trial *t, uint32_t v) {
  v = version_now(t, v);
  if (v == NONE || t->lives[v].touched == t->number) return;
  t->lives[v].touched = t->number;
  set_put(t->look, item_at(t, maker_of(t, v))->at);
}

static void touch_walked(Trial *t, uint32_t i) {
  const Item *item = &t->w->items[i];
  for (uint32_t r = item->first_read; r < item->first_read + item->n_read; r++) touch(t, t->w->reads[r]);
  t->out.units += item->n_read;
}

// It reads what it did not in the plan. The first one that is looked at is the last.
static void read_now(Trial *t, uint32_t i) {
  uint32_t n;
  const uint32_t *reads = reads_of(t, i, &n);
  for (uint32_t r = 0; r < n; r++) {
    uint32_t v = version_now(t, reads[r]);
    touch(t, v);
    if (t->lives[v].has_late != t->number) t->lives[v].has_late = t->number, t->lives[v].late = i;
  }
}

static void set_changed(Trial *t, uint32_t i) {
  if (i >= t->w->n_items || is_removed(t, i)) return;
  set_put(t->changed, i);
  if (i < t->first_changed) t->first_changed = i;
}

// Of the plan's readers of the version the last that still reads it.
static uint32_t last_reader(const Trial *t, uint32_t v) {
  for (uint32_t r = t->first_reader[v + 1]; r-- > t->first_reader[v];) {
    uint32_t i = t->reader[r];
    bool is_new = trial_replaces(t, t->w->items[i].at);
    if (!is_new && runs(t, i)) return i;
  }
  return NONE;
}

// Behind all that reads it. False: it lives as it did.
static bool find_life(Trial *t, uint32_t v) {
  const Walk *w = t->w;
  Life *life = &t->lives[v];
  uint32_t was = v < w->n_versions ? v : t->own[v - w->n_versions].same;
  uint32_t last = was == NONE ? NONE : last_reader(t, was);
  if (life->has_late == t->number && (last == NONE || is_later(t, life->late, last))) last = life->late;
  life->found = t->number, life->last = last;
  uint32_t before = was != NONE && w->versions[was].is_read ? w->versions[was].last : NONE;
  if (last == before) return false;
  if (before != NONE) set_changed(t, before);
  if (last != NONE) set_changed(t, last);
  return true;
}

static void set_last(Trial *t, uint32_t v, uint32_t last) { t->lives[v].found = t->number, t->lives[v].last = last; }

// What a kernel makes and nobody else reads lives with it, if it runs.
static void keep_own(Trial *t, uint32_t i, bool now) {
  const Item *item = item_at(t, i);
  for (uint32_t v = item->first_made; !item->again && v < item->first_made + item->n_made; v++) {
    uint32_t last = last_now(t, v);
    if (last == i && !now) set_last(t, v, NONE);
    if (last == NONE && now && walk_last_user(t->w->p, buffer_of(t, v)) == item->kernel) set_last(t, v, i);
  }
}

// An item behind which all has been looked at.
static void look_at_item(Trial *t, uint32_t i) {
  const Walk *w = t->w;
  bool own = i >= w->n_items;
  const Item *item = item_at(t, i);
  bool is_new = own || trial_replaces(t, item->at), now = !item->again && w->p->has_effect[item->kernel];
  bool is_touched = is_new, is_changed = is_new;
  t->out.units += 1 + item->n_made;
  for (uint32_t v = item->first_made; v < item->first_made + item->n_made; v++) {
    if (own || t->lives[v].touched == t->number) is_touched = true, is_changed |= find_life(t, v);
    now |= last_now(t, v) != NONE && last_now(t, v) != i;
  }
  if (!is_touched) return;
  bool is_other = own || now != item->runs;
  if (is_other || is_changed) keep_own(t, i, now), set_changed(t, i);
  if (own) t->items[i - w->n_items].runs = now;
  else t->runs_mark[i] = t->number, t->runs[i] = now;
  if (!own && (is_new || is_other)) touch_walked(t, i);
  if (now && (is_new || is_other)) read_now(t, i);
}

static void look_at_slot(Trial *t, uint32_t k) {
  const Slot *s = &t->slots[k];
  uint32_t first = t->first_of_slot[k], kernel = t->first_of_slot[k + 1] - 1;
  look_at_item(t, kernel);
  for (uint32_t i = kernel; i-- > first;) {
    if (trial_replaces(t, k)) touch_walked(t, i);
    else look_at_item(t, i);
  }
  for (uint32_t i = s->n_items; trial_replaces(t, k) && i-- > 0;) look_at_item(t, t->w->n_items + s->first_item + i);
}

static void look_back(Trial *t) {
  for (uint32_t word = t->last_look / 64 + 1; word-- > 0;)
    while (t->look[word]) {
      uint32_t k = word * 64 + 63 - (uint32_t)__builtin_clzll(t->look[word]);
      look_at_slot(t, k);
      set_take(t->look, k);
    }
}

// ---- 3: bytes
static int64_t over(const Trial *t, int64_t live) { return live > t->w->budget ? live - t->w->budget : 0; }

static void leave(Trial *t, uint32_t i) {
  const Item *item = &t->w->items[i];
  if (!item->runs) return;
  t->out.above -= over(t, item->live);
  if (item->again) t->out.ns -= item->ns;
}

// Bytes that it frees, beside those of what it makes.
static int64_t freed_by(Trial *t, uint32_t i) {
  uint32_t n, look = ++t->n_looked;
  const uint32_t *reads = reads_of(t, i, &n);
  int64_t freed = 0;
  for (uint32_t r = 0; r < n; r++) {
    uint32_t v = version_now(t, reads[r]);
    if (t->lives[v].seen != look && last_now(t, v) == i) freed += t->w->p->p.size[buffer_of(t, v)];
    t->lives[v].seen = look;
  }
  return freed;
}

// The bytes that are held behind it.
static int64_t enter(Trial *t, uint32_t i, int64_t held) {
  const RecomputeProblem *p = t->w->p;
  const Item *item = item_at(t, i);
  int64_t made = 0, dead = 0, ns = 0, in_place = 0;
  if (!runs(t, i)) return held;
  for (uint32_t v = item->first_made; v < item->first_made + item->n_made; v++) {
    uint32_t b = buffer_of(t, v), last = last_now(t, v);
    if (last == NONE) continue;
    made += p->p.size[b], ns += walk_way(t->w, b, item->make)->ns;
    if (last == i) dead += p->p.size[b];
  }
  int64_t freed = freed_by(t, i);
  if (item->make == MAKE_KERNEL) in_place = p->p.in_place[item->kernel] < made ? p->p.in_place[item->kernel] : made;
  int64_t live = held + made - (in_place < freed ? in_place : freed) + p->constant[item->at];
  if (item->make == MAKE_KERNEL) live += p->p.scratch[item->kernel];
  t->out.above += over(t, live);
  if (item->again) t->out.ns += ns < p->ns[item->kernel] ? ns : p->ns[item->kernel];
  return held + made - freed - dead;
}

static int64_t count_slot(Trial *t, uint32_t k, int64_t more) {
  const Walk *w = t->w;
  const Slot *s = &t->slots[k];
  uint32_t end = t->first_of_slot[k + 1];
  int64_t held = w->items[t->first_of_slot[k]].held + more;
  for (uint32_t i = t->first_of_slot[k]; i < end; i++) leave(t, i);
  for (uint32_t i = 0; i < s->n_items; i++) held = enter(t, w->n_items + s->first_item + i, held);
  return enter(t, end - 1, held) - (end < w->n_items ? w->items[end].held : 0);
}

static void shift(Trial *t, uint32_t from, uint32_t to, int64_t more) {
  int64_t sum = 0, budget = t->w->budget;
  for (uint32_t i = from; i < to; i++) {
    int64_t live = t->live[i], now = live + more;
    sum += (now > budget ? now - budget : 0) - (live > budget ? live - budget : 0);
  }
  t->out.above += sum, t->out.units += (to - from) / 16;
}

static void count_bytes(Trial *t) {
  const Walk *w = t->w;
  int64_t more = 0;  // than in the plan, between two items
  for (uint32_t i = t->first_changed, n = w->n_items; i < n;) {
    uint32_t next = set_next(t->changed, i, n), k;
    if (more) shift(t, i, next, more);
    if (next == n) break;
    k = w->items[next].at;
    if (trial_replaces(t, k)) {
      more = count_slot(t, k, more), i = t->first_of_slot[k + 1];
    } else {
      leave(t, next);
      more = enter(t, next, w->items[next].held + more) - (next + 1 < n ? w->items[next + 1].held : 0), i = next + 1;
    }
  }
}

// ---- all three
static void make_lives(Trial *t, uint32_t n) {
  uint32_t cap = t->cap_lives;
  if (n < cap) return;
  t->cap_lives = 2 * n + 2;
  t->lives = rt_grow(t->w->mem, t->lives, cap * sizeof *t->lives, t->cap_lives * sizeof *t->lives);
}

static void begin(Trial *t, const Split *splits, uint32_t n) {
  const Walk *w = t->w;
  t->number++, t->splits = splits, t->n_splits = n;
  t->n_items = t->n_own = t->n_reads = t->n_making = t->n_open = t->last_look = 0, t->first_changed = NONE;
  t->out = (Tried){.above = w->above, .ns = w->ns};
  for (uint32_t i = 0; i < n; i++) t->states[splits[i].buffer].split = t->number;
  make_lives(t, w->n_versions);
}

Tried ir_recompute_try(Trial *t, const Split *splits, uint32_t n) {
  const Walk *w = t->w;
  begin(t, splits, n);
  ir_recompute_replace_slots(t);
  make_lives(t, w->n_versions + t->n_own);
  if (!t->out.is_late) look_back(t), count_bytes(t);
  memset(t->look, 0, (w->p->p.n / 64 + 1) * sizeof *t->look);
  memset(t->changed, 0, (w->n_items / 64 + 1) * sizeof *t->changed);
  t->out.units += t->n_reads + t->n_items;
  return t->out;
}
