// Attention: scaled dot products of heads that are given, and the module with PyTorch's projections around it.
//
// The projection of the module makes queries, keys and values side by side, [B,T,3E]; seen as [B,T,3,H,D] that is what
// the op reads, and what its gradient writes: heads are split by strides, nothing is permuted or copied.
#include "frontend/fe.h"

// ---- the call
bool fe_check_attention(tn_function *f, const tn_attention_options *o) {
  const int64_t most = INT64_C(1) << 30;
  if (!(o->dropout >= 0 && (float)o->dropout < 1))
    fe_error(f->p, E_ARGUMENT, o->at, "attention takes a dropout in [0, 1), not %g", o->dropout);
  else if (!fe_is_finite(o->scale)) fe_error(f->p, E_ARGUMENT, o->at, "the scale of attention is %g", o->scale);
  else if (o->window < 0 || o->window > most)
    fe_error(f->p, E_ARGUMENT, o->at, "the window of attention is %lld", (long long)o->window);
  else if (o->const_offset < -most || o->const_offset > most)
    fe_error(f->p, E_ARGUMENT, o->at, "the offset of attention is %lld", (long long)o->const_offset);
  else if (o->offset.fn && o->const_offset)
    fe_error(f->p, E_ARGUMENT, o->at, "attention takes one offset, a constant or a value");
  else if ((o->offset.fn || o->const_offset) && !o->causal && !o->window)
    fe_error(f->p, E_ARGUMENT, o->at, "an offset is of causal order or of a window: this attention has none");
  else return true;
  return false;
}

// All values of a call are of one function.
static bool join(const tn_tensor *x, uint32_t n, const tn_attention_options *o, tn_function **f) {
  tn_tensor all[7];
  for (uint32_t k = 0; k < n; k++) all[k] = x[k];
  const tn_tensor more[] = {o->lengths, o->bias, o->mask, o->offset};
  for (uint32_t k = 0; k < 4; k++)
    if (more[k].fn) all[n++] = more[k];
  return fe_join(all, n, f, o->at);
}

// The bias where the mask lets a query attend, -inf elsewhere.
static tn_tensor masked_bias(const tn_attention_options *o, tn_site at) {
  if (!o->mask.fn) return o->bias;
  tn_function *f = o->mask.fn;
  DType t = (DType)fe_ins(o->mask)->dtype;
  if (t != DT_BOOL && t != DT_F32) {
    fe_error(f->p, E_DTYPE, at, "the mask of attention is bool or f32, not %s", fe_type_text(o->mask));
    fe_note_value(o->mask, "the mask");
    fe_hint(f->p, "tn_cast(mask, TN_BOOL) is true where it is not 0");
    return fe_poison(f);
  }
  tn_tensor bias = o->bias.fn ? o->bias : fe_const(f, 0, at);
  return fe_emit(OP_select, (tn_tensor[]){fe_cast(o->mask, DT_F32, at), bias, fe_const(f, -INFINITY, at)}, 3, NULL, 0,
                 at);
}

// The bias with four axes. rank: of the queries
static tn_tensor with_axes(tn_tensor bias, uint32_t rank, tn_site at) {
  Dim d[4];
  uint32_t n = fe_rank(bias), front = n < 4 ? 4 - n : 0;
  for (uint32_t k = 0; k < 4; k++) d[k] = k < front ? ir_dim(bias.fn->p->ir, 1) : fe_axis_dim(bias, k - front);
  if (rank == 3 && n == 3) d[0] = d[1], d[1] = ir_dim(bias.fn->p->ir, 1);  // of sequences, not of heads
  return front ? fe_reshape(bias, d, 4, at) : bias;
}

// a: n tensor operands as the op takes them. rank: of the caller's
tn_tensor fe_attention(tn_tensor *a, uint32_t n, uint32_t rank, const tn_attention_options *o, tn_site at) {
  tn_tensor in[6] = {[3] = o->lengths, [5] = o->offset};
  Attr attr[7];
  uint32_t n_attrs = 0;
  tn_function *f = a[0].fn;
  for (uint32_t k = 0; k < n; k++) in[k] = a[k];
  tn_tensor bias = masked_bias(o, at);
  if (bias.fn && !fe_ok(bias)) return fe_poison(f);
  if (bias.fn) in[4] = with_axes(bias, rank, at);
  if (bias.fn && !fe_ok(in[4])) return fe_poison(f);
  if (o->causal) attr[n_attrs++] = ir_a_int(KEY_causal, 1);
  if (o->scale != 0) attr[n_attrs++] = ir_a_num(KEY_scale, o->scale);
  if (o->const_offset) attr[n_attrs++] = ir_a_int(KEY_offset, o->const_offset);
  if (o->window) attr[n_attrs++] = ir_a_int(KEY_window, o->window);
  if (n == 3 && o->heads_inside) attr[n_attrs++] = ir_a_int(KEY_heads_inside, 1);
  if (o->dropout > 0 && !f->eval) {
    attr[n_attrs++] = ir_a_num(KEY_p, o->dropout);
    attr[n_attrs++] = ir_a_int(KEY_id, fe_stream(f, at));
  }
  return fe_emit(OP_sdpa, in, 6, attr, n_attrs, at);
}

// [T,D] and [B,T,D] are heads of their own.
static tn_tensor with_heads(tn_tensor x, tn_site at) {
  uint32_t rank = fe_rank(x);
  Prog *p = x.fn->p->ir;
  Dim one = ir_dim(p, 1);
  if (rank == 3) return fe_reshape(x, (Dim[]){fe_axis_dim(x, 0), one, fe_axis_dim(x, 1), fe_axis_dim(x, 2)}, 4, at);
  return rank == 2 ? fe_reshape(x, (Dim[]){one, one, fe_axis_dim(x, 0), fe_axis_dim(x, 1)}, 4, at) : x;
}

static tn_tensor without_heads(tn_tensor y, uint32_t rank, tn_site at) {
  if (!fe_ok(y) || rank == 4) return y;
  Dim d[] = {fe_axis_dim(y, 0), fe_axis_dim(y, 2), fe_axis_dim(y, 3)};
  return fe_reshape(y, d + (3 - rank), rank, at);
}

static const tn_attention_options plain = {0};

tn_tensor tn_scaled_dot_product_attention(tn_tensor q, tn_tensor k, tn_tensor v, tn_attention_options o) {
  tn_function *f;
  if (!join((const tn_tensor[]){q, k, v}, 3, &o, &f)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  uint32_t rank = fe_rank(q);
  if (!fe_check_attention(f, &o)) return fe_poison(f);
  if (rank < 2 || rank > 4 || fe_rank(k) != rank || fe_rank(v) != rank || (rank < 4 && o.heads_inside)) {
    fe_error(f->p, E_SHAPE, o.at, "attention takes q, k and v of one rank, %s; these have %u, %u and %u",
             o.heads_inside ? "4" : "2 to 4", rank, fe_rank(k), fe_rank(v));
    fe_note_value(q, "q");
    fe_note_value(k, "k");
    fe_note_value(v, "v");
    return fe_poison(f);
  }
  tn_tensor in[3] = {with_heads(q, o.at), with_heads(k, o.at), with_heads(v, o.at)};
  return fe_made(without_heads(fe_attention(in, 3, rank, &o, o.at), rank, o.at), o.at);
}

tn_tensor tn_attention_packed(tn_tensor qkv, tn_attention_options o) {
  tn_function *f;
  if (!join(&qkv, 1, &o, &f)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  return fe_check_attention(f, &o) ? fe_made(fe_attention(&qkv, 1, 4, &o, o.at), o.at) : fe_poison(f);
}

// ---- the module
static bool check_module(tn_module *m, int64_t size, int64_t heads, const tn_multi_head_options *o) {
  const int64_t most = INT64_C(1) << 20;
  if (m->poisoned) return false;
  m->poisoned = true;
  if (size < 1 || size > most || heads < 1 || size % heads)
    fe_error(m->p, E_ARGUMENT, o->at,
             "module '%s' has the size %lld and %lld heads: the size must be a multiple in [1, 2^20]", m->path,
             (long long)size, (long long)heads);
  else if (!(o->dropout >= 0 && (float)o->dropout < 1))
    fe_error(m->p, E_ARGUMENT, o->at, "attention takes a dropout in [0, 1), not %g", o->dropout);
  else m->poisoned = false;
  return !m->poisoned;
}

tn_module *tn_multi_head_attention(tn_module *parent, const char *name, int64_t size, int64_t heads,
                                   tn_multi_head_options o) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_module(parent, name, MOD_ATTENTION, o.at);
  if (!check_module(m, size, heads, &o)) return m;
  m->config.in = m->config.out = size, m->config.n_heads = (uint32_t)heads;
  m->config.has_bias = !o.no_bias, m->config.is_causal = o.causal;
  m->config.rate = o.dropout;
  // PyTorch's: Xavier for the three projections together, biases zero.
  double k = sqrt(6 / (4 * (double)size));
  int64_t wide = 3 * size;
  const tn_init zeros = {TN_INIT_ZEROS, 0, 0};
  fe_module_param(m, "in_proj_weight", (const int64_t[]){wide, size}, 2, (tn_init){TN_INIT_UNIFORM, -k, k}, o.at);
  if (m->config.has_bias) fe_module_param(m, "in_proj_bias", &wide, 1, zeros, o.at);
  tn_module *out = tn_linear(m, "out_proj", size, size, (tn_linear_options){.no_bias = true, .at = o.at});
  if (m->config.has_bias) fe_module_param(out, "bias", &size, 1, zeros, o.at);
  out->config.has_bias = m->config.has_bias;
  return m;
}

typedef struct {
  tn_module *m;
  tn_function *f;
  tn_site at;
} Call;

static tn_tensor weight(const Call *c, const char *name) { return fe_read(c->f, fe_entry(c->m, name)->param, c->at); }

// x through rows [part, part + n) E of the projection: [B,T,n,H,D], or [B,T,H,D] for one part.
static tn_tensor project(const Call *c, tn_tensor x, int64_t part, int64_t n) {
  const tn_module *m = c->m;
  Prog *p = c->f->p->ir;
  tn_tensor w = weight(c, "in_proj_weight"), b = m->config.has_bias ? weight(c, "in_proj_bias") : fe_poison(c->f);
  if (n < 3) {
    w = fe_slice(w, 0, part * m->config.out, n * m->config.out, c->at);
    if (m->config.has_bias) b = fe_slice(b, 0, part * m->config.out, n * m->config.out, c->at);
  }
  tn_tensor y = fe_linear(x, w, b, m->config.has_bias, c->at);
  if (!fe_ok(y)) return y;
  Dim d[5] = {fe_axis_dim(y, 0), fe_axis_dim(y, 1), ir_dim(p, n)};
  uint32_t rank = n == 1 ? 2 : 3;
  d[rank++] = ir_dim(p, m->config.n_heads), d[rank++] = ir_dim(p, m->config.out / m->config.n_heads);
  return fe_reshape(y, d, rank, c->at);
}

// q, k and v stand for one, two or three different values.
static tn_tensor attend(const Call *c, tn_tensor q, tn_tensor k, tn_tensor v, const tn_attention_options *o) {
  tn_module *m = c->m;
  tn_tensor in[3];
  uint32_t n = 0;
  bool one_kv = k.v == v.v;
  if (one_kv && q.v == k.v) {
    in[n++] = project(c, q, 0, 3);
  } else {
    in[n++] = project(c, q, 0, 1);
    in[n++] = project(c, k, 1, one_kv ? 2 : 1);
    if (!one_kv) in[n++] = project(c, v, 2, 1);
  }
  tn_attention_options how = *o;
  how.heads_inside = true, how.causal |= m->config.is_causal;
  if (how.dropout == 0) how.dropout = m->config.rate;
  for (uint32_t i = 0; i < n; i++)
    if (!fe_ok(in[i])) return fe_poison(c->f);
  tn_tensor y = fe_attention(in, n, 4, &how, c->at);
  if (!fe_ok(y)) return y;
  y = fe_reshape(y, (Dim[]){fe_axis_dim(y, 0), fe_axis_dim(y, 1), ir_dim(c->f->p->ir, m->config.out)}, 3, c->at);
  return fe_call(m->first, y, c->at);
}

static void report_rank(const tn_module *m, tn_tensor x, tn_site at) {
  fe_error(m->p, E_SHAPE, at, "module '%s' takes [B,T,%lld], not a value with %u axes", m->path,
           (long long)m->config.out, fe_rank(x));
  fe_note_value(x, "the value");
}

static bool check_call(const Call *c, const tn_tensor *x, uint32_t n) {
  tn_module *m = c->m;
  tn_program *p = c->f->p;
  if (m && m->poisoned) return false;
  if (!fe_own_module(p, m, "called", c->at)) return false;
  if (m->kind != MOD_ATTENTION) fe_error(p, E_ARGUMENT, c->at, "module '%s' is no attention", m->path);
  else {
    for (uint32_t k = 0; k < n; k++) {
      if (fe_rank(x[k]) == 3) continue;
      report_rank(m, x[k], c->at);
      return false;
    }
    return true;
  }
  return false;
}

tn_tensor fe_attention_of(tn_module *m, tn_tensor q, tn_tensor k, tn_tensor v, tn_attention_options o) {
  tn_function *f;
  if (!k.fn) k = q;
  if (!v.fn) v = k;
  if (!join((const tn_tensor[]){q, k, v}, 3, &o, &f)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  Call c = {m, f, o.at};
  if (!check_call(&c, (const tn_tensor[]){q, k, v}, 3) || !fe_check_attention(f, &o)) return fe_poison(f);
  FE_INSIDE(m);
  return attend(&c, q, k, v, &o);
}

// A transformer's layer hands on what its own call was given.
tn_tensor fe_attend(tn_module *m, tn_tensor x, tn_site at) {
  tn_attention_options o = m->arguments ? *(const tn_attention_options *)m->arguments : plain;
  o.at = at;
  return fe_attention_of(m, x, x, x, o);
}

tn_tensor tn_attention_call(tn_module *m, tn_tensor q, tn_tensor k, tn_tensor v, tn_attention_options o) {
  return fe_made(fe_attention_of(m, q, k, v, o), o.at);
}
