// Strategy depthwise of products (gemm.h): convolutions and transposed ones of groups of few channels, directly.
//
// Units are bands of rows, as those of conv.c, but their windows are read where they lie: each row of the result is made by
// depthwise_row.c, from those rows of taps that lie inside the source. Before an epilogue a row's sums wait on the stack, in
// blocks of channels. Pixels whose neighbours alias in L1 (cg_pixels_alias) are copied into a padded
// strip on the stack before, in blocks of channels too; so are those of images whose sizes the run gives, as conv.c has them.
#include "codegen/conv/depthwise.h"
#include "codegen/tuning.h"

enum { TUNED_DEPTHWISE(TUNE) };

// ---- the plan
// Channels of a strip for images of run-time sizes: whole vectors, or all of them; 0: no strip fits.
static int64_t run_block(const ConvShape *s, const Target *t) {
  int64_t block = cg_conv_block(s, t->vl, DEPTHWISE_COLUMNS, 1, t);
  return block % t->vl == 0 || block == s->src_channels ? block : 0;
}

bool cg_gemm_depthwise_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  Conv c;
  ConvShape s;
  if (!p->is_conv) return false;
  ir_conv(f, p->product, &c);
  cg_depthwise_shape(f, p->product, &s);
  return cg_channels_in_lane_group(&c, t) > 0 && (!s.by_run || run_block(&s, t));
}

static int64_t group_of(const Fn *f, const GemmPlan *p, const Target *t) {
  Conv c;
  ir_conv(f, p->product, &c);
  return cg_channels_in_lane_group(&c, t);
}

// block: channels of its strip.
static Bands bands_of(const ConvShape *s, const Windows *w, int64_t block, const Target *t) {
  const Phase *p = w->axis;
  if (s->by_run) return cg_conv_bands(s, w, block, DEPTHWISE_COLUMNS, t);
  Bands b = {.w = *w, .band = cg_larger(1, cg_smaller(BAND, p[1].count)), .columns = cg_larger(1, p[2].count)};
  b.strip = cg_conv_strip(s, w, block, b.band, b.columns);
  b.units = p[0].count * cg_ceil_div(p[1].count, b.band) * (p[2].count > 0);
  return b;
}

// Channels of a strip, at most `most`: equal parts of all; 0: windows are read in place.
static int64_t strip_block(const ConvShape *s, int64_t most, const Target *t) {
  int64_t block = most / t->vl * t->vl;
  if (!cg_pixels_alias(s->src_channels)) return 0;
  for (Windows w = {0}; cg_conv_next(s, &w);) {
    Bands b = bands_of(s, &w, 1, t);
    block = cg_smaller(block, ir_f32_in(STRIP_BYTES) / cg_strip_elements(&b.strip) / t->vl * t->vl);
  }
  while (block && s->src_channels % block) block -= t->vl;
  return block;
}

void cg_gemm_depthwise_plan(const Fn *f, GemmPlan *p, const Target *t) {
  ConvShape s;
  cg_depthwise_shape(f, p->product, &s);
  p->mr = 1, p->nv = 1, p->strip_rows = 0;
  p->pack_b = B_BY_STRATEGY;
  p->b_elements = ir_conv_taps(&s.c) * group_of(f, p, t) * cg_round_up(s.src_channels, t->vl);
  int64_t by_run = s.by_run ? run_block(&s, t) : 0;
  for (Windows w = {0}; cg_conv_next(&s, &w);) {
    Bands b = bands_of(&s, &w, cg_larger(1, by_run), t);
    p->mc = cg_larger(p->mc, cg_strip_elements(&b.strip));
    p->strip_rows = cg_larger(p->strip_rows, b.columns);
    p->units += b.units * w.phases;
  }
  p->moment_slots = cg_conv_moment_slots(f, p, &s);
  int64_t fit = ir_f32_in(SUMS_BYTES) / cg_larger(1, p->strip_rows) / t->vl, most = s.src_channels;
  if (p->epilogue) most = cg_smaller(most, cg_larger(1, fit) * t->vl);
  int64_t block = by_run ? by_run : strip_block(&s, most, t);
  p->kc = block ? block : most;
  if (!by_run) p->mc *= block;
  p->width = cg_round_up(p->kc, t->vl);
}

void cg_gemm_depthwise_stack(Gemm *g) {
  const GemmPlan *p = g->p;
  if (p->mc) g->a_block = cg_gemm_on_stack(g->c, p->mc);
  if (p->epilogue) g->strip = cg_gemm_on_stack(g->c, p->strip_rows * p->width);
}

// ---- a unit
// Windows are read in place, or in the strip.
static DepthwiseRow row_spec(const ConvUnit *u, int64_t channels, int64_t out_pixel, V *first_tap) {
  const ConvShape *s = u->s;
  const Phase *p = u->b->w.axis;
  int64_t group = group_of(u->c->f, u->g->p, u->c->t), w = group * u->c->t->vl, x[CONV_AXES];
  cg_conv_strides(s, u->g->a_block ? &u->b->strip : NULL, x);
  DepthwiseRow r = {.channels = channels,
                    .group = group,
                    .pixel = x[2],
                    .by_run = s->by_run,
                    .w_vector = ir_conv_taps(&s->c) * group,
                    .out_pixel = out_pixel,
                    .row = {.taps = p[2].n_taps,
                            .gap = p[2].n_taps > 1 ? p[2].gap : 1,
                            .src_step = p[2].src_step,
                            .count = p[2].count,
                            .offset = p[2].n_taps && !s->by_run ? p[2].offset : 0,
                            .columns = s->src[2],
                            .at_once = CG_DEPTHWISE_PIXELS}};
  *first_tap = cg_i64(u->c, 0);
  for (uint32_t k = CONV_AXES; k-- > 0;) {
    bool always = p[k].n_taps == 1 && !cg_unit_reaches_out(u, k);
    if (k < 2) r.taps[k] = p[k].n_taps, r.x_gap[k] = always ? 0 : p[k].gap * x[k];
    r.w_gap[k] = p[k].n_taps > 1 ? p[k].tap_step * w : 0;
    *first_tap = cg_add(u->c, *first_tap, cg_times(u->c, u->at.tap[k], w));
    w *= s->c.kernel[k];
  }
  return r;
}

// Row i of the band. Zeros of a strip's padding are left out there too: times an infinite weight they would be NaN.
static void find_row(const ConvUnit *u, V i, V channel, DepthwiseArgs *a) {
  Cg *c = u->c;
  const Phase *p = u->b->w.axis;
  V plane = cg_conv_taps_inside(u, 0, u->plane, &a->taps[0]);
  V row = cg_conv_taps_inside(u, 1, cg_add(c, u->row, i), &a->taps[1]);
  int64_t x[CONV_AXES];
  if (!u->g->a_block) {
    a->x = cg_conv_source(u, u->g->a, plane, row, channel);
    return;
  }
  cg_conv_strides(u->s, &u->b->strip, x);
  V at = cg_times(c, i, p[1].src_step * x[1]);
  a->count = u->columns, a->columns = cg_dim(c, u->s->src_dim[2]);
  a->column = cg_add(c, cg_times(c, u->column, p[2].src_step), u->at.offset[2]);
  if (!u->s->by_run) at = cg_sub(c, at, cg_times(c, u->at.offset[2], x[2]));  // the source's column 0
  a->x = cg_at(c, c->f32, u->g->a_block, at);
}

static void each_row(const ConvUnit *u, V channel, int64_t channels) {
  Gemm *g = u->g;
  Cg *c = u->c;
  int64_t all = u->s->dst_channels;
  V zero = cg_i64(c, 0), first_tap;
  DepthwiseRow r = row_spec(u, channels, g->epilogue ? g->p->width : u->b->w.axis[2].step * all, &first_tap);
  DepthwiseArgs a = {.w = cg_at(c, c->f32, g->packed_b, cg_add(c, first_tap, cg_times(c, channel, r.w_vector)))};
  if (g->a_block) cg_conv_fill(u, g->a, channel, g->a_block);
  for (Loop l = cg_count(c, u->rows); cg_next(&l);) {
    find_row(u, l.i, channel, &a);
    V at = cg_add(c, cg_times(c, cg_conv_pixel(u, l.i, zero), all), channel);
    a.out = g->epilogue ? g->strip : cg_at(c, c->f32, g->out, at);
    cg_depthwise_row(c, &r, &a);
    if (g->epilogue) cg_conv_epilogue(u, l.i, channel, cg_i64(c, channels), g->strip);
    cg_conv_add_moments(u, l.i, channel, cg_i64(c, channels), a.out, r.out_pixel);
  }
}

static void each_block(const ConvUnit *u) {
  for (Pieces p = cg_pieces(u->c, u->s->src_channels, u->g->p->kc); cg_next_piece(&p);) each_row(u, p.i, p.n);
}

// ---- weights [O, C / groups, taps] as [vector][tap][channel of the source's group][vl channels of the result], by the team
static V weight_at(Gemm *g, const ConvShape *s, V tap, V nth, V channel) {
  Cg *c = g->c;
  V size = cg_i64(c, group_of(c->f, g->p, c->t)), in_group = cg_rem(c, channel, size);
  V out = s->transposed ? cg_add(c, cg_sub(c, channel, in_group), nth) : channel;
  V in = s->transposed ? in_group : nth;
  return cg_add(c, cg_times(c, cg_add(c, cg_mul(c, out, size), in), ir_conv_taps(&s->c)), tap);
}

static void pack_weights(Gemm *g, const ConvShape *s) {
  Cg *c = g->c;
  int64_t group = group_of(c->f, g->p, c->t), rows = ir_conv_taps(&s->c) * group;
  V vl = cg_i64(c, c->t->vl);
  for (Loop row = cg_each_shared(c, cg_i64(c, cg_ceil_div(s->dst_channels, c->t->vl) * rows), 1); cg_next(&row);) {
    V nth = row.i, first = cg_mul(c, cg_split(c, &nth, rows), vl), tap = cg_split(c, &nth, group);
    V to = cg_at(c, c->f32, g->packed_b, cg_mul(c, row.i, vl));
    V some = cg_min(c, vl, cg_sub(c, cg_i64(c, s->dst_channels), first));
    for (Loop l = cg_count(c, some); cg_next(&l);) {
      V from = weight_at(g, s, tap, nth, cg_add(c, first, l.i));
      cg_put(c, cg_get(c, c->f32, g->b, from), to, l.i);
    }
  }
}

void cg_gemm_depthwise_emit(Gemm *g) {
  Cg *c = g->c;
  ConvShape s;
  cg_depthwise_shape(c->f, g->p->product, &s);
  pack_weights(g, &s);
  cg_wait_for_team(c);
  for (Windows w = {0}; cg_conv_next(&s, &w);) {
    Bands b = bands_of(&s, &w, g->p->kc, c->t);
    cg_conv_each_unit(&(ConvUnit){.c = c, .g = g, .prologue = g->prologue, .s = &s, .b = &b}, each_block);
  }
}
