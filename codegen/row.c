// Row kernels: everything that is computed for one row of the last axis, while the row stays in the first-level cache.
//
//   %d = sub %x, %m            row 0:  sweep 0   sum of x                       -> mean
//   %y = layer_norm %d, ..             sweep 1   sum of (x - mean)^2            -> rstd
//   %z = gelu %y                       sweep 2   z = gelu((x - mean) rstd w + b), stored
//
// The instructions become nodes (row_ops.c). A sweep goes once over the row, in vectors of vl lanes; it ends where a
// sum or maximum must be known. What a later sweep needs of an earlier one is read or computed again when that is
// cheap, else kept in a buffer of one row on the stack.
//
// Sums over all rows (row_columns.c) take their elements in the last sweep, while those are at hand.
//
// Workers take whole rows, so that no result depends on their number. All stores of a row come in its last sweep, and
// those of a vector after all its loads: results may lie in the memory of operands that are read element by element.
#include "codegen/row.h"
#include "codegen/row_columns.h"

#include <math.h>
#include <string.h>

typedef LLVMValueRef V;

enum {
  SMALL = 4096,          // elements below which one worker does all
  GRAIN = 1024,          // elements of a worker's share, at least
  KEPT_BYTES = 1 << 16,  // of row buffers, all together
  CHEAP = 2,             // operations that are rather done again than kept
  LIGHT = 6,
  HEAVY = 24  // operations of a vector: below and above which 4 and 1 vectors go side by side
};

typedef struct {
  RowGraph g;
  Cg *c;
  V size;             // elements of a row
  V index, element;   // the row at hand; its first element
  V outer[MAX_RANK];  // its index by axis, made when wanted
  uint32_t last, stamp, n_kept;
  int64_t bound;  // of size
  V i, mask;      // of the vector at hand; mask NULL: all lanes
  Columns columns;
} Row;

static RowNode *at(Row *r, Node n) { return &r->g.node[n]; }

// ---- the graph
static bool is_element(const RowGraph *g, const RowNode *n) {
  if (n->kind == NODE_MEM || n->kind == NODE_HIT) return true;
  if (n->kind != NODE_WORD && n->kind != NODE_FMA) return n->elem;
  for (uint32_t k = 0; k < n->n_args; k++)
    if (g->node[n->arg[k]].elem) return true;
  return false;
}

static bool is_reduction(const RowNode *n) {
  return n->kind == NODE_SUM || n->kind == NODE_DOT || n->kind == NODE_MAX || n->kind == NODE_TOP;
}

static bool same_node(const RowNode *a, const RowNode *b) {
  return a->kind == b->kind && a->op == b->op && a->n_args == b->n_args && !memcmp(a->arg, b->arg, sizeof a->arg) &&
         a->v.i == b->v.i && a->shown == b->shown && !memcmp(&a->num, &b->num, sizeof a->num);
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

static bool is_one(const RowGraph *g, Dim d) {
  return ir_dim_is_const(g->c->f->prog, d) && ir_dim_bound(g->c->f->prog, d) == 1;
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
  return cg_row_node(g, (RowNode){.kind = (uint8_t)kind, .v = v, .shown = shown});
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
  if (to->shape.i != g->shape.i) return memory(g, a, NODE_CELL, shown);
  bool still = rank == 0 || is_one(g, dim_at(g, a, rank - 1));
  return memory(g, a, still ? NODE_CELL : NODE_MEM, shown);
}

Node cg_row_cell(RowGraph *g, Val v, uint32_t k) {
  Val a = ir_arg(g->c->f, v, k);
  Node n;
  if (in_kernel(g, a)) return g->of[a.i - g->c->k->first];
  return immediate(g, a, &n) ? n : memory(g, a, NODE_CELL, g->rank - 1);
}

Node cg_row_weight(RowGraph *g, Val v, uint32_t k) {
  Val a = ir_arg(g->c->f, v, k);
  Node n;
  if (in_kernel(g, a)) return g->of[a.i - g->c->k->first];
  return immediate(g, a, &n) ? n : memory(g, a, NODE_MEM, g->rank);
}

// ---- what is computed where
static uint32_t cost_of(const Row *r, const RowNode *n) {
  switch ((NodeKind)n->kind) {
  case NODE_FMA: return 1;
  case NODE_HIT: return 2;
  case NODE_WORD: return cg_word_cost((Op)n->op);
  case NODE_INS: return cg_word_cost((Op)ir_ins(r->c->f, n->v)->op);
  default: return 0;
  }
}

// Operations that it takes to have n in sweep s again.
static uint32_t again(Row *r, Node k, uint32_t s) {
  const RowNode *n = at(r, k);
  if (!n->elem || n->keep) return 0;
  uint32_t sum = cost_of(r, n);
  for (uint32_t j = 0; j < n->n_args && sum <= CHEAP; j++) sum += again(r, n->arg[j], s);
  return sum;
}

static void want(Row *r, Node k, uint32_t s);

static void want_cell(Row *r, Node k) {
  RowNode *n = at(r, k);
  if (n->live) return;
  n->live = true;
  for (uint32_t j = 0; j < n->n_args; j++) want(r, n->arg[j], n->level - 1);
}

// Node k is read in sweep s.
static void want(Row *r, Node k, uint32_t s) {
  RowNode *n = at(r, k);
  if (!n->elem) {
    want_cell(r, k);
    return;
  }
  n->live = true;
  if (n->keep) return;
  bool room = (r->n_kept + 1) * r->bound * 4 <= KEPT_BYTES;
  if (n->level < s && again(r, k, s) > CHEAP && room) {
    n->keep = true;
    r->n_kept++;
    s = n->level;
  }
  for (uint32_t j = 0; j < n->n_args; j++) want(r, n->arg[j], s);
}

static Node node_of(Row *r, Val v) { return r->g.of[v.i - r->c->k->first]; }
static bool is_row_shaped(Row *r, Val v) { return ir_ins(r->c->f, v)->shape.i == r->g.shape.i; }

// Results of the kernel with a node; sums over all rows are apart.
static bool is_stored(Row *r, Val v) {
  const Ins *ins = ir_ins(r->c->f, v);
  Shape rows;
  if (ins->op == OP_sum && ir_column_sum(r->c->f, v, &rows)) return false;
  return in_kernel(&r->g, v) && cg_stored(r->c, v) && ir_type_bytes(r->c->f->prog, (DType)ins->dtype, ins->shape) > 0;
}

// What sum j over all rows adds up.
static Node summed(Row *r, uint32_t j) { return node_of(r, r->columns.sum[j].v); }

static void reach(Row *r, Node k, bool *seen) {
  const RowNode *n = at(r, k);
  if (seen[k]) return;
  seen[k] = true;
  uint32_t s = is_reduction(n) ? n->level - 1 : n->elem ? n->level : 0;
  if (s > r->last) r->last = s;
  for (uint32_t j = 0; j < n->n_args; j++) reach(r, n->arg[j], seen);
}

// Sums and maxima first, in the order of sweeps: what is kept for one of them costs a later sweep nothing.
static void want_reductions(Row *r, const bool *seen) {
  for (uint32_t s = 0; s <= r->last; s++)
    for (uint32_t k = 1; k < r->g.n; k++)
      if (seen[k] && is_reduction(at(r, k)) && at(r, k)->level == s + 1) want_cell(r, k);
}

static void place(Row *r) {
  Kernel k = *r->c->k;
  bool *seen = rt_alloc(r->c->mem, r->g.n);
  for (uint32_t i = k.first; i < k.first + k.n; i++) {
    if (!is_stored(r, (Val){i})) continue;
    reach(r, node_of(r, (Val){i}), seen);
    const RowNode *n = at(r, node_of(r, (Val){i}));
    if (is_row_shaped(r, (Val){i}) && n->level > r->last) r->last = n->level;
  }
  for (uint32_t j = 0; j < r->columns.n; j++) {
    const RowNode *n = at(r, summed(r, j));
    reach(r, summed(r, j), seen);
    if (n->level > r->last) r->last = n->level;
  }
  for (uint32_t n = 1; n < r->g.n; n++)  // reports happen even where nobody wants the label
    if (at(r, n)->kind == NODE_LABEL && at(r, n)->op & LABEL_REPORTS) want_cell(r, n);
  want_reductions(r, seen);
  for (uint32_t i = k.first; i < k.first + k.n; i++)
    if (is_stored(r, (Val){i})) want(r, node_of(r, (Val){i}), r->last);
  for (uint32_t j = 0; j < r->columns.n; j++) want(r, summed(r, j), r->last);
}

// ---- one row
static V outer_index(Row *r, uint32_t axis) {
  Cg *c = r->c;
  if (r->outer[axis]) return r->outer[axis];
  V rest = r->index;
  for (uint32_t j = r->g.rank - 1; j-- > 0;) {
    V size = cg_dim(c, ir_dim_at(c->f->prog, r->g.shape, j));
    r->outer[j] = j ? LLVMBuildURem(c->b, rest, size, "") : rest;
    if (j) rest = LLVMBuildUDiv(c->b, rest, size, "");
  }
  return r->outer[axis];
}

// Steps through all rows one after the other, each `width` of the operand's elements.
static bool in_order(Row *r, const RowNode *n) {
  uint32_t rank = ir_rank(r->c->f->prog, ir_ins(r->c->f, n->v)->shape);
  for (uint32_t j = 0; j + 1 < r->g.rank; j++) {
    int axis = (int)(j + rank) - (int)n->shown;
    if (axis < 0 || dim_at(&r->g, n->v, (uint32_t)axis).i != ir_dim_at(r->c->f->prog, r->g.shape, j).i) return false;
  }
  return true;
}

static V first_of(Row *r, const RowNode *n) {
  Cg *c = r->c;
  uint32_t rank = ir_rank(c->f->prog, ir_ins(c->f, n->v)->shape);
  if (in_order(r, n)) return n->kind == NODE_MEM ? r->element : r->index;
  V offset = cg_i64(c, 0), stride = cg_i64(c, 1);
  for (uint32_t axis = rank; axis-- > 0;) {
    int j = (int)(axis + n->shown) - (int)rank;
    Dim d = dim_at(&r->g, n->v, axis);
    if (j + 1 < (int)r->g.rank && !is_one(&r->g, d))
      offset = cg_add(c, offset, cg_mul(c, outer_index(r, (uint32_t)j), stride));
    stride = cg_mul(c, stride, cg_dim(c, d));
  }
  return offset;
}

static V label(Row *r, const RowNode *n) {
  Cg *c = r->c;
  V x = at(r, n->arg[0])->cell, ok = LLVMBuildICmp(c->b, LLVMIntULT, x, r->size, "");
  If s;
  V ignored = n->op & LABEL_IGNORES ? LLVMBuildICmp(c->b, LLVMIntEQ, x, cg_i64(c, (int64_t)n->num), "") : NULL;
  if (n->op & LABEL_REPORTS) {
    cg_if(c, &s, LLVMBuildNot(c->b, ignored ? LLVMBuildOr(c->b, ok, ignored, "") : ok, ""));
    cg_report(c, TN_KERR_INDEX_RANGE, r->index, x);
    cg_endif(c, &s);
  }
  if (ignored) ok = LLVMBuildAnd(c->b, ok, LLVMBuildNot(c->b, ignored, ""), "");
  return LLVMBuildSelect(c->b, ok, x, cg_i64(c, -1), "");
}

static V not_negative(Row *r, V x) { return LLVMBuildICmp(r->c->b, LLVMIntSGE, x, cg_i64(r->c, 0), ""); }

static V pick(Row *r, const RowNode *n) {
  Cg *c = r->c;
  V at_label = at(r, n->arg[1])->cell, none = cg_f32(c, 0);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(c->b);
  If s;
  cg_if(c, &s, not_negative(r, at_label));
  V x = cg_load(c, c->f32, cg_at(c, c->f32, at(r, n->arg[0])->row, at_label));
  LLVMBasicBlockRef loaded = LLVMGetInsertBlock(c->b);
  cg_endif(c, &s);
  V phi = LLVMBuildPhi(c->b, c->f32, "");
  // cg_endif's join is the else block itself, entered from both sides
  LLVMAddIncoming(phi, (V[]){none, x}, (LLVMBasicBlockRef[]){before, loaded}, 2);
  return phi;
}

static V load_cell(Row *r, const RowNode *n) {
  Cg *c = r->c;
  LLVMTypeRef t = ir_ins(c->f, n->v)->dtype == DT_I64 ? c->i64 : c->f32;
  return cg_load(c, t, cg_at(c, t, cg_ptr(c, n->v), first_of(r, n)));
}

static V compute(Row *r, RowNode *n, V *arg, V element) {
  Cg *c = r->c;
  if (n->kind == NODE_FMA) return cg_fma(c, arg[0], arg[1], arg[2]);
  return n->kind == NODE_WORD ? cg_word(c, (Op)n->op, arg) : cg_row(c, n->v, arg, element);
}

static V make_cell(Row *r, RowNode *n) {
  Cg *c = r->c;
  V arg[3] = {NULL};
  switch ((NodeKind)n->kind) {
  case NODE_NUMBER: return cg_f32(c, n->num);
  case NODE_SIZE: return LLVMBuildSIToFP(c->b, r->size, c->f32, "");
  case NODE_VALUE: return LLVMBuildSIToFP(c->b, cg_dim(c, ir_attr(c->f, n->v, KEY_dim)->u.dim), c->f32, "");
  case NODE_CELL: return load_cell(r, n);
  case NODE_LABEL: return label(r, n);
  case NODE_VALID:
    return LLVMBuildSelect(c->b, not_negative(r, at(r, n->arg[0])->cell), cg_f32(c, 1), cg_f32(c, 0), "");
  case NODE_PICK: return pick(r, n);
  default: break;
  }
  for (uint32_t k = 0; k < n->n_args; k++) arg[k] = at(r, n->arg[k])->cell;
  return compute(r, n, arg, r->index);
}

// Cells that are there before sweep s; sums and maxima were made by the sweep before it.
static void make_cells(Row *r, uint32_t s) {
  for (uint32_t k = 1; k < r->g.n; k++) {
    RowNode *n = at(r, k);
    if (n->elem && n->live && n->kind == NODE_MEM && s == 0) {
      V first = first_of(r, n);
      n->row = cg_at(r->c, r->c->f32, cg_ptr(r->c, n->v), first);
    }
    if (n->elem || !n->live || n->level != s || is_reduction(n)) continue;
    n->cell = make_cell(r, n);
  }
}

// ---- one vector
static V lane_numbers(Cg *c, LLVMTypeRef t) {
  V lane[64];
  for (uint32_t k = 0; k < c->t->vl; k++) lane[k] = LLVMConstInt(t, k, false);
  return LLVMConstVector(lane, c->t->vl);
}

static V load(Row *r, V row) {
  Cg *c = r->c;
  V p = cg_at(c, c->f32, row, r->i);
  return r->mask ? cg_load_masked(c, c->vf, p, r->mask) : cg_load(c, c->vf, p);
}

static V hit(Row *r, const RowNode *n) {
  Cg *c = r->c;
  V place = LLVMBuildSub(c->b, at(r, n->arg[0])->cell, r->i, "");  // labels and rows are below 2^31
  place = cg_splat(c, LLVMBuildTrunc(c->b, place, c->i32, ""));
  V is = LLVMBuildICmp(c->b, LLVMIntEQ, place, lane_numbers(c, c->i32), "");
  return LLVMBuildSelect(c->b, is, cg_splat(c, cg_f32(c, 1)), cg_splat(c, cg_f32(c, 0)), "");
}

static V element_numbers(Row *r) {
  Cg *c = r->c;
  return LLVMBuildAdd(c->b, cg_splat(c, cg_add(c, r->element, r->i)), lane_numbers(c, c->i64), "");
}

// Node k at the vector at hand, in sweep s.
static V vector(Row *r, Node k, uint32_t s) {
  RowNode *n = at(r, k);
  V arg[3] = {NULL};
  if (!n->elem) return cg_splat(r->c, n->cell);
  if (n->stamp == r->stamp) return n->value;
  if (n->keep && n->level < s) {
    n->value = cg_load(r->c, r->c->vf, cg_at(r->c, r->c->f32, n->kept, r->i));
  } else if (n->kind == NODE_MEM) {
    n->value = load(r, n->row);
  } else if (n->kind == NODE_HIT) {
    n->value = hit(r, n);
  } else {
    for (uint32_t j = 0; j < n->n_args; j++) arg[j] = vector(r, n->arg[j], s);
    n->value = compute(r, n, arg, element_numbers(r));
  }
  n->stamp = r->stamp;
  return n->value;
}

static V larger(Cg *c, V a, V b) { return LLVMBuildSelect(c->b, LLVMBuildFCmp(c->b, LLVMRealOGT, a, b, ""), a, b, ""); }

static V join(Row *r, const RowNode *n, V a, V b) {
  if (n->kind == NODE_TOP) return larger(r->c, b, a);
  return cg_word(r->c, n->kind == NODE_MAX ? OP_max : OP_add, (V[]){a, b});
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
  uint32_t n_red, wide;  // wide: vectors side by side, each with accumulators of its own
} Sweep;

static void store_all(Row *r, uint32_t s) {
  Cg *c = r->c;
  Kernel k = *c->k;
  V *value = rt_alloc(c->mem, k.n * sizeof *value);
  for (uint32_t j = 0; j < k.n; j++) {
    Val v = {k.first + j};
    if (is_stored(r, v) && is_row_shaped(r, v)) value[j] = vector(r, node_of(r, v), s);
  }
  for (uint32_t j = 0; j < r->columns.n; j++) cg_columns_add(&r->columns, j, r->i, vector(r, summed(r, j), s), r->mask);
  for (uint32_t j = 0; j < k.n; j++) {
    if (!value[j]) continue;
    V p = cg_at(c, c->f32, cg_ptr(c, (Val){k.first + j}), cg_add(c, r->element, r->i));
    r->mask ? cg_store_masked(c, value[j], p, r->mask) : cg_store(c, value[j], p);
  }
}

// The vector at i; acc: one accumulator for each reduction.
static void emit_vector(Row *r, const Sweep *s, V i, V mask, V *acc) {
  r->i = i, r->mask = mask;
  r->stamp++;
  for (uint32_t k = 1; k < r->g.n; k++) {
    RowNode *n = at(r, k);
    if (!n->keep || n->level != s->number) continue;
    V x = vector(r, k, s->number);
    cg_store(r->c, x, cg_at(r->c, r->c->f32, n->kept, i));
  }
  for (uint32_t k = 0; k < s->n_red; k++) acc[k] = add_vector(r, at(r, s->red[k]), s->number, acc[k]);
  if (s->number == r->last) store_all(r, s->number);
}

static bool is_zero(V v) { return LLVMIsAConstantInt(v) && LLVMConstIntGetSExtValue(v) == 0; }
static V multiple(Cg *c, V n, int64_t of) { return cg_mul(c, cg_div(c, n, cg_i64(c, of)), cg_i64(c, of)); }

// Vectors [lo, hi), `wide` at once; acc: wide groups of n_red.
static void emit_span(Row *r, const Sweep *s, V lo, V hi, uint32_t wide, V *acc) {
  Cg *c = r->c;
  int64_t vl = c->t->vl;
  Loop l;
  if (is_zero(hi) || lo == hi) return;
  uint32_t n = wide * s->n_red;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, wide * vl), acc, n);
  memcpy(acc, l.carry, n * sizeof *acc);
  for (uint32_t w = 0; w < wide; w++) emit_vector(r, s, cg_add(c, l.i, cg_i64(c, w * vl)), NULL, acc + w * s->n_red);
  cg_loop_end(c, &l, acc);
  memcpy(acc, l.out, n * sizeof *acc);
}

static void finish(Row *r, const Sweep *s, V *acc) {
  for (uint32_t k = 0; k < s->n_red; k++) {
    RowNode *n = at(r, s->red[k]);
    V all[4];
    for (uint32_t w = 0; w < s->wide; w++) all[w] = acc[w * s->n_red + k];
    for (uint32_t w = s->wide; w > 1; w /= 2)
      for (uint32_t j = 0; j < w / 2; j++) all[j] = join(r, n, all[j], all[j + w / 2]);
    n->cell = n->kind == NODE_SUM || n->kind == NODE_DOT ? cg_reduce_add(r->c, all[0]) : cg_reduce_max(r->c, all[0]);
  }
}

// Operations of a vector in this sweep.
static uint32_t work_of(Row *r, const Sweep *s) {
  uint32_t sum = s->n_red;
  for (uint32_t k = 1; k < r->g.n; k++)
    if (at(r, k)->elem && at(r, k)->live && (at(r, k)->level == s->number || (!at(r, k)->keep && s->number == r->last)))
      sum += cost_of(r, at(r, k));
  return sum;
}

static Sweep plan_sweep(Row *r, uint32_t number) {
  Sweep s = {.number = number};
  for (uint32_t k = 1; k < r->g.n && s.n_red < MAX_CARRY; k++)
    if (is_reduction(at(r, k)) && at(r, k)->live && at(r, k)->level == number + 1) s.red[s.n_red++] = k;
  uint32_t work = work_of(r, &s);
  s.wide = work > HEAVY || s.n_red > MAX_CARRY / 4 ? 1 : work > LIGHT ? 2 : 4;
  return s;
}

// Wide groups of vectors, whole vectors, and a masked one, which may be empty.
static void emit_sweep(Row *r, uint32_t number) {
  Cg *c = r->c;
  Sweep s = plan_sweep(r, number);
  int64_t vl = c->t->vl;
  V acc[MAX_CARRY], groups = multiple(c, r->size, s.wide * vl), whole = multiple(c, r->size, vl);
  V rest = cg_sub(c, r->size, whole);
  for (uint32_t w = 0; w < s.wide; w++)
    for (uint32_t k = 0; k < s.n_red; k++) {
      NodeKind kind = (NodeKind)at(r, s.red[k])->kind;
      acc[w * s.n_red + k] = cg_splat(c, cg_f32(c, kind == NODE_SUM || kind == NODE_DOT ? 0 : -INFINITY));
    }
  emit_span(r, &s, cg_i64(c, 0), groups, s.wide, acc);
  if (s.wide > 1) emit_span(r, &s, groups, whole, 1, acc);
  if (!is_zero(rest)) emit_vector(r, &s, whole, cg_mask(c, rest), acc);
  finish(r, &s, acc);
}

static void store_cells(Row *r) {
  Cg *c = r->c;
  for (uint32_t i = c->k->first; i < c->k->first + c->k->n; i++) {
    Val v = {i};
    if (is_stored(r, v) && !is_row_shaped(r, v))
      cg_store(c, at(r, node_of(r, v))->cell, cg_at(c, c->f32, cg_ptr(c, v), r->index));
  }
}

static void emit_row(Row *r, V index) {
  r->index = index;
  r->element = cg_mul(r->c, index, r->size);
  memset(r->outer, 0, sizeof r->outer);
  for (uint32_t s = 0; s <= r->last; s++) {
    make_cells(r, s);
    emit_sweep(r, s);
  }
  make_cells(r, r->last + 1);
  store_cells(r);
}

// ---- the kernel
// Buffers of a row, whole vectors of it, in the entry block.
static void make_buffers(Row *r) {
  Cg *c = r->c;
  int64_t vl = c->t->vl, n = (r->bound / vl + 1) * vl;  // a tail without lanes stores too
  for (uint32_t k = 1; k < r->g.n; k++) {
    if (!at(r, k)->keep) continue;
    V buffer = LLVMBuildArrayAlloca(c->b, c->f32, cg_i64(c, n), "kept");
    LLVMSetAlignment(buffer, 64);
    at(r, k)->kept = buffer;
  }
}

static bool make_graph(Row *r) {
  Kernel k = *r->c->k;
  RowGraph *g = &r->g;
  g->of = rt_alloc(r->c->mem, (k.n + 1) * sizeof *g->of);
  *RT_PUSH(r->c->mem, g->node, g->n, g->cap) = (RowNode){0};
  for (uint32_t i = k.first; i < k.first + k.n; i++)
    if (in_kernel(g, (Val){i}) && ir_ins(r->c->f, (Val){i})->op != OP_result && !cg_row_ops(g, (Val){i})) return false;
  place(r);
  return true;
}

// The rows are those of the first instruction that works on rows.
static Shape rows_of(const Fn *f, const Kernel *k) {
  uint32_t i = k->first;
  while (ir_ops[f->ins[i].op].cls != CLASS_ROW && ir_ops[f->ins[i].op].cls != CLASS_REDUCE) i++;
  return ir_ins(f, ir_arg(f, (Val){i}, 0))->shape;
}

static void emit_loop(Row *r, V lo, V hi) {
  Loop l;
  cg_loop_begin(r->c, &l, lo, hi, cg_i64(r->c, 1), NULL, 0);
  emit_row(r, l.i);
  cg_loop_end(r->c, &l, NULL);
}

static void emit_rows(Row *r, V n, bool alone) {
  V lo = cg_i64(r->c, 0);
  if (!alone) cg_share(r->c, n, r->bound < GRAIN ? GRAIN / r->bound : 1, &lo, &n);
  emit_loop(r, lo, n);
}

// With sums over all rows workers take chunks of rows.
static void emit_chunks(Row *r, V n, bool alone) {
  Cg *c = r->c;
  V lo = cg_i64(c, 0), hi = cg_i64(c, r->columns.n_chunks), size = cg_i64(c, r->columns.chunk);
  Loop chunk, step;
  if (!alone) cg_share(c, hi, 1, &lo, &hi);
  cg_loop_begin(c, &chunk, lo, hi, cg_i64(c, 1), NULL, 0);
  cg_columns_begin(&r->columns, chunk.i);
  V first = cg_min(c, n, cg_mul(c, chunk.i, size)), end = cg_min(c, n, cg_add(c, first, size));
  cg_loop_begin(c, &step, first, end, cg_i64(c, COLUMN_STEP), NULL, 0);
  emit_loop(r, step.i, cg_min(c, end, cg_add(c, step.i, cg_i64(c, COLUMN_STEP))));
  cg_columns_fold(&r->columns);
  cg_loop_end(c, &step, NULL);
  cg_loop_end(c, &chunk, NULL);
  cg_columns_finish(&r->columns, alone);
}

bool cg_emit_row(Cg *c) {
  const Prog *p = c->f->prog;
  Shape shape = rows_of(c->f, c->k);
  Row r = {.c = c, .g = {.c = c, .shape = shape, .rank = ir_rank(p, shape)}};
  Dim width = ir_dim_at(p, shape, r.g.rank - 1);
  r.size = cg_dim(c, width);
  r.bound = ir_dim_bound(p, width);
  cg_columns_open(&r.columns, c, shape);
  if (!make_graph(&r)) return false;
  V lo = cg_i64(c, 0), hi = cg_i64(c, 1);
  for (uint32_t k = 0; k + 1 < r.g.rank; k++) hi = cg_mul(c, hi, cg_dim(c, ir_dim_at(p, shape, k)));
  make_buffers(&r);
  If s;
  bool alone = ir_shape_bound(p, shape) < SMALL;
  if (alone) cg_if(c, &s, LLVMBuildICmp(c->b, LLVMIntEQ, c->worker, lo, ""));
  if (r.columns.n) emit_chunks(&r, hi, alone);
  else emit_rows(&r, hi, alone);
  if (alone) cg_endif(c, &s);
  return true;
}
