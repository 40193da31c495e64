// Pass insert_copies: a partial write (slice_assign, index_assign, assign) goes into its operand's buffer. Where the old
// content is still wanted there, one copy is made before the write, and the dump says who wants it.
//
//   %s = slice_assign %x, %v {..}             %c = copy %x {reader="sum m.c:7"}
//   %r = sum %x {..}                  ->      %s = slice_assign %x, %v {..}
//                                             %r = sum %c {..}
//
// Old content is wanted by a later read, by the caller (an input), or by the module (a parameter that is not the one
// written): in the last two the write itself goes to the copy, as it does for a constant and where one write has two
// targets in one buffer. A write that also reads its target in another order reads a copy of it. A constant tensor is
// rematerialised instead of being copied.
//
// What a run may refuse comes before every change of a parameter (pass fuse), and a write after all reads of the old
// content. Where it takes a write to find out, and one of these reads is such a change or follows it, the write goes to a
// copy, too: no order would do.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/ops.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/rewrite.h"
#include "ir/storage.h"

typedef struct {
  Rewrite e;
  Fn *f;
  Prog *p;
  uint32_t *last;  // by old value: the last instruction that reads its bytes, through views too
  Val *moved;      // by old value: the copy that holds its old content (new numbering); 0: none
  Val *view;       // by old view: the same view of the copy (new numbering); 0: none
  Val *viewed;     // by old view: the copy that it is of, which another write may have replaced
  Val *first;      // by old result of a write: the first version of its storage (new numbering)
  // by old value: the first instruction that reads its bytes and changes a parameter, or depends on such a
  // change; 0: none
  uint32_t *late;
  bool *is_early;  // by old value: an instruction that a run may refuse, and that depends on no change, depends on it
} CopyInsertion;

static const Ins *old_ins(const CopyInsertion *s, Val v) { return ir_rewrite_old(&s->e, v); }
static Val old_arg(const CopyInsertion *s, Val v, uint32_t k) { return ir_rewrite_old_arg(&s->e, v, k); }
static bool is_view(const CopyInsertion *s, Val v) { return ir_ops[old_ins(s, v)->op].cls == CLASS_VIEW; }

static Val base_of(const CopyInsertion *s, Val v) {
  while (is_view(s, v)) v = old_arg(s, v, 0);
  return v;
}

// Instructions with a REPLACED operand have all operands of their row.
static bool is_read(Op op, uint32_t k) {
  return k >= ir_ops[op].n_operands || !(ir_ops[op].operands[k].flags & REPLACED);
}

static void find_last_reads(CopyInsertion *s) {
  for (uint32_t i = 1; i < s->e.n_old; i++) {
    if (s->e.old[i].op == OP_result || is_view(s, (Val){i})) continue;
    for (uint32_t k = 0; k < s->e.old[i].n_args; k++)
      if (is_read(s->e.old[i].op, k)) s->last[base_of(s, old_arg(s, (Val){i}, k)).i] = i;
  }
}

static void note_late_reads(CopyInsertion *s, Val v) {
  for (uint32_t k = 0; k < ir_ins(s->f, v)->n_args; k++) {
    uint32_t *late = &s->late[ir_view_base(s->f, ir_arg(s->f, v, k)).i];
    if (!*late && is_read((Op)ir_ins(s->f, v)->op, k)) *late = v.i;
  }
}

// Before anything is rewritten
static void find_early_and_late(CopyInsertion *s) {
  const Fn *f = s->f;
  bool *changed = rt_alloc(s->p->mem, f->n_ins);
  for (Val v = {1}; v.i < f->n_ins; v.i++) {
    for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) changed[v.i] |= changed[ir_arg(f, v, k).i];
    if (ir_ins(f, v)->op == OP_result) changed[v.i] = changed[ir_head(f, v).i];
    if (ir_ins(f, v)->op == OP_result || ir_ops[ir_ins(f, v)->op].cls == CLASS_VIEW) continue;
    s->is_early[v.i] = !changed[v.i] && ir_may_fault(f, v);
    changed[v.i] |= ir_writes_param(f, v);
    if (changed[v.i]) note_late_reads(s, v);
  }
  for (Val v = {f->n_ins - 1}; v.i > 0; v.i--) {
    s->is_early[ir_head(f, v).i] |= s->is_early[v.i];
    for (uint32_t k = 0; s->is_early[v.i] && k < ir_ins(f, v)->n_args; k++) s->is_early[ir_arg(f, v, k).i] = true;
  }
}

// The new value of old value v: of the copy where its buffer was overwritten.
static Val now_of(CopyInsertion *s, Val v) {
  Val base = base_of(s, v);
  if (ir_none(s->moved[base.i])) return s->e.map[v.i];
  if (v.i == base.i) return s->moved[v.i];
  if (!ir_none(s->view[v.i]) && s->viewed[v.i].i == s->moved[base.i].i) return s->view[v.i];
  Val parent = old_arg(s, v, 0), keep = s->e.map[parent.i], own = s->e.map[v.i];
  s->e.map[parent.i] = now_of(s, parent);
  s->view[v.i] = ir_rewrite_copy(&s->e, v);
  s->viewed[v.i] = s->moved[base.i];
  s->e.map[parent.i] = keep;
  s->e.map[v.i] = own;
  return s->view[v.i];
}

static Val copy_of(CopyInsertion *s, Val x, const char *who, Loc at, Loc loc) {
  const Ins *ins = ir_ins(s->f, x);
  if (ins->op == OP_full) return ir_emit_like(s->f, ins, NULL, NULL);
  return ir_emit_copy(s->f, x, who, at, loc);
}

static bool into_param(const CopyInsertion *s, Val v) {
  return ir_ops[old_ins(s, v)->op].cls != CLASS_SLICE_UPDATE || ir_rewrite_old_attr(&s->e, v, KEY_into_param);
}

// The first version of the storage that old value `base` lies in.
static Val first_of(const CopyInsertion *s, Val base) {
  if (!ir_none(s->moved[base.i])) return s->moved[base.i];
  return ir_none(s->first[base.i]) ? s->e.map[base.i] : s->first[base.i];
}

static const char *owner_of(const CopyInsertion *s, Val v, Val root) {
  switch (s->f->ins[root.i].op) {
  case OP_input: return "the caller's input";
  case OP_table: return "the constant";
  case OP_param: return into_param(s, v) ? NULL : "the parameter";
  default: return ir_is_immediate(s->f, root) ? "the constant" : NULL;
  }
}

// Is the buffer of operand k also that of a target before it?
static bool is_target_twice(const CopyInsertion *s, Val v, uint32_t k) {
  for (uint32_t j = 0; j < k; j++)
    if (base_of(s, old_arg(s, v, j)).i == base_of(s, old_arg(s, v, k)).i) return true;
  return false;
}

// The new operand k of the write at v; copies first what is read later, or what is not the function's own.
static Val target_for(CopyInsertion *s, Val v, uint32_t k) {
  Val old = old_arg(s, v, k), base = base_of(s, old), now = now_of(s, old), root = first_of(s, base);
  Val result = {v.i + k};
  Loc loc = old_ins(s, v)->loc;
  const char *owner = owner_of(s, v, root);
  if (owner) return s->first[result.i] = copy_of(s, now, owner, s->f->ins[root.i].loc, loc);
  if (is_target_twice(s, v, k)) return s->first[result.i] = copy_of(s, now, ir_ops[old_ins(s, v)->op].name, loc, loc);
  uint32_t late = s->late[base.i];
  if (late && late < v.i && s->is_early[v.i] && s->f->ins[root.i].op != OP_param) {
    const Ins *r = &s->e.old[late];
    return s->first[result.i] = copy_of(s, now, ir_ops[r->op].name, r->loc, loc);
  }
  s->first[result.i] = root;
  uint32_t reader = s->last[base.i];
  if (reader > v.i) {
    const Ins *r = &s->e.old[reader];
    s->moved[base.i] = copy_of(s, now_of(s, base), ir_ops[r->op].name, r->loc, loc);
  }
  return now;
}

// Gradients and sources are read element by element; scalars that steer an update are read for each element.
static bool is_by_element(const CopyInsertion *s, Val v, uint32_t k) {
  const Ins *ins = old_ins(s, v);
  if (ir_ops[ins->op].cls == CLASS_SLICE_UPDATE) return false;
  return ins->op == OP_assign || (k == ir_op_operand((Op)ins->op, ARG_grad) && !ir_takes(ins, ARG_index));
}

static bool is_reshaped_base(const CopyInsertion *s, Val v) {
  while (old_ins(s, v)->op == OP_reshape) v = old_arg(s, v, 0);
  return !is_view(s, v);
}

// Two views of one buffer: is element i of one element i of the other?
static bool is_same_order(const CopyInsertion *s, Val a, Val b) {
  return a.i == b.i ||
         (old_ins(s, a)->shape.i == old_ins(s, b)->shape.i && is_reshaped_base(s, a) && is_reshaped_base(s, b));
}

// Does the write at v read elements of its own buffer, other than each one just before it is written?
static bool reads_target(const CopyInsertion *s, Val v, uint32_t n, uint32_t k) {
  for (uint32_t t = 0; t < n; t++) {
    Val read = old_arg(s, v, k), target = old_arg(s, v, t);
    bool shared = base_of(s, read).i == base_of(s, target).i;
    if (shared && !(is_by_element(s, v, k) && is_same_order(s, read, target))) return true;
  }
  return false;
}

static void step(CopyInsertion *s, Val v) {
  Ins ins = *old_ins(s, v);
  bool writes = ir_ops[ins.op].flags & WRITES;
  uint32_t n = writes ? ir_ops[ins.op].n_res : 0;
  s->f->cur_scope = ins.scope;
  Val *now = rt_alloc(s->p->mem, (ins.n_args + 1u) * sizeof *now);
  for (uint32_t k = n; k < ins.n_args; k++) {
    now[k] = s->e.map[old_arg(s, v, k).i];
    if (writes && reads_target(s, v, n, k)) now[k] = copy_of(s, now[k], ir_ops[ins.op].name, ins.loc, ins.loc);
  }
  for (uint32_t k = 0; k < n; k++) now[k] = target_for(s, v, k);
  Val head = ir_rewrite_copy(&s->e, v);
  for (uint32_t k = 0; k < ins.n_args; k++) ir_set_arg(s->f, head, k, now[k]);
}

// Views of a copy are recomputed before the instruction that reads them.
static void step_moved(CopyInsertion *s, Val v) {
  Ins ins = *old_ins(s, v);
  Val *keep = rt_alloc(s->p->mem, (ins.n_args + 1) * sizeof *keep);
  for (uint32_t k = 0; k < ins.n_args; k++) {
    Val a = old_arg(s, v, k);
    keep[k] = s->e.map[a.i];
    Val now = now_of(s, a);
    s->e.map[a.i] = now;
  }
  step(s, v);
  for (uint32_t k = ins.n_args; k-- > 0;) s->e.map[old_arg(s, v, k).i] = keep[k];
}

bool ir_pass_insert_copies(Fn *f) {
  bool any = false;
  for (uint32_t i = 1; i < f->n_ins; i++) any |= (ir_ops[f->ins[i].op].flags & WRITES) != 0;
  if (!any) return true;
  CopyInsertion s = {.f = f, .p = f->prog};
  uint32_t scope = f->cur_scope;
  s.late = rt_alloc(f->prog->mem, f->n_ins * sizeof *s.late), s.is_early = rt_alloc(f->prog->mem, f->n_ins);
  find_early_and_late(&s);
  ir_rewrite_begin(&s.e, f);
  s.last = rt_alloc(f->prog->mem, s.e.n_old * sizeof *s.last);
  s.moved = rt_alloc(f->prog->mem, s.e.n_old * sizeof *s.moved);
  s.view = rt_alloc(f->prog->mem, s.e.n_old * sizeof *s.view);
  s.viewed = rt_alloc(f->prog->mem, s.e.n_old * sizeof *s.viewed);
  s.first = rt_alloc(f->prog->mem, s.e.n_old * sizeof *s.first);
  find_last_reads(&s);
  for (uint32_t i = 1; i < s.e.n_old; i++)
    if (s.e.old[i].op != OP_result) step_moved(&s, (Val){i});
  f->cur_scope = scope;
  ir_rewrite_end(&s.e);
  return true;
}
