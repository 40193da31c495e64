// Means of packed sequences, by which losses are reduced: %total = seq_sum %x, %L      %n = seq_part %L {part="lengths"}
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/reduce.h"
#include "frontend/graph/report.h"
#include "ir/fn.h"

static tn_tensor sequence_sums(tn_tensor x, tn_tensor layout, tn_site at) {
  return fe_ok(x) ? fe_emit2(OP_seq_sum, x, layout, at) : x;
}

tn_tensor fe_means_of_sequences(tn_tensor x, tn_tensor counts, tn_site at) {
  tn_tensor layout = {x.fn, fe_rows_of(x)};
  if (!layout.v) return fe_refuse(x, E_ARGUMENT, at, "TN_REDUCE_SEQUENCES is of rows of packed sequences");
  int axes[MAX_RANK];
  for (uint32_t k = 1; k < fe_rank(x); k++) axes[k - 1] = (int)k;
  if (fe_rank(x) > 1) x = fe_mean(x, axes, fe_rank(x) - 1, false, at);
  tn_tensor n =
      counts.fn ? sequence_sums(counts, layout, at) : fe_cast(fe_layout_part(layout, "lengths", at), DT_F32, at);
  tn_tensor total = sequence_sums(x, layout, at);
  return fe_ok(total) && fe_ok(n) ? fe_emit2(OP_div, total, n, at) : total;
}
