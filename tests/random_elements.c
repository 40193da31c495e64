// Steps of the random generator: pointwise rows, and ops that move elements.
#include "ir/intern.h"
#include "ir/packed_dims.h"
#include "tests/pointwise.h"
#include "tests/random_gen.h"

#include <math.h>
#include <string.h>

// ---- steps: pointwise
bool gen_joint_is_small(Gen *g, Val a, Val b) {
  Dims x = gen_dims(g, a), y = gen_dims(g, b);
  int64_t n = 1;
  uint32_t r = x.n > y.n ? x.n : y.n;
  for (uint32_t k = 1; k <= r; k++) {
    int64_t i = k <= x.n ? ir_dim_bound(g->p, x.d[x.n - k]) : 1, j = k <= y.n ? ir_dim_bound(g->p, y.d[y.n - k]) : 1;
    n *= i > j ? i : j;
  }
  return n <= MAX_ELEMENTS;
}

// What operands are made to be before a row takes them: of magnitude `limit` at most, and `least` at least where that is
// not 0.
typedef struct {
  double limit[3], least[3];
} Range;

// The steepest slope of a row at x, without jumps; infinite at the end of its domain, where differences mean nothing.
static double slope(Op op, const double x[3]) {
  const double h = 1e-6, jump = 1e5;
  double most = 0;
  for (uint32_t k = 0; k < ir_ops[op].n_min; k++) {
    double near[3] = {x[0], x[1], x[2]}, y;
    near[k] = x[k] + h, y = pointwise_value(op, near);
    near[k] = x[k] - h, y = fabs(y - pointwise_value(op, near)) / (2 * h);
    if (!isfinite(y)) return INFINITY;
    if (y < jump) most = fmax(most, y);
  }
  return most;
}

// The largest |value| of a row for such operands, and slope, by a grid; infinite where it is not finite for some.
static double reach(Gen *g, Op op, const Val *v, const Range *r) {
  enum { STEPS = 9 };
  double most = 0, mag[3] = {0};
  uint32_t n = ir_ops[op].n_min, total = n == 1 ? STEPS : n == 2 ? STEPS * STEPS : STEPS * STEPS * STEPS;
  for (uint32_t k = 0; k < n; k++) mag[k] = fmin(gen_mag(g, v[k]), r->limit[k]);
  for (uint32_t i = 0; i < total; i++) {
    double x[3] = {0};
    for (uint32_t k = 0, at = i; k < n; k++, at /= STEPS) {
      double part = (double)(at % STEPS) / (STEPS - 1);
      x[k] = r->least[k] > 0 ? r->least[k] + part * mag[k] : (2 * part - 1) * mag[k];
    }
    double y = fmax(fabs(pointwise_value(op, x)), slope(op, x));
    most = isfinite(y) ? fmax(most, y) : INFINITY;
    if (!isfinite(y)) break;
  }
  return most;
}

// The widest range in which the row is finite and not large.
static const Range *range_of(Gen *g, Op op, const Val *v, double *mag) {
  static const Range ranges[] = {{{50, 50, 50}, {0}},           {{4, 4, 4}, {0}},         {{50, 50, 50}, {0, 0.5, 0}},
                                 {{50, 50, 50}, {0.2, 0.5, 0}}, {{4, 1, 4}, {0.3, 0, 0}}, {{0.7, 0.7, 0.7}, {0}},
                                 {{4, 4, 4}, {1.2, 1.2, 1.2}}};
  enum { N = sizeof ranges / sizeof *ranges };
  for (uint32_t k = 0; k < N; k++) {
    *mag = reach(g, op, v, &ranges[k]);
    if (*mag <= 3000) return &ranges[k];
  }
  return &ranges[N - 1];
}

// A row with n operands.
static Op pick_op(Gen *g, uint32_t n) {
  Op rows[N_OPS];
  uint32_t n_rows = 0;
  for (uint32_t op = OP_none + 1; op < N_OPS; op++)
    if (ir_ops[op].is_pointwise && ir_ops[op].n_min == n) rows[n_rows++] = (Op)op;
  return rows[gen_below(g, n_rows)];
}

static Val apply_row(Gen *g, Op op, Val *v) {
  Attr attr[MAX_POINTWISE_ATTRS];
  bool is_random = ir_ops[op].flags & RANDOM;
  uint32_t n = ir_ops[op].n_min, n_attrs = pointwise_attrs(op, g->p->next_id, attr);
  double mag = 2 * gen_mag(g, v[0]);
  const Range *r = is_random ? NULL : range_of(g, op, v, &mag);
  for (uint32_t k = 0; r && k < n; k++) {
    v[k] = gen_tame(g, v[k], r->limit[k]);
    if (r->least[k] > 0) v[k] = gen_positive(g, v[k], r->least[k]);
  }
  g->p->next_id += is_random;
  Val y = gen_emit(g, op, v, n, attr, n_attrs);
  if (ir_none(y) || !gen_is_small(g, gen_shape_at(g, y))) return (Val){0};
  return gen_keep_tame(g, y, mag);
}

Val gen_row(Gen *g, Val v) { return apply_row(g, pick_op(g, 1), &v); }

void add_unary(Gen *g) {
  Val v = gen_pick(g);
  if (gen_chance(g, 5)) gen_keep(g, gen_op1(g, OP_stop_grad, v), gen_mag(g, v));
  else apply_row(g, pick_op(g, 1), &v);
}

void add_binary(Gen *g) {
  Val a = gen_pick(g), b = gen_partner(g, a);
  if (!gen_joint_is_small(g, a, b)) return;
  bool swap = gen_chance(g, 30);
  apply_row(g, pick_op(g, 2), swap ? (Val[]){b, a} : (Val[]){a, b});
}

void add_ternary(Gen *g) {
  Val b = gen_pick(g), a = gen_partner(g, b), c = gen_partner(g, b);
  if (!gen_joint_is_small(g, a, b) || !gen_joint_is_small(g, c, b) || !gen_joint_is_small(g, a, c)) return;
  if (gen_chance(g, 60)) a = gen_op2(g, OP_gt, a, gen_number(g, 0.25));  // a condition
  apply_row(g, pick_op(g, 3), (Val[]){a, b, c});
}

void add_cast(Gen *g) {
  Val v = gen_pick_where(g, gen_any_value);
  if (ir_none(v)) return;
  DType to = gen_is_f32(g, v) ? DT_I64 : DT_F32;
  double mag = gen_is_f32(g, v) ? gen_mag(g, v) : 20;
  Attr a = ir_a_int(KEY_dtype, to);
  gen_keep(g, gen_emit(g, OP_cast, &v, 1, &a, 1), mag);
}

// ---- whole numbers and bool: inputs, buffers and tables, never of f32 that is rounded, become f32 again behind a few ops
static Val whole_leaf(Gen *g, Shape s) {
  static const DType of[] = {DT_I64, DT_I32, DT_U8, DT_BOOL};
  int64_t n = ir_shape_bound(g->p, s);
  if (ir_shape_is_const(g->p, s) && gen_chance(g, 30)) return gen_entry(g, "b", of[gen_below(g, 4)], s);
  if (gen_may_be_input(g, s) && gen_chance(g, 60)) return gen_input(g, "n", DT_I64, s);
  if (!ir_shape_is_const(g->p, s) || n == 0 || n > 64) return (Val){0};
  int64_t x[64];
  for (int64_t k = 0; k < n; k++) x[k] = (int64_t)((uint64_t)gen_below(g, 1u << 31) << gen_below(g, 40)) - (1 << 20);
  return ir_table(g->f, DT_I64, s, x, (Loc){0});
}

static Val as_dtype(Gen *g, Val v, DType t) {
  Attr a = ir_a_int(KEY_dtype, t);
  return ir_ins(g->f, v)->dtype == t ? v : gen_emit(g, OP_cast, &v, 1, &a, 1);
}

static Val whole_number(Gen *g, DType t) {
  Attr a[] = {ir_a_num(KEY_value, (double)gen_below(g, 9) - 2), ir_a_int(KEY_dtype, t)};
  return gen_emit(g, OP_const, NULL, 0, a, 2);
}

// An op that takes operands of t: a row, or one of those that are of whole numbers alone.
static Op pick_whole_op(Gen *g, DType t) {
  Op of[N_OPS];
  uint32_t n = 0;
  for (uint32_t op = OP_none + 1; op < N_OPS; op++) {
    bool takes = ir_ops[op].cls == CLASS_POINTWISE && ir_ops[op].n_min && ir_ops[op].operands[0].flags >> t & 1;
    bool computes = ir_ops[op].is_pointwise || !(ir_ops[op].operands[0].flags & F32);
    if (takes && computes && op != OP_select) of[n++] = (Op)op;
  }
  return of[gen_below(g, n)];
}

// v, or another matrix, times one that fits: its own transpose, or what is new
static Val whole_product(Gen *g, Val v) {
  static const DType of[] = {DT_I64, DT_I32, DT_U8};
  Dims d = gen_dims(g, v);
  if (d.n < 2) return v;
  if (ir_ins(g->f, v)->dtype == DT_BOOL) v = as_dtype(g, v, of[gen_below(g, 3)]);
  DType t = (DType)ir_ins(g->f, v)->dtype;
  Dims other = {.d = {d.d[d.n - 1], ir_dim(g->p, gen_size(g))}, .n = 2};
  Val b = gen_chance(g, 50) ? whole_leaf(g, gen_shape(g, &other)) : (Val){0};
  if (ir_none(b)) {
    int64_t perm[MAX_RANK];
    for (uint32_t k = 0; k < d.n; k++) perm[k] = k;
    perm[d.n - 2] = d.n - 1, perm[d.n - 1] = d.n - 2;
    Attr a = ir_a_list(KEY_perm, ir_shape_ints(g->p, perm, d.n));
    b = gen_emit(g, OP_permute, &v, 1, &a, 1);
    if (!ir_none(b) && gen_chance(g, 50)) return gen_emit(g, OP_matmul, (Val[]){b, v}, 2, NULL, 0);
  }
  return ir_none(b) ? v : gen_emit(g, OP_matmul, (Val[]){v, as_dtype(g, b, t)}, 2, NULL, 0);
}

static Attr reduced_axes(Gen *g, Op op, uint32_t rank) {
  uint32_t first = gen_below(g, rank), n = 0;
  int64_t axes[MAX_RANK];
  if (op == OP_argmax) return ir_a_int(KEY_axis, first);
  for (uint32_t k = 0; k < rank; k++)
    if (k == first || gen_chance(g, 50)) axes[n++] = k;
  return ir_a_list(KEY_axes, ir_shape_ints(g->p, axes, n));
}

static Val whole_step(Gen *g, Val v) {
  DType t = (DType)ir_ins(g->f, v)->dtype;
  Op op = pick_whole_op(g, t);
  Attr attr[MAX_POINTWISE_ATTRS];
  uint32_t n_attrs = ir_ops[op].is_pointwise ? pointwise_attrs(op, 0, attr) : 0;
  Val b = gen_chance(g, 50) ? v : whole_number(g, t), c = gen_chance(g, 50) ? v : whole_number(g, t);
  if (gen_chance(g, 12)) {
    Val y = whole_product(g, v);
    return ir_none(y) || !gen_is_small(g, ir_ins(g->f, y)->shape) ? v : y;
  }
  static const Op sums[] = {OP_sum, OP_prod, OP_amax, OP_argmax};
  if (gen_chance(g, 25)) op = sums[gen_below(g, 4)], n_attrs = 0;
  bool is_sum = ir_ops[op].cls == CLASS_REDUCE;
  if (is_sum && (!gen_dims(g, v).n || ir_shape_bound(g->p, ir_ins(g->f, v)->shape) == 0)) return v;
  if (is_sum && (op != OP_argmax || gen_chance(g, 60))) attr[n_attrs++] = reduced_axes(g, op, gen_dims(g, v).n);
  if ((op == OP_amax || op == OP_argmax) && gen_chance(g, 50)) attr[n_attrs++] = ir_a_int(KEY_least, 1);
  if ((op == OP_amax || op == OP_sum) && gen_chance(g, 30)) attr[n_attrs++] = ir_a_int(KEY_nonzero, 1);
  if (is_sum && op != OP_argmax && gen_chance(g, 30)) attr[n_attrs++] = ir_a_int(KEY_keepdim, 1);
  Val y = gen_emit(g, op, (Val[]){v, b, c}, ir_ops[op].n_min, attr, n_attrs);
  if (is_sum) return ir_none(y) ? v : y;
  if (!ir_none(y) && gen_chance(g, 20)) y = gen_emit(g, OP_select, (Val[]){y, b, v}, 3, NULL, 0);
  return ir_none(y) ? v : y;
}

void add_whole(Gen *g) {
  static const DType of[] = {DT_I64, DT_I32, DT_U8, DT_BOOL};
  Val v = whole_leaf(g, gen_shape_at(g, gen_pick(g)));
  for (uint32_t k = 2 + gen_below(g, 5); k > 0 && !ir_none(v) && !gen_is_f32(g, v); k--)
    v = gen_chance(g, 30) ? as_dtype(g, v, of[gen_below(g, 4)]) : whole_step(g, v);
  if (ir_none(v)) return;
  if (!gen_is_f32(g, v)) {
    Attr a[] = {ir_a_num(KEY_value, 17), ir_a_int(KEY_dtype, DT_I64)};
    Val by = gen_emit(g, OP_const, NULL, 0, a, 2), rest = gen_op2(g, OP_remainder, as_dtype(g, v, DT_I64), by);
    v = as_dtype(g, rest, DT_F32);
  }
  gen_keep(g, gen_op2(g, OP_mul, v, gen_number(g, 0.125)), 2);
}

void add_dim_size(Gen *g) {
  Dim d = g->n_layouts && gen_chance(g, 40) ? g->layout[0].rows : gen_dim(g);
  if (g->in_scan && g->live.i && gen_chance(g, 60)) d = g->live;
  Attr a = ir_a_dim(KEY_dim, d);
  Val v = gen_emit(g, OP_dim_size, NULL, 0, &a, 1);
  if (!ir_none(v)) gen_keep(g, gen_op2(g, OP_mul, v, gen_number(g, 0.0625)), 8);
}

// ---- steps: shape
Val gen_pick_any(Gen *g) { return gen_chance(g, 12) ? gen_pick_where(g, gen_any_value) : gen_pick(g); }

static void emit_list(Gen *g, Op op, Val v, Key key, Shape list) {
  Attr a = ir_a_list(key, list);
  gen_keep(g, gen_emit(g, op, &v, 1, &a, 1), gen_mag(g, v));
}

void add_reshape(Gen *g) {
  Val v = gen_pick_any(g);
  if (ir_none(v)) return;
  Dims d = gen_dims(g, v);
  uint32_t at = d.n ? gen_below(g, d.n) : 0;
  switch (gen_below(g, 4)) {
  case 0:  // a new axis of size 1
    if (d.n >= 6) return;
    memmove(d.d + at + 1, d.d + at, (d.n++ - at) * sizeof *d.d);
    d.d[at] = ir_dim(g->p, 1);
    break;
  case 1:  // two axes become one
    if (at + 1 >= d.n) return;
    d.d[at] = ir_dim_mul(g->p, d.d[at], d.d[at + 1]);
    memmove(d.d + at + 1, d.d + at + 2, (--d.n - at - 1) * sizeof *d.d);
    break;
  case 2: {  // one becomes two
    int64_t size = d.n && ir_dim_is_const(g->p, d.d[at]) ? ir_dim_bound(g->p, d.d[at]) : 0, part = 2;
    while (part < size && size % part) part++;
    if (part >= size || d.n >= 6) return;
    memmove(d.d + at + 1, d.d + at, (d.n++ - at) * sizeof *d.d);
    d.d[at] = ir_dim(g->p, part), d.d[at + 1] = ir_dim(g->p, size / part);
    break;
  }
  default: {
    Dim all = ir_shape_numel(g->p, gen_shape_at(g, v));
    d = (Dims){{all}, 1};
  }
  }
  emit_list(g, OP_reshape, v, KEY_shape, gen_shape(g, &d));
}

void add_permute(Gen *g) {
  Val v = gen_pick_any(g);
  if (ir_none(v)) return;
  int64_t perm[MAX_RANK];
  uint32_t n = ir_rank(g->p, gen_shape_at(g, v));
  for (uint32_t k = 0; k < n; k++) {
    uint32_t j = gen_below(g, k + 1);
    perm[k] = perm[j];
    perm[j] = k;
  }
  emit_list(g, OP_permute, v, KEY_perm, ir_shape_ints(g->p, perm, n));
}

void add_expand(Gen *g) {
  Val v = gen_pick_any(g);
  if (ir_none(v)) return;
  Dims d = gen_dims(g, v);
  for (uint32_t k = 0; k < d.n; k++)
    if (gen_is_one(g, d.d[k])) d.d[k] = gen_dim(g);
  if (d.n < 5 && gen_chance(g, 50)) {
    memmove(d.d + 1, d.d, d.n++ * sizeof *d.d);
    d.d[0] = gen_dim(g);
  }
  if (gen_is_small(g, gen_shape(g, &d))) emit_list(g, OP_expand, v, KEY_shape, gen_shape(g, &d));
}

void add_slice_or_pad(Gen *g) {
  Val v = gen_pick_any(g);
  if (ir_none(v)) return;
  Dims d = gen_dims(g, v);
  if (!d.n) return;
  uint32_t axis = gen_below(g, d.n);
  if (!ir_dim_is_const(g->p, d.d[axis])) return;
  int64_t n = ir_dim_bound(g->p, d.d[axis]), start, size;
  bool pad = gen_chance(g, 40);
  start = pad ? gen_below(g, 4) : gen_below(g, (uint32_t)n + 1);
  size = pad ? start + n + gen_below(g, 3) : gen_chance(g, 5) ? 0 : gen_below(g, (uint32_t)(n - start) + 1);
  d.d[axis] = ir_dim(g->p, size);
  if (!gen_is_small(g, gen_shape(g, &d))) return;
  Attr a[] = {ir_a_int(KEY_axis, axis), ir_a_dim(KEY_start, ir_dim(g->p, start)), ir_a_int(KEY_size, size)};
  gen_keep(g, gen_emit(g, pad ? OP_pad_axis : OP_slice, &v, 1, a, 3), gen_mag(g, v));
}

// Windows of an axis, whether or not the run sizes it: all that there are, or the first of them.
void add_unfold(Gen *g) {
  Val v = gen_pick_any(g);
  Dims d = {0};
  if (!ir_none(v)) d = gen_dims(g, v);
  if (!d.n || d.n == MAX_RANK) return;
  uint32_t axis = gen_below(g, d.n);
  int64_t most = ir_dim_bound(g->p, d.d[axis]), step = 1 + gen_below(g, 4);
  bool is_const = ir_dim_is_const(g->p, d.d[axis]);
  if (most < 1 || ir_dim_found_by_run(g->f, d.d[axis])) return;
  int64_t size = is_const ? 1 + gen_below(g, (uint32_t)(most < 9 ? most : 9)) : 1;
  Dim beyond = ir_dim_div(g->p, ir_dim_sub(g->p, d.d[axis], ir_dim(g->p, size)), ir_dim(g->p, step));
  Dim count = ir_dim_add(g->p, beyond, ir_dim(g->p, 1));
  if (is_const && gen_chance(g, 30)) count = ir_dim(g->p, gen_below(g, (uint32_t)ir_dim_bound(g->p, count) + 1));
  d.d[axis] = count, d.d[d.n++] = ir_dim(g->p, size);
  if (!gen_is_small(g, gen_shape(g, &d))) return;
  Attr a[] = {ir_a_int(KEY_axis, axis), ir_a_int(KEY_size, size), ir_a_int(KEY_step, step), ir_a_dim(KEY_count, count)};
  gen_keep(g, gen_emit(g, OP_windows, &v, 1, a, 4), gen_mag(g, v));
}

// A start that the run gives, for a slice that leaves `room` elements behind it; none: too many inputs.
Val gen_start(Gen *g, int64_t room) {
  if (room < 1 || g->f->n_inputs >= MAX_INPUTS || gen_chance(g, 40)) return (Val){0};
  return gen_input(g, "start", DT_I64, (Shape){0});
}

// Which elements of an axis of n a strided slice takes: its attributes but {count}.
uint32_t gen_slice_at(Gen *g, uint32_t axis, int64_t n, Attr *a, int64_t *count, int64_t *room) {
  int64_t step = 1 + gen_below(g, 3), from = gen_below(g, (uint32_t)n + 1), most = (n - from + step - 1) / step;
  *count = gen_chance(g, 30) ? most : gen_below(g, (uint32_t)most + 1);
  *room = n - from - (*count ? (*count - 1) * step + 1 : 0);
  uint32_t k = 0;
  a[k++] = ir_a_int(KEY_axis, axis);
  if (from) a[k++] = ir_a_dim(KEY_start, ir_dim(g->p, from));
  if (gen_chance(g, 20)) a[k++] = ir_a_dim(KEY_pitch, ir_dim(g->p, step));
  else if (step > 1) a[k++] = ir_a_int(KEY_step, step);
  if (gen_chance(g, 50)) a[k++] = ir_a_int(KEY_reverse, 1);
  return k;
}

// Of an axis that the run sizes: x[a:-b], x[-a:], x[a:b], x[a::step], from either end; x[a:-b] that may be empty.
static void slice_by_run(Gen *g, Val v, uint32_t axis, Dim n) {
  int64_t most = ir_dim_bound(g->p, n), a = gen_below(g, most < 4 ? (uint32_t)most : 4);
  int64_t b = gen_below(g, most - a < 3 ? (uint32_t)(most - a) : 3), step = 1 + gen_below(g, 3), room = 0;
  Dim from = ir_dim(g->p, a), left = ir_dim_sub(g->p, n, from), count = ir_dim_ceil_div(g->p, left, ir_dim(g->p, step));
  Dim zero = ir_dim(g->p, 0);
  switch (gen_below(g, 5)) {
  case 0: count = ir_dim_sub(g->p, left, ir_dim(g->p, b)), step = 1, room = b; break;
  case 1: from = ir_dim_sub(g->p, left, ir_dim(g->p, 1)), count = ir_dim(g->p, a + 1), step = 1; break;
  case 2: count = ir_dim(g->p, b + 1), step = 1; break;
  case 3:
    count = ir_dim_max(g->p, ir_dim_sub(g->p, left, ir_dim(g->p, b)), zero), from = ir_dim_min(g->p, from, n), step = 1;
    break;
  default: break;
  }
  Attr attr[] = {ir_a_int(KEY_axis, axis), ir_a_dim(KEY_start, from), ir_a_dim(KEY_count, count),
                 ir_a_int(KEY_step, step), ir_a_int(KEY_reverse, 1)};
  gen_keep(g, gen_emit(g, OP_slice, (Val[]){v, gen_start(g, room)}, 2, attr, 4 + gen_chance(g, 30)), gen_mag(g, v));
}

static bool has_run_axis(Gen *g, Val v) {
  Dims d = gen_dims(g, v);
  for (uint32_t k = 0; k < d.n; k++)
    if (gen_is_f32(g, v) && !ir_dim_is_const(g->p, d.d[k]) && !ir_dim_found_by_run(g->f, d.d[k])) return true;
  return false;
}

// All phases of an axis, or of two, side by side: patch merging; at times in another order, or with one of them read again.
void add_phases(Gen *g) {
  Val v = gen_pick_any(g), part[9];
  Dims d = gen_dims(g, v);
  uint32_t n = 1;
  part[0] = v;
  for (uint32_t axis = 0; axis < d.n && n < 4; axis++) {
    int64_t size = ir_dim_is_const(g->p, d.d[axis]) ? ir_dim_bound(g->p, d.d[axis]) : 1;
    int64_t step = size % 2 == 0 ? 2 : size % 3 == 0 ? 3 : 1;
    if (size < 2 || step < 2 || gen_chance(g, 30)) continue;
    for (uint32_t k = n * (uint32_t)step; k-- > 0;) {
      uint32_t of = gen_chance(g, 5) ? 0 : k % n;
      Attr a[] = {ir_a_int(KEY_axis, axis), ir_a_dim(KEY_start, ir_dim(g->p, k / n)),
                  ir_a_dim(KEY_count, ir_dim(g->p, size / step)), ir_a_int(KEY_step, step)};
      Val own = gen_emit(g, OP_slice, &part[of], 1, a, 4);
      if (ir_none(own)) return;
      part[k] = own;
    }
    n *= (uint32_t)step;
  }
  if (n == 1) return;
  if (gen_chance(g, 15)) gen_keep(g, part[gen_below(g, n)], gen_mag(g, v));
  if (gen_chance(g, 15)) part[0] = part[n - 1];
  Attr along = ir_a_int(KEY_axis, gen_below(g, d.n));
  gen_keep(g, gen_emit(g, OP_concat, part, n, &along, 1), gen_mag(g, v));
}

void add_slice_at(Gen *g) {
  Val v = gen_chance(g, 40) ? gen_pick_where(g, has_run_axis) : gen_pick_any(g);
  if (ir_none(v)) return;
  Dims d = gen_dims(g, v);
  uint32_t axis = d.n ? gen_below(g, d.n) : 0;
  for (uint32_t k = 0; k < d.n && gen_chance(g, 60) && ir_dim_is_const(g->p, d.d[axis]); k++) axis = k;
  Attr a[5];
  if (d.n && gen_chance(g, 20)) {  // all of it, backward, whatever size it has
    Attr flip[] = {ir_a_int(KEY_axis, axis), ir_a_dim(KEY_count, d.d[axis]), ir_a_int(KEY_reverse, 1)};
    gen_keep(g, gen_emit(g, OP_slice, &v, 1, flip, 3), gen_mag(g, v));
    return;
  }
  if (!d.n) return;
  if (!ir_dim_is_const(g->p, d.d[axis])) {
    if (!ir_dim_found_by_run(g->f, d.d[axis]) && ir_dim_bound(g->p, d.d[axis]) > 1) slice_by_run(g, v, axis, d.d[axis]);
    return;
  }
  int64_t count, room;
  uint32_t n = gen_slice_at(g, axis, ir_dim_bound(g->p, d.d[axis]), a, &count, &room);
  a[n++] = ir_a_dim(KEY_count, ir_dim(g->p, count));
  gen_keep(g, gen_emit(g, OP_slice, (Val[]){v, gen_start(g, room)}, 2, a, n), gen_mag(g, v));
}

void add_concat(Gen *g) {
  Val part[4] = {gen_pick_any(g)};
  if (ir_none(part[0])) return;
  Dims d = gen_dims(g, part[0]);
  if (!d.n) return;
  uint32_t axis = gen_below(g, d.n), n = 1;
  double mag = gen_mag(g, part[0]);
  while (n < 4 && (n < 2 || gen_chance(g, 40))) {
    Dims other = d;
    if (gen_chance(g, 50)) other.d[axis] = gen_dim(g);
    Shape s = gen_shape(g, &other);
    bool same = !gen_is_f32(g, part[0]) || !gen_is_small(g, s) || gen_chance(g, 30);
    part[n++] = same ? part[0] : gen_leaf(g, s);
  }
  int64_t total = 0, rest = 1;
  for (uint32_t k = 0; k < n; k++) total += ir_dim_bound(g->p, ir_dim_at(g->p, gen_shape_at(g, part[k]), axis));
  for (uint32_t k = 0; k < d.n; k++) rest *= k == axis ? 1 : ir_dim_bound(g->p, d.d[k]);
  if (total * rest > MAX_ELEMENTS) return;
  Attr a = ir_a_int(KEY_axis, axis);
  gen_keep(g, gen_emit(g, OP_concat, part, n, &a, 1), mag + 3);
}
