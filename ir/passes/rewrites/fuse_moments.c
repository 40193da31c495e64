// Pass fuse_moments: mean and variance by channel of what a product makes, as a batch norm takes them, are one op.
//
//   %s = sum %p {axes=[0]}         %m = div %s, %n            a pass over %p
//   %d = sub %p, %m                %q = sum (square %d)       another one, after it
//   ->
//   %m, %r, %q = moments %p        in the kernel of %p        %d is made by who reads it
//
// The second result is the sum of %d: the rounding error of the mean.
//
// For any other value whose mean is subtracted before squaring, %m becomes op mean, so that the variance of
// equal elements is 0:
//
//   %s = sum %x {axes=[1]}         %m = div %s, %n         %d = sub %x, %m         sum (square %d)
//   ->
//   %m = mean %x {axes=[1]}                                %d = sub %x, %m         sum (square %d)
//
// Not if %d is summed too, as in a batch norm: that corrects the rounding error of the mean.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/passes.h"
#include "ir/rewrite.h"
#include "ir/storage.h"

enum {
  MAX_ARGS = 16,  // of a reader of %d
  MAX_EPILOGUE = 4,
  SMALL_RATIO = 8  // an operand of at most an eighth of the elements is small
};

typedef struct {
  Rewrite e;
  Fn *f;
  UseLists uses;
  Val *product;   // by value: for a %d its product; for a product itself; 0: neither
  Val *result;    // by value: for a result of the new op, the product
  uint32_t *nth;  // which result
  Val *sum;       // by value: for an op mean, the sum that it divides; 0: none
} Moments;

static uint32_t n_readers(const Moments *r, Val v) { return r->uses.first[v.i + 1] - r->uses.first[v.i]; }

// A sum over all axes but the last.
static bool sums_columns(const Fn *f, Val v) {
  if (ir_ins(f, v)->op != OP_sum || ir_ins(f, v)->dtype != DT_F32) return false;
  Shape axes = ir_attr(f, v, KEY_axes)->u.list;
  uint32_t rank = ir_rank(f->prog, ir_ins(f, ir_arg(f, v, 0))->shape), n = ir_rank(f->prog, axes);
  for (uint32_t k = 0; k < n; k++)
    if (ir_list_at(f->prog, axes, k) + 1 == rank) return false;
  return n + 1 == rank;
}

static bool is_one(const Fn *f, Val x) { return ir_ins(f, x)->op == OP_const && ir_attr(f, x, KEY_value)->u.f == 1; }

// Is x the number n: a constant, or the size of a dim, possibly at least 1?
static bool is_count(const Fn *f, Val x, Dim n) {
  const Ins *ins = ir_ins(f, x);
  if (ins->op == OP_max && is_one(f, ir_arg(f, x, 1))) return is_count(f, ir_arg(f, x, 0), n);
  if (ins->op == OP_dim_size) return ir_attr(f, x, KEY_dim)->u.dim.i == n.i;
  int64_t rows = ir_dim_bound(f->prog, n);
  return ins->op == OP_const && ir_dim_is_const(f->prog, n) && rows > 0 &&
         ir_attr(f, x, KEY_value)->u.f == (double)rows;
}

static Dim count_of_rows(const Fn *f, Val v) {
  Shape s = ir_ins(f, v)->shape;
  Dim n = ir_dim(f->prog, 1);
  for (uint32_t k = 0; k + 1 < ir_rank(f->prog, s); k++) n = ir_dim_mul(f->prog, n, ir_dim_at(f->prog, s, k));
  return n;
}

// The only reader of v, looking through changes of shape. A column sum has one axis longer than 1.
static Val reader_of(const Moments *r, Val v) {
  Val at = v;
  while (n_readers(r, at) == 1) {
    at = (Val){r->uses.user[r->uses.first[at.i]]};
    if (ir_ins(r->f, at)->op != OP_reshape && ir_ins(r->f, at)->op != OP_permute) return at;
  }
  return (Val){0};
}

// The mean per column made of s, the sum of v, which nothing else reads; none.
static Val mean_of(const Moments *r, Val v, Val s) {
  const Fn *f = r->f;
  Val m = sums_columns(f, s) ? reader_of(r, s) : (Val){0};
  if (ir_none(m) || ir_ins(f, m)->op != OP_div || n_readers(r, ir_arg(f, m, 0)) != 1) return (Val){0};
  return is_count(f, ir_arg(f, m, 1), count_of_rows(f, v)) ? m : (Val){0};
}

// The mean of each channel beside all elements of v.
static bool is_beside(const Fn *f, Val b, Val mean, Val v) {
  Shape s = ir_ins(f, b)->shape, of = ir_ins(f, v)->shape;
  uint32_t n = ir_rank(f->prog, s);
  if (ir_view_base(f, b).i != mean.i || n == 0) return false;
  for (uint32_t k = 0; k + 1 < n; k++)
    if (!ir_dim_is_one(f->prog, ir_dim_at(f->prog, s, k))) return false;
  return ir_dim_at(f->prog, s, n - 1).i == ir_dim_at(f->prog, of, ir_rank(f->prog, of) - 1).i;
}

static bool is_square(const Fn *f, Val x, Val of) {
  const Ins *ins = ir_ins(f, x);
  bool times = ins->op == OP_mul && ir_arg(f, x, 1).i == of.i;
  return (ins->op == OP_square || times) && ir_arg(f, x, 0).i == of.i;
}

// Column sums of x become result `nth` of the op.
static uint32_t mark_sums(Moments *r, Val product, Val x, uint32_t nth) {
  uint32_t n = 0;
  for (uint32_t k = r->uses.first[x.i]; k < r->uses.first[x.i + 1]; k++) {
    Val s = {r->uses.user[k]};
    if (!sums_columns(r->f, s)) continue;
    r->result[s.i] = product, r->nth[s.i] = nth;
    n++;
  }
  return n;
}

// Counts the sums of squares made of v minus its mean.
static uint32_t mark_apart(Moments *r, Val v, Val apart) {
  uint32_t n = 0;
  for (uint32_t k = r->uses.first[apart.i]; k < r->uses.first[apart.i + 1]; k++) {
    Val x = {r->uses.user[k]};
    if (is_square(r->f, x, apart)) n += mark_sums(r, v, x, 2);
  }
  if (n) r->product[apart.i] = v, mark_sums(r, v, apart, 1);
  return n;
}

// Sums of squares of v less the mean m.
static uint32_t mark_differences(Moments *r, Val v, Val m) {
  const Fn *f = r->f;
  uint32_t n = 0;
  for (uint32_t k = r->uses.first[v.i]; k < r->uses.first[v.i + 1]; k++) {
    Val d = {r->uses.user[k]};
    if (ir_ins(f, d)->op == OP_sub && ir_arg(f, d, 0).i == v.i && is_beside(f, ir_arg(f, d, 1), m, v))
      n += mark_apart(r, v, d);
  }
  return n;
}

// A product with its epilogue: made of one product element by element, and of small values.
static bool is_of_product(const Fn *f, Val v, uint32_t depth) {
  const Ins *ins = ir_ins(f, v);
  if (ir_is_product(f, v)) return true;
  bool by_element = ir_ops[ins->op].cls == CLASS_POINTWISE && !(ir_ops[ins->op].flags & (EFFECT | WRITES));
  uint32_t n = 0;
  for (uint32_t k = 0; by_element && depth < MAX_EPILOGUE && k < ins->n_args; k++) {
    Val a = ir_arg(f, v, k);
    if (ir_ins(f, a)->shape.i == ins->shape.i) n += is_of_product(f, a, depth + 1) ? 1 : 2;
    else if (ir_shape_bound(f->prog, ir_ins(f, a)->shape) * SMALL_RATIO > ir_shape_bound(f->prog, ins->shape)) n += 2;
  }
  return n == 1;
}

static bool find(Moments *r, Val v) {
  const Fn *f = r->f;
  uint32_t n = 0;
  if (ir_ins(f, v)->dtype != DT_F32 || ir_rank(f->prog, ir_ins(f, v)->shape) < 2 || !is_of_product(f, v, 0))
    return false;
  for (uint32_t k = r->uses.first[v.i]; k < r->uses.first[v.i + 1]; k++) {
    Val m = mean_of(r, v, (Val){r->uses.user[k]});
    if (!ir_none(m)) n += mark_differences(r, v, m);
  }
  for (uint32_t k = r->uses.first[v.i]; n && k < r->uses.first[v.i + 1]; k++) {
    Val m = mean_of(r, v, (Val){r->uses.user[k]});
    if (!ir_none(m)) r->result[m.i] = v;
  }
  if (n) r->product[v.i] = v;
  return n > 0;
}

// ---- means of other values
// If m is a sum of v (which nothing else reads) divided by the number of its terms: the sum. Else none.
static Val sum_of_mean(const Moments *r, Val m, Val v) {
  const Fn *f = r->f;
  if (ir_ins(f, m)->op != OP_div) return (Val){0};
  Val s = ir_arg(f, m, 0);
  while (ir_ins(f, s)->op == OP_reshape && n_readers(r, s) == 1) s = ir_arg(f, s, 0);
  if (ir_ins(f, s)->op != OP_sum || ir_arg(f, s, 0).i != v.i || n_readers(r, s) != 1) return (Val){0};
  Shape axes = ir_attr(f, s, KEY_axes)->u.list;
  Dim n = ir_dim(f->prog, 1);
  for (uint32_t k = 0; k < ir_rank(f->prog, axes); k++)
    n = ir_dim_mul(f->prog, n, ir_dim_at(f->prog, ir_ins(f, v)->shape, (uint32_t)ir_list_at(f->prog, axes, k)));
  Val count = ir_arg(f, m, 1);
  return ir_ins(f, count)->op != OP_max && is_count(f, count, n) ? s : (Val){0};
}

// Is d squared and the squares summed, while d itself is not summed?
static bool is_squared(const Moments *r, Val d) {
  bool squared = false;
  for (uint32_t k = r->uses.first[d.i]; k < r->uses.first[d.i + 1]; k++) {
    Val x = {r->uses.user[k]};
    if (ir_ins(r->f, x)->op == OP_sum) return false;
    squared |= is_square(r->f, x, d);
  }
  return squared;
}

static bool find_mean(Moments *r, Val d) {
  const Fn *f = r->f;
  if (ir_ins(f, d)->op != OP_sub || ir_ins(f, d)->dtype != DT_F32 || !is_squared(r, d)) return false;
  Val v = ir_arg(f, d, 0), m = ir_view_base(f, ir_arg(f, d, 1)), s = sum_of_mean(r, m, v);
  if (ir_none(s) || !ir_none(r->result[m.i])) return false;
  r->sum[m.i] = s;
  return true;
}

// ---- the new instructions
static void add_op(Moments *r, Val v) {
  Fn *f = r->f;
  Val now = r->e.map[v.i], head = ir_emit(f, OP_moments, &now, 1, NULL, 0, ir_ins(f, now)->loc);
  ir_copy_origin(ir_ins(f, head), ir_ins(f, now));
  r->product[v.i] = head;  // from here on
}

// With no rows the op's mean is 0; dividing by the size of a dim gave 0 / 0.
static Val nan_of_none(Moments *r, Val mean, Val old) {
  Fn *f = r->f;
  Val count = ir_rewrite_arg(&r->e, old, 1);
  if (r->nth[old.i] || ir_ins(f, count)->op != OP_dim_size) return mean;
  Loc loc = ir_ins(f, mean)->loc;
  Val over[] = {ir_const(f, 0, loc), count}, by_count[] = {mean, ir_emit(f, OP_div, over, 2, NULL, 0, loc)};
  return ir_emit(f, OP_add, by_count, 2, NULL, 0, loc);
}

static void take_name(Moments *r, Val now, Val v) {
  if (!ir_ins(r->f, now)->name.i) ir_copy_metadata(ir_ins(r->f, now), ir_rewrite_old(&r->e, v));
}

// By a value of its elements; its shape may have axes of size 1 before the channels.
static void replace_by(Moments *r, Val v, Val now) {
  const Ins *old = ir_rewrite_old(&r->e, v);
  ir_rewrite_replace(&r->e, v, ir_reshaped(r->f, now, old->shape, old->loc));
}

static void replace_by_result(Moments *r, Val v) {
  Val now = ir_result(r->product[r->result[v.i].i], r->nth[v.i]);
  take_name(r, now, v);
  replace_by(r, v, nan_of_none(r, now, v));
}

static void replace_by_mean(Moments *r, Val v) {
  Fn *f = r->f;
  const Attr *keepdim = ir_rewrite_old_attr(&r->e, r->sum[v.i], KEY_keepdim);
  Attr attrs[2] = {*ir_rewrite_old_attr(&r->e, r->sum[v.i], KEY_axes), keepdim ? *keepdim : (Attr){0}};
  Val x = ir_rewrite_arg(&r->e, r->sum[v.i], 0);
  Val now = ir_emit(f, OP_mean, &x, 1, attrs, keepdim ? 2 : 1, ir_rewrite_old(&r->e, v)->loc);
  take_name(r, now, v);
  replace_by(r, v, now);
}

// Copies instruction i; each operand %d becomes a difference of its own.
static void copy_reader(Moments *r, uint32_t i) {
  uint32_t n = r->e.old[i].n_args;
  Val kept[MAX_ARGS], last = {0};
  for (uint32_t k = 0; n <= MAX_ARGS && k < n; k++) {
    Val a = ir_rewrite_old_arg(&r->e, (Val){i}, k);
    kept[k] = r->e.map[a.i];
    if (!ir_none(r->product[a.i]) && r->e.old[a.i].op == OP_sub && a.i != last.i) ir_rewrite_copy(&r->e, a), last = a;
  }
  ir_rewrite_copy(&r->e, (Val){i});
  if (r->product[i].i == i) add_op(r, (Val){i});
  for (uint32_t k = n <= MAX_ARGS ? n : 0; k-- > 0;) r->e.map[ir_rewrite_old_arg(&r->e, (Val){i}, k).i] = kept[k];
}

bool ir_pass_fuse_moments(Fn *f) {
  RtArena *mem = f->prog->mem;
  uint32_t n = f->n_ins;
  Moments r = {.f = f, .uses = ir_use_lists(f)};
  r.product = rt_alloc(mem, n * sizeof *r.product), r.result = rt_alloc(mem, n * sizeof *r.result);
  r.nth = rt_alloc(mem, n * sizeof *r.nth), r.sum = rt_alloc(mem, n * sizeof *r.sum);
  bool any = false;
  for (uint32_t i = 1; i < n; i++) any |= f->ins[i].op != OP_result && find(&r, (Val){i});
  for (uint32_t i = 1; i < n; i++) any |= find_mean(&r, (Val){i});
  if (!any) return true;
  ir_rewrite_begin(&r.e, f);
  for (uint32_t i = 1; i < n; i++) {
    Val v = {i};
    if (r.e.old[i].op == OP_result) continue;
    if (!ir_none(r.result[i])) replace_by_result(&r, v);
    else if (!ir_none(r.sum[i])) replace_by_mean(&r, v);
    else copy_reader(&r, i);
  }
  ir_rewrite_end(&r.e);
  ir_eliminate_dead(f);
  return true;
}
