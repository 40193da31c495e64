// transformer4, transformer12: one training step of a GPT-like model: 4 or 12 layers, 256 wide, 4 heads, 128 steps, batch
// 8, vocabulary 5,000, output weights tied to the embedding, cross entropy at every step, AdamW. Peers take the number of
// layers from the weights.
//
// transformer12_long: 12 layers with 512 steps, batch 4.
#include "bench/bench.h"
#include <stdlib.h>

enum { MOST_LAYERS = 12, WIDE = 256, HEADS = 4, WORDS = 5000, TIME = 128, BATCH = 8, LONG = 512, FEW = 4 };

typedef struct {
  tn_model *model;
  int64_t time, batch, x[LONG * FEW], y[LONG * FEW];
  float loss;
} Gpt;

// Layers and sizes
typedef struct {
  int layers;
  int64_t time, batch;
} Sizes;

static tn_tensor block(tn_module *b, tn_tensor x, tn_dim B, tn_dim T) {
  tn_dim H = tn_dim_const(HEADS), D = tn_dim_const(WIDE / HEADS);
  tn_tensor qkv = tn_call(tn_child(b, "qkv"), tn_call(tn_child(b, "l1"), x));
  qkv = tn_reshape(qkv, TN_SHAPE(B, T, 3, H, D));
  tn_tensor a = tn_attention_packed(qkv, .causal = true);
  x = tn_add(x, tn_call(tn_child(b, "p"), tn_reshape(a, TN_SHAPE(B, T, WIDE))));
  tn_tensor h = tn_gelu(tn_call(tn_child(b, "f"), tn_call(tn_child(b, "l2"), x)));
  return tn_add(x, tn_call(tn_child(b, "g"), h));
}

static tn_program *build(Sizes z, uint32_t shards) {
  static const char *const names[MOST_LAYERS] = {"b0", "b1", "b2", "b3", "b4",  "b5",
                                                 "b6", "b7", "b8", "b9", "b10", "b11"};
  tn_program *p = tn_program_create("transformer");
  tn_module *net = tn_root(p), *words = bench_gpt_words(p, "te", WORDS, WIDE),
            *places = bench_gpt_words(p, "pe", z.time, WIDE);
  for (int k = 0; k < z.layers; k++) bench_gpt_block(net, names[k], WIDE);
  tn_layer_norm(net, "lf", TN_SHAPE(WIDE));
  tn_module *head = tn_linear(net, "head", WIDE, WORDS, .no_bias = true);
  tn_share(head, "weight", words, "weight");
  tn_function *f = tn_function_begin(p, "train_step");
  tn_dim B = shards ? tn_dim_bounded(p, "batch", z.batch) : tn_dim_const(z.batch);
  tn_dim T = tn_dim_const(z.time);
  tn_tensor x = tn_input(f, "x", TN_I64, TN_SHAPE(B, T)), y = tn_input(f, "y", TN_I64, TN_SHAPE(B, T));
  tn_tensor h = tn_add(tn_call(words, x), tn_param_value(f, places, "weight"));
  for (int k = 0; k < z.layers; k++) h = block(tn_child(net, names[k]), h, B, T);
  tn_tensor loss = tn_cross_entropy(tn_call(head, tn_call(tn_child(net, "lf"), h)), y);
  tn_output(f, "loss", loss);
  if (shards) tn_distributed(f, .n = shards, .batch = B);
  tn_backward(loss);
  tn_adamw(f, net, .lr = 1e-3, .weight_decay = 1e-2);
  tn_function_end(f);
  return p;
}

static void *open_sizes(Opening *o, Sizes z) {
  Gpt *g = calloc(1, sizeof *g);
  if (!g) return NULL;
  g->time = z.time, g->batch = z.batch;
  bench_integers(g->x, (size_t)(z.time * z.batch), WORDS, 1);
  bench_integers(g->y, (size_t)(z.time * z.batch), WORDS, 2);
  g->model = bench_compile(build(z, o->shards), o);
  if (g->model) return g;
  free(g);
  return NULL;
}

static void *open4(Opening *o) { return open_sizes(o, (Sizes){4, TIME, BATCH}); }
static void *open12(Opening *o) { return open_sizes(o, (Sizes){12, TIME, BATCH}); }

static void *open12_long(Opening *o) { return open_sizes(o, (Sizes){12, LONG, FEW}); }

static bool step(void *w) {
  Gpt *g = w;
  return tn_run(g->model, "train_step", TN_IN(tn_i64(g->x, g->batch, g->time), tn_i64(g->y, g->batch, g->time)),
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
// Multiplications of one product of scores; causal: half of them. 2 products forward, 4 backward
#define FLOPS(layers, time, batch) (6.0 * (time) * (batch) * (WEIGHTS(layers) + 1.0 * WIDE * (time) * (layers)))
#define TRANSFORMER(suffix, layers, time, batch, sizes)                                                             \
  {                                                                                                                 \
      .name = "transformer" #suffix,                                                                                \
      .what =                                                                                                       \
          "GPT-like: " #layers " layers, 256 wide, 4 heads, " sizes ", vocabulary 5,000: forward, backward, AdamW", \
      .peer = "bench/peers/%s_transformer.py",                                                                      \
      .tolerance = 1e-4,                                                                                            \
      .open = open##suffix,                                                                                         \
      .check = check,                                                                                               \
      .step = step,                                                                                                 \
      .model = model,                                                                                               \
      .close = close_gpt,                                                                                           \
      .function = "train_step",                                                                                     \
      .flops = FLOPS(layers, time, batch),                                                                          \
  }
const Workload bench_transformer4 = TRANSFORMER(4, 4, TIME, BATCH, "T 128, batch 8"),
               bench_transformer12 = TRANSFORMER(12, 12, TIME, BATCH, "T 128, batch 8"),
               bench_transformer12_long = TRANSFORMER(12_long, 12, LONG, FEW, "T 512, batch 4");
