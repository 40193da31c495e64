// Hooks of modules, and the two ways to run a module: tn_call with them, tn_forward without.
//
//   tn_hook_post(fc, negate, NULL, NULL);
//   y = tn_call(fc, x);         %3 = linear %x, %w, %b
//                                %4 = neg %3                what `negate` built; y is %4
//   z = tn_forward(fc, x);      %5 = linear %x, %w, %b
//
// A hook runs while the graph is built and leaves nothing but what it built: a program whose hooks were removed before
// the calls is the program without them.
#include "frontend/fe.h"
#include <string.h>

// ---- registering
static bool refuse(const tn_module *m, const char *why, const char *hint, tn_site at) {
  fe_error(m->p, E_ARGUMENT, at, "module '%s' runs no %s", m->path, why);
  fe_note(m->p, m->loc, "it was made here");
  fe_hint(m->p, "%s", hint);
  return false;
}

static bool check_hookable(tn_module *m, const tn_hook *h, tn_site at) {
  bool of_rnn = h->rnn_pre || h->rnn_post;
  if (!h->pre && !h->post && !of_rnn) {
    fe_error(m->p, E_ARGUMENT, at, "a hook of module '%s' is no function", m->path);
    return false;
  }
  switch (m->kind) {
  case MOD_PLAIN:
    return refuse(m, "hooks: it holds parameters only and is never called",
                  "hook its children, or make it by tn_sequential", at);
  case MOD_RNN_CELL:
    return refuse(m, "hooks: it makes single steps", "use what goes into tn_rnn_step and comes out of it", at);
  case MOD_RNN:
    return of_rnn || refuse(m, "such hooks: it works on sequences and states",
                            "tn_rnn_hook_pre and tn_rnn_hook_post watch recurrent modules", at);
  default:
    return !of_rnn || refuse(m, "hooks of recurrent modules", "tn_hook_pre and tn_hook_post watch other modules", at);
  }
}

// Hooks are part of the graph, so that neither comes into it nor leaves it once it is code.
static bool check_unsealed(const tn_module *m, const tn_hook *h, tn_site at) {
  if (!m->p->sealed || m->p->oom) return !m->p->oom;
  fe_error(m->p, E_STATE, at, "a hook of module '%s' is %s after the program was compiled", m->path,
           h ? "removed" : "registered");
  if (h) fe_note(m->p, h->loc, "it was registered here");
  fe_note(m->p, m->p->sealed_at, "the program was compiled here");
  fe_hint(m->p, h ? "remove a hook before the calls that shall run without it"
                  : "register a hook before the calls that it watches");
  return false;
}

tn_hook *fe_hook_add(tn_module *m, tn_hook new, tn_hook_options o) {
  if (!m) return NULL;
  FE_GUARD(m->p, NULL);
  if (m->poisoned || !check_unsealed(m, NULL, o.at) || !check_hookable(m, &new, o.at)) return NULL;
  tn_hook *h = rt_alloc(m->p->mem, sizeof *h);
  *h = new;
  h->module = m, h->loc = fe_loc(m->p, o.at);
  *RT_PUSH(m->p->mem, m->p->hooks, m->p->n_hooks, m->p->cap_hooks) = h;
  *RT_PUSH(m->p->mem, m->hooks, m->n_hooks, m->cap_hooks) = h;
  if (!o.prepend) return h;
  memmove(m->hooks + 1, m->hooks, (m->n_hooks - 1) * sizeof *m->hooks);
  return m->hooks[0] = h;
}

tn_hook *tn_hook_pre(tn_module *m, tn_pre_hook fn, void *ctx, tn_hook_options o) {
  return fe_hook_add(m, (tn_hook){.pre = fn, .ctx = ctx}, o);
}

tn_hook *tn_hook_post(tn_module *m, tn_post_hook fn, void *ctx, tn_hook_options o) {
  return fe_hook_add(m, (tn_hook){.post = fn, .ctx = ctx}, o);
}

void tn_hook_remove(tn_hook *h, tn_site at) {
  if (!h || h->removed) return;
  tn_module *m = h->module;
  FE_GUARD(m->p, );
  if (!check_unsealed(m, h, at)) return;
  h->removed = true;
  uint32_t k = 0;
  while (m->hooks[k] != h) k++;
  for (m->n_hooks--; k < m->n_hooks; k++) m->hooks[k] = m->hooks[k + 1];
}

// ---- running
static const char *type_text(tn_program *p, uint8_t dtype, Shape s) {
  RtText t = {.mem = p->mem};
  ir_type_text(p->ir, dtype, s, &t);
  return t.text;
}

static void report_type(const tn_hook *h, uint8_t dtype, Shape s, tn_tensor r, tn_site at) {
  tn_program *p = r.fn->p;
  fe_error(p, E_HOOK_TYPE, at, "a hook of module '%s' replaces its %s, %s, by a value of %s", h->module->path,
           h->pre || h->rnn_pre ? "input" : "output", type_text(p, dtype, s),
           type_text(p, fe_ins(r)->dtype, fe_shape_of(r)));
  fe_note(p, h->loc, "the hook was registered here");
  fe_note(p, fe_ins(r)->loc, "the replacement was made here");
  fe_hint(p, "a hook keeps shape and dtype: change them before the call, or after it");
}

static void report_foreign(const tn_hook *h, const tn_function *f, const tn_function *other, tn_site at) {
  if (f->p == other->p)
    fe_error(f->p, E_FOREIGN, at, "a hook of module '%s' gives a value of function '%s' to function '%s'",
             h->module->path, other->name, f->name);
  else fe_error(f->p, E_FOREIGN, at, "a hook of module '%s' gives a value of another program", h->module->path);
  fe_note(f->p, h->loc, "the hook was registered here");
  fe_hint(f->p, "a hook builds on the values that it is given");
}

bool fe_hook_fits(const tn_hook *h, tn_function *f, uint8_t dtype, Shape s, tn_tensor r, tn_site at) {
  tn_function *g = f;
  if (r.fn != f) {
    if (r.fn) report_foreign(h, f, r.fn, at);
    return false;
  }
  if (!fe_join(&r, 1, &g, at)) return false;
  if (fe_ins(r)->dtype == dtype && fe_shape_of(r).i == s.i) return true;
  report_type(h, dtype, s, r, at);
  return false;
}

FeHookRun fe_hook_begins(tn_hook *h) {
  tn_program *p = h->module->p;
  FeHookRun run = {h, p->guard, p->inside};
  h->fired = true;
  h->module->running = h;
  run.guard->runs_hook = true;
  p->inside = NULL;
  return run;
}

void fe_hook_ended(const FeHookRun *run) {
  run->hook->module->running = NULL;
  run->guard->runs_hook = false;
  run->hook->module->p->inside = run->inside;
}

// What goes on in place of the hooked value. The hook may have done anything: ended this value, its function, ..
static tn_tensor run_hook(tn_hook *h, tn_tensor in, tn_tensor out, tn_site at) {
  tn_tensor x = h->pre ? in : out;
  tn_function *f = x.fn;
  uint8_t dtype = fe_ins(x)->dtype;
  Shape shape = fe_shape_of(x);
  FeHookRun run = fe_hook_begins(h);
  tn_tensor r = h->pre ? h->pre(h->module, in, h->ctx) : h->post(h->module, in, out, h->ctx);
  fe_hook_ended(&run);
  if (!r.fn) r = x;
  return fe_hook_fits(h, f, dtype, shape, r, at) ? r : fe_poison(f);
}

// One kind of hooks, as they stood before the first of them ran: what a hook registers fires from the next call on,
// what it removes fires no more.
static tn_tensor run_hooks(tn_module *m, bool pre, tn_tensor in, tn_tensor out, tn_site at) {
  uint32_t n = m->n_hooks;
  tn_hook **list = rt_alloc(m->p->mem, (n + 1) * sizeof *list);
  for (uint32_t k = 0; k < n; k++) list[k] = m->hooks[k];
  for (uint32_t k = 0; k < n && fe_ok(pre ? in : out); k++) {
    if (list[k]->removed || !list[k]->pre == pre) continue;
    *(pre ? &in : &out) = run_hook(list[k], in, out, at);
  }
  return pre ? in : out;
}

bool fe_hook_may_run(const tn_module *m, tn_site at) {
  if (!m->running) return true;
  fe_error(m->p, E_STATE, at, "module '%s' is called by a hook of its own", m->path);
  fe_note(m->p, m->running->loc, "the hook was registered here");
  if (m->kind != MOD_RNN) fe_hint(m->p, "tn_forward runs the module without its hooks");
  return false;
}

// A hook may give back a value that this call did not make: nothing is counted twice, and no leaf at all.
tn_tensor fe_count_new(tn_tensor t, uint32_t first, tn_site at) {
  if (!fe_ok(t) || t.v < first || fe_ins(t)->op == OP_param) return t;
  return fe_made(t, at);
}

static tn_tensor call_hooked(tn_module *m, tn_tensor x, tn_site at) {
  if (!fe_hook_may_run(m, at)) return fe_poison(x.fn);
  x = run_hooks(m, true, x, fe_poison(x.fn), at);
  if (!fe_ok(x)) return x;
  uint32_t first = x.fn->ir->n_ins;
  tn_tensor y = fe_count_new(fe_forward(m, x, at), first, at);
  return run_hooks(m, false, x, y, at);
}

tn_tensor fe_call(tn_module *m, tn_tensor x, tn_site at) {
  if (!fe_ok(x) || m->poisoned) return fe_poison(x.fn);
  m->called = fe_loc(m->p, at);
  return m->n_hooks ? call_hooked(m, x, at) : fe_forward(m, x, at);
}

bool fe_callable(tn_function *f, const tn_module *m, tn_site at) { return fe_own_module(f->p, m, "called", at); }

static tn_tensor run_module(tn_module *m, tn_tensor x, bool with_hooks, tn_site at) {
  tn_function *f;
  const char *call = with_hooks ? "tn_call" : "tn_forward";
  if (!fe_join_for(call, &x, 1, &f, at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  if (!fe_callable(f, m, at)) return fe_poison(f);
  uint32_t first = f->ir->n_ins;
  if (!with_hooks && !m->forwarded.i) m->forwarded = fe_loc(f->p, at);
  return fe_count_new(with_hooks ? fe_call(m, x, at) : fe_forward(m, x, at), first, at);
}

tn_tensor tn_call(tn_module *m, tn_tensor x, tn_site at) { return run_module(m, x, true, at); }
tn_tensor tn_forward(tn_module *m, tn_tensor x, tn_site at) { return run_module(m, x, false, at); }

// ---- hooks that never fired
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
  for (uint32_t k = 0; k < p->n_hooks; k++) {
    tn_hook *h = p->hooks[k];
    if (h->removed || h->fired || h->module->reported_unused) continue;
    h->module->reported_unused = true;
    warn_unused(p, h);
  }
}

// On the rows of a packed sequence.
tn_packed tn_packed_call(tn_module *m, tn_packed s, tn_site at) {
  tn_function *f;
  if (!fe_join_packed(&s, 1, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  tn_tensor data = fe_callable(f, m, at) ? fe_call(m, s.data, at) : fe_poison(f);
  if (!fe_ok(data)) return fe_poisoned_packed(f);
  return tn_packed_with_data(s, data, at);
}
