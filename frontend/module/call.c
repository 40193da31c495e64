// Running modules: tn_call with hooks, tn_forward without.
//
//   pre-hooks, then the module, then post-hooks; hooks on gradients see the values between the two kinds of hooks and the
//   module's inputs, and what the last post-hook gave
#include "frontend/module/call.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/report.h"
#include "frontend/module/grad_hook.h"
#include "frontend/module/hook.h"
#include "frontend/module/layers.h"
#include "frontend/packed/packed.h"

// What goes on in place of the hooked value. The hook may have done anything: ended this value, its function, ..
static bool run_plain(tn_hook *h, tn_module *m, const tn_values *in, tn_values *out, tn_site at) {
  tn_values *hooked = h->pre ? (tn_values *)in : out;
  tn_function *f = hooked->v[0].fn;
  FeTypes types = fe_types_of(hooked);
  FeHookRun run = fe_hook_begins(h, m);
  tn_tensor r = h->pre ? h->pre(m, in->v[0], h->ctx) : h->post(m, in->v[0], out->v[0], h->ctx);
  fe_hook_ended(&run);
  tn_values by = {.v = {r.fn ? r : hooked->v[0]}, .n = 1};
  return fe_hook_replaces(h, h->pre ? "input" : "output", f, hooked, &types, &by, at);
}

static tn_function *function_of(const tn_values *v) {
  for (uint32_t k = 0; k < v->n; k++)
    if (v->v[k].fn) return v->v[k].fn;
  return NULL;
}

static bool run_values(tn_hook *h, tn_module *m, tn_values *in, tn_values *out, tn_site at) {
  tn_values *hooked = h->values_pre ? in : out;
  tn_function *f = function_of(hooked);
  FeTypes types = fe_types_of(hooked);
  FeHookRun run = fe_hook_begins(h, m);
  tn_values r = h->values_pre ? h->values_pre(m, *in, h->ctx) : h->values_post(m, *in, *out, h->ctx);
  fe_hook_ended(&run);
  return fe_hook_replaces(h, h->values_pre ? "input" : "output", f, hooked, &types, &r, at);
}

// One kind of hooks. out NULL: those before the module
static bool run_hooks(const FeHooks *hooks, tn_module *m, tn_values *in, tn_values *out, tn_site at) {
  for (uint32_t k = 0; k < hooks->n; k++) {
    tn_hook *h = hooks->list[k];
    if (h->removed) continue;
    if ((out ? (void *)h->post : (void *)h->pre) && !run_plain(h, m, in, out, at)) return false;
    if ((out ? (void *)h->values_post : (void *)h->values_pre) && !run_values(h, m, in, out, at)) return false;
  }
  return true;
}

// A hook may give back a value that this call did not make: nothing is counted twice, and no leaf at all.
tn_tensor fe_count_new(tn_tensor t, uint32_t first, tn_site at) {
  if (!fe_ok(t) || t.v < first || fe_ins(t)->op == OP_param) return t;
  return fe_made(t, at);
}

static tn_values call_hooked(tn_module *m, tn_values in, tn_site at) {
  tn_values failed = {.n = 0}, out;
  FeHooks hooks = fe_hooks_of(m);
  in.names = fe_value_names(m, true);
  if (!fe_hook_may_run(m, at) || !run_hooks(&hooks, m, &in, NULL, at)) return failed;
  FeTapCall *taps = fe_tap_inputs(m, &hooks, in.v, in.n, at);
  tn_function *f = function_of(&in);
  uint32_t first = f->ir->n_ins;
  uint32_t record = fe_call_begins(f, m);
  out = fe_forward_n(m, in, at);
  fe_call_ended(f, record, &out);
  if (!out.n) return failed;
  for (uint32_t k = 0; k < out.n; k++) out.v[k] = fe_count_new(out.v[k], first, at);
  out.names = fe_value_names(m, false);
  if (!run_hooks(&hooks, m, &in, &out, at)) return failed;
  if (taps) fe_tap_outputs(taps, out.v, out.n, at);
  return out;
}

static tn_values call(tn_module *m, tn_values in, tn_site at) {
  m->called = fe_loc(m->p, at);
  if (fe_has_hooks(m)) return call_hooked(m, in, at);
  tn_function *f = function_of(&in);
  uint32_t record = fe_call_begins(f, m);
  tn_values out = fe_forward_n(m, in, at);
  fe_call_ended(f, record, &out);
  return out;
}

tn_tensor fe_call(tn_module *m, tn_tensor x, tn_site at) {
  if (!fe_ok(x) || m->poisoned) return fe_poison(x.fn);
  m->called = fe_loc(m->p, at);
  if (!fe_takes_tensors(m)) return fe_forward(m, x, at);
  tn_values y = call(m, (tn_values){.v = {x}, .n = 1}, at);
  return y.n == 1 ? y.v[0] : fe_poison(x.fn);
}

bool fe_callable(tn_function *f, const tn_module *m, tn_site at) { return fe_own_module(f->p, m, "called", at); }

static void note_forward(tn_module *m, bool with_hooks, tn_site at) {
  if (!with_hooks && !m->forwarded.i) m->forwarded = fe_loc(m->p, at);
}

static tn_tensor run_module(tn_module *m, tn_tensor x, bool with_hooks, tn_site at) {
  tn_function *f;
  const char *name = with_hooks ? "tn_call" : "tn_forward";
  if (!fe_join_for(name, &x, 1, &f, at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), name);
  if (!fe_callable(f, m, at)) return fe_poison(f);
  uint32_t first = f->ir->n_ins;
  note_forward(m, with_hooks, at);
  return fe_count_new(with_hooks ? fe_call(m, x, at) : fe_forward(m, x, at), first, at);
}

tn_tensor tn_call(tn_module *m, tn_tensor x, tn_site at) { return run_module(m, x, true, at); }
tn_tensor tn_forward(tn_module *m, tn_tensor x, tn_site at) { return run_module(m, x, false, at); }

// ---- several values
// Found by name as any others
static tn_values poisoned(tn_function *f, tn_module *m) {
  tn_values v = {.n = m ? fe_n_out(m) : 1, .names = m ? fe_value_names(m, false) : NULL};
  for (uint32_t k = 0; k < v.n; k++) v.v[k] = fe_poison(f);
  return v;
}

static tn_values run_values_of(tn_module *m, tn_values in, bool with_hooks, const char *name, tn_site at) {
  tn_function *f;
  tn_tensor given[TN_MAX_VALUES];
  uint32_t n = 0;
  for (uint32_t k = 0; k < in.n && k < TN_MAX_VALUES; k++)
    if (in.v[k].fn) given[n++] = in.v[k];
  if (!fe_join_for(name, given, n, &f, at)) return poisoned(f, m);
  FE_GUARD_AS(f->p, poisoned(f, m), name);
  if (!fe_callable(f, m, at) || m->poisoned || !fe_order_inputs(m, &in, at)) return poisoned(f, m);
  uint32_t first = f->ir->n_ins;
  note_forward(m, with_hooks, at);
  tn_values out = with_hooks ? call(m, in, at) : fe_forward_n(m, in, at);
  if (!out.n) return poisoned(f, m);
  for (uint32_t k = 0; k < out.n; k++) out.v[k] = fe_count_new(out.v[k], first, at);
  out.names = fe_value_names(m, false);
  return out;
}

tn_values tn_call_n(tn_module *m, tn_values in, tn_site at) { return run_values_of(m, in, true, __func__, at); }
tn_values tn_forward_n(tn_module *m, tn_values in, tn_site at) { return run_values_of(m, in, false, __func__, at); }

// On the rows of a packed sequence. What comes out has its layout, or another where the module changed lengths.
tn_packed tn_packed_call(tn_module *m, tn_packed s, tn_site at) {
  tn_function *f;
  if (!fe_join_packed(&s, 1, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  tn_tensor data = fe_callable(f, m, at) ? fe_call(m, s.data, at) : fe_poison(f);
  if (!fe_ok(data)) return fe_poisoned_packed(f);
  tn_packed changed = {data, {f, fe_rows_of(data)}};
  if (!changed.layout.v || changed.layout.v == s.layout.v) return tn_packed_with_data(s, data, at);
  return fe_made_packed(changed, tn_packed_n_members(s) == 2, at);
}
