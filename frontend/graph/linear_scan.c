// Linear recurrences: factors that are the same at every step, or of several states, are not copied where the op can read them
// where they lie.
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/promote.h"
#include "frontend/tenure/order.h"
#include "ir/build.h"

// The sizes of b, of matrices with their columns behind, and 1 along the axis where a has none or one of 1
static tn_tensor factors_for(tn_tensor a, tn_tensor b, uint32_t axis, bool is_packed, tn_site at) {
  Prog *p = a.fn->p->ir;
  uint32_t rank = fe_rank(b), own = fe_rank(a), more = own > rank;
  Dim d[MAX_RANK], one = ir_dim(p, 1);
  if (!fe_ok(a) || own > rank + 1) return a;
  for (uint32_t k = 0; k < rank; k++) d[k] = fe_axis_dim(b, k);
  if (more) d[rank] = d[rank - 1];
  uint32_t behind = rank + more - axis;  // counted from the last axis, as sizes broadcast
  bool is_constant = own < behind || ir_dim_is_one(p, fe_axis_dim(a, own - behind));
  if (is_constant && !is_packed) d[axis] = one;
  for (uint32_t k = 1; k <= own; k++) {
    Dim has = fe_axis_dim(a, own - k);
    if (has.i != d[rank + more - k].i && !ir_dim_is_one(p, has)) return a;  // the op says what does not fit
  }
  Shape s = ir_shape(p, d, rank + more);
  return s.i == fe_shape_of(a).i ? a : fe_emit(OP_expand, &a, 1, (const Attr[]){ir_a_list(KEY_shape, s)}, 1, at);
}

tn_tensor fe_linear_scan(tn_tensor a, tn_tensor b, tn_tensor layout, uint32_t axis, const tn_linear_scan_options *o) {
  Attr attrs[] = {ir_a_int(KEY_axis, axis), ir_a_int(KEY_reverse, 1)};
  tn_tensor in[] = {factors_for(a, b, axis, layout.fn != NULL, o->at), b, o->initial, layout};
  if (!fe_ok(in[0])) return in[0];
  return fe_emit(OP_linear_scan, in, 4, attrs, o->reverse ? 2 : 1, o->at);
}

tn_scanned tn_linear_scan(tn_tensor a, tn_tensor b, int axis, tn_linear_scan_options o) {
  tn_function *f;
  tn_tensor given[] = {a, b, o.initial};
  uint32_t k;
  if (!fe_join(given, o.initial.fn ? 3 : 2, &f, o.at)) return (tn_scanned){fe_poison(f), fe_poison(f)};
  FE_GUARD(f->p, ((tn_scanned){fe_poison(f), fe_poison(f)}));
  tn_tensor row = b;
  if (!fe_row_axis(&row, axis, &k, o.at)) return (tn_scanned){fe_poison(f), fe_poison(f)};
  tn_tensor y = fe_linear_scan(a, row, (tn_tensor){0}, k, &o);
  if (!fe_ok(y)) return (tn_scanned){y, y};
  tn_tensor last = {f, y.v + 1};
  return (tn_scanned){fe_made(fe_like_row(y, b, o.at), o.at), fe_made(last, o.at)};
}
