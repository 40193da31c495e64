// A bidirectional LSTM over packed sequences tells nine speakers apart; a training step is one compiled function.
// ctest: --epochs 4 --seeds 2
#include "examples/arguments.h"
#include "frontend/tenure.h"
#include <stdlib.h>
#include <string.h>

enum { BATCH = 30, TIME = 29, FEATURES = 12, CLASSES = 9, HIDDEN = 64, MAX_CASES = 1000 };
static float logits[MAX_CASES * CLASSES];  // what "predict" gave
static double mean_loss;                   // of the last pass

static void build_function(tn_program *p, const char *name, bool has_labels, bool is_training) {
  tn_dim B = tn_dim_bounded(p, "batch", BATCH), T = tn_dim_bounded(p, "time", TIME);
  tn_function *f = tn_function_begin(p, name);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, FEATURES));
  tn_tensor len = tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
  tn_eval(f, !is_training);
  tn_scope *scope = tn_scope_begin(f, "forward");
  tn_rnn_output r = tn_rnn_call(tn_child(tn_root(p), "rnn"), tn_pack_padded(x, len));
  tn_tensor y = tn_call(tn_child(tn_root(p), "head"), tn_dropout(tn_last_hidden(r), 0.3));
  y = tn_move_to_outer(y);  // without this line: error[E103] at its next use
  tn_scope_end(scope);
  if (has_labels) {
    tn_tensor label = tn_input(f, "label", TN_I64, TN_SHAPE(B)), loss = tn_cross_entropy(y, label);
    tn_output(f, "loss", loss);
    tn_output(f, "correct", tn_sum(tn_cast(tn_eq(tn_argmax_axis(y, -1, false), label), TN_F32)));
    if (is_training) {
      tn_backward(loss);
      tn_clip_grad_norm(f, tn_root(p), 1.0);
      tn_adamw(f, tn_root(p), .lr = 3e-3, .weight_decay = 1e-2);
    }
  }
  if (!has_labels) tn_output(f, "logits", y);
  tn_function_end(f);
}

// One epoch of a loader: accuracy and mean_loss, or `logits` from "predict".
static double pass(tn_model *m, tn_loader *l, const char *function) {
  bool predict = !strcmp(function, "predict");
  double total = 0, right = 0;
  size_t count = 0;
  tn_status s;
  for (tn_batch b; !(s = tn_loader_next(l, &b)) && b.number; count += tn_batch_size(b)) {  // x, lengths and label
    float loss = 0, correct = 0;
    int64_t n = (int64_t)tn_batch_size(b);
    tn_array scores[] = {tn_f32_scalar(&loss), tn_f32_scalar(&correct)};
    tn_array rows = tn_f32(logits + count * CLASSES, n, CLASSES);
    if (tn_run_batch(m, function, b, predict ? &rows : scores, predict ? 1 : 2))
      fprintf(stderr, "%s\n", tn_error_text(m)), exit(1);
    total += (double)loss * (double)n;
    right += correct;
  }
  if (s) fprintf(stderr, "%s\n", tn_loader_error(l)), exit(1);
  mean_loss = total / (double)count;
  return right / (double)count;
}

static tn_loader *new_loader(tn_dataset *d, tn_sampler_kind kind, int seed) {
  char error[512];
  tn_loader_options o = {.batch_size = BATCH, .workers = 1, .seed = (uint64_t)seed, .sampler = {.kind = kind}};
  tn_loader *l = tn_loader_new(d, &o, error, sizeof error);
  if (!l) fprintf(stderr, "%s\n", error), exit(1);
  return l;
}

static double train_and_test(tn_model *m, tn_dataset *train, tn_loader *test, int epochs, int seed) {
  size_t n = tn_dataset_count(train);
  tn_loader *l = new_loader(train, TN_SHUFFLED, seed);
  tn_progress *bar = tn_progress_begin(stdout, "train", n * (size_t)epochs);
  for (int epoch = 0; epoch < epochs; epoch++) {
    double accuracy = pass(m, l, "train_step");
    tn_progress_step(bar, n * ((size_t)epoch + 1), "seed %d loss %.4f accuracy %.3f", seed, mean_loss, accuracy);
  }
  tn_progress_end(bar);
  tn_loader_free(l);
  double accuracy = pass(m, test, "evaluate");
  printf("seed %d: test accuracy %.3f, loss %.4f\n", seed, accuracy, mean_loss);
  return accuracy;
}

// Saves, loads into a fresh instance, and compares every logit of the test set.
static bool survives_saving(tn_model *m, tn_loader *test, const char *path) {
  static float kept[MAX_CASES * CLASSES];
  tn_model *fresh = tn_instance(m, 12345);
  bool same = !tn_save(m, path, true) && !tn_load(fresh, path, true);
  if (same) pass(m, test, "predict"), memcpy(kept, logits, sizeof kept);
  if (same) pass(fresh, test, "predict"), same = !memcmp(kept, logits, sizeof kept);
  printf("%s: %s%s\n", path, same ? "a fresh instance predicts the same" : tn_error_text(m), tn_error_text(fresh));
  tn_model_free(fresh);
  return same;
}

static tn_dataset *open_series(const char *dir, const char *name, tn_series **s) {
  char path[4096], error[512] = "the data has other features, or more steps or cases, than this program is made for";
  snprintf(path, sizeof path, "%s/%s", dir, name);
  *s = tn_series_read(path, error, sizeof error);
  bool fits = tn_series_features(*s) == FEATURES && tn_series_max_length(*s) <= TIME;
  tn_dataset *d = fits && tn_series_count(*s) <= MAX_CASES ? tn_dataset_series(*s, error, sizeof error) : NULL;
  if (!d) fprintf(stderr, "%s\n", error), exit(1);
  return d;
}

int main(int argc, char **argv) {
  const char *dir = "data/japanese_vowels", *out = ".";
  long epochs = 40, seeds = 3;
  int n_failed = 0;
  double sum = 0;
  const Argument list[] = {{"--data", "DIR", "JapaneseVowels_TRAIN.ts and _TEST.ts", .text = &dir},
                           {"--epochs", "N", "passes over the data", .whole = &epochs, .least = 1, .most = 1e9},
                           {"--seeds", "N", "models that are trained", .whole = &seeds, .least = 1, .most = 100},
                           {"--out", "DIR", "where model and program are written", .text = &out}};
  read_arguments(argc, argv, "tells speakers apart by a vowel", list, sizeof list / sizeof *list);
  tn_series *series[2];
  tn_dataset *train = open_series(dir, "JapaneseVowels_TRAIN.ts", &series[0]);
  tn_dataset *held_out = open_series(dir, "JapaneseVowels_TEST.ts", &series[1]);
  tn_loader *test = new_loader(held_out, TN_SEQUENTIAL, 0);
  tn_program *p = tn_program_create("vowels");
  tn_lstm(tn_root(p), "rnn", FEATURES, HIDDEN, .bidirectional = true);
  tn_linear(tn_root(p), "head", 2 * HIDDEN, CLASSES);
  build_function(p, "train_step", true, true);
  build_function(p, "evaluate", true, false);
  build_function(p, "predict", false, false);
  tn_model *m = tn_compile(p);
  if (!m) return 1;
  tn_compile_info c = tn_compile_info_of(m);
  printf("compiled 3 functions, %u kernels (%u distinct): passes %.0f ms, code %.0f ms%s, loading %.0f ms\n",
         c.n_kernels, c.n_distinct_kernels, c.passes_ms, c.codegen_ms, c.from_cache ? " (from cache)" : "", c.load_ms);
  char path[4096], others[512] = "0";
  snprintf(path, sizeof path, "%s/vowels.safetensors", out);
  for (int seed = 0; seed < seeds; seed++) {
    tn_model *run = tn_instance(m, (uint64_t)seed);  // parameters and state of its own over the same code
    sum += train_and_test(run, train, test, (int)epochs, seed);
    if (seed == 0) n_failed += !survives_saving(run, test, path);
    else snprintf(others + strlen(others), sizeof others - strlen(others), ",%d", seed);
    tn_model_free(run);
  }
  tn_dump_function(p, "train_step", stdout, TN_DUMP_LIFETIMES);
  tn_dump_function(p, "train_step", stdout, TN_DUMP_SUMMARY);
  snprintf(path, sizeof path, "%s/vowels.tir", out);
  FILE *tir = fopen(path, "w");
  if (!tir || tn_dump(p, tir, TN_DUMP_IR) || fclose(tir)) perror(path), n_failed++;
  tn_model_free(m), tn_program_free(p), tn_loader_free(test), tn_dataset_free(train), tn_dataset_free(held_out);
  tn_series_free(series[0]), tn_series_free(series[1]);
  printf("vowels: mean test accuracy %.3f over seeds %s\n", sum / seeds, others);
  return n_failed || fflush(stdout) || ferror(stdout);
}
