// Groups of instructions, and what waits for what.
//
// An instruction waits for what makes its operands, through views; for the layouts that set its sizes; and, where it
// overwrites a buffer, for every other reader of the old contents. Failure atomicity: what a run may still refuse (computed
// indices) comes before every change of a parameter that it does not depend on, so that a failing run changes none. Two ends
// stand between: of what changes no parameter itself, then of what does.
#include "ir/passes/fusion/groups.h"
#include "ir/fn.h"
#include "ir/packed_dims.h"
#include "ir/passes/plan.h"
#include "ir/storage.h"
#include <string.h>

bool ir_makes_code(const Fn *f, uint32_t i) {
  return ir_class_has(f->ins[i].op, MAKES_KERNEL) && !ir_layout_is_const(f, (Val){i});
}

// ---- what waits for what
typedef struct {
  Groups *g;
  const Val *makers;
  uint32_t n, cap;
  uint32_t *writer;                         // by base value: who has overwritten it; 0: nobody
  uint32_t *last_reader, *reader, *before;  // by base value: a list of instructions that read it
  uint32_t n_readers, cap_reader, cap_before;
  bool *changed;  // by value: it depends on a change of a parameter
} Waits;

static void add(Waits *w, uint32_t i, uint32_t on) {
  if (on != i) *RT_PUSH(w->g->f->prog->mem, w->g->dep, w->n, w->cap) = on;
}

// The layouts that set the sizes which v names
static void add_makers(Waits *w, uint32_t i, Val v) {
  Val from[IR_MAX_MAKERS];
  for (uint32_t k = ir_sizes_from(w->g->f, w->makers, v, from); k-- > 0;)
    if (ir_makes_code(w->g->f, from[k].i)) add(w, i, from[k].i);
}

static void add_operand(Waits *w, uint32_t i, Val a) {
  Fn *f = w->g->f;
  for (; ir_ops[f->ins[a.i].op].cls == CLASS_VIEW; a = ir_arg(f, a, 0)) {
    for (uint32_t k = 1; k < f->ins[a.i].n_args; k++) add_operand(w, i, ir_arg(f, a, k));
    add_makers(w, i, a);  // of no elements it may have rows that what it shows has not
  }
  Val head = ir_head(f, a);
  if (ir_makes_code(f, head.i)) add(w, i, head.i);
  else add_makers(w, i, head);  // the number of rows, as an operand
  if (w->writer[a.i]) add(w, i, w->writer[a.i]);
  *RT_PUSH(f->prog->mem, w->reader, w->n_readers, w->cap_reader) = i;
  uint32_t n = w->n_readers - 1;
  *RT_PUSH(f->prog->mem, w->before, n, w->cap_before) = w->last_reader[a.i];
  w->last_reader[a.i] = w->n_readers;
}

static void add_overwritten(Waits *w, uint32_t i) {
  Fn *f = w->g->f;
  for (uint32_t k = 0; (ir_ops[f->ins[i].op].flags & WRITES) && k < ir_ops[f->ins[i].op].n_res; k++) {
    Val old = ir_view_base(f, ir_arg(f, (Val){i}, k));
    for (uint32_t r = w->last_reader[old.i]; r; r = w->before[r - 1]) add(w, i, w->reader[r - 1]);
    w->writer[old.i] = i;
  }
}

static void add_waits(Waits *w, uint32_t i) {
  Fn *f = w->g->f;
  for (uint32_t k = 0; k < f->ins[i].n_args; k++) add_operand(w, i, ir_arg(f, (Val){i}, k));
  add_makers(w, i, (Val){i});
  add_overwritten(w, i);
}

static void find_changed(Waits *w) {
  const Fn *f = w->g->f;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) w->changed[i] |= w->changed[ir_arg(f, (Val){i}, k).i];
    w->changed[i] |= f->ins[i].op != OP_result && ir_writes_param(f, (Val){i});
  }
}

static bool depends_on_change(const Waits *w, uint32_t i) {
  const Fn *f = w->g->f;
  for (uint32_t k = 0; k < f->ins[i].n_args; k++)
    if (w->changed[ir_arg(f, (Val){i}, k).i]) return true;
  return false;
}

// The end of what may be refused. Of what changes no parameter itself, or of what does.
static bool add_end(Waits *w, uint32_t end, bool writes) {
  Fn *f = w->g->f;
  uint32_t n = w->n;
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->ins[i].op != OP_result && ir_makes_code(f, i) && ir_writes_param(f, (Val){i}) == writes &&
        ir_may_fault(f, (Val){i}) && !depends_on_change(w, i))
      add(w, end, i);
  if (w->n > n && writes) add(w, end, end - 1);
  return w->n > n;
}

static void reverse(Groups *g, uint32_t n_dep) {
  RtArena *mem = g->f->prog->mem;
  g->first_succ = rt_alloc(mem, (g->n_all + 2) * sizeof *g->first_succ);
  g->succ = rt_alloc(mem, (n_dep + 1) * sizeof *g->succ);
  for (uint32_t k = 0; k < n_dep; k++) g->first_succ[g->dep[k] + 2]++;
  for (uint32_t i = 2; i < g->n_all + 2; i++) g->first_succ[i] += g->first_succ[i - 1];
  for (uint32_t i = 1; i < g->n_all; i++)
    for (uint32_t k = g->first_dep[i]; k < g->first_dep[i + 1]; k++) g->succ[g->first_succ[g->dep[k] + 1]++] = i;
}

static void find_waits(Groups *g) {
  Fn *f = g->f;
  RtArena *mem = f->prog->mem;
  Waits w = {.g = g, .makers = ir_rows_makers(f), .last_reader = rt_alloc(mem, f->n_ins * sizeof *w.last_reader)};
  w.changed = rt_alloc(mem, f->n_ins), w.writer = rt_alloc(mem, f->n_ins * sizeof *w.writer);
  g->first_dep = rt_alloc(mem, (g->n_all + 1) * sizeof *g->first_dep);
  find_changed(&w);
  bool has_end[2] = {false};
  for (uint32_t i = 1; i < f->n_ins && !(has_end[0] && has_end[1]); i++)
    if (f->ins[i].op != OP_result && ir_makes_code(f, i) && ir_may_fault(f, (Val){i}) && !depends_on_change(&w, i))
      has_end[ir_writes_param(f, (Val){i})] = true;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    g->first_dep[i] = w.n;
    if (f->ins[i].op == OP_result || !ir_makes_code(f, i)) continue;
    add_waits(&w, i);
    if (!ir_writes_param(f, (Val){i})) continue;
    if (has_end[0]) add(&w, i, f->n_ins);
    if (has_end[1] && !ir_may_fault(f, (Val){i})) add(&w, i, f->n_ins + 1);
  }
  for (uint32_t e = 0; e < 2; e++) {
    g->first_dep[f->n_ins + e] = w.n;
    if (has_end[e]) add_end(&w, f->n_ins + e, e);
  }
  g->first_dep[g->n_all] = w.n;
  reverse(g, w.n);
}

Groups ir_groups(Fn *f) {
  RtArena *mem = f->prog->mem;
  Groups g = {.f = f, .uses = ir_use_lists(f), .fused_into = ir_find_fused_producers(f), .n_all = f->n_ins + 2};
  g.wanted = ir_find_wanted(f);
  g.of = rt_alloc(mem, g.n_all * sizeof *g.of), g.next = rt_alloc(mem, g.n_all * sizeof *g.next);
  g.is_copied = rt_alloc(mem, g.n_all);
  *RT_PUSH(mem, g.list, g.n, g.cap) = (Group){0};
  find_waits(&g);
  return g;
}

// ---- members
static uint32_t n_results(const Groups *g, uint32_t i) { return i < g->f->n_ins ? g->f->ins[i].n_res : 1; }

static void set_group(Groups *g, uint32_t i, uint32_t group) {
  for (uint32_t r = 0; r < n_results(g, i) || r == 0; r++) g->of[i + r] = group;
}

uint32_t ir_new_group(Groups *g, Val v, uint32_t depth, Rank rank) {
  bool is_end = v.i >= g->f->n_ins;
  Group k = {.first = v.i, .n = n_results(g, v.i), .lead = v.i, .depth = depth, .rank = (uint8_t)rank};
  if (!is_end) k.cls = (uint8_t)ir_kernel_class(g->f, v.i);
  if (!is_end && g->wanted) k.wanted = g->wanted[v.i];
  *RT_PUSH(g->f->prog->mem, g->list, g->n, g->cap) = k;
  set_group(g, v.i, g->n - 1);
  g->next[v.i] = 0;
  return g->n - 1;
}

bool ir_group_is_before(const Groups *g, uint32_t a, uint32_t b) {
  const Group *x = &g->list[a], *y = &g->list[b];
  if (x->depth != y->depth) return x->depth < y->depth;
  if (x->rank != y->rank) return x->rank < y->rank;
  return x->rank != RANK_PLAIN && x->lead < y->lead;
}

static void insert(Groups *g, uint32_t to, uint32_t i) {
  uint32_t *at = &g->list[to].first;
  while (*at && *at < i) at = &g->next[*at];
  g->next[i] = *at, *at = i;
  g->list[to].n += n_results(g, i);
  set_group(g, i, to);
}

// Pointwise members of one shape, and concats of a concat, are a pointwise kernel; a row op makes it a row kernel.
static void set_class(Groups *g, uint32_t to) {
  Group *k = &g->list[to];
  if (!(ir_classes[k->cls].flags & BECOMES_ROWS) || !k->first) return;
  if (g->fused_into[k->first] == k->lead) return;  // a prologue
  bool by_rows = g->next[k->first] != 0, is_point = true;
  Shape shape = ir_shape_of_elements(g, k);
  for (uint32_t i = k->first; i; i = g->next[i])
    is_point &= ir_kernel_class(g->f, i) == CLASS_POINTWISE &&
                (g->f->ins[i].shape.i == shape.i || ir_is_interleaved(g->f, (Val){i}));
  is_point |= ir_is_nest(g, k);
  k->cls = (uint8_t)(is_point ? CLASS_POINTWISE : by_rows ? CLASS_ROW : ir_kernel_class(g->f, k->first));
  k->lead = k->first;
}

void ir_join(Groups *g, uint32_t to, Val v) {
  insert(g, to, v.i);
  set_class(g, to);
}

void ir_leave(Groups *g, Val v) {
  Group *k = &g->list[g->of[v.i]];
  uint32_t *at = &k->first, of = g->of[v.i];
  while (*at != v.i) at = &g->next[*at];
  *at = g->next[v.i], g->next[v.i] = 0;
  k->n -= n_results(g, v.i);
  set_group(g, v.i, 0);
  set_class(g, of);
}

bool ir_merge(Groups *g, uint32_t to, uint32_t from) {
  uint32_t moved[MAX_VALUES], n = 0;
  while (g->list[from].first) {
    Val v = {g->list[from].first};
    if (n == MAX_VALUES || ir_may_join(g, to, v)) break;
    ir_leave(g, v);
    ir_join(g, to, v);
    moved[n++] = v.i;
  }
  if (!g->list[from].first) return true;
  while (n) {
    ir_leave(g, (Val){moved[--n]});
    ir_join(g, from, (Val){moved[n]});
  }
  return false;
}

// ---- places
// The group, and what waits for it, go to this depth and behind; not so far that not_to does.
bool ir_raise(Groups *g, uint32_t group, uint32_t depth, uint32_t not_to) {
  RtArena *mem = g->f->prog->mem;
  uint32_t n = 0;
  *RT_PUSH(mem, g->raised, n, g->cap_raised) = (Raised){group, g->list[group].depth};
  g->list[group].depth = depth;
  bool good = group != not_to;
  for (uint32_t at = 0; at < n && good; at++)
    for (GroupWalk w = ir_groups_behind(g, g->raised[at].group); good && ir_next_group(&w);) {
      if (ir_group_is_before(g, w.but, w.at)) continue;
      good = w.at != not_to;
      *RT_PUSH(mem, g->raised, n, g->cap_raised) = (Raised){w.at, g->list[w.at].depth};
      g->list[w.at].depth = g->list[w.but].depth + 1;
    }
  while (!good && n) n--, g->list[g->raised[n].group].depth = g->raised[n].depth;
  return good;
}
