// Kernels of class GEMM: products of matrices and convolutions. This room plans them, takes a strategy of room gemm or conv,
// and emits the kernel around the strategy's code.
//
//   plan.c           operands and sizes of a product, its modifiers, its strategy; scratch. Read this first
//   strategies.def   the strategies in order of preference
//   kernel.c         what a kernel reads and writes, then the strategy's code
//   reason.c         the plan in words
#ifndef TN_CODEGEN_PRODUCT_PRODUCT_H
#define TN_CODEGEN_PRODUCT_PRODUCT_H

#include "codegen/gemm/gemm.h"

// ---- plan.c
GemmPlan cg_gemm_plan(const Fn *f, Val v, const Target *t);
// Scratch, in elements, in this order.
int64_t cg_gemm_packed_b(const GemmPlan *p, const Target *t);    // B_SHARED, or PROLOGUE_B
int64_t cg_gemm_packed_a(const GemmPlan *p, const Target *t);    // A_SHARED, or PROLOGUE_A_SHARED
int64_t cg_gemm_sums(const GemmPlan *p);                         // of slices, or that only the epilogue reads
int64_t cg_gemm_plan_bytes(const GemmPlan *p, const Target *t);  // bytes of all
int64_t cg_gemm_scratch_bytes(const Fn *f, Val v, const Target *t);
int64_t cg_moments_scratch_bytes(const Fn *f, Val v, const Target *t);
// Is a packed copy of a weight B[k][n] worth its memory, for products with at most m rows? tb: it is stored [n, k].
bool cg_gemm_packs(int64_t m, int64_t n, int64_t k, bool tb, const Target *t);
WeightPack cg_weight_of(const GemmPlan *p, const Target *t);  // of a plan with B_PREPACKED; not placed

// ---- reason.c: how kernel k is computed, and why; nothing of kernels without a product
void cg_gemm_reason(const Fn *f, const Kernel *k, const Target *t, RtText *out);

#endif
