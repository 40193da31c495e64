// Counter-based random numbers (Philox4x32-10, Salmon et al. 2011): the same words for the same counter and key,
// whatever the order in which they are asked for.
#ifndef TN_RUNTIME_RNG_H
#define TN_RUNTIME_RNG_H

#include "runtime/api.h"

#include <stddef.h>
#include <stdint.h>

RT_API void rt_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
void rt_shuffle(size_t *order, size_t n, uint64_t seed);  // writes 0 .. n-1 in an order fixed by the seed

#endif
