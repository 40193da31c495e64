// Hooks: registering and removing them, which of them a call runs, and what they may put in place of a value.
//
//   tn_hook_post(fc, negate, NULL, NULL);
//   y = tn_call(fc, x);         %3 = linear %x, %w, %b
//                                %4 = neg %3                what `negate` built; y is %4
//   z = tn_forward(fc, x);      %5 = linear %x, %w, %b
//
// A hook runs while the graph is built and leaves nothing but what it built: a program whose hooks were removed before
// the calls is the program without them. call.c runs those of calls, grad_hook.c those on gradients.
#include "frontend/module/hook.h"
#include "frontend/module/call.h"
#include "ir/text/text.h"
#include "runtime/store/checkpoint.h"
#include <string.h>

// ---- registering
static bool refuse(const tn_module *m, const char *why, const char *hint, tn_site at) {
  fe_error(m->p, E_ARGUMENT, at, "module '%s' runs no %s", m->path, why);
  fe_note(m->p, m->loc, "it was made here");
  fe_hint(m->p, "%s", hint);
  return false;
}

static bool check_hookable(tn_module *m, const tn_hook *h, tn_site at) {
  bool of_rnn = h->rnn_pre || h->rnn_post, of_tensors = h->pre || h->post;
  if (!of_rnn && !of_tensors && !h->values_pre && !h->values_post && !h->backward_pre && !h->backward) {
    fe_error(m->p, E_ARGUMENT, at, "a hook of module '%s' is no function", m->path);
    return false;
  }
  if (h->pattern) return true;
  switch (m->kind) {
  case MOD_PLAIN:
  case MOD_KV_CACHE:
  case MOD_SLOTS:
  case MOD_SLOT_CACHE:
    return refuse(m, "hooks: it holds parameters only and is never called",
                  "hook its children, or make it by tn_sequential", at);
  case MOD_RNN_CELL:
    return refuse(m, "hooks: it makes single steps", "use what goes into tn_rnn_step and comes out of it", at);
  case MOD_RNN:
    return of_rnn || h->backward || h->backward_pre ||
           refuse(m, "such hooks: it works on sequences and states",
                  "tn_rnn_hook_pre and tn_rnn_hook_post watch recurrent modules, tn_hook_backward their gradients", at);
  case MOD_OWN:
    if (of_tensors && (fe_n_in(m) > 1 || fe_n_out(m) > 1))
      return refuse(m, "such hooks: it takes or gives several values",
                    "tn_hook_values_pre and tn_hook_values_post watch it", at);
    // fall through
  default:
    return !of_rnn || refuse(m, "hooks of recurrent modules", "tn_hook_pre and tn_hook_post watch other modules", at);
  }
}

// Hooks are part of the graph, so that neither comes into it nor leaves it once it is code.
static bool check_unsealed(tn_program *p, const tn_module *m, const tn_hook *h, tn_site at) {
  if (!p->sealed || p->oom) return !p->oom;
  const char *of = m ? rt_printf(p->mem, "of module '%s'", m->path) : "on a gradient";
  fe_error(p, E_STATE, at, "a hook %s is %s after the program was compiled", of, h ? "removed" : "registered");
  if (h) fe_note(p, h->loc, "it was registered here");
  fe_note(p, p->sealed_at, "the program was compiled here");
  fe_hint(p, h ? "remove a hook before the calls that shall run without it"
               : "register a hook before the calls that it watches");
  return false;
}

static void insert(tn_program *p, FeHooks *l, tn_hook *h, bool first) {
  *RT_PUSH(p->mem, l->list, l->n, l->cap) = h;
  if (!first) return;
  memmove(l->list + 1, l->list, (l->n - 1) * sizeof *l->list);
  l->list[0] = h;
}

tn_hook *fe_hook_new(tn_program *p, tn_hook new, tn_site at) {
  if (!check_unsealed(p, new.module, NULL, at)) return NULL;
  tn_hook *h = rt_alloc(p->mem, sizeof *h);
  *h = new;
  h->p = p, h->loc = fe_loc(p, at);
  insert(p, &p->hooks, h, false);
  return h;
}

tn_hook *fe_hook_add(tn_module *m, tn_hook new, tn_hook_options o) {
  if (!m) return NULL;
  tn_program *p = m->p;
  FE_GUARD(p, NULL);
  new.module = m, new.pattern = o.pattern ? rt_strdup(p->mem, o.pattern) : NULL;
  if (m->poisoned || !check_unsealed(p, m, NULL, o.at) || !check_hookable(m, &new, o.at)) return NULL;
  tn_hook *h = fe_hook_new(p, new, o.at);
  if (h) insert(p, h->pattern ? &p->tree_hooks : &m->hooks, h, o.prepend);
  return h;
}

tn_hook *tn_hook_pre(tn_module *m, tn_pre_hook fn, void *ctx, tn_hook_options o) {
  return fe_hook_add(m, (tn_hook){.pre = fn, .ctx = ctx}, o);
}

tn_hook *tn_hook_post(tn_module *m, tn_post_hook fn, void *ctx, tn_hook_options o) {
  return fe_hook_add(m, (tn_hook){.post = fn, .ctx = ctx}, o);
}

tn_hook *tn_hook_values_pre(tn_module *m, tn_values_pre_hook fn, void *ctx, tn_hook_options o) {
  return fe_hook_add(m, (tn_hook){.values_pre = fn, .ctx = ctx}, o);
}

tn_hook *tn_hook_values_post(tn_module *m, tn_values_post_hook fn, void *ctx, tn_hook_options o) {
  return fe_hook_add(m, (tn_hook){.values_post = fn, .ctx = ctx}, o);
}

tn_hook *tn_hook_backward_pre(tn_module *m, tn_backward_pre_hook fn, void *ctx, tn_hook_options o) {
  return fe_hook_add(m, (tn_hook){.backward_pre = fn, .ctx = ctx}, o);
}

tn_hook *tn_hook_backward(tn_module *m, tn_backward_hook fn, void *ctx, tn_hook_options o) {
  return fe_hook_add(m, (tn_hook){.backward = fn, .ctx = ctx}, o);
}

static void take_out(FeHooks *l, const tn_hook *h) {
  uint32_t k = 0;
  while (k < l->n && l->list[k] != h) k++;
  if (k == l->n) return;
  for (l->n--; k < l->n; k++) l->list[k] = l->list[k + 1];
}

void tn_hook_remove(tn_hook *h, tn_site at) {
  if (!h || h->removed) return;
  FE_GUARD(h->p, );
  if (!check_unsealed(h->p, h->module, h, at)) return;
  h->removed = true;
  if (h->module) take_out(h->pattern ? &h->p->tree_hooks : &h->module->hooks, h);  // those of values look at `removed`
}

// ---- which hooks a call of m runs
static bool is_of(const tn_hook *h, const tn_module *m) {
  bool of_rnn = h->rnn_pre || h->rnn_post, of_others = h->pre || h->post || h->values_pre || h->values_post;
  if (!(m->kind == MOD_RNN ? of_rnn : of_others) && !h->backward && !h->backward_pre) return false;
  if ((h->pre || h->post) && (fe_n_in(m) > 1 || fe_n_out(m) > 1)) return false;
  const tn_module *up = m;
  while (up && up != h->module) up = up->parent;
  if (!up) return false;
  if (m == h->module) return !strcmp(h->pattern, "**");
  const char *path = m->path + strlen(h->module->path);
  return rt_path_matches(h->pattern, *path == '.' ? path + 1 : path);
}

// As they stand before the first of them runs: what a hook registers fires from the next call on, what it removes fires
// no more.
FeHooks fe_hooks_of(const tn_module *m) {
  tn_program *p = m->p;
  FeHooks found = {0};
  for (uint32_t k = 0; k < p->tree_hooks.n; k++)
    if (is_of(p->tree_hooks.list[k], m)) insert(p, &found, p->tree_hooks.list[k], false);
  for (uint32_t k = 0; k < m->hooks.n; k++) insert(p, &found, m->hooks.list[k], false);
  return found;
}

// ---- running one, and what it returns
FeHookRun fe_hook_begins(tn_hook *h, tn_module *m) {
  tn_program *p = h->p;
  FeHookRun run = {
      .hook = h, .p = p, .module = m, .running = m ? m->running : NULL, .guard = p->guard, .inside = p->inside};
  h->fired = true;
  h->on = m;
  if (m) m->running = h;
  run.guard->runs_hook = true;
  p->inside = NULL;
  return run;
}

void fe_hook_ended(const FeHookRun *run) {
  if (run->module) run->module->running = run->running;
  run->guard->runs_hook = false;
  run->p->inside = run->inside;
}

bool fe_hook_may_run(const tn_module *m, tn_site at) {
  if (!m->running) return true;
  fe_error(m->p, E_STATE, at, "module '%s' is called by a hook of its own", m->path);
  fe_note(m->p, m->running->loc, "the hook was registered here");
  if (m->kind != MOD_RNN) fe_hint(m->p, "tn_forward runs the module without its hooks");
  return false;
}

static const char *type_text(tn_program *p, uint8_t dtype, Shape s) {
  RtText t = {.mem = p->mem};
  ir_type_text(p->ir, dtype, s, &t);
  return t.text;
}

static const char *hook_text(const tn_hook *h) {
  return h->on ? rt_printf(h->p->mem, "a hook of module '%s'", h->on->path) : "a hook on a gradient";
}

static void report_type(const tn_hook *h, const char *what, uint8_t dtype, Shape s, tn_tensor r, tn_site at) {
  tn_program *p = r.fn->p;
  fe_error(p, E_HOOK_TYPE, at, "%s replaces %s, %s, by a value of %s", hook_text(h), what, type_text(p, dtype, s),
           type_text(p, fe_ins(r)->dtype, fe_shape_of(r)));
  fe_note(p, h->loc, "the hook was registered here");
  fe_note(p, fe_ins(r)->loc, "the replacement was made here");
  fe_hint(p, h->on_grad || h->backward || h->backward_pre
                 ? "a gradient has the shape of its value"
                 : "a hook keeps shape and dtype: change them before the call, or after it");
}

static void report_foreign(const tn_hook *h, const tn_function *f, const tn_function *other, tn_site at) {
  if (f->p == other->p)
    fe_error(f->p, E_FOREIGN, at, "%s gives a value of function '%s' to function '%s'", hook_text(h), other->name,
             f->name);
  else fe_error(f->p, E_FOREIGN, at, "%s gives a value of another program", hook_text(h));
  fe_note(f->p, h->loc, "the hook was registered here");
  fe_hint(f->p, "a hook builds on the values that it is given");
}

bool fe_hook_fits(const tn_hook *h, const char *what, tn_function *f, uint8_t dtype, Shape s, tn_tensor r, tn_site at) {
  tn_function *g = f;
  if (r.fn != f) {
    if (r.fn) report_foreign(h, f, r.fn, at);
    return false;
  }
  if (!fe_join(&r, 1, &g, at)) return false;
  if (fe_ins(r)->dtype == dtype && fe_shape_of(r).i == s.i) return true;
  report_type(h, what, dtype, s, r, at);
  return false;
}

FeTypes fe_types_of(const tn_values *v) {
  FeTypes t;
  for (uint32_t k = 0; k < v->n; k++)
    if (fe_ok(v->v[k])) t.dtype[k] = (uint8_t)fe_ins(v->v[k])->dtype, t.shape[k] = fe_shape_of(v->v[k]);
  return t;
}

static bool report_count(const tn_hook *h, const char *what, uint32_t have, uint32_t want, tn_site at) {
  fe_error(h->p, E_HOOK_TYPE, at, "%s returns %u values for its %u %s%s", hook_text(h), have, want, what,
           want == 1 ? "" : "s");
  fe_note(h->p, h->loc, "the hook was registered here");
  fe_hint(h->p, "a hook returns what it was given, with values replaced, or TN_KEEP");
  return false;
}

static bool report_presence(const tn_hook *h, const char *what, bool was_given, tn_site at) {
  fe_error(h->p, E_HOOK_TYPE, at, "%s %s", hook_text(h),
           was_given ? rt_printf(h->p->mem, "returns no value for its %s", what)
                     : rt_printf(h->p->mem, "returns a value for its %s, where there is none", what));
  fe_note(h->p, h->loc, "the hook was registered here");
  fe_hint(h->p, "a hook returns TN_NONE where it was given none, and there alone");
  return false;
}

bool fe_hook_replaces(const tn_hook *h, const char *what, tn_function *f, tn_values *v, const FeTypes *types,
                      const tn_values *by, tn_site at) {
  if (by->n == UINT32_MAX) return true;
  if (by->n != v->n) return report_count(h, what, by->n, v->n, at);
  for (uint32_t k = 0; k < v->n; k++) {
    tn_tensor now = by->v[k];
    const char *name = v->n > 1 ? rt_printf(h->p->mem, "%s '%s'", what, v->names[k]) : what;
    if (!now.fn != !v->v[k].fn) return report_presence(h, name, v->v[k].fn, at);
    if (!now.fn) continue;
    const char *its = rt_printf(h->p->mem, "its %s", name);
    if (!fe_hook_fits(h, its, f, types->dtype[k], types->shape[k], now, at)) return false;
    v->v[k] = now;
  }
  return true;
}

// ---- hooks that never fired
static void warn(tn_program *p, const tn_hook *h, const char *fmt, const char *name) {
  rt_diag(&p->ir->diags, RT_WARNING, E_HOOK_UNUSED, ir_loc_file(p->ir, h->loc), ir_loc_line(p->ir, h->loc), fmt, name);
}

static void warn_unused_of_value(tn_program *p, const tn_hook *h) {
  warn(p, h, "a hook on a gradient never fires: %s", "no loss sends the value a gradient");
  fe_hint(p, "tn_backward and tn_grad run hooks, those that are registered before them");
}

static void warn_unused_of_tree(tn_program *p, const tn_hook *h) {
  warn(p, h, "a hook of the modules '%s' never fires: none of them is called, or none by a call that runs it",
       h->pattern);
  fe_hint(p, "the pattern is one of paths below the module that the hook was given to");
}

static void warn_unused_backward(tn_program *p, const tn_hook *h) {
  warn(p, h, "a backward hook of module '%s' never fires: no gradient goes through the module", h->module->path);
  if (h->untracked.i) {
    fe_note(p, h->untracked, "the output of this call requires no gradient");
    fe_hint(p, "tn_set_requires_grad(x, true) makes an input require one, and all that is made of it");
    return;
  }
  fe_note(p, h->module->called, "it was called here");
  fe_hint(p, "tn_backward and tn_grad run hooks of the calls that the loss depends on");
}

static void warn_unused(tn_program *p, const tn_hook *h) {
  const tn_module *m = h->module;
  const char *why = m->called.i      ? "was called only before it was registered"
                    : m->forwarded.i ? "runs through tn_forward only"
                                     : "is never called";
  rt_diag(&p->ir->diags, RT_WARNING, E_HOOK_UNUSED, ir_loc_file(p->ir, h->loc), ir_loc_line(p->ir, h->loc),
          "a hook of module '%s' never fires: the module %s", m->path, why);
  if (m->called.i) fe_note(p, m->called, "it was called here");
  else if (m->forwarded.i) fe_note(p, m->forwarded, "tn_forward runs it here, without hooks");
  else fe_note(p, m->loc, "the module was made here");
  fe_hint(p, "%s runs hooks, those that are registered before it; tn_hook_remove takes one away",
          m->kind == MOD_RNN ? "tn_rnn_call" : "tn_call");
}

void fe_unused_hooks(tn_program *p) {
  for (uint32_t k = 0; k < p->hooks.n; k++) {
    tn_hook *h = p->hooks.list[k];
    bool of_gradient = h->backward || h->backward_pre;
    if (h->removed || h->fired || (h->module && !h->pattern && h->module->reported_unused)) continue;
    if (!h->module) warn_unused_of_value(p, h);
    else if (h->pattern) warn_unused_of_tree(p, h);
    else {
      h->module->reported_unused = true;
      (of_gradient && h->is_tapped ? warn_unused_backward : warn_unused)(p, h);
    }
  }
}
