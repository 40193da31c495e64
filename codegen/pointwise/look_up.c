// Rows of tables that are read by pointwise kernels: row i of an access is the row of its table that element i of the index names.
//
//   %r = embedding %w, %index : f32[n,64]        the indices of the rows that a worker computes are checked before the first
//   %y = mul %r, %s : f32[n,64]                  of them; where one is wrong the rows are not computed, and the run fails
#include "codegen/pointwise/pointwise.h"

static bool is_padded(const Cg *c, Val look_up) { return ir_attr(c->f, look_up, KEY_padded) != NULL; }

static V n_rows(Cg *c, Val look_up) {
  return cg_dim(c, ir_dim_at(c->f->prog, ir_ins(c->f, ir_arg(c->f, look_up, 0))->shape, 0));
}

V cg_look_up_row(Cg *c, Val look_up, V at, V index) {
  V in_range = cg_below(c, index, n_rows(c, look_up)), wrong = cg_not(c, in_range);
  if (is_padded(c, look_up)) wrong = cg_and(c, wrong, cg_ne(c, index, cg_i64(c, -1)));
  for (If s = cg_when(c, wrong); cg_then(&s);) cg_report(c, TN_KERR_INDEX_RANGE, at, index);
  return in_range;
}

// ---- rows [lo, hi) of a worker
// The largest of the lanes of `most` and of the indices [lo, hi), by `lanes` at once, as numbers without a sign: one below 0 is
// large, and an index that may be -1 counts from there.
static V largest(Pointwise *p, const Access *a, V lo, V hi, uint32_t lanes) {
  Cg *c = p->c;
  LLVMTypeRef t = cg_vector_type(c, DT_I64, lanes);
  V most = LLVMConstNull(t), first = cg_spread(c, cg_i64(c, is_padded(c, a->look_up) ? 1 : 0), lanes);
  for (Loop l = cg_carry(c, lo, hi, cg_i64(c, lanes), &most, 1); cg_next(&l);) {
    V x = cg_load(c, t, cg_at(c, c->i64, cg_ptr(c, a->index), l.i)), i = LLVMBuildAdd(c->b, x, first, "");
    most = cg_select(c, cg_icmp(c, LLVMIntUGT, i, most), i, most);
  }
  return most;
}

// i1: an index of rows [lo, hi) is out of range
static V some_wrong(Pointwise *p, const Access *a, V lo, V hi) {
  Cg *c = p->c;
  uint32_t lanes = c->t->vl;
  V limit = n_rows(c, a->look_up), whole = cg_add(c, lo, cg_multiple(c, cg_sub(c, hi, lo), cg_i64(c, lanes)));
  if (is_padded(c, a->look_up)) limit = cg_add(c, limit, cg_i64(c, 1));
  V many = cg_icmp(c, LLVMIntUGE, largest(p, a, lo, whole, lanes), cg_spread(c, limit, lanes));
  V few = cg_icmp(c, LLVMIntUGE, largest(p, a, whole, hi, 1), limit);
  return cg_or(c, lanes > 1 ? cg_any_lane(c, many) : many, few);
}

V cg_pointwise_check_rows(Pointwise *p, V lo, V hi) {
  Cg *c = p->c;
  V fine = NULL;
  for (uint32_t k = 0; k < p->n_acc; k++) {
    const Access *a = &p->acc[k];
    if (!a->index.i || a->empty) continue;
    V wrong = some_wrong(p, a, lo, hi);
    for (If s = cg_when(c, wrong); cg_then(&s);)
      for (Loop l = cg_each(c, lo, hi); cg_next(&l);)
        cg_look_up_row(c, a->look_up, l.i, cg_get(c, c->i64, cg_ptr(c, a->index), l.i));
    fine = cg_both(c, fine, cg_not(c, wrong));
  }
  p->is_checked = fine != NULL;
  return fine;
}

// ---- one row
// The number of the row with these outer indices
static V row_number(const Pointwise *p, const V *index) {
  if (p->by_rows) return p->at_row;
  if (p->n_loop == 1) return cg_i64(p->c, 0);
  V number = index[0];
  for (uint32_t g = 1; g + 1 < p->n_loop; g++) number = cg_index(p->c, number, p->size[g], index[g]);
  return number;
}

// An index that names no row is read as row 0 without lanes.
void cg_pointwise_enter_table(Pointwise *p, Access *a, const V *index) {
  Cg *c = p->c;
  V at = row_number(p, index), i = cg_get(c, c->i64, cg_ptr(c, a->index), at), zero = cg_i64(c, 0);
  if (!p->is_checked) a->row_ok = cg_look_up_row(c, a->look_up, at, i);
  else if (is_padded(c, a->look_up)) a->row_ok = cg_ge(c, i, zero);
  V width = cg_dim(c, ir_dim_at(c->f->prog, ir_ins(c->f, a->v)->shape, 1));
  V row = cg_mul(c, a->row_ok ? cg_select(c, a->row_ok, i, zero) : i, width);
  a->row = cg_at_any(c, cg_elem_type(c, (DType)ir_ins(c->f, a->v)->dtype), cg_ptr(c, a->v), row);
}
