// Elements put, added or compared by index along an axis: the scatters (an index for each element of the source) and
// index_copy, index_add (one for each slice). The result starts as operand 0, in whose place it may lie.
//
//   y[o][index][i] = f(y[o][index][i], source[o][k][i])     y seen as [outer][n][inner], the source as [..][m][..]
//
// What happens to an element of the result happens in the order of k, whatever the number of workers: each owns
//   OUTER    some of the outer slices
//   INNER    some of the columns, where there are few slices
//   PLACES   some places along the axis, where there is little else: every worker walks all indices
// No atomics, and no barrier: a worker copies what it owns of operand 0 first.
//
// Indices that lie side by side are taken in groups, with one branch for the check of all. In a group a place that
// another worker owns is replaced by a spare one, for the same arithmetic: which worker owns it cannot be predicted.
#include "codegen/emitters.h"
#include "codegen/math/primitives.h"
#include "codegen/order/axis.h"

typedef LLVMValueRef V;

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

static bool is_const(V v, int64_t want) {
  int64_t x;
  return cg_const_value(v, &x) && x == want;
}

// ---- what a worker owns
static int64_t bound_of(const Prog *p, Shape s, uint32_t from, uint32_t to) {
  int64_t n = 1;
  for (uint32_t k = from; k < to; k++) n *= ir_dim_bound(p, ir_dim_at(p, s, k));
  return n;
}

static void divide(Scatter *s) {
  Cg *c = s->c;
  const Prog *p = c->f->prog;
  V zero = cg_i64(c, 0);
  s->outer_lo = s->inner_lo = s->place_lo = zero;
  s->outer_hi = s->to.outer, s->inner_hi = s->to.inner, s->place_hi = s->to.n;
  Split by = bound_of(p, s->whole, 0, s->axis) >= MANY_SLICES                   ? OUTER
             : bound_of(p, s->whole, s->axis + 1, ir_rank(p, s->whole)) >= WIDE ? INNER
                                                                                : PLACES;
  if (by == OUTER) cg_share(c, s->to.outer, 1, &s->outer_lo, &s->outer_hi);
  if (by == INNER) cg_share(c, s->to.inner, COLUMN_GRAIN, &s->inner_lo, &s->inner_hi);
  if (by == PLACES) cg_share(c, s->to.n, COLUMN_GRAIN, &s->place_lo, &s->place_hi);
}

// Zeros, so that no sum of them is slow as those of denormal numbers are.
static void make_spare(Scatter *s) {
  Cg *c = s->c;
  Loop l;
  if (is_const(s->place_lo, 0)) return;
  s->spare = cg_block(c, c->i64, GROUP * LINE / 8);
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, GROUP), cg_i64(c, 1), NULL, 0);
  cg_store(c, cg_i64(c, 0), cg_at(c, c->i8, s->spare, cg_mul(c, l.i, cg_i64(c, LINE))));
  cg_loop_end(c, &l, NULL);
}

static V place_of(const Scatter *s, V o, V place, V i) {
  Cg *c = s->c;
  return cg_add(c, cg_mul(c, cg_add(c, cg_mul(c, o, s->to.n), place), s->to.inner), i);
}

// The places of slice o that this worker owns, from operand 0: at once where it owns all columns.
static void start_slice(const Scatter *s, V o) {
  Cg *c = s->c;
  bool whole = s->inner_hi == s->to.inner && is_const(s->inner_lo, 0);
  V zero = cg_i64(c, 0);
  Loop l;
  if (whole) {
    V first = place_of(s, o, s->place_lo, zero), n = cg_mul(c, cg_sub(c, s->place_hi, s->place_lo), s->to.inner);
    cg_copy_run(c, s->type, cg_at(c, elem(s), s->y, first), cg_at(c, elem(s), s->target, first), n);
    return;
  }
  cg_loop_begin(c, &l, s->place_lo, s->place_hi, cg_i64(c, 1), NULL, 0);
  V first = place_of(s, o, l.i, s->inner_lo), n = cg_sub(c, s->inner_hi, s->inner_lo);
  cg_copy_run(c, s->type, cg_at(c, elem(s), s->y, first), cg_at(c, elem(s), s->target, first), n);
  cg_loop_end(c, &l, NULL);
}

// Unless the result lies in its place.
static void start(const Scatter *s) {
  Cg *c = s->c;
  If apart;
  Loop o;
  cg_if(c, &apart, LLVMBuildICmp(c->b, LLVMIntNE, s->target, s->y, ""));
  cg_loop_begin(c, &o, s->outer_lo, s->outer_hi, cg_i64(c, 1), NULL, 0);
  start_slice(s, o.i);
  cg_loop_end(c, &o, NULL);
  cg_endif(c, &apart);
}

// ---- elements
static V combined(const Scatter *s, V old, V x) {
  Cg *c = s->c;
  bool is_f32 = s->type == DT_F32;
  switch (s->op) {
  case OP_scatter_add:
  case OP_index_add: return is_f32 ? LLVMBuildFAdd(c->b, old, x, "") : LLVMBuildAdd(c->b, old, x, "");
  case OP_scatter_prod: return is_f32 ? LLVMBuildFMul(c->b, old, x, "") : LLVMBuildMul(c->b, old, x, "");
  case OP_scatter_amax:
  case OP_scatter_amin:
    if (is_f32) return cg_primitive(c, s->op == OP_scatter_amax ? OP_max : OP_min, (V[]){old, x});
    return LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, s->op == OP_scatter_amax ? LLVMIntSGT : LLVMIntSLT, x, old, ""), x,
                           old, "");
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

static V index_at(const Scatter *s, V at) { return cg_load(s->c, s->c->i64, cg_at(s->c, s->c->i64, s->index, at)); }

// Opens what is done for an index: where it names a place of this worker.
static void begin_own(const Scatter *s, If *own, V index, V at) {
  Cg *c = s->c;
  If out;
  cg_if(c, &out, LLVMBuildICmp(c->b, LLVMIntUGE, index, s->to.n, ""));
  cg_report_index(c, at, index);
  cg_endif(c, &out);
  V n = cg_sub(c, s->place_hi, s->place_lo);
  cg_if(c, own, LLVMBuildICmp(c->b, LLVMIntULT, LLVMBuildSub(c->b, index, s->place_lo, ""), n, ""));
}

// ---- slices: columns [inner_lo, inner_hi) of slice k of the source
// The columns of the place of a slice that comes later.
static void prefetch_slice(const Scatter *s, V o, V k) {
  Cg *c = s->c;
  V last = cg_sub(c, s->m, cg_i64(c, 1)), index = index_at(s, cg_min(c, cg_add(c, k, cg_i64(c, AHEAD)), last));
  V inside = LLVMBuildICmp(c->b, LLVMIntULT, index, s->to.n, "");
  V to = place_of(s, o, LLVMBuildSelect(c->b, inside, index, cg_i64(c, 0), ""), cg_i64(c, 0));
  V step = cg_i64(c, LINE / 4), end = cg_min(c, s->inner_hi, cg_add(c, s->inner_lo, cg_i64(c, 4 * LINE / 4)));
  Loop l;
  cg_loop_begin(c, &l, s->inner_lo, end, step, NULL, 0);
  cg_prefetch_l1(c, cg_at(c, elem(s), s->y, cg_add(c, to, l.i)));
  cg_loop_end(c, &l, NULL);
}

// Columns from lo on, by `lanes` at a time; returns where the rest begins.
static V put_columns(const Scatter *s, V to, V from, V lo, uint32_t lanes) {
  Cg *c = s->c;
  LLVMTypeRef vec = cg_vector_type(c, s->type, lanes);
  V unit = cg_i64(c, lanes), n = cg_sub(c, s->inner_hi, lo), end = cg_add(c, lo, cg_mul(c, cg_div(c, n, unit), unit));
  Loop l;
  cg_loop_begin(c, &l, lo, end, unit, NULL, 0);
  V at = cg_at(c, elem(s), s->y, cg_add(c, to, l.i)), x = cg_at(c, elem(s), s->source, cg_add(c, from, l.i));
  cg_store(c, combined(s, cg_load(c, vec, at), cg_load(c, vec, x)), at);
  cg_loop_end(c, &l, NULL);
  return end;
}

static void put_slice(const Scatter *s, V o, V k) {
  Cg *c = s->c;
  bool by_vectors = !s->is_number && !c->t->loses_nan;
  V index = index_at(s, k), from = cg_mul(c, cg_add(c, cg_mul(c, o, s->m), k), s->part_inner), done = s->inner_lo;
  If own;
  Loop l;
  prefetch_slice(s, o, k);
  begin_own(s, &own, index, k);
  V to = place_of(s, o, index, cg_i64(c, 0));
  if (by_vectors) done = put_columns(s, to, from, done, c->t->vl);
  cg_loop_begin(c, &l, done, s->inner_hi, cg_i64(c, 1), NULL, 0);
  put(s, source_at(s, cg_add(c, from, l.i)), cg_add(c, to, l.i));
  cg_loop_end(c, &l, NULL);
  cg_endif(c, &own);
}

// ---- elements that lie side by side in source and index: [at, at + n) go to base + index inner, and where they are
// columns, each to the next one
static void put_one(const Scatter *s, V at, V base) {
  Cg *c = s->c;
  V index = index_at(s, at);
  If own;
  begin_own(s, &own, index, at);
  put(s, source_at(s, at), cg_add(c, base, cg_mul(c, index, s->to.inner)));
  cg_endif(c, &own);
}

static V are_inside(const Scatter *s, V at) {
  Cg *c = s->c;
  V index = cg_load(c, cg_vector_type(c, DT_I64, GROUP), cg_at(c, c->i64, s->index, at));
  V good = LLVMBuildICmp(c->b, LLVMIntULT, index, cg_splat_n(c, s->to.n, GROUP), "");
  good = LLVMBuildBitCast(c->b, good, LLVMIntTypeInContext(c->ctx, GROUP), "");
  return LLVMBuildICmp(c->b, LLVMIntEQ, good, LLVMConstAllOnes(LLVMTypeOf(good)), "");
}

static void put_group(const Scatter *s, V at, V base, bool are_columns) {
  Cg *c = s->c;
  If all;
  cg_if(c, &all, are_inside(s, at));
  for (uint32_t k = 0; k < GROUP; k++) {
    V unit = cg_i64(c, k), from = cg_add(c, at, unit), index = index_at(s, from);
    V to = cg_add(c, are_columns ? cg_add(c, base, unit) : base, cg_mul(c, index, s->to.inner));
    V place = cg_at(c, elem(s), s->y, to), n = cg_sub(c, s->place_hi, s->place_lo);
    if (s->spare) {
      V own = LLVMBuildICmp(c->b, LLVMIntULT, LLVMBuildSub(c->b, index, s->place_lo, ""), n, "");
      place = LLVMBuildSelect(c->b, own, place, cg_at(c, c->i8, s->spare, cg_i64(c, k * LINE)), "");
    }
    put_at(s, source_at(s, from), place);
  }
  cg_else(c, &all);
  for (uint32_t k = 0; k < GROUP; k++) {
    V unit = cg_i64(c, k);
    put_one(s, cg_add(c, at, unit), are_columns ? cg_add(c, base, unit) : base);
  }
  cg_endif(c, &all);
}

// Elements [lo, hi) of the run of source and index that begins at `from`.
static void put_run(const Scatter *s, V from, V base, V lo, V hi, bool are_columns) {
  Cg *c = s->c;
  V unit = cg_i64(c, GROUP), tail = cg_add(c, lo, cg_mul(c, cg_div(c, cg_sub(c, hi, lo), unit), unit));
  Loop l;
  cg_loop_begin(c, &l, lo, tail, unit, NULL, 0);
  put_group(s, cg_add(c, from, l.i), are_columns ? cg_add(c, base, l.i) : base, are_columns);
  cg_loop_end(c, &l, NULL);
  cg_loop_begin(c, &l, tail, hi, cg_i64(c, 1), NULL, 0);
  put_one(s, cg_add(c, from, l.i), are_columns ? cg_add(c, base, l.i) : base);
  cg_loop_end(c, &l, NULL);
}

// ---- the columns of this worker in place k of the source
static void put_columns_of(const Scatter *s, V o_part, V o, V k) {
  Cg *c = s->c;
  V zero = cg_i64(c, 0), row = cg_mul(c, cg_add(c, cg_mul(c, o_part, s->m), k), s->part_inner);
  put_run(s, row, place_of(s, o, zero, zero), s->inner_lo, s->inner_hi, true);
}

// The same where the source has fewer columns than the result.
static void put_part(const Scatter *s, V o_part, V o, V k) {
  Cg *c = s->c;
  V row = cg_mul(c, cg_add(c, cg_mul(c, o_part, s->m), k), s->part_inner), zero = cg_i64(c, 0);
  Loop l;
  If mine;
  cg_loop_begin(c, &l, zero, s->part_inner, cg_i64(c, 1), NULL, 0);
  V i = cg_part_offset(c, s->part, s->whole, s->axis + 1, ir_rank(c->f->prog, s->whole), l.i);
  V is_mine =
      LLVMBuildICmp(c->b, LLVMIntULT, LLVMBuildSub(c->b, i, s->inner_lo, ""), cg_sub(c, s->inner_hi, s->inner_lo), "");
  cg_if(c, &mine, is_mine);
  put_one(s, cg_add(c, row, l.i), place_of(s, o, zero, i));
  cg_endif(c, &mine);
  cg_loop_end(c, &l, NULL);
}

static void put_all(const Scatter *s) {
  Cg *c = s->c;
  const Prog *p = c->f->prog;
  bool same = cg_same_axes(p, s->part, s->whole, 0, s->axis);
  bool same_columns = cg_same_axes(p, s->part, s->whole, s->axis + 1, ir_rank(p, s->whole));
  bool is_last = !s->by_slice && same_columns && is_const(s->to.inner, 1);
  V zero = cg_i64(c, 0), one = cg_i64(c, 1);
  Loop o, k;
  If mine;
  cg_loop_begin(c, &o, same ? s->outer_lo : zero, same ? s->outer_hi : s->part_outer, one, NULL, 0);
  V to = cg_part_offset(c, s->part, s->whole, 0, s->axis, o.i);
  if (!same)
    cg_if(c, &mine,
          LLVMBuildICmp(c->b, LLVMIntULT, LLVMBuildSub(c->b, to, s->outer_lo, ""), cg_sub(c, s->outer_hi, s->outer_lo),
                        ""));
  if (is_last) {
    put_run(s, cg_mul(c, o.i, s->m), place_of(s, to, zero, zero), zero, s->m, false);
  } else {
    cg_loop_begin(c, &k, zero, s->m, one, NULL, 0);
    if (s->by_slice) put_slice(s, o.i, k.i);
    else if (same_columns) put_columns_of(s, o.i, to, k.i);
    else put_part(s, o.i, to, k.i);
    cg_loop_end(c, &k, NULL);
  }
  if (!same) cg_endif(c, &mine);
  cg_loop_end(c, &o, NULL);
}

bool cg_emit_axis_scatter(Cg *c) {
  Val v = {c->k->first}, index = ir_arg(c->f, v, 1), source = ir_arg(c->f, v, 2);
  const Ins *ins = ir_ins(c->f, v);
  Scatter s = {.c = c, .op = (Op)ins->op, .type = (DType)ins->dtype, .whole = ins->shape};
  s.by_slice = s.op == OP_index_copy || s.op == OP_index_add;
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
