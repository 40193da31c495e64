// Numbers that a C test and the script that asks PyTorch make alike: tests/make_op_cases.py has the same function.
#ifndef TN_TESTS_CASE_NUMBERS_H
#define TN_TESTS_CASE_NUMBERS_H

#include <stdint.h>

// 16 bits of element k of input number `seed`.
static inline uint32_t case_bits(uint32_t k, uint32_t seed) {
  uint32_t h = k * 2654435761u + (seed + 1) * 0x9E3779B9u;
  h = (h ^ (h >> 15)) * 0x85EBCA6Bu;
  h = (h ^ (h >> 13)) * 0xC2B2AE35u;
  return (h ^ (h >> 16)) >> 16;
}

// In [-2, 2)
static inline double case_normal(uint32_t k, uint32_t seed) { return ((double)case_bits(k, seed) - 32768) / 16384; }

#endif
