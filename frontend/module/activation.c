// Activations as modules, where a sequential list needs them: any unary operation by name, softmax, gates, slopes
// that are learnt or drawn.
#include "frontend/graph/activations.h"
#include "frontend/graph/ops.h"
#include "frontend/module/layers.h"
#include "frontend/module/tree.h"
#include "ir/build.h"
#include "runtime/near.h"
#include <string.h>

#define UNARY(n, ...) [OP_##n] = true,
static const bool is_unary[N_OPS] = {
#include "ir/ops.def"
};

// The numbers that rows ask for, in the order of their calls.
#define TAKES(op, key, presence, range) {OP_##op, KEY_##key, IS_##presence},
enum { IS_OPTIONAL, IS_REQUIRED };
static const struct {
  Op op;
  Key key;
  bool is_required;
} takes[] = {
#include "ir/op_attrs.def"
};

enum { MOST_NUMBERS = sizeof((FeModuleConfig){0}.attrs) / sizeof(Attr) };

// False: it takes others.
static bool set_numbers(FeModuleConfig *c, const double *numbers) {
  for (size_t k = 0; k < sizeof takes / sizeof *takes; k++) {
    if (takes[k].op != c->op || !takes[k].is_required) continue;
    if (c->n_attrs == MOST_NUMBERS) return false;
    c->attrs[c->n_attrs] = ir_a_num(takes[k].key, numbers[c->n_attrs]);
    c->n_attrs++;
  }
  for (uint32_t k = c->n_attrs; k < MOST_NUMBERS; k++)
    if (numbers[k] != 0) return false;
  return true;
}

static void report_unknown(tn_module *m, const char *op, tn_site at) {
  RtNear near = {.wanted = op};
  for (uint32_t k = OP_none + 1; k < N_OPS; k++)
    if (is_unary[k]) rt_near_offer(&near, ir_ops[k].name);
  fe_error(m->p, E_ARGUMENT, at, "'%.40s' is no activation: give the name of a unary operation, such as relu%s",
           op ? op : "", rt_near_text(&near));
}

tn_module *tn_activation(tn_module *parent, const char *name, const char *op, tn_activation_options o) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_module(parent, name, MOD_ACTIVATION, o.at);
  if (m->poisoned) return m;
  m->config.op = op ? ir_op_find(op) : OP_none;
  m->poisoned = m->config.op == OP_none || !is_unary[m->config.op] || m->config.op == OP_dropout;
  if (m->poisoned) {
    report_unknown(m, op, o.at);
  } else if (!set_numbers(&m->config, o.numbers)) {
    fe_error(m->p, E_ARGUMENT, o.at, "activation '%s' takes %u numbers", op, m->config.n_attrs);
    m->poisoned = true;
  }
  return m;
}

// ---- along an axis
static tn_module *make_along(tn_module *parent, const char *name, const char *kind, FeForward *forward, int axis,
                             tn_site at) {
  tn_module *m = fe_built_in(parent, name, kind, forward, at);
  if (m) m->config.axis = axis;
  return m;
}

static tn_tensor softmax(tn_module *m, tn_tensor x, tn_site at) { return fe_along(OP_softmax, x, m->config.axis, at); }

static tn_tensor log_softmax(tn_module *m, tn_tensor x, tn_site at) {
  return fe_along(OP_log_softmax, x, m->config.axis, at);
}

static tn_tensor gate(tn_module *m, tn_tensor x, tn_site at) { return fe_gated(x, m->config.axis, m->config.op, at); }

tn_module *tn_softmax_module(tn_module *parent, const char *name, int axis, tn_site at) {
  return make_along(parent, name, "Softmax", softmax, axis, at);
}

tn_module *tn_log_softmax_module(tn_module *parent, const char *name, int axis, tn_site at) {
  return make_along(parent, name, "LogSoftmax", log_softmax, axis, at);
}

tn_module *tn_gate_module(tn_module *parent, const char *name, const char *kind, int axis, tn_site at) {
  static const struct {
    const char *name;
    Op op;
  } kinds[] = {{"glu", OP_sigmoid}, {"swiglu", OP_silu}, {"geglu", OP_gelu}, {"reglu", OP_relu}};
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = make_along(parent, name, "Gate", gate, axis, at);
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    if (kind && !strcmp(kind, kinds[k].name)) m->config.op = kinds[k].op;
  if (m->poisoned || m->config.op != OP_none) return m;
  fe_error(m->p, E_ARGUMENT, at, "'%.40s' is no gate: glu, swiglu, geglu and reglu are", kind ? kind : "");
  m->poisoned = true;
  return m;
}

// ---- slopes
static tn_tensor prelu(tn_module *m, tn_tensor x, tn_site at) {
  return fe_prelu(x, fe_read(x.fn, fe_entry(m, "weight")->param, at), at);
}

tn_module *tn_prelu_module(tn_module *parent, const char *name, int64_t count, tn_site at) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_built_in(parent, name, "PReLU", prelu, at);
  if (!fe_check_sizes(m, count, 1, at)) return m;
  fe_module_param(m, "weight", &count, 1, (tn_init){TN_INIT_CONSTANT, 0.25, 0}, at);
  return m;
}

static tn_tensor rrelu(tn_module *m, tn_tensor x, tn_site at) {
  return fe_rrelu(x, m->config.bounds[0], m->config.bounds[1], at);
}

tn_module *tn_rrelu_module(tn_module *parent, const char *name, double lo, double hi, tn_site at) {
  tn_module *m = fe_built_in(parent, name, "RReLU", rrelu, at);
  if (m) m->config.bounds[0] = lo, m->config.bounds[1] = hi;
  return m;
}
