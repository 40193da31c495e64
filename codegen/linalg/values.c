// eigh and svd of which only values are read: matrices are spread to whole vectors and reduced, then values are halved (values.h).
#include "codegen/linalg/values.h"

bool cg_values_alone(const Fn *f, Val v) {
  if (ir_ins(f, v)->op == OP_eigh) return !ir_is_read(f, ir_result(v, 1));
  return !ir_is_read(f, v) && !ir_is_read(f, ir_result(v, 2));
}

int64_t cg_values_scratch_bytes(const Fn *f, Val v, const Target *t) {
  Val a = ir_arg(f, v, 0);
  return cg_by_lanes(f, a) ? 0 : cg_spread_bytes(f, a, t);
}

static void scale_values(Cg *c, V out, V from, V n, V scales[2]) {
  V up = cg_splat(c, scales[1]), by = cg_splat(c, scales[0]);
  for (Loop l = cg_count_by(c, n, cg_vl(c)); cg_next(&l);) {
    V x = cg_fmul(c, cg_fmul(c, cg_load(c, c->vf, f32_at(c, from, l.i)), up), by);
    cg_store_masked(c, x, f32_at(c, out, l.i), cg_mask(c, cg_sub(c, n, l.i)));
  }
}

static void emit_one(Cg *c, const CgValuesOp *op, V matrix) {
  CgSpread m = cg_spread_of(c, matrix, op->rows, op->n);
  V scales[2], values = cg_spread_behind(c, &m, BEHIND_VALUES);
  cg_spread_fill(c, &m, f32_at(c, op->from, cg_mul(c, matrix, cg_mul(c, op->rows, op->n))), !op->is_singular, scales);
  if (op->is_singular) cg_bidiagonal(c, &m, NULL, NULL);
  else cg_tridiagonal(c, &m, false);
  CgBisect b = {cg_spread_behind(c, &m, BEHIND_DIAGONAL),
                cg_spread_behind(c, &m, BEHIND_BESIDE),
                values,
                op->rows,
                op->is_singular,
                .by_lanes = false};
  cg_bisect(c, &b);
  scale_values(c, f32_at(c, op->out, cg_mul(c, matrix, op->rows)), values, op->rows, scales);
}

void cg_emit_values(Cg *c, Val v) {
  Val a = ir_arg(c->f, v, 0);
  Shape shape = ir_ins(c->f, a)->shape;
  CgValuesOp op = {.a = a, .from = cg_ptr(c, a), .is_singular = ir_ins(c->f, v)->op == OP_svd};
  op.out = cg_ptr(c, ir_result(v, op.is_singular ? 1 : 0)), op.n_matrices = cg_n_matrices(c, shape);
  op.rows = cg_matrix_size(c, shape, 2), op.n = cg_matrix_size(c, shape, 1);
  if (cg_by_lanes(c->f, a)) {
    cg_emit_values_by_lanes(c, &op);
    return;
  }
  for (Loop l = cg_each_shared(c, op.n_matrices, 1); cg_next(&l);) emit_one(c, &op, l.i);
}
