// Lanes of several vectors: neighbours in memory that are taken in steps, and results that are stored by turns.
#ifndef TN_CODEGEN_LANES_H
#define TN_CODEGEN_LANES_H

#include "codegen/cg.h"

// n <= 16 vectors as one, in the order of memory.
V cg_join_vectors(Cg *c, V *x, uint32_t n);
// vl lanes of it: first, first + step ..
V cg_every_lane(Cg *c, V wide, uint32_t first, uint32_t step);
// Lane 0 of all n vectors, then lane 1 ..
V cg_vectors_by_turns(Cg *c, V *x, uint32_t n);
// i32: first, first + step ..; numbers below `end`, unsigned
V cg_numbers_from(Cg *c, V first, uint32_t step);
V cg_numbers_below(Cg *c, V numbers, V end);
// Stores n vectors in one at to[at ..]. They are elements `first` and on of a row, which has `end`; NULL: all of them.
void cg_store_wide(Cg *c, V wide, uint32_t n, V to, V at, V first, V end);

#endif
