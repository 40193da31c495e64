// Strategy skinny: products of few rows with a matrix that is stored [N, K], as dot products. B is read once, in place;
// nothing is packed.
//
//   tile: `mr` rows of A x `nr` rows of B, one accumulator each; lane j of it sums the k with k % vl == j. At the end
//   the lanes of vl accumulators are added at once, by halves, into one vector of vl results.
//
// A unit is vl columns of the result; its sums lie in `strip` as [m][vl] until the epilogue is done. They start from
// the bias; KC blocks, so short that a tile's rows of A stay in L1, are added in order.
#include "codegen/gemm/gemm.h"
#include "codegen/tuning.h"

#include <stdio.h>

enum { TUNED_SKINNY(TUNE) };
enum { MAX_ACC = 16 };

bool cg_gemm_skinny_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  (void)f;
  return cg_gemm_is_skinny(p, t);
}

void cg_gemm_skinny_plan(const Fn *f, GemmPlan *p, const Target *t) {
  (void)f;
  cg_gemm_plan_dot(p, t);
}

void cg_gemm_skinny_stack(Gemm *g) { g->strip = cg_gemm_on_stack(g->c, g->p->m_max * g->p->width); }

static uint32_t columns_of(const Target *t, uint32_t mr, int64_t n) {
  uint32_t nr = 1;
  while (nr * 2 * mr <= t->dot_accumulators && nr < MOST_COLUMNS && nr < t->vl && nr < n) nr *= 2;
  return nr;
}

// ---- the tile
typedef struct {
  uint32_t mr, nr;
  bool ahead;   // B is prefetched
  bool chains;  // one result: several accumulator chains hide the latency of additions
} DotSpec;
// there: rows of B that exist, at least 1; the last one stands in. a_row, b_row: elements between rows; k: how
// many to sum; ahead: elements from what is read of B to what will be read about a block later
enum { D_A, D_B, D_TO, D_A_ROW, D_B_ROW, D_K, D_THERE, D_AHEAD, D_PARAMS };

static void step(Cg *c, const DotSpec *s, V *a, V *b, V k, V mask, V *acc) {
  V x[MAX_ACC], y[MAX_ACC];
  for (uint32_t j = 0; j < s->nr; j++) {
    V at = cg_at(c, c->f32, b[j], k);
    y[j] = cg_load_masked(c, c->vf, at, mask);
  }
  for (uint32_t m = 0; m < s->mr; m++) {
    V at = cg_at(c, c->f32, a[m], k);
    x[m] = cg_load_masked(c, c->vf, at, mask);
    for (uint32_t j = 0; j < s->nr; j++) acc[m * s->nr + j] = cg_fma(c, x[m], y[j], acc[m * s->nr + j]);
  }
}

static void store_sums(Cg *c, const DotSpec *s, V *acc, V to) {
  uint32_t vl = c->t->vl, n = s->mr * s->nr;
  for (uint32_t e = 0; e < n; e += vl) {
    uint32_t here = n - e < vl ? n - e : vl;
    V sums = cg_dot_sums(c, acc + e, here);
    for (uint32_t i = 0; i < here; i += s->nr) {
      V row = s->nr < vl ? cg_some_lanes(c, sums, i, s->nr) : sums;
      V at = cg_at(c, c->f32, to, cg_i64(c, (int64_t)((e + i) / s->nr) * vl));
      cg_store(c, cg_fadd(c, cg_load(c, LLVMTypeOf(row), at), row), at);
    }
  }
}

// Whole turns of all chains from 0 on, added up by halves; gives where they end.
static V sum_chains(Cg *c, const DotSpec *s, V *a, V *b, V whole, V *sum) {
  int64_t vl = c->t->vl;
  V acc[CHAINS], turn = cg_i64(c, CHAINS * vl), end = cg_sub(c, whole, cg_rem(c, whole, turn));
  for (uint32_t j = 0; j < CHAINS; j++) acc[j] = cg_zeros(c);
  for (Loop l = cg_carry(c, cg_i64(c, 0), end, turn, acc, CHAINS); cg_next(&l);)
    for (uint32_t j = 0; j < CHAINS; j++) step(c, s, a, b, cg_add(c, l.i, cg_i64(c, j * vl)), NULL, &acc[j]);
  for (uint32_t n = CHAINS / 2; n > 0; n /= 2)
    for (uint32_t j = 0; j < n; j++) acc[j] = cg_fadd(c, acc[j], acc[j + n]);
  *sum = acc[0];
  return end;
}

static void make_dot(Cg *c, V fn, void *ctx) {
  const DotSpec *s = ctx;
  V arg[D_PARAMS], a[MAX_ACC], b[MAX_ACC], acc[MAX_ACC];
  for (uint32_t i = 0; i < D_PARAMS; i++) arg[i] = LLVMGetParam(fn, i);
  V last = cg_sub(c, arg[D_THERE], cg_i64(c, 1)), vl = cg_vl(c);
  for (uint32_t m = 0; m < s->mr; m++) a[m] = cg_row(c, arg[D_A], cg_i64(c, m), arg[D_A_ROW]);
  for (uint32_t j = 0; j < s->nr; j++) b[j] = cg_row(c, arg[D_B], cg_min(c, cg_i64(c, j), last), arg[D_B_ROW]);
  for (uint32_t e = 0; e < s->mr * s->nr; e++) acc[e] = cg_zeros(c);
  V rest = cg_rem(c, arg[D_K], vl), whole = cg_sub(c, arg[D_K], rest), begin = cg_i64(c, 0);
  if (s->chains) begin = sum_chains(c, s, a, b, whole, acc);
  for (Loop l = cg_carry(c, begin, whole, vl, acc, s->mr * s->nr); cg_next(&l);) {
    for (uint32_t j = 0; s->ahead && j < s->nr; j++)
      cg_prefetch_l2(c, cg_at(c, c->f32, b[j], cg_add(c, l.i, arg[D_AHEAD])));
    step(c, s, a, b, l.i, NULL, acc);
  }
  for (Loop l = cg_carry(c, whole, arg[D_K], vl, acc, s->mr * s->nr); cg_next(&l);)  // once or not at all
    step(c, s, a, b, whole, cg_mask(c, rest), acc);
  store_sums(c, s, acc, arg[D_TO]);
  LLVMBuildRetVoid(c->b);
}

static void call_dot(Cg *c, DotSpec s, V *arg) {
  char name[32];
  snprintf(name, sizeof name, "dot%ux%u%s%s", s.mr, s.nr, s.ahead ? ".ahead" : "", s.chains ? ".chains" : "");
  cg_call_helper(c, name, arg, D_PARAMS, make_dot, &s);
}

// ---- a unit
typedef struct {
  V n0, n;    // columns
  V out;      // where they are stored, of the slice
  V row;      // the first one, of the result
  V k0, n_k;  // a KC block
  V ahead;    // from it to the next one: further along the rows of B, or of the next unit
} Unit;

// `count` tiles of mr rows from row m0 on, against the nr rows of B for column `at` of the unit.
static void tile_rows(Gemm *g, const Unit *u, DotSpec s, V m0, V count, V at) {
  Cg *c = g->c;
  V b = cg_index(c, cg_add(c, u->n0, at), g->b_ld, u->k0);
  for (Loop l = cg_count(c, count); cg_next(&l);) {
    V m = cg_add(c, m0, cg_mul(c, l.i, cg_i64(c, s.mr)));
    V a = cg_index(c, m, g->a_ld, u->k0), to = cg_index(c, m, cg_i64(c, g->p->width), at);
    V arg[D_PARAMS] = {cg_at(c, c->f32, g->a, a),
                       cg_at(c, c->f32, g->b, b),
                       cg_at(c, c->f32, g->strip, to),
                       g->a_ld,
                       g->b_ld,
                       u->n_k,
                       cg_sub(c, u->n, at),
                       u->ahead};
    call_dot(c, s, arg);
  }
}

static void unit_sums(Gemm *g, const Unit *u) {
  Cg *c = g->c;
  uint32_t mr = g->p->mr, nr = columns_of(c->t, mr, g->p->n_max);
  V full = cg_div(c, g->m, cg_i64(c, mr)), done = cg_mul(c, full, cg_i64(c, mr));
  V left = cg_sub(c, g->m, done);
  int64_t known;
  bool ahead = cg_gemm_b_exceeds_llc(g->p, c->t) && mr >= AHEAD_ROWS, chains = g->p->m_max == 1 && g->p->n_max == 1;
  for (Loop l = cg_count_by(c, u->n, cg_i64(c, nr)); cg_next(&l);) {
    tile_rows(g, u, (DotSpec){mr, nr, ahead, chains}, cg_i64(c, 0), full, l.i);
    if (!cg_const_value(left, &known)) tile_rows(g, u, (DotSpec){1, nr, false, false}, done, left, l.i);
    else if (known) tile_rows(g, u, (DotSpec){(uint32_t)known, nr, false, false}, done, cg_i64(c, 1), l.i);
  }
}

// Initialises, or stores, one vector of every row of the unit.
static void unit_begin(Gemm *g, const Unit *u) {
  Cg *c = g->c;
  V start = cg_zeros(c);
  if (g->bias) start = cg_get_masked(c, c->vf, g->bias, u->n0, cg_mask(c, u->n));
  for (Loop l = cg_count(c, g->m); cg_next(&l);) cg_put(c, start, g->strip, cg_mul(c, l.i, cg_i64(c, g->p->width)));
}

static void unit_end(Gemm *g, const Unit *u) {
  Cg *c = g->c;
  V width = cg_i64(c, g->p->width), mask = cg_mask(c, u->n);
  if (g->epilogue) {
    cg_gemm_epilogue(g, u->row, g->m, u->n0, u->n, g->strip, width);
    return;
  }
  for (Loop l = cg_count(c, g->m); cg_next(&l);) {
    V sums = cg_get(c, c->vf, g->strip, cg_mul(c, l.i, width));
    cg_put_masked(c, sums, u->out, cg_index(c, cg_gemm_rows(g, l.i), g->n, u->n0), mask);
  }
}

// Moves to the operands' matrices of a batch.
static void enter_matrix(Gemm *g, V which) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  if (!p->batch.n) return;
  g->a = cg_at(c, c->f32, g->a, cg_gemm_batch(g, LAID_A, which));
  if (p->b_has_batch) g->b = cg_at(c, c->f32, g->b, cg_gemm_batch(g, LAID_B, which));
}

void cg_gemm_skinny_emit(Gemm *g) {
  Cg *c = g->c;
  V width = cg_i64(c, g->p->width), step = cg_i64(c, g->p->kc), lo, hi, begin, end;
  bool several = g->p->batch.n || g->slices;  // matrices or slices
  cg_share(c, several ? cg_mul(c, g->batch, g->panels) : g->panels, 1, &lo, &hi);
  for (Loop unit = cg_each(c, lo, hi); cg_next(&unit);) {
    V which = several ? cg_div(c, unit.i, g->panels) : cg_i64(c, 0), zero = cg_i64(c, 0);
    Unit u = {.n0 = cg_mul(c, several ? cg_rem(c, unit.i, g->panels) : unit.i, width)};
    u.n = cg_min(c, width, cg_sub(c, g->n, u.n0));
    u.row = several ? cg_gemm_first_row(g, which) : zero;
    u.out = cg_row(c, g->slices ? g->sums : g->out, u.row, g->n);
    Gemm one = *g;
    enter_matrix(&one, which);
    cg_gemm_k_range(g, g->slices ? which : zero, &begin, &end);
    unit_begin(g, &u);
    for (Loop block = cg_each_by(c, begin, end, step); cg_next(&block);) {
      u.k0 = block.i, u.n_k = cg_min(c, step, cg_sub(c, end, u.k0));
      V last = cg_ge(c, cg_add(c, u.k0, u.n_k), end);
      u.ahead = cg_select(c, last, cg_sub(c, cg_mul(c, width, g->b_ld), cg_sub(c, u.k0, begin)), u.n_k);
      unit_sums(&one, &u);
    }
    unit_end(g, &u);
  }
}
