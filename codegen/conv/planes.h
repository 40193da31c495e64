// Convolutions with channels first ({first} of ir/conv.h), each channel a plane of its own: vectors along the last axis.
//
// Along that axis results come in steps: of a convolution one for every `stride` columns of the source, of a transposed one
// `stride` for every column, its phases. In a step, each tap belongs to one phase and reads the column `at` from the step's
// first one on:
//
//   conv {stride=[2,2], pad=[1,1,1,1]}, 3 taps              stride 2, one phase with taps at -1, 0, 1
//   conv_transpose of it                                    stride 1, two phases with taps at 0; at 0 and 1
#ifndef TN_CODEGEN_CONV_PLANES_H
#define TN_CODEGEN_CONV_PLANES_H

#include "codegen/conv/bands.h"

enum { GRAD_ROWS = 4, MOST_ROWS = 8 };  // of g, and of results, that are taken together

typedef struct {
  int64_t at;
  uint32_t phase, tap;
} ColumnTap;
typedef struct {
  Cg *c;
  ConvShape s;
  uint32_t stride, n_phases, n;
  ColumnTap tap[CONV_FIRST_TAPS];  // by `at`
  V from, to;                      // columns of the source and of the result
  int64_t rows;                    // of the result that are taken together
} PlaneColumns;
// vl steps.
typedef struct {
  const PlaneColumns *of;
  V first;
  bool is_masked;             // some lie outside
  V inside[CONV_FIRST_TAPS];  // by tap: lanes whose column exists; set if is_masked
} PlaneBlock;

bool cg_is_channels_first(const Fn *f, Val v);
PlaneColumns cg_plane_columns(Cg *c, Val v);
int64_t cg_plane_steps(const PlaneColumns *p);  // their bound
PlaneBlock cg_plane_block(const PlaneColumns *p, V first, bool is_masked);
// Lanes for which tap number k reads a column of the source. exists: i1, whether the line exists; NULL: it does. Gives NULL for all
// lanes.
V cg_plane_lanes(const PlaneBlock *b, uint32_t k, V exists);
// The vector that tap number k reads from the line, in the lanes of `mask`.
V cg_plane_load(const PlaneBlock *b, V line, uint32_t k, V mask);
// sum + x y in the lanes of mask
V cg_plane_fma(Cg *c, V x, V y, V sum, V mask);
// The row of taps, of n, by which row r reads line q; r and q count from the block's first. -1: row r does not read line q.
static inline int64_t cg_plane_row_of_taps(const Phase *p, int64_t n, int64_t q, int64_t r) {
  int64_t at = q - r * p->src_step;
  return at < 0 || at % p->gap || at / p->gap >= n ? -1 : at / p->gap;
}
// Blocks [lo, hi) have all of their columns, of the source and of the result; there are `n`.
void cg_plane_whole_blocks(const PlaneColumns *p, V *lo, V *hi, V *n);

// ---- planes_weight_grad.c: of the kernel's first instruction
void cg_plane_weight_emit(Cg *c, V x, V g);

#endif
