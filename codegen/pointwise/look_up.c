// Rows of tables that are read by pointwise kernels: row i of an access is the row of its table that element i of the index names.
//
//   %r = embedding %w, %index : f32[n,64]        the indices of the rows that a worker computes are checked before the first
//   %y = mul %r, %s : f32[n,64]                  of them; where one is wrong the rows are not computed, and the run fails
#include "codegen/pointwise/pointwise.h"

static bool is_padded(const Cg *c, Val look_up) { return ir_attr(c->f, look_up, KEY_padded) != NULL; }

static V n_rows(Cg *c, Val look_up) {
  return cg_dim(c, ir_dim_at(c->f->prog, ir_ins(c->f, ir_arg(c->f, look_up, 0))->shape, 0));
}

// Does the index, element `at` of the look-up's indices, name a row? One that is out of range is reported.
static V check_row(Cg *c, Val look_up, V at, V index) {
  V in_range = cg_below(c, index, n_rows(c, look_up)), wrong = cg_not(c, in_range);
  if (is_padded(c, look_up)) wrong = cg_and(c, wrong, cg_ne(c, index, cg_i64(c, -1)));
  for (If s = cg_when(c, wrong); cg_then(&s);) cg_report(c, TN_KERR_INDEX_RANGE, at, index);
  return in_range;
}

// ---- before the first row
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

// i1: one of the indices [lo, hi) is out of range
static V some_wrong(Pointwise *p, const Access *a, V lo, V hi) {
  Cg *c = p->c;
  uint32_t lanes = c->t->vl;
  V limit = n_rows(c, a->look_up), end = cg_max(c, lo, hi);
  V whole = cg_add(c, lo, cg_multiple(c, cg_sub(c, end, lo), cg_i64(c, lanes)));
  if (is_padded(c, a->look_up)) limit = cg_add(c, limit, cg_i64(c, 1));
  V top = cg_sub(c, limit, cg_i64(c, 1)), none = cg_eq(c, limit, cg_i64(c, 0));
  V many = cg_icmp(c, LLVMIntUGT, largest(p, a, lo, whole, lanes), cg_spread(c, top, lanes));
  V few = cg_icmp(c, LLVMIntUGT, largest(p, a, whole, hi, 1), top);
  V wrong = cg_or(c, lanes > 1 ? cg_any_lane(c, many) : many, few);
  return cg_or(c, wrong, cg_and(c, none, cg_lt(c, lo, hi)));
}

static V check_indices(Pointwise *p, const Access *a, V lo, V hi) {
  Cg *c = p->c;
  V wrong = some_wrong(p, a, lo, hi);
  for (If s = cg_when(c, wrong); cg_then(&s);)
    for (Loop l = cg_each(c, lo, hi); cg_next(&l);)
      check_row(c, a->look_up, l.i, cg_get(c, c->i64, cg_ptr(c, a->index), l.i));
  return cg_not(c, wrong);
}

V cg_pointwise_check_rows(Pointwise *p, V lo, V hi, V from, V to) {
  Cg *c = p->c;
  V fine = NULL, zero = cg_i64(c, 0), one = cg_i64(c, 1), width = p->size[p->n_loop - 1];
  bool is_one_row = p->n_loop == 1;
  for (uint32_t k = 0; k < p->n_acc; k++) {
    const Access *a = &p->acc[k];
    if (!a->index.i) continue;
    V first = is_one_row ? zero : lo, end = is_one_row ? one : hi;
    if (a->of_numbers) first = is_one_row ? from : cg_mul(c, lo, width), end = is_one_row ? to : cg_mul(c, hi, width);
    fine = cg_both(c, fine, check_indices(p, a, first, end));
  }
  return fine;
}

void cg_pointwise_check_empty(Pointwise *p) {
  Cg *c = p->c;
  for (If s = cg_when(c, cg_first_worker(c)); cg_then(&s);)
    for (uint32_t k = 0; k < p->n_acc; k++)
      if (p->acc[k].index.i)
        check_indices(p, &p->acc[k], cg_i64(c, 0), cg_numel(c, ir_ins(c->f, p->acc[k].index)->shape));
}

// ---- one row
// The number of the row with these outer indices
static V row_number(const Pointwise *p, const V *index) {
  if (p->n_loop == 1) return cg_i64(p->c, 0);
  V number = index[0];
  for (uint32_t g = 1; g + 1 < p->n_loop; g++) number = cg_index(p->c, number, p->size[g], index[g]);
  return number;
}

// In the prologue of a product each index is checked as its row is read. One that names no row is read as row 0 without lanes.
void cg_pointwise_enter_table(Pointwise *p, Access *a, const V *index) {
  Cg *c = p->c;
  V at = p->by_rows ? p->at_row : row_number(p, index), i = cg_get(c, c->i64, cg_ptr(c, a->index), at);
  if (p->by_rows) a->row_ok = check_row(c, a->look_up, at, i);
  else if (is_padded(c, a->look_up)) a->row_ok = cg_ge(c, i, cg_i64(c, 0));
  V width = cg_dim(c, ir_dim_at(c->f->prog, ir_ins(c->f, a->v)->shape, 1));
  V row = cg_mul(c, a->row_ok ? cg_select(c, a->row_ok, i, cg_i64(c, 0)) : i, width);
  a->row = cg_at_any(c, cg_elem_type(c, (DType)ir_ins(c->f, a->v)->dtype), cg_ptr(c, a->v), row);
}

// ---- rows of one number
V cg_look_up_numbers(Pointwise *p, const Access *a, V index, V mask) {
  Cg *c = p->c;
  Val table = ir_arg(c->f, a->look_up, 0);
  LLVMTypeRef elem = cg_elem_type(c, (DType)ir_ins(c->f, table)->dtype);
  V zero = cg_spread(c, cg_i64(c, 0), p->lanes), is_row = is_padded(c, a->look_up) ? cg_ge(c, index, zero) : NULL;
  if (p->lanes > 1) return cg_gather(c, elem, cg_ptr(c, table), index, is_row ? cg_both(c, mask, is_row) : mask);
  V x = LLVMConstNull(elem);
  for (If s = cg_when_carry(c, is_row ? is_row : LLVMConstInt(c->i1, 1, false), &x, 1); cg_then(&s);)
    x = cg_get(c, elem, cg_ptr(c, table), index);
  return x;
}
