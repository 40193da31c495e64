// The elements along an axis that slice_at and slice_assign_at read or write.
//
//   element k of the part is element  from + at + k step  of the whole, or  n - 1 - (from + at + k step)  with {reverse}
#ifndef TN_IR_SLICE_AT_H
#define TN_IR_SLICE_AT_H

#include "ir/ir.h"

typedef struct {
  uint32_t axis;
  Dim from, size, count;  // size: of the whole along the axis
  Dim step;               // {step}, or {pitch}: a size of the run
  bool reverse;
  Val at;          // none: 0
  Dim last_start;  // the largest `at` for which all elements lie in the whole
} SliceAt;

void ir_slice_at(const Fn *f, Val v, SliceAt *out);
// Number of elements from `from` to the end of the axis, by steps, for any sizes of the run.
bool ir_slice_is_rest(Prog *p, const SliceAt *s);
// Is it a permutation of the whole axis? Then its gradient is the same slice.
bool ir_is_flip(const Fn *f, Val v);

// A start, or an index, that was checked before (ir/passes/checks/check_starts.c); n: number of places
bool ir_is_checked_start(const Fn *f, Val start, Dim n);

#endif
