// A row of pixels of a depthwise convolution (depthwise.h), read where it lies:
//
//   out[pixel, c] = sum over taps and channels i of c's group of x[pixel * src_step + tap, i] * weights[tap, i, c]
//
// for a vector of channels and some neighbouring pixels at a time, whose sums do not wait for one another. A vector of x is
// read once for all taps of a row that meet it, and its channels are spread over their groups' lanes. Taps that lie outside
// are left out: planes and rows at run time, columns at the ends of the row as these are compiled, or by the run too.
#include "codegen/conv/depthwise.h"

#include <stdio.h>

enum { PIXELS = 8, UNROLLED = 40, MOST_LANES = 64 };  // UNROLLED: most weights of a row of taps that is no loop

typedef struct {
  Cg *c;
  const DepthwiseRow *s;
  DepthwiseArgs a;
} Row;

// Some neighbouring pixels.
typedef struct {
  const Row *r;
  LLVMValueRef first;
  uint32_t n;
  int64_t known;        // the first one, if some columns of their taps may lie outside; -1: none does
  LLVMValueRef lo, hi;  // taps of a row, where they are a loop
} Pixels;

// Those for a vector of channels, or what the mask has of it.
typedef struct {
  const Pixels *p;
  LLVMValueRef x, w, mask;
} Taps;

LLVMValueRef cg_spread_lanes(Cg *c, LLVMValueRef x, int64_t group, int64_t nth) {
  LLVMValueRef lane[MOST_LANES];
  if (group == 1) return x;
  for (int64_t k = 0; k < c->t->vl; k++) lane[k] = cg_i32(c, (int32_t)(k / group * group + nth));
  return LLVMBuildShuffleVector(c->b, x, LLVMGetUndef(c->vf), LLVMConstVector(lane, c->t->vl), "");
}

static LLVMValueRef load_x(Cg *c, const Taps *t, LLVMValueRef at) {
  LLVMValueRef p = cg_at(c, c->f32, t->x, at);
  return t->mask ? cg_load_masked(c, c->vf, p, t->mask) : cg_load(c, c->vf, p);
}

static LLVMValueRef weight(Cg *c, const Taps *t, LLVMValueRef tap, int64_t nth) {
  const DepthwiseRow *s = t->p->r->s;
  LLVMValueRef at = cg_add(c, cg_mul(c, tap, cg_i64(c, s->w_gap[2])), cg_i64(c, nth * c->t->vl));
  return cg_load(c, c->vf, cg_at(c, c->f32, t->w, at));
}

// ---- taps of a row
static bool is_inside(const Pixels *p, int64_t at) {
  int64_t column = p->known * p->r->s->src_step + p->r->s->offset + at;
  return p->known < 0 || (column >= 0 && column < p->r->s->columns);
}

// Number of the pixel whose tap number `tap` is `at` columns from the first one's first tap; below 0: none.
static int64_t pixel_at(const Pixels *p, int64_t at, int64_t tap) {
  const DepthwiseRow *s = p->r->s;
  int64_t from = at - tap * s->gap;
  return from < 0 || from % s->src_step || from / s->src_step >= p->n ? -1 : from / s->src_step;
}

// The column `at` of x to all pixels and taps that meet there.
static void one_column(const Taps *t, int64_t at, const LLVMValueRef *w, LLVMValueRef *sum) {
  const DepthwiseRow *s = t->p->r->s;
  Cg *c = t->p->r->c;
  LLVMValueRef x = NULL;
  for (int64_t nth = 0; nth < s->group; nth++) {
    LLVMValueRef v = NULL;
    for (int64_t tap = 0; tap < s->taps[2]; tap++) {
      int64_t k = pixel_at(t->p, at, tap);
      if (k < 0) continue;
      if (!x) x = load_x(c, t, cg_i64(c, at * s->pixel));
      if (!v) v = cg_spread_lanes(c, x, s->group, nth);
      sum[k] = cg_fma(c, v, w[tap * s->group + nth], sum[k]);
    }
  }
}

static void unrolled_taps(const Taps *t, LLVMValueRef *sum) {
  const DepthwiseRow *s = t->p->r->s;
  Cg *c = t->p->r->c;
  LLVMValueRef w[UNROLLED];
  for (int64_t tap = 0; tap < s->taps[2]; tap++)
    for (int64_t nth = 0; nth < s->group; nth++) w[tap * s->group + nth] = weight(c, t, cg_i64(c, tap), nth);
  int64_t last = (t->p->n - 1) * s->src_step + (s->taps[2] - 1) * s->gap;
  for (int64_t at = 0; at <= last; at++)
    if (is_inside(t->p, at)) one_column(t, at, w, sum);
}

static void loop_of_taps(const Taps *t, LLVMValueRef *sum) {
  const DepthwiseRow *s = t->p->r->s;
  Cg *c = t->p->r->c;
  Loop l;
  cg_sums_begin(c, &l, t->p->lo, t->p->hi, sum, t->p->n);
  for (int64_t nth = 0; nth < s->group; nth++) {
    LLVMValueRef w = weight(c, t, l.i, nth), tap = cg_mul(c, l.i, cg_i64(c, s->gap * s->pixel));
    for (uint32_t k = 0; k < t->p->n; k++) {
      LLVMValueRef x = load_x(c, t, cg_add(c, tap, cg_i64(c, k * s->src_step * s->pixel)));
      sum[k] = cg_fma(c, cg_spread_lanes(c, x, s->group, nth), w, sum[k]);
    }
  }
  cg_sums_end(c, &l, sum);
}

// Taps of this axis and of those behind it.
static void axis_of_taps(const Taps *t, uint32_t axis, LLVMValueRef *sum) {
  const Row *r = t->p->r;
  Cg *c = r->c;
  if (axis == CONV_AXES - 1) {
    if (t->p->lo) loop_of_taps(t, sum);
    else unrolled_taps(t, sum);
    return;
  }
  int64_t first, end;
  bool known = cg_const_value(r->a.first[axis], &first) && cg_const_value(r->a.end[axis], &end);
  if (known && first == 0 && end == 1) {
    axis_of_taps(t, axis + 1, sum);
    return;
  }
  Taps next = *t;
  Loop l;
  cg_sums_begin(c, &l, r->a.first[axis], r->a.end[axis], sum, t->p->n);
  next.x = cg_at(c, c->f32, t->x, cg_mul(c, l.i, cg_i64(c, r->s->x_gap[axis])));
  next.w = cg_at(c, c->f32, t->w, cg_mul(c, l.i, cg_i64(c, r->s->w_gap[axis])));
  axis_of_taps(&next, axis + 1, sum);
  cg_sums_end(c, &l, sum);
}

// ---- pixels
static void one_vector(const Pixels *p, LLVMValueRef channel, LLVMValueRef mask) {
  const DepthwiseRow *s = p->r->s;
  Cg *c = p->r->c;
  LLVMValueRef sum[PIXELS], column = cg_add(c, cg_mul(c, p->first, cg_i64(c, s->src_step)), cg_i64(c, s->offset));
  LLVMValueRef x = cg_add(c, cg_mul(c, column, cg_i64(c, s->pixel)), channel);
  LLVMValueRef out = cg_add(c, cg_mul(c, p->first, cg_i64(c, s->out_pixel)), channel);
  Taps t = {p, cg_at(c, c->f32, p->r->a.x, x), cg_at(c, c->f32, p->r->a.w, cg_mul(c, channel, cg_i64(c, s->w_vector))),
            mask};
  for (uint32_t k = 0; k < p->n; k++) sum[k] = cg_splat(c, cg_f32(c, 0));
  axis_of_taps(&t, 0, sum);
  for (uint32_t k = 0; k < p->n; k++) {
    LLVMValueRef at = cg_at(c, c->f32, p->r->a.out, cg_add(c, out, cg_i64(c, k * s->out_pixel)));
    if (mask) cg_store_masked(c, sum[k], at, mask);
    else cg_store(c, sum[k], at);
  }
}

static void some_pixels(const Pixels *p) {
  Cg *c = p->r->c;
  int64_t vl = c->t->vl, whole = p->r->s->channels / vl * vl, left = p->r->s->channels - whole;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, whole), cg_i64(c, vl), NULL, 0);
  one_vector(p, l.i, NULL);
  cg_loop_end(c, &l, NULL);
  if (left) one_vector(p, cg_i64(c, whole), cg_mask(c, cg_i64(c, left)));
}

static bool all_inside(const DepthwiseRow *s, int64_t first, int64_t n) {
  int64_t begin = first * s->src_step + s->offset;
  return begin >= 0 && begin + (n - 1) * s->src_step + (s->taps[2] - 1) * s->gap < s->columns;
}

// Pixels [first, end), whose taps all lie inside.
static void inner_pixels(const Row *r, int64_t first, int64_t end, LLVMValueRef lo, LLVMValueRef hi) {
  Cg *c = r->c;
  int64_t whole = first + (end - first) / PIXELS * PIXELS;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, first), cg_i64(c, whole), cg_i64(c, PIXELS), NULL, 0);
  some_pixels(&(Pixels){r, l.i, PIXELS, -1, lo, hi});
  cg_loop_end(c, &l, NULL);
  if (whole < end) some_pixels(&(Pixels){r, cg_i64(c, whole), (uint32_t)(end - whole), -1, lo, hi});
}

static void unrolled_row(const Row *r) {
  const DepthwiseRow *s = r->s;
  for (int64_t first = 0, end; first < s->count; first = end) {
    for (end = first; end + PIXELS <= s->count && all_inside(s, end, PIXELS);) end += PIXELS;
    if (end > first) {
      inner_pixels(r, first, end, NULL, NULL);
      continue;
    }
    end = cg_smaller(first + PIXELS, s->count);
    some_pixels(&(Pixels){r, cg_i64(r->c, first), (uint32_t)(end - first), first, NULL, NULL});
  }
}

// Pixels [first, end) one by one, with the taps that lie inside.
static void outer_pixels(const Row *r, LLVMValueRef first, LLVMValueRef end) {
  const DepthwiseRow *s = r->s;
  Cg *c = r->c;
  Loop l;
  cg_loop_begin(c, &l, first, end, cg_i64(c, 1), NULL, 0);
  LLVMValueRef zero = cg_i64(c, 0), taps = cg_i64(c, s->taps[2]);
  LLVMValueRef column = cg_add(c, cg_mul(c, l.i, cg_i64(c, s->src_step)), r->a.column);
  LLVMValueRef before = cg_max(c, zero, cg_sub(c, zero, column));
  LLVMValueRef until = cg_max(c, zero, cg_sub(c, r->a.columns, column));
  some_pixels(&(Pixels){r, l.i, 1, -1, cg_min(c, taps, cg_ceil_div_value(c, before, s->gap)),
                        cg_min(c, taps, cg_ceil_div_value(c, until, s->gap))});
  cg_loop_end(c, &l, NULL);
}

static void looped_row(const Row *r) {
  const DepthwiseRow *s = r->s;
  int64_t first = 0, end = s->count;
  while (first < end && first * s->src_step + s->offset < 0) first++;
  while (end > first && !all_inside(s, end - 1, 1)) end--;
  outer_pixels(r, cg_i64(r->c, 0), cg_i64(r->c, first));
  inner_pixels(r, first, end, cg_i64(r->c, 0), cg_i64(r->c, s->taps[2]));
  outer_pixels(r, cg_i64(r->c, end), cg_i64(r->c, s->count));
}

// Those whose taps all lie inside some at once, the rest of them one by one.
static void row_by_run(const Row *r) {
  const DepthwiseRow *s = r->s;
  Cg *c = r->c;
  bool is_loop = s->taps[2] * s->group > UNROLLED;
  LLVMValueRef lo = is_loop ? cg_i64(c, 0) : NULL, hi = is_loop ? cg_i64(c, s->taps[2]) : NULL, zero = cg_i64(c, 0);
  LLVMValueRef first = cg_ceil_div_value(c, cg_max(c, zero, cg_sub(c, zero, r->a.column)), s->src_step);
  LLVMValueRef until = cg_sub(c, r->a.columns, cg_add(c, r->a.column, cg_i64(c, (s->taps[2] - 1) * s->gap)));
  LLVMValueRef end = cg_min(c, r->a.count, cg_ceil_div_value(c, cg_max(c, zero, until), s->src_step));
  first = cg_min(c, first, r->a.count), end = cg_max(c, first, end);
  LLVMValueRef whole = cg_mul(c, cg_div(c, cg_sub(c, end, first), cg_i64(c, PIXELS)), cg_i64(c, PIXELS));
  whole = cg_add(c, first, whole);
  outer_pixels(r, zero, first);
  Loop l;
  cg_loop_begin(c, &l, first, whole, cg_i64(c, PIXELS), NULL, 0);
  some_pixels(&(Pixels){r, l.i, PIXELS, -1, lo, hi});
  cg_loop_end(c, &l, NULL);
  cg_loop_begin(c, &l, whole, end, cg_i64(c, 1), NULL, 0);
  some_pixels(&(Pixels){r, l.i, 1, -1, lo, hi});
  cg_loop_end(c, &l, NULL);
  outer_pixels(r, end, r->a.count);
}

// ---- the function
enum { P_X, P_W, P_OUT, P_FIRST, P_END = P_FIRST + 2, P_COUNT = P_END + 2, P_COLUMN, P_COLUMNS, N_PARAMS };

static void make_row(Cg *c, LLVMValueRef fn, void *ctx) {
  Row r = {.c = c, .s = ctx};
  r.a = (DepthwiseArgs){.x = LLVMGetParam(fn, P_X),
                        .w = LLVMGetParam(fn, P_W),
                        .out = LLVMGetParam(fn, P_OUT),
                        .count = LLVMGetParam(fn, P_COUNT),
                        .column = r.s->by_run ? LLVMGetParam(fn, P_COLUMN) : cg_i64(c, r.s->offset),
                        .columns = r.s->by_run ? LLVMGetParam(fn, P_COLUMNS) : cg_i64(c, r.s->columns)};
  for (uint32_t k = 0; k < 2; k++) {
    r.a.first[k] = LLVMGetParam(fn, P_FIRST + k), r.a.end[k] = LLVMGetParam(fn, P_END + k);
    if (!r.s->x_gap[k]) r.a.first[k] = cg_i64(c, 0), r.a.end[k] = cg_i64(c, 1);
  }
  if (r.s->by_run) row_by_run(&r);
  else if (r.s->taps[2] * r.s->group <= UNROLLED) unrolled_row(&r);
  else looped_row(&r);
  LLVMBuildRetVoid(c->b);
}

void cg_depthwise_row(Cg *c, const DepthwiseRow *s, const DepthwiseArgs *a) {
  char name[512];
  const int64_t sizes[] = {s->channels, s->group,    s->pixel,    s->w_vector, s->count,   s->out_pixel, s->src_step,
                           s->gap,      s->offset,   s->columns,  s->taps[0],  s->taps[1], s->taps[2],   s->x_gap[0],
                           s->x_gap[1], s->w_gap[0], s->w_gap[1], s->w_gap[2], s->by_run};
  int at = snprintf(name, sizeof name, "depthwise");
  for (uint32_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    at += snprintf(name + at, sizeof name - (size_t)at, ".%lld", (long long)sizes[k]);
  LLVMTypeRef types[N_PARAMS] = {c->ptr, c->ptr, c->ptr, c->i64, c->i64, c->i64, c->i64, c->i64, c->i64, c->i64};
  LLVMValueRef zero = cg_i64(c, 0),
               arg[N_PARAMS] = {a->x, a->w, a->out, a->first[0], a->first[1], a->end[0], a->end[1]};
  arg[P_COUNT] = s->by_run ? a->count : zero;
  arg[P_COLUMN] = s->by_run ? a->column : zero, arg[P_COLUMNS] = s->by_run ? a->columns : zero;
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), types, N_PARAMS, false);
  LLVMBuildCall2(c->b, type, cg_helper(c, name, type, make_row, (void *)s), arg, N_PARAMS, "");
}
