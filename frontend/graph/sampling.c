// Numbers drawn by probabilities that the program computes.
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/scan.h"
#include "frontend/tenure/ops.h"
#include "ir/build.h"

#include <float.h>
#include <math.h>

static tn_tensor op2(Op op, tn_tensor a, tn_tensor b, tn_site at) { return fe_emit2(op, a, b, at); }

// f32 in [0, 1)
static tn_tensor uniform(tn_function *f, Shape s, tn_site at) {
  const Attr a[] = {ir_a_num(KEY_lo, 0), ir_a_list(KEY_shape, s), ir_a_num(KEY_hi, 1),
                    ir_a_int(KEY_id, fe_stream(f, at))};
  return fe_emit_in(f, OP_uniform, a, 4, at);
}

tn_tensor tn_bernoulli(tn_tensor p, tn_site at) {
  tn_function *f;
  if (!fe_join(&p, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (fe_ins(p)->dtype != DT_F32) return fe_refuse(p, E_DTYPE, at, "probabilities are f32");
  return fe_made(op2(OP_lt, uniform(f, fe_shape_of(p), at), p, at), at);
}

// The last element along the last axis, which stays.
static tn_tensor last_of(tn_tensor x, tn_site at) {
  Prog *p = x.fn->p->ir;
  uint32_t last = fe_rank(x) - 1;
  Dim one = ir_dim(p, 1);
  return fe_part(x, last, ir_dim_sub(p, fe_axis_dim(x, last), one), one, at);
}

// Each draw is the first place at which the sum so far reaches a part in (0, 1] of the whole sum: none that adds nothing to
// it, also where the part of a denormal sum would be rounded to 0, and never one behind the last.
static tn_tensor with_replacement(tn_tensor p, int64_t n, tn_site at) {
  tn_function *f = p.fn;
  Dim d[MAX_RANK];
  uint32_t last = fe_rank(p) - 1;
  for (uint32_t k = 0; k < last; k++) d[k] = fe_axis_dim(p, k);
  d[last] = ir_dim(f->p->ir, n);
  Attr axis = ir_a_int(KEY_axis, last);
  tn_tensor sums = fe_emit(OP_cumsum, &p, 1, &axis, 1, at);
  if (!fe_ok(sums)) return sums;
  tn_tensor part = op2(OP_sub, fe_const(f, 1, at), uniform(f, ir_shape(f->p->ir, d, last + 1), at), at);
  tn_tensor sum = last_of(sums, at), least = op2(OP_min, sum, fe_const(f, 0x1p-149, at), at);
  const tn_tensor in[] = {sums, op2(OP_max, op2(OP_mul, part, sum, at), least, at)};
  return fe_ok(in[1]) ? fe_emit(OP_searchsorted, in, 2, NULL, 0, at) : in[1];
}

// Who is first: times that are exponential with rate p end in the order of draws without replacement. A rate of 0 is last, behind
// times that no number holds.
static tn_tensor without_replacement(tn_tensor p, int64_t n, tn_site at) {
  const Attr attr[] = {ir_a_int(KEY_axis, fe_rank(p) - 1), ir_a_int(KEY_size, n)};
  tn_tensor u = uniform(p.fn, fe_shape_of(p), at);
  tn_tensor wait = fe_emit1(OP_neg, fe_emit1(OP_log1p, fe_emit1(OP_neg, u, at), at), at);
  tn_tensor soon = op2(OP_min, op2(OP_div, wait, p, at), fe_const(p.fn, FLT_MAX, at), at);
  const tn_tensor arm[] = {p, soon, fe_const(p.fn, INFINITY, at)};
  if (!fe_ok(soon)) return soon;
  tn_tensor time = fe_emit(OP_select, arm, 3, NULL, 0, at), first = fe_emit(OP_topk, &time, 1, attr, 2, at);
  return fe_ok(first) ? (tn_tensor){p.fn, first.v + 1} : first;
}

tn_tensor tn_multinomial(tn_tensor p, int64_t n, bool replacement, tn_site at) {
  tn_function *f;
  if (!fe_join(&p, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (fe_ins(p)->dtype != DT_F32) return fe_refuse(p, E_DTYPE, at, "probabilities are f32");
  if (!fe_rank(p) || n < 1)
    return fe_refuse(p, E_ARGUMENT, at, "one number or more is drawn, from [.., n] probabilities");
  Dim size = fe_axis_dim(p, fe_rank(p) - 1);
  if (ir_dim_is_const(f->p->ir, size) && ir_dim_bound(f->p->ir, size) == 0)
    return fe_refuse(p, E_SHAPE, at, "nothing can be drawn from no probabilities");
  p = op2(OP_fmax, fe_emit1(OP_stop_grad, p, at), fe_const(f, 0, at), at);
  if (!fe_ok(p)) return p;
  return fe_made(replacement || n == 1 ? with_replacement(p, n, at) : without_replacement(p, n, at), at);
}
