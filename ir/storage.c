// What values share a buffer, before buffers are assigned: views and next versions followed to where they begin.
//
//   %1 = reshape %x        ir_view_base(%1) = %x
//   %2 = assign %1, %y     ir_storage_root(%2) = %x
#include "ir/storage.h"
#include "ir/fn.h"
#include "ir/ir.h"
#include "ir/ops.h"

Val ir_view_base(const Fn *f, Val v) {
  while (ir_ops[f->ins[v.i].op].cls == CLASS_VIEW) v = ir_arg(f, v, 0);
  return v;
}

// The value whose storage v has; v itself: its own.
static Val storage_source(const Fn *f, Val v) {
  if (ir_ops[f->ins[v.i].op].cls == CLASS_VIEW) return ir_arg(f, v, 0);
  Val h = ir_head(f, v);
  return ir_ops[f->ins[h.i].op].flags & WRITES ? ir_arg(f, h, v.i - h.i) : v;
}

// A source precedes its aliases, so that each root is one step from a known one.
Val ir_storage_root(const Fn *f, Val v) {
  RootMemo *m = f->roots;
  if (m->ins != f->ins) m->ins = f->ins, m->n = 0;
  for (; m->n <= v.i; f->prog->n_visits++) {
    Val at = {m->n}, from = storage_source(f, at);
    Val root = from.i == at.i ? at : m->root[from.i];
    *RT_PUSH(f->prog->mem, m->root, m->n, m->cap) = root;
  }
  return m->root[v.i];
}

void ir_changed(Fn *f, Val from) {
  f->facts = 0;
  if (f->roots->n > from.i) f->roots->n = from.i;
}

bool ir_is_stored_leaf(const Fn *f, Val v) {
  Op op = (Op)f->ins[v.i].op;
  return op == OP_input || op == OP_param || op == OP_table;
}

bool ir_writes_param(const Fn *f, Val v) {
  const OpInfo *op = &ir_ops[f->ins[v.i].op];
  for (uint32_t k = 0; (op->flags & WRITES) && k < op->n_res; k++)
    if (f->ins[ir_storage_root(f, ir_arg(f, v, k)).i].op == OP_param) return true;
  return false;
}

bool ir_is_product(const Fn *f, Val v) {
  return ir_ops[f->ins[v.i].op].cls == CLASS_GEMM && f->ins[v.i].dtype == DT_F32;
}

bool ir_updates_rows(const Fn *f, Val v) {
  const OpInfo *op = &ir_ops[f->ins[v.i].op];
  return op->cls == CLASS_OPTIMIZER && (op->flags & BY_ROWS || ir_has_operand(f, v, ARG_index));
}

Val ir_gradient_of(const Fn *f, Val update) {
  return ir_updates_rows(f, update) ? (Val){0} : ir_operand(f, update, ARG_grad);
}

// ---- before pass functionalize: a handle names storage
bool ir_is_alias(Op op) { return ir_ops[op].flags & ALIAS; }

Val ir_written_storage(const Fn *f, Val v) {
  while (ir_is_alias(f->ins[v.i].op)) v = ir_arg(f, v, 0);
  return v;
}

bool ir_is_whole(const Fn *f, Val v) {
  for (; ir_is_alias(f->ins[v.i].op); v = ir_arg(f, v, 0))
    if (f->ins[v.i].op == OP_slice) return false;
  return true;
}

const bool *ir_written_params(const Fn *f) {
  bool *written = rt_alloc(f->prog->mem, f->prog->n_params + 1);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    const OpInfo *op = &ir_ops[f->ins[i].op];
    for (uint32_t k = 0; (op->flags & WRITES) && k < op->n_res; k++) {
      Val root = ir_storage_root(f, ir_arg(f, (Val){i}, k));
      if (f->ins[root.i].op == OP_param) written[ir_attr_int(f, root, KEY_param, 0)] = true;
    }
  }
  return written;
}
