// Elements by index and by mask.
#include "frontend/tenure/indexing.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/report.h"

#include <math.h>

tn_tensor tn_gather(tn_tensor a, int axis, tn_tensor index, tn_site at) {
  return fe_over_axis(__func__, OP_gather, (const tn_tensor[]){a, index}, 2, axis, at);
}
tn_tensor tn_scatter(tn_tensor a, int axis, tn_tensor index, tn_tensor src, tn_site at) {
  return fe_over_axis(__func__, OP_scatter, (const tn_tensor[]){a, index, src}, 3, axis, at);
}
tn_tensor tn_scatter_add(tn_tensor a, int axis, tn_tensor index, tn_tensor src, tn_site at) {
  return fe_over_axis(__func__, OP_scatter_add, (const tn_tensor[]){a, index, src}, 3, axis, at);
}
tn_tensor tn_index_copy(tn_tensor a, int axis, tn_tensor index, tn_tensor src, tn_site at) {
  return fe_over_axis(__func__, OP_index_copy, (const tn_tensor[]){a, index, src}, 3, axis, at);
}

// A number of a's dtype.
static tn_tensor like(tn_tensor a, double value, tn_site at) {
  return fe_number(a.fn, value, (DType)fe_ins(a)->dtype, at);
}

static tn_tensor put_number(const char *call, Op op, tn_tensor a, int axis, tn_tensor index, double value, tn_site at) {
  tn_function *f;
  if (!fe_join_for(call, (const tn_tensor[]){a, index}, 2, &f, at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  return fe_over_axis(call, op, (const tn_tensor[]){a, index, like(a, value, at)}, 3, axis, at);
}

tn_tensor tn_scatter_value(tn_tensor a, int axis, tn_tensor index, double value, tn_site at) {
  return put_number(__func__, OP_scatter, a, axis, index, value, at);
}
tn_tensor tn_index_fill(tn_tensor a, int axis, tn_tensor index, double value, tn_site at) {
  return put_number(__func__, OP_index_copy, a, axis, index, value, at);
}

// ---- whole slices: along the first axis they are rows of a table, whose look-up fuses and has sparse updates
static bool is_table(tn_tensor a, uint32_t axis, tn_tensor index) {
  return axis == 0 && fe_ins(a)->dtype == DT_F32 && fe_rank(index) == 1 && fe_rank(a) == 2;
}

tn_tensor tn_index_select(tn_tensor a, int axis, tn_tensor index, tn_site at) {
  tn_function *f;
  uint32_t k;
  if (!fe_join((const tn_tensor[]){a, index}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  tn_tensor row = a;
  if (!fe_row_axis(&row, axis, &k, at)) return fe_poison(f);
  if (is_table(a, k, index)) return fe_made(fe_emit2(OP_embedding, a, index, at), at);
  return fe_over_axis(__func__, OP_index_select, (const tn_tensor[]){a, index}, 2, axis, at);
}

tn_tensor tn_index_add(tn_tensor a, int axis, tn_tensor index, tn_tensor src, double alpha, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){a, index, src}, 3, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  const tn_tensor by[] = {src, fe_const(f, alpha, at)};
  tn_tensor scaled = alpha == 1 ? src : fe_pointwise(OP_mul, by, 2, NULL, 0, at);
  if (!fe_ok(scaled)) return scaled;
  return fe_over_axis(__func__, OP_index_add, (const tn_tensor[]){a, index, scaled}, 3, axis, at);
}

// ---- reductions by index: each op starts from the target, whose elements count, or from what changes no result
typedef struct {
  tn_tensor index, src;
  uint32_t axis;
  tn_scatter_kind how;
  tn_site at;
} Scatter;

static tn_tensor scattered(const Scatter *s, Op op, tn_tensor target, tn_tensor src) {
  const tn_tensor in[] = {fe_widened(op, target, s->at), fe_widened(op, s->index, s->at), fe_widened(op, src, s->at)};
  if (!fe_ok(in[0]) || !fe_ok(in[2])) return fe_poison(s->index.fn);
  return fe_narrowed(fe_emit(op, in, 3, (const Attr[]){ir_a_int(KEY_axis, s->axis)}, 1, s->at), target, s->at);
}

static bool is_whole(tn_tensor a) { return fe_ins(a)->dtype != DT_F32; }

// Extremes of whole numbers start from one of the elements that come: infinities are none of theirs.
static tn_tensor neutral(const Scatter *s, tn_tensor a) {
  static const double number[] = {[TN_SCATTER_AMAX] = -INFINITY, [TN_SCATTER_AMIN] = INFINITY, [TN_SCATTER_PROD] = 1};
  bool is_extreme = s->how == TN_SCATTER_AMAX || s->how == TN_SCATTER_AMIN;
  return is_extreme && is_whole(a) ? s->src : like(a, number[s->how], s->at);
}

static tn_tensor full_like(tn_tensor a, double value, tn_site at) {
  Attr attr[] = {ir_a_num(KEY_value, value), ir_a_list(KEY_shape, fe_shape_of(a))};
  return fe_leaf(a.fn, OP_full, attr, 2, fe_shape_of(a), at);
}

// The sum by how many there are: a one for each index, and for each element of a that counts. Whole numbers rounded down.
static tn_tensor mean_of(const Scatter *s, tn_tensor a, tn_tensor sum, bool exclude_self) {
  tn_function *f = a.fn;
  tn_tensor count = full_like(a, 1, s->at);
  if (exclude_self) count = scattered(s, OP_scatter, count, fe_const(f, 0, s->at));
  count = scattered(s, OP_scatter_add, count, fe_const(f, 1, s->at));
  if (!fe_ok(sum) || !fe_ok(count)) return fe_poison(f);
  if (!is_whole(a)) return fe_emit2(OP_div, sum, count, s->at);
  return fe_emit2(OP_floor_divide, sum, fe_cast(count, (DType)fe_ins(a)->dtype, s->at), s->at);
}

tn_tensor tn_scatter_reduce(tn_tensor a, int axis, tn_tensor index, tn_tensor src, tn_scatter_kind how,
                            tn_scatter_options o) {
  static const Op ops[] = {[TN_SCATTER_SUM] = OP_scatter_add,
                           [TN_SCATTER_MEAN] = OP_scatter_add,
                           [TN_SCATTER_AMAX] = OP_scatter_amax,
                           [TN_SCATTER_AMIN] = OP_scatter_amin,
                           [TN_SCATTER_PROD] = OP_scatter_prod};
  tn_function *f;
  if (!fe_join((const tn_tensor[]){a, index, src}, 3, &f, o.at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if ((uint32_t)how > TN_SCATTER_PROD) {
    fe_error(f->p, E_ARGUMENT, o.at, "%d is no tn_scatter_kind", (int)how);
    return fe_poison(f);
  }
  const tn_tensor given = a;
  if (!fe_rank(a)) index = fe_as_row(index, o.at), src = fe_as_row(src, o.at);
  Scatter s = {index, src, 0, how, o.at};
  if (!fe_row_axis(&a, axis, &s.axis, o.at)) return fe_poison(f);
  tn_tensor target = o.exclude_self ? scattered(&s, OP_scatter, a, neutral(&s, a)) : a;
  tn_tensor y = scattered(&s, ops[how], target, src);
  if (how == TN_SCATTER_MEAN) y = mean_of(&s, a, y, o.exclude_self);
  return fe_made(fe_like_row(y, given, o.at), o.at);
}

// ---- broadcast against each other but along the axis
static bool common_size(Prog *p, Dim a, Dim b, Dim *out) {
  *out = ir_dim_is_const(p, a) && ir_dim_bound(p, a) == 1 ? b : a;
  return out->i == b.i || (ir_dim_is_const(p, b) && ir_dim_bound(p, b) == 1);
}

static tn_tensor expanded(tn_tensor t, const Dim *dims, uint32_t axis, tn_site at) {
  Dim own[MAX_RANK];
  uint32_t rank = fe_rank(t);
  for (uint32_t k = 0; k < rank; k++) own[k] = k == axis ? fe_axis_dim(t, k) : dims[k];
  Shape s = ir_shape(t.fn->p->ir, own, rank);
  if (s.i == fe_shape_of(t).i) return t;
  return fe_emit(OP_expand, &t, 1, (const Attr[]){ir_a_list(KEY_shape, s)}, 1, at);
}

tn_tensor tn_take_along_dim(tn_tensor a, tn_tensor index, int axis, tn_site at) {
  tn_function *f;
  uint32_t k;
  if (!fe_join((const tn_tensor[]){a, index}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!fe_axis(a, axis, &k, at)) return fe_poison(f);
  Dim dims[MAX_RANK];
  bool fits = fe_rank(a) == fe_rank(index);
  for (uint32_t i = 0; fits && i < fe_rank(a); i++)
    fits = common_size(f->p->ir, fe_axis_dim(a, i), fe_axis_dim(index, i), &dims[i]) || i == k;
  if (!fits) {
    fe_error(f->p, E_SHAPE, at, "tn_take_along_dim: value and index do not broadcast but along axis %d", axis);
    fe_note_value(a, "the value");
    fe_note_value(index, "the index");
    return fe_poison(f);
  }
  tn_tensor in[] = {expanded(a, dims, k, at), expanded(index, dims, k, at)};
  return fe_over_axis(__func__, OP_gather, in, 2, axis, at);
}

// ---- masks
tn_tensor tn_where(tn_tensor condition, tn_tensor a, tn_tensor b, tn_site at) {
  const tn_tensor in[] = {condition, a, b};
  tn_function *f;
  if (!fe_join(in, 3, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  return fe_made(fe_pointwise(OP_select, in, 3, NULL, 0, at), at);
}

tn_tensor tn_masked_fill(tn_tensor a, tn_tensor mask, double value, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){a, mask}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  const tn_tensor in[] = {mask, like(a, value, at), a};
  return fe_made(fe_emit(OP_select, in, 3, NULL, 0, at), at);
}

tn_tensor tn_masked_fill_by(tn_tensor a, tn_tensor mask, tn_tensor value, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){a, mask, value}, 3, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  DType t = (DType)fe_ins(a)->dtype;
  if (!fe_fits_into((DType)fe_ins(value)->dtype, t)) {
    fe_error(f->p, E_DTYPE, at, "values of %s do not fill what is %s", fe_type_text(value), fe_type_text(a));
    fe_note_value(value, "the value");
    fe_hint(f->p, "tn_cast converts them");
    return fe_poison(f);
  }
  const tn_tensor in[] = {mask, fe_as_dtype(value, t, at), a};
  return fe_ok(in[1]) ? fe_made(fe_emit(OP_select, in, 3, NULL, 0, at), at) : in[1];
}

static tn_tensor broadcast_to(tn_tensor t, Shape s, tn_site at) {
  if (!fe_ok(t)) return t;
  if (fe_shape_of(t).i == s.i) return t;
  return fe_emit(OP_expand, &t, 1, (const Attr[]){ir_a_list(KEY_shape, s)}, 1, at);
}

// What lies at the places that nonzero or repeat_index found along an axis, and 0 behind the last one; how many there are.
static tn_selected found_along(tn_tensor a, uint32_t axis, tn_tensor places, Op take, tn_site at) {
  const Attr attr[] = {ir_a_int(KEY_axis, axis), ir_a_int(KEY_padded, 1)};
  tn_tensor values = fe_emit(take, (const tn_tensor[]){a, places}, 2, attr, 2, at);
  return (tn_selected){fe_made(values, at), fe_made((tn_tensor){a.fn, places.v + 1}, at)};
}

tn_selected tn_masked_select(tn_tensor a, tn_tensor mask, int64_t most, tn_site at) {
  tn_function *f;
  const tn_tensor in[] = {a, mask};
  if (!fe_join(in, 2, &f, at)) return (tn_selected){fe_poison(f), fe_poison(f)};
  tn_selected none = {fe_poison(f), fe_poison(f)};
  FE_GUARD(f->p, none);
  Attr size = ir_a_int(KEY_size, most);
  tn_tensor set = broadcast_to(mask, fe_shape_of(a), at);
  if (!fe_ok(set)) return none;
  tn_tensor places = fe_emit(OP_nonzero, &set, 1, &size, 1, at);
  if (!fe_ok(places)) return none;
  return found_along(fe_flattened(a, at), 0, places, OP_gather, at);
}

// As many counts as the axis has slices; poisoned: reported
static tn_tensor counts_of(tn_tensor a, uint32_t axis, tn_tensor counts, tn_site at) {
  tn_program *p = a.fn->p;
  Dim n = fe_axis_dim(a, axis), one = ir_dim(p->ir, 1);
  bool is_one = fe_rank(counts) == 0 || (fe_rank(counts) == 1 && fe_axis_dim(counts, 0).i == one.i);
  if (!(WHOLE >> fe_ins(counts)->dtype & 1)) {
    fe_error(p, E_DTYPE, at, "counts are whole numbers, not %s", fe_type_text(counts));
    fe_note_value(counts, "the counts");
    return fe_poison(a.fn);
  }
  if (is_one || (fe_rank(counts) == 1 && fe_axis_dim(counts, 0).i == n.i))
    return broadcast_to(fe_cast(counts, DT_I64, at), ir_shape(p->ir, &n, 1), at);
  fe_error(p, E_SHAPE, at,
           "there is one count for each slice along the axis, or one for all: counts are %s, the value %s",
           fe_type_text(counts), fe_type_text(a));
  fe_note_value(counts, "the counts");
  fe_note_value(a, "the value");
  return fe_poison(a.fn);
}

tn_selected tn_repeat_interleave_by(tn_tensor a, int axis, tn_tensor counts, int64_t most, tn_site at) {
  tn_function *f;
  uint32_t k;
  const tn_tensor in[] = {a, counts};
  if (!fe_join(in, 2, &f, at)) return (tn_selected){fe_poison(f), fe_poison(f)};
  const tn_selected none = {fe_poison(f), fe_poison(f)};
  FE_GUARD(f->p, none);
  if (!fe_axis(a, axis, &k, at)) return none;
  Attr size = ir_a_int(KEY_size, most);
  counts = counts_of(a, k, counts, at);
  tn_tensor index = fe_ok(counts) ? fe_emit(OP_repeat_index, &counts, 1, &size, 1, at) : counts;
  return fe_ok(index) ? found_along(a, k, index, OP_index_select, at) : none;
}

// ---- bags
// Sums by how many rows count; an empty bag keeps its 0.
static tn_tensor bag_mean(tn_tensor bags, tn_site at) {
  tn_function *f = bags.fn;
  tn_tensor count = fe_emit2(OP_max, (tn_tensor){f, bags.v + 1}, fe_const(f, 1, at), at);
  if (!fe_ok(count)) return count;
  const Dim column[] = {fe_axis_dim(bags, 0), ir_dim(f->p->ir, 1)};
  return fe_emit2(OP_div, bags, fe_reshape(count, column, 2, at), at);
}

static bool has_last_offset(tn_function *f, const tn_bag_options *o) {
  if (!o->offsets.fn || fe_rank(o->offsets) != 1) return false;
  return ir_dim_bound(f->p->ir, fe_axis_dim(o->offsets, 0)) > 0;
}

// All bags but the one behind the last offset.
static tn_tensor ended_bags(tn_tensor bags, tn_site at) {
  if (!fe_ok(bags)) return bags;
  Prog *p = bags.fn->p->ir;
  Dim one = ir_dim(p, 1);
  return fe_part(bags, 0, ir_dim(p, 0), ir_dim_sub(p, fe_axis_dim(bags, 0), one), at);
}

// A negative padding_idx counts from the table's end.
static bool check_bag(tn_function *f, tn_tensor table, tn_bag_options *o, tn_site at) {
  Prog *p = f->p->ir;
  Dim rows = fe_rank(table) ? fe_axis_dim(table, 0) : ir_dim(p, 0);
  if (o->has_padding && o->padding_idx < 0 && ir_dim_is_const(p, rows)) o->padding_idx += ir_dim_bound(p, rows);
  if ((uint32_t)o->mode > TN_BAG_MAX) fe_error(f->p, E_ARGUMENT, at, "%d is no tn_bag_mode", (int)o->mode);
  else if (o->per_sample_weights.fn && o->mode != TN_BAG_SUM)
    fe_error(f->p, E_ARGUMENT, at, "per_sample_weights are of sums alone");
  else if (o->include_last_offset && !has_last_offset(f, o))
    fe_error(f->p, E_ARGUMENT, at, "include_last_offset is of offsets, one more than there are bags");
  else if (o->has_padding && o->padding_idx < 0) fe_error(f->p, E_ARGUMENT, at, "padding_idx is no row of the table");
  else return true;
  return false;
}

tn_tensor tn_embedding_bag(tn_tensor table, tn_tensor index, tn_bag_options o) {
  tn_function *f;
  tn_tensor given[4] = {table, index};
  uint32_t n = 2, n_attrs = 0;
  if (o.offsets.fn) given[n++] = o.offsets;
  if (o.per_sample_weights.fn) given[n++] = o.per_sample_weights;
  if (!fe_join(given, n, &f, o.at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_bag(f, table, &o, o.at)) return fe_poison(f);
  Attr attr[2];
  if (o.mode == TN_BAG_MAX) attr[n_attrs++] = ir_a_int(KEY_max, 1);
  if (o.has_padding) attr[n_attrs++] = ir_a_int(KEY_padding, o.padding_idx);
  const tn_tensor in[] = {table, index, o.offsets, o.per_sample_weights};
  tn_tensor bags = fe_emit(OP_embedding_bag, in, 4, attr, n_attrs, o.at);
  if (!fe_ok(bags)) return bags;
  if (o.mode == TN_BAG_MEAN) bags = bag_mean(bags, o.at);
  return fe_made(o.include_last_offset ? ended_bags(bags, o.at) : bags, o.at);
}
