// solve_triangular: strips of right-hand sides, each by one worker.
//
//   {right}: X T = B is T^T X^T = B^T: lanes are rows of B. An upper triangle is a lower one from its end: all strides are
//   negative.
#include "codegen/linalg/linalg.h"

static const int64_t private_bytes = 64 << 10;  // of a panel on the worker's stack

typedef CgSolve Solve;

static Solve solve_of(const Fn *f, Val v) {
  Solve s = {.a = ir_arg(f, v, 0), .b = ir_arg(f, v, 1), .right = ir_attr(f, v, KEY_right) != NULL};
  Shape a = ir_ins(f, s.a)->shape, b = ir_ins(f, s.b)->shape;
  uint32_t rank = ir_rank(f->prog, b);
  s.is_turned = (ir_attr(f, v, KEY_ta) != NULL) != s.right;
  s.is_reversed = (ir_attr(f, v, KEY_upper) != NULL) != s.is_turned;
  s.is_unit = ir_attr(f, v, KEY_unit) != NULL;
  s.shares_a = ir_rank(f->prog, a) == 2 && rank > 2;
  s.n = ir_dim_at(f->prog, b, s.right ? rank - 1 : rank - 2);
  s.lanes = ir_dim_at(f->prog, b, s.right ? rank - 2 : rank - 1);
  return s;
}

static uint32_t vectors_of(const Fn *f, const Solve *s, const Target *t) {
  return ir_dim_bound(f->prog, s->lanes) <= t->vl ? 1 : t->gemm_nv;
}

static int64_t panel_elements(const Fn *f, const Solve *s, const Target *t) {
  return cg_larger(1, ir_dim_bound(f->prog, s->n)) * vectors_of(f, s, t) * t->vl;
}

static bool is_private(const Fn *f, const Solve *s, const Target *t) {
  return 4 * panel_elements(f, s, t) <= private_bytes;
}

static bool is_single(const Fn *f, const Solve *s) { return ir_dim_is_one(f->prog, s->lanes); }

int64_t cg_panel_scratch_bytes(const Fn *f, const CgSolve *s, const Target *t) {
  if (is_private(f, s, t)) return 0;
  int64_t n = ir_dim_bound(f->prog, s->n), lanes = ir_dim_bound(f->prog, s->lanes), width = vectors_of(f, s, t) * t->vl;
  int64_t batch = n && lanes ? ir_shape_bound(f->prog, ir_ins(f, s->b)->shape) / (n * lanes) : 0;
  return 4 * batch * cg_ceil_div(lanes, width) * panel_elements(f, s, t);
}

int64_t cg_solve_scratch_bytes(const Fn *f, Val v, const Target *t) {
  Solve s = solve_of(f, v);
  return is_single(f, &s) || cg_solve_takes_lanes(f, &s) ? 0 : cg_panel_scratch_bytes(f, &s, t);
}

void cg_each_strip(Cg *c, const CgSolve *s, CgStripFn *fn, void *ctx) {
  uint32_t nv = vectors_of(c->f, s, c->t);
  int64_t elements = panel_elements(c->f, s, c->t);
  bool own = is_private(c->f, s, c->t);
  CgPanel p = {
      .at = own ? cg_block(c, c->f32, elements) : c->scratch, .nv = nv, .square = s->right ? cg_panel_square(c) : NULL};
  V width = cg_i64(c, cg_panel_width(c, nv)), batch = cg_n_matrices(c, ir_ins(c->f, s->b)->shape);
  V strips = cg_ceil_div_value(c, cg_dim(c, s->lanes), cg_panel_width(c, nv));
  for (Loop l = cg_each_shared(c, cg_mul(c, batch, strips), 1); cg_next(&l);) {
    V matrix = cg_div(c, l.i, strips), first = cg_mul(c, cg_sub(c, l.i, cg_mul(c, matrix, strips)), width);
    if (!own) p.at = cg_row(c, c->scratch, l.i, cg_i64(c, elements));
    fn(c, &p, matrix, first, ctx);
  }
}

static CgStrip strip_of(Cg *c, const Solve *s, V matrix, V n, V n_lanes, V first) {
  V one = cg_i64(c, 1), row = s->right ? one : n_lanes, lane = s->right ? n : one;
  V at = cg_mul(c, first, lane);
  if (s->is_reversed) at = cg_add(c, at, cg_mul(c, cg_sub(c, n, one), row)), row = cg_sub(c, cg_i64(c, 0), row);
  return (CgStrip){.at = cg_at(c, c->f32, matrix, at),
                   .row = row,
                   .lane = lane,
                   .is_turned = s->right,
                   .is_reversed = s->is_reversed,
                   .n_lanes = cg_sub(c, n_lanes, first)};
}

static CgTriangle triangle_of(Cg *c, const Solve *s, V matrix, V n) {
  V one = cg_i64(c, 1), zero = cg_i64(c, 0), row = s->is_turned ? one : n, k = s->is_turned ? n : one;
  if (!s->is_reversed) return (CgTriangle){matrix, row, k, s->is_unit};
  V last = cg_sub(c, cg_mul(c, n, n), one);
  return (CgTriangle){cg_at(c, c->f32, matrix, last), cg_sub(c, zero, row), cg_sub(c, zero, k), s->is_unit};
}

static void solve_single(Cg *c, Val v, const Solve *s) {
  V a = cg_ptr(c, s->a), b = cg_ptr(c, s->b), x = cg_ptr(c, v), n = cg_dim(c, s->n), one = cg_i64(c, 1);
  V square = cg_mul(c, n, n), zero = cg_i64(c, 0);
  for (Loop l = cg_each_shared(c, cg_n_matrices(c, ir_ins(c->f, s->b)->shape), 1); cg_next(&l);) {
    V at = cg_mul(c, l.i, n), own_a = s->shares_a ? zero : cg_mul(c, l.i, square);
    V first_t = s->is_reversed ? cg_sub(c, square, one) : zero, first_x = s->is_reversed ? cg_sub(c, n, one) : zero;
    cg_copy_run(c, DT_F32, cg_at(c, c->f32, x, at), cg_at(c, c->f32, b, at), n);
    CgSingle single = {.t = cg_at(c, c->f32, a, cg_add(c, own_a, first_t)),
                       .x = cg_at(c, c->f32, x, cg_add(c, at, first_x)),
                       .n = n,
                       .by_columns = s->is_turned,
                       .is_reversed = s->is_reversed,
                       .is_unit = s->is_unit};
    cg_substitute_single(c, &single);
  }
}

typedef struct {
  const Solve *s;
  V a, b, x, n, lanes;
} System;

static void solve_strip(Cg *c, const CgPanel *p, V matrix, V first, void *ctx) {
  const System *y = ctx;
  V at = cg_mul(c, matrix, cg_mul(c, y->n, y->lanes));
  V own_a = y->s->shares_a ? cg_i64(c, 0) : cg_mul(c, matrix, cg_mul(c, y->n, y->n));
  CgStrip from = strip_of(c, y->s, cg_at(c, c->f32, y->b, at), y->n, y->lanes, first);
  CgStrip to = strip_of(c, y->s, cg_at(c, c->f32, y->x, at), y->n, y->lanes, first);
  CgTriangle t = triangle_of(c, y->s, cg_at(c, c->f32, y->a, own_a), y->n);
  cg_panel_fill(c, p, &from, y->n);
  cg_substitute(c, &t, p, cg_i64(c, 0), y->n);
  cg_panel_drain(c, p, &to, y->n);
}

void cg_emit_solve(Cg *c, Val v) {
  Solve s = solve_of(c->f, v);
  if (is_single(c->f, &s)) {
    solve_single(c, v, &s);
    return;
  }
  if (cg_solve_takes_lanes(c->f, &s)) {
    cg_emit_solve_by_lanes(c, v, &s);
    return;
  }
  System y = {.s = &s, .a = cg_ptr(c, s.a), .b = cg_ptr(c, s.b), .x = cg_ptr(c, v)};
  y.n = cg_dim(c, s.n), y.lanes = cg_dim(c, s.lanes);
  cg_each_strip(c, &s, solve_strip, &y);
}
