// Part of pass fuse: the order of groups.
//
// Groups in the order of their places are one; the other is by steps. Groups on the longest way decide how many times the team
// waits; each other group may go into any of the steps between the one where all that it waits for is done and the last one
// before it is waited for. It goes into the first in which it frees as much as it makes, or else into the last. What reads and
// makes next to nothing goes into the first behind which another one can free much: a flag that sums of gradients wait for is
// there when the first of them can be made. Of the two orders the one is taken that holds less, or where it waits fewer times.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/fusion/groups.h"
#include "ir/storage.h"
#include <string.h>

typedef struct {
  const Groups *g;
  uint32_t *first_step, *last_step;  // by group
  uint32_t *n_left;                  // by base value: groups that are still to read it
  uint32_t *seen;                    // by value: the last group that was looked at
  uint32_t *read;                    // of a group: base values
  uint32_t *done_in;                 // by group: 1 + the step that it is in; 0: it is to come
  uint32_t *at;                      // by group: its index in the list
  int64_t *made, *read_bytes;        // by group: bytes that it makes, and reads of others
} Order;

static bool is_kernel(const Groups *g, uint32_t group) { return g->list[group].first < g->f->n_ins; }

// ---- what is held
// Values of other groups that the group reads, once each, in l->read.
static uint32_t values_read(Order *l, uint32_t group) {
  const Fn *f = l->g->f;
  uint32_t n = 0;
  for (uint32_t i = l->g->list[group].first; i && i < f->n_ins; i = l->g->next[i])
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) {
      uint32_t base = ir_storage_root(f, ir_arg(f, (Val){i}, k)).i, by = l->g->of[base];
      if (!by || by == group || l->seen[base] == group) continue;
      l->seen[base] = group, l->read[n++] = base;
    }
  for (uint32_t k = 0; k < n; k++) l->seen[l->read[k]] = 0;
  return n;
}

typedef enum { ALL_MADE, MADE_IN_PLACE } Made;

// in_place: what may take over an operand's bytes.
static int64_t bytes_made(const Order *l, uint32_t group, Made which) {
  const Fn *f = l->g->f;
  int64_t sum = 0;
  for (uint32_t i = l->g->list[group].first; i && i < f->n_ins; i = l->g->next[i]) {
    if (which == MADE_IN_PLACE && !ir_class_has((Op)f->ins[i].op, IN_PLACE)) continue;
    for (uint32_t r = 0; r < f->ins[i].n_res; r++)
      if (l->n_left[i + r]) sum += ir_arena_bound(l->g, i + r);
  }
  return sum;
}

// Of what it is the last to read.
static int64_t bytes_freed(Order *l, uint32_t group) {
  int64_t sum = 0;
  for (uint32_t k = values_read(l, group); k-- > 0;)
    if (l->n_left[l->read[k]] == 1) sum += ir_arena_bound(l->g, l->read[k]);
  return sum;
}

static void note_reads(Order *l, uint32_t group, bool is_done) {
  for (uint32_t k = values_read(l, group); k-- > 0;) l->n_left[l->read[k]] += is_done ? UINT32_MAX : 1;
}

// ---- how good an order is
typedef struct {
  int64_t peak, sum;  // bytes that are held
  uint32_t n_waits;   // of the team
} Cost;

static bool waits_since(const Order *l, uint32_t group, uint32_t wait) {
  for (GroupWalk w = ir_groups_before(l->g, group); ir_next_group(&w);)
    if (is_kernel(l->g, w.at) && l->done_in[w.at] == wait) return true;
  return false;
}

static Cost cost_of(Order *l, const uint32_t *list, uint32_t n) {
  Cost c = {0};
  int64_t held = 0;
  memset(l->done_in, 0, l->g->n * sizeof *l->done_in);
  for (uint32_t k = 0; k < n; k++) note_reads(l, list[k], false);
  for (uint32_t k = 0; k < n; k++) {
    int64_t made = bytes_made(l, list[k], ALL_MADE), freed = bytes_freed(l, list[k]),
            both = bytes_made(l, list[k], MADE_IN_PLACE);
    if (both > freed) both = freed;
    if (held + made - both > c.peak) c.peak = held + made - both;
    c.sum += held + made - both;
    held += made - freed;
    c.n_waits += waits_since(l, list[k], 1 + c.n_waits);
    l->done_in[list[k]] = 1 + c.n_waits;
    note_reads(l, list[k], true);
  }
  return c;
}

static bool is_better(Cost a, Cost b) {
  if (a.peak != b.peak) return a.peak < b.peak;
  return a.n_waits != b.n_waits ? a.n_waits < b.n_waits : a.sum < b.sum;
}

// ---- by steps
static uint32_t step_after(const Order *l, uint32_t group) {
  uint32_t step = 0;
  for (GroupWalk w = ir_groups_before(l->g, group); ir_next_group(&w);) {
    uint32_t behind = l->first_step[w.at] + is_kernel(l->g, w.at);
    if (behind > step) step = behind;
  }
  return step;
}

static uint32_t step_before(const Order *l, uint32_t group, uint32_t end) {
  uint32_t step = end;
  for (GroupWalk w = ir_groups_behind(l->g, group); ir_next_group(&w);) {
    uint32_t before = l->last_step[w.at] - is_kernel(l->g, group);
    if (before < step) step = before;
  }
  return step;
}

static bool is_ready(const Order *l, uint32_t group, uint32_t step) {
  for (GroupWalk w = ir_groups_before(l->g, group); ir_next_group(&w);)
    if (!l->done_in[w.at] || l->done_in[w.at] + is_kernel(l->g, w.at) > 1 + step) return false;
  return true;
}

static uint32_t find_steps(Order *l, const uint32_t *list, uint32_t n) {
  uint32_t end = 0;
  for (uint32_t k = 0; k < n; k++) {
    l->first_step[list[k]] = step_after(l, list[k]);
    if (l->first_step[list[k]] > end) end = l->first_step[list[k]];
  }
  for (uint32_t k = n; k-- > 0;) l->last_step[list[k]] = step_before(l, list[k], end);
  return end;
}

// Does it free what it makes? What it may free at most is known beforehand.
static bool saves(Order *l, uint32_t group) {
  int64_t made = l->made[group];
  return made == 0 || (made <= l->read_bytes[group] && made <= bytes_freed(l, group));
}

static bool is_due(Order *l, uint32_t group, uint32_t step) {
  return l->last_step[group] <= step || l->g->list[group].rank == RANK_EXCHANGE || saves(l, group);
}

// It reads and makes less than a page: to hold that costs nothing.
static bool is_small(const Order *l, uint32_t group) {
  enum { PAGES_OF_STEP = 4 };
  return l->made[group] + l->read_bytes[group] < l->g->f->prog->target.step_bytes / PAGES_OF_STEP;
}

static bool lets_free(Order *l, uint32_t group, uint32_t step, int64_t owed, uint32_t depth);

// Once `group` is done: one that waits for it alone frees more than what is owed and what it makes, or is as small and lets another
// one free it.
static bool next_frees(Order *l, uint32_t group, uint32_t step, int64_t owed, uint32_t depth) {
  for (GroupWalk w = ir_groups_behind(l->g, group); ir_next_group(&w);) {
    uint32_t d = w.at;
    if (l->done_in[d] || !is_ready(l, d, step + 1)) continue;
    if (owed + l->made[d] < l->read_bytes[d] && owed + l->made[d] < bytes_freed(l, d)) return true;
    if (depth > 0 && is_small(l, d) && lets_free(l, d, step + 1, owed, depth - 1)) return true;
  }
  return false;
}

static bool lets_free(Order *l, uint32_t group, uint32_t step, int64_t owed, uint32_t depth) {
  l->done_in[group] = 1 + step, note_reads(l, group, true);
  bool frees = next_frees(l, group, step, owed + l->made[group], depth);
  l->done_in[group] = 0, note_reads(l, group, false);
  return frees;
}

typedef bool Condition(Order *l, uint32_t group, uint32_t step);

// A small group, and one that can run behind it and frees what a kernel more must save.
static bool lets_next_free(Order *l, uint32_t group, uint32_t step) {
  enum { DEPTH = 2 };
  return is_small(l, group) && lets_free(l, group, step, l->g->f->prog->target.step_bytes, DEPTH);
}

// Of those that wait, in the order of the list, the ones that may run in this step and shall go to `out`; how many go on waiting.
static uint32_t run_those(Order *l, uint32_t *wait, uint32_t n, uint32_t step, Condition *shall, uint32_t *out,
                          uint32_t *n_out) {
  uint32_t n_left = 0, n_before = *n_out;
  for (uint32_t k = 0; k < n; k++)
    if (is_ready(l, wait[k], step) && shall(l, wait[k], step))
      l->done_in[wait[k]] = 1 + step, out[(*n_out)++] = wait[k];
    else wait[n_left++] = wait[k];
  for (uint32_t k = n_before; k < *n_out; k++) note_reads(l, out[k], true);
  return n_left;
}

static uint32_t run_step(Order *l, uint32_t *wait, uint32_t n, uint32_t step, uint32_t *out, uint32_t *n_out) {
  n = run_those(l, wait, n, step, is_due, out, n_out);
  return run_those(l, wait, n, step, lets_next_free, out, n_out);
}

// Groups by the first step that they may run in, each step's in the order of the list. first: by step, and one more.
static void sort_by_step(const Order *l, const uint32_t *list, uint32_t n, uint32_t end, uint32_t *first,
                         uint32_t *by) {
  for (uint32_t k = 0; k < n; k++) first[l->first_step[list[k]] + 1]++;
  for (uint32_t step = 0; step <= end; step++) first[step + 1] += first[step];
  for (uint32_t k = n; k-- > 0;) by[--first[l->first_step[list[k]] + 1]] = list[k];
  for (uint32_t step = 0; step <= end; step++) first[step] = first[step + 1];
  first[end + 1] = n;
}

// What begins to wait goes among what waits, in the order of the list.
static uint32_t begin_to_wait(const Order *l, uint32_t *wait, uint32_t n, const uint32_t *more, uint32_t n_more) {
  uint32_t a = n, b = n_more, at = n + n_more;
  while (b > 0) wait[--at] = a > 0 && l->at[wait[a - 1]] > l->at[more[b - 1]] ? wait[--a] : more[--b];
  return n + n_more;
}

static void order_by_steps(Order *l, const uint32_t *list, uint32_t n, uint32_t *out) {
  RtArena *mem = l->g->f->prog->mem;
  uint32_t end = find_steps(l, list, n), n_wait = 0, n_out = 0, *wait = rt_alloc(mem, (n + 1) * sizeof *wait);
  uint32_t *first = rt_alloc(mem, (end + 2) * sizeof *first), *by = rt_alloc(mem, (n + 1) * sizeof *by);
  memset(l->done_in, 0, l->g->n * sizeof *l->done_in);
  sort_by_step(l, list, n, end, first, by);
  for (uint32_t k = 0; k < n; k++) note_reads(l, list[k], false), l->at[list[k]] = k;
  for (uint32_t k = 0; k < n; k++) {
    l->made[list[k]] = bytes_made(l, list[k], ALL_MADE);
    for (uint32_t r = values_read(l, list[k]); r-- > 0;) l->read_bytes[list[k]] += ir_arena_bound(l->g, l->read[r]);
  }
  for (uint32_t step = 0; step <= end; step++) {
    n_wait = begin_to_wait(l, wait, n_wait, by + first[step], first[step + 1] - first[step]);
    n_wait = run_step(l, wait, n_wait, step, out, &n_out);
  }
}

static Order begin(const Groups *g) {
  RtArena *mem = g->f->prog->mem;
  uint32_t n = g->f->n_ins;
  Order l = {.g = g, .n_left = rt_alloc(mem, n * sizeof *l.n_left), .seen = rt_alloc(mem, n * sizeof *l.seen)};
  l.first_step = rt_alloc(mem, g->n * sizeof *l.first_step), l.last_step = rt_alloc(mem, g->n * sizeof *l.last_step);
  l.done_in = rt_alloc(mem, g->n * sizeof *l.done_in), l.read = rt_alloc(mem, (g->f->n_args + 1) * sizeof *l.read);
  l.at = rt_alloc(mem, g->n * sizeof *l.at);
  l.made = rt_alloc(mem, g->n * sizeof *l.made), l.read_bytes = rt_alloc(mem, g->n * sizeof *l.read_bytes);
  return l;
}

void ir_order_groups(const Groups *g, uint32_t *list, uint32_t n) {
  Order l = begin(g);
  uint32_t *steps = rt_alloc(g->f->prog->mem, (n + 1) * sizeof *steps);
  order_by_steps(&l, list, n, steps);
  if (is_better(cost_of(&l, steps, n), cost_of(&l, list, n))) memcpy(list, steps, n * sizeof *list);
}
