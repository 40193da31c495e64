// Triangular systems, Cholesky factors, and systems by row operations.
//
//   tn_solve_triangular(a: f32[5,3,3], b: f32[2,1,3,4])     %a, %b = expand {shape=[2,5,..]}   solve_triangular %a, %b
//   tn_solve(a: f32[3,3], b: f32[5,3,4])                    b as [3,20]   %l, %p, %s = lu %a   lu_solve %a, %l, %p, %b
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/report.h"
#include "frontend/graph/shape.h"
#include "frontend/tenure/linalg.h"

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

// ---- systems by row operations
static bool check_matrix(tn_tensor a, tn_site at) {
  uint32_t r = fe_rank(a);
  if (fe_ins(a)->dtype != DT_F32) return fe_refuse(a, E_DTYPE, at, "matrices are f32"), false;
  if (r >= 2 && fe_axis_dim(a, r - 1).i == fe_axis_dim(a, r - 2).i) return true;
  return fe_refuse(a, E_SHAPE, at, "the matrix is not square"), false;
}

static tn_tensor solved(tn_tensor a, tn_tensor b, tn_site at) {
  tn_tensor lu = fe_emit1(OP_lu, a, at);
  if (!fe_ok(lu)) return lu;
  const tn_tensor in[] = {a, lu, {a.fn, lu.v + 1}, b};
  return fe_emit(OP_lu_solve, in, 4, NULL, 0, at);
}

// One matrix for all right-hand sides, whose batch becomes lanes.
static tn_tensor solved_by_one(tn_tensor a, tn_tensor b, tn_site at) {
  Prog *p = a.fn->p->ir;
  uint32_t rank = fe_rank(b), front = 0, row = rank - 2;
  Dim d[MAX_RANK], two[2] = {fe_axis_dim(b, row), ir_dim(p, 1)};
  tn_tensor first = fe_move_axes(b, &row, &front, 1, at);
  for (uint32_t k = 0; k < rank; k++) d[k] = fe_axis_dim(first, k);
  for (uint32_t k = 1; k < rank; k++) two[1] = ir_dim_mul(p, two[1], d[k]);
  tn_tensor x = fe_reshape(solved(a, fe_reshape(first, two, 2, at), at), d, rank, at);
  return fe_move_axes(x, &front, &row, 1, at);
}

// b is vectors: one of rank 1, or one for each matrix
static bool is_vectors(tn_tensor a, tn_tensor b) {
  uint32_t rank = fe_rank(b);
  if (rank + 1 != fe_rank(a)) return rank == 1;
  for (uint32_t k = 0; k < rank; k++)
    if (fe_axis_dim(b, k).i != fe_axis_dim(a, k).i) return rank == 1;
  return true;
}

static tn_tensor refuse_system(tn_tensor a, tn_tensor b, const char *text, tn_site at) {
  fe_error(a.fn->p, E_SHAPE, at, "%s", text);
  fe_note_value(a, "the matrix");
  fe_note_value(b, "the right-hand side");
  return fe_poison(a.fn);
}

tn_tensor tn_solve(tn_tensor a, tn_tensor b, tn_site at) {
  tn_function *f;
  Dim dims[MAX_RANK + 2];
  uint32_t n;
  if (!fe_join((const tn_tensor[]){a, b}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_matrix(a, at)) return fe_poison(f);
  if (fe_ins(b)->dtype != DT_F32) return fe_refuse(b, E_DTYPE, at, "right-hand sides are f32");
  bool is_vector = is_vectors(a, b);
  tn_tensor given = b;
  if (is_vector) b = fe_with_axis(b, fe_rank(b), at);
  if (!fe_ok(b)) return b;
  if (fe_rank(b) < 2 || fe_axis_dim(b, fe_rank(b) - 2).i != fe_axis_dim(a, fe_rank(a) - 1).i)
    return refuse_system(a, given, "right-hand sides are [N] or [.., N, K] for matrices [.., N, N]", at);
  bool is_one = fe_rank(a) == 2 && fe_rank(b) > 2;
  if (!is_one && !joint_batch(a, b, dims, &n)) return refuse_system(a, given, "batches do not broadcast", at);
  if (!is_one) a = with_batch(a, dims, n, at), b = with_batch(b, dims, n, at);
  tn_tensor x = is_one ? solved_by_one(a, b, at) : solved(a, b, at);
  return fe_made(is_vector && fe_ok(x) ? fe_without_axis(x, fe_rank(x) - 1, at) : x, at);
}

// 1 on the diagonal, 0 elsewhere, in the shape of a
static tn_tensor unit_like(tn_tensor a, tn_site at) {
  Prog *p = a.fn->p->ir;
  uint32_t r = fe_rank(a);
  Dim n = fe_axis_dim(a, r - 1), column[] = {n, ir_dim(p, 1)};
  tn_tensor k = fe_positions(a.fn, n, at), on = fe_emit2(OP_eq, k, fe_reshape(k, column, 2, at), at);
  if (!fe_ok(on) || r == 2) return on;
  return fe_emit(OP_expand, &on, 1, (const Attr[]){ir_a_list(KEY_shape, fe_shape_of(a))}, 1, at);
}

tn_tensor tn_inv(tn_tensor a, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  return check_matrix(a, at) ? fe_made(solved(a, unit_like(a, at), at), at) : fe_poison(f);
}

// A reduction of the last axis
static tn_tensor total(Op op, tn_tensor a, tn_site at) {
  if (!fe_ok(a)) return a;
  Attr axes = ir_a_list(KEY_axes, ir_shape_ints(a.fn->p->ir, (int64_t[]){fe_rank(a) - 1}, 1));
  return fe_emit(op, &a, 1, &axes, 1, at);
}

// U's diagonal, and the sign of the order of rows. Poison: reported
static tn_tensor pivots(tn_tensor a, tn_tensor *sign, tn_site at) {
  uint32_t r = fe_rank(a);
  if (!check_matrix(a, at)) return fe_poison(a.fn);
  tn_tensor lu = fe_emit1(OP_lu, a, at);
  if (!fe_ok(lu)) return lu;
  *sign = (tn_tensor){a.fn, lu.v + 2};
  return fe_diagonal(lu, 0, r - 2, r - 1, at);
}

tn_tensor tn_det(tn_tensor a, tn_site at) {
  tn_function *f;
  tn_tensor sign;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  tn_tensor all = total(OP_prod, pivots(a, &sign, at), at);
  return fe_ok(all) ? fe_made(fe_emit2(OP_mul, sign, all, at), at) : all;
}

tn_slogdet_value tn_slogdet(tn_tensor a, tn_site at) {
  tn_function *f;
  tn_tensor sign;
  if (!fe_join(&a, 1, &f, at)) return (tn_slogdet_value){fe_poison(f), fe_poison(f)};
  const tn_slogdet_value none = {fe_poison(f), fe_poison(f)};
  FE_GUARD(f->p, none);
  tn_tensor u = pivots(a, &sign, at);
  if (!fe_ok(u)) return none;
  tn_tensor signs = fe_emit2(OP_mul, sign, total(OP_prod, fe_emit1(OP_sign, u, at), at), at);
  tn_tensor logarithm = total(OP_sum, fe_emit1(OP_log, fe_emit1(OP_abs, u, at), at), at);
  return (tn_slogdet_value){fe_made(fe_emit1(OP_stop_grad, signs, at), at), fe_made(logarithm, at)};
}
