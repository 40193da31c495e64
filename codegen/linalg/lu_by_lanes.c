// lu and lu_solve of many small matrices: a lane each; by the steps of lu.c element by element, so the same bits.
//
// Element (i, j) of vl matrices is a vector at (i n + j) vl of the worker's block. Where lanes have their pivots in different rows, rows
// change places by selects, in the pass that subtracts. Matrices come and go by transposes; lanes without one have zeros.
#include "codegen/linalg/linalg.h"

enum { MOST_N = 32, LEAST_MATRICES = 8, GROUP = 4 };  // GROUP: columns that are loaded together
enum { MOST_N_TO_SOLVE = 8, LEAST_LANES = 2 };

typedef struct {
  V at, perm, n;  // perm: n vectors of i32
} Lanes;

static int64_t block_vectors(const Target *t, int64_t n) { return cg_round_up(n * n, t->vl); }

bool cg_lu_takes_lanes(const Fn *f, Val v, const Target *t) {
  const Prog *p = f->prog;
  Shape s = ir_ins(f, v)->shape;
  uint32_t r = ir_rank(p, s);
  int64_t n = ir_dim_bound(p, ir_dim_at(p, s, r - 1));
  bool fits = n <= MOST_N && block_vectors(t, n) * t->vl * 4 <= t->stack_bytes / 2;
  return fits && cg_axis_bound(p, s, 0, r - 2) >= LEAST_MATRICES;
}

static V vector_at(Cg *c, V block, V i) { return f32_at(c, block, cg_mul(c, i, cg_vl(c))); }
static V place(Cg *c, const Lanes *m, V i, V j) { return vector_at(c, m->at, cg_index(c, i, m->n, j)); }
static V element(Cg *c, const Lanes *m, V i, V j) { return cg_load(c, c->vf, place(c, m, i, j)); }
static V number(Cg *c, V i) { return cg_splat(c, cg_trunc(c, i, c->i32)); }

static V magnitude(Cg *c, const Lanes *m, V i, V j) {
  return cg_and(c, cg_bitcast(c, element(c, m, i, j), c->vi32), cg_splat(c, cg_i32(c, 0x7fffffff)));
}

// vi32: the row of the largest element of column k from row k on
static V pivot_rows(Cg *c, const Lanes *m, V k) {
  V best[] = {magnitude(c, m, k, k), number(c, k)};
  for (Loop l = cg_carry(c, next_to(c, k), m->n, cg_i64(c, 1), best, 2); cg_next(&l);) {
    V size = magnitude(c, m, l.i, k), is_larger = cg_icmp(c, LLVMIntUGT, size, best[0]);
    best[0] = cg_select(c, is_larger, size, best[0]), best[1] = cg_select(c, is_larger, number(c, l.i), best[1]);
  }
  return best[1];
}

// Columns, those of a matrix or the order of rows as bits, whose elements (0, ..) lie at `at`, and `row` vectors apart from row to row
typedef struct {
  V at, row;
} Columns;

static V cell(Cg *c, const Columns *s, V i, uint32_t q) {
  return vector_at(c, s->at, cg_index(c, i, s->row, cg_i64(c, q)));
}

// In `width` columns, row k changes places with the row that its lane has in `from`; if `eliminates`, the rows below lose
// their factors times it.
static void exchange(Cg *c, const Lanes *m, V k, V from, const Columns *s, uint32_t width, bool eliminates) {
  V old[GROUP], best[GROUP];
  for (uint32_t q = 0; q < width; q++) old[q] = best[q] = cg_load(c, c->vf, cell(c, s, k, q));
  for (Loop i = cg_carry(c, next_to(c, k), m->n, cg_i64(c, 1), best, width); cg_next(&i);) {
    V is_it = cg_eq(c, from, number(c, i.i));
    for (uint32_t q = 0; q < width; q++) best[q] = cg_select(c, is_it, cg_load(c, c->vf, cell(c, s, i.i, q)), best[q]);
  }
  for (uint32_t q = 0; q < width; q++) cg_store(c, best[q], cell(c, s, k, q));
  for (Loop i = cg_each(c, next_to(c, k), m->n); cg_next(&i);) {
    V is_it = cg_eq(c, from, number(c, i.i)), minus = eliminates ? cg_fneg(c, element(c, m, i.i, k)) : NULL;
    for (uint32_t q = 0; q < width; q++) {
      V at = cell(c, s, i.i, q), x = cg_select(c, is_it, old[q], cg_load(c, c->vf, at));
      cg_store(c, eliminates ? cg_fma(c, minus, best[q], x) : x, at);
    }
  }
}

static void exchange_between(Cg *c, const Lanes *m, V k, V from, V first, V end, bool eliminates) {
  V whole, zero = cg_i64(c, 0);
  for (Loop j = cg_each_whole(c, first, end, GROUP, &whole); cg_next(&j);)
    exchange(c, m, k, from, &(Columns){place(c, m, zero, j.i), m->n}, GROUP, eliminates);
  for (Loop j = cg_each(c, whole, end); cg_next(&j);)
    exchange(c, m, k, from, &(Columns){place(c, m, zero, j.i), m->n}, 1, eliminates);
}

// Column k below the pivot becomes factors.
static void divide(Cg *c, const Lanes *m, V k) {
  V pivot = element(c, m, k, k), is_zero = cg_fcmp(c, LLVMRealOEQ, pivot, cg_zeros(c));
  for (Loop i = cg_each(c, next_to(c, k), m->n); cg_next(&i);) {
    V quotient = cg_fdiv(c, element(c, m, i.i, k), pivot);
    cg_store(c, cg_select(c, is_zero, cg_zeros(c), quotient), place(c, m, i.i, k));
  }
}

// Returns the signs of the orders of rows.
static V factor(Cg *c, const Lanes *m) {
  V sign = cg_splat(c, cg_f32(c, 1));
  for (Loop l = cg_count(c, m->n); cg_next(&l);) cg_store(c, number(c, l.i), vector_at(c, m->perm, l.i));
  for (Loop l = cg_carry(c, cg_i64(c, 0), m->n, cg_i64(c, 1), &sign, 1); cg_next(&l);) {
    V from = pivot_rows(c, m, l.i), stays = cg_eq(c, from, number(c, l.i));
    V next = cg_select(c, stays, sign, cg_fneg(c, sign));
    exchange(c, m, l.i, from, &(Columns){m->perm, cg_i64(c, 1)}, 1, false);
    exchange_between(c, m, l.i, from, cg_i64(c, 0), next_to(c, l.i), false);
    divide(c, m, l.i);
    exchange_between(c, m, l.i, from, next_to(c, l.i), m->n, true);
    sign = next;
  }
  return sign;
}

static void store_results(Cg *c, const Lanes *m, Val v, V first, V n_lanes, V sign) {
  V square = cg_mul(c, m->n, m->n), mask = cg_mask(c, n_lanes);
  if (cg_stored(c, v)) {
    V to = f32_at(c, cg_ptr(c, v), cg_mul(c, first, square));
    cg_store_transposed(c, m->at, cg_vl(c), square, n_lanes, to, square);
  }
  if (cg_stored(c, ir_result(v, 1)))
    for (Loop l = cg_count(c, m->n); cg_next(&l);) {
      V at = cg_iadd(c, cg_lane_offsets(c, first, m->n), cg_splat(c, l.i));
      V rows = cg_sext(c, cg_load(c, c->vi32, vector_at(c, m->perm, l.i)), c->vi64);
      cg_scatter(c, rows, cg_ptr(c, ir_result(v, 1)), at, mask);
    }
  if (cg_stored(c, ir_result(v, 2))) cg_put_masked(c, sign, cg_ptr(c, ir_result(v, 2)), first, mask);
}

void cg_emit_lu_by_lanes(Cg *c, Val v) {
  Shape s = ir_ins(c->f, v)->shape;
  V a = cg_ptr(c, ir_arg(c->f, v, 0)), n = cg_matrix_size(c, s, 1), square = cg_mul(c, n, n),
    matrices = cg_n_matrices(c, s);
  int64_t most = cg_larger(1, ir_dim_bound(c->f->prog, ir_dim_at(c->f->prog, s, ir_rank(c->f->prog, s) - 1)));
  V vl = cg_vl(c), block = cg_block(c, c->f32, block_vectors(c->t, most) * c->t->vl),
    perm = cg_block(c, c->i32, most * c->t->vl);
  Lanes m = {block, perm, n};
  for (Loop l = cg_each_shared(c, cg_ceil_div_value(c, matrices, c->t->vl), 1); cg_next(&l);) {
    V first = cg_mul(c, l.i, vl), n_lanes = cg_min(c, cg_sub(c, matrices, first), vl);
    V from = f32_at(c, a, cg_mul(c, first, square));
    for (Loop k = cg_count_by(c, square, vl); cg_next(&k);) {
      V left = cg_min(c, cg_sub(c, square, k.i), vl);
      cg_transpose_block(c, f32_at(c, from, k.i), square, n_lanes, left, vector_at(c, block, k.i), vl);
    }
    store_results(c, &m, v, first, n_lanes, factor(c, &m));
  }
}

// ---- lu_solve: element (i, r) of vl right-hand sides is a vector at (i n_lanes + r) vl of the worker's block
typedef struct {
  bool ta;
  V lu, perm, x, n, lanes;
  V of_lu, of_perm, of_b, mask;  // where matrices begin
} Systems;

bool cg_lu_solve_takes_lanes(const Fn *f, Val v) {
  const Prog *p = f->prog;
  Shape s = ir_ins(f, v)->shape;
  uint32_t r = ir_rank(p, s);
  int64_t n = ir_dim_bound(p, ir_dim_at(p, s, r - 2)), lanes = ir_dim_bound(p, ir_dim_at(p, s, r - 1));
  return n <= MOST_N_TO_SOLVE && lanes >= LEAST_LANES && lanes <= MOST_N_TO_SOLVE &&
         cg_axis_bound(p, s, 0, r - 2) >= LEAST_MATRICES;
}

static V side(Cg *c, const Systems *s, V i, V r) { return vector_at(c, s->x, cg_index(c, i, s->lanes, r)); }
static V side_of(Cg *c, const Systems *s, V i, V r) { return cg_load(c, c->vf, side(c, s, i, r)); }

static V factor_at(Cg *c, const Systems *s, V i, V k) {
  V at = s->ta ? cg_index(c, k, s->n, i) : cg_index(c, i, s->n, k);
  return cg_gather(c, c->f32, s->lu, cg_iadd(c, s->of_lu, cg_splat(c, at)), s->mask);
}

// Where row k lies in memory, of right-hand sides or of solutions, whichever has the order of the matrix
static V row_at(Cg *c, const Systems *s, V k, bool is_permuted) {
  if (!is_permuted) return cg_iadd(c, s->of_b, cg_splat(c, cg_mul(c, k, s->lanes)));
  V row = cg_gather(c, c->i64, s->perm, cg_iadd(c, s->of_perm, cg_splat(c, k)), s->mask);
  return cg_iadd(c, s->of_b, cg_imul(c, row, cg_splat(c, s->lanes)));
}

// Subtracts the part of row k from rows [from, to); first scales it by the diagonal, unless that is 1.
static void give_row(Cg *c, const Systems *s, V k, V from, V to, bool is_unit) {
  V one = cg_splat(c, cg_f32(c, 1)), diagonal = is_unit ? NULL : cg_select(c, s->mask, factor_at(c, s, k, k), one);
  V scale = is_unit ? NULL : cg_fdiv(c, one, diagonal);
  if (scale)
    for (Loop r = cg_count(c, s->lanes); cg_next(&r);)
      cg_store(c, cg_fmul(c, side_of(c, s, k, r.i), scale), side(c, s, k, r.i));
  for (Loop i = cg_each(c, from, to); cg_next(&i);) {
    V minus = cg_fneg(c, factor_at(c, s, i.i, k));
    for (Loop r = cg_count(c, s->lanes); cg_next(&r);)
      cg_store(c, cg_fma(c, minus, side_of(c, s, k, r.i), side_of(c, s, i.i, r.i)), side(c, s, i.i, r.i));
  }
}

static void solve_lanes(Cg *c, const Systems *s, V b, V out) {
  V zero = cg_i64(c, 0), last = cg_sub(c, s->n, cg_i64(c, 1));
  for (Loop i = cg_count(c, s->n); cg_next(&i);) {
    V row = row_at(c, s, i.i, !s->ta);
    for (Loop r = cg_count(c, s->lanes); cg_next(&r);)
      cg_store(c, cg_gather(c, c->f32, b, cg_iadd(c, row, cg_splat(c, r.i)), s->mask), side(c, s, i.i, r.i));
  }
  for (Loop l = cg_count(c, s->n); cg_next(&l);) give_row(c, s, l.i, next_to(c, l.i), s->n, !s->ta);
  for (Loop l = cg_count(c, s->n); cg_next(&l);) {
    V k = cg_sub(c, last, l.i);
    give_row(c, s, k, zero, k, s->ta);
  }
  for (Loop i = cg_count(c, s->n); cg_next(&i);) {
    V row = row_at(c, s, i.i, s->ta);
    for (Loop r = cg_count(c, s->lanes); cg_next(&r);)
      cg_scatter(c, side_of(c, s, i.i, r.i), out, cg_iadd(c, row, cg_splat(c, r.i)), s->mask);
  }
}

void cg_emit_lu_solve_by_lanes(Cg *c, Val v) {
  const Prog *p = c->f->prog;
  Shape shape = ir_ins(c->f, v)->shape;
  uint32_t rank = ir_rank(p, shape);
  V n = cg_matrix_size(c, shape, 2), lanes = cg_matrix_size(c, shape, 1), matrices = cg_n_matrices(c, shape);
  int64_t most = cg_larger(1, cg_axis_bound(p, shape, rank - 2, rank));
  Systems s = {.ta = ir_attr(c->f, v, KEY_ta) != NULL, .n = n, .lanes = lanes};
  s.lu = cg_ptr(c, ir_arg(c->f, v, 1)), s.perm = cg_ptr(c, ir_arg(c->f, v, 2));
  s.x = cg_block(c, c->f32, most * c->t->vl);
  V b = cg_ptr(c, ir_arg(c->f, v, 3)), out = cg_ptr(c, v);
  for (Loop l = cg_each_shared(c, cg_ceil_div_value(c, matrices, c->t->vl), 1); cg_next(&l);) {
    V first = cg_mul(c, l.i, cg_vl(c));
    s.mask = cg_mask(c, cg_sub(c, matrices, first)), s.of_perm = cg_lane_offsets(c, first, n);
    s.of_lu = cg_lane_offsets(c, first, cg_mul(c, n, n)), s.of_b = cg_lane_offsets(c, first, cg_mul(c, n, lanes));
    solve_lanes(c, &s, b, out);
  }
}
