// Packed sequences: the layout table from run-time lengths, and rows moved between padded and packed form.
//
// Row (t, k) of packed data is at offsets[t] + k and belongs to step t of the sequence sorted[k]; runtime/abi.h has the
// table. Lengths 3 1 2 give
//   sorted 0 2 1   batch_sizes 3 2 1   offsets 0 3 5 6   rows: a0 c0 b0 | a1 c1 | a2
#include "codegen/emitters.h"
#include "codegen/packed/layout.h"
#include "codegen/pointwise/prologue_epilogue.h"

#include <stddef.h>

// ---- the table, by position
CgLayout cg_layout_of(Cg *c, Val layout) {
  const Prog *p = c->f->prog;
  Shape s = ir_ins(c->f, layout)->shape;
  return (CgLayout){cg_ptr(c, layout), ir_dim_bound(p, ir_dim_at(p, s, 1)), ir_dim_bound(p, ir_dim_at(p, s, 0))};
}
LLVMValueRef cg_layout_part(Cg *c, const CgLayout *l, int64_t word) {
  return cg_at(c, c->i32, l->base, cg_i64(c, word));
}
LLVMValueRef cg_layout_get(Cg *c, LLVMValueRef part, LLVMValueRef i) {
  return LLVMBuildSExt(c->b, cg_load(c, c->i32, cg_at(c, c->i32, part, i)), c->i64, "");
}
LLVMValueRef cg_layout_sizes(Cg *c, const CgLayout *l) {
  return cg_layout_part(c, l, TN_LAYOUT_BATCH_SIZES(l->steps, l->seqs));
}
LLVMValueRef cg_layout_offsets(Cg *c, const CgLayout *l) {
  return cg_layout_part(c, l, TN_LAYOUT_OFFSETS(l->steps, l->seqs));
}
LLVMValueRef cg_layout_sorted(Cg *c, const CgLayout *l) {
  return cg_layout_part(c, l, TN_LAYOUT_SORTED(l->steps, l->seqs));
}
LLVMValueRef cg_layout_unsorted(Cg *c, const CgLayout *l) {
  return cg_layout_part(c, l, TN_LAYOUT_UNSORTED(l->steps, l->seqs));
}
LLVMValueRef cg_layout_lengths(Cg *c, const CgLayout *l) {
  return cg_layout_part(c, l, TN_LAYOUT_LENGTHS(l->steps, l->seqs));
}

static void put(Cg *c, LLVMValueRef part, LLVMValueRef i, LLVMValueRef v) {
  LLVMValueRef at = cg_at(c, c->i32, part, i);
  cg_store(c, LLVMBuildTrunc(c->b, v, c->i32, ""), at);
}
static LLVMValueRef is_less(Cg *c, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildICmp(c->b, LLVMIntSLT, a, b, ""); }

static void zero_words(Cg *c, LLVMValueRef part, int64_t n) {
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, n), cg_i64(c, 1), NULL, 0);
  put(c, part, l.i, cg_i64(c, 0));
  cg_loop_end(c, &l, NULL);
}

static void report_if(Cg *c, LLVMValueRef is_bad, TnKernelError code, LLVMValueRef index, LLVMValueRef value) {
  If bad;
  cg_if(c, &bad, is_bad);
  cg_report(c, code, index, value);
  cg_endif(c, &bad);
}

// lengths[r], kept in [least, time]; batch_sizes[l - 1] counts the sequences of length l > 0.
static void count_lengths(Cg *c, const CgLayout *t, LLVMValueRef given, LLVMValueRef seqs, LLVMValueRef time,
                          int64_t least, bool is_sorted) {
  LLVMValueRef one = cg_i64(c, 1), most = cg_i64(c, INT64_MAX);
  LLVMValueRef sizes = cg_layout_sizes(c, t);
  LLVMValueRef lengths = cg_layout_lengths(c, t);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), seqs, one, &most, is_sorted);
  LLVMValueRef raw = cg_load(c, c->i64, cg_at(c, c->i64, given, l.i));
  LLVMValueRef len = cg_max(c, cg_min(c, raw, time), cg_i64(c, least));
  report_if(c, LLVMBuildICmp(c->b, LLVMIntNE, raw, len, ""), TN_KERR_LENGTH_RANGE, l.i, raw);
  if (is_sorted) report_if(c, is_less(c, l.carry[0], raw), TN_KERR_NOT_SORTED, l.i, raw);
  put(c, lengths, l.i, len);
  If some;
  if (!least) cg_if(c, &some, is_less(c, cg_i64(c, 0), len));
  LLVMValueRef cell = cg_sub(c, len, one);
  put(c, sizes, cell, cg_add(c, cg_layout_get(c, sizes, cell), one));
  if (!least) cg_endif(c, &some);
  cg_loop_end(c, &l, &raw);
}

// From the back: batch_sizes[t] becomes the number of lengths > t, and offsets[t] the first sorted position of length t
// + 1. Gives the number of steps used.
static LLVMValueRef sum_counts(Cg *c, const CgLayout *t) {
  LLVMValueRef zero = cg_i64(c, 0), one = cg_i64(c, 1);
  LLVMValueRef sizes = cg_layout_sizes(c, t);
  LLVMValueRef offsets = cg_layout_offsets(c, t);
  Loop l;
  cg_loop_begin(c, &l, zero, cg_i64(c, t->steps), one, (LLVMValueRef[]){zero, zero}, 2);
  LLVMValueRef at = cg_sub(c, cg_i64(c, t->steps - 1), l.i);
  LLVMValueRef longer = l.carry[0], running = cg_add(c, longer, cg_layout_get(c, sizes, at));
  put(c, offsets, at, longer);
  put(c, sizes, at, running);
  LLVMValueRef used = LLVMBuildZExt(c->b, is_less(c, zero, running), c->i64, "");
  cg_loop_end(c, &l, (LLVMValueRef[]){running, cg_add(c, l.carry[1], used)});
  return l.out[1];
}

// Stable: equal lengths keep the user's order. offsets[l - 1] is the next free position of length l; empty sequences
// stand behind all others, in the last cell. Gives 1 when the order is the identity.
static LLVMValueRef sort_sequences(Cg *c, const CgLayout *t, LLVMValueRef seqs, bool may_be_empty) {
  LLVMValueRef one = cg_i64(c, 1), zero = cg_i64(c, 0), last = cg_i64(c, t->steps);
  LLVMValueRef cursor = cg_layout_offsets(c, t);
  LLVMValueRef lengths = cg_layout_lengths(c, t);
  if (may_be_empty) put(c, cursor, last, t->steps ? cg_layout_get(c, cg_layout_sizes(c, t), zero) : zero);
  Loop l;
  cg_loop_begin(c, &l, zero, seqs, one, &one, 1);
  LLVMValueRef len = cg_layout_get(c, lengths, l.i), cell = cg_sub(c, len, one);
  if (may_be_empty) cell = LLVMBuildSelect(c->b, is_less(c, zero, len), cell, last, "");
  LLVMValueRef at = cg_layout_get(c, cursor, cell);
  put(c, cursor, cell, cg_add(c, at, one));
  put(c, cg_layout_sorted(c, t), at, l.i);
  put(c, cg_layout_unsorted(c, t), l.i, at);
  LLVMValueRef same = LLVMBuildICmp(c->b, LLVMIntEQ, at, l.i, "");
  LLVMValueRef next = LLVMBuildSelect(c->b, same, l.carry[0], zero, "");
  cg_loop_end(c, &l, &next);
  return l.out[0];
}

// offsets[t + 1] = offsets[t] + batch_sizes[t]. Gives the number of rows.
static LLVMValueRef place_steps(Cg *c, const CgLayout *t) {
  LLVMValueRef zero = cg_i64(c, 0), one = cg_i64(c, 1);
  LLVMValueRef sizes = cg_layout_sizes(c, t);
  LLVMValueRef offsets = cg_layout_offsets(c, t);
  put(c, offsets, zero, zero);
  Loop l;
  cg_loop_begin(c, &l, zero, cg_i64(c, t->steps), one, &zero, 1);
  LLVMValueRef next = cg_add(c, l.carry[0], cg_layout_get(c, sizes, l.i));
  put(c, offsets, cg_add(c, l.i, one), next);
  cg_loop_end(c, &l, &next);
  return l.out[0];
}

static void set_run_dim(Cg *c, Dim d, LLVMValueRef v) {
  LLVMValueRef table = cg_frame_ptr(c, offsetof(TnFrame, dims));
  cg_store(c, v, cg_at(c, c->i64, table, cg_i64(c, ir_dim_info(c->f->prog, d)->slot)));
}

static void put_head(Cg *c, const CgLayout *t, LLVMValueRef steps, LLVMValueRef rows, LLVMValueRef seqs,
                     LLVMValueRef identity) {
  put(c, t->base, cg_i64(c, TN_LAYOUT_STEPS), steps);
  put(c, t->base, cg_i64(c, TN_LAYOUT_ROWS), rows);
  put(c, t->base, cg_i64(c, TN_LAYOUT_SEQS), seqs);
  put(c, t->base, cg_i64(c, TN_LAYOUT_IDENTITY), identity);
}

// part[i] = i * scale + start for i < n
static void put_ramp(Cg *c, LLVMValueRef part, LLVMValueRef n, LLVMValueRef start, LLVMValueRef scale) {
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), n, cg_i64(c, 1), NULL, 0);
  put(c, part, l.i, cg_add(c, cg_mul(c, l.i, scale), start));
  cg_loop_end(c, &l, NULL);
}

// `seqs` sequences of `time` steps each, in the user's order. A step has rows: without sequences there is none, as in
// the table made from lengths.
static void dense_table(Cg *c, Val v) {
  const Prog *p = c->f->prog;
  Shape s = ir_ins(c->f, v)->shape;
  CgLayout t = cg_layout_of(c, v);
  LLVMValueRef zero = cg_i64(c, 0), one = cg_i64(c, 1);
  LLVMValueRef seqs = cg_dim(c, ir_dim_at(p, s, 0)), time = cg_dim(c, ir_dim_at(p, s, 1));
  put_ramp(c, cg_layout_sizes(c, &t), time, seqs, zero);
  put_ramp(c, cg_layout_offsets(c, &t), cg_add(c, time, one), zero, seqs);
  put_ramp(c, cg_layout_sorted(c, &t), seqs, zero, one);
  put_ramp(c, cg_layout_unsorted(c, &t), seqs, zero, one);
  put_ramp(c, cg_layout_lengths(c, &t), seqs, time, zero);
  LLVMValueRef steps = LLVMBuildSelect(c->b, is_less(c, zero, seqs), time, zero, "");  // of no sequences there is none
  put_head(c, &t, steps, cg_mul(c, seqs, time), seqs, one);
}

// Worker 0 alone: O(batch + time) steps over a table that fits in a cache.
bool cg_emit_layout(Cg *c) {
  const Prog *p = c->f->prog;
  Val v = {c->k->first};
  if (ir_layout_is_const(c->f, v)) return true;  // the table lies in the constant pool
  Shape s = ir_ins(c->f, v)->shape;
  Dim time = ir_dim_at(p, s, 1), rows = ir_dim_at(p, s, 2);
  If first;
  cg_if(c, &first, LLVMBuildICmp(c->b, LLVMIntEQ, c->worker, cg_i64(c, 0), ""));
  if (ir_ins(c->f, v)->op == OP_dense_layout) {
    dense_table(c, v);
    cg_endif(c, &first);
    return true;
  }
  CgLayout t = cg_layout_of(c, v);
  LLVMValueRef given = cg_ptr(c, ir_arg(c->f, v, 0)), zero = cg_i64(c, 0);
  bool may_be_empty = ir_attr(c->f, v, KEY_empty) != NULL;
  // Without a step there are empty sequences or none: the batch counts as empty, so that nothing is written outside the
  // table.
  LLVMValueRef seqs = t.steps || may_be_empty ? cg_dim(c, ir_dim_at(p, s, 0)) : zero;
  zero_words(c, cg_layout_sizes(c, &t), t.steps);
  count_lengths(c, &t, given, seqs, cg_min(c, cg_dim(c, time), cg_i64(c, t.steps)), may_be_empty ? 0 : 1,
                ir_attr(c->f, v, KEY_sorted) != NULL);
  LLVMValueRef used = sum_counts(c, &t), identity = sort_sequences(c, &t, seqs, may_be_empty);
  LLVMValueRef n_rows = place_steps(c, &t);
  put_head(c, &t, used, n_rows, seqs, identity);
  set_run_dim(c, rows, n_rows);
  cg_endif(c, &first);
  return true;
}

// ---- rows. A row is copied as 32-bit words, whatever its dtype.
LLVMValueRef cg_row_words(Cg *c, Val v, uint32_t from_axis) {
  const Ins *ins = ir_ins(c->f, v);
  LLVMValueRef n = cg_i64(c, ir_dtype_bytes[ins->dtype] / 4);
  for (uint32_t k = from_axis; k < ir_rank(c->f->prog, ins->shape); k++)
    n = cg_mul(c, n, cg_dim(c, ir_dim_at(c->f->prog, ins->shape, k)));
  return n;
}

// n words from `from` to `to`; from == NULL: the vector `fill` instead.
void cg_move_words(Cg *c, LLVMValueRef to, LLVMValueRef from, LLVMValueRef fill, LLVMValueRef n) {
  LLVMValueRef vl = cg_i64(c, c->t->vl), whole = cg_mul(c, cg_div(c, n, vl), vl), rest = cg_sub(c, n, whole);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), whole, vl, NULL, 0);
  LLVMValueRef v = from ? cg_load(c, c->vi32, cg_at(c, c->i32, from, l.i)) : fill;
  cg_store(c, v, cg_at(c, c->i32, to, l.i));
  cg_loop_end(c, &l, NULL);
  if (LLVMIsConstant(rest) && LLVMConstIntGetZExtValue(rest) == 0) return;
  LLVMValueRef mask = cg_mask(c, rest), end = cg_at(c, c->i32, to, whole);
  LLVMValueRef last = from ? cg_load_masked(c, c->vi32, cg_at(c, c->i32, from, whole), mask) : fill;
  cg_store_masked(c, last, end, mask);
}

LLVMValueRef cg_row_at(Cg *c, LLVMValueRef base, LLVMValueRef row, LLVMValueRef words) {
  return cg_at(c, c->i32, base, cg_mul(c, row, words));
}

// ---- what is pointwise of packed rows, done as they are moved
//
//   wide rows      each is a strip, read where it lies in the padded value; so are narrow ones of few cheap readers
//   narrow rows    some rows are copied to a block in L1, so that vectors go over the ends of rows
//   broadcasts     of an operand along a row: each row of the last axis is a strip, narrow or not
typedef struct {
  RowStrip *strip;  // NULL: nothing is pointwise of them
  bool is_flat;     // rows follow one another in all operands
  LLVMValueRef block;
  int64_t block_rows;  // a power of two: rows are divided by it
} RowReaders;

enum { BLOCK_WORDS = 1024, MOST_EMPTY = 5, FEW_READERS = 3 };

// At most a fifth of the lanes that a row of so many elements takes is empty.
static bool fills_vectors(const Cg *c, int64_t n) {
  int64_t lanes = cg_ceil_div(n, c->t->vl) * c->t->vl;
  return (lanes - n) * MOST_EMPTY <= lanes;
}

// Readers that take less time than copying a row, empty lanes included.
static bool are_cheap(const Fn *f, const Kernel *k) {
  uint32_t n = 0;
  for (uint32_t i = k->first + 1; i < k->first + k->n; i++) {
    if (f->ins[i].op == OP_output) continue;
    if (++n > FEW_READERS || !ir_is_cheap_op((Op)f->ins[i].op)) return false;
  }
  return true;
}

static int64_t row_bound(const Fn *f, Val v) {
  int64_t n = 1;
  for (uint32_t k = 1; k < ir_rank(f->prog, ir_ins(f, v)->shape); k++)
    n *= ir_dim_bound(f->prog, ir_dim_at(f->prog, ir_ins(f, v)->shape, k));
  return n;
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
  LLVMValueRef words, elements;  // of a row
  LLVMValueRef from, inner, sorted;
  LLVMValueRef lo, hi;       // packed rows of this worker
  LLVMValueRef step, first;  // the current step; its first packed row
} Pack;

// Of the current step's row k, its padded row.
static LLVMValueRef padded_row(const Pack *p, LLVMValueRef k) {
  Cg *c = p->c;
  LLVMValueRef user = cg_layout_get(c, p->sorted, k);
  LLVMValueRef source =
      p->time_major ? cg_add(c, cg_mul(c, p->step, p->inner), user) : cg_add(c, cg_mul(c, user, p->inner), p->step);
  return cg_row_at(c, p->from, source, p->words);
}

// Rows of the last axis within packed row `at`, one by one.
static void read_by_last_axis(const Pack *p, LLVMValueRef at, LLVMValueRef in) {
  Cg *c = p->c;
  const Ins *ins = ir_ins(c->f, p->v);
  LLVMValueRef n = cg_i64(c, 1),
               width = cg_dim(c, ir_dim_at(c->f->prog, ins->shape, ir_rank(c->f->prog, ins->shape) - 1));
  for (uint32_t k = 1; k + 1 < ir_rank(c->f->prog, ins->shape); k++)
    n = cg_mul(c, n, cg_dim(c, ir_dim_at(c->f->prog, ins->shape, k)));
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), n, cg_i64(c, 1), NULL, 0);
  LLVMValueRef x = cg_at(c, cg_elem_type(c, (DType)ins->dtype), in, cg_mul(c, l.i, width));
  cg_epilogue_row(p->readers.strip, cg_add(c, cg_mul(c, at, n), l.i), x, cg_i64(c, 0), width);
  cg_loop_end(c, &l, NULL);
}

static void pack_row(const Pack *p, LLVMValueRef k) {
  Cg *c = p->c;
  LLVMValueRef at = cg_add(c, p->first, k), in = padded_row(p, k), begin;
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
static void pack_blocks(const Pack *p, LLVMValueRef begin, LLVMValueRef end) {
  Cg *c = p->c;
  const RowReaders *r = &p->readers;
  LLVMValueRef one = cg_i64(c, 1), most = cg_i64(c, r->block_rows), skipped = cg_sub(c, p->first, p->lo);
  LLVMValueRef from = cg_add(c, skipped, begin), to = cg_add(c, skipped, end);  // of the worker's rows
  Loop l, row;
  cg_loop_begin(c, &l, cg_div(c, from, most), cg_ceil_div_value(c, to, r->block_rows), one, NULL, 0);
  LLVMValueRef start = cg_mul(c, l.i, most), stop = cg_min(c, cg_add(c, start, most), to);
  cg_loop_begin(c, &row, cg_max(c, from, start), stop, one, NULL, 0);
  LLVMValueRef place = cg_row_at(c, r->block, cg_sub(c, row.i, start), p->words);
  cg_move_words(c, place, padded_row(p, cg_sub(c, row.i, skipped)), NULL, p->words);
  cg_loop_end(c, &row, NULL);
  LLVMValueRef is_full = LLVMBuildICmp(c->b, LLVMIntEQ, stop, cg_add(c, start, most), "");
  LLVMValueRef is_last = LLVMBuildICmp(c->b, LLVMIntEQ, stop, cg_sub(c, p->hi, p->lo), "");
  If ready;
  cg_if(c, &ready, LLVMBuildOr(c->b, is_full, is_last, ""));
  LLVMValueRef lo = cg_mul(c, cg_add(c, p->lo, start), p->elements), n = cg_mul(c, cg_sub(c, stop, start), p->elements);
  cg_epilogue_row(r->strip, cg_i64(c, 0), r->block, lo, cg_add(c, lo, n));
  cg_endif(c, &ready);
  cg_loop_end(c, &l, NULL);
}

// Each worker fills an equal, contiguous range of packed rows; it finds its first step by walking the offsets.
static bool pack_rows(Cg *c, Val v) {
  Val x = ir_arg(c->f, v, 0), layout = ir_arg(c->f, v, 1);
  Shape s = ir_ins(c->f, x)->shape;
  Pack p = {.c = c, .v = v, .t = cg_layout_of(c, layout), .time_major = ir_attr(c->f, v, KEY_time_major) != NULL};
  if (!open_readers(c, v, &p.readers)) return false;
  p.words = cg_row_words(c, x, 2), p.from = cg_ptr(c, x), p.elements = cg_i64(c, 1);
  for (uint32_t k = 2; k < ir_rank(c->f->prog, s); k++)
    p.elements = cg_mul(c, p.elements, cg_dim(c, ir_dim_at(c->f->prog, s, k)));
  p.inner = cg_dim(c, ir_dim_at(c->f->prog, s, 1)), p.sorted = cg_layout_sorted(c, &p.t);
  LLVMValueRef zero = cg_i64(c, 0), one = cg_i64(c, 1);
  cg_share(c, cg_layout_get(c, p.t.base, cg_i64(c, TN_LAYOUT_ROWS)), 1, &p.lo, &p.hi);
  Loop step, row;
  cg_loop_begin(c, &step, zero, cg_layout_get(c, p.t.base, cg_i64(c, TN_LAYOUT_STEPS)), one, NULL, 0);
  p.step = step.i, p.first = cg_layout_get(c, cg_layout_offsets(c, &p.t), step.i);
  LLVMValueRef size = cg_layout_get(c, cg_layout_sizes(c, &p.t), step.i);
  LLVMValueRef begin = cg_max(c, cg_sub(c, p.lo, p.first), zero), end = cg_min(c, cg_sub(c, p.hi, p.first), size);
  if (p.readers.block) {
    If some;
    cg_if(c, &some, is_less(c, begin, end));
    pack_blocks(&p, begin, end);
    cg_endif(c, &some);
  } else {
    cg_loop_begin(c, &row, begin, end, one, NULL, 0);
    pack_row(&p, row.i);
    cg_loop_end(c, &row, NULL);
  }
  cg_loop_end(c, &step, NULL);
  return true;
}

// {value} as 32-bit words of the dtype, in a vector.
static LLVMValueRef fill_words(Cg *c, Val v) {
  double value = ir_attr_num(c->f, v, KEY_value, 0);
  DType t = (DType)ir_ins(c->f, v)->dtype;
  uint32_t lanes = c->t->vl * 4 / ir_dtype_bytes[t];
  bool is_whole = COUNTABLE >> t & 1;
  LLVMValueRef x = is_whole ? cg_convert(c, DT_I64, t, cg_i64(c, ir_to_whole(t, value))) : cg_f32(c, value);
  return LLVMBuildBitCast(c->b, cg_splat_n(c, x, lanes), c->vi32, "");
}

static void pad_rows(Cg *c, Val v) {
  const Prog *p = c->f->prog;
  Val data = ir_arg(c->f, v, 0), layout = ir_arg(c->f, v, 1);
  Shape s = ir_ins(c->f, v)->shape;
  CgLayout t = cg_layout_of(c, layout);
  bool time_major = ir_attr(c->f, v, KEY_time_major) != NULL;
  LLVMValueRef words = cg_row_words(c, data, 1), from = cg_ptr(c, data), to = cg_ptr(c, v), fill = fill_words(c, v);
  LLVMValueRef outer = cg_dim(c, ir_dim_at(p, s, 0)), inner = cg_dim(c, ir_dim_at(p, s, 1)), lo, hi;
  cg_share(c, cg_mul(c, outer, inner), 1, &lo, &hi);
  Loop row;
  cg_loop_begin(c, &row, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef a = cg_div(c, row.i, inner), b = cg_sub(c, row.i, cg_mul(c, a, inner));
  LLVMValueRef step = time_major ? a : b, user = time_major ? b : a;
  LLVMValueRef len = cg_layout_get(c, cg_layout_lengths(c, &t), user);
  LLVMValueRef out = cg_row_at(c, to, row.i, words);
  If inside;
  cg_if(c, &inside, is_less(c, step, len));
  LLVMValueRef first = cg_layout_get(c, cg_layout_offsets(c, &t), step);
  LLVMValueRef at = cg_add(c, first, cg_layout_get(c, cg_layout_unsorted(c, &t), user));
  cg_move_words(c, out, cg_row_at(c, from, at, words), NULL, words);
  cg_else(c, &inside);
  cg_move_words(c, out, NULL, fill, words);
  cg_endif(c, &inside);
  cg_loop_end(c, &row, NULL);
}

bool cg_emit_pack_padded(Cg *c) {
  Val v = {c->k->first};
  if (ir_ins(c->f, v)->op == OP_pack_padded) return pack_rows(c, v);
  pad_rows(c, v);
  return true;
}
