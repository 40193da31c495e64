// Pass sparse_updates: the rows of gradient of a look-up go, by index, where they are wanted, instead of into a gradient
// of the table's size that is mostly zeros. The update of a table takes them:
//
//   %g = embedding_grad %w, %index, %rows : f32[5000,256]
//   %w1, %m1, %s1 = adamw %w, %m, %s, %g, %step, %lr, %wd
//   ->
//   %w1, %m1, %s1 = adamw_sparse %w, %m, %s, %index, %rows, %step, %lr, %wd
//
// The meaning is the same to the last bit: rows of equal index add up in order, rows that were not looked up are updated
// with a gradient of zero, and what the gradient is multiplied by, if anything, comes last in both. A gradient that
// anything else reads (a norm, an output), or with very wide rows, stays.
//
// And so does the other gradient of a table that has several uses, as one tied to the output layer has: it is the table
// to which the rows are added, in place where nothing else reads it, so that memory holds one table.
//
//   %h = matmul %dy, %x {ta} : f32[5000,256]
//   %g = embedding_grad %w, %index, %rows : f32[5000,256]
//   %s = add %h, %g
//   ->
//   %s = embedding_grad %w, %index, %rows, %h
//
// So is what the steps of a scan sum up, which its body takes in and hands on:
//
//   %s = embedding_grad %w, %j, %y, (embedding_grad %w, %index, %rows)        first of a chain: it takes %h
//   %t = add %h, %s
//   ->
//   %t = embedding_grad %w, %j, %y, (embedding_grad %w, %index, %rows, %h)
//
// The terms of each sum are the same, added up in another order: h + r1 + r2 where it was h + (r1 + r2).
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/passes/rewrites/rules.h"
#include "ir/storage.h"

enum { MOST_WIDTH = 16 * 1024 };  // a row's sum lies on the stack

static bool takes_rows(const Rules *r, Val g) {
  const Fn *f = r->f;
  if (ir_ins(f, g)->op != OP_embedding_grad || r->uses[g.i] != 1 || ir_has_operand(f, g, ARG_addend)) return false;
  if (ir_attr(f, g, KEY_padded)) return false;
  return ir_dim_bound(f->prog, ir_dim_at(f->prog, ir_ins(f, g)->shape, 1)) <= MOST_WIDTH;
}

Val rule_sparse_adamw(Rules *r, Val v) {
  Fn *f = r->f;
  Val g = ir_gradient_of(f, v), in[MAX_OPERANDS];
  if (!takes_rows(r, g) || ir_has_operand(f, v, ARG_beta1) || ir_has_operand(f, v, ARG_owned)) return (Val){0};
  const OpInfo *row = &ir_ops[OP_adamw_sparse];
  for (uint32_t k = 0; k < row->n_operands; k++) {
    ArgName name = (ArgName)row->operands[k].name;
    in[k] = ir_operand(f, name == ARG_index || name == ARG_g ? g : v, name);
  }
  ir_set_op(f, v, OP_adamw_sparse);
  ir_set_operands(f, v, in, row->n_operands);
  return v;
}

static bool is_lookup(const Rules *r, Val g) { return ir_ins(r->f, g)->op == OP_embedding_grad && r->uses[g.i] == 1; }

// The first of a chain of look-up gradients that each add rows to the one before.
static Val first_of_chain(const Rules *r, Val g) {
  while (is_lookup(r, g) && ir_has_operand(r->f, g, ARG_addend) && is_lookup(r, ir_operand(r->f, g, ARG_addend)))
    g = ir_operand(r->f, g, ARG_addend);
  return g;
}

static void set_lookup(Fn *f, Val v, Val like, Val addend) {
  Val in[4] = {ir_arg(f, like, 0), ir_arg(f, like, 1), ir_arg(f, like, 2), addend};
  const Attr *padded = ir_attr(f, like, KEY_padded);
  ir_set_op(f, v, OP_embedding_grad);
  ir_set_args(f, v, in, 4);
  padded ? ir_set_attr(f, v, *padded) : ir_unset_attr(f, v, KEY_padded);
}

// Are the rows of look-up gradient g, an operand of the sum at v, added to `to`? A value made later than the
// rows, such as a product whose kernel adds the table to its tiles, takes the table instead. In the body of a
// scan `to` may be an input: the sum of the steps before.
static bool adds_rows(const Rules *r, Val v, Val g, Val to) {
  const Fn *f = r->f;
  Val first = first_of_chain(r, g);
  bool is_table = ir_class_has(ir_ins(f, to)->op, MAKES_KERNEL) || ir_ins(f, to)->op == OP_input;
  return is_lookup(r, first) && !ir_has_operand(f, first, ARG_addend) && is_table && to.i < first.i &&
         ir_ins(f, to)->shape.i == ir_ins(f, v)->shape.i && ir_ins(f, g)->shape.i == ir_ins(f, v)->shape.i;
}

Val rule_lookup_into_sum(Rules *r, Val v) {
  Fn *f = r->f;
  Val a = ir_arg(f, v, 0), b = ir_arg(f, v, 1);
  Val g = adds_rows(r, v, a, b) ? a : b, to = g.i == a.i ? b : a;
  if (!adds_rows(r, v, g, to)) return (Val){0};
  Val first = first_of_chain(r, g), of_g = first.i == g.i ? to : ir_operand(f, g, ARG_addend);
  if (first.i != g.i) set_lookup(f, first, first, to);
  set_lookup(f, v, g, of_g);
  return v;
}

bool ir_pass_sparse_updates(Fn *f) {
  ir_apply_rules_in_place(f, PASS_sparse_updates);
  return true;
}
