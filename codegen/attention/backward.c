// Backward attention. Probabilities are made again from the scores and the rows' ln sum e^score:
//
//   P = e^(S - lse)    dV = P^T G    dP = G V^T    dS = P (dP - delta) scale    dQ = dS K    dK = dS^T Q
//
// where delta is the dot product of a row of the result with its gradient. Sums run over blocks in order: dQ over keys,
// dK and dV over queries. With many heads a unit is a head and makes all three; with few, units are blocks of keys,
// for dK and dV, and chunks of queries, for dQ, which make P and dS twice.
#include "codegen/attention/attention.h"

typedef LLVMValueRef V;

enum { MANY_HEADS = 8 };

typedef struct {
  AttnCode *s;
  V keys_t, values_t;  // on the stack: [size_up][keys]
  V p, ds;             // on the stack: [ATTN_BLOCK][keys]
  V delta;             // scratch, [B,H,Tq]
  bool makes_q, makes_kv;
  V b, h;
  AttnRows in[N_ATTN_ROLES], d[N_ATTN_ROLES], out, g;
  V lse, delta_row;  // of this head
} Backward;

static bool has_many_heads(const Fn *f, const Attention *a) {
  return ir_dim_bound(f->prog, a->batch) * a->heads >= MANY_HEADS;
}

int64_t cg_attention_scratch_bytes(const Fn *f, Val v, const Target *t) {
  (void)t;
  if (ir_ins(f, v)->op != OP_sdpa_grad) return 0;
  Attention a;
  ir_attention(f, v, &a);
  return ir_dim_bound(f->prog, a.batch) * a.heads * ir_dim_bound(f->prog, a.tq) * (int64_t)sizeof(float);
}

static V times(Cg *c, V a, V b) { return LLVMBuildFMul(c->b, a, b, ""); }
static V storage(Cg *c, Val v) { return cg_stored(c, v) ? cg_ptr(c, v) : LLVMConstNull(c->ptr); }
static Val result_of(const AttnCode *s, AttnRole role) { return ir_result(s->v, s->a.place[role].operand); }
static Val operand(const AttnCode *s, ArgName name) { return ir_operand(s->c->f, s->v, name); }

static void open_head(Backward *w, V head) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  w->b = cg_div(c, head, s->heads), w->h = cg_sub(c, head, cg_mul(c, w->b, s->heads));
  for (AttnRole r = 0; r < N_ATTN_ROLES; r++) {
    const AttnPlace *p = &s->a.place[r];
    V steps = r == ATTN_Q ? s->tq : s->tk;
    w->in[r] = cg_attention_rows(s, storage(c, ir_arg(c->f, s->v, p->operand)), p, steps, w->b, w->h);
    w->d[r] = cg_attention_rows(s, storage(c, result_of(s, r)), p, steps, w->b, w->h);
  }
  w->out = cg_attention_rows(s, storage(c, operand(s, ARG_out)), &s->a.out, s->tq, w->b, w->h);
  w->g = cg_attention_rows(s, storage(c, operand(s, ARG_g)), &s->a.out, s->tq, w->b, w->h);
  V row = cg_mul(c, head, s->tq);
  w->lse = cg_at(c, c->f32, storage(c, operand(s, ARG_lse)), row);
  w->delta_row = cg_at(c, c->f32, w->delta, row);
}

// ---- delta
static V dot_row(AttnCode *s, V a, V b) {
  Cg *c = s->c;
  V sum = cg_splat(c, cg_f32(c, 0));
  int64_t vl = c->t->vl, whole = s->a.size / vl * vl;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, whole), cg_i64(c, vl), &sum, 1);
  sum = cg_fma(c, cg_load(c, c->vf, cg_at(c, c->f32, a, l.i)), cg_load(c, c->vf, cg_at(c, c->f32, b, l.i)), l.carry[0]);
  cg_loop_end(c, &l, &sum);
  sum = l.out[0];
  if (whole == s->a.size) return cg_reduce_add(c, sum);
  V mask = cg_mask(c, cg_i64(c, s->a.size - whole)), at = cg_i64(c, whole);
  V x = cg_load_masked(c, c->vf, cg_at(c, c->f32, a, at), mask);
  return cg_reduce_add(c, cg_fma(c, x, cg_load_masked(c, c->vf, cg_at(c, c->f32, b, at), mask), sum));
}

static void make_delta(Backward *w, V t) {
  Cg *c = w->s->c;
  V sum = dot_row(w->s, cg_attention_row(w->s, w->out, t), cg_attention_row(w->s, w->g, t));
  cg_store(c, sum, cg_at(c, c->f32, w->delta_row, t));
}

static void each_step(Backward *w, V lo, V hi, void (*act)(Backward *w, V t)) {
  Cg *c = w->s->c;
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  act(w, l.i);
  cg_loop_end(c, &l, NULL);
}

// ---- blocks
static bool is_made(const Backward *w, AttnRole r) {
  return (r == ATTN_Q ? w->makes_q : w->makes_kv) && cg_stored(w->s->c, result_of(w->s, r));
}

static void clear(Backward *w, AttnRole r, V t) {
  if (is_made(w, r)) cg_attention_scale_row(w->s, cg_attention_row(w->s, w->d[r], t), NULL);
}
static void clear_query(Backward *w, V t) { clear(w, ATTN_Q, t); }
static void clear_key(Backward *w, V t) {
  clear(w, ATTN_K, t);
  clear(w, ATTN_V, t);
}

// Scores and dP of a row become P, as dropout leaves it, and dS. n columns, the first `seen` of them seen.
static void gradient_row(Backward *w, V i, V t, V k0, V n, V seen) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  V at = cg_mul(c, i, cg_i64(c, s->keys)), p_row = cg_at(c, c->f32, w->p, at), ds_row = cg_at(c, c->f32, w->ds, at);
  V zero = cg_splat(c, cg_f32(c, 0)), scale = cg_splat(c, cg_f32(c, s->a.scale));
  V minus = cg_splat(c, LLVMBuildFNeg(c->b, cg_load(c, c->f32, cg_at(c, c->f32, w->lse, t)), ""));
  V delta = cg_splat(c, cg_load(c, c->f32, cg_at(c, c->f32, w->delta_row, t)));
  V element = s->id ? cg_add(c, cg_attention_element(s, w->b, w->h, t), k0) : NULL;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), n, cg_i64(c, c->t->vl), NULL, 0);
  V p_at = cg_at(c, c->f32, p_row, l.i), ds_at = cg_at(c, c->f32, ds_row, l.i);
  V mask = cg_mask(c, cg_sub(c, seen, l.i)), x = cg_fma(c, cg_load(c, c->vf, p_at), scale, minus);
  V p = LLVMBuildSelect(c->b, mask, cg_primitive(c, OP_exp, &x), zero, ""), dp = cg_load(c, c->vf, ds_at), kept = p;
  if (s->id) {
    V keep = cg_attention_dropout_scale(s, element, l.i);
    kept = times(c, p, keep), dp = times(c, dp, keep);
  }
  cg_store(c, kept, p_at);
  V ds = times(c, times(c, p, scale), LLVMBuildFSub(c->b, dp, delta, ""));
  cg_store(c, LLVMBuildSelect(c->b, mask, ds, zero, ""), ds_at);
  cg_loop_end(c, &l, NULL);
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
static void add_keys(Backward *w, AttnRole role, V block, AttnRows rows, V q0, V m, V k0, V n) {
  AttnCode *s = w->s;
  if (!is_made(w, role)) return;
  AttnProduct p = {
      .a = block, .b = cg_attention_row(s, rows, q0), .c = cg_attention_row(s, w->d[role], k0), .a_row = 1};
  p.a_k = s->keys, p.b_k = rows.row, p.c_row = w->d[role].row, p.m = n, p.k = m, p.mr = s->mr_k;
  p.exact = cg_attention_whole(s, s->a.tk, s->mr_k) && (!s->a.causal || cg_attention_whole(s, s->a.tq, s->mr_k));
  cg_attention_accumulate(s, &p, false);
}

static void add_queries(Backward *w, V q0, V m, V k0, V n) {
  AttnCode *s = w->s;
  if (!is_made(w, ATTN_Q)) return;
  AttnRows keys = w->in[ATTN_K];
  AttnProduct p = {
      .a = w->ds, .b = cg_attention_row(s, keys, k0), .c = cg_attention_row(s, w->d[ATTN_Q], q0), .a_k = 1};
  p.a_row = s->keys, p.b_k = keys.row, p.c_row = w->d[ATTN_Q].row, p.m = m, p.k = n, p.mr = s->mr_q;
  p.exact = cg_attention_whole(s, s->a.tq, s->mr_q);
  cg_attention_accumulate(s, &p, false);
}

// Queries q0 .. q0 + m and keys k0 .. k0 + n, of which `seen` are not padding.
static void block(Backward *w, V q0, V m, V k0, V n, V seen) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  if (s->a.causal) n = cg_min(c, n, cg_sub(c, cg_add(c, q0, m), k0));
  scores(w, w->in[ATTN_Q], w->keys_t, w->p, q0, m, n);
  scores(w, w->g, w->values_t, w->ds, q0, m, n);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), m, cg_i64(c, 1), NULL, 0);
  V t = cg_add(c, q0, l.i), sees = seen;
  if (s->a.causal) sees = cg_min(c, seen, cg_sub(c, cg_add(c, t, cg_i64(c, 1)), k0));
  gradient_row(w, l.i, t, k0, n, sees);
  cg_loop_end(c, &l, NULL);
  add_keys(w, ATTN_V, w->p, w->g, q0, m, k0, n);
  add_keys(w, ATTN_K, w->ds, w->in[ATTN_Q], q0, m, k0, n);
  add_queries(w, q0, m, k0, cg_min(c, n, seen));
}

// Queries q_lo .. q_hi against keys k_lo .. k_hi.
static void walk(Backward *w, V q_lo, V q_hi, V k_lo, V k_hi) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  V length = cg_attention_length(s, w->b), end = cg_min(c, k_hi, length), size = cg_i64(c, ATTN_BLOCK);
  if (s->a.causal) end = cg_min(c, end, q_hi);
  Loop key, query;
  cg_loop_begin(c, &key, k_lo, end, cg_i64(c, s->keys), NULL, 0);
  V n = cg_min(c, cg_i64(c, s->keys), cg_sub(c, s->tk, key.i)), seen = cg_sub(c, end, key.i), first = q_lo;
  cg_attention_transpose(s, cg_attention_row(s, w->in[ATTN_K], key.i), w->in[ATTN_K].row, n, w->keys_t);
  cg_attention_transpose(s, cg_attention_row(s, w->in[ATTN_V], key.i), w->in[ATTN_V].row, n, w->values_t);
  if (s->a.causal) {
    V at = cg_mul(c, cg_div(c, key.i, size), size);
    first = LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, LLVMIntSGT, at, q_lo, ""), at, q_lo, "");
  }
  cg_loop_begin(c, &query, first, q_hi, size, NULL, 0);
  block(w, query.i, cg_min(c, size, cg_sub(c, q_hi, query.i)), key.i, n, seen);
  cg_loop_end(c, &query, NULL);
  cg_loop_end(c, &key, NULL);
}

// ---- units, round robin
static V unit_begin(Backward *w, Loop *l, V per_head) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  cg_loop_begin(c, l, c->worker, cg_mul(c, cg_mul(c, s->batch, s->heads), per_head), c->n_workers, NULL, 0);
  V head = cg_div(c, l->i, per_head);
  open_head(w, head);
  return cg_sub(c, l->i, cg_mul(c, head, per_head));
}

static void heads(Backward *w) {
  Cg *c = w->s->c;
  V zero = cg_i64(c, 0), tq = w->s->tq, tk = w->s->tk;
  Loop l;
  w->makes_q = w->makes_kv = true;
  unit_begin(w, &l, cg_i64(c, 1));
  each_step(w, zero, tq, make_delta);
  each_step(w, zero, tq, clear_query);
  each_step(w, zero, tk, clear_key);
  walk(w, zero, tq, zero, tk);
  cg_loop_end(c, &l, NULL);
}

// A range of steps of the unit's head: number `part` of size `size`.
static void range_of(Cg *c, V part, int64_t size, V steps, V *lo, V *hi) {
  *lo = cg_mul(c, part, cg_i64(c, size));
  *hi = cg_min(c, steps, cg_add(c, *lo, cg_i64(c, size)));
}

static void queries(Backward *w, bool delta) {
  Cg *c = w->s->c;
  V lo, hi, zero = cg_i64(c, 0);
  Loop l;
  range_of(c, unit_begin(w, &l, cg_ceil_div_value(c, w->s->tq, ATTN_CHUNK)), ATTN_CHUNK, w->s->tq, &lo, &hi);
  w->makes_q = !delta, w->makes_kv = false;
  each_step(w, lo, hi, delta ? make_delta : clear_query);
  if (!delta) walk(w, lo, hi, zero, w->s->tk);
  cg_loop_end(c, &l, NULL);
}

static void keys(Backward *w) {
  AttnCode *s = w->s;
  Cg *c = s->c;
  V lo, hi, zero = cg_i64(c, 0);
  Loop l;
  range_of(c, unit_begin(w, &l, cg_ceil_div_value(c, s->tk, s->keys)), s->keys, s->tk, &lo, &hi);
  w->makes_q = false, w->makes_kv = true;
  each_step(w, lo, hi, clear_key);
  walk(w, zero, s->tq, lo, hi);
  cg_loop_end(c, &l, NULL);
}

void cg_attention_backward(AttnCode *s) {
  Cg *c = s->c;
  Backward w = {.s = s, .delta = c->scratch ? c->scratch : LLVMConstNull(c->ptr)};
  w.keys_t = cg_attention_stack(s, s->size_up * s->keys), w.values_t = cg_attention_stack(s, s->size_up * s->keys);
  w.p = cg_attention_stack(s, ATTN_BLOCK * s->keys), w.ds = cg_attention_stack(s, ATTN_BLOCK * s->keys);
  if (has_many_heads(c->f, &s->a)) {
    heads(&w);
    return;
  }
  queries(&w, true);
  cg_team_barrier(c, cg_i32(c, 0), c->n_workers);
  keys(&w);
  if (cg_stored(c, result_of(s, ATTN_Q))) queries(&w, false);
}
