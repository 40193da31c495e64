// Scans, order and search along an axis.
#include "frontend/fe.h"

static tn_ordered poisoned(tn_function *f) { return (tn_ordered){fe_poison(f), fe_poison(f)}; }

static tn_tensor scan(const char *call, Op op, const tn_tensor *a, uint32_t n, int axis, tn_site at) {
  tn_function *f;
  if (!fe_join_for(call, a, n, &f, at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  uint32_t k;
  if (!fe_axis(a[0], axis, &k, at)) return fe_poison(f);
  return fe_made(fe_emit(op, a, n, (const Attr[]){ir_a_int(KEY_axis, k)}, 1, at), at);
}

tn_tensor tn_cumsum(tn_tensor a, int axis, tn_site at) { return scan(__func__, OP_cumsum, &a, 1, axis, at); }
tn_tensor tn_cumprod(tn_tensor a, int axis, tn_site at) { return scan(__func__, OP_cumprod, &a, 1, axis, at); }
tn_tensor tn_logcumsumexp(tn_tensor a, int axis, tn_site at) {
  return scan(__func__, OP_logcumsumexp, &a, 1, axis, at);
}
tn_tensor tn_linear_scan(tn_tensor a, tn_tensor b, int axis, tn_site at) {
  return scan(__func__, OP_linear_scan, (const tn_tensor[]){a, b}, 2, axis, at);
}

// Values, which are result 0, and their indices, result 1.
static tn_ordered made_both(tn_tensor t, tn_site at) {
  if (!fe_ok(t)) return poisoned(t.fn);
  return (tn_ordered){fe_made(t, at), fe_made((tn_tensor){t.fn, t.v + 1}, at)};
}

static tn_ordered ordered(const char *call, Op op, tn_tensor a, int axis, const Attr *more, uint32_t n, tn_site at) {
  tn_function *f;
  if (!fe_join_for(call, &a, 1, &f, at)) return poisoned(f);
  FE_GUARD_AS(f->p, poisoned(f), call);
  uint32_t k;
  if (!fe_axis(a, axis, &k, at)) return poisoned(f);
  Attr attr[4] = {ir_a_int(KEY_axis, k)};
  for (uint32_t i = 0; i < n; i++) attr[1 + i] = more[i];
  return made_both(fe_emit(op, &a, 1, attr, 1 + n, at), at);
}

tn_ordered tn_cummax(tn_tensor a, int axis, tn_site at) { return ordered(__func__, OP_cummax, a, axis, NULL, 0, at); }
tn_ordered tn_cummin(tn_tensor a, int axis, tn_site at) { return ordered(__func__, OP_cummin, a, axis, NULL, 0, at); }
