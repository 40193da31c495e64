// Half precision and bfloat16 as bits: from f32, rounded to nearest, of two the even one; back to f32, exactly. A NaN stays
// one; what is too large becomes infinite.
#ifndef TN_RUNTIME_HALF_H
#define TN_RUNTIME_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t rt_f32_bits(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

static inline float rt_f32_of_bits(uint32_t bits) {
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static inline uint16_t rt_bf16_of_f32(float v) {
  uint32_t bits = rt_f32_bits(v);
  if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);  // NaN stays one
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float rt_f32_of_bf16(uint16_t h) { return rt_f32_of_bits((uint32_t)h << 16); }

static inline uint16_t rt_f16_of_f32(float v) {
  const uint32_t overflow = 0x47800000, smallest_normal = 0x38800000, smallest = 0x33000000;  // 2^16, 2^-14, 2^-25
  uint32_t bits = rt_f32_bits(v), sign = bits >> 16 & 0x8000, a = bits & 0x7fffffff;
  if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  if (a >= overflow) return (uint16_t)(sign | 0x7c00);
  if (a >= smallest_normal) return (uint16_t)(sign + ((a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13));
  if (a <= smallest) return (uint16_t)sign;
  uint32_t shift = 126 - (a >> 23), m = (a & 0x7fffff) | 0x800000;  // the result is m >> shift, in units of 2^-24
  return (uint16_t)(sign | ((m + (UINT32_C(1) << (shift - 1)) - 1 + (m >> shift & 1)) >> shift));
}

static inline float rt_f32_of_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 0x1f, fraction = h & 0x3ff;
  if (exponent == 31) return rt_f32_of_bits(sign | 0x7f800000 | fraction << 13);
  if (exponent) return rt_f32_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
  return rt_f32_of_bits(sign | rt_f32_bits((float)fraction * 0x1p-24f));  // exact in f32
}

#endif
