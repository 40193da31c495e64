// Which numbers a value has, and whether a number is among others: by order.
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/promote.h"
#include "frontend/tenure/order.h"
#include "ir/build.h"

static tn_tensor op1(Op op, tn_tensor a, tn_site at) { return fe_emit1(op, a, at); }
static tn_tensor op2(Op op, tn_tensor a, tn_tensor b, tn_site at) { return fe_emit2(op, a, b, at); }

static tn_tensor along_row(Op op, const tn_tensor *in, uint32_t n, bool is_padded, tn_site at) {
  const Attr attr[] = {ir_a_int(KEY_axis, 0), ir_a_int(KEY_padded, 1)};
  return fe_emit(op, in, n, attr, is_padded ? 2 : 1, at);
}

static tn_tensor ones_like(tn_tensor row, DType t, tn_site at) { return fe_full(row.fn, 1, fe_shape_of(row), t, at); }

// All elements in order; the index of each is the next result. Poison: reported
static tn_tensor sorted_row(tn_tensor a, tn_site at) {
  tn_tensor flat = fe_widened(OP_sort, fe_flattened(a, at), at);
  return fe_ok(flat) ? along_row(OP_sort, &flat, 1, false, at) : flat;
}

// f32: 1 for each element of a sorted row that differs from the one before it, and for the first.
static tn_tensor marks_of_new(tn_tensor row, tn_site at) {
  tn_tensor one = ones_like(row, DT_F32, at);
  tn_tensor has_other = along_row(OP_shift, &one, 1, false, at), other = along_row(OP_shift, &row, 1, false, at);
  return fe_emit(OP_select, (const tn_tensor[]){has_other, op2(OP_ne, row, other, at), one}, 3, NULL, 0, at);
}

tn_tensor tn_unique_count(tn_tensor a, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  Attr axes = ir_a_list(KEY_axes, ir_shape_ints(f->p->ir, (int64_t[]){0}, 1));
  tn_tensor row = sorted_row(a, at);
  if (!fe_ok(row)) return row;
  tn_tensor marks = marks_of_new(row, at), count = fe_ok(marks) ? fe_emit(OP_sum, &marks, 1, &axes, 1, at) : marks;
  return fe_made(fe_cast(count, DT_I64, at), at);
}

static tn_uniques uniques_of(tn_tensor a, tn_tensor row, int64_t most, tn_site at) {
  tn_function *f = a.fn;
  Attr size = ir_a_int(KEY_size, most);
  const tn_uniques none = {fe_poison(f), fe_poison(f), fe_poison(f), fe_poison(f)};
  tn_tensor index = {f, row.v + 1}, marks = marks_of_new(row, at);
  tn_tensor places = fe_emit(OP_nonzero, &marks, 1, &size, 1, at), new = fe_cast(marks, DT_I64, at);
  if (!fe_ok(places)) return none;
  // The number of each element of the row: how many are new so far, less one
  tn_tensor number = op2(OP_sub, along_row(OP_cumsum, &new, 1, false, at), fe_number(f, 1, DT_I64, at), at);
  tn_tensor empty = fe_full(f, 0, fe_shape_of(row), DT_I64, at), zero = fe_full(f, 0, fe_shape_of(places), DT_I64, at);
  const tn_tensor inverse[] = {empty, index, number}, counts[] = {zero, number, ones_like(row, DT_I64, at)};
  tn_tensor values = along_row(OP_gather, (const tn_tensor[]){row, places}, 2, true, at);
  tn_tensor back = along_row(OP_scatter, inverse, 3, false, at), shape = back;
  if (fe_ok(back) && fe_rank(a) != 1)
    shape = fe_emit(OP_reshape, &back, 1, (const Attr[]){ir_a_list(KEY_shape, fe_shape_of(a))}, 1, at);
  return (tn_uniques){.values = fe_made(fe_narrowed(values, a, at), at),
                      .count = fe_made((tn_tensor){f, places.v + 1}, at),
                      .inverse = fe_made(shape, at),
                      .counts = fe_made(along_row(OP_scatter_add, counts, 3, false, at), at)};
}

tn_uniques tn_unique(tn_tensor a, int64_t most, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return (tn_uniques){fe_poison(f), fe_poison(f), fe_poison(f), fe_poison(f)};
  const tn_uniques none = {fe_poison(f), fe_poison(f), fe_poison(f), fe_poison(f)};
  FE_GUARD(f->p, none);
  tn_tensor row = sorted_row(a, at);
  return fe_ok(row) ? uniques_of(a, row, most, at) : none;
}

// In a sorted row the first and the last place of a number that is not in it are the same. NaN equals nothing.
static tn_tensor is_among(tn_tensor a, tn_tensor row, tn_site at) {
  Attr right = ir_a_int(KEY_right, 1);
  const tn_tensor in[] = {row, a};
  tn_tensor first = fe_emit(OP_searchsorted, in, 2, NULL, 0, at), last = fe_emit(OP_searchsorted, in, 2, &right, 1, at);
  tn_tensor is = op2(OP_ne, first, last, at);
  return fe_is_countable(a) ? is : op2(OP_mul, is, op2(OP_eq, a, a, at), at);
}

tn_tensor tn_isin(tn_tensor a, tn_tensor among, tn_isin_options o) {
  tn_function *f;
  tn_site at = o.at;
  if (!fe_join((const tn_tensor[]){a, among}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  const tn_tensor *in = fe_in_one_dtype((const tn_tensor[]){a, among}, 2, at);
  tn_tensor row = sorted_row(in[1], at), x = fe_widened(OP_searchsorted, in[0], at);
  if (!fe_ok(row) || !fe_ok(x)) return fe_poison(f);
  tn_tensor y = fe_cast(is_among(x, row, at), DT_BOOL, at);
  return fe_made(o.invert ? op1(OP_bitwise_not, y, at) : y, at);
}
