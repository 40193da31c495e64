// Class conv_weight: the gradient of a convolution's weight, sums over all pixels of products of x and g.
//
// A unit of work is a slice of the images, one group, one plane of the window, a block of x's channels and some of g's.
// Of each image it copies bands of x into a padded strip (strip.c), of small images several; there, for each row of
// the window,
//
//   sums[w, c][o] += sum over pixels of strip[pixel * stride + w * dilation, c] * g[pixel, o]
//
// is a product whose A has neighbours as rows, whose k runs over the pixels of a row, and stretches over the rows of g
// that do not meet the padding, image by image. The block is so small that k is long: sums are loaded and stored once.
// Where a window has several taps in a row and rows are short, x is read in place, without what lies outside, and taps share
// what is in registers (weight_rows.c). What a prologue makes of x goes to strips in any case; these have whole rows then.
// Slices, of which there are so many by bounds alone, have sums of their own, which are added in order; what zeros of the
// strips do to a g that is infinite or NaN, weight_border.c mends then.
#include "codegen/conv/depthwise.h"
#include "codegen/conv/weight_rows.h"
#include "codegen/conv/winograd.h"
#include "codegen/emitters.h"
#include "codegen/pointwise/prologue_epilogue.h"

enum {
  MOST_SLICES = 16,
  SLICE_BYTES = 4 << 20,  // of all slices' sums
  UNITS_WANTED = 16,
  STRIP_BYTES = 64 << 10,
  L2_PART = 4,
  FEW_COLUMNS = 16,
  G_BYTES = 32 << 10,  // of a panel of g that a strip meets: it stays in L1
  FEW_ROWS = 12,       // of tiles
  SETS_BYTES = 2048,   // pixels of a multiple of so many meet in two sets of L1
  EDGE = 16            // columns outside for which code is made
};

// g's pixels that a strip serves.
typedef struct {
  int64_t images, band, columns;
} Cut;

typedef struct {
  Conv c;
  int64_t c_group, o_group;
  int64_t slices, chunks;  // chunks: of the panels of a group
  int64_t panels, nv, width, o_pad;
  int64_t terms;   // pixels of a slice
  int64_t wanted;  // pixels of g in a strip
  int64_t block;   // of c_group
  Cut cut;
  bool once;          // one strip for each unit
  int64_t row_sums;   // of a group, for a row of the window
  int64_t sums;       // of a slice and group
  StripShape strip;   // of one image
  bool in_registers;  // sums of all taps of a row (weight_rows.h); not: by tiles
  int64_t channels;   // of x at once, there
  bool made;          // pixels of x, by a prologue: to strips in any case
} Plan;

// ---- the plan
// Where the window has one tap, the strip has only what it meets.
static int64_t step_of(const Conv *c, uint32_t k) { return c->kernel[k] == 1 ? 1 : c->stride[k]; }
static int64_t span_of(const Conv *c, uint32_t k, int64_t n) {
  return (n - 1) * step_of(c, k) + (c->kernel[k] - 1) * c->dilation[k] + 1;
}

static int64_t strip_of(const Conv *c, Cut cut, int64_t block) {
  return cut.images * span_of(c, 1, cut.band) * span_of(c, 2, cut.columns) * block;
}

// Of whole rows of x, and all channels of a group.
static int64_t strip_of_rows(const Plan *p, Cut cut) {
  return cut.images * span_of(&p->c, 1, cut.band) * p->c.in[2] * p->c_group;
}

static int64_t most_in_strip(const Target *t) {
  return ir_f32_in(cg_smaller(STRIP_BYTES, t->facts.l2_bytes / L2_PART));
}

static int64_t pixels_of(Cut cut) { return cut.images * cut.band * cut.columns; }

// About as many pixels as are wanted, in strips of at most so many elements: columns, then rows, then images.
static Cut cut_of(const Plan *p, int64_t block, int64_t images, int64_t most) {
  const Conv *c = &p->c;
  int64_t few = cg_larger(1, cg_smaller(FEW_COLUMNS, c->out[2])), parts = 1;
  Cut cut = {1, 1, cg_larger(1, c->out[2])};
  while (cut.columns > few && (cut.columns > 2 * p->wanted || strip_of(c, cut, block) > most))
    cut.columns = cg_ceil_div(c->out[2], ++parts);
  for (Cut next = cut; next.band < c->out[1] && pixels_of(cut) < p->wanted; cut = next)
    if (next.band++, strip_of(c, next, block) > most) break;
  if (c->out[1]) cut.band = cg_ceil_div(c->out[1], cg_ceil_div(c->out[1], cut.band));  // about equal
  if (cut.columns < c->out[2] || cut.band < c->out[1] || c->out[0] != 1) return cut;
  for (Cut next = cut; next.images < images && pixels_of(cut) < p->wanted; cut = next)
    if (next.images++, strip_of(c, next, block) > most) break;
  return cut;
}

// The largest block of channels that has enough pixels; else that with the most of them.
static void choose_block(Plan *p, int64_t images, const Target *t) {
  const Conv *c = &p->c;
  int64_t most = most_in_strip(t);
  p->block = cg_larger(1, p->c_group);
  p->cut = cut_of(p, p->block, images, most);
  for (int64_t n = 2; n <= p->c_group; n++) {
    bool fits = strip_of(c, p->cut, p->block) <= most;
    int64_t block = p->c_group / n;
    if (fits && (pixels_of(p->cut) >= p->wanted || c->kernel[2] * block < FEW_ROWS)) break;
    if (p->c_group % n) continue;
    Cut cut = cut_of(p, block, images, most);
    if (!fits || pixels_of(cut) > pixels_of(p->cut)) p->block = block, p->cut = cut;
  }
}

static StripShape shape_of(const Plan *p) {
  const Conv *c = &p->c;
  StripShape s = {.planes = 1,
                  .rows = span_of(c, 1, p->cut.band),
                  .columns = p->in_registers ? c->in[2] : span_of(c, 2, p->cut.columns),
                  .channels = p->block,
                  .size = {c->in_dim[0], c->in_dim[1], c->in_dim[2]},
                  .pixel = c->c,
                  .step = {1, 1, 1}};
  for (uint32_t k = 1; k < CONV_AXES; k++)
    if (c->kernel[k] == 1) s.step[k] = c->stride[k];
  return s;
}

static bool is_once(const Fn *f, const Plan *p) {
  const Conv *c = &p->c;
  bool whole = p->cut.band == c->out[1] && p->cut.columns == c->out[2] && c->out[0] == 1;
  int64_t images = ir_dim_bound(f->prog, c->n);
  return whole && !c->run_sized && ir_dim_is_const(f->prog, c->n) && images &&
         cg_ceil_div(images, p->slices) <= p->cut.images;
}

// ---- in place
// What all calls have in common.
static WeightRows rows_of(const Plan *p) {
  const Conv *c = &p->c;
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
                      .x_row = (p->made ? step_of(c, 1) : c->stride[1]) * c->in[2] * pixel,
                      .g_row = c->out[2] * c->o,
                      .sums_tap = p->block * p->o_pad,
                      .sums_term = p->o_pad,
                      .more = !p->once};
}

// Pixels of g of which a panel stays in L1 with a line of each of x's.
static int64_t pixels_in_l1(int64_t nv, const Target *t) {
  return ir_f32_in(t->facts.l1_bytes / 2) / (nv * t->vl + TILE_LINE);
}

// Taps in a row that share what they read, rows that need not be cut, pixels of x that lie in different sets of L1.
static bool goes_by_registers(Plan *p, const Target *t) {
  const Conv *c = &p->c;
  WeightRows s = rows_of(p);
  int64_t nv, channels;
  if (c->run_sized || c->kernel[2] == 1 || c->out[2] == 0 || (!p->made && 4 * c->c % SETS_BYTES == 0)) return false;
  if (p->made && strip_of_rows(p, (Cut){1, 1, c->out[2]}) > most_in_strip(t)) return false;
  int64_t right = (c->out[2] - 1) * c->stride[2] - c->before[2] + (c->kernel[2] - 1) * c->dilation[2] + 1 - c->in[2];
  if (c->before[2] > EDGE || right > EDGE || !cg_weight_at_once(t, &s, p->o_group, &nv, &channels)) return false;
  if (c->out[2] > 2 * pixels_in_l1(nv, t)) return false;
  p->nv = nv, p->channels = cg_tile_height(p->c_group, (uint32_t)channels);
  return true;
}

// Strips of as many pixels of g as stay in L1; blocks of channels make units enough.
static void cut_rows(Plan *p, int64_t images, const Target *t) {
  const Conv *c = &p->c;
  int64_t pixel = p->c_group * c->stride[1] * c->stride[2] + p->o_group;
  int64_t wanted = cg_smaller(pixels_in_l1(p->nv, t), ir_f32_in(t->facts.l2_bytes / 2) / cg_larger(1, pixel));
  int64_t band = cg_larger(1, cg_smaller(c->out[1], wanted / c->out[2]));
  while (p->made && band > 1 && strip_of_rows(p, (Cut){1, band, c->out[2]}) > most_in_strip(t)) band--;
  if (c->out[1]) band = cg_ceil_div(c->out[1], cg_ceil_div(c->out[1], band));  // about equal
  bool whole = band == c->out[1] && c->out[0] == 1;
  p->cut = (Cut){1, band, c->out[2]};
  if (whole) p->cut.images = cg_larger(1, cg_smaller(images, wanted / (band * c->out[2])));
  while (p->made && p->cut.images > 1 && strip_of_rows(p, p->cut) > most_in_strip(t)) p->cut.images--;
  int64_t units = c->groups * c->kernel[0] * cg_larger(1, cg_smaller(MOST_SLICES, images));
  p->block = cg_larger(1, p->c_group);
  for (int64_t n = 2; n * t->vl <= p->c_group && units * (p->c_group / p->block) < UNITS_WANTED; n++)
    if (p->c_group % n == 0) p->block = p->c_group / n;
}

static Plan plan_of(const Fn *f, Val v, const Target *t) {
  Plan p = {0};
  ir_conv(f, v, &p.c);
  const Conv *c = &p.c;
  p.c_group = c->c / c->groups, p.o_group = c->o / c->groups;
  p.nv = cg_larger(1, cg_smaller(t->gemm_nv, cg_ceil_div(p.o_group, t->vl)));
  p.made = f->kernel_of && f->kernels[f->kernel_of[v.i]].first != v.i;
  p.in_registers = goes_by_registers(&p, t);
  p.width = p.nv * t->vl;
  p.panels = cg_ceil_div(p.o_group, p.width), p.o_pad = cg_round_up(p.o_group, t->vl);
  p.row_sums = c->kernel[2] * p.c_group * p.o_pad, p.sums = c->kernel[0] * c->kernel[1] * p.row_sums;
  int64_t images = ir_dim_bound(f->prog, c->n), fit = ir_f32_in(SLICE_BYTES) / cg_larger(1, p.sums * c->groups);
  p.wanted = ir_f32_in(G_BYTES) / p.width / (ir_conv_taps(c) == 1 ? 2 : 1);
  if (p.in_registers) cut_rows(&p, images, t);
  else choose_block(&p, images, t);
  p.strip = shape_of(&p);
  int64_t units = cg_larger(1, c->groups * c->kernel[0] * (p.c_group / p.block));
  p.slices = cg_smaller(cg_smaller(MOST_SLICES, cg_ceil_div(UNITS_WANTED, units)), cg_smaller(fit, images));
  p.slices = cg_larger(1, p.slices), units *= p.slices;
  p.chunks = cg_larger(1, cg_smaller(p.panels, cg_ceil_div(UNITS_WANTED, units)));
  p.once = is_once(f, &p);
  p.terms = cg_ceil_div(images, p.slices) * c->out[0] * c->out[1] * c->out[2];
  return p;
}

bool cg_conv_weight_is_depthwise(const Fn *f, Val v, const Target *t) {
  Conv c;
  ir_conv(f, v, &c);
  return !c.run_sized && cg_depthwise_weight_fits(f, v, t);
}

int64_t cg_conv_weight_scratch_bytes(const Fn *f, Val v, const Target *t) {
  if (cg_conv_weight_is_depthwise(f, v, t)) return cg_depthwise_weight_scratch_bytes(f, v, t);
  WinogradPlan winograd;
  if (cg_winograd_weight_plan(f, v, t, &winograd)) return cg_winograd_weight_scratch_bytes(f, v, t);
  Plan p = plan_of(f, v, t);
  return cg_round_up(4 * p.slices * p.c.groups * p.sums, TN_ALIGN);
}

// ---- a unit
typedef struct {
  Cg *c;
  const Plan *p;
  LLVMValueRef x, g, strip;
  RowStrip *prologue;            // makes pixels of x; NULL: they are stored
  LLVMValueRef group, block, z;  // z: plane of the window
  LLVMValueRef first, last;      // panels
  LLVMValueRef sums;             // of this slice, group, block and plane of the window, for its first row
  LLVMValueRef image, plane;     // at hand
  LLVMValueRef row, column, images, rows, columns;
} Unit;

// span_of for a number of g's pixels of the run
static LLVMValueRef span(const Unit *u, uint32_t k, LLVMValueRef n) {
  Cg *c = u->c;
  const Conv *v = &u->p->c;
  LLVMValueRef first = cg_mul(c, cg_sub(c, n, cg_i64(c, 1)), cg_i64(c, step_of(v, k)));
  return cg_add(c, first, cg_i64(c, (v->kernel[k] - 1) * v->dilation[k] + 1));
}

static void fill(const Unit *u) {
  Cg *c = u->c;
  const Conv *v = &u->p->c;
  LLVMValueRef at[CONV_AXES] = {u->plane, u->row, u->column}, pixels = cg_i64(c, 1);
  StripFill fill = {.prologue = u->prologue};
  for (uint32_t k = 0; k < CONV_AXES; k++) {
    fill.at[k] = cg_sub(c, cg_mul(c, at[k], cg_i64(c, v->stride[k])), cg_i64(c, v->before[k]));
    pixels = cg_mul(c, pixels, cg_dim(c, v->in_dim[k]));
  }
  fill.at[0] = cg_add(c, fill.at[0], cg_mul(c, u->z, cg_i64(c, v->dilation[0])));
  if (u->p->in_registers) fill.at[2] = cg_i64(c, 0);
  if (v->run_sized) fill.used[1] = span(u, 1, u->rows), fill.used[2] = span(u, 2, u->columns);
  fill.channel = cg_add(c, cg_mul(c, u->group, cg_i64(c, u->p->c_group)), cg_mul(c, u->block, cg_i64(c, u->p->block)));
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), u->images, cg_i64(c, 1), NULL, 0);
  fill.pixel = cg_mul(c, cg_add(c, u->image, l.i), pixels);
  fill.image = cg_at(c, c->f32, u->x, cg_add(c, cg_mul(c, fill.pixel, cg_i64(c, v->c)), fill.channel));
  fill.strip = cg_at(c, c->f32, u->strip, cg_mul(c, l.i, cg_i64(c, cg_strip_elements(&u->p->strip))));
  cg_conv_fill_strip(c, &u->p->strip, &fill);
  cg_loop_end(c, &l, NULL);
}

// Row y of the window: rows of the band, from `first` on, for which it lies inside x.
typedef struct {
  LLVMValueRef y, first, n;
} WindowRow;

static WindowRow window_row(const Unit *u, LLVMValueRef y) {
  Cg *c = u->c;
  const Conv *v = &u->p->c;
  LLVMValueRef at = cg_sub(c, cg_mul(c, y, cg_i64(c, v->dilation[1])), cg_i64(c, v->before[1]));
  at = cg_add(c, at, cg_mul(c, u->row, cg_i64(c, v->stride[1])));
  Inside in = cg_inside(c, at, v->stride[1], 1, cg_dim(c, v->in_dim[1]), u->rows);
  return (WindowRow){y, in.lo, cg_sub(c, in.hi, in.lo)};
}

// `rows` neighbours of the strip from `a` on, with a panel of g, into sums.
static void tiles(const Unit *u, const WindowRow *w, int64_t rows, int64_t a, LLVMValueRef g, LLVMValueRef sums,
                  int64_t columns) {
  Cg *c = u->c;
  const Plan *p = u->p;
  const Conv *v = &p->c;
  int64_t vl = c->t->vl, strip_row = p->strip.columns * p->block;
  LLVMValueRef g_row = cg_mul(c, cg_dim(c, v->out_dim[2]), cg_i64(c, v->o));
  uint32_t nv = (uint32_t)cg_ceil_div(columns, vl);
  TileSpec spec = {.mr = cg_tile_height(rows, c->t->gemm_mr * c->t->gemm_nv / nv),
                   .nv = nv,
                   .a_row = 1,
                   .a_k = step_of(v, 2) * p->block,
                   .b_k = v->o,
                   .b_vec = vl,
                   .c_row = p->o_pad,
                   .c_vec = vl,
                   .more = !p->once,
                   .stretched = p->cut.images > 1 ? 2 : 1,
                   .mask_from = columns % vl ? nv - 1 : nv,
                   .mask_step = vl,
                   .mask_b = true};
  cg_tile_sum_in_parts(&spec, c->t, p->terms, p->cut.columns, p->cut.band);
  LLVMValueRef row =
      cg_add(c, cg_mul(c, w->first, cg_i64(c, step_of(v, 1))), cg_mul(c, w->y, cg_i64(c, v->dilation[1])));
  TileArgs args = {.a = cg_at(c, c->f32, u->strip, cg_add(c, cg_i64(c, a), cg_mul(c, row, cg_i64(c, strip_row)))),
                   .b = cg_at(c, c->f32, g, cg_mul(c, w->first, g_row)),
                   .c = sums,
                   .k = u->columns,
                   .n = cg_i64(c, columns),
                   .stretches = {w->n, u->images},
                   .a_stretch = {cg_i64(c, step_of(v, 1) * strip_row), cg_i64(c, cg_strip_elements(&p->strip))},
                   .b_stretch = {g_row, cg_mul(c, cg_dim(c, v->out_dim[1]), g_row)}};
  TileRows r = {.rows = cg_i64(c, rows), .left = rows % spec.mr, .a_block = cg_i64(c, spec.mr)};
  cg_tile_rows(c, &spec, &args, &r);
}

// Elements of x from one row of a plane to the next, one plane and one image.
static void strides_of_x(const Unit *u, LLVMValueRef out[CONV_AXES]) {
  LLVMValueRef at = cg_i64(u->c, u->p->c.c);
  for (uint32_t k = CONV_AXES; k-- > 0;) out[k] = at = cg_mul(u->c, at, cg_dim(u->c, u->p->c.in_dim[k]));
}

// Plane z of x that meets the plane of g at hand; it may lie outside.
static LLVMValueRef plane_of_x(const Unit *u) {
  Cg *c = u->c;
  const Conv *v = &u->p->c;
  LLVMValueRef z = cg_add(c, cg_mul(c, u->plane, cg_i64(c, v->stride[0])), cg_mul(c, u->z, cg_i64(c, v->dilation[0])));
  return cg_sub(c, z, cg_i64(c, v->before[0]));
}

// Column 0 of the row of x that meets the first of the window's rows, at the block's first channel.
static LLVMValueRef first_row_of_x(const Unit *u, const WindowRow *w, const LLVMValueRef stride[CONV_AXES]) {
  Cg *c = u->c;
  const Plan *p = u->p;
  const Conv *v = &p->c;
  LLVMValueRef row = cg_mul(c, cg_add(c, u->row, w->first), cg_i64(c, v->stride[1]));
  row = cg_add(c, row, cg_sub(c, cg_mul(c, w->y, cg_i64(c, v->dilation[1])), cg_i64(c, v->before[1])));
  LLVMValueRef at = cg_add(c, cg_mul(c, u->group, cg_i64(c, p->c_group)), cg_mul(c, u->block, cg_i64(c, p->block)));
  at = cg_add(c, at, cg_add(c, cg_mul(c, u->image, stride[0]), cg_mul(c, plane_of_x(u), stride[1])));
  return cg_at(c, c->f32, u->x, cg_add(c, at, cg_mul(c, row, stride[2])));
}

// The same in the strip.
static LLVMValueRef first_row_of_strip(const Unit *u, const WindowRow *w) {
  Cg *c = u->c;
  const Conv *v = &u->p->c;
  LLVMValueRef row = cg_mul(c, w->first, cg_i64(c, step_of(v, 1)));
  row = cg_add(c, row, cg_mul(c, w->y, cg_i64(c, v->dilation[1])));
  return cg_at(c, c->f32, u->strip, cg_mul(c, row, cg_i64(c, u->p->strip.columns * u->p->strip.channels)));
}

static WeightArgs arguments_of_rows(const Unit *u, const WindowRow *w, LLVMValueRef g, LLVMValueRef sums) {
  Cg *c = u->c;
  const Plan *p = u->p;
  const Conv *v = &p->c;
  LLVMValueRef x[CONV_AXES], g_row = cg_mul(c, cg_dim(c, v->out_dim[2]), cg_i64(c, v->o));
  strides_of_x(u, x);
  LLVMValueRef inside = LLVMBuildICmp(c->b, LLVMIntULT, plane_of_x(u), cg_dim(c, v->in_dim[0]), "");
  return (WeightArgs){.x = p->made ? first_row_of_strip(u, w) : first_row_of_x(u, w, x),
                      .g = cg_at(c, c->f32, g, cg_mul(c, w->first, g_row)),
                      .sums = sums,
                      .rows = LLVMBuildSelect(c->b, inside, w->n, cg_i64(c, 0), ""),
                      .images = u->images,
                      .x_image = p->made ? cg_i64(c, cg_strip_elements(&p->strip)) : x[0],
                      .g_image = cg_mul(c, cg_mul(c, cg_dim(c, v->out_dim[0]), cg_dim(c, v->out_dim[1])), g_row)};
}

// Channels [lo, lo + n) of the block.
static void some_channels(const Unit *u, const WeightRows *of, const WeightArgs *args, LLVMValueRef lo, int64_t n) {
  Cg *c = u->c;
  WeightRows s = *of;
  WeightArgs a = *args;
  s.terms = n;
  a.x = cg_at(c, c->f32, args->x, lo);
  a.sums = cg_at(c, c->f32, args->sums, cg_mul(c, lo, cg_i64(c, s.sums_term)));
  cg_weight_rows(c, &s, &a);
}

// A panel of g with a row of the window.
static void rows_in_registers(const Unit *u, const WindowRow *w, LLVMValueRef g, LLVMValueRef sums, int64_t columns) {
  Cg *c = u->c;
  const Plan *p = u->p;
  WeightRows s = rows_of(p);
  WeightArgs a = arguments_of_rows(u, w, g, sums);
  s.nv = cg_ceil_div(columns, c->t->vl), s.lanes = columns - (s.nv - 1) * c->t->vl;
  int64_t whole = p->block / p->channels * p->channels;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, whole), cg_i64(c, p->channels), NULL, 0);
  some_channels(u, &s, &a, l.i, p->channels);
  cg_loop_end(c, &l, NULL);
  if (whole < p->block) some_channels(u, &s, &a, cg_i64(c, whole), p->block - whole);
}

static void panel(const Unit *u, LLVMValueRef n0, int64_t columns) {
  Cg *c = u->c;
  const Plan *p = u->p;
  const Conv *v = &p->c;
  LLVMValueRef pixel = cg_add(c, cg_mul(c, u->image, cg_dim(c, v->out_dim[0])), u->plane);
  pixel = cg_add(c, cg_mul(c, pixel, cg_dim(c, v->out_dim[1])), u->row);
  pixel = cg_add(c, cg_mul(c, pixel, cg_dim(c, v->out_dim[2])), u->column);
  LLVMValueRef at = cg_add(c, cg_mul(c, pixel, cg_i64(c, v->o)), cg_mul(c, u->group, cg_i64(c, p->o_group)));
  LLVMValueRef g = cg_at(c, c->f32, u->g, cg_add(c, at, n0));
  int64_t rows = v->kernel[2] * p->block, taps = 1;
  if (v->dilation[2] > 1) rows = p->block, taps = v->kernel[2];  // the window's columns are no neighbours
  Loop y;
  cg_loop_begin(c, &y, cg_i64(c, 0), cg_i64(c, v->kernel[1]), cg_i64(c, 1), NULL, 0);
  WindowRow w = window_row(u, y.i);
  LLVMValueRef of_row = cg_add(c, cg_mul(c, y.i, cg_i64(c, p->row_sums)), n0);
  if (p->in_registers) rows_in_registers(u, &w, g, cg_at(c, c->f32, u->sums, of_row), columns);
  for (int64_t k = 0; !p->in_registers && k < taps; k++) {
    LLVMValueRef sums = cg_at(c, c->f32, u->sums, cg_add(c, of_row, cg_i64(c, k * rows * p->o_pad)));
    tiles(u, &w, rows, k * v->dilation[2] * p->block, g, sums, columns);
  }
  cg_loop_end(c, &y, NULL);
}

static void each_panel(const Unit *u) {
  Cg *c = u->c;
  const Plan *p = u->p;
  int64_t whole = p->o_group / p->width, left = p->o_group % p->width;
  Loop l;
  cg_loop_begin(c, &l, u->first, cg_min(c, u->last, cg_i64(c, whole)), cg_i64(c, 1), NULL, 0);
  panel(u, cg_mul(c, l.i, cg_i64(c, p->width)), p->width);
  cg_loop_end(c, &l, NULL);
  if (!left) return;
  If some;
  cg_if(c, &some, LLVMBuildICmp(c->b, LLVMIntEQ, u->last, cg_i64(c, p->panels), ""));
  panel(u, cg_i64(c, whole * p->width), left);
  cg_endif(c, &some);
}

static void each_strip(Unit *u) {
  Cg *c = u->c;
  const Plan *p = u->p;
  Loop row, column;
  cg_loop_begin(c, &row, cg_i64(c, 0), cg_dim(c, p->c.out_dim[1]), cg_i64(c, p->cut.band), NULL, 0);
  cg_loop_begin(c, &column, cg_i64(c, 0), cg_dim(c, p->c.out_dim[2]), cg_i64(c, p->cut.columns), NULL, 0);
  u->row = row.i, u->column = column.i;
  u->rows = cg_min(c, cg_i64(c, p->cut.band), cg_sub(c, cg_dim(c, p->c.out_dim[1]), row.i));
  u->columns = cg_min(c, cg_i64(c, p->cut.columns), cg_sub(c, cg_dim(c, p->c.out_dim[2]), column.i));
  if (p->made || !p->in_registers) fill(u);
  each_panel(u);
  cg_loop_end(c, &column, NULL);
  cg_loop_end(c, &row, NULL);
}

// Images [lo, hi)
static void each_image(Unit *u, LLVMValueRef lo, LLVMValueRef hi) {
  Cg *c = u->c;
  LLVMValueRef at_once = cg_i64(c, u->p->cut.images);
  Loop image, plane;
  cg_loop_begin(c, &image, lo, hi, at_once, NULL, 0);
  cg_loop_begin(c, &plane, cg_i64(c, 0), cg_dim(c, u->p->c.out_dim[0]), cg_i64(c, 1), NULL, 0);
  u->image = image.i, u->plane = plane.i, u->images = cg_min(c, at_once, cg_sub(c, hi, image.i));
  each_strip(u);
  cg_loop_end(c, &plane, NULL);
  cg_loop_end(c, &image, NULL);
}

// Zeros in the columns of the panels at hand.
static void clear_sums(const Unit *u) {
  Cg *c = u->c;
  const Plan *p = u->p;
  LLVMValueRef lo = cg_mul(c, u->first, cg_i64(c, p->width));
  LLVMValueRef hi = cg_min(c, cg_mul(c, u->last, cg_i64(c, p->width)), cg_i64(c, p->o_pad));
  Loop y, l;
  cg_loop_begin(c, &y, cg_i64(c, 0), cg_i64(c, p->c.kernel[1]), cg_i64(c, 1), NULL, 0);
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, p->c.kernel[2] * p->block), cg_i64(c, 1), NULL, 0);
  LLVMValueRef at = cg_add(c, cg_mul(c, y.i, cg_i64(c, p->row_sums)), cg_mul(c, l.i, cg_i64(c, p->o_pad)));
  cg_conv_clear(c, cg_at(c, c->f32, u->sums, cg_add(c, at, lo)), cg_sub(c, hi, lo));
  cg_loop_end(c, &l, NULL);
  cg_loop_end(c, &y, NULL);
}

// The quotient of *number and n, which leaves the rest in *number.
static LLVMValueRef split(Cg *c, LLVMValueRef *number, int64_t n) {
  LLVMValueRef whole = cg_div(c, *number, cg_i64(c, n));
  *number = cg_gemm_rem(c, *number, cg_i64(c, n));
  return whole;
}

static void each_unit(Unit *u, LLVMValueRef scratch) {
  Cg *c = u->c;
  const Plan *p = u->p;
  const Conv *v = &p->c;
  int64_t blocks = p->c_group / p->block, units = p->slices * v->groups * v->kernel[0] * blocks * p->chunks;
  LLVMValueRef lo, hi, n = cg_dim(c, v->n), slices = cg_i64(c, p->slices);
  cg_share(c, cg_i64(c, units), 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef chunk = l.i, rest = split(c, &chunk, p->chunks);
  u->block = rest, rest = split(c, &u->block, blocks);
  u->z = rest, rest = split(c, &u->z, v->kernel[0]);
  LLVMValueRef at = cg_mul(c, rest, cg_i64(c, p->sums));
  u->group = rest;
  LLVMValueRef slice = split(c, &u->group, v->groups);
  u->first = cg_div(c, cg_mul(c, chunk, cg_i64(c, p->panels)), cg_i64(c, p->chunks));
  u->last = cg_div(c, cg_mul(c, cg_add(c, chunk, cg_i64(c, 1)), cg_i64(c, p->panels)), cg_i64(c, p->chunks));
  at = cg_add(c, at, cg_mul(c, u->z, cg_i64(c, v->kernel[1] * p->row_sums)));
  at = cg_add(c, at, cg_mul(c, u->block, cg_i64(c, v->kernel[2] * p->block * p->o_pad)));
  u->sums = cg_at(c, c->f32, scratch, at);
  if (!p->once) clear_sums(u);
  each_image(u, cg_div(c, cg_mul(c, slice, n), slices),
             cg_div(c, cg_mul(c, cg_add(c, slice, cg_i64(c, 1)), n), slices));
  cg_loop_end(c, &l, NULL);
}

// ---- the sums of all slices, in PyTorch's order of axes, by squares of vl x vl
typedef struct {
  Cg *c;
  const Plan *p;
  LLVMValueRef scratch, out, x, g;
  RowStrip *prologue;            // makes pixels of x; NULL: they are stored
  LLVMValueRef made;             // a channel of one
  LLVMValueRef square, turned;   // [element of the weight][channel of g], and [channel][element]
  LLVMValueRef group, first, o;  // the first element of the weight, [channel of x][tap], and the first channel of g
  LLVMValueRef elements, channels;
} Square;

// Number of the row of sums, [plane and row of the window][block][w][channel], of an element of the weight.
static LLVMValueRef row_of(const Square *s, LLVMValueRef element) {
  Cg *c = s->c;
  const Plan *p = s->p;
  int64_t in_row = p->c.kernel[2];
  LLVMValueRef tap = element, channel = split(c, &tap, ir_conv_taps(&p->c)), w = tap, row = split(c, &w, in_row);
  LLVMValueRef in_block = channel, block = split(c, &in_block, p->block);
  LLVMValueRef at = cg_add(c, cg_mul(c, row, cg_i64(c, p->c_group / p->block)), block);
  at = cg_add(c, cg_mul(c, at, cg_i64(c, in_row)), w);
  return cg_add(c, cg_mul(c, at, cg_i64(c, p->block)), in_block);
}

// Of the element's row of the square.
static void mend(const Square *s, LLVMValueRef element, LLVMValueRef row) {
  Cg *c = s->c;
  const Plan *p = s->p;
  ConvWeightSum sum = {.conv = &p->c, .x = s->x, .g = s->g, .tap = element, .mask = cg_mask(c, s->channels)};
  sum.prologue = s->prologue, sum.made = s->made;
  LLVMValueRef channel = split(c, &sum.tap, ir_conv_taps(&p->c));
  sum.channel = cg_add(c, cg_mul(c, s->group, cg_i64(c, p->c_group)), channel);
  sum.o = cg_add(c, cg_mul(c, s->group, cg_i64(c, p->o_group)), s->o);
  cg_conv_weight_mend(c, &sum, row);
}

static void add_slices(const Square *s) {
  Cg *c = s->c;
  const Plan *p = s->p;
  int64_t slice = p->c.groups * p->sums;
  LLVMValueRef of_group = cg_at(c, c->f32, s->scratch, cg_add(c, cg_mul(c, s->group, cg_i64(c, p->sums)), s->o));
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), s->elements, cg_i64(c, 1), NULL, 0);
  LLVMValueRef row = row_of(s, cg_add(c, s->first, l.i));
  LLVMValueRef at = cg_at(c, c->f32, of_group, cg_mul(c, row, cg_i64(c, p->o_pad))), sum = cg_load(c, c->vf, at);
  for (int64_t k = 1; k < p->slices; k++)
    sum = LLVMBuildFAdd(c->b, sum, cg_load(c, c->vf, cg_at(c, c->f32, at, cg_i64(c, k * slice))), "");
  LLVMValueRef to = cg_at(c, c->f32, s->square, cg_mul(c, l.i, cg_i64(c, c->t->vl)));
  cg_store(c, sum, to);
  if (!p->in_registers) mend(s, cg_add(c, s->first, l.i), to);
  cg_loop_end(c, &l, NULL);
}

static void store_square(const Square *s) {
  Cg *c = s->c;
  const Plan *p = s->p;
  int64_t in_channel = p->c_group * ir_conv_taps(&p->c);
  LLVMValueRef vl = cg_i64(c, c->t->vl), stride = cg_i64(c, in_channel), mask = cg_mask(c, s->elements);
  LLVMValueRef to = cg_add(c, cg_mul(c, s->group, cg_i64(c, p->o_group)), s->o);
  to = cg_at(c, c->f32, s->out, cg_add(c, cg_mul(c, to, stride), s->first));
  cg_transpose_block(c, s->square, vl, s->elements, s->channels, s->turned, vl);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), s->channels, cg_i64(c, 1), NULL, 0);
  LLVMValueRef row = cg_load(c, c->vf, cg_at(c, c->f32, s->turned, cg_mul(c, l.i, vl)));
  cg_store_masked(c, row, cg_at(c, c->f32, to, cg_mul(c, l.i, stride)), mask);
  cg_loop_end(c, &l, NULL);
}

static void store_sums(Square *s) {
  Cg *c = s->c;
  const Plan *p = s->p;
  int64_t vl = c->t->vl, elements = p->c_group * ir_conv_taps(&p->c);
  int64_t across = cg_ceil_div(elements, vl), down = p->o_pad / vl;
  LLVMValueRef lo, hi, width = cg_i64(c, vl);
  cg_share(c, cg_i64(c, p->c.groups * down * across), 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef nth = l.i, o = split(c, &nth, across);
  s->group = split(c, &o, down);
  s->first = cg_mul(c, nth, width), s->o = cg_mul(c, o, width);
  s->elements = cg_min(c, width, cg_sub(c, cg_i64(c, elements), s->first));
  s->channels = cg_min(c, width, cg_sub(c, cg_i64(c, p->o_group), s->o));
  add_slices(s);
  store_square(s);
  cg_loop_end(c, &l, NULL);
}

bool cg_emit_conv_weight(Cg *c) {
  Val v = ir_anchor(c->f, c->k);
  Plan p = plan_of(c->f, v, c->t);
  LLVMValueRef null = LLVMConstNull(c->ptr);
  if (p.sums == 0) return true;
  LLVMValueRef x = cg_stored(c, ir_arg(c->f, v, 0)) ? cg_ptr(c, ir_arg(c->f, v, 0)) : null;
  LLVMValueRef g = cg_stored(c, ir_arg(c->f, v, 1)) ? cg_ptr(c, ir_arg(c->f, v, 1)) : null;
  if (cg_conv_weight_is_depthwise(c->f, v, c->t)) {
    cg_depthwise_weight_emit(c, x, g);
    return true;
  }
  RowStrip *prologue = p.made ? cg_prologue_new(c) : NULL;
  if (p.made && !prologue) return false;
  WinogradPlan winograd;
  if (cg_winograd_weight_plan(c->f, v, c->t, &winograd)) {
    cg_winograd_weight_emit(c, x, g, prologue);
    return true;
  }
  Square s = {.c = c, .p = &p, .scratch = c->scratch, .x = x, .g = g, .prologue = prologue};
  int64_t square = (int64_t)c->t->vl * c->t->vl;
  Unit u = {.c = c, .p = &p, .x = x, .g = g, .prologue = prologue};
  if (p.made) s.made = cg_block(c, c->f32, c->t->vl);
  if (p.made || !p.in_registers) u.strip = cg_block(c, c->f32, p.cut.images * cg_strip_elements(&p.strip));
  s.square = cg_block(c, c->f32, square), s.turned = cg_block(c, c->f32, square);
  each_unit(&u, c->scratch);
  cg_wait_for_team(c);
  s.out = cg_ptr(c, v);
  store_sums(&s);
  return true;
}
