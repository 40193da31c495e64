// Some taps of a depthwise convolution's weight gradient (depthwise.h), over rows of g's pixels:
//
//   sums[tap, i, c] += x[pixel * src_step + tap, channel i of c's group] * g[pixel, c]
//
// for a vector of channels, with all sums in registers. A vector of x is read once for all taps of a row that meet it, and
// g stays in registers as long as taps meet it: of 3 x 3 taps four loads serve nine products. Every tap has one chain of
// sums in the order of the pixels, however these are cut. Columns that lie outside are left out as the code is made, or, of
// rows that are cut, count 0 times the 0 that the strip has there.
#include "codegen/gemm/depthwise.h"

#include <stdio.h>

enum { MOST_PIXELS = 8 };

typedef struct {
  Cg *c;
  const DepthwiseWeightRows *s;
  int64_t pixels;  // at once
  LLVMValueRef mask, count, column;
} Rows;

// Some neighbouring pixels of a row.
typedef struct {
  const Rows *r;
  LLVMValueRef x, g;  // of the row
  LLVMValueRef first;
  int64_t n;
  int64_t known;  // the first one, if some columns of their taps may lie outside; -1: none does
  bool by_run;    // some may, which only the run knows
} Pixels;

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

// Number of the pixel whose tap number `tap` of a row is `at` columns from the first one's first tap; below 0: none.
static int64_t pixel_at(const Pixels *p, int64_t at, int64_t tap) {
  const DepthwiseWeightRows *s = p->r->s;
  int64_t from = at - tap * s->gap[1];
  return from < 0 || from % s->src_step || from / s->src_step >= p->n ? -1 : from / s->src_step;
}

static bool is_inside(const Pixels *p, int64_t at) {
  int64_t column = p->known * p->r->s->src_step + p->r->s->offset + at;
  return p->known < 0 || (column >= 0 && column < p->r->s->columns);
}

static LLVMValueRef where_inside(const Pixels *p, int64_t at, LLVMValueRef g) {
  const DepthwiseWeightRows *s = p->r->s;
  Cg *c = p->r->c;
  LLVMValueRef column = cg_add(c, p->r->column, cg_mul(c, p->first, cg_i64(c, s->src_step)));
  column = cg_add(c, column, cg_i64(c, s->offset + at));
  LLVMValueRef inside = LLVMBuildICmp(c->b, LLVMIntULT, column, cg_i64(c, s->columns), "");
  return LLVMBuildSelect(c->b, inside, g, LLVMConstNull(c->vf), "");
}

// The column `at` of x, in row `row` of the window, with all pixels that meet it there.
static void one_column(const Pixels *p, LLVMValueRef x, int64_t at, int64_t row, LLVMValueRef *g, LLVMValueRef *sum) {
  const DepthwiseWeightRows *s = p->r->s;
  Cg *c = p->r->c;
  LLVMValueRef some = NULL;
  for (int64_t nth = 0; nth < s->group; nth++) {
    LLVMValueRef v = NULL;
    for (int64_t tap = 0; tap < s->taps[1]; tap++) {
      int64_t k = pixel_at(p, at, tap), to = (row * s->taps[1] + tap) * s->group + nth;
      if (k < 0) continue;
      if (!some) some = load(p->r, x, cg_i64(c, row * s->gap[0] + at * s->pixel));
      if (!v) v = cg_spread_lanes(c, some, s->group, nth);
      if (!g[k]) g[k] = load(p->r, p->g, cg_mul(c, cg_add(c, p->first, cg_i64(c, k)), cg_i64(c, s->g_pixel)));
      sum[to] = cg_fma(c, v, p->by_run ? where_inside(p, at, g[k]) : g[k], sum[to]);
    }
  }
}

static void some_pixels(const Pixels *p, LLVMValueRef *sum) {
  const DepthwiseWeightRows *s = p->r->s;
  Cg *c = p->r->c;
  LLVMValueRef g[MOST_PIXELS] = {NULL};
  LLVMValueRef column = cg_add(c, cg_mul(c, p->first, cg_i64(c, s->src_step)), cg_i64(c, s->offset));
  LLVMValueRef x = cg_at(c, c->f32, p->x, cg_mul(c, column, cg_i64(c, s->pixel)));
  int64_t last = (p->n - 1) * s->src_step + (s->taps[1] - 1) * s->gap[1];
  for (int64_t at = 0; at <= last; at++)
    for (int64_t row = 0; is_inside(p, at) && row < s->taps[0]; row++) one_column(p, x, at, row, g, sum);
}

// ---- a row
static void each_pixel(const Pixels *of, LLVMValueRef first, LLVMValueRef end, int64_t n, LLVMValueRef *sum) {
  Cg *c = of->r->c;
  Pixels p = *of;
  Loop l;
  cg_loop_begin(c, &l, first, end, cg_i64(c, n), sum, (uint32_t)of->r->s->sums);
  for (uint32_t k = 0; k < l.n; k++) sum[k] = l.carry[k];
  p.first = l.i, p.n = n, p.known = -1;
  some_pixels(&p, sum);
  cg_sums_end(c, &l, sum);
}

// Of a number of pixels that only the run knows: those with columns outside one by one, the others some at once.
static void any_row(const Pixels *of, LLVMValueRef *sum) {
  const DepthwiseWeightRows *s = of->r->s;
  Cg *c = of->r->c;
  LLVMValueRef zero = cg_i64(c, 0), column = cg_add(c, of->r->column, cg_i64(c, s->offset)), count = of->r->count;
  LLVMValueRef until = cg_sub(c, cg_i64(c, s->columns - (s->taps[1] - 1) * s->gap[1]), column);
  LLVMValueRef first = cg_ceil_div_value(c, cg_max(c, zero, cg_sub(c, zero, column)), s->src_step);
  LLVMValueRef end = cg_min(c, count, cg_ceil_div_value(c, cg_max(c, zero, until), s->src_step));
  first = cg_min(c, first, count), end = cg_max(c, first, end);
  LLVMValueRef n = cg_i64(c, of->r->pixels), whole = cg_mul(c, cg_div(c, cg_sub(c, end, first), n), n);
  Pixels border = *of;
  border.by_run = true, whole = cg_add(c, first, whole);
  each_pixel(&border, zero, first, 1, sum);
  each_pixel(of, first, whole, of->r->pixels, sum);
  each_pixel(of, whole, end, 1, sum);
  each_pixel(&border, end, count, 1, sum);
}

static bool all_inside(const DepthwiseWeightRows *s, int64_t first, int64_t n) {
  int64_t begin = first * s->src_step + s->offset;
  return begin >= 0 && begin + (n - 1) * s->src_step + (s->taps[1] - 1) * s->gap[1] < s->columns;
}

static void known_row(const Pixels *of, LLVMValueRef *sum) {
  const DepthwiseWeightRows *s = of->r->s;
  Cg *c = of->r->c;
  Pixels p = *of;
  for (int64_t n = of->r->pixels, first = 0, end; first < s->count; first = end) {
    for (end = first; end + n <= s->count && all_inside(s, end, n);) end += n;
    if (end > first) {
      each_pixel(of, cg_i64(c, first), cg_i64(c, end), n, sum);
      continue;
    }
    end = cg_smaller(first + n, s->count);
    p.first = cg_i64(c, first), p.n = end - first, p.known = first;
    some_pixels(&p, sum);
  }
}

// ---- the function
enum { P_X, P_G, P_SUMS, P_ROWS, P_COUNT, P_COLUMN, N_PARAMS };

static LLVMValueRef sum_at(const Rows *r, LLVMValueRef sums, int64_t k) {
  const DepthwiseWeightRows *s = r->s;
  int64_t in_row = s->taps[1] * s->group;
  return cg_at(r->c, r->c->f32, sums, cg_i64(r->c, k / in_row * s->sums_row + k % in_row * s->sums_tap));
}

static void make_rows(Cg *c, LLVMValueRef fn, void *ctx) {
  Rows r = {.c = c, .s = ctx, .count = LLVMGetParam(fn, P_COUNT), .pixels = pixels_at_once(c->t)};
  r.column = LLVMGetParam(fn, P_COLUMN);
  const DepthwiseWeightRows *s = r.s;
  LLVMValueRef sum[MAX_CARRY], sums = LLVMGetParam(fn, P_SUMS);
  if (s->lanes < c->t->vl) r.mask = cg_mask(c, cg_i64(c, s->lanes));
  for (int64_t k = 0; k < s->sums; k++) sum[k] = cg_load(c, c->vf, sum_at(&r, sums, k));
  Loop l;
  cg_sums_begin(c, &l, cg_i64(c, 0), LLVMGetParam(fn, P_ROWS), sum, (uint32_t)s->sums);
  Pixels p = {.r = &r,
              .x = cg_at(c, c->f32, LLVMGetParam(fn, P_X), cg_mul(c, l.i, cg_i64(c, s->x_row))),
              .g = cg_at(c, c->f32, LLVMGetParam(fn, P_G), cg_mul(c, l.i, cg_i64(c, s->g_row)))};
  if (s->count) known_row(&p, sum);
  else any_row(&p, sum);
  cg_sums_end(c, &l, sum);
  for (int64_t k = 0; k < s->sums; k++) cg_store(c, sum[k], sum_at(&r, sums, k));
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
