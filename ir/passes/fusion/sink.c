// Part of pass schedule: sinks instructions below the level that their operands allow, towards their uses.
//
//   %u = sub %x, %mean          level 1, stored until the backward reads it    ->   level 9, fused into %g's kernel,
//   %y = matmul %x, %w          levels 1 ..                                         which reads %x anyway
//   %g = mul %d, %u             level 9
//
// An instruction sinks into the kernel of its first use when that lowers the live bytes (its operands' extended live
// ranges against its own), or keeps them equal and saves a store, so that it leaves a product's epilogue, too. A row op is also paired with a reader that reads the
// same elements, so that they are loaded once: the loss sinks to the level of its gradient where that waits for another
// value, such as the number of labels. Decisions depend on dim bounds alone, so that plans for smaller bounds have the
// same kernels.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/fusion/schedule.h"
#include "ir/storage.h"

enum {
  MAX_ROUNDS = 4,
  MAX_CHAIN = 6,
  SMALL_RATIO = 8,
  TINY_RATIO = 64,
  FAR_LEVELS = 16,
  FAR_BYTES = 1 << 16
};  // small: at most an eighth of the rows

typedef struct {
  Schedule *schedule;
  Fn *f;
  uint32_t *to;           // by value: level to which it sinks in this round; 0: none
  uint32_t *paired_with;  // by value: the reader that it was paired with for their common operand; 0: none
  bool *rejected;         // by value: pairing was undone, and is not tried again
  uint32_t n_moves;
} Sink;

static uint32_t level_at(const Sink *s, uint32_t i) { return s->to[i] ? s->to[i] : s->schedule->level[i]; }
static double bytes_of(const Fn *f, Val v) { return 4.0 * (double)ir_shape_bound(f->prog, ir_ins(f, v)->shape); }

// Extending its live range costs nothing: no memory, the caller's memory, or rematerialised at each use.
static bool is_free(const Fn *f, Val base) {
  const Ins *ins = ir_ins(f, base);
  bool generator = ins->n_args == 0 && ir_ops[ins->op].cls == CLASS_POINTWISE;
  return ir_is_immediate(f, base) || generator || ir_is_stored_leaf(f, base);
}

// Value a of the kernel of a product is stored in any case: another kernel reads it, and i is not all that does.
static bool is_stored_beside(const Sink *s, Val a, uint32_t i) {
  const Schedule *l = s->schedule;
  for (uint32_t k = l->first[a.i]; k < l->first[a.i + 1]; k++)
    if (l->readers[k] != i && l->anchor[l->readers[k]] != l->anchor[a.i]) return true;
  return false;
}

// Instruction i of a product's epilogue is read by other kernels alone, which could compute it as well: of what it reads in
// the epilogue, all is stored.
static bool can_leave_epilogue(const Sink *s, uint32_t i) {
  const Schedule *l = s->schedule;
  if (l->anchor[i] == i || l->fused_into[i] || l->may_be_source[i] || !ir_class_has(s->f->ins[i].op, BY_ELEMENT))
    return false;
  for (uint32_t k = l->first[i]; k < l->first[i + 1]; k++)
    if (l->anchor[l->readers[k]] == l->anchor[i]) return false;
  for (uint32_t k = 0; k < s->f->ins[i].n_args; k++) {
    Val a = ir_arg(s->f, (Val){i}, k);
    if (l->anchor[a.i] == l->anchor[i] && (l->may_be_source[a.i] || !is_stored_beside(s, a, i))) return false;
  }
  return true;
}

static bool can_move(const Sink *s, uint32_t i) {
  const Ins *ins = &s->f->ins[i];
  const OpInfo *op = &ir_ops[ins->op];
  RowSpace rows;
  if (ins->op == OP_result || ins->n_args == 0 || (op->flags & (EFFECT | WRITES))) return false;
  if (s->schedule->anchor[i]) return can_leave_epilogue(s, i);
  return ir_class_has(ins->op, BY_ELEMENT) || ir_row_space(s->f, (Val){i}, &rows);
}

// Instruction r may still be fused into a product's epilogue.
static bool may_join_epilogue(const Sink *s, uint32_t r) {
  if (ir_ops[s->f->ins[r].op].cls != CLASS_POINTWISE || ir_is_for_rows(s->schedule, (Val){r})) return false;
  for (uint32_t k = 0; k < s->f->ins[r].n_args; k++) {
    Val a = ir_arg(s->f, (Val){r}, k);
    if (s->schedule->anchor[a.i] && s->f->ins[a.i].shape.i == s->f->ins[r].shape.i &&
        s->schedule->level[r] == s->schedule->level[a.i] + 1)
      return true;
  }
  return false;
}

// Reader r fuses into the kernel of its operand a if both are of one level.
static bool would_fuse(const Sink *s, uint32_t r, Val a) {
  bool any = false;
  if (may_join_epilogue(s, r)) return false;
  for (uint32_t k = 0; k < s->f->ins[r].n_args; k++) {
    if (ir_arg(s->f, (Val){r}, k).i != a.i) continue;
    if (s->schedule->anchor[r] || !ir_fuses_with(s->schedule, (Val){r}, k)) return false;
    any = true;
  }
  return any;
}

// The highest level of a at which every use is still satisfied; *fused_at: the highest level of a reader that fuses.
static uint32_t latest_level(const Sink *s, Val a, uint32_t *fused_at) {
  uint32_t least = UINT32_MAX;
  for (uint32_t k = s->schedule->first[a.i]; k < s->schedule->first[a.i + 1]; k++) {
    uint32_t r = s->schedule->readers[k], at, none = 0;
    if (!ir_makes_kernel(s->f, (Val){r})) at = latest_level(s, (Val){r}, &none);  // through a view
    else if (would_fuse(s, r, a)) at = level_at(s, r), *fused_at = at > *fused_at ? at : *fused_at;
    else at = level_at(s, r) - 1;
    if (at < least) least = at;
  }
  return least;
}

// Is a live at this level for a use other than instruction i?
static bool is_read_from(const Sink *s, Val a, uint32_t level, uint32_t i) {
  for (uint32_t k = s->schedule->first[a.i]; k < s->schedule->first[a.i + 1]; k++) {
    uint32_t r = s->schedule->readers[k];
    if (r == i) continue;
    bool view = !ir_makes_kernel(s->f, (Val){r});
    if (view ? is_read_from(s, (Val){r}, level, i) : level_at(s, r) >= level) return true;
  }
  return false;
}

// Can b sink together with its reader i: all other uses are at this level or later?
static bool can_sink_along(const Sink *s, Val b, uint32_t level, uint32_t i) {
  if (ir_ins(s->f, b)->n_res != 1 || !can_move(s, b.i)) return false;
  for (uint32_t k = s->schedule->first[b.i]; k < s->schedule->first[b.i + 1]; k++) {
    uint32_t r = s->schedule->readers[k];
    if (r != i && (!ir_makes_kernel(s->f, (Val){r}) || level_at(s, r) < level)) return false;
  }
  return true;
}

// Bytes that stay live up to this level only because instruction i sinks to it.
static double live_bytes_added(const Sink *s, uint32_t i, uint32_t level, uint32_t depth) {
  double sum = 0;
  for (uint32_t k = 0; k < s->f->ins[i].n_args; k++) {
    Val a = ir_arg(s->f, (Val){i}, k), base = ir_view_base(s->f, a);
    if (is_free(s->f, base) || is_read_from(s, base, level, i)) continue;
    bool along = base.i == a.i && depth < MAX_CHAIN && can_sink_along(s, base, level, i);
    sum += along ? live_bytes_added(s, base.i, level, depth + 1) : bytes_of(s->f, base);
  }
  return sum;
}

// Unsunk, instruction i loads its operands from memory: it fuses with none of their definitions.
static bool reads_memory(const Sink *s, uint32_t i) {
  for (uint32_t k = 0; k < s->f->ins[i].n_args; k++) {
    Val a = ir_arg(s->f, (Val){i}, k);
    if (bytes_of(s->f, a) < bytes_of(s->f, (Val){i}) || is_free(s->f, ir_view_base(s->f, a))) continue;
    if (s->schedule->level[a.i] == s->schedule->level[i] ||
        (!s->schedule->anchor[a.i] && ir_fuses_with(s->schedule, (Val){i}, k)))
      return false;
  }
  return true;
}

// Sunk to a kernel of its own, instruction i is large, not alive for many levels, and its operands are alive in any case.
static bool is_far_from_readers(const Sink *s, uint32_t i, uint32_t to, double added, double gain) {
  bool is_element = ir_ops[s->f->ins[i].op].cls == CLASS_POINTWISE && !s->schedule->anchor[i];
  return is_element && gain >= FAR_BYTES && to >= s->schedule->level[i] + FAR_LEVELS && added <= gain / TINY_RATIO;
}

static void move_to_readers(Sink *s, uint32_t i) {
  uint32_t to = UINT32_MAX, fused_at = 0;
  double gain = 0;
  for (uint32_t k = 0; k < s->f->ins[i].n_res; k++) {
    Val a = {i + k};
    if (s->schedule->first[a.i] == s->schedule->first[a.i + 1]) continue;
    uint32_t at = latest_level(s, a, &fused_at);
    if (at < to) to = at;
    gain += bytes_of(s->f, a);
  }
  if (to == UINT32_MAX || to <= s->schedule->level[i]) return;
  double added = live_bytes_added(s, i, to, 0);
  if (fused_at < to && !is_far_from_readers(s, i, to, added, gain)) return;
  bool saves_store = s->schedule->anchor[i] || reads_memory(s, i);  // which is worth a few bytes
  if (saves_store ? added > gain + gain / TINY_RATIO : added >= gain) return;
  s->to[i] = to;
  s->n_moves++;
}

// ---- pairing: row ops that read the same elements
static bool reads_elements(const Fn *f, uint32_t r, Val a) {
  RowSpace rows;
  if (!ir_row_space(f, (Val){r}, &rows) || ir_ins(f, a)->shape.i != rows.shape.i) return false;
  for (uint32_t k = 0; k < f->ins[r].n_args; k++)
    if (ir_arg(f, (Val){r}, k).i == a.i && ir_row_element(f, (Val){r}, k)) return true;
  return false;
}

// Results of instruction i that others than r read are small: row scalars, not elements.
static bool leaves_small_results(const Sink *s, uint32_t i, uint32_t r) {
  Shape rows = ir_ins(s->f, ir_arg(s->f, (Val){i}, 0))->shape;
  for (uint32_t k = 0; k < s->f->ins[i].n_res; k++) {
    Val a = {i + k};
    if (bytes_of(s->f, a) * SMALL_RATIO <= 4.0 * (double)ir_shape_bound(s->f->prog, rows)) continue;
    for (uint32_t j = s->schedule->first[a.i]; j < s->schedule->first[a.i + 1]; j++)
      if (s->schedule->readers[j] != r) return false;
  }
  return true;
}

static void pair_with(Sink *s, uint32_t i) {
  RowSpace rows;
  if (!ir_row_space(s->f, (Val){i}, &rows)) return;
  uint32_t best = 0;
  for (uint32_t n = 0; n < s->f->ins[i].n_res; n++)
    for (uint32_t k = s->schedule->first[i + n]; k < s->schedule->first[i + n + 1]; k++) {
      uint32_t r = s->schedule->readers[k];
      if (!would_fuse(s, r, (Val){i + n}) || s->schedule->level[r] <= s->schedule->level[i]) continue;
      bool shares = false;
      for (uint32_t a = 0; a < s->f->ins[i].n_args && !shares; a++)
        shares =
            reads_elements(s->f, i, ir_arg(s->f, (Val){i}, a)) && reads_elements(s->f, r, ir_arg(s->f, (Val){i}, a));
      if (shares && leaves_small_results(s, i, r) && (!best || s->schedule->level[r] > s->schedule->level[best]))
        best = r;
    }
  if (!best) return;
  s->to[i] = s->schedule->level[best];
  s->paired_with[i] = best;
  s->n_moves++;
}

// A reader that also depends on its partner through another path was pushed to a later level: such pairs are undone.
static void undo_split_pairs(Sink *s) {
  bool any = false;
  for (uint32_t i = 1; i < s->f->n_ins; i++) {
    uint32_t r = s->paired_with[i];
    if (!r || s->schedule->level[r] == s->schedule->level[i]) continue;
    s->rejected[i] = any = true;
    s->paired_with[i] = s->schedule->min_level[i] = 0;
  }
  if (any) ir_find_levels(s->schedule);
}

void ir_sink(Schedule *schedule) {
  Fn *f = schedule->f;
  RtArena *mem = f->prog->mem;
  Sink s = {.schedule = schedule, .f = f};
  s.to = rt_alloc(mem, f->n_ins * sizeof *s.to), s.paired_with = rt_alloc(mem, f->n_ins * sizeof *s.paired_with);
  s.rejected = rt_alloc(mem, f->n_ins);
  for (uint32_t round = 0; round < MAX_ROUNDS; round++) {
    s.n_moves = 0;
    for (uint32_t i = 1; i < f->n_ins; i++) s.to[i] = 0;
    for (uint32_t i = f->n_ins - 1; i > 0; i--) {
      if (!can_move(&s, i)) continue;
      move_to_readers(&s, i);
      if (!s.to[i] && !s.rejected[i] && !s.paired_with[i] && !schedule->anchor[i]) pair_with(&s, i);
    }
    if (!s.n_moves) return;
    for (uint32_t i = 1; i < f->n_ins; i++)
      if (s.to[i]) schedule->min_level[i] = s.to[i];
    ir_find_levels(schedule);
    undo_split_pairs(&s);
  }
}
