// Sums over the rows of a row kernel, one for each place in the row: gradients of norms' weights, of biases.
#ifndef TN_CG_ROW_COLUMNS_H
#define TN_CG_ROW_COLUMNS_H

#include "codegen/cg.h"

enum { MAX_COLUMNS = 8, COLUMN_STEP = 32 };  // sums in a kernel; rows summed before they are added to the rest

typedef struct {
  Cg *c;
  LLVMValueRef size;  // of a row
  int64_t bound;      // of size
  int64_t chunk;      // rows whose sum is a partial one: by bounds, so that sums do not depend on the number of workers
  int64_t n_chunks;
  uint32_t n;
  struct {
    Val v;
    LLVMValueRef strip;     // sum of the rows of a step, on the stack
    LLVMValueRef partials;  // scratch [n_chunks, bound in whole vectors]
  } sum[MAX_COLUMNS];
  LLVMValueRef at;  // of the chunk at hand in the partials
} Columns;

void cg_columns_open(Columns *s, Cg *c, Shape rows);  // finds the sums of the kernel; n == 0: there are none
void cg_columns_begin(Columns *s, LLVMValueRef chunk);
void cg_columns_add(Columns *s, uint32_t k, LLVMValueRef i, LLVMValueRef x, LLVMValueRef mask);  // mask NULL: all lanes
void cg_columns_fold(Columns *s);                                                                // after a step of rows
void cg_columns_finish(Columns *s, bool alone);  // after all chunks; alone: only worker 0 gets here
int64_t cg_columns_scratch(const Fn *f, Val v);
#endif
