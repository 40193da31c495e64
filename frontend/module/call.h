// Calls of modules, with hooks or without, and what tn_summary knows of them.
#ifndef TN_FRONTEND_MODULE_CALL_H
#define TN_FRONTEND_MODULE_CALL_H

#include "frontend/graph/function.h"
#include "frontend/graph/module.h"

// One call of a module, for tn_summary: what it built lies in [first, end)
typedef struct FeModuleCall {
  tn_module *m;
  tn_values out;
  uint32_t depth, first, end;
} FeModuleCall;

// ---- call.c: modules run, with hooks or without
tn_tensor fe_call(tn_module *m, tn_tensor x, tn_site at);          // with them
bool fe_callable(tn_function *f, const tn_module *m, tn_site at);  // of f's program; false: reported
tn_tensor fe_count_new(tn_tensor t, uint32_t first, tn_site at);   // fe_made for a value made since `first`

// ---- summary.c: around a call, for tn_summary
uint32_t fe_call_begins(tn_function *f, tn_module *m);
void fe_call_ended(tn_function *f, uint32_t call, const tn_values *out);

// ---- forward.c
tn_values fe_forward_n(tn_module *m, tn_values in, tn_site at);  // n == 0: failed

// ---- own.c
tn_values fe_run_own(tn_module *m, tn_values in, tn_site at);   // a module of the user's; n == 0: failed
bool fe_order_inputs(tn_module *m, tn_values *in, tn_site at);  // as m takes them; false: reported
bool fe_takes_tensors(const tn_module *m);                      // is it called by tn_call?
uint32_t fe_n_in(const tn_module *m);
uint32_t fe_n_out(const tn_module *m);
const char *const *fe_value_names(tn_module *m, bool of_inputs);

#endif
