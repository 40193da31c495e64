// Optimizers: one updating instruction per parameter that has a gradient. Their state is entries of the parameter
// table,
//   optimizer.step, optimizer.lr                      of the group that the module names: `.path` follows unless it is
//   the root optimizer.exp_avg.PATH, optimizer.exp_avg_sq.PATH, optimizer.momentum_buffer.PATH
// so that it is saved with the parameters, and the rate can be set between runs.
#include "frontend/fe.h"

typedef struct {
  tn_function *f;
  tn_module *m;
  tn_site at;
  tn_tensor lr, step;
  const Attr *attrs;
  uint32_t n_attrs;
} Group;

static FeParam *group_state(const Group *g, const char *key, double init) {
  tn_program *p = g->f->p;
  const char *path = rt_printf(p->mem, "optimizer.%s%s%s", key, *g->m->path ? "." : "", g->m->path);
  return fe_state(p, path, (Shape){0}, init, g->at);
}

// Later uses read v. A version of a parameter outlives the scope in which it was made.
static void set_version(const Group *g, const FeParam *q, tn_tensor v) {
  if (fe_ok(v)) fe_use_of(g->f, q->index)->now = fe_val(fe_keep(v, g->at));
}

// The group's step counter, one higher from here on.
static tn_tensor next_step(const Group *g) {
  FeParam *q = group_state(g, "step", 0);
  tn_tensor old = fe_use(g->f, q, g->at);
  tn_tensor now = fe_emit2(OP_assign, old, fe_emit2(OP_add, old, fe_const(g->f, 1, g->at), g->at), g->at);
  set_version(g, q, now);
  return now;
}

static bool open_rate(Group *g, double lr) {
  FeParam *q = group_state(g, "lr", lr);
  g->lr = fe_use(g->f, q, g->at);
  if (q->init.a == lr) return true;
  fe_error(g->f->p, E_ARGUMENT, g->at, "the rate of module '%s' is %g already, not %g", g->m->path, q->init.a, lr);
  fe_note(g->f->p, q->loc, "it was given here");
  return false;
}

static bool check_group(const Group *g) {
  tn_program *p = g->f->p;
  if (!fe_fn_open(g->f, g->at) || (g->m && g->m->poisoned)) return false;
  if (g->m && g->m->p == p) return true;
  fe_error(p, g->m ? E_FOREIGN : E_ARGUMENT, g->at,
           g->m ? "a module of another program is trained" : "no module is trained");
  return false;
}

static bool check_numbers(const Group *g, bool good) {
  if (!good) fe_error(g->f->p, E_ARGUMENT, g->at, "an option of the optimizer is out of range");
  return good;
}

static tn_tensor slot(const Group *g, const char *key, const FeParam *q, FeParam **made) {
  *made = fe_state(g->f->p, rt_printf(g->f->p->mem, "optimizer.%s.%s", key, q->path), q->shape, 0, g->at);
  return fe_use(g->f, *made, g->at);
}

typedef void Update(const Group *g, const FeParam *q, tn_tensor w, tn_tensor grad);

static void update_one(const Group *g, uint32_t index, Update *update) {
  tn_function *f = g->f;
  FeParam *q = fe_param_of(f->p, index);
  if (f->uses[index].updated.i) {
    fe_error(f->p, E_PARAM_TWICE, g->at, "parameter '%s' is updated twice in function '%s'", q->path, f->name);
    fe_note(f->p, f->uses[index].updated, "it was updated here first");
    return;
  }
  f->uses[index].updated = fe_loc(f->p, g->at);
  update(g, q, fe_use(f, q, g->at), f->uses[index].grad);
}

static void update_all(const Group *g, Update *update) {
  uint32_t n, *index = fe_with_gradient(g->f, g->m, &n);
  for (uint32_t k = 0; k < n; k++) update_one(g, index[k], update);
  if (n == 0)
    fe_error(g->f->p, E_NO_GRAD_PATH, g->at, "no parameter below module '%s' has a gradient: tn_backward comes first",
             g->m->path);
}

// ---- Adam
static void update_adamw(const Group *g, const FeParam *q, tn_tensor w, tn_tensor grad) {
  FeParam *avg, *avg_sq;
  tn_tensor m = slot(g, "exp_avg", q, &avg), v = slot(g, "exp_avg_sq", q, &avg_sq);
  tn_tensor new = fe_emit(OP_adamw, (const tn_tensor[]){w, m, v, grad, g->step, g->lr}, 6, g->attrs, g->n_attrs, g->at);
  if (!fe_ok(new)) return;
  set_version(g, q, new);
  set_version(g, avg, (tn_tensor){new.fn, new.v + 1});
  set_version(g, avg_sq, (tn_tensor){new.fn, new.v + 2});
}

static double or_default(double x, double absent) { return x == 0 ? absent : x; }

static void adam(tn_function *f, tn_module *m, const tn_adamw_options *given, bool decoupled, tn_site at) {
  if (!f) return;
  FE_GUARD(f->p, );
  Group g = {.f = f, .m = m, .at = at};
  tn_adamw_options o = given ? *given : (tn_adamw_options){0};
  o.lr = or_default(o.lr, 1e-3), o.eps = or_default(o.eps, 1e-8);
  o.beta1 = or_default(o.beta1, 0.9), o.beta2 = or_default(o.beta2, 0.999);
  bool good = o.lr > 0 && o.eps > 0 && o.beta1 > 0 && o.beta1 < 1 && o.beta2 > 0 && o.beta2 < 1 && o.weight_decay >= 0;
  const Attr attrs[] = {ir_a_num(KEY_beta1, o.beta1), ir_a_num(KEY_beta2, o.beta2), ir_a_num(KEY_eps, o.eps),
                        ir_a_num(KEY_weight_decay, o.weight_decay), ir_a_int(KEY_decoupled, 1)};
  g.attrs = attrs, g.n_attrs = decoupled ? 5 : 4;
  if (!check_group(&g) || !check_numbers(&g, good) || !open_rate(&g, o.lr)) return;
  g.step = next_step(&g);
  update_all(&g, update_adamw);
}

void tn_adamw_at(tn_function *f, tn_module *m, const tn_adamw_options *o, tn_site at) { adam(f, m, o, true, at); }
void tn_adam_at(tn_function *f, tn_module *m, const tn_adamw_options *o, tn_site at) { adam(f, m, o, false, at); }

// ---- SGD
static void update_sgd(const Group *g, const FeParam *q, tn_tensor w, tn_tensor grad) {
  set_version(g, q, fe_emit(OP_sgd, (const tn_tensor[]){w, grad, g->lr}, 3, g->attrs, g->n_attrs, g->at));
}

static void update_momentum(const Group *g, const FeParam *q, tn_tensor w, tn_tensor grad) {
  FeParam *buffer;
  tn_tensor b = slot(g, "momentum_buffer", q, &buffer);
  tn_tensor new = fe_emit(OP_sgd_momentum, (const tn_tensor[]){w, b, grad, g->lr}, 4, g->attrs, g->n_attrs, g->at);
  if (!fe_ok(new)) return;
  set_version(g, q, new);
  set_version(g, buffer, (tn_tensor){new.fn, new.v + 1});
}

// With dampening the first step differs from the others, as in PyTorch: the buffer then takes the whole gradient.
//   buffer = momentum buffer + (step == 1 ? 1 : 1 - dampening) (grad + weight_decay w);  w -= lr buffer
static void update_dampened(const Group *g, const FeParam *q, tn_tensor w, tn_tensor grad) {
  tn_function *f = g->f;
  tn_site at = g->at;
  FeParam *buffer;
  tn_tensor b = slot(g, "momentum_buffer", q, &buffer);
  tn_tensor is_first = fe_emit2(OP_eq, g->step, fe_const(f, 1, at), at);
  tn_tensor part =
      fe_emit(OP_select, (const tn_tensor[]){is_first, fe_const(f, 1, at), fe_const(f, 1 - g->attrs[2].u.f, at)}, 3,
              NULL, 0, at);
  tn_tensor decay = fe_emit2(OP_mul, w, fe_const(f, g->attrs[0].u.f, at), at);
  tn_tensor fresh = fe_emit2(OP_mul, part, fe_emit2(OP_add, grad, decay, at), at);
  tn_tensor kept = fe_emit2(OP_mul, b, fe_const(f, g->attrs[1].u.f, at), at);
  tn_tensor new_b = fe_emit2(OP_assign, b, fe_emit2(OP_add, kept, fresh, at), at);
  set_version(g, buffer, new_b);
  tn_tensor new_w = fe_emit2(OP_sub, w, fe_emit2(OP_mul, g->lr, new_b, at), at);
  set_version(g, q, fe_emit2(OP_assign, w, new_w, at));
}

void tn_sgd_at(tn_function *f, tn_module *m, const tn_sgd_options *given, tn_site at) {
  if (!f) return;
  FE_GUARD(f->p, );
  Group g = {.f = f, .m = m, .at = at};
  tn_sgd_options o = given ? *given : (tn_sgd_options){0};
  o.lr = or_default(o.lr, 1e-3);
  bool good = o.lr > 0 && o.momentum >= 0 && o.weight_decay >= 0 && o.dampening >= 0 && o.dampening <= 1 &&
              (!o.nesterov || (o.momentum > 0 && o.dampening == 0));
  const Attr attrs[] = {ir_a_num(KEY_weight_decay, o.weight_decay), ir_a_num(KEY_momentum, o.momentum),
                        ir_a_num(KEY_dampening, o.dampening), ir_a_int(KEY_nesterov, 1)};
  g.attrs = attrs, g.n_attrs = o.momentum == 0 ? 1 : o.nesterov ? 4 : 3;
  if (!check_group(&g) || !check_numbers(&g, good) || !open_rate(&g, o.lr)) return;
  bool dampened = o.momentum > 0 && o.dampening > 0;
  if (dampened) g.step = next_step(&g);
  update_all(&g, o.momentum == 0 ? update_sgd : dampened ? update_dampened : update_momentum);
}
