// The graph of a row kernel: what is computed for one row, before it is cut into sweeps (row.c).
//
//   softmax     m = top a    e = exp(a - m)    s = sum e    y = e (1 / s)
//   sweep       0            1                 1            2
//
// A node is an element of the row, computed for every vector of it, or a cell, one number for the row. A reduction
// makes a cell of the elements of one sweep; what needs that cell comes in a later one.
#ifndef TN_CG_ROW_H
#define TN_CG_ROW_H

#include "codegen/row_columns.h"

typedef uint32_t Node;  // 0: none

typedef enum {
  NODE_NONE,
  NODE_NUMBER,  // num
  NODE_SIZE,    // elements of a row, as f32
  NODE_VALUE,   // an immediate of the IR
  NODE_MEM,     // element in memory
  NODE_CELL,    // cell in memory, f32 or i64
  NODE_WORD,    // word `op` of the arguments
  NODE_FMA,     // a b + d
  NODE_INS,     // pointwise instruction v of the arguments
  NODE_SUM,     // cell: sum of the elements
  NODE_DOT,     // cell: sum of a b
  NODE_MAX,     // cell: maximum, NaN wins
  NODE_TOP,     // cell: maximum of what is no NaN
  NODE_LABEL,   // cell: a class, or -1 where it is none or ignored; `op`: bits below
  NODE_VALID,   // cell: 1 for a label that is one, else 0
  NODE_HIT,     // element: 1 at the label's place, else 0
  NODE_PICK,    // cell: the element in memory at the label's place
} NodeKind;

enum { LABEL_REPORTS = 1, LABEL_IGNORES = 2 };  // what is no class; the label `num`

typedef struct {
  uint8_t kind;
  bool elem, live, keep;
  uint16_t op;
  uint8_t n_args;
  Node arg[3];
  Val v;           // MEM, CELL, VALUE, INS
  uint32_t shown;  // MEM, CELL: rank of the shape that it is broadcast to
  double num;
  uint32_t level;  // elements: the sweep that can make it; cells: the sweep before which it is there
  // in code
  LLVMValueRef row;    // MEM: the row at hand
  LLVMValueRef cell;   // cells: the scalar; elements in memory that do not move: none
  LLVMValueRef kept;   // row buffer
  LLVMValueRef value;  // elements: the vector at hand, of pass `stamp`
  uint32_t stamp;
} RowNode;

typedef struct {
  Node lse, logits, top, exps, sum;  // of an nll_rows in the kernel, for its gradient
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

// A row kernel while its code is made. Lanes of a vector are neighbours in a row; or, `across`, one element of as many
// neighbouring rows: then cells are vectors too, and what lies in memory is turned (turn.h) before and after. Rows
// along another axis than the last stand `upright`: neighbouring rows lie side by side, and nothing is turned.
typedef struct {
  RowGraph g;
  Cg *c;
  LLVMValueRef size;             // elements of a row
  LLVMValueRef index, element;   // the (first) row at hand; its first element
  LLVMValueRef outer[MAX_RANK];  // its index by axis, made when wanted
  uint32_t last, stamp, n_kept;
  int64_t bound;         // of size
  LLVMValueRef i, mask;  // of the vector at hand; mask NULL: all lanes
  Columns columns;
  bool across, upright;
  LLVMValueRef side;           // rows that stand side by side, `side` elements from one element of a row to the next
  LLVMValueRef n_rows, there;  // across: of the rows at hand, those that are there; their lanes
  LLVMValueRef *turned;        // across: by instruction, the buffer of a result
} Row;

// row_cells.c
void cg_row_cells(Row *r,
                  uint32_t sweep);  // that are there before a sweep; sums and maxima were made by the one before
LLVMValueRef cg_row_compute(Row *r, const RowNode *n, LLVMValueRef *arg,
                            LLVMValueRef element);          // of a word or instruction
LLVMValueRef cg_row_lanes(Row *r, LLVMTypeRef t);           // 0, 1, 2, ..
bool cg_row_in_order(const RowGraph *g, const RowNode *n);  // the operand steps through all rows one after the other
bool cg_row_is_still(const RowGraph *g, const RowNode *n);  // it is the same for all rows
void cg_row_enter(Row *r);                                  // to the operands of the row at hand

// row_ops.c: the nodes of instruction v, in g->of. false: c->why
bool cg_row_ops(RowGraph *g, Val v);

// row.c
Node cg_row_node(RowGraph *g, RowNode n);             // an equal one if there is one
Node cg_row_operand(RowGraph *g, Val v, uint32_t k);  // of a pointwise instruction: element, cell or number
Node cg_row_cell(RowGraph *g, Val v, uint32_t k);     // operand with the shape of the rows, without their last axis
Node cg_row_weight(RowGraph *g, Val v, uint32_t k);   // operand with the shape of a row
#endif
