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
  V keys_t, values, scores;  // on the stack: [size_up][keys], [keys][size_pad], [ATTN_BLOCK][keys]
  V top, sum;                // by query of the chunk
  V q_tile, out_tile;        // packed rows: [ATTN_CHUNK][size_pad]
  V b, h;
  AttnRows q, k, v, out;
  V bias;
  bool stores_out;  // else only the rows' sums are wanted
  AttnNumbers lse;  // of this head; at NULL: not stored
} Forward;

static V larger(Cg *c, V a, V b) { return cg_select(c, cg_fcmp(c, LLVMRealOGT, a, b), a, b); }

// The largest of a row of scores, up to column n. With a bias the row becomes scaled and biased scores.
static V row_top(Forward *f, V row, V n, AttnSeen seen, AttnBias bias) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  V least = cg_splat(c, cg_f32(c, -INFINITY)), scale = cg_splat(c, cg_f32(c, f->s->a.scale));
  V top = least;
  for (Loop l = cg_carry(c, cg_i64(c, 0), n, cg_vl(c), &top, 1); cg_next(&l);) {
    V at = cg_at(c, c->f32, row, l.i), x = cg_load(c, c->vf, at), mask = cg_attention_seen_mask(s, seen, l.i);
    x = bias.at ? cg_fma(c, x, scale, cg_attention_bias_vector(s, bias, l.i, mask)) : cg_fmul(c, x, scale);
    if (bias.at) cg_store(c, x, at);
    top = larger(c, cg_select(c, mask, x, least), top);
  }
  return cg_reduce_max(c, top);
}

// Replaces visible scores by e^(score - top), others by 0; returns their sum. element: number of the row in
// the random stream.
static V row_exp(Forward *f, V row, V n, AttnSeen seen, V top, V element) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  V zero = cg_zeros(c), scale = cg_splat(c, cg_f32(c, f->bias ? 1 : s->a.scale));
  V minus = cg_splat(c, cg_fneg(c, top));
  V sum = zero;
  for (Loop l = cg_carry(c, cg_i64(c, 0), n, cg_vl(c), &sum, 1); cg_next(&l);) {
    V at = cg_at(c, c->f32, row, l.i), x = cg_fma(c, cg_load(c, c->vf, at), scale, minus);
    V e = cg_select(c, cg_attention_seen_mask(s, seen, l.i), cg_primitive(c, OP_exp, &x), zero);
    sum = cg_fadd(c, sum, e);
    cg_store(c, s->id ? cg_fmul(c, e, cg_attention_dropout_scale(s, element, l.i)) : e, at);
  }
  return cg_reduce_add(c, sum);
}

// One query t (the chunk's i-th) against the keys k0 .. k0 + n.
static void update_row(Forward *f, V row, V i, V t, V k0, V n) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  V top_at = cg_at(c, c->f32, f->top, i), sum_at = cg_at(c, c->f32, f->sum, i);
  V before = cg_load(c, c->f32, top_at), none = cg_f32(c, -INFINITY);
  AttnSeen seen = cg_attention_seen(s, t, k0, n);
  V top = larger(c, row_top(f, row, n, seen, cg_attention_bias(s, f->bias, f->b, f->h, t, k0)), before);
  // A query that has seen no key: everything below is zero, not e^(inf - inf).
  V base = cg_select(c, cg_fcmp(c, LLVMRealOEQ, top, none), cg_f32(c, 0), top);
  V element = s->id ? cg_add(c, cg_attention_element(s, f->b, f->h, t), k0) : NULL;
  V sum = row_exp(f, row, n, seen, base, element);
  V less = cg_fsub(c, before, base), shrink = cg_primitive(c, OP_exp, &less);
  cg_store(c, cg_fma(c, cg_load(c, c->f32, sum_at), shrink, sum), sum_at);
  cg_store(c, top, top_at);
  if (!f->stores_out) return;
  V grew = cg_fcmp(c, LLVMRealOLT, before, base);
  V had = cg_fcmp(c, LLVMRealOGT, before, none);
  for (If s_if = cg_when(c, cg_and(c, grew, had)); cg_then(&s_if);)
    cg_attention_scale_row(s, cg_attention_row(s, f->out, t), shrink);
}

// Queries q0 .. q0 + m against the packed keys k0 .. k0 + n.
static void block(Forward *f, V chunk, V q0, V m, V k0, V n) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  V last = cg_sub(c, cg_add(c, q0, m), cg_i64(c, 1));
  if (cg_attention_is_bounded(s)) n = cg_sub(c, cg_attention_key_end(s, last, cg_add(c, k0, n)), k0);
  AttnProduct scores = {
      .a = cg_attention_row(s, f->q, q0), .b = f->keys_t, .c = f->scores, .a_row = f->q.row, .a_k = 1};
  scores.b_k = scores.c_row = s->keys, scores.m = m, scores.k = cg_i64(c, s->a.size), scores.mr = s->mr_q;
  scores.exact = cg_attention_whole(s, s->a.tq, s->mr_q);
  cg_attention_scores(s, &scores, n);
  for (Loop l = cg_count(c, m); cg_next(&l);) {
    V t = cg_add(c, q0, l.i), row = cg_row(c, f->scores, l.i, cg_i64(c, s->keys));
    update_row(f, row, cg_sub(c, t, chunk), t, k0, n);
  }
  if (!f->stores_out) return;
  AttnProduct add = {.a = f->scores, .b = f->values, .c = cg_attention_row(s, f->out, q0), .a_row = s->keys, .a_k = 1};
  add.b_k = s->size_pad, add.c_row = f->out.row, add.m = m, add.k = n, add.mr = s->mr_q, add.exact = scores.exact;
  add.terms = ir_dim_bound(c->f->prog, s->a.tk);
  cg_attention_accumulate(s, &add, true);
}

static void begin_row(Forward *f, V i, V t) {
  Cg *c = f->s->c;
  cg_put(c, cg_f32(c, -INFINITY), f->top, i);
  cg_put(c, cg_f32(c, 0), f->sum, i);
  if (f->stores_out) cg_attention_scale_row(f->s, cg_attention_row(f->s, f->out, t), NULL);
}

static void end_row(Forward *f, V i, V t) {
  Cg *c = f->s->c;
  V sum = cg_get(c, c->f32, f->sum, i), top = cg_get(c, c->f32, f->top, i);
  V none = cg_fcmp(c, LLVMRealOEQ, sum, cg_f32(c, 0));
  V inverse = cg_select(c, none, cg_f32(c, 0), cg_fdiv(c, cg_f32(c, 1), sum));
  if (f->stores_out) cg_attention_scale_row(f->s, cg_attention_row(f->s, f->out, t), inverse);
  if (!f->lse.at) return;
  V log = cg_fadd(c, top, cg_primitive(c, OP_log, &sum));
  cg_store(c, cg_select(c, none, cg_f32(c, -INFINITY), log), cg_attention_number(f->s, f->lse, t));
}

static void each_row(Forward *f, V q0, V q1, void (*row)(Forward *f, V i, V t)) {
  Cg *c = f->s->c;
  for (Loop l = cg_each(c, q0, q1); cg_next(&l);) row(f, cg_sub(c, l.i, q0), l.i);
}

static void unit(Forward *f, V q0, V q1) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  V last = cg_sub(c, q1, cg_i64(c, 1)), begin = cg_attention_key_begin(s, q0, cg_i64(c, 0));
  V end = cg_attention_key_end(s, last, cg_attention_length(s, f->b)), n_queries = cg_sub(c, q1, q0);
  AttnRows out = f->out;
  f->q = cg_attention_window(s, f->q, q0, n_queries, f->q_tile, true);
  if (f->stores_out) f->out = cg_attention_window(s, out, q0, n_queries, f->out_tile, false);
  each_row(f, q0, q1, begin_row);
  for (Loop key = cg_each_by(c, begin, end, cg_i64(c, s->keys)); cg_next(&key);) {
    V n = cg_min(c, cg_i64(c, s->keys), cg_sub(c, end, key.i));
    cg_attention_transpose(s, cg_attention_window(s, f->k, key.i, n, f->values, true), key.i, n, f->keys_t);
    cg_attention_copy(s, f->v, key.i, n, f->values);
    V first = cg_attention_query_begin(s, key.i, q0);
    V until = cg_attention_query_end(s, cg_sub(c, cg_add(c, key.i, n), cg_i64(c, 1)), q1);
    for (Loop query = cg_each_by(c, first, until, cg_i64(c, ATTN_BLOCK)); cg_next(&query);) {
      V m = cg_min(c, cg_i64(c, ATTN_BLOCK), cg_sub(c, until, query.i));
      block(f, q0, query.i, m, key.i, n);
    }
  }
  each_row(f, q0, q1, end_row);
  if (f->stores_out) cg_attention_window_end(s, out, f->out, q0, n_queries);
}

static void open_head(Forward *f, V b, V h) {
  AttnCode *s = f->s;
  Cg *c = s->c;
  V base[N_ATTN_ROLES];
  for (uint32_t r = 0; r < N_ATTN_ROLES; r++) base[r] = cg_ptr_or_zero(c, ir_arg(c->f, s->v, s->a.place[r].operand));
  f->b = b, f->h = h;
  f->q = cg_attention_rows(s, base[ATTN_Q], &s->a.place[ATTN_Q], true, b, h);
  V kv = cg_attention_kv_head(s, h);
  f->k = cg_attention_rows(s, base[ATTN_K], &s->a.place[ATTN_K], false, b, kv);
  f->v = cg_attention_rows(s, base[ATTN_V], &s->a.place[ATTN_V], false, b, kv);
  f->bias = ir_none(s->a.bias) ? NULL : cg_ptr_or_zero(c, s->a.bias);
  f->out = cg_attention_rows(s, cg_ptr_or_zero(c, s->v), &s->a.out, true, b, h);
  Val lse = ir_result(s->v, 1);
  f->lse = (AttnNumbers){0};
  if (cg_stored(c, lse)) f->lse = cg_attention_numbers(s, cg_ptr(c, lse), b, h);
}

void cg_attention_forward(AttnCode *s) {
  Cg *c = s->c;
  Forward f = {.s = s, .stores_out = cg_stored(c, s->v)};
  f.keys_t = cg_attention_stack(s, s->size_up * s->keys);
  f.values = cg_attention_stack(s, s->size_pad * s->keys);
  f.scores = cg_attention_stack(s, ATTN_BLOCK * s->keys);
  f.top = cg_attention_stack(s, ATTN_CHUNK), f.sum = cg_attention_stack(s, ATTN_CHUNK);
  f.q_tile = cg_attention_tile(s, ATTN_CHUNK), f.out_tile = cg_attention_tile(s, ATTN_CHUNK);
  for (AttnUnits u = cg_attention_units(s, ATTN_Q, s->a.heads, ATTN_CHUNK); cg_next_unit(&u);) {
    open_head(&f, u.b, u.head);
    unit(&f, u.lo, u.hi);
  }
}
