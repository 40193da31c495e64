// Views and spans (span.h).
#include "codegen/span.h"

View cg_view(V base, DType t) { return (View){base, t, t}; }

V cg_view_get(Cg *c, View v, V i, uint32_t lanes, V mask) {
  return cg_convert(c, v.type, v.as, cg_get_masked(c, cg_vector_type(c, v.type, lanes), v.base, i, mask));
}

void cg_view_put(Cg *c, View v, V i, V x, V mask) { cg_put_masked(c, cg_convert(c, v.as, v.type, x), v.base, i, mask); }

View cg_view_at(Cg *c, View v, V i) { return (View){cg_at(c, cg_elem_type(c, v.type), v.base, i), v.type, v.as}; }

Span cg_span(Cg *c, V lo, V hi) {
  V n = cg_sub(c, hi, lo), whole = cg_multiple(c, n, cg_vl(c));
  return (Span){.c = c, .i = lo, .end = cg_add(c, lo, whole), .rest = cg_sub(c, n, whole), .lanes = c->t->vl};
}

Span cg_span_guarded(Cg *c, V lo, V hi, uint32_t lanes) {
  V n = cg_sub(c, hi, lo), rest = cg_and(c, n, cg_i64(c, lanes - 1));
  return (Span){
      .c = c, .i = lo, .end = cg_add(c, lo, cg_sub(c, n, rest)), .rest = rest, .lanes = lanes, .is_guarded = true};
}

Span cg_span_masked(Cg *c, V lo, V hi) {
  int64_t n;
  bool is_whole = cg_const_value(cg_sub(c, hi, lo), &n) && n % c->t->vl == 0;
  return (Span){.c = c, .i = lo, .end = hi, .rest = cg_i64(c, 0), .lanes = c->t->vl, .is_masked = !is_whole};
}

// The body is emitted first in the loop over whole vectors, then for the rest, unless it is known that there is none.
bool cg_next_vector(Span *s) {
  Cg *c = s->c;
  switch (s->turn++) {
  case 0:
    s->l = cg_each_by(c, s->i, s->end, cg_i64(c, s->lanes));
    s->i = s->l.i;
    if (s->is_masked) s->mask = cg_mask(c, cg_sub(c, s->end, s->i));
    return cg_next(&s->l);
  case 1:
    cg_next(&s->l);
    if (cg_is_int(s->rest, 0)) return false;
    s->some = cg_when(c, s->is_guarded ? cg_gt(c, s->rest, cg_i64(c, 0)) : NULL);
    s->i = s->end, s->mask = cg_mask(c, s->rest);
    return cg_then(&s->some);
  default: return cg_then(&s->some);
  }
}

V cg_span_get(const Span *s, View v) { return cg_view_get(s->c, v, s->i, s->lanes, s->mask); }
void cg_span_put(const Span *s, View v, V x) { cg_view_put(s->c, v, s->i, x, s->mask); }

void cg_copy_run(Cg *c, DType t, V to, V from, V n) {
  for (Span s = cg_span(c, cg_i64(c, 0), n); cg_next_vector(&s);)
    cg_span_put(&s, cg_view(to, t), cg_span_get(&s, cg_view(from, t)));
}
