// The elements along an axis that slice and slice_assign read or write.
//
//   element k of the part is element  start + at + k step  of the whole, or  n - 1 - (start + at + k step)  with {reverse}
#ifndef TN_IR_SLICE_H
#define TN_IR_SLICE_H

#include "ir/ir.h"

typedef struct {
  uint32_t axis;
  Dim start, size, count;  // size: of the whole along the axis
  Dim step;                // {step}, or {pitch}: a size of the run
  bool reverse;
  Val at;          // none: 0
  Dim last_start;  // the largest `at` for which all elements lie in the whole
} Slice;

void ir_slice(const Fn *f, Val v, Slice *out);
// Neighbours in their order, whose place and number are constants: they begin at `start`.
bool ir_is_block(Prog *p, const Slice *s, int64_t *start);
// Number of elements from `start` to the end of the axis, by steps, for any sizes of the run.
bool ir_slice_is_rest(Prog *p, const Slice *s);
// Is it a permutation of the whole axis? Then its gradient is the same slice.
bool ir_is_flip(const Fn *f, Val v);

// Elements from the first one of op `windows` to the last one, both included.
Dim ir_windows_span(const Fn *f, Val v);
// As many windows as there are, for any sizes of the run: they lie in the axis.
bool ir_windows_are_all(const Fn *f, Val v);

// Op `crop` along one axis: element i of the result is element  start + (i - before) step  of the operand for
// before <= i < before + count, else 0. A step below 0 goes backwards.
typedef struct {
  int64_t start, step, before;
  uint32_t from;    // the operand's axis: {perm}
  Dim count, size;  // size: of the result
} CropAxis;
CropAxis ir_crop_axis(const Fn *f, Val v, uint32_t axis);
// Does it leave an axis of the operand, of this size, as it is?
bool ir_crop_keeps(const CropAxis *c, Dim size);

// What a concat takes of operand k along its axis: all, or `count` elements from `start` on.
typedef struct {
  int64_t start;
  Dim count;
} ConcatPart;
ConcatPart ir_concat_part(const Fn *f, Val v, uint32_t k);

// An op that gathers or scatters along its axis: is its index [n], one for all elements of a place?
bool ir_names_slices(const Fn *f, Val v);

// A start, or an index, that was checked before (ir/passes/checks/check_starts.c); n: number of places
bool ir_is_checked_start(const Fn *f, Val start, Dim n);

#endif
