// Every value knows the value whose storage it shows and, for each of its elements, which element of that it is. A
// view's table is found by running the view's op on the table of its operand. A write sets elements of the storage;
// then all that show it are read anew.
#include "tests/random_oracle.h"

#include "ir/interp/interp.h"

#include <string.h>

typedef struct {
  Run r;
  Val *root;      // by value
  Tensor *where;  // by value: element of the root
} Oracle;

bool oracle_fits(const Fn *f) {
  bool writes = false;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op == OP_grad_of || f->ins[i].op == OP_scan_begin) return false;
    writes |= f->ins[i].op == OP_write;
  }
  return writes;
}

static bool run_op(Run *r, Val v) { return ir_eval_of[ir_ins(r->f, v)->op](r, v); }

static bool place(Oracle *o, Val v) {
  Run *r = &o->r;
  o->root[v.i] = v;
  if (!ir_is_alias((Op)ir_ins(r->f, v)->op)) {
    Tensor t = r->val[v.i], id = {rt_alloc(r->env->mem, (size_t)t.n * sizeof(double)), t.n};
    for (int64_t k = 0; k < t.n; k++) id.v[k] = (double)k;
    o->where[v.i] = id;
    return true;
  }
  Val a = ir_arg(r->f, v, 0);
  Tensor shown = r->val[v.i], under = r->val[a.i];
  r->val[a.i] = o->where[a.i];
  bool ok = run_op(r, v);
  o->where[v.i] = r->val[v.i];
  r->val[a.i] = under, r->val[v.i] = shown;
  o->root[v.i] = o->root[a.i];
  return ok;
}

static void refresh(Oracle *o, Val root, uint32_t end) {
  Tensor *val = o->r.val;
  for (uint32_t i = 1; i < end; i++)
    if (o->root[i].i == root.i && i != root.i)
      for (int64_t k = 0; k < val[i].n; k++) val[i].v[k] = val[root.i].v[(int64_t)o->where[i].v[k]];
}

static void write_value(Oracle *o, Val mark) {
  const Fn *f = o->r.f;
  Tensor *val = o->r.val;
  Val v = ir_arg(f, mark, 0), x = ir_arg(f, mark, 1), root = o->root[v.i];
  Tensor from = {rt_alloc(o->r.env->mem, (size_t)val[x.i].n * sizeof(double)), val[x.i].n};
  if (from.n) memcpy(from.v, val[x.i].v, (size_t)from.n * sizeof(double));
  for (int64_t k = 0; k < from.n; k++) val[root.i].v[(int64_t)o->where[v.i].v[k]] = from.v[k];
  refresh(o, root, mark.i);
  if (ir_ins(f, root)->op == OP_param && val[root.i].n)
    memcpy(o->r.env->params[ir_attr_int(f, root, KEY_param, 0)].v, val[root.i].v,
           (size_t)val[root.i].n * sizeof(double));
}

// Results of optimizers and assign go to the parameter that their operand is, or is a version of.
static void store_params(Oracle *o, Val v) {
  const Fn *f = o->r.f;
  for (uint32_t k = 0; k < ir_ins(f, v)->n_res; k++) {
    Val a = {v.i + k};
    while (ir_ops[ir_ins(f, ir_head(f, a))->op].flags & WRITES) a = ir_arg(f, ir_head(f, a), a.i - ir_head(f, a).i);
    a = o->root[a.i];
    Tensor t = o->r.val[v.i + k];
    if (ir_ins(f, a)->op == OP_param && t.n)
      memcpy(o->r.env->params[ir_attr_int(f, a, KEY_param, 0)].v, t.v, (size_t)t.n * sizeof(double));
  }
}

static bool step(Oracle *o, Val v) {
  const Fn *f = o->r.f;
  const Ins *ins = ir_ins(f, v);
  if (ins->op == OP_write) return write_value(o, v), true;
  if (ins->op == OP_result) return true;
  if (!run_op(&o->r, v)) return false;
  for (uint32_t k = 0; k < ins->n_res; k++)
    if (!place(o, (Val){v.i + k})) return false;
  OpClass c = (OpClass)ir_ops[ins->op].cls;
  if ((ir_ops[ins->op].flags & WRITES) && (c == CLASS_OPTIMIZER || ins->op == OP_assign)) store_params(o, v);
  return true;
}

bool oracle_run(const Fn *f, InterpEnv *env, RtText *why) {
  Oracle o = {.r = {f, env, rt_alloc(env->mem, f->n_ins * sizeof(Tensor)), why}};
  o.root = rt_alloc(env->mem, f->n_ins * sizeof *o.root);
  o.where = rt_alloc(env->mem, f->n_ins * sizeof *o.where);
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (!step(&o, (Val){i})) return false;
  return true;
}

// ---- how a loss moves
// What gradients do not pass: it stays what it is. A copy, since the target of a nudge is changed where it lies.
static void hold(Run *r, const Nudge *n, Val v) {
  Tensor old = n->base[v.i], t = {rt_alloc(r->env->mem, (size_t)old.n * sizeof(double)), old.n};
  if (old.n) memcpy(t.v, old.v, (size_t)old.n * sizeof(double));
  r->val[v.i] = t;
}

static bool jumps(Op op) {
  return op == OP_gt || op == OP_ge || op == OP_lt || op == OP_le || op == OP_eq || op == OP_ne || op == OP_floor ||
         op == OP_argmax;
}

static void note_jumps(const Run *r, Nudge *n, Val v) {
  if (n->step == 0 || !jumps((Op)ir_ins(r->f, v)->op)) return;
  Tensor now = r->val[v.i], old = n->base[v.i];
  for (int64_t k = 0; k < now.n; k++) n->jumped |= now.v[k] != old.v[k];
}

static bool nudged_step(Run *r, Nudge *n, Val v, uint32_t *n_grads) {
  const Ins *ins = ir_ins(r->f, v);
  if (ins->op == OP_result) return true;
  if (ins->op == OP_grad_of) {
    r->val[v.i] = n->grads[(*n_grads)++];
    return true;
  }
  if (!run_op(r, v)) return false;
  note_jumps(r, n, v);
  bool cuts = ins->op == OP_stop_grad || ir_ops[ins->op].cls == CLASS_OPTIMIZER;
  for (uint32_t k = 0; cuts && n->step != 0 && k < ins->n_res; k++) hold(r, n, (Val){v.i + k});
  return true;
}

bool oracle_loss(const Fn *f, InterpEnv *env, Nudge *n, double *loss, RtText *why) {
  Run r = {f, env, rt_alloc(env->mem, f->n_ins * sizeof(Tensor)), why};
  uint32_t n_grads = 0;
  for (uint32_t i = 1; i <= n->loss.i; i++) {
    if (!nudged_step(&r, n, (Val){i}, &n_grads)) return false;
    if (i + 1 <= f->n_ins && n->target.i == i)
      for (int64_t k = 0; k < r.val[i].n; k++) r.val[i].v[k] += n->step * n->dir[k];
  }
  *loss = r.val[n->loss.i].v[0];
  if (n->step == 0) n->base = r.val;
  return true;
}
