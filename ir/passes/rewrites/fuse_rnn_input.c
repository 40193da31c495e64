// Pass fuse_rnn_input: a recurrence whose layer has few inputs makes the product with its input itself.
//
//   %xg = linear %x, %w_ih, %b : f32[rows,256]                        32 times as many bytes as %x, written and read
//   %h, .. = rnn_seq %xg, %layout, %w_hh {cell="lstm"}
//   ->
//   %h, .. = rnn_seq %x, %layout, %w_hh, %b, w_ih=%w_ih {cell="lstm"}
//
// Its tiles continue from the k of x to the k of the state, so every sum keeps its order. Not for a GRU: one
// of its gates adds input and state separately.
//
// The product over all rows is as fast, or faster if tiles of a step are low or vectors of units are partial,
// and reads its weight less often. Its cost is %xg: little if it stays in cache, up to a third of a
// recurrence if it does not.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/passes/rewrites/rules.h"
#include "ir/storage.h"
#include <string.h>

// docs/experiments/006 found these values.
enum {
  INPUTS = 32,  // at most,
  FAR_GATE_INPUTS =
      64,     // or this many per gate if %xg exceeds the last-level cache: tiles with few gates load more of x
  ROWS = 6,   // least rows of a step, by the bound: a tile reads the weight once
  UNUSED = 4  // most lanes of the last vector of units that may be empty: a fraction of the units
};

static bool is_worth_it(const Prog *p, Shape projected, Dim inputs, Dim batch, int64_t hidden) {
  int64_t n = ir_dim_bound(p, inputs), gates = ir_dim_bound(p, ir_dim_at(p, projected, 1)) / hidden;
  int64_t most = ir_shape_bound(p, projected) >= ir_f32_in(p->target.llc_bytes) ? FAR_GATE_INPUTS * gates : INPUTS;
  int64_t lanes = p->target.lanes, unused = (lanes - hidden % lanes) % lanes;
  return ir_dim_is_const(p, inputs) && n > 0 && n <= most && ir_dim_bound(p, batch) >= ROWS &&
         unused * UNUSED <= hidden;
}

// An instruction between the product and the recurrence writes to an operand of the product.
static bool is_overwritten(const Fn *f, Val xg, Val rnn) {
  for (uint32_t i = xg.i + 1; i < rnn.i; i++) {
    const OpInfo *op = &ir_ops[f->ins[i].op];
    for (uint32_t k = 0; (op->flags & WRITES) && k < op->n_res; k++)
      for (uint32_t a = 0; a < ir_ins(f, xg)->n_args; a++)
        if (ir_storage_root(f, ir_arg(f, (Val){i}, k)).i == ir_storage_root(f, ir_arg(f, xg, a)).i) return true;
  }
  return false;
}

static bool takes_input(const Rules *r, Val v, Val xg) {
  const Fn *f = r->f;
  const Prog *p = f->prog;
  if (ir_has_operand(f, v, ARG_w_ih)) return false;
  if (ir_ins(f, xg)->op != OP_linear || r->uses[xg.i] != 1 || is_overwritten(f, xg, v)) return false;
  if (!strcmp(ir_text(p, ir_attr(f, v, KEY_cell)->u.s), "gru")) return false;
  if (ir_has_operand(f, xg, ARG_bias) && ir_has_operand(f, v, ARG_b_hh)) return false;
  Shape cells = ir_ins(f, ir_result(v, ir_has_operand(f, v, ARG_w_hr) ? 4 : 0))->shape;
  Dim hidden = ir_dim_at(p, cells, 1), batch = ir_dim_at(p, ir_ins(f, ir_operand(f, v, ARG_layout))->shape, 0);
  Dim inputs = ir_dim_at(p, ir_ins(f, ir_operand(f, xg, ARG_weight))->shape, 1);
  int64_t units = ir_dim_bound(p, hidden);
  return units > 0 && is_worth_it(p, ir_ins(f, xg)->shape, inputs, batch, units);
}

// Puts the operands of the projection, x, weight and bias, in place of its result.
Val rule_rnn_input(Rules *r, Val v) {
  Fn *f = r->f;
  Val in[MAX_OPERANDS], xg = ir_operand(f, v, ARG_xg);
  if (!takes_input(r, v, xg)) return (Val){0};
  uint32_t n = ir_operands(f, v, in);
  in[ir_op_operand(OP_rnn_seq, ARG_xg)] = ir_operand(f, xg, ARG_x);
  in[ir_op_operand(OP_rnn_seq, ARG_w_ih)] = ir_operand(f, xg, ARG_weight);
  if (ir_has_operand(f, xg, ARG_bias)) in[ir_op_operand(OP_rnn_seq, ARG_b_hh)] = ir_operand(f, xg, ARG_bias);
  ir_set_operands(f, v, in, n);
  return v;
}

bool ir_pass_fuse_rnn_input(Fn *f) {
  ir_apply_rules_in_place(f, PASS_fuse_rnn_input);
  return true;
}
