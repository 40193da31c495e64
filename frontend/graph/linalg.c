// Products of matrices and vectors: what PyTorch calls by the ranks of the operands is one op of matrices.
//
//   tn_matmul(a: f32[5,3,4], v: f32[4])      %m = reshape %v {shape=[4,1]}   %y = matmul %a, %m   reshape %y {shape=[5,3]}
#include "frontend/fe.h"

// With an axis of size 1 put in at k.
static tn_tensor with_unit_axis(tn_tensor a, uint32_t k, tn_site at) {
  Dim dims[MAX_RANK];
  uint32_t n = 0;
  for (uint32_t j = 0; j <= fe_rank(a); j++) {
    if (j == k) dims[n++] = ir_dim(a.fn->p->ir, 1);
    if (j < fe_rank(a)) dims[n++] = fe_axis_dim(a, j);
  }
  return fe_reshape(a, dims, n, at);
}

static tn_tensor without_axis(tn_tensor a, uint32_t k, tn_site at) {
  Dim dims[MAX_RANK];
  uint32_t n = 0;
  if (!fe_ok(a)) return a;
  for (uint32_t j = 0; j < fe_rank(a); j++)
    if (j != k) dims[n++] = fe_axis_dim(a, j);
  return fe_reshape(a, dims, n, at);
}

static tn_tensor any_ranks(tn_tensor a, tn_tensor b, tn_site at) {
  if (!fe_ok(a) || !fe_ok(b)) return fe_poison(a.fn);
  bool is_row = fe_rank(a) == 1, is_column = fe_rank(b) == 1;
  if (is_row && fe_rank(b)) a = with_unit_axis(a, 0, at);
  if (is_column && fe_rank(a)) b = with_unit_axis(b, 1, at);
  tn_tensor y = fe_emit2(OP_matmul, a, b, at);
  if (is_column && fe_ok(y)) y = without_axis(y, fe_rank(y) - 1, at);
  if (is_row && fe_ok(y)) y = without_axis(y, fe_rank(y) - (is_column ? 1 : 2), at);
  return y;
}

// ---- the calls, which want these ranks
static bool check_ranks(tn_tensor a, uint32_t rank_a, tn_tensor b, uint32_t rank_b, tn_site at) {
  static const char *const names[] = {"a scalar", "a vector", "a matrix", "a batch of matrices"};
  if (fe_rank(a) == rank_a && fe_rank(b) == rank_b) return true;
  fe_error(a.fn->p, E_SHAPE, at, "operands are %s and %s, not %s and %s", names[rank_a], names[rank_b], fe_type_text(a),
           fe_type_text(b));
  fe_note_value(a, "the first operand");
  fe_note_value(b, "the second operand");
  return false;
}

static bool check_batch(tn_tensor a, tn_tensor b, tn_site at) {
  if (fe_axis_dim(a, 0).i == fe_axis_dim(b, 0).i) return true;
  fe_error(a.fn->p, E_SHAPE, at, "batches have different sizes, %s and %s: tn_matmul broadcasts", fe_type_text(a),
           fe_type_text(b));
  return false;
}

static tn_tensor product(const char *call, tn_tensor a, uint32_t rank_a, tn_tensor b, uint32_t rank_b, tn_site at) {
  tn_function *f;
  if (!fe_join_for(call, (const tn_tensor[]){a, b}, 2, &f, at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  if (!check_ranks(a, rank_a, b, rank_b, at) || (rank_a == 3 && !check_batch(a, b, at))) return fe_poison(f);
  return any_ranks(a, b, at);
}

tn_tensor tn_matmul(tn_tensor a, tn_tensor b, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){a, b}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  return fe_made(any_ranks(a, b, at), at);
}

tn_tensor tn_mm(tn_tensor a, tn_tensor b, tn_site at) { return fe_made(product(__func__, a, 2, b, 2, at), at); }
tn_tensor tn_bmm(tn_tensor a, tn_tensor b, tn_site at) { return fe_made(product(__func__, a, 3, b, 3, at), at); }
tn_tensor tn_mv(tn_tensor a, tn_tensor v, tn_site at) { return fe_made(product(__func__, a, 2, v, 1, at), at); }

tn_tensor tn_dot(tn_tensor a, tn_tensor b, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){a, b}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_ranks(a, 1, b, 1, at)) return fe_poison(f);
  if (fe_axis_dim(a, 0).i == fe_axis_dim(b, 0).i)
    return fe_made(fe_sum(fe_emit2(OP_mul, a, b, at), NULL, 0, false, at), at);
  fe_error(f->p, E_SHAPE, at, "vectors have different sizes, %s and %s", fe_type_text(a), fe_type_text(b));
  return fe_poison(f);
}

tn_tensor tn_outer(tn_tensor a, tn_tensor b, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){a, b}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_ranks(a, 1, b, 1, at)) return fe_poison(f);
  return fe_made(fe_emit2(OP_mul, with_unit_axis(a, 1, at), b, at), at);
}

// ---- with an addend
static tn_tensor scaled(tn_tensor a, double by, tn_site at) {
  return by == 1 || !fe_ok(a) ? a : fe_emit2(OP_mul, a, fe_const(a.fn, by, at), at);
}

static tn_tensor added(const char *call, tn_tensor c, tn_tensor y, double beta, double alpha, tn_site at) {
  tn_function *f;
  if (!fe_ok(y) || !fe_join_for(call, (const tn_tensor[]){c, y}, 2, &f, at)) return fe_poison(y.fn);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  Attr shape = ir_a_list(KEY_shape, fe_shape_of(y));
  if (fe_shape_of(c).i != fe_shape_of(y).i) c = fe_emit(OP_expand, &c, 1, &shape, 1, at);
  y = scaled(y, alpha, at);
  return beta == 0 || !fe_ok(c) ? (fe_ok(c) ? y : c) : fe_emit2(OP_add, scaled(c, beta, at), y, at);
}

tn_tensor tn_addmm(tn_tensor c, tn_tensor a, tn_tensor b, double beta, double alpha, tn_site at) {
  return fe_made(added(__func__, c, product(__func__, a, 2, b, 2, at), beta, alpha, at), at);
}

tn_tensor tn_baddbmm(tn_tensor c, tn_tensor a, tn_tensor b, double beta, double alpha, tn_site at) {
  return fe_made(added(__func__, c, product(__func__, a, 3, b, 3, at), beta, alpha, at), at);
}

tn_tensor tn_addmv(tn_tensor c, tn_tensor a, tn_tensor v, double beta, double alpha, tn_site at) {
  return fe_made(added(__func__, c, product(__func__, a, 2, v, 1, at), beta, alpha, at), at);
}
