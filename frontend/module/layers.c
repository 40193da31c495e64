// The plainest modules: linear, bilinear, dropout, identity, flatten; lists and sequences of modules.
#include "frontend/module/layers.h"
#include "frontend/graph/activations.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/report.h"
#include "frontend/graph/shape.h"
#include "frontend/module/call.h"
#include "frontend/module/hook.h"
#include "frontend/module/tree.h"
#include <math.h>
#include <string.h>

bool fe_check_sizes(tn_module *m, int64_t a, int64_t b, tn_site at) {
  const int64_t most = INT64_C(1) << 30;
  if (m->poisoned) return false;
  m->poisoned = a < 1 || b < 1 || a > most || b > most;
  if (m->poisoned)
    fe_error(m->p, E_ARGUMENT, at, "module '%s' has the sizes %lld and %lld: both must lie in [1, 2^30]", m->path,
             (long long)a, (long long)b);
  return !m->poisoned;
}

tn_module *tn_linear(tn_module *parent, const char *name, int64_t in, int64_t out, tn_linear_options o) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_module(parent, name, MOD_LINEAR, o.at);
  if (!fe_check_sizes(m, in, out, o.at)) return m;
  double k = 1 / sqrt((double)in);
  tn_init init = {TN_INIT_UNIFORM, -k, k};
  m->config.has_bias = !o.no_bias;
  fe_module_param(m, "weight", (const int64_t[]){out, in}, 2, init, o.at);
  if (m->config.has_bias) fe_module_param(m, "bias", &out, 1, init, o.at);
  return m;
}

static tn_module *with_rate(tn_module *m, double p, tn_site at) {
  if (m) m->config.rate = p;
  if (!m || m->poisoned || (p >= 0 && p <= 1)) return m;
  fe_error(m->p, E_ARGUMENT, at, "dropout takes a probability in [0, 1], not %g", p);
  m->poisoned = true;
  return m;
}

tn_module *tn_dropout_module(tn_module *parent, const char *name, double p, tn_site at) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  return with_rate(fe_module(parent, name, MOD_DROPOUT, at), p, at);
}

static tn_tensor alpha_dropout(tn_module *m, tn_tensor x, tn_site at) {
  return fe_alpha_dropout(x, m->config.rate, false, at);
}

tn_module *tn_alpha_dropout_module(tn_module *parent, const char *name, double p, tn_site at) {
  return with_rate(fe_built_in(parent, name, "AlphaDropout", alpha_dropout, at), p, at);
}

static tn_tensor feature_alpha_dropout(tn_module *m, tn_tensor x, tn_site at) {
  return fe_alpha_dropout(x, m->config.rate, true, at);
}

tn_module *tn_feature_alpha_dropout_module(tn_module *parent, const char *name, double p, tn_site at) {
  return with_rate(fe_built_in(parent, name, "FeatureAlphaDropout", feature_alpha_dropout, at), p, at);
}

static tn_tensor param(tn_module *m, const char *name, tn_function *f, tn_site at) {
  const FeEntry *e = fe_entry(m, name);
  return e ? fe_read(f, e->param, at) : fe_poison(f);
}

tn_tensor fe_linear_forward(tn_module *m, tn_tensor x, tn_site at) {
  tn_tensor w = param(m, "weight", x.fn, at), b = fe_poison(x.fn);
  if (m->config.has_bias) b = param(m, "bias", x.fn, at);
  return fe_linear(x, w, b, m->config.has_bias, at);
}

// ---- modules of modules
tn_module *tn_sequential(tn_module *parent, const char *name, tn_site at) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  return fe_module(parent, name, MOD_SEQUENTIAL, at);
}

tn_module *tn_module_list(tn_module *parent, const char *name, tn_site at) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_module(parent, name, MOD_PLAIN, at);
  m->config.is_list = true;
  return m;
}

// ---- built-in ones of one input
tn_module *fe_built_in(tn_module *parent, const char *name, const char *kind, FeForward *forward, tn_site at) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_module(parent, name, MOD_BUILT_IN, at);
  m->config.forward = forward, m->config.built_in = kind;
  return m;
}

static tn_tensor identity(tn_module *m, tn_tensor x, tn_site at) { return (void)m, fe_same(x, at); }

tn_module *tn_identity(tn_module *parent, const char *name, tn_site at) {
  return fe_built_in(parent, name, "Identity", identity, at);
}

static tn_tensor flatten(tn_module *m, tn_tensor x, tn_site at) {
  Prog *p = m->p->ir;
  uint32_t first, last, n = 0;
  Dim d[MAX_RANK], all = ir_dim(p, 1);
  if (!fe_axis(x, m->config.axis, &first, at) || !fe_axis(x, m->config.last_axis, &last, at)) return fe_poison(x.fn);
  if (first > last) {
    fe_error(m->p, E_ARGUMENT, at, "module '%s' joins the axes %d to %d of a value with %u", m->path, m->config.axis,
             m->config.last_axis, fe_rank(x));
    return fe_poison(x.fn);
  }
  for (uint32_t k = first; k <= last; k++) all = ir_dim_mul(p, all, fe_axis_dim(x, k));
  for (uint32_t k = 0; k < first; k++) d[n++] = fe_axis_dim(x, k);
  d[n++] = all;
  for (uint32_t k = last + 1; k < fe_rank(x); k++) d[n++] = fe_axis_dim(x, k);
  return fe_reshape(x, d, n, at);
}

tn_module *tn_flatten_module(tn_module *parent, const char *name, int first_axis, int last_axis, tn_site at) {
  tn_module *m = fe_built_in(parent, name, "Flatten", flatten, at);
  if (m) m->config.axis = first_axis, m->config.last_axis = last_axis;
  return m;
}

static tn_tensor unflatten(tn_module *m, tn_tensor x, tn_site at) {
  return fe_unflatten(x, m->config.axis, m->config.sizes, at);
}

tn_module *tn_unflatten_module(tn_module *parent, const char *name, int axis, tn_shape sizes, tn_site at) {
  tn_module *m = fe_built_in(parent, name, "Unflatten", unflatten, at);
  if (m) m->config.axis = axis, m->config.sizes = sizes;
  return m;
}

// ---- bilinear
static tn_tensor takes_two(tn_module *m, tn_tensor x, tn_site at) {
  fe_error(m->p, E_ARGUMENT, at, "module '%s' works on two values", m->path);
  fe_hint(m->p, "tn_bilinear_call(m, a, b)");
  return fe_poison(x.fn);
}

tn_module *tn_bilinear(tn_module *parent, const char *name, int64_t in_a, int64_t in_b, int64_t out,
                       tn_linear_options o) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_built_in(parent, name, "Bilinear", takes_two, o.at);
  if (!fe_check_sizes(m, in_a, in_b, o.at) || !fe_check_sizes(m, in_a * in_b, out, o.at)) return m;
  double k = 1 / sqrt((double)in_a);
  tn_init init = {TN_INIT_UNIFORM, -k, k};
  m->config.has_bias = !o.no_bias, m->config.in = in_a, m->config.in_b = in_b, m->config.out = out;
  fe_module_param(m, "weight", (const int64_t[]){out, in_a, in_b}, 3, init, o.at);
  if (m->config.has_bias) fe_module_param(m, "bias", &out, 1, init, o.at);
  return m;
}

static bool check_pair(const tn_module *m, tn_tensor a, tn_tensor b, tn_site at) {
  Prog *p = m->p->ir;
  uint32_t rank = fe_rank(a);
  bool good = rank >= 1 && rank < MAX_RANK && rank == fe_rank(b);
  for (uint32_t k = 0; good && k + 1 < rank; k++) good = fe_axis_dim(a, k).i == fe_axis_dim(b, k).i;
  if (good && ir_list_at(p, fe_shape_of(a), rank - 1) == m->config.in &&
      ir_list_at(p, fe_shape_of(b), rank - 1) == m->config.in_b)
    return true;
  fe_error(m->p, E_SHAPE, at, "module '%s' takes [..,%lld] and [..,%lld] of equal leading axes, not %s and %s", m->path,
           (long long)m->config.in, (long long)m->config.in_b, fe_type_text(a), fe_type_text(b));
  fe_note_value(a, "the first");
  fe_note_value(b, "the second");
  return false;
}

// The products of all pairs, [.., in_a in_b], through a linear layer.
static tn_tensor bilinear(tn_module *m, tn_tensor a, tn_tensor b, tn_site at) {
  Prog *p = m->p->ir;
  Dim d[MAX_RANK + 1], one = ir_dim(p, 1), pairs = ir_dim(p, m->config.in * m->config.in_b);
  uint32_t rank = fe_rank(a);
  for (uint32_t k = 0; k < rank; k++) d[k] = fe_axis_dim(a, k);
  d[rank] = one;
  tn_tensor column = fe_reshape(a, d, rank + 1, at);
  d[rank - 1] = one, d[rank] = ir_dim(p, m->config.in_b);
  tn_tensor products = fe_emit2(OP_mul, column, fe_reshape(b, d, rank + 1, at), at);
  d[rank - 1] = pairs;
  tn_tensor w = param(m, "weight", a.fn, at), bias = fe_poison(a.fn);
  if (m->config.has_bias) bias = param(m, "bias", a.fn, at);
  w = fe_reshape(w, (Dim[]){ir_dim(p, m->config.out), pairs}, 2, at);
  return fe_linear(fe_reshape(products, d, rank, at), w, bias, m->config.has_bias, at);
}

tn_tensor tn_bilinear_call(tn_module *m, tn_tensor a, tn_tensor b, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){a, b}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if ((m && m->poisoned) || !fe_own_module(f->p, m, "called", at)) return fe_poison(f);
  if (m->config.forward != takes_two) {
    fe_error(f->p, E_ARGUMENT, at, "module '%s' is no bilinear one", m->path);
    return fe_poison(f);
  }
  FE_INSIDE(m);
  return check_pair(m, a, b, at) ? fe_made(bilinear(m, a, b, at), at) : fe_poison(f);
}

// ---- calls
tn_tensor fe_linear(tn_tensor x, tn_tensor w, tn_tensor b, bool has_bias, tn_site at) {
  return fe_emit(OP_linear, (const tn_tensor[]){x, w, b}, has_bias ? 3 : 2, NULL, 0, at);
}
