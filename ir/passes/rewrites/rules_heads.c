// Attention of heads that a permutation leads outside, [B,T,H,D] -> [B,H,T,D], reads them where they lie, as models written for PyTorch, whose
// permutations cost nothing, have it:
//
//   sdpa (permute %q), (permute %k), (permute %v)   ->   permute (sdpa %q, %k, %v {heads_inside})
//
// and so do its gradients. The result's permutation goes where it is led back.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/passes/rewrites/rules.h"

enum { RANK = 4 };
static const int64_t swap[RANK] = {0, 2, 1, 3};

// Is v [B,H,T,D] a permutation of [B,T,H,D]?
static bool is_led(const Rules *r, Val v) {
  const Attr *perm = ir_perm_of(r->f, v);
  if (!perm || ir_rank(r->p, perm->u.list) != RANK) return false;
  for (uint32_t k = 0; k < RANK; k++)
    if (ir_list_at(r->p, perm->u.list, k) != swap[k]) return false;
  return true;
}

// Does it move nothing? One step or one head: simplify has made such a permutation a reshape.
static bool is_free(const Rules *r, Val v) {
  Shape s = ir_ins(r->f, v)->shape;
  return ir_dim_is_one(r->p, ir_dim_at(r->p, s, 1)) || ir_dim_is_one(r->p, ir_dim_at(r->p, s, 2));
}

static Val swapped(Rules *r, Val v, Loc loc) {
  Shape s = ir_ins(r->f, v)->shape;
  if (!is_free(r, v)) return ir_permuted(r->f, v, ir_shape_ints(r->p, swap, RANK), loc);
  Dim d[RANK];
  for (uint32_t k = 0; k < RANK; k++) d[k] = ir_dim_at(r->p, s, (uint32_t)swap[k]);
  return ir_reshaped(r->f, v, ir_shape(r->p, d, RANK), loc);
}

static Val heads_inside(Rules *r, Val v, Loc loc) { return is_led(r, v) ? ir_arg(r->f, v, 0) : swapped(r, v, loc); }

Val rule_heads_inside(Rules *r, Val v) {
  static const ArgName tensors[] = {ARG_q, ARG_k, ARG_v, ARG_out, ARG_g};
  Fn *f = r->f;
  const Ins ins = *ir_ins(f, v);
  if (ir_has_operand(f, v, ARG_layout) || !ir_has_operand(f, v, ARG_v) || ir_attr(f, v, KEY_heads_inside))
    return (Val){0};
  for (uint32_t k = 0; k < 3; k++) {
    Val x = ir_operand(f, v, tensors[k]);
    if (!is_led(r, x) && !is_free(r, x)) return (Val){0};
  }
  if (!is_led(r, ir_operand(f, v, ARG_k)) && !is_led(r, ir_operand(f, v, ARG_v))) return (Val){0};
  uint32_t n = ir_ops[ins.op].n_operands;  // by their place in the row; none: absent
  Val *args = rt_alloc(r->p->mem, n * sizeof *args);
  for (uint32_t k = 0; k < ins.n_args; k++) args[ir_operand_slot(f, v, k)] = ir_arg(f, v, k);
  for (uint32_t k = 0; k < sizeof tensors / sizeof *tensors; k++) {
    uint32_t at = ir_operand_at(f, v, tensors[k]);
    if (at == UINT32_MAX) continue;
    Val *x = &args[ir_operand_slot(f, v, at)];
    *x = heads_inside(r, *x, ins.loc);
  }
  Attr *attrs = rt_alloc(r->p->mem, (ins.n_attrs + 1u) * sizeof *attrs);
  for (uint32_t k = 0; k < ins.n_attrs; k++) attrs[k] = f->attrs[ins.attrs + k];
  attrs[ins.n_attrs] = ir_a_int(KEY_heads_inside, 1);
  Val now = ir_emit(f, (Op)ins.op, args, n, attrs, ins.n_attrs + 1u, ins.loc);
  ir_copy_metadata(ir_ins(f, now), &ins);
  if (ins.op == OP_sdpa_bias_grad) return now;
  for (uint32_t k = 0; k < ins.n_res; k++) {
    Val own = ir_result(now, k);
    r->result[k] = ins.op == OP_sdpa && k == 1 ? own : swapped(r, own, ins.loc);
    if (r->result[k].i != own.i) ir_copy_origin(ir_ins(f, r->result[k]), &ins);
  }
  return r->result[0];
}
