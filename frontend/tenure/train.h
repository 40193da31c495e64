// Tenure, training: gradients, clipping, optimizers and their groups of parameters.
#ifndef TN_TRAIN_H
#define TN_TRAIN_H

#include "module.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- training: gradients of a loss, clipping and the update stand in the same function
// There is no zero_grad: a run starts without gradients. Two tn_backward in one function add up, runs do not.

// A scalar; adds to the gradients of all trainable parameters that it reaches
TN_API void tn_backward(tn_tensor loss, tn_site at);
// d loss / d of, as a value, of which gradients can be taken again, as a gradient penalty does. Recurrent layers and
// attention have first gradients only: a wanted gradient through theirs is E125, which names the operation and the
// path.
TN_API tn_tensor tn_grad(tn_tensor loss, tn_tensor of, tn_site at);
TN_API tn_tensor tn_param_grad(tn_function *f, tn_module *m, const char *name, tn_site at);  // after tn_backward
// Scales all gradients below m; gives the norm before
TN_API tn_tensor tn_clip_grad_norm(tn_function *f, tn_module *m, double max_norm, tn_site at);
// Limits every element of the gradients below m to [-limit, limit]
TN_API void tn_clip_grad_value(tn_function *f, tn_module *m, double limit, tn_site at);
// Parameters below m that no gradient reaches, frozen ones apart, stay as they are: a note in tn_report lists them, and
// names what cuts them off. require_gradients: it is an error, E122.
typedef struct {
  double lr, beta1, beta2, eps, weight_decay;
  bool require_gradients;
  tn_site at;
} tn_adamw_options;  // zeros: PyTorch's 1e-3, 0.9, 0.999, 1e-8; weight_decay 0 means none
typedef struct {
  double lr, momentum, dampening, weight_decay;
  bool nesterov;
  bool require_gradients;
  tn_site at;
} tn_sgd_options;  // lr 0: 1e-3
// Decoupled weight decay
TN_API void tn_adamw(tn_function *f, tn_module *m, tn_adamw_options o);
// Weight decay added to the gradient
TN_API void tn_adam(tn_function *f, tn_module *m, tn_adamw_options o);
TN_API void tn_sgd(tn_function *f, tn_module *m, tn_sgd_options o);

// Parameters that are in no group are in group 0. A group keeps its own learning rate, weight decay and momentum in
// every optimizer, in the state entries optimizer.lr.GROUP and so on: tn_set_lr changes them between runs, without
// compiling. Groups are made before the optimizer; a parameter has one (E121). So are layers: an optimizer that was
// built never trains what is added below its module later, so that adding it is an error.
typedef struct {
  double lr, weight_decay, momentum;  // 0: the optimizer's
  bool no_weight_decay;               // it is 0 in this group
  tn_site at;
} tn_group_options;
// Puts the parameters below m that match in a group; options are given once, a call without any adds to a group
TN_API void tn_group(tn_module *m, uint32_t group, const char *pattern, tn_group_options o);

#ifdef __cplusplus
}
#endif

#endif
