// Remarks: what a pass refused and the reason that it decided by. Values are those of the planned function: of
// passes from fuse on.
#ifndef TN_IR_REMARKS_H
#define TN_IR_REMARKS_H

#include "ir/ir.h"

typedef enum {
  REMARK_SPLIT,    // v and `with` were in one kernel until less memory was wanted
  REMARK_FUSE,     // v opens a new kernel instead of joining that of `with`, the value before it
  REMARK_IN_PLACE  // the result v does not take over the slot of the operand `with`
} RemarkKind;
typedef struct Remark {
  RemarkKind kind;
  Val v, with;
  const char *why;
} Remark;
// Does nothing if the program keeps no remarks. `why` lives as long as the program; make it only if
// ir_remarks_are_kept.
void ir_remark(Fn *f, RemarkKind kind, Val v, Val with, const char *why);
static inline bool ir_remarks_are_kept(const Fn *f) { return f->prog->keeps_remarks; }

#endif
