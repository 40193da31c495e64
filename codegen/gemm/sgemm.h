// Matrix products by the system's BLAS, on the calling thread only: what kernels of the strategy blas call, RtPlan.sgemm of
// compiled programs. It is the compiler's: the library that runs bundles is linked with no BLAS.
#ifndef TN_CODEGEN_GEMM_SGEMM_H
#define TN_CODEGEN_GEMM_SGEMM_H

#include "runtime/abi.h"

// As TnSgemm; any size may be zero.
void cg_sgemm(int32_t ta, int32_t tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
              int64_t ldb, float beta, float *c, int64_t ldc);

#endif
