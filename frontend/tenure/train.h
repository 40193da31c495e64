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
// d loss / d of, as a value, of which gradients can be taken again, as a gradient penalty does: of any value that the loss depends
// on. Inputs that are not marked and frozen parameters are among them, which tn_backward passes over; E120 where no gradient
// flows to it. Where they are, the backward of recurrent layers is a scan and that of attention products and a softmax, which
// take more time and memory. E125 where an operation has no gradient: it names that and the path.
TN_API tn_tensor tn_grad(tn_tensor loss, tn_tensor of, tn_site at);
// The same with zeros, f32 in the shape of `of`, a float, where no gradient flows to it: PyTorch's materialize_grads
TN_API tn_tensor tn_grad_or_zeros(tn_tensor loss, tn_tensor of, tn_site at);
TN_API tn_tensor tn_param_grad(tn_function *f, tn_module *m, const char *name, tn_site at);  // after tn_backward
// Scales all gradients below m; gives the norm before
TN_API tn_tensor tn_clip_grad_norm(tn_function *f, tn_module *m, double max_norm, tn_site at);
// Limits every element of the gradients below m to [-limit, limit]
TN_API void tn_clip_grad_value(tn_function *f, tn_module *m, double limit, tn_site at);
// The same for the gradients of one group of parameters below m (tn_group)
TN_API tn_tensor tn_clip_group_norm(tn_function *f, tn_module *m, uint32_t group, double max_norm, tn_site at);
TN_API void tn_clip_group_value(tn_function *f, tn_module *m, uint32_t group, double limit, tn_site at);

// ---- accumulation over runs: between tn_backward and clipping
// The gradients below m are averaged over n runs of f, and optimizers that follow in f update in every n-th run alone,
// by the average; so do averages of weights, and schedules advance. Sums and the count of runs are state, optimizer.grad.PATH
// and optimizer.accumulated: training resumes between updates. A module that accumulates in several functions has the same n
// in all.
TN_API void tn_accumulate(tn_function *f, tn_module *m, uint32_t n, tn_site at);
// Takes the gradients below m from what was accumulated and not used yet, averaged over the runs there were, as where an
// epoch's batches do not divide by n. Clipping and an optimizer follow, as in the function that accumulates; without
// any such run they change nothing. Built after that function.
TN_API void tn_accumulate_flush(tn_function *f, tn_module *m, tn_site at);

// ---- batches in shards (docs/distributed.md)
// A run of f cuts its batch into n shards, one behind the other in the order of rows, and computes what stands before the updates
// for each of them in turn, in the memory of one; gradients and losses are summed over shards in a binary tree that n fixes.
// What comes out depends on n, not on the number of workers, nor on how many processes share the shards (tn_distribute).
//
//   tn_dim B = tn_dim_bounded(p, "batch", 64);
//   tn_distributed(f, .n = 8, .batch = B);     // before tn_backward
//
// `batch` is a named dim and the first axis of every input that has it. Gradients are means over shards, weighed by how many
// rows, or whatever the loss is a mean of, each has: `count`, a scalar; absent, the size of the batch. Where all shards count 0,
// gradients are 0, as they are without shards, losses and other means that are handed out are NaN, and a parameter or buffer that
// would be written with such a mean keeps what it holds. An output
// that is one f32 number of a shard is such a mean as well; outputs with the batch as their first axis have the rows of all.
// Dropout and its kin draw other numbers in each shard. Everything else that differs between shards ends with them: an
// update or a buffer that would take it is E129.
typedef struct {
  uint32_t n;  // 1 to 4096
  tn_dim batch;
  tn_tensor count;
  // Where several processes share the shards (distributed.h), they exchange gradients in buckets of so many bytes, while the rest of the
  // backward is computed; 0: 25 MiB. The first bucket has 1 MiB at most. Results do not depend on it.
  int64_t bucket_bytes;
  tn_site at;
} tn_distributed_options;
TN_API void tn_distributed(tn_function *f, tn_distributed_options o);
// The mean of x, f32, over all shards, weighed likewise: for buffers and outputs, in the function of a tn_distributed
TN_API tn_tensor tn_shard_mean(tn_tensor x, tn_site at);

// ---- schedules of learning rates, as PyTorch's of these names
// A schedule counts, in the state entry optimizer.schedule.NAME.last_epoch, how often tn_schedule_step was called: that
// call stands in the training step, or in a function of its own that runs once per epoch. Compiled steps compute the rate from
// the count and the group's own, which tn_set_lr sets, and leave it in optimizer.last_lr (.MODULE.GROUP): nothing is
// compiled again, and training resumes where it was. Counts are exact up to 2^24. `.schedule` of an optimizer or a group
// takes one; several optimizers may take the same. Other rates that the host knows are set by tn_set_lr before a run.
typedef struct tn_schedule tn_schedule;
typedef struct {
  double step_size, gamma;  // gamma 0: 0.1
  tn_site at;
} tn_step_lr_options;
typedef struct {
  const double *milestones;  // ascending
  uint32_t n_milestones;
  double gamma;  // 0: 0.1
  tn_site at;
} tn_multi_step_lr_options;
typedef struct {
  double gamma;
  tn_site at;
} tn_exponential_lr_options;
typedef struct {
  double total_iters, power;  // 0: 5, 1
  tn_site at;
} tn_polynomial_lr_options;
typedef struct {
  double start_factor, end_factor, total_iters;  // 0: 1/3, 1, 5
  tn_site at;
} tn_linear_lr_options;
typedef struct {
  double factor, total_iters;  // 0: 1/3, 5
  tn_site at;
} tn_constant_lr_options;
typedef struct {
  double t_max, eta_min;
  tn_site at;
} tn_cosine_annealing_lr_options;
typedef struct {
  double t_0, t_mult, eta_min;  // t_mult 0: 1; a whole number
  tn_site at;
} tn_cosine_annealing_warm_restarts_options;
typedef struct {
  double max_lr;                                                // 0: the group's own
  double total_steps, pct_start, div_factor, final_div_factor;  // 0: 0.3, 25, 1e4
  double base_momentum, max_momentum;                           // 0: 0.85, 0.95
  bool linear, three_phase;                                     // linear: else the cosine's curve
  bool no_cycle_momentum;
  tn_site at;
} tn_one_cycle_lr_options;
typedef struct {
  double base_lr;  // 0: the group's own
  double max_lr;
  double step_size_up, step_size_down;  // 0: 2000; step_size_up
  double gamma;                         // of exp_range; 0: 1
  double base_momentum, max_momentum;   // 0: 0.8, 0.9
  bool triangular2, exp_range;          // else triangular
  bool no_cycle_momentum;
  tn_site at;
} tn_cyclic_lr_options;
typedef struct {
  double factor, patience, threshold, cooldown, min_lr;  // 0: 0.1, 10, 1e-4
  bool no_patience;                                      // patience is 0
  bool maximize, absolute;  // the metric shall grow; the threshold is no part of the metric
  tn_site at;
} tn_reduce_lr_on_plateau_options;
TN_API tn_schedule *tn_step_lr(tn_program *p, const char *name, tn_step_lr_options o);
TN_API tn_schedule *tn_multi_step_lr(tn_program *p, const char *name, tn_multi_step_lr_options o);
TN_API tn_schedule *tn_exponential_lr(tn_program *p, const char *name, tn_exponential_lr_options o);
TN_API tn_schedule *tn_polynomial_lr(tn_program *p, const char *name, tn_polynomial_lr_options o);
TN_API tn_schedule *tn_linear_lr(tn_program *p, const char *name, tn_linear_lr_options o);
TN_API tn_schedule *tn_constant_lr(tn_program *p, const char *name, tn_constant_lr_options o);
TN_API tn_schedule *tn_cosine_annealing_lr(tn_program *p, const char *name, tn_cosine_annealing_lr_options o);
TN_API tn_schedule *tn_cosine_annealing_warm_restarts(tn_program *p, const char *name,
                                                      tn_cosine_annealing_warm_restarts_options o);
TN_API tn_schedule *tn_one_cycle_lr(tn_program *p, const char *name, tn_one_cycle_lr_options o);
TN_API tn_schedule *tn_cyclic_lr(tn_program *p, const char *name, tn_cyclic_lr_options o);
// One-cycle and cyclic rates move momentum against the rate, beta1 for want of one (optimizer.last_momentum, .last_beta1). For
// tn_adagrad and tn_adadelta, which have neither, no_cycle_momentum has to be said, as PyTorch has it.
// first for `milestone` steps, then `then`, which counts from 0 there: warm-up before another. Either may be such a pair.
TN_API tn_schedule *tn_sequential_lr(tn_program *p, const char *name, tn_schedule *first, tn_schedule *then,
                                     double milestone, tn_site at);
// The group's rate times what `factor` makes of the count, a scalar: computed in the step
typedef tn_tensor (*tn_lr_factor)(tn_tensor last_epoch, void *ctx);
TN_API tn_schedule *tn_lambda_lr(tn_program *p, const char *name, tn_lr_factor factor, void *ctx, tn_site at);
// Advanced by tn_plateau_step instead of tn_schedule_step. State beside last_epoch: best, num_bad_epochs,
// cooldown_counter and factor, by which all rates are multiplied, from min_lr on.
TN_API tn_schedule *tn_reduce_lr_on_plateau(tn_program *p, const char *name, tn_reduce_lr_on_plateau_options o);
// One more step, from here on in f
TN_API void tn_schedule_step(tn_function *f, tn_schedule *s, tn_site at);
// metric: a scalar f32 of f, as an input that the host gives, or a loss
TN_API void tn_plateau_step(tn_function *f, tn_schedule *s, tn_tensor metric, tn_site at);

// ---- optimizers
// Parameters below m that the loss does not depend on are not trained: warning W126 lists those that are not frozen, and
// names what cuts them off. require_gradients: it is an error, E122. Options and state have PyTorch's names; a number
// that is 0 means PyTorch's default (but a weight decay, momentum or dampening of 0 is none; for a true 0, as of beta1, write
// 1e-30). maximize: against the gradient's sign.
// sparse: of a table whose rows are looked up (tn_embedding, tn_embedding_bag, tn_index_select) only those rows, and theirs of the
// state, are read and changed: nothing of the table's size is made. The step counts for all rows. A row that is not looked up keeps
// its value: no weight decay, no momentum, and its averages do not decay. Of SGD and Adagrad without decay that is what a dense
// update does, too, and what PyTorch does with sparse gradients; Adam is SparseAdam but for eps, which is added as Adam has it.
// Other parameters below m are updated whole. A table that something else reads, that a scan looks up, that has 16 bits, or whose
// gradient is clipped, averaged, hooked or written is E009, and so is it where rows, their index or weights are written in place
// before the optimizer; tn_lamb takes no sparse (E003).
// State of parameter PATH is the entry optimizer.exp_avg.PATH and so on, as in the list of each; optimizer.step.PATH counts.
#define TN_OPTIMIZER_OPTIONS \
  bool maximize;             \
  bool sparse;               \
  bool require_gradients;    \
  tn_schedule *schedule;     \
  tn_site at
typedef struct {
  double lr, beta1, beta2, eps, weight_decay;  // 1e-3, 0.9, 0.999, 1e-8
  bool amsgrad;
  TN_OPTIMIZER_OPTIONS;
} tn_adamw_options;
typedef struct {
  double lr, momentum, dampening, weight_decay;  // 1e-3
  bool nesterov;
  TN_OPTIMIZER_OPTIONS;
} tn_sgd_options;
typedef struct {
  double lr, alpha, eps, weight_decay, momentum;  // 1e-2, 0.99, 1e-8
  bool centered;
  TN_OPTIMIZER_OPTIONS;
} tn_rmsprop_options;
typedef struct {
  double lr, lr_decay, weight_decay, initial_accumulator_value, eps;  // 1e-2, 0, 0, 0, 1e-10
  TN_OPTIMIZER_OPTIONS;
} tn_adagrad_options;
typedef struct {
  double lr, rho, eps, weight_decay;  // 1, 0.9, 1e-6
  TN_OPTIMIZER_OPTIONS;
} tn_adadelta_options;
typedef struct {
  double lr, beta1, beta2, eps, weight_decay;  // 2e-3, 0.9, 0.999, 1e-8
  TN_OPTIMIZER_OPTIONS;
} tn_adamax_options;
typedef struct {
  double lr, beta1, beta2, eps, weight_decay, momentum_decay;  // 2e-3, 0.9, 0.999, 1e-8, 0, 4e-3
  bool decoupled_weight_decay;
  TN_OPTIMIZER_OPTIONS;
} tn_nadam_options;
typedef struct {
  double lr, beta1, beta2, eps, weight_decay;  // 1e-3, 0.9, 0.999, 1e-8
  bool decoupled_weight_decay;
  TN_OPTIMIZER_OPTIONS;
} tn_radam_options;
typedef struct {
  double lr, beta1, beta2, weight_decay;  // 1e-4, 0.9, 0.99
  TN_OPTIMIZER_OPTIONS;
} tn_lion_options;
typedef struct {
  double lr, beta1, beta2, eps, weight_decay;  // 1e-3, 0.9, 0.999, 1e-6
  TN_OPTIMIZER_OPTIONS;
} tn_lamb_options;
// exp_avg, exp_avg_sq (amsgrad: max_exp_avg_sq); decoupled weight decay
TN_API void tn_adamw(tn_function *f, tn_module *m, tn_adamw_options o);
// Weight decay added to the gradient, as in all that say nothing else
TN_API void tn_adam(tn_function *f, tn_module *m, tn_adamw_options o);
TN_API void tn_sgd(tn_function *f, tn_module *m, tn_sgd_options o);            // momentum_buffer
TN_API void tn_rmsprop(tn_function *f, tn_module *m, tn_rmsprop_options o);    // square_avg, grad_avg, momentum_buffer
TN_API void tn_adagrad(tn_function *f, tn_module *m, tn_adagrad_options o);    // sum
TN_API void tn_adadelta(tn_function *f, tn_module *m, tn_adadelta_options o);  // square_avg, acc_delta
TN_API void tn_adamax(tn_function *f, tn_module *m, tn_adamax_options o);      // exp_avg, exp_inf
TN_API void tn_nadam(tn_function *f, tn_module *m, tn_nadam_options o);        // exp_avg, exp_avg_sq, mu_product
TN_API void tn_radam(tn_function *f, tn_module *m, tn_radam_options o);        // exp_avg, exp_avg_sq
// exp_avg; decoupled weight decay (Chen et al. 2023)
TN_API void tn_lion(tn_function *f, tn_module *m, tn_lion_options o);
// exp_avg, exp_avg_sq. Adam's bias-corrected step plus the decay of the weights, as long as they are: the ratio of the
// norms of a parameter and its step multiplies the rate, where neither is 0 (You et al. 2020)
TN_API void tn_lamb(tn_function *f, tn_module *m, tn_lamb_options o);

// ---- averages of weights, as torch.optim.swa_utils has them
// After the optimizer: the average of each parameter below m, optimizer.ema.PATH, moves to it by 1 - decay; the first
// time it becomes it. Until then it is what the parameter began with.
typedef struct {
  double decay;  // 0: 0.999
  tn_site at;
} tn_ema_options;
TN_API void tn_ema(tn_function *f, tn_module *m, tn_ema_options o);
// The equal-weight average of the parameters as they are at this call in every run, optimizer.swa.PATH; after the
// optimizer, or in a function of its own that runs once per epoch
TN_API void tn_swa(tn_function *f, tn_module *m, tn_site at);
// Before their first use: in f the parameters below m read as their averages, which other functions keep. They are
// not trained here.
TN_API void tn_use_ema(tn_function *f, tn_module *m, tn_site at);
TN_API void tn_use_swa(tn_function *f, tn_module *m, tn_site at);

// Parameters that are in no group are in group 0. A group keeps its own learning rate, weight decay and momentum in
// every optimizer, in the state entries optimizer.lr.GROUP and so on: tn_set_lr changes them between runs, without
// compiling. Groups are made before the optimizer; a parameter has one (E121). So are layers: an optimizer that was
// built never trains what is added below its module later, so that adding it is an error.
typedef struct {
  double lr, weight_decay, momentum;  // 0: the optimizer's
  bool no_weight_decay;               // it is 0 in this group
  // Numbers that are compiled in. A group has none that its optimizer has not.
  double beta1, beta2, eps, dampening, alpha, rho, lr_decay, momentum_decay, initial_accumulator_value;
  tn_schedule *schedule;
  tn_site at;
} tn_group_options;
// Puts the parameters below m that match in a group; options are given once, a call without any adds to a group
TN_API void tn_group(tn_module *m, uint32_t group, const char *pattern, tn_group_options o);

#ifdef __cplusplus
}
#endif

#endif
