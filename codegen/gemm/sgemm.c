// The BLAS backend; no other file calls BLAS. OpenBLAS is set to one thread: its pool and our team would oversubscribe
// the CPUs. Its builds without threads share an unlocked work buffer among callers: there, calls are serialised.
#include "codegen/gemm/sgemm.h"

#include <cblas.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

extern void openblas_set_num_threads(int n) __attribute__((weak));
extern int openblas_get_parallel(void) __attribute__((weak));  // 0: built without threads

static bool one_at_a_time = true;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void use_one_thread(void) {
  if (openblas_set_num_threads) openblas_set_num_threads(1);
  if (openblas_get_parallel) one_at_a_time = openblas_get_parallel() == 0;
}

// C = beta C; beta 0 clears, NaN included.
static void scale(int64_t m, int64_t n, float beta, float *c, int64_t ldc) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];
}

// For sizes beyond the library's 32-bit integers.
static void multiply_plainly(int32_t ta, int32_t tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                             const float *b, int64_t ldb, float *c, int64_t ldc) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t l = 0; l < k; l++) {
      float x = ta ? a[l * lda + i] : a[i * lda + l];
      for (int64_t j = 0; j < n; j++) c[i * ldc + j] += x * (tb ? b[j * ldb + l] : b[l * ldb + j]);
    }
}

static int64_t largest(int64_t a, int64_t b) { return a > b ? a : b; }

void cg_sgemm(int32_t ta, int32_t tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
              int64_t ldb, float beta, float *c, int64_t ldc) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, use_one_thread);
  if (m <= 0 || n <= 0) return;
  bool fits = largest(largest(m, n), k) <= INT_MAX && largest(largest(lda, ldb), ldc) <= INT_MAX;
  if (k <= 0 || !fits) {
    scale(m, n, beta, c, ldc);
    if (k > 0) multiply_plainly(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
    return;
  }
  if (one_at_a_time) pthread_mutex_lock(&turn);
  cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, 1,
              a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
  if (one_at_a_time) pthread_mutex_unlock(&turn);
}
