// A plan is a list of splits. Each plan is judged by the whole sequence that follows from it. As long as too much lives anywhere, splits are added for what
// lives at the peak: those that take the least time for each byte above the budget that they remove, summed over all kernels.
// Then splits that are not needed are taken back.
#include "ir/schedule/recompute.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  uint32_t kernel, at;                              // at: the kernel of the given order that it is, or runs before
  int64_t live;                                     // bytes while it runs
  uint32_t first_read, n_read, first_made, n_made;  // versions
  uint8_t make;
  bool again, runs;
} Item;

typedef struct {
  uint32_t buffer, maker, last;  // items
  uint32_t seen;                 // the last item that was looked at, + 1
  bool is_read;
} Version;

// What is being made again, before what reads it: buffers of one kernel, Walk.making[first .. behind)
typedef struct {
  uint32_t buffer, first, behind, next, n_seen;  // n_seen: sources of making[next] that were looked at
  uint8_t make;
} Making;

typedef struct {
  const RecomputeProblem *p;
  RtArena *mem;
  int64_t budget;
  SchedLists reads_of, makes_of;  // by kernel: buffers
  Split *splits;                  // the plan; the first n_asked were asked for
  uint32_t n_asked, n_splits, cap_splits;
  Split *lowest_splits;  // of the lowest peak that was seen
  uint32_t n_lowest, cap_lowest;
  int64_t lowest;
  // the sequence of the plan
  uint32_t *first_split, *split_at, cap_split_at;  // by buffer, rising
  uint32_t *n_passed;                              // by buffer: splits that have been passed
  uint32_t *n_made;                                // by buffer: those after which it was made again
  uint32_t *version;                               // by buffer: the newest
  Item *items;
  Version *versions;
  uint32_t *reads, *making;  // versions by item; buffers that are being made
  Making *open;
  uint32_t n_open, cap_open, n_items, cap_items, n_versions, cap_versions, n_reads, cap_reads, n_making, cap_making;
  // what came of it
  bool is_late;  // something is made again where that is not possible any more
  bool *late;    // by buffer: since keep_possible began
  uint32_t peak_item;
  int64_t peak, above, ns, spent;
} Walk;

static const MakeAgain *way(const Walk *w, uint32_t b, uint32_t make) { return &w->p->make[b * N_MAKES + make]; }

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

static uint32_t last_user(const RecomputeProblem *p, uint32_t b) {
  return p->p.first_user[b] < p->p.first_user[b + 1] ? p->p.user[p->p.first_user[b + 1] - 1] : p->p.maker[b];
}

static uint32_t pick_way(Walk *w, uint32_t b, uint32_t t) {
  const MakeAgain *part = way(w, b, MAKE_PART);
  if (way(w, b, MAKE_KERNEL)->ns < 0) return MAKE_PART;
  for (uint32_t i = part->first; part->ns >= 0 && i < part->first + part->n; i++)
    if (!is_there(w, w->p->source[i], t)) return MAKE_KERNEL;
  return part->ns < 0 ? MAKE_KERNEL : MAKE_PART;
}

static int64_t least_ns(const Walk *w, uint32_t b) {  // below 0: it cannot be made again
  int64_t kernel = way(w, b, MAKE_KERNEL)->ns, part = way(w, b, MAKE_PART)->ns;
  return kernel < 0 || (part >= 0 && part < kernel) ? part : kernel;
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
    bool may = way(w, o, make)->ns >= 0 && w->p->until[o] > t;
    bool too = make == MAKE_KERNEL && may && last_user(w->p, o) >= t && !is_there(w, o, t);
    if (o != b && !too) continue;
    w->n_made[o] = w->n_passed[o];
    *RT_PUSH(w->mem, w->making, w->n_making, w->cap_making) = o;
  }
}

// Opens what makes b; what it reads follows.
static void open_making(Walk *w, uint32_t b, uint32_t t) {
  if (is_there(w, b, t)) return;
  Making k = {.buffer = b, .make = (uint8_t)pick_way(w, b, t), .first = w->n_making, .next = w->n_making};
  if (way(w, b, k.make)->ns < 0 || w->p->until[b] <= t) w->is_late = w->late[b] = true;
  choose_made(w, b, t, k.make);
  k.behind = w->n_making;
  *RT_PUSH(w->mem, w->open, w->n_open, w->cap_open) = k;
}

static bool next_source(const Walk *w, Making *k, uint32_t *b) {
  for (; k->next < k->behind; k->next++, k->n_seen = 0) {
    const MakeAgain *of = way(w, w->making[k->next], k->make);
    if (k->n_seen < of->n) return *b = w->p->source[of->first + k->n_seen++], true;
  }
  return false;
}

static void make(Walk *w, const Making *k, uint32_t t) {
  begin_item(w, (Item){.kernel = w->p->p.maker[k->buffer], .at = t, .make = k->make, .again = true});
  for (uint32_t m = k->first; m < k->behind; m++) {
    const MakeAgain *of = way(w, w->making[m], k->make);
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
      if (!w->versions[v].is_read && last_user(w->p, w->versions[v].buffer) == item->kernel)
        w->versions[v].is_read = true, w->versions[v].last = i;
  }
}

static int64_t ns_of(const Walk *w, const Item *item) {
  int64_t sum = 0, whole = w->p->ns[item->kernel];
  for (uint32_t v = item->first_made; v < item->first_made + item->n_made; v++)
    if (w->versions[v].is_read) sum += way(w, w->versions[v].buffer, item->make)->ns;
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
    if (item->again) w->ns += ns_of(w, item);
    held += made - freed - dead;
  }
}

static void walk(Walk *w) {
  uint32_t n = w->p->p.n_buffers;
  w->n_items = w->n_versions = w->n_reads = w->n_making = w->n_open = 0, w->is_late = false;
  memset(w->n_passed, 0, n * sizeof *w->n_passed), memset(w->n_made, 0, n * sizeof *w->n_made);
  sort_splits(w);
  for (uint32_t k = 0; k < w->p->p.n; k++) add_kernel(w, k);
  find_read(w);
  count_bytes(w);
  w->spent += w->n_items + w->n_reads;
}

// ---- moves: splits that belong together
typedef struct {
  uint32_t first, n;  // Moves.splits
  double cost;        // ns for a byte
} Move;

typedef struct {
  Move *list;
  Split *splits;
  uint32_t n, cap, n_splits, cap_splits;
} Moves;

enum { MOST_TRIES = 96, MOST_GOOD = 16, DEPTHS = 4, MOST_TOGETHER = 64, MOST_SPENT = 100000000 };

static bool is_planned(const Walk *w, const Moves *m, uint32_t first, Split s) {
  for (uint32_t i = first; i < m->n_splits; i++)
    if (m->splits[i].buffer == s.buffer && m->splits[i].at == s.at) return true;
  for (uint32_t i = w->first_split[s.buffer]; i < w->first_split[s.buffer + 1]; i++)
    if (w->split_at[i] == s.at) return true;
  return false;
}

// And what it is made of that nobody else reads so late, and what that is made of.
static void add_split(Walk *w, Moves *m, uint32_t first, Split s, uint32_t until, uint32_t depth) {
  const RecomputeProblem *p = w->p;
  if (!is_planned(w, m, first, s)) *RT_PUSH(w->mem, m->splits, m->n_splits, m->cap_splits) = s;
  const MakeAgain *of = way(w, s.buffer, way(w, s.buffer, MAKE_KERNEL)->ns < 0 ? MAKE_PART : MAKE_KERNEL);
  for (uint32_t i = of->first; depth > 0 && i < of->first + of->n && m->n_splits - first < MOST_TOGETHER; i++) {
    uint32_t b = p->source[i], last = last_user(p, b);
    if (last >= until || least_ns(w, b) < 0 || p->until[b] <= until) continue;
    add_split(w, m, first, (Split){b, last > s.at ? last : s.at}, until, depth - 1);
  }
}

static uint32_t next_user(const RecomputeProblem *p, uint32_t b, uint32_t t) {
  for (uint32_t i = p->p.first_user[b]; i < p->p.first_user[b + 1]; i++)
    if (p->p.user[i] > t) return p->p.user[i];
  return UINT32_MAX;
}

// Lives while the item runs, which does not use it.
static bool may_split(const Walk *w, uint32_t item, uint32_t version) {
  const Version *v = &w->versions[version];
  const RecomputeProblem *p = w->p;
  uint32_t b = v->buffer, t = w->items[item].at, last = w->items[v->last].at;
  if (!v->is_read || v->seen == UINT32_MAX || p->p.maker[b] >= t || last <= t) return false;
  return least_ns(w, b) >= 0 && p->p.size[b] > 0 && p->until[b] > last;
}

// A move for each depth that adds splits.
static void add_moves(Walk *w, Moves *m, uint32_t t, const uint32_t *versions, uint32_t n) {
  uint32_t before = 0;
  int64_t bytes = 0, ns = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t b = w->versions[versions[i]].buffer;
    bytes += w->p->p.size[b], ns += least_ns(w, b);
  }
  for (uint32_t depth = 0; depth < DEPTHS; depth++) {
    uint32_t first = m->n_splits;
    for (uint32_t i = 0; i < n; i++) {
      const Version *v = &w->versions[versions[i]];
      uint32_t next = next_user(w->p, v->buffer, t), last = w->items[v->last].at;
      add_split(w, m, first, (Split){v->buffer, t}, next < last ? next : last, depth);
    }
    if (m->n_splits - first <= before) m->n_splits = first;
    if (m->n_splits == first) return;
    before = m->n_splits - first;
    *RT_PUSH(w->mem, m->list, m->n, m->cap) = (Move){first, before, (double)ns / (double)bytes};
  }
}

static int by_cost(const void *a, const void *b) {
  const Move *x = a, *y = b;
  if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
  return x->first < y->first ? -1 : x->first > y->first;
}

// Each buffer alone, and those that one kernel makes together.
static void find_moves(Walk *w, Moves *m, uint32_t at) {
  enum { MOST_OF_KERNEL = 8 };
  const Item *peak = &w->items[at];
  m->n = m->n_splits = 0;
  for (uint32_t r = peak->first_read; r < peak->first_read + peak->n_read; r++)
    w->versions[w->reads[r]].seen = UINT32_MAX;
  for (uint32_t i = 0; i < at; i++) {
    uint32_t group[MOST_OF_KERNEL], n = 0;
    const Item *item = &w->items[i];
    for (uint32_t v = item->first_made; v < item->first_made + item->n_made && n < MOST_OF_KERNEL; v++)
      if (may_split(w, at, v)) group[n++] = v;
    for (uint32_t g = 0; g < n; g++) add_moves(w, m, peak->at, &group[g], 1);
    if (n > 1) add_moves(w, m, peak->at, group, n);
  }
  w->spent += m->n_splits + at;
  if (m->n) qsort(m->list, m->n, sizeof *m->list, by_cost);
}

// ---- search
static void apply(Walk *w, const Moves *m, const Move *move) {
  for (uint32_t i = 0; i < move->n; i++)
    *RT_PUSH(w->mem, w->splits, w->n_splits, w->cap_splits) = m->splits[move->first + i];
  walk(w);
}

static void note_peak(Walk *w) {
  if (w->is_late || w->peak >= w->lowest) return;
  w->lowest = w->peak, w->n_lowest = 0;
  for (uint32_t i = 0; i < w->n_splits; i++)
    *RT_PUSH(w->mem, w->lowest_splits, w->n_lowest, w->cap_lowest) = w->splits[i];
}

// The best of the moves at an item that are tried, and further ones that are nearly as good. False: none helps.
static bool improve_at(Walk *w, Moves *m, uint32_t at) {
  const double NEARLY = 1.3;
  int64_t above = w->above, ns = w->ns;
  uint32_t n_splits = w->n_splits, n_good = 0;
  Move good[MOST_GOOD];
  find_moves(w, m, at);
  for (uint32_t i = 0; i < m->n && i < MOST_TRIES && n_good < MOST_GOOD; i++) {
    apply(w, m, &m->list[i]);
    if (!w->is_late && w->above < above) {
      good[n_good] = m->list[i];
      good[n_good++].cost = (double)(w->ns - ns) / (double)(above - w->above);
    }
    w->n_splits = n_splits;
  }
  qsort(good, n_good, sizeof *good, by_cost);
  for (uint32_t i = 0; i < n_good && above > 0; i++) {
    apply(w, m, &good[i]);
    double cost = w->above < above ? (double)(w->ns - ns) / (double)(above - w->above) : 0;
    if (w->is_late || w->above >= above || (i > 0 && cost > NEARLY * good[0].cost)) w->n_splits = n_splits;
    else above = w->above, ns = w->ns, n_splits = w->n_splits;
  }
  walk(w);
  return n_good > 0;
}

// At the peak, else at other items that are higher than their neighbours, highest first.
static bool improve(Walk *w, Moves *m) {
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

// Splits without which the budget is met in no more time are taken back, last first.
static void prune(Walk *w) {
  for (uint32_t i = w->n_splits; i-- > w->n_asked && w->spent < MOST_SPENT;) {
    Split last = w->splits[w->n_splits - 1], tried = w->splits[i];
    int64_t ns = w->ns;
    w->splits[i] = last, w->n_splits--;
    walk(w);
    if (!w->is_late && w->above == 0 && w->ns <= ns) continue;
    w->splits[i] = tried, w->splits[w->n_splits++] = last, w->ns = ns;
  }
  walk(w);
}

static Recompute result_of(const Walk *w) {
  Recompute r = {.is_met = w->above == 0, .peak = w->peak, .ns = w->ns, .n_asked = w->n_asked};
  r.steps = rt_alloc(w->mem, (w->n_items + 1) * sizeof *r.steps);
  r.made = rt_alloc(w->mem, (w->n_versions + 1) * sizeof *r.made);
  uint32_t n_made = 0;
  for (uint32_t i = 0; i < w->n_items; i++) {
    const Item *item = &w->items[i];
    if (!item->runs) continue;
    RecomputeStep *s = &r.steps[r.n++];
    *s = (RecomputeStep){item->kernel, item->again, item->make, n_made, 0};
    for (uint32_t v = item->first_made; v < item->first_made + item->n_made; v++)
      if (w->versions[v].is_read) r.made[n_made++] = w->versions[v].buffer, s->n_made++;
  }
  return r;
}

// The sequence of the lowest peak that was seen
static Recompute lowest_of(Walk *w) {
  if (w->lowest == INT64_MAX) return (Recompute){.peak = INT64_MAX, .n_asked = w->n_asked};
  w->n_splits = 0;
  for (uint32_t i = 0; i < w->n_lowest; i++)
    *RT_PUSH(w->mem, w->splits, w->n_splits, w->cap_splits) = w->lowest_splits[i];
  walk(w);
  return result_of(w);
}

static Walk begin(const RecomputeProblem *p, RtArena *mem) {
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

// The plan of what was asked for, without buffers that cannot be made again so late.
static void keep_possible(Walk *w) {
  const RecomputeProblem *p = w->p;
  for (uint32_t i = 0; i < p->n_asked; i++)
    if (least_ns(w, p->asked[i].buffer) >= 0) *RT_PUSH(w->mem, w->splits, w->n_splits, w->cap_splits) = p->asked[i];
  for (walk(w); w->is_late; walk(w)) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n_splits; i++)
      if (!w->late[w->splits[i].buffer]) w->splits[n++] = w->splits[i];
    w->n_splits = n;
  }
  w->n_asked = w->n_splits;
}

// What is pruned later takes time until then.
static bool may_go_on(const Walk *w) {
  enum { SLACK = 2 };
  return w->spent < MOST_SPENT && (!w->p->most_ns || w->ns <= SLACK * w->p->most_ns);
}

Recompute ir_recompute(const RecomputeProblem *p, int64_t budget, int64_t *spent, RtArena *mem) {
  enum { ROUNDS = 6, PERCENT = 93 };
  Walk w = begin(p, mem);
  w.spent = *spent;
  Moves m = {0};
  Recompute best = {0};
  keep_possible(&w);
  int64_t ns = w.ns, target = budget;
  for (uint32_t k = 0; k < ROUNDS && w.spent < MOST_SPENT; k++, target = target / 100 * PERCENT) {
    w.n_splits = w.n_asked, w.budget = target;
    walk(&w);
    for (note_peak(&w); w.above > 0 && may_go_on(&w) && improve(&w, &m);) note_peak(&w);
    w.budget = budget;
    walk(&w);
    if (w.above == 0) prune(&w);
    bool is_met = w.above == 0;
    if (is_met && (!best.is_met || w.ns < best.ns)) best = result_of(&w);
    if ((is_met && w.ns == ns) || (!is_met && p->most_ns)) break;
  }
  *spent = w.spent;
  return best.is_met ? best : lowest_of(&w);
}
