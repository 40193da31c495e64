// Backward attention. Probabilities are recomputed from the scores and the rows' ln sum e^score:
//
//   P = e^(S - lse)    dV = P^T G    dP = G V^T    dS = P (dP - delta) scale    dQ = dS K    dK = dS^T Q
//
// where delta is the dot product of a row of the result with its gradient. A unit is a chunk of keys and a chunk of queries
// of the heads that share them. Long sequences have several of both, which meet in rounds, with a barrier between them:
//
//   round 0: (0, 0) (1, 1) (2, 2)    round 1: (0, 1) (1, 2) (2, 0)    round 2: (0, 2) (1, 0) (2, 1)    (keys, queries)
//
// In a round no other unit has the same keys or queries, so that a unit adds to their gradients in place, and the worker that
// computes it does not change a sum: dQ adds up over chunks of keys in the order of rounds, dK and dV over chunks of queries. In round 0
// nothing has been added yet, and rows that take part in no unit get zeros.
// The gradient of a bias is dS / scale, in a kernel of its own, whose units are the elements that it is not broadcast
// to: each walks over all heads that share them.
#include "codegen/attention/attention.h"
#include "codegen/math/primitives.h"
#include "codegen/span.h"

#include <math.h>

typedef struct {
  AttnCode *s;
  V keys_t, values_t;        // on the stack: of a block of keys, transposed
  V p, ds;                   // on the stack: [ATTN_MOST_ROWS][keys]
  V delta, lse;              // by row of the chunk
  V q_memory, g_memory;      // of the chunk; NULL: rows lie as tiles
  V k_memory, v_memory;      // of a block of keys
  V d_memory[N_ATTN_ROLES];  // of the chunk, of a block of keys
  bool makes_bias;
  V bias, d_bias;
  V b, head, lo;  // head: the first; lo: the chunk's first query
  V is_first;     // i1: nothing was added to the gradients yet
  AttnRows in[N_ATTN_ROLES], d_rows[N_ATTN_ROLES], out, g_rows;
  AttnTile q, g, d[N_ATTN_ROLES];
  AttnNumbers lse_numbers;  // of this head
} Backward;

static Val result_of(const AttnCode *s, AttnRole role) { return ir_result(s->v, s->a.place[role].operand); }
static Val operand(const AttnCode *s, ArgName name) { return ir_operand(s->c->f, s->v, name); }

// The heads that share keys, from head h on.
static void open_heads(Backward *w, V b, V h) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  w->b = b, w->head = h;
  cg_attention_open_sequence(s, b);
  V kv = cg_div(c, h, cg_i64(c, s->a.group));
  for (AttnRole r = 0; r < N_ATTN_ROLES; r++) {
    const AttnPlace *p = &s->a.place[r];
    V of = r == ATTN_Q ? h : kv;
    w->in[r] = cg_attention_rows(s, cg_ptr_or_zero(c, ir_arg(c->f, s->v, p->operand)), p, r == ATTN_Q, b, of);
    if (!w->makes_bias) w->d_rows[r] = cg_attention_rows(s, cg_ptr_or_zero(c, result_of(s, r)), p, r == ATTN_Q, b, of);
  }
  w->out = cg_attention_rows(s, cg_ptr_or_zero(c, operand(s, ARG_out)), &s->a.out, true, b, h);
  w->g_rows = cg_attention_rows(s, cg_ptr_or_zero(c, operand(s, ARG_g)), &s->a.out, true, b, h);
  w->lse_numbers = cg_attention_numbers(s, cg_ptr_or_zero(c, operand(s, ARG_lse)), b, h);
}

// ---- gradients that are added to
static bool is_made(const Backward *w, AttnRole r) { return !w->makes_bias && cg_stored(w->s->c, result_of(w->s, r)); }

static void open_gradient(Backward *w, AttnRole r, V lo, V n) {
  AttnCode *s = w->s;
  if (!is_made(w, r)) return;
  w->d[r] = cg_attention_tile(s, w->d_rows[r], lo, w->d_memory[r]);
  for (If first = cg_either(s->c, w->is_first); cg_then(&first);) {
    if (first.is_true) cg_attention_clear(s, n, w->d[r]);
    else cg_attention_read(s, w->d_rows[r], lo, n, w->d[r]);
  }
}

static void close_gradient(Backward *w, AttnRole r, V lo, V n) {
  if (is_made(w, r)) cg_attention_write(w->s, w->d_rows[r], lo, n, w->d[r]);
}

// ---- a chunk of queries
static V dot_row(AttnCode *s, V a, V b) {
  Cg *c = s->c;
  V sum = cg_zeros(c);
  int64_t vl = c->t->vl, whole = s->a.size / vl * vl;
  for (Loop l = cg_carry(c, cg_i64(c, 0), cg_i64(c, whole), cg_i64(c, vl), &sum, 1); cg_next(&l);)
    sum = cg_fma(c, cg_get(c, c->vf, a, l.i), cg_get(c, c->vf, b, l.i), sum);
  if (whole == s->a.size) return cg_reduce_add(c, sum);
  V mask = cg_mask(c, cg_i64(c, s->a.size - whole)), at = cg_i64(c, whole);
  V x = cg_get_masked(c, c->vf, a, at, mask);
  return cg_reduce_add(c, cg_fma(c, x, cg_get_masked(c, c->vf, b, at, mask), sum));
}

// ln sum e^score. If a bias of -inf hides every key it is -inf: gives another number, so that all e^x are zero.
static V row_lse(Backward *w, V i) {
  Cg *c = w->s->c;
  V lse = cg_load(c, c->f32, cg_attention_number(w->s, w->lse_numbers, w->lo, i));
  if (!w->bias) return lse;
  V none = cg_fcmp(c, LLVMRealOEQ, lse, cg_f32(c, -INFINITY));
  return cg_select(c, none, cg_f32(c, 0), lse);
}

static void open_queries(Backward *w, V lo, V n) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  w->lo = lo;
  w->q = cg_attention_tile(s, w->in[ATTN_Q], lo, w->q_memory), w->g = cg_attention_tile(s, w->g_rows, lo, w->g_memory);
  cg_attention_read(s, w->in[ATTN_Q], lo, n, w->q);
  cg_attention_read(s, w->g_rows, lo, n, w->g);
  for (Loop l = cg_count(c, n); cg_next(&l);) {
    V out = cg_attention_row_of(s, w->out, lo, l.i);
    cg_attention_fetch_next(s, w->out, out);
    cg_put(c, dot_row(s, out, cg_attention_tile_row(s, w->g, l.i)), w->delta, l.i);
    cg_put(c, row_lse(w, l.i), w->lse, l.i);
  }
  open_gradient(w, ATTN_Q, lo, n);
}

// ---- blocks
// e^(score - lse) of a vector of scores, zero where it is not seen.
static V probability(Backward *w, V score, V lse, AttnBias bias, V j, V mask) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  V zero = cg_zeros(c), less = cg_fneg(c, lse);
  if (bias.at) less = cg_fsub(c, cg_attention_bias_vector(s, bias, j, mask), lse);
  V x = cg_fma(c, score, cg_splat(c, cg_f32(c, s->a.scale)), less);
  return cg_select(c, mask, cg_primitive(c, OP_exp, &x), zero);
}

// Adds a vector of the gradient to that of the bias; if the bias has one element for all of them, returns
// what to add to it.
static V add_bias(Backward *w, AttnBias to, V ds, V sum, V j, V mask) {
  Cg *c = w->s->c;
  if (to.one) return cg_fadd(c, sum, ds);
  V at = cg_at(c, c->f32, to.at, j);
  cg_store_masked(c, cg_fadd(c, cg_load_masked(c, c->vf, at, mask), ds), at, mask);
  return sum;
}

// Replaces scores and dP of the block's row j, which is row i of the chunk, by P (after dropout) and dS; or adds dS / scale to the
// gradient of the bias.
static void gradient_row(Backward *w, V j, V i, V k0, V n) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  V at = cg_mul(c, j, cg_i64(c, s->keys)), p_row = cg_at(c, c->f32, w->p, at), ds_row = cg_at(c, c->f32, w->ds, at);
  V zero = cg_zeros(c), scale = cg_splat(c, cg_f32(c, s->a.scale)), lse = cg_splat(c, cg_get(c, c->f32, w->lse, i));
  V delta = cg_splat(c, cg_get(c, c->f32, w->delta, i));
  V t = cg_attention_step(s, w->lo, i), h = cg_attention_head(s, w->head, i);
  V element = s->id ? cg_add(c, cg_attention_element(s, w->b, h, t), k0) : NULL;
  AttnBias bias = cg_attention_bias(s, w->bias, w->b, h, t, k0), d_bias = {0};
  if (w->makes_bias) d_bias = cg_attention_bias(s, w->d_bias, w->b, h, t, k0);
  AttnSeen sees = cg_attention_seen(s, t, k0, n);
  V sum = d_bias.one ? zero : NULL;
  for (Loop l = cg_carry(c, cg_i64(c, 0), n, cg_vl(c), &sum, d_bias.one); cg_next(&l);) {
    V p_at = cg_at(c, c->f32, p_row, l.i), ds_at = cg_at(c, c->f32, ds_row, l.i);
    V mask = cg_attention_seen_mask(s, sees, l.i);
    V p = probability(w, cg_load(c, c->vf, p_at), lse, bias, l.i, mask), dp = cg_load(c, c->vf, ds_at), kept = p;
    if (s->id) {
      V keep = cg_attention_dropout_scale(s, element, l.i);
      kept = cg_fmul(c, p, keep), dp = cg_fmul(c, dp, keep);
    }
    V dx = cg_fsub(c, dp, delta);
    if (w->makes_bias) {
      sum = add_bias(w, d_bias, cg_select(c, mask, cg_fmul(c, p, dx), zero), sum, l.i, mask);
    } else {
      cg_store(c, kept, p_at);
      cg_store(c, cg_select(c, mask, cg_fmul(c, cg_fmul(c, p, scale), dx), zero), ds_at);
    }
  }
  if (d_bias.one) cg_store(c, cg_fadd(c, cg_load(c, c->f32, d_bias.at), cg_reduce_add(c, sum)), d_bias.at);
}

// dV or dK: a transposed block of P or dS times m rows of the chunk.
static void add_keys(Backward *w, AttnRole role, V block, AttnTile rows, V i, V m, V n) {
  AttnCode *s = w->s;
  if (!is_made(w, role)) return;
  AttnProduct p = {.a = block, .b = cg_attention_tile_row(s, rows, i), .c = w->d[role].at, .a_row = 1, .a_k = s->keys};
  p.b_k = rows.row, p.b_panel = s->width, p.c_row = w->d[role].row, p.m = n, p.k = m, p.mr = s->mr_k;
  p.exact = cg_attention_whole(s, false, s->mr_k) && cg_attention_is_plain_causal(s) && ir_none(s->a.lengths) &&
            (!s->a.causal || (s->row_heads == 1 && cg_attention_whole(s, true, s->mr_k)));
  p.terms = ir_dim_bound(s->c->f->prog, s->a.tq) * s->a.group;
  cg_attention_accumulate(s, &p, rows.is_copy);
}

static void add_queries(Backward *w, AttnTile keys, V i, V m, V n) {
  AttnCode *s = w->s;
  if (!is_made(w, ATTN_Q)) return;
  AttnTile d = w->d[ATTN_Q];
  AttnProduct p = {.a = w->ds, .b = keys.at, .c = cg_attention_tile_row(s, d, i), .a_row = s->keys, .a_k = 1};
  p.b_k = keys.row, p.b_panel = s->width, p.c_row = d.row, p.m = m, p.k = n, p.mr = s->mr_q;
  p.exact = cg_attention_whole(s, true, s->mr_q), p.terms = ir_dim_bound(s->c->f->prog, s->a.tk);
  cg_attention_accumulate(s, &p, keys.is_copy);
}

// Rows i .. i + m of the chunk and n keys from k0 on.
static void block(Backward *w, AttnTile keys, V i, V m, V k0, V n) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  V last = cg_attention_step(s, w->lo, cg_sub(c, cg_add(c, i, m), cg_i64(c, 1)));
  if (cg_attention_is_bounded(s)) n = cg_sub(c, cg_attention_key_end(s, last, cg_add(c, k0, n)), k0);
  cg_attention_scores(s, w->q, i, m, w->keys_t, n, w->p);
  cg_attention_scores(s, w->g, i, m, w->values_t, n, w->ds);
  for (Loop l = cg_count(c, m); cg_next(&l);) gradient_row(w, l.i, cg_add(c, i, l.i), k0, n);
  add_keys(w, ATTN_V, w->p, w->g, i, m, n);
  add_keys(w, ATTN_K, w->ds, w->q, i, m, n);
  add_queries(w, keys, i, m, n);
}

// Rows first .. until of the chunk and n keys from k0 on
static void walk_rows(Backward *w, AttnTile keys, V first, V until, V k0, V n) {
  Cg *c = w->s->c;
  int64_t most = cg_attention_block_rows(w->s), more = cg_attention_more_rows(w->s);
  V rows = cg_i64(c, most), one = cg_i64(c, 1);
  V last = cg_max(c, cg_sub(c, until, cg_i64(c, more)), cg_min(c, until, cg_add(c, first, one)));
  for (Loop l = cg_each_by(c, first, last, rows); cg_next(&l);) {
    V left = cg_sub(c, until, l.i), is_last = cg_gt(c, cg_i64(c, most + more + 1), left);
    block(w, keys, l.i, cg_select(c, is_last, left, rows), k0, n);
  }
}

static AttnTile open_keys(Backward *w, V k0, V n) {
  AttnCode *s = w->s;
  AttnTile keys = cg_attention_tile(s, w->in[ATTN_K], k0, w->k_memory);
  AttnTile values = cg_attention_tile(s, w->in[ATTN_V], k0, w->v_memory);
  cg_attention_read(s, w->in[ATTN_K], k0, n, keys);
  cg_attention_transpose(s, keys, n, w->keys_t);
  cg_attention_read(s, w->in[ATTN_V], k0, n, values);
  cg_attention_transpose(s, values, n, w->values_t);
  for (AttnRole r = ATTN_K; r <= ATTN_V; r++) open_gradient(w, r, k0, n);
  return keys;
}

// Queries q_lo .. q_hi against keys k_lo .. k_hi.
typedef struct {
  V q_lo, q_hi, k_lo, k_hi;
} Range;

static void walk_keys(Backward *w, const Range *r, V n_rows, V begin, V end) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  V one = cg_i64(c, 1), length = cg_attention_length(s, w->b);
  for (Loop key = cg_each_by(c, begin, end, cg_i64(c, s->keys)); cg_next(&key);) {
    V n = cg_min(c, cg_i64(c, s->keys), cg_sub(c, end, key.i)), seen = cg_min(c, n, cg_sub(c, length, key.i));
    AttnTile keys = open_keys(w, key.i, n);
    V query = cg_attention_query_begin(s, key.i, r->q_lo), first = cg_attention_first_row(s, r->q_lo, query);
    V end_query = cg_attention_query_end(s, cg_sub(c, cg_add(c, key.i, seen), one), r->q_hi);
    V until = cg_attention_end_row(s, r->q_lo, end_query, n_rows), zero = cg_i64(c, 0);
    // the first round comes to all keys: these may be seen by no query
    if (cg_attention_is_bounded(s)) until = cg_select(c, cg_lt(c, query, end_query), until, zero);
    if (!ir_none(s->a.lengths)) until = cg_select(c, cg_gt(c, seen, zero), until, zero);
    walk_rows(w, keys, first, until, key.i, seen);
    for (AttnRole r0 = ATTN_K; r0 <= ATTN_V; r0++) close_gradient(w, r0, key.i, n);
  }
}

static void walk(Backward *w, const Range *r) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  V n_rows = cg_mul(c, cg_sub(c, r->q_hi, r->q_lo), s->step_rows), one = cg_i64(c, 1);
  V begin = cg_attention_key_begin(s, r->q_lo, r->k_lo), end = cg_attention_length(s, w->b);
  end = cg_attention_key_end(s, cg_sub(c, r->q_hi, one), cg_min(c, r->k_hi, end));
  V meet = cg_and(c, cg_lt(c, begin, end), cg_lt(c, r->q_lo, r->q_hi));
  if (!w->makes_bias) {
    begin = cg_select(c, w->is_first, r->k_lo, begin), end = cg_select(c, w->is_first, r->k_hi, end);
    meet = cg_or(c, meet, w->is_first);
  }
  for (If some = cg_when(c, meet); cg_then(&some);) {
    open_queries(w, r->q_lo, n_rows);
    walk_keys(w, r, n_rows, begin, end);
    close_gradient(w, ATTN_Q, r->q_lo, n_rows);
  }
}

// ---- rounds
typedef struct {
  int64_t queries, keys;  // of a chunk, at most
} Chunks;

// Chunk k of the keys is seen by chunks k and later of the queries, and by no others.
static bool is_triangle(const AttnCode *s) {
  return s->a.causal && cg_attention_is_plain_causal(s) && s->row_heads == 1 && s->a.tq.i == s->a.tk.i &&
         s->a.kv_layout.i == s->a.layout.i;
}

static void round_of_sequence(Backward *w, const Chunks *most, AttnDeal *d, V round) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  V zero = cg_i64(c, 0), n_q = cg_attention_queries(s, d->b), n_k = cg_attention_key_steps(s, d->b);
  V of_q = cg_attention_parts(s, n_q, most->queries), of_k = cg_attention_parts(s, n_k, most->keys);
  V n = cg_max(c, of_q, of_k), units = cg_select(c, w->is_first, n, of_k);
  if (is_triangle(s)) units = cg_sub(c, n, round);
  units = cg_select(c, cg_lt(c, round, n), units, zero);
  for (cg_attention_deal_units(d, units, cg_i64(c, s->a.heads / s->row_heads)); cg_attention_next_unit(d);) {
    V of = cg_add(c, d->part, round), behind = cg_sub(c, of, n);
    of = cg_select(c, cg_lt(c, of, n), of, behind);
    Range r;
    cg_attention_part(s, n_q, of_q, most->queries, of, &r.q_lo, &r.q_hi);
    cg_attention_part(s, n_k, of_k, most->keys, d->part, &r.k_lo, &r.k_hi);
    open_heads(w, d->b, cg_mul(c, d->head, s->step_rows));
    walk(w, &r);
  }
}

static void wait_for_round(Cg *c, V number) {
  for (If later = cg_when(c, cg_gt(c, number, cg_i64(c, 0))); cg_then(&later);) cg_wait_for_team(c);
}

static void rounds(Backward *w, const Chunks *most) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  const Prog *p = c->f->prog;
  bool is_one = ir_dim_bound(p, s->a.tq) <= most->queries && ir_dim_bound(p, s->a.tk) <= most->keys;
  V of_q = cg_attention_parts(s, cg_attention_longest(s, true), most->queries);
  V of_k = cg_attention_parts(s, cg_attention_longest(s, false), most->keys);
  for (Loop round = is_one ? cg_once(c) : cg_count(c, cg_max(c, of_q, of_k)); cg_next(&round);) {
    V number = is_one ? cg_i64(c, 0) : round.i;
    w->is_first = cg_eq(c, number, cg_i64(c, 0));
    if (!is_one) wait_for_round(c, number);
    AttnDeal d;
    for (cg_attention_deal(&d, s); cg_attention_next_sequence(&d);) round_of_sequence(w, most, &d, number);
  }
}

// ---- the bias
static void clear_bias(Backward *w, V b, V h, V lo, V hi) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  V zero = cg_zeros(c), columns = s->a.bias_has[3] ? s->tk : cg_i64(c, 1);
  for (Loop row = cg_each(c, lo, s->a.bias_has[2] ? hi : cg_add(c, lo, cg_i64(c, 1))); cg_next(&row);) {
    AttnBias to = cg_attention_bias(s, w->d_bias, b, h, row.i, cg_i64(c, 0));
    for (Span column = cg_span_masked(c, cg_i64(c, 0), columns); cg_next_vector(&column);)
      cg_put_masked(c, zero, to.at, column.i, column.mask);
  }
}

// The unit's own element of an axis of n, or all of them where the bias is broadcast along it.
static Loop each_of_axis(Cg *c, bool has_axis, V own, V n) {
  return has_axis ? cg_each(c, own, cg_add(c, own, cg_i64(c, 1))) : cg_count(c, n);
}

static void bias_units(Backward *w, int64_t chunk) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  const bool *has = s->a.bias_has;
  V one = cg_i64(c, 1), zero = cg_i64(c, 0), batches = has[0] ? s->batch : one, n_heads = has[1] ? s->heads : one;
  V chunks = has[2] ? cg_ceil_div_value(c, s->tq, chunk) : one, lo = zero, hi = s->tq;
  for (Loop l = cg_each_by(c, c->worker, cg_mul(c, cg_mul(c, batches, n_heads), chunks), c->n_workers); cg_next(&l);) {
    V flat = cg_div(c, l.i, chunks), b = cg_div(c, flat, n_heads), h = cg_sub(c, flat, cg_mul(c, b, n_heads));
    if (has[2]) {
      lo = cg_mul(c, cg_sub(c, l.i, cg_mul(c, flat, chunks)), cg_i64(c, chunk));
      hi = cg_min(c, s->tq, cg_add(c, lo, cg_i64(c, chunk)));
    }
    clear_bias(w, b, h, lo, hi);
    for (Loop batch = each_of_axis(c, has[0], b, s->batch); cg_next(&batch);)
      for (Loop head = each_of_axis(c, has[1], h, s->heads); cg_next(&head);) {
        V until = cg_min(c, hi, cg_attention_queries(s, batch.i));
        open_heads(w, batch.i, head.i);
        for (Loop q = cg_each_by(c, lo, until, cg_i64(c, chunk)); cg_next(&q);) {
          V q_hi = cg_min(c, until, cg_add(c, q.i, cg_i64(c, chunk)));
          walk(w, &(Range){q.i, q_hi, zero, cg_attention_key_steps(s, batch.i)});
        }
      }
  }
}

// Zeros for keys that no query can see.
void cg_attention_no_bias_grad(Cg *c, Val v) {
  V lo, hi, to = cg_ptr_or_zero(c, v);
  cg_share(c, cg_numel(c, ir_ins(c->f, v)->shape), c->t->vl, &lo, &hi);
  for (Span s = cg_span_masked(c, lo, hi); cg_next_vector(&s);) cg_span_put(&s, cg_view(to, DT_F32), cg_zeros(c));
}

const AttnStack cg_attention_backward_stack = {.block = 4096, .of_key = 5, .scores = 2, .of_row = 3};

void cg_attention_backward(AttnCode *s) {
  Cg *c = s->c;
  Backward w = {.s = s, .makes_bias = ir_ins(c->f, s->v)->op == OP_sdpa_bias_grad};
  int64_t of_scores = ATTN_MOST_ROWS * s->keys, of_keys = s->size_up * s->keys;
  int64_t chunk = cg_attention_chunk(s, &cg_attention_backward_stack);
  const AttnPlace *place = s->a.place;
  w.keys_t = cg_attention_stack(s, of_keys), w.values_t = cg_attention_stack(s, of_keys);
  w.p = cg_attention_stack(s, of_scores), w.ds = cg_attention_stack(s, of_scores);
  w.delta = cg_attention_stack(s, chunk), w.lse = cg_attention_stack(s, chunk);
  w.q_memory = cg_attention_tile_memory(s, &place[ATTN_Q], true, chunk);
  w.g_memory = cg_attention_tile_memory(s, &s->a.out, true, chunk);
  w.k_memory = cg_attention_tile_memory(s, &place[ATTN_K], false, s->keys);
  w.bias = ir_none(s->a.bias) ? NULL : cg_ptr_or_zero(c, s->a.bias);
  w.d_memory[ATTN_V] = w.v_memory = cg_attention_tile_memory(s, &place[ATTN_V], false, s->keys);  // read before
  if (w.makes_bias) {
    w.d_bias = cg_ptr_or_zero(c, s->v);
    bias_units(&w, chunk);
    return;
  }
  w.d_memory[ATTN_Q] = cg_attention_tile_memory(s, &place[ATTN_Q], true, chunk);
  w.d_memory[ATTN_K] = cg_attention_tile_memory(s, &place[ATTN_K], false, s->keys);
  rounds(&w, &(Chunks){cg_larger(1, chunk / s->row_heads), chunk});
}
