// A pointwise group as it is emitted: what its kernel's loops (pointwise.c) and strips (prologue_epilogue.c) share.
//
// An Access is one operand in memory as the iteration sees it: an operand axis for each iteration axis (none:
// broadcast), an offset on it (slice), and a range outside which the operand has no element (pad_axis). The operands of
// a concat are one access: along the concat's axis the iteration is cut into segments, in each of which it is one of
// them; all concats of a group are cut in the same places (ir_concat_fits). Adjacent iteration axes are merged where
// every access steps through both as one. The last merged axis is the vector axis.
#ifndef TN_CODEGEN_POINTWISE_POINTWISE_H
#define TN_CODEGEN_POINTWISE_POINTWISE_H

#include "codegen/cg.h"

enum { POINT_OPERANDS = 3 };  // of an instruction; of a concat one access

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
  // of a concat
  Val *part;                // by segment: the operand; NULL: no concat's
  LLVMValueRef part_table;  // pointers to them
  LLVMValueRef part_at;     // to the one at hand
} Access;

// Cuts of the iteration along one axis.
typedef struct {
  uint32_t n;                // 0: it is not cut
  uint32_t axis, loop;       // of the iteration; the loop axis that it is merged into
  Dim *size;                 // by segment, along the axis
  LLVMValueRef *end;         // by segment, along the loop axis
  LLVMValueRef end_table;    // the same in memory, behind a 0; NULL: the segments are emitted one by one
  LLVMValueRef begin, stop;  // of the one at hand
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
  int32_t (*use)[POINT_OPERANDS];  // by instruction and operand: access; -1: a register or an immediate
  LLVMValueRef *val;               // by instruction: the vector at hand
  // loop axes
  uint32_t n_loop;
  uint32_t last_of[MAX_RANK];  // last iteration axis merged into it
  LLVMValueRef size[MAX_RANK];
  uint32_t lanes;
  LLVMValueRef tile_row;  // of the square at hand
  // on strips: columns are an axis of their own; the number of the row at hand
  bool by_rows;
  LLVMValueRef at_row;
  // behind a product, which is instruction `from`: its row at hand, which begins at column `from_column`
  bool behind;
  LLVMValueRef product, from_column;
  Val back;  // stored in its place; none
} Pointwise;

static inline bool cg_is_int(LLVMValueRef v, int64_t want) {
  return LLVMIsAConstantInt(v) && LLVMConstIntGetSExtValue(v) == want;
}

// c, from, to, by_rows and behind are set. false: c->why.
bool cg_pointwise_collect(Pointwise *p);
void cg_pointwise_merge(Pointwise *p);
// The indices of a row by its number, and every access at that row.
void cg_pointwise_split(Pointwise *p, LLVMValueRef row, LLVMValueRef *index);
void cg_pointwise_enter(Pointwise *p, const LLVMValueRef *index);
// The segments in turn, each entered by `body` at the rows that it works on; once where the iteration is not cut.
typedef void SegmentBody(Pointwise *p, void *ctx);
void cg_point_each_segment(Pointwise *p, SegmentBody *body, void *ctx);
void cg_point_enter_segment(Pointwise *p, const LLVMValueRef *index);
bool cg_pointwise_stores(const Pointwise *p);  // has any instruction of the group memory?
// One vector at index i of a row that begins at flat element `row`: p->val. mask NULL: all lanes.
void cg_pointwise_compute(Pointwise *p, LLVMValueRef row, LLVMValueRef i, LLVMValueRef mask);
// Then what the kernel stores of it.
void cg_pointwise_vector(Pointwise *p, LLVMValueRef row, LLVMValueRef i, LLVMValueRef mask);

#endif
