// One training step of a classifier of token sequences: embedding 5000 x H, packed recurrent layers of H, linear to 5
// classes on the last hidden state, cross entropy, Adam. 32 sequences of 5 to 100 steps, 1,524 rows together; lstm256_rows: planned for
// so many rows, not for 32 x 100.
#include "bench/bench.h"
#include <stdlib.h>

enum { BATCH = 32, TIME = 97, WORDS = 5000, CLASSES = 5, LAYERS = 2, ROWS = 1524 };

// Uniform in [5, 100], drawn once, longest first: the peers' packing wants them so.
static const int64_t lengths[BATCH] = {97, 85, 81, 80, 78, 76, 74, 73, 65, 65, 62, 57, 57, 55, 55, 55,
                                       52, 51, 42, 38, 36, 35, 34, 18, 17, 16, 16, 15, 13, 11, 10, 5};

typedef struct {
  const char *name;
  int64_t hidden;
  int64_t max_rows;  // 0: 32 x 100
  bool gru, both_ways;
} Shape;

typedef struct {
  tn_model *model;
  int64_t x[BATCH * TIME], y[BATCH];
  float loss;
} Classifier;

static tn_program *build(const Shape *s, uint32_t shards) {
  tn_program *p = tn_program_create(s->name);
  tn_module *net = tn_root(p), *words = tn_embedding(net, "e", WORDS, s->hidden);
  tn_rnn_options options = {.n_layers = LAYERS, .bidirectional = s->both_ways};
  tn_module *rnn = (s->gru ? tn_gru : tn_lstm)(net, "r", s->hidden, s->hidden, options);
  tn_module *head = tn_linear(net, "o", s->both_ways ? 2 * s->hidden : s->hidden, CLASSES);
  tn_function *f = tn_function_begin(p, "train_step");
  tn_dim batch = tn_dim_bounded(p, "batch", BATCH), time = tn_dim_bounded(p, "time", 100);
  tn_tensor x = tn_input(f, "x", TN_I64, TN_SHAPE(batch, time));
  tn_tensor n = tn_input(f, "lengths", TN_I64, TN_SHAPE(batch));
  tn_tensor y = tn_input(f, "label", TN_I64, TN_SHAPE(batch));
  tn_packed ids = tn_pack_padded(x, n, .max_rows = s->max_rows);
  tn_packed seq = tn_packed_with_data(ids, tn_call(words, ids.data));
  tn_tensor loss = tn_cross_entropy(tn_call(head, tn_last_hidden(tn_rnn_call(rnn, seq))), y);
  tn_output(f, "loss", loss);
  if (shards) tn_distributed(f, .n = shards, .batch = batch);
  tn_backward(loss);
  tn_adam(f, net, .lr = 1e-3);
  tn_function_end(f);
  return p;
}

static void *open_shape(Opening *o, const Shape *s) {
  Classifier *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  bench_integers(c->x, BATCH * TIME, WORDS, 1);
  bench_integers(c->y, BATCH, CLASSES, 2);
  c->model = bench_compile(build(s, o->shards), o);
  if (c->model) return c;
  free(c);
  return NULL;
}

static bool step(void *w) {
  Classifier *c = w;
  return tn_run(c->model, "train_step", TN_IN(tn_i64(c->x, BATCH, TIME), tn_i64(lengths, BATCH), tn_i64(c->y, BATCH)),
                TN_OUT(tn_f32_scalar(&c->loss))) == TN_OK;
}

// The third loss: it knows two updates.
static bool check(void *w, double *loss) {
  Classifier *c = w;
  bool ok = step(w) && step(w) && step(w);
  *loss = c->loss;
  return ok;
}

static tn_model *model(void *w) { return ((Classifier *)w)->model; }

static void close_classifier(void *w) {
  tn_model_free(model(w));
  free(w);
}

// flops: of the products alone, 3 (forward, d input, d weights) x 2 x rows x (input + hidden) x gates x hidden.
#define ROW(id, text, H, is_gru, ways, gates, rows)                                                            \
  static void *open_##id(Opening *o) {                                                                         \
    return open_shape(                                                                                         \
        o, &(const Shape){.name = #id, .hidden = H, .gru = is_gru, .both_ways = ways == 2, .max_rows = rows}); \
  }                                                                                                            \
  const Workload bench_##id = {.name = #id,                                                                    \
                               .what = text,                                                                   \
                               .peer = "bench/peers/%s_recurrent.py",                                          \
                               .tolerance = 1e-4,                                                              \
                               .open = open_##id,                                                              \
                               .check = check,                                                                 \
                               .step = step,                                                                   \
                               .model = model,                                                                 \
                               .close = close_classifier,                                                      \
                               .function = "train_step",                                                       \
                               .flops = 3.0 * 2 * 1524 * (gates) * (H) * (ways) * ((H) * (3.0 + ways))};
ROW(lstm256, "embedding 5000x256, 2-layer LSTM 256, 32 sequences (1,524 rows), cross entropy, Adam", 256, false, 1, 4,
    0)
ROW(lstm64, "embedding 5000x64, 2-layer LSTM 64, 32 sequences (1,524 rows), cross entropy, Adam", 64, false, 1, 4, 0)
ROW(gru256, "embedding 5000x256, 2-layer GRU 256, 32 sequences (1,524 rows), cross entropy, Adam", 256, true, 1, 3, 0)
ROW(bilstm256, "embedding 5000x256, 2-layer bi-LSTM 256, 32 sequences (1,524 rows), cross entropy, Adam", 256, false, 2,
    4, 0)
ROW(lstm256_rows, "lstm256, planned for 1,524 rows", 256, false, 1, 4, ROWS)
