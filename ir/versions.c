// Pass versions: writes in place become new values, so that everything after is pure SSA and gradients are right by construction.
//
//   %d = stop_grad %x : f32[4]                %d = stop_grad %x : f32[4]
//   %r = relu %d : f32[4]                     %r = relu %d : f32[4]
//   write %d, %r                      ->      overwritten %x, %r
//   %y = neg %x : f32[4]                      %y = neg %r : f32[4]
//
// A value and its views are aliases of one root. A write to any of them makes a new version of the root: reshapes and
// permutations are undone, a slice becomes slice_assign. A later read of an alias is made anew from the current version.
// clone starts a root of its own with the same content: nothing is copied here; pass copies decides where one is needed.
// A write to a parameter also goes to its storage (assign, or the partial write itself).
#include "ir/ir.h"

typedef struct {
  Edit e;
  Fn *f;
  Prog *p;
  Val *now;         // by old root: its content (new numbering)
  uint32_t *made;   // by old root: number of writes so far
  uint32_t *seen;   // by old value: `made` of its root when its mapping was made
} Versions;

static bool is_alias(Op op) {
  return op == OP_reshape || op == OP_stop_grad || op == OP_slice || op == OP_permute || op == OP_expand;
}

static const Ins *old_ins(const Versions *s, Val v) { return &s->e.old[v.i]; }
static Val old_arg(const Versions *s, Val v, uint32_t k) { return s->f->args[old_ins(s, v)->args + k]; }

static Val root_of(const Versions *s, Val v) {
  while (is_alias(old_ins(s, v)->op)) v = old_arg(s, v, 0);
  return v;
}

// The current content of an old value.
static Val read(Versions *s, Val v) {
  Val root = root_of(s, v);
  if (s->seen[v.i] == s->made[root.i]) return s->e.map[v.i];
  s->seen[v.i] = s->made[root.i];
  if (v.i == root.i) return s->e.map[v.i] = s->now[v.i];
  s->e.map[old_arg(s, v, 0).i] = read(s, old_arg(s, v, 0));
  return ir_edit_copy(&s->e, v);
}

static Val emit1(Versions *s, Op op, Val a, Attr attr, Loc loc) { return ir_emit(s->f, op, &a, 1, &attr, 1, loc); }

static Val unpermute(Versions *s, Val v, Val x, Loc loc) {
  Shape perm = {0};
  for (uint32_t k = 0; k < old_ins(s, v)->n_attrs; k++)
    if (s->f->attrs[old_ins(s, v)->attrs + k].key == KEY_perm) perm = s->f->attrs[old_ins(s, v)->attrs + k].u.list;
  int64_t inverse[MAX_RANK];
  uint32_t r = ir_rank(s->p, perm);
  for (uint32_t k = 0; k < r; k++) inverse[ir_list_at(s->p, perm, k)] = k;
  return emit1(s, OP_permute, x, ir_a_list(KEY_perm, ir_shape_ints(s->p, inverse, r)), loc);
}

static int64_t old_attr(const Versions *s, Val v, Key key) {
  for (uint32_t k = 0; k < old_ins(s, v)->n_attrs; k++)
    if (s->f->attrs[old_ins(s, v)->attrs + k].key == key) return s->f->attrs[old_ins(s, v)->attrs + k].u.i;
  return 0;
}

static void report(Versions *s, uint16_t id, Loc at, const char *text, Val v) {
  Loc made = old_ins(s, v)->loc;
  rt_diag(&s->p->diags, RT_ERROR, id, ir_loc_file(s->p, at), ir_loc_line(s->p, at), "%s", text);
  rt_diag(&s->p->diags, RT_NOTE, 0, ir_loc_file(s->p, made), ir_loc_line(s->p, made), "it was made here");
}

// What the operand of alias v holds once v holds x.
static Val through_alias(Versions *s, Val v, Val x, bool into_param, Loc loc) {
  Val parent = old_arg(s, v, 0);
  switch (old_ins(s, v)->op) {
  case OP_reshape: return emit1(s, OP_reshape, x, ir_a_list(KEY_shape, old_ins(s, parent)->shape), loc);
  case OP_permute: return unpermute(s, v, x, loc);
  case OP_slice: {
    Attr attr[3] = {ir_a_int(KEY_axis, old_attr(s, v, KEY_axis)), ir_a_int(KEY_start, old_attr(s, v, KEY_start)), ir_a_int(KEY_into_param, 1)};
    return ir_emit(s->f, OP_slice_assign, (Val[]){read(s, parent), x}, 2, attr, into_param ? 3 : 2, loc);
  }
  case OP_expand: report(s, E_SHAPE, loc, "a write through a broadcast view", v); return read(s, parent);
  default: return x;
  }
}

static bool is_trainable(const Versions *s, Val root) {
  return old_ins(s, root)->op == OP_param && s->p->params[old_attr(s, root, KEY_param)].trainable;
}

// The parameter's storage gets the new content unless a partial write has put it there.
static Val store_param(Versions *s, Val root, Val x, Loc loc) {
  Val at = ir_root(s->f, x);
  bool there = s->f->ins[at.i].op == OP_param && ir_attr_int(s->f, at, KEY_param, -1) == old_attr(s, root, KEY_param);
  return there ? x : ir_op2(s->f, OP_assign, s->now[root.i], x, loc);
}

static void write_value(Versions *s, Val mark) {
  Val v = old_arg(s, mark, 0), root = root_of(s, v), x = read(s, old_arg(s, mark, 1));
  Loc loc = old_ins(s, mark)->loc;
  bool no_grad = old_attr(s, mark, KEY_no_grad) != 0, param = old_ins(s, root)->op == OP_param;
  if (is_trainable(s, root) && !no_grad) {
    report(s, E_WRITE_LEAF, loc, "a trainable parameter is written in place outside a no-grad region", root);
    return;
  }
  Val before = read(s, root);
  if (no_grad) x = ir_op1(s->f, OP_stop_grad, x, loc);
  for (Val a = v; a.i != root.i; a = old_arg(s, a, 0)) x = through_alias(s, a, x, param && old_ins(s, old_arg(s, a, 0))->op == OP_param, loc);
  if (param) x = store_param(s, root, x, loc);
  ir_emit(s->f, OP_overwritten, (Val[]){before, x}, 2, NULL, 0, loc);
  s->now[root.i] = x;
  s->made[root.i]++;
}

static void step(Versions *s, Val v) {
  const Ins *ins = old_ins(s, v);
  s->f->cur_scope = ins->scope;
  if (ins->op == OP_write) {
    write_value(s, v);
    return;
  }
  for (uint32_t k = 0; k < ins->n_args; k++) {
    Val a = old_arg(s, v, k);
    s->e.map[a.i] = read(s, a);
  }
  Val made = ins->op == OP_clone ? s->e.map[old_arg(s, v, 0).i] : ir_edit_copy(&s->e, v);
  s->e.map[v.i] = made;
  for (uint32_t k = 0; k < (ins->n_res ? ins->n_res : 1u); k++) {
    Val r = {v.i + k};
    s->now[r.i] = s->e.map[r.i];
    s->seen[r.i] = s->made[root_of(s, r).i];
  }
}

bool ir_pass_versions(Fn *f) {
  RtArena *mem = f->prog->mem;
  uint32_t errors = f->prog->diags.n_errors, scope = f->cur_scope;
  bool any = false;
  for (uint32_t i = 1; i < f->n_ins; i++) any |= f->ins[i].op == OP_write || f->ins[i].op == OP_clone;
  if (!any) return true;
  Versions s = {.f = f, .p = f->prog};
  ir_edit_begin(&s.e, f);
  s.now = rt_alloc(mem, s.e.n_old * sizeof *s.now);
  s.made = rt_alloc(mem, s.e.n_old * sizeof *s.made);
  s.seen = rt_alloc(mem, s.e.n_old * sizeof *s.seen);
  for (uint32_t i = 1; i < s.e.n_old; i++)
    if (s.e.old[i].op != OP_result) step(&s, (Val){i});
  f->cur_scope = scope;
  ir_edit_end(&s.e);
  return f->prog->diags.n_errors == errors;
}
