// cholesky: computes U of A = U^T U by strips of columns. For L, its transpose, reads and writes are
// transposed.
//
//   strips 0 .. s-1 of U          for J = 0, 1, ..: rows of strip J's square, in all strips behind it
//   | D0  x   x   x |             D_J, the square on the diagonal, is factored by the worker of strip J as soon as rows J-1
//   |     D1  x   x |             of that strip are done, before its other strips: one wait for each J
//   |         D2  x |
//
// Large matrices: strip s belongs to worker s mod n_workers. Small ones: a worker has matrices of its own.
#include "codegen/emitters.h"
#include "codegen/linalg/linalg.h"

enum { PRIVATE_N = 128 };  // rows up to which a worker has all panels of a matrix on its stack

typedef struct {
  Cg *c;
  bool upper;
  uint32_t nv;
  int64_t elements;  // of a panel
  V a, out, panels, square;
  V n, n_strips, width;
  V worker, n_workers;  // of a matrix
} Cholesky;

static int64_t panel_elements(int64_t n, const Target *t) { return cg_larger(n, 1) * t->gemm_nv * t->vl; }
static int64_t all_elements(int64_t n, const Target *t) {
  return cg_larger(1, cg_ceil_div(n, (int64_t)t->gemm_nv * t->vl)) * panel_elements(n, t);
}
static int64_t bound_of(const Fn *f, Val v) {
  Shape s = ir_ins(f, v)->shape;
  return ir_dim_bound(f->prog, ir_dim_at(f->prog, s, ir_rank(f->prog, s) - 1));
}

int64_t cg_cholesky_scratch_bytes(const Fn *f, Val v, const Target *t) {
  int64_t n = bound_of(f, v);
  return n <= PRIVATE_N ? 0 : 4 * all_elements(n, t);
}

static CgPanel panel(const Cholesky *h, V strip) {
  Cg *c = h->c;
  return (CgPanel){cg_row(c, h->panels, strip, cg_i64(c, h->elements)), h->nv, h->square};
}

static V first_of(const Cholesky *h, V strip) { return cg_mul(h->c, strip, h->width); }
static V end_of(const Cholesky *h, V strip) {  // end of a strip: columns, and rows of U
  Cg *c = h->c;
  return cg_min(c, h->n, first_of(h, cg_add(c, strip, cg_i64(c, 1))));
}

static CgStrip strip_of(const Cholesky *h, V matrix, V strip) {
  Cg *c = h->c;
  V one = cg_i64(c, 1), first = first_of(h, strip), lane = h->upper ? one : h->n;
  return (CgStrip){.at = cg_row(c, matrix, first, lane),
                   .row = h->upper ? h->n : one,
                   .lane = lane,
                   .is_turned = !h->upper,
                   .n_lanes = cg_sub(c, h->n, first)};
}

static void factor_square(const Cholesky *h, V strip) {
  CgPanel p = panel(h, strip);
  cg_factor_diagonal(h->c, &p, first_of(h, strip), end_of(h, strip));
}

// Computes rows of square J in the worker's strips behind it, the next diagonal square first.
static void each_strip_behind(const Cholesky *h, V square) {
  Cg *c = h->c;
  V next = cg_add(c, square, cg_i64(c, 1)), past = cg_rem(c, next, h->n_workers);
  V ahead = cg_rem(c, cg_sub(c, cg_add(c, h->worker, h->n_workers), past), h->n_workers);
  V from = first_of(h, square);
  CgTriangle t = {
      .at = cg_at(c, c->f32, panel(h, square).at, cg_sub(c, cg_i64(c, 0), from)), .row = cg_i64(c, 1), .k = h->width};
  for (Loop l = cg_each_by(c, cg_add(c, next, ahead), h->n_strips, h->n_workers); cg_next(&l);) {
    CgPanel p = panel(h, l.i);
    cg_substitute(c, &t, &p, from, cg_add(c, from, h->width));
    for (If own = cg_when(c, cg_eq(c, l.i, next)); cg_then(&own);) factor_square(h, l.i);
  }
}

// Copies the worker's strips to their panels, or back, with zeros in the other triangle.
static void copy_strips(const Cholesky *h, V matrix, bool is_out) {
  Cg *c = h->c;
  for (Loop l = cg_each_by(c, h->worker, h->n_strips, h->n_workers); cg_next(&l);) {
    CgPanel p = panel(h, l.i);
    CgStrip s = strip_of(h, matrix, l.i);
    V end = end_of(h, l.i);
    if (is_out) cg_panel_drain(c, &p, &s, end), cg_strip_clear(c, &s, h->nv, end, h->n);
    else cg_panel_fill(c, &p, &s, end);
  }
}

static void wait_for_strips(const Cholesky *h) { cg_team_barrier(h->c, cg_i32(h->c, 0), h->n_workers); }

static void factor(const Cholesky *h, V number) {
  Cg *c = h->c;
  V at = cg_mul(c, number, cg_mul(c, h->n, h->n)), zero = cg_i64(c, 0);
  copy_strips(h, cg_at(c, c->f32, h->a, at), false);
  for (If first = cg_when(c, cg_eq(c, h->worker, zero)); cg_then(&first);) factor_square(h, zero);
  for (Loop l = cg_count(c, h->n_strips); cg_next(&l);) {
    wait_for_strips(h);
    each_strip_behind(h, l.i);
  }
  wait_for_strips(h);
  copy_strips(h, cg_at(c, c->f32, h->out, at), true);
}

void cg_emit_cholesky(Cg *c, Val v) {
  Shape s = ir_ins(c->f, v)->shape;
  uint32_t rank = ir_rank(c->f->prog, s);
  int64_t most = bound_of(c->f, v);
  bool by_team = most > PRIVATE_N;
  Cholesky h = {.c = c, .upper = ir_attr(c->f, v, KEY_upper) != NULL, .nv = c->t->gemm_nv};
  h.elements = panel_elements(most, c->t);
  h.a = cg_ptr(c, ir_arg(c->f, v, 0)), h.out = cg_ptr(c, v);
  h.panels = by_team ? c->scratch : cg_block(c, c->f32, all_elements(most, c->t));
  h.square = h.upper ? NULL : cg_panel_square(c);
  h.n = cg_dim(c, ir_dim_at(c->f->prog, s, rank - 1));
  h.width = cg_i64(c, cg_panel_width(c, h.nv));
  h.n_strips = cg_ceil_div_value(c, h.n, cg_panel_width(c, h.nv));
  h.worker = by_team ? c->worker : cg_i64(c, 0), h.n_workers = by_team ? c->n_workers : cg_i64(c, 1);
  V batch = cg_n_matrices(c, s), lo = cg_i64(c, 0), hi;
  if (by_team) hi = batch;
  else cg_share(c, batch, 1, &lo, &hi);
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);) factor(&h, l.i);
}

// ---- the class
int64_t cg_linalg_scratch_bytes(const Fn *f, Val v, const Target *t) {
  switch (ir_ins(f, v)->op) {
  case OP_cholesky: return cg_cholesky_scratch_bytes(f, v, t);
  case OP_solve_triangular: return cg_solve_scratch_bytes(f, v, t);
  case OP_lu: return cg_lu_takes_lanes(f, v, t) ? 0 : cg_unread_bytes(f, v);
  case OP_lu_solve: return cg_lu_solve_scratch_bytes(f, v, t);
  case OP_qr: return cg_qr_scratch_bytes(f, v, t);
  case OP_eigh: return cg_eigh_scratch_bytes(f, v, t);
  case OP_svd: return cg_svd_scratch_bytes(f, v, t);
  default: return 0;
  }
}

bool cg_emit_linalg(Cg *c) {
  Val v = {c->k->first};
  switch (ir_ins(c->f, v)->op) {
  case OP_cholesky: cg_emit_cholesky(c, v); break;
  case OP_lu: cg_emit_lu(c, v); break;
  case OP_qr: cg_emit_qr(c, v); break;
  case OP_eigh: cg_emit_eigh(c, v); break;
  case OP_svd: cg_emit_svd(c, v); break;
  case OP_lu_solve: cg_emit_lu_solve(c, v); break;
  default: cg_emit_solve(c, v);
  }
  return true;
}
