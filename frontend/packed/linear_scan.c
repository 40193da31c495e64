// Linear recurrences over packed rows, each sequence alone.
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/packed/packed.h"

static tn_packed_scanned poisoned(tn_function *f) { return (tn_packed_scanned){fe_poisoned_packed(f), fe_poison(f)}; }

tn_packed_scanned tn_packed_linear_scan(tn_tensor a, tn_packed b, tn_linear_scan_options o) {
  tn_function *f;
  tn_tensor given[] = {b.data, b.layout, a, o.initial};
  if (!fe_join(given, o.initial.fn ? 4 : 3, &f, o.at)) return poisoned(f);
  if (!fe_join_packed(&b, 1, &f, o.at)) return poisoned(f);
  FE_GUARD(f->p, poisoned(f));
  tn_tensor y = fe_linear_scan(a, b.data, b.layout, 0, &o);
  if (!fe_ok(y)) return poisoned(f);
  tn_tensor last = {f, y.v + 1};
  return (tn_packed_scanned){fe_with_data(b, y, o.at), fe_made(last, o.at)};
}
