// Reductions over all axes, one, or several: what is not one op is composed of few, which fuse into the passes over the
// operand that sums and softmax take.
//
//   %v = var %x                 %n = size - correction
//                               %m = sum(%x) / size      %d = %x - %m      %v = sum(%d * %d) / %n
#include "frontend/graph/reduce.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/tenure/reduce.h"
#include "ir/build.h"

#include <math.h>

// What is reduced: by axis, and whether reduced axes stay with size 1.
typedef struct {
  tn_tensor a;
  bool set[MAX_RANK], keepdim;
  bool all;  // no axes were named
  tn_site at;
} Reduction;

// ---- the axes
// As a sorted set; none given means all of them. A number has axis 0 as a row of one has it: nothing is reduced.
static bool axis_set(tn_tensor a, const int *axes, uint32_t n, bool set[MAX_RANK], tn_site at) {
  uint32_t list[MAX_RANK];
  if (!fe_rank(a) && n) return fe_axes(fe_as_row(a, at), axes, n, list, at);
  for (uint32_t k = 0; k < MAX_RANK; k++) set[k] = n == 0 && k < fe_rank(a);
  if (!fe_axes(a, axes, n, list, at)) return false;
  for (uint32_t k = 0; k < n; k++) set[list[k]] = true;
  return true;
}

typedef struct {
  bool least;
  bool nonzero;  // of each element whether it is not 0, without storing that
} Flags;

static tn_tensor emit_over(const Reduction *r, Op op, tn_tensor a, const int64_t *axes, uint32_t n, bool keepdim,
                           Flags f) {
  Attr attr[4] = {ir_a_list(KEY_axes, ir_shape_ints(a.fn->p->ir, axes, n))};
  uint32_t n_attrs = 1;
  if (keepdim) attr[n_attrs++] = ir_a_int(KEY_keepdim, 1);
  if (f.least) attr[n_attrs++] = ir_a_int(KEY_least, 1);
  if (f.nonzero) attr[n_attrs++] = ir_a_int(KEY_nonzero, 1);
  return fe_emit(op, &a, 1, attr, n_attrs, r->at);
}

static uint32_t list_axes(const Reduction *r, int64_t *axes) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < MAX_RANK; k++)
    if (r->set[k]) axes[n++] = k;
  return n;
}

static tn_tensor reduce_of(const Reduction *r, Op op, tn_tensor a, bool keepdim) {
  int64_t axes[MAX_RANK];
  uint32_t n = list_axes(r, axes);
  if (!fe_ok(a)) return a;
  return n ? emit_over(r, op, a, axes, n, keepdim, (Flags){0}) : fe_same(a, r->at);
}

// With the axes that stay in the operand's rank, for what follows element by element.
static tn_tensor kept(const Reduction *r, Op op, tn_tensor a) { return reduce_of(r, op, a, true); }
static tn_tensor reduced(const Reduction *r, Op op, tn_tensor a) { return reduce_of(r, op, a, r->keepdim); }

static Dim count_of(const Reduction *r) {
  Dim count = ir_dim(r->a.fn->p->ir, 1);
  for (uint32_t k = 0; k < fe_rank(r->a); k++)
    if (r->set[k]) count = ir_dim_mul(r->a.fn->p->ir, count, fe_axis_dim(r->a, k));
  return count;
}

// ---- integers and bool, whose sums have another dtype: a number is reduced as a row of one
static tn_tensor exact(const Reduction *r, Op op, tn_tensor a, Flags f) {
  int64_t axes[MAX_RANK] = {0};
  uint32_t n = list_axes(r, axes);
  if (!fe_ok(a)) return a;
  return emit_over(r, op, fe_as_row(a, r->at), axes, n ? n : 1, r->keepdim && n, f);
}

// The op mean takes f32 alone, and says so.
static tn_tensor wants_f32(const Reduction *r) {
  return emit_over(r, OP_mean, fe_as_row(r->a, r->at), (const int64_t[]){0}, 1, false, (Flags){0});
}

// f32 and integers in memory are compared as they are read; other elements become truth values, in the kernel of the
// reduction where they are computed there.
static tn_tensor of_nonzero(const Reduction *r, Op op, bool least) {
  DType t = (DType)fe_ins(r->a)->dtype;
  bool is_made = ir_class_has(fe_ins(r->a)->op, BY_ELEMENT), is_read = t == DT_F32 || (COUNTABLE >> t & 1);
  bool becomes_bool = t == DT_BOOL || is_made || !is_read;
  tn_tensor a = becomes_bool ? fe_cast(r->a, DT_BOOL, r->at) : r->a;
  return exact(r, op, a, (Flags){.least = least, .nonzero = !becomes_bool});
}

// ---- parts of the compositions
static tn_tensor number(const Reduction *r, double x) { return fe_const(r->a.fn, x, r->at); }
static tn_tensor op1(const Reduction *r, Op op, tn_tensor a) { return fe_emit1(op, a, r->at); }
static tn_tensor op2(const Reduction *r, Op op, tn_tensor a, tn_tensor b) { return fe_emit2(op, a, b, r->at); }
static tn_tensor pick(const Reduction *r, tn_tensor cond, tn_tensor a, tn_tensor b) {
  return fe_emit(OP_select, (const tn_tensor[]){cond, a, b}, 3, NULL, 0, r->at);
}

// op(a) where a is not 0, else a number, whose gradients are 0, not those of op times 0. A NaN goes through op, so that it
// reaches the gradient.
static tn_tensor but_at_zero(const Reduction *r, double number_there, tn_tensor a,
                             tn_tensor (*op)(const Reduction *r, tn_tensor a, double x), double x) {
  tn_tensor is_zero = op2(r, OP_eq, a, number(r, 0)), safe = pick(r, is_zero, number(r, 1), a);
  return pick(r, is_zero, number(r, number_there), op(r, safe, x));
}

static tn_tensor root(const Reduction *r, tn_tensor a, double x) {
  (void)x;
  return op1(r, OP_sqrt, a);
}

static tn_tensor logarithm(const Reduction *r, tn_tensor a, double x) {
  (void)x;
  return op1(r, OP_log, a);
}

static tn_tensor power(const Reduction *r, tn_tensor a, double x) { return op2(r, OP_pow, a, number(r, x)); }

// ---- reductions
typedef tn_tensor Reducer(const Reduction *r, double x);

static tn_tensor sum(const Reduction *r, double x) {
  (void)x;
  return fe_is_countable(r->a) ? exact(r, OP_sum, r->a, (Flags){0}) : reduced(r, OP_sum, r->a);
}

static tn_tensor amax(const Reduction *r, double x) {
  (void)x;
  return fe_is_countable(r->a) ? exact(r, OP_amax, r->a, (Flags){0}) : reduced(r, OP_amax, r->a);
}

static tn_tensor prod(const Reduction *r, double x) {
  (void)x;
  return fe_is_countable(r->a) ? exact(r, OP_prod, r->a, (Flags){0}) : reduced(r, OP_prod, r->a);
}

static tn_tensor amin_of(const Reduction *r, tn_tensor a) {
  return op1(r, OP_neg, reduced(r, OP_amax, op1(r, OP_neg, a)));
}

static tn_tensor amin(const Reduction *r, double x) {
  (void)x;
  return fe_is_countable(r->a) ? exact(r, OP_amax, r->a, (Flags){.least = true}) : amin_of(r, r->a);
}

static tn_tensor mean(const Reduction *r, double x) {
  (void)x;
  if (fe_is_countable(r->a)) return wants_f32(r);
  tn_tensor total = reduced(r, OP_sum, r->a);
  return fe_ok(total) ? op2(r, OP_div, total, fe_size(r->a.fn, count_of(r), r->at)) : total;
}

static tn_tensor nansum(const Reduction *r, double x) {
  if (fe_is_countable(r->a)) return sum(r, x);
  return reduced(r, OP_sum, pick(r, op2(r, OP_ne, r->a, r->a), number(r, 0), r->a));
}

static tn_tensor nanmean(const Reduction *r, double x) {
  if (fe_is_countable(r->a)) return mean(r, x);
  return op2(r, OP_div, nansum(r, x), reduced(r, OP_sum, op2(r, OP_eq, r->a, r->a)));
}

// ---- the variance: of the distances from the mean, which is taken first, so that nothing cancels. Where no more elements
// are there than the correction takes off (`left` <= 0) it is infinite, and has PyTorch's gradients.
typedef struct {
  tn_tensor size, left;  // left: size - correction
  bool may_be_0, may_be_negative;
} Freedom;

static Freedom freedom_of(const Reduction *r, double correction) {
  Prog *p = r->a.fn->p->ir;
  Dim count = count_of(r);
  double least = 0, most = (double)ir_dim_bound(p, count);
  if (ir_dim_is_const(p, count)) least = most;
  Freedom free = {.size = fe_size(r->a.fn, count, r->at)};
  free.left = correction == 0 ? free.size : op2(r, OP_sub, free.size, number(r, correction));
  free.may_be_0 = correction > 0 && least <= correction && most >= correction;
  free.may_be_negative = correction > 0 && least < correction;
  return free;
}

// Over all elements PyTorch has one gradient where nothing is left, infinity, and NaN of elements that are the mean: that
// of x, 0 or 1 times, by 0. Its value is that of the square.
static tn_tensor term_of_none(const Reduction *r, tn_tensor square, tn_tensor mean) {
  tn_tensor x = r->a, counts = op1(r, OP_stop_grad, op2(r, OP_ne, x, mean));
  tn_tensor slope = op2(r, OP_mul, counts, op2(r, OP_sub, x, op1(r, OP_stop_grad, x)));
  return op2(r, OP_add, op1(r, OP_stop_grad, square), slope);
}

static tn_tensor var_of_all(const Reduction *r, Freedom free, tn_tensor mean) {
  tn_tensor square = op1(r, OP_square, op2(r, OP_sub, r->a, mean)), zero = number(r, 0);
  if (free.may_be_0 || free.may_be_negative)
    square = pick(r, op2(r, OP_gt, free.left, zero), square, term_of_none(r, square, mean));
  tn_tensor n = free.may_be_negative ? op2(r, OP_max, free.left, zero) : free.left;
  return op2(r, OP_div, reduced(r, OP_sum, square), n);
}

// Along axes the gradient is 2 (x - mean) / left: where left is 0 the mean has none, which would be infinity less infinity.
static tn_tensor var_of_axes(const Reduction *r, Freedom free, tn_tensor mean) {
  tn_tensor zero = number(r, 0);
  if (free.may_be_0) mean = pick(r, free.left, mean, op1(r, OP_stop_grad, mean));
  tn_tensor total = reduced(r, OP_sum, op1(r, OP_square, op2(r, OP_sub, r->a, mean)));
  tn_tensor y = op2(r, OP_div, total, free.left);
  if (!free.may_be_negative) return y;
  tn_tensor infinite = op1(r, OP_stop_grad, op2(r, OP_div, total, zero));
  return op2(r, OP_add, y, pick(r, op2(r, OP_lt, free.left, zero), infinite, zero));
}

static tn_tensor var(const Reduction *r, double correction) {
  if (fe_is_countable(r->a)) return wants_f32(r);
  Freedom free = freedom_of(r, correction);
  tn_tensor mean = op2(r, OP_div, kept(r, OP_sum, r->a), free.size);
  return (r->all ? var_of_all : var_of_axes)(r, free, mean);
}

static tn_tensor std(const Reduction *r, double correction) { return but_at_zero(r, 0, var(r, correction), root, 0); }

// ln sum e^x by the maximum, which carries no gradient; where that is infinite nothing is taken off. The gradient of
// a row of -infinity is 0.
static tn_tensor logsumexp(const Reduction *r, double x) {
  (void)x;
  tn_tensor a = fe_is_countable(r->a) ? fe_cast(r->a, DT_F32, r->at) : r->a;
  tn_tensor top = op1(r, OP_stop_grad, kept(r, OP_amax, a)), zero = number(r, 0);
  top = pick(r, op1(r, OP_isfinite, top), top, zero);
  tn_tensor total = kept(r, OP_sum, op1(r, OP_exp, op2(r, OP_sub, a, top)));
  tn_tensor is_none = op2(r, OP_eq, total, zero), safe = pick(r, is_none, number(r, 1), total);
  tn_tensor y = pick(r, is_none, number(r, -INFINITY), op2(r, OP_add, op1(r, OP_log, safe), top));
  return r->keepdim ? y : reduced(r, OP_sum, y);  // over axes of size 1
}

static tn_tensor norm(const Reduction *r, double p) {
  tn_tensor zero = number(r, 0);
  if (fe_is_countable(r->a)) return wants_f32(r);
  if (p == 2) return but_at_zero(r, 0, reduced(r, OP_sum, op1(r, OP_square, r->a)), root, 0);
  if (p == 0) return reduced(r, OP_sum, op2(r, OP_ne, r->a, zero));
  tn_tensor size = op1(r, OP_abs, r->a);
  if (p == 1) return reduced(r, OP_sum, size);
  if (isinf(p)) return p > 0 ? reduced(r, OP_amax, size) : amin_of(r, size);
  tn_tensor total = reduced(r, OP_sum, but_at_zero(r, p < 0 ? INFINITY : 0, size, power, p));
  return p < 0 ? power(r, total, 1 / p) : but_at_zero(r, 0, total, power, 1 / p);
}

static tn_tensor count_nonzero(const Reduction *r, double x) {
  (void)x;
  return of_nonzero(r, OP_sum, false);
}

static tn_tensor any(const Reduction *r, double x) {
  (void)x;
  return of_nonzero(r, OP_amax, false);
}

static tn_tensor all(const Reduction *r, double x) {
  (void)x;
  return of_nonzero(r, OP_amax, true);
}

// ---- the calls
static tn_tensor apply(const char *call, Reducer *reducer, double x, tn_tensor a, bool keepdim, const int *axes,
                       uint32_t n, tn_site at) {
  tn_function *f;
  if (!fe_join_for(call, &a, 1, &f, at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  Reduction r = {.a = a, .keepdim = keepdim, .all = n == 0, .at = at};
  return axis_set(a, axes, n, r.set, at) ? reducer(&r, x) : fe_poison(f);
}

tn_tensor fe_sum(tn_tensor a, const int *axes, uint32_t n, bool keepdim, tn_site at) {
  return apply("tn_sum", sum, 0, a, keepdim, axes, n, at);
}
tn_tensor fe_vector_norm(tn_tensor a, double p, int axis, tn_site at) {
  return apply("tn_norm", norm, p, a, false, &axis, 1, at);
}
tn_tensor fe_root(tn_tensor squares, tn_site at) {
  Reduction r = {.a = squares, .at = at};
  return but_at_zero(&r, 0, squares, root, 0);
}
tn_tensor fe_log(tn_tensor a, tn_site at) {
  Reduction r = {.a = a, .at = at};
  return but_at_zero(&r, -INFINITY, a, logarithm, 0);
}
tn_tensor fe_mean(tn_tensor a, const int *axes, uint32_t n, bool keepdim, tn_site at) {
  return apply("tn_mean", mean, 0, a, keepdim, axes, n, at);
}

// All axes; one; some of them.
#define REDUCTION(name)                                                                            \
  tn_tensor tn_##name(tn_tensor a, tn_site at) {                                                   \
    return fe_made(apply("tn_" #name, name, 0, a, false, NULL, 0, at), at);                        \
  }                                                                                                \
  tn_tensor tn_##name##_axis(tn_tensor a, int axis, bool keepdim, tn_site at) {                    \
    return fe_made(apply("tn_" #name "_axis", name, 0, a, keepdim, &axis, 1, at), at);             \
  }                                                                                                \
  tn_tensor tn_##name##_axes(tn_tensor a, bool keepdim, const int *axes, uint32_t n, tn_site at) { \
    return fe_made(apply("tn_" #name "_axes", name, 0, a, keepdim, axes, n, at), at);              \
  }
// The same of those that take a number.
#define REDUCTION_BY(name, x)                                                                                \
  tn_tensor tn_##name(tn_tensor a, double x, tn_site at) {                                                   \
    return fe_made(apply("tn_" #name, name, x, a, false, NULL, 0, at), at);                                  \
  }                                                                                                          \
  tn_tensor tn_##name##_axis(tn_tensor a, double x, int axis, bool keepdim, tn_site at) {                    \
    return fe_made(apply("tn_" #name "_axis", name, x, a, keepdim, &axis, 1, at), at);                       \
  }                                                                                                          \
  tn_tensor tn_##name##_axes(tn_tensor a, double x, bool keepdim, const int *axes, uint32_t n, tn_site at) { \
    return fe_made(apply("tn_" #name "_axes", name, x, a, keepdim, axes, n, at), at);                        \
  }
REDUCTION(sum)
REDUCTION(mean)
REDUCTION(nansum)
REDUCTION(nanmean)
REDUCTION(prod)
REDUCTION(amax)
REDUCTION(amin)
REDUCTION(logsumexp)
REDUCTION(count_nonzero)
REDUCTION(any)
REDUCTION(all)
REDUCTION_BY(var, correction)
REDUCTION_BY(std, correction)
REDUCTION_BY(norm, p)

// ---- where the largest stands
static tn_tensor best_along(tn_tensor a, uint32_t axis, bool least, tn_site at) {
  Attr attr[2] = {ir_a_int(KEY_axis, axis), ir_a_int(KEY_least, 1)};
  return fe_ok(a) ? fe_emit(OP_argmax, &a, 1, attr, least ? 2 : 1, at) : a;
}

// Of all elements, in row-major order.
static tn_tensor arg_of_all(const char *call, tn_tensor a, bool least, tn_site at) {
  tn_function *f;
  if (!fe_join_for(call, &a, 1, &f, at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  return best_along(fe_flattened(a, at), 0, least, at);
}

static tn_tensor arg_of_axis(const char *call, tn_tensor a, int axis, bool keepdim, bool least, tn_site at) {
  tn_function *f;
  if (!fe_join_for(call, &a, 1, &f, at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  uint32_t k;
  bool is_number = !fe_rank(a);
  if (!fe_row_axis(&a, axis, &k, at)) return fe_poison(f);
  tn_tensor y = best_along(a, k, least, at);
  if (!keepdim || is_number || !fe_ok(y)) return y;
  Dim dims[MAX_RANK];
  for (uint32_t j = 0; j < fe_rank(a); j++) dims[j] = j == k ? ir_dim(f->p->ir, 1) : fe_axis_dim(a, j);
  return fe_reshape(y, dims, fe_rank(a), at);
}

tn_tensor tn_argmax(tn_tensor a, tn_site at) { return fe_made(arg_of_all(__func__, a, false, at), at); }
tn_tensor tn_argmin(tn_tensor a, tn_site at) { return fe_made(arg_of_all(__func__, a, true, at), at); }
tn_tensor tn_argmax_axis(tn_tensor a, int axis, bool keepdim, tn_site at) {
  return fe_made(arg_of_axis(__func__, a, axis, keepdim, false, at), at);
}
tn_tensor tn_argmin_axis(tn_tensor a, int axis, bool keepdim, tn_site at) {
  return fe_made(arg_of_axis(__func__, a, axis, keepdim, true, at), at);
}
