// Sums of windows that reach over the border of an image (bands.h).
//
// Strips have zeros outside the image, because windows are segments there. Zero times an infinite or NaN weight is NaN, but a
// tap outside is no part of the sum. So a sum at the border that is not NaN is right. One that is NaN is recomputed from the
// image, with the taps inside alone and in the same order. Finite numbers cost a look at the border's sums while they are in L1.
#include "codegen/conv/bands.h"
#include "codegen/pointwise/prologue_epilogue.h"

// Pixels of the row whose windows may reach outside: all, or those below `lo` and, after `skip` pixels, the
// rest.
typedef struct {
  V n, lo, skip;
  Inside taps[2];   // planes and rows
  V at[CONV_AXES];  // where the windows of the row's first pixel meet the source
} Border;

static Border border_of(const ConvUnit *u, V i) {
  Cg *c = u->c;
  const Phase *p = u->b->w.axis;
  Border b;
  Inside in;
  V zero = cg_i64(c, 0), all = LLVMConstInt(LLVMInt1TypeInContext(c->ctx), 0, false);
  b.at[0] = cg_conv_taps_inside(u, 0, u->plane, &b.taps[0]);
  b.at[1] = cg_conv_taps_inside(u, 1, cg_add(c, u->row, i), &b.taps[1]);
  b.at[2] = cg_conv_taps_inside(u, 2, u->column, &in);
  if (cg_unit_reaches_out(u, 0)) {
    V inside = cg_sub(c, b.taps[0].hi, b.taps[0].lo);
    all = cg_lt(c, inside, cg_i64(c, p[0].n_taps));
  }
  in = cg_inside(c, b.at[2], p[2].src_step, cg_conv_reach(&p[2]), cg_dim(c, u->s->src_dim[2]), u->columns);
  b.lo = in.lo;
  b.skip = cg_select(c, all, zero, cg_max(c, zero, cg_sub(c, in.hi, in.lo)));
  b.n = cg_sub(c, u->columns, b.skip);
  return b;
}

static V pixel_of(Cg *c, const Border *b, V nth) {
  V is_left = cg_lt(c, nth, b->lo);
  return cg_select(c, is_left, nth, cg_add(c, nth, b->skip));
}

static V mask_of(Cg *c, const ConvSums *s, uint32_t j) {
  bool masked = s->masked && j + 1 == s->nv;
  return masked ? cg_mask(c, cg_sub(c, s->columns, cg_i64(c, j * c->t->vl))) : NULL;
}

// Is a sum of these pixels NaN? Infinite terms of both signs give NaN as well; recomputing such a sum gives NaN again.
static V some_nan(Cg *c, const Border *b, const ConvSums *s) {
  V sum = cg_splat(c, cg_f32(c, 0));
  for (Loop l = cg_carry(c, cg_i64(c, 0), b->n, cg_i64(c, 1), &sum, 1); cg_next(&l);) {
    V at = cg_row(c, s->sums, pixel_of(c, b, l.i), cg_i64(c, s->pixel));
    for (uint32_t j = 0; j < s->nv; j++)
      sum = cg_fadd(c, sum, cg_get_masked(c, c->vf, at, cg_i64(c, j * c->t->vl), mask_of(c, s, j)));
  }
  return cg_any_lane(c, cg_nan_lanes(c, sum));
}

static void clear(Cg *c, const ConvSums *s, V at) {
  for (uint32_t j = 0; j < s->nv; j++)
    cg_put_masked(c, cg_splat(c, cg_f32(c, 0)), at, cg_i64(c, j * c->t->vl), mask_of(c, s, j));
}

// One tap, in one block of channels: a tile of one row.
static void add_tap(const ConvUnit *u, const ConvSums *s, V x, V tap, V to) {
  Cg *c = u->c;
  const GemmPlan *p = u->g->p;
  int64_t vl = c->t->vl;
  TileSpec spec = {.mr = 1,
                   .nv = s->nv,
                   .a_k = 1,
                   .b_k = p->width,
                   .b_vec = vl,
                   .c_vec = vl,
                   .accumulate = true,
                   .mask_from = s->masked ? s->nv - 1 : s->nv,
                   .mask_step = vl,
                   .mask_c = true};
  cg_tile_sum_in_parts(&spec, c->t, u->b->w.taps * u->s->src_channels, p->kc, 1);
  cg_tile_call(c, &spec,
               &(TileArgs){.a = x,
                           .b = cg_row(c, s->weights, tap, cg_i64(c, p->kc * p->width)),
                           .c = to,
                           .k = cg_i64(c, p->kc),
                           .n = s->columns});
}

// A pixel of the source, from a channel on; a pixel made by a prologue is stored after the strip.
static V pixel_at(const ConvUnit *u, V number, V channel) {
  Gemm *g = u->g;
  Cg *c = u->c;
  V pixel = cg_i64(c, u->s->src_channels * u->s->c.groups);
  if (!g->prologue) return cg_at(c, c->f32, g->a, cg_add(c, cg_mul(c, number, pixel), channel));
  V to = cg_at(c, c->f32, g->a_block, cg_i64(c, g->p->mc));
  cg_prologue_row(g->prologue, number, channel, cg_add(c, channel, cg_i64(c, g->p->kc)), to);
  return to;
}

// Pixel j of the row: blocks of channels, planes, rows and columns of taps.
static void sum_pixel(const ConvUnit *u, const ConvSums *s, const Border *b, V j) {
  Cg *c = u->c;
  const Phase *p = u->b->w.axis;
  int64_t block = u->g->p->kc;
  Inside in[CONV_AXES] = {b->taps[0], b->taps[1]};
  V image = u->image, at[CONV_AXES] = {b->at[0], b->at[1]};
  at[2] = cg_conv_taps_inside(u, 2, cg_add(c, u->column, j), &in[2]);
  V to = cg_row(c, s->sums, j, cg_i64(c, s->pixel));
  clear(c, s, to);
  Loop axis[CONV_AXES];
  for (Loop l = cg_count(c, cg_i64(c, u->s->src_channels / block)); cg_next(&l);) {
    V tap = l.i;
    for (uint32_t k = 0; k < CONV_AXES; k++) {
      axis[k] = cg_each(c, in[k].lo, in[k].hi), cg_next(&axis[k]);
      tap = cg_add(c, cg_times(c, tap, p[k].n_taps), axis[k].i);
      V place = cg_add(c, at[k], cg_times(c, axis[k].i, p[k].gap));
      image = cg_add(c, cg_mul(c, image, cg_dim(c, u->s->src_dim[k])), place);
    }
    V channel = cg_add(c, cg_times(c, u->group, u->s->src_channels), cg_times(c, l.i, block));
    V x = pixel_at(u, image, channel);
    add_tap(u, s, x, tap, to);
    for (uint32_t k = CONV_AXES; k-- > 0;) cg_next(&axis[k]);
  }
}

void cg_conv_mend_border(const ConvUnit *u, const ConvSums *s, V i) {
  Cg *c = u->c;
  if (!u->b->w.taps || !(cg_unit_reaches_out(u, 0) || cg_unit_reaches_out(u, 2))) return;
  Border b = border_of(u, i);
  for (If spoilt = cg_when(c, some_nan(c, &b, s)); cg_then(&spoilt);) {
    for (Loop l = cg_count(c, b.n); cg_next(&l);) sum_pixel(u, s, &b, pixel_of(c, &b, l.i));
  }
}
