// Column sums fused into a row kernel: gradients of norms' weights and of biases.
#ifndef TN_CODEGEN_REDUCE_COLUMN_SUM_H
#define TN_CODEGEN_REDUCE_COLUMN_SUM_H

#include "codegen/cg.h"

// Rows of a partial sum, how many there are of these, and a row in whole vectors: by bounds alone.
int64_t cg_column_chunk(const Prog *p, Shape rows);
int64_t cg_column_chunks(const Prog *p, Shape rows);
int64_t cg_column_width(const Prog *p, Shape rows);

enum { MAX_COLUMNS = 8, COLUMN_STEP = 32 };  // sums in a kernel; rows of a strip, before it is added to the partial sum

typedef struct {
  Cg *c;
  V size;         // of a row
  int64_t bound;  // of size
  // Rows of a partial sum: by bounds, so that the order of additions does not depend on the number of workers
  int64_t chunk;
  int64_t n_chunks;
  uint32_t n;
  struct {
    Val v;
    V strip;     // sum of up to COLUMN_STEP rows, on the stack
    V partials;  // scratch [n_chunks, bound in whole vectors]
  } sum[MAX_COLUMNS];
  V at;  // offset of the current chunk in the partials
} ColumnSums;

void cg_column_sum_find(ColumnSums *s, Cg *c, Shape rows);  // the sums of the kernel; n == 0: there are none
void cg_column_sum_open(ColumnSums *s, Cg *c, Shape rows);  // the same, with their memory
void cg_column_sum_begin(ColumnSums *s, V chunk);
// Mask NULL: all lanes
void cg_column_sum_add(ColumnSums *s, uint32_t k, V i, V x, V mask);
void cg_column_sum_fold(ColumnSums *s);                // after a step of rows
void cg_column_sum_finish(ColumnSums *s, bool alone);  // after all chunks; alone: only worker 0 gets here
int64_t cg_column_sum_scratch(const Fn *f, Val v);
#endif
