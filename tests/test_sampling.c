// Numbers drawn by probabilities: how often each comes, what never does, and that no number of workers changes a draw.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4096, N = 5, DRAWS = 3 };
static const float p[N] = {0.5f, 0, 2, 1.25f, 0.25f};  // by 4
static const float total = 4;

// By a row of equal probabilities: draws with and without replacement, and by each probability whether it came.
static tn_model *model(uint32_t n_workers, int64_t rows) {
  tn_program *prog = tn_program_create("sampling");
  tn_dim n = tn_dim_bounded(prog, "n", rows);
  tn_function *f = tn_function_begin(prog, "draw");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(n, N));
  tn_output(f, "many", tn_multinomial(x, DRAWS, true));
  tn_output(f, "few", tn_multinomial(x, DRAWS, false));
  tn_output(f, "is", tn_bernoulli(tn_mul_scalar(x, 0.25)));
  tn_function_end(f);
  return model_alone(prog, .n_workers = n_workers, .seed = 7);
}

typedef struct {
  int64_t many[ROWS][DRAWS], few[ROWS][DRAWS];
  float is[ROWS][N];
} Drawn;

static bool draw(uint32_t n_workers, const float row[N], Drawn *d) {
  static float x[ROWS][N];
  tn_model *m = model(n_workers, ROWS);
  for (int i = 0; i < ROWS; i++) memcpy(x[i], row, sizeof x[i]);
  bool ok = m && tn_run(m, "draw", TN_IN(tn_f32(&x[0][0], ROWS, N)),
                        TN_OUT(tn_i64(&d->many[0][0], ROWS, DRAWS), tn_i64(&d->few[0][0], ROWS, DRAWS),
                               tn_f32(&d->is[0][0], ROWS, N))) == TN_OK;
  if (m) tn_model_free(m);
  return CHECK(ok);
}

// Is a count of n trials with this probability within five standard deviations?
static bool is_likely(double count, double n, double part) {
  return fabs(count - n * part) <= 5 * sqrt(n * part * (1 - part)) + 1e-9;
}

static void check_with_replacement(const Drawn *d) {
  double count[N] = {0}, pairs[N][N] = {{0}};
  for (int i = 0; i < ROWS; i++)
    for (int k = 0; k < DRAWS; k++) {
      if (!CHECK(d->many[i][k] >= 0 && d->many[i][k] < N)) return;
      count[d->many[i][k]]++;
      if (k) pairs[d->many[i][k - 1]][d->many[i][k]]++;
    }
  for (int j = 0; j < N; j++) CHECK(is_likely(count[j], ROWS * DRAWS, (double)(p[j] / total)));
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++)
      CHECK(is_likely(pairs[i][j], ROWS * (DRAWS - 1), (double)(p[i] * p[j] / total / total)));
}

// The first by its probability, the second by that among those that are left.
static void check_without_replacement(const Drawn *d) {
  double first[N] = {0}, pairs[N][N] = {{0}};
  for (int i = 0; i < ROWS; i++) {
    const int64_t *row = d->few[i];
    for (int k = 0; k < DRAWS; k++)
      if (!CHECK(row[k] >= 0 && row[k] < N && row[k] != 1)) return;
    CHECK(row[0] != row[1] && row[0] != row[2] && row[1] != row[2]);
    first[row[0]]++, pairs[row[0]][row[1]]++;
  }
  for (int i = 0; i < N; i++) {
    double part = (double)(p[i] / total);
    CHECK(is_likely(first[i], ROWS, part));
    for (int j = 0; j < N; j++)
      if (j != i) CHECK(is_likely(pairs[i][j], ROWS, part * (double)(p[j] / (total - p[i]))));
  }
}

static void check_bernoulli(const Drawn *d) {
  double count[N] = {0};
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < N; j++) {
      CHECK(d->is[i][j] == 0 || d->is[i][j] == 1);
      count[j] += (double)d->is[i][j];
    }
  for (int j = 0; j < N; j++) CHECK(is_likely(count[j], ROWS, fmin((double)p[j] * 0.25, 1)));
}

static void frequencies(void) {
  static Drawn one, two;
  if (!draw(1, p, &one) || !draw(2, p, &two)) return;
  check_with_replacement(&one);
  check_without_replacement(&one);
  check_bernoulli(&one);
  CHECK(!memcmp(&one, &two, sizeof one));
}

// Whatever the probabilities are, a draw is one of the numbers.
static void no_probabilities(void) {
  static Drawn d;
  static const float rows[][N] = {{0, 0, 0, 0, 0},
                                  {NAN, 1, 1, 1, 1},
                                  {1, 1, NAN, 1, 1},
                                  {INFINITY, 1, 0, 1, INFINITY},
                                  {-1, -2, -3, -4, -5},
                                  {1e-45f, 0, 0, 0, 1e-45f},
                                  {3e38f, 3e38f, 3e38f, 3e38f, 0},
                                  {-1, 3, 0, 0, 0},
                                  {0, 1e-45f, 0, 0, 0},
                                  {0, 1e-39f, 0, 2, 1e-45f}};
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    if (!draw(1, rows[r], &d)) return;
    bool good = true;
    for (int i = 0; i < ROWS; i++)
      for (int k = 0; k < DRAWS; k++)
        good &= d.many[i][k] >= 0 && d.many[i][k] < N && d.few[i][k] >= 0 && d.few[i][k] < N;
    CHECK(good);
    for (int i = 0; r == 7 && i < ROWS; i++) CHECK(d.many[i][0] == 1 && d.few[i][0] == 1);  // below 0 is 0
    bool draws_none = false;  // of those that cannot come, where others are denormal
    for (int i = 0; r > 7 && i < ROWS; i++)
      for (int k = 0; k < DRAWS; k++)
        draws_none |= rows[r][d.many[i][k]] == 0 || (k < (r == 8 ? 1 : 3) && rows[r][d.few[i][k]] == 0);
    CHECK(!draws_none);
  }
}

int main(void) {
  frequencies();
  no_probabilities();
  return check_report();
}
