// Written by Tenure from LLVM's form of the program: C99, for machines whose floats are those of IEEE 754 and whose
// lowest byte of a number lies first. Compile it with -std=c99 or -ffp-contract=off, so that a * b + c is rounded twice,
// and link it with -lm.
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__FAST_MATH__) || (defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0)
#error floats are IEEE 754 numbers here, and every operation is rounded: no -ffast-math, no x87
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error the lowest byte of a number lies first here
#endif
#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif
#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define ALIGNED(n) _Alignas(n)
#elif defined(__GNUC__)
#define ALIGNED(n) __attribute__((aligned(n)))
#else
#define ALIGNED(n)
#endif
#if defined(__GNUC__)  // a program needs some of what follows
#define INLINE static inline __attribute__((unused))
#else
#define INLINE static inline
#endif
#define CHECK(name, is) typedef char name[(is) ? 1 : -1]
typedef char *Ptr;
// Lanes of a vector: with GNU's extension one of a register, which it computes as a whole
#if defined(__GNUC__)
#define LANES(type, n) type v __attribute__((vector_size(sizeof(type) * (n))))
#define BY_LANES(type, whole, ...) \
  return (type) { whole }
#else
#define LANES(type, n) type v[n]
#define BY_LANES(type, whole, ...) \
  return (type) {                  \
    { __VA_ARGS__ }                \
  }
#endif

// ---- memory: of any type, at a multiple of its size; ..any: anywhere
#define ACCESS_ANY(name, type)               \
  INLINE type ld##name##any(const void *p) { \
    type x;                                  \
    memcpy(&x, p, sizeof x);                 \
    return x;                                \
  }                                          \
  INLINE void st##name##any(void *p, type x) { memcpy(p, &x, sizeof x); }
#if defined(__GNUC__)
#define ACCESS(name, type)                                                \
  typedef type __attribute__((may_alias)) name##alias;                    \
  INLINE type ld##name(const void *p) { return *(const name##alias *)p; } \
  INLINE void st##name(void *p, type x) { *(name##alias *)p = x; }        \
  ACCESS_ANY(name, type)
#else
#define ACCESS(name, type)                                         \
  ACCESS_ANY(name, type)                                           \
  INLINE type ld##name(const void *p) { return ld##name##any(p); } \
  INLINE void st##name(void *p, type x) { st##name##any(p, x); }
#endif
ACCESS(u8, uint8_t)
ACCESS(u16, uint16_t)
ACCESS(u32, uint32_t)
ACCESS(u64, uint64_t)
ACCESS(f32, float)
ACCESS(f64, double)
ACCESS(ptr, Ptr)
#if defined(__GNUC__)  // what it was; the new value is stored where that is `old`
INLINE uint32_t exchange(Ptr p, uint32_t old, uint32_t x) {
  __atomic_compare_exchange_n((u32alias *)(void *)p, &old, x, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return old;
}
#else  // C99 knows no threads
INLINE uint32_t exchange(Ptr p, uint32_t old, uint32_t x) {
  uint32_t was = ldu32(p);
  if (was == old) stu32(p, x);
  return was;
}
#endif

// ---- floats
INLINE uint32_t bitsoff32(float x) {
  uint32_t r;
  memcpy(&r, &x, sizeof r);
  return r;
}
INLINE uint64_t bitsoff64(double x) {
  uint64_t r;
  memcpy(&r, &x, sizeof r);
  return r;
}
INLINE float f32ofbits(uint32_t x) {
  float r;
  memcpy(&r, &x, sizeof r);
  return r;
}
INLINE double f64ofbits(uint64_t x) {
  double r;
  memcpy(&r, &x, sizeof r);
  return r;
}
// LLVM's classes: signalling and quiet NaN, -inf, -normal, -denormal, -0, 0, denormal, normal, inf
INLINE uint8_t isclass(int isnan, int isquiet, int isinf, int iszero, int isdenormal, int isnegative,
                       uint32_t classes) {
  int k = isinf ? 2 : iszero ? 5 : isdenormal ? 4 : 3;
  if (isnan) k = isquiet;
  else if (!isnegative) k = 11 - k;
  return classes >> k & 1;
}
#define FLOATS(name, type, bits, f, fraction, sign, inf)                                          \
  INLINE type abs##name(type x) { return name##ofbits(bitsof##name(x) & ~sign); }                 \
  INLINE type withsign##name(type x, type y) {                                                    \
    return name##ofbits((bitsof##name(x) & ~sign) | (bitsof##name(y) & sign));                    \
  }                                                                                               \
  INLINE type toeven##name(type x) {                                                              \
    type r = round##f(x);                                                                         \
    if (abs##name(x - trunc##f(x)) == (type)0.5) r = 2 * round##f(x / 2);                         \
    return withsign##name(r, x);                                                                  \
  }                                                                                               \
  INLINE type minimum##name(type a, type b) {                                                     \
    if (a != a || b != b) return a + b;                                                           \
    return a == b ? name##ofbits(bitsof##name(a) | bitsof##name(b)) : a < b ? a : b;              \
  }                                                                                               \
  INLINE type maximum##name(type a, type b) {                                                     \
    if (a != a || b != b) return a + b;                                                           \
    return a == b ? name##ofbits(bitsof##name(a) & bitsof##name(b)) : a > b ? a : b;              \
  }                                                                                               \
  INLINE uint8_t isclass##name(type x, uint32_t classes) {                                        \
    bits b = bitsof##name(x) & ~sign;                                                             \
    return isclass(b > inf, (int)(b >> (fraction - 1) & 1), b == inf, b == 0, b >> fraction == 0, \
                   (bitsof##name(x) & sign) != 0, classes);                                       \
  }
FLOATS(f32, float, uint32_t, f, 23, 0x80000000u, 0x7f800000u)
FLOATS(f64, double, uint64_t, , 52, 0x8000000000000000ull, 0x7ff0000000000000ull)

// ---- integers of so many bits
INLINE uint64_t smin(int64_t a, int64_t b, int bits) { return (void)bits, (uint64_t)(a < b ? a : b); }
INLINE uint64_t smax(int64_t a, int64_t b, int bits) { return (void)bits, (uint64_t)(a > b ? a : b); }
INLINE uint64_t umin(uint64_t a, uint64_t b, int bits) { return (void)bits, a < b ? a : b; }
INLINE uint64_t umax(uint64_t a, uint64_t b, int bits) { return (void)bits, a > b ? a : b; }
INLINE uint64_t iabs(int64_t a, int bits) { return (void)bits, a < 0 ? 0 - (uint64_t)a : (uint64_t)a; }
INLINE uint64_t ones(int bits) { return bits == 64 ? ~0ull : (1ull << bits) - 1; }
INLINE uint64_t uaddsat(uint64_t a, uint64_t b, int bits) { return a > ones(bits) - b ? ones(bits) : a + b; }
INLINE uint64_t usubsat(uint64_t a, uint64_t b, int bits) { return (void)bits, a < b ? 0 : a - b; }
INLINE uint64_t fshl(uint64_t a, uint64_t b, uint64_t by, int bits) {
  by %= (unsigned)bits;
  return by ? a << by | b >> ((unsigned)bits - by) : a;
}
INLINE uint64_t fshr(uint64_t a, uint64_t b, uint64_t by, int bits) {
  by %= (unsigned)bits;
  return by ? a << ((unsigned)bits - by) | b >> by : b;
}
INLINE uint64_t ctpop(uint64_t a, int bits) {
  uint64_t n = 0;
  for (int k = 0; k < bits; k++) n += a >> k & 1;
  return n;
}
INLINE uint64_t ctlz(uint64_t a, int bits) {
  int n = 0;
  while (n < bits && !(a >> (bits - 1 - n) & 1)) n++;
  return (uint64_t)n;
}
INLINE uint64_t cttz(uint64_t a, int bits) {
  int n = 0;
  while (n < bits && !(a >> n & 1)) n++;
  return (uint64_t)n;
}
// What does not fit is the nearest that does, NaN is 0.
INLINE uint64_t tosigned(double x, int bits) {
  double end = ldexp(1, bits - 1);
  if (x != x) return 0;
  if (x >= end) return ones(bits) >> 1;
  return x < -end ? 0 - (1ull << (bits - 1)) : (uint64_t)(int64_t)x;
}
INLINE uint64_t tounsigned(double x, int bits) {
  if (!(x > 0)) return 0;
  return x >= ldexp(1, bits) ? ones(bits) : (uint64_t)x;
}

// ---- integers of n words, the lowest first
INLINE void wideadd(uint64_t *r, const uint64_t *a, const uint64_t *b, int n) {
  uint64_t carry = 0;
  for (int k = 0; k < n; k++) {
    uint64_t sum = a[k] + carry;
    carry = sum < carry;
    r[k] = sum + b[k];
    carry += r[k] < sum;
  }
}
INLINE void widemul(uint64_t *r, const uint64_t *a, const uint64_t *b, int n) {
  for (int i = 0; i < 2 * n; i++) {  // halves of words
    uint64_t carry = 0, x = a[i / 2] >> i % 2 * 32 & 0xffffffffu;
    for (int j = 0; i + j < 2 * n; j++) {
      int k = i + j, shift = k % 2 * 32;
      uint64_t sum = x * (b[j / 2] >> j % 2 * 32 & 0xffffffffu) + (r[k / 2] >> shift & 0xffffffffu) + carry;
      r[k / 2] = (r[k / 2] & ~(0xffffffffull << shift)) | (sum & 0xffffffffu) << shift;
      carry = sum >> 32;
    }
  }
}
INLINE void wideshl(uint64_t *r, const uint64_t *a, uint64_t by, int n) {
  int words = (int)(by / 64), bits = (int)(by % 64);
  for (int k = words; k < n; k++)
    r[k] = a[k - words] << bits | (bits && k > words ? a[k - words - 1] >> (64 - bits) : 0);
}
INLINE void wideshr(uint64_t *r, const uint64_t *a, uint64_t by, int n) {
  int words = (int)(by / 64), bits = (int)(by % 64);
  for (int k = 0; k + words < n; k++)
    r[k] = a[k + words] >> bits | (bits && k + words + 1 < n ? a[k + words + 1] << (64 - bits) : 0);
}
