// The graph of a row kernel from its instructions' operands (their formulas are in row_ops.c), and in which sweep each node is
// computed. A value that a later sweep uses again is reloaded or recomputed if that is cheap, else buffered: one row on the
// stack. A row too long for that lies where a result will (the exponentials of softmax over a vocabulary), if no later sweep
// reads memory, which that result may alias.
#include "codegen/math/primitives.h"
#include "codegen/reduce/row.h"
#include "ir/passes/plan.h"

#include <string.h>

enum {
  BUFFER_BYTES = 1 << 16,  // total size of row buffers
  CHEAP = 2,               // operations: a value of at most these is recomputed rather than buffered
  TALL = 64,               // elements: operands of longer strided rows are buffered
  LINE_BYTES = 64
};

static bool is_element(const RowGraph *g, const RowNode *n) {
  if (n->kind == NODE_MEM || n->kind == NODE_RUN || n->kind == NODE_ONE_HOT) return true;
  if (n->kind != NODE_PRIMITIVE && n->kind != NODE_FMA) return n->elem;
  for (uint32_t k = 0; k < n->n_args; k++)
    if (g->node[n->arg[k]].elem) return true;
  return false;
}

bool cg_row_is_reduction(const RowNode *n) {
  return n->kind == NODE_SUM || n->kind == NODE_DOT || n->kind == NODE_MAX || n->kind == NODE_TOP;
}

static bool same_node(const RowNode *a, const RowNode *b) {
  return a->kind == b->kind && a->op == b->op && a->n_args == b->n_args && !memcmp(a->arg, b->arg, sizeof a->arg) &&
         a->v.i == b->v.i && a->broadcast_rank == b->broadcast_rank && a->run.length == b->run.length &&
         a->run.period == b->run.period && !memcmp(&a->num, &b->num, sizeof a->num);
}

Node cg_row_node(RowGraph *g, RowNode n) {
  n.elem = is_element(g, &n);
  for (uint32_t k = 0; k < n.n_args; k++)
    if (g->node[n.arg[k]].level > n.level) n.level = g->node[n.arg[k]].level;
  n.level += cg_row_is_reduction(&n);
  for (uint32_t k = 1; k < g->n; k++)
    if (same_node(&g->node[k], &n)) return k;
  *RT_PUSH(g->c->mem, g->node, g->n, g->cap) = n;
  return g->n - 1;
}

bool cg_row_in_kernel(const RowGraph *g, Val v) {
  return g->c->f->kernel_of[v.i] == (uint32_t)(g->c->k - g->c->f->kernels);
}

static Dim dim_at(const RowGraph *g, Val v, uint32_t axis) {
  return ir_dim_at(g->c->f->prog, ir_ins(g->c->f, v)->shape, axis);
}

// An immediate, through views.
static bool immediate(RowGraph *g, Val v, Node *out) {
  const Fn *f = g->c->f;
  while (ir_ops[ir_ins(f, v)->op].cls == CLASS_VIEW) v = ir_arg(f, v, 0);
  if (ir_ins(f, v)->op == OP_const)
    *out = cg_row_node(g, (RowNode){.kind = NODE_NUMBER, .num = ir_attr_num(f, v, KEY_value, 0)});
  else if (ir_ins(f, v)->op == OP_dim_size) *out = cg_row_node(g, (RowNode){.kind = NODE_VALUE, .v = v});
  else return false;
  return true;
}

static Node memory(RowGraph *g, Val v, NodeKind kind, uint32_t shown) {
  return cg_row_node(g, (RowNode){.kind = (uint8_t)kind, .v = v, .broadcast_rank = shown});
}

bool cg_row_is_weight(const RowGraph *g, Val v) {
  return ir_row_weight(g->c->f, ir_ins(g->c->f, v)->shape, (RowSpace){g->shape, g->axis});
}

bool cg_row_has_elements(const RowGraph *g, Shape s) {
  return ir_row_elements(g->c->f, s, (RowSpace){g->shape, g->axis});
}

// Operand a, from memory, of elements under shape `to`
static Node operand_of_runs(RowGraph *g, Val a, Shape to) {
  const Fn *f = g->c->f;
  RowSpace rows = {g->shape, g->axis};
  RowNode n = {.kind = NODE_SCALAR, .v = a, .broadcast_rank = ir_rank(f->prog, to)};
  Shape from = ir_ins(f, a)->shape;
  if (from.i == to.i) return memory(g, a, NODE_MEM, n.broadcast_rank);
  if (!ir_row_run(f, from, to, rows, &n.run)) return cg_row_node(g, n);  // one number
  if (n.run.length < ir_dim_bound(f->prog, ir_dim_at(f->prog, g->shape, g->axis)))
    n.kind = n.run.length == 1 ? NODE_MEM : NODE_RUN;
  return cg_row_node(g, n);
}

Node cg_row_operand(RowGraph *g, Val v, uint32_t k) {
  const Fn *f = g->c->f;
  Val a = ir_arg(f, v, k);
  const Ins *ins = ir_ins(f, a), *to = ir_ins(f, v);
  Node n;
  if (cg_row_in_kernel(g, a)) return g->of[a.i - g->c->k->first];
  if (immediate(g, a, &n)) return n;
  if (ins->shape.i == g->shape.i) return memory(g, a, NODE_MEM, g->rank);
  if (to->shape.i != g->shape.i && cg_row_has_elements(g, to->shape)) return operand_of_runs(g, a, to->shape);
  uint32_t rank = ir_rank(f->prog, ins->shape), shown = ir_rank(f->prog, to->shape);
  if (to->shape.i != g->shape.i) return memory(g, a, NODE_SCALAR, shown);
  bool is_strided = g->axis + 1 < g->rank;
  bool invariant = rank == 0 || (is_strided ? !cg_row_is_weight(g, a) : ir_dim_is_one(f->prog, dim_at(g, a, rank - 1)));
  return memory(g, a, invariant ? NODE_SCALAR : NODE_MEM, shown);
}

static Node operand_of_rank(RowGraph *g, Val a, NodeKind kind, uint32_t rank) {
  Node n;
  if (cg_row_in_kernel(g, a)) return g->of[a.i - g->c->k->first];
  return immediate(g, a, &n) ? n : memory(g, a, kind, rank);
}

Node cg_row_scalar(RowGraph *g, Val v, uint32_t k) {
  return operand_of_rank(g, ir_arg(g->c->f, v, k), NODE_SCALAR, g->rank - 1);
}

Node cg_row_weight(RowGraph *g, Val v, uint32_t k) {
  return operand_of_rank(g, ir_arg(g->c->f, v, k), NODE_MEM, g->rank);
}

// ---- assignment of nodes to sweeps
uint32_t cg_row_cost(const Row *r, const RowNode *n) {
  switch ((NodeKind)n->kind) {
  case NODE_FMA: return 1;
  case NODE_ONE_HOT: return 2;
  case NODE_PRIMITIVE: return cg_primitive_cost((Op)n->op);
  case NODE_INS: return cg_primitive_cost((Op)ir_ins(r->c->f, n->v)->op);
  default: return 0;
  }
}

// Elements of a strided row that L1 still has in a later sweep, beside as many lines of results. A page fills one way of L1: elements a
// page apart share one set, those half a page apart two ..
static int64_t elements_in_l1(const Row *r) {
  const Prog *p = r->c->f->prog;
  int64_t page = p->target.page_bytes, bytes = 4 * ir_row_side_by_side(p, (RowSpace){r->g.shape, r->g.axis}),
          part = LINE_BYTES;
  while (part < page && bytes % (2 * part) == 0) part *= 2;
  int64_t n = p->target.l1_bytes / page / 2 * (page / part);
  return n < TALL ? n : TALL;
}

// Cost to recompute node k in sweep s, without what that computes in any case. Elements of a tall strided row are in a page each: not cheap to reload.
static uint32_t recompute_cost(Row *r, Node k, uint32_t s) {
  const RowNode *n = cg_row_at(r, k);
  if (!n->elem || n->is_buffered || (n->in_last && s == r->last)) return 0;
  bool is_strided = n->kind == NODE_MEM && r->strided && !cg_row_is_weight(&r->g, n->v);
  if (is_strided && r->bound > elements_in_l1(r)) return CHEAP + 1;
  uint32_t sum = cg_row_cost(r, n);
  for (uint32_t j = 0; j < n->n_args && sum <= CHEAP; j++) sum += recompute_cost(r, n->arg[j], s);
  return sum;
}

Node cg_row_node_of(Row *r, Val v) { return r->g.of[v.i - r->c->k->first]; }
bool cg_row_is_shaped(Row *r, Val v) { return cg_row_has_elements(&r->g, ir_ins(r->c->f, v)->shape); }

bool cg_row_is_stored(Row *r, Val v) {
  RowSpace rows;
  if (ir_ins(r->c->f, v)->op == OP_reshape) return false;
  if (ir_ins(r->c->f, v)->op == OP_sum && ir_column_sum(r->c->f, v, &rows)) return false;
  return cg_row_in_kernel(&r->g, v) && cg_stored(r->c, v) && !cg_is_empty(r->c->f, v);
}

Node cg_row_summed(Row *r, uint32_t j) { return cg_row_node_of(r, r->columns.sum[j].v); }

// Does a sweep after that of `kept` read memory for node k? Values that are buffered by then need none.
static bool reads_memory(Row *r, Node k, Node kept) {
  const RowNode *n = cg_row_at(r, k);
  if (!n->elem || k == kept || (n->is_buffered && n->level <= cg_row_at(r, kept)->level)) return false;
  if (n->kind == NODE_MEM || n->kind == NODE_RUN) return true;
  for (uint32_t j = 0; j < n->n_args; j++)
    if (reads_memory(r, n->arg[j], kept)) return true;
  return false;
}

static bool later_sweeps_read(Row *r, Node kept) {
  for (uint32_t j = 1; j < r->g.n; j++) {
    const RowNode *n = cg_row_at(r, j);
    if (!cg_row_is_reduction(n) || n->level <= cg_row_at(r, kept)->level + 1) continue;
    for (uint32_t a = 0; a < n->n_args; a++)
      if (reads_memory(r, n->arg[a], kept)) return true;
  }
  for (uint32_t j = 0; j < r->columns.n; j++)
    if (reads_memory(r, cg_row_summed(r, j), kept)) return true;
  const Kernel *k = r->c->k;
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    if (cg_row_is_stored(r, (Val){i}) && reads_memory(r, cg_row_node_of(r, (Val){i}), kept)) return true;
  return false;
}

// The result whose row holds node k up to the last sweep; {0}: none.
static Val result_for(Row *r, Node k) {
  const Kernel *kernel = r->c->k;
  if (r->strided || later_sweeps_read(r, k)) return (Val){0};
  for (uint32_t i = kernel->first; i < kernel->first + kernel->n; i++) {
    bool is_free = cg_row_is_stored(r, (Val){i}) && cg_row_is_shaped(r, (Val){i});
    for (uint32_t j = 1; j < r->g.n; j++) is_free &= cg_row_at(r, j)->in_result.i != i;
    if (is_free) return (Val){i};
  }
  return (Val){0};
}

static void use_in_sweep(Row *r, Node k, uint32_t s);

static void use_scalar(Row *r, Node k) {
  RowNode *n = cg_row_at(r, k);
  if (n->live) return;
  n->live = true;
  uint32_t sweep = n->kind == NODE_PIVOT ? n->level : n->level - 1;
  for (uint32_t j = 0; j < n->n_args; j++) use_in_sweep(r, n->arg[j], sweep);
}

// Node k is used in sweep s.
static void use_in_sweep(Row *r, Node k, uint32_t s) {
  RowNode *n = cg_row_at(r, k);
  if (!n->elem) {
    use_scalar(r, k);
    return;
  }
  n->live = true;
  if (n->is_buffered) return;
  bool room = (r->n_buffers + 1) * r->bound * 4 * (r->strided ? r->c->t->vl : 1) <= BUFFER_BYTES;
  if (n->level < s && recompute_cost(r, k, s) > CHEAP) {
    if (!room) n->in_result = result_for(r, k);
    n->is_buffered = room || n->in_result.i;
    r->n_buffers += room;
    if (n->is_buffered) s = n->level;
  }
  n->in_last |= s == r->last;
  for (uint32_t j = 0; j < n->n_args; j++) use_in_sweep(r, n->arg[j], s);
}

static void find_last_sweep(Row *r, Node k, bool *seen) {
  const RowNode *n = cg_row_at(r, k);
  if (seen[k]) return;
  seen[k] = true;
  uint32_t s = cg_row_is_reduction(n) ? n->level - 1 : n->elem ? n->level : 0;
  if (s > r->last) r->last = s;
  for (uint32_t j = 0; j < n->n_args; j++) find_last_sweep(r, n->arg[j], seen);
}

// Reductions first, in the order of sweeps: what is buffered for one of them is free for later sweeps.
static void use_reductions(Row *r, const bool *seen) {
  for (uint32_t s = 0; s <= r->last; s++)
    for (uint32_t k = 1; k < r->g.n; k++)
      if (seen[k] && cg_row_is_reduction(cg_row_at(r, k)) && cg_row_at(r, k)->level == s + 1) use_scalar(r, k);
}

// What only the last sweep can compute comes first: what it is made of costs the others nothing.
static void use_in_last_sweep(Row *r, Node k, bool at_once) {
  if ((cg_row_at(r, k)->level == r->last) == at_once) use_in_sweep(r, k, r->last);
}

static void use_results(Row *r, bool at_once) {
  const Kernel *k = r->c->k;
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    if (cg_row_is_stored(r, (Val){i})) use_in_last_sweep(r, cg_row_node_of(r, (Val){i}), at_once);
  for (uint32_t j = 0; j < r->columns.n; j++) use_in_last_sweep(r, cg_row_summed(r, j), at_once);
}

void cg_row_assign_sweeps(Row *r) {
  Kernel k = *r->c->k;
  bool *seen = rt_alloc(r->c->mem, r->g.n);
  for (uint32_t i = k.first; i < k.first + k.n; i++) {
    if (!cg_row_is_stored(r, (Val){i})) continue;
    find_last_sweep(r, cg_row_node_of(r, (Val){i}), seen);
    const RowNode *n = cg_row_at(r, cg_row_node_of(r, (Val){i}));
    if (cg_row_is_shaped(r, (Val){i}) && n->level > r->last) r->last = n->level;
  }
  for (uint32_t j = 0; j < r->columns.n; j++) {
    const RowNode *n = cg_row_at(r, cg_row_summed(r, j));
    find_last_sweep(r, cg_row_summed(r, j), seen);
    if (n->level > r->last) r->last = n->level;
  }
  for (uint32_t n = 1; n < r->g.n; n++)  // labels that may fault are live: the report is a side effect
    if (cg_row_at(r, n)->kind == NODE_LABEL && cg_row_at(r, n)->op & LABEL_MAY_FAULT) use_scalar(r, n);
  use_reductions(r, seen);
  use_results(r, true);
  use_results(r, false);
}
