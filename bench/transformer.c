// transformer4, transformer12: one training step of a GPT-like model: 4 or 12 layers, 256 wide, 4 heads, 128 steps, batch
// 8, vocabulary 5,000, output weights tied to the embedding, cross entropy at every step, AdamW. Peers take the number of
// layers from the weights.
#include "bench/bench.h"
#include <stdlib.h>

enum { MOST_LAYERS = 12, WIDE = 256, HEADS = 4, TIME = 128, BATCH = 8, WORDS = 5000, TOKENS = BATCH * TIME };

typedef struct {
  tn_model *model;
  int64_t x[TOKENS], y[TOKENS];
  float loss;
} Gpt;

static void make_block(tn_module *net, const char *name) {
  tn_module *b = tn_module_new(net, name);
  tn_layer_norm(b, "l1", TN_SHAPE(WIDE));
  tn_linear(b, "qkv", WIDE, 3 * WIDE);
  tn_linear(b, "p", WIDE, WIDE);
  tn_layer_norm(b, "l2", TN_SHAPE(WIDE));
  tn_linear(b, "f", WIDE, 4 * WIDE);
  tn_linear(b, "g", 4 * WIDE, WIDE);
}

static tn_tensor block(tn_module *b, tn_tensor x, tn_dim B) {
  tn_dim T = tn_dim_const(TIME), H = tn_dim_const(HEADS), D = tn_dim_const(WIDE / HEADS);
  tn_tensor qkv = tn_call(tn_child(b, "qkv"), tn_call(tn_child(b, "l1"), x));
  qkv = tn_reshape(qkv, TN_SHAPE(B, T, 3, H, D));
  tn_tensor a = tn_attention_packed(qkv, .causal = true);
  x = tn_add(x, tn_call(tn_child(b, "p"), tn_reshape(a, TN_SHAPE(B, T, WIDE))));
  tn_tensor h = tn_gelu(tn_call(tn_child(b, "f"), tn_call(tn_child(b, "l2"), x)));
  return tn_add(x, tn_call(tn_child(b, "g"), h));
}

static tn_module *make_words(tn_program *p, const char *name, int64_t n) {
  tn_module *m = tn_embedding(tn_root(p), name, n, WIDE);
  tn_function *init = tn_init_function(p);
  tn_tensor w = tn_randn(init, TN_SHAPE(n, WIDE));
  tn_parameter_adopt(m, "weight", tn_mul(w, tn_scalar(init, 0.02)));
  return m;
}

static tn_program *build(int layers, uint32_t shards) {
  static const char *const names[MOST_LAYERS] = {"b0", "b1", "b2", "b3", "b4",  "b5",
                                                 "b6", "b7", "b8", "b9", "b10", "b11"};
  tn_program *p = tn_program_create("transformer");
  tn_module *net = tn_root(p), *words = make_words(p, "te", WORDS), *places = make_words(p, "pe", TIME);
  for (int k = 0; k < layers; k++) make_block(net, names[k]);
  tn_layer_norm(net, "lf", TN_SHAPE(WIDE));
  tn_module *head = tn_linear(net, "head", WIDE, WORDS, .no_bias = true);
  tn_share(head, "weight", words, "weight");
  tn_function *f = tn_function_begin(p, "train_step");
  tn_dim B = shards ? tn_dim_bounded(p, "batch", BATCH) : tn_dim_const(BATCH);
  tn_tensor x = tn_input(f, "x", TN_I64, TN_SHAPE(B, TIME)), y = tn_input(f, "y", TN_I64, TN_SHAPE(B, TIME));
  tn_tensor h = tn_add(tn_call(words, x), tn_param_value(f, places, "weight"));
  for (int k = 0; k < layers; k++) h = block(tn_child(net, names[k]), h, B);
  tn_tensor loss = tn_cross_entropy(tn_call(head, tn_call(tn_child(net, "lf"), h)), y);
  tn_output(f, "loss", loss);
  if (shards) tn_distributed(f, .n = shards, .batch = B);
  tn_backward(loss);
  tn_adamw(f, net, .lr = 1e-3, .weight_decay = 1e-2);
  tn_function_end(f);
  return p;
}

static void *open_layers(Opening *o, int layers) {
  Gpt *g = calloc(1, sizeof *g);
  if (!g) return NULL;
  bench_integers(g->x, TOKENS, WORDS, 1);
  bench_integers(g->y, TOKENS, WORDS, 2);
  g->model = bench_compile(build(layers, o->shards), o);
  if (g->model) return g;
  free(g);
  return NULL;
}

static void *open4(Opening *o) { return open_layers(o, 4); }
static void *open12(Opening *o) { return open_layers(o, 12); }

static bool step(void *w) {
  Gpt *g = w;
  return tn_run(g->model, "train_step", TN_IN(tn_i64(g->x, BATCH, TIME), tn_i64(g->y, BATCH, TIME)),
                TN_OUT(tn_f32_scalar(&g->loss))) == TN_OK;
}

// The third loss: it knows two updates.
static bool check(void *w, double *loss) {
  bool ok = step(w) && step(w) && step(w);
  *loss = ((Gpt *)w)->loss;
  return ok;
}

static tn_model *model(void *w) { return ((Gpt *)w)->model; }

static void close_gpt(void *w) {
  tn_model_free(model(w));
  free(w);
}

#define WEIGHTS(layers) (12.0 * WIDE * WIDE * (layers) + (double)WORDS * WIDE)
#define SCORES(layers) \
  (2.0 * WIDE * TIME * TOKENS * (layers) / 2)  // multiplications of one product; causal: half of them
#define FLOPS(layers) (6.0 * TOKENS * WEIGHTS(layers) + 3 * 2 * SCORES(layers))  // 2 products forward, 4 backward
#define TRANSFORMER(layers)                                                                             \
  {                                                                                                     \
      .name = "transformer" #layers,                                                                    \
      .what = "GPT-like: " #layers                                                                      \
              " layers, 256 wide, 4 heads, T 128, batch 8, vocabulary 5,000: forward, backward, AdamW", \
      .peer = "bench/peers/%s_transformer.py",                                                          \
      .tolerance = 1e-4,                                                                                \
      .open = open##layers,                                                                             \
      .check = check,                                                                                   \
      .step = step,                                                                                     \
      .model = model,                                                                                   \
      .close = close_gpt,                                                                               \
      .flops = FLOPS(layers),                                                                           \
  }
const Workload bench_transformer4 = TRANSFORMER(4), bench_transformer12 = TRANSFORMER(12);
