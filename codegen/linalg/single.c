// Substitution for a single contiguous right-hand side, in place.
//
//   T by rows: LANES rows at a time          T by columns: LANES rows at a time
//   | . . . |      dots of what lies left      | 1     |    the triangle on the diagonal first,
//   | 1 1 2 |  1   of the diagonal, LANES      | 2     |    then what its columns give all rows
//   | 1 1 2 |      partial sums each, first    | 2     |    below it: in the order of k
//   |       |  2   the triangle then
//
// From the triangle's end, when it was an upper one, all addresses fall: LANES neighbours are read as they lie, in T and in x.
#include "codegen/linalg/linalg.h"

#include <stdio.h>

enum { MAX_LANES = 64, GROUP = 4 };  // GROUP: rows whose dots are made together

typedef struct {
  bool by_columns, is_reversed, is_unit;
} Spec;

typedef struct {
  Cg *c;
  Spec spec;
  uint32_t lanes;
  V t, x, ld, n;  // t, x: element 0; ld: elements from row to row, or from column to column
} Line;

static LLVMTypeRef vec(const Line *s) { return LLVMVectorType(s->c->f32, s->lanes); }
static V splat(const Line *s, V x) { return cg_splat_n(s->c, x, s->lanes); }

static V along(const Line *s, V base, V at) {
  Cg *c = s->c;
  return cg_at(c, c->f32, base, s->spec.is_reversed ? cg_sub(c, cg_i64(c, 0), at) : at);
}

// `lanes` neighbours, of which `at` is the first one.
static V vector_at(const Line *s, V base, V at) {
  return along(s, base, s->spec.is_reversed ? cg_add(s->c, at, cg_i64(s->c, s->lanes - 1)) : at);
}

static V place(const Line *s, V i, V k) {
  Cg *c = s->c;
  return s->spec.by_columns ? cg_index(c, k, s->ld, i) : cg_index(c, i, s->ld, k);
}

static V element(const Line *s, V i, V k) { return cg_load(s->c, s->c->f32, along(s, s->t, place(s, i, k))); }
static V x_at(const Line *s, V i) { return along(s, s->x, i); }
static V minus(const Line *s, V a) { return cg_fneg(s->c, a); }

// ---- the triangle of rows and columns from i on
static V quotient(const Line *s, V sum, V i) {
  Cg *c = s->c;
  if (s->spec.is_unit) return sum;
  return cg_fmul(c, sum, cg_fdiv(c, cg_f32(c, 1), element(s, i, i)));
}

static void solve_triangle(const Line *s, V i) {
  Cg *c = s->c;
  V x[MAX_LANES];
  for (uint32_t r = 0; r < s->lanes; r++) {
    V at = cg_add(c, i, cg_i64(c, r));
    x[r] = cg_load(c, c->f32, x_at(s, at));
    for (uint32_t q = 0; q < r; q++) x[r] = cg_fma(c, minus(s, element(s, at, cg_add(c, i, cg_i64(c, q)))), x[q], x[r]);
    x[r] = quotient(s, x[r], at);
    cg_store(c, x[r], x_at(s, at));
  }
}

// The same for rows [i, n), fewer than a vector.
static void solve_rest(const Line *s, V i) {
  Cg *c = s->c;
  V one = cg_i64(c, 1);
  for (Loop r = cg_each(c, i, s->n); cg_next(&r);) {
    V sum = cg_load(c, c->f32, x_at(s, r.i));
    for (Loop q = cg_carry(c, i, r.i, one, &sum, 1); cg_next(&q);)
      sum = cg_fma(c, minus(s, element(s, r.i, q.i)), cg_load(c, c->f32, x_at(s, q.i)), sum);
    cg_store(c, quotient(s, sum, r.i), x_at(s, r.i));
  }
}

// ---- by rows: what [0, k) gives the rows [i, i + n), k whole vectors
static void subtract_dots(const Line *s, V i, uint32_t n, V k) {
  Cg *c = s->c;
  V sum[GROUP];
  for (uint32_t r = 0; r < n; r++) sum[r] = splat(s, cg_f32(c, 0));
  for (Loop l = cg_carry(c, cg_i64(c, 0), k, cg_i64(c, s->lanes), sum, n); cg_next(&l);) {
    V x = cg_load(c, vec(s), vector_at(s, s->x, l.i));
    for (uint32_t r = 0; r < n; r++) {
      V at = place(s, cg_add(c, i, cg_i64(c, r)), l.i);
      sum[r] = cg_fma(c, cg_load(c, vec(s), vector_at(s, s->t, at)), x, sum[r]);
    }
  }
  for (uint32_t r = 0; r < n; r++) {
    V at = x_at(s, cg_add(c, i, cg_i64(c, r)));
    cg_store(c, cg_fsub(c, cg_load(c, c->f32, at), cg_reduce_add(c, sum[r])), at);
  }
}

static void subtract_left(const Line *s, V i, V end) {
  Cg *c = s->c;
  V whole;
  for (Loop l = cg_each_whole(c, i, end, GROUP, &whole); cg_next(&l);) subtract_dots(s, l.i, GROUP, i);
  for (Loop l = cg_each(c, whole, end); cg_next(&l);) subtract_dots(s, l.i, 1, i);
}

// ---- by columns: what the columns [k, k + lanes) give the rows from i on
static void subtract_below(const Line *s, V k, V i) {
  Cg *c = s->c;
  V lanes = cg_i64(c, s->lanes), whole = cg_add(c, i, cg_multiple(c, cg_sub(c, s->n, i), lanes));
  V x[MAX_LANES];
  for (uint32_t q = 0; q < s->lanes; q++) x[q] = minus(s, cg_load(c, c->f32, x_at(s, cg_add(c, k, cg_i64(c, q)))));
  for (Loop l = cg_each_by(c, i, whole, lanes); cg_next(&l);) {
    V at = vector_at(s, s->x, l.i), sum = cg_load(c, vec(s), at);
    for (uint32_t q = 0; q < s->lanes; q++) {
      V column = vector_at(s, s->t, place(s, l.i, cg_add(c, k, cg_i64(c, q))));
      sum = cg_fma(c, cg_load(c, vec(s), column), splat(s, x[q]), sum);
    }
    cg_store(c, sum, at);
  }
  for (Loop l = cg_each(c, whole, s->n); cg_next(&l);) {
    V sum = cg_load(c, c->f32, x_at(s, l.i));
    for (uint32_t q = 0; q < s->lanes; q++) sum = cg_fma(c, element(s, l.i, cg_add(c, k, cg_i64(c, q))), x[q], sum);
    cg_store(c, sum, x_at(s, l.i));
  }
}

// ---- void(ptr t, ptr x, i64 ld, i64 n)
static void make_single(Cg *c, V fn, void *ctx) {
  Line s = {.c = c, .spec = *(const Spec *)ctx, .lanes = cg_sum_lanes(c->t)};
  s.t = LLVMGetParam(fn, 0), s.x = LLVMGetParam(fn, 1), s.ld = LLVMGetParam(fn, 2), s.n = LLVMGetParam(fn, 3);
  V lanes = cg_i64(c, s.lanes), whole = cg_multiple(c, s.n, lanes);
  for (Loop l = cg_count_by(c, whole, lanes); cg_next(&l);) {
    V next = cg_add(c, l.i, lanes);
    if (!s.spec.by_columns) subtract_left(&s, l.i, next);
    solve_triangle(&s, l.i);
    if (s.spec.by_columns) subtract_below(&s, l.i, next);
  }
  if (!s.spec.by_columns) subtract_left(&s, whole, s.n);
  solve_rest(&s, whole);
  LLVMBuildRetVoid(c->b);
}

void cg_substitute_single(Cg *c, const CgSingle *s) {
  Spec spec = {s->by_columns, s->is_reversed, s->is_unit};
  char name[64];
  snprintf(name, sizeof name, "substitute_single%s%s%s", s->by_columns ? ".columns" : "",
           s->is_reversed ? ".reversed" : "", s->is_unit ? ".unit" : "");
  LLVMTypeRef types[] = {c->ptr, c->ptr, c->i64, c->i64};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), types, 4, false);
  V arg[] = {s->t, s->x, s->n, s->n};
  LLVMBuildCall2(c->b, type, cg_helper(c, name, type, make_single, &spec), arg, 4, "");
}
