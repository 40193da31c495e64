// One training step of examples/vowels: packed bidirectional LSTM of 64 on Japanese Vowels, batches of 30 with their
// real lengths, dropout 0.3, clipping at 1.0, AdamW. Batch k of 9 takes the utterances k, k + 9, k + 18, ..
#include "bench/bench.h"
#include <stdlib.h>
#include <string.h>

enum { BATCH = 30, N_BATCHES = 9, FEATURES = 12, HIDDEN = 64, CLASSES = 9, MAX_TIME = 29 };

typedef struct {
  float x[BATCH * MAX_TIME * FEATURES];  // [batch, time, feature], zeros beyond each length
  int64_t lengths[BATCH], labels[BATCH], time;
} Batch;

typedef struct {
  tn_model *model;
  Batch batches[N_BATCHES];
  size_t next;
} Vowels;

static void fill_batch(Batch *b, const tn_series *s, size_t k) {
  for (size_t i = 0; i < BATCH; i++) {
    b->lengths[i] = tn_series_length(s, k + N_BATCHES * i);
    b->labels[i] = tn_series_label(s, k + N_BATCHES * i);
    if (b->lengths[i] > b->time) b->time = b->lengths[i];
  }
  for (size_t i = 0; i < BATCH; i++)
    memcpy(b->x + (int64_t)i * b->time * FEATURES, tn_series_values(s, k + N_BATCHES * i),
           sizeof(float) * (size_t)(b->lengths[i] * FEATURES));
}

static bool read_batches(Vowels *v, const char *root, char *why, size_t why_size) {
  char path[4096];
  snprintf(path, sizeof path, "%s/data/japanese_vowels/JapaneseVowels_TRAIN.ts", root);
  tn_series *s = tn_series_read(path, why, why_size);
  if (!s) return false;
  bool ok = tn_series_count(s) >= BATCH * N_BATCHES && tn_series_features(s) == FEATURES &&
            tn_series_max_length(s) <= MAX_TIME && tn_series_classes(s) == CLASSES;
  if (!ok) snprintf(why, why_size, "%s: not the data that this benchmark knows", path);
  for (size_t k = 0; ok && k < N_BATCHES; k++) fill_batch(&v->batches[k], s, k);
  tn_series_free(s);
  return ok;
}

static tn_tensor build_loss(tn_function *f, tn_dim batch, tn_dim time, tn_module *rnn, tn_module *head,
                            double dropout) {
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(batch, time, FEATURES));
  tn_tensor lengths = tn_input(f, "lengths", TN_I64, TN_SHAPE(batch));
  tn_tensor label = tn_input(f, "label", TN_I64, TN_SHAPE(batch));
  tn_tensor last = tn_last_hidden(tn_rnn_call(rnn, tn_pack_padded(x, lengths)));
  if (dropout > 0) last = tn_dropout(last, dropout);
  tn_tensor loss = tn_cross_entropy(tn_call(head, last), label);
  tn_output(f, "loss", loss);
  return loss;
}

static tn_program *build(void) {
  tn_program *p = tn_program_create("vowels");
  tn_dim batch = tn_dim_bounded(p, "batch", BATCH), time = tn_dim_bounded(p, "time", MAX_TIME);
  tn_module *net = tn_root(p);
  tn_module *rnn = tn_lstm(net, "rnn", FEATURES, HIDDEN, .bidirectional = true);
  tn_module *head = tn_linear(net, "head", 2 * HIDDEN, CLASSES);
  tn_function *check = tn_function_begin(p, "check");
  build_loss(check, batch, time, rnn, head, 0);
  tn_function_end(check);
  tn_function *step = tn_function_begin(p, "train_step");
  tn_backward(build_loss(step, batch, time, rnn, head, 0.3));
  tn_clip_grad_norm(step, net, 1.0);
  tn_adamw(step, net, .lr = 3e-3, .weight_decay = 1e-2);
  tn_function_end(step);
  return p;
}

static bool run(Vowels *v, const char *function, size_t k, double *loss) {
  Batch *b = &v->batches[k];
  float value = 0;
  tn_status s =
      tn_run(v->model, function,
             TN_IN(tn_f32(b->x, BATCH, b->time, FEATURES), tn_i64(b->lengths, BATCH), tn_i64(b->labels, BATCH)),
             TN_OUT(tn_f32_scalar(&value)));
  if (loss) *loss = value;
  return s == TN_OK;
}

static void close_vowels(void *w) {
  Vowels *v = w;
  tn_model_free(v->model);
  free(v);
}

static void *open_vowels(Opening *o) {
  Vowels *v = calloc(1, sizeof *v);
  if (!v) return NULL;
  v->model = bench_compile(build(), o);
  if (v->model && read_batches(v, o->root, o->why, o->why_size)) return v;
  close_vowels(v);
  return NULL;
}

static bool check_vowels(void *w, double *loss) { return run(w, "check", 0, loss); }

static bool step_vowels(void *w) {
  Vowels *v = w;
  size_t k = v->next;
  v->next = (k + 1) % N_BATCHES;
  return run(v, "train_step", k, NULL);
}

// The smallest batch takes the least time, which is what is reported.
static double filled(void *w) {
  const Vowels *v = w;
  int64_t least = INT64_MAX;
  for (size_t k = 0; k < N_BATCHES; k++) {
    int64_t rows = 0;
    for (size_t i = 0; i < BATCH; i++) rows += v->batches[k].lengths[i];
    if (rows < least) least = rows;
  }
  return (double)least / (BATCH * MAX_TIME);
}

static tn_model *model(void *w) { return ((Vowels *)w)->model; }

const Workload bench_vowels = {
    .name = "vowels",
    .what = "bi-LSTM 12->64, Japanese Vowels, batch 30: forward, backward, clip, AdamW",
    .peer = "bench/peers/%s_vowels.py",
    .function = "train_step",
    .filled = filled,
    .open = open_vowels,
    .check = check_vowels,
    .step = step_vowels,
    .model = model,
    .close = close_vowels,
};
