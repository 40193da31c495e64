// Reductions, and ops that work on rows (the last axis).
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/interp/interp.h"

#include <math.h>

// For each axis of the operand its stride in the result: 0 for the reduced ones.
static void reduced_strides(const Run *r, Val v, const Sizes *from, int64_t *stride) {
  Shape axes = ir_attr(r->f, v, KEY_axes)->u.list;
  bool reduced[MAX_RANK] = {false};
  for (uint32_t k = 0; k < ir_rank(r->f->prog, axes); k++) reduced[ir_list_at(r->f->prog, axes, k)] = true;
  int64_t step = 1;
  for (uint32_t k = from->rank; k-- > 0;) {
    stride[k] = reduced[k] ? 0 : step;
    if (!reduced[k]) step *= from->dim[k];
  }
}

static bool reduce(Run *r, Val v, double start, Op fold) {
  if (!ir_attr(r->f, v, KEY_axes)) return run_fail(r, v, "no {axes}");
  Tensor out = run_result(r, v, 0), a = run_arg(r, v, 0);
  Sizes from = run_arg_sizes(r, v, 0);
  int64_t stride[MAX_RANK];
  reduced_strides(r, v, &from, stride);
  for (int64_t i = 0; i < out.n; i++) out.v[i] = start;
  for (int64_t i = 0; i < a.n; i++) {
    double *at = &out.v[run_offset(&from, stride, i)];
    *at = ir_primitive(fold, *at, a.v[i], 0);
  }
  bool is_mean = ir_ins(r->f, v)->op == OP_mean;
  for (int64_t i = 0; is_mean && i < out.n; i++) out.v[i] /= (double)a.n / (double)out.n;
  return true;
}

bool eval_sum(Run *r, Val v) { return reduce(r, v, 0, OP_add); }
bool eval_mean(Run *r, Val v) { return reduce(r, v, 0, OP_add); }

bool eval_prod(Run *r, Val v) { return reduce(r, v, 1, OP_mul); }
bool eval_amax(Run *r, Val v) { return reduce(r, v, -INFINITY, OP_max); }

// ---- rows: x is one row of n elements
static double row_max(const double *x, int64_t n) {
  double top = -INFINITY;
  for (int64_t i = 0; i < n; i++) top = ir_primitive(OP_max, top, x[i], 0);
  return top;
}

static double row_lse(const double *x, int64_t n) {
  double top = row_max(x, n), sum = 0;
  if (isinf(top)) return top;
  for (int64_t i = 0; i < n; i++) sum += exp(x[i] - top);
  return top + log(sum);
}

static double row_sum(const double *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i];
  return sum;
}

// The first NaN counts as a maximum, else the first of the largest.
static int64_t row_argmax(const double *x, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 0; i < n && !isnan(x[best]); i++)
    if (isnan(x[i]) || x[i] > x[best]) best = i;
  return best;
}

bool eval_argmax(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), a = run_arg(r, v, 0);
  Sizes from = run_arg_sizes(r, v, 0);
  int64_t n = run_cols(&from);
  if (n == 0 && out.n) return run_fail(r, v, "a row has no elements");
  for (int64_t i = 0; i < out.n; i++) out.v[i] = (double)row_argmax(a.v + i * n, n);
  return true;
}

// A row of the result from the rows of the operands, along {axis} or the last; b is NULL where there is one operand.
typedef void RowFn(double *out, const double *a, const double *b, int64_t n);

static bool each_row(Run *r, Val v, RowFn *fn) {
  Tensor out = run_result(r, v, 0), a = run_arg(r, v, 0);
  Tensor b = run_operand(r, v, ARG_g);
  Sizes to = run_sizes(r, v);
  uint32_t axis = (uint32_t)ir_attr_int(r->f, v, KEY_axis, to.rank - 1);
  int64_t n = to.dim[axis], step = 1;
  for (uint32_t k = axis + 1; k < to.rank; k++) step *= to.dim[k];
  double *row = rt_alloc(r->env->mem, 3 * (size_t)n * sizeof *row);
  for (int64_t i = 0; i < (n ? out.n / n : 0); i++) {
    int64_t first = i / step * step * n + i % step;
    for (int64_t j = 0; j < n; j++) {
      row[j] = a.v[first + j * step];
      if (b.v) row[n + j] = b.v[first + j * step];
    }
    fn(row + 2 * n, row, b.v ? row + n : NULL, n);
    for (int64_t j = 0; j < n; j++) out.v[first + j * step] = row[2 * n + j];
  }
  return true;
}

static void softmax_row(double *out, const double *a, const double *b, int64_t n) {
  (void)b;
  double top = row_max(a, n);
  for (int64_t i = 0; i < n; i++) out[i] = exp(a[i] - top);
  double sum = row_sum(out, n);
  for (int64_t i = 0; i < n; i++) out[i] /= sum;
}

static void softmax_grad_row(double *out, const double *y, const double *g, int64_t n) {
  double dot = 0;
  for (int64_t i = 0; i < n; i++) dot += g[i] * y[i];
  for (int64_t i = 0; i < n; i++) out[i] = y[i] * (g[i] - dot);
}

static void log_softmax_row(double *out, const double *a, const double *b, int64_t n) {
  (void)b;
  double top = row_max(a, n), sum = 0;
  for (int64_t i = 0; i < n; i++) sum += exp(a[i] - top);
  for (int64_t i = 0; i < n; i++) out[i] = a[i] - top - log(sum);
}

static void log_softmax_grad_row(double *out, const double *y, const double *g, int64_t n) {
  double sum = row_sum(g, n);
  for (int64_t i = 0; i < n; i++) out[i] = g[i] - exp(y[i]) * sum;
}

bool eval_softmax(Run *r, Val v) { return each_row(r, v, softmax_row); }
bool eval_softmax_grad(Run *r, Val v) { return each_row(r, v, softmax_grad_row); }
bool eval_log_softmax(Run *r, Val v) { return each_row(r, v, log_softmax_row); }
bool eval_log_softmax_grad(Run *r, Val v) { return each_row(r, v, log_softmax_grad_row); }

// ---- cross-entropy by rows
// *label is -1 for a row that is ignored.
static bool label_at(Run *r, Val v, int64_t row, int64_t n, int64_t *label) {
  const Attr *ignore = ir_attr(r->f, v, KEY_ignore);
  *label = (int64_t)run_arg(r, v, 1).v[row];
  if (ignore && *label == ignore->u.i) {
    *label = -1;
    return true;
  }
  if (*label >= 0 && *label < n) return true;
  return run_fail(r, v, "label %lld at row %lld is not in [0, %lld)", (long long)*label, (long long)row, (long long)n);
}

bool eval_cross_entropy_rows(Run *r, Val v) {
  Tensor loss = run_result(r, v, 0), lse = run_result(r, v, 1), a = run_arg(r, v, 0);
  Sizes from = run_arg_sizes(r, v, 0);
  int64_t n = run_cols(&from), label;
  for (int64_t i = 0; i < loss.n; i++) {
    if (!label_at(r, v, i, n, &label)) return false;
    lse.v[i] = row_lse(a.v + i * n, n);
    loss.v[i] = label < 0 ? 0 : lse.v[i] - a.v[i * n + label];
  }
  return true;
}

bool eval_cross_entropy_rows_grad(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), a = run_arg(r, v, 0), lse = run_arg(r, v, 2), g = run_arg(r, v, 3);
  Sizes to = run_sizes(r, v);
  int64_t n = run_cols(&to), label;
  for (int64_t i = 0; n && i < out.n / n; i++) {
    if (!label_at(r, v, i, n, &label)) return false;
    double scale = g.v[g.n == 1 ? 0 : i];
    for (int64_t j = 0; j < n; j++)
      out.v[i * n + j] = label < 0 ? 0 : (exp(a.v[i * n + j] - lse.v[i]) - (j == label)) * scale;
  }
  return true;
}

// ---- moments by channel
bool eval_moments(Run *r, Val v) {
  Tensor x = run_arg(r, v, 0), mean = run_result(r, v, 0), rest = run_result(r, v, 1), squares = run_result(r, v, 2);
  int64_t channels = mean.n, rows = channels ? x.n / channels : 0;
  for (int64_t k = 0; k < channels; k++) {
    double sum = 0;
    for (int64_t i = 0; i < rows; i++) sum += x.v[i * channels + k];
    mean.v[k] = rows ? (float)(sum / (double)rows) : 0, rest.v[k] = squares.v[k] = 0;
    for (int64_t i = 0; i < rows; i++) {
      double d = x.v[i * channels + k] - mean.v[k];
      rest.v[k] += d, squares.v[k] += d * d;
    }
  }
  return true;
}
