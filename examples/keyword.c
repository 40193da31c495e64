// Sound as keyword spotting hears it: two convolutions along time, then a GRU, over packed sequences of 7 to 29 steps. A
// window never sees another sequence: what lies outside of one is zeros, and nothing is computed for padding. Tells nine
// speakers apart by one vowel pair each (data/japanese_vowels).
// ctest: --epochs 8 --seeds 1 --expect 0.9
#include "examples/arguments.h"
#include "frontend/tenure.h"
#include <stdlib.h>
#include <string.h>

enum { BATCH = 30, TIME = 29, FEATURES = 12, CLASSES = 9, CHANNELS = 32, HIDDEN = 64 };

// ---- the network
static void make_layer(tn_module *net, const char *name, int64_t in, int64_t out) {
  tn_module *layer = tn_module_new(net, name);
  tn_conv1d_module(layer, "conv", in, out, 3, .same = true, .no_bias = true);
  tn_batch_norm(layer, "bn", out);
}

// Rows of packed sequences -> as many rows of other channels
static tn_packed layer(tn_module *m, tn_packed s) {
  s = tn_packed_call(tn_child(m, "conv"), s);
  return tn_packed_map("relu", tn_packed_call(tn_child(m, "bn"), s));  // statistics of the steps that there are
}

static void build_function(tn_program *p, const char *name, bool is_training) {
  tn_dim B = tn_dim_bounded(p, "batch", BATCH), T = tn_dim_bounded(p, "time", TIME);
  tn_function *f = tn_function_begin(p, name);
  tn_module *net = tn_root(p);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, FEATURES));
  tn_tensor lengths = tn_input(f, "lengths", TN_I64, TN_SHAPE(B)), label = tn_input(f, "label", TN_I64, TN_SHAPE(B));
  tn_eval(f, !is_training);
  tn_packed s = tn_pack_padded(x, lengths);
  s = layer(tn_child(net, "layer2"), layer(tn_child(net, "layer1"), s));
  tn_rnn_output r = tn_rnn_call(tn_child(net, "gru"), s);
  tn_tensor logits = tn_call(tn_child(net, "head"), tn_dropout(tn_last_hidden(r), 0.3));
  tn_tensor loss = tn_cross_entropy(logits, label);
  tn_output(f, "loss", loss);
  tn_output(f, "right", tn_sum(tn_cast(tn_eq(tn_argmax_axis(logits, -1, false), label), TN_F32)));
  if (is_training) {
    tn_backward(loss);
    tn_clip_grad_norm(f, net, 1.0);
    tn_adamw(f, net, .lr = 3e-3, .weight_decay = 1e-2);
  }
  tn_function_end(f);
}

static tn_model *build(void) {
  tn_program *p = tn_program_create("keyword");
  tn_module *net = tn_root(p);
  make_layer(net, "layer1", FEATURES, CHANNELS), make_layer(net, "layer2", CHANNELS, CHANNELS);
  tn_gru(net, "gru", CHANNELS, HIDDEN, .bidirectional = true);
  tn_linear(net, "head", 2 * HIDDEN, CLASSES);
  build_function(p, "train", true), build_function(p, "test", false);
  tn_model *m = tn_compile(p);
  if (!m) exit(1);
  return tn_program_free(p), m;
}

// ---- the data
static void fail(const char *why) { fprintf(stderr, "keyword: %s\n", why), exit(1); }

static tn_loader *open_loader(const char *dir, const char *name, bool is_training, uint64_t seed, tn_series **s) {
  char path[4096], why[512] = "the data has other features, or more steps, than this program is made for";
  snprintf(path, sizeof path, "%s/%s", dir, name);
  if (!(*s = tn_series_read(path, why, sizeof why))) fail(why);
  bool fits = tn_series_features(*s) == FEATURES && tn_series_max_length(*s) <= TIME;
  const tn_loader_options o = {
      .batch_size = BATCH, .workers = 1, .seed = seed, .sampler = {.kind = is_training ? TN_SHUFFLED : TN_SEQUENTIAL}};
  tn_dataset *d = fits ? tn_dataset_series(*s, why, sizeof why) : NULL;
  tn_loader *l = d ? tn_loader_new(d, &o, why, sizeof why) : NULL;
  if (!l) fail(why);
  return tn_dataset_free(d), l;
}

// One epoch; the share of sequences that it names right
static double pass(tn_model *m, tn_loader *l, const char *function) {
  double right = 0, count = 0;
  for (tn_batch b;;) {
    float loss = 0, n = 0;
    if (tn_loader_next(l, &b)) fail(tn_loader_error(l));
    if (!b.number) return right / count;
    if (tn_run_batch(m, function, b, TN_OUT(tn_f32_scalar(&loss), tn_f32_scalar(&n)))) fail(tn_error_text(m));
    right += (double)n, count += (double)tn_batch_size(b);
  }
}

static double train_and_test(tn_model *m, const char *dir, uint64_t seed, int epochs) {
  tn_series *s[2];
  tn_loader *train = open_loader(dir, "JapaneseVowels_TRAIN.ts", true, seed, &s[0]);
  tn_loader *test = open_loader(dir, "JapaneseVowels_TEST.ts", false, 0, &s[1]);
  tn_model *run = tn_instance(m, seed);
  double trained = 0;
  for (int k = 0; k < epochs; k++) trained = pass(run, train, "train");
  double right = pass(run, test, "test");
  printf("seed %d: %.4f of the test set right, %.4f of the training set\n", (int)seed, right, trained), fflush(stdout);
  tn_model_free(run), tn_loader_free(train), tn_loader_free(test), tn_series_free(s[0]), tn_series_free(s[1]);
  return right;
}

int main(int argc, char **argv) {
  const char *dir = "data/japanese_vowels";
  long epochs = 40, seeds = 3;
  double expected = 0, sum = 0;
  const Argument list[] = {{"--data", "DIR", "JapaneseVowels_TRAIN.ts and _TEST.ts", .text = &dir},
                           {"--epochs", "N", "passes over the data", .whole = &epochs, .least = 1, .most = 1e9},
                           {"--seeds", "N", "models that are trained", .whole = &seeds, .least = 1, .most = 1e9},
                           {"--expect", "SHARE", "of speakers right, else it fails", .number = &expected, .most = 1}};
  read_arguments(argc, argv, "tells speakers apart by a vowel", list, sizeof list / sizeof *list);
  tn_model *m = build();
  for (int k = 0; k < seeds; k++) sum += train_and_test(m, dir, (uint64_t)k, (int)epochs);
  printf("keyword: mean test accuracy %.4f over %ld seeds\n", sum / (double)seeds, seeds);
  tn_model_free(m);
  return sum / (double)seeds < expected;
}
