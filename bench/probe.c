// How fast this core is right now: virtual CPUs drift, a figure without this beside it says little.
#include "bench/bench.h"
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>

enum { CHAINS = 16, ROUNDS = 200000 };

__attribute__((target("avx512f"))) static float chains_512(void) {
  __m512 a[CHAINS], x = _mm512_set1_ps(0.999f), sum = _mm512_setzero_ps();
  for (int k = 0; k < CHAINS; k++) a[k] = _mm512_set1_ps((float)k);
  for (int r = 0; r < ROUNDS; r++) {
#pragma GCC unroll 16
    for (int k = 0; k < CHAINS; k++) a[k] = _mm512_fmadd_ps(a[k], x, x);
  }
  for (int k = 0; k < CHAINS; k++) sum = _mm512_add_ps(sum, a[k]);
  return _mm512_reduce_add_ps(sum);
}

__attribute__((target("avx2,fma"))) static float chains_256(void) {
  __m256 a[CHAINS / 2], x = _mm256_set1_ps(0.999f), sum = _mm256_setzero_ps();
  for (int k = 0; k < CHAINS / 2; k++) a[k] = _mm256_set1_ps((float)k);
  for (int r = 0; r < 2 * ROUNDS; r++) {
#pragma GCC unroll 8
    for (int k = 0; k < CHAINS / 2; k++) a[k] = _mm256_fmadd_ps(a[k], x, x);
  }
  for (int k = 0; k < CHAINS / 2; k++) sum = _mm256_add_ps(sum, a[k]);
  return _mm256_cvtss_f32(sum);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_peak_gflops(void) {
  bool wide = __builtin_cpu_supports("avx512f");
  if (!wide && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return 0;
  volatile float sink;
  double best = 0, flops = 2.0 * CHAINS * ROUNDS * (wide ? 16 : 8);
  for (int k = 0; k < 8; k++) {
    double start = seconds();
    sink = wide ? chains_512() : chains_256();
    double rate = flops / (seconds() - start) * 1e-9;
    if (rate > best) best = rate;
  }
  (void)sink;
  return best;
}
#else
double bench_peak_gflops(void) { return 0; }
#endif
