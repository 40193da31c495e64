// Strategy depthwise of products (gemm.h): depthwise convolutions and transposed ones, directly.
//
// Units and strips are those of conv.c; there
//
//   out[pixel, c] = sum over taps of strip[pixel * src_step + tap, c] * weights[tap, c]
//
// for a vector of channels and some neighbouring pixels at a time: a tap's weights are loaded once for all of these, and
// their sums do not wait for one another.
#include "codegen/gemm/depthwise.h"

#include <stdio.h>

enum { PIXELS = 8, UNROLLED_TAPS = 8 };

// ---- the plan
bool cg_gemm_depthwise_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  Conv c;
  (void)t;
  if (!p->is_conv) return false;
  ir_conv(f, p->product, &c);
  return cg_is_depthwise(&c);
}

void cg_gemm_depthwise_plan(const Fn *f, GemmPlan *p, const Target *t) {
  ConvShape s;
  cg_depthwise_shape(f, p->product, &s);
  p->kc = cg_conv_block(&s, t->vl, DEPTHWISE_COLUMNS, 1, t);
  p->mr = PIXELS, p->nv = 1, p->width = cg_round_up(p->kc, t->vl);
  p->pack_b = B_BY_STRATEGY;
  p->b_elements = s.rows + t->vl;  // the last vector may read further
  p->strip_rows = 0;
  Windows w;
  for (uint32_t k = 0; k < s.n_windows; k++) {
    cg_conv_windows(&s, k, &w);
    Bands b = cg_conv_bands(&s, &w, p->kc, DEPTHWISE_COLUMNS, t);
    p->strip_rows = cg_larger(p->strip_rows, b.columns);
    p->mc = cg_larger(p->mc, cg_strip_elements(&b.strip) + t->vl);
    p->units += b.units;
  }
}

void cg_gemm_depthwise_stack(Gemm *g) {
  const GemmPlan *p = g->p;
  g->a_block = cg_gemm_on_stack(g->c, p->mc);
  if (p->epilogue) g->strip = cg_gemm_on_stack(g->c, p->strip_rows * p->width);
}

// ---- a row of pixels: a function, which rows of equal strides share
// Parameters: the strip at the first pixel, weights at the first tap, where its sums go, and how many pixels.
typedef struct {
  int64_t channels;
  int64_t taps[CONV_AXES], x_gap[CONV_AXES], w_gap[CONV_AXES];  // from one tap to the next, in elements
  int64_t x_pixel, out_pixel;                                   // from one pixel to the next
} RowSpec;

typedef struct {
  Cg *c;
  const RowSpec *s;
  uint32_t n;  // pixels at once
  LLVMValueRef x, w;
} Taps;

static void one_tap(const Taps *t, LLVMValueRef at, LLVMValueRef *sum) {
  Cg *c = t->c;
  LLVMValueRef w = cg_load(c, c->vf, cg_at(c, c->f32, t->w, cg_mul(c, at, cg_i64(c, t->s->w_gap[2]))));
  LLVMValueRef x = cg_at(c, c->f32, t->x, cg_mul(c, at, cg_i64(c, t->s->x_gap[2])));
  for (uint32_t k = 0; k < t->n; k++)
    sum[k] = cg_fma(c, cg_load(c, c->vf, cg_at(c, c->f32, x, cg_i64(c, k * t->s->x_pixel))), w, sum[k]);
}

static void row_of_taps(const Taps *t, LLVMValueRef *sum) {
  Cg *c = t->c;
  if (t->s->taps[2] <= UNROLLED_TAPS) {
    for (int64_t k = 0; k < t->s->taps[2]; k++) one_tap(t, cg_i64(c, k), sum);
    return;
  }
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, t->s->taps[2]), cg_i64(c, 1), sum, t->n);
  for (uint32_t k = 0; k < t->n; k++) sum[k] = l.carry[k];
  one_tap(t, l.i, sum);
  cg_loop_end(c, &l, sum);
  for (uint32_t k = 0; k < t->n; k++) sum[k] = l.out[k];
}

// Taps of this axis and of those behind it.
static void axis_of_taps(const Taps *t, uint32_t axis, LLVMValueRef *sum) {
  Cg *c = t->c;
  const RowSpec *s = t->s;
  if (axis == CONV_AXES - 1) {
    row_of_taps(t, sum);
    return;
  }
  if (s->taps[axis] == 1) {
    axis_of_taps(t, axis + 1, sum);
    return;
  }
  Taps next = *t;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, s->taps[axis]), cg_i64(c, 1), sum, t->n);
  for (uint32_t k = 0; k < t->n; k++) sum[k] = l.carry[k];
  next.x = cg_at(c, c->f32, t->x, cg_mul(c, l.i, cg_i64(c, s->x_gap[axis])));
  next.w = cg_at(c, c->f32, t->w, cg_mul(c, l.i, cg_i64(c, s->w_gap[axis])));
  axis_of_taps(&next, axis + 1, sum);
  cg_loop_end(c, &l, sum);
  for (uint32_t k = 0; k < t->n; k++) sum[k] = l.out[k];
}

typedef struct {
  Cg *c;
  const RowSpec *s;
  LLVMValueRef x, w, out;  // at the vector of channels
  LLVMValueRef mask;       // of it; NULL: whole
} Column;

static void some_pixels(const Column *v, LLVMValueRef first, uint32_t n) {
  Cg *c = v->c;
  LLVMValueRef sum[PIXELS], out = cg_at(c, c->f32, v->out, cg_mul(c, first, cg_i64(c, v->s->out_pixel)));
  LLVMValueRef x = cg_at(c, c->f32, v->x, cg_mul(c, first, cg_i64(c, v->s->x_pixel)));
  for (uint32_t k = 0; k < n; k++) sum[k] = cg_splat(c, cg_f32(c, 0));
  axis_of_taps(&(Taps){.c = c, .s = v->s, .n = n, .x = x, .w = v->w}, 0, sum);
  for (uint32_t k = 0; k < n; k++) {
    LLVMValueRef at = cg_at(c, c->f32, out, cg_i64(c, k * v->s->out_pixel));
    if (v->mask) cg_store_masked(c, sum[k], at, v->mask);
    else cg_store(c, sum[k], at);
  }
}

static void all_pixels(const Column *v, LLVMValueRef n) {
  Cg *c = v->c;
  LLVMValueRef whole = LLVMBuildAnd(c->b, n, cg_i64(c, -PIXELS), "");
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), whole, cg_i64(c, PIXELS), NULL, 0);
  some_pixels(v, l.i, PIXELS);
  cg_loop_end(c, &l, NULL);
  for (uint32_t some = PIXELS / 2; some; some /= 2) {
    If has;
    LLVMValueRef bit = LLVMBuildAnd(c->b, n, cg_i64(c, some), "");
    cg_if(c, &has, LLVMBuildICmp(c->b, LLVMIntNE, bit, cg_i64(c, 0), ""));
    some_pixels(v, LLVMBuildAnd(c->b, n, cg_i64(c, -2 * (int64_t)some), ""), some);
    cg_endif(c, &has);
  }
}

static void make_row(Cg *c, LLVMValueRef fn, void *ctx) {
  const RowSpec *s = ctx;
  int64_t vl = c->t->vl, whole = s->channels / vl * vl;
  LLVMValueRef x = LLVMGetParam(fn, 0), w = LLVMGetParam(fn, 1), out = LLVMGetParam(fn, 2), n = LLVMGetParam(fn, 3);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, whole), cg_i64(c, vl), NULL, 0);
  Column v = {c, s, cg_at(c, c->f32, x, l.i), cg_at(c, c->f32, w, l.i), cg_at(c, c->f32, out, l.i), NULL};
  all_pixels(&v, n);
  cg_loop_end(c, &l, NULL);
  if (s->channels > whole) {
    LLVMValueRef at = cg_i64(c, whole), mask = cg_mask(c, cg_i64(c, s->channels - whole));
    v = (Column){c, s, cg_at(c, c->f32, x, at), cg_at(c, c->f32, w, at), cg_at(c, c->f32, out, at), mask};
    all_pixels(&v, n);
  }
  LLVMBuildRetVoid(c->b);
}

static void call_row(Cg *c, const RowSpec *s, LLVMValueRef x, LLVMValueRef w, LLVMValueRef out, LLVMValueRef n) {
  char name[320];
  int at = snprintf(name, sizeof name, "depthwise%lld.x%lld.o%lld", (long long)s->channels, (long long)s->x_pixel,
                    (long long)s->out_pixel);
  for (uint32_t k = 0; k < CONV_AXES; k++)
    at += snprintf(name + at, sizeof name - (size_t)at, ".t%lld,%lld,%lld", (long long)s->taps[k],
                   (long long)s->x_gap[k], (long long)s->w_gap[k]);
  LLVMTypeRef type =
      LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), (LLVMTypeRef[]){c->ptr, c->ptr, c->ptr, c->i64}, 4, false);
  LLVMBuildCall2(c->b, type, cg_helper(c, name, type, make_row, (void *)s), (LLVMValueRef[]){x, w, out, n}, 4, "");
}

// ---- a unit
static RowSpec row_spec(const ConvUnit *u, int64_t out_pixel, int64_t *first_tap) {
  const StripShape *s = &u->b->strip;
  const Phase *p = u->b->w.axis;
  RowSpec r = {.channels = s->channels, .x_pixel = p[2].src_step * s->channels, .out_pixel = out_pixel};
  int64_t x = s->channels, w = u->s->dst_channels;
  *first_tap = 0;
  for (uint32_t k = CONV_AXES; k-- > 0;) {
    r.taps[k] = p[k].n_taps;
    r.x_gap[k] = p[k].n_taps > 1 ? p[k].gap * x : 0, r.w_gap[k] = p[k].n_taps > 1 ? p[k].tap_step * w : 0;
    *first_tap += p[k].tap * w;
    x *= k == 2 ? s->columns : s->rows, w *= u->s->c.kernel[k];
  }
  return r;
}

static void each_row(const ConvUnit *u, LLVMValueRef channel) {
  Gemm *g = u->g;
  Cg *c = u->c;
  const Phase *p = u->b->w.axis;
  int64_t first_tap, channels = u->s->dst_channels, strip_row = u->b->strip.columns * u->b->strip.channels;
  RowSpec r = row_spec(u, g->epilogue ? g->p->width : p[2].step * channels, &first_tap);
  LLVMValueRef w = cg_at(c, c->f32, g->packed_b, cg_add(c, cg_i64(c, first_tap), channel)), zero = cg_i64(c, 0);
  Loop l;
  cg_loop_begin(c, &l, zero, u->rows, cg_i64(c, 1), NULL, 0);
  LLVMValueRef x = cg_at(c, c->f32, g->a_block, cg_mul(c, l.i, cg_i64(c, p[1].src_step * strip_row)));
  if (g->epilogue) {
    call_row(c, &r, x, w, g->strip, u->columns);
    cg_conv_epilogue(u, l.i, channel, cg_i64(c, g->p->kc), g->strip);
  } else {
    LLVMValueRef at = cg_add(c, cg_mul(c, cg_conv_pixel(u, l.i, zero), cg_i64(c, channels)), channel);
    call_row(c, &r, x, w, cg_at(c, c->f32, g->out, at), u->columns);
  }
  cg_loop_end(c, &l, NULL);
}

static void each_block(const ConvUnit *u) {
  Gemm *g = u->g;
  Cg *c = u->c;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, u->s->src_channels), cg_i64(c, g->p->kc), NULL, 0);
  cg_conv_fill(u, g->a, l.i, g->a_block);
  each_row(u, l.i);
  cg_loop_end(c, &l, NULL);
}

// Weights [C, taps] as [taps, C], by the team.
static void pack_weights(Gemm *g, const ConvShape *s) {
  Cg *c = g->c;
  LLVMValueRef lo, hi, taps = cg_i64(c, ir_conv_taps(&s->c)), channels = cg_i64(c, s->src_channels);
  Loop tap, l;
  cg_share(c, taps, 1, &lo, &hi);
  cg_loop_begin(c, &tap, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef from = cg_at(c, c->f32, g->b, tap.i), to = cg_at(c, c->f32, g->packed_b, cg_mul(c, tap.i, channels));
  cg_loop_begin(c, &l, cg_i64(c, 0), channels, cg_i64(c, 1), NULL, 0);
  cg_store(c, cg_load(c, c->f32, cg_at(c, c->f32, from, cg_mul(c, l.i, taps))), cg_at(c, c->f32, to, l.i));
  cg_loop_end(c, &l, NULL);
  cg_loop_end(c, &tap, NULL);
}

void cg_gemm_depthwise_emit(Gemm *g) {
  Cg *c = g->c;
  ConvShape s;
  cg_depthwise_shape(c->f, g->p->product, &s);
  pack_weights(g, &s);
  cg_team_barrier(c, cg_i32(c, 0), c->n_workers);
  Windows w;
  for (uint32_t k = 0; k < s.n_windows; k++) {
    cg_conv_windows(&s, k, &w);
    Bands b = cg_conv_bands(&s, &w, g->p->kc, DEPTHWISE_COLUMNS, c->t);
    cg_conv_each_unit(&(ConvUnit){.c = c, .g = g, .s = &s, .b = &b}, each_block);
  }
}
