// Pass sparse_updates: the update of a table takes the rows of gradient that its look-up touched, by index, instead of a
// gradient of the table's size that is mostly zeros.
//
//   %g = embedding_grad %w, %index, %rows : f32[5000,256]
//   %w1, %m1, %s1 = adamw %w, %m, %s, %g, %step, %lr, %wd
//   ->
//   %w1, %m1, %s1 = adamw_sparse %w, %m, %s, %index, %rows, %step, %lr, %wd
//
// The meaning is the same to the last bit: rows of equal index add up in order, rows that were not touched are updated
// with a gradient of zero, and what the gradient is multiplied by, if anything, comes last in both. A gradient that
// anything else reads (a norm, an output, a sum with another gradient), or with very wide rows, is made as before.
#include "ir/ir.h"

#include <string.h>

enum { MOST_WIDTH = 16 * 1024 };  // a row's sum waits on the stack

static uint32_t *count_uses(const Fn *f) {
  uint32_t *n = rt_alloc(f->prog->mem, f->n_ins * sizeof *n);
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) n[ir_arg(f, (Val){i}, k).i]++;
  return n;
}

static bool takes_rows(const Fn *f, const uint32_t *uses, Val v) {
  if (ir_ins(f, v)->op != OP_adamw) return false;
  Val g = ir_gradient_of(f, v);
  int64_t width = ir_dim_bound(f->prog, ir_dim_at(f->prog, ir_ins(f, g)->shape, 1));
  return ir_ins(f, g)->op == OP_embedding_grad && uses[g.i] == 1 && width <= MOST_WIDTH;
}

// e->old[i] is an update that takes rows.
static void emit_rows(Rewrite *e, uint32_t i) {
  Fn *f = e->f;
  const Ins old = e->old[i];
  const Val *a = f->args + old.args, *g = f->args + e->old[a[3].i].args;  // g: weight, index, rows
  Val in[9] = {a[0], a[1], a[2], g[1], g[2]};
  uint32_t n = 5;
  Attr attrs[8];
  for (uint32_t k = 4; k < old.n_args; k++) in[n++] = a[k];
  for (uint32_t k = 0; k < n; k++) in[k] = e->map[in[k].i];
  memcpy(attrs, f->attrs + old.attrs, old.n_attrs * sizeof *attrs);
  uint32_t scope = f->cur_scope;
  f->cur_scope = old.scope;
  Val v = ir_emit(f, OP_adamw_sparse, in, n, attrs, old.n_attrs, old.loc);
  f->cur_scope = scope;
  for (uint32_t k = 0; k < old.n_res; k++) {
    const Ins *from = &e->old[i + k];
    Ins *to = ir_ins(f, ir_result(v, k));
    to->name = from->name, to->loc = from->loc, to->scope = from->scope, to->origin = from->origin;
    e->map[i + k] = ir_result(v, k);
  }
}

bool ir_pass_sparse_updates(Fn *f) {
  const uint32_t *uses = count_uses(f);
  bool *rows = rt_alloc(f->prog->mem, f->n_ins), any = false;  // updates, and the gradients that they do without
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (!takes_rows(f, uses, (Val){i})) continue;
    rows[i] = rows[ir_gradient_of(f, (Val){i}).i] = any = true;
  }
  if (!any) return true;
  Rewrite e;
  ir_rewrite_begin(&e, f);
  for (uint32_t i = 1; i < e.n_old; i++) {
    if (e.old[i].op == OP_result) continue;
    if (!rows[i]) ir_rewrite_copy(&e, (Val){i});
    else if (e.old[i].op == OP_adamw) emit_rows(&e, i);
  }
  ir_rewrite_end(&e);
  return true;
}
