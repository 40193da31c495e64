// Row kernels: softmax, log_softmax and the negative log likelihood, with their gradients. Each works on the last axis.
//
// A row is read two or three times from L1; sums are taken in vectors of vl lanes, then by a fixed tree. Workers take
// whole rows, so that no result depends on their number. Results may lie in an operand's memory: an element is written
// after every read of it.
#include "codegen/cg.h"

#include <math.h>

typedef LLVMValueRef V;

enum { SMALL = 4096, GRAIN = 1024 };

typedef struct Row {
  Cg *c;
  Val v;
  V size;      // elements of a row
  V index;     // the row at hand
  V a, b, to;  // the row at hand in the first two operands and in the result
  V x[4];      // what a step reads: splats and scalars of the row
} Row;

// What happens to the vector at element i of the row; mask NULL: all lanes. `sum` is carried along the row.
typedef V Step(Row *r, V i, V mask, V sum);

static V add(Row *r, V a, V b) { return LLVMBuildFAdd(r->c->b, a, b, ""); }
static V sub(Row *r, V a, V b) { return LLVMBuildFSub(r->c->b, a, b, ""); }
static V mul(Row *r, V a, V b) { return LLVMBuildFMul(r->c->b, a, b, ""); }
static V word(Row *r, Op op, V a) { return cg_word(r->c, op, &a); }
static V larger(Row *r, V a, V b) {
  return LLVMBuildSelect(r->c->b, LLVMBuildFCmp(r->c->b, LLVMRealOGT, a, b, ""), a, b, "");
}
static V lanes_or(Row *r, V mask, V x, double other) {
  return mask ? LLVMBuildSelect(r->c->b, mask, x, cg_splat(r->c, cg_f32(r->c, other)), "") : x;
}

static V load(Row *r, V row, V i, V mask) {
  V p = cg_at(r->c, r->c->f32, row, i);
  return mask ? cg_load_masked(r->c, r->c->vf, p, mask) : cg_load(r->c, r->c->vf, p);
}

static void store(Row *r, V x, V i, V mask) {
  V p = cg_at(r->c, r->c->f32, r->to, i);
  mask ? cg_store_masked(r->c, x, p, mask) : cg_store(r->c, x, p);
}

// Along the row: whole vectors, then a masked one, which may be empty. Gives the sum of all lanes of the carried
// vector.
static V sweep(Row *r, Step *step, double start) {
  Cg *c = r->c;
  V vl = cg_i64(c, c->t->vl), whole = cg_mul(c, cg_div(c, r->size, vl), vl), rest = cg_sub(c, r->size, whole);
  V sum = cg_splat(c, cg_f32(c, start));
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), whole, vl, &sum, 1);
  sum = step(r, l.i, NULL, l.carry[0]);
  cg_loop_end(c, &l, &sum);
  sum = l.out[0];
  bool no_rest = LLVMIsAConstantInt(rest) && LLVMConstIntGetSExtValue(rest) == 0;
  return no_rest ? sum : step(r, whole, cg_mask(c, rest), sum);
}

// ---- steps
static V step_max(Row *r, V i, V mask, V m) {
  return larger(r, lanes_or(r, mask, load(r, r->a, i, mask), -INFINITY), m);
}

// x[0]: the maximum
static V step_sum_exp(Row *r, V i, V mask, V sum) {
  V e = word(r, OP_exp, sub(r, load(r, r->a, i, mask), r->x[0]));
  return add(r, sum, lanes_or(r, mask, e, 0));
}

static V step_store_exp(Row *r, V i, V mask, V sum) {
  V e = word(r, OP_exp, sub(r, load(r, r->a, i, mask), r->x[0]));
  store(r, e, i, mask);
  return add(r, sum, lanes_or(r, mask, e, 0));
}

// x[1]: 1 / the sum; the exponentials lie in the result
static V step_scale(Row *r, V i, V mask, V sum) {
  store(r, mul(r, load(r, r->to, i, mask), r->x[1]), i, mask);
  return sum;
}

// x[1]: ln of the sum
static V step_log(Row *r, V i, V mask, V sum) {
  store(r, sub(r, sub(r, load(r, r->a, i, mask), r->x[0]), r->x[1]), i, mask);
  return sum;
}

static V step_dot(Row *r, V i, V mask, V sum) {  // masked loads are zero elsewhere
  V a = load(r, r->a, i, mask), b = load(r, r->b, i, mask);
  return add(r, sum, mul(r, a, b));
}

static V step_softmax_grad(Row *r, V i, V mask, V sum) {
  V y = load(r, r->a, i, mask), g = load(r, r->b, i, mask);
  store(r, mul(r, y, sub(r, g, r->x[0])), i, mask);
  return sum;
}

static V step_sum_b(Row *r, V i, V mask, V sum) { return add(r, sum, load(r, r->b, i, mask)); }

static V step_log_softmax_grad(Row *r, V i, V mask, V sum) {
  V y = word(r, OP_exp, load(r, r->a, i, mask));
  V g = load(r, r->b, i, mask);
  store(r, sub(r, g, mul(r, y, r->x[0])), i, mask);
  return sum;
}

// x[0]: lse, x[1]: g (0 in a row without a valid label), x[2]: the label as i64
static V step_nll_grad(Row *r, V i, V mask, V sum) {
  Cg *c = r->c;
  V lane[64];
  for (uint32_t k = 0; k < c->t->vl; k++) lane[k] = cg_i32(c, (int32_t)k);
  V at = LLVMBuildTrunc(c->b, LLVMBuildSub(c->b, r->x[2], i, ""), c->i32, "");  // labels and rows are below 2^31
  V hit = LLVMBuildICmp(c->b, LLVMIntEQ, cg_splat(c, at), LLVMConstVector(lane, c->t->vl), "");
  V one = LLVMBuildSelect(c->b, hit, cg_splat(c, cg_f32(c, 1)), cg_splat(c, cg_f32(c, 0)), "");
  V p = word(r, OP_exp, sub(r, load(r, r->a, i, mask), r->x[0]));
  store(r, mul(r, sub(r, p, one), r->x[1]), i, mask);
  return sum;
}

// ---- rows
static V row_max(Row *r) { return cg_reduce_max(r->c, sweep(r, step_max, -INFINITY)); }
static V row_sum(Row *r, Step *step) { return cg_reduce_add(r->c, sweep(r, step, 0)); }

static void softmax_row(Row *r) {
  r->x[0] = cg_splat(r->c, row_max(r));
  V sum = row_sum(r, step_store_exp);
  r->x[1] = cg_splat(r->c, LLVMBuildFDiv(r->c->b, cg_f32(r->c, 1), sum, ""));
  sweep(r, step_scale, 0);
}

static void log_softmax_row(Row *r) {
  r->x[0] = cg_splat(r->c, row_max(r));
  r->x[1] = cg_splat(r->c, word(r, OP_log, row_sum(r, step_sum_exp)));
  sweep(r, step_log, 0);
}

static void softmax_grad_row(Row *r) {
  r->x[0] = cg_splat(r->c, row_sum(r, step_dot));
  sweep(r, step_softmax_grad, 0);
}

static void log_softmax_grad_row(Row *r) {
  r->x[0] = cg_splat(r->c, row_sum(r, step_sum_b));
  sweep(r, step_log_softmax_grad, 0);
}

// The one element of this row in operand k, which may be an immediate.
static V row_scalar(Row *r, uint32_t k) {
  Cg *c = r->c;
  Val a = ir_arg(c->f, r->v, k);
  const Ins *in = ir_ins(c->f, a);
  if (in->op == OP_const) return cg_f32(c, ir_attr_num(c->f, a, KEY_value, 0));
  if (in->op == OP_dim_size) return LLVMBuildSIToFP(c->b, cg_dim(c, ir_attr(c->f, a, KEY_dim)->u.dim), c->f32, "");
  LLVMTypeRef t = in->dtype == DT_I64 ? c->i64 : c->f32;
  V at = ir_rank(c->f->prog, in->shape) ? r->index : cg_i64(c, 0);
  return cg_load(c, t, cg_at(c, t, cg_ptr(c, a), at));
}

static V label_ok(Row *r, V label) { return LLVMBuildICmp(r->c->b, LLVMIntULT, label, r->size, ""); }

static void store_row_scalar(Row *r, V x, uint32_t result) {
  Val v = ir_result(r->v, result);
  if (cg_stored(r->c, v)) cg_store(r->c, x, cg_at(r->c, r->c->f32, cg_ptr(r->c, v), r->index));
}

// A label out of range is reported; its row's loss is 0.
static void nll_row(Row *r) {
  Cg *c = r->c;
  V m = row_max(r), label = row_scalar(r, 1);
  r->x[0] = cg_splat(c, m);
  V lse = add(r, m, word(r, OP_log, row_sum(r, step_sum_exp)));
  If ok;
  cg_if(c, &ok, label_ok(r, label));
  store_row_scalar(r, sub(r, lse, cg_load(c, c->f32, cg_at(c, c->f32, r->a, label))), 0);
  cg_else(c, &ok);
  store_row_scalar(r, cg_f32(c, 0), 0);
  cg_report_index(c, r->index, label);
  cg_endif(c, &ok);
  store_row_scalar(r, lse, 1);
}

static void nll_grad_row(Row *r) {
  Cg *c = r->c;
  V label = row_scalar(r, 1), ok = label_ok(r, label);
  // Without a label the row is 0 times 1: the exponent is cut off too, because lse may be infinite there.
  V g = LLVMBuildSelect(c->b, ok, row_scalar(r, 3), cg_f32(c, 0), "");
  r->x[0] = cg_splat(c, LLVMBuildSelect(c->b, ok, row_scalar(r, 2), cg_f32(c, INFINITY), ""));
  r->x[1] = cg_splat(c, g);
  r->x[2] = LLVMBuildSelect(c->b, ok, label, cg_i64(c, -1), "");
  sweep(r, step_nll_grad, 0);
}

typedef void RowFn(Row *r);
static RowFn *row_fn(Op op) {
  switch (op) {
  case OP_softmax: return softmax_row;
  case OP_softmax_grad: return softmax_grad_row;
  case OP_log_softmax: return log_softmax_row;
  case OP_log_softmax_grad: return log_softmax_grad_row;
  case OP_nll_rows: return nll_row;
  case OP_nll_rows_grad: return nll_grad_row;
  default: return NULL;
  }
}

// The row at hand in v; NULL where v has no rows of this size.
static V enter(Row *r, Val v, Shape shape) {
  Cg *c = r->c;
  if (ir_ins(c->f, v)->shape.i != shape.i || ir_ins(c->f, v)->dtype != DT_F32 || !cg_stored(c, v)) return NULL;
  return cg_at(c, c->f32, cg_ptr(c, v), cg_mul(c, r->index, r->size));
}

bool cg_emit_row(Cg *c) {
  Row r = {.c = c, .v = {c->k->first}};
  const Prog *p = c->f->prog;
  Op op = (Op)ir_ins(c->f, r.v)->op;
  RowFn *fn = row_fn(op);
  if (!fn) return rt_text_add(c->why, "%s is no row kernel", ir_ops[op].name), false;
  Val a = ir_arg(c->f, r.v, 0);
  Shape shape = ir_ins(c->f, a)->shape;
  uint32_t rank = ir_rank(p, shape);
  int64_t bound = ir_shape_bound(p, shape), row = ir_dim_bound(p, ir_dim_at(p, shape, rank - 1));
  if (bound == 0 && op != OP_nll_rows) return true;
  V lo = cg_i64(c, 0), hi = cg_i64(c, 1);
  for (uint32_t k = 0; k + 1 < rank; k++) hi = cg_mul(c, hi, cg_dim(c, ir_dim_at(p, shape, k)));
  r.size = cg_dim(c, ir_dim_at(p, shape, rank - 1));
  If s;
  bool alone = bound < SMALL;
  if (alone) cg_if(c, &s, LLVMBuildICmp(c->b, LLVMIntEQ, c->worker, lo, ""));
  else cg_share(c, hi, row < GRAIN ? GRAIN / row : 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  r.index = l.i;
  r.a = enter(&r, a, shape);
  if (!r.a) r.a = LLVMConstNull(c->ptr);  // rows of no elements: never read
  r.b = ir_ins(c->f, r.v)->n_args > 1 ? enter(&r, ir_arg(c->f, r.v, 1), shape) : NULL;
  r.to = enter(&r, r.v, shape);
  fn(&r);
  cg_loop_end(c, &l, NULL);
  if (alone) cg_endif(c, &s);
  return true;
}
