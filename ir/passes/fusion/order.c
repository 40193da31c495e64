// Part of pass fuse: the order of groups, and the function in that order.
//
// Groups in the order of their places are one; the other is by steps. Groups on the longest way decide how many times the team
// waits; each other group may go into any of the steps between the one where all that it waits for is done and the last one
// before it is waited for. It goes into the first in which it frees as much as it makes, or else into the last. Of the two the
// one is taken that holds less, or where it waits fewer times.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/fusion/groups.h"
#include "ir/remarks.h"
#include "ir/storage.h"
#include <string.h>

typedef struct {
  const Groups *g;
  uint32_t *first_step, *last_step;  // by group
  uint32_t *n_left;                  // by base value: groups that are still to read it
  uint32_t *seen;                    // by value: the last group that was looked at
  uint32_t *read;                    // of a group: base values
  uint32_t *done_in;                 // by group: 1 + the step that it is in; 0: it is to come
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

// In the arena: what overwrites a buffer has no other, and a result of the function is in the caller's.
static int64_t bytes_of(const Groups *g, uint32_t v) {
  const Fn *f = g->f;
  if (ir_ops[f->ins[ir_head(f, (Val){v}).i].op].flags & WRITES) return 0;
  for (uint32_t k = g->uses.first[v]; k < g->uses.first[v + 1]; k++)
    if (f->ins[g->uses.user[k]].op == OP_output) return 0;
  int64_t bytes = ir_type_bytes(f->prog, (DType)f->ins[v].dtype, f->ins[v].shape);
  return (bytes + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;
}

typedef enum { ALL_MADE, MADE_IN_PLACE } Made;

// in_place: what may take over an operand's bytes.
static int64_t bytes_made(const Order *l, uint32_t group, Made which) {
  const Fn *f = l->g->f;
  int64_t sum = 0;
  for (uint32_t i = l->g->list[group].first; i && i < f->n_ins; i = l->g->next[i]) {
    if (which == MADE_IN_PLACE && !ir_class_has((Op)f->ins[i].op, IN_PLACE)) continue;
    for (uint32_t r = 0; r < f->ins[i].n_res; r++)
      if (l->n_left[i + r]) sum += bytes_of(l->g, i + r);
  }
  return sum;
}

// Of what it is the last to read.
static int64_t bytes_freed(Order *l, uint32_t group) {
  int64_t sum = 0;
  for (uint32_t k = values_read(l, group); k-- > 0;)
    if (l->n_left[l->read[k]] == 1) sum += bytes_of(l->g, l->read[k]);
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
  const Groups *g = l->g;
  for (uint32_t i = g->list[group].first; i; i = g->next[i])
    for (uint32_t k = g->first_dep[i]; k < g->first_dep[i + 1]; k++) {
      uint32_t d = g->of[g->dep[k]];
      if (d && d != group && is_kernel(g, d) && l->done_in[d] == wait) return true;
    }
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
  const Groups *g = l->g;
  uint32_t step = 0;
  for (uint32_t i = g->list[group].first; i; i = g->next[i])
    for (uint32_t k = g->first_dep[i]; k < g->first_dep[i + 1]; k++) {
      uint32_t d = g->of[g->dep[k]];
      if (d && d != group && l->first_step[d] + is_kernel(g, d) > step) step = l->first_step[d] + is_kernel(g, d);
    }
  return step;
}

static uint32_t step_before(const Order *l, uint32_t group, uint32_t end) {
  const Groups *g = l->g;
  uint32_t step = end;
  for (uint32_t i = g->list[group].first; i; i = g->next[i])
    for (uint32_t k = g->first_succ[i]; k < g->first_succ[i + 1]; k++) {
      uint32_t d = g->of[g->succ[k]];
      if (d && d != group && l->last_step[d] - is_kernel(g, group) < step) step = l->last_step[d] - is_kernel(g, group);
    }
  return step;
}

static bool is_ready(const Order *l, uint32_t group, uint32_t step) {
  const Groups *g = l->g;
  for (uint32_t i = g->list[group].first; i; i = g->next[i])
    for (uint32_t k = g->first_dep[i]; k < g->first_dep[i + 1]; k++) {
      uint32_t d = g->of[g->dep[k]];
      if (d && d != group && (!l->done_in[d] || l->done_in[d] + is_kernel(g, d) > 1 + step)) return false;
    }
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

// Of those that wait, in the order of the list, the ones that run in this step go to `out`; how many go on waiting.
static uint32_t run_step(Order *l, uint32_t *wait, uint32_t n, uint32_t step, uint32_t *out, uint32_t *n_out) {
  uint32_t n_left = 0, n_before = *n_out;
  for (uint32_t k = 0; k < n; k++) {
    bool due = l->last_step[wait[k]] <= step || l->g->list[wait[k]].rank == RANK_EXCHANGE;
    if (l->first_step[wait[k]] > step) {
      wait[n_left++] = wait[k];
      continue;
    }
    bool saves = due || bytes_made(l, wait[k], ALL_MADE) <= bytes_freed(l, wait[k]);
    if (saves && is_ready(l, wait[k], step)) l->done_in[wait[k]] = 1 + step, out[(*n_out)++] = wait[k];
    else wait[n_left++] = wait[k];
  }
  for (uint32_t k = n_before; k < *n_out; k++) note_reads(l, out[k], true);
  return n_left;
}

static void order_by_steps(Order *l, const uint32_t *list, uint32_t n, uint32_t *out) {
  RtArena *mem = l->g->f->prog->mem;
  uint32_t end = find_steps(l, list, n), n_wait = n, n_out = 0, *wait = rt_alloc(mem, (n + 1) * sizeof *wait);
  memset(l->done_in, 0, l->g->n * sizeof *l->done_in);
  memcpy(wait, list, n * sizeof *wait);
  for (uint32_t k = 0; k < n; k++) note_reads(l, list[k], false);
  for (uint32_t step = 0; step <= end; step++) n_wait = run_step(l, wait, n_wait, step, out, &n_out);
}

static Order begin(const Groups *g) {
  RtArena *mem = g->f->prog->mem;
  uint32_t n = g->f->n_ins;
  Order l = {.g = g, .n_left = rt_alloc(mem, n * sizeof *l.n_left), .seen = rt_alloc(mem, n * sizeof *l.seen)};
  l.first_step = rt_alloc(mem, g->n * sizeof *l.first_step), l.last_step = rt_alloc(mem, g->n * sizeof *l.last_step);
  l.done_in = rt_alloc(mem, g->n * sizeof *l.done_in), l.read = rt_alloc(mem, (g->f->n_args + 1) * sizeof *l.read);
  return l;
}

void ir_order_groups(const Groups *g, uint32_t *list, uint32_t n) {
  Order l = begin(g);
  uint32_t *steps = rt_alloc(g->f->prog->mem, (n + 1) * sizeof *steps);
  order_by_steps(&l, list, n, steps);
  if (is_better(cost_of(&l, steps, n), cost_of(&l, list, n))) memcpy(list, steps, n * sizeof *list);
}

// ---- the function in that order
typedef struct {
  Rewrite e;
  const Groups *g;
  uint32_t *filled_in;  // by value that is made where it is read: the last group that makes it
} Emit;

static void copy(Emit *o, uint32_t i, uint32_t group) {
  if (!ir_none(o->e.map[i])) return;
  for (uint32_t k = 0; k < o->e.old[i].n_args; k++) {
    uint32_t a = ir_rewrite_old_arg(&o->e, (Val){i}, k).i;
    if (!o->g->is_copied[a] || o->filled_in[a] == group) continue;
    ir_rewrite_copy(&o->e, (Val){a});
    o->filled_in[a] = group;
  }
  ir_rewrite_copy(&o->e, (Val){i});
}

static bool is_there(const Emit *o, uint32_t i) {
  for (uint32_t k = 0; k < o->e.old[i].n_args; k++)
    if (ir_none(o->e.map[ir_rewrite_old_arg(&o->e, (Val){i}, k).i])) return false;
  return true;
}

// What makes no code follows what it is of, and all that is like it.
static void copy_views(Emit *o, uint32_t i) {
  const Groups *g = o->g;
  for (uint32_t r = 0; r < o->e.old[i].n_res; r++)
    for (uint32_t k = g->uses.first[i + r]; k < g->uses.first[i + r + 1]; k++) {
      uint32_t u = g->uses.user[k];
      if (g->of[u] || !ir_none(o->e.map[u]) || !is_there(o, u)) continue;
      ir_rewrite_copy(&o->e, (Val){u});
      copy_views(o, u);
    }
}

static bool is_last(const Emit *o, uint32_t i) {
  Op op = (Op)o->e.old[i].op;
  return op == OP_moments || ir_ops[op].cls == CLASS_OPTIMIZER;
}

// A prologue, its product, the epilogue, then what is done with all rows of it.
static void copy_members(Emit *o, uint32_t group) {
  const Groups *g = o->g;
  const Group *k = &g->list[group];
  bool product = ir_classes[k->cls].flags & HAS_PROLOGUE;
  for (uint32_t i = k->first; i && product; i = g->next[i])
    if (g->fused_into[i] || i == k->lead) copy(o, i, group);
  if (k->cls == CLASS_PACK_PADDED) copy(o, k->lead, group);
  for (uint32_t i = k->first; i; i = g->next[i])
    if (!product || !is_last(o, i)) copy(o, i, group);
  for (uint32_t i = k->first; i && product; i = g->next[i]) copy(o, i, group);
}

// What keeps each kernel apart from the one before it: sentences by kernel. NULL: nobody asks.
static const char **find_remarks(const Groups *g, const uint32_t *list, uint32_t n) {
  static const char nothing_shared[] = "it reads nothing that the kernel reads or makes: no traffic is saved";
  if (!ir_remarks_are_kept(g->f)) return NULL;
  const char **why = rt_alloc(g->f->prog->mem, (n + 1) * sizeof *why);
  for (uint32_t k = 0, last = 0; k < n; k++) {
    if (!is_kernel(g, list[k])) continue;
    if (last) why[k] = ir_may_join(g, last, (Val){g->list[list[k]].lead});
    if (last && !why[k]) why[k] = nothing_shared;
    last = list[k];
  }
  return why;
}

void ir_emit_groups(Groups *g, const uint32_t *list, uint32_t n) {
  Fn *f = g->f;
  RtArena *mem = f->prog->mem;
  Emit o = {.g = g, .filled_in = rt_alloc(mem, f->n_ins * sizeof *o.filled_in)};
  uint32_t n_old = f->n_ins, n_kernels = 0;
  bool *code = rt_alloc(mem, n_old);
  for (uint32_t i = 1; i < n_old; i++) code[i] = f->ins[i].op != OP_result && ir_makes_code(f, i);
  Kernel *kernels = rt_alloc(mem, (n + 1) * sizeof *kernels);
  const char **why = find_remarks(g, list, n);
  f->n_remarks = 0;
  ir_rewrite_begin(&o.e, f);
  for (uint32_t i = 1; i < n_old; i++)
    if (o.e.old[i].op != OP_result && !code[i] && is_there(&o, i)) ir_rewrite_copy(&o.e, (Val){i});
  for (uint32_t k = 0; k < n; k++) {
    const Group *group = &g->list[list[k]];
    if (group->first >= n_old) continue;
    uint32_t first = f->n_ins;
    copy_members(&o, list[k]);
    if (why && why[k]) ir_remark(f, REMARK_FUSE, o.e.map[group->lead], (Val){kernels[n_kernels - 1].first}, why[k]);
    kernels[n_kernels++] = (Kernel){.first = first, .n = f->n_ins - first, .cls = group->cls, .wanted = group->wanted};
    for (uint32_t i = group->first; i; i = g->next[i]) copy_views(&o, i);
  }
  ir_rewrite_end(&o.e);
  f->kernel_of = rt_alloc(mem, f->n_ins * sizeof *f->kernel_of);
  memset(f->kernel_of, 0xff, f->n_ins * sizeof *f->kernel_of);
  f->kernels = kernels, f->n_kernels = n_kernels;
  for (uint32_t k = 0; k < n_kernels; k++) {
    kernels[k].wanted = o.e.map[kernels[k].wanted.i];
    for (uint32_t i = kernels[k].first; i < kernels[k].first + kernels[k].n; i++) f->kernel_of[i] = k;
  }
}
