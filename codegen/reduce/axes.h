// How a reduction sees its operand: adjacent axes are merged into groups that are kept or reduced; axes of size 1 belong to
// none. The last group is the vector axis:
//
//   [kept.., reduced.., n reduced]   runs: n contiguous elements of one result
//   [kept.., reduced.., n kept]      columns: rows of n elements, one of each of n contiguous results
#ifndef TN_CODEGEN_REDUCE_AXES_H
#define TN_CODEGEN_REDUCE_AXES_H

#include "codegen/cg.h"

// ---- by bounds alone
typedef struct {
  uint32_t first, last;  // operand axes
  bool reduced;
  int64_t bound;
} AxisGroup;

typedef struct {
  AxisGroup group[MAX_RANK];
  uint32_t n;
  bool runs;  // the last group is reduced
  int64_t results, terms;
} ReducedAxes;
ReducedAxes cg_reduced_axes(const Fn *f, Val v);

// ---- in a run
typedef struct {
  V size, stride;  // in elements
} StridedAxis;

typedef struct {
  StridedAxis kept[MAX_RANK], reduced[MAX_RANK];  // without the vector axis
  uint32_t n_kept, n_reduced;
  V inner;            // size of the vector axis
  V n_outer, n_rows;  // products of kept, of reduced
} ReduceWalk;
// unit: distance of neighbours along the axis before the vector axis. NULL: that axis's size, so that offsets count elements;
// 1: offsets count rows.
ReduceWalk cg_reduce_walk(Cg *c, Val v, const ReducedAxes *a, V unit);
V cg_strided_offset(Cg *c, const StridedAxis *axis, uint32_t n, V flat);  // of the row-major index `flat`

#endif
