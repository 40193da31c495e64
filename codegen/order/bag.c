// Bags of rows of a table (embedding_bag): their sums or largest elements, and the gradients of these.
//
// A bag is rows index[start .. end) of the table [V, E]: of index [B, L] its row, else what lies between two offsets. In a
// first walk over a bag its indices are checked and counted, so that the second, over blocks of columns, only adds.
// Sums are in the order of the indices. In the gradient of the table every worker walks all bags and owns a range of
// columns (wide rows) or of the table's rows (narrow ones).
#include "codegen/emitters.h"
#include "codegen/order/axis.h"

#include <math.h>

enum { UNROLL = 8, COLUMN_GRAIN = 16, WIDE = 64, AHEAD = 8, LINE = 64 };

typedef struct {
  Cg *c;
  V rows, width;                    // of the table
  V n_bags, n_index, length;        // length: of each bag; NULL: by offsets
  V table, index, offsets, factor;  // offsets, factor: NULL without them
  bool has_padding;
  int64_t padding;
} Bag;

typedef struct {
  V start, end;
} Range;

static V ptr_of(Cg *c, Val v, ArgName name) {
  Val a = ir_operand(c->f, v, name);
  return ir_none(a) ? NULL : cg_ptr(c, a);
}

static Bag bag_of(Cg *c, Val v) {
  const Prog *p = c->f->prog;
  Shape table = ir_ins(c->f, ir_operand(c->f, v, ARG_weight))->shape;
  Val index = ir_operand(c->f, v, ARG_index), offsets = ir_operand(c->f, v, ARG_offsets);
  Shape own = ir_ins(c->f, index)->shape;
  const Attr *padding = ir_attr(c->f, v, KEY_padding);
  bool is_shown = !(ir_operand_flags(c->f, v, 0) & SHAPE_ONLY);
  Bag b = {.c = c, .rows = cg_dim(c, ir_dim_at(p, table, 0)), .width = cg_dim(c, ir_dim_at(p, table, 1))};
  b.n_index = cg_numel(c, own), b.index = cg_ptr(c, index);
  b.table = is_shown ? ptr_of(c, v, ARG_weight) : NULL;
  b.offsets = ptr_of(c, v, ARG_offsets), b.factor = ptr_of(c, v, ARG_factor);
  b.length = b.offsets ? NULL : cg_dim(c, ir_dim_at(p, own, 1));
  b.n_bags = b.offsets ? cg_numel(c, ir_ins(c->f, offsets)->shape) : cg_dim(c, ir_dim_at(p, own, 0));
  b.has_padding = padding != NULL, b.padding = padding ? padding->u.i : 0;
  return b;
}

static V index_at(const Bag *b, V j) { return cg_get(b->c, b->c->i64, b->index, j); }
static V row_at(const Bag *b, V base, V row) { return cg_row(b->c, base, row, b->width); }

// Offsets must ascend within [0, n]. Otherwise the bag is empty, and reported if `reports`.
static Range range_of(const Bag *b, V k, bool reports) {
  Cg *c = b->c;
  V one = cg_i64(c, 1), zero = cg_i64(c, 0);
  if (b->length) return (Range){cg_mul(c, k, b->length), cg_mul(c, cg_add(c, k, one), b->length)};
  V last = cg_sub(c, b->n_bags, one), is_last = cg_eq(c, k, last);
  V start = cg_get(c, c->i64, b->offsets, k), next = cg_get(c, c->i64, b->offsets, cg_min(c, cg_add(c, k, one), last));
  V end = cg_select(c, is_last, b->n_index, next);
  V bad = cg_or(c, cg_icmp(c, LLVMIntUGT, start, b->n_index),
                cg_or(c, cg_icmp(c, LLVMIntUGT, end, b->n_index), cg_gt(c, start, end)));
  if (reports)
    for (If wrong = cg_when(c, bad); cg_then(&wrong);) cg_report(c, TN_KERR_INDEX_RANGE, k, start);
  return (Range){cg_select(c, bad, zero, start), cg_select(c, bad, zero, end)};
}

static V is_inside(const Bag *b, V index) { return cg_below(b->c, index, b->rows); }
static V is_padding(const Bag *b, V index) { return cg_eq(b->c, index, cg_i64(b->c, b->padding)); }

// Counts indices that are not padding. A bag with an index out of range is reported and becomes empty.
static V check_bag(const Bag *b, Range *r) {
  Cg *c = b->c;
  enum { N, END };
  V x[] = {cg_i64(c, 0), r->end};
  for (Loop l = cg_carry(c, r->start, r->end, cg_i64(c, 1), x, 2); cg_next(&l);) {
    V index = index_at(b, l.i), fine = is_inside(b, index), one = cg_i64(c, 1);
    for (If wrong = cg_when(c, cg_not(c, fine)); cg_then(&wrong);) cg_report(c, TN_KERR_INDEX_RANGE, l.i, index);
    V own = b->has_padding ? cg_select(c, is_padding(b, index), cg_i64(c, 0), one) : one;
    x[N] = cg_add(c, x[N], own), x[END] = cg_select(c, fine, x[END], r->start);
  }
  r->end = x[END];
  return x[N];
}

// ---- sums and largest elements
static V vector_at(const Bag *b, V row, V column, uint32_t lanes) {
  Cg *c = b->c;
  return cg_get(c, cg_vector_type(c, DT_F32, lanes), row, column);
}

// Columns of the row that index j + AHEAD names, whichever bag has it.
static void prefetch_row(const Bag *b, V j, V column, uint32_t n_columns) {
  Cg *c = b->c;
  V last = cg_sub(c, b->n_index, cg_i64(c, 1)), index = index_at(b, cg_min(c, cg_add(c, j, cg_i64(c, AHEAD)), last));
  V row = row_at(b, b->table, cg_select(c, is_inside(b, index), index, cg_i64(c, 0)));
  for (uint32_t k = 0; k < n_columns; k += LINE / 4)
    cg_prefetch_l1(c, cg_at(c, c->f32, row, cg_add(c, column, cg_i64(c, k))));
}

// Columns [column, column + n lanes) of the sum of a bag.
static void sum_columns(const Bag *b, Range r, V to, V column, uint32_t lanes, uint32_t n) {
  Cg *c = b->c;
  V sum[UNROLL];
  for (uint32_t k = 0; k < n; k++) sum[k] = LLVMConstNull(cg_vector_type(c, DT_F32, lanes));
  for (Loop l = cg_carry(c, r.start, r.end, cg_i64(c, 1), sum, n); cg_next(&l);) {
    V index = index_at(b, l.i), row = row_at(b, b->table, index);
    prefetch_row(b, l.i, column, n * lanes);
    V factor = b->factor ? cg_spread(c, cg_get(c, c->f32, b->factor, l.i), lanes) : NULL;
    for (uint32_t k = 0; k < n; k++) {
      V x = vector_at(b, row, cg_add(c, column, cg_i64(c, (int64_t)k * lanes)), lanes);
      V more = factor ? cg_fmul(c, x, factor) : x;
      more = cg_fadd(c, sum[k], more);
      sum[k] = b->has_padding ? cg_select(c, is_padding(b, index), sum[k], more) : more;
    }
  }
  for (uint32_t k = 0; k < n; k++) cg_put(c, sum[k], to, cg_add(c, column, cg_i64(c, (int64_t)k * lanes)));
}

// The largest element, and its first row in the table. An empty bag has 0 and row 0.
static void best_columns(const Bag *b, Range r, V to, V rows, V column, uint32_t lanes) {
  Cg *c = b->c;
  LLVMTypeRef i64s = cg_vector_type(c, DT_I64, lanes);
  V none = LLVMConstAllOnes(i64s), best = LLVMConstNull(cg_vector_type(c, DT_F32, lanes)), carry[] = {best, none};
  for (Loop l = cg_carry(c, r.start, r.end, cg_i64(c, 1), carry, 2); cg_next(&l);) {
    V index = index_at(b, l.i), x = vector_at(b, row_at(b, b->table, index), column, lanes);
    prefetch_row(b, l.i, column, lanes);
    V takes = cg_or(c, cg_fcmp(c, LLVMRealOGT, x, carry[0]), cg_eq(c, carry[1], none));
    V next[] = {cg_select(c, takes, x, carry[0]), cg_select(c, takes, cg_spread(c, index, lanes), carry[1])};
    for (uint32_t k = 0; k < 2; k++)
      carry[k] = b->has_padding ? cg_select(c, is_padding(b, index), carry[k], next[k]) : next[k];
  }
  V is_empty = cg_eq(c, carry[1], none);
  if (to) cg_put(c, carry[0], to, column);
  if (rows) cg_put(c, cg_select(c, is_empty, LLVMConstNull(i64s), carry[1]), rows, column);
}

// All columns, in blocks of `lanes` n, from `lo` on; returns where the next block would begin.
static V each_block(const Bag *b, Range r, V to, V rows, V lo, uint32_t lanes, uint32_t n, bool best) {
  Cg *c = b->c;
  V end;
  for (Loop l = cg_each_whole(c, lo, b->width, (int64_t)lanes * n, &end); cg_next(&l);) {
    if (best) best_columns(b, r, to, rows, l.i, lanes);
    else sum_columns(b, r, to, l.i, lanes, n);
  }
  return end;
}

static bool emit_bags(Cg *c, Val v) {
  Bag b = bag_of(c, v);
  bool best = ir_attr(c->f, v, KEY_max) != NULL;
  V y = cg_ptr_or_null(c, v), count = cg_ptr_or_null(c, ir_result(v, 1));
  V rows = best ? cg_ptr_or_null(c, ir_result(v, 2)) : NULL, lo, hi;
  cg_share(c, b.n_bags, 1, &lo, &hi);
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);) {
    Range r = range_of(&b, l.i, true);
    V n = check_bag(&b, &r), at = cg_mul(c, l.i, b.width);
    if (count) cg_put(c, cg_sitofp(c, n, c->f32), count, l.i);
    V to = y ? cg_at(c, c->f32, y, at) : NULL, to_rows = rows ? cg_at(c, c->i64, rows, at) : NULL, done = cg_i64(c, 0);
    if (y || rows) {
      for (uint32_t wide = best ? 1 : UNROLL; wide; wide /= 2)
        done = each_block(&b, r, to, to_rows, done, c->t->vl, wide, best);
      each_block(&b, r, to, to_rows, done, 1, 1, best);
    }
  }
  return true;
}

// ---- gradients
// to[lo, hi) += from[lo, hi) factor
static void add_columns(const Bag *b, V to, V from, V factor, V lo, V hi) {
  Cg *c = b->c;
  for (uint32_t pass = 0; pass < 2; pass++) {
    uint32_t lanes = pass ? 1 : c->t->vl;
    V end;
    for (Loop l = cg_each_whole(c, lo, hi, lanes, &end); cg_next(&l);) {
      V x = vector_at(b, from, l.i, lanes), at = cg_at(c, c->f32, to, l.i), old = vector_at(b, to, l.i, lanes);
      if (factor) x = cg_fmul(c, x, cg_spread(c, factor, lanes));
      cg_store(c, cg_fadd(c, old, x), at);
    }
    lo = end;
  }
}

static void clear_columns(Cg *c, V to, V lo, V hi) {
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);) cg_put(c, cg_f32(c, 0), to, l.i);
}

// Adds each row of g, one per bag, to the table rows of that bag. Indices out of range were reported before.
static bool emit_table_gradient(Cg *c, Val v) {
  Bag b = bag_of(c, v);
  V zero = cg_i64(c, 0), row_lo = zero, row_hi = b.rows, lo = zero, hi = b.width, to = cg_ptr(c, v);
  V g = ptr_of(c, v, ARG_g);
  if (ir_dim_bound(c->f->prog, ir_dim_at(c->f->prog, ir_ins(c->f, v)->shape, 1)) >= WIDE)
    cg_share(c, b.width, COLUMN_GRAIN, &lo, &hi);
  else cg_share(c, b.rows, 1, &row_lo, &row_hi);
  for (Loop l = cg_each(c, row_lo, row_hi); cg_next(&l);) clear_columns(c, row_at(&b, to, l.i), lo, hi);
  for (Loop l = cg_count(c, b.n_bags); cg_next(&l);) {
    Range r = range_of(&b, l.i, false);
    for (Loop j = cg_each(c, r.start, r.end); cg_next(&j);) {
      V index = index_at(&b, j.i);
      V own = cg_between(c, index, row_lo, row_hi);
      if (b.has_padding) own = cg_and(c, own, cg_not(c, is_padding(&b, index)));
      for (If mine = cg_when(c, own); cg_then(&mine);) {
        V factor = b.factor ? cg_get(c, c->f32, b.factor, j.i) : NULL;
        add_columns(&b, row_at(&b, to, index), row_at(&b, g, l.i), factor, lo, hi);
      }
    }
  }
  return true;
}

static V dot(const Bag *b, V x, V y) {
  Cg *c = b->c;
  uint32_t vl = c->t->vl;
  V unit = cg_i64(c, vl), end = cg_multiple(c, b->width, unit), lanes = cg_zeros(c);
  for (Loop l = cg_carry(c, cg_i64(c, 0), end, unit, &lanes, 1); cg_next(&l);)
    lanes = cg_fma(c, vector_at(b, x, l.i, vl), vector_at(b, y, l.i, vl), lanes);
  V sum = cg_reduce_add(c, lanes);
  for (Loop l = cg_carry(c, end, b->width, cg_i64(c, 1), &sum, 1); cg_next(&l);)
    sum = cg_fma(c, vector_at(b, x, l.i, 1), vector_at(b, y, l.i, 1), sum);
  return sum;
}

// For each index: the dot product of its row and its bag's row of g. An index in no bag gives 0.
static bool emit_factor_gradient(Cg *c, Val v) {
  Bag b = bag_of(c, v);
  V to = cg_ptr(c, v), g = ptr_of(c, v, ARG_g), zero = cg_i64(c, 0);
  for (If first = cg_when(c, cg_first_worker(c)); cg_then(&first);) {
    clear_columns(c, to, zero, b.n_index);
    for (Loop l = cg_count(c, b.n_bags); cg_next(&l);) {
      Range r = range_of(&b, l.i, false);
      for (Loop j = cg_each(c, r.start, r.end); cg_next(&j);) {
        V index = index_at(&b, j.i), counts = is_inside(&b, index);
        if (b.has_padding) counts = cg_and(c, counts, cg_not(c, is_padding(&b, index)));
        for (If in = cg_when(c, counts); cg_then(&in);)
          cg_put(c, dot(&b, row_at(&b, b.table, index), row_at(&b, g, l.i)), to, j.i);
      }
    }
  }
  return true;
}

bool cg_emit_bag(Cg *c) {
  Val v = {c->k->first};
  switch (ir_ins(c->f, v)->op) {
  case OP_embedding_bag: return emit_bags(c, v);
  case OP_embedding_bag_grad: return emit_table_gradient(c, v);
  default: return emit_factor_gradient(c, v);
  }
}
