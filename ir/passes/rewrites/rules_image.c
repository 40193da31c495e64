// Rules of images: convolutions have channels last, calls have them first. The permutation behind a convolution moves
// down through what is pointwise, sums and slices, until it meets the one before the next convolution and both go:
//
//   %p = permute (conv %x, %w) {perm=[0,3,1,2]}     %y = relu %p     %q = permute %y {perm=[0,2,3,1]}
//     ->     %r = relu (conv %x, %w)     %y = permute %r {perm=[0,3,1,2]}     %q is %r
#include "ir/build.h"
#include "ir/conv.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/rewrites/rules.h"
#include "ir/storage.h"

// ---- values that are made of the result of a convolution or a pool, element by element
// v is what a product makes of the rows that an image's pixels are, as an image of as many: the former; else none
static Val image_of_rows(const Rules *r, Val v) {
  const Ins *ins = ir_ins(r->f, v);
  Val m = ins->op == OP_reshape ? ir_arg(r->f, v, 0) : v;
  if (ir_ins(r->f, m)->op != OP_matmul || m.i == v.i || ir_attr(r->f, m, KEY_ta)) return (Val){0};
  Val rows = ir_arg(r->f, m, 0);
  if (ir_ins(r->f, rows)->op != OP_reshape || ir_rank(r->p, ir_ins(r->f, rows)->shape) != 2) return (Val){0};
  Val image = ir_arg(r->f, rows, 0);
  Shape own = ins->shape, s = ir_ins(r->f, image)->shape;
  uint32_t last = ir_rank(r->p, own) - 1;
  bool same =
      ir_rank(r->p, s) == last + 1 && ir_dim_at(r->p, s, last).i == ir_dim_at(r->p, ir_ins(r->f, rows)->shape, 1).i;
  for (uint32_t k = 0; same && k < last; k++) same = ir_dim_at(r->p, s, k).i == ir_dim_at(r->p, own, k).i;
  return same ? image : (Val){0};
}

// A convolution of one element is a product.
static bool is_made_of_image(const Rules *r, Val v) {
  const Ins *ins = ir_ins(r->f, v);
  if (ins->op == OP_conv || ins->op == OP_conv_transpose) return !ir_attr(r->f, v, KEY_first);
  if (ir_ops[ins->op].cls == CLASS_POOL) return true;
  if (ir_rank(r->p, ins->shape) < 3) return false;
  if (ins->op == OP_slice) return r->image[ir_arg(r->f, v, 0).i];
  Val of = image_of_rows(r, v);
  if (!ir_none(of)) return r->image[of.i] || ir_perm_of(r->f, of);
  if (ins->op == OP_linear) {
    Val a = ir_arg(r->f, v, 0);
    bool is_patch = ir_rank(r->p, ins->shape) > 3 && ir_perm_of(r->f, ir_view_base(r->f, a));
    return r->image[a.i] || ir_perm_of(r->f, a) || is_patch;
  }
  for (uint32_t k = 0; ir_ops[ins->op].is_pointwise && k < ins->n_args; k++) {
    Val a = ir_arg(r->f, v, k);
    if (ir_ins(r->f, a)->shape.i == ins->shape.i && r->image[a.i]) return true;
  }
  return false;
}

// Sets it for all values up to v, operands first. Values from r->root on may still change.
static bool is_image(Rules *r, Val v) {
  while (r->n_image <= v.i) {
    bool is = is_made_of_image(r, (Val){r->n_image});
    *RT_PUSH(r->p->mem, r->image, r->n_image, r->image_cap) = is;
  }
  bool found = r->image[v.i];
  if (r->n_image > r->root) r->n_image = r->root;
  return found;
}

// The permutation of v, if it is one that moves the channels of an image to the front.
static const Attr *image_perm(Rules *r, Val v) {
  const Attr *perm = ir_perm_of(r->f, v);
  return perm && ir_perm_moves_channels(r->p, perm->u.list, true) && is_image(r, ir_arg(r->f, v, 0)) ? perm : NULL;
}

// Axis `axis` of v where it is aligned with `rank` axes at the last.
static Dim aligned_dim(const Rules *r, Val v, uint32_t rank, uint32_t axis) {
  Shape s = ir_ins(r->f, v)->shape;
  uint32_t missing = rank - ir_rank(r->p, s);
  return axis < missing ? ir_dim(r->p, 1) : ir_dim_at(r->p, s, axis - missing);
}

// Does v, aligned at the last axis, have the same order of elements before the permutation? Axes of one
// element may be anywhere.
static bool keeps_order(const Rules *r, Val v, const Attr *perm) {
  uint32_t rank = ir_rank(r->p, perm->u.list);
  int64_t last = -1;
  for (uint32_t k = 0; k < rank; k++) {
    int64_t to = ir_list_at(r->p, perm->u.list, k);
    if (ir_dim_is_one(r->p, aligned_dim(r, v, rank, k))) continue;
    if (to < last) return false;
    last = to;
  }
  return true;
}

// An operand that keeps its order, for the value before the permutation.
static Val before_permute(Rules *r, Val v, const Attr *perm, Loc loc) {
  uint32_t rank = ir_rank(r->p, perm->u.list);
  Dim d[MAX_RANK];
  bool is_one = true;
  for (uint32_t k = 0; k < rank; k++) {
    Dim own = aligned_dim(r, v, rank, k);
    d[ir_list_at(r->p, perm->u.list, k)] = own;
    is_one &= ir_dim_is_one(r->p, own);
  }
  return ir_reshaped(r->f, v, is_one ? (Shape){0} : ir_shape(r->p, d, rank), loc);
}

static const Attr *perm_of_operands(Rules *r, Val v) {
  const Attr *perm = NULL;
  for (uint32_t k = 0; k < ir_ins(r->f, v)->n_args && !perm; k++) perm = image_perm(r, ir_arg(r->f, v, k));
  if (!perm || ir_rank(r->p, ir_ins(r->f, v)->shape) != ir_rank(r->p, perm->u.list)) return NULL;
  for (uint32_t k = 0; k < ir_ins(r->f, v)->n_args; k++) {
    Val a = ir_arg(r->f, v, k);
    const Attr *own = ir_perm_of(r->f, a);
    bool same = own && own->u.list.i == perm->u.list.i;
    if (!same && !keeps_order(r, a, perm)) return NULL;
  }
  return perm;
}

static bool keeps_axes(const Prog *p, Shape perm) {
  for (uint32_t k = 0; k < ir_rank(p, perm); k++)
    if (ir_list_at(p, perm, k) != k) return false;
  return true;
}

// Emits y before the permutation in place of `ins`; returns it permuted.
static Val permuted_for(Rules *r, Val y, const Ins *ins, Attr perm) {
  y = ir_eliminate_common(r, y);
  ir_copy_metadata(ir_ins(r->f, y), ins);
  if (keeps_axes(r->p, perm.u.list)) return y;
  Val p = ir_emit(r->f, OP_permute, &y, 1, &perm, 1, ins->loc);
  ir_copy_origin(ir_ins(r->f, p), ins);
  return p;
}

Val rule_pointwise_of_image(Rules *r, Val v) {
  Fn *f = r->f;
  const Ins ins = *ir_ins(f, v);
  const Attr *found = ir_ops[ins.op].flags & RANDOM ? NULL : perm_of_operands(r, v);
  if (!found) return (Val){0};
  Attr perm = *found;
  Val of[3];
  for (uint32_t k = 0; k < ins.n_args; k++) {
    Val a = ir_arg(f, v, k);
    const Attr *own = ir_perm_of(f, a);
    bool same = own && own->u.list.i == perm.u.list.i;
    of[k] = same ? ir_arg(f, a, 0) : before_permute(r, a, &perm, ins.loc);
  }
  return permuted_for(r, ir_emit_like(f, &ins, of, NULL), &ins, perm);
}

// ---- sums over axes
static uint32_t mapped_axes(const Rules *r, const Attr *perm, Shape axes, int64_t *out) {
  uint32_t n = ir_rank(r->p, axes), seen = 0, m = 0;
  for (uint32_t k = 0; k < n; k++) seen |= 1u << ir_list_at(r->p, perm->u.list, (uint32_t)ir_list_at(r->p, axes, k));
  for (uint32_t k = 0; k < MAX_RANK; k++)
    if (seen >> k & 1) out[m++] = k;
  return m;
}

// The axes of the sum before the permutation, in the order that they have behind it.
static uint32_t left_axes(const Rules *r, const Attr *perm, Shape axes, int64_t *out) {
  uint32_t n = ir_rank(r->p, perm->u.list), m = 0;
  int64_t from[MAX_RANK];
  for (uint32_t k = 0; k < n; k++) {
    bool summed = false;
    for (uint32_t j = 0; j < ir_rank(r->p, axes); j++) summed |= ir_list_at(r->p, axes, j) == k;
    if (!summed) from[m++] = ir_list_at(r->p, perm->u.list, k);
  }
  for (uint32_t k = 0; k < m; k++) {
    out[k] = 0;
    for (uint32_t j = 0; j < m; j++) out[k] += from[j] < from[k];
  }
  return m;
}

Val rule_sum_of_image(Rules *r, Val v) {
  Fn *f = r->f;
  const Ins ins = *ir_ins(f, v);
  const Attr *found = ins.dtype == DT_F32 ? image_perm(r, ir_arg(f, v, 0)) : NULL;
  if (!found) return (Val){0};
  Attr perm = *found;
  bool keeps = ir_attr(f, v, KEY_keepdim) != NULL;
  Shape axes = ir_attr(f, v, KEY_axes)->u.list;
  int64_t list[MAX_RANK];
  uint32_t n = mapped_axes(r, &perm, axes, list);
  Attr before = ir_a_list(KEY_axes, ir_shape_ints(r->p, list, n));
  Val a = ir_arg(f, ir_arg(f, v, 0), 0), sum = ir_emit_like(f, &ins, &a, &before);
  if (!keeps) {
    n = left_axes(r, &perm, axes, list);
    perm = ir_a_list(KEY_perm, ir_shape_ints(r->p, list, n));
  }
  return permuted_for(r, sum, &ins, perm);
}

// ---- parts

Val rule_slice_of_image(Rules *r, Val v) {
  Fn *f = r->f;
  const Ins ins = *ir_ins(f, v);
  const Attr *found = image_perm(r, ir_arg(f, v, 0));
  if (!found) return (Val){0};
  Attr perm = *found;
  Attr axis = ir_a_int(KEY_axis, ir_list_at(r->p, perm.u.list, (uint32_t)ir_attr_int(f, v, KEY_axis, 0)));
  Val of[2] = {ir_arg(f, ir_arg(f, v, 0), 0)};
  if (ins.n_args > 1) of[1] = ir_arg(f, v, 1);
  return permuted_for(r, ir_emit_like(f, &ins, of, &axis), &ins, perm);
}

// ---- permutations that move no elements: those of axes of one element alone
Val rule_permute_of_ones(Rules *r, Val v) {
  Shape from = ir_ins(r->f, ir_arg(r->f, v, 0))->shape, perm = ir_perm_of(r->f, v)->u.list;
  int64_t last = -1;
  for (uint32_t k = 0; k < ir_rank(r->p, perm); k++) {
    int64_t axis = ir_list_at(r->p, perm, k);
    if (ir_dim_is_one(r->p, ir_dim_at(r->p, from, (uint32_t)axis))) continue;
    if (axis < last) return (Val){0};
    last = axis;
  }
  Shape to = ir_ins(r->f, v)->shape;
  return ir_reshaped(r->f, ir_arg(r->f, v, 0), to, ir_ins(r->f, v)->loc);
}
