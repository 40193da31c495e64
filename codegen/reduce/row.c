// Row kernels: all ops over one row are fused, while the row is in L1.
//
//   %d = sub %x, %m            row 0:  sweep 0   sum of x                       -> mean
//   %y = layer_norm %d, ..             sweep 1   sum of (x - mean)^2            -> rstd
//   %z = gelu %y                       sweep 2   z = gelu((x - mean) rstd w + b), stored
//
// Instructions are lowered to nodes (row_ops.c). A sweep is one loop over the row in vectors of vl lanes; it ends where
// a reduction must be complete. A value that a later sweep uses again is reloaded or recomputed if that is cheap, else
// buffered: one row on the stack.
//
// Column sums (column_sum.c) accumulate in the last sweep, from registers.
//
// Sums have an order of their own, whatever a vector holds. Elements go in turn to `wide` groups of 16 partial sums, those
// behind the last whole round to the first group; groups are added by halves, then the 16 sums by halves. Where a vector
// has fewer lanes, what makes short code has them in registers; else they are in memory, one vector of them at a time.
//
// Short rows: one row per lane. Elements are processed one after the other, and reductions of vl rows need no horizontal
// operation.
//
// The work is split by whole rows, so that no result depends on the number of workers. All stores of a row are in its
// last sweep, and those of a vector come after all its loads: results may alias operands that are read elementwise.
#include "codegen/reduce/row.h"
#include "codegen/reduce/interleave.h"

#include <math.h>
#include <string.h>

typedef LLVMValueRef V;

enum {
  MAX_PARTS = 4,
  MAX_SUMS = MAX_PARTS * MAX_CARRY,  // vectors of partial sums
  SMALL = 4096,                      // elements: below, single-threaded
  GRAIN = 1024,                      // grain: elements per worker, at least
  BUFFER_BYTES = 1 << 16,            // total size of row buffers
  CHEAP = 2,                         // operations: up to so many are recomputed rather than buffered
  LIGHT = 6,
  REGISTERS = 16,     // vectors of partial sums that stay in registers
  PER_LANE_ROWS = 4,  // groups of partial sums: shorter rows are processed row per lane, where there are as many rows
  TALL = 64,          // elements: operands of longer strided rows are buffered
  HEAVY = 24  // operations per vector: up to LIGHT the loop is unrolled by 4, above HEAVY not at all, between by 2
};

static RowNode *at(Row *r, Node n) { return &r->g.node[n]; }

// ---- the graph
static bool is_element(const RowGraph *g, const RowNode *n) {
  if (n->kind == NODE_MEM || n->kind == NODE_ONE_HOT) return true;
  if (n->kind != NODE_PRIMITIVE && n->kind != NODE_FMA) return n->elem;
  for (uint32_t k = 0; k < n->n_args; k++)
    if (g->node[n->arg[k]].elem) return true;
  return false;
}

static bool is_reduction(const RowNode *n) {
  return n->kind == NODE_SUM || n->kind == NODE_DOT || n->kind == NODE_MAX || n->kind == NODE_TOP;
}

static bool same_node(const RowNode *a, const RowNode *b) {
  return a->kind == b->kind && a->op == b->op && a->n_args == b->n_args && !memcmp(a->arg, b->arg, sizeof a->arg) &&
         a->v.i == b->v.i && a->broadcast_rank == b->broadcast_rank && !memcmp(&a->num, &b->num, sizeof a->num);
}

Node cg_row_node(RowGraph *g, RowNode n) {
  n.elem = is_element(g, &n);
  for (uint32_t k = 0; k < n.n_args; k++)
    if (g->node[n.arg[k]].level > n.level) n.level = g->node[n.arg[k]].level;
  n.level += is_reduction(&n);
  for (uint32_t k = 1; k < g->n; k++)
    if (same_node(&g->node[k], &n)) return k;
  *RT_PUSH(g->c->mem, g->node, g->n, g->cap) = n;
  return g->n - 1;
}

static bool in_kernel(const RowGraph *g, Val v) {
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

Node cg_row_operand(RowGraph *g, Val v, uint32_t k) {
  const Fn *f = g->c->f;
  Val a = ir_arg(f, v, k);
  const Ins *ins = ir_ins(f, a), *to = ir_ins(f, v);
  Node n;
  if (in_kernel(g, a)) return g->of[a.i - g->c->k->first];
  if (immediate(g, a, &n)) return n;
  if (ins->shape.i == g->shape.i) return memory(g, a, NODE_MEM, g->rank);
  uint32_t rank = ir_rank(f->prog, ins->shape), shown = ir_rank(f->prog, to->shape);
  if (to->shape.i != g->shape.i) return memory(g, a, NODE_SCALAR, shown);
  bool invariant = rank == 0 || g->axis + 1 < g->rank || ir_dim_is_one(g->c->f->prog, dim_at(g, a, rank - 1));
  return memory(g, a, invariant ? NODE_SCALAR : NODE_MEM, shown);
}

Node cg_row_scalar(RowGraph *g, Val v, uint32_t k) {
  Val a = ir_arg(g->c->f, v, k);
  Node n;
  if (in_kernel(g, a)) return g->of[a.i - g->c->k->first];
  return immediate(g, a, &n) ? n : memory(g, a, NODE_SCALAR, g->rank - 1);
}

Node cg_row_weight(RowGraph *g, Val v, uint32_t k) {
  Val a = ir_arg(g->c->f, v, k);
  Node n;
  if (in_kernel(g, a)) return g->of[a.i - g->c->k->first];
  return immediate(g, a, &n) ? n : memory(g, a, NODE_MEM, g->rank);
}

// ---- assignment of nodes to sweeps
static uint32_t cost_of(const Row *r, const RowNode *n) {
  switch ((NodeKind)n->kind) {
  case NODE_FMA: return 1;
  case NODE_ONE_HOT: return 2;
  case NODE_PRIMITIVE: return cg_primitive_cost((Op)n->op);
  case NODE_INS: return cg_primitive_cost((Op)ir_ins(r->c->f, n->v)->op);
  default: return 0;
  }
}

// Cost to recompute node k in sweep s. Elements of a tall strided row are in a page each: not cheap to reload.
static uint32_t recompute_cost(Row *r, Node k, uint32_t s) {
  const RowNode *n = at(r, k);
  if (!n->elem || n->is_buffered) return 0;
  if (n->kind == NODE_MEM && r->strided && r->bound > TALL) return CHEAP + 1;
  uint32_t sum = cost_of(r, n);
  for (uint32_t j = 0; j < n->n_args && sum <= CHEAP; j++) sum += recompute_cost(r, n->arg[j], s);
  return sum;
}

static void use_in_sweep(Row *r, Node k, uint32_t s);

static void use_scalar(Row *r, Node k) {
  RowNode *n = at(r, k);
  if (n->live) return;
  n->live = true;
  for (uint32_t j = 0; j < n->n_args; j++) use_in_sweep(r, n->arg[j], n->level - 1);
}

// Node k is used in sweep s.
static void use_in_sweep(Row *r, Node k, uint32_t s) {
  RowNode *n = at(r, k);
  if (!n->elem) {
    use_scalar(r, k);
    return;
  }
  n->live = true;
  if (n->is_buffered) return;
  bool room = (r->n_buffers + 1) * r->bound * 4 * (r->strided ? r->c->t->vl : 1) <= BUFFER_BYTES;
  if (n->level < s && recompute_cost(r, k, s) > CHEAP && room) {
    n->is_buffered = true;
    r->n_buffers++;
    s = n->level;
  }
  for (uint32_t j = 0; j < n->n_args; j++) use_in_sweep(r, n->arg[j], s);
}

static Node node_of(Row *r, Val v) { return r->g.of[v.i - r->c->k->first]; }
static bool is_row_shaped(Row *r, Val v) { return ir_ins(r->c->f, v)->shape.i == r->g.shape.i; }

// Stored results of the kernel, column sums excepted.
static bool is_stored(Row *r, Val v) {
  const Ins *ins = ir_ins(r->c->f, v);
  Shape rows;
  if (ins->op == OP_sum && ir_column_sum(r->c->f, v, &rows)) return false;
  return in_kernel(&r->g, v) && cg_stored(r->c, v) && ir_type_bytes(r->c->f->prog, (DType)ins->dtype, ins->shape) > 0;
}

// The operand of column sum j.
static Node summed(Row *r, uint32_t j) { return node_of(r, r->columns.sum[j].v); }

static void find_last_sweep(Row *r, Node k, bool *seen) {
  const RowNode *n = at(r, k);
  if (seen[k]) return;
  seen[k] = true;
  uint32_t s = is_reduction(n) ? n->level - 1 : n->elem ? n->level : 0;
  if (s > r->last) r->last = s;
  for (uint32_t j = 0; j < n->n_args; j++) find_last_sweep(r, n->arg[j], seen);
}

// Reductions first, in the order of sweeps: what is buffered for one of them is free for later sweeps.
static void use_reductions(Row *r, const bool *seen) {
  for (uint32_t s = 0; s <= r->last; s++)
    for (uint32_t k = 1; k < r->g.n; k++)
      if (seen[k] && is_reduction(at(r, k)) && at(r, k)->level == s + 1) use_scalar(r, k);
}

static void assign_sweeps(Row *r) {
  Kernel k = *r->c->k;
  bool *seen = rt_alloc(r->c->mem, r->g.n);
  for (uint32_t i = k.first; i < k.first + k.n; i++) {
    if (!is_stored(r, (Val){i})) continue;
    find_last_sweep(r, node_of(r, (Val){i}), seen);
    const RowNode *n = at(r, node_of(r, (Val){i}));
    if (is_row_shaped(r, (Val){i}) && n->level > r->last) r->last = n->level;
  }
  for (uint32_t j = 0; j < r->columns.n; j++) {
    const RowNode *n = at(r, summed(r, j));
    find_last_sweep(r, summed(r, j), seen);
    if (n->level > r->last) r->last = n->level;
  }
  for (uint32_t n = 1; n < r->g.n; n++)  // labels that may fault are live: the report is a side effect
    if (at(r, n)->kind == NODE_LABEL && at(r, n)->op & LABEL_MAY_FAULT) use_scalar(r, n);
  use_reductions(r, seen);
  for (uint32_t i = k.first; i < k.first + k.n; i++)
    if (is_stored(r, (Val){i})) use_in_sweep(r, node_of(r, (Val){i}), r->last);
  for (uint32_t j = 0; j < r->columns.n; j++) use_in_sweep(r, summed(r, j), r->last);
}

// ---- one vector
static V f32_at(Row *r, V base, V i) { return cg_at(r->c, r->c->f32, base, i); }

// Row per lane over contiguous rows: operands are interleaved.
static bool is_interleaving(const Row *r) { return r->row_per_lane && !r->strided; }

// Address of the current vector in a strided row.
static V strided_at(Row *r, V row) { return f32_at(r, row, cg_mul(r->c, r->i, r->stride)); }

// Address of the current vector in a row buffer.
static V buffer_at(Row *r, V buffer) {
  return f32_at(r, buffer, r->row_per_lane ? cg_mul(r->c, r->i, cg_i64(r->c, r->c->t->vl)) : r->i);
}

static V load(Row *r, const RowNode *n) {
  Cg *c = r->c;
  if (r->strided) return cg_load_masked(c, c->vf, strided_at(r, n->row), r->active);
  if (r->row_per_lane && cg_row_is_dense(&r->g, n)) return cg_load(c, c->vf, buffer_at(r, n->row));
  V p = f32_at(r, n->row, r->i);
  if (r->row_per_lane) return cg_splat(c, cg_load(c, c->f32, p));
  return r->mask ? cg_load_masked(c, c->vf, p, r->mask) : cg_load(c, c->vf, p);
}

static V one_hot(Row *r, const RowNode *n) {
  Cg *c = r->c;
  V place = at(r, n->arg[0])->scalar, is;
  if (r->row_per_lane) {
    is = LLVMBuildICmp(c->b, LLVMIntEQ, place, cg_splat(c, r->i), "");
  } else {
    place = LLVMBuildSub(c->b, place, r->i, "");  // labels and rows are below 2^31
    place = cg_splat(c, LLVMBuildTrunc(c->b, place, c->i32, ""));
    is = LLVMBuildICmp(c->b, LLVMIntEQ, place, cg_row_lanes(r, c->i32), "");
  }
  return LLVMBuildSelect(c->b, is, cg_splat(c, cg_f32(c, 1)), cg_splat(c, cg_f32(c, 0)), "");
}

static V element_numbers(Row *r) {
  Cg *c = r->c;
  V step = r->strided ? cg_mul(c, r->i, r->stride) : r->i;
  V first = cg_splat(c, cg_add(c, r->element, step)), lane = cg_row_lanes(r, c->i64);
  if (is_interleaving(r)) lane = LLVMBuildMul(c->b, lane, cg_splat(c, r->size), "");
  return LLVMBuildAdd(c->b, first, lane, "");
}

// The value of node k for the current vector, in sweep s.
static V vector(Row *r, Node k, uint32_t s) {
  RowNode *n = at(r, k);
  V arg[3] = {NULL};
  if (!n->elem) return r->row_per_lane ? n->scalar : cg_splat(r->c, n->scalar);
  if (n->stamp == r->stamp) return n->value;
  if (n->is_buffered && n->level < s) {
    n->value = cg_load(r->c, r->c->vf, buffer_at(r, n->buffer));
  } else if (n->kind == NODE_MEM) {
    n->value = load(r, n);
  } else if (n->kind == NODE_ONE_HOT) {
    n->value = one_hot(r, n);
  } else {
    for (uint32_t j = 0; j < n->n_args; j++) arg[j] = vector(r, n->arg[j], s);
    n->value = cg_row_compute(r, n, arg, element_numbers(r));
  }
  n->stamp = r->stamp;
  return n->value;
}

static V larger(Cg *c, V a, V b) { return LLVMBuildSelect(c->b, LLVMBuildFCmp(c->b, LLVMRealOGT, a, b, ""), a, b, ""); }

static V join(Row *r, const RowNode *n, V a, V b) {
  if (n->kind == NODE_TOP) return larger(r->c, b, a);
  return cg_primitive(r->c, n->kind == NODE_MAX ? OP_max : OP_add, (V[]){a, b});
}

static V add_vector(Row *r, const RowNode *n, uint32_t s, V acc) {
  Cg *c = r->c;
  V x = vector(r, n->arg[0], s), next;
  if (n->kind == NODE_DOT) next = cg_fma(c, x, vector(r, n->arg[1], s), acc);
  else next = join(r, n, acc, x);
  return r->mask ? LLVMBuildSelect(c->b, r->mask, next, acc, "") : next;
}

typedef struct {
  uint32_t number;
  Node red[MAX_CARRY];
  uint32_t n_red, wide;   // wide: unroll factor, each copy with accumulators of its own
  uint32_t lanes, parts;  // of a group of partial sums; vectors that hold them: [wide][parts][n_red]
  V memory;               // partial sums in memory: [n_red][wide][lanes]; NULL: none
} Sweep;

static void store_all(Row *r, uint32_t s) {
  Cg *c = r->c;
  Kernel k = *c->k;
  V *value = rt_alloc(c->mem, k.n * sizeof *value);
  for (uint32_t j = 0; j < k.n; j++) {
    Val v = {k.first + j};
    if (is_stored(r, v) && is_row_shaped(r, v)) value[j] = vector(r, node_of(r, v), s);
  }
  for (uint32_t j = 0; j < r->columns.n; j++)
    cg_column_sum_add(&r->columns, j, r->i, vector(r, summed(r, j), s), r->mask);
  for (uint32_t j = 0; j < k.n; j++) {
    if (!value[j]) continue;
    V row = is_interleaving(r) ? NULL : f32_at(r, cg_ptr(c, (Val){k.first + j}), r->element);
    V p = r->strided ? strided_at(r, row) : r->row_per_lane ? buffer_at(r, r->interleaved[j]) : f32_at(r, row, r->i);
    V mask = r->strided ? r->active : r->mask;
    mask ? cg_store_masked(c, value[j], p, mask) : cg_store(c, value[j], p);
  }
}

// Loop body for the vector at i; acc: one accumulator per reduction.
static void emit_vector(Row *r, const Sweep *s, V i, V mask, V *acc) {
  r->i = i, r->mask = mask;
  r->stamp++;
  for (uint32_t k = 1; k < r->g.n; k++) {
    RowNode *n = at(r, k);
    if (!n->is_buffered || n->level != s->number) continue;
    V x = vector(r, k, s->number);
    cg_store(r->c, x, buffer_at(r, n->buffer));
  }
  for (uint32_t k = 0; k < s->n_red; k++) acc[k] = add_vector(r, at(r, s->red[k]), s->number, acc[k]);
  if (s->number == r->last) store_all(r, s->number);
}

static bool is_zero(V v) { return LLVMIsAConstantInt(v) && LLVMConstIntGetSExtValue(v) == 0; }
static V multiple(Cg *c, V n, int64_t of) { return cg_mul(c, cg_div(c, n, cg_i64(c, of)), cg_i64(c, of)); }

// Elements of a row per vector.
static int64_t step_of(const Row *r) { return r->row_per_lane ? 1 : r->c->t->vl; }

// Vectors [lo, hi), n of them at once; acc: n groups of n_red.
static void emit_span(Row *r, const Sweep *s, V lo, V hi, uint32_t n, V *acc) {
  Cg *c = r->c;
  int64_t step = step_of(r);
  Loop l;
  if (is_zero(hi) || lo == hi) return;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, n * step), acc, n * s->n_red);
  memcpy(acc, l.carry, n * s->n_red * sizeof *acc);
  for (uint32_t k = 0; k < n; k++) emit_vector(r, s, cg_add(c, l.i, cg_i64(c, k * step)), NULL, acc + k * s->n_red);
  cg_loop_end(c, &l, acc);
  memcpy(acc, l.out, n * s->n_red * sizeof *acc);
}

// ---- sums of a row
static bool is_sum(const RowNode *n) { return n->kind == NODE_SUM || n->kind == NODE_DOT; }

static void add_halves(Row *r, const RowNode *n, V *x, uint32_t count, bool by_lanes) {
  for (; count > 1; count /= 2)
    for (uint32_t j = 0; j < count / 2; j++)
      x[j] = by_lanes && !is_sum(n) ? cg_primitive(r->c, OP_max, (V[]){x[j], x[j + count / 2]})
                                    : join(r, n, x[j], x[j + count / 2]);
}

static void finish(Row *r, const Sweep *s, V *acc) {
  for (uint32_t k = 0; k < s->n_red; k++) {
    RowNode *n = at(r, s->red[k]);
    V part[MAX_PARTS], group[4];
    for (uint32_t p = 0; p < s->parts; p++) {
      for (uint32_t w = 0; w < s->wide; w++) group[w] = acc[(w * s->parts + p) * s->n_red + k];
      add_halves(r, n, group, s->wide, false);
      part[p] = group[0];
    }
    add_halves(r, n, part, s->parts, true);
    if (r->row_per_lane) n->scalar = part[0];
    else n->scalar = is_sum(n) ? cg_reduce_add(r->c, part[0]) : cg_reduce_max(r->c, part[0]);
  }
}

// Partial sum `lane` of reduction k.
static V memory_at(Row *r, const Sweep *s, uint32_t k, V lane) {
  return f32_at(r, s->memory, cg_add(r->c, lane, cg_i64(r->c, (int64_t)k * s->wide * s->lanes)));
}

// All partial sums to memory, or from there.
static void move_sums(Row *r, const Sweep *s, V *acc, bool store) {
  Cg *c = r->c;
  for (uint32_t v = 0; v < s->wide * s->parts; v++)
    for (uint32_t k = 0; k < s->n_red; k++) {
      V at_v = memory_at(r, s, k, cg_i64(c, v * (int64_t)c->t->vl));
      if (store) cg_store(c, acc[v * s->n_red + k], at_v);
      else acc[v * s->n_red + k] = cg_load(c, c->vf, at_v);
    }
}

// The vector at i, its partial sums in memory; those before `groups` belong to all groups in turn.
static void emit_in_memory(Row *r, const Sweep *s, V i, V mask, V groups) {
  Cg *c = r->c;
  V acc[MAX_CARRY], lane = LLVMBuildAnd(c->b, i, cg_i64(c, s->lanes - 1), "");
  if (s->wide > 1 && !is_zero(groups)) {
    V turn = LLVMBuildAnd(c->b, i, cg_i64(c, s->wide * s->lanes - 1), "");
    lane = LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, LLVMIntSLT, i, groups, ""), turn, lane, "");
  }
  for (uint32_t k = 0; k < s->n_red; k++) acc[k] = cg_load(c, c->vf, memory_at(r, s, k, lane));
  emit_vector(r, s, i, mask, acc);
  for (uint32_t k = 0; k < s->n_red; k++) cg_store(c, acc[k], memory_at(r, s, k, lane));
}

static void emit_span_in_memory(Row *r, const Sweep *s, V lo, V groups, V whole) {
  Cg *c = r->c;
  Loop l;
  if (is_zero(whole) || lo == whole) return;
  cg_loop_begin(c, &l, lo, whole, cg_i64(c, c->t->vl), NULL, 0);
  emit_in_memory(r, s, l.i, NULL, groups);
  cg_loop_end(c, &l, NULL);
}

// Operations per vector in this sweep.
static uint32_t work_of(Row *r, const Sweep *s) {
  uint32_t sum = s->n_red;
  for (uint32_t k = 1; k < r->g.n; k++)
    if (at(r, k)->elem && at(r, k)->live &&
        (at(r, k)->level == s->number || (!at(r, k)->is_buffered && s->number == r->last)))
      sum += cost_of(r, at(r, k));
  return sum;
}

static Sweep plan_sweep(Row *r, uint32_t number) {
  Sweep s = {.number = number, .lanes = cg_sum_lanes(r->c->t), .parts = 1};
  for (uint32_t k = 1; k < r->g.n && s.n_red < MAX_CARRY; k++)
    if (is_reduction(at(r, k)) && at(r, k)->live && at(r, k)->level == number + 1) s.red[s.n_red++] = k;
  uint32_t work = work_of(r, &s);
  s.wide = work > HEAVY || s.n_red > MAX_CARRY / 4 ? 1 : work > LIGHT ? 2 : 4;
  if (s.n_red && !r->row_per_lane) s.parts = s.lanes / r->c->t->vl;
  return s;
}

static void start(Row *r, const Sweep *s, V *acc) {
  for (uint32_t v = 0; v < s->wide * s->parts; v++)
    for (uint32_t k = 0; k < s->n_red; k++)
      acc[v * s->n_red + k] = cg_splat(r->c, cg_f32(r->c, is_sum(at(r, s->red[k])) ? 0 : -INFINITY));
}

// Partial sums in registers, whole rounds and groups of them, and what is left where its size is known. Gives the first
// element that is left.
static V emit_in_registers(Row *r, const Sweep *s, V groups, V *acc) {
  Cg *c = r->c;
  int64_t vl = c->t->vl;
  V mask, some = multiple(c, r->size, s->lanes), rest = cg_sub(c, r->size, some);
  emit_span(r, s, cg_i64(c, 0), groups, s->wide * s->parts, acc);
  emit_span(r, s, groups, some, s->parts, acc);
  if (!LLVMIsAConstantInt(rest)) return some;
  for (uint32_t p = 0; p < s->parts; p++)
    if (cg_lanes_left(c, rest, p * vl, &mask))
      emit_vector(r, s, cg_add(c, some, cg_i64(c, p * vl)), mask, acc + p * s->n_red);
  return r->size;
}

// Vectors narrower than a group.
static void emit_narrow_sweep(Row *r, Sweep *s) {
  Cg *c = r->c;
  V acc[MAX_SUMS], whole = multiple(c, r->size, c->t->vl), from = cg_i64(c, 0);
  V groups = multiple(c, r->size, s->wide * s->lanes), rest = cg_sub(c, r->size, whole);
  start(r, s, acc);
  bool is_short = s->wide == 4 || s->parts == 2;
  if (is_short && s->n_red * s->wide * s->parts <= REGISTERS && !c->t->bounded_stack)
    from = emit_in_registers(r, s, groups, acc);
  if (from != r->size) {
    s->memory = r->sums;
    move_sums(r, s, acc, true);
    emit_span_in_memory(r, s, from, groups, whole);
    if (!is_zero(rest)) emit_in_memory(r, s, whole, cg_mask(c, rest), cg_i64(c, 0));
    move_sums(r, s, acc, false);
  }
  finish(r, s, acc);
}

// Unrolled loop, remainder of whole vectors, masked tail, which may be empty.
static void emit_sweep(Row *r, uint32_t number) {
  Cg *c = r->c;
  Sweep s = plan_sweep(r, number);
  if (s.parts > 1) {
    emit_narrow_sweep(r, &s);
    return;
  }
  int64_t step = step_of(r);
  V acc[MAX_CARRY], groups = multiple(c, r->size, s.wide * step), whole = multiple(c, r->size, step);
  V rest = cg_sub(c, r->size, whole);
  start(r, &s, acc);
  emit_span(r, &s, cg_i64(c, 0), groups, s.wide, acc);
  if (s.wide > 1) emit_span(r, &s, groups, whole, 1, acc);
  if (!is_zero(rest)) emit_vector(r, &s, whole, cg_mask(c, rest), acc);
  finish(r, &s, acc);
}

static void store_scalars(Row *r) {
  Cg *c = r->c;
  for (uint32_t i = c->k->first; i < c->k->first + c->k->n; i++) {
    Val v = {i};
    if (!is_stored(r, v) || is_row_shaped(r, v)) continue;
    V scalar = at(r, node_of(r, v))->scalar, to = f32_at(r, cg_ptr(c, v), r->index);
    r->row_per_lane ? cg_store_masked(c, scalar, to, r->active) : cg_store(c, scalar, to);
  }
}

static void emit_sweeps(Row *r) {
  for (uint32_t s = 0; s <= r->last; s++) {
    cg_row_scalars(r, s);
    emit_sweep(r, s);
  }
  cg_row_scalars(r, r->last + 1);
  store_scalars(r);
}

static void enter(Row *r, V index, V element) {
  r->index = index;
  r->element = element;
  memset(r->outer, 0, sizeof r->outer);
  cg_row_enter(r);
}

static void emit_row(Row *r, V index) {
  enter(r, index, cg_mul(r->c, index, r->size));
  emit_sweeps(r);
}

// ---- row per lane
static bool is_interleaved(Row *r, const RowNode *n) {
  return is_interleaving(r) && n->live && n->kind == NODE_MEM && cg_row_is_dense(&r->g, n);
}

// n rows from `index` on, at most vl.
static void emit_row_per_lane(Row *r, V index, V n) {
  Cg *c = r->c;
  uint32_t width = (uint32_t)r->bound;
  enter(r, index, cg_mul(c, index, r->size));
  r->n_rows = n, r->active = cg_mask(c, n);
  for (uint32_t k = 1; k < r->g.n; k++) {
    RowNode *m = at(r, k);
    if (!is_interleaved(r, m)) continue;
    cg_interleave(c, width, m->row, n, m->buffer);
    m->row = m->buffer;
  }
  emit_sweeps(r);
  for (uint32_t j = 0; j < c->k->n; j++)
    if (r->interleaved[j])
      cg_deinterleave(c, width, r->interleaved[j], n, f32_at(r, cg_ptr(c, (Val){c->k->first + j}), r->element));
}

// Vector number `unit` of strided rows: vl adjacent rows, of one outer index.
static void emit_strided_rows(Row *r, V unit) {
  Cg *c = r->c;
  V vl = cg_i64(c, c->t->vl), units = cg_ceil_div_value(c, r->stride, c->t->vl);
  V outer = cg_div(c, unit, units), first = cg_mul(c, cg_sub(c, unit, cg_mul(c, outer, units)), vl);
  V index = cg_add(c, cg_mul(c, outer, r->stride), first);
  r->n_rows = cg_min(c, vl, cg_sub(c, r->stride, first)), r->active = cg_mask(c, r->n_rows);
  enter(r, index, cg_add(c, cg_mul(c, cg_mul(c, outer, r->size), r->stride), first));
  emit_sweeps(r);
}

// Short rows, enough of them for all lanes, and each operand is dense over the rows or invariant.
static bool is_row_per_lane(Row *r, Dim width) {
  const Cg *c = r->c;
  int64_t rows = r->bound ? ir_shape_bound(c->f->prog, r->g.shape) / r->bound : 0;
  int64_t lanes = cg_sum_lanes(c->t);
  if (!ir_dim_is_const(c->f->prog, width) || r->columns.n || rows < lanes) return false;
  if (r->bound < 1 || r->bound >= PER_LANE_ROWS * lanes) return false;
  for (uint32_t k = 1; k < r->g.n; k++) {
    const RowNode *n = at(r, k);
    bool memory = n->live && (n->kind == NODE_MEM || n->kind == NODE_SCALAR);
    if (memory && !cg_row_is_dense(&r->g, n) && !cg_row_is_invariant(&r->g, n)) return false;
    if (n->live && n->kind == NODE_GATHER && !cg_row_is_dense(&r->g, at(r, n->arg[0]))) return false;
  }
  return true;
}

// ---- the kernel
// A row in whole vectors, plus one for an empty tail; or vl interleaved rows.
static V make_buffer(Row *r) {
  Cg *c = r->c;
  int64_t vl = c->t->vl, n = r->row_per_lane ? r->bound : r->bound / vl + 1;
  return cg_block(c, c->f32, n * vl);
}

// Allocas in the entry block.
static void make_buffers(Row *r) {
  Cg *c = r->c;
  int64_t most = 0;
  for (uint32_t k = 1; k < r->g.n; k++)
    if (at(r, k)->is_buffered || is_interleaved(r, at(r, k))) at(r, k)->buffer = make_buffer(r);
  for (uint32_t s = 0; s <= r->last; s++) {
    Sweep sweep = plan_sweep(r, s);
    int64_t n = (int64_t)sweep.n_red * sweep.wide * sweep.lanes;
    if (sweep.parts > 1 && n > most) most = n;
  }
  if (most) r->sums = cg_block(c, c->f32, most);
  r->interleaved = rt_alloc(c->mem, c->k->n * sizeof *r->interleaved);
  for (uint32_t j = 0; is_interleaving(r) && j < c->k->n; j++) {
    Val v = {c->k->first + j};
    if (is_stored(r, v) && is_row_shaped(r, v)) r->interleaved[j] = make_buffer(r);
  }
}

static bool make_graph(Row *r) {
  Kernel k = *r->c->k;
  RowGraph *g = &r->g;
  g->of = rt_alloc(r->c->mem, (k.n + 1) * sizeof *g->of);
  *RT_PUSH(r->c->mem, g->node, g->n, g->cap) = (RowNode){0};
  for (uint32_t i = k.first; i < k.first + k.n; i++)
    if (in_kernel(g, (Val){i}) && ir_ins(r->c->f, (Val){i})->op != OP_result && !cg_row_ops(g, (Val){i})) return false;
  assign_sweeps(r);
  return true;
}

// The row space of the kernel's first row op, or the last axis: a single sum may reduce axes of size 1 as well
// (reduce.c).
static RowSpace rows_of(const Fn *f, const Kernel *k) {
  RowSpace rows;
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    if (ir_row_space(f, (Val){i}, &rows)) return rows;
  Shape s = ir_ins(f, ir_arg(f, (Val){k->first}, 0))->shape;
  return (RowSpace){s, ir_rank(f->prog, s) - 1};
}

static void emit_loop(Row *r, V lo, V hi) {
  Cg *c = r->c;
  Loop l;
  V step = cg_i64(c, is_interleaving(r) ? c->t->vl : 1);
  cg_loop_begin(c, &l, lo, hi, step, NULL, 0);
  if (r->strided) emit_strided_rows(r, l.i);
  else if (r->row_per_lane) emit_row_per_lane(r, l.i, cg_min(c, step, cg_sub(c, hi, l.i)));
  else emit_row(r, l.i);
  cg_loop_end(c, &l, NULL);
}

static void emit_rows(Row *r, V n, bool alone) {
  int64_t vl = r->c->t->vl, grain = r->bound < 1 ? GRAIN : r->bound < GRAIN ? GRAIN / r->bound : 1;
  V lo = cg_i64(r->c, 0);
  if (r->strided) grain = grain > vl ? grain / vl : 1;
  else if (r->row_per_lane) grain = (grain + vl - 1) / vl * vl;
  if (!alone) cg_share(r->c, n, grain, &lo, &n);
  emit_loop(r, lo, n);
}

// With column sums, the unit of work is a chunk of rows.
static void emit_chunks(Row *r, V n, bool alone) {
  Cg *c = r->c;
  V lo = cg_i64(c, 0), hi = cg_i64(c, r->columns.n_chunks), size = cg_i64(c, r->columns.chunk);
  Loop chunk, step;
  if (!alone) cg_share(c, hi, 1, &lo, &hi);
  cg_loop_begin(c, &chunk, lo, hi, cg_i64(c, 1), NULL, 0);
  cg_column_sum_begin(&r->columns, chunk.i);
  V first = cg_min(c, n, cg_mul(c, chunk.i, size)), end = cg_min(c, n, cg_add(c, first, size));
  cg_loop_begin(c, &step, first, end, cg_i64(c, COLUMN_STEP), NULL, 0);
  emit_loop(r, step.i, cg_min(c, end, cg_add(c, step.i, cg_i64(c, COLUMN_STEP))));
  cg_column_sum_fold(&r->columns);
  cg_loop_end(c, &step, NULL);
  cg_loop_end(c, &chunk, NULL);
  cg_column_sum_finish(&r->columns, alone);
}

// Units of work: rows, or vectors of adjacent strided rows.
static V units_of(Row *r) {
  Cg *c = r->c;
  V before = cg_i64(c, 1), stride = cg_i64(c, 1);
  for (uint32_t k = 0; k < r->g.rank; k++) {
    V size = cg_dim(c, ir_dim_at(c->f->prog, r->g.shape, k));
    if (k < r->g.axis) before = cg_mul(c, before, size);
    else if (k > r->g.axis) stride = cg_mul(c, stride, size);
  }
  r->stride = stride;
  return r->strided ? cg_mul(c, before, cg_ceil_div_value(c, stride, c->t->vl)) : before;
}

bool cg_emit_row(Cg *c) {
  const Prog *p = c->f->prog;
  RowSpace space = rows_of(c->f, c->k);
  Shape shape = space.shape;
  Row r = {.c = c, .g = {.c = c, .shape = shape, .axis = space.axis, .rank = ir_rank(p, shape)}};
  Dim width = ir_dim_at(p, shape, space.axis);
  r.size = cg_dim(c, width);
  r.bound = ir_dim_bound(p, width);
  r.strided = space.axis + 1 < r.g.rank;
  cg_column_sum_open(&r.columns, c, shape);
  if (!make_graph(&r)) return false;
  V lo = cg_i64(c, 0), hi = units_of(&r);
  r.row_per_lane = r.strided || is_row_per_lane(&r, width);
  make_buffers(&r);
  If s;
  bool alone = ir_shape_bound(p, shape) < SMALL;
  if (alone) cg_if(c, &s, LLVMBuildICmp(c->b, LLVMIntEQ, c->worker, lo, ""));
  if (r.columns.n) emit_chunks(&r, hi, alone);
  else emit_rows(&r, hi, alone);
  if (alone) cg_endif(c, &s);
  return true;
}
