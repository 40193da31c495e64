// Averages of weights: exponential (EMA) and with equal weights (SWA), as state that a step updates, and functions that read
// them in the parameters' place.
//
//   %n = param @optimizer.ema_n_averaged : f32[]
//   %a = assign @optimizer.ema.fc.weight, select(%n == 0, %w, @optimizer.ema.fc.weight + (%w - @optimizer.ema.fc.weight) (1 - decay))
#include "frontend/graph/inplace.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scan.h"
#include "frontend/graph/scope.h"
#include "frontend/module/tree.h"
#include "frontend/tenure/train.h"

typedef struct {
  tn_function *f;
  tn_module *m;
  const char *kind;  // "ema", "swa"
  tn_site at;
} Average;

static tn_tensor number(const Average *a, double x) { return fe_const(a->f, x, a->at); }
static tn_tensor two(const Average *a, Op op, tn_tensor x, tn_tensor y) { return fe_emit2(op, x, y, a->at); }
static tn_tensor either(const Average *a, tn_tensor is, tn_tensor x, tn_tensor y) {
  const tn_tensor in[] = {is, x, y};
  return fe_emit(OP_select, in, 3, NULL, 0, a->at);
}

static void set(const Average *a, FeParam *q, tn_tensor now) {
  tn_tensor old = fe_use(a->f, q, a->at);
  now = fe_keep(two(a, OP_assign, old, now), a->at);
  if (fe_ok(now)) fe_write(old, now, true, a->at);
}

static bool check_place(const Average *a) {
  return fe_fn_open(a->f, a->at) && !(a->m && a->m->poisoned) && fe_own_module(a->f->p, a->m, "averaged", a->at) &&
         fe_outside_scan(a->f, "an average of weights", "they are averaged when the scan has ended", a->at);
}

static FeParam *average_of(const Average *a, FeParam *q) {
  tn_program *p = a->f->p;
  return fe_state_like(p, rt_printf(p->mem, "optimizer.%s.%s", a->kind, q->path), q, a->at);
}

// The parameters below the module, frozen ones too, which are their own averages.
static uint32_t weights(const Average *a, FeParam ***out) {
  tn_variable *v;
  uint32_t n = fe_variables(a->m, "**", TN_PARAMETERS, &v), n_found = 0;
  *out = rt_alloc(a->f->p->mem, (n + 1) * sizeof **out);
  for (uint32_t k = 0; k < n; k++) {
    FeParam *q = fe_entry(v[k].module, v[k].name)->param;
    bool is_new = true;
    for (uint32_t i = 0; i < n_found; i++) is_new &= (*out)[i] != q;
    if (is_new && q->kind == PARAM_WEIGHT) (*out)[n_found++] = q;
  }
  if (!n_found) fe_error(a->f->p, E_ARGUMENT, a->at, "module '%s' has no parameter to average", a->m->path);
  return n_found;
}

// weight: of the new value; fn NULL: one of all that there were.
static void update(const Average *a, tn_tensor weight) {
  FeParam **q;
  uint32_t n = weights(a, &q);
  tn_program *p = a->f->p;
  const char *path = rt_printf(p->mem, "optimizer.%s_n_averaged%s%s", a->kind, *a->m->path ? "." : "", a->m->path);
  FeParam *counter = fe_state(p, path, (Shape){0}, 0, a->at);
  tn_tensor count = fe_use(a->f, counter, a->at), when = a->f->when;
  tn_tensor more = two(a, OP_add, count, when.fn ? when : number(a, 1));
  if (!weight.fn) weight = two(a, OP_div, number(a, 1), two(a, OP_add, count, number(a, 1)));
  weight = fe_keep(either(a, two(a, OP_eq, count, number(a, 0)), number(a, 1), weight), a->at);
  for (uint32_t k = 0; k < n; k++) {
    FeParam *average = average_of(a, q[k]);
    tn_tensor old = fe_use(a->f, average, a->at), w = fe_read(a->f, q[k], a->at);
    tn_tensor now = two(a, OP_add, old, two(a, OP_mul, two(a, OP_sub, w, old), weight));
    now = either(a, two(a, OP_eq, weight, number(a, 1)), w, now);
    set(a, average, when.fn ? either(a, when, now, old) : now);
    a->f->uses[q[k]->index].averaged = fe_loc(p, a->at);
  }
  set(a, counter, more);
}

void tn_ema(tn_function *f, tn_module *m, tn_ema_options o) {
  if (!f) return;
  FE_GUARD(f->p, );
  Average a = {f, m, "ema", o.at};
  if (!check_place(&a)) return;
  if (o.decay == 0) o.decay = 0.999;
  if (o.decay > 0 && (float)o.decay < 1) update(&a, number(&a, 1 - o.decay));
  else fe_error(f->p, E_ARGUMENT, o.at, "decay of the average is %g, expected a number above 0 and below 1", o.decay);
}

void tn_swa(tn_function *f, tn_module *m, tn_site at) {
  if (!f) return;
  FE_GUARD(f->p, );
  Average a = {f, m, "swa", at};
  if (check_place(&a)) update(&a, (tn_tensor){0});
}

// ---- reading them
static bool is_unused(const Average *a, const FeParam *q) {
  const tn_function *f = a->f;
  if (q->index == FE_NO_PARAM || q->index >= f->n_uses || ir_none(f->uses[q->index].first)) return true;
  fe_error(f->p, E_STATE, a->at, "parameter '%s' was used in function '%s' already", q->path, f->name);
  fe_note(f->p, f->ir->ins[f->uses[q->index].first.i].loc, "it was here");
  fe_hint(f->p, "averages take the parameters' place before the first of them is used");
  return false;
}

static void use(tn_function *f, tn_module *m, const char *kind, tn_site at) {
  Average a = {f, m, kind, at};
  FeParam **q;
  if (!check_place(&a)) return;
  uint32_t n = weights(&a, &q);
  fe_params_flush(f->p);
  for (uint32_t k = 0; k < n; k++) {
    if (!is_unused(&a, q[k])) return;
    tn_tensor average = fe_cast(fe_use(f, average_of(&a, q[k]), at), q[k]->dtype, at);
    FeUse *u = fe_use_of(f, q[k]->index);
    *u = (FeUse){.first = fe_val(average), .now = fe_val(average), .frozen = true};
  }
}

void tn_use_ema(tn_function *f, tn_module *m, tn_site at) {
  if (!f) return;
  FE_GUARD(f->p, );
  use(f, m, "ema", at);
}

void tn_use_swa(tn_function *f, tn_module *m, tn_site at) {
  if (!f) return;
  FE_GUARD(f->p, );
  use(f, m, "swa", at);
}
