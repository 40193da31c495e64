// Reductions of integers and bool along neighbouring axes: sums and products in i64, modulo 2^64, the largest element or
// the smallest, and where the first of these stands.
//
// Seen as [outer][n][inner], n the axes, called the axis below. Nothing is rounded: the order of terms is free, and results
// are those of any team.
//
//   inner 1   rows: lanes are elements of one row, joined behind it
//   else      columns: lanes are neighbouring results; a block of columns walks the axis
//
// Few results of many terms: the axis is cut into chunks, whose results lie in scratch memory, [chunk][outer][inner], and
// are reduced as columns.
//
// Elements that a prologue computes are taken by single vectors: by their flat index where no operand broadcasts, else by
// rows of the operand's last axis.
#include "codegen/emitters.h"
#include "codegen/order/axis.h"
#include "codegen/pointwise/prologue_epilogue.h"
#include "codegen/reduce/reduce.h"
#include "ir/interp/interpret.h"
#include "ir/passes/plan.h"

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
  bool least;      // compared with all bits the other way
  bool nonzero;    // of each element whether it is not 0
  CgAxis of;
  V x, x_places;   // x_places: which places the elements stand for; NULL: their own
  RowStrip *made;  // computes the elements; NULL: they are stored
  bool by_rows;    // of `made`: a row is entered before its elements are read
  V y, y_places;   // either may be NULL
} Reduce;

// A part of the axis of outer slice `outer`, and the place of the result for its first column.
typedef struct {
  V outer, lo, hi, at;
} Part;

static bool finds_place(const Reduce *r) { return r->op == OP_whole_argmax; }
static uint32_t n_carries(const Reduce *r) { return finds_place(r) ? 2 : 1; }
static uint32_t wide_lanes(const Reduce *r) { return (r->made ? 1 : finds_place(r) ? NARROW : WIDE) * r->c->t->vl; }
static bool is_signed(DType t) { return t == DT_I64 || t == DT_I32; }

static LLVMTypeRef elem(const Reduce *r) { return cg_elem_type(r->c, r->to); }
static V splat(const Reduce *r, int64_t x, uint32_t lanes) {
  return cg_splat_n(r->c, LLVMConstInt(elem(r), (uint64_t)x, true), lanes);
}
static V lane_numbers(Cg *c, uint32_t lanes) {
  V lane[64];
  for (uint32_t k = 0; k < lanes; k++) lane[k] = cg_i64(c, k);
  return LLVMConstVector(lane, lanes);
}

static int64_t identity_of(const Reduce *r) {
  if (r->op == OP_whole_sum) return 0;
  if (r->op == OP_whole_prod) return 1;
  return r->to == DT_BOOL ? 0 : ir_to_whole(r->to, -0x1p63);  // the least number
}

// What is the smallest element becomes the largest, and back.
static V turned(const Reduce *r, V x) {
  if (!r->least) return x;
  if (r->to != DT_BOOL) return cg_not(r->c, x);
  return cg_xor(r->c, x, cg_splat_like(r->c, x, LLVMConstInt(elem(r), 1, false)));
}

static V choose(const Reduce *r, V cond, V a, V b) { return cg_select(r->c, cond, a, b); }
static V greater(const Reduce *r, V a, V b) { return cg_icmp(r->c, is_signed(r->to) ? LLVMIntSGT : LLVMIntUGT, a, b); }

// ---- terms
static V load_of(const Reduce *r, DType t, V base, V at, uint32_t lanes, V mask) {
  Cg *c = r->c;
  return cg_get_masked(c, cg_vector_type(c, t, lanes), base, at, mask);
}

static V load(const Reduce *r, V at, uint32_t lanes, V mask) {
  Cg *c = r->c;
  V x = r->made ? cg_prologue_element(r->made, at, mask) : load_of(r, r->from, r->x, at, lanes, mask);
  if (r->nonzero || r->from == DT_BOOL) {
    V zero = LLVMConstNull(LLVMTypeOf(x));
    V is_set = r->from == DT_F32 ? cg_fcmp(c, LLVMRealUNE, x, zero) : cg_ne(c, x, zero);
    x = cg_zext(c, is_set, cg_vector_type(c, DT_BOOL, lanes));
  }
  x = turned(r, cg_convert(c, r->nonzero ? DT_BOOL : r->from, r->to, x));
  return mask ? choose(r, mask, x, splat(r, identity_of(r), lanes)) : x;
}

static V join(const Reduce *r, V a, V b) {
  LLVMBuilderRef at = r->c->b;
  if (r->op == OP_whole_sum) return LLVMBuildAdd(at, a, b, "");
  if (r->op == OP_whole_prod) return LLVMBuildMul(at, a, b, "");
  return choose(r, greater(r, b, a), b, a);
}

// carry: the sum, or the largest element of each lane and its place. Places come in their order.
static void take(const Reduce *r, V x, V place, V *carry) {
  if (finds_place(r)) carry[1] = choose(r, greater(r, x, carry[0]), place, carry[1]);
  carry[0] = join(r, carry[0], x);
}

static void start(const Reduce *r, uint32_t lanes, V places, V *carry) {
  carry[0] = splat(r, identity_of(r), lanes);
  carry[1] = places;
}

// ---- rows
static V across(const Reduce *r, const char *name, V x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return cg_call_intrinsic(r->c, name, &t, 1, &x, 1);
}

static void finish_row(const Reduce *r, V *carry) {
  Cg *c = r->c;
  bool is_sum = r->op == OP_whole_sum, is_prod = r->op == OP_whole_prod;
  V lanes = carry[0];
  carry[0] = across(r,
                    is_sum             ? "llvm.vector.reduce.add"
                    : is_prod          ? "llvm.vector.reduce.mul"
                    : is_signed(r->to) ? "llvm.vector.reduce.smax"
                                       : "llvm.vector.reduce.umax",
                    lanes);
  if (!finds_place(r)) return;
  V most = cg_splat_n(c, carry[0], LLVMGetVectorSize(LLVMTypeOf(lanes)));
  V is_most = cg_eq(c, lanes, most);
  carry[1] = across(r, "llvm.vector.reduce.umin", choose(r, is_most, carry[1], LLVMConstAllOnes(LLVMTypeOf(carry[1]))));
}

// vl of the lanes: those of all vectors, joined.
static void narrow(const Reduce *r, V *carry) {
  Cg *c = r->c;
  uint32_t vl = c->t->vl, n = LLVMGetVectorSize(LLVMTypeOf(carry[0])) / vl;
  V part[2][WIDE];
  for (uint32_t k = 0; k < n_carries(r); k++)
    for (uint32_t j = 0; j < n; j++) {
      V lane[64];
      for (uint32_t i = 0; i < vl; i++) lane[i] = cg_i32(c, (int32_t)(j * vl + i));
      part[k][j] =
          LLVMBuildShuffleVector(c->b, carry[k], LLVMGetPoison(LLVMTypeOf(carry[k])), LLVMConstVector(lane, vl), "");
    }
  carry[0] = part[0][0], carry[1] = part[1][0];
  for (uint32_t j = 1; j < n; j++) {
    if (finds_place(r)) {
      V more = greater(r, part[0][j], carry[0]), same = cg_eq(c, part[0][j], carry[0]);
      V before = cg_below(c, part[1][j], carry[1]);
      V takes = cg_or(c, more, cg_and(c, same, before));
      carry[1] = choose(r, takes, part[1][j], carry[1]);
    }
    carry[0] = join(r, carry[0], part[0][j]);
  }
}

static V places_from(const Reduce *r, V i, uint32_t lanes) {
  Cg *c = r->c;
  return cg_iadd(c, cg_splat_n(c, i, lanes), lane_numbers(c, lanes));
}

// Of elements i .. of the row at `row`; NULL where nobody asks.
static V places_of(const Reduce *r, V row, V i, uint32_t lanes, V mask) {
  if (!finds_place(r)) return NULL;
  return r->x_places ? load_of(r, DT_I64, r->x_places, cg_add(r->c, row, i), lanes, mask) : places_from(r, i, lanes);
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
  const V to[] = {r->y, r->y_places}, x[] = {turned(r, carry[0]), carry[1]};
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
    narrow(r, carry);
  }
  take_run(r, row, done, whole, vl, carry);
  if (cg_const_value(rest, &left) && !left) return;
  V mask = cg_mask(c, rest);
  take(r, load(r, cg_add(c, row, whole), vl, mask), places_of(r, row, whole, vl, mask), carry);
}

// The same of what `made` computes row by row.
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

static void reduce_row(const Reduce *r, const Part *p) {
  Cg *c = r->c;
  uint32_t wide = wide_lanes(r);
  V row = cg_mul(c, p->outer, r->of.n), carry[2];
  start(r, wide, finds_place(r) ? places_from(r, p->lo, wide) : NULL, carry);
  if (r->by_rows) take_made_rows(r, row, p->lo, p->hi, carry);
  else take_span(r, row, p->lo, p->hi, carry);
  finish_row(r, carry);
  store_results(r, p->at, NULL, carry);
}

// ---- columns
static void reduce_strip(const Reduce *r, const Part *p, V column, uint32_t lanes, V mask) {
  Cg *c = r->c;
  uint32_t n = n_carries(r);
  V first = cg_add(c, cg_mul(c, cg_mul(c, p->outer, r->of.n), r->of.inner), column), carry[2];
  start(r, lanes, finds_place(r) ? cg_splat_n(c, p->lo, lanes) : NULL, carry);
  for (Loop l = cg_carry(c, p->lo, p->hi, cg_i64(c, 1), carry, n); cg_next(&l);) {
    if (r->by_rows) cg_prologue_enter(r->made, cg_add(c, cg_mul(c, p->outer, r->of.n), l.i));
    V at = cg_add(c, first, cg_mul(c, l.i, r->of.inner)), place = NULL;
    if (finds_place(r))
      place = r->x_places ? load_of(r, DT_I64, r->x_places, at, lanes, mask) : cg_splat_n(c, l.i, lanes);
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

// ---- the work: units are (chunk, outer slice, block of columns); chunk 0: the axis is whole
static void reduce_all(const Reduce *r, int64_t chunk) {
  Cg *c = r->c;
  int64_t inner;
  bool by_row = cg_const_value(r->of.inner, &inner) && inner == 1;
  V one = cg_i64(c, 1), width = by_row ? one : cg_i64(c, wide_lanes(r));
  V blocks = by_row ? one : cg_ceil_div_value(c, r->of.inner, wide_lanes(r)), slices = cg_mul(c, r->of.outer, blocks);
  V n_chunks = chunk ? cg_ceil_div_value(c, r->of.n, chunk) : one, lo, hi;
  cg_share(c, cg_mul(c, n_chunks, slices), 1, &lo, &hi);
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);) {
    V which = chunk ? cg_div(c, l.i, slices) : cg_i64(c, 0), rest = cg_sub(c, l.i, cg_mul(c, which, slices));
    V outer = cg_div(c, rest, blocks), column = cg_mul(c, cg_sub(c, rest, cg_mul(c, outer, blocks)), width);
    Part p = {.outer = outer, .lo = cg_i64(c, 0), .hi = r->of.n};
    if (chunk) p.lo = cg_mul(c, which, cg_i64(c, chunk)), p.hi = cg_min(c, cg_add(c, p.lo, cg_i64(c, chunk)), r->of.n);
    p.at = cg_mul(c, cg_add(c, cg_mul(c, which, r->of.outer), outer), r->of.inner);
    if (by_row) reduce_row(r, &p);
    else reduce_block(r, &p, column, cg_min(c, width, cg_sub(c, r->of.inner, column)));
  }
}

// By bounds alone.
typedef struct {
  int64_t results, n, chunk, n_chunks;  // chunk 0: the axis is not cut
} Cut;

static int64_t bound_of(const Prog *p, Shape s, uint32_t from, uint32_t to) {
  int64_t n = 1;
  for (uint32_t k = from; k < to; k++) n *= ir_dim_bound(p, ir_dim_at(p, s, k));
  return n;
}

static Cut cut_of(const Fn *f, Val v, const Target *t) {
  const Prog *p = f->prog;
  Shape s = ir_ins(f, ir_arg(f, v, 0))->shape;
  AxisRange axes = ir_reduced_axes(f, v);
  int64_t outer = bound_of(p, s, 0, axes.from), n = bound_of(p, s, axes.from, axes.to);
  int64_t inner = bound_of(p, s, axes.to, ir_rank(p, s));
  Cut cut = {.results = outer * inner, .n = n};
  if (!cut.results || !n || outer * cg_ceil_div(inner, WIDE * t->vl) > FEW) return cut;
  int64_t least = inner == 1 ? RUN : cg_larger(ROWS, cg_ceil_div(RUN, inner));
  if (n < 2 * least) return cut;
  cut.chunk = cg_larger(least, cg_ceil_div(n, MAX_CHUNKS));
  cut.n_chunks = cg_ceil_div(n, cut.chunk);
  return cut;
}

int64_t cg_whole_reduce_scratch_bytes(const Fn *f, Val v, const Target *t) {
  Cut cut = cut_of(f, v, t);
  int64_t numbers = ir_ins(f, v)->op == OP_whole_argmax ? 2 : 1;
  return 8 * numbers * cut.n_chunks * cut.results;
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
  second.of = (CgAxis){cg_i64(c, 1), cg_ceil_div_value(c, r->of.n, cut->chunk), cg_mul(c, r->of.outer, r->of.inner)};
  reduce_all(&second, 0);
}

static bool prologue_of(Reduce *r) {
  r->made = cg_prologue_flat(r->c);
  r->by_rows = !r->made;
  if (r->by_rows) r->made = cg_prologue_new(r->c);
  return r->made != NULL;
}

bool cg_emit_whole_reduce(Cg *c) {
  Val v = ir_anchor(c->f, c->k), a = ir_arg(c->f, v, 0);
  const Ins *ins = ir_ins(c->f, v), *of = ir_ins(c->f, a);
  if (ir_shape_bound(c->f->prog, ins->shape) == 0) return true;
  bool sums = ins->op == OP_whole_sum || ins->op == OP_whole_prod;
  Reduce r = {.c = c, .op = (Op)ins->op, .from = (DType)of->dtype, .to = sums ? DT_I64 : (DType)ins->dtype};
  r.least = ir_attr(c->f, v, KEY_least) != NULL, r.nonzero = ir_attr(c->f, v, KEY_nonzero) != NULL;
  r.of = cg_axes_of(c, of->shape, ir_reduced_axes(c->f, v));
  if (v.i > c->k->first && !prologue_of(&r)) return false;
  bool is_empty = ir_shape_bound(c->f->prog, of->shape) == 0;
  r.x = is_empty || r.made ? LLVMConstNull(c->ptr) : cg_ptr(c, a);
  *(finds_place(&r) ? &r.y_places : &r.y) = cg_ptr(c, v);
  Cut cut = cut_of(c->f, v, c->t);
  if (cut.chunk && c->scratch) reduce_by_chunks(&r, &cut);
  else reduce_all(&r, 0);
  return true;
}
