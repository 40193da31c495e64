// Fused updates: an optimizer update in the epilogue of the product that computes its gradient.
//
//   %g = matmul %dy, %x {ta}         k7
//   %w1, .. = adamw %w, .., %g       k7      %g has no other use: it is not stored
//
// Other kernels of the product's level may read the old parameter, as the gradient of %x reads %w. So a product with a
// fused update is scheduled last in its level, and the update needs no level of its own.
#include "ir/intern.h"
#include "ir/passes/fusion/schedule.h"
#include "ir/storage.h"

enum { MAX_CHAIN = 8 };

// A smaller gradient stays in cache, and its update is batched with other updates.
static bool is_large(const Fn *f, Val v) {
  return ir_shape_bound(f->prog, ir_ins(f, v)->shape) >= ir_f32_in(f->prog->target.update_bytes);
}

// The products from which a gradient is computed elementwise: one of them may be the anchor of its update.
static void mark_products(const Schedule *s, Val g, uint32_t depth) {
  const Fn *f = s->f;
  if (ir_is_product(f, g)) s->has_update[g.i] = true;
  if (ir_ops[ir_ins(f, g)->op].cls != CLASS_POINTWISE || depth == MAX_CHAIN) return;
  for (uint32_t k = 0; k < ir_ins(f, g)->n_args; k++)
    if (ir_ins(f, ir_arg(f, g, k))->shape.i == ir_ins(f, g)->shape.i) mark_products(s, ir_arg(f, g, k), depth + 1);
}

void ir_find_updates(Schedule *s) {
  for (uint32_t i = 1; i < s->f->n_ins; i++) {
    if (s->f->ins[i].op == OP_result) continue;
    Val g = ir_gradient_of(s->f, (Val){i});
    if (!ir_none(g) && is_large(s->f, g)) mark_products(s, g, 0);
  }
}

uint32_t ir_anchor_of_update(const Schedule *s, Val v) {
  const Fn *f = s->f;
  Val g = ir_gradient_of(f, v);
  uint32_t anchor = ir_none(g) ? 0 : s->anchor[g.i];
  if (!anchor || !s->has_update[anchor] || !is_large(f, g) || ir_ins(f, g)->shape.i != f->ins[anchor].shape.i) return 0;
  if (ir_may_fault(f, v) || (ir_writes_param(f, v) && s->writes_from > s->level[anchor])) return 0;
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) {
    Val a = ir_arg(f, v, k);
    if (a.i != g.i && s->level[a.i] >= s->level[anchor]) return 0;
  }
  for (uint32_t k = 0; k < ir_ops[ir_ins(f, v)->op].n_res; k++)
    if (s->after[ir_view_base(f, ir_arg(f, v, k)).i] > 2 * s->level[anchor] + 1) return 0;
  return anchor;
}

// No instruction of the kernel reads or writes a buffer that the update overwrites.
static bool has_no_alias(const Fn *f, const Kernel *k, Val v) {
  for (uint32_t r = 0; r < ir_ops[ir_ins(f, v)->op].n_res; r++) {
    Val root = ir_storage_root(f, ir_arg(f, v, r));
    for (uint32_t i = k->first; i < k->first + k->n; i++)
      for (uint32_t a = 0; a < f->ins[i].n_args; a++)
        if (ir_storage_root(f, ir_arg(f, (Val){i}, a)).i == root.i) return false;
  }
  return true;
}

bool ir_joins_update(const Fn *f, const Kernel *k, uint32_t kernel, Val v) {
  Val g = ir_gradient_of(f, v);
  if (ir_none(g) || !is_large(f, g) || f->kernel_of[g.i] != kernel) return false;
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    if (ir_ops[f->ins[i].op].cls == CLASS_OPTIMIZER) return false;
  for (uint32_t a = 0; a < ir_ins(f, v)->n_args; a++)
    if (ir_arg(f, v, a).i != g.i && f->kernel_of[ir_view_base(f, ir_arg(f, v, a)).i] == kernel) return false;
  return ir_ins(f, g)->shape.i == ir_ins(f, ir_anchor(f, k))->shape.i && has_no_alias(f, k, v);
}
