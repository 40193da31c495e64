// What a call of a module computes, by its kind.
#include "frontend/graph/activations.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/report.h"
#include "frontend/module/attention.h"
#include "frontend/module/call.h"
#include "frontend/module/hook.h"
#include "frontend/module/layers.h"
#include "frontend/module/tree.h"

// What a child gives to a hooked one is a value that the user sees, so that it counts as made.
static tn_tensor call_children(tn_module *m, tn_tensor x, tn_site at) {
  for (tn_module *c = m->first; c; c = c->next) {
    uint32_t first = x.fn ? x.fn->ir->n_ins : 0;
    x = fe_call(c, x, at);
    if (c->next && fe_has_hooks(c->next)) x = fe_count_new(x, first, at);
  }
  return m->first ? x : fe_same(x, at);
}

static const char *works_on(const tn_module *m) {
  return m->kind == MOD_RNN ? "packed sequences" : "one step and its states";
}

tn_tensor fe_forward(tn_module *m, tn_tensor x, tn_site at) {
  FE_INSIDE(m);
  if (!fe_ok(x) || m->poisoned) return fe_poison(x.fn);
  switch (m->kind) {
  case MOD_LINEAR: return fe_linear_forward(m, x, at);
  case MOD_EMBEDDING: return fe_embed(m, x, at);
  case MOD_DROPOUT: return fe_dropout(x, m->config.rate, at);
  case MOD_ACTIVATION: return fe_emit(m->config.op, &x, 1, m->config.attrs, m->config.n_attrs, at);
  case MOD_ATTENTION: return fe_attend(m, x, at);
  case MOD_SEQUENTIAL: return call_children(m, x, at);
  case MOD_OWN: {
    tn_values y = fe_run_own(m, (tn_values){.v = {x}, .n = 1, .names = fe_value_names(m, true)}, at);
    if (y.n == 1) return y.v[0];
    if (y.n) fe_error(m->p, E_ARGUMENT, at, "module '%s' gives %u values: tn_call_n takes them", m->path, y.n);
    return fe_poison(x.fn);
  }
  case MOD_LAYER_NORM:
  case MOD_RMS_NORM: return fe_norm(m, x, at);
  case MOD_BUILT_IN: return m->config.forward(m, x, at);
  case MOD_RNN:
  case MOD_RNN_CELL: fe_error(m->p, E_ARGUMENT, at, "module '%s' works on %s", m->path, works_on(m)); break;
  case MOD_KV_CACHE:
  case MOD_SLOTS:
  case MOD_SLOT_CACHE:
  case MOD_PLAIN:
    fe_error(m->p, E_ARGUMENT, at, "module '%s' holds parameters only: it cannot be called", m->path);
    break;
  }
  if (m->kind == MOD_RNN) fe_hint(m->p, "tn_rnn_call(m, tn_pack_padded(x, lengths))");
  if (m->kind == MOD_RNN_CELL) fe_hint(m->p, "tn_rnn_step(m, x, .h0 = h)");
  return fe_poison(x.fn);
}

tn_values fe_forward_n(tn_module *m, tn_values in, tn_site at) {
  in.names = fe_value_names(m, true);
  if (m->kind == MOD_OWN) {
    FE_IN_CHECKPOINT(m);
    return fe_run_own(m, in, at);
  }
  tn_tensor y = fe_forward(m, in.v[0], at);
  return (tn_values){.v = {y}, .n = fe_ok(y)};
}
