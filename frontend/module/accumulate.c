// Gradients averaged over runs (tn_accumulate).
//
//   %k = param @optimizer.accumulated : f32[]                    runs since the last update
//   %a = assign @optimizer.grad.fc.weight, select(%k == 0, %g / n, @optimizer.grad.fc.weight + %g / n)
//   %w1, .. = adamw %w, .., %a, .., when=(%k + 1 >= n)           reads nothing and writes nothing in the other runs
//
// What the update reads of @optimizer.grad is replaced by the next run, so that nobody clears it.
#include "frontend/graph/inplace.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scan.h"
#include "frontend/graph/scope.h"
#include "frontend/module/training.h"
#include "frontend/module/tree.h"
#include "frontend/tenure/train.h"

static const FeAccumulation *find(const tn_program *p, const tn_module *m) {
  for (uint32_t k = 0; k < p->n_accumulations; k++)
    if (p->accumulations[k].module == m) return &p->accumulations[k];
  return NULL;
}

static const FeAccumulation *open_accumulation(tn_program *p, tn_module *m, uint32_t n, tn_site at) {
  const FeAccumulation *a = find(p, m);
  if (a && a->n != n) {
    fe_error(p, E_ARGUMENT, at, "module '%s' accumulates over %u runs, not %u", m->path, a->n, n);
    fe_note(p, a->loc, "it does since here");
    return NULL;
  }
  if (a) return a;
  const char *path = rt_printf(p->mem, "optimizer.accumulated%s%s", *m->path ? "." : "", m->path);
  FeAccumulation *made = RT_PUSH(p->mem, p->accumulations, p->n_accumulations, p->cap_accumulations);
  *made = (FeAccumulation){m, fe_state(p, path, (Shape){0}, 0, at), n, fe_loc(p, at)};
  return made;
}

static bool check_place(tn_function *f, tn_module *m, tn_site at) {
  return fe_fn_open(f, at) && !(m && m->poisoned) && fe_own_module(f->p, m, "named", at) &&
         fe_outside_scan(f, "accumulation", "gradients are there when the scan has ended", at);
}

static tn_tensor either(tn_tensor is, tn_tensor a, tn_tensor b, tn_site at) {
  const tn_tensor in[] = {is, a, b};
  return fe_emit(OP_select, in, 3, NULL, 0, at);
}

static tn_tensor assign(tn_tensor old, tn_tensor now, tn_site at) {
  now = fe_keep(fe_emit2(OP_assign, old, now, at), at);
  if (fe_ok(now)) fe_write(old, now, true, at);
  return now;
}

// One kind of average for one gradient, and before the optimizer has it.
static bool is_fresh(tn_function *f, const FeUse *u, tn_site at) {
  const FeParam *q = fe_param_of(f->p, (uint32_t)(u - f->uses));
  if (!u->when.fn && !u->updated.i) return true;
  fe_error(f->p, E_STATE, at, "the gradient of '%s' is accumulated %s", q->path,
           u->when.fn ? "twice in one function" : "after an optimizer used it");
  if (u->updated.i) fe_note(f->p, u->updated, "the optimizer was built here");
  fe_hint(f->p, "tn_accumulate stands between tn_backward and the optimizer");
  return false;
}

static FeParam *sum_of(tn_program *p, const FeParam *q, tn_site at) {
  return fe_state(p, rt_printf(p->mem, "optimizer.grad.%s", q->path), q->shape, 0, at);
}

static void add_gradient(tn_function *f, uint32_t index, double part, tn_tensor is_first, tn_site at) {
  tn_tensor old = fe_use(f, sum_of(f->p, fe_param_of(f->p, index), at), at), g = f->uses[index].grad;
  g = fe_emit2(OP_mul, g, fe_const(f, part, at), at);
  f->uses[index].grad = assign(old, either(is_first, g, fe_emit2(OP_add, old, g, at), at), at);
}

void tn_accumulate(tn_function *f, tn_module *m, uint32_t n, tn_site at) {
  if (!f) return;
  FE_GUARD(f->p, );
  if (!check_place(f, m, at)) return;
  if (n < 1 || n > 1 << 24) {
    fe_error(f->p, E_ARGUMENT, at, "gradients are accumulated over 1 to 2^24 runs, not %u", n);
    return;
  }
  uint32_t n_grads, *index = fe_with_gradient(f, m, &n_grads);
  const FeAccumulation *a = fe_check_gradients(f, m, n_grads, at) ? open_accumulation(f->p, m, n, at) : NULL;
  for (uint32_t k = 0; a && k < n_grads; k++)
    if (!is_fresh(f, &f->uses[index[k]], at)) return;
  if (!a) return;
  tn_tensor count = fe_use(f, a->count, at), next = fe_emit2(OP_add, count, fe_const(f, 1, at), at);
  tn_tensor is_first = fe_keep(fe_emit2(OP_eq, count, fe_const(f, 0, at), at), at);
  f->when = fe_keep(fe_emit2(OP_ge, next, fe_const(f, n, at), at), at);
  for (uint32_t k = 0; k < n_grads; k++) {
    add_gradient(f, index[k], 1.0 / n, is_first, at);
    f->uses[index[k]].when = f->when;
  }
  assign(count, either(f->when, fe_const(f, 0, at), next, at), at);
}

void tn_accumulate_flush(tn_function *f, tn_module *m, tn_site at) {
  if (!f) return;
  FE_GUARD(f->p, );
  if (!check_place(f, m, at)) return;
  const FeAccumulation *a = find(f->p, m);
  if (!a) {
    fe_error(f->p, E_STATE, at, "no function accumulates gradients of %s", fe_module_text(m));
    fe_hint(f->p, "the function with tn_accumulate of this module is built first");
    return;
  }
  tn_tensor count = fe_use(f, a->count, at), zero = fe_const(f, 0, at), one = fe_const(f, 1, at);
  f->when = fe_keep(fe_emit2(OP_gt, count, zero, at), at);
  tn_tensor some = fe_emit2(OP_max, count, one, at);
  tn_tensor scale = fe_keep(fe_emit2(OP_div, fe_const(f, a->n, at), some, at), at);
  uint32_t stamp = fe_see_below(m);
  for (uint32_t k = 0, n = f->p->n_params; k < n; k++) {
    FeParam *q = f->p->params[k];
    const char *path = rt_printf(f->p->mem, "optimizer.grad.%s", q->path);
    if (q->kind != PARAM_WEIGHT || q->index == FE_NO_PARAM || q->stamp != stamp || !fe_has_state(f->p, path)) continue;
    tn_tensor sum = fe_use(f, sum_of(f->p, q, at), at);
    fe_use(f, q, at);
    f->uses[q->index].grad = fe_keep(fe_emit2(OP_mul, sum, scale, at), at);
    f->uses[q->index].when = f->when;
  }
  assign(count, zero, at);
}
