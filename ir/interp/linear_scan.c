// Linear recurrences, y_k = a_k y_(k-1) + b_k, along an axis or over packed rows, and their gradients.
//
// Rows are what stands behind the axis: `lanes` states of `side` numbers each; side is 1 unless a is matrices. A sequence is the
// rows of one index of the axes before it, or one of the packed sequences.
#include "ir/fn.h"
#include "ir/interp/packed.h"

typedef struct {
  int64_t n_seqs, n, lanes, side;  // n: steps of a sequence; of packed ones the layout has them
  bool reverse, is_packed, is_constant;
  Layout l;
  double *a;
} Scan;

// `steps`: a value of the shape of y
static Scan open_scan(const Run *r, Val v, Val steps) {
  Scan s = {.n_seqs = 1, .lanes = 1, .side = 1, .a = run_arg(r, v, 0).v};
  Sizes a = run_arg_sizes(r, v, 0), y = run_sizes(r, steps);
  uint32_t axis = (uint32_t)ir_attr_int(r->f, v, KEY_axis, 0);
  Val layout = ir_operand(r->f, v, ARG_layout);
  s.reverse = ir_attr(r->f, v, KEY_reverse) != NULL, s.is_packed = !ir_none(layout);
  s.n = y.dim[axis], s.is_constant = a.dim[axis] != s.n;
  if (a.rank > y.rank) s.side = y.dim[y.rank - 1];
  for (uint32_t k = 0; k < axis; k++) s.n_seqs *= y.dim[k];
  for (uint32_t k = axis + 1; k < y.rank; k++) s.lanes *= y.dim[k];
  s.lanes /= s.side;
  if (s.is_packed) s.l = run_layout_of(r, layout), s.n_seqs = (int64_t)s.l.head[TN_LAYOUT_SEQS];
  return s;
}

static int64_t steps_of(const Scan *s, int64_t seq) { return s->is_packed ? (int64_t)s->l.lengths[seq] : s->n; }

// The state of step j, in the order of the scan, as an index of states.
static int64_t state_at(const Scan *s, int64_t seq, int64_t lane, int64_t j) {
  int64_t t = s->reverse ? steps_of(s, seq) - 1 - j : j;
  int64_t row = s->is_packed ? (int64_t)s->l.offsets[t] + (int64_t)s->l.unsorted[seq] : seq * s->n + t;
  return row * s->lanes + lane;
}

static const double *factors(const Scan *s, int64_t seq, int64_t lane, int64_t j) {
  int64_t at = s->is_constant ? seq * s->lanes + lane : state_at(s, seq, lane, j);
  return s->a + at * s->side * s->side;
}

static void copy(double *to, const double *from, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = from ? from[i] : 0;
}

static const double *at(Tensor t, int64_t i) { return t.v ? t.v + i : NULL; }

static void scan_lane(const Run *r, Val v, const Scan *s, int64_t seq, int64_t lane) {
  Tensor b = run_arg(r, v, 1), h0 = run_operand(r, v, ARG_h0), y = r->val[v.i], hn = r->val[v.i + 1];
  int64_t side = s->side, state = (seq * s->lanes + lane) * side;
  double h[MAX_SCAN_SIDE], next[MAX_SCAN_SIDE];
  copy(h, at(h0, state), side);
  for (int64_t j = 0; j < steps_of(s, seq); j++) {
    const double *a = factors(s, seq, lane, j);
    int64_t here = state_at(s, seq, lane, j) * side;
    copy(next, b.v + here, side);
    for (int64_t i = 0; (j || h0.v) && i < side; i++)
      for (int64_t k = 0; k < side; k++) next[i] += a[i * side + k] * h[k];
    copy(h, next, side), copy(y.v + here, next, side);
  }
  copy(hn.v + state, h, side);
}

// carry: the gradient of the state before the step
static void grad_lane(const Run *r, Val v, const Scan *s, int64_t seq, int64_t lane) {
  Tensor g = run_operand(r, v, ARG_g), y = run_operand(r, v, ARG_y), h0 = run_operand(r, v, ARG_h0);
  Tensor g_hn = run_operand(r, v, ARG_g_hn), da = r->val[v.i], db = r->val[v.i + 1], dh0 = r->val[v.i + 2];
  int64_t side = s->side, state = (seq * s->lanes + lane) * side;
  double carry[MAX_SCAN_SIDE], d[MAX_SCAN_SIDE], before[MAX_SCAN_SIDE];
  copy(carry, at(g_hn, state), side);
  for (int64_t j = steps_of(s, seq); j-- > 0;) {
    const double *a = factors(s, seq, lane, j);
    int64_t here = state_at(s, seq, lane, j) * side;
    copy(d, at(g, here), side);
    for (int64_t i = 0; i < side; i++) d[i] += carry[i];
    copy(db.v + here, d, side);
    copy(before, !y.v ? NULL : j ? y.v + state_at(s, seq, lane, j - 1) * side : at(h0, state), side);
    for (int64_t i = 0; i < side; i++) carry[i] = 0;
    for (int64_t i = 0; i < side; i++)
      for (int64_t k = 0; k < side; k++) {
        da.v[here * side + i * side + k] = d[i] * before[k];
        carry[k] += a[i * side + k] * d[i];
      }
  }
  copy(dh0.v + state, carry, side);
}

typedef void LaneFn(const Run *r, Val v, const Scan *s, int64_t seq, int64_t lane);

static bool each_lane(Run *r, Val v, Val steps, uint32_t n_res, LaneFn *fn) {
  for (uint32_t k = 0; k < n_res; k++) run_result(r, v, k);
  Scan s = open_scan(r, v, steps);
  for (int64_t seq = 0; seq < s.n_seqs; seq++)
    for (int64_t lane = 0; lane < s.lanes; lane++) fn(r, v, &s, seq, lane);
  return true;
}

bool eval_linear_scan(Run *r, Val v) { return each_lane(r, v, v, 2, scan_lane); }
bool eval_linear_scan_grad(Run *r, Val v) { return each_lane(r, v, ir_result(v, 1), 3, grad_lane); }
