// Backward attention. Probabilities are made again from the scores and the rows' ln sum e^score:
//
//   P = e^(S - lse)    dV = P^T G    dP = G V^T    dS = P (dP - delta) scale    dQ = dS K    dK = dS^T Q
//
// where delta is the dot product of a row of the result with its gradient. Sums run over blocks in order: dQ over keys,
// dK and dV over queries, and over the heads that share keys. With many heads a unit is a head of keys and makes all
// three; with few, units are blocks of keys, for dK and dV, and chunks of queries, for dQ, which make P and dS twice.
// The gradient of a bias is dS / scale, in a kernel of its own, whose units are the elements that it is not broadcast
// to: each walks over all heads that share them.
#include "codegen/attention/attention.h"
#include "codegen/math/primitives.h"
#include "codegen/span.h"

#include <math.h>

enum { MANY_HEADS = 8 };

typedef struct {
  AttnCode *s;
  V keys_t, values_t;                            // on the stack: [size_up][keys]
  V p, ds;                                       // on the stack: [ATTN_BLOCK][keys]
  V key_tile, value_tile, d_tile[N_ATTN_ROLES];  // of packed rows: [keys][size_pad]; of queries [ATTN_BLOCK][size_pad]
  V q_tile, g_tile;                              // [ATTN_BLOCK][size_pad]
  V delta;                                       // scratch, by query of each head
  bool makes_q, makes_kv, makes_bias;
  V bias, d_bias;
  V b, h;
  AttnRows in[N_ATTN_ROLES], d[N_ATTN_ROLES], out, g;
  AttnNumbers lse, delta_row;  // of this head
} Backward;

static bool has_many_heads(const Fn *f, const Attention *a) {
  return ir_dim_bound(f->prog, a->batch) * (a->heads / a->group) >= MANY_HEADS;
}

int64_t cg_attention_scratch_bytes(const Fn *f, Val v, const Target *t) {
  (void)t;
  if (ir_ins(f, v)->op == OP_sdpa) return 0;
  Attention a;
  ir_attention(f, v, &a);
  return ir_shape_bound(f->prog, ir_ins(f, ir_operand(f, v, ARG_lse))->shape) * (int64_t)sizeof(float);
}

static Val result_of(const AttnCode *s, AttnRole role) { return ir_result(s->v, s->a.place[role].operand); }
static Val operand(const AttnCode *s, ArgName name) { return ir_operand(s->c->f, s->v, name); }

static void open_head(Backward *w, V b, V h) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  w->b = b, w->h = h;
  V kv = cg_attention_kv_head(s, h);
  for (AttnRole r = 0; r < N_ATTN_ROLES; r++) {
    const AttnPlace *p = &s->a.place[r];
    V of = r == ATTN_Q ? h : kv;
    w->in[r] = cg_attention_rows(s, cg_ptr_or_zero(c, ir_arg(c->f, s->v, p->operand)), p, r == ATTN_Q, b, of);
    if (!w->makes_bias) w->d[r] = cg_attention_rows(s, cg_ptr_or_zero(c, result_of(s, r)), p, r == ATTN_Q, b, of);
  }
  w->out = cg_attention_rows(s, cg_ptr_or_zero(c, operand(s, ARG_out)), &s->a.out, true, b, h);
  w->g = cg_attention_rows(s, cg_ptr_or_zero(c, operand(s, ARG_g)), &s->a.out, true, b, h);
  w->lse = cg_attention_numbers(s, cg_ptr_or_zero(c, operand(s, ARG_lse)), b, h);
  w->delta_row = cg_attention_numbers(s, w->delta, b, h);
}

// ---- delta
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

static void make_delta(Backward *w, V t) {
  Cg *c = w->s->c;
  V sum = dot_row(w->s, cg_attention_row(w->s, w->out, t), cg_attention_row(w->s, w->g, t));
  cg_store(c, sum, cg_attention_number(w->s, w->delta_row, t));
}

static void each_step(Backward *w, V lo, V hi, void (*act)(Backward *w, V t)) {
  Cg *c = w->s->c;
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);) act(w, l.i);
}

// ---- blocks
static bool is_made(const Backward *w, AttnRole r) {
  return !w->makes_bias && (r == ATTN_Q ? w->makes_q : w->makes_kv) && cg_stored(w->s->c, result_of(w->s, r));
}

static void clear(Backward *w, AttnRole r, V t) {
  if (is_made(w, r)) cg_attention_scale_row(w->s, cg_attention_row(w->s, w->d[r], t), NULL);
}
static void clear_query(Backward *w, V t) { clear(w, ATTN_Q, t); }
static void clear_key(Backward *w, V t) {
  clear(w, ATTN_K, t);
  clear(w, ATTN_V, t);
}

// e^(score - lse) of a vector of scores, zero where it is not seen.
static V probability(Backward *w, V score, V lse, AttnBias bias, V j, V mask) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  V zero = cg_zeros(c), less = cg_fneg(c, lse);
  if (bias.at) less = cg_fsub(c, cg_attention_bias_vector(s, bias, j, mask), lse);
  V x = cg_fma(c, score, cg_splat(c, cg_f32(c, s->a.scale)), less);
  return cg_select(c, mask, cg_primitive(c, OP_exp, &x), zero);
}

// ln sum e^score of query t. If a bias of -inf hides every key it is -inf: returns another number, so that
// all e^x are zero.
static V row_lse(Backward *w, V t) {
  Cg *c = w->s->c;
  V lse = cg_load(c, c->f32, cg_attention_number(w->s, w->lse, t));
  if (!w->bias) return lse;
  V none = cg_fcmp(c, LLVMRealOEQ, lse, cg_f32(c, -INFINITY));
  return cg_select(c, none, cg_f32(c, 0), lse);
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

// Turns scores and dP of query t into P (after dropout) and dS; or adds dS / scale to the gradient of the
// bias. n columns, the first `seen` of them visible.
static void gradient_row(Backward *w, V i, V t, V k0, V n, V seen) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  V at = cg_mul(c, i, cg_i64(c, s->keys)), p_row = cg_at(c, c->f32, w->p, at), ds_row = cg_at(c, c->f32, w->ds, at);
  V zero = cg_zeros(c), scale = cg_splat(c, cg_f32(c, s->a.scale)), lse = cg_splat(c, row_lse(w, t));
  V delta = cg_splat(c, cg_load(c, c->f32, cg_attention_number(s, w->delta_row, t)));
  V element = s->id ? cg_add(c, cg_attention_element(s, w->b, w->h, t), k0) : NULL;
  AttnBias bias = cg_attention_bias(s, w->bias, w->b, w->h, t, k0), d_bias = {0};
  if (w->makes_bias) d_bias = cg_attention_bias(s, w->d_bias, w->b, w->h, t, k0);
  AttnSeen sees = cg_attention_seen(s, t, k0, seen);
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

// rows (queries) times a packed, transposed block of keys or values
static void scores(Backward *w, AttnRows rows, V packed, V to, V q0, V m, V n) {
  AttnCode *s = w->s;
  AttnProduct p = {.a = cg_attention_row(s, rows, q0), .b = packed, .c = to, .a_row = rows.row, .a_k = 1};
  p.b_k = p.c_row = s->keys, p.m = m, p.k = cg_i64(s->c, s->a.size), p.mr = s->mr_q;
  p.exact = cg_attention_whole(s, s->a.tq, s->mr_q);
  cg_attention_scores(s, &p, n);
}

// dV or dK: a transposed block of P or dS times rows of queries.
static void add_keys(Backward *w, AttnRole role, AttnRows to, V block, AttnRows rows, V q0, V m, V k0, V n) {
  AttnCode *s = w->s;
  if (!is_made(w, role)) return;
  AttnProduct p = {.a = block, .b = cg_attention_row(s, rows, q0), .c = cg_attention_row(s, to, k0), .a_row = 1};
  p.a_k = s->keys, p.b_k = rows.row, p.c_row = to.row, p.m = n, p.k = m, p.mr = s->mr_k;
  p.exact = cg_attention_whole(s, s->a.tk, s->mr_k) && cg_attention_is_plain_causal(s) &&
            (!s->a.causal || cg_attention_whole(s, s->a.tq, s->mr_k));
  p.terms = ir_dim_bound(s->c->f->prog, s->a.tq) * s->a.group;
  cg_attention_accumulate(s, &p, false);
}

static void add_queries(Backward *w, AttnRows keys, V q0, V m, V k0, V n) {
  AttnCode *s = w->s;
  if (!is_made(w, ATTN_Q)) return;
  AttnRows d = cg_attention_window(s, w->d[ATTN_Q], q0, m, w->d_tile[ATTN_Q], true);
  AttnProduct p = {.a = w->ds, .b = cg_attention_row(s, keys, k0), .c = cg_attention_row(s, d, q0), .a_k = 1};
  p.a_row = s->keys, p.b_k = keys.row, p.c_row = d.row, p.m = m, p.k = n, p.mr = s->mr_q;
  p.exact = cg_attention_whole(s, s->a.tq, s->mr_q), p.terms = ir_dim_bound(s->c->f->prog, s->a.tk);
  cg_attention_accumulate(s, &p, false);
  cg_attention_window_end(s, w->d[ATTN_Q], d, q0, m);
}

// A block of keys: the rows, and those of the gradients.
typedef struct {
  V at;
  AttnRows rows, d[N_ATTN_ROLES];
} Keys;

static void open_keys(Backward *w, Keys *k, V at, V n) {
  AttnCode *s = w->s;
  *k = (Keys){.at = at, .rows = cg_attention_window(s, w->in[ATTN_K], at, n, w->key_tile, true)};
  cg_attention_transpose(s, k->rows, at, n, w->keys_t);
  cg_attention_transpose(s, cg_attention_window(s, w->in[ATTN_V], at, n, w->value_tile, true), at, n, w->values_t);
  for (AttnRole r = ATTN_K; r <= ATTN_V; r++)
    if (is_made(w, r)) k->d[r] = cg_attention_window(s, w->d[r], at, n, w->d_tile[r], true);
}

static void close_keys(Backward *w, const Keys *k, V n) {
  for (AttnRole r = ATTN_K; r <= ATTN_V; r++)
    if (is_made(w, r)) cg_attention_window_end(w->s, w->d[r], k->d[r], k->at, n);
}

// Queries q0 .. q0 + m and keys k0 .. k0 + n, of which `seen` are not padding.
static void block(Backward *w, const Keys *keys, V q0, V m, V n, V seen) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  V k0 = keys->at;
  AttnRows q = cg_attention_window(s, w->in[ATTN_Q], q0, m, w->q_tile, true);
  AttnRows g = cg_attention_window(s, w->g, q0, m, w->g_tile, true);
  V last = cg_sub(c, cg_add(c, q0, m), cg_i64(c, 1));
  if (cg_attention_is_bounded(s)) n = cg_sub(c, cg_attention_key_end(s, last, cg_add(c, k0, n)), k0);
  scores(w, q, w->keys_t, w->p, q0, m, n);
  scores(w, g, w->values_t, w->ds, q0, m, n);
  for (Loop l = cg_count(c, m); cg_next(&l);) gradient_row(w, l.i, cg_add(c, q0, l.i), k0, n, seen);
  add_keys(w, ATTN_V, keys->d[ATTN_V], w->p, g, q0, m, k0, n);
  add_keys(w, ATTN_K, keys->d[ATTN_K], w->ds, q, q0, m, k0, n);
  add_queries(w, keys->rows, q0, m, k0, cg_min(c, n, seen));
}

// Queries q_lo .. q_hi against keys k_lo .. k_hi.
static void walk(Backward *w, V q_lo, V q_hi, V k_lo, V k_hi) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  V size = cg_i64(c, ATTN_BLOCK), one = cg_i64(c, 1), begin = cg_attention_key_begin(s, q_lo, k_lo);
  V end = cg_attention_key_end(s, cg_sub(c, q_hi, one), cg_min(c, k_hi, cg_attention_length(s, w->b)));
  for (Loop key = cg_each_by(c, begin, end, cg_i64(c, s->keys)); cg_next(&key);) {
    V n = cg_min(c, cg_i64(c, s->keys), cg_sub(c, k_hi, key.i)), seen = cg_sub(c, end, key.i);
    Keys keys;
    open_keys(w, &keys, key.i, n);
    V first = cg_attention_query_begin(s, key.i, q_lo);
    V until = cg_attention_query_end(s, cg_sub(c, cg_add(c, key.i, n), one), q_hi);
    for (Loop query = cg_each_by(c, first, until, size); cg_next(&query);)
      block(w, &keys, query.i, cg_min(c, size, cg_sub(c, until, query.i)), n, seen);
    close_keys(w, &keys, n);
  }
}

// ---- units
typedef struct {
  V q_lo, q_hi, k_lo, k_hi;
} Range;

static void walk_range(Backward *w, const Range *r) { walk(w, r->q_lo, r->q_hi, r->k_lo, r->k_hi); }

static void whole_queries(Backward *w, const Range *r) {
  each_step(w, r->q_lo, r->q_hi, make_delta);
  each_step(w, r->q_lo, r->q_hi, clear_query);
  walk_range(w, r);
}

// For each head that reads the keys of head `kv`; the first of them initialises the gradients.
static void each_sharing(Backward *w, V b, V kv, const Range *r, void (*act)(Backward *w, const Range *r)) {
  Cg *c = w->s->c;
  int64_t group = w->s->a.group;
  V first = cg_mul(c, kv, cg_i64(c, group));
  open_head(w, b, first);
  each_step(w, r->k_lo, r->k_hi, clear_key);
  if (group == 1) {
    act(w, r);
    return;
  }
  for (Loop l = cg_each(c, first, cg_add(c, first, cg_i64(c, group))); cg_next(&l);) {
    open_head(w, b, l.i);
    act(w, r);
  }
}

static int64_t kv_heads(const Backward *w) { return w->s->a.heads / w->s->a.group; }

// Keys that have gradients: all steps of a padded sequence.
static V key_steps(Backward *w, V b) {
  return ir_attention_is_packed(&w->s->a) ? cg_attention_length(w->s, b) : w->s->tk;
}

static void heads(Backward *w) {
  V zero = cg_i64(w->s->c, 0);
  w->makes_q = w->makes_kv = true;
  for (AttnUnits u = cg_attention_units(w->s, ATTN_Q, kv_heads(w), 0); cg_next_unit(&u);) {
    Range all = {u.lo, u.hi, zero, key_steps(w, u.b)};
    each_sharing(w, u.b, u.head, &all, whole_queries);
  }
}

static void queries(Backward *w, bool delta) {
  w->makes_q = !delta, w->makes_kv = false;
  for (AttnUnits u = cg_attention_units(w->s, ATTN_Q, w->s->a.heads, ATTN_CHUNK); cg_next_unit(&u);) {
    open_head(w, u.b, u.head);
    each_step(w, u.lo, u.hi, delta ? make_delta : clear_query);
    if (!delta) walk(w, u.lo, u.hi, cg_i64(w->s->c, 0), key_steps(w, u.b));
  }
}

static void keys(Backward *w) {
  AttnCode *s = w->s;
  w->makes_q = false, w->makes_kv = true;
  for (AttnUnits u = cg_attention_units(s, ATTN_K, kv_heads(w), s->keys); cg_next_unit(&u);) {
    Range r = {cg_i64(s->c, 0), cg_attention_queries(s, u.b), u.lo, u.hi};
    each_sharing(w, u.b, u.head, &r, walk_range);
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

// Of an axis with `n` elements: the unit's own one, or all of them where the bias is broadcast.
static Loop each_of_axis(Cg *c, bool has_axis, V own, V n) {
  return has_axis ? cg_each(c, own, cg_add(c, own, cg_i64(c, 1))) : cg_count(c, n);
}

static void bias_units(Backward *w) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  const bool *has = s->a.bias_has;
  V one = cg_i64(c, 1), zero = cg_i64(c, 0), batches = has[0] ? s->batch : one, n_heads = has[1] ? s->heads : one;
  V chunks = has[2] ? cg_ceil_div_value(c, s->tq, ATTN_CHUNK) : one, lo = zero, hi = s->tq;
  for (Loop l = cg_each_by(c, c->worker, cg_mul(c, cg_mul(c, batches, n_heads), chunks), c->n_workers); cg_next(&l);) {
    V flat = cg_div(c, l.i, chunks), b = cg_div(c, flat, n_heads), h = cg_sub(c, flat, cg_mul(c, b, n_heads));
    if (has[2]) {
      lo = cg_mul(c, cg_sub(c, l.i, cg_mul(c, flat, chunks)), cg_i64(c, ATTN_CHUNK));
      hi = cg_min(c, s->tq, cg_add(c, lo, cg_i64(c, ATTN_CHUNK)));
    }
    clear_bias(w, b, h, lo, hi);
    for (Loop batch = each_of_axis(c, has[0], b, s->batch); cg_next(&batch);)
      for (Loop head = each_of_axis(c, has[1], h, s->heads); cg_next(&head);) {
        open_head(w, batch.i, head.i);
        V until = cg_min(c, hi, cg_attention_queries(s, batch.i));
        for (If some = cg_when(c, ir_attention_is_packed(&s->a) ? cg_lt(c, lo, until) : NULL); cg_then(&some);) {
          each_step(w, lo, until, make_delta);
          walk(w, lo, until, zero, key_steps(w, batch.i));
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

void cg_attention_backward(AttnCode *s) {
  Cg *c = s->c;
  Backward w = {.s = s, .delta = c->scratch ? c->scratch : LLVMConstNull(c->ptr)};
  w.keys_t = cg_attention_stack(s, s->size_up * s->keys), w.values_t = cg_attention_stack(s, s->size_up * s->keys);
  w.p = cg_attention_stack(s, ATTN_BLOCK * s->keys), w.ds = cg_attention_stack(s, ATTN_BLOCK * s->keys);
  w.key_tile = cg_attention_tile(s, s->keys), w.value_tile = cg_attention_tile(s, s->keys);
  w.q_tile = cg_attention_tile(s, ATTN_BLOCK), w.g_tile = cg_attention_tile(s, ATTN_BLOCK);
  for (AttnRole r = 0; r < N_ATTN_ROLES; r++) w.d_tile[r] = cg_attention_tile(s, r == ATTN_Q ? ATTN_BLOCK : s->keys);
  w.bias = ir_none(s->a.bias) ? NULL : cg_ptr_or_zero(c, s->a.bias);
  w.makes_bias = ir_ins(c->f, s->v)->op == OP_sdpa_bias_grad;
  if (w.makes_bias) {
    w.d_bias = cg_ptr_or_zero(c, s->v);
    bias_units(&w);
    return;
  }
  if (has_many_heads(c->f, &s->a)) {
    heads(&w);
    return;
  }
  queries(&w, true);
  cg_team_barrier(c, cg_i32(c, 0), c->n_workers);
  keys(&w);
  if (cg_stored(c, result_of(s, ATTN_Q))) queries(&w, false);
}
