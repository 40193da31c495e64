// Attention in the interpreter: row by row, as the formula says.
#include "ir/attention.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/interp/interp.h"
#include "ir/interp/packed.h"

#include <math.h>

typedef struct {
  Run *r;
  Val v;
  Attention a;
  int64_t batch, tq, tk;
  Layout of_q, of_k;  // of packed rows
  uint32_t id;
} Head;

static bool open_heads(Run *r, Val v, Head *h) {
  *h = (Head){.r = r, .v = v, .id = (uint32_t)(ir_attr_int(r->f, v, KEY_id, 0) + r->env->step)};
  ir_attention(r->f, v, &h->a);
  const Prog *p = r->f->prog;
  h->batch = ir_dim_eval(p, h->a.batch, r->env->slots);
  h->tq = ir_dim_eval(p, h->a.tq, r->env->slots), h->tk = ir_dim_eval(p, h->a.tk, r->env->slots);
  if (ir_attention_is_packed(&h->a))
    h->of_q = run_layout_of(r, h->a.layout), h->of_k = run_layout_of(r, h->a.kv_layout);
  for (int64_t b = 0; !ir_none(h->a.lengths) && b < h->batch; b++) {
    double n = run_operand(r, v, ARG_lengths).v[b];
    if (n < 0 || n > (double)h->tk)
      return run_fail(r, v, "length %lld at %lld is not in [0, %lld]", (long long)n, (long long)b, (long long)h->tk);
  }
  return true;
}

// The steps of sequence b: of queries, of keys.
static int64_t n_queries(const Head *h, int64_t b) {
  return ir_attention_is_packed(&h->a) ? (int64_t)h->of_q.lengths[b] : h->tq;
}
static int64_t n_keys(const Head *h, int64_t b) {
  if (ir_attention_is_packed(&h->a)) return (int64_t)h->of_k.lengths[b];
  return ir_none(h->a.lengths) ? h->tk : (int64_t)run_operand(h->r, h->v, ARG_lengths).v[b];
}

static int64_t packed_row(const Layout *l, int64_t b, int64_t t) { return (int64_t)(l->offsets[t] + l->unsorted[b]); }

// The D elements of step t of a place whose steps are those of the queries, or of the keys.
static double *row_of(const Head *h, Tensor x, const AttnPlace *p, bool is_query, int64_t b, int64_t head, int64_t t) {
  double *at = x.v + p->offset;
  if (ir_attention_is_packed(&h->a))
    return at + head * p->head + packed_row(is_query ? &h->of_q : &h->of_k, b, t) * p->row;
  int64_t steps = is_query ? h->tq : h->tk;
  int64_t one = p->head ? p->head : steps * p->row, batch = p->head ? steps * p->row : p->heads * one;
  return at + b * batch + head * one + t * p->row;
}

static double *part(const Head *h, AttnRole role, int64_t b, int64_t head, int64_t t) {
  const AttnPlace *p = &h->a.place[role];
  bool is_query = role == ATTN_Q;
  return row_of(h, run_arg(h->r, h->v, p->operand), p, is_query, b, is_query ? head : head / h->a.group, t);
}

static int64_t lse_at(const Head *h, int64_t b, int64_t head, int64_t t) {
  if (!ir_attention_is_packed(&h->a)) return (b * h->a.heads + head) * h->tq + t;
  return head * (int64_t)h->of_q.head[TN_LAYOUT_ROWS] + packed_row(&h->of_q, b, t);
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t offset_of(const Head *h, int64_t b) {
  if (ir_none(h->a.offset_value)) return h->a.offset;
  bool by_sequence = ir_rank(h->r->f->prog, ir_ins(h->r->f, h->a.offset_value)->shape) == 1;
  double offset = run_operand(h->r, h->v, ARG_offset).v[by_sequence ? b : 0];
  return (int64_t)fmax(-(double)h->tq - h->a.window, fmin((double)h->tk + h->a.window, offset));
}

// Keys that query t of sequence b sees: [*lo, *hi).
static void seen(const Head *h, int64_t b, int64_t t, int64_t *lo, int64_t *hi) {
  int64_t at = t + offset_of(h, b);  // where it stands
  *lo = 0, *hi = n_keys(h, b);
  if (h->a.window && at - h->a.window + 1 > 0) *lo = at - h->a.window + 1;
  if (h->a.causal) *hi = smaller(*hi, at + 1);
  else if (h->a.window) *hi = smaller(*hi, at + h->a.window);
}

// Element of the bias for a pair.
static int64_t bias_at(const Head *h, int64_t b, int64_t head, int64_t t, int64_t k) {
  const int64_t at[4] = {b, head, t, k}, size[4] = {h->batch, h->a.heads, h->tq, h->tk};
  int64_t i = 0;
  for (int axis = 0; axis < 4; axis++)
    if (h->a.bias_has[axis]) i = i * size[axis] + at[axis];
  return i;
}

static double dot(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

static double score(const Head *h, int64_t b, int64_t head, int64_t t, int64_t k) {
  double s = h->a.scale * dot(part(h, ATTN_Q, b, head, t), part(h, ATTN_K, b, head, k), h->a.size);
  return ir_none(h->a.bias) ? s : s + run_operand(h->r, h->v, ARG_attn_bias).v[bias_at(h, b, head, t, k)];
}

// Factor of dropout for a probability: 0 or 1 / (1 - p).
static double kept(const Head *h, int64_t b, int64_t head, int64_t t, int64_t k) {
  if (h->a.p == 0) return 1;
  const InterpEnv *e = h->r->env;
  uint64_t element = (uint64_t)(((b * h->a.heads + head) * h->tq + t) * h->tk + k);
  return ir_philox_uniform(e->seed, e->counter, h->id, element) >= h->a.p ? 1 / (1 - h->a.p) : 0;
}

// A row that sees no key, or only keys whose bias is -inf, is zeros.
static double forward_row(const Head *h, double *out, int64_t b, int64_t head, int64_t t) {
  int64_t lo, hi;
  double top = -INFINITY, sum = 0;
  seen(h, b, t, &lo, &hi);
  for (int64_t k = lo; k < hi; k++) top = ir_primitive(OP_max, top, score(h, b, head, t, k), 0);  // NaN stays
  if (top == -INFINITY) return top;
  for (int64_t k = lo; k < hi; k++) {
    double e = exp(score(h, b, head, t, k) - top), *v = part(h, ATTN_V, b, head, k);
    sum += e;
    for (int64_t d = 0; d < h->a.size; d++) out[d] += e * kept(h, b, head, t, k) * v[d];
  }
  for (int64_t d = 0; d < h->a.size; d++) out[d] /= sum;
  return top + log(sum);
}

bool eval_sdpa(Run *r, Val v) {
  Head h;
  Tensor out = run_result(r, v, 0), lse = run_result(r, v, 1);
  if (!open_heads(r, v, &h)) return false;
  for (int64_t b = 0; b < h.batch; b++)
    for (int64_t k = 0; k < h.a.heads; k++)
      for (int64_t t = 0; t < n_queries(&h, b); t++)
        lse.v[lse_at(&h, b, k, t)] = forward_row(&h, row_of(&h, out, &h.a.out, true, b, k, t), b, k, t);
  return true;
}

typedef struct {
  Tensor d[3];  // gradients of the tensor operands
  Tensor out, lse, g;
} Back;

static double *grad_part(const Head *h, const Back *x, AttnRole role, int64_t b, int64_t head, int64_t t) {
  const AttnPlace *p = &h->a.place[role];
  bool is_query = role == ATTN_Q;
  return row_of(h, x->d[p->operand], p, is_query, b, is_query ? head : head / h->a.group, t);
}

// Probability of a pair, and the gradient of its score.
typedef struct {
  double p, kept, ds;
} Pair;

static Pair pair(const Head *h, const Back *x, int64_t b, int64_t head, int64_t t, int64_t k) {
  const double *g = row_of(h, x->g, &h->a.out, true, b, head, t);
  double delta = dot(g, row_of(h, x->out, &h->a.out, true, b, head, t), h->a.size);
  double lse = x->lse.v[lse_at(h, b, head, t)];
  Pair y = {.p = lse == -INFINITY ? 0 : exp(score(h, b, head, t, k) - lse), .kept = kept(h, b, head, t, k)};
  y.ds = y.p * (y.kept * dot(g, part(h, ATTN_V, b, head, k), h->a.size) - delta);
  return y;
}

static void backward_row(const Head *h, const Back *x, int64_t b, int64_t head, int64_t t) {
  int64_t lo, hi;
  const double *g = row_of(h, x->g, &h->a.out, true, b, head, t), *q = part(h, ATTN_Q, b, head, t);
  double *dq = grad_part(h, x, ATTN_Q, b, head, t);
  seen(h, b, t, &lo, &hi);
  for (int64_t k = lo; k < hi; k++) {
    Pair y = pair(h, x, b, head, t, k);
    const double *key = part(h, ATTN_K, b, head, k);
    double *dk = grad_part(h, x, ATTN_K, b, head, k), *dv = grad_part(h, x, ATTN_V, b, head, k), ds = h->a.scale * y.ds;
    for (int64_t d = 0; d < h->a.size; d++) {
      dq[d] += ds * key[d];
      dk[d] += ds * q[d];
      dv[d] += y.p * y.kept * g[d];
    }
  }
}

static void bias_row(const Head *h, const Back *x, int64_t b, int64_t head, int64_t t) {
  int64_t lo, hi;
  seen(h, b, t, &lo, &hi);
  for (int64_t k = lo; k < hi; k++) x->d[0].v[bias_at(h, b, head, t, k)] += pair(h, x, b, head, t, k).ds;
}

static bool backward(Run *r, Val v, void (*row)(const Head *h, const Back *x, int64_t b, int64_t head, int64_t t)) {
  Head h;
  if (!open_heads(r, v, &h)) return false;
  Back x = {.out = run_operand(r, v, ARG_out), .lse = run_operand(r, v, ARG_lse), .g = run_operand(r, v, ARG_g)};
  for (uint32_t k = 0; k < ir_ops[ir_ins(r->f, v)->op].n_res; k++) x.d[k] = run_result(r, v, k);
  for (int64_t b = 0; b < h.batch; b++)
    for (int64_t k = 0; k < h.a.heads; k++)
      for (int64_t t = 0; t < n_queries(&h, b); t++) row(&h, &x, b, k, t);
  return true;
}

bool eval_sdpa_grad(Run *r, Val v) { return backward(r, v, backward_row); }
bool eval_sdpa_bias_grad(Run *r, Val v) { return backward(r, v, bias_row); }
