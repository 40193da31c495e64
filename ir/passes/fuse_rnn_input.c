// Pass fuse_rnn_input: a recurrence whose layer has few inputs makes the product with its input itself.
//
//   %xg = linear %x, %w_ih, %b : f32[rows,256]                        32 times as many bytes as %x, written and read
//   %h, .. = rnn_seq %xg, %layout, %w_hh {cell="lstm"}
//   ->
//   %h, .. = rnn_seq %x, %layout, %w_hh, %b, w_ih=%w_ih {cell="lstm"}
//
// Its tiles go on from the k of x to those of the state, so every sum has the same order as before. Not for a gru, one
// of whose gates adds up its input and its state apart.
//
// The product over all rows does the arithmetic as fast, or faster where tiles of a step are low or vectors of units
// are not full, and reads its weight less often. What it costs is %xg: little time where it stays in the caches, and up
// to a third of a recurrence where it does not.
#include "ir/rewrite.h"
#include <string.h>

// docs/experiments/006 found these values.
enum {
  INPUTS = 32,  // at most,
  FAR_GATE_INPUTS =
      64,     // or so many for each gate where %xg exceeds the last-level cache: tiles of few gates load more of x
  ROWS = 6,   // of a step at least, by the bound, of which a tile reads the weight once
  UNUSED = 4  // lanes of the last vector of the units that may be empty: a part of the units
};

static bool is_worth_it(const Prog *p, Shape projected, Dim inputs, Dim batch, int64_t hidden) {
  int64_t n = ir_dim_bound(p, inputs), gates = ir_dim_bound(p, ir_dim_at(p, projected, 1)) / hidden;
  int64_t most = ir_shape_bound(p, projected) >= ir_f32_in(p->target.llc_bytes) ? FAR_GATE_INPUTS * gates : INPUTS;
  int64_t lanes = p->target.lanes, unused = (lanes - hidden % lanes) % lanes;
  return ir_dim_is_const(p, inputs) && n > 0 && n <= most && ir_dim_bound(p, batch) >= ROWS &&
         unused * UNUSED <= hidden;
}

// Something between the product and the recurrence writes to what the product reads.
static bool is_overwritten(const Fn *f, Val xg, Val rnn) {
  for (uint32_t i = xg.i + 1; i < rnn.i; i++) {
    const OpInfo *op = &ir_ops[f->ins[i].op];
    for (uint32_t k = 0; (op->flags & WRITES) && k < op->n_res; k++)
      for (uint32_t a = 0; a < ir_ins(f, xg)->n_args; a++)
        if (ir_storage_root(f, ir_arg(f, (Val){i}, k)).i == ir_storage_root(f, ir_arg(f, xg, a)).i) return true;
  }
  return false;
}

static bool takes_input(const Fn *f, Val v, const uint32_t *uses) {
  const Prog *p = f->prog;
  if (ir_ins(f, v)->op != OP_rnn_seq || ir_has_operand(f, v, ARG_w_ih)) return false;
  Val xg = ir_operand(f, v, ARG_xg);
  if (ir_ins(f, xg)->op != OP_linear || uses[xg.i] != 1 || is_overwritten(f, xg, v)) return false;
  if (!strcmp(ir_text(p, ir_attr(f, v, KEY_cell)->u.s), "gru")) return false;
  if (ir_has_operand(f, xg, ARG_bias) && ir_has_operand(f, v, ARG_b_hh)) return false;
  Shape cells = ir_ins(f, ir_result(v, ir_has_operand(f, v, ARG_w_hr) ? 4 : 0))->shape;
  Dim hidden = ir_dim_at(p, cells, 1), batch = ir_dim_at(p, ir_ins(f, ir_operand(f, v, ARG_layout))->shape, 0);
  Dim inputs = ir_dim_at(p, ir_ins(f, ir_operand(f, xg, ARG_weight))->shape, 1);
  int64_t units = ir_dim_bound(p, hidden);
  return units > 0 && is_worth_it(p, ir_ins(f, xg)->shape, inputs, batch, units);
}

// Old instruction rnn with the operands of its projection, x, weight and bias.
static void copy_with_input(Rewrite *e, Val rnn, Val xg) {
  Val in[MAX_OPERANDS], head = ir_rewrite_copy(e, rnn);
  uint32_t n = ir_operands(e->f, head, in);
  in[ir_op_operand(OP_rnn_seq, ARG_xg)] = ir_rewrite_arg(e, xg, 0);
  in[ir_op_operand(OP_rnn_seq, ARG_w_ih)] = ir_rewrite_arg(e, xg, 1);
  if (e->old[xg.i].n_args == 3) in[ir_op_operand(OP_rnn_seq, ARG_b_hh)] = ir_rewrite_arg(e, xg, 2);
  ir_set_operands(e->f, head, in, n);
}

bool ir_pass_fuse_rnn_input(Fn *f) {
  RtArena *mem = f->prog->mem;
  uint32_t *uses = rt_alloc(mem, f->n_ins * sizeof *uses);
  bool *unmade = rt_alloc(mem, f->n_ins), *takes = rt_alloc(mem, f->n_ins), any = false;
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t k = 0; f->ins[i].op != OP_result && k < f->ins[i].n_args; k++) uses[ir_arg(f, (Val){i}, k).i]++;
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (takes_input(f, (Val){i}, uses)) takes[i] = unmade[ir_arg(f, (Val){i}, 0).i] = any = true;
  if (!any) return true;
  Rewrite e;
  ir_rewrite_begin(&e, f);
  for (uint32_t i = 1; i < e.n_old; i++) {
    if (e.old[i].op == OP_result || unmade[i]) continue;
    if (takes[i]) copy_with_input(&e, (Val){i}, f->args[e.old[i].args]);
    else ir_rewrite_copy(&e, (Val){i});
  }
  ir_rewrite_end(&e);
  return true;
}
