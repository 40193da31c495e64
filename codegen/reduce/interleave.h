// vl rows of few elements as vectors of one element of every row: interleaved[width][vl], aligned, and back to memory.
#ifndef TN_CODEGEN_REDUCE_INTERLEAVE_H
#define TN_CODEGEN_REDUCE_INTERLEAVE_H

#include "codegen/cg.h"

// n_rows: of the vl rows, those that are there, at least 1. The lanes of others may hold anything; nothing is stored
// for them.
void cg_interleave(Cg *c, uint32_t width, LLVMValueRef from, LLVMValueRef n_rows, LLVMValueRef to);
void cg_deinterleave(Cg *c, uint32_t width, LLVMValueRef from, LLVMValueRef n_rows, LLVMValueRef to);
#endif
