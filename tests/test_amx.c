// Products on AMX, where each f32 is three bf16 parts: as exact as sums of f32, for every size, order in memory and what is
// fused; the same bits for any number of workers; numbers that do not go through parts.
#include "codegen/target.h"
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/small_stack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TA = 1, TB = 2, GELU = 4, RELU_A = 8, RELU_B = 16, BATCH = 32, DYNAMIC = 64, BIAS = 128, RUN_TIME_K = 256 };
enum { MOST_WORKERS = 4, BATCHES = 3 };

typedef struct {
  int64_t m, n, k;
  uint32_t options;
} Case;
// clang-format off
static const Case cases[] = {
    // whole blocks, parts of them, one row or column more
    {64, 128, 64, 0}, {96, 96, 96, TA | TB}, {257, 129, 100, 0}, {129, 257, 101, TA}, {80, 81, 333, TB}, {100, 150, 95, TA | TB},
    {2000, 42, 65, 0}, {45, 3000, 70, TB}, {5500, 100, 250, 0}, {5500, 100, 250, TA | GELU}, {49, 500, 64, TA},
    // several KC blocks, B beyond one, A by its worker, many MC blocks
    {256, 100, 1000, 0}, {256, 100, 1000, TB}, {90, 90, 6000, TA}, {300, 70, 8000, TB}, {1500, 64, 300, TA | TB}, {513, 33 * 32 + 5, 1057, 0},
    // several groups of columns, packed ahead: KC blocks first, or last; edges of both; B stored [N, K]
    {256, 1100, 600, 0}, {256, 1111, 601, GELU}, {100, 777, 555, BIAS | GELU}, {70, 1500, 200, 0}, {300, 1100, 600, TB}, {96, 1111, 601, TB | GELU},
    // slices of k
    {100, 100, 20000, TA}, {64, 110, 9000, 0}, {64, 110, 9000, RUN_TIME_K}, {300, 300, 9000, RUN_TIME_K}, {160, 300, 12000, 0}, {200, 290, 9001, GELU}, {300, 300, 9000, TB | BIAS | DYNAMIC},
    // what is fused
    {200, 300, 500, GELU}, {200, 300, 500, TB | BIAS}, {200, 300, 70, TB | BIAS | GELU}, {130, 300, 8200, TB | BIAS | GELU},
    {100, 200, 300, RELU_A}, {100, 200, 300, TA | RELU_B}, {100, 200, 300, RELU_A | TB | BIAS | GELU}, {90, 2000, 9000, TA | RELU_B},
    // matrices side by side, rows of a number that the run brings
    {70, 130, 90, BATCH}, {128, 96, 300, BATCH | TB}, {100, 130, 260, BATCH | TA | GELU},
    {256, 200, 300, DYNAMIC}, {500, 100, 700, DYNAMIC | TB | BIAS}, {200, 300, 500, DYNAMIC | GELU},
};
// clang-format on

// ---- numbers
typedef enum { ORDINARY, WITH_NAN, WITH_INFINITY, LARGE, DENORMAL, N_KINDS } Numbers;
typedef struct {
  const Case *c;
  int64_t batch, rows;  // rows: of A at this run
  float *a, *b, *bias;
} Operands;

static float *numbers(int64_t n, uint64_t seed) {
  float *x = malloc(sizeof *x * (size_t)(n ? n : 1));
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    x[i] = (float)((double)(seed >> 11) / (double)(UINT64_C(1) << 52) - 1);
  }
  return x;
}

// A row of A, and a column of B, that are unlike the others.
static void change(Operands *o, Numbers kind) {
  const Case *c = o->c;
  int64_t row = o->rows / 2, col = c->n / 3, k = c->k / 2;
  float *a = &o->a[c->options & TA ? k * o->rows + row : row * c->k + k];
  float *b = &o->b[c->options & TB ? col * c->k + k : k * c->n + col];
  if (kind == WITH_NAN) *a = NAN;
  if (kind == WITH_INFINITY) *b = -INFINITY;
  if (kind == LARGE) *a = 3.4e38f, *b = 1e-30f;
  if (kind == DENORMAL) *a = 1e-40f, *b = 2e38f;
}

static double in_a(const Operands *o, int64_t z, int64_t i, int64_t k) {
  int64_t at = o->c->options & TA ? k * o->rows + i : i * o->c->k + k;
  double x = o->a[z * o->rows * o->c->k + at];
  return o->c->options & RELU_A && x < 0 ? 0 : x;
}
static double in_b(const Operands *o, int64_t z, int64_t k, int64_t j) {
  int64_t at = o->c->options & TB ? j * o->c->k + k : k * o->c->n + j;
  double x = o->b[z * o->c->k * o->c->n + at];
  return o->c->options & RELU_B && x < 0 ? 0 : x;
}

// ---- the program
static tn_tensor operand(tn_function *f, const char *name, const Case *c, tn_dim row, tn_dim col) {
  bool batch = c->options & BATCH, is_a = name[0] == 'a';
  bool transposed = c->options & (is_a ? TA : TB), relu = c->options & (is_a ? RELU_A : RELU_B);
  tn_dim first = transposed ? col : row, second = transposed ? row : col;
  tn_tensor x = tn_input(f, name, TN_F32, batch ? TN_SHAPE(BATCHES, first, second) : TN_SHAPE(first, second));
  if (relu) x = tn_relu(x);
  return transposed ? tn_transpose(x, -1, -2) : x;
}

static tn_model *compiled(const Case *c, uint32_t workers) {
  tn_program *p = tn_program_create("amx");
  tn_function *f = tn_function_begin(p, "run");
  tn_dim rows = c->options & DYNAMIC ? tn_dim_bounded(p, "rows", c->m) : tn_dim_const(c->m);
  tn_dim k = c->options & RUN_TIME_K ? tn_dim_bounded(p, "k", c->k) : tn_dim_const(c->k);
  tn_tensor a = operand(f, "a", c, rows, k), b = operand(f, "b", c, k, tn_dim_const(c->n));
  tn_tensor y = tn_matmul(a, b);
  if (c->options & BIAS) y = tn_add(y, tn_input(f, "bias", TN_F32, TN_SHAPE(c->n)));
  tn_output(f, "y", c->options & GELU ? tn_gelu(y) : y);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = workers);
  tn_program_free(p);
  return m;
}

static tn_array matrix(const Case *c, float *x, int64_t rows, int64_t cols, bool transposed) {
  int64_t first = transposed ? cols : rows, second = transposed ? rows : cols;
  return c->options & BATCH ? tn_f32(x, BATCHES, first, second) : tn_f32(x, first, second);
}

static bool run(tn_model *m, const Operands *o, float *y) {
  const Case *c = o->c;
  tn_array a = matrix(c, o->a, o->rows, c->k, c->options & TA), b = matrix(c, o->b, c->k, c->n, c->options & TB);
  tn_array out = matrix(c, y, o->rows, c->n, false);
  if (c->options & BIAS) return tn_run(m, "run", TN_IN(a, b, tn_f32(o->bias, c->n)), TN_OUT(out)) == TN_OK;
  return tn_run(m, "run", TN_IN(a, b), TN_OUT(out)) == TN_OK;
}

// ---- what it should be
typedef struct {
  double sum, of_magnitudes;
} Expected;

static Expected expected(const Operands *o, int64_t z, int64_t i, int64_t j) {
  Expected e = {o->c->options & BIAS ? (double)o->bias[j] : 0, 0};
  e.of_magnitudes = fabs(e.sum);
  for (int64_t k = 0; k < o->c->k; k++) {
    double x = in_a(o, z, i, k) * in_b(o, z, k, j);
    e.sum += x, e.of_magnitudes += fabs(x);
  }
  if (o->c->options & GELU) e.sum = e.sum / 2 * (1 + erf(e.sum / sqrt(2)));  // NaN for -infinity
  return e;
}

// Sums of f32 are off by 1e-7 of their magnitudes at these sizes; GELU and its product add a rounding or two.
static bool is_near(float got, const Expected *e) {
  if (isnan(e->sum)) return isnan(got);
  if (isinf((float)e->sum)) return got == (float)e->sum;
  return fabs((double)got - e->sum) <= 2.5e-7 * e->of_magnitudes + 1e-37;
}

// Elements here and there, all of the row and the column that are unlike the others, and the last ones.
static bool all_near(const Operands *o, const float *y) {
  const Case *c = o->c;
  for (int64_t z = 0; z < o->batch; z++)
    for (int64_t i = 0; i < o->rows; i++)
      for (int64_t j = 0; j < c->n; j++) {
        bool odd = i == o->rows / 2 || j == c->n / 3, last = i + 1 == o->rows || j + 1 == c->n;
        if ((i * 31 + j * 17 + z) % 97 && !((odd || last) && (i + j) % 11 == 0) && !(i == o->rows / 2 && j == c->n / 3))
          continue;
        Expected e = expected(o, z, i, j);
        float got = y[(z * o->rows + i) * c->n + j];
        if (is_near(got, &e)) continue;
        printf("  [%lld,%lld,%lld]: %.9g, not %.9g of %.9g\n", (long long)z, (long long)i, (long long)j, (double)got,
               e.sum, e.of_magnitudes);
        return false;
      }
  return true;
}

// ---- a case
static Operands made(const Case *c, int64_t rows, Numbers kind) {
  Operands o = {c, c->options & BATCH ? BATCHES : 1, rows, NULL, NULL, NULL};
  o.a = numbers(o.batch * rows * c->k, 1), o.b = numbers(o.batch * c->k * c->n, 2), o.bias = numbers(c->n, 3);
  if (rows && c->k) change(&o, kind);
  return o;
}

static void check_run(tn_model *const *m, const Case *c, int64_t rows, Numbers kind) {
  Operands o = made(c, rows, kind);
  size_t n = (size_t)(o.batch * rows * c->n), bytes = n * sizeof(float);
  float *y = malloc(bytes + 1), *again = malloc(bytes + 1);
  memset(y, 0xff, bytes);
  bool ok = CHECK(run(m[0], &o, y)) && CHECK(all_near(&o, y));
  for (uint32_t w = 1; ok && w < MOST_WORKERS; w++) {
    memset(again, 0xff, bytes);
    ok = CHECK(run(m[w], &o, again)) && CHECK(!memcmp(y, again, bytes));
  }
  if (!ok)
    printf("  case %lld %lld %lld options %u rows %lld numbers %d\n", (long long)c->m, (long long)c->n, (long long)c->k,
           c->options, (long long)rows, kind);
  free(y), free(again), free(o.a), free(o.b), free(o.bias);
}

static void check_case(const Case *c) {
  tn_model *m[MOST_WORKERS];
  bool ok = true;
  for (uint32_t w = 0; w < MOST_WORKERS; w++) ok &= CHECK(m[w] = compiled(c, w + 1));
  for (Numbers kind = ORDINARY; ok && kind < N_KINDS; kind++) check_run(m, c, c->m, kind);
  static const int64_t fewer[] = {0, 1, 17, 33, 100};
  for (size_t k = 0; ok && c->options & DYNAMIC && k < sizeof fewer / sizeof *fewer; k++)
    check_run(m, c, fewer[k], ORDINARY);
  static const int64_t shorter[] = {0, 1, 7, 33, 256, 1280, 1281, 4100};
  for (size_t k = 0; ok && c->options & RUN_TIME_K && k < sizeof shorter / sizeof *shorter; k++) {
    Case at = *c;
    at.k = shorter[k];
    check_run(m, &at, c->m, ORDINARY);
  }
  for (uint32_t w = 0; w < MOST_WORKERS; w++) tn_model_free(m[w]);
}

// Sizes that nobody chose.
typedef struct {
  uint64_t seed;
  int64_t rounds;
} Random;

static void check_random(const Random *of_all) {
  uint64_t s = of_all->seed;
  static const uint32_t options[] = {0,    TA,     TB,     TA | TB, GELU,       TB | BIAS | GELU,
                                     BIAS, RELU_A, RELU_B, BATCH,   BATCH | TB, DYNAMIC};
  for (int64_t r = 0; r < of_all->rounds; r++) {
    int64_t of[3], most[] = {500, 1500, 1500};
    for (uint32_t k = 0; k < 3; k++) {
      s = s * 6364136223846793005u + 1442695040888963407u;
      of[k] = 64 + (int64_t)((s >> 33) % (uint64_t)most[k]);
    }
    Case c = {of[0], of[1], of[2], options[(s >> 20) % (sizeof options / sizeof *options)]};
    check_case(&c);
  }
}

static void *check_cases(void *random) {
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) check_case(&cases[k]);
  check_random(random);
  return NULL;
}

// test_amx [SEED ROUNDS]
int main(int argc, char **argv) {
  Random random = {argc > 1 ? strtoull(argv[1], NULL, 10) : 1, argc > 2 ? atoll(argv[2]) : 6};
  char lack[TARGET_LACK];
  if (!cg_target_runs_here(cg_target_find("amx"), lack)) {
    printf("not run: this machine lacks %s\n", lack);
    return check_report();
  }
  on_small_stack(check_cases, &random);
  return check_report();
}
