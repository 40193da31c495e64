// Layer norm and RMS norm: rows scaled to unit variance, with their gradients.
#include "ir/fn.h"
#include "ir/interp/interp.h"

#include <math.h>

static double mean_of(const double *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i];
  return sum / (double)n;
}

static double variance_of(const double *x, double mean, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
  return sum / (double)n;
}

static double at_or(Tensor t, int64_t i, double other) { return t.v ? t.v[i] : other; }

// Rows run along {axis}, or along the last: element j of row i lies at first + j step.
typedef struct {
  int64_t n, step;
  double *row[2];  // a row of x, and one of g, with elements side by side
} Rows;

static Rows rows_of(Run *r, Val v) {
  Sizes s = run_arg_sizes(r, v, 0);
  uint32_t axis = (uint32_t)ir_attr_int(r->f, v, KEY_axis, s.rank - 1);
  Rows rows = {.n = s.dim[axis], .step = 1};
  for (uint32_t k = 0; k < 2; k++) rows.row[k] = rt_alloc(r->env->mem, (size_t)(rows.n + 1) * sizeof *rows.row[k]);
  for (uint32_t k = axis + 1; k < s.rank; k++) rows.step *= s.dim[k];
  return rows;
}

static int64_t first_of(Rows w, int64_t i) { return i / w.step * w.step * w.n + i % w.step; }

static const double *row_of(Rows w, double *row, const double *x, int64_t i) {
  for (int64_t j = 0; j < w.n; j++) row[j] = x[first_of(w, i) + j * w.step];
  return row;
}

bool eval_layer_norm(Run *r, Val v) {
  Tensor x = run_arg(r, v, 0), w = run_operand(r, v, ARG_weight), b = run_operand(r, v, ARG_bias);
  Tensor y = run_result(r, v, 0), mean = run_result(r, v, 1), rstd = run_result(r, v, 2);
  Rows rows = rows_of(r, v);
  double eps = ir_attr_num(r->f, v, KEY_eps, 0);
  for (int64_t i = 0; i < mean.n; i++) {
    const double *row = row_of(rows, rows.row[0], x.v, i);
    double *out = y.v + first_of(rows, i);
    mean.v[i] = mean_of(row, rows.n);
    rstd.v[i] = 1 / sqrt(variance_of(row, mean.v[i], rows.n) + eps);
    for (int64_t j = 0; j < rows.n; j++)
      out[j * rows.step] = (row[j] - mean.v[i]) * rstd.v[i] * at_or(w, j, 1) + at_or(b, j, 0);
  }
  return true;
}

bool eval_rms_norm(Run *r, Val v) {
  Tensor x = run_arg(r, v, 0), w = run_operand(r, v, ARG_weight);
  Tensor y = run_result(r, v, 0), rstd = run_result(r, v, 1);
  Rows rows = rows_of(r, v);
  for (int64_t i = 0; i < rstd.n; i++) {
    const double *row = row_of(rows, rows.row[0], x.v, i);
    double *out = y.v + first_of(rows, i);
    rstd.v[i] = 1 / sqrt(variance_of(row, 0, rows.n) + ir_attr_num(r->f, v, KEY_eps, 0));
    for (int64_t j = 0; j < rows.n; j++) out[j * rows.step] = row[j] * rstd.v[i] * at_or(w, j, 1);
  }
  return true;
}

// With u = (x - mean) rstd and h = g weight: rstd (h - mean of h - u mean of h u); without `mean` no mean of h.
static void grad_row(double *out, const double *x, const double *g, Tensor w, const double *mean, double rstd,
                     Rows rows) {
  int64_t n = rows.n;
  double sum = 0, dot = 0, m = mean ? *mean : 0;
  for (int64_t j = 0; j < n; j++) {
    double h = g[j] * at_or(w, j, 1);
    sum += mean ? h : 0;
    dot += h * (x[j] - m) * rstd;
  }
  for (int64_t j = 0; j < n; j++)
    out[j * rows.step] = rstd * (g[j] * at_or(w, j, 1) - sum / (double)n - (x[j] - m) * rstd * dot / (double)n);
}

static bool eval_norm_grad(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), x = run_arg(r, v, 0), mean = run_operand(r, v, ARG_mean),
         rstd = run_operand(r, v, ARG_rstd), g = run_operand(r, v, ARG_g), w = run_operand(r, v, ARG_weight);
  Rows rows = rows_of(r, v);
  for (int64_t i = 0; rows.n && i < rstd.n; i++)
    grad_row(out.v + first_of(rows, i), row_of(rows, rows.row[0], x.v, i), row_of(rows, rows.row[1], g.v, i), w,
             mean.v ? &mean.v[i] : NULL, rstd.v[i], rows);
  return true;
}

bool eval_layer_norm_grad(Run *r, Val v) { return eval_norm_grad(r, v); }
bool eval_rms_norm_grad(Run *r, Val v) { return eval_norm_grad(r, v); }
