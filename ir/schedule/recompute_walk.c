// The sequence of kernels that follows from a list of splits: what is made again and before which kernel, how long each version
// of a buffer lives, the bytes that live while each kernel runs.
#include "ir/schedule/recompute_walk.h"
#include <string.h>

// ---- the sequence of a plan
static void sort_splits(Walk *w) {
  uint32_t n = w->p->p.n_buffers;
  memset(w->first_split, 0, (n + 2) * sizeof *w->first_split);
  if (w->cap_split_at < w->n_splits) {
    w->cap_split_at = 2 * w->n_splits;
    w->split_at = rt_alloc(w->mem, w->cap_split_at * sizeof *w->split_at);
  }
  for (uint32_t i = 0; i < w->n_splits; i++) w->first_split[w->splits[i].buffer + 2]++;
  for (uint32_t b = 0; b < n; b++) w->first_split[b + 2] += w->first_split[b + 1];
  for (uint32_t i = 0; i < w->n_splits; i++) {
    uint32_t b = w->splits[i].buffer;
    w->split_at[w->first_split[b + 1]++] = w->splits[i].at;
  }
  for (uint32_t b = 0; b < n; b++)
    for (uint32_t i = w->first_split[b]; i < w->first_split[b + 1]; i++) {
      uint32_t at = w->split_at[i], to = i;
      for (; to > w->first_split[b] && w->split_at[to - 1] > at; to--) w->split_at[to] = w->split_at[to - 1];
      w->split_at[to] = at;
    }
}

static bool is_there(Walk *w, uint32_t b, uint32_t t) {
  uint32_t first = w->first_split[b], n = w->first_split[b + 1] - first;
  while (w->n_passed[b] < n && w->split_at[first + w->n_passed[b]] < t) w->n_passed[b]++;
  return w->n_made[b] == w->n_passed[b];
}

static uint32_t pick_way(Walk *w, uint32_t b, uint32_t t) {
  const MakeAgain *part = walk_way(w, b, MAKE_PART);
  if (walk_way(w, b, MAKE_KERNEL)->ns < 0) return MAKE_PART;
  for (uint32_t i = part->first; part->ns >= 0 && i < part->first + part->n; i++)
    if (!is_there(w, w->p->source[i], t)) return MAKE_KERNEL;
  return part->ns < 0 ? MAKE_KERNEL : MAKE_PART;
}

static void begin_item(Walk *w, Item item) {
  item.first_read = w->n_reads, item.first_made = w->n_versions;
  *RT_PUSH(w->mem, w->items, w->n_items, w->cap_items) = item;
}

static void add_read(Walk *w, uint32_t b) {
  *RT_PUSH(w->mem, w->reads, w->n_reads, w->cap_reads) = w->version[b];
  w->items[w->n_items - 1].n_read++;
}

static void add_made(Walk *w, uint32_t b) {
  w->version[b] = w->n_versions;
  *RT_PUSH(w->mem, w->versions, w->n_versions, w->cap_versions) = (Version){.buffer = b, .maker = w->n_items - 1};
  w->items[w->n_items - 1].n_made++;
}

// Its kernel also makes the others of its buffers that are read later and are not there.
static void choose_made(Walk *w, uint32_t b, uint32_t t, uint32_t make) {
  const SchedLists *of = &w->makes_of;
  uint32_t k = w->p->p.maker[b];
  for (uint32_t i = of->first[k]; i < of->first[k + 1]; i++) {
    uint32_t o = of->list[i];
    bool may = walk_way(w, o, make)->ns >= 0 && w->p->until[o] > t;
    bool too = make == MAKE_KERNEL && may && walk_last_user(w->p, o) >= t && !is_there(w, o, t);
    if (o != b && !too) continue;
    w->n_made[o] = w->n_passed[o];
    *RT_PUSH(w->mem, w->making, w->n_making, w->cap_making) = o;
  }
}

// Opens what makes b; what it reads follows.
static void open_making(Walk *w, uint32_t b, uint32_t t) {
  if (is_there(w, b, t)) return;
  Making k = {.buffer = b, .make = (uint8_t)pick_way(w, b, t), .first = w->n_making, .next = w->n_making};
  if (walk_way(w, b, k.make)->ns < 0 || w->p->until[b] <= t) w->is_late = w->late[b] = true;
  choose_made(w, b, t, k.make);
  k.behind = w->n_making;
  *RT_PUSH(w->mem, w->open, w->n_open, w->cap_open) = k;
}

static bool next_source(const Walk *w, Making *k, uint32_t *b) {
  for (; k->next < k->behind; k->next++, k->n_seen = 0) {
    const MakeAgain *of = walk_way(w, w->making[k->next], k->make);
    if (k->n_seen < of->n) return *b = w->p->source[of->first + k->n_seen++], true;
  }
  return false;
}

static void make(Walk *w, const Making *k, uint32_t t) {
  begin_item(w, (Item){.kernel = w->p->p.maker[k->buffer], .at = t, .make = k->make, .again = true});
  for (uint32_t m = k->first; m < k->behind; m++) {
    const MakeAgain *of = walk_way(w, w->making[m], k->make);
    for (uint32_t i = of->first; i < of->first + of->n; i++) add_read(w, w->p->source[i]);
  }
  for (uint32_t m = k->first; m < k->behind; m++) add_made(w, w->making[m]);
  w->n_making = k->first;
}

// And before it what it is made of, which may be a whole network: a list of its own, not the stack.
static void make_there(Walk *w, uint32_t b, uint32_t t) {
  open_making(w, b, t);
  while (w->n_open > 0) {
    uint32_t source;
    if (next_source(w, &w->open[w->n_open - 1], &source)) open_making(w, source, t);
    else make(w, &w->open[--w->n_open], t);
  }
}

static void add_kernel(Walk *w, uint32_t k) {
  const SchedLists *reads = &w->reads_of, *makes = &w->makes_of;
  for (uint32_t i = reads->first[k]; i < reads->first[k + 1]; i++) make_there(w, reads->list[i], k);
  begin_item(w, (Item){.kernel = k, .at = k});
  for (uint32_t i = reads->first[k]; i < reads->first[k + 1]; i++) add_read(w, reads->list[i]);
  for (uint32_t i = makes->first[k]; i < makes->first[k + 1]; i++) add_made(w, makes->list[i]);
}

// What nobody reads is not made, and what makes nothing else does not run. A buffer that only its own kernel reads lives with it.
static void find_read(Walk *w) {
  for (uint32_t i = w->n_items; i-- > 0;) {
    Item *item = &w->items[i];
    item->runs = !item->again && w->p->has_effect[item->kernel];
    for (uint32_t v = item->first_made; v < item->first_made + item->n_made; v++) item->runs |= w->versions[v].is_read;
    for (uint32_t r = item->first_read; item->runs && r < item->first_read + item->n_read; r++) {
      Version *v = &w->versions[w->reads[r]];
      if (!v->is_read) v->is_read = true, v->last = i;
    }
    for (uint32_t v = item->first_made; item->runs && !item->again && v < item->first_made + item->n_made; v++)
      if (!w->versions[v].is_read && walk_last_user(w->p, w->versions[v].buffer) == item->kernel)
        w->versions[v].is_read = true, w->versions[v].last = i;
  }
}

static int64_t ns_of(const Walk *w, const Item *item) {
  int64_t sum = 0, whole = w->p->ns[item->kernel];
  for (uint32_t v = item->first_made; v < item->first_made + item->n_made; v++)
    if (w->versions[v].is_read) sum += walk_way(w, w->versions[v].buffer, item->make)->ns;
  return sum < whole ? sum : whole;
}

static int64_t size_of(const Walk *w, const Version *v) { return v->is_read ? w->p->p.size[v->buffer] : 0; }

static void count_bytes(Walk *w) {
  const RecomputeProblem *p = w->p;
  int64_t held = 0;
  w->peak = w->above = w->ns = 0;
  for (uint32_t i = 0; i < w->n_items; i++) {
    Item *item = &w->items[i];
    int64_t made = 0, freed = 0, dead = 0, in_place = 0;
    item->held = held;
    if (!item->runs) continue;
    for (uint32_t v = item->first_made; v < item->first_made + item->n_made; v++) {
      made += size_of(w, &w->versions[v]);
      if (w->versions[v].last == i) dead += size_of(w, &w->versions[v]);
    }
    for (uint32_t r = item->first_read; r < item->first_read + item->n_read; r++) {
      Version *v = &w->versions[w->reads[r]];
      if (v->last == i && v->seen != i + 1) freed += size_of(w, v);
      v->seen = i + 1;
    }
    if (item->make == MAKE_KERNEL) in_place = p->p.in_place[item->kernel] < made ? p->p.in_place[item->kernel] : made;
    int64_t live = held + made - (in_place < freed ? in_place : freed) + p->constant[item->at];
    if (item->make == MAKE_KERNEL) live += p->p.scratch[item->kernel];
    item->live = live;
    if (live > w->peak) w->peak = live, w->peak_item = i;
    if (live > w->budget) w->above += live - w->budget;
    if (item->again) w->ns += item->ns = ns_of(w, item);
    held += made - freed - dead;
  }
}

void ir_recompute_walk(Walk *w) {
  uint32_t n = w->p->p.n_buffers;
  w->n_items = w->n_versions = w->n_reads = w->n_making = w->n_open = 0, w->is_late = false;
  memset(w->n_passed, 0, n * sizeof *w->n_passed), memset(w->n_made, 0, n * sizeof *w->n_made);
  sort_splits(w);
  for (uint32_t k = 0; k < w->p->p.n; k++) add_kernel(w, k);
  find_read(w);
  count_bytes(w);
  w->spent += w->n_items + w->n_reads;
}

Walk ir_recompute_begin(const RecomputeProblem *p, RtArena *mem) {
  const SchedProblem *q = &p->p;
  uint32_t n_uses = q->first_user[q->n_buffers];
  SchedPair *pairs = rt_alloc(mem, (n_uses + q->n_buffers + 1) * sizeof *pairs);
  Walk w = {.p = p, .mem = mem, .lowest = INT64_MAX};
  for (uint32_t b = 0; b < q->n_buffers; b++) pairs[b] = (SchedPair){q->maker[b], b};
  w.makes_of = ir_schedule_lists(pairs, q->n_buffers, q->n, mem);
  for (uint32_t b = 0, n = 0; b < q->n_buffers; b++)
    for (uint32_t i = q->first_user[b]; i < q->first_user[b + 1]; i++) pairs[n++] = (SchedPair){q->user[i], b};
  w.reads_of = ir_schedule_lists(pairs, n_uses, q->n, mem);
  w.first_split = rt_alloc(mem, (q->n_buffers + 2) * sizeof *w.first_split);
  w.n_passed = rt_alloc(mem, (q->n_buffers + 1) * sizeof *w.n_passed);
  w.n_made = rt_alloc(mem, (q->n_buffers + 1) * sizeof *w.n_made);
  w.version = rt_alloc(mem, (q->n_buffers + 1) * sizeof *w.version);
  w.late = rt_alloc(mem, q->n_buffers + 1);
  return w;
}
