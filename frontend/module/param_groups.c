// Optimizer groups: sets of parameters with hyper-parameters of their own, and setting those between runs.
//
// A hyper-parameter is a state entry of one number that the compiled update reads:
//   optimizer.lr             group 0 of the optimizer of the root
//   optimizer.lr.7           its group 7
//   optimizer.lr.enc         group 0 of the optimizer of module enc
//   optimizer.lr.enc.7       its group 7
// likewise optimizer.weight_decay and optimizer.momentum.
#include "frontend/module/optimizer.h"
#include "frontend/module/tree.h"
#include "frontend/run/finite.h"
#include "ir/fn.h"
#include "runtime/store/checkpoint.h"

static const tn_group_options none;

// ---- building
static FeGroup *find_group(tn_program *p, uint32_t number) {
  for (uint32_t k = 0; k < p->n_groups; k++)
    if (p->groups[k].number == number) return &p->groups[k];
  return NULL;
}

const tn_group_options *fe_group_options(tn_program *p, uint32_t number) {
  const FeGroup *g = find_group(p, number);
  return g ? &g->o : &none;
}

static bool is_rate(double x) { return x >= 0 && fe_is_finite(x); }

static bool check_rate(tn_program *p, const char *name, double x, tn_site at) {
  if (is_rate(x)) return true;
  fe_error(p, E_ARGUMENT, at, "%s of the group is %g, expected a number of 0 or more that f32 holds", name, x);
  return false;
}

static bool check_options(tn_program *p, const tn_group_options *o) {
  if (!check_rate(p, "lr", o->lr, o->at) || !check_rate(p, "weight_decay", o->weight_decay, o->at) ||
      !check_rate(p, "momentum", o->momentum, o->at))
    return false;
  if (!o->no_weight_decay || o->weight_decay == 0) return true;
  fe_error(p, E_ARGUMENT, o->at, "weight_decay of the group is %g, and no_weight_decay says that it has none",
           o->weight_decay);
  return false;
}

static bool same_options(const tn_group_options *a, const tn_group_options *b) {
  return a->lr == b->lr && a->weight_decay == b->weight_decay && a->momentum == b->momentum &&
         a->no_weight_decay == b->no_weight_decay && a->beta1 == b->beta1 && a->beta2 == b->beta2 && a->eps == b->eps &&
         a->dampening == b->dampening && a->alpha == b->alpha && a->rho == b->rho && a->lr_decay == b->lr_decay &&
         a->momentum_decay == b->momentum_decay && a->initial_accumulator_value == b->initial_accumulator_value &&
         a->schedule == b->schedule;
}

// Options are given once; a later call without any adds parameters.
static bool open_group(tn_program *p, uint32_t number, tn_group_options o) {
  FeGroup *g = find_group(p, number);
  if (!check_options(p, &o)) return false;
  if (!g) {
    *RT_PUSH(p->mem, p->groups, p->n_groups, p->cap_groups) = (FeGroup){number, o, fe_loc(p, o.at)};
    return true;
  }
  if (same_options(&o, &none) || same_options(&o, &g->o)) return true;
  fe_error(p, E_ARGUMENT, o.at, "group %u has other options already", number);
  fe_note(p, g->loc, "they were given here");
  return false;
}

static bool put_in_group(tn_program *p, FeParam *q, uint32_t number, tn_site at) {
  if (q->updated.i) {
    fe_error(p, E_STATE, at, "parameter '%s' is put in group %u after its optimizer was built", q->path, number);
    fe_note(p, q->updated, "the optimizer was built here");
    fe_hint(p, "make groups before the optimizer");
    return false;
  }
  if (q->grouped.i) {
    if (q->group == number) fe_error(p, E_PARAM_TWICE, at, "parameter '%s' is put in group %u twice", q->path, number);
    else
      fe_error(p, E_PARAM_TWICE, at, "parameter '%s' is put in group %u and is in group %u already", q->path, number,
               q->group);
    fe_note(p, q->grouped, "it was put in group %u here", q->group);
    fe_hint(p, "a parameter has one group: name each once");
    return false;
  }
  q->group = number;
  q->grouped = fe_loc(p, at);
  return true;
}

// Everywhere else an empty pattern means everything; here that would leave the default group empty.
static bool check_pattern(const tn_module *m, uint32_t group, const char *pattern, tn_site at) {
  if (pattern && *pattern) return true;
  fe_error(m->p, E_ARGUMENT, at, "the pattern of group %u is empty: it does not say which parameters below %s", group,
           fe_module_text(m));
  fe_hint(m->p, "\"**\" takes all of them, \"**/bias\" those named bias");
  return false;
}

void tn_group(tn_module *m, uint32_t group, const char *pattern, tn_group_options o) {
  if (!m || m->poisoned) return;
  FE_GUARD(m->p, );
  tn_variable *v;
  if (!fe_open(m->p, o.at) || !check_pattern(m, group, pattern, o.at) || !open_group(m->p, group, o)) return;
  uint32_t n = fe_variables(m, pattern, TN_PARAMETERS, &v);
  fe_matched(m, pattern, "parameter", n, o.at);
  for (uint32_t k = 0; k < n; k++)  // one call is one mistake
    if (!put_in_group(m->p, fe_entry(v[k].module, v[k].name)->param, group, o.at)) return;
}

bool fe_may_add(tn_module *m, const char *name, ParamKind kind, tn_site at) {
  const tn_module *up = m;
  if (m->poisoned || kind != PARAM_WEIGHT) return !m->poisoned;
  while (up && !up->trained.i) up = up->parent;
  if (!up) return true;
  fe_error(m->p, E_STATE, at, "parameter '%s%s%s' is added after the optimizer of %s was built", m->path,
           *m->path ? "." : "", name, fe_module_text(up));
  fe_note(m->p, up->trained, "the optimizer was built here: it would never train the parameter");
  fe_hint(m->p, "declare all parameters before the optimizer");
  m->poisoned = true;
  return false;
}

// The entry that holds a hyper-parameter of an optimizer's group; NULL: it was given another value before.
FeParam *fe_hyper(tn_module *m, uint32_t group, RtHyperKind kind, double value, tn_site at) {
  tn_program *p = m->p;
  const char *dot = *m->path ? "." : "", *number = group ? rt_printf(p->mem, ".%u", group) : "";
  const char *path = rt_printf(p->mem, "optimizer.%s%s%s%s", rt_hyper_name(kind), dot, m->path, number);
  for (uint32_t k = 0; k < p->n_hypers; k++) {
    const FeHyper *h = &p->hypers[k];
    if (h->module != m || h->group != group || h->kind != kind) continue;
    if (h->param->init.a == value) return h->param;
    fe_error(p, E_ARGUMENT, at, "%s of group %u of module '%s' is %g already, not %g", rt_hyper_name(kind), group,
             m->path, h->param->init.a, value);
    fe_note(p, h->param->loc, "it was given here");
    return NULL;
  }
  uint32_t n = p->n_params;
  FeParam *q = fe_state(p, path, (Shape){0}, value, at);
  if (n == p->n_params) {  // module "7" and group 7 of its parent
    fe_error(p, E_DUPLICATE_PATH, at, "two optimizers keep their %s at '%s'", rt_hyper_name(kind), path);
    fe_note(p, q->loc, "the first was built here");
    return NULL;
  }
  ir_set_hyper(p->ir, q->index, (uint8_t)kind, group);
  *RT_PUSH(p->mem, p->hypers, p->n_hypers, p->cap_hypers) = (FeHyper){m, q, group, kind};
  return q;
}
