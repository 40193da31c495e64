// Some taps of a depthwise convolution's weight gradient (depthwise.h), over rows of g's pixels:
//
//   sums[tap, i, c] += x[pixel * src_step + tap, channel i of c's group] * g[pixel, c]
//
// for a vector of channels, with all sums in registers. A vector of x is read once for all taps of a row that meet it, and
// g stays in registers as long as taps meet it: of 3 x 3 taps four loads serve nine products. Every tap has one chain of
// sums in the order of the pixels, however these are cut. Columns that lie outside are left out as the code is made, or, of
// rows that are cut, count 0 times the 0 that the strip has there.
#include "codegen/conv/depthwise.h"
#include "codegen/conv/weight_pixels.h"

#include <stdio.h>

enum { MOST_PIXELS = 8 };

typedef struct {
  Cg *c;
  const DepthwiseWeightRows *s;
  TapRow row;
  LLVMValueRef mask, count, column;
  LLVMValueRef x, g;  // of the row at hand
  bool by_run;        // some columns may lie outside, which only the run knows
} Rows;

// Neighbouring pixels at a time, of which so many are in registers as taps of a row meet a column.
static int64_t pixels_at_once(const Target *t) {
  return t->gemm_mr * t->gemm_nv < MOST_PIXELS * 2 ? MOST_PIXELS / 2 : MOST_PIXELS;
}

void cg_depthwise_taps_at_once(const Target *t, int64_t group, int64_t rows, int64_t columns, int64_t *rows_at_once,
                               int64_t *columns_at_once) {
  int64_t pixels = pixels_at_once(t), left = t->gemm_mr * t->gemm_nv + t->gemm_nv - (group > 1), n = columns;
  while (n > 1 && n * group + cg_smaller(n, pixels) > left) n--;
  *columns_at_once = n;
  *rows_at_once = n < columns ? 1 : cg_larger(1, cg_smaller(rows, (left - cg_smaller(n, pixels)) / (n * group)));
}

static LLVMValueRef load(const Rows *r, LLVMValueRef base, LLVMValueRef at) {
  LLVMValueRef p = cg_at(r->c, r->c->f32, base, at);
  return r->mask ? cg_load_masked(r->c, r->c->vf, p, r->mask) : cg_load(r->c, r->c->vf, p);
}

static LLVMValueRef where_inside(const Rows *r, const TapPixels *p, int64_t at, LLVMValueRef g) {
  const DepthwiseWeightRows *s = r->s;
  Cg *c = r->c;
  LLVMValueRef column = cg_add(c, r->column, cg_mul(c, p->first, cg_i64(c, s->src_step)));
  column = cg_add(c, column, cg_i64(c, s->offset + at));
  LLVMValueRef inside = LLVMBuildICmp(c->b, LLVMIntULT, column, cg_i64(c, s->columns), "");
  return LLVMBuildSelect(c->b, inside, g, LLVMConstNull(c->vf), "");
}

// The column `at` of x, in row `row` of the window, with all pixels that meet it there.
static void one_column(const Rows *r, const TapPixels *p, LLVMValueRef x, int64_t at, int64_t row, LLVMValueRef *g,
                       LLVMValueRef *sum) {
  const DepthwiseWeightRows *s = r->s;
  Cg *c = r->c;
  LLVMValueRef some = NULL;
  for (int64_t nth = 0; nth < s->group; nth++) {
    LLVMValueRef v = NULL;
    for (int64_t tap = 0; tap < s->taps[1]; tap++) {
      int64_t k = cg_tap_pixel(p, at, tap), to = (row * s->taps[1] + tap) * s->group + nth;
      if (k < 0) continue;
      if (!some) some = load(r, x, cg_i64(c, row * s->gap[0] + at * s->pixel));
      if (!v) v = cg_spread_lanes(c, some, s->group, nth);
      if (!g[k]) g[k] = load(r, r->g, cg_mul(c, cg_add(c, p->first, cg_i64(c, k)), cg_i64(c, s->g_pixel)));
      sum[to] = cg_fma(c, v, r->by_run ? where_inside(r, p, at, g[k]) : g[k], sum[to]);
    }
  }
}

static void some_pixels(const TapPixels *p, void *ctx, LLVMValueRef *sum) {
  const Rows *r = ctx;
  Cg *c = r->c;
  LLVMValueRef g[MOST_PIXELS] = {NULL};
  LLVMValueRef x = cg_at(c, c->f32, r->x, cg_mul(c, cg_tap_first_column(c, p), cg_i64(c, r->s->pixel)));
  for (int64_t at = 0; at <= cg_tap_last_column(p); at++)
    for (int64_t row = 0; cg_tap_inside(p, at) && row < r->s->taps[0]; row++) one_column(r, p, x, at, row, g, sum);
}

// ---- a row of a number of pixels that only the run knows: those with columns outside one by one, the others some at once
static void any_row(Rows *r, const TapSums *of, LLVMValueRef *sum) {
  const DepthwiseWeightRows *s = r->s;
  Cg *c = r->c;
  LLVMValueRef zero = cg_i64(c, 0), column = cg_add(c, r->column, cg_i64(c, s->offset)), count = r->count;
  LLVMValueRef until = cg_sub(c, cg_i64(c, s->columns - (s->taps[1] - 1) * s->gap[1]), column);
  LLVMValueRef first = cg_ceil_div_value(c, cg_max(c, zero, cg_sub(c, zero, column)), s->src_step);
  LLVMValueRef end = cg_min(c, count, cg_ceil_div_value(c, cg_max(c, zero, until), s->src_step));
  first = cg_min(c, first, count), end = cg_max(c, first, end);
  LLVMValueRef n = cg_i64(c, r->row.at_once), whole = cg_mul(c, cg_div(c, cg_sub(c, end, first), n), n);
  whole = cg_add(c, first, whole);
  r->by_run = true;
  cg_tap_each(c, &r->row, of, zero, first, 1, sum);
  r->by_run = false;
  cg_tap_each(c, &r->row, of, first, whole, r->row.at_once, sum);
  cg_tap_each(c, &r->row, of, whole, end, 1, sum);
  r->by_run = true;
  cg_tap_each(c, &r->row, of, end, count, 1, sum);
  r->by_run = false;
}

// ---- the function
enum { P_X, P_G, P_SUMS, P_ROWS, P_COUNT, P_COLUMN, N_PARAMS };

static LLVMValueRef sum_at(const Rows *r, LLVMValueRef sums, int64_t k) {
  const DepthwiseWeightRows *s = r->s;
  int64_t in_row = s->taps[1] * s->group;
  return cg_at(r->c, r->c->f32, sums, cg_i64(r->c, k / in_row * s->sums_row + k % in_row * s->sums_tap));
}

// Rows of pixels that a partial sum takes: about as many pixels as its terms.
static int64_t rows_of_partial(const Target *t, const DepthwiseWeightRows *s) {
  enum { COLUMNS = 64 };  // where the run knows how many
  return cg_larger(1, t->partial_sum / (s->count ? s->count : COLUMNS));
}

static void make_rows(Cg *c, LLVMValueRef fn, void *ctx) {
  const DepthwiseWeightRows *s = ctx;
  Rows r = {.c = c,
            .s = s,
            .row = {.taps = s->taps[1],
                    .gap = s->gap[1],
                    .src_step = s->src_step,
                    .count = s->count,
                    .offset = s->offset,
                    .columns = s->columns,
                    .at_once = pixels_at_once(c->t)},
            .count = LLVMGetParam(fn, P_COUNT),
            .column = LLVMGetParam(fn, P_COLUMN)};
  TapSums of = {.some_pixels = some_pixels, .ctx = &r, .n_sums = (uint32_t)s->sums};
  LLVMValueRef sum[MAX_CARRY], sums = LLVMGetParam(fn, P_SUMS);
  if (s->lanes < c->t->vl) r.mask = cg_mask(c, cg_i64(c, s->lanes));
  LLVMValueRef rows = LLVMGetParam(fn, P_ROWS), some = cg_i64(c, rows_of_partial(c->t, s));
  Loop part, l;
  cg_loop_begin(c, &part, cg_i64(c, 0), rows, some, NULL, 0);
  for (int64_t k = 0; k < s->sums; k++) sum[k] = cg_splat(c, cg_f32(c, 0));
  cg_sums_begin(c, &l, part.i, cg_min(c, rows, cg_add(c, part.i, some)), sum, (uint32_t)s->sums);
  r.x = cg_at(c, c->f32, LLVMGetParam(fn, P_X), cg_mul(c, l.i, cg_i64(c, s->x_row)));
  r.g = cg_at(c, c->f32, LLVMGetParam(fn, P_G), cg_mul(c, l.i, cg_i64(c, s->g_row)));
  if (s->count) cg_tap_row(c, &r.row, &of, sum);
  else any_row(&r, &of, sum);
  cg_sums_end(c, &l, sum);
  for (int64_t k = 0; k < s->sums; k++) {
    LLVMValueRef at = sum_at(&r, sums, k);
    cg_store(c, LLVMBuildFAdd(c->b, cg_load(c, c->vf, at), sum[k], ""), at);
  }
  cg_loop_end(c, &part, NULL);
  LLVMBuildRetVoid(c->b);
}

void cg_depthwise_weight_rows(Cg *c, const DepthwiseWeightRows *s, const DepthwiseWeightArgs *a) {
  char name[512];
  const int64_t sizes[] = {s->lanes,   s->group,    s->taps[0],  s->taps[1], s->gap[0], s->gap[1],
                           s->pixel,   s->g_pixel,  s->x_row,    s->g_row,   s->count,  s->offset,
                           s->columns, s->src_step, s->sums_row, s->sums_tap};
  int at = snprintf(name, sizeof name, "depthwise_weight");
  for (uint32_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    at += snprintf(name + at, sizeof name - (size_t)at, ".%lld", (long long)sizes[k]);
  LLVMTypeRef types[N_PARAMS] = {c->ptr, c->ptr, c->ptr, c->i64, c->i64, c->i64};
  LLVMValueRef arg[N_PARAMS] = {a->x, a->g, a->sums, a->rows, a->count, a->column};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), types, N_PARAMS, false);
  LLVMBuildCall2(c->b, type, cg_helper(c, name, type, make_rows, (void *)s), arg, N_PARAMS, "");
}
