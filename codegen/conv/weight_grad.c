// Class conv_weight: the gradient of a convolution's weight, sums over all pixels of products of x and g.
//
// A unit of work is a slice of the images, one group, one plane of the window, a block of x's channels and some of g's.
// It copies bands of x into a padded strip (strip.c), several small images at once; there, for each row of
// the window,
//
//   sums[w, c][o] += sum over pixels of strip[pixel * stride + w * dilation, c] * g[pixel, o]
//
// is a product whose A has neighbours as rows, whose k runs over the pixels of a row, and segments over the rows of g
// that do not meet the padding, image by image. The block is so small that k is long: sums are loaded and stored once.
// Where a window has several taps in a row and rows are short, x is read in place, without what lies outside, and taps share
// what is in registers (weight_rows.c). What a prologue makes of x goes to strips in any case; these have whole rows then.
// The number of slices depends on bounds only; each has sums of its own, which weight_sums.c adds in order and stores. It repairs
// what zeros of strips do to a g that is infinite or NaN, too.
#include "codegen/conv/depthwise.h"
#include "codegen/conv/planes.h"
#include "codegen/conv/weight_rows.h"
#include "codegen/conv/winograd.h"
#include "codegen/emitters.h"
#include "codegen/pointwise/prologue_epilogue.h"
#include "codegen/tuning.h"
#include "ir/passes/plan.h"

enum { TUNED_WEIGHT_GRAD(TUNE) };
enum {
  EDGE = 16  // most columns outside for which code is specialised
};

typedef struct {
  ConvShape s;
  Bands b;  // output pixels per strip
  int64_t c_group, o_group;
  int64_t slices, chunks;  // chunks: of the panels of a group
  int64_t panels, nv, width, o_pad;
  int64_t terms;      // pixels of a slice
  int64_t block;      // of c_group
  bool single_strip;  // one strip per unit
  int64_t row_sums;   // of a group, for a row of the window
  int64_t sums;       // of a slice and group
  bool in_registers;  // sums of all taps of a row in registers (weight_rows.h); else in tiles
  int64_t channels;   // of x at once, there
  bool made;          // a prologue makes the pixels of x: always copied to strips
} Plan;

// ---- the plan
static int64_t pixels_of(const Bands *b) { return b->images * b->band * b->columns; }

// The largest block of channels with enough pixels; else the one with most pixels.
static void choose_block(Plan *p, int64_t images, const Target *t) {
  const Conv *c = &p->s.c;
  int64_t most = cg_conv_strip_limit(t), pixels = ir_f32_in(G_BYTES) / p->width / (ir_conv_taps(c) == 1 ? 2 : 1);
  ConvCut cut = {.block = cg_larger(1, p->c_group), .few = FEW_COLUMNS, .pixels = pixels, .images = images};
  cut.one_plane = true;
  Windows w = p->b.w;
  p->block = cut.block, p->b = cg_conv_cut(&p->s, &w, &cut, t);
  for (int64_t n = 2; n <= p->c_group; n++) {
    bool fits = p->b.images * cg_strip_elements(&p->b.strip) <= most;
    cut.block = p->c_group / n;
    if (fits && (pixels_of(&p->b) >= pixels || c->kernel[2] * cut.block < FEW_ROWS)) break;
    if (p->c_group % n) continue;
    Bands b = cg_conv_cut(&p->s, &w, &cut, t);
    if (!fits || pixels_of(&b) > pixels_of(&p->b)) p->block = cut.block, p->b = b;
  }
}

static bool is_single_strip(const Fn *f, const Plan *p) {
  const Conv *c = &p->s.c;
  int64_t images = ir_dim_bound(f->prog, c->n);
  return p->b.units == 1 && !c->run_sized && ir_dim_is_const(f->prog, c->n) && images &&
         cg_ceil_div(images, p->slices) <= p->b.images;
}

// ---- in place
// The specification that all calls share.
static WeightRows rows_of(const Plan *p) {
  const Conv *c = &p->s.c;
  int64_t pixel = p->made ? p->block : c->c;
  return (WeightRows){.row = {.taps = c->kernel[2],
                              .gap = c->dilation[2],
                              .src_step = c->stride[2],
                              .count = c->out[2],
                              .offset = -c->before[2],
                              .columns = c->in[2],
                              .at_once = cg_weight_pixels_at_once(NULL, false)},
                      .rows = 1,
                      .pixel = pixel,
                      .g_pixel = c->o,
                      .x_row =
                          (p->made ? cg_conv_window_step(&p->s, &p->b.w.axis[1]) : c->stride[1]) * c->in[2] * pixel,
                      .g_row = c->out[2] * c->o,
                      .sums_tap = p->block * p->o_pad,
                      .sums_term = p->o_pad,
                      .accumulate = !p->single_strip};
}

// Pixels of g of which a panel stays in L1 with a line of each of x's.
static int64_t pixels_in_l1(int64_t nv, const Target *t) {
  return ir_f32_in(t->facts.l1_bytes / 2) / (nv * t->vl + TILE_LINE);
}

// A strip of whole rows of x, with all channels of a group.
static StripShape strip_of_rows(const Plan *p, int64_t band) {
  StripShape s = cg_conv_strip(&p->s, &p->b.w, p->c_group, band, 1);
  s.planes = 1, s.columns = p->s.c.in[2];
  return s;
}

static bool rows_fit(const Plan *p, int64_t band, int64_t images, const Target *t) {
  StripShape s = strip_of_rows(p, band);
  return !p->made || images * cg_strip_elements(&s) <= cg_conv_strip_limit(t);
}

// Taps in a row that share what they read, rows that need not be cut, pixels of x that lie in different sets of L1.
static bool goes_by_registers(Plan *p, const Target *t) {
  const Conv *c = &p->s.c;
  WeightRows s = rows_of(p);
  int64_t nv, channels;
  if (c->run_sized || c->kernel[2] == 1 || c->out[2] == 0) return false;
  if ((!p->made && cg_pixels_alias(c->c)) || !rows_fit(p, 1, 1, t)) return false;
  if (cg_conv_outside(&p->s, &p->b.w.axis[2]) > EDGE || !cg_weight_at_once(t, &s, p->o_group, &nv, &channels))
    return false;
  if (c->out[2] > 2 * pixels_in_l1(nv, t)) return false;
  p->nv = nv, p->channels = cg_tile_height(p->c_group, (uint32_t)channels);
  return true;
}

// Strips of as many pixels of g as stay in L1; blocks of channels make units enough.
static void cut_rows(Plan *p, int64_t images, const Target *t) {
  const Conv *c = &p->s.c;
  Bands *b = &p->b;
  int64_t pixel = p->c_group * c->stride[1] * c->stride[2] + p->o_group;
  int64_t wanted = cg_smaller(pixels_in_l1(p->nv, t), ir_f32_in(t->facts.l2_bytes / 2) / cg_larger(1, pixel));
  b->images = 1, b->columns = c->out[2], b->band = cg_larger(1, cg_smaller(c->out[1], wanted / c->out[2]));
  while (b->band > 1 && !rows_fit(p, b->band, 1, t)) b->band--;
  b->band = cg_even_bands(c->out[1], b->band);
  b->units = c->out[0] * cg_ceil_div(c->out[1], b->band);
  if (b->units == 1) b->images = cg_larger(1, cg_smaller(images, wanted / (b->band * c->out[2])));
  while (b->images > 1 && !rows_fit(p, b->band, b->images, t)) b->images--;
  int64_t units = c->groups * c->kernel[0] * cg_larger(1, cg_smaller(MOST_SLICES, images));
  p->block = cg_larger(1, p->c_group);
  for (int64_t n = 2; n * t->vl <= p->c_group && units * (p->c_group / p->block) < UNITS_WANTED; n++)
    if (p->c_group % n == 0) p->block = p->c_group / n;
  b->strip = strip_of_rows(p, b->band), b->strip.channels = p->block;
  b->w.axis[2].offset = 0;  // strips begin with column 0 of x
}

static Plan plan_of(const Fn *f, Val v, const Target *t) {
  Plan p = {0};
  cg_conv_shape(f, v, &p.s);
  cg_conv_next(&p.s, &p.b.w);
  p.s.tight = true;
  const Conv *c = &p.s.c;
  p.c_group = c->c / c->groups, p.o_group = c->o / c->groups;
  p.nv = cg_larger(1, cg_smaller(t->gemm_nv, cg_ceil_div(p.o_group, t->vl)));
  p.made = f->kernel_of && f->kernels[f->kernel_of[v.i]].first != v.i;
  p.in_registers = goes_by_registers(&p, t);
  p.width = p.nv * t->vl;
  p.panels = cg_ceil_div(p.o_group, p.width), p.o_pad = cg_round_up(p.o_group, t->vl);
  p.row_sums = c->kernel[2] * p.c_group * p.o_pad, p.sums = c->kernel[0] * c->kernel[1] * p.row_sums;
  int64_t images = ir_dim_bound(f->prog, c->n), fit = ir_f32_in(SLICE_BYTES) / cg_larger(1, p.sums * c->groups);
  if (p.in_registers) cut_rows(&p, images, t);
  else choose_block(&p, images, t);
  int64_t units = cg_larger(1, c->groups * c->kernel[0] * (p.c_group / p.block));
  p.slices = cg_smaller(cg_smaller(MOST_SLICES, cg_ceil_div(UNITS_WANTED, units)), cg_smaller(fit, images));
  p.slices = cg_larger(1, p.slices), units *= p.slices;
  p.chunks = cg_larger(1, cg_smaller(p.panels, cg_ceil_div(UNITS_WANTED, units)));
  p.single_strip = is_single_strip(f, &p);
  p.terms = cg_ceil_div(images, p.slices) * c->out[0] * c->out[1] * c->out[2];
  return p;
}

static WeightSums sums_of(const Plan *p) {
  return (WeightSums){.shape = &p->s,
                      .axis = p->b.w.axis,
                      .slices = p->slices,
                      .groups = p->s.c.groups,
                      .channels = p->c_group,
                      .block = p->block,
                      .o = p->o_group,
                      .o_pad = p->o_pad,
                      .repairs_nan = !p->in_registers};
}

bool cg_conv_weight_is_depthwise(const Fn *f, Val v, const Target *t) {
  Conv c;
  ir_conv(f, v, &c);
  return !c.run_sized && cg_depthwise_weight_fits(f, v, t);
}

int64_t cg_conv_weight_scratch_bytes(const Fn *f, Val v, const Target *t) {
  if (cg_is_channels_first(f, v)) return 0;
  if (cg_conv_weight_is_depthwise(f, v, t)) return cg_depthwise_weight_scratch_bytes(f, v, t);
  WinogradPlan winograd;
  if (cg_winograd_weight_plan(f, v, t, &winograd)) return cg_winograd_weight_scratch_bytes(f, v, t);
  Plan p = plan_of(f, v, t);
  WeightSums sums = sums_of(&p);
  return cg_weight_sums_bytes(&sums);
}

// ---- a unit
typedef struct {
  const Plan *p;
  ConvUnit u;
  V x, g, strip;
  V channel;  // the block's first, of the group
  Inside panels;
  V sums;  // of this slice, group, block and plane of the window, for its first row
} Unit;

// Row y of the window, for those rows of the band where it lies inside x: at a and g are the first of them.
typedef struct {
  V a, g, sums, rows;
  int64_t columns;  // of the panel
} WindowRow;

static V g_row(const Unit *t) { return cg_times(t->u.c, cg_dim(t->u.c, t->p->s.dst_dim[2]), t->p->s.c.o); }

// `rows` neighbours of the strip, `from` elements from the first one on.
static void tiles(const Unit *t, const WindowRow *w, int64_t rows, int64_t from, int64_t to) {
  const Plan *p = t->p;
  const Phase *axis = p->b.w.axis;
  Cg *c = t->u.c;
  int64_t vl = c->t->vl, strip_row = p->b.strip.columns * p->block;
  uint32_t nv = (uint32_t)cg_ceil_div(w->columns, vl);
  TileSpec spec = {.mr = cg_tile_height(rows, c->t->gemm_mr * c->t->gemm_nv / nv),
                   .nv = nv,
                   .a_row = 1,
                   .a_k = cg_conv_window_step(&p->s, &axis[2]) * p->block,
                   .b_k = p->s.c.o,
                   .b_vec = vl,
                   .c_row = p->o_pad,
                   .c_vec = vl,
                   .accumulate = !p->single_strip,
                   .segmented = p->b.images > 1 ? 2 : 1,
                   .mask_from = w->columns % vl ? nv - 1 : nv,
                   .mask_step = vl,
                   .mask_b = true};
  cg_tile_sum_in_parts(&spec, c->t, p->terms, p->b.columns, p->b.band);
  TileArgs args = {.a = cg_at(c, c->f32, w->a, cg_i64(c, from)),
                   .b = w->g,
                   .c = cg_at(c, c->f32, w->sums, cg_i64(c, to)),
                   .k = t->u.columns,
                   .n = cg_i64(c, w->columns),
                   .segments = {w->rows, t->u.images},
                   .a_segment = {cg_i64(c, cg_conv_window_step(&p->s, &axis[1]) * strip_row),
                                 cg_i64(c, cg_strip_elements(&p->b.strip))},
                   .b_segment = {g_row(t), cg_mul(c, cg_dim(c, p->s.dst_dim[1]), g_row(t))}};
  TileRows r = {.rows = cg_i64(c, rows), .left = rows % spec.mr, .a_block = cg_i64(c, spec.mr)};
  cg_tile_rows(c, &spec, &args, &r);
}

static void row_by_tiles(const Unit *t, const WindowRow *w) {
  const Conv *v = &t->p->s.c;
  int64_t rows = v->kernel[2] * t->p->block, taps = 1;
  if (v->dilation[2] > 1) rows = t->p->block, taps = v->kernel[2];  // the window's columns are not contiguous
  for (int64_t k = 0; k < taps; k++) tiles(t, w, rows, k * v->dilation[2] * t->p->block, k * rows * t->p->o_pad);
}

// Channels [lo, lo + n) of the block.
static void some_channels(const Unit *t, const WindowRow *w, V lo, int64_t n) {
  Cg *c = t->u.c;
  const Plan *p = t->p;
  WeightRows s = rows_of(p);
  s.nv = cg_ceil_div(w->columns, c->t->vl), s.lanes = w->columns - (s.nv - 1) * c->t->vl, s.terms = n;
  int64_t pixels = p->s.dst[0] * p->s.dst[1], image = p->s.src[0] * p->s.src[1] * p->s.src[2] * s.pixel;
  cg_weight_rows(c, &s,
                 &(WeightArgs){.x = cg_at(c, c->f32, w->a, lo),
                               .g = w->g,
                               .sums = cg_row(c, w->sums, lo, cg_i64(c, s.sums_term)),
                               .rows = w->rows,
                               .images = t->u.images,
                               .x_image = cg_i64(c, p->made ? cg_strip_elements(&p->b.strip) : image),
                               .g_image = cg_i64(c, pixels * s.g_row)});
}

static void row_in_registers(const Unit *t, const WindowRow *w) {
  for (Pieces p = cg_pieces(t->u.c, t->p->block, t->p->channels); cg_next_piece(&p);) some_channels(t, w, p.i, p.n);
}

// Where the first row of w lies in the image, if x is read in place: planes outside have no rows.
static void find_in_image(const Unit *t, WindowRow *w, V row) {
  Cg *c = t->u.c;
  const ConvShape *s = &t->p->s;
  const Phase *axis = t->p->b.w.axis;
  V plane = cg_add(c, cg_times(c, t->u.plane, axis[0].src_step), cg_i64(c, axis[0].offset));
  plane = cg_add(c, plane, cg_times(c, t->u.z, axis[0].gap));
  V channel = cg_add(c, cg_times(c, t->u.group, t->p->c_group), t->channel);
  V inside = cg_below(c, plane, cg_i64(c, s->src[0]));
  w->a = cg_conv_source(&t->u, t->x, plane, row, channel);
  w->rows = cg_select(c, inside, w->rows, cg_i64(c, 0));
}

static void window_row(const Unit *t, V y, V g, V sums, int64_t columns) {
  Cg *c = t->u.c;
  const Plan *p = t->p;
  const Phase *axis = &p->b.w.axis[1];
  V tap = cg_times(c, y, axis->gap);
  V at = cg_add(c, cg_times(c, t->u.row, axis->src_step), cg_add(c, tap, cg_i64(c, axis->offset)));
  Inside in = {cg_i64(c, 0), t->u.rows};
  if (cg_unit_reaches_out(&t->u, 1)) in = cg_inside(c, at, axis->src_step, 1, cg_dim(c, p->s.src_dim[1]), t->u.rows);
  WindowRow w = {.g = cg_at(c, c->f32, g, cg_mul(c, in.lo, g_row(t))), .sums = sums, .columns = columns};
  w.rows = cg_sub(c, in.hi, in.lo);
  if (t->strip) {
    V row = cg_add(c, cg_times(c, in.lo, cg_conv_window_step(&p->s, axis)), tap);
    w.a = cg_row(c, t->strip, row, cg_i64(c, p->b.strip.columns * p->block));
  } else {
    find_in_image(t, &w, cg_add(c, at, cg_times(c, in.lo, axis->src_step)));
  }
  if (p->in_registers) row_in_registers(t, &w);
  else row_by_tiles(t, &w);
}

static void panel(const Unit *t, V n0, int64_t columns) {
  Cg *c = t->u.c;
  const Plan *p = t->p;
  V zero = cg_i64(c, 0), at = cg_times(c, cg_conv_pixel(&t->u, zero, zero), p->s.c.o);
  V group = cg_times(c, t->u.group, p->o_group);
  V g = cg_at(c, c->f32, t->g, cg_add(c, cg_add(c, at, group), n0));
  for (Loop y = cg_count(c, cg_i64(c, p->s.c.kernel[1])); cg_next(&y);) {
    V sums = cg_at(c, c->f32, t->sums, cg_add(c, cg_times(c, y.i, p->row_sums), n0));
    window_row(t, y.i, g, sums, columns);
  }
}

static void each_panel(const Unit *t) {
  for (Pieces p = cg_some_pieces(t->u.c, t->panels, t->p->o_group, t->p->width); cg_next_piece(&p);) panel(t, p.i, p.n);
}

// Strips of images [lo, hi): several whole images at once, or strip by strip.
static void each_strip(Unit *t, Inside images) {
  Cg *c = t->u.c;
  ConvUnit of = t->u;
  int64_t at_once = t->p->b.images;
  V units = cg_conv_units(&of);  // of several images 1, or 0 where the run gives no positions
  if (t->p->b.units == 0) return;
  for (Loop l = cg_each_by(c, cg_mul(c, images.lo, units), cg_mul(c, images.hi, units), cg_i64(c, at_once));
       cg_next(&l);) {
    t->u = cg_conv_unit(&of, l.i);
    if (at_once > 1) t->u.images = cg_min(c, cg_i64(c, at_once), cg_sub(c, images.hi, t->u.image));
    if (t->strip) cg_conv_fill(&t->u, t->x, t->channel, t->strip);
    each_panel(t);
  }
}

// Clears the sums in the columns of the current panels.
static void clear_sums(const Unit *t) {
  Cg *c = t->u.c;
  const Plan *p = t->p;
  V lo = cg_times(c, t->panels.lo, p->width);
  V hi = cg_min(c, cg_times(c, t->panels.hi, p->width), cg_i64(c, p->o_pad));
  for (Loop y = cg_count(c, cg_i64(c, p->s.c.kernel[1])); cg_next(&y);) {
    for (Loop l = cg_count(c, cg_i64(c, p->s.c.kernel[2] * p->block)); cg_next(&l);) {
      V at = cg_add(c, cg_times(c, y.i, p->row_sums), cg_times(c, l.i, p->o_pad));
      cg_conv_clear(c, cg_at(c, c->f32, t->sums, cg_add(c, at, lo)), cg_sub(c, hi, lo));
    }
  }
}

static void each_unit(Unit *of, V scratch) {
  Cg *c = of->u.c;
  const Plan *p = of->p;
  const Conv *v = &p->s.c;
  int64_t blocks = p->c_group / p->block, units = p->slices * v->groups * v->kernel[0] * blocks * p->chunks;
  for (Loop l = cg_each_shared(c, cg_i64(c, units), 1); cg_next(&l);) {
    Unit t = *of;
    V chunk = l.i, block = cg_split(c, &chunk, p->chunks);
    t.u.z = cg_split(c, &block, blocks);
    V group = cg_split(c, &t.u.z, v->kernel[0]), at = cg_times(c, group, p->sums);
    V slice = cg_split(c, &group, v->groups);
    t.u.group = group, t.channel = cg_times(c, block, p->block);
    t.panels = cg_part(c, cg_i64(c, p->panels), chunk, p->chunks);
    at = cg_add(c, at, cg_times(c, t.u.z, v->kernel[1] * p->row_sums));
    at = cg_add(c, at, cg_times(c, t.channel, v->kernel[2] * p->o_pad));
    t.sums = cg_at(c, c->f32, scratch, at);
    if (!p->single_strip) clear_sums(&t);
    each_strip(&t, cg_part(c, cg_dim(c, v->n), slice, p->slices));
  }
}

bool cg_emit_conv_weight(Cg *c) {
  Val v = ir_anchor(c->f, c->k);
  V null = LLVMConstNull(c->ptr);
  if (cg_is_empty(c->f, v)) return true;
  V x = cg_stored(c, ir_arg(c->f, v, 0)) ? cg_ptr(c, ir_arg(c->f, v, 0)) : null;
  V g = cg_stored(c, ir_arg(c->f, v, 1)) ? cg_ptr(c, ir_arg(c->f, v, 1)) : null;
  if (cg_is_channels_first(c->f, v)) {
    cg_plane_weight_emit(c, x, g);
    return true;
  }
  if (cg_conv_weight_is_depthwise(c->f, v, c->t)) {
    cg_depthwise_weight_emit(c, x, g);
    return true;
  }
  Plan p = plan_of(c->f, v, c->t);
  RowStrip *prologue = p.made ? cg_prologue_new(c) : NULL;
  if (p.made && !prologue) return false;
  WinogradPlan winograd;
  if (cg_winograd_weight_plan(c->f, v, c->t, &winograd)) {
    cg_winograd_weight_emit(c, x, g, prologue);
    return true;
  }
  Unit t = {.p = &p, .u = {.c = c, .prologue = prologue, .s = &p.s, .b = &p.b}, .x = x, .g = g};
  if (p.made || !p.in_registers) t.strip = cg_block(c, c->f32, p.b.images * cg_strip_elements(&p.b.strip));
  each_unit(&t, c->scratch);
  cg_wait_for_team(c);
  WeightSums sums = sums_of(&p);
  sums.sums = c->scratch, sums.out = cg_ptr(c, v), sums.x = x, sums.g = g, sums.prologue = prologue;
  cg_store_weight_sums(c, &sums);
  return true;
}
