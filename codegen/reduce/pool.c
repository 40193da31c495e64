// Pools (ir/pool.h), images of other sizes (ir/resize.h) and the gradients of both: for each pixel of the result a box of
// pixels of the source, vectors along channels; of one channel along columns, if they go in small steps (pool_columns.c).
//
//   forward     a window: the elements of x that the position has
//   gradients   the positions whose windows have the element of x; of maxima those count whose place is this element
//   resizing    tables of constants say for each axis which neighbours a pixel has, and their weights
//
// A row of pixels, those of the last spatial axis, belongs to one worker. Elements of a box are taken in the order of memory.
#include "codegen/emitters.h"
#include "codegen/reduce/pool_walk.h"

#include <math.h>

enum { UNROLL = 4 };  // vectors walked together

// ---- boxes
static V positive(Cg *c, V x) { return cg_max(c, x, cg_i64(c, 0)); }

static Range window(const PoolWalk *w, uint32_t k, V j) {
  Cg *c = w->c;
  int64_t d = w->p.dilation[k];
  V begin = plus(c, times(c, j, w->p.stride[k]), -w->p.pad[k]), before = positive(c, LLVMBuildNSWNeg(c->b, begin, ""));
  V lo = w->p.pad[k] ? cg_add(c, begin, times(c, cg_ceil_div_value(c, before, d), d)) : begin;
  return (Range){lo, cg_min(c, plus(c, begin, (w->p.kernel[k] - 1) * d + 1), w->from[k]), d};
}

static Range positions(const PoolWalk *w, uint32_t k, V i) {
  Cg *c = w->c;
  int64_t stride = w->p.stride[k], reach = (w->p.kernel[k] - 1) * w->p.dilation[k];
  V at = plus(c, i, w->p.pad[k]), last = cg_div(c, at, cg_i64(c, stride));
  V lo = cg_ceil_div_value(c, positive(c, plus(c, at, -reach)), stride);
  return (Range){lo, cg_min(c, plus(c, last, 1), w->from[k]), 1};
}

// Adaptive windows: the elements of the source in window j, and, from and to exchanged, the windows that hold element j.
static Range share(const PoolWalk *w, uint32_t k, V j) {
  Cg *c = w->c;
  V begin = cg_mul(c, j, w->from[k]), end = cg_add(c, begin, cg_add(c, w->from[k], plus(c, w->to[k], -1)));
  return (Range){cg_div(c, begin, w->to[k]), cg_div(c, end, w->to[k]), 1};
}

static V table_at(const PoolWalk *w, V table, V j) {
  return cg_sext(w->c, cg_get(w->c, w->c->i32, table, j), w->c->i64);
}

static Range neighbours(const PoolWalk *w, uint32_t k, V j) {
  return (Range){table_at(w, w->table[k].lo, j), table_at(w, w->table[k].hi, j), 1};
}

static Range box_along(const PoolWalk *w, uint32_t k, V j) {
  if (w->table[k].lo) return neighbours(w, k, j);
  return w->p.shares ? share(w, k, j) : w->p.is_grad ? positions(w, k, j) : window(w, k, j);
}

void cg_pool_enter(PoolWalk *w, uint32_t k, V j) {
  w->at[k] = j;
  w->box[k] = box_along(w, k, j);
}

V cg_pool_first(const PoolWalk *w, uint32_t k, V j) {
  Cg *c = w->c;
  return w->p.shares ? share(w, k, j).lo : positive(c, plus(c, times(c, j, w->p.stride[k]), -w->p.pad[k]));
}

// ---- a block of neighbouring channels
typedef struct {
  V at;        // its first channel
  uint32_t n;  // vectors
  V mask;      // of the only vector; NULL: whole ones
} Channels;

uint32_t cg_pool_state(const PoolWalk *w) { return w->out_place ? 2 : 1; }

static V place_of(const PoolWalk *w, V a, V b, V e) {
  Cg *c = w->c;
  return cg_add(c, cg_mul(c, cg_add(c, cg_mul(c, a, w->from[1]), b), w->from[2]), e);
}

static V as_i32(Cg *c, V x) { return cg_splat(c, cg_trunc(c, x, c->i32)); }

// The place of a window's first element; -1, which is no element's, where it lies wholly in the padding.
static V first_place(const PoolWalk *w) {
  Cg *c = w->c;
  V first = place_of(w, w->box[0].lo, w->box[1].lo, w->box[2].lo);
  for (uint32_t k = POOL_AXES - w->p.rank; k < POOL_AXES; k++) {
    V is_empty = cg_ge(c, w->box[k].lo, w->box[k].hi);
    first = cg_select(c, is_empty, cg_i64(c, -1), first);
  }
  return as_i32(c, first);
}

void cg_pool_begin(const PoolWalk *w, V first, V *state) {
  state[0] = cg_splat(w->c, cg_f32(w->c, w->op == OP_max_pool ? -INFINITY : 0));
  if (w->out_place) state[1] = first;
}

// The first of equal maxima wins, and the last NaN.
void cg_pool_join(const PoolWalk *w, V x, V place, V src_place, V own, V weight, V *state) {
  Cg *c = w->c;
  if (weight) {
    state[0] = cg_fma(c, x, weight, state[0]);
    return;
  }
  if (w->op == OP_max_pool) {
    V more = cg_fcmp(c, LLVMRealOGT, x, state[0]), is_nan = cg_fcmp(c, LLVMRealUNO, x, x);
    V largest = cg_select(c, more, x, state[0]);  // by itself: there is an instruction for it
    state[0] = cg_select(c, is_nan, x, largest);
    if (w->out_place) state[1] = cg_select(c, cg_or(c, more, is_nan), place, state[1]);
    return;
  }
  V sum = cg_fadd(c, state[0], x);
  if (src_place) sum = cg_select(c, cg_eq(c, src_place, own), sum, state[0]);
  state[0] = sum;
}

V cg_pool_divided(const PoolWalk *w, V sum) {
  return w->divisor == 1 ? sum : cg_fdiv(w->c, sum, cg_splat(w->c, cg_f32(w->c, w->divisor)));
}

V cg_pool_weight(const PoolWalk *w, uint32_t n_axes, const V *index) {
  Cg *c = w->c;
  V all = NULL;
  for (uint32_t k = 0; k < n_axes; k++) {
    const Table *t = &w->table[k];
    if (!t->weight) continue;
    V at = cg_add(c, times(c, w->at[k], t->taps.width), cg_sub(c, index[k], w->box[k].lo));
    V own = cg_get(c, c->f32, t->weight, at);
    all = all ? cg_fmul(c, all, own) : own;
  }
  return all;
}

static void visit(const PoolWalk *w, const Channels *of, const V *index, V *state) {
  Cg *c = w->c;
  V place = place_of(w, index[0], index[1], index[2]), weight = cg_pool_weight(w, POOL_AXES, index),
    places = as_i32(c, place), at = cg_add(c, cg_add(c, w->image, cg_mul(c, place, w->channels)), of->at);
  if (weight) weight = cg_splat(c, weight);
  V result = w->src_place ? as_i32(c, cg_add(c, cg_mul(c, w->line, w->to[2]), w->at[2])) : NULL;
  for (uint32_t k = 0; k < of->n; k++) {
    V own = plus(c, at, (int64_t)k * c->t->vl), src_place = NULL;
    if (w->src_place) src_place = cg_get_masked(w->c, c->vi32, w->src_place, own, of->mask);
    V x = cg_get_masked(w->c, c->vf, w->src, own, of->mask);
    cg_pool_join(w, x, places, src_place, result, weight, state + k * cg_pool_state(w));
  }
}

static void store(const PoolWalk *w, const Channels *of, V x, LLVMTypeRef elem, V base, V at) {
  if (!base) return;
  V p = cg_at(w->c, elem, base, at);
  if (of->mask && !w->has_room) cg_store_masked(w->c, x, p, of->mask);
  else cg_store(w->c, x, p);
}

static void finish(const PoolWalk *w, const Channels *of, const V *state) {
  Cg *c = w->c;
  V at = cg_add(c, cg_mul(c, w->pixel, w->channels), of->at);
  for (uint32_t k = 0; k < of->n; k++) {
    V own = plus(c, at, (int64_t)k * c->t->vl);
    const V *of_vector = state + k * cg_pool_state(w);
    store(w, of, cg_pool_divided(w, of_vector[0]), c->f32, w->out, own);
    if (w->out_place) store(w, of, of_vector[1], c->i32, w->out_place, own);
  }
}

// ---- boxes of any size, and windows that are whole
static void walk_loops(const PoolWalk *w, const Channels *of, V *index, uint32_t axis, V *state) {
  Cg *c = w->c;
  if (axis == POOL_AXES) {
    visit(w, of, index, state);
    return;
  }
  if (axis < POOL_AXES - w->p.rank) {
    index[axis] = cg_i64(c, 0);
    walk_loops(w, of, index, axis + 1, state);
    return;
  }
  const Range *r = &w->box[axis];
  uint32_t n = of->n * cg_pool_state(w);
  for (Loop l = cg_carry(c, r->lo, r->hi, cg_i64(c, r->step), state, n); cg_next(&l);) {
    index[axis] = l.i;
    walk_loops(w, of, index, axis + 1, state);
  }
}

static int64_t taps(const PoolWalk *w) { return w->p.kernel[0] * w->p.kernel[1] * w->p.kernel[2]; }

static void walk_taps(const PoolWalk *w, const Channels *of, V *state) {
  Cg *c = w->c;
  const Pool *p = &w->p;
  for (int64_t t = 0; t < taps(w); t++) {
    int64_t tap[POOL_AXES] = {t / (p->kernel[1] * p->kernel[2]), t / p->kernel[2] % p->kernel[1], t % p->kernel[2]};
    V at[POOL_AXES];
    for (uint32_t k = 0; k < POOL_AXES; k++) at[k] = plus(c, w->box[k].lo, tap[k] * p->dilation[k]);
    visit(w, of, at, state);
  }
}

static void channels(const PoolWalk *w, const Channels *of, bool is_whole) {
  V state[UNROLL * MOST_STATE], index[POOL_AXES];
  V first = w->out_place ? first_place(w) : NULL;
  for (uint32_t k = 0; k < of->n; k++) cg_pool_begin(w, first, state + k * cg_pool_state(w));
  if (is_whole) walk_taps(w, of, state);
  else walk_loops(w, of, index, 0, state);
  finish(w, of, state);
}

static void all_channels(const PoolWalk *w, bool is_whole) {
  Cg *c = w->c;
  int64_t vl = c->t->vl, n = 0;
  bool is_known = cg_const_value(w->channels, &n);
  V blocks;
  for (Loop l = cg_each_whole(c, cg_i64(c, 0), w->channels, UNROLL * vl, &blocks); cg_next(&l);)
    channels(w, &(Channels){l.i, UNROLL, NULL}, is_whole);
  for (Loop l = cg_each_by(c, blocks, w->channels, cg_i64(c, vl)); cg_next(&l);) {
    bool has_part = !is_known || n % vl;
    channels(w, &(Channels){l.i, 1, has_part ? cg_mask(c, cg_sub(c, w->channels, l.i)) : NULL}, is_whole);
  }
}

// As a pixel whose channels are the columns.
void cg_pool_add_lines(const PoolWalk *w, V to) {
  Cg *c = w->c;
  PoolWalk lines = *w;
  lines.channels = w->from[2], lines.from[2] = cg_i64(c, 1);
  lines.table[2] = (Table){0};
  lines.box[2] = (Range){cg_i64(c, 0), cg_i64(c, 1), 1};
  lines.divisor = 1, lines.has_room = true, lines.out = to, lines.out_place = NULL, lines.pixel = cg_i64(c, 0);
  all_channels(&lines, false);
}

// ---- pixels
V cg_pool_is_whole(const PoolWalk *w, uint32_t n_axes) {
  Cg *c = w->c;
  V all = LLVMConstInt(c->i1, 1, false);
  for (uint32_t k = POOL_AXES - w->p.rank; k < n_axes; k++) {
    V size = cg_sub(c, w->box[k].hi, w->box[k].lo), want = cg_i64(c, (w->p.kernel[k] - 1) * w->p.dilation[k] + 1);
    all = cg_and(c, all, cg_eq(c, size, want));
  }
  return all;
}

static void pixel(const PoolWalk *w) {
  Cg *c = w->c;
  if (w->p.is_grad || w->p.shares || taps(w) > MOST_TAPS) {
    all_channels(w, false);
    return;
  }
  for (If s = cg_either(c, cg_pool_is_whole(w, POOL_AXES)); cg_then(&s);)
    if (s.is_true) all_channels(w, true);
    else all_channels(w, false);
}

static void each_pixel(PoolWalk *w) {
  Cg *c = w->c;
  for (Loop column = cg_count(c, w->to[2]); cg_next(&column);) {
    cg_pool_enter(w, 2, column.i);
    w->pixel = cg_add(c, cg_mul(c, w->row, w->to[2]), column.i);
    pixel(w);
  }
}

void cg_pool_enter_row(PoolWalk *w, V row) {
  Cg *c = w->c;
  V upper = cg_div(c, row, w->to[1]), b = cg_sub(c, row, cg_mul(c, upper, w->to[1]));
  V image = cg_div(c, upper, w->to[0]), a = cg_sub(c, upper, cg_mul(c, image, w->to[0]));
  V plane = cg_mul(c, cg_mul(c, w->from[0], w->from[1]), w->from[2]);
  w->image = cg_mul(c, cg_mul(c, image, plane), w->channels);
  w->row = row, w->line = cg_add(c, cg_mul(c, a, w->to[1]), b);
  cg_pool_enter(w, 0, a), cg_pool_enter(w, 1, b);
}

void cg_pool_row(PoolWalk *w, V row, const PoolColumns *columns) {
  cg_pool_enter_row(w, row);
  if (columns) cg_pool_columns(w, columns);
  else each_pixel(w);
}

static void each_row(PoolWalk *w) {
  Cg *c = w->c;
  PoolColumns columns;
  bool is_plane = cg_is_int(w->channels, 1),
       by_columns = is_plane && ir_pool_columns(c->f, (Val){c->k->first}, c->mem, &columns);
  if (by_columns && cg_pool_maxima(w, &columns)) return;
  if (is_plane && !by_columns && cg_pool_rows(w)) return;
  if (by_columns) by_columns = cg_pool_columns_open(w, &columns);
  for (Loop row = cg_each_shared(c, cg_mul(c, cg_dim(c, w->p.n), cg_mul(c, w->to[0], w->to[1])), 1); cg_next(&row);)
    cg_pool_row(w, row.i, by_columns ? &columns : NULL);
}

// ---- tables
V cg_pool_constants(Cg *c, LLVMTypeRef type, V *value, int64_t n) {
  V table = LLVMAddGlobal(c->mod, LLVMArrayType2(type, (uint64_t)n), "taps");
  LLVMSetInitializer(table, LLVMConstArray2(type, value, (uint64_t)n));
  LLVMSetGlobalConstant(table, true);
  LLVMSetLinkage(table, LLVMInternalLinkage);
  return table;
}

static V whole_numbers(Cg *c, const int32_t *x, int64_t n) {
  V *value = rt_alloc(c->mem, (size_t)n * sizeof *value);
  for (int64_t k = 0; k < n; k++) value[k] = cg_i32(c, x[k]);
  return cg_pool_constants(c, c->i32, value, n);
}

static V numbers(Cg *c, const float *x, int64_t n) {
  V *value = rt_alloc(c->mem, (size_t)n * sizeof *value);
  for (int64_t k = 0; k < n; k++) value[k] = cg_f32(c, (double)x[k]);
  return cg_pool_constants(c, c->f32, value, n);
}

static bool has_weights(const AxisTaps *t) {
  for (int64_t j = 0; j < t->n; j++)
    for (int64_t i = 0; i < t->hi[j] - t->lo[j]; i++)
      if (t->weight[j * t->width + i] != 1) return true;
  return false;
}

static void make_tables(PoolWalk *w, Val v) {
  Cg *c = w->c;
  for (uint32_t k = 0; k < w->p.rank; k++) {
    AxisTaps t = ir_axis_taps(c->f, v, k, c->mem);
    V weight = has_weights(&t) ? numbers(c, t.weight, t.n * t.width) : NULL;
    w->table[POOL_AXES - w->p.rank + k] = (Table){whole_numbers(c, t.lo, t.n), whole_numbers(c, t.hi, t.n), weight, t};
  }
}

bool cg_emit_pool(Cg *c) {
  Val v = {c->k->first};
  PoolWalk w = {.c = c, .op = (Op)ir_ins(c->f, v)->op, .divisor = 1};
  ir_pool(c->f, v, &w.p);
  for (uint32_t k = 0; k < POOL_AXES; k++) {
    V in = cg_dim(c, w.p.in[k]), out = cg_dim(c, w.p.out[k]);
    w.from[k] = w.p.is_grad ? out : in, w.to[k] = w.p.is_grad ? in : out;
  }
  const Attr *divisor = ir_attr(c->f, v, KEY_divisor);
  if (divisor) w.divisor = divisor->u.f;
  w.channels = cg_dim(c, w.p.channels);
  w.src = cg_ptr(c, ir_arg(c->f, v, 0)), w.out = cg_ptr_or_null(c, v);
  if (w.op == OP_max_pool_grad) w.src_place = cg_ptr(c, ir_arg(c->f, v, 1));
  if (w.op == OP_max_pool) w.out_place = cg_ptr_or_null(c, ir_result(v, 1));
  if (w.op == OP_resize || w.op == OP_resize_grad) make_tables(&w, v);
  if (cg_pool_scatters(&w)) cg_pool_scatter(&w);
  else each_row(&w);
  return true;
}
