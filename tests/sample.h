// Samples of long sweeps. A test by itself, and tools/check --all, run every case; tools/check sets $TENURE_SAMPLE to a number that it
// makes of the committed tree, which draws one of `every` neighbours: another tree draws others, and what failed fails again on the
// same tree. Neighbours are of a class: each class keeps a case.
#ifndef TN_TESTS_SAMPLE_H
#define TN_TESTS_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static inline bool is_sample(void) { return getenv("TENURE_SAMPLE") && *getenv("TENURE_SAMPLE"); }

// Whether case k is the one of its group of neighbours, which is drawn anew for each group, lest it be always the same one of a
// table's pattern. The sum is mixed once more: without that there are but `every` different samples, in which the draws of two groups
// hang together.
static inline bool is_drawn(uint64_t k, uint32_t every) {
  uint64_t group = k / every + 1, number = is_sample() ? strtoull(getenv("TENURE_SAMPLE"), NULL, 10) : 0;
  uint64_t x = group * UINT64_C(0x9E3779B97F4A7C15) ^ number * UINT64_C(0xD1B54A32D192ED03);
  x = (x ^ x >> 32) * UINT64_C(0xBF58476D1CE4E5B9);
  return k % every == (x >> 33) % every;
}

static inline bool is_sampled(uint64_t k, uint32_t every) { return !is_sample() || is_drawn(k, every); }

#endif
