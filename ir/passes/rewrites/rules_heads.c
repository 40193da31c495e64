// Attention of heads that a permutation leads outside, [B,T,H,D] -> [B,H,T,D], reads them where they lie, as models written for PyTorch, whose
// permutations cost nothing, have it:
//
//   sdpa (permute %q), (permute %k), (permute %v)   ->   permute (sdpa %q, %k, %v {heads_inside})
//
// and so do its gradients. The result's permutation goes where it is led back. Heads that are parts of one array, as one projection makes
// all three, or keys and values, are read there, and the gradient of that array is written as a whole:
//
//   %p = permute %x {perm=[2,0,3,1,4]} : f32[3,B,H,T,D]         %q = reshape (slice %p {axis=0, start=0, count=1}) ..
//   %dq, %dk, %dv = sdpa_grad %q, %k, %v, ..                   add (pad_axis (reshape %dq) {axis=0, start=0}), ..
//     ->  %dx = sdpa_grad %x, ..                               permute %dx {perm=[2,0,3,1,4]}
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/passes/rewrites/rules.h"
#include "ir/slice.h"

enum { RANK = 4, JOINT_RANK = 5, PARTS_AXIS = 2 };
static const int64_t swap[RANK] = {0, 2, 1, 3};
static const ArgName tensors[] = {ARG_q, ARG_k, ARG_v, ARG_out, ARG_g};
enum { N_TENSORS = sizeof tensors / sizeof *tensors, N_HEADS = 3 };  // heads: the first three

// Is v [B,H,T,D] a permutation of [B,T,H,D]?
static bool is_led(const Rules *r, Val v) {
  const Attr *perm = ir_perm_of(r->f, v);
  if (!perm || ir_rank(r->p, perm->u.list) != RANK) return false;
  for (uint32_t k = 0; k < RANK; k++)
    if (ir_list_at(r->p, perm->u.list, k) != swap[k]) return false;
  return true;
}

// Does it move nothing? One step or one head: simplify has made such a permutation a reshape.
static bool is_free(const Rules *r, Val v) {
  Shape s = ir_ins(r->f, v)->shape;
  return ir_dim_is_one(r->p, ir_dim_at(r->p, s, 1)) || ir_dim_is_one(r->p, ir_dim_at(r->p, s, 2));
}

static Val swapped(Rules *r, Val v, Loc loc) {
  Shape s = ir_ins(r->f, v)->shape;
  if (!is_free(r, v)) return ir_permuted(r->f, v, ir_shape_ints(r->p, swap, RANK), loc);
  Dim d[RANK];
  for (uint32_t k = 0; k < RANK; k++) d[k] = ir_dim_at(r->p, s, (uint32_t)swap[k]);
  return ir_reshaped(r->f, v, ir_shape(r->p, d, RANK), loc);
}

static Val heads_inside(Rules *r, Val v, Loc loc) { return is_led(r, v) ? ir_arg(r->f, v, 0) : swapped(r, v, loc); }

// ---- the instruction with other operands
static Val *operands_by_slot(Rules *r, Val v) {
  Val *args = rt_alloc(r->p->mem, ir_ops[ir_ins(r->f, v)->op].n_operands * sizeof *args);  // none: absent
  for (uint32_t k = 0; k < ir_ins(r->f, v)->n_args; k++) args[ir_operand_slot(r->f, v, k)] = ir_arg(r->f, v, k);
  return args;
}

static Val *slot_of(Rules *r, Val v, Val *args, ArgName name) {
  uint32_t at = ir_operand_at(r->f, v, name);
  return at == UINT32_MAX ? NULL : &args[ir_operand_slot(r->f, v, at)];
}

static Val emit_like(Rules *r, const Ins *ins, const Val *args, bool says_inside) {
  Attr *attrs = rt_alloc(r->p->mem, (ins->n_attrs + 1u) * sizeof *attrs);
  uint32_t n = 0;
  for (uint32_t k = 0; k < ins->n_attrs; k++)
    if (r->f->attrs[ins->attrs + k].key != KEY_heads_inside) attrs[n++] = r->f->attrs[ins->attrs + k];
  if (says_inside) attrs[n++] = ir_a_int(KEY_heads_inside, 1);
  Val now = ir_emit(r->f, (Op)ins->op, args, ir_ops[ins->op].n_operands, attrs, n, ins->loc);
  ir_copy_metadata(ir_ins(r->f, now), ins);
  return now;
}

// What result k of the instruction is from now on: `own` with heads inside, led outside where it was.
static void set_result(Rules *r, uint32_t k, Val own, bool was_inside, const Ins *ins) {
  r->result[k] = was_inside ? own : swapped(r, own, ins->loc);
  if (r->result[k].i != own.i) ir_copy_origin(ir_ins(r->f, r->result[k]), ins);
}

Val rule_heads_inside(Rules *r, Val v) {
  Fn *f = r->f;
  const Ins ins = *ir_ins(f, v);
  if (ir_has_operand(f, v, ARG_layout) || !ir_has_operand(f, v, ARG_v) || ir_attr(f, v, KEY_heads_inside))
    return (Val){0};
  for (uint32_t k = 0; k < N_HEADS; k++) {
    Val x = ir_operand(f, v, tensors[k]);
    if (!is_led(r, x) && !is_free(r, x)) return (Val){0};
  }
  if (!is_led(r, ir_operand(f, v, ARG_k)) && !is_led(r, ir_operand(f, v, ARG_v))) return (Val){0};
  Val *args = operands_by_slot(r, v);
  for (uint32_t k = 0; k < N_TENSORS; k++) {
    Val *x = slot_of(r, v, args, tensors[k]);
    if (x) *x = heads_inside(r, *x, ins.loc);
  }
  Val now = emit_like(r, &ins, args, true);
  if (ins.op == OP_sdpa_bias_grad) return now;
  for (uint32_t k = 0; k < ins.n_res; k++) set_result(r, k, ir_result(now, k), ins.op == OP_sdpa && k == 1, &ins);
  return r->result[0];
}

// ---- parts of one array
// Part k of n of an array that is [B,T,n,H,D], or can be seen so
typedef struct {
  Val base;
  int64_t k, n;
} Part;

static Val without_views(const Fn *f, Val v) {
  while (ir_ins(f, v)->op == OP_reshape) v = ir_arg(f, v, 0);
  return v;
}

// Is v, but for its shape, a slice by constants? Gives its place, number and size along its axis.
static bool is_block(const Rules *r, Val v, Slice *s, int64_t *start) {
  if (ir_ins(r->f, v)->op != OP_slice) return false;
  ir_slice(r->f, v, s);
  return ir_is_block(r->p, s, start) && ir_dim_is_const(r->p, s->size);
}

// Elements of v behind an axis; 0: a size of the run
static int64_t behind(const Rules *r, Val v, uint32_t axis) {
  Shape s = ir_ins(r->f, v)->shape;
  int64_t n = 1;
  for (uint32_t k = axis + 1; k < ir_rank(r->p, s); k++)
    n *= ir_dim_is_const(r->p, ir_dim_at(r->p, s, k)) ? ir_dim_bound(r->p, ir_dim_at(r->p, s, k)) : 0;
  return n;
}

// Is v, but for its shape, the same `size` elements of every row, of which the whole has a multiple?
static bool is_part_of_rows(const Rules *r, Val v, int64_t size, Part *p) {
  Slice s;
  int64_t start;
  v = without_views(r->f, v);
  if (!is_block(r, v, &s, &start)) return false;
  int64_t each = behind(r, v, s.axis), row = ir_dim_bound(r->p, s.size) * each;
  if (size <= 0 || ir_dim_bound(r->p, s.count) * each != size || start * each % size || row % size) return false;
  *p = (Part){ir_arg(r->f, v, 0), start * each / size, row / size};
  return true;
}

// The permutation of [B,T,n,H,D] that puts the parts at `axis` of the heads' axes, inside or led outside
static void joint_perm(uint32_t axis, bool inside, int64_t perm[JOINT_RANK]) {
  static const int64_t rest[2][RANK] = {{0, 3, 1, 4}, {0, 1, 3, 4}};
  for (uint32_t k = 0; k < JOINT_RANK; k++) perm[k] = k == axis ? PARTS_AXIS : rest[inside][k - (k > axis)];
}

// Has s the axes of v and one of one element more, `axis`?
static bool has_unit_at(const Rules *r, Shape s, Shape v, uint32_t axis) {
  if (ir_rank(r->p, s) != JOINT_RANK || ir_rank(r->p, v) != RANK || axis >= JOINT_RANK) return false;
  for (uint32_t k = 0; k < RANK; k++)
    if (ir_dim_at(r->p, s, k + (k >= axis)).i != ir_dim_at(r->p, v, k).i) return false;
  return ir_dim_is_one(r->p, ir_dim_at(r->p, s, axis));
}

// Is v one element along the axis of the parts of a permuted [B,T,n,H,D]?
static bool is_part_of_permuted(const Rules *r, Val v, bool inside, Part *p) {
  Slice s;
  int64_t perm[JOINT_RANK];
  Val of = without_views(r->f, v);
  if (!is_block(r, of, &s, &p->k) || !has_unit_at(r, ir_ins(r->f, of)->shape, ir_ins(r->f, v)->shape, s.axis))
    return false;
  const Attr *has = ir_perm_of(r->f, ir_arg(r->f, of, 0));
  if (!has) return false;
  joint_perm(s.axis, inside, perm);
  for (uint32_t k = 0; k < JOINT_RANK; k++)
    if (ir_list_at(r->p, has->u.list, k) != perm[k]) return false;
  p->base = ir_arg(r->f, ir_arg(r->f, of, 0), 0), p->n = ir_dim_bound(r->p, s.size);
  return true;
}

static int64_t elements(const Rules *r, Val v, uint32_t first, uint32_t second) {
  Shape s = ir_ins(r->f, v)->shape;
  return ir_dim_bound(r->p, ir_dim_at(r->p, s, first)) * ir_dim_bound(r->p, ir_dim_at(r->p, s, second));
}

static bool is_part(const Rules *r, Val v, bool inside, Part *p) {
  if (is_part_of_permuted(r, v, inside, p)) return true;
  int64_t size = elements(r, v, inside ? 2 : 1, 3);  // of all heads
  bool led = !inside && is_led(r, v);
  if (!inside && !led && !is_free(r, v)) return false;
  if (led && is_part_of_permuted(r, ir_arg(r->f, v, 0), true, p)) return true;
  return is_part_of_rows(r, led ? ir_arg(r->f, v, 0) : v, size, p);
}

// The parts first .. 3 are all of one array, in order.
static bool are_all(const Part *p, uint32_t first) {
  for (uint32_t k = first; k < N_HEADS; k++)
    if (p[k].base.i != p[first].base.i || p[k].k != k - first || p[k].n != N_HEADS - first) return false;
  return true;
}

// [B,T,n,H,D] of the heads of `of`
static Val as_joint(Rules *r, const Part *p, Val of, bool inside, Loc loc) {
  Shape s = ir_ins(r->f, of)->shape;
  Dim d[JOINT_RANK] = {ir_dim_at(r->p, s, 0), ir_dim_at(r->p, s, inside ? 1 : 2), ir_dim(r->p, p->n),
                       ir_dim_at(r->p, s, inside ? 2 : 1), ir_dim_at(r->p, s, 3)};
  return ir_reshaped(r->f, p->base, ir_shape(r->p, d, JOINT_RANK), loc);
}

// Part k of the gradient of such an array, [B,T,H,D]
static Val part_at(Rules *r, Val joint, int64_t k, Loc loc) {
  Attr at[] = {ir_a_int(KEY_axis, PARTS_AXIS), ir_a_dim(KEY_count, ir_dim(r->p, 1)),
               ir_a_dim(KEY_start, ir_dim(r->p, k))};
  Val x = ir_emit(r->f, OP_slice, &joint, 1, at, 3, loc);
  Dim d[RANK];
  for (uint32_t a = 0; a < RANK; a++) d[a] = ir_dim_at(r->p, ir_ins(r->f, x)->shape, a + (a >= PARTS_AXIS));
  return ir_reshaped(r->f, x, ir_shape(r->p, d, RANK), loc);
}

Val rule_joint_heads(Rules *r, Val v) {
  Fn *f = r->f;
  const Ins ins = *ir_ins(f, v);
  Part part[N_HEADS];
  if (ir_has_operand(f, v, ARG_layout) || !ir_has_operand(f, v, ARG_v)) return (Val){0};
  bool inside = ir_attr(f, v, KEY_heads_inside) != NULL, has_q = is_part(r, ir_operand(f, v, ARG_q), inside, &part[0]);
  for (uint32_t k = 1; k < N_HEADS; k++)
    if (!is_part(r, ir_operand(f, v, tensors[k]), inside, &part[k])) return (Val){0};
  Val q = ir_operand(f, v, ARG_q), key = ir_operand(f, v, ARG_k);
  uint32_t first = has_q && are_all(part, 0) ? 0 : 1;  // of the joint ones
  if (!are_all(part, first) || (first && !inside && !is_led(r, q) && !is_free(r, q))) return (Val){0};
  Val *args = operands_by_slot(r, v), joint = as_joint(r, &part[first], key, inside, ins.loc);
  *slot_of(r, v, args, ARG_v) = (Val){0};
  *slot_of(r, v, args, ARG_k) = first ? joint : (Val){0};
  for (uint32_t k = 0; k < N_TENSORS; k++) {
    Val *x = slot_of(r, v, args, tensors[k]);
    if (k == 0 && !first) *x = joint;
    else if (x && !inside && (k == 0 || k >= N_HEADS)) *x = heads_inside(r, *x, ins.loc);
  }
  Val now = emit_like(r, &ins, args, false);
  if (ins.op == OP_sdpa_bias_grad) return now;
  for (uint32_t k = 0; k < ins.n_res; k++) {
    Val own = ir_result(now, k);
    if (ins.op == OP_sdpa_grad && k >= first) own = part_at(r, ir_result(now, first), k - first, ins.loc);
    set_result(r, k, own, inside || (ins.op == OP_sdpa && k == 1), &ins);
  }
  return r->result[0];
}

// ---- the gradient of such an array
// Is v part k of a gradient [B,T,n,H,D] that attention makes, led outside or not?
static bool is_part_of_gradient(const Rules *r, Val v, Part *p, bool *led) {
  Val x = without_views(r->f, v);
  *led = is_led(r, x);
  if (*led) x = without_views(r->f, ir_arg(r->f, x, 0));
  if (ir_ins(r->f, x)->op != OP_slice) return false;
  Val of = ir_arg(r->f, x, 0);
  if (ir_ins(r->f, ir_head(r->f, of))->op != OP_sdpa_grad || ir_rank(r->p, ir_ins(r->f, of)->shape) != JOINT_RANK)
    return false;
  return is_part_of_rows(r, x, elements(r, of, 3, 4), p);
}

Val ir_joint_gradient(Rules *r, const Val *v, uint32_t n, uint32_t axis, Shape shape, Loc loc) {
  Part part = {{0}, 0, 0};
  bool led = false;
  for (uint32_t k = 0; k < n; k++) {
    Part own;
    bool own_led;
    if (!is_part_of_gradient(r, v[k], &own, &own_led) || own.k != k || own.n != n) return (Val){0};
    if (k && (own.base.i != part.base.i || own_led != led)) return (Val){0};
    part = own, led = own_led;
  }
  if (!n) return (Val){0};
  Shape of = ir_ins(r->f, v[0])->shape, joint = ir_ins(r->f, part.base)->shape;
  int64_t each = ir_dim_bound(r->p, ir_dim_at(r->p, of, axis)) * behind(r, v[0], axis), perm[JOINT_RANK];
  if (!led && each == elements(r, part.base, 3, 4)) return ir_reshaped(r->f, part.base, shape, loc);
  if (ir_rank(r->p, of) != JOINT_RANK) return (Val){0};
  joint_perm(axis, !led, perm);
  for (uint32_t k = 0; k < JOINT_RANK; k++) {
    Dim has = ir_dim_at(r->p, of, k), whole = ir_dim_at(r->p, joint, (uint32_t)perm[k]);
    if (k == axis ? !ir_dim_is_one(r->p, has) : has.i != whole.i) return (Val){0};
  }
  return ir_permuted(r->f, part.base, ir_shape_ints(r->p, perm, JOINT_RANK), loc);
}
