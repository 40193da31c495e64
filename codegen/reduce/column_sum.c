// Column sums: sums over the rows of a row kernel, fused into it.
//
//   %p = mul %g, %u : f32[n,64]            chunk of rows, by one worker:  strip += p, row by row
//   %s = sum %p {axes=[0]} : f32[64]                                      partial += strip, every 32 rows
//                                          barrier; s = partials in order, columns split among workers
//
// Blocked summation: adding up sums of 32 rows has a smaller rounding error than one long sum. Strips and partials are
// whole vectors, zero in the lanes beyond the row.
//
// Rows along another axis lie side by side, a lane each: a strip has sums of each lane for every element of a row, which are added up
// when it goes to the partial sums. So that no sum depends on the lanes of a vector, there are 16 of them, and rows count by as many.
#include "codegen/reduce/column_sum.h"
#include "codegen/math/primitives.h"
#include "codegen/reduce/cascade.h"
#include "codegen/reduce/reduce.h"

#include <string.h>

enum { MAX_CHUNKS = 64, MIN_ROWS = 8, SHARE = 4 };

// ---- the plan: by bounds alone
static int64_t rows_bound(const Prog *p, RowSpace rows) {
  int64_t n = 1;
  for (uint32_t k = 0; k < rows.axis; k++) n *= ir_dim_bound(p, ir_dim_at(p, rows.shape, k));
  bool strided = rows.axis + 1 < ir_rank(p, rows.shape);
  return strided ? n * cg_ceil_div(ir_row_side_by_side(p, rows), COLUMN_LANES) : n;
}

int64_t cg_column_chunk(const Prog *p, RowSpace rows) {
  int64_t even = cg_ceil_div(rows_bound(p, rows), MAX_CHUNKS);
  return even < MIN_ROWS ? MIN_ROWS : even;
}

int64_t cg_column_chunks(const Prog *p, RowSpace rows) {
  return cg_ceil_div(rows_bound(p, rows), cg_column_chunk(p, rows));
}

int64_t cg_column_width(const Prog *p, RowSpace rows) {
  return cg_round_up(ir_dim_bound(p, ir_dim_at(p, rows.shape, rows.axis)), COLUMN_LANES);
}

int64_t cg_column_sum_scratch(const Fn *f, Val v) {
  RowSpace rows;
  ir_column_sum(f, v, &rows);
  return 4 * cg_column_chunks(f->prog, rows) * cg_column_width(f->prog, rows);
}

void cg_column_sum_find(ColumnSums *s, Cg *c, RowSpace rows) {
  const Prog *p = c->f->prog;
  RowSpace own;
  *s = (ColumnSums){.c = c, .chunk = cg_column_chunk(p, rows), .n_chunks = cg_column_chunks(p, rows)};
  s->bound = cg_column_width(p, rows);
  s->strided = rows.axis + 1 < ir_rank(p, rows.shape);
  for (uint32_t i = c->k->first; i < c->k->first + c->k->n; i++)
    if (ir_ins(c->f, (Val){i})->op != OP_result && ir_column_sum(c->f, (Val){i}, &own)) s->sum[s->n++].v = (Val){i};
}

void cg_column_sum_open(ColumnSums *s, Cg *c, RowSpace rows) {
  const Prog *p = c->f->prog;
  cg_column_sum_find(s, c, rows);
  s->size = cg_dim(c, ir_dim_at(p, rows.shape, rows.axis));
  int64_t at = 0;
  for (uint32_t i = c->k->first, n = 0; i < c->k->first + c->k->n; i++) {
    Val v = {i};
    if (ir_ins(c->f, v)->op == OP_result) continue;
    if (n < s->n && s->sum[n].v.i == i) {
      s->sum[n].strip = cg_block(c, c->f32, s->bound * (s->strided ? COLUMN_LANES : 1));
      s->sum[n++].partials = cg_at(c, c->f32, c->scratch, cg_i64(c, at / 4));
    }
    if (ir_ops[ir_ins(c->f, v)->op].cls == CLASS_REDUCE)
      at += cg_round_up(cg_reduce_scratch_bytes(c->f, v, c->t), TN_ALIGN);
  }
}

// ---- code
static V f32_at(const ColumnSums *s, V base, V i) { return cg_at(s->c, s->c->f32, base, i); }
static V zero(const ColumnSums *s) { return cg_splat(s->c, cg_f32(s->c, 0)); }
static V add(const ColumnSums *s, V a, V b) { return cg_primitive(s->c, OP_add, (V[]){a, b}); }

void cg_column_sum_begin(ColumnSums *s, V chunk) {
  Cg *c = s->c;
  s->at = cg_mul(c, chunk, cg_i64(c, s->bound));
  V zeros = s->strided ? cg_mul(c, s->size, cg_i64(c, COLUMN_LANES)) : s->size, vl = cg_i64(c, c->t->vl);
  for (Loop l = cg_each_by(c, cg_i64(c, 0), zeros, vl); cg_next(&l);)
    for (uint32_t k = 0; k < s->n; k++) cg_put(c, zero(s), s->sum[k].strip, l.i);
  for (Loop l = cg_each_by(c, cg_i64(c, 0), s->size, vl); cg_next(&l);)
    for (uint32_t k = 0; k < s->n; k++) cg_put(c, zero(s), s->sum[k].partials, cg_add(c, s->at, l.i));
}

void cg_column_sum_add(ColumnSums *s, uint32_t k, V i, V x, V mask) {
  Cg *c = s->c;
  V at = s->strided ? cg_add(c, cg_mul(c, i, cg_i64(c, COLUMN_LANES)), s->lane) : i, p = f32_at(s, s->sum[k].strip, at);
  if (mask) x = cg_select(c, mask, x, zero(s));
  cg_store(c, add(s, cg_load(c, c->vf, p), x), p);
}

// The lanes of element i of strip k, added by halves; they are 0 from here on.
static V take_lanes(ColumnSums *s, uint32_t k, V i) {
  Cg *c = s->c;
  uint32_t n = COLUMN_LANES / c->t->vl;
  V part[COLUMN_LANES];
  for (uint32_t j = 0; j < n; j++) {
    V at = cg_add(c, cg_mul(c, i, cg_i64(c, COLUMN_LANES)), cg_i64(c, j * (int64_t)c->t->vl));
    part[j] = cg_get(c, c->vf, s->sum[k].strip, at);
    cg_put(c, zero(s), s->sum[k].strip, at);
  }
  for (; n > 1; n /= 2)
    for (uint32_t j = 0; j < n / 2; j++) part[j] = add(s, part[j], part[j + n / 2]);
  return cg_reduce_add(c, part[0]);
}

static void fold_lanes(ColumnSums *s) {
  Cg *c = s->c;
  for (Loop l = cg_each(c, cg_i64(c, 0), s->size); cg_next(&l);)
    for (uint32_t k = 0; k < s->n; k++) {
      V sum = take_lanes(s, k, l.i), at = cg_add(c, s->at, l.i);
      sum = cg_primitive(c, OP_add, (V[]){cg_get(c, c->f32, s->sum[k].partials, at), sum});
      cg_put(c, sum, s->sum[k].partials, at);
    }
}

void cg_column_sum_fold(ColumnSums *s) {
  Cg *c = s->c;
  if (s->strided) {
    fold_lanes(s);
    return;
  }
  for (Loop l = cg_each_by(c, cg_i64(c, 0), s->size, cg_i64(c, c->t->vl)); cg_next(&l);)
    for (uint32_t k = 0; k < s->n; k++) {
      V strip = f32_at(s, s->sum[k].strip, l.i), to = f32_at(s, s->sum[k].partials, cg_add(c, s->at, l.i));
      V sum = add(s, cg_load(c, c->vf, to), cg_load(c, c->vf, strip));
      cg_store(c, sum, to);
      cg_store(c, zero(s), strip);
    }
}

// A vector of every sum.
typedef struct {
  ColumnSums *s;
  V at;  // its first column
} Finish;

static void start_sums(void *ctx, V *acc) {
  const ColumnSums *s = ((Finish *)ctx)->s;
  for (uint32_t k = 0; k < s->n; k++) acc[k] = zero(s);
}

static V join_sums(void *ctx, uint32_t k, V a, V b) { return (void)k, add(((Finish *)ctx)->s, a, b); }

static void add_chunks(void *ctx, V lo, V hi, V *acc) {
  const Finish *f = ctx;
  const ColumnSums *s = f->s;
  Cg *c = s->c;
  for (Loop l = cg_carry(c, lo, hi, cg_i64(c, 1), acc, s->n); cg_next(&l);) {
    V at = cg_add(c, cg_mul(c, l.i, cg_i64(c, s->bound)), f->at);
    for (uint32_t k = 0; k < s->n; k++) acc[k] = add(s, acc[k], cg_get(c, c->vf, s->sum[k].partials, at));
  }
}

static void finish_vector(ColumnSums *s, V i) {
  Cg *c = s->c;
  V acc[MAX_COLUMNS];
  Finish f = {s, i};
  Cascade all = {
      .c = c, .n = s->n, .block = CASCADE_TERMS, .start = start_sums, .join = join_sums, .add = add_chunks, .ctx = &f};
  start_sums(&f, acc);
  cg_cascade(&all, cg_cascade_levels(s->n_chunks), cg_i64(c, 0), cg_i64(c, s->n_chunks), acc);
  V mask = cg_mask(c, cg_min(c, cg_i64(c, c->t->vl), cg_sub(c, s->size, i)));
  for (uint32_t k = 0; k < s->n; k++)
    if (cg_stored(c, s->sum[k].v)) cg_store_masked(c, acc[k], f32_at(s, cg_ptr(c, s->sum[k].v), i), mask);
}

void cg_column_sum_finish(ColumnSums *s, bool alone) {
  Cg *c = s->c;
  V vl = cg_i64(c, c->t->vl), lo = cg_i64(c, 0), hi = cg_div(c, cg_add(c, s->size, cg_i64(c, c->t->vl - 1)), vl);
  if (!alone) {
    cg_wait_for_team(c);
    cg_share(c, hi, SHARE, &lo, &hi);
  }
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);) finish_vector(s, cg_mul(c, l.i, vl));
}
