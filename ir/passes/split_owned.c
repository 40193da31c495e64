// Part of pass split_shards: updates whose parameter is cut among processes.
//
//   %m = shard_mean %g, %n            read by nothing but norms of such gradients and, as it is or times one number, by
//   %s = mul %m, %factor              one update
//   %w1, .. = adamw %w, %a, %b, %s    whose results nothing reads here, and whose state nothing reads anywhere else
//
// Its elements are independent: a process that has a part of the gradient's sum updates that part of the parameter and needs that
// part of the state alone. Everything else wants whole means.
#include "ir/passes/split_shards.h"
#include <string.h>

typedef struct {
  const Fn *f;
  const bool *in_update;
  uint32_t *n_users;  // by value: in the update, norms apart
  Val *user;          // the last of them
  uint32_t *n_reads;  // by parameter
  Val *update_of;
} Owned;

static Op op_of(const Owned *o, Val v) { return (Op)ir_ins(o->f, v)->op; }

static void find_users(Owned *o) {
  for (uint32_t i = 1; i < o->f->n_ins; i++) {
    if (!o->in_update[i] || o->f->ins[i].op == OP_global_norm) continue;
    for (uint32_t k = 0; k < o->f->ins[i].n_args; k++) {
      Val x = ir_arg(o->f, (Val){i}, k);
      o->n_users[x.i]++, o->user[x.i] = (Val){i};
    }
  }
}

Val ir_scale_of(const Fn *f, Val mul, Val g) {
  if (ir_ins(f, mul)->op != OP_mul || ir_ins(f, mul)->shape.i != ir_ins(f, g)->shape.i) return (Val){0};
  for (uint32_t k = 0; k < 2; k++) {
    Val other = ir_arg(f, mul, 1 - k);
    bool is_number = other.i != g.i && ir_rank(f->prog, ir_ins(f, other)->shape) == 0;
    if (ir_arg(f, mul, k).i == g.i && is_number) return other;
  }
  return (Val){0};
}

// ---- the state and what becomes of it
static uint32_t param_of(const Fn *f, Val v) {
  Val root = ir_storage_root(f, v);
  return ir_ins(f, root)->op == OP_param ? (uint32_t)ir_attr_int(f, root, KEY_param, 0) : UINT32_MAX;
}

static void count_reads(const Fn *f, uint32_t *n_reads) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) {
      Val x = ir_arg(f, (Val){i}, k);
      if (f->ins[x.i].op == OP_param) n_reads[ir_attr_int(f, x, KEY_param, 0)]++;
    }
}

// By all functions but the one of initial values: those are made in every process, of all elements.
static void find_reads(Owned *o) {
  const Prog *p = o->f->prog;
  o->n_reads = rt_alloc(p->mem, (p->n_params + 1) * sizeof *o->n_reads);
  for (uint32_t k = 0; k < p->n_fns; k++)
    if (strcmp(ir_text(p, p->fns[k]->name), "init")) count_reads(p->fns[k], o->n_reads);
}

static bool has_own_state(const Owned *o, Val update) {
  const Fn *f = o->f;
  uint32_t n = ir_ops[op_of(o, update)].n_res;
  for (uint32_t k = 0; k < n; k++) {
    Val x = ir_arg(f, update, k);
    uint32_t param = param_of(f, x);
    if (ir_ins(f, x)->op != OP_param || param == UINT32_MAX || o->n_users[update.i + k]) return false;
    bool is_state = f->prog->params[param].kind == PARAM_STATE;
    if (is_state != (k > 0)) return false;
    if (is_state && o->n_reads[param] != 1) return false;
  }
  return true;
}

// ---- gradients
static bool is_update(const Owned *o, Val v, Val g) {
  return ir_ops[op_of(o, v)].cls == CLASS_OPTIMIZER && op_of(o, v) != OP_adamw_sparse &&
         ir_gradient_of(o->f, v).i == g.i && !ir_has_operand(o->f, v, ARG_grad_scale) && has_own_state(o, v);
}

static Val update_of(const Owned *o, Val g) {
  Val reader = o->user[g.i];
  if (o->n_users[g.i] != 1) return (Val){0};
  if (!ir_none(ir_scale_of(o->f, reader, g)) && o->n_users[reader.i] == 1)
    return is_update(o, o->user[reader.i], reader) ? o->user[reader.i] : (Val){0};
  return is_update(o, reader, g) ? reader : (Val){0};
}

// A norm is of parts of gradients or of whole ones. Does one have both? Then its are whole.
static bool unify_norms(Owned *o) {
  bool any = false;
  for (uint32_t i = 1; i < o->f->n_ins; i++) {
    if (!o->in_update[i] || o->f->ins[i].op != OP_global_norm) continue;
    uint32_t n = o->f->ins[i].n_args, n_owned = 0;
    for (uint32_t k = 0; k < n; k++) n_owned += !ir_none(o->update_of[ir_arg(o->f, (Val){i}, k).i]);
    bool fits = n_owned == n && 2 * n <= IR_MOST_NORMED;
    if (fits || !n_owned) continue;
    for (uint32_t k = 0; k < n; k++) o->update_of[ir_arg(o->f, (Val){i}, k).i] = (Val){0};
    any = true;
  }
  return any;
}

void ir_find_owned(const Fn *f, const bool *in_update, Val *update) {
  RtArena *mem = f->prog->mem;
  Owned o = {.f = f, .in_update = in_update, .update_of = update};
  o.n_users = rt_alloc(mem, f->n_ins * sizeof *o.n_users), o.user = rt_alloc(mem, f->n_ins * sizeof *o.user);
  uint32_t *n_means = rt_alloc(mem, f->n_ins * sizeof *n_means);  // by value, of it
  find_users(&o);
  find_reads(&o);
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (in_update[i] && f->ins[i].op == OP_shard_mean) n_means[ir_arg(f, (Val){i}, 0).i]++;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (!in_update[i] || f->ins[i].op != OP_shard_mean) continue;
    Val g = ir_arg(f, (Val){i}, 0), count = ir_arg(f, (Val){i}, 1);
    if (n_means[g.i] == 1 && g.i != count.i) update[i] = update_of(&o, (Val){i});
  }
  while (unify_norms(&o)) continue;
}
