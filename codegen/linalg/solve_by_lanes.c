// solve_triangular of many small systems: a matrix each lane, element by element in the order of solve.c, so the same bits.
//
// Element (i, r) of vl right-hand sides is a vector at (i n_lanes + r) vl of the worker's block. Lanes without a system solve T = 1, b = 0.
#include "codegen/linalg/linalg.h"

enum { MOST_N = 8, LEAST_SYSTEMS = 8 };

typedef struct {
  const CgSolve *s;
  V n, lanes, x;
  V of_a, of_b, mask;  // where systems begin
} Group;

bool cg_solve_takes_lanes(const Fn *f, const CgSolve *s) {
  int64_t batch = cg_axis_bound(f->prog, ir_ins(f, s->b)->shape, 0, ir_rank(f->prog, ir_ins(f, s->b)->shape) - 2);
  bool small = ir_dim_bound(f->prog, s->n) <= MOST_N && ir_dim_bound(f->prog, s->lanes) <= MOST_N;
  return small && batch >= LEAST_SYSTEMS && !s->shares_a;
}

static V from_end(Cg *c, const Group *g, V i) {
  return g->s->is_reversed ? cg_sub(c, cg_sub(c, g->n, cg_i64(c, 1)), i) : i;
}

// Row i and column k of the lower triangle
static V triangle_at(Cg *c, const Group *g, V i, V k) {
  V row = from_end(c, g, i), column = from_end(c, g, k);
  V at = g->s->is_turned ? cg_index(c, column, g->n, row) : cg_index(c, row, g->n, column);
  return cg_gather(c, c->f32, cg_ptr(c, g->s->a), cg_iadd(c, g->of_a, cg_splat(c, at)), g->mask);
}

static V side_at(Cg *c, const Group *g, V i, V r) {
  V row = from_end(c, g, i), at = g->s->right ? cg_index(c, r, g->n, row) : cg_index(c, row, g->lanes, r);
  return cg_iadd(c, g->of_b, cg_splat(c, at));
}

static V place(Cg *c, const Group *g, V i, V r) {
  return f32_at(c, g->x, cg_mul(c, cg_index(c, i, g->lanes, r), cg_vl(c)));
}

static V get(Cg *c, const Group *g, V i, V r) { return cg_load(c, c->vf, place(c, g, i, r)); }

static void solve_row(Cg *c, const Group *g, V i) {
  for (Loop k = cg_count(c, i); cg_next(&k);) {
    V minus = cg_fneg(c, triangle_at(c, g, i, k.i));
    for (Loop r = cg_count(c, g->lanes); cg_next(&r);)
      cg_store(c, cg_fma(c, minus, get(c, g, k.i, r.i), get(c, g, i, r.i)), place(c, g, i, r.i));
  }
  if (g->s->is_unit) return;
  V one = cg_splat(c, cg_f32(c, 1)), inverse = cg_fdiv(c, one, cg_select(c, g->mask, triangle_at(c, g, i, i), one));
  for (Loop r = cg_count(c, g->lanes); cg_next(&r);)
    cg_store(c, cg_fmul(c, get(c, g, i, r.i), inverse), place(c, g, i, r.i));
}

void cg_emit_solve_by_lanes(Cg *c, Val v, const CgSolve *s) {
  const Prog *p = c->f->prog;
  V n = cg_dim(c, s->n), lanes = cg_dim(c, s->lanes), systems = cg_n_matrices(c, ir_ins(c->f, s->b)->shape);
  int64_t most = cg_larger(1, ir_dim_bound(p, s->n) * ir_dim_bound(p, s->lanes));
  Group g = {.s = s, .n = n, .lanes = lanes, .x = cg_block(c, c->f32, most * c->t->vl)};
  V b = cg_ptr(c, s->b), out = cg_ptr(c, v);
  for (Loop l = cg_each_shared(c, cg_ceil_div_value(c, systems, c->t->vl), 1); cg_next(&l);) {
    V first = cg_mul(c, l.i, cg_vl(c));
    g.of_a = cg_lane_offsets(c, first, cg_mul(c, n, n)), g.of_b = cg_lane_offsets(c, first, cg_mul(c, n, lanes));
    g.mask = cg_mask(c, cg_sub(c, systems, first));
    for (Loop i = cg_count(c, n); cg_next(&i);)
      for (Loop r = cg_count(c, lanes); cg_next(&r);)
        cg_store(c, cg_gather(c, c->f32, b, side_at(c, &g, i.i, r.i), g.mask), place(c, &g, i.i, r.i));
    for (Loop i = cg_count(c, n); cg_next(&i);) solve_row(c, &g, i.i);
    for (Loop i = cg_count(c, n); cg_next(&i);)
      for (Loop r = cg_count(c, lanes); cg_next(&r);)
        cg_scatter(c, get(c, &g, i.i, r.i), out, side_at(c, &g, i.i, r.i), g.mask);
  }
}
