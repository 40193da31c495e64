// Column sums fused into a row kernel: gradients of norms' weights and of biases.
#ifndef TN_CODEGEN_REDUCE_COLUMN_SUM_H
#define TN_CODEGEN_REDUCE_COLUMN_SUM_H

#include "codegen/cg.h"
#include "ir/passes/plan.h"

// Rows of a partial sum, how many there are of these, and a row in whole vectors: by bounds alone. Strided rows count by groups
// of COLUMN_LANES.
int64_t cg_column_chunk(const Prog *p, RowSpace rows);
int64_t cg_column_chunks(const Prog *p, RowSpace rows);
int64_t cg_column_width(const Prog *p, RowSpace rows);

// Sums in a kernel; rows, or groups of strided ones, of a strip, before it is added to the partial sum
enum { MAX_COLUMNS = 8, COLUMN_STEP = 32, COLUMN_LANES = 16 };

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
    V strip;     // sum of up to COLUMN_STEP rows, on the stack; of strided rows [bound, COLUMN_LANES]
    V partials;  // scratch [n_chunks, bound in whole vectors]
  } sum[MAX_COLUMNS];
  V at;  // offset of the current chunk in the partials
  bool strided;
  V lane;  // strided: place in their group of the rows of which vectors are added
} ColumnSums;

void cg_column_sum_find(ColumnSums *s, Cg *c, RowSpace rows);  // the sums of the kernel; n == 0: there are none
void cg_column_sum_open(ColumnSums *s, Cg *c, RowSpace rows);  // the same, with their memory
void cg_column_sum_begin(ColumnSums *s, V chunk);
// x: elements from i on of a row, or elements i of strided rows. Mask NULL: all lanes
void cg_column_sum_add(ColumnSums *s, uint32_t k, V i, V x, V mask);
void cg_column_sum_fold(ColumnSums *s);                // after a step of rows, or of groups of them
void cg_column_sum_finish(ColumnSums *s, bool alone);  // after all chunks; alone: only worker 0 gets here
int64_t cg_column_sum_scratch(const Fn *f, Val v);
#endif
