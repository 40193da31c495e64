// Forward substitution in a panel, and the diagonal of a Cholesky factor: helper functions that kernels share.
#include "codegen/linalg/linalg.h"
#include "codegen/math/primitives.h"

#include "codegen/gemm/microkernel.h"

#include <math.h>
#include <stdio.h>

enum { MAX_ROWS = 16, MAX_VECTORS = 4 };

// NB: rows that are solved in registers, a power of two, at most the microkernel's height.
static uint32_t rows_at_once(const Cg *c) {
  uint32_t n = 1;
  while (2 * n <= c->t->gemm_mr && 2 * n <= 8) n *= 2;
  return n;
}

// A stride that code may be specialised for; -1: any other.
static int64_t constant_stride(V v) {
  int64_t n;
  return cg_const_value(v, &n) ? n : TILE_DYN;
}

typedef struct {
  uint32_t nb, nv;
  bool is_unit;
  int64_t row, k;
} Spec;

// Panel rows [i, i + n_rows) += T times the k rows at `above`.
typedef struct {
  V t, row, k_stride, above, below, k;
} Update;

static TileSpec tile_of(const Cg *c, const Spec *s, uint32_t mr) {
  int64_t vl = c->t->vl, width = cg_panel_width(c, s->nv);
  return (TileSpec){.mr = mr,
                    .nv = s->nv,
                    .a_row = s->row,
                    .a_k = s->k,
                    .b_k = width,
                    .b_vec = vl,
                    .c_row = width,
                    .c_vec = vl,
                    .accumulate = true,
                    .mask_from = s->nv};
}

static void update(Cg *c, const Spec *s, uint32_t mr, V n_rows, int64_t left, const Update *u) {
  TileSpec tile = tile_of(c, s, mr);
  TileArgs args = {.a = u->t, .b = u->above, .c = u->below, .k = u->k, .a_row = u->row, .a_k = u->k_stride};
  TileRows rows = {.rows = n_rows, .left = left, .a_block = cg_mul(c, cg_i64(c, mr), u->row)};
  if (mr == 1) cg_tile_call(c, &tile, &args);
  else cg_tile_rows(c, &tile, &args, &rows);
}

static V panel_row(Cg *c, const Spec *s, V panel, V i) {
  return cg_row(c, panel, i, cg_i64(c, cg_panel_width(c, s->nv)));
}

static V vector_of(Cg *c, V row, uint32_t j) { return cg_at(c, c->f32, row, cg_i64(c, (int64_t)j * c->t->vl)); }

static V element(Cg *c, const CgTriangle *t, V i, V k) {
  return cg_get(c, c->f32, t->at, cg_index(c, i, t->row, cg_mul(c, k, t->k)));
}

static V reciprocal(Cg *c, V x) { return cg_fdiv(c, cg_f32(c, 1), x); }

// ---- substitution
// Solves nb rows from i on, whose sums lack only the terms of these rows.
static void solve_rows(Cg *c, const Spec *s, const CgTriangle *t, V panel, V i, uint32_t nb) {
  V x[MAX_ROWS][MAX_VECTORS];
  for (uint32_t r = 0; r < nb; r++) {
    V at = cg_add(c, i, cg_i64(c, r)), row = panel_row(c, s, panel, at);
    for (uint32_t j = 0; j < s->nv; j++) x[r][j] = cg_load(c, c->vf, vector_of(c, row, j));
    for (uint32_t q = 0; q < r; q++) {
      V a = cg_splat(c, element(c, t, at, cg_add(c, i, cg_i64(c, q))));
      for (uint32_t j = 0; j < s->nv; j++) x[r][j] = cg_fma(c, a, x[q][j], x[r][j]);
    }
    V scale = s->is_unit ? NULL : cg_splat(c, reciprocal(c, element(c, t, at, at)));
    for (uint32_t j = 0; j < s->nv; j++) {
      x[r][j] = cg_fneg(c, x[r][j]);
      if (scale) x[r][j] = cg_fmul(c, x[r][j], scale);
      cg_store(c, x[r][j], vector_of(c, row, j));
    }
  }
}

static void solve_from(Cg *c, const Spec *s, const CgTriangle *t, V panel, V from, V to, uint32_t nb) {
  for (Loop l = cg_each_by(c, from, to, cg_i64(c, nb)); cg_next(&l);) {
    Update u = {.t = cg_row(c, t->at, l.i, t->row),
                .row = t->row,
                .k_stride = t->k,
                .above = panel,
                .below = panel_row(c, s, panel, l.i),
                .k = l.i};
    update(c, s, nb, cg_i64(c, nb), 0, &u);
    solve_rows(c, s, t, panel, l.i, nb);
  }
}

static void make_substitute(Cg *c, V fn, void *ctx) {
  const Spec *s = ctx;
  V row = s->row == TILE_DYN ? LLVMGetParam(fn, 1) : cg_i64(c, s->row);
  V k = s->k == TILE_DYN ? LLVMGetParam(fn, 2) : cg_i64(c, s->k);
  CgTriangle t = {LLVMGetParam(fn, 0), row, k, s->is_unit};
  V panel = LLVMGetParam(fn, 3), from = LLVMGetParam(fn, 4), to = LLVMGetParam(fn, 5), nb = cg_i64(c, s->nb);
  V whole = cg_add(c, from, cg_multiple(c, cg_sub(c, to, from), nb));
  solve_from(c, s, &t, panel, from, whole, s->nb);
  solve_from(c, s, &t, panel, whole, to, 1);
  LLVMBuildRetVoid(c->b);
}

void cg_substitute(Cg *c, const CgTriangle *t, const CgPanel *p, V from, V to) {
  Spec s = {rows_at_once(c), p->nv, t->is_unit, constant_stride(t->row), constant_stride(t->k)};
  char name[96];
  snprintf(name, sizeof name, "substitute.%ux%u.a%lld,%lld%s", s.nb, s.nv, (long long)s.row, (long long)s.k,
           s.is_unit ? ".unit" : "");
  LLVMTypeRef types[] = {c->ptr, c->i64, c->i64, c->ptr, c->i64, c->i64};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), types, 6, false);
  V arg[] = {t->at, t->row, t->k, p->at, from, to};
  LLVMBuildCall2(c->b, type, cg_helper(c, name, type, make_substitute, &s), arg, 6, "");
}

// ---- the diagonal
// Row `lane` of the strip's square, whose sums are complete: 0 before the diagonal, the root at it, quotients behind.
static void finish_row(Cg *c, const Spec *s, V row, V lane) {
  V left = cg_fneg(c, cg_get(c, c->f32, row, lane));
  V is_positive = cg_fcmp(c, LLVMRealOGT, left, cg_f32(c, 0));
  V root = cg_select(c, is_positive, cg_primitive(c, OP_sqrt, &left), cg_f32(c, (double)NAN));
  V scale = cg_splat(c, reciprocal(c, root)), zero = cg_zeros(c);
  for (uint32_t j = 0; j < s->nv; j++) {
    V number = cg_iadd(c, cg_lane_numbers(c), cg_splat(c, cg_i64(c, (int64_t)j * c->t->vl)));
    V before = cg_lt(c, number, cg_splat(c, lane));
    V at_it = cg_eq(c, number, cg_splat(c, lane));
    V x = cg_fneg(c, cg_load(c, c->vf, vector_of(c, row, j)));
    x = cg_select(c, at_it, cg_splat(c, root), cg_fmul(c, x, scale));
    cg_store(c, cg_select(c, before, zero, x), vector_of(c, row, j));
  }
}

static void make_diagonal(Cg *c, V fn, void *ctx) {
  const Spec *s = ctx;
  V panel = LLVMGetParam(fn, 0), from = LLVMGetParam(fn, 1), to = LLVMGetParam(fn, 2);
  V width = cg_i64(c, cg_panel_width(c, s->nv)), one = cg_i64(c, 1), square = panel_row(c, s, panel, from);
  update(c, s, s->nb, cg_sub(c, to, from), TILE_DYN,
         &(Update){.t = panel, .row = one, .k_stride = width, .above = panel, .below = square, .k = from});
  for (Loop l = cg_each(c, from, to); cg_next(&l);) {
    V lane = cg_sub(c, l.i, from), row = panel_row(c, s, panel, l.i);
    update(c, s, 1, one, 0,
           &(Update){.t = cg_at(c, c->f32, square, lane),
                     .row = one,
                     .k_stride = width,
                     .above = square,
                     .below = row,
                     .k = lane});
    finish_row(c, s, row, lane);
  }
  LLVMBuildRetVoid(c->b);
}

void cg_factor_diagonal(Cg *c, const CgPanel *p, V from, V to) {
  Spec s = {rows_at_once(c), p->nv, false, 1, cg_panel_width(c, p->nv)};
  char name[48];
  snprintf(name, sizeof name, "cholesky_diagonal.%ux%u", s.nb, s.nv);
  LLVMTypeRef types[] = {c->ptr, c->i64, c->i64};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), types, 3, false);
  LLVMBuildCall2(c->b, type, cg_helper(c, name, type, make_diagonal, &s), (V[]){p->at, from, to}, 3, "");
}
