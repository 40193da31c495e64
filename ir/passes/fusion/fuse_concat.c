// Which kernels a concat may share.
//
//   %c = concat %a, %b {axis=1} : f32[n,400]     of f32[n,320] and f32[n,80]: a kernel that works on whole vectors of
//   %y = tanh %c : f32[n,400]                    each operand, row by row
//   %d = concat %p, %q {axis=1} : f32[n,2]       of columns: a kernel of its own, which moves numbers
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/fusion/groups.h"
#include "ir/passes/plan.h"
#include "ir/slice.h"

static int64_t bound_between(const Fn *f, Val v, uint32_t from, uint32_t to) {
  int64_t n = 1;
  for (uint32_t k = from; k < to; k++) n *= ir_dim_bound(f->prog, ir_dim_at(f->prog, ir_ins(f, v)->shape, k));
  return n;
}

bool ir_is_narrow_concat(const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  if (ins->op != OP_concat) return false;
  uint32_t axis = (uint32_t)ir_attr_int(f, v, KEY_axis, 0), rank = ir_rank(f->prog, ins->shape);
  return bound_between(f, v, axis, rank) < ins->n_args * f->prog->target.lanes;
}

static bool same_cuts(const Fn *f, Val a, Val b) {
  uint32_t axis = (uint32_t)ir_attr_int(f, a, KEY_axis, 0), n = ir_ins(f, a)->n_args;
  if ((uint32_t)ir_attr_int(f, b, KEY_axis, 0) != axis || ir_ins(f, b)->n_args != n) return false;
  for (uint32_t k = 0; k < n; k++)
    if (ir_concat_part(f, a, k).count.i != ir_concat_part(f, b, k).count.i) return false;
  return true;
}

// A permutation is read in squares, which do not end where segments do.
static bool pair_fits(const Fn *f, Val a, Val b) {
  Op x = (Op)ir_ins(f, a)->op, y = (Op)ir_ins(f, b)->op;
  if (x == OP_concat && y == OP_concat) return same_cuts(f, a, b);
  return !(x == OP_concat && y == OP_permute) && !(x == OP_permute && y == OP_concat);
}

bool ir_concat_pair_fits(const Fn *f, Val a, Val b) {
  return !ir_is_narrow_concat(f, a) && !ir_is_narrow_concat(f, b) && pair_fits(f, a, b);
}
