// Reductions of floats, in their dtype: sum, mean, product and amax. Those that round nothing are emitted by exact.c.
//
// Adjacent axes are merged into groups that are kept or reduced; the last group is the vector axis, and its kind selects
// the loop:
//
//   [kept.., reduced.., n reduced]   row reduction: contiguous runs, 64 partial results, then a fixed tree
//   [kept.., reduced.., k kept]      column reduction: vectors of k contiguous results, accumulated row by row
//
// Work is split by results. Few results of many terms: two stages. The terms are split into chunks fixed by the shape's
// bounds, each chunk that a run reaches leaves a partial result in scratch memory, and the second stage adds these in
// order. The order of every sum depends on shapes only, never on the lanes of a vector or the number of workers. Long sums are
// made by blocks (cascade.h).
//
// A mean sums the differences of its terms from one of them, the pivot: the mean of equal terms is that term.
//
// A prologue's elements are computed by single vectors, by flat index: their reduction has one result, and is one run.
#include "codegen/reduce/reduce.h"
#include "codegen/emitters.h"
#include "codegen/math/math.h"
#include "codegen/math/primitives.h"
#include "codegen/pointwise/prologue_epilogue.h"
#include "codegen/reduce/axes.h"
#include "codegen/reduce/cascade.h"
#include "codegen/reduce/column_sum.h"
#include "ir/passes/plan.h"

#include <math.h>

enum {
  SMALL = 4096,      // elements: below, single-threaded
  RUN_CHUNK = 8192,  // terms of a partial row reduction
  ROW_CHUNK = 128,   // rows of a partial column reduction, at least
  MAX_CHUNKS = 64,   // of rows
  FEW = 16,          // results, or blocks of 64 columns: below, too few to split the work by
  BLOCK = 64,        // columns of a block that a worker takes, for the plan
  NARROW = 2,        // groups of partial results: shorter runs are reduced row per lane
};

// ---- the plan: by bounds alone
typedef struct {
  ReducedAxes axes;
  int64_t n_chunks, chunk;  // n_chunks 0: one stage
} ReducePlan;

static void plan_chunks(ReducePlan *p) {
  const ReducedAxes *a = &p->axes;
  AxisGroup last = a->group[a->n - 1];
  if (a->runs && a->n <= 2 && a->results <= FEW && last.bound >= 2 * RUN_CHUNK) {
    p->chunk = RUN_CHUNK;
    p->n_chunks = cg_ceil_div(last.bound, p->chunk);
  }
  if (!a->runs && a->terms >= 2 * ROW_CHUNK && a->results / last.bound * cg_ceil_div(last.bound, BLOCK) <= FEW / 2) {
    int64_t even = cg_ceil_div(a->terms, MAX_CHUNKS);
    p->chunk = even > ROW_CHUNK ? even : ROW_CHUNK;
    p->n_chunks = cg_ceil_div(a->terms, p->chunk);
  }
}

static ReducePlan plan_reduce(const Fn *f, Val v) {
  ReducePlan p = {.axes = cg_reduced_axes(f, v)};
  if (p.axes.results > 0 && p.axes.terms > 0) plan_chunks(&p);
  return p;
}

// In a row kernel a sum over the rows adds up partial sums of its own.
int64_t cg_reduce_scratch_bytes(const Fn *f, Val v, const Target *t) {
  RowSpace rows;
  if (ir_reduces_exactly(f, v)) return cg_exact_scratch_bytes(f, v, t);
  if (f->kernels[f->kernel_of[v.i]].cls == CLASS_ROW && ir_column_sum(f, v, &rows)) return cg_column_sum_scratch(f, v);
  ReducePlan p = plan_reduce(f, v);
  return p.n_chunks * p.axes.results * ir_dtype_bytes[ir_ins(f, v)->dtype];
}

// ---- emission
typedef struct Reduce {
  Cg *c;
  Op op;
  DType type;  // of the operand and of the result
  LLVMTypeRef elem, vec;
  ReduceWalk w;
  V n_terms;  // of a result
  V from;
  RowStrip *made;                       // computes the elements; NULL: they are stored
  V first;                              // of `made`: the element where the run begins
  int64_t run_terms, rows;              // bounds of a run's elements, and of runs
  uint32_t wide_levels, narrow_levels;  // levels of cascades over rows of columns: row by row, and N_ACC rows at once
  bool runs;                            // a result sums runs along the vector axis; else rows
  bool about_pivot;                     // a mean: sums terms minus `pivot`,
  V pivot;
  V pivots, part[CASCADE_LEVELS - 1];  // of a panel, in the cache: of means, and partial sums of rows
  const struct Reduce *terms_of;       // and the last stage makes the mean; NULL: it stays a sum
} Reduce;

static double identity_of(Op op) { return op == OP_sum || op == OP_mean ? 0 : op == OP_prod ? 1 : -INFINITY; }
static V identity(Reduce *r) { return num(r->c, r->elem, identity_of(r->op)); }
static Op joining(Op op) { return op == OP_sum || op == OP_mean ? OP_add : op == OP_prod ? OP_mul : OP_max; }
static V join(Reduce *r, V a, V b) { return cg_primitive(r->c, joining(r->op), (V[]){a, b}); }

static V elem_at(Reduce *r, V base, V index) { return cg_at(r->c, r->elem, base, index); }

static Reduce reduce_of(Cg *c, Op op, DType t) {
  return (Reduce){.c = c, .op = op, .type = t, .elem = cg_elem_type(c, t), .vec = cg_vector_type(c, t, c->t->vl)};
}

static Reduce make_reduce(Cg *c, Val v, const ReducePlan *p) {
  const ReducedAxes *a = &p->axes;
  Reduce r = reduce_of(c, (Op)ir_ins(c->f, v)->op, (DType)ir_ins(c->f, v)->dtype);
  r.w = cg_reduce_walk(c, v, a, NULL);
  if (v.i > c->k->first) r.made = cg_prologue_flat(c), r.first = cg_i64(c, 0);
  r.from = r.made ? LLVMConstNull(c->ptr) : cg_ptr(c, ir_arg(c->f, v, 0));
  bool is_row = a->runs && p->n_chunks;
  r.run_terms = is_row ? p->chunk : a->runs ? a->group[a->n - 1].bound : 0;
  r.rows = a->runs ? a->terms / cg_larger(1, a->group[a->n - 1].bound) : 0;
  r.runs = a->runs;
  r.about_pivot = r.op == OP_mean;
  r.n_terms = a->runs ? cg_mul(c, r.w.n_rows, r.w.inner) : r.w.n_rows;
  return r;
}

// ---- means
// Offset from a result's first term to candidate k for its pivot.
static V to_pivot(Reduce *r, uint32_t k) {
  V row = cg_strided_offset(r->c, r->w.reduced, r->w.n_reduced, cg_pivot_place(r->c, k, r->w.n_rows));
  return r->runs ? cg_add(r->c, row, cg_pivot_place(r->c, k, r->w.inner)) : row;
}

// The pivots of a vector of results whose first terms are at p.
static V pivots_of(Reduce *r, V p, V mask) {
  V x[N_PIVOTS];
  for (uint32_t k = 0; k < N_PIVOTS; k++) x[k] = cg_load_masked(r->c, r->vec, elem_at(r, p, to_pivot(r, k)), mask);
  return cg_pivots(r->c, x);
}

// The same for the first n results; 0 where a result has no terms.
static V pivots_at(Reduce *r, V p, V n) {
  Cg *c = r->c;
  Reduce *of = (Reduce *)(r->terms_of ? r->terms_of : r);
  V some = cg_gt(c, of->n_terms, cg_i64(c, 0));
  return pivots_of(of, p, cg_mask(c, cg_select(c, some, n, cg_i64(c, 0))));
}

static V pivot_at(Reduce *r, V p) {
  return LLVMBuildExtractElement(r->c->b, pivots_at(r, p, cg_i64(r->c, 1)), cg_i32(r->c, 0), "");
}

static V term(Reduce *r, V x) {
  if (!r->about_pivot) return x;
  V pivot = LLVMGetTypeKind(LLVMTypeOf(r->pivot)) == LLVMVectorTypeKind ? r->pivot : cg_splat(r->c, r->pivot);
  return cg_fsub(r->c, x, pivot);
}

// The mean from a sum of differences from the pivot; vectors or numbers.
static V mean_of(Reduce *r, V pivot, V sum) {
  Cg *c = r->c;
  V n = cg_sitofp(c, r->terms_of->n_terms, r->elem);
  if (LLVMTypeOf(sum) == r->vec) n = cg_splat(c, n);
  return cg_fadd(c, pivot, cg_fdiv(c, sum, n));
}

// Chunks of n run-time terms.
static V chunks_of(Cg *c, V n, const ReducePlan *p) {
  return cg_div(c, cg_add(c, n, cg_i64(c, p->chunk - 1)), cg_i64(c, p->chunk));
}

// Little work: a branch that only worker 0 takes.
static bool is_alone(int64_t work) { return work < SMALL; }
static If when_alone(Cg *c, bool alone) { return cg_when(c, alone ? cg_first_worker(c) : NULL); }

static void share(Cg *c, bool alone, V n, int64_t grain, V *lo, V *hi) {
  *lo = cg_i64(c, 0), *hi = n;
  if (!alone) cg_share(c, n, grain, lo, hi);
}

// ---- row reductions: n contiguous elements to one value
enum { N_ACC = 4, MAX_ACC = 16 };  // groups of partial results; vectors of them, at most

static uint32_t parts_of(const Cg *c) { return cg_sum_lanes(c->t) / c->t->vl; }  // vectors of a group
static uint32_t all_parts(const Cg *c) { return N_ACC * parts_of(c); }
static int64_t lanes_of(const Cg *c) { return cg_sum_lanes(c->t); }
static int64_t block_of(const Cg *c) { return N_ACC * lanes_of(c); }

static void start(Reduce *r, V *acc, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) acc[k] = cg_splat(r->c, identity(r));
}

// Terms from number i of the run at p on; lanes that are masked off are undefined.
static V terms_at(Reduce *r, V p, V i, V mask) {
  Cg *c = r->c;
  if (r->made) return cg_prologue_element(r->made, cg_add(c, r->first, i), mask);
  return term(r, cg_load_masked(c, r->vec, elem_at(r, p, i), mask));
}

// Joins whole spans of n_acc vectors in [lo, hi) of p with the accumulators. Fewer than N_ACC stand in no loop.
static void add_span(Reduce *r, V *acc, uint32_t n_acc, V p, V lo, V hi) {
  Cg *c = r->c;
  int64_t vl = c->t->vl;
  int64_t first, end, span = n_acc * vl;
  if (cg_is_int(hi, 0)) return;
  if (cg_const_value(lo, &first) && cg_const_value(hi, &end) && end - first < N_ACC * span) {
    for (; first < end; first += vl) {
      V *to = &acc[first / vl % n_acc];
      *to = join(r, *to, terms_at(r, p, cg_i64(c, first), NULL));
    }
    return;
  }
  for (Loop l = cg_carry(c, lo, hi, cg_i64(c, span), acc, n_acc); cg_next(&l);)
    for (uint32_t k = 0; k < n_acc; k++)
      acc[k] = join(r, acc[k], terms_at(r, p, cg_add(c, l.i, cg_i64(c, k * vl)), NULL));
}

typedef struct {
  Reduce *r;
  V p;
} Run;

static void start_run(void *ctx, V *acc) { start(((Run *)ctx)->r, acc, all_parts(((Run *)ctx)->r->c)); }
static V join_run(void *ctx, uint32_t k, V a, V b) { return (void)k, join(((Run *)ctx)->r, a, b); }

static void add_blocks(void *ctx, V lo, V hi, V *acc) {
  Run *x = ctx;
  add_span(x->r, acc, all_parts(x->r->c), x->p, lo, hi);
}

// Reduces the n elements at p into the accumulators: whole blocks of N_ACC groups, whole groups into the first one,
// and what is left.
static void add_run(Reduce *r, V *acc, V p, V n) {
  Cg *c = r->c;
  int64_t vl = c->t->vl;
  uint32_t parts = parts_of(c);
  V blocks = cg_multiple(c, n, cg_i64(c, block_of(c))), some = cg_multiple(c, n, cg_i64(c, lanes_of(c))),
    rest = cg_sub(c, n, some), none = cg_i64(c, 0);
  Run run = {r, p};
  uint32_t levels = joining(r->op) == OP_add ? cg_cascade_levels(r->run_terms / block_of(c)) : 0;
  Cascade s = {.c = c,
               .n = all_parts(c),
               .block = CASCADE_TERMS * block_of(c),
               .start = start_run,
               .join = join_run,
               .add = add_blocks,
               .ctx = &run};
  if (!cg_is_int(blocks, 0)) cg_cascade(&s, levels, none, blocks, acc);
  add_span(r, acc, parts, p, blocks, some);
  if (cg_is_int(rest, 0)) return;
  for (uint32_t k = 0; k < parts; k++) {
    V mask;
    if (!cg_lanes_left(c, rest, k * vl, &mask)) continue;
    V x = terms_at(r, p, cg_add(c, some, cg_i64(c, k * vl)), mask);
    acc[k] = join(r, acc[k], mask ? cg_select(c, mask, x, cg_splat(c, identity(r))) : x);
  }
}

static V finish(Reduce *r, V *acc) {
  for (uint32_t n = all_parts(r->c) / 2; n; n /= 2)
    for (uint32_t k = 0; k < n; k++) acc[k] = join(r, acc[k], acc[k + n]);
  return joining(r->op) == OP_max ? cg_reduce_max(r->c, acc[0]) : cg_reduce_lanes(r->c, joining(r->op), acc[0]);
}

// Terms of the longest chain of a run: blocks, then groups, then the rest.
static int64_t terms_of_run(const Reduce *r) {
  int64_t blocks = r->run_terms / block_of(r->c), groups = r->run_terms / lanes_of(r->c) - N_ACC * blocks;
  return (blocks > CASCADE_TERMS ? CASCADE_TERMS : blocks) + groups + 1;
}

// The runs [lo, hi) of a result.
static void add_runs(void *ctx, V lo, V hi, V *acc) {
  Run *x = ctx;
  Reduce *r = x->r;
  uint32_t n_acc = all_parts(r->c);
  for (Loop l = cg_carry(r->c, lo, hi, cg_i64(r->c, 1), acc, n_acc); cg_next(&l);)
    add_run(r, acc, elem_at(r, x->p, cg_strided_offset(r->c, r->w.reduced, r->w.n_reduced, l.i)), r->w.inner);
}

// Where the first term of result o is.
static V first_of(const Reduce *r, V o) {
  return elem_at((Reduce *)r, r->from, cg_strided_offset(r->c, r->w.kept, r->w.n_kept, o));
}

// Result o, over all its runs.
static V reduce_result(Reduce *r, V o) {
  Cg *c = r->c;
  V acc[MAX_ACC], base = first_of(r, o);
  if (r->about_pivot) r->pivot = pivot_at(r, base);
  start(r, acc, all_parts(c));
  if (r->w.n_reduced) {
    Run run = {r, base};
    int64_t terms = terms_of_run(r);
    uint32_t levels = joining(r->op) == OP_add ? cg_cascade_levels(r->rows * terms) : 0;
    Cascade s = {.c = c,
                 .n = all_parts(c),
                 .block = cg_larger(1, CASCADE_TERMS / terms),
                 .start = start_run,
                 .join = join_run,
                 .add = add_runs,
                 .ctx = &run};
    cg_cascade(&s, levels, cg_i64(c, 0), r->w.n_rows, acc);
  } else {
    add_run(r, acc, base, r->w.inner);
  }
  V sum = finish(r, acc);
  if (!r->terms_of) return sum;
  return mean_of(r, r->about_pivot ? r->pivot : pivot_at(r, first_of(r->terms_of, o)), sum);
}

// item, all: bytes that a result reads, and all results
static void reduce_results(Reduce *r, V to, V lo, V hi, int64_t item, int64_t all) {
  Cg *c = r->c;
  V n = cg_sub(c, hi, lo);
  for (Loop l = cg_count(c, n); cg_next(&l);) {
    V o = cg_add(c, lo, cg_in_streams(c, l.i, n, item, all)), result = reduce_result(r, o);
    cg_put(c, result, to, o);
  }
}

// First stage: partial results [results, chunks].
static void reduce_chunks(Reduce *r, const ReducePlan *p) {
  Cg *c = r->c;
  uint32_t n_acc = all_parts(c);
  V n_chunks = chunks_of(c, r->w.inner, p), size = cg_i64(c, p->chunk), lo, hi, acc[MAX_ACC];
  cg_share(c, cg_mul(c, r->w.n_outer, n_chunks), 1, &lo, &hi);
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);) {
    V first = cg_mul(c, cg_rem(c, l.i, n_chunks), size);
    V row = cg_strided_offset(r->c, r->w.kept, r->w.n_kept, cg_div(c, l.i, n_chunks));
    if (r->about_pivot) r->pivot = pivot_at(r, elem_at(r, r->from, row));
    start(r, acc, n_acc);
    if (r->made) r->first = first;
    V n = cg_min(c, size, cg_sub(c, r->w.inner, first));
    add_run(r, acc, elem_at(r, r->from, cg_add(c, row, first)), n);
    V result = finish(r, acc);
    cg_put(c, result, c->scratch, l.i);
  }
}

static void emit_runs(Reduce *r, const ReducePlan *p, V to) {
  Cg *c = r->c;
  Reduce stage2 = *r;
  if (r->about_pivot) stage2.terms_of = r;
  int64_t terms = p->axes.terms > 0 ? p->axes.terms : 1;
  V lo, hi;
  if (p->n_chunks && c->scratch) {
    reduce_chunks(r, p);
    cg_wait_for_team(c);
    stage2.from = c->scratch, stage2.made = NULL;
    stage2.w.inner = chunks_of(c, r->w.inner, p);
    stage2.w.kept[0].stride = stage2.w.inner;
    stage2.run_terms = p->n_chunks;
    stage2.about_pivot = false;
  }
  bool cut = p->n_chunks && c->scratch, alone = is_alone(cut ? p->n_chunks : p->axes.results * p->axes.terms);
  for (If s = when_alone(c, alone); cg_then(&s);) {
    share(c, alone, r->w.n_outer, cg_ceil_div(SMALL / 2, terms), &lo, &hi);
    int64_t item = terms * ir_dtype_bytes[r->type];
    reduce_results(&stage2, to, lo, hi, item, cut ? 0 : p->axes.results * item);
  }
}

// ---- column reductions: rows [q0, q1) to vectors of contiguous results
//
//   narrow   less than a block of columns: a vector of each group at a time, N_ACC rows at once
//   wide     panels of columns, of each the rows in order, so that memory is read as it lies: sums of CASCADE_TERMS rows are
//            made in registers and joined with those of the rows before in the cache
typedef struct {
  V from, to;  // at the first column of the strip
  V q0, q1;
} Strip;

static V row_at(Reduce *r, const Strip *s, V q) {
  return elem_at(r, s->from, cg_strided_offset(r->c, r->w.reduced, r->w.n_reduced, q));
}

// The n vectors of row q from `column` on, joined with the accumulators.
static void add_row(Reduce *r, const Strip *s, V q, V column, uint32_t n, V mask, const V *pivot, V *acc) {
  Cg *c = r->c;
  V row = elem_at(r, row_at(r, s, q), column);
  for (uint32_t k = 0; k < n; k++) {
    V x = cg_get_masked(c, r->vec, row, cg_i64(c, k * (int64_t)c->t->vl), mask);
    acc[k] = join(r, acc[k], r->about_pivot ? cg_fsub(c, x, pivot[k]) : x);
  }
}

// ---- narrow
typedef struct {
  Reduce *r;
  const Strip *strip;
  uint32_t n;
  V mask, pivot[MAX_ACC];
} Rows;

static void start_rows(void *ctx, V *acc) { start(((Rows *)ctx)->r, acc, N_ACC * ((Rows *)ctx)->n); }
static V join_rows(void *ctx, uint32_t k, V a, V b) { return (void)k, join(((Rows *)ctx)->r, a, b); }

// N_ACC rows at once into N_ACC accumulators of each vector, which hides the latency of the add; remaining rows into the first.
static void add_rows(void *ctx, V lo, V hi, V *acc) {
  Rows *x = ctx;
  Reduce *r = x->r;
  Cg *c = r->c;
  uint32_t n = x->n;
  V end = cg_add(c, lo, cg_multiple(c, cg_sub(c, hi, lo), cg_i64(c, N_ACC))), first = cg_i64(c, 0);
  for (Loop l = cg_carry(c, lo, end, cg_i64(c, N_ACC), acc, N_ACC * n); cg_next(&l);)
    for (uint32_t k = 0; k < N_ACC; k++)
      add_row(r, x->strip, cg_add(c, l.i, cg_i64(c, k)), first, n, x->mask, x->pivot, acc + k * n);
  for (Loop rest = cg_carry(c, end, hi, cg_i64(c, 1), acc, n); cg_next(&rest);)
    add_row(r, x->strip, rest.i, first, n, x->mask, x->pivot, acc);
}

// Column sums of one strip of n vectors.
static void add_strip(Reduce *r, const Strip *s, uint32_t n, V mask) {
  Cg *c = r->c;
  Rows rows = {r, s, n, mask, {NULL}};
  for (uint32_t k = 0; r->about_pivot && k < n; k++)
    rows.pivot[k] = pivots_of(r, elem_at(r, s->from, cg_i64(c, k * (int64_t)c->t->vl)), mask);
  V acc[MAX_ACC];
  Cascade blocks = {.c = c,
                    .n = N_ACC * n,
                    .block = CASCADE_TERMS * N_ACC,
                    .start = start_rows,
                    .join = join_rows,
                    .add = add_rows,
                    .ctx = &rows};
  start_rows(&rows, acc);
  cg_cascade(&blocks, r->narrow_levels, s->q0, s->q1, acc);
  for (uint32_t k = 0; k < n; k++) {
    V *x = acc + k, to = elem_at(r, s->to, cg_i64(c, k * (int64_t)c->t->vl));
    V sum = join(r, join(r, x[0], x[n]), join(r, x[2 * n], x[3 * n]));
    mask ? cg_store_masked(c, sum, to, mask) : cg_store(c, sum, to);
  }
}

// Strips of n vectors in the columns [lo, hi).
static void add_strips(Reduce *r, const Strip *s, uint32_t n, V lo, V hi) {
  Cg *c = r->c;
  Strip at = *s;
  for (Loop l = cg_each_by(c, lo, hi, cg_i64(c, n * (int64_t)c->t->vl)); cg_next(&l);) {
    at.from = elem_at(r, s->from, l.i), at.to = elem_at(r, s->to, l.i);
    add_strip(r, &at, n, NULL);
  }
}

// n columns: groups, then vectors.
static void add_narrow(Reduce *r, const Strip *s, V n) {
  Cg *c = r->c;
  int64_t vl = c->t->vl;
  V some = cg_multiple(c, n, cg_i64(c, lanes_of(c))), whole = cg_multiple(c, n, cg_i64(c, vl)),
    rest = cg_sub(c, n, whole);
  add_strips(r, s, parts_of(c), cg_i64(c, 0), some);
  if (vl < lanes_of(c)) add_strips(r, s, 1, some, whole);
  Strip at = *s;
  for (If tail = cg_when(c, cg_gt(c, rest, cg_i64(c, 0))); cg_then(&tail);) {
    at.from = elem_at(r, s->from, whole), at.to = elem_at(r, s->to, whole);
    add_strip(r, &at, 1, cg_mask(c, rest));
  }
}

// ---- wide
typedef struct {
  Reduce *r;
  const Strip *s;
  V n;  // columns, at most panel_of
} Panel;

static int64_t panel_of(const Cg *c) {
  int64_t room = c->t->stack_bytes / 16 / 8;
  return cg_larger(block_of(c), cg_smaller(1024, room));
}

// Before any loop: a block on the stack is one for each time that its instruction runs.
static void make_blocks(Reduce *r, V (*block)(Cg *c, LLVMTypeRef elem, int64_t n)) {
  for (uint32_t k = 0; k + 1 < r->wide_levels; k++) r->part[k] = block(r->c, r->elem, panel_of(r->c));
  if (r->about_pivot) r->pivots = block(r->c, r->elem, panel_of(r->c));
}

// Each vector of the panel's columns.
static Loop each_vector(const Panel *p, V from, V *mask) {
  Cg *c = p->r->c;
  V vl = cg_i64(c, c->t->vl);
  Loop l = cg_each_by(c, from, p->n, vl);
  *mask = cg_mask(c, cg_min(c, vl, cg_sub(c, p->n, l.i)));
  return l;
}

// The sums of the rows [lo, hi) in n vectors from `column` on, joined with those at `to`.
static void add_columns(Panel *p, V lo, V hi, V to, V column, uint32_t n, V mask) {
  Reduce *r = p->r;
  Cg *c = r->c;
  V acc[MAX_ACC], pivot[MAX_ACC];
  start(r, acc, n);
  for (uint32_t k = 0; r->about_pivot && k < n; k++)
    pivot[k] = cg_get(c, r->vec, r->pivots, cg_add(c, column, cg_i64(c, k * (int64_t)c->t->vl)));
  for (Loop l = cg_carry(c, lo, hi, cg_i64(c, 1), acc, n); cg_next(&l);)
    add_row(r, p->s, l.i, column, n, mask, pivot, acc);
  for (uint32_t k = 0; k < n; k++) {
    V at = cg_add(c, column, cg_i64(c, k * (int64_t)c->t->vl));
    cg_put_masked(c, join(r, cg_get_masked(c, r->vec, to, at, mask), acc[k]), to, at, mask);
  }
}

static void add_group(Panel *p, V lo, V hi, V to) {
  Cg *c = p->r->c;
  V mask, whole;
  for (Loop l = cg_each_whole(c, cg_i64(c, 0), p->n, block_of(c), &whole); cg_next(&l);)
    add_columns(p, lo, hi, to, l.i, all_parts(c), NULL);
  for (Loop l = each_vector(p, whole, &mask); cg_next(&l);) add_columns(p, lo, hi, to, l.i, 1, mask);
}

static void clear(Panel *p, V to) {
  Cg *c = p->r->c;
  V mask;
  for (Loop l = each_vector(p, cg_i64(c, 0), &mask); cg_next(&l);)
    cg_put_masked(c, cg_splat(c, identity(p->r)), to, l.i, mask);
}

static void join_part(Panel *p, V to, V part) {
  Cg *c = p->r->c;
  V mask;
  for (Loop l = each_vector(p, cg_i64(c, 0), &mask); cg_next(&l);) {
    V sum = join(p->r, cg_get_masked(c, p->r->vec, to, l.i, mask), cg_get(c, p->r->vec, part, l.i));
    cg_put_masked(c, sum, to, l.i, mask);
  }
}

// As cg_cascade. Partial sums of level 1 are made in registers, those of the others in `part`.
static void add_level(Panel *p, uint32_t level, V lo, V hi, V to) {
  Cg *c = p->r->c;
  if (level == 0) {
    add_group(p, lo, hi, to);
    return;
  }
  int64_t size = 1;
  for (uint32_t k = 0; k < level; k++) size *= CASCADE_TERMS;
  for (Loop l = cg_each_by(c, lo, hi, cg_i64(c, size)); cg_next(&l);) {
    V end = cg_min(c, cg_add(c, l.i, cg_i64(c, size)), hi), part = level == 1 ? to : p->r->part[level - 2];
    if (level > 1) clear(p, part);
    add_level(p, level - 1, l.i, end, part);
    if (level > 1) join_part(p, to, part);
  }
}

static void add_wide(Reduce *r, const Strip *s, V n) {
  Cg *c = r->c;
  Panel p = {.r = r, .s = s, .n = n};
  V mask;
  if (r->about_pivot)
    for (Loop l = each_vector(&p, cg_i64(c, 0), &mask); cg_next(&l);)
      cg_put(c, pivots_of(r, elem_at(r, s->from, l.i), mask), r->pivots, l.i);
  clear(&p, s->to);
  add_level(&p, r->wide_levels, s->q0, s->q1, s->to);
}

// void columns(ptr from, ptr to, i64 q0, i64 q1, i64 row, i64 n, i64 rows) where rows lie `row` apart, for reductions of all
// sizes that have as many levels.
typedef struct {
  const Reduce *like;
  void (*add)(Reduce *r, const Strip *s, V n);
} Columns;

static void make_columns(Cg *c, V fn, void *ctx) {
  V arg[7];
  for (uint32_t k = 0; k < 7; k++) arg[k] = LLVMGetParam(fn, k);
  const Columns *f = ctx;
  Reduce r = reduce_of(c, f->like->op, f->like->type);
  r.w.n_reduced = 1, r.w.n_rows = arg[6], r.w.reduced[0].stride = arg[4], r.about_pivot = f->like->about_pivot;
  r.wide_levels = f->like->wide_levels, r.narrow_levels = f->like->narrow_levels;
  if (f->add == add_wide) make_blocks(&r, cg_stack_block);
  f->add(&r, &(Strip){.from = arg[0], .to = arg[1], .q0 = arg[2], .q1 = arg[3]}, arg[5]);
  LLVMBuildRetVoid(c->b);
}

static void call_columns(Reduce *r, const Strip *s, V n, bool wide) {
  Cg *c = r->c;
  Columns f = {r, wide ? add_wide : add_narrow};
  if (r->w.n_reduced != 1) {
    f.add(r, s, n);
    return;
  }
  uint32_t levels = wide ? r->wide_levels : r->narrow_levels;
  const char *name =
      rt_printf(c->mem, "%s_%s.%s.%u", ir_ops[r->op].name, wide ? "panel" : "columns", ir_dtype_name[r->type], levels);
  V arg[] = {s->from, s->to, s->q0, s->q1, r->w.reduced[0].stride, n, r->w.n_rows};
  cg_call_helper(c, name, arg, 7, make_columns, &f);
}

// The means of the sums about pivots at `to`.
static void make_means(Reduce *r, V to, bool alone) {
  Cg *c = r->c;
  V vl = cg_i64(c, c->t->vl), per_row = cg_ceil_div_value(c, r->w.inner, c->t->vl), lo, hi;
  Reduce whole = *r;
  whole.terms_of = r;
  share(c, alone, cg_mul(c, r->w.n_outer, per_row), SMALL / 2 / c->t->vl, &lo, &hi);
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);) {
    V o = cg_div(c, l.i, per_row), column = cg_mul(c, cg_sub(c, l.i, cg_mul(c, o, per_row)), vl);
    V n = cg_min(c, vl, cg_sub(c, r->w.inner, column)), mask = cg_mask(c, n);
    V at = elem_at(r, to, cg_add(c, cg_mul(c, o, r->w.inner), column)),
      pivot = pivots_at(r, elem_at(r, first_of(r, o), column), n);
    cg_store_masked(c, mean_of(&whole, pivot, cg_load_masked(c, r->vec, at, mask)), at, mask);
  }
}

// Units of work are (chunk, outer index, block of columns); a chunk of `chunk` rows stores its results at to + chunk
// number * results. n_chunks NULL: rows are not split. The order of a sum depends on the number of columns alone, not on who
// has which blocks.
static void emit_strips(Reduce *r, V to, V n_chunks, int64_t chunk, bool alone) {
  Cg *c = r->c;
  V width = cg_i64(c, block_of(c)), n_blocks = cg_ceil_div_value(c, r->w.inner, block_of(c)), zero = cg_i64(c, 0), lo,
    hi;
  V per_chunk = cg_mul(c, r->w.n_outer, n_blocks), first, last;
  int64_t inner = 0;
  bool is_known = cg_const_value(r->w.inner, &inner);
  share(c, alone, n_chunks ? cg_mul(c, per_chunk, n_chunks) : per_chunk, 1, &lo, &hi);
  for (Loop l = cg_each_row(c, lo, hi, cg_max(c, n_blocks, cg_i64(c, 1)), &first, &last); cg_next(&l);) {
    V which = n_chunks ? cg_div(c, l.i, r->w.n_outer) : zero;
    V o = r->w.n_kept ? cg_sub(c, l.i, cg_mul(c, which, r->w.n_outer)) : zero, from = cg_mul(c, first, width);
    V end = cg_min(c, cg_mul(c, last, width), r->w.inner);
    Strip row = {.q0 = zero, .q1 = r->w.n_rows};
    row.from = elem_at(r, r->from, cg_strided_offset(r->c, r->w.kept, r->w.n_kept, o));
    row.to = elem_at(r, to, cg_mul(c, l.i, r->w.inner));
    if (n_chunks) {
      row.q0 = cg_mul(c, which, cg_i64(c, chunk));
      row.q1 = cg_min(c, cg_add(c, row.q0, cg_i64(c, chunk)), r->w.n_rows);
    }
    for (If either = cg_either(c, is_known ? NULL : cg_ge(c, r->w.inner, width)); cg_then(&either);) {
      bool wide = is_known ? inner >= block_of(c) : either.is_true;
      V step = wide ? cg_i64(c, panel_of(c)) : width;
      for (Loop p = cg_each_by(c, from, end, step); cg_next(&p);) {
        Strip s = row;
        s.from = elem_at(r, row.from, p.i), s.to = elem_at(r, row.to, p.i);
        call_columns(r, &s, cg_min(c, step, cg_sub(c, end, p.i)), wide);
      }
    }
  }
}

// Column reductions: all terms, or the partial results of r in scratch. work: elements that are read.
static void emit_all_strips(Reduce *r, Reduce *last, V to, int64_t work) {
  Cg *c = r->c;
  bool alone = is_alone(work);
  for (If s = when_alone(c, alone); cg_then(&s);) {
    emit_strips(last, to, NULL, 0, alone);
    if (r->about_pivot && !alone) cg_wait_for_team(c);
    if (r->about_pivot) make_means(r, to, alone);
  }
}

static void set_levels(Reduce *r, int64_t rows) {
  if (joining(r->op) == OP_mul) return;
  r->wide_levels = cg_cascade_levels(rows);
  if (joining(r->op) == OP_add) r->narrow_levels = cg_cascade_levels(cg_ceil_div(rows, N_ACC));
}

static void emit_columns(Reduce *r, const ReducePlan *p, V to) {
  Cg *c = r->c;
  set_levels(r, p->n_chunks ? p->chunk : p->axes.terms);
  if (r->w.n_reduced != 1) make_blocks(r, cg_block);
  if (p->n_chunks && c->scratch) {
    V n_chunks = chunks_of(c, r->w.n_rows, p);
    emit_strips(r, c->scratch, n_chunks, p->chunk, false);
    cg_wait_for_team(c);
    V results = cg_mul(c, r->w.n_outer, r->w.inner);
    Reduce stage2 = reduce_of(c, r->op == OP_mean ? OP_sum : r->op, r->type);
    stage2.from = c->scratch, stage2.w.n_reduced = 1, stage2.w.inner = results, stage2.w.n_outer = cg_i64(c, 1);
    set_levels(&stage2, p->n_chunks);
    stage2.w.n_rows = n_chunks;
    stage2.w.reduced[0] = (StridedAxis){stage2.w.n_rows, results};
    emit_all_strips(r, &stage2, to, p->n_chunks * p->axes.results);
    return;
  }
  emit_all_strips(r, r, to, p->axes.results * p->axes.terms);
}

// ---- trivial reductions: of no terms, of one, of constants
static void fill(Cg *c, Val v, V value) {
  for (If s = cg_when(c, cg_first_worker(c)); cg_then(&s);) {
    V to = cg_ptr(c, v);
    for (Loop l = cg_count(c, cg_numel(c, ir_ins(c->f, v)->shape)); cg_next(&l);) cg_put(c, value, to, l.i);
  }
}

static Val through_views(const Fn *f, Val v) {
  while (ir_ops[ir_ins(f, v)->op].cls == CLASS_VIEW) v = ir_arg(f, v, 0);
  return v;
}

// Sums and maxima of short rows are emitted row per lane (row.c); there [1, C, T] to [C] is a column sum.
static bool has_narrow_rows(const Fn *f, Val v, const ReducePlan *p, int64_t lanes) {
  RowSpace columns;
  if (ir_column_sum(f, v, &columns)) return false;
  AxisGroup last = p->axes.group[p->axes.n - 1];
  Shape s = ir_ins(f, ir_arg(f, v, 0))->shape;
  bool row = p->axes.runs && p->axes.n == 2 && last.first == last.last && last.last + 1 == ir_rank(f->prog, s);
  Op op = (Op)ir_ins(f, v)->op;
  if (!row || op == OP_prod || ir_ins(f, v)->dtype != DT_F32) return false;
  if (!ir_dim_is_const(f->prog, ir_dim_at(f->prog, s, last.last))) return false;
  return last.bound < NARROW * lanes && p->axes.results >= lanes && !p->n_chunks;
}

bool cg_emit_reduce(Cg *c) {
  if (ir_reduces_exactly(c->f, ir_anchor(c->f, c->k))) return cg_emit_exact_reduce(c);
  Val v = ir_anchor(c->f, c->k), a = through_views(c->f, ir_arg(c->f, v, 0));
  Op op = (Op)ir_ins(c->f, v)->op;
  LLVMTypeRef elem = cg_elem_type(c, (DType)ir_ins(c->f, v)->dtype);
  ReducePlan p = plan_reduce(c->f, v);
  if (p.axes.results == 0) return true;
  if (p.axes.terms == 0) return fill(c, v, num(c, elem, op == OP_mean ? NAN : identity_of(op))), true;
  double value;  // a scalar operand may be an immediate: its own sum and maximum
  if (ir_is_const(c->f, a, &value)) return fill(c, v, num(c, elem, value)), true;
  if (ir_ins(c->f, a)->op == OP_dim_size)
    return fill(c, v, cg_sitofp(c, cg_dim(c, ir_attr(c->f, a, KEY_dim)->u.dim), elem)), true;
  if (has_narrow_rows(c->f, v, &p, lanes_of(c))) return cg_emit_row(c);
  Reduce r = make_reduce(c, v, &p);
  if (v.i > c->k->first && !r.made) return false;
  V to = cg_ptr(c, v);
  if (p.axes.runs) emit_runs(&r, &p, to);
  else emit_columns(&r, &p, to);
  return true;
}
