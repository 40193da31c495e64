// Activations as modules, where a sequential list needs them: any unary operation by name, softmax, GLU, PReLU.
#include "frontend/fe.h"
#include "runtime/near.h"

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
static tn_module *make_along(tn_module *parent, const char *name, FeForward *forward, int axis, tn_site at) {
  tn_module *m = fe_built_in(parent, name, forward, at);
  if (m) m->config.axis = axis;
  return m;
}

static tn_tensor softmax(tn_module *m, tn_tensor x, tn_site at) { return fe_along(OP_softmax, x, m->config.axis, at); }

static tn_tensor log_softmax(tn_module *m, tn_tensor x, tn_site at) {
  return fe_along(OP_log_softmax, x, m->config.axis, at);
}

static tn_tensor glu(tn_module *m, tn_tensor x, tn_site at) {
  uint32_t axis;
  if (!fe_axis(x, m->config.axis, &axis, at)) return fe_poison(x.fn);
  Prog *p = m->p->ir;
  Dim size = fe_axis_dim(x, axis);
  if (!ir_dim_is_const(p, size) || ir_dim_info(p, size)->value % 2) {
    fe_error(m->p, E_SHAPE, at, "module '%s' halves axis %d, which needs a constant even size: found %s", m->path,
             m->config.axis, fe_type_text(x));
    fe_note_value(x, "the value");
    return fe_poison(x.fn);
  }
  int64_t half = ir_dim_info(p, size)->value / 2;
  tn_tensor value = fe_slice(x, axis, 0, half, at), gate = fe_slice(x, axis, half, half, at);
  return fe_emit2(OP_mul, value, fe_emit1(OP_sigmoid, gate, at), at);
}

tn_module *tn_softmax_module(tn_module *parent, const char *name, int axis, tn_site at) {
  return make_along(parent, name, softmax, axis, at);
}

tn_module *tn_log_softmax_module(tn_module *parent, const char *name, int axis, tn_site at) {
  return make_along(parent, name, log_softmax, axis, at);
}

tn_module *tn_glu_module(tn_module *parent, const char *name, int axis, tn_site at) {
  return make_along(parent, name, glu, axis, at);
}

// ---- PReLU
// The weights as they lie beside x: one for all, or one for each channel of axis 1.
static tn_tensor slopes(tn_module *m, tn_tensor x, tn_site at) {
  tn_tensor w = fe_use(x.fn, fe_entry(m, "weight")->param, at);
  uint32_t rank = fe_rank(x);
  if (m->config.in == 1 || rank <= 2) return w;
  Dim d[MAX_RANK] = {fe_axis_dim(w, 0)};
  for (uint32_t k = 1; k < rank - 1; k++) d[k] = ir_dim(m->p->ir, 1);
  return fe_reshape(w, d, rank - 1, at);
}

static tn_tensor prelu(tn_module *m, tn_tensor x, tn_site at) {
  bool fits = m->config.in == 1 || (fe_rank(x) >= 2 && ir_list_at(m->p->ir, fe_shape_of(x), 1) == m->config.in);
  if (!fits) {
    fe_error(m->p, E_SHAPE, at, "module '%s' takes [N,%lld,..], not %s", m->path, (long long)m->config.in,
             fe_type_text(x));
    fe_note_value(x, "the value");
    return fe_poison(x.fn);
  }
  tn_tensor is_positive = fe_emit2(OP_gt, x, fe_const(x.fn, 0, at), at);
  tn_tensor scaled = fe_emit2(OP_mul, x, slopes(m, x, at), at);
  return fe_emit(OP_select, (const tn_tensor[]){is_positive, x, scaled}, 3, NULL, 0, at);
}

tn_module *tn_prelu(tn_module *parent, const char *name, int64_t count, tn_site at) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_built_in(parent, name, prelu, at);
  if (!fe_check_sizes(m, count, 1, at)) return m;
  m->config.in = count;
  fe_module_param(m, "weight", &count, 1, (tn_init){TN_INIT_CONSTANT, 0.25, 0}, at);
  return m;
}
