// Triangular systems and Cholesky factors.
//
//   tn_solve_triangular(a: f32[5,3,3], b: f32[2,1,3,4])     %a, %b = expand {shape=[2,5,..]}   solve_triangular %a, %b
#include "frontend/fe.h"

static bool is_one(const Prog *p, Dim d) { return ir_dim_is_const(p, d) && ir_dim_bound(p, d) == 1; }

// The axes before the last two of both, broadcast; false: they do not fit, which the op reports.
static bool joint_batch(tn_tensor a, tn_tensor b, Dim *out, uint32_t *n) {
  const Prog *p = a.fn->p->ir;
  uint32_t na = fe_rank(a) - 2, nb = fe_rank(b) - 2;
  *n = na > nb ? na : nb;
  for (uint32_t k = 0; k < *n; k++) {
    bool in_a = k + na >= *n, in_b = k + nb >= *n;
    Dim x = fe_axis_dim(in_a ? a : b, in_a ? k + na - *n : k + nb - *n);
    Dim y = fe_axis_dim(in_b ? b : a, in_b ? k + nb - *n : k + na - *n);
    if (x.i != y.i && !is_one(p, x) && !is_one(p, y)) return false;
    out[k] = is_one(p, x) ? y : x;
  }
  return true;
}

static tn_tensor with_batch(tn_tensor t, Dim *dims, uint32_t n, tn_site at) {
  uint32_t rank = fe_rank(t);
  if (n + 2 > MAX_RANK) return t;
  dims[n] = fe_axis_dim(t, rank - 2), dims[n + 1] = fe_axis_dim(t, rank - 1);
  Shape s = ir_shape(t.fn->p->ir, dims, n + 2);
  if (s.i == fe_shape_of(t).i) return t;
  return fe_emit(OP_expand, &t, 1, (const Attr[]){ir_a_list(KEY_shape, s)}, 1, at);
}

static uint32_t flags_of(tn_solve_options o, Attr *out) {
  uint32_t n = 0;
  if (o.upper) out[n++] = ir_a_int(KEY_upper, 1);
  if (o.transposed) out[n++] = ir_a_int(KEY_ta, 1);
  if (o.unitriangular) out[n++] = ir_a_int(KEY_unit, 1);
  if (o.right) out[n++] = ir_a_int(KEY_right, 1);
  return n;
}

tn_tensor tn_solve_triangular(tn_tensor a, tn_tensor b, tn_solve_options o) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){a, b}, 2, &f, o.at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  Dim dims[MAX_RANK + 2];
  Attr flags[4];
  uint32_t n;
  bool batched = fe_rank(a) > 2 && fe_rank(b) >= 2;
  if (batched && joint_batch(a, b, dims, &n)) a = with_batch(a, dims, n, o.at), b = with_batch(b, dims, n, o.at);
  if (!fe_ok(a) || !fe_ok(b)) return fe_poison(f);
  return fe_made(fe_emit(OP_solve_triangular, (const tn_tensor[]){a, b}, 2, flags, flags_of(o, flags), o.at), o.at);
}

tn_tensor tn_cholesky(tn_tensor a, bool upper, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  Attr flag = ir_a_int(KEY_upper, 1);
  return fe_made(fe_emit(OP_cholesky, &a, 1, &flag, upper, at), at);
}
