// A layer-normalised LSTM, which no layer of the library is, as a scan over packed sequences: nine speakers told apart.
// ctest: --epochs 6
#include "examples/arguments.h"
#include "frontend/tenure.h"
#include <stdlib.h>
#include <string.h>

enum { BATCH = 30, TIME = 29, FEATURES = 12, CLASSES = 9, HIDDEN = 48, MAX_CASES = 1000 };
static float xs[BATCH * TIME * FEATURES];
static int64_t lengths[BATCH], labels[BATCH];
static size_t order[MAX_CASES];
static double mean_loss;  // of the last pass

static void add_cell(tn_module *parent) {
  tn_module *m = tn_module_new(parent, "cell");
  tn_linear(m, "input", FEATURES, 4 * HIDDEN, .no_bias = true);
  tn_linear(m, "hidden", HIDDEN, 4 * HIDDEN, .no_bias = true);
  tn_layer_norm(m, "norm_input", TN_SHAPE(4 * HIDDEN));
  tn_layer_norm(m, "norm_hidden", TN_SHAPE(4 * HIDDEN));
  tn_layer_norm(m, "norm_cell", TN_SHAPE(HIDDEN));
}

static tn_tensor call(tn_module *m, const char *child, tn_tensor x) { return tn_call(tn_child(m, child), x); }

// The last hidden state of every sequence, [batch, HIDDEN]. The recurrence is the body of a scan: it reads as one step,
// runs for as many as the longest sequence has, and its gradients follow by themselves.
static tn_tensor ln_lstm(tn_function *f, tn_module *m, tn_packed seq, tn_dim batch) {
  tn_tensor projected = call(m, "norm_input", call(m, "input", seq.data));  // of all rows at once: no carry is in it
  tn_tensor zeros = tn_zeros(f, TN_SHAPE(batch, HIDDEN));
  tn_scan *s = tn_scan_begin(f, .over = seq, .name = "ln_lstm");
  tn_tensor x = tn_scan_input(s, projected), h = tn_scan_carry(s, zeros), c = tn_scan_carry(s, zeros), gate[4];
  tn_tensor gates = tn_add(x, call(m, "norm_hidden", call(m, "hidden", h)));
  for (int k = 0; k < 4; k++) gate[k] = tn_slice(gates, 1, k * HIDDEN, HIDDEN);  // input, forget, cell, output
  tn_tensor fresh = tn_dropout(tn_tanh(gate[2]), 0.1);                           // other zeros in every step
  tn_tensor next_c = tn_add(tn_mul(tn_sigmoid(gate[1]), c), tn_mul(tn_sigmoid(gate[0]), fresh));
  next_c = call(m, "norm_cell", next_c);
  tn_tensor next_h = tn_mul(tn_sigmoid(gate[3]), tn_tanh(next_c));
  tn_scan_next(s, h, next_h);
  tn_scan_next(s, c, next_c);
  tn_scan_end(s);
  return tn_scan_final(s, h);
}

static void build_function(tn_program *p, const char *name, bool is_training) {
  tn_dim B = tn_dim_bounded(p, "batch", BATCH), T = tn_dim_bounded(p, "time", TIME);
  tn_function *f = tn_function_begin(p, name);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, FEATURES));
  tn_tensor len = tn_input(f, "lengths", TN_I64, TN_SHAPE(B)), label = tn_input(f, "label", TN_I64, TN_SHAPE(B));
  tn_eval(f, !is_training);
  tn_tensor last = ln_lstm(f, tn_child(tn_root(p), "cell"), tn_pack_padded(x, len), B);
  tn_tensor y = tn_call(tn_child(tn_root(p), "head"), last), loss = tn_cross_entropy(y, label);
  tn_output(f, "loss", loss);
  tn_output(f, "correct", tn_sum(tn_cast(tn_eq(tn_argmax_axis(y, -1, false), label), TN_F32)));
  if (is_training) {
    tn_backward(loss);
    tn_clip_grad_norm(f, tn_root(p), 1.0);
    tn_adamw(f, tn_root(p), .lr = 5e-3, .weight_decay = 1e-2);
  }
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

// One pass over a data set: accuracy and mean_loss.
static double pass(tn_model *m, const tn_series *s, const char *function) {
  size_t count = tn_series_count(s);
  double total = 0, right = 0;
  for (size_t first = 0; first < count; first += BATCH) {
    float loss = 0, correct = 0;
    int64_t n = count - first < BATCH ? (int64_t)(count - first) : BATCH, longest = fill_batch(s, first, n);
    tn_array in[] = {tn_f32(xs, n, longest, FEATURES), tn_i64(lengths, n), tn_i64(labels, n)};
    if (tn_run(m, function, in, 3, TN_OUT(tn_f32_scalar(&loss), tn_f32_scalar(&correct))))
      fprintf(stderr, "%s\n", tn_error_text(m)), exit(1);
    total += (double)loss * (double)n;
    right += correct;
  }
  mean_loss = total / (double)count;
  return right / (double)count;
}

static tn_series *read_series(const char *dir, const char *name) {
  char path[4096], error[512] = "the data has other features, or more steps or cases, than this program is made for";
  snprintf(path, sizeof path, "%s/%s", dir, name);
  tn_series *s = tn_series_read(path, error, sizeof error);
  if (tn_series_features(s) == FEATURES && tn_series_max_length(s) <= TIME && tn_series_count(s) <= MAX_CASES) return s;
  fprintf(stderr, "%s\n", error), exit(1);
}

int main(int argc, char **argv) {
  const char *dir = "data/japanese_vowels";
  long epochs = 30;
  const Argument list[] = {{"--data", "DIR", "JapaneseVowels_TRAIN.ts and _TEST.ts", .text = &dir},
                           {"--epochs", "N", "passes over the data", .whole = &epochs, .least = 1, .most = 1e9}};
  read_arguments(argc, argv, "a recurrence of one's own tells speakers apart", list, sizeof list / sizeof *list);
  tn_series *train = read_series(dir, "JapaneseVowels_TRAIN.ts"), *test = read_series(dir, "JapaneseVowels_TEST.ts");
  tn_program *p = tn_program_create("ln_lstm");
  add_cell(tn_root(p));
  tn_linear(tn_root(p), "head", HIDDEN, CLASSES);
  build_function(p, "train_step", true);
  build_function(p, "evaluate", false);
  tn_model *m = tn_compile(p);
  if (!m) return 1;
  size_t n = tn_series_count(train);
  tn_progress *bar = tn_progress_begin(stdout, "train", n * (size_t)epochs);
  double first_loss = 0, accuracy = 0;
  for (int epoch = 0; epoch < epochs; epoch++) {
    tn_shuffle(order, n, (uint64_t)epoch);
    accuracy = pass(m, train, "train_step");
    if (epoch == 0) first_loss = mean_loss;
    tn_progress_step(bar, n * ((size_t)epoch + 1), "loss %.4f accuracy %.3f", mean_loss, accuracy);
  }
  tn_progress_end(bar);
  double last_loss = mean_loss;
  for (size_t k = 0; k < tn_series_count(test); k++) order[k] = k;
  accuracy = pass(m, test, "evaluate");
  printf("ln_lstm: training loss %.4f -> %.4f, test accuracy %.3f\n", first_loss, last_loss, accuracy);
  tn_dump_function(p, "train_step", stdout, TN_DUMP_SUMMARY);
  tn_model_free(m), tn_program_free(p), tn_series_free(train), tn_series_free(test);
  return !(last_loss < first_loss / 2) || fflush(stdout) || ferror(stdout);
}
