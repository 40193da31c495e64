// One training step equals PyTorch's within 1e-5 (loss, norm, every gradient), five steps within 1e-4 (parameters).
// tests/make_train_goldens.py made the numbers, of the same utterances and hyperparameters: train_goldens.txt and .bin.
#include "frontend/tenure.h"
#include "tests/golden_file.h"
#include <math.h>

enum { FEATURES = 12, CLASSES = 9, MAX_TIME = 29 };
enum { GOLDEN_STEPS = 5, GOLDEN_SAMPLES = 64, GOLDEN_BATCH = 6, MAX_CASES = 8, MAX_PARAMS = 31 };
static const int golden_utterances[] = {0, 47, 94, 141, 188, 235};
static const double golden_decay = 0.01, golden_momentum = 0.9;  // of SGD

typedef struct {
  const char *path;
  int64_t n;        // elements
  uint32_t offset;  // in the formula of its initial weights
} GoldenParam;
// `whole`: grad and after5 hold every element, parameter after parameter; else per parameter the sum, the sum of
// magnitudes and GOLDEN_SAMPLES elements at s * n / GOLDEN_SAMPLES. after1 is always in that short form.
typedef struct {
  const char *name;
  bool is_gru, bidirectional, whole, is_sgd;
  uint32_t hidden, n_layers, n_params;
  double clip, lr;
  GoldenParam params[MAX_PARAMS];
  const double *loss, *norm;  // of each step
  const double *grad;         // first step, before clipping
  const double *after1, *after5;
} GoldenCase;
static GoldenCase golden_cases[MAX_CASES];
static uint32_t n_cases;
static int n_failed;

// ---- reading
static const double *stored(GoldenFile *g, char *words) {
  return golden_take(g, golden_count(g, &words), sizeof(double));
}

static void read_line(GoldenFile *g, GoldenCase *c, char *line) {
  char *words;
  if (golden_is(line, "gru", &words) || golden_is(line, "lstm", &words)) {
    c->is_gru = *line == 'g';
    c->hidden = golden_count(g, &words), c->n_layers = golden_count(g, &words);
    c->bidirectional = golden_count(g, &words) == 2;
  } else if (golden_is(line, "sgd", &words) || golden_is(line, "adamw", &words)) {
    c->is_sgd = *line == 's';
    c->lr = golden_number(g, &words), c->clip = golden_number(g, &words);
  } else if (c->n_params < MAX_PARAMS && golden_is(line, "param", &words)) {
    GoldenParam *p = &c->params[c->n_params];
    p->n = golden_count(g, &words), p->path = words + 1;
    p->offset = c->n_params++ * 374761393u + 12345u;
  } else if (golden_is(line, "whole", &words)) c->whole = true;
  else if (golden_is(line, "loss", &words)) c->loss = stored(g, words);
  else if (golden_is(line, "norm", &words)) c->norm = stored(g, words);
  else if (golden_is(line, "grad", &words)) c->grad = stored(g, words);
  else if (golden_is(line, "after1", &words)) c->after1 = stored(g, words);
  else if (golden_is(line, "after5", &words)) c->after5 = stored(g, words);
  else golden_fail(g, "an unknown line, or too many");
}

static void read_cases(RtArena *mem) {
  GoldenFile g = golden_open(mem, "tests/train_goldens");
  char *words;
  for (char *line = golden_line(&g); line; line = golden_line(&g)) {
    if (n_cases < MAX_CASES && golden_is(line, "case", &words)) golden_cases[n_cases++].name = words;
    else if (n_cases) read_line(&g, &golden_cases[n_cases - 1], line);
    else golden_fail(&g, "no case begins");
  }
  for (uint32_t k = 0; k < n_cases; k++) {
    const GoldenCase *c = &golden_cases[k];
    if (!c->loss || !c->norm || !c->grad || !c->after1 || !c->after5) golden_fail(&g, "numbers of a case are missing");
  }
  golden_end(&g);
}

static void fail(const GoldenCase *c, const char *what, const char *path, double found, double expected) {
  if (n_failed++ < 20) fprintf(stderr, "%s: %s %s: found %.9g, expected %.9g\n", c->name, what, path, found, expected);
}

static void check_near(const GoldenCase *c, const char *what, double found, double expected, double tolerance) {
  if (!(fabs(found - expected) <= tolerance * fabs(expected))) fail(c, what, "", found, expected);
}

static double max_abs(const double *v, int64_t n) {
  double m = 0;
  for (int64_t i = 0; i < n; i++) m = fmax(m, fabs(v[i]));
  return m;
}

static void check_whole(const GoldenCase *c, const char *what, const GoldenParam *p, const float *found,
                        const double *expected, double tolerance) {
  double scale = max_abs(expected, p->n);
  for (int64_t i = 0; i < p->n; i++)
    if (!(fabs(found[i] - expected[i]) <= tolerance * scale)) {
      fail(c, what, p->path, found[i], expected[i]);
      return;
    }
}

// Sum, sum of magnitudes, samples: errors of the sums count against the sum of magnitudes.
static void check_short(const GoldenCase *c, const char *what, const GoldenParam *p, const float *found,
                        const double *expected, double tolerance) {
  double sum = 0, sum_abs = 0, scale = 0;
  for (int64_t i = 0; i < p->n; i++) {
    sum += found[i];
    sum_abs += fabs(found[i]);
    scale = fmax(scale, fabs(found[i]));
  }
  if (!(fabs(sum - expected[0]) <= tolerance * expected[1])) fail(c, "sum of", p->path, sum, expected[0]);
  if (!(fabs(sum_abs - expected[1]) <= tolerance * expected[1])) fail(c, "size of", p->path, sum_abs, expected[1]);
  for (int64_t s = 0; s < GOLDEN_SAMPLES; s++) {
    double v = found[s * p->n / GOLDEN_SAMPLES], e = expected[2 + s];
    if (!(fabs(v - e) <= tolerance * scale)) {
      fail(c, what, p->path, v, e);
      return;
    }
  }
}

// `values` are the tensors of all parameters; `expected` lists them in the long or the short form.
static void check_params(const GoldenCase *c, const char *what, bool whole, float *const *values,
                         const double *expected, double tolerance) {
  for (uint32_t k = 0; k < c->n_params; k++) {
    const GoldenParam *p = &c->params[k];
    if (whole) check_whole(c, what, p, values[k], expected, tolerance);
    else check_short(c, what, p, values[k], expected, tolerance);
    expected += whole ? p->n : 2 + GOLDEN_SAMPLES;
  }
}

// ---- the program
typedef struct {
  tn_tensor loss;
  tn_module *net, *rnn, *head;
} Net;

static void build_forward(tn_function *f, Net *n, tn_dim batch, tn_dim time) {
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(batch, time, FEATURES));
  tn_tensor lengths = tn_input(f, "lengths", TN_I64, TN_SHAPE(batch));
  tn_tensor label = tn_input(f, "label", TN_I64, TN_SHAPE(batch));
  tn_packed seq = tn_pack_padded(x, lengths);
  tn_tensor logits = tn_call(n->head, tn_last_hidden(tn_rnn_call(n->rnn, seq)));
  n->loss = tn_cross_entropy(logits, label);
}

static tn_module *owner_of(const Net *n, const char *path) { return strncmp(path, "head.", 5) ? n->rnn : n->head; }

// @gradients gives loss, norm and the gradient of every parameter; @train_step updates.
static tn_program *build(const GoldenCase *c) {
  tn_program *p = tn_program_create(c->name);
  tn_dim batch = tn_dim_bounded(p, "batch", 30), time = tn_dim_bounded(p, "time", MAX_TIME);
  tn_rnn_options o = {.bidirectional = c->bidirectional, .n_layers = c->n_layers};
  Net n = {.net = tn_root(p)};
  n.rnn = c->is_gru ? (tn_gru)(n.net, "rnn", FEATURES, c->hidden, o) : (tn_lstm)(n.net, "rnn", FEATURES, c->hidden, o);
  n.head = tn_linear(n.net, "head", c->hidden * (c->bidirectional ? 2 : 1), CLASSES);

  tn_function *f = tn_function_begin(p, "gradients");
  build_forward(f, &n, batch, time);
  tn_backward(n.loss);
  tn_output(f, "loss", n.loss);
  for (uint32_t k = 0; k < c->n_params; k++) {
    const char *path = c->params[k].path;
    char name[32];
    snprintf(name, sizeof name, "grad_%u", k);
    tn_output(f, name, tn_param_grad(f, owner_of(&n, path), strchr(path, '.') + 1));
  }
  tn_function_end(f);

  f = tn_function_begin(p, "train_step");
  build_forward(f, &n, batch, time);
  tn_backward(n.loss);
  tn_tensor norm = tn_clip_grad_norm(f, n.net, c->clip);
  if (c->is_sgd) {
    tn_sgd(f, n.net, .lr = c->lr, .momentum = golden_momentum, .weight_decay = golden_decay);
  } else {
    tn_adamw(f, n.net, .lr = c->lr, .weight_decay = golden_decay);
  }
  tn_output(f, "loss", n.loss);
  tn_output(f, "norm", norm);
  tn_function_end(f);
  return p;
}

// ---- the batch: padded with NaN, which must never be read into a result
typedef struct {
  float x[GOLDEN_BATCH][MAX_TIME][FEATURES];
  float padded[GOLDEN_BATCH * MAX_TIME * FEATURES];  // cut to the longest
  int64_t lengths[GOLDEN_BATCH], labels[GOLDEN_BATCH], time;
} Batch;

static bool read_batch(Batch *b) {
  char why[256];
  tn_series *s = tn_series_read("data/japanese_vowels/JapaneseVowels_TRAIN.ts", why, sizeof why);
  if (!s) {
    fprintf(stderr, "%s\n", why);
    return false;
  }
  memset(b, 0, sizeof *b);
  for (int i = 0; i < GOLDEN_BATCH; i++) {
    size_t k = (size_t)golden_utterances[i];
    b->lengths[i] = tn_series_length(s, k);
    b->labels[i] = tn_series_label(s, k);
    if (b->lengths[i] > b->time) b->time = b->lengths[i];
    for (int64_t t = 0; t < MAX_TIME; t++)
      for (int64_t j = 0; j < FEATURES; j++)
        b->x[i][t][j] = t < b->lengths[i] ? tn_series_values(s, k)[t * FEATURES + j] : NAN;
  }
  for (int i = 0; i < GOLDEN_BATCH; i++)
    memcpy(b->padded + i * b->time * FEATURES, b->x[i], sizeof(float) * (size_t)(b->time * FEATURES));
  tn_series_free(s);
  return true;
}

static bool set_weights(const GoldenCase *c, tn_model *m, float *const *scratch) {
  for (uint32_t k = 0; k < c->n_params; k++) {
    const GoldenParam *p = &c->params[k];
    for (int64_t i = 0; i < p->n; i++) {
      uint32_t h = (uint32_t)((uint64_t)i * 2654435761u + p->offset);
      scratch[k][i] = (float)((h / 4294967296.0 - 0.5) * 0.25);
    }
    if (tn_set(m, p->path, scratch[k], (size_t)p->n) != TN_OK) return false;
  }
  return true;
}

static bool get_weights(const GoldenCase *c, tn_model *m, float *const *values) {
  for (uint32_t k = 0; k < c->n_params; k++)
    if (tn_get(m, c->params[k].path, values[k], (size_t)c->params[k].n) != TN_OK) return false;
  return true;
}

// The shapes of the gradients as the program has them: the views of the parameters.
static tn_array array_of_param(tn_model *m, const char *path, float *data) {
  for (uint32_t k = 0; k < tn_param_count(m); k++)
    if (!strcmp(tn_param_path(m, k), path)) {
      tn_array a = tn_param_at(m, k);
      a.data = data;
      return a;
    }
  return (tn_array){0};
}

static bool run_gradients(const GoldenCase *c, tn_model *m, const tn_array in[3], float *const *values) {
  float loss = NAN;
  tn_array out[32] = {tn_f32_scalar(&loss)};
  for (uint32_t k = 0; k < c->n_params; k++) out[1 + k] = array_of_param(m, c->params[k].path, values[k]);
  if (tn_run(m, "gradients", in, 3, out, 1 + c->n_params) != TN_OK) return false;
  check_near(c, "loss", loss, c->loss[0], 1e-5);
  check_params(c, "gradient of", c->whole, values, c->grad, 1e-5);
  return true;
}

static bool run_steps(const GoldenCase *c, tn_model *m, const tn_array in[3], float *const *values) {
  for (int step = 0; step < GOLDEN_STEPS; step++) {
    float loss = NAN, norm = NAN;
    if (tn_run(m, "train_step", in, 3, TN_OUT(tn_f32_scalar(&loss), tn_f32_scalar(&norm))) != TN_OK) return false;
    check_near(c, "loss of a step", loss, c->loss[step], step ? 1e-4 : 1e-5);
    check_near(c, "norm of a step", norm, c->norm[step], step ? 1e-4 : 1e-5);
    if (step && step != GOLDEN_STEPS - 1) continue;
    if (!get_weights(c, m, values)) return false;
    if (!step) check_params(c, "after one step", false, values, c->after1, 1e-4);
    else check_params(c, "after five steps", c->whole, values, c->after5, 1e-4);
  }
  return true;
}

static bool run_case(const GoldenCase *c, const Batch *b, uint32_t n_workers) {
  tn_program *p = build(c);
  tn_model *m = tn_compile(p, .n_workers = n_workers);
  if (!m) tn_report(p, stderr);
  tn_program_free(p);
  if (!m) return false;

  float *values[32] = {0};
  for (uint32_t k = 0; k < c->n_params; k++) values[k] = calloc((size_t)c->params[k].n, sizeof(float));
  tn_array in[3] = {tn_f32(b->padded, GOLDEN_BATCH, b->time, FEATURES), tn_i64(b->lengths, GOLDEN_BATCH),
                    tn_i64(b->labels, GOLDEN_BATCH)};
  bool ok = set_weights(c, m, values) && run_gradients(c, m, in, values) && run_steps(c, m, in, values);
  if (!ok) fprintf(stderr, "%s: %s\n", c->name, tn_error_text(m));
  for (uint32_t k = 0; k < c->n_params; k++) free(values[k]);
  tn_model_free(m);
  return ok;
}

int main(void) {
  static Batch b;
  RtArena *mem = rt_arena_new();
  read_cases(mem);
  bool ok = read_batch(&b) && n_cases;
  for (uint32_t k = 0; ok && k < n_cases; k++)
    for (uint32_t n_workers = 1; n_workers <= 3; n_workers += 2)
      if (!run_case(&golden_cases[k], &b, n_workers)) ok = false;
  rt_arena_free(mem);
  printf("train: %d values differ%s\n", n_failed, ok ? "" : ", and a case could not run");
  return n_failed || !ok;
}
