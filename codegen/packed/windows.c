// Windows along packed sequences: the rows of a convolution's product, and the sums over them that its gradient takes.
// Each worker fills a contiguous range of rows of the result.
//
//   lengths 3 2, 3 taps, 1 zero before     step 0: 0 a0 a1, 0 b0 b1    step 1: a0 a1 a2, b0 b1 0    step 2: a1 a2 0
#include "codegen/packed/layout.h"
#include "codegen/span.h"
#include "ir/conv.h"

typedef struct {
  Cg *c;
  SeqWindow w;
  CgLayout own, other;  // of the result's rows, and of those that are read
  V from, to, words;    // words: of a step
} Windows;

// The row at hand: step `t` of a sequence, which has `length` steps and the position `place` in what is read.
typedef struct {
  V t, at, length, place;
} WindowRow;
typedef void EachRow(Windows *s, const WindowRow *r);

static V row_of(Windows *s, const WindowRow *r, V t) {
  return cg_add(s->c, cg_layout_get(s->c, cg_layout_offsets(s->c, &s->other), t), r->place);
}

static void each_row(Windows *s, EachRow *body) {
  Cg *c = s->c;
  V zero = cg_i64(c, 0), lo, hi;
  cg_share(c, cg_layout_get(c, s->own.base, cg_i64(c, TN_LAYOUT_ROWS)), 1, &lo, &hi);
  for (Loop step = cg_count(c, cg_layout_get(c, s->own.base, cg_i64(c, TN_LAYOUT_STEPS))); cg_next(&step);) {
    V first = cg_layout_get(c, cg_layout_offsets(c, &s->own), step.i);
    V size = cg_layout_get(c, cg_layout_sizes(c, &s->own), step.i);
    V begin = cg_max(c, cg_sub(c, lo, first), zero), end = cg_min(c, cg_sub(c, hi, first), size);
    for (Loop row = cg_each(c, begin, end); cg_next(&row);) {
      V user = cg_layout_get(c, cg_layout_sorted(c, &s->own), row.i);
      WindowRow r = {.t = step.i,
                     .at = cg_add(c, first, row.i),
                     .length = cg_layout_get(c, cg_layout_lengths(c, &s->other), user),
                     .place = cg_layout_get(c, cg_layout_unsorted(c, &s->other), user)};
      body(s, &r);
    }
  }
}

static void fill_window(Windows *s, const WindowRow *r) {
  Cg *c = s->c;
  V taps = cg_i64(c, s->w.taps), first = cg_sub(c, cg_mul(c, r->t, cg_i64(c, s->w.stride)), cg_i64(c, s->w.before));
  V window = cg_row_at(c, s->to, cg_mul(c, r->at, taps), s->words);
  for (Loop tap = cg_count(c, taps); cg_next(&tap);) {
    V t = cg_add(c, first, cg_mul(c, tap.i, cg_i64(c, s->w.dilation))), to = cg_row_at(c, window, tap.i, s->words);
    for (If inside = cg_either(c, cg_below(c, t, r->length)); cg_then(&inside);)
      if (inside.is_true) cg_move_words(c, to, cg_row_at(c, s->from, row_of(s, r, t), s->words), NULL, s->words);
      else cg_move_words(c, to, NULL, LLVMConstNull(c->vi32), s->words);
  }
}

static void add_words(Cg *c, View to, View from, V n) {
  for (Span s = cg_span(c, cg_i64(c, 0), n); cg_next_vector(&s);)
    cg_span_put(&s, to, cg_fadd(c, cg_span_get(&s, to), cg_span_get(&s, from)));
}

// Tap k of the window at u lies on t = u * stride + k * dilation - before.
static void sum_windows(Windows *s, const WindowRow *r) {
  Cg *c = s->c;
  V taps = cg_i64(c, s->w.taps), stride = cg_i64(c, s->w.stride), to = cg_row_at(c, s->to, r->at, s->words);
  V padded = cg_add(c, r->t, cg_i64(c, s->w.before));
  cg_move_words(c, to, NULL, LLVMConstNull(c->vi32), s->words);
  for (Loop tap = cg_count(c, taps); cg_next(&tap);) {
    V start = cg_sub(c, padded, cg_mul(c, tap.i, cg_i64(c, s->w.dilation)));
    V u = cg_div(c, start, stride), is_start = cg_eq(c, cg_mul(c, u, stride), start);
    for (If reads = cg_when(c, cg_and(c, is_start, cg_below(c, u, r->length))); cg_then(&reads);) {
      V window = cg_index(c, row_of(s, r, u), taps, tap.i);
      add_words(c, cg_view(to, DT_F32), cg_view(cg_row_at(c, s->from, window, s->words), DT_F32), s->words);
    }
  }
}

void cg_emit_seq_windows(Cg *c, Val v) {
  bool sums = ir_ins(c->f, v)->op == OP_seq_windows_grad;
  Val data = sums ? v : ir_arg(c->f, v, 0), layout = ir_arg(c->f, v, 1), windows = ir_arg(c->f, v, 2);
  Windows s = {.c = c,
               .w = ir_seq_window(c->f, v),
               .own = cg_layout_of(c, sums ? layout : windows),
               .other = cg_layout_of(c, sums ? windows : layout),
               .from = cg_ptr(c, ir_arg(c->f, v, 0)),
               .to = cg_ptr(c, v),
               .words = cg_row_words(c, data, 1)};
  each_row(&s, sums ? sum_windows : fill_window);
}

// Worker 0 only. A sequence shorter than a window is reported, and counts as long as one.
void cg_emit_seq_window_lengths(Cg *c, Val v) {
  CgLayout l = cg_layout_of(c, ir_arg(c->f, v, 0));
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), size = cg_i64(c, ir_window_steps(c->f, v));
  V step = cg_i64(c, ir_attr_int(c->f, v, KEY_step, 1)), to = cg_ptr(c, v), lengths = cg_layout_lengths(c, &l);
  for (If first = cg_when(c, cg_first_worker(c)); cg_then(&first);) {
    for (Loop k = cg_count(c, cg_dim(c, ir_dim_at(c->f->prog, ir_ins(c->f, v)->shape, 0))); cg_next(&k);) {
      V n = cg_layout_get(c, lengths, k.i), is_empty = cg_eq(c, n, zero);
      V below = cg_and(c, cg_not(c, is_empty), cg_lt(c, n, size));
      for (If is_short = cg_when(c, below); cg_then(&is_short);) cg_report(c, TN_KERR_LENGTH_RANGE, k.i, n);
      V fits = cg_add(c, cg_div(c, cg_sub(c, cg_max(c, n, size), size), step), one);
      cg_put(c, cg_select(c, is_empty, zero, fits), to, k.i);
    }
  }
}
