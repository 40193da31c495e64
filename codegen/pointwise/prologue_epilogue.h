// The pointwise instructions fused into a product's kernel, on strips: parts of rows.
#ifndef TN_CODEGEN_POINTWISE_PROLOGUE_EPILOGUE_H
#define TN_CODEGEN_POINTWISE_PROLOGUE_EPILOGUE_H

#include "codegen/cg.h"

typedef struct RowStrip RowStrip;
// The epilogue of the kernel's product; NULL: c->why. `back` (may be none): a value that replaces the product in the
// strips.
RowStrip *cg_epilogue_new(Cg *c, Val back);
// The epilogue as one row, number 0, of all its elements, if rows are contiguous in all operands. NULL: they
// are not (a broadcast operand), or c->why.
RowStrip *cg_epilogue_flat(Cg *c);
bool cg_epilogue_works(const RowStrip *r);  // does it store a result, or replace the product?
// Columns [lo, hi) of row `row` (leading axes flattened): loads the product from `from`, which holds these columns, and
// stores the kernel's results, the product included if it has other uses.
void cg_epilogue_row(RowStrip *r, V row, V from, V lo, V hi);

// The prologue: producers of an operand of the product; NULL: c->why.
RowStrip *cg_prologue_new(Cg *c);
// Row `row` of the operand (a pixel of an image): columns [lo, hi) to memory at `to`.
void cg_prologue_row(RowStrip *r, V row, V lo, V hi, V to);
// The prologue as one row of all its elements, entered; NULL: an operand is broadcast, say; or c->why.
RowStrip *cg_prologue_flat(Cg *c);
V cg_prologue_row_size(const RowStrip *r);
// Or one vector of the row entered last: from column `column` on, zero in lanes that are masked off.
void cg_prologue_enter(RowStrip *r, V row);
V cg_prologue_vector(RowStrip *r, V column, V mask);
V cg_prologue_element(RowStrip *r, V element, V mask);  // from its flat index on
// Estimated operations per element of the operand. 0: it has no prologue.
int64_t cg_prologue_cost(const Fn *f, Val product);

#endif
