// Attention of few queries: keys and values are read in place. One unit is a head of keys whose rows lie apart or one after another; or
// several heads whose rows lie side by side, [step, head, size], as caches have them:
//
//   keys and values of a head          keys and values of heads a and b
//   k0 ->                              a0 b0 ->
//   k1 ->                              a1 b1 ->
#include "codegen/attention/few.h"

enum { FEW_QUERIES = 8, FEW_APART = 4, MAX_LANES = 64 };
// Terms of a sum over values before it is added to the result; so many keys all rows meet before the next ones.
enum { TERMS = 64 };

// In order of addresses memory comes twice as fast as by a vector of each key in turn (docs/experiments/152): so many of a key are
// read before those of the next. Of several streams a vector of each is read in turn.
enum { RUN = 16 };

static int64_t most_rows(const AttnCode *s) { return ir_dim_bound(s->c->f->prog, s->a.tq) * s->a.group; }

// Are rows of a head of keys and values neighbours?
static bool lie_together(const AttnCode *s) {
  return s->a.place[ATTN_K].row == s->a.size && s->a.place[ATTN_V].row == s->a.size;
}

// Several queries of heads whose rows lie apart meet the keys one after the other: as few as the group of one.
bool cg_attention_is_few(const AttnCode *s) {
  bool is_one = ir_dim_bound(s->c->f->prog, s->a.tq) == 1;
  return !ir_attention_is_packed(&s->a) && most_rows(s) <= (is_one || lie_together(s) ? FEW_QUERIES : FEW_APART);
}

// Where rows of a head lie one after another, they are one stream of memory. Targets with `memory_streams` read several parts
// of a block at once instead (docs/experiments/114). The parts should be pages: a block has more keys.
enum { STREAM_KEYS = 512 };
static bool reads_streams(const AttnCode *s) { return s->c->t->memory_streams > 1 && lie_together(s); }

// Rows of queries, results and sums of a unit: together they stay in L2.
static int64_t fitting_rows(const AttnCode *s) { return ir_f32_in(s->c->t->stack_bytes) / 8 / s->size_pad; }

// Heads that one vector has lanes for, the last one maybe fewer; 0: one at a time
static int64_t heads_of_vector(const AttnCode *s) {
  enum { MOST_VECTORS = 256 };  // of rows: their code is not a loop
  int64_t all = s->a.heads / s->a.group, vl = s->c->t->vl, vectors = cg_smaller(RUN, cg_ceil_div(s->a.size, vl));
  int64_t rows = cg_smaller(cg_smaller(vl, MOST_VECTORS / vectors), fitting_rows(s));
  int64_t most = cg_smaller(all, rows / s->a.group);
  return most > 1 ? cg_ceil_div(all, cg_ceil_div(all, most)) : 0;
}

// Vectors of the heads of a step
static int64_t n_vectors(const AttnFew *f) { return cg_ceil_div(f->s->a.heads / f->s->a.group, f->dots); }

// Have all vectors as many?
static bool is_whole(const AttnFew *f) { return f->s->a.heads / f->s->a.group % f->dots == 0; }

void cg_attention_few_choose(AttnFew *f, AttnCode *s) {
  enum { MOST_ROWS = 128 };
  int64_t size = s->a.size;
  *f = (AttnFew){.s = s};
  if (!cg_attention_is_few(s) || s->a.place[ATTN_K].head != size || s->a.place[ATTN_V].head != size) return;
  f->dots = heads_of_vector(s);
  if (!f->dots) return;
  int64_t rows = f->dots * s->a.group;
  f->most = cg_smaller(n_vectors(f), cg_smaller(MOST_ROWS, fitting_rows(s)) / rows);
  s->row_heads = f->most * rows, s->mr_q = 1;
}

void cg_attention_few_open(AttnFew *f) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  int64_t rows = FEW_QUERIES, tk = ir_dim_bound(c->f->prog, s->a.tk);
  if (f->dots) {
    rows = s->row_heads + c->t->vl;  // whole vectors are stored
    f->squares = cg_attention_stack(s, f->most * s->keys * c->t->vl);
    f->sums = cg_attention_stack(s, s->row_heads * s->size_up);
    // Where there are fewer sequences than workers, units are parts of a step's heads.
    V all = cg_mul(c, s->batch, cg_i64(c, n_vectors(f)));
    V even = cg_div(c, cg_sub(c, cg_add(c, all, c->n_workers), cg_i64(c, 1)), c->n_workers);
    f->size = cg_min(c, cg_i64(c, f->most), cg_max(c, even, cg_i64(c, 1)));
  } else if (reads_streams(s)) {
    s->keys = cg_smaller(STREAM_KEYS, cg_round_up(tk, s->width));
    f->squares = cg_attention_stack(s, rows * s->keys);
  }
  f->scores = cg_attention_stack(s, rows * s->keys);
}

V cg_attention_few_units(AttnFew *f) {
  Cg *c = f->s->c;
  return cg_div(c, cg_sub(c, cg_add(c, cg_i64(c, n_vectors(f)), f->size), cg_i64(c, 1)), f->size);
}

V cg_attention_few_unit(AttnFew *f, V unit) {
  Cg *c = f->s->c;
  V first = cg_mul(c, unit, f->size);
  f->n = cg_min(c, f->size, cg_sub(c, cg_i64(c, n_vectors(f)), first));
  V head = cg_mul(c, first, cg_i64(c, f->dots)), all = cg_i64(c, f->s->a.heads / f->s->a.group);
  V heads = cg_mul(c, f->n, cg_i64(c, f->dots));
  f->step_heads = is_whole(f) ? heads : cg_min(c, cg_sub(c, all, head), heads);
  f->s->step_rows = cg_mul(c, f->step_heads, cg_i64(c, f->s->a.group));
  return head;
}

// ---- scores: dot products of rows, as many at a time as a vector has lanes, all of which are added in one go
typedef struct {
  uint32_t rows, keys, run;  // rows x keys <= vl; vectors of a key that are read before those of the next
  uint32_t row_lane, key_lane;
  bool in_order;
  V query[MAX_LANES], key[MAX_LANES];  // query: by lane
} Dots;

static uint32_t lane_of(const Dots *t, uint32_t row, uint32_t key) { return row * t->row_lane + key * t->key_lane; }

// Loads of what comes later stay behind x.
static V in_order(Cg *c, V x) {
  if (c->t->vector_register) cg_keep_order(c, &x, 1);
  return x;
}

static void add_products(AttnFew *f, const Dots *t, V d, uint32_t run, V mask, V *sum) {
  Cg *c = f->s->c;
  for (uint32_t k = 0; k < t->keys; k++) {
    for (uint32_t i = 0; i < run; i++) {
      V at = cg_add(c, d, cg_i64(c, i * c->t->vl)), key = cg_get_masked(c, c->vf, t->key[k], at, mask);
      for (uint32_t r = 0; r < t->rows; r++) {
        uint32_t lane = lane_of(t, r, k);
        sum[lane] = cg_fma(c, key, cg_get_masked(c, c->vf, t->query[lane], at, mask), sum[lane]);
      }
    }
    if (run > 1 && t->in_order) sum[lane_of(t, 0, k)] = in_order(c, sum[lane_of(t, 0, k)]);
  }
}

static V dots(AttnFew *f, Dots *t) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  V sum[MAX_LANES];
  uint32_t vl = c->t->vl;
  t->in_order = f->dots || s->a.size / vl * t->rows * t->keys > 64;
  int64_t whole = s->a.size / vl * vl, runs = whole / (t->run * vl) * (t->run * vl);
  for (uint32_t k = 0; k < vl; k++) sum[k] = cg_zeros(c);
  for (Loop d = cg_carry(c, cg_i64(c, 0), cg_i64(c, runs), cg_i64(c, t->run * vl), sum, vl); cg_next(&d);)
    add_products(f, t, d.i, t->run, NULL, sum);
  if (runs < whole) add_products(f, t, cg_i64(c, runs), (uint32_t)((whole - runs) / vl), NULL, sum);
  V left = cg_i64(c, s->a.size - whole);
  if (whole < s->a.size) add_products(f, t, cg_i64(c, whole), 1, cg_mask(c, left), sum);
  return cg_sum_each(c, sum);
}

static V square_at(AttnFew *f, V row, V key) {
  Cg *c = f->s->c;
  return cg_at(c, c->f32, f->squares, cg_index(c, row, cg_i64(c, f->s->keys), cg_mul(c, key, cg_vl(c))));
}

// Scores of the m rows from i on against vl parts of `part` keys each, one after another from k0 on: lane j of a vector is of part j,
//
//   squares[key][j] = row . K[k0 + j part + key]        scores[j part + key] = squares[key][j]
//
// The last square of a part overlaps the one before.
static void scores_of_parts(AttnFew *f, V i, V m, V k0, V part) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  Dots t = {.rows = 1, .keys = c->t->vl, .run = 1, .key_lane = 1};
  V vl = cg_vl(c);
  for (Loop l = cg_count(c, part); cg_next(&l);) {
    V first = cg_attention_row(s, f->k, cg_add(c, k0, l.i)), apart = cg_mul(c, part, cg_i64(c, f->k.row));
    for (uint32_t k = 0; k < t.keys; k++) t.key[k] = cg_row(c, first, cg_i64(c, k), apart);
    for (Loop row = cg_count(c, m); cg_next(&row);) {
      for (uint32_t k = 0; k < t.keys; k++) t.query[k] = cg_attention_tile_row(s, f->q, cg_add(c, i, row.i));
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
static void scores_of_rows(AttnFew *f, uint32_t rows, V i, V row, V k0, V lo, V hi, V n) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  Dots t = {.rows = rows, .keys = c->t->vl / rows, .run = RUN, .row_lane = c->t->vl / rows, .key_lane = 1};
  V last = cg_sub(c, n, cg_i64(c, 1)), keys = cg_i64(c, t.keys);
  for (uint32_t r = 0; r < rows; r++)
    for (uint32_t k = 0; k < t.keys; k++)
      t.query[lane_of(&t, r, k)] = cg_attention_tile_row(s, f->q, cg_add(c, i, cg_add(c, row, cg_i64(c, r))));
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

// Loops over rows of the m of a block: by 4, or as many as can be processed at once, then by half as many, down to one.
//
//   for (FewRows r = few_rows(s, m, most); next_rows(&r);) for (; cg_next(&r.loop);) ..  r.n rows from row r.loop.i on
typedef struct {
  Cg *c;
  V m, end;    // end: of the loops so far
  uint32_t n;  // before the first loop: twice as many
  Loop loop;
} FewRows;

static FewRows few_rows(const AttnCode *s, V m, int64_t most) {
  int64_t rows = cg_smaller(most_rows(s), most);
  return (FewRows){.c = s->c, .m = m, .n = rows >= 4 ? 8 : rows >= 2 ? 4 : 2, .end = cg_i64(s->c, 0)};
}

static bool next_rows(FewRows *r) {
  if (r->n == 1) return false;
  V first = r->end;
  r->n /= 2;
  r->end = r->n == 1 ? r->m : cg_multiple(r->c, r->m, cg_i64(r->c, r->n));
  r->loop = cg_each_by(r->c, first, r->end, cg_i64(r->c, r->n));
  return true;
}

// Lanes are heads. The rows of heads that share keys are neighbours. A vector is as wide as the rows of several more heads: these overwrite
// what it has in excess.
static void scores_of_heads(AttnFew *f, V i, V k0, V n) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  uint32_t group = (uint32_t)s->a.group, rows = group * (uint32_t)f->dots;
  Dots t = {.rows = group, .keys = (uint32_t)f->dots, .run = RUN, .row_lane = 1, .key_lane = group};
  V keys = cg_i64(c, s->keys), vl = cg_vl(c), one = cg_i64(c, 1);
  bool whole = is_whole(f);  // else the last head is read in place of missing ones
  for (Loop l = cg_count(c, n); cg_next(&l);)
    for (Loop h = cg_count(c, f->n); cg_next(&h);) {
      V head = cg_mul(c, h.i, cg_i64(c, f->dots)), left = cg_sub(c, cg_sub(c, f->step_heads, head), one);
      V row = cg_row(c, cg_attention_row(s, f->k, cg_add(c, k0, l.i)), head, cg_i64(c, s->a.size));
      V query = cg_add(c, i, cg_mul(c, h.i, cg_i64(c, rows)));
      for (uint32_t k = 0; k < t.keys; k++) {
        V at = whole ? cg_i64(c, k) : cg_min(c, left, cg_i64(c, k)), of = cg_mul(c, at, cg_i64(c, group));
        t.key[k] = cg_row(c, row, at, cg_i64(c, s->a.size));
        for (uint32_t r = 0; r < group; r++)
          t.query[k * group + r] = cg_attention_tile_row(s, f->q, cg_add(c, query, cg_add(c, of, cg_i64(c, r))));
      }
      cg_store(c, dots(f, &t), cg_row(c, f->squares, cg_index(c, h.i, keys, l.i), vl));
    }
  for (Loop h = cg_count(c, f->n); cg_next(&h);)
    for (Loop l = cg_count_by(c, n, vl); cg_next(&l);) {
      V from = cg_row(c, f->squares, cg_index(c, h.i, keys, l.i), vl);
      V to = cg_cell(c, f->scores, cg_mul(c, h.i, cg_i64(c, rows)), keys, l.i);
      cg_transpose_block(c, from, vl, cg_sub(c, n, l.i), vl, to, keys);
    }
}

// All rows meet some keys, which the first of them brings into L1.
void cg_attention_few_scores(AttnFew *f, V i, V m, V k0, V n) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  V vl = cg_vl(c), begin = cg_i64(c, 0), keys = cg_i64(c, cg_round_up(TERMS, c->t->vl));
  if (f->dots) {
    scores_of_heads(f, i, k0, n);
    return;
  }
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
static void add_values_at(AttnFew *f, const Parts *p, uint32_t rows, V out, V lo, V hi, int64_t d, uint32_t n) {
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

static void add_parts(AttnFew *f, const Parts *p, V i, V m) {
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

// ---- values of several heads: row by row to sums in L1
enum { KEYS_AT_ONCE = 4 };
// Adds n heads of rows of values, from row `value` on, times the scores of the keys from `key` on, to the sums of its rows, the first of
// which is `first`.
static void add_values_of_head(AttnFew *f, V value, V first, V key, uint32_t n) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  int64_t vl = c->t->vl, group = s->a.group;
  V score[FEW_QUERIES * KEYS_AT_ONCE], sums = cg_row(c, f->sums, first, cg_i64(c, s->size_up));
  for (int64_t r = 0; r < group; r++)
    for (uint32_t k = 0; k < n; k++) {
      V row = cg_add(c, first, cg_i64(c, r)), at = cg_add(c, key, cg_i64(c, k));
      score[r * n + k] = cg_splat(c, cg_load(c, c->f32, cg_cell(c, f->scores, row, cg_i64(c, s->keys), at)));
    }
  for (int64_t d = 0; d < s->a.size; d += vl) {
    V mask = s->a.size - d < vl ? cg_mask(c, cg_i64(c, s->a.size - d)) : NULL, x[KEYS_AT_ONCE];
    for (uint32_t k = 0; k < n; k++) x[k] = cg_get_masked(c, c->vf, value, cg_i64(c, k * f->v.row + d), mask);
    for (int64_t r = 0; r < group; r++) {
      V at = cg_at(c, c->f32, sums, cg_i64(c, r * s->size_up + d)), sum = cg_load(c, c->vf, at);
      for (uint32_t k = 0; k < n; k++) sum = cg_fma(c, x[k], score[r * n + k], sum);
      cg_store(c, in_order(c, sum), at);
    }
  }
}

static void values_of_keys(AttnFew *f, V k0, V key, uint32_t n) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  for (Loop h = cg_count(c, f->step_heads); cg_next(&h);) {
    V row = cg_row(c, cg_attention_row(s, f->v, cg_add(c, k0, key)), h.i, cg_i64(c, s->a.size));
    add_values_of_head(f, row, cg_mul(c, h.i, cg_i64(c, s->a.group)), key, n);
  }
}

static void values_of_heads(AttnFew *f, V i, V k0, V n) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  int64_t vl = c->t->vl;
  uint32_t at_once = s->a.group > 1 ? KEYS_AT_ONCE : 1;
  V size_up = cg_i64(c, s->size_up);
  for (Loop l = cg_count_by(c, n, cg_i64(c, TERMS)); cg_next(&l);) {
    for (Loop z = cg_count_by(c, cg_mul(c, s->step_rows, size_up), cg_vl(c)); cg_next(&z);)
      cg_put(c, cg_zeros(c), f->sums, z.i);
    V until = cg_min(c, n, cg_add(c, l.i, cg_i64(c, TERMS)));
    V whole = cg_add(c, l.i, cg_multiple(c, cg_sub(c, until, l.i), cg_i64(c, at_once)));
    for (Loop k = cg_each_by(c, l.i, whole, cg_i64(c, at_once)); cg_next(&k);) values_of_keys(f, k0, k.i, at_once);
    if (at_once > 1)
      for (Loop k = cg_each(c, whole, until); cg_next(&k);) values_of_keys(f, k0, k.i, 1);
    for (Loop r = cg_count(c, s->step_rows); cg_next(&r);) {
      V out = cg_attention_tile_row(s, f->out, cg_add(c, i, r.i)), sums = cg_row(c, f->sums, r.i, size_up);
      for (int64_t d = 0; d < s->a.size; d += vl) {
        V at = cg_i64(c, d), mask = s->a.size - d < vl ? cg_mask(c, cg_i64(c, s->a.size - d)) : NULL;
        cg_put_masked(c, cg_fadd(c, cg_get_masked(c, c->vf, out, at, mask), cg_get(c, c->vf, sums, at)), out, at, mask);
      }
    }
  }
}

// Adds scores times values of the keys k0 .. k0 + n to rows i .. i + m. What is left of equal parts comes last.
void cg_attention_few_values(AttnFew *f, V i, V m, V k0, V n) {
  Cg *c = f->s->c;
  if (f->dots) {
    values_of_heads(f, i, k0, n);
    return;
  }
  uint32_t streams = f->squares ? (uint32_t)cg_smaller(c->t->memory_streams, MOST_STREAMS) : 1;
  V part = cg_div(c, cg_max(c, n, cg_i64(c, 0)), cg_i64(c, streams)), end = cg_mul(c, part, cg_i64(c, streams));
  Parts p = {f->scores, cg_attention_row(f->s, f->v, k0), part, streams};
  add_parts(f, &p, i, m);
  if (streams == 1) return;
  Parts left = {cg_at(c, c->f32, f->scores, end), cg_attention_row(f->s, f->v, cg_add(c, k0, end)), cg_sub(c, n, end),
                1};
  add_parts(f, &left, i, m);
}
