// The graph of a row kernel: what is computed for one row, before it is cut into sweeps (row.c).
//
//   softmax     m = top a    e = exp(a - m)    s = sum e    y = e (1 / s)
//   sweep       0            1                 1            2
//
// A node is an element of the row, computed for every vector of it, or a row scalar, one number for the row. A reduction
// makes a row scalar of the elements of one sweep; what needs that row scalar comes in a later one.
#ifndef TN_CODEGEN_REDUCE_ROW_H
#define TN_CODEGEN_REDUCE_ROW_H

#include "codegen/reduce/column_sum.h"

typedef uint32_t Node;  // 0: none

typedef enum {
  NODE_NONE,
  NODE_NUMBER,     // num
  NODE_SIZE,       // elements of a row, as f32
  NODE_VALUE,      // an immediate of the IR
  NODE_MEM,        // element in memory
  NODE_SCALAR,     // row scalar in memory, f32 or i64
  NODE_PRIMITIVE,  // primitive `op` of the arguments
  NODE_FMA,        // a b + d
  NODE_INS,        // pointwise instruction v of the arguments
  NODE_SUM,        // row scalar: sum of the elements
  NODE_DOT,        // row scalar: sum of a b
  NODE_MAX,        // row scalar: maximum, NaN wins
  NODE_TOP,        // row scalar: maximum of what is no NaN
  NODE_LABEL,      // row scalar: a class, or -1 where it is none or ignored; `op`: bits below
  NODE_VALID,      // row scalar: 1 for a label that is one, else 0
  NODE_ONE_HOT,    // element: 1 at the label's place, else 0
  NODE_GATHER,     // row scalar: the element in memory at the label's place
} NodeKind;

enum { LABEL_MAY_FAULT = 1, LABEL_IGNORES = 2 };  // what is no class; the label `num`

typedef struct {
  uint8_t kind;
  bool elem, live, is_buffered;
  uint16_t op;
  uint8_t n_args;
  Node arg[3];
  Val v;                    // MEM, SCALAR, VALUE, INS
  uint32_t broadcast_rank;  // MEM, SCALAR: rank of the shape that it is broadcast to
  double num;
  uint32_t level;  // elements: the sweep that can make it; row scalars: the sweep before which it is there
  // in code
  LLVMValueRef row;     // MEM: the row at hand
  LLVMValueRef scalar;  // row scalars: the scalar; elements in memory that do not move: none
  LLVMValueRef buffer;  // row buffer
  LLVMValueRef value;   // elements: the vector at hand, valid in the sweep that `stamp` numbers
  uint32_t stamp;
} RowNode;

typedef struct {
  Node lse, logits, top, exps, sum;  // of a cross_entropy_rows in the kernel, for its gradient
} RowLse;

typedef struct {
  Cg *c;
  Shape shape;    // of the rows
  uint32_t axis;  // along which a row runs
  uint32_t rank;
  RowNode *node;
  uint32_t n, cap;
  Node *of;  // by instruction of the kernel and its results
  RowLse lse[8];
  uint32_t n_lse;
} RowGraph;

// A row kernel while its code is made. Lanes of a vector are neighbours in a row; or, `row_per_lane`, one element of as many
// neighbouring rows: then row scalars are vectors too, and what lies in memory is interleaved (interleave.h) before and after. Rows
// along another axis than the last stand `strided`: neighbouring rows lie side by side, and nothing is interleaved.
typedef struct {
  RowGraph g;
  Cg *c;
  LLVMValueRef size;             // elements of a row
  LLVMValueRef index, element;   // the (first) row at hand; its first element
  LLVMValueRef outer[MAX_RANK];  // its index by axis, made when wanted
  uint32_t last, stamp, n_buffers;
  int64_t bound;         // of size
  LLVMValueRef i, mask;  // of the vector at hand; mask NULL: all lanes
  ColumnSums columns;
  bool row_per_lane, strided;
  LLVMValueRef side;            // rows that stand side by side, `side` elements from one element of a row to the next
  LLVMValueRef n_rows, active;  // row_per_lane: of the rows at hand, those that are there; their lanes
  LLVMValueRef *interleaved;    // row_per_lane: by instruction, the buffer of a result
} Row;

// row_scalars.c
// That are there before a sweep; sums and maxima were made by the one before
void cg_row_scalars(Row *r, uint32_t sweep);
// Of a primitive or instruction
LLVMValueRef cg_row_compute(Row *r, const RowNode *n, LLVMValueRef *arg, LLVMValueRef element);
LLVMValueRef cg_row_lanes(Row *r, LLVMTypeRef t);           // 0, 1, 2, ..
bool cg_row_in_order(const RowGraph *g, const RowNode *n);  // the operand steps through all rows one after the other
bool cg_row_is_still(const RowGraph *g, const RowNode *n);  // it is the same for all rows
void cg_row_enter(Row *r);                                  // to the operands of the row at hand

// row_ops.c: the nodes of instruction v, in g->of. false: c->why
bool cg_row_ops(RowGraph *g, Val v);

// row.c
Node cg_row_node(RowGraph *g, RowNode n);             // an equal one if there is one
Node cg_row_operand(RowGraph *g, Val v, uint32_t k);  // of a pointwise instruction: element, row scalar or number
Node cg_row_scalar(RowGraph *g, Val v, uint32_t k);   // operand with the shape of the rows, without their last axis
Node cg_row_weight(RowGraph *g, Val v, uint32_t k);   // operand with the shape of a row
#endif
