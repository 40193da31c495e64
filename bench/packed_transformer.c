// packed_transformer: one training step of a transformer on 64 packed sequences: 4 layers, 256 wide, 4 heads, vocabulary 5,000,
// output weights tied to the embedding, learned positions, cross entropy at every step, AdamW. The lengths come with the batch.
// A case is LENGTHS [causal]; the lengths are as data.c makes them. Peers: packed rows but for attention, which runs by
// sequence; the padded batch with a mask; nested tensors.
#include "bench/bench.h"
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 4, WIDE = 256, HEADS = 4, WORDS = 5000, BATCH = BENCH_SEQUENCES };

static const char *const cases[] = {"lognormal", "lognormal causal", NULL};

typedef struct {
  tn_model *model;
  bool is_causal;
  int64_t n[BATCH], time, rows;
  int64_t *x, *y;  // [BATCH, time]
  float loss;
} Transformer;

static bool parse_case(Transformer *g, const char *variant) {
  char lengths[16], order[16];
  int n = sscanf(variant, "%15s %15s", lengths, order);
  g->is_causal = n == 2;
  if (n < 1 || (n == 2 && strcmp(order, "causal")) || !bench_lengths_of(lengths, g->n)) return false;
  g->time = g->rows = 0;
  for (int b = 0; b < BATCH; b++) {
    g->rows += g->n[b];
    if (g->n[b] > g->time) g->time = g->n[b];
  }
  return true;
}

// Peers make the words of one sequence behind the other.
static int64_t *words(const Transformer *g, uint32_t seed) {
  int64_t *rows = bench_block(8 * (size_t)g->rows), *padded = bench_block(8 * (size_t)(BATCH * g->time)), *at = rows;
  bench_integers(rows, (size_t)g->rows, WORDS, seed);
  for (int b = 0; b < BATCH; at += g->n[b++]) memcpy(padded + b * g->time, at, 8 * (size_t)g->n[b]);
  free(rows);
  return padded;
}

static tn_program *build(const Transformer *g) {
  tn_program *p = tn_program_create("packed_transformer");
  tn_module *net = tn_root(p), *te = bench_gpt_words(p, "te", WORDS, WIDE),
            *pe = tn_learned_positions(net, "pe", g->time, WIDE);
  tn_transformer_encoder(net, "blocks", WIDE, HEADS, LAYERS, .feedforward = 4 * WIDE, .activation = "gelu",
                         .norm_first = true, .final_norm = true);
  tn_module *head = tn_linear(net, "head", WIDE, WORDS, .no_bias = true);
  tn_share(head, "weight", te, "weight");
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor x = tn_input(f, "x", TN_I64, TN_SHAPE(BATCH, g->time)),
            y = tn_input(f, "y", TN_I64, TN_SHAPE(BATCH, g->time));
  tn_packed s = tn_pack_padded(x, tn_input(f, "lengths", TN_I64, TN_SHAPE(BATCH)));
  tn_packed h = tn_packed_call(pe, tn_packed_call(te, s));
  h = tn_packed_with_data(s, tn_encoder_call(tn_child(net, "blocks"), h.data, .causal = g->is_causal));
  tn_tensor loss = tn_packed_cross_entropy(tn_packed_call(head, h), tn_pack_like(y, s, true));
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_adamw(f, net, .lr = 1e-3, .weight_decay = 1e-2);
  tn_function_end(f);
  return p;
}

static tn_model *model(void *w) { return ((Transformer *)w)->model; }

static void close_transformer(void *w) {
  Transformer *g = w;
  tn_model_free(g->model);
  free(g->x), free(g->y);
  free(g);
}

static void *open_transformer(Opening *o) {
  Transformer *g = calloc(1, sizeof *g);
  if (!g || !parse_case(g, o->variant)) return free(g), NULL;
  g->x = words(g, 1), g->y = words(g, 2);
  g->model = bench_compile(build(g), o);
  if (g->model) return g;
  close_transformer(g);
  return NULL;
}

static bool step(void *w) {
  Transformer *g = w;
  tn_array in[] = {tn_i64(g->x, BATCH, g->time), tn_i64(g->y, BATCH, g->time), tn_i64(g->n, BATCH)};
  return tn_run(g->model, "train_step", in, 3, TN_OUT(tn_f32_scalar(&g->loss))) == TN_OK;
}

// The third loss: it knows two updates.
static bool check(void *w, double *loss) {
  bool ok = step(w) && step(w) && step(w);
  *loss = (double)((Transformer *)w)->loss;
  return ok;
}

// Of every weight three products of rows that exist; of scores and of their products with values six.
static void limits(const char *variant, double *flops, double *bytes) {
  Transformer g;
  *flops = *bytes = 0;
  if (!parse_case(&g, variant)) return;
  double weights = 12.0 * WIDE * WIDE * LAYERS + (double)WORDS * WIDE, pairs = 0;
  for (int b = 0; b < BATCH; b++) {
    double n = (double)g.n[b];
    pairs += g.is_causal ? n * (n + 1) / 2 : n * n;
  }
  *flops = 6 * weights * (double)g.rows + 6 * 2.0 * WIDE * LAYERS * pairs;
}

const Workload bench_packed_transformer = {
    .name = "packed_transformer",
    .what = "4 layers, 256 wide, 64 packed sequences: forward, backward, AdamW: LENGTHS [causal]",
    .peer = "bench/peers/%s_packed_transformer.py",
    .cases = cases,
    .by_sizes = true,
    .tolerance = 1e-4,
    .open = open_transformer,
    .check = check,
    .step = step,
    .model = model,
    .close = close_transformer,
    .limits = limits,
    .forms = PEER_SEQUENCES};
