// Rotations of rows, and the parts of a diagonal that need them (vectors.h).
#include "codegen/linalg/vectors.h"

enum { MOST_STEPS = 30 };  // for each number on a diagonal

CgTurn cg_turn_of(Cg *c, V f, V g) {
  V zero = LLVMConstNull(c->f64), one = f64_of(c, 1), sum = cg_fma(c, f, f, cg_fmul(c, g, g));
  V length = f64_root(c, sum);
  V is_none = cg_fcmp(c, LLVMRealOEQ, sum, zero), inverse = cg_fdiv(c, one, length);
  return (CgTurn){cg_select(c, is_none, one, cg_fmul(c, f, inverse)),
                  cg_select(c, is_none, zero, cg_fmul(c, g, inverse)), length};
}

// nv vectors of two rows
static void turn_vectors(Cg *c, V a, V b, V j, uint32_t nv, V cosine, V sine) {
  for (uint32_t k = 0; k < nv; k++) {
    V at = cg_add(c, j, cg_i64(c, (int64_t)k * c->t->vl)), x = cg_get(c, c->vf, a, at), y = cg_get(c, c->vf, b, at);
    cg_store(c, cg_fma(c, cosine, x, cg_fmul(c, sine, y)), f32_at(c, a, at));
    cg_store(c, cg_fma(c, cosine, y, cg_fneg(c, cg_fmul(c, sine, x))), f32_at(c, b, at));
  }
}

void cg_turn_rows(Cg *c, CgTurn t, V a, V b, V n_columns) {
  V from = cg_i64(c, 0), cosine = cg_splat(c, cg_fptrunc(c, t.cosine, c->f32)),
    sine = cg_splat(c, cg_fptrunc(c, t.sine, c->f32));
  for (uint32_t nv = MOST_VECTORS; nv; nv /= 4) {
    V end;
    for (Loop l = cg_each_whole(c, from, n_columns, (int64_t)nv * c->t->vl, &end); cg_next(&l);)
      turn_vectors(c, a, b, l.i, nv, cosine, sine);
    from = end;
  }
}

// ---- parts
static V end_of_part(Cg *c, const CgDiagonal *d, V first) {
  V last = cg_sub(c, d->n, cg_i64(c, 1)), end = last;
  for (Loop l = cg_carry(c, first, last, cg_i64(c, 1), &end, 1); cg_next(&l);) {
    V both =
        cg_fadd(c, f64_size(c, f64_get(c, d->diagonal, l.i)), f64_size(c, f64_get(c, d->diagonal, next_to(c, l.i))));
    V least = cg_fmul(c, both, f64_of(c, 0x1p-36));
    V goes_on = cg_fcmp(c, LLVMRealOGT, f64_size(c, f64_get(c, d->beside, l.i)), least);  // NaN ends a part
    end = cg_select(c, goes_on, last, l.i);
    cg_leave(&l, cg_not(c, goes_on));
  }
  return end;
}

void cg_each_part(Cg *c, const CgDiagonal *d, CgPartFn *step) {
  V first = cg_i64(c, 0), most = cg_mul(c, d->n, cg_i64(c, MOST_STEPS));
  for (Loop l = cg_carry(c, first, most, cg_i64(c, 1), &first, 1); cg_next(&l);) {
    V end = end_of_part(c, d, first), is_done = cg_eq(c, first, end);
    for (If turns = cg_when(c, cg_not(c, is_done)); cg_then(&turns);) step(c, d, first, end);
    first = cg_select(c, is_done, next_to(c, first), first);
    cg_leave(&l, cg_ge(c, first, d->n));
  }
}
