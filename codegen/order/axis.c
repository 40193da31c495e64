// A tensor seen along one axis.
#include "codegen/order/axis.h"

CgAxis cg_axis_of(Cg *c, Shape s, uint32_t axis) {
  return (CgAxis){cg_axis_product(c, s, 0, axis), cg_axis_product(c, s, axis, axis + 1),
                  cg_axis_product(c, s, axis + 1, ir_rank(c->f->prog, s))};
}

bool cg_same_axes(const Prog *p, Shape a, Shape b, uint32_t from, uint32_t to) {
  for (uint32_t k = from; k < to; k++)
    if (ir_dim_at(p, a, k).i != ir_dim_at(p, b, k).i) return false;
  return true;
}

V cg_part_offset(Cg *c, Shape part, Shape whole, uint32_t from, uint32_t to, V flat) {
  const Prog *p = c->f->prog;
  if (cg_same_axes(p, part, whole, from, to)) return flat;
  V sum = cg_i64(c, 0), stride = cg_i64(c, 1);
  for (uint32_t k = to; k-- > from;) {
    V own = cg_dim(c, ir_dim_at(p, part, k)), rest = k == from ? cg_i64(c, 0) : cg_div(c, flat, own);
    V at = k == from ? flat : cg_sub(c, flat, cg_mul(c, rest, own));
    sum = cg_add(c, sum, cg_mul(c, at, stride));
    stride = cg_mul(c, stride, cg_dim(c, ir_dim_at(p, whole, k)));
    flat = rest;
  }
  return sum;
}

void cg_report_index(Cg *c, V at, V index) {
  bool is_padded = ir_attr(c->f, (Val){c->k->first}, KEY_padded) != NULL;
  for (If named = cg_when(c, is_padded ? cg_ne(c, index, cg_i64(c, -1)) : NULL); cg_then(&named);)
    cg_report(c, TN_KERR_INDEX_RANGE, at, index);
}
