// The rows of a convolution's weight gradient (weight_rows.h).
#include "codegen/conv/weight_rows.h"

#include "codegen/conv/depthwise.h"
#include "codegen/tuning.h"

enum { TUNED_WEIGHT_ROWS(TUNE) };
enum { MAX_NV = 8 };

// ---- what fits into registers
int64_t cg_weight_pixels_at_once(const Target *t, bool depthwise) {
  return depthwise && t->gemm_mr * t->gemm_nv < MOST_PIXELS * 2 ? MOST_PIXELS / 2 : MOST_PIXELS;
}

static int64_t registers(const Target *t) { return t->gemm_mr * t->gemm_nv + t->gemm_nv; }

bool cg_weight_at_once(const Target *t, const WeightRows *s, int64_t o, int64_t *nv, int64_t *channels) {
  int64_t live =
      cg_ceil_div((s->row.taps - 1) * s->row.gap + 1, s->row.src_step);  // pixels that taps of a row meet at one time
  for (int64_t n = cg_larger(1, cg_smaller(t->gemm_nv, cg_ceil_div(o, t->vl))); n; n--) {
    int64_t fit = (registers(t) - live * n) / (s->row.taps * n);
    if (fit * s->row.taps * n < LEAST_SUMS) continue;
    *nv = n, *channels = fit;
    return true;
  }
  return false;
}

void cg_depthwise_taps_at_once(const Target *t, int64_t group, int64_t rows, int64_t columns, int64_t *rows_at_once,
                               int64_t *columns_at_once) {
  int64_t pixels = cg_weight_pixels_at_once(t, true), left = registers(t) - (group > 1), n = columns;
  while (n > 1 && n * group + cg_smaller(n, pixels) > left) n--;
  *columns_at_once = n;
  *rows_at_once = n < columns ? 1 : cg_larger(1, cg_smaller(rows, (left - cg_smaller(n, pixels)) / (n * group)));
}

// ---- pixels
typedef struct {
  Cg *c;
  const WeightRows *s;
  WeightArgs a;
  V mask;  // of the last vector; NULL: whole
  V x, g;  // of the current row
} Rows;

static V load(const Rows *r, V base, V at, bool last) {
  V p = cg_at(r->c, r->c->f32, base, at);
  return r->mask && last ? cg_load_masked(r->c, r->c->vf, p, r->mask) : cg_load(r->c, r->c->vf, p);
}

static V load_g(const Rows *r, const TapPixels *p, int64_t k, int64_t j) {
  Cg *c = r->c;
  V at = cg_times(c, cg_add(c, p->first, cg_i64(c, k)), r->s->g_pixel);
  return load(r, r->g, cg_add(c, at, cg_i64(c, j * c->t->vl)), j + 1 == r->s->nv);
}

// 0 instead of g where x's column `at` lies outside.
static V where_inside(const Rows *r, const TapPixels *p, int64_t at, V g) {
  Cg *c = r->c;
  V column = cg_add(c, r->a.column, cg_times(c, p->first, p->row->src_step));
  column = cg_add(c, column, cg_i64(c, p->row->offset + at));
  V inside = cg_below(c, column, cg_i64(c, p->row->columns));
  return cg_select(c, inside, g, LLVMConstNull(c->vf));
}

// Pixels of g in registers: [pixel][vector]; NULL: not loaded yet.
typedef V GPixels[MOST_PIXELS][MAX_NV];

// The column `at` of x, in row `row` of the window, with all pixels that meet it there.
static void one_column(const Rows *r, const TapPixels *p, V x, int64_t at, int64_t row, GPixels g, V *sum) {
  const WeightRows *s = r->s;
  Cg *c = r->c;
  V some = NULL;
  int64_t from = row * s->row_gap + at * s->pixel;
  for (int64_t term = 0; term < s->terms; term++) {
    V v = NULL;
    for (int64_t tap = 0; tap < s->row.taps; tap++) {
      int64_t k = cg_tap_pixel(p, at, tap), to = ((row * s->row.taps + tap) * s->terms + term) * s->nv;
      if (k < 0) continue;
      if (!some && s->depthwise) some = load(r, x, cg_i64(c, from), true);
      if (!v && s->depthwise) v = cg_spread_lanes(c, some, s->terms, term);
      if (!v) v = cg_splat(c, cg_get(c, c->f32, x, cg_i64(c, from + term)));
      for (int64_t j = 0; j < s->nv; j++) {
        if (!g[k][j]) g[k][j] = load_g(r, p, k, j);
        sum[to + j] = cg_fma(c, v, p->border ? where_inside(r, p, at, g[k][j]) : g[k][j], sum[to + j]);
      }
    }
  }
}

static void some_pixels(const TapPixels *p, void *ctx, V *sum) {
  const Rows *r = ctx;
  Cg *c = r->c;
  GPixels g = {{NULL}};
  V x = cg_row(c, r->x, cg_tap_first_column(c, p), cg_i64(c, r->s->pixel));
  for (int64_t at = 0; at <= cg_tap_last_column(p); at++)
    for (int64_t row = 0; cg_tap_inside(p, at) && row < r->s->rows; row++) one_column(r, p, x, at, row, g, sum);
}

// ---- the function
enum { P_X, P_G, P_SUMS, P_ROWS, P_IMAGES, P_X_IMAGE, P_G_IMAGE, N_PARAMS, P_COUNT = P_IMAGES, P_COLUMN };

static uint32_t n_sums(const WeightRows *s) { return (uint32_t)(s->rows * s->row.taps * s->terms * s->nv); }

static V each_sum(const Rows *r, uint32_t k) {
  const WeightRows *s = r->s;
  int64_t term = k / s->nv, tap = term / s->terms, row = tap / s->row.taps;
  int64_t at = row * s->sums_row + tap % s->row.taps * s->sums_tap + term % s->terms * s->sums_term;
  return cg_at(r->c, r->c->f32, r->a.sums, cg_i64(r->c, at + k % s->nv * r->c->t->vl));
}

// Rows [lo, hi) of the current image.
static void some_rows(Rows *r, V x, V g, V lo, V hi, V *sum) {
  const WeightRows *s = r->s;
  Cg *c = r->c;
  TapSums of = {.some_pixels = some_pixels, .ctx = r, .n_sums = n_sums(s)};
  for (Loop l = cg_carry(c, lo, hi, cg_i64(c, 1), sum, of.n_sums); cg_next(&l);) {
    r->x = cg_row(c, x, l.i, cg_i64(c, s->x_row));
    r->g = cg_row(c, g, l.i, cg_i64(c, s->g_row));
    V columns = cg_i64(c, s->row.columns), column = cg_i64(c, s->row.offset);
    if (s->row.count) cg_tap_row(c, &s->row, &of, sum);
    else cg_tap_row_of_run(c, &s->row, &of, r->a.count, cg_add(c, r->a.column, column), columns, sum);
  }
}

static void each_image(Rows *r, V *sum) {
  Cg *c = r->c;
  for (Loop l = cg_carry(c, cg_i64(c, 0), r->a.images, cg_i64(c, 1), sum, n_sums(r->s)); cg_next(&l);) {
    V x = cg_at(c, c->f32, r->a.x, cg_mul(c, l.i, r->a.x_image));
    V g = cg_at(c, c->f32, r->a.g, cg_mul(c, l.i, r->a.g_image));
    some_rows(r, x, g, cg_i64(c, 0), r->a.rows, sum);
  }
}

static void begin_sums(Cg *c, V *sum, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) sum[k] = cg_splat(c, cg_f32(c, 0));
}

static void store_sums(const Rows *r, V *sum) {
  Cg *c = r->c;
  for (uint32_t k = 0; k < n_sums(r->s); k++) {
    V at = each_sum(r, k);
    cg_store(c, r->s->accumulate ? cg_fadd(c, cg_load(c, c->vf, at), sum[k]) : sum[k], at);
  }
}

// Partial sums of about as many pixels as they have terms.
static void each_partial(Rows *r, V *sum) {
  Cg *c = r->c;
  int64_t rows = cg_larger(1, c->t->partial_sum / (r->s->row.count ? r->s->row.count : RUN_COLUMNS));
  for (Loop l = cg_each_by(c, cg_i64(c, 0), r->a.rows, cg_i64(c, rows)); cg_next(&l);) {
    begin_sums(c, sum, n_sums(r->s));
    some_rows(r, r->a.x, r->a.g, l.i, cg_min(c, r->a.rows, cg_add(c, l.i, cg_i64(c, rows))), sum);
    store_sums(r, sum);
  }
}

static void make_rows(Cg *c, V fn, void *ctx) {
  const WeightRows *s = ctx;
  Rows r = {.c = c, .s = s};
  V arg[N_PARAMS], sum[MAX_CARRY];
  for (uint32_t k = 0; k < LLVMCountParams(fn); k++) arg[k] = LLVMGetParam(fn, k);
  r.a = (WeightArgs){.x = arg[P_X], .g = arg[P_G], .sums = arg[P_SUMS], .rows = arg[P_ROWS]};
  if (s->lanes < c->t->vl) r.mask = cg_mask(c, cg_i64(c, s->lanes));
  if (s->depthwise) {
    r.a.count = arg[P_COUNT], r.a.column = arg[P_COLUMN];
    each_partial(&r, sum);
  } else {
    r.a.images = arg[P_IMAGES], r.a.x_image = arg[P_X_IMAGE], r.a.g_image = arg[P_G_IMAGE];
    begin_sums(c, sum, n_sums(s));
    each_image(&r, sum);
    store_sums(&r, sum);
  }
  LLVMBuildRetVoid(c->b);
}

void cg_weight_rows(Cg *c, const WeightRows *s, const WeightArgs *a) {
  const TapRow *r = &s->row;
  const int64_t sizes[] = {r->taps,  r->gap,      r->src_step, r->count,     r->offset,    r->columns, s->rows,
                           s->terms, s->nv,       s->lanes,    s->row_gap,   s->pixel,     s->g_pixel, s->x_row,
                           s->g_row, s->sums_row, s->sums_tap, s->sums_term, s->accumulate};
  V arg[N_PARAMS] = {a->x, a->g, a->sums, a->rows};
  uint32_t n = P_IMAGES;
  if (s->depthwise) arg[n++] = a->count, arg[n++] = a->column;
  else arg[n++] = a->images, arg[n++] = a->x_image, arg[n++] = a->g_image;
  cg_call_sized(c, s->depthwise ? "depthwise_weight" : "conv_weight", sizes, sizeof sizes / sizeof *sizes, arg, n,
                make_rows, (void *)s);
}
