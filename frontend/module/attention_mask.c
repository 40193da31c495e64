// Which keys a query of attention sees by causal order, window, offset and lengths, as a value: for those that compute with
// it. The op itself has no such matrix in memory.
#include "frontend/graph/ops.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/shape.h"
#include "frontend/module/attention.h"
#include "frontend/packed/packed.h"
#include "ir/build.h"

typedef struct {
  tn_function *f;
  Dim n_queries, n_keys;
  const tn_attention_options *o;
  tn_site at;
} Mask;

static tn_tensor op2(const Mask *m, Op op, tn_tensor a, tn_tensor b) {
  return fe_ok(a) && fe_ok(b) ? fe_emit2(op, a, b, m->at) : fe_poison(m->f);
}

static tn_tensor number(const Mask *m, int64_t x) { return fe_number(m->f, (double)x, DT_I64, m->at); }

// i64 [rows, columns], one of which is 1: 0, 1, 2, ..
static tn_tensor positions(const Mask *m, Dim rows, Dim columns, Dim n) {
  tn_tensor k = fe_cast(fe_positions(m->f, n, m->at), DT_I64, m->at);
  return fe_ok(k) ? fe_reshape(k, (Dim[]){rows, columns}, 2, m->at) : k;
}

// bool
static tn_tensor compare(const Mask *m, Op op, tn_tensor a, tn_tensor b) {
  return fe_ok(a) && fe_ok(b) ? fe_pointwise(op, (const tn_tensor[]){a, b}, 2, NULL, 0, m->at) : fe_poison(m->f);
}

// a: empty: all
static tn_tensor both(const Mask *m, tn_tensor a, tn_tensor b) { return a.fn ? op2(m, OP_bitwise_and, a, b) : b; }

// The key that each query stands at, [Tq,1], or [B,1,Tq,1]. An offset of the run is cut to where it still makes a difference, so that
// no sum overflows.
static tn_tensor places(const Mask *m) {
  const tn_attention_options *o = m->o;
  Prog *p = m->f->p->ir;
  tn_tensor at = positions(m, m->n_queries, ir_dim(p, 1), m->n_queries);
  if (!o->offset.fn) return op2(m, OP_add, at, number(m, o->const_offset));
  int64_t least = -ir_dim_bound(p, m->n_queries) - o->window, most = ir_dim_bound(p, m->n_keys) + o->window;
  const Attr bounds[] = {ir_a_num(KEY_lo, (double)least), ir_a_num(KEY_hi, (double)most)};
  tn_tensor offset = fe_cast(o->offset, DT_I64, m->at);
  if (fe_ok(offset) && fe_rank(offset) == 1) offset = fe_as_column(offset, 4, m->at);
  return fe_ok(offset) ? op2(m, OP_add, at, fe_emit(OP_clamp, &offset, 1, bounds, 2, m->at)) : offset;
}

tn_tensor fe_visible_keys(tn_function *f, Dim n_queries, Dim n_keys, const tn_attention_options *o, tn_site at) {
  const Mask m = {f, n_queries, n_keys, o, at};
  Dim one = ir_dim(f->p->ir, 1);
  tn_tensor seen = {0}, keys = positions(&m, one, n_keys, n_keys);
  if (o->causal || o->window) {
    tn_tensor place = places(&m);
    if (o->causal) seen = compare(&m, OP_le, keys, place);
    if (o->window) seen = both(&m, seen, compare(&m, OP_gt, keys, op2(&m, OP_sub, place, number(&m, o->window))));
    if (o->window && !o->causal)
      seen = both(&m, seen, compare(&m, OP_lt, keys, op2(&m, OP_add, place, number(&m, o->window))));
  }
  if (!o->lengths.fn) return seen;
  tn_tensor n = fe_reshape(fe_cast(o->lengths, DT_I64, at), (Dim[]){fe_axis_dim(o->lengths, 0), one, one, one}, 4, at);
  return both(&m, seen, compare(&m, OP_lt, keys, n));
}
