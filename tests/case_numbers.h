// Numbers that a C test and the script that asks PyTorch make alike: tests/goldens.py has the same functions.
#ifndef TN_TESTS_CASE_NUMBERS_H
#define TN_TESTS_CASE_NUMBERS_H

#include <stdint.h>

static inline uint32_t case_hash(uint32_t k, uint32_t seed) {
  uint32_t h = k * 2654435761u + (seed + 1) * 0x9E3779B9u;
  h = (h ^ (h >> 15)) * 0x85EBCA6Bu;
  h = (h ^ (h >> 13)) * 0xC2B2AE35u;
  return h ^ (h >> 16);
}

// 16 bits of element k of input number `seed`.
static inline uint32_t case_bits(uint32_t k, uint32_t seed) { return case_hash(k, seed) >> 16; }

// In [0, 1), of 24 bits.
static inline double case_unit(uint32_t k, uint32_t seed) { return (double)(case_hash(k, seed) >> 8) * 0x1p-24; }

// In [-2, 2)
static inline double case_normal(uint32_t k, uint32_t seed) { return ((double)case_bits(k, seed) - 32768) / 16384; }

#endif
