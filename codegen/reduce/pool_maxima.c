// Maxima of images of one channel whose windows overlap: along columns first, once for each line, then along lines.
//
//   5 x 5, stride 1      5 + 5 elements for each window, not 25
//
//   lines of the image   copied with -inf on both sides; columns of one residue of the stride side by side (phases), so
//                        that each tap reads neighbours
//   along columns        of each line the largest of each window's columns, and its tap, over all lines as if they were one
//   along lines          of these the largest, and its place
//
// Either takes the first of equal ones, so that the place is that of the first in the order of memory. A band of rows of windows
// is in L1. Where the band's image has NaN or an infinity its rows are walked as pool_columns.c does, which knows what is
// first of those; elsewhere one comparison says which is larger, and only a window without elements has -inf.
#include "codegen/lanes.h"
#include "codegen/math/primitives.h"
#include "codegen/reduce/pool_walk.h"

#include <math.h>

enum { LAST = POOL_AXES - 1, L1_PART = 4, STACK_PART = 4 };

typedef struct {
  PoolWalk *w;
  uint32_t stride;
  int64_t reach;                 // elements of a phase from a window's first to its last
  int64_t rows, lines, columns;  // of a band: rows of windows; lines of a plane that they have; windows of a row
  V phase[POOL_MOST_STRIDE];     // [plane, line, column]: of the band's image
  bool prefetches;
  V largest, tap;  // likewise, of windows along columns; tap NULL: places are not read
} Bands;

// ---- sizes
static int64_t lines_of(const Pool *p, int64_t rows) {
  return (rows - 1) * p->stride[1] + (p->kernel[1] - 1) * p->dilation[1] + 1;
}

static int64_t elements_of(const Bands *m, int64_t rows, int64_t columns) {
  const Pool *p = &m->w->p;
  return p->kernel[0] * lines_of(p, rows) * (columns + m->reach) + m->reach + m->w->c->t->vl;
}

static int64_t bytes_of(const Bands *m, int64_t rows, int64_t columns) {
  int64_t arrays = m->stride + (m->w->out_place ? 2 : 1);
  return 4 * arrays * elements_of(m, rows, columns);
}

static bool choose_band(Bands *m) {
  const Pool *p = &m->w->p;
  const Cg *c = m->w->c;
  int64_t vl = c->t->vl, most = cg_smaller(c->t->facts.l1_bytes / L1_PART, c->t->stack_bytes / STACK_PART);
  int64_t all = cg_larger(ir_dim_bound(c->f->prog, p->out[1]), 1);
  m->columns = cg_larger(ir_dim_bound(c->f->prog, p->out[LAST]), 1), m->rows = 1;
  while (bytes_of(m, 1, m->columns) > most && m->columns > 2 * vl) m->columns = cg_round_up(m->columns / 2, vl);
  if (bytes_of(m, 1, m->columns) > most) return false;
  while (m->rows < all && bytes_of(m, m->rows + 1, m->columns) <= most) m->rows++;
  m->rows = cg_ceil_div(all, cg_ceil_div(all, m->rows)), m->lines = lines_of(p, m->rows);
  return true;
}

// Elements of a window that are compared, in either way, and vectors that are copied for it
static bool pays(const Bands *m) {
  const Pool *p = &m->w->p;
  int64_t lines = p->kernel[0] * p->kernel[1], of_step = p->stride[1] * p->kernel[0];
  return lines * p->kernel[LAST] * 2 > of_step * (p->kernel[LAST] + 2 * m->stride) + lines;
}

static bool open_bands(PoolWalk *w, const PoolColumns *of, Bands *m) {
  const Pool *p = &w->p;
  int64_t reach = (p->kernel[LAST] - 1) * p->dilation[LAST] / p->stride[LAST];
  *m = (Bands){.w = w, .stride = of->stride, .reach = reach};
  if (w->op != OP_max_pool || of->n_gathered || p->shares || p->kernel[0] * p->kernel[1] > MOST_TAPS) return false;
  if (!pays(m) || !choose_band(m)) return false;
  m->prefetches = 4 * ir_shape_bound(w->c->f->prog, ir_ins(w->c->f, p->x)->shape) > w->c->t->facts.l2_bytes;
  int64_t n = elements_of(m, m->rows, m->columns);
  for (uint32_t r = 0; r < m->stride; r++) m->phase[r] = cg_block(w->c, w->c->f32, n);
  m->largest = cg_block(w->c, w->c->f32, n);
  if (w->out_place) m->tap = cg_block(w->c, w->c->i32, n);
  return true;
}

// ---- a band during emission
typedef struct {
  const Bands *of;
  V row, n_rows;        // of windows of an image's plane
  V column, n_columns;  // of windows of a row
  V plane;              // of windows, of an image with depth
  V pitch;              // elements of a line
} Band;

static V negative(Cg *c) { return cg_splat(c, cg_f32(c, -INFINITY)); }

// ---- lines
static void fill_lines(const Band *b, V lo, V hi) {
  Cg *c = b->of->w->c;
  for (Loop l = cg_each_by(c, cg_mul(c, lo, b->pitch), cg_mul(c, hi, b->pitch), cg_vl(c)); cg_next(&l);)
    for (uint32_t r = 0; r < b->of->stride; r++) cg_put(c, negative(c), b->of->phase[r], l.i);
}

// The source's column of a phase's element i, or of the vector `k` from there on.
static V column_of(const Band *b, V i, int64_t k) {
  Cg *c = b->of->w->c;
  return plus(c, times(c, cg_add(c, b->column, i), b->of->stride), k * c->t->vl - b->of->w->p.pad[LAST]);
}

// The vectors of line `from` of the source that begin at a phase's element i. *check is NaN where one is NaN or infinite.
static void load_steps(const Band *b, V from, V i, bool is_inside, V *piece, V *check) {
  const PoolWalk *w = b->of->w;
  Cg *c = w->c;
  for (uint32_t k = 0; k < b->of->stride; k++) {
    V own = column_of(b, i, k), p = cg_at_any(c, c->f32, w->src, cg_add(c, from, own));
    V inside = is_inside ? NULL : cg_numbers_below(c, cg_numbers_from(c, own, 1), w->from[LAST]);
    V x = cg_load_masked(c, c->vf, p, inside);
    *check = cg_fma(c, x, cg_zeros(c), *check);
    piece[k] = is_inside ? x : cg_select(c, inside, x, negative(c));
  }
}

// [*lo, *hi): whole vectors of a line's phases whose columns all are the source's.
static void find_inside(const Band *b, V *lo, V *hi) {
  const PoolWalk *w = b->of->w;
  Cg *c = w->c;
  V before = cg_max(c, cg_i64(c, 0), cg_sub(c, cg_i64(c, w->p.pad[LAST]), times(c, b->column, b->of->stride)));
  V end = cg_sub(c, cg_div(c, plus(c, w->from[LAST], w->p.pad[LAST]), cg_i64(c, b->of->stride)), b->column);
  *lo = cg_min(c, cg_mul(c, cg_ceil_div_value(c, before, b->of->stride * c->t->vl), cg_vl(c)), b->pitch);
  *hi = cg_add(c, *lo, cg_multiple(c, cg_max(c, cg_sub(c, cg_min(c, end, b->pitch), *lo), cg_i64(c, 0)), cg_vl(c)));
}

static void copy_steps(const Band *b, V from, V to, V i, bool is_inside, V *check) {
  const Bands *m = b->of;
  Cg *c = m->w->c;
  V piece[POOL_MOST_STRIDE];
  load_steps(b, from, i, is_inside, piece, check);
  V wide = cg_join_vectors(c, piece, m->stride);
  for (uint32_t r = 0; r < m->stride; r++)
    cg_put(c, m->stride == 1 ? wide : cg_every_lane(c, wide, r, m->stride), m->phase[r], cg_add(c, to, i));
}

// What a last vector writes behind its line the next one writes anew.
static void copy_lines(const Band *b, V source, V first, V lo, V hi, V *check) {
  const PoolWalk *w = b->of->w;
  Cg *c = w->c;
  V inside[2];
  find_inside(b, &inside[0], &inside[1]);
  for (Loop line = cg_carry(c, lo, hi, cg_i64(c, 1), check, 1); cg_next(&line);) {
    V from = cg_index(c, cg_add(c, source, line.i), w->from[LAST], w->image);
    V to = cg_mul(c, cg_add(c, first, line.i), b->pitch);
    V bound[] = {cg_i64(c, 0), inside[0], inside[1], b->pitch};
    for (uint32_t k = 0; k < 3; k++)
      for (Loop l = cg_carry(c, bound[k], bound[k + 1], cg_vl(c), check, 1); cg_next(&l);)
        copy_steps(b, from, to, l.i, k == 1, check);
  }
}

static V clamped(Cg *c, V x, V most) { return cg_min(c, cg_max(c, x, cg_i64(c, 0)), most); }

static void copy_image(const Band *b, V *check) {
  const PoolWalk *w = b->of->w;
  const Pool *p = &w->p;
  Cg *c = w->c;
  V zero = cg_i64(c, 0), lines = cg_i64(c, b->of->lines);
  V begin = plus(c, times(c, b->row, p->stride[1]), -p->pad[1]);
  for (int64_t t = 0; t < p->kernel[0]; t++) {
    V at = plus(c, times(c, b->plane, p->stride[0]), t * p->dilation[0] - p->pad[0]);
    V is_there = cg_below(c, at, w->from[0]), first = cg_i64(c, t * b->of->lines);
    V lo = clamped(c, cg_sub(c, zero, begin), lines), hi = clamped(c, cg_sub(c, w->from[1], begin), lines);
    hi = cg_select(c, is_there, cg_max(c, lo, hi), lo);
    fill_lines(b, first, cg_add(c, first, lo));
    copy_lines(b, cg_index(c, at, w->from[1], begin), first, lo, hi, check);
    fill_lines(b, cg_add(c, first, hi), cg_add(c, first, lines));
  }
}

// ---- the largest
static void join(Cg *c, V x, V tap, V *largest, V *own) {
  V more = cg_fcmp(c, LLVMRealOGT, x, *largest);
  *largest = cg_select(c, more, x, *largest);
  if (tap) *own = cg_select(c, more, tap, *own);
}

// What the next band copies, behind what this one did.
static void prefetch(const Band *b, V i) {
  const Bands *m = b->of;
  const PoolWalk *w = m->w;
  Cg *c = w->c;
  V line = plus(c, times(c, b->row, w->p.stride[1]), m->lines - w->p.pad[1]);
  V at = cg_add(c, cg_index(c, line, w->from[LAST], w->image), times(c, i, m->stride));
  for (uint32_t k = 0; k < m->stride; k++)
    cg_prefetch_l2(c, cg_at_any(c, c->f32, w->src, plus(c, at, (int64_t)k * c->t->vl)));
}

static void along_columns(const Band *b) {
  const Bands *m = b->of;
  const Pool *p = &m->w->p;
  Cg *c = m->w->c;
  V n = times(c, b->pitch, p->kernel[0] * m->lines);
  for (Loop l = cg_count_by(c, n, cg_vl(c)); cg_next(&l);) {
    V largest = NULL, tap = NULL;
    for (int64_t t = 0; t < p->kernel[LAST]; t++) {
      int64_t at = t * p->dilation[LAST];
      V own = m->tap ? cg_splat(c, cg_i32(c, (int32_t)at)) : NULL;
      V x = cg_get(c, c->vf, m->phase[at % m->stride], plus(c, l.i, at / m->stride));
      if (t) join(c, x, own, &largest, &tap);
      else largest = x, tap = own;
    }
    cg_put(c, largest, m->largest, l.i);
    if (m->tap) cg_put(c, tap, m->tap, l.i);
    if (m->prefetches) prefetch(b, l.i);
  }
}

// Of windows of row `row` of the band; *place: from the element where the window begins, were it not for the padding
static void along_lines(const Band *b, V row, V column, V *largest, V *place) {
  const Bands *m = b->of;
  const Pool *p = &m->w->p;
  Cg *c = m->w->c;
  for (int64_t t = 0; t < p->kernel[0] * p->kernel[1]; t++) {
    int64_t plane = t / p->kernel[1], line = t % p->kernel[1] * p->dilation[1];
    V at = cg_index(c, plus(c, times(c, row, p->stride[1]), plane * m->lines + line), b->pitch, column), own = NULL;
    if (m->tap) {
      V lines = plus(c, times(c, m->w->from[1], plane * p->dilation[0]), line);
      own =
          cg_iadd(c, cg_get(c, c->vi32, m->tap, at), cg_splat(c, cg_trunc(c, cg_mul(c, lines, m->w->from[2]), c->i32)));
    }
    V x = cg_get(c, c->vf, m->largest, at);
    if (t) join(c, x, own, largest, place);
    else *largest = x, *place = own;
  }
}

// -1 is that of a window without elements: only those have -inf.
static V places(const Band *b, V row, V column, V largest, V from_begin) {
  const PoolWalk *w = b->of->w;
  const Pool *p = &w->p;
  Cg *c = w->c;
  V line = plus(c, times(c, cg_add(c, b->row, row), p->stride[1]), -p->pad[1]),
    plane = plus(c, times(c, b->plane, p->stride[0]), -p->pad[0]);
  V begin = cg_index(c, cg_index(c, plane, w->from[1], line), w->from[LAST], column_of(b, column, 0));
  V place = cg_iadd(c, from_begin, cg_numbers_from(c, begin, b->of->stride));
  return cg_select(c, cg_fcmp(c, LLVMRealOGT, largest, negative(c)), place, cg_splat(c, cg_i32(c, -1)));
}

// One vector; end: the row's windows; NULL: all of its lanes are windows
static void put_windows(const Band *b, V row, V column, V end) {
  const PoolWalk *w = b->of->w;
  Cg *c = w->c;
  V largest, place, at = cg_add(c, cg_index(c, cg_add(c, w->row, row), w->to[LAST], b->column), column);
  along_lines(b, row, column, &largest, &place);
  if (w->out) cg_store_wide(c, largest, 1, w->out, at, column, end);
  if (w->out_place) cg_store_wide(c, places(b, row, column, largest, place), 1, w->out_place, at, column, end);
}

static void put_row(const Band *b, V row) {
  Cg *c = b->of->w->c;
  V whole;
  for (Loop l = cg_each_whole(c, cg_i64(c, 0), b->n_columns, c->t->vl, &whole); cg_next(&l);)
    put_windows(b, row, l.i, NULL);
  for (If s = cg_when(c, cg_lt(c, whole, b->n_columns)); cg_then(&s);) put_windows(b, row, whole, b->n_columns);
}

static void band(const Band *b, const PoolColumns *columns) {
  PoolWalk *w = b->of->w;
  Cg *c = w->c;
  V check = cg_zeros(c), first = w->row;
  copy_image(b, &check);
  for (If s = cg_either(c, cg_any_lane(c, cg_nan_lanes(c, check))); cg_then(&s);) {
    if (!s.is_true) along_columns(b);
    for (Loop l = cg_count(c, b->n_rows); cg_next(&l);)
      if (s.is_true) cg_pool_row(w, cg_add(c, first, l.i), columns);
      else put_row(b, l.i);
    w->row = first;
  }
}

bool cg_pool_maxima(PoolWalk *w, const PoolColumns *columns) {
  Cg *c = w->c;
  Bands m;
  if (!open_bands(w, columns, &m)) return false;
  V bands = cg_ceil_div_value(c, w->to[1], m.rows);
  V n = cg_mul(c, cg_mul(c, cg_dim(c, w->p.n), w->to[0]), bands);
  for (Loop l = cg_each_shared(c, n, 1); cg_next(&l);) {
    V upper = cg_div(c, l.i, bands), row = times(c, cg_sub(c, l.i, cg_mul(c, upper, bands)), m.rows);
    V image = cg_div(c, upper, w->to[0]), plane = cg_sub(c, upper, cg_mul(c, image, w->to[0]));
    w->image = cg_mul(c, image, cg_mul(c, cg_mul(c, w->from[0], w->from[1]), w->from[LAST]));
    w->row = cg_index(c, upper, w->to[1], row);
    Band b = {.of = &m, .row = row, .plane = plane, .n_rows = cg_min(c, cg_i64(c, m.rows), cg_sub(c, w->to[1], row))};
    V most = cg_i64(c, m.columns), first = w->row;
    for (Loop k = cg_count_by(c, w->to[LAST], most); cg_next(&k);) {
      b.column = k.i, b.n_columns = cg_min(c, most, cg_sub(c, w->to[LAST], k.i));
      b.pitch = plus(c, b.n_columns, m.reach), w->row = first;
      band(&b, columns);
    }
  }
  return true;
}
