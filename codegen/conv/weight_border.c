// Sums of a weight's gradient that zeros of the padding have spoilt (windows.h).
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

// Of g, along an axis, those for which the tap lies inside; where the tap meets the first one.
typedef struct {
  LLVMValueRef at;
  Inside in;
} Axis;

static Axis axis_of(Cg *c, const Conv *v, uint32_t k, LLVMValueRef tap) {
  LLVMValueRef at = cg_sub(c, cg_mul(c, tap, cg_i64(c, v->dilation[k])), cg_i64(c, v->before[k]));
  return (Axis){at, cg_inside(c, at, v->stride[k], 1, cg_dim(c, v->in_dim[k]), cg_dim(c, v->out_dim[k]))};
}

static bool reaches_out(const Fn *f, const Conv *v, uint32_t k) {
  int64_t last = (v->out[k] - 1) * v->stride[k] + (v->kernel[k] - 1) * v->dilation[k] - v->before[k];
  return !ir_dim_is_const(f->prog, v->in_dim[k]) || v->before[k] > 0 || last >= v->in[k];
}

// All images and pixels, until all lanes that are wanted are NaN once more.
static LLVMValueRef sum_of(Cg *c, const ConvWeightSum *s, const Axis *a, LLVMValueRef wanted) {
  const Conv *v = s->conv;
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
  if (s->prologue) cg_prologue_row(s->prologue, x, s->channel, cg_add(c, s->channel, cg_i64(c, 1)), s->made);
  x = s->prologue ? s->made : cg_at(c, c->f32, s->x, cg_add(c, cg_mul(c, x, cg_i64(c, v->c)), s->channel));
  g = cg_at(c, c->f32, s->g, cg_add(c, cg_mul(c, g, cg_i64(c, v->o)), s->o));
  sum = cg_fma(c, cg_splat(c, cg_load(c, c->f32, x)), cg_load_masked(c, c->vf, g, s->mask), sum);
  for (uint32_t k = CONV_AXES; k-- > 0;) cg_loop_end(c, &axis[k], &sum), sum = axis[k].out[0];
  cg_loop_end(c, &image, &sum);
  return image.out[0];
}

void cg_conv_weight_mend(Cg *c, const ConvWeightSum *s, LLVMValueRef at) {
  const Conv *v = s->conv;
  LLVMValueRef some = LLVMConstInt(LLVMInt1TypeInContext(c->ctx), 0, false), tap = s->tap;
  Axis a[CONV_AXES];
  if (!reaches_out(c->f, v, 0) && !reaches_out(c->f, v, 2)) return;  // rows outside are left out
  for (uint32_t k = CONV_AXES; k-- > 0; tap = cg_div(c, tap, cg_i64(c, v->kernel[k]))) {
    a[k] = axis_of(c, v, k, cg_gemm_rem(c, tap, cg_i64(c, v->kernel[k])));
    if (k == 1) continue;
    LLVMValueRef n = cg_sub(c, a[k].in.hi, a[k].in.lo);
    some = LLVMBuildOr(c->b, some, LLVMBuildICmp(c->b, LLVMIntSLT, n, cg_dim(c, v->out_dim[k]), ""), "");
  }
  LLVMValueRef sums = cg_load_masked(c, c->vf, at, s->mask), is_nan = cg_nan_lanes(c, sums);
  If spoilt;
  cg_if(c, &spoilt, LLVMBuildAnd(c->b, some, cg_any_lane(c, is_nan), ""));
  cg_store_masked(c, LLVMBuildSelect(c->b, is_nan, sum_of(c, s, a, is_nan), sums, ""), at, s->mask);
  cg_endif(c, &spoilt);
}
