// Calls that are one pointwise op each: tn_relu, tn_add, .., and tn_relu_, .. in place. The rows of ir/ops.def say which
// there are; tools/gen writes their definitions.
#include "frontend/graph/inplace.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/promote.h"
#include "frontend/tenure/ops.h"
#include "ir/build.h"

static tn_tensor call_pointwise(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs,
                                tn_site at) {
  return fe_made(fe_pointwise(op, a, n, attrs, n_attrs, at), at);
}

#include "pointwise_calls.h"
