// The tree of modules, and what stands in it: parameters, buffers, states.
#ifndef TN_FRONTEND_MODULE_TREE_H
#define TN_FRONTEND_MODULE_TREE_H

#include "frontend/graph/function.h"
#include "frontend/graph/module.h"

// A tn_freeze. It acts on functions that first use a frozen parameter after it.
typedef struct FeFreeze {
  tn_module *m;
  Loc at;
  const tn_function *open;  // the function that was being built; NULL: none
  uint32_t n_first_uses;    // the program's at the time
} FeFreeze;

// ---- tree.c
// NULL: no parent; else maybe poisoned
tn_module *fe_module(tn_module *parent, const char *name, FeModuleKind kind, tn_site at);
FeParam *fe_param_add(tn_program *p, const char *path, ParamKind kind, Shape s, tn_init init, Loc loc);  // f32
FeParam *fe_module_param(tn_module *m, const char *name, const int64_t *dims, uint32_t n, tn_init init, tn_site at);
// Of rank 0 or 1; kind: PARAM_BUFFER or PARAM_TRANSIENT
FeParam *fe_module_buffer(tn_module *m, const char *name, ParamKind kind, DType t, const int64_t *size, tn_init init,
                          tn_site at);
FeEntry *fe_entry(const tn_module *m, const char *name);
// The module that holds the entry at a path below m, as tn_named_parameters gives it; *path becomes its last
// name. If a module on the way is missing: m itself, and *path unchanged.
tn_module *fe_holder(tn_module *m, const char **path);
FeEntry *fe_entry_at(tn_module *m, const char *path);             // by such a path; NULL: none
const char *fe_near_entry(const tn_module *m, const char *name);  // "; did you mean 'weight'?", or ""
uint32_t fe_froze(tn_module *m, bool frozen, tn_site at);         // number of the call, for FeParam.frozen_by
void fe_params_flush(tn_program *p);  // enters all pending ones into the table, with their initialisation
tn_tensor fe_use(tn_function *f, FeParam *q, tn_site at);   // its current value in f
tn_tensor fe_read(tn_function *f, FeParam *q, tn_site at);  // the same to compute with: of f16 and bf16 as f32
FeParam *fe_state(tn_program *p, const char *path, Shape s, double init, tn_site at);  // found or made
FeParam *fe_state_like(tn_program *p, const char *path, FeParam *of, tn_site at);      // begins with the values of `of`
bool fe_has_state(const tn_program *p, const char *path);
const char *fe_path(tn_program *p, const char *path, const char *name);
const char *fe_module_text(const tn_module *m);  // as messages name it: "module 'enc.0'", "the root module"
bool fe_free_name(tn_module *m, const char *what, const char *name, tn_site at);  // false: taken, reported
void fe_add_alias(tn_module *m, const char *name, FeParam *q);
Val fe_initial(tn_program *p, FeParam *q);  // made when it was not yet
FeParam *fe_param_of(const tn_program *p, uint32_t index);
// Those in the tree below m, by any of their paths, have this FeParam.stamp until the next walk.
uint32_t fe_see_below(const tn_module *m);

// ---- variables.c: entries below m whose path matches, in the order of tn_variables; *out in the program's arena
uint32_t fe_variables(tn_module *m, const char *pattern, tn_which which, tn_variable **out);

// n: how many `what` below m match; 0: reported, and false
bool fe_matched(const tn_module *m, const char *pattern, const char *what, uint32_t n, tn_site at);

// ---- adopt_param.c
tn_function *fe_init(tn_program *p);  // the function that makes initial values
tn_tensor fe_initial_handle(tn_function *init, FeParam *q);
void fe_param_end(tn_program *p, FeParam *q, Loc at);  // no name of it is left; counted as an end of its own
bool fe_has_params(FeModuleKind kind);
bool fe_adopts_params(tn_module *m, const char *name, tn_site at);  // false: reported

#endif
