// A symmetric matrix to a tridiagonal one by reflections, from its last row to its first.
//
//   step i:   u is row i in front of the diagonal, reflected to its last element; d_i = a_ii, and what is beside it is |u|;
//             p = A u / h,  q = p - u (u . p) / 2h,  A - u q^T - q u^T is what is left, of i rows
//
// A row loses what step i leaves to it while the sum of step i - 1 is taken: each step reads and writes what is left once.
#include "codegen/linalg/values.h"

typedef struct {
  const CgSpread *m;
  V u, q, w, p;  // w: the u of the next step
} Steps;

static V vector_at(Cg *c, V at, V i) { return cg_load(c, c->vf, f32_at(c, at, i)); }
static V number_at(Cg *c, V at, V i) { return cg_load(c, c->f32, f32_at(c, at, i)); }
static V minus_at(Cg *c, V at, V i) { return cg_splat(c, cg_fneg(c, number_at(c, at, i))); }

// Rows [0, n_rows) of nv vectors from column j on lose u q^T + q u^T; their sum, each times w, goes to p.
static void pass_columns(Cg *c, const Steps *s, V j, uint32_t nv, V n_rows) {
  V u[MOST_VECTORS], q[MOST_VECTORS], sum[MOST_VECTORS], at[MOST_VECTORS];
  for (uint32_t k = 0; k < nv; k++) {
    at[k] = cg_add(c, j, cg_i64(c, (int64_t)k * c->t->vl));
    u[k] = vector_at(c, s->u, at[k]), q[k] = vector_at(c, s->q, at[k]), sum[k] = cg_zeros(c);
  }
  for (Loop l = cg_carry(c, cg_i64(c, 0), n_rows, cg_i64(c, 1), sum, nv); cg_next(&l);) {
    V row = cg_spread_row(c, s->m, l.i);
    V minus_u = minus_at(c, s->u, l.i), minus_q = minus_at(c, s->q, l.i), w = cg_splat(c, number_at(c, s->w, l.i));
    for (uint32_t k = 0; k < nv; k++) {
      V x = cg_fma(c, minus_u, q[k], cg_fma(c, minus_q, u[k], vector_at(c, row, at[k])));
      cg_store(c, x, f32_at(c, row, at[k]));
      sum[k] = cg_fma(c, w, x, sum[k]);
    }
  }
  for (uint32_t k = 0; k < nv; k++) cg_store(c, sum[k], f32_at(c, s->p, at[k]));
}

static void pass(Cg *c, const Steps *s, V to, V n_rows) {
  V from = cg_i64(c, 0);
  for (uint32_t nv = MOST_VECTORS; nv; nv /= 2) {
    V end;
    for (Loop l = cg_each_whole(c, from, to, (int64_t)nv * c->t->vl, &end); cg_next(&l);)
      pass_columns(c, s, l.i, nv, n_rows);
    from = end;
  }
}

// Row i up to column `to`, whole vectors: what it lost; w is its part in front of the diagonal.
static void take_row(Cg *c, const Steps *s, V i, V to) {
  V row = cg_spread_row(c, s->m, i), minus_u = minus_at(c, s->u, i), minus_q = minus_at(c, s->q, i);
  for (Loop l = cg_count_by(c, to, cg_vl(c)); cg_next(&l);) {
    V x = cg_fma(c, minus_u, vector_at(c, s->q, l.i),
                 cg_fma(c, minus_q, vector_at(c, s->u, l.i), vector_at(c, row, l.i)));
    cg_store(c, x, f32_at(c, row, l.i));
    cg_store(c, cg_select(c, cg_mask(c, cg_sub(c, i, l.i)), x, cg_zeros(c)), f32_at(c, s->w, l.i));
  }
}

// u and q from w and p
static void next_step(Cg *c, const Steps *s, V inverse, V to) {
  V dot = cg_whole_dot(c, s->w, s->p, cg_i64(c, 0), to);
  V half = cg_fmul(c, cg_fmul(c, cg_f32(c, 0.5), inverse), cg_fmul(c, inverse, dot));
  V minus = cg_splat(c, cg_fneg(c, half)), by = cg_splat(c, inverse);
  for (Loop l = cg_count_by(c, to, cg_vl(c)); cg_next(&l);) {
    V w = vector_at(c, s->w, l.i);
    cg_store(c, cg_fma(c, minus, w, cg_fmul(c, by, vector_at(c, s->p, l.i))), f32_at(c, s->q, l.i));
    cg_store(c, w, f32_at(c, s->u, l.i));
  }
}

static void keep(Cg *c, const Steps *s, V i, V to, CgReflection h) {
  V row = cg_spread_row(c, s->m, i), before = cg_sub(c, i, cg_i64(c, 1));
  for (Loop l = cg_count_by(c, to, cg_vl(c)); cg_next(&l);) cg_store(c, vector_at(c, s->w, l.i), f32_at(c, row, l.i));
  cg_put(c, h.inverse, cg_spread_behind(c, s->m, BEHIND_INVERSES), i);
  cg_put(c, cg_root_of(c, h.norm2, number_at(c, s->w, before)), cg_spread_behind(c, s->m, BEHIND_BESIDE), before);
}

// void(ptr x, i64 n, i64 ld)
static void make_tridiagonal(Cg *c, V fn, void *ctx) {
  const bool *keeps = ctx;
  V n = LLVMGetParam(fn, 1), zero = cg_i64(c, 0), one = cg_i64(c, 1), last = cg_sub(c, n, one);
  CgSpread m = {LLVMGetParam(fn, 0), n, n, LLVMGetParam(fn, 2)};
  Steps s = {&m, cg_spread_behind(c, &m, 0), cg_spread_behind(c, &m, 1), cg_spread_behind(c, &m, 2),
             cg_spread_behind(c, &m, 3)};
  V diagonal = cg_spread_behind(c, &m, BEHIND_DIAGONAL), beside = cg_spread_behind(c, &m, BEHIND_BESIDE);
  for (Loop l = cg_each(c, zero, last); cg_next(&l);) {
    V i = cg_sub(c, last, l.i), to = cg_mul(c, cg_ceil_div_value(c, next_to(c, i), c->t->vl), cg_vl(c));
    take_row(c, &s, i, to);
    cg_put(c, number_at(c, cg_spread_row(c, &m, i), i), diagonal, i);
    CgReflection h = cg_reflection(c, s.w, zero, to, cg_sub(c, i, one));
    if (*keeps) keep(c, &s, i, to, h);
    else cg_put(c, h.norm2, beside, cg_sub(c, i, one));
    pass(c, &s, to, i);
    next_step(c, &s, h.inverse, to);
  }
  for (If some = cg_when(c, cg_lt(c, zero, n)); cg_then(&some);) {
    take_row(c, &s, zero, cg_vl(c));
    cg_put(c, number_at(c, m.at, zero), diagonal, zero);
  }
  LLVMBuildRetVoid(c->b);
}

void cg_tridiagonal(Cg *c, const CgSpread *m, bool keeps) {
  V arg[] = {m->at, m->n, m->ld};
  cg_call_helper(c, keeps ? "tridiagonal.keeps" : "tridiagonal", arg, 3, make_tridiagonal, &keeps);
}
