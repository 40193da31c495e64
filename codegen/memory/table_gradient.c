// The gradient of a table whose rows were looked up: rows summed by index, from zeros or from an addend.
//
// The order of each sum is the order of occurrence, whatever the number of workers: every worker walks all indices and owns
// a range of feature columns (wide rows) or of table rows (narrow ones). No atomics.
#include "codegen/emitters.h"
#include "codegen/span.h"

typedef enum { ROW_ZERO, ROW_COPY, ROW_ADD } RowAct;

// A row of n elements of a table.
static View row_of(Cg *c, View table, V row, V n) { return cg_view_at(c, table, cg_mul(c, row, n)); }

// to[lo, hi) = 0, = from, or += from.
static void each_column(Cg *c, RowAct a, View to, View from, V lo, V hi) {
  V zeros = LLVMConstNull(cg_vector_type(c, to.as, c->t->vl));
  for (Span s = cg_span(c, lo, hi); cg_next_vector(&s);) {
    V old = a == ROW_ADD ? cg_span_get(&s, to) : NULL, new = a == ROW_ZERO ? zeros : cg_span_get(&s, from);
    cg_span_put(&s, to, old ? cg_fadd(c, old, new) : new);
  }
}

// Columns balance the load for any indices; rows narrower than a few cache lines would be shared among
// workers.
enum { COLUMN_GRAIN = 16, WIDE = 64 };

// What the sums of a row start from. The addend may lie in the result's own place.
static void start_rows(Cg *c, Val v, View y, V width, V row, V lo, V hi) {
  View to = row_of(c, y, row, width);
  Val addend = ir_operand(c->f, v, ARG_addend);
  if (ir_none(addend)) each_column(c, ROW_ZERO, to, (View){0}, lo, hi);
  else each_column(c, ROW_COPY, to, row_of(c, cg_view(cg_ptr(c, addend), y.type), row, width), lo, hi);
}

// End of this worker's rows that must be initialised: none if the addend lies there already.
static V rows_to_start(Cg *c, Val v, V row_lo, V row_hi) {
  Val addend = ir_operand(c->f, v, ARG_addend);
  if (ir_none(addend)) return row_hi;
  V in_place = cg_eq(c, cg_ptr(c, addend), cg_ptr(c, v));
  return cg_select(c, in_place, row_lo, row_hi);
}

bool cg_emit_scatter(Cg *c) {
  Val v = {c->k->first}, index = ir_arg(c->f, v, 1);
  const Prog *p = c->f->prog;
  Shape table = ir_ins(c->f, v)->shape;
  Dim wide = ir_dim_at(p, table, 1);
  V rows = cg_dim(c, ir_dim_at(p, table, 0)), width = cg_dim(c, wide);
  V zero = cg_i64(c, 0), row_lo = zero, row_hi = rows, lo = zero, hi = width;
  DType t = (DType)ir_ins(c->f, v)->dtype;
  View from = cg_view(cg_ptr(c, ir_arg(c->f, v, 2)), t), to = cg_view(cg_ptr(c, v), t);
  V idx = cg_ptr(c, index);
  if (ir_dim_bound(p, wide) >= WIDE) cg_share(c, width, COLUMN_GRAIN, &lo, &hi);
  else cg_share(c, rows, 1, &row_lo, &row_hi);
  for (Loop r = cg_each(c, row_lo, rows_to_start(c, v, row_lo, row_hi)); cg_next(&r);)
    start_rows(c, v, to, width, r.i, lo, hi);
  for (Loop n = cg_count(c, cg_numel(c, ir_ins(c->f, index)->shape)); cg_next(&n);) {
    V i = cg_get(c, c->i64, idx, n.i);  // what is out of range was reported by the gather; it has no row here
    for (If in = cg_when(c, cg_between(c, i, row_lo, row_hi)); cg_then(&in);)
      each_column(c, ROW_ADD, row_of(c, to, i, width), row_of(c, from, n.i, width), lo, hi);
  }
  return true;
}
