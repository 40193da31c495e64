// Parameters made of values: take-over, registration, replacement, sharing of modules, and their end.
//
//   %w = mul %r, 0.1 : f32[4,8]            built by the user in the function init
//   %p = clone %w : f32[4,8]               tn_as_parameter: the same entity, the handle %w is dead
//   %q = param @fc.weight : f32[4,8]       when a function first uses a parameter
//   %a = assign %q, %p
#include "frontend/graph/ledger.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scope.h"
#include "frontend/module/optimizer.h"
#include "frontend/module/tree.h"
#include <string.h>

tn_function *fe_init(tn_program *p) {
  if (p->init_fn) return p->init_fn;
  tn_function *f = rt_alloc(p->mem, sizeof *f);
  f->p = p;
  f->ir = p->init;
  f->name = "init";
  return p->init_fn = f;
}

tn_function *tn_init_function(tn_program *p) {
  if (!p) return NULL;
  FE_GUARD(p, NULL);
  return fe_init(p);
}

tn_tensor fe_initial_handle(tn_function *init, FeParam *q) {
  tn_tensor t = {init, fe_initial(init->p, q).i};
  if (q->entity && !fe_known(init, fe_val(t))) fe_name_entity(init, q->entity, fe_val(t));
  return t;
}

// ---- what may stand where
bool fe_has_params(FeModuleKind kind) {
  return kind == MOD_LINEAR || kind == MOD_RNN || kind == MOD_RNN_CELL || kind == MOD_EMBEDDING ||
         kind == MOD_LAYER_NORM || kind == MOD_RMS_NORM || kind == MOD_ATTENTION || kind == MOD_BUILT_IN;
}

bool fe_adopts_params(tn_module *m, const char *name, tn_site at) {
  const tn_module *up = m;
  while (up && up->kind != MOD_DROPOUT && up->kind != MOD_ACTIVATION) up = up->parent;
  if (!up) return true;
  fe_error(m->p, E_ARGUMENT, at, "'%s.%s' is below module '%s', which takes no parameters", m->path, name, up->path);
  fe_note(m->p, up->loc, "'%s' was made here", up->path);
  fe_hint(m->p, "a module made by tn_module_new or tn_sequential takes them");
  return false;
}

static bool check_initial(tn_tensor t, uint32_t dtypes, tn_site at) {
  tn_function *f = t.fn;
  if (f != f->p->init_fn) {
    fe_error(f->p, E_FOREIGN, at, "a parameter is made of a value of function '%s'", f->name);
    fe_note(f->p, fe_ins(t)->loc, "the value was made here");
    fe_hint(f->p, "build its initial value in the function that tn_init_function gives");
    return false;
  }
  if (!(dtypes >> fe_ins(t)->dtype & 1))
    fe_error(f->p, E_DTYPE, at, "a %s", dtypes == FLOATS ? "parameter is of f32, f16 or bf16" : "buffer holds numbers");
  else if (ir_shape_is_const(f->p->ir, fe_shape_of(t))) return true;
  else fe_error(f->p, E_SHAPE, at, "a parameter must have constant sizes");
  fe_note_value(t, "its initial value");
  return false;
}

// ---- take-over: the entity stays, its handle changes
// A parameter that no module has yet is taken over again where `again` says so: the handle before is dead as well.
static tn_tensor take_over(tn_tensor t, bool again, tn_site at) {
  tn_function *f = t.fn;
  uint32_t k = fe_entity_index(f, fe_entity(t));
  if (f->entities[k].is_param && (!again || f->entities[k].param)) return t;
  uint32_t owner = f->entities[k].owner;
  if (f->entities[k].is_param) f->entities[k].call = "tn_as_parameter";
  tn_tensor p = fe_emit1(OP_clone, t, at);
  if (!fe_ok(p)) return p;
  if (f->scope && f->scope->index != owner) fe_mark_owner(p, owner, at);
  fe_rename_entity(f, k, fe_val(p), fe_loc(f->p, at));
  return p;
}

static tn_tensor as_entry(tn_tensor t, uint32_t dtypes, bool again, tn_site at) {
  tn_function *f;
  if (!fe_join(&t, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!fe_open_entity(t, false, "taken over", at) || !check_initial(t, dtypes, at)) return fe_poison(f);
  return take_over(t, again, at);
}

tn_tensor tn_as_parameter(tn_tensor t, tn_site at) { return as_entry(t, FLOATS, true, at); }

// ---- entries
void fe_param_end(tn_program *p, FeParam *q, Loc at) {
  tn_function *init = fe_init(p);
  if (q->disposed) return;
  q->disposed = true;
  q->replaced = q->index == FE_NO_PARAM;
  if (!q->entity || init->entities[q->entity].state != FE_ALIVE) return;
  fe_detached(init, q->entity, false, at);
  fe_end(init, q->entity, FE_DISPOSED, at);
}

static void drop_path(FeParam *q, const char *path) {
  uint32_t k = 0;
  while (k < q->n_aliases && strcmp(q->aliases[k], path)) k++;
  if (k == q->n_aliases) q->path = q->aliases[k = 0];  // the canonical path goes: the first alias takes its place
  for (q->n_aliases--; k < q->n_aliases; k++) q->aliases[k] = q->aliases[k + 1];
}

// A parameter loses one of its paths, and ends with the last one.
static void release(tn_module *m, const FeEntry *e, Loc at) {
  FeParam *q = e->param;
  if (q->n_aliases) drop_path(q, fe_path(m->p, m->path, e->name));
  else fe_param_end(m->p, q, at);
}

static bool check_unused(tn_module *m, const FeEntry *e, tn_site at) {
  if (e->param->index == FE_NO_PARAM) return true;
  fe_error(m->p, E_STATE, at, "parameter '%s' is replaced after a function used parameters", e->param->path);
  fe_note(m->p, e->loc, "it was made here");
  fe_hint(m->p, "replace parameters before the first function uses any");
  return false;
}

static bool check_same_shape(tn_module *m, const FeEntry *e, Shape s, tn_site at) {
  RtText want = {.mem = m->p->mem}, have = {.mem = m->p->mem};
  if (m->config.is_reshapable || e->param->shape.i == s.i) return true;
  ir_shape_text(m->p->ir, e->param->shape, &want);
  ir_shape_text(m->p->ir, s, &have);
  fe_error(m->p, E_REGISTERED_SHAPE, at, "parameter '%s' of shape %s is replaced by one of shape %s", e->param->path,
           want.text ? want.text : "[]", have.text ? have.text : "[]");
  fe_note(m->p, e->loc, "it was made here");
  fe_hint(m->p, "tn_reshapable(module) allows it");
  return false;
}

static void push_entry(tn_module *m, const char *name, FeParam *q, Loc at) {
  *RT_PUSH(m->p->mem, m->entries, m->n_entries, m->cap_entries) = (FeEntry){rt_strdup(m->p->mem, name), q, at};
}

static FeParam *new_param(tn_module *m, const char *name, ParamKind kind, tn_tensor p, tn_site at) {
  tn_function *init = p.fn;
  Loc loc = fe_loc(m->p, at);
  FeParam *q =
      fe_param_add(m->p, fe_path(m->p, m->path, name), kind, fe_shape_of(p), (tn_init){TN_INIT_ZEROS, 0, 0}, loc);
  fe_detach(p, at);
  q->dtype = (DType)fe_ins(p)->dtype;
  q->value = fe_val(p);
  q->entity = fe_entity_index(init, fe_entity(p));
  init->entities[q->entity].param = q;
  for (uint32_t k = init->entities[q->entity].was; k; k = init->entities[k].was) init->entities[k].param = q;
  return q;
}

// The place in the table stays that of the parameter that had the name.
static void take_place(tn_program *p, const FeParam *old, FeParam *q) {
  for (uint32_t k = 0; k < p->n_params - 1; k++) {
    if (p->params[k] != old) continue;
    p->params[k] = q;
    p->n_params--;
    return;
  }
}

static void replace(tn_module *m, FeEntry *e, ParamKind kind, tn_tensor p, tn_site at) {
  FeParam *old = e->param, *q = fe_entity(p)->param;
  Loc loc = fe_loc(m->p, at);
  if (old == q || !check_unused(m, e, at) || !check_same_shape(m, e, fe_shape_of(p), at)) return;
  release(m, e, loc);
  if (q) fe_add_alias(m, e->name, q);
  else {
    q = new_param(m, e->name, kind, p, at);
    if (old->disposed) take_place(m->p, old, q);
  }
  e->param = q;
  e->loc = loc;
}

static void add(tn_module *m, const char *name, ParamKind kind, tn_tensor p, tn_site at) {
  FeParam *q = fe_entity(p)->param;
  if (!fe_free_name(m, "parameter", name, at) || !fe_adopts_params(m, name, at)) return;
  if (!fe_may_add(m, name, kind, at)) return;
  bool shared = q != NULL;
  if (!shared) q = new_param(m, name, kind, p, at);
  push_entry(m, name, q, fe_loc(m->p, at));
  if (shared) fe_add_alias(m, name, q);
}

// No parameter of that name from now on; that there was none is fine.
static void drop(tn_module *m, const char *name, tn_site at) {
  FeEntry *e = fe_entry(m, name);
  bool has_bias = m->kind == MOD_LINEAR || m->kind == MOD_LAYER_NORM || m->config.conv;
  bool optional = m->kind == MOD_PLAIN || (has_bias && !strcmp(name, "bias"));
  if (!e || !check_unused(m, e, at)) return;
  if (!optional) {
    fe_error(m->p, E_ARGUMENT, at, "module '%s' needs its parameter '%s'", m->path, name);
    fe_note(m->p, e->loc, "it was made here");
    return;
  }
  release(m, e, fe_loc(m->p, at));
  size_t rest = (size_t)(m->entries + m->n_entries - (e + 1));
  memmove(e, e + 1, rest * sizeof *e);
  m->n_entries--;
  if (m->kind == MOD_LINEAR) m->config.has_bias = false;
}

static bool open_module(tn_module *m, const char *name, tn_site at) {
  return fe_open(m->p, at) && fe_name(m->p, "a parameter", name, true, at);
}

static bool same_program(tn_module *m, tn_tensor t, tn_site at) {
  if (t.fn->p == m->p) return true;
  fe_error(m->p, E_FOREIGN, at, "module '%s' is given a value of another program", m->path);
  return false;
}

static void take(tn_module *m, const char *name, ParamKind kind, tn_tensor t, tn_site at) {
  if (!m || m->poisoned) return;
  FE_GUARD(m->p, );
  if (name) m = fe_holder(m, &name);
  if (!open_module(m, name, at)) return;
  if (!t.fn) {
    drop(m, name, at);
    return;
  }
  if (!t.v || !same_program(m, t, at)) return;
  tn_tensor p = as_entry(t, kind == PARAM_WEIGHT ? FLOATS : NUMBER, false, at);
  if (!fe_ok(p)) return;
  FeEntry *e = fe_entry(m, name);
  if (e) replace(m, e, kind, p, at);
  else add(m, name, kind, p, at);
}

void tn_parameter_adopt(tn_module *m, const char *name, tn_tensor t, tn_site at) { take(m, name, PARAM_WEIGHT, t, at); }

void tn_buffer_adopt(tn_module *m, const char *name, tn_tensor t, bool persistent, tn_site at) {
  take(m, name, persistent ? PARAM_BUFFER : PARAM_TRANSIENT, t, at);
}

static bool check_unowned(tn_module *m, const char *name, tn_tensor p, tn_site at) {
  const FeLogicalValue *e = fe_entity(p);
  if (e->owner == NO_SCOPE) return true;
  const tn_scope *s = p.fn->scopes[e->owner];
  fe_error(m->p, E_PARAM_IN_SCOPE, at, "parameter '%s' is owned by scope '%s', which ends before its module",
           fe_path(m->p, m->path, name), s->name);
  fe_note_made(p.fn, e);
  fe_note(m->p, s->open, "scope '%s' was opened here", s->name);
  fe_hint(m->p, "tn_detach_from_scope before, or tn_parameter_adopt, gives it to the module alone");
  return false;
}

void tn_register(tn_module *m, const char *name, tn_tensor p, tn_site at) {
  tn_function *f;
  if (!m || m->poisoned || !fe_join(&p, 1, &f, at)) return;
  FE_GUARD(m->p, );
  if (!open_module(m, name, at) || !same_program(m, p, at)) return;
  if (!fe_entity(p)->is_param) {
    fe_error(m->p, E_ARGUMENT, at, "'%s' is registered with a value that is no parameter", name);
    fe_note(m->p, fe_ins(p)->loc, "it was made here");
    fe_hint(m->p, "tn_as_parameter makes a parameter of a value");
  } else if (check_unowned(m, name, p, at)) add(m, name, PARAM_WEIGHT, p, at);
}

void tn_reshapable(tn_module *m) {
  if (m) m->config.is_reshapable = true;
}

// ---- modules
static void share_into(tn_module *to, const tn_module *from, tn_site at) {
  to->config = from->config;
  for (uint32_t k = 0; k < from->n_entries; k++) {
    push_entry(to, from->entries[k].name, from->entries[k].param, fe_loc(to->p, at));
    fe_add_alias(to, from->entries[k].name, from->entries[k].param);
  }
  for (const tn_module *c = from->first; c; c = c->next) {
    tn_module *copy = fe_module(to, c->name, c->kind, at);
    if (!copy->poisoned) share_into(copy, c, at);
  }
}

static bool is_inside(const tn_module *m, const tn_module *of) {
  while (m && m != of) m = m->parent;
  return m != NULL;
}

tn_module *tn_share_module(tn_module *parent, const char *name, tn_module *from, tn_site at) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  bool good = from && from->p == parent->p && !is_inside(parent, from);
  if (!good && !parent->poisoned)
    fe_error(parent->p, from && from->p != parent->p ? E_FOREIGN : E_ARGUMENT, at, "%s is shared",
             !from                  ? "no module"
             : from->p != parent->p ? "a module of another program"
                                    : "a module inside itself");
  tn_module *m = fe_module(parent, name, good ? from->kind : MOD_PLAIN, at);
  m->poisoned |= !good || from->poisoned;
  if (!m->poisoned) share_into(m, from, at);
  return m;
}

static void dispose_all(tn_module *m, Loc at) {
  for (uint32_t k = 0; k < m->n_entries; k++) fe_param_end(m->p, m->entries[k].param, at);
  for (tn_module *c = m->first; c; c = c->next) dispose_all(c, at);
}

void tn_module_dispose(tn_module *m, tn_site at) {
  if (!m || m->poisoned) return;
  FE_GUARD(m->p, );
  if (fe_open(m->p, at)) dispose_all(m, fe_loc(m->p, at));
}

// ---- names
typedef struct {
  tn_names which;
  uint32_t stamp, n, max;
  const char **out;
} Names;

static void put_name(Names *w, const tn_module *m, const char *prefix, const FeEntry *e) {
  bool seen = e->param->stamp == w->stamp;
  e->param->stamp = w->stamp;
  if (e->param->disposed || (seen && w->which == TN_NAMES_UNIQUE)) return;
  if (w->n < w->max) w->out[w->n] = fe_path(m->p, prefix, e->name);
  w->n++;
}

static void walk(Names *w, const tn_module *m, const char *prefix) {
  bool params = w->which != TN_NAMES_BUFFERS;
  for (uint32_t k = 0; params && k < m->n_entries; k++)
    if (m->entries[k].param->kind == PARAM_WEIGHT) put_name(w, m, prefix, &m->entries[k]);
  for (uint32_t k = 0; k < m->n_entries; k++) {
    ParamKind kind = m->entries[k].param->kind;
    bool wanted =
        w->which == TN_NAMES_BUFFERS ? kind != PARAM_WEIGHT : w->which == TN_NAMES_STATE_DICT && kind == PARAM_BUFFER;
    if (wanted) put_name(w, m, prefix, &m->entries[k]);
  }
  for (const tn_module *c = m->first; c; c = c->next) walk(w, c, fe_path(m->p, prefix, c->name));
}

uint32_t tn_named_parameters(const tn_module *m, tn_names which, const char **out, uint32_t max) {
  if (!m || m->poisoned) return 0;
  FE_GUARD(m->p, 0);
  Names w = {.which = which, .stamp = ++m->p->stamp, .max = out ? max : 0, .out = out};
  walk(&w, m, "");
  return w.n;
}
