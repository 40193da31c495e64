// Step counters of optimizers. As PyTorch keeps state['step'], a program that is being built has one for each
// parameter:
//
//   %s = param @optimizer.step.fc.weight : f32[]
//   %n = add %s, %one
//   %t = assign %s, %n                              the update of fc.weight reads %t
//
// Parameters that the same functions step have equal counters at all times. When the program is compiled these become
// one, with the paths of the others as aliases; and one that no update reads (momentum without dampening, which counts
// only for the sake of functions that have it) goes. So a program with one training function adds one number in each
// step.
#include "frontend/graph/inplace.h"
#include "frontend/graph/scope.h"
#include "frontend/module/optimizer.h"
#include "frontend/module/tree.h"
#include "ir/build.h"
#include "ir/rewrite.h"

#include <math.h>
#include <string.h>

// Where and when it is stepped: in runs of fn, all of them or those of the value `when`.
typedef struct {
  const tn_function *fn;
  uint32_t when, beta1;  // values of fn; 0: none
} Stepping;

struct FeCounter {
  FeParam *param;
  Stepping *steps;  // by function, each once
  uint32_t n_steps, cap_steps;
  double beta1, momentum_decay;  // of a product of mu; 0: it counts
  bool is_read;
  FeCounter *one;  // that stands for it in the compiled program; NULL: none is needed
};

// ---- building
static FeCounter *counter_of(tn_program *p, FeParam *q) {
  if (q->counter) return q->counter;
  FeCounter *c = q->counter = rt_alloc(p->mem, sizeof *c);
  *c = (FeCounter){.param = q};
  return *RT_PUSH(p->mem, p->counters, p->n_counters, p->cap_counters) = c;
}

static FeCounter *stepped(tn_function *f, const FeParam *of, const char *key, double init, tn_site at) {
  tn_program *p = f->p;
  FeCounter *c = counter_of(p, fe_state(p, rt_printf(p->mem, "optimizer.%s.%s", key, of->path), (Shape){0}, init, at));
  *RT_PUSH(p->mem, c->steps, c->n_steps, c->cap_steps) = (Stepping){f, f->uses[of->index].when.v, 0};
  return c;
}

static tn_tensor set(tn_tensor old, tn_tensor now, tn_site at) {
  now = fe_keep(fe_emit2(OP_assign, old, now, at), at);
  if (fe_ok(now)) fe_write(old, now, true, at);
  return now;
}

tn_tensor fe_next_step(tn_function *f, const FeParam *of, const char *key, bool is_read, tn_site at) {
  FeCounter *c = stepped(f, of, key, 0, at);
  c->is_read |= is_read;
  tn_tensor old = fe_use(f, c->param, at), when = f->uses[of->index].when;
  return set(old, fe_emit2(OP_add, old, when.fn ? when : fe_const(f, 1, at), at), at);
}

// mu = beta1 (1 - 0.96^(step momentum_decay) / 2)
tn_tensor fe_next_mu_product(tn_function *f, const FeParam *of, double beta1, tn_tensor cycled, double momentum_decay,
                             tn_tensor step, tn_site at) {
  FeCounter *c = stepped(f, of, "mu_product", 1, at);
  c->is_read = true, c->beta1 = beta1, c->momentum_decay = momentum_decay;
  c->steps[c->n_steps - 1].beta1 = cycled.v;
  tn_tensor old = fe_use(f, c->param, at), when = f->uses[of->index].when;
  tn_tensor power = fe_emit1(OP_exp, fe_emit2(OP_mul, step, fe_const(f, momentum_decay * log(0.96), at), at), at);
  tn_tensor less = fe_emit2(OP_add, fe_emit2(OP_mul, power, fe_const(f, -0.5, at), at), fe_const(f, 1, at), at);
  tn_tensor mu = fe_emit2(OP_mul, less, cycled.fn ? cycled : fe_const(f, beta1, at), at);
  tn_tensor now = fe_emit2(OP_mul, old, mu, at);
  if (when.fn) now = fe_emit(OP_select, (const tn_tensor[]){when, now, old}, 3, NULL, 0, at);
  return set(old, now, at);
}

// ---- which are one
static bool steps(const FeCounter *c, Stepping s) {
  for (uint32_t k = 0; k < c->n_steps; k++)
    if (c->steps[k].fn == s.fn && c->steps[k].when == s.when && c->steps[k].beta1 == s.beta1) return true;
  return false;
}

static bool always_equal(const FeCounter *a, const FeCounter *b) {
  bool equal = a->n_steps == b->n_steps && a->beta1 == b->beta1 && a->momentum_decay == b->momentum_decay;
  for (uint32_t k = 0; k < a->n_steps && equal; k++) equal = steps(b, a->steps[k]);
  return equal;
}

static void add_path(tn_program *p, FeParam *q, const char *path) {
  Param *row = &p->ir->params[q->index];
  *RT_PUSH(p->mem, q->aliases, q->n_aliases, q->cap_aliases) = path;
  *RT_PUSH(p->mem, row->aliases, row->n_aliases, row->cap_aliases) = ir_str(p->ir, path);
}

// True when any counter goes.
static bool find_classes(tn_program *p) {
  bool any = false;
  for (uint32_t k = 0; k < p->n_counters; k++) {
    FeCounter *c = p->counters[k];
    for (uint32_t i = 0; i <= k && c->is_read && !c->one; i++)
      if (p->counters[i]->is_read && always_equal(p->counters[i], c)) c->one = p->counters[i];
    any |= c->one != c;
    if (c->one && c->one != c) add_path(p, c->one->param, c->param->path);
  }
  return any;
}

// ---- rewriting: in each function the first counter of a class is the class's, the updates of all read it
typedef struct {
  Rewrite e;
  Fn *f;
  tn_program *p;
  FeCounter **of;   // by index of the parameter; NULL: no counter
  uint32_t *index;  // the new one by the old one
  Val *leaf, *now;  // by new index: the counter of the class and its next value
  bool *is_gone;    // by old value
} Merge;

static const Ins *old_ins(const Merge *m, uint32_t i) { return ir_rewrite_old(&m->e, (Val){i}); }
static uint32_t old_arg(const Merge *m, uint32_t i, uint32_t k) { return ir_rewrite_old_arg(&m->e, (Val){i}, k).i; }

static uint32_t old_param(const Merge *m, uint32_t i) {
  return (uint32_t)ir_rewrite_old_attr(&m->e, (Val){i}, KEY_param)->u.i;
}

static Val copy_param(Merge *m, uint32_t i, uint32_t index) {
  Val v = ir_rewrite_copy(&m->e, (Val){i});
  ir_set_attr(m->f, v, ir_a_int(KEY_param, index));
  return v;
}

// Of a counter: the param, or the assign to it. *first: the class's in this function.
static void merge_value(Merge *m, uint32_t i, const FeCounter *c, bool is_leaf) {
  uint32_t k = c->one ? m->index[c->one->param->index] : 0;
  Val *first = !c->one ? NULL : is_leaf ? &m->leaf[k] : &m->now[k];
  m->is_gone[i] = !first || !ir_none(*first);
  if (!first) {
    m->f->cur_scope = old_ins(m, i)->scope;
    m->e.map[i] = ir_const(m->f, 1, old_ins(m, i)->loc);
  } else if (!ir_none(*first)) m->e.map[i] = *first;
  else *first = is_leaf ? copy_param(m, i, k) : ir_rewrite_copy(&m->e, (Val){i});
}

static void step(Merge *m, uint32_t i) {
  const Ins *ins = old_ins(m, i);
  bool is_leaf = ins->op == OP_param, is_assign = ins->op == OP_assign && old_ins(m, old_arg(m, i, 0))->op == OP_param;
  if (is_leaf || is_assign) {
    uint32_t index = old_param(m, is_leaf ? i : old_arg(m, i, 0));
    if (m->of[index]) merge_value(m, i, m->of[index], is_leaf);
    else if (is_leaf) copy_param(m, i, m->index[index]);
    else ir_rewrite_copy(&m->e, (Val){i});
  } else if ((ins->op != OP_write && ins->op != OP_move) || !m->is_gone[old_arg(m, i, 0)]) {
    ir_rewrite_copy(&m->e, (Val){i});
  }
}

static void rewrite(Merge *m, Fn *f) {
  RtArena *mem = m->p->mem;
  uint32_t scope = f->cur_scope, n = m->p->ir->n_params;
  m->f = f;
  ir_rewrite_begin(&m->e, f);
  m->is_gone = rt_alloc(mem, m->e.n_old);
  memset(m->leaf, 0, n * sizeof *m->leaf);
  memset(m->now, 0, n * sizeof *m->now);
  for (uint32_t i = 1; i < m->e.n_old; i++)
    if (old_ins(m, i)->op != OP_result) step(m, i);
  f->cur_scope = scope;
  ir_rewrite_end(&m->e);
}

// ---- the table
static void number_anew(Merge *m) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < m->p->ir->n_params; k++) {
    m->index[k] = n;
    n += !m->of[k] || m->of[k]->one == m->of[k];
  }
}

static void shrink_table(Merge *m) {
  Prog *ir = m->p->ir;
  uint32_t n = 0;
  for (uint32_t k = 0; k < ir->n_params; k++)
    if (!m->of[k] || m->of[k]->one == m->of[k]) ir->params[n++] = ir->params[k];
  for (uint32_t k = 0; k < m->p->n_params; k++) {
    FeParam *q = m->p->params[k];
    if (q->index == FE_NO_PARAM) continue;
    q->replaced = m->of[q->index] && m->of[q->index]->one != m->of[q->index];
    q->index = q->replaced ? FE_NO_PARAM : m->index[q->index];
    if (!q->replaced) m->p->entered[q->index] = q;
  }
  ir->n_params = m->p->n_entered = n;
}

void fe_merge_counters(tn_program *p) {
  Prog *ir = p->ir;
  RtArena *mem = p->mem;
  uint32_t n = ir->n_params;
  if (!find_classes(p)) return;
  Merge m = {.p = p,
             .of = rt_alloc(mem, n * sizeof(FeCounter *)),
             .index = rt_alloc(mem, n * sizeof *m.index),
             .leaf = rt_alloc(mem, n * sizeof *m.leaf),
             .now = rt_alloc(mem, n * sizeof *m.now)};
  for (uint32_t k = 0; k < p->n_counters; k++) m.of[p->counters[k]->param->index] = p->counters[k];
  number_anew(&m);
  for (uint32_t k = 0; k < ir->n_fns; k++) rewrite(&m, ir->fns[k]);
  shrink_table(&m);
}
