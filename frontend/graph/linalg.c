// Products of matrices and vectors: what PyTorch calls by the ranks of the operands is one op of matrices.
//
//   tn_matmul(a: f32[5,3,4], v: f32[4])      %m = reshape %v {shape=[4,1]}   %y = matmul %a, %m   reshape %y {shape=[5,3]}
#include "frontend/graph/linalg.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/reduce.h"
#include "frontend/graph/report.h"
#include "frontend/graph/shape.h"
#include "frontend/tenure/linalg.h"

#include <math.h>

static tn_tensor with_last_swapped(tn_tensor a, tn_site at) {
  uint32_t perm[MAX_RANK], r = fe_rank(a);
  for (uint32_t k = 0; k < r; k++) perm[k] = k;
  perm[r - 2] = r - 1, perm[r - 1] = r - 2;
  return fe_permute(a, perm, at);
}

tn_tensor fe_matmul(tn_tensor a, tn_tensor b, bool ta, bool tb, tn_site at) {
  Attr attrs[2];
  uint32_t n = 0;
  if (fe_is_countable(a) && fe_is_countable(b)) {  // integers have no {ta} and {tb}
    if (ta) a = with_last_swapped(a, at);
    if (tb) b = with_last_swapped(b, at);
    ta = tb = false;
  }
  if (ta) attrs[n++] = ir_a_int(KEY_ta, 1);
  if (tb) attrs[n++] = ir_a_int(KEY_tb, 1);
  return fe_emit(OP_matmul, (const tn_tensor[]){a, b}, 2, attrs, n, at);
}

static tn_tensor any_ranks(tn_tensor a, tn_tensor b, tn_site at) {
  if (!fe_ok(a) || !fe_ok(b)) return fe_poison(a.fn);
  bool is_row = fe_rank(a) == 1, is_column = fe_rank(b) == 1;
  if (is_row && fe_rank(b)) a = fe_with_axis(a, 0, at);
  if (is_column && fe_rank(a)) b = fe_with_axis(b, 1, at);
  tn_tensor y = fe_matmul(a, b, false, false, at);
  if (is_column && fe_ok(y)) y = fe_without_axis(y, fe_rank(y) - 1, at);
  if (is_row && fe_ok(y)) y = fe_without_axis(y, fe_rank(y) - (is_column ? 1 : 2), at);
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
  if (fe_axis_dim(a, 0).i == fe_axis_dim(b, 0).i) {
    bool is_whole = fe_is_countable(a) && fe_is_countable(b);
    return fe_made(is_whole ? any_ranks(a, b, at) : fe_sum(fe_emit2(OP_mul, a, b, at), NULL, 0, false, at), at);
  }
  fe_error(f->p, E_SHAPE, at, "vectors have different sizes, %s and %s", fe_type_text(a), fe_type_text(b));
  return fe_poison(f);
}

tn_tensor tn_outer(tn_tensor a, tn_tensor b, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){a, b}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_ranks(a, 1, b, 1, at)) return fe_poison(f);
  return fe_made(fe_emit2(OP_mul, fe_with_axis(a, 1, at), b, at), at);
}

// ---- with an addend
static tn_tensor scaled(tn_tensor a, double by, tn_site at) {
  if (by == 1 || !fe_ok(a)) return a;
  tn_tensor number =
      fe_is_countable(a) ? fe_number(a.fn, trunc(by), (DType)fe_ins(a)->dtype, at) : fe_const(a.fn, by, at);
  return fe_ok(number) ? fe_emit2(OP_mul, a, number, at) : number;
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

// ---- products of any ranks
// As an element of [a_0, b_0, a_1, b_1, ..], whose pairs of axes then become one
// The vectors with their elements moved by k places
static tn_tensor turned(tn_tensor a, uint32_t axis, int64_t k, tn_site at) {
  const tn_tensor part[] = {fe_slice(a, axis, k, 3 - k, at), fe_slice(a, axis, 0, k, at)};
  return fe_ok(part[0]) && fe_ok(part[1]) ? fe_concat(part, 2, axis, at) : fe_poison(a.fn);
}

static tn_tensor product_of(tn_tensor a, tn_tensor b, tn_site at) {
  return fe_ok(a) && fe_ok(b) ? fe_pointwise(OP_mul, (const tn_tensor[]){a, b}, 2, NULL, 0, at) : fe_poison(a.fn);
}

tn_tensor tn_cross(tn_tensor a, tn_tensor b, int axis, tn_site at) {
  tn_function *f;
  uint32_t k;
  if (!fe_join((const tn_tensor[]){a, b}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!fe_axis(a, axis, &k, at)) return fe_poison(f);
  Dim three = ir_dim(f->p->ir, 3);
  if (fe_rank(a) != fe_rank(b) || fe_axis_dim(a, k).i != three.i || fe_axis_dim(b, k).i != three.i) {
    fe_error(f->p, E_SHAPE, at, "tn_cross takes two values with as many axes and size 3 along axis %d", axis);
    fe_note_value(a, "the first");
    fe_note_value(b, "the second");
    return fe_poison(f);
  }
  tn_tensor in[] = {product_of(turned(a, k, 1, at), turned(b, k, 2, at), at), fe_poison(f)};
  if (fe_ok(in[0])) in[1] = product_of(turned(a, k, 2, at), turned(b, k, 1, at), at);
  return fe_ok(in[1]) ? fe_made(fe_pointwise(OP_sub, in, 2, NULL, 0, at), at) : fe_poison(f);
}

tn_tensor tn_kron(tn_tensor a, tn_tensor b, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){a, b}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  uint32_t ra = fe_rank(a), rb = fe_rank(b), rank = ra > rb ? ra : rb;
  Dim one = ir_dim(f->p->ir, 1), da[MAX_RANK], db[MAX_RANK], d[MAX_RANK];
  if (2 * rank > MAX_RANK) {
    fe_error(f->p, E_SHAPE, at, "tn_kron takes values with at most %d axes", MAX_RANK / 2);
    return fe_poison(f);
  }
  for (uint32_t k = 0; k < rank; k++) {
    Dim own_a = k < rank - ra ? one : fe_axis_dim(a, k - (rank - ra));
    Dim own_b = k < rank - rb ? one : fe_axis_dim(b, k - (rank - rb));
    da[2 * k] = own_a, da[2 * k + 1] = db[2 * k] = one, db[2 * k + 1] = own_b;
    d[k] = ir_dim_mul(f->p->ir, own_a, own_b);
  }
  const tn_tensor in[] = {fe_reshape(a, da, 2 * rank, at), fe_reshape(b, db, 2 * rank, at)};
  tn_tensor y = fe_ok(in[0]) && fe_ok(in[1]) ? fe_pointwise(OP_mul, in, 2, NULL, 0, at) : fe_poison(f);
  return fe_made(fe_ok(y) ? fe_reshape(y, d, rank, at) : y, at);
}

typedef struct {
  uint32_t n_free, n_sum, free[MAX_RANK], sum[MAX_RANK];
} Split;

// Which axes are summed over, and which are not; false: reported
static bool split_axes(tn_tensor a, const int *axes, uint32_t n, Split *s, tn_site at) {
  bool is_summed[MAX_RANK] = {false};
  *s = (Split){.n_sum = n};
  if (!fe_axes(a, axes, n, s->sum, at)) return false;
  for (uint32_t k = 0; k < n; k++) is_summed[s->sum[k]] = true;
  for (uint32_t k = 0; k < fe_rank(a); k++)
    if (!is_summed[k]) s->free[s->n_free++] = k;
  return true;
}

// The axes of one list behind those of another, each list as one axis
static tn_tensor as_matrix(tn_tensor a, const uint32_t *rows, uint32_t n_rows, const uint32_t *columns,
                           uint32_t n_columns, tn_site at) {
  Prog *p = a.fn->p->ir;
  uint32_t perm[MAX_RANK];
  Dim d[] = {ir_dim(p, 1), ir_dim(p, 1)};
  for (uint32_t k = 0; k < n_rows; k++) perm[k] = rows[k], d[0] = ir_dim_mul(p, d[0], fe_axis_dim(a, rows[k]));
  for (uint32_t k = 0; k < n_columns; k++)
    perm[n_rows + k] = columns[k], d[1] = ir_dim_mul(p, d[1], fe_axis_dim(a, columns[k]));
  tn_tensor y = fe_permute(a, perm, at);
  return fe_ok(y) ? fe_reshape(y, d, 2, at) : y;
}

static bool check_sums(tn_tensor a, const Split *sa, tn_tensor b, const Split *sb, tn_site at) {
  bool fits = sa->n_free + sb->n_free <= MAX_RANK;
  for (uint32_t k = 0; k < sa->n_sum; k++) fits &= fe_axis_dim(a, sa->sum[k]).i == fe_axis_dim(b, sb->sum[k]).i;
  if (fits) return true;
  fe_error(a.fn->p, E_SHAPE, at, "axes summed over have one size in both operands, and at most %d are left: %s and %s",
           MAX_RANK, fe_type_text(a), fe_type_text(b));
  fe_note_value(a, "the first operand");
  fe_note_value(b, "the second operand");
  return false;
}

tn_tensor tn_tensordot(tn_tensor a, tn_tensor b, const int *axes_a, const int *axes_b, uint32_t n, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){a, b}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (n > MAX_RANK || (n && (!axes_a || !axes_b))) {
    fe_error(f->p, E_ARGUMENT, at, "tn_tensordot takes as many axes of one operand as of the other");
    return fe_poison(f);
  }
  Split sa, sb;
  Dim d[MAX_RANK];
  if (!split_axes(a, axes_a, n, &sa, at) || !split_axes(b, axes_b, n, &sb, at) || !check_sums(a, &sa, b, &sb, at))
    return fe_poison(f);
  for (uint32_t k = 0; k < sa.n_free; k++) d[k] = fe_axis_dim(a, sa.free[k]);
  for (uint32_t k = 0; k < sb.n_free; k++) d[sa.n_free + k] = fe_axis_dim(b, sb.free[k]);
  tn_tensor rows = as_matrix(a, sa.free, sa.n_free, sa.sum, n, at),
            columns = as_matrix(b, sb.sum, n, sb.free, sb.n_free, at);
  tn_tensor y = fe_ok(rows) && fe_ok(columns) ? fe_matmul(rows, columns, false, false, at) : fe_poison(f);
  return fe_made(fe_ok(y) ? fe_reshape(y, d, sa.n_free + sb.n_free, at) : y, at);
}

static bool are_f32(tn_tensor a, tn_tensor b) { return fe_ins(a)->dtype == DT_F32 && fe_ins(b)->dtype == DT_F32; }

// Many rows: the gradient is made of products, which round as the rows' spread does, and so is PyTorch's from as many rows on.
static bool has_many_rows(tn_tensor a, tn_tensor b) {
  enum { FEW_ROWS = 25 };
  Prog *p = a.fn->p->ir;
  return ir_dim_bound(p, fe_axis_dim(a, fe_rank(a) - 2)) > FEW_ROWS ||
         ir_dim_bound(p, fe_axis_dim(b, fe_rank(b) - 2)) > FEW_ROWS;
}

// |a_i - b_j| of every pair of rows
tn_tensor tn_cdist(tn_tensor a, tn_tensor b, double p, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){a, b}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  uint32_t ra = fe_rank(a), rb = fe_rank(b);
  bool fits = ra >= 2 && rb >= 2 && ra < MAX_RANK && rb < MAX_RANK;
  if (!fits || fe_axis_dim(a, ra - 1).i != fe_axis_dim(b, rb - 1).i) {
    fe_error(f->p, E_SHAPE, at, "operands are rows of one width, [.., n, width] and [.., m, width], not %s and %s",
             fe_type_text(a), fe_type_text(b));
    return fe_poison(f);
  }
  if (!(p >= 0)) {
    fe_error(f->p, E_ARGUMENT, at, "tn_cdist takes a p of 0 or more, not %g", p);
    return fe_poison(f);
  }
  if (p == 2 && are_f32(a, b) && has_many_rows(a, b)) {
    tn_tensor squares = fe_emit2(OP_square_distances, a, b, at);
    return fe_made(fe_ok(squares) ? fe_root(squares, at) : squares, at);
  }
  const tn_tensor in[] = {fe_with_axis(a, ra - 1, at), fe_with_axis(b, rb - 2, at)};
  tn_tensor apart = fe_ok(in[0]) && fe_ok(in[1]) ? fe_pointwise(OP_sub, in, 2, NULL, 0, at) : fe_poison(f);
  return fe_made(fe_ok(apart) ? fe_vector_norm(apart, p, -1, at) : apart, at);
}
