// Part of pass schedule: a product waits for small values that its epilogue reads.
//
//   %p = linear %x, %w : f32[n,64]            level 1   ->   level 2
//   %s = rsqrt %variance : f32[64]            level 1        level 1
//   %y = mul %p, %s : f32[n,64]               level 2        level 2, the epilogue of %p
//
// There are no more levels than before, one kernel less, and the product is not stored.
#include "ir/intern.h"
#include "ir/passes/fusion/schedule.h"
#include "ir/storage.h"

enum { SMALL_RATIO = 8, MAX_ROUNDS = 4 };

static bool is_small(const Fn *f, Val a, Val v) {
  return ir_shape_bound(f->prog, ir_ins(f, a)->shape) * SMALL_RATIO <= ir_shape_bound(f->prog, ir_ins(f, v)->shape);
}

// The product that v would follow if its other operands were there; 0: none. All of them that are not are small, and
// made by kernels of the product's own level.
static uint32_t product_that_may_wait(const Schedule *s, Val v) {
  const Fn *f = s->f;
  uint32_t product = 0, late = 0;
  if (s->anchor[v.i] || s->fused_into[v.i] || ir_ops[ir_ins(f, v)->op].cls != CLASS_POINTWISE) return 0;
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) {
    Val a = ir_arg(f, v, k);
    bool only_reader = s->first[a.i + 1] - s->first[a.i] == 1;
    if (ir_ins(f, a)->shape.i == ir_ins(f, v)->shape.i && only_reader) product = s->anchor[a.i];
  }
  for (uint32_t k = 0; product && k < ir_ins(f, v)->n_args; k++) {
    Val a = ir_arg(f, v, k), base = ir_view_base(f, a);
    if (s->anchor[a.i] == product || ir_is_before_anchor(s, a, product)) continue;
    if (s->anchor[base.i] || s->level[base.i] != s->level[product] || !is_small(f, a, v)) return 0;
    late++;
  }
  return late && !s->has_update[product] ? product : 0;
}

void ir_wait_for_scales(Schedule *s) {
  for (uint32_t round = 0; round < MAX_ROUNDS; round++) {
    bool any = false;
    for (uint32_t i = 1; i < s->f->n_ins; i++) {
      uint32_t product = s->f->ins[i].op == OP_result ? 0 : product_that_may_wait(s, (Val){i});
      if (!product || s->min_level[product] > s->level[product]) continue;
      s->min_level[product] = s->level[product] + 1;
      any = true;
    }
    if (!any) return;
    ir_find_levels(s);
  }
}
