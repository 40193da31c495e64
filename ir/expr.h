// A pointwise row as a postfix program over primitives, made once per row.
#ifndef TN_IR_EXPR_H
#define TN_IR_EXPR_H

#include "ir/tables.h"

typedef enum { EX_ARG /* a b c */, EX_Y, EX_G, EX_NUM, EX_ATTR, EX_OP, EX_SAME } ExKind;
typedef struct {
  uint8_t kind;
  uint8_t arg;  // ARG: 0..2; ATTR: Key
  uint16_t op;  // OP: its operands are the top n of the stack
  double num;
} ExNode;
typedef struct {
  const ExNode *nodes;  // postfix; NULL: PRIM or NOGRAD
  uint32_t n;
} Expr;
Expr ir_forward(Op op);               // nodes == NULL: PRIM, a primitive by hand
Expr ir_gradient(Op op, uint32_t k);  // gradient of operand k; nodes == NULL: no gradient; the number 0: zeros

#endif
