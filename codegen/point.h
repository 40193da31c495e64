// A pointwise group as it is emitted: what its kernel's loops (point.c) and pieces of rows (rows.c) share.
//
// An Access is one operand in memory as the iteration sees it: an operand axis for each iteration axis (none:
// broadcast), an offset on it (slice), and a range outside which the operand has no element (pad_axis, concat).
// Adjacent iteration axes are merged where every access steps through both as one. The last merged axis is the vector
// axis.
#ifndef TN_CODEGEN_POINT_H
#define TN_CODEGEN_POINT_H

#include "codegen/cg.h"

enum { POINT_OPERANDS = 16 };

typedef struct {
  Val v;
  Val index;  // i64, a row of v for each row of the iteration; 0: v is read by the iteration's own indices
  // as built, by iteration axis
  int axis[MAX_RANK];                       // operand axis; -1: broadcast
  LLVMValueRef offset[MAX_RANK];            // added to the index; NULL: 0
  LLVMValueRef lo[MAX_RANK], hi[MAX_RANK];  // the operand has elements for indices in [lo, hi) only; NULL: for all
  // merged, by loop axis
  LLVMValueRef stride[MAX_RANK], from[MAX_RANK], to[MAX_RANK];
  LLVMValueRef base;  // element offset where every index is 0
  bool partial;       // has a range
  bool plain;         // a broadcast read, which all instructions share
  bool empty;         // of no size: no memory, and zero wherever it is read
  // in the row at hand
  LLVMValueRef row;     // pointer
  LLVMValueRef row_ok;  // i1: the ranges of outer axes; NULL: true
  LLVMValueRef same;    // the row's one value, splat, when it does not move along the vector axis; NULL
  LLVMValueRef tile;    // buffer of the square at hand, vl rows of vl; NULL: read where it lies
} Access;

typedef struct {
  Cg *c;
  uint32_t from, to;  // the group: instructions [from, to) of the kernel
  Shape shape;
  uint32_t rank;
  Dim dim[MAX_RANK];
  Access *acc;
  uint32_t n_acc;
  int32_t (*use)[POINT_OPERANDS];  // by instruction and operand: access; -1: a register or an immediate
  LLVMValueRef *val;               // by instruction: the vector at hand
  // loop axes
  uint32_t n_loop;
  uint32_t last_of[MAX_RANK];  // last iteration axis merged into it
  LLVMValueRef size[MAX_RANK];
  uint32_t lanes;
  LLVMValueRef tile_row;  // of the square at hand
  // on pieces of rows: columns are an axis of their own; the number of the row at hand
  bool by_rows;
  LLVMValueRef at_row;
  // behind a product, which is instruction `from`: its row at hand, which begins at column `from_column`
  bool behind;
  LLVMValueRef product, from_column;
  Val back;  // stored in its place; none
} Point;

static inline bool cg_is_int(LLVMValueRef v, int64_t want) {
  return LLVMIsAConstantInt(v) && LLVMConstIntGetSExtValue(v) == want;
}

// c, from, to, by_rows and behind are set. false: c->why.
bool cg_point_collect(Point *p);
void cg_point_merge(Point *p);
// The indices of a row by its number, and every access at that row.
void cg_point_split(Point *p, LLVMValueRef row, LLVMValueRef *index);
void cg_point_enter(Point *p, const LLVMValueRef *index);
bool cg_point_stores(const Point *p);  // has any instruction of the group memory?
// One vector at index i of a row that begins at flat element `row`: p->val. mask NULL: all lanes.
void cg_point_compute(Point *p, LLVMValueRef row, LLVMValueRef i, LLVMValueRef mask);
// Then what the kernel stores of it.
void cg_point_vector(Point *p, LLVMValueRef row, LLVMValueRef i, LLVMValueRef mask);

#endif
