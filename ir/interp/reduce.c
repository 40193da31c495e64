// Reductions, and ops that work on rows (the last axis).
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/interp/interp.h"

#include <math.h>

// For each axis of the operand its stride in the result: 0 for the reduced ones.
static void reduced_strides(const Run *r, Val v, const Sizes *from, int64_t *stride) {
  uint32_t reduced = ir_reduced_axes(r->f, v);
  int64_t step = 1;
  for (uint32_t k = from->rank; k-- > 0;) {
    bool is_kept = !(reduced >> k & 1);
    stride[k] = is_kept ? step : 0;
    if (is_kept) step *= from->dim[k];
  }
}

// An element as an integer: of {nonzero} whether it is not 0.
static int64_t integer_at(const Run *r, Val v, const Tensor *a, int64_t i) {
  DType t = (DType)ir_ins(r->f, ir_arg(r->f, v, 0))->dtype;
  if (ir_attr(r->f, v, KEY_nonzero)) return ir_dtype_kind[t] == DTYPE_FLOAT ? a->v[i] != 0 : run_whole(a, i) != 0;
  return ir_modulo(t, run_whole(a, i));
}

// Sums and products modulo 2^64.
static bool reduce(Run *r, Val v, double start, int64_t start_of_integers, Op fold) {
  if (!ir_attr(r->f, v, KEY_axes)) return run_fail(r, v, "no {axes}");
  Tensor out = run_result(r, v, 0), a = run_arg(r, v, 0);
  Sizes from = run_arg_sizes(r, v, 0);
  int64_t stride[MAX_RANK];
  bool of_integers = ir_reduces_exactly(r->f, v);
  reduced_strides(r, v, &from, stride);
  for (int64_t i = 0; i < out.n; i++) {
    if (of_integers) run_set_whole(r, &out, i, start_of_integers);
    else out.v[i] = start;
  }
  for (int64_t i = 0; i < a.n; i++) {
    int64_t at = run_offset(&from, stride, i);
    if (of_integers) {
      int64_t x = integer_at(r, v, &a, i);
      run_set_whole(r, &out, at, run_whole_primitive(fold, DT_I64, run_whole(&out, at), x, 0));
    } else {
      out.v[at] = ir_primitive(fold, out.v[at], a.v[i], 0);
    }
  }
  bool is_mean = ir_ins(r->f, v)->op == OP_mean;
  for (int64_t i = 0; is_mean && i < out.n; i++) out.v[i] /= (double)a.n / (double)out.n;
  r->val[v.i] = out;
  return true;
}

bool eval_sum(Run *r, Val v) { return reduce(r, v, 0, 0, OP_add); }
bool eval_mean(Run *r, Val v) { return reduce(r, v, 0, 0, OP_add); }
bool eval_prod(Run *r, Val v) { return reduce(r, v, 1, 1, OP_mul); }

bool eval_amax(Run *r, Val v) {
  DType t = (DType)ir_ins(r->f, v)->dtype;
  if (ir_dtype_kind[t] == DTYPE_FLOAT) return reduce(r, v, -INFINITY, 0, OP_max);
  bool least = ir_attr(r->f, v, KEY_least) != NULL;
  int64_t first = t == DT_BOOL ? least : ir_to_whole(t, least ? 0x1p63 : -0x1p63);
  return reduce(r, v, 0, first, least ? OP_min : OP_max);
}

// The first NaN counts as a maximum, and as a minimum.
static bool is_better(const Run *r, Val v, const Tensor *a, int64_t i, int64_t best) {
  bool least = ir_attr(r->f, v, KEY_least) != NULL;
  if (ir_dtype_kind[ir_ins(r->f, ir_arg(r->f, v, 0))->dtype] == DTYPE_FLOAT)
    return !isnan(a->v[best]) && (isnan(a->v[i]) || (least ? a->v[i] < a->v[best] : a->v[i] > a->v[best]));
  int64_t x = integer_at(r, v, a, i), y = integer_at(r, v, a, best);
  return least ? x < y : x > y;
}

// Of an axis without elements 0.
bool eval_argmax(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), a = run_arg(r, v, 0);
  Sizes from = run_arg_sizes(r, v, 0);
  uint32_t axis = (uint32_t)ir_attr_int(r->f, v, KEY_axis, from.rank - 1);
  int64_t n = from.dim[axis], step = 1;
  for (uint32_t k = axis + 1; k < from.rank; k++) step *= from.dim[k];
  for (int64_t i = 0; i < out.n; i++) {
    int64_t first = i / step * n * step + i % step, best = first;
    for (int64_t k = 1; k < n; k++)
      if (is_better(r, v, &a, first + k * step, best)) best = first + k * step;
    out.v[i] = (double)((best - first) / step);
  }
  return true;
}

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
