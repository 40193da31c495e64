// A bidirectional LSTM over packed sequences tells nine speakers apart; a training step is one compiled function.
// ctest: --epochs 4 --seeds 2
#include "frontend/tenure.h"
#include <stdlib.h>
#include <string.h>

enum { BATCH = 30, TIME = 29, FEATURES = 12, CLASSES = 9, HIDDEN = 64, MAX_CASES = 1000 };
static float xs[BATCH * TIME * FEATURES], logits[MAX_CASES * CLASSES];  // the batch at hand; what "predict" gave
static int64_t lengths[BATCH], labels[BATCH];
static size_t order[MAX_CASES];
static double mean_loss;  // of the last pass

static void build_function(tn_program *p, const char *name, bool has_labels, bool is_training) {
  tn_dim B = tn_dim_upto(p, "batch", BATCH), T = tn_dim_upto(p, "time", TIME);
  tn_function *f = tn_function_begin(p, name);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, tn_size(FEATURES)));
  tn_tensor len = tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
  tn_eval(f, !is_training);
  tn_scope *scope = tn_scope_begin(f, "forward");
  tn_rnn_output r = tn_rnn_call(tn_child(tn_root(p), "rnn"), tn_pack_padded(x, len, NULL), NULL);
  tn_tensor y = tn_call1(tn_child(tn_root(p), "head"), tn_dropout(tn_last_hidden(r), 0.3));
  y = tn_move_to_outer(y);  // without this line: error[E103] at its next use
  tn_scope_end(scope);
  if (has_labels) {
    tn_tensor label = tn_input(f, "label", TN_I64, TN_SHAPE(B)), loss = tn_cross_entropy(y, label);
    tn_output(f, "loss", loss);
    tn_output(f, "correct", tn_sum(tn_eq(tn_cast(tn_argmax(y), TN_F32), tn_cast(label, TN_F32))));
    if (is_training) {
      tn_backward(loss);
      tn_clip_grad_norm(f, tn_root(p), 1.0);
      tn_adamw(f, tn_root(p), (&(tn_adamw_options){.lr = 3e-3, .weight_decay = 1e-2}));
    }
  }
  if (!has_labels) tn_output(f, "logits", y);
  tn_function_end(f);
}

// Cases first .. first + n of the order, zero behind each sequence; gives the longest length.
static int64_t fill_batch(const tn_series *s, size_t first, int64_t n) {
  int64_t longest = 1;
  for (int64_t i = 0; i < n; i++) {
    lengths[i] = tn_series_length(s, order[first + (size_t)i]);
    labels[i] = tn_series_label(s, order[first + (size_t)i]);
    if (lengths[i] > longest) longest = lengths[i];
  }
  memset(xs, 0, sizeof xs);
  for (int64_t i = 0; i < n; i++) {
    const float *values = tn_series_values(s, order[first + (size_t)i]);
    memcpy(xs + i * longest * FEATURES, values, (size_t)lengths[i] * FEATURES * sizeof *xs);
  }
  return longest;
}

// One pass over a data set: accuracy and mean_loss, or `logits` from "predict".
static double pass(tn_model *m, const tn_series *s, const char *function) {
  bool predict = !strcmp(function, "predict");
  size_t count = tn_series_count(s);
  double total = 0, right = 0;
  for (size_t first = 0; first < count; first += BATCH) {
    float loss = 0, correct = 0;
    int64_t n = count - first < BATCH ? (int64_t)(count - first) : BATCH, longest = fill_batch(s, first, n);
    tn_array in[] = {tn_f32(xs, n, longest, FEATURES), tn_i64(lengths, n), tn_i64(labels, n)};
    tn_array scores[] = {tn_f32_scalar(&loss), tn_f32_scalar(&correct)};
    tn_array rows = tn_f32(logits + first * CLASSES, n, CLASSES);
    if (tn_run(m, function, in, predict ? 2 : 3, predict ? &rows : scores, predict ? 1 : 2))
      fprintf(stderr, "%s\n", tn_error_text(m)), exit(1);
    total += (double)loss * (double)n;
    right += correct;
  }
  mean_loss = total / (double)count;
  return right / (double)count;
}

static double train_and_test(tn_model *m, const tn_series *train, const tn_series *test, int epochs, int seed) {
  size_t n = tn_series_count(train);
  tn_progress *bar = tn_progress_begin(stdout, "train", n * (size_t)epochs);
  for (int epoch = 0; epoch < epochs; epoch++) {
    tn_shuffle(order, n, (uint64_t)seed << 32 | (uint64_t)epoch);
    double accuracy = pass(m, train, "train_step");
    tn_progress_step(bar, n * ((size_t)epoch + 1), "seed %d loss %.4f accuracy %.3f", seed, mean_loss, accuracy);
  }
  tn_progress_end(bar);
  for (size_t k = 0; k < tn_series_count(test); k++) order[k] = k;
  double accuracy = pass(m, test, "evaluate");
  printf("seed %d: test accuracy %.3f, loss %.4f\n", seed, accuracy, mean_loss);
  return accuracy;
}

// Saves, loads into a fresh instance, and compares every logit of the test set.
static bool survives_saving(tn_model *m, const tn_series *test, const char *path) {
  static float kept[MAX_CASES * CLASSES];
  tn_model *fresh = tn_instance(m, 12345);
  bool same = !tn_save(m, path, true) && !tn_load(fresh, path, true);
  if (same) pass(m, test, "predict"), memcpy(kept, logits, sizeof kept);
  if (same) pass(fresh, test, "predict"), same = !memcmp(kept, logits, sizeof kept);
  printf("%s: %s%s\n", path, same ? "a fresh instance predicts the same" : tn_error_text(m), tn_error_text(fresh));
  tn_model_free(fresh);
  return same;
}

static tn_series *read_series(const char *dir, const char *name) {
  char path[4096], error[512] = "the data has other features, or more steps or cases, than this program is made for";
  snprintf(path, sizeof path, "%s/%s", dir, name);
  tn_series *s = tn_series_read(path, error, sizeof error);
  if (tn_series_features(s) == FEATURES && tn_series_max_length(s) <= TIME && tn_series_count(s) <= MAX_CASES) return s;
  fprintf(stderr, "%s\n", error), exit(1);
}

int main(int argc, char **argv) {
  const char *dir = "data/japanese_vowels", *out = ".";
  int epochs = 40, seeds = 3, n_failed = 0;
  double sum = 0;
  for (int k = 1; k < argc; k += 2) {
    if (argv[k + 1] && !strcmp(argv[k], "--data")) dir = argv[k + 1];
    else if (argv[k + 1] && !strcmp(argv[k], "--out")) out = argv[k + 1];
    else if (argv[k + 1] && !strcmp(argv[k], "--epochs") && atoi(argv[k + 1]) > 0) epochs = atoi(argv[k + 1]);
    else if (argv[k + 1] && !strcmp(argv[k], "--seeds") && atoi(argv[k + 1]) > 0) seeds = atoi(argv[k + 1]);
    else return fprintf(stderr, "vowels [--data DIR] [--epochs N] [--seeds N] [--out DIR]\n"), 2;
  }
  tn_series *train = read_series(dir, "JapaneseVowels_TRAIN.ts"), *test = read_series(dir, "JapaneseVowels_TEST.ts");
  tn_program *p = tn_program_create("vowels");
  tn_lstm(tn_root(p), "rnn", FEATURES, HIDDEN, (&(tn_rnn_options){.bidirectional = true}));
  tn_linear(tn_root(p), "head", 2 * HIDDEN, CLASSES, NULL);
  build_function(p, "train_step", true, true);
  build_function(p, "evaluate", true, false);
  build_function(p, "predict", false, false);
  tn_model *m = tn_compile(p, NULL);
  if (!m) return tn_report(p, stderr) != TN_OK;
  tn_compile_info c = tn_compiled(m);
  printf("compiled 3 functions, %u kernels (%u distinct): passes %.0f ms, code %.0f ms%s, loading %.0f ms\n",
         c.n_kernels, c.n_distinct_kernels, c.passes_ms, c.codegen_ms, c.from_cache ? " (from cache)" : "", c.load_ms);
  char path[4096], list[512] = "0";
  snprintf(path, sizeof path, "%s/vowels.safetensors", out);
  for (int seed = 0; seed < seeds; seed++) {
    tn_model *run = tn_instance(m, (uint64_t)seed);  // parameters and state of its own over the same code
    sum += train_and_test(run, train, test, epochs, seed);
    if (seed == 0) n_failed += !survives_saving(run, test, path);
    else snprintf(list + strlen(list), sizeof list - strlen(list), ",%d", seed);
    tn_model_free(run);
  }
  tn_dump_function(p, "train_step", stdout, TN_DUMP_LIFETIMES);
  tn_dump_function(p, "train_step", stdout, TN_DUMP_SUMMARY);
  snprintf(path, sizeof path, "%s/vowels.tir", out);
  FILE *tir = fopen(path, "w");
  if (!tir || tn_dump(p, tir, TN_DUMP_IR) || fclose(tir)) perror(path), n_failed++;
  tn_model_free(m), tn_program_free(p), tn_series_free(train), tn_series_free(test);
  printf("vowels: mean test accuracy %.3f over seeds %s\n", sum / seeds, list);
  return n_failed || fflush(stdout) || ferror(stdout);
}
