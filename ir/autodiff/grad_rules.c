// Gradient rules of ops: words of the gradient column of ops.def; those of rows are in grad_rows.c. Pointwise rows
// carry theirs as expressions. A rule emits ops that have rules themselves, so that gradients can be taken of
// gradients; the exceptions are `missing` in the table.
#include "ir/autodiff/autodiff.h"
#include "ir/autodiff/grad.h"
#include "ir/build.h"
#include "ir/conv.h"
#include "ir/expr.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/slice.h"

#include <string.h>

// ---- pointwise rows: walk the gradient expression
static Val run_expr(Grad *g, Val v, Expr e, Val adj) {
  Val stack[64];
  uint32_t n = 0;
  for (uint32_t k = 0; k < e.n; k++) {
    const ExNode *x = &e.nodes[k];
    switch ((ExKind)x->kind) {
    case EX_ARG: stack[n++] = arg(g, v, x->arg); break;
    case EX_Y: stack[n++] = v; break;
    case EX_G: stack[n++] = adj; break;
    case EX_NUM: stack[n++] = number(g, x->num); break;
    case EX_ATTR: stack[n++] = number(g, ir_attr_num(g->f, v, x->arg, 0)); break;
    case EX_OP:
      n -= ir_ops[x->op].n_max;
      stack[n] = ir_emit(g->f, x->op, &stack[n], ir_ops[x->op].n_max, NULL, 0, g->loc);
      n++;
      break;
    case EX_SAME: {
      const Ins *ins = ir_ins(g->f, v);
      const Attr *own = g->f->attrs + ins->attrs;
      stack[n - 1] = ir_emit(g->f, ins->op, &stack[n - 1], 1, own, ins->n_attrs, g->loc);
    }
    }
  }
  return stack[0];
}

static void pointwise(Grad *g, Val v, Val adj) {
  for (uint32_t k = 0; k < ir_ins(g->f, v)->n_args; k++) {
    if (!ir_grad_flows(g->f, v, k) || !wants(g, v, k)) continue;
    ir_grad_give(g, arg(g, v, k), run_expr(g, v, ir_gradient(ir_ins(g->f, v)->op, k), adj));
  }
}

// ---- rules, named by the gradient column of ops.def. adj: the gradient of result 0 (may be none for several results).
void ir_grad_rule_zero(Grad *g, Val v, Val adj) { (void)g, (void)v, (void)adj; }
void ir_grad_rule_missing(Grad *g, Val v, Val adj) { (void)adj, ir_grad_missing(g, v, "has no gradient rule"); }
void ir_grad_rule_expanded(Grad *g, Val v, Val adj) {
  (void)adj, ir_grad_missing(g, v, "is not expanded when gradients are taken");
}
void ir_grad_rule_same(Grad *g, Val v, Val adj) { ir_grad_give(g, arg(g, v, 0), adj); }
void ir_grad_rule_assign(Grad *g, Val v, Val adj) { ir_grad_give(g, arg(g, v, 1), adj); }
// Gradients are f32, even for values stored as f16 or bf16: the cast rounds them to that dtype.
static Val rounded_to(Grad *g, Val adj, DType t) {
  if (t == DT_F32) return adj;
  return with_attr(g, OP_cast, with_attr(g, OP_cast, adj, ir_a_int(KEY_dtype, t)), ir_a_int(KEY_dtype, DT_F32));
}
void ir_grad_rule_cast(Grad *g, Val v, Val adj) {
  DType to = (DType)ir_ins(g->f, v)->dtype;
  if (ir_grad_flows(g->f, v, 0)) ir_grad_give(g, arg(g, v, 0), rounded_to(g, adj, to));
}
void ir_grad_rule_reshape(Grad *g, Val v, Val adj) {
  ir_grad_give(g, arg(g, v, 0), reshape(g, adj, shape_of(g, arg(g, v, 0))));
}
void ir_grad_rule_expand(Grad *g, Val v, Val adj) { ir_grad_give(g, arg(g, v, 0), adj); }

// x with its axes where {key} of v puts them
static Val permuted(Grad *g, Val v, Key key, Val x) {
  const Attr *perm = ir_attr(g->f, v, key);
  return perm ? ir_permuted(g->f, x, perm->u.list, g->loc) : x;
}

// x with its axes where {key} of v permuted them from; x itself where v has none
static Val permuted_back(Grad *g, Val v, Key key, Val x) {
  const Attr *perm = ir_attr(g->f, v, key);
  if (!perm) return x;
  int64_t inverse[MAX_RANK];
  uint32_t r = ir_rank(g->p, perm->u.list);
  for (uint32_t k = 0; k < r; k++) inverse[ir_list_at(g->p, perm->u.list, k)] = k;
  return ir_permuted(g->f, x, ir_shape_ints(g->p, inverse, r), g->loc);
}

void ir_grad_rule_permute(Grad *g, Val v, Val adj) {
  ir_grad_give(g, arg(g, v, 0), permuted_back(g, v, KEY_perm, adj));
}

static Dim size_along(Grad *g, Val v, int64_t axis) { return ir_dim_at(g->p, shape_of(g, v), (uint32_t)axis); }

void ir_grad_rule_pad_axis(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0);
  int64_t axis = ir_attr_int(g->f, v, KEY_axis, 0);
  ir_grad_give(g, a, ir_grad_part(g, adj, axis, ir_attr(g->f, v, KEY_start)->u.dim, size_along(g, a, axis)));
}

static Val padded(Grad *g, Val x, const Slice *s) {
  int64_t size = ir_dim_bound(g->p, s->size);
  Attr attr[3] = {ir_a_int(KEY_axis, s->axis), ir_a_dim(KEY_start, s->start), ir_a_int(KEY_size, size)};
  return ir_emit(g->f, OP_pad_axis, &x, 1, attr, 3, g->loc);
}

void ir_grad_rule_concat(Grad *g, Val v, Val adj) {
  int64_t axis = ir_attr_int(g->f, v, KEY_axis, 0);
  Dim from = ir_dim(g->p, 0);
  for (uint32_t k = 0; k < ir_ins(g->f, v)->n_args; k++) {
    ConcatPart part = ir_concat_part(g->f, v, k);
    Slice of = {.axis = (uint32_t)axis, .start = ir_dim(g->p, part.start), .size = size_along(g, arg(g, v, k), axis)};
    if (wants(g, v, k)) {
      Val own = ir_grad_part(g, adj, axis, from, part.count);
      ir_grad_give(g, arg(g, v, k), part.count.i == of.size.i ? own : padded(g, own, &of));
    }
    from = ir_dim_add(g->p, from, part.count);
  }
}

static Val zeros(Grad *g, Shape s) {
  Attr a[2] = {ir_a_num(KEY_value, 0), ir_a_list(KEY_shape, s)};
  return ir_emit(g->f, OP_full, NULL, 0, a, 2, g->loc);
}

// The attributes of slice and slice_assign that say which elements they mean.
static uint32_t slice_attrs(Grad *g, Val v, Attr out[5]) {
  static const Key keys[] = {KEY_axis, KEY_start, KEY_step, KEY_pitch, KEY_reverse};
  uint32_t n = 0;
  for (uint32_t k = 0; k < sizeof keys / sizeof *keys; k++) {
    const Attr *a = ir_attr(g->f, v, keys[k]);
    if (a) out[n++] = *a;
  }
  return n;
}

static Val slice_like(Grad *g, Val like, Val x, Val at, Dim count) {
  Attr attr[6];
  uint32_t n = slice_attrs(g, like, attr);
  attr[n++] = ir_a_dim(KEY_count, count);
  return ir_emit(g->f, OP_slice, (Val[]){x, at}, 2, attr, n, g->loc);
}

static Val slice_assign_like(Grad *g, Val like, Val target, Val source, Val at) {
  Attr attr[5];
  uint32_t n = slice_attrs(g, like, attr);
  return ir_emit(g->f, OP_slice_assign, (Val[]){target, source, at}, 3, attr, n, g->loc);
}

void ir_grad_rule_slice(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0);
  Slice s;
  int64_t start;
  if (!g->dep[a.i]) return;
  ir_slice(g->f, v, &s);
  ir_grad_give(g, a,
               ir_is_block(g->p, &s, &start) ? padded(g, adj, &s)
               : ir_is_flip(g->f, v)         ? slice_like(g, v, adj, s.at, s.count)
                                             : slice_assign_like(g, v, zeros(g, shape_of(g, a)), adj, s.at));
}

// ---- parts of several axes
//
// The part of the gradient goes back where it was read, forwards; what is read in steps is spread along one axis after the
// other.
static void crop_back(Grad *g, Val a, uint32_t k, const CropAxis *c, Crop *back) {
  int64_t count = ir_dim_bound(g->p, c->count), last = count ? (count - 1) * -c->step : 0;
  bool is_turned = c->step < 0 && count, is_dense = c->step == 1 || c->step == -1;
  bool is_back = is_dense && !ir_crop_keeps(c, size_along(g, a, k));
  back->start[k] = is_turned ? c->before + count - 1 : c->before, back->step[k] = is_turned ? -1 : 1;
  back->before[k] = !is_back ? 0 : is_turned ? c->start - last : c->start;
  back->size[k] = is_dense ? size_along(g, a, k) : c->count;
  back->behind[k] = is_back ? ir_dim_bound(g->p, back->size[k]) - back->before[k] - count : 0;
}

void ir_grad_rule_crop(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0);
  Crop back;
  CropAxis axis[MAX_RANK];
  int64_t inverse[MAX_RANK];
  uint32_t rank = ir_rank(g->p, shape_of(g, a));
  if (!g->dep[a.i]) return;
  for (uint32_t k = 0; k < rank; k++) {
    CropAxis c = ir_crop_axis(g->f, v, k);
    axis[c.from] = c, inverse[c.from] = k;
  }
  if (ir_attr(g->f, v, KEY_perm)) adj = ir_permuted(g->f, adj, ir_shape_ints(g->p, inverse, rank), g->loc);
  for (uint32_t k = 0; k < rank; k++) crop_back(g, a, k, &axis[k], &back);
  Val x = ir_emit_crop(g->f, adj, &back, g->loc);
  for (uint32_t k = 0; k < rank; k++) {
    int64_t step = axis[k].step, apart = step < 0 ? -step : step;
    if (apart == 1) continue;
    int64_t start = step < 0 ? axis[k].start + (ir_dim_bound(g->p, axis[k].count) - 1) * step : axis[k].start;
    back.size[k] = size_along(g, a, k);
    Attr at[] = {ir_a_int(KEY_axis, k), ir_a_dim(KEY_start, ir_dim(g->p, start > 0 ? start : 0)),
                 ir_a_int(KEY_step, apart)};
    Val of[] = {zeros(g, ir_shape(g->p, back.size, rank)), x};
    x = ir_emit(g->f, OP_slice_assign, of, 2, at, 3, g->loc);
  }
  ir_grad_give(g, a, x);
}

// ---- windows
//
//   %y = windows %x {axis=0, size=25, step=10, count=c}     element i 10 + j of x is in the windows i, i - 1 and i - 2: as
//                                                           many chunks of `step` elements as a window has
//   gradient[10 b + r] = %g[b - 2, 20 + r] + %g[b - 1, 10 + r] + %g[b, r]         of windows and elements that exist
typedef struct {
  Val adj;  // elements behind their windows: axes axis and axis + 1
  uint32_t axis;
  int64_t step, size;
  Dim count, blocks;  // of `step` elements, as many as windows reach or more
} Overlap;

static Shape with_dim(Grad *g, Shape s, uint32_t axis, Dim d) {
  Dim dims[MAX_RANK];
  uint32_t rank = ir_rank(g->p, s);
  for (uint32_t k = 0; k < rank; k++) dims[k] = k == axis ? d : ir_dim_at(g->p, s, k);
  return ir_shape(g->p, dims, rank);
}

// x from `start` on along an axis of `size`; the others are 0.
static Val placed(Grad *g, Val x, uint32_t axis, int64_t start, Dim size) {
  Dim from = ir_dim(g->p, start);
  if (size_along(g, x, axis).i == size.i) return x;
  Slice at = {.axis = axis, .start = from, .size = size};
  if (ir_dim_is_const(g->p, size) && ir_dim_is_const(g->p, size_along(g, x, axis))) return padded(g, x, &at);
  Attr attr[2] = {ir_a_int(KEY_axis, axis), ir_a_dim(KEY_start, from)};
  Val of[2] = {zeros(g, with_dim(g, shape_of(g, x), axis, size)), x};
  return ir_emit(g->f, OP_slice_assign, of, 2, attr, 2, g->loc);
}

// What chunk q of each window adds to the blocks.
static Val chunk(Grad *g, const Overlap *o, int64_t q) {
  int64_t from = q * o->step, left = o->size - from, n = left < o->step ? left : o->step;
  Val x = ir_grad_part(g, o->adj, o->axis + 1, ir_dim(g->p, from), ir_dim(g->p, n));
  x = placed(g, x, o->axis + 1, 0, ir_dim(g->p, o->step));
  return placed(g, x, o->axis, q, o->blocks);
}

static Val elements_first(Grad *g, Val adj, uint32_t axis) {
  int64_t perm[MAX_RANK];
  uint32_t rank = ir_rank(g->p, shape_of(g, adj));
  if (axis + 2 == rank) return adj;
  for (uint32_t k = 0; k < rank; k++) perm[k] = k <= axis ? k : k == axis + 1 ? rank - 1 : k - 1;
  return with_attr(g, OP_permute, adj, ir_a_list(KEY_perm, ir_shape_ints(g->p, perm, rank)));
}

void ir_grad_rule_windows(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0);
  uint32_t axis = (uint32_t)ir_attr_int(g->f, v, KEY_axis, 0);
  Overlap o = {.adj = elements_first(g, adj, axis), .axis = axis, .step = ir_attr_int(g->f, v, KEY_step, 1)};
  if (!g->dep[a.i]) return;
  o.size = ir_attr_int(g->f, v, KEY_size, 1), o.count = ir_attr(g->f, v, KEY_count)->u.dim;
  Dim all = size_along(g, a, axis), step = ir_dim(g->p, o.step);
  int64_t chunks = (o.size + o.step - 1) / o.step;
  bool is_const = ir_dim_is_const(g->p, all);
  o.blocks = is_const ? ir_dim_ceil_div(g->p, all, step) : ir_dim_add(g->p, o.count, ir_dim(g->p, chunks));
  Val sum = chunk(g, &o, chunks - 1);
  for (int64_t q = chunks - 1; q-- > 0;) sum = op2(g, OP_add, sum, chunk(g, &o, q));
  sum = reshape(g, sum, with_dim(g, shape_of(g, a), axis, ir_dim_mul(g->p, o.blocks, step)));
  if (size_along(g, sum, axis).i != all.i) sum = ir_grad_part(g, sum, axis, ir_dim(g->p, 0), all);
  ir_grad_give(g, a, sum);
}

// The overwritten elements get none, the new ones all of it.
void ir_grad_rule_slice_assign(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0), b = arg(g, v, 1), at = ir_operand(g->f, v, ARG_at);
  Dim count = size_along(g, b, ir_attr_int(g->f, v, KEY_axis, 0));
  if (g->dep[b.i]) ir_grad_give(g, b, slice_like(g, v, adj, at, count));
  if (g->dep[a.i]) ir_grad_give(g, a, slice_assign_like(g, v, adj, zeros(g, shape_of(g, b)), at));
}

// The shape of a reduction's operand with the reduced axes of size 1.
static Shape kept_shape(Grad *g, Val v) {
  Shape s = shape_of(g, arg(g, v, 0)), axes = ir_attr(g->f, v, KEY_axes)->u.list;
  Dim d[MAX_RANK];
  uint32_t r = ir_rank(g->p, s);
  for (uint32_t k = 0; k < r; k++) d[k] = ir_dim_at(g->p, s, k);
  for (uint32_t k = 0; k < ir_rank(g->p, axes); k++) d[ir_list_at(g->p, axes, k)] = ir_dim(g->p, 1);
  return ir_shape(g->p, d, r);
}

void ir_grad_rule_sum(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0);
  ir_grad_give(g, a, expand(g, reshape(g, adj, kept_shape(g, v)), shape_of(g, a)));
}

void ir_grad_rule_mean(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0);
  Shape axes = ir_attr(g->f, v, KEY_axes)->u.list;
  Dim n = ir_dim(g->p, 1);
  for (uint32_t k = 0; k < ir_rank(g->p, axes); k++)
    n = ir_dim_mul(g->p, n, ir_dim_at(g->p, shape_of(g, a), (uint32_t)ir_list_at(g->p, axes, k)));
  Attr dim = ir_a_dim(KEY_dim, n);
  Val size = ir_dim_is_const(g->p, n) ? number(g, (double)ir_dim_bound(g->p, n))
                                      : ir_emit(g->f, OP_dim_size, NULL, 0, &dim, 1, g->loc);
  ir_grad_give(g, a, expand(g, reshape(g, op2(g, OP_div, adj, size), kept_shape(g, v)), shape_of(g, a)));
}

// All elements equal to the maximum share the gradient equally.
void ir_grad_rule_amax(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0);
  Shape kept = kept_shape(g, v);
  Val mask = op2(g, OP_eq, a, reshape(g, v, kept));
  const Attr *axes = ir_attr(g->f, v, KEY_axes);
  Val count = ir_emit(g->f, OP_sum, &mask, 1, axes, 1, g->loc);
  count = reshape(g, count, kept);
  Val share = op2(g, OP_div, reshape(g, adj, kept), count);
  ir_grad_give(g, a, op2(g, OP_mul, mask, share));
}

void ir_grad_rule_prod(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0), zero = ir_const(g->f, 0, g->loc), one = ir_const(g->f, 1, g->loc);
  Shape kept = kept_shape(g, v);
  const Attr *axes = ir_attr(g->f, v, KEY_axes);
  Val is_zero = op2(g, OP_eq, a, zero), x = ir_op3(g->f, OP_select, is_zero, one, a, g->loc);
  Val n = reshape(g, ir_emit(g->f, OP_sum, &is_zero, 1, axes, 1, g->loc), kept);
  Val y = reshape(g, ir_emit(g->f, OP_prod, &x, 1, axes, 1, g->loc), kept);
  Val own_zero = ir_op3(g->f, OP_select, is_zero, a, zero, g->loc);
  Val all_zeros = reshape(g, ir_emit(g->f, OP_sum, &own_zero, 1, axes, 1, g->loc), kept);
  Val other_zeros = op2(g, OP_sub, all_zeros, own_zero), n_others = op2(g, OP_sub, n, is_zero);
  Val others = ir_grad_other_factors(g, op2(g, OP_div, y, x), n_others, other_zeros);
  ir_grad_give(g, a, op2(g, OP_mul, others, reshape(g, adj, kept)));
}

// All axes but the last as one.
static Val as_rows(Grad *g, Val a) {
  Shape s = shape_of(g, a);
  uint32_t r = ir_rank(g->p, s);
  Dim rows = ir_dim(g->p, 1);
  for (uint32_t k = 0; k + 1 < r; k++) rows = ir_dim_mul(g->p, rows, ir_dim_at(g->p, s, k));
  return reshape(g, a, ir_shape(g->p, (Dim[]){rows, ir_dim_at(g->p, s, r - 1)}, 2));
}

// The gradient of one matrix for a whole batch is one product over all rows, not a sum of products over the batch.
void ir_grad_rule_matmul(Grad *g, Val v, Val adj) {
  Val of[] = {arg(g, v, 0), arg(g, v, 1)}, a = permuted(g, v, KEY_a_perm, of[0]), b = permuted(g, v, KEY_b_perm, of[1]);
  bool ta = ir_attr(g->f, v, KEY_ta) != NULL, tb = ir_attr(g->f, v, KEY_tb) != NULL;
  adj = permuted_back(g, v, KEY_perm, adj);
  if (g->dep[of[0].i]) {
    Val x = ta ? ir_grad_matmul(g, b, adj, tb, true) : ir_grad_matmul(g, adj, b, false, !tb);
    ir_grad_give(g, of[0], permuted_back(g, v, KEY_a_perm, x));
  }
  if (!g->dep[of[1].i]) return;
  bool shared = !ta && ir_rank(g->p, shape_of(g, b)) == 2 && ir_rank(g->p, shape_of(g, a)) > 2;
  if (shared) a = as_rows(g, a), adj = as_rows(g, adj);
  Val x = tb ? ir_grad_matmul(g, adj, a, true, ta) : ir_grad_matmul(g, a, adj, !ta, false);
  ir_grad_give(g, of[1], permuted_back(g, v, KEY_b_perm, x));
}

// A point that differences of rows are taken from: their products then lose no more digits than the rows' spread costs.
static Val middle_of(Grad *g, Val b) {
  Shape s = shape_of(g, b);
  Dim d[MAX_RANK];
  uint32_t r = ir_rank(g->p, s);
  memcpy(d, ir_dims(g->p, s), r * sizeof *d);
  d[r - 2] = ir_dim(g->p, 1);
  int64_t axis = r - 2;
  Val mean =
      reshape(g, with_attr(g, OP_mean, b, ir_a_list(KEY_axes, ir_shape_ints(g->p, &axis, 1))), ir_shape(g->p, d, r));
  mean = ir_op3(g->f, OP_select, ir_op1(g->f, OP_isfinite, mean, g->loc), mean, number(g, 0), g->loc);
  return ir_op1(g->f, OP_stop_grad, mean, g->loc);
}

// For each row of a: 2 (sum over j of g) a - 2 sum over j of g b; of b alike.
static void give_distances(Grad *g, Val to, Val x, Val other, Val adj, bool ta) {
  Shape s = shape_of(g, adj);
  Dim d[MAX_RANK];
  uint32_t r = ir_rank(g->p, s);
  memcpy(d, ir_dims(g->p, s), r * sizeof *d);
  int64_t axis = ta ? r - 2 : r - 1;
  d[r - 2] = d[ta ? r - 1 : r - 2], d[r - 1] = ir_dim(g->p, 1);
  Val all = reshape(g, ir_grad_sum_axes(g, adj, &axis, 1), ir_shape(g->p, d, r));
  Val of_other = ir_grad_matmul(g, adj, other, ta, false), apart = op2(g, OP_sub, mul(g, x, all), of_other);
  ir_grad_give(g, to, mul(g, apart, number(g, 2)));
}

void ir_grad_rule_square_distances(Grad *g, Val v, Val adj) {
  Val a = arg(g, v, 0), b = arg(g, v, 1), middle = middle_of(g, b);
  Val from_a = op2(g, OP_sub, a, middle), from_b = op2(g, OP_sub, b, middle);
  if (g->dep[a.i]) give_distances(g, a, from_a, from_b, adj, false);
  if (g->dep[b.i]) give_distances(g, b, from_b, from_a, adj, true);
}

void ir_grad_rule_linear(Grad *g, Val v, Val adj) {
  Val x = arg(g, v, 0), w = arg(g, v, 1), d = as_rows(g, adj);
  if (g->dep[x.i]) ir_grad_give(g, x, reshape(g, ir_grad_matmul(g, d, w, false, false), shape_of(g, x)));
  if (g->dep[w.i]) ir_grad_give(g, w, ir_grad_matmul(g, d, as_rows(g, x), true, false));
  Val bias = ir_operand(g->f, v, ARG_bias);
  if (g->dep[bias.i]) ir_grad_give(g, bias, ir_grad_sum_axes(g, d, (int64_t[]){0}, 1));
}

// ---- convolutions: each of the three ops has the other two as gradients
static Val like_conv(Grad *g, Val v, Op op, Val a, Val b, Val sized, bool is_first) {
  static const Key keys[] = {KEY_stride, KEY_pad, KEY_dilation, KEY_groups, KEY_algorithm, KEY_first};
  Attr attr[7];
  uint32_t n = 0, rank = ir_rank(g->p, shape_of(g, v)) - 2, from = 1;
  if (op == OP_conv_weight_grad || ir_attr(g->f, v, KEY_first)) from = 2;
  for (uint32_t k = 0; k < (is_first ? 6 : 5); k++)
    if (ir_attr(g->f, v, keys[k])) attr[n++] = *ir_attr(g->f, v, keys[k]);
  Dim d[MAX_RANK];
  for (uint32_t k = 0; k < rank && op != OP_conv; k++) d[k] = ir_dim_at(g->p, shape_of(g, sized), from + k);
  if (op != OP_conv) attr[n++] = ir_a_list(KEY_shape, ir_shape(g->p, d, rank));
  return ir_emit(g->f, op, (Val[]){a, b}, 2, attr, n, g->loc);
}

static Val conv_like(Grad *g, Val v, Op op, Val a, Val b, Val sized) { return like_conv(g, v, op, a, b, sized, true); }

// The channels of an image moved to the last axis, or behind the first one
static Val with_channels(Grad *g, Val v, bool last) {
  uint32_t rank = ir_rank(g->p, shape_of(g, v));
  int64_t list[MAX_RANK];
  for (uint32_t k = 0; k < rank; k++) list[k] = last ? ir_axis_in_last(rank, k) : ir_axis_in_first(rank, k);
  return with_attr(g, OP_permute, v, ir_a_list(KEY_perm, ir_shape_ints(g->p, list, rank)));
}

// {first} of other groups than of one channel: gradients have channels last.
static bool mixes_first(Grad *g, Val v) {
  Conv c;
  ir_conv(g->f, v, &c);
  return c.channels_first && (c.groups != c.c || c.groups != c.o);
}

static void give_mixed(Grad *g, Val v, Val adj) {
  Val x = arg(g, v, 0), w = arg(g, v, 1), y = with_channels(g, adj, true);
  if (g->dep[x.i]) ir_grad_give(g, x, with_channels(g, like_conv(g, v, OP_conv_transpose, y, w, x, false), false));
  if (g->dep[w.i]) ir_grad_give(g, w, like_conv(g, v, OP_conv_weight_grad, with_channels(g, x, true), y, w, false));
}

void ir_grad_rule_conv(Grad *g, Val v, Val adj) {
  Val x = arg(g, v, 0), w = arg(g, v, 1);
  if (mixes_first(g, v)) {
    give_mixed(g, v, adj);
    return;
  }
  if (g->dep[x.i]) ir_grad_give(g, x, conv_like(g, v, OP_conv_transpose, adj, w, x));
  if (g->dep[w.i]) ir_grad_give(g, w, conv_like(g, v, OP_conv_weight_grad, x, adj, w));
}

void ir_grad_rule_conv_transpose(Grad *g, Val v, Val adj) {
  Val y = arg(g, v, 0), w = arg(g, v, 1);
  if (g->dep[y.i]) ir_grad_give(g, y, conv_like(g, v, OP_conv, adj, w, y));
  if (g->dep[w.i]) ir_grad_give(g, w, conv_like(g, v, OP_conv_weight_grad, adj, y, w));
}

void ir_grad_rule_conv_weight_grad(Grad *g, Val v, Val adj) {
  Val x = arg(g, v, 0), y = arg(g, v, 1);
  if (g->dep[x.i]) ir_grad_give(g, x, conv_like(g, v, OP_conv_transpose, y, adj, x));
  if (g->dep[y.i]) ir_grad_give(g, y, conv_like(g, v, OP_conv, x, adj, y));
}

// {padded} where v is
static Val by_rows(Grad *g, Op op, Val v, const Val *in, uint32_t n) {
  const Attr *padded = ir_attr(g->f, v, KEY_padded);
  return ir_emit(g->f, op, in, n, padded, padded != NULL, g->loc);
}

void ir_grad_rule_embedding(Grad *g, Val v, Val adj) {
  Val w = arg(g, v, 0);
  ir_grad_give(g, w, by_rows(g, OP_embedding_grad, v, (Val[]){w, arg(g, v, 1), adj}, 3));
}

// All rows of g with index i read row i of the table that this scatter adds up.
void ir_grad_rule_embedding_grad(Grad *g, Val v, Val adj) {
  ir_grad_give(g, arg(g, v, 2), by_rows(g, OP_embedding, v, (Val[]){adj, arg(g, v, 1)}, 2));
  Val addend = ir_operand(g->f, v, ARG_addend);
  if (g->dep[addend.i]) ir_grad_give(g, addend, adj);
}

static uint32_t time_flags(Grad *g, Val v, Attr *attr) {
  const Attr *tm = ir_attr(g->f, v, KEY_time_major);
  if (tm) attr[0] = *tm;
  return tm ? 1 : 0;
}

// Back to the padded shape, whose time axis may be longer than the layout's.
void ir_grad_rule_pack_padded(Grad *g, Val v, Val adj) {
  Val x = arg(g, v, 0), layout = arg(g, v, 1);
  Attr attr[2];
  uint32_t n = time_flags(g, v, attr);
  Dim time = ir_dim_at(g->p, shape_of(g, x), n ? 0 : 1);
  if (time.i != ir_dim_at(g->p, shape_of(g, layout), 1).i) attr[n++] = ir_a_int(KEY_size, ir_dim_bound(g->p, time));
  ir_grad_give(g, x, ir_emit(g->f, OP_unpack_padded, (Val[]){adj, layout}, 2, attr, n, g->loc));
}

void ir_grad_rule_unpack_padded(Grad *g, Val v, Val adj) {
  Attr attr[1];
  uint32_t n = time_flags(g, v, attr);
  ir_grad_give(g, arg(g, v, 0), ir_emit(g->f, OP_pack_padded, (Val[]){adj, arg(g, v, 1)}, 2, attr, n, g->loc));
}

// ---- ops over packed rows and their layout, operand 1
static Val with_layout(Grad *g, Op op, Val v, Val adj) { return op2(g, op, adj, arg(g, v, 1)); }
void ir_grad_rule_seq_sum(Grad *g, Val v, Val adj) {
  ir_grad_give(g, arg(g, v, 0), with_layout(g, OP_seq_broadcast, v, adj));
}
void ir_grad_rule_seq_broadcast(Grad *g, Val v, Val adj) {
  ir_grad_give(g, arg(g, v, 0), with_layout(g, OP_seq_sum, v, adj));
}
void ir_grad_rule_seq_reverse(Grad *g, Val v, Val adj) {
  ir_grad_give(g, arg(g, v, 0), with_layout(g, OP_seq_reverse, v, adj));
}
void ir_grad_rule_seq_from_list(Grad *g, Val v, Val adj) {
  Val x = arg(g, v, 0), layout = arg(g, v, 1);
  Attr total = ir_a_dim(KEY_total, ir_dim_at(g->p, shape_of(g, x), 0));
  bool has_total = total.u.dim.i != ir_dim_at(g->p, shape_of(g, layout), 2).i;
  ir_grad_give(g, x, ir_emit(g->f, OP_seq_to_list, (Val[]){adj, layout}, 2, &total, has_total, g->loc));
}
void ir_grad_rule_seq_to_list(Grad *g, Val v, Val adj) {
  ir_grad_give(g, arg(g, v, 0), with_layout(g, OP_seq_from_list, v, adj));
}

// Each is the other's transpose.
static Val windows_like(Grad *g, Op op, Val v, Val adj) {
  static const Key keys[] = {KEY_kernel, KEY_stride, KEY_pad, KEY_dilation};
  Attr attr[4];
  uint32_t n = 0;
  for (uint32_t k = 0; k < 4; k++)
    if (ir_attr(g->f, v, keys[k])) attr[n++] = *ir_attr(g->f, v, keys[k]);
  return ir_emit(g->f, op, (Val[]){adj, arg(g, v, 1), arg(g, v, 2)}, 3, attr, n, g->loc);
}
void ir_grad_rule_seq_windows(Grad *g, Val v, Val adj) {
  ir_grad_give(g, arg(g, v, 0), windows_like(g, OP_seq_windows_grad, v, adj));
}
void ir_grad_rule_seq_windows_grad(Grad *g, Val v, Val adj) {
  ir_grad_give(g, arg(g, v, 0), windows_like(g, OP_seq_windows, v, adj));
}

void ir_grad_rule_seq_best(Grad *g, Val v, Val adj) {
  if (!ir_none(adj))
    ir_grad_give(g, arg(g, v, 0), ir_op3(g->f, OP_seq_scatter, adj, arg(g, v, 1), ir_result(v, 1), g->loc));
}

void ir_grad_rule_seq_select(Grad *g, Val v, Val adj) {
  Attr first = ir_a_int(KEY_first, 1);
  Val in[2] = {adj, arg(g, v, 1)};
  ir_grad_give(g, arg(g, v, 0),
               ir_emit(g->f, OP_seq_scatter, in, 2, &first, ir_attr(g->f, v, KEY_first) ? 1 : 0, g->loc));
}

void ir_grad_rule_seq_softmax(Grad *g, Val v, Val adj) {
  ir_grad_give(g, arg(g, v, 0), ir_op3(g->f, OP_seq_softmax_grad, v, arg(g, v, 1), adj, g->loc));
}

// y (d - s), s the sum of d y over the steps:   of y: u (d - s) - d sum(u y)   of d: the op itself, of u
void ir_grad_rule_seq_softmax_grad(Grad *g, Val v, Val u) {
  Val y = arg(g, v, 0), layout = arg(g, v, 1), d = arg(g, v, 2);
  if (wants(g, v, 2)) ir_grad_give(g, d, ir_op3(g->f, OP_seq_softmax_grad, y, layout, u, g->loc));
  if (!wants(g, v, 0)) return;
  Val s = op2(g, OP_seq_broadcast, op2(g, OP_seq_sum, mul(g, d, y), layout), layout);
  Val t = op2(g, OP_seq_broadcast, op2(g, OP_seq_sum, mul(g, u, y), layout), layout);
  Val of_sum = mul(g, d, t);
  ir_grad_give(g, y, op2(g, OP_sub, mul(g, u, op2(g, OP_sub, d, s)), of_sum));
}

// The row into which an element was put: picked if it is the same for all features, else found by a mask.
void ir_grad_rule_seq_scatter(Grad *g, Val v, Val adj) {
  Val d = arg(g, v, 0), layout = arg(g, v, 1), in[2] = {adj, layout};
  if (!ir_has_operand(g->f, v, ARG_step)) {
    const Attr *first = ir_attr(g->f, v, KEY_first);
    Attr a = first ? *first : (Attr){0};
    ir_grad_give(g, d, ir_emit(g->f, OP_seq_select, in, 2, &a, first != NULL, g->loc));
    return;
  }
  Val ones = expand(g, number(g, 1), shape_of(g, d));
  Val mask = ir_op3(g->f, OP_seq_scatter, ones, layout, arg(g, v, 2), g->loc);
  in[0] = ir_op3(g->f, OP_select, mask, adj, number(g, 0), g->loc);
  ir_grad_give(g, d, ir_emit(g->f, OP_seq_sum, in, 2, NULL, 0, g->loc));
}

void ir_grad_rule_scan(Grad *g, Val v, Val adj) {
  (void)adj;  // of the first of its results
  uint32_t n = ir_ins(g->f, v)->n_args;
  bool *want = rt_alloc(g->p->mem, n + 1);
  Val *out = rt_alloc(g->p->mem, (n + 1) * sizeof *out);
  for (uint32_t k = 0; k < n; k++) want[k] = wants(g, v, k) && ir_grad_flows(g->f, v, k);
  if (!ir_scan_grad(g->f, v, g->adj + v.i, want, out, g->is_nested, g->loc))
    ir_grad_missing(g, v,
                    "has no gradient rule where its carries are not put out at each step, as of 8 axes they cannot be");
  for (uint32_t k = 0; k < n; k++) ir_grad_give(g, arg(g, v, k), out[k]);
}

#define OP(n, operands, res, shape, grad, ...) [OP_##n] = ir_grad_rule_##grad,
static GradRule *const rules[N_OPS] = {
#include "ir/ops.def"
};

void ir_grad_through(Grad *g, Val v, Val adj) {
  Op op = ir_ins(g->f, v)->op;
  if (ir_ops[op].is_pointwise) pointwise(g, v, adj);
  else rules[op](g, v, adj);
}
