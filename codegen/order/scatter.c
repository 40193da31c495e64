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
#include "codegen/order/axis.h"

typedef LLVMValueRef V;

enum { MANY_SLICES = 8, WIDE = 64, COLUMN_GRAIN = 16 };
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
} Scatter;

static LLVMTypeRef elem(const Scatter *s) { return cg_elem_type(s->c, s->type); }

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

static V place_of(const Scatter *s, V o, V place, V i) {
  Cg *c = s->c;
  return cg_add(c, cg_mul(c, cg_add(c, cg_mul(c, o, s->to.n), place), s->to.inner), i);
}

static bool is_const(V v, int64_t want) {
  int64_t x;
  return cg_const_value(v, &x) && x == want;
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
  case OP_scatter_amax:
  case OP_scatter_amin:
    if (is_f32) return cg_primitive(c, s->op == OP_scatter_amax ? OP_max : OP_min, (V[]){old, x});
    return LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, s->op == OP_scatter_amax ? LLVMIntSGT : LLVMIntSLT, x, old, ""), x,
                           old, "");
  default: return x;
  }
}

static void put(const Scatter *s, V x, V place) {
  Cg *c = s->c;
  V at = cg_at(c, elem(s), s->y, place);
  bool replaces = s->op == OP_scatter || s->op == OP_index_copy;
  cg_store(c, replaces ? x : combined(s, cg_load(c, elem(s), at), x), at);
}

static V source_at(const Scatter *s, V at) {
  return cg_load(s->c, elem(s), s->is_number ? s->source : cg_at(s->c, elem(s), s->source, at));
}

static V index_at(const Scatter *s, V at) { return cg_load(s->c, s->c->i64, cg_at(s->c, s->c->i64, s->index, at)); }

// Opens what is done for an index: where it names a place of this worker.
static void begin_own(const Scatter *s, If *own, V index, V at) {
  Cg *c = s->c;
  If out;
  cg_if(c, &out, LLVMBuildICmp(c->b, LLVMIntUGE, index, s->to.n, ""));
  cg_report(c, TN_KERR_INDEX_RANGE, at, index);
  cg_endif(c, &out);
  V n = cg_sub(c, s->place_hi, s->place_lo);
  cg_if(c, own, LLVMBuildICmp(c->b, LLVMIntULT, LLVMBuildSub(c->b, index, s->place_lo, ""), n, ""));
}

// ---- slices: columns [inner_lo, inner_hi) of slice k of the source
static void put_slice(const Scatter *s, V o, V k) {
  Cg *c = s->c;
  uint32_t lanes = s->is_number || c->t->loses_nan ? 1 : c->t->vl;
  LLVMTypeRef vec = cg_vector_type(c, s->type, lanes);
  V index = index_at(s, k), from = cg_mul(c, cg_add(c, cg_mul(c, o, s->m), k), s->part_inner);
  If own;
  Loop l;
  begin_own(s, &own, index, k);
  V to = place_of(s, o, index, cg_i64(c, 0)), unit = cg_i64(c, lanes), n = cg_sub(c, s->inner_hi, s->inner_lo);
  V tail = cg_add(c, s->inner_lo, cg_mul(c, cg_div(c, n, unit), unit));
  cg_loop_begin(c, &l, s->inner_lo, lanes > 1 ? tail : s->inner_lo, unit, NULL, 0);
  V at = cg_at(c, elem(s), s->y, cg_add(c, to, l.i));
  V x = lanes > 1 ? cg_load(c, vec, cg_at(c, elem(s), s->source, cg_add(c, from, l.i))) : source_at(s, from);
  cg_store(c, combined(s, cg_load(c, vec, at), x), at);
  cg_loop_end(c, &l, NULL);
  cg_loop_begin(c, &l, lanes > 1 ? tail : s->inner_lo, s->inner_hi, cg_i64(c, 1), NULL, 0);
  put(s, source_at(s, cg_add(c, from, l.i)), cg_add(c, to, l.i));
  cg_loop_end(c, &l, NULL);
  cg_endif(c, &own);
}

// ---- the columns of this worker in place k of the source, which may have fewer than the result
static void put_elements(const Scatter *s, V o_part, V o, V k) {
  Cg *c = s->c;
  V row = cg_mul(c, cg_add(c, cg_mul(c, o_part, s->m), k), s->part_inner);
  uint32_t rank = ir_rank(c->f->prog, s->whole);
  bool same = cg_same_axes(c->f->prog, s->part, s->whole, s->axis + 1, rank);
  Loop l;
  If mine, own;
  cg_loop_begin(c, &l, same ? s->inner_lo : cg_i64(c, 0), same ? s->inner_hi : s->part_inner, cg_i64(c, 1), NULL, 0);
  V i = cg_part_offset(c, s->part, s->whole, s->axis + 1, rank, l.i), at = cg_add(c, row, l.i);
  if (!same)
    cg_if(c, &mine,
          LLVMBuildICmp(c->b, LLVMIntULT, LLVMBuildSub(c->b, i, s->inner_lo, ""), cg_sub(c, s->inner_hi, s->inner_lo),
                        ""));
  V index = index_at(s, at);
  begin_own(s, &own, index, at);
  put(s, source_at(s, at), place_of(s, o, index, i));
  cg_endif(c, &own);
  if (!same) cg_endif(c, &mine);
  cg_loop_end(c, &l, NULL);
}

static void put_all(const Scatter *s) {
  Cg *c = s->c;
  bool same = cg_same_axes(c->f->prog, s->part, s->whole, 0, s->axis);
  V zero = cg_i64(c, 0), one = cg_i64(c, 1);
  Loop o, k;
  If mine;
  cg_loop_begin(c, &o, same ? s->outer_lo : zero, same ? s->outer_hi : s->part_outer, one, NULL, 0);
  V to = cg_part_offset(c, s->part, s->whole, 0, s->axis, o.i);
  if (!same)
    cg_if(c, &mine,
          LLVMBuildICmp(c->b, LLVMIntULT, LLVMBuildSub(c->b, to, s->outer_lo, ""), cg_sub(c, s->outer_hi, s->outer_lo),
                        ""));
  cg_loop_begin(c, &k, zero, s->m, one, NULL, 0);
  if (s->by_slice) put_slice(s, o.i, k.i);
  else put_elements(s, o.i, to, k.i);
  cg_loop_end(c, &k, NULL);
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
  start(&s);
  put_all(&s);
  return true;
}
