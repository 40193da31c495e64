// Part of pass fuse: an order of groups in which less lives at once, of the room schedule.
//
// Siblings that share what they read are one group, and live together. Where that is at the peak, the group is split:
//
//   %a = mul %x, 2      g1              %a = mul %x, 2      g1
//   %b = mul %x, 3      g1              %s = cumsum %a      g2
//   %s = cumsum %a      g2       ->     %b = mul %x, 3      g4
//   %t = cumsum %b      g3              %t = cumsum %b      g3
#include "ir/passes/fusion/fuse.h"
#include "ir/passes/fusion/memory.h"
#include <string.h>

static bool has_exchange(const Groups *g) {
  for (uint32_t i = 1; i < g->f->n_ins; i++)
    if (ir_ops[g->f->ins[i].op].cls == CLASS_EXCHANGE) return true;
  return false;
}

// ---- groups as they are, to go back to
typedef struct {
  uint32_t *of, *next, *list, n, n_groups;  // list: n groups in order
  Group *groups;
} Saved;

static Saved save(const Groups *g, const uint32_t *list, uint32_t n) {
  RtArena *mem = g->f->prog->mem;
  Saved s = {.n = n, .n_groups = g->n, .of = rt_alloc(mem, g->n_all * sizeof *s.of)};
  s.next = rt_alloc(mem, g->n_all * sizeof *s.next), s.groups = rt_alloc(mem, g->n * sizeof *s.groups);
  s.list = rt_alloc(mem, (n + 1) * sizeof *s.list);
  memcpy(s.of, g->of, g->n_all * sizeof *s.of), memcpy(s.next, g->next, g->n_all * sizeof *s.next);
  memcpy(s.groups, g->list, g->n * sizeof *s.groups), memcpy(s.list, list, n * sizeof *s.list);
  return s;
}

static void go_back(Groups *g, const Saved *s) {
  memcpy(g->of, s->of, g->n_all * sizeof *s->of), memcpy(g->next, s->next, g->n_all * sizeof *s->next);
  memcpy(g->list, s->groups, s->n_groups * sizeof *s->groups);
  g->n = s->n_groups;
}

// ---- siblings
typedef struct {
  Groups *g;
  uint32_t *list, n;  // in order
  int64_t peak;
  int64_t limit;  // what should live at most; 0: as little as can be had with few kernels
  Scratch scratch;
  uint32_t *up;    // by instruction: another one of its part; the root itself
  int64_t *bytes;  // by root
} Order;

static uint32_t root_of(const Order *o, uint32_t i) {
  while (o->up[i] != i) i = o->up[i];
  return i;
}

// Parts of a group share no value that it makes.
static void find_parts(Order *o, uint32_t group) {
  const Groups *g = o->g;
  for (uint32_t i = g->list[group].first; i; i = g->next[i]) o->up[i] = i, o->bytes[i] = 0;
  for (uint32_t i = g->list[group].first; i; i = g->next[i])
    for (uint32_t k = g->first_dep[i]; k < g->first_dep[i + 1]; k++)
      if (g->of[g->dep[k]] == group) o->up[root_of(o, i)] = root_of(o, g->dep[k]);
}

// What is made in each kernel that reads it (late.c) may be made in this one.
static bool takes_fills(const Groups *g, uint32_t group) {
  for (uint32_t i = g->list[group].first; i; i = g->next[i])
    for (uint32_t k = 0; k < g->f->ins[i].n_args; k++)
      if (g->is_copied[ir_arg(g->f, (Val){i}, k).i] && ir_may_join(g, group, ir_arg(g->f, (Val){i}, k))) return false;
  return true;
}

// Each part a group, in `out`; how many. One: it stays whole.
static uint32_t split(Order *o, uint32_t group, uint32_t *out) {
  Groups *g = o->g;
  uint32_t n = 0, first = root_of(o, g->list[group].first), depth = g->list[group].depth;
  Rank rank = (Rank)g->list[group].rank;
  out[n++] = group;
  for (uint32_t i = g->list[group].first, next; i; i = next) {
    uint32_t to = 0;
    next = g->next[i];
    if (root_of(o, i) == first) continue;
    ir_leave(g, (Val){i});
    for (uint32_t k = 1; k < n && !to; k++)
      if (root_of(o, g->list[out[k]].first) == root_of(o, i)) to = out[k];
    if (to) ir_join(g, to, (Val){i});
    else g->list[out[n++] = ir_new_group(g, (Val){i}, depth, rank)].split_off = group;
  }
  bool good = true;
  for (uint32_t k = 0; k < n; k++) good &= takes_fills(g, out[k]);
  for (; !good && n > 1; n--)
    for (uint32_t i; (i = g->list[out[n - 1]].first) != 0;) ir_leave(g, (Val){i}), ir_join(g, group, (Val){i});
  return n;
}

// Bytes near the peak of other parts of the group than the one with most: what they make, and what they alone read.
static int64_t bytes_of_others(Order *o, const Problem *q, uint32_t group) {
  const Groups *g = o->g;
  const Fn *f = g->f;
  int64_t sum = 0, most = 0;
  find_parts(o, group);
  for (uint32_t i = g->list[group].first; i; i = g->next[i]) {
    int64_t *bytes = &o->bytes[root_of(o, i)];
    for (uint32_t r = 0; r < f->ins[i].n_res; r++)
      if (q->buffer[i + r] && q->is_live[q->buffer[i + r] - 1]) *bytes += q->p.size[q->buffer[i + r] - 1];
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) {
      uint32_t b = q->buffer[ir_storage_root(f, ir_arg(f, (Val){i}, k)).i];
      if (b && q->is_live[b - 1] && q->p.first_user[b] - q->p.first_user[b - 1] == 1) *bytes += q->p.size[b - 1];
    }
  }
  for (uint32_t i = g->list[group].first; i; i = g->next[i]) {
    sum += o->bytes[i];
    if (o->bytes[i] > most) most = o->bytes[i];
  }
  return sum - most;
}

// What should live at most.
static int64_t level(const Order *o) { return o->limit && o->limit < o->peak ? o->limit : o->peak; }

// Buffers that live while a kernel runs for which much lives.
static void find_live(const Order *o, Problem *q) {
  enum { NEAR_PEAK = 8 };
  const SchedProblem *p = &q->p;
  int64_t *live = ir_schedule_live(p, o->g->f->prog->mem);
  uint32_t *n_near = rt_alloc(o->g->f->prog->mem, (p->n + 1) * sizeof *n_near);  // of the kernels before
  for (uint32_t k = 0; k < p->n; k++) n_near[k + 1] = n_near[k] + (live[k] >= level(o) - level(o) / NEAR_PEAK);
  for (uint32_t b = 0; b < p->n_buffers; b++) {
    uint32_t last = p->maker[b];
    for (uint32_t u = p->first_user[b]; u < p->first_user[b + 1]; u++)
      if (p->user[u] > last) last = p->user[u];
    q->is_live[b] = n_near[last + 1] > n_near[p->maker[b]];
  }
}

static bool may_split(const Group *of) {
  return of->cls == CLASS_OPTIMIZER || (of->rank == RANK_PLAIN && of->cls == CLASS_POINTWISE);
}

// Pointwise groups and updates of which much lives at the peak are split: sums keep their kernels, and so their order. o->list: n groups.
static bool split_at_peak(Order *o) {
  enum { LEAST_PART = 64 };
  Groups *g = o->g;
  Problem q = ir_memory_problem(g, o->list, o->n, o->scratch);
  uint32_t n = 0, n_ins = g->f->n_ins;
  find_live(o, &q);
  uint32_t *list = rt_alloc(g->f->prog->mem, (o->n + n_ins) * sizeof *list);
  for (uint32_t k = 0; k < o->n; k++) {
    const Group *of = &g->list[o->list[k]];
    if (of->first < n_ins && may_split(of) && bytes_of_others(o, &q, o->list[k]) > level(o) / LEAST_PART)
      n += split(o, o->list[k], list + n);
    else list[n++] = o->list[k];
  }
  bool is_split = n > o->n;
  o->list = list, o->n = n;
  return is_split;
}

static void take_order(Order *o, const uint32_t *order) {
  uint32_t *list = rt_alloc(o->g->f->prog->mem, (o->n + 1) * sizeof *list);
  for (uint32_t k = 0; k < o->n; k++) list[k] = o->list[order[k]];
  o->list = list;
}

static void find_order(Order *o) {
  enum { SMALL_PART = 256 };
  RtArena *mem = o->g->f->prog->mem;
  Problem q = ir_memory_problem(o->g, o->list, o->n, o->scratch);
  uint32_t *order = rt_alloc(mem, (o->n + 1) * sizeof *order);
  o->peak = ir_schedule(&q.p, order, mem).peak;
  // What checkpoints compute again is best in the order of the program: a backward right behind what it needs
  if (o->limit && o->g->f->prog->n_checkpoints)
    for (uint32_t k = 0; k < o->n; k++) order[k] = k;
  // what is made of a small parameter can be made again up to its update
  if (o->limit) ir_schedule_free_early(&q.p, order, o->peak, o->limit / SMALL_PART, mem);
  else ir_schedule_waits(&q.p, order, o->peak, mem);
  take_order(o, order);
}

// Of groups as they are merged
static void draw_order(Order *o) {
  RtArena *mem = o->g->f->prog->mem;
  Problem q = ir_memory_problem(o->g, o->list, o->n, o->scratch);
  uint32_t *order = rt_alloc(mem, (o->n + 1) * sizeof *order);
  for (uint32_t k = 0; k < o->n; k++) order[k] = k;
  if (!ir_schedule_draw(&q.p, order, mem)) return;
  ir_schedule_waits(&q.p, order, ir_schedule_peak(&q.p, order, mem), mem);
  take_order(o, order);
}

// ---- both orders
typedef struct {
  int64_t peak;
  uint32_t n_waits;
} Cost;

static Cost cost_of(const Groups *g, const uint32_t *list, uint32_t n, Scratch scratch) {
  RtArena *mem = g->f->prog->mem;
  Problem q = ir_memory_problem(g, list, n, scratch);
  int64_t *live = ir_schedule_live(&q.p, mem);
  Cost c = {0};
  uint32_t *order = rt_alloc(mem, (n + 1) * sizeof *order);
  for (uint32_t k = 0; k < n; k++) {
    order[k] = k;
    if (live[k] > c.peak) c.peak = live[k];
  }
  c.n_waits = ir_schedule_waits(&q.p, order, 0, mem);
  return c;
}

// Pointwise neighbours are merged, and updates, where that keeps the peak, but for a small part of it.
static void merge(Fuse *s, Order *o) {
  enum { SMALL_PART = 256 };
  Problem q = ir_memory_problem(&s->g, o->list, o->n, o->scratch);
  int64_t *room = ir_schedule_live(&q.p, s->f->prog->mem), *made = rt_alloc(s->f->prog->mem, (o->n + 1) * sizeof *made);
  for (uint32_t k = 0; k < o->n; k++) room[k] = o->peak + o->peak / SMALL_PART - room[k];
  for (uint32_t b = 0; b < q.p.n_buffers; b++) made[q.p.maker[b]] += q.p.size[b];
  o->n = ir_merge_neighbours(s, o->list, o->n, MERGE_ELEMENTS, &(MergeRoom){room, made});
}

// A kernel more, or a wait, takes microseconds: it must save so many bytes. Where there are no more of them any byte counts; of a
// small function a page.
static bool is_worth(int64_t step_bytes, Cost a, uint32_t n_a, Cost b, uint32_t n_b) {
  enum { PAGES_OF_STEP = 4 };
  int64_t gain = a.peak - b.peak, n_more = 0;
  if (n_b > n_a) n_more += n_b - n_a;
  if (b.n_waits > a.n_waits) n_more += b.n_waits - a.n_waits;
  bool is_small = a.peak < step_bytes && gain < step_bytes / PAGES_OF_STEP;
  return gain > 0 && !is_small && gain >= n_more * step_bytes;
}

static Order order_for_memory(Fuse *s, const uint32_t *list, uint32_t n, Scratch scratch, int64_t limit) {
  enum { MAX_SPLITS = 8 };
  RtArena *mem = s->f->prog->mem;
  Order o = {.g = &s->g, .n = n, .limit = limit, .scratch = scratch, .list = rt_alloc(mem, (n + 1) * sizeof *o.list)};
  o.up = rt_alloc(mem, s->g.n_all * sizeof *o.up), o.bytes = rt_alloc(mem, s->g.n_all * sizeof *o.bytes);
  memcpy(o.list, list, n * sizeof *list);
  find_order(&o);
  Order least = o;
  Saved there = save(&s->g, o.list, o.n);
  for (uint32_t k = 0; k < MAX_SPLITS && split_at_peak(&o); k++) {
    find_order(&o);
    if (o.peak > least.peak || (!limit && o.peak == least.peak)) continue;  // another group may stand at the peak now
    least = o, there = save(&s->g, o.list, o.n);
  }
  go_back(&s->g, &there);
  if (!limit) {
    merge(s, &least);
    draw_order(&least);
  }
  return least;
}

// Where the arena is limited to less than the plain order needs: pointwise groups and updates are not merged, since an update of many
// parameters would hold all their gradients. One order for all limits, so that what is the least does not depend on the limit.
static uint32_t *order_for_limit(Fuse *s, uint32_t *list, uint32_t *n) {
  *n = ir_merge_neighbours(s, list, *n, MERGE_SUMS, NULL);
  Scratch scratch = ir_memory_scratch(&s->g, list, *n);
  int64_t peak = cost_of(&s->g, list, *n, scratch).peak;
  Order o = order_for_memory(s, list, *n, scratch, peak / s->f->limit_part + 1);
  *n = o.n;
  return o.list;
}

// Kernels of sums and rows stay what they are in the plain order, so that their results keep their bits.
uint32_t *ir_merge_in_order(Fuse *s, uint32_t *list, uint32_t *n) {
  if (s->f->limit_part && !has_exchange(&s->g)) return order_for_limit(s, list, n);
  *n = ir_merge_neighbours(s, list, *n, MERGE_ALL, NULL);
  if (has_exchange(&s->g)) return list;
  Scratch scratch = ir_memory_scratch(&s->g, list, *n);
  Cost plain = cost_of(&s->g, list, *n, scratch);
  int64_t step_bytes = s->f->prog->target.step_bytes;
  if (!is_worth(step_bytes, plain, *n, (Cost){0}, *n)) return list;  // not even if nothing lived
  Saved merged = save(&s->g, list, *n);
  Order o = order_for_memory(s, list, *n, scratch, 0);
  if (is_worth(step_bytes, plain, *n, cost_of(&s->g, o.list, o.n, scratch), o.n)) {
    *n = o.n;
    return o.list;
  }
  go_back(&s->g, &merged);
  return list;
}
