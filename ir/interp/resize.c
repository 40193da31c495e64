// Images of other sizes in the interpreter: all axes at once.
#include "ir/resize.h"
#include "ir/intern.h"
#include "ir/interp/interp.h"
#include "ir/pool.h"

typedef struct {
  int64_t images, channels, from[POOL_AXES], to[POOL_AXES];
  AxisTaps taps[POOL_AXES];
} Resize;

static Resize resize_of(const Run *r, Val v) {
  Pool p;
  Resize z;
  ir_pool(r->f, v, &p);
  z.images = ir_dim_eval(r->f->prog, p.n, r->env->slots),
  z.channels = ir_dim_eval(r->f->prog, p.channels, r->env->slots);
  static int32_t zero[1] = {0}, one[1] = {1};
  static float whole[1] = {1};
  for (uint32_t k = 0; k < POOL_AXES; k++) {
    int64_t in = ir_dim_bound(r->f->prog, p.in[k]), out = ir_dim_bound(r->f->prog, p.out[k]);
    z.from[k] = p.is_grad ? out : in, z.to[k] = p.is_grad ? in : out;
    z.taps[k] = (AxisTaps){1, 1, zero, one, whole};
    if (k + p.rank >= POOL_AXES) z.taps[k] = ir_axis_taps(r->f, v, k + p.rank - POOL_AXES, r->env->mem);
  }
  return z;
}

static double weight(const Resize *z, uint32_t k, int64_t j, int64_t i) {
  const AxisTaps *t = &z->taps[k];
  return (double)t->weight[j * t->width + i - t->lo[j]];
}

static double element(const Resize *z, const double *x, const int64_t *at) {
  const AxisTaps *t = z->taps;
  double sum = 0;
  for (int64_t a = t[0].lo[at[0]]; a < t[0].hi[at[0]]; a++)
    for (int64_t b = t[1].lo[at[1]]; b < t[1].hi[at[1]]; b++)
      for (int64_t e = t[2].lo[at[2]]; e < t[2].hi[at[2]]; e++)
        sum += weight(z, 0, at[0], a) * weight(z, 1, at[1], b) * weight(z, 2, at[2], e) *
               x[((a * z->from[1] + b) * z->from[2] + e) * z->channels];
  return sum;
}

static bool eval(Run *r, Val v) {
  Resize z = resize_of(r, v);
  double *x = run_arg(r, v, 0).v, *y = run_result(r, v, 0).v;
  int64_t from = z.from[0] * z.from[1] * z.from[2], to = z.to[0] * z.to[1] * z.to[2];
  for (int64_t n = 0; n < z.images * to; n++) {
    int64_t j = n % to, at[POOL_AXES] = {j / (z.to[1] * z.to[2]), j / z.to[2] % z.to[1], j % z.to[2]};
    for (int64_t c = 0; c < z.channels; c++) *y++ = element(&z, x + n / to * from * z.channels + c, at);
  }
  return true;
}

bool eval_resize(Run *r, Val v) { return eval(r, v); }
bool eval_resize_grad(Run *r, Val v) { return eval(r, v); }
