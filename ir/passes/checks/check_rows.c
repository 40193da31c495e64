// Packed sequences stay apart (ir/rows/): what would mix them, and rows of two layouts that would meet, are refused. Behind this
// pass rows are rows like any others: layouts are marked, and what said whose rows a value has is a view.
//
//   %l = packed_layout %n {time=time, rows=rows}   ->   %l = packed_layout %n {time=time, rows=rows, checked}
//   %d = rows %x, %l                               ->   %d = reshape %x {shape=[rows,3]}
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/passes.h"
#include "ir/rewrite.h"
#include "ir/rows/rows.h"

static void as_view(Fn *f, Val v) {
  Val x = ir_arg(f, v, 0);
  ir_set_args(f, v, &x, 1);
  ir_unset_attr(f, v, KEY_axis);
  ir_set_op(f, v, OP_reshape);
  ir_set_attr(f, v, ir_a_list(KEY_shape, ir_ins(f, v)->shape));
}

bool ir_pass_check_rows(Fn *f) {
  if (!ir_check_rows(f, &f->prog->diags)) return false;
  for (Val v = {1}; v.i < f->n_ins; v.i++) {
    if (ir_has_typed_rows(f, v)) ir_set_attr(f, v, ir_a_int(KEY_checked, 1));
    if (ir_ins(f, v)->op == OP_rows) as_view(f, v);
  }
  return true;
}
