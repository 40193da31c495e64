// Dropout that keeps mean and variance of what selu makes: what is dropped becomes the value of selu far below 0, and all of it
// is scaled and shifted.
#include "frontend/graph/activations.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/scan.h"
#include "frontend/graph/spatial.h"
#include "frontend/tenure/ops.h"
#include "ir/build.h"

#include <math.h>

// 1 where a draw keeps the element, or of each channel all of them, else 0.
static tn_tensor kept(tn_tensor x, double p, bool by_channel, tn_site at) {
  Prog *prog = x.fn->p->ir;
  Dim d[MAX_RANK];
  for (uint32_t k = 0; k < fe_rank(x); k++) d[k] = by_channel && k >= 2 ? ir_dim(prog, 1) : fe_axis_dim(x, k);
  Attr attr[] = {ir_a_num(KEY_lo, 0), ir_a_list(KEY_shape, ir_shape(prog, d, fe_rank(x))), ir_a_num(KEY_hi, 1),
                 ir_a_int(KEY_id, fe_stream(x.fn, at))};
  return fe_with_number(OP_ge, fe_emit_in(x.fn, OP_uniform, attr, 4, at), p, at);
}

tn_tensor fe_alpha_dropout(tn_tensor x, double p, bool by_channel, tn_site at) {
  const double low = 1.7580993408473766;  // -selu(-infinity)
  if (fe_ins(x)->dtype != DT_F32 || (by_channel && fe_rank(x) < 2))
    return fe_refuse(x, E_SHAPE, at, by_channel ? "channels are dropped of f32 [N, C, ..]" : "alpha dropout takes f32");
  if (!(p >= 0 && p <= 1)) {
    fe_error(x.fn->p, E_ARGUMENT, at, "dropout takes a probability in [0, 1], not %g", p);
    return fe_poison(x.fn);
  }
  if (p == 0 || fe_eval(x.fn, at)) return fe_same(x, at);
  if (p == 1) return fe_with_number(OP_mul, x, 0, at);
  double scale = 1 / sqrt((low * low * p + 1) * (1 - p));
  tn_tensor keep = kept(x, p, by_channel, at);
  tn_tensor shift = fe_with_number(OP_mul, fe_with_number(OP_sub, keep, 1 - p, at), low * scale, at);
  return fe_binary(OP_add, fe_binary(OP_mul, x, fe_with_number(OP_mul, keep, scale, at), at), shift, at);
}

#define ALPHA_DROPOUT(name, by_channel)                                      \
  tn_tensor name(tn_tensor x, double p, tn_site at) {                        \
    tn_function *f;                                                          \
    if (!fe_join_for(__func__, &x, 1, &f, at)) return fe_poison(f);          \
    FE_GUARD_AS(f->p, fe_poison(f), __func__);                               \
    return fe_made_by(__func__, fe_alpha_dropout(x, p, by_channel, at), at); \
  }
ALPHA_DROPOUT(tn_alpha_dropout, false)
ALPHA_DROPOUT(tn_feature_alpha_dropout, true)
