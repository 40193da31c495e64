// Shape rules: one for each word in the shape column of ops.def. A rule reads operands and attributes of the
// instruction at v and sets the type of v and of its result records; a fault is the number of a diagnostic and a
// sentence in `why`.
#include "ir/shape/infer.h"
#include "ir/packed_dims.h"
#include "ir/shape/shape.h"
#include "ir/slice.h"

#include <string.h>

// {dtype} of a constant: one that is computed with or counted in.
static uint16_t constant_dtype(const Infer *c, DType *out) {
  int64_t t = ir_attr_int(c->f, c->v, KEY_dtype, DT_F32);
  if (t < 0 || t >= N_DTYPES || !((REAL | COUNTABLE) >> t & 1)) {
    rt_text_add(c->why, "needs {dtype} of ");
    ir_infer_tell_dtypes(c, REAL | COUNTABLE);
    return ir_infer_fault(c, E_DTYPE, "");
  }
  *out = (DType)t;
  return 0;
}

// Operands of pointwise ops have one dtype, but for a condition; it is the result's, but for that of a mask.
static uint16_t pointwise_dtype(const Infer *c, DType *out) {
  Op op = (Op)ir_ins(c->f, c->v)->op;
  uint32_t first = op == OP_select;
  if (n_args(c) == 0) return constant_dtype(c, out);
  for (uint32_t k = first + 1; k < n_args(c); k++)
    if (dtype_of(c, k) != dtype_of(c, first))
      return ir_infer_differ(c, first ? "both values must have one dtype" : "all operands must have one dtype");
  *out = ir_ops[op].flags & MASK ? DT_F32 : dtype_of(c, first);
  return 0;
}

uint16_t ir_rule_broadcast(const Infer *c) {
  Shape s = {0};
  DType t;
  TRY(pointwise_dtype(c, &t));
  const Attr *given = ir_attr(c->f, c->v, KEY_shape);
  if (n_args(c) == 0 && given) s = given->u.list;
  if (ir_rank(c->p, s) > MAX_RANK) return bad_shape(c, "the rank is above 8");
  for (uint32_t k = 0; k < n_args(c); k++) {
    if (ir_infer_broadcast(c, s, shape_of(c, k), &s)) continue;
    rt_text_add(c->fits, "counted from the last axis, sizes are equal or 1");
    return bad_shape(c, "shapes do not broadcast");
  }
  set(c, 0, t, s);
  return 0;
}

uint16_t ir_rule_none(const Infer *c) {
  (void)c;
  return 0;
}

uint16_t ir_rule_leaf(const Infer *c) {
  const Ins *ins = ir_ins(c->f, c->v);
  if (ins->op == OP_param) {
    const Attr *a = ir_attr(c->f, c->v, KEY_param);
    if (!a || a->u.i < 0 || a->u.i >= c->p->n_params) return ir_infer_fault(c, E_ARGUMENT, "names no parameter");
    set(c, 0, c->p->params[a->u.i].dtype, c->p->params[a->u.i].shape);
  } else if (ins->op == OP_const) {
    DType t;
    if (!ir_attr(c->f, c->v, KEY_value)) return ir_infer_fault(c, E_ARGUMENT, "needs {value}");
    TRY(constant_dtype(c, &t));
    set(c, 0, t, (Shape){0});
  } else if (ins->op == OP_dim_size) {
    if (!ir_attr(c->f, c->v, KEY_dim)) return ir_infer_fault(c, E_ARGUMENT, "needs {dim}");
    set(c, 0, DT_F32, (Shape){0});
  } else if (ins->dtype == DT_NONE) {
    return ir_infer_fault(c, E_ARGUMENT, "needs a type");
  } else if (ins->dtype == DT_LAYOUT && (!c->f->is_body || ir_rank(c->p, ins->shape) != 3)) {
    return ir_infer_fault(c, E_DTYPE, "a layout is made of lengths, not handed in");
  }
  return 0;
}

uint16_t ir_rule_table(const Infer *c) {
  int64_t t = ir_attr_int(c->f, c->v, KEY_dtype, -1);
  Shape s = ir_attr(c->f, c->v, KEY_shape)->u.list;
  if (t < 0 || t >= N_DTYPES || !(NUMBER >> t & 1)) return ir_infer_fault(c, E_DTYPE, "needs {dtype} of a number");
  if (!ir_shape_is_const(c->p, s)) return bad_shape(c, "the sizes of a table are constants");
  size_t digits = 2 * ir_text_size(c->p, ir_attr(c->f, c->v, KEY_bits)->u.s);
  size_t want = (size_t)ir_shape_bound(c->p, s) * 2 * (size_t)ir_dtype_bytes[t];
  if (digits != want) {
    rt_text_add(c->why, "{bits} has %llu digits, and the shape needs %llu", (unsigned long long)digits,
                (unsigned long long)want);
    return ir_infer_fault(c, E_ARGUMENT, "");
  }
  set(c, 0, (DType)t, s);
  return 0;
}

uint16_t ir_rule_grad_of(const Infer *c) {
  if (rank_of(c, 0) != 0) return bad_shape(c, "a gradient is taken of a scalar");
  set(c, 0, DT_F32, shape_of(c, 1));
  return 0;
}

uint16_t ir_rule_grad_replace(const Infer *c) {
  if (rank_of(c, 0) != 0) return bad_shape(c, "a gradient is taken of a scalar");
  if (shape_of(c, 1).i != shape_of(c, 2).i) return bad_shape(c, "a gradient has the shape of its value");
  return ir_rule_same(c);
}

uint16_t ir_rule_shard_mean(const Infer *c) {
  const Attr *dim = ir_attr(c->f, c->v, KEY_dim);
  if (!dim || !ir_dim_exists(c->p, dim->u.dim) || ir_dim_info(c->p, dim->u.dim)->kind != DIM_SYM)
    return ir_infer_fault(c, E_ARGUMENT, "{dim} names the batch");
  int64_t n = ir_attr_int(c->f, c->v, KEY_shards, 0);
  if (n < 1 || n > IR_MOST_SHARDS) {
    rt_text_add(c->why, "{shards} is from 1 to %d", IR_MOST_SHARDS);
    return ir_infer_fault(c, E_ARGUMENT, "");
  }
  if (rank_of(c, 1) != 0) return bad_shape(c, "a count is a scalar");
  return ir_rule_same(c);
}

uint16_t ir_rule_cast(const Infer *c) {
  int64_t t = ir_attr_int(c->f, c->v, KEY_dtype, 0);
  if (t < 0 || t >= N_DTYPES || !(NUMBER >> t & 1)) {
    rt_text_add(c->why, "needs {dtype} of ");
    ir_infer_tell_dtypes(c, NUMBER);
    return ir_infer_fault(c, E_DTYPE, "");
  }
  set(c, 0, (DType)t, shape_of(c, 0));
  return 0;
}

static uint16_t check_source(const Infer *c) {
  Shape joint;
  if (dtype_of(c, 0) != dtype_of(c, 1)) return ir_infer_differ(c, "both operands must have one dtype");
  if (ir_infer_broadcast(c, shape_of(c, 0), shape_of(c, 1), &joint) && joint.i == shape_of(c, 0).i) return 0;
  return bad_shape(c, "the source does not broadcast to the target");
}

uint16_t ir_rule_output(const Infer *c) {
  if (dtype_of(c, 0) == DT_LAYOUT) return ir_infer_fault(c, E_DTYPE, "a layout cannot be handed out");
  return ir_rule_same(c);
}

static bool is_range(const Infer *c, uint32_t k) {
  return dtype_of(c, k) == DT_I64 && shape_of(c, k).i == ir_shape_ints(c->p, (const int64_t[]){2}, 1).i;
}

uint16_t ir_rule_assign(const Infer *c) {
  uint32_t owned = ir_operand_at(c->f, c->v, ARG_owned);
  TRY(check_source(c));
  if (owned != UINT32_MAX && !is_range(c, owned)) return bad_shape(c, "a range of elements is i64[2]");
  return ir_rule_same(c);
}

static void tell_counts(const Infer *c, Shape from, Shape to) {
  if (!ir_shape_is_const(c->p, from) || !ir_shape_is_const(c->p, to)) return;
  rt_text_add(c->fits, ": %lld elements are to become %lld", (long long)ir_shape_bound(c->p, from),
              (long long)ir_shape_bound(c->p, to));
}

uint16_t ir_rule_shape(const Infer *c) {
  const Attr *a = ir_attr(c->f, c->v, KEY_shape);
  if (!a) return ir_infer_fault(c, E_ARGUMENT, "needs {shape}");
  Shape from = shape_of(c, 0), to = a->u.list, joint;
  if (ir_rank(c->p, to) > MAX_RANK) return bad_shape(c, "the rank is above 8");
  bool fits = ir_ins(c->f, c->v)->op == OP_reshape ? ir_shape_numel(c->p, from).i == ir_shape_numel(c->p, to).i
                                                   : ir_infer_broadcast(c, from, to, &joint) && joint.i == to.i;
  if (!fits) {
    bool is_reshape = ir_ins(c->f, c->v)->op == OP_reshape;
    rt_text_add(c->why, "%s", is_reshape ? "another number of elements than " : "does not broadcast to ");
    ir_shape_text(c->p, to, c->why);
    rt_text_add(c->fits,
                is_reshape ? "the product of the sizes stays" : "an axis grows from 1 alone, or is new in front");
    if (is_reshape) tell_counts(c, from, to);
    return bad_shape(c, "");
  }
  set(c, 0, dtype_of(c, 0), to);
  return 0;
}

static uint16_t check_perm(const Infer *c) {
  const Attr *a = ir_attr(c->f, c->v, KEY_perm);
  uint32_t r = rank_of(c, 0), seen = 0;
  if (!a || ir_rank(c->p, a->u.list) != r)
    return ir_infer_fault(c, E_ARGUMENT, "needs {perm} with one entry for each axis");
  for (uint32_t k = 0; k < r; k++) {
    int64_t from = ir_list_at(c->p, a->u.list, k);
    if (from < 0 || from >= r || (seen >> from & 1))
      return ir_infer_fault(c, E_ARGUMENT, "{perm} is not a permutation");
    seen |= 1u << from;
  }
  return 0;
}

uint16_t ir_rule_permute(const Infer *c) {
  Dim d[MAX_RANK];
  uint32_t r = rank_of(c, 0);
  TRY(check_perm(c));
  Shape perm = ir_attr(c->f, c->v, KEY_perm)->u.list;
  for (uint32_t k = 0; k < r; k++) d[k] = dim_of(c, 0, (uint32_t)ir_list_at(c->p, perm, k));
  set(c, 0, dtype_of(c, 0), ir_shape(c->p, d, r));
  return 0;
}

// It may be below 0 for sizes that only the run finds: the host cannot check them.
static bool can_be_negative(const Infer *c, Dim d) { return ir_dim_least(c->p, d) < 0 && ir_dim_found_by_run(c->f, d); }

// A pitch is at least 1; the run checks it if sizes do not say so (ir/passes/checks/size_checks.c)
static bool is_pitch(const Infer *c, Dim d) {
  if (!ir_dim_exists(c->p, d)) return false;
  return ir_dim_most(c->p, d) >= 1 && !can_be_negative(c, ir_dim_sub(c->p, d, ir_dim(c->p, 1)));
}

// What slice and slice_assign share: `count` elements along the axis of operand 0 lie in it, whatever `at` is.
static uint16_t check_slice(const Infer *c, uint32_t axis, Dim count) {
  Slice s;
  if (ir_has_operand(c->f, c->v, ARG_at) && ir_rank(c->p, shape_named(c, ARG_at)) != 0)
    return bad_shape(c, "at, the start of a slice, is a scalar");
  int64_t step = ir_attr_int(c->f, c->v, KEY_step, 1);
  if (step < 1 || step > 1 << 30) return ir_infer_fault(c, E_ARGUMENT, "{step} must lie in [1, 2^30]");
  const Attr *start = ir_attr(c->f, c->v, KEY_start), *pitch = ir_attr(c->f, c->v, KEY_pitch);
  if (!ir_dim_exists(c->p, count) || (start && !ir_dim_exists(c->p, start->u.dim)))
    return ir_infer_fault(c, E_ARGUMENT, "{start} and {count} are sizes");
  if (pitch && (step != 1 || !is_pitch(c, pitch->u.dim)))
    return ir_infer_fault(c, E_ARGUMENT, "{pitch} is a size of 1 or more, in place of {step}");
  if (ir_dim_most(c->p, count) < 0) return bad_shape(c, "{count} is below 0");
  ir_slice(c->f, c->v, &s);
  // What depends on sizes of the run is checked there (ir/passes/checks/size_checks.c)
  bool is_rest = ir_slice_is_rest(c->p, &s), may_exist = is_rest || ir_dim_most(c->p, s.last_start) >= 0;
  bool is_open = can_be_negative(c, s.start) || can_be_negative(c, count) ||
                 (ir_none(s.at) && !is_rest && can_be_negative(c, s.last_start));
  if (ir_dim_most(c->p, s.start) >= 0 && may_exist && !is_open) return 0;
  ir_dim_text(c->p, count, c->why);
  rt_text_add(c->why, " elements from index ");
  if (ir_dim_is_const(c->p, s.start))  // as the caller wrote it: a dim's text for -1 is 0-1
    rt_text_add(c->why, "%lld", (long long)ir_dim_info(c->p, s.start)->value);
  else ir_dim_text(c->p, s.start, c->why);
  if (!ir_dim_is_one(c->p, s.step)) {
    rt_text_add(c->why, " in steps of ");
    ir_dim_text(c->p, s.step, c->why);
  }
  rt_text_add(c->why, " on do not lie in axis %u", axis);
  return bad_shape(c, "");
}

uint16_t ir_rule_slice(const Infer *c) {
  uint32_t axis;
  TRY(ir_infer_axis(c, &axis));
  const Attr *count = ir_attr(c->f, c->v, KEY_count);
  if (!count) return ir_infer_fault(c, E_ARGUMENT, "needs {count}");
  TRY(check_slice(c, axis, count->u.dim));
  set(c, 0, dtype_of(c, 0), ir_infer_with_dim(c, shape_of(c, 0), axis, count->u.dim));
  return 0;
}

uint16_t ir_rule_slice_assign(const Infer *c) {
  uint32_t axis;
  TRY(ir_infer_axis(c, &axis));
  if (dtype_of(c, 0) != dtype_of(c, 1)) return ir_infer_differ(c, "both operands must have one dtype");
  if (rank_of(c, 1) != rank_of(c, 0)) return bad_shape(c, "ranks differ");
  Dim part = dim_of(c, 1, axis);
  if (ir_infer_with_dim(c, shape_of(c, 0), axis, part).i != shape_of(c, 1).i)
    return bad_shape(c, "sizes differ on another axis");
  TRY(check_slice(c, axis, part));
  set(c, 0, dtype_of(c, 0), shape_of(c, 0));
  return 0;
}

uint16_t ir_rule_pad_axis(const Infer *c) {
  uint32_t axis;
  TRY(ir_infer_axis(c, &axis));
  int64_t start = ir_attr_size(c->f, c->v, KEY_start, -1), size = ir_attr_int(c->f, c->v, KEY_size, -1);
  Dim d = dim_of(c, 0, axis);
  if (!ir_dim_is_const(c->p, d)) return bad_shape(c, "pads only axes of constant size");
  if (start < 0 || size < 0 || start > size || ir_dim_bound(c->p, d) > size - start)
    return bad_shape(c, "the operand does not fit at {start}");
  set(c, 0, dtype_of(c, 0), ir_infer_with_dim(c, shape_of(c, 0), axis, ir_dim(c->p, size)));
  return 0;
}

static bool has_list(const Infer *c, Key key, uint32_t rank, bool is_const) {
  const Attr *a = ir_attr(c->f, c->v, key);
  if (!a || ir_rank(c->p, a->u.list) != rank) return false;
  for (uint32_t k = 0; k < rank && is_const; k++)
    if (!ir_dim_is_const(c->p, ir_dim_at(c->p, a->u.list, k))) return false;
  return true;
}

static bool crop_fits(const Infer *c, const CropAxis *a, Dim of) {
  enum { MOST = 1 << 30 };
  if (ir_crop_keeps(a, of)) return true;
  if (!ir_dim_is_const(c->p, of) || !ir_dim_is_const(c->p, a->count) || !ir_dim_is_const(c->p, a->size)) return false;
  int64_t n = ir_dim_bound(c->p, of), count = ir_dim_info(c->p, a->count)->value,
          size = ir_dim_info(c->p, a->size)->value;
  if (a->start < 0 || a->start > MOST || !a->step || a->step < -MOST || a->step > MOST || a->before < 0 ||
      a->before > MOST || count < 0 || count > MOST || size - a->before < count)
    return false;
  int64_t last = a->start + (count - 1) * a->step;
  return !count || (a->start < n && last >= 0 && last < n);
}

uint16_t ir_rule_crop(const Infer *c) {
  uint32_t r = rank_of(c, 0);
  bool good = has_list(c, KEY_starts, r, true) && has_list(c, KEY_steps, r, true) && has_list(c, KEY_before, r, true) &&
              has_list(c, KEY_behind, r, true) && has_list(c, KEY_shape, r, false);
  if (!good) return ir_infer_fault(c, E_ARGUMENT, "{starts, steps, before, behind, shape} have a number for each axis");
  if (ir_attr(c->f, c->v, KEY_perm)) TRY(check_perm(c));
  for (uint32_t k = 0; k < r; k++) {
    CropAxis a = ir_crop_axis(c->f, c->v, k);
    if (!crop_fits(c, &a, dim_of(c, 0, a.from)))
      return bad_shape(
          c, "the part does not lie in the operand, or not in the result, or is one of an axis that the run sizes");
  }
  set(c, 0, dtype_of(c, 0), ir_attr(c->f, c->v, KEY_shape)->u.list);
  return 0;
}

uint16_t ir_rule_windows(const Infer *c) {
  enum { MOST = 1 << 30 };
  uint32_t axis, r = rank_of(c, 0);
  TRY(ir_infer_axis(c, &axis));
  const Attr *count = ir_attr(c->f, c->v, KEY_count);
  int64_t size = ir_attr_int(c->f, c->v, KEY_size, 0), step = ir_attr_int(c->f, c->v, KEY_step, 0);
  if (size < 1 || size > MOST || step < 1 || step > MOST)
    return ir_infer_fault(c, E_ARGUMENT, "{size} and {step} must lie in [1, 2^30]");
  if (!count || !ir_dim_exists(c->p, count->u.dim)) return ir_infer_fault(c, E_ARGUMENT, "{count} is a size");
  if (r == MAX_RANK) return bad_shape(c, "a value has at most 8 axes");
  if (ir_dim_most(c->p, count->u.dim) < 0 || can_be_negative(c, count->u.dim))
    return bad_shape(c, "{count} can be below 0");
  Dim left = ir_dim_sub(c->p, dim_of(c, 0, axis), ir_windows_span(c->f, c->v));
  bool is_all = ir_windows_are_all(c->f, c->v);
  if (!is_all && (ir_dim_most(c->p, left) < 0 || can_be_negative(c, left)))
    return bad_shape(c, "the windows do not lie in the axis");
  Dim d[MAX_RANK];
  for (uint32_t k = 0; k < r; k++) d[k] = k == axis ? count->u.dim : dim_of(c, 0, k);
  d[r] = ir_dim(c->p, size);
  set(c, 0, dtype_of(c, 0), ir_shape(c->p, d, r + 1));
  return 0;
}

uint16_t ir_rule_write(const Infer *c) {
  if (dtype_of(c, 0) != dtype_of(c, 1)) return ir_infer_differ(c, "both operands must have one dtype");
  if (shape_of(c, 0).i != shape_of(c, 1).i) {
    ir_infer_would_fit(c, "content", shape_of(c, 0));
    return bad_shape(c, "the new content has another shape");
  }
  return 0;
}

// {starts, counts}: constants, of elements that operands have.
static uint16_t check_parts(const Infer *c, uint32_t axis) {
  const Attr *starts = ir_attr(c->f, c->v, KEY_starts), *counts = ir_attr(c->f, c->v, KEY_counts);
  if (!starts && !counts) return 0;
  bool fits =
      starts && counts && ir_rank(c->p, starts->u.list) == n_args(c) && ir_rank(c->p, counts->u.list) == n_args(c);
  for (uint32_t k = 0; fits && k < n_args(c); k++) {
    Dim all = dim_of(c, k, axis), start = ir_dim_at(c->p, starts->u.list, k),
        count = ir_dim_at(c->p, counts->u.list, k);
    fits = ir_dim_is_const(c->p, all) && ir_dim_is_const(c->p, start) && ir_dim_is_const(c->p, count);
    if (!fits) break;
    int64_t n = ir_dim_bound(c->p, all), from = ir_dim_info(c->p, start)->value, of = ir_dim_info(c->p, count)->value;
    fits = from >= 0 && of >= 0 && from <= n && of <= n - from;
  }
  if (fits) return 0;
  return ir_infer_fault(c, E_ARGUMENT, "{starts} and {counts} are constants for each operand, of elements that it has");
}

uint16_t ir_rule_concat(const Infer *c) {
  uint32_t axis;
  TRY(ir_infer_axis(c, &axis));
  for (uint32_t k = 1; k < n_args(c); k++) {
    if (dtype_of(c, k) != dtype_of(c, 0)) return ir_infer_differ(c, "all operands must have one dtype");
    bool same = rank_of(c, k) == rank_of(c, 0);
    if (!same) rt_text_add(c->fits, "all have the axes of the first, and differ in size along axis %u alone", axis);
    if (!same) return bad_shape(c, "ranks differ");
    if (ir_infer_with_dim(c, shape_of(c, k), axis, dim_of(c, 0, axis)).i != shape_of(c, 0).i) {
      ir_infer_would_fit(c, ir_operand_text(c->f, c->v, k),
                         ir_infer_with_dim(c, shape_of(c, 0), axis, dim_of(c, k, axis)));
      return bad_shape(c, "sizes differ on another axis");
    }
  }
  TRY(check_parts(c, axis));
  Dim total = ir_dim(c->p, 0);
  for (uint32_t k = 0; k < n_args(c); k++) total = ir_dim_add(c->p, total, ir_concat_part(c->f, c->v, k).count);
  set(c, 0, dtype_of(c, 0), ir_infer_with_dim(c, shape_of(c, 0), axis, total));
  return 0;
}

uint16_t ir_rule_global_norm(const Infer *c) {
  bool is_owned = ir_attr(c->f, c->v, KEY_exchange) != NULL;
  if (is_owned && n_args(c) % 2) return bad_shape(c, "each tensor of an exchanged norm has a range");
  for (uint32_t k = 0; k < n_args(c); k++) {
    if (!(is_owned && k % 2)) TRY(ir_infer_dtype(c, k, DT_F32));
    else if (!is_range(c, k)) return bad_shape(c, "a range of elements is i64[2]");
  }
  set(c, 0, DT_F32, (Shape){0});
  return 0;
}

// Each sum begins at a cache line.
uint16_t ir_rule_exchange(const Infer *c) {
  enum { LINE = TN_ALIGN / 4 };
  Prog *p = c->f->prog;
  int64_t n = 0, room = ir_attr_int(c->f, c->v, KEY_room, 0);
  for (uint32_t k = 0; k < n_args(c); k++) n += (ir_shape_bound(p, shape_of(c, k)) + LINE - 1) / LINE * LINE;
  set(c, 0, DT_F32, ir_shape_ints(p, &n, 1));
  set(c, 1, DT_F32, ir_shape_ints(p, &room, 1));
  return 0;
}

// Result k is the next version of operand k; a gradient of operand 0's shape follows, then scalars.
uint16_t ir_rule_writes(const Infer *c) {
  uint32_t n = ir_ops[ir_ins(c->f, c->v)->op].n_res, owned = ir_operand_at(c->f, c->v, ARG_owned);
  if (owned != UINT32_MAX && !is_range(c, owned)) return bad_shape(c, "a range of elements is i64[2]");
  if (ir_has_operand(c->f, c->v, ARG_beta1) && ir_attr(c->f, c->v, KEY_beta1))
    return bad_shape(c, "beta1 is an operand or an attribute, not both");
  uint16_t rows = ir_infer_rows_of_update(c);
  if (rows) return rows;
  bool by_rows = ir_has_operand(c->f, c->v, ARG_index);
  for (uint32_t k = 0; k < n_args(c); k++) {
    if (k == owned || (by_rows && (k == n || k >= ir_operand_at(c->f, c->v, ARG_index)))) continue;
    Shape want = k <= n ? shape_of(c, 0) : (Shape){0};
    if (shape_of(c, k).i != want.i)
      return bad_shape(c, "state and gradient must have the parameter's shape, what steers the update be scalars");
  }
  for (uint32_t k = 0; k < n; k++) set(c, k, DT_F32, shape_of(c, k));
  return 0;
}

typedef uint16_t Rule(const Infer *c);
#define NULLARY(n, ...) [OP_##n] = ir_rule_broadcast,
#define UNARY(n, ...) [OP_##n] = ir_rule_broadcast,
#define BINARY(n, ...) [OP_##n] = ir_rule_broadcast,
#define TERNARY(n, ...) [OP_##n] = ir_rule_broadcast,
#define OP(n, operands, res, rule, ...) [OP_##n] = ir_rule_##rule,
static Rule *const rules[N_OPS] = {
#include "ir/ops.def"
};

static uint16_t lacks(const Infer *c, const char *what, ArgName name, const char *why) {
  rt_text_add(c->why, "%s operand %s%s", what, ir_arg_name[name], why);
  return E_ARGUMENT;
}

// Those present are required or optional ones of the row, and no required one is absent.
static uint16_t check_operands(const Infer *c) {
  const Ins *ins = ir_ins(c->f, c->v);
  const OpInfo *row = &ir_ops[ins->op];
  uint32_t n_slots = ins->n_args ? ir_operand_slot(c->f, c->v, ins->n_args - 1u) + 1 : 0;
  bool is_list = row->n_operands && (row->operands[0].flags & REPEATED);
  if (is_list || ins->op == OP_result) return 0;
  if (n_slots > row->n_operands || ins->absent >> n_slots) {
    rt_text_add(c->why, "names operands behind the last one of its row");
    return E_ARGUMENT;
  }
  for (uint32_t k = 0; k < row->n_operands; k++) {
    const OperandInfo *o = &row->operands[k];
    bool is_here = k < n_slots && !(ins->absent >> k & 1);
    if (!is_here && !(o->flags & OPTIONAL)) return lacks(c, "lacks", (ArgName)o->name, "");
    if (is_here && (o->flags & WITH_PREVIOUS) && (ins->absent >> (k - 1) & 1))
      return lacks(c, "has", (ArgName)o->name, " without the one before it");
  }
  return 0;
}

static uint16_t check_dtypes(const Infer *c) {
  for (uint32_t k = 0; k < n_args(c); k++) {
    uint32_t accepts = ir_operand_flags(c->f, c->v, k) & ANY;
    if (dtype_of(c, k) == DT_LAYOUT && rank_of(c, k) != 3)
      return ir_infer_fault(c, E_SHAPE, "a layout is [batch,time,rows]");
    if (accepts >> dtype_of(c, k) & 1) continue;
    if (dtype_of(c, k) == DT_LAYOUT) return ir_infer_fault(c, E_DTYPE, "a layout is no number");
    return ir_infer_wants_dtypes(c, k, accepts);
  }
  return 0;
}

uint16_t ir_infer_why(Fn *f, Val v, RtText *why, RtText *fits) {
  Infer c = {f, f->prog, v, why, fits};
  TRY(check_operands(&c));
  TRY(ir_infer_attrs(&c));
  TRY(check_dtypes(&c));
  return rules[ir_ins(f, v)->op](&c);
}

uint16_t ir_infer_id(Fn *f, Val v, RtText *why) {
  RtText fits = {.mem = f->prog->mem};
  return ir_infer_why(f, v, why, &fits);
}

bool ir_infer(Fn *f, Val v, RtText *why) { return ir_infer_id(f, v, why) == 0; }
