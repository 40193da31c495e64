// Row kernels: addresses of a row's operands, and row scalars, evaluated once per row. Row per lane, they are vectors with
// a lane for each row.
#include "codegen/math/primitives.h"
#include "codegen/reduce/row.h"

static bool is_reduction(const RowNode *n) {
  return n->kind == NODE_SUM || n->kind == NODE_DOT || n->kind == NODE_MAX || n->kind == NODE_TOP;
}

static Dim dim_at(const RowGraph *g, Val v, uint32_t axis) {
  return ir_dim_at(g->c->f->prog, ir_ins(g->c->f, v)->shape, axis);
}

static uint32_t rank_of(const RowGraph *g, Val v) { return ir_rank(g->c->f->prog, ir_ins(g->c->f, v)->shape); }

// ---- operands
static V outer_index(Row *r, uint32_t axis) {
  Cg *c = r->c;
  if (r->outer[axis]) return r->outer[axis];
  V rest = r->index;
  for (uint32_t j = r->g.rank - 1; j-- > 0;) {
    V size = cg_dim(c, ir_dim_at(c->f->prog, r->g.shape, j));
    r->outer[j] = j ? cg_rem(c, rest, size) : rest;
    if (j) rest = LLVMBuildUDiv(c->b, rest, size, "");
  }
  return r->outer[axis];
}

bool cg_row_is_dense(const RowGraph *g, const RowNode *n) {
  uint32_t rank = rank_of(g, n->v);
  if (n->run.length) return false;
  if (n->kind == NODE_MEM && cg_row_has_elements(g, ir_ins(g->c->f, n->v)->shape)) return true;
  if (g->axis + 1 < g->rank)
    return n->kind != NODE_MEM && !cg_row_is_invariant(g, n);  // of rows: a scalar, not a weight or a single number
  for (uint32_t j = 0; j + 1 < g->rank; j++) {
    int axis = (int)(j + rank) - (int)n->broadcast_rank;
    if (axis < 0 || dim_at(g, n->v, (uint32_t)axis).i != ir_dim_at(g->c->f->prog, g->shape, j).i) return false;
  }
  return true;
}

bool cg_row_is_invariant(const RowGraph *g, const RowNode *n) {
  uint32_t rank = rank_of(g, n->v);
  if (n->run.length) return false;
  for (uint32_t axis = 0; axis < rank; axis++)
    if ((axis + n->broadcast_rank + 1 < rank + g->rank || g->axis + 1 < g->rank) &&
        !ir_dim_is_one(g->c->f->prog, dim_at(g, n->v, axis)))
      return false;
  return true;
}

// Number of the run with which the current row begins, or in which it lies.
static V first_run(Row *r, RowRun run) {
  Cg *c = r->c;
  V at = run.length < r->bound ? cg_mul(c, r->index, cg_i64(c, r->bound / run.length))
                               : cg_div(c, r->index, cg_i64(c, run.length / r->bound));
  return run.period ? cg_rem(c, at, cg_i64(c, run.period)) : at;
}

static V first_of(Row *r, const RowNode *n) {
  Cg *c = r->c;
  uint32_t rank = rank_of(&r->g, n->v);
  if (n->run.length) return first_run(r, n->run);
  if (n->kind == NODE_MEM && cg_row_is_weight(&r->g, n->v)) return cg_i64(c, 0);
  if (cg_row_is_dense(&r->g, n)) return n->kind == NODE_MEM ? r->element : r->index;
  V offset = cg_i64(c, 0), stride = cg_i64(c, 1);
  for (uint32_t axis = rank; axis-- > 0;) {
    int j = (int)(axis + n->broadcast_rank) - (int)rank;
    Dim d = dim_at(&r->g, n->v, axis);
    if (j + 1 < (int)r->g.rank && !ir_dim_is_one(r->c->f->prog, d))
      offset = cg_add(c, offset, cg_mul(c, outer_index(r, (uint32_t)j), stride));
    stride = cg_mul(c, stride, cg_dim(c, d));
  }
  return offset;
}

void cg_row_enter(Row *r) {
  for (uint32_t k = 1; k < r->g.n; k++) {
    RowNode *n = cg_row_at(r, k);
    bool is_element = n->kind == NODE_MEM || n->kind == NODE_RUN;
    if (n->live && is_element) n->row = cg_at(r->c, r->c->f32, cg_ptr(r->c, n->v), first_of(r, n));
  }
}

static V load_scalar(Row *r, const RowNode *n) {
  Cg *c = r->c;
  DType dtype = (DType)ir_ins(c->f, n->v)->dtype;
  LLVMTypeRef t = cg_elem_type(c, dtype);
  V from = cg_at(c, t, cg_ptr(c, n->v), first_of(r, n));
  if (!r->row_per_lane) return cg_load(c, t, from);
  if (cg_row_is_dense(&r->g, n)) return cg_load_masked(c, cg_vector_type(c, dtype, c->t->vl), from, r->active);
  return cg_splat(c, cg_load(c, t, from));
}

// ---- labels
static V any(Cg *c, V lanes) {
  V mask = cg_bitcast(c, lanes, LLVMIntTypeInContext(c->ctx, c->t->vl));
  return cg_ne(c, mask, LLVMConstNull(LLVMTypeOf(mask)));
}

static void report_lanes(Row *r, V bad, V x) {
  Cg *c = r->c;
  bad = cg_and(c, bad, r->active);
  for (If some = cg_when(c, any(c, bad)); cg_then(&some);)
    for (Loop l = cg_count(c, cg_i64(c, c->t->vl)); cg_next(&l);)
      for (If this = cg_when(c, LLVMBuildExtractElement(c->b, bad, l.i, "")); cg_then(&this);)
        cg_report(c, TN_KERR_INDEX_RANGE, cg_add(c, r->index, l.i), LLVMBuildExtractElement(c->b, x, l.i, ""));
}

static void report_row(Row *r, V bad, V x) {
  for (If s = cg_when(r->c, bad); cg_then(&s);) cg_report(r->c, TN_KERR_INDEX_RANGE, r->index, x);
}

static V splat_if_lanes(Row *r, V scalar) { return r->row_per_lane ? cg_splat(r->c, scalar) : scalar; }

static V label(Row *r, const RowNode *n) {
  Cg *c = r->c;
  V x = cg_row_at(r, n->arg[0])->scalar, ok = cg_below(c, x, splat_if_lanes(r, r->size));
  V ignored = NULL;
  if (n->op & LABEL_IGNORES) ignored = cg_eq(c, x, splat_if_lanes(r, cg_i64(c, (int64_t)n->num)));
  if (n->op & LABEL_MAY_FAULT) {
    V bad = cg_not(c, ignored ? cg_or(c, ok, ignored) : ok);
    if (r->row_per_lane) report_lanes(r, bad, x);
    else report_row(r, bad, x);
  }
  if (ignored) ok = cg_and(c, ok, cg_not(c, ignored));
  return cg_select(c, ok, x, splat_if_lanes(r, cg_i64(c, -1)));
}

static V not_negative(Row *r, V x) { return cg_ge(r->c, x, splat_if_lanes(r, cg_i64(r->c, 0))); }

static V valid(Row *r, V x) {
  Cg *c = r->c;
  return cg_select(c, not_negative(r, x), splat_if_lanes(r, cg_f32(c, 1)), splat_if_lanes(r, cg_f32(c, 0)));
}

// Element `place` of each row, gathered from the interleaved rows.
static V gather_lanes(Row *r, V rows, V place) {
  Cg *c = r->c;
  V element = cg_imul(c, place, cg_splat(c, cg_i64(c, c->t->vl)));
  element = cg_iadd(c, element, cg_lane_numbers(c));
  return cg_gather(c, c->f32, rows, element, not_negative(r, place));
}

static V gather(Row *r, const RowNode *n) {
  Cg *c = r->c;
  V at_label = cg_row_at(r, n->arg[1])->scalar, x = cg_f32(c, 0);
  if (r->row_per_lane) return gather_lanes(r, cg_row_at(r, n->arg[0])->row, at_label);
  for (If s = cg_when_carry(c, not_negative(r, at_label), &x, 1); cg_then(&s);)
    x = cg_get(c, c->f32, cg_row_at(r, n->arg[0])->row, at_label);
  return x;
}

// ---- row scalars
V cg_row_compute(Row *r, const RowNode *n, V *arg, V element) {
  Cg *c = r->c;
  if (n->kind == NODE_FMA) return cg_fma(c, arg[0], arg[1], arg[2]);
  return n->kind == NODE_PRIMITIVE ? cg_primitive(c, (Op)n->op, arg) : cg_pointwise_op(c, n->v, arg, element);
}

static V as_float(Row *r, V size) { return splat_if_lanes(r, cg_sitofp(r->c, size, r->c->f32)); }

static V make_scalar(Row *r, RowNode *n) {
  Cg *c = r->c;
  V arg[3] = {NULL};
  switch ((NodeKind)n->kind) {
  case NODE_NUMBER: return splat_if_lanes(r, cg_f32(c, n->num));
  case NODE_SIZE: return as_float(r, r->size);
  case NODE_VALUE: return as_float(r, cg_dim(c, ir_attr(c->f, n->v, KEY_dim)->u.dim));
  case NODE_SCALAR: return load_scalar(r, n);
  case NODE_LABEL: return label(r, n);
  case NODE_VALID: return valid(r, cg_row_at(r, n->arg[0])->scalar);
  case NODE_GATHER: return gather(r, n);
  case NODE_PIVOT: return cg_row_pivot(r, n);
  default: break;
  }
  for (uint32_t k = 0; k < n->n_args; k++) arg[k] = cg_row_at(r, n->arg[k])->scalar;
  V number = r->index;
  if (r->row_per_lane) number = cg_iadd(c, cg_splat(c, number), cg_lane_numbers(c));
  return cg_row_compute(r, n, arg, number);
}

void cg_row_scalars(Row *r, uint32_t sweep) {
  for (uint32_t k = 1; k < r->g.n; k++) {
    RowNode *n = cg_row_at(r, k);
    if (!n->elem && n->live && n->level == sweep && !is_reduction(n)) n->scalar = make_scalar(r, n);
  }
}
