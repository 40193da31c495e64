#include "runtime/rng.h"

void rt_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

// Even over [0, n): the high half of bits * n, drawn again for the few values that would tilt it (Lemire 2019).
static uint64_t draw_below(uint64_t n, uint64_t step, uint64_t seed) {
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  for (uint32_t attempt = 0;; attempt++) {
    const uint32_t counter[4] = {(uint32_t)step, (uint32_t)(step >> 32), attempt, 0x73687566u};
    uint32_t r[4];
    rt_philox(counter, key, r);
    unsigned __int128 product = (unsigned __int128)((uint64_t)r[1] << 32 | r[0]) * n;
    if ((uint64_t)product >= (0 - n) % n) return (uint64_t)(product >> 64);
  }
}

void rt_shuffle(size_t *order, size_t n, uint64_t seed) {
  for (size_t i = 0; i < n; i++) order[i] = i;
  for (size_t i = n; i > 1; i--) {
    size_t j = (size_t)draw_below(i, i, seed), kept = order[i - 1];
    order[i - 1] = order[j];
    order[j] = kept;
  }
}
