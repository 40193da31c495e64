#ifndef TN_CODEGEN_REDUCE_CASCADE_H
#define TN_CODEGEN_REDUCE_CASCADE_H

#include "codegen/cg.h"

// Long sums by blocks, and blocks of blocks. A plain chain of n rounded additions may be off by n roundings,
// and is if terms are equal.
//
//   acc += (terms 0 .. 15) + (terms 16 .. 31) + ..           each block from zero; a block of level 2 has 16 of level 1
//
// The order of a sum depends on bounds and on its terms alone.
enum { CASCADE_TERMS = 16 };  // of a partial sum before it is added to another
enum { CASCADE_LEVELS = 3 };  // at most

typedef struct {
  Cg *c;
  uint32_t n;     // accumulators
  int64_t block;  // of the loop variable, in which each accumulator takes CASCADE_TERMS terms: a block of level 1
  void (*start)(void *ctx, V *acc);
  V (*join)(void *ctx, uint32_t k, V a, V b);  // of accumulator k
  // the terms [lo, hi), one after the other
  void (*add)(void *ctx, V lo, V hi, V *acc);
  void *ctx;
} Cascade;

uint32_t cg_cascade_levels(int64_t terms);  // for a chain of `terms`: 0 to CASCADE_LEVELS
// Adds the terms [lo, hi) to acc.
void cg_cascade(const Cascade *s, uint32_t levels, V lo, V hi, V *acc);

// A mean sums the differences of its terms from one of them, the pivot. Lanes of x that may be pivots: 0 if
// infinite, NaN or so large that differences or their sum could overflow where the sum of the terms does not.
// Terms that differ from so large a pivot do so by at least 2^78, whose square is infinite for any pivot.
V cg_usable_pivots(Cg *c, V x);
// The pivot is the smallest in magnitude of the first, the middle and the last term: differences from an
// outlier would lose their digits. pick: lanes of the three; place: which of n terms is candidate k.
enum { N_PIVOTS = 3 };
V cg_pivots(Cg *c, const V x[N_PIVOTS]);
V cg_pivot_place(Cg *c, uint32_t k, V n);
#endif
