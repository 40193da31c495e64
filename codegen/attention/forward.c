// Forward attention: softmax over keys that come block by block. For each query the largest score so far and the sum
// of exponentials below it are kept; a block with a larger score scales what was summed before:
//
//   m' = max(m, max s)    l' = l e^(m - m') + sum e^(s - m')    out' = out e^(m - m') + e^(s - m') V
//
// A unit is a chunk of queries of one head. Blocks of keys come in order, all blocks of queries meet each of them.
#include "codegen/attention/attention.h"
#include "codegen/math/primitives.h"

#include <math.h>

typedef struct {
  AttnCode *s;
  V keys_t, values, scores;  // on the stack: of a block of keys, transposed and as it is; [ATTN_ROWS][keys]
  V top, sum;                // by row of the chunk
  V squares;               // [FEW_QUERIES][keys / vl][vl] of scores whose lanes are streams; NULL: keys are one stream
  V q_memory, out_memory;  // of the chunk; NULL: rows lie as tiles
  V k_memory;              // of a block of keys
  V b, head, lo;           // head: the first; lo: the chunk's first query
  AttnRows q_rows, k, v, out_rows;
  AttnTile q, out;
  V bias;
  bool stores_out;  // else only the rows' sums are stored
  AttnNumbers lse;  // of this head; at NULL: not stored
} Forward;

// With few queries per key, keys and values are read in place: copying them would take longer than the products.
enum { FEW_QUERIES = 4, MAX_LANES = 64 };
enum {
  TERMS = 64
};  // keys that all rows meet before the next ones; a sum over values has as many terms before it is added to the result
static bool reads_in_place(const AttnCode *s) {
  return !ir_attention_is_packed(&s->a) && ir_dim_bound(s->c->f->prog, s->a.tq) * s->row_heads <= FEW_QUERIES;
}

// Where rows of a head lie one after another, they are one stream of memory. Targets with `memory_streams` read several parts
// of a block at once instead (docs/experiments/114). The parts should be pages: a block has more keys.
enum { STREAM_KEYS = 512 };
static bool reads_streams(const AttnCode *s) {
  const AttnPlace *k = &s->a.place[ATTN_K], *v = &s->a.place[ATTN_V];
  return reads_in_place(s) && s->c->t->memory_streams > 1 && k->row == s->a.size && v->row == s->a.size;
}

static V larger(Cg *c, V a, V b) { return cg_select(c, cg_fcmp(c, LLVMRealOGT, a, b), a, b); }

// Rows of scores that are processed together, so that their sums over lanes overlap.
enum { TOGETHER = 4 };
typedef struct {
  uint32_t n;
  V at[TOGETHER], top[TOGETHER], sum[TOGETHER], element[TOGETHER];  // element: number of the row in the random stream
  AttnSeen seen[TOGETHER];
  AttnBias bias[TOGETHER];
  V whole;  // columns up to here are seen by all rows: no mask is made
} Rows;

static V mask_of(Forward *f, const Rows *r, uint32_t k, bool is_whole, V j) {
  return is_whole ? NULL : cg_attention_seen_mask(f->s, r->seen[k], j);
}

// Scores at column j into the largest of each row. With a bias they become scaled and biased scores.
static void top_at(Forward *f, Rows *r, V j, bool is_whole) {
  Cg *c = f->s->c;
  V least = cg_splat(c, cg_f32(c, -INFINITY)), scale = cg_splat(c, cg_f32(c, f->s->a.scale));
  for (uint32_t k = 0; k < r->n; k++) {
    V at = cg_at(c, c->f32, r->at[k], j), x = cg_load(c, c->vf, at), mask = mask_of(f, r, k, is_whole, j);
    if (f->bias) {
      x = cg_fma(c, x, scale, cg_attention_bias_vector(f->s, r->bias[k], j, mask));
      cg_store(c, x, at);
    } else if (f->s->a.scale <= 0) x = cg_fmul(c, x, scale);
    r->top[k] = larger(c, mask ? cg_select(c, mask, x, least) : x, r->top[k]);
  }
}

// The largest of each row, up to column n.
static void find_tops(Forward *f, Rows *r, V n) {
  Cg *c = f->s->c;
  for (uint32_t k = 0; k < r->n; k++) r->top[k] = cg_splat(c, cg_f32(c, -INFINITY));
  for (Loop l = cg_carry(c, cg_i64(c, 0), r->whole, cg_vl(c), r->top, r->n); cg_next(&l);) top_at(f, r, l.i, true);
  for (Loop l = cg_carry(c, r->whole, n, cg_vl(c), r->top, r->n); cg_next(&l);) top_at(f, r, l.i, false);
  for (uint32_t k = 0; k < r->n; k++) {
    r->top[k] = cg_reduce_max(c, r->top[k]);
    if (!f->bias && f->s->a.scale > 0) r->top[k] = cg_fmul(c, r->top[k], cg_f32(c, f->s->a.scale));
  }
}

// Replaces visible scores at column j by e^(score - top), others by 0, and adds them up.
static void exp_at(Forward *f, Rows *r, const V *minus, V j, bool is_whole) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  V zero = cg_zeros(c), scale = cg_splat(c, cg_f32(c, f->bias ? 1 : s->a.scale));
  for (uint32_t k = 0; k < r->n; k++) {
    V at = cg_at(c, c->f32, r->at[k], j), x = cg_fma(c, cg_load(c, c->vf, at), scale, minus[k]);
    V e = cg_primitive(c, OP_exp, &x), mask = mask_of(f, r, k, is_whole, j);
    if (mask) e = cg_select(c, mask, e, zero);
    r->sum[k] = cg_fadd(c, r->sum[k], e);
    cg_store(c, s->id ? cg_fmul(c, e, cg_attention_dropout_scale(s, r->element[k], j)) : e, at);
  }
}

static void find_sums(Forward *f, Rows *r, const V *top, V n) {
  Cg *c = f->s->c;
  V minus[TOGETHER];
  for (uint32_t k = 0; k < r->n; k++) minus[k] = cg_splat(c, cg_fneg(c, top[k])), r->sum[k] = cg_zeros(c);
  for (Loop l = cg_carry(c, cg_i64(c, 0), r->whole, cg_vl(c), r->sum, r->n); cg_next(&l);)
    exp_at(f, r, minus, l.i, true);
  for (Loop l = cg_carry(c, r->whole, n, cg_vl(c), r->sum, r->n); cg_next(&l);) exp_at(f, r, minus, l.i, false);
  for (uint32_t k = 0; k < r->n; k++) r->sum[k] = cg_reduce_add(c, r->sum[k]);
}

// Adds `sum`, that of a block whose largest score so far is `top`, to row i of the chunk.
static void add_block(Forward *f, V i, V before, V top, V base, V sum) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  V sum_at = cg_at(c, c->f32, f->sum, i), had = cg_load(c, c->f32, sum_at);
  V grew = cg_fcmp(c, LLVMRealOLT, before, base), saw = cg_fcmp(c, LLVMRealOGT, before, cg_f32(c, -INFINITY));
  for (If shrinks = cg_when_carry(c, cg_and(c, grew, saw), &had, 1); cg_then(&shrinks);) {
    V less = cg_fsub(c, before, base), shrink = cg_primitive(c, OP_exp, &less);
    had = cg_fmul(c, had, shrink);
    if (f->stores_out) cg_attention_scale_row(s, cg_attention_tile_row(s, f->out, i), shrink);
  }
  cg_store(c, cg_fadd(c, had, sum), sum_at);
  cg_put(c, top, f->top, i);
}

// n_rows rows of the block from j on, which are rows i, i + 1, .. of the chunk, against the keys k0 .. k0 + n.
static void update_rows(Forward *f, uint32_t n_rows, V j, V i, V k0, V n) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  Rows r = {.n = n_rows, .whole = n};
  V row[TOGETHER], before[TOGETHER], top[TOGETHER], base[TOGETHER], none = cg_f32(c, -INFINITY);
  for (uint32_t k = 0; k < n_rows; k++) {
    row[k] = cg_add(c, i, cg_i64(c, k));
    V t = cg_attention_step(s, f->lo, row[k]), h = cg_attention_head(s, f->head, row[k]);
    r.at[k] = cg_row(c, f->scores, cg_add(c, j, cg_i64(c, k)), cg_i64(c, s->keys));
    r.seen[k] = cg_attention_seen(s, t, k0, n);
    r.bias[k] = cg_attention_bias(s, f->bias, f->b, h, t, k0);
    r.element[k] = s->id ? cg_add(c, cg_attention_element(s, f->b, h, t), k0) : NULL;
    r.whole = r.seen[k].from ? cg_i64(c, 0) : cg_min(c, r.whole, r.seen[k].to);
    before[k] = cg_get(c, c->f32, f->top, row[k]);
  }
  r.whole = cg_multiple(c, cg_max(c, r.whole, cg_i64(c, 0)), cg_vl(c));
  find_tops(f, &r, n);
  for (uint32_t k = 0; k < n_rows; k++) {
    top[k] = larger(c, r.top[k], before[k]);
    // A query that has seen no key: everything below is zero, not e^(inf - inf).
    base[k] = cg_select(c, cg_fcmp(c, LLVMRealOEQ, top[k], none), cg_f32(c, 0), top[k]);
  }
  find_sums(f, &r, base, n);
  for (uint32_t k = 0; k < n_rows; k++) add_block(f, row[k], before[k], top[k], base[k], r.sum[k]);
}

static void update_block(Forward *f, V i, V m, V k0, V n) {
  Cg *c = f->s->c;
  V together = cg_i64(c, TOGETHER), end = cg_multiple(c, m, together);
  for (Loop l = cg_count_by(c, end, together); cg_next(&l);) update_rows(f, TOGETHER, l.i, cg_add(c, i, l.i), k0, n);
  for (Loop l = cg_each(c, end, m); cg_next(&l);) update_rows(f, 1, l.i, cg_add(c, i, l.i), k0, n);
}

// ---- scores of few queries: dot products of rows, of vl / rows keys at a time. All lanes are added in one go at the end.
typedef struct {
  uint32_t rows, keys, run;  // rows x keys = vl; vectors of a key that are read before those of the next
  V query[FEW_QUERIES], key[MAX_LANES];
} Dots;

// In order of addresses memory comes twice as fast as by a vector of each key in turn (docs/experiments/152). Of several streams
// a vector of each is read in turn.
enum { RUN = 16 };

static void add_products(Forward *f, const Dots *t, V d, uint32_t run, V mask, V *sum) {
  Cg *c = f->s->c;
  for (uint32_t k = 0; k < t->keys; k++)
    for (uint32_t i = 0; i < run; i++) {
      V at = cg_add(c, d, cg_i64(c, i * c->t->vl)), key = cg_get_masked(c, c->vf, t->key[k], at, mask);
      for (uint32_t r = 0; r < t->rows; r++) {
        V *x = &sum[r * t->keys + k];
        *x = cg_fma(c, key, cg_get_masked(c, c->vf, t->query[r], at, mask), *x);
      }
    }
}

// Lane r keys + k: row r by key k.
static V dots(Forward *f, const Dots *t) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  V sum[MAX_LANES];
  uint32_t vl = c->t->vl;
  int64_t whole = s->a.size / vl * vl, runs = whole / (t->run * vl) * (t->run * vl);
  for (uint32_t k = 0; k < vl; k++) sum[k] = cg_zeros(c);
  for (Loop d = cg_carry(c, cg_i64(c, 0), cg_i64(c, runs), cg_i64(c, t->run * vl), sum, vl); cg_next(&d);)
    add_products(f, t, d.i, t->run, NULL, sum);
  if (runs < whole) add_products(f, t, cg_i64(c, runs), (uint32_t)((whole - runs) / vl), NULL, sum);
  V left = cg_i64(c, s->a.size - whole);
  if (whole < s->a.size) add_products(f, t, cg_i64(c, whole), 1, cg_mask(c, left), sum);
  return cg_sum_each(c, sum);
}

static V square_at(Forward *f, V row, V key) {
  Cg *c = f->s->c;
  return cg_at(c, c->f32, f->squares, cg_index(c, row, cg_i64(c, f->s->keys), cg_mul(c, key, cg_vl(c))));
}

// Scores of the m rows from i on against vl parts of `part` keys each, one after another from k0 on: lane j of a vector is of part j,
//
//   squares[key][j] = row . K[k0 + j part + key]        scores[j part + key] = squares[key][j]
//
// The last square of a part overlaps the one before.
static void scores_of_parts(Forward *f, V i, V m, V k0, V part) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  Dots t = {.rows = 1, .keys = c->t->vl, .run = 1};
  V vl = cg_vl(c);
  for (Loop l = cg_count(c, part); cg_next(&l);) {
    V first = cg_attention_row(s, f->k, cg_add(c, k0, l.i)), apart = cg_mul(c, part, cg_i64(c, f->k.row));
    for (uint32_t k = 0; k < t.keys; k++) t.key[k] = cg_row(c, first, cg_i64(c, k), apart);
    for (Loop row = cg_count(c, m); cg_next(&row);) {
      t.query[0] = cg_attention_tile_row(s, f->q, cg_add(c, i, row.i));
      cg_store(c, dots(f, &t), square_at(f, row.i, l.i));
    }
  }
  for (Loop row = cg_count(c, m); cg_next(&row);)
    for (Loop l = cg_count_by(c, part, vl); cg_next(&l);) {
      V from = cg_min(c, l.i, cg_sub(c, part, vl)), to = cg_cell(c, f->scores, row.i, cg_i64(c, s->keys), from);
      cg_transpose_block(c, square_at(f, row.i, from), vl, vl, vl, to, part);
    }
}

// Scores of `rows` rows from row `row` of the block on, which begins at row i of the chunk, against the keys lo .. hi of n. Where too few
// of them are left, the last one is read in place of the missing ones, whose scores are masked.
static void scores_of_rows(Forward *f, uint32_t rows, V i, V row, V k0, V lo, V hi, V n) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  Dots t = {.rows = rows, .keys = c->t->vl / rows, .run = RUN};
  V last = cg_sub(c, n, cg_i64(c, 1)), keys = cg_i64(c, t.keys);
  for (uint32_t r = 0; r < rows; r++)
    t.query[r] = cg_attention_tile_row(s, f->q, cg_add(c, i, cg_add(c, row, cg_i64(c, r))));
  for (Loop l = cg_each_by(c, lo, hi, keys); cg_next(&l);) {
    V first = cg_attention_row(s, f->k, cg_add(c, k0, l.i));
    for (If whole = cg_either(c, cg_gt(c, cg_add(c, n, cg_i64(c, 1)), cg_add(c, l.i, keys))); cg_then(&whole);) {
      for (uint32_t k = 0; k < t.keys; k++) {
        V at = whole.is_true ? cg_i64(c, k) : cg_min(c, cg_sub(c, last, l.i), cg_i64(c, k));
        t.key[k] = cg_row(c, first, at, cg_i64(c, f->k.row));
      }
      V all = dots(f, &t);
      for (uint32_t r = 0; r < rows; r++) {
        V to = cg_row(c, f->scores, cg_add(c, row, cg_i64(c, r)), cg_i64(c, s->keys));
        cg_put(c, cg_some_lanes(c, all, r * t.keys, t.keys), to, l.i);
      }
    }
  }
}

// Loops over rows of the m of a block: first by as many as can be processed at once, then one by one.
//
//   for (FewRows r = few_rows(s, m, most); next_rows(&r);) for (; cg_next(&r.loop);) ..  r.n rows from row r.loop.i on
typedef struct {
  Cg *c;
  V m, end;
  uint32_t n, most;  // n: 0 before the first loop
  Loop loop;
} FewRows;

static FewRows few_rows(const AttnCode *s, V m, int64_t most) {
  int64_t rows = cg_smaller(ir_dim_bound(s->c->f->prog, s->a.tq) * s->row_heads, most);
  uint32_t n = rows >= 4 ? 4 : rows >= 2 ? 2 : 1;
  return (FewRows){.c = s->c, .m = m, .most = n, .end = cg_multiple(s->c, m, cg_i64(s->c, n))};
}

static bool next_rows(FewRows *r) {
  if (r->n == 1) return false;
  V first = r->n ? r->end : cg_i64(r->c, 0);
  r->n = r->n ? 1 : r->most;
  r->loop = cg_each_by(r->c, first, r->n == r->most ? r->end : r->m, cg_i64(r->c, r->n));
  return true;
}

// All rows meet some keys, which the first of them brings into L1.
static void scores_in_place(Forward *f, V i, V m, V k0, V n) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  V vl = cg_vl(c), begin = cg_i64(c, 0), keys = cg_i64(c, cg_round_up(TERMS, c->t->vl));
  if (f->squares) {
    V part = cg_div(c, cg_max(c, n, begin), vl);
    part = cg_select(c, cg_lt(c, part, vl), begin, part);
    scores_of_parts(f, i, m, k0, part);
    begin = cg_mul(c, part, vl);
  }
  for (Loop l = cg_each_by(c, begin, n, keys); cg_next(&l);)
    for (FewRows r = few_rows(s, m, c->t->vl); next_rows(&r);)
      for (; cg_next(&r.loop);) scores_of_rows(f, r.n, i, r.loop.i, k0, l.i, cg_min(c, n, cg_add(c, l.i, keys)), n);
}

// ---- values of few queries, as several streams: rows of each part in turn are added to sums in registers
enum { MOST_STREAMS = 8, MOST_VECTORS = 16 };
typedef struct {
  V scores, values, part;  // of the first part's first key; keys from one part to the next
  uint32_t streams;
} Parts;

// Adds to columns d .. of `rows` rows of the result, `n` vectors of each: the sum over keys lo .. hi of each part of score times value.
static void add_values_at(Forward *f, const Parts *p, uint32_t rows, V out, V lo, V hi, int64_t d, uint32_t n) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  int64_t vl = c->t->vl;
  V sum[MOST_VECTORS], mask[MOST_VECTORS];
  for (uint32_t i = 0; i < n; i++) {
    int64_t left = s->a.size - d - i * vl;
    mask[i] = left < vl ? cg_mask(c, cg_i64(c, left)) : NULL;
  }
  for (uint32_t i = 0; i < rows * n; i++) sum[i] = cg_zeros(c);
  for (Loop l = cg_carry(c, lo, hi, cg_i64(c, 1), sum, rows * n); cg_next(&l);)
    for (uint32_t j = 0; j < p->streams; j++) {
      V key = cg_index(c, cg_i64(c, j), p->part, l.i), row = cg_row(c, p->values, key, cg_i64(c, f->v.row));
      V score[FEW_QUERIES];
      for (uint32_t r = 0; r < rows; r++)
        score[r] = cg_splat(c, cg_get(c, c->f32, p->scores, cg_add(c, key, cg_i64(c, r * s->keys))));
      for (uint32_t i = 0; i < n; i++) {
        V value = cg_get_masked(c, c->vf, row, cg_i64(c, d + i * vl), mask[i]);
        for (uint32_t r = 0; r < rows; r++) sum[r * n + i] = cg_fma(c, value, score[r], sum[r * n + i]);
      }
    }
  for (uint32_t r = 0; r < rows; r++)
    for (uint32_t i = 0; i < n; i++) {
      V at = cg_i64(c, r * f->out.row + d + i * vl);
      cg_put_masked(c, cg_fadd(c, cg_get_masked(c, c->vf, out, at, mask[i]), sum[r * n + i]), out, at, mask[i]);
    }
}

static void add_parts(Forward *f, const Parts *p, V i, V m) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  int64_t vectors = cg_ceil_div(s->a.size, c->t->vl), most = cg_smaller(c->t->dot_accumulators, MOST_VECTORS);
  int64_t chunks = cg_ceil_div(vectors, most), each = cg_ceil_div(vectors, chunks);
  V step = cg_i64(c, TERMS / p->streams);
  for (Loop l = cg_count_by(c, p->part, step); cg_next(&l);)
    for (FewRows r = few_rows(s, m, most / each); next_rows(&r);)
      for (; cg_next(&r.loop);) {
        V row = r.loop.i, out = cg_attention_tile_row(s, f->out, cg_add(c, i, row));
        V hi = cg_min(c, p->part, cg_add(c, l.i, step));
        Parts of_row = *p;
        of_row.scores = cg_row(c, p->scores, row, cg_i64(c, s->keys));
        for (int64_t v = 0; v < vectors; v += each)
          add_values_at(f, &of_row, r.n, out, l.i, hi, v * c->t->vl, (uint32_t)cg_smaller(each, vectors - v));
      }
}

// Adds scores times values of the keys k0 .. k0 + n to rows i .. i + m. What is left of equal parts comes last.
static void add_values(Forward *f, V i, V m, V k0, V n) {
  Cg *c = f->s->c;
  uint32_t streams = f->squares ? (uint32_t)cg_smaller(c->t->memory_streams, MOST_STREAMS) : 1;
  V part = cg_div(c, cg_max(c, n, cg_i64(c, 0)), cg_i64(c, streams)), end = cg_mul(c, part, cg_i64(c, streams));
  Parts p = {f->scores, cg_attention_row(f->s, f->v, k0), part, streams};
  add_parts(f, &p, i, m);
  if (streams == 1) return;
  Parts left = {cg_at(c, c->f32, f->scores, end), cg_attention_row(f->s, f->v, cg_add(c, k0, end)), cg_sub(c, n, end),
                1};
  add_parts(f, &left, i, m);
}

// Rows i .. i + m of the chunk against the keys k0 .. k0 + n.
static void block(Forward *f, V i, V m, V k0, V n) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  V last = cg_attention_step(s, f->lo, cg_sub(c, cg_add(c, i, m), cg_i64(c, 1)));
  if (cg_attention_is_bounded(s)) n = cg_sub(c, cg_attention_key_end(s, last, cg_add(c, k0, n)), k0);
  if (reads_in_place(s)) scores_in_place(f, i, m, k0, n);
  else cg_attention_scores(s, f->q, i, m, f->keys_t, n, f->scores);
  update_block(f, i, m, k0, n);
  if (!f->stores_out) return;
  if (reads_in_place(s)) {
    add_values(f, i, m, k0, n);
    return;
  }
  AttnProduct add = {
      .a = f->scores, .b = f->values, .c = cg_attention_tile_row(s, f->out, i), .a_row = s->keys, .a_k = 1};
  add.b_k = s->width, add.b_panel = s->width * s->keys, add.c_row = f->out.row, add.m = m, add.k = n, add.mr = s->mr_q;
  add.exact = cg_attention_whole(s, true, s->mr_q), add.terms = ir_dim_bound(c->f->prog, s->a.tk);
  cg_attention_accumulate(s, &add, true);
}

static void end_row(Forward *f, V i) {
  Cg *c = f->s->c;
  V sum = cg_get(c, c->f32, f->sum, i), top = cg_get(c, c->f32, f->top, i);
  V none = cg_fcmp(c, LLVMRealOEQ, sum, cg_f32(c, 0));
  V inverse = cg_select(c, none, cg_f32(c, 0), cg_fdiv(c, cg_f32(c, 1), sum));
  if (f->stores_out) cg_attention_scale_row(f->s, cg_attention_tile_row(f->s, f->out, i), inverse);
  if (!f->lse.at) return;
  V log = cg_fadd(c, top, cg_primitive(c, OP_log, &sum));
  cg_store(c, cg_select(c, none, cg_f32(c, -INFINITY), log), cg_attention_number(f->s, f->lse, f->lo, i));
}

static void open_keys(Forward *f, V k0, V n) {
  AttnCode *s = f->s;
  AttnTile k = cg_attention_tile(s, f->k, k0, f->k_memory);
  cg_attention_read(s, f->k, k0, n, k);
  cg_attention_transpose(s, k, n, f->keys_t);
  cg_attention_copy_panels(s, f->v, k0, n, f->values);
}

// Queries lo .. hi.
static void unit(Forward *f, V hi) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  V lo = f->lo, n_rows = cg_mul(c, cg_sub(c, hi, lo), cg_i64(c, s->row_heads)), one = cg_i64(c, 1);
  V begin = cg_attention_key_begin(s, lo, cg_i64(c, 0));
  V end = cg_attention_key_end(s, cg_sub(c, hi, one), cg_attention_length(s, f->b));
  f->q = cg_attention_tile(s, f->q_rows, lo, f->q_memory);
  cg_attention_read(s, f->q_rows, lo, n_rows, f->q);
  if (f->stores_out) {
    f->out = cg_attention_tile(s, f->out_rows, lo, f->out_memory);
    cg_attention_clear(s, n_rows, f->out);
  }
  for (Loop l = cg_count(c, n_rows); cg_next(&l);) {
    cg_put(c, cg_f32(c, -INFINITY), f->top, l.i);
    cg_put(c, cg_f32(c, 0), f->sum, l.i);
  }
  for (Loop key = cg_each_by(c, begin, end, cg_i64(c, s->keys)); cg_next(&key);) {
    V n = cg_min(c, cg_i64(c, s->keys), cg_sub(c, end, key.i));
    if (!reads_in_place(s)) open_keys(f, key.i, n);
    V row = cg_attention_first_row(s, lo, cg_attention_query_begin(s, key.i, lo));
    V until = cg_attention_query_end(s, cg_sub(c, cg_add(c, key.i, n), one), hi);
    until = cg_attention_end_row(s, lo, until, n_rows);
    V rows = cg_i64(c, cg_attention_block_rows(s));
    for (Loop l = cg_each_by(c, row, until, rows); cg_next(&l);)
      block(f, l.i, cg_min(c, rows, cg_sub(c, until, l.i)), key.i, n);
  }
  for (Loop l = cg_count(c, n_rows); cg_next(&l);) end_row(f, l.i);
  if (f->stores_out) cg_attention_write(s, f->out_rows, lo, n_rows, f->out);
}

static void open_heads(Forward *f, V b, V kv) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  V base[N_ATTN_ROLES], h = cg_mul(c, kv, cg_i64(c, s->row_heads));
  for (uint32_t r = 0; r < N_ATTN_ROLES; r++) base[r] = cg_ptr_or_zero(c, ir_arg(c->f, s->v, s->a.place[r].operand));
  f->b = b, f->head = h;
  cg_attention_open_sequence(s, b);
  f->q_rows = cg_attention_rows(s, base[ATTN_Q], &s->a.place[ATTN_Q], true, b, h);
  f->k = cg_attention_rows(s, base[ATTN_K], &s->a.place[ATTN_K], false, b, kv);
  f->v = cg_attention_rows(s, base[ATTN_V], &s->a.place[ATTN_V], false, b, kv);
  f->bias = ir_none(s->a.bias) ? NULL : cg_ptr_or_zero(c, s->a.bias);
  f->out_rows = cg_attention_rows(s, cg_ptr_or_zero(c, s->v), &s->a.out, true, b, h);
  Val lse = ir_result(s->v, 1);
  f->lse = (AttnNumbers){0};
  if (cg_stored(c, lse)) f->lse = cg_attention_numbers(s, cg_ptr(c, lse), b, h);
}

const AttnStack cg_attention_forward_stack = {.block = 8192, .of_key = 2, .scores = 1, .of_row = 2};

void cg_attention_forward(AttnCode *s) {
  Cg *c = s->c;
  Forward f = {.s = s, .stores_out = cg_stored(c, s->v)};
  int64_t chunk = cg_attention_chunk(s, &cg_attention_forward_stack);
  if (!reads_in_place(s)) {
    f.keys_t = cg_attention_stack(s, s->size_up * s->keys);
    f.values = cg_attention_stack(s, s->size_pad * s->keys);
  } else if (reads_streams(s)) {
    s->keys = cg_smaller(STREAM_KEYS, cg_round_up(ir_dim_bound(c->f->prog, s->a.tk), s->width));
    f.squares = cg_attention_stack(s, FEW_QUERIES * s->keys);
  }
  f.scores = cg_attention_stack(s, (reads_in_place(s) ? FEW_QUERIES : ATTN_ROWS) * s->keys);
  f.top = cg_attention_stack(s, chunk), f.sum = cg_attention_stack(s, chunk);
  f.q_memory = cg_attention_tile_memory(s, &s->a.place[ATTN_Q], true, chunk);
  f.out_memory = cg_attention_tile_memory(s, &s->a.out, true, chunk);
  f.k_memory = f.values;  // values reuse the memory of the copied keys
  int64_t most = cg_larger(1, chunk / s->row_heads);
  AttnDeal d;
  for (cg_attention_deal(&d, s); cg_attention_next_sequence(&d);) {
    V n = cg_attention_queries(s, d.b), parts = cg_attention_parts(s, n, most), hi;
    for (cg_attention_deal_units(&d, parts, s->a.heads / s->row_heads); cg_attention_next_unit(&d);) {
      V part = d.part;
      if (s->a.causal) part = cg_sub(c, cg_sub(c, parts, cg_i64(c, 1)), part);  // those that see most first
      cg_attention_part(s, n, parts, most, part, &f.lo, &hi);
      open_heads(&f, d.b, d.head);
      unit(&f, hi);
    }
  }
}
