// Factors of small matrices.
//
//   tn_qr(a: f32[3,5])     %q, %r1 = qr (slice %a)     %r = concat %r1, (matmul %q, (slice %a)) {ta}
//   tn_svd(a: f32[5,3])    %v, %s, %ut = svd (permute %a)
#include "frontend/graph/ledger.h"
#include "frontend/graph/linalg.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/shape.h"
#include "frontend/tenure/linalg.h"

static Dim size_of(tn_tensor a, uint32_t from_end) { return fe_axis_dim(a, fe_rank(a) - from_end); }

static bool check_matrix(tn_tensor a, tn_site at) {
  const Prog *p = a.fn->p->ir;
  if (fe_ins(a)->dtype != DT_F32) return fe_refuse(a, E_DTYPE, at, "matrices are f32"), false;
  if (fe_rank(a) < 2) return fe_refuse(a, E_SHAPE, at, "a matrix has two axes"), false;
  Dim m = size_of(a, 2), n = size_of(a, 1);
  if (m.i == n.i || (ir_dim_is_const(p, m) && ir_dim_is_const(p, n))) return true;
  return fe_refuse(a, E_SHAPE, at, "rows and columns of a matrix are constant, or of one size"), false;
}

static bool is_wide(tn_tensor a) {
  const Prog *p = a.fn->p->ir;
  return size_of(a, 2).i != size_of(a, 1).i && ir_dim_bound(p, size_of(a, 2)) < ir_dim_bound(p, size_of(a, 1));
}

static tn_qr_value tall_qr(tn_tensor a, tn_site at) {
  tn_tensor q = fe_emit1(OP_qr, a, at);
  return (tn_qr_value){q, fe_ok(q) ? (tn_tensor){a.fn, q.v + 1} : q};
}

// The columns behind the first M are Q times theirs of R.
static tn_qr_value wide_qr(tn_tensor a, tn_site at) {
  const Prog *p = a.fn->p->ir;
  uint32_t last = fe_rank(a) - 1;
  int64_t m = ir_dim_bound(p, size_of(a, 2)), n = ir_dim_bound(p, size_of(a, 1));
  tn_qr_value y = tall_qr(fe_slice(a, last, 0, m, at), at);
  tn_tensor rest = fe_slice(a, last, m, n - m, at);
  if (!fe_ok(y.q) || !fe_ok(rest)) return y;
  const tn_tensor parts[] = {y.r, fe_matmul(y.q, rest, true, false, at)};
  y.r = fe_ok(parts[1]) ? fe_concat(parts, 2, last, at) : parts[1];
  return y;
}

tn_qr_value tn_qr(tn_tensor a, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return (tn_qr_value){fe_poison(f), fe_poison(f)};
  const tn_qr_value none = {fe_poison(f), fe_poison(f)};
  FE_GUARD(f->p, none);
  if (!check_matrix(a, at)) return none;
  tn_qr_value y = is_wide(a) ? wide_qr(a, at) : tall_qr(a, at);
  if (!fe_ok(y.q) || !fe_ok(y.r)) return none;
  return (tn_qr_value){fe_made(y.q, at), fe_made(y.r, at)};
}

// ---- eigenvalues and singular values
tn_eigh_value tn_eigh(tn_tensor a, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return (tn_eigh_value){fe_poison(f), fe_poison(f)};
  const tn_eigh_value none = {fe_poison(f), fe_poison(f)};
  FE_GUARD(f->p, none);
  if (!check_matrix(a, at)) return none;
  if (size_of(a, 2).i != size_of(a, 1).i) return fe_refuse(a, E_SHAPE, at, "the matrix is not square"), none;
  tn_tensor w = fe_emit1(OP_eigh, a, at);
  if (!fe_ok(w)) return none;
  return (tn_eigh_value){fe_made(w, at), fe_made((tn_tensor){f, w.v + 1}, at)};
}

static tn_tensor turned(tn_tensor a, tn_site at) {
  uint32_t from = fe_rank(a) - 1, to = fe_rank(a) - 2;
  return fe_move_axes(a, &from, &to, 1, at);
}

// Rows are turned: a matrix with more of them is taken transposed, whose U and V^T are the other way round.
tn_svd_value tn_svd(tn_tensor a, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return (tn_svd_value){fe_poison(f), fe_poison(f), fe_poison(f)};
  const tn_svd_value none = {fe_poison(f), fe_poison(f), fe_poison(f)};
  FE_GUARD(f->p, none);
  if (!check_matrix(a, at)) return none;
  bool is_tall = size_of(a, 2).i != size_of(a, 1).i && !is_wide(a);
  tn_tensor u = fe_emit1(OP_svd, is_tall ? turned(a, at) : a, at);
  if (!fe_ok(u)) return none;
  tn_tensor s = {f, u.v + 1}, vh = {f, u.v + 2};
  if (is_tall) {
    tn_tensor other = turned(u, at);
    u = turned(vh, at), vh = other;
  }
  return (tn_svd_value){fe_made(u, at), fe_made(s, at), fe_made(vh, at)};
}
