// Layer norm and RMS norm: as operations, and as modules with their weights.
//
// The rows of ops.def work on the last axis; several axes are one after a reshape, which is free.
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/report.h"
#include "frontend/module/layers.h"
#include "frontend/module/tree.h"
#include "frontend/run/finite.h"
#include "frontend/tenure/ops.h"
#include <string.h>

typedef struct {
  Op op;
  const char *name;
  uint32_t n_axes;
  double eps;
} Norm;

// The last n_axes axes of a as one.
static tn_tensor flatten(tn_tensor a, uint32_t n_axes, tn_site at) {
  if (!fe_ok(a) || n_axes == 1) return a;
  Prog *p = a.fn->p->ir;
  uint32_t keep = fe_rank(a) - n_axes;
  Dim d[MAX_RANK + 1], wide = ir_dim(p, 1);
  for (uint32_t k = 0; k < keep; k++) d[k] = fe_axis_dim(a, k);
  for (uint32_t k = keep; k < fe_rank(a); k++) wide = ir_dim_mul(p, wide, fe_axis_dim(a, k));
  d[keep] = wide;
  return fe_reshape(a, d, keep + 1, at);
}

static bool check_axes(tn_tensor x, const Norm *n, tn_site at) {
  if (n->n_axes >= 1 && n->n_axes <= fe_rank(x)) return true;
  fe_error(x.fn->p, E_ARGUMENT, at, "%s over the last %u axes of a value with %u", n->name, n->n_axes, fe_rank(x));
  return false;
}

bool fe_check_eps(tn_program *p, const char *name, double eps, tn_site at) {
  if (eps >= 0 && fe_is_finite(eps)) return true;
  fe_error(p, E_ARGUMENT, at, "%s takes a finite eps of 0 or more, not %g", name, eps);
  return false;
}

// Weight and bias have the shape of the last axes.
static bool check_like(tn_tensor x, const Norm *n, tn_tensor w, const char *what, tn_site at) {
  if (!w.fn) return true;
  bool same = fe_rank(w) == n->n_axes;
  for (uint32_t k = 0; same && k < n->n_axes; k++)
    same = fe_axis_dim(w, k).i == fe_axis_dim(x, fe_rank(x) - n->n_axes + k).i;
  if (same) return true;
  RtText t = {.mem = x.fn->p->mem};
  ir_shape_text(x.fn->p->ir, fe_shape_of(w), &t);
  rt_text_add(&t, ", the value ");
  ir_shape_text(x.fn->p->ir, fe_shape_of(x), &t);
  fe_error(x.fn->p, E_SHAPE, at, "%s over the last %u axes needs a %s of their sizes: it has %s", n->name, n->n_axes,
           what, t.text);
  fe_note_value(x, "the value");
  fe_note_value(w, what);
  return false;
}

static tn_tensor emit_norm(tn_tensor x, const Norm *n, tn_tensor w, tn_tensor b, tn_site at) {
  tn_tensor in[3] = {x};
  uint32_t n_in = 1;
  tn_function *f;
  if (w.fn) in[n_in++] = w;
  if (b.fn) in[n_in++] = b;
  if (!fe_join(in, n_in, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_axes(x, n, at) || !fe_check_eps(f->p, n->name, n->eps, at)) return fe_poison(f);
  if (!check_like(x, n, w, "weight", at) || !check_like(x, n, b, "bias", at)) return fe_poison(f);
  tn_tensor args[3] = {flatten(x, n->n_axes, at)};
  uint32_t n_args = 1;
  if (w.fn) args[n_args++] = flatten(w, n->n_axes, at);
  if (w.fn && b.fn) args[n_args++] = flatten(b, n->n_axes, at);
  tn_tensor y = fe_emit(n->op, args, n_args, (const Attr[]){ir_a_num(KEY_eps, n->eps)}, 1, at);
  if (fe_ok(y) && n->n_axes > 1) {
    Dim d[MAX_RANK];
    for (uint32_t k = 0; k < fe_rank(x); k++) d[k] = fe_axis_dim(x, k);
    y = fe_reshape(y, d, fe_rank(x), at);
  }
  return b.fn && !w.fn ? fe_emit2(OP_add, y, b, at) : y;
}

static const tn_tensor none = {0};

tn_tensor tn_layer_norm_of(tn_tensor x, uint32_t n_axes, tn_tensor weight, tn_tensor bias, double eps, tn_site at) {
  Norm n = {OP_layer_norm, "layer_norm", n_axes, eps};
  return fe_made(emit_norm(x, &n, weight, bias, at), at);
}

tn_tensor tn_rms_norm_of(tn_tensor x, uint32_t n_axes, tn_tensor weight, double eps, tn_site at) {
  Norm n = {OP_rms_norm, "rms_norm", n_axes, eps};
  return fe_made(emit_norm(x, &n, weight, none, at), at);
}

// ---- modules
static bool normalized_sizes(tn_module *m, tn_shape s, int64_t *size, tn_site at) {
  Shape shape;
  m->poisoned = !fe_shape(m->p, s, &shape, at);
  if (m->poisoned) return false;
  m->poisoned = s.rank < 1 || !ir_shape_is_const(m->p->ir, shape) || ir_shape_bound(m->p->ir, shape) < 1;
  if (m->poisoned) fe_error(m->p, E_ARGUMENT, at, "module '%s' needs constant sizes of 1 or more", m->path);
  for (uint32_t k = 0; k < s.rank && !m->poisoned; k++) size[k] = ir_list_at(m->p->ir, shape, k);
  return !m->poisoned;
}

static tn_module *make(tn_module *parent, const char *name, FeModuleKind kind, tn_shape s, const tn_norm_options *o,
                       double eps) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_module(parent, name, kind, o->at);
  int64_t size[MAX_RANK] = {0};
  if (m->poisoned || !normalized_sizes(m, s, size, o->at)) return m;
  m->config.eps = o->eps != 0 ? o->eps : eps;
  m->config.n_axes = s.rank;
  m->poisoned = !fe_check_eps(m->p, m->path, m->config.eps, o->at);
  if (m->poisoned || o->no_weight) return m;
  fe_module_param(m, "weight", size, s.rank, (tn_init){TN_INIT_CONSTANT, 1, 0}, o->at);
  if (kind == MOD_LAYER_NORM && !o->no_bias)
    fe_module_param(m, "bias", size, s.rank, (tn_init){TN_INIT_ZEROS, 0, 0}, o->at);
  return m;
}

tn_module *tn_layer_norm(tn_module *parent, const char *name, tn_shape normalized, tn_norm_options o) {
  return make(parent, name, MOD_LAYER_NORM, normalized, &o, 1e-5);
}

tn_module *tn_rms_norm(tn_module *parent, const char *name, tn_shape normalized, tn_norm_options o) {
  return make(parent, name, MOD_RMS_NORM, normalized, &o, 0x1p-23);
}

static tn_tensor use_or_none(tn_module *m, const char *name, tn_function *f, tn_site at) {
  const FeEntry *e = fe_entry(m, name);
  return e ? fe_read(f, e->param, at) : none;
}

tn_tensor fe_norm(tn_module *m, tn_tensor x, tn_site at) {
  bool layer = m->kind == MOD_LAYER_NORM;
  Norm n = {layer ? OP_layer_norm : OP_rms_norm, m->path, m->config.n_axes, m->config.eps};
  return emit_norm(x, &n, use_or_none(m, "weight", x.fn, at), use_or_none(m, "bias", x.fn, at), at);
}

tn_tensor fe_normalize(tn_module *m, tn_tensor x, uint32_t n_axes, tn_site at) {
  return emit_norm(x, &(Norm){OP_layer_norm, m->path, n_axes, m->config.eps}, none, none, at);
}
