// Weights [O, C / groups, taps] in panels, as the microkernel reads them (windows.h).
//
// They are read as they lie, some channels of the source at once, and transposed by squares of vl x vl:
//
//   [vl channels of the result][channels of the source, taps]  ->  a run, [channels of the source, taps][vl]
//
// whose rows go to their places in a panel. Of a transposed convolution a run is all taps of one channel.
#include "codegen/conv/windows.h"

enum { RUN_ELEMENTS = 8192 };

typedef struct {
  Cg *c;
  const ConvShape *s;
  int64_t width, block, taps;
  int64_t channels;  // of the source in a run
  V weights, to, scratch;
} Packing;

static int64_t channels_of_run(const ConvShape *s, const Target *t) {
  int64_t most = cg_smaller(t->vl, s->src_channels), fit = RUN_ELEMENTS / (cg_larger(1, ir_conv_taps(&s->c)) * t->vl);
  return s->transposed ? 1 : cg_larger(1, cg_smaller(most, fit));
}

int64_t cg_conv_packing_elements(const ConvShape *s, const Target *t) {
  return cg_round_up(channels_of_run(s, t) * ir_conv_taps(&s->c), t->vl) * t->vl;
}

// Number of the weight's tap that is the windows' tap i.
static V tap_of(const Packing *p, const Windows *w, const PhaseAt *of, V i) {
  Cg *c = p->c;
  V tap = cg_i64(c, 0), scale = cg_i64(c, 1);
  for (uint32_t k = CONV_AXES; k-- > 0;) {
    const Phase *x = &w->axis[k];
    V at = cg_add(c, of->tap[k], cg_times(c, cg_rem(c, i, cg_i64(c, x->n_taps)), x->tap_step));
    tap = cg_add(c, tap, cg_mul(c, at, scale));
    scale = cg_times(c, scale, p->s->c.kernel[k]);
    i = cg_div(c, i, cg_i64(c, x->n_taps));
  }
  return tap;
}

// Some channels of the result in a group's panel, and of the source.
typedef struct {
  V group, n0, n;
  V first, channels;
  V to;  // the panel's first row, at n0
} Run;

static void transpose(const Packing *p, const Run *r) {
  Cg *c = p->c;
  const ConvShape *s = p->s;
  V taps = cg_i64(c, p->taps), src = cg_i64(c, s->src_channels), dst = cg_i64(c, s->dst_channels);
  V vl = cg_i64(c, c->t->vl), n = cg_mul(c, r->channels, taps), from, stride;
  if (s->transposed) {
    from = cg_add(c, cg_mul(c, cg_add(c, cg_mul(c, r->group, src), r->first), dst), r->n0), stride = taps;
  } else {
    from = cg_add(c, cg_mul(c, cg_add(c, cg_mul(c, r->group, dst), r->n0), src), r->first);
    stride = cg_mul(c, src, taps);
  }
  from = cg_at(c, c->f32, p->weights, cg_mul(c, from, taps));
  for (Loop l = cg_each_by(c, cg_i64(c, 0), n, vl); cg_next(&l);) {
    cg_transpose_block(c, cg_at(c, c->f32, from, l.i), stride, r->n, cg_min(c, vl, cg_sub(c, n, l.i)),
                       cg_at(c, c->f32, p->scratch, cg_mul(c, l.i, vl)), vl);
  }
}

// Its rows of the windows' phase, of which those of the first one begin at `row`.
static void place_phase(const Packing *p, const Run *r, const Windows *w, V phase, V from, V row) {
  Cg *c = p->c;
  V block = cg_i64(c, p->block), vl = cg_i64(c, c->t->vl);
  PhaseAt of = cg_conv_phase(c, p->s, w, phase);
  row = cg_add(c, row, of.k0);
  for (Loop l = cg_count(c, cg_i64(c, w->taps)); cg_next(&l);) {
    V at = cg_mul(c, cg_add(c, from, tap_of(p, w, &of, l.i)), vl), to = cg_add(c, row, cg_mul(c, l.i, block));
    cg_put(c, cg_get(c, c->vf, p->scratch, at), r->to, cg_times(c, to, p->width));
  }
}

// Rows of the run's channel number `nth`: of a panel they are [block of channels][tap][channel].
static void place(const Packing *p, const Run *r, V nth) {
  Cg *c = p->c;
  V channel = cg_add(c, r->first, nth), block = cg_i64(c, p->block);
  V from = cg_times(c, nth, p->taps), in_block = cg_rem(c, channel, block);
  for (Windows w = {0}; cg_conv_next(p->s, &w);) {
    if (w.taps == 0) continue;
    V row = cg_times(c, cg_div(c, channel, block), w.taps * p->block);
    row = cg_add(c, row, in_block);
    Loop l = w.phases > 1 ? cg_count(c, cg_i64(c, w.phases)) : cg_once(c);
    while (cg_next(&l)) place_phase(p, r, &w, w.phases > 1 ? l.i : cg_i64(c, 0), from, row);
  }
}

static void some_channels(const Packing *p, const Run *r) {
  Cg *c = p->c;
  transpose(p, r);
  for (Loop l = cg_count(c, r->channels); cg_next(&l);) place(p, r, l.i);
}

// Vectors without channels are left as they are: nothing reads them.
static void each_vector(const Packing *p, V panel_of_group, Run *r) {
  Cg *c = p->c;
  int64_t panels = cg_ceil_div(p->s->dst_channels, p->width);
  V vl = cg_i64(c, c->t->vl), width = cg_i64(c, p->width);
  V begin = cg_mul(c, cg_rem(c, panel_of_group, cg_i64(c, panels)), width);
  V left = cg_sub(c, cg_i64(c, p->s->dst_channels), begin);
  V panel = cg_row(c, p->to, panel_of_group, cg_i64(c, p->s->rows * p->width));
  r->group = cg_div(c, panel_of_group, cg_i64(c, panels));
  for (Loop l = cg_each_by(c, cg_i64(c, 0), cg_min(c, width, left), vl); cg_next(&l);) {
    r->n0 = cg_add(c, begin, l.i), r->n = cg_min(c, vl, cg_sub(c, left, l.i)), r->to = cg_at(c, c->f32, panel, l.i);
    some_channels(p, r);
  }
}

void cg_conv_pack_weights(Cg *c, const ConvShape *s, int64_t width, int64_t block, V weights, V to, V scratch) {
  Packing p = {.c = c,
               .s = s,
               .width = width,
               .block = block,
               .taps = ir_conv_taps(&s->c),
               .channels = channels_of_run(s, c->t),
               .weights = weights,
               .to = to,
               .scratch = scratch};
  if (s->rows == 0) return;
  int64_t runs = cg_ceil_div(s->src_channels, p.channels), panels = cg_ceil_div(s->dst_channels, width);
  for (Loop l = cg_each_shared(c, cg_i64(c, s->c.groups * panels * runs), 1); cg_next(&l);) {
    V run = l.i, vector = cg_split(c, &run, runs);
    Run r = {.first = cg_times(c, run, p.channels)};
    r.channels = cg_min(c, cg_i64(c, p.channels), cg_sub(c, cg_i64(c, s->src_channels), r.first));
    each_vector(&p, vector, &r);
  }
}

int64_t cg_conv_packed_elements(const ConvShape *s, int64_t width) {
  return s->c.groups * cg_ceil_div(s->dst_channels, width) * s->rows * width;
}

// ---- kept from run to run
WeightPack cg_conv_pack(const ConvShape *s, const GemmPlan *p) {
  return (WeightPack){.kind = PACK_CONV,
                      .param = p->weight,
                      .transposed = true,
                      .n = s->dst_channels,
                      .k = s->src_channels,
                      .width = p->width,
                      .taps = ir_conv_taps(&s->c),
                      .groups = s->c.groups,
                      .block = p->kc,
                      .bytes = cg_round_up(4 * cg_conv_packed_elements(s, p->width), TN_ALIGN)};
}

// Taps are one row, for any number of axes.
void cg_conv_make_pack(Cg *c, const WeightPack *w, V weights, V to) {
  Conv one = {.rank = 1, .groups = w->groups};
  for (uint32_t k = 0; k < CONV_AXES; k++) one.kernel[k] = one.stride[k] = one.dilation[k] = one.in[k] = one.out[k] = 1;
  one.kernel[CONV_AXES - 1] = w->taps;
  ConvShape s = {.c = one, .src_channels = w->k, .dst_channels = w->n, .rows = w->taps * w->k};
  cg_conv_pack_weights(c, &s, w->width, w->block, weights, to, cg_gemm_on_stack(c, cg_conv_packing_elements(&s, c->t)));
}
