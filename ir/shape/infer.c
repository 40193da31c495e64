// Shape rules: one for each word in the shape column of ops.def. A rule reads operands and attributes of the
// instruction at v and sets the type of v and of its result records; a fault is the number of a diagnostic and a
// sentence in `why`.
#include "ir/shape/infer.h"
#include "ir/slice_at.h"

#include <string.h>

// "operands are f32[2,3] and f32[4]"
static void tell_types(const Infer *c) {
  uint32_t n = n_args(c);
  if (n == 0) return;
  rt_text_add(c->why, n == 1 ? "; the operand is " : "; operands are ");
  for (uint32_t k = 0; k < n && k < 8; k++) {
    rt_text_add(c->why, k == 0 ? "%s" : k + 1 == n ? " and %s" : ", %s", ir_dtype_name[dtype_of(c, k)]);
    ir_shape_text(c->p, shape_of(c, k), c->why);
  }
}

uint16_t ir_infer_fault(const Infer *c, uint16_t id, const char *text) {
  rt_text_add(c->why, "%s", text);
  tell_types(c);
  return id;
}

// "f32 or i64"
static void tell_dtypes(const Infer *c, uint32_t accepts) {
  const char *between = "";
  for (uint32_t t = DT_NONE + 1; t < N_DTYPES; t++) {
    if (!(accepts >> t & 1)) continue;
    rt_text_add(c->why, "%s%s", between, ir_dtype_name[t]);
    between = " or ";
  }
}

const char *ir_operand_text(const Fn *f, Val v, uint32_t k) {
  const OpInfo *row = &ir_ops[ir_ins(f, v)->op];
  uint32_t slot = ir_operand_slot(f, v, k);
  bool named = slot < row->n_operands && !(row->operands[slot].flags & REPEATED);
  return named ? ir_arg_name[row->operands[slot].name] : rt_printf(f->prog->mem, "operand %u", k);
}

static const char *name_of(const Infer *c, uint32_t k) { return ir_operand_text(c->f, c->v, k); }

static void hint_cast(const Infer *c, uint32_t k, uint32_t accepts) {
  bool to_i64 = accepts & I64 && (!(accepts & F32) || ir_dtype_kind[dtype_of(c, k)] == DTYPE_INT);
  if (!(accepts & (F32 | I64))) return;
  rt_text_add(c->fits, "tn_cast(%s, TN_%s) makes it %s", name_of(c, k), to_i64 ? "I64" : "F32",
              ir_dtype_name[to_i64 ? DT_I64 : DT_F32]);
}

static uint16_t wants_dtypes(const Infer *c, uint32_t k, uint32_t accepts) {
  rt_text_add(c->why, "%s must be ", name_of(c, k));
  tell_dtypes(c, accepts);
  if (dtype_of(c, k) != DT_LAYOUT) hint_cast(c, k, accepts);
  return ir_infer_fault(c, E_DTYPE, "");
}

uint16_t ir_infer_dtype(const Infer *c, uint32_t k, DType t) {
  return dtype_of(c, k) == t ? 0 : wants_dtypes(c, k, 1u << t);
}

uint16_t ir_infer_rank(const Infer *c, uint32_t k, uint32_t least, uint32_t most) {
  uint32_t r = rank_of(c, k);
  if (r >= least && r <= most) return 0;
  rt_text_add(c->why, "%s must have rank %u", name_of(c, k), least);
  rt_text_add(c->fits, "tn_reshape gives it other axes; it has %u", r);
  if (most != least) rt_text_add(c->why, most >= MAX_RANK ? " or more" : " to %u", most);
  return ir_infer_fault(c, E_SHAPE, "");
}

// Operands of different dtypes, where one is asked for.
static uint16_t differ(const Infer *c, const char *what) {
  rt_text_add(c->fits, "tn_cast brings them to one dtype");
  return ir_infer_fault(c, E_DTYPE, what);
}

// NumPy broadcasting of two shapes; false when they do not fit.
static bool broadcast(const Infer *c, Shape a, Shape b, Shape *out) {
  uint32_t ra = ir_rank(c->p, a), rb = ir_rank(c->p, b), r = ra > rb ? ra : rb;
  Dim d[MAX_RANK];
  for (uint32_t k = 0; k < r; k++) {
    bool in_a = k + ra >= r, in_b = k + rb >= r;
    Dim x = in_a ? ir_dim_at(c->p, a, k + ra - r) : (Dim){0}, y = in_b ? ir_dim_at(c->p, b, k + rb - r) : (Dim){0};
    if (!in_a || (in_b && x.i != y.i && ir_dim_is_one(c->p, x))) d[k] = y;
    else if (!in_b || x.i == y.i || ir_dim_is_one(c->p, y)) d[k] = x;
    else return false;
  }
  *out = ir_shape(c->p, d, r);
  return true;
}

// {dtype} of a constant: f32, or one that is counted in.
static uint16_t constant_dtype(const Infer *c, DType *out) {
  int64_t t = ir_attr_int(c->f, c->v, KEY_dtype, DT_F32);
  if (t < 0 || t >= N_DTYPES || !((F32 | COUNTABLE) >> t & 1)) {
    rt_text_add(c->why, "needs {dtype} of ");
    tell_dtypes(c, F32 | COUNTABLE);
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
      return differ(c, first ? "both values must have one dtype" : "all operands must have one dtype");
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
    if (broadcast(c, s, shape_of(c, k), &s)) continue;
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
  } else if (ins->dtype == DT_LAYOUT) {
    return ir_infer_fault(c, E_DTYPE, "a layout is made of lengths, not handed in");
  }
  return 0;
}

uint16_t ir_rule_table(const Infer *c) {
  int64_t t = ir_attr_int(c->f, c->v, KEY_dtype, -1);
  Shape s = ir_attr(c->f, c->v, KEY_shape)->u.list;
  if (t < 0 || t >= N_DTYPES || !(NUMBER >> t & 1)) return ir_infer_fault(c, E_DTYPE, "needs {dtype} of a number");
  if (!ir_shape_is_const(c->p, s)) return bad_shape(c, "the sizes of a table are constants");
  const char *bits = ir_text(c->p, ir_attr(c->f, c->v, KEY_bits)->u.s);
  size_t digits = strlen(bits), want = (size_t)ir_shape_bound(c->p, s) * 2 * (size_t)ir_dtype_bytes[t];
  if (digits != want) {
    rt_text_add(c->why, "{bits} has %llu digits, and the shape needs %llu", (unsigned long long)digits,
                (unsigned long long)want);
    return ir_infer_fault(c, E_ARGUMENT, "");
  }
  if (strspn(bits, "0123456789abcdef") != digits)
    return ir_infer_fault(c, E_ARGUMENT, "{bits} are digits from 0 to 9 and from a to f");
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
    tell_dtypes(c, NUMBER);
    return ir_infer_fault(c, E_DTYPE, "");
  }
  set(c, 0, (DType)t, shape_of(c, 0));
  return 0;
}

// "x of shape [batch,12] would fit", and for another one ", or .."
static void would_fit(const Infer *c, const char *name, Shape s) {
  bool first = !c->fits->len;
  rt_text_add(c->fits, "%s%s of shape ", first ? "" : ", or ", name);
  ir_shape_text(c->p, s, c->fits);
  rt_text_add(c->fits, "%s", first ? " would fit" : "");
}

static uint16_t axis_of(const Infer *c, uint32_t *axis) {
  int64_t a = ir_attr_int(c->f, c->v, KEY_axis, -1);
  if (a < 0 || a >= rank_of(c, 0)) return ir_infer_fault(c, E_ARGUMENT, "{axis} is out of range");
  *axis = (uint32_t)a;
  return 0;
}

static uint16_t check_source(const Infer *c) {
  Shape joint;
  if (dtype_of(c, 0) != dtype_of(c, 1)) return differ(c, "both operands must have one dtype");
  if (broadcast(c, shape_of(c, 0), shape_of(c, 1), &joint) && joint.i == shape_of(c, 0).i) return 0;
  return bad_shape(c, "the source does not broadcast to the target");
}

// The operand's own type.
uint16_t ir_rule_same(const Infer *c) {
  set(c, 0, dtype_of(c, 0), shape_of(c, 0));
  return 0;
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

// Softmax and its kin: rows of one shape, along {axis} or the last.
uint16_t ir_rule_row(const Infer *c) {
  uint32_t axis;
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  for (uint32_t k = 1; k < n_args(c); k++)
    if (shape_of(c, k).i != shape_of(c, 0).i) return bad_shape(c, "shapes differ");
  if (ir_attr(c->f, c->v, KEY_axis)) TRY(axis_of(c, &axis));
  return ir_rule_same(c);
}

// Scans along {axis}: operands of one type, which is the result's; a second result has indices.
uint16_t ir_rule_along(const Infer *c) {
  uint32_t axis;
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  TRY(axis_of(c, &axis));
  for (uint32_t k = 1; k < n_args(c); k++)
    if (shape_of(c, k).i != shape_of(c, 0).i) return bad_shape(c, "shapes differ");
  if (ir_ops[ir_ins(c->f, c->v)->op].n_res > 1) set(c, 1, DT_I64, shape_of(c, 0));
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
                                                   : broadcast(c, from, to, &joint) && joint.i == to.i;
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

uint16_t ir_rule_permute(const Infer *c) {
  const Attr *a = ir_attr(c->f, c->v, KEY_perm);
  uint32_t r = rank_of(c, 0), seen = 0;
  if (!a || ir_rank(c->p, a->u.list) != r)
    return ir_infer_fault(c, E_ARGUMENT, "needs {perm} with one entry for each axis");
  Dim d[MAX_RANK];
  for (uint32_t k = 0; k < r; k++) {
    int64_t from = ir_list_at(c->p, a->u.list, k);
    if (from < 0 || from >= r || (seen >> from & 1))
      return ir_infer_fault(c, E_ARGUMENT, "{perm} is not a permutation");
    seen |= 1u << from;
    d[k] = dim_of(c, 0, (uint32_t)from);
  }
  set(c, 0, dtype_of(c, 0), ir_shape(c->p, d, r));
  return 0;
}

Shape ir_infer_with_dim(const Infer *c, Shape s, uint32_t axis, Dim d) {
  Dim dims[MAX_RANK];
  uint32_t r = ir_rank(c->p, s);
  for (uint32_t k = 0; k < r; k++) dims[k] = k == axis ? d : ir_dim_at(c->p, s, k);
  return ir_shape(c->p, dims, r);
}

uint16_t ir_rule_slice(const Infer *c) {
  uint32_t axis;
  TRY(axis_of(c, &axis));
  int64_t start = ir_attr_int(c->f, c->v, KEY_start, -1), size = ir_attr_int(c->f, c->v, KEY_size, -1);
  Dim d = dim_of(c, 0, axis);
  if (!ir_dim_is_const(c->p, d)) return bad_shape(c, "slices only axes of constant size");
  if (start < 0 || size < 0 || start > ir_dim_bound(c->p, d) || size > ir_dim_bound(c->p, d) - start) {
    rt_text_add(c->why, "%lld elements from index %lld on do not lie in axis %u", (long long)size, (long long)start,
                axis);
    return bad_shape(c, "");
  }
  set(c, 0, dtype_of(c, 0), ir_infer_with_dim(c, shape_of(c, 0), axis, ir_dim(c->p, size)));
  return 0;
}

// Below 0 for some sizes that only the run finds: the host cannot check them.
static bool can_be_negative(const Infer *c, Dim d) { return ir_dim_least(c->p, d) < 0 && ir_dim_found_by_run(c->f, d); }

// What slice_at and slice_assign_at share: `count` elements along the axis of operand 0 lie in it, whatever `at` is.
static uint16_t check_slice_at(const Infer *c, uint32_t axis, Dim count) {
  SliceAt s;
  if (ir_has_operand(c->f, c->v, ARG_at) && ir_rank(c->p, shape_named(c, ARG_at)) != 0)
    return bad_shape(c, "at, the start of a slice, is a scalar");
  int64_t step = ir_attr_int(c->f, c->v, KEY_step, 1);
  if (step < 1 || step > 1 << 30) return ir_infer_fault(c, E_ARGUMENT, "{step} must lie in [1, 2^30]");
  const Attr *from = ir_attr(c->f, c->v, KEY_from);
  if (!ir_dim_exists(c->p, count) || (from && !ir_dim_exists(c->p, from->u.dim)))
    return ir_infer_fault(c, E_ARGUMENT, "{from} and {count} are sizes");
  if (ir_dim_most(c->p, count) < 0) return bad_shape(c, "{count} is below 0");
  ir_slice_at(c->f, c->v, &s);
  // What depends on sizes of the run is checked there (ir/passes/size_checks.c)
  bool is_rest = ir_slice_is_rest(c->p, &s), may_exist = is_rest || ir_dim_most(c->p, s.last_start) >= 0;
  bool is_open = can_be_negative(c, s.from) || can_be_negative(c, count) ||
                 (ir_none(s.at) && !is_rest && can_be_negative(c, s.last_start));
  if (ir_dim_most(c->p, s.from) >= 0 && may_exist && !is_open) return 0;
  rt_text_add(c->why, "elements from index ");
  ir_dim_text(c->p, s.from, c->why);
  rt_text_add(c->why, " on, ");
  ir_dim_text(c->p, count, c->why);
  rt_text_add(c->why, " of them in steps of %lld, do not lie in axis %u", (long long)s.step, axis);
  return bad_shape(c, "");
}

uint16_t ir_rule_slice_at(const Infer *c) {
  uint32_t axis;
  TRY(axis_of(c, &axis));
  const Attr *count = ir_attr(c->f, c->v, KEY_count);
  if (!count) return ir_infer_fault(c, E_ARGUMENT, "needs {count}");
  TRY(check_slice_at(c, axis, count->u.dim));
  set(c, 0, dtype_of(c, 0), ir_infer_with_dim(c, shape_of(c, 0), axis, count->u.dim));
  return 0;
}

uint16_t ir_rule_slice_assign_at(const Infer *c) {
  uint32_t axis;
  TRY(axis_of(c, &axis));
  if (dtype_of(c, 0) != dtype_of(c, 1)) return differ(c, "both operands must have one dtype");
  if (rank_of(c, 1) != rank_of(c, 0)) return bad_shape(c, "ranks differ");
  Dim part = dim_of(c, 1, axis);
  if (ir_infer_with_dim(c, shape_of(c, 0), axis, part).i != shape_of(c, 1).i)
    return bad_shape(c, "sizes differ on another axis");
  TRY(check_slice_at(c, axis, part));
  set(c, 0, dtype_of(c, 0), shape_of(c, 0));
  return 0;
}

uint16_t ir_rule_pad_axis(const Infer *c) {
  uint32_t axis;
  TRY(axis_of(c, &axis));
  int64_t start = ir_attr_int(c->f, c->v, KEY_start, -1), size = ir_attr_int(c->f, c->v, KEY_size, -1);
  Dim d = dim_of(c, 0, axis);
  if (!ir_dim_is_const(c->p, d)) return bad_shape(c, "pads only axes of constant size");
  if (start < 0 || size < 0 || start > size || ir_dim_bound(c->p, d) > size - start)
    return bad_shape(c, "the operand does not fit at {start}");
  set(c, 0, dtype_of(c, 0), ir_infer_with_dim(c, shape_of(c, 0), axis, ir_dim(c->p, size)));
  return 0;
}

uint16_t ir_rule_write(const Infer *c) {
  if (dtype_of(c, 0) != dtype_of(c, 1)) return differ(c, "both operands must have one dtype");
  if (shape_of(c, 0).i != shape_of(c, 1).i) {
    would_fit(c, "content", shape_of(c, 0));
    return bad_shape(c, "the new content has another shape");
  }
  return 0;
}

uint16_t ir_rule_slice_assign(const Infer *c) {
  uint32_t axis;
  TRY(axis_of(c, &axis));
  if (dtype_of(c, 0) != dtype_of(c, 1)) return differ(c, "both operands must have one dtype");
  int64_t start = ir_attr_int(c->f, c->v, KEY_start, -1);
  Dim whole = dim_of(c, 0, axis);
  if (rank_of(c, 1) != rank_of(c, 0)) return bad_shape(c, "ranks differ");
  Dim part = dim_of(c, 1, axis);
  if (!ir_dim_is_const(c->p, whole) || !ir_dim_is_const(c->p, part))
    return bad_shape(c, "writes only along axes of constant size");
  if (ir_infer_with_dim(c, shape_of(c, 0), axis, part).i != shape_of(c, 1).i)
    return bad_shape(c, "sizes differ on another axis");
  if (start < 0 || start > ir_dim_bound(c->p, whole) || ir_dim_bound(c->p, part) > ir_dim_bound(c->p, whole) - start)
    return bad_shape(c, "the part is past the end of the axis");
  set(c, 0, dtype_of(c, 0), shape_of(c, 0));
  return 0;
}

uint16_t ir_rule_index_assign(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  TRY(ir_infer_rank(c, 1, 1, 1));
  if (rank_of(c, 2) != rank_of(c, 0) || ir_infer_with_dim(c, shape_of(c, 0), 0, dim_of(c, 1, 0)).i != shape_of(c, 2).i)
    return bad_shape(c, "the rows do not have the shape of the target's");
  if (dtype_of(c, 2) != dtype_of(c, 0)) return differ(c, "target and source must have one dtype");
  set(c, 0, dtype_of(c, 0), shape_of(c, 0));
  return 0;
}

uint16_t ir_rule_concat(const Infer *c) {
  uint32_t axis;
  TRY(axis_of(c, &axis));
  Dim total = dim_of(c, 0, axis);
  for (uint32_t k = 1; k < n_args(c); k++) {
    if (dtype_of(c, k) != dtype_of(c, 0)) return differ(c, "all operands must have one dtype");
    bool same = rank_of(c, k) == rank_of(c, 0);
    if (!same) rt_text_add(c->fits, "all have the axes of the first, and differ in size along axis %u alone", axis);
    if (!same) return bad_shape(c, "ranks differ");
    if (ir_infer_with_dim(c, shape_of(c, k), axis, dim_of(c, 0, axis)).i != shape_of(c, 0).i) {
      would_fit(c, name_of(c, k), ir_infer_with_dim(c, shape_of(c, 0), axis, dim_of(c, k, axis)));
      return bad_shape(c, "sizes differ on another axis");
    }
    total = ir_dim_add(c->p, total, dim_of(c, k, axis));
  }
  set(c, 0, dtype_of(c, 0), ir_infer_with_dim(c, shape_of(c, 0), axis, total));
  return 0;
}

uint16_t ir_rule_reduce(const Infer *c) {
  const Attr *a = ir_attr(c->f, c->v, KEY_axes);
  if (!a) return ir_infer_fault(c, E_ARGUMENT, "needs {axes}");
  uint32_t r = rank_of(c, 0), mask = 0, n = 0;
  for (uint32_t k = 0; k < ir_rank(c->p, a->u.list); k++) {
    int64_t axis = ir_list_at(c->p, a->u.list, k);
    if (axis < 0 || axis >= r || (mask >> axis & 1))
      return ir_infer_fault(c, E_ARGUMENT, "{axes} has an axis out of range or twice");
    mask |= 1u << axis;
  }
  bool keep = ir_attr(c->f, c->v, KEY_keepdim) != NULL;
  Dim d[MAX_RANK];
  for (uint32_t k = 0; k < r; k++) {
    if (!(mask >> k & 1)) d[n++] = dim_of(c, 0, k);
    else if (keep) d[n++] = ir_dim(c->p, 1);
  }
  set(c, 0, DT_F32, ir_shape(c->p, d, n));
  return 0;
}

static Shape without_last(const Infer *c, Shape s) {
  Dim d[MAX_RANK];
  uint32_t r = ir_rank(c->p, s);
  for (uint32_t k = 0; k + 1 < r; k++) d[k] = ir_dim_at(c->p, s, k);
  return ir_shape(c->p, d, r ? r - 1 : 0);
}

uint16_t ir_rule_argmax(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  Dim last = dim_of(c, 0, rank_of(c, 0) - 1);
  if (ir_dim_is_const(c->p, last) && ir_dim_bound(c->p, last) == 0)
    return bad_shape(c, "the last axis is empty: there is no largest element");
  set(c, 0, DT_I64, without_last(c, shape_of(c, 0)));
  return 0;
}

// Whole numbers, along {axis} or the last.
static uint16_t whole_axis(const Infer *c, uint32_t *axis) {
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  *axis = rank_of(c, 0) - 1;
  return ir_attr(c->f, c->v, KEY_axis) ? axis_of(c, axis) : 0;
}

static uint16_t without_axis(const Infer *c, DType t) {
  Dim d[MAX_RANK];
  uint32_t axis, n = 0;
  TRY(whole_axis(c, &axis));
  for (uint32_t k = 0; k < rank_of(c, 0); k++)
    if (k != axis) d[n++] = dim_of(c, 0, k);
  set(c, 0, t, ir_shape(c->p, d, n));
  return 0;
}
uint16_t ir_rule_whole_sum(const Infer *c) { return without_axis(c, DT_I64); }
uint16_t ir_rule_whole_amax(const Infer *c) { return without_axis(c, dtype_of(c, 0)); }

uint16_t ir_rule_whole_argmax(const Infer *c) {
  uint32_t axis;
  TRY(whole_axis(c, &axis));
  Dim size = dim_of(c, 0, axis);
  if (ir_dim_is_const(c->p, size) && ir_dim_bound(c->p, size) == 0)
    return bad_shape(c, "the axis is empty: there is no largest element");
  return without_axis(c, DT_I64);
}

// Logits [.., C], labels [..] -> [..]
static uint16_t check_labels(const Infer *c, Shape *rows) {
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  *rows = without_last(c, shape_of(c, 0));
  if (shape_of(c, 1).i != rows->i) would_fit(c, "labels", *rows);
  if (shape_of(c, 1).i != rows->i)
    return bad_shape(c, "labels must have the shape of the logits without the last axis");
  int64_t ignore = ir_attr_int(c->f, c->v, KEY_ignore, 0);
  bool fits = ignore <= INT64_C(1) << 53 && ignore >= -(INT64_C(1) << 53);
  return fits ? 0 : ir_infer_fault(c, E_ARGUMENT, "{ignore} is too large");
}

uint16_t ir_rule_cross_entropy(const Infer *c) {
  Shape rows;
  TRY(check_labels(c, &rows));
  set(c, 0, DT_F32, rows);
  set(c, 1, DT_F32, rows);
  return 0;
}

uint16_t ir_rule_cross_entropy_grad(const Infer *c) {
  Shape rows;
  TRY(check_labels(c, &rows));
  for (uint32_t k = 2; k < n_args(c); k++)
    if (shape_of(c, k).i != rows.i) return bad_shape(c, "the numbers and gradients of rows have another shape");
  set(c, 0, DT_F32, shape_of(c, 0));
  return 0;
}

// x [.., C], weight and bias [C] -> y, then numbers of each row.
uint16_t ir_rule_norm(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  Shape s = shape_of(c, 0);
  Dim width = dim_of(c, 0, rank_of(c, 0) - 1);
  for (uint32_t k = 1; k < n_args(c); k++)
    if (shape_of(c, k).i != ir_shape(c->p, &width, 1).i) {
      would_fit(c, "x", ir_infer_with_dim(c, s, rank_of(c, 0) - 1, dim_of(c, k, 0)));
      return bad_shape(c, "weight and bias must have the size of the last axis");
    }
  if (!(ir_attr_num(c->f, c->v, KEY_eps, -1) >= 0)) return ir_infer_fault(c, E_ARGUMENT, "needs {eps}, 0 or more");
  set(c, 0, DT_F32, s);
  for (uint32_t k = 1; k < ir_ops[ir_ins(c->f, c->v)->op].n_res; k++) set(c, k, DT_F32, without_last(c, s));
  return 0;
}

uint16_t ir_rule_norm_grad(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  Shape s = shape_of(c, 0);
  Dim width = dim_of(c, 0, rank_of(c, 0) - 1);
  for (uint32_t k = 1; k < n_args(c); k++) {
    uint32_t flags = ir_operand_flags(c->f, c->v, k);
    Shape want = flags & ROW_SCALAR ? without_last(c, s) : flags & ELEMENT ? s : ir_shape(c->p, &width, 1);
    if (shape_of(c, k).i != want.i)
      return bad_shape(c, "operands must be x, numbers of its rows, a gradient like x and a weight like its last axis");
  }
  set(c, 0, DT_F32, s);
  return 0;
}

uint16_t ir_rule_matmul(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 2, MAX_RANK));
  TRY(ir_infer_rank(c, 1, 2, MAX_RANK));
  bool ta = ir_attr(c->f, c->v, KEY_ta) != NULL, tb = ir_attr(c->f, c->v, KEY_tb) != NULL;
  uint32_t ra = rank_of(c, 0), rb = rank_of(c, 1);
  Dim m = dim_of(c, 0, ta ? ra - 1 : ra - 2), k = dim_of(c, 0, ta ? ra - 2 : ra - 1);
  Dim k2 = dim_of(c, 1, tb ? rb - 1 : rb - 2), n = dim_of(c, 1, tb ? rb - 2 : rb - 1);
  if (k.i != k2.i) {
    would_fit(c, "b", ir_infer_with_dim(c, shape_of(c, 1), tb ? rb - 1 : rb - 2, k));
    would_fit(c, "a", ir_infer_with_dim(c, shape_of(c, 0), ta ? ra - 2 : ra - 1, k2));
    return bad_shape(c, "inner sizes differ");
  }
  Shape batch;
  Dim d[MAX_RANK + 2];
  Shape ba = ir_shape(c->p, memcpy(d, ir_dims(c->p, shape_of(c, 0)), ra * sizeof(Dim)), ra - 2);
  Shape bb = ir_shape(c->p, memcpy(d, ir_dims(c->p, shape_of(c, 1)), rb * sizeof(Dim)), rb - 2);
  if (!broadcast(c, ba, bb, &batch)) {
    rt_text_add(c->fits, "before the last two axes, sizes are equal or 1");
    return bad_shape(c, "batch sizes do not broadcast");
  }
  uint32_t r = ir_rank(c->p, batch);
  for (uint32_t j = 0; j < r; j++) d[j] = ir_dim_at(c->p, batch, j);
  d[r] = m, d[r + 1] = n;
  set(c, 0, DT_F32, ir_shape(c->p, d, r + 2));
  return 0;
}

// The last two axes of operand k.
static uint16_t check_square(const Infer *c, uint32_t k) {
  TRY(ir_infer_rank(c, k, 2, MAX_RANK));
  uint32_t r = rank_of(c, k);
  return dim_of(c, k, r - 2).i == dim_of(c, k, r - 1).i ? 0 : bad_shape(c, "the matrix is not square");
}

static bool has_batch_of(const Infer *c, uint32_t k, uint32_t other) {
  for (uint32_t j = 0; j + 2 < rank_of(c, k); j++)
    if (dim_of(c, k, j).i != dim_of(c, other, j).i) return false;
  return rank_of(c, k) == rank_of(c, other);
}

uint16_t ir_rule_solve_triangular(const Infer *c) {
  TRY(check_square(c, 0));
  TRY(ir_infer_rank(c, 1, 2, MAX_RANK));
  uint32_t ra = rank_of(c, 0), rb = rank_of(c, 1), axis = ir_attr(c->f, c->v, KEY_right) ? rb - 1 : rb - 2;
  if (dim_of(c, 1, axis).i != dim_of(c, 0, ra - 1).i) {
    would_fit(c, "b", ir_infer_with_dim(c, shape_of(c, 1), axis, dim_of(c, 0, ra - 1)));
    return bad_shape(c, "the system and its right-hand sides differ in size");
  }
  if (ra != 2 && !has_batch_of(c, 0, 1)) return bad_shape(c, "batch sizes differ");
  set(c, 0, DT_F32, shape_of(c, 1));
  return 0;
}

uint16_t ir_rule_cholesky(const Infer *c) {
  TRY(check_square(c, 0));
  set(c, 0, DT_F32, shape_of(c, 0));
  return 0;
}

uint16_t ir_rule_linear(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  TRY(ir_infer_rank(c, 1, 2, 2));
  uint32_t r = rank_of(c, 0);
  if (dim_of(c, 0, r - 1).i != dim_of(c, 1, 1).i) {
    would_fit(c, "x", ir_infer_with_dim(c, shape_of(c, 0), r - 1, dim_of(c, 1, 1)));
    return bad_shape(c, "the last size of x differs from the weight's second");
  }
  if (ir_has_operand(c->f, c->v, ARG_bias)) {
    TRY(ir_infer_rank(c, 2, 1, 1));
    if (dim_of(c, 2, 0).i != dim_of(c, 1, 0).i)
      return bad_shape(c, "the bias has another size than the weight's first");
  }
  set(c, 0, DT_F32, ir_infer_with_dim(c, shape_of(c, 0), r - 1, dim_of(c, 1, 0)));
  return 0;
}

// Operand 0 is a table [V, E], operand `at` names rows of it: [..] -> [.., E]
static uint16_t look_up(const Infer *c, uint32_t at, Shape *out) {
  TRY(ir_infer_rank(c, 0, 2, 2));
  TRY(ir_infer_rank(c, at, 0, MAX_RANK - 1));
  Dim d[MAX_RANK];
  uint32_t r = rank_of(c, at);
  for (uint32_t k = 0; k < r; k++) d[k] = dim_of(c, at, k);
  d[r] = dim_of(c, 0, 1);
  *out = ir_shape(c->p, d, r + 1);
  return 0;
}

// So does operand `rows`, which has what was looked up, or its gradient.
static uint16_t check_table_rows(const Infer *c, uint32_t at, uint32_t rows) {
  Shape want;
  TRY(look_up(c, at, &want));
  return shape_of(c, rows).i == want.i ? 0 : bad_shape(c, "there must be a row of the table for each index");
}

uint16_t ir_rule_embedding(const Infer *c) {
  Shape s;
  TRY(look_up(c, 1, &s));
  set(c, 0, DT_F32, s);
  return 0;
}

uint16_t ir_rule_embedding_grad(const Infer *c) {
  TRY(check_table_rows(c, 1, 2));
  if (ir_has_operand(c->f, c->v, ARG_addend) && shape_of(c, 3).i != shape_of(c, 0).i)
    return bad_shape(c, "the addend must have the table's shape");
  set(c, 0, DT_F32, shape_of(c, 0));
  return 0;
}

// Values and indices: all of the axis, {size} elements of it, or one.
uint16_t ir_rule_sort(const Infer *c) {
  uint32_t axis;
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  TRY(axis_of(c, &axis));
  Op op = (Op)ir_ins(c->f, c->v)->op;
  Dim n = dim_of(c, 0, axis);
  int64_t size = ir_attr_int(c->f, c->v, KEY_size, 1), least = op == OP_topk ? 0 : 1;
  bool counts = op == OP_topk || op == OP_kth_value;
  if (counts && !ir_dim_is_const(c->p, n))
    return bad_shape(c, "takes so many elements only of an axis of constant size");
  if (counts && (size < least || size > ir_dim_bound(c->p, n))) {
    rt_text_add(c->why, "{size} %lld does not lie in the axis", (long long)size);
    return bad_shape(c, "");
  }
  if (op == OP_median && ir_dim_is_const(c->p, n) && ir_dim_bound(c->p, n) == 0)
    return bad_shape(c, "the axis is empty: it has no median");
  if (ir_dim_bound(c->p, n) > INT32_MAX) return bad_shape(c, "the axis is too long");
  Dim to = op == OP_sort ? n : ir_dim(c->p, op == OP_topk ? size : 1);
  Shape s = ir_infer_with_dim(c, shape_of(c, 0), axis, to);
  set(c, 0, dtype_of(c, 0), s);
  set(c, 1, DT_I64, s);
  return 0;
}

uint16_t ir_rule_searchsorted(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  if (dtype_of(c, 0) != dtype_of(c, 1)) return differ(c, "both operands must have one dtype");
  uint32_t r = rank_of(c, 0);
  bool fits = r == 1 || r == rank_of(c, 1);
  for (uint32_t k = 0; fits && k + 1 < r; k++) fits = dim_of(c, 0, k).i == dim_of(c, 1, k).i;
  if (!fits) return bad_shape(c, "there must be one sorted row, or one for each row of x");
  set(c, 0, DT_I64, shape_of(c, 1));
  return 0;
}

uint16_t ir_rule_nonzero(const Infer *c) {
  int64_t size = ir_attr_int(c->f, c->v, KEY_size, 0);
  if (size < 1 || size > INT32_MAX) return ir_infer_fault(c, E_ARGUMENT, "{size} must be 1 or more");
  Shape s = ir_shape_ints(c->p, &size, 1);
  set(c, 0, DT_I64, s);
  set(c, 1, DT_F32, s);
  set(c, 2, DT_I64, (Shape){0});
  return 0;
}

uint16_t ir_rule_repeat_index(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 1, 1));
  return ir_rule_nonzero(c);
}

// ---- along {axis}
// Does the index lie in operand 0, but for its axis?
static uint16_t check_inside(const Infer *c, uint32_t axis) {
  if (rank_of(c, 1) != rank_of(c, 0)) return bad_shape(c, "the index has another rank");
  for (uint32_t k = 0; k < rank_of(c, 0); k++) {
    Dim own = dim_of(c, 1, k), of = dim_of(c, 0, k);
    bool fits = own.i == of.i || (ir_dim_is_const(c->p, own) && ir_dim_is_const(c->p, of) &&
                                  ir_dim_bound(c->p, own) <= ir_dim_bound(c->p, of));
    if (k == axis || fits) continue;
    rt_text_add(c->why, "the index is larger than what it goes to along axis %u", k);
    return bad_shape(c, "");
  }
  return 0;
}

uint16_t ir_rule_gather(const Infer *c) {
  uint32_t axis;
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  TRY(axis_of(c, &axis));
  TRY(check_inside(c, axis));
  set(c, 0, dtype_of(c, 0), shape_of(c, 1));
  return 0;
}

uint16_t ir_rule_index_select(const Infer *c) {
  uint32_t axis;
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  TRY(ir_infer_rank(c, 1, 1, 1));
  TRY(axis_of(c, &axis));
  set(c, 0, dtype_of(c, 0), ir_infer_with_dim(c, shape_of(c, 0), axis, dim_of(c, 1, 0)));
  return 0;
}

// The source has that shape, or is one number.
static uint16_t check_scattered(const Infer *c, Shape want) {
  if (dtype_of(c, 2) != dtype_of(c, 0)) return differ(c, "target and source must have one dtype");
  if (shape_of(c, 2).i == want.i || rank_of(c, 2) == 0) return 0;
  would_fit(c, "source", want);
  return bad_shape(c, "the source has another shape than what is written");
}

uint16_t ir_rule_scatter(const Infer *c) {
  uint32_t axis;
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  TRY(axis_of(c, &axis));
  TRY(check_inside(c, axis));
  TRY(check_scattered(c, shape_of(c, 1)));
  return ir_rule_same(c);
}

uint16_t ir_rule_index_scatter(const Infer *c) {
  uint32_t axis;
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  TRY(ir_infer_rank(c, 1, 1, 1));
  TRY(axis_of(c, &axis));
  TRY(check_scattered(c, ir_infer_with_dim(c, shape_of(c, 0), axis, dim_of(c, 1, 0))));
  return ir_rule_same(c);
}

// ---- bags
// How many there are.
static uint16_t check_bags(const Infer *c, Dim *n) {
  uint32_t index = ir_operand_at(c->f, c->v, ARG_index);
  bool has_offsets = ir_has_operand(c->f, c->v, ARG_offsets);
  TRY(ir_infer_rank(c, 0, 2, 2));
  TRY(ir_infer_rank(c, index, has_offsets ? 1 : 2, has_offsets ? 1 : 2));
  if (has_offsets) TRY(ir_infer_rank(c, ir_operand_at(c->f, c->v, ARG_offsets), 1, 1));
  if (ir_has_operand(c->f, c->v, ARG_factor) && shape_named(c, ARG_factor).i != shape_of(c, index).i)
    return bad_shape(c, "the factors must have the shape of the index");
  *n = has_offsets ? dim_named(c, ARG_offsets, 0) : dim_of(c, index, 0);
  return 0;
}

uint16_t ir_rule_bag(const Infer *c) {
  Dim n, none = ir_dim(c->p, 0);
  TRY(check_bags(c, &n));
  bool max = ir_attr(c->f, c->v, KEY_max) != NULL;
  if (max && ir_has_operand(c->f, c->v, ARG_factor)) return ir_infer_fault(c, E_ARGUMENT, "a maximum takes no factors");
  Shape s = ir_shape(c->p, (Dim[]){n, dim_of(c, 0, 1)}, 2);
  set(c, 0, DT_F32, s);
  set(c, 1, DT_F32, ir_shape(c->p, &n, 1));
  set(c, 2, DT_I64, max ? s : ir_shape(c->p, &none, 1));
  return 0;
}

uint16_t ir_rule_bag_grad(const Infer *c) {
  Dim n;
  TRY(check_bags(c, &n));
  Shape want = ir_shape(c->p, (Dim[]){n, dim_of(c, 0, 1)}, 2);
  if (shape_named(c, ARG_g).i != want.i) return bad_shape(c, "the gradient must have a row for each bag");
  bool of_table = ir_ins(c->f, c->v)->op == OP_embedding_bag_grad;
  set(c, 0, DT_F32, of_table ? shape_of(c, 0) : shape_of(c, 1));
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

// Each sum begins a line of its own.
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
  for (uint32_t k = 0; k < n_args(c); k++) {
    if (k == owned) continue;
    Shape want = k <= n ? shape_of(c, 0) : (Shape){0};
    if (shape_of(c, k).i != want.i)
      return bad_shape(c, "state and gradient must have the parameter's shape, what steers the update be scalars");
  }
  for (uint32_t k = 0; k < n; k++) set(c, k, DT_F32, shape_of(c, k));
  return 0;
}

uint16_t ir_rule_writes_rows(const Infer *c) {
  uint32_t index = ir_operand_at(c->f, c->v, ARG_index), rows = ir_operand_at(c->f, c->v, ARG_g);
  TRY(check_table_rows(c, index, rows));
  for (uint32_t k = 0; k < n_args(c); k++)
    if (k != index && k != rows && shape_of(c, k).i != (k < index ? shape_of(c, 0) : (Shape){0}).i)
      return bad_shape(c, "state must have the parameter's shape, what steers the update be scalars");
  for (uint32_t k = 0; k < index; k++) set(c, k, DT_F32, shape_of(c, 0));
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
    return wants_dtypes(c, k, accepts);
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
