// Quantiles, and how many elements have a number or lie in a range.
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/shape.h"
#include "frontend/tenure/order.h"
#include "ir/build.h"

#include <math.h>

// ---- quantiles: sorted, NaN is last, so that the last element tells of one
typedef struct {
  tn_tensor sorted;
  uint32_t axis;
  int64_t last;
  tn_site at;
} Sorted;

static tn_tensor element_of(const Sorted *s, double place) {
  return fe_slice(s->sorted, s->axis, (int64_t)place, 1, s->at);
}

// false: reported
static bool sorted_along(tn_tensor a, uint32_t k, tn_site at, Sorted *s) {
  Prog *p = a.fn->p->ir;
  Dim size = fe_axis_dim(a, k);
  if (fe_ins(a)->dtype != DT_F32) return fe_refuse(a, E_DTYPE, at, "a quantile is of f32"), false;
  if (!ir_dim_is_const(p, size) || ir_dim_bound(p, size) == 0)
    return fe_refuse(a, E_SHAPE, at, "a quantile is of an axis of constant size above 0"), false;
  Attr axis = ir_a_int(KEY_axis, k);
  *s = (Sorted){fe_emit(OP_sort, &a, 1, &axis, 1, at), k, ir_dim_bound(p, size) - 1, at};
  return fe_ok(s->sorted);
}

// How far from the element below to the one above, which is `part` of the way.
static double weight_of(double below, double part, tn_quantile_interpolation how) {
  switch (how) {
  case TN_QUANTILE_LOWER: return 0;
  case TN_QUANTILE_HIGHER: return 1;
  case TN_QUANTILE_MIDPOINT: return 0.5;
  case TN_QUANTILE_NEAREST: return nearbyint(below + part) - below;
  default: return part;
  }
}

static tn_tensor quantile(const Sorted *s, double q, tn_quantile_interpolation how) {
  tn_function *f = s->sorted.fn;
  double place = q * (double)s->last, below = floor(place);
  double weight = place > below ? weight_of(below, place - below, how) : 0;
  tn_tensor y = element_of(s, weight == 1 ? below + 1 : below), end = element_of(s, (double)s->last);
  if (weight > 0 && weight < 1) {
    const tn_tensor line[] = {y, element_of(s, below + 1), fe_const(f, weight, s->at)};
    y = fe_emit(OP_lerp, line, 3, NULL, 0, s->at);
  }
  tn_tensor is_nan = fe_emit2(OP_ne, end, end, s->at);
  return fe_emit(OP_select, (const tn_tensor[]){is_nan, end, y}, 3, NULL, 0, s->at);
}

static bool check_parts(tn_tensor a, const double *q, uint32_t n, tn_site at) {
  for (uint32_t j = 0; j < n; j++)
    if (!(q[j] >= 0 && q[j] <= 1)) return fe_refuse(a, E_ARGUMENT, at, "q lies in [0, 1]"), false;
  return true;
}

static tn_tensor one_quantile(tn_tensor a, double q, uint32_t k, tn_site at) {
  Sorted s;
  if (!check_parts(a, &q, 1, at) || !sorted_along(a, k, at, &s)) return fe_poison(a.fn);
  return quantile(&s, q, TN_QUANTILE_LINEAR);
}

tn_tensor tn_quantile(tn_tensor a, double q, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  return fe_made(fe_without_axis(one_quantile(fe_flattened(a, at), q, 0, at), 0, at), at);
}

tn_tensor tn_quantile_axis(tn_tensor a, double q, int axis, bool keepdim, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  uint32_t k;
  const tn_tensor given = a;
  if (!fe_row_axis(&a, axis, &k, at)) return fe_poison(f);
  tn_tensor y = one_quantile(a, q, k, at);
  return fe_made(keepdim ? fe_like_row(y, given, at) : fe_without_axis(y, k, at), at);
}

tn_tensor tn_quantiles(tn_tensor a, int axis, bool keepdim, tn_quantile_interpolation how, const double *q, uint32_t n,
                       tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  Sorted s;
  uint32_t k;
  const bool is_number = !fe_rank(a);
  if (!fe_row_axis(&a, axis, &k, at)) return fe_poison(f);
  if (!q || !n) return fe_refuse(a, E_ARGUMENT, at, "tn_quantiles takes one q or more");
  if ((unsigned)how > TN_QUANTILE_NEAREST)
    return fe_refuse(a, E_ARGUMENT, at, "the interpolation is one of TN_QUANTILE_LINEAR to TN_QUANTILE_NEAREST");
  if (!check_parts(a, q, n, at) || !sorted_along(a, k, at, &s)) return fe_poison(f);
  tn_tensor *part = rt_alloc(f->p->mem, n * sizeof *part);
  for (uint32_t j = 0; j < n; j++) {
    tn_tensor y = quantile(&s, q[j], how);
    part[j] = fe_with_axis(keepdim && !is_number ? y : fe_without_axis(y, k, at), 0, at);
    if (!fe_ok(part[j])) return part[j];
  }
  return fe_made(n == 1 ? part[0] : fe_concat(part, n, 0, at), at);
}

// ---- counts: a one, or a weight, is added at each index
static bool check_bins(tn_tensor a, int64_t bins, tn_site at) {
  if (bins >= 1 && bins <= INT32_MAX) return true;
  fe_refuse(a, E_ARGUMENT, at, "bins are 1 or more");
  return false;
}

static tn_tensor added_by(tn_tensor index, int64_t bins, tn_tensor each, bool is_padded, tn_site at) {
  tn_function *f = index.fn;
  if (!fe_ok(index) || !fe_ok(each)) return fe_poison(f);
  DType t = (DType)fe_ins(each)->dtype;
  const Attr attr[] = {ir_a_int(KEY_axis, 0), ir_a_int(KEY_padded, 1)};
  const tn_tensor in[] = {fe_full(f, 0, ir_shape_ints(f->p->ir, &bins, 1), t, at), index, each};
  return fe_emit(OP_scatter_add, in, 3, attr, is_padded ? 2 : 1, at);
}

tn_tensor tn_bincount(tn_tensor a, int64_t bins, tn_bincount_options o) {
  tn_function *f;
  tn_site at = o.at;
  bool is_weighed = o.weights.fn != NULL;
  if (!fe_join((const tn_tensor[]){a, o.weights}, 1 + is_weighed, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!(WHOLE >> fe_ins(a)->dtype & 1)) return fe_refuse(a, E_DTYPE, at, "tn_bincount counts whole numbers");
  if (fe_rank(a) != 1) return fe_refuse(a, E_SHAPE, at, "tn_bincount takes one axis");
  if (!check_bins(a, bins, at)) return fe_poison(f);
  if (is_weighed && fe_shape_of(o.weights).i != fe_shape_of(a).i)
    return fe_refuse(o.weights, E_SHAPE, at, "there is one weight for each number");
  tn_tensor each = is_weighed ? fe_cast(o.weights, DT_F32, at) : fe_number(f, 1, DT_I64, at);
  return fe_made(added_by(fe_cast(a, DT_I64, at), bins, each, false, at), at);
}

// Which part of [lo, hi] an element lies in; -1: none
static tn_tensor part_of(tn_tensor x, int64_t bins, double lo, double hi, tn_site at) {
  tn_function *f = x.fn;
  tn_tensor first = fe_const(f, lo, at), last = fe_const(f, (double)bins - 1, at), none = fe_const(f, -1, at);
  tn_tensor is_in = fe_emit2(OP_mul, fe_emit2(OP_ge, x, first, at), fe_emit2(OP_le, x, fe_const(f, hi, at), at), at);
  tn_tensor part = fe_emit2(OP_mul, fe_emit2(OP_sub, x, first, at), fe_const(f, (double)bins / (hi - lo), at), at);
  part = fe_emit2(OP_min, fe_emit1(OP_floor, part, at), last, at);
  return fe_cast(fe_emit(OP_select, (const tn_tensor[]){is_in, part, none}, 3, NULL, 0, at), DT_I64, at);
}

tn_tensor tn_histc(tn_tensor a, int64_t bins, double lo, double hi, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (fe_ins(a)->dtype != DT_F32) return fe_refuse(a, E_DTYPE, at, "tn_histc counts f32");
  if (!(lo < hi) || !isfinite(lo) || !isfinite(hi)) return fe_refuse(a, E_ARGUMENT, at, "lo is below hi, both finite");
  if (!check_bins(a, bins, at)) return fe_poison(f);
  tn_tensor part = part_of(fe_flattened(a, at), bins, lo, hi, at);
  return fe_made(added_by(part, bins, fe_number(f, 1, DT_F32, at), true, at), at);
}
