// Random programs: columns of arrays of a few numbers, what is computed of them, and arrays of columns.
#include "ir/build.h"
#include "ir/intern.h"
#include "tests/random_gen.h"

enum { MOST = 5 };

static bool has_columns(Gen *g, Val v) {
  Dims d = gen_dims(g, v);
  if (!gen_is_f32(g, v) || d.n == 0 || d.n >= MAX_RANK || !ir_dim_is_const(g->p, d.d[d.n - 1])) return false;
  int64_t n = ir_dim_bound(g->p, d.d[d.n - 1]);
  return n > 1 && n <= MOST && gen_is_small(g, gen_shape_at(g, v));
}

static Val reshaped(Gen *g, Val v, Dims d) {
  Attr shape = ir_a_list(KEY_shape, gen_shape(g, &d));
  return gen_emit(g, OP_reshape, &v, 1, &shape, 1);
}

static Val column_of(Gen *g, Val v, Dims d, uint32_t k, bool bare) {
  Attr a[] = {ir_a_int(KEY_axis, d.n - 1), ir_a_dim(KEY_start, ir_dim(g->p, k)), ir_a_int(KEY_size, 1)};
  Val y = gen_emit(g, OP_slice, &v, 1, a, 3);
  d.n -= bare;
  return bare ? reshaped(g, y, d) : y;
}

static Val computed(Gen *g, const Val *column, uint32_t n, bool bare) {
  static const Op ops[] = {OP_add, OP_sub, OP_max};
  Val x = column[gen_below(g, n)], y = column[gen_below(g, n)];
  if (gen_chance(g, 20)) return x;
  if (bare && gen_chance(g, 25)) y = gen_leaf(g, gen_shape_at(g, x));
  return ir_none(y) ? x : gen_op2(g, ops[gen_below(g, 3)], gen_op2(g, OP_mul, x, gen_number(g, 0.5)), y);
}

// The parts as sums of pads, some of which have two terms, in any order
static Val sum_of_pads(Gen *g, const Val *part, uint32_t n, uint32_t axis) {
  uint32_t first = gen_below(g, n);
  Val sum = {0};
  for (uint32_t i = 0; i < n + 1; i++) {
    uint32_t k = (first + i) % n;
    Attr a[] = {ir_a_int(KEY_axis, axis), ir_a_dim(KEY_start, ir_dim(g->p, k)), ir_a_int(KEY_size, n)};
    Val v = part[k], padded = gen_emit(g, OP_pad_axis, &v, 1, a, 3);
    sum = i ? gen_op2(g, OP_add, sum, padded) : padded;
  }
  return sum;
}

// Every n-th element from each part, and their sum
static Val sum_of_steps(Gen *g, const Val *part, uint32_t n, uint32_t axis) {
  Dims d = gen_dims(g, part[0]);
  int64_t count = ir_dim_bound(g->p, d.d[axis]);
  d.d[axis] = ir_dim(g->p, n * count);
  if (!gen_is_small(g, gen_shape(g, &d))) return (Val){0};
  Attr zeros[] = {ir_a_num(KEY_value, 0), ir_a_list(KEY_shape, gen_shape(g, &d))};
  Val sum = {0};
  for (uint32_t k = 0; k < n; k++) {
    Attr a[] = {ir_a_int(KEY_axis, axis), ir_a_dim(KEY_start, ir_dim(g->p, k)), ir_a_int(KEY_step, n)};
    Val in[] = {gen_emit(g, OP_full, NULL, 0, zeros, 2), part[k]}, own = gen_emit(g, OP_slice_assign, in, 2, a, 3);
    sum = k ? gen_op2(g, OP_add, sum, own) : own;
  }
  return sum;
}

// Parts of an axis: every second element, or every third, computed apart.
static void add_steps(Gen *g, Val v, Dims d) {
  uint32_t n = (uint32_t)ir_dim_bound(g->p, d.d[d.n - 1]);
  Val part[MOST];
  for (uint32_t k = 0; k < n; k++) part[k] = gen_op2(g, OP_mul, v, gen_number(g, 0.25 + k));
  Val y = sum_of_steps(g, part, n, gen_below(g, d.n - 1));
  if (!ir_none(y)) gen_keep(g, y, 6 * gen_mag(g, v));
}

void add_columns(Gen *g) {
  Val v = gen_pick_where(g, has_columns), column[MOST], part[MOST];
  if (ir_none(v)) return;
  Dims d = gen_dims(g, v), unit = d;
  uint32_t n = (uint32_t)ir_dim_bound(g->p, d.d[d.n - 1]), m = 2 + gen_below(g, MOST - 1);
  bool bare = d.n > 1 && gen_chance(g, 60);
  unit.d[d.n - 1] = ir_dim(g->p, 1);
  if (d.n > 1 && gen_chance(g, 15) && ir_shape_is_const(g->p, gen_shape_at(g, v))) {
    add_steps(g, v, d);
    return;
  }
  for (uint32_t k = 0; k < n; k++) column[k] = column_of(g, v, d, k, bare);
  for (uint32_t k = 0; k < m; k++) {
    part[k] = computed(g, column, n, bare);
    if (bare) part[k] = reshaped(g, part[k], unit);
  }
  Attr axis = ir_a_int(KEY_axis, d.n - 1);
  bool is_sum = gen_chance(g, 40);
  Val y = is_sum ? sum_of_pads(g, part, m, d.n - 1) : gen_emit(g, OP_concat, part, m, &axis, 1);
  gen_keep(g, y, 4 * gen_mag(g, v) + 4);
}
