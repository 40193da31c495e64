// Attention: scaled dot products of heads that are given, and the module with PyTorch's projections around it.
//
// The projection of the module makes queries, keys and values side by side, [B,T,3E]; seen as [B,T,3,H,D] that is what
// the op reads, and what its gradient writes: heads are split by strides, nothing is permuted or copied. The zeros of
// add_zero_attn and bias_k stand in front of the keys that are projected, so that lengths and causal order count on from
// them; weights that are a result have them behind, as PyTorch has.
#include "frontend/module/attention.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/reduce.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scan.h"
#include "frontend/graph/shape.h"
#include "frontend/module/call.h"
#include "frontend/module/layers.h"
#include "frontend/module/tree.h"
#include "frontend/packed/packed.h"
#include "frontend/run/finite.h"
#include "frontend/tenure/decode.h"

#include <math.h>

// ---- the call
static bool is_mask(tn_tensor mask) { return (BOOL | F32) >> fe_ins(mask)->dtype & 1; }

static void refuse_mask(tn_tensor mask, tn_site at) {
  fe_error(mask.fn->p, E_DTYPE, at, "the mask of attention is bool or f32, not %s", fe_type_text(mask));
  fe_note_value(mask, "the mask");
  fe_hint(mask.fn->p, "tn_cast(mask, TN_BOOL) is true where it is not 0");
}

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
  else if (o->slots)
    fe_error(f->p, E_ARGUMENT, o->at, "slots are an option of modules: others call tn_slot_attend with their cache");
  else if (o->mask.fn && !is_mask(o->mask)) refuse_mask(o->mask, o->at);
  else return true;
  return false;
}

void fe_poison_weights(const tn_attention_options *o, tn_function *f) {
  if (o->weights) *o->weights = fe_poison(f);
}

bool fe_join_attention(const char *call, const tn_tensor *x, uint32_t n, const tn_attention_options *o,
                       tn_function **f) {
  tn_tensor all[7];
  for (uint32_t k = 0; k < n; k++) all[k] = x[k];
  const tn_tensor more[] = {o->lengths, o->bias, o->mask, o->offset};
  for (uint32_t k = 0; k < 4; k++)
    if (more[k].fn) all[n++] = more[k];
  bool joined = fe_join_for(call, all, n, f, o->at);
  fe_poison_weights(o, *f);
  return joined;
}

// The bias where the mask lets a query attend, -inf elsewhere.
static tn_tensor masked_bias(const tn_attention_options *o, tn_site at) {
  if (!o->mask.fn) return o->bias;
  tn_function *f = o->mask.fn;
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

void fe_give_weights(const char *call, const tn_attention_options *o, bool has_batch, bool has_heads, tn_site at) {
  tn_tensor w = o->weights ? *o->weights : (tn_tensor){0};
  if (!w.fn || !fe_ok(w)) return;
  const Dim all[] = {fe_axis_dim(w, 0), fe_axis_dim(w, 1), fe_axis_dim(w, 2), fe_axis_dim(w, 3)};
  const bool has[] = {has_batch, has_heads && !o->average_weights, true, true};
  Dim d[4];
  uint32_t n = 0;
  for (uint32_t k = 0; k < 4; k++)
    if (has[k]) d[n++] = all[k];
  if (has_heads && o->average_weights) w = fe_mean(w, (const int[]){1}, 1, false, at);
  *o->weights = fe_made_by(call, fe_ok(w) && n < 4 ? fe_reshape(w, d, n, at) : w, at);
}

// The layouts of packed rows; empty handles: dense.
static void find_layouts(const tn_tensor *a, uint32_t n, tn_tensor *layout, tn_tensor *of_keys) {
  uint32_t rank = n == 1 ? 4 : 3, q = fe_rank(a[0]) == rank ? fe_rows_of(a[0]) : 0, k = fe_rows_of(a[n - 1]);
  if (!q) return;
  *layout = (tn_tensor){a[0].fn, q};
  if (k && k != q) *of_keys = (tn_tensor){a[0].fn, k};
}

// a: n tensor operands as the op takes them. rank: of the caller's
tn_tensor fe_attention(tn_tensor *a, uint32_t n, uint32_t rank, const tn_attention_options *o, tn_site at) {
  tn_tensor in[8] = {[3] = o->lengths, [5] = o->offset};
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
  find_layouts(a, n, &in[6], &in[7]);
  if (n == 3 && o->heads_inside && !in[6].fn) attr[n_attrs++] = ir_a_int(KEY_heads_inside, 1);
  uint32_t stream = o->dropout > 0 && !fe_eval(f, at) ? fe_stream(f, at) : 0;
  if (stream) {
    attr[n_attrs++] = ir_a_num(KEY_p, o->dropout);
    attr[n_attrs++] = ir_a_int(KEY_id, stream);
  }
  tn_tensor y = fe_emit(OP_sdpa, in, 8, attr, n_attrs, at);
  if (o->weights && fe_ok(y))
    *o->weights = fe_attention_weights(&(FeAttended){a, n, in[4], in[6], in[7]}, y, stream, o, at);
  return y;
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
  if (!fe_join_attention(__func__, (const tn_tensor[]){q, k, v}, 3, &o, &f)) return fe_poison(f);
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
  tn_tensor y = fe_made(without_heads(fe_attention(in, 3, rank, &o, o.at), rank, o.at), o.at);
  fe_give_weights(__func__, &o, rank > 2, rank > 3, o.at);
  return y;
}

// ---- packed sequences
static bool check_rows(const tn_packed *s, const char *const *name, uint32_t n, tn_site at) {
  for (uint32_t k = 0; k < n; k++) {
    if (fe_rank(s[k].data) == 3) continue;
    fe_error(s[k].data.fn->p, E_SHAPE, at, "tn_packed_attention takes rows [rows,H,D] of %s, not %s", name[k],
             fe_type_text(s[k].data));
    fe_note_value(s[k].data, name[k]);
    return false;
  }
  return n < 3 || fe_same_layout(s[1], s[2], "packed_attention", at);
}

tn_packed tn_packed_attention(tn_packed q, tn_packed k, tn_packed v, tn_attention_options o) {
  static const char *const names[] = {"q", "k", "v"};
  const tn_packed all[] = {q, k, v};
  tn_tensor in[3] = {q.data, k.data, v.data};
  tn_function *f;
  bool joined = fe_join_packed(all, 3, &f, o.at) && fe_join_attention(__func__, in, 3, &o, &f);
  fe_poison_weights(&o, f);
  if (!joined) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  if (!fe_check_attention(f, &o) || !check_rows(all, names, 3, o.at)) return fe_poisoned_packed(f);
  o.heads_inside = true;
  tn_tensor y = fe_attention(in, 3, 4, &o, o.at);
  if (!fe_ok(y)) return fe_poisoned_packed(f);
  fe_give_weights(__func__, &o, true, true, o.at);
  return fe_with_data(q, y, o.at);
}

tn_tensor tn_attention_packed(tn_tensor qkv, tn_attention_options o) {
  tn_function *f;
  if (!fe_join_attention(__func__, &qkv, 1, &o, &f)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!fe_check_attention(f, &o)) return fe_poison(f);
  tn_tensor y = fe_made(fe_attention(&qkv, 1, 4, &o, o.at), o.at);
  fe_give_weights(__func__, &o, true, true, o.at);
  return y;
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
  else if (o->key_size < 0 || o->key_size > most || o->value_size < 0 || o->value_size > most)
    fe_error(m->p, E_ARGUMENT, o->at,
             "keys of %lld and values of %lld numbers: sizes are in [1, 2^20], or 0, which is %lld",
             (long long)o->key_size, (long long)o->value_size, (long long)size);
  else m->poisoned = false;
  return !m->poisoned;
}

// Of projections that read values of different sizes
static const char *const projection_names[3] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};

// PyTorch's: Xavier for the three projections, together where all read values of one size; biases zero.
static void add_projections(tn_module *m, tn_site at) {
  const FeModuleConfig *c = &m->config;
  const tn_init zeros = {TN_INIT_ZEROS, 0, 0};
  int64_t wide = 3 * c->out;
  const int64_t sizes[3] = {c->out, c->key_size, c->value_size};
  for (uint32_t k = 0; c->has_own_sizes && k < 3; k++) {
    double most = sqrt(6 / ((double)c->out + (double)sizes[k]));
    fe_module_param(m, projection_names[k], (const int64_t[]){c->out, sizes[k]}, 2,
                    (tn_init){TN_INIT_UNIFORM, -most, most}, at);
  }
  double most = sqrt(6 / (4 * (double)c->out));
  if (!c->has_own_sizes)
    fe_module_param(m, "in_proj_weight", (const int64_t[]){wide, c->out}, 2, (tn_init){TN_INIT_UNIFORM, -most, most},
                    at);
  if (c->has_bias) fe_module_param(m, "in_proj_bias", &wide, 1, zeros, at);
  const tn_init xavier = {TN_INIT_NORMAL, 0, 1 / sqrt((double)c->out)};
  const int64_t row[3] = {1, 1, c->out};
  if (c->has_bias_kv) fe_module_param(m, "bias_k", row, 3, xavier, at);
  if (c->has_bias_kv) fe_module_param(m, "bias_v", row, 3, xavier, at);
}

tn_module *tn_multi_head_attention(tn_module *parent, const char *name, int64_t size, int64_t heads,
                                   tn_multi_head_options o) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_module(parent, name, MOD_ATTENTION, o.at);
  if (!check_module(m, size, heads, &o)) return m;
  FeModuleConfig *c = &m->config;
  c->in = c->out = size, c->n_heads = (uint32_t)heads;
  c->has_bias = !o.no_bias, c->is_causal = o.causal, c->rate = o.dropout;
  c->key_size = o.key_size ? o.key_size : size, c->value_size = o.value_size ? o.value_size : size;
  c->has_own_sizes = c->key_size != size || c->value_size != size;
  c->has_bias_kv = o.bias_kv, c->has_zero_kv = o.zero_attn;
  add_projections(m, o.at);
  tn_module *out = tn_linear(m, "out_proj", size, size, (tn_linear_options){.no_bias = true, .at = o.at});
  if (c->has_bias) fe_module_param(out, "bias", &size, 1, (tn_init){TN_INIT_ZEROS, 0, 0}, o.at);
  out->config.has_bias = c->has_bias;
  return m;
}

typedef struct {
  tn_module *m;
  tn_function *f;
  tn_site at;
} Call;

static tn_tensor weight(const Call *c, const char *name) { return fe_read(c->f, fe_entry(c->m, name)->param, c->at); }

// Rows [part, part + n) E of the projection
static tn_tensor projection(const Call *c, int64_t part, int64_t n) {
  if (c->m->config.has_own_sizes) return weight(c, projection_names[part]);
  tn_tensor w = weight(c, "in_proj_weight");
  return n < 3 ? fe_slice(w, 0, part * c->m->config.out, n * c->m->config.out, c->at) : w;
}

// x through that: [B,T,n,H,D], or [B,T,H,D] for one part.
static tn_tensor project(const Call *c, tn_tensor x, int64_t part, int64_t n) {
  const tn_module *m = c->m;
  Prog *p = c->f->p->ir;
  tn_tensor w = projection(c, part, n), b = m->config.has_bias ? weight(c, "in_proj_bias") : fe_poison(c->f);
  if (n < 3 && m->config.has_bias) b = fe_slice(b, 0, part * m->config.out, n * m->config.out, c->at);
  tn_tensor y = fe_linear(x, w, b, m->config.has_bias, c->at);
  if (!fe_ok(y)) return y;
  uint32_t rank = fe_rank(y) - 1;  // [B,T,n E], or [rows, n E]
  Dim d[5] = {fe_axis_dim(y, 0), fe_axis_dim(y, 1)};
  if (n > 1) d[rank++] = ir_dim(p, n);
  d[rank++] = ir_dim(p, m->config.n_heads), d[rank++] = ir_dim(p, m->config.out / m->config.n_heads);
  return fe_reshape(y, d, rank, c->at);
}

// ---- bias_k, bias_v and the zeros of add_zero_attn: keys and values that every query sees
static uint32_t n_added_keys(const tn_module *m) { return (uint32_t)m->config.has_bias_kv + m->config.has_zero_kv; }

// In front of x [B,T,H,D]: zeros, then the parameter `name`
static tn_tensor with_added(const Call *c, tn_tensor x, const char *name) {
  if (!fe_ok(x)) return x;
  Prog *p = c->f->p->ir;
  Dim one = ir_dim(p, 1), d[4] = {fe_axis_dim(x, 0), one, fe_axis_dim(x, 2), fe_axis_dim(x, 3)};
  Shape row = ir_shape(p, d, 4);
  tn_tensor all[3];
  uint32_t n = 0;
  if (c->m->config.has_zero_kv) all[n++] = fe_full(c->f, 0, row, DT_F32, c->at);
  if (c->m->config.has_bias_kv) {
    tn_tensor bias = fe_reshape(weight(c, name), (Dim[]){one, one, d[2], d[3]}, 4, c->at);
    all[n++] = fe_emit(OP_expand, &bias, 1, (const Attr[]){ir_a_list(KEY_shape, row)}, 1, c->at);
  }
  all[n++] = x;
  return fe_concat(all, n, 1, c->at);
}

// A mask or a bias of n_keys keys with `value` for those in front of them
static tn_tensor pad_keys(const Call *c, tn_tensor t, Dim n_keys, double value) {
  if (!fe_ok(t)) return t;
  Prog *p = c->f->p->ir;
  Dim d[MAX_RANK] = {ir_dim(p, 1)};
  uint32_t rank = fe_rank(t);
  for (uint32_t k = 0; k < rank; k++) d[k] = fe_axis_dim(t, k);
  if (!rank) t = fe_reshape(t, d, rank = 1, c->at);
  if (fe_ok(t) && ir_dim_is_const(p, d[rank - 1]) && ir_dim_bound(p, d[rank - 1]) == 1) {
    d[rank - 1] = n_keys;
    t = fe_emit(OP_expand, &t, 1, (const Attr[]){ir_a_list(KEY_shape, ir_shape(p, d, rank))}, 1, c->at);
  }
  return fe_ok(t) ? fe_pad(t, (const int64_t[]){n_added_keys(c->m), 0}, 2, TN_PAD_CONSTANT, value, c->at) : t;
}

// Causal order and window as part of the mask: the op knows none that lets every query see the keys in front.
static void as_mask(const Call *c, Dim n_queries, Dim n_keys, tn_attention_options *o) {
  tn_attention_options order = *o;
  order.lengths = (tn_tensor){0};
  tn_tensor seen = fe_visible_keys(c->f, n_queries, n_keys, &order, c->at);
  if (o->mask.fn && fe_ok(seen)) seen = fe_emit2(OP_bitwise_and, fe_cast(o->mask, DT_BOOL, c->at), seen, c->at);
  o->mask = seen, o->offset = (tn_tensor){0};
  o->causal = false, o->const_offset = o->window = 0;
}

// What the call says of its keys, n_keys of them, holds behind those that the module adds.
static bool count_added_keys(const Call *c, Dim n_queries, Dim n_keys, tn_attention_options *o) {
  uint32_t n = n_added_keys(c->m);
  if (!n) return true;
  if (o->window || o->offset.fn || o->const_offset < 0) as_mask(c, n_queries, n_keys, o);
  if (o->causal) o->const_offset += n;
  if (o->lengths.fn) o->lengths = fe_emit2(OP_add, o->lengths, fe_number(c->f, n, DT_I64, c->at), c->at);
  if (o->mask.fn) o->mask = pad_keys(c, o->mask, n_keys, 1);
  if (o->bias.fn) o->bias = pad_keys(c, o->bias, n_keys, 0);
  return (!o->lengths.fn || fe_ok(o->lengths)) && (!o->mask.fn || fe_ok(o->mask)) && (!o->bias.fn || fe_ok(o->bias));
}

// Columns of weights [B,H,Tq,Tk] in PyTorch's order: keys, bias_k, zeros.
static tn_tensor added_last(const Call *c, tn_tensor w) {
  uint32_t n = n_added_keys(c->m);
  if (!n || !fe_ok(w)) return w;
  Prog *p = c->f->p->ir;
  tn_tensor all[3] = {fe_part(w, 3, ir_dim(p, n), ir_dim_sub(p, fe_axis_dim(w, 3), ir_dim(p, n)), c->at)};
  for (uint32_t k = 1; k <= n; k++) all[k] = fe_slice(w, 3, n - k, 1, c->at);
  return fe_concat(all, n + 1, 3, c->at);
}

static tn_tensor refuse_added_keys(const Call *c, tn_tensor q) {
  fe_error(c->f->p, E_ARGUMENT, c->at,
           "module '%s' adds keys of its own (bias_kv, zero_attn): packed rows have no place for them", c->m->path);
  fe_note_value(q, "the value");
  fe_hint(c->f->p, "tn_pad_packed gives each sequence a row of its own, and .lengths hides the padding");
  return fe_poison(c->f);
}

// ---- calling
// q, k and v stand for one, two or three different values.
static tn_tensor attend(const Call *c, tn_tensor q, tn_tensor k, tn_tensor v, const tn_attention_options *o) {
  tn_module *m = c->m;
  tn_tensor in[3];
  uint32_t n = 0;
  bool is_apart = m->config.has_own_sizes || n_added_keys(m), one_kv = k.v == v.v && !is_apart;
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
  bool is_packed = fe_rank(q) == 2;
  if (is_packed && n_added_keys(m)) return refuse_added_keys(c, q);
  if (!is_packed && !count_added_keys(c, fe_axis_dim(q, 1), fe_axis_dim(k, 1), &how)) return fe_poison(c->f);
  if (n_added_keys(m)) in[1] = with_added(c, in[1], "bias_k"), in[2] = with_added(c, in[2], "bias_v");
  for (uint32_t i = 0; i < n; i++)
    if (!fe_ok(in[i])) return fe_poison(c->f);
  tn_tensor y = fe_attention(in, n, 4, &how, c->at);
  if (!fe_ok(y)) return y;
  if (o->weights) *o->weights = added_last(c, *o->weights);
  Dim d[3] = {fe_axis_dim(y, 0), fe_axis_dim(y, 1)};
  d[fe_rank(q) - 1] = ir_dim(c->f->p->ir, m->config.out);
  y = fe_reshape(y, d, fe_rank(q), c->at);
  return fe_call(m->first, y, c->at);
}

// [T,E] is a batch of one sequence, but where it has the rows of a packed one.
static bool is_batch(tn_tensor x) { return fe_rank(x) == 3 || fe_rows_of(x); }
static tn_tensor as_batch(tn_tensor x, tn_site at) {
  return !is_batch(x) ? fe_reshape(x, (Dim[]){ir_dim(x.fn->p->ir, 1), fe_axis_dim(x, 0), fe_axis_dim(x, 1)}, 3, at) : x;
}

static tn_tensor attend_ranks(const Call *c, const tn_tensor *x, const tn_attention_options *o) {
  tn_tensor in[3];
  for (uint32_t k = 0; k < 3; k++) {
    uint32_t same = 0;  // values that are one stay one
    while (x[same].v != x[k].v) same++;
    in[k] = same < k ? in[same] : as_batch(x[k], c->at);
  }
  tn_tensor y = attend(c, in[0], in[1], in[2], o);
  fe_give_weights("tn_attention_call", o, is_batch(x[0]), true, c->at);
  if (is_batch(x[0]) || !fe_ok(y)) return y;
  return fe_reshape(y, (Dim[]){fe_axis_dim(y, 1), fe_axis_dim(y, 2)}, 2, c->at);
}

static void report_rank(const tn_module *m, tn_tensor x, tn_tensor q, tn_site at) {
  fe_error(m->p, E_SHAPE, at,
           "module '%s' takes [B,T,size], or [T,size], of q, k and v alike, not a value with %u axes", m->path,
           fe_rank(x));
  fe_note_value(x, "the value");
  if (x.v != q.v) fe_note_value(q, "q");
}

static bool check_call(const Call *c, const tn_tensor *x, uint32_t n) {
  tn_module *m = c->m;
  tn_program *p = c->f->p;
  if (m && m->poisoned) return false;
  if (!fe_own_module(p, m, "called", c->at)) return false;
  if (m->kind != MOD_ATTENTION) {
    fe_error(p, E_ARGUMENT, c->at, "module '%s' is no attention", m->path);
    return false;
  }
  for (uint32_t k = 0; k < n; k++) {
    if ((fe_rank(x[k]) == 2 || fe_rank(x[k]) == 3) && fe_rank(x[k]) == fe_rank(x[0])) continue;
    report_rank(m, x[k], x[0], c->at);
    return false;
  }
  return true;
}

// ---- over the slots of a run
static bool check_slots(const Call *c, tn_tensor q, tn_tensor k, tn_tensor v, const tn_attention_options *o) {
  bool has_more =
      o->lengths.fn || o->bias.fn || o->mask.fn || o->offset.fn || o->const_offset || o->weights || o->dropout > 0;
  const char *why = NULL;
  if (q.v != k.v || k.v != v.v) why = "of one value to itself";
  else if (has_more) why = "in causal order, with no other options but scale and window";
  else if (c->m->config.has_own_sizes) why = "with keys and values of its own size";
  else if (n_added_keys(c->m)) why = "without keys of its own (bias_kv, zero_attn)";
  else if (c->m->config.rate > 0 && !fe_eval(c->f, c->at)) why = "without dropout: tn_eval marks the function";
  else if (fe_rank(q) != 2) why = "of the rows [rows, size] of their run";
  if (!why) return true;
  fe_error(c->f->p, E_ARGUMENT, c->at, "module '%s' attends over slots %s", c->m->path, why);
  fe_note_value(q, "the value");
  return false;
}

static tn_tensor attend_slots(const Call *c, tn_tensor x, const tn_slot_run *run, const tn_attention_options *o) {
  tn_module *cache = c->m->first;
  while (cache && !(cache->kind == MOD_SLOT_CACHE && cache->config.slots == run->slots)) cache = cache->next;
  if (!cache) {
    fe_error(c->f->p, E_ARGUMENT, c->at, "module '%s' has no cache of the slots of this run", c->m->path);
    fe_note(c->f->p, c->m->loc, "the module was made here");
    fe_hint(c->f->p, "tn_slot_caches(m, slots) makes one for each attention below m");
    return fe_poison(c->f);
  }
  const tn_attention_options how = {.scale = o->scale, .window = o->window, .at = c->at};
  tn_tensor all = project(c, x, 0, 3), part[3];  // [rows,3,H,D]
  for (int64_t k = 0; k < 3 && fe_ok(all); k++) part[k] = fe_without_axis(fe_slice(all, 1, k, 1, c->at), 1, c->at);
  if (!fe_ok(all)) return all;
  tn_tensor y = fe_slot_attend(cache, run, part[0], part[1], part[2], how);
  if (!fe_ok(y)) return y;
  y = fe_reshape(y, (const Dim[]){fe_axis_dim(y, 0), ir_dim(c->f->p->ir, c->m->config.out)}, 2, c->at);
  return fe_call(c->m->first, y, c->at);
}

tn_tensor fe_attention_of(tn_module *m, tn_tensor q, tn_tensor k, tn_tensor v, tn_attention_options o) {
  tn_function *f;
  if (!k.fn) k = q;
  if (!v.fn) v = k;
  const tn_tensor x[] = {q, k, v};
  if (!fe_join_attention("tn_attention_call", x, 3, &o, &f)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  Call c = {m, f, o.at};
  const tn_slot_run *slots = o.slots;
  o.slots = NULL;
  if (!check_call(&c, x, 3) || !fe_check_attention(f, &o)) return fe_poison(f);
  FE_INSIDE(m);
  if (slots) return check_slots(&c, q, k, v, &o) ? attend_slots(&c, q, slots, &o) : fe_poison(f);
  return attend_ranks(&c, x, &o);
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
