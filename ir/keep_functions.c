// A part of a program: some functions, and the parameters that they use.
#include "ir/keep_functions.h"
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/rewrite.h"

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

// Those whose value something reads or writes: averages take the place of parameters that a function may not read.
static void note_params(Keep *k, const Fn *f) {
  const bool *live = ir_live_as_built(f);
  for (Val v = {1}; v.i < f->n_ins; v.i++)
    if (ir_ins(f, v)->op == OP_param && live[v.i]) k->is_used[ir_attr_int(f, v, KEY_param, 0)] = true;
}

static uint32_t param_at(const Rewrite *e, uint32_t i) {
  return (uint32_t)ir_rewrite_old_attr(e, (Val){i}, KEY_param)->u.i;
}

// The parameter that an old instruction is or writes; UINT32_MAX: none.
static uint32_t param_of(const Rewrite *e, uint32_t i) {
  const Ins *ins = ir_rewrite_old(e, (Val){i});
  if (ins->op == OP_param) return param_at(e, i);
  if (!ins->n_args) return UINT32_MAX;
  Val to = ir_rewrite_old_arg(e, (Val){i}, 0);
  bool writes = ins->op == OP_assign || ins->op == OP_slice_assign || ins->op == OP_slice_assign_at;
  return writes && ir_rewrite_old(e, to)->op == OP_param ? param_at(e, to.i) : UINT32_MAX;
}

// Has it an operand that is left out?
static bool reads_left(const Rewrite *e, const bool *is_left, uint32_t i) {
  for (uint32_t k = 0; k < ir_rewrite_old(e, (Val){i})->n_args; k++)
    if (is_left[ir_rewrite_old_arg(e, (Val){i}, k).i]) return true;
  return false;
}

static void rewrite(const Keep *k, Fn *f) {
  Rewrite e;
  uint32_t scope = f->cur_scope;
  const bool *live = ir_live_as_built(f);
  bool *is_left = rt_alloc(k->p->mem, f->n_ins + 1);
  ir_rewrite_begin(&e, f);
  for (uint32_t i = 1; i < e.n_old; i++) {
    const Ins *ins = ir_rewrite_old(&e, (Val){i});
    uint32_t param = param_of(&e, i);
    is_left[i] = (param != UINT32_MAX && !k->is_used[param]) || (!live[i] && reads_left(&e, is_left, i));
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
  for (uint32_t q = 0; q < p->n_params; q++) {
    k.index[q] = n;
    if (k.is_used[q]) n++;
  }
  for (uint32_t f = 0; f < p->n_fns; f++) rewrite(&k, p->fns[f]);
  for (uint32_t q = 0; q < p->n_params; q++)
    if (k.is_used[q]) p->params[k.index[q]] = p->params[q];
  p->n_params = n;
}
