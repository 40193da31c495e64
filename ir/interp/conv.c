// Convolutions in the interpreter: every pair of elements that an op relates, as the formula says.
#include "ir/conv.h"
#include "ir/intern.h"
#include "ir/interp/interp.h"

typedef struct {
  const Conv *c;
  int64_t images;
  double *x, *y, *w;
} Related;

static int64_t elements(const int64_t *size) { return size[0] * size[1] * size[2]; }

// What tap t of the window at position p reads; -1: padding.
static int64_t read_at(const Conv *c, uint32_t axis, int64_t p, int64_t t) {
  int64_t at = p * c->stride[axis] + t * c->dilation[axis] - c->before[axis];
  return at >= 0 && at < c->in[axis] ? at : -1;
}

typedef void Visit(double *x, double *y, double *w);
static void add_to_y(double *x, double *y, double *w) { *y += *x * *w; }
static void add_to_x(double *x, double *y, double *w) { *x += *y * *w; }
static void add_to_w(double *x, double *y, double *w) { *w += *x * *y; }

// One pixel of x and one of y, which tap `tap` of the window relates.
static void pixel(const Related *r, double *x, double *y, int64_t tap, Visit *visit) {
  const Conv *c = r->c;
  int64_t in_group = c->c / c->groups, out_group = c->o / c->groups, taps = ir_conv_taps(c);
  int64_t of_x = c->channels_first ? elements(c->in) : 1, of_y = c->channels_first ? elements(c->out) : 1;
  for (int64_t o = 0; o < c->o; o++)
    for (int64_t k = 0; k < in_group; k++)
      visit(x + (o / out_group * in_group + k) * of_x, y + o * of_y, r->w + (o * in_group + k) * taps + tap);
}

static void each_tap(const Related *r, const int64_t *p, double *x, double *y, Visit *visit) {
  const Conv *c = r->c;
  for (int64_t tap = 0; tap < ir_conv_taps(c); tap++) {
    int64_t t[CONV_AXES] = {tap / (c->kernel[1] * c->kernel[2]), tap / c->kernel[2] % c->kernel[1], tap % c->kernel[2]};
    int64_t at = 0;
    for (uint32_t k = 0; k < CONV_AXES && at >= 0; k++) {
      int64_t i = read_at(c, k, p[k], t[k]);
      at = i < 0 ? -1 : at * c->in[k] + i;
    }
    if (at >= 0) pixel(r, x + at * (c->channels_first ? 1 : c->c), y, tap, visit);
  }
}

static void each_pixel(const Related *r, Visit *visit) {
  const Conv *c = r->c;
  int64_t in = elements(c->in), out = elements(c->out);
  for (int64_t n = 0; n < r->images; n++)
    for (int64_t p = 0; p < out; p++) {
      int64_t at[CONV_AXES] = {p / (c->out[1] * c->out[2]), p / c->out[2] % c->out[1], p % c->out[2]};
      each_tap(r, at, r->x + n * in * c->c, r->y + n * out * c->o + p * (c->channels_first ? 1 : c->o), visit);
    }
}

// With the sizes of the run.
static Conv conv_of(const Run *r, Val v) {
  Conv c;
  ir_conv(r->f, v, &c);
  for (uint32_t k = 0; k < CONV_AXES; k++) {
    c.in[k] = ir_dim_eval(r->f->prog, c.in_dim[k], r->env->slots);
    c.out[k] = ir_dim_eval(r->f->prog, c.out_dim[k], r->env->slots);
  }
  return c;
}

bool eval_conv(Run *r, Val v) {
  Conv c = conv_of(r, v);
  Tensor y = run_result(r, v, 0);
  each_pixel(&(Related){&c, run_sizes(r, v).dim[0], run_arg(r, v, 0).v, y.v, run_arg(r, v, 1).v}, add_to_y);
  return true;
}

bool eval_conv_transpose(Run *r, Val v) {
  Conv c = conv_of(r, v);
  Tensor x = run_result(r, v, 0);
  each_pixel(&(Related){&c, run_sizes(r, v).dim[0], x.v, run_arg(r, v, 0).v, run_arg(r, v, 1).v}, add_to_x);
  return true;
}

bool eval_conv_weight_grad(Run *r, Val v) {
  Conv c = conv_of(r, v);
  Tensor w = run_result(r, v, 0);
  each_pixel(&(Related){&c, run_arg_sizes(r, v, 0).dim[0], run_arg(r, v, 0).v, run_arg(r, v, 1).v, w.v}, add_to_w);
  return true;
}
