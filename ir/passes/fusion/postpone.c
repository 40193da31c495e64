// Part of pass schedule: products of what lasts anyway (inputs, parameters) run right before they are wanted, not first
// of all, and slices that they read follow.
//
//   %p1 = linear %x1, %w                  level 1
//   %p2 = linear %x2, %w                  level 1   ->   level 2: beside %h1, in the bytes that %p1 leaves
//   %h1 = tanh (linear %h0, %u) + %p1     level 2
//   %h2 = tanh (linear %h1, %u) + %p2     level 3
//
// So n steps of a loop that the user unrolled need no more memory than few. It costs nothing: there are no more kernels
// or levels, and no operand is kept for longer.
#include "ir/fn.h"
#include "ir/passes/fusion/schedule.h"
#include "ir/storage.h"

enum { MAX_READERS = 64 };  // a slice with more stays where it is

typedef struct {
  const Schedule *l;
  const Fn *f;
  bool *written;    // by storage root
  bool *is_free;    // by value: keeping it takes no memory
  bool *is_slice;   // by value: a strided copy of what is free
  bool *is_pinned;  // by product: its kernel reads what is not free
  bool *follows;    // by slice: a product that reads it was postponed
  uint32_t *limit;  // by value, by product for its kernel: the last level before its readers'; UINT32_MAX: none so far
  uint32_t *to;     // by value: the level that it is postponed to; 0: none
} Postpone;

// What stands for the kernel of instruction i: its product, or i.
static uint32_t group_of(const Postpone *s, uint32_t i) { return s->l->anchor[i] ? s->l->anchor[i] : i; }

static uint32_t level_at(const Postpone *s, uint32_t i) {
  uint32_t g = group_of(s, i);
  return s->to[g] ? s->to[g] : s->l->level[g];
}

// ---- what may be postponed
static bool all_free(const Postpone *s, uint32_t i) {
  for (uint32_t k = 0; k < s->f->ins[i].n_args; k++)
    if (!s->is_free[ir_arg(s->f, (Val){i}, k).i]) return false;
  return true;
}

static void classify(Postpone *s, uint32_t i) {
  const Fn *f = s->f;
  Val v = {i};
  const Ins *ins = ir_ins(f, v);
  OpClass cls = (OpClass)ir_ops[ins->op].cls;
  bool generator = cls == CLASS_POINTWISE && ins->n_args == 0;
  if (ir_is_stored_leaf(f, v)) s->is_free[i] = !s->written[i];
  else s->is_free[i] = ir_is_immediate(f, v) || generator || (cls == CLASS_VIEW && all_free(s, i));
  s->is_slice[i] = cls == CLASS_INDEX && ins->n_res == 1 && !s->l->anchor[i] && all_free(s, i);
}

// A product's kernel stays where it is, unless all that goes into it is free, or a slice that may follow it.
static void pin(Postpone *s, uint32_t i) {
  uint32_t g = s->l->anchor[i];
  for (uint32_t k = 0; g && k < s->f->ins[i].n_args; k++) {
    Val a = ir_arg(s->f, (Val){i}, k), base = ir_view_base(s->f, a);
    bool moves = s->is_free[a.i] || s->l->anchor[base.i] == g || (i == g && s->is_slice[base.i]);
    if (!moves) s->is_pinned[g] = true;
  }
}

// ---- from the last instruction to the first
static void limit_to(Postpone *s, uint32_t g, uint32_t level) {
  if (level < s->limit[g]) s->limit[g] = level;
}

// Kernel g, where it is postponed to this level, keeps slice b for longer than its other readers do.
static bool keeps_slice(const Postpone *s, uint32_t b, uint32_t g, uint32_t level) {
  if (s->l->first[b + 1] - s->l->first[b] > MAX_READERS) return true;
  for (uint32_t k = s->l->first[b]; k < s->l->first[b + 1]; k++) {
    uint32_t r = s->l->readers[k];
    if (!ir_makes_kernel(s->f, (Val){r}) ? keeps_slice(s, r, g, level) : group_of(s, r) != g && level_at(s, r) < level)
      return true;
  }
  return false;
}

static bool can_postpone(const Postpone *s, uint32_t p) {
  if (s->l->anchor[p] != p || s->is_pinned[p] || s->l->has_update[p] || s->f->ins[p].n_res != 1) return false;
  if (s->limit[p] == UINT32_MAX || s->limit[p] <= s->l->level[p]) return false;
  for (uint32_t k = 0; k < s->f->ins[p].n_args; k++) {
    Val base = ir_view_base(s->f, ir_arg(s->f, (Val){p}, k));
    if (s->is_slice[base.i] && keeps_slice(s, base.i, p, s->limit[p])) return false;
  }
  return true;
}

// The slices that instruction i reads are wanted right before it.
static void lead_slices(Postpone *s, uint32_t i) {
  for (uint32_t k = 0; k < s->f->ins[i].n_args; k++) {
    uint32_t base = ir_view_base(s->f, ir_arg(s->f, (Val){i}, k)).i;
    s->follows[base] |= s->is_slice[base];
  }
}

static void postpone(Postpone *s, uint32_t i) {
  if (ir_is_source(s->l, (Val){i})) lead_slices(s, i);
  bool slice = s->follows[i] && s->limit[i] != UINT32_MAX && s->limit[i] > s->l->level[i];
  if (!slice && !can_postpone(s, i)) return;
  s->to[i] = s->limit[i];
  lead_slices(s, i);
}

static void limit_operands(Postpone *s, uint32_t i) {
  uint32_t g = group_of(s, i);
  for (uint32_t k = 0; k < s->f->ins[i].n_args; k++) {
    Val a = ir_arg(s->f, (Val){i}, k);
    uint32_t of = group_of(s, a.i);
    if (!ir_makes_kernel(s->f, (Val){i})) limit_to(s, of, s->limit[i]);
    else if (of != g) limit_to(s, of, level_at(s, i) - 1);
  }
}

static Postpone begin(const Schedule *l) {
  RtArena *mem = l->f->prog->mem;
  uint32_t n = l->f->n_ins;
  Postpone s = {.l = l, .f = l->f, .written = rt_alloc(mem, n), .is_free = rt_alloc(mem, n)};
  s.is_slice = rt_alloc(mem, n), s.is_pinned = rt_alloc(mem, n), s.follows = rt_alloc(mem, n);
  s.limit = rt_alloc(mem, n * sizeof *s.limit), s.to = rt_alloc(mem, n * sizeof *s.to);
  for (uint32_t i = 0; i < n; i++) s.limit[i] = UINT32_MAX;
  for (uint32_t i = 1; i < n; i++) {
    const OpInfo *op = &ir_ops[l->f->ins[i].op];
    for (uint32_t k = 0; (op->flags & WRITES) && k < op->n_res; k++)
      s.written[ir_storage_root(l->f, ir_arg(l->f, (Val){i}, k)).i] = true;
  }
  for (uint32_t i = 1; i < n; i++) classify(&s, i);
  for (uint32_t i = 1; i < n; i++)
    if (l->f->ins[i].op != OP_result) pin(&s, i);
  return s;
}

void ir_postpone(Schedule *l) {
  Postpone s = begin(l);
  bool any = false;
  for (uint32_t i = l->f->n_ins - 1; i > 0; i--) {
    if (l->f->ins[i].op == OP_result) continue;
    postpone(&s, i);
    limit_operands(&s, i);
    any |= s.to[i] != 0;
  }
  for (uint32_t i = 1; i < l->f->n_ins; i++)
    if (s.to[i]) l->min_level[i] = s.to[i];
  if (any) ir_find_levels(l);
}
