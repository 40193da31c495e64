// Common subexpressions: a table of the values so far.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/plan.h"
#include "ir/passes/rewrites/rules.h"
#include <string.h>

// ---- CSE
static uint64_t hash_ins(const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  uint64_t h = rt_hash(&(uint32_t[3]){ins->op, ins->dtype, ins->shape.i}, 12, 7);
  if (ins->n_args) h = rt_hash(f->args + ins->args, ins->n_args * sizeof(Val), h);
  for (uint32_t k = 0; k < ins->n_attrs; k++) {
    const Attr *a = &f->attrs[ins->attrs + k];
    uint64_t word[2] = {a->key, 0};
    memcpy(&word[1], &a->u, ir_key_kind[a->key] == KIND_INT || ir_key_kind[a->key] == KIND_NUM ? 8 : 4);
    h = rt_hash(word, sizeof word, h);
  }
  return h;
}

static bool same_attr(const Attr *a, const Attr *b) {
  if (a->key != b->key) return false;
  switch ((AttrKind)ir_key_kind[a->key]) {
  case KIND_NUM: return memcmp(&a->u.f, &b->u.f, sizeof a->u.f) == 0;
  case KIND_STR:
  case KIND_BYTES: return a->u.s.i == b->u.s.i;
  case KIND_LIST: return a->u.list.i == b->u.list.i;
  case KIND_DIM: return a->u.dim.i == b->u.dim.i;
  default: return a->u.i == b->u.i;
  }
}

bool ir_same_attrs(const Fn *f, Val x, Val y) {
  const Ins *a = ir_ins(f, x), *b = ir_ins(f, y);
  if (a->n_attrs != b->n_attrs) return false;
  for (uint32_t k = 0; k < a->n_attrs; k++)
    if (!same_attr(&f->attrs[a->attrs + k], &f->attrs[b->attrs + k])) return false;
  return true;
}

static bool same_ins(const Fn *f, Val x, Val y) {
  const Ins *a = ir_ins(f, x), *b = ir_ins(f, y);
  if (a->op != b->op || a->dtype != b->dtype || a->shape.i != b->shape.i || a->n_args != b->n_args) return false;
  if (a->absent != b->absent) return false;
  if (a->n_args && memcmp(f->args + a->args, f->args + b->args, a->n_args * sizeof(Val))) return false;
  return ir_same_attrs(f, x, y);
}

Val ir_eliminate_common(Rules *r, Val v) {
  uint32_t at = (uint32_t)hash_ins(r->f, v) & (r->cap - 1);
  while (r->table[at] && !same_ins(r->f, (Val){r->table[at]}, v)) at = (at + 1) & (r->cap - 1);
  if (r->table[at]) return (Val){r->table[at]};
  r->table[at] = v.i;
  return v;
}
