// Pools of one channel, as images with channels first are: vectors along the last axis.
//
// A lane is a step (ir/pool.h): for each phase its taps lie at the same offsets in all lanes, so that they are vectors of
// neighbours, or of every stride-th element, and the phases of a step are interleaved when they are stored.
// What lies outside of the source is left out by masks; of an image that is resized, and of large sums, the lines are added
// first, into a row with zeros on both sides: taps are read without masks and once for all lines. A row of nearest
// neighbours has one line, or none, which is read where it lies. Maxima of windows that overlap: pool_maxima.c.
#include "codegen/lanes.h"
#include "codegen/math/primitives.h"
#include "codegen/reduce/pool_walk.h"

#include <math.h>

enum { NEAR_MOST = 4, ABSENT = 1 << 16 };  // vectors that hold the neighbours of a block; the lane of none

typedef struct {
  PoolWalk *w;
  PoolColumns of;
  V weight;  // [phase, tap, step]; NULL: all are 1
  V index;   // i32 [tap, step]: where neighbours stand that are gathered; NULL: taps are vectors
  V begin;   // i32 [tap, block]: what `index` counts from: n_near vectors hold a block's; NULL: 0
  uint32_t n_near;
  bool shares;      // `begin` is [block], of all taps
  int64_t n_steps;  // of a row of `weight`: whole vectors
  bool has_zeros;   // around the source
} Columns;

typedef struct {
  const Columns *of;
  V first;         // step
  bool is_masked;  // taps may lie outside of the source, and results outside of the row
} Block;

static const AxisTaps *taps_of(const PoolWalk *w) { return &w->table[POOL_AXES - 1].taps; }

// ---- weights
static void fill_weights(Columns *k) {
  Cg *c = k->w->c;
  const AxisTaps *t = taps_of(k->w);
  uint32_t rows = 0, row = 0;
  for (uint32_t r = 0; r < k->of.n_phases; r++) rows += k->of.phase[r].n;
  k->n_steps = cg_round_up(cg_ceil_div(t->n, k->of.n_phases), c->t->vl);
  V *value = rt_alloc(c->mem, (size_t)(rows * k->n_steps) * sizeof *value);
  for (uint32_t r = 0; r < k->of.n_phases; r++)
    for (uint32_t tap = 0; tap < k->of.phase[r].n; tap++, row++)
      for (int64_t step = 0; step < k->n_steps; step++) {
        int64_t j = step * k->of.n_phases + r, i = step * k->of.stride + k->of.phase[r].at[tap];
        bool is_tap = j < t->n && i >= t->lo[j] && i < t->hi[j];
        value[row * k->n_steps + step] = cg_f32(c, is_tap ? (double)t->weight[j * t->width + i - t->lo[j]] : 0);
      }
  k->weight = cg_pool_constants(c, c->f32, value, rows * k->n_steps);
}

static bool is_absent(const AxisTaps *t, int64_t tap, int64_t j) { return tap >= t->hi[j] - t->lo[j]; }
// Lanes behind the last result have its neighbours: of a row that is read where it lies nothing else is.
static int64_t result_of(const AxisTaps *t, int64_t lane) { return cg_smaller(lane, t->n - 1); }

// A neighbour that a result has not stands where its last one does.
static int64_t place_of(const AxisTaps *t, int64_t tap, int64_t j) {
  return t->lo[j] + cg_larger(0, cg_smaller(tap, t->hi[j] - t->lo[j] - 1));
}

// From where on a block's neighbours of taps [from, to) stand; *last: the last of them.
static int64_t first_place(const Columns *k, const AxisTaps *t, int64_t from, int64_t to, int64_t block,
                           int64_t *last) {
  int64_t vl = k->w->c->t->vl, first = *last = place_of(t, from, result_of(t, block * vl));
  for (int64_t tap = from; tap < to; tap++)
    for (int64_t j = block * vl; j < (block + 1) * vl; j++) {
      int64_t at = place_of(t, tap, result_of(t, j));
      first = cg_smaller(first, at), *last = cg_larger(*last, at);
    }
  return first;
}

// 2 or 4 vectors where they hold the neighbours of `n` taps of every block, and instructions take lanes from two; else 0
static uint32_t near_vectors(const Columns *k, const AxisTaps *t, int64_t n) {
  int64_t vl = k->w->c->t->vl, most = 0, last;
  if (!cg_has_avx512(k->w->c, k->w->c->vf)) return 0;
  for (int64_t tap = 0; tap < k->of.n_gathered; tap += n)
    for (int64_t block = 0; block < k->n_steps / vl; block++) {
      int64_t first = first_place(k, t, tap, tap + n, block, &last);
      most = cg_larger(most, last - first + 1);
    }
  return most <= 2 * vl ? 2 : most <= NEAR_MOST * vl ? NEAR_MOST : 0;
}

// Vectors that hold the neighbours of all taps are loaded once.
static Columns columns(PoolWalk *w, const PoolColumns *of) {
  Columns k = {.w = w, .of = *of};
  const AxisTaps *t = taps_of(w);
  if (!of->n_gathered) return k;
  k.n_steps = cg_round_up(t->n, w->c->t->vl);
  k.n_near = near_vectors(&k, t, of->n_gathered), k.shares = k.n_near;
  if (!k.shares) k.n_near = near_vectors(&k, t, 1);
  return k;
}

// Vectors of the last blocks end where the line does, if it has as many elements.
static int64_t begin_of_near(const Columns *k, int64_t first, int64_t line) {
  return cg_smaller(first, cg_larger(0, line - k->n_near * (int64_t)k->w->c->t->vl));
}

static void fill_gathered(Columns *k) {
  Cg *c = k->w->c;
  const AxisTaps *t = taps_of(k->w);
  int64_t n = k->of.n_gathered, vl = c->t->vl, last, source = 0;
  cg_const_value(k->w->from[2], &source);
  V *value = rt_alloc(c->mem, (size_t)(n * k->n_steps) * sizeof *value),
    *index = rt_alloc(c->mem, (size_t)(n * k->n_steps) * sizeof *index),
    *begin = rt_alloc(c->mem, (size_t)(n * k->n_steps / vl) * sizeof *begin);
  int64_t absent = k->n_near ? ABSENT : -1;  // of a gather a zero before the row
  for (int64_t at = 0; at < n * k->n_steps; at += vl) {
    int64_t tap = at / k->n_steps, first = at % k->n_steps, one = k->shares ? 0 : tap, end = k->shares ? n : tap + 1;
    int64_t from = k->n_near ? begin_of_near(k, first_place(k, t, one, end, first / vl, &last), source) : 0;
    begin[at / vl] = cg_i32(c, (int32_t)from);
    for (int64_t lane = 0; lane < vl; lane++) {
      int64_t j = result_of(t, first + lane);
      bool is_tap = !is_absent(t, tap, j);
      value[at + lane] = cg_f32(c, is_tap ? (double)t->weight[j * t->width + tap] : 0);
      index[at + lane] = cg_i32(c, (int32_t)(is_tap ? place_of(t, tap, j) - from : absent));
    }
  }
  k->index = cg_pool_constants(c, c->i32, index, n * k->n_steps);
  if (k->n_near) k->begin = cg_pool_constants(c, c->i32, begin, n * k->n_steps / vl);
  if (k->w->table[POOL_AXES - 1].weight) k->weight = cg_pool_constants(c, c->f32, value, n * k->n_steps);
}

// ---- taps of a line of the source, whose first element is `line`
// Elements from `at` on, behind `first`, of a row with zeros. It has just been stored in whole vectors: a load of parts of two
// would wait until both have left the store buffer.
static V piece_of_row(Cg *c, LLVMTypeRef type, V base, V first, int64_t at) {
  int64_t vl = c->t->vl, lane = (at % vl + vl) % vl;
  V x[2] = {cg_get(c, type, base, plus(c, first, at - lane)), NULL};
  if (!lane) return x[0];
  x[1] = cg_get(c, type, base, plus(c, first, at - lane + vl));
  return cg_every_lane(c, cg_join_vectors(c, x, 2), (uint32_t)lane, 1);
}

static V piece_inside(const Block *b, LLVMTypeRef type, V base, V line, V at) {
  const PoolWalk *w = b->of->w;
  Cg *c = w->c;
  V p = cg_at_any(c, LLVMGetElementType(type), base, cg_add(c, line, at));
  V inside = b->is_masked ? cg_numbers_below(c, cg_numbers_from(c, at, 1), w->from[2]) : NULL;
  V x = cg_load_masked(c, type, p, inside);
  return inside && w->op == OP_max_pool ? cg_select(c, inside, x, cg_splat(c, cg_f32(c, -INFINITY))) : x;
}

static V tap(const Block *b, LLVMTypeRef type, V base, V line, int64_t at) {
  const Columns *k = b->of;
  Cg *c = k->w->c;
  V piece[POOL_MOST_STRIDE], first = times(c, b->first, k->of.stride);
  for (uint32_t m = 0; m < k->of.stride; m++) {
    int64_t own = at + (int64_t)m * c->t->vl;
    piece[m] =
        k->has_zeros ? piece_of_row(c, type, base, first, own) : piece_inside(b, type, base, line, plus(c, first, own));
  }
  return k->of.stride == 1 ? piece[0] : cg_every_lane(c, cg_join_vectors(c, piece, k->of.stride), 0, k->of.stride);
}

static V weight_of(const Block *b, V row, V upper) {
  Cg *c = b->of->w->c;
  V own = NULL;
  if (b->of->weight) own = cg_get(c, c->vf, b->of->weight, cg_add(c, times(c, row, b->of->n_steps), b->first));
  if (!upper) return own;
  return own ? cg_fmul(c, cg_splat(c, upper), own) : cg_splat(c, upper);
}

// Phases of a step share taps.
typedef struct {
  int64_t at;
  V x, src_place;
} Tap;

static const Tap *tap_once(const Block *b, V line, int64_t at, Tap *known, uint32_t *n) {
  const PoolWalk *w = b->of->w;
  Cg *c = w->c;
  for (uint32_t k = 0; k < *n; k++)
    if (known[k].at == at) return &known[k];
  known[*n] = (Tap){.at = at, .x = tap(b, c->vf, w->src, line, at)};
  if (w->src_place) known[*n].src_place = tap(b, c->vi32, w->src_place, line, at);
  return &known[(*n)++];
}

static void add_phases(const Block *b, V plane_line, V upper, V *state) {
  const Columns *k = b->of;
  const PoolWalk *w = k->w;
  Cg *c = w->c;
  V line = cg_add(c, w->image, plane_line);
  Tap known[POOL_MOST_STRIDE * POOL_MOST_TAPS];
  uint32_t row = 0, n_known = 0;
  for (uint32_t r = 0; r < k->of.n_phases; r++) {
    V own = NULL, result = plus(c, cg_add(c, cg_mul(c, w->line, w->to[2]), times(c, b->first, k->of.n_phases)), r);
    if (w->src_place) own = cg_numbers_from(c, result, k->of.n_phases);
    for (uint32_t t = 0; t < k->of.phase[r].n; t++, row++) {
      const Tap *x = tap_once(b, line, k->of.phase[r].at[t], known, &n_known);
      V place = NULL, at = plus(c, times(c, b->first, k->of.stride), x->at);
      if (w->out_place) place = cg_numbers_from(c, cg_add(c, plane_line, at), k->of.stride);
      cg_pool_join(w, x->x, place, x->src_place, own, weight_of(b, cg_i64(c, row), upper),
                   state + r * cg_pool_state(w));
    }
  }
}

// Lanes `at` of n_near vectors from `base` on
static V lanes_of_near(const Columns *k, V base, V at) {
  Cg *c = k->w->c;
  V pair[NEAR_MOST / 2];
  for (uint32_t h = 0; h < k->n_near / 2; h++) {
    V lo = cg_get(c, c->vf, base, cg_i64(c, 2 * h * c->t->vl)),
      hi = cg_get(c, c->vf, base, cg_i64(c, (2 * h + 1) * c->t->vl));
    pair[h] = cg_call_intrinsic(c, "llvm.x86.avx512.vpermi2var.ps.512", NULL, 0, (V[]){lo, at, hi}, 3);
  }
  if (k->n_near == 2) return pair[0];
  return cg_select(c, cg_lt(c, at, cg_splat(c, cg_i32(c, 2 * (int32_t)c->t->vl))), pair[0], pair[1]);
}

static bool has_absent(const AxisTaps *t, int64_t tap) {
  for (int64_t j = 0; j < t->n; j++)
    if (is_absent(t, tap, j)) return true;
  return false;
}

static V neighbours(const Block *b, int64_t tap) {
  const Columns *k = b->of;
  Cg *c = k->w->c;
  V at = cg_get(c, c->vi32, k->index, plus(c, b->first, tap * k->n_steps));
  V line = cg_at(c, c->f32, k->w->src, k->w->image);
  if (!k->begin) return cg_gather(c, c->f32, line, at, NULL);
  V block = cg_div(c, b->first, cg_vl(c)), begin = plus(c, block, k->shares ? 0 : tap * (k->n_steps / c->t->vl));
  begin = cg_sext(c, cg_get(c, c->i32, k->begin, begin), c->i64);
  V x = lanes_of_near(k, cg_at(c, c->f32, line, begin), at);
  return has_absent(taps_of(k->w), tap) ? cg_select(c, cg_lt(c, at, cg_splat(c, cg_i32(c, ABSENT))), x, cg_zeros(c))
                                        : x;
}

static void add_gathered(const Block *b, V *state) {
  const Columns *k = b->of;
  Cg *c = k->w->c;
  for (int64_t tap = 0; tap < k->of.n_gathered; tap++) {
    V weight = weight_of(b, cg_i64(c, tap), NULL);
    cg_pool_join(k->w, neighbours(b, tap), NULL, NULL, NULL, weight, state);
  }
}

// ---- lines of the window
static void add_line(const Block *b, V a0, V a1, V *state) {
  const PoolWalk *w = b->of->w;
  Cg *c = w->c;
  V plane_line = cg_mul(c, cg_index(c, a0, w->from[1], a1), w->from[2]);
  add_phases(b, plane_line, cg_pool_weight(w, POOL_AXES - 1, (V[]){a0, a1}), state);
}

static void add_lines(const Block *b, bool is_whole, V *state) {
  const PoolWalk *w = b->of->w;
  const Pool *p = &w->p;
  Cg *c = w->c;
  const Range *outer = &w->box[0], *inner = &w->box[1];
  uint32_t n = b->of->of.n_phases * cg_pool_state(w);
  for (int64_t t = 0; is_whole && t < p->kernel[0] * p->kernel[1]; t++)
    add_line(b, plus(c, outer->lo, t / p->kernel[1] * p->dilation[0]),
             plus(c, inner->lo, t % p->kernel[1] * p->dilation[1]), state);
  if (is_whole) return;
  for (Loop l0 = cg_carry(c, outer->lo, outer->hi, cg_i64(c, outer->step), state, n); cg_next(&l0);)
    for (Loop l1 = cg_carry(c, inner->lo, inner->hi, cg_i64(c, inner->step), state, n); cg_next(&l1);)
      add_line(b, l0.i, l1.i, state);
}

// ---- blocks of vl steps
// The places of the windows' first elements; -1 where a window lies wholly in the padding.
static V first_places(const Block *b) {
  const PoolWalk *w = b->of->w;
  const Pool *p = &w->p;
  Cg *c = w->c;
  int64_t d = p->dilation[2], reach = (p->kernel[2] - 1) * d + 1;
  V begin = cg_numbers_from(c, plus(c, times(c, b->first, p->stride[2]), -p->pad[2]), (uint32_t)p->stride[2]);
  V zero = cg_splat(c, cg_i32(c, 0)), lo = begin;
  // d times the least number of steps of d from `begin` to the first element
  for (int64_t before = d; before < p->pad[2] + d; before += d)
    lo = cg_select(c, cg_lt(c, lo, zero), cg_iadd(c, lo, cg_splat(c, cg_i32(c, (int32_t)d))), lo);
  V end = cg_iadd(c, begin, cg_splat(c, cg_i32(c, (int32_t)reach))),
    size = cg_splat(c, cg_trunc(c, w->from[2], c->i32));
  V hi = cg_select(c, cg_lt(c, end, size), end, size), is_empty = cg_ge(c, lo, hi);
  V line = cg_mul(c, cg_index(c, w->box[0].lo, w->from[1], w->box[1].lo), w->from[2]);
  for (uint32_t k = 0; k < 2; k++) is_empty = cg_or(c, is_empty, cg_splat(c, cg_ge(c, w->box[k].lo, w->box[k].hi)));
  return cg_select(c, is_empty, cg_splat(c, cg_i32(c, -1)), cg_iadd(c, lo, cg_splat(c, cg_trunc(c, line, c->i32))));
}

static void store(const Block *b, V base, V *x) {
  const PoolWalk *w = b->of->w;
  Cg *c = w->c;
  uint32_t n = b->of->of.n_phases;
  V column = times(c, b->first, n), all = cg_vectors_by_turns(c, x, n);
  V at = cg_add(c, cg_mul(c, w->row, w->to[2]), column);
  cg_store_wide(c, all, n, base, at, column, b->is_masked ? w->to[2] : NULL);
}

static void block(const Block *b, bool has_all_lines) {
  const Columns *k = b->of;
  const PoolWalk *w = k->w;
  V state[POOL_MOST_STRIDE * MOST_STATE], y[POOL_MOST_STRIDE], first = w->out_place ? first_places(b) : NULL;
  uint32_t n = cg_pool_state(w);
  for (uint32_t r = 0; r < k->of.n_phases; r++) cg_pool_begin(w, first, state + r * n);
  if (k->index) add_gathered(b, state);
  else add_lines(b, has_all_lines, state);
  for (uint32_t r = 0; r < k->of.n_phases; r++) y[r] = cg_pool_divided(w, state[r * n]);
  if (w->out) store(b, w->out, y);
  if (w->out_place) store(b, w->out_place, state + 1);
}

// Offsets of taps, [lo, hi], 0 among them.
static void reach(const PoolColumns *of, int64_t *lo, int64_t *hi) {
  *lo = *hi = 0;
  for (uint32_t r = 0; r < of->n_phases; r++)
    for (uint32_t t = 0; t < of->phase[r].n; t++)
      *lo = cg_smaller(*lo, of->phase[r].at[t]), *hi = cg_larger(*hi, of->phase[r].at[t]);
}

// Does the block lie inside of the source, whatever its loads read, and of the row?
static V is_inside(const Columns *k, V first) {
  const PoolWalk *w = k->w;
  Cg *c = w->c;
  int64_t lo, hi, vl = c->t->vl;
  reach(&k->of, &lo, &hi);
  V at = times(c, first, k->of.stride), fits = cg_le(c, times(c, plus(c, first, vl), k->of.n_phases), w->to[2]);
  if (k->has_zeros) return fits;
  V begins = cg_ge(c, plus(c, at, lo), cg_i64(c, 0)), ends = cg_le(c, plus(c, at, hi + vl * k->of.stride), w->from[2]);
  return cg_and(c, cg_and(c, begins, ends), fits);
}

static void blocks(const Columns *k, bool has_all_lines) {
  Cg *c = k->w->c;
  for (Loop l = cg_count_by(c, cg_ceil_div_value(c, k->w->to[2], k->of.n_phases), cg_vl(c)); cg_next(&l);)
    for (If s = cg_either(c, is_inside(k, l.i)); cg_then(&s);) block(&(Block){k, l.i, !s.is_true}, has_all_lines);
}

// ---- the row with zeros on both sides
// By lines first, a vector of results takes `lines * stride` loads of the source and one of the row for each column.
static bool joins_lines_first(const PoolWalk *w, const PoolColumns *of) {
  const Pool *p = &w->p;
  if (w->table[POOL_AXES - 1].lo) return true;
  if (p->is_grad || p->shares || w->op == OP_max_pool) return false;
  int64_t lines = p->kernel[0] * p->kernel[1], columns = p->kernel[2];
  return lines * columns > 2 * (lines * of->stride + columns);
}

static int64_t zeros_before(const PoolWalk *w, const PoolColumns *of) {
  int64_t lo, hi;
  if (of->n_gathered) return w->c->t->vl;
  reach(of, &lo, &hi);
  return cg_round_up(-lo, w->c->t->vl);
}

static bool has_one_tap(const Table *of) {
  const AxisTaps *t = &of->taps;
  for (int64_t j = 0; j < t->n; j++)
    if (t->hi[j] - t->lo[j] > 1) return false;
  return !of->weight;
}

// One line at most, whose elements are taken as they are.
static bool has_one_line(const PoolWalk *w) {
  for (uint32_t k = 0; k < POOL_AXES - 1; k++)
    if (w->table[k].lo && !has_one_tap(&w->table[k])) return false;
  return w->table[POOL_AXES - 1].lo;
}

// Is nothing read that the line has not?
static bool is_in_place(const Columns *k) {
  const AxisTaps *t = taps_of(k->w);
  int64_t source = 0;
  if (!has_one_line(k->w)) return false;
  cg_const_value(k->w->from[2], &source);
  if (k->n_near) return source >= k->n_near * (int64_t)k->w->c->t->vl;
  for (int64_t tap = 0; tap < k->of.n_gathered; tap++)
    if (has_absent(t, tap)) return false;
  return true;
}

bool cg_pool_columns_open(PoolWalk *w, const PoolColumns *of) {
  Cg *c = w->c;
  int64_t lo, hi, source, results, vl = c->t->vl;
  bool has_sizes = cg_const_value(w->from[2], &source) && cg_const_value(w->to[2], &results);
  Columns k = columns(w, of);
  if (has_sizes && is_in_place(&k)) return true;
  if (!has_sizes || !joins_lines_first(w, of)) return !of->n_gathered;
  int64_t steps = cg_round_up(cg_ceil_div(results, of->n_phases), vl);
  reach(of, &lo, &hi);
  int64_t before = zeros_before(w, of), n = before + cg_round_up(cg_larger(source, steps * of->stride + hi), vl);
  if (of->n_gathered) n += NEAR_MOST * vl;
  if (n * 4 > c->t->stack_bytes / 4) return !of->n_gathered;
  w->padded = cg_block(c, c->f32, n);
  for (Loop l = cg_count_by(c, cg_i64(c, n), cg_vl(c)); cg_next(&l);) cg_put(c, cg_zeros(c), w->padded, l.i);
  return true;
}

// As a source of one line, which begins at row->image.
static void of_line(Columns *k, PoolWalk *row) {
  V zero = cg_i64(row->c, 0), one = cg_i64(row->c, 1);
  row->from[0] = row->from[1] = one;
  row->table[0] = row->table[1] = (Table){0};
  row->box[0] = row->box[1] = (Range){zero, one, 1};
  k->w = row;
  blocks(k, false);
}

static void columns_of_padded(const PoolWalk *w, Columns *k) {
  Cg *c = w->c;
  PoolWalk row = *w;
  V before = cg_i64(c, zeros_before(w, &k->of));
  row.src = cg_at(c, c->f32, w->padded, before), row.image = cg_i64(c, 0);
  cg_pool_add_lines(w, row.src);
  k->has_zeros = true;
  of_line(k, &row);
}

static void without_line(const PoolWalk *w) {
  Cg *c = w->c;
  V row = cg_at(c, c->f32, w->out, cg_mul(c, w->row, w->to[2]));
  for (Loop l = cg_count_by(c, w->to[2], cg_vl(c)); cg_next(&l);)
    cg_store_masked(c, cg_zeros(c), cg_at(c, c->f32, row, l.i), cg_mask(c, cg_sub(c, w->to[2], l.i)));
}

static void columns_in_place(const PoolWalk *w, Columns *k) {
  Cg *c = w->c;
  PoolWalk row = *w;
  V has_line = cg_and(c, cg_lt(c, w->box[0].lo, w->box[0].hi), cg_lt(c, w->box[1].lo, w->box[1].hi));
  row.image = cg_add(c, w->image, cg_mul(c, cg_index(c, w->box[0].lo, w->from[1], w->box[1].lo), w->from[2]));
  for (If s = cg_either(c, has_line); cg_then(&s);)
    if (s.is_true) of_line(k, &row);
    else without_line(w);
}

void cg_pool_columns(PoolWalk *w, const PoolColumns *of) {
  Columns k = columns(w, of);
  const Pool *p = &w->p;
  bool is_resize = w->table[POOL_AXES - 1].lo;
  if (of->n_gathered) fill_gathered(&k);
  else if (w->table[POOL_AXES - 1].weight) fill_weights(&k);
  if (w->padded) {
    columns_of_padded(w, &k);
  } else if (is_in_place(&k)) {
    columns_in_place(w, &k);
  } else if (is_resize || p->is_grad || p->kernel[0] * p->kernel[1] * p->kernel[2] > MOST_TAPS) {
    blocks(&k, false);
  } else {
    for (If s = cg_either(w->c, cg_pool_is_whole(w, POOL_AXES - 1)); cg_then(&s);) blocks(&k, s.is_true);
  }
}
