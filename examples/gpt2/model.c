#include "examples/gpt2/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- the size of a file's model
// Dims of the tensor of that name in the header of a safetensors file; false: there is none.
static bool find_shape(const char *header, const char *name, int64_t dims[2]) {
  const char *at = strstr(header, name);
  while (at && at[strlen(name) + strspn(at + strlen(name), " :")] != '{') at = strstr(at + 1, name);  // an alias
  const char *shape = at ? strstr(at, "\"shape\":[") : NULL, *end = at ? strchr(at, '}') : NULL;
  return shape && end && shape < end && sscanf(shape, "\"shape\":[%" SCNd64 ",%" SCNd64, &dims[0], &dims[1]) == 2;
}

static char *read_header(const char *path) {
  unsigned char size[8];
  FILE *in = fopen(path, "rb");
  uint64_t n = 0;
  char *text = NULL;
  if (in && fread(size, 1, 8, in) == 8)
    for (int k = 7; k >= 0; k--) n = n << 8 | size[k];
  if (n && n < 1 << 26) text = calloc(n + 1, 1);
  if (text && fread(text, 1, n, in) != n) free(text), text = NULL;
  if (in) fclose(in);
  return text;
}

// Heads are in no shape: "n_head" of the config.json beside the file; without one as OpenAI's models have them, 64 wide.
static bool find_heads(const char *path, Gpt2 *g) {
  const char *slash = strrchr(path, '/');
  char config[4096], text[8192];
  snprintf(config, sizeof config, "%.*sconfig.json", slash ? (int)(slash - path) + 1 : 0, path);
  FILE *in = fopen(config, "rb");
  g->heads = (g->width + 63) / 64;
  if (!in) return true;
  text[fread(text, 1, sizeof text - 1, in)] = 0, fclose(in);
  const char *at = strstr(text, "\"n_head\"");
  return !at || (sscanf(at, "\"n_head\" : %" SCNd64, &g->heads) == 1 && g->heads > 0 && g->width % g->heads == 0);
}

bool gpt2_size_of(const char *path, Gpt2 *g, char *why, size_t why_size) {
  char *header = read_header(path), name[64];
  int64_t words[2], places[2], any[2];
  bool ok = header && find_shape(header, "wte.weight\"", words) && find_shape(header, "wpe.weight\"", places);
  if (ok) {
    g->no_prefix = !strstr(header, "\"transformer.wte.weight\"");
    g->words = words[0], g->width = words[1], g->places = places[0];
    for (g->layers = 0;; g->layers++) {
      snprintf(name, sizeof name, "h.%d.attn.c_attn.weight\"", (int)g->layers);
      if (!find_shape(header, name, any)) break;
    }
    ok = find_heads(path, g);
    if (!ok) snprintf(why, why_size, "%s: n_head of the config.json beside it does not divide %d", path, (int)g->width);
  } else snprintf(why, why_size, "%s: no safetensors file with the tables of a GPT-2", path);
  free(header);
  return ok;
}

// ---- parameters
static void normal(tn_module *m, const char *name, tn_shape s, double std) {
  tn_parameter(m, name, s, (tn_init){TN_INIT_NORMAL, 0, std});
}

// Conv1D: x weight + bias, weight [in, out]
static void make_conv(tn_module *parent, const char *name, int64_t in, int64_t out, double std) {
  tn_module *m = tn_module_new(parent, name);
  normal(m, "weight", TN_SHAPE(in, out), std);
  tn_parameter(m, "bias", TN_SHAPE(out), (tn_init){.kind = TN_INIT_ZEROS});
}

static tn_tensor conv(tn_function *f, tn_module *m, tn_tensor x) {
  return tn_add(tn_matmul(x, tn_param_value(f, m, "weight")), tn_param_value(f, m, "bias"));
}

static void make_table(tn_program *p, tn_module *net, const char *name, int64_t n, int64_t width) {
  tn_module *m = tn_embedding(net, name, n, width);
  tn_function *init = tn_init_function(p);
  tn_parameter_adopt(m, "weight", tn_mul_scalar(tn_randn(init, TN_SHAPE(n, width)), 0.02));
}

static void make_block(tn_module *list, const char *name, const Gpt2 *g) {
  tn_module *b = tn_module_new(list, name), *attn, *mlp;
  double last = 0.02 / sqrt(2 * (double)g->layers);  // of what is added to the residual stream
  tn_layer_norm(b, "ln_1", TN_SHAPE(g->width));
  attn = tn_module_new(b, "attn");
  make_conv(attn, "c_attn", g->width, 3 * g->width, 0.02);
  make_conv(attn, "c_proj", g->width, g->width, last);
  tn_layer_norm(b, "ln_2", TN_SHAPE(g->width));
  mlp = tn_module_new(b, "mlp");
  make_conv(mlp, "c_fc", g->width, 4 * g->width, 0.02);
  make_conv(mlp, "c_proj", 4 * g->width, g->width, last);
}

static tn_module *body(tn_program *p, const Gpt2 *g) {
  return g->no_prefix ? tn_root(p) : tn_child(tn_root(p), "transformer");
}

static tn_module *layer(tn_module *net, int64_t k) {
  char name[24];
  snprintf(name, sizeof name, "%lld", (long long)k);
  return tn_child(tn_child(net, "h"), name);
}

void gpt2_make(tn_program *p, const Gpt2 *g) {
  tn_module *net = g->no_prefix ? tn_root(p) : tn_module_new(tn_root(p), "transformer");
  make_table(p, net, "wte", g->words, g->width);
  make_table(p, net, "wpe", g->places, g->width);
  tn_module *list = tn_module_new(net, "h");
  for (int64_t k = 0; k < g->layers; k++) {
    char name[24];
    snprintf(name, sizeof name, "%lld", (long long)k);
    make_block(list, name, g);
  }
  tn_layer_norm(net, "ln_f", TN_SHAPE(g->width));
  tn_module *head = tn_linear(tn_root(p), "lm_head", g->width, g->words, .no_bias = true);
  tn_share(head, "weight", tn_child(net, "wte"), "weight");
}

// ---- the graph
// ids [B,T] at places 0 .., or behind what the caches hold -> the stream before the last norm, [B,T,width]
typedef struct {
  tn_function *f;
  tn_program *p;
  const Gpt2 *g;
  bool has_cache;
} Graph;

static tn_tensor attend(const Graph *x, tn_module *b, tn_tensor h) {
  const Gpt2 *g = x->g;
  tn_dim B = tn_dim_of(h, 0), T = tn_dim_of(h, 1), H = tn_dim_const(g->heads), D = tn_dim_const(g->width / g->heads);
  tn_module *attn = tn_child(b, "attn");
  tn_tensor y, qkv = tn_reshape(conv(x->f, tn_child(attn, "c_attn"), h), TN_SHAPE(B, T, 3, H, D));
  if (!x->has_cache) y = tn_attention_packed(qkv, .causal = true, .dropout = g->dropout);
  else {
    tn_tensor part[3];
    for (int k = 0; k < 3; k++) part[k] = tn_reshape(tn_slice(qkv, 2, k, 1), TN_SHAPE(B, T, H, D));
    y = tn_kv_cache_attend(tn_child(b, "cache"), part[0], part[1], part[2]);
  }
  y = conv(x->f, tn_child(attn, "c_proj"), tn_reshape(y, TN_SHAPE(B, T, g->width)));
  return tn_dropout(y, g->dropout);
}

static tn_tensor block(const Graph *x, tn_module *b, tn_tensor h) {
  tn_module *mlp = tn_child(b, "mlp");
  h = tn_add(h, attend(x, b, tn_call(tn_child(b, "ln_1"), h)));
  tn_tensor y = tn_gelu_tanh(conv(x->f, tn_child(mlp, "c_fc"), tn_call(tn_child(b, "ln_2"), h)));
  return tn_add(h, tn_dropout(conv(x->f, tn_child(mlp, "c_proj"), y), x->g->dropout));
}

static tn_tensor stream(const Graph *x, tn_tensor ids) {
  tn_module *net = body(x->p, x->g);
  tn_tensor places = tn_param_value(x->f, tn_child(net, "wpe"), "weight");
  tn_dim T = tn_dim_of(ids, 1);
  tn_tensor first = x->has_cache ? tn_kv_cache_position(x->f, tn_child(layer(net, 0), "cache"))
                                 : tn_constant_i64(x->f, (const int64_t[]){0}, TN_SCALAR);
  tn_tensor h = tn_add(tn_call(tn_child(net, "wte"), ids), tn_slice_at(places, 0, first, T));
  h = tn_dropout(h, x->g->dropout);
  for (int64_t k = 0; k < x->g->layers; k++) h = block(x, layer(net, k), h);
  return h;
}

// [.., width] -> [.., words]
static tn_tensor head(const Graph *x, tn_tensor h) {
  tn_module *net = body(x->p, x->g);
  return tn_call(tn_child(tn_root(x->p), "lm_head"), tn_call(tn_child(net, "ln_f"), h));
}

tn_tensor gpt2_logits(tn_program *p, tn_function *f, const Gpt2 *g, tn_tensor ids) {
  const Graph x = {f, p, g, false};
  return head(&x, stream(&x, ids));
}

// ---- generation
static void add_step(tn_program *p, const Gpt2 *g, const char *name, tn_dim T) {
  tn_function *f = tn_function_begin(p, name);
  tn_eval(f, true);
  const Graph x = {f, p, g, true};
  tn_tensor h = stream(&x, tn_input(f, "ids", TN_I64, TN_SHAPE(1, T)));
  tn_tensor last = tn_cast(tn_add_scalar(tn_cast(tn_dim_number(f, T), TN_F32), -1), TN_I64);
  tn_output(f, "logits", tn_reshape(head(&x, tn_slice_at(h, 1, last, tn_dim_const(1))), TN_SHAPE(g->words)));
  tn_function_end(f);
}

void gpt2_add_generation(tn_program *p, const Gpt2 *g) {
  tn_module *net = body(p, g);
  for (int64_t k = 0; k < g->layers; k++)
    tn_kv_cache(layer(net, k), "cache", 1, g->heads, g->places, g->width / g->heads);
  add_step(p, g, "prefill", tn_dim_bounded(p, "prompt", g->places));
  add_step(p, g, "decode", tn_dim_const(1));
  tn_function *f = tn_function_begin(p, "reset");
  for (int64_t k = 0; k < g->layers; k++) tn_kv_cache_reset(f, tn_child(layer(net, k), "cache"));
  tn_function_end(f);
}
