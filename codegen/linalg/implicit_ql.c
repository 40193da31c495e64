// A symmetric tridiagonal matrix to a diagonal one by implicit QL steps, whose rotations turn the rows of eigenvectors.
//
// A step works on the part [first, end] that has no zero beside the diagonal, from its last row to its first, with the eigenvalue
// of its first two rows that is nearer to the first one as its shift. As EISPACK's imtql2.
#include "codegen/linalg/vectors.h"

static V shift(Cg *c, const CgDiagonal *d, V first) {
  V x = f64_get(c, d->diagonal, first), e = f64_get(c, d->beside, first), one = f64_of(c, 1);
  V half = cg_fdiv(c, cg_fsub(c, f64_get(c, d->diagonal, next_to(c, first)), x), cg_fmul(c, f64_of(c, 2), e));
  V square = cg_fma(c, half, half, one), root = f64_root(c, square);
  V signs[] = {root, half}, with_sign = cg_call_intrinsic(c, "llvm.copysign", &c->f64, 1, signs, 2);
  return cg_fsub(c, x, cg_fdiv(c, e, cg_fadd(c, half, with_sign)));
}

enum { NEXT, SINE, COSINE, LOST, N_CARRIED };

// The numbers of the turn of rows i and i + 1
static void find_turn(Cg *c, const CgDiagonal *d, V i, V x[N_CARRIED]) {
  V above = next_to(c, i), e = f64_get(c, d->beside, i);
  V f = cg_fmul(c, x[SINE], e), b = cg_fmul(c, x[COSINE], e);
  CgTurn t = cg_turn_of(c, x[NEXT], f);
  V kept = cg_fsub(c, f64_get(c, d->diagonal, above), x[LOST]);
  V more = cg_fma(c, cg_fsub(c, f64_get(c, d->diagonal, i), kept), t.sine,
                  cg_fmul(c, cg_fmul(c, f64_of(c, 2), t.cosine), b));
  x[LOST] = cg_fmul(c, t.sine, more);
  cg_put(c, t.length, d->beside, above);
  cg_put(c, cg_fadd(c, kept, x[LOST]), d->diagonal, above);
  x[NEXT] = cg_fsub(c, cg_fmul(c, t.cosine, more), b), x[SINE] = t.sine, x[COSINE] = t.cosine;
}

static void turn_rows(Cg *c, const CgDiagonal *d, V i, V cosine, V sine) {
  V row = f32_at(c, d->rows, cg_mul(c, i, d->ld));
  cg_turn_rows(c, (CgTurn){cosine, sine, NULL}, f32_at(c, row, d->ld), row, d->ld);
}

// A turn's numbers wait for one another: those of the next one are found before rows turn, so that the CPU does both at once.
static void step(Cg *c, const CgDiagonal *d, V first, V end) {
  V zero = f64_of(c, 0), one = f64_of(c, 1), last = cg_sub(c, end, cg_i64(c, 1)), n = cg_sub(c, end, first);
  V x[] = {cg_fsub(c, f64_get(c, d->diagonal, end), shift(c, d, first)), one, one, zero};
  find_turn(c, d, last, x);
  for (Loop l = cg_carry(c, cg_i64(c, 1), n, cg_i64(c, 1), x, N_CARRIED); cg_next(&l);) {
    V i = cg_sub(c, last, l.i), cosine = x[COSINE], sine = x[SINE];
    find_turn(c, d, i, x);
    turn_rows(c, d, next_to(c, i), cosine, sine);
  }
  turn_rows(c, d, first, x[COSINE], x[SINE]);
  cg_put(c, cg_fsub(c, f64_get(c, d->diagonal, first), x[LOST]), d->diagonal, first);
  cg_put(c, x[NEXT], d->beside, first);
  cg_put(c, zero, d->beside, end);
}

// void(ptr diagonal, ptr beside, i64 n, ptr rows, i64 ld)
static void make_ql(Cg *c, V fn, void *ctx) {
  (void)ctx;
  CgDiagonal d = {.diagonal = LLVMGetParam(fn, 0), .beside = LLVMGetParam(fn, 1), .n = LLVMGetParam(fn, 2)};
  d.rows = LLVMGetParam(fn, 3), d.ld = LLVMGetParam(fn, 4);
  cg_each_part(c, &d, step);
  LLVMBuildRetVoid(c->b);
}

void cg_implicit_ql(Cg *c, const CgDiagonal *d) {
  V arg[] = {d->diagonal, d->beside, d->n, d->rows, d->ld};
  cg_call_helper(c, "implicit_ql", arg, 5, make_ql, NULL);
}
