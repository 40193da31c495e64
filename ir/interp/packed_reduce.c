// Ops over packed rows and their layout: sums, extremes, single rows, softmax over time, reversal.
//
// Data are [rows, width]; values of a whole sequence are [B, width] in user order. `row_of` says where step t of a
// sequence stands.
#include "ir/conv.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/interp/packed.h"
#include <math.h>
#include <string.h>

typedef struct {
  Layout l;
  int64_t seqs, width;
} Seq;

static Seq open_seq(const Run *r, Val v) {
  Seq s = {.l = run_layout_of(r, ir_arg(r->f, v, 1)), .width = 1};
  Sizes size = run_arg_sizes(r, v, 0);
  for (uint32_t k = 1; k < size.rank; k++) s.width *= size.dim[k];
  s.seqs = (int64_t)s.l.head[TN_LAYOUT_SEQS];
  return s;
}

static int64_t length_of(const Seq *s, int64_t user) { return (int64_t)s->l.lengths[user]; }
static int64_t row_of(const Seq *s, int64_t user, int64_t t) {
  return ((int64_t)s->l.offsets[t] + (int64_t)s->l.unsorted[user]) * s->width;
}

bool eval_seq_part(Run *r, Val v) {
  Layout l = run_layout_of(r, ir_arg(r->f, v, 0));
  Tensor out = run_result(r, v, 0);
  const char *name = ir_text(r->f->prog, ir_attr(r->f, v, KEY_part)->u.s);
  bool steps = !strcmp(name, "steps");
  if (steps || !strcmp(name, "sequences")) {
    for (int64_t t = 0; t < (int64_t)l.head[TN_LAYOUT_STEPS]; t++)
      for (int64_t k = 0; k < (int64_t)l.batch_sizes[t]; k++)
        out.v[(int64_t)l.offsets[t] + k] = steps ? (double)t : l.sorted[k];
    return true;
  }
  const double *from = !strcmp(name, "sorted")     ? l.sorted
                       : !strcmp(name, "unsorted") ? l.unsorted
                       : !strcmp(name, "lengths")  ? l.lengths
                                                   : l.batch_sizes;
  for (int64_t k = 0; k < out.n; k++) out.v[k] = from[k];
  return true;
}

bool eval_seq_row(Run *r, Val v) {
  Layout l = run_layout_of(r, ir_arg(r->f, v, 1));
  Tensor step = run_arg(r, v, 0), index = run_operand(r, v, ARG_index), out = run_result(r, v, 0);
  int64_t n = run_arg_sizes(r, v, 0).dim[0], each = n ? out.n / n : 0;
  for (int64_t k = 0; k < out.n; k++) {
    double user = index.v ? index.v[k / each] : (double)(k / each), t = step.v[k];
    bool exists = user >= 0 && user < l.head[TN_LAYOUT_SEQS] && t >= 0 && t < l.lengths[(int64_t)user];
    out.v[k] = exists ? l.offsets[(int64_t)t] + l.unsorted[(int64_t)user] : -1;
  }
  return true;
}

// Combines an element of a row with the element of its sequence.
typedef void EachElement(double *row, double *whole);

static bool each_element(Run *r, Val v, EachElement *f, bool writes_rows) {
  Seq s = open_seq(r, v);
  Tensor x = run_arg(r, v, 0), out = run_result(r, v, 0);
  double *rows = writes_rows ? out.v : x.v, *whole = writes_rows ? x.v : out.v;
  for (int64_t u = 0; u < s.seqs; u++)
    for (int64_t t = 0; t < length_of(&s, u); t++)
      for (int64_t j = 0; j < s.width; j++) f(&rows[row_of(&s, u, t) + j], &whole[u * s.width + j]);
  return true;
}

static void add_to_whole(double *row, double *whole) { *whole += *row; }
static void copy_to_row(double *row, double *whole) { *row = *whole; }

bool eval_seq_sum(Run *r, Val v) { return each_element(r, v, add_to_whole, false); }
bool eval_seq_broadcast(Run *r, Val v) { return each_element(r, v, copy_to_row, true); }

bool eval_seq_best(Run *r, Val v) {
  Seq s = open_seq(r, v);
  bool least = ir_ins(r->f, v)->op == OP_seq_min;
  Tensor x = run_arg(r, v, 0), out = run_result(r, v, 0), step = run_result(r, v, 1);
  for (int64_t u = 0; u < s.seqs; u++)
    for (int64_t j = 0; j < s.width; j++) {
      double *best = &out.v[u * s.width + j], *at = &step.v[u * s.width + j];
      *best = least ? INFINITY : -INFINITY, *at = -1;
      for (int64_t t = 0; t < length_of(&s, u); t++) {
        double a = x.v[row_of(&s, u, t) + j];
        bool better = least ? a < *best : a > *best;
        if (*at < 0 || better || (isnan(a) && !isnan(*best))) *best = a, *at = (double)t;
      }
    }
  return true;
}

bool eval_seq_select(Run *r, Val v) {
  Seq s = open_seq(r, v);
  bool first = ir_attr(r->f, v, KEY_first);
  Tensor x = run_arg(r, v, 0), out = run_result(r, v, 0);
  for (int64_t u = 0; u < s.seqs; u++)
    for (int64_t j = 0; length_of(&s, u) && j < s.width; j++)
      out.v[u * s.width + j] = x.v[row_of(&s, u, first ? 0 : length_of(&s, u) - 1) + j];
  return true;
}

bool eval_seq_scatter(Run *r, Val v) {
  Seq s = open_seq(r, v);
  bool first = ir_attr(r->f, v, KEY_first);
  Tensor g = run_arg(r, v, 0), step = run_operand(r, v, ARG_step), out = run_result(r, v, 0);
  for (int64_t u = 0; u < s.seqs; u++)
    for (int64_t j = 0; length_of(&s, u) && j < s.width; j++) {
      int64_t k = u * s.width + j, t = first ? 0 : length_of(&s, u) - 1;
      if (step.v) t = (int64_t)step.v[k];
      if (t >= 0 && t < length_of(&s, u)) out.v[row_of(&s, u, t) + j] = g.v[k];
    }
  return true;
}

bool eval_seq_softmax(Run *r, Val v) {
  Seq s = open_seq(r, v);
  Tensor x = run_arg(r, v, 0), out = run_result(r, v, 0);
  for (int64_t u = 0; u < s.seqs; u++)
    for (int64_t j = 0; j < s.width; j++) {
      int64_t n = length_of(&s, u);
      double top = -INFINITY, sum = 0;
      for (int64_t t = 0; t < n; t++) top = fmax(top, x.v[row_of(&s, u, t) + j]);
      for (int64_t t = 0; t < n; t++) sum += exp(x.v[row_of(&s, u, t) + j] - top);
      for (int64_t t = 0; t < n; t++) out.v[row_of(&s, u, t) + j] = exp(x.v[row_of(&s, u, t) + j] - top) / sum;
    }
  return true;
}

bool eval_seq_softmax_grad(Run *r, Val v) {
  Seq s = open_seq(r, v);
  Tensor y = run_arg(r, v, 0), g = run_arg(r, v, 2), out = run_result(r, v, 0);
  for (int64_t u = 0; u < s.seqs; u++)
    for (int64_t j = 0; j < s.width; j++) {
      double sum = 0;
      for (int64_t t = 0; t < length_of(&s, u); t++) sum += y.v[row_of(&s, u, t) + j] * g.v[row_of(&s, u, t) + j];
      for (int64_t t = 0; t < length_of(&s, u); t++) {
        int64_t at = row_of(&s, u, t) + j;
        out.v[at] = y.v[at] * (g.v[at] - sum);
      }
    }
  return true;
}

bool eval_seq_reverse(Run *r, Val v) {
  Seq s = open_seq(r, v);
  Tensor x = run_arg(r, v, 0), out = run_result(r, v, 0);
  for (int64_t u = 0; u < s.seqs; u++)
    for (int64_t t = 0; t < length_of(&s, u); t++)
      for (int64_t j = 0; j < s.width; j++)
        out.v[row_of(&s, u, t) + j] = x.v[row_of(&s, u, length_of(&s, u) - 1 - t) + j];
  return true;
}

bool eval_seq_list(Run *r, Val v) {
  Seq s = open_seq(r, v);
  bool to_list = ir_ins(r->f, v)->op == OP_seq_to_list;
  Tensor x = run_arg(r, v, 0), out = run_result(r, v, 0);
  int64_t flat = 0;
  for (int64_t u = 0; u < s.seqs; u++)
    for (int64_t t = 0; t < length_of(&s, u); t++, flat += s.width)
      for (int64_t j = 0; j < s.width; j++) {
        double *a = to_list ? out.v + flat : out.v + row_of(&s, u, t);
        a[j] = to_list ? x.v[row_of(&s, u, t) + j] : x.v[flat + j];
      }
  return true;
}

// ---- windows
// data [rows, C] and windows [rows of windows, taps * C]: visits each element of a window with the element of
// its step; adds one to the other, in either direction.
static void each_tap(Run *r, Val v, double *data, double *windows, int64_t width, bool adds) {
  SeqWindow w = ir_seq_window(r->f, v);
  Seq x = {.l = run_layout_of(r, ir_arg(r->f, v, 1)), .width = width};
  Seq y = {.l = run_layout_of(r, ir_arg(r->f, v, 2)), .width = width * w.taps};
  for (int64_t u = 0; u < (int64_t)x.l.head[TN_LAYOUT_SEQS]; u++)
    for (int64_t at = 0; at < length_of(&y, u) * w.taps; at++) {
      int64_t k = at % w.taps, t = at / w.taps * w.stride + k * w.dilation - w.before;
      if (t < 0 || t >= length_of(&x, u)) continue;
      double *step = data + row_of(&x, u, t), *tap = windows + row_of(&y, u, at / w.taps) + k * width;
      for (int64_t j = 0; j < width; j++) {
        if (adds) step[j] += tap[j];
        else tap[j] = step[j];
      }
    }
}

bool eval_seq_windows(Run *r, Val v) {
  Tensor out = run_result(r, v, 0);  // zeros
  each_tap(r, v, run_arg(r, v, 0).v, out.v, run_arg_sizes(r, v, 0).dim[1], false);
  return true;
}

bool eval_seq_windows_grad(Run *r, Val v) {
  Tensor out = run_result(r, v, 0);
  each_tap(r, v, out.v, run_arg(r, v, 0).v, run_sizes(r, v).dim[1], true);
  return true;
}

bool eval_seq_window_lengths(Run *r, Val v) {
  Layout l = run_layout_of(r, ir_arg(r->f, v, 0));
  Tensor out = run_result(r, v, 0);
  int64_t size = ir_window_steps(r->f, v), step = ir_attr_int(r->f, v, KEY_step, 1);
  for (int64_t u = 0; u < out.n; u++) {
    int64_t n = (int64_t)l.lengths[u];
    if (n && n < size)
      return run_fail(r, v, "length %lld at %lld is below %lld, the steps of a window", (long long)n, (long long)u,
                      (long long)size);
    out.v[u] = n ? (double)((n - size) / step + 1) : 0;
  }
  return true;
}
