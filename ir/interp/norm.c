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

static int64_t width_of(Run *r, Val v) {
  Sizes s = run_arg_sizes(r, v, 0);
  return run_cols(&s);
}

bool eval_layer_norm(Run *r, Val v) {
  Tensor x = run_arg(r, v, 0), w = run_operand(r, v, ARG_weight), b = run_operand(r, v, ARG_bias);
  Tensor y = run_result(r, v, 0), mean = run_result(r, v, 1), rstd = run_result(r, v, 2);
  int64_t n = width_of(r, v);
  double eps = ir_attr_num(r->f, v, KEY_eps, 0);
  for (int64_t i = 0; i < mean.n; i++) {
    const double *row = x.v + i * n;
    mean.v[i] = mean_of(row, n);
    rstd.v[i] = 1 / sqrt(variance_of(row, mean.v[i], n) + eps);
    for (int64_t j = 0; j < n; j++) y.v[i * n + j] = (row[j] - mean.v[i]) * rstd.v[i] * at_or(w, j, 1) + at_or(b, j, 0);
  }
  return true;
}

bool eval_rms_norm(Run *r, Val v) {
  Tensor x = run_arg(r, v, 0), w = run_operand(r, v, ARG_weight);
  Tensor y = run_result(r, v, 0), rstd = run_result(r, v, 1);
  int64_t n = width_of(r, v);
  for (int64_t i = 0; i < rstd.n; i++) {
    const double *row = x.v + i * n;
    rstd.v[i] = 1 / sqrt(variance_of(row, 0, n) + ir_attr_num(r->f, v, KEY_eps, 0));
    for (int64_t j = 0; j < n; j++) y.v[i * n + j] = row[j] * rstd.v[i] * at_or(w, j, 1);
  }
  return true;
}

// With u = (x - mean) rstd and h = g weight: rstd (h - mean of h - u mean of h u); without `mean` no mean of h.
static void grad_row(double *out, const double *x, const double *g, Tensor w, const double *mean, double rstd,
                     int64_t n) {
  double sum = 0, dot = 0, m = mean ? *mean : 0;
  for (int64_t j = 0; j < n; j++) {
    double h = g[j] * at_or(w, j, 1);
    sum += mean ? h : 0;
    dot += h * (x[j] - m) * rstd;
  }
  for (int64_t j = 0; j < n; j++)
    out[j] = rstd * (g[j] * at_or(w, j, 1) - sum / (double)n - (x[j] - m) * rstd * dot / (double)n);
}

bool eval_layer_norm_grad(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), x = run_arg(r, v, 0), mean = run_operand(r, v, ARG_mean),
         rstd = run_operand(r, v, ARG_rstd), g = run_operand(r, v, ARG_g), w = run_operand(r, v, ARG_weight);
  int64_t n = width_of(r, v);
  for (int64_t i = 0; n && i < rstd.n; i++)
    grad_row(out.v + i * n, x.v + i * n, g.v + i * n, w, &mean.v[i], rstd.v[i], n);
  return true;
}

bool eval_rms_norm_grad(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), x = run_arg(r, v, 0), rstd = run_operand(r, v, ARG_rstd),
         g = run_operand(r, v, ARG_g), w = run_operand(r, v, ARG_weight);
  int64_t n = width_of(r, v);
  for (int64_t i = 0; n && i < rstd.n; i++) grad_row(out.v + i * n, x.v + i * n, g.v + i * n, w, NULL, rstd.v[i], n);
  return true;
}
