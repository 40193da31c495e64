// Spatial axes of images (spatial.h).
#include "frontend/graph/spatial.h"
#include "frontend/graph/ops.h"

void fe_fill_axes(int64_t *out, uint32_t n, int64_t all, const int64_t *each, const int64_t *otherwise) {
  bool has_each = each[0] || each[1] || each[2];
  for (uint32_t k = 0; k < n; k++) {
    out[k] = has_each ? each[k] : all;
    if (!out[k] && otherwise) out[k] = otherwise[k];
  }
}

// ---- channels
static tn_tensor moved(tn_tensor x, bool to_last, tn_site at) {
  if (!fe_ok(x)) return x;
  uint32_t order[MAX_RANK] = {0}, last = fe_rank(x) - 1;
  for (uint32_t k = 1; k <= last; k++) order[k] = to_last ? (k == last ? 1 : k + 1) : (k == 1 ? last : k - 1);
  return fe_permute(x, order, at);
}

tn_tensor fe_channels_last(tn_tensor x, tn_site at) { return moved(x, true, at); }
tn_tensor fe_channels_first(tn_tensor x, tn_site at) { return moved(x, false, at); }

// ---- one image
tn_tensor fe_batch_of(tn_tensor x, uint32_t n_spatial, tn_site at) {
  if (!fe_ok(x) || fe_rank(x) != n_spatial + 1) return x;
  Dim d[MAX_RANK] = {ir_dim(x.fn->p->ir, 1)};
  for (uint32_t k = 0; k <= n_spatial; k++) d[k + 1] = fe_axis_dim(x, k);
  return fe_reshape(x, d, n_spatial + 2, at);
}

tn_tensor fe_like_batch_of(tn_tensor y, tn_tensor x, uint32_t n_spatial, tn_site at) {
  if (!fe_ok(y) || !fe_ok(x) || fe_rank(x) != n_spatial + 1) return y;
  Dim d[MAX_RANK];
  for (uint32_t k = 1; k < fe_rank(y); k++) d[k - 1] = fe_axis_dim(y, k);
  return fe_reshape(y, d, fe_rank(y) - 1, at);
}

// ---- arithmetic
tn_tensor fe_binary(Op op, tn_tensor a, tn_tensor b, tn_site at) {
  return fe_ok(a) && fe_ok(b) ? fe_emit2(op, a, b, at) : fe_poison(a.fn);
}

tn_tensor fe_with_number(Op op, tn_tensor a, double b, tn_site at) {
  return fe_binary(op, a, fe_const(a.fn, b, at), at);
}
