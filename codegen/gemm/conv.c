// Strategy conv of products (gemm.h): convolutions and transposed convolutions, directly.
//
// A unit of work is a band of rows of one plane of one image, of one group of channels: the part of the source that its
// windows read is copied into a padded strip on the stack. There a window is, for each of its rows, a stretch of
// neighbours, so that the microkernel reads it in place:
//
//   A[pixel][k] = strip + pixel * src_step * channels + k,  B = a panel of packed weights
//
// A large source is cut into blocks of channels, a long row into blocks of columns, so that the strip stays in L2.
#include "codegen/gemm/conv_windows.h"

enum { MOST_ROWS = 16, STRIP_BYTES = 64 << 10, L2_PART = 4, FEW_COLUMNS = 16 };

// What is decided for one phase, by constants alone.
typedef struct {
  Windows w;
  int64_t band, columns;  // of the result in a unit
  StripShape strip;
  int64_t units;  // of an image and a group
} Bands;

static int64_t strip_bytes(const Windows *w, int64_t band, int64_t columns, int64_t channels) {
  return 4 * channels * cg_conv_span(&w->axis[0], 1) * cg_conv_span(&w->axis[1], band) *
         cg_conv_span(&w->axis[2], columns);
}

static int64_t strip_limit(const Target *t) { return cg_smaller(STRIP_BYTES, t->facts.l2_bytes / L2_PART); }

// Equal blocks of channels, so few that a strip of few pixels fits.
static int64_t block_of(const ConvShape *s, const Target *t) {
  for (int64_t blocks = 1; blocks < s->src_channels; blocks++) {
    if (s->src_channels % blocks) continue;
    bool fits = true;
    for (uint32_t k = 0; k < s->n_windows; k++) {
      Windows w;
      cg_conv_windows(s, k, &w);
      int64_t columns = cg_smaller(FEW_COLUMNS, w.axis[2].count);
      fits &= strip_bytes(&w, 1, cg_larger(1, columns), s->src_channels / blocks) <= strip_limit(t);
    }
    if (fits) return s->src_channels / blocks;
  }
  return 1;
}

static Bands bands_of(const ConvShape *s, uint32_t nth, int64_t block, const Target *t) {
  Bands b = {.band = 1};
  cg_conv_windows(s, nth, &b.w);
  const Phase *p = b.w.axis;
  int64_t limit = strip_limit(t), parts = 1;
  b.columns = cg_larger(1, p[2].count);
  while (b.columns > FEW_COLUMNS && strip_bytes(&b.w, 1, b.columns, block) > limit)
    b.columns = cg_ceil_div(p[2].count, ++parts);
  while (b.band < p[1].count && strip_bytes(&b.w, b.band + 1, b.columns, block) <= limit) b.band++;
  if (p[1].count) b.band = cg_ceil_div(p[1].count, cg_ceil_div(p[1].count, b.band));  // about equal
  b.strip = (StripShape){.planes = cg_conv_span(&p[0], 1),
                         .rows = cg_conv_span(&p[1], b.band),
                         .columns = cg_conv_span(&p[2], b.columns),
                         .channels = block,
                         .size = {s->src[0], s->src[1], s->src[2]},
                         .pixel = s->src_channels * s->c.groups};
  b.units = p[0].count * cg_ceil_div(p[1].count, b.band) * cg_ceil_div(p[2].count, b.columns);
  return b;
}

// ---- the plan
bool cg_gemm_conv_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  (void)f, (void)t;
  return p->is_conv;
}

void cg_gemm_conv_plan(const Fn *f, GemmPlan *p, const Target *t) {
  ConvShape s;
  cg_conv_shape(f, p->product, &s);
  p->nv = (uint32_t)cg_larger(1, cg_smaller(t->gemm_nv, cg_ceil_div(s.dst_channels, t->vl)));
  p->width = (int64_t)p->nv * t->vl;
  p->mr = (uint32_t)cg_smaller(MOST_ROWS, t->gemm_mr * t->gemm_nv / p->nv);
  p->kc = block_of(&s, t);
  p->pack_b = B_BY_STRATEGY;
  p->b_elements = s.c.groups * cg_ceil_div(s.dst_channels, p->width) * s.rows * p->width;
  p->strip_rows = 0;
  for (uint32_t k = 0; k < s.n_windows; k++) {
    Bands b = bands_of(&s, k, p->kc, t);
    p->strip_rows = cg_larger(p->strip_rows, b.band * b.columns);
    p->mc = cg_larger(p->mc, cg_strip_elements(&b.strip));
    p->units += b.units;
  }
}

void cg_gemm_conv_stack(Gemm *g) {
  const GemmPlan *p = g->p;
  g->a_block = cg_gemm_on_stack(g->c, p->mc);
  if (p->epilogue) g->strip = cg_gemm_on_stack(g->c, p->strip_rows * p->width);
}

// ---- a unit
typedef struct {
  Gemm *g;
  const ConvShape *s;
  const Bands *b;
  LLVMValueRef image, group;
  LLVMValueRef plane, row, column;  // of the phase, in the order of its elements
  LLVMValueRef rows, columns;       // that there are
} Unit;

static LLVMValueRef rem(Cg *c, LLVMValueRef n, int64_t d) {
  return cg_sub(c, n, cg_mul(c, cg_div(c, n, cg_i64(c, d)), cg_i64(c, d)));
}

static void fill(const Unit *u, LLVMValueRef block) {
  Cg *c = u->g->c;
  const ConvShape *s = u->s;
  const Phase *p = u->b->w.axis;
  LLVMValueRef begin[CONV_AXES] = {u->plane, u->row, u->column};
  for (uint32_t k = 0; k < CONV_AXES; k++)
    begin[k] = cg_add(c, cg_mul(c, begin[k], cg_i64(c, p[k].src_step)), cg_i64(c, p[k].offset));
  int64_t image = s->src[0] * s->src[1] * s->src[2] * s->src_channels * s->c.groups;
  LLVMValueRef at = cg_add(c, cg_mul(c, u->image, cg_i64(c, image)), cg_mul(c, u->group, cg_i64(c, s->src_channels)));
  at = cg_add(c, at, cg_mul(c, block, cg_i64(c, u->g->p->kc)));
  cg_conv_fill_strip(c, &u->b->strip, cg_at(c, c->f32, u->g->a, at), begin, u->g->a_block);
}

// Number of the result's pixel at row i, column j of the band.
static LLVMValueRef pixel_of(const Unit *u, LLVMValueRef i, LLVMValueRef j) {
  Cg *c = u->g->c;
  const Phase *p = u->b->w.axis;
  LLVMValueRef at[CONV_AXES] = {u->plane, cg_add(c, u->row, i), cg_add(c, u->column, j)}, pixel = u->image;
  for (uint32_t k = 0; k < CONV_AXES; k++) {
    at[k] = cg_add(c, cg_mul(c, at[k], cg_i64(c, p[k].step)), cg_i64(c, p[k].first));
    pixel = cg_add(c, cg_mul(c, pixel, cg_i64(c, u->s->dst[k])), at[k]);
  }
  return pixel;
}

typedef struct {
  LLVMValueRef n0, columns;  // of the group's channels
  LLVMValueRef weights;
  uint32_t nv;
  int64_t masked;  // columns of the last vector; 0: all
} Panel;

// Stretches of k: those of the windows' rows where their columns are neighbours; else those of their columns.
typedef struct {
  int64_t k, n, a, b;  // elements of each; how many; from one to the next
  int64_t outer;       // calls of the microkernel, for the axes before
} Stretches;

static Stretches stretches_of(const Unit *u) {
  const Phase *p = u->b->w.axis;
  const StripShape *s = &u->b->strip;
  int64_t channels = s->channels, width = u->g->p->width, row = s->columns * channels;
  bool near = p[2].n_taps <= 1 || p[2].gap == 1;
  if (near)
    return (Stretches){p[2].n_taps * channels, p[1].n_taps, p[1].gap * row, p[2].n_taps * channels * width,
                       p[0].n_taps};
  return (Stretches){channels, p[2].n_taps, p[2].gap * channels, channels * width, p[0].n_taps * p[1].n_taps};
}

// Where the windows' row number `nth` of `outer` begins in the strip.
static int64_t outer_offset(const Unit *u, const Stretches *x, int64_t nth) {
  const Phase *p = u->b->w.axis;
  const StripShape *s = &u->b->strip;
  int64_t row = s->columns * s->channels, inner = x->outer == p[0].n_taps ? 1 : p[1].n_taps;
  bool by_planes = inner == 1;
  return nth / inner * p[0].gap * s->rows * row + (by_planes ? 0 : nth % inner * p[1].gap * row);
}

static void row_of_pixels(const Unit *u, const Panel *n, LLVMValueRef i, LLVMValueRef to, int64_t c_row, bool adds) {
  Gemm *g = u->g;
  Cg *c = g->c;
  const Phase *p = u->b->w.axis;
  const StripShape *s = &u->b->strip;
  Stretches x = stretches_of(u);
  int64_t a_row = p[2].src_step * s->channels;
  uint32_t mr = cg_tile_height(u->b->columns, g->p->mr);
  for (int64_t nth = 0; nth < cg_larger(1, x.outer); nth++) {
    TileSpec spec = {.mr = mr,
                     .nv = n->nv,
                     .a_row = a_row,
                     .a_k = 1,
                     .b_k = g->p->width,
                     .b_vec = c->t->vl,
                     .c_row = c_row,
                     .c_vec = c->t->vl,
                     .more = adds || nth > 0,
                     .stretched = true,
                     .mask_from = n->masked ? n->nv - 1 : n->nv,
                     .mask_step = c->t->vl,
                     .mask_c = true};
    int64_t k = x.outer ? x.k : 0;
    LLVMValueRef row = cg_mul(c, i, cg_i64(c, p[1].src_step * s->columns * s->channels));
    TileArgs args = {.a = cg_at(c, c->f32, g->a_block, cg_add(c, row, cg_i64(c, outer_offset(u, &x, nth)))),
                     .b = cg_at(c, c->f32, n->weights, cg_i64(c, nth * x.n * x.k * g->p->width)),
                     .c = to,
                     .k = cg_i64(c, k),
                     .n = n->columns,
                     .stretches = cg_i64(c, k ? x.n : 0),
                     .a_stretch = cg_i64(c, x.a),
                     .b_stretch = cg_i64(c, x.b)};
    int64_t left = p[2].count % u->b->columns ? TILE_DYN : u->b->columns % mr;
    TileRows rows = {.rows = u->columns, .left = left, .a_block = cg_i64(c, a_row * mr)};
    cg_tile_rows(c, &spec, &args, &rows);
  }
}

static LLVMValueRef channel_of(const Unit *u, const Panel *n) {
  Cg *c = u->g->c;
  return cg_add(c, cg_mul(c, u->group, cg_i64(c, u->s->dst_channels)), n->n0);
}

// Pixels of the result that follow one another are rows of the epilogue.
static void epilogue(const Unit *u, const Panel *n, LLVMValueRef i, LLVMValueRef sums) {
  Gemm *g = u->g;
  Cg *c = g->c;
  LLVMValueRef width = cg_i64(c, g->p->width), one = cg_i64(c, 1), zero = cg_i64(c, 0), n0 = channel_of(u, n);
  if (u->b->w.axis[2].step == 1) {
    cg_gemm_epilogue(g, pixel_of(u, i, zero), u->columns, n0, n->columns, sums, width);
    return;
  }
  Loop l;
  cg_loop_begin(c, &l, zero, u->columns, one, NULL, 0);
  cg_gemm_epilogue(g, pixel_of(u, i, l.i), one, n0, n->columns, cg_at(c, c->f32, sums, cg_mul(c, l.i, width)), width);
  cg_loop_end(c, &l, NULL);
}

static void each_row(const Unit *u, const Panel *n, bool adds, bool ends) {
  Gemm *g = u->g;
  Cg *c = g->c;
  int64_t channels = u->s->dst_channels * u->s->c.groups, width = g->p->width;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), u->rows, cg_i64(c, 1), NULL, 0);
  if (g->epilogue) {
    LLVMValueRef sums = cg_at(c, c->f32, g->strip, cg_mul(c, l.i, cg_i64(c, u->b->columns * width)));
    row_of_pixels(u, n, l.i, sums, width, adds);
    if (ends) epilogue(u, n, l.i, sums);
  } else {
    LLVMValueRef at = cg_mul(c, pixel_of(u, l.i, cg_i64(c, 0)), cg_i64(c, channels));
    row_of_pixels(u, n, l.i, cg_at(c, c->f32, g->out, cg_add(c, at, channel_of(u, n))), u->b->w.axis[2].step * channels,
                  adds);
  }
  cg_loop_end(c, &l, NULL);
}

// With several blocks of channels every panel copies them again, and later ones add to the sums of the first.
static void panel(const Unit *u, Panel *n) {
  Gemm *g = u->g;
  Cg *c = g->c;
  int64_t blocks = u->s->src_channels / g->p->kc, rows = u->b->w.taps * g->p->kc;
  LLVMValueRef first = n->weights;
  if (blocks == 1) {
    each_row(u, n, false, true);
    return;
  }
  fill(u, cg_i64(c, 0));
  each_row(u, n, false, false);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 1), cg_i64(c, blocks - 1), cg_i64(c, 1), NULL, 0);
  fill(u, l.i);
  n->weights = cg_at(c, c->f32, first, cg_mul(c, l.i, cg_i64(c, rows * g->p->width)));
  each_row(u, n, true, false);
  cg_loop_end(c, &l, NULL);
  fill(u, cg_i64(c, blocks - 1));
  n->weights = cg_at(c, c->f32, first, cg_i64(c, (blocks - 1) * rows * g->p->width));
  each_row(u, n, true, true);
}

static void each_panel(const Unit *u) {
  Gemm *g = u->g;
  Cg *c = g->c;
  int64_t width = g->p->width, all = u->s->dst_channels, whole = all / width, left = all % width;
  int64_t panels = cg_ceil_div(all, width);
  LLVMValueRef per_panel = cg_i64(c, u->s->rows * width);
  LLVMValueRef weights = cg_at(c, c->f32, g->packed_b, cg_mul(c, u->group, cg_i64(c, panels * u->s->rows * width)));
  weights = cg_at(c, c->f32, weights, cg_i64(c, u->b->w.k0 * width));
  if (u->s->src_channels == g->p->kc) fill(u, cg_i64(c, 0));
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, whole), cg_i64(c, 1), NULL, 0);
  panel(u, &(Panel){.n0 = cg_mul(c, l.i, cg_i64(c, width)),
                    .columns = cg_i64(c, width),
                    .weights = cg_at(c, c->f32, weights, cg_mul(c, l.i, per_panel)),
                    .nv = g->p->nv});
  cg_loop_end(c, &l, NULL);
  if (!left) return;
  panel(u, &(Panel){.n0 = cg_i64(c, whole * width),
                    .columns = cg_i64(c, left),
                    .weights = cg_at(c, c->f32, weights, cg_mul(c, cg_i64(c, whole), per_panel)),
                    .nv = (uint32_t)cg_ceil_div(left, c->t->vl),
                    .masked = left % c->t->vl});
}

// Units of a phase: images, groups, planes, bands, blocks of columns.
static void each_unit(Gemm *g, const ConvShape *s, const Bands *b) {
  Cg *c = g->c;
  const Phase *p = b->w.axis;
  int64_t columns = cg_ceil_div(p[2].count, b->columns), bands = cg_ceil_div(p[1].count, b->band);
  if (b->units == 0) return;
  LLVMValueRef lo, hi, count = cg_mul(c, cg_dim(c, s->c.n), cg_i64(c, s->c.groups * b->units));
  cg_share(c, count, 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef rest = cg_div(c, l.i, cg_i64(c, columns));
  Unit u = {.g = g, .s = s, .b = b, .column = cg_mul(c, rem(c, l.i, columns), cg_i64(c, b->columns))};
  u.row = cg_mul(c, rem(c, rest, bands), cg_i64(c, b->band)), rest = cg_div(c, rest, cg_i64(c, bands));
  u.plane = rem(c, rest, p[0].count), rest = cg_div(c, rest, cg_i64(c, p[0].count));
  u.group = rem(c, rest, s->c.groups), u.image = cg_div(c, rest, cg_i64(c, s->c.groups));
  u.rows = cg_min(c, cg_i64(c, b->band), cg_sub(c, cg_i64(c, p[1].count), u.row));
  u.columns = cg_min(c, cg_i64(c, b->columns), cg_sub(c, cg_i64(c, p[2].count), u.column));
  if (columns == 1) u.columns = cg_i64(c, b->columns);
  if (p[1].count % b->band == 0) u.rows = cg_i64(c, b->band);
  each_panel(&u);
  cg_loop_end(c, &l, NULL);
}

void cg_gemm_conv_emit(Gemm *g) {
  Cg *c = g->c;
  ConvShape s;
  cg_conv_shape(c->f, g->p->product, &s);
  cg_conv_pack_weights(c, &s, g->p->width, g->p->kc, g->b, g->packed_b);
  cg_team_barrier(c, cg_i32(c, 0), c->n_workers);
  for (uint32_t k = 0; k < s.n_windows; k++) {
    Bands b = bands_of(&s, k, g->p->kc, c->t);
    each_unit(g, &s, &b);
  }
}
