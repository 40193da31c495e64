// The pointwise instructions behind a product in its kernel, on pieces of rows of the product (point.c).
#ifndef TN_CODEGEN_EPILOGUE_H
#define TN_CODEGEN_EPILOGUE_H

#include "codegen/cg.h"

typedef struct Epilogue Epilogue;
Epilogue *cg_epilogue_new(Cg *c);  // of the kernel at hand, whose instruction 0 is the product; NULL: c->why
// Columns [lo, hi) of row `row` (all leading axes as one): reads the product at `from`, which holds these columns, and
// stores whatever the kernel stores, the product itself if anyone wants it.
void cg_epilogue_row(Epilogue *e, LLVMValueRef row, LLVMValueRef from, LLVMValueRef lo, LLVMValueRef hi);

#endif
