// Reductions that round nothing: sums and products of integers and bool in i64, modulo 2^64, their largest element or the
// smallest, and the index of the first largest element of any dtype. The order of terms is free, and results are those of
// any team.
//
//   runs      lanes are elements of one run, joined after the last run of a result
//   columns   lanes are neighbouring results; a block of columns walks the rows
//
// Few results of many terms: the terms of a result, in their order, are cut into chunks, whose results lie in scratch
// memory, [chunk][results], and are reduced as columns.
//
// A prologue's elements are computed by single vectors: by flat index if no operand broadcasts, else by rows
// of the operand's last axis.
#include "codegen/emitters.h"
#include "codegen/math/math.h"
#include "codegen/math/primitives.h"
#include "codegen/pointwise/prologue_epilogue.h"
#include "codegen/reduce/axes.h"
#include "codegen/reduce/reduce.h"
#include "ir/passes/plan.h"

#include <math.h>

enum {
  RUN = 8192,  // elements of a chunk, at least
  ROWS = 128,  // places along the axis of a chunk of columns, at least
  MAX_CHUNKS = 64,
  FEW = 8,   // rows or blocks of columns: below, too few to split the work by
  WIDE = 4,  // vectors of vl lanes that are worked on together; of places of elements NARROW
  NARROW = 2,
};

typedef struct {
  Cg *c;
  Op op;
  DType from, to;  // of elements, of what is summed or compared
  DType place;     // of places in registers; in memory they are i64
  bool least;      // compared the other way round: integers with all bits inverted, floats with the other sign
  bool nonzero;    // of each element whether it is not 0
  ReduceWalk w;
  bool runs;
  V n;              // terms of a result
  V x, x_places;    // x_places: the place that each element has; NULL: its index
  RowStrip *made;   // computes the elements; NULL: they are stored
  bool by_rows;     // of `made`: a row is entered before its elements are read
  ReduceWalk rows;  // down columns then: offsets count rows
  V y, y_places;    // either may be NULL
} Reduce;

// Terms [lo, hi) of outer slice `outer`, and the place of the result for its first column.
typedef struct {
  V outer, lo, hi, at;
} Part;

static bool finds_place(const Reduce *r) { return r->op == OP_argmax; }
static uint32_t n_carries(const Reduce *r) { return finds_place(r) ? 2 : 1; }
static uint32_t wide_lanes(const Reduce *r) { return (r->made ? 1 : finds_place(r) ? NARROW : WIDE) * r->c->t->vl; }

static LLVMTypeRef elem(const Reduce *r) { return cg_elem_type(r->c, r->to); }
static LLVMTypeRef place_type(const Reduce *r) { return cg_elem_type(r->c, r->place); }
static V lane_numbers(const Reduce *r, uint32_t lanes) { return cg_lane_numbers_of(place_type(r), lanes); }

static bool is_float(const Reduce *r) { return REAL >> r->to & 1; }

// The result of no terms: 0, 1, or the least number.
static V identity(const Reduce *r, uint32_t lanes) {
  bool is_best = (r->op == OP_amax || r->op == OP_argmax) && r->to != DT_BOOL;
  return cg_number(r->c, r->to, cg_vector_type(r->c, r->to, lanes), is_best ? -INFINITY : r->op == OP_prod);
}

// Turns the smallest element into the largest, and back.
static V turned(const Reduce *r, V x) {
  if (!r->least) return x;
  if (is_float(r)) return cg_fneg(r->c, x);
  if (r->to != DT_BOOL) return cg_not(r->c, x);
  return cg_xor(r->c, x, cg_splat_like(r->c, x, LLVMConstInt(elem(r), 1, false)));
}

static V choose(const Reduce *r, V cond, V a, V b) { return cg_select(r->c, cond, a, b); }
// Is b larger than a? The first NaN is larger than any number.
static V exceeds(const Reduce *r, V b, V a) {
  Cg *c = r->c;
  if (is_float(r)) return cg_and(c, cg_fcmp(c, LLVMRealUGT, b, a), cg_fcmp(c, LLVMRealORD, a, a));
  return cg_compare_integers(c, r->to, OP_gt, b, a);
}

static V are_equal(const Reduce *r, V a, V b) {
  Cg *c = r->c;
  if (!is_float(r)) return cg_eq(c, a, b);
  V both_nan = cg_and(c, cg_fcmp(c, LLVMRealUNO, a, a), cg_fcmp(c, LLVMRealUNO, b, b));
  return cg_or(c, cg_fcmp(c, LLVMRealOEQ, a, b), both_nan);
}

// ---- terms
static V load_of(const Reduce *r, DType t, V base, V at, uint32_t lanes, V mask) {
  Cg *c = r->c;
  return cg_get_masked(c, cg_vector_type(c, t, lanes), base, at, mask);
}

static V load(const Reduce *r, V at, uint32_t lanes, V mask) {
  Cg *c = r->c;
  V x = r->made ? cg_prologue_element(r->made, at, mask) : load_of(r, r->from, r->x, at, lanes, mask);
  if (r->nonzero || r->from == DT_BOOL) x = cg_zext(c, cg_is_set(c, r->from, x), cg_vector_type(c, DT_BOOL, lanes));
  x = turned(r, cg_convert(c, r->nonzero ? DT_BOOL : r->from, r->to, x));
  return mask ? choose(r, mask, x, identity(r, lanes)) : x;
}

static V join(const Reduce *r, V a, V b) {
  if (r->op == OP_sum) return cg_iadd(r->c, a, b);
  if (r->op == OP_prod) return cg_imul(r->c, a, b);
  return choose(r, exceeds(r, b, a), b, a);
}

// carry: the sum, or the largest element of each lane and its place. Places come in their order.
static void take(const Reduce *r, V x, V place, V *carry) {
  if (finds_place(r)) carry[1] = choose(r, exceeds(r, x, carry[0]), place, carry[1]);
  carry[0] = join(r, carry[0], x);
}

static void start(const Reduce *r, uint32_t lanes, V places, V *carry) {
  carry[0] = identity(r, lanes);
  carry[1] = places;
}

// ---- rows
static V across(const Reduce *r, const char *name, V x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return cg_call_intrinsic(r->c, name, &t, 1, &x, 1);
}

// The lower one of two places with equal elements.
static void join_carries(const Reduce *r, V *carry, const V *other) {
  Cg *c = r->c;
  if (finds_place(r)) {
    V more = exceeds(r, other[0], carry[0]), same = are_equal(r, other[0], carry[0]);
    V takes = cg_or(c, more, cg_and(c, same, cg_below(c, other[1], carry[1])));
    carry[1] = choose(r, takes, other[1], carry[1]);
  }
  carry[0] = join(r, carry[0], other[0]);
}

// n of the lanes: those of all such parts, joined.
static void narrow(const Reduce *r, uint32_t n, V *carry) {
  uint32_t lanes = LLVMGetVectorSize(LLVMTypeOf(carry[0]));
  V part[2 * WIDE][2];
  for (uint32_t k = 0; k < n_carries(r); k++)
    for (uint32_t j = 0; j < lanes / n; j++) part[j][k] = cg_some_lanes(r->c, carry[k], j * n, n);
  for (uint32_t k = 0; k < n_carries(r); k++) carry[k] = part[0][k];
  for (uint32_t j = 1; j < lanes / n; j++) join_carries(r, carry, part[j]);
}

static void finish_row(const Reduce *r, V *carry) {
  Cg *c = r->c;
  if (is_float(r)) {
    for (uint32_t n = LLVMGetVectorSize(LLVMTypeOf(carry[0])) / 2; n; n /= 2) narrow(r, n, carry);
    for (uint32_t k = 0; k < 2; k++) carry[k] = LLVMBuildExtractElement(c->b, carry[k], cg_i32(c, 0), "");
    return;
  }
  bool is_sum = r->op == OP_sum, is_prod = r->op == OP_prod;
  V lanes = carry[0];
  carry[0] = across(r,
                    is_sum                ? "llvm.vector.reduce.add"
                    : is_prod             ? "llvm.vector.reduce.mul"
                    : SIGNED >> r->to & 1 ? "llvm.vector.reduce.smax"
                                          : "llvm.vector.reduce.umax",
                    lanes);
  if (!finds_place(r)) return;
  V most = cg_splat_n(c, carry[0], LLVMGetVectorSize(LLVMTypeOf(lanes)));
  V is_most = cg_eq(c, lanes, most);
  carry[1] = across(r, "llvm.vector.reduce.umin", choose(r, is_most, carry[1], LLVMConstAllOnes(LLVMTypeOf(carry[1]))));
}

static V place_of(const Reduce *r, V i) { return r->place == DT_I64 ? i : cg_trunc(r->c, i, place_type(r)); }
static V places_from(const Reduce *r, V i, uint32_t lanes) {
  Cg *c = r->c;
  return cg_iadd(c, cg_splat_n(c, place_of(r, i), lanes), lane_numbers(r, lanes));
}

static V load_places(const Reduce *r, V at, uint32_t lanes, V mask) {
  return cg_convert(r->c, DT_I64, r->place, load_of(r, DT_I64, r->x_places, at, lanes, mask));
}

// Places of the elements from i on of the row at `row`; NULL: the reduction finds no place.
static V places_of(const Reduce *r, V row, V i, uint32_t lanes, V mask) {
  if (!finds_place(r)) return NULL;
  return r->x_places ? load_places(r, cg_add(r->c, row, i), lanes, mask) : places_from(r, i, lanes);
}

// Whole vectors in [lo, hi) of the row at `row`.
static void take_run(const Reduce *r, V row, V lo, V hi, uint32_t lanes, V *carry) {
  Cg *c = r->c;
  uint32_t n = n_carries(r);
  for (Loop l = cg_carry(c, lo, hi, cg_i64(c, lanes), carry, n); cg_next(&l);)
    take(r, load(r, cg_add(c, row, l.i), lanes, NULL), places_of(r, row, l.i, lanes, NULL), carry);
}

static void store_results(const Reduce *r, V at, V mask, V *carry) {
  Cg *c = r->c;
  const V to[] = {r->y, r->y_places};
  V x[] = {turned(r, carry[0]), carry[1]};
  if (finds_place(r)) x[1] = cg_convert(c, r->place, DT_I64, x[1]);
  for (uint32_t k = 0; k < 2; k++)
    if (to[k]) cg_put_masked(c, x[k], to[k], at, mask);
}

// Elements [lo, hi) of the row at `row`. carry: by the widest vectors; then of vl lanes.
static void take_span(const Reduce *r, V row, V lo, V hi, V *carry) {
  Cg *c = r->c;
  uint32_t vl = c->t->vl, wide = wide_lanes(r);
  V n = cg_sub(c, hi, lo), done = lo, whole = cg_add(c, lo, cg_multiple(c, n, cg_i64(c, vl))),
    rest = cg_sub(c, hi, whole);
  int64_t left;
  if (wide > vl) {
    done = cg_add(c, lo, cg_multiple(c, n, cg_i64(c, wide)));
    take_run(r, row, lo, done, wide, carry);
    narrow(r, vl, carry);
  }
  take_run(r, row, done, whole, vl, carry);
  if (cg_const_value(rest, &left) && !left) return;
  V mask = cg_mask(c, rest);
  take(r, load(r, cg_add(c, row, whole), vl, mask), places_of(r, row, whole, vl, mask), carry);
}

// The same for elements that `made` computes row by row.
static void take_made_rows(const Reduce *r, V row, V lo, V hi, V *carry) {
  Cg *c = r->c;
  uint32_t n = n_carries(r);
  V size = cg_max(c, cg_prologue_row_size(r->made), cg_i64(c, 1)), from = cg_add(c, row, lo), to = cg_add(c, row, hi);
  V end = cg_div(c, cg_add(c, to, cg_sub(c, size, cg_i64(c, 1))), size);
  for (Loop l = cg_carry(c, cg_div(c, from, size), end, cg_i64(c, 1), carry, n); cg_next(&l);) {
    V first = cg_mul(c, l.i, size), last = cg_add(c, first, size);
    cg_prologue_enter(r->made, l.i);
    take_span(r, row, cg_sub(c, cg_max(c, first, from), row), cg_sub(c, cg_min(c, last, to), row), carry);
  }
}

static void take_part(const Reduce *r, V row, V lo, V hi, V *carry) {
  if (r->by_rows) take_made_rows(r, row, lo, hi, carry);
  else take_span(r, row, lo, hi, carry);
}

// The runs that have terms in [lo, hi).
static void take_runs(const Reduce *r, V base, V lo, V hi, V *carry) {
  Cg *c = r->c;
  V size = cg_max(c, r->w.inner, cg_i64(c, 1)), end = cg_div(c, cg_add(c, hi, cg_sub(c, size, cg_i64(c, 1))), size);
  for (Loop l = cg_carry(c, cg_div(c, lo, size), end, cg_i64(c, 1), carry, 1); cg_next(&l);) {
    V run = cg_add(c, base, cg_strided_offset(c, r->w.reduced, r->w.n_reduced, l.i)), first = cg_mul(c, l.i, size);
    V of_run = identity(r, wide_lanes(r)), from = cg_max(c, first, lo), to = cg_min(c, cg_add(c, first, size), hi);
    take_part(r, run, cg_sub(c, from, first), cg_sub(c, to, first), &of_run);
    *carry = join(r, *carry, of_run);
  }
}

static void reduce_row(const Reduce *r, const Part *p) {
  Cg *c = r->c;
  uint32_t wide = r->w.n_reduced ? c->t->vl : wide_lanes(r);
  V row = cg_strided_offset(c, r->w.kept, r->w.n_kept, p->outer), carry[2];
  start(r, wide, finds_place(r) ? places_from(r, p->lo, wide) : NULL, carry);
  if (r->w.n_reduced) take_runs(r, row, p->lo, p->hi, carry);
  else take_part(r, row, p->lo, p->hi, carry);
  finish_row(r, carry);
  store_results(r, p->at, NULL, carry);
}

// ---- columns
static void reduce_strip(const Reduce *r, const Part *p, V column, uint32_t lanes, V mask) {
  Cg *c = r->c;
  uint32_t n = n_carries(r);
  const ReduceWalk *w = &r->w, *rows = &r->rows;
  V first = cg_add(c, cg_strided_offset(c, w->kept, w->n_kept, p->outer), column), carry[2];
  V first_row = r->by_rows ? cg_strided_offset(c, rows->kept, rows->n_kept, p->outer) : NULL;
  start(r, lanes, finds_place(r) ? cg_splat_n(c, place_of(r, p->lo), lanes) : NULL, carry);
  for (Loop l = cg_carry(c, p->lo, p->hi, cg_i64(c, 1), carry, n); cg_next(&l);) {
    if (r->by_rows)
      cg_prologue_enter(r->made, cg_add(c, first_row, cg_strided_offset(c, rows->reduced, rows->n_reduced, l.i)));
    V at = cg_add(c, first, cg_strided_offset(c, w->reduced, w->n_reduced, l.i)), place = NULL;
    if (finds_place(r)) place = r->x_places ? load_places(r, at, lanes, mask) : cg_splat_n(c, place_of(r, l.i), lanes);
    take(r, load(r, at, lanes, mask), place, carry);
  }
  store_results(r, cg_add(c, p->at, column), mask, carry);
}

// n columns from `column` on, at most as many as are worked on together.
static void reduce_block(const Reduce *r, const Part *p, V column, V n) {
  Cg *c = r->c;
  uint32_t vl = c->t->vl, wide = wide_lanes(r);
  V end = cg_add(c, column, n), whole = cg_add(c, column, cg_multiple(c, n, cg_i64(c, vl)));
  for (If all = wide > vl ? cg_either(c, cg_eq(c, n, cg_i64(c, wide))) : cg_when(c, NULL); cg_then(&all);)
    if (wide > vl && all.is_true) {
      reduce_strip(r, p, column, wide, NULL);
    } else {
      for (Loop l = cg_each_by(c, column, whole, cg_i64(c, vl)); cg_next(&l);) reduce_strip(r, p, l.i, vl, NULL);
      for (If some = cg_when(c, cg_below(c, whole, end)); cg_then(&some);)
        reduce_strip(r, p, whole, vl, cg_mask(c, cg_sub(c, end, whole)));
    }
}

// ---- the work: units are (chunk, outer slice, block of columns); chunk 0: the terms are not cut
static void reduce_all(const Reduce *r, int64_t chunk) {
  Cg *c = r->c;
  const ReduceWalk *w = &r->w;
  V one = cg_i64(c, 1), width = r->runs ? one : cg_i64(c, wide_lanes(r)), columns = r->runs ? one : w->inner;
  V blocks = r->runs ? one : cg_ceil_div_value(c, w->inner, wide_lanes(r)), slices = cg_mul(c, w->n_outer, blocks);
  V n_chunks = chunk ? cg_ceil_div_value(c, r->n, chunk) : one, lo, hi;
  cg_share(c, cg_mul(c, n_chunks, slices), 1, &lo, &hi);
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);) {
    V which = chunk ? cg_div(c, l.i, slices) : cg_i64(c, 0), rest = cg_sub(c, l.i, cg_mul(c, which, slices));
    V outer = cg_div(c, rest, blocks), column = cg_mul(c, cg_sub(c, rest, cg_mul(c, outer, blocks)), width);
    Part p = {.outer = outer, .lo = cg_i64(c, 0), .hi = r->n};
    if (chunk) p.lo = cg_mul(c, which, cg_i64(c, chunk)), p.hi = cg_min(c, cg_add(c, p.lo, cg_i64(c, chunk)), r->n);
    p.at = cg_mul(c, cg_add(c, cg_mul(c, which, w->n_outer), outer), columns);
    if (r->runs) reduce_row(r, &p);
    else reduce_block(r, &p, column, cg_min(c, width, cg_sub(c, w->inner, column)));
  }
}

// By bounds alone.
typedef struct {
  int64_t results, chunk, n_chunks;  // chunk 0: the terms are not cut
} Cut;

static Cut cut_of(const Fn *f, Val v, const Target *t) {
  ReducedAxes a = cg_reduced_axes(f, v);
  Cut cut = {.results = a.results};
  if (!a.results || !a.terms) return cut;
  int64_t columns = a.runs ? 1 : a.group[a.n - 1].bound;
  if (a.results / columns * cg_ceil_div(columns, WIDE * t->vl) > FEW) return cut;
  int64_t least = a.runs ? RUN : cg_larger(ROWS, cg_ceil_div(RUN, columns));
  if (a.terms < 2 * least) return cut;
  cut.chunk = cg_larger(least, cg_ceil_div(a.terms, MAX_CHUNKS));
  cut.n_chunks = cg_ceil_div(a.terms, cut.chunk);
  return cut;
}

int64_t cg_exact_scratch_bytes(const Fn *f, Val v, const Target *t) {
  Cut cut = cut_of(f, v, t);
  int64_t numbers = ir_ins(f, v)->op == OP_argmax ? 2 : 1;
  return 8 * numbers * cut.n_chunks * cut.results;
}

// The results of all chunks: columns, or the run of a single result.
static void walk_chunks(Reduce *r, const Reduce *of, const Cut *cut) {
  Cg *c = r->c;
  V one = cg_i64(c, 1), results = of->runs ? of->w.n_outer : cg_mul(c, of->w.n_outer, of->w.inner);
  r->n = cg_ceil_div_value(c, of->n, cut->chunk), r->runs = cg_is_int(results, 1);
  r->w = (ReduceWalk){.n_outer = one, .n_rows = one, .inner = r->runs ? r->n : results};
  if (r->runs) return;
  r->w.reduced[r->w.n_reduced++] = (StridedAxis){r->n, results};
  r->w.n_rows = r->n;
}

static void reduce_by_chunks(const Reduce *r, const Cut *cut) {
  Cg *c = r->c;
  Reduce first = *r, second = *r;
  V places = finds_place(r) ? cg_at(c, c->i64, c->scratch, cg_i64(c, cut->n_chunks * cut->results)) : NULL;
  first.y = c->scratch, first.y_places = places;
  reduce_all(&first, cut->chunk);
  cg_wait_for_team(c);
  second.from = r->to, second.nonzero = false, second.x = c->scratch, second.x_places = places;
  second.made = NULL, second.by_rows = false;
  walk_chunks(&second, r, cut);
  reduce_all(&second, 0);
}

static bool prologue_of(Reduce *r) {
  r->made = cg_prologue_flat(r->c);
  r->by_rows = !r->made;
  if (r->by_rows) r->made = cg_prologue_new(r->c);
  return r->made != NULL;
}

// No reduced axis: each element is a run of its own.
static void walk_elements(Reduce *r) {
  V one = cg_i64(r->c, 1), n = r->w.inner;
  r->w = (ReduceWalk){.n_outer = n, .n_rows = one, .inner = one};
  r->w.kept[r->w.n_kept++] = (StridedAxis){n, one};
  r->runs = true, r->n = one;
}

bool cg_emit_exact_reduce(Cg *c) {
  Val v = ir_anchor(c->f, c->k), a = ir_arg(c->f, v, 0);
  const Ins *ins = ir_ins(c->f, v), *of = ir_ins(c->f, a);
  if (ir_shape_bound(c->f->prog, ins->shape) == 0) return true;
  Reduce r = {.c = c, .op = (Op)ins->op, .from = (DType)of->dtype, .to = (DType)ins->dtype, .place = DT_I64};
  if (finds_place(&r) && REAL >> r.from & 1) r.to = r.from, r.place = ir_dtype_bytes[r.from] == 4 ? DT_I32 : DT_I64;
  r.least = ir_attr(c->f, v, KEY_least) != NULL, r.nonzero = ir_attr(c->f, v, KEY_nonzero) != NULL;
  ReducedAxes axes = cg_reduced_axes(c->f, v);
  r.w = cg_reduce_walk(c, v, &axes, NULL), r.runs = axes.runs;
  r.n = r.runs ? cg_mul(c, r.w.n_rows, r.w.inner) : r.w.n_rows;
  if (v.i > c->k->first && !prologue_of(&r)) return false;
  if (r.by_rows && !r.runs && axes.n == 1) walk_elements(&r);
  else if (r.by_rows && !r.runs) r.rows = cg_reduce_walk(c, v, &axes, cg_i64(c, 1));
  bool is_empty = ir_shape_bound(c->f->prog, of->shape) == 0;
  r.x = is_empty || r.made ? LLVMConstNull(c->ptr) : cg_ptr(c, a);
  *(finds_place(&r) ? &r.y_places : &r.y) = cg_ptr(c, v);
  Cut cut = cut_of(c->f, v, c->t);
  if (cut.chunk && c->scratch) reduce_by_chunks(&r, &cut);
  else reduce_all(&r, 0);
  return true;
}
