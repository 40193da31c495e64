// Class conv_weight of convolutions of groups of few channels, for each of the group's channels of the source:
// sums[tap, i, c] += strip[pixel * stride + tap, channel i of c's group] * g[pixel, c], by vectors of channels, with the sums
// of some taps in registers. Below, a tap is one of a channel i.
//
// The units of conv_bands.h are cut into slices, of which there are so many by bounds alone; a worker takes a slice and a
// block of channels. Slices have sums of their own, [slice][block][tap][channels, whole vectors], added in order.
#include "codegen/gemm/depthwise.h"

enum { MOST_SLICES = 8, SLICE_BYTES = 4 << 20, TAPS_AT_ONCE = 10, MOST_TAPS = 256 };

typedef struct {
  ConvShape s;
  Bands b;
  int64_t group;                        // channels of a group
  int64_t taps, block, blocks, padded;  // padded: a block in whole vectors
  int64_t slices;
} Plan;

static int64_t group_of(const Fn *f, Val v, const Target *t) {
  Conv c;
  ir_conv(f, v, &c);
  return cg_channels_in_lane_group(&c, t);
}

static Plan plan_of(const Fn *f, Val v, const Target *t) {
  Plan p = {0};
  Windows w;
  cg_depthwise_shape(f, v, &p.s);
  cg_conv_windows(&p.s, 0, &w);
  p.group = group_of(f, v, t), p.taps = ir_conv_taps(&p.s.c) * p.group;
  p.block = cg_conv_block(&p.s, t->vl, DEPTHWISE_COLUMNS, 1, t), p.blocks = p.s.src_channels / p.block;
  p.padded = cg_round_up(p.block, t->vl);
  p.b = cg_conv_bands(&p.s, &w, p.block, DEPTHWISE_COLUMNS, t);
  int64_t units = ir_dim_bound(f->prog, p.s.c.n) * p.b.units;
  int64_t fit = ir_f32_in(SLICE_BYTES) / cg_larger(1, p.blocks * p.taps * p.padded);
  p.slices = cg_larger(1, cg_smaller(cg_smaller(MOST_SLICES, units), fit));
  return p;
}

bool cg_depthwise_weight_fits(const Fn *f, Val v, const Target *t) {
  if (!group_of(f, v, t)) return false;
  Plan p = plan_of(f, v, t);
  return p.taps <= MOST_TAPS && p.block % p.group == 0;
}

int64_t cg_depthwise_weight_scratch_bytes(const Fn *f, Val v, const Target *t) {
  Plan p = plan_of(f, v, t);
  return cg_round_up(4 * p.slices * p.blocks * p.taps * p.padded, TN_ALIGN);
}

// ---- a unit
typedef struct {
  const Plan *p;
  ConvUnit u;
  LLVMValueRef g, strip, sums;  // sums: of the slice and block
  LLVMValueRef channel;         // the block's first
} Part;

// Where the window's tap number `tap` lies from its first, in the strip.
static int64_t tap_offset(const Plan *p, int64_t tap) {
  const StripShape *s = &p->b.strip;
  int64_t offset = 0, stride = s->channels;
  for (uint32_t k = CONV_AXES; k-- > 0;) {
    offset += tap % p->s.c.kernel[k] * p->s.c.dilation[k] * stride;
    tap /= p->s.c.kernel[k];
    stride *= k == 2 ? s->columns : s->rows;
  }
  return offset;
}

typedef struct {
  LLVMValueRef at, mask;  // the first channel in the block; of g, NULL: whole
  int64_t tap, n;
} Vector;

static void one_pixel(const Part *t, const Vector *v, LLVMValueRef x, LLVMValueRef g, LLVMValueRef *sum) {
  Cg *c = t->u.c;
  LLVMValueRef grad = v->mask ? cg_load_masked(c, c->vf, g, v->mask) : cg_load(c, c->vf, g);
  for (int64_t k = 0; k < v->n; k++) {
    int64_t tap = (v->tap + k) / t->p->group, nth = (v->tap + k) % t->p->group;
    LLVMValueRef some = cg_load(c, c->vf, cg_at(c, c->f32, x, cg_i64(c, tap_offset(t->p, tap))));
    sum[k] = cg_fma(c, cg_spread_lanes(c, some, t->p->group, nth), grad, sum[k]);
  }
}

// Some taps of a vector of channels, over all pixels of the unit.
static void some_taps(const Part *t, const Vector *v) {
  Cg *c = t->u.c;
  const Plan *p = t->p;
  int64_t channels = p->s.src_channels, row = p->b.strip.columns * p->block;
  LLVMValueRef sum[TAPS_AT_ONCE], zero = cg_i64(c, 0);
  LLVMValueRef sums = cg_at(c, c->f32, t->sums, cg_add(c, v->at, cg_i64(c, v->tap * p->padded)));
  for (int64_t k = 0; k < v->n; k++) sum[k] = cg_load(c, c->vf, cg_at(c, c->f32, sums, cg_i64(c, k * p->padded)));
  Loop i, j;
  cg_sums_begin(c, &i, zero, t->u.rows, sum, (uint32_t)v->n);
  LLVMValueRef first = cg_mul(c, cg_conv_pixel(&t->u, i.i, zero), cg_i64(c, channels));
  LLVMValueRef g = cg_at(c, c->f32, t->g, cg_add(c, first, cg_add(c, t->channel, v->at)));
  LLVMValueRef x = cg_mul(c, i.i, cg_i64(c, p->s.c.stride[1] * row));
  x = cg_at(c, c->f32, t->strip, cg_add(c, x, v->at));
  cg_sums_begin(c, &j, zero, t->u.columns, sum, (uint32_t)v->n);
  one_pixel(t, v, cg_at(c, c->f32, x, cg_mul(c, j.i, cg_i64(c, p->s.c.stride[2] * p->block))),
            cg_at(c, c->f32, g, cg_mul(c, j.i, cg_i64(c, channels))), sum);
  cg_sums_end(c, &j, sum);
  cg_sums_end(c, &i, sum);
  for (int64_t k = 0; k < v->n; k++) cg_store(c, sum[k], cg_at(c, c->f32, sums, cg_i64(c, k * p->padded)));
}

static void all_taps(const Part *t, LLVMValueRef at, LLVMValueRef mask) {
  int64_t parts = cg_ceil_div(t->p->taps, TAPS_AT_ONCE);
  for (int64_t k = 0; k < parts; k++) {
    int64_t first = k * t->p->taps / parts, end = (k + 1) * t->p->taps / parts;
    some_taps(t, &(Vector){at, mask, first, end - first});
  }
}

static void each_vector(const Part *t) {
  Cg *c = t->u.c;
  int64_t vl = c->t->vl, block = t->p->block, whole = block / vl * vl;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, whole), cg_i64(c, vl), NULL, 0);
  all_taps(t, l.i, NULL);
  cg_loop_end(c, &l, NULL);
  if (block > whole) all_taps(t, cg_i64(c, whole), cg_mask(c, cg_i64(c, block - whole)));
}

// Slices and blocks, shared by the team.
static void each_part(Part *t, LLVMValueRef x, LLVMValueRef scratch) {
  Cg *c = t->u.c;
  const Plan *p = t->p;
  LLVMValueRef lo, hi, size = cg_i64(c, p->taps * p->padded), slices = cg_i64(c, p->slices), one = cg_i64(c, 1);
  LLVMValueRef units = cg_mul(c, cg_dim(c, p->s.c.n), cg_i64(c, p->b.units));
  cg_share(c, cg_i64(c, p->slices * p->blocks), 1, &lo, &hi);
  ConvUnit all = t->u;
  Loop part, unit;
  cg_loop_begin(c, &part, lo, hi, one, NULL, 0);
  LLVMValueRef slice = cg_div(c, part.i, cg_i64(c, p->blocks));
  t->channel = cg_mul(c, cg_gemm_rem(c, part.i, cg_i64(c, p->blocks)), cg_i64(c, p->block));
  t->sums = cg_at(c, c->f32, scratch, cg_mul(c, part.i, size));
  cg_conv_clear(c, t->sums, size);
  LLVMValueRef begin = cg_div(c, cg_mul(c, slice, units), slices);
  LLVMValueRef end = cg_div(c, cg_mul(c, cg_add(c, slice, one), units), slices);
  if (p->b.units) {
    cg_loop_begin(c, &unit, begin, end, one, NULL, 0);
    t->u = cg_conv_unit(&all, unit.i);
    cg_conv_fill(&t->u, x, t->channel, t->strip);
    each_vector(t);
    cg_loop_end(c, &unit, NULL);
  }
  cg_loop_end(c, &part, NULL);
}

// ---- the sums of all slices, as weights [C, C / groups, taps]
static void store_sums(Cg *c, const Plan *p, LLVMValueRef scratch, LLVMValueRef out) {
  int64_t slice = p->blocks * p->taps * p->padded;
  LLVMValueRef lo, hi, taps = cg_i64(c, p->taps), group = cg_i64(c, p->group);
  Loop row, l;
  cg_share(c, cg_i64(c, p->blocks * p->taps), 1, &lo, &hi);
  cg_loop_begin(c, &row, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef from = cg_at(c, c->f32, scratch, cg_mul(c, row.i, cg_i64(c, p->padded)));
  LLVMValueRef first = cg_mul(c, cg_div(c, row.i, taps), cg_i64(c, p->block)), tap = cg_gemm_rem(c, row.i, taps);
  tap = cg_add(c, cg_mul(c, cg_gemm_rem(c, tap, group), cg_i64(c, p->taps / p->group)), cg_div(c, tap, group));
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, p->block), cg_i64(c, 1), NULL, 0);
  LLVMValueRef sum = cg_load(c, c->f32, cg_at(c, c->f32, from, l.i));
  for (int64_t k = 1; k < p->slices; k++) {
    LLVMValueRef at = cg_at(c, c->f32, from, cg_add(c, l.i, cg_i64(c, k * slice)));
    sum = LLVMBuildFAdd(c->b, sum, cg_load(c, c->f32, at), "");
  }
  cg_store(c, sum, cg_at(c, c->f32, out, cg_add(c, cg_mul(c, cg_add(c, first, l.i), taps), tap)));
  cg_loop_end(c, &l, NULL);
  cg_loop_end(c, &row, NULL);
}

void cg_depthwise_weight_emit(Cg *c, LLVMValueRef x, LLVMValueRef g) {
  Val v = {c->k->first};
  Plan p = plan_of(c->f, v, c->t);
  Part t = {.p = &p, .u = {.c = c, .s = &p.s, .b = &p.b}, .g = g};
  t.strip = cg_block(c, c->f32, cg_strip_elements(&p.b.strip) + c->t->vl);  // the last vector may read further
  each_part(&t, x, c->scratch);
  cg_wait_for_team(c);
  store_sums(c, &p, c->scratch, cg_ptr(c, v));
}
