// Matrix products by the system's BLAS, on the calling thread only.
#ifndef TN_RUNTIME_EXEC_BLAS_H
#define TN_RUNTIME_EXEC_BLAS_H

#include <stdint.h>

// C[m,n] = op(A) op(B) + beta C, row-major; op transposes when its flag is 1. Any size may be zero. See
// TnServices.sgemm.
void rt_sgemm(int32_t ta, int32_t tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
              int64_t ldb, float beta, float *c, int64_t ldc);

#endif
