// What optimizers are made of: groups of parameters, numbers that may be set between runs, counters, schedules.
#ifndef TN_FRONTEND_MODULE_OPTIMIZER_H
#define TN_FRONTEND_MODULE_OPTIMIZER_H

#include "frontend/graph/function.h"
#include "frontend/graph/module.h"
#include "frontend/tenure/train.h"
#include "runtime/exec/plan_types.h"

// A hyper-parameter that can be set between runs, by group of an optimizer.
typedef struct FeHyper {
  tn_module *module;  // that the optimizer trains
  FeParam *param;
  uint32_t group;
  uint8_t kind;  // RtHyperKind
} FeHyper;

typedef struct FeGroup {
  uint32_t number;
  tn_group_options o;
  Loc loc;
} FeGroup;

// ---- param_groups.c
const tn_group_options *fe_group_options(tn_program *p, uint32_t number);
// False: an optimizer of m or of a module above exists and would never train it; reported, m is poisoned
bool fe_may_add(tn_module *m, const char *name, ParamKind kind, tn_site at);
// The entry of a hyper-parameter, made with this value; NULL: reported
FeParam *fe_hyper(tn_module *m, uint32_t group, RtHyperKind kind, double value, tn_site at);

// ---- counters.c
// Steps of f's optimizers on this parameter, this one included: a state entry under `key`. is_read: the
// update reads it; else other functions do
tn_tensor fe_next_step(tn_function *f, const FeParam *of, const char *key, bool is_read, tn_site at);
// NAdam's product of mu over all steps, `step` included. cycled: beta1 if a schedule moves it, else empty
tn_tensor fe_next_mu_product(tn_function *f, const FeParam *of, double beta1, tn_tensor cycled, double momentum_decay,
                             tn_tensor step, tn_site at);
// joins counters that are always equal; handles of values are invalid afterwards
void fe_merge_counters(tn_program *p);

// ---- schedule.c
// The rate that schedule s (NULL: none) makes of lr for a group of the optimizer of m
tn_tensor fe_scheduled(tn_function *f, const tn_module *m, uint32_t group, tn_schedule *s, tn_tensor lr, tn_site at);
bool fe_cycles_momentum(const tn_schedule *s);
void fe_check_schedule(const tn_schedule *s);  // W133
tn_tensor fe_scheduled_momentum(tn_function *f, const tn_module *m, uint32_t group, tn_schedule *s, const char *what,
                                tn_tensor base, tn_site at);

#endif
