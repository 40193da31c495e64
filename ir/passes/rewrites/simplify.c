// Pass simplify: rewrite rules (ir/passes/rewrites/rules.def), CSE, DCE. One forward walk, then one backward mark.
//
//   %1 = const {value=1}                    %s = sum %x {axes=[0]}
//   %2 = expand %1 {shape=[4]}      ->      output %s
//   %3 = mul %x, %2
//   %s = sum %3 {axes=[0]}
//
// Every instruction is copied with its operands as they are by then, taken through the rules, and looked up among the
// earlier ones: rules see simplified operands, and each is tried once.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/plan.h"
#include "ir/passes/rewrites/rules.h"
#include "ir/storage.h"
#include <string.h>

typedef struct {
  Rewrite e;
  Rules r;
  Val *numbers;  // by value, a full of rank 0: the same as a const; 0: not made yet
  uint32_t n_numbers, cap_numbers;
} Simplify;

// ---- constants where kernels read memory, and where they do not
// Kernels that are not pointwise read memory: a constant operand, or a size expanded to any shape, becomes a
// stored value. Emits it before its user is copied.
static Val stored_form(Fn *f, Val a, Loc loc) {
  double x;
  if (ir_ins(f, ir_view_base(f, a))->op == OP_dim_size) return ir_op1(f, OP_copy, a, loc);
  if (!ir_is_const(f, a, &x)) return (Val){0};
  DType t = (DType)ir_ins(f, a)->dtype;
  Attr at[] = {ir_a_num(KEY_value, x), ir_a_list(KEY_shape, (Shape){0}), ir_a_int(KEY_dtype, t)};
  return ir_emit(f, OP_full, NULL, 0, at, t == DT_F32 ? 2 : 3, loc);
}

static bool reads_memory(Op op) {
  OpClass cls = ir_ops[op].cls;
  if (cls == CLASS_POINTWISE || cls == CLASS_MARK || cls == CLASS_LEAF) return false;
  return op != OP_rnn_seq_grad && op != OP_reshape &&
         op != OP_expand;  // absent gradients; rule fold_full handles other ops
}

// Pointwise code contains a stored number of rank 0 as an immediate: it takes no memory.
static Val number_form(Simplify *s, Val a) {
  Fn *f = s->e.f;
  const Ins full = *ir_ins(f, a);
  if (full.op != OP_full || ir_rank(f->prog, full.shape) || !((F32 | COUNTABLE) >> full.dtype & 1)) return (Val){0};
  while (s->n_numbers <= a.i) *RT_PUSH(f->prog->mem, s->numbers, s->n_numbers, s->cap_numbers) = (Val){0};
  Attr at[] = {ir_a_num(KEY_value, ir_attr_num(f, a, KEY_value, 0)), ir_a_int(KEY_dtype, full.dtype)};
  if (ir_none(s->numbers[a.i]))
    s->numbers[a.i] = ir_emit(f, OP_const, NULL, 0, at, full.dtype == DT_F32 ? 1 : 2, full.loc);
  return s->numbers[a.i];
}

static bool has_number(const Simplify *s, Val old) {
  for (uint32_t k = 0; k < s->e.old[old.i].n_args; k++) {
    const Ins *a = ir_ins(s->e.f, ir_rewrite_arg(&s->e, old, k));
    if (a->op == OP_full && !ir_rank(s->e.f->prog, a->shape)) return true;
  }
  return false;
}

// Copies the old instruction with constants in the form that its kernel wants.
static Val copy_stored(Simplify *s, Val old) {
  Fn *f = s->e.f;
  Ins ins = s->e.old[old.i];
  bool reads = reads_memory(ins.op), is_code = ir_ops[ins.op].is_pointwise && has_number(s, old);
  if (!reads && !is_code) return ir_rewrite_copy(&s->e, old);
  Val *fixed = rt_alloc(f->prog->mem, (ins.n_args + 1) * sizeof *fixed);
  for (uint32_t k = 0; k < ins.n_args; k++) {
    Val a = ir_rewrite_arg(&s->e, old, k);
    fixed[k] = reads ? stored_form(f, a, ins.loc) : number_form(s, a);
  }
  Val v = ir_rewrite_copy(&s->e, old);
  for (uint32_t k = 0; k < ins.n_args; k++)
    if (!ir_none(fixed[k])) ir_set_arg(f, v, k, fixed[k]);
  return v;
}

// ---- the walk
static void pop_last(Fn *f, Val v) { f->n_ins = v.i; }  // operands and attributes stay behind, unused

static void simplify_at(Simplify *s, Val old) {
  Fn *f = s->e.f;
  Val v = copy_stored(s, old);
  if (!(ir_ops[ir_rewrite_old(&s->e, old)->op].flags & PURE)) return;
  s->r.result[0] = (Val){0};
  Val now = ir_apply_rules(&s->r, v);
  if (!ir_none(s->r.result[0])) {
    for (uint32_t k = 0; k < s->e.old[old.i].n_res; k++) s->e.map[old.i + k] = s->r.result[k];
    return;
  }
  if (now.i >= v.i && ir_ops[ir_ins(f, now)->op].n_res >= 1) now = ir_eliminate_common(&s->r, now);
  if (now.i < v.i) pop_last(f, v);
  ir_rewrite_replace(&s->e, old, now);
}

bool ir_pass_simplify(Fn *f) {
  Simplify s = {.r = ir_rules_of(f, PASS_simplify)};
  s.r.cap = 64;
  while (s.r.cap < 6 * f->n_ins) s.r.cap *= 2;
  s.r.table = rt_alloc(f->prog->mem, s.r.cap * sizeof *s.r.table);
  uint32_t scope = f->cur_scope;
  ir_rewrite_begin(&s.e, f);
  for (uint32_t i = 1; i < s.e.n_old; i++) {
    if (s.e.old[i].op == OP_result) continue;
    f->cur_scope = s.e.old[i].scope;
    simplify_at(&s, (Val){i});
  }
  f->cur_scope = scope;
  ir_rewrite_end(&s.e);
  ir_eliminate_dead(f);
  return true;
}
