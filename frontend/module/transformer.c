// Transformer layers and stacks of them, as PyTorch's with batch_first: x [B, T, size].
//
//   encoder, norm last:   x = norm1(x + self_attn(x))           norm first:   x = x + self_attn(norm1(x))
//                         x = norm2(x + linear2(act(linear1(x))))             x = x + linear2(act(linear1(norm2(x))))
//   decoder: between them x = norm2(x + multihead_attn(x, memory)), and the last norm is norm3
//
// A layer is a module of modules: every part runs as tn_call runs it, hooks included. What masks or hides goes to the
// layers, and from them to self-attention, as the arguments of the call.
#include "frontend/graph/ledger.h"
#include "frontend/module/attention.h"
#include "frontend/module/call.h"
#include "frontend/module/layers.h"

#include <math.h>

typedef struct {
  tn_attention_options self, cross;
  tn_tensor memory;  // of decoders
} Arguments;

// ---- making
static tn_tensor encoder_layer(tn_module *m, tn_tensor x, tn_site at);
static tn_tensor decoder_layer(tn_module *m, tn_tensor x, tn_site at);
static tn_tensor encoder(tn_module *m, tn_tensor x, tn_site at);
static tn_tensor decoder(tn_module *m, tn_tensor x, tn_site at);

static void add_norm(tn_module *m, const char *name, int64_t size, const tn_transformer_options *o) {
  tn_shape s = {.dims = {tn_dim_const(size)}, .rank = 1};
  tn_layer_norm(m, name, s, (tn_norm_options){.eps = o->eps, .no_bias = o->no_bias, .at = o->at});
}

static void add_attention(tn_module *m, const char *name, int64_t size, int64_t heads,
                          const tn_transformer_options *o) {
  tn_multi_head_options how = {.no_bias = o->no_bias, .dropout = o->dropout, .at = o->at};
  tn_multi_head_attention(m, name, size, heads, how);
}

// Parts in the order of PyTorch's.
static tn_module *make_layer(tn_module *parent, const char *name, int64_t size, int64_t heads, bool is_decoder,
                             tn_transformer_options o) {
  tn_module *m = fe_built_in(parent, name, is_decoder ? "TransformerDecoderLayer" : "TransformerEncoderLayer",
                             is_decoder ? decoder_layer : encoder_layer, o.at);
  if (!m || m->poisoned) return m;
  int64_t wide = o.feedforward ? o.feedforward : 2048;
  tn_linear_options how = {.no_bias = o.no_bias, .at = o.at};
  m->config.norm_first = o.norm_first;
  add_attention(m, "self_attn", size, heads, &o);
  if (is_decoder) add_attention(m, "multihead_attn", size, heads, &o);
  tn_linear(m, "linear1", size, wide, how);
  tn_dropout_module(m, "dropout", o.dropout, o.at);
  tn_linear(m, "linear2", wide, size, how);
  add_norm(m, "norm1", size, &o);
  add_norm(m, "norm2", size, &o);
  if (is_decoder) add_norm(m, "norm3", size, &o);
  tn_dropout_module(m, "dropout1", o.dropout, o.at);
  tn_dropout_module(m, "dropout2", o.dropout, o.at);
  if (is_decoder) tn_dropout_module(m, "dropout3", o.dropout, o.at);
  tn_activation(m, "activation", o.activation ? o.activation : "relu", (tn_activation_options){.at = o.at});
  for (const tn_module *c = m->first; c; c = c->next) m->poisoned |= c->poisoned;
  return m;
}

static tn_module *make_stack(tn_module *parent, const char *name, int64_t size, int64_t heads, int64_t n_layers,
                             bool is_decoder, tn_transformer_options o) {
  tn_module *m = fe_built_in(parent, name, is_decoder ? "TransformerDecoder" : "TransformerEncoder",
                             is_decoder ? decoder : encoder, o.at);
  if (!m || m->poisoned) return m;
  m->poisoned = n_layers < 1 || n_layers > 4096;
  if (m->poisoned) {
    fe_error(m->p, E_ARGUMENT, o.at, "module '%s' has %lld layers: 1 to 4096 are possible", m->path,
             (long long)n_layers);
    return m;
  }
  tn_module *layers = tn_module_list(m, "layers", o.at);
  for (int64_t k = 0; k < n_layers && !m->poisoned; k++)
    m->poisoned = make_layer(layers, NULL, size, heads, is_decoder, o)->poisoned;
  if (o.final_norm && !m->poisoned) add_norm(m, "norm", size, &o);
  return m;
}

// Xavier's uniform values, as PyTorch's Transformer begins with, of all matrices.
static void begin_as_xavier(tn_module *m) {
  for (uint32_t k = 0; k < m->n_entries; k++) {
    FeParam *q = m->entries[k].param;
    if (ir_rank(m->p->ir, q->shape) < 2) continue;
    double most = sqrt(6 / (double)(ir_list_at(m->p->ir, q->shape, 0) + ir_list_at(m->p->ir, q->shape, 1)));
    q->init = (tn_init){TN_INIT_UNIFORM, -most, most};
  }
  for (tn_module *c = m->first; c; c = c->next) begin_as_xavier(c);
}

static tn_tensor wants_two(tn_module *m, tn_tensor x, tn_site at) {
  fe_error(m->p, E_ARGUMENT, at, "module '%s' works on a source and a target", m->path);
  fe_hint(m->p, "tn_transformer_call(m, source, target)");
  return fe_poison(x.fn);
}

static tn_module *make_both(tn_module *parent, const char *name, int64_t size, int64_t heads, int64_t n_encoder,
                            int64_t n_decoder, tn_transformer_options o) {
  tn_module *m = fe_built_in(parent, name, "Transformer", wants_two, o.at);
  if (!m || m->poisoned) return m;
  o.final_norm = true;
  m->poisoned = make_stack(m, "encoder", size, heads, n_encoder, false, o)->poisoned ||
                make_stack(m, "decoder", size, heads, n_decoder, true, o)->poisoned;
  begin_as_xavier(m);
  return m;
}

#define GUARDED(made)        \
  if (!parent) return NULL;  \
  FE_GUARD(parent->p, NULL); \
  return made

tn_module *tn_transformer_encoder_layer(tn_module *parent, const char *name, int64_t size, int64_t heads,
                                        tn_transformer_options o) {
  GUARDED(make_layer(parent, name, size, heads, false, o));
}

tn_module *tn_transformer_decoder_layer(tn_module *parent, const char *name, int64_t size, int64_t heads,
                                        tn_transformer_options o) {
  GUARDED(make_layer(parent, name, size, heads, true, o));
}

tn_module *tn_transformer_encoder(tn_module *parent, const char *name, int64_t size, int64_t heads, int64_t n_layers,
                                  tn_transformer_options o) {
  GUARDED(make_stack(parent, name, size, heads, n_layers, false, o));
}

tn_module *tn_transformer_decoder(tn_module *parent, const char *name, int64_t size, int64_t heads, int64_t n_layers,
                                  tn_transformer_options o) {
  GUARDED(make_stack(parent, name, size, heads, n_layers, true, o));
}

tn_module *tn_transformer(tn_module *parent, const char *name, int64_t size, int64_t heads, int64_t n_encoder,
                          int64_t n_decoder, tn_transformer_options o) {
  GUARDED(make_both(parent, name, size, heads, n_encoder, n_decoder, o));
}

// ---- running
typedef struct {
  tn_module *m;
  const Arguments *a;  // NULL: none
  tn_site at;
} Call;

static tn_tensor part(const Call *c, const char *name, tn_tensor x) { return fe_call(tn_child(c->m, name), x, c->at); }

static tn_tensor run_with(tn_module *m, tn_tensor x, const void *arguments, tn_site at) {
  const void *around_it = m->arguments;
  m->arguments = arguments;
  x = fe_call(m, x, at);
  m->arguments = around_it;
  return x;
}

static tn_tensor attend_memory(const Call *c, tn_tensor x) {
  tn_attention_options o = c->a->cross;
  o.at = c->at;
  return fe_ok(x) ? fe_attention_of(tn_child(c->m, "multihead_attn"), x, c->a->memory, c->a->memory, o) : x;
}

static tn_tensor feed_forward(const Call *c, tn_tensor x) {
  x = part(c, "activation", part(c, "linear1", x));
  return part(c, "linear2", part(c, "dropout", x));
}

typedef enum { SELF, CROSS, FEED_FORWARD } Block;

static tn_tensor run_block(const Call *c, Block block, tn_tensor x) {
  switch (block) {
  case SELF: return run_with(tn_child(c->m, "self_attn"), x, c->a ? &c->a->self : NULL, c->at);
  case CROSS: return attend_memory(c, x);
  default: return feed_forward(c, x);
  }
}

// A block with its norm, dropout and the way around it.
static tn_tensor around(const Call *c, Block block, const char *norm, const char *dropout, tn_tensor x) {
  bool first = c->m->config.norm_first;
  tn_tensor y = part(c, dropout, run_block(c, block, first ? part(c, norm, x) : x));
  x = fe_ok(y) ? fe_emit2(OP_add, x, y, c->at) : y;
  return first ? x : part(c, norm, x);
}

static tn_tensor encoder_layer(tn_module *m, tn_tensor x, tn_site at) {
  Call c = {m, m->arguments, at};
  x = around(&c, SELF, "norm1", "dropout1", x);
  return around(&c, FEED_FORWARD, "norm2", "dropout2", x);
}

static tn_tensor wants_memory(tn_module *m, tn_tensor x, tn_site at) {
  fe_error(m->p, E_ARGUMENT, at, "module '%s' works on a value and a memory", m->path);
  fe_hint(m->p, "tn_decoder_call(m, x, memory)");
  return fe_poison(x.fn);
}

static tn_tensor decoder_layer(tn_module *m, tn_tensor x, tn_site at) {
  Call c = {m, m->arguments, at};
  if (!c.a) return wants_memory(m, x, at);
  x = around(&c, SELF, "norm1", "dropout1", x);
  x = around(&c, CROSS, "norm2", "dropout2", x);
  return around(&c, FEED_FORWARD, "norm3", "dropout3", x);
}

static tn_tensor refuse_weights(tn_module *m, tn_tensor x, tn_site at) {
  fe_error(m->p, E_ARGUMENT, at, "module '%s' is a stack, each layer of which has weights of its own", m->path);
  fe_hint(m->p, "call its layers one after the other: tn_child(tn_child(m, \"layers\"), \"0\"), ..");
  return fe_poison(x.fn);
}

static tn_tensor run_layers(tn_module *m, tn_tensor x, const Arguments *a, tn_site at) {
  if (a && (a->self.weights || a->cross.weights)) return refuse_weights(m, x, at);
  for (tn_module *c = tn_child(m, "layers")->first; c; c = c->next) x = run_with(c, x, a, at);
  tn_module *norm = tn_child(m, "norm");
  return norm ? fe_call(norm, x, at) : x;
}

static tn_tensor encoder(tn_module *m, tn_tensor x, tn_site at) { return run_layers(m, x, m->arguments, at); }

static tn_tensor decoder(tn_module *m, tn_tensor x, tn_site at) {
  return m->arguments ? run_layers(m, x, m->arguments, at) : wants_memory(m, x, at);
}

// ---- calls
static bool check_kind(tn_function *f, tn_module *m, bool is_decoder, tn_site at) {
  if (!fe_callable(f, m, at)) return false;
  FeForward *forward = m->config.forward;
  if (is_decoder ? forward == decoder || forward == decoder_layer : forward == encoder || forward == encoder_layer)
    return true;
  fe_error(f->p, E_ARGUMENT, at, "module '%s' is no transformer's %s", m->path, is_decoder ? "decoder" : "encoder");
  fe_note(f->p, m->loc, "it was made here");
  return false;
}

tn_tensor tn_encoder_call(tn_module *m, tn_tensor x, tn_attention_options o) {
  tn_function *f;
  if (!fe_join_attention(__func__, &x, 1, &o, &f)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_kind(f, m, false, o.at)) return fe_poison(f);
  Arguments a = {.self = o};
  return fe_made(run_with(m, x, &a, o.at), o.at);
}

tn_tensor tn_decoder_call(tn_module *m, tn_tensor x, tn_tensor memory, tn_decoder_options o) {
  tn_function *f;
  bool joined = fe_join((const tn_tensor[]){x, memory}, 2, &f, o.at);
  fe_poison_weights(&o.self, f), fe_poison_weights(&o.cross, f);
  if (!joined) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_kind(f, m, true, o.at)) return fe_poison(f);
  Arguments a = {o.self, o.cross, memory};
  return fe_made(run_with(m, x, &a, o.at), o.at);
}

tn_tensor tn_transformer_call(tn_module *m, tn_tensor source, tn_tensor target, tn_transformer_call_options o) {
  tn_function *f;
  bool joined = fe_join((const tn_tensor[]){source, target}, 2, &f, o.at);
  fe_poison_weights(&o.source, f), fe_poison_weights(&o.target, f), fe_poison_weights(&o.memory, f);
  if (!joined) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!fe_callable(f, m, o.at)) return fe_poison(f);
  if (m->config.forward != wants_two) {
    fe_error(f->p, E_ARGUMENT, o.at, "module '%s' is no transformer of an encoder and a decoder", m->path);
    fe_note(f->p, m->loc, "it was made here");
    return fe_poison(f);
  }
  FE_IN_CHECKPOINT(m);
  Arguments encode = {.self = o.source};
  tn_tensor memory = run_with(tn_child(m, "encoder"), source, &encode, o.at);
  Arguments decode = {o.target, o.memory, memory};
  return fe_ok(memory) ? fe_made(run_with(tn_child(m, "decoder"), target, &decode, o.at), o.at) : memory;
}
