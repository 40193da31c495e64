// Units of work of convolutions (bands.h).
#include "codegen/conv/bands.h"
#include "codegen/tuning.h"

enum { TUNED_BANDS(TUNE) };

// ---- sizes
int64_t cg_conv_strip_limit(const Target *t) { return ir_f32_in(cg_smaller(STRIP_BYTES, t->facts.l2_bytes / L2_PART)); }

static bool block_fits(const ConvShape *s, int64_t block, int64_t few, int64_t pixels, const Target *t) {
  for (Windows w = {0}; cg_conv_next(s, &w);) {
    int64_t columns = cg_larger(1, cg_smaller(few, w.axis[2].count));
    int64_t rows = cg_larger(1, cg_smaller(cg_ceil_div(pixels, columns), w.axis[1].count));
    StripShape strip = cg_conv_strip(s, &w, block, rows, columns);
    if (cg_strip_elements(&strip) > cg_conv_strip_limit(t)) return false;
  }
  return true;
}

int64_t cg_conv_block(const ConvShape *s, int64_t unit, int64_t few, int64_t pixels, const Target *t) {
  int64_t all = s->src_channels, largest = 0;
  for (int64_t blocks = 1; blocks < all; blocks++) {
    int64_t block = all / blocks;
    if (all % blocks || (largest && block % unit) || !block_fits(s, block, few, pixels, t)) continue;
    if (blocks == 1 || block % unit == 0) return block;
    largest = block;
  }
  return cg_larger(1, largest);
}

StripShape cg_conv_strip(const ConvShape *s, const Windows *w, int64_t channels, int64_t rows, int64_t columns) {
  StripShape strip = {.channels = channels, .pixel = s->src_channels * s->c.groups};
  int64_t count[CONV_AXES] = {1, rows, columns}, *span[CONV_AXES] = {&strip.planes, &strip.rows, &strip.columns};
  for (uint32_t k = 0; k < CONV_AXES; k++) {
    const Phase *p = &w->axis[k];
    *span[k] = cg_conv_strip_span(s, p, count[k]);
    strip.step[k] = cg_conv_strip_step(s, p), strip.size[k] = s->src_dim[k];
    bool is_segment = k == 2 && p->gap == 1;  // of neighbours, which microkernels read as one
    if (!s->sparse || s->by_run || is_segment || p->n_taps * count[k] >= *span[k]) continue;
    *span[k] = p->n_taps * count[k], strip.step[k] = p->src_step;
    strip.of_tap[k] = count[k], strip.gap[k] = p->gap;
  }
  return strip;
}

void cg_conv_strides(const ConvShape *s, const StripShape *strip, int64_t out[CONV_AXES]) {
  out[2] = strip ? strip->channels : s->src_channels * s->c.groups;
  out[1] = out[2] * (strip ? strip->columns : s->src[2]);
  out[0] = out[1] * (strip ? strip->rows : s->src[1]);
}

// If a strip of `band` rows, `columns` columns and `images` images fits, it becomes b's.
static bool fits(const ConvShape *s, const ConvCut *wanted, int64_t band, int64_t columns, int64_t images, int64_t most,
                 Bands *b) {
  StripShape strip = cg_conv_strip(s, &b->w, wanted->block, band, columns);
  if (wanted->one_plane) strip.planes = 1;
  if (images * cg_strip_elements(&strip) > most) return false;
  b->strip = strip, b->band = band, b->columns = columns, b->images = images;
  return true;
}

Bands cg_conv_cut(const ConvShape *s, const Windows *w, const ConvCut *wanted, const Target *t) {
  Bands b = {.w = *w};
  const Phase *p = b.w.axis;
  int64_t most = cg_conv_strip_limit(t), pixels = wanted->pixels ? wanted->pixels : INT64_MAX / 2, parts = 1;
  int64_t columns = cg_larger(1, p[2].count), few = cg_larger(1, cg_smaller(wanted->few, p[2].count));
  while (columns > few && (columns > 2 * pixels || !fits(s, wanted, 1, columns, 1, most, &b)))
    columns = cg_ceil_div(p[2].count, ++parts);
  fits(s, wanted, 1, columns, 1, INT64_MAX, &b);
  while (b.band < p[1].count && b.band * columns < pixels && fits(s, wanted, b.band + 1, columns, 1, most, &b)) {}
  fits(s, wanted, cg_even_bands(p[1].count, b.band), columns, 1, INT64_MAX, &b);
  bool whole = columns >= p[2].count && b.band >= p[1].count && p[0].count == 1;
  while (whole && b.images < wanted->images && b.images * b.band * columns < pixels &&
         fits(s, wanted, b.band, columns, b.images + 1, most, &b)) {}
  b.units = p[0].count * cg_ceil_div(p[1].count, b.band) * cg_ceil_div(p[2].count, b.columns);
  return b;
}

// ---- a unit
// Elements of the strip that `count` elements of the result read along an axis.
static V strip_span(const ConvUnit *u, uint32_t k, V count) {
  Cg *c = u->c;
  const Phase *p = &u->b->w.axis[k];
  V first = cg_times(c, cg_sub(c, count, cg_i64(c, 1)), cg_conv_window_step(u->s, p));
  return cg_add(c, first, cg_i64(c, cg_conv_reach(p)));
}

static void fill_image(const ConvUnit *u, V src, V channel, V strip, V number) {
  Cg *c = u->c;
  const ConvShape *s = u->s;
  const Phase *p = u->b->w.axis;
  V begin[CONV_AXES] = {u->plane, u->row, u->column}, pixels = cg_i64(c, 1);
  StripFill fill = {.strip = strip, .prologue = u->prologue};
  for (uint32_t k = 0; k < CONV_AXES; k++) {
    fill.at[k] = cg_add(c, cg_times(c, begin[k], p[k].src_step), u->at.offset[k]);
    pixels = cg_mul(c, pixels, cg_dim(c, s->src_dim[k]));
  }
  if (u->z) fill.at[0] = cg_add(c, fill.at[0], cg_times(c, u->z, p[0].gap));
  fill.pixel = cg_mul(c, number, pixels);
  fill.channel = cg_add(c, cg_times(c, u->group, s->src_channels), channel);
  V at = cg_times(c, fill.pixel, s->src_channels * s->c.groups);
  fill.image = cg_at(c, c->f32, src, cg_add(c, at, fill.channel));
  if (s->by_run) fill.used[1] = strip_span(u, 1, u->rows), fill.used[2] = strip_span(u, 2, u->columns);
  cg_conv_fill_strip(c, &u->b->strip, &fill);
}

void cg_conv_fill(const ConvUnit *u, V src, V channel, V strip) {
  Cg *c = u->c;
  if (u->b->images <= 1) {
    fill_image(u, src, channel, strip, u->image);
    return;
  }
  for (Loop l = cg_count(c, u->images); cg_next(&l);) {
    V to = cg_row(c, strip, l.i, cg_i64(c, cg_strip_elements(&u->b->strip)));
    fill_image(u, src, channel, to, cg_add(c, u->image, l.i));
  }
}

V cg_conv_source(const ConvUnit *u, V src, V plane, V row, V channel) {
  Cg *c = u->c;
  const ConvShape *s = u->s;
  V at = cg_add(c, cg_times(c, u->image, s->src[0]), plane);
  at = cg_add(c, cg_times(c, at, s->src[1]), row);
  at = cg_times(c, at, s->src[2] * s->src_channels * s->c.groups);
  return cg_at(c, c->f32, src, cg_add(c, at, channel));
}

V cg_conv_taps_inside(const ConvUnit *u, uint32_t k, V at, Inside *in) {
  Cg *c = u->c;
  const Phase *p = &u->b->w.axis[k];
  V begin = cg_add(c, cg_times(c, at, p->src_step), u->at.offset[k]);
  *in = cg_inside(c, begin, p->gap, 1, cg_dim(c, u->s->src_dim[k]), cg_i64(c, p->n_taps));
  return begin;
}

V cg_conv_pixel(const ConvUnit *u, V i, V j) {
  Cg *c = u->c;
  const Phase *p = u->b->w.axis;
  V at[CONV_AXES] = {u->plane, cg_add(c, u->row, i), cg_add(c, u->column, j)}, pixel = u->image;
  for (uint32_t k = 0; k < CONV_AXES; k++) {
    at[k] = cg_add(c, cg_times(c, at[k], p[k].step), u->at.first[k]);
    pixel = cg_add(c, cg_mul(c, pixel, cg_dim(c, u->s->dst_dim[k])), at[k]);
  }
  return pixel;
}

void cg_conv_epilogue(const ConvUnit *u, V i, V n0, V n, V sums) {
  Gemm *g = u->g;
  Cg *c = u->c;
  V width = cg_i64(c, g->p->width), one = cg_i64(c, 1), zero = cg_i64(c, 0);
  if (u->b->w.axis[2].step == 1) {
    cg_gemm_epilogue(g, cg_conv_pixel(u, i, zero), u->columns, n0, n, sums, width);
    return;
  }
  for (Loop l = cg_count(c, u->columns); cg_next(&l);)
    cg_gemm_epilogue(g, cg_conv_pixel(u, i, l.i), one, n0, n, cg_at(c, c->f32, sums, cg_mul(c, l.i, width)), width);
}

// Number of elements of the phase; of several, of the one that has most.
typedef struct {
  V count[CONV_AXES];
  V bands, columns;
} Counts;

static Counts counts_of(const ConvUnit *u) {
  Cg *c = u->c;
  const Bands *b = u->b;
  Counts n;
  for (uint32_t k = 0; k < CONV_AXES; k++) n.count[k] = cg_conv_count(c, u->s, k, cg_i64(c, b->w.axis[k].first));
  n.bands = cg_ceil_div_value(c, n.count[1], b->band), n.columns = cg_ceil_div_value(c, n.count[2], b->columns);
  return n;
}

// Number *number of neighbours, of which there are n; those before it remain in *number.
static V take(Cg *c, V *number, V n) {
  V nth = cg_rem(c, *number, n);
  *number = cg_div(c, *number, n);
  return nth;
}

// Elements of a part from `at` on that the phase has; whole parts are constants.
static V there_are(Cg *c, int64_t part, V all, V at) {
  int64_t n;
  bool divides = cg_const_value(all, &n) && n % part == 0;
  return divides ? cg_i64(c, part) : cg_min(c, cg_i64(c, part), cg_sub(c, all, at));
}

ConvUnit cg_conv_unit(const ConvUnit *of, V number) {
  Cg *c = of->c;
  ConvUnit u = *of;
  const Bands *b = u.b;
  Counts n = counts_of(of);
  V column = take(c, &number, n.columns), band = take(c, &number, n.bands);
  u.column = cg_times(c, column, b->columns), u.row = cg_times(c, band, b->band);
  u.plane = take(c, &number, n.count[0]);
  if (!of->group) u.group = take(c, &number, cg_i64(c, u.s->c.groups));
  V phase = b->w.phases > 1 ? cg_div(c, number, cg_dim(c, u.s->c.n)) : cg_i64(c, 0);
  u.image = b->w.phases > 1 ? cg_rem(c, number, cg_dim(c, u.s->c.n)) : number, u.images = cg_i64(c, 1);
  u.at = cg_conv_phase(c, u.s, &b->w, phase);
  if (u.g && u.g->moment_slots) {
    V nth = cg_add(c, cg_mul(c, cg_add(c, cg_mul(c, u.image, n.count[0]), u.plane), n.bands), band);
    u.slot = cg_add(c, u.g->moment_slots, cg_add(c, cg_mul(c, nth, n.columns), column));
  }
  u.rows = there_are(c, b->band, cg_conv_count(c, u.s, 1, u.at.first[1]), u.row);
  u.columns = there_are(c, b->columns, cg_conv_count(c, u.s, 2, u.at.first[2]), u.column);
  return u;
}

V cg_conv_units(const ConvUnit *of) {
  Cg *c = of->c;
  Counts n = counts_of(of);
  return cg_mul(c, cg_mul(c, n.count[0], n.bands), n.columns);
}

int64_t cg_conv_moment_slots(const Fn *f, const GemmPlan *p, const ConvShape *s) {
  for (uint32_t k = 0; k < CONV_AXES; k++)
    if (s->shares[k]) return 0;
  return cg_gemm_moment_slots(f, p, ir_dim_bound(f->prog, s->c.n) * p->units);
}

void cg_conv_add_moments(const ConvUnit *u, V i, V n0, V columns, V from, int64_t pixel) {
  Cg *c = u->c;
  if (!u->slot) return;
  cg_gemm_add_moments(u->g, &(MomentPixels){.slot = u->slot,
                                            .is_first = cg_eq(c, i, cg_i64(c, 0)),
                                            .n0 = n0,
                                            .channels = columns,
                                            .from = from,
                                            .rows = cg_i64(c, 1),
                                            .columns = u->columns,
                                            .row = cg_i64(c, 0),
                                            .column = cg_i64(c, pixel)});
}

// Phases that share code have as many units as the one that has most. NULL: its own has them.
static V is_there(const ConvUnit *u) {
  Cg *c = u->c;
  if (u->b->w.phases == 1) return NULL;
  V some = cg_and(c, cg_gt(c, u->rows, cg_i64(c, 0)), cg_gt(c, u->columns, cg_i64(c, 0)));
  return cg_and(c, some, cg_lt(c, u->plane, cg_conv_count(c, u->s, 0, u->at.first[0])));
}

void cg_conv_each_unit(const ConvUnit *of, void (*emit)(const ConvUnit *u)) {
  Cg *c = of->c;
  if (of->b->units == 0) return;
  V units = cg_conv_units(of);
  V count = cg_mul(c, cg_dim(c, of->s->c.n), cg_times(c, units, of->s->c.groups * of->b->w.phases));
  bool whole = of->parts <= 1;
  for (Loop l = cg_each_shared(c, whole ? count : cg_times(c, count, of->parts), 1); cg_next(&l);) {
    ConvUnit u = cg_conv_unit(of, whole ? l.i : cg_rem(c, l.i, count));
    u.part = whole ? cg_i64(c, 0) : cg_div(c, l.i, count);
    for (If there = cg_when(c, is_there(&u)); cg_then(&there);) emit(&u);
  }
  if (of->g && of->g->moment_slots)
    of->g->moment_slots = cg_add(c, of->g->moment_slots, cg_mul(c, cg_dim(c, of->s->c.n), units));
}
