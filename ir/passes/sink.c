// Part of pass schedule: what is better made later than its operands allow.
//
//   %u = sub %x, %mean          level 1, stored until the backward reads it    ->   level 9, in the kernel of %g
//   %y = matmul %x, %w          levels 1 ..                                         which reads %x anyway
//   %g = mul %d, %u             level 9
//
// A value moves up to its readers, into the kernel of the first of them, when that keeps fewer bytes alive than the
// value itself, or as many without another store. What works on rows also moves to a reader that reads the same
// elements, so that they are read once: the loss goes to the level of its gradient where that waits for something else,
// such as a count of labels. Decisions follow from bounds alone, so that plans for smaller bounds have the same
// kernels.
#include "ir/passes/schedule.h"

enum { MAX_ROUNDS = 4, MAX_CHAIN = 6, LARGE = 8 };

typedef struct {
  Levels *l;
  Fn *f;
  uint32_t *to;           // by value: the level to which it moves in this round; 0: it stays
  uint32_t *paired_with;  // by value: the reader that it moved to for the sake of what both read; 0: none
  bool *rejected;         // by value: that did not work out
  uint32_t n_moves;
} Sink;

static uint32_t level_at(const Sink *d, uint32_t i) { return d->to[i] ? d->to[i] : d->l->level[i]; }
static double bytes_of(const Fn *f, Val v) { return 4.0 * (double)ir_shape_bound(f->prog, ir_ins(f, v)->shape); }

// No memory, or the caller's, or made wherever it is read.
static bool is_free(const Fn *f, Val base) {
  const Ins *ins = ir_ins(f, base);
  bool generator = ins->n_args == 0 && ir_ops[ins->op].cls == CLASS_POINT;
  return ir_is_immediate(f, base) || generator || ir_is_stored_leaf(f, base);
}

static bool can_move(const Sink *d, uint32_t i) {
  const Ins *ins = &d->f->ins[i];
  const OpInfo *op = &ir_ops[ins->op];
  RowSpace rows;
  if (ins->op == OP_result || ins->n_args == 0 || d->l->anchor[i] || (op->flags & (EFFECT | WRITES))) return false;
  return ir_class_has(ins->op, BY_ELEMENT) || ir_row_space(d->f, (Val){i}, &rows);
}

// Instruction r may yet become a part of a product's epilogue.
static bool follows_product(const Sink *d, uint32_t r) {
  if (ir_ops[d->f->ins[r].op].cls != CLASS_POINT || ir_is_for_rows(d->l, (Val){r})) return false;
  for (uint32_t k = 0; k < d->f->ins[r].n_args; k++) {
    Val a = ir_arg(d->f, (Val){r}, k);
    if (d->l->anchor[a.i] && d->f->ins[a.i].shape.i == d->f->ins[r].shape.i && d->l->level[r] == d->l->level[a.i] + 1)
      return true;
  }
  return false;
}

// Instruction r runs in the kernel of a, which it reads, if both have one level.
static bool takes_in(const Sink *d, uint32_t r, Val a) {
  bool any = false;
  if (follows_product(d, r)) return false;
  for (uint32_t k = 0; k < d->f->ins[r].n_args; k++) {
    if (ir_arg(d->f, (Val){r}, k).i != a.i) continue;
    if (d->l->anchor[r] || !ir_fuses_with(d->l, (Val){r}, k)) return false;
    any = true;
  }
  return any;
}

// The highest level at which every reader of value a finds it made; *taken: at which some of them run in its kernel.
static uint32_t wanted_at(const Sink *d, Val a, uint32_t *taken) {
  uint32_t least = UINT32_MAX;
  for (uint32_t k = d->l->first[a.i]; k < d->l->first[a.i + 1]; k++) {
    uint32_t r = d->l->readers[k], at, none = 0;
    if (!ir_makes_kernel(d->f, (Val){r})) at = wanted_at(d, (Val){r}, &none);  // through a view
    else if (takes_in(d, r, a)) at = level_at(d, r), *taken = at > *taken ? at : *taken;
    else at = level_at(d, r) - 1;
    if (at < least) least = at;
  }
  return least;
}

// Does anyone but instruction i read value a at this level or later?
static bool is_read_from(const Sink *d, Val a, uint32_t level, uint32_t i) {
  for (uint32_t k = d->l->first[a.i]; k < d->l->first[a.i + 1]; k++) {
    uint32_t r = d->l->readers[k];
    if (r == i) continue;
    bool view = !ir_makes_kernel(d->f, (Val){r});
    if (view ? is_read_from(d, (Val){r}, level, i) : level_at(d, r) >= level) return true;
  }
  return false;
}

// Is instruction b read by i and at this level or later only?
static bool goes_along(const Sink *d, Val b, uint32_t level, uint32_t i) {
  if (ir_ins(d->f, b)->n_res != 1 || !can_move(d, b.i)) return false;
  for (uint32_t k = d->l->first[b.i]; k < d->l->first[b.i + 1]; k++) {
    uint32_t r = d->l->readers[k];
    if (r != i && (!ir_makes_kernel(d->f, (Val){r}) || level_at(d, r) < level)) return false;
  }
  return true;
}

// Bytes that stay alive up to this level only because instruction i moves there.
static double kept_for(const Sink *d, uint32_t i, uint32_t level, uint32_t depth) {
  double sum = 0;
  for (uint32_t k = 0; k < d->f->ins[i].n_args; k++) {
    Val a = ir_arg(d->f, (Val){i}, k), base = ir_view_base(d->f, a);
    if (is_free(d->f, base) || is_read_from(d, base, level, i)) continue;
    bool along = base.i == a.i && depth < MAX_CHAIN && goes_along(d, base, level, i);
    sum += along ? kept_for(d, base.i, level, depth + 1) : bytes_of(d->f, base);
  }
  return sum;
}

// Instruction i reads elements from memory where it stands.
static bool reads_memory(const Sink *d, uint32_t i) {
  for (uint32_t k = 0; k < d->f->ins[i].n_args; k++) {
    Val a = ir_arg(d->f, (Val){i}, k);
    if (bytes_of(d->f, a) < bytes_of(d->f, (Val){i}) || is_free(d->f, ir_view_base(d->f, a))) continue;
    if (d->l->level[a.i] == d->l->level[i] || (!d->l->anchor[a.i] && ir_fuses_with(d->l, (Val){i}, k))) return false;
  }
  return true;
}

static void move_to_readers(Sink *d, uint32_t i) {
  uint32_t to = UINT32_MAX, taken = 0;
  double gain = 0;
  for (uint32_t k = 0; k < d->f->ins[i].n_res; k++) {
    Val a = {i + k};
    if (d->l->first[a.i] == d->l->first[a.i + 1]) continue;
    uint32_t at = wanted_at(d, a, &taken);
    if (at < to) to = at;
    gain += bytes_of(d->f, a);
  }
  if (to == UINT32_MAX || to <= d->l->level[i] || taken < to) return;
  double kept = kept_for(d, i, to, 0);
  if (kept > gain || (kept == gain && !reads_memory(d, i))) return;
  d->to[i] = to;
  d->n_moves++;
}

// ---- rows that two instructions read
static bool reads_elements(const Fn *f, uint32_t r, Val a) {
  RowSpace rows;
  if (!ir_row_space(f, (Val){r}, &rows) || ir_ins(f, a)->shape.i != rows.shape.i) return false;
  for (uint32_t k = 0; k < f->ins[r].n_args; k++)
    if (ir_arg(f, (Val){r}, k).i == a.i && ir_row_element(f, (Val){r}, k)) return true;
  return false;
}

// Whoever reads a value of instruction i at another level than r finds only small values of it.
static bool is_read_small(const Sink *d, uint32_t i, uint32_t r) {
  Shape rows = ir_ins(d->f, ir_arg(d->f, (Val){i}, 0))->shape;
  for (uint32_t k = 0; k < d->f->ins[i].n_res; k++) {
    Val a = {i + k};
    if (bytes_of(d->f, a) * LARGE <= 4.0 * (double)ir_shape_bound(d->f->prog, rows)) continue;
    for (uint32_t j = d->l->first[a.i]; j < d->l->first[a.i + 1]; j++)
      if (d->l->readers[j] != r) return false;
  }
  return true;
}

static void pair_with(Sink *d, uint32_t i) {
  RowSpace rows;
  if (!ir_row_space(d->f, (Val){i}, &rows)) return;
  uint32_t best = 0;
  for (uint32_t n = 0; n < d->f->ins[i].n_res; n++)
    for (uint32_t k = d->l->first[i + n]; k < d->l->first[i + n + 1]; k++) {
      uint32_t r = d->l->readers[k];
      if (!takes_in(d, r, (Val){i + n}) || d->l->level[r] <= d->l->level[i]) continue;
      bool shares = false;
      for (uint32_t a = 0; a < d->f->ins[i].n_args && !shares; a++)
        shares =
            reads_elements(d->f, i, ir_arg(d->f, (Val){i}, a)) && reads_elements(d->f, r, ir_arg(d->f, (Val){i}, a));
      if (shares && is_read_small(d, i, r) && (!best || d->l->level[r] > d->l->level[best])) best = r;
    }
  if (!best) return;
  d->to[i] = d->l->level[best];
  d->paired_with[i] = best;
  d->n_moves++;
}

// What was paired with a reader that waits for it by another way, too, only pushed it on: it goes back.
static void take_back(Sink *d) {
  bool any = false;
  for (uint32_t i = 1; i < d->f->n_ins; i++) {
    uint32_t r = d->paired_with[i];
    if (!r || d->l->level[r] == d->l->level[i]) continue;
    d->rejected[i] = any = true;
    d->paired_with[i] = d->l->min_level[i] = 0;
  }
  if (any) ir_find_levels(d->l);
}

void ir_sink(Levels *l) {
  Fn *f = l->f;
  RtArena *mem = f->prog->mem;
  Sink d = {.l = l, .f = f};
  d.to = rt_alloc(mem, f->n_ins * sizeof *d.to), d.paired_with = rt_alloc(mem, f->n_ins * sizeof *d.paired_with);
  d.rejected = rt_alloc(mem, f->n_ins);
  for (uint32_t round = 0; round < MAX_ROUNDS; round++) {
    d.n_moves = 0;
    for (uint32_t i = 1; i < f->n_ins; i++) d.to[i] = 0;
    for (uint32_t i = f->n_ins - 1; i > 0; i--) {
      if (!can_move(&d, i)) continue;
      move_to_readers(&d, i);
      if (!d.to[i] && !d.rejected[i] && !d.paired_with[i]) pair_with(&d, i);
    }
    if (!d.n_moves) return;
    for (uint32_t i = 1; i < f->n_ins; i++)
      if (d.to[i]) l->min_level[i] = d.to[i];
    ir_find_levels(l);
    take_back(&d);
  }
}
