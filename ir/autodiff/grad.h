// The backward at hand: shared by the walk over the forward (grad.c), the rules of the ops (grad_rules.c, grad_rows.c)
// and the report of a rule that does not exist (grad_missing.c).
#ifndef TN_IR_AUTODIFF_GRAD_H
#define TN_IR_AUTODIFF_GRAD_H
#include "ir/build.h"
#include "ir/ir.h"
#include "ir/rewrite.h"

typedef struct {
  Fn *f;
  Prog *p;
  Val *adj;      // by forward value: the gradient of the loss; 0: none so far
  bool *dep;     // by value: does it depend on a target? Set for reached values only
  Val *reached;  // values that the gradient of the loss flows to, in order
  bool *is_reached;
  uint32_t n_reached, cap_reached;
  Val loss;        // none: the backward of a scan's body, which starts at its outputs
  Loc loc;         // of the forward instruction at hand
  bool failed;     // a rule reported that it has no gradient
  bool is_nested;  // there will be gradients of these: scans of the backward keep their carries
  uint32_t first;  // instruction of the backward
  Val *of;  // by instruction of the backward, from `first` on: the forward instruction whose gradient it is part of
  uint32_t n_of, cap_of;
} Grad;

// Has any of its results a gradient so far?
static inline bool ir_grad_has_adjoint(const Grad *g, Val v) {
  for (uint32_t k = 0; k < ir_ins(g->f, v)->n_res; k++)
    if (!ir_none(g->adj[v.i + k])) return true;
  return false;
}

// The backward of one loss, or a stretch of it.
typedef struct {
  uint32_t first, end;  // its instructions
  const Val *of;        // by instruction, from `first` on: the forward instruction whose gradient it is part of
  Val loss;
  bool failed;
} GradDone;

typedef struct GradWalk GradWalk;

// The pass at work on one function.
typedef struct {
  Rewrite e;
  Fn *f;
  bool *nested, any_nested;  // by old loss: a later one depends on its gradients
  GradDone *done;
  uint32_t n_done, cap_done;
  uint32_t *done_of;            // by old loss: 1 + its row of `done`; 0: none so far
  uint32_t *first_of, *others;  // by old loss: its first grad_of; by old grad_of: the next of the same loss; 0: none
  uint32_t *replaced_by;        // by old loss or grad_replace: the first grad_replace that goes on from it; 0: none
  GradWalk **walk_of;           // by old grad_replace, or loss: the walk that ends with it
  Val *value;                   // by old grad_of, once its loss is done: the gradient; none: no path leads there,
  bool *is_reached;             // or all paths have a derivative of 0, as floor has
  Grad work;                    // tables by value, all zero between two losses
  uint32_t n_tables;            // capacity of these tables, in values
} Gradients;

// ---- grad.c
// What gradients of the roots flow to, from the first target (`least`) on; targets are marked in g->dep.
void ir_grad_find(Grad *g, const Val *root, uint32_t n, uint32_t least);
Val ir_grad_seed(Fn *f, Loc loc);   // the gradient of a loss with respect to itself
void ir_grad_step(Grad *g, Val v);  // hands on the gradient of v, where there is one
bool ir_grad_is_reached(const Grad *g, Val x);
Val ir_grad_target(const Gradients *s, uint32_t i, Val loss);  // of grad_of or grad_replace i; none: behind the loss

// ---- grad_replace.c: losses whose gradients are replaced on the way
static inline bool ir_grad_is_hooked(const Gradients *s, Val old_loss) {
  return s->replaced_by[old_loss.i] || s->e.old[old_loss.i].op == OP_grad_replace;
}
// The gradient for grad_of i; none: no path leads there (*reached false), or all paths have a derivative of
// 0.
Val ir_grad_hooked(Gradients *s, uint32_t i, Val *loss, bool *failed, bool *reached);

// Adds the parts of adj, the gradient of v, to the gradients of its operands.
void ir_grad_through(Grad *g, Val v, Val adj);
// E125: a wanted gradient flows through v, of which `what` says why there is none ("has no gradient rule").
// The report shows the path.
void ir_grad_missing(Grad *g, Val v, const char *what);

// ---- rules: one for each word in the gradient column of ops.def
// adj: the gradient of result 0 (may be none for several results)
typedef void GradRule(Grad *g, Val v, Val adj);
#define OP(n, operands, res, shape, rule, ...) GradRule ir_grad_rule_##rule;
#include "ir/ops.def"

// ---- what rules are built of (grad_build.c)
// Adds d to the gradient with respect to v.
void ir_grad_give(Grad *g, Val v, Val d);
// The product of all factors but one: `without` is that of those that are not 0, of the others n_zeros are 0, `zeros` is their sum.
// Where one other factor is 0 it is `without` times that 0, which has a gradient; where more are, 0.
Val ir_grad_other_factors(Grad *g, Val without, Val n_zeros, Val zeros);
Val ir_grad_sum_axes(Grad *g, Val a, const int64_t *axes, uint32_t n);
Val ir_grad_matmul(Grad *g, Val a, Val b, bool ta, bool tb);           // a b, each transposed where asked
Val ir_grad_part(Grad *g, Val x, int64_t axis, Dim start, Dim count);  // elements [start, start + count) of x
Val ir_grad_count(Grad *g, Shape s, int64_t axis);                     // 1, 2, .. along the axis
static inline Shape shape_of(const Grad *g, Val v) { return ir_ins(g->f, v)->shape; }
static inline Val arg(const Grad *g, Val v, uint32_t k) { return ir_arg(g->f, v, k); }
static inline bool wants(const Grad *g, Val v, uint32_t k) { return g->dep[ir_arg(g->f, v, k).i]; }

static inline Val number(Grad *g, double x) { return ir_const(g->f, x, g->loc); }
static inline Val op2(Grad *g, Op op, Val a, Val b) { return ir_op2(g->f, op, a, b, g->loc); }
static inline Val mul(Grad *g, Val a, Val b) { return op2(g, OP_mul, a, b); }
static inline Val with_attr(Grad *g, Op op, Val a, Attr attr) { return ir_emit(g->f, op, &a, 1, &attr, 1, g->loc); }
static inline Val reshape(Grad *g, Val a, Shape s) {
  return shape_of(g, a).i == s.i ? a : with_attr(g, OP_reshape, a, ir_a_list(KEY_shape, s));
}
static inline Val expand(Grad *g, Val a, Shape s) {
  return shape_of(g, a).i == s.i ? a : with_attr(g, OP_expand, a, ir_a_list(KEY_shape, s));
}

#endif
