// The gradient of the weight of a convolution with channels first (planes.h): for each channel and tap the sum of products of
// x and g, by vectors along the last axis, with the sums of some rows of taps in registers.
//
// A channel is one worker's. Its images have sums of their own, which are added in order. Rows of g that meet x with all of
// these taps are taken some at a time, so that a vector of x is loaded once for all of them; so are the others, with masks.
#include "codegen/conv/planes.h"
#include "codegen/tuning.h"

enum { TUNED_PLANES_WEIGHTS(TUNE) };

typedef struct {
  PlaneColumns columns;
  Phase axis[2];     // of planes and rows
  int64_t taps;      // of a row
  V x, g;            // of an image and channel, its first elements
  V z, y;            // the plane of taps, the first of its current rows
  int64_t rows;      // of taps
  V plane, x_plane;  // of g and of x
} Channel;

static V source_row(const Channel *h, V row) {
  Cg *c = h->columns.c;
  const Phase *p = &h->axis[1];
  V at = cg_add(c, cg_times(c, row, p->src_step), cg_i64(c, p->offset));
  return cg_add(c, at, cg_times(c, h->y, p->gap));
}

// Adds the products of GRAD_ROWS rows of g from `row` on. rows: how many of them exist; NULL: all, and all their lines of x.
static void one_block(const Channel *h, V row, V rows, const PlaneBlock *b, V *sum) {
  const PlaneColumns *k = &h->columns;
  const ConvShape *s = &k->s;
  const Phase *p = &h->axis[1];
  Cg *c = k->c;
  V g[GRAD_ROWS], there[GRAD_ROWS] = {0}, zero = cg_i64(c, 0), size = cg_dim(c, s->src_dim[1]);
  V all = b->is_masked ? cg_mask(c, cg_sub(c, k->to, b->first)) : NULL, first = source_row(h, row);
  V plane = cg_mul(c, h->plane, cg_dim(c, s->dst_dim[1])), x_plane = cg_mul(c, h->x_plane, size);
  for (int64_t r = 0; r < k->rows; r++) {
    V nth = cg_i64(c, r), has = rows ? cg_gt(c, rows, nth) : NULL;
    V at = cg_add(c, row, has ? cg_select(c, has, nth, zero) : nth);
    there[r] = has ? cg_and(c, all, cg_splat_n(c, has, c->t->vl)) : all;
    V from = cg_at_any(c, c->f32, h->g, cg_index(c, cg_add(c, plane, at), k->to, b->first));
    g[r] = cg_load_masked(c, c->vf, from, there[r]);
  }
  int64_t last = (k->rows - 1) * p->src_step + (h->rows - 1) * p->gap;
  for (int64_t q = 0; q <= last; q++) {
    V line = cg_add(c, first, cg_i64(c, q)), exists = rows ? cg_below(c, line, size) : NULL;
    if (exists) line = cg_select(c, exists, line, zero);
    V from = cg_at_any(c, c->f32, h->x, cg_mul(c, cg_add(c, x_plane, line), k->from));
    for (uint32_t t = 0; t < k->n; t++) {
      V x = NULL, mask = cg_plane_lanes(b, t, exists);
      for (int64_t r = 0; r < k->rows; r++) {
        int64_t y = cg_plane_row_of_taps(p, h->rows, q, r);
        if (y < 0) continue;
        if (!x) x = cg_plane_load(b, from, t, mask);
        V *to = &sum[y * h->taps + k->tap[t].tap];
        *to = cg_plane_fma(c, x, g[r], *to, mask ? cg_and(c, mask, there[r]) : NULL);
      }
    }
  }
}

static void each_block(const Channel *h, V row, V rows, V *sum) {
  const PlaneColumns *k = &h->columns;
  Cg *c = k->c;
  V vl = cg_vl(c), one = cg_i64(c, 1), zero = cg_i64(c, 0), lo, hi, n;
  uint32_t n_sums = (uint32_t)(h->rows * h->taps);
  cg_plane_whole_blocks(k, &lo, &hi, &n);
  if (rows) hi = lo;
  if (!rows)
    for (Loop i = cg_carry(c, lo, hi, one, sum, n_sums); cg_next(&i);) {
      PlaneBlock b = cg_plane_block(k, cg_mul(c, i.i, vl), false);
      one_block(h, row, NULL, &b, sum);
    }
  V whole = cg_sub(c, hi, lo);
  for (Loop i = cg_carry(c, zero, cg_sub(c, n, whole), one, sum, n_sums); cg_next(&i);) {
    V at = rows ? i.i : cg_select(c, cg_lt(c, i.i, lo), i.i, cg_add(c, i.i, whole));
    PlaneBlock b = cg_plane_block(k, cg_mul(c, at, vl), true);
    one_block(h, row, rows, &b, sum);
  }
}

static void each_row(const Channel *h, V *sum) {
  Cg *c = h->columns.c;
  const Phase *p = &h->axis[1];
  const ConvShape *s = &h->columns.s;
  uint32_t n_sums = (uint32_t)(h->rows * h->taps);
  int64_t n = h->columns.rows;
  V zero = cg_i64(c, 0), by = cg_i64(c, n), rows = cg_dim(c, s->dst_dim[1]);
  int64_t reach = (n - 1) * p->src_step + (h->rows - 1) * p->gap + 1;
  // blocks [in.lo, in.hi) of rows have all lines
  V blocks = cg_ceil_div_value(c, rows, n), whole = cg_div(c, rows, by);
  Inside in = cg_inside(c, source_row(h, zero), p->src_step * n, reach, cg_dim(c, s->src_dim[1]), whole);
  in.hi = cg_max(c, in.lo, in.hi);
  for (Loop l = cg_carry(c, in.lo, in.hi, cg_i64(c, 1), sum, n_sums); cg_next(&l);)
    each_block(h, cg_mul(c, l.i, by), NULL, sum);
  V inside = cg_sub(c, in.hi, in.lo);
  for (Loop l = cg_carry(c, zero, cg_sub(c, blocks, inside), cg_i64(c, 1), sum, n_sums); cg_next(&l);) {
    V row = cg_mul(c, cg_select(c, cg_lt(c, l.i, in.lo), l.i, cg_add(c, l.i, inside)), by);
    each_block(h, row, cg_sub(c, rows, row), sum);
  }
}

static void each_plane(Channel *h, V *sum) {
  Cg *c = h->columns.c;
  const Phase *p = &h->axis[0];
  const ConvShape *s = &h->columns.s;
  V at = cg_add(c, cg_times(c, h->z, p->gap), cg_i64(c, p->offset)), size = cg_dim(c, s->src_dim[0]);
  Inside in = cg_inside(c, at, p->src_step, 1, size, cg_dim(c, s->dst_dim[0]));
  for (Loop l = cg_carry(c, in.lo, in.hi, cg_i64(c, 1), sum, (uint32_t)(h->rows * h->taps)); cg_next(&l);) {
    h->plane = l.i, h->x_plane = cg_add(c, cg_times(c, l.i, p->src_step), at);
    each_row(h, sum);
  }
}

// Sums the current rows of taps over all images. to: where the first tap's sum goes.
static void some_taps(Channel *h, V channel, V x, V g, V to) {
  const ConvShape *s = &h->columns.s;
  Cg *c = h->columns.c;
  V total[MAX_CARRY], in = cg_i64(c, 1), out = in;
  uint32_t n = (uint32_t)(h->rows * h->taps);
  for (uint32_t k = 0; k < CONV_AXES; k++)
    in = cg_mul(c, in, cg_dim(c, s->src_dim[k])), out = cg_mul(c, out, cg_dim(c, s->dst_dim[k]));
  for (uint32_t k = 0; k < n; k++) total[k] = cg_zeros(c);
  for (Loop l = cg_carry(c, cg_i64(c, 0), cg_dim(c, s->c.n), cg_i64(c, 1), total, n); cg_next(&l);) {
    V sum[MAX_CARRY], at = cg_index(c, l.i, cg_i64(c, s->c.c), channel);
    h->x = cg_row(c, x, at, in), h->g = cg_row(c, g, at, out);
    for (uint32_t k = 0; k < n; k++) sum[k] = cg_zeros(c);
    each_plane(h, sum);
    for (uint32_t k = 0; k < n; k++) total[k] = cg_fadd(c, total[k], sum[k]);
  }
  for (uint32_t k = 0; k < n; k++) cg_put(c, cg_reduce_add(c, total[k]), to, cg_i64(c, k));
}

void cg_plane_weight_emit(Cg *c, V x, V g) {
  Val v = {c->k->first};
  Channel h = {.columns = cg_plane_columns(c, v)};
  const Conv *of = &h.columns.s.c;
  Windows w = {0};
  cg_conv_next(&h.columns.s, &w);
  h.columns.rows = cg_smaller(h.columns.rows, GRAD_ROWS);
  h.axis[0] = w.axis[0], h.axis[1] = w.axis[1], h.taps = of->kernel[2];
  V out = cg_ptr(c, v);
  int64_t most = (c->t->vl > 8 ? WIDE_SUMS : FEW_SUMS) / h.taps;
  for (Loop l = cg_each_shared(c, cg_i64(c, of->c), 1); cg_next(&l);)
    for (Loop z = cg_count(c, cg_i64(c, of->kernel[0])); cg_next(&z);)
      for (Pieces y = cg_pieces(c, of->kernel[1], cg_larger(1, cg_smaller(most, of->kernel[1]))); cg_next_piece(&y);) {
        V row = cg_add(c, cg_times(c, cg_add(c, cg_times(c, l.i, of->kernel[0]), z.i), of->kernel[1]), y.i);
        h.z = z.i, h.y = y.i, h.rows = y.n;
        some_taps(&h, l.i, x, g, cg_at(c, c->f32, out, cg_times(c, row, h.taps)));
      }
}
