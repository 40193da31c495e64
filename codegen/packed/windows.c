// Windows along packed sequences: the rows of a convolution's product, and the sums over them that its gradient takes.
// Each worker fills a contiguous range of rows of the result.
//
//   lengths 3 2, 3 taps, 1 zero before     step 0: 0 a0 a1, 0 b0 b1    step 1: a0 a1 a2, b0 b1 0    step 2: a1 a2 0
#include "codegen/packed/layout.h"
#include "ir/conv.h"

typedef LLVMValueRef V;

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

static V is_between(Cg *c, V t, V end) { return LLVMBuildICmp(c->b, LLVMIntULT, t, end, ""); }
static V row_of(Windows *s, const WindowRow *r, V t) {
  return cg_add(s->c, cg_layout_get(s->c, cg_layout_offsets(s->c, &s->other), t), r->place);
}

static void each_row(Windows *s, EachRow *body) {
  Cg *c = s->c;
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), lo, hi;
  cg_share(c, cg_layout_get(c, s->own.base, cg_i64(c, TN_LAYOUT_ROWS)), 1, &lo, &hi);
  Loop step, row;
  cg_loop_begin(c, &step, zero, cg_layout_get(c, s->own.base, cg_i64(c, TN_LAYOUT_STEPS)), one, NULL, 0);
  V first = cg_layout_get(c, cg_layout_offsets(c, &s->own), step.i);
  V size = cg_layout_get(c, cg_layout_sizes(c, &s->own), step.i);
  V begin = cg_max(c, cg_sub(c, lo, first), zero), end = cg_min(c, cg_sub(c, hi, first), size);
  cg_loop_begin(c, &row, begin, end, one, NULL, 0);
  V user = cg_layout_get(c, cg_layout_sorted(c, &s->own), row.i);
  WindowRow r = {.t = step.i,
                 .at = cg_add(c, first, row.i),
                 .length = cg_layout_get(c, cg_layout_lengths(c, &s->other), user),
                 .place = cg_layout_get(c, cg_layout_unsorted(c, &s->other), user)};
  body(s, &r);
  cg_loop_end(c, &row, NULL);
  cg_loop_end(c, &step, NULL);
}

static void fill_window(Windows *s, const WindowRow *r) {
  Cg *c = s->c;
  V taps = cg_i64(c, s->w.taps), first = cg_sub(c, cg_mul(c, r->t, cg_i64(c, s->w.stride)), cg_i64(c, s->w.before));
  V window = cg_row_at(c, s->to, cg_mul(c, r->at, taps), s->words);
  Loop tap;
  cg_loop_begin(c, &tap, cg_i64(c, 0), taps, cg_i64(c, 1), NULL, 0);
  V t = cg_add(c, first, cg_mul(c, tap.i, cg_i64(c, s->w.dilation))), to = cg_row_at(c, window, tap.i, s->words);
  If inside;
  cg_if(c, &inside, is_between(c, t, r->length));
  cg_move_words(c, to, cg_row_at(c, s->from, row_of(s, r, t), s->words), NULL, s->words);
  cg_else(c, &inside);
  cg_move_words(c, to, NULL, LLVMConstNull(c->vi32), s->words);
  cg_endif(c, &inside);
  cg_loop_end(c, &tap, NULL);
}

static void add_vector(Cg *c, V to, V from, V mask) {
  V a = mask ? cg_load_masked(c, c->vf, to, mask) : cg_load(c, c->vf, to);
  V b = mask ? cg_load_masked(c, c->vf, from, mask) : cg_load(c, c->vf, from);
  V sum = LLVMBuildFAdd(c->b, a, b, "");
  if (mask) cg_store_masked(c, sum, to, mask);
  else cg_store(c, sum, to);
}

static void add_words(Cg *c, V to, V from, V n) {
  V vl = cg_i64(c, c->t->vl), whole = cg_mul(c, cg_div(c, n, vl), vl), rest = cg_sub(c, n, whole);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), whole, vl, NULL, 0);
  add_vector(c, cg_at(c, c->f32, to, l.i), cg_at(c, c->f32, from, l.i), NULL);
  cg_loop_end(c, &l, NULL);
  if (LLVMIsConstant(rest) && LLVMConstIntGetZExtValue(rest) == 0) return;
  add_vector(c, cg_at(c, c->f32, to, whole), cg_at(c, c->f32, from, whole), cg_mask(c, rest));
}

// Tap k of the window at u lies on t = u * stride + k * dilation - before.
static void sum_windows(Windows *s, const WindowRow *r) {
  Cg *c = s->c;
  V taps = cg_i64(c, s->w.taps), stride = cg_i64(c, s->w.stride), to = cg_row_at(c, s->to, r->at, s->words);
  V padded = cg_add(c, r->t, cg_i64(c, s->w.before));
  cg_move_words(c, to, NULL, LLVMConstNull(c->vi32), s->words);
  Loop tap;
  cg_loop_begin(c, &tap, cg_i64(c, 0), taps, cg_i64(c, 1), NULL, 0);
  V start = cg_sub(c, padded, cg_mul(c, tap.i, cg_i64(c, s->w.dilation)));
  V u = cg_div(c, start, stride), is_start = LLVMBuildICmp(c->b, LLVMIntEQ, cg_mul(c, u, stride), start, "");
  If reads;
  cg_if(c, &reads, LLVMBuildAnd(c->b, is_start, is_between(c, u, r->length), ""));
  V window = cg_add(c, cg_mul(c, row_of(s, r, u), taps), tap.i);
  add_words(c, to, cg_row_at(c, s->from, window, s->words), s->words);
  cg_endif(c, &reads);
  cg_loop_end(c, &tap, NULL);
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

// Worker 0 alone. A sequence that is shorter than a window counts as long as one, and is reported.
void cg_emit_seq_window_lengths(Cg *c, Val v) {
  CgLayout l = cg_layout_of(c, ir_arg(c->f, v, 0));
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), size = cg_i64(c, ir_window_steps(c->f, v));
  V step = cg_i64(c, ir_attr_int(c->f, v, KEY_step, 1)), to = cg_ptr(c, v), lengths = cg_layout_lengths(c, &l);
  If first, is_short;
  cg_if(c, &first, LLVMBuildICmp(c->b, LLVMIntEQ, c->worker, zero, ""));
  Loop k;
  cg_loop_begin(c, &k, zero, cg_dim(c, ir_dim_at(c->f->prog, ir_ins(c->f, v)->shape, 0)), one, NULL, 0);
  V n = cg_layout_get(c, lengths, k.i), is_empty = LLVMBuildICmp(c->b, LLVMIntEQ, n, zero, "");
  V below = LLVMBuildAnd(c->b, LLVMBuildNot(c->b, is_empty, ""), LLVMBuildICmp(c->b, LLVMIntSLT, n, size, ""), "");
  cg_if(c, &is_short, below);
  cg_report(c, TN_KERR_LENGTH_RANGE, k.i, n);
  cg_endif(c, &is_short);
  V fits = cg_add(c, cg_div(c, cg_sub(c, cg_max(c, n, size), size), step), one);
  cg_store(c, LLVMBuildSelect(c->b, is_empty, zero, fits, ""), cg_at(c, c->i64, to, k.i));
  cg_loop_end(c, &k, NULL);
  cg_endif(c, &first);
}
