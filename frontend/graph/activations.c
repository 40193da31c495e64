// Activations that are more than one pointwise op: slopes by channel or drawn, and gates.
#include "frontend/graph/activations.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scan.h"
#include "frontend/tenure/ops.h"

// ---- prelu: a slope for each channel, axis 1 (of one axis: that one), or one for all
static tn_tensor slopes_of(tn_tensor a, tn_tensor weight, tn_site at) {
  tn_function *f = a.fn;
  uint32_t rank = fe_rank(a), channel = rank > 1;
  Dim n = ir_dim(f->p->ir, 1), dims[MAX_RANK];
  if (fe_rank(weight) == 0) return weight;
  bool is_one = fe_rank(weight) == 1 && ir_dim_is_one(f->p->ir, fe_axis_dim(weight, 0));
  bool fits = fe_rank(weight) == 1 && rank > 0 && fe_axis_dim(weight, 0).i == fe_axis_dim(a, channel).i;
  if (is_one) return fe_reshape(weight, NULL, 0, at);
  if (!fits) {
    fe_error(f->p, E_SHAPE, at, "prelu takes one weight, or one for each channel: a vector as long as axis %u",
             channel);
    fe_note_value(a, "the operand");
    fe_note_value(weight, "the weight");
    return fe_poison(f);
  }
  for (uint32_t k = channel; k < rank; k++) dims[k - channel] = k == channel ? fe_axis_dim(weight, 0) : n;
  return fe_reshape(weight, dims, rank - channel, at);
}

tn_tensor fe_prelu(tn_tensor a, tn_tensor weight, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){a, weight}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  tn_tensor slopes = slopes_of(a, weight, at);
  return fe_ok(slopes) ? fe_emit2(OP_prelu, a, slopes, at) : slopes;
}

tn_tensor tn_prelu(tn_tensor a, tn_tensor weight, tn_site at) { return fe_made(fe_prelu(a, weight, at), at); }

// In evaluation the mean of the bounds is the slope.
tn_tensor fe_rrelu(tn_tensor a, double lo, double hi, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!(lo <= hi)) {
    fe_error(f->p, E_ARGUMENT, at, "rrelu draws slopes between a lower and an upper bound, not in [%g, %g]", lo, hi);
    return fe_poison(f);
  }
  Attr mean = ir_a_num(KEY_slope, (lo + hi) / 2);
  if (fe_eval(f, at)) return fe_emit(OP_leaky_relu, &a, 1, &mean, 1, at);
  Attr attrs[] = {ir_a_num(KEY_lo, lo), ir_a_num(KEY_hi, hi), ir_a_list(KEY_shape, fe_shape_of(a)),
                  ir_a_int(KEY_id, fe_stream(f, at))};
  return fe_emit2(OP_prelu, a, fe_emit_in(f, OP_uniform, attrs, 4, at), at);
}

tn_tensor tn_rrelu(tn_tensor a, double lo, double hi, tn_site at) { return fe_made(fe_rrelu(a, lo, hi, at), at); }

// ---- gates: one half of the axis times an activation of the other
static bool halves(tn_tensor a, int axis, tn_tensor half[2], tn_site at) {
  uint32_t k;
  if (!fe_axis(a, axis, &k, at)) return false;
  Dim d = fe_axis_dim(a, k);
  int64_t n = ir_dim_bound(a.fn->p->ir, d);
  if (!ir_dim_is_const(a.fn->p->ir, d) || n % 2) {
    fe_error(a.fn->p, E_SHAPE, at, "a gate halves an axis of an even constant size");
    fe_note_value(a, "the operand");
    return false;
  }
  for (int j = 0; j < 2; j++) half[j] = fe_slice(a, k, j * n / 2, n / 2, at);
  return true;
}

tn_tensor fe_gated(tn_tensor a, int axis, Op op, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  tn_tensor half[2];
  bool first_is_gate = op == OP_silu;
  if (!halves(a, axis, half, at)) return fe_poison(f);
  tn_tensor gate = fe_emit1(op, half[first_is_gate ? 0 : 1], at);
  return fe_emit2(OP_mul, half[first_is_gate ? 1 : 0], gate, at);
}

tn_tensor tn_glu(tn_tensor a, int axis, tn_site at) { return fe_made(fe_gated(a, axis, OP_sigmoid, at), at); }
tn_tensor tn_swiglu(tn_tensor a, int axis, tn_site at) { return fe_made(fe_gated(a, axis, OP_silu, at), at); }
tn_tensor tn_geglu(tn_tensor a, int axis, tn_site at) { return fe_made(fe_gated(a, axis, OP_gelu, at), at); }
tn_tensor tn_reglu(tn_tensor a, int axis, tn_site at) { return fe_made(fe_gated(a, axis, OP_relu, at), at); }
