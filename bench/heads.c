#include "bench/heads.h"

static tn_tensor through(tn_module *m, const char *name, tn_tensor x) { return tn_call(tn_child(m, name), x); }

// [B,T,H D] -> [B,H,T,D]
static tn_tensor split(tn_tensor x, int64_t heads) {
  tn_dim b = tn_dim_of(x, 0), t = tn_dim_of(x, 1);
  return tn_transpose(tn_reshape(x, TN_SHAPE(b, t, heads, -1)), 1, 2);
}

// and back
static tn_tensor merge(tn_tensor x) {
  tn_dim b = tn_dim_of(x, 0), t = tn_dim_of(x, 2);
  return tn_reshape(tn_transpose(x, 1, 2), TN_SHAPE(b, t, -1));
}

// A block's two norms, the joint projection and the one behind attention, both layers of its feed-forward part
typedef struct {
  const char *norm1, *joint, *out, *norm2, *up, *down;
} BlockNames;

static tn_module *block(tn_module *net, HeadSizes s, BlockNames name) {
  tn_module *m = tn_module_new(net, "m");
  tn_layer_norm(m, name.norm1, TN_SHAPE(s.wide)), tn_linear(m, name.joint, s.wide, 3 * s.wide);
  tn_linear(m, name.out, s.wide, s.wide), tn_layer_norm(m, name.norm2, TN_SHAPE(s.wide));
  tn_linear(m, name.up, s.wide, s.inner), tn_linear(m, name.down, s.inner, s.wide);
  return m;
}

// ---- GPT-2: thirds of one projection
tn_module *heads_make_gpt(tn_module *net, HeadSizes s) {
  return block(net, s, (BlockNames){"ln_1", "c_attn", "c_proj", "ln_2", "c_fc", "c_out"});
}

tn_tensor heads_gpt(tn_module *m, tn_tensor x, HeadSizes s) {
  tn_tensor part[3];
  tn_split(through(m, "c_attn", through(m, "ln_1", x)), s.wide, 2, part, 3);
  for (int k = 0; k < 3; k++) part[k] = split(part[k], s.heads);
  tn_tensor y = tn_scaled_dot_product_attention(part[0], part[1], part[2], .causal = true);
  x = tn_add(x, through(m, "c_proj", merge(y)));
  return tn_add(x, through(m, "c_out", tn_gelu_tanh(through(m, "c_fc", through(m, "ln_2", x)))));
}

// ---- Llama: rotary positions, grouped queries, a gated feed-forward part
tn_module *heads_make_llama(tn_module *net, HeadSizes s) {
  tn_module *m = tn_module_new(net, "m");
  int64_t kv = s.wide / s.heads * s.kv_heads;
  tn_rms_norm(m, "norm1", TN_SHAPE(s.wide), .eps = 1e-6), tn_rms_norm(m, "norm2", TN_SHAPE(s.wide), .eps = 1e-6);
  tn_linear(m, "q", s.wide, s.wide, .no_bias = true), tn_linear(m, "k", s.wide, kv, .no_bias = true);
  tn_linear(m, "v", s.wide, kv, .no_bias = true), tn_linear(m, "o", s.wide, s.wide, .no_bias = true);
  tn_linear(m, "gate", s.wide, s.inner, .no_bias = true), tn_linear(m, "up", s.wide, s.inner, .no_bias = true);
  tn_linear(m, "down", s.inner, s.wide, .no_bias = true);
  return m;
}

tn_tensor heads_llama(tn_module *m, tn_tensor x, HeadSizes s) {
  tn_tensor y = through(m, "norm1", x);
  tn_tensor q = tn_rope(split(through(m, "q", y), s.heads)), k = tn_rope(split(through(m, "k", y), s.kv_heads));
  y = tn_scaled_dot_product_attention(q, k, split(through(m, "v", y), s.kv_heads), .causal = true);
  x = tn_add(x, through(m, "o", merge(y)));
  y = through(m, "norm2", x);
  return tn_add(x, through(m, "down", tn_mul(tn_silu(through(m, "gate", y)), through(m, "up", y))));
}

// ---- ViT as timm has it: one projection, whose parts are the slowest axis of a permutation
tn_module *heads_make_vit(tn_module *net, HeadSizes s) {
  return block(net, s, (BlockNames){"norm1", "qkv", "proj", "norm2", "fc1", "fc2"});
}

static void parts_of(tn_module *m, tn_tensor x, HeadSizes s, tn_tensor part[3]) {
  tn_dim b = tn_dim_of(x, 0), t = tn_dim_of(x, 1);
  x = tn_reshape(through(m, "qkv", x), TN_SHAPE(b, t, 3, s.heads, s.wide / s.heads));
  tn_unbind(tn_permute(x, TN_INTS(2, 0, 3, 1, 4)), 0, part, 3);
}

tn_tensor heads_vit(tn_module *m, tn_tensor x, HeadSizes s) {
  tn_tensor p[3];
  parts_of(m, through(m, "norm1", x), s, p);
  x = tn_add(x, through(m, "proj", merge(tn_scaled_dot_product_attention(p[0], p[1], p[2]))));
  return tn_add(x, through(m, "fc2", tn_gelu(through(m, "fc1", through(m, "norm2", x)))));
}

// ---- Swin: attention within windows, with a bias by the distance of two pixels
tn_module *heads_make_swin(tn_module *net, HeadSizes s, int64_t side) {
  tn_module *m = tn_module_new(net, "m");
  tn_linear(m, "qkv", s.wide, 3 * s.wide), tn_linear(m, "proj", s.wide, s.wide);
  int64_t apart = (2 * side - 1) * (2 * side - 1);
  tn_parameter(m, "table", TN_SHAPE(apart, s.heads), (tn_init){TN_INIT_NORMAL, 0, 0.02});
  return m;
}

tn_tensor heads_swin(tn_module *m, tn_tensor x, HeadSizes s, int64_t side) {
  enum { MOST = 64 };
  int64_t index[MOST * MOST], n = side * side;
  for (int64_t a = 0; a < n; a++)
    for (int64_t b = 0; b < n; b++)
      index[a * n + b] = (a / side - b / side + side - 1) * (2 * side - 1) + a % side - b % side + side - 1;
  tn_tensor p[3], table = tn_param_value(x.fn, m, "table");
  tn_tensor bias = tn_index_select(table, 0, tn_constant_i64(x.fn, index, TN_SHAPE(n * n)));
  bias = tn_unsqueeze(tn_permute(tn_reshape(bias, TN_SHAPE(n, n, s.heads)), TN_INTS(2, 0, 1)), 0);
  parts_of(m, x, s, p);
  return through(m, "proj", merge(tn_scaled_dot_product_attention(p[0], p[1], p[2], .bias = bias)));
}

// ---- cross attention, as of diffusion models; one step of decoding
tn_module *heads_make_cross(tn_module *net, HeadSizes s) {
  tn_module *m = tn_module_new(net, "m");
  tn_linear(m, "q", s.wide, s.wide, .no_bias = true), tn_linear(m, "k", s.inner, s.wide, .no_bias = true);
  tn_linear(m, "v", s.inner, s.wide, .no_bias = true), tn_linear(m, "o", s.wide, s.wide);
  return m;
}

tn_tensor heads_cross(tn_module *m, tn_tensor x, tn_tensor memory, HeadSizes s) {
  tn_tensor q = split(through(m, "q", x), s.heads), k = split(through(m, "k", memory), s.heads);
  tn_tensor y = tn_scaled_dot_product_attention(q, k, split(through(m, "v", memory), s.heads));
  return through(m, "o", merge(y));
}

tn_tensor heads_decode(tn_module *m, tn_tensor x, tn_tensor k, tn_tensor v, HeadSizes s) {
  tn_tensor q = split(through(m, "q", x), s.heads);
  k = tn_concat(2, TN_TENSORS(k, split(through(m, "k", x), s.heads)));
  v = tn_concat(2, TN_TENSORS(v, split(through(m, "v", x), s.heads)));
  return through(m, "o", merge(tn_scaled_dot_product_attention(q, k, v)));
}
