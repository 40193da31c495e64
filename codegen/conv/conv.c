// Strategy conv of products (gemm.h): convolutions and transposed convolutions, directly.
//
// A unit of work is a band of rows of one plane of one image, of one group of channels: the part of the source that its
// windows read is copied into a padded strip on the stack. There a window is, for each of its rows, a segment of
// neighbours, so that the microkernel reads it in place:
//
//   A[pixel][k] = strip + pixel * src_step * channels + k,  B = a panel of packed weights
//
// Segments in the padding above or below the source are skipped; border.c repairs what zeros beside it do to
// weights that are infinite or NaN. A large source is cut into blocks of channels, a long row into blocks of
// columns, so that the strip stays in L2; if there are few units they are split into parts, each with some of
// the panels. A prologue is applied to the source's pixels as they are copied; zeros of the padding stay
// zeros.
#include "codegen/conv/bands.h"
#include "codegen/tuning.h"

enum { TUNED_CONV(TUNE) };

// ---- the plan
bool cg_gemm_conv_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  (void)f, (void)t;
  return p->is_conv;
}

static ConvShape shape_of(const Fn *f, const GemmPlan *p) {
  ConvShape s;
  cg_conv_shape(f, p->product, &s);
  s.tight = s.sparse = true;
  return s;
}

double cg_conv_copied(const ConvShape *of, int64_t width, const Target *t) {
  ConvShape s = *of;
  s.tight = s.sparse = true;
  int64_t block = cg_conv_block(&s, 1, FEW_COLUMNS, 1, t), blocks = s.src_channels / block;
  double passes = blocks > 1 ? (double)(blocks * cg_ceil_div(s.dst_channels, width)) : 1, sum = 0;
  for (Windows w = {0}; cg_conv_next(&s, &w);) {
    Bands b = cg_conv_bands(&s, &w, block, FEW_COLUMNS, t);
    sum += passes * (double)(b.units * w.phases) * (double)cg_strip_elements(&b.strip);
  }
  return sum;
}

void cg_gemm_conv_plan(const Fn *f, GemmPlan *p, const Target *t) {
  ConvShape s = shape_of(f, p);
  p->nv = (uint32_t)cg_larger(1, cg_smaller(t->gemm_nv, cg_ceil_div(s.dst_channels, t->vl)));
  p->width = (int64_t)p->nv * t->vl;
  p->mr = (uint32_t)cg_smaller(MOST_ROWS, t->gemm_mr * t->gemm_nv / p->nv);
  bool exceeds_l2 = s.rows * s.dst_channels > ir_f32_in(t->facts.l2_bytes);
  p->kc = cg_conv_block(&s, 1, FEW_COLUMNS, exceeds_l2 ? FEW_PIXELS : 1, t);
  if (p->pack_b == B_PREPACKED && !s.transposed && s.rows > 0) p->pack = cg_conv_pack(&s, p);
  else p->pack_b = B_BY_STRATEGY, p->b_elements = cg_conv_packed_elements(&s, p->width);
  p->strip_rows = 0;
  for (Windows w = {0}; cg_conv_next(&s, &w);) {
    Bands b = cg_conv_bands(&s, &w, p->kc, FEW_COLUMNS, t);
    p->strip_rows = cg_larger(p->strip_rows, b.band * b.columns);
    p->mc = cg_larger(p->mc, cg_strip_elements(&b.strip));
    p->units += b.units * w.phases;
  }
  p->moment_slots = cg_conv_moment_slots(f, p, &s);
}

void cg_gemm_conv_stack(Gemm *g) {
  const GemmPlan *p = g->p;
  ConvShape s = shape_of(g->c->f, p);
  g->a_block = cg_gemm_on_stack(g->c, p->mc + (p->prologue ? p->kc : 0));  // a pixel: border.c
  if (p->pack_b != B_PREPACKED) g->b_block = cg_gemm_on_stack(g->c, cg_conv_packing_elements(&s, g->c->t));
  if (p->epilogue) g->strip = cg_gemm_on_stack(g->c, p->strip_rows * p->width);
}

// ---- a unit
typedef struct {
  V n0, columns;           // of the group's channels
  V weights, all_weights;  // of the current block of channels, of all
  uint32_t nv;
  int64_t masked;  // columns of the last vector; 0: all
} Panel;

// Segments of k: rows of the windows if their columns are contiguous; else single columns.
typedef struct {
  int64_t k, n, a, b;  // elements of each; how many; from one to the next
  int64_t outer;       // calls of the microkernel, for the axes before
  bool by_rows;
} Segments;

// Elements of the strip along axis k from one tap to the next, and from one window to the next
static int64_t gap_of(const ConvUnit *u, uint32_t k) {
  return u->b->strip.of_tap[k] ? u->b->strip.of_tap[k] : u->b->w.axis[k].gap;
}
static int64_t step_of(const ConvUnit *u, uint32_t k) {
  return u->b->strip.of_tap[k] ? 1 : cg_conv_window_step(u->s, &u->b->w.axis[k]);
}

static Segments segments_of(const ConvUnit *u) {
  const Phase *p = u->b->w.axis;
  const StripShape *s = &u->b->strip;
  int64_t channels = s->channels, width = u->g->p->width, row = s->columns * channels;
  bool near = p[2].n_taps <= 1 || p[2].gap == 1;
  if (near)
    return (Segments){p[2].n_taps * channels,         p[1].n_taps, gap_of(u, 1) * row,
                      p[2].n_taps * channels * width, p[0].n_taps, true};
  return (Segments){channels, p[2].n_taps, gap_of(u, 2) * channels, channels * width, p[0].n_taps * p[1].n_taps, false};
}

// Rows of the windows that lie inside the source, of the band's row i.
static Inside rows_inside(const ConvUnit *u, V i) {
  Cg *c = u->c;
  Inside in = {cg_i64(c, 0), cg_i64(c, u->b->w.axis[1].n_taps)};
  if (cg_unit_reaches_out(u, 1)) cg_conv_taps_inside(u, 1, cg_add(c, u->row, i), &in);
  return in;
}

// Of call `nth` of the microkernel; the others are left out.
static Inside segments_inside(const ConvUnit *u, const Segments *x, const Inside *rows, int64_t nth) {
  Cg *c = u->c;
  if (x->by_rows) return *rows;
  V row = cg_i64(c, nth % cg_larger(1, u->b->w.axis[1].n_taps)), none = cg_i64(c, 0);
  V is_inside = cg_and(c, cg_le(c, rows->lo, row), cg_lt(c, row, rows->hi));
  return (Inside){none, cg_select(c, is_inside, cg_i64(c, x->n), none)};
}

// Where the windows' row number `nth` of `outer` begins in the strip.
static int64_t outer_offset(const ConvUnit *u, const Segments *x, int64_t nth) {
  const Phase *p = u->b->w.axis;
  const StripShape *s = &u->b->strip;
  int64_t row = s->columns * s->channels, inner = x->outer == p[0].n_taps ? 1 : p[1].n_taps;
  bool by_planes = inner == 1;
  if (!inner) return 0;  // no tap reaches this phase: its sums are 0
  return nth / inner * gap_of(u, 0) * s->rows * row + (by_planes ? 0 : nth % inner * gap_of(u, 1) * row);
}

static void row_of_pixels(const ConvUnit *u, const Panel *n, V i, V to, int64_t c_row, bool adds) {
  Gemm *g = u->g;
  Cg *c = g->c;
  const Phase *p = u->b->w.axis;
  const StripShape *s = &u->b->strip;
  Segments x = segments_of(u);
  int64_t a_row = step_of(u, 2) * s->channels;
  uint32_t mr = cg_tile_height(u->b->columns, g->p->mr);
  Inside rows = rows_inside(u, i);
  for (int64_t nth = 0; nth < cg_larger(1, x.outer); nth++) {
    Inside in = segments_inside(u, &x, &rows, nth);
    V first = in.lo, inside = cg_sub(c, in.hi, in.lo);
    TileSpec spec = {.mr = mr,
                     .nv = n->nv,
                     .a_row = a_row,
                     .a_k = 1,
                     .b_k = g->p->width,
                     .b_vec = c->t->vl,
                     .c_row = c_row,
                     .c_vec = c->t->vl,
                     .accumulate = adds || nth > 0,
                     .segmented = 1,
                     .mask_from = n->masked ? n->nv - 1 : n->nv,
                     .mask_step = c->t->vl,
                     .mask_c = true};
    cg_tile_sum_in_parts(&spec, c->t, u->b->w.taps * u->s->src_channels, x.k, x.n);
    int64_t k = x.outer && u->s->src_channels ? x.k : 0;
    V row = cg_times(c, i, step_of(u, 1) * s->columns * s->channels);
    row = cg_add(c, row, cg_times(c, first, x.a));
    V b = cg_add(c, cg_i64(c, nth * x.n * x.k * g->p->width), cg_times(c, first, x.b));
    TileArgs args = {.a = cg_at(c, c->f32, g->a_block, cg_add(c, row, cg_i64(c, outer_offset(u, &x, nth)))),
                     .b = cg_at(c, c->f32, n->weights, b),
                     .c = to,
                     .k = cg_i64(c, k),
                     .n = n->columns,
                     .segments = {k ? inside : cg_i64(c, 0)},
                     .a_segment = {cg_i64(c, x.a)},
                     .b_segment = {cg_i64(c, x.b)}};
    int64_t left = u->s->by_run || p[2].count % u->b->columns ? TILE_DYN : u->b->columns % mr;
    TileRows tiles = {.rows = u->columns, .left = left, .a_block = cg_i64(c, a_row * mr)};
    cg_tile_rows(c, &spec, &args, &tiles);
  }
}

static V channel_of(const ConvUnit *u, const Panel *n) {
  Cg *c = u->g->c;
  return cg_add(c, cg_times(c, u->group, u->s->dst_channels), n->n0);
}

// Are the band's rows contiguous in the strip and in the result, as one row? So for windows of one tap inside
// the source.
static bool is_one_row(const ConvUnit *u) {
  const Phase *p = u->b->w.axis;
  bool one = u->b->columns == p[2].count && !u->s->by_run;
  for (uint32_t k = 0; k < CONV_AXES; k++) one &= p[k].n_taps == 1 && p[k].step == 1 && !cg_unit_reaches_out(u, k);
  return one;
}

static void each_row(const ConvUnit *u, const Panel *n, bool adds, bool ends) {
  Gemm *g = u->g;
  Cg *c = g->c;
  int64_t channels = u->s->dst_channels * u->s->c.groups, width = g->p->width;
  for (Loop l = cg_count(c, u->rows); cg_next(&l);) {
    ConvSums s = {.weights = n->all_weights, .columns = n->columns, .nv = n->nv, .masked = n->masked};
    if (g->epilogue) {
      s.sums = cg_row(c, g->strip, l.i, cg_i64(c, u->b->columns * width)), s.pixel = width;
    } else {
      V at = cg_times(c, cg_conv_pixel(u, l.i, cg_i64(c, 0)), channels);
      s.sums = cg_at(c, c->f32, g->out, cg_add(c, at, channel_of(u, n))), s.pixel = u->b->w.axis[2].step * channels;
    }
    row_of_pixels(u, n, l.i, s.sums, s.pixel, adds);
    if (ends) cg_conv_mend_border(u, &s, l.i);
    if (ends && g->epilogue) cg_conv_epilogue(u, l.i, channel_of(u, n), n->columns, s.sums);
    if (ends) cg_conv_add_moments(u, l.i, channel_of(u, n), n->columns, s.sums, s.pixel);
  }
}

static void fill(const ConvUnit *u, V block) {
  Gemm *g = u->g;
  if (u->b->w.taps == 0) return;  // nothing is read
  cg_conv_fill(u, g->a, cg_times(g->c, block, g->p->kc), g->a_block);
}

// Block number `nth` of the channels.
static void block(const ConvUnit *u, Panel *n, V nth, bool adds, bool ends) {
  Gemm *g = u->g;
  Cg *c = g->c;
  fill(u, nth);
  V at = cg_times(c, nth, u->b->w.taps * g->p->kc * g->p->width);
  n->weights = cg_at(c, c->f32, n->all_weights, at);
  each_row(u, n, adds, ends);
}

// With several blocks of channels every panel copies them again, and later ones add to the sums of the first.
static void panel(const ConvUnit *u, Panel *n) {
  Cg *c = u->c;
  int64_t blocks = u->s->src_channels / u->g->p->kc;
  n->all_weights = n->weights;
  if (blocks <= 1 || u->b->w.taps == 0) {
    each_row(u, n, false, true);
    return;
  }
  block(u, n, cg_i64(c, 0), false, false);
  for (Loop l = cg_each(c, cg_i64(c, 1), cg_i64(c, blocks - 1)); cg_next(&l);) block(u, n, l.i, true, false);
  block(u, n, cg_i64(c, blocks - 1), true, true);
}

static void each_panel(const ConvUnit *of) {
  Gemm *g = of->g;
  Cg *c = g->c;
  ConvUnit flat = *of;
  Bands bands = *of->b;
  const ConvUnit *u = of;
  if (is_one_row(of)) {
    bands.columns *= bands.band, flat.columns = cg_mul(c, of->rows, of->columns), flat.rows = cg_i64(c, 1);
    flat.b = &bands, u = &flat;
  }
  int64_t width = g->p->width, all = u->s->dst_channels, panels = cg_ceil_div(all, width);
  V weights = cg_row(c, g->packed_b, u->group, cg_i64(c, panels * u->s->rows * width));
  weights = cg_at(c, c->f32, weights, cg_times(c, u->at.k0, width));
  if (u->s->src_channels == g->p->kc) fill(u, cg_i64(c, 0));
  Inside some = cg_part(c, cg_i64(c, panels), u->part, u->parts);
  for (Pieces p = cg_some_pieces(c, some, all, width); cg_next_piece(&p);)
    panel(u, &(Panel){.n0 = p.i,
                      .columns = cg_i64(c, p.n),
                      .weights = cg_row(c, weights, p.i, cg_i64(c, u->s->rows)),
                      .nv = (uint32_t)cg_ceil_div(p.n, c->t->vl),
                      .masked = p.n % c->t->vl});
}

// Parts of a unit of these bands: several if all images together have few units.
static int64_t parts_of(Gemm *g, const ConvShape *s, const Bands *b) {
  int64_t panels = cg_ceil_div(s->dst_channels, g->p->width);
  int64_t units = cg_larger(1, ir_dim_bound(g->c->f->prog, s->c.n) * s->c.groups * b->units * b->w.phases);
  return cg_larger(1, cg_smaller(panels, cg_ceil_div(UNITS_WANTED, units)));
}

void cg_gemm_conv_emit(Gemm *g) {
  Cg *c = g->c;
  ConvShape s = shape_of(c->f, g->p);
  if (g->p->pack_b != B_PREPACKED) {
    cg_conv_pack_weights(c, &s, g->p->width, g->p->kc, g->b, g->packed_b, g->b_block);
    cg_wait_for_team(c);
  }
  for (Windows w = {0}; cg_conv_next(&s, &w);) {
    Bands b = cg_conv_bands(&s, &w, g->p->kc, FEW_COLUMNS, c->t);
    cg_conv_each_unit(
        &(ConvUnit){.c = c, .g = g, .prologue = g->prologue, .s = &s, .b = &b, .parts = parts_of(g, &s, &b)},
        each_panel);
  }
}
