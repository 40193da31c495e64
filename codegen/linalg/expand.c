// Products of reflections, by rows, in the place of their vectors: row k has the u of H_k = 1 - u u^T times the inverse of k.
//
//   up:     H_1 H_2 .. ; u has no element from the diagonal on     row k takes part in H_(k+1) and those behind it
//   down:   .. H_1 H_0;  u has none in front of the diagonal       row k takes part in H_k and those before it
#include "codegen/linalg/vectors.h"

enum { GROUP = 4 };  // rows whose dots are made together

static void reflect_group(Cg *c, V row0, uint32_t n, V ld, V u, V from, V to, V inverse) {
  V row[GROUP], sum[GROUP], minus[GROUP], vl = cg_vl(c);
  for (uint32_t r = 0; r < n; r++) row[r] = f32_at(c, row0, cg_mul(c, ld, cg_i64(c, r))), sum[r] = cg_zeros(c);
  for (Loop l = cg_carry(c, from, to, vl, sum, n); cg_next(&l);) {
    V of_u = cg_get(c, c->vf, u, l.i);
    for (uint32_t r = 0; r < n; r++) sum[r] = cg_fma(c, of_u, cg_get(c, c->vf, row[r], l.i), sum[r]);
  }
  for (uint32_t r = 0; r < n; r++) minus[r] = cg_splat(c, cg_fneg(c, cg_fmul(c, inverse, cg_reduce_add(c, sum[r]))));
  for (Loop l = cg_each_by(c, from, to, vl); cg_next(&l);) {
    V of_u = cg_get(c, c->vf, u, l.i);
    for (uint32_t r = 0; r < n; r++)
      cg_store(c, cg_fma(c, minus[r], of_u, cg_get(c, c->vf, row[r], l.i)), f32_at(c, row[r], l.i));
  }
}

// n_rows rows from `rows` on each lose inverse (row . u) u, in whole vectors from column `from` to `to`.
static void reflect_rows(Cg *c, V rows, V n_rows, V ld, V u, V from, V to, V inverse) {
  V whole;
  for (Loop l = cg_each_whole(c, cg_i64(c, 0), n_rows, GROUP, &whole); cg_next(&l);)
    reflect_group(c, f32_at(c, rows, cg_mul(c, l.i, ld)), GROUP, ld, u, from, to, inverse);
  for (Loop l = cg_each(c, whole, n_rows); cg_next(&l);)
    reflect_group(c, f32_at(c, rows, cg_mul(c, l.i, ld)), 1, ld, u, from, to, inverse);
}

// Row k: what H_k makes of row k of the identity; `by` is the inverse of k times element k of its u.
static void make_row(Cg *c, V row, V k, V from, V ld, V by) {
  V vl = cg_vl(c), minus = cg_splat(c, cg_fneg(c, by)), one = cg_f32(c, 1);
  for (Loop l = cg_count_by(c, from, vl); cg_next(&l);) cg_store(c, cg_zeros(c), f32_at(c, row, l.i));
  for (Loop l = cg_each_by(c, from, ld, vl); cg_next(&l);)
    cg_store(c, cg_fmul(c, minus, cg_get(c, c->vf, row, l.i)), f32_at(c, row, l.i));
  cg_put(c, cg_fadd(c, cg_get(c, c->f32, row, k), one), row, k);
}

// void(ptr rows, ptr inverses, i64 n, i64 ld)
static void make_up(Cg *c, V fn, void *ctx) {
  (void)ctx;
  V rows = LLVMGetParam(fn, 0), n = LLVMGetParam(fn, 2), ld = LLVMGetParam(fn, 3), zero = cg_i64(c, 0);
  for (Loop l = cg_count(c, n); cg_next(&l);) {
    V row = f32_at(c, rows, cg_mul(c, l.i, ld)), to = cg_mul(c, cg_ceil_div_value(c, l.i, c->t->vl), cg_vl(c));
    reflect_rows(c, rows, l.i, ld, row, zero, to, cg_get(c, c->f32, LLVMGetParam(fn, 1), l.i));
    make_row(c, row, l.i, ld, ld, cg_f32(c, 0));
  }
  LLVMBuildRetVoid(c->b);
}

static void make_down(Cg *c, V fn, void *ctx) {
  (void)ctx;
  V rows = LLVMGetParam(fn, 0), n = LLVMGetParam(fn, 2), ld = LLVMGetParam(fn, 3);
  for (Loop l = cg_count(c, n); cg_next(&l);) {
    V k = cg_sub(c, cg_sub(c, n, l.i), cg_i64(c, 1)), row = f32_at(c, rows, cg_mul(c, k, ld)),
      from = cg_multiple(c, k, cg_vl(c));
    V inverse = cg_get(c, c->f32, LLVMGetParam(fn, 1), k), by = cg_fmul(c, inverse, cg_get(c, c->f32, row, k));
    reflect_rows(c, f32_at(c, row, ld), l.i, ld, row, from, ld, inverse);
    make_row(c, row, k, from, ld, by);
  }
  LLVMBuildRetVoid(c->b);
}

void cg_expand(Cg *c, V rows, V inverses, V n, V ld, bool goes_up) {
  V arg[] = {rows, inverses, n, ld};
  cg_call_helper(c, goes_up ? "expand.up" : "expand.down", arg, 4, goes_up ? make_up : make_down, NULL);
}
