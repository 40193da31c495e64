// The pointwise instructions in a product's kernel, on strips.
#ifndef TN_CODEGEN_POINTWISE_PROLOGUE_EPILOGUE_H
#define TN_CODEGEN_POINTWISE_PROLOGUE_EPILOGUE_H

#include "codegen/cg.h"

typedef struct Rows Rows;
// What follows the product in the kernel at hand; NULL: c->why. `back` (may be none): a value that takes the product's
// place in the strips, if it has no memory of its own.
Rows *cg_epilogue_new(Cg *c, Val back);
bool cg_epilogue_works(const Rows *r);  // is anything stored or put back?
// Columns [lo, hi) of row `row` (all leading axes as one): reads the product at `from`, which holds these columns, and
// stores whatever the kernel stores, the product itself if anyone wants it.
void cg_epilogue_row(Rows *r, LLVMValueRef row, LLVMValueRef from, LLVMValueRef lo, LLVMValueRef hi);

// What makes an operand of the product, before it; NULL: c->why.
Rows *cg_prologue_new(Cg *c);
// The operand's row `row`: columns [0, n) to memory at `to`.
void cg_prologue_row(Rows *r, LLVMValueRef row, LLVMValueRef n, LLVMValueRef to);
// Or vector by vector, of the row that was entered last: from column `column` on, zero in lanes that are off.
void cg_prologue_enter(Rows *r, LLVMValueRef row);
LLVMValueRef cg_prologue_vector(Rows *r, LLVMValueRef column, LLVMValueRef mask);
// About how many operations an element of the operand takes. 0: it is not made here.
int64_t cg_prologue_cost(const Fn *f, Val product);

#endif
