// Tenure, modules of one's own, and hooks: functions of the user that run while the graph is built.
#ifndef TN_HOOK_H
#define TN_HOOK_H

#include "module.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- modules of one's own: a struct and a forward function
//
//   typedef struct { tn_module *up, *down; } Mlp;
//   static tn_values mlp(tn_module *m, tn_values in, void *self) {
//     Mlp *l = self;
//     return TN_VALUES(tn_call(l->down, tn_relu(tn_call(l->up, in.v[0]))));
//   }
//   Mlp l;
//   tn_module *m = tn_module_define(parent, "mlp", &(tn_module_class){.name = "Mlp", .forward = mlp}, &l);
//   l.up = tn_linear(m, "up", 8, 32), l.down = tn_linear(m, "down", 32, 8);
//   y = tn_call(m, x);
//
// Parameters, buffers and children are given to it as to any module. It may stand in a tn_sequential where it takes and
// gives one value; tn_share_module shares `self` too.
typedef tn_values (*tn_forward_function)(tn_module *m, tn_values in, void *self);
typedef struct {
  const char *name;  // of the kind, in reports and summaries
  tn_forward_function forward;
  uint32_t n_in, n_out;                // 0: 1; at most TN_MAX_VALUES
  const char *const *in, *const *out;  // names of inputs and outputs; NULL: "input" and "output", or "input0", ..
  uint32_t n_optional;                 // the last inputs, which may be TN_NONE
} tn_module_class;
// The class is copied, the names are; `self` must live until tn_compile
TN_API tn_module *tn_module_define(tn_module *parent, const char *name, const tn_module_class *c, void *self,
                                   tn_site at);
// Any module that works on tensors, with its hooks; without them. Inputs by name, in any order, where in.names is set.
TN_API tn_values tn_call_n(tn_module *m, tn_values in, tn_site at);
TN_API tn_values tn_forward_n(tn_module *m, tn_values in, tn_site at);
// The value of that name, to be read or replaced; NULL: there is none
TN_API tn_tensor *tn_value_named(tn_values *v, const char *name);
// fn for every module below m, children before their parent, m last
TN_API void tn_module_apply(tn_module *m, void (*fn)(tn_module *m, void *ctx), void *ctx);
// A table of m and the modules below it as f called them so far, in that order: output, parameters, multiply-adds of
// products, recurrences and attention, bytes of the outputs, all by the bounds of dims; then totals, parameters of several paths
// counted once. Before tn_compile; TN_ERR_ARGUMENT after it, or where f and m are of two programs
TN_API tn_status tn_summary(const tn_function *f, const tn_module *m, FILE *out);
TN_API const char *tn_module_path(const tn_module *m);  // "" for the root; as long as the program
TN_API const char *tn_module_kind(const tn_module *m);  // "Linear", .., or the name of its class
TN_API void *tn_module_self(const tn_module *m);        // as given to tn_module_define; NULL: of another kind
TN_API bool tn_is_eval(const tn_function *f);           // is it marked by tn_eval?

// ---- hooks of modules: functions that tn_call runs while the graph is built
//
//   static tn_tensor negate(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) { return tn_neg(out); }
//   tn_hook *h = tn_hook_post(fc, negate, NULL);
//   y = tn_call(fc, x);     // -fc(x), and gradients know
//   tn_hook_remove(h);       // for the calls that follow; a second time does nothing
//
// A hook returns what replaces the hooked value, of the same shape and dtype (E118), or TN_NONE to keep it; the next
// hook sees the replacement. Order: as registered, prepended ones in front. What a hook sees or makes belongs to the
// newest open scope as any value does: do not keep it for later, since that scope may close before (E103). A hook that
// never fires, because the module runs through tn_forward only, is W119; registering or removing one after
// tn_compile is an error (E009). Hooks belong to one path: tn_share_module does not share them. Recurrent modules
// have hooks of their own (tn_rnn_hook_pre), and those on gradients; cells and modules that only hold parameters have none.
typedef tn_tensor (*tn_pre_hook)(tn_module *m, tn_tensor in, void *ctx);
typedef tn_tensor (*tn_post_hook)(tn_module *m, tn_tensor in, tn_tensor out, void *ctx);
typedef struct {
  bool prepend;  // else behind those that are there
  // Of hooks of a tree: they run for all modules at a path below m that matches, as variables do ("enc", "**/fc*"), and
  // those below; also for modules that are made later. "**": m too, and so all modules there are where m is the root.
  // They run before the module's own, in the order of their registration. NULL: the hook is of m alone.
  const char *pattern;
  tn_site at;
} tn_hook_options;
// The handle is the program's; NULL on error
TN_API tn_hook *tn_hook_pre(tn_module *m, tn_pre_hook fn, void *ctx, tn_hook_options o);
TN_API tn_hook *tn_hook_post(tn_module *m, tn_post_hook fn, void *ctx, tn_hook_options o);
TN_API void tn_hook_remove(tn_hook *h, tn_site at);

// Of modules with several inputs or outputs, and of any other: all values at once, by name too. What is returned has as
// many values as were given, in their order (E118), or is TN_KEEP.
//
//   static tn_values twice(tn_module *m, tn_values in, void *ctx) {
//     tn_tensor *bias = tn_value_named(&in, "bias");
//     if (bias) *bias = tn_mul_scalar(*bias, 2);
//     return in;
//   }
typedef tn_values (*tn_values_pre_hook)(tn_module *m, tn_values in, void *ctx);
typedef tn_values (*tn_values_post_hook)(tn_module *m, tn_values in, tn_values out, void *ctx);
TN_API tn_hook *tn_hook_values_pre(tn_module *m, tn_values_pre_hook fn, void *ctx, tn_hook_options o);
TN_API tn_hook *tn_hook_values_post(tn_module *m, tn_values_post_hook fn, void *ctx, tn_hook_options o);

// ---- hooks on gradients. They run where tn_backward or tn_grad is called, each time, and see the gradient as any value:
// what they build is part of the function. What they return takes its place for all that comes before in the model. A hook that
// asks for a gradient which would run it again is E009.
//
//   static tn_tensor clip(tn_tensor g, void *ctx) { return tn_clamp(g, -1, 1); }
//   tn_on_grad(h, clip, NULL);                       // of any f32 value; of a parameter: tn_param_value(f, fc, "weight")
//   tn_backward(loss);
//
// Of one value: the gradient of a loss with respect to it, all that reaches it added up; TN_NONE keeps it. Several run in
// order. tn_grad runs those between the loss and what the gradient is of, whatever requires one. It must be alive then (E103).
typedef tn_tensor (*tn_grad_hook)(tn_tensor grad, void *ctx);
TN_API tn_hook *tn_on_grad(tn_tensor t, tn_grad_hook fn, void *ctx, tn_hook_options o);  // pattern: not of values
// Of a module, for each call that took it, also where it was removed after that call (ctx is read then): when the gradients of its outputs are there, and when those of its inputs are, as far as
// this call sends to them. TN_NONE among them: an output that the loss does not read; in tn_backward an input that requires none.
// If none does, the second kind fires with the first, with nothing to replace. Modules whose output requires no gradient
// have no gradients to watch: W119. Of a recurrent module, in calls of sequences, the outputs are `output` (packed: its
// data), `hidden` and, of an LSTM, `cell`, and the inputs `input`, `h0` and `c0`; an initial state that was not given is TN_NONE.
typedef tn_values (*tn_backward_pre_hook)(tn_module *m, tn_values grad_out, void *ctx);
typedef tn_values (*tn_backward_hook)(tn_module *m, tn_values grad_in, tn_values grad_out, void *ctx);
TN_API tn_hook *tn_hook_backward_pre(tn_module *m, tn_backward_pre_hook fn, void *ctx, tn_hook_options o);
TN_API tn_hook *tn_hook_backward(tn_module *m, tn_backward_hook fn, void *ctx, tn_hook_options o);

#ifdef __cplusplus
}
#endif

#endif
