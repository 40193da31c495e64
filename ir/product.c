// Where a product reads its operands and stores its result (product.h).
#include "ir/product.h"
#include "ir/fn.h"
#include "ir/intern.h"

static const Attr *perm_of(const Fn *f, Val v, uint32_t which) {
  static const Key key[] = {KEY_a_perm, KEY_b_perm, KEY_perm};
  return ir_ins(f, v)->op == OP_matmul ? ir_attr(f, v, key[which]) : NULL;
}

Laid ir_laid(const Fn *f, Val v, uint32_t which) {
  const Attr *perm = perm_of(f, v, which);
  Laid l = {.shape = ir_ins(f, which == LAID_RESULT ? v : ir_arg(f, v, which))->shape};
  l.rank = ir_rank(f->prog, l.shape);
  for (uint32_t k = 0; k < l.rank; k++) {
    uint32_t of = perm ? (uint32_t)ir_list_at(f->prog, perm->u.list, k) : k;
    if (which == LAID_RESULT) l.axis[of] = (uint8_t)k;
    else l.axis[k] = (uint8_t)of;
    l.moves |= of != k;
  }
  return l;
}

Dim ir_laid_dim(const Prog *p, const Laid *l, uint32_t axis) { return ir_dim_at(p, l->shape, l->axis[axis]); }

bool ir_is_laid(const Fn *f, Val v) {
  return perm_of(f, v, LAID_A) || perm_of(f, v, LAID_B) || perm_of(f, v, LAID_RESULT);
}

Dim ir_product_terms(const Fn *f, Val v) {
  Laid a = ir_laid(f, v, LAID_A);
  bool ta = ir_ins(f, v)->op == OP_matmul && ir_attr(f, v, KEY_ta);
  return ir_laid_dim(f->prog, &a, a.rank - (ta ? 2 : 1));
}
