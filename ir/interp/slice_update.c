// Partial writes: the operand with a part replaced. The interpreter's values are never overwritten, so the operand
// stays.
#include "ir/fn.h"
#include "ir/interp/interp.h"

#include <string.h>

static Tensor copy_operand(Run *r, Val v) {
  Tensor out = run_result(r, v, 0);
  if (out.n) memcpy(out.v, run_arg(r, v, 0).v, (size_t)out.n * sizeof(double));
  return out;
}

bool eval_slice_assign(Run *r, Val v) {
  Tensor out = copy_operand(r, v), part = run_arg(r, v, 1);
  Sizes to = run_sizes(r, v), from = run_arg_sizes(r, v, 1);
  RunSlice s;
  if (!run_slice(r, v, &to, from.dim[ir_attr_int(r->f, v, KEY_axis, 0)], &s)) return false;
  for (int64_t i = 0; i < part.n; i++) out.v[s.base + run_offset(&from, s.stride, i)] = part.v[i];
  return true;
}

bool eval_index_assign(Run *r, Val v) {
  Tensor out = copy_operand(r, v), index = run_arg(r, v, 1), part = run_arg(r, v, 2);
  int64_t n_rows = run_sizes(r, v).dim[0], width = n_rows ? out.n / n_rows : 0;
  for (int64_t i = 0; i < index.n; i++) {
    int64_t row = (int64_t)index.v[i];
    if (row < 0 || row >= n_rows)
      return run_fail(r, v, "index %lld at element %lld is not in [0, %lld)", (long long)row, (long long)i,
                      (long long)n_rows);
    for (int64_t j = 0; j < width; j++) out.v[row * width + j] = part.v[i * width + j];
  }
  return true;
}
