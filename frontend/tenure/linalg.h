// Tenure, linear algebra: products of matrices, vectors and batches of them; of f32, or of whole numbers of one dtype, modulo 2^bits.
#ifndef TN_LINALG_H
#define TN_LINALG_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

// [.., M, K] x [.., K, N] -> [.., M, N]; axes before the last two broadcast. A vector [K] is a row on the left and a column
// on the right, whose axis the result has not. Here and below shapes that do not fit are E004, and operands of two dtypes or of bool E005:
// f32, i64, i32 and u8 are multiplied, each with its own kind.
TN_API tn_tensor tn_matmul(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_mm(tn_tensor a, tn_tensor b, tn_site at);     // [M, K] x [K, N]
TN_API tn_tensor tn_bmm(tn_tensor a, tn_tensor b, tn_site at);    // [B, M, K] x [B, K, N]
TN_API tn_tensor tn_mv(tn_tensor a, tn_tensor v, tn_site at);     // [M, K] x [K] -> [M]
TN_API tn_tensor tn_dot(tn_tensor a, tn_tensor b, tn_site at);    // [K] x [K] -> []
TN_API tn_tensor tn_outer(tn_tensor a, tn_tensor b, tn_site at);  // [M] x [N] -> [M, N]
// beta c + alpha (a b); c broadcasts to the product's shape, and is not read where beta is 0. Of whole numbers c has the product's
// dtype, and fractions of beta and alpha are cut off; what the dtype does not hold is E003
TN_API tn_tensor tn_addmm(tn_tensor c, tn_tensor a, tn_tensor b, double beta, double alpha, tn_site at);    // tn_mm
TN_API tn_tensor tn_baddbmm(tn_tensor c, tn_tensor a, tn_tensor b, double beta, double alpha, tn_site at);  // tn_bmm
TN_API tn_tensor tn_addmv(tn_tensor c, tn_tensor a, tn_tensor v, double beta, double alpha, tn_site at);    // tn_mv
// a x b of vectors along an axis of size 3: a and b have one number of axes, and the others broadcast (else E004)
TN_API tn_tensor tn_cross(tn_tensor a, tn_tensor b, int axis, tn_site at);
// Each element of a times the whole of b: [n, m] and [k, l] give [n k, m l]; the axes of the one with fewer are its last. At most 4
// axes (else E004); whole numbers, too
TN_API tn_tensor tn_kron(tn_tensor a, tn_tensor b, tn_site at);
// Sums of products over axes_a[k] of a and axes_b[k] of b, n pairs of one size: tn_tensordot(a, b, (int[]){1, 2}, TN_INTS(0, 1)).
// The axes that are left are a's, then b's
TN_API tn_tensor tn_tensordot(tn_tensor a, tn_tensor b, const int *axes_a, const int *axes_b, uint32_t n, tn_site at);
// The norm of order p >= 0 of the difference of every two rows: [.., n, width] and [.., m, width] -> [.., n, m]; batches broadcast.
// Differences are taken one by one, so that what is near has no rounding error of a product. Rows that are equal have gradient 0.
// Of p = 2 and more than 25 rows the gradient is made of products: its error is that of sums of the rows less their mean
TN_API tn_tensor tn_cdist(tn_tensor a, tn_tensor b, double p, tn_site at);
// Sums of products by labels of axes, a letter each, as PyTorch's: a label that the result has not is summed over.
//
//   tn_einsum("bij,bjk->bik", TN_TENSORS(a, b))       a batch of products
//   tn_einsum("...ii->...i", TN_TENSORS(a))           diagonals; `...`: the axes that have no letter, which broadcast
//   tn_einsum("ij,j,k", TN_TENSORS(a, b, c))          no arrow: labels that occur once, in their order (i, k)
//
// Several operands are multiplied two by two in the order that costs least. An equation that does not fit is E003 or E004
// and names its part.
TN_API tn_tensor tn_einsum(const char *equation, const tn_tensor *a, uint32_t n, tn_site at);

// ---- triangular systems, as torch.linalg.solve_triangular and torch.linalg.cholesky; axes before the last two are batches.
// Matrices that are not square, or right-hand sides of another size, are E004; other dtypes than f32 are E005.
//
//   tn_tensor l = tn_cholesky(a, false);                        // a [N, N], positive definite
//   tn_tensor y = tn_solve_triangular(l, b);                    // L y = b
//   tn_tensor x = tn_solve_triangular(l, y, .transposed = true);   // L^T x = y: x solves a x = b
typedef struct {
  bool upper;          // the upper triangle of a is read; else the lower one. The other is not
  bool right;          // X op(a) = b, b [.., K, N], as with left=False
  bool unitriangular;  // the diagonal counts as 1 and is not read
  bool transposed;     // op(a) is a's transpose, of the triangle that `upper` says; else a
  tn_site at;
} tn_solve_options;
// op(a) X = b: a [.., N, N], b [.., N, K] -> [.., N, K]; batches broadcast. Nothing is checked: a 0 on the diagonal gives
// infinities or NaN, as there. Gradients flow to the triangle that is read, and to b.
TN_API tn_tensor tn_solve_triangular(tn_tensor a, tn_tensor b, tn_solve_options o);
// a [.., N, N] -> L, lower triangular, a = L L^T; upper: U, a = U^T U. Only that triangle of a is read; the other one of the
// result is 0. Where a matrix is not positive definite the columns of L (rows of U) from there on are NaN, and those before are
// right: no error of the run, unlike PyTorch's; TN_CHECK=nan names the call. The gradient is symmetric, as PyTorch's.
TN_API tn_tensor tn_cholesky(tn_tensor a, bool upper, tn_site at);

// ---- systems by row operations with pivots: of a [.., N, N], f32 (else E005), matrices that are not square are E004. Made for many
// small matrices: each is one worker's. The calls are torch.linalg's, but for a singular matrix, which is no error: what
// would be divided by 0 is infinite or NaN, and TN_CHECK=nan names the call.
//
//   tn_tensor x = tn_solve(a, b);                // a x = b
//   tn_tensor z = tn_solve(tn_matmul(u, v), w);
//
// a X = b: b [.., N, K], or vectors: [N], or one for each matrix, [.., N] with a's batch. Batches broadcast, else E004
TN_API tn_tensor tn_solve(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_inv(tn_tensor a, tn_site at);  // tn_solve of b is faster and more exact than a product with it
// [..]; of a singular matrix 0, whose gradient is that of the polynomial where one pivot alone is 0 (PyTorch's is 0),
// and 0 where several are
TN_API tn_tensor tn_det(tn_tensor a, tn_site at);
// The determinant is sign e^logabsdet, [..] both; of a singular matrix 0 and -infinity. The sign has no gradient
typedef struct {
  tn_tensor sign, logabsdet;
} tn_slogdet_value;
TN_API tn_slogdet_value tn_slogdet(tn_tensor a, tn_site at);

// ---- factors of small matrices, each one worker's, f32 (else E005), by calls of torch.linalg's names; axes before the last two are
// batches, which the run may size. Rows and columns are constant, or one size of the run (else E004).
//
//   tn_qr_value f = tn_qr(a);                                       // a [.., M, N] = q r
//   tn_tensor x = tn_solve_triangular(f.r, tn_matmul(tn_transpose(f.q, 0, 1), b), .upper = true);   // least squares, M >= N
//
// K is the smaller of M and N: q [.., M, K] has orthonormal columns, r [.., K, N] is upper triangular, with the signs on its diagonal
// that LAPACK gives it. Gradients as PyTorch's; of a matrix whose first K columns depend on one another there is none: infinite or NaN
typedef struct {
  tn_tensor q, r;
} tn_qr_value;
TN_API tn_qr_value tn_qr(tn_tensor a, tn_site at);
// a [.., N, N], symmetric (of another the lower triangle is read, and the upper one taken to be the same): eigenvalues in rising order
// [.., N], and vectors, the columns of [.., N, N], which are orthonormal: a = vectors diag(values) vectors^T
typedef struct {
  tn_tensor values, vectors;
} tn_eigh_value;
TN_API tn_eigh_value tn_eigh(tn_tensor a, tn_site at);
// a [.., M, N] = u diag(s) vh: u [.., M, K] has orthonormal columns and vh [.., K, N] orthonormal rows, also where singular values are 0;
// s [.., K] falls and is 0 or more
typedef struct {
  tn_tensor u, s, vh;
} tn_svd_value;
TN_API tn_svd_value tn_svd(tn_tensor a, tn_site at);
// Of both calls, vectors are known but for their sign, which is not PyTorch's: a loss that depends on it has no meaning. Vectors of
// values that are equal are any basis of their space: gradients through vectors are infinite or NaN there, and through those of tn_svd
// where M is not N also at a value of 0. Gradients through values alone are always right. A matrix with NaN or an infinity has NaN

// ---- Fourier transforms of real numbers, torch.fft.rfft, irfft and torch.stft: f32 (else E005), a complex number is two along a last
// axis of size 2, its real and its imaginary part (torch.view_as_real). 1 to 2048 points (else E003), any number of
// them; small factors are fastest.
//
//   tn_tensor bins = tn_stft(x, 400, .hop = 160, .window = w);       // x [B, T], w [400] -> [B, 201, T / 160 + 1, 2]
//   tn_tensor power = tn_sum_axis(tn_square(bins), -1, false);
TN_API tn_tensor tn_rfft(tn_tensor x, tn_site at);  // [.., n] of constant size (else E004) -> [.., n / 2 + 1, 2]
TN_API tn_tensor tn_irfft(tn_tensor x, int64_t n, tn_site at);  // [.., n / 2 + 1, 2] (else E004) -> [.., n], by n
typedef struct {
  int64_t hop;        // from one window to the next; 0: n / 4
  tn_tensor window;   // [n] (else E004), times each window's elements; empty: 1
  bool not_centered;  // the first window begins at element 0; else its middle lies there, and x goes on as in a mirror
  tn_site at;
} tn_stft_options;
TN_API tn_tensor tn_stft(tn_tensor x, int64_t n, tn_stft_options o);  // [T] or [B, T] -> [B, n / 2 + 1, windows, 2]

#ifdef __cplusplus
}
#endif

#endif
