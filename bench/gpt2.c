// gpt2, gpt2_long: one training step of GPT-2 124M on 4 x 64 or 1 x 1,024 tokens, with AdamW. gpt2_decode: one token from
// the cache of keys and values, at places 0 to 127 in turn. The model is that of examples/gpt2.
#include "bench/bench.h"
#include "examples/gpt2/model.h"
#include <math.h>
#include <stdlib.h>

enum { BATCH = 4, TIME = 64, LONG = 1024, PLACES = 128, WORDS = 50257 };

typedef struct {
  tn_model *model;
  int64_t batch, time, x[LONG], y[LONG], at;
  float loss, *logits;
} Run;

static void *opened(tn_program *p, Opening *o, int64_t batch, int64_t time) {
  Run *r = calloc(1, sizeof *r);
  r->batch = batch, r->time = time;
  bench_integers(r->x, (size_t)(batch * time), WORDS, 1);
  bench_integers(r->y, (size_t)(batch * time), WORDS, 2);
  r->logits = malloc(WORDS * sizeof *r->logits);
  r->model = bench_compile(p, o);
  if (r->model) return r;
  free(r->logits), free(r);
  return NULL;
}

static tn_model *model(void *w) { return ((Run *)w)->model; }

static void close_run(void *w) {
  tn_model_free(model(w));
  free(((Run *)w)->logits), free(w);
}

// ---- training
static void *open_batch(Opening *o, int64_t batch, int64_t time) {
  const Gpt2 g = {.words = WORDS, .places = LONG, .width = 768, .layers = 12, .heads = 12};
  tn_program *p = tn_program_create("gpt2");
  gpt2_make(p, &g);
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor x = tn_input(f, "x", TN_I64, TN_SHAPE(batch, time)), y = tn_input(f, "y", TN_I64, TN_SHAPE(batch, time));
  tn_tensor loss = tn_cross_entropy(gpt2_logits(p, f, &g, x), y);
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_adamw(f, tn_root(p), .lr = 1e-4, .weight_decay = 1e-2);
  tn_function_end(f);
  return opened(p, o, batch, time);
}

static void *open_training(Opening *o) { return open_batch(o, BATCH, TIME); }
static void *open_long(Opening *o) { return open_batch(o, 1, LONG); }

static bool train(void *w) {
  Run *r = w;
  return tn_run(r->model, "train_step", TN_IN(tn_i64(r->x, r->batch, r->time), tn_i64(r->y, r->batch, r->time)),
                TN_OUT(tn_f32_scalar(&r->loss))) == TN_OK;
}

// The third loss: it knows two updates.
static bool check_training(void *w, double *loss) {
  bool ok = train(w) && train(w) && train(w);
  *loss = ((Run *)w)->loss;
  return ok;
}

#define TRAINING(id, opening, tokens)                             \
  {                                                               \
      .name = id,                                                 \
      .what = "GPT-2 124M, " tokens ": forward, backward, AdamW", \
      .peer = "bench/peers/%s_gpt2.py",                           \
      .tolerance = 1e-4,                                          \
      .open = opening,                                            \
      .check = check_training,                                    \
      .step = train,                                              \
      .model = model,                                             \
      .close = close_run,                                         \
      .function = "train_step",                                   \
  }
const Workload bench_gpt2 = TRAINING("gpt2", open_training, "4 x 64 tokens"),
               bench_gpt2_long = TRAINING("gpt2_long", open_long, "1 x 1,024 tokens");

// ---- decoding
static void *open_decoding(Opening *o) {
  const Gpt2 g = {.words = WORDS, .places = PLACES, .width = 768, .layers = 12, .heads = 12};
  tn_program *p = tn_program_create("gpt2_decode");
  gpt2_make(p, &g);
  gpt2_add_generation(p, &g);
  return opened(p, o, 1, PLACES);
}

static bool decode(void *w) {
  Run *r = w;
  if (r->at % PLACES == 0 && tn_run(r->model, "reset", NULL, 0, NULL, 0) != TN_OK) return false;
  return tn_run(r->model, "decode", TN_IN(tn_i64(r->x + r->at++ % PLACES, 1, 1)), TN_OUT(tn_f32(r->logits, WORDS))) ==
         TN_OK;
}

// The logits after the first three tokens.
static bool check_decoding(void *w, double *sum) {
  Run *r = w;
  bool ok = decode(w) && decode(w) && decode(w);
  *sum = bench_checksum(r->logits, WORDS);
  return ok;
}

const Workload bench_gpt2_decode = {
    .name = "gpt2_decode",
    .what = "GPT-2 124M, one token from the cache, at places 0 to 127 in turn",
    .peer = "bench/peers/%s_gpt2.py",
    .tolerance = 1e-4,
    .open = open_decoding,
    .check = check_decoding,
    .step = decode,
    .model = model,
    .close = close_run,
    .bandwidth = &bench_reading,
    .function = "decode",
};
