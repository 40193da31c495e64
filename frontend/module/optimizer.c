// Optimizers: one updating instruction per parameter that has a gradient. Their state is entries of the parameter
// table, so that it is saved with the parameters, and the numbers that steer it can be set between runs (param_groups.c):
//   optimizer.exp_avg.PATH, optimizer.exp_avg_sq.PATH, optimizer.momentum_buffer.PATH   of a parameter
//   optimizer.step.PATH, optimizer.momentum_step.PATH                                   likewise (counters.c)
//   optimizer.lr, optimizer.weight_decay, optimizer.momentum
//       `.path` follows for an optimizer of another module than the root, then `.group` but for group 0
#include "frontend/fe.h"

// The run-time numbers of one group.
typedef struct {
  uint32_t group;
  bool failed, has_momentum;
  tn_tensor lr, weight_decay, momentum;
} Rates;

typedef struct {
  tn_function *f;
  tn_module *m;
  tn_site at;
  bool require_gradients;
  double lr, weight_decay, momentum;  // of groups that do not say otherwise
  const Attr *attrs;
  uint32_t n_attrs;
  Rates *rates;
  uint32_t n_rates, cap_rates;
} Group;

// The handles of the parameter show v from here on.
static void set_version(const Group *g, const FeParam *q, tn_tensor v) {
  if (fe_ok(v)) fe_write((tn_tensor){g->f, fe_use_of(g->f, q->index)->now.i}, v, true, g->at);
}

static bool open_rate(const Group *g, Rates *r, RtHyperKind kind, double value, tn_tensor *out) {
  FeParam *q = fe_hyper(g->m, r->group, kind, value, g->at);
  r->failed = !q;
  if (q) *out = fe_use(g->f, q, g->at);
  return q != NULL;
}

static Rates open_rates(const Group *g, uint32_t group) {
  const tn_group_options *o = fe_group_options(g->f->p, group);
  double lr = o->lr > 0 ? o->lr : g->lr, momentum = o->momentum > 0 ? o->momentum : g->momentum;
  double decay = o->no_weight_decay ? 0 : o->weight_decay > 0 ? o->weight_decay : g->weight_decay;
  Rates r = {.group = group, .has_momentum = momentum > 0};
  bool good = open_rate(g, &r, RT_LR, lr, &r.lr) && open_rate(g, &r, RT_WEIGHT_DECAY, decay, &r.weight_decay);
  if (good && r.has_momentum) open_rate(g, &r, RT_MOMENTUM, momentum, &r.momentum);
  return r;
}

static Rates rates_of(Group *g, uint32_t group) {
  for (uint32_t k = 0; k < g->n_rates; k++)
    if (g->rates[k].group == group) return g->rates[k];
  Rates r = open_rates(g, group);
  *RT_PUSH(g->f->p->mem, g->rates, g->n_rates, g->cap_rates) = r;
  return r;
}

static bool check_group(const Group *g) {
  return fe_fn_open(g->f, g->at) && !(g->m && g->m->poisoned) && fe_own_module(g->f->p, g->m, "trained", g->at) &&
         fe_outside_scan(g->f, "an optimizer", "parameters are updated when the scan has ended", g->at);
}

static bool check_option(const Group *g, const char *name, double x, bool good, const char *expected) {
  if (!good) fe_error(g->f->p, E_ARGUMENT, g->at, "%s of the optimizer is %g, expected a number %s", name, x, expected);
  return good;
}

static bool is_step(const Group *g, const char *name, double x) {
  return check_option(g, name, x, (float)x > 0 && fe_is_finite(x), "above 0 that f32 holds");
}
static bool is_rate(const Group *g, const char *name, double x) {
  return check_option(g, name, x, x >= 0 && fe_is_finite(x), "of 0 or more that f32 holds");
}
static bool is_beta(const Group *g, const char *name, double x) {
  return check_option(g, name, x, x > 0 && (float)x < 1, "above 0 and below 1, as f32");
}

static tn_tensor slot(const Group *g, const char *key, const FeParam *q, FeParam **made) {
  uint32_t n = g->f->p->n_params;
  *made = fe_state(g->f->p, rt_printf(g->f->p->mem, "optimizer.%s.%s", key, q->path), q->shape, 0, g->at);
  if (g->f->p->n_params != n) fe_state_made(g->f);
  return fe_use(g->f, *made, g->at);
}

typedef void Update(Group *g, const Rates *r, const FeParam *q, tn_tensor w, tn_tensor grad);

static bool update_one(Group *g, uint32_t index, Update *update) {
  tn_function *f = g->f;
  FeParam *q = fe_param_of(f->p, index);
  if (f->uses[index].updated.i) {
    fe_error(f->p, E_PARAM_TWICE, g->at, "parameter '%s' is updated twice in function '%s'", q->path, f->name);
    fe_note(f->p, f->uses[index].updated, "it was updated here first");
    fe_hint(f->p, "two optimizers in one function train modules that have no parameter in common");
    return false;
  }
  f->uses[index].updated = fe_loc(f->p, g->at);
  if (!q->updated.i) q->updated = fe_loc(f->p, g->at);
  Rates r = rates_of(g, q->group);
  if (!r.failed) update(g, &r, q, fe_use(f, q, g->at), f->uses[index].grad);
  return !r.failed;
}

static void update_all(Group *g, Update *update) {
  uint32_t n, *index = fe_with_gradient(g->f, g->m, &n);
  if (fe_check_gradients(g->f, g->m, n, g->at)) fe_all_trained(g->f, g->m, g->require_gradients, g->at);
  for (uint32_t k = 0; k < n && update_one(g, index[k], update); k++) continue;
  if (!g->m->trained.i) g->m->trained = fe_loc(g->f->p, g->at);
}

// ---- Adam
static void update_adamw(Group *g, const Rates *r, const FeParam *q, tn_tensor w, tn_tensor grad) {
  FeParam *avg, *avg_sq;
  tn_tensor m = slot(g, "exp_avg", q, &avg), v = slot(g, "exp_avg_sq", q, &avg_sq);
  tn_tensor step = fe_next_step(g->f, q, "step", true, g->at);
  const tn_tensor operands[] = {w, m, v, grad, step, r->lr, r->weight_decay};
  tn_tensor new = fe_emit(OP_adamw, operands, 7, g->attrs, g->n_attrs, g->at);
  if (!fe_ok(new)) return;
  set_version(g, q, new);
  set_version(g, avg, (tn_tensor){new.fn, new.v + 1});
  set_version(g, avg_sq, (tn_tensor){new.fn, new.v + 2});
}

static double or_default(double x, double absent) { return x == 0 ? absent : x; }

static void adam(tn_function *f, tn_module *m, tn_adamw_options o, bool decoupled) {
  if (!f) return;
  FE_GUARD(f->p, );
  Group g = {.f = f, .m = m, .at = o.at, .require_gradients = o.require_gradients};
  o.lr = or_default(o.lr, 1e-3), o.eps = or_default(o.eps, 1e-8);
  o.beta1 = or_default(o.beta1, 0.9), o.beta2 = or_default(o.beta2, 0.999);
  const Attr attrs[] = {ir_a_num(KEY_beta1, o.beta1), ir_a_num(KEY_beta2, o.beta2), ir_a_num(KEY_eps, o.eps),
                        ir_a_int(KEY_decoupled, 1)};
  g.lr = o.lr, g.weight_decay = o.weight_decay;
  g.attrs = attrs, g.n_attrs = decoupled ? 4 : 3;
  if (!check_group(&g) || !is_step(&g, "lr", o.lr) || !is_beta(&g, "beta1", o.beta1) ||
      !is_beta(&g, "beta2", o.beta2) || !is_step(&g, "eps", o.eps) || !is_rate(&g, "weight_decay", o.weight_decay))
    return;
  update_all(&g, update_adamw);
}

void tn_adamw(tn_function *f, tn_module *m, tn_adamw_options o) { adam(f, m, o, true); }
void tn_adam(tn_function *f, tn_module *m, tn_adamw_options o) { adam(f, m, o, false); }

// ---- SGD
static void update_momentum(Group *g, const Rates *r, const FeParam *q, tn_tensor w, tn_tensor grad) {
  FeParam *buffer;
  bool is_dampened = g->attrs[0].u.f > 0;  // only then it matters which step it is, by any function with momentum
  tn_tensor step = fe_next_step(g->f, q, "momentum_step", is_dampened, g->at);
  tn_tensor b = slot(g, "momentum_buffer", q, &buffer);
  const tn_tensor operands[] = {w, b, grad, step, r->lr, r->weight_decay, r->momentum};
  tn_tensor new = fe_emit(OP_sgd_momentum, operands, 7, g->attrs, g->n_attrs, g->at);
  if (!fe_ok(new)) return;
  set_version(g, q, new);
  set_version(g, buffer, (tn_tensor){new.fn, new.v + 1});
}

static void update_sgd(Group *g, const Rates *r, const FeParam *q, tn_tensor w, tn_tensor grad) {
  if (r->has_momentum) update_momentum(g, r, q, w, grad);
  else set_version(g, q, fe_emit(OP_sgd, (const tn_tensor[]){w, grad, r->lr, r->weight_decay}, 4, NULL, 0, g->at));
}

void tn_sgd(tn_function *f, tn_module *m, tn_sgd_options o) {
  if (!f) return;
  FE_GUARD(f->p, );
  Group g = {.f = f, .m = m, .at = o.at, .require_gradients = o.require_gradients};
  o.lr = or_default(o.lr, 1e-3);
  const Attr attrs[] = {ir_a_num(KEY_dampening, o.dampening), ir_a_int(KEY_nesterov, 1)};
  g.lr = o.lr, g.weight_decay = o.weight_decay, g.momentum = o.momentum;
  g.attrs = attrs, g.n_attrs = o.nesterov ? 2 : 1;
  if (!check_group(&g) || !is_step(&g, "lr", o.lr) || !is_rate(&g, "momentum", o.momentum) ||
      !is_rate(&g, "weight_decay", o.weight_decay) ||
      !check_option(&g, "dampening", o.dampening, o.dampening >= 0 && o.dampening <= 1, "from 0 to 1") ||
      (o.nesterov && !check_option(&g, "momentum", o.momentum, o.momentum > 0, "above 0 with nesterov")) ||
      (o.nesterov && !check_option(&g, "dampening", o.dampening, o.dampening == 0, "of 0 with nesterov")))
    return;
  update_all(&g, update_sgd);
}
