// Hooks: registering them, and running those of a call.
#ifndef TN_FRONTEND_MODULE_HOOK_H
#define TN_FRONTEND_MODULE_HOOK_H

#include "frontend/graph/function.h"
#include "frontend/graph/module.h"
#include "frontend/tenure/rnn.h"

struct tn_hook {
  tn_program *p;
  tn_module *module;    // NULL: of one value's gradient
  const char *pattern;  // of a tree: the modules below `module` that match; NULL: of `module` alone
  tn_pre_hook pre;      // one of these
  tn_post_hook post;
  tn_values_pre_hook values_pre;
  tn_values_post_hook values_post;
  tn_rnn_pre_hook rnn_pre;
  tn_rnn_post_hook rnn_post;
  tn_grad_hook on_grad;
  tn_backward_pre_hook backward_pre;
  tn_backward_hook backward;
  void *ctx;
  tn_module *on;  // that it ran for last
  Loc loc;
  bool removed, fired;
  bool is_tapped;  // of a backward hook: a call came by
  Loc untracked;   // likewise: one whose outputs require no gradient
};

// Registering hooks, and those that a call runs
tn_hook *fe_hook_add(tn_module *m, tn_hook h, tn_hook_options o);
tn_hook *fe_hook_new(tn_program *p, tn_hook h, tn_site at);  // of no module; NULL: the program was compiled, reported
FeHooks fe_hooks_of(const tn_module *m);                     // as they stand now: those of trees, then its own
static inline bool fe_has_hooks(const tn_module *m) { return m->hooks.n || m->p->tree_hooks.n; }
void fe_unused_hooks(tn_program *p);  // W119
// Around the user's function
typedef struct {
  tn_hook *hook;
  tn_program *p;
  tn_module *module;
  tn_hook *running;  // of the module, around this one
  FeGuard *guard;
  const tn_module *inside;
} FeHookRun;
FeHookRun fe_hook_begins(tn_hook *h, tn_module *m);  // m NULL: of a value
void fe_hook_ended(const FeHookRun *run);
bool fe_hook_may_run(const tn_module *m, tn_site at);  // false: m's hooks are running; reported
// May r stand for `what` ("its input"), of this dtype and shape when the hook was called? false: reported
bool fe_hook_fits(const tn_hook *h, const char *what, tn_function *f, uint8_t dtype, Shape s, tn_tensor r, tn_site at);
// Takes what a hook returned in place of v[0 .. n); `what` ("input"). names: NULL: none. false: reported
typedef struct {
  uint8_t dtype[TN_MAX_VALUES];
  Shape shape[TN_MAX_VALUES];
} FeTypes;
FeTypes fe_types_of(const tn_values *v);
bool fe_hook_replaces(const tn_hook *h, const char *what, tn_function *f, tn_values *v, const FeTypes *types,
                      const tn_values *by, tn_site at);

#endif
