// Gradients of maxima whose windows overlap much: each g is added at its place (pool_walk.h), one after the other, where the
// walk over pixels would ask of each element which of its windows have it as their place.
//
//   5 x 5, stride 1      an element has 25 windows, 25 comparisons of vectors; a window has one place
//
// An element's sum takes the same g in the same order, by number of the window, so that its bits are those of the walk. A
// worker has some planes of one channel, or neighbouring channels of an image, in turn: sums that wait for the one before
// are of different ones.
#include "codegen/reduce/pool_walk.h"

#include <math.h>

enum { PLANES = 4 };  // in turn

static double bound(const PoolWalk *w, Dim d) { return (double)ir_dim_bound(w->c->f->prog, d); }

// Cycles of the walk for an image, as measured on AVX-512: 4 for each window that a vector of elements asks, and 5, or 12 with a
// third axis, for the vector.
static double cycles_of_asking(const PoolWalk *w) {
  const Pool *p = &w->p;
  double windows = 1, vectors = 1, vl = w->c->t->vl, beside = p->rank < POOL_AXES ? 5 : 12;
  PoolColumns columns;
  bool is_plane = cg_is_int(w->channels, 1) && ir_pool_columns(w->c->f, (Val){w->c->k->first}, w->c->mem, &columns);
  for (uint32_t k = 0; k < POOL_AXES; k++) {
    double in = bound(w, p->in[k]), stride = (double)p->stride[k];
    bool has_steps = is_plane && k == POOL_AXES - 1;  // a vector of steps: `stride` elements ask together
    windows *= p->shares ? fmax(1, bound(w, p->out[k]) / fmax(1, in)) : (double)p->kernel[k] / (has_steps ? 1 : stride);
    vectors *= has_steps ? ceil(ceil(in / stride) / vl) : in;
  }
  if (!is_plane) vectors *= ceil(bound(w, p->channels) / vl);
  return vectors * (4 * windows + beside);
}

bool cg_pool_scatters(const PoolWalk *w) {
  const Pool *p = &w->p;
  double windows = bound(w, p->channels);
  for (uint32_t k = 0; k < POOL_AXES; k++) windows *= bound(w, p->out[k]);
  return w->op == OP_max_pool_grad && cycles_of_asking(w) > 3.5 * windows;
}

typedef struct {
  const PoolWalk *w;
  V elements, windows;  // of a plane of the gradient and of g
} Planes;

static Planes planes_of(const PoolWalk *w) {
  Cg *c = w->c;
  V elements = cg_mul(c, cg_mul(c, w->to[0], w->to[1]), w->to[2]),
    windows = cg_mul(c, cg_mul(c, w->from[0], w->from[1]), w->from[2]);
  return (Planes){w, elements, windows};
}

// Adds g[at] to the element of the plane, or channel, at x[first ..] that it goes to; -1 is none.
static void add(const Planes *p, V at, V first) {
  const PoolWalk *w = p->w;
  Cg *c = w->c;
  V place = cg_sext(c, cg_get(c, c->i32, w->src_place, at), c->i64);
  for (If s = cg_when(c, cg_below(c, place, p->elements)); cg_then(&s);) {
    V to = cg_add(c, first, cg_mul(c, place, w->channels));
    cg_put(c, cg_fadd(c, cg_get(c, c->f32, w->out, to), cg_get(c, c->f32, w->src, at)), w->out, to);
  }
}

static void clear(const Planes *p, V at, V n) {
  Cg *c = p->w->c;
  V whole, zeros = cg_zeros(c);
  for (Loop l = cg_each_whole(c, cg_i64(c, 0), n, c->t->vl, &whole); cg_next(&l);)
    cg_put(c, zeros, p->w->out, cg_add(c, at, l.i));
  for (If s = cg_when(c, cg_lt(c, whole, n)); cg_then(&s);)
    cg_put_masked(c, zeros, p->w->out, cg_add(c, at, whole), cg_mask(c, cg_sub(c, n, whole)));
}

// ---- one channel
static void some_planes(const Planes *p, V first, uint32_t n) {
  Cg *c = p->w->c;
  clear(p, cg_mul(c, first, p->elements), times(c, p->elements, n));
  for (Loop l = cg_count(c, p->windows); cg_next(&l);)
    for (uint32_t k = 0; k < n; k++) {
      V plane = plus(c, first, k);
      add(p, cg_index(c, plane, p->windows, l.i), cg_mul(c, plane, p->elements));
    }
}

static void each_plane(const Planes *p) {
  Cg *c = p->w->c;
  V lo, hi, whole;
  cg_share(c, cg_dim(c, p->w->p.n), PLANES, &lo, &hi);
  for (Loop l = cg_each_whole(c, lo, hi, PLANES, &whole); cg_next(&l);) some_planes(p, l.i, PLANES);
  for (Loop l = cg_each(c, whole, hi); cg_next(&l);) some_planes(p, l.i, 1);
}

// ---- several channels
static void some_channels(const Planes *p, V image, V channel, V n) {
  const PoolWalk *w = p->w;
  Cg *c = w->c;
  V first = cg_index(c, cg_mul(c, image, p->elements), w->channels, channel);
  for (Loop l = cg_count(c, p->elements); cg_next(&l);) clear(p, cg_index(c, l.i, w->channels, first), n);
  for (Loop l = cg_count(c, p->windows); cg_next(&l);) {
    V at = cg_index(c, cg_index(c, image, p->windows, l.i), w->channels, channel), whole;
    for (Loop k = cg_each_whole(c, cg_i64(c, 0), n, PLANES, &whole); cg_next(&k);)
      for (uint32_t m = 0; m < PLANES; m++) {
        V own = plus(c, k.i, m);
        add(p, cg_add(c, at, own), cg_add(c, first, own));
      }
    for (Loop k = cg_each(c, whole, n); cg_next(&k);) add(p, cg_add(c, at, k.i), cg_add(c, first, k.i));
  }
}

static void each_image(const Planes *p) {
  const PoolWalk *w = p->w;
  Cg *c = w->c;
  int64_t lanes = TN_ALIGN / 4;
  V blocks = cg_ceil_div_value(c, w->channels, lanes);
  for (Loop l = cg_each_shared(c, cg_mul(c, cg_dim(c, w->p.n), blocks), 1); cg_next(&l);) {
    V image = cg_div(c, l.i, blocks), channel = times(c, cg_sub(c, l.i, cg_mul(c, image, blocks)), lanes);
    some_channels(p, image, channel, cg_min(c, cg_sub(c, w->channels, channel), cg_i64(c, lanes)));
  }
}

void cg_pool_scatter(const PoolWalk *w) {
  Planes p = planes_of(w);
  if (cg_is_int(w->channels, 1)) each_plane(&p);
  else each_image(&p);
}
