// Linear recurrences, y_k = a_k y_(k-1) + b_k, along an axis or over packed rows, and their gradients, which are the same
// recurrence in the other direction.
//
// A row holds `width` states; lane l of a row is its state l. Lanes are independent: of packed rows, whose steps stand together
// with the longest sequence first, lane l of each step is of one sequence, and runs for its length. What is carried from step to
// step, `side` numbers for each lane, lies in private memory in doubles, and is rounded once for each step:
//
//   forward   carry: y                        y = a carry + b                                        carry = y
//   gradient  carry: the gradient of y from   d = g + carry    db = d    da = d y of the step before   carry = a d
//             the steps behind
//
// A unit is up to LANES lanes of all rows: wide, because rows are read where they lie, and a narrow column of them uses a part
// of each page and of what is prefetched (several times slower from memory, from a shared cache too). Units go to the workers.
// Where bounds say that there are few, the steps are cut into blocks, and the workers take them in turn. What a block does to a
// carry is carry P + H: P the product of its a, H what it leaves of no carry. Each worker finds those of a block, waits,
// applies those of the blocks before its own, and walks its own, which is in its cache by then. Blocks follow from
// bounds, so that bits do not depend on the team.
// Dense values are walked row by row, as they lie in memory. Matrices are walked by groups, and so are gradients, which have
// five arrays, unless their rows are wide: a few vectors of lanes keep their carry in registers for the steps of a block. A
// group is a narrow column of rows that have come into L2 meanwhile: each walk fetches those that its worker takes next.
#include "codegen/emitters.h"
#include "codegen/order/order.h"
#include "codegen/packed/layout.h"
#include "codegen/span.h"
#include "ir/fn.h"

enum {
  LANES = 1024,
  FEW_UNITS = 4,
  BLOCK = 16 * 1024 /* states, in L2 with what they are made of */,
  LEAST_BLOCKS = 4,
  GROUP = 4,          // vectors of lanes whose carry stays in registers for some steps
  LINE = 16,          // states in a cache line
  STEPS_OF_ROWS = 16  // of a gradient's blocks, at most, for walks by rows
};

typedef struct {
  Cg *c;
  bool is_grad, reverse, is_packed, is_constant;
  bool by_rows;              // a dense value is walked row by row; else a group of lanes for some steps
  uint32_t side, lanes;      // lanes: of a vector; 1 where a row is one state
  int64_t turn;              // steps of a dense value that a group of lanes is walked for, before the next one is
  V n, outer, width;         // steps; dense sequences; states of a row
  V sizes, offsets, sorted;  // of the layout
  V a, b, y, h0;             // b: g of a gradient. NULL: absent
  V start, end;              // of the carry, by sequence; NULL: zeros; nobody reads it
  V to[2];                   // y; or da and db. NULL: nobody reads it
} Scan;

typedef struct {
  const Scan *s;
  V outer, lo, hi;   // the sequence of a dense value; lanes
  V carry, initial;  // private: by lane from lo on, each of the `side` numbers LANES apart; initial: h0 of a gradient
  V ahead;           // steps from a row to one that is walked later, which is fetched meanwhile; NULL: none is
} Unit;

// ---- what stands where
static LLVMTypeRef vector(const Scan *s, LLVMTypeRef t) { return s->lanes == 1 ? t : LLVMVectorType(t, s->lanes); }
static V zeros(const Scan *s) { return LLVMConstNull(vector(s, s->c->f64)); }

// Of states that have n numbers each: number k of `state`; of the ones beside it, too
static V number_of(const Scan *s, V state, uint32_t n, uint32_t k) {
  return cg_index(s->c, state, cg_i64(s->c, n), cg_i64(s->c, k));
}

static bool are_apart(const Scan *s, uint32_t n) { return n > 1 && s->lanes > 1; }

static V places(const Scan *s, V state, uint32_t n, uint32_t k) {
  Cg *c = s->c;
  V at = number_of(s, state, n, k);
  if (!are_apart(s, n)) return at;
  return cg_iadd(c, cg_splat(c, at), cg_imul(c, cg_lane_numbers(c), cg_splat(c, cg_i64(c, n))));
}

static V get(const Scan *s, V base, V state, uint32_t n, uint32_t k, V mask) {
  Cg *c = s->c;
  if (!base) return zeros(s);
  V at = places(s, state, n, k);
  V x = are_apart(s, n) ? cg_gather(c, c->f32, base, at, mask) : cg_get_masked(c, vector(s, c->f32), base, at, mask);
  return cg_fpext(c, x, vector(s, c->f64));
}

static void put(const Scan *s, V x, V base, V state, uint32_t n, uint32_t k, V mask) {
  Cg *c = s->c;
  if (!base) return;
  V at = places(s, state, n, k), y = cg_fptrunc(c, x, vector(s, c->f32));
  if (are_apart(s, n)) cg_scatter(c, y, base, at, mask);
  else cg_put_masked(c, y, base, at, mask);
}

// Of number k of the lane in private memory
static V own_place(const Unit *u, V lane, uint32_t k) {
  return cg_add(u->s->c, cg_sub(u->s->c, lane, u->lo), cg_i64(u->s->c, (int64_t)k * LANES));
}

static V get_own(const Unit *u, V block, V lane, uint32_t k) {
  return cg_get(u->s->c, vector(u->s, u->s->c->f64), block, own_place(u, lane, k));
}
static void put_own(const Unit *u, V x, V block, V lane, uint32_t k, V mask) {
  cg_put_masked(u->s->c, x, block, own_place(u, lane, k), mask);
}

typedef struct {
  V states, before, factors;  // first states of the row and of the one before it in the order of y; first factors
  V has_before, old, live;    // is there one; lanes [lo, old) have a state in it; [lo, live) have one in this row
} Row;

// The row of step i, in the order in which rows are walked
static Row row_of(const Unit *u, V i) {
  const Scan *s = u->s;
  Cg *c = s->c;
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), last = cg_sub(c, s->n, one);
  V t = s->is_grad != s->reverse ? cg_sub(c, last, i) : i;
  V has = s->reverse ? cg_lt(c, t, last) : cg_lt(c, zero, t);
  V other = cg_select(c, has, s->reverse ? cg_add(c, t, one) : cg_sub(c, t, one), t);
  Row r = {.has_before = has, .live = u->hi};
  if (s->is_packed) {
    V live = cg_mul(c, cg_layout_get(c, s->sizes, t), s->width),
      old = cg_mul(c, cg_layout_get(c, s->sizes, other), s->width);
    r.states = cg_mul(c, cg_layout_get(c, s->offsets, t), s->width);
    r.before = cg_mul(c, cg_layout_get(c, s->offsets, other), s->width);
    r.live = cg_max(c, u->lo, cg_min(c, u->hi, live));
    r.old = cg_max(c, u->lo, cg_min(c, r.live, cg_select(c, has, old, zero)));
  } else {
    V from = cg_mul(c, u->outer, s->n);
    r.states = cg_mul(c, cg_add(c, from, t), s->width), r.before = cg_mul(c, cg_add(c, from, other), s->width);
    r.old = cg_select(c, has, u->hi, u->lo);
  }
  r.factors = s->is_constant ? cg_mul(c, u->outer, s->width) : r.states;
  return r;
}

// Does the first step of a sequence differ from the others? Without a start it multiplies nothing: 0 times a might be NaN.
static bool has_first(const Scan *s) { return s->is_grad ? s->y != NULL : s->start == NULL; }

// ---- a step
typedef struct {
  V lane, mask;  // mask: lanes that have a state; NULL: all
  V old;         // lanes that have one in the row before, or a condition for all of them; NULL: all or, first, none
  bool first;
} Lanes;

static V old_or(const Scan *s, const Lanes *l, V x, V other) { return l->old ? cg_select(s->c, l->old, x, other) : x; }

static V factor(const Scan *s, const Row *r, const Lanes *l, uint32_t i, uint32_t k) {
  uint32_t n = s->side * s->side;
  return get(s, s->a, cg_add(s->c, r->factors, l->lane), n, i * s->side + k, l->mask);
}

static void step_forward(const Unit *u, const Row *r, const Lanes *l, V *h) {
  const Scan *s = u->s;
  Cg *c = s->c;
  V here = cg_add(c, r->states, l->lane), next[MAX_SCAN_SIDE];
  for (uint32_t i = 0; i < s->side; i++) {
    V b = next[i] = get(s, s->b, here, s->side, i, l->mask);
    for (uint32_t k = 0; k < s->side && !l->first; k++) next[i] = cg_fma(c, factor(s, r, l, i, k), h[k], next[i]);
    if (!l->first) next[i] = old_or(s, l, next[i], b);
    put(s, next[i], s->to[0], here, s->side, i, l->mask);
  }
  for (uint32_t i = 0; i < s->side; i++) h[i] = next[i];
}

static V state_before(const Unit *u, const Row *r, const Lanes *l, uint32_t k) {
  const Scan *s = u->s;
  Cg *c = s->c;
  bool by_lane = l->old && LLVMGetTypeKind(LLVMTypeOf(l->old)) == LLVMVectorTypeKind;
  V first = u->initial && (l->first || l->old) ? get_own(u, u->initial, l->lane, k) : zeros(s);
  if (l->first || !s->y) return first;
  return old_or(s, l, get(s, s->y, cg_add(c, r->before, l->lane), s->side, k, by_lane ? l->old : l->mask), first);
}

static void step_back(const Unit *u, const Row *r, const Lanes *l, V *h) {
  const Scan *s = u->s;
  Cg *c = s->c;
  V here = cg_add(c, r->states, l->lane), d[MAX_SCAN_SIDE];
  for (uint32_t i = 0; i < s->side; i++) {
    d[i] = cg_fadd(c, get(s, s->b, here, s->side, i, l->mask), h[i]);
    put(s, d[i], s->to[1], here, s->side, i, l->mask);
  }
  for (uint32_t k = 0; k < s->side; k++) {
    V before = s->to[0] ? state_before(u, r, l, k) : NULL;
    h[k] = zeros(s);
    for (uint32_t i = 0; i < s->side; i++) {
      if (before) put(s, cg_fmul(c, d[i], before), s->to[0], here, s->side * s->side, i * s->side + k, l->mask);
      h[k] = cg_fma(c, factor(s, r, l, i, k), d[i], h[k]);
    }
  }
}

static void step(const Unit *u, const Row *r, const Lanes *l, V *h) {
  (u->s->is_grad ? step_back : step_forward)(u, r, l, h);
}

// ---- walks of a unit: all steps, or the steps [from, to)
static void sweep(const Unit *u, const Row *r, V lo, V hi, bool first) {
  const Scan *s = u->s;
  for (Span w = cg_span_guarded(s->c, lo, hi, s->lanes); cg_next_vector(&w);) {
    V h[MAX_SCAN_SIDE];
    for (uint32_t k = 0; k < s->side; k++) h[k] = get_own(u, u->carry, w.i, k);
    step(u, r, &(Lanes){.lane = w.i, .mask = w.mask, .first = first}, h);
    for (uint32_t k = 0; k < s->side; k++) put_own(u, h[k], u->carry, w.i, k, w.mask);
  }
}

static void walk_rows(const Unit *u) {
  const Scan *s = u->s;
  for (Loop l = cg_count(s->c, s->n); cg_next(&l);) {
    Row r = row_of(u, l.i);
    sweep(u, &r, u->lo, has_first(s) ? r.old : r.live, false);
    if (has_first(s)) sweep(u, &r, r.old, r.live, true);
  }
}

// Into L2, the rows that are `ahead` of r
static void fetch_ahead(const Unit *u, const Row *r, V lane) {
  const Scan *s = u->s;
  Cg *c = s->c;
  if (!u->ahead || s->side > 1) return;
  V steps = cg_mul(c, u->ahead, s->width), base[] = {s->is_constant ? NULL : s->a, s->b, s->y, s->to[0], s->to[1]};
  if (s->is_grad != s->reverse) steps = cg_sub(c, cg_i64(c, 0), steps);
  V at = cg_add(c, cg_add(c, r->states, lane), steps);
  for (uint32_t k = 0; k < 5; k++)
    if (base[k]) cg_prefetch_l2(c, cg_at(c, c->f32, base[k], at));
}

// The same of n vectors of lanes from `lane` on, whose carry stays in registers. mask: of their lanes, all but of packed rows;
// NULL: all
static void walk_lanes(const Unit *u, V lane, uint32_t n, V mask, V from, V to) {
  const Scan *s = u->s;
  Cg *c = s->c;
  V h[GROUP * MAX_SCAN_SIDE], next[MAX_SCAN_SIDE], at[GROUP];
  bool ends = s->is_packed && s->lanes > 1;  // some lanes before others
  for (uint32_t v = 0; v < n; v++) at[v] = cg_add(c, lane, cg_i64(c, v * s->lanes));
  for (uint32_t k = 0; k < n * s->side; k++) h[k] = get_own(u, u->carry, at[k / s->side], k % s->side);
  for (Loop l = cg_carry(c, from, to, cg_i64(c, 1), h, n * s->side); cg_next(&l);) {
    Row r = row_of(u, l.i);
    for (uint32_t v = 0; v < n; v++) {
      Lanes all = {.lane = at[v], .mask = mask};
      if (ends) all.mask = cg_mask(c, cg_sub(c, r.live, lane));
      if (s->is_packed && has_first(s)) all.old = ends ? cg_mask(c, cg_sub(c, r.old, lane)) : r.has_before;
      for (uint32_t k = 0; k < s->side; k++) next[k] = h[v * s->side + k];
      if (v * s->lanes % LINE == 0) fetch_ahead(u, &r, at[v]);
      step(u, &r, &all, next);
      for (uint32_t k = 0; k < s->side; k++) {
        V *to_h = &h[v * s->side + k];
        *to_h = ends ? cg_select(c, all.mask, next[k], *to_h) : next[k];
      }
    }
  }
  for (uint32_t k = 0; k < n * s->side; k++) put_own(u, h[k], u->carry, at[k / s->side], k % s->side, mask);
}

// A step more in P and H of a vector of lanes
static void add_effect(const Unit *u, const Row *r, const Lanes *l, V *p, V *h) {
  const Scan *s = u->s;
  Cg *c = s->c;
  V a = factor(s, r, l, 0, 0), b = get(s, s->b, cg_add(c, r->states, l->lane), 1, 0, l->mask);
  V next = s->is_grad ? cg_fmul(c, a, cg_fadd(c, b, *h)) : cg_fma(c, a, *h, b);
  *h = s->is_grad || s->start ? next : cg_select(c, r->has_before, next, b);
  *p = cg_fmul(c, a, *p);
}

// P and H of the steps [from, to), as they lie in scratch: of a unit P of a block, then H
static void find_effect(const Unit *u, V lane, uint32_t n, V mask, V from, V to, V effect) {
  const Scan *s = u->s;
  Cg *c = s->c;
  V carry[2 * GROUP], *p = carry, *h = carry + n;
  for (uint32_t v = 0; v < n; v++) p[v] = cg_spread(c, LLVMConstReal(c->f64, 1), s->lanes), h[v] = zeros(s);
  for (Loop l = cg_carry(c, from, to, cg_i64(c, 1), carry, 2 * n); cg_next(&l);) {
    Row r = row_of(u, l.i);
    for (uint32_t v = 0; v < n; v++) {
      Lanes at = {.lane = cg_add(c, lane, cg_i64(c, v * s->lanes)), .mask = mask};
      add_effect(u, &r, &at, &p[v], &h[v]);
    }
  }
  for (uint32_t v = 0; v < n; v++) {
    V at = cg_add(c, lane, cg_i64(c, v * s->lanes));
    put_own(u, p[v], effect, at, 0, mask), put_own(u, h[v], effect, at, 1, mask);
  }
}

static void clear_effect(const Unit *u, V effect) {
  const Scan *s = u->s;
  for (Span w = cg_span_guarded(s->c, u->lo, u->hi, s->lanes); cg_next_vector(&w);) {
    put_own(u, cg_spread(s->c, LLVMConstReal(s->c->f64, 1), s->lanes), effect, w.i, 0, w.mask);
    put_own(u, zeros(s), effect, w.i, 1, w.mask);
  }
}

// The same row by row, with P and H in memory
static void find_effect_by_rows(const Unit *u, V from, V to, V effect) {
  const Scan *s = u->s;
  Cg *c = s->c;
  clear_effect(u, effect);
  for (Loop l = cg_each(c, from, to); cg_next(&l);) {
    Row r = row_of(u, l.i);
    for (Span w = cg_span_guarded(c, u->lo, u->hi, s->lanes); cg_next_vector(&w);) {
      V p = get_own(u, effect, w.i, 0), h = get_own(u, effect, w.i, 1);
      add_effect(u, &r, &(Lanes){.lane = w.i, .mask = w.mask}, &p, &h);
      put_own(u, p, effect, w.i, 0, w.mask), put_own(u, h, effect, w.i, 1, w.mask);
    }
  }
}

// All lanes of the unit, GROUP vectors of them at a time, the last ones one by one. effect: of find_effect; NULL: they are walked
static void each_group(const Unit *u, V from, V to, V effect) {
  const Scan *s = u->s;
  Cg *c = s->c;
  uint32_t n = s->side == 1 ? GROUP : 1;
  V group = cg_i64(c, n * s->lanes), end = cg_add(c, u->lo, cg_multiple(c, cg_sub(c, u->hi, u->lo), group));
  for (Loop l = cg_each_by(c, u->lo, end, group); cg_next(&l);) {
    if (effect) find_effect(u, l.i, n, NULL, from, to, effect);
    else walk_lanes(u, l.i, n, NULL, from, to);
  }
  for (Span w = cg_span_guarded(c, end, u->hi, s->lanes); cg_next_vector(&w);) {
    if (effect) find_effect(u, w.i, 1, w.mask, from, to, effect);
    else walk_lanes(u, w.i, 1, w.mask, from, to);
  }
}

static void walk_steps(const Unit *u, V from, V to) {
  for (Loop l = cg_each(u->s->c, from, to); cg_next(&l);) {
    Row r = row_of(u, l.i);
    sweep(u, &r, u->lo, u->hi, false);
  }
}

static void walk_first(const Unit *u, V i, V from, V to) {
  Cg *c = u->s->c;
  for (If has = cg_when(c, cg_and(c, cg_le(c, from, i), cg_lt(c, i, to))); cg_then(&has);) {
    Row r = row_of(u, i);
    sweep(u, &r, u->lo, u->hi, true);
  }
}

// Of a dense value. A group of lanes is a part of each row: it is walked for a few steps, then the ones beside it are.
static void walk_dense(const Unit *u, V from, V to) {
  const Scan *s = u->s;
  Cg *c = s->c;
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), last = cg_sub(c, s->n, one), begin = from, end = to;
  V turn = cg_i64(c, s->turn);
  if (has_first(s) && !s->is_grad) begin = cg_max(c, from, one), walk_first(u, zero, from, to);
  if (has_first(s) && s->is_grad) end = cg_min(c, to, last);
  if (s->by_rows) walk_steps(u, begin, end);
  else
    for (Loop l = cg_each_by(c, begin, end, turn); cg_next(&l);)
      each_group(u, l.i, cg_min(c, end, cg_add(c, l.i, turn)), NULL);
  if (has_first(s) && s->is_grad) walk_first(u, last, from, to);
}

// ---- values of whole sequences, [outer, width], or [B, width] in user order
typedef void EachState(const Unit *u, V lane, V state, V base, V block);

static void read_state(const Unit *u, V lane, V state, V base, V block) {
  Cg *c = u->s->c;
  for (uint32_t k = 0; k < u->s->side; k++) {
    V at = number_of(u->s, state, u->s->side, k);
    cg_put(c, base ? cg_fpext(c, cg_get(c, c->f32, base, at), c->f64) : LLVMConstNull(c->f64), block,
           own_place(u, lane, k));
  }
}

static void write_state(const Unit *u, V lane, V state, V base, V block) {
  Cg *c = u->s->c;
  for (uint32_t k = 0; k < u->s->side; k++) {
    V at = number_of(u->s, state, u->s->side, k);
    cg_put(c, cg_fptrunc(c, cg_get(c, c->f64, block, own_place(u, lane, k)), c->f32), base, at);
  }
}

static void each_state(const Unit *u, V base, V block, EachState *f) {
  const Scan *s = u->s;
  Cg *c = s->c;
  V first = u->lo, last = u->hi;
  for (Loop l = s->is_packed ? cg_each_row(c, u->lo, u->hi, s->width, &first, &last) : cg_once(c); cg_next(&l);) {
    V row = s->is_packed ? cg_mul(c, l.i, s->width) : cg_i64(c, 0);
    V whole = cg_mul(c, s->is_packed ? cg_layout_get(c, s->sorted, l.i) : u->outer, s->width);
    for (Loop lane = cg_each(c, first, last); cg_next(&lane);)
      f(u, cg_add(c, row, lane.i), cg_add(c, whole, lane.i), base, block);
  }
}

// ---- blocks of steps
typedef struct {
  int64_t steps, n_blocks, n_units;  // steps: of a block; n_blocks 0: there are no blocks
} Cut;

static Shape steps_shape(const Fn *f, Val v) {
  return ir_ins(f, ir_ins(f, v)->op == OP_linear_scan_grad ? ir_result(v, 1) : v)->shape;
}

static Cut cut_of(const Fn *f, Val v) {
  Prog *p = f->prog;
  Shape shape = steps_shape(f, v);
  uint32_t axis = (uint32_t)ir_attr_int(f, v, KEY_axis, 0), rank = ir_rank(p, shape);
  int64_t outer = cg_axis_bound(p, shape, 0, axis), width = cg_axis_bound(p, shape, axis + 1, rank);
  int64_t n = cg_axis_bound(p, shape, axis, axis + 1);
  Cut cut = {.n_units = outer * cg_ceil_div(width, LANES)};
  cut.steps = BLOCK / cg_larger(cg_smaller(width, LANES), 16);
  bool has_matrices = ir_rank(p, ir_ins(f, ir_arg(f, v, 0))->shape) > rank;
  if (has_matrices || ir_has_operand(f, v, ARG_layout) || cut.n_units == 0 || cut.n_units >= FEW_UNITS) return cut;
  int64_t n_blocks = cg_ceil_div(n, cut.steps);
  if (n_blocks >= LEAST_BLOCKS) cut.n_blocks = n_blocks;
  return cut;
}

int64_t cg_linear_scan_scratch_bytes(const Fn *f, Val v, const Target *t) {
  Cut cut = cut_of(f, v);
  (void)t;
  return 8 * 2 * LANES * cut.n_blocks * cut.n_units;
}

// The carry behind blocks [from, to). Before the first one there is none unless it is given.
static void apply_effects(const Unit *u, V from, V to, V effects, V carry) {
  const Scan *s = u->s;
  Cg *c = s->c;
  for (Loop l = cg_each(c, from, to); cg_next(&l);) {
    V effect = cg_at(c, c->f64, effects, cg_mul(c, l.i, cg_i64(c, 2 * LANES)));
    for (Span w = cg_span_guarded(c, u->lo, u->hi, s->lanes); cg_next_vector(&w);) {
      V h = get_own(u, effect, w.i, 1), next = cg_fma(c, get_own(u, effect, w.i, 0), get_own(u, carry, w.i, 0), h);
      if (!s->start) next = cg_select(c, cg_eq(c, l.i, cg_i64(c, 0)), h, next);
      put_own(u, next, carry, w.i, 0, w.mask);
    }
  }
}

static void walk_block(const Unit *u, V from, V to, V at_block) {
  const Scan *s = u->s;
  for (Span w = cg_span_guarded(s->c, u->lo, u->hi, s->lanes); cg_next_vector(&w);)
    put_own(u, get_own(u, at_block, w.i, 0), u->carry, w.i, 0, w.mask);
  walk_dense(u, from, to);
}

static void walk_by_blocks(Unit *u, int64_t block, V effects, V at_block) {
  const Scan *s = u->s;
  Cg *c = s->c;
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), steps = cg_i64(c, block), have = zero;
  V n_blocks = cg_max(c, one, cg_ceil_div_value(c, s->n, block)), last = cg_sub(c, n_blocks, one);
  each_state(u, s->start, at_block, read_state);
  u->ahead = cg_mul(c, steps, c->n_workers);
  for (Loop l = cg_carry(c, zero, n_blocks, c->n_workers, &have, 1); cg_next(&l);) {
    V k = cg_add(c, l.i, c->worker), from = cg_mul(c, k, steps), to = cg_min(c, s->n, cg_add(c, from, steps));
    for (If read = cg_when(c, cg_lt(c, k, last)); cg_then(&read);) {
      V effect = cg_at(c, c->f64, effects, cg_mul(c, k, cg_i64(c, 2 * LANES)));
      if (s->by_rows) find_effect_by_rows(u, from, to, effect);
      else each_group(u, from, to, effect);
    }
    cg_wait_for_team(c);
    for (If mine = cg_when(c, cg_le(c, k, last)); cg_then(&mine);) {
      apply_effects(u, have, k, effects, at_block);
      walk_block(u, from, to, at_block);
      if (s->end)
        for (If ends = cg_when(c, cg_eq(c, k, last)); cg_then(&ends);) each_state(u, s->end, u->carry, write_state);
    }
    have = cg_select(c, cg_le(c, k, last), k, have);
  }
}

// ---- the kernel
static Scan open_scan(Cg *c, Val v) {
  const Fn *f = c->f;
  Scan s = {.c = c, .is_grad = ir_ins(f, v)->op == OP_linear_scan_grad, .lanes = c->t->vl, .side = 1};
  Shape steps = steps_shape(f, v), factors = ir_ins(f, ir_arg(f, v, 0))->shape;
  uint32_t rank = ir_rank(f->prog, steps), axis = (uint32_t)ir_attr_int(f, v, KEY_axis, 0);
  Val operand[] = {ir_operand(f, v, s.is_grad ? ARG_g : ARG_b), ir_operand(f, v, ARG_y), ir_operand(f, v, ARG_h0)};
  Val start = s.is_grad ? ir_operand(f, v, ARG_g_hn) : operand[2], layout = ir_operand(f, v, ARG_layout);
  V *to[] = {&s.b, &s.y, &s.h0};
  s.reverse = ir_attr(f, v, KEY_reverse) != NULL;
  if (ir_rank(f->prog, factors) > rank) s.side = (uint32_t)ir_dim_bound(f->prog, ir_dim_at(f->prog, steps, rank - 1));
  s.is_constant = ir_dim_at(f->prog, factors, axis).i != ir_dim_at(f->prog, steps, axis).i;
  s.a = cg_ptr(c, ir_arg(f, v, 0));
  for (uint32_t k = 0; k < 3; k++)
    if (!ir_none(operand[k])) *to[k] = cg_ptr(c, operand[k]);
  if (!ir_none(start)) s.start = cg_ptr(c, start);
  for (uint32_t k = 0; k <= s.is_grad; k++) s.to[k] = cg_ptr_or_null(c, ir_result(v, k));
  s.end = cg_ptr_or_null(c, ir_result(v, s.is_grad ? 2 : 1));
  CgAxis at = cg_axis_of(c, steps, axis);
  s.n = at.n, s.outer = at.outer, s.width = cg_div(c, at.inner, cg_i64(c, s.side)), s.is_packed = !ir_none(layout);
  if (!s.is_packed) return s;
  CgLayout l = cg_layout_of(c, layout);
  s.sizes = cg_layout_sizes(c, &l), s.offsets = cg_layout_offsets(c, &l), s.sorted = cg_layout_sorted(c, &l);
  s.n = cg_layout_get(c, l.base, cg_i64(c, TN_LAYOUT_STEPS));
  s.outer = cg_layout_get(c, l.base, cg_i64(c, TN_LAYOUT_SEQS));
  return s;
}

static V private_block(const Scan *s) { return cg_block(s->c, s->c->i64, (int64_t)LANES * s->side + s->lanes); }

bool cg_emit_linear_scan(Cg *c) {
  Val v = {c->k->first};
  Scan s = open_scan(c, v);
  Cut cut = cut_of(c->f, v);
  bool by_blocks = cut.n_blocks && c->scratch;
  V lanes = s.is_packed ? cg_mul(c, s.outer, s.width) : s.width, most = cg_i64(c, LANES);
  V per_row = cg_ceil_div_value(c, lanes, LANES), n_units = s.is_packed ? per_row : cg_mul(c, per_row, s.outer);
  int64_t width = 0;
  bool is_vector = cg_const_value(lanes, &width) && width <= c->t->vl && !by_blocks;
  s.turn = cut.steps;
  s.by_rows = s.side == 1 && (!s.is_grad || cut.steps <= STEPS_OF_ROWS);
  if (is_vector && width == 1) s.lanes = 1;
  Unit u = {.s = &s, .carry = private_block(&s)};
  if (s.is_grad && s.h0) u.initial = private_block(&s);
  V at_block = by_blocks ? private_block(&s) : NULL, zero = cg_i64(c, 0);
  // Units that share their blocks are walked by all workers, others by one; of packed ones the first have most steps.
  Loop l = by_blocks     ? cg_count(c, n_units)
           : s.is_packed ? cg_each_by(c, c->worker, n_units, c->n_workers)
                         : cg_each_shared(c, n_units, 1);
  for (; cg_next(&l);) {
    u.outer = s.is_packed ? zero : cg_div(c, l.i, per_row);
    u.lo = cg_mul(c, cg_sub(c, l.i, cg_mul(c, u.outer, per_row)), most), u.hi = cg_min(c, lanes, cg_add(c, u.lo, most));
    if (u.initial) each_state(&u, s.h0, u.initial, read_state);
    if (by_blocks) {
      int64_t unit = 2 * LANES * cut.n_blocks;
      walk_by_blocks(&u, cut.steps, cg_at(c, c->f64, c->scratch, cg_mul(c, l.i, cg_i64(c, unit))), at_block);
      continue;
    }
    each_state(&u, s.start, u.carry, read_state);
    if (!s.is_packed) u.ahead = cg_i64(c, s.turn);
    if (!s.is_packed) walk_dense(&u, zero, s.n);
    else if (is_vector) walk_lanes(&u, u.lo, 1, NULL, zero, s.n);
    else walk_rows(&u);
    if (s.end) each_state(&u, s.end, u.carry, write_state);
  }
  return true;
}
