// Rules of permutations and views.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/plan.h"
#include "ir/passes/rewrites/rules.h"
#include "ir/slice.h"
#include "ir/storage.h"

// ---- permutations
const Attr *ir_perm_of(const Fn *f, Val v) { return ir_ins(f, v)->op == OP_permute ? ir_attr(f, v, KEY_perm) : NULL; }

Val rule_fold_permute(Rules *r, Val v) {
  const Attr *outer = ir_perm_of(r->f, v);
  Val a = ir_arg(r->f, v, 0);
  const Attr *inner = ir_perm_of(r->f, a);
  uint32_t n = ir_rank(r->p, outer->u.list);
  int64_t list[MAX_RANK];
  bool moves = false;
  for (uint32_t k = 0; k < n; k++) {
    list[k] = ir_list_at(r->p, outer->u.list, k);
    if (inner) list[k] = ir_list_at(r->p, inner->u.list, (uint32_t)list[k]);
    moves |= list[k] != k;
  }
  if (inner) a = ir_arg(r->f, a, 0);
  if (!moves) return a;
  if (!inner) return (Val){0};
  return ir_permuted(r->f, a, ir_shape_ints(r->p, list, n), ir_ins(r->f, v)->loc);
}

// Rows along another axis lie side by side already; a permutation would interleave them. Norms, which have numbers of rows as well,
// are left to choose_layouts:
Val rule_rows_of_permuted(Rules *r, Val v) {
  Fn *f = r->f;
  const Ins ins = *ir_ins(f, v);
  const Attr *perm = !ir_attr(f, v, KEY_axis) ? ir_perm_of(f, ir_arg(f, v, 0)) : NULL;
  if (!perm) return (Val){0};
  Attr back = *perm;
  Val of[2];
  for (uint32_t k = 0; k < ins.n_args; k++) {
    const Attr *own = ir_perm_of(f, ir_arg(f, v, k));
    if (!own || own->u.list.i != back.u.list.i) return (Val){0};
    of[k] = ir_arg(f, ir_arg(f, v, k), 0);
  }
  int64_t axis = ir_list_at(r->p, back.u.list, ir_rank(r->p, back.u.list) - 1);
  if (!ir_row_is_strided(r->p, (RowSpace){ir_ins(f, of[0])->shape, (uint32_t)axis})) return (Val){0};
  Attr to = ir_a_int(KEY_axis, axis);
  Val rows = ir_emit_like(f, &ins, of, &to);
  rows = ir_eliminate_common(r, rows);
  ir_copy_metadata(ir_ins(f, rows), &ins);
  Val y = ir_emit(f, OP_permute, &rows, 1, &back, 1, ins.loc);
  ir_copy_origin(ir_ins(f, y), &ins);
  return y;
}

// ---- slices that a concat reads
enum { MOST_SINGLE = 16 };  // elements of a reversed slice or of a repeated one, which are parts of their own

typedef struct {
  Val *of;
  Dim *start, *count;
  uint32_t n;
} Parts;

static void add_part(const Rules *r, Parts *p, Val v, int64_t start, Dim count) {
  p->of[p->n] = v, p->start[p->n] = ir_dim(r->p, start), p->count[p->n++] = count;
}

// Is v a slice along the axis, by steps of 1, of constants, of what is in memory?
static bool is_slice_along(const Rules *r, Val v, uint32_t axis, Slice *s) {
  int64_t start;
  if (ir_ins(r->f, v)->op != OP_slice || ir_is_immediate(r->f, ir_view_base(r->f, ir_arg(r->f, v, 0)))) return false;
  ir_slice(r->f, v, s);
  Slice forward = *s;
  forward.reverse = false;
  return s->axis == axis && ir_is_block(r->p, &forward, &start);
}

// The elements from *start on of v are those from *start on of it.
static Val in_place(const Rules *r, Val v, uint32_t axis, int64_t *start) {
  Slice s;
  for (; is_slice_along(r, v, axis, &s) && !s.reverse; v = ir_arg(r->f, v, 0)) *start += ir_dim_bound(r->p, s.start);
  return v;
}

// Is v one element along the axis, repeated?
static bool is_repeated(const Rules *r, Val v, uint32_t axis) {
  if (ir_ins(r->f, v)->op != OP_expand || ir_attr(r->f, v, KEY_reader)) return false;
  Val a = ir_arg(r->f, v, 0);
  Shape from = ir_ins(r->f, a)->shape, to = ir_ins(r->f, v)->shape;
  if (ir_is_immediate(r->f, ir_view_base(r->f, a)) || ir_rank(r->p, from) != ir_rank(r->p, to)) return false;
  for (uint32_t k = 0; k < ir_rank(r->p, to); k++)
    if (k != axis && ir_dim_at(r->p, from, k).i != ir_dim_at(r->p, to, k).i) return false;
  return ir_dim_is_one(r->p, ir_dim_at(r->p, from, axis));
}

static void add_repeated(const Rules *r, Val v, uint32_t axis, int64_t count, Parts *p) {
  int64_t at = 0;
  Val of = in_place(r, ir_arg(r->f, v, 0), axis, &at);
  for (int64_t i = 0; i < count; i++) add_part(r, p, of, at, ir_dim(r->p, 1));
}

// Operand k of the concat, where it lies: a block of what it is a slice of, or the elements of a short one that is reversed or
// repeats one.
static void add_operand(const Rules *r, Val v, uint32_t k, Parts *p) {
  ConcatPart own = ir_concat_part(r->f, v, k);
  uint32_t axis = (uint32_t)ir_attr_int(r->f, v, KEY_axis, 0);
  int64_t start = own.start, count = ir_dim_bound(r->p, own.count);
  Val a = in_place(r, ir_arg(r->f, v, k), axis, &start);
  Slice s;
  if (is_repeated(r, a, axis) && count <= MOST_SINGLE) {
    add_repeated(r, a, axis, count, p);
    return;
  }
  if (!is_slice_along(r, a, axis, &s) || count > MOST_SINGLE) {
    add_part(r, p, a, start, own.count);
    return;
  }
  int64_t last = ir_dim_bound(r->p, s.size) - 1 - ir_dim_bound(r->p, s.start) - start;
  for (int64_t i = 0; i < count; i++) {
    int64_t at = last - i;
    Val of = in_place(r, ir_arg(r->f, a, 0), axis, &at);
    add_part(r, p, of, at, ir_dim(r->p, 1));
  }
}

Val rule_concat_of_slices(Rules *r, Val v) {
  const Ins ins = *ir_ins(r->f, v);
  uint32_t most = ins.n_args + MOST_SINGLE * ins.n_args;
  Parts p = {.of = rt_alloc(r->p->mem, most * sizeof *p.of), .start = rt_alloc(r->p->mem, most * sizeof *p.start)};
  p.count = rt_alloc(r->p->mem, most * sizeof *p.count);
  bool any = false;
  for (uint32_t k = 0; k < ins.n_args; k++)
    if (!ir_dim_is_const(r->p, ir_concat_part(r->f, v, k).count)) return (Val){0};
  for (uint32_t k = 0; k < ins.n_args; k++) {
    uint32_t n = p.n;
    add_operand(r, v, k, &p);
    any |= p.n != n + 1 || p.of[n].i != ir_arg(r->f, v, k).i;
  }
  if (!any || p.n > ir_ops[OP_concat].n_max || p.n == 0) return (Val){0};
  Attr attrs[] = {ir_a_int(KEY_axis, ir_attr_int(r->f, v, KEY_axis, 0)),
                  ir_a_list(KEY_starts, ir_shape(r->p, p.start, p.n)),
                  ir_a_list(KEY_counts, ir_shape(r->p, p.count, p.n))};
  return ir_emit(r->f, OP_concat, p.of, p.n, attrs, 3, ins.loc);
}

// ---- views
Val rule_same_shape(Rules *r, Val v) {
  Val a = ir_arg(r->f, v, 0);
  return ir_ins(r->f, a)->shape.i == ir_ins(r->f, v)->shape.i ? a : (Val){0};
}

Val rule_reshape_of_reshape(Rules *r, Val v) {
  Val a = ir_arg(r->f, v, 0);
  if (ir_ins(r->f, a)->op != OP_reshape) return (Val){0};
  ir_set_arg(r->f, v, 0, ir_arg(r->f, a, 0));
  return v;
}
