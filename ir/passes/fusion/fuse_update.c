// Fused updates: an optimizer update in the epilogue of the product that computes its gradient.
//
//   %g = matmul %dy, %x {ta}         k7
//   %w1, .. = adamw %w, .., %g       k7      %g has no other use: it is not stored
//
// Other kernels of the product's depth may read the old parameter, as the gradient of %x reads %w. So a product with an update is
// the last of its depth (place.c).
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/fusion/groups.h"
#include "ir/passes/plan.h"
#include "ir/storage.h"

// A smaller gradient stays in cache, and its update is batched with other updates.
bool ir_is_large_update(const Fn *f, Val grad) {
  return ir_shape_bound(f->prog, ir_ins(f, grad)->shape) >= ir_f32_in(f->prog->target.update_bytes);
}

bool ir_update_overwrites(const Fn *f, Val update, uint32_t i) {
  for (uint32_t r = 0; r < ir_ops[ir_ins(f, update)->op].n_res; r++) {
    Val root = ir_storage_root(f, ir_arg(f, update, r));
    for (uint32_t a = 0; a < f->ins[i].n_args; a++)
      if (ir_storage_root(f, ir_arg(f, (Val){i}, a)).i == root.i) return true;
  }
  return false;
}

const char *ir_update_bar(const Groups *g, uint32_t to, Val v) {
  const Fn *f = g->f;
  const Group *k = &g->list[to];
  Val grad = ir_gradient_of(f, v);
  if (ir_none(grad) || !ir_is_large_update(f, grad)) return "a small gradient is stored, and updated with others";
  if (g->of[grad.i] != to) return "it reads nothing that the kernel makes";
  if (ir_may_fault(f, v)) return "it may be refused";
  for (uint32_t a = 0; a < ir_ins(f, v)->n_args; a++)
    if (ir_arg(f, v, a).i != grad.i && g->of[ir_head(f, ir_view_base(f, ir_arg(f, v, a))).i] == to)
      return "it reads something else that the kernel makes";
  if (ir_ins(f, grad)->shape.i != f->ins[k->lead].shape.i) return "its shape is not that of the product";
  for (uint32_t i = k->first; i; i = g->next[i])
    if (ir_update_overwrites(f, v, i)) return "the kernel of the product reads what it overwrites";
  return NULL;
}
