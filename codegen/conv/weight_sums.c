// Sums of a weight's gradient (windows.h): slices are added in order, sums that padding zeros made NaN are
// recomputed, and blocks of vl x vl are transposed and stored.
//
// Strips of x have zeros outside the image. Times an infinite or NaN element of g they give NaN, though such
// a pair is no part of the sum. A sum that is NaN is recomputed from the pixels of g whose tap lies inside,
// image by image:
//
//   sum[o] = sum over pixels of x[pixel * stride + tap] * g[pixel, o]      (a vector of o)
//
// Taps that lie inside for all pixels need no repair.
#include "codegen/conv/windows.h"
#include "codegen/pointwise/prologue_epilogue.h"

V cg_sum_slices(Cg *c, V at, int64_t n, int64_t stride) {
  V sum = cg_load(c, c->vf, at);
  for (int64_t k = 1; k < n; k++) sum = cg_fadd(c, sum, cg_get(c, c->vf, at, cg_i64(c, k * stride)));
  return sum;
}

// A block of vl x vl sums: elements of the weight, [channel of x][tap], by channels of g.
typedef struct {
  Cg *c;
  const WeightSums *s;
  V square, transposed, pixel;  // on the stack: [element][channel of g]; [channel][element]; a channel of x
  V group, first, o;            // the first element, and the first channel of g
  V elements, channels;
} Square;

// ---- sums that padding zeros made NaN
// in: the elements of g along an axis whose tap lies inside x; at: where the tap reads x for element 0 of g
typedef struct {
  V at;
  Inside in;
} Axis;

static Axis axis_of(const Square *q, uint32_t k, V tap) {
  Cg *c = q->c;
  const ConvShape *s = q->s->shape;
  const Phase *p = &q->s->axis[k];
  V at = cg_add(c, cg_times(c, tap, p->gap), cg_i64(c, p->offset));
  return (Axis){at, cg_inside(c, at, p->src_step, 1, cg_dim(c, s->src_dim[k]), cg_dim(c, s->dst_dim[k]))};
}

static bool reaches_out(const Square *q, uint32_t k) {
  return cg_conv_reaches_out(q->c->f, q->s->shape, &q->s->axis[k], k);
}

// Recomputes the sums of one channel of x over all images and pixels; stops once all lanes of `wanted` are NaN again.
static V recompute_sums(const Square *q, V channel, const Axis *a, V wanted, V mask) {
  Cg *c = q->c;
  const WeightSums *s = q->s;
  const Conv *v = &s->shape->c;
  V one = cg_i64(c, 1), sum = cg_splat(c, cg_f32(c, 0));
  for (Loop image = cg_carry(c, cg_i64(c, 0), cg_dim(c, v->n), one, &sum, 1); cg_next(&image);) {
    Loop axis[CONV_AXES];
    V x = image.i, g = image.i;
    V open = cg_and(c, wanted, cg_not(c, cg_nan_lanes(c, sum)));
    V planes = cg_select(c, cg_any_lane(c, open), a[0].in.hi, a[0].in.lo);
    for (uint32_t k = 0; k < CONV_AXES; k++) {
      axis[k] = cg_carry(c, a[k].in.lo, k ? a[k].in.hi : planes, one, &sum, 1), cg_next(&axis[k]);
      V at = cg_add(c, cg_times(c, axis[k].i, v->stride[k]), a[k].at);
      x = cg_add(c, cg_mul(c, x, cg_dim(c, v->in_dim[k])), at);
      g = cg_add(c, cg_mul(c, g, cg_dim(c, v->out_dim[k])), axis[k].i);
    }
    V of_x = cg_add(c, cg_times(c, q->group, s->channels), channel);
    if (s->prologue) cg_prologue_row(s->prologue, x, of_x, cg_add(c, of_x, one), q->pixel);
    x = s->prologue ? q->pixel : cg_at(c, c->f32, s->x, cg_add(c, cg_times(c, x, v->c), of_x));
    V o = cg_add(c, cg_times(c, q->group, s->o), q->o);
    g = cg_at(c, c->f32, s->g, cg_add(c, cg_times(c, g, v->o), o));
    sum = cg_fma(c, cg_splat(c, cg_load(c, c->f32, x)), cg_load_masked(c, c->vf, g, mask), sum);
    for (uint32_t k = CONV_AXES; k-- > 0;) cg_next(&axis[k]);
  }
  return sum;
}

// Recomputes the NaN in the vector of sums at `at` on the stack, which belong to one tap and channel of x.
static void repair_nan(const Square *q, V channel, V tap, V at) {
  Cg *c = q->c;
  const Conv *v = &q->s->shape->c;
  V some = LLVMConstInt(LLVMInt1TypeInContext(c->ctx), 0, false), mask = cg_mask(c, q->channels);
  Axis a[CONV_AXES];
  if (!reaches_out(q, 0) && !reaches_out(q, 2)) return;  // rows outside are left out
  for (uint32_t k = CONV_AXES; k-- > 0; tap = cg_div(c, tap, cg_i64(c, v->kernel[k]))) {
    a[k] = axis_of(q, k, cg_rem(c, tap, cg_i64(c, v->kernel[k])));
    if (k == 1) continue;
    V n = cg_sub(c, a[k].in.hi, a[k].in.lo);
    some = cg_or(c, some, cg_lt(c, n, cg_dim(c, v->out_dim[k])));
  }
  V sums = cg_load_masked(c, c->vf, at, mask), is_nan = cg_nan_lanes(c, sums);
  for (If spoilt = cg_when(c, cg_and(c, some, cg_any_lane(c, is_nan))); cg_then(&spoilt);) {
    V again = recompute_sums(q, channel, a, is_nan, mask);
    cg_store_masked(c, cg_select(c, is_nan, again, sums), at, mask);
  }
}

// ---- all sums
static V row_of_sums(const Square *q, V channel, V tap) {
  Cg *c = q->c;
  const WeightSums *s = q->s;
  V block = cg_i64(c, s->block);
  if (s->block == s->channels) return cg_add(c, cg_mul(c, tap, block), channel);
  V w = tap, row = cg_split(c, &w, s->shape->c.kernel[2]), nth = cg_split(c, &channel, s->block);
  V at = cg_add(c, cg_times(c, row, s->channels / s->block), nth);
  at = cg_add(c, cg_times(c, at, s->shape->c.kernel[2]), w);
  return cg_add(c, cg_mul(c, at, block), channel);
}

static void fill_square(const Square *q) {
  Cg *c = q->c;
  const WeightSums *s = q->s;
  V of_group = cg_add(c, cg_times(c, q->group, cg_weight_sums(s)), q->o);
  of_group = cg_at(c, c->f32, s->sums, of_group);
  for (Loop l = cg_count(c, q->elements); cg_next(&l);) {
    V tap = cg_add(c, q->first, l.i), channel = cg_split(c, &tap, ir_conv_taps(&s->shape->c));
    V from = cg_times(c, row_of_sums(q, channel, tap), s->o_pad);
    V sum = cg_sum_slices(c, cg_at(c, c->f32, of_group, from), s->slices, s->groups * cg_weight_sums(s));
    V to = cg_row(c, q->square, l.i, cg_i64(c, c->t->vl));
    cg_store(c, sum, to);
    if (s->repairs_nan) repair_nan(q, channel, tap, to);
  }
}

static void store_square(const Square *q, int64_t elements) {
  Cg *c = q->c;
  V vl = cg_i64(c, c->t->vl), stride = cg_i64(c, elements), mask = cg_mask(c, q->elements);
  V to = cg_add(c, cg_times(c, q->group, q->s->o), q->o);
  to = cg_at(c, c->f32, q->s->out, cg_add(c, cg_mul(c, to, stride), q->first));
  cg_transpose_block(c, q->square, vl, q->elements, q->channels, q->transposed, vl);
  for (Loop l = cg_count(c, q->channels); cg_next(&l);) {
    V row = cg_get(c, c->vf, q->transposed, cg_mul(c, l.i, vl));
    cg_put_masked(c, row, to, cg_mul(c, l.i, stride), mask);
  }
}

int64_t cg_weight_sums_bytes(const WeightSums *s) {
  return cg_round_up(4 * s->slices * s->groups * cg_weight_sums(s), TN_ALIGN);
}

void cg_store_weight_sums(Cg *c, const WeightSums *s) {
  int64_t vl = c->t->vl, elements = s->channels * ir_conv_taps(&s->shape->c), across = cg_ceil_div(elements, vl);
  Square q = {.c = c, .s = s, .square = cg_block(c, c->f32, vl * vl), .transposed = cg_block(c, c->f32, vl * vl)};
  if (s->prologue) q.pixel = cg_block(c, c->f32, vl);
  V width = cg_i64(c, vl);
  for (Loop l = cg_each_shared(c, cg_i64(c, s->groups * (s->o_pad / vl) * across), 1); cg_next(&l);) {
    V nth = l.i, o = cg_split(c, &nth, across);
    q.group = cg_split(c, &o, s->o_pad / vl);
    q.first = cg_mul(c, nth, width), q.o = cg_mul(c, o, width);
    q.elements = cg_min(c, width, cg_sub(c, cg_i64(c, elements), q.first));
    q.channels = cg_min(c, width, cg_sub(c, cg_i64(c, s->o), q.o));
    fill_square(&q);
    store_square(&q, elements);
  }
}
