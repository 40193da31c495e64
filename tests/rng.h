// Splitmix64: the same numbers for the same seed on every machine.
#ifndef TN_TESTS_RNG_H
#define TN_TESTS_RNG_H

#include <stdint.h>

typedef struct {
  uint64_t state;
} Rng;

static inline uint64_t rng_next(Rng *r) {
  uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}
// [0, n), n > 0
static inline uint32_t rng_below(Rng *r, uint32_t n) { return (uint32_t)((rng_next(r) >> 32) * n >> 32); }
static inline double rng_unit(Rng *r) { return (double)(rng_next(r) >> 11) * 0x1p-53; }  // [0, 1)

#endif
