// The sums of a weight's gradient (windows.h): slices are added in their order, sums that zeros of the padding have spoilt are
// made again, and squares of vl x vl are transposed and stored.
//
// Strips of x have zeros for what lies outside. Times an element of g that is infinite or NaN they are NaN, where such a
// pair is no part of the sum. A sum that is NaN is made again, of the pixels of g whose tap lies inside, image by image:
//
//   sum[o] = sum over pixels of x[pixel * stride + tap] * g[pixel, o]      (a vector of o)
//
// Sums of other taps, which lie inside for all pixels, are what they are.
#include "codegen/conv/taps.h"
#include "codegen/conv/windows.h"
#include "codegen/pointwise/prologue_epilogue.h"

LLVMValueRef cg_sum_slices(Cg *c, LLVMValueRef at, int64_t n, int64_t stride) {
  LLVMValueRef sum = cg_load(c, c->vf, at);
  for (int64_t k = 1; k < n; k++)
    sum = LLVMBuildFAdd(c->b, sum, cg_load(c, c->vf, cg_at(c, c->f32, at, cg_i64(c, k * stride))), "");
  return sum;
}

// A square of the weight's elements, [channel of x][tap], and of g's channels.
typedef struct {
  Cg *c;
  const WeightSums *s;
  LLVMValueRef square, transposed, pixel;  // on the stack: [element][channel of g]; [channel][element]; a channel of x
  LLVMValueRef group, first, o;            // the first element, and the first channel of g
  LLVMValueRef elements, channels;
} Square;

// ---- sums that are made again
// Of g, along an axis, those for which the tap lies inside; where the tap meets the first one.
typedef struct {
  LLVMValueRef at;
  Inside in;
} Axis;

static Axis axis_of(const Square *q, uint32_t k, LLVMValueRef tap) {
  Cg *c = q->c;
  const ConvShape *s = q->s->shape;
  const Phase *p = &q->s->axis[k];
  LLVMValueRef at = cg_add(c, cg_mul(c, tap, cg_i64(c, p->gap)), cg_i64(c, p->offset));
  return (Axis){at, cg_inside(c, at, p->src_step, 1, cg_dim(c, s->src_dim[k]), cg_dim(c, s->dst_dim[k]))};
}

static bool reaches_out(const Square *q, uint32_t k) {
  return cg_conv_reaches_out(q->c->f, q->s->shape, &q->s->axis[k], k);
}

// All images and pixels, of one channel of x, until all lanes of `wanted` are NaN again.
static LLVMValueRef sum_again(const Square *q, LLVMValueRef channel, const Axis *a, LLVMValueRef wanted,
                              LLVMValueRef mask) {
  Cg *c = q->c;
  const WeightSums *s = q->s;
  const Conv *v = &s->shape->c;
  LLVMValueRef one = cg_i64(c, 1), sum = cg_splat(c, cg_f32(c, 0));
  Loop image, axis[CONV_AXES];
  cg_loop_begin(c, &image, cg_i64(c, 0), cg_dim(c, v->n), one, &sum, 1);
  LLVMValueRef x = image.i, g = image.i;
  sum = image.carry[0];
  LLVMValueRef open = LLVMBuildAnd(c->b, wanted, LLVMBuildNot(c->b, cg_nan_lanes(c, sum), ""), "");
  LLVMValueRef planes = LLVMBuildSelect(c->b, cg_any_lane(c, open), a[0].in.hi, a[0].in.lo, "");
  for (uint32_t k = 0; k < CONV_AXES; k++) {
    cg_loop_begin(c, &axis[k], a[k].in.lo, k ? a[k].in.hi : planes, one, &sum, 1);
    sum = axis[k].carry[0];
    LLVMValueRef at = cg_add(c, cg_mul(c, axis[k].i, cg_i64(c, v->stride[k])), a[k].at);
    x = cg_add(c, cg_mul(c, x, cg_dim(c, v->in_dim[k])), at);
    g = cg_add(c, cg_mul(c, g, cg_dim(c, v->out_dim[k])), axis[k].i);
  }
  channel = cg_add(c, cg_mul(c, q->group, cg_i64(c, s->channels)), channel);
  if (s->prologue) cg_prologue_row(s->prologue, x, channel, cg_add(c, channel, one), q->pixel);
  x = s->prologue ? q->pixel : cg_at(c, c->f32, s->x, cg_add(c, cg_mul(c, x, cg_i64(c, v->c)), channel));
  LLVMValueRef o = cg_add(c, cg_mul(c, q->group, cg_i64(c, s->o)), q->o);
  g = cg_at(c, c->f32, s->g, cg_add(c, cg_mul(c, g, cg_i64(c, v->o)), o));
  sum = cg_fma(c, cg_splat(c, cg_load(c, c->f32, x)), cg_load_masked(c, c->vf, g, mask), sum);
  for (uint32_t k = CONV_AXES; k-- > 0;) cg_loop_end(c, &axis[k], &sum), sum = axis[k].out[0];
  cg_loop_end(c, &image, &sum);
  return image.out[0];
}

// Of a vector of sums at `at` on the stack, of one tap and channel of x.
static void mend(const Square *q, LLVMValueRef channel, LLVMValueRef tap, LLVMValueRef at) {
  Cg *c = q->c;
  const Conv *v = &q->s->shape->c;
  LLVMValueRef some = LLVMConstInt(LLVMInt1TypeInContext(c->ctx), 0, false), mask = cg_mask(c, q->channels);
  Axis a[CONV_AXES];
  if (!reaches_out(q, 0) && !reaches_out(q, 2)) return;  // rows outside are left out
  for (uint32_t k = CONV_AXES; k-- > 0; tap = cg_div(c, tap, cg_i64(c, v->kernel[k]))) {
    a[k] = axis_of(q, k, cg_rem(c, tap, cg_i64(c, v->kernel[k])));
    if (k == 1) continue;
    LLVMValueRef n = cg_sub(c, a[k].in.hi, a[k].in.lo);
    some = LLVMBuildOr(c->b, some, LLVMBuildICmp(c->b, LLVMIntSLT, n, cg_dim(c, v->out_dim[k]), ""), "");
  }
  LLVMValueRef sums = cg_load_masked(c, c->vf, at, mask), is_nan = cg_nan_lanes(c, sums);
  If spoilt;
  cg_if(c, &spoilt, LLVMBuildAnd(c->b, some, cg_any_lane(c, is_nan), ""));
  LLVMValueRef again = sum_again(q, channel, a, is_nan, mask);
  cg_store_masked(c, LLVMBuildSelect(c->b, is_nan, again, sums, ""), at, mask);
  cg_endif(c, &spoilt);
}

// ---- all sums
static LLVMValueRef row_of_sums(const Square *q, LLVMValueRef channel, LLVMValueRef tap) {
  Cg *c = q->c;
  const WeightSums *s = q->s;
  LLVMValueRef block = cg_i64(c, s->block);
  if (s->block == s->channels) return cg_add(c, cg_mul(c, tap, block), channel);
  LLVMValueRef w = tap, row = cg_split(c, &w, s->shape->c.kernel[2]), nth = cg_split(c, &channel, s->block);
  LLVMValueRef at = cg_add(c, cg_mul(c, row, cg_i64(c, s->channels / s->block)), nth);
  at = cg_add(c, cg_mul(c, at, cg_i64(c, s->shape->c.kernel[2])), w);
  return cg_add(c, cg_mul(c, at, block), channel);
}

static void fill_square(const Square *q) {
  Cg *c = q->c;
  const WeightSums *s = q->s;
  LLVMValueRef of_group = cg_add(c, cg_mul(c, q->group, cg_i64(c, cg_weight_sums(s))), q->o);
  of_group = cg_at(c, c->f32, s->sums, of_group);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), q->elements, cg_i64(c, 1), NULL, 0);
  LLVMValueRef tap = cg_add(c, q->first, l.i), channel = cg_split(c, &tap, ir_conv_taps(&s->shape->c));
  LLVMValueRef from = cg_mul(c, row_of_sums(q, channel, tap), cg_i64(c, s->o_pad));
  LLVMValueRef sum = cg_sum_slices(c, cg_at(c, c->f32, of_group, from), s->slices, s->groups * cg_weight_sums(s));
  LLVMValueRef to = cg_at(c, c->f32, q->square, cg_mul(c, l.i, cg_i64(c, c->t->vl)));
  cg_store(c, sum, to);
  if (s->mends) mend(q, channel, tap, to);
  cg_loop_end(c, &l, NULL);
}

static void store_square(const Square *q, int64_t elements) {
  Cg *c = q->c;
  LLVMValueRef vl = cg_i64(c, c->t->vl), stride = cg_i64(c, elements), mask = cg_mask(c, q->elements);
  LLVMValueRef to = cg_add(c, cg_mul(c, q->group, cg_i64(c, q->s->o)), q->o);
  to = cg_at(c, c->f32, q->s->out, cg_add(c, cg_mul(c, to, stride), q->first));
  cg_transpose_block(c, q->square, vl, q->elements, q->channels, q->transposed, vl);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), q->channels, cg_i64(c, 1), NULL, 0);
  LLVMValueRef row = cg_load(c, c->vf, cg_at(c, c->f32, q->transposed, cg_mul(c, l.i, vl)));
  cg_store_masked(c, row, cg_at(c, c->f32, to, cg_mul(c, l.i, stride)), mask);
  cg_loop_end(c, &l, NULL);
}

int64_t cg_weight_sums_bytes(const WeightSums *s) {
  return cg_round_up(4 * s->slices * s->groups * cg_weight_sums(s), TN_ALIGN);
}

void cg_store_weight_sums(Cg *c, const WeightSums *s) {
  int64_t vl = c->t->vl, elements = s->channels * ir_conv_taps(&s->shape->c), across = cg_ceil_div(elements, vl);
  Square q = {.c = c, .s = s, .square = cg_block(c, c->f32, vl * vl), .transposed = cg_block(c, c->f32, vl * vl)};
  if (s->prologue) q.pixel = cg_block(c, c->f32, vl);
  LLVMValueRef lo, hi, width = cg_i64(c, vl);
  cg_share(c, cg_i64(c, s->groups * (s->o_pad / vl) * across), 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef nth = l.i, o = cg_split(c, &nth, across);
  q.group = cg_split(c, &o, s->o_pad / vl);
  q.first = cg_mul(c, nth, width), q.o = cg_mul(c, o, width);
  q.elements = cg_min(c, width, cg_sub(c, cg_i64(c, elements), q.first));
  q.channels = cg_min(c, width, cg_sub(c, cg_i64(c, s->o), q.o));
  fill_square(&q);
  store_square(&q, elements);
  cg_loop_end(c, &l, NULL);
}
