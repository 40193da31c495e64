// Tenure, linear algebra: products of matrices, vectors and batches of them; f32.
#ifndef TN_LINALG_H
#define TN_LINALG_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

// [.., M, K] x [.., K, N] -> [.., M, N]; axes before the last two broadcast. A vector [K] is a row on the left and a column
// on the right, whose axis the result has not. Shapes that do not fit are E004, here and below.
TN_API tn_tensor tn_matmul(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_mm(tn_tensor a, tn_tensor b, tn_site at);     // [M, K] x [K, N]
TN_API tn_tensor tn_bmm(tn_tensor a, tn_tensor b, tn_site at);    // [B, M, K] x [B, K, N]
TN_API tn_tensor tn_mv(tn_tensor a, tn_tensor v, tn_site at);     // [M, K] x [K] -> [M]
TN_API tn_tensor tn_dot(tn_tensor a, tn_tensor b, tn_site at);    // [K] x [K] -> []
TN_API tn_tensor tn_outer(tn_tensor a, tn_tensor b, tn_site at);  // [M] x [N] -> [M, N]
// beta c + alpha (a b); c broadcasts to the product's shape, and is not read where beta is 0
TN_API tn_tensor tn_addmm(tn_tensor c, tn_tensor a, tn_tensor b, double beta, double alpha, tn_site at);    // tn_mm
TN_API tn_tensor tn_baddbmm(tn_tensor c, tn_tensor a, tn_tensor b, double beta, double alpha, tn_site at);  // tn_bmm
TN_API tn_tensor tn_addmv(tn_tensor c, tn_tensor a, tn_tensor v, double beta, double alpha, tn_site at);    // tn_mv
// Sums of products by labels of axes, a letter each, as PyTorch's: a label that the result has not is summed over.
//
//   tn_einsum("bij,bjk->bik", TN_TENSORS(a, b))       a batch of products
//   tn_einsum("...ii->...i", TN_TENSORS(a))           diagonals; `...`: the axes that have no letter, which broadcast
//   tn_einsum("ij,j,k", TN_TENSORS(a, b, c))          no arrow: labels that occur once, in their order (i, k)
//
// Several operands are multiplied two by two in the order that costs least. An equation that does not fit is E003 or E004
// and names its part.
TN_API tn_tensor tn_einsum(const char *equation, const tn_tensor *a, uint32_t n, tn_site at);

#ifdef __cplusplus
}
#endif

#endif
