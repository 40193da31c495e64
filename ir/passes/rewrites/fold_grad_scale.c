// Pass fold_grad_scale: an update takes the factor of its gradient as an operand of its own, so that no scaled copy of the
// gradient is made. Clipping by a norm multiplies every gradient by one number, known after all of them.
//
//   %s = mul %g, %factor : f32[256,64]
//   %w1, %m1, %s1 = adamw %w, %m, %v, %s, %step, %lr, %wd
//   ->
//   %w1, %m1, %s1 = adamw %w, %m, %v, %g, %step, %lr, %wd, %factor
//
// The meaning is the same to the last bit. A product that anything else reads stays.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/passes/rewrites/rules.h"
#include "ir/storage.h"

static bool is_stored(const Fn *f, Val x) {
  bool is_view = ir_ops[ir_ins(f, x)->op].cls == CLASS_VIEW;
  return !ir_is_immediate(f, x) && (!is_view || ir_ins(f, x)->op == OP_exchanged);
}

// Is g the product of a stored tensor and a scalar? Then returns the operand that is the scalar. Update
// kernels read operands from memory, except a constant factor.
static bool is_scaled(const Fn *f, Val g, uint32_t *scalar) {
  if (ir_ins(f, g)->op != OP_mul) return false;
  for (*scalar = 2; (*scalar)-- > 0;) {
    Val x = ir_arg(f, g, 1 - *scalar), factor = ir_arg(f, g, *scalar);
    bool fits = ir_rank(f->prog, ir_ins(f, factor)->shape) == 0 && ir_ins(f, x)->shape.i == ir_ins(f, g)->shape.i;
    if (fits && is_stored(f, x) && ir_ins(f, factor)->op != OP_dim_size) return true;
  }
  return false;
}

// A scalar parameter may be the factor of its own gradient: the update would read it where it writes.
static bool is_overwritten(const Fn *f, Val update, Val factor) {
  Val root = ir_storage_root(f, factor);
  for (uint32_t k = 0; k < ir_ins(f, update)->n_res; k++)
    if (ir_storage_root(f, ir_arg(f, update, k)).i == root.i) return true;
  return false;
}

Val rule_scaled_gradient(Rules *r, Val v) {
  Fn *f = r->f;
  Val g = ir_gradient_of(f, v), in[MAX_OPERANDS];
  uint32_t scalar;
  if (ir_none(g) || ir_has_operand(f, v, ARG_grad_scale) || r->uses[g.i] != 1) return (Val){0};
  if (!is_scaled(f, g, &scalar) || is_overwritten(f, v, ir_arg(f, g, scalar))) return (Val){0};
  Op op = (Op)ir_ins(f, v)->op;
  uint32_t n = ir_operands(f, v, in);
  in[ir_op_operand(op, ARG_grad)] = ir_arg(f, g, 1 - scalar);
  in[ir_op_operand(op, ARG_grad_scale)] = ir_arg(f, g, scalar);
  ir_set_operands(f, v, in, n);
  return v;
}

bool ir_pass_fold_grad_scale(Fn *f) {
  ir_apply_rules_in_place(f, PASS_fold_grad_scale);
  return true;
}
