// Every value knows the value whose storage it shows and, for each of its elements, which element of that it is. A
// view's table is found by running the view's op on the table of its operand. A write sets elements of the storage;
// then all that show it are read anew. The body of a scan stands in line: it is done anew in each step, but for inputs and
// parameters, which are the same storage in all of them.
#include "tests/random_oracle.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/storage.h"

#include "ir/interp/interp.h"

#include <math.h>
#include <string.h>

typedef struct {
  Run r;
  Val *root;      // by value
  Tensor *where;  // by value: element of the root
  // By scan_carry: what it is in this step, NULL before the first; and what scan_next says that it is in the next
  Tensor *carry, *next;
  uint32_t depth;  // scans whose bodies are done
} Oracle;

bool oracle_fits(const Fn *f) {
  bool writes = false;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op == OP_grad_of) return false;
    if (f->ins[i].op == OP_scan_begin && !ir_attr(f, (Val){i}, KEY_time)) return false;
    writes |= f->ins[i].op == OP_write;
  }
  return writes;
}

static bool run_op(Run *r, Val v) { return ir_eval_of[ir_ins(r->f, v)->op](r, v); }

// Element j of `from`, with what a double does not hold of it
static void move_element(Oracle *o, Tensor *to, int64_t at, const Tensor *from, int64_t j) {
  to->v[at] = from->v[j];
  if (from->low && !to->low) to->low = rt_alloc(o->r.env->mem, (size_t)to->n * sizeof(double));
  if (to->low) to->low[at] = from->low ? from->low[j] : 0;
}

static bool place(Oracle *o, Val v) {
  Run *r = &o->r;
  o->root[v.i] = v;
  if (!ir_is_alias((Op)ir_ins(r->f, v)->op)) {
    Tensor t = r->val[v.i], id = {.v = rt_alloc(r->env->mem, (size_t)t.n * sizeof(double)), .n = t.n};
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
      for (int64_t k = 0; k < val[i].n; k++) move_element(o, &val[i], k, &val[root.i], (int64_t)o->where[i].v[k]);
}

static void write_value(Oracle *o, Val mark) {
  const Fn *f = o->r.f;
  Tensor *val = o->r.val;
  Val v = ir_arg(f, mark, 0), x = ir_arg(f, mark, 1), root = o->root[v.i];
  Tensor from = {.v = rt_alloc(o->r.env->mem, (size_t)val[x.i].n * sizeof(double)), .n = val[x.i].n};
  for (int64_t k = 0; k < from.n; k++) move_element(o, &from, k, &val[x.i], k);
  for (int64_t k = 0; k < from.n; k++) move_element(o, &val[root.i], (int64_t)o->where[v.i].v[k], &from, k);
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

// ---- scans
static Tensor copy_of(Oracle *o, Tensor t) {
  Tensor c = {.v = rt_alloc(o->r.env->mem, (size_t)t.n * sizeof(double)), .n = t.n};
  if (t.n) memcpy(c.v, t.v, (size_t)t.n * sizeof(double));
  return c;
}

static bool same_attr(const Fn *f, Val a, Val b, Key key) {
  return ir_attr_int(f, a, key, -1) == ir_attr_int(f, b, key, -1);
}

// The scan_carry that v, a scan_next or scan_final, is about.
static Val carry_of(const Fn *f, Val v) {
  Val c = v;
  while (c.i && !(ir_ins(f, c)->op == OP_scan_carry && same_attr(f, c, v, KEY_scan) && same_attr(f, c, v, KEY_index)))
    c.i--;
  return c;
}

static Val end_of(const Fn *f, Val begin) {
  Val v = begin;
  while (ir_ins(f, v)->op != OP_scan_end || !same_attr(f, v, begin, KEY_scan)) v.i++;
  return v;
}

static bool is_leaf(Op op) { return op == OP_input || op == OP_param; }

static void put(Tensor to, int64_t at, Tensor from) {
  if (from.n) memcpy(to.v + at, from.v, (size_t)from.n * sizeof(double));
}

// A mark of a scan: `t` steps were done, `at` is the one on the axis.
static bool scan_mark(Oracle *o, Val v, int64_t t, int64_t at) {
  const Fn *f = o->r.f;
  Op op = (Op)ir_ins(f, v)->op;
  Tensor x = ir_ins(f, v)->n_args ? run_arg(&o->r, v, 0) : (Tensor){0};
  if (op == OP_scan_next) o->next[carry_of(f, v).i] = copy_of(o, x);
  if (op != OP_scan_input && op != OP_scan_carry && op != OP_scan_output) return true;
  Tensor y = op == OP_scan_output && t ? o->r.val[v.i] : run_result(&o->r, v, 0);
  if (op == OP_scan_input) put(y, 0, (Tensor){.v = x.v + at * y.n, .n = y.n});
  if (op == OP_scan_carry && !t) o->carry[v.i] = copy_of(o, x);
  if (op == OP_scan_carry) put(y, 0, o->carry[v.i]);
  if (op == OP_scan_output) put(y, at * x.n, x);
  return place(o, v);
}

static bool step(Oracle *o, Val v);
static bool run_all(Oracle *o, uint32_t first, uint32_t end, int64_t t, int64_t at);

// What stands whether or not there is a step: leaves, empty outputs, carries as they begin.
static bool before_steps(Oracle *o, Val begin, Val end) {
  const Fn *f = o->r.f;
  for (Val v = {begin.i + 1}; v.i < end.i; v.i++) {
    Op op = (Op)ir_ins(f, v)->op;
    if (is_leaf(op) && !o->depth && !step(o, v)) return false;
    if (!same_attr(f, v, begin, KEY_scan)) continue;
    if (op == OP_scan_carry) o->carry[v.i] = copy_of(o, run_arg(&o->r, v, 0));
    if (op == OP_scan_output) run_result(&o->r, v, 0);
    if (op == OP_scan_output && !place(o, v)) return false;
  }
  return true;
}

static bool body_step(Oracle *o, Val begin, Val end, int64_t t, int64_t at) {
  if (!run_all(o, begin.i + 1, end.i, t, at)) return false;
  for (Val v = {begin.i + 1}; v.i < end.i; v.i++)
    if (o->next[v.i].v && same_attr(o->r.f, v, begin, KEY_scan)) o->carry[v.i] = o->next[v.i];
  return true;
}

static bool final_value(Oracle *o, Val v) {
  put(run_result(&o->r, v, 0), 0, o->carry[carry_of(o->r.f, v).i]);
  return place(o, v);
}

// Of those that stand in the body, as the frontend writes them
static bool final_values(Oracle *o, Val begin, Val end) {
  for (Val v = {begin.i + 1}; v.i < end.i; v.i++)
    if (ir_ins(o->r.f, v)->op == OP_scan_final && same_attr(o->r.f, v, begin, KEY_scan) && !final_value(o, v))
      return false;
  return true;
}

static bool run_scan(Oracle *o, Val begin, Val end) {
  const Fn *f = o->r.f;
  Dim steps = ir_attr(f, begin, KEY_time)->u.dim;
  int64_t n = ir_dim_eval(f->prog, steps, o->r.env->slots);
  bool reverse = ir_attr_int(f, begin, KEY_reverse, 0);
  uint32_t around = o->r.env->step;
  bool ok = before_steps(o, begin, end);
  o->depth++;
  for (int64_t t = 0; ok && t < n; t++) {
    int64_t at = reverse ? n - 1 - t : t;
    o->r.env->step = around * (uint32_t)ir_dim_bound(f->prog, steps) + (uint32_t)at;
    ok = body_step(o, begin, end, t, at);
  }
  o->depth--;
  o->r.env->step = around;
  return ok && final_values(o, begin, end);
}

// ---- the function
static bool step(Oracle *o, Val v) {
  const Fn *f = o->r.f;
  const Ins *ins = ir_ins(f, v);
  if (ins->op == OP_scan_final) return final_value(o, v);
  if (ins->op == OP_write) return write_value(o, v), true;
  if (ins->op == OP_result) return true;
  if (!run_op(&o->r, v) || !run_low_plane(&o->r, v)) return false;
  for (uint32_t k = 0; k < ins->n_res; k++)
    if (!place(o, (Val){v.i + k})) return false;
  OpClass c = (OpClass)ir_ops[ins->op].cls;
  if ((ir_ops[ins->op].flags & WRITES) && (c == CLASS_OPTIMIZER || ins->op == OP_assign)) store_params(o, v);
  return true;
}

// Of a body, whose leaves stand already: `t` steps of the scan were done, `at` is the one on the axis.
static bool run_one(Oracle *o, Val v, int64_t t, int64_t at) {
  Op op = (Op)ir_ins(o->r.f, v)->op;
  if (o->depth && is_leaf(op)) return true;
  return ir_ops[op].cls == CLASS_SCAN && op != OP_scan_final ? scan_mark(o, v, t, at) : step(o, v);
}

static bool run_all(Oracle *o, uint32_t first, uint32_t end, int64_t t, int64_t at) {
  for (Val v = {first}; v.i < end; v.i++) {
    Val begin = v;
    if (ir_ins(o->r.f, v)->op != OP_scan_begin) {
      if (!run_one(o, v, t, at)) return false;
      continue;
    }
    v = end_of(o->r.f, begin);
    if (!run_scan(o, begin, v)) return false;
  }
  return true;
}

bool oracle_run(const Fn *f, InterpEnv *env, RtText *why) {
  Oracle o = {.r = {f, env, rt_alloc(env->mem, f->n_ins * sizeof(Tensor)), why}};
  o.root = rt_alloc(env->mem, f->n_ins * sizeof *o.root);
  o.where = rt_alloc(env->mem, f->n_ins * sizeof *o.where);
  o.carry = rt_alloc(env->mem, f->n_ins * sizeof *o.carry);
  o.next = rt_alloc(env->mem, f->n_ins * sizeof *o.next);
  return run_all(&o, 1, f->n_ins, 0, 0);
}

// ---- how a loss moves
// What gradients do not pass: it stays what it is. A copy, since the target of a nudge is changed where it lies.
static void hold(Run *r, const Nudge *n, Val v) {
  Tensor old = n->base[v.i], t = {.v = rt_alloc(r->env->mem, (size_t)old.n * sizeof(double)), .n = old.n};
  if (old.n) memcpy(t.v, old.v, (size_t)old.n * sizeof(double));
  r->val[v.i] = t;
}

// By how much a result of the op moves when it jumps, at least; 0: any move is a jump; negative: it has none.
static double jump_of(Op op) {
  switch (op) {
  case OP_gt:
  case OP_ge:
  case OP_lt:
  case OP_le:
  case OP_eq:
  case OP_ne:
  case OP_floor:
  case OP_argmax:
  case OP_round:
  case OP_ceil:
  case OP_trunc:
  case OP_sign:
  case OP_floor_divide:
  case OP_isnan:
  case OP_isinf:
  case OP_isfinite: return 0;
  case OP_fmod:
  case OP_remainder:
  case OP_frac:
  case OP_copysign:
  case OP_atan2:
  case OP_softplus_scaled: return 1e-3;
  default: return -1;
  }
}

// Ops that take another branch where their values need not show it, and whose gradient at the edge is a rule's:
// select(x, x, 0) and hardshrink with reach 0 are x on both sides of 0, and have the gradient 0 there.
static bool has_edge(Op op) {
  return op == OP_select || op == OP_hardshrink || op == OP_softshrink || op == OP_threshold;
}

// The op's first operand, x, is where the first branch is taken.
static bool is_beyond(const Fn *f, Val v, double x) {
  switch (ir_ins(f, v)->op) {
  case OP_select: return x != 0;
  case OP_threshold: return x > ir_attr_num(f, v, KEY_threshold, 0);
  default: return fabs(x) > ir_attr_num(f, v, KEY_lambd, 0);
  }
}

static bool turns(const Run *r, const Nudge *n, Val v) {
  if (!has_edge((Op)ir_ins(r->f, v)->op)) return false;
  Val a = ir_arg(r->f, v, 0);
  for (int64_t i = 0; i < r->val[a.i].n; i++)
    if (is_beyond(r->f, v, r->val[a.i].v[i]) != is_beyond(r->f, v, n->base[a.i].v[i])) return true;
  return false;
}

// A result that jumps, an op that turns to another branch, an index that another element takes, as of equal ones in an order, or of the k-th of them.
static void note_jumps(const Run *r, Nudge *n, Val v) {
  const Ins *ins = ir_ins(r->f, v);
  double least = jump_of((Op)ins->op);
  n->jumped |= n->step != 0 && turns(r, n, v);
  for (uint32_t k = 0; n->step != 0 && k < ins->n_res; k++) {
    if (ir_ins(r->f, ir_result(v, k))->dtype == DT_I64) least = 0;
    Tensor now = r->val[v.i + k], old = n->base[v.i + k];
    for (int64_t i = 0; least >= 0 && i < now.n; i++) n->jumped |= fabs(now.v[i] - old.v[i]) > least;
  }
}

// Bounds that are equal have no gradient where they hold (PyTorch's rule), which no slope shows where both move together.
static void note_equal_bounds(const Run *r, Nudge *n, Val v) {
  Tensor lo = r->val[ir_arg(r->f, v, 1).i], hi = r->val[ir_arg(r->f, v, 2).i];
  for (int64_t k = 0; k < lo.n; k++)
    for (int64_t j = 0; j < hi.n; j++) n->jumped |= lo.v[k] == hi.v[j];
}

// Nor has copysign at 0, where its operands may move together.
static void note_zeros(const Run *r, Nudge *n, Val v) {
  Tensor a = r->val[ir_arg(r->f, v, 0).i];
  for (int64_t k = 0; k < a.n; k++) n->jumped |= a.v[k] == 0;
}

static bool chooses(Op op) {
  return op == OP_amax || op == OP_max || op == OP_min || op == OP_clamp_tensor || op == OP_scatter_amax ||
         op == OP_scatter_amin || op == OP_embedding_bag;
}

// Kinks where one of several equal numbers is chosen: of a loss that several of them cancel in, they are not seen.
static bool has_kink(const Run *r, const Nudge *n, Val v) {
  Tensor up = n->up[v.i], at = n->base[v.i], down = r->val[v.i];
  for (int64_t k = 0; k < at.n; k++) {
    double rise = up.v[k] - at.v[k], fall = at.v[k] - down.v[k];
    if (fabs(rise - fall) > 1e-2 * (fabs(rise) + fabs(fall)) + 1e-12 * (1 + fabs(at.v[k]))) return true;
  }
  return false;
}

static void note_kinks(const Run *r, Nudge *n) {
  for (uint32_t i = 1; i <= n->loss.i; i++)
    if (chooses((Op)r->f->ins[i].op) && r->val[i].v) n->jumped |= has_kink(r, n, (Val){i});
}

// What is lost where a double holds no more digits says nothing either.
static void nudge(Nudge *n, Tensor t) {
  for (int64_t k = 0; k < t.n; k++) {
    double by = n->step * n->dir[k], was = t.v[k];
    t.v[k] += by;
    n->jumped |= isfinite(was) && fabs(t.v[k] - was - by) > 1e-4 * fabs(by);
  }
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
  if (ins->op == OP_clamp_tensor && n->step == 0) note_equal_bounds(r, n, v);
  if (ins->op == OP_copysign && n->step == 0) note_zeros(r, n, v);
  bool cuts = ins->op == OP_stop_grad || ir_ops[ins->op].cls == CLASS_OPTIMIZER;
  for (uint32_t k = 0; cuts && n->step != 0 && k < ins->n_res; k++) hold(r, n, (Val){v.i + k});
  return true;
}

bool oracle_loss(const Fn *f, InterpEnv *env, Nudge *n, double *loss, RtText *why) {
  Run r = {f, env, rt_alloc(env->mem, f->n_ins * sizeof(Tensor)), why};
  uint32_t n_grads = 0;
  for (uint32_t i = 1; i <= n->loss.i; i++) {
    if (!nudged_step(&r, n, (Val){i}, &n_grads)) return false;
    if (n->target.i == i) nudge(n, r.val[i]);
  }
  *loss = r.val[n->loss.i].v[0];
  if (n->step == 0) n->base = r.val;
  else if (!n->up) n->up = r.val;
  else if (n->step < 0 && !n->is_down) n->is_down = true, note_kinks(&r, n);
  return true;
}
