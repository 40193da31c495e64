// Modules without state over time: linear, embedding, dropout, activations, and sequences of modules.
#include "frontend/fe.h"
#include "runtime/near.h"
#include <string.h>

static bool check_sizes(tn_module *m, int64_t a, int64_t b, tn_site at) {
  const int64_t most = INT64_C(1) << 30;
  if (m->poisoned) return false;
  m->poisoned = a < 1 || b < 1 || a > most || b > most;
  if (m->poisoned)
    fe_error(m->p, E_ARGUMENT, at, "module '%s' has the sizes %lld and %lld: both must lie in [1, 2^30]", m->path,
             (long long)a, (long long)b);
  return !m->poisoned;
}

tn_module *tn_linear(tn_module *parent, const char *name, int64_t in, int64_t out, tn_linear_options o) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_module(parent, name, MOD_LINEAR, o.at);
  if (!check_sizes(m, in, out, o.at)) return m;
  double k = 1 / sqrt((double)in);
  tn_init init = {TN_INIT_UNIFORM, -k, k};
  m->config.has_bias = !o.no_bias;
  fe_module_param(m, "weight", (const int64_t[]){out, in}, 2, init, o.at);
  if (m->config.has_bias) fe_module_param(m, "bias", &out, 1, init, o.at);
  return m;
}

tn_module *tn_embedding(tn_module *parent, const char *name, int64_t count, int64_t size, tn_site at) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_module(parent, name, MOD_EMBEDDING, at);
  if (!check_sizes(m, count, size, at)) return m;
  fe_module_param(m, "weight", (const int64_t[]){count, size}, 2, (tn_init){TN_INIT_NORMAL, 0, 1}, at);
  return m;
}

tn_module *tn_dropout_module(tn_module *parent, const char *name, double p, tn_site at) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_module(parent, name, MOD_DROPOUT, at);
  m->config.rate = p;
  if (m->poisoned || (p >= 0 && p <= 1)) return m;
  fe_error(m->p, E_ARGUMENT, at, "dropout takes a probability in [0, 1], not %g", p);
  m->poisoned = true;
  return m;
}

#define UNARY(n, ...) [OP_##n] = true,
static const bool is_unary[N_OPS] = {
#include "ir/ops.def"
};

tn_module *tn_activation(tn_module *parent, const char *name, const char *op, tn_site at) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_module(parent, name, MOD_ACTIVATION, at);
  m->config.op = op ? ir_op_find(op) : OP_none;
  // These rows need an attribute that a name alone cannot give.
  bool known =
      m->config.op != OP_none && is_unary[m->config.op] && m->config.op != OP_dropout && m->config.op != OP_leaky_relu;
  if (m->poisoned || known) return m;
  RtNear near = {.wanted = op};
  for (uint32_t k = OP_none + 1; k < N_OPS; k++)
    if (is_unary[k]) rt_near_offer(&near, ir_ops[k].name);
  fe_error(m->p, E_ARGUMENT, at, "'%.40s' is no activation: give the name of a unary operation, such as relu%s",
           op ? op : "", rt_near_text(&near));
  m->poisoned = true;
  return m;
}

tn_module *tn_sequential(tn_module *parent, const char *name, tn_site at) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  return fe_module(parent, name, MOD_SEQUENTIAL, at);
}

// ---- calls
tn_tensor fe_linear(tn_tensor x, tn_tensor w, tn_tensor b, bool has_bias, tn_site at) {
  return fe_emit(OP_linear, (const tn_tensor[]){x, w, b}, has_bias ? 3 : 2, NULL, 0, at);
}

static tn_tensor param(tn_module *m, const char *name, tn_function *f, tn_site at) {
  const FeEntry *e = fe_entry(m, name);
  return e ? fe_use(f, e->param, at) : fe_poison(f);
}

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
  tn_tensor w, b = fe_poison(x.fn);
  FE_INSIDE(m);
  if (!fe_ok(x) || m->poisoned) return fe_poison(x.fn);
  switch (m->kind) {
  case MOD_LINEAR:
    w = param(m, "weight", x.fn, at);
    if (m->config.has_bias) b = param(m, "bias", x.fn, at);
    return fe_linear(x, w, b, m->config.has_bias, at);
  case MOD_EMBEDDING: return fe_emit2(OP_embedding, param(m, "weight", x.fn, at), x, at);
  case MOD_DROPOUT: return fe_dropout(x, m->config.rate, at);
  case MOD_ACTIVATION: return fe_emit1(m->config.op, x, at);
  case MOD_ATTENTION: return fe_attend(m, x, at);
  case MOD_SEQUENTIAL: return call_children(m, x, at);
  case MOD_OWN: {
    tn_values y = fe_forward_n(m, (tn_values){.v = {x}, .n = 1}, at);
    if (y.n == 1) return y.v[0];
    if (y.n) fe_error(m->p, E_ARGUMENT, at, "module '%s' gives %u values: tn_call_n takes them", m->path, y.n);
    return fe_poison(x.fn);
  }
  case MOD_LAYER_NORM:
  case MOD_RMS_NORM: return fe_norm(m, x, at);
  case MOD_BUILT_IN: return m->config.forward(m, x, at);
  case MOD_RNN:
  case MOD_RNN_CELL: fe_error(m->p, E_ARGUMENT, at, "module '%s' works on %s", m->path, works_on(m)); break;
  case MOD_PLAIN:
    fe_error(m->p, E_ARGUMENT, at, "module '%s' holds parameters only: it cannot be called", m->path);
    break;
  }
  if (m->kind == MOD_RNN) fe_hint(m->p, "tn_rnn_call(m, tn_pack_padded(x, lengths))");
  if (m->kind == MOD_RNN_CELL) fe_hint(m->p, "tn_rnn_step(m, x, .h0 = h)");
  return fe_poison(x.fn);
}
