// Attention in the interpreter: row by row, as the formula says.
#include "ir/attention.h"
#include "ir/interp/interp.h"

#include <math.h>

typedef struct {
  Run *r;
  Val v;
  Attention a;
  int64_t batch, tq, tk;
  uint32_t id;
} Head;

static bool open_heads(Run *r, Val v, Head *h) {
  *h = (Head){.r = r, .v = v, .id = (uint32_t)(ir_attr_int(r->f, v, KEY_id, 0) + r->env->step)};
  ir_attention(r->f, v, &h->a);
  const Prog *p = r->f->prog;
  h->batch = ir_dim_eval(p, h->a.batch, r->env->slots);
  h->tq = ir_dim_eval(p, h->a.tq, r->env->slots), h->tk = ir_dim_eval(p, h->a.tk, r->env->slots);
  for (int64_t b = 0; !ir_none(h->a.lengths) && b < h->batch; b++) {
    double n = run_operand(r, v, ARG_lengths).v[b];
    if (n < 0 || n > (double)h->tk)
      return run_fail(r, v, "length %lld at %lld is not in [0, %lld]", (long long)n, (long long)b, (long long)h->tk);
  }
  return true;
}

// The D elements of step t of a place in t_steps steps.
static double *row_of(const Head *h, Tensor x, const AttnPlace *p, int64_t steps, int64_t b, int64_t head, int64_t t) {
  int64_t one = p->head ? p->head : steps * p->row, batch = p->head ? steps * p->row : h->a.heads * one;
  return x.v + p->offset + b * batch + head * one + t * p->row;
}

static double *part(const Head *h, AttnRole role, int64_t b, int64_t head, int64_t t) {
  const AttnPlace *p = &h->a.place[role];
  return row_of(h, run_arg(h->r, h->v, p->operand), p, role == ATTN_Q ? h->tq : h->tk, b, head, t);
}

// Keys that query t of sequence b sees: the first n.
static int64_t n_seen(const Head *h, int64_t b, int64_t t) {
  int64_t n = ir_none(h->a.lengths) ? h->tk : (int64_t)run_operand(h->r, h->v, ARG_lengths).v[b];
  return h->a.causal && t + 1 < n ? t + 1 : n;
}

static double dot(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

static double score(const Head *h, int64_t b, int64_t head, int64_t t, int64_t k) {
  return h->a.scale * dot(part(h, ATTN_Q, b, head, t), part(h, ATTN_K, b, head, k), h->a.size);
}

// What dropout leaves of a probability: 0 or 1 / (1 - p).
static double kept(const Head *h, int64_t b, int64_t head, int64_t t, int64_t k) {
  if (h->a.p == 0) return 1;
  const InterpEnv *e = h->r->env;
  uint64_t element = (uint64_t)(((b * h->a.heads + head) * h->tq + t) * h->tk + k);
  return ir_philox_uniform(e->seed, e->counter, h->id, element) >= h->a.p ? 1 / (1 - h->a.p) : 0;
}

// A row that sees no key is zeros.
static double forward_row(const Head *h, double *out, int64_t b, int64_t head, int64_t t) {
  int64_t n = n_seen(h, b, t);
  double top = -INFINITY, sum = 0;
  for (int64_t k = 0; k < n; k++) top = fmax(top, score(h, b, head, t, k));
  for (int64_t k = 0; k < n; k++) {
    double e = exp(score(h, b, head, t, k) - top), *v = part(h, ATTN_V, b, head, k);
    sum += e;
    for (int64_t d = 0; d < h->a.size; d++) out[d] += e * kept(h, b, head, t, k) * v[d];
  }
  for (int64_t d = 0; n > 0 && d < h->a.size; d++) out[d] /= sum;
  return n > 0 ? top + log(sum) : -INFINITY;
}

bool eval_sdpa(Run *r, Val v) {
  Head h;
  Tensor out = run_result(r, v, 0), lse = run_result(r, v, 1);
  if (!open_heads(r, v, &h)) return false;
  for (int64_t b = 0; b < h.batch; b++)
    for (int64_t k = 0; k < h.a.heads; k++)
      for (int64_t t = 0; t < h.tq; t++)
        lse.v[(b * h.a.heads + k) * h.tq + t] = forward_row(&h, row_of(&h, out, &h.a.out, h.tq, b, k, t), b, k, t);
  return true;
}

typedef struct {
  Tensor d[3];  // gradients of the tensor operands
  Tensor out, lse, g;
} Back;

static double *grad_part(const Head *h, const Back *x, AttnRole role, int64_t b, int64_t head, int64_t t) {
  const AttnPlace *p = &h->a.place[role];
  return row_of(h, x->d[p->operand], p, role == ATTN_Q ? h->tq : h->tk, b, head, t);
}

static void backward_row(const Head *h, const Back *x, int64_t b, int64_t head, int64_t t) {
  int64_t n = n_seen(h, b, t), size = h->a.size;
  const double *g = row_of(h, x->g, &h->a.out, h->tq, b, head, t), *q = part(h, ATTN_Q, b, head, t);
  double delta = dot(g, row_of(h, x->out, &h->a.out, h->tq, b, head, t), size),
         *dq = grad_part(h, x, ATTN_Q, b, head, t);
  for (int64_t k = 0; k < n; k++) {
    double p = exp(score(h, b, head, t, k) - x->lse.v[(b * h->a.heads + head) * h->tq + t]);
    double keep = kept(h, b, head, t, k), *key = part(h, ATTN_K, b, head, k);
    double ds = h->a.scale * p * (keep * dot(g, part(h, ATTN_V, b, head, k), size) - delta);
    double *dk = grad_part(h, x, ATTN_K, b, head, k), *dv = grad_part(h, x, ATTN_V, b, head, k);
    for (int64_t d = 0; d < size; d++) {
      dq[d] += ds * key[d];
      dk[d] += ds * q[d];
      dv[d] += p * keep * g[d];
    }
  }
}

bool eval_sdpa_grad(Run *r, Val v) {
  Head h;
  if (!open_heads(r, v, &h)) return false;
  Back x = {.out = run_operand(r, v, ARG_out), .lse = run_operand(r, v, ARG_lse), .g = run_operand(r, v, ARG_g)};
  for (uint32_t k = 0; k < 3; k++) x.d[k] = run_result(r, v, k);
  for (int64_t b = 0; b < h.batch; b++)
    for (int64_t k = 0; k < h.a.heads; k++)
      for (int64_t t = 0; t < h.tq; t++) backward_row(&h, &x, b, k, t);
  return true;
}
