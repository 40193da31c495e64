// The next tokens: how often each comes, what never does, penalties and stops, and that neither the batch nor the number of workers
// changes a draw.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4096, WORDS = 7, PAST = 5 };
static const float logits[WORDS] = {1, 3, -2, 2.5f, 0, 2, -1};

typedef struct {
  float x[ROWS][WORDS], heat[ROWS], part[ROWS], penalty[ROWS];
  int64_t seeds[ROWS], counters[ROWS], past[ROWS][PAST];
} Given;

typedef struct {
  int64_t plain[ROWS], top_k[ROWS], top_p[ROWS], both[ROWS], best[ROWS], each[ROWS], penalised[ROWS];
  bool stopped[ROWS];
  float u[ROWS];
} Drawn;

static tn_model *make(uint32_t n_workers) {
  static const int64_t stop[] = {3, 5};
  tn_program *p = tn_program_create("sample");
  tn_function *f = tn_function_begin(p, "draw");
  tn_dim B = tn_dim_bounded(p, "batch", ROWS);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, WORDS)), seeds = tn_input(f, "seeds", TN_I64, TN_SHAPE(B));
  tn_tensor counters = tn_input(f, "counters", TN_I64, TN_SHAPE(B)), heat = tn_input(f, "heat", TN_F32, TN_SHAPE(B));
  tn_tensor part = tn_input(f, "part", TN_F32, TN_SHAPE(B)), penalty = tn_input(f, "penalty", TN_F32, TN_SHAPE(B));
  tn_tensor past = tn_input(f, "past", TN_I64, TN_SHAPE(B, PAST));
  tn_sampled plain = tn_sample_tokens(x, seeds, counters, .temperature = 1, .stop = stop, .n_stop = 2);
  tn_output(f, "plain", plain.tokens), tn_output(f, "stopped", plain.stopped);
  tn_output(f, "top_k", tn_sample_tokens(x, seeds, counters, .temperature = 1, .top_k = 3).tokens);
  tn_output(f, "top_p", tn_sample_tokens(x, seeds, counters, .temperature = 1, .top_p = 0.75).tokens);
  tn_output(f, "both", tn_sample_tokens(x, seeds, counters, .temperature = 0.5, .top_k = 3, .top_p = 0.6).tokens);
  tn_output(f, "best", tn_sample_tokens(x, seeds, counters, .temperature = 0).tokens);
  tn_output(f, "each", tn_sample_tokens(x, seeds, counters, .temperatures = heat, .top_ps = part).tokens);
  tn_output(f, "penalised", tn_sample_tokens(x, seeds, counters, .penalties = penalty, .history = past).tokens);
  tn_output(f, "u", tn_rand_at(seeds, counters));
  tn_function_end(f);
  return model_alone(p, .n_workers = n_workers);
}

static bool draw(tn_model *m, Given *g, int64_t n, Drawn *d) {
  tn_status s = tn_run(
      m, "draw",
      TN_IN(tn_f32(&g->x[0][0], n, WORDS), tn_i64(g->seeds, n), tn_i64(g->counters, n), tn_f32(g->heat, n),
            tn_f32(g->part, n), tn_f32(g->penalty, n), tn_i64(&g->past[0][0], n, PAST)),
      TN_OUT(tn_i64(d->plain, n), tn_bool(d->stopped, n), tn_i64(d->top_k, n), tn_i64(d->top_p, n), tn_i64(d->both, n),
             tn_i64(d->best, n), tn_i64(d->each, n), tn_i64(d->penalised, n), tn_f32(d->u, n)));
  if (!CHECK(!s)) puts(tn_error_text(m));
  return !s;
}

static void fill(Given *g) {
  for (int k = 0; k < ROWS; k++) {
    memcpy(g->x[k], logits, sizeof logits);
    g->seeds[k] = k % 64 - 7 + (k % 5 == 0 ? INT64_MIN / 3 : 0), g->counters[k] = k / 64;
    g->heat[k] = k % 2 ? 1 : 0, g->part[k] = k % 3 ? 1 : 1e-9f, g->penalty[k] = k % 2 ? 2 : 1;
    for (int j = 0; j < PAST; j++) g->past[k][j] = (const int64_t[]){1, -1, 6, 1, -1}[j];
  }
}

// ---- how often
static bool is_likely(double count, double n, double part) {
  return fabs(count - n * part) <= 5 * sqrt(n * part * (1 - part)) + 1e-9;
}

// Of the words in `may`, by e^(x / heat)
static void check_counts(const char *what, const int64_t *tokens, int n_rows, int step, const char *may, double heat) {
  double count[WORDS] = {0}, all = 0, n = 0;
  for (int k = 0; k < n_rows; k += step) {
    if (!CHECK(tokens[k] >= 0 && tokens[k] < WORDS)) return;
    count[tokens[k]]++, n++;
  }
  for (int w = 0; w < WORDS; w++) all += may[w] == 'x' ? exp((double)logits[w] / heat) : 0;
  for (int w = 0; w < WORDS; w++) {
    double part = may[w] == 'x' ? exp((double)logits[w] / heat) / all : 0;
    if (!CHECK(is_likely(count[w], n, part))) printf("  %s: word %d came %g times of %g\n", what, w, count[w], n);
  }
}

// Probabilities fall in the order of words 1, 3, 5, 0, ..: 0.44, 0.27, 0.16, 0.06
static void check_draws(const Drawn *d) {
  check_counts("plain", d->plain, ROWS, 1, "xxxxxxx", 1);
  check_counts("top_k", d->top_k, ROWS, 1, ".x.x.x.", 1);
  check_counts("top_p", d->top_p, ROWS, 1, ".x.x.x.", 1);
  check_counts("both", d->both, ROWS, 1, ".x.....", 0.5);
  check_counts("each", d->each + 1, ROWS - 3, 6, "xxxxxxx", 1);
  for (int k = 0; k < ROWS; k++) {
    CHECK(d->best[k] == 1 && d->stopped[k] == (d->plain[k] == 3 || d->plain[k] == 5));
    if (k % 2 == 0 || k % 3 == 0) CHECK(d->each[k] == 1);
    CHECK(d->penalised[k] == (k % 2 ? 3 : 1));  // 3 / 2 is less than 2.5
  }
}

// ---- numbers by seed and counter: as splitmix64's authors have it
static uint64_t mixed(uint64_t z) {
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u, z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

static void check_numbers(const Given *g, const Drawn *d) {
  double sum = 0;
  for (int k = 0; k < ROWS; k++) {
    uint64_t z = mixed(mixed((uint64_t)g->seeds[k]) + (uint64_t)g->counters[k] * 0x9E3779B97F4A7C15u);
    CHECK(d->u[k] == (float)(z >> 40) * 0x1p-24f);
    sum += (double)d->u[k];
  }
  CHECK(fabs(sum / ROWS - 0.5) < 5 * sqrt(1.0 / 12 / ROWS));
}

// ---- alone as in a batch, in any order
static void check_batch(tn_model *m, Given *g, const Drawn *d) {
  static Given one;
  static Drawn alone;
  enum { SOME = 50 };
  for (int k = 0; k < SOME; k++) {
    int from = (k * 811 + 5) % ROWS, to = k % 3;
    for (int j = 0; j < 3; j++) memcpy(one.x[j], logits, sizeof logits);
    one.seeds[to] = g->seeds[from], one.counters[to] = g->counters[from], one.heat[to] = g->heat[from];
    one.part[to] = g->part[from], one.penalty[to] = g->penalty[from];
    memcpy(one.past[to], g->past[from], sizeof one.past[to]);
    if (!draw(m, &one, to + 1, &alone)) return;
    CHECK(alone.plain[to] == d->plain[from] && alone.top_k[to] == d->top_k[from] && alone.top_p[to] == d->top_p[from]);
    CHECK(alone.both[to] == d->both[from] && alone.each[to] == d->each[from]);
    CHECK(alone.penalised[to] == d->penalised[from] && alone.u[to] == d->u[from]);
  }
  CHECK(draw(m, g, 0, &alone));
}

// Whatever the logits are, what is drawn is a word.
static void check_any_logits(tn_model *m, Given *g) {
  static const float rows[][WORDS] = {{NAN, 1, 2, 3, 4, 5, 6},
                                      {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY},
                                      {INFINITY, 0, INFINITY, 0, 0, 0, 0},
                                      {-INFINITY, 3e38f, -3e38f, 0, 0, 0, NAN},
                                      {NAN, NAN, NAN, NAN, NAN, NAN, NAN}};
  static Drawn d;
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    for (int k = 0; k < ROWS; k++) memcpy(g->x[k], rows[r], sizeof rows[r]);
    if (!draw(m, g, 256, &d)) return;
    const int64_t *all[] = {d.plain, d.top_k, d.top_p, d.both, d.best, d.each, d.penalised};
    for (int j = 0; j < 7; j++)
      for (int k = 0; k < 256; k++) CHECK(all[j][k] >= 0 && all[j][k] < WORDS);
  }
}

// What hides words by -inf hides them from the draw.
static void check_hidden(tn_model *m, Given *g) {
  static Drawn d;
  for (int k = 0; k < ROWS; k++) g->x[k][1] = g->x[k][3] = -INFINITY;
  if (!draw(m, g, 512, &d)) return;
  for (int k = 0; k < 512; k++) CHECK(d.plain[k] != 1 && d.plain[k] != 3 && d.top_k[k] != 1 && d.top_k[k] != 3);
}

int main(void) {
  static Given g;
  static Drawn one, two;
  tn_model *m = make(1), *m2 = make(2);
  if (!m || !m2) return 1;
  fill(&g);
  if (!draw(m, &g, ROWS, &one) || !draw(m2, &g, ROWS, &two)) return check_report();
  CHECK(!memcmp(&one, &two, sizeof one));
  check_draws(&one), check_numbers(&g, &one);
  check_batch(m2, &g, &two), check_hidden(m, &g), check_any_logits(m2, &g);
  tn_model_free(m), tn_model_free(m2);
  return check_report();
}
