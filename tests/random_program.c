// The generator keeps a pool of values that may still be used, each with a bound on its magnitude. A step picks
// operands from the pool, makes what else it needs, emits, and adds the result. Names carry meaning for whoever makes
// the data of a run: an input or parameter called "pos.." holds numbers > 0; dims called "time.." are at least 1;
// "rows.." are found by the run.
#include "tests/random_program.h"
#include "tests/pointwise.h"

#include <math.h>
#include <string.h>

enum { MAX_POOL = 96, MAX_LAYOUTS = 3, MAX_OPEN = 4, MAX_ELEMENTS = 2500, MAX_INPUTS = 14 };

typedef struct {
  Val v;
  double mag;      // |x| stays around or below it
  int64_t below;   // i64: every element lies in [0, below); 0: not known
  uint32_t scope;  // its owner; 0: the function
  uint32_t depth;  // longest path to a leaf
} Item;

typedef struct {
  Val v;
  Dim batch, time, rows;
  uint32_t scope;
} Layout;

typedef struct {
  Prog *p;
  Fn *f;
  Rng r;
  Item pool[MAX_POOL];
  uint32_t n;
  Layout layout[MAX_LAYOUTS];
  uint32_t n_layouts;
  uint32_t open[MAX_OPEN], n_open;
  Dim batch, time, any;
  bool *param_used;   // by parameter: this function has read it
  uint32_t n_params;  // of earlier functions, which this one may read
  uint32_t serial;    // for names
} Gen;

// ---- numbers
uint64_t rng_next(Rng *r) {
  uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}
uint32_t rng_below(Rng *r, uint32_t n) { return (uint32_t)((rng_next(r) >> 32) * n >> 32); }
double rng_unit(Rng *r) { return (double)(rng_next(r) >> 11) * 0x1p-53; }

static uint32_t below(Gen *g, uint32_t n) { return rng_below(&g->r, n); }
static bool chance(Gen *g, uint32_t percent) { return below(g, 100) < percent; }

static int64_t random_size(Gen *g) {
  static const int64_t size[] = {1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 64};
  return chance(g, 3) ? 0 : size[below(g, sizeof size / sizeof *size)];
}

static Dim random_dim(Gen *g) {
  switch (below(g, 12)) {
  case 0:
  case 1: return g->batch;
  case 2: return g->time;
  case 3: return g->any;
  default: return ir_dim(g->p, random_size(g));
  }
}

// ---- shapes
typedef struct {
  Dim d[MAX_RANK];
  uint32_t n;
} Dims;

static Shape shape_at(const Gen *g, Val v) { return ir_ins(g->f, v)->shape; }

static Dims dims_of(const Gen *g, Val v) {
  Dims d = {.n = ir_rank(g->p, shape_at(g, v))};
  for (uint32_t k = 0; k < d.n; k++) d.d[k] = ir_dim_at(g->p, shape_at(g, v), k);
  return d;
}

static Shape shape_of(Gen *g, const Dims *d) { return ir_shape(g->p, d->d, d->n); }
static bool is_one(const Gen *g, Dim d) { return ir_dim_is_const(g->p, d) && ir_dim_bound(g->p, d) == 1; }
static bool is_small(Gen *g, Shape s) { return ir_shape_bound(g->p, s) <= MAX_ELEMENTS; }

static bool names_rows(const Gen *g, Dim d) {
  const DimInfo *in = ir_dim_info(g->p, d);
  if (in->kind == DIM_SYM) return !strncmp(ir_text(g->p, in->name), "rows", 4);
  return in->kind != DIM_CONST && (names_rows(g, in->a) || names_rows(g, in->b));
}

static bool is_plain(const Gen *g, Dim d) {  // an axis that an input may have
  return ir_dim_is_const(g->p, d) || (ir_dim_info(g->p, d)->kind == DIM_SYM && !names_rows(g, d));
}

static Shape random_shape(Gen *g) {
  for (;;) {
    Dims d = {.n = below(g, 100) < 8 ? 0 : 1 + below(g, chance(g, 20) ? 5 : 3)};
    for (uint32_t k = 0; k < d.n; k++) d.d[k] = random_dim(g);
    Shape s = shape_of(g, &d);
    if (is_small(g, s)) return s;
  }
}

// ---- pool
static uint32_t depth_of(const Gen *g, Val v) {
  uint32_t most = 0;
  Val h = ir_head(g->f, v);
  for (uint32_t k = 0; k < ir_ins(g->f, h)->n_args; k++)
    for (uint32_t j = 0; j < g->n; j++)
      if (g->pool[j].v.i == ir_arg(g->f, h, k).i && g->pool[j].depth + 1 > most) most = g->pool[j].depth + 1;
  return most;
}

static uint32_t scope_now(const Gen *g) { return g->n_open ? g->open[g->n_open - 1] : 0; }

static Val emit(Gen *g, Op op, const Val *args, uint32_t n, const Attr *attrs, uint32_t n_attrs) {
  Val v = ir_emit(g->f, op, args, n, attrs, n_attrs, ir_loc(g->p, "random.c", ++g->serial));
  if (ir_none(v)) rt_diags_clear(&g->p->diags);  // not every pick fits: the step is given up
  return v;
}

static Val keep(Gen *g, Val v, double mag) {
  if (ir_none(v)) return v;
  bool is_leaf = ir_ops[ir_ins(g->f, v)->op].cls == CLASS_LEAF && ir_ins(g->f, v)->op != OP_result;
  if (g->n == MAX_POOL) memmove(g->pool, g->pool + 1, --g->n * sizeof *g->pool);
  Item it = {.v = v, .mag = mag, .scope = is_leaf ? 0 : scope_now(g)};
  it.depth = depth_of(g, v);
  g->pool[g->n++] = it;
  return v;
}

static void forget(Gen *g, Val v) {
  for (uint32_t k = 0; k < g->n; k++)
    if (g->pool[k].v.i == v.i) {
      memmove(g->pool + k, g->pool + k + 1, (--g->n - k) * sizeof *g->pool);
      return;
    }
}

static double mag_of(const Gen *g, Val v) {
  for (uint32_t k = 0; k < g->n; k++)
    if (g->pool[k].v.i == v.i) return g->pool[k].mag;
  return 2;
}

static bool is_f32(const Gen *g, Val v) { return ir_ins(g->f, v)->dtype == DT_F32; }

// ---- leaves
static const char *fresh(Gen *g, const char *stem) { return rt_printf(g->p->mem, "%s%u", stem, ++g->serial); }

static bool may_be_input(const Gen *g, Shape s) {
  for (uint32_t k = 0; k < ir_rank(g->p, s); k++)
    if (!is_plain(g, ir_dim_at(g->p, s, k))) return false;
  return g->f->n_inputs < MAX_INPUTS;
}

static Val new_input(Gen *g, const char *stem, DType t, Shape s) {
  const char *name = fresh(g, stem);
  return ir_input(g->f, name, t, s, ir_loc(g->p, "random.c", g->serial));
}

static Val read_param(Gen *g, uint32_t param) {
  g->param_used[param] = true;
  return keep(g, ir_param(g->f, param, (Loc){0}), 2);
}

static Val new_param(Gen *g, const char *stem, Shape s) {
  const char *path = rt_printf(g->p->mem, "%s%u.%s", stem, g->p->n_params, ir_text(g->p, g->f->name));
  uint32_t k = ir_param_add(g->p, path, PARAM_WEIGHT, DT_F32, s, true, (Loc){0});
  return read_param(g, k);
}

// A parameter of an earlier function with this shape, which this one has not read yet.
static Val old_param(Gen *g, Shape s) {
  for (uint32_t k = 0; k < g->n_params; k++)
    if (!g->param_used[k] && g->p->params[k].shape.i == s.i && strncmp(ir_text(g->p, g->p->params[k].path), "pos", 3))
      return read_param(g, k);
  return (Val){0};
}

static Val made_by_nobody(Gen *g, Shape s) {
  Attr a[4];
  uint32_t n = 0;
  Op op = (Op[]){OP_full, OP_uniform, OP_normal}[below(g, 3)];
  if (op == OP_full) a[n++] = ir_a_num(KEY_value, (int)below(g, 9) * 0.5 - 2);
  if (op == OP_uniform) a[n++] = ir_a_num(KEY_lo, -1), a[n++] = ir_a_num(KEY_hi, 1.5);
  if (op == OP_normal) a[n++] = ir_a_num(KEY_mean, 0.25), a[n++] = ir_a_num(KEY_std, 0.5);
  if (op != OP_full) a[n++] = ir_a_int(KEY_id, g->p->next_id++);
  a[n++] = ir_a_list(KEY_shape, s);
  return keep(g, emit(g, op, NULL, 0, a, n), 3);
}

static Val leaf(Gen *g, Shape s) {
  bool can_input = may_be_input(g, s), can_param = ir_shape_is_const(g->p, s);
  if (ir_rank(g->p, s) == 0 && chance(g, 50)) return ir_const(g->f, (int)below(g, 13) * 0.5 - 3, (Loc){0});
  if (!can_input || chance(g, 12)) return made_by_nobody(g, s);
  if (can_param && chance(g, 40)) {
    Val old = chance(g, 50) ? old_param(g, s) : (Val){0};
    return ir_none(old) ? new_param(g, "w", s) : old;
  }
  return keep(g, new_input(g, "x", DT_F32, s), 2);
}

// ---- picking operands
static Val pick_where(Gen *g, bool (*fits)(Gen *g, Val v)) {
  Val found = {0};
  uint32_t n = 0;
  for (uint32_t k = 0; k < g->n; k++) {
    if (!fits(g, g->pool[k].v)) continue;
    n += 1 + k / 4;  // newer ones more often
    if (below(g, n) < 1 + k / 4) found = g->pool[k].v;
  }
  return found;
}

static bool any_f32(Gen *g, Val v) { return is_f32(g, v); }
static bool any_value(Gen *g, Val v) { return ir_ins(g->f, v)->dtype != DT_LAYOUT; }
static bool any_row(Gen *g, Val v) { return is_f32(g, v) && ir_rank(g->p, shape_at(g, v)) > 0; }
static bool any_matrix(Gen *g, Val v) { return is_f32(g, v) && ir_rank(g->p, shape_at(g, v)) > 1; }

static Val pick(Gen *g) {
  Val v = chance(g, 10) ? (Val){0} : pick_where(g, any_f32);
  return ir_none(v) ? leaf(g, random_shape(g)) : v;
}

static Val number(Gen *g, double x) { return ir_const(g->f, x, (Loc){0}); }
static Val op1(Gen *g, Op op, Val a) { return emit(g, op, &a, 1, NULL, 0); }
static Val op2(Gen *g, Op op, Val a, Val b) { return emit(g, op, (Val[]){a, b}, 2, NULL, 0); }

static Val tame(Gen *g, Val v, double limit) {  // |v| at most about limit
  if (mag_of(g, v) <= limit) return v;
  return chance(g, 50) ? keep(g, op1(g, OP_tanh, v), 1)
                       : keep(g, op2(g, OP_mul, v, number(g, limit / mag_of(g, v) / 2)), limit / 2);
}

static Val positive(Gen *g, Val v, double least) {
  Val size = op1(g, OP_abs, v);
  return op2(g, OP_add, size, number(g, least));
}

static Val keep_tame(Gen *g, Val v, double mag) {
  if (ir_none(v)) return v;
  keep(g, v, mag);
  return mag > 1e3 ? tame(g, v, 8) : v;
}

// An operand that broadcasts with v: of v's shape, with axes dropped or of size 1, now and then wider where v has
// size 1.
static Val partner(Gen *g, Val v) {
  if (chance(g, 25)) {
    Val o = pick_where(g, any_f32);
    if (!ir_none(o) && shape_at(g, o).i == shape_at(g, v).i) return o;
  }
  Dims d = dims_of(g, v);
  bool wide = chance(g, 15);
  for (uint32_t k = 0; k < d.n; k++) {
    if (wide && is_one(g, d.d[k])) d.d[k] = random_dim(g);
    else if (chance(g, 25)) d.d[k] = ir_dim(g->p, 1);
  }
  uint32_t drop = chance(g, 40) ? below(g, d.n + 1) : 0;
  memmove(d.d, d.d + drop, (d.n - drop) * sizeof *d.d);
  d.n -= drop;
  if (wide && d.n < 4 && chance(g, 30)) {
    memmove(d.d + 1, d.d, d.n++ * sizeof *d.d);
    d.d[0] = ir_dim(g->p, 1 + below(g, 3));
  }
  Shape s = shape_of(g, &d);
  return is_small(g, s) ? leaf(g, s) : number(g, 0.75);
}

// ---- steps: pointwise
static bool joint_is_small(Gen *g, Val a, Val b) {
  Dims x = dims_of(g, a), y = dims_of(g, b);
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

// The largest |value| of a row for such operands, by a grid; infinite where it is not finite for some.
static double reach(Gen *g, Op op, const Val *v, const Range *r) {
  enum { STEPS = 9 };
  double most = 0, mag[3] = {0};
  uint32_t n = ir_ops[op].n_min, total = n == 1 ? STEPS : n == 2 ? STEPS * STEPS : STEPS * STEPS * STEPS;
  for (uint32_t k = 0; k < n; k++) mag[k] = fmin(mag_of(g, v[k]), r->limit[k]);
  for (uint32_t i = 0; i < total; i++) {
    double x[3] = {0};
    for (uint32_t k = 0, at = i; k < n; k++, at /= STEPS) {
      double part = (double)(at % STEPS) / (STEPS - 1);
      x[k] = r->least[k] > 0 ? r->least[k] + part * mag[k] : (2 * part - 1) * mag[k];
    }
    double y = fabs(pointwise_value(op, x));
    most = isfinite(y) ? fmax(most, y) : INFINITY;
    if (!isfinite(y)) break;
  }
  return most;
}

// The widest range in which the row is finite and not large.
static const Range *range_of(Gen *g, Op op, const Val *v, double *mag) {
  static const Range ranges[] = {{{50, 50, 50}, {0}},
                                 {{4, 4, 4}, {0}},
                                 {{50, 50, 50}, {0, 0.5, 0}},
                                 {{50, 50, 50}, {0.2, 0.5, 0}},
                                 {{4, 1, 4}, {0.3, 0, 0}}};
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
  return rows[below(g, n_rows)];
}

static void apply_row(Gen *g, Op op, Val *v) {
  Attr attr[MAX_POINTWISE_ATTRS];
  bool is_random = ir_ops[op].flags & RANDOM;
  uint32_t n = ir_ops[op].n_min, n_attrs = pointwise_attrs(op, g->p->next_id, attr);
  double mag = 2 * mag_of(g, v[0]);
  const Range *r = is_random ? NULL : range_of(g, op, v, &mag);
  for (uint32_t k = 0; r && k < n; k++) {
    v[k] = tame(g, v[k], r->limit[k]);
    if (r->least[k] > 0) v[k] = positive(g, v[k], r->least[k]);
  }
  g->p->next_id += is_random;
  Val y = emit(g, op, v, n, attr, n_attrs);
  if (!ir_none(y) && is_small(g, shape_at(g, y))) keep_tame(g, y, mag);
}

static void add_unary(Gen *g) {
  Val v = pick(g);
  if (chance(g, 5)) keep(g, op1(g, OP_stop_grad, v), mag_of(g, v));
  else apply_row(g, pick_op(g, 1), &v);
}

static void add_binary(Gen *g) {
  Val a = pick(g), b = partner(g, a);
  if (!joint_is_small(g, a, b)) return;
  bool swap = chance(g, 30);
  apply_row(g, pick_op(g, 2), swap ? (Val[]){b, a} : (Val[]){a, b});
}

static void add_ternary(Gen *g) {
  Val b = pick(g), a = partner(g, b), c = partner(g, b);
  if (!joint_is_small(g, a, b) || !joint_is_small(g, c, b) || !joint_is_small(g, a, c)) return;
  if (chance(g, 60)) a = op2(g, OP_gt, a, number(g, 0.25));  // a condition
  apply_row(g, pick_op(g, 3), (Val[]){a, b, c});
}

static void add_cast(Gen *g) {
  Val v = pick_where(g, any_value);
  if (ir_none(v)) return;
  DType to = is_f32(g, v) ? DT_I64 : DT_F32;
  double mag = is_f32(g, v) ? mag_of(g, v) : 20;
  Attr a = ir_a_int(KEY_dtype, to);
  keep(g, emit(g, OP_cast, &v, 1, &a, 1), mag);
}

static void add_dim_size(Gen *g) {
  Attr a = ir_a_dim(KEY_dim, g->n_layouts && chance(g, 40) ? g->layout[0].rows : random_dim(g));
  Val v = emit(g, OP_dim_size, NULL, 0, &a, 1);
  if (!ir_none(v)) keep(g, op2(g, OP_mul, v, number(g, 0.0625)), 8);
}

// ---- steps: shape
static Val pick_any(Gen *g) { return chance(g, 12) ? pick_where(g, any_value) : pick(g); }

static void emit_list(Gen *g, Op op, Val v, Key key, Shape list) {
  Attr a = ir_a_list(key, list);
  keep(g, emit(g, op, &v, 1, &a, 1), mag_of(g, v));
}

static void add_reshape(Gen *g) {
  Val v = pick_any(g);
  if (ir_none(v)) return;
  Dims d = dims_of(g, v);
  uint32_t at = d.n ? below(g, d.n) : 0;
  switch (below(g, 4)) {
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
    Dim all = ir_shape_numel(g->p, shape_at(g, v));
    d = (Dims){{all}, 1};
  }
  }
  emit_list(g, OP_reshape, v, KEY_shape, shape_of(g, &d));
}

static void add_permute(Gen *g) {
  Val v = pick_any(g);
  if (ir_none(v)) return;
  int64_t perm[MAX_RANK];
  uint32_t n = ir_rank(g->p, shape_at(g, v));
  for (uint32_t k = 0; k < n; k++) {
    uint32_t j = below(g, k + 1);
    perm[k] = perm[j];
    perm[j] = k;
  }
  emit_list(g, OP_permute, v, KEY_perm, ir_shape_ints(g->p, perm, n));
}

static void add_expand(Gen *g) {
  Val v = pick_any(g);
  if (ir_none(v)) return;
  Dims d = dims_of(g, v);
  for (uint32_t k = 0; k < d.n; k++)
    if (is_one(g, d.d[k])) d.d[k] = random_dim(g);
  if (d.n < 5 && chance(g, 50)) {
    memmove(d.d + 1, d.d, d.n++ * sizeof *d.d);
    d.d[0] = random_dim(g);
  }
  if (is_small(g, shape_of(g, &d))) emit_list(g, OP_expand, v, KEY_shape, shape_of(g, &d));
}

static void add_slice_or_pad(Gen *g) {
  Val v = pick_any(g);
  if (ir_none(v)) return;
  Dims d = dims_of(g, v);
  if (!d.n) return;
  uint32_t axis = below(g, d.n);
  if (!ir_dim_is_const(g->p, d.d[axis])) return;
  int64_t n = ir_dim_bound(g->p, d.d[axis]), start, size;
  bool pad = chance(g, 40);
  start = pad ? below(g, 4) : below(g, (uint32_t)n + 1);
  size = pad ? start + n + below(g, 3) : chance(g, 5) ? 0 : below(g, (uint32_t)(n - start) + 1);
  d.d[axis] = ir_dim(g->p, size);
  if (!is_small(g, shape_of(g, &d))) return;
  Attr a[] = {ir_a_int(KEY_axis, axis), ir_a_int(KEY_start, start), ir_a_int(KEY_size, size)};
  keep(g, emit(g, pad ? OP_pad_axis : OP_slice, &v, 1, a, 3), mag_of(g, v));
}

static void add_concat(Gen *g) {
  Val part[4] = {pick_any(g)};
  if (ir_none(part[0])) return;
  Dims d = dims_of(g, part[0]);
  if (!d.n) return;
  uint32_t axis = below(g, d.n), n = 1;
  double mag = mag_of(g, part[0]);
  while (n < 4 && (n < 2 || chance(g, 40))) {
    Dims other = d;
    if (chance(g, 50)) other.d[axis] = random_dim(g);
    Shape s = shape_of(g, &other);
    bool same = !is_f32(g, part[0]) || !is_small(g, s) || chance(g, 30);
    part[n++] = same ? part[0] : leaf(g, s);
  }
  int64_t total = 0, rest = 1;
  for (uint32_t k = 0; k < n; k++) total += ir_dim_bound(g->p, ir_dim_at(g->p, shape_at(g, part[k]), axis));
  for (uint32_t k = 0; k < d.n; k++) rest *= k == axis ? 1 : ir_dim_bound(g->p, d.d[k]);
  if (total * rest > MAX_ELEMENTS) return;
  Attr a = ir_a_int(KEY_axis, axis);
  keep(g, emit(g, OP_concat, part, n, &a, 1), mag + 3);
}

// ---- steps: reductions and rows
static void add_reduce(Gen *g) {
  Val v = pick(g);
  int64_t axes[MAX_RANK];
  uint32_t n = 0, rank = ir_rank(g->p, shape_at(g, v));
  double count = 1;
  for (uint32_t k = 0; k < rank; k++)
    if (chance(g, 45)) {
      axes[n++] = k;
      count *= (double)ir_dim_bound(g->p, ir_dim_at(g->p, shape_at(g, v), k));
    }
  Op op = chance(g, 65) ? OP_sum : OP_amax;
  Attr a[2] = {ir_a_list(KEY_axes, ir_shape_ints(g->p, axes, n)), ir_a_int(KEY_keepdim, 1)};
  double mag = mag_of(g, v) * (op == OP_sum ? sqrt(count) + 1 : 1);
  keep_tame(g, emit(g, op, &v, 1, a, chance(g, 40) ? 2 : 1), mag);
}

static int64_t last_size(const Gen *g, Val v) {
  Shape s = shape_at(g, v);
  Dim d = ir_dim_at(g->p, s, ir_rank(g->p, s) - 1);
  return ir_dim_is_const(g->p, d) ? ir_dim_bound(g->p, d) : 0;
}

static void add_softmax(Gen *g) {
  Val v = pick_where(g, any_row);
  if (ir_none(v)) return;
  Op op = (Op[]){OP_softmax, OP_log_softmax, OP_argmax}[below(g, 3)];
  double mag = op == OP_log_softmax ? mag_of(g, v) * 2 + 4 : 1;
  if (op == OP_argmax && last_size(g, v) < 1) return;
  Attr axis = ir_a_int(KEY_axis, below(g, (int64_t)ir_rank(g->p, shape_at(g, v))));
  Val y = keep(g, emit(g, op, &v, 1, &axis, op != OP_argmax && chance(g, 50) ? 1 : 0), mag);
  if (op == OP_argmax && !ir_none(y)) g->pool[g->n - 1].below = last_size(g, v);
}

static void add_row_norm(Gen *g) {
  Val v = pick_where(g, any_row), in[3];
  if (ir_none(v) || last_size(g, v) < 2) return;
  Dim width = ir_dim(g->p, last_size(g, v));
  bool layer = chance(g, 60);
  uint32_t n = 1 + (uint32_t)below(g, layer ? 3 : 2);
  in[0] = v;
  for (uint32_t k = 1; k < n; k++) in[k] = leaf(g, ir_shape(g->p, &width, 1));
  Attr eps = ir_a_num(KEY_eps, 0.1);
  keep(g, emit(g, layer ? OP_layer_norm : OP_rms_norm, in, n, &eps, 1), 8);
}

static Dims without_last(const Gen *g, Val v) {
  Dims d = dims_of(g, v);
  d.n--;
  return d;
}

static void add_nll(Gen *g) {
  Val v = pick_where(g, any_row);
  if (ir_none(v) || last_size(g, v) < 1) return;
  Dims d = without_last(g, v);
  Shape s = shape_of(g, &d);
  Val label = may_be_input(g, s) && chance(g, 80) ? new_input(g, "label", DT_I64, s) : op1(g, OP_argmax, v);
  Attr ignore = ir_a_int(KEY_ignore, (int64_t)below(g, 3) - 1);
  Val loss = emit(g, OP_cross_entropy_rows, (Val[]){v, label}, 2, &ignore, chance(g, 30));
  if (ir_none(loss)) return;
  keep(g, loss, mag_of(g, v) * 2 + 4);
  if (chance(g, 30)) keep(g, ir_result(loss, 1), mag_of(g, v) + 4);
}

// ---- steps: products
static void add_matmul(Gen *g) {
  Val a = pick_where(g, any_matrix);
  if (ir_none(a)) return;
  bool ta = chance(g, 35), tb = chance(g, 40), first = chance(g, 70);
  Dims d = dims_of(g, a), o = d;
  Dim n = chance(g, 80) ? ir_dim(g->p, random_size(g)) : random_dim(g);
  // first: a is op(a) [m, k] and the other is [k, n]; else a is the right operand
  Dim k = first ? d.d[ta ? d.n - 2 : d.n - 1] : d.d[tb ? d.n - 1 : d.n - 2];
  Dim row = first ? k : n, col = first ? n : k;
  bool flip = first ? tb : ta;
  uint32_t lead = chance(g, 50) ? 0 : d.n - 2;
  for (uint32_t j = 0; j < lead; j++)
    if (chance(g, 30)) o.d[j] = ir_dim(g->p, 1);
  o.n = lead + 2;
  o.d[lead] = flip ? col : row, o.d[lead + 1] = flip ? row : col;
  Shape s = shape_of(g, &o);
  int64_t each =
      ir_dim_bound(g->p, n) * ir_dim_bound(g->p, first ? d.d[ta ? d.n - 1 : d.n - 2] : d.d[tb ? d.n - 2 : d.n - 1]);
  for (uint32_t j = 0; j + 2 < d.n; j++) each *= ir_dim_bound(g->p, d.d[j]);
  if (!is_small(g, s) || each > MAX_ELEMENTS) return;
  Val b = leaf(g, s), arg[2] = {first ? a : b, first ? b : a};
  Attr attr[2];
  uint32_t n_attrs = 0;
  if (ta) attr[n_attrs++] = ir_a_int(KEY_ta, 1);
  if (tb) attr[n_attrs++] = ir_a_int(KEY_tb, 1);
  keep_tame(g, emit(g, OP_matmul, arg, 2, attr, n_attrs), mag_of(g, a) * 2 * sqrt(1 + (double)ir_dim_bound(g->p, k)));
}

// What nobody but a product reads.
static Val before_product(Gen *g, Val x) {
  Attr drop[] = {ir_a_num(KEY_p, 0.25), ir_a_int(KEY_id, g->p->next_id)};
  switch (below(g, 6)) {
  case 0: return op2(g, OP_mul, x, number(g, 0.5));
  case 1: return op1(g, OP_tanh, op1(g, OP_neg, x));
  case 2: g->p->next_id++; return emit(g, OP_dropout, &x, 1, drop, 2);
  default: return x;
  }
}

static Val linear(Gen *g, Val x, int64_t n, bool bias) {
  Shape s = shape_at(g, x);
  Dim k = ir_dim_at(g->p, s, ir_rank(g->p, s) - 1);
  Dims w = {{ir_dim(g->p, n), k}, 2}, b = {{ir_dim(g->p, n)}, 1};
  if (!is_small(g, shape_of(g, &w)) || ir_shape_bound(g->p, s) / (ir_dim_bound(g->p, k) + 1) * n > MAX_ELEMENTS)
    return (Val){0};
  Val arg[3] = {before_product(g, x), leaf(g, shape_of(g, &w))};
  if (bias) arg[2] = leaf(g, shape_of(g, &b));
  Val y = emit(g, OP_linear, arg, bias ? 3 : 2, NULL, 0);
  return keep_tame(g, y, mag_of(g, x) * 2 * sqrt(1 + (double)ir_dim_bound(g->p, k)) + 2);
}

static void add_linear(Gen *g) {
  Val x = pick_where(g, any_row);
  if (ir_none(x)) return;
  int64_t n = random_size(g);
  linear(g, x, n, chance(g, 60));
}

static bool any_table(Gen *g, Val v) {
  Dims d = dims_of(g, v);
  return is_f32(g, v) && d.n == 2 && ir_dim_is_const(g->p, d.d[0]) && ir_dim_bound(g->p, d.d[0]) > 0;
}

static Val index_below(Gen *g, int64_t limit) {
  for (uint32_t k = 0; k < g->n; k++)
    if (g->pool[k].below && g->pool[k].below <= limit && chance(g, 50)) return g->pool[k].v;
  for (int tries = 0; tries < 8; tries++) {
    Shape s = random_shape(g);
    if (ir_rank(g->p, s) < 4 && ir_shape_bound(g->p, s) <= 64 && may_be_input(g, s))
      return new_input(g, "index", DT_I64, s);
  }
  return (Val){0};
}

static void add_embedding(Gen *g) {
  Val w = pick_where(g, any_table);
  if (ir_none(w)) w = leaf(g, ir_shape_ints(g->p, (int64_t[]){1 + below(g, 20), random_size(g)}, 2));
  if (!any_table(g, w)) return;
  Dims d = dims_of(g, w);
  Val index = index_below(g, ir_dim_bound(g->p, d.d[0]));
  if (ir_none(index)) return;
  if (ir_shape_bound(g->p, shape_at(g, index)) * ir_dim_bound(g->p, d.d[1]) > MAX_ELEMENTS) return;
  keep(g, op2(g, OP_embedding, w, index), mag_of(g, w));
}

// ---- steps: packed sequences
static Layout *add_layout(Gen *g, Layout l) {
  if (ir_none(l.v)) return NULL;
  g->layout[g->n_layouts] = l;
  return &g->layout[g->n_layouts++];
}

static Layout *dense_layout(Gen *g) {
  Layout l = {.batch = chance(g, 70) ? g->batch : ir_dim(g->p, 1 + below(g, 6)),
              .time = chance(g, 70) ? g->time : ir_dim(g->p, 1 + below(g, 9)),
              .scope = scope_now(g)};
  Attr a[2] = {ir_a_dim(KEY_dim, l.batch), ir_a_dim(KEY_time, l.time)};
  l.rows = ir_dim_mul(g->p, l.batch, l.time);
  l.v = emit(g, OP_dense_layout, NULL, 0, a, 2);
  return add_layout(g, l);
}

static Layout *new_layout(Gen *g) {
  if (g->n_layouts == MAX_LAYOUTS) return NULL;
  if (chance(g, 15)) return dense_layout(g);
  bool fixed = chance(g, 25);
  Layout l = {.batch = chance(g, 70) && !fixed ? g->batch : ir_dim(g->p, 1 + below(g, 6)),
              .time = chance(g, 70) ? g->time : ir_dim(g->p, 1 + below(g, 9)),
              .scope = scope_now(g)};
  Attr a[4];
  uint32_t n = 0;
  int64_t batch = ir_dim_bound(g->p, l.batch), time = ir_dim_bound(g->p, l.time), length[8], sum = 0;
  a[n++] = ir_a_dim(KEY_time, l.time);
  if (fixed) {
    l.time = a[0].u.dim = ir_dim(g->p, time);
    bool empty = chance(g, 30);
    for (int64_t k = 0; k < batch; k++) sum += length[k] = !empty + below(g, (uint32_t)(time + empty));
    if (empty) a[n++] = ir_a_int(KEY_empty, 1);
    l.rows = ir_dim(g->p, sum);
    a[n++] = ir_a_list(KEY_lengths, ir_shape_ints(g->p, length, (uint32_t)batch));
  } else {
    l.rows = ir_dim_sym(g->p, fresh(g, "rows"), batch * time);
    if (chance(g, 15)) a[n++] = ir_a_int(KEY_sorted, 1);
    if (chance(g, 30)) a[n++] = ir_a_int(KEY_empty, 1);
  }
  a[n++] = ir_a_dim(KEY_rows, l.rows);
  Val lengths = fixed ? (Val){0} : new_input(g, "len", DT_I64, ir_shape(g->p, &l.batch, 1));
  l.v = emit(g, OP_packed_layout, &lengths, fixed ? 0 : 1, a, n);
  return add_layout(g, l);
}

static Layout *some_layout(Gen *g) {
  if (!g->n_layouts || chance(g, 25)) {
    Layout *l = new_layout(g);
    if (l) return l;
  }
  return g->n_layouts ? &g->layout[below(g, g->n_layouts)] : NULL;
}

static Val pack(Gen *g, const Layout *l) {
  bool time_major = chance(g, 35);
  Dims d = {.n = 2 + below(g, 2)};
  d.d[time_major] = l->batch, d.d[!time_major] = l->time;
  Val x = {0};
  for (uint32_t k = 0; k < g->n; k++) {
    Dims o = dims_of(g, g->pool[k].v);
    if (ir_none(x) && o.n >= 2 && o.d[0].i == d.d[0].i && o.d[1].i == d.d[1].i && chance(g, 50)) x = g->pool[k].v;
  }
  if (ir_none(x)) {
    if (d.n == 3) d.d[2] = ir_dim(g->p, 1 + below(g, 9));
    if (!is_small(g, shape_of(g, &d)) || g->f->n_inputs >= MAX_INPUTS) return (Val){0};
    x = leaf(g, shape_of(g, &d));
  }
  Attr a = ir_a_int(KEY_time_major, 1);
  return keep(g, emit(g, OP_pack_padded, (Val[]){x, l->v}, 2, &a, time_major), mag_of(g, x));
}

static Val rows_of(Gen *g, const Layout *l, bool matrix) {
  for (uint32_t k = g->n; k-- > 0;) {
    Dims d = dims_of(g, g->pool[k].v);
    bool fits = d.n && d.d[0].i == l->rows.i && (!matrix || (d.n == 2 && is_f32(g, g->pool[k].v)));
    if (fits && chance(g, 60)) return g->pool[k].v;
  }
  return pack(g, l);
}

// A value of whole sequences, [batch, ..].
static Val per_sequence(Gen *g, const Layout *l) {
  for (uint32_t k = g->n; k-- > 0;) {
    Dims d = dims_of(g, g->pool[k].v);
    if (d.n && d.d[0].i == l->batch.i && chance(g, 40)) return g->pool[k].v;
  }
  Dims d = {{l->batch, ir_dim(g->p, 1 + below(g, 20))}, 1 + below(g, 2)};
  return is_small(g, shape_of(g, &d)) && g->f->n_inputs < MAX_INPUTS ? leaf(g, shape_of(g, &d)) : (Val){0};
}

static void spread(Gen *g, const Layout *l) {
  Val x = per_sequence(g, l);
  if (ir_none(x)) return;
  int64_t batch = ir_dim_bound(g->p, l->batch), each = ir_shape_bound(g->p, shape_at(g, x)) / (batch ? batch : 1);
  if (each * ir_dim_bound(g->p, l->rows) <= 2 * MAX_ELEMENTS) keep(g, op2(g, OP_seq_broadcast, x, l->v), mag_of(g, x));
}

// Totals and rows over the steps of sequences. Empty ones have infinite extremes, which are cut.
static void along_steps(Gen *g, const Layout *l) {
  static const Op moves[] = {OP_seq_reverse, OP_seq_from_list, OP_seq_to_list, OP_seq_select};
  if (chance(g, 20)) {
    spread(g, l);
    return;
  }
  Val x = rows_of(g, l, false);
  if (ir_none(x)) return;
  double mag = mag_of(g, x);
  uint32_t kind = below(g, 10);
  Attr first = ir_a_int(KEY_first, 1);
  if (kind < 4) {
    Op op = moves[kind];
    keep(g, emit(g, op, (Val[]){x, l->v}, 2, &first, op == OP_seq_select && chance(g, 50) ? 1 : 0), mag);
  } else if (!is_f32(g, x)) {
    return;
  } else if (kind < 6) {
    keep_tame(g, op2(g, OP_seq_sum, x, l->v), mag * (sqrt((double)ir_dim_bound(g->p, l->time)) + 1));
  } else if (kind < 8) {
    Val top = op2(g, kind == 6 ? OP_seq_max : OP_seq_min, x, l->v);
    if (ir_none(top)) return;
    Val most = number(g, 2 * mag + 1), least = number(g, -2 * mag - 1);
    Val below_most = op2(g, OP_min, top, most);
    keep(g, op2(g, OP_max, below_most, least), 2 * mag + 1);
  } else {
    keep(g, op2(g, OP_seq_softmax, x, l->v), 1);
  }
}

static void add_pack(Gen *g) {
  Layout *l = some_layout(g);
  if (!l) return;
  if (chance(g, 60)) along_steps(g, l);
  else pack(g, l);
}

static void add_pad(Gen *g) {
  Layout *l = some_layout(g);
  Val x = l ? rows_of(g, l, false) : (Val){0};
  if (ir_none(x)) return;
  int64_t rows = ir_dim_bound(g->p, l->rows), each = ir_shape_bound(g->p, shape_at(g, x)) / (rows ? rows : 1);
  if (each * ir_dim_bound(g->p, l->batch) * ir_dim_bound(g->p, l->time) > 2 * MAX_ELEMENTS) return;
  Attr a[2] = {ir_a_num(KEY_value, chance(g, 50) ? 0 : -1.5), ir_a_int(KEY_time_major, 1)};
  keep(g, emit(g, OP_unpack_padded, (Val[]){x, l->v}, 2, a, chance(g, 35) ? 2 : 1), mag_of(g, x) + 1.5);
}

static void run_cell(Gen *g, const Layout *l, Val x, const char *cell, int64_t gates, int64_t hidden, bool reverse) {
  bool lstm = gates == 4, projected = lstm && chance(g, 30), own_input = false;
  Dim inputs = ir_dim_at(g->p, shape_at(g, x), 1);
  Dims w_ih = {{ir_dim(g->p, gates * hidden), inputs}, 2};
  if (gates != 3 && ir_dim_is_const(g->p, inputs) && ir_dim_bound(g->p, inputs) > 0)
    own_input = is_small(g, shape_of(g, &w_ih)) && chance(g, 40);
  Val xg = own_input ? x : linear(g, x, gates * hidden, chance(g, 50));
  if (ir_none(xg)) return;
  Dim state = ir_dim(g->p, projected ? 1 + below(g, 18) : hidden);
  Dims w = {{ir_dim(g->p, gates * hidden), state}, 2}, s = {{l->batch, state}, 2};
  Dims cells = {{l->batch, ir_dim(g->p, hidden)}, 2}, proj = {{state, cells.d[1]}, 2};
  Val wide = leaf(g, shape_of(g, &w));
  enum { B_HH = 3, H0, C0, W_IH, W_HR, N_ARGS };
  Val arg[N_ARGS] = {xg, l->v, op2(g, OP_mul, wide, number(g, hidden > 8 ? 0.25 : 0.5))};
  Attr a[2] = {ir_a_str(KEY_cell, ir_str(g->p, cell)), ir_a_int(KEY_reverse, 1)};
  if (chance(g, 50)) arg[B_HH] = leaf(g, ir_shape(g->p, w.d, 1));
  if (chance(g, 40)) arg[H0] = leaf(g, shape_of(g, &s));
  if (lstm && chance(g, 40)) arg[C0] = leaf(g, shape_of(g, &cells));
  if (own_input) {
    Val from = leaf(g, shape_of(g, &w_ih));
    arg[W_IH] = op2(g, OP_mul, from, number(g, 0.25));
  }
  if (projected) {
    Val down = leaf(g, shape_of(g, &proj));
    arg[W_HR] = op2(g, OP_mul, down, number(g, hidden > 8 ? 0.25 : 0.5));
  }
  Val y = emit(g, OP_rnn_seq, arg, N_ARGS, a, reverse ? 2 : 1);
  if (ir_none(y)) return;
  keep(g, y, projected ? 5 : 2);
  keep(g, ir_result(y, 1), projected ? 5 : 2);
  if (lstm) keep(g, ir_result(y, 2), 3);
}

static void add_rnn(Gen *g) {
  static const struct {
    const char *name;
    int64_t gates;
  } cell[] = {{"lstm", 4}, {"gru", 3}, {"tanh", 1}, {"relu", 1}};
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17};
  Layout *l = some_layout(g);
  Val x = l ? rows_of(g, l, true) : (Val){0};
  if (ir_none(x) || ir_rank(g->p, shape_at(g, x)) != 2) return;
  uint32_t c = below(g, 4);
  int64_t hidden = sizes[below(g, sizeof sizes / sizeof *sizes)];
  bool reverse = chance(g, 40);
  run_cell(g, l, x, cell[c].name, cell[c].gates, hidden, reverse);
  if (chance(g, 35)) run_cell(g, l, x, cell[c].name, cell[c].gates, hidden, !reverse);
}

// ---- steps: scopes
static void add_scope(Gen *g) {
  if (g->n_open == MAX_OPEN) return;
  const char *name = fresh(g, "s");
  uint32_t k = ir_scope_open(g->f, scope_now(g), name, (Loc){0});
  Attr a[2] = {ir_a_int(KEY_scope, k), ir_a_str(KEY_name, ir_str(g->p, name))};
  emit(g, OP_scope_begin, NULL, 0, a, 2);
  g->open[g->n_open++] = k;
  g->f->cur_scope = k;
}

static void close_scope(Gen *g) {
  if (!g->n_open) return;
  uint32_t k = g->open[g->n_open - 1], outer = g->n_open > 1 ? g->open[g->n_open - 2] : 0;
  for (uint32_t i = 0; i < g->n;) {
    Item *it = &g->pool[i];
    if (it->scope != k) {
      i++;
      continue;
    }
    if (!chance(g, 60)) {
      forget(g, it->v);
      continue;
    }
    it->scope = chance(g, 15) ? 0 : outer;
    Attr a = ir_a_int(KEY_scope, chance(g, 10) ? -1 : (int64_t)it->scope);
    if (a.u.i < 0) it->scope = 0;
    emit(g, OP_move, &it->v, 1, &a, 1);
    i++;
  }
  for (uint32_t i = 0; i < g->n_layouts;)
    if (g->layout[i].scope == k) g->layout[i] = g->layout[--g->n_layouts];
    else i++;
  Attr a = ir_a_int(KEY_scope, k);
  emit(g, OP_scope_end, NULL, 0, &a, 1);
  g->n_open--;
  g->f->cur_scope = outer;
}

static void add_dispose(Gen *g) {
  Val v = pick_where(g, any_value);
  if (ir_none(v) || ir_ops[ir_ins(g->f, ir_head(g->f, v))->op].cls == CLASS_LEAF) return;
  emit(g, OP_dispose, &v, 1, NULL, 0);
  forget(g, v);
}

// ---- steps: gradients
static Val scalar_of(Gen *g, Val v) {
  int64_t axes[MAX_RANK];
  uint32_t n = ir_rank(g->p, shape_at(g, v));
  if (!n) return v;
  if (chance(g, 60)) v = op2(g, OP_mul, v, chance(g, 50) ? v : number(g, 0.5));
  for (uint32_t k = 0; k < n; k++) axes[k] = k;
  Attr a = ir_a_list(KEY_axes, ir_shape_ints(g->p, axes, n));
  return emit(g, OP_sum, &v, 1, &a, 1);
}

static bool any_deep(Gen *g, Val v) {
  if (!is_f32(g, v)) return false;
  for (uint32_t k = 0; k < g->n; k++)
    if (g->pool[k].v.i == v.i) return g->pool[k].depth > 1;
  return false;
}

static bool any_gradient(Gen *g, Val v) { return ir_ins(g->f, v)->op == OP_grad_of; }

static void gradients_of(Gen *g, Val v) {
  Val loss = ir_none(v) ? v : scalar_of(g, v);
  if (ir_none(loss)) return;
  GradReach reach = {0};
  ir_grad_reach(g->f, loss, &reach);
  uint32_t n = g->n, made = 0;
  Val target[MAX_POOL];
  for (uint32_t k = 0; k < n; k++) target[k] = g->pool[k].v;
  for (uint32_t k = 0; k < n && made < 5; k++) {
    if (!is_f32(g, target[k]) || !reach.has[target[k].i] || target[k].i == loss.i || !chance(g, 50)) continue;
    if (ir_ins(g->f, ir_head(g->f, target[k]))->n_res > 1) continue;  // the loss may depend on another result
    keep(g, op2(g, OP_grad_of, loss, target[k]), 50);
    made++;
  }
}

// And of a gradient, right behind it or many steps later.
static void add_grads(Gen *g) {
  gradients_of(g, pick_where(g, chance(g, 25) ? any_gradient : any_deep));
  if (chance(g, 40)) gradients_of(g, pick_where(g, any_gradient));
}

// ---- steps: writes. After one, the old version must not be read.
static bool is_param(Gen *g, Val v) { return ir_ins(g->f, v)->op == OP_param && is_f32(g, v); }

static Val root_of(const Gen *g, Val v) {
  while (ir_is_alias((Op)ir_ins(g->f, v)->op)) v = ir_arg(g->f, v, 0);
  return v;
}

static Val replaced(Gen *g, Val old, Val next) {
  if (ir_none(next)) return next;
  for (uint32_t k = g->n; k-- > 0;)
    if (root_of(g, g->pool[k].v).i == old.i) forget(g, g->pool[k].v);
  return keep(g, next, 3);
}

static void add_assign(Gen *g) {
  Val w = pick_where(g, is_param);
  if (ir_none(w)) return;
  Val src = chance(g, 50) ? op2(g, OP_add, w, leaf(g, shape_at(g, w))) : leaf(g, shape_at(g, w));
  if (chance(g, 30)) src = number(g, 0.5);
  replaced(g, w, op2(g, OP_assign, w, src));
}

static void add_clone(Gen *g) {
  Val v = pick_any(g);
  if (!ir_none(v)) keep(g, op1(g, OP_clone, v), mag_of(g, v));
}

static bool may_be_written(Gen *g, Val v) {
  Val root = root_of(g, v);
  return is_f32(g, v) && ir_ins(g->f, root)->op != OP_const && ir_ins(g->f, root)->op != OP_dim_size;
}

// y op= x, and copies over a view.
static void add_write(Gen *g) {
  Val v = pick_where(g, may_be_written), x = {0};
  if (ir_none(v)) return;
  switch (below(g, 4)) {
  case 0: x = op1(g, OP_tanh, v); break;
  case 1: x = op2(g, OP_add, v, leaf(g, shape_at(g, v))); break;
  case 2: x = leaf(g, shape_at(g, v)); break;
  default:
    for (uint32_t k = 0; k < g->n; k++)
      if (is_f32(g, g->pool[k].v) && g->pool[k].v.i != v.i && shape_at(g, g->pool[k].v).i == shape_at(g, v).i)
        x = g->pool[k].v;
  }
  if (ir_none(x) || shape_at(g, x).i != shape_at(g, v).i) return;
  bool no_grad = chance(g, 30) || ir_ins(g->f, root_of(g, v))->op == OP_param;
  Attr a = ir_a_int(KEY_no_grad, 1);
  emit(g, OP_write, (Val[]){v, x}, 2, &a, no_grad);
}

static void add_slice_assign(Gen *g) {
  Val v = pick_where(g, any_row);
  if (ir_none(v)) return;
  Dims d = dims_of(g, v);
  uint32_t axis = below(g, d.n);
  if (!ir_dim_is_const(g->p, d.d[axis])) return;
  int64_t n = ir_dim_bound(g->p, d.d[axis]), start = below(g, (uint32_t)n + 1),
          size = below(g, (uint32_t)(n - start) + 1);
  d.d[axis] = ir_dim(g->p, size);
  Attr a[] = {ir_a_int(KEY_axis, axis), ir_a_int(KEY_start, start)};
  keep(g, emit(g, OP_slice_assign, (Val[]){v, leaf(g, shape_of(g, &d))}, 2, a, 2), mag_of(g, v) + 2);
}

static void add_index_assign(Gen *g) {
  Val v = pick_where(g, any_row);
  if (ir_none(v)) return;
  Dims d = dims_of(g, v);
  if (!ir_dim_is_const(g->p, d.d[0]) || ir_dim_bound(g->p, d.d[0]) < 1 || g->f->n_inputs >= MAX_INPUTS) return;
  Dim n = chance(g, 30) ? g->any : ir_dim(g->p, below(g, 6));
  d.d[0] = n;
  if (!is_small(g, shape_of(g, &d))) return;
  Val index = new_input(g, "index", DT_I64, ir_shape(g->p, &n, 1)), rows = leaf(g, shape_of(g, &d));
  keep(g, emit(g, OP_index_assign, (Val[]){v, index, rows}, 3, NULL, 0), mag_of(g, v) + 2);
}

static Val gradient_for(Gen *g, Val w) {
  for (uint32_t k = g->n; k-- > 0;) {
    Val v = g->pool[k].v;
    if (v.i != w.i && is_f32(g, v) && shape_at(g, v).i == shape_at(g, w).i && ir_ins(g->f, v)->op != OP_param) return v;
  }
  return leaf(g, shape_at(g, w));
}

static void add_optimizer(Gen *g) {
  Val w = pick_where(g, is_param);
  if (ir_none(w)) w = new_param(g, "w", ir_shape_ints(g->p, (int64_t[]){random_size(g), random_size(g)}, 2));
  Shape s = shape_at(g, w);
  Val d = gradient_for(g, w), rate = chance(g, 50) ? number(g, 0.125) : leaf(g, (Shape){0});
  if (d.i == w.i) return;
  Attr a[5];
  uint32_t n = 0;
  Val decay = chance(g, 30) ? leaf(g, (Shape){0}) : number(g, chance(g, 50) ? 0.125 : 0);
  switch (below(g, 3)) {
  case 0: {
    Val m = new_param(g, "m", s), q = new_param(g, "pos", s);
    forget(g, m), forget(g, q);
    a[n++] = ir_a_num(KEY_beta1, 0.9), a[n++] = ir_a_num(KEY_beta2, 0.99), a[n++] = ir_a_num(KEY_eps, 1e-3);
    if (chance(g, 50)) a[n++] = ir_a_int(KEY_decoupled, 1);
    replaced(g, w, emit(g, OP_adamw, (Val[]){w, m, q, d, number(g, 1 + below(g, 5)), rate, decay}, 7, a, n));
    break;
  }
  case 1: replaced(g, w, emit(g, OP_sgd, (Val[]){w, d, rate, decay}, 4, a, n)); break;
  default: {
    Val m = new_param(g, "m", s);
    forget(g, m);
    Val momentum = chance(g, 30) ? leaf(g, (Shape){0}) : number(g, 0.75);
    if (chance(g, 30)) a[n++] = ir_a_num(KEY_dampening, 0.25);
    else if (chance(g, 50)) a[n++] = ir_a_int(KEY_nesterov, 1);
    Val step = number(g, 1 + below(g, 3));
    replaced(g, w, emit(g, OP_sgd_momentum, (Val[]){w, m, d, step, rate, decay, momentum}, 7, a, n));
  }
  }
}

static void add_norm(Gen *g) {
  Val arg[4];
  uint32_t n = 1 + below(g, 4);
  double mag = 1;
  for (uint32_t k = 0; k < n; k++) arg[k] = pick(g), mag += mag_of(g, arg[k]) * 16;
  keep_tame(g, emit(g, OP_global_norm, arg, n, NULL, 0), mag);
}

// ---- a function
typedef struct {
  void (*add)(Gen *g);
  uint32_t weight;
} Step;
static const Step steps[] = {{add_unary, 16},       {add_binary, 22},      {add_ternary, 4},     {add_cast, 2},
                             {add_dim_size, 1},     {add_reshape, 7},      {add_permute, 6},     {add_expand, 4},
                             {add_slice_or_pad, 7}, {add_concat, 5},       {add_reduce, 11},     {add_softmax, 5},
                             {add_row_norm, 5},     {add_nll, 4},          {add_matmul, 7},      {add_linear, 5},
                             {add_embedding, 4},    {add_pack, 4},         {add_pad, 3},         {add_rnn, 4},
                             {add_scope, 4},        {close_scope, 4},      {add_dispose, 2},     {add_grads, 9},
                             {add_assign, 3},       {add_optimizer, 4},    {add_norm, 2},        {add_clone, 3},
                             {add_write, 5},        {add_slice_assign, 2}, {add_index_assign, 2}};
enum { N_STEPS = sizeof steps / sizeof *steps };

static void add_step(Gen *g) {
  uint32_t total = 0, k = 0;
  for (uint32_t i = 0; i < N_STEPS; i++) total += steps[i].weight;
  uint32_t at = below(g, total);
  while (at >= steps[k].weight) at -= steps[k++].weight;
  steps[k].add(g);
}

static void add_outputs(Gen *g) {
  uint32_t n = 1 + below(g, 5);
  for (uint32_t k = 0; k < n; k++) {
    Val v = k == 0 && g->n ? g->pool[g->n - 1].v : pick_where(g, any_value);
    if (ir_none(v)) v = pick(g);
    char name[16];
    snprintf(name, sizeof name, "y%u", k);
    Attr a[2] = {ir_a_str(KEY_name, ir_str(g->p, name)), ir_a_int(KEY_index, g->f->n_outputs)};
    emit(g, OP_output, &v, 1, a, 2);
  }
}

static void add_function(Gen *g, uint32_t number) {
  char name[16];
  snprintf(name, sizeof name, "f%u", number);
  g->f = ir_fn_new(g->p, name, (Loc){0});
  g->n = g->n_layouts = g->n_open = 0;
  g->n_params = g->p->n_params;
  g->param_used = rt_alloc(g->p->mem, g->n_params + 256);
  if (chance(g, 80)) leaf(g, random_shape(g));
  uint32_t n = 2 + below(g, chance(g, 25) ? 28 : 11);
  for (uint32_t k = 0; k < n && g->p->n_params < g->n_params + 200; k++) add_step(g);
  while (g->n_open) close_scope(g);
  add_outputs(g);
}

Prog *random_program(RtArena *mem, uint64_t seed, uint32_t n_functions) {
  Gen g = {.p = ir_prog_new(mem, "random"), .r = {seed}};
  g.batch = ir_dim_sym(g.p, "batch", (int64_t[]){1, 3, 5, 8, 17}[below(&g, 5)]);
  g.time = ir_dim_sym(g.p, "time", (int64_t[]){1, 4, 7, 9}[below(&g, 4)]);
  g.any = ir_dim_sym(g.p, "any", (int64_t[]){2, 6, 16, 33}[below(&g, 4)]);
  for (uint32_t k = 0; k < n_functions; k++) add_function(&g, k);
  return g.p;
}
