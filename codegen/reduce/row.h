// The expression graph of a row kernel: the computation for one row, before it is split into sweeps (row_graph.c).
//
//   softmax     m = top a    e = exp(a - m)    s = sum e    y = e (1 / s)
//   sweep       0            1                 1            2
//
// A node is an element, evaluated for every vector of the row, or a row scalar, evaluated once per row. A reduction turns
// elements of one sweep into a row scalar; nodes that depend on it belong to a later sweep.
#ifndef TN_CODEGEN_REDUCE_ROW_H
#define TN_CODEGEN_REDUCE_ROW_H

#include "codegen/reduce/column_sum.h"
#include "ir/passes/plan.h"

typedef uint32_t Node;  // 0: none

typedef enum {
  NODE_NONE,
  NODE_NUMBER,     // num
  NODE_SIZE,       // elements of a row, as f32
  NODE_VALUE,      // an immediate of the IR
  NODE_MEM,        // element in memory
  NODE_RUN,        // element: a number in memory for a run of elements
  NODE_SCALAR,     // row scalar in memory, f32 or i64
  NODE_PRIMITIVE,  // primitive `op` of the arguments
  NODE_FMA,        // a b + d
  NODE_INS,        // pointwise instruction v of the arguments
  NODE_SUM,        // row scalar: sum of the elements
  NODE_DOT,        // row scalar: sum of a b
  NODE_MAX,        // row scalar: maximum, NaN wins
  NODE_TOP,        // row scalar: maximum, NaN ignored
  NODE_LABEL,      // row scalar: class index, or -1 if out of range or ignored; `op`: bits below
  NODE_VALID,      // row scalar: 1 for a valid label, else 0
  NODE_ONE_HOT,    // element: 1 at the label's index, else 0
  NODE_GATHER,     // row scalar: the element in memory at the label's index
  NODE_PIVOT,      // row scalar: the row's pivot, of the first `num` places (cascade.h)
} NodeKind;

enum { LABEL_MAY_FAULT = 1, LABEL_IGNORES = 2 };  // an index out of range is reported; label `num` is ignored

typedef struct {
  uint8_t kind;
  bool elem, live, is_buffered;
  bool in_last;  // elements: the last sweep computes it
  uint16_t op;
  uint8_t n_args;
  Node arg[3];
  Val v;                    // MEM, SCALAR, VALUE, INS
  uint32_t broadcast_rank;  // MEM, SCALAR: rank of the shape that it is broadcast to
  RowRun run;               // MEM, RUN, SCALAR: of an operand of elements under another shape; length 0: of none
  double num;
  Val in_result;   // is_buffered: in the row of this result; {0}: on the stack
  uint32_t level;  // elements: first sweep that can compute it; row scalars: available before this sweep
  // during emission
  V row;     // MEM, RUN: pointer to the current row
  V scalar;  // row scalars: the value
  V buffer;  // row buffer, if is_buffered or interleaved
  V value;   // elements: value of the current vector, valid for iteration `stamp`; PIVOT: in all lanes
  uint32_t stamp;
} RowNode;

typedef struct {
  Node lse, logits, top, exps, sum;  // of a cross_entropy_rows in the kernel, reused by its gradient
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

// Emission state. Lanes of a vector are contiguous elements of a row; or, `row_per_lane`, the same element of vl adjacent
// rows: then row scalars are vectors too, and memory operands are interleaved (interleave.h) before and after. `strided`:
// rows along another axis than the last, where adjacent rows are contiguous, and nothing needs to be interleaved.
typedef struct Row {
  RowGraph g;
  Cg *c;
  // Of a part of a kernel: the whole one, which says how sums are split, so that their bits are the same; NULL: this is whole
  struct Row *whole;
  V size;             // elements of a row
  V index, element;   // current (first) row; its first element
  V outer[MAX_RANK];  // its index by axis, computed on demand
  uint32_t last, stamp, n_buffers;
  int64_t bound;  // of size
  V i, mask;      // current vector: first element, mask; NULL: all lanes
  ColumnSums columns;
  bool row_per_lane, strided;
  V stride;          // strided: stride between elements of a row = number of adjacent rows
  bool prefetches;   // strided: each element lies in a page of its own, of which a cache holds none
  V n_rows, active;  // row_per_lane: number of valid rows, and mask of their lanes
  V sums;            // block of partial sums in memory; NULL: not needed
  V *interleaved;    // row_per_lane: by instruction, the buffer of a result
} Row;

// row_scalars.c
// Row scalars that become available before this sweep; reductions were finished by the previous one.
void cg_row_scalars(Row *r, uint32_t sweep);
// The value of a primitive or instruction
V cg_row_compute(Row *r, const RowNode *n, V *arg, V element);
// The operand advances by one row per row of the kernel: no broadcast
bool cg_row_is_dense(const RowGraph *g, const RowNode *n);
bool cg_row_is_invariant(const RowGraph *g, const RowNode *n);  // the operand is the same for all rows
void cg_row_enter(Row *r);                                      // sets the pointers to the operands of the current row

// row_sweep.c: the value of a NODE_PIVOT
V cg_row_pivot(Row *r, RowNode *n);

// row_ops.c: the nodes of instruction v, in g->of. false: c->why
bool cg_row_ops(RowGraph *g, Val v);

static inline RowNode *cg_row_at(Row *r, Node n) { return &r->g.node[n]; }

// row_graph.c
Node cg_row_node(RowGraph *g, RowNode n);             // hash-consed: an equal node is reused
Node cg_row_operand(RowGraph *g, Val v, uint32_t k);  // of a pointwise instruction: element, row scalar or number
Node cg_row_scalar(RowGraph *g, Val v, uint32_t k);   // operand with the shape of the rows, without their last axis
Node cg_row_weight(RowGraph *g, Val v, uint32_t k);   // operand with the shape of a row
Node cg_row_node_of(Row *r, Val v);                   // v: an instruction of the kernel
Node cg_row_summed(Row *r, uint32_t j);               // the operand of column sum j
bool cg_row_in_kernel(const RowGraph *g, Val v);
bool cg_row_has_elements(const RowGraph *g, Shape s);  // of the rows, in their order
bool cg_row_is_weight(const RowGraph *g, Val v);       // of strided rows: a number for each place in a row
bool cg_row_is_reduction(const RowNode *n);
bool cg_row_is_shaped(Row *r, Val v);                  // is v elements of the rows?
bool cg_row_is_stored(Row *r, Val v);                  // a result of the kernel; column sums excepted
uint32_t cg_row_cost(const Row *r, const RowNode *n);  // operations per element, without those of its arguments
void cg_row_assign_sweeps(Row *r);                     // `last`, and which nodes are live and buffered

// row_sweep.c
bool cg_row_is_interleaving(const Row *r);              // row per lane over contiguous rows: operands are interleaved
int64_t cg_row_sums_in_memory(Row *r, uint32_t sweep);  // partial sums of a sweep that may lie in `sums`
void cg_row_sweeps(Row *r);                             // of the current row, or rows
#endif
