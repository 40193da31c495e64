// An upper bidiagonal matrix to a diagonal one by implicit QR steps, whose rotations from the left turn the rows of one matrix, and
// those from the right the rows of another.
//
// A step works on the part [first, end] that has no zero beside the diagonal, from its first row to its last, with the smaller
// singular value of its last two rows as its shift; 0 where the diagonal has something next to 0, which such a step moves to the
// end. As LAPACK's dbdsqr.
#include "codegen/linalg/vectors.h"

static V larger(Cg *c, V a, V b) { return cg_select(c, cg_fcmp(c, LLVMRealOGT, a, b), a, b); }
static V smaller(Cg *c, V a, V b) { return cg_select(c, cg_fcmp(c, LLVMRealOGT, a, b), b, a); }

// Of [f g; 0 h]
static V smaller_value(Cg *c, V f, V g, V h) {
  V a = f64_size(c, f), b = f64_size(c, h), square = cg_fmul(c, g, g), sum = cg_fadd(c, a, b), rest = cg_fsub(c, a, b);
  V twice = cg_fadd(c, f64_root(c, cg_fma(c, sum, sum, square)), f64_root(c, cg_fma(c, rest, rest, square)));
  V product = cg_fmul(c, f64_of(c, 2), cg_fmul(c, a, b));
  return cg_select(c, cg_fcmp(c, LLVMRealOGT, twice, f64_of(c, 0)), cg_fdiv(c, product, twice), f64_of(c, 0));
}

// Whether some number on the diagonal of the part counts as 0
static V has_zero(Cg *c, const CgDiagonal *d, V first, V end) {
  V bounds[] = {f64_size(c, f64_get(c, d->diagonal, first)), f64_size(c, f64_get(c, d->diagonal, first))};
  for (Loop l = cg_carry(c, first, end, cg_i64(c, 1), bounds, 2); cg_next(&l);) {
    V x = f64_size(c, f64_get(c, d->diagonal, next_to(c, l.i)));
    bounds[0] = smaller(c, x, bounds[0]), bounds[1] = larger(c, x, bounds[1]);
  }
  return cg_fcmp(c, LLVMRealOLE, bounds[0], cg_fmul(c, bounds[1], f64_of(c, 0x1p-50)));
}

static void turn(Cg *c, CgTurn t, V rows, V ld, V i) {
  V row = f32_at(c, rows, cg_mul(c, i, ld));
  cg_turn_rows(c, t, row, f32_at(c, row, ld), ld);
}

// x - shift^2 / x, x the first number of the diagonal
static V start(Cg *c, const CgDiagonal *d, V first, V end) {
  V before = cg_sub(c, end, cg_i64(c, 1)), x = f64_get(c, d->diagonal, first);
  V shift =
      smaller_value(c, f64_get(c, d->diagonal, before), f64_get(c, d->beside, before), f64_get(c, d->diagonal, end));
  V shifted = cg_fma(c, cg_fneg(c, cg_fdiv(c, shift, x)), shift, x);
  return cg_select(c, has_zero(c, d, first, end), x, shifted);
}

static void step(Cg *c, const CgDiagonal *d, V first, V end) {
  enum { F, G, DIAGONAL, BESIDE };
  V one = cg_i64(c, 1), n = cg_sub(c, end, first), before = cg_sub(c, end, one);
  V e = f64_get(c, d->beside, first), x[] = {start(c, d, first, end), e, f64_get(c, d->diagonal, first), e};
  for (Loop l = cg_carry(c, cg_i64(c, 0), n, one, x, 4); cg_next(&l);) {
    V i = cg_add(c, first, l.i), next = next_to(c, i), d1 = f64_get(c, d->diagonal, next),
      e1 = f64_get(c, d->beside, next);
    CgTurn right = cg_turn_of(c, x[F], x[G]);
    for (If inside = cg_when(c, cg_lt(c, first, i)); cg_then(&inside);)
      cg_put(c, right.length, d->beside, cg_sub(c, i, one));
    V f = cg_fma(c, right.cosine, x[DIAGONAL], cg_fmul(c, right.sine, x[BESIDE]));
    V rest = cg_fma(c, right.cosine, x[BESIDE], cg_fneg(c, cg_fmul(c, right.sine, x[DIAGONAL])));
    V g = cg_fmul(c, right.sine, d1), own = cg_fmul(c, right.cosine, d1);
    CgTurn left = cg_turn_of(c, f, g);
    cg_put(c, left.length, d->diagonal, i);
    x[F] = cg_fma(c, left.cosine, rest, cg_fmul(c, left.sine, own));
    x[DIAGONAL] = cg_fma(c, left.cosine, own, cg_fneg(c, cg_fmul(c, left.sine, rest)));
    x[G] = cg_fmul(c, left.sine, e1), x[BESIDE] = cg_fmul(c, left.cosine, e1);
    turn(c, right, d->right_rows, d->right_ld, i);
    turn(c, left, d->rows, d->ld, i);
  }
  cg_put(c, x[DIAGONAL], d->diagonal, end);
  cg_put(c, x[F], d->beside, before);
}

// void(ptr diagonal, ptr beside, i64 n, ptr rows, i64 ld, ptr rows, i64 ld)
static void make_qr(Cg *c, V fn, void *ctx) {
  (void)ctx;
  CgDiagonal d = {.diagonal = LLVMGetParam(fn, 0), .beside = LLVMGetParam(fn, 1), .n = LLVMGetParam(fn, 2)};
  d.rows = LLVMGetParam(fn, 3), d.ld = LLVMGetParam(fn, 4);
  d.right_rows = LLVMGetParam(fn, 5), d.right_ld = LLVMGetParam(fn, 6);
  cg_each_part(c, &d, step);
  LLVMBuildRetVoid(c->b);
}

void cg_implicit_qr(Cg *c, const CgDiagonal *d) {
  V arg[] = {d->diagonal, d->beside, d->n, d->rows, d->ld, d->right_rows, d->right_ld};
  cg_call_helper(c, "implicit_qr", arg, 7, make_qr, NULL);
}
