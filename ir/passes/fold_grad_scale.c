// Pass fold_grad_scale: an update takes the factor of its gradient as an operand of its own, so that no scaled copy of the
// gradient is made. Clipping by a norm multiplies every gradient by one number, known after all of them.
//
//   %s = mul %g, %factor : f32[256,64]
//   %w1, %m1, %s1 = adamw %w, %m, %v, %s, %step, %lr, %wd
//   ->
//   %w1, %m1, %s1 = adamw %w, %m, %v, %g, %step, %lr, %wd, %factor
//
// The meaning is the same to the last bit. A product that anything else reads is made as before.
#include "ir/ir.h"

static bool is_update(const Fn *f, uint32_t i) {
  return !ir_none(ir_gradient_of(f, (Val){i})) && !ir_has_operand(f, (Val){i}, ARG_grad_scale);
}

// Kernels of updates read their operands from memory, but for a factor that is a constant.
// Is the product g of a stored tensor and a scalar? Then which operand is the scalar.
static bool is_scaled(const Fn *f, Val g, uint32_t *scalar) {
  if (ir_ins(f, g)->op != OP_mul) return false;
  for (*scalar = 2; (*scalar)-- > 0;) {
    Val x = ir_arg(f, g, 1 - *scalar), factor = ir_arg(f, g, *scalar);
    bool fits = ir_rank(f->prog, ir_ins(f, factor)->shape) == 0 && ir_ins(f, x)->shape.i == ir_ins(f, g)->shape.i;
    if (fits && !ir_is_immediate(f, x) && ir_ops[ir_ins(f, x)->op].cls != CLASS_VIEW &&
        ir_ins(f, factor)->op != OP_dim_size)
      return true;
  }
  return false;
}

// e->old[update.i] with the operands of its gradient, a product, in the product's place and at the end.
static void copy_scaled(Rewrite *e, Val update, Val product, uint32_t scalar) {
  Fn *f = e->f;
  Val x = ir_rewrite_arg(e, product, 1 - scalar), factor = ir_rewrite_arg(e, product, scalar),
      head = ir_rewrite_copy(e, update);
  Val in[MAX_OPERANDS];
  Op op = (Op)ir_ins(f, head)->op;
  uint32_t n = ir_operands(f, head, in);
  in[ir_op_operand(op, ARG_grad)] = x, in[ir_op_operand(op, ARG_grad_scale)] = factor;
  ir_set_operands(f, head, in, n);
}

bool ir_pass_fold_grad_scale(Fn *f) {
  RtArena *mem = f->prog->mem;
  uint32_t *uses = rt_alloc(mem, f->n_ins * sizeof *uses);
  Val *product = rt_alloc(mem, f->n_ins * sizeof *product);     // by update: the gradient that is not made; else none
  uint32_t *scalar = rt_alloc(mem, f->n_ins * sizeof *scalar);  // by update: its operand
  bool *unmade = rt_alloc(mem, f->n_ins), any = false;
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) uses[ir_arg(f, (Val){i}, k).i]++;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (!is_update(f, i)) continue;
    Val g = ir_gradient_of(f, (Val){i});
    if (uses[g.i] == 1 && is_scaled(f, g, &scalar[i])) product[i] = g, unmade[g.i] = any = true;
  }
  if (!any) return true;
  Rewrite e;
  ir_rewrite_begin(&e, f);
  for (uint32_t i = 1; i < e.n_old; i++) {
    if (e.old[i].op == OP_result || unmade[i]) continue;
    if (ir_none(product[i])) ir_rewrite_copy(&e, (Val){i});
    else copy_scaled(&e, (Val){i}, product[i], scalar[i]);
  }
  ir_rewrite_end(&e);
  return true;
}
