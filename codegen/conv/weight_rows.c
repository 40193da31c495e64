// The rows of a convolution's weight gradient (weight_rows.h).
#include "codegen/conv/weight_rows.h"

#include "codegen/conv/depthwise.h"
#include "codegen/conv/weight_pixels.h"

#include <stdio.h>

enum {
  MOST_PIXELS = 8,
  LEAST_SUMS = 16,  // twice what hides the latency of multiply-adds of two units (docs/experiments/078)
  MAX_NV = 8
};

// ---- what fits into registers
// Pixels of g that taps of a row meet at one time.
static int64_t live_pixels(const ConvWeightRows *s) { return cg_ceil_div((s->taps - 1) * s->gap + 1, s->src_step); }

bool cg_conv_weight_at_once(const Target *t, const ConvWeightRows *s, int64_t o, int64_t *nv, int64_t *channels) {
  int64_t registers = t->gemm_mr * t->gemm_nv + t->gemm_nv;
  for (int64_t n = cg_larger(1, cg_smaller(t->gemm_nv, cg_ceil_div(o, t->vl))); n; n--) {
    int64_t fit = (registers - live_pixels(s) * n) / (s->taps * n);
    if (fit * s->taps * n < LEAST_SUMS) continue;
    *nv = n, *channels = fit;
    return true;
  }
  return false;
}

// ---- pixels
typedef struct {
  Cg *c;
  const ConvWeightRows *s;
  TapRow row;
  LLVMValueRef mask;  // of the last vector; NULL: whole
  LLVMValueRef x, g;  // of the row at hand
} Rows;

static LLVMValueRef load_g(const Rows *r, const TapPixels *p, int64_t k, int64_t j) {
  Cg *c = r->c;
  LLVMValueRef at = cg_mul(c, cg_add(c, p->first, cg_i64(c, k)), cg_i64(c, r->s->g_pixel));
  at = cg_at(c, c->f32, r->g, cg_add(c, at, cg_i64(c, j * c->t->vl)));
  return r->mask && j + 1 == r->s->nv ? cg_load_masked(c, c->vf, at, r->mask) : cg_load(c, c->vf, at);
}

// Pixels of g in registers: [pixel][vector]; NULL: not loaded yet.
typedef LLVMValueRef GPixels[MOST_PIXELS][MAX_NV];

// A channel of x's column `at`, with all pixels that meet it there.
static void one_element(const Rows *r, const TapPixels *p, LLVMValueRef x, int64_t at, int64_t channel, GPixels g,
                        LLVMValueRef *sum) {
  const ConvWeightRows *s = r->s;
  Cg *c = r->c;
  LLVMValueRef v = NULL;
  for (int64_t tap = 0; tap < s->taps; tap++) {
    int64_t k = cg_tap_pixel(p, at, tap), to = (tap * s->channels + channel) * s->nv;
    if (k < 0) continue;
    if (!v) v = cg_splat(c, cg_load(c, c->f32, cg_at(c, c->f32, x, cg_i64(c, at * s->pixel + channel))));
    for (int64_t j = 0; j < s->nv; j++) {
      if (!g[k][j]) g[k][j] = load_g(r, p, k, j);
      sum[to + j] = cg_fma(c, v, g[k][j], sum[to + j]);
    }
  }
}

static void some_pixels(const TapPixels *p, void *ctx, LLVMValueRef *sum) {
  const Rows *r = ctx;
  Cg *c = r->c;
  GPixels g = {{NULL}};
  LLVMValueRef x = cg_at(c, c->f32, r->x, cg_mul(c, cg_tap_first_column(c, p), cg_i64(c, r->s->pixel)));
  for (int64_t at = 0; at <= cg_tap_last_column(p); at++)
    for (int64_t k = 0; cg_tap_inside(p, at) && k < r->s->channels; k++) one_element(r, p, x, at, k, g, sum);
}

// ---- the function
enum { P_X, P_G, P_SUMS, P_ROWS, P_IMAGES, P_X_ROW, P_X_IMAGE, P_G_ROW, P_G_IMAGE, N_PARAMS };

static LLVMValueRef each_sum(const Rows *r, LLVMValueRef sums, uint32_t k) {
  const ConvWeightRows *s = r->s;
  int64_t row = k / s->nv, at = row / s->channels * s->sums_tap + row % s->channels * s->sums_channel;
  return cg_at(r->c, r->c->f32, sums, cg_i64(r->c, at + k % s->nv * r->c->t->vl));
}

static void make_rows(Cg *c, LLVMValueRef fn, void *ctx) {
  const ConvWeightRows *s = ctx;
  Rows r = {.c = c,
            .s = s,
            .row = {.taps = s->taps,
                    .gap = s->gap,
                    .src_step = s->src_step,
                    .count = s->count,
                    .offset = s->offset,
                    .columns = s->columns,
                    .at_once = MOST_PIXELS}};
  TapSums sums = {.some_pixels = some_pixels, .ctx = &r, .n_sums = (uint32_t)(s->taps * s->channels * s->nv)};
  LLVMValueRef arg[N_PARAMS], sum[MAX_CARRY];
  for (uint32_t k = 0; k < N_PARAMS; k++) arg[k] = LLVMGetParam(fn, k);
  if (s->lanes < c->t->vl) r.mask = cg_mask(c, cg_i64(c, s->lanes));
  for (uint32_t k = 0; k < sums.n_sums; k++) sum[k] = cg_splat(c, cg_f32(c, 0));
  Loop image, row;
  cg_sums_begin(c, &image, cg_i64(c, 0), arg[P_IMAGES], sum, sums.n_sums);
  LLVMValueRef x = cg_at(c, c->f32, arg[P_X], cg_mul(c, image.i, arg[P_X_IMAGE]));
  LLVMValueRef g = cg_at(c, c->f32, arg[P_G], cg_mul(c, image.i, arg[P_G_IMAGE]));
  cg_sums_begin(c, &row, cg_i64(c, 0), arg[P_ROWS], sum, sums.n_sums);
  r.x = cg_at(c, c->f32, x, cg_mul(c, row.i, arg[P_X_ROW]));
  r.g = cg_at(c, c->f32, g, cg_mul(c, row.i, arg[P_G_ROW]));
  cg_tap_row(c, &r.row, &sums, sum);
  cg_sums_end(c, &row, sum);
  cg_sums_end(c, &image, sum);
  for (uint32_t k = 0; k < sums.n_sums; k++) {
    LLVMValueRef at = each_sum(&r, arg[P_SUMS], k);
    cg_store(c, s->more ? LLVMBuildFAdd(c->b, cg_load(c, c->vf, at), sum[k], "") : sum[k], at);
  }
  LLVMBuildRetVoid(c->b);
}

void cg_conv_weight_rows(Cg *c, const ConvWeightRows *s, const ConvWeightArgs *a) {
  char name[512];
  const int64_t sizes[] = {s->taps,   s->gap,     s->src_step, s->channels, s->nv,       s->lanes,        s->count,
                           s->offset, s->columns, s->pixel,    s->g_pixel,  s->sums_tap, s->sums_channel, s->more};
  int at = snprintf(name, sizeof name, "conv_weight");
  for (uint32_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    at += snprintf(name + at, sizeof name - (size_t)at, ".%lld", (long long)sizes[k]);
  LLVMTypeRef types[N_PARAMS] = {c->ptr, c->ptr, c->ptr, c->i64, c->i64, c->i64, c->i64, c->i64, c->i64};
  LLVMValueRef arg[N_PARAMS] = {a->x, a->g, a->sums, a->rows, a->images, a->x_row, a->x_image, a->g_row, a->g_image};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), types, N_PARAMS, false);
  LLVMBuildCall2(c->b, type, cg_helper(c, name, type, make_rows, (void *)s), arg, N_PARAMS, "");
}
