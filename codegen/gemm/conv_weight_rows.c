// The rows of a convolution's weight gradient (conv_weight_rows.h).
#include "codegen/gemm/conv_weight_rows.h"

#include "codegen/gemm/depthwise.h"

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
  LLVMValueRef mask;  // of the last vector; NULL: whole
  uint32_t n_sums;
} Rows;

// Some neighbouring pixels of a row.
typedef struct {
  const Rows *r;
  LLVMValueRef x, g;  // of the row
  LLVMValueRef first;
  int64_t n;
  int64_t known;  // the first one, if some columns of their taps may lie outside; -1: none does
} Pixels;

// Number of the pixel whose tap number `tap` is `at` columns from the first one's first tap; below 0: none.
static int64_t pixel_at(const Pixels *p, int64_t at, int64_t tap) {
  const ConvWeightRows *s = p->r->s;
  int64_t from = at - tap * s->gap;
  return from < 0 || from % s->src_step || from / s->src_step >= p->n ? -1 : from / s->src_step;
}

static bool is_inside(const Pixels *p, int64_t at) {
  int64_t column = p->known * p->r->s->src_step + p->r->s->offset + at;
  return p->known < 0 || (column >= 0 && column < p->r->s->columns);
}

static LLVMValueRef load_g(const Pixels *p, int64_t k, int64_t j) {
  Cg *c = p->r->c;
  LLVMValueRef at = cg_mul(c, cg_add(c, p->first, cg_i64(c, k)), cg_i64(c, p->r->s->g_pixel));
  at = cg_at(c, c->f32, p->g, cg_add(c, at, cg_i64(c, j * c->t->vl)));
  return p->r->mask && j + 1 == p->r->s->nv ? cg_load_masked(c, c->vf, at, p->r->mask) : cg_load(c, c->vf, at);
}

// A channel of x's column `at`, with all pixels that meet it there.
static void one_element(const Pixels *p, LLVMValueRef x, int64_t at, int64_t channel, LLVMValueRef (*g)[MAX_NV],
                        LLVMValueRef *sum) {
  const ConvWeightRows *s = p->r->s;
  Cg *c = p->r->c;
  LLVMValueRef v = NULL;
  for (int64_t tap = 0; tap < s->taps; tap++) {
    int64_t k = pixel_at(p, at, tap), to = (tap * s->channels + channel) * s->nv;
    if (k < 0) continue;
    if (!v) v = cg_splat(c, cg_load(c, c->f32, cg_at(c, c->f32, x, cg_i64(c, at * s->pixel + channel))));
    for (int64_t j = 0; j < s->nv; j++) {
      if (!g[k][j]) g[k][j] = load_g(p, k, j);
      sum[to + j] = cg_fma(c, v, g[k][j], sum[to + j]);
    }
  }
}

static void some_pixels(const Pixels *p, LLVMValueRef *sum) {
  const ConvWeightRows *s = p->r->s;
  Cg *c = p->r->c;
  LLVMValueRef g[MOST_PIXELS][MAX_NV] = {{NULL}};
  LLVMValueRef column = cg_add(c, cg_mul(c, p->first, cg_i64(c, s->src_step)), cg_i64(c, s->offset));
  LLVMValueRef x = cg_at(c, c->f32, p->x, cg_mul(c, column, cg_i64(c, s->pixel)));
  int64_t last = (p->n - 1) * s->src_step + (s->taps - 1) * s->gap;
  for (int64_t at = 0; at <= last; at++)
    for (int64_t k = 0; is_inside(p, at) && k < s->channels; k++) one_element(p, x, at, k, g, sum);
}

// ---- a row
static void inner_pixels(const Pixels *of, int64_t first, int64_t end, LLVMValueRef *sum) {
  Cg *c = of->r->c;
  Pixels p = *of;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, first), cg_i64(c, end), cg_i64(c, MOST_PIXELS), sum, of->r->n_sums);
  for (uint32_t k = 0; k < l.n; k++) sum[k] = l.carry[k];
  p.first = l.i, p.n = MOST_PIXELS, p.known = -1;
  some_pixels(&p, sum);
  cg_sums_end(c, &l, sum);
}

static bool all_inside(const ConvWeightRows *s, int64_t first) {
  int64_t begin = first * s->src_step + s->offset;
  return begin >= 0 && begin + (MOST_PIXELS - 1) * s->src_step + (s->taps - 1) * s->gap < s->columns;
}

static void one_row(const Pixels *of, LLVMValueRef *sum) {
  const ConvWeightRows *s = of->r->s;
  Cg *c = of->r->c;
  Pixels p = *of;
  for (int64_t first = 0, end; first < s->count; first = end) {
    for (end = first; end + MOST_PIXELS <= s->count && all_inside(s, end);) end += MOST_PIXELS;
    if (end > first) {
      inner_pixels(of, first, end, sum);
      continue;
    }
    end = cg_smaller(first + MOST_PIXELS, s->count);
    p.first = cg_i64(c, first), p.n = end - first, p.known = first;
    some_pixels(&p, sum);
  }
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
  Rows r = {.c = c, .s = s, .n_sums = (uint32_t)(s->taps * s->channels * s->nv)};
  LLVMValueRef arg[N_PARAMS], sum[MAX_CARRY];
  for (uint32_t k = 0; k < N_PARAMS; k++) arg[k] = LLVMGetParam(fn, k);
  if (s->lanes < c->t->vl) r.mask = cg_mask(c, cg_i64(c, s->lanes));
  for (uint32_t k = 0; k < r.n_sums; k++)
    sum[k] = s->more ? cg_load(c, c->vf, each_sum(&r, arg[P_SUMS], k)) : cg_splat(c, cg_f32(c, 0));
  Loop image, row;
  cg_sums_begin(c, &image, cg_i64(c, 0), arg[P_IMAGES], sum, r.n_sums);
  LLVMValueRef x = cg_at(c, c->f32, arg[P_X], cg_mul(c, image.i, arg[P_X_IMAGE]));
  LLVMValueRef g = cg_at(c, c->f32, arg[P_G], cg_mul(c, image.i, arg[P_G_IMAGE]));
  cg_sums_begin(c, &row, cg_i64(c, 0), arg[P_ROWS], sum, r.n_sums);
  Pixels p = {.r = &r,
              .x = cg_at(c, c->f32, x, cg_mul(c, row.i, arg[P_X_ROW])),
              .g = cg_at(c, c->f32, g, cg_mul(c, row.i, arg[P_G_ROW]))};
  one_row(&p, sum);
  cg_sums_end(c, &row, sum);
  cg_sums_end(c, &image, sum);
  for (uint32_t k = 0; k < r.n_sums; k++) cg_store(c, sum[k], each_sum(&r, arg[P_SUMS], k));
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
