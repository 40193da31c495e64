// Gradients: where they flow, and making them.
#ifndef TN_IR_AUTODIFF_AUTODIFF_H
#define TN_IR_AUTODIFF_AUTODIFF_H

#include "ir/ir.h"

// ---- grad_flow.c: what becomes of a gradient at an op
typedef enum {
  GRAD_NONE,    // none flows, by meaning
  GRAD_ZERO,    // it is always 0, as through floor: nothing is computed; a target that has no other path gets zeros
  GRAD_RULE,    // a rule says it
  GRAD_MISSING  // one flows, but there is no rule: E125 where it is wanted
} GradFlow;
GradFlow ir_grad_kind(Op op);                           // of a row that is not pointwise
GradFlow ir_grad_flow(const Fn *f, Val v, uint32_t k);  // from v to its operand k
static inline bool ir_grad_flows(const Fn *f, Val v, uint32_t k) { return ir_grad_flow(f, v, k) > GRAD_ZERO; }
static inline bool ir_grad_reaches(const Fn *f, Val v, uint32_t k) { return ir_grad_flow(f, v, k) != GRAD_NONE; }

// ---- grad_reach.c
bool ir_is_cut(const Fn *f, Val v);  // no gradient passes from v to what it is a view of
// What a gradient of `loss`, as it is at the end of f, can flow to. Zero before the first use, then used again.
typedef struct {
  uint32_t least;  // values before this one are not reported
  bool no_zeros;   // leaves out values that only gradients of 0 reach
  bool *has;       // by value
  // With writes in place, by storage: want: the walk still looks for who wrote its content; round: a step of
  // a scan writes it for the next step.
  bool *want;
  uint8_t *round;
  Val *list;
  uint32_t n, cap, cap_has;
} GradReach;
void ir_grad_reach(const Fn *f, Val loss, GradReach *found);

// ---- grad_scan.c
// The gradients of a scan: adj by result (0: none) -> out by operand, as far as `wants` says. is_nested: there will be
// gradients of these. false: the forward could not keep its carries.
bool ir_scan_grad(Fn *f, Val v, const Val *adj, const bool *wants, Val *out, bool is_nested, Loc loc);
// ---- grad.c
bool ir_pass_grad(Fn *f);
// In f, the gradient of every value that `wants` marks (n_ins entries), when value of[k] has the gradient
// seed[k]. is_nested: there will be gradients of these.
Val *ir_grad_values(Fn *f, const Val *of, const Val *seed, uint32_t n, const bool *wants, bool is_nested);

#endif
