// Row kernels: all ops over one row are fused, while the row is in L1.
//
//   %d = sub %x, %m            row 0:  sweep 0   sum of x                       -> mean
//   %y = layer_norm %d, ..             sweep 1   sum of (x - mean)^2            -> rstd
//   %z = gelu %y                       sweep 2   z = gelu((x - mean) rstd w + b), stored
//
// Instructions are lowered to nodes (row_ops.c), nodes assigned to sweeps (row_graph.c). A sweep is one loop over the row in
// vectors of vl lanes (row_sweep.c); it ends where a reduction must be complete.
//
// Column sums (column_sum.c) accumulate in the last sweep, from registers.
//
// Short rows: one row per lane. Elements are processed one after the other, and reductions of vl rows need no horizontal
// operation.
//
// The work is split by whole rows, so that no result depends on the number of workers.
#include "codegen/reduce/row.h"
#include "codegen/emitters.h"
#include "codegen/interleave.h"
#include "ir/passes/plan.h"

#include <string.h>

enum {
  SMALL = 4096,      // elements: below, single-threaded
  GRAIN = 1024,      // grain: elements per worker, at least
  PER_LANE_ROWS = 4  // groups of partial sums: shorter rows are processed row per lane, where there are as many rows
};

static void enter(Row *r, V index, V element) {
  r->index = index;
  r->element = element;
  memset(r->outer, 0, sizeof r->outer);
  cg_row_enter(r);
}

static void emit_row(Row *r, V index) {
  enter(r, index, cg_mul(r->c, index, r->size));
  cg_row_sweeps(r);
}

// ---- row per lane
static bool is_interleaved(Row *r, const RowNode *n) {
  return cg_row_is_interleaving(r) && n->live && n->kind == NODE_MEM && cg_row_is_dense(&r->g, n);
}

// n rows from `index` on, at most vl.
static void emit_row_per_lane(Row *r, V index, V n) {
  Cg *c = r->c;
  uint32_t width = (uint32_t)r->bound;
  enter(r, index, cg_mul(c, index, r->size));
  r->n_rows = n, r->active = cg_mask(c, n);
  for (uint32_t k = 1; k < r->g.n; k++) {
    RowNode *m = cg_row_at(r, k);
    if (!is_interleaved(r, m)) continue;
    cg_interleave(c, width, m->row, n, m->buffer);
    m->row = m->buffer;
  }
  cg_row_sweeps(r);
  for (uint32_t j = 0; j < c->k->n; j++)
    if (r->interleaved[j])
      cg_deinterleave(c, width, r->interleaved[j], n, cg_at(c, c->f32, cg_ptr(c, (Val){c->k->first + j}), r->element));
}

// Vectors of strided rows of one outer index; with column sums they are whole groups of lanes.
static V units_side_by_side(Row *r) {
  Cg *c = r->c;
  int64_t vl = c->t->vl;
  if (!r->columns.n) return cg_ceil_div_value(c, r->stride, vl);
  return cg_mul(c, cg_ceil_div_value(c, r->stride, COLUMN_LANES), cg_i64(c, COLUMN_LANES / vl));
}

// Vector number `unit` of strided rows: vl adjacent rows, of one outer index.
static void emit_strided_rows(Row *r, V unit) {
  Cg *c = r->c;
  V vl = cg_i64(c, c->t->vl), units = units_side_by_side(r);
  V outer = cg_div(c, unit, units), first = cg_mul(c, cg_sub(c, unit, cg_mul(c, outer, units)), vl);
  V index = cg_add(c, cg_mul(c, outer, r->stride), first);
  r->n_rows = cg_min(c, vl, cg_sub(c, r->stride, first)), r->active = cg_mask(c, r->n_rows);
  r->columns.lane = cg_and(c, first, cg_i64(c, COLUMN_LANES - 1));
  enter(r, index, cg_add(c, cg_mul(c, cg_mul(c, outer, r->size), r->stride), first));
  cg_row_sweeps(r);
}

// Rows of at least a vector of which maxima alone are taken: their order is open, and across lanes they are cheaper than a transpose.
static bool has_maxima_alone(Row *r) {
  bool any = false;
  for (uint32_t k = 1; k < r->g.n; k++) {
    const RowNode *n = cg_row_at(r, k);
    if (n->kind == NODE_MAX) any = true;
    else if (n->kind != NODE_NONE && (n->elem || cg_row_is_reduction(n)) && n->kind != NODE_MEM) return false;
  }
  return any && r->bound >= r->c->t->vl;
}

// Short rows, enough of them for all lanes, and each operand is dense over the rows or invariant: those that this plan leaves out, too,
// as the order of sums depends on it.
static bool is_row_per_lane(Row *r, Dim width) {
  const Cg *c = r->c;
  int64_t rows = r->bound ? ir_shape_bound(c->f->prog, r->g.shape) / r->bound : 0;
  int64_t lanes = cg_sum_lanes(c->t);
  if (!ir_dim_is_const(c->f->prog, width) || r->columns.n || rows < lanes) return false;
  if (r->bound < 1 || r->bound >= PER_LANE_ROWS * lanes || has_maxima_alone(r)) return false;
  for (uint32_t k = 1; k < r->g.n; k++) {
    const RowNode *n = cg_row_at(r, k);
    bool memory = n->kind == NODE_MEM || n->kind == NODE_SCALAR;
    if (n->kind == NODE_RUN) return false;
    if (memory && !cg_row_is_dense(&r->g, n) && !cg_row_is_invariant(&r->g, n)) return false;
    if (n->kind == NODE_GATHER && !cg_row_is_dense(&r->g, cg_row_at(r, n->arg[0]))) return false;
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
    if ((cg_row_at(r, k)->is_buffered && !cg_row_at(r, k)->in_result.i) || is_interleaved(r, cg_row_at(r, k)))
      cg_row_at(r, k)->buffer = make_buffer(r);
  for (uint32_t s = 0; s <= r->last; s++) {
    int64_t n = cg_row_sums_in_memory(r, s);
    if (n > most) most = n;
  }
  if (most) r->sums = cg_block(c, c->f32, most);
  r->interleaved = rt_alloc(c->mem, c->k->n * sizeof *r->interleaved);
  for (uint32_t j = 0; cg_row_is_interleaving(r) && j < c->k->n; j++) {
    Val v = {c->k->first + j};
    if (cg_row_is_stored(r, v) && cg_row_is_shaped(r, v)) r->interleaved[j] = make_buffer(r);
  }
}

static bool make_graph(Row *r) {
  Kernel k = *r->c->k;
  RowGraph *g = &r->g;
  g->of = rt_alloc(r->c->mem, (k.n + 1) * sizeof *g->of);
  *RT_PUSH(r->c->mem, g->node, g->n, g->cap) = (RowNode){0};
  for (uint32_t i = k.first; i < k.first + k.n; i++)
    if (cg_row_in_kernel(g, (Val){i}) && ir_ins(r->c->f, (Val){i})->op != OP_result && !cg_row_ops(g, (Val){i}))
      return false;
  cg_row_assign_sweeps(r);
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
  V step = cg_i64(c, cg_row_is_interleaving(r) ? c->t->vl : 1);
  for (Loop l = cg_each_by(c, lo, hi, step); cg_next(&l);) {
    if (r->strided) emit_strided_rows(r, l.i);
    else if (r->row_per_lane) emit_row_per_lane(r, l.i, cg_min(c, step, cg_sub(c, hi, l.i)));
    else emit_row(r, l.i);
  }
}

static bool stores_rows(Row *r) {
  const Kernel *k = r->c->k;
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    if (cg_row_is_stored(r, (Val){i}) && cg_row_is_shaped(r, (Val){i})) return true;
  return false;
}

// Rows of which only numbers are stored. Their order changes no sum.
static void emit_row_numbers(Row *r, V lo, V hi) {
  Cg *c = r->c;
  int64_t row = r->bound * (int64_t)sizeof(float),
          all = ir_shape_bound(c->f->prog, r->g.shape) * (int64_t)sizeof(float);
  V n = cg_sub(c, hi, lo);
  for (Loop l = cg_count(c, n); cg_next(&l);) emit_row(r, cg_add(c, lo, cg_in_streams(c, l.i, n, row, all)));
}

static void emit_rows(Row *r, V n, bool alone) {
  int64_t vl = r->c->t->vl, grain = r->bound < 1 ? GRAIN : r->bound < GRAIN ? GRAIN / r->bound : 1;
  V lo = cg_i64(r->c, 0);
  if (r->strided) grain = grain > vl ? grain / vl : 1;
  else if (r->row_per_lane) grain = cg_round_up(grain, vl);
  if (!alone) cg_share(r->c, n, grain, &lo, &n);
  if (r->strided || r->row_per_lane || stores_rows(r)) emit_loop(r, lo, n);
  else emit_row_numbers(r, lo, n);
}

// With column sums, the unit of work is a chunk of rows.
static void emit_chunks(Row *r, V n, bool alone) {
  Cg *c = r->c;
  int64_t each = r->strided ? COLUMN_LANES / c->t->vl : 1;  // units of a row, or of a group of strided ones
  V lo = cg_i64(c, 0), hi = cg_i64(c, r->columns.n_chunks), size = cg_i64(c, r->columns.chunk * each);
  if (!alone) cg_share(c, hi, 1, &lo, &hi);
  for (Loop chunk = cg_each(c, lo, hi); cg_next(&chunk);) {
    cg_column_sum_begin(&r->columns, chunk.i);
    V first = cg_min(c, n, cg_mul(c, chunk.i, size)), end = cg_min(c, n, cg_add(c, first, size));
    for (Loop step = cg_each_by(c, first, end, cg_i64(c, COLUMN_STEP * each)); cg_next(&step);) {
      emit_loop(r, step.i, cg_min(c, end, cg_add(c, step.i, cg_i64(c, COLUMN_STEP * each))));
      cg_column_sum_fold(&r->columns);
    }
  }
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
  return r->strided ? cg_mul(c, before, units_side_by_side(r)) : before;
}

static Dim width_of(const Row *r) { return ir_dim_at(r->c->f->prog, r->g.shape, r->g.axis); }

static Row open_rows(Cg *c) {
  const Prog *p = c->f->prog;
  RowSpace space = rows_of(c->f, c->k);
  uint32_t rank = ir_rank(p, space.shape);
  Row r = {.c = c, .g = {.c = c, .shape = space.shape, .axis = space.axis, .rank = rank}};
  r.bound = ir_dim_bound(p, width_of(&r));
  r.strided = space.axis + 1 < rank;
  r.prefetches = r.strided && ir_shape_bound(p, space.shape) * (int64_t)sizeof(float) > p->target.l2_bytes;
  return r;
}

static void choose_lanes(Row *r) {
  r->row_per_lane = r->whole ? r->whole->row_per_lane : r->strided || is_row_per_lane(r, width_of(r));
}

// The kernel of which this is a part, as far as its sweeps: nothing of it is emitted.
static bool open_whole(Row *w, Cg *c) {
  c->f = c->whole.f, c->k = c->whole.k, c->kernel_args = c->whole.args, c->n_kernel_args = c->whole.n_args;
  *w = open_rows(c);
  cg_column_sum_find(&w->columns, c, (RowSpace){w->g.shape, w->g.axis});
  if (!make_graph(w)) return false;
  choose_lanes(w);
  return true;
}

bool cg_emit_row(Cg *c) {
  Row r = open_rows(c), whole;
  Cg of = *c;
  Shape shape = r.g.shape;
  if (c->whole.f && !open_whole(&whole, &of)) return false;
  r.whole = c->whole.f ? &whole : NULL;
  r.size = cg_dim(c, width_of(&r));
  cg_column_sum_open(&r.columns, c, (RowSpace){shape, r.g.axis});
  if (!make_graph(&r)) return false;
  V lo = cg_i64(c, 0), hi = units_of(&r);
  choose_lanes(&r);
  make_buffers(&r);
  bool alone = ir_shape_bound(c->f->prog, shape) < SMALL;
  for (If s = cg_when(c, alone ? cg_eq(c, c->worker, lo) : NULL); cg_then(&s);)
    if (r.columns.n) emit_chunks(&r, hi, alone);
    else emit_rows(&r, hi, alone);
  return true;
}
