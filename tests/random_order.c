// Steps of the random generator: scans along an axis, gather and scatter.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "tests/random_gen.h"

#include <math.h>

static Attr some_axis(Gen *g, Val v) { return ir_a_int(KEY_axis, gen_below(g, ir_rank(g->p, gen_shape_at(g, v)))); }

static int64_t size_along(const Gen *g, Val v, int64_t axis) {
  return ir_dim_bound(g->p, ir_dim_at(g->p, gen_shape_at(g, v), (uint32_t)axis));
}

static Val bounded_by_one(Gen *g, Val v) { return gen_op1(g, OP_tanh, v); }

double gen_mag_of_scan(Op op, double mag, double n) {
  switch (op) {
  case OP_cumsum: return mag * (n + 1);
  case OP_cumprod: return 1;
  case OP_logcumsumexp: return mag + log(n + 1) + 1;
  default: return mag;
  }
}

void add_cumulative(Gen *g) {
  static const Op ops[] = {OP_cumsum, OP_cumprod, OP_logcumsumexp, OP_cummax, OP_cummin, OP_shift};
  Val v = gen_pick_where(g, gen_any_row), x;
  if (ir_none(v)) return;
  Op op = ops[gen_below(g, sizeof ops / sizeof *ops)];
  Attr attr[3] = {some_axis(g, v), ir_a_int(KEY_reverse, 1)};
  double n = (double)size_along(g, v, attr[0].u.i);
  bool best = op == OP_cummax || op == OP_cummin;
  uint32_t n_attrs = !best && gen_chance(g, 40) ? 2 : 1;
  x = op == OP_cumprod ? bounded_by_one(g, v) : v;
  if (op == OP_cumprod && gen_chance(g, 30)) attr[n_attrs++] = ir_a_int(KEY_exclusive, 1);
  Val y = gen_emit(g, op, &x, 1, attr, n_attrs);
  if (ir_none(y)) return;
  gen_keep_tame(g, y, gen_mag_of_scan(op, gen_mag(g, v), n));
  if (!best || !ir_dim_is_const(g->p, ir_dim_at(g->p, gen_shape_at(g, v), (uint32_t)attr[0].u.i))) return;
  if (!ir_none(gen_keep(g, ir_result(y, 1), n))) g->pool[g->n - 1].below = (int64_t)n;
}

// ---- linear recurrences
// Another value of the shape of v without its axis `axis`, or with another size there; none: there may be no more inputs
static Val state_for(Gen *g, Val v, uint32_t axis, const Layout *l) {
  Dims d = gen_dims(g, v);
  if (l) d.d[0] = l->batch;
  else
    for (uint32_t k = axis; --d.n > k; k++) d.d[k] = d.d[k + 1];
  Shape s = gen_shape(g, &d);
  return gen_is_small(g, s) && gen_may_be_input(g, s) ? gen_leaf(g, s) : (Val){0};
}

// Factors for v, between -1 and 1: its own, the same at every step, or small matrices
static Val factors_for(Gen *g, Val v, uint32_t axis, const Layout *l) {
  Dims d = gen_dims(g, v);
  bool is_own = gen_chance(g, 50);
  int64_t side = gen_last_size(g, v);
  if (!is_own && side >= 1 && side <= MAX_SCAN_SIDE && axis + 1 < d.n && d.n < MAX_RANK) d.d[d.n] = d.d[d.n - 1], d.n++;
  else if (!is_own && !l) d.d[axis] = ir_dim(g->p, 1);
  Shape s = gen_shape(g, &d);
  bool is_new = !is_own && gen_is_small(g, s) && gen_may_be_input(g, s);
  Val a = bounded_by_one(g, is_new ? gen_leaf(g, s) : v);
  bool is_matrix = ir_rank(g->p, gen_shape_at(g, a)) > ir_rank(g->p, gen_shape_at(g, v));
  return is_matrix ? gen_op2(g, OP_mul, a, gen_number(g, 1 / (double)side)) : a;
}

static void along(Gen *g, Val v, uint32_t axis, const Layout *l) {
  Attr attr[2] = {ir_a_int(KEY_axis, axis), ir_a_int(KEY_reverse, 1)};
  uint32_t n_attrs = 1 + gen_chance(g, 40);
  Val layout = l ? l->v : (Val){0}, h0 = gen_chance(g, 50) ? state_for(g, v, axis, l) : (Val){0};
  Val a = factors_for(g, v, axis, l), in[] = {a, v, h0, layout};
  double mag = (gen_mag(g, v) + 2) * (double)(size_along(g, v, axis) + 1);
  Val y = gen_emit(g, OP_linear_scan, in, 4, attr, n_attrs);
  if (ir_none(y)) return;
  gen_keep_tame(g, y, mag);
  gen_keep_tame(g, ir_result(y, 1), mag);
  if (!gen_chance(g, 40)) return;
  bool reads_y = gen_chance(g, 70), ends = gen_chance(g, 50);
  Val of[] = {a,
              v,
              reads_y ? gen_tame(g, y, 3) : (Val){0},
              reads_y ? h0 : (Val){0},
              ends ? gen_tame(g, ir_result(y, 1), 3) : (Val){0},
              layout};
  Val d = gen_emit(g, OP_linear_scan_grad, of, 6, attr, n_attrs);
  for (uint32_t k = reads_y ? 0 : 1; !ir_none(d) && k < 3; k++) gen_keep_tame(g, ir_result(d, k), 4 * mag);
}

void add_linear_scan(Gen *g) {
  const Layout *l = gen_chance(g, 40) ? gen_some_layout(g) : NULL;
  Val v = l ? gen_rows_of(g, l, false) : gen_pick_where(g, gen_any_row);
  if (!ir_none(v) && gen_is_f32(g, v)) along(g, v, l ? 0 : gen_below(g, ir_rank(g->p, gen_shape_at(g, v))), l);
}

// A value with rows, and an axis of it whose size is known.
static Val with_known_axis(Gen *g, Attr *axis) {
  Val v = gen_pick_where(g, gen_any_row);
  if (ir_none(v)) return v;
  *axis = some_axis(g, v);
  Dim d = ir_dim_at(g->p, gen_shape_at(g, v), (uint32_t)axis->u.i);
  return ir_dim_is_const(g->p, d) && ir_dim_bound(g->p, d) > 0 ? v : (Val){0};
}

// The same for all elements of a place
static Val index_of_places(Gen *g, Dims part, int64_t axis) {
  Attr shape = ir_a_list(KEY_shape, gen_shape(g, &part));
  for (uint32_t k = 0; k < part.n; k++)
    if (k != axis) part.d[k] = ir_dim(g->p, 1);
  if (!gen_may_be_input(g, gen_shape(g, &part))) return (Val){0};
  Val index = gen_input(g, "index", DT_I64, gen_shape(g, &part));
  return gen_emit(g, OP_expand, &index, 1, &shape, 1);
}

// Of v's shape but along the axis; none: no input may be made of it.
static Val index_for(Gen *g, Val v, int64_t axis, bool by_slice, Dims *part) {
  *part = gen_dims(g, v);
  part->d[axis] = ir_dim(g->p, gen_size(g));
  Dims slice = {{part->d[axis]}, 1};
  Shape s = gen_shape(g, by_slice ? &slice : part);
  if (!gen_is_small(g, gen_shape(g, part)) || !gen_may_be_input(g, s)) return (Val){0};
  if (!by_slice && gen_chance(g, 30)) return index_of_places(g, *part, axis);
  return gen_input(g, "index", DT_I64, s);
}

void add_axis_gather(Gen *g) {
  Attr axis;
  Dims part;
  Val v = with_known_axis(g, &axis);
  if (ir_none(v)) return;
  bool by_slice = gen_chance(g, 50);
  Val index = index_for(g, v, axis.u.i, by_slice, &part);
  if (ir_none(index)) return;
  gen_keep(g, gen_emit(g, by_slice ? OP_index_select : OP_gather, (Val[]){v, index}, 2, &axis, 1), gen_mag(g, v));
}

void add_axis_scatter(Gen *g) {
  static const Op ops[] = {OP_scatter,      OP_scatter_add, OP_scatter_prod, OP_scatter_amax,
                           OP_scatter_amin, OP_index_copy,  OP_index_add};
  Attr axis;
  Dims part;
  Op op = ops[gen_below(g, sizeof ops / sizeof *ops)];
  Val v = with_known_axis(g, &axis);
  if (ir_none(v)) return;
  Val index = index_for(g, v, axis.u.i, op == OP_index_copy || op == OP_index_add, &part);
  if (ir_none(index)) return;
  Val source = gen_chance(g, 20) ? gen_number(g, 0.75) : gen_leaf(g, gen_shape(g, &part));
  bool adds = op == OP_scatter_add || op == OP_index_add;
  double n = (double)ir_dim_bound(g->p, part.d[axis.u.i]);
  Val target = gen_chance(g, 40) ? gen_op2(g, OP_mul, v, gen_number(g, 0.5)) : v;  // one whose place may be taken
  gen_keep_tame(g, gen_emit(g, op, (Val[]){target, index, source}, 3, &axis, 1), gen_mag(g, v) + (adds ? 2 * n : 2));
}

void add_order(Gen *g) {
  static const Op ops[] = {OP_sort, OP_topk, OP_kth_value, OP_median};
  Attr axis;
  Val v = with_known_axis(g, &axis);
  if (ir_none(v)) return;
  Op op = ops[gen_below(g, 4)];
  int64_t n = size_along(g, v, axis.u.i);
  Attr attr[3] = {axis};
  uint32_t n_attrs = 1;
  if (op == OP_topk || op == OP_kth_value) attr[n_attrs++] = ir_a_int(KEY_size, 1 + gen_below(g, (uint32_t)n));
  if (op == OP_sort || op == OP_topk) {
    attr[n_attrs] = ir_a_int(KEY_descending, 1);
    n_attrs += gen_chance(g, 50);
  }
  Val y = gen_emit(g, op, &v, 1, attr, n_attrs);
  if (!ir_none(y)) gen_keep(g, y, gen_mag(g, v));
}

void add_search(Gen *g) {
  Val v = gen_pick_where(g, gen_any_row), row = gen_leaf(g, ir_shape_ints(g->p, (int64_t[]){gen_size(g)}, 1));
  Attr axis = ir_a_int(KEY_axis, 0), right = ir_a_int(KEY_right, 1), as_f32 = ir_a_int(KEY_dtype, DT_F32);
  if (ir_none(v)) return;
  Val sorted = gen_emit(g, OP_sort, &row, 1, &axis, 1);
  if (ir_none(sorted)) return;
  Val place = gen_emit(g, OP_searchsorted, (Val[]){sorted, v}, 2, &right, gen_chance(g, 50));
  gen_keep(g, gen_emit(g, OP_cast, &place, 1, &as_f32, 1), 10);
}

static Val flattened(Gen *g, Val v) {
  Dim n = ir_shape_numel(g->p, gen_shape_at(g, v));
  Attr shape = ir_a_list(KEY_shape, ir_shape(g->p, &n, 1));
  return gen_emit(g, OP_reshape, &v, 1, &shape, 1);
}

// The row with elements put, or added, at places
static void keep_put(Gen *g, Val row, Val index, const Attr *attr) {
  static const Op ops[] = {OP_index_copy, OP_index_add, OP_scatter, OP_scatter_add};
  Val source = gen_leaf(g, gen_shape_at(g, index));
  if (ir_none(source)) return;
  Val y = gen_emit(g, ops[gen_below(g, 4)], (Val[]){row, index, source}, 3, attr, 2);
  gen_keep(g, y, gen_mag(g, row) + gen_mag(g, source));
}

// Rows of a table, of as many as the row has elements; where the index is -1 there is none
static void keep_looked_up(Gen *g, Val row, Val index, const Attr *padded) {
  int64_t n = ir_shape_bound(g->p, gen_shape_at(g, row));
  Val table = n > 0 ? gen_leaf(g, ir_shape_ints(g->p, (int64_t[]){n, gen_size(g)}, 2)) : (Val){0};
  if (ir_none(table)) return;
  Val y = gen_emit(g, OP_embedding, (Val[]){table, index}, 2, padded, 1);
  gen_keep(g, gen_op2(g, OP_mul, y, gen_number(g, 0.5)), gen_mag(g, table));
  if (gen_chance(g, 30))
    gen_keep(g, gen_emit(g, OP_embedding_grad, (Val[]){table, index, y}, 3, padded, 1), 20 * gen_mag(g, table));
}

// What lies in a row at the places that `find` finds, in a list with room for one more
static void keep_found(Gen *g, Op find, Val searched, Val row) {
  Attr size = ir_a_int(KEY_size, ir_shape_bound(g->p, gen_shape_at(g, row)) + 1);
  const Attr attr[] = {ir_a_int(KEY_axis, 0), ir_a_int(KEY_padded, 1)};
  Val index = ir_none(searched) ? searched : gen_emit(g, find, &searched, 1, &size, 1);
  if (ir_none(index)) return;
  if (find == OP_nonzero && gen_chance(g, 40)) keep_put(g, row, index, attr);  // no index is there twice
  if (gen_chance(g, 30)) keep_looked_up(g, row, index, &attr[1]);
  gen_keep(g, gen_emit(g, gen_chance(g, 50) ? OP_gather : OP_index_select, (Val[]){row, index}, 2, attr, 2),
           gen_mag(g, row));
}

// What is above a number
static Val found_in(Gen *g, Val *row) {
  Val v = gen_pick(g);
  if (!gen_is_small(g, gen_shape_at(g, v))) return (Val){0};
  *row = flattened(g, v);
  return ir_none(*row) ? *row : gen_op2(g, OP_gt, *row, gen_number(g, 0.1));
}

void add_nonzero(Gen *g) {
  Val row, set = found_in(g, &row);
  if (!ir_none(set)) keep_found(g, OP_nonzero, set, row);
}

// By counts that are 0 or 1
void add_repeat_index(Gen *g) {
  Attr to_i64 = ir_a_int(KEY_dtype, DT_I64);
  Val row, set = found_in(g, &row);
  if (!ir_none(set)) keep_found(g, OP_repeat_index, gen_emit(g, OP_cast, &set, 1, &to_i64, 1), row);
}

static Val bag_gradient(Gen *g, Val table, Val index, Val factor, Dims bags) {
  Val rows = gen_leaf(g, gen_shape(g, &bags));
  if (!ir_none(factor) || gen_chance(g, 50))
    return gen_emit(g, OP_embedding_bag_grad, (Val[]){table, index, rows, {0}, factor}, 5, NULL, 0);
  return gen_emit(g, OP_embedding_bag_factor, (Val[]){table, index, rows}, 3, NULL, 0);
}

void add_bag(Gen *g) {
  Val w = gen_pick_where(g, gen_any_table);
  if (ir_none(w)) w = gen_leaf(g, ir_shape_ints(g->p, (int64_t[]){1 + gen_below(g, 20), gen_size(g)}, 2));
  if (!gen_any_table(g, w)) return;
  Dims d = gen_dims(g, w), own = {{ir_dim(g->p, gen_size(g)), ir_dim(g->p, gen_below(g, 6))}, 2},
       bags = {{own.d[0], d.d[1]}, 2};
  Shape s = gen_shape(g, &own);
  if (!gen_may_be_input(g, s) || !gen_is_small(g, gen_shape(g, &bags))) return;
  Attr attr[2] = {ir_a_int(KEY_padding, 0), ir_a_int(KEY_max, 1)};
  bool max = gen_chance(g, 40), pads = gen_chance(g, 40);
  Val index = gen_input(g, "index", DT_I64, s), factor = max || gen_chance(g, 50) ? (Val){0} : gen_leaf(g, s);
  double n = (double)ir_dim_bound(g->p, own.d[1]) + 1;
  if (gen_chance(g, 30)) gen_keep_tame(g, bag_gradient(g, w, index, factor, bags), 30);
  Val y = gen_emit(g, OP_embedding_bag, (Val[]){w, index, {0}, factor}, 4, attr + !pads, pads + max);
  if (!ir_none(y)) gen_keep_tame(g, y, gen_mag(g, w) * n * 2);
}

// ---- Fourier transforms
void add_fourier(Gen *g) {
  Val v = gen_pick_where(g, gen_any_row);
  int64_t last = ir_none(v) ? 0 : gen_last_size(g, v);
  if (last < 1) return;
  bool back = last % 2 == 0 && gen_chance(g, 50);
  int64_t size = back ? last - 2 + (last == 2 || gen_chance(g, 50)) : last;
  Attr attr[3] = {ir_a_int(KEY_weighted, 1), ir_a_int(KEY_size, size)}, *from = gen_chance(g, 50) ? attr : &attr[1];
  uint32_t n = (uint32_t)(&attr[1 + back] - from), rank = gen_dims(g, v).n;
  if (!back && rank >= 2 && rank < MAX_RANK && gen_chance(g, 40)) from[n++] = ir_a_int(KEY_bins_first, 1);
  gen_keep_tame(g, gen_emit(g, back ? OP_rfft_grad : OP_rfft, &v, 1, from, n), gen_mag(g, v) * (double)(last + 1));
}
