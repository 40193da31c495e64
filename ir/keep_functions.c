// A part of a program: some functions, and the parameters that they use.
#include "ir/keep_functions.h"
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/rewrite.h"
#include "ir/storage.h"

#include <string.h>

typedef struct {
  Prog *p;
  const Fn *init;
  bool *is_used;    // by parameter
  uint32_t *index;  // the new one by the old one
} Keep;

static bool in_list(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
    if (strcspn(at, ",") == n && !strncmp(at, name, n)) return true;
  return false;
}

// Parameters that are read or written: averages may replace parameters that a function does not read.
static void note_params(Keep *k, const Fn *f) {
  const bool *live = ir_live_as_built(f);
  for (Val v = {1}; v.i < f->n_ins; v.i++)
    if (ir_ins(f, v)->op == OP_param && live[v.i]) k->is_used[ir_attr_int(f, v, KEY_param, 0)] = true;
}

// The parameter that instruction v changes, through views and earlier versions; UINT32_MAX: none.
static uint32_t written_param(const Fn *f, Val v) {
  bool writes = ir_has_effect(f, v) || (ir_ops[ir_ins(f, v)->op].flags & WRITES);
  while (ir_ins(f, v)->n_args && (writes || ir_is_alias(ir_ins(f, v)->op))) {
    v = ir_arg(f, v, 0);
    writes = ir_ops[ir_ins(f, v)->op].flags & WRITES;
  }
  return ir_ins(f, v)->op == OP_param ? (uint32_t)ir_attr_int(f, v, KEY_param, 0) : UINT32_MAX;
}

// Parameters that the initial values of those in use are computed from.
static void note_init(Keep *k) {
  const Fn *f = k->init;
  bool *is_needed = rt_alloc(k->p->mem, f->n_ins + 1);
  for (bool more = true; more;) {
    more = false;
    for (Val v = {f->n_ins - 1}; v.i > 0; v.i--) {
      const Ins *ins = ir_ins(f, v);
      uint32_t written = ins->op == OP_param || ir_is_alias(ins->op) ? UINT32_MAX : written_param(f, v);
      if (written != UINT32_MAX && k->is_used[written]) is_needed[v.i] = true;
      if (!is_needed[v.i]) continue;
      is_needed[ir_head(f, v).i] = true;
      if (ins->op == OP_result) continue;
      for (uint32_t a = 0; a < ins->n_args; a++) is_needed[ir_arg(f, v, a).i] = true;
      bool *is_used = ins->op == OP_param ? &k->is_used[ir_attr_int(f, v, KEY_param, 0)] : NULL;
      if (is_used && !*is_used) *is_used = more = true;
    }
  }
}

// Does it have an operand that is left out?
static bool reads_left(const Rewrite *e, const bool *is_left, uint32_t i) {
  for (uint32_t k = 0; k < ir_rewrite_old(e, (Val){i})->n_args; k++)
    if (is_left[ir_rewrite_old_arg(e, (Val){i}, k).i]) return true;
  return false;
}

static void rewrite(const Keep *k, Fn *f) {
  Rewrite e;
  uint32_t scope = f->cur_scope;
  bool *is_left = rt_alloc(k->p->mem, f->n_ins + 1);
  ir_rewrite_begin(&e, f);
  for (uint32_t i = 1; i < e.n_old; i++) {
    const Ins *ins = ir_rewrite_old(&e, (Val){i});
    uint32_t param = ins->op == OP_param ? (uint32_t)ir_rewrite_old_attr(&e, (Val){i}, KEY_param)->u.i : UINT32_MAX;
    is_left[i] = ins->op == OP_result ? is_left[i - 1]
                                      : (param != UINT32_MAX && !k->is_used[param]) || reads_left(&e, is_left, i);
    if (ins->op == OP_result || is_left[i]) continue;
    Val v = ir_rewrite_copy(&e, (Val){i});
    if (ins->op == OP_param) ir_set_attr(f, v, ir_a_int(KEY_param, k->index[param]));
  }
  f->cur_scope = scope;
  ir_rewrite_end(&e);
  if (f == k->init) ir_eliminate_dead(f);
}

static void keep_listed(Keep *k, const char *list) {
  uint32_t n = 0;
  for (uint32_t f = 0; f < k->p->n_fns; f++) {
    Fn *fn = k->p->fns[f];
    bool is_listed = fn != k->init && in_list(list, ir_text(k->p, fn->name));
    if (is_listed) note_params(k, fn);
    if (is_listed || fn == k->init) k->p->fns[n++] = fn;
  }
  k->p->n_fns = n;
}

void ir_keep_functions(Prog *p, const char *list, const Fn *init) {
  uint32_t n = 0;
  Keep k = {p, init, rt_alloc(p->mem, p->n_params + 1), rt_alloc(p->mem, (p->n_params + 1) * sizeof *k.index)};
  keep_listed(&k, list);
  if (init) note_init(&k);
  for (uint32_t q = 0; q < p->n_params; q++) {
    k.index[q] = n;
    if (k.is_used[q]) n++;
  }
  for (uint32_t f = 0; f < p->n_fns; f++) rewrite(&k, p->fns[f]);
  for (uint32_t q = 0; q < p->n_params; q++)
    if (k.is_used[q]) p->params[k.index[q]] = p->params[q];
  p->n_params = n;
}
