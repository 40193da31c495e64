// Local response normalisation: each number by the squares of the channels around its own.
//
//   y = x / (k + alpha (sum of x^2 over `size` channels) / size)^beta        channels from c - size / 2 on; none outside
#include "frontend/graph/image.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/spatial.h"
#include "ir/build.h"

#include <math.h>

enum { MOST_CHANNELS = 1 << 8 };

static bool check(tn_tensor x, int64_t size, const tn_local_response_norm_options *o) {
  bool has_channels = fe_rank(x) >= 3 && fe_ins(x)->dtype == DT_F32 && ir_dim_is_const(x.fn->p->ir, fe_axis_dim(x, 1));
  bool good = size >= 1 && size <= MOST_CHANNELS && isfinite(o->alpha) && isfinite(o->beta) && isfinite(o->k);
  if (!has_channels) fe_refuse(x, E_SHAPE, o->at, "local response norm takes f32 [N, C, ..] of three or more axes");
  else if (!good) fe_refuse(x, E_ARGUMENT, o->at, "local response norm takes 1 to 256 channels and finite numbers");
  return has_channels && good;
}

// squares, moved by `by` channels; zeros come in
static tn_tensor moved(tn_tensor squares, int64_t by, int64_t n, tn_site at) {
  int64_t first = by > 0 ? by : 0, count = n - (by > 0 ? by : -by);
  if (count == n) return squares;
  tn_tensor part = fe_slice(squares, 1, first, count, at);
  const Attr a[] = {ir_a_int(KEY_axis, 1), ir_a_dim(KEY_start, ir_dim(squares.fn->p->ir, by > 0 ? 0 : -by)),
                    ir_a_int(KEY_size, n)};
  return fe_ok(part) ? fe_emit(OP_pad_axis, &part, 1, a, 3, at) : part;
}

tn_tensor fe_local_response_norm(tn_tensor x, int64_t size, tn_local_response_norm_options o) {
  o.alpha = o.alpha == 0 ? 1e-4 : o.alpha, o.beta = o.beta == 0 ? 0.75 : o.beta, o.k = o.k == 0 ? 1 : o.k;
  if (!check(x, size, &o)) return fe_poison(x.fn);
  int64_t n = ir_dim_bound(x.fn->p->ir, fe_axis_dim(x, 1));
  tn_tensor squares = fe_binary(OP_mul, x, x, o.at), sum = {0};
  for (int64_t by = -(size / 2); by < size - size / 2; by++) {
    if (by <= -n || by >= n) continue;
    tn_tensor part = moved(squares, by, n, o.at);
    sum = sum.fn ? fe_binary(OP_add, sum, part, o.at) : part;
  }
  if (!sum.fn) return fe_same(x, o.at);  // there are no channels
  tn_tensor by = fe_with_number(OP_add, fe_with_number(OP_mul, sum, o.alpha / (double)size, o.at), o.k, o.at);
  return fe_binary(OP_div, x, fe_with_number(OP_pow, by, o.beta, o.at), o.at);
}

tn_tensor tn_local_response_norm(tn_tensor x, int64_t size, tn_local_response_norm_options o) {
  tn_function *f;
  if (!fe_join(&x, 1, &f, o.at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  return fe_made(fe_local_response_norm(x, size, o), o.at);
}
