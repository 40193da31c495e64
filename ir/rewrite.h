// The rewrite library: what a pass that changes instructions needs. Two ways to change a function:
//
// 1. Rebuild. ir_rewrite_begin empties the function and keeps the old instructions readable; ir_rewrite_copy appends
//    one of them, with its operands as they are now; what the pass emits in between is new. `map` says what each old
//    value became: ir_rewrite_replace replaces all uses that follow.
//
//      for (uint32_t i = 1; i < e.n_old; i++)
//        if (e.old[i].op != OP_result) ir_rewrite_copy(&e, (Val){i});
//
// 2. Edit in place. ir_set_* change one instruction whose results keep their types; ir_eliminate_dead removes what
//    nobody reads any more.
//
// Operands and attributes are slices of the function's arrays, which old instructions share: an edit gives the
// instruction a slice of its own. Every change drops the facts of the function (ir/passes/facts.def).
#ifndef TN_IR_REWRITE_H
#define TN_IR_REWRITE_H

#include "ir/ir.h"

// ---- rebuilding a function
typedef struct {
  Fn *f;
  Ins *old;  // the old instructions
  uint32_t n_old;
  Val *map;          // old value -> new value
  bool *is_version;  // by old value: it lies in a parameter's storage
} Rewrite;
void ir_rewrite_begin(Rewrite *e, Fn *f);               // f becomes empty; old instructions stay readable through e
Val ir_rewrite_copy(Rewrite *e, Val old);               // appends a copy with mapped operands (results too)
void ir_rewrite_replace(Rewrite *e, Val old, Val now);  // uses of every result of `old` that follow read those of `now`
void ir_rewrite_end(Rewrite *e);

static inline const Ins *ir_rewrite_old(const Rewrite *e, Val old) { return &e->old[old.i]; }
static inline Val ir_rewrite_old_arg(const Rewrite *e, Val old, uint32_t k) {
  return e->f->args[e->old[old.i].args + k];
}
const Attr *ir_rewrite_old_attr(const Rewrite *e, Val old, Key k);  // NULL: absent
static inline Val ir_rewrite_arg(const Rewrite *e, Val old,
                                 uint32_t k) {  // what operand k of an old instruction became
  return e->map[ir_rewrite_old_arg(e, old, k).i];
}

// ---- editing one instruction in place; its results keep their types
void ir_set_arg(Fn *f, Val v, uint32_t k, Val a);
void ir_set_args(Fn *f, Val v, const Val *args, uint32_t n);  // args may lie in f->args
void ir_set_attr(Fn *f, Val v, Attr a);                       // replaces the one of this key, or adds it
void ir_unset_attr(Fn *f, Val v, Key k);
void ir_set_op(Fn *f, Val v, Op op);  // of as many results

// ---- metadata: what a new value takes over from the one that it replaces
static inline void ir_copy_origin(Ins *to, const Ins *from) {
  to->scope = from->scope, to->origin = from->origin, to->backward_of = from->backward_of;
  to->is_adjoint = from->is_adjoint;
}
static inline void ir_copy_metadata(Ins *to, const Ins *from) {
  ir_copy_origin(to, from);
  to->name = from->name, to->loc = from->loc;
}

// ---- uses: operands that name a value; `result` records are none of their head
typedef struct {
  uint32_t *first;  // by value, n_ins + 1 of them
  uint32_t *user;   // user[first[v] .. first[v + 1]) read v, in order, as often as they do
} UseLists;
uint32_t *ir_count_uses(const Fn *f);  // by value
UseLists ir_use_lists(const Fn *f);

// ---- dead code elimination
bool ir_has_effect(const Fn *f, Val v);  // kept even if nothing reads it: an effect, or a write into a parameter
void ir_eliminate_dead(Fn *f);
// By value, of a function whose writes in place are no new versions yet: is it read, or an effect? In memory of the program.
bool *ir_live_as_built(const Fn *f);

#endif
