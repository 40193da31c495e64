// The pointwise instructions in a product's kernel, on pieces of rows.
#ifndef TN_CODEGEN_ROWS_H
#define TN_CODEGEN_ROWS_H

#include "codegen/cg.h"

typedef struct Rows Rows;
// What follows the product in the kernel at hand; NULL: c->why. `back` (may be none): a value that takes the product's
// place in the pieces, if it has no memory of its own.
Rows *cg_epilogue_new(Cg *c, Val back);
bool cg_epilogue_works(const Rows *r);  // is anything stored or put back?
// Columns [lo, hi) of row `row` (all leading axes as one): reads the product at `from`, which holds these columns, and
// stores whatever the kernel stores, the product itself if anyone wants it.
void cg_epilogue_row(Rows *r, LLVMValueRef row, LLVMValueRef from, LLVMValueRef lo, LLVMValueRef hi);

#endif
