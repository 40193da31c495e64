// Images resized by a matrix for each axis, a constant of the program, whose row k has the weights of element k of the result:
// of bytes, which are rounded behind each axis.
//
//   x [N, C, H, W]   ->   x W^T for the last axis, then the same for the one before
//
// Weights are those of PyTorch and Pillow. Of bytes they are numbers of 15 bits by a power of 2, so that all sums are exact in
// f32, and so is their rounding.
#include "frontend/graph/ops.h"
#include "frontend/graph/spatial.h"
#include "ir/build.h"

#include <math.h>

enum { MOST_WEIGHTS = 1 << 24 };

typedef struct {
  int64_t in, out;
  double step;  // elements of x from one of the result to the next
  const FeResize *r;
} Axis;

// ---- weights
static double filter(const FeResize *r, double t) {
  double a = r->antialias ? -0.5 : -0.75;
  t = fabs(t);
  if (r->mode == TN_LINEAR) return t < 1 ? 1 - t : 0;
  if (t < 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? (((t - 5) * t + 8) * t - 4) * a : 0;
}

static int64_t neighbours(const FeResize *r) { return r->mode == TN_LINEAR ? 2 : 4; }

// The filter is as wide as what an element of the result covers.
static void antialiased(const Axis *a, int64_t k, double *row) {
  double wide = a->step >= 1 ? a->step : 1, support = (double)neighbours(a->r) * 0.5 * wide, sum = 0;
  double centre = a->step * ((double)k + 0.5);
  int64_t first = (int64_t)(centre - support + 0.5), end = (int64_t)(centre + support + 0.5);
  if (first < 0) first = 0;
  if (end > a->in) end = a->in;
  for (int64_t j = first; j < end; j++) sum += row[j] = filter(a->r, ((double)j - centre + 0.5) / wide);
  for (int64_t j = first; j < end; j++) row[j] = sum != 0 ? row[j] / sum : 0;
}

// What lies outside is the element at the edge.
static void interpolated(const Axis *a, int64_t k, double *row) {
  double at = a->r->align ? a->step * (double)k : a->step * ((double)k + 0.5) - 0.5;
  if (a->r->mode == TN_LINEAR && at < 0) at = 0;
  int64_t first = (int64_t)floor(at), n = neighbours(a->r);
  if (first > a->in - 1) first = a->in - 1;
  double t = at - (double)first;
  if (t > 1) t = 1;
  for (int64_t d = 1 - n / 2; d <= n / 2; d++) {
    int64_t j = first + d;
    row[j < 0 ? 0 : j >= a->in ? a->in - 1 : j] += filter(a->r, (double)d - t);
  }
}

// As many bits behind the point as keep the largest weight below 2^15.
static void quantise(double *w, int64_t n) {
  double most = 0;
  int bits = 0;
  for (int64_t k = 0; k < n; k++) most = w[k] > most ? w[k] : most;
  while (bits < 22 && floor(0.5 + ldexp(most, bits + 1)) < 1 << 15) bits++;
  for (int64_t k = 0; k < n; k++) w[k] = ldexp(trunc(ldexp(w[k], bits) + (w[k] < 0 ? -0.5 : 0.5)), -bits);
}

// [out, in]
static tn_tensor matrix(tn_tensor x, const Axis *a) {
  Prog *p = x.fn->p->ir;
  int64_t n = a->in * a->out;
  double *w = rt_alloc(x.fn->p->mem, (size_t)n * sizeof *w);
  float *rounded = rt_alloc(x.fn->p->mem, (size_t)n * sizeof *rounded);
  for (int64_t k = 0; k < n; k++) w[k] = 0;
  for (int64_t k = 0; k < a->out; k++) (a->r->antialias ? antialiased : interpolated)(a, k, w + k * a->in);
  if (a->r->of_bytes) quantise(w, n);
  for (int64_t k = 0; k < n; k++) rounded[k] = (float)w[k];
  const Dim d[] = {ir_dim(p, a->out), ir_dim(p, a->in)};
  return (tn_tensor){x.fn, ir_table(x.fn->ir, DT_F32, ir_shape(p, d, 2), rounded, fe_loc(x.fn->p, a->r->at)).i};
}

// ---- axes
static tn_tensor rounded_bytes(tn_tensor y, tn_site at) {
  y = fe_with_number(OP_add, y, 0.5, at);
  if (fe_ok(y)) y = fe_emit1(OP_floor, y, at);
  return fe_with_number(OP_min, fe_with_number(OP_max, y, 0, at), 255, at);
}

static tn_tensor along(tn_tensor x, uint32_t axis, const Axis *a) {
  const uint32_t swapped[] = {0, 1, 3, 2};
  tn_site at = a->r->at;
  bool is_last = axis == 3;
  if (!is_last) x = fe_permute(x, swapped, at);
  tn_tensor y = fe_ok(x) ? fe_emit2(OP_linear, x, matrix(x, a), at) : x;
  if (a->r->of_bytes) y = rounded_bytes(y, at);
  return is_last || !fe_ok(y) ? y : fe_permute(y, swapped, at);
}

static double step_of(const FeResize *r, uint32_t k, int64_t in, int64_t out) {
  if (r->align) return out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
  return r->scales[k] != 0 ? 1 / r->scales[k] : (double)in / (double)out;
}

tn_tensor fe_resize_by_matrix(tn_tensor x, const FeResize *r) {
  const Prog *p = x.fn->p->ir;
  for (uint32_t k = 2; k-- > 0 && fe_ok(x);) {
    Axis a = {ir_dim_bound(p, fe_axis_dim(x, k + 2)), ir_dim_bound(p, r->sizes[k]), 0, r};
    a.step = step_of(r, k, a.in, a.out);
    if (a.in * a.out > MOST_WEIGHTS)
      return fe_refuse(x, E_ARGUMENT, r->at, "an axis and its new size have a product of at most 2^24 here");
    if (a.in != a.out) x = along(x, k + 2, &a);
  }
  return x;
}
