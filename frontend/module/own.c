// Modules of the user's own: a class that says how many values go in and come out, and a function that builds.
#include "frontend/module/call.h"
#include "frontend/module/tree.h"
#include <string.h>

// ---- classes
static uint32_t count_of(uint32_t n) { return n == 0 ? 1 : n > TN_MAX_VALUES ? TN_MAX_VALUES : n; }

// n: as the class says; more than there can be (reported) are not looked for.
static const char *const *names_of(tn_program *p, const char *const *given, uint32_t n, const char *what) {
  const char **list = rt_alloc(p->mem, count_of(n) * sizeof *list);
  for (uint32_t k = 0; k < count_of(n); k++)
    list[k] = given && n <= TN_MAX_VALUES && given[k] ? rt_strdup(p->mem, given[k])
              : count_of(n) == 1                      ? what
                                                      : rt_printf(p->mem, "%s%u", what, k);
  return list;
}

static bool check_names(tn_module *m, const char *const *names, uint32_t n, const char *what, tn_site at) {
  for (uint32_t k = 0; names && k < n; k++) {
    if (!fe_name(m->p, what, names[k], false, at)) return false;
    for (uint32_t j = 0; j < k; j++) {
      if (strcmp(names[j], names[k])) continue;
      fe_error(m->p, E_ARGUMENT, at, "module '%s' has two %ss named '%s'", m->path, what + 3, names[k]);
      return false;
    }
  }
  return true;
}

static bool check_class(tn_module *m, const tn_module_class *c, tn_site at) {
  if (!c || !c->forward) fe_error(m->p, E_ARGUMENT, at, "module '%s' has no forward function", m->path);
  else if (c->n_in > TN_MAX_VALUES || c->n_out > TN_MAX_VALUES)
    fe_error(m->p, E_ARGUMENT, at, "module '%s' has %u inputs and %u outputs: at most %d of each", m->path, c->n_in,
             c->n_out, TN_MAX_VALUES);
  else if (c->n_optional >= (c->n_in ? c->n_in : 1))
    fe_error(m->p, E_ARGUMENT, at, "module '%s' has %u inputs, of which %u may be absent: one must be there", m->path,
             c->n_in ? c->n_in : 1, c->n_optional);
  else
    return check_names(m, c->in, c->n_in ? c->n_in : 1, "an input", at) &&
           check_names(m, c->out, c->n_out ? c->n_out : 1, "an output", at);
  return false;
}

tn_module *tn_module_define(tn_module *parent, const char *name, const tn_module_class *c, void *self, tn_site at) {
  if (!parent) return NULL;
  tn_program *p = parent->p;
  FE_GUARD(p, NULL);
  tn_module *m = fe_module(parent, name, MOD_OWN, at);
  m->poisoned = m->poisoned || !check_class(m, c, at);
  if (!c) return m;
  tn_module_class *own = rt_alloc(p->mem, sizeof *own);  // of a poisoned module too: what it gives is found by name
  *own = *c;
  own->name = rt_strdup(p->mem, c->name ? c->name : "Module");
  own->n_in = count_of(c->n_in), own->n_out = count_of(c->n_out);
  own->in = names_of(p, c->in, c->n_in, "input"), own->out = names_of(p, c->out, c->n_out, "output");
  m->config.class = own, m->config.self = self;
  return m;
}

bool fe_takes_tensors(const tn_module *m) {
  bool holds_only =
      m->kind == MOD_PLAIN || m->kind == MOD_KV_CACHE || m->kind == MOD_SLOTS || m->kind == MOD_SLOT_CACHE;
  return !holds_only && m->kind != MOD_RNN && m->kind != MOD_RNN_CELL;
}

uint32_t fe_n_in(const tn_module *m) { return m->config.class ? m->config.class->n_in : 1; }
uint32_t fe_n_out(const tn_module *m) { return m->config.class ? m->config.class->n_out : 1; }

const char *const *fe_value_names(tn_module *m, bool of_inputs) {
  static const char *const in[] = {"input", "h0", "c0"}, *const out[] = {"output", "hidden", "cell"};
  if (!m->config.class) return of_inputs ? in : out;
  return of_inputs ? m->config.class->in : m->config.class->out;
}

// ---- values by name
static uint32_t find(const char *const *names, uint32_t n, const char *name) {
  uint32_t k = 0;
  while (name && k < n && strcmp(names[k], name)) k++;
  return name ? k : n;
}

tn_tensor *tn_value_named(tn_values *v, const char *name) {
  if (!v || !v->names || v->n > TN_MAX_VALUES) return NULL;
  uint32_t k = find(v->names, v->n, name);
  return k < v->n ? &v->v[k] : NULL;
}

static bool report_inputs(const tn_module *m, uint32_t n, tn_site at) {
  uint32_t want = fe_n_in(m), least = want - (m->config.class ? m->config.class->n_optional : 0);
  const char *range = least < want ? rt_printf(m->p->mem, "%u to %u", least, want) : rt_printf(m->p->mem, "%u", want);
  fe_error(m->p, E_ARGUMENT, at, "module '%s' takes %s value%s, found %u", m->path, range, want == 1 ? "" : "s", n);
  fe_note(m->p, m->loc, "it was made here");
  return false;
}

static bool by_name(tn_module *m, const tn_values *in, tn_values *out, tn_site at) {
  const char *const *names = fe_value_names(m, true);
  for (uint32_t k = 0; k < in->n; k++) {
    uint32_t to = find(names, out->n, in->names[k]);
    if (to == out->n || out->v[to].fn) {
      fe_error(m->p, E_ARGUMENT, at, "input '%s' of module '%s' %s", in->names[k] ? in->names[k] : "", m->path,
               to == out->n ? "does not exist" : "is given twice");
      fe_note(m->p, m->loc, "the module was made here");
      return false;
    }
    out->v[to] = in->v[k];
  }
  return true;
}

bool fe_order_inputs(tn_module *m, tn_values *in, tn_site at) {
  uint32_t want = fe_n_in(m), least = want - (m->config.class ? m->config.class->n_optional : 0);
  if (!fe_takes_tensors(m) || in->n > want || !in->n) {
    if (fe_takes_tensors(m)) return report_inputs(m, in->n, at);
    fe_error(m->p, E_ARGUMENT, at, "module '%s' is not called with tensors alone", m->path);
    return false;
  }
  tn_values out = {.n = want};
  if (in->names && !by_name(m, in, &out, at)) return false;
  for (uint32_t k = 0; !in->names && k < in->n; k++) out.v[k] = in->v[k];
  for (uint32_t k = 0; k < least; k++)
    if (!out.v[k].fn) {
      fe_error(m->p, E_ARGUMENT, at, "input '%s' of module '%s' is missing", fe_value_names(m, true)[k], m->path);
      fe_note(m->p, m->loc, "the module was made here");
      return false;
    }
  *in = out;
  return true;
}

// ---- running
static bool check_results(tn_module *m, tn_function *f, const tn_values *out, tn_site at) {
  uint32_t want = fe_n_out(m);
  if (out->n != want) {
    fe_error(m->p, E_ARGUMENT, at, "the forward function of module '%s' gives %u value%s, its class says %u", m->path,
             out->n, out->n == 1 ? "" : "s", want);
    fe_note(m->p, m->loc, "the module was made here");
    return false;
  }
  for (uint32_t k = 0; k < want; k++) {
    tn_function *g = f;
    if (out->v[k].fn == f) {
      if (!fe_join(&out->v[k], 1, &g, at)) return false;
      continue;
    }
    fe_error(m->p, out->v[k].fn ? E_FOREIGN : E_ARGUMENT, at, "output '%s' of module '%s' is %s",
             fe_value_names(m, false)[k], m->path,
             out->v[k].fn ? "a value of another function" : "missing: its forward function gives none");
    fe_note(m->p, m->loc, "the module was made here");
    return false;
  }
  return true;
}

static bool check_depth(tn_module *m, tn_site at) {
  enum { MOST = 100 };  // stack frames of the user's lie between
  if (m->n_running < MOST) return true;
  fe_error(m->p, E_ARGUMENT, at,
           "the forward function of module '%s' calls this module again and again, %d times within each other", m->path,
           MOST);
  fe_note(m->p, m->loc, "the module was made here");
  fe_hint(m->p, "it calls the modules below it; its own values are made by operations");
  return false;
}

tn_values fe_run_own(tn_module *m, tn_values in, tn_site at) {
  tn_program *p = m->p;
  if (in.n != fe_n_in(m)) return report_inputs(m, in.n, at), (tn_values){.n = 0};
  if (!check_depth(m, at)) return (tn_values){.n = 0};
  tn_function *f = in.v[0].fn;
  FeGuard *guard = p->guard;
  const tn_module *inside = p->inside;
  guard->runs_hook = true;  // what it calls are calls of the user
  p->inside = NULL;
  m->n_running++;
  tn_values out = m->config.class->forward(m, in, m->config.self);
  m->n_running--;
  guard->runs_hook = false;
  p->inside = inside;
  return check_results(m, f, &out, at) ? out : (tn_values){.n = 0};
}

// ---- trees
void tn_module_apply(tn_module *m, void (*fn)(tn_module *m, void *ctx), void *ctx) {
  if (!m || !fn) return;
  for (tn_module *c = m->first; c; c = c->next) tn_module_apply(c, fn, ctx);
  fn(m, ctx);
}

const char *tn_module_path(const tn_module *m) { return m && m->path ? m->path : ""; }
void *tn_module_self(const tn_module *m) { return m ? m->config.self : NULL; }
bool tn_is_eval(const tn_function *f) { return f && f->eval; }

const char *tn_module_kind(const tn_module *m) {
  static const char *const names[] = {[MOD_PLAIN] = "Module",
                                      [MOD_KV_CACHE] = "KVCache",
                                      [MOD_SLOTS] = "Slots",
                                      [MOD_SLOT_CACHE] = "SlotCache",
                                      [MOD_LINEAR] = "Linear",
                                      [MOD_RNN] = "RNN",
                                      [MOD_RNN_CELL] = "RNNCell",
                                      [MOD_EMBEDDING] = "Embedding",
                                      [MOD_DROPOUT] = "Dropout",
                                      [MOD_ACTIVATION] = "Activation",
                                      [MOD_ATTENTION] = "MultiheadAttention",
                                      [MOD_SEQUENTIAL] = "Sequential",
                                      [MOD_LAYER_NORM] = "LayerNorm",
                                      [MOD_RMS_NORM] = "RMSNorm"};
  if (!m) return "";
  if (m->kind == MOD_OWN) return m->config.class ? m->config.class->name : "Module";
  if (m->kind == MOD_BUILT_IN && m->config.built_in) return m->config.built_in;
  if (m->kind == MOD_ACTIVATION && m->config.op) return ir_ops[m->config.op].name;
  bool is_rnn = (m->kind == MOD_RNN || m->kind == MOD_RNN_CELL) && m->config.cell;
  return is_rnn ? m->config.cell : m->kind < sizeof names / sizeof *names && names[m->kind] ? names[m->kind] : "Module";
}
