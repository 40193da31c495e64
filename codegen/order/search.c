// Class ORDER: where a number belongs in a sorted row, and the ops that sort.
#include "codegen/emitters.h"
#include "codegen/math/primitives.h"
#include "codegen/order/order.h"
#include "codegen/span.h"

// Is element `at` before the place of x? NaN is behind all numbers, so a number is before it.
static V is_before(Cg *c, DType t, V at, V x, bool right) {
  if (REAL >> t & 1) return cg_fcmp(c, right ? LLVMRealULE : LLVMRealULT, at, x);
  return cg_compare_integers(c, t, right ? OP_le : OP_lt, at, x);
}

// Bisects [0, n) for each lane of x, a fixed number of times for n elements: no branch depends on them.
static V places_in(Cg *c, DType t, V row, V n, V x, bool right) {
  V zero_is_poison = LLVMConstInt(c->i1, 0, false), one = cg_i64(c, 1), zero = cg_i64(c, 0);
  V zeros = cg_call_intrinsic(c, "llvm.ctlz", (LLVMTypeRef[]){c->i64}, 1, (V[]){n, zero_is_poison}, 2);
  V range[] = {cg_splat(c, zero), cg_splat(c, n)}, top = cg_splat(c, cg_sub(c, n, one));
  for (Loop l = cg_carry(c, zero, cg_sub(c, cg_i64(c, 64), zeros), one, range, 2); cg_next(&l);) {
    V lo = range[0], hi = range[1], middle = LLVMBuildLShr(c->b, cg_iadd(c, lo, hi), cg_splat(c, one), "");
    V open = cg_lt(c, lo, hi), at = cg_gather(c, cg_elem_type(c, t), row, cg_min(c, middle, top), NULL);
    V up = cg_and(c, open, is_before(c, t, at, x, right));
    range[0] = cg_select(c, up, cg_iadd(c, middle, cg_splat(c, one)), lo);
    range[1] = cg_select(c, open, cg_select(c, up, hi, middle), hi);
  }
  return range[0];
}

// Values [lo, hi) of what is looked for in one row.
static void search_row(Cg *c, Val v, V row, V n, V lo, V hi) {
  Val x = ir_arg(c->f, v, 1);
  DType t = (DType)ir_ins(c->f, x)->dtype;
  View from = cg_view(cg_ptr(c, x), t), to = cg_view(cg_ptr(c, v), DT_I64);
  bool right = ir_attr(c->f, v, KEY_right) != NULL;
  for (Span s = cg_span_guarded(c, lo, hi, c->t->vl); cg_next_vector(&s);)
    cg_span_put(&s, to, places_in(c, t, row, n, cg_span_get(&s, from), right));
}

static bool emit_search(Cg *c, Val v) {
  Val sorted = ir_arg(c->f, v, 0), x = ir_arg(c->f, v, 1);
  const Prog *p = c->f->prog;
  Shape rows = ir_ins(c->f, sorted)->shape, own = ir_ins(c->f, x)->shape;
  LLVMTypeRef elem = cg_elem_type(c, (DType)ir_ins(c->f, x)->dtype);
  uint32_t rank = ir_rank(p, rows), own_rank = ir_rank(p, own);
  V n = cg_dim(c, ir_dim_at(p, rows, rank - 1)), lo, hi, first, last;
  cg_share(c, cg_numel(c, own), 16, &lo, &hi);
  if (rank == 1) {
    search_row(c, v, cg_ptr(c, sorted), n, lo, hi);
    return true;
  }
  V width = cg_max(c, cg_dim(c, ir_dim_at(p, own, own_rank - 1)), cg_i64(c, 1));
  for (Loop l = cg_each_row(c, lo, hi, width, &first, &last); cg_next(&l);) {
    V before = cg_mul(c, l.i, width), row = cg_at(c, elem, cg_ptr(c, sorted), cg_mul(c, l.i, n));
    search_row(c, v, row, n, cg_add(c, before, first), cg_add(c, before, last));
  }
  return true;
}

// n places were found: too many are reported; entries behind the last one are -1.
static void end_places(Cg *c, Val v, V n) {
  V size = cg_numel(c, ir_ins(c->f, v)->shape), count = cg_ptr_or_null(c, ir_result(v, 1)),
    index = cg_ptr_or_null(c, v);
  for (If over = cg_when(c, cg_gt(c, n, size)); cg_then(&over);)
    cg_report(c, TN_KERR_COUNT, cg_sext(c, cg_id(c, v), c->i64), size);
  if (count) cg_store(c, n, count);
  if (!index) return;
  for (Loop l = cg_each(c, n, size); cg_next(&l);) cg_put(c, cg_i64(c, -1), index, l.i);
}

// Worker 0 writes each index as often as its count says. Counts are clamped to the room, so that no sum
// overflows: a clamped one alone makes the sum too large.
static bool emit_repeat_index(Cg *c, Val v) {
  Val counts = ir_arg(c->f, v, 0);
  V size = cg_numel(c, ir_ins(c->f, v)->shape), index = cg_ptr_or_null(c, v);
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), room = cg_add(c, size, one);
  for (If first = cg_when(c, cg_first_worker(c)); cg_then(&first);) {
    V n = zero;
    for (Loop l = cg_carry(c, zero, cg_numel(c, ir_ins(c->f, counts)->shape), one, &n, 1); cg_next(&l);) {
      V count = cg_get(c, c->i64, cg_ptr(c, counts), l.i);
      for (If negative = cg_when(c, cg_lt(c, count, zero)); cg_then(&negative);)
        cg_report(c, TN_KERR_COUNT, cg_sext(c, cg_id(c, v), c->i64), count);
      V end = cg_min(c, cg_add(c, n, cg_min(c, cg_max(c, count, zero), room)), room);
      for (Loop times = cg_each(c, n, cg_min(c, end, size)); cg_next(&times);)
        if (index) cg_put(c, l.i, index, times.i);
      n = end;
    }
    end_places(c, v, n);
  }
  return true;
}

// Worker 0 writes the places of what is not 0, in order. Each place is written, and the next one takes its entry if it was 0:
// no branch depends on the elements.
static bool emit_nonzero(Cg *c, Val v) {
  Val x = ir_arg(c->f, v, 0);
  DType t = (DType)ir_ins(c->f, x)->dtype;
  LLVMTypeRef elem = cg_elem_type(c, t);
  V size = cg_numel(c, ir_ins(c->f, v)->shape), index = cg_ptr_or_null(c, v);
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), nowhere = cg_stack_block(c, c->i64, 1);
  for (If first = cg_when(c, cg_first_worker(c)); cg_then(&first);) {
    V n = zero;
    for (Loop l = cg_carry(c, zero, cg_numel(c, ir_ins(c->f, x)->shape), one, &n, 1); cg_next(&l);) {
      V is_set = cg_is_set(c, t, cg_get(c, elem, cg_ptr(c, x), l.i));
      if (index) cg_store(c, l.i, cg_select(c, cg_lt(c, n, size), cg_at(c, c->i64, index, n), nowhere));
      n = cg_add(c, n, cg_zext(c, is_set, c->i64));
    }
    end_places(c, v, n);
  }
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
