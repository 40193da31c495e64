// Variables by path: the tree of modules read as a store of named tensors.
//
//   tn_param_at_path(tn_root(p), "a/b/weight", TN_SHAPE(tn_dim_const(3)), (tn_init){TN_INIT_ZEROS});
//   tn_variable v[16];
//   uint32_t n = tn_variables(tn_root(p), &(tn_variable_options){.pattern = "a/**"}, v, 16);   // "a.b.weight"
//
// Order is PyTorch's: a module's own entries as they were declared, then its children depth-first; an entry that has
// several paths stands at the first that matches.
#include "frontend/graph/ledger.h"
#include "frontend/graph/report.h"
#include "frontend/module/tree.h"
#include "ir/interp/interpret.h"
#include "runtime/near.h"
#include "runtime/store/checkpoint.h"
#include <string.h>

// ---- paths
static size_t name_length(const char *path) { return strcspn(path, "./"); }

static tn_module *child_at(tn_module *m, const char *name, tn_site at) {
  tn_module *c = tn_child(m, name);
  return c ? c : fe_module(m, name, MOD_PLAIN, at);
}

// The module that holds the path's last name; *last is that name.
static tn_module *walk(tn_module *m, const char *path, const char **last, tn_site at) {
  while (!m->poisoned && path[name_length(path)]) {
    size_t n = name_length(path);
    m = child_at(m, rt_strndup(m->p->mem, path, n), at);
    path += n + 1;
  }
  *last = path;
  return m;
}

tn_module *tn_module_at_path(tn_module *m, const char *path, tn_site at) {
  if (!m) return NULL;
  FE_GUARD(m->p, NULL);
  const char *last;
  m = walk(m, path ? path : "", &last, at);
  return m->poisoned ? m : child_at(m, last, at);
}

static bool same_entry(tn_module *m, const FeEntry *e, tn_shape s, tn_site at) {
  tn_program *p = m->p;
  Shape shape;
  RtText want = {.mem = p->mem}, have = {.mem = p->mem};
  if (!fe_shape(p, s, &shape, at)) return false;
  if (shape.i == e->param->shape.i) return true;
  ir_shape_text(p->ir, shape, &want);
  ir_shape_text(p->ir, e->param->shape, &have);
  fe_error(p, E_REGISTERED_SHAPE, at, "entry '%s' is asked for with shape %s and has shape %s", e->param->path,
           want.text, have.text);
  fe_note(p, e->param->loc, "'%s' was made here", e->param->path);
  fe_hint(p, "another shape needs another path");
  return false;
}

void tn_param_at_path(tn_module *m, const char *path, tn_shape s, tn_init init, tn_site at) {
  if (!m || m->poisoned) return;
  FE_GUARD(m->p, );
  const char *name;
  m = walk(m, path ? path : "", &name, at);
  const FeEntry *e = m->poisoned ? NULL : fe_entry(m, name);
  if (e) same_entry(m, e, s, at);
  else tn_parameter(m, name, s, init, at);
}

// ---- walking
typedef struct {
  tn_variable_options o;
  const tn_module *top;
  uint32_t stamp;  // entries that were visited by this walk carry it
  tn_variable *out;
  uint32_t n, max;
} Walk;

static bool is_chosen(const Walk *w, const FeParam *q) {
  if (q->disposed) return false;
  switch (w->o.which) {
  case TN_EVERYTHING: return true;
  case TN_PARAMETERS: return q->kind == PARAM_WEIGHT;
  case TN_TRAINABLE: return q->kind == PARAM_WEIGHT && !q->frozen;
  case TN_NON_PARAMETERS: return q->kind != PARAM_WEIGHT;
  }
  return false;
}

// The path below the module that the walk began at.
static const char *path_below(const Walk *w, const tn_module *m, const char *name) {
  const char *path = *m->path ? rt_printf(m->p->mem, "%s.%s", m->path, name) : name;
  size_t n = strlen(w->top->path);
  return n ? path + n + 1 : path;
}

static tn_variable variable_of(const tn_module *m, const FeEntry *e, const char *path, bool is_alias) {
  const Prog *ir = m->p->ir;
  const FeParam *q = e->param;
  tn_variable v = {.path = path,
                   .module = (tn_module *)m,
                   .name = e->name,
                   .rank = ir_rank(ir, q->shape),
                   .group = q->group,
                   .dtype = (tn_dtype)q->dtype,
                   .is_buffer = q->kind != PARAM_WEIGHT,
                   .is_frozen = q->frozen,
                   .is_alias = is_alias};
  for (uint32_t k = 0; k < v.rank; k++) v.dims[k] = ir_list_at(ir, q->shape, k);
  return v;
}

static void visit(Walk *w, const tn_module *m) {
  for (uint32_t k = 0; k < m->n_entries; k++) {
    const FeEntry *e = &m->entries[k];
    bool seen = e->param->stamp == w->stamp, listed = e->param->listed == w->stamp;
    if (!is_chosen(w, e->param) || (listed && !w->o.aliases)) continue;
    e->param->stamp = w->stamp;
    const char *path = path_below(w, m, e->name);
    if (!rt_path_matches(w->o.pattern, path)) continue;
    e->param->listed = w->stamp;
    if (w->n < w->max) w->out[w->n] = variable_of(m, e, path, seen);
    w->n++;
  }
  for (const tn_module *c = m->first; c; c = c->next) visit(w, c);
}

static uint32_t list(const tn_module *m, const tn_variable_options *o, tn_variable *out, uint32_t max) {
  Walk w = {.o = *o, .top = m, .stamp = ++m->p->stamp, .out = out, .max = out ? max : 0};
  visit(&w, m);
  return w.n;
}

uint32_t tn_variables(const tn_module *m, const tn_variable_options *o, tn_variable *out, uint32_t max) {
  if (!m || m->poisoned) return 0;
  FE_GUARD(m->p, 0);
  return list(m, o ? o : &(tn_variable_options){0}, out, max);
}

uint32_t fe_variables(tn_module *m, const char *pattern, tn_which which, tn_variable **out) {
  tn_variable_options o = {.pattern = pattern, .which = which};
  uint32_t n = list(m, &o, NULL, 0);
  *out = rt_alloc(m->p->mem, (n + 1) * sizeof **out);
  return list(m, &o, *out, n);
}

bool fe_matched(const tn_module *m, const char *pattern, const char *what, uint32_t n, tn_site at) {
  if (n) return true;
  tn_variable *v;
  RtNear near = {.wanted = pattern};
  uint32_t n_all = fe_variables((tn_module *)m, NULL, TN_PARAMETERS, &v);
  for (uint32_t k = 0; k < n_all; k++) rt_near_offer(&near, v[k].path);
  fe_error(m->p, E_ARGUMENT, at, "no %s below %s matches '%.100s'%s", what, fe_module_text(m), pattern ? pattern : "",
           rt_near_text(&near));
  return false;
}

// ---- freezing
void tn_freeze_path(tn_module *m, const char *pattern, bool frozen, tn_site at) {
  if (!m || m->poisoned) return;
  FE_GUARD(m->p, );
  tn_variable *v;
  if (!fe_open(m->p, at)) return;
  uint32_t n = fe_variables(m, pattern, TN_PARAMETERS, &v);
  if (!fe_matched(m, pattern, "parameter", n, at)) return;
  uint32_t number = fe_froze(m, frozen, at);
  for (uint32_t k = 0; k < n; k++) {
    FeParam *q = fe_entry(v[k].module, v[k].name)->param;
    q->frozen = frozen;
    q->frozen_by = number;
  }
}

// ---- dtypes of storage
static bool may_store(const FeParam *q, DType t, tn_program *p, tn_site at) {
  double a = q->init.a;
  bool is_float = FLOATS >> t & 1;
  if (q->index != FE_NO_PARAM) {
    fe_error(p, E_STATE, at, "'%s' is given another dtype after a function used parameters", q->path);
    fe_hint(p, "tn_store_as stands before the first function that uses any");
  } else if (!is_float && q->kind == PARAM_WEIGHT) {
    fe_error(p, E_DTYPE, at, "parameter '%s' cannot be stored as %s: what may be trained is a float", q->path,
             ir_dtype_name[t]);
    fe_hint(p, "whole numbers are buffers: tn_buffer");
  } else if (!is_float && q->init.kind == TN_INIT_CONSTANT && (double)ir_to_whole(t, a) != a) {
    fe_error(p, E_ARGUMENT, at, "'%s' begins with %g, which %s does not hold", q->path, a, ir_dtype_name[t]);
  } else return true;
  fe_note(p, q->loc, "it was made here");
  return false;
}

void tn_store_as(tn_module *m, const char *pattern, tn_dtype dtype, tn_site at) {
  if (!m || m->poisoned) return;
  FE_GUARD(m->p, );
  tn_variable *v;
  DType t = fe_dtype(dtype);
  if (!fe_open(m->p, at)) return;
  if (!t) {
    fe_error(m->p, E_DTYPE, at, "parameters are stored as a dtype: TN_F32, TN_BF16, ..");
    return;
  }
  uint32_t n = fe_variables(m, pattern, TN_EVERYTHING, &v);
  if (!fe_matched(m, pattern, "parameter or buffer", n, at)) return;
  for (uint32_t k = 0; k < n; k++) {
    FeParam *q = fe_entry(v[k].module, v[k].name)->param;
    bool stays = q->dtype == t || (COUNTABLE >> q->dtype & 1 && FLOATS >> t & 1);
    if (!stays && may_store(q, t, m->p, at)) q->dtype = t;
  }
}

// ---- penalties
static tn_tensor sum_of(Op op, tn_tensor w, tn_site at) {
  int64_t axes[MAX_RANK];
  tn_tensor terms = fe_emit1(op, w, at);
  if (!fe_ok(terms) || fe_rank(terms) == 0) return terms;
  uint32_t n = fe_rank(terms);
  for (uint32_t k = 0; k < n; k++) axes[k] = k;
  return fe_emit(OP_sum, &terms, 1, (Attr[]){ir_a_list(KEY_axes, ir_shape_ints(w.fn->p->ir, axes, n))}, 1, at);
}

static tn_tensor penalty(tn_function *f, tn_module *m, const char *pattern, Op op, tn_site at) {
  tn_tensor total = fe_poison(f);
  tn_variable *v;
  if (!f || !m || m->poisoned) return total;
  FE_GUARD(f->p, fe_poison(f));
  if (!fe_fn_open(f, at)) return total;
  if (m->p != f->p) {
    fe_error(f->p, E_FOREIGN, at, "the parameters of another program's module are summed");
    fe_note_module(f->p, m);
    return total;
  }
  uint32_t n = fe_variables(m, pattern, TN_TRAINABLE, &v);
  if (!fe_matched(m, pattern, "trainable parameter", n, at)) return total;
  for (uint32_t k = 0; k < n; k++) {
    tn_tensor sum = sum_of(op, fe_read(f, fe_entry(v[k].module, v[k].name)->param, at), at);
    total = k ? fe_emit2(OP_add, total, sum, at) : sum;
  }
  return fe_made(total, at);
}

tn_tensor tn_l1(tn_function *f, tn_module *m, const char *pattern, tn_site at) {
  return penalty(f, m, pattern, OP_abs, at);
}

tn_tensor tn_l2(tn_function *f, tn_module *m, const char *pattern, tn_site at) {
  return penalty(f, m, pattern, OP_square, at);
}
