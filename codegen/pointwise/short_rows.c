// Rows of a few elements, of which some operand has whole columns, or one for all (pointwise.h): such as pixels of three channels that
// lie first, points minus their means, or permutations that put a short axis last. Vectors run across rows:
//
//   a0 a1 a2 ..   b0 b1 b2 ..   c0 c1 c2 ..      ->      a0 b0 c0 a1 b1 c1 ..      columns, as they lie in memory
//   m0 m1 m2 ..                                  ->      m0 m0 m0 m1 m1 m1 ..      one number for each row
//   a b c                                        ->      a b c a b c ..            one row for all
//
// A turn is vl rows: as many vectors of the result as a row has elements, which operands of the result's shape share.
#include "codegen/pointwise/pointwise.h"

enum { LEAST_ROWS = 8, SMALL = 4096, GRAIN = 2048 };

// How an operand moves along rows, and along the elements of one.
static TurnKind kind_of(V rows, V elements, int64_t n) {
  if (cg_is_int(rows, 0) && cg_is_int(elements, 0)) return TURN_SAME;
  if (cg_is_int(rows, n) && cg_is_int(elements, 1)) return TURN_FLAT;
  if (cg_is_int(rows, 0)) return TURN_ROW;
  if (!cg_is_int(rows, 1)) return TURN_NONE;
  return cg_is_int(elements, 0) ? TURN_NUMBERS : TURN_COLUMNS;
}

static bool are_columns(const Pointwise *p) {
  for (uint32_t k = p->from; k < p->to; k++)
    if (ir_is_interleaved(p->c->f, (Val){p->c->k->first + k})) return true;
  return false;
}

static TurnKind kind_at(const Pointwise *p, const Access *a, int64_t n) {
  if (a->partial || a->index.i || a->tile) return TURN_NONE;
  return a->empty ? TURN_SAME : kind_of(a->stride[p->n_loop - 2], a->stride[p->n_loop - 1], n);
}

static bool fits(const Pointwise *p, int64_t n) {
  if (n < 2 || n > IR_MOST_COLUMNS || n >= p->c->t->vl) return false;
  if (cg_pointwise_axis_bound(p, p->n_loop - 2) < LEAST_ROWS) return false;
  for (uint32_t k = 0; k < p->n_acc; k++)
    if (kind_at(p, &p->acc[k], n) == TURN_NONE) return false;
  return true;
}

bool cg_pointwise_plan_short_rows(Pointwise *p) {
  Cg *c = p->c;
  int64_t n;
  uint32_t last = p->n_loop - 1;
  if (p->n_loop < 2 || p->seg.n || p->lanes != c->t->vl || are_columns(p)) return false;
  if (!cg_const_value(p->size[last], &n) || !fits(p, n)) return false;
  for (uint32_t k = 0; k < p->n_acc; k++) {
    Access *a = &p->acc[k];
    a->turn = kind_at(p, a, n), a->turn_stride = a->stride[last];
    a->stride[last - 1] = cg_i64(c, a->turn == TURN_SAME ? 0 : 1);
    if (a->turn > TURN_FLAT) a->square = rt_alloc(c->mem, (size_t)n * sizeof(V));
  }
  p->size[last - 1] = cg_mul(c, p->size[last - 1], p->size[last]);
  p->last_of[last - 1] = p->last_of[last];
  p->turn = (uint32_t)n, p->n_loop--;
  return true;
}

// ---- vectors of a turn
static LLVMTypeRef elem_of(const Pointwise *p, const Access *a) {
  return cg_elem_type(p->c, (DType)ir_ins(p->c->f, a->v)->dtype);
}

static bool is_same_for_all(const Pointwise *p, const Access *a) {
  bool is = true;
  for (uint32_t g = 0; g + 1 < p->n_loop; g++) is &= cg_is_int(a->stride[g], 0);
  return is;
}

// A row for all, at `from`
static void load_row(Pointwise *p, Access *a, V from) {
  Cg *c = p->c;
  V column[IR_MOST_COLUMNS];
  for (uint32_t s = 0; s < p->turn; s++) {
    V at = cg_mul(c, a->turn_stride, cg_i64(c, s));
    column[s] = cg_spread(c, cg_load(c, elem_of(p, a), cg_at_any(c, elem_of(p, a), from, at)), p->lanes);
  }
  for (uint32_t j = 0; j < p->turn; j++) a->square[j] = cg_pointwise_interleaved(p, column, p->turn, j);
}

// Rows from `first` on, masked or not.
static void load_columns(Pointwise *p, Access *a, V first, V mask) {
  Cg *c = p->c;
  uint32_t n = a->turn == TURN_COLUMNS ? p->turn : 1;
  V column[IR_MOST_COLUMNS];
  for (uint32_t s = 0; s < n; s++) {
    V at = cg_add(c, first, cg_mul(c, a->turn_stride, cg_i64(c, s)));
    V from = cg_at_any(c, elem_of(p, a), a->row, at);
    column[s] = cg_load_masked(c, cg_vector_type(c, (DType)ir_ins(c->f, a->v)->dtype, p->lanes), from, mask);
  }
  for (uint32_t j = 0; j < p->turn; j++)
    a->square[j] = n > 1 ? cg_pointwise_interleaved(p, column, n, j) : cg_pointwise_repeated(p, column[0], p->turn, j);
}

// Rows [first, first + n) of those that begin at element `row`; n NULL: a whole turn.
static void emit_turn(Pointwise *p, V row, V first, V n) {
  Cg *c = p->c;
  V mask = n ? cg_mask(c, n) : NULL, begin = cg_mul(c, first, cg_i64(c, p->turn));
  for (uint32_t k = 0; k < p->n_acc; k++)
    if (p->acc[k].turn == TURN_COLUMNS || p->acc[k].turn == TURN_NUMBERS) load_columns(p, &p->acc[k], first, mask);
  for (p->square_row = 0; p->square_row < p->turn; p->square_row++) {
    V before = cg_i64(c, (int64_t)p->square_row * p->lanes), i = cg_add(c, begin, before);
    V left = n ? cg_sub(c, cg_mul(c, n, cg_i64(c, p->turn)), before) : NULL;
    for (If some = cg_when(c, n ? cg_gt(c, left, cg_i64(c, 0)) : NULL); cg_then(&some);)
      cg_pointwise_vector(p, row, i, n ? cg_mask(c, left) : NULL);
  }
}

static void emit_row_of_turns(Pointwise *p, V number, V turn, V end, V *index) {
  Cg *c = p->c;
  V rows = cg_div(c, p->size[p->n_loop - 1], cg_i64(c, p->turn)), vl = cg_vl(c);
  V row = p->n_loop == 1 ? cg_i64(c, 0) : cg_mul(c, number, p->size[p->n_loop - 1]);
  cg_pointwise_enter(p, index);
  for (uint32_t k = 0; k < p->n_acc; k++)
    if (p->acc[k].turn == TURN_ROW && !is_same_for_all(p, &p->acc[k])) load_row(p, &p->acc[k], p->acc[k].row);
  for (Loop l = cg_each(c, turn, end); cg_next(&l);) {
    V first = cg_mul(c, l.i, vl), left = cg_sub(c, rows, first);
    for (If whole = cg_either(c, cg_ge(c, left, vl)); cg_then(&whole);)
      emit_turn(p, row, first, whole.is_true ? NULL : left);
  }
}

// Turns [lo, hi) of those of all outer indices.
static void emit_range(Pointwise *p, V lo, V hi, V turns) {
  Cg *c = p->c;
  V index[MAX_RANK] = {NULL}, first, last;
  if (p->n_loop == 1) {
    emit_row_of_turns(p, NULL, lo, hi, index);
    return;
  }
  for (Loop l = cg_each_row(c, lo, hi, cg_max(c, turns, cg_i64(c, 1)), &first, &last); cg_next(&l);) {
    cg_pointwise_split(p, l.i, index);
    emit_row_of_turns(p, l.i, first, last, index);
  }
}

void cg_pointwise_emit_short_rows(Pointwise *p) {
  Cg *c = p->c;
  int64_t of_turn = (int64_t)p->turn * p->lanes;
  V turns = cg_ceil_div_value(c, p->size[p->n_loop - 1], of_turn), n = turns, lo, hi;
  for (uint32_t g = 0; g + 1 < p->n_loop; g++) n = cg_mul(c, n, p->size[g]);
  for (uint32_t k = 0; k < p->n_acc; k++) {
    Access *a = &p->acc[k];
    if (a->turn == TURN_ROW && is_same_for_all(p, a))
      load_row(p, a, cg_at_any(c, elem_of(p, a), cg_ptr(c, a->v), a->base));
  }
  if (ir_shape_bound(c->f->prog, p->shape) < SMALL) {
    for (If s = cg_when(c, cg_first_worker(c)); cg_then(&s);) emit_range(p, cg_i64(c, 0), n, turns);
    return;
  }
  cg_share(c, n, cg_ceil_div(GRAIN, of_turn), &lo, &hi);
  emit_range(p, lo, hi, turns);
}
