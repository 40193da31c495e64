// The backward at hand: shared by the walk over the forward (grad.c) and the rules of the ops (grad_rules.c).
#ifndef TN_IR_GRAD_H
#define TN_IR_GRAD_H
#include "ir/ir.h"

typedef struct {
  Fn *f;
  Prog *p;
  Val *adj;   // gradient of the loss with respect to each forward value; 0: none so far
  bool *dep;  // does this value depend on a target?
  Val loss;
  Loc loc;         // of the forward instruction at hand
  bool failed;     // a rule reported that it has no gradient
  uint32_t first;  // instruction of the backward
  Val *of;  // by instruction of the backward, from `first` on: the forward instruction whose gradient it is part of
  uint32_t n_of, cap_of;
} Grad;

// Adds d to the gradient with respect to v.
void ir_grad_give(Grad *g, Val v, Val d);
// Gives the operands of v their parts of adj, the gradient with respect to v.
void ir_grad_through(Grad *g, Val v, Val adj);

#endif
