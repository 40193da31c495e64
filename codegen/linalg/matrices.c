// Shared by emitters whose matrices are small and stay as they are in memory: each belongs to one worker.
#include "codegen/linalg/linalg.h"

// ---- rows
void cg_each_vector(Cg *c, V from, V to, CgVectorFn *fn, void *ctx) {
  V vl = cg_vl(c), whole = cg_add(c, from, cg_multiple(c, cg_sub(c, to, from), vl));
  V all = cg_mask(c, vl);
  for (Loop l = cg_each_by(c, from, whole, vl); cg_next(&l);) fn(c, l.i, all, ctx);
  for (If rest = cg_when(c, cg_lt(c, whole, to)); cg_then(&rest);) fn(c, whole, cg_mask(c, cg_sub(c, to, whole)), ctx);
}

V cg_magnitude(Cg *c, V at) { return cg_and(c, cg_load(c, c->i32, at), cg_i32(c, 0x7fffffff)); }

// ---- a worker has matrices of its own
V cg_n_matrices(Cg *c, Shape s) { return cg_axis_product(c, s, 0, ir_rank(c->f->prog, s) - 2); }

V cg_matrix_size(Cg *c, Shape s, uint32_t from_end) {
  return cg_dim(c, ir_dim_at(c->f->prog, s, ir_rank(c->f->prog, s) - from_end));
}

V cg_lane_offsets(Cg *c, V first, V each) {
  return cg_imul(c, cg_iadd(c, cg_splat(c, first), cg_lane_numbers(c)), cg_splat(c, each));
}

CgPlace cg_place_of(Cg *c, Val result, LLVMTypeRef elem, V each, int64_t most) {
  if (cg_stored(c, result)) return (CgPlace){elem, cg_ptr(c, result), each};
  return (CgPlace){elem, cg_block(c, elem, cg_larger(most, 1)), NULL};
}

V cg_place_at(Cg *c, const CgPlace *p, V matrix) {
  return p->each ? cg_at(c, p->elem, p->base, cg_mul(c, matrix, p->each)) : p->base;
}

int64_t cg_unread_bytes(const Fn *f, Val result) {
  return ir_is_read(f, result) ? 0 : cg_larger(4, 4 * ir_shape_bound(f->prog, ir_ins(f, result)->shape));
}
