// A row of pixels of a depthwise convolution (depthwise.h), read where it lies:
//
//   out[pixel, c] = sum over taps and channels i of c's group of x[pixel * src_step + tap, i] * weights[tap, i, c]
//
// for a vector of channels and some neighbouring pixels at a time, whose sums are independent. A vector of x is
// read once for all taps of a row that meet it, and its channels are spread over their groups' lanes. Taps that lie outside
// are left out: planes and rows at run time, columns at the ends of the row as these are compiled, or by the run too.
#include "codegen/conv/depthwise.h"

enum {
  PIXELS = CG_DEPTHWISE_PIXELS,
  UNROLLED = 40,
  MOST_LANES = 64
};  // UNROLLED: most weights of a row of taps that is no loop

typedef struct {
  Cg *c;
  const DepthwiseRow *s;
  DepthwiseArgs a;
} Row;

// Adjacent pixels for one vector of channels, or for its masked lanes.
typedef struct {
  const Row *r;
  const TapPixels *p;
  V x, w, mask;
  V lo, hi;  // taps of a row, where they are a loop
} Taps;

V cg_spread_lanes(Cg *c, V x, int64_t group, int64_t nth) {
  uint32_t from[MOST_LANES];
  if (group == 1) return x;
  for (int64_t k = 0; k < c->t->vl; k++) from[k] = (uint32_t)(k / group * group + nth);
  return cg_shuffle(c, x, LLVMGetPoison(c->vf), from, c->t->vl);
}

static V load_x(Cg *c, const Taps *t, V at) {
  V p = cg_at(c, c->f32, t->x, at);
  return t->mask ? cg_load_masked(c, c->vf, p, t->mask) : cg_load(c, c->vf, p);
}

static V weight(Cg *c, const Taps *t, V tap, int64_t nth) {
  V at = cg_add(c, cg_times(c, tap, t->r->s->w_gap[2]), cg_i64(c, nth * c->t->vl));
  return cg_get(c, c->vf, t->w, at);
}

// ---- taps of a row
static bool is_loop(const DepthwiseRow *s) { return s->row.taps * s->group > UNROLLED; }

// Adds column `at` of x to all pixels and taps that meet there.
static void one_column(const Taps *t, int64_t at, const V *w, V *sum) {
  const DepthwiseRow *s = t->r->s;
  Cg *c = t->r->c;
  V x = NULL;
  for (int64_t nth = 0; nth < s->group; nth++) {
    V v = NULL;
    for (int64_t tap = 0; tap < s->row.taps; tap++) {
      int64_t k = cg_tap_pixel(t->p, at, tap);
      if (k < 0) continue;
      if (!x) x = load_x(c, t, cg_i64(c, at * s->pixel));
      if (!v) v = cg_spread_lanes(c, x, s->group, nth);
      sum[k] = cg_fma(c, v, w[tap * s->group + nth], sum[k]);
    }
  }
}

static void unrolled_taps(const Taps *t, V *sum) {
  const DepthwiseRow *s = t->r->s;
  Cg *c = t->r->c;
  V w[UNROLLED];
  for (int64_t tap = 0; tap < s->row.taps; tap++)
    for (int64_t nth = 0; nth < s->group; nth++) w[tap * s->group + nth] = weight(c, t, cg_i64(c, tap), nth);
  for (int64_t at = 0; at <= cg_tap_last_column(t->p); at++)
    if (cg_tap_inside(t->p, at)) one_column(t, at, w, sum);
}

static void loop_of_taps(const Taps *t, V *sum) {
  const DepthwiseRow *s = t->r->s;
  Cg *c = t->r->c;
  for (Loop l = cg_carry(c, t->lo, t->hi, cg_i64(c, 1), sum, (uint32_t)t->p->n); cg_next(&l);) {
    for (int64_t nth = 0; nth < s->group; nth++) {
      V w = weight(c, t, l.i, nth), tap = cg_times(c, l.i, s->row.gap * s->pixel);
      for (int64_t k = 0; k < t->p->n; k++) {
        V x = load_x(c, t, cg_add(c, tap, cg_i64(c, k * s->row.src_step * s->pixel)));
        sum[k] = cg_fma(c, cg_spread_lanes(c, x, s->group, nth), w, sum[k]);
      }
    }
  }
}

// Taps of this axis and of the following ones.
static void axis_of_taps(const Taps *t, uint32_t axis, V *sum) {
  const Row *r = t->r;
  Cg *c = r->c;
  if (axis == CONV_AXES - 1) {
    if (t->lo) loop_of_taps(t, sum);
    else unrolled_taps(t, sum);
    return;
  }
  int64_t first, end;
  Inside in = r->a.taps[axis];
  bool known = cg_const_value(in.lo, &first) && cg_const_value(in.hi, &end);
  if (known && first == 0 && end == 1) {
    axis_of_taps(t, axis + 1, sum);
    return;
  }
  Taps next = *t;
  for (Loop l = cg_carry(c, in.lo, in.hi, cg_i64(c, 1), sum, (uint32_t)t->p->n); cg_next(&l);) {
    next.x = cg_row(c, t->x, l.i, cg_i64(c, r->s->x_gap[axis]));
    next.w = cg_row(c, t->w, l.i, cg_i64(c, r->s->w_gap[axis]));
    axis_of_taps(&next, axis + 1, sum);
  }
}

// ---- pixels
static void one_vector(const Taps *of, V channel, V mask) {
  const TapPixels *p = of->p;
  const DepthwiseRow *s = of->r->s;
  const DepthwiseArgs *a = &of->r->a;
  Cg *c = of->r->c;
  V sum[PIXELS], x = cg_add(c, cg_times(c, cg_tap_first_column(c, p), s->pixel), channel);
  V out = cg_add(c, cg_times(c, p->first, s->out_pixel), channel);
  Taps t = *of;
  t.mask = mask, t.x = cg_at(c, c->f32, a->x, x);
  t.w = cg_row(c, a->w, channel, cg_i64(c, s->w_vector));
  for (int64_t k = 0; k < p->n; k++) sum[k] = cg_splat(c, cg_f32(c, 0));
  axis_of_taps(&t, 0, sum);
  for (int64_t k = 0; k < p->n; k++) {
    V at = cg_at(c, c->f32, a->out, cg_add(c, out, cg_i64(c, k * s->out_pixel)));
    if (mask) cg_store_masked(c, sum[k], at, mask);
    else cg_store(c, sum[k], at);
  }
}

// At the border of a row of the run, with the taps that lie inside.
static void some_pixels(const TapPixels *p, void *ctx, V *none) {
  const Row *r = ctx;
  const TapRow *row = p->row;
  Cg *c = r->c;
  (void)none;
  V taps = cg_i64(c, row->taps);
  Taps t = {.r = r, .p = p};
  if (is_loop(r->s)) t.lo = cg_i64(c, 0), t.hi = taps;
  if (p->border) {
    V column = cg_add(c, cg_times(c, p->first, row->src_step), r->a.column);
    Inside in = cg_inside(c, column, row->gap, 1, r->a.columns, taps);
    t.lo = in.lo, t.hi = in.hi;
  }
  for (Pieces v = cg_pieces(c, r->s->channels, c->t->vl); cg_next_piece(&v);)
    one_vector(&t, v.i, v.n < c->t->vl ? cg_mask(c, cg_i64(c, v.n)) : NULL);
}

// ---- the function
enum { P_X, P_W, P_OUT, P_LO, P_HI = P_LO + 2, P_COUNT = P_HI + 2, P_COLUMN, P_COLUMNS, N_PARAMS };

static void make_row(Cg *c, V fn, void *ctx) {
  Row r = {.c = c, .s = ctx};
  const DepthwiseRow *s = r.s;
  r.a = (DepthwiseArgs){.x = LLVMGetParam(fn, P_X), .w = LLVMGetParam(fn, P_W), .out = LLVMGetParam(fn, P_OUT)};
  r.a.count = s->by_run ? LLVMGetParam(fn, P_COUNT) : cg_i64(c, s->row.count);
  r.a.column = s->by_run ? LLVMGetParam(fn, P_COLUMN) : cg_i64(c, s->row.offset);
  r.a.columns = s->by_run ? LLVMGetParam(fn, P_COLUMNS) : cg_i64(c, s->row.columns);
  for (uint32_t k = 0; k < 2; k++) {
    r.a.taps[k] = (Inside){LLVMGetParam(fn, P_LO + k), LLVMGetParam(fn, P_HI + k)};
    if (!s->x_gap[k]) r.a.taps[k] = (Inside){cg_i64(c, 0), cg_i64(c, 1)};
  }
  TapSums of = {.some_pixels = some_pixels, .ctx = &r};
  if (s->by_run || is_loop(s)) cg_tap_row_of_run(c, &s->row, &of, r.a.count, r.a.column, r.a.columns, NULL);
  else cg_tap_row(c, &s->row, &of, NULL);
  LLVMBuildRetVoid(c->b);
}

void cg_depthwise_row(Cg *c, const DepthwiseRow *s, const DepthwiseArgs *a) {
  const TapRow *r = &s->row;
  const int64_t sizes[] = {s->channels, s->group,    s->pixel,    s->w_vector, r->count,   s->out_pixel, r->src_step,
                           r->gap,      r->offset,   r->columns,  s->taps[0],  s->taps[1], r->taps,      s->x_gap[0],
                           s->x_gap[1], s->w_gap[0], s->w_gap[1], s->w_gap[2], s->by_run};
  V zero = cg_i64(c, 0),
    arg[N_PARAMS] = {a->x, a->w, a->out, a->taps[0].lo, a->taps[1].lo, a->taps[0].hi, a->taps[1].hi};
  arg[P_COUNT] = s->by_run ? a->count : zero;
  arg[P_COLUMN] = s->by_run ? a->column : zero, arg[P_COLUMNS] = s->by_run ? a->columns : zero;
  cg_call_sized(c, "depthwise", sizes, sizeof sizes / sizeof *sizes, arg, N_PARAMS, make_row, (void *)s);
}
