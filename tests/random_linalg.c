// Steps of the random generator: triangular systems, Cholesky factors and row operations, of matrices that are far from singular.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "tests/random_gen.h"

enum { MOST_ROWS = 40 };

// 1, 2, .. along one axis of n x n
static Val places(Gen *g, Dim n, int64_t axis) {
  Dims d = {{ir_dim(g->p, 1), ir_dim(g->p, 1)}, 2};
  d.d[axis] = n;
  Attr full[2] = {ir_a_num(KEY_value, 1), ir_a_list(KEY_shape, gen_shape(g, &d))}, along = ir_a_int(KEY_axis, axis);
  Val ones = gen_emit(g, OP_full, NULL, 0, full, 2);
  return ir_none(ones) ? ones : gen_emit(g, OP_cumsum, &ones, 1, &along, 1);
}

static Val plus_identity(Gen *g, Val a, Dim n) {
  Val rows = places(g, n, 0), columns = places(g, n, 1);
  if (ir_none(a) || ir_none(rows) || ir_none(columns)) return (Val){0};
  // noise in the sums must not change what is equal
  Val distance = gen_op1(g, OP_abs, gen_op2(g, OP_sub, rows, columns));
  return gen_op2(g, OP_add, a, gen_op2(g, OP_lt, distance, gen_number(g, 0.5)));
}

// v's axis that is `from_end` before its end, where it is the size of a system
static Dim system_size(Gen *g, Val v, uint32_t from_end) {
  Dims d = gen_dims(g, v);
  Dim n = d.n >= 2 ? d.d[d.n - from_end] : (Dim){0};
  bool fits = n.i && ir_dim_is_const(g->p, n) && ir_dim_bound(g->p, n) > 0 && ir_dim_bound(g->p, n) <= MOST_ROWS;
  return fits ? n : (Dim){0};
}

static void add_system(Gen *g) {
  static const Key keys[] = {KEY_upper, KEY_ta, KEY_unit};
  Val v = gen_pick_where(g, gen_any_row);
  bool right = gen_chance(g, 40);
  Dim n = ir_none(v) ? (Dim){0} : system_size(g, v, right ? 1 : 2);
  if (!n.i) return;
  Dims d = gen_dims(g, v), own = {{n, n}, 2};
  bool batched = d.n > 2 && gen_chance(g, 50);
  if (batched) own = d, own.d[d.n - 1] = own.d[d.n - 2] = n;
  Shape s = gen_shape(g, &own);
  if (!gen_is_small(g, s) || !gen_may_be_input(g, s)) return;
  Val small =
      gen_op2(g, OP_mul, gen_op1(g, OP_tanh, gen_leaf(g, s)), gen_number(g, 0.5 / (double)ir_dim_bound(g->p, n)));
  Attr attr[4] = {ir_a_int(KEY_right, 1)};
  uint32_t n_attrs = right;
  for (uint32_t k = 0; k < 3; k++)
    if (gen_chance(g, 40)) attr[n_attrs++] = ir_a_int(keys[k], 1);
  Val a = plus_identity(g, small, n);
  if (ir_none(a)) return;
  gen_keep_tame(g, gen_emit(g, OP_solve_triangular, (Val[]){a, v}, 2, attr, n_attrs), 4 * gen_mag(g, v));
}

static void add_factor(Gen *g) {
  Val v = gen_pick_where(g, gen_any_row);
  Dim n = ir_none(v) ? (Dim){0} : system_size(g, v, 2);
  int64_t k = n.i ? gen_last_size(g, v) : 0;
  if (k <= 0) return;
  Dims d = gen_dims(g, v);
  d.d[d.n - 1] = n;
  if (!gen_is_small(g, gen_shape(g, &d))) return;
  Attr tb = ir_a_int(KEY_tb, 1), upper = ir_a_int(KEY_upper, 1);
  Val bounded = gen_op1(g, OP_tanh, v);
  Val square = gen_emit(g, OP_matmul, (Val[]){bounded, bounded}, 2, &tb, 1);
  if (ir_none(square)) return;
  Val a = plus_identity(g, gen_op2(g, OP_mul, square, gen_number(g, 1 / (double)k)), n);
  if (!ir_none(a)) gen_keep(g, gen_emit(g, OP_cholesky, &a, 1, &upper, gen_chance(g, 50)), 1.5);
}

// A new input, square in the last two axes as v has rows: near 1. None: v cannot have one.
static Val near_identity(Gen *g, Val v) {
  Dim n = ir_none(v) ? (Dim){0} : system_size(g, v, 2);
  if (!n.i) return (Val){0};
  Dims d = gen_dims(g, v);
  d.d[d.n - 1] = n;
  Shape s = gen_shape(g, &d);
  if (!gen_is_small(g, s) || !gen_may_be_input(g, s)) return (Val){0};
  Val small =
      gen_op2(g, OP_mul, gen_op1(g, OP_tanh, gen_leaf(g, s)), gen_number(g, 0.5 / (double)ir_dim_bound(g->p, n)));
  return plus_identity(g, small, n);
}

// By row operations: the order of rows may differ by rounding, which solutions and the size of the determinant do not show.
static void add_row_operations(Gen *g) {
  Val v = gen_pick_where(g, gen_any_row), a = near_identity(g, v);
  Val lu = ir_none(a) ? a : gen_emit(g, OP_lu, &a, 1, NULL, 0);
  if (ir_none(lu)) return;
  Attr ta = ir_a_int(KEY_ta, 1);
  Val x = gen_emit(g, OP_lu_solve, (Val[]){a, lu, ir_result(lu, 1), v}, 4, &ta, gen_chance(g, 50));
  gen_keep_tame(g, x, 4 * gen_mag(g, v));
}

// Columns that are far from depending on one another
static void add_reflections(Gen *g) {
  Val v = gen_pick_where(g, gen_any_row), a = near_identity(g, v);
  Val q = ir_none(a) ? a : gen_emit(g, OP_qr, &a, 1, NULL, 0);
  if (ir_none(q)) return;
  if (gen_chance(g, 60)) gen_keep(g, q, 1);
  if (gen_chance(g, 60)) gen_keep(g, ir_result(q, 1), 2);
}

// 1, 2, .. on the diagonal, and little elsewhere: values are far apart. Nothing that is kept depends on the signs of vectors.
static void add_values(Gen *g) {
  Val v = gen_pick_where(g, gen_any_row);
  Dim n = ir_none(v) ? (Dim){0} : system_size(g, v, 2);
  int64_t most = n.i ? ir_dim_bound(g->p, n) : 0;
  if (!n.i || most > 12) return;
  Dims d = gen_dims(g, v);
  d.d[d.n - 1] = n;
  Shape s = gen_shape(g, &d);
  if (!gen_is_small(g, s) || !gen_may_be_input(g, s)) return;
  Val rows = places(g, n, 0), columns = places(g, n, 1);
  if (ir_none(rows) || ir_none(columns)) return;
  Val small = gen_op2(g, OP_mul, gen_op1(g, OP_tanh, gen_leaf(g, s)), gen_number(g, 0.25 / (double)most));
  Val a = gen_op2(g, OP_add, small, gen_op2(g, OP_mul, rows, gen_op2(g, OP_eq, rows, columns)));
  if (ir_none(a)) return;
  bool symmetric = gen_chance(g, 50);
  Val w = gen_emit(g, symmetric ? OP_eigh : OP_svd, &a, 1, NULL, 0);
  if (ir_none(w)) return;
  if (!symmetric) gen_keep(g, ir_result(w, 1), (double)most + 1);
  else gen_keep(g, w, (double)most + 1);
  Val vectors = ir_result(w, symmetric ? 1 : 2);
  if (gen_chance(g, 50)) gen_keep(g, gen_op2(g, OP_mul, vectors, vectors), 1);
}

void add_triangular(Gen *g) {
  if (gen_chance(g, 30)) {
    add_values(g);
    return;
  }
  if (gen_chance(g, 25)) add_reflections(g);
  else if (gen_chance(g, 45)) add_system(g);
  else if (gen_chance(g, 50)) add_factor(g);
  else add_row_operations(g);
}
