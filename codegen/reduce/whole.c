// Reductions of whole numbers and bool along the last axis: sums and products in i64, modulo 2^64, the largest element, and
// where the first of the largest stands.
//
//   %y = whole_sum %x : i64[n]     %x: u8[n,64]: a worker has rows; lanes are elements of one row, added up behind it
//
// Nothing is rounded: the order of terms is free, and results are those of any team.
#include "codegen/cg.h"

typedef LLVMValueRef V;

typedef struct {
  Cg *c;
  Op op;
  DType from, to;  // of elements, of what is summed or compared
  V x, y, n;       // n: elements of a row
  LLVMTypeRef elem;
} Reduce;

static bool is_signed(DType t) { return t == DT_I64 || t == DT_I32; }
static V splat(const Reduce *r, int64_t x) {
  return cg_splat_n(r->c, LLVMConstInt(r->elem, (uint64_t)x, true), r->c->t->vl);
}
static V across(const Reduce *r, const char *name, V x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return cg_call_intrinsic(r->c, name, &t, 1, &x, 1);
}

static int64_t identity_of(const Reduce *r) {
  if (r->op == OP_whole_sum) return 0;
  if (r->op == OP_whole_prod) return 1;
  return r->to == DT_BOOL ? 0 : ir_to_whole(r->to, -0x1p63);  // the least number
}

static V greater(const Reduce *r, V a, V b) {
  return LLVMBuildICmp(r->c->b, is_signed(r->to) ? LLVMIntSGT : LLVMIntUGT, a, b, "");
}

// vl elements from element i of a row on, as what they are summed or compared as; mask NULL: all of them.
static V load(const Reduce *r, V row, V i, V mask) {
  Cg *c = r->c;
  LLVMTypeRef t = cg_vector_type(c, r->from, c->t->vl);
  V at = cg_at(c, cg_elem_type(c, r->from), row, i), x = mask ? cg_load_masked(c, t, at, mask) : cg_load(c, t, at);
  if (r->from == DT_BOOL) {
    V is_set = LLVMBuildICmp(c->b, LLVMIntNE, x, LLVMConstNull(t), "");
    x = LLVMBuildZExt(c->b, is_set, t, "");
  }
  x = cg_convert(c, r->from, r->to, x);
  return mask ? LLVMBuildSelect(c->b, mask, x, splat(r, identity_of(r)), "") : x;
}

// carry: the sum, or the largest element of each lane and its place.
static void take(const Reduce *r, V row, V i, V mask, V *carry) {
  Cg *c = r->c;
  V x = load(r, row, i, mask);
  switch (r->op) {
  case OP_whole_sum: carry[0] = LLVMBuildAdd(c->b, carry[0], x, ""); return;
  case OP_whole_prod: carry[0] = LLVMBuildMul(c->b, carry[0], x, ""); return;
  default: break;
  }
  V is_more = greater(r, x, carry[0]);
  carry[0] = LLVMBuildSelect(c->b, is_more, x, carry[0], "");
  if (r->op != OP_whole_argmax) return;
  V place = LLVMBuildAdd(c->b, cg_splat(c, i), cg_lane_numbers(c), "");
  carry[1] = LLVMBuildSelect(c->b, is_more, place, carry[1], "");
}

static V result(const Reduce *r, V *carry) {
  Cg *c = r->c;
  if (r->op == OP_whole_sum) return across(r, "llvm.vector.reduce.add", carry[0]);
  if (r->op == OP_whole_prod) return across(r, "llvm.vector.reduce.mul", carry[0]);
  V most = across(r, is_signed(r->to) ? "llvm.vector.reduce.smax" : "llvm.vector.reduce.umax", carry[0]);
  if (r->op != OP_whole_argmax) return most;
  V is_most = LLVMBuildICmp(c->b, LLVMIntEQ, carry[0], cg_splat_n(c, most, c->t->vl), "");
  V none = LLVMConstAllOnes(LLVMTypeOf(carry[1]));
  return across(r, "llvm.vector.reduce.umin", LLVMBuildSelect(c->b, is_most, carry[1], none, ""));
}

static void emit_row(const Reduce *r, V number) {
  Cg *c = r->c;
  V row = cg_at(c, cg_elem_type(c, r->from), r->x, cg_mul(c, number, r->n)), vl = cg_i64(c, c->t->vl);
  V whole = cg_mul(c, cg_div(c, r->n, vl), vl), rest = cg_sub(c, r->n, whole);
  V carry[] = {splat(r, identity_of(r)), cg_lane_numbers(c)};
  uint32_t n = 1 + (r->op == OP_whole_argmax);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), whole, vl, carry, n);
  for (uint32_t k = 0; k < n; k++) carry[k] = l.carry[k];
  take(r, row, l.i, NULL, carry);
  cg_loop_end(c, &l, carry);
  for (uint32_t k = 0; k < n; k++) carry[k] = l.out[k];
  int64_t left;
  if (!cg_const_value(rest, &left) || left) take(r, row, whole, cg_mask(c, rest), carry);
  V y = result(r, carry);
  cg_store(c, y, cg_at(c, LLVMTypeOf(y), r->y, number));
}

bool cg_emit_whole_reduce(Cg *c) {
  Val v = {c->k->first}, a = ir_arg(c->f, v, 0);
  const Ins *ins = ir_ins(c->f, v), *of = ir_ins(c->f, a);
  if (ir_shape_bound(c->f->prog, ins->shape) == 0) return true;
  bool sums = ins->op == OP_whole_sum || ins->op == OP_whole_prod;
  Reduce r = {.c = c, .op = (Op)ins->op, .from = (DType)of->dtype, .to = sums ? DT_I64 : (DType)of->dtype};
  r.elem = cg_elem_type(c, r.to);
  r.n = cg_dim(c, ir_dim_at(c->f->prog, of->shape, ir_rank(c->f->prog, of->shape) - 1));
  bool is_empty = ir_shape_bound(c->f->prog, of->shape) == 0;
  r.x = is_empty ? LLVMConstNull(c->ptr) : cg_ptr(c, a), r.y = cg_ptr(c, v);
  V lo, hi;
  Loop l;
  cg_share(c, cg_numel(c, ins->shape), 1, &lo, &hi);
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  emit_row(&r, l.i);
  cg_loop_end(c, &l, NULL);
  return true;
}
