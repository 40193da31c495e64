// Gradients of parameters. tn_backward leaves one value per parameter; clipping and optimizers read and replace it.
//
//   %g = grad_of %loss, %w            replaced by the backward computation in pass grad
#include "frontend/module/training.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scan.h"
#include "frontend/graph/scope.h"
#include "frontend/module/grad_hook.h"
#include "frontend/module/tree.h"
#include "frontend/tenure/train.h"

#define NO_PATH "frozen, detached and unused parameters, and those used in a no-grad region, get no gradient"

// By value, from `least` on: does a gradient of the loss reach it?
static const bool *reached_from(tn_tensor loss, uint32_t least) {
  loss.fn->reach.least = least;
  ir_grad_reach(loss.fn->ir, fe_val(loss), &loss.fn->reach);
  return loss.fn->reach.has;
}

static bool check_loss(tn_tensor loss, tn_site at) {
  static const char *const after = "a gradient is taken when the scan has ended, of what tn_scan_final or "
                                   "tn_scan_output gave";
  if (!fe_outside_scan(loss.fn, "the gradient of a loss", after, at)) return false;
  if (fe_ins(loss)->dtype == DT_F32 && fe_rank(loss) == 0) return true;
  fe_error(loss.fn->p, fe_rank(loss) ? E_SHAPE : E_DTYPE, at, "a loss is one f32 number, found %s", fe_type_text(loss));
  fe_note_value(loss, "the loss");
  if (fe_ins(loss)->dtype == DT_F32) fe_hint(loss.fn->p, "tn_mean(x) or tn_sum(x) makes one number of it");
  else fe_hint(loss.fn->p, "no gradient flows through whole numbers: take it of what they were made of");
  return false;
}

// As a hook on it left it
static tn_tensor gradient_by(const FeHooked *hooked, tn_tensor of, tn_site at) {
  for (uint32_t k = 0; k < hooked->n_leaves; k++)
    if (hooked->leaves[k].of.v == of.v) return hooked->leaves[k].grad;
  return fe_emit2(OP_grad_of, hooked->loss, of, at);
}

// Adds to the gradient of parameter k what the loss sends to it.
static bool add_gradient(const FeHooked *hooked, uint32_t k, const bool *reached, tn_site at) {
  tn_function *f = hooked->loss.fn;
  Val w = f->uses[k].now;
  if (ir_none(w) || f->uses[k].frozen || !reached[w.i]) return false;
  tn_tensor g = fe_keep(gradient_by(hooked, (tn_tensor){f, w.i}, at), at), old = f->uses[k].grad;
  g = fe_shard_mean(g, true, at);
  f->uses[k].grad = fe_ok(old) ? fe_keep(fe_emit2(OP_add, old, g, at), at) : g;
  return true;
}

void tn_backward(tn_tensor loss, tn_site at) {
  tn_function *f;
  bool good = fe_join(&loss, 1, &f, at);
  if (!f) return;
  FE_GUARD(f->p, );
  if (!good || !check_loss(loss, at)) {
    f->lost_gradients = true;
    return;
  }
  FeHooked hooked = fe_run_grad_hooks(loss, TN_NONE, at);
  if (!fe_ok(hooked.loss)) {
    f->lost_gradients = true;
    return;
  }
  const bool *reached = reached_from(loss, 0);
  uint32_t n = 0;
  for (uint32_t k = 0; k < f->n_uses; k++) n += add_gradient(&hooked, k, reached, at);
  f->backward = fe_loc(f->p, at);
  *RT_PUSH(f->p->mem, f->losses, f->n_losses, f->cap_losses) = fe_val(loss);
  if (n) return;
  fe_error(f->p, E_NO_GRAD_PATH, at, "the loss depends on no trainable parameter");
  fe_note(f->p, fe_ins(loss)->loc, "the loss was made here");
  fe_note_cuts(f);
  fe_hint(f->p, NO_PATH);
  f->lost_gradients = true;
}

static tn_tensor grad(const char *call, tn_tensor loss, tn_tensor of, bool or_zeros, tn_site at) {
  tn_function *f;
  if (!fe_join_for(call, (const tn_tensor[]){loss, of}, 2, &f, at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  if (!check_loss(loss, at)) return fe_poison(f);
  if (reached_from(loss, of.v)[of.v]) {
    FeHooked hooked = fe_run_grad_hooks(loss, of, at);
    return fe_ok(hooked.loss) ? fe_made_by(call, gradient_by(&hooked, of, at), at) : fe_poison(f);
  }
  if (or_zeros && fe_has_gradient(of)) return fe_made_by(call, fe_full(f, 0, fe_shape_of(of), DT_F32, at), at);
  fe_error(f->p, E_GRAD_OF_DETACHED, at, "no gradient flows from the loss to this value");
  fe_note(f->p, fe_ins(of)->loc, "the value was made here");
  fe_hint(f->p, "tn_detach, tn_stop_grad and no-grad regions cut gradients, and so do integers and comparisons");
  return fe_poison(f);
}

tn_tensor tn_grad(tn_tensor loss, tn_tensor of, tn_site at) { return grad(__func__, loss, of, false, at); }
tn_tensor tn_grad_or_zeros(tn_tensor loss, tn_tensor of, tn_site at) { return grad(__func__, loss, of, true, at); }

static bool check_module(tn_function *f, const tn_module *m, tn_site at) {
  if (!fe_fn_open(f, at) || (m && m->poisoned)) return false;
  return fe_own_module(f->p, m, "named", at);
}

static void note_backward(tn_function *f, const char *what) {
  if (f->backward.i) fe_note(f->p, f->backward, "the loss of this tn_backward does not depend on %s", what);
  fe_hint(f->p, "%s", f->backward.i ? NO_PATH : "tn_backward(loss) comes first");
}

// One mistake, one report: without any tn_backward, only the first call that misses it says so.
bool fe_check_gradients(tn_function *f, const tn_module *m, uint32_t n, tn_site at) {
  if (n || f->lost_gradients) return n > 0;
  fe_error(f->p, E_NO_GRAD_PATH, at, "no parameter below %s has a gradient", fe_module_text(m));
  note_backward(f, "any of them");
  f->lost_gradients = !f->backward.i;
  return false;
}

static void report_no_gradient(tn_function *f, const FeParam *q, tn_site at) {
  bool is_frozen = q->frozen || (q->index < f->n_uses && f->uses[q->index].frozen);
  if (q->kind != PARAM_WEIGHT || is_frozen) {
    const char *what = q->kind == PARAM_WEIGHT ? "parameter" : "buffer";
    fe_error(f->p, E_NO_GRAD_PATH, at, "%s '%s' has no gradient: it is %s", what, q->path,
             q->kind == PARAM_WEIGHT ? "frozen" : "not trainable");
    fe_note(f->p, q->loc, "'%s' was made here", q->path);
    fe_hint(f->p, q->kind == PARAM_WEIGHT ? "tn_freeze(module, false) before its first use in the function trains it"
                                          : "tn_parameter makes a trainable one");
    return;
  }
  if (f->lost_gradients) return;
  fe_error(f->p, E_NO_GRAD_PATH, at, "parameter '%s' has no gradient in function '%s'", q->path, f->name);
  fe_note(f->p, q->loc, "'%s' was made here", q->path);
  note_backward(f, "it");
  f->lost_gradients = !f->backward.i;
}

tn_tensor tn_param_grad(tn_function *f, tn_module *m, const char *name, tn_site at) {
  if (!f) return fe_poison(NULL);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_module(f, m, at)) return fe_poison(f);
  const FeEntry *e = name ? fe_entry_at(m, name) : NULL;
  uint32_t index = e ? e->param->index : FE_NO_PARAM;
  if (!e)
    fe_error(f->p, E_ARGUMENT, at, "%s has no parameter '%.80s'%s", fe_module_text(m), name ? name : "",
             fe_near_entry(m, name));
  else if (index < f->n_uses && f->uses[index].grad.fn) return f->uses[index].grad;
  else report_no_gradient(f, e->param, at);
  return fe_poison(f);
}

// Gradients that an optimizer used already are clipped for nobody.
static void warn_late_clip(tn_function *f, const uint32_t *index, uint32_t n, const char *call, tn_site at) {
  uint32_t k = 0;
  while (k < n && !f->uses[index[k]].updated.i) k++;
  if (k == n) return;
  fe_diag(f->p, RT_WARNING, E_CLIP_AFTER_UPDATE, fe_loc(f->p, at),
          "%s clips the gradient of '%s' after an optimizer used it: the update is not clipped", call,
          fe_param_of(f->p, index[k])->path);
  fe_note(f->p, f->uses[index[k]].updated, "the optimizer was built here");
  fe_hint(f->p, "clip between tn_backward and the optimizer");
}

static tn_tensor scale_all(tn_function *f, const uint32_t *index, uint32_t n, double max_norm, tn_site at) {
  tn_tensor *grads = rt_alloc(f->p->mem, n * sizeof *grads);
  for (uint32_t k = 0; k < n; k++) grads[k] = f->uses[index[k]].grad;
  tn_tensor norm = fe_emit(OP_global_norm, grads, n, NULL, 0, at);
  if (!fe_ok(norm)) return norm;
  tn_tensor room = fe_emit2(OP_add, norm, fe_const(f, 1e-6, at), at);
  tn_tensor ratio = fe_emit2(OP_div, fe_const(f, max_norm, at), room, at);
  tn_tensor scale = fe_emit2(OP_min, fe_const(f, 1, at), ratio, at);
  for (uint32_t k = 0; k < n; k++) f->uses[index[k]].grad = fe_keep(fe_emit2(OP_mul, grads[k], scale, at), at);
  return norm;
}

// The gradients below m, or only those of one group of parameters there.
static uint32_t *clipped(tn_function *f, const tn_module *m, const uint32_t *group, uint32_t *n) {
  uint32_t n_all, *index = fe_with_gradient(f, m, &n_all);
  *n = 0;
  for (uint32_t k = 0; k < n_all; k++)
    if (!group || fe_param_of(f->p, index[k])->group == *group) index[(*n)++] = index[k];
  return index;
}

static bool any_to_clip(tn_function *f, const tn_module *m, const uint32_t *group, uint32_t n, tn_site at) {
  uint32_t n_all;
  fe_with_gradient(f, m, &n_all);
  if (n || !n_all) return fe_check_gradients(f, m, n, at);
  fe_error(f->p, E_NO_GRAD_PATH, at, "no parameter of group %u below %s has a gradient", *group, fe_module_text(m));
  return false;
}

static tn_tensor clip_norm(tn_function *f, tn_module *m, const uint32_t *group, double max_norm, const char *call,
                           tn_site at) {
  if (!check_module(f, m, at)) return fe_poison(f);
  if (!(max_norm > 0)) {
    fe_error(f->p, E_ARGUMENT, at, "gradients are clipped to a norm above 0, not %g", max_norm);
    return fe_poison(f);
  }
  uint32_t n, *index = clipped(f, m, group, &n);
  warn_late_clip(f, index, n, call, at);
  return any_to_clip(f, m, group, n, at) ? scale_all(f, index, n, max_norm, at) : fe_poison(f);
}

tn_tensor tn_clip_grad_norm(tn_function *f, tn_module *m, double max_norm, tn_site at) {
  if (!f) return fe_poison(NULL);
  FE_GUARD(f->p, fe_poison(f));
  tn_tensor norm = clip_norm(f, m, NULL, max_norm, __func__, at);
  return fe_ok(norm) ? fe_made(norm, at) : norm;
}

tn_tensor tn_clip_group_norm(tn_function *f, tn_module *m, uint32_t group, double max_norm, tn_site at) {
  if (!f) return fe_poison(NULL);
  FE_GUARD(f->p, fe_poison(f));
  tn_tensor norm = clip_norm(f, m, &group, max_norm, __func__, at);
  return fe_ok(norm) ? fe_made(norm, at) : norm;
}

static void clip_value(tn_function *f, tn_module *m, const uint32_t *group, double limit, const char *call,
                       tn_site at) {
  if (!check_module(f, m, at)) return;
  if (!(limit > 0)) {
    fe_error(f->p, E_ARGUMENT, at, "gradients are clipped to values above 0, not %g", limit);
    return;
  }
  uint32_t n, *index = clipped(f, m, group, &n);
  if (!any_to_clip(f, m, group, n, at)) return;
  warn_late_clip(f, index, n, call, at);
  tn_tensor most = fe_const(f, limit, at), least = fe_const(f, -limit, at);
  for (uint32_t k = 0; k < n; k++) {
    tn_tensor g = fe_emit2(OP_max, fe_emit2(OP_min, f->uses[index[k]].grad, most, at), least, at);
    f->uses[index[k]].grad = fe_keep(g, at);
  }
}

void tn_clip_grad_value(tn_function *f, tn_module *m, double limit, tn_site at) {
  if (!f) return;
  FE_GUARD(f->p, );
  clip_value(f, m, NULL, limit, __func__, at);
}

void tn_clip_group_value(tn_function *f, tn_module *m, uint32_t group, double limit, tn_site at) {
  if (!f) return;
  FE_GUARD(f->p, );
  clip_value(f, m, &group, limit, __func__, at);
}

uint32_t *fe_with_gradient(tn_function *f, const tn_module *m, uint32_t *n) {
  uint32_t *index = rt_alloc(f->p->mem, (f->n_uses + 1) * sizeof *index);
  uint32_t stamp = fe_see_below(m);
  *n = 0;
  for (uint32_t k = 0; k < f->n_uses; k++)
    if (fe_ok(f->uses[k].grad) && fe_param_of(f->p, k)->stamp == stamp) index[(*n)++] = k;
  return index;
}
