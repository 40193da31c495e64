// Scans, order and search along an axis.
#include "frontend/tenure/order.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/report.h"

#include <math.h>

static tn_ordered poisoned(tn_function *f) { return (tn_ordered){fe_poison(f), fe_poison(f)}; }

tn_tensor tn_cumsum(tn_tensor a, int axis, tn_site at) { return fe_over_axis(__func__, OP_cumsum, &a, 1, axis, at); }
tn_tensor tn_cumprod(tn_tensor a, int axis, tn_site at) { return fe_over_axis(__func__, OP_cumprod, &a, 1, axis, at); }
tn_tensor tn_logcumsumexp(tn_tensor a, int axis, tn_site at) {
  return fe_over_axis(__func__, OP_logcumsumexp, &a, 1, axis, at);
}

// x[1:] - x[:-1], of which there are `rest`: of no elements none
static tn_tensor differences(tn_tensor x, uint32_t k, Dim rest, tn_site at) {
  if (!fe_ok(x)) return x;
  Prog *p = x.fn->p->ir;
  Dim from = ir_dim_sub(p, fe_axis_dim(x, k), rest);
  const tn_tensor in[] = {fe_part(x, k, from, rest, at), fe_part(x, k, ir_dim(p, 0), rest, at)};
  return fe_ok(in[0]) && fe_ok(in[1]) ? fe_pointwise(OP_sub, in, 2, NULL, 0, at) : fe_poison(x.fn);
}

// What is given before and behind it, along the axis
static tn_tensor extended(tn_tensor a, uint32_t axis, const tn_diff_options *o) {
  tn_tensor part[3];
  uint32_t n = 0;
  if (o->prepend.fn) part[n++] = o->prepend;
  part[n++] = a;
  if (o->append.fn) part[n++] = o->append;
  return n > 1 ? fe_concat(fe_in_one_dtype(part, n, o->at), n, axis, o->at) : a;
}

tn_tensor tn_diff(tn_tensor a, int64_t times, int axis, tn_diff_options o) {
  tn_function *f;
  tn_tensor given[3] = {a};
  uint32_t k, n_given = 1;
  if (o.prepend.fn) given[n_given++] = o.prepend;
  if (o.append.fn) given[n_given++] = o.append;
  if (!fe_join(given, n_given, &f, o.at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!fe_axis(a, axis, &k, o.at)) return fe_poison(f);
  if (times < 0) {
    fe_error(f->p, E_ARGUMENT, o.at, "differences are taken 0 times or more, not %lld", (long long)times);
    return fe_poison(f);
  }
  tn_tensor y = extended(a, k, &o);
  if (!fe_ok(y)) return y;
  Prog *p = f->p->ir;
  Dim n = fe_axis_dim(y, k), zero = ir_dim(p, 0);
  if (times > ir_dim_bound(p, n)) times = ir_dim_bound(p, n);
  for (int64_t j = 1; j <= times; j++) y = differences(y, k, ir_dim_max(p, ir_dim_sub(p, n, ir_dim(p, j)), zero), o.at);
  return fe_made(y.v == a.v ? fe_same(a, o.at) : y, o.at);
}

// Values, which are result 0, of a's dtype, and their indices, result 1. Of a number they are numbers.
static tn_ordered made_both(tn_tensor t, tn_tensor a, tn_site at) {
  if (!fe_ok(t)) return poisoned(t.fn);
  tn_tensor index = fe_like_row((tn_tensor){t.fn, t.v + 1}, a, at);
  return (tn_ordered){fe_made(fe_narrowed(fe_like_row(t, a, at), a, at), at), fe_made(index, at)};
}

// Along axis *k of a, which is a row if it is a number
static tn_tensor emit_along(Op op, tn_tensor a, int axis, const Attr *more, uint32_t n, uint32_t *k, tn_site at) {
  if (!fe_row_axis(&a, axis, k, at)) return fe_poison(a.fn);
  Attr attr[4] = {ir_a_int(KEY_axis, *k)};
  for (uint32_t i = 0; i < n; i++) attr[1 + i] = more[i];
  tn_tensor wide = fe_widened(op, a, at);
  return fe_emit(op, &wide, 1, attr, 1 + n, at);
}

static tn_ordered ordered(const char *call, Op op, tn_tensor a, int axis, const Attr *more, uint32_t n, tn_site at) {
  tn_function *f;
  if (!fe_join_for(call, &a, 1, &f, at)) return poisoned(f);
  FE_GUARD_AS(f->p, poisoned(f), call);
  uint32_t k;
  return made_both(emit_along(op, a, axis, more, n, &k, at), a, at);
}

tn_ordered tn_cummax(tn_tensor a, int axis, tn_site at) { return ordered(__func__, OP_cummax, a, axis, NULL, 0, at); }
tn_ordered tn_cummin(tn_tensor a, int axis, tn_site at) { return ordered(__func__, OP_cummin, a, axis, NULL, 0, at); }

// ---- order
static tn_ordered sorted(const char *call, tn_tensor a, int axis, bool descending, tn_site at) {
  Attr down = ir_a_int(KEY_descending, 1);
  return ordered(call, OP_sort, a, axis, &down, descending, at);
}

tn_ordered tn_sort(tn_tensor a, int axis, bool descending, tn_site at) {
  return sorted(__func__, a, axis, descending, at);
}

tn_tensor tn_argsort(tn_tensor a, int axis, bool descending, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  uint32_t k;
  Attr down = ir_a_int(KEY_descending, 1);
  tn_tensor both = emit_along(OP_sort, a, axis, &down, descending, &k, at);
  return fe_ok(both) ? fe_made(fe_like_row((tn_tensor){f, both.v + 1}, a, at), at) : both;
}

tn_ordered tn_topk(tn_tensor a, int64_t k, int axis, bool largest, tn_site at) {
  Attr more[] = {ir_a_int(KEY_size, k), ir_a_int(KEY_descending, 1)};
  return ordered(__func__, OP_topk, a, axis, more, largest ? 2 : 1, at);
}

static tn_ordered picked(const char *call, Op op, tn_tensor a, int axis, bool keepdim, const Attr *size, tn_site at) {
  tn_function *f;
  if (!fe_join_for(call, &a, 1, &f, at)) return poisoned(f);
  FE_GUARD_AS(f->p, poisoned(f), call);
  uint32_t k;
  tn_tensor t = emit_along(op, a, axis, size, size != NULL, &k, at);
  if (!fe_ok(t) || keepdim) return made_both(t, a, at);
  tn_tensor index = fe_without_axis((tn_tensor){f, t.v + 1}, k, at);
  return (tn_ordered){fe_made(fe_narrowed(fe_without_axis(t, k, at), a, at), at), fe_made(index, at)};
}

tn_ordered tn_kthvalue(tn_tensor a, int64_t k, int axis, bool keepdim, tn_site at) {
  Attr size = ir_a_int(KEY_size, k);
  return picked(__func__, OP_kth_value, a, axis, keepdim, &size, at);
}

tn_ordered tn_median_axis(tn_tensor a, int axis, bool keepdim, tn_site at) {
  return picked(__func__, OP_median, a, axis, keepdim, NULL, at);
}

// The maximum of what equals the median: its gradient is shared by them. NaN as it is.
static tn_tensor shared_median(tn_tensor row, tn_tensor median, tn_site at) {
  Attr axes = ir_a_list(KEY_axes, ir_shape_ints(row.fn->p->ir, (int64_t[]){0}, 1));
  tn_tensor is_median = fe_emit2(OP_eq, row, median, at), is_nan = fe_emit2(OP_ne, median, median, at);
  tn_tensor least = fe_const(row.fn, -INFINITY, at);
  tn_tensor same = fe_emit(OP_select, (const tn_tensor[]){is_median, row, least}, 3, NULL, 0, at);
  tn_tensor shared = fe_emit(OP_amax, &same, 1, &axes, 1, at);
  return fe_emit(OP_select, (const tn_tensor[]){is_nan, median, shared}, 3, NULL, 0, at);
}

tn_tensor tn_median(tn_tensor a, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  Attr axis = ir_a_int(KEY_axis, 0);
  tn_tensor row = fe_widened(OP_median, fe_flattened(a, at), at);
  if (!fe_ok(row)) return row;
  tn_tensor t = fe_emit(OP_median, &row, 1, &axis, 1, at);
  if (!fe_ok(t)) return t;
  t = fe_without_axis(t, 0, at);
  if (fe_ins(a)->dtype == DT_F32) t = shared_median(row, t, at);
  return fe_made(fe_narrowed(t, a, at), at);
}

// ---- search
static tn_tensor in_order(tn_tensor row, tn_tensor sorter, tn_site at) {
  tn_function *f = row.fn;
  if (fe_rank(row) && fe_shape_of(row).i == fe_shape_of(sorter).i) {
    Attr last = ir_a_int(KEY_axis, fe_rank(row) - 1);
    return fe_emit(OP_gather, (const tn_tensor[]){row, fe_widened(OP_gather, sorter, at)}, 2, &last, 1, at);
  }
  fe_error(f->p, E_SHAPE, at,
           "tn_searchsorted: the sorter has an index for each element, in the shape of what is sorted");
  fe_note_value(row, "what is sorted");
  fe_note_value(sorter, "the sorter");
  return fe_poison(f);
}

static tn_tensor search(const char *call, tn_tensor row, tn_tensor values, tn_search_options o) {
  tn_function *f;
  Attr flag = ir_a_int(KEY_right, 1);
  tn_tensor in[] = {row, values, o.sorter};
  if (!fe_join_for(call, in, o.sorter.fn ? 3 : 2, &f, o.at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  if (o.sorter.fn) in[0] = in_order(row, o.sorter, o.at);
  for (uint32_t k = 0; k < 2; k++) in[k] = fe_widened(OP_searchsorted, in[k], o.at);
  return fe_ok(in[0]) ? fe_made(fe_emit(OP_searchsorted, in, 2, &flag, o.right, o.at), o.at) : in[0];
}

tn_tensor tn_searchsorted(tn_tensor row, tn_tensor values, tn_search_options o) {
  return search(__func__, row, values, o);
}

tn_tensor tn_bucketize(tn_tensor values, tn_tensor boundaries, bool right, tn_site at) {
  return search(__func__, boundaries, values, (tn_search_options){.right = right, .at = at});
}
