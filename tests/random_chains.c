// Steps of the random generator: chains of pointwise ops whose selects hang on comparisons, with what reads a sign or a class
// behind them, and writes through views of views that other views show.
#include "ir/build.h"
#include "ir/intern.h"
#include "ir/packed_dims.h"
#include "tests/random_gen.h"

#include <math.h>
#include <string.h>

// ---- chains
enum { MAX_LINKS = 9 };
typedef struct {
  Val v[MAX_LINKS];  // each made of those before it
  uint32_t n;
  double mag;
} Chain;

static const double thresholds[] = {0, 0, 0, -0.0, 1, -1, 0.5, -0.5, 0x1p-140};
static const double reaches[] = {0, 0, 0.5, 1, 0x1p-140};
#define ANY_OF(g, list) ((list)[gen_below((g), sizeof(list) / sizeof *(list))])

static Val last_of(const Chain *c) { return c->v[c->n - 1]; }
static Val any_of(Gen *g, const Chain *c) { return c->v[gen_below(g, c->n)]; }
static Val earlier(Gen *g, const Chain *c) { return c->v[c->n > 1 ? gen_below(g, c->n - 1) : 0]; }

// A value that the last one broadcasts with: a number, one of rank 0 that the run gives, one for each element.
static Val bound_for(Gen *g, const Chain *c) {
  if (gen_chance(g, 10)) return gen_leaf(g, (Shape){0});
  if (gen_chance(g, 15)) {
    Val v = gen_partner(g, last_of(c));
    if (gen_joint_is_small(g, v, last_of(c))) return v;
  }
  return gen_number(g, ANY_OF(g, thresholds));
}

static Val what_is_compared(Gen *g, Val v) {
  switch (gen_below(g, 10)) {
  case 0:
  case 1:
  case 2:
  case 3: return gen_op1(g, OP_abs, v);
  case 4: return gen_op1(g, OP_neg, v);
  case 5: return gen_op1(g, OP_neg, gen_op1(g, OP_abs, v));
  case 6: return gen_op2(g, OP_copysign, v, gen_number(g, gen_chance(g, 50) ? 1 : -1));
  case 7: return gen_op2(g, gen_chance(g, 50) ? OP_max : OP_min, v, gen_number(g, 0.5));
  default: return v;
  }
}

static Val comparison(Gen *g, Val a, Val b) {
  static const Op ops[] = {OP_gt, OP_ge, OP_lt, OP_le, OP_eq, OP_ne};
  Op op = ANY_OF(g, ops);
  return gen_chance(g, 30) ? gen_op2(g, op, b, a) : gen_op2(g, op, a, b);
}

// where(|x| > bound, x, 0) and the like; now and then on two comparisons
static Val selected(Gen *g, Chain *c) {
  Val x = gen_chance(g, 75) ? last_of(c) : any_of(g, c), size = what_is_compared(g, x), bound = bound_for(g, c);
  Val mask = comparison(g, size, bound), other = gen_number(g, ANY_OF(g, thresholds));
  if (gen_chance(g, 15))
    mask =
        gen_op2(g, gen_chance(g, 50) ? OP_mul : OP_max, mask, comparison(g, x, gen_number(g, ANY_OF(g, thresholds))));
  if (gen_chance(g, 10)) return gen_op2(g, OP_mul, mask, x);
  switch (gen_below(g, 6)) {
  case 0: other = bound; break;
  case 1: other = earlier(g, c); break;
  case 2: x = size; break;
  default: break;
  }
  return gen_emit(g, OP_select, gen_chance(g, 50) ? (Val[]){mask, x, other} : (Val[]){mask, other, x}, 3, NULL, 0);
}

// Ops that are a comparison and a select by themselves
static Val shrunk(Gen *g, Chain *c) {
  Val x = last_of(c);
  double reach = ANY_OF(g, reaches), from = ANY_OF(g, thresholds);
  Attr a[2] = {ir_a_num(KEY_lambd, reach)};
  switch (gen_below(g, 6)) {
  case 0:
  case 1: return gen_emit(g, OP_hardshrink, &x, 1, a, 1);
  case 2: return gen_emit(g, OP_softshrink, &x, 1, a, 1);
  case 3:
    a[0] = ir_a_num(KEY_threshold, from), a[1] = ir_a_num(KEY_value, ANY_OF(g, thresholds));
    return gen_emit(g, OP_threshold, &x, 1, a, 2);
  case 4:
    a[0] = ir_a_num(KEY_lo, gen_chance(g, 20) ? -INFINITY : from);
    a[1] = ir_a_num(KEY_hi, gen_chance(g, 20) ? INFINITY : from + reach);
    return gen_emit(g, OP_clamp, &x, 1, a, 2);
  default:
    a[0] = ir_a_num(KEY_lo, from), a[1] = ir_a_num(KEY_hi, from + reach);
    return gen_emit(g, OP_hardtanh, &x, 1, a, 2);
  }
}

static Val sign_reader(Gen *g, Chain *c) {
  static const Op ops[] = {OP_sign, OP_abs,      OP_neg,        OP_relu, OP_sigmoid, OP_gelu,
                           OP_silu, OP_softplus, OP_logsigmoid, OP_tanh, OP_trunc,   OP_softsign};
  uint32_t k = gen_below(g, sizeof ops / sizeof *ops + 2);
  if (k == 0) return gen_op2(g, OP_copysign, gen_number(g, 1), last_of(c));
  if (k == 1) return gen_op2(g, OP_bce_with_logits, last_of(c), gen_number(g, 0.5));
  return gen_op1(g, ops[k - 2], last_of(c));
}

static Val joined(Gen *g, Chain *c) {
  static const Op ops[] = {OP_add, OP_sub, OP_max, OP_min};
  Val other = earlier(g, c);
  Op op = ANY_OF(g, ops);
  c->mag *= 2;
  return gen_op2(g, op, last_of(c), other);
}

static Val next_link(Gen *g, Chain *c) {
  switch (gen_below(g, 11)) {
  case 0:
  case 1:
  case 2:
  case 3: return selected(g, c);
  case 4:
  case 5: return shrunk(g, c);
  case 6: return joined(g, c);
  case 7: return gen_row(g, last_of(c));
  default: return sign_reader(g, c);
  }
}

void add_chain(Gen *g) {
  Chain c = {.n = 1};
  Shape s = gen_random_shape(g);
  bool has_edges = gen_may_be_input(g, s) && gen_chance(g, 30);
  c.v[0] = has_edges ? gen_keep(g, gen_input(g, gen_chance(g, 15) ? "wild" : "edge", DT_F32, s), 2) : gen_pick(g);
  c.mag = gen_mag(g, c.v[0]) + 1;
  uint32_t n = 4 + gen_below(g, MAX_LINKS - 4);
  while (c.n < n) {
    Val v = next_link(g, &c);
    if (ir_none(v) || !gen_is_small(g, gen_shape_at(g, v))) break;
    c.v[c.n++] = v;
  }
  if (c.n == 1) return;
  if (c.n > 2 && gen_chance(g, 20)) gen_keep_tame(g, any_of(g, &c), c.mag);
  gen_keep_tame(g, last_of(&c), c.mag);
}

// ---- views
static Val permuted(Gen *g, Val v) {
  int64_t perm[MAX_RANK];
  uint32_t n = gen_dims(g, v).n;
  for (uint32_t k = 0; k < n; k++) perm[k] = k;
  uint32_t a = gen_below(g, n), b = gen_below(g, n);
  perm[a] = b, perm[b] = a;
  Attr attr = ir_a_list(KEY_perm, ir_shape_ints(g->p, perm, n));
  return gen_emit(g, OP_permute, &v, 1, &attr, 1);
}

static Val reshaped(Gen *g, Val v, Dims d) {
  Attr a = ir_a_list(KEY_shape, gen_shape(g, &d));
  return gen_emit(g, OP_reshape, &v, 1, &a, 1);
}

// A new axis of size 1, or two axes as one
static Val with_other_axes(Gen *g, Val v) {
  Dims d = gen_dims(g, v);
  uint32_t at = d.n ? gen_below(g, d.n) : 0;
  if (d.n < 2 || gen_chance(g, 40)) {
    if (d.n >= 5) return (Val){0};
    memmove(d.d + at + 1, d.d + at, (d.n++ - at) * sizeof *d.d);
    d.d[at] = ir_dim(g->p, 1);
  } else {
    at = gen_below(g, d.n - 1);
    d.d[at] = ir_dim_mul(g->p, d.d[at], d.d[at + 1]);
    memmove(d.d + at + 1, d.d + at + 2, (--d.n - at - 1) * sizeof *d.d);
  }
  return reshaped(g, v, d);
}

// As tn_diagonal makes it: rows and columns as one axis, of which every (m + 1)-th element is taken.
static Val diagonal(Gen *g, Val v) {
  Dims d = gen_dims(g, v);
  if (d.n < 2) return (Val){0};
  Dim n = d.d[d.n - 2], m = d.d[d.n - 1], step = ir_dim_add(g->p, m, ir_dim(g->p, 1));
  bool rows = ir_dim_most(g->p, ir_dim_sub(g->p, n, m)) <= 0;
  if (!rows && ir_dim_most(g->p, ir_dim_sub(g->p, m, n)) > 0) return (Val){0};
  d.d[d.n - 2] = ir_dim_mul(g->p, n, m), d.n--;
  Val flat = reshaped(g, v, d);
  if (ir_none(flat)) return flat;
  Attr a[] = {ir_a_int(KEY_axis, d.n - 1), ir_a_dim(KEY_start, ir_dim(g->p, 0)), ir_a_dim(KEY_count, rows ? n : m),
              ir_a_dim(KEY_pitch, step)};
  if (ir_dim_is_const(g->p, step)) a[3] = ir_a_int(KEY_step, ir_dim_bound(g->p, step));
  return gen_emit(g, OP_slice, &flat, 1, a, 4);
}

static Val narrowed(Gen *g, Val v) {
  Dims d = gen_dims(g, v);
  uint32_t axis = gen_below(g, d.n), n_attrs = 0;
  Dim n = d.d[axis];
  Attr a[6];
  if (!ir_dim_is_const(g->p, n)) {  // all of it backward, or all but an element at one end
    bool is_less = ir_dim_bound(g->p, n) > 1 && !ir_dim_found_by_run(g->f, n) && gen_chance(g, 60);
    Dim one = ir_dim(g->p, 1);
    a[n_attrs++] = ir_a_int(KEY_axis, axis);
    if (is_less && gen_chance(g, 50)) a[n_attrs++] = ir_a_dim(KEY_start, one);
    a[n_attrs++] = ir_a_dim(KEY_count, is_less ? ir_dim_sub(g->p, n, one) : n);
    if (!is_less || gen_chance(g, 30)) a[n_attrs++] = ir_a_int(KEY_reverse, 1);
    return gen_emit(g, OP_slice, &v, 1, a, n_attrs);
  }
  int64_t size = ir_dim_bound(g->p, n), start = gen_below(g, (uint32_t)size + 1), count, room;
  if (gen_chance(g, 50)) {
    int64_t left = size - start;
    a[0] = ir_a_int(KEY_axis, axis), a[1] = ir_a_dim(KEY_start, ir_dim(g->p, start));
    a[2] = ir_a_dim(KEY_count, ir_dim(g->p, left - (left ? gen_below(g, (uint32_t)left) : 0)));
    return gen_emit(g, OP_slice, &v, 1, a, 3);
  }
  n_attrs = gen_slice_at(g, axis, size, a, &count, &room);
  a[n_attrs++] = ir_a_dim(KEY_count, ir_dim(g->p, count));
  return gen_emit(g, OP_slice, (Val[]){v, gen_start(g, room)}, 2, a, n_attrs);
}

static Val expanded(Gen *g, Val v) {
  Dims d = gen_dims(g, v);
  if (d.n >= 4) return (Val){0};
  memmove(d.d + 1, d.d, d.n++ * sizeof *d.d);
  d.d[0] = ir_dim(g->p, 1 + gen_below(g, 2));
  Attr a = ir_a_list(KEY_shape, gen_shape(g, &d));
  return gen_is_small(g, gen_shape(g, &d)) ? gen_emit(g, OP_expand, &v, 1, &a, 1) : (Val){0};
}

static Val any_view(Gen *g, Val v) {
  uint32_t rank = gen_dims(g, v).n;
  if (gen_chance(g, 2)) return expanded(g, v);  // what is seen twice is not written through
  if (!rank) return with_other_axes(g, v);
  switch (gen_below(g, 6)) {
  case 0: return permuted(g, v);
  case 1: return with_other_axes(g, v);
  case 2:
  case 3: return diagonal(g, v);
  default: return narrowed(g, v);
  }
}

static Val view_of_views(Gen *g, Val v) {
  for (uint32_t k = 1 + gen_below(g, 3); k > 0; k--) {
    Val view = any_view(g, v);
    if (!ir_none(view)) v = view;
  }
  return v;
}

static Val written_value(Gen *g, Val view) {
  switch (gen_below(g, 4)) {
  case 0: return gen_leaf(g, gen_shape_at(g, view));
  case 1: return gen_op1(g, OP_relu, view);
  case 2: return gen_op2(g, OP_add, view, gen_leaf(g, (Shape){0}));
  default:
    return gen_emit(g, OP_select,
                    (Val[]){comparison(g, gen_op1(g, OP_abs, view), gen_number(g, ANY_OF(g, reaches))), view,
                            gen_number(g, ANY_OF(g, thresholds))},
                    3, NULL, 0);
  }
}

// Two views of one storage; what is written through the one is read through the other, from the storage and from itself.
void add_view_write(Gen *g) {
  Val base = gen_pick_where(g, gen_may_be_written);
  if (ir_none(base) || gen_chance(g, 30)) base = gen_leaf(g, gen_random_shape(g));
  if (gen_chance(g, 40)) base = gen_keep(g, gen_op1(g, gen_chance(g, 50) ? OP_clone : OP_sin, base), gen_mag(g, base));
  if (ir_none(base) || !gen_may_be_written(g, base)) return;
  double mag = gen_mag(g, base) + 3;
  Val view = view_of_views(g, base), other = view_of_views(g, base);
  for (uint32_t k = 1 + gen_chance(g, 30); k > 0; k--) {
    Val x = written_value(g, view);
    if (ir_none(x) || gen_shape_at(g, x).i != gen_shape_at(g, view).i) return;
    gen_write(g, view, x);
    Val next = gen_chance(g, 50) ? other : view;
    other = next.i == view.i ? other : view, view = next;
  }
  Val read[] = {base, view, other};
  for (uint32_t k = 0; k < 3; k++)
    if (gen_chance(g, 50)) gen_keep(g, gen_op1(g, gen_chance(g, 50) ? OP_sign : OP_tanh, read[k]), 1);
    else if (k) gen_keep(g, read[k], mag);
}
