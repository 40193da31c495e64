// Shape rules of products of matrices and of triangular systems.
#include "ir/product.h"
#include "ir/shape/infer.h"

#include <string.h>

// {key} permutes `rank` axes, of f32, and keeps the last one, or is not there.
static uint16_t check_perm(const Infer *c, Key key, uint32_t rank) {
  const Attr *perm = ir_attr(c->f, c->v, key);
  uint32_t seen = 0;
  for (uint32_t k = 0; perm && k < ir_rank(c->p, perm->u.list) && k < MAX_RANK; k++) {
    int64_t axis = ir_list_at(c->p, perm->u.list, k);
    if (axis >= 0 && axis < rank) seen |= 1u << axis;
  }
  bool fits = perm && ir_rank(c->p, perm->u.list) == rank && seen == (1u << rank) - 1 &&
              ir_list_at(c->p, perm->u.list, rank - 1) == rank - 1 && dtype_of(c, 0) == DT_F32;
  return !perm || fits ? 0 : ir_infer_fault(c, E_ARGUMENT, "of f32 a permutation keeps the last axis");
}

// Operand k as the product reads it
static Shape read_shape(const Infer *c, uint32_t k) {
  Laid l = ir_laid(c->f, c->v, k);
  Dim d[MAX_RANK];
  for (uint32_t i = 0; i < l.rank; i++) d[i] = ir_laid_dim(c->p, &l, i);
  return ir_shape(c->p, d, l.rank);
}

// d, of r axes, as the result has them
static Shape stored_shape(const Infer *c, const Dim *d, uint32_t r) {
  const Attr *perm = ir_attr(c->f, c->v, KEY_perm);
  Dim to[MAX_RANK + 2];
  for (uint32_t k = 0; k < r; k++) to[k] = d[perm ? ir_list_at(c->p, perm->u.list, k) : k];
  return ir_shape(c->p, to, r);
}

static uint16_t product(const Infer *c, bool ta, bool tb) {
  if (dtype_of(c, 0) != dtype_of(c, 1)) return ir_infer_differ(c, "both operands must have one dtype");
  TRY(ir_infer_rank(c, 0, 2, MAX_RANK));
  TRY(ir_infer_rank(c, 1, 2, MAX_RANK));
  TRY(check_perm(c, KEY_a_perm, rank_of(c, 0)));
  TRY(check_perm(c, KEY_b_perm, rank_of(c, 1)));
  if ((ta || tb) && dtype_of(c, 0) != DT_F32) return ir_infer_fault(c, E_ARGUMENT, "{ta} and {tb} are of f32");
  uint32_t ra = rank_of(c, 0), rb = rank_of(c, 1);
  Shape a = read_shape(c, 0), b = read_shape(c, 1);
  Dim m = ir_dim_at(c->p, a, ta ? ra - 1 : ra - 2), k = ir_dim_at(c->p, a, ta ? ra - 2 : ra - 1);
  Dim k2 = ir_dim_at(c->p, b, tb ? rb - 1 : rb - 2), n = ir_dim_at(c->p, b, tb ? rb - 2 : rb - 1);
  if (k.i != k2.i) {
    ir_infer_would_fit(c, "b", ir_infer_with_dim(c, shape_of(c, 1), tb ? rb - 1 : rb - 2, k));
    ir_infer_would_fit(c, "a", ir_infer_with_dim(c, shape_of(c, 0), ta ? ra - 2 : ra - 1, k2));
    return bad_shape(c, "inner sizes differ");
  }
  Shape batch;
  Dim d[MAX_RANK + 2];
  Shape ba = ir_shape(c->p, memcpy(d, ir_dims(c->p, a), ra * sizeof(Dim)), ra - 2);
  Shape bb = ir_shape(c->p, memcpy(d, ir_dims(c->p, b), rb * sizeof(Dim)), rb - 2);
  if (!ir_infer_broadcast(c, ba, bb, &batch)) {
    rt_text_add(c->fits, "before the last two axes, sizes are equal or 1");
    return bad_shape(c, "batch sizes do not broadcast");
  }
  uint32_t r = ir_rank(c->p, batch);
  for (uint32_t j = 0; j < r; j++) d[j] = ir_dim_at(c->p, batch, j);
  d[r] = m, d[r + 1] = n;
  TRY(check_perm(c, KEY_perm, r + 2));
  set(c, 0, dtype_of(c, 0), stored_shape(c, d, r + 2));
  return 0;
}

uint16_t ir_rule_matmul(const Infer *c) {
  return product(c, ir_attr(c->f, c->v, KEY_ta) != NULL, ir_attr(c->f, c->v, KEY_tb) != NULL);
}

uint16_t ir_rule_square_distances(const Infer *c) { return product(c, false, true); }

// The last two axes of operand k.
static uint16_t check_square(const Infer *c, uint32_t k) {
  TRY(ir_infer_rank(c, k, 2, MAX_RANK));
  uint32_t r = rank_of(c, k);
  return dim_of(c, k, r - 2).i == dim_of(c, k, r - 1).i ? 0 : bad_shape(c, "the matrix is not square");
}

static bool has_batch_of(const Infer *c, uint32_t k, uint32_t other) {
  for (uint32_t j = 0; j + 2 < rank_of(c, k); j++)
    if (dim_of(c, k, j).i != dim_of(c, other, j).i) return false;
  return rank_of(c, k) == rank_of(c, other);
}

uint16_t ir_rule_solve_triangular(const Infer *c) {
  TRY(check_square(c, 0));
  TRY(ir_infer_rank(c, 1, 2, MAX_RANK));
  uint32_t ra = rank_of(c, 0), rb = rank_of(c, 1), axis = ir_attr(c->f, c->v, KEY_right) ? rb - 1 : rb - 2;
  if (dim_of(c, 1, axis).i != dim_of(c, 0, ra - 1).i) {
    ir_infer_would_fit(c, "b", ir_infer_with_dim(c, shape_of(c, 1), axis, dim_of(c, 0, ra - 1)));
    return bad_shape(c, "the system and its right-hand sides differ in size");
  }
  if (ra != 2 && !has_batch_of(c, 0, 1)) return bad_shape(c, "batch sizes differ");
  set(c, 0, DT_F32, shape_of(c, 1));
  return 0;
}

uint16_t ir_rule_cholesky(const Infer *c) {
  TRY(check_square(c, 0));
  set(c, 0, DT_F32, shape_of(c, 0));
  return 0;
}

// s without its last n axes
static Shape leading(const Infer *c, Shape s, uint32_t n) {
  Dim d[MAX_RANK];
  uint32_t r = ir_rank(c->p, s) - n;
  return ir_shape(c->p, memcpy(d, ir_dims(c->p, s), r * sizeof(Dim)), r);
}

uint16_t ir_rule_lu(const Infer *c) {
  TRY(check_square(c, 0));
  set(c, 0, DT_F32, shape_of(c, 0));
  set(c, 1, DT_I64, leading(c, shape_of(c, 0), 1));
  set(c, 2, DT_F32, leading(c, shape_of(c, 0), 2));
  return 0;
}

uint16_t ir_rule_lu_solve(const Infer *c) {
  TRY(check_square(c, 0));
  TRY(ir_infer_rank(c, 3, 2, MAX_RANK));
  if (shape_of(c, 1).i != shape_of(c, 0).i) return bad_shape(c, "the factors differ from the matrix in shape");
  if (shape_of(c, 2).i != leading(c, shape_of(c, 0), 1).i) return bad_shape(c, "there is one number for each row");
  uint32_t r = rank_of(c, 0);
  if (dim_of(c, 3, rank_of(c, 3) - 2).i != dim_of(c, 0, r - 1).i) {
    ir_infer_would_fit(c, "b", ir_infer_with_dim(c, shape_of(c, 3), rank_of(c, 3) - 2, dim_of(c, 0, r - 1)));
    return bad_shape(c, "the system and its right-hand sides differ in size");
  }
  if (!has_batch_of(c, 0, 3)) return bad_shape(c, "batch sizes differ");
  set(c, 0, DT_F32, shape_of(c, 3));
  return 0;
}

// Sizes that are known to be equal, or to be constant.
static bool is_at_least(const Infer *c, Dim a, Dim b) {
  bool known = ir_dim_is_const(c->p, a) && ir_dim_is_const(c->p, b);
  return a.i == b.i || (known && ir_dim_bound(c->p, a) >= ir_dim_bound(c->p, b));
}

uint16_t ir_rule_qr(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 2, MAX_RANK));
  uint32_t r = rank_of(c, 0);
  if (!is_at_least(c, dim_of(c, 0, r - 2), dim_of(c, 0, r - 1)))
    return bad_shape(c, "a matrix has as many rows as columns, or more, which sizes show that are constant or equal");
  set(c, 0, DT_F32, shape_of(c, 0));
  set(c, 1, DT_F32, ir_infer_with_dim(c, shape_of(c, 0), r - 2, dim_of(c, 0, r - 1)));
  return 0;
}

uint16_t ir_rule_eigh(const Infer *c) {
  TRY(check_square(c, 0));
  set(c, 0, DT_F32, leading(c, shape_of(c, 0), 1));
  set(c, 1, DT_F32, shape_of(c, 0));
  return 0;
}

uint16_t ir_rule_svd(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 2, MAX_RANK));
  uint32_t r = rank_of(c, 0);
  if (!is_at_least(c, dim_of(c, 0, r - 1), dim_of(c, 0, r - 2)))
    return bad_shape(c, "a matrix has as many columns as rows, or more, which sizes show that are constant or equal");
  set(c, 0, DT_F32, ir_infer_with_dim(c, shape_of(c, 0), r - 1, dim_of(c, 0, r - 2)));
  set(c, 1, DT_F32, leading(c, shape_of(c, 0), 1));
  set(c, 2, DT_F32, shape_of(c, 0));
  return 0;
}

uint16_t ir_rule_linear(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  TRY(ir_infer_rank(c, 1, 2, 2));
  uint32_t r = rank_of(c, 0);
  if (dim_of(c, 0, r - 1).i != dim_of(c, 1, 1).i) {
    ir_infer_would_fit(c, "x", ir_infer_with_dim(c, shape_of(c, 0), r - 1, dim_of(c, 1, 1)));
    return bad_shape(c, "the last size of x differs from the weight's second");
  }
  if (ir_has_operand(c->f, c->v, ARG_bias)) {
    TRY(ir_infer_rank(c, 2, 1, 1));
    if (dim_of(c, 2, 0).i != dim_of(c, 1, 0).i)
      return bad_shape(c, "the bias has another size than the weight's first");
  }
  set(c, 0, DT_F32, ir_infer_with_dim(c, shape_of(c, 0), r - 1, dim_of(c, 1, 0)));
  return 0;
}
