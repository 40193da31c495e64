// The transforms of weights [O, C, 3, 3] for Winograd's convolution (winograd.h), in panels as the microkernel reads them.
#include "codegen/conv/winograd.h"

// The weights of one channel of the source for `width` channels of the result, from n0 on, to `taps` as [9][width] in the
// order of the source's pixels; zeros after the last.
static void gather(Cg *c, const WinogradPlan *p, V from, V n0, V taps) {
  const ConvShape *s = &p->s;
  const Phase *y = &p->w.axis[1], *x = &p->w.axis[2];
  int64_t all = WINOGRAD_TAPS * WINOGRAD_TAPS, stride = s->transposed ? all : s->src_channels * all;
  V some = cg_min(c, cg_i64(c, p->width), cg_sub(c, cg_i64(c, s->dst_channels), n0));
  from = cg_row(c, from, n0, cg_i64(c, stride));
  for (Loop l = cg_count(c, some); cg_next(&l);) {
    V one = cg_row(c, from, l.i, cg_i64(c, stride));
    for (int64_t i = 0; i < WINOGRAD_TAPS; i++) {
      for (int64_t j = 0; j < WINOGRAD_TAPS; j++) {
        int64_t tap = (y->tap + i * y->tap_step) * WINOGRAD_TAPS + x->tap + j * x->tap_step;
        V to = cg_add(c, cg_i64(c, (i * WINOGRAD_TAPS + j) * p->width), l.i);
        cg_put(c, cg_get(c, c->f32, one, cg_i64(c, tap)), taps, to);
      }
    }
  }
  if (s->dst_channels % p->width == 0) return;
  for (int64_t k = 0; k < all; k++)
    cg_conv_clear(c, cg_at(c, c->f32, taps, cg_add(c, cg_i64(c, k * p->width), some)),
                  cg_sub(c, cg_i64(c, p->width), some));
}

void cg_winograd_weights(Cg *c, const WinogradPlan *p, V weights, V to, V taps) {
  int64_t channels = p->s.src_channels, all = WINOGRAD_TAPS * WINOGRAD_TAPS;
  int64_t stride = p->s.transposed ? p->s.dst_channels * all : all;
  for (Loop l = cg_each_shared(c, cg_i64(c, p->panels * channels), 1); cg_next(&l);) {
    V channel = l.i, panel = cg_split(c, &channel, channels);
    gather(c, p, cg_row(c, weights, channel, cg_i64(c, stride)), cg_times(c, panel, p->width), taps);
    V row = cg_add(c, cg_times(c, panel, WINOGRAD_POINTS * channels), channel);
    cg_winograd_transform(c, TRANSFORM_WEIGHT, (WinogradSide){taps, p->width},
                          (WinogradSide){cg_row(c, to, row, cg_i64(c, p->width)), channels * p->width},
                          cg_i64(c, p->width), false);
  }
}

// ---- kept from run to run
WeightPack cg_winograd_pack(const GemmPlan *p) {
  return (WeightPack){.kind = PACK_WINOGRAD,
                      .param = p->weight,
                      .transposed = p->tb,
                      .n = p->n_max,
                      .k = p->kc,
                      .width = p->width,
                      .bytes = cg_round_up(4 * WINOGRAD_POINTS * cg_round_up(p->n_max, p->width) * p->kc, TN_ALIGN)};
}

void cg_winograd_make_pack(Cg *c, const WeightPack *w, V weights, V to) {
  Phase taps = {.tap = w->transposed ? 0 : WINOGRAD_TAPS - 1, .tap_step = w->transposed ? 1 : -1};
  WinogradPlan p = {.s = {.transposed = !w->transposed, .src_channels = w->k, .dst_channels = w->n},
                    .w = {.axis = {[1] = taps, [2] = taps}},
                    .width = w->width,
                    .panels = cg_ceil_div(w->n, w->width)};
  cg_winograd_weights(c, &p, weights, to, cg_gemm_on_stack(c, WINOGRAD_TAPS * WINOGRAD_TAPS * w->width));
}
