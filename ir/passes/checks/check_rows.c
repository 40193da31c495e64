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
#include "ir/text/text.h"

static void as_view(Fn *f, Val v) {
  Val x = ir_arg(f, v, 0);
  ir_set_args(f, v, &x, 1);
  ir_unset_attr(f, v, KEY_axis);
  ir_set_op(f, v, OP_reshape);
  ir_set_attr(f, v, ir_a_list(KEY_shape, ir_ins(f, v)->shape));
}

// A mark that this pass did not make says nothing, and is refused. Halves that pass split_shards made have those from before the
// cut: the passes run on them once more.
static bool check_marks(Fn *f) {
  const Prog *p = f->prog;
  if (f->shard || f->update) return true;
  for (Val v = {1}; v.i < f->n_ins; v.i++) {
    if (ir_ins(f, v)->op != OP_packed_layout || !ir_attr(f, v, KEY_checked)) continue;
    Loc loc = ir_ins(f, v)->loc;
    rt_diag(&f->prog->diags, RT_ERROR, E_VERIFY, ir_loc_file(p, loc), ir_loc_line(p, loc),
            "@%s: %s is {checked}, which pass check_rows says of a layout whose sequences it has seen to stay apart",
            ir_text(p, f->name), ir_value_text(f, v));
    rt_diag(&f->prog->diags, RT_HINT, 0, NULL, 0,
            "leave {checked} out; the text of a function behind the pass takes the passes behind it");
    return false;
  }
  return true;
}

bool ir_pass_check_rows(Fn *f) {
  if (!check_marks(f)) return false;
  if (!ir_check_rows(f, &f->prog->diags)) return false;
  for (Val v = {1}; v.i < f->n_ins; v.i++) {
    if (ir_has_typed_rows(f, v)) ir_set_attr(f, v, ir_a_int(KEY_checked, 1));
    if (ir_ins(f, v)->op == OP_rows) as_view(f, v);
  }
  return true;
}
