// Scatters: elements are stored, added or compared by index along an axis (an index for each element);
// index_copy, index_add and {by_slices} (one for each slice). The result starts as operand 0, and may share its memory.
//
//   y[o][index][i] = f(y[o][index][i], source[o][k][i])     y seen as [outer][n][inner], the source as [..][m][..]
//
// What happens to an element of the result happens in the order of k, whatever the number of workers: each owns
//   OUTER    some of the outer slices
//   INNER    some of the columns, where there are few slices
//   PLACES   some places along the axis, where there is little else: every worker walks all indices
// No atomics, and no barrier: a worker copies what it owns of operand 0 first.
//
// Contiguous indices are processed in groups, with one branch for all checks. Inside a group, a place of
// another worker is replaced by a spare one with the same arithmetic: the owner cannot be predicted.
#include "codegen/emitters.h"
#include "codegen/math/primitives.h"
#include "codegen/order/axis.h"
#include "ir/slice.h"

enum { MANY_SLICES = 8, WIDE = 64, COLUMN_GRAIN = 16, GROUP = 8, AHEAD = 8, LINE = 64 };
typedef enum { OUTER, INNER, PLACES } Split;

typedef struct {
  Cg *c;
  Op op;
  DType type;
  bool by_slice, is_number;  // the source is one number
  Shape part, whole;         // of the source, of the result
  uint32_t axis;
  CgAxis to;
  V m, part_inner, part_outer;  // of the source
  V target, index, source, y;
  V outer_lo, outer_hi, inner_lo, inner_hi, place_lo, place_hi;  // what this worker owns
  V spare;  // GROUP lines that nobody reads; NULL: this worker owns all places
} Scatter;

static LLVMTypeRef elem(const Scatter *s) { return cg_elem_type(s->c, s->type); }

// ---- what a worker owns
static void divide(Scatter *s) {
  Cg *c = s->c;
  const Prog *p = c->f->prog;
  V zero = cg_i64(c, 0);
  s->outer_lo = s->inner_lo = s->place_lo = zero;
  s->outer_hi = s->to.outer, s->inner_hi = s->to.inner, s->place_hi = s->to.n;
  Split by = cg_axis_bound(p, s->whole, 0, s->axis) >= MANY_SLICES                   ? OUTER
             : cg_axis_bound(p, s->whole, s->axis + 1, ir_rank(p, s->whole)) >= WIDE ? INNER
                                                                                     : PLACES;
  if (by == OUTER) cg_share(c, s->to.outer, 1, &s->outer_lo, &s->outer_hi);
  if (by == INNER) cg_share(c, s->to.inner, COLUMN_GRAIN, &s->inner_lo, &s->inner_hi);
  if (by == PLACES) cg_share(c, s->to.n, COLUMN_GRAIN, &s->place_lo, &s->place_hi);
}

// Zeros: sums of denormal numbers would be slow.
static void make_spare(Scatter *s) {
  Cg *c = s->c;
  if (cg_is_int(s->place_lo, 0)) return;
  s->spare = cg_block(c, c->i64, GROUP * LINE / 8);
  for (Loop l = cg_count(c, cg_i64(c, GROUP)); cg_next(&l);)
    cg_store(c, cg_i64(c, 0), cg_at(c, c->i8, s->spare, cg_mul(c, l.i, cg_i64(c, LINE))));
}

static V place_of(const Scatter *s, V o, V place, V i) {
  Cg *c = s->c;
  return cg_index(c, cg_index(c, o, s->to.n, place), s->to.inner, i);
}

// The places of slice o that this worker owns, from operand 0: at once where it owns all columns.
static void start_slice(const Scatter *s, V o) {
  Cg *c = s->c;
  bool whole = s->inner_hi == s->to.inner && cg_is_int(s->inner_lo, 0);
  V zero = cg_i64(c, 0);
  if (whole) {
    V first = place_of(s, o, s->place_lo, zero), n = cg_mul(c, cg_sub(c, s->place_hi, s->place_lo), s->to.inner);
    cg_copy_run(c, s->type, cg_at(c, elem(s), s->y, first), cg_at(c, elem(s), s->target, first), n);
    return;
  }
  for (Loop l = cg_each(c, s->place_lo, s->place_hi); cg_next(&l);) {
    V first = place_of(s, o, l.i, s->inner_lo), n = cg_sub(c, s->inner_hi, s->inner_lo);
    cg_copy_run(c, s->type, cg_at(c, elem(s), s->y, first), cg_at(c, elem(s), s->target, first), n);
  }
}

// Unless the result lies in its place.
static void start(const Scatter *s) {
  Cg *c = s->c;
  for (If apart = cg_when(c, cg_ne(c, s->target, s->y)); cg_then(&apart);)
    for (Loop o = cg_each(c, s->outer_lo, s->outer_hi); cg_next(&o);) start_slice(s, o.i);
}

// ---- elements
static V combined(const Scatter *s, V old, V x) {
  Cg *c = s->c;
  V both[] = {old, x};
  switch (s->op) {
  case OP_scatter_add:
  case OP_index_add: return cg_primitive_of(c, s->type, OP_add, both);
  case OP_scatter_prod: return cg_primitive_of(c, s->type, OP_mul, both);
  case OP_scatter_amax: return cg_primitive_of(c, s->type, OP_max, both);
  case OP_scatter_amin: return cg_primitive_of(c, s->type, OP_min, both);
  default: return x;
  }
}

static void put_at(const Scatter *s, V x, V at) {
  Cg *c = s->c;
  bool replaces = s->op == OP_scatter || s->op == OP_index_copy;
  cg_store(c, replaces ? x : combined(s, cg_load(c, elem(s), at), x), at);
}

static void put(const Scatter *s, V x, V place) { put_at(s, x, cg_at(s->c, elem(s), s->y, place)); }

static V source_at(const Scatter *s, V at) {
  return cg_load(s->c, elem(s), s->is_number ? s->source : cg_at(s->c, elem(s), s->source, at));
}

static V index_at(const Scatter *s, V at) { return cg_get(s->c, s->c->i64, s->index, at); }

// Reports an index out of range; does it select a place of this worker?
static V is_own(const Scatter *s, V index, V at) {
  Cg *c = s->c;
  for (If out = cg_when(c, cg_icmp(c, LLVMIntUGE, index, s->to.n)); cg_then(&out);) cg_report_index(c, at, index);
  return cg_between(c, index, s->place_lo, s->place_hi);
}

// ---- slices: columns [inner_lo, inner_hi) of slice k of the source
// The columns of the place of a slice that comes later.
static void prefetch_slice(const Scatter *s, V o, V k) {
  Cg *c = s->c;
  V last = cg_sub(c, s->m, cg_i64(c, 1)), index = index_at(s, cg_min(c, cg_add(c, k, cg_i64(c, AHEAD)), last));
  V inside = cg_below(c, index, s->to.n);
  V to = place_of(s, o, cg_select(c, inside, index, cg_i64(c, 0)), cg_i64(c, 0));
  V step = cg_i64(c, LINE / 4), end = cg_min(c, s->inner_hi, cg_add(c, s->inner_lo, cg_i64(c, 4 * LINE / 4)));
  for (Loop l = cg_each_by(c, s->inner_lo, end, step); cg_next(&l);)
    cg_prefetch_l1(c, cg_at(c, elem(s), s->y, cg_add(c, to, l.i)));
}

// Columns from lo on, by `lanes` at a time; returns where the rest begins.
static V put_columns(const Scatter *s, V to, V from, V lo, uint32_t lanes) {
  Cg *c = s->c;
  LLVMTypeRef vec = cg_vector_type(c, s->type, lanes);
  V end;
  for (Loop l = cg_each_whole(c, lo, s->inner_hi, lanes, &end); cg_next(&l);) {
    V at = cg_at(c, elem(s), s->y, cg_add(c, to, l.i)), old = cg_load(c, vec, at);
    V x = s->is_number ? cg_splat_n(c, cg_load(c, elem(s), s->source), lanes)
                       : cg_load(c, vec, cg_at(c, elem(s), s->source, cg_add(c, from, l.i)));
    cg_store(c, combined(s, old, x), at);
  }
  return end;
}

static void put_slice(const Scatter *s, V o, V k) {
  Cg *c = s->c;
  V index = index_at(s, k), from = cg_mul(c, cg_index(c, o, s->m, k), s->part_inner), done = s->inner_lo;
  prefetch_slice(s, o, k);
  for (If own = cg_when(c, is_own(s, index, k)); cg_then(&own);) {
    V to = place_of(s, o, index, cg_i64(c, 0));
    if (!c->t->loses_nan) done = put_columns(s, to, from, done, c->t->vl);
    for (Loop l = cg_each(c, done, s->inner_hi); cg_next(&l);)
      put(s, source_at(s, cg_add(c, from, l.i)), cg_add(c, to, l.i));
  }
}

// ---- elements that lie side by side in source and index: [at, at + n) go to base + index inner, and where they are
// columns, each to the next one
static void put_one(const Scatter *s, V at, V base) {
  Cg *c = s->c;
  V index = index_at(s, at);
  for (If own = cg_when(c, is_own(s, index, at)); cg_then(&own);)
    put(s, source_at(s, at), cg_add(c, base, cg_mul(c, index, s->to.inner)));
}

static V are_inside(const Scatter *s, V at) {
  Cg *c = s->c;
  V index = cg_get(c, cg_vector_type(c, DT_I64, GROUP), s->index, at);
  V good = cg_below(c, index, cg_splat_n(c, s->to.n, GROUP));
  good = cg_bitcast(c, good, LLVMIntTypeInContext(c->ctx, GROUP));
  return cg_eq(c, good, LLVMConstAllOnes(LLVMTypeOf(good)));
}

static void put_group(const Scatter *s, V at, V base, bool are_columns) {
  Cg *c = s->c;
  for (If all = cg_either(c, are_inside(s, at)); cg_then(&all);)
    if (all.is_true) {
      for (uint32_t k = 0; k < GROUP; k++) {
        V unit = cg_i64(c, k), from = cg_add(c, at, unit), index = index_at(s, from);
        V to = cg_add(c, are_columns ? cg_add(c, base, unit) : base, cg_mul(c, index, s->to.inner));
        V place = cg_at(c, elem(s), s->y, to), n = cg_sub(c, s->place_hi, s->place_lo);
        if (s->spare) {
          V own = cg_below(c, cg_isub(c, index, s->place_lo), n);
          place = cg_select(c, own, place, cg_at(c, c->i8, s->spare, cg_i64(c, k * LINE)));
        }
        put_at(s, source_at(s, from), place);
      }
    } else {
      for (uint32_t k = 0; k < GROUP; k++) {
        V unit = cg_i64(c, k);
        put_one(s, cg_add(c, at, unit), are_columns ? cg_add(c, base, unit) : base);
      }
    }
}

// Elements [lo, hi) of the run of source and index that begins at `from`.
static void put_run(const Scatter *s, V from, V base, V lo, V hi, bool are_columns) {
  Cg *c = s->c;
  V tail;
  for (Loop l = cg_each_whole(c, lo, hi, GROUP, &tail); cg_next(&l);)
    put_group(s, cg_add(c, from, l.i), are_columns ? cg_add(c, base, l.i) : base, are_columns);
  for (Loop l = cg_each(c, tail, hi); cg_next(&l);)
    put_one(s, cg_add(c, from, l.i), are_columns ? cg_add(c, base, l.i) : base);
}

// ---- the columns of this worker in place k of the source
static void put_columns_of(const Scatter *s, V o_part, V o, V k) {
  Cg *c = s->c;
  V zero = cg_i64(c, 0), row = cg_mul(c, cg_index(c, o_part, s->m, k), s->part_inner);
  put_run(s, row, place_of(s, o, zero, zero), s->inner_lo, s->inner_hi, true);
}

// The same where the source has fewer columns than the result.
static void put_part(const Scatter *s, V o_part, V o, V k) {
  Cg *c = s->c;
  V row = cg_mul(c, cg_index(c, o_part, s->m, k), s->part_inner), zero = cg_i64(c, 0);
  for (Loop l = cg_count(c, s->part_inner); cg_next(&l);) {
    V i = cg_part_offset(c, s->part, s->whole, s->axis + 1, ir_rank(c->f->prog, s->whole), l.i);
    V is_mine = cg_between(c, i, s->inner_lo, s->inner_hi);
    for (If mine = cg_when(c, is_mine); cg_then(&mine);) put_one(s, cg_add(c, row, l.i), place_of(s, o, zero, i));
  }
}

static void put_all(const Scatter *s) {
  Cg *c = s->c;
  const Prog *p = c->f->prog;
  bool same = cg_same_axes(p, s->part, s->whole, 0, s->axis);
  bool same_columns = cg_same_axes(p, s->part, s->whole, s->axis + 1, ir_rank(p, s->whole));
  bool is_last = !s->by_slice && same_columns && cg_is_int(s->to.inner, 1);
  V zero = cg_i64(c, 0);
  for (Loop o = cg_each(c, same ? s->outer_lo : zero, same ? s->outer_hi : s->part_outer); cg_next(&o);) {
    V to = cg_part_offset(c, s->part, s->whole, 0, s->axis, o.i);
    for (If mine = cg_when(c, same ? NULL : cg_between(c, to, s->outer_lo, s->outer_hi)); cg_then(&mine);)
      if (is_last) {
        put_run(s, cg_mul(c, o.i, s->m), place_of(s, to, zero, zero), zero, s->m, false);
      } else {
        for (Loop k = cg_count(c, s->m); cg_next(&k);)
          if (s->by_slice) put_slice(s, o.i, k.i);
          else if (same_columns) put_columns_of(s, o.i, to, k.i);
          else put_part(s, o.i, to, k.i);
      }
  }
}

bool cg_emit_axis_scatter(Cg *c) {
  Val v = {c->k->first}, index = ir_arg(c->f, v, 1), source = ir_arg(c->f, v, 2);
  const Ins *ins = ir_ins(c->f, v);
  Scatter s = {.c = c, .op = (Op)ins->op, .type = (DType)ins->dtype, .whole = ins->shape};
  s.by_slice = ir_names_slices(c->f, v);
  s.axis = (uint32_t)ir_attr_int(c->f, v, KEY_axis, 0);
  s.is_number = ir_rank(c->f->prog, ir_ins(c->f, source)->shape) == 0;
  s.part = s.by_slice ? s.whole : ir_ins(c->f, index)->shape;
  s.to = cg_axis_of(c, s.whole, s.axis);
  CgAxis part = cg_axis_of(c, s.part, s.axis);
  s.part_outer = part.outer, s.part_inner = part.inner;
  s.m = s.by_slice ? cg_numel(c, ir_ins(c->f, index)->shape) : part.n;
  s.target = cg_ptr(c, ir_arg(c->f, v, 0)), s.index = cg_ptr(c, index), s.source = cg_ptr(c, source),
  s.y = cg_ptr(c, v);
  divide(&s);
  make_spare(&s);
  start(&s);
  put_all(&s);
  return true;
}
