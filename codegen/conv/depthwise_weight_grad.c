// Class conv_weight of convolutions of groups of few channels, for each of the group's channels of the source:
// sums[tap, i, c] += x[pixel * stride + tap, channel i of c's group] * g[pixel, c], by vectors of channels, with the sums of
// some taps in registers (weight_rows.c).
//
// Bands of rows are cut into slices, whose number depends on bounds only; a worker takes a slice and a block of
// channels. Slices have sums of their own, [slice][block][tap, i][channels, whole vectors], added in order. x is read where
// it lies, rows of the window that lie outside are left out. Pixels whose neighbours alias in L1
// (cg_pixels_alias), and windows that lie outside by many columns, are copied into a strip on the stack before, of which what
// lies outside is left out as well.
#include "codegen/conv/depthwise.h"
#include "codegen/conv/weight_rows.h"
#include "codegen/tuning.h"

enum { TUNED_DEPTHWISE_WEIGHTS(TUNE) };
enum {
  MOST_TAPS = 256,
  EDGE = 16  // most columns outside for which code is specialised
};

typedef struct {
  ConvShape s;
  Bands b;
  bool copies;                          // strips
  int64_t group;                        // channels of a group
  int64_t taps, block, blocks, padded;  // taps: with each of the group's channels; padded: a block in whole vectors
  int64_t slices;
} Plan;

static int64_t group_of(const Fn *f, Val v, const Target *t) {
  Conv c;
  ir_conv(f, v, &c);
  return cg_channels_in_lane_group(&c, t);
}

static bool has_wide_border(const ConvShape *s, const Phase *p) { return cg_conv_outside(s, p) > EDGE; }

static bool copies(const ConvShape *s, const Phase *p) {
  return cg_pixels_alias(s->src_channels) || has_wide_border(s, p);
}

// The strip's shape where rows of the source are read in place.
static Bands bands_in_place(const ConvShape *s, const Windows *w, const Target *t) {
  const Phase *p = w->axis;
  Bands b = {.w = *w, .columns = cg_larger(1, p[2].count)};
  int64_t row = s->src_channels * (p[1].src_step * s->src[2] + p[2].count);
  int64_t most = ir_f32_in(t->facts.l2_bytes / L2_PART) / cg_larger(1, row);
  b.band = cg_even_bands(p[1].count, cg_larger(1, cg_smaller(most, p[1].count)));
  b.units = p[0].count * cg_ceil_div(p[1].count, b.band) * (p[2].count > 0);
  return b;
}

static Plan plan_of(const Fn *f, Val v, const Target *t) {
  Plan p = {0};
  Windows w = {0};
  cg_depthwise_shape(f, v, &p.s);
  cg_conv_next(&p.s, &w);
  p.group = group_of(f, v, t), p.taps = ir_conv_taps(&p.s.c) * p.group;
  p.copies = copies(&p.s, &w.axis[2]);
  p.block = p.copies ? cg_conv_block(&p.s, t->vl, STRIP_COLUMNS, STRIP_PIXELS, t) : p.s.src_channels;
  p.blocks = p.s.src_channels / p.block, p.padded = cg_round_up(p.block, t->vl);
  p.b = p.copies ? cg_conv_bands(&p.s, &w, p.block, STRIP_COLUMNS, t) : bands_in_place(&p.s, &w, t);
  int64_t units = ir_dim_bound(f->prog, p.s.c.n) * p.b.units;
  int64_t fit = ir_f32_in(SLICE_BYTES) / cg_larger(1, p.blocks * p.taps * p.padded);
  p.slices = cg_larger(1, cg_smaller(cg_smaller(MOST_SLICES, units), fit));
  return p;
}

static WeightSums sums_of(const Plan *p) {
  return (WeightSums){.shape = &p->s,
                      .axis = p->b.w.axis,
                      .slices = p->slices,
                      .groups = p->blocks,
                      .channels = p->group,
                      .block = p->group,
                      .o = p->block,
                      .o_pad = p->padded};
}

bool cg_depthwise_weight_fits(const Fn *f, Val v, const Target *t) {
  if (!group_of(f, v, t)) return false;
  Plan p = plan_of(f, v, t);
  return p.taps <= MOST_TAPS && p.block % p.group == 0;
}

int64_t cg_depthwise_weight_scratch_bytes(const Fn *f, Val v, const Target *t) {
  Plan p = plan_of(f, v, t);
  WeightSums sums = sums_of(&p);
  return cg_weight_sums_bytes(&sums);
}

// ---- a unit
typedef struct {
  const Plan *p;
  ConvUnit u;
  V x, g, strip, sums;  // sums: of the slice and block
  V channel;            // the block's first
} Part;

// A vector of channels, with the taps of one plane of the window.
typedef struct {
  int64_t lanes;
  V x, g, sums;  // x: its column 0, or the strip's, in the row of the first row's first tap
} Vector;

// Rows and columns of the window whose sums are in registers.
typedef struct {
  int64_t first[2], n[2];
} Taps;

static void strides(const Plan *p, int64_t out[CONV_AXES]) {
  cg_conv_strides(&p->s, p->copies ? &p->b.strip : NULL, out);
}

// Is code specialised for the columns outside? Not if strips hold parts of rows, or if there are many.
static bool knows_columns(const Plan *p) {
  const Phase *columns = &p->b.w.axis[2];
  return !p->copies || (p->b.columns == columns->count && !has_wide_border(&p->s, columns));
}

static WeightRows spec_of(const Part *t, const Vector *v, const Taps *taps) {
  const Plan *p = t->p;
  const Phase *axis = p->b.w.axis;
  int64_t stride[CONV_AXES];
  strides(p, stride);
  bool known = knows_columns(p);
  return (WeightRows){.depthwise = true,
                      .row = {.taps = taps->n[1],
                              .gap = axis[2].gap,
                              .src_step = axis[2].src_step,
                              .count = known ? axis[2].count : 0,
                              .offset = (known ? axis[2].offset : 0) + taps->first[1] * axis[2].gap,
                              .columns = p->s.src[2],
                              .at_once = cg_weight_pixels_at_once(t->u.c->t, true)},
                      .rows = taps->n[0],
                      .row_gap = axis[1].gap * stride[1],
                      .terms = p->group,
                      .nv = 1,
                      .lanes = v->lanes,
                      .pixel = stride[2],
                      .g_pixel = p->s.src_channels,
                      .x_row = axis[1].src_step * stride[1],
                      .g_row = p->s.dst[2] * p->s.src_channels,
                      .sums_row = axis[2].n_taps * p->group * p->padded,
                      .sums_tap = p->group * p->padded,
                      .sums_term = p->padded,
                      .accumulate = true};
}

// The column of x that the first tap of the unit's first pixel reads.
static V column_of(const Part *t) {
  const Phase *p = &t->p->b.w.axis[2];
  return cg_add(t->u.c, cg_times(t->u.c, t->u.column, p->src_step), cg_i64(t->u.c, p->offset));
}

// Rows [first, end) of the band, in all of which the taps' rows lie inside.
static void some_rows(const Part *t, const Vector *v, const Taps *taps, V first, V end) {
  Cg *c = t->u.c;
  WeightRows s = spec_of(t, v, taps);
  int64_t from, until, to = taps->first[0] * s.sums_row + taps->first[1] * s.sums_tap;
  if (cg_const_value(first, &from) && cg_const_value(end, &until) && from >= until) return;
  V x = cg_add(c, cg_times(c, first, s.x_row), cg_i64(c, taps->first[0] * s.row_gap));
  cg_weight_rows(c, &s,
                 &(WeightArgs){.x = cg_at(c, c->f32, v->x, x),
                               .g = cg_row(c, v->g, first, cg_i64(c, s.g_row)),
                               .sums = cg_at(c, c->f32, v->sums, cg_i64(c, to)),
                               .rows = cg_sub(c, end, first),
                               .count = t->u.columns,
                               .column = column_of(t)});
}

// Rows of the band for which rows [first, first + n) of the window lie inside; of the whole image these are constants.
static Inside rows_inside(const Part *t, int64_t first, int64_t n) {
  Cg *c = t->u.c;
  const Phase *p = &t->p->b.w.axis[1];
  V at = cg_i64(c, p->offset + first * p->gap), size = cg_i64(c, t->p->s.src[1]);
  Inside all = cg_inside(c, at, p->src_step, (n - 1) * p->gap + 1, size, cg_i64(c, p->count));
  V lo = cg_min(c, cg_max(c, cg_i64(c, 0), cg_sub(c, all.lo, t->u.row)), t->u.rows);
  return (Inside){lo, cg_max(c, lo, cg_min(c, cg_sub(c, all.hi, t->u.row), t->u.rows))};
}

// Row k of the taps, for those rows of [first, end) for which it lies inside.
static void one_row_of_taps(const Part *t, const Vector *v, const Taps *taps, int64_t k, V first, V end) {
  Cg *c = t->u.c;
  Taps row = {{taps->first[0] + k, taps->first[1]}, {1, taps->n[1]}};
  Inside in = rows_inside(t, row.first[0], 1);
  some_rows(t, v, &row, cg_max(c, in.lo, first), cg_min(c, in.hi, end));
}

static void some_taps(const Part *t, const Vector *v, const Taps *taps) {
  Inside in = rows_inside(t, taps->first[0], taps->n[0]);
  int64_t several = taps->n[0] > 1 ? taps->n[0] : 0;
  for (int64_t k = 0; k < several; k++) one_row_of_taps(t, v, taps, k, cg_i64(t->u.c, 0), in.lo);
  some_rows(t, v, taps, in.lo, in.hi);
  for (int64_t k = 0; k < several; k++) one_row_of_taps(t, v, taps, k, in.hi, t->u.rows);
}

// Rows of taps of a plane, as many at once as registers hold.
static void plane_of_taps(const Part *t, const Vector *v) {
  const Phase *p = t->p->b.w.axis;
  int64_t rows, columns;
  cg_depthwise_taps_at_once(t->u.c->t, t->p->group, p[1].n_taps, p[2].n_taps, &rows, &columns);
  int64_t down = cg_ceil_div(p[1].n_taps, rows), across = cg_ceil_div(p[2].n_taps, columns);
  for (int64_t i = 0; i < down; i++)
    for (int64_t j = 0; j < across; j++) {
      Taps taps = {.first = {i * p[1].n_taps / down, j * p[2].n_taps / across}};
      taps.n[0] = (i + 1) * p[1].n_taps / down - taps.first[0];
      taps.n[1] = (j + 1) * p[2].n_taps / across - taps.first[1];
      some_taps(t, v, &taps);
    }
}

// Vector `at` of the block, with all planes of the window that lie inside.
static void one_vector(const Part *t, V at, int64_t lanes) {
  Cg *c = t->u.c;
  const Plan *p = t->p;
  const Phase *axis = p->b.w.axis;
  V zero = cg_i64(c, 0);
  Inside in;
  int64_t stride[CONV_AXES];
  strides(p, stride);
  V plane = cg_conv_taps_inside(&t->u, 0, t->u.plane, &in);
  V x;  // column 0
  if (p->copies) {
    x = cg_sub(c, at, cg_i64(c, knows_columns(p) ? axis[2].offset * stride[2] : 0));
    x = cg_at(c, c->f32, t->strip, x);
  } else {
    V row = cg_add(c, cg_times(c, t->u.row, axis[1].src_step), cg_i64(c, axis[1].offset));
    x = cg_conv_source(&t->u, t->x, plane, row, cg_add(c, t->channel, at));
  }
  V g = cg_times(c, cg_conv_pixel(&t->u, zero, zero), p->s.src_channels);
  Vector v = {.lanes = lanes, .g = cg_at(c, c->f32, t->g, cg_add(c, g, cg_add(c, t->channel, at)))};
  int64_t sums = axis[1].n_taps * axis[2].n_taps * p->group * p->padded;
  for (Loop l = cg_each(c, in.lo, in.hi); cg_next(&l);) {
    v.x = cg_row(c, x, l.i, cg_i64(c, axis[0].gap * stride[0]));
    v.sums = cg_at(c, c->f32, t->sums, cg_add(c, at, cg_times(c, l.i, sums)));
    plane_of_taps(t, &v);
  }
}

static void each_vector(const Part *t) {
  for (Pieces v = cg_pieces(t->u.c, t->p->block, t->u.c->t->vl); cg_next_piece(&v);) one_vector(t, v.i, v.n);
}

// Slices and blocks, shared by the team.
static void each_part(Part *t, V scratch) {
  Cg *c = t->u.c;
  const Plan *p = t->p;
  V size = cg_i64(c, p->taps * p->padded);
  V units = cg_times(c, cg_dim(c, p->s.c.n), p->b.units);
  ConvUnit all = t->u;
  for (Loop part = cg_each_shared(c, cg_i64(c, p->slices * p->blocks), 1); cg_next(&part);) {
    V block = part.i, slice = cg_split(c, &block, p->blocks);
    t->channel = cg_times(c, block, p->block);
    t->sums = cg_at(c, c->f32, scratch, cg_mul(c, part.i, size));
    cg_conv_clear(c, t->sums, size);
    if (p->b.units) {
      Inside some = cg_part(c, units, slice, p->slices);
      for (Loop unit = cg_each(c, some.lo, some.hi); cg_next(&unit);) {
        t->u = cg_conv_unit(&all, unit.i);
        if (p->copies) cg_conv_fill(&t->u, t->x, t->channel, t->strip);
        each_vector(t);
      }
    }
  }
}

void cg_depthwise_weight_emit(Cg *c, V x, V g) {
  Val v = {c->k->first};
  Plan p = plan_of(c->f, v, c->t);
  Part t = {.p = &p, .u = {.c = c, .s = &p.s, .b = &p.b}, .x = x, .g = g};
  if (p.copies) t.strip = cg_block(c, c->f32, cg_strip_elements(&p.b.strip));
  each_part(&t, c->scratch);
  cg_wait_for_team(c);
  WeightSums sums = sums_of(&p);
  sums.sums = c->scratch, sums.out = cg_ptr(c, v);
  cg_store_weight_sums(c, &sums);
}
