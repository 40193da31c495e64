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
  Attr perm = ir_a_list(KEY_perm, ir_shape_ints(r->p, list, n));
  return ir_emit(r->f, OP_permute, &a, 1, &perm, 1, ir_ins(r->f, v)->loc);
}

// Rows along another axis lie side by side already; a permutation would interleave them:
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
  Val rows = ir_emit(f, (Op)ins.op, of, ins.n_args, &to, 1, ins.loc);
  rows = ir_eliminate_common(r, rows);
  ir_copy_metadata(ir_ins(f, rows), &ins);
  Val y = ir_emit(f, OP_permute, &rows, 1, &back, 1, ins.loc);
  ir_copy_origin(ir_ins(f, y), &ins);
  return y;
}

// ---- slices that a concat reads
// The operand of which operand k of the concat is a block along the concat's axis; *start is moved to where that begins. None: it
// is no block of anything in memory.
static Val block_of(const Rules *r, Val v, uint32_t k, int64_t *start) {
  Val a = ir_arg(r->f, v, k);
  Slice s;
  int64_t from;
  if (ir_ins(r->f, a)->op != OP_slice || ir_is_immediate(r->f, ir_view_base(r->f, ir_arg(r->f, a, 0)))) return (Val){0};
  ir_slice(r->f, a, &s);
  if (s.axis != (uint32_t)ir_attr_int(r->f, v, KEY_axis, 0) || !ir_is_block(r->p, &s, &from)) return (Val){0};
  *start += from;
  return ir_arg(r->f, a, 0);
}

Val rule_concat_of_slices(Rules *r, Val v) {
  const Ins ins = *ir_ins(r->f, v);
  Val *of = rt_alloc(r->p->mem, ins.n_args * sizeof *of);
  Dim *start = rt_alloc(r->p->mem, 2 * ins.n_args * sizeof *start), *count = start + ins.n_args;
  bool any = false;
  for (uint32_t k = 0; k < ins.n_args; k++) {
    ConcatPart part = ir_concat_part(r->f, v, k);
    Val block = block_of(r, v, k, &part.start);
    any |= !ir_none(block);
    of[k] = ir_none(block) ? ir_arg(r->f, v, k) : block;
    start[k] = ir_dim(r->p, part.start), count[k] = part.count;
    if (!ir_dim_is_const(r->p, part.count)) return (Val){0};
  }
  if (!any) return (Val){0};
  Attr attrs[] = {ir_a_int(KEY_axis, ir_attr_int(r->f, v, KEY_axis, 0)),
                  ir_a_list(KEY_starts, ir_shape(r->p, start, ins.n_args)),
                  ir_a_list(KEY_counts, ir_shape(r->p, count, ins.n_args))};
  return ir_emit(r->f, OP_concat, of, ins.n_args, attrs, 3, ins.loc);
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
