// The bias of scores: f32 [B,H,Tq,Tk], any of which may be 1.
#include "codegen/attention/attention.h"

AttnBias cg_attention_bias(AttnCode *s, V base, V b, V h, V t, V k0) {
  Cg *c = s->c;
  const V at[4] = {b, h, t, k0}, size[4] = {s->batch, s->heads, s->tq, s->tk};
  V i = cg_i64(c, 0);
  if (ir_none(s->a.bias)) return (AttnBias){0};
  for (int axis = 0; axis < 4; axis++)
    if (s->a.bias_has[axis]) i = cg_index(c, i, size[axis], at[axis]);
  return (AttnBias){cg_at(c, c->f32, base, i), !s->a.bias_has[3]};
}

V cg_attention_bias_vector(AttnCode *s, AttnBias x, V j, V mask) {
  Cg *c = s->c;
  if (x.one) return cg_splat(c, cg_load(c, c->f32, x.at));
  return cg_get_masked(c, c->vf, x.at, j, mask);
}
