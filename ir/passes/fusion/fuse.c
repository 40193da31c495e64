// Pass fuse: forms groups of instructions, each of which becomes a kernel, and orders them.
//
//   %1 = mul %x, %x : f32[n]        k0
//   %2 = add %1, %x : f32[n]        k0      %1 stays in a register unless another kernel reads it
//   %3 = sum %2 {axes=[0]}          k1
//
// What may be together, may_join.c says. Which of the possible groups, these walks say; a group has a place, so that groups
// cannot wait for each other in a circle (groups.h).
//
// 1. From the first instruction to the last: each joins the last of the groups that it waits for, or opens one behind them
//    (place.c).
// 2. From the last to the first: an instruction goes to the group of its readers where that saves a store and no memory is
//    held for longer; a product takes the pointwise group that reads it (readers.c).
// 3. Groups that do not wait for each other are merged: pointwise ones of one shape, row kernels that read the same rows,
//    recurrences of one size, updates of parameters (merge.c). What waits for nothing is made where, or right before, it is read (late.c).
//
// Then groups are ordered (order.c), and neighbours that are alike are merged; another order is taken where less lives at
// once in it (order_memory.c).
#include "ir/passes/fusion/fuse.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"

Val ir_anchor(const Fn *f, const Kernel *k) {
  uint32_t i = k->first;
  bool has_prologue = ir_classes[k->cls].flags & HAS_PROLOGUE;
  while (has_prologue && ir_ops[f->ins[i].op].cls != k->cls) i++;
  return (Val){i};
}

Val ir_moments_of(const Fn *f, const Kernel *k) {
  Val last = ir_head(f, (Val){k->first + k->n - 1});
  return k->cls == CLASS_GEMM && ir_ins(f, last)->op == OP_moments ? last : (Val){0};
}

Val ir_first_of(const Fn *f, const Kernel *k) {
  uint32_t end = k->first + k->n, i = end;
  if (k->cls != CLASS_GEMM) return (Val){0};
  while (i > k->first && f->ins[i - 1].op == OP_output) i--;
  return i > k->first && f->ins[i - 1].op == OP_permute ? (Val){i - 1} : (Val){0};
}

uint32_t ir_end_of_elements(const Fn *f, const Kernel *k) {
  Val moments = ir_moments_of(f, k), first = ir_first_of(f, k);
  if (!ir_none(first)) return first.i;
  return ir_none(moments) ? k->first + k->n : moments.i;
}

// With lists of its own, which what follows does not write.
static Fn *copy_of(const Fn *f) {
  Fn *g = rt_alloc(f->prog->mem, sizeof *g);
  *g = *f;
  ir_copy_lists(g, f);
  return g;
}

bool ir_pass_fuse(Fn *f) {
  if (f->prog->arena_limit && !f->limit_part) f->unordered = copy_of(f);
  Fuse s = {.g = ir_groups(f), .f = f, .late_wait = true};
  uint32_t n;
  ir_place_groups(&s);
  ir_go_to_readers(&s, false);
  ir_take_readers(&s);
  ir_delay_products(&s);
  ir_merge_kinds(&s);
  ir_merge_rows(&s);
  ir_go_to_readers(&s, true);
  ir_copy_fills(&s);
  ir_place_late(&s);
  ir_merge_kinds(&s);
  ir_merge_late(&s);
  uint32_t *list = ir_in_place(&s.g, &n);
  ir_order_groups(&s.g, list, n);
  list = ir_merge_in_order(&s, list, &n);
  ir_emit_groups(&s.g, list, n);
  return true;
}
