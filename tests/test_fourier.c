// Fourier transforms of every number of points up to 70, and of some with large and with many factors, against sums in f64: of
// one row and of numbers of rows that fill vectors or do not. Back again they are the rows. A row beside NaN has the bits that it
// has elsewhere, and three workers give those of one.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 37, MOST_POINTS = 2048 };

typedef struct {
  int64_t rows, n, bins;
  float *x, *bins_of, *back;
} Transform;

static float *numbers(int64_t n) {
  float *x = malloc((size_t)n * sizeof *x);
  uint32_t seed = (uint32_t)n;
  if (!x) abort();
  for (int64_t k = 0; k < n; k++) {
    seed = seed * 1664525u + 1013904223u;
    x[k] = (float)(seed >> 8) * 0x1p-22f - 2;
  }
  return x;
}

static Transform transform_of(int64_t rows, int64_t n) {
  int64_t bins = n / 2 + 1;
  return (Transform){rows, n, bins, numbers(rows * n), numbers(rows * 2 * bins), numbers(rows * n)};
}

static void free_transform(Transform *t) { free(t->x), free(t->bins_of), free(t->back); }

// rows 0: as many as the run says
static tn_program *program_of(int64_t rows, int64_t n) {
  tn_program *p = tn_program_create("fourier");
  tn_function *f = tn_function_begin(p, "run");
  tn_dim all = rows ? tn_dim_const(rows) : tn_dim_bounded(p, "rows", MOST_ROWS);
  tn_tensor y = tn_rfft(tn_input(f, "x", TN_F32, TN_SHAPE(all, tn_dim_const(n))));
  tn_output(f, "y", y);
  tn_output(f, "back", tn_irfft(y, n));
  tn_function_end(f);
  return p;
}

static void run(tn_model *m, const Transform *t) {
  CHECK(m && tn_run(m, "run", TN_IN(tn_f32(t->x, t->rows, t->n)),
                    TN_OUT(tn_f32(t->bins_of, t->rows, t->bins, 2), tn_f32(t->back, t->rows, t->n))) == TN_OK);
}

// ---- values
static double bin(const Transform *t, const double *wave, int64_t row, int64_t k, bool is_imaginary) {
  double sum = 0;
  for (int64_t j = 0; j < t->n; j++) sum += t->x[row * t->n + j] * wave[2 * (j * k % t->n) + is_imaginary];
  return sum;
}

static void check_values(const Transform *t) {
  static double wave[2 * MOST_POINTS];
  double worst = 0, worst_back = 0;
  for (int64_t j = 0; j < t->n; j++) {
    double angle = 2 * 3.14159265358979323846 * (double)j / (double)t->n;
    wave[2 * j] = cos(angle), wave[2 * j + 1] = -sin(angle);
  }
  for (int64_t i = 0; i < t->rows; i += 1 + t->rows / 2)
    for (int64_t k = 0; k < 2 * t->bins; k++)
      worst = fmax(worst, fabs(t->bins_of[i * 2 * t->bins + k] - bin(t, wave, i, k / 2, k % 2)));
  for (int64_t k = 0; k < t->rows * t->n; k++) worst_back = fmax(worst_back, fabs((double)t->back[k] - t->x[k]));
  if (!CHECK(worst <= 1.5e-6 * sqrt((double)t->n) && worst_back <= 2e-6))
    printf("  %lld rows of %lld points: errors %g, back %g\n", (long long)t->rows, (long long)t->n, worst, worst_back);
}

static void check_rows(tn_model *m, int64_t rows, int64_t n) {
  Transform t = transform_of(rows, n);
  run(m, &t);
  check_values(&t);
  free_transform(&t);
}

static void check_points(int64_t n) {
  static const int64_t rows[] = {1, 5, 16, MOST_ROWS};
  tn_program *sized = program_of(0, n), *one = program_of(1, n);
  tn_model *m = model_of(sized, .n_workers = 1), *m_one = model_of(one, .n_workers = 1);
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) check_rows(m, rows[k], n);
  check_rows(m_one, 1, n);
  tn_model_free(m), tn_model_free(m_one);
  tn_program_free(sized), tn_program_free(one);
}

// ---- bits: NaN in every row but one, and three workers
static void check_alone(int64_t n) {
  tn_program *p = program_of(0, n), *again = program_of(0, n);
  tn_model *one = model_of(p, .n_workers = 1), *three = model_of(again, .n_workers = 3);
  Transform t = transform_of(21, n), other = transform_of(21, n);
  run(one, &t);
  for (int64_t k = 0; k < t.rows * n; k++) other.x[k] = k / n == 3 ? t.x[k] : NAN;
  run(three, &other);
  CHECK(!memcmp(t.bins_of + 6 * t.bins, other.bins_of + 6 * t.bins, (size_t)(2 * t.bins) * sizeof(float)));
  CHECK(!memcmp(t.back + 3 * n, other.back + 3 * n, (size_t)n * sizeof(float)));
  free_transform(&t), free_transform(&other);
  tn_model_free(one), tn_model_free(three);
  tn_program_free(p), tn_program_free(again);
}

int main(void) {
  static const int64_t many[] = {74,  97,  121, 169,  210,  243,  256,  289, 343,
                                 400, 506, 512, 1000, 1018, 1024, 1999, 2048};
  for (int64_t n = 1; n <= 70; n++) check_points(n);
  for (size_t k = 0; k < sizeof many / sizeof *many; k++) check_points(many[k]);
  check_alone(60), check_alone(45), check_alone(74);
  return check_report();
}
