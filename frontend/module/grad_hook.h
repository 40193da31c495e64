// Hooks on gradients.
#ifndef TN_FRONTEND_MODULE_GRAD_HOOK_H
#define TN_FRONTEND_MODULE_GRAD_HOOK_H

#include "frontend/graph/function.h"
#include "frontend/graph/module.h"

// A call of m by hooks on gradients: its inputs, and later its outputs, as values whose gradients they see. NULL: none.
typedef struct FeTapCall FeTapCall;
FeTapCall *fe_tap_inputs(tn_module *m, const FeHooks *hooks, tn_tensor *v, uint32_t n, tn_site at);
void fe_tap_outputs(FeTapCall *c, tn_tensor *v, uint32_t n, tn_site at);
// Runs the hooks on the way back from the loss, to `of` where it is given. Gives the loss whose gradients know what they
// replaced, poisoned where one failed: reported
typedef struct {
  tn_tensor loss;
  struct FeLeafGrad {
    tn_tensor of, grad;
  } *leaves;  // parameters and inputs whose gradients hooks saw
  uint32_t n_leaves, cap_leaves;
} FeHooked;
FeHooked fe_run_grad_hooks(tn_tensor loss, tn_tensor of, tn_site at);

#endif
