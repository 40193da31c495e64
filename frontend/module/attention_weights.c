// The weights of an attention as a result: which part of each key's value a query took. The attention itself stays what it
// is without them; beside it the matrix of queries by keys is made once more, in memory, by ops that have gradients.
//
//   %y, %lse = sdpa %q, %k, %v {causal}      %s = matmul %q, %k {tb}       %s' = select visible, %s * scale + bias, -inf
//                                            %w = dropout(softmax %s')     0 where %lse is -inf: nothing is visible
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/module/attention.h"
#include "frontend/packed/packed.h"
#include "ir/build.h"

#include <math.h>

typedef struct {
  tn_function *f;
  const tn_attention_options *o;
  tn_tensor q, k;  // [B,H,Tq,D], [B,G,Tk,D]
  tn_site at;
} Weights;

static tn_tensor op2(const Weights *w, Op op, tn_tensor a, tn_tensor b) {
  return fe_ok(a) && fe_ok(b) ? fe_emit2(op, a, b, w->at) : fe_poison(w->f);
}

// a where cond is not 0, else b
static tn_tensor pick(const Weights *w, tn_tensor cond, tn_tensor a, tn_tensor b) {
  if (!fe_ok(cond) || !fe_ok(a) || !fe_ok(b)) return fe_poison(w->f);
  return fe_emit(OP_select, (const tn_tensor[]){cond, a, b}, 3, NULL, 0, w->at);
}

// [B,H,Tq,Tk]; the queries of heads that share keys are rows of one product
static tn_tensor scores(const Weights *w) {
  Prog *p = w->f->p->ir;
  Dim d[] = {fe_axis_dim(w->q, 0), fe_axis_dim(w->q, 1), fe_axis_dim(w->q, 2), fe_axis_dim(w->q, 3)},
      groups = fe_axis_dim(w->k, 1);
  int64_t n_groups = ir_dim_bound(p, groups);
  Dim rows = ir_dim_mul(p, ir_dim(p, n_groups ? ir_dim_bound(p, d[1]) / n_groups : 1), d[2]);
  tn_tensor q = d[1].i == groups.i ? w->q : fe_reshape(w->q, (Dim[]){d[0], groups, rows, d[3]}, 4, w->at);
  if (!fe_ok(q)) return q;
  tn_tensor s = fe_emit(OP_matmul, (const tn_tensor[]){q, w->k}, 2, (const Attr[]){ir_a_int(KEY_tb, 1)}, 1, w->at);
  int64_t size = ir_dim_bound(p, d[3]);
  double scale = w->o->scale != 0 ? w->o->scale : size ? 1 / sqrt((double)size) : 1;
  s = op2(w, OP_mul, s, fe_const(w->f, scale, w->at));
  return fe_ok(s) ? fe_reshape(s, (Dim[]){d[0], d[1], d[2], fe_axis_dim(w->k, 2)}, 4, w->at) : s;
}

// [B,H,Tq] -> bool [B,H,Tq,1]: a row without visible keys
static tn_tensor sees_none(const Weights *w, tn_tensor lse) {
  const Dim d[] = {fe_axis_dim(lse, 0), fe_axis_dim(lse, 1), fe_axis_dim(lse, 2), ir_dim(w->f->p->ir, 1)};
  return op2(w, OP_eq, fe_reshape(lse, d, 4, w->at), fe_const(w->f, -INFINITY, w->at));
}

static tn_tensor as_batch_of_heads(tn_tensor x, bool heads_inside, tn_site at) {
  return heads_inside && fe_ok(x) ? fe_permute(x, (const uint32_t[]){0, 2, 1, 3}, at) : x;
}

// Part k of an operand [B,T,n,H,D]
static tn_tensor part_of(tn_tensor x, int64_t k, tn_site at) {
  tn_tensor y = fe_slice(x, 2, k, 1, at);
  if (!fe_ok(y)) return y;
  return fe_reshape(y, (Dim[]){fe_axis_dim(y, 0), fe_axis_dim(y, 1), fe_axis_dim(y, 3), fe_axis_dim(y, 4)}, 4, at);
}

static tn_tensor weights_of(const tn_tensor *in, uint32_t n, tn_tensor bias, tn_tensor lse, uint32_t stream,
                            const tn_attention_options *o, tn_site at) {
  Weights w = {.f = lse.fn, .o = o, .at = at};
  bool inside = n < 3 || o->heads_inside;
  w.q = as_batch_of_heads(n == 1 ? part_of(in[0], 0, at) : in[0], inside, at);
  w.k = as_batch_of_heads(n == 3 ? in[1] : part_of(in[n - 1], n == 1 ? 1 : 0, at), inside, at);
  if (!fe_ok(w.q) || !fe_ok(w.k)) return fe_poison(w.f);
  tn_tensor s = scores(&w), seen = fe_visible_keys(w.f, fe_axis_dim(w.q, 2), fe_axis_dim(w.k, 2), o, at),
            zero = fe_const(w.f, 0, at);
  if (bias.fn) s = op2(&w, OP_add, s, bias);
  if (seen.fn) s = pick(&w, fe_cast(seen, DT_F32, at), s, fe_const(w.f, -INFINITY, at));
  tn_tensor none = sees_none(&w, lse);
  tn_tensor p = pick(&w, none, zero, s);
  if (fe_ok(p)) p = pick(&w, none, zero, fe_emit1(OP_softmax, p, at));
  if (!stream || !fe_ok(p)) return p;
  const Attr dropout[] = {ir_a_num(KEY_p, o->dropout), ir_a_int(KEY_id, stream)};
  return fe_emit(OP_dropout, &p, 1, dropout, 2, at);
}

// [B,H,T] of numbers [H,rows], -inf at steps that do not exist
static tn_tensor padded_lse(tn_tensor lse, tn_tensor layout, tn_site at) {
  const Attr absent = ir_a_num(KEY_value, -INFINITY);
  tn_tensor rows = fe_permute(lse, (const uint32_t[]){1, 0}, at);
  rows = fe_ok(rows) ? fe_move_rows(OP_unpack_padded, rows, layout, &absent, 1, at) : rows;
  return fe_ok(rows) ? fe_permute(rows, (const uint32_t[]){0, 2, 1}, at) : rows;
}

tn_tensor fe_attention_weights(const FeAttended *a, tn_tensor y, uint32_t stream, const tn_attention_options *o,
                               tn_site at) {
  tn_tensor lse = {y.fn, y.v + 1}, of_keys = a->kv_layout.fn ? a->kv_layout : a->layout, in[3];
  if (!a->layout.fn) return weights_of(a->in, a->n, a->bias, lse, stream, o, at);
  tn_attention_options padded = *o;
  for (uint32_t k = 0; k < a->n; k++) {
    in[k] = fe_move_rows(OP_unpack_padded, a->in[k], k ? of_keys : a->layout, NULL, 0, at);
    if (!fe_ok(in[k])) return in[k];
  }
  padded.heads_inside = true, padded.lengths = fe_layout_part(of_keys, "lengths", at);
  lse = padded_lse(lse, a->layout, at);
  return fe_ok(lse) && fe_ok(padded.lengths) ? weights_of(in, a->n, a->bias, lse, stream, &padded, at)
                                             : fe_poison(y.fn);
}
