// Part of pass split_shards: what one process may compute for its part of a parameter alone.
//
//   %m = shard_mean %g, %n                                       %m, %a, %w1 and %e, with the parameter and its state, are a group:
//   %a = assign @optimizer.grad.w, add(@optimizer.grad.w, %m)    element k of each is made of element k of the others, and of
//   %w1, .. = adamw %w, %x, %y, %a, ..                           numbers
//   %e = assign @optimizer.ema.w, lerp(@optimizer.ema.w, %w1)
//
// A process that has a part of the gradient's sum computes that part of the group, and needs that part of the state alone. Beside
// the group its values are read by norms only, which are made of parts too, and it is made of one sum. Everything else wants
// whole means.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/lowering/split_shards.h"
#include "ir/storage.h"
#include <string.h>

typedef struct {
  uint8_t reads, writes;  // how other functions read and write a parameter
} Elsewhere;

typedef struct {
  const Fn *f;
  const bool *in_update;
  uint32_t *parent;      // union-find by value: the group; a root is its own parent
  bool *is_whole;        // by root
  Val *mean;             // by root: one of its means
  Elsewhere *elsewhere;  // by parameter
} Groups;

static Op op_of(const Groups *g, Val v) { return (Op)ir_ins(g->f, v)->op; }
static OpClass class_of(const Groups *g, Val v) { return (OpClass)ir_ops[op_of(g, v)].cls; }
static bool has_elements(const Groups *g, Val v) { return ir_rank(g->f->prog, ir_ins(g->f, v)->shape) > 0; }

static uint32_t root_of(Groups *g, Val v) {
  uint32_t i = v.i;
  while (g->parent[i] != i) i = g->parent[i] = g->parent[g->parent[i]];
  return i;
}

static void link(Groups *g, Val a, Val b) { g->parent[root_of(g, a)] = root_of(g, b); }

// ---- linking
static bool is_update(const Groups *g, Val v) { return class_of(g, v) == CLASS_OPTIMIZER && !ir_updates_rows(g->f, v); }

static bool is_by_element(const Groups *g, Val v) {
  return class_of(g, v) == CLASS_POINTWISE && op_of(g, v) != OP_output && !(ir_ops[op_of(g, v)].flags & RANDOM) &&
         has_elements(g, v);
}

// Does instruction v make element k of its results of element k of operand a?
static bool links(const Groups *g, Val v, Val a) {
  return (is_by_element(g, v) || (is_update(g, v) && has_elements(g, v))) && has_elements(g, a) &&
         ir_ins(g->f, a)->shape.i == ir_ins(g->f, v)->shape.i;
}

// Leaves of one parameter are joined, and so are means of one sum. first: by parameter, or value
static void link_first(Groups *g, Val v, Val *first) {
  if (ir_none(*first)) *first = v;
  else link(g, v, *first);
}

static void link_all(Groups *g) {
  const Fn *f = g->f;
  RtArena *mem = f->prog->mem;
  Val *leaf = rt_alloc(mem, (f->prog->n_params + 1) * sizeof *leaf), *of_sum = rt_alloc(mem, f->n_ins * sizeof *of_sum);
  for (Val v = {1}; v.i < f->n_ins; v.i++) {
    if (!g->in_update[ir_head(f, v).i] || !has_elements(g, v)) continue;
    if (op_of(g, v) == OP_result) link(g, v, ir_head(f, v));
    if (op_of(g, v) == OP_param) link_first(g, v, &leaf[ir_attr_int(f, v, KEY_param, 0)]);
    if (op_of(g, v) == OP_shard_mean) link_first(g, v, &of_sum[ir_arg(f, v, 0).i]);
    for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++)
      if (links(g, v, ir_arg(f, v, k))) link(g, v, ir_arg(f, v, k));
  }
}

// ---- what other functions do with parameters; that of initial values is for every process, of all elements
static void look_at(const Fn *f, Elsewhere *e) {
  for (Val v = {1}; v.i < f->n_ins; v.i++) {
    for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) {
      Val x = ir_arg(f, v, k);
      if (ir_ins(f, x)->op == OP_param) e[ir_attr_int(f, x, KEY_param, 0)].reads = true;
    }
    for (uint32_t k = 0; ir_writes_param(f, v) && k < ir_ops[ir_ins(f, v)->op].n_res; k++) {
      Val root = ir_storage_root(f, ir_arg(f, v, k));
      if (ir_ins(f, root)->op == OP_param) e[ir_attr_int(f, root, KEY_param, 0)].writes = true;
    }
  }
}

static void look_elsewhere(Groups *g) {
  const Prog *p = g->f->prog;
  g->elsewhere = rt_alloc(p->mem, (p->n_params + 1) * sizeof *g->elsewhere);
  for (uint32_t k = 0; k < p->n_fns; k++)
    if (p->fns[k] != g->f && strcmp(ir_text(p, p->fns[k]->name), "init")) look_at(p->fns[k], g->elsewhere);
}

// ---- groups that want whole values
static void want_whole(Groups *g, Val v) { g->is_whole[root_of(g, v)] = true; }

// Only f32 is split into parts. State that another function changes is changed by all processes.
static bool has_parts(const Groups *g, Val written) {
  const Fn *f = g->f;
  Val root = ir_storage_root(f, written);
  if (ir_ins(f, root)->op != OP_param || ir_ins(f, root)->dtype != DT_F32) return false;
  uint32_t param = (uint32_t)ir_attr_int(f, root, KEY_param, 0);
  return f->prog->params[param].kind != PARAM_STATE || !g->elsewhere[param].writes;
}

static void check_reads(Groups *g, Val v) {
  Op op = op_of(g, v);
  for (uint32_t k = 0; k < ir_ins(g->f, v)->n_args; k++) {
    Val a = ir_arg(g->f, v, k);
    bool is_part = links(g, v, a) || op == OP_shard_mean || op == OP_result ||
                   (op == OP_global_norm && 2 * ir_ins(g->f, v)->n_args <= IR_MOST_NORMED);
    if (has_elements(g, a) && !is_part) want_whole(g, a);
    if (has_elements(g, a) && !links(g, v, a) && is_by_element(g, v)) want_whole(g, v);
  }
}

static void check_writes(Groups *g, Val v) {
  const OpInfo *op = &ir_ops[op_of(g, v)];
  for (uint32_t k = 0; (op->flags & WRITES) && k < op->n_res; k++)
    if (!has_parts(g, ir_arg(g->f, v, k))) want_whole(g, v);
}

static void check_sum(Groups *g, Val v) {
  Val *mean = &g->mean[root_of(g, v)];
  if (!has_elements(g, v)) return;
  if (!ir_none(*mean) && ir_arg(g->f, *mean, 0).i != ir_arg(g->f, v, 0).i) want_whole(g, v);
  *mean = v;
}

// A group that keeps no result is no update.
static bool *find_kept(Groups *g) {
  bool *is_kept = rt_alloc(g->f->prog->mem, g->f->n_ins);
  for (Val v = {1}; v.i < g->f->n_ins; v.i++)
    if (g->in_update[v.i] && ir_writes_param(g->f, v)) is_kept[root_of(g, v)] = true;
  return is_kept;
}

void ir_find_owned(const Fn *f, const bool *in_update, Val *mean_of) {
  RtArena *mem = f->prog->mem;
  Groups g = {.f = f, .in_update = in_update, .parent = rt_alloc(mem, f->n_ins * sizeof *g.parent)};
  g.is_whole = rt_alloc(mem, f->n_ins), g.mean = rt_alloc(mem, f->n_ins * sizeof *g.mean);
  for (uint32_t i = 0; i < f->n_ins; i++) g.parent[i] = i;
  look_elsewhere(&g);
  link_all(&g);
  for (Val v = {1}; v.i < f->n_ins; v.i++) {
    if (!in_update[v.i]) continue;
    check_reads(&g, v);
    check_writes(&g, v);
    if (op_of(&g, v) == OP_shard_mean) check_sum(&g, v);
  }
  const bool *is_kept = find_kept(&g);
  for (Val v = {1}; v.i < f->n_ins; v.i++) {
    uint32_t root = root_of(&g, v);
    if (in_update[ir_head(f, v).i] && is_kept[root] && !g.is_whole[root]) mean_of[v.i] = g.mean[root];
  }
}
