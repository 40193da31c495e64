// Which values hold rows of a packed batch, and what operations do with them: between packed_rows.c and rows_rule.c.
#ifndef TN_ROWS_H
#define TN_ROWS_H

#include "frontend/tenure/core.h"
#include "ir/ir.h"

// What becomes of an operand's axis of rows
typedef enum {
  FE_ROWS_GONE,       // the result has no rows: a total, or rows selected by an index
  FE_ROWS_KEPT,       // axis `axis` of the result
  FE_ROWS_SUMMED,     // summed with the rows of the other operand, which must be of one layout
  FE_ROWS_OF_LAYOUT,  // rows of the layout that the op takes
  FE_ROWS_MIXED       // sequences would be mixed
} FeFate;
typedef struct {
  FeFate fate;
  uint32_t axis;
} FeWay;

// What happens to the rows of operand k; operands by position in the row of the op
FeWay fe_way_of_rows(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, uint32_t k);
// Which operand is the op's layout, or that of operand k; UINT32_MAX: none
uint32_t fe_layout_of_operand(Op op, const tn_tensor *a, uint32_t n, uint32_t k);
uint32_t fe_layout_operand(Op op, const tn_tensor *a, uint32_t n);
// A reshape of `axis`, which holds whole rows of a layout that has `rows` of them
FeWay fe_reshaped_rows(Prog *p, Shape from, Shape to, uint32_t axis, Dim rows);

#endif
