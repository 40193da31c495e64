// How fast this machine is right now: virtual CPUs drift, a figure without this beside it says little.
#include "bench/bench.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>

enum { CHAINS = 16, ROUNDS = 1000000 };

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

static void *run_chains(void *unused) {
  (void)unused;
  volatile float sink = __builtin_cpu_supports("avx512f") ? chains_512() : chains_256();
  (void)sink;
  return NULL;
}

static double flops_of_chains(void) {
  if (__builtin_cpu_supports("avx512f")) return 2.0 * CHAINS * ROUNDS * 16;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 2.0 * CHAINS * ROUNDS * 8 : 0;
}
#else
static void *run_chains(void *unused) { return unused; }
static double flops_of_chains(void) { return 0; }
#endif

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Seconds for `work` on n threads together; arg + k * size is thread k's.
static double time_together(uint32_t n, void *(*work)(void *), char *arg, size_t size) {
  pthread_t thread[64];
  bool made[64] = {0};
  double start = seconds();
  for (uint32_t k = 1; k < n && k < 64; k++) made[k] = !pthread_create(&thread[k], NULL, work, arg + k * size);
  work(arg);
  for (uint32_t k = 1; k < n && k < 64; k++) {
    if (made[k]) pthread_join(thread[k], NULL);
    else work(arg + k * size);
  }
  return seconds() - start;
}

double bench_peak_gflops(uint32_t n_threads) {
  double best = 0, flops = flops_of_chains() * n_threads;
  char none = 0;
  for (int k = 0; flops > 0 && k < 3; k++) {
    double rate = flops / time_together(n_threads, run_chains, &none, 0) * 1e-9;
    if (rate > best) best = rate;
  }
  return best;
}

// ---- memory
enum { STREAM = 16 << 20 };  // floats of each array, for all threads together: far beyond caches
typedef struct {
  const float *x;
  float *y;
  size_t n;
} Stream;

static void *run_stream(void *arg) {
  const Stream *s = arg;
  for (size_t k = 0; k < s->n; k++) s->y[k] = 0.5f * s->y[k] + s->x[k];
  return NULL;
}

double bench_bandwidth(uint32_t n_threads) {
  static float *x, *y;
  if (!x) {
    x = malloc(sizeof *x * STREAM);
    y = malloc(sizeof *y * STREAM);
    if (!x || !y) return 0;
    memset(x, 0, sizeof *x * STREAM);
    memset(y, 0, sizeof *y * STREAM);
  }
  Stream part[64];
  uint32_t n = n_threads < 64 ? n_threads : 64;
  for (uint32_t k = 0; k < n; k++) {
    size_t lo = (size_t)STREAM * k / n, hi = (size_t)STREAM * (k + 1) / n;
    part[k] = (Stream){x + lo, y + lo, hi - lo};
  }
  double best = 0;
  for (int k = 0; k < 3; k++) {
    double rate = 3.0 * sizeof(float) * STREAM / time_together(n, run_stream, (char *)part, sizeof *part) * 1e-9;
    if (rate > best) best = rate;
  }
  return best;
}
