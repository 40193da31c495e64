// Pass sparse_updates: the update of a table takes the rows of gradient of its look-up, by index, instead of a
// gradient of the table's size that is mostly zeros.
//
//   %g = embedding_grad %w, %index, %rows : f32[5000,256]
//   %w1, %m1, %s1 = adamw %w, %m, %s, %g, %step, %lr, %wd
//   ->
//   %w1, %m1, %s1 = adamw_sparse %w, %m, %s, %index, %rows, %step, %lr, %wd
//
// The meaning is the same to the last bit: rows of equal index add up in order, rows that were not looked up are updated
// with a gradient of zero, and what the gradient is multiplied by, if anything, comes last in both. A gradient that
// anything else reads (a norm, an output, a sum with another gradient), or with very wide rows, stays.
#include "ir/passes/rules.h"

enum { MOST_WIDTH = 16 * 1024 };  // a row's sum lies on the stack

static bool takes_rows(const Rules *r, Val g) {
  const Fn *f = r->f;
  if (ir_ins(f, g)->op != OP_embedding_grad || r->uses[g.i] != 1) return false;
  return ir_dim_bound(f->prog, ir_dim_at(f->prog, ir_ins(f, g)->shape, 1)) <= MOST_WIDTH;
}

Val rule_sparse_adamw(Rules *r, Val v) {
  Fn *f = r->f;
  Val g = ir_gradient_of(f, v), in[9];
  if (!takes_rows(r, g)) return (Val){0};
  uint32_t n = 0;
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) {
    Val a = ir_arg(f, v, k);
    if (a.i != g.i) in[n++] = a;
    else in[n++] = ir_arg(f, g, 1), in[n++] = ir_arg(f, g, 2);  // of weight, index, rows
  }
  ir_set_op(f, v, OP_adamw_sparse);
  ir_set_args(f, v, in, n);
  return v;
}

bool ir_pass_sparse_updates(Fn *f) {
  ir_apply_rules_in_place(f, PASS_sparse_updates);
  return true;
}
