// A matrix of no more rows than columns to a lower bidiagonal one by reflections, from its first row to its last.
//
//   step k:   v is row k, reflected to its element k; the rows below lose (A v) v^T / h;
//             u is column k below the diagonal, reflected to its first element; the rows below lose u z^T, z = A^T u / h
//
// A row loses u z^T at step k + 1, while it is multiplied by the v there: what is left is written once in a step.
#include "codegen/linalg/values.h"

enum { GROUP = 4 };  // rows whose dots are made together

typedef struct {
  const CgSpread *m;
  V u, v, z;
  V left, left_ld;  // of the vectors of columns; NULL: nothing is kept
} Steps;

static V vector_at(Cg *c, V at, V i) { return cg_load(c, c->vf, f32_at(c, at, i)); }
static V number_at(Cg *c, V at, V i) { return cg_load(c, c->f32, f32_at(c, at, i)); }

// n rows from row i on, columns from `from` on: what the two reflections take; element k of each goes to u.
static void pass_rows(Cg *c, const Steps *s, V i, uint32_t n, V k, V from, V inverse) {
  V row[GROUP], minus[GROUP], sum[GROUP], vl = cg_vl(c), to = s->m->ld;
  for (uint32_t r = 0; r < n; r++) {
    V at = cg_add(c, i, cg_i64(c, r));
    row[r] = cg_spread_row(c, s->m, at), minus[r] = cg_splat(c, cg_fneg(c, number_at(c, s->u, at)));
    sum[r] = cg_zeros(c);
  }
  for (Loop l = cg_carry(c, from, to, vl, sum, n); cg_next(&l);) {
    V z = vector_at(c, s->z, l.i), v = vector_at(c, s->v, l.i);
    for (uint32_t r = 0; r < n; r++) {
      V x = cg_fma(c, minus[r], z, vector_at(c, row[r], l.i));
      cg_store(c, x, f32_at(c, row[r], l.i));
      sum[r] = cg_fma(c, v, x, sum[r]);
    }
  }
  for (uint32_t r = 0; r < n; r++) minus[r] = cg_splat(c, cg_fneg(c, cg_fmul(c, inverse, cg_reduce_add(c, sum[r]))));
  for (Loop l = cg_each_by(c, from, to, vl); cg_next(&l);) {
    V v = vector_at(c, s->v, l.i);
    for (uint32_t r = 0; r < n; r++)
      cg_store(c, cg_fma(c, minus[r], v, vector_at(c, row[r], l.i)), f32_at(c, row[r], l.i));
  }
  for (uint32_t r = 0; r < n; r++) cg_put(c, number_at(c, row[r], k), s->u, cg_add(c, i, cg_i64(c, r)));
}

static void pass(Cg *c, const Steps *s, V k, V from, V inverse) {
  V whole, rows = s->m->n_rows;
  for (Loop l = cg_each_whole(c, next_to(c, k), rows, GROUP, &whole); cg_next(&l);)
    pass_rows(c, s, l.i, GROUP, k, from, inverse);
  for (Loop l = cg_each(c, whole, rows); cg_next(&l);) pass_rows(c, s, l.i, 1, k, from, inverse);
}

// z of nv vectors from column j on: the sum of the rows below row k, each times u
static void sum_columns(Cg *c, const Steps *s, V j, uint32_t nv, V k, V inverse) {
  V sum[MOST_VECTORS], at[MOST_VECTORS];
  for (uint32_t t = 0; t < nv; t++) at[t] = cg_add(c, j, cg_i64(c, (int64_t)t * c->t->vl)), sum[t] = cg_zeros(c);
  for (Loop l = cg_carry(c, next_to(c, k), s->m->n_rows, cg_i64(c, 1), sum, nv); cg_next(&l);) {
    V row = cg_spread_row(c, s->m, l.i), u = cg_splat(c, number_at(c, s->u, l.i));
    for (uint32_t t = 0; t < nv; t++) sum[t] = cg_fma(c, u, vector_at(c, row, at[t]), sum[t]);
  }
  V by = cg_splat(c, inverse);
  for (uint32_t t = 0; t < nv; t++) cg_store(c, cg_fmul(c, by, sum[t]), f32_at(c, s->z, at[t]));
}

static void reflect_below(Cg *c, const Steps *s, V k, V from, V inverse) {
  for (uint32_t nv = MOST_VECTORS; nv; nv /= 2) {
    V end;
    for (Loop l = cg_each_whole(c, from, s->m->ld, (int64_t)nv * c->t->vl, &end); cg_next(&l);)
      sum_columns(c, s, l.i, nv, k, inverse);
    from = end;
  }
}

// v: row k from element k on, after what the last step takes
static void take_row(Cg *c, const Steps *s, V k, V from) {
  V row = cg_spread_row(c, s->m, k), minus = cg_splat(c, cg_fneg(c, number_at(c, s->u, k)));
  for (Loop l = cg_each_by(c, from, s->m->ld, cg_vl(c)); cg_next(&l);) {
    V x = cg_fma(c, minus, vector_at(c, s->z, l.i), vector_at(c, row, l.i));
    V is_before = cg_mask(c, cg_max(c, cg_sub(c, k, l.i), cg_i64(c, 0)));
    cg_store(c, cg_select(c, is_before, cg_zeros(c), x), f32_at(c, s->v, l.i));
  }
  cg_put(c, cg_f32(c, 0), s->u, k);
}

// ---- what is kept
static void copy(Cg *c, V to, V from, V first, V end) {
  for (Loop l = cg_each_by(c, first, end, cg_vl(c)); cg_next(&l);)
    cg_store(c, vector_at(c, from, l.i), f32_at(c, to, l.i));
}

static void put_number(Cg *c, const Steps *s, V x, uint32_t behind, V i) {
  cg_put(c, x, cg_spread_behind(c, s->m, behind), i);
}

static void end_row(Cg *c, const Steps *s, V k, V from, CgReflection h) {
  if (!s->left) {
    put_number(c, s, h.norm2, BEHIND_DIAGONAL, k);
    return;
  }
  put_number(c, s, cg_root_of(c, h.norm2, number_at(c, s->v, k)), BEHIND_DIAGONAL, k);
  put_number(c, s, h.inverse, BEHIND_INVERSES, k);
  copy(c, cg_spread_row(c, s->m, k), s->v, from, s->m->ld);
}

static void end_column(Cg *c, const Steps *s, V k, V from, V to, CgReflection h) {
  if (!s->left) {
    put_number(c, s, h.norm2, BEHIND_BESIDE, k);
    return;
  }
  V below = next_to(c, k);
  put_number(c, s, cg_root_of(c, h.norm2, number_at(c, s->u, below)), BEHIND_BESIDE, k);
  put_number(c, s, h.inverse, BEHIND_LEFT_INVERSES, below);
  copy(c, f32_at(c, s->left, cg_mul(c, below, s->left_ld)), s->u, from, to);
}

// void(ptr x, i64 rows, i64 n, i64 ld), and ptr left, i64 left_ld where vectors are kept
static void make_bidiagonal(Cg *c, V fn, void *ctx) {
  const bool *keeps = ctx;
  V rows = LLVMGetParam(fn, 1), vl = cg_vl(c);
  CgSpread m = {LLVMGetParam(fn, 0), rows, LLVMGetParam(fn, 2), LLVMGetParam(fn, 3)};
  Steps s = {&m, cg_spread_behind(c, &m, 0), cg_spread_behind(c, &m, 1), cg_spread_behind(c, &m, 2), NULL, NULL};
  if (*keeps) s.left = LLVMGetParam(fn, 4), s.left_ld = LLVMGetParam(fn, 5);
  V rows_to = cg_mul(c, cg_ceil_div_value(c, rows, c->t->vl), vl);
  for (Loop l = cg_count(c, rows); cg_next(&l);) {
    V k = l.i, from = cg_multiple(c, k, vl), below = next_to(c, k);
    take_row(c, &s, k, from);
    CgReflection right = cg_reflection(c, s.v, from, m.ld, k);
    pass(c, &s, k, from, right.inverse);
    end_row(c, &s, k, from, right);
    for (If more = cg_when(c, cg_lt(c, below, rows)); cg_then(&more);) {
      V first = cg_multiple(c, below, vl);
      CgReflection left = cg_reflection(c, s.u, first, rows_to, below);
      end_column(c, &s, k, first, rows_to, left);
      reflect_below(c, &s, k, from, left.inverse);
    }
  }
  LLVMBuildRetVoid(c->b);
}

void cg_bidiagonal(Cg *c, const CgSpread *m, V left, V left_ld) {
  bool keeps = left;
  V arg[] = {m->at, m->n_rows, m->n, m->ld, left, left_ld};
  cg_call_helper(c, keeps ? "bidiagonal.keeps" : "bidiagonal", arg, keeps ? 6 : 4, make_bidiagonal, &keeps);
}
