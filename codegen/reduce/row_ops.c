// Row kernels: lowering of row ops to nodes. The formulas; memory and loops are in row.c.
#include "codegen/reduce/cascade.h"
#include "codegen/reduce/row.h"
#include "ir/passes/plan.h"

#include <math.h>

static Node number(RowGraph *g, double x) { return cg_row_node(g, (RowNode){.kind = NODE_NUMBER, .num = x}); }
static Node size_of(RowGraph *g) { return cg_row_node(g, (RowNode){.kind = NODE_SIZE}); }

static Node primitive(RowGraph *g, Op op, Node a, Node b) {
  return cg_row_node(g, (RowNode){.kind = NODE_PRIMITIVE, .op = (uint16_t)op, .n_args = b ? 2 : 1, .arg = {a, b}});
}
static Node add(RowGraph *g, Node a, Node b) { return primitive(g, OP_add, a, b); }
static Node sub(RowGraph *g, Node a, Node b) { return primitive(g, OP_sub, a, b); }
static Node mul(RowGraph *g, Node a, Node b) { return primitive(g, OP_mul, a, b); }
static Node div_by(RowGraph *g, Node a, Node b) { return primitive(g, OP_div, a, b); }
static Node exp_of(RowGraph *g, Node a) { return primitive(g, OP_exp, a, 0); }
static Node fma_of(RowGraph *g, Node a, Node b, Node d) {
  return cg_row_node(g, (RowNode){.kind = NODE_FMA, .n_args = 3, .arg = {a, b, d}});
}
static Node select_of(RowGraph *g, Node cond, Node a, Node b) {
  return cg_row_node(g, (RowNode){.kind = NODE_PRIMITIVE, .op = OP_select, .n_args = 3, .arg = {cond, a, b}});
}
static Node reduce(RowGraph *g, NodeKind kind, Node a) {
  return cg_row_node(g, (RowNode){.kind = (uint8_t)kind, .n_args = 1, .arg = {a}});
}
static Node dot(RowGraph *g, Node a, Node b) {
  return cg_row_node(g, (RowNode){.kind = NODE_DOT, .n_args = 2, .arg = {a, b}});
}

static void set(RowGraph *g, Val v, uint32_t k, Node n) { g->of[v.i + k - g->c->k->first] = n; }
static Node arg(RowGraph *g, Val v, uint32_t k) { return cg_row_operand(g, v, k); }

// ---- softmax family
static Node exps(RowGraph *g, Node a, Node *top) {
  *top = reduce(g, NODE_TOP, a);
  return exp_of(g, sub(g, a, *top));
}

static void softmax(RowGraph *g, Val v) {
  Node top, e = exps(g, arg(g, v, 0), &top), sum = reduce(g, NODE_SUM, e);
  set(g, v, 0, mul(g, e, div_by(g, number(g, 1), sum)));
}

static void log_softmax(RowGraph *g, Val v) {
  Node a = arg(g, v, 0), top, e = exps(g, a, &top), sum = reduce(g, NODE_SUM, e), below = sub(g, a, top);
  set(g, v, 0, sub(g, below, primitive(g, OP_log, sum, 0)));
}

static void softmax_grad(RowGraph *g, Val v) {
  Node y = arg(g, v, 0), d = arg(g, v, 1), sum = dot(g, y, d);
  set(g, v, 0, mul(g, y, sub(g, d, sum)));
}

static void log_softmax_grad(RowGraph *g, Val v) {
  Node y = arg(g, v, 0), d = arg(g, v, 1), e = exp_of(g, y), sum = reduce(g, NODE_SUM, d), scaled = mul(g, e, sum);
  set(g, v, 0, sub(g, d, scaled));
}

// ---- cross-entropy
static Node label_of(RowGraph *g, Val v, bool reports) {
  RowNode label = {
      .kind = NODE_LABEL, .op = reports ? LABEL_MAY_FAULT : 0, .n_args = 1, .arg = {cg_row_scalar(g, v, 1)}};
  const Attr *ignore = ir_attr(g->c->f, v, KEY_ignore);
  if (ignore) label.op |= LABEL_IGNORES, label.num = (double)ignore->u.i;
  return cg_row_node(g, label);
}

static Node valid(RowGraph *g, Node label) { return reduce(g, NODE_VALID, label); }
static Node one_hot(RowGraph *g, Node label) { return reduce(g, NODE_ONE_HOT, label); }

// The element at the label's index: a gather from memory, or the sum over the one-hot selection.
static Node gather(RowGraph *g, Node a, Node label) {
  if (g->node[a].kind == NODE_MEM)
    return cg_row_node(g, (RowNode){.kind = NODE_GATHER, .n_args = 2, .arg = {a, label}});
  Node at = one_hot(g, label), zero = number(g, 0);
  return reduce(g, NODE_SUM, select_of(g, at, a, zero));
}

// A label out of range is reported at run time; its loss is 0, as is that of an ignored label.
static void cross_entropy_rows(RowGraph *g, Val v) {
  Node a = arg(g, v, 0), label = label_of(g, v, true), top, e = exps(g, a, &top), sum = reduce(g, NODE_SUM, e);
  Node at = gather(g, a, label), log_sum = primitive(g, OP_log, sum, 0), lse = add(g, top, log_sum),
       ok = valid(g, label);
  Node loss = sub(g, lse, at), zero = number(g, 0);
  set(g, v, 0, select_of(g, ok, loss, zero));
  set(g, v, 1, lse);
  if (g->n_lse < sizeof g->lse / sizeof *g->lse) g->lse[g->n_lse++] = (RowLse){lse, a, top, e, sum};
}

// softmax of the logits from the saved log-sum-exp
static Node probability(RowGraph *g, Node a, Node lse) {
  for (uint32_t k = 0; k < g->n_lse; k++)
    if (g->lse[k].lse == lse && g->lse[k].logits == a)
      return mul(g, g->lse[k].exps, div_by(g, number(g, 1), g->lse[k].sum));
  return exp_of(g, sub(g, a, lse));
}

// Rows without a valid label have a gradient of zeros, whatever their logits are.
static void cross_entropy_rows_grad(RowGraph *g, Val v) {
  Node a = arg(g, v, 0), label = label_of(g, v, false), ok = valid(g, label), zero = number(g, 0);
  Node p = probability(g, a, cg_row_scalar(g, v, 2)), at = one_hot(g, label);
  Node y = mul(g, sub(g, p, at), cg_row_scalar(g, v, 3));
  set(g, v, 0, select_of(g, ok, y, zero));
}

// ---- norms
static Node mean(RowGraph *g, Node sum) { return div_by(g, sum, size_of(g)); }

// The mean of x by its sum over n: sums differences from one of the elements. So the mean of equal elements
// is that element, and its rounding error is of the size of their differences, not of their distance from 0.
static Node mean_about_pivot(RowGraph *g, Node x, Node n, uint32_t places) {
  Node pivot = cg_row_node(g, (RowNode){.kind = NODE_PIVOT, .n_args = 1, .arg = {x}, .num = places});
  return fma_of(g, reduce(g, NODE_SUM, sub(g, x, pivot)), div_by(g, number(g, 1), n), pivot);
}

static Node rstd_of(RowGraph *g, Val v, Node squares) {
  Node eps = number(g, ir_attr_num(g->c->f, v, KEY_eps, 0)), variance = mean(g, squares);
  Node root = primitive(g, OP_sqrt, add(g, variance, eps), 0);
  return div_by(g, number(g, 1), root);
}

static Node weighted(RowGraph *g, Val v, Node unit) {
  uint32_t weight = ir_operand_at(g->c->f, v, ARG_weight), bias = ir_operand_at(g->c->f, v, ARG_bias);
  if (weight == UINT32_MAX) return unit;
  Node w = cg_row_weight(g, v, weight);
  return bias == UINT32_MAX ? mul(g, unit, w) : fma_of(g, unit, w, cg_row_weight(g, v, bias));
}

// An outlier as pivot costs sqrt(n) 2^-25 of the deviation: little for short rows, whose first sweep would
// wait for the pivot.
static uint32_t places_of(const RowGraph *g) {
  enum { SHORT = 256 };
  const Prog *p = g->c->f->prog;
  return ir_dim_bound(p, ir_dim_at(p, g->shape, g->axis)) <= SHORT ? 1 : N_PIVOTS;
}

static void layer_norm(RowGraph *g, Val v) {
  Node x = arg(g, v, 0), m = mean_about_pivot(g, x, size_of(g), places_of(g)), d = sub(g, x, m),
       rstd = rstd_of(g, v, dot(g, d, d));
  set(g, v, 0, weighted(g, v, mul(g, d, rstd)));
  set(g, v, 1, m);
  set(g, v, 2, rstd);
}

static void rms_norm(RowGraph *g, Val v) {
  Node x = arg(g, v, 0), rstd = rstd_of(g, v, dot(g, x, x));
  set(g, v, 0, weighted(g, v, mul(g, x, rstd)));
  set(g, v, 1, rstd);
}

// With unit = (x - mean) rstd and h = g weight: rstd (h - mean of h - unit (mean of h unit)).
static void norm_grad(RowGraph *g, Val v) {
  const Fn *f = g->c->f;
  uint32_t mean_at = ir_operand_at(f, v, ARG_mean), weight = ir_operand_at(f, v, ARG_weight);
  bool layer = mean_at != UINT32_MAX;
  Node x = arg(g, v, 0), d = layer ? sub(g, x, cg_row_scalar(g, v, mean_at)) : x;
  Node rstd = cg_row_scalar(g, v, ir_operand_at(f, v, ARG_rstd)), h = arg(g, v, ir_operand_at(f, v, ARG_g));
  Node unit = mul(g, d, rstd);
  if (weight != UINT32_MAX) h = mul(g, h, cg_row_weight(g, v, weight));
  Node level = layer ? sub(g, h, mean(g, reduce(g, NODE_SUM, h))) : h;
  Node tilt = mean(g, dot(g, h, unit)), part = mul(g, unit, tilt);
  set(g, v, 0, mul(g, sub(g, level, part), rstd));
}

// ---- pointwise
static bool is_product(const RowGraph *g, Node a) {
  const RowNode *n = &g->node[a];
  if (n->kind == NODE_PRIMITIVE) return n->op == OP_mul;
  return n->kind == NODE_INS && ir_ins(g->c->f, n->v)->op == OP_mul;
}

// A sum of squares is contracted to FMAs, too.
static void sum(RowGraph *g, Val v) {
  Node a = arg(g, v, 0);
  RowSpace rows;
  if (ir_column_sum(g->c->f, v, &rows)) {  // the node of its operand
    set(g, v, 0, a);
    return;
  }
  const RowNode *n = &g->node[a];
  bool is_ins = n->kind == NODE_INS;
  if (is_ins && ir_ins(g->c->f, n->v)->op == OP_square) set(g, v, 0, dot(g, n->arg[0], n->arg[0]));
  else if (is_product(g, a) && n->elem) set(g, v, 0, dot(g, n->arg[0], n->arg[1]));
  else set(g, v, 0, reduce(g, NODE_SUM, a));
}

static void pointwise(RowGraph *g, Val v) {
  const Ins *ins = ir_ins(g->c->f, v);
  RowNode n = {.kind = NODE_INS, .v = v, .n_args = (uint8_t)ins->n_args};
  n.elem = cg_row_has_elements(g, ins->shape);
  for (uint32_t k = 0; k < ins->n_args; k++) n.arg[k] = arg(g, v, k);
  set(g, v, 0, cg_row_node(g, n));
}

bool cg_row_ops(RowGraph *g, Val v) {
  Op op = (Op)ir_ins(g->c->f, v)->op;
  switch (op) {
  case OP_softmax: softmax(g, v); break;
  case OP_softmax_grad: softmax_grad(g, v); break;
  case OP_log_softmax: log_softmax(g, v); break;
  case OP_log_softmax_grad: log_softmax_grad(g, v); break;
  case OP_cross_entropy_rows: cross_entropy_rows(g, v); break;
  case OP_cross_entropy_rows_grad: cross_entropy_rows_grad(g, v); break;
  case OP_layer_norm: layer_norm(g, v); break;
  case OP_rms_norm: rms_norm(g, v); break;
  case OP_layer_norm_grad:
  case OP_rms_norm_grad: norm_grad(g, v); break;
  case OP_sum: sum(g, v); break;
  case OP_mean: set(g, v, 0, mean_about_pivot(g, arg(g, v, 0), size_of(g), N_PIVOTS)); break;
  case OP_amax: set(g, v, 0, reduce(g, NODE_MAX, arg(g, v, 0))); break;
  case OP_output:
  case OP_reshape:
  case OP_expand: set(g, v, 0, arg(g, v, 0)); break;
  default:
    if (!ir_ops[op].is_pointwise) return rt_text_add(g->c->why, "%s is no row kernel", ir_ops[op].name), false;
    pointwise(g, v);
  }
  return true;
}
