// Steps of a pool along its last axis (pool.h).
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/pool.h"
#include "ir/resize.h"

enum { LAST = POOL_AXES - 1 };

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static void add_tap(PoolPhase *p, int64_t at) { p->at[p->n++] = at; }

// ---- windows, and positions whose windows have an element
static bool of_windows(const Pool *p, PoolColumns *out) {
  int64_t stride = p->stride[LAST], d = p->dilation[LAST], pad = p->pad[LAST], kernel = p->kernel[LAST];
  if (p->shares || stride > POOL_MOST_STRIDE || kernel > POOL_MOST_TAPS || pad > POOL_MOST_TAPS) return false;
  out->stride = p->is_grad ? 1 : (uint32_t)stride, out->n_phases = p->is_grad ? (uint32_t)stride : 1;
  for (int64_t t = 0; t < kernel && !p->is_grad; t++) add_tap(&out->phase[0], t * d - pad);
  for (uint32_t r = 0; r < out->n_phases && p->is_grad; r++)
    for (int64_t t = kernel; t-- > 0;) {
      int64_t begin = (int64_t)r + pad - t * d;  // of the window whose tap t is element r, times the stride
      if (begin % stride == 0) add_tap(&out->phase[r], begin / stride);
    }
  return true;
}

// ---- neighbours of resized axes
// Have all results the taps [lo, hi) of their phases, but for those outside of the source?
static bool follows(const AxisTaps *t, int64_t source, const PoolColumns *s, const int64_t *lo, const int64_t *hi) {
  for (int64_t j = 0; j < t->n; j++) {
    int64_t at = j / s->n_phases * s->stride, r = j % s->n_phases;
    int64_t from = larger(at + lo[r], 0), to = smaller(at + hi[r], source);
    bool is_empty = from >= to;
    if (is_empty ? t->lo[j] < t->hi[j] : t->lo[j] != from || t->hi[j] != to) return false;
  }
  return true;
}

// As the results in the middle have them
static bool of_step(const AxisTaps *t, int64_t source, PoolColumns *out) {
  int64_t lo[POOL_MOST_STRIDE], hi[POOL_MOST_STRIDE], middle = t->n / out->n_phases / 2;
  for (uint32_t r = 0; r < out->n_phases; r++) {
    int64_t j = middle * out->n_phases + r;
    if (j >= t->n) return false;
    lo[r] = t->lo[j] - middle * out->stride, hi[r] = t->hi[j] - middle * out->stride;
    if (hi[r] - lo[r] > POOL_MOST_TAPS) return false;
  }
  if (!follows(t, source, out, lo, hi)) return false;
  for (uint32_t r = 0; r < out->n_phases; r++)
    for (int64_t at = lo[r]; at < hi[r]; at++) add_tap(&out->phase[r], at);
  return true;
}

static bool of_neighbours(const AxisTaps *t, int64_t source, PoolColumns *out) {
  for (uint32_t n = 1; n <= POOL_MOST_STRIDE; n++)
    for (uint32_t stride = 1; stride <= POOL_MOST_STRIDE; stride++) {
      *out = (PoolColumns){.stride = stride, .n_phases = n};
      if (of_step(t, source, out)) return true;
    }
  return false;
}

// Any others, of constant sizes, if they are few
static bool of_gathered(const AxisTaps *t, PoolColumns *out) {
  *out = (PoolColumns){.stride = 1, .n_phases = 1};
  for (int64_t j = 0; j < t->n; j++) out->n_gathered = (uint32_t)larger(out->n_gathered, t->hi[j] - t->lo[j]);
  return out->n_gathered && out->n_gathered <= POOL_MOST_GATHERED;
}

bool ir_pool_columns(const Fn *f, Val v, RtArena *mem, PoolColumns *out) {
  Pool p;
  ir_pool(f, v, &p);
  *out = (PoolColumns){.stride = 1};
  if (!ir_attr(f, v, KEY_filter)) return of_windows(&p, out);
  AxisTaps t = ir_axis_taps(f, v, p.rank - 1, mem);
  if (of_neighbours(&t, ir_dim_bound(f->prog, p.is_grad ? p.out[LAST] : p.in[LAST]), out)) return true;
  return ir_dim_is_const(f->prog, p.in[LAST]) && ir_dim_is_const(f->prog, p.out[LAST]) && of_gathered(&t, out);
}
