// Maxima and sums of images of one channel whose windows have no small steps along the last axis (ir/pool.h): they lie further
// apart, or share the axis out. vl rows of windows at once, of the same image or not, a row per lane:
//
//   lines of a row of windows    joined, vectors along columns: of each column the largest, and its line
//   vl of these, transposed      a vector is a column of vl rows
//   columns of a window          joined, which needs no window to have as many as the next
//   vl windows, transposed       stored row by row
//
// Lines come before columns, so that places are compared too: of equal ones the first is the largest, of NaN the last.
#include "codegen/reduce/pool_walk.h"

#include <math.h>

enum { LAST = POOL_AXES - 1, UNROLL = 4, L1_PART = 1, STACK_PART = 4, MAX_LANES = 64 };

typedef struct {
  PoolWalk *w;
  bool in_order;    // a window has one line, or nobody reads places
  int64_t windows;  // of a row that are joined together, up to vl
  int64_t columns;  // of the source, whole vectors: all that they have, or a part of the one window
  bool is_part;
  V pitch;  // elements of a line; of a plane that is one window, which is cut into lines anew, `columns`
  bool is_plane;
  V joined,
      line;  // [column, row]; before they are transposed squares of [row, column]. line NULL: it is 0, or not read
  V largest, place;  // [window, row]
} Rows;

// ---- sizes
static int64_t bound(const PoolWalk *w, Dim d) { return ir_dim_bound(w->c->f->prog, d); }

// Columns that n neighbouring windows have, at most
static int64_t columns_of(const PoolWalk *w, int64_t n) {
  const Pool *p = &w->p;
  int64_t all = cg_larger(bound(w, p->in[LAST]), 1), out = cg_larger(ir_dim_least(w->c->f->prog, p->out[LAST]), 1);
  int64_t own = p->shares ? cg_ceil_div(n * all, out) + 1
                          : (n - 1) * p->stride[LAST] + (p->kernel[LAST] - 1) * p->dilation[LAST] + 1;
  return cg_smaller(own, all);
}

// Is all of an image the one window?
static bool has_all(const PoolWalk *w) {
  const Pool *p = &w->p;
  bool all = true;
  for (uint32_t k = 0; k < POOL_AXES; k++) {
    int64_t in = ir_dim_is_const(w->c->f->prog, p->in[k]) ? bound(w, p->in[k]) : -1;
    bool is_whole = p->shares || (!p->pad[k] && p->dilation[k] == 1 && p->kernel[k] == in);
    all &= cg_is_int(w->to[k], 1) && is_whole;
  }
  return all;
}

// Lines are a vector, or some where that leaves many lines.
static int64_t columns_of_plane(const PoolWalk *w) {
  int64_t vl = w->c->t->vl, all = 1;
  for (uint32_t k = 0; k < POOL_AXES; k++) all *= bound(w, w->p.in[k]);
  return all < 4 * UNROLL * vl ? vl : UNROLL * vl;
}

static V new_block(const Rows *r, LLVMTypeRef elem, int64_t columns) {
  return cg_block(r->w->c, elem, columns * r->w->c->t->vl);
}

static bool open_rows(PoolWalk *w, Rows *r) {
  Cg *c = w->c;
  int64_t vl = c->t->vl;
  bool is_plane = has_all(w), has_line = w->out_place && (w->p.rank > 1 || is_plane);
  int64_t bytes = cg_smaller(c->t->facts.l1_bytes / L1_PART, c->t->stack_bytes / STACK_PART);
  int64_t most = cg_larger(bytes / (4 * vl * (has_line ? 2 : 1)) / vl, 1) * vl;
  *r = (Rows){.w = w, .in_order = !has_line, .windows = vl, .pitch = w->from[LAST], .is_plane = is_plane};
  while (r->windows > 1 && columns_of(w, r->windows) > most) r->windows /= 2;
  r->columns = cg_round_up(columns_of(w, r->windows), vl), r->is_part = r->columns > most;
  if (is_plane) r->columns = columns_of_plane(w), r->pitch = cg_i64(c, r->columns), r->is_part = false;
  if (r->is_part && w->p.dilation[LAST] > 1) return false;
  if (r->is_part) r->columns = most;
  r->joined = new_block(r, c->f32, r->columns), r->largest = new_block(r, c->f32, vl);
  if (has_line) r->line = new_block(r, c->i32, r->columns);
  if (w->out_place) r->place = new_block(r, c->i32, vl);
  return true;
}

// ---- lines
static V as_i32(Cg *c, V x) { return cg_splat(c, cg_trunc(c, x, c->i32)); }

static void put_line(const Rows *r, uint32_t n, V row, V to, const V *state) {
  Cg *c = r->w->c;
  for (uint32_t k = 0; k < n; k++) {
    V own = times(c, cg_add(c, plus(c, to, k * c->t->vl), row), c->t->vl);
    cg_put(c, state[r->line ? 2 * k : k], r->joined, own);
    if (r->line) cg_put(c, state[2 * k + 1], r->line, own);
  }
}

// n vectors of columns from `column` on, joined to those of row `row`; `to`: of the columns
static void join_lines(const Rows *r, V column, uint32_t n, V mask, V row, V to) {
  PoolWalk w = *r->w;
  Cg *c = w.c;
  int64_t vl = c->t->vl;
  if (!r->line) w.out_place = NULL;
  V state[UNROLL * MOST_STATE], first = cg_index(c, w.box[0].lo, w.from[1], w.box[1].lo);
  V is_empty = cg_or(c, cg_ge(c, w.box[0].lo, w.box[0].hi), cg_ge(c, w.box[1].lo, w.box[1].hi));
  first = as_i32(c, cg_select(c, is_empty, cg_i64(c, -1), first));
  uint32_t n_state = cg_pool_state(&w);
  for (uint32_t k = 0; k < n; k++) cg_pool_begin(&w, first, state + k * n_state);
  for (Loop l0 = cg_carry(c, w.box[0].lo, w.box[0].hi, cg_i64(c, w.box[0].step), state, n * n_state); cg_next(&l0);)
    for (Loop l1 = cg_carry(c, w.box[1].lo, w.box[1].hi, cg_i64(c, w.box[1].step), state, n * n_state); cg_next(&l1);) {
      V line = cg_index(c, l0.i, w.from[1], l1.i), at = cg_add(c, w.image, cg_index(c, line, w.from[LAST], column));
      for (uint32_t k = 0; k < n; k++) {
        V x = cg_get_masked(c, c->vf, w.src, plus(c, at, k * vl), mask);
        cg_pool_join(&w, x, as_i32(c, line), NULL, NULL, NULL, state + k * n_state);
      }
    }
  put_line(r, n, row, to, state);
}

static void join_row(const Rows *r, V row, V lo, V hi) {
  Cg *c = r->w->c;
  V whole, n = cg_sub(c, hi, lo);
  for (Loop l = cg_each_whole(c, cg_i64(c, 0), n, UNROLL * c->t->vl, &whole); cg_next(&l);)
    join_lines(r, cg_add(c, lo, l.i), UNROLL, NULL, row, l.i);
  for (Loop l = cg_each_by(c, whole, n, cg_vl(c)); cg_next(&l);)
    join_lines(r, cg_add(c, lo, l.i), 1, cg_mask(c, cg_sub(c, n, l.i)), row, l.i);
}

// Image `image`, as lines of `columns` elements
static void join_plane(const Rows *r, V image, V row) {
  PoolWalk w = *r->w;
  Cg *c = w.c;
  int64_t vl = c->t->vl;
  if (!r->line) w.out_place = NULL;
  V n = cg_mul(c, cg_mul(c, w.from[0], w.from[1]), w.from[LAST]), first = cg_mul(c, image, n), whole;
  V state[UNROLL * MOST_STATE], zero = cg_splat(c, cg_i32(c, 0));
  uint32_t n_vectors = (uint32_t)(r->columns / vl), n_state = cg_pool_state(&w);
  for (uint32_t k = 0; k < n_vectors; k++) cg_pool_begin(&w, zero, state + k * n_state);
  whole = cg_multiple(c, n, r->pitch);
  for (Loop l = cg_carry(c, cg_i64(c, 0), whole, r->pitch, state, n_vectors * n_state); cg_next(&l);)
    for (uint32_t k = 0; k < n_vectors; k++) {
      V x = cg_get(c, c->vf, w.src, cg_add(c, first, plus(c, l.i, k * vl)));
      cg_pool_join(&w, x, as_i32(c, cg_div(c, l.i, r->pitch)), NULL, NULL, NULL, state + k * n_state);
    }
  V line = as_i32(c, cg_div(c, whole, r->pitch)), end = cg_splat(c, cg_f32(c, w.op == OP_max_pool ? -INFINITY : 0));
  for (uint32_t k = 0; k < n_vectors; k++) {
    V at = plus(c, whole, k * vl), mask = cg_mask(c, cg_max(c, cg_sub(c, n, at), cg_i64(c, 0)));
    V x = cg_load_masked(c, c->vf, cg_at_any(c, c->f32, w.src, cg_add(c, first, at)), mask);
    cg_pool_join(&w, cg_select(c, mask, x, end), line, NULL, NULL, NULL, state + k * n_state);
  }
  put_line(r, n_vectors, row, cg_i64(c, 0), state);
}

static void transpose(Cg *c, LLVMTypeRef type, V square, V column) {
  int64_t vl = c->t->vl;
  V x[MAX_LANES], at = times(c, column, vl);
  for (int64_t k = 0; k < vl; k++) x[k] = cg_get(c, type, square, plus(c, at, k * vl));
  cg_transpose(c, x);
  for (int64_t k = 0; k < vl; k++) cg_put(c, x[k], square, plus(c, at, k * vl));
}

// Columns [lo, hi) of rows first .. first + n
static void join_rows(const Rows *r, V first, V n, V lo, V hi) {
  Cg *c = r->w->c;
  for (Loop row = cg_count(c, n); cg_next(&row);) {
    if (r->is_plane) {
      join_plane(r, cg_add(c, first, row.i), row.i);
    } else {
      cg_pool_enter_row(r->w, cg_add(c, first, row.i));
      join_row(r, row.i, lo, hi);
    }
  }
  for (Loop l = cg_count_by(c, cg_sub(c, hi, lo), cg_vl(c)); cg_next(&l);) {
    transpose(c, c->vf, r->joined, l.i);
    if (r->line) transpose(c, c->vi32, r->line, l.i);
  }
}

// ---- columns
static void join_first(const Rows *r, V x, V place, V *state) {
  Cg *c = r->w->c;
  V is_before = cg_lt(c, place, state[1]), more = cg_fcmp(c, LLVMRealOGT, x, state[0]);
  V ties = cg_and(c, cg_fcmp(c, LLVMRealOEQ, x, state[0]), is_before);
  V is_other = cg_not(c, cg_and(c, cg_nan_lanes(c, state[0]), is_before)),
    is_last = cg_and(c, cg_nan_lanes(c, x), is_other);
  V take = cg_or(c, cg_or(c, more, ties), is_last);
  state[0] = cg_select(c, take, x, state[0]), state[1] = cg_select(c, take, place, state[1]);
}

static void begin(const Rows *r, V *state) {
  const PoolWalk *w = r->w;
  Cg *c = w->c;
  const Range *own = &w->box[LAST];
  V first = r->in_order ? as_i32(c, cg_select(c, cg_lt(c, own->lo, own->hi), own->lo, cg_i64(c, -1)))
                        : cg_splat(c, cg_i32(c, INT32_MAX));
  cg_pool_begin(w, first, state);
}

// Columns [lo, hi) of the window, of which `from` is the first that is there
static void join_columns(const Rows *r, V lo, V hi, V from, V *state) {
  const PoolWalk *w = r->w;
  Cg *c = w->c;
  for (Loop l = cg_carry(c, lo, hi, cg_i64(c, w->box[LAST].step), state, cg_pool_state(w)); cg_next(&l);) {
    V at = times(c, cg_sub(c, l.i, from), c->t->vl), x = cg_get(c, c->vf, r->joined, at), place = as_i32(c, l.i);
    if (r->in_order) {
      cg_pool_join(w, x, place, NULL, NULL, NULL, state);
      continue;
    }
    V line = cg_get(c, c->vi32, r->line, at);
    join_first(r, x, cg_iadd(c, cg_imul(c, line, as_i32(c, r->pitch)), place), state);
  }
}

static void end(const Rows *r, V window, const V *state) {
  const PoolWalk *w = r->w;
  Cg *c = w->c;
  V at = times(c, window, c->t->vl);
  cg_put(c, cg_pool_divided(w, state[0]), r->largest, at);
  if (!r->place) return;
  V elements = as_i32(c, cg_mul(c, cg_mul(c, w->from[0], w->from[1]), w->from[LAST]));
  cg_put(c, cg_select(c, cg_below(c, state[1], elements), state[1], cg_splat(c, cg_i32(c, -1))), r->place, at);
}

// ---- windows [j, j + n) of some rows
static void some_windows(const Rows *r, V first, V n_rows, V j, V n) {
  PoolWalk *w = r->w;
  Cg *c = w->c;
  V state[MOST_STATE], lo = cg_pool_first(w, LAST, j);
  cg_pool_enter(w, LAST, plus(c, cg_add(c, j, n), -1));
  join_rows(r, first, n_rows, lo, cg_max(c, lo, w->box[LAST].hi));
  for (Loop l = cg_count(c, n); cg_next(&l);) {
    cg_pool_enter(w, LAST, cg_add(c, j, l.i));
    begin(r, state);
    join_columns(r, w->box[LAST].lo, w->box[LAST].hi, lo, state);
    end(r, l.i, state);
  }
}

// All of some images
static void planes(const Rows *r, V first, V n_rows) {
  PoolWalk *w = r->w;
  Cg *c = w->c;
  V state[MOST_STATE], zero = cg_i64(c, 0), n = cg_mul(c, cg_mul(c, w->from[0], w->from[1]), w->from[LAST]);
  w->box[LAST] = (Range){zero, cg_min(c, n, r->pitch), 1};
  join_rows(r, first, n_rows, zero, r->pitch);
  begin(r, state);
  join_columns(r, zero, w->box[LAST].hi, zero, state);
  end(r, zero, state);
}

static void one_window(const Rows *r, V first, V n_rows, V j) {
  PoolWalk *w = r->w;
  Cg *c = w->c;
  V state[MOST_STATE], columns = cg_i64(c, r->columns);
  cg_pool_enter(w, LAST, j);
  begin(r, state);
  Range own = w->box[LAST];
  for (Loop l = cg_carry(c, own.lo, own.hi, columns, state, cg_pool_state(w)); cg_next(&l);) {
    V hi = cg_min(c, own.hi, cg_add(c, l.i, columns));
    join_rows(r, first, n_rows, l.i, hi);
    join_columns(r, l.i, hi, l.i, state);
  }
  end(r, cg_i64(c, 0), state);
}

static void store_rows(const Rows *r, LLVMTypeRef type, V from, V to, V first, V n_rows, V j, V n) {
  const PoolWalk *w = r->w;
  Cg *c = w->c;
  V zero = cg_i64(c, 0);
  if (!to) return;
  if (cg_is_int(w->to[LAST], 1)) {
    cg_put_masked(c, cg_get(c, type, from, zero), to, first, cg_mask(c, n_rows));
    return;
  }
  transpose(c, type, from, zero);
  for (If all = cg_either(c, cg_eq(c, n, cg_vl(c))); cg_then(&all);)
    for (Loop l = cg_count(c, n_rows); cg_next(&l);) {
      V at = cg_index(c, cg_add(c, first, l.i), w->to[LAST], j), x = cg_get(c, type, from, times(c, l.i, c->t->vl));
      cg_put_masked(c, x, to, at, all.is_true ? NULL : cg_mask(c, n));
    }
}

bool cg_pool_rows(PoolWalk *w) {
  Cg *c = w->c;
  if (w->op != OP_max_pool && w->op != OP_sum_pool) return false;
  Rows r;
  if (!open_rows(w, &r)) return false;
  int64_t vl = c->t->vl;
  V rows = cg_mul(c, cg_dim(c, w->p.n), cg_mul(c, w->to[0], w->to[1]));
  V groups = cg_ceil_div_value(c, rows, vl), parts = cg_ceil_div_value(c, w->to[LAST], r.windows);
  for (Loop l = cg_each_shared(c, cg_mul(c, groups, parts), 1); cg_next(&l);) {
    V group = cg_div(c, l.i, parts), j = times(c, cg_sub(c, l.i, cg_mul(c, group, parts)), r.windows);
    V first = times(c, group, vl), n_rows = cg_min(c, cg_vl(c), cg_sub(c, rows, first));
    V n = cg_min(c, cg_i64(c, r.windows), cg_sub(c, w->to[LAST], j));
    if (r.is_plane) planes(&r, first, n_rows);
    else if (r.is_part) one_window(&r, first, n_rows, j);
    else some_windows(&r, first, n_rows, j, n);
    store_rows(&r, c->vf, r.largest, w->out, first, n_rows, j, n);
    if (r.place) store_rows(&r, c->vi32, r.place, w->out_place, first, n_rows, j, n);
  }
  return true;
}
