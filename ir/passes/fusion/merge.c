// Part of pass fuse: groups that do not wait for each other are merged where they are of one kind, read the same rows, or are
// neighbours.
#include "ir/passes/fusion/fuse.h"
#include "ir/passes/plan.h"
#include "ir/storage.h"
#include "runtime/base.h"
#include <string.h>

// Groups of one kind may be one kernel. 0: it is alone.
typedef struct {
  uint32_t depth, cls, shape;
} Kind;

static bool rows_of(const Fuse *s, uint32_t group, RowSpace *rows) {
  for (uint32_t i = s->g.list[group].first; i; i = s->g.next[i])
    if (ir_row_space(s->f, (Val){i}, rows)) return true;
  return false;
}

static Kind kind_of(const Fuse *s, uint32_t group) {
  const Group *k = &s->g.list[group];
  const Ins *ins = &s->f->ins[k->lead];
  RowSpace rows;
  if (k->lead >= s->f->n_ins) return (Kind){0};
  if (s->late_wait && k->n == 1 && ir_is_late(s, k->lead)) return (Kind){0};
  if (k->cls == CLASS_ROW && rows_of(s, group, &rows)) return (Kind){k->depth, 1 + CLASS_POINTWISE, rows.shape.i};
  bool is_narrow = k->cls == CLASS_POINTWISE && ir_is_narrow_concat(s->f, (Val){k->lead});
  if (is_narrow || !ir_class_has((Op)ins->op, SHARES_KERNEL)) return (Kind){0};
  uint32_t shape = k->cls == CLASS_OPTIMIZER ? 0 : ins->shape.i;
  return (Kind){k->depth, 1 + k->cls + (k->cls == CLASS_RNN ? ins->op : 0), shape};
}

// ---- in the order of their places
static int by_place(const Groups *g, uint32_t a, uint32_t b) {
  if (ir_group_is_before(g, a, b)) return -1;
  if (ir_group_is_before(g, b, a)) return 1;
  return g->list[a].first < g->list[b].first ? -1 : g->list[a].first > g->list[b].first;
}

static void sort(const Groups *g, uint32_t *list, uint32_t *room, uint32_t n) {
  if (n < 2) return;
  sort(g, list, room, n / 2);
  sort(g, list + n / 2, room, n - n / 2);
  for (uint32_t a = 0, b = n / 2, k = 0; k < n; k++)
    room[k] = b == n || (a < n / 2 && by_place(g, list[a], list[b]) < 0) ? list[a++] : list[b++];
  memcpy(list, room, n * sizeof *list);
}

uint32_t *ir_in_place(const Groups *g, uint32_t *n) {
  RtArena *mem = g->f->prog->mem;
  uint32_t *list = rt_alloc(mem, g->n * sizeof *list), *room = rt_alloc(mem, g->n * sizeof *room);
  *n = 0;
  for (uint32_t k = 1; k < g->n; k++)
    if (g->list[k].first) list[(*n)++] = k;
  sort(g, list, room, *n);
  return list;
}

// ---- groups of one kind
typedef struct {
  uint32_t *last;  // the last group of a kind; open addressing, 0 is a free slot
  uint32_t cap;
  bool any_depth;
} Kinds;

static Kinds kinds_for(const Fuse *s, uint32_t n, bool any_depth) {
  Kinds t = {.cap = 64, .any_depth = any_depth};
  while (t.cap < 2 * n) t.cap *= 2;
  t.last = rt_alloc(s->f->prog->mem, t.cap * sizeof *t.last);
  return t;
}

// The slot of the group's kind; NULL: it has none.
static uint32_t *slot_of(const Fuse *s, const Kinds *t, uint32_t group) {
  Kind kind = kind_of(s, group);
  if (!kind.cls) return NULL;
  if (t->any_depth) kind.depth = 0;
  uint32_t at = (uint32_t)rt_hash(&kind, sizeof kind, 5) & (t->cap - 1);
  for (; t->last[at]; at = (at + 1) & (t->cap - 1)) {
    Kind other = kind_of(s, t->last[at]);
    if (t->any_depth) other.depth = 0;
    if (!memcmp(&other, &kind, sizeof kind)) break;
  }
  return &t->last[at];
}

void ir_merge_kinds(Fuse *s) {
  uint32_t n, *list = ir_in_place(&s->g, &n);
  Kinds t = kinds_for(s, n, false);
  for (uint32_t k = 0; k < n; k++) {
    uint32_t *slot = slot_of(s, &t, list[k]);
    if (slot && (!*slot || !ir_merge(&s->g, *slot, list[k]))) *slot = list[k];
  }
}

// ---- a group waits for a later one of its kind
// Bytes that both groups read: loaded once where they are one.
static double bytes_shared(const Fuse *s, uint32_t a, uint32_t b) {
  const Groups *g = &s->g;
  double sum = 0;
  for (uint32_t i = g->list[a].first; i; i = g->next[i])
    for (uint32_t k = 0; k < s->f->ins[i].n_args; k++) {
      Val x = ir_arg(s->f, (Val){i}, k);
      bool by_both = false;
      if (ir_is_immediate(s->f, x) || g->of[x.i] == a) continue;
      for (uint32_t n = g->uses.first[x.i]; n < g->uses.first[x.i + 1]; n++) by_both |= g->of[g->uses.user[n]] == b;
      if (by_both) sum += ir_bytes_at(s->f, x);
    }
  return sum;
}

static bool is_read_outside(const Fuse *s, uint32_t i) {
  const Groups *g = &s->g;
  if (s->f->ins[i].op == OP_output) return false;
  for (uint32_t k = g->uses.first[i]; k < g->uses.first[i + 1]; k++)
    if (g->of[g->uses.user[k]] != g->of[i]) return true;
  return false;
}

// Group a can wait for b without holding more memory, but for a few bytes where both read much.
static bool can_wait(const Fuse *s, uint32_t a, uint32_t b) {
  const Groups *g = &s->g;
  double gain = 0, added = 0;
  for (uint32_t i = g->list[a].first; i; i = g->next[i]) {
    for (GroupWalk w = ir_groups_of_readers(g, (Val){i}, a); ir_next_group(&w);)
      if (w.at != b && !ir_group_is_before(g, b, w.at)) return false;
    if (is_read_outside(s, i)) gain += ir_bytes_at(s->f, (Val){i});
    added += ir_bytes_kept(s, i, b);
  }
  return added <= gain || added <= gain + bytes_shared(s, a, b) / TINY_RATIO;
}

void ir_merge_late(Fuse *s) {
  Groups *g = &s->g;
  uint32_t n, *list = ir_in_place(g, &n);
  Kinds t = kinds_for(s, n, true);
  for (uint32_t k = n; k-- > 0;) {
    uint8_t cls = g->list[list[k]].cls;
    uint32_t *slot = cls == CLASS_OPTIMIZER ? NULL : slot_of(s, &t, list[k]);
    bool waits = slot && *slot && cls != CLASS_ROW && can_wait(s, list[k], *slot);
    if (slot && !(waits && ir_merge(g, *slot, list[k]))) *slot = list[k];
  }
}

// ---- row kernels that read the same rows
static bool reads_rows_of(const Fuse *s, uint32_t i, uint32_t k, RowSpace rows) {
  Val a = ir_arg(s->f, (Val){i}, k);
  return ir_ins(s->f, a)->shape.i == rows.shape.i && s->g.of[a.i] != s->g.of[i] &&
         ir_row_reads(s->f, (Val){i}, k, rows);
}

// Group b joins one of its depth that reads the same rows; the group in which it is then. by: by value, who read its rows last.
static uint32_t join_reader_of_rows(Fuse *s, uint32_t b, RowSpace rows, const uint32_t *by) {
  Groups *g = &s->g;
  for (uint32_t i = g->list[b].first; i; i = g->next[i])
    for (uint32_t k = 0; k < s->f->ins[i].n_args; k++) {
      uint32_t other = reads_rows_of(s, i, k, rows) ? by[ir_arg(s->f, (Val){i}, k).i] : 0;
      bool is_like_it = other && g->list[other].first && g->list[other].depth == g->list[b].depth;
      if (is_like_it && ir_merge(g, other, b)) return other;
    }
  return b;
}

void ir_merge_rows(Fuse *s) {
  Groups *g = &s->g;
  uint32_t n, *list = ir_in_place(g, &n), *by = rt_alloc(s->f->prog->mem, s->f->n_ins * sizeof *by);
  for (uint32_t at = 0; at < n; at++) {
    RowSpace rows;
    const Group *b = &g->list[list[at]];
    if (!(ir_classes[b->cls].flags & BECOMES_ROWS) || b->lead >= s->f->n_ins) continue;
    if (!rows_of(s, list[at], &rows) || !ir_row_fits(s->f->prog, rows)) continue;
    uint32_t of = join_reader_of_rows(s, list[at], rows, by);
    for (uint32_t i = g->list[of].first; i; i = g->next[i])
      for (uint32_t k = 0; k < s->f->ins[i].n_args; k++)
        if (reads_rows_of(s, i, k, rows)) by[ir_arg(s->f, (Val){i}, k).i] = of;
  }
}

// ---- neighbours in the order of kernels
// A group reads what the other makes, or something that it reads.
static bool shares(const Fuse *s, uint32_t a, uint32_t b) {
  const Groups *g = &s->g;
  for (uint32_t j = g->list[b].first; j; j = g->next[j])
    for (uint32_t k = 0; k < s->f->ins[j].n_args; k++) {
      Val x = ir_arg(s->f, (Val){j}, k);
      if (g->of[x.i] == a) return true;
      if (ir_is_immediate(s->f, x) || ir_is_product(s->f, (Val){g->list[a].lead})) continue;
      for (uint32_t n = g->uses.first[x.i]; n < g->uses.first[x.i + 1]; n++)
        if (g->of[g->uses.user[n]] == a) return true;
    }
  return false;
}

// Every result of group b is small beside the rows that it reads: a sum of them, or a number for each.
static bool makes_no_elements(const Fuse *s, uint32_t b, uint32_t shape) {
  RowSpace rows;
  for (uint32_t i = s->g.list[b].first; i; i = s->g.next[i])
    for (uint32_t r = 0; r < s->f->ins[i].n_res; r++)
      if (s->f->ins[i + r].shape.i == shape && ir_row_space(s->f, (Val){i}, &rows)) return false;
  return true;
}

static bool is_by_rows(const Group *k) { return ir_classes[k->cls].flags & BECOMES_ROWS; }

static bool are_alike(const Fuse *s, uint32_t a, uint32_t b) {
  const Group *x = &s->g.list[a], *y = &s->g.list[b];
  RowSpace first, second;
  if (y->cls == CLASS_OPTIMIZER) return x->cls == CLASS_OPTIMIZER;
  bool by_rows = is_by_rows(x) && rows_of(s, a, &first);
  if (y->cls == CLASS_POINTWISE)
    return by_rows ? first.shape.i != s->f->ins[y->lead].shape.i : x->cls == CLASS_POINTWISE;
  bool same_rows = by_rows && is_by_rows(y) && rows_of(s, b, &second) && ir_same_rows(first, second);
  return same_rows && makes_no_elements(s, b, second.shape.i);
}

// Results have the same bits in one kernel and in two.
static bool is_in_any_order(const Groups *g, uint32_t a, uint32_t b) {
  OpClass cls = (OpClass)g->list[a].cls;
  return cls == (OpClass)g->list[b].cls && (cls == CLASS_POINTWISE || cls == CLASS_OPTIMIZER);
}

uint32_t ir_merge_neighbours(Fuse *s, uint32_t *list, uint32_t n, MergeKind which, MergeRoom *room) {
  Groups *g = &s->g;
  uint32_t m = 0;
  for (uint32_t k = 0; k < n; k++) {
    uint32_t last = m ? list[m - 1] : 0;
    bool both = last && g->list[last].lead < s->f->n_ins && g->list[list[k]].lead < s->f->n_ins;
    bool is_like_it = both && (are_alike(s, last, list[k]) || shares(s, last, list[k]));
    if (is_like_it && which != MERGE_ALL) is_like_it = is_in_any_order(g, last, list[k]) == (which == MERGE_ELEMENTS);
    if (is_like_it && room) is_like_it = room->made[k] <= room->bytes[m - 1];
    if (is_like_it && ir_merge(g, last, list[k])) {
      if (room) room->bytes[m - 1] -= room->made[k];
      continue;
    }
    if (room) room->bytes[m] = room->bytes[k];
    list[m++] = list[k];
  }
  return m;
}
