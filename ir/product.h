// Where a product reads its operands and stores its result: as they lie, though their axes are permuted.
//
//   %y = matmul %a, %b {a_perm=[0,2,1,3], perm=[0,2,1,3]}     is
//
//   %p = permute %a {perm=[0,2,1,3]}     %q = matmul %p, %b     %y = permute %q {perm=[0,2,1,3]}
//
// The last axis stays the last one, so that rows are contiguous; {ta} and {tb} transpose what {a_perm} and {b_perm} made.
#ifndef TN_IR_PRODUCT_H
#define TN_IR_PRODUCT_H

#include "ir/ir.h"

typedef struct {
  Shape shape;             // as it lies
  uint32_t rank;           // 0: there is none
  uint8_t axis[MAX_RANK];  // axis k of the product is axis[k] of the shape
  bool moves;              // any axis
} Laid;

enum { LAID_A, LAID_B, LAID_RESULT };
Laid ir_laid(const Fn *f, Val product, uint32_t which);
Dim ir_laid_dim(const Prog *p, const Laid *l, uint32_t axis);
bool ir_is_laid(const Fn *f, Val product);       // any of the three moves axes
Dim ir_product_terms(const Fn *f, Val product);  // of matmul, linear, square_distances: the axis that it sums over

#endif
