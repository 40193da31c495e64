// Units of work of convolutions (conv_bands.h).
#include "codegen/gemm/conv_bands.h"

enum { STRIP_BYTES = 64 << 10, L2_PART = 4 };

// ---- sizes
static int64_t strip_bytes(const ConvShape *s, const Windows *w, int64_t band, int64_t columns, int64_t channels) {
  return 4 * channels * cg_conv_strip_span(s, &w->axis[0], 1) * cg_conv_strip_span(s, &w->axis[1], band) *
         cg_conv_strip_span(s, &w->axis[2], columns);
}

static int64_t strip_limit(const Target *t) { return cg_smaller(STRIP_BYTES, t->facts.l2_bytes / L2_PART); }

static bool block_fits(const ConvShape *s, int64_t block, int64_t few, int64_t pixels, const Target *t) {
  Windows w;
  for (uint32_t k = 0; k < s->n_windows; k++) {
    cg_conv_windows(s, k, &w);
    int64_t columns = cg_larger(1, cg_smaller(few, w.axis[2].count));
    int64_t rows = cg_larger(1, cg_smaller(cg_ceil_div(pixels, columns), w.axis[1].count));
    if (strip_bytes(s, &w, rows, columns, block) > strip_limit(t)) return false;
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

Bands cg_conv_bands(const ConvShape *s, const Windows *w, int64_t block, int64_t few, const Target *t) {
  Bands b = {.w = *w, .band = 1};
  const Phase *p = b.w.axis;
  int64_t limit = strip_limit(t), parts = 1;
  b.columns = cg_larger(1, p[2].count);
  while (b.columns > few && strip_bytes(s, &b.w, 1, b.columns, block) > limit)
    b.columns = cg_ceil_div(p[2].count, ++parts);
  while (b.band < p[1].count && strip_bytes(s, &b.w, b.band + 1, b.columns, block) <= limit) b.band++;
  if (p[1].count) b.band = cg_ceil_div(p[1].count, cg_ceil_div(p[1].count, b.band));  // about equal
  b.strip =
      (StripShape){.planes = cg_conv_strip_span(s, &p[0], 1),
                   .rows = cg_conv_strip_span(s, &p[1], b.band),
                   .columns = cg_conv_strip_span(s, &p[2], b.columns),
                   .channels = block,
                   .step = {cg_conv_strip_step(s, &p[0]), cg_conv_strip_step(s, &p[1]), cg_conv_strip_step(s, &p[2])},
                   .size = {s->src[0], s->src[1], s->src[2]},
                   .pixel = s->src_channels * s->c.groups};
  b.units = p[0].count * cg_ceil_div(p[1].count, b.band) * cg_ceil_div(p[2].count, b.columns);
  return b;
}

// ---- a unit
void cg_conv_fill(const ConvUnit *u, LLVMValueRef src, LLVMValueRef channel, LLVMValueRef strip) {
  Cg *c = u->c;
  const ConvShape *s = u->s;
  const Phase *p = u->b->w.axis;
  LLVMValueRef begin[CONV_AXES] = {u->plane, u->row, u->column};
  for (uint32_t k = 0; k < CONV_AXES; k++)
    begin[k] = cg_add(c, cg_mul(c, begin[k], cg_i64(c, p[k].src_step)), cg_i64(c, p[k].offset));
  int64_t image = s->src[0] * s->src[1] * s->src[2] * s->src_channels * s->c.groups;
  LLVMValueRef at = cg_add(c, cg_mul(c, u->image, cg_i64(c, image)), cg_mul(c, u->group, cg_i64(c, s->src_channels)));
  cg_conv_fill_strip(c, &u->b->strip, cg_at(c, c->f32, src, cg_add(c, at, channel)), begin, strip);
}

LLVMValueRef cg_conv_pixel(const ConvUnit *u, LLVMValueRef i, LLVMValueRef j) {
  Cg *c = u->c;
  const Phase *p = u->b->w.axis;
  LLVMValueRef at[CONV_AXES] = {u->plane, cg_add(c, u->row, i), cg_add(c, u->column, j)}, pixel = u->image;
  for (uint32_t k = 0; k < CONV_AXES; k++) {
    at[k] = cg_add(c, cg_mul(c, at[k], cg_i64(c, p[k].step)), cg_i64(c, p[k].first));
    pixel = cg_add(c, cg_mul(c, pixel, cg_i64(c, u->s->dst[k])), at[k]);
  }
  return pixel;
}

void cg_conv_epilogue(const ConvUnit *u, LLVMValueRef i, LLVMValueRef n0, LLVMValueRef n, LLVMValueRef sums) {
  Gemm *g = u->g;
  Cg *c = u->c;
  LLVMValueRef width = cg_i64(c, g->p->width), one = cg_i64(c, 1), zero = cg_i64(c, 0);
  if (u->b->w.axis[2].step == 1) {
    cg_gemm_epilogue(g, cg_conv_pixel(u, i, zero), u->columns, n0, n, sums, width);
    return;
  }
  Loop l;
  cg_loop_begin(c, &l, zero, u->columns, one, NULL, 0);
  cg_gemm_epilogue(g, cg_conv_pixel(u, i, l.i), one, n0, n, cg_at(c, c->f32, sums, cg_mul(c, l.i, width)), width);
  cg_loop_end(c, &l, NULL);
}

ConvUnit cg_conv_unit(const ConvUnit *of, LLVMValueRef number) {
  Cg *c = of->c;
  ConvUnit u = *of;
  const Bands *b = u.b;
  const Phase *p = b->w.axis;
  int64_t columns = cg_ceil_div(p[2].count, b->columns), bands = cg_ceil_div(p[1].count, b->band);
  LLVMValueRef rest = cg_div(c, number, cg_i64(c, columns));
  u.column = cg_mul(c, cg_gemm_rem(c, number, cg_i64(c, columns)), cg_i64(c, b->columns));
  u.row = cg_mul(c, cg_gemm_rem(c, rest, cg_i64(c, bands)), cg_i64(c, b->band)),
  rest = cg_div(c, rest, cg_i64(c, bands));
  u.plane = cg_gemm_rem(c, rest, cg_i64(c, p[0].count)), rest = cg_div(c, rest, cg_i64(c, p[0].count));
  u.group = cg_gemm_rem(c, rest, cg_i64(c, u.s->c.groups)), u.image = cg_div(c, rest, cg_i64(c, u.s->c.groups));
  u.rows = cg_min(c, cg_i64(c, b->band), cg_sub(c, cg_i64(c, p[1].count), u.row));
  u.columns = cg_min(c, cg_i64(c, b->columns), cg_sub(c, cg_i64(c, p[2].count), u.column));
  if (columns == 1) u.columns = cg_i64(c, b->columns);
  if (p[1].count % b->band == 0) u.rows = cg_i64(c, b->band);
  return u;
}

void cg_conv_each_unit(const ConvUnit *of, void (*emit)(const ConvUnit *u)) {
  Cg *c = of->c;
  if (of->b->units == 0) return;
  LLVMValueRef lo, hi, count = cg_mul(c, cg_dim(c, of->s->c.n), cg_i64(c, of->s->c.groups * of->b->units));
  bool whole = of->parts <= 1;
  cg_share(c, whole ? count : cg_mul(c, count, cg_i64(c, of->parts)), 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  ConvUnit u = cg_conv_unit(of, whole ? l.i : cg_gemm_rem(c, l.i, count));
  u.part = whole ? cg_i64(c, 0) : cg_div(c, l.i, count);
  emit(&u);
  cg_loop_end(c, &l, NULL);
}
