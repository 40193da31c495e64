// Which numbers the elements of an input may be so that a run takes them: for whoever makes inputs up (selftests of bundles,
// `tenure run`, bisect, reduce, benches).
#ifndef TN_IR_PASSES_CHECKS_DRAW_H
#define TN_IR_PASSES_CHECKS_DRAW_H

#include "ir/ir.h"

// Falling: none is above the one before it. Parts: equal ones of `last`, which they sum to, one for each of `size` elements
typedef enum { DRAW_ANY_ORDER, DRAW_FALLING, DRAW_RISING, DRAW_PARTS } DrawOrder;

typedef struct {
  int64_t lo, last;
  int64_t group, first, size;  // of each `group` of elements those in [first, first + size); group 0: all
  DrawOrder order;
} DrawRange;

// By all that f checks, before a run and in it, of what comes of the input: through casts, views, copies, choices, sums with
// constants, bodies of scans. slots: sizes of this run, by named dim.
uint32_t ir_draw_ranges(RtArena *mem, const Fn *f, const int64_t *slots, uint32_t input, const DrawRange **out);

// How far numbers may lie above the least valid one. Not every check is a range: a count of nonzero elements
// or a sum of counts may be limited. Callers try the spreads in turn until a run accepts the inputs.
enum { DRAW_N_SPREADS = 3, DRAW_FREE = 7 };  // without a range numbers are 0 .. DRAW_FREE
extern const int64_t ir_draw_spreads[DRAW_N_SPREADS];

// [*lo, *last]: values that element k may have after `before`. *lo > *last: none.
void ir_draw_bounds(const DrawRange *r, uint32_t n, int64_t spread, int64_t k, int64_t before, int64_t *lo,
                    int64_t *last);

#endif
