// The rewrite library: rebuilding a function, editing one instruction, counting uses, removing what is dead.
#include "ir/rewrite.h"
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/packed_dims.h"
#include "ir/storage.h"
#include <string.h>

// ---- rebuilding: the instruction array starts anew, old instructions stay readable and are copied one by one
static bool *find_versions(const Fn *f) {
  bool *is_version = rt_alloc(f->prog->mem, f->n_ins);
  for (uint32_t i = 1; i < f->n_ins; i++) is_version[i] = f->ins[ir_storage_root(f, (Val){i}).i].op == OP_param;
  return is_version;
}

void ir_rewrite_begin(Rewrite *e, Fn *f) {
  bool *is_version = find_versions(f);
  *e = (Rewrite){.f = f,
                 .old = f->ins,
                 .n_old = f->n_ins,
                 .map = rt_alloc(f->prog->mem, f->n_ins * sizeof *e->map),
                 .is_version = is_version};
  f->ins = NULL;
  f->n_ins = f->cap_ins = 0;
  f->has_writes = false;
  ir_changed(f, (Val){0});
  *RT_PUSH(f->prog->mem, f->ins, f->n_ins, f->cap_ins) = (Ins){0};
}

// An update of a computed value must not become an update of a parameter, or of an older version of it, when
// rules find the value equal to that.
//
//   %c = mul %w, %one                       %c = copy %w {reader="sgd m.c:7"}
//   %u = sgd %c, ..                  ->     %u = sgd %c, ..
static Val own_target(Rewrite *e, const Ins *ins, Val was, Val now) {
  if (e->is_version[was.i] || ir_ins(e->f, ir_storage_root(e->f, now))->op != OP_param) return now;
  return ir_emit_copy(e->f, now, ir_ops[ins->op].name, ins->loc, ins->loc);
}

// By operand; NULL: the instruction writes none.
static Val *own_targets(Rewrite *e, const Ins *ins) {
  if (!(ir_ops[ins->op].flags & WRITES) || !(ir_ops[ins->op].flags & EFFECT)) return NULL;
  Val *own = rt_alloc(e->f->prog->mem, ins->n_res * sizeof *own);
  for (uint32_t k = 0; k < ins->n_res; k++) {
    Val was = e->f->args[ins->args + k];
    own[k] = own_target(e, ins, was, e->map[was.i]);
  }
  return own;
}

Val ir_rewrite_copy(Rewrite *e, Val old) {
  Fn *f = e->f;
  RtArena *mem = f->prog->mem;
  Ins ins = e->old[old.i];
  const Val *own = own_targets(e, &ins);
  uint32_t args = f->n_args;
  for (uint32_t k = 0; k < ins.n_args; k++) {
    Val a = own && k < ins.n_res ? own[k] : e->map[f->args[ins.args + k].i];
    *RT_PUSH(mem, f->args, f->n_args, f->cap_args) = a;
  }
  ins.args = args;
  Val head = {f->n_ins};
  *RT_PUSH(mem, f->ins, f->n_ins, f->cap_ins) = ins;
  e->map[old.i] = head;
  f->has_writes |= ir_op_writes_in_place((Op)ins.op);
  for (uint32_t k = 1; k < ins.n_res; k++) {
    Ins r = e->old[old.i + k];
    r.args = f->n_args;
    *RT_PUSH(mem, f->args, f->n_args, f->cap_args) = head;
    e->map[old.i + k] = (Val){f->n_ins};
    *RT_PUSH(mem, f->ins, f->n_ins, f->cap_ins) = r;
  }
  return head;
}

void ir_rewrite_replace(Rewrite *e, Val old, Val now) {
  for (uint32_t k = 0; k < e->old[old.i].n_res; k++) e->map[old.i + k] = ir_result(now, k);
}

const Attr *ir_rewrite_old_attr(const Rewrite *e, Val old, Key k) {
  const Ins *ins = &e->old[old.i];
  for (uint32_t j = 0; j < ins->n_attrs; j++)
    if (e->f->attrs[ins->attrs + j].key == k) return &e->f->attrs[ins->attrs + j];
  return NULL;
}

void ir_rewrite_end(Rewrite *e) { e->f->kernel_of = NULL, e->f->buf_of = NULL, e->f->n_kernels = 0, e->f->n_bufs = 0; }

// ---- editing one instruction
void ir_set_args(Fn *f, Val v, const Val *args, uint32_t n) {
  uint32_t first = f->n_args;
  for (uint32_t k = 0; k < n; k++) {
    Val a = args[k];  // args may lie in f->args, which grows
    *RT_PUSH(f->prog->mem, f->args, f->n_args, f->cap_args) = a;
  }
  ir_ins(f, v)->args = first, ir_ins(f, v)->n_args = (uint16_t)n;
  ir_changed(f, v);
}

// An instruction shares its operands with none but the old one that it was copied from, which has its own slice.
void ir_set_arg(Fn *f, Val v, uint32_t k, Val a) {
  f->args[ir_ins(f, v)->args + k] = a;
  ir_changed(f, v);
}

// Copies the list without the attribute of this key.
static void copy_attrs_but(Fn *f, Val v, Key but) {
  uint32_t first = f->n_attrs, n = ir_ins(f, v)->n_attrs;
  for (uint32_t k = 0; k < n; k++) {
    Attr a = f->attrs[ir_ins(f, v)->attrs + k];
    if (a.key != but) *RT_PUSH(f->prog->mem, f->attrs, f->n_attrs, f->cap_attrs) = a;
  }
  ir_ins(f, v)->attrs = first, ir_ins(f, v)->n_attrs = (uint8_t)(f->n_attrs - first);
  ir_changed(f, v);
}

void ir_set_attr(Fn *f, Val v, Attr a) {
  uint32_t at = 0, n = ir_ins(f, v)->n_attrs;
  while (at < n && f->attrs[ir_ins(f, v)->attrs + at].key != a.key) at++;
  copy_attrs_but(f, v, N_KEYS);
  if (at < n) {
    f->attrs[ir_ins(f, v)->attrs + at] = a;
    return;
  }
  *RT_PUSH(f->prog->mem, f->attrs, f->n_attrs, f->cap_attrs) = a;
  ir_ins(f, v)->n_attrs++;
}

void ir_unset_attr(Fn *f, Val v, Key k) { copy_attrs_but(f, v, k); }

void ir_set_op(Fn *f, Val v, Op op) {
  ir_ins(f, v)->op = (uint16_t)op;
  ir_changed(f, v);
}

// ---- uses
uint32_t *ir_count_uses(const Fn *f) {
  uint32_t *n = rt_alloc(f->prog->mem, f->n_ins * sizeof *n);
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t k = 0; f->ins[i].op != OP_result && k < f->ins[i].n_args; k++) n[ir_arg(f, (Val){i}, k).i]++;
  return n;
}

UseLists ir_use_lists(const Fn *f) {
  RtArena *mem = f->prog->mem;
  uint32_t n = f->n_ins, total = 0;
  UseLists u = {.first = rt_alloc(mem, (n + 2) * sizeof *u.first)};
  for (uint32_t i = 1; i < n; i++)
    for (uint32_t k = 0; f->ins[i].op != OP_result && k < f->ins[i].n_args; k++, total++)
      u.first[ir_arg(f, (Val){i}, k).i + 2]++;
  for (uint32_t i = 2; i < n + 2; i++) u.first[i] += u.first[i - 1];
  u.user = rt_alloc(mem, (total + 1) * sizeof *u.user);
  for (uint32_t i = 1; i < n; i++)  // first[i + 1] advances from the first to the end of the users of i
    for (uint32_t k = 0; f->ins[i].op != OP_result && k < f->ins[i].n_args; k++)
      u.user[u.first[ir_arg(f, (Val){i}, k).i + 1]++] = i;
  return u;
}

// ---- dead code elimination: one mark from the end, then what is marked is copied
bool ir_has_effect(const Fn *f, Val v) {
  uint8_t flags = ir_ops[ir_ins(f, v)->op].flags;
  return (flags & EFFECT) || ((flags & WRITES) && ir_attr(f, v, KEY_into_param));
}

static bool *find_live(const Fn *f, bool keeps_writes) {
  bool *live = rt_alloc(f->prog->mem, f->n_ins + 1);
  const Val *makers = ir_rows_makers(f);
  for (uint32_t i = f->n_ins - 1; i > 0; i--) {
    Val h = ir_head(f, (Val){i}), from[IR_MAX_MAKERS];
    if (ir_has_effect(f, (Val){i}) || (keeps_writes && ir_ops[f->ins[i].op].flags & WRITES)) live[i] = true;
    if (!live[i]) continue;
    live[h.i] = true;
    for (uint32_t k = ir_sizes_from(f, makers, (Val){i}, from); k-- > 0;) live[from[k].i] = true;
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) live[ir_arg(f, (Val){i}, k).i] = true;
  }
  return live;
}

bool *ir_live_as_built(const Fn *f) { return find_live(f, true); }

void ir_eliminate_dead(Fn *f) {
  const bool *live = find_live(f, false);
  Rewrite e;
  ir_rewrite_begin(&e, f);
  for (uint32_t i = 1; i < e.n_old; i++)
    if (live[i] && e.old[i].op != OP_result) ir_rewrite_copy(&e, (Val){i});
  ir_rewrite_end(&e);
}
