// Scans along an axis, or along the sequences of a layout: running sums, products, extremes, shifts. Linear recurrences:
// linear_scan.c.
#include "ir/fn.h"
#include "ir/interp/packed.h"

#include <math.h>

// One row of the axis: element j in the order of the scan is x[at[j]].
typedef struct {
  double *x, *out, *index;
  int64_t first, step, n;
  const double *offsets;  // the first row of each step of a layout; NULL: steps are `step` apart
  bool reverse;
} Lane;

static int64_t position(const Lane *l, int64_t j) { return l->reverse ? l->n - 1 - j : j; }
static int64_t offset(const Lane *l, int64_t j) {
  int64_t t = position(l, j);
  return l->first + (l->offsets ? (int64_t)l->offsets[t] : t) * l->step;
}

typedef void LaneFn(const Run *r, Val v, const Lane *l);

static bool each_sequence(Run *r, Val v, Lane l, LaneFn *fn) {
  Layout of = run_layout_of(r, ir_operand(r->f, v, ARG_layout));
  l.offsets = of.offsets;
  for (int64_t b = 0; b < (int64_t)of.head[TN_LAYOUT_SEQS]; b++) {
    l.n = (int64_t)of.lengths[b];
    for (int64_t k = 0; k < l.step; k++) {
      l.first = (int64_t)of.unsorted[b] * l.step + k;
      fn(r, v, &l);
    }
  }
  return true;
}

static bool each_lane(Run *r, Val v, LaneFn *fn) {
  Tensor out = run_result(r, v, 0), x = run_arg(r, v, 0);
  uint32_t axis = (uint32_t)ir_attr_int(r->f, v, KEY_axis, 0);
  Sizes s = run_sizes(r, v);
  Lane l = {.x = x.v, .out = out.v, .n = s.dim[axis], .step = 1, .reverse = ir_attr(r->f, v, KEY_reverse) != NULL};
  if (ir_ins(r->f, v)->n_res > 1) l.index = run_result(r, v, 1).v;
  for (uint32_t k = axis + 1; k < s.rank; k++) l.step *= s.dim[k];
  if (ir_has_operand(r->f, v, ARG_layout)) return each_sequence(r, v, l, fn);
  for (int64_t i = 0; i < (l.n ? out.n / l.n : 0); i++) {
    l.first = i / l.step * l.step * l.n + i % l.step;
    fn(r, v, &l);
  }
  return true;
}

static void cumsum_lane(const Run *r, Val v, const Lane *l) {
  (void)r, (void)v;
  double sum = 0;
  for (int64_t j = 0; j < l->n; j++) l->out[offset(l, j)] = sum += l->x[offset(l, j)];
}

static void cumprod_lane(const Run *r, Val v, const Lane *l) {
  bool exclusive = ir_attr(r->f, v, KEY_exclusive) != NULL;
  double product = 1;
  for (int64_t j = 0; j < l->n; j++) {
    double next = product * l->x[offset(l, j)];
    l->out[offset(l, j)] = exclusive ? product : next;
    product = next;
  }
}

// sum times e^top is the sum of the exponentials.
static void logcumsumexp_lane(const Run *r, Val v, const Lane *l) {
  (void)r, (void)v;
  double top = -INFINITY, sum = 0;
  for (int64_t j = 0; j < l->n; j++) {
    double x = l->x[offset(l, j)];
    if (x > top) sum = sum * exp(top - x) + 1, top = x;
    else sum += x == top ? 1 : exp(x - top);
    l->out[offset(l, j)] = top + log(sum);
  }
}

static void best_lane(const Run *r, Val v, const Lane *l) {
  bool least = ir_ins(r->f, v)->op == OP_cummin;
  int64_t best = 0;
  for (int64_t j = 0; j < l->n; j++) {
    double x = l->x[offset(l, j)], old = l->x[offset(l, best)];
    if (isnan(x) || (!isnan(old) && (least ? x <= old : x >= old))) best = j;
    l->out[offset(l, j)] = l->x[offset(l, best)];
    l->index[offset(l, j)] = (double)best;
  }
}

static void shift_lane(const Run *r, Val v, const Lane *l) {
  (void)r, (void)v;
  for (int64_t j = 0; j < l->n; j++) l->out[offset(l, j)] = j ? l->x[offset(l, j - 1)] : 0;
}

bool eval_cumsum(Run *r, Val v) { return each_lane(r, v, cumsum_lane); }
bool eval_cumprod(Run *r, Val v) { return each_lane(r, v, cumprod_lane); }
bool eval_logcumsumexp(Run *r, Val v) { return each_lane(r, v, logcumsumexp_lane); }
bool eval_cummax(Run *r, Val v) { return each_lane(r, v, best_lane); }
bool eval_cummin(Run *r, Val v) { return each_lane(r, v, best_lane); }
bool eval_shift(Run *r, Val v) { return each_lane(r, v, shift_lane); }
