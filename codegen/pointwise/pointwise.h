// A pointwise group during emission: state shared by its loop nest (pointwise.c) and by the prologue and epilogue strips
// of products (prologue_epilogue.c).
//
// An Access is a memory operand as seen by the iteration space: an operand axis for each iteration axis (none:
// broadcast), an offset on it (slice), a factor (steps and reversals), and a range outside which the operand has no
// element (pad_axis). The operands of
// a concat share one access: the iteration is split into segments along the concat's axis, one per operand; all concats
// of a group have the same segments (ir_concat_pair_fits). Adjacent iteration axes are merged where every access is
// contiguous over both. The last merged axis is the vector axis.
#ifndef TN_CODEGEN_POINTWISE_POINTWISE_H
#define TN_CODEGEN_POINTWISE_POINTWISE_H

#include "codegen/cg.h"
#include "ir/passes/plan.h"

// Of an instruction; a concat counts as one access, one of columns as one of each
enum { POINTWISE_OPERANDS = IR_MOST_COLUMNS };

// short_rows.c: an operand along rows of a few elements
typedef enum { TURN_NONE, TURN_SAME, TURN_FLAT, TURN_COLUMNS, TURN_NUMBERS, TURN_ROW } TurnKind;

typedef struct {
  Val v;
  Val index;        // gather: i64, a row of v for each row of the iteration; 0: no gather
  Val look_up;      // its instruction
  bool of_numbers;  // rows of one number: v is the index
  // before merging, by iteration axis
  int axis[MAX_RANK];            // operand axis; -1: broadcast
  V offset[MAX_RANK];            // added to the index; NULL: 0
  V factor[MAX_RANK];            // of the index; NULL: 1
  V lo[MAX_RANK], hi[MAX_RANK];  // valid range of the index; NULL: all
  // after merging, by loop axis
  V stride[MAX_RANK], from[MAX_RANK], to[MAX_RANK];
  V base;        // element offset at index 0 of every axis
  bool partial;  // has a range
  bool plain;    // plain broadcast access, shared by all instructions
  bool empty;    // of size 0: no memory, reads as zero
  // current row
  V row;      // pointer
  V row_ok;   // i1: the ranges of outer axes; NULL: true
  V splat;    // stride 0 along the vector axis: the row's value; else NULL
  V tile;     // transposed access: buffer of the current tile, vl x vl; NULL: loaded directly
  V *square;  // its rows in registers; of a turn: its vectors
  // of kernels by turns
  TurnKind turn;
  V turn_stride;  // from one element of a row to the next
  // of a concat
  Val *part;            // by segment: the operand; NULL: not a concat
  V part_table;         // pointers to what is read of them
  V part_at;            // to the current one
  int64_t *part_start;  // {starts}, by segment; NULL: 0;
  V *part_first;        // of its first element
  V *part_pitch;  // {starts}: elements from one row of the operand to the next, by segment; NULL: those of a segment
  V pitch_table;  // the same in memory; the current one
  V pitch_at;
} Access;

// Segments of the iteration along one axis.
typedef struct {
  uint32_t n;           // 0: no segments
  uint32_t axis, loop;  // of the iteration; the loop axis that it is merged into
  Dim *size;            // by segment, along the axis
  V *end;               // by segment, along the loop axis
  V end_table;          // the same in memory, after a leading 0; NULL: segments are straight-line code
  V begin, stop;        // of the current segment
} Segments;

typedef struct {
  Cg *c;
  uint32_t from, to;  // the group: instructions [from, to) of the kernel
  Shape shape;
  uint32_t rank;
  Dim dim[MAX_RANK];
  Access *acc;
  uint32_t n_acc;
  Segments seg;
  V in_range;                          // i1: every start of a slice that the run computes is; NULL: there is none
  int32_t (*use)[POINTWISE_OPERANDS];  // by instruction and operand: access; -1: a register or an immediate
  V *val;                              // by instruction: value of the current vector
  // loop axes
  uint32_t n_loop;
  uint32_t last_of[MAX_RANK];  // last iteration axis merged into it
  V size[MAX_RANK];
  uint32_t lanes;
  bool stores_past_caches;  // whole vectors, at multiples of their size
  V tile_row;               // of the current tile
  bool is_unrolled;         // the current tile is in registers: row `square_row` of it
  uint32_t square_row;
  uint32_t turn;  // elements of a row, of which vectors run across rows: vector `square_row` of a turn; 0: none
  // strips of a product: columns are an axis of their own, unless `is_flat`; index of the current row
  bool by_rows, is_flat;
  V at_row;
  // epilogue of a product, instruction `from`: its current row, which begins at column `from_column`
  bool is_epilogue;
  V product, from_column;
  Val back;  // stored instead of the product; none
} Pointwise;

// c, from, to, by_rows, is_flat and is_epilogue are set. false: c->why.
bool cg_pointwise_collect(Pointwise *p);
void cg_pointwise_merge(Pointwise *p);
// Sets the outer indices from the flat index of a row, and every access to that row.
void cg_pointwise_split(Pointwise *p, V row, V *index);
void cg_pointwise_split_axes(Pointwise *p, V flat, uint32_t n_axes, V *index);  // likewise of the first n_axes axes
void cg_pointwise_enter(Pointwise *p, const V *index);
// Emits `body` for each segment in order; once where there are none.
typedef void SegmentBody(Pointwise *p, void *ctx);
void cg_pointwise_each_segment(Pointwise *p, SegmentBody *body, void *ctx);
void cg_pointwise_enter_segment(Pointwise *p, const V *index);
bool cg_pointwise_stores(const Pointwise *p);  // does any instruction of the group store?
// One vector at index i of a row that begins at flat element `row`: p->val. mask NULL: all lanes.
void cg_pointwise_compute(Pointwise *p, V row, V i, V mask);
// Then what the kernel stores of it.
void cg_pointwise_vector(Pointwise *p, V row, V i, V mask);

// Vector j of n columns that lie one between the other
V cg_pointwise_interleaved(Pointwise *p, const V *column, uint32_t n, uint32_t j);
V cg_pointwise_repeated(Pointwise *p, V x, uint32_t n, uint32_t j);  // likewise of n that are x
int64_t cg_pointwise_axis_bound(const Pointwise *p, uint32_t g);     // elements along loop axis g, at most

// ---- short_rows.c, after cg_pointwise_merge: rows of a few elements as an axis of their own are so no more; false: they stay
bool cg_pointwise_plan_short_rows(Pointwise *p);
void cg_pointwise_emit_short_rows(Pointwise *p);

// ---- by_dtype.c
// Instruction v of these operands, in their dtype; element: its elements' numbers, for random ones
V cg_pointwise_of_any(Cg *c, Val v, V *arg, V element);
V cg_constant_like(Cg *c, Val v, LLVMTypeRef lanes);  // a `const` or `full` in the type `lanes`

// ---- concat.c: the kernel is a concat alone, of short constant runs
bool cg_is_run_copy(const Cg *c);
bool cg_emit_concat(Cg *c);

// ---- look_up.c
// Are all indices of rows [lo, hi), of rows of one number those of elements [from, to) of these, in range? Those that are not
// are reported. NULL: nothing is looked up.
V cg_pointwise_check_rows(Pointwise *p, V lo, V hi, V from, V to);
void cg_pointwise_check_empty(Pointwise *p);  // likewise of a kernel of no elements, whose rows have none
V cg_look_up_numbers(Pointwise *p, const Access *a, V index, V mask);
void cg_pointwise_enter_table(Pointwise *p, Access *a, const V *index);

// ---- slice_start.c: start + at of slice and slice_assign. *in_range: i1, where only the run can tell
// whether all elements of the slice exist; what it reports. Else NULL.
LLVMValueRef cg_slice_start(Cg *c, Val v, LLVMValueRef *in_range);

#endif
