// Operations on values that no single pointwise row gives (those: pointwise.c).
//
// A public call ends in fe_made: its result is one value in the ledger, what it is composed of is none.
#include "frontend/graph/ops.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scan.h"
#include "frontend/tenure/ops.h"

#include <math.h>
#include <stdlib.h>

static tn_tensor with_number(Op op, const char *call, tn_tensor a, double number, tn_site at) {
  tn_function *f;
  if (!fe_join_for(call, &a, 1, &f, at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  return fe_made(fe_pointwise(op, (const tn_tensor[]){a, fe_const(f, number, at)}, 2, NULL, 0, at), at);
}

tn_tensor tn_add_scalar(tn_tensor a, double number, tn_site at) { return with_number(OP_add, __func__, a, number, at); }
tn_tensor tn_mul_scalar(tn_tensor a, double number, tn_site at) { return with_number(OP_mul, __func__, a, number, at); }

// By whole powers of ten, which single precision has exactly up to 10^10, as PyTorch does.
tn_tensor tn_round_decimals(tn_tensor a, int decimals, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (decimals < -38 || decimals > 38) {
    fe_error(f->p, E_ARGUMENT, at, "decimals lie in [-38, 38], not %d", decimals);
    return fe_poison(f);
  }
  tn_tensor power = fe_const(f, pow(10, abs(decimals)), at);
  tn_tensor y = fe_emit2(decimals < 0 ? OP_div : OP_mul, a, power, at);
  if (fe_ok(y)) y = fe_emit1(OP_round, y, at);
  return fe_made(fe_ok(y) ? fe_emit2(decimals < 0 ? OP_mul : OP_div, y, power, at) : y, at);
}

tn_tensor tn_polygamma(int n, tn_tensor a, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (n < 0 || n > 32) {
    fe_error(f->p, E_ARGUMENT, at, "the order of a derivative lies in [0, 32], not %d", n);
    return fe_poison(f);
  }
  if (!n) return fe_made(fe_pointwise(OP_digamma, &a, 1, NULL, 0, at), at);
  return fe_made(fe_pointwise(OP_polygamma, (const tn_tensor[]){fe_const(f, n, at), a}, 2, NULL, 0, at), at);
}

// The same value as a value of its own: what happens to the result in scopes, or is written to it, does not happen to the
// operand.
tn_tensor fe_same(tn_tensor a, tn_site at) {
  if (!fe_ok(a)) return a;
  return fe_emit1(fe_ins(a)->dtype == DT_F32 ? OP_copy : OP_clone, a, at);
}

tn_tensor fe_cast(tn_tensor a, DType t, tn_site at) {
  if (!fe_ok(a) || fe_ins(a)->dtype == t) return a;
  return fe_emit(OP_cast, &a, 1, (const Attr[]){ir_a_int(KEY_dtype, t)}, 1, at);
}

tn_tensor fe_dropout(tn_tensor a, double p, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!(p >= 0 && p <= 1)) {
    fe_error(f->p, E_ARGUMENT, at, "dropout takes a probability in [0, 1], not %g", p);
    return fe_poison(f);
  }
  if (p == 0 || fe_eval(f, at)) return fe_same(a, at);
  return fe_emit(OP_dropout, &a, 1, (const Attr[]){ir_a_num(KEY_p, p), ir_a_int(KEY_id, fe_stream(f, at))}, 2, at);
}

tn_tensor tn_dropout(tn_tensor a, double p, tn_site at) { return fe_made(fe_dropout(a, p, at), at); }

tn_tensor tn_cast(tn_tensor a, tn_dtype t, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!fe_dtype(t)) {
    fe_error(f->p, E_DTYPE, at, "a cast needs a dtype: TN_F32, TN_I64, ..");
    return fe_poison(f);
  }
  if (fe_dtype(t) != fe_ins(a)->dtype) return fe_made(fe_as_dtype(a, fe_dtype(t), at), at);
  return fe_made(fe_emit(OP_cast, &a, 1, (const Attr[]){ir_a_int(KEY_dtype, fe_dtype(t))}, 1, at), at);
}

tn_tensor tn_stop_grad(tn_tensor a, tn_site at) { return fe_made(fe_emit1(OP_stop_grad, a, at), at); }

tn_tensor fe_refuse(tn_tensor x, int id, tn_site at, const char *text) {
  fe_error(x.fn->p, id, at, "%s", text);
  fe_note_value(x, "the value");
  return fe_poison(x.fn);
}

// ---- shape
bool fe_axis(tn_tensor a, int axis, uint32_t *out, tn_site at) {
  int rank = (int)fe_rank(a);
  int k = axis < 0 ? axis + rank : axis;
  *out = (uint32_t)k;
  if (k >= 0 && k < rank) return true;
  if (rank)
    fe_error(a.fn->p, E_ARGUMENT, at, "axis %d does not exist: %s has axes 0 to %d, or -%d to -1 from the last", axis,
             fe_type_text(a), rank - 1, rank);
  else fe_error(a.fn->p, E_ARGUMENT, at, "axis %d does not exist: %s has no axes", axis, fe_type_text(a));
  fe_note_value(a, "the value");
  return false;
}

bool fe_row_axis(tn_tensor *a, int axis, uint32_t *out, tn_site at) {
  if (fe_rank(*a) || (axis != 0 && axis != -1)) return fe_axis(*a, axis, out, at);
  *a = fe_as_row(*a, at);
  *out = 0;
  return fe_ok(*a);
}

tn_tensor fe_as_row(tn_tensor a, tn_site at) {
  if (!fe_ok(a) || fe_rank(a)) return a;
  Dim one = ir_dim(a.fn->p->ir, 1);
  return fe_reshape(a, &one, 1, at);
}

tn_tensor fe_like_row(tn_tensor y, tn_tensor a, tn_site at) {
  bool is_one = fe_ok(y) && fe_rank(y) == 1 && ir_dim_is_one(y.fn->p->ir, fe_axis_dim(y, 0));
  return is_one && !fe_rank(a) ? fe_reshape(y, NULL, 0, at) : y;
}

bool fe_axes(tn_tensor a, const int *axes, uint32_t n, uint32_t *out, tn_site at) {
  uint32_t axis, seen = 0;
  if (!fe_check_list(a.fn, axes, n, "axes", at)) return false;
  for (uint32_t k = 0; k < n; k++) {
    if (!fe_axis(a, axes[k], &axis, at)) return false;
    if (seen >> axis & 1) {
      fe_refuse(a, E_ARGUMENT, at, rt_printf(a.fn->p->mem, "axis %d is named twice", axes[k]));
      return false;
    }
    seen |= 1u << axis;
    out[k] = axis;
  }
  return true;
}

static tn_tensor emit_shaped(Op op, tn_tensor a, tn_shape s, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  Shape shape;
  if (!fe_shape(f->p, s, &shape, at)) return fe_poison(f);
  return fe_emit(op, &a, 1, (const Attr[]){ir_a_list(KEY_shape, shape)}, 1, at);
}

tn_tensor tn_reshape(tn_tensor a, tn_shape s, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  Dim dims[MAX_RANK];
  Shape shape;
  bool ok = fe_inferred_dims(f->p, s, ir_shape_numel(f->p->ir, fe_shape_of(a)), dims, at);
  for (uint32_t k = 0; ok && k < s.rank; k++) s.dims[k] = fe_dim_handle(f->p, dims[k]);
  if (!ok || !fe_shape(f->p, s, &shape, at)) return fe_poison(f);
  return fe_made(fe_emit(OP_reshape, &a, 1, (const Attr[]){ir_a_list(KEY_shape, shape)}, 1, at), at);
}

tn_tensor tn_expand(tn_tensor a, tn_shape s, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  return fe_made(emit_shaped(OP_expand, a, fe_kept_sizes(a, s), at), at);
}

tn_tensor fe_reshape(tn_tensor a, const Dim *dims, uint32_t n, tn_site at) {
  if (!fe_ok(a)) return a;
  return fe_emit(OP_reshape, &a, 1, (const Attr[]){ir_a_list(KEY_shape, ir_shape(a.fn->p->ir, dims, n))}, 1, at);
}

tn_tensor fe_without_axis(tn_tensor a, uint32_t axis, tn_site at) {
  Dim d[MAX_RANK];
  uint32_t n = 0;
  if (!fe_ok(a)) return a;
  for (uint32_t k = 0; k < fe_rank(a); k++)
    if (k != axis) d[n++] = fe_axis_dim(a, k);
  return fe_reshape(a, d, n, at);
}

tn_tensor fe_flattened(tn_tensor a, tn_site at) {
  Dim n = ir_shape_numel(a.fn->p->ir, fe_shape_of(a));
  return fe_rank(a) == 1 ? a : fe_reshape(a, &n, 1, at);
}

static tn_tensor permuted(tn_tensor a, const int64_t *order, tn_site at) {
  Attr perm = ir_a_list(KEY_perm, ir_shape_ints(a.fn->p->ir, order, fe_rank(a)));
  return fe_emit(OP_permute, &a, 1, &perm, 1, at);
}

bool fe_check_list(tn_function *f, const void *list, uint32_t n, const char *what, tn_site at) {
  if (list || !n) return true;
  fe_error(f->p, E_ARGUMENT, at, "the %u %s are missing", n, what);
  return false;
}

tn_tensor tn_permute(tn_tensor a, const int *perm, uint32_t n, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  int64_t order[MAX_RANK] = {0};
  uint32_t axes[MAX_RANK] = {0};
  if (n != fe_rank(a)) {
    fe_error(f->p, E_ARGUMENT, at, "a permutation of %u axes is given for a value with %u", n, fe_rank(a));
    return fe_poison(f);
  }
  if (!fe_axes(a, perm, n, axes, at)) return fe_poison(f);
  for (uint32_t k = 0; k < n; k++) order[k] = axes[k];
  return fe_made(permuted(a, order, at), at);
}

static tn_tensor swap_axes(tn_tensor a, uint32_t i, uint32_t j, tn_site at) {
  if (!fe_ok(a) || i == j) return a;
  int64_t order[MAX_RANK];
  uint32_t rank = fe_rank(a);
  for (uint32_t k = 0; k < rank; k++) order[k] = k == i ? j : k == j ? i : k;
  return permuted(a, order, at);
}

tn_tensor fe_permute(tn_tensor a, const uint32_t *perm, tn_site at) {
  int64_t order[MAX_RANK];
  if (!fe_ok(a)) return a;
  for (uint32_t k = 0; k < fe_rank(a); k++) order[k] = perm[k];
  return permuted(a, order, at);
}

tn_tensor tn_transpose(tn_tensor a, int axis_a, int axis_b, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  uint32_t i, j;
  tn_tensor row = a;
  if (!fe_row_axis(&row, axis_a, &i, at) || !fe_axis(row, axis_b, &j, at)) return fe_poison(f);
  Attr same = ir_a_list(KEY_shape, fe_shape_of(a));  // a view in any case: a write to it is a write to a
  return fe_made(i == j ? fe_emit(OP_reshape, &a, 1, &same, 1, at) : swap_axes(a, i, j, at), at);
}

// Along an axis `count` elements from `start` on, `step` apart; counted from the end with `reverse`.
tn_tensor fe_strided(tn_tensor x, uint32_t axis, Dim start, Dim count, int64_t step, bool reverse, tn_site at) {
  if (!fe_ok(x)) return x;
  Attr a[5] = {ir_a_int(KEY_axis, axis), ir_a_dim(KEY_start, start), ir_a_dim(KEY_count, count)};
  uint32_t n = 3;
  if (step != 1) a[n++] = ir_a_int(KEY_step, step);
  if (reverse) a[n++] = ir_a_int(KEY_reverse, 1);
  return fe_emit(OP_slice, &x, 1, a, n, at);
}

tn_tensor fe_part(tn_tensor a, uint32_t axis, Dim start, Dim count, tn_site at) {
  return fe_strided(a, axis, start, count, 1, false, at);
}

tn_tensor fe_slice(tn_tensor a, uint32_t axis, int64_t start, int64_t size, tn_site at) {
  if (!fe_ok(a)) return a;
  Prog *p = a.fn->p->ir;
  return fe_part(a, axis, ir_dim(p, start), ir_dim(p, size), at);
}

tn_tensor tn_slice(tn_tensor a, int axis, int64_t start, int64_t size, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  uint32_t k;
  return fe_axis(a, axis, &k, at) ? fe_made(fe_slice(a, k, start, size, at), at) : fe_poison(f);
}

// The start stays what it is now, whatever is written to it later.
tn_tensor fe_slice_at(tn_tensor a, uint32_t axis, tn_tensor start, Dim count, tn_site at) {
  Attr attrs[] = {ir_a_int(KEY_axis, axis), ir_a_dim(KEY_count, count)};
  tn_tensor now = fe_emit1(OP_clone, start, at);
  if (!fe_ok(now)) return now;
  return fe_emit(OP_slice, (const tn_tensor[]){a, now}, 2, attrs, 2, at);
}

tn_tensor tn_slice_at(tn_tensor a, int axis, tn_tensor start, tn_dim count, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){a, start}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  uint32_t k;
  Dim n;
  if (!fe_axis(a, axis, &k, at) || !fe_dim(f->p, count, &n, at)) return fe_poison(f);
  return fe_made(fe_slice_at(a, k, start, n, at), at);
}

// More operands than one instruction takes are joined in groups.
tn_tensor fe_concat(const tn_tensor *a, uint32_t n, uint32_t axis, tn_site at) {
  Attr attr = ir_a_int(KEY_axis, axis);
  uint32_t most = ir_ops[OP_concat].n_max, n_groups = n / most + (n % most > 0);
  tn_function *f;
  if (n == 1) return a[0];
  if (n <= most) return fe_emit(OP_concat, a, n, &attr, 1, at);
  if (!fe_join(a, n, &f, at)) return fe_poison(f);
  tn_tensor *group = rt_alloc(f->p->mem, n_groups * sizeof *group);
  for (uint32_t k = 0; k < n_groups; k++) {
    uint32_t first = k * most;
    group[k] = fe_concat(a + first, n - first < most ? n - first : most, axis, at);
  }
  return fe_concat(group, n_groups, axis, at);
}

tn_tensor tn_concat(int axis, const tn_tensor *a, uint32_t n, tn_site at) {
  tn_function *f = NULL;
  if (!a || !n || !fe_join(a, n, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  uint32_t k;
  if (!fe_axis(a[0], axis, &k, at)) return fe_poison(f);
  return fe_made(n == 1 ? fe_same(a[0], at) : fe_concat(fe_in_one_dtype(a, n, at), n, k, at), at);
}

// Of smaller whole numbers and bools a scan gives i64, as sums do; what is added to a target (of three operands) has its dtype.
tn_tensor fe_over_axis(const char *call, Op op, const tn_tensor *a, uint32_t n, int axis, tn_site at) {
  tn_function *f;
  if (!fe_join_for(call, a, n, &f, at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  uint32_t k;
  tn_tensor first = a[0], wide[3] = {{0}};
  if (!fe_row_axis(&first, axis, &k, at)) return fe_poison(f);
  for (uint32_t j = 0; j < n; j++) {
    tn_tensor x = j ? a[j] : first;
    wide[j] = fe_widened(op, fe_rank(a[0]) ? x : fe_as_row(x, at), at);
  }
  tn_tensor y = fe_emit(op, wide, n, (const Attr[]){ir_a_int(KEY_axis, k)}, 1, at);
  if (n == 3) y = fe_narrowed(y, a[0], at);
  return fe_made(op == OP_gather && fe_rank(a[1]) ? y : fe_like_row(y, a[0], at),
                 at);  // gather: in the shape of the index
}

tn_tensor fe_move_axes(tn_tensor x, const uint32_t *from, const uint32_t *to, uint32_t n, tn_site at) {
  if (!fe_ok(x)) return x;
  bool is_moved[MAX_RANK] = {false}, is_taken[MAX_RANK] = {false};
  uint32_t perm[MAX_RANK];
  for (uint32_t k = 0; k < n; k++) is_moved[from[k]] = is_taken[to[k]] = true, perm[to[k]] = from[k];
  for (uint32_t k = 0, next = 0; k < fe_rank(x); k++) {
    if (is_taken[k]) continue;
    while (is_moved[next]) next++;
    perm[k] = next++;
  }
  return fe_permute(x, perm, at);
}

// ---- rows: the IR works on the last axis. The others keep their order, so that channels of images come last as convolutions have
// them.
tn_tensor fe_along(Op op, tn_tensor a, int axis, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  uint32_t k;
  tn_tensor row = a;
  if (!fe_row_axis(&row, axis, &k, at)) return fe_poison(f);
  uint32_t last = fe_rank(row) - 1;
  if (k == last) return fe_like_row(fe_emit1(op, row, at), a, at);
  tn_tensor y = fe_emit1(op, fe_move_axes(row, &k, &last, 1, at), at);
  return fe_like_row(fe_move_axes(y, &last, &k, 1, at), a, at);
}

tn_tensor tn_softmax(tn_tensor a, int axis, tn_site at) { return fe_made(fe_along(OP_softmax, a, axis, at), at); }
tn_tensor tn_log_softmax(tn_tensor a, int axis, tn_site at) {
  return fe_made(fe_along(OP_log_softmax, a, axis, at), at);
}
