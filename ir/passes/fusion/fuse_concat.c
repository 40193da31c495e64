// Which kernels a concat may share.
//
//   %c = concat %a, %b {axis=1} : f32[n,400]     of f32[n,320] and f32[n,80]: a kernel that works on whole vectors of
//   %y = tanh %c : f32[n,400]                    each operand, row by row
//   %p = mul %x, %y : f32[n,1]                   columns are stored by the kernel that makes them, one between the other; with
//   %d = concat %p, %q {axis=1} : f32[n,2]       longer runs than one element it is a kernel of its own, which moves numbers
//
//   %u = concat %x, %x {axis=2} : f32[n,8,20]    nested: one kernel makes the lines of %v from %x, and %u is not stored
//   %v = concat %u, %u, %y {axis=1}
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

// ---- a row of the result, which is made by straight-line code
// Elements of `along` rows of v's axes behind `axis`; -1: not a constant.
static int64_t run_of(const Fn *f, Val v, uint32_t axis, Dim along) {
  Shape s = ir_ins(f, v)->shape;
  int64_t n = ir_dim_is_const(f->prog, along) ? ir_dim_bound(f->prog, along) : -1;
  for (uint32_t k = axis + 1; n >= 0 && k < ir_rank(f->prog, s); k++) {
    Dim d = ir_dim_at(f->prog, s, k);
    n = ir_dim_is_const(f->prog, d) ? n * ir_dim_bound(f->prog, d) : -1;
  }
  return n;
}

static int64_t moves_of(int64_t run, int64_t lanes) { return run / lanes + 2; }
static uint32_t axis_of(const Fn *f, Val v) { return (uint32_t)ir_attr_int(f, v, KEY_axis, 0); }

int64_t ir_concat_moves(const Fn *f, Val v, int64_t lanes) {
  int64_t n = 0;
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args && n <= CONCAT_MOST_MOVES; k++) {
    int64_t run = run_of(f, v, axis_of(f, v), ir_concat_part(f, v, k).count);
    if (run < 0) return -1;
    n += moves_of(run, lanes);
  }
  return n;
}

// ---- nested concats
static bool reads(const Fn *f, Val v, Val of) {
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++)
    if (ir_arg(f, v, k).i == of.i) return true;
  return false;
}

bool ir_is_nested_concat(const Fn *f, Val u, Val v) {
  bool are_concats = ir_ins(f, u)->op == OP_concat && ir_ins(f, v)->op == OP_concat;
  return are_concats && reads(f, v, u) && axis_of(f, u) > axis_of(f, v);
}

static bool is_read_by_alone(const Groups *g, Val u, Val v) {
  for (uint32_t k = g->uses.first[u.i]; k < g->uses.first[u.i + 1]; k++)
    if (g->uses.user[k] != v.i) return false;
  return true;
}

// Moves of the lines of all operands of v, each of which has code of its own.
static bool has_few_moves(const Groups *g, const Group *k, Val v, Val other) {
  const Fn *f = g->f;
  int64_t n = 0;
  for (uint32_t a = 0; a < ir_ins(f, v)->n_args && n <= CONCAT_MOST_MOVES; a++) {
    Val u = ir_arg(f, v, a);
    bool is_inside = u.i == other.i;
    for (uint32_t i = k->first; i && !is_inside; i = g->next[i]) is_inside = i == u.i;
    if (is_inside) {
      int64_t moves = ir_concat_moves(f, u, f->prog->target.lanes);
      n = moves < 0 ? CONCAT_MOST_MOVES + 1 : n + moves;
    } else {
      int64_t run = run_of(f, v, axis_of(f, v), ir_dim(f->prog, 1));
      n = run < 0 ? CONCAT_MOST_MOVES + 1 : n + moves_of(run, f->prog->target.lanes);
    }
  }
  return n <= CONCAT_MOST_MOVES;
}

bool ir_is_nest(const Groups *g, const Group *k) {
  if (!k->first || g->f->ins[k->first].op != OP_concat) return false;
  for (uint32_t i = g->next[k->first]; i; i = g->next[i])
    if (ir_is_nested_concat(g->f, (Val){k->first}, (Val){i})) return true;
  return false;
}

bool ir_joins_nest(const Groups *g, const Group *k, Val v) {
  if (ir_ins(g->f, v)->op != OP_concat || !k->first || (g->wanted && !ir_none(g->wanted[v.i]))) return false;
  Val outer = v;
  for (uint32_t i = k->first; i; i = g->next[i])
    if (i > outer.i) outer.i = i;
  for (uint32_t i = k->first; i; i = g->next[i])
    if (i != outer.i && !(ir_is_nested_concat(g->f, (Val){i}, outer) && is_read_by_alone(g, (Val){i}, outer)))
      return false;
  if (v.i != outer.i && !(ir_is_nested_concat(g->f, v, outer) && is_read_by_alone(g, v, outer))) return false;
  return has_few_moves(g, k, outer, v);
}

// ---- concats in a kernel of pointwise instructions
Shape ir_shape_of_elements(const Groups *g, const Group *k) {
  for (uint32_t i = k->first; i; i = g->next[i])
    if (!ir_is_interleaved(g->f, (Val){i})) return g->f->ins[i].shape;
  return ir_ins(g->f, ir_arg(g->f, (Val){k->first}, 0))->shape;
}

bool ir_is_narrow_concat(const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  if (ins->op != OP_concat) return false;
  uint32_t axis = (uint32_t)ir_attr_int(f, v, KEY_axis, 0), rank = ir_rank(f->prog, ins->shape);
  return bound_between(f, v, axis, rank) < ins->n_args * f->prog->target.lanes;
}

bool ir_is_interleaved(const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  if (ins->op != OP_concat || ir_attr(f, v, KEY_starts) || ins->n_args < 2 || ins->n_args > IR_MOST_COLUMNS)
    return false;
  for (uint32_t k = 0; k < ins->n_args; k++)
    for (uint32_t j = axis_of(f, v); j < ir_rank(f->prog, ins->shape); j++)
      if (!ir_dim_is_one(f->prog, ir_dim_at(f->prog, ir_ins(f, ir_arg(f, v, k))->shape, j))) return false;
  return ins->n_args <= f->prog->target.lanes;
}

static bool same_cuts(const Fn *f, Val a, Val b) {
  uint32_t axis = (uint32_t)ir_attr_int(f, a, KEY_axis, 0), n = ir_ins(f, a)->n_args;
  if ((uint32_t)ir_attr_int(f, b, KEY_axis, 0) != axis || ir_ins(f, b)->n_args != n) return false;
  for (uint32_t k = 0; k < n; k++)
    if (ir_concat_part(f, a, k).count.i != ir_concat_part(f, b, k).count.i) return false;
  return true;
}

static bool permutes(const Fn *f, Val v) {
  return ir_ins(f, v)->op == OP_permute || (ir_ins(f, v)->op == OP_crop && ir_attr(f, v, KEY_perm));
}

// A permutation is read in squares, which do not end where segments do.
static bool pair_fits(const Fn *f, Val a, Val b) {
  Op x = (Op)ir_ins(f, a)->op, y = (Op)ir_ins(f, b)->op;
  if (x == OP_concat && y == OP_concat) return same_cuts(f, a, b);
  return !(x == OP_concat && permutes(f, b)) && !(y == OP_concat && permutes(f, a));
}

bool ir_concat_pair_fits(const Fn *f, Val a, Val b) {
  bool is_store = ir_is_interleaved(f, a) || ir_is_interleaved(f, b);
  if (ir_is_narrow_concat(f, a) && !ir_is_interleaved(f, a)) return false;
  if (ir_is_narrow_concat(f, b) && !ir_is_interleaved(f, b)) return false;
  return is_store || pair_fits(f, a, b);
}
