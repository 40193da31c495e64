// Triangular systems: the recurrence that solutions and Cholesky factors share.
//
//   T x = b, T lower triangular:     x_i = (b_i - sum over k < i of T_ik x_k) / T_ii
//   A = U^T U:                       U_ij = (A_ij - sum over k < i of U_ki U_kj) / U_ii,  U_ii the root of what is left at ii
//
// So a column of U down to its diagonal solves the system of the transposed columns before it. Columns are
// processed in strips as wide as a microkernel's tile: a panel [n][width] is filled with -b and becomes x
// from the top, NB rows at a time. A tile adds T times the rows above, which are x already; the triangle of
// NB rows is solved in registers.
//
// An element sums in the order of k by fused multiply-adds for any NB, strip or worker: the bits do not
// depend on the number of workers. The diagonal is applied as a reciprocal. A single right-hand side fills no
// vector: it has dots, or columns, of its own.
#ifndef TN_CODEGEN_LINALG_LINALG_H
#define TN_CODEGEN_LINALG_LINALG_H

#include "codegen/cg.h"

static inline V next_to(Cg *c, V i) { return cg_add(c, i, cg_i64(c, 1)); }
static inline V f32_at(Cg *c, V base, V at) { return cg_at(c, c->f32, base, at); }

// ---- panel.c: a strip of a matrix in memory
typedef struct {
  V at;              // element (0, 0)
  V row, lane;       // elements from row to row, and from lane to lane
  bool is_turned;    // rows are neighbours in memory: `row` is 1, or -1; else `lane` is 1
  bool is_reversed;  // `row` is negative
  V n_lanes;         // that the matrix has from here on; may be more than the panel's width
  V order;  // i64, of a strip that is not turned: row r is row order[r], reversed order[-r], of the matrix; NULL: row r
} CgStrip;
typedef struct {
  V at;
  uint32_t nv;  // vectors of a row
  V square;     // vl x vl floats of the worker
} CgPanel;
static inline int64_t cg_panel_width(const Cg *c, uint32_t nv) { return (int64_t)nv * c->t->vl; }
V cg_panel_square(Cg *c);                                                    // for CgPanel.square; in the entry block
void cg_panel_fill(Cg *c, const CgPanel *p, const CgStrip *from, V n_rows);  // with what `from` has, negated
void cg_panel_drain(Cg *c, const CgPanel *p, const CgStrip *to, V n_rows);
void cg_strip_clear(Cg *c, const CgStrip *s, uint32_t nv, V from, V to);  // rows [from, to) to 0

// ---- substitute.c
typedef struct {
  V at, row, k;  // element (i, k) lies at at[i row + k k]; only k <= i are read
  bool is_unit;  // the diagonal counts as 1 and is not read
} CgTriangle;
// Rows [from, to) of the panel become rows of the solution; those before are.
void cg_substitute(Cg *c, const CgTriangle *t, const CgPanel *p, V from, V to);
// The same for the strip with columns [from, to): the triangle is in the panel itself, and its diagonal is
// computed. If the matrix is not positive definite, that and everything that depends on it is NaN. Below the
// diagonal: 0.
void cg_factor_diagonal(Cg *c, const CgPanel *p, V from, V to);

// ---- single.c: a square triangle, as it lies, and n elements of x
typedef struct {
  V t, x, n;         // t, x: first element; the last one where it is reversed
  bool by_columns;   // columns are neighbours in memory, not rows
  bool is_reversed;  // rows and columns are counted from the end
  bool is_unit;
} CgSingle;
void cg_substitute_single(Cg *c, const CgSingle *s);  // x, the right-hand side, becomes the solution

// ---- matrices.c: small matrices as they lie in memory, each of them one worker's
typedef void CgVectorFn(Cg *c, V j, V mask, void *ctx);
void cg_each_vector(Cg *c, V from, V to, CgVectorFn *fn, void *ctx);  // of elements [from, to)
// The f32 at `at` without its sign, as bits: they are in the order of magnitudes, and NaN is above all.
V cg_magnitude(Cg *c, V at);
V cg_n_matrices(Cg *c, Shape s);
V cg_matrix_size(Cg *c, Shape s, uint32_t from_end);
V cg_lane_offsets(Cg *c, V first, V each);  // vi64: where matrices first, first + 1 .. begin
// A result without readers has no storage: the worker writes each of its matrices to the same private memory.
typedef struct {
  LLVMTypeRef elem;
  V base, each;  // elements of a matrix; NULL: of its own
} CgPlace;
CgPlace cg_place_of(Cg *c, Val result, LLVMTypeRef elem, V each, int64_t most);
V cg_place_at(Cg *c, const CgPlace *p, V matrix);
int64_t cg_unread_bytes(const Fn *f, Val result);  // of a result that nobody reads, all matrices of it; else 0

// ---- solve.c, solve_by_lanes.c
typedef struct {
  Val a, b;
  bool right, is_turned, is_reversed;  // turned: the lower triangle is a's, transposed; reversed: from its end
  bool is_unit, shares_a;
  Dim n, lanes, batch;
} CgSolve;
bool cg_solve_takes_lanes(const Fn *f, const CgSolve *s);
void cg_emit_solve_by_lanes(Cg *c, Val v, const CgSolve *s);

// Of strips that workers share: a panel, private or in scratch memory, and the strip's matrix and first lane. Read of s: b, n, lanes, right.
typedef void CgStripFn(Cg *c, const CgPanel *p, V matrix, V first, void *ctx);
void cg_each_strip(Cg *c, const CgSolve *s, CgStripFn *fn, void *ctx);
int64_t cg_panel_scratch_bytes(const Fn *f, const CgSolve *s, const Target *t);

int64_t cg_linalg_scratch_bytes(const Fn *f, Val v, const Target *t);
int64_t cg_solve_scratch_bytes(const Fn *f, Val v, const Target *t);
int64_t cg_cholesky_scratch_bytes(const Fn *f, Val v, const Target *t);
void cg_emit_solve(Cg *c, Val v);
void cg_emit_cholesky(Cg *c, Val v);
void cg_emit_lu(Cg *c, Val v);  // lu.c
void cg_emit_lu_solve(Cg *c, Val v);
int64_t cg_lu_solve_scratch_bytes(const Fn *f, Val v, const Target *t);
bool cg_lu_takes_lanes(const Fn *f, Val v, const Target *t);  // lu_by_lanes.c
void cg_emit_lu_by_lanes(Cg *c, Val v);
bool cg_lu_solve_takes_lanes(const Fn *f, Val v);
void cg_emit_lu_solve_by_lanes(Cg *c, Val v);
void cg_emit_qr(Cg *c, Val v);  // qr.c
int64_t cg_qr_scratch_bytes(const Fn *f, Val v, const Target *t);
bool cg_qr_takes_lanes(const Fn *f, Val v, const Target *t);  // qr_by_lanes.c
void cg_emit_qr_by_lanes(Cg *c, Val v);
void cg_emit_eigh(Cg *c, Val v);  // vectors.c
int64_t cg_eigh_scratch_bytes(const Fn *f, Val v, const Target *t);
void cg_emit_svd(Cg *c, Val v);
int64_t cg_svd_scratch_bytes(const Fn *f, Val v, const Target *t);

#endif
