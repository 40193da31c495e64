// Strategy lanes of products (gemm.h): many rows times a matrix of 2 to 12 rows and up to 4 columns, such as points in space, or so
// for each matrix of a batch. A lane is a row: vl rows lie side by side, so that each of their columns is every k-th lane of k
// vectors.
//
//   a0 b0 c0 a1 b1 c1 ..   ->   a0 a1 ..   b0 b1 ..   c0 c1 ..   ->   sums by column   ->   stored by turns
#include "codegen/lanes.h"
#include "codegen/gemm/gemm.h"

enum { MOST_K = 12, MOST_N = 4, BLOCKS = 8 };  // BLOCKS: of vl rows, for which a worker loads B once

static bool is_narrow(const Fn *f, Dim d, int64_t least, int64_t most) {
  int64_t n = ir_dim_bound(f->prog, d);
  return ir_dim_is_const(f->prog, d) && n >= least && n <= most;
}

// What skinny takes with an epilogue it takes without one, too, and sums begin with the bias, as those of strategy tiled do: with
// an epilogue and without one they have the same order.
bool cg_gemm_lanes_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  bool is_plain = cg_gemm_is_dense(p) && !p->ta && !p->apart && !p->epilogue && !p->prologue;
  return !p->is_conv && is_plain && is_narrow(f, p->k, 2, MOST_K) && is_narrow(f, p->n, 1, MOST_N) &&
         p->m_max >= t->vl && !cg_gemm_is_skinny(p, t);
}

void cg_gemm_lanes_plan(const Fn *f, GemmPlan *p, const Target *t) {
  (void)f;
  p->mr = 1, p->nv = 1, p->width = MOST_N;
  p->units = p->batch_max * cg_ceil_div(p->m_max, BLOCKS * (int64_t)t->vl);
}

void cg_gemm_lanes_stack(Gemm *g) { (void)g; }

typedef struct {
  V a, out;                                 // of one product of the batch
  V weight[MOST_K * MOST_N], bias[MOST_N];  // each in all lanes
} Matrix;

// vl rows from `row` on, or, unless is_whole, those of them that there are.
static void some_rows(Gemm *g, const Matrix *m, V row, bool is_whole) {
  Cg *c = g->c;
  uint32_t k = (uint32_t)g->p->k_max, n = (uint32_t)g->p->n_max, vl = c->t->vl;
  V x[MOST_K], y[MOST_N], left = cg_sub(c, g->m, row);
  for (uint32_t j = 0; j < k; j++) {
    V mask =
        is_whole ? NULL : cg_numbers_below(c, cg_numbers_from(c, cg_i64(c, j * vl), 1), cg_mul(c, left, cg_i64(c, k)));
    x[j] = cg_get_masked(c, c->vf, cg_row(c, m->a, row, cg_i64(c, k)), cg_i64(c, j * vl), mask);
  }
  V wide = cg_join_vectors(c, x, k);
  for (uint32_t i = 0; i < n; i++) y[i] = g->bias ? m->bias[i] : cg_zeros(c);
  for (uint32_t j = 0; j < k; j++) {
    V column = cg_every_lane(c, wide, j, k);
    for (uint32_t i = 0; i < n; i++) y[i] = cg_fma(c, column, m->weight[j * MOST_N + i], y[i]);
  }
  V to = cg_row(c, m->out, row, cg_i64(c, n)), zero = cg_i64(c, 0);
  cg_store_wide(c, cg_vectors_by_turns(c, y, n), n, to, zero, zero, is_whole ? NULL : cg_mul(c, left, cg_i64(c, n)));
}

static Matrix matrix_of(Gemm *g, V batch) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  int64_t k = p->k_max, n = p->n_max;
  V b = cg_at(c, c->f32, g->b, cg_gemm_batch(g, LAID_B, batch));
  Matrix m = {.a = cg_at(c, c->f32, g->a, cg_gemm_batch(g, LAID_A, batch)),
              .out = cg_row(c, g->out, batch, cg_mul(c, g->m, cg_i64(c, n)))};
  for (int64_t j = 0; j < k; j++)
    for (int64_t i = 0; i < n; i++)
      m.weight[j * MOST_N + i] = cg_splat(c, cg_get(c, c->f32, b, cg_i64(c, p->tb ? i * k + j : j * n + i)));
  for (int64_t i = 0; i < n && g->bias; i++) m.bias[i] = cg_splat(c, cg_get(c, c->f32, g->bias, cg_i64(c, i)));
  return m;
}

void cg_gemm_lanes_emit(Gemm *g) {
  Cg *c = g->c;
  V rows = cg_i64(c, BLOCKS * (int64_t)c->t->vl), per_matrix = cg_ceil_div_value(c, g->m, BLOCKS * c->t->vl);
  for (Loop l = cg_each_shared(c, cg_mul(c, g->batch, per_matrix), 1); cg_next(&l);) {
    V batch = cg_div(c, l.i, per_matrix), first = cg_mul(c, cg_rem(c, l.i, per_matrix), rows);
    Matrix m = matrix_of(g, batch);
    for (Loop r = cg_each_by(c, first, cg_min(c, cg_add(c, first, rows), g->m), cg_vl(c)); cg_next(&r);)
      for (If s = cg_either(c, cg_le(c, cg_add(c, r.i, cg_vl(c)), g->m)); cg_then(&s);)
        some_rows(g, &m, r.i, s.is_true);
  }
}
