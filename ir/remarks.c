// Remarks: what a pass refused, kept for those who ask why (tenure why). Programs keep none unless told to.
#include "ir/remarks.h"
#include "ir/ir.h"

void ir_remark(Fn *f, RemarkKind kind, Val v, Val with, const char *why) {
  if (!f->prog->keeps_remarks) return;
  *RT_PUSH(f->prog->mem, f->remarks, f->n_remarks, f->cap_remarks) = (Remark){kind, v, with, why};
}
