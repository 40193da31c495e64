// Rules of columns, which programs take from arrays of pairs, or of a few numbers, and put side by side again:
//
//   %r = slice %a {axis=1, start=0, count=1} : f32[n,1]     %p = mul (reshape %r), (reshape %s) : f32[n]
//   %y = concat (reshape %p), (reshape %q) {axis=1} : f32[n,2]
//     ->  %p = mul %r, %s : f32[n,1]     %y = concat %p, %q {axis=1}      one kernel, which reads and stores columns
//
// and of the gradient of the array, a sum with a term for each column:
//
//   %g = add (pad_axis %u {axis=1, start=0}), (pad_axis %v {axis=1, start=1}) : f32[n,2]
//     ->  %g = concat (add %u, 0), (add %v, 0) {axis=1}
//
// or for every second element, every third ..: those that lie side by side there are a row of columns
//
//   %g = add (slice_assign 0, %u {axis=0, start=0, step=2}), (slice_assign 0, %v {axis=0, start=1, step=2}) : f32[2 n]
//     ->  %g = reshape (concat (reshape (add %u, 0) : f32[n,1]), (reshape (add %v, 0)) {axis=1}) : f32[2 n]
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/rewrites/rules.h"
#include "ir/slice.h"
#include "ir/storage.h"
#include <math.h>

// ---- the last axis, of one element, is dropped behind what is done to a column, not before it
// Does `wide` have the axes of s and one more, of one element, at the end?
static bool has_unit_behind(const Prog *p, Shape wide, Shape s) {
  uint32_t rank = ir_rank(p, s);
  if (ir_rank(p, wide) != rank + 1 || rank == 0 || !ir_dim_is_one(p, ir_dim_at(p, wide, rank))) return false;
  for (uint32_t k = 0; k < rank; k++)
    if (ir_dim_at(p, wide, k).i != ir_dim_at(p, s, k).i) return false;
  return true;
}

// v is a column without its last axis.
static bool is_bare_column(const Rules *r, Val v) {
  if (ir_ins(r->f, v)->op != OP_reshape) return false;
  Val a = ir_arg(r->f, v, 0);
  bool is_made = ir_ins(r->f, a)->op == OP_slice || ir_ops[ir_ins(r->f, a)->op].is_pointwise;
  return is_made && has_unit_behind(r->p, ir_ins(r->f, a)->shape, ir_ins(r->f, v)->shape);
}

// The operand with that axis; none: what makes it, maybe in a kernel with others, has its own shape.
static Val with_unit(Rules *r, Val a, Shape wide, Loc loc) {
  const Fn *f = r->f;
  if (ir_rank(r->p, ir_ins(f, a)->shape) == 0) return a;
  if (is_bare_column(r, a)) return ir_arg(f, a, 0);
  Val base = ir_view_base(f, a);
  if (ir_ops[ir_ins(f, base)->op].cls != CLASS_LEAF || !has_unit_behind(r->p, wide, ir_ins(f, a)->shape))
    return (Val){0};
  return ir_reshaped(r->f, a, wide, loc);
}

// v, or what it is a view of in the same shape
static Val seen(const Fn *f, Val v) {
  while (ir_ins(f, v)->op == OP_reshape && ir_ins(f, ir_arg(f, v, 0))->shape.i == ir_ins(f, v)->shape.i)
    v = ir_arg(f, v, 0);
  return v;
}

// Operands that lost the axis and have it again are read as they were.
static bool strip_views(Rules *r, Val v) {
  bool any = false;
  for (uint32_t k = 0; k < ir_ins(r->f, v)->n_args; k++) {
    Val a = ir_arg(r->f, v, k), base = seen(r->f, a);
    if (base.i == a.i || !ir_ops[ir_ins(r->f, base)->op].is_pointwise) continue;
    ir_set_arg(r->f, v, k, base);
    any = true;
  }
  return any;
}

Val rule_bare_columns(Rules *r, Val v) {
  Fn *f = r->f;
  const Ins ins = *ir_ins(f, v);
  Shape wide = {0};
  bool any = false;
  if (ir_ops[ins.op].flags & (RANDOM | EFFECT | WRITES)) return (Val){0};
  if (strip_views(r, v)) return v;
  for (uint32_t k = 0; k < ins.n_args; k++) {
    Val a = ir_arg(f, v, k);
    if (!is_bare_column(r, a) || ir_ins(f, a)->shape.i != ins.shape.i) continue;
    wide = ir_ins(f, ir_arg(f, a, 0))->shape, any = true;
  }
  Val of[3];
  for (uint32_t k = 0; any && k < ins.n_args; k++) {
    Shape s = ir_ins(f, ir_arg(f, v, k))->shape;
    if (s.i != ins.shape.i && ir_rank(r->p, s) > 0) return (Val){0};
    of[k] = with_unit(r, ir_arg(f, v, k), wide, ins.loc);
    if (ir_none(of[k])) return (Val){0};
  }
  if (!any) return (Val){0};
  Val y = ir_eliminate_common(r, ir_emit_like(f, &ins, of, NULL));
  ir_copy_metadata(ir_ins(f, y), &ins);
  Val bare = ir_reshaped(f, y, ins.shape, ins.loc);
  ir_copy_origin(ir_ins(f, bare), &ins);
  return bare;
}

// ---- a sum of parts along an axis that are nothing elsewhere
enum { MOST_PARTS = 16, MOST_TERMS = 64, FEW = 4 };

typedef struct {
  const Rules *r;
  uint32_t axis, n, n_terms;
  int64_t step;                                  // of every part; 0: there is none yet
  int64_t start[MOST_PARTS], count[MOST_PARTS];  // without double ones, in order
} PadSum;

static bool is_term(const PadSum *s, Val v) {
  return ir_ins(s->r->f, v)->op == OP_add && ir_ins(s->r->f, v)->dtype == DT_F32;
}

static bool add_part(PadSum *s, int64_t start, int64_t count) {
  uint32_t at = 0;
  while (at < s->n && s->start[at] < start) at++;
  if (at < s->n && s->start[at] == start) return s->count[at] == count;
  if (s->n == MOST_PARTS) return false;
  for (uint32_t k = s->n++; k > at; k--) s->start[k] = s->start[k - 1], s->count[k] = s->count[k - 1];
  s->start[at] = start, s->count[at] = count;
  return true;
}

static int64_t size_along(const PadSum *s, Val v) {  // -1: no constant
  Dim d = ir_dim_at(s->r->p, ir_ins(s->r->f, v)->shape, s->axis);
  return ir_dim_is_const(s->r->p, d) ? ir_dim_bound(s->r->p, d) : -1;
}

// v assigns to elements that are 0, by steps.
static bool is_by_steps(const Rules *r, Val v, Slice *s) {
  double x;
  if (ir_ins(r->f, v)->op != OP_slice_assign) return false;
  ir_slice(r->f, v, s);
  bool is_zero = ir_is_number(r->f, ir_arg(r->f, v, 0), &x) && x == 0 && !signbit(x);
  bool is_known = ir_none(s->at) && ir_dim_is_const(r->p, s->start) && ir_dim_is_const(r->p, s->step);
  return is_zero && is_known && !s->reverse && ir_dim_bound(r->p, s->step) > 1;
}

// Operands of a concat lie one behind the other; the one of a pad where it says. -1: operand k is no part.
static int64_t start_of(const PadSum *s, Val v, uint32_t k) {
  int64_t at = 0;
  Slice by;
  if (is_by_steps(s->r, v, &by)) return k == 1 ? ir_dim_bound(s->r->p, by.start) : -1;
  if (ir_ins(s->r->f, v)->op == OP_pad_axis) return ir_attr_size(s->r->f, v, KEY_start, 0);
  for (uint32_t i = 0; i < k; i++) at += size_along(s, ir_arg(s->r->f, v, i));
  return at;
}

static bool collect_parts(PadSum *s, Val v, Shape whole, uint32_t depth) {
  const Fn *f = s->r->f;
  if (ir_ins(f, v)->shape.i != whole.i || depth > MOST_PARTS || ++s->n_terms > MOST_TERMS) return false;
  if (is_term(s, v))
    return collect_parts(s, ir_arg(f, v, 0), whole, depth + 1) && collect_parts(s, ir_arg(f, v, 1), whole, depth + 1);
  Slice by;
  bool is_concat = ir_ins(f, v)->op == OP_concat && !ir_attr(f, v, KEY_starts);
  uint32_t axis = (uint32_t)ir_attr_int(f, v, KEY_axis, 0);
  int64_t step = is_by_steps(s->r, v, &by) ? ir_dim_bound(s->r->p, by.step) : 1;
  if (ir_ins(f, v)->op != OP_pad_axis && !is_concat && step == 1) return false;
  if (step == 1 && ir_ops[ir_ins(f, ir_arg(f, v, 0))->op].cls == CLASS_INDEX)
    return false;  // pass compose_maps reads it
  if (s->step && (axis != s->axis || step != s->step)) return false;
  s->step = step, s->axis = axis;
  for (uint32_t k = step > 1; k < ir_ins(f, v)->n_args; k++) {
    int64_t start = start_of(s, v, k), count = size_along(s, ir_arg(f, v, k));
    if (start < 0 || count < 0 || !add_part(s, start, count)) return false;
  }
  return true;
}

static bool are_whole(const PadSum *s, Shape whole) {
  int64_t at = 0;
  for (uint32_t k = 0; k < s->n; at += s->count[k++])
    if (s->start[k] != (s->step > 1 ? k : at) || (s->step > 1 && s->count[k] != s->count[0])) return false;
  Dim size = ir_dim_at(s->r->p, whole, s->axis);
  if (s->step > 1 && (s->n != s->step || ir_rank(s->r->p, whole) == MAX_RANK)) return false;
  return s->n > 1 && ir_dim_is_const(s->r->p, size) && ir_dim_bound(s->r->p, size) == at;
}

// The sum of the terms that have this part, in their order; none: v has no such term.
static Val sum_of_part(PadSum *s, Val v, int64_t start, Loc loc) {
  Fn *f = s->r->f;
  for (uint32_t k = 0; !is_term(s, v) && k < ir_ins(f, v)->n_args; k++)
    if (start_of(s, v, k) == start) return seen(f, ir_arg(f, v, k));
  if (!is_term(s, v)) return (Val){0};
  Val in[] = {sum_of_part(s, ir_arg(f, v, 0), start, loc), (Val){0}};
  in[1] = sum_of_part(s, ir_arg(f, v, 1), start, loc);
  if (ir_none(in[0]) || ir_none(in[1])) return ir_none(in[0]) ? in[1] : in[0];
  return ir_emit(f, OP_add, in, 2, NULL, 0, loc);
}

// Some term of v is 0: it is not -0.
static bool has_zero(const Rules *r, Val v, uint32_t depth) {
  float x;
  if (ir_ins(r->f, v)->op != OP_add || depth == FEW) return false;
  for (uint32_t k = 0; k < 2; k++) {
    Val a = ir_arg(r->f, v, k);
    if ((ir_is_scalar_number(r->f, a, &x) && x == 0 && !signbit(x)) || has_zero(r, a, depth + 1)) return true;
  }
  return false;
}

static Val side_by_side(Rules *r, const PadSum *s, Val *part, Loc loc) {
  Attr axis = ir_a_int(KEY_axis, s->step > 1 ? s->axis + 1 : s->axis);
  Dim d[MAX_RANK];
  Shape column = ir_ins(r->f, part[0])->shape;
  for (uint32_t k = 0, at = 0; s->step > 1 && k < ir_rank(r->p, column); k++) {
    d[at++] = ir_dim_at(r->p, column, k);
    if (k == s->axis) d[at++] = ir_dim(r->p, 1);
  }
  for (uint32_t k = 0; s->step > 1 && k < s->n; k++)
    part[k] = ir_reshaped(r->f, part[k], ir_shape(r->p, d, ir_rank(r->p, column) + 1), loc);
  return ir_emit(r->f, OP_concat, part, s->n, &axis, 1, loc);
}

// 0 + -0 is 0, as where the others add nothing.
Val rule_parts_of_sum(Rules *r, Val v) {
  Fn *f = r->f;
  const Ins ins = *ir_ins(f, v);
  PadSum s = {.r = r};
  Val part[MOST_PARTS];
  if (!is_term(&s, v) || !collect_parts(&s, v, ins.shape, 0) || !are_whole(&s, ins.shape)) return (Val){0};
  for (uint32_t k = 0; k < s.n; k++) part[k] = sum_of_part(&s, v, s.start[k], ins.loc);
  Val joint = s.step == 1 ? ir_joint_gradient(r, part, s.n, s.axis, ins.shape, ins.loc) : (Val){0};
  if (!ir_none(joint)) return joint;
  for (uint32_t k = 0; k < s.n; k++) {
    Val in[] = {part[k], ir_const(f, 0, ins.loc)};
    part[k] = has_zero(r, in[0], 0) ? in[0] : ir_emit(f, OP_add, in, 2, NULL, 0, ins.loc);
    if (part[k].i == in[0].i) continue;
    ir_copy_origin(ir_ins(f, part[k]), &ins);
  }
  Val y = side_by_side(r, &s, part, ins.loc);
  if (s.step > 1) y = ir_reshaped(f, y, ins.shape, ins.loc);
  ir_copy_metadata(ir_ins(f, y), &ins);
  return y;
}
