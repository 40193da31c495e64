// vl rows of few elements as vectors of one element of every row: turned[width][vl], aligned, and back to memory.
#ifndef TN_CG_TURN_H
#define TN_CG_TURN_H

#include "codegen/cg.h"

// n_rows: of the vl rows, those that are there, at least 1. The lanes of others may hold anything; nothing is stored
// for them.
void cg_turn_in(Cg *c, uint32_t width, LLVMValueRef from, LLVMValueRef n_rows, LLVMValueRef to);
void cg_turn_out(Cg *c, uint32_t width, LLVMValueRef from, LLVMValueRef n_rows, LLVMValueRef to);
#endif
