// Packed sequences: the layout table from run-time lengths, and rows moved between padded and packed form.
//
// Row (t, k) of packed data is at offsets[t] + k and belongs to step t of the sequence sorted[k]; runtime/abi.h has the
// table. Lengths 3 1 2 give
//   sorted 0 2 1   batch_sizes 3 2 1   offsets 0 3 5 6   rows: a0 c0 b0 | a1 c1 | a2
#include "codegen/emitters.h"
#include "codegen/math/primitives.h"
#include "codegen/packed/layout.h"
#include "codegen/pointwise/prologue_epilogue.h"
#include "codegen/span.h"
#include "ir/packed_dims.h"
#include "ir/passes/plan.h"

#include <stddef.h>

// ---- the table, by position
CgLayout cg_layout_of(Cg *c, Val layout) {
  const Prog *p = c->f->prog;
  Shape s = ir_ins(c->f, layout)->shape;
  return (CgLayout){cg_ptr(c, layout), ir_dim_bound(p, ir_dim_at(p, s, 1)), ir_dim_bound(p, ir_dim_at(p, s, 0))};
}
V cg_layout_part(Cg *c, const CgLayout *l, int64_t word) { return cg_at(c, c->i32, l->base, cg_i64(c, word)); }
V cg_layout_get(Cg *c, V part, V i) { return cg_sext(c, cg_get(c, c->i32, part, i), c->i64); }
V cg_layout_sizes(Cg *c, const CgLayout *l) { return cg_layout_part(c, l, TN_LAYOUT_BATCH_SIZES(l->steps, l->seqs)); }
V cg_layout_offsets(Cg *c, const CgLayout *l) { return cg_layout_part(c, l, TN_LAYOUT_OFFSETS(l->steps, l->seqs)); }
V cg_layout_sorted(Cg *c, const CgLayout *l) { return cg_layout_part(c, l, TN_LAYOUT_SORTED(l->steps, l->seqs)); }
V cg_layout_unsorted(Cg *c, const CgLayout *l) { return cg_layout_part(c, l, TN_LAYOUT_UNSORTED(l->steps, l->seqs)); }
V cg_layout_lengths(Cg *c, const CgLayout *l) { return cg_layout_part(c, l, TN_LAYOUT_LENGTHS(l->steps, l->seqs)); }

static void put(Cg *c, V part, V i, V v) { cg_put(c, cg_trunc(c, v, c->i32), part, i); }

static void report_if(Cg *c, V is_bad, TnKernelError code, V index, V value) {
  for (If bad = cg_when(c, is_bad); cg_then(&bad);) cg_report(c, code, index, value);
}

typedef struct {
  int64_t least;  // a length
  bool is_sorted;
  V most_rows;        // NULL: no limit
  bool is_exact;      // so many, not fewer either
  bool may_be_empty;  // a sequence, in the table
} LengthRule;

// lengths[r], kept in [least, time]; batch_sizes[l - 1] counts the sequences of length l > 0. Rows above the limit are reported,
// and left out of the table: it stays one that the arena has room for.
static void count_lengths(Cg *c, const CgLayout *t, V given, V seqs, V time, const LengthRule *rule) {
  enum { LAST, ROWS };
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), carried[] = {cg_i64(c, INT64_MAX), zero};
  V sizes = cg_layout_sizes(c, t), lengths = cg_layout_lengths(c, t), most = rule->most_rows;
  uint32_t n = most ? 2 : rule->is_sorted;
  for (Loop l = cg_carry(c, zero, seqs, one, carried, n); cg_next(&l);) {
    V raw = cg_get(c, c->i64, given, l.i), len = cg_max(c, cg_min(c, raw, time), cg_i64(c, rule->least));
    report_if(c, cg_ne(c, raw, len), TN_KERR_LENGTH_RANGE, l.i, raw);
    if (rule->is_sorted) report_if(c, cg_lt(c, carried[LAST], raw), TN_KERR_NOT_SORTED, l.i, raw);
    carried[LAST] = raw;
    if (most) {
      V left = cg_max(c, cg_sub(c, most, carried[ROWS]), zero);
      carried[ROWS] = cg_add(c, carried[ROWS], len);
      len = cg_min(c, len, left);
    }
    put(c, lengths, l.i, len);
    for (If some = cg_when(c, rule->may_be_empty ? cg_lt(c, zero, len) : NULL); cg_then(&some);) {
      V cell = cg_sub(c, len, one);
      put(c, sizes, cell, cg_add(c, cg_layout_get(c, sizes, cell), one));
    }
  }
  if (!most) return;
  V is_bad = rule->is_exact ? cg_ne(c, most, carried[ROWS]) : cg_lt(c, most, carried[ROWS]);
  report_if(c, is_bad, TN_KERR_ROWS, most, carried[ROWS]);
}

// From the back: batch_sizes[t] becomes the number of lengths > t, and offsets[t] the first sorted position of length t
// + 1. Gives the number of steps used.
static V sum_counts(Cg *c, const CgLayout *t) {
  enum { LONGER, USED };
  V zero = cg_i64(c, 0), n[] = {zero, zero}, sizes = cg_layout_sizes(c, t), offsets = cg_layout_offsets(c, t);
  for (Loop l = cg_carry(c, zero, cg_i64(c, t->steps), cg_i64(c, 1), n, 2); cg_next(&l);) {
    V at = cg_sub(c, cg_i64(c, t->steps - 1), l.i), running = cg_add(c, n[LONGER], cg_layout_get(c, sizes, at));
    put(c, offsets, at, n[LONGER]);
    put(c, sizes, at, running);
    V used = cg_zext(c, cg_lt(c, zero, running), c->i64);
    n[LONGER] = running, n[USED] = cg_add(c, n[USED], used);
  }
  return n[USED];
}

// Stable: equal lengths keep the user's order. offsets[l - 1] is the next free position of length l; empty sequences
// stand behind all others, in the last cell. Gives 1 when the order is the identity.
static V sort_sequences(Cg *c, const CgLayout *t, V seqs, bool may_be_empty) {
  V one = cg_i64(c, 1), zero = cg_i64(c, 0), last = cg_i64(c, t->steps);
  V cursor = cg_layout_offsets(c, t), lengths = cg_layout_lengths(c, t), identity = one;
  if (may_be_empty) put(c, cursor, last, t->steps ? cg_layout_get(c, cg_layout_sizes(c, t), zero) : zero);
  for (Loop l = cg_carry(c, zero, seqs, one, &identity, 1); cg_next(&l);) {
    V len = cg_layout_get(c, lengths, l.i), cell = cg_sub(c, len, one);
    if (may_be_empty) cell = cg_select(c, cg_lt(c, zero, len), cell, last);
    V at = cg_layout_get(c, cursor, cell);
    put(c, cursor, cell, cg_add(c, at, one));
    put(c, cg_layout_sorted(c, t), at, l.i);
    put(c, cg_layout_unsorted(c, t), l.i, at);
    identity = cg_select(c, cg_eq(c, at, l.i), identity, zero);
  }
  return identity;
}

// offsets[t + 1] = offsets[t] + batch_sizes[t]. Gives the number of rows.
static V place_steps(Cg *c, const CgLayout *t) {
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), sizes = cg_layout_sizes(c, t), offsets = cg_layout_offsets(c, t),
    rows = zero;
  put(c, offsets, zero, zero);
  for (Loop l = cg_carry(c, zero, cg_i64(c, t->steps), one, &rows, 1); cg_next(&l);) {
    rows = cg_add(c, rows, cg_layout_get(c, sizes, l.i));
    put(c, offsets, cg_add(c, l.i, one), rows);
  }
  return rows;
}

static void set_run_dim(Cg *c, Dim d, V v) {
  V table = cg_frame_ptr(c, offsetof(TnFrame, dims));
  cg_put(c, v, table, cg_i64(c, ir_dim_info(c->f->prog, d)->slot));
}

static void put_head(Cg *c, const CgLayout *t, V steps, V rows, V seqs, V identity) {
  put(c, t->base, cg_i64(c, TN_LAYOUT_STEPS), steps);
  put(c, t->base, cg_i64(c, TN_LAYOUT_ROWS), rows);
  put(c, t->base, cg_i64(c, TN_LAYOUT_SEQS), seqs);
  put(c, t->base, cg_i64(c, TN_LAYOUT_IDENTITY), identity);
}

// part[i] = i * scale + start for i < n
static void put_ramp(Cg *c, V part, V n, V start, V scale) {
  for (Loop l = cg_count(c, n); cg_next(&l);) put(c, part, l.i, cg_index(c, l.i, scale, start));
}

// `seqs` sequences of `time` steps each, in the user's order. A step has rows: without sequences there is none, as in
// the table made from lengths.
static void dense_table(Cg *c, Val v) {
  const Prog *p = c->f->prog;
  Shape s = ir_ins(c->f, v)->shape;
  CgLayout t = cg_layout_of(c, v);
  V zero = cg_i64(c, 0), one = cg_i64(c, 1);
  V seqs = cg_dim(c, ir_dim_at(p, s, 0)), time = cg_dim(c, ir_dim_at(p, s, 1));
  put_ramp(c, cg_layout_sizes(c, &t), time, seqs, zero);
  put_ramp(c, cg_layout_offsets(c, &t), cg_add(c, time, one), zero, seqs);
  put_ramp(c, cg_layout_sorted(c, &t), seqs, zero, one);
  put_ramp(c, cg_layout_unsorted(c, &t), seqs, zero, one);
  put_ramp(c, cg_layout_lengths(c, &t), seqs, time, zero);
  V steps = cg_select(c, cg_lt(c, zero, seqs), time, zero);  // without sequences there are no steps
  put_head(c, &t, steps, cg_mul(c, seqs, time), seqs, one);
}

static void table_of_lengths(Cg *c, Val v) {
  const Prog *p = c->f->prog;
  Shape s = ir_ins(c->f, v)->shape;
  CgLayout t = cg_layout_of(c, v);
  V given = cg_ptr(c, ir_arg(c->f, v, 0)), zero = cg_i64(c, 0), time = cg_dim(c, ir_dim_at(p, s, 1));
  bool takes_empty = ir_attr(c->f, v, KEY_empty) != NULL;
  Dim limit = ir_rows_limit(c->f, v);
  LengthRule rule = {.least = takes_empty ? 0 : 1,
                     .is_sorted = ir_attr(c->f, v, KEY_sorted) != NULL,
                     .most_rows = limit.i ? cg_dim(c, limit) : NULL,
                     .is_exact = ir_attr(c->f, v, KEY_total) != NULL,
                     .may_be_empty = takes_empty || limit.i};
  // Without a step there are empty sequences or none: the batch counts as empty, so that nothing is written outside the
  // table.
  V seqs = t.steps || takes_empty ? cg_dim(c, ir_dim_at(p, s, 0)) : zero;
  for (Loop l = cg_count(c, cg_i64(c, t.steps)); cg_next(&l);) put(c, cg_layout_sizes(c, &t), l.i, zero);
  count_lengths(c, &t, given, seqs, cg_min(c, time, cg_i64(c, t.steps)), &rule);
  V used = sum_counts(c, &t), identity = sort_sequences(c, &t, seqs, rule.may_be_empty);
  V n_rows = place_steps(c, &t);
  put_head(c, &t, used, n_rows, seqs, identity);
  set_run_dim(c, ir_dim_at(p, s, 2), n_rows);
}

// Worker 0 alone: O(batch + time) steps over a table that fits in a cache.
bool cg_emit_layout(Cg *c) {
  Val v = {c->k->first};
  if (ir_layout_is_const(c->f, v)) return true;  // the table lies in the constant pool
  for (If first = cg_when(c, cg_first_worker(c)); cg_then(&first);)
    if (ir_ins(c->f, v)->op == OP_dense_layout) dense_table(c, v);
    else table_of_lengths(c, v);
  return true;
}

// ---- rows. A row is copied as 32-bit words, whatever its dtype.
V cg_row_words(Cg *c, Val v, uint32_t from_axis) {
  const Ins *ins = ir_ins(c->f, v);
  V n = cg_axis_product(c, ins->shape, from_axis, ir_rank(c->f->prog, ins->shape));
  return cg_mul(c, n, cg_i64(c, ir_dtype_bytes[ins->dtype] / 4));
}

// n words from `from` to `to`; from == NULL: the vector `fill` instead.
void cg_move_words(Cg *c, V to, V from, V fill, V n) {
  for (Span s = cg_span(c, cg_i64(c, 0), n); cg_next_vector(&s);)
    cg_span_put(&s, cg_view(to, DT_I32), from ? cg_span_get(&s, cg_view(from, DT_I32)) : fill);
}

V cg_row_at(Cg *c, V base, V row, V words) { return cg_at(c, c->i32, base, cg_mul(c, row, words)); }

// ---- pointwise readers of packed rows, applied as rows are moved
//
//   wide rows      each is a strip, read where it lies in the padded value; so are narrow ones of few cheap readers
//   narrow rows    some rows are copied to a block in L1, so that vectors go over the ends of rows
//   broadcasts     of an operand along a row: each row of the last axis is a strip, narrow or not
typedef struct {
  RowStrip *strip;  // NULL: no pointwise readers
  bool is_flat;     // rows follow one another in all operands
  V block;
  int64_t block_rows;  // a power of two: rows are divided by it
} RowReaders;

enum { BLOCK_WORDS = 1024, MOST_EMPTY = 5, FEW_READERS = 3 };

// Is at most a fifth of the lanes empty for a row of so many elements?
static bool fills_vectors(const Cg *c, int64_t n) {
  int64_t lanes = cg_ceil_div(n, c->t->vl) * c->t->vl;
  return (lanes - n) * MOST_EMPTY <= lanes;
}

// Are the readers cheaper than copying a row, empty lanes included?
static bool are_cheap(const Fn *f, const Kernel *k) {
  uint32_t n = 0;
  for (uint32_t i = k->first + 1; i < k->first + k->n; i++) {
    if (f->ins[i].op == OP_output) continue;
    if (++n > FEW_READERS || !ir_is_cheap_op((Op)f->ins[i].op)) return false;
  }
  return true;
}

static int64_t row_bound(const Fn *f, Val v) {
  return cg_axis_bound(f->prog, ir_ins(f, v)->shape, 1, ir_rank(f->prog, ir_ins(f, v)->shape));
}

static bool open_readers(Cg *c, Val v, RowReaders *r) {
  *r = (RowReaders){0};
  if (c->k->n == 1) return true;
  int64_t n = row_bound(c->f, v);
  bool is_wide = fills_vectors(c, n);
  if (!is_wide || ir_rank(c->f->prog, ir_ins(c->f, v)->shape) != 2) r->strip = cg_epilogue_flat(c);
  r->is_flat = r->strip != NULL;
  if (!r->is_flat) return (r->strip = cg_epilogue_new(c, (Val){0})) != NULL;
  if (is_wide || are_cheap(c->f, c->k)) return true;
  int64_t words = n * ir_dtype_bytes[ir_ins(c->f, v)->dtype] / 4;
  for (r->block_rows = 1; 2 * r->block_rows * words <= BLOCK_WORDS;) r->block_rows *= 2;
  r->block = cg_block(c, c->i32, (uint32_t)(r->block_rows * words));
  return true;
}

typedef struct {
  Cg *c;
  Val v;
  CgLayout t;
  RowReaders readers;
  bool time_major;
  V words, elements;  // of a row
  V from, inner, sorted;
  V lo, hi;       // packed rows of this worker
  V step, first;  // the current step; its first packed row
} Pack;

// Of the current step's row k, its padded row.
static V padded_row(const Pack *p, V k) {
  Cg *c = p->c;
  V user = cg_layout_get(c, p->sorted, k);
  V source = p->time_major ? cg_index(c, p->step, p->inner, user) : cg_index(c, user, p->inner, p->step);
  return cg_row_at(c, p->from, source, p->words);
}

// Rows of the last axis within packed row `at`, one by one.
static void read_by_last_axis(const Pack *p, V at, V in) {
  Cg *c = p->c;
  const Ins *ins = ir_ins(c->f, p->v);
  uint32_t last = ir_rank(c->f->prog, ins->shape) - 1;
  V n = cg_axis_product(c, ins->shape, 1, last), width = cg_dim(c, ir_dim_at(c->f->prog, ins->shape, last));
  for (Loop l = cg_count(c, n); cg_next(&l);) {
    V x = cg_at(c, cg_elem_type(c, (DType)ins->dtype), in, cg_mul(c, l.i, width));
    cg_epilogue_row(p->readers.strip, cg_index(c, at, n, l.i), x, cg_i64(c, 0), width);
  }
}

static void pack_row(const Pack *p, V k) {
  Cg *c = p->c;
  V at = cg_add(c, p->first, k), in = padded_row(p, k), begin;
  if (!p->readers.strip) {
    cg_move_words(c, cg_row_at(c, cg_ptr(c, p->v), at, p->words), in, NULL, p->words);
  } else if (p->readers.is_flat) {
    begin = cg_mul(c, at, p->elements);
    cg_epilogue_row(p->readers.strip, cg_i64(c, 0), in, begin, cg_add(c, begin, p->elements));
  } else if (ir_rank(c->f->prog, ir_ins(c->f, p->v)->shape) == 2) {
    cg_epilogue_row(p->readers.strip, at, in, cg_i64(c, 0), p->elements);
  } else {
    read_by_last_axis(p, at, in);
  }
}

// Rows [begin, end) of the step, one block after the other. A block may begin in one step and end in another: it is read when
// it is full or holds the worker's last row.
static void pack_blocks(const Pack *p, V begin, V end) {
  Cg *c = p->c;
  const RowReaders *r = &p->readers;
  V most = cg_i64(c, r->block_rows), skipped = cg_sub(c, p->first, p->lo);
  V from = cg_add(c, skipped, begin), to = cg_add(c, skipped, end);  // of the worker's rows
  for (Loop l = cg_each(c, cg_div(c, from, most), cg_ceil_div_value(c, to, r->block_rows)); cg_next(&l);) {
    V start = cg_mul(c, l.i, most), stop = cg_min(c, cg_add(c, start, most), to);
    for (Loop row = cg_each(c, cg_max(c, from, start), stop); cg_next(&row);) {
      V place = cg_row_at(c, r->block, cg_sub(c, row.i, start), p->words);
      cg_move_words(c, place, padded_row(p, cg_sub(c, row.i, skipped)), NULL, p->words);
    }
    V is_full = cg_eq(c, stop, cg_add(c, start, most));
    V is_last = cg_eq(c, stop, cg_sub(c, p->hi, p->lo));
    for (If ready = cg_when(c, cg_or(c, is_full, is_last)); cg_then(&ready);) {
      V lo = cg_mul(c, cg_add(c, p->lo, start), p->elements), n = cg_mul(c, cg_sub(c, stop, start), p->elements);
      cg_epilogue_row(r->strip, cg_i64(c, 0), r->block, lo, cg_add(c, lo, n));
    }
  }
}

// Each worker fills an equal, contiguous range of packed rows; it finds its first step by walking the offsets.
static bool pack_rows(Cg *c, Val v) {
  Val x = ir_arg(c->f, v, 0), layout = ir_arg(c->f, v, 1);
  Shape s = ir_ins(c->f, x)->shape;
  Pack p = {.c = c, .v = v, .t = cg_layout_of(c, layout), .time_major = ir_attr(c->f, v, KEY_time_major) != NULL};
  if (!open_readers(c, v, &p.readers)) return false;
  p.words = cg_row_words(c, x, 2), p.from = cg_ptr(c, x);
  p.elements = cg_axis_product(c, s, 2, ir_rank(c->f->prog, s));
  p.inner = cg_dim(c, ir_dim_at(c->f->prog, s, 1)), p.sorted = cg_layout_sorted(c, &p.t);
  V zero = cg_i64(c, 0);
  cg_share(c, cg_layout_get(c, p.t.base, cg_i64(c, TN_LAYOUT_ROWS)), 1, &p.lo, &p.hi);
  for (Loop step = cg_count(c, cg_layout_get(c, p.t.base, cg_i64(c, TN_LAYOUT_STEPS))); cg_next(&step);) {
    p.step = step.i, p.first = cg_layout_get(c, cg_layout_offsets(c, &p.t), step.i);
    V size = cg_layout_get(c, cg_layout_sizes(c, &p.t), step.i);
    V begin = cg_max(c, cg_sub(c, p.lo, p.first), zero), end = cg_min(c, cg_sub(c, p.hi, p.first), size);
    if (p.readers.block) {
      for (If some = cg_when(c, cg_lt(c, begin, end)); cg_then(&some);) pack_blocks(&p, begin, end);
    } else {
      for (Loop row = cg_each(c, begin, end); cg_next(&row);) pack_row(&p, row.i);
    }
  }
  return true;
}

// {value} as 32-bit words of the dtype, in a vector.
static V fill_words(Cg *c, Val v) {
  double value = ir_attr_num(c->f, v, KEY_value, 0);
  DType t = (DType)ir_ins(c->f, v)->dtype;
  uint32_t lanes = c->t->vl * 4 / ir_dtype_bytes[t];
  return cg_bitcast(c, cg_number(c, t, cg_vector_type(c, t, lanes), value), c->vi32);
}

static void pad_rows(Cg *c, Val v) {
  const Prog *p = c->f->prog;
  Val data = ir_arg(c->f, v, 0), layout = ir_arg(c->f, v, 1);
  Shape s = ir_ins(c->f, v)->shape;
  CgLayout t = cg_layout_of(c, layout);
  bool time_major = ir_attr(c->f, v, KEY_time_major) != NULL;
  V words = cg_row_words(c, data, 1), from = cg_ptr(c, data), to = cg_ptr(c, v), fill = fill_words(c, v);
  V outer = cg_dim(c, ir_dim_at(p, s, 0)), inner = cg_dim(c, ir_dim_at(p, s, 1));
  for (Loop row = cg_each_shared(c, cg_mul(c, outer, inner), 1); cg_next(&row);) {
    V a = cg_div(c, row.i, inner), b = cg_sub(c, row.i, cg_mul(c, a, inner));
    V step = time_major ? a : b, user = time_major ? b : a;
    V len = cg_layout_get(c, cg_layout_lengths(c, &t), user);
    V out = cg_row_at(c, to, row.i, words);
    for (If inside = cg_either(c, cg_lt(c, step, len)); cg_then(&inside);)
      if (inside.is_true) {
        V first = cg_layout_get(c, cg_layout_offsets(c, &t), step);
        V at = cg_add(c, first, cg_layout_get(c, cg_layout_unsorted(c, &t), user));
        cg_move_words(c, out, cg_row_at(c, from, at, words), NULL, words);
      } else {
        cg_move_words(c, out, NULL, fill, words);
      }
  }
}

bool cg_emit_pack_padded(Cg *c) {
  Val v = {c->k->first};
  if (ir_ins(c->f, v)->op == OP_pack_padded) return pack_rows(c, v);
  pad_rows(c, v);
  return true;
}
