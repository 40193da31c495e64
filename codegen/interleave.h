// vl short rows as vectors of one element per row, interleaved[width][vl], aligned; and back.
#ifndef TN_CODEGEN_INTERLEAVE_H
#define TN_CODEGEN_INTERLEAVE_H

#include "codegen/cg.h"

// n_rows: valid rows of the vl, at least 1. Lanes of the others are undefined, and are not stored.
void cg_interleave(Cg *c, uint32_t width, V from, V n_rows, V to);
void cg_deinterleave(Cg *c, uint32_t width, V from, V n_rows, V to);
#endif
