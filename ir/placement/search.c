// Exact search: is there a placement whose peak is at most a cap? Depth first over canonical placements, in which buffers
// are placed by nondecreasing (offset, rank), each at its release: the lowest offset above all placed ones that it
// meets. Every solution can be pushed down to a canonical one, so that only those need be tried.
//
// A node is a part of the items (those that are left, by release and rank) and a cursor: the (offset, rank) of the
// last one that was placed. Items before the cursor are passed over: something must come below them first.
//
//   1. no item is left: found. The same part with a cursor as tight failed before (nogoods): failed.
//   2. where no item crosses a boundary between sections any more, the parts on both sides are independent.
//   3. only items that start below the lowest top of all are tried: else one would fit below.
//   4. an item that raises no other one is placed at once, and nothing else is tried.
//   5. the bound (bound.c) must hold of what is left, after an item is placed, and when it is passed over.
//
// Budgets are counts of nodes and steps. Frames, lists and changes to undo are on stacks of their own: no recursion,
// and at most PLACE_SEARCH_BYTES.
#include "ir/placement/search.h"
#include <stdlib.h>
#include <string.h>

typedef enum { ENTER, EACH, ALL } State;  // of its children each may do, or all must

struct PlaceFrame {
  uint32_t list, n;  // what is left: lists[list .. list + n), by release and rank
  PlaceCursor cursor;
  SectionRange hull, split;  // split: boundaries inside of it may have become free
  uint64_t salt, key;
  int64_t least_top;
  uint32_t next, undo, top;  // next child; the stacks of changes and of lists before it
  uint32_t parts, n_parts;   // lists[parts ..]: ends of parts in the list
  uint8_t state;
  bool is_root, is_last;
};

struct PlaceNogood {
  uint64_t key;
  PlaceCursor cursor;
};

struct PlacePart {
  uint32_t n, first, part;
};

struct PlaceUndo {
  int64_t old;
  uint32_t item;
  uint8_t kind;
};
enum { RELEASE, RANK, PLACED };

typedef enum { DEEPER, FOUND, FAILED, OUT_OF_BUDGET } Outcome;

// ---- stacks
// False: the search has all memory that it may have.
static bool reserve(Search *s, void **list, uint32_t n, uint32_t *cap, size_t width) {
  if (n <= *cap) return true;
  uint32_t more = *cap * 2 > n ? *cap * 2 : n + 256;
  if (s->bytes + more * width > PLACE_SEARCH_BYTES) return false;
  s->bytes += more * width;
  *list = rt_grow(s->p->mem, *list, *cap * width, more * width);
  *cap = more;
  return true;
}

static bool reserve_lists(Search *s, uint32_t n) {
  return reserve(s, (void **)&s->lists, s->n_lists + n, &s->cap_lists, sizeof *s->lists);
}

static void log_change(Search *s, uint32_t item, uint8_t kind, int64_t old) {
  s->undo[s->n_undo++] = (PlaceUndo){old, item, kind};
}

static bool reserve_undo(Search *s, uint32_t n) {
  return reserve(s, (void **)&s->undo, s->n_undo + n, &s->cap_undo, sizeof *s->undo);
}

static void cross(Search *s, uint32_t i, int32_t by) {  // boundary t is that between sections t - 1 and t
  SectionRange h = s->p->hull[i];
  for (uint32_t t = h.from + 1; t < h.to; t++) s->crossing[t] += (uint32_t)by;
}

static void undo(Search *s, uint32_t mark) {
  while (s->n_undo > mark) {
    PlaceUndo u = s->undo[--s->n_undo];
    if (u.kind == RELEASE) s->release[u.item] = u.old;
    else if (u.kind == RANK) s->rank[u.item] = (uint32_t)u.old;
    else cross(s, u.item, 1);
  }
}

// ---- order by release and rank
static bool is_before(const Search *s, uint32_t a, uint32_t b) {
  return s->release[a] != s->release[b] ? s->release[a] < s->release[b] : s->rank[a] < s->rank[b];
}

static void merge(const Search *s, const uint32_t *a, uint32_t n, const uint32_t *b, uint32_t m, uint32_t *to) {
  while (n && m) {
    if (is_before(s, *b, *a)) *to++ = *b++, m--;
    else *to++ = *a++, n--;
  }
  memcpy(to, a, n * sizeof *a), memcpy(to + n, b, m * sizeof *b);
}

static void sort_items(const Search *s, uint32_t *list, uint32_t n) {
  if (n < 2) return;
  uint32_t half = n / 2;
  sort_items(s, list, half), sort_items(s, list + half, n - half);
  if (!is_before(s, list[half], list[half - 1])) return;
  memcpy(s->scratch, list, half * sizeof *list);
  uint32_t k = 0, m = half, at = 0;
  while (k < half) {
    if (m < n && is_before(s, list[m], s->scratch[k])) list[at++] = list[m++];
    else list[at++] = s->scratch[k++];
  }
}

// ---- nogoods: parts that failed, by a hash of their items and releases
static uint64_t mix(uint64_t a) {
  a ^= a >> 32, a *= UINT64_C(0xd6e8feb86659fd93), a ^= a >> 32, a *= UINT64_C(0xd6e8feb86659fd93);
  return a ^ a >> 32;
}

static uint64_t key_of(const Search *s, const PlaceFrame *f) {
  uint64_t key = f->salt;
  for (uint32_t k = 0; k < f->n; k++) {
    uint32_t i = s->lists[f->list + k];
    key += mix((uint64_t)s->release[i] * UINT64_C(0x9e3779b97f4a7c15) + i + 1);
  }
  return key | 1;
}

static bool is_nogood(const Search *s, const PlaceFrame *f) {
  const PlaceNogood *g = &s->nogoods[f->key & s->nogood_mask];
  PlaceCursor c = g->cursor;
  return g->key == f->key && (c.at != f->cursor.at ? c.at < f->cursor.at : c.rank <= f->cursor.rank);
}

static Outcome fail(Search *s, const PlaceFrame *f) {
  s->nogoods[f->key & s->nogood_mask] = (PlaceNogood){f->key, f->cursor};
  return FAILED;
}

static bool is_spent(Search *s) {
  int64_t by_steps = s->steps / (16 * (int64_t)(s->p->n + 1));
  s->units = s->nodes > by_steps ? s->nodes : by_steps;
  return s->units >= s->limit;
}

static PlaceFrame *push(Search *s, PlaceFrame f) {
  if (!reserve(s, (void **)&s->frames, s->n_frames + 1, &s->cap_frames, sizeof *s->frames)) return NULL;
  f.undo = s->n_undo;
  s->frames[s->n_frames] = f;
  return &s->frames[s->n_frames++];
}

// ---- parts
static SectionRange hull_of(const Search *s, const uint32_t *list, uint32_t n) {
  SectionRange all = {UINT32_MAX, 0};
  for (uint32_t k = 0; k < n; k++) {
    SectionRange h = s->p->hull[list[k]];
    all.from = h.from < all.from ? h.from : all.from, all.to = h.to > all.to ? h.to : all.to;
  }
  return all;
}

static int by_count(const void *a, const void *b) {
  const PlacePart *x = a, *y = b;
  if (x->n != y->n) return x->n < y->n ? -1 : 1;
  return x->first < y->first ? -1 : x->first > y->first;
}

// By section: the number of its part
static uint32_t number_parts(Search *s, SectionRange hull) {
  uint32_t part = 0;
  s->part_of[hull.from] = 0;
  for (uint32_t t = hull.from + 1; t < hull.to; t++) s->part_of[t] = part += !s->crossing[t];
  return part + 1;
}

// Writes the list anew, part by part, the one with the fewest items first.
static uint32_t sort_parts(Search *s, PlaceFrame *f, uint32_t n_parts) {
  uint32_t *list = s->lists + f->list, at = 0, n = 0;
  PlacePart *parts = s->parts;
  for (uint32_t k = 0; k < n_parts; k++) parts[k] = (PlacePart){0, k, k};
  for (uint32_t k = 0; k < f->n; k++) parts[s->part_of[s->p->hull[list[k]].from]].n++;
  qsort(parts, n_parts, sizeof *parts, by_count);
  for (uint32_t k = 0; k < n_parts; k++) {
    parts[k].first = at, at += parts[k].n;
    if (parts[k].n) s->lists[f->parts + n++] = at;
    s->place_of[parts[k].part] = parts[k].first;
  }
  memcpy(s->scratch, list, f->n * sizeof *list);
  for (uint32_t k = 0; k < f->n; k++) {
    uint32_t i = s->scratch[k];
    list[s->place_of[s->part_of[s->p->hull[i].from]]++] = i;
  }
  return n;
}

// Ranks of a part begin anew, by the loads of what is left.
static uint64_t rank_part(Search *s, uint32_t *list, uint32_t n) {
  uint64_t hash = 0;
  memcpy(s->scratch, list, n * sizeof *list);
  ir_place_sort(&s->sorter, s->scratch, n, s->order, s->jitter);
  for (uint32_t k = 0; k < n; k++) {
    uint32_t i = s->scratch[k];
    log_change(s, i, RANK, s->rank[i]);
    s->rank[i] = k;
    hash += mix(((uint64_t)i << 32) + k + 1);
  }
  sort_items(s, list, n);
  s->steps += 8 * n;
  return hash;
}

// A boundary inside of what was placed last that no item crosses any more
static bool has_free_boundary(const Search *s, const PlaceFrame *f) {
  for (uint32_t t = f->split.from + 1; t < f->split.to; t++)
    if (!s->crossing[t]) return true;
  return false;
}

// True: the frame has parts, all of which must be found.
static bool split(Search *s, PlaceFrame *f) {
  if (!f->is_root && !has_free_boundary(s, f)) return false;
  uint32_t n_parts = number_parts(s, hull_of(s, s->lists + f->list, f->n));
  f->parts = s->n_lists;
  f->n_parts = n_parts > 1 || f->is_root ? sort_parts(s, f, n_parts) : 1;
  if (f->n_parts == 1 && !f->is_root) return false;
  f->top = s->n_lists += f->n_parts;
  f->state = ALL;
  return true;
}

static Outcome push_part(Search *s, PlaceFrame *f, uint32_t *list, uint32_t n) {
  PlaceFrame part = {.list = (uint32_t)(list - s->lists), .n = n, .cursor = {0, -1}, .hull = hull_of(s, list, n)};
  if (!reserve_undo(s, n)) return OUT_OF_BUDGET;
  part.salt = f->salt + rank_part(s, list, n);
  if (!ir_place_bound(s, list, n, part.cursor, part.hull)) return FAILED;
  return push(s, part) ? DEEPER : OUT_OF_BUDGET;
}

// The next part that has to be searched; one item alone need not be.
static Outcome next_part(Search *s, PlaceFrame *f) {
  while (f->next < f->n_parts) {
    uint32_t from = f->next ? s->lists[f->parts + f->next - 1] : 0, to = s->lists[f->parts + f->next];
    uint32_t *list = s->lists + f->list + from;
    f->next++;
    if (to - from > 1) return push_part(s, f, list, to - from);
    if (s->release[*list] + s->p->size[*list] > s->cap) return FAILED;
  }
  return FOUND;
}

// ---- children
static bool is_candidate(const Search *s, const PlaceFrame *f, uint32_t i) {
  int64_t at = s->release[i];
  if (at >= f->least_top) return false;
  return at != f->cursor.at ? at > f->cursor.at : s->rank[i] > f->cursor.rank;
}

static bool raises_none(Search *s, const PlaceFrame *f, uint32_t i) {
  const uint32_t *list = s->lists + f->list;
  int64_t top = s->release[i] + s->p->size[i];
  uint32_t k = 0;
  for (; k < f->n && s->release[list[k]] < top; k++)
    if (list[k] != i && place_meet(s->p, i, list[k])) break;
  s->steps += k;
  return k == f->n || s->release[list[k]] >= top;
}

static void find_least_top(Search *s, PlaceFrame *f) {
  f->least_top = INT64_MAX;
  for (uint32_t k = 0; k < f->n; k++) {
    uint32_t i = s->lists[f->list + k];
    if (s->release[i] >= f->least_top) break;
    if (s->release[i] + s->p->size[i] < f->least_top) f->least_top = s->release[i] + s->p->size[i];
  }
}

// Places item i, which was lists[list + k], and raises what it meets; the child's list is on top of the lists.
static uint32_t place(Search *s, const PlaceFrame *f, uint32_t k) {
  uint32_t *list = s->lists + f->list, *child = s->lists + s->n_lists, i = list[k], same = 0, raised = 0;
  int64_t top = s->release[i] + s->p->size[i];
  for (uint32_t m = 0; m < f->n; m++) {
    uint32_t j = list[m];
    if (m == k) continue;
    if (s->release[j] >= top || !place_meet(s->p, i, j)) {
      s->same[same++] = j;
      continue;
    }
    log_change(s, j, RELEASE, s->release[j]);
    s->release[j] = place_free_at(s->p, j, top);
    s->raised[raised++] = j;
  }
  sort_items(s, s->raised, raised);
  merge(s, s->same, same, s->raised, raised, child);
  log_change(s, i, PLACED, 0);
  cross(s, i, -1);
  s->steps += f->n + 4 * raised;
  return raised;
}

// Places the k-th of the frame, and goes on with what is left unless that cannot be.
static Outcome push_child(Search *s, uint32_t frame, uint32_t k, PlaceCursor cursor) {
  if (!reserve_lists(s, s->frames[frame].n) || !reserve_undo(s, s->frames[frame].n + 1)) return OUT_OF_BUDGET;
  PlaceFrame *f = &s->frames[frame];
  uint32_t i = s->lists[f->list + k], mark = s->n_undo;
  if (s->release[i] + s->p->size[i] > s->cap) return FAILED;
  if (!place(s, f, k)) f->is_last = true;
  PlaceFrame child = {
      .list = s->n_lists, .n = f->n - 1, .cursor = cursor, .hull = f->hull, .split = s->p->hull[i], .salt = f->salt};
  if (!ir_place_bound(s, s->lists + child.list, child.n, cursor, child.hull)) {
    undo(s, mark);
    return FAILED;
  }
  if (!push(s, child)) return OUT_OF_BUDGET;
  s->frames[s->n_frames - 1].undo = mark;
  s->n_lists += child.n;
  return DEEPER;
}

static Outcome next_child(Search *s, uint32_t frame) {
  PlaceFrame *f = &s->frames[frame];
  bool is_first = !f->next;
  while (!f->is_last) {
    while (f->next < f->n && !is_candidate(s, f, s->lists[f->list + f->next])) f->next++;
    if (f->next == f->n) break;
    uint32_t i = s->lists[f->list + f->next], k = f->next++;
    PlaceCursor cursor = {s->release[i], s->rank[i]};
    if (!is_first && !ir_place_bound(s, s->lists + f->list, f->n, cursor, f->hull)) break;
    is_first = false;
    Outcome o = push_child(s, frame, k, cursor);
    if (o != FAILED) return o;
    f = &s->frames[frame];
    if (is_spent(s)) return OUT_OF_BUDGET;
  }
  return fail(s, f);
}

static Outcome enter(Search *s, uint32_t frame) {
  PlaceFrame *f = &s->frames[frame];
  s->nodes++;
  f->top = s->n_lists;
  if (is_spent(s) || !reserve_lists(s, f->n)) return OUT_OF_BUDGET;
  if (!f->n) return FOUND;
  f->key = key_of(s, f);
  s->steps += 2 * f->n;
  if (is_nogood(s, f)) return FAILED;
  if (split(s, f)) return next_part(s, f);
  f->state = EACH;
  find_least_top(s, f);
  for (uint32_t k = 0; k < f->n; k++) {
    uint32_t i = s->lists[f->list + k];
    if (s->release[i] >= f->least_top) break;
    if (!is_candidate(s, f, i) || !raises_none(s, f, i)) continue;
    f->is_last = true;
    Outcome o = push_child(s, frame, k, f->cursor);
    return o == FAILED ? fail(s, &s->frames[frame]) : o;
  }
  return next_child(s, frame);
}

static Outcome step(Search *s, Outcome below) {
  uint32_t frame = s->n_frames - 1;
  PlaceFrame *f = &s->frames[frame];
  if (f->state == ENTER) return enter(s, frame);
  s->n_lists = f->top;
  if (f->state == EACH) return below == FOUND ? FOUND : next_child(s, frame);
  if (below == FOUND) below = next_part(s, f);
  return below == FAILED ? fail(s, f) : below;
}

static Outcome run(Search *s) {
  Outcome outcome = DEEPER;
  while (s->n_frames) {
    outcome = step(s, outcome);
    if (outcome == OUT_OF_BUDGET) return outcome;
    if (outcome == DEEPER) continue;
    s->n_frames--;
    if (outcome == FAILED) undo(s, s->frames[s->n_frames].undo);
  }
  return outcome;
}

// ---- restarts
PlaceSearch *ir_place_search_new(const Problem *p, int64_t budget) {
  RtArena *mem = p->mem;
  size_t n = p->n + 1, n_sections = p->n_sections + 2, n_nogoods = 1 << 10;
  Search *s = rt_alloc(mem, sizeof *s);
  while (n_nogoods < 1 << 18 && (int64_t)n_nogoods < 4 * budget) n_nogoods *= 2;
  *s = (Search){.p = p, .sorter = ir_place_sorter(p), .nogood_mask = n_nogoods - 1};
  s->nogoods = rt_alloc(mem, n_nogoods * sizeof *s->nogoods);
  s->bytes = n_nogoods * sizeof *s->nogoods;
  s->release = rt_alloc(mem, n * sizeof *s->release), s->lifted = rt_alloc(mem, n * sizeof *s->lifted);
  s->rank = rt_alloc(mem, n * sizeof *s->rank), s->passed = rt_alloc(mem, n * sizeof *s->passed);
  s->scratch = rt_alloc(mem, n * sizeof *s->scratch), s->same = rt_alloc(mem, n * sizeof *s->same);
  s->raised = rt_alloc(mem, n * sizeof *s->raised);
  s->crossing = rt_alloc(mem, n_sections * sizeof *s->crossing), s->load = rt_alloc(mem, n_sections * sizeof *s->load);
  s->part_of = rt_alloc(mem, n_sections * sizeof *s->part_of);
  s->place_of = rt_alloc(mem, n_sections * sizeof *s->place_of),
  s->parts = rt_alloc(mem, n_sections * sizeof *s->parts);
  return s;
}

static Outcome run_from_root(Search *s, int64_t limit) {
  const Problem *p = s->p;
  s->nodes = s->steps = s->units = 0, s->limit = limit;
  s->n_frames = s->n_lists = s->n_undo = 0;
  if (!reserve_lists(s, p->n_loose)) return OUT_OF_BUDGET;
  memset(s->crossing, 0, (p->n_sections + 2) * sizeof *s->crossing);
  for (uint32_t k = 0; k < p->n_loose; k++) {
    uint32_t i = p->loose[k];
    s->lists[k] = i, s->release[i] = place_free_at(p, i, 0);
    cross(s, i, 1);
  }
  s->n_lists = p->n_loose;
  uint32_t seed[2] = {s->order, s->jitter};
  uint64_t salt = rt_hash(seed, sizeof seed, (uint64_t)s->cap);
  return push(s, (PlaceFrame){.n = p->n_loose, .salt = salt, .is_root = true}) ? run(s) : OUT_OF_BUDGET;
}

PlaceAnswer ir_place_search(PlaceSearch *s, int64_t cap, int64_t budget, int64_t *spent, int64_t *at) {
  static const PlaceOrder orders[] = {BY_LOAD_LIFE, BY_LOAD_AREA, BY_LIFE_AREA, BY_SIZE_ROOT};
  const Problem *p = s->p;
  s->cap = cap;
  if (p->bound > cap) return PLACE_IMPOSSIBLE;
  for (uint32_t round = 0, k = 0; budget > 0; round += ++k % 4 == 0) {
    int64_t limit = round < 3 ? 1000 << round : 8000;
    s->order = orders[k % 4], s->jitter = round < 4 ? 0 : round;
    Outcome o = run_from_root(s, limit < budget ? limit : budget);
    *spent += s->units + 1, budget -= s->units + 1;
    if (o == FAILED) return PLACE_IMPOSSIBLE;
    if (o != FOUND) continue;
    for (uint32_t i = 0; i < p->n; i++) at[i] = p->fixed_at[i] < 0 ? s->release[i] : p->fixed_at[i];
    return PLACE_FOUND;
  }
  return PLACE_UNKNOWN;
}
