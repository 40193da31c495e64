// Part of pass schedule: what is pointwise of inputs, parameters and constants, and read by one product's epilogue alone, is
// computed there.
//
//   %g = sigmoid %x : f32[n,64]        level 1, stored until layer 9    ->   level 9, a source in the kernel of %p
//   %p = linear %h, %w : f32[n,64]     level 9
//   %y = mul %p, %g : f32[n,64]        level 9, the epilogue of %p
//
// It takes no longer: each element is computed once as before, and neither stored nor loaded. n layers of that kind need no
// more memory than one. Of slices of inputs, which are copies, the one that is read lies there already; pass schedule
// brings it close (postpone.c).
//
// So is the mask of a value that is stored anyway: relu's gradient asks where its result is above 0.
//
//   %m = gt %h, 0                      level 2, stored until layer 9    ->   level 9, a source in the kernel of %p
//   %p = linear %g, %w  %d = select %m, %p, 0                                where a later kernel reads %h, too
//
// And what is cheap to make of a value that others read later, where the mask alone reads it:
//
//   %h = relu (add (mul %x, %s), %b)  %m = gt %h, 0  %d = select %m, %p, 0       where a later kernel reads %x
//
// Which epilogue reads a value is known when its readers have their levels, so sources are assumed, and levels are found
// again without those that were none.
#include "ir/fn.h"
#include "ir/passes/fusion/schedule.h"
#include "ir/storage.h"
#include <string.h>

enum { MAX_SOURCES = 6 };  // of a product

static OpClass class_of(const Fn *f, uint32_t i) { return (OpClass)ir_ops[f->ins[i].op].cls; }

static bool is_own_value(const Fn *f, uint32_t i) {
  const Ins *ins = &f->ins[i];
  return class_of(f, i) == CLASS_POINTWISE && !(ir_ops[ins->op].flags & (EFFECT | WRITES)) && ins->n_res == 1 &&
         ins->dtype == DT_F32;
}

// Needs nothing that a kernel of this function makes, but for copies of what is there. ready: of the operands.
static bool is_ready(const Schedule *s, const bool *written, const bool *ready, uint32_t i) {
  const Fn *f = s->f;
  if (ir_is_stored_leaf(f, (Val){i})) return !written[i];
  if (ir_is_immediate(f, (Val){i})) return true;
  OpClass cls = class_of(f, i);
  if (cls != CLASS_VIEW && cls != CLASS_INDEX && !is_own_value(f, i)) return false;
  for (uint32_t k = 0; k < f->ins[i].n_args; k++) {
    uint32_t a = ir_arg(f, (Val){i}, k).i;
    if (!ready[a] || (cls != CLASS_POINTWISE && s->may_be_source[ir_view_base(f, (Val){a}).i])) return false;
  }
  return true;
}

static Val masked_of(const Fn *f, uint32_t i) { return is_own_value(f, i) ? ir_masked_of(f, (Val){i}) : (Val){0}; }

// Cheap, and read by one candidate alone, which is a mask or such a value itself.
static bool is_for_mask(const Schedule *s, uint32_t i) {
  const Fn *f = s->f;
  if (s->first[i] + 1 != s->first[i + 1] || !is_own_value(f, i) || !ir_is_cheap_op((Op)f->ins[i].op)) return false;
  uint32_t reader = s->readers[s->first[i]];
  bool may_be = s->may_be_source[reader] && (s->for_mask[reader] || !ir_none(masked_of(f, reader)));
  return may_be && !s->fused_into[i] && f->ins[reader].shape.i == f->ins[i].shape.i;
}

void ir_find_sources(Schedule *s) {
  const Fn *f = s->f;
  RtArena *mem = f->prog->mem;
  bool *written = rt_alloc(mem, f->n_ins), *ready = rt_alloc(mem, f->n_ins);
  s->may_be_source = rt_alloc(mem, f->n_ins);
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t k = 0; (ir_ops[f->ins[i].op].flags & WRITES) && k < ir_ops[f->ins[i].op].n_res; k++)
      written[ir_storage_root(f, ir_arg(f, (Val){i}, k)).i] = true;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op == OP_result) continue;
    ready[i] = is_ready(s, written, ready, i);
    bool is_candidate = (ready[i] && is_own_value(f, i)) || !ir_none(masked_of(f, i));
    s->may_be_source[i] = is_candidate && !s->fused_into[i] && s->first[i] != s->first[i + 1];
  }
  s->for_mask = rt_alloc(mem, f->n_ins);
  for (uint32_t i = f->n_ins - 1; i > 0; i--)
    if (!s->may_be_source[i] && is_for_mask(s, i)) s->may_be_source[i] = s->for_mask[i] = true;
}

bool ir_is_source(const Schedule *s, Val v) { return s->may_be_source[v.i] && s->anchor[v.i]; }

// The epilogue of `anchor` reads v.
void ir_raise_source(Schedule *s, uint32_t anchor, Val v) {
  if (!s->may_be_source[v.i] || s->anchor[v.i] || !ir_is_product(s->f, (Val){anchor})) return;
  s->anchor[v.i] = anchor;
  s->level[v.i] = s->level[anchor];
  ir_note_reads(s, v);
  for (uint32_t k = 0; k < ir_ins(s->f, v)->n_args; k++) ir_raise_source(s, anchor, ir_arg(s->f, v, k));
}

// a is read at the level of the product, or later, by others.
static bool lives_anyway(const Schedule *s, Val v, Val a) {
  if (ir_is_stored_leaf(s->f, a) || s->may_be_source[a.i]) return true;
  for (uint32_t k = s->first[a.i]; k < s->first[a.i + 1]; k++)
    if (s->readers[k] != v.i && ir_makes_kernel(s->f, (Val){s->readers[k]}) &&
        s->level[s->readers[k]] >= s->level[s->anchor[v.i]])
      return true;
  return false;
}

// Of what a mask is of, and of what that is made of, nothing lives on for the source's sake but what is small.
static bool keeps_nothing(const Schedule *s, Val v) {
  Val masked = masked_of(s->f, v.i);
  if (!ir_none(masked)) return lives_anyway(s, v, masked);
  for (uint32_t k = 0; s->for_mask[v.i] && k < ir_ins(s->f, v)->n_args; k++) {
    Val a = ir_arg(s->f, v, k);
    if (ir_ins(s->f, a)->shape.i == ir_ins(s->f, v)->shape.i && !lives_anyway(s, v, a)) return false;
  }
  return true;
}

// Every reader is behind the product, element by element; what v reads is there before the product, or a source too.
static bool is_sound(const Schedule *s, Val v) {
  const Fn *f = s->f;
  uint32_t anchor = s->anchor[v.i];
  Shape shape = ir_ins(f, v)->shape;
  if (!anchor || shape.i != f->ins[anchor].shape.i || !keeps_nothing(s, v)) return false;
  for (uint32_t k = s->first[v.i]; k < s->first[v.i + 1]; k++) {
    uint32_t r = s->readers[k];
    if (r == anchor || s->anchor[r] != anchor || s->fused_into[r] || class_of(f, r) != CLASS_POINTWISE) return false;
    if (f->ins[r].shape.i != shape.i) return false;
  }
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) {
    Val a = ir_arg(f, v, k);
    if (s->may_be_source[a.i] ? s->anchor[a.i] != anchor : !ir_is_before_anchor(s, a, anchor)) return false;
  }
  return true;
}

// From the last value to the first: one whose reader was found to be no source is none either. Close to the product are
// those that stay where there are too many.
bool ir_check_sources(Schedule *s) {
  const Fn *f = s->f;
  uint32_t *n_sources = rt_alloc(f->prog->mem, f->n_ins * sizeof *n_sources);  // by product
  bool good = true;
  for (uint32_t i = f->n_ins - 1; i > 0; i--) {
    if (!s->may_be_source[i] || (is_sound(s, (Val){i}) && n_sources[s->anchor[i]]++ < MAX_SOURCES)) continue;
    s->may_be_source[i] = good = false;
    s->anchor[i] = 0;
  }
  return good;
}

void ir_drop_sources(Schedule *s) { memset(s->may_be_source, 0, s->f->n_ins); }
