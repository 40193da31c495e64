// Pools in the interpreter: every element of every window, as ir/pool.h says.
#include "ir/pool.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/interp/interp.h"

#include <math.h>

typedef struct {
  Pool p;
  int64_t images, channels, in[POOL_AXES], out[POOL_AXES];
} Windows;

typedef struct {
  int64_t at[POOL_AXES], end[POOL_AXES], step[POOL_AXES];
} Window;

static Windows windows_of(const Run *r, Val v) {
  Windows w;
  ir_pool(r->f, v, &w.p);
  w.images = ir_dim_eval(r->f->prog, w.p.n, r->env->slots);
  w.channels = ir_dim_eval(r->f->prog, w.p.channels, r->env->slots);
  for (uint32_t k = 0; k < POOL_AXES; k++) {
    w.in[k] = ir_dim_eval(r->f->prog, w.p.in[k], r->env->slots);
    w.out[k] = ir_dim_eval(r->f->prog, w.p.out[k], r->env->slots);
  }
  return w;
}

static void along(const Windows *w, uint32_t k, int64_t j, Window *out) {
  const Pool *p = &w->p;
  int64_t in = w->in[k], begin = j * p->stride[k] - p->pad[k], d = p->dilation[k];
  if (p->shares) {
    out->at[k] = j * in / w->out[k], out->end[k] = ((j + 1) * in + w->out[k] - 1) / w->out[k], out->step[k] = 1;
    return;
  }
  int64_t end = begin + (p->kernel[k] - 1) * d + 1;
  out->at[k] = begin < 0 ? begin + (-begin + d - 1) / d * d : begin;
  out->end[k] = end < in ? end : in, out->step[k] = d;
}

// Of one window and one channel: x at the image's channel, y and places at the position's.
typedef struct {
  double *x, *y, *place, divisor;
  int64_t first;  // place of the window's first element
} Pair;
typedef void Visit(const Pair *p, double *x, int64_t place);

static void add_to_y(const Pair *p, double *x, int64_t place) {
  (void)place;
  *p->y += *x;
}
static void add_to_x(const Pair *p, double *x, int64_t place) {
  (void)place;
  *x += *p->y / p->divisor;
}
static void add_to_largest(const Pair *p, double *x, int64_t place) {
  if (*p->place == (double)place) *x += *p->y;
}
static void find_largest(const Pair *p, double *x, int64_t place) {
  if (*x > *p->y || isnan(*x)) *p->y = *x, *p->place = (double)place;
}

static void each_element(const Windows *w, const Window *at, const Pair *p, Visit *visit) {
  for (int64_t a = at->at[0]; a < at->end[0]; a += at->step[0])
    for (int64_t b = at->at[1]; b < at->end[1]; b += at->step[1])
      for (int64_t e = at->at[2]; e < at->end[2]; e += at->step[2]) {
        int64_t place = (a * w->in[1] + b) * w->in[2] + e;
        visit(p, p->x + place * w->channels, place);
      }
}

// A window that lies in the padding alone has place -1, which is no element.
static void begin_largest(const Windows *w, const Window *at, const Pair *p) {
  bool is_empty = false;
  for (uint32_t k = 0; k < POOL_AXES; k++) is_empty |= at->at[k] >= at->end[k];
  int64_t first = (at->at[0] * w->in[1] + at->at[1]) * w->in[2] + at->at[2];
  *p->y = -INFINITY, *p->place = is_empty ? -1 : (double)first;
}

static void each_window(const Windows *w, Pair p, Visit *visit) {
  int64_t plane = w->in[0] * w->in[1] * w->in[2] * w->channels, n = 0;
  double *x = p.x, *y = p.y, *place = p.place;
  for (int64_t image = 0; image < w->images; image++)
    for (int64_t j = 0; j < w->out[0] * w->out[1] * w->out[2]; j++) {
      Window at;
      int64_t position[POOL_AXES] = {j / (w->out[1] * w->out[2]), j / w->out[2] % w->out[1], j % w->out[2]};
      for (uint32_t k = 0; k < POOL_AXES; k++) along(w, k, position[k], &at);
      for (int64_t channel = 0; channel < w->channels; channel++, n++) {
        p.x = x + image * plane + channel, p.y = y + n, p.place = place ? place + n : NULL;
        if (visit == find_largest) begin_largest(w, &at, &p);
        each_element(w, &at, &p, visit);
        if (visit == add_to_y) *p.y /= p.divisor;
      }
    }
}

static double divisor_of(const Run *r, Val v) {
  const Attr *a = ir_attr(r->f, v, KEY_divisor);
  return a ? a->u.f : 1;
}

bool eval_max_pool(Run *r, Val v) {
  Windows w = windows_of(r, v);
  double *y = run_result(r, v, 0).v;
  each_window(&w, (Pair){.x = run_arg(r, v, 0).v, .y = y, .place = run_result(r, v, 1).v}, find_largest);
  return true;
}

bool eval_max_pool_grad(Run *r, Val v) {
  Windows w = windows_of(r, v);
  Pair p = {.x = run_result(r, v, 0).v, .y = run_arg(r, v, 0).v, .place = run_arg(r, v, 1).v};
  each_window(&w, p, add_to_largest);
  return true;
}

bool eval_sum_pool(Run *r, Val v) {
  Windows w = windows_of(r, v);
  Pair p = {.x = run_arg(r, v, 0).v, .y = run_result(r, v, 0).v, .divisor = divisor_of(r, v)};
  each_window(&w, p, add_to_y);
  return true;
}

bool eval_sum_pool_grad(Run *r, Val v) {
  Windows w = windows_of(r, v);
  Pair p = {.x = run_result(r, v, 0).v, .y = run_arg(r, v, 0).v, .divisor = divisor_of(r, v)};
  each_window(&w, p, add_to_x);
  return true;
}
