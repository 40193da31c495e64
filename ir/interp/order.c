// Order along an axis, search, and what is not zero.
#include "ir/fn.h"
#include "ir/interp/interp.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
  double x;
  int64_t at;
  bool descending;
} Element;

// NaN is greatest; equal elements by where they stand.
static int in_order(const void *a, const void *b) {
  const Element *p = a, *q = b;
  int by_value = isnan(p->x) || isnan(q->x) ? isnan(p->x) - isnan(q->x) : (p->x > q->x) - (p->x < q->x);
  if (by_value) return p->descending ? -by_value : by_value;
  return (p->at > q->at) - (p->at < q->at);
}

static int64_t first_wanted(Run *r, Val v, const Element *row, int64_t n) {
  Op op = (Op)ir_ins(r->f, v)->op;
  int64_t n_nan = 0;
  if (op == OP_kth_value) return ir_attr_int(r->f, v, KEY_size, 1) - 1;
  if (op != OP_median) return 0;
  for (int64_t j = 0; j < n; j++) n_nan += isnan(row[j].x);
  return n_nan ? n - n_nan : (n - 1) / 2;
}

static bool sort_rows(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), index = run_result(r, v, 1), x = run_arg(r, v, 0);
  uint32_t axis = (uint32_t)ir_attr_int(r->f, v, KEY_axis, 0);
  Sizes from = run_arg_sizes(r, v, 0), to = run_sizes(r, v);
  int64_t n = from.dim[axis], m = to.dim[axis], step = 1;
  for (uint32_t k = axis + 1; k < from.rank; k++) step *= from.dim[k];
  Element *row = rt_alloc(r->env->mem, (size_t)(n + 1) * sizeof *row);
  if (n == 0) {  // only a median has results for an empty axis
    for (int64_t i = 0; i < out.n; i++)
      out.v[i] = ir_dtype_kind[ir_ins(r->f, v)->dtype] == DTYPE_FLOAT ? NAN : 0, index.v[i] = -1;
    return true;
  }
  for (int64_t i = 0; i < x.n / n; i++) {
    int64_t first = i / step * step * n + i % step, start = i / step * step * m + i % step;
    for (int64_t j = 0; j < n; j++)
      row[j] = (Element){x.v[first + j * step], j, ir_attr(r->f, v, KEY_descending) != NULL};
    qsort(row, (size_t)n, sizeof *row, in_order);
    int64_t skip = first_wanted(r, v, row, n);
    for (int64_t j = 0; j < m; j++) {
      out.v[start + j * step] = row[skip + j].x;
      index.v[start + j * step] = (double)row[skip + j].at;
    }
  }
  return true;
}

bool eval_sort(Run *r, Val v) { return sort_rows(r, v); }
bool eval_topk(Run *r, Val v) { return sort_rows(r, v); }
bool eval_kth_value(Run *r, Val v) { return sort_rows(r, v); }
bool eval_median(Run *r, Val v) { return sort_rows(r, v); }

// Binary search, as PyTorch does it: rows that are not sorted give the same results as there.
bool eval_searchsorted(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), sorted = run_arg(r, v, 0), x = run_arg(r, v, 1);
  Sizes rows = run_arg_sizes(r, v, 0), own = run_arg_sizes(r, v, 1);
  bool right = ir_attr(r->f, v, KEY_right) != NULL;
  int64_t n = run_cols(&rows), m = rows.rank > 1 ? run_cols(&own) : x.n;
  for (int64_t i = 0; i < out.n; i++) {
    const double *row = sorted.v + i / m * n;
    int64_t lo = 0, hi = n;
    while (lo < hi) {
      int64_t middle = (lo + hi) / 2;
      bool is_before = right ? !(row[middle] > x.v[i]) : !(row[middle] >= x.v[i]);
      if (is_before) lo = middle + 1;
      else hi = middle;
    }
    out.v[i] = (double)lo;
  }
  return true;
}

static void pad_places(Tensor index, int64_t n) {
  for (; n < index.n; n++) index.v[n] = -1;
}

bool eval_repeat_index(Run *r, Val v) {
  Tensor index = run_result(r, v, 0), total = run_result(r, v, 1), counts = run_arg(r, v, 0);
  int64_t n = 0;
  for (int64_t i = 0; i < counts.n; i++) {
    if (counts.v[i] < 0) return run_fail(r, v, "count %lld at %lld is below 0", (long long)counts.v[i], (long long)i);
    if (counts.v[i] > (double)(index.n - n))
      return run_fail(r, v, "the counts have a sum above %lld", (long long)index.n);
    for (int64_t end = n + (int64_t)counts.v[i]; n < end; n++) index.v[n] = (double)i;
  }
  pad_places(index, n);
  total.v[0] = (double)n;
  return true;
}

bool eval_nonzero(Run *r, Val v) {
  Tensor index = run_result(r, v, 0), count = run_result(r, v, 1), x = run_arg(r, v, 0);
  int64_t n = 0;
  for (int64_t i = 0; i < x.n; i++) {
    if (x.v[i] == 0) continue;
    if (n == index.n) return run_fail(r, v, "more than %lld elements are not 0", (long long)n);
    index.v[n++] = (double)i;
  }
  pad_places(index, n);
  count.v[0] = (double)n;
  return true;
}
