// Eigenvectors and singular vectors: rotations that make a tridiagonal, or bidiagonal, matrix diagonal turn the rows of what
// reflections made it from.
//
//   a  ->  rows in scratch, scaled                      spread.c
//      ->  tridiagonal, or bidiagonal, by reflections    tridiagonal.c, bidiagonal.c, which keep them
//      ->  the reflections' product, by rows             expand.c
//      ->  diagonal, by rotations of those rows          implicit_ql.c, implicit_qr.c
//      ->  results in order                              vectors.c
//
// The numbers on and beside the diagonal are doubles from there on, so that what the rotations lose is far below a float.
#ifndef TN_CODEGEN_LINALG_VECTORS_H
#define TN_CODEGEN_LINALG_VECTORS_H

#include "codegen/linalg/values.h"

// ---- doubles
static inline V f64_of(Cg *c, double x) { return LLVMConstReal(c->f64, x); }
static inline V f64_get(Cg *c, V base, V i) { return cg_get(c, c->f64, base, i); }
static inline V f64_size(Cg *c, V x) { return cg_call_intrinsic(c, "llvm.fabs", &c->f64, 1, &x, 1); }
static inline V f64_root(Cg *c, V x) { return cg_call_intrinsic(c, "llvm.sqrt", &c->f64, 1, &x, 1); }

// Rows behind a spread matrix (values.h), once its reflections are expanded: two for each array of doubles
enum { BEHIND_DOUBLES = 0, BEHIND_BESIDE_DOUBLES = 2 };

// n reflections, of which row k has the vector, become rows of their product (expand.c); n is at most ld, whole vectors.
void cg_expand(Cg *c, V rows, V inverses, V n, V ld, bool goes_up);

// n doubles on the diagonal, n beside it (the last one is room), and what turns with them
typedef struct {
  V diagonal, beside, n;
  V rows, ld;              // implicit_ql: of eigenvectors; implicit_qr: of V^T
  V right_rows, right_ld;  // implicit_qr: of U^T
} CgDiagonal;
void cg_implicit_ql(Cg *c, const CgDiagonal *d);
void cg_implicit_qr(Cg *c, const CgDiagonal *d);
// Steps until nothing beside the diagonal is left, each on the first part [first, end] that has no zero there
typedef void CgPartFn(Cg *c, const CgDiagonal *d, V first, V end);
void cg_each_part(Cg *c, const CgDiagonal *d, CgPartFn *step);

// The rotation that takes (f, g) to (length, 0): of (0, 0) none
typedef struct {
  V cosine, sine, length;
} CgTurn;
CgTurn cg_turn_of(Cg *c, V f, V g);
void cg_turn_rows(Cg *c, CgTurn t, V a, V b,
                  V n_columns);  // whole vectors: a becomes cosine a + sine b, b cosine b - sine a

#endif
