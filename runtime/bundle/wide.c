// 64-bit integers on CPUs of 32 bits: quotients, and conversions from and to floating point, under the names that compilers
// call: Arm's EABI has its own. In bundles only, where they are local; shifts are inline, since cmake/bundle.cmake builds this
// for speed rather than for size where a CPU has none.
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
static uint64_t bits_of(double x) {
  union {
    double f;
    uint64_t u;
  } v = {x};
  return v.u;
}

BASE uint64_t __aeabi_d2ulz(double x);
BASE int64_t __aeabi_d2lz(double x);
BASE uint64_t __aeabi_f2ulz(float x);
BASE int64_t __aeabi_f2lz(float x);
BASE double __aeabi_ul2d(uint64_t n);
BASE double __aeabi_l2d(int64_t n);
BASE float __aeabi_ul2f(uint64_t n);
BASE float __aeabi_l2f(int64_t n);

uint64_t __aeabi_d2ulz(double x) {
  uint64_t bits = bits_of(x), significand = (bits & (~0ull >> 12)) | 1ull << 52;
  int exponent = (int)(bits >> 52 & 0x7ff) - 1075;
  if (exponent < -63 || bits >> 63 || x != x) return 0;
  if (exponent > 11) return UINT64_MAX;
  return exponent < 0 ? significand >> -exponent : significand << exponent;
}

int64_t __aeabi_d2lz(double x) {
  uint64_t n = __aeabi_d2ulz(x < 0 ? -x : x);
  if (n >> 63) return x < 0 ? INT64_MIN : INT64_MAX;
  return x < 0 ? -(int64_t)n : (int64_t)n;
}

uint64_t __aeabi_f2ulz(float x) { return __aeabi_d2ulz((double)x); }
int64_t __aeabi_f2lz(float x) { return __aeabi_d2lz((double)x); }
double __aeabi_ul2d(uint64_t n) { return (double)(uint32_t)(n >> 32) * 0x1p32 + (double)(uint32_t)n; }
double __aeabi_l2d(int64_t n) { return (double)(int32_t)(n >> 32) * 0x1p32 + (double)(uint32_t)n; }

// Rounded once: what a double cannot hold leaves a mark in its last bit, far behind those of a float.
float __aeabi_ul2f(uint64_t n) {
  uint64_t rest = n & 0x7ff;
  if (n >> 53) n = (n & ~0x7ffull) | (rest ? 0x800 : 0);
  return (float)__aeabi_ul2d(n);
}

float __aeabi_l2f(int64_t n) { return n < 0 ? -__aeabi_ul2f(0 - (uint64_t)n) : __aeabi_ul2f((uint64_t)n); }
#endif
#endif
