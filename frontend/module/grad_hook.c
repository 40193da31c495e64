// Hooks on gradients. Gradients are made by pass grad; while the program is built a hook sees one as `grad_of`, and what it
// returns goes on in its place by `grad_replace`, for all gradients that tn_backward or tn_grad asks for after it:
//
//   tn_on_grad(h, twice, NULL);
//   tn_backward(loss);          %g = grad_of %loss, %h
//                               %r = mul %g, %two                    what `twice` built
//                               %l = grad_replace %loss, %h, %r      %loss, and gradients of it go on from %h with %r
//                               %d = grad_of %l, %w
//
// A tap is a place where hooks see gradients: one value of the user, or the inputs or outputs of a call of a module. These
// are clones of the values, which vanish with pass grad: the gradient of an input's clone is what this call sends to it.
// Taps are visited from the last value to the first, as the backward goes. What requires no gradient is tapped as well, as far as it
// is made of inputs or frozen parameters: tn_grad may ask for theirs. tn_backward passes over it.
#include "frontend/module/grad_hook.h"
#include "frontend/graph/inplace.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scan.h"
#include "frontend/graph/scope.h"
#include "frontend/module/call.h"
#include "frontend/module/hook.h"
#include "ir/fn.h"
#include <stdlib.h>
#include <string.h>

struct FeGradTap {
  tn_tensor v[TN_MAX_VALUES];  // none: it cannot have a gradient
  bool is_tracked[TN_MAX_VALUES];
  uint32_t n;
  FeHooks hooks;            // of a value
  FeTapCall *call;          // of a module; NULL: of a value
  bool is_out, is_visited;  // is_visited: by the backward at hand
  const tn_hook *running;   // one of a value, or of a module's outputs; NULL: none
};

struct FeTapCall {
  tn_module *m;
  FeHooks hooks;  // as they stood when it was called: one that is removed later runs all the same
  FeGradTap *in;  // NULL: no input can have a gradient
  uint32_t n_in;
  tn_values grad_out;      // of the backward at hand
  const tn_hook *running;  // one of its inputs; NULL: none
};

static FeGradTap *add_tap(tn_function *f, FeGradTap tap) {
  FeGradTap *t = rt_alloc(f->p->mem, sizeof *t);
  *t = tap;
  *RT_PUSH(f->p->mem, f->taps, f->n_taps, f->cap_taps) = t;
  return t;
}

// ---- of one value
static FeGradTap *tap_of(tn_tensor t) {
  for (uint32_t k = 0; k < t.fn->n_taps; k++) {
    FeGradTap *tap = t.fn->taps[k];
    if (!tap->call && tap->v[0].v == t.v) return tap;
  }
  return add_tap(t.fn, (FeGradTap){.v = {t}, .is_tracked = {true}, .n = 1});
}

static bool check_value(tn_tensor t, tn_grad_hook fn, const tn_hook_options *o) {
  tn_program *p = t.fn->p;
  if (!fn) fe_error(p, E_ARGUMENT, o->at, "a hook on a gradient is no function");
  else if (o->pattern) fe_error(p, E_ARGUMENT, o->at, "a hook on a gradient takes no pattern: it is of one value");
  else if (fe_ins(t)->dtype != DT_F32) {
    fe_error(p, E_DTYPE, o->at, "only f32 values have gradients");
    fe_note_value(t, "the value");
  } else
    return fe_outside_scan(t.fn, "a hook on a gradient", "hook what goes into the scan, or what comes out of it",
                           o->at);
  return false;
}

tn_hook *tn_on_grad(tn_tensor t, tn_grad_hook fn, void *ctx, tn_hook_options o) {
  tn_function *f;
  if (t.fn && t.fn->p->sealed) return fe_hook_new(t.fn->p, (tn_hook){.on_grad = fn}, o.at);  // reported
  if (!fe_join(&t, 1, &f, o.at)) return NULL;
  FE_GUARD(f->p, NULL);
  if (!check_value(t, fn, &o)) return NULL;
  tn_hook *h = fe_hook_new(f->p, (tn_hook){.on_grad = fn, .ctx = ctx}, o.at);
  FeGradTap *tap = tap_of(t);
  *RT_PUSH(f->p->mem, tap->hooks.list, tap->hooks.n, tap->hooks.cap) = h;
  if (o.prepend) {
    memmove(tap->hooks.list + 1, tap->hooks.list, (tap->hooks.n - 1) * sizeof(tn_hook *));
    tap->hooks.list[0] = h;
  }
  return h;
}

// ---- of a call of a module
static bool tap_values(FeGradTap *tap, tn_tensor *v, uint32_t n, tn_site at) {
  bool any = false;
  tap->n = n;
  for (uint32_t k = 0; k < n; k++) {
    if (!fe_ok(v[k]) || !fe_may_have_gradient(v[k])) continue;
    tap->is_tracked[k] = fe_is_tracked(v[k]);
    tap->v[k] = fe_keep(fe_emit1(OP_clone, v[k], at), at);
    any = true;
  }
  return any;
}

static bool any_tracked(const FeGradTap *tap) {
  bool any = false;
  for (uint32_t k = 0; k < tap->n; k++) any |= tap->is_tracked[k];
  return any;
}

FeTapCall *fe_tap_inputs(tn_module *m, const FeHooks *hooks, tn_tensor *v, uint32_t n, tn_site at) {
  tn_function *f = NULL;
  bool any = false;
  for (uint32_t k = 0; k < hooks->n; k++) {
    tn_hook *h = hooks->list[k];
    if (!h->backward && !h->backward_pre) continue;
    h->is_tapped = any = true;
  }
  for (uint32_t k = 0; k < n && !f; k++) f = v[k].fn;
  static const char *const hint = "hook what goes into the scan, or what comes out of it";
  if (!any || !fe_outside_scan(f, "a module with hooks on gradients", hint, at)) return NULL;
  FeTapCall *c = rt_alloc(m->p->mem, sizeof *c);
  *c = (FeTapCall){.m = m, .hooks = *hooks, .n_in = n};
  FeGradTap tap = {.call = c};
  if (!tap_values(&tap, v, n, at)) return c;
  for (uint32_t k = 0; k < n; k++)
    if (tap.v[k].fn) v[k] = tap.v[k];
  c->in = add_tap(f, tap);
  return c;
}

void fe_tap_outputs(FeTapCall *c, tn_tensor *v, uint32_t n, tn_site at) {
  FeGradTap tap = {.call = c, .is_out = true};
  tn_function *f = v[0].fn;
  bool any = tap_values(&tap, v, n, at);
  for (uint32_t k = 0; k < c->hooks.n && !any_tracked(&tap); k++) c->hooks.list[k]->untracked = fe_loc(f->p, at);
  if (!any && c->in) c->in->n = 0;
  if (!any) return;
  // What the caller sees is a value of its own scope
  for (uint32_t k = 0; k < n; k++)
    if (tap.v[k].fn) v[k] = fe_emit1(OP_clone, tap.v[k], at);
  add_tap(f, tap);
}

// ---- running
typedef struct {
  FeHooked result;
  tn_function *f;
  tn_tensor of;   // none: tn_backward
  bool *reached;  // by value
  tn_site at;
} Backward;

static bool is_leaf(tn_tensor t) { return fe_ins(t)->op == OP_param || fe_ins(t)->op == OP_input; }

// A parameter as it is now
static tn_tensor newest(tn_tensor t) {
  if (fe_ins(t)->op != OP_param) return t;
  Val now = t.fn->uses[ir_attr_int(t.fn->ir, fe_val(t), KEY_param, 0)].now;
  return (tn_tensor){t.fn, now.i};
}

// False: `running`, a hook of the same place, asks for this gradient, and would without end. Reported
static bool may_run(const Backward *b, const tn_hook *running) {
  if (!running) return true;
  tn_program *p = b->f->p;
  if (running->on)
    fe_error(p, E_STATE, b->at, "a hook of module '%s' asks for a gradient that it is itself a part of",
             running->on->path);
  else fe_error(p, E_STATE, b->at, "a hook on a gradient asks for a gradient that it is itself a part of");
  fe_note(p, running->loc, "the hook was registered here");
  fe_hint(p, "a hook takes gradients of what does not depend on the hooked value, or of its tn_detach(..)");
  return false;
}

static bool run_of_value(Backward *b, FeGradTap *tap, tn_tensor *grad) {
  FeHooks hooks = tap->hooks;
  tn_values v = {.v = {*grad}, .n = 1};
  FeTypes types = fe_types_of(&v);
  for (uint32_t k = 0; k < hooks.n; k++) {
    tn_hook *h = hooks.list[k];
    if (h->removed) continue;
    if (!may_run(b, tap->running)) return false;
    FeHookRun run = fe_hook_begins(h, NULL);
    tap->running = h;
    tn_tensor r = h->on_grad(v.v[0], h->ctx);
    tap->running = NULL;
    fe_hook_ended(&run);
    tn_values by = {.v = {r.fn ? r : v.v[0]}, .n = 1};
    if (!fe_hook_replaces(h, "gradient", b->f, &v, &types, &by, b->at)) return false;
  }
  *grad = v.v[0];
  return true;
}

static bool run_backward(Backward *b, FeTapCall *c, tn_values *grad_in) {
  FeTypes types = fe_types_of(grad_in);
  for (uint32_t k = 0; k < c->hooks.n; k++) {
    tn_hook *h = c->hooks.list[k];
    if (!h->backward) continue;
    if (!may_run(b, c->running)) return false;
    FeHookRun run = fe_hook_begins(h, c->m);
    c->running = h;
    tn_values r = h->backward(c->m, *grad_in, c->grad_out, h->ctx);
    c->running = NULL;
    fe_hook_ended(&run);
    if (!fe_hook_replaces(h, "gradient of the input", b->f, grad_in, &types, &r, b->at)) return false;
  }
  return true;
}

static bool run_of_outputs(Backward *b, FeGradTap *tap, tn_values *grad) {
  FeTapCall *c = tap->call;
  FeTypes types = fe_types_of(grad);
  for (uint32_t k = 0; k < c->hooks.n; k++) {
    tn_hook *h = c->hooks.list[k];
    if (!h->backward_pre) continue;
    if (!may_run(b, tap->running)) return false;
    FeHookRun run = fe_hook_begins(h, c->m);
    tap->running = h;
    tn_values r = h->backward_pre(c->m, *grad, h->ctx);
    tap->running = NULL;
    fe_hook_ended(&run);
    if (!fe_hook_replaces(h, "gradient of the output", b->f, grad, &types, &r, b->at)) return false;
  }
  c->grad_out = *grad;
  if (c->in && (c->in->is_visited || any_tracked(c->in))) return true;
  tn_values none = {.n = c->n_in, .names = fe_value_names(c->m, true)};
  return run_backward(b, c, &none);
}

static bool *reached_from(tn_tensor t) {
  tn_function *f = t.fn;
  f->reach.least = 0;
  ir_grad_reach(f->ir, fe_val(t), &f->reach);
  bool *has = rt_alloc(f->p->mem, f->ir->n_ins);
  memcpy(has, f->reach.has, f->ir->n_ins);
  return has;
}

static bool leads_to_wanted(const Backward *b, tn_tensor v) {
  return b->of.fn && (newest(b->of).v == newest(v).v || reached_from(v)[b->of.v]);
}

static bool has_gradient(const Backward *b, const FeGradTap *tap, uint32_t k) {
  tn_tensor v = tap->v[k].fn ? newest(tap->v[k]) : TN_NONE;
  return v.fn && b->reached[v.v] && (tap->is_tracked[k] || leads_to_wanted(b, tap->v[k]));
}

static tn_tensor gradient(Backward *b, const FeGradTap *tap, uint32_t k) {
  if (!has_gradient(b, tap, k)) return TN_NONE;
  return fe_keep(fe_emit2(OP_grad_of, b->result.loss, newest(tap->v[k]), b->at), b->at);
}

static void replace(Backward *b, tn_tensor v, tn_tensor grad) {
  if (is_leaf(v)) {
    FeHooked *r = &b->result;
    *RT_PUSH(b->f->p->mem, r->leaves, r->n_leaves, r->cap_leaves) = (struct FeLeafGrad){v, fe_keep(grad, b->at)};
  } else
    b->result.loss =
        fe_keep(fe_emit(OP_grad_replace, (const tn_tensor[]){b->result.loss, v, grad}, 3, NULL, 0, b->at), b->at);
}

static bool visit(Backward *b, FeGradTap *tap) {
  tn_values grad = {.n = tap->n};
  tn_tensor of[TN_MAX_VALUES], was[TN_MAX_VALUES];
  if (tap->call) grad.names = fe_value_names(tap->call->m, !tap->is_out);
  for (uint32_t k = 0; k < tap->n; k++) {
    of[k] = tap->v[k].fn ? newest(tap->v[k]) : TN_NONE;
    was[k] = grad.v[k] = gradient(b, tap, k);
    if (was[k].fn && !fe_ok(was[k])) return false;
  }
  bool ok = !tap->call    ? run_of_value(b, tap, &grad.v[0])
            : tap->is_out ? run_of_outputs(b, tap, &grad)
                          : run_backward(b, tap->call, &grad);
  for (uint32_t k = 0; k < tap->n && ok; k++)
    if (grad.v[k].v != was[k].v) replace(b, of[k], grad.v[k]);
  return ok && fe_ok(b->result.loss);
}

// ---- which, in which order
typedef struct {
  FeGradTap *tap;
  uint32_t first;  // its first value
  uint32_t number;
} Place;

static int later_first(const void *a, const void *b) {
  const Place *x = a, *y = b;
  if (x->first != y->first) return x->first > y->first ? -1 : 1;
  return x->number < y->number ? -1 : 1;
}

// Does the gradient of one of its values come by on its way to what is wanted?
static bool is_on_way(const Backward *b, const FeGradTap *tap) {
  for (uint32_t k = 0; k < tap->n; k++)
    if (has_gradient(b, tap, k) && (!b->of.fn || leads_to_wanted(b, tap->v[k]))) return true;
  return false;
}

static uint32_t first_of(const FeGradTap *tap) {
  uint32_t first = UINT32_MAX;
  for (uint32_t k = 0; k < tap->n; k++)
    if (tap->v[k].fn && tap->v[k].v < first) first = tap->v[k].v;
  return tap->call || !is_leaf(tap->v[0]) ? first : 0;  // leaves at the end
}

FeHooked fe_run_grad_hooks(tn_tensor loss, tn_tensor of, tn_site at) {
  tn_function *f = loss.fn;
  Backward b = {.result = {.loss = loss}, .f = f, .of = of, .at = at};
  if (!f->n_taps) return b.result;
  uint32_t n = 0;
  Place *places = rt_alloc(f->p->mem, f->n_taps * sizeof *places);
  b.reached = reached_from(loss);
  for (uint32_t k = 0; k < f->n_taps; k++) {
    f->taps[k]->is_visited = is_on_way(&b, f->taps[k]);
    if (f->taps[k]->is_visited) places[n++] = (Place){f->taps[k], first_of(f->taps[k]), k};
  }
  qsort(places, n, sizeof *places, later_first);
  for (uint32_t k = 0; k < n; k++) {
    if (visit(&b, places[k].tap)) continue;
    b.result.loss = fe_poison(f);
    break;
  }
  return b.result;
}
