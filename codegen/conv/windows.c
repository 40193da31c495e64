// Phases and taps of convolutions (windows.h).
#include "codegen/conv/windows.h"

void cg_conv_shape(const Fn *f, Val v, ConvShape *s) {
  *s = (ConvShape){.n_windows = 1};
  ir_conv(f, v, &s->c);
  const Conv *c = &s->c;
  s->transposed = ir_ins(f, v)->op == OP_conv_transpose;
  s->src_channels = (s->transposed ? c->o : c->c) / c->groups;
  s->dst_channels = (s->transposed ? c->c : c->o) / c->groups;
  s->rows = ir_conv_taps(c) * s->src_channels;
  for (uint32_t k = 0; k < CONV_AXES; k++) {
    s->src[k] = s->transposed ? c->out[k] : c->in[k];
    s->dst[k] = s->transposed ? c->in[k] : c->out[k];
    s->src_dim[k] = s->transposed ? c->out_dim[k] : c->in_dim[k];
    s->dst_dim[k] = s->transposed ? c->in_dim[k] : c->out_dim[k];
    if (s->transposed) s->n_windows *= (uint32_t)c->stride[k];
  }
}

static Phase forward(const Conv *c, uint32_t k) {
  return (Phase){.step = 1,
                 .count = c->out[k],
                 .src_step = c->stride[k],
                 .n_taps = c->kernel[k],
                 .tap_step = 1,
                 .offset = -c->before[k],
                 .gap = c->dilation[k]};
}

// Element r + j * stride of x meets tap t of the window at p where p * stride = r + j * stride + before - t * dilation.
static Phase transposed(const Conv *c, uint32_t k, int64_t r) {
  Phase p = {.first = r, .step = c->stride[k], .src_step = 1, .gap = 1, .tap_step = -1};
  p.count = r < c->in[k] ? cg_ceil_div(c->in[k] - r, c->stride[k]) : 0;
  int64_t last = -1;
  for (int64_t t = c->kernel[k] - 1; t >= 0; t--) {  // in the order of their offsets
    int64_t at = r + c->before[k] - t * c->dilation[k];
    if (at % c->stride[k]) continue;
    int64_t offset = at / c->stride[k];
    if (p.n_taps == 0) p.tap = t, p.offset = offset;
    if (p.n_taps == 1) p.tap_step = t - last, p.gap = offset - p.offset;
    last = t, p.n_taps++;
  }
  return p;
}

V cg_conv_count(Cg *c, const ConvShape *s, const Phase *p, uint32_t k) {
  V left = cg_sub(c, cg_dim(c, s->dst_dim[k]), cg_i64(c, p->first));
  return cg_ceil_div_value(c, p->first ? cg_max(c, cg_i64(c, 0), left) : left, p->step);
}

bool cg_conv_next(const ConvShape *s, Windows *w) {
  Windows next = {.nth = w->nth + 1, .taps = 1, .k0 = w->k0 + w->taps * s->src_channels};
  uint32_t rest = w->nth;
  if (w->nth == s->n_windows) return false;
  for (uint32_t k = CONV_AXES; k-- > 0;) {
    uint32_t phases = s->transposed ? (uint32_t)s->c.stride[k] : 1;
    next.axis[k] = s->transposed ? transposed(&s->c, k, rest % phases) : forward(&s->c, k);
    next.taps *= next.axis[k].n_taps;
    rest /= phases;
  }
  *w = next;
  return true;
}

bool cg_conv_reaches_out(const Fn *f, const ConvShape *s, const Phase *p, uint32_t k) {
  int64_t last = (p->count - 1) * p->src_step + p->offset + cg_conv_reach(p);
  return !ir_dim_is_const(f->prog, s->src_dim[k]) || p->offset < 0 || last > s->src[k];
}
