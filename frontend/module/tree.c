// Modules as a tree of names, and the program's table of parameters, buffers and state entries.
//
// Each entry gets its initial value in the function `init`:
//   %v = uniform {lo=-0.125, hi=0.125, id=3, shape=[256,12]}
//   %p = param @rnn.weight_ih_l0
//   %q = assign %p, %v
#include "frontend/module/tree.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scan.h"
#include "frontend/graph/scope.h"
#include "frontend/module/optimizer.h"
#include "frontend/run/finite.h"
#include "ir/fn.h"
#include "runtime/near.h"
#include <math.h>
#include <string.h>

// ---- modules
const char *fe_module_text(const tn_module *m) {
  return *m->path ? rt_printf(m->p->mem, "module '%s'", m->path) : "the root module";
}

static tn_module *find_child(const tn_module *m, const char *name) {
  for (tn_module *c = m->first; c; c = c->next)
    if (!strcmp(c->name, name)) return c;
  return NULL;
}

tn_module *tn_child(tn_module *m, const char *name) { return m && name ? find_child(m, name) : NULL; }

uint32_t tn_n_children(const tn_module *m) {
  uint32_t n = 0;
  for (const tn_module *c = m ? m->first : NULL; c; c = c->next) n++;
  return n;
}

tn_module *tn_child_at(const tn_module *m, int k) {
  if (k < 0) k += (int)tn_n_children(m);
  tn_module *c = m && k >= 0 ? m->first : NULL;
  while (c && k--) c = c->next;
  return c;
}

const char *fe_path(tn_program *p, const char *path, const char *name) {
  return *path ? rt_printf(p->mem, "%s.%s", path, name) : rt_strdup(p->mem, name);
}

const char *fe_near_entry(const tn_module *m, const char *name) {
  RtNear near = {.wanted = name};
  for (uint32_t k = 0; k < m->n_entries; k++) rt_near_offer(&near, m->entries[k].name);
  return rt_strdup(m->p->mem, rt_near_text(&near));
}

FeEntry *fe_entry(const tn_module *m, const char *name) {
  for (uint32_t k = 0; k < m->n_entries; k++)
    if (!strcmp(m->entries[k].name, name)) return &m->entries[k];
  return NULL;
}

// The child that the path's first name is; NULL: none, or it is the last name.
static tn_module *first_on_path(const tn_module *m, const char *path) {
  size_t n = strcspn(path, "./");
  for (tn_module *c = m->first; c && path[n]; c = c->next)
    if (!strncmp(c->name, path, n) && !c->name[n]) return c;
  return NULL;
}

tn_module *fe_holder(tn_module *m, const char **path) {
  tn_module *at = m;
  const char *rest = *path;
  for (tn_module *c; (c = first_on_path(at, rest)); at = c) rest += strcspn(rest, "./") + 1;
  if (rest[strcspn(rest, "./")]) return m;
  *path = rest;
  return at;
}

FeEntry *fe_entry_at(tn_module *m, const char *path) {
  m = fe_holder(m, &path);
  return fe_entry(m, path);
}

// First names of paths that mean something else in a file.
static bool is_free_root(tn_program *p, const char *name, tn_site at) {
  static const char *const kept[][2] = {{"optimizer", "the state of optimizers"},
                                        {"tenure", "what files have beside the parameters"},
                                        {"__metadata__", "the metadata of safetensors files"}};
  for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
    if (strcmp(name, kept[k][0])) continue;
    fe_error(p, E_ARGUMENT, at, "the path '%s' is kept for %s", name, kept[k][1]);
    return false;
  }
  return true;
}

// A child and a parameter of one module share one space of names: their paths would be equal or nested.
bool fe_free_name(tn_module *m, const char *what, const char *name, tn_site at) {
  const tn_module *c = find_child(m, name);
  const FeEntry *e = fe_entry(m, name);
  if (c && !fe_unique(m->p, &(FeName){c->name, c->loc}, what, name, at)) return false;
  if (e && !fe_unique(m->p, &(FeName){e->name, e->loc}, what, name, at)) return false;
  return m != m->p->root || is_free_root(m->p, name, at);
}

tn_module *fe_module(tn_module *parent, const char *name, FeModuleKind kind, tn_site at) {
  if (!parent) return NULL;
  tn_program *p = parent->p;
  bool is_numbered = parent->kind == MOD_SEQUENTIAL || parent->config.is_list;
  if (!name && is_numbered) name = rt_printf(p->mem, "%u", tn_n_children(parent));
  tn_module *m = rt_alloc(p->mem, sizeof *m);
  *m = (tn_module){.p = p, .parent = parent, .kind = kind, .loc = fe_loc(p, at)};
  m->poisoned = parent->poisoned || !fe_open(p, at) || !fe_name(p, "a module", name, true, at) ||
                !fe_free_name(parent, "module", name, at) ||
                (fe_has_params(kind) && !fe_adopts_params(parent, name, at));
  if (m->poisoned) return m;
  m->name = rt_strdup(p->mem, name);
  m->path = fe_path(p, parent->path, name);
  if (parent->last) parent->last->next = m;
  else parent->first = m;
  parent->last = m;
  return m;
}

tn_module *tn_module_new(tn_module *parent, const char *name, tn_site at) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  return fe_module(parent, name, MOD_PLAIN, at);
}

static void see_below(const tn_module *m, uint32_t stamp) {
  for (uint32_t k = 0; k < m->n_entries; k++) m->entries[k].param->stamp = stamp;
  for (const tn_module *c = m->first; c; c = c->next) see_below(c, stamp);
}

uint32_t fe_see_below(const tn_module *m) {
  see_below(m, ++m->p->stamp);
  return m->p->stamp;
}

uint32_t fe_froze(tn_module *m, bool frozen, tn_site at) {
  tn_program *p = m->p;
  if (!frozen) return 0;
  const tn_function *open = NULL;
  for (const tn_function *f = p->first; f; f = f->next)
    if (!f->ended) open = f;
  *RT_PUSH(p->mem, p->freezes, p->n_freezes, p->cap_freezes) = (FeFreeze){m, fe_loc(p, at), open, p->n_first_uses};
  return p->n_freezes;
}

static void freeze(tn_module *m, bool frozen, uint32_t number) {
  for (uint32_t k = 0; k < m->n_entries; k++) {
    m->entries[k].param->frozen = frozen;
    m->entries[k].param->frozen_by = number;
  }
  for (tn_module *c = m->first; c; c = c->next) freeze(c, frozen, number);
}

void tn_freeze(tn_module *m, bool frozen, tn_site at) {
  if (!m || m->poisoned) return;
  FE_GUARD(m->p, );
  freeze(m, frozen, fe_froze(m, frozen, at));
}

// ---- the table
FeParam *fe_param_add(tn_program *p, const char *path, ParamKind kind, Shape s, tn_init init, Loc loc) {
  FeParam *q = rt_alloc(p->mem, sizeof *q);
  *q = (FeParam){
      .path = path, .kind = kind, .dtype = DT_F32, .shape = s, .init = init, .loc = loc, .index = FE_NO_PARAM};
  *RT_PUSH(p->mem, p->params, p->n_params, p->cap_params) = q;
  return q;
}

FeParam *fe_param_of(const tn_program *p, uint32_t index) { return index < p->n_entered ? p->entered[index] : NULL; }

static Val converted(tn_program *p, Val v, DType t, Loc loc) {
  Attr type = ir_a_int(KEY_dtype, t);
  return p->init->ins[v.i].dtype == t ? v : ir_emit(p->init, OP_cast, &v, 1, &type, 1, loc);
}

// Numbers are drawn as f32; a constant of whole numbers is exact.
static Val initial_value(tn_program *p, const FeParam *q, tn_site at) {
  double a = q->init.a, b = q->init.b;
  Attr shape = ir_a_list(KEY_shape, q->shape), id = {0};
  switch (q->init.kind) {
  case TN_INIT_UNIFORM:
    id = ir_a_int(KEY_id, fe_stream(fe_init(p), at));
    return ir_emit(p->init, OP_uniform, NULL, 0, (Attr[]){ir_a_num(KEY_lo, a), ir_a_num(KEY_hi, b), id, shape}, 4,
                   q->loc);
  case TN_INIT_NORMAL:
    id = ir_a_int(KEY_id, fe_stream(fe_init(p), at));
    return ir_emit(p->init, OP_normal, NULL, 0, (Attr[]){ir_a_num(KEY_mean, a), ir_a_num(KEY_std, b), id, shape}, 4,
                   q->loc);
  default:
    a = q->init.kind == TN_INIT_CONSTANT ? a : 0;
    return ir_emit(p->init, OP_full, NULL, 0, (Attr[]){ir_a_num(KEY_value, a), shape, ir_a_int(KEY_dtype, q->dtype)},
                   COUNTABLE >> q->dtype & 1 ? 3 : 2, q->loc);
  }
}

Val fe_initial(tn_program *p, FeParam *q) {
  if (!ir_none(q->value)) return q->value;
  tn_site at = {ir_loc_file(p->ir, q->loc), (int)ir_loc_line(p->ir, q->loc)};
  q->value = converted(p, initial_value(p, q, at), q->dtype, q->loc);
  if (p->init_fn) fe_keep((tn_tensor){p->init_fn, q->value.i}, at);  // a scope that is open there does not end it
  return q->value;
}

static void enter(tn_program *p, FeParam *q) {
  q->index = ir_param_add(p->ir, q->path, q->kind, q->dtype, q->shape, q->kind == PARAM_WEIGHT, q->loc);
  while (p->n_entered <= q->index) *RT_PUSH(p->mem, p->entered, p->n_entered, p->cap_entered) = NULL;
  p->entered[q->index] = q;
  Param *row = &p->ir->params[q->index];
  for (uint32_t k = 0; k < q->n_aliases; k++)
    *RT_PUSH(p->mem, row->aliases, row->n_aliases, row->cap_aliases) = ir_str(p->ir, q->aliases[k]);
  Val target = ir_param(p->init, q->index, q->loc);
  ir_op2(p->init, OP_assign, target, converted(p, fe_initial(p, q), q->dtype, q->loc), q->loc);
}

void fe_params_flush(tn_program *p) {
  for (; p->n_flushed < p->n_params; p->n_flushed++) {
    FeParam *q = p->params[p->n_flushed];
    if (q->index == FE_NO_PARAM && !q->replaced) enter(p, q);
  }
}

// ---- states, by path
static FeParam *state_at(const tn_program *p, const char *path) {
  uint32_t k = rt_names_find(&p->state_paths, path, strlen(path));
  return k == RT_NO_NAME ? NULL : p->states[k];
}

static FeParam *add_state(tn_program *p, const char *path, Shape s, tn_init init, tn_site at) {
  FeParam *q = fe_param_add(p, rt_strdup(p->mem, path), PARAM_STATE, s, init, fe_loc(p, at));
  uint32_t n = p->state_paths.n;
  p->state_paths.mem = p->mem;
  rt_names_add(&p->state_paths, q->path, strlen(path));
  return *RT_PUSH(p->mem, p->states, n, p->cap_states) = q;
}

FeParam *fe_state(tn_program *p, const char *path, Shape s, double init, tn_site at) {
  FeParam *q = state_at(p, path);
  if (q) return q;
  q = add_state(p, path, s, (tn_init){TN_INIT_CONSTANT, init, 0}, at);
  enter(p, q);
  return q;
}

bool fe_has_state(const tn_program *p, const char *path) { return state_at(p, path); }

FeParam *fe_state_like(tn_program *p, const char *path, FeParam *of, tn_site at) {
  if (fe_has_state(p, path)) return fe_state(p, path, of->shape, 0, at);
  FeParam *q = add_state(p, path, of->shape, of->init, at);
  q->value = fe_initial(p, of);
  enter(p, q);
  return q;
}

static FeParam *add_to_module(tn_module *m, const char *name, ParamKind kind, Shape s, tn_init init, tn_site at) {
  if (!fe_may_add(m, name, kind, at) || !fe_adopts_params(m, name, at)) return NULL;
  FeParam *q = fe_param_add(m->p, fe_path(m->p, m->path, name), kind, s, init, fe_loc(m->p, at));
  *RT_PUSH(m->p->mem, m->entries, m->n_entries, m->cap_entries) = (FeEntry){rt_strdup(m->p->mem, name), q, q->loc};
  q->entity = fe_param_entity(fe_init(m->p), q, q->loc);
  return q;
}

FeParam *fe_module_param(tn_module *m, const char *name, const int64_t *dims, uint32_t n, tn_init init, tn_site at) {
  return add_to_module(m, name, PARAM_WEIGHT, ir_shape_ints(m->p->ir, dims, n), init, at);
}

FeParam *fe_module_buffer(tn_module *m, const char *name, ParamKind kind, DType t, const int64_t *size, tn_init init,
                          tn_site at) {
  FeParam *q = add_to_module(m, name, kind, ir_shape_ints(m->p->ir, size, size ? 1 : 0), init, at);
  if (q) q->dtype = t;
  return q;
}

// Infinity may be meant, as where a maximum begins; a number that f32 does not hold is a mistake.
static bool check_init(tn_module *m, const char *name, tn_init init, tn_site at) {
  bool drawn = init.kind == TN_INIT_UNIFORM || init.kind == TN_INIT_NORMAL;
  bool fits = init.kind != TN_INIT_CONSTANT || fe_is_finite(init.a) || !isfinite(init.a);
  if (drawn ? fe_is_finite(init.a) && fe_is_finite(init.b) : fits) return true;
  fe_error(m->p, E_ARGUMENT, at, "'%s' begins with %g%s, which f32 does not hold", name, init.a,
           drawn ? rt_printf(m->p->mem, " and %g", init.b) : "");
  return false;
}

static void register_param(tn_module *m, const char *name, ParamKind kind, tn_shape s, tn_init init, tn_site at) {
  if (!m || m->poisoned) return;
  FE_GUARD(m->p, );
  const char *what = kind == PARAM_WEIGHT ? "parameter" : "buffer";
  Shape shape;
  if (!fe_open(m->p, at) || !fe_name(m->p, "a parameter", name, true, at)) return;
  if (!fe_free_name(m, what, name, at) || !fe_shape(m->p, s, &shape, at)) return;
  if (!check_init(m, name, init, at)) return;
  if (ir_shape_is_const(m->p->ir, shape)) add_to_module(m, name, kind, shape, init, at);
  else fe_error(m->p, E_SHAPE, at, "%s '%s' must have constant sizes", what, name);
}

void tn_parameter(tn_module *m, const char *name, tn_shape s, tn_init init, tn_site at) {
  register_param(m, name, PARAM_WEIGHT, s, init, at);
}

void tn_buffer(tn_module *m, const char *name, tn_shape s, tn_init init, tn_site at) {
  register_param(m, name, PARAM_BUFFER, s, init, at);
}

void tn_transient_buffer(tn_module *m, const char *name, tn_shape s, tn_init init, tn_site at) {
  register_param(m, name, PARAM_TRANSIENT, s, init, at);
}

// ---- sharing
void fe_add_alias(tn_module *m, const char *name, FeParam *q) {
  tn_program *p = m->p;
  const char *path = fe_path(p, m->path, name);
  *RT_PUSH(p->mem, q->aliases, q->n_aliases, q->cap_aliases) = path;
  if (q->index == FE_NO_PARAM) return;
  Param *row = &p->ir->params[q->index];
  *RT_PUSH(p->mem, row->aliases, row->n_aliases, row->cap_aliases) = ir_str(p->ir, path);
}

// The entry that `name` has in m already, given up for the shared one: only while no function used it, and of equal
// shape.
static bool replace_entry(tn_module *m, FeEntry *e, FeParam *q, tn_site at) {
  FeParam *old = e->param;
  if (old->index != FE_NO_PARAM || old->n_aliases) {
    fe_error(m->p, E_DUPLICATE_PATH, at, "parameter '%s' is in use: share before a function uses it", old->path);
    fe_note(m->p, e->loc, "it was made here");
  } else if (old->shape.i != q->shape.i) {
    fe_error(m->p, E_REGISTERED_SHAPE, at, "parameter '%s' has another shape than '%s'", old->path, q->path);
    fe_note(m->p, e->loc, "'%s' was made here", old->path);
    fe_note(m->p, q->loc, "'%s' was made here", q->path);
  } else {
    fe_param_end(m->p, old, fe_loc(m->p, at));
    e->param = q;
    e->loc = fe_loc(m->p, at);
    return true;
  }
  return false;
}

static const FeEntry *find_shared(tn_module *from, const char *name, tn_site at) {
  const FeEntry *e = name ? fe_entry_at(from, name) : NULL;
  if (!e)
    fe_error(from->p, E_ARGUMENT, at, "%s has no parameter '%.80s' to share%s", fe_module_text(from), name ? name : "",
             fe_near_entry(from, name));
  return e;
}

void tn_share(tn_module *m, const char *name, tn_module *from, const char *from_name, tn_site at) {
  if (!m || m->poisoned || (from && from->poisoned)) return;
  FE_GUARD(m->p, );
  if (name) m = fe_holder(m, &name);
  if (!fe_open(m->p, at) || !fe_name(m->p, "a parameter", name, true, at)) return;
  if (!from || from->p != m->p) {
    fe_error(m->p, from ? E_FOREIGN : E_ARGUMENT, at, "a parameter is shared from a module of %s program",
             from ? "another" : "no");
    if (from) fe_note_module(m->p, from);
    return;
  }
  if (m == m->p->root && !strcmp(name, "format")) {
    fe_error(m->p, E_ARGUMENT, at, "a second path 'format' is kept for the metadata of safetensors files");
    return;
  }
  const FeEntry *source = find_shared(from, from_name, at);
  FeEntry *old = fe_entry(m, name);
  if (!source || (old && old->param == source->param)) return;
  FeParam *q = source->param;
  if (old ? !replace_entry(m, old, q, at) : !fe_free_name(m, "parameter", name, at)) return;
  if (!old)
    *RT_PUSH(m->p->mem, m->entries, m->n_entries, m->cap_entries) =
        (FeEntry){rt_strdup(m->p->mem, name), q, fe_loc(m->p, at)};
  fe_add_alias(m, name, q);
}

// ---- use
tn_tensor fe_use(tn_function *f, FeParam *q, tn_site at) {
  if (!fe_param_alive(f->p, q, at)) return fe_poison(f);
  if (f == f->p->init_fn) return fe_initial_handle(f, q);
  fe_params_flush(f->p);
  FeUse *u = fe_use_of(f, q->index);
  if (ir_none(u->now)) {
    u->first = u->now = ir_param(f->ir, q->index, fe_loc(f->p, at));
    u->frozen = q->frozen || q->kind != PARAM_WEIGHT;
    q->last_first_use = ++f->p->n_first_uses;
  }
  return (tn_tensor){f, u->now.i};
}

tn_tensor fe_read(tn_function *f, FeParam *q, tn_site at) {
  tn_tensor v = fe_use(f, q, at);
  return fe_ok(v) && fe_has_gradient(v) ? fe_cast(v, DT_F32, at) : v;
}

tn_tensor tn_param_value(tn_function *f, tn_module *m, const char *name, tn_site at) {
  if (!f) return fe_poison(NULL);
  FE_GUARD(f->p, fe_poison(f));
  if (!fe_fn_open(f, at) || (m && m->poisoned)) return fe_poison(f);
  if (!m || m->p != f->p) {
    fe_error(f->p, m ? E_FOREIGN : E_ARGUMENT, at, "a parameter of %s is used",
             m ? "another program's module" : "no module");
    if (m) fe_note_module(f->p, m);
    return fe_poison(f);
  }
  const FeEntry *e = name ? fe_entry_at(m, name) : NULL;
  if (e) return fe_use(f, e->param, at);
  fe_error(f->p, E_ARGUMENT, at, "%s has no parameter '%.80s'%s", fe_module_text(m), name ? name : "",
           fe_near_entry(m, name));
  return fe_poison(f);
}
