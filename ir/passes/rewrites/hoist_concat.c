// Pass hoist_concat: what is done to every operand of a concat is done to its result.
//
//   %a = relu %x                                   %c = concat %x, %y {axis=1}
//   %b = relu %y                            ->     %r = relu %c
//   %r = concat %a, %b {axis=1}
//
// The elements have the same bits. They are no longer written, read and written again: %r is made in the
// kernel of the concat. Only if nothing else reads the operands, and if each has a single operand of its own:
// two would both have to stay alive.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/rewrite.h"

enum { MAX_DEPTH = 32 };

typedef struct Tree {
  const Val *list;     // the operands of the concat
  Val like;            // the instruction that makes each of them; none: they are used as they are
  uint32_t own;        // its operand that differs
  struct Tree *below;  // and the tree of those
} Tree;

typedef struct {
  Fn *f;
  const uint32_t *uses;
  bool *unmade;
  Tree **tree;  // by concat
  Rewrite e;
  uint32_t n, axis;  // of the concat at hand
} Joins;

static bool is_pure_word(const Fn *f, Val v) {
  const OpInfo *op = &ir_ops[ir_ins(f, v)->op];
  return (op->is_pointwise || ir_ins(f, v)->op == OP_cast) && !(op->flags & (RANDOM | EFFECT | WRITES));
}

// It is the same along the whole axis.
static bool is_shared(const Joins *j, const Val *list, uint32_t k) {
  const Fn *f = j->f;
  Val a = ir_arg(f, list[0], k);
  Shape s = ir_ins(f, a)->shape;
  uint32_t rank = ir_rank(f->prog, s), axis = j->axis + rank, of = ir_rank(f->prog, ir_ins(f, list[0])->shape);
  for (uint32_t i = 1; i < j->n; i++)
    if (ir_arg(f, list[i], k).i != a.i) return false;
  return axis < of || ir_dim_is_one(f->prog, ir_dim_at(f->prog, s, axis - of));
}

// Each part has its own operand, of its own size, which nobody else keeps in a register.
static bool is_own(const Joins *j, const Val *list, uint32_t k) {
  const Fn *f = j->f;
  for (uint32_t i = 0; i < j->n; i++) {
    Val a = ir_arg(f, list[i], k);
    if (ir_ins(f, a)->shape.i != ir_ins(f, list[i])->shape.i) return false;
    if (ir_ins(f, a)->dtype != ir_ins(f, ir_arg(f, list[0], k))->dtype) return false;
    if (j->uses[a.i] != 1 && ir_class_has(ir_ins(f, a)->op, BY_ELEMENT)) return false;
  }
  return true;
}

static bool are_alike(const Joins *j, const Val *list) {
  const Fn *f = j->f;
  const Ins *first = ir_ins(f, list[0]);
  if (!is_pure_word(f, list[0]) || first->n_args == 0) return false;
  for (uint32_t i = 0; i < j->n; i++) {
    const Ins *ins = ir_ins(f, list[i]);
    if (ins->op != first->op || ins->dtype != first->dtype || j->uses[list[i].i] != 1) return false;
    if (!ir_same_attrs(f, list[0], list[i])) return false;
  }
  return true;
}

// The operand that differs between the parts while all others are shared; n_args: there is none.
static uint32_t own_operand(const Joins *j, const Val *list) {
  uint32_t n = ir_ins(j->f, list[0])->n_args, own = n;
  for (uint32_t k = 0; k < n; k++) {
    if (is_shared(j, list, k)) continue;
    if (own != n || !is_own(j, list, k)) return n;
    own = k;
  }
  return own;
}

static Tree *find_tree(Joins *j, const Val *list, uint32_t depth) {
  Fn *f = j->f;
  Tree *t = rt_alloc(f->prog->mem, sizeof *t);
  *t = (Tree){.list = list};
  if (depth == MAX_DEPTH || !are_alike(j, list)) return t;
  uint32_t own = own_operand(j, list);
  if (own == ir_ins(f, list[0])->n_args) return t;
  Val *below = rt_alloc(f->prog->mem, j->n * sizeof *below);
  for (uint32_t i = 0; i < j->n; i++) below[i] = ir_arg(f, list[i], own);
  *t = (Tree){list, list[0], own, find_tree(j, below, depth + 1)};
  return t;
}

static uint32_t first_of(const Tree *t, uint32_t n, uint32_t first) {
  for (; !ir_none(t->like); t = t->below)
    for (uint32_t i = 0; i < n; i++) first = t->list[i].i < first ? t->list[i].i : first;
  return first;
}

// Their operands are unchanged when the concat runs: nothing between overwrites them.
static bool is_calm(const Fn *f, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++)
    if (ir_ops[f->ins[i].op].flags & WRITES) return false;
  return true;
}

static bool plan(Joins *j, Val v) {
  Fn *f = j->f;
  const Ins *ins = ir_ins(f, v);
  if (ins->op != OP_concat || ins->n_args < 2 || ir_attr(f, v, KEY_starts)) return false;
  if (ir_is_interleaved(f, v)) return false;  // columns are made where they are stored
  j->n = ins->n_args, j->axis = (uint32_t)ir_attr_int(f, v, KEY_axis, 0);
  Val *list = rt_alloc(f->prog->mem, j->n * sizeof *list);
  for (uint32_t k = 0; k < j->n; k++) list[k] = ir_arg(f, v, k);
  Tree *t = find_tree(j, list, 0);
  if (ir_none(t->like) || !is_calm(f, first_of(t, j->n, v.i), v.i)) return false;
  j->tree[v.i] = t;
  for (; !ir_none(t->like); t = t->below)
    for (uint32_t k = 0; k < j->n; k++) j->unmade[t->list[k].i] = true;
  return true;
}

static Val emit_tree(Joins *j, const Tree *t, const Ins *concat) {
  Fn *f = j->f;
  const Ins *ins = ir_none(t->like) ? concat : &j->e.old[t->like.i];
  Val *args = rt_alloc(f->prog->mem, (ins->n_args + 1) * sizeof *args);
  if (ir_none(t->like)) {
    for (uint32_t k = 0; k < ins->n_args; k++) args[k] = j->e.map[t->list[k].i];
  } else {
    for (uint32_t k = 0; k < ins->n_args; k++)
      args[k] = k == t->own ? emit_tree(j, t->below, concat) : ir_rewrite_arg(&j->e, t->like, k);
  }
  f->cur_scope = concat->scope;
  return ir_emit_like(f, ins, args, NULL);
}

bool ir_pass_hoist_concat(Fn *f) {
  RtArena *mem = f->prog->mem;
  uint32_t scope = f->cur_scope;
  Joins j = {.f = f, .uses = ir_count_uses(f), .unmade = rt_alloc(mem, f->n_ins)};
  j.tree = rt_alloc(mem, f->n_ins * sizeof *j.tree);
  bool any = false;
  for (uint32_t i = 1; i < f->n_ins; i++) any |= plan(&j, (Val){i});
  if (!any) return true;
  ir_rewrite_begin(&j.e, f);
  for (uint32_t i = 1; i < j.e.n_old; i++) {
    if (j.e.old[i].op == OP_result || j.unmade[i]) continue;
    if (j.tree[i]) j.e.map[i] = emit_tree(&j, j.tree[i], &j.e.old[i]);
    else ir_rewrite_copy(&j.e, (Val){i});
  }
  f->cur_scope = scope;
  ir_rewrite_end(&j.e);
  return true;
}
