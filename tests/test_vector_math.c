// Primitives of pointwise ops, ordinary and with the option fast_math: distances from libm in units in the last place over
// a walk through all exponents, special values and the signs of zeros, arguments of sine far beyond any quotient that
// doubles hold, C's table of powers, single primitives, the cache. tools/ulp.c walks through all floats.
#include "frontend/tenure.h"
#include "tests/check.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 40007 };  // no whole number of vectors

static double sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static double silu(double x) { return x * sigmoid(x); }
static double gelu(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }
static double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
static double inverse_root(double x) { return 1 / sqrt(x); }

// clang-format off
#define WORDS(W)                                                                                                    \
  W(exp, exp)                                                                                                       \
  W(log, log)                                                                                                       \
  W(tanh, tanh)                                                                                                     \
  W(sigmoid, sigmoid)                                                                                               \
  W(erf, erf)                                                                                                       \
  W(gelu, gelu)                                                                                                     \
  W(silu, silu)                                                                                                     \
  W(softplus, softplus)                                                                                             \
  W(sin, sin)                                                                                                       \
  W(cos, cos)                                                                                                       \
  W(rsqrt, inverse_root)                                                                                            \
  W(tan, tan) W(asin, asin) W(acos, acos) W(atan, atan) W(sinh, sinh) W(cosh, cosh) W(asinh, asinh) W(acosh, acosh) \
      W(atanh, atanh) W(log1p, log1p) W(expm1, expm1) W(log2, log2) W(log10, log10) W(exp2, exp2) W(erfc, erfc)     \
          W(lgamma, lgamma)                                                                                         \
          W(round, nearbyint) W(ceil, ceil) W(trunc, trunc) W(sqrt, sqrt)
// clang-format on

typedef struct {
  const char *name;
  double (*exact)(double);
  tn_tensor (*call)(tn_tensor x);
} Word;
#define CALL(name, exact) \
  static tn_tensor call_##name(tn_tensor x) { return tn_##name(x); }
WORDS(CALL)
#define ROW(name, exact) {#name, exact, call_##name},
static const Word words[] = {WORDS(ROW)};
enum { N_WORDS = sizeof words / sizeof *words };

static double distance(float y, double r) {
  if (isnan(r) || isnan(y)) return isnan(r) && isnan(y) ? 0 : INFINITY;
  if (isinf((float)r) || isinf(y)) {
    bool near_top = fabs(r) >= 0x1.fffffep127 && fabs((double)y) >= 0x1.fffffep127;
    return (float)r == y || (near_top && signbit(r) == signbit(y)) ? 0 : INFINITY;
  }
  int e;
  frexp(r, &e);
  return fabs(y - r) / ldexp(1, (e < -125 ? -125 : e) - 24);
}

static tn_model *compile(const char *cache_dir, bool fast) {
  tn_program *p = tn_program_create("words");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(N));
  for (int k = 0; k < N_WORDS; k++) tn_output(f, words[k].name, words[k].call(x));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .cache_dir = cache_dir, .fast_math = fast);
  if (!m) tn_report(p, stdout);
  CHECK(m != NULL);
  tn_program_free(p);
  return m;
}

static float (*run(tn_model *m, const float *x))[N] {
  float(*y)[N] = malloc(N_WORDS * sizeof *y);
  tn_array out[N_WORDS];
  for (int k = 0; y && k < N_WORDS; k++) out[k] = tn_f32(y[k], N);
  tn_array in = tn_f32(x, N);
  CHECK(y && tn_run(m, "run", &in, 1, out, N_WORDS) == TN_OK);
  return y;
}

static void fill(float *x) {
  static const uint32_t special[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x7f800000,
                                     0xff800000, 0x7fc00000, 0x7f7fffff, 0xff7fffff, 0x3f800000, 0xbf800000, 0x42b17218,
                                     0xc2aeac50, 0xc2cff1b5, 0x4b800000, 0x7e800001, 0x5c0f1a2b, 0x3fc90fdb};
  for (uint32_t k = 0; k < N; k++) {
    uint32_t b = k < sizeof special / sizeof *special ? special[k] : k * 107357u + (k & 1) * 0x80000000u;
    memcpy(&x[k], &b, sizeof b);
  }
}

static void check_words(const float *x, float (*y)[N], double limit) {
  for (int w = 0; w < N_WORDS; w++) {
    double most = 0, at = 0;
    for (int k = 0; k < N; k++) {
      double r = words[w].exact(x[k]), d = distance(y[w][k], r);
      if (d > most) most = d, at = x[k];
    }
    if (!CHECK(most <= (words[w].exact == sqrt ? 0.5 : limit))) printf("  %s: %g ulp at %a\n", words[w].name, most, at);
  }
  CHECK(signbit(y[2][1]) && signbit(y[4][1]) && signbit(y[5][1]) && signbit(y[6][1]) && signbit(y[8][1]) &&
        signbit(y[N_WORDS - 1][1]));  // of -0
}

// ---- a primitive alone
// All primitives in one kernel are computed vector by vector, a single one on some targets by several at once: the same bits, for
// sizes that fill no, one and several turns, and what is left.
static const uint32_t sizes[] = {1, 7, 31, 32, 33, 64, 71, 4099, N};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static uint32_t bits_of(float x) {
  uint32_t b;
  memcpy(&b, &x, sizeof b);
  return b;
}

static void check_alone(const float *x, float (*y)[N], bool fast) {
  tn_program *p = tn_program_create("alone");
  tn_dim n = tn_dim_bounded(p, "n", N);
  for (int w = 0; w < N_WORDS; w++) {
    tn_function *f = tn_function_begin(p, words[w].name);
    tn_output(f, "y", words[w].call(tn_input(f, "x", TN_F32, TN_SHAPE(n))));
    tn_function_end(f);
  }
  tn_model *m = tn_compile(p, .fast_math = fast);
  tn_program_free(p);
  float *z = malloc(N * sizeof *z);
  for (int w = 0; CHECK(m && z) && w < N_WORDS; w++)
    for (int s = 0; s < N_SIZES; s++) {
      const float *from = x + (N - sizes[s]) % 64;
      uint32_t size = sizes[s], bad = 0;
      CHECK(tn_run(m, words[w].name, TN_IN(tn_f32(from, size)), TN_OUT(tn_f32(z, size))) == TN_OK);
      const float *want = y[w] + (from - x);
      for (uint32_t k = 0; k < size; k++) bad += bits_of(z[k]) != bits_of(want[k]) && !(isnan(z[k]) && isnan(want[k]));
      if (!CHECK(bad == 0)) printf("  %s alone: %u of %u elements differ\n", words[w].name, bad, size);
    }
  free(z);
  tn_model_free(m);
}

// ---- powers: every pair of special values, compared with C's pow, signs of zeros and infinities included
static const float powers[] = {0,       -0.0f,    1,         -1,        2,          -2,        3,
                               -3,      0.5f,     -0.5f,     2.5f,      1e38f,      -1e38f,    1e-45f,
                               -1e-45f, 1e-38f,   INFINITY,  -INFINITY, 16777215,   -16777215, 1e9f,
                               -1e9f,   16777216, -16777216, 8388609.f, 8388608.5f, NAN};
enum { N_POWERS = sizeof powers / sizeof *powers };

static bool same_power(float got, double want) {
  float w = (float)want;
  if (isnan(w) || isinf(w) || w == 0) return isnan(w) ? isnan(got) : got == w && signbit(got) == signbit(w);
  return distance(got, want) <= 2;
}

static void check_powers(bool fast) {
  tn_program *p = tn_program_create("powers");
  tn_function *f = tn_function_begin(p, "run");
  const tn_dim n = tn_dim_const(N_POWERS * N_POWERS);
  tn_tensor base = tn_input(f, "a", TN_F32, TN_SHAPE(n)), exponent = tn_input(f, "b", TN_F32, TN_SHAPE(n));
  tn_output(f, "y", tn_pow(base, exponent));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .fast_math = fast);
  tn_program_free(p);
  static float a[N_POWERS * N_POWERS], b[N_POWERS * N_POWERS], y[N_POWERS * N_POWERS];
  for (int k = 0; k < N_POWERS * N_POWERS; k++) a[k] = powers[k / N_POWERS], b[k] = powers[k % N_POWERS];
  const int64_t size = N_POWERS * N_POWERS;
  if (CHECK(m != NULL))
    CHECK(tn_run(m, "run", TN_IN(tn_f32(a, size), tn_f32(b, size)), TN_OUT(tn_f32(y, size))) == TN_OK);
  for (int k = 0; k < size; k++)
    if (!CHECK(same_power(y[k], pow(a[k], b[k])))) printf("  pow(%g, %g) = %g\n", a[k], b[k], y[k]);
  tn_model_free(m);
}

// Exponents that are constants of the program, some of which have shorter ways: of special bases and of a walk through
// all of them.
static void check_constant_powers(const float *x) {
  static const float exponent[] = {0, 1, 2, 3, 4, 5, -1, -2, -3, 0.5f, -0.5f, 1.5f, -1.5f, 2.5f, 1 / 3.f};
  enum { N_EXPONENTS = sizeof exponent / sizeof *exponent };
  tn_program *p = tn_program_create("constant_powers");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor a = tn_input(f, "a", TN_F32, TN_SHAPE(N));
  char name[N_EXPONENTS][8];
  for (int k = 0; k < N_EXPONENTS; k++) {
    snprintf(name[k], sizeof name[k], "y%d", k);
    tn_output(f, name[k], tn_pow(a, tn_scalar(f, exponent[k])));
  }
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  tn_program_free(p);
  float(*y)[N] = malloc(N_EXPONENTS * sizeof *y);
  tn_array out[N_EXPONENTS];
  for (int k = 0; y && k < N_EXPONENTS; k++) out[k] = tn_f32(y[k], N);
  if (CHECK(m && y) && CHECK(tn_run(m, "run", TN_IN(tn_f32(x, N)), out, N_EXPONENTS) == TN_OK))
    for (int k = 0; k < N_EXPONENTS; k++)
      for (int j = 0; j < N; j++) {
        double want = pow(x[j], exponent[k]);
        if (!CHECK(same_power(y[k][j], want))) printf("  pow(%a, %g) = %a\n", x[j], exponent[k], y[k][j]);
      }
  free(y);
  tn_model_free(m);
}

int main(void) {
  float *x = malloc(N * sizeof *x);
  char dir[] = "/tmp/tenure_words_XXXXXX", command[64];
  if (!x || !mkdtemp(dir)) return 1;
  fill(x);
  tn_model *m = compile(dir, false), *fast = compile(dir, true), *again = compile(dir, true);
  if (m && fast && again) {
    float(*y)[N] = run(m, x), (*z)[N] = run(fast, x);
    check_words(x, y, 2);
    check_words(x, z, 16);
    check_alone(x, y, false), check_alone(x, z, true);
    CHECK(!tn_compile_info_of(m).from_cache && !tn_compile_info_of(fast).from_cache &&
          tn_compile_info_of(again).from_cache);
    free(y), free(z);
  }
  tn_model_free(m), tn_model_free(fast), tn_model_free(again);
  check_powers(false), check_powers(true);
  check_constant_powers(x);
  snprintf(command, sizeof command, "rm -rf %s", dir);
  CHECK(system(command) == 0);
  free(x);
  return check_report();
}
