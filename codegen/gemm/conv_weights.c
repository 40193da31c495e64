// Weights [O, C / groups, taps] in panels, as the microkernel reads them (conv_windows.h).
#include "codegen/gemm/conv_windows.h"

typedef struct {
  Cg *c;
  const ConvShape *s;
  const Windows *w;
  int64_t width, block, panels;  // of a group
  int64_t src_stride,
      dst_stride;  // elements of the weight from one channel of the source, and of the result, to the next
} Packing;

// Number of the weight's tap that is the windows' tap i.
static LLVMValueRef tap_of(const Packing *p, LLVMValueRef i) {
  Cg *c = p->c;
  LLVMValueRef tap = cg_i64(c, 0), scale = cg_i64(c, 1);
  for (uint32_t k = CONV_AXES; k-- > 0;) {
    const Phase *x = &p->w->axis[k];
    LLVMValueRef at =
        cg_add(c, cg_i64(c, x->tap), cg_mul(c, cg_gemm_rem(c, i, cg_i64(c, x->n_taps)), cg_i64(c, x->tap_step)));
    tap = cg_add(c, tap, cg_mul(c, at, scale));
    scale = cg_mul(c, scale, cg_i64(c, p->s->c.kernel[k]));
    i = cg_div(c, i, cg_i64(c, x->n_taps));
  }
  return tap;
}

// One row of a panel: the weights of one tap and one source channel for `width` channels of the result, from n0 on.
static void pack_row(const Packing *p, LLVMValueRef from, LLVMValueRef n0, LLVMValueRef to) {
  Cg *c = p->c;
  LLVMValueRef stride = cg_i64(c, p->dst_stride);
  LLVMValueRef some = cg_min(c, cg_i64(c, p->width), cg_sub(c, cg_i64(c, p->s->dst_channels), n0));
  from = cg_at(c, c->f32, from, cg_mul(c, n0, stride));
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), some, cg_i64(c, 1), NULL, 0);
  cg_store(c, cg_load(c, c->f32, cg_at(c, c->f32, from, cg_mul(c, l.i, stride))), cg_at(c, c->f32, to, l.i));
  cg_loop_end(c, &l, NULL);
  cg_conv_clear(c, cg_at(c, c->f32, to, some), cg_sub(c, cg_i64(c, p->width), some));
}

// Units are rows of panels: [group][panel][block of channels][tap][channel].
static void pack_windows(const Packing *p, LLVMValueRef weights, LLVMValueRef to) {
  Cg *c = p->c;
  int64_t rows = p->w->taps * p->s->src_channels, taps = ir_conv_taps(&p->s->c);
  LLVMValueRef lo, hi;
  if (rows == 0) return;
  cg_share(c, cg_i64(c, p->s->c.groups * p->panels * rows), 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef row = cg_gemm_rem(c, l.i, cg_i64(c, rows)), panel = cg_div(c, l.i, cg_i64(c, rows)),
               nth = cg_gemm_rem(c, panel, cg_i64(c, p->panels));
  LLVMValueRef block = cg_div(c, row, cg_i64(c, p->w->taps * p->block)),
               in_block = cg_gemm_rem(c, row, cg_i64(c, p->w->taps * p->block));
  LLVMValueRef channel =
      cg_add(c, cg_mul(c, block, cg_i64(c, p->block)), cg_gemm_rem(c, in_block, cg_i64(c, p->block)));
  LLVMValueRef tap = tap_of(p, cg_div(c, in_block, cg_i64(c, p->block)));
  LLVMValueRef group = cg_div(c, panel, cg_i64(c, p->panels));
  LLVMValueRef from = cg_mul(c, group, cg_i64(c, p->s->src_channels * p->s->dst_channels * taps));
  from = cg_add(c, cg_add(c, from, tap), cg_mul(c, channel, cg_i64(c, p->src_stride)));
  LLVMValueRef dst = cg_add(c, cg_mul(c, panel, cg_i64(c, p->s->rows)), cg_add(c, row, cg_i64(c, p->w->k0)));
  pack_row(p, cg_at(c, c->f32, weights, from), cg_mul(c, nth, cg_i64(c, p->width)),
           cg_at(c, c->f32, to, cg_mul(c, dst, cg_i64(c, p->width))));
  cg_loop_end(c, &l, NULL);
}

void cg_conv_pack_weights(Cg *c, const ConvShape *s, int64_t width, int64_t block, LLVMValueRef weights,
                          LLVMValueRef to) {
  int64_t taps = ir_conv_taps(&s->c);
  Windows w;
  for (uint32_t k = 0; k < s->n_windows; k++) {
    cg_conv_windows(s, k, &w);
    Packing p = {.c = c, .s = s, .w = &w, .width = width, .block = block};
    p.panels = cg_ceil_div(s->dst_channels, width);
    p.src_stride = s->transposed ? s->dst_channels * taps : taps;
    p.dst_stride = s->transposed ? taps : s->src_channels * taps;
    pack_windows(&p, weights, to);
  }
}
