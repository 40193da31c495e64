// Scans along an axis: running sums, products and extremes, shifts.
//
// Seen as [outer][n][inner], n the axis. Lanes (outer, inner) are independent: each belongs to one worker, and its elements
// are taken in order, so that nothing depends on how many workers there are.
//
//   inner 1    a row at a time; extremes, sums, and products of f32 a vector at a time, whose prefixes are made in the
//              register. Rows of f32 shorter than a vector, where they are many: a lane each (interleave.h)
//   else       UNROLL vectors of neighbouring lanes walk the axis together
//
// With a layout lanes are those of its rows, and steps its steps (codegen/packed/reduce_time.c draws them): blocks of lanes
// go to the workers in turn, and steps that some lanes lack are masked. {reverse}: a lane begins with its sequence's last step.
//
// Sums, those of logcumsumexp too, and products of f32 are kept in doubles and rounded once for each element.
#include "codegen/emitters.h"
#include "codegen/interleave.h"
#include "codegen/math/primitives.h"
#include "codegen/order/axis.h"
#include "codegen/packed/layout.h"

#include <math.h>

enum { UNROLL = 4 };

typedef struct {
  Cg *c;
  Val v;
  Op op;
  DType type;
  bool reverse, exclusive;
  uint32_t lanes;     // of what is walked together: 1 or the target's
  V n, inner, outer;  // sizes
  V x, out, index;    // out, index: NULL where nobody reads the result
} Cumulative;

// ---- types with as many lanes as are walked
static LLVMTypeRef wide(const Cumulative *s, LLVMTypeRef t) { return s->lanes == 1 ? t : LLVMVectorType(t, s->lanes); }
static LLVMTypeRef elem(const Cumulative *s) { return cg_elem_type(s->c, s->type); }
static bool is_float(const Cumulative *s) { return REAL >> s->type & 1; }
static LLVMTypeRef sum_type(const Cumulative *s) { return is_float(s) ? s->c->f64 : s->c->i64; }
static V number(const Cumulative *s, LLVMTypeRef t, double x) {
  bool is_whole = LLVMGetTypeKind(t) == LLVMIntegerTypeKind;
  V one = is_whole ? LLVMConstInt(t, (unsigned long long)(int64_t)x, true) : LLVMConstReal(t, x);
  return cg_spread(s->c, one, s->lanes);
}

static V widen(const Cumulative *s, V x) { return is_float(s) ? cg_fpext(s->c, x, wide(s, s->c->f64)) : x; }
static V narrow(const Cumulative *s, V x) { return is_float(s) ? cg_fptrunc(s->c, x, wide(s, s->c->f32)) : x; }
static V add(const Cumulative *s, V a, V b) { return is_float(s) ? cg_fadd(s->c, a, b) : cg_iadd(s->c, a, b); }
static V mul(const Cumulative *s, V a, V b) { return is_float(s) ? cg_fmul(s->c, a, b) : cg_imul(s->c, a, b); }

// ---- one step
typedef struct {
  V at;    // flat element of the first lane
  V mask;  // lanes that exist; NULL: all
  V j;     // number of the step
} Step;

static V load(const Cumulative *s, V base, const Step *p) {
  return cg_get_masked(s->c, wide(s, elem(s)), base, p->at, p->mask);
}

static void store(const Cumulative *s, V x, V base, const Step *p) {
  if (base) cg_put_masked(s->c, x, base, p->at, p->mask);
}

enum { MOST_CARRIES = 2 };

static uint32_t n_carries(Op op) { return op == OP_cumsum || op == OP_cumprod || op == OP_shift ? 1 : 2; }

static void start(const Cumulative *s, V *carry) {
  LLVMTypeRef sum = sum_type(s), f32 = s->c->f32;
  bool least = s->op == OP_cummin;
  switch (s->op) {
  case OP_cumprod: carry[0] = number(s, sum, 1); return;
  case OP_logcumsumexp: carry[0] = number(s, f32, -INFINITY), carry[1] = number(s, sum, 0); return;
  case OP_cummax:
  case OP_cummin:
    carry[0] = cg_number(s->c, s->type, wide(s, elem(s)), least ? INFINITY : -INFINITY);
    carry[1] = LLVMConstNull(wide(s, s->c->i64));
    return;
  case OP_shift: carry[0] = LLVMConstNull(wide(s, elem(s))); return;
  default: carry[0] = number(s, sum, 0);
  }
}

static void step_cumsum(const Cumulative *s, const Step *p, V *carry) {
  carry[0] = add(s, carry[0], widen(s, load(s, s->x, p)));
  store(s, narrow(s, carry[0]), s->out, p);
}

static void step_cumprod(const Cumulative *s, const Step *p, V *carry) {
  V next = mul(s, carry[0], widen(s, load(s, s->x, p)));
  store(s, narrow(s, s->exclusive ? carry[0] : next), s->out, p);
  carry[0] = next;
}

// carry: the largest so far, and the sum of e^(x - largest). Infinities count as 1 against themselves.
static void step_logcumsumexp(const Cumulative *s, const Step *p, V *carry) {
  Cg *c = s->c;
  V x = load(s, s->x, p), top = carry[0], up = cg_fcmp(c, LLVMRealOGT, x, top);
  V d = cg_fsub(c, x, top), less = cg_select(c, up, cg_fneg(c, d), d);
  V one = number(s, c->f64, 1), e = cg_primitive(c, OP_exp, &less);
  e = cg_select(c, cg_fcmp(c, LLVMRealOEQ, x, top), one, widen(s, e));
  carry[1] = add(s, mul(s, carry[1], cg_select(c, up, e, one)), cg_select(c, up, one, e));
  carry[0] = cg_select(c, up, x, top);
  V sum = narrow(s, carry[1]);
  store(s, cg_fadd(c, carry[0], cg_primitive(c, OP_log, &sum)), s->out, p);
}

static V takes_over(const Cumulative *s, V x, V best) {
  Cg *c = s->c;
  bool least = s->op == OP_cummin;
  if (!is_float(s)) return cg_compare_integers(c, s->type, least ? OP_le : OP_ge, x, best);
  return cg_or(c, cg_fcmp(c, least ? LLVMRealOLE : LLVMRealOGE, x, best), cg_fcmp(c, LLVMRealUNO, x, x));
}

static void step_best(const Cumulative *s, const Step *p, V *carry) {
  Cg *c = s->c;
  V x = load(s, s->x, p), take = takes_over(s, x, carry[0]);
  carry[0] = cg_select(c, take, x, carry[0]);
  carry[1] = cg_select(c, take, cg_spread(c, p->j, s->lanes), carry[1]);
  store(s, carry[0], s->out, p);
  store(s, carry[1], s->index, p);
}

static void step_shift(const Cumulative *s, const Step *p, V *carry) {
  V x = load(s, s->x, p);
  store(s, carry[0], s->out, p);
  carry[0] = x;
}

typedef void StepFn(const Cumulative *s, const Step *p, V *carry);
static StepFn *step_of(Op op) {
  switch (op) {
  case OP_cumsum: return step_cumsum;
  case OP_cumprod: return step_cumprod;
  case OP_logcumsumexp: return step_logcumsumexp;
  case OP_shift: return step_shift;
  default: return step_best;
  }
}

// ---- walks
static V position(const Cumulative *s, V j) {
  return s->reverse ? cg_sub(s->c, cg_sub(s->c, s->n, cg_i64(s->c, 1)), j) : j;
}

// The steps [from, n) of `n_vectors` neighbouring groups of lanes, the first of which begins at element `first`.
static void walk(const Cumulative *s, V from, V first, const V *mask, uint32_t n_vectors, V *carry) {
  Cg *c = s->c;
  uint32_t each = n_carries(s->op);
  for (Loop l = cg_carry(c, from, s->n, cg_i64(c, 1), carry, n_vectors * each); cg_next(&l);) {
    V at = cg_add(c, first, cg_mul(c, position(s, l.i), s->inner));
    for (uint32_t k = 0; k < n_vectors; k++)
      step_of(s->op)(s, &(Step){cg_add(c, at, cg_i64(c, (int64_t)k * s->lanes)), mask[k], l.i}, &carry[k * each]);
  }
}

// ---- rows by vectors
static V reversed(const Cumulative *s, V x, uint32_t n) {
  uint32_t from[64];
  for (uint32_t k = 0; k < n; k++) from[k] = n - 1 - k;
  return cg_shuffle(s->c, x, x, from, n);
}

static V combine(const Cumulative *s, V a, V b) { return s->op == OP_cumsum ? add(s, a, b) : mul(s, a, b); }

// The element `by` lanes before; of the first lanes `none`.
static V earlier(const Cumulative *s, V x, V none, uint32_t by, uint32_t n) {
  uint32_t from[64];
  for (uint32_t k = 0; k < n; k++) from[k] = k < by ? n + k : k - by;
  return cg_shuffle(s->c, x, none, from, n);
}

// x_0, x_0 + x_1, ..: in log2 n steps.
static V prefixes(const Cumulative *s, V x, uint32_t n) {
  V neutral = cg_splat_n(s->c, number(s, sum_type(s), s->op == OP_cumprod), n);
  for (uint32_t by = 1; by < n; by *= 2) x = combine(s, x, earlier(s, x, neutral, by, n));
  return x;
}

// Elements of a vector of sums: half as many integers, whose sums take no wider lanes.
static uint32_t sum_lanes(const Cumulative *s) { return is_float(s) ? s->c->t->vl : s->c->t->vl / 2; }

// Both scan the `whole` first elements, a multiple of vl. All lanes have the sum of what is before.
static void row_of_sums(const Cumulative *s, V whole, V first, V *carry) {
  Cg *c = s->c;
  uint32_t n = sum_lanes(s), last[64];
  LLVMTypeRef many = LLVMVectorType(elem(s), n);
  V before = cg_splat_n(c, *carry, n);
  for (uint32_t k = 0; k < n; k++) last[k] = n - 1;
  for (Loop l = cg_carry(c, cg_i64(c, 0), whole, cg_i64(c, n), &before, 1); cg_next(&l);) {
    V at = s->reverse ? cg_sub(c, cg_sub(c, s->n, cg_i64(c, n)), l.i) : l.i;
    V place = cg_add(c, first, at), x = cg_get(c, many, s->x, place);
    if (s->reverse) x = reversed(s, x, n);
    if (is_float(s)) x = cg_fpext(c, x, LLVMVectorType(c->f64, n));
    x = prefixes(s, x, n);
    V y = combine(s, x, before);
    if (is_float(s)) y = cg_fptrunc(c, y, many);
    cg_put(c, s->reverse ? reversed(s, y, n) : y, s->out, place);
    before = combine(s, before, cg_shuffle(c, x, x, last, n));
  }
  *carry = LLVMBuildExtractElement(c->b, before, cg_i32(c, 0), "");
}

// The lane that an extreme comes from goes with it.
static void row_of_extremes(const Cumulative *s, V whole, V first, V *carry) {
  Cg *c = s->c;
  const uint32_t vl = c->t->vl;
  LLVMTypeRef many = LLVMVectorType(c->i32, vl);
  V last = cg_i32(c, (int32_t)vl - 1), before = cg_splat_n(c, cg_i32(c, -1), vl), none[MOST_CARRIES];
  V numbers = cg_lane_numbers_of(c->i32, vl);
  start(s, none);
  for (Loop l = cg_carry(c, cg_i64(c, 0), whole, cg_i64(c, vl), carry, 2); cg_next(&l);) {
    V place = cg_add(c, first, l.i), x = cg_get(c, LLVMVectorType(elem(s), vl), s->x, place), lane = numbers;
    for (uint32_t by = 1; by < vl; by *= 2) {
      V other = earlier(s, x, cg_splat_n(c, none[0], vl), by, vl), take = takes_over(s, x, other);
      x = cg_select(c, take, x, other);
      lane = cg_select(c, take, lane, earlier(s, lane, before, by, vl));
    }
    V best = cg_splat_n(c, carry[0], vl), take = takes_over(s, x, best);
    x = cg_select(c, take, x, best), lane = cg_select(c, take, lane, before);
    V own = cg_add(c, cg_sext(c, lane, c->vi64), cg_splat_n(c, l.i, vl));
    V index = cg_select(c, cg_lt(c, lane, LLVMConstNull(many)), cg_splat_n(c, carry[1], vl), own);
    if (s->out) cg_put(c, x, s->out, place);
    if (s->index) cg_put(c, index, s->index, place);
    carry[0] = LLVMBuildExtractElement(c->b, x, last, ""), carry[1] = LLVMBuildExtractElement(c->b, index, last, "");
  }
}

static bool is_extreme(const Cumulative *s) { return s->op == OP_cummax || s->op == OP_cummin; }

static void each_row(Cumulative *s) {
  Cg *c = s->c;
  bool adds = s->op == OP_cumsum && sum_lanes(s) > 2;
  bool by_sums = s->out && (adds || (s->op == OP_cumprod && is_float(s) && !s->exclusive));
  V mask = NULL, vl = cg_i64(c, c->t->vl), whole = cg_multiple(c, s->n, vl);
  for (Loop row = cg_each_shared(c, s->outer, 1); cg_next(&row);) {
    V first = cg_mul(c, row.i, s->n), carry[MOST_CARRIES], from = cg_i64(c, 0);
    start(s, carry);
    if (by_sums) row_of_sums(s, whole, first, carry);
    if (is_extreme(s)) row_of_extremes(s, whole, first, carry);
    if (by_sums || is_extreme(s)) from = whole;
    walk(s, from, first, &mask, 1, carry);
  }
}

// ---- short rows, a lane each
static bool takes_row_per_lane(const Cumulative *s, int64_t rows) {
  int64_t n, vl = s->c->t->vl;
  return s->type == DT_F32 && s->out && !s->index && cg_const_value(s->n, &n) && n > 1 && n < vl && rows >= vl;
}

static void each_vector_of_rows(Cumulative *s) {
  Cg *c = s->c;
  int64_t vl = c->t->vl, n = 0;
  cg_const_value(s->n, &n);
  Cumulative block = *s;
  block.lanes = c->t->vl, block.inner = cg_i64(c, vl);
  block.x = cg_block(c, c->f32, n * vl), block.out = cg_block(c, c->f32, n * vl);
  for (Loop l = cg_each_shared(c, cg_ceil_div_value(c, s->outer, vl), 1); cg_next(&l);) {
    V first = cg_mul(c, l.i, cg_i64(c, vl)), n_rows = cg_min(c, cg_i64(c, vl), cg_sub(c, s->outer, first));
    V at = cg_mul(c, first, s->n), carry[MOST_CARRIES], zero = cg_i64(c, 0), mask = NULL;
    cg_interleave(c, (uint32_t)n, cg_at(c, c->f32, s->x, at), n_rows, block.x);
    start(&block, carry);
    walk(&block, zero, zero, &mask, 1, carry);
    cg_deinterleave(c, (uint32_t)n, block.out, n_rows, cg_at(c, c->f32, s->out, at));
  }
}

// ---- neighbouring lanes together
static void each_block(Cumulative *s, uint32_t n_vectors) {
  Cg *c = s->c;
  V block = cg_i64(c, (int64_t)n_vectors * s->lanes), per = cg_ceil_div_value(c, s->inner, n_vectors * s->lanes);
  for (Loop l = cg_each_shared(c, cg_mul(c, s->outer, per), 1); cg_next(&l);) {
    V outer = cg_div(c, l.i, per), at = cg_mul(c, cg_sub(c, l.i, cg_mul(c, outer, per)), block);
    V first = cg_index(c, outer, cg_mul(c, s->n, s->inner), at), mask[UNROLL], carry[UNROLL * MOST_CARRIES];
    uint32_t each = n_carries(s->op);
    V left = cg_sub(c, s->inner, at);
    for (If whole = cg_either(c, cg_ge(c, left, block)); cg_then(&whole);) {
      for (uint32_t k = 0; k < n_vectors; k++) {
        V rest = whole.is_true ? NULL : cg_sub(c, left, cg_i64(c, (int64_t)k * s->lanes));
        mask[k] = rest ? cg_mask(c, cg_max(c, rest, cg_i64(c, 0))) : NULL;
        start(s, &carry[k * each]);
      }
      walk(s, cg_i64(c, 0), first, mask, n_vectors, carry);
    }
  }
}

// ---- lanes of packed rows
typedef struct {
  Cumulative *s;
  V sizes, offsets, sorted, lengths, width;  // of the layout; elements of a row
  V at;                                      // first lane of the block
  V t_end;                                   // steps that any of its lanes has
} Rows;

static V length_at(const Rows *r, V lane) {
  Cg *c = r->s->c;
  return cg_layout_get(c, r->lengths, cg_layout_get(c, r->sorted, cg_div(c, lane, r->width)));
}

// Which lanes of a vector have the step? Behind t_end none.
static V lanes_of(const Rows *r, V t, uint32_t k) {
  Cg *c = r->s->c;
  V some = cg_lt(c, t, r->t_end), size = cg_layout_get(c, r->sizes, cg_select(c, some, t, cg_i64(c, 0)));
  V left = cg_sub(c, cg_mul(c, size, r->width), cg_add(c, r->at, cg_i64(c, (int64_t)k * r->s->lanes)));
  return cg_mask(c, cg_select(c, some, cg_max(c, left, cg_i64(c, 0)), cg_i64(c, 0)));
}

// A lane that has not begun keeps what it carries.
static void step_lanes(const Cumulative *s, const Step *p, V *carry) {
  V had[MOST_CARRIES];
  uint32_t n = s->reverse && p->mask ? n_carries(s->op) : 0;
  for (uint32_t i = 0; i < n; i++) had[i] = carry[i];
  step_of(s->op)(s, p, carry);
  for (uint32_t i = 0; i < n; i++) carry[i] = cg_select(s->c, p->mask, carry[i], had[i]);
}

// The steps number [from, to) of the block.
static void walk_rows(const Rows *r, V from, V to, bool masked, V *carry) {
  const Cumulative *s = r->s;
  Cg *c = s->c;
  uint32_t each = n_carries(s->op);
  V one = cg_i64(c, 1);
  for (Loop l = cg_carry(c, from, to, one, carry, UNROLL * each); cg_next(&l);) {
    V t = s->reverse ? cg_sub(c, cg_sub(c, r->t_end, one), l.i) : l.i;
    V first = cg_index(c, cg_layout_get(c, r->offsets, t), r->width, r->at);
    for (uint32_t k = 0; k < UNROLL; k++) {
      Step p = {cg_add(c, first, cg_i64(c, (int64_t)k * s->lanes)), NULL, t};
      if (masked) p.mask = lanes_of(r, t, k);
      step_lanes(s, &p, &carry[k * each]);
    }
  }
}

// All lanes of a block have its steps up to the length of the last one.
static void each_block_of_rows(Cumulative *s, Val layout) {
  Cg *c = s->c;
  CgLayout l = cg_layout_of(c, layout);
  Rows r = {.s = s, .width = s->inner};
  r.sizes = cg_layout_sizes(c, &l), r.offsets = cg_layout_offsets(c, &l);
  r.sorted = cg_layout_sorted(c, &l), r.lengths = cg_layout_lengths(c, &l);
  int64_t block = (int64_t)UNROLL * s->lanes;
  V zero = cg_i64(c, 0), size = cg_i64(c, block);
  V lanes = cg_mul(c, cg_layout_get(c, l.base, cg_i64(c, TN_LAYOUT_SEQS)), r.width),
    end = cg_sub(c, lanes, cg_i64(c, 1));
  for (Loop b = cg_each_by(c, cg_mul(c, c->worker, size), lanes, cg_mul(c, c->n_workers, size)); cg_next(&b);) {
    V last = cg_add(c, b.i, cg_i64(c, block - 1)), carry[UNROLL * MOST_CARRIES];
    r.at = b.i, r.t_end = length_at(&r, b.i);
    V full = cg_select(c, cg_le(c, last, end), length_at(&r, cg_min(c, last, end)), zero);
    for (uint32_t k = 0; k < UNROLL; k++) start(s, &carry[k * n_carries(s->op)]);
    V begun = s->reverse ? cg_sub(c, r.t_end, full) : full;
    walk_rows(&r, zero, begun, s->reverse, carry);
    walk_rows(&r, begun, r.t_end, !s->reverse, carry);
  }
}

bool cg_emit_cumulative(Cg *c) {
  Val v = {c->k->first}, x = ir_arg(c->f, v, 0);
  Shape shape = ir_ins(c->f, x)->shape;
  Cumulative s = {.c = c, .v = v, .op = (Op)ir_ins(c->f, v)->op, .type = (DType)ir_ins(c->f, x)->dtype, .lanes = 1};
  s.reverse = ir_attr(c->f, v, KEY_reverse), s.exclusive = ir_attr(c->f, v, KEY_exclusive);
  uint32_t axis = (uint32_t)ir_attr_int(c->f, v, KEY_axis, 0);
  CgAxis a = cg_axis_of(c, shape, axis);
  s.n = a.n, s.inner = a.inner, s.outer = a.outer;
  s.x = cg_ptr(c, x), s.out = cg_ptr_or_null(c, v);
  Val layout = ir_operand(c->f, v, ARG_layout);
  if (ir_ins(c->f, v)->n_res > 1) s.index = cg_ptr_or_null(c, ir_result(v, 1));
  if (!ir_none(layout)) {
    s.lanes = c->t->vl;
    each_block_of_rows(&s, layout);
    return true;
  }
  int64_t inner = 0;
  bool is_known = cg_const_value(s.inner, &inner);
  if (is_known && inner == 1) {
    if (takes_row_per_lane(&s, cg_axis_bound(c->f->prog, shape, 0, axis))) each_vector_of_rows(&s);
    else each_row(&s);
    return true;
  }
  s.lanes = c->t->vl;
  bool is_narrow = is_known && inner <= 2 * (int64_t)s.lanes;
  each_block(&s, is_narrow ? 1 : UNROLL);
  return true;
}
