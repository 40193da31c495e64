// Pass schedule: level scheduling. Kernels of one level are independent, so that no barrier is needed between them;
// instructions that fuse become neighbours.
//
// level(v) = max over operands of level(operand) + 1, or + 0 where v fuses into its operand's kernel.
// Epilogue: a pointwise instruction that reads a product elementwise gets the product's level and follows it; the
// product is its anchor. So does the optimizer update of the parameter whose gradient the product is (fuse_update.c).
// Packed rows are an anchor too.
// What is pointwise of inputs, parameters and constants and read in one epilogue alone is computed there
// (epilogue_sources.c). A product waits for small values that its epilogue reads (wait_for_scales.c).
// Prologue: producers of an operand that only the product reads precede it at its level (fuse_prologue.c).
// Row ops fuse into the kernel of the rows that they read, at its level (row_fusion.c).
// Generators (no operands: full, uniform, ..) sink to their first use. Within a level, pointwise instructions of one
// shape are adjacent. Anti-dependences: a write to a buffer is scheduled after every read of its old contents.
// Failure atomicity: instructions that may fault (computed indices) come before every parameter write that they do not
// depend on, so that a failing run leaves parameters unchanged.
#include "ir/passes/fusion/schedule.h"
#include "ir/fn.h"
#include "ir/packed_dims.h"
#include "ir/passes/passes.h"
#include "ir/rewrite.h"
#include "ir/storage.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  uint32_t level, group, is_view, behind, index;  // behind: 1 in a product's epilogue, sources among it; 2 behind that
} Place;

bool ir_makes_kernel(const Fn *f, Val v) { return ir_class_has(ir_ins(f, v)->op, MAKES_KERNEL); }
static bool is_pointwise(const Fn *f, Val v) { return ir_ops[ir_ins(f, v)->op].cls == CLASS_POINTWISE; }

// v fuses into the row kernel that defines operand k.
bool ir_fuses_by_rows(const Schedule *s, Val v, uint32_t k) {
  Fn *f = s->f;
  Val a = ir_arg(f, v, k), head = ir_head(f, a);
  RowSpace rows, own;
  bool of_v = ir_row_space(f, v, &own);
  if (s->anchor[head.i] || (!of_v && !s->by_rows[head.i])) return false;
  rows = of_v ? own : s->rows[head.i];
  if (s->by_rows[head.i] && !ir_same_rows(s->rows[head.i], rows)) return false;
  return ir_makes_kernel(f, head) && ir_row_member(f, head, rows) && ir_row_member(f, v, rows) &&
         ir_row_reads(f, v, k, rows) && ir_row_fits(f->prog, rows);
}

// v can fuse into the kernel that defines operand k: an elementwise or a row-local read.
bool ir_fuses_with(const Schedule *s, Val v, uint32_t k) {
  Fn *f = s->f;
  Val a = ir_arg(f, v, k);
  if (ir_fuses_by_rows(s, v, k)) return true;
  if (ir_is_narrow_concat(f, a)) return false;
  return is_pointwise(f, v) && ir_class_has(ir_ins(f, a)->op, BY_ELEMENT) &&
         ir_ins(f, a)->shape.i == ir_ins(f, v)->shape.i;
}

// Is a available to the kernel of product `anchor`: at a lower level, or in the kernel of an earlier product of its level?
bool ir_is_before_anchor(const Schedule *s, Val a, uint32_t anchor) {
  uint32_t base = ir_view_base(s->f, a).i;
  if (s->level[a.i] != s->level[anchor]) return s->level[a.i] < s->level[anchor];
  return s->anchor[base] && s->anchor[base] < anchor;
}

// Instruction r is a row op over the rows of a.
static bool reads_rows_of(const Fn *f, uint32_t r, Val a) {
  RowSpace rows;
  return ir_row_space(f, (Val){r}, &rows) && rows.shape.i == ir_ins(f, a)->shape.i && ir_row_fits(f->prog, rows);
}

// All uses of v are row ops, and an operand of v is read by row ops as well, so that it is stored anyway: v is fused into
// them rather than into a product's epilogue.
bool ir_is_for_rows(const Schedule *s, Val v) {
  const Fn *f = s->f;
  if (s->has_other_reader[v.i]) return false;
  for (uint32_t j = 0; j < ir_ins(f, v)->n_args; j++) {
    Val a = ir_arg(f, v, j);
    if (s->has_row_reader[a.i] && ir_ins(f, a)->shape.i == ir_ins(f, v)->shape.i) return true;
  }
  return false;
}

static void find_row_readers(Schedule *s) {
  uint32_t n = s->f->n_ins;
  s->has_row_reader = rt_alloc(s->f->prog->mem, n), s->has_other_reader = rt_alloc(s->f->prog->mem, n);
  for (uint32_t i = 1; i < n; i++)
    for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++, s->f->prog->n_visits++)
      *(reads_rows_of(s->f, s->readers[k], (Val){i}) ? &s->has_row_reader[i] : &s->has_other_reader[i]) = true;
}

// Of what a product's kernel makes: its last member.
static uint32_t anchor_of_moments(const Schedule *s, Val v) {
  Val x = ir_arg(s->f, v, 0);
  uint32_t anchor = s->fused_into[x.i] || s->may_be_source[x.i] ? 0 : s->anchor[x.i];
  bool by_rows = anchor && ir_is_product(s->f, (Val){anchor}) && s->f->ins[anchor].shape.i == ir_ins(s->f, x)->shape.i;
  return by_rows && s->min_level[v.i] <= s->level[anchor] ? anchor : 0;
}

static uint32_t anchor_of(const Schedule *s, Val v) {
  const Fn *f = s->f;
  if (s->fused_into[v.i]) return s->fused_into[v.i];
  if (ir_is_product(f, v) || ir_takes_packed_readers(f, v)) return v.i;
  if (ir_ops[ir_ins(f, v)->op].cls == CLASS_OPTIMIZER) return ir_anchor_of_update(s, v);
  if (ir_ins(f, v)->op == OP_moments) return anchor_of_moments(s, v);
  if (!is_pointwise(f, v) || (ir_ops[ir_ins(f, v)->op].flags & WRITES) || ir_is_for_rows(s, v)) return 0;
  uint32_t anchor = 0;
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) {
    Val a = ir_arg(f, v, k);
    if (s->may_be_source[a.i]) continue;
    bool by_element = ir_ins(f, a)->shape.i == ir_ins(f, v)->shape.i && ir_ins(f, a)->op != OP_moments;
    uint32_t of = by_element ? s->anchor[a.i] : 0;
    if (of && (!anchor || ir_is_before_anchor(s, (Val){anchor}, of))) anchor = of;
  }
  for (uint32_t k = 0; anchor && k < ir_ins(f, v)->n_args; k++) {
    Val a = ir_arg(f, v, k);
    bool inside = s->anchor[a.i] == anchor && ir_ins(f, a)->shape.i == ir_ins(f, v)->shape.i;
    if (!s->may_be_source[a.i] && !inside && !ir_is_before_anchor(s, a, anchor)) return 0;
  }
  Val from[IR_MAX_MAKERS];
  for (uint32_t k = ir_sizes_from(f, s->makers, v, from); anchor && k-- > 0;)
    if (!ir_is_before_anchor(s, from[k], anchor)) return 0;
  return anchor && s->min_level[v.i] > s->level[anchor] ? 0 : anchor;  // it was sunk
}

// Once v has its level: the row space of its kernel is its own, or that of an operand into whose kernel it fuses.
static void note_rows(Schedule *s, Val v) {
  Fn *f = s->f;
  if (s->anchor[v.i]) return;
  s->by_rows[v.i] = ir_row_space(f, v, &s->rows[v.i]);
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args && !s->by_rows[v.i] && ir_makes_kernel(f, v); k++) {
    Val head = ir_head(f, ir_arg(f, v, k));
    if (s->level[head.i] != s->level[v.i] || !s->by_rows[head.i] || !ir_fuses_by_rows(s, v, k)) continue;
    s->by_rows[v.i] = true;
    s->rows[v.i] = s->rows[head.i];
  }
}

static uint32_t level_of(Schedule *s, Val v) {
  Fn *f = s->f;
  Ins *ins = ir_ins(f, v);
  bool kernel = ir_makes_kernel(f, v);
  s->anchor[v.i] = 0;
  if (s->may_be_source[v.i]) return 0;  // until the first reader has its level: ir_raise_source
  s->anchor[v.i] = anchor_of(s, v);
  bool behind = s->anchor[v.i] && s->anchor[v.i] != v.i && !s->fused_into[v.i];
  if (behind) return s->level[s->anchor[v.i]];
  uint32_t top = kernel ? 1 : 0;
  if (s->min_level[v.i] > top) top = s->min_level[v.i];
  for (uint32_t k = 0; k < ins->n_args; k++) {
    uint32_t a = ir_arg(f, v, k).i;
    bool here = s->fused_into[a] || (ir_fuses_with(s, v, k) && !s->anchor[a]);
    uint32_t at = s->level[a] + (kernel && !here);
    if (at > top) top = at;
  }
  Val from[IR_MAX_MAKERS];
  for (uint32_t k = ir_sizes_from(f, s->makers, v, from); k-- > 0;)
    if (s->level[from[k].i] + kernel > top) top = s->level[from[k].i] + kernel;
  if (!(ir_ops[ins->op].flags & WRITES)) return top;
  for (uint32_t k = 0; k < ir_ops[ins->op].n_res; k++) {
    uint32_t after = (s->after[ir_view_base(f, ir_arg(f, v, k)).i] + 1) / 2;
    if (after > top) top = after;
  }
  if (!ir_writes_param(f, v)) return top;
  uint32_t least = ir_may_fault(f, v) ? s->faulting_writes_from : s->writes_from;
  return least > top ? least : top;
}

void ir_note_reads(Schedule *s, Val v) {
  Fn *f = s->f;
  if (!ir_makes_kernel(f, v)) return;
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) {
    Val base = ir_view_base(f, ir_arg(f, v, k));
    bool same = is_pointwise(f, v) && !s->anchor[v.i] && base.i == ir_arg(f, v, k).i &&
                ir_ins(f, base)->shape.i == ir_ins(f, v)->shape.i;
    uint32_t after = 2 * s->level[v.i] + (same ? 0 : s->anchor[v.i] && s->has_update[s->anchor[v.i]] ? 2 : 1);
    if (after > s->after[base.i]) s->after[base.i] = after;
  }
}

// The producers fused into a product's prologue get the product's level.
static void raise_operand(Schedule *s, uint32_t product, Val v) {
  if (s->fused_into[v.i] != product) return;
  s->level[v.i] = s->level[product];
  ir_note_reads(s, v);
  for (uint32_t k = 0; k < ir_ins(s->f, v)->n_args; k++) raise_operand(s, product, ir_arg(s->f, v, k));
}

static void find_levels(Schedule *s) {
  Fn *f = s->f;
  memset(s->after, 0, f->n_ins * sizeof *s->after);
  memset(s->by_rows, 0, f->n_ins);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    Val v = {i};
    if (f->ins[i].op == OP_result) {
      s->level[i] = s->level[ir_head(f, v).i];
      continue;
    }
    s->level[i] = level_of(s, v);
    note_rows(s, v);
    ir_note_reads(s, v);
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) {
      raise_operand(s, i, ir_arg(f, v, k));
      if (s->anchor[i]) ir_raise_source(s, s->anchor[i], ir_arg(f, v, k));
    }
  }
}

// Until every value that was taken for a source is one.
void ir_find_levels(Schedule *s) {
  enum { MAX_ROUNDS = 8 };
  find_levels(s);
  for (uint32_t round = 0; !ir_check_sources(s); round++) {
    if (round == MAX_ROUNDS) ir_drop_sources(s);
    find_levels(s);
  }
}

// Generators sink to their first use: to its level where they fuse into its kernel, else to the level before.
static void sink_generators(Schedule *s) {
  Fn *f = s->f;
  uint32_t *first = rt_alloc(f->prog->mem, f->n_ins * sizeof *first);  // by value: level of its first use; 0: unused
  for (uint32_t i = f->n_ins - 1; i > 0; i--) {
    Val v = {i};
    if (f->ins[i].op == OP_result) continue;
    bool generator = is_pointwise(f, v) && f->ins[i].n_args == 0;
    if (generator && first[i] > s->level[i]) s->level[i] = first[i];
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) {
      uint32_t a = ir_arg(f, v, k).i;
      bool here = ir_fuses_with(s, v, k) && !s->anchor[i];
      uint32_t at = !ir_makes_kernel(f, v) ? first[i] : here ? s->level[i] : s->level[i] - 1;
      if (at && (!first[a] || at < first[a])) first[a] = at;
    }
  }
  for (uint32_t i = 1; i < f->n_ins; i++) {  // a view is at the level of its base or above
    bool view = ir_ops[f->ins[i].op].cls == CLASS_VIEW;
    for (uint32_t k = 0; view && k < f->ins[i].n_args; k++) {
      uint32_t at = s->level[ir_arg(f, (Val){i}, k).i];
      if (at > s->level[i]) s->level[i] = at;
    }
  }
}

static int by_key(const void *a, const void *b) {
  const Place *x = a, *y = b;
  if (x->level != y->level) return x->level < y->level ? -1 : 1;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  if (x->is_view != y->is_view) return x->is_view < y->is_view ? -1 : 1;
  if (x->behind != y->behind) return x->behind < y->behind ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

// Instructions of one fusion class may share a kernel: pointwise and index ops of one shape, one recurrent op of one
// shape, optimizer updates of any shapes. 0: none.
static uint32_t fusion_class(const Fn *f, Val v) {
  Op op = (Op)ir_ins(f, v)->op;
  if (!ir_class_has(op, SHARES_KERNEL) || ir_is_narrow_concat(f, v) || (ir_ops[op].flags & BY_ROWS)) return 0;
  uint32_t kernel = ir_classes[ir_ops[op].cls].kernel;
  return kernel == CLASS_RNN ? kernel + op : kernel;
}

static uint32_t fusion_shape(const Fn *f, Val v) {
  return fusion_class(f, v) == CLASS_OPTIMIZER ? 0 : ir_ins(f, v)->shape.i;
}

// The representative of v's group: the first instruction of the same level, fusion class and shape. table: open
// addressing, 0 is a free slot.
static uint32_t group_of(const Fn *f, const Place *keys, Val v, uint32_t level, uint32_t *table, uint32_t cap) {
  uint32_t cls = fusion_class(f, v);
  if (!cls) return v.i;
  uint32_t key[3] = {level, cls, fusion_shape(f, v)};
  uint32_t at = (uint32_t)rt_hash(key, sizeof key, 5) & (cap - 1);
  for (; table[at]; at = (at + 1) & (cap - 1)) {
    Val w = {table[at]};
    if (keys[w.i].level == level && fusion_class(f, w) == cls && fusion_shape(f, w) == key[2]) return w.i;
  }
  table[at] = v.i;
  return v.i;
}

// Groups are a union-find forest over keys[].group.
static uint32_t root_of(Place *keys, uint32_t i) {
  while (keys[i].group != i) i = keys[i].group = keys[keys[i].group].group;
  return i;
}

static void unite(Place *keys, uint32_t a, uint32_t b) {
  a = root_of(keys, a), b = root_of(keys, b);
  keys[a > b ? a : b].group = a < b ? a : b;
}

// Row ops are grouped with the operands whose kernel they fuse into.
static void unite_rows(const Schedule *s, Place *keys, Val v) {
  for (uint32_t k = 0; k < ir_ins(s->f, v)->n_args; k++) {
    Val head = ir_head(s->f, ir_arg(s->f, v, k));
    if (ir_makes_kernel(s->f, v) && !s->anchor[v.i] && s->level[head.i] == s->level[v.i] && ir_fuses_by_rows(s, v, k))
      unite(keys, head.i, v.i);
  }
}

// The highest level of an instruction that may fault and depends on no parameter write; 0: none. writes_param: among
// those that write parameters themselves, else among those that do not.
static uint32_t last_fault_level(const Schedule *s, bool writes_param) {
  const Fn *f = s->f;
  bool *changed = rt_alloc(f->prog->mem, f->n_ins);
  uint32_t last = 0;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    Val v = {i};
    if (f->ins[i].op == OP_result) {
      changed[i] = changed[ir_head(f, v).i];
      continue;
    }
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) changed[i] |= changed[ir_arg(f, v, k).i];
    bool writes = ir_writes_param(f, v);
    if (!changed[i] && s->level[i] > last && writes == writes_param && ir_may_fault(f, v)) last = s->level[i];
    changed[i] |= writes;
  }
  return last;
}

static Schedule make_schedule(Fn *f) {
  RtArena *mem = f->prog->mem;
  uint32_t n = f->n_ins;
  Schedule s = {.f = f, .makers = ir_rows_makers(f), .fused_into = ir_find_fused_producers(f)};
  s.level = rt_alloc(mem, n * sizeof *s.level), s.min_level = rt_alloc(mem, n * sizeof *s.min_level);
  s.anchor = rt_alloc(mem, n * sizeof *s.anchor), s.after = rt_alloc(mem, n * sizeof *s.after);
  s.rows = rt_alloc(mem, n * sizeof *s.rows), s.by_rows = rt_alloc(mem, n), s.has_update = rt_alloc(mem, n);
  UseLists uses = ir_use_lists(f);
  s.first = uses.first, s.readers = uses.user;
  find_row_readers(&s);
  ir_find_sources(&s);
  return s;
}

// By value: a row op that reads its elements, itself or through what is fused into its kernel.
typedef struct {
  const Schedule *s;
  Place *keys;
  uint32_t *by_value;
  Shape rows;
} RowReaders;

enum { MAX_PRODUCERS = 4 };  // one fused into the other, up to the row op

static void unite_reader_of(RowReaders *r, Val reader, Val v, uint32_t k, uint32_t depth) {
  const Schedule *s = r->s;
  Val a = ir_arg(s->f, v, k);
  if (ir_ins(s->f, a)->shape.i != r->rows.i) return;
  if (depth < MAX_PRODUCERS && s->level[a.i] == s->level[v.i] && ir_ops[ir_ins(s->f, a)->op].is_pointwise &&
      ir_fuses_by_rows(s, v, k)) {
    for (uint32_t j = 0; j < ir_ins(s->f, a)->n_args; j++) unite_reader_of(r, reader, a, j, depth + 1);
    return;
  }
  uint32_t *other = &r->by_value[a.i];
  if (*other && s->level[*other] == s->level[reader.i]) unite(r->keys, *other, reader.i);
  *other = reader.i;
}

// Row ops of one level that read the same elements are grouped.
static void unite_readers(RowReaders *r, Val v) {
  RowSpace rows;
  if (!ir_row_space(r->s->f, v, &rows) || !ir_row_fits(r->s->f->prog, rows)) return;
  r->rows = rows.shape;
  for (uint32_t k = 0; k < ir_ins(r->s->f, v)->n_args; k++)
    if (ir_row_element(r->s->f, v, k)) unite_reader_of(r, v, v, k, 0);
}

// A view of a product's result follows the product's kernel directly: another product of the level may read it.
static bool is_view_of_product(const Schedule *s, Val v) {
  Val base = ir_view_base(s->f, v);
  return base.i != v.i && s->anchor[base.i] && s->level[base.i] == s->level[v.i];
}

// An update of another parameter stands at `group`. Does a kernel behind it, at the same level, read what v overwrites?
static bool is_read_behind(const Schedule *s, Place *keys, Val v, uint32_t group) {
  const Fn *f = s->f;
  if (ir_ops[ir_ins(f, v)->op].cls != CLASS_OPTIMIZER || group == v.i) return false;
  for (uint32_t k = 0; k < ir_ops[ir_ins(f, v)->op].n_res; k++) {
    uint32_t old = ir_view_base(f, ir_arg(f, v, k)).i;
    for (uint32_t j = s->first[old]; j < s->first[old + 1]; j++) {
      uint32_t r = s->readers[j];
      if (r < v.i && s->level[r] == s->level[v.i] && ir_makes_kernel(f, (Val){r}) && root_of(keys, r) > group)
        return true;
    }
  }
  return false;
}

static Place key_of(const Schedule *s, Place *keys, Val v, uint32_t *table, uint32_t cap) {
  const Fn *f = s->f;
  if (is_view_of_product(s, v)) {
    uint32_t base = ir_view_base(f, v).i;
    return (Place){keys[base].level, base, true, false, v.i};
  }
  bool is_behind = s->anchor[v.i] && s->anchor[v.i] != v.i && !s->fused_into[v.i];
  Place key = {2 * s->level[v.i] + (s->anchor[v.i] && s->has_update[s->anchor[v.i]]), v.i, false,
               is_behind + (is_behind && ir_ins(f, v)->op == OP_moments), v.i};
  if (s->anchor[v.i]) key.group = s->anchor[v.i];
  else if (ir_ops[ir_ins(f, v)->op].cls == CLASS_EXCHANGE) key.group = 0;  // before what else waits for its operands
  else if (ir_makes_kernel(f, v)) {
    key.group = group_of(f, keys, v, key.level, table, cap);
    if (is_read_behind(s, keys, v, key.group)) key.group = v.i;
  }
  return key;
}

bool ir_pass_schedule(Fn *f) {
  RtArena *mem = f->prog->mem;
  uint32_t n = f->n_ins, cap = 64;
  while (cap < 2 * n) cap *= 2;
  Schedule s = make_schedule(f);
  Place *keys = rt_alloc(mem, n * sizeof *keys);
  uint32_t *table = rt_alloc(mem, cap * sizeof *table);
  RowReaders readers = {.s = &s, .keys = keys, .by_value = rt_alloc(mem, n * sizeof *readers.by_value)};
  ir_find_updates(&s);
  ir_find_levels(&s);
  ir_wait_for_scales(&s);
  ir_sink(&s);
  ir_postpone(&s);
  uint32_t last = last_fault_level(&s, false);
  if (last) {
    s.faulting_writes_from = s.writes_from = last + 1;
    ir_find_levels(&s);
  }
  last = last_fault_level(&s, true);
  if (last) {
    s.writes_from = last + 1;
    ir_find_levels(&s);
  }
  sink_generators(&s);
  for (uint32_t i = 1; i < n; i++) {
    Val v = {i};
    if (f->ins[i].op == OP_result) continue;
    keys[i] = key_of(&s, keys, v, table, cap);
    unite_rows(&s, keys, v);
    unite_readers(&readers, v);
  }
  for (uint32_t i = 1; i < n; i++)
    if (f->ins[i].op != OP_result) keys[i].group = root_of(keys, i);
  uint32_t m = 0;
  for (uint32_t i = 1; i < n; i++)
    if (f->ins[i].op != OP_result) keys[m++] = keys[i];
  qsort(keys, m, sizeof *keys, by_key);
  Rewrite e;
  ir_rewrite_begin(&e, f);
  for (uint32_t k = 0; k < m; k++) ir_rewrite_copy(&e, (Val){keys[k].index});
  ir_rewrite_end(&e);
  return true;
}
