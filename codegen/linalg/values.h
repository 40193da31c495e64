// Eigenvalues and singular values of which no vectors are read.
//
//   a  ->  rows in scratch, scaled: no norm is above 1    spread.c
//      ->  tridiagonal, or bidiagonal, by reflections      tridiagonal.c, bidiagonal.c
//      ->  every value by halving, a lane each             bisect.c
//
// Scratch of a matrix, in rows of `ld` floats, which are whole vectors: the matrix, zeros behind its rows, then ROWS_BEHIND.
// Whole vectors are computed everywhere. Where a vector has lanes in front of what is left of the matrix, reflections
// are 0 there: what is done with such lanes changes nothing that is read.
#ifndef TN_CODEGEN_LINALG_VALUES_H
#define TN_CODEGEN_LINALG_VALUES_H

#include "codegen/linalg/linalg.h"

enum { ROWS_BEHIND = 7, MOST_VECTORS = 4 };
typedef struct {
  V at, n_rows, n, ld;
} CgSpread;
static inline V cg_spread_row(Cg *c, const CgSpread *m, V i) { return f32_at(c, m->at, cg_mul(c, i, m->ld)); }
static inline V cg_spread_behind(Cg *c, const CgSpread *m, uint32_t k) {
  return cg_spread_row(c, m, cg_add(c, m->n_rows, cg_i64(c, k)));
}
// The rows behind that hold results: squares of the diagonal (eigh: the diagonal), squares of what is beside it; values at last.
// Where vectors are kept, roots with their signs instead of squares, and the inverses of reflections.
enum { BEHIND_VALUES = 0, BEHIND_LEFT_INVERSES = 3, BEHIND_DIAGONAL = 4, BEHIND_BESIDE = 5, BEHIND_INVERSES = 6 };

int64_t cg_spread_bytes(const Fn *f, Val a, const Target *t);  // of all matrices
CgSpread cg_spread_of(Cg *c, V matrix, V n_rows, V n);
// Fills it with matrix `from`; is_symmetric: from its lower triangle. *scales: two powers of two, which multiply the
// values again; the first is NaN where an element is NaN or infinite.
void cg_spread_fill(Cg *c, const CgSpread *m, V from, bool is_symmetric, V scales[2]);

// keeps: row i becomes the vector of its reflection. left: NULL, or where those of columns go, rows of left_ld floats each.
void cg_tridiagonal(Cg *c, const CgSpread *m, bool keeps);
void cg_bidiagonal(Cg *c, const CgSpread *m, V left, V left_ld);

V cg_root_of(Cg *c, V norm2, V u);  // what a reflection by u leaves of a vector, with its sign; u: the pivot of u

// ---- reflections: the vector at `at` of whole vectors, [from, to), 0 in front of `first`, becomes u with u[first] the pivot
typedef struct {
  V norm2;    // of the vector: the square of the element that is left
  V inverse;  // 1 / h of H = 1 - u u^T / h; 0: the vector counts as 0 and stays
} CgReflection;
CgReflection cg_reflection(Cg *c, V at, V from, V to, V first);
CgReflection cg_reflection_of(Cg *c, V pivot, V x, V norm2);  // x: what is at the pivot; lanes: a reflection each
V cg_whole_dot(Cg *c, V a, V b, V from, V to);
V cg_norm_above(Cg *c, V n_rows, V n);  // a power of two above the norm of a matrix whose elements are below 2

// ---- bisect.c
typedef struct {
  V diagonal, beside;
  V out;  // n values: whole vectors
  V n;
  bool is_singular;
  bool by_lanes;  // an element of each array is a vector: a matrix each lane
} CgBisect;
void cg_bisect(Cg *c, const CgBisect *b);

// ---- values.c
typedef struct {
  Val a;
  V from, out, n_matrices, rows, n;
  bool is_singular;
} CgValuesOp;
bool cg_values_alone(const Fn *f, Val v);  // eigh or svd: nobody reads vectors
int64_t cg_values_scratch_bytes(const Fn *f, Val v, const Target *t);
void cg_emit_values(Cg *c, Val v);

// ---- by_lanes.c
bool cg_by_lanes(const Fn *f, Val a);  // matrices are many and small
void cg_emit_values_by_lanes(Cg *c, const CgValuesOp *op);

#endif
