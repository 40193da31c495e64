// Class ORDER: where a number belongs in a sorted row, and the ops that sort.
#include "codegen/emitters.h"
#include "codegen/order/order.h"

typedef LLVMValueRef V;

// Is element `at` before the place of x? NaN is behind all numbers: what compares with it is before it.
static V is_before(Cg *c, DType t, V at, V x, bool right) {
  if (t == DT_F32) return LLVMBuildFCmp(c->b, right ? LLVMRealULE : LLVMRealULT, at, x, "");
  return LLVMBuildICmp(c->b, right ? LLVMIntSLE : LLVMIntSLT, at, x, "");
}

// Halves [lo, hi) as often as it takes for n elements.
static V place_in(Cg *c, DType t, V row, V n, V x, bool right) {
  LLVMTypeRef elem = cg_elem_type(c, t);
  V zero_is_poison = LLVMConstInt(c->i1, 0, false), one = cg_i64(c, 1);
  V zeros = cg_call_intrinsic(c, "llvm.ctlz", (LLVMTypeRef[]){c->i64}, 1, (V[]){n, zero_is_poison}, 2);
  V start[] = {cg_i64(c, 0), n}, top = cg_sub(c, n, one);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_sub(c, cg_i64(c, 64), zeros), one, start, 2);
  V lo = l.carry[0], hi = l.carry[1], middle = cg_div(c, cg_add(c, lo, hi), cg_i64(c, 2));
  V open = LLVMBuildICmp(c->b, LLVMIntSLT, lo, hi, ""),
    at = cg_load(c, elem, cg_at(c, elem, row, cg_min(c, middle, top)));
  V up = LLVMBuildAnd(c->b, open, is_before(c, t, at, x, right), "");
  V next[] = {LLVMBuildSelect(c->b, up, cg_add(c, middle, one), lo, ""), LLVMBuildSelect(c->b, up, hi, middle, "")};
  next[1] = LLVMBuildSelect(c->b, open, next[1], hi, "");
  cg_loop_end(c, &l, next);
  return l.out[0];
}

static bool emit_search(Cg *c, Val v) {
  Val sorted = ir_arg(c->f, v, 0), x = ir_arg(c->f, v, 1);
  const Prog *p = c->f->prog;
  Shape rows = ir_ins(c->f, sorted)->shape, own = ir_ins(c->f, x)->shape;
  DType t = (DType)ir_ins(c->f, x)->dtype;
  uint32_t rank = ir_rank(p, rows), own_rank = ir_rank(p, own);
  bool right = ir_attr(c->f, v, KEY_right) != NULL, has_rows = rank > 1;
  LLVMTypeRef elem = cg_elem_type(c, t);
  V n = cg_dim(c, ir_dim_at(p, rows, rank - 1)), lo, hi;
  cg_share(c, cg_numel(c, own), 16, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  V row = has_rows ? cg_div(c, l.i, cg_dim(c, ir_dim_at(p, own, own_rank - 1))) : cg_i64(c, 0);
  V base = cg_at(c, elem, cg_ptr(c, sorted), cg_mul(c, row, n));
  V place = place_in(c, t, base, n, cg_load(c, elem, cg_at(c, elem, cg_ptr(c, x), l.i)), right);
  cg_store(c, place, cg_at(c, c->i64, cg_ptr(c, v), l.i));
  cg_loop_end(c, &l, NULL);
  return true;
}

// The n places that were found: too many are reported, those behind the last one are -1.
static void end_places(Cg *c, Val v, V n) {
  V size = cg_numel(c, ir_ins(c->f, v)->shape), count = cg_ptr_or_null(c, ir_result(v, 1)),
    index = cg_ptr_or_null(c, v);
  If over;
  Loop l;
  cg_if(c, &over, LLVMBuildICmp(c->b, LLVMIntSGT, n, size, ""));
  cg_report(c, TN_KERR_COUNT, LLVMBuildSExt(c->b, cg_id(c, v), c->i64, ""), size);
  cg_endif(c, &over);
  if (count) cg_store(c, n, count);
  if (!index) return;
  cg_loop_begin(c, &l, n, size, cg_i64(c, 1), NULL, 0);
  cg_store(c, cg_i64(c, -1), cg_at(c, c->i64, index, l.i));
  cg_loop_end(c, &l, NULL);
}

// Worker 0 writes each index as often as its count says. Counts are cut to the room there is, so that no sum overflows: one
// that is cut makes the sum too large by itself.
static bool emit_repeat_index(Cg *c, Val v) {
  Val counts = ir_arg(c->f, v, 0);
  V size = cg_numel(c, ir_ins(c->f, v)->shape), index = cg_ptr_or_null(c, v);
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), room = cg_add(c, size, one);
  If first, negative;
  Loop l, times;
  cg_if(c, &first, LLVMBuildICmp(c->b, LLVMIntEQ, c->worker, zero, ""));
  cg_loop_begin(c, &l, zero, cg_numel(c, ir_ins(c->f, counts)->shape), one, &zero, 1);
  V count = cg_load(c, c->i64, cg_at(c, c->i64, cg_ptr(c, counts), l.i));
  cg_if(c, &negative, LLVMBuildICmp(c->b, LLVMIntSLT, count, zero, ""));
  cg_report(c, TN_KERR_COUNT, LLVMBuildSExt(c->b, cg_id(c, v), c->i64, ""), count);
  cg_endif(c, &negative);
  V end = cg_min(c, cg_add(c, l.carry[0], cg_min(c, cg_max(c, count, zero), room)), room);
  cg_loop_begin(c, &times, l.carry[0], cg_min(c, end, size), one, NULL, 0);
  if (index) cg_store(c, l.i, cg_at(c, c->i64, index, times.i));
  cg_loop_end(c, &times, NULL);
  cg_loop_end(c, &l, &end);
  end_places(c, v, l.out[0]);
  cg_endif(c, &first);
  return true;
}

// Worker 0 writes the places of what is not 0, in order.
static bool emit_nonzero(Cg *c, Val v) {
  Val x = ir_arg(c->f, v, 0);
  DType t = (DType)ir_ins(c->f, x)->dtype;
  LLVMTypeRef elem = cg_elem_type(c, t);
  V size = cg_numel(c, ir_ins(c->f, v)->shape), index = cg_ptr_or_null(c, v);
  V zero = cg_i64(c, 0), one = cg_i64(c, 1);
  If first, take;
  Loop l;
  cg_if(c, &first, LLVMBuildICmp(c->b, LLVMIntEQ, c->worker, zero, ""));
  cg_loop_begin(c, &l, zero, cg_numel(c, ir_ins(c->f, x)->shape), one, &zero, 1);
  V own = cg_load(c, elem, cg_at(c, elem, cg_ptr(c, x), l.i));
  V is_set = t == DT_F32 ? LLVMBuildFCmp(c->b, LLVMRealUNE, own, cg_f32(c, 0), "")
                         : LLVMBuildICmp(c->b, LLVMIntNE, own, zero, "");
  V fits = LLVMBuildICmp(c->b, LLVMIntSLT, l.carry[0], size, "");
  cg_if(c, &take, LLVMBuildAnd(c->b, is_set, fits, ""));
  if (index) cg_store(c, l.i, cg_at(c, c->i64, index, l.carry[0]));
  cg_endif(c, &take);
  V next = cg_add(c, l.carry[0], LLVMBuildZExt(c->b, is_set, c->i64, ""));
  cg_loop_end(c, &l, &next);
  end_places(c, v, l.out[0]);
  cg_endif(c, &first);
  return true;
}

bool cg_emit_order(Cg *c) {
  Val v = {c->k->first};
  switch (ir_ins(c->f, v)->op) {
  case OP_searchsorted: return emit_search(c, v);
  case OP_nonzero: return emit_nonzero(c, v);
  case OP_repeat_index: return emit_repeat_index(c, v);
  default: return cg_emit_sort(c, v);
  }
}
