// 64-bit arithmetic that bundles bring to CPUs of 32 bits, against what this machine computes: runtime/bundle/wide.c.
#include "tests/check.h"
#include <float.h>
#include <math.h>
#include <stdint.h>

// As on a CPU of 32 bits, by names that the compiler does not have
#undef UINTPTR_MAX
#define UINTPTR_MAX UINT32_MAX
#define TN_BUNDLE_SUPPORT
#define __udivdi3 wide_udivdi3
#define __umoddi3 wide_umoddi3
#define __divdi3 wide_divdi3
#define __moddi3 wide_moddi3
#define __fixunsdfdi wide_fixunsdfdi
#define __fixdfdi wide_fixdfdi
#define __fixunssfdi wide_fixunssfdi
#define __fixsfdi wide_fixsfdi
#define __floatundidf wide_floatundidf
#define __floatdidf wide_floatdidf
#define __floatundisf wide_floatundisf
#define __floatdisf wide_floatdisf
#include "runtime/bundle/wide.c"

static uint64_t state = 1;
static uint64_t next(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) ^ (state << 31);
}

// Numbers of every length: powers of two, their neighbours, sums of two, and any bits.
static uint64_t number(uint32_t k) {
  uint64_t one = 1ull << next() % 64, other = 1ull << next() % 64;
  switch (k % 5) {
  case 0: return one;
  case 1: return one - 1;
  case 2: return one + 1;
  case 3: return one + other + next() % 3 - 1;
  default: return next() >> next() % 64;
  }
}

static void test_quotients(uint64_t a, uint64_t b) {
  int64_t n = (int64_t)a, d = (int64_t)b;
  if (!b) return;
  CHECK(__udivdi3(a, b) == a / b && __umoddi3(a, b) == a % b);
  if (n == INT64_MIN && d == -1) return;
  CHECK(__divdi3(n, d) == n / d && __moddi3(n, d) == n % d);
}

static void test_to_floats(uint64_t a) {
  int64_t n = (int64_t)a;
  CHECK(__floatundidf(a) == (double)a && __floatdidf(n) == (double)n);
  CHECK(__floatundisf(a) == (float)a && __floatdisf(n) == (float)n);
}

// What fits is cut; what does not is the nearest.
static uint64_t nearest(double x) { return !(x > -1) ? 0 : x >= 0x1p64 ? UINT64_MAX : x < 0 ? 0 : (uint64_t)x; }
static int64_t nearest_signed(double x) {
  return isnan(x) ? 0 : x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x;
}

static void test_from_floats(double x) {
  CHECK(__fixunsdfdi(x) == nearest(x) && __fixdfdi(x) == nearest_signed(x));
  float f = (float)x;
  CHECK(__fixunssfdi(f) == nearest((double)f) && __fixsfdi(f) == nearest_signed((double)f));
}

int main(void) {
  static const double awkward[] = {0,
                                   -0.0,
                                   0.5,
                                   -0.5,
                                   0.999999,
                                   -0.999999,
                                   1,
                                   -1,
                                   0x1p31,
                                   0x1p32,
                                   -0x1p31,
                                   0x1p53,
                                   0x1p53 + 2,
                                   0x1p62,
                                   0x1p63,
                                   -0x1p63,
                                   0x1p64,
                                   -0x1p64,
                                   0x1p65,
                                   1e300,
                                   -1e300,
                                   INFINITY,
                                   -INFINITY,
                                   NAN,
                                   DBL_MIN,
                                   -1e-310,
                                   0x1.8p62 + 1,
                                   1e19,
                                   9223372036854774784.0};
  for (size_t k = 0; k < sizeof awkward / sizeof *awkward; k++) test_from_floats(awkward[k]);
  for (uint32_t k = 0; k < 200000; k++) {
    uint64_t a = number(k), b = number(k / 5);
    test_quotients(a, b), test_quotients(0 - a, b), test_quotients(a, 0 - b);
    test_to_floats(a), test_to_floats(0 - a);
    test_from_floats((double)a * 0x1p-20), test_from_floats(-(double)a * 0.5);
  }
  return check_report();
}
