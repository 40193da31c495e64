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
#include "ir/schedule/recompute_walk.h"
#include <string.h>

enum { NONE = UINT32_MAX };

typedef struct {
  uint32_t mark, first_item, n_items, first_read,
      n_read;  // replaced; what is made before the kernel, what the kernel reads
} Slot;

typedef struct {
  uint32_t touched, found;  // marks: readers changed; `last` is that of the trial
  uint32_t last;            // item; NONE: nobody reads it
  uint32_t late;            // the last item that reads it of those that are looked at anew: where `has_late` is a mark
  uint32_t has_late;
  uint32_t is_gone, same;  // mark; of a version that is not made any more: what is made in its place, or NONE
  uint32_t seen;
} Life;

typedef struct {
  uint32_t mark, slot, version;  // where it is made last in the trial
  uint32_t split;                // mark: the move splits it
} State;

typedef struct {
  uint32_t buffer, maker;
  uint32_t same;  // the plan's version that the plan makes in the same slot; NONE
} Own;

struct Trial {
  Walk *w;
  uint32_t number, n_looked;
  // the walked plan
  uint32_t cap, cap_reader, cap_check;
  uint32_t *first_of_slot;          // by kernel, one more: items
  uint32_t *newest, *older;         // by buffer, by version: versions
  uint32_t *first_reader, *reader;  // by version: items, rising
  uint32_t *first_check, *check;    // by buffer: slots that make something again and may ask for it
  SchedPair *checks;
  uint32_t n_checks, cap_checks;
  int64_t *live;  // by item; IDLE: it does not run
  // the trial
  const Split *splits;
  uint32_t n_splits;
  Slot *slots;
  State *states;                       // by buffer
  uint64_t *pending, *look, *changed;  // sets: slots to replace, slots to look at from behind, items whose bytes change
  uint32_t first_changed, last_look;
  Life *lives;          // by version, the plan's and then the trial's
  uint32_t *runs_mark;  // by item of the plan
  bool *runs;
  Item *items;
  Own *own;
  uint32_t *reads, *making;
  Making *open;
  uint32_t n_items, cap_items, n_own, cap_own, n_reads, cap_reads, n_making, cap_making, n_open, cap_open;
  uint32_t cap_lives;
  Tried out;
};

static const int64_t IDLE = INT64_MIN / 4;

static void put(uint64_t *set, uint32_t k) { set[k / 64] |= UINT64_C(1) << (k % 64); }
static void take(uint64_t *set, uint32_t k) { set[k / 64] &= ~(UINT64_C(1) << (k % 64)); }

// The first one from k on; n: none.
static uint32_t next_in(const uint64_t *set, uint32_t k, uint32_t n) {
  while (k < n) {
    uint64_t word = set[k / 64] >> (k % 64);
    if (word) return k + (uint32_t)__builtin_ctzll(word) < n ? k + (uint32_t)__builtin_ctzll(word) : n;
    k = (k / 64 + 1) * 64;
  }
  return n;
}

// ---- the walked plan
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
    t->live[i] = item->runs ? item->live : IDLE;
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

// ---- 1: slots
static bool is_replaced(const Trial *t, uint32_t slot) { return t->slots[slot].mark == t->number; }

static void set_pending(Trial *t, uint32_t slot, uint32_t from, uint32_t to) {
  if (slot > from && slot <= to) put(t->pending, slot);
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
    if (!item->again || (item->at < slot && !is_replaced(t, item->at))) break;
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

static void replace_slots(Trial *t) {
  uint32_t n = t->w->p->p.n, first = NONE;
  for (uint32_t i = 0; i < t->n_splits; i++) {
    if (t->splits[i].at < first) first = t->splits[i].at;
    ask_behind(t, t->splits[i].buffer, t->splits[i].at);
  }
  for (uint32_t k = next_in(t->pending, first, n); k < n; k = next_in(t->pending, k, n)) {
    take(t->pending, k), put(t->look, k);
    replace_slot(t, k);
    put(t->changed, t->first_of_slot[k]);
    if (t->first_of_slot[k] < t->first_changed) t->first_changed = t->first_of_slot[k];
    if (k > t->last_look) t->last_look = k;
  }
}

// ---- 2: lives
static const Item *item_at(const Trial *t, uint32_t i) {
  return i < t->w->n_items ? &t->w->items[i] : &t->items[i - t->w->n_items];
}

static bool is_kernel(const Trial *t, uint32_t i) { return !item_at(t, i)->again; }

static bool is_removed(const Trial *t, uint32_t i) {
  return i < t->w->n_items && t->w->items[i].again && is_replaced(t, t->w->items[i].at);
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
  bool is_new = !item->again && is_replaced(t, item->at);
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
  put(t->look, item_at(t, maker_of(t, v))->at);
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
  put(t->changed, i);
  if (i < t->first_changed) t->first_changed = i;
}

// Of the plan's readers of the version the last that still reads it.
static uint32_t last_reader(const Trial *t, uint32_t v) {
  for (uint32_t r = t->first_reader[v + 1]; r-- > t->first_reader[v];) {
    uint32_t i = t->reader[r];
    bool is_new = is_replaced(t, t->w->items[i].at);
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
  bool is_new = own || is_replaced(t, item->at), now = !item->again && w->p->has_effect[item->kernel];
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
    if (is_replaced(t, k)) touch_walked(t, i);
    else look_at_item(t, i);
  }
  for (uint32_t i = s->n_items; is_replaced(t, k) && i-- > 0;) look_at_item(t, t->w->n_items + s->first_item + i);
}

static void look_back(Trial *t) {
  for (uint32_t word = t->last_look / 64 + 1; word-- > 0;)
    while (t->look[word]) {
      uint32_t k = word * 64 + 63 - (uint32_t)__builtin_clzll(t->look[word]);
      look_at_slot(t, k);
      take(t->look, k);
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
    uint32_t next = next_in(t->changed, i, n), k;
    if (more) shift(t, i, next, more);
    if (next == n) break;
    k = w->items[next].at;
    if (is_replaced(t, k)) {
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
  replace_slots(t);
  make_lives(t, w->n_versions + t->n_own);
  if (!t->out.is_late) look_back(t), count_bytes(t);
  memset(t->look, 0, (w->p->p.n / 64 + 1) * sizeof *t->look);
  memset(t->changed, 0, (w->n_items / 64 + 1) * sizeof *t->changed);
  t->out.units += t->n_reads + t->n_items;
  return t->out;
}
