// Rows of a table by index (embedding), and the gradient of that: rows summed by index, from zeros or from an addend.
//
// The order of each sum is the order of occurrence, whatever the number of workers: in the gradient every worker walks
// all indices and owns a range of feature columns (wide rows) or of table rows (narrow ones). No atomics.
#include "codegen/cg.h"
#include "codegen/emitters.h"

static LLVMValueRef index_at(Cg *c, LLVMValueRef index, LLVMValueRef n) {
  return cg_load(c, c->i64, cg_at(c, c->i64, index, n));
}
// One unsigned comparison covers negative indices too.
static LLVMValueRef below(Cg *c, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildICmp(c->b, LLVMIntULT, a, b, ""); }
static LLVMValueRef row_at(Cg *c, LLVMValueRef base, LLVMValueRef row, LLVMValueRef width) {
  return cg_at(c, c->f32, base, cg_mul(c, row, width));
}
static bool is_zero(LLVMValueRef v) { return LLVMIsAConstantInt(v) && LLVMConstIntGetZExtValue(v) == 0; }

typedef enum { ROW_ZERO, ROW_COPY, ROW_ADD } RowAct;

static LLVMValueRef act(Cg *c, RowAct a, LLVMValueRef to, LLVMValueRef from) {
  return a == ROW_ZERO ? LLVMConstNull(c->vf) : a == ROW_COPY ? from : LLVMBuildFAdd(c->b, to, from, "");
}

// to[lo, hi) = 0, = from, or += from.
static void each_column(Cg *c, RowAct a, LLVMValueRef to, LLVMValueRef from, LLVMValueRef lo, LLVMValueRef hi) {
  LLVMValueRef vl = cg_i64(c, c->t->vl), n = cg_sub(c, hi, lo), whole = cg_mul(c, cg_div(c, n, vl), vl);
  LLVMValueRef last = cg_add(c, lo, whole);
  Loop l;
  cg_loop_begin(c, &l, lo, last, vl, NULL, 0);
  LLVMValueRef p = cg_at(c, c->f32, to, l.i);
  LLVMValueRef old = a == ROW_ADD ? cg_load(c, c->vf, p) : NULL;
  cg_store(c, act(c, a, old, a == ROW_ZERO ? NULL : cg_load(c, c->vf, cg_at(c, c->f32, from, l.i))), p);
  cg_loop_end(c, &l, NULL);
  LLVMValueRef rest = cg_sub(c, n, whole);
  if (is_zero(rest)) return;
  LLVMValueRef mask = cg_mask(c, rest), end = cg_at(c, c->f32, to, last);
  old = a == ROW_ADD ? cg_load_masked(c, c->vf, end, mask) : NULL;
  LLVMValueRef add = a == ROW_ZERO ? NULL : cg_load_masked(c, c->vf, cg_at(c, c->f32, from, last), mask);
  cg_store_masked(c, act(c, a, old, add), end, mask);
}

bool cg_emit_gather(Cg *c) {
  Val v = {c->k->first}, weight = ir_arg(c->f, v, 0), index = ir_arg(c->f, v, 1);
  const Prog *p = c->f->prog;
  Shape table = ir_ins(c->f, weight)->shape;
  LLVMValueRef rows = cg_dim(c, ir_dim_at(p, table, 0)), width = cg_dim(c, ir_dim_at(p, table, 1)), zero = cg_i64(c, 0);
  LLVMValueRef from = cg_ptr(c, weight), idx = cg_ptr(c, index), to = cg_ptr(c, v), lo, hi;
  cg_share(c, cg_numel(c, ir_ins(c->f, index)->shape), 1, &lo, &hi);
  Loop n;
  cg_loop_begin(c, &n, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef i = index_at(c, idx, n.i), out = row_at(c, to, n.i, width);
  If in;
  cg_if(c, &in, below(c, i, rows));
  each_column(c, ROW_COPY, out, row_at(c, from, i, width), zero, width);
  cg_else(c, &in);
  cg_report(c, TN_KERR_INDEX_RANGE, n.i, i);
  each_column(c, ROW_ZERO, out, NULL, zero, width);
  cg_endif(c, &in);
  cg_loop_end(c, &n, NULL);
  return true;
}

// Columns give an even load whatever the indices are; rows narrower than some cache lines would share them among
// workers.
enum { COLUMN_GRAIN = 16, WIDE = 64 };

// What the sums of a row start from. The addend may lie in the result's own place.
static void start_rows(Cg *c, Val v, LLVMValueRef width, const Loop *r, LLVMValueRef lo, LLVMValueRef hi) {
  LLVMValueRef to = row_at(c, cg_ptr(c, v), r->i, width);
  Val addend = ir_operand(c->f, v, ARG_addend);
  if (ir_none(addend)) each_column(c, ROW_ZERO, to, NULL, lo, hi);
  else each_column(c, ROW_COPY, to, row_at(c, cg_ptr(c, addend), r->i, width), lo, hi);
}

// The last of this worker's rows that have to be started: none where they lie there already.
static LLVMValueRef rows_to_start(Cg *c, Val v, LLVMValueRef row_lo, LLVMValueRef row_hi) {
  Val addend = ir_operand(c->f, v, ARG_addend);
  if (ir_none(addend)) return row_hi;
  LLVMValueRef in_place = LLVMBuildICmp(c->b, LLVMIntEQ, cg_ptr(c, addend), cg_ptr(c, v), "");
  return LLVMBuildSelect(c->b, in_place, row_lo, row_hi, "");
}

bool cg_emit_scatter(Cg *c) {
  Val v = {c->k->first}, index = ir_arg(c->f, v, 1);
  const Prog *p = c->f->prog;
  Shape table = ir_ins(c->f, v)->shape;
  Dim wide = ir_dim_at(p, table, 1);
  LLVMValueRef rows = cg_dim(c, ir_dim_at(p, table, 0)), width = cg_dim(c, wide);
  LLVMValueRef zero = cg_i64(c, 0), one = cg_i64(c, 1), row_lo = zero, row_hi = rows, lo = zero, hi = width;
  LLVMValueRef idx = cg_ptr(c, index), from = cg_ptr(c, ir_arg(c->f, v, 2)), to = cg_ptr(c, v);
  if (ir_dim_bound(p, wide) >= WIDE) cg_share(c, width, COLUMN_GRAIN, &lo, &hi);
  else cg_share(c, rows, 1, &row_lo, &row_hi);
  Loop r, n;
  cg_loop_begin(c, &r, row_lo, rows_to_start(c, v, row_lo, row_hi), one, NULL, 0);
  start_rows(c, v, width, &r, lo, hi);
  cg_loop_end(c, &r, NULL);
  LLVMValueRef mine = cg_sub(c, row_hi, row_lo);
  cg_loop_begin(c, &n, zero, cg_numel(c, ir_ins(c->f, index)->shape), one, NULL, 0);
  LLVMValueRef i = index_at(c, idx, n.i);
  If in;  // an index out of range was reported by the gather; it has no row here
  cg_if(c, &in, below(c, LLVMBuildSub(c->b, i, row_lo, ""), mine));
  LLVMValueRef sum = row_at(c, to, i, width);
  each_column(c, ROW_ADD, sum, row_at(c, from, n.i, width), lo, hi);
  cg_endif(c, &in);
  cg_loop_end(c, &n, NULL);
  return true;
}
