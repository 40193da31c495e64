// How fast this machine is right now: virtual CPUs drift, a figure without this beside it says little.
#include "bench/bench.h"

#include "runtime/clock.h"
#include "runtime/exec/plan.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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

// Seconds for `work` on n threads together; arg + k * size is thread k's.
static double time_together(uint32_t n, void *(*work)(void *), char *arg, size_t size) {
  pthread_t thread[64];
  bool made[64] = {0};
  double start = rt_now_s();
  for (uint32_t k = 1; k < n && k < 64; k++) made[k] = !pthread_create(&thread[k], NULL, work, arg + k * size);
  work(arg);
  for (uint32_t k = 1; k < n && k < 64; k++) {
    if (made[k]) pthread_join(thread[k], NULL);
    else work(arg + k * size);
  }
  return rt_now_s() - start;
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
enum { STREAM = 16 << 20, MAX_THREADS = 64 };  // floats of each array, for all threads together: far beyond caches
typedef struct {
  const float *x;
  float *y, *z, *w;  // z, w: for updates
  size_t n;
} Stream;

static void plain_scale(const Stream *s) {
  for (size_t k = 0; k < s->n; k++) s->y[k] = 0.5f * s->y[k] + s->x[k];
}

// Reads four streams and writes three of them, with next to no arithmetic.
static void plain_update(const Stream *s) {
  for (size_t k = 0; k < s->n; k++) {
    float g = s->x[k], m = 0.5f * s->z[k] + g, v = 0.5f * s->w[k] + g * g;
    s->z[k] = m, s->w[k] = v, s->y[k] -= m * v;
  }
}

enum { READ_CHAINS = 8 };
static volatile float read_sum;

// Reads one array after the other.
static void plain_read(const Stream *s) {
  const float *const array[] = {s->x, s->y, s->z, s->w};
  float sum[READ_CHAINS] = {0};
  for (int a = 0; a < 4; a++)
    for (size_t k = 0; k + READ_CHAINS <= s->n; k += READ_CHAINS)
      for (int i = 0; i < READ_CHAINS; i++) sum[i] += array[a][k + (size_t)i];
  read_sum = sum[0];
}

#if defined(__x86_64__)
#define STREAMS(isa, lanes, T, P)                                                               \
  __attribute__((target(isa))) static void scale_##lanes(const Stream *s) {                     \
    T a = P##_set1_ps(0.5f);                                                                    \
    for (size_t k = 0; k + lanes <= s->n; k += lanes)                                           \
      P##_storeu_ps(s->y + k, P##_fmadd_ps(a, P##_loadu_ps(s->y + k), P##_loadu_ps(s->x + k))); \
  }                                                                                             \
  __attribute__((target(isa))) static void update_##lanes(const Stream *s) {                    \
    T a = P##_set1_ps(0.5f);                                                                    \
    for (size_t k = 0; k + lanes <= s->n; k += lanes) {                                         \
      T g = P##_loadu_ps(s->x + k), m = P##_fmadd_ps(a, P##_loadu_ps(s->z + k), g);             \
      T v = P##_fmadd_ps(a, P##_loadu_ps(s->w + k), P##_mul_ps(g, g));                          \
      P##_storeu_ps(s->z + k, m);                                                               \
      P##_storeu_ps(s->w + k, v);                                                               \
      P##_storeu_ps(s->y + k, P##_sub_ps(P##_loadu_ps(s->y + k), P##_mul_ps(m, v)));            \
    }                                                                                           \
  }

// Reads one array after the other; PREFETCH(at): beside the load of a vector at `at`.
#define READ(name, isa, lanes, T, P, PREFETCH)                                      \
  __attribute__((target(isa))) static void name(const Stream *s) {                  \
    const float *const array[] = {s->x, s->y, s->z, s->w};                          \
    T sum[READ_CHAINS];                                                             \
    for (int i = 0; i < READ_CHAINS; i++) sum[i] = P##_setzero_ps();                \
    for (int a = 0; a < 4; a++)                                                     \
      for (size_t k = 0; k + READ_CHAINS * lanes <= s->n; k += READ_CHAINS * lanes) \
        _Pragma("GCC unroll 8") for (int i = 0; i < READ_CHAINS; i++) {             \
          const float *at = array[a] + k + i * lanes;                               \
          PREFETCH(at);                                                             \
          sum[i] = P##_add_ps(sum[i], P##_loadu_ps(at));                            \
        }                                                                           \
    for (int i = 1; i < READ_CHAINS; i++) sum[0] = P##_add_ps(sum[0], sum[i]);      \
    read_sum = sum[0][0];                                                           \
  }
#define NO_PREFETCH(at) (void)(at)
#define PREFETCH_L2(at) __builtin_prefetch((const char *)(at) + 4096, 0, 2)
STREAMS("avx512f", 16, __m512, _mm512)
STREAMS("avx2,fma", 8, __m256, _mm256)
READ(read_16, "avx512f", 16, __m512, _mm512, NO_PREFETCH)
READ(read_8, "avx2,fma", 8, __m256, _mm256, NO_PREFETCH)
READ(read_ahead_16, "avx512f", 16, __m512, _mm512, PREFETCH_L2)
READ(read_ahead_8, "avx2,fma", 8, __m256, _mm256, PREFETCH_L2)

static int vector_width(void) {
  if (__builtin_cpu_supports("avx512f")) return 16;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 8 : 1;
}
#else
static int vector_width(void) { return 1; }
#define scale_16 plain_scale
#define scale_8 plain_scale
#define update_16 plain_update
#define update_8 plain_update
#define read_16 plain_read
#define read_8 plain_read
#define read_ahead_16 plain_read
#define read_ahead_8 plain_read
#endif

static void *run_scale(void *s) {
  (vector_width() == 16 ? scale_16 : vector_width() == 8 ? scale_8 : plain_scale)(s);
  return NULL;
}

static void *run_update(void *s) {
  (vector_width() == 16 ? update_16 : vector_width() == 8 ? update_8 : plain_update)(s);
  return NULL;
}

static void *run_read(void *s) {
  (vector_width() == 16 ? read_16 : vector_width() == 8 ? read_8 : plain_read)(s);
  return NULL;
}

static void *run_read_ahead(void *s) {
  (vector_width() == 16 ? read_ahead_16 : vector_width() == 8 ? read_ahead_8 : plain_read)(s);
  return NULL;
}

static void *touch(void *arg) {
  const Stream *s = arg;
  memset((float *)(uintptr_t)s->x, 0, sizeof(float) * s->n);
  memset(s->y, 0, sizeof(float) * s->n);
  memset(s->z, 0, sizeof(float) * s->n);
  memset(s->w, 0, sizeof(float) * s->n);
  return NULL;
}

// The arrays lie as parameters do, in huge pages where the system has them; each thread touches its part first. NULL: no memory.
static Stream *parts_of(uint32_t n) {
  static float *x;
  static Stream part[MAX_THREADS];
  if (x) return part;
  x = rt_block_new((int64_t)sizeof *x * 4 * STREAM);
  if (!x) return NULL;
  for (uint32_t k = 0; k < n; k++) {
    size_t lo = (size_t)STREAM * k / n, hi = (size_t)STREAM * (k + 1) / n;
    part[k] = (Stream){x + lo, x + STREAM + lo, x + 2 * (size_t)STREAM + lo, x + 3 * (size_t)STREAM + lo, hi - lo};
  }
  time_together(n, touch, (char *)part, sizeof *part);
  return part;
}

static uint32_t at_most(uint32_t n_threads) { return n_threads < MAX_THREADS ? n_threads : MAX_THREADS; }

// Bytes in a second, the best of 5 rounds, in GB.
static double best_rate(uint32_t n, void *(*work)(void *), void *arg, size_t size, double bytes) {
  double best = 0;
  for (int k = 0; k < 5; k++) {
    double rate = bytes / time_together(n, work, arg, size) * 1e-9;
    if (rate > best) best = rate;
  }
  return best;
}

static double stream(uint32_t n_threads, void *(*run)(void *), double n_streams) {
  uint32_t n = at_most(n_threads);
  Stream *part = parts_of(n);
  return part ? best_rate(n, run, part, sizeof *part, n_streams * sizeof(float) * STREAM) : 0;
}

// Arrays of as many bytes together as `bytes`, read again and again.
typedef struct {
  Stream part;
  void *(*run)(void *);
  long times;
} Sized;

static void *run_again(void *of) {
  Sized *c = of;
  for (long k = 0; k < c->times; k++) c->run(&c->part);
  return NULL;
}

static double sized_rate(uint32_t n_threads, void *(*run)(void *), double n_arrays, double n_streams, double bytes) {
  enum { LEAST = 1 << 12, LONG = 16 << 20 };  // bytes of a thread, and of a round
  enum { APART = 592 };                       // floats by which arrays begin in other sets of a cache
  static Sized worker[MAX_THREADS];
  uint32_t n = at_most(n_threads);
  const Stream *part = parts_of(n);
  if (!part) return 0;
  double each = bytes / n > LEAST ? bytes / n : LEAST;
  size_t size = (size_t)(each / n_arrays / sizeof(float)), most = (size_t)STREAM / n - 3 * APART;
  for (uint32_t k = 0; k < n; k++) {
    Stream p = part[k];
    p = (Stream){p.x, p.y + APART, p.z + 2 * APART, p.w + 3 * APART, size < most ? size : most};
    worker[k] = (Sized){p, run, (long)(LONG / each) + 1};
  }
  double once = n_streams * sizeof(float) * (double)worker[0].part.n * n;
  return best_rate(n, run_again, worker, sizeof *worker, once * (double)worker[0].times);
}

double bench_sized_gbs(uint32_t n_threads, double bytes) {
  double scaled = sized_rate(n_threads, run_scale, 2, 3, bytes), read = sized_rate(n_threads, run_read, 4, 4, bytes);
  return scaled > read ? scaled : read;
}

static double scale_rate(uint32_t n_threads) { return stream(n_threads, run_scale, 3); }
static double update_rate(uint32_t n_threads) { return stream(n_threads, run_update, 7); }

// With and without prefetches: CPUs differ in which is faster (docs/experiments/063).
static double read_rate(uint32_t n_threads) {
  double alone = stream(n_threads, run_read, 4), ahead = stream(n_threads, run_read_ahead, 4);
  return alone > ahead ? alone : ahead;
}

const Bandwidth bench_scaling = {"", scale_rate};
const Bandwidth bench_updating = {" of updates: 4 streams read, 3 of them written", update_rate};
const Bandwidth bench_reading = {" of reading alone", read_rate};
