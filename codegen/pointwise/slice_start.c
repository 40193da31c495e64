// Where a slice whose start is a value of the run begins.
#include "codegen/cg.h"
#include "codegen/pointwise/pointwise.h"
#include "ir/passes/plan.h"
#include "ir/slice.h"

V cg_slice_start(Cg *c, Val v, V *in_range) {
  Slice s;
  ir_slice(c->f, v, &s);
  *in_range = NULL;
  if (ir_none(s.at)) return cg_dim(c, s.start);
  V at = cg_load(c, c->i64, cg_ptr(c, s.at)), zero = cg_i64(c, 0);
  if (ir_may_fault(c->f, v)) {
    V last = cg_dim(c, s.last_start);
    *in_range = cg_and(c, cg_ge(c, at, zero), cg_le(c, at, last));
    for (If bad = cg_when(c, cg_not(c, *in_range)); cg_then(&bad);)
      cg_report(c, TN_KERR_SLICE_RANGE, cg_sext(c, cg_id(c, v), c->i64), at);
  }
  return cg_add(c, cg_dim(c, s.start), at);
}
