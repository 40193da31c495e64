// 64-bit integers on CPUs of 32 bits: quotients, and conversions from and to floating point, under the names that compilers
// call: Arm's EABI has its own. In bundles only, where they are local; shifts are inline, since cmake/bundle.cmake builds this
// for speed rather than for size where a CPU has none.
#include <stdbool.h>
#include <stdint.h>
#if defined(TN_BUNDLE_SUPPORT) && UINTPTR_MAX == UINT32_MAX

// ---- quotients
uint64_t tn_bundle_divide(uint64_t n, uint64_t d, uint64_t *rest);
int64_t tn_bundle_divide_signed(int64_t n, int64_t d, int64_t *rest);

uint64_t tn_bundle_divide(uint64_t n, uint64_t d, uint64_t *rest) {
  uint64_t q = 0, r = 0;
  for (int k = 0; k < 64; k++, n <<= 1) {
    uint64_t carry = r >> 63;
    r = r << 1 | n >> 63;
    q <<= 1;
    if (carry || r >= d) r -= d, q |= 1;
  }
  *rest = r;
  return q;
}

int64_t tn_bundle_divide_signed(int64_t n, int64_t d, int64_t *rest) {
  uint64_t r, a = n < 0 ? 0 - (uint64_t)n : (uint64_t)n, b = d < 0 ? 0 - (uint64_t)d : (uint64_t)d;
  uint64_t q = tn_bundle_divide(a, b, &r);
  *rest = (int64_t)(n < 0 ? 0 - r : r);
  return (int64_t)((n < 0) != (d < 0) ? 0 - q : q);
}

#ifdef __arm__
// The result in r0:r1, the remainder in r2:r3, where a structure of C would come back in memory
#define QUOTIENT(name, call)                                                                   \
  __attribute__((naked)) void name(void);                                                      \
  __attribute__((naked)) void name(void) {                                                     \
    __asm__("push {r6, lr}\n sub sp, sp, #16\n add r6, sp, #8\n str r6, [sp]\n bl " #call "\n" \
            "ldr r2, [sp, #8]\n ldr r3, [sp, #12]\n add sp, sp, #16\n pop {r6, pc}");          \
  }
QUOTIENT(__aeabi_uldivmod, tn_bundle_divide)
QUOTIENT(__aeabi_ldivmod, tn_bundle_divide_signed)
#else
uint64_t __udivdi3(uint64_t n, uint64_t d);
uint64_t __umoddi3(uint64_t n, uint64_t d);
int64_t __divdi3(int64_t n, int64_t d);
int64_t __moddi3(int64_t n, int64_t d);

uint64_t __udivdi3(uint64_t n, uint64_t d) {
  uint64_t rest;
  return tn_bundle_divide(n, d, &rest);
}

uint64_t __umoddi3(uint64_t n, uint64_t d) {
  uint64_t rest;
  tn_bundle_divide(n, d, &rest);
  return rest;
}

int64_t __divdi3(int64_t n, int64_t d) {
  int64_t rest;
  return tn_bundle_divide_signed(n, d, &rest);
}

int64_t __moddi3(int64_t n, int64_t d) {
  int64_t rest;
  tn_bundle_divide_signed(n, d, &rest);
  return rest;
}
#endif

// ---- from and to floating point; what does not fit is the nearest that does. x86 has instructions.
#ifndef __i386__
#ifdef __arm__
#define BASE __attribute__((pcs("aapcs")))  // numbers come and go in integer registers, whatever other functions do
#else
#define BASE
#define __aeabi_d2ulz __fixunsdfdi
#define __aeabi_d2lz __fixdfdi
#define __aeabi_f2ulz __fixunssfdi
#define __aeabi_f2lz __fixsfdi
#define __aeabi_ul2d __floatundidf
#define __aeabi_l2d __floatdidf
#define __aeabi_ul2f __floatundisf
#define __aeabi_l2f __floatdisf
#endif
// By integers alone: a CPU may have single precision and no double.
static uint64_t bits_of(double x) {
  union {
    double f;
    uint64_t u;
  } v = {x};
  return v.u;
}

static uint32_t bits_of_single(float x) {
  union {
    float f;
    uint32_t u;
  } v = {x};
  return v.u;
}

static double double_of(uint64_t bits) {
  union {
    uint64_t u;
    double f;
  } v = {bits};
  return v.f;
}

static float single_of(uint32_t bits) {
  union {
    uint32_t u;
    float f;
  } v = {bits};
  return v.f;
}

BASE uint64_t __aeabi_d2ulz(double x);
BASE int64_t __aeabi_d2lz(double x);
BASE uint64_t __aeabi_f2ulz(float x);
BASE int64_t __aeabi_f2lz(float x);
BASE double __aeabi_ul2d(uint64_t n);
BASE double __aeabi_l2d(int64_t n);
BASE float __aeabi_ul2f(uint64_t n);
BASE float __aeabi_l2f(int64_t n);

// significand 2^exponent, towards zero
static uint64_t scaled(uint64_t significand, int exponent) {
  if (exponent < -63) return 0;
  return exponent < 0 ? significand >> -exponent : significand << exponent;
}

static int64_t with_sign(uint64_t n, bool is_negative) {
  if (n >> 63) return is_negative ? INT64_MIN : INT64_MAX;
  return is_negative ? -(int64_t)n : (int64_t)n;
}

static uint64_t of_double(uint64_t bits) {  // without its sign
  int exponent = (int)(bits >> 52 & 0x7ff) - 1075;
  if (exponent == 0x7ff - 1075 && bits << 12) return 0;
  return exponent > 11 ? UINT64_MAX : scaled((bits & (~0ull >> 12)) | 1ull << 52, exponent);
}

static uint64_t of_single(uint32_t bits) {
  int exponent = (int)(bits >> 23 & 0xff) - 150;
  if (exponent == 0xff - 150 && bits << 9) return 0;
  return exponent > 40 ? UINT64_MAX : scaled((bits & 0x7fffff) | 0x800000, exponent);
}

uint64_t __aeabi_d2ulz(double x) { return bits_of(x) >> 63 ? 0 : of_double(bits_of(x)); }
int64_t __aeabi_d2lz(double x) { return with_sign(of_double(bits_of(x)), bits_of(x) >> 63); }
uint64_t __aeabi_f2ulz(float x) { return bits_of_single(x) >> 31 ? 0 : of_single(bits_of_single(x)); }
int64_t __aeabi_f2lz(float x) { return with_sign(of_single(bits_of_single(x)), bits_of_single(x) >> 31); }

// n as a floating-point number with so many bits behind the point, rounded to nearest even: exponent and fraction, where a carry
// out of the fraction is one more in the exponent.
static uint64_t as_float(uint64_t n, int fraction_bits, int bias) {
  if (!n) return 0;
  int top = 63;
  while (!(n >> top)) top--;
  uint64_t exponent = (uint64_t)(top + bias);
  if (top <= fraction_bits) return ((exponent - 1) << fraction_bits) + (n << (fraction_bits - top));
  int off = top - fraction_bits;
  uint64_t kept = n >> off, rest = n & ((1ull << off) - 1), half = 1ull << (off - 1);
  kept += rest > half || (rest == half && (kept & 1));
  return ((exponent - 1) << fraction_bits) + kept;
}

static uint64_t size_of(int64_t n) { return n < 0 ? 0 - (uint64_t)n : (uint64_t)n; }

double __aeabi_ul2d(uint64_t n) { return double_of(as_float(n, 52, 1023)); }
double __aeabi_l2d(int64_t n) { return double_of(as_float(size_of(n), 52, 1023) | (uint64_t)(n < 0) << 63); }
float __aeabi_ul2f(uint64_t n) { return single_of((uint32_t)as_float(n, 23, 127)); }
float __aeabi_l2f(int64_t n) { return single_of((uint32_t)as_float(size_of(n), 23, 127) | (uint32_t)(n < 0) << 31); }
#endif
#endif
