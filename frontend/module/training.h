// Gradients of the parameters below a module, averages over runs and shards, parameters without training.
#ifndef TN_FRONTEND_MODULE_TRAINING_H
#define TN_FRONTEND_MODULE_TRAINING_H

#include "frontend/graph/function.h"
#include "frontend/graph/module.h"

// A module whose gradients are averaged over runs.
typedef struct FeAccumulation {
  const tn_module *module;
  FeParam *count;
  uint32_t n;
  Loc loc;
} FeAccumulation;

// How the batch of a function is cut (module/shards.c).
typedef struct FeShards {
  uint32_t n;
  Dim batch;
  tn_tensor count;
  int64_t bucket_bytes;  // 0: the default
  Loc loc;
} FeShards;

// Parameters that an optimizer did not reach.
typedef struct FeUntrained {
  tn_function *f;
  const tn_module *m;
  uint32_t diag;  // its report
} FeUntrained;

// ---- training.c
// Indices of parameters below m that have a gradient
uint32_t *fe_with_gradient(tn_function *f, const tn_module *m, uint32_t *n);
bool fe_check_gradients(tn_function *f, const tn_module *m, uint32_t n, tn_site at);  // n == 0: E122

// ---- shards.c
// x itself if its function is not distributed. If no shard counts, a gradient is 0, and any other mean NaN.
tn_tensor fe_shard_mean(tn_tensor x, bool is_gradient, tn_site at);

// ---- untrained.c
// Does a gradient reach every parameter below m? A warning that lists the others; required: an error, and false
bool fe_all_trained(tn_function *f, const tn_module *m, bool required, tn_site at);
void fe_note_cuts(tn_function *f);       // notes what cuts parameters off from the last loss
void fe_check_untrained(tn_program *p);  // warnings about parameters that another optimizer trains are notes

// ---- checkpoint.c
void fe_check_checkpoints(tn_module *m);  // of m and modules below it: W138

// ---- no_effect.c
void fe_warn_no_effect(tn_program *p);

#endif
