// Forward attention: softmax over keys that come block by block. For each query the largest score so far and the sum
// of exponentials below it are kept; a block with a larger score scales what was summed before:
//
//   m' = max(m, max s)    l' = l e^(m - m') + sum e^(s - m')    out' = out e^(m - m') + e^(s - m') V
//
// A unit is a chunk of queries of one head, or of the heads that share its keys, or of heads whose keys are read together. Blocks of keys come in order, all blocks of queries meet each of them.
#include "codegen/attention/few.h"
#include "codegen/math/primitives.h"

#include <math.h>

typedef struct {
  AttnCode *s;
  AttnFew few;               // with few queries
  V keys_t, values, scores;  // on the stack: of a block of keys, transposed and as it is; [ATTN_ROWS][keys]
  V top, sum;                // by row of the chunk
  V q_memory, out_memory;    // of the chunk; NULL: rows lie as tiles
  V k_memory;                // of a block of keys
  V b, head, lo;             // head: the first; lo: the chunk's first query
  AttnRows q_rows, k, v, out_rows;
  AttnTile q, out;
  V bias;
  bool stores_out;  // else only the rows' sums are stored
  AttnNumbers lse;  // of this head; at NULL: not stored
} Forward;

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

// Rows i .. i + m of the chunk against the keys k0 .. k0 + n.
static void block(Forward *f, V i, V m, V k0, V n) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  V last = cg_attention_step(s, f->lo, cg_sub(c, cg_add(c, i, m), cg_i64(c, 1)));
  if (cg_attention_is_bounded(s)) n = cg_sub(c, cg_attention_key_end(s, last, cg_add(c, k0, n)), k0);
  bool is_few = cg_attention_is_few(s);
  if (is_few) cg_attention_few_scores(&f->few, i, m, k0, n);
  else cg_attention_scores(s, f->q, i, m, f->keys_t, n, f->scores);
  update_block(f, i, m, k0, n);
  if (!f->stores_out) return;
  if (is_few) {
    cg_attention_few_values(&f->few, i, m, k0, n);
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
  V lo = f->lo, n_rows = cg_mul(c, cg_sub(c, hi, lo), s->step_rows), one = cg_i64(c, 1);
  V begin = cg_attention_key_begin(s, lo, cg_i64(c, 0));
  V end = cg_attention_key_end(s, cg_sub(c, hi, one), cg_attention_length(s, f->b));
  f->q = cg_attention_tile(s, f->q_rows, lo, f->q_memory);
  cg_attention_read(s, f->q_rows, lo, n_rows, f->q);
  if (f->stores_out) {
    f->out = cg_attention_tile(s, f->out_rows, lo, f->out_memory);
    cg_attention_clear(s, n_rows, f->out);
  }
  f->few.k = f->k, f->few.v = f->v, f->few.q = f->q, f->few.out = f->out;
  for (Loop l = cg_count(c, n_rows); cg_next(&l);) {
    cg_put(c, cg_f32(c, -INFINITY), f->top, l.i);
    cg_put(c, cg_f32(c, 0), f->sum, l.i);
  }
  for (Loop key = cg_each_by(c, begin, end, cg_i64(c, s->keys)); cg_next(&key);) {
    V n = cg_min(c, cg_i64(c, s->keys), cg_sub(c, end, key.i));
    if (!cg_attention_is_few(s)) open_keys(f, key.i, n);
    V row = cg_attention_first_row(s, lo, cg_attention_query_begin(s, key.i, lo));
    V until = cg_attention_query_end(s, cg_sub(c, cg_add(c, key.i, n), one), hi);
    until = cg_attention_end_row(s, lo, until, n_rows);
    V rows = f->few.dots ? s->step_rows : cg_i64(c, cg_attention_block_rows(s));
    for (Loop l = cg_each_by(c, row, until, rows); cg_next(&l);)
      block(f, l.i, cg_min(c, rows, cg_sub(c, until, l.i)), key.i, n);
  }
  for (Loop l = cg_count(c, n_rows); cg_next(&l);) end_row(f, l.i);
  if (f->stores_out) cg_attention_write(s, f->out_rows, lo, n_rows, f->out);
}

static void open_heads(Forward *f, V b, V unit) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  V kv = f->few.dots ? cg_attention_few_unit(&f->few, unit) : unit;
  V base[N_ATTN_ROLES], h = cg_mul(c, kv, cg_i64(c, s->a.group));
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
  cg_attention_few_choose(&f.few, s);
  int64_t chunk = cg_attention_chunk(s, &cg_attention_forward_stack);
  if (cg_attention_is_few(s)) {
    cg_attention_few_open(&f.few);
    f.scores = f.few.scores;
  } else {
    f.keys_t = cg_attention_stack(s, s->size_up * s->keys);
    f.values = cg_attention_stack(s, s->size_pad * s->keys);
    f.scores = cg_attention_stack(s, ATTN_ROWS * s->keys);
  }
  f.top = cg_attention_stack(s, chunk), f.sum = cg_attention_stack(s, chunk);
  f.q_memory = cg_attention_tile_memory(s, &s->a.place[ATTN_Q], true, chunk);
  f.out_memory = cg_attention_tile_memory(s, &s->a.out, true, chunk);
  f.k_memory = f.values;  // values reuse the memory of the copied keys
  int64_t most = cg_larger(1, chunk / s->row_heads);
  AttnDeal d;
  for (cg_attention_deal(&d, s); cg_attention_next_sequence(&d);) {
    V n = cg_attention_queries(s, d.b), parts = cg_attention_parts(s, n, most), hi;
    V heads = f.few.dots ? cg_attention_few_units(&f.few) : cg_i64(c, s->a.heads / s->a.group);
    for (cg_attention_deal_units(&d, parts, heads); cg_attention_next_unit(&d);) {
      V part = d.part;
      if (s->a.causal) part = cg_sub(c, cg_sub(c, parts, cg_i64(c, 1)), part);  // those that see most first
      cg_attention_part(s, n, parts, most, part, &f.lo, &hi);
      open_heads(&f, d.b, d.head);
      unit(&f, hi);
    }
  }
}
