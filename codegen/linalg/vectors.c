// eigh and svd of which vectors are read (vectors.h).
#include "codegen/linalg/vectors.h"

#include "codegen/math/primitives.h"

static V doubles(Cg *c, const CgSpread *m, uint32_t behind, uint32_t from, V n) {
  V to = cg_spread_behind(c, m, behind), floats = cg_spread_behind(c, m, from);
  for (Loop l = cg_count(c, n); cg_next(&l);) cg_put(c, cg_fpext(c, cg_get(c, c->f32, floats, l.i), c->f64), to, l.i);
  return to;
}

static CgDiagonal diagonal_of(Cg *c, const CgSpread *m) {
  V beside = cg_spread_behind(c, m, BEHIND_BESIDE);
  for (If some = cg_when(c, cg_lt(c, cg_i64(c, 0), m->n_rows)); cg_then(&some);)
    cg_put(c, cg_f32(c, 0), beside, cg_sub(c, m->n_rows, cg_i64(c, 1)));
  CgDiagonal d = {.n = m->n_rows, .rows = m->at, .ld = m->ld};
  d.diagonal = doubles(c, m, BEHIND_DOUBLES, BEHIND_DIAGONAL, d.n);
  d.beside = doubles(c, m, BEHIND_BESIDE_DOUBLES, BEHIND_BESIDE, d.n);
  return d;
}

// ---- results in order
typedef struct {
  const CgDiagonal *d;
  bool falls;   // the largest value is the first; values lose their signs
  V scales[2];  // of the values
  V values, columns, rows,
      n_columns;  // results; NULL: nobody reads it. columns: vectors as columns, of d->rows or d->right_rows
} Results;

static V value(Cg *c, const Results *r, V k) {
  V x = f64_get(c, r->d->diagonal, k);
  return r->falls ? f64_size(c, x) : x;
}

// How many values stand before value k: equal ones, and those that are NaN, in the order they have.
static V place_of(Cg *c, const Results *r, V k) {
  V own = value(c, r, k), place = cg_i64(c, 0);
  for (Loop l = cg_carry(c, cg_i64(c, 0), r->d->n, cg_i64(c, 1), &place, 1); cg_next(&l);) {
    V other = value(c, r, l.i), less = cg_fcmp(c, LLVMRealOLT, r->falls ? own : other, r->falls ? other : own),
      more = cg_fcmp(c, LLVMRealOLT, r->falls ? other : own, r->falls ? own : other);
    V is_before = cg_or(c, less, cg_and(c, cg_not(c, more), cg_lt(c, l.i, k)));
    place = cg_iadd(c, place, cg_zext(c, is_before, c->i64));
  }
  return place;
}

static void store_column(Cg *c, const Results *r, V from, V place, V nothing) {
  for (Loop l = cg_count(c, r->d->n); cg_next(&l);)
    cg_put(c, cg_fadd(c, cg_get(c, c->f32, from, l.i), nothing), r->columns, cg_index(c, l.i, r->d->n, place));
}

typedef struct {
  V to, from, sign, nothing;
} Row;

static void store_vectors(Cg *c, V k, V mask, void *ctx) {
  const Row *r = ctx;
  V x = cg_get(c, c->vf, r->from, k);
  cg_store_masked(c, cg_fma(c, cg_splat(c, r->sign), x, cg_splat(c, r->nothing)), f32_at(c, r->to, k), mask);
}

// A matrix that has something else than numbers has NaN everywhere: the first scale is NaN.
static void store(Cg *c, const Results *r) {
  const CgDiagonal *d = r->d;
  V nothing = cg_fmul(c, r->scales[0], cg_f32(c, 0));
  V from = r->falls ? d->right_rows : d->rows, from_ld = r->falls ? d->right_ld : d->ld;
  for (Loop l = cg_count(c, d->n); cg_next(&l);) {
    V place = place_of(c, r, l.i), x = cg_fptrunc(c, value(c, r, l.i), c->f32);
    V scaled = cg_fmul(c, cg_fmul(c, x, r->scales[1]), r->scales[0]);
    if (r->values) cg_put(c, scaled, r->values, place);
    if (r->columns) store_column(c, r, f32_at(c, from, cg_mul(c, l.i, from_ld)), place, nothing);
    if (!r->rows) continue;
    V signs[] = {cg_f32(c, 1), cg_fptrunc(c, f64_get(c, d->diagonal, l.i), c->f32)};
    Row row = {f32_at(c, r->rows, cg_mul(c, place, r->n_columns)), f32_at(c, d->rows, cg_mul(c, l.i, d->ld)),
               cg_primitive(c, OP_copysign, signs), nothing};
    cg_each_vector(c, cg_i64(c, 0), r->n_columns, store_vectors, &row);
  }
}

static V result_of(Cg *c, Val result, V matrix, V each) {
  return cg_stored(c, result) ? f32_at(c, cg_ptr(c, result), cg_mul(c, matrix, each)) : NULL;
}

// ---- ops
static void emit_each(Cg *c, Val v, void (*emit)(Cg *c, Val v, V matrix)) {
  if (cg_values_alone(c->f, v)) {
    cg_emit_values(c, v);
    return;
  }
  V n = cg_n_matrices(c, ir_ins(c->f, ir_arg(c->f, v, 0))->shape);
  for (Loop l = cg_each_shared(c, n, 1); cg_next(&l);) emit(c, v, l.i);
}

static void emit_eigh(Cg *c, Val v, V matrix) {
  Val a = ir_arg(c->f, v, 0);
  V n = cg_matrix_size(c, ir_ins(c->f, a)->shape, 1), square = cg_mul(c, n, n);
  CgSpread m = cg_spread_of(c, matrix, n, n);
  Results r = {.columns = result_of(c, ir_result(v, 1), matrix, square), .values = result_of(c, v, matrix, n)};
  cg_spread_fill(c, &m, f32_at(c, cg_ptr(c, a), cg_mul(c, matrix, square)), true, r.scales);
  cg_tridiagonal(c, &m, true);
  cg_expand(c, m.at, cg_spread_behind(c, &m, BEHIND_INVERSES), n, m.ld, true);
  CgDiagonal d = diagonal_of(c, &m);
  cg_implicit_ql(c, &d);
  r.d = &d;
  store(c, &r);
}

void cg_emit_eigh(Cg *c, Val v) { emit_each(c, v, emit_eigh); }

// ---- svd: m rows of n columns, and behind all spread matrices m rows of as many
static int64_t left_floats(const Fn *f, Val a, const Target *t) {
  Shape s = ir_ins(f, a)->shape;
  uint32_t r = ir_rank(f->prog, s);
  int64_t rows = ir_dim_bound(f->prog, ir_dim_at(f->prog, s, r - 2));
  return cg_axis_bound(f->prog, s, 0, r - 2) * rows * cg_round_up(rows, t->vl);
}

static void emit_svd(Cg *c, Val v, V matrix) {
  Val a = ir_arg(c->f, v, 0);
  Shape shape = ir_ins(c->f, a)->shape;
  V rows = cg_matrix_size(c, shape, 2), n = cg_matrix_size(c, shape, 1), all = cg_mul(c, rows, n);
  CgSpread m = cg_spread_of(c, matrix, rows, n);
  V left_ld = cg_mul(c, cg_ceil_div_value(c, rows, c->t->vl), cg_vl(c));
  V left = f32_at(c, c->scratch, cg_i64(c, cg_spread_bytes(c->f, a, c->t) / 4));
  left = f32_at(c, left, cg_mul(c, matrix, cg_mul(c, rows, left_ld)));
  for (Loop l = cg_count_by(c, left_ld, cg_vl(c)); cg_next(&l);) cg_store(c, cg_zeros(c), f32_at(c, left, l.i));
  Results r = {.falls = true, .n_columns = n};
  r.columns = result_of(c, v, matrix, cg_mul(c, rows, rows)), r.values = result_of(c, ir_result(v, 1), matrix, rows);
  r.rows = result_of(c, ir_result(v, 2), matrix, all);
  cg_spread_fill(c, &m, f32_at(c, cg_ptr(c, a), cg_mul(c, matrix, all)), false, r.scales);
  cg_bidiagonal(c, &m, left, left_ld);
  cg_expand(c, m.at, cg_spread_behind(c, &m, BEHIND_INVERSES), rows, m.ld, false);
  cg_expand(c, left, cg_spread_behind(c, &m, BEHIND_LEFT_INVERSES), rows, left_ld, false);
  CgDiagonal d = diagonal_of(c, &m);
  d.right_rows = left, d.right_ld = left_ld;
  cg_implicit_qr(c, &d);
  r.d = &d;
  store(c, &r);
}

void cg_emit_svd(Cg *c, Val v) { emit_each(c, v, emit_svd); }

int64_t cg_eigh_scratch_bytes(const Fn *f, Val v, const Target *t) {
  return cg_values_alone(f, v) ? cg_values_scratch_bytes(f, v, t) : cg_spread_bytes(f, ir_arg(f, v, 0), t);
}

int64_t cg_svd_scratch_bytes(const Fn *f, Val v, const Target *t) {
  Val a = ir_arg(f, v, 0);
  return cg_values_alone(f, v) ? cg_values_scratch_bytes(f, v, t) : cg_spread_bytes(f, a, t) + 4 * left_floats(f, a, t);
}
